/* SPDX-License-Identifier: Apache-2.0 */
#include "route/partitioner.h"

#include "manager/route/route_fixture.h"

#include <time.h>

#include "base/array.h"
#include "base/xalloc.h"

#define PODS ((struct partition_resource){SLICE(""), SLICE("pods")})

enum { SHARDS_MAX = 3 };

#define REST PARTITION_REST
#define HELD PARTITION_HELD

/* ---- one class ---- */

/* `flags`: c: confirmed, g: can gain, h: hold, s: shares with all. `published` NULL: as `wanted`;
 * "-": nothing, and of `wanted` that it is not known. */
struct given {
    const char *wanted;
    const char *flags;
    const char *published;
};

struct facts {
    struct partition_facts facts;
    struct partition_shard shards[SHARDS_MAX];
};

static struct rules *rules_or_nothing(const char *text)
{
    return strcmp(text, "-") == 0 ? NULL : fixture_rules(text);
}

static void facts_init(struct facts *f, const struct given *given, size_t count)
{
    static const char *const keys[SHARDS_MAX] = {"n/a", "n/b", "n/c"};
    *f = (struct facts){.facts = {.shards = f->shards, .count = count}};
    for (size_t i = 0; i < count; i++) {
        const struct given *g = &given[i];
        f->shards[i] = (struct partition_shard){
            .key = keys[i],
            .wanted = rules_or_nothing(g->wanted),
            .published = rules_or_nothing(g->published != NULL ? g->published : g->wanted),
            .confirmed = strchr(g->flags, 'c') != NULL,
            .can_gain = strchr(g->flags, 'g') != NULL,
            .hold = strchr(g->flags, 'h') != NULL,
            .shares_with = strchr(g->flags, 's') != NULL ? "*" : NULL,
        };
    }
}

static void facts_deinit(struct facts *f)
{
    for (size_t i = 0; i < f->facts.count; i++) {
        rules_unref((struct rules *)f->shards[i].wanted);
        rules_unref((struct rules *)f->shards[i].published);
    }
}

static void owns(struct partition *p, const char *ns, int owner)
{
    const struct partition_name name = {.name = ns, .owner = owner};
    partition_init(p);
    partition_set_names(p, &name, 1);
}

/* The owner that namespace x gets next, if it has that one. */
static int next_of(const struct facts *f, int owner)
{
    struct partitioner *p = partitioner_new(&f->facts);
    struct partition present;
    struct partition next;
    struct route_verdict why;
    owns(&present, "x", owner);
    assert_int_equal(partitioner_next(p, &PODS, &present, &next, &why), ROUTE_ROUTED);
    int got = partition_owner(&next, "x");
    partition_deinit(&present);
    partition_deinit(&next);
    partitioner_free(p);
    return got;
}

#define IN "N in (x)"
#define OUT "N in (y)"

static void the_next_owner_of_a_class(void **state)
{
    (void)state;
    static const struct {
        struct given shards[2];
        int owner;
        int next;
    } cases[] = {
        /* The first owner. */
        {{{IN, "cg", NULL}, {OUT, "cg", NULL}}, REST, 0},
        {{{OUT, "cg", NULL}, {IN, "cg", NULL}}, REST, 1},
        {{{IN, "c", NULL}, {OUT, "cg", NULL}}, REST, REST}, /* not admitted */
        {{{IN, "g", NULL}, {OUT, "cg", NULL}}, REST, REST}, /* not confirmed */
        {{{IN, "cg", OUT}, {OUT, "cg", NULL}}, REST, REST}, /* not published */
        {{{IN, "cg", "-"}, {OUT, "cg", NULL}}, REST, REST},
        {{{"-", "cg", IN}, {OUT, "cg", NULL}}, REST, 0}, /* its spec is not known */
        {{{OUT, "cg", NULL}, {OUT, "cg", NULL}}, REST, REST},
        {{{IN, "cg", NULL}, {IN, "cg", NULL}}, REST, 0}, /* of two the first */

        /* It stays. */
        {{{IN, "cg", NULL}, {OUT, "cg", NULL}}, 0, 0},
        {{{IN, "", NULL}, {OUT, "cg", NULL}}, 0, 0},  /* without pods */
        {{{IN, "cg", NULL}, {IN, "cg", NULL}}, 1, 1}, /* whoever has it keeps it */
        {{{OUT, "cg", IN}, {IN, "cg", OUT}}, 0, 0},   /* asked for only */
        {{{OUT, "cg", NULL}, {IN, "cg", OUT}}, 0, 0}, /* released, not gained yet */
        {{{OUT, "cg", NULL}, {IN, "g", NULL}}, 0, 0}, /* published, not confirmed */
        {{{OUT, "", IN}, {OUT, "cg", NULL}}, 0, 0},

        /* It moves. */
        {{{OUT, "cg", NULL}, {IN, "cg", NULL}}, 0, 1},
        {{{OUT, "", NULL}, {IN, "cg", NULL}}, 0, 1},
        {{{IN, "g", NULL}, {IN, "cg", NULL}},
         0,
         1}, /* its pods are away, and another has it, too */
        {{{OUT, "cg", NULL}, {OUT, "cg", NULL}}, 0, REST},
        {{{OUT, "cg", IN}, {IN, "cg", NULL}}, REST, 1}, /* not to who loses it */
        {{{OUT, "cg", IN}, {IN, "g", NULL}}, REST, REST},

        /* With Hold. */
        {{{IN, "cgh", NULL}, {OUT, "cgh", NULL}}, 0, 0},
        {{{IN, "h", NULL}, {OUT, "cgh", NULL}}, 0, 0}, /* without pods: failurePolicy decides */
        {{{IN, "gh", NULL}, {OUT, "cgh", NULL}}, REST, HELD},
        {{{OUT, "cgh", IN}, {IN, "cgh", OUT}}, 0, HELD}, /* asked for: before it is released */
        {{{OUT, "cgh", NULL}, {IN, "gh", NULL}}, HELD, HELD},
        {{{OUT, "cgh", NULL}, {IN, "cgh", NULL}}, HELD, 1},
        {{{OUT, "cgh", IN}, {IN, "cgh", OUT}}, HELD, HELD}, /* not back */
        {{{OUT, "cgh", IN}, {IN, "cg", OUT}}, 0, HELD},     /* of the loser */
        {{{OUT, "cg", IN}, {IN, "cgh", OUT}}, 0, HELD},     /* of the gainer */
        {{{OUT, "cgh", IN}, {OUT, "cgh", NULL}}, 0, REST},  /* before it is released, too */
        {{{OUT, "cgh", NULL}, {OUT, "cgh", NULL}}, 0, REST},
        {{{OUT, "cgh", NULL}, {OUT, "cgh", NULL}}, HELD, REST},
        {{{IN, "cg", NULL}, {OUT, "cg", NULL}}, HELD, 0},
        {{{IN, "g", NULL}, {OUT, "cgh", NULL}}, HELD, HELD},
        {{{IN, "g", NULL}, {OUT, "cg", NULL}}, HELD, REST}, /* no one holds it any more */

        /* A selector that matches nothing asks for no control label, and shows nothing. */
        {{{"k,!k", "cg", NULL}, {OUT, "cg", NULL}}, REST, REST},
        {{{"k,!k", "cg", NULL}, {"C=true,N=x", "cg", NULL}}, REST, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct facts f;
        facts_init(&f, cases[i].shards, 2);
        int got = next_of(&f, cases[i].owner);
        if (got != cases[i].next) {
            fail_msg("case %zu (%s | %s): %d", i, cases[i].shards[0].wanted,
                     cases[i].shards[1].wanted, got);
        }
        facts_deinit(&f);
    }
}

/* Between two edits of which the first one takes a class away it stays where it is; with Hold
 * nobody is asked. */
static void what_nobody_wants_stays_for_a_moment(void **state)
{
    (void)state;
    static const struct {
        struct given shards[2];
        int owner;
        int next;
    } cases[] = {
        {{{OUT, "cgh", IN}, {OUT, "cgh", NULL}}, 0, HELD},
        {{{OUT, "cgh", NULL}, {OUT, "cg", NULL}}, HELD, HELD},
        {{{OUT, "cg", NULL}, {OUT, "cg", NULL}}, HELD, REST},
        {{{OUT, "cgh", NULL}, {OUT, "cgh", NULL}}, REST, REST},
        {{{OUT, "cg", IN}, {OUT, "cg", NULL}}, 0, 0},
        {{{OUT, "cg", NULL}, {OUT, "cg", NULL}}, 0, 0}, /* also when it does not show it any more */
        {{{OUT, "cg", NULL}, {IN, "cg", NULL}}, 0, 1},
        {{{OUT, "cgh", NULL}, {IN, "cgh", NULL}}, HELD, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct facts f;
        facts_init(&f, cases[i].shards, 2);
        f.facts.restless = true;
        assert_int_equal(next_of(&f, cases[i].owner), cases[i].next);
        facts_deinit(&f);
    }
}

/* ---- all classes ---- */

static void print(const struct partition *p, struct buf *out)
{
    for (size_t hash = 0; hash < SHARDING_HASH_SIZE; hash++) {
        if (p->hashes[hash] != REST) {
            (void)buf_printf(out, "%zu=%d ", hash, p->hashes[hash]);
        }
    }
    for (size_t i = 0; i < p->count; i++) {
        (void)buf_printf(out, "%s=%d ", p->names[i].name, p->names[i].owner);
    }
    (void)buf_append_char(out, '\0');
}

static void expect_partition(const struct facts *f, const char *want)
{
    struct buf text = BUF_INIT(100000);
    struct partitioner *p = partitioner_new(&f->facts);
    struct partition present;
    struct partition next;
    struct route_verdict why;
    partition_init(&present);
    assert_int_equal(partitioner_next(p, &PODS, &present, &next, &why), ROUTE_ROUTED);
    print(&next, &text);
    assert_string_equal((const char *)buf_data(&text), want);
    buf_reset(&text);
    partition_deinit(&next);
    partitioner_free(p);
}

/* The hash of "b" is 2, of "z" 26. */
static void any_pod_is_asked_about_where_the_shards_are(void **state)
{
    static const char *const own[] = {"b", "x"};
    static const struct {
        struct given shards[2];
        const char *want;
    } cases[] = {
        {{{"H in (2,3)", "cg", NULL}, {OUT, "cg", NULL}}, "2=0 3=0 b=-1 y=1 "},
        {{{"N in (b,z)", "cg", NULL}, {"N in (b)", "cg", NULL}}, "z=0 "},
        {{{"H in (2)", "cgh", NULL}, {"H in (2)", "h", NULL}}, "2=0 b=-1 "},
        {{{"N in (b),t=a", "cg", NULL}, {"N in (b),t=b", "cg", NULL}}, ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct facts f;
        facts_init(&f, cases[i].shards, 2);
        f.facts.own = own;
        f.facts.own_count = 2;
        expect_partition(&f, cases[i].want);
        assert_int_equal(next_of(&f, 0), REST); /* which has been otherwise */
        assert_int_equal(next_of(&f, HELD), REST);
        facts_deinit(&f);
    }
}

/* The hash of "a" is 1, and so on up to "z"; of "ops" it is 2, of "x" 24. */
static void names_that_go_with_their_hash_are_left_out(void **state)
{
    (void)state;
    static char *shared_names[] = {"ops"};
    const struct sharing_set shared = {.names = shared_names, .count = 1};
    static const struct {
        struct given shards[SHARDS_MAX];
        bool shared;
        const char *want;
    } cases[] = {
        {{{"H in (1,2)", "cg", NULL}, {"H in (3)", "cg", NULL}}, false, "1=0 2=0 3=1 "},
        {{{"H in (1,2),N notin (a)", "cg", NULL}, {"N in (a)", "cg", NULL}}, false, "1=0 2=0 a=1 "},
        {{{"H in (1,2),N notin (a)", "cg", NULL}, {"N in (c)", "cg", NULL}},
         false,
         "1=0 2=0 a=-1 c=1 "},
        {{{"H in (1),N notin (b)", "cg", NULL},
          {"H in (2),N notin (b)", "cg", NULL},
          {"N in (b,c)", "cg", NULL}},
         false,
         "1=0 2=1 b=2 c=2 "},
        {{{"N in (a,z)", "cg", NULL}, {"N in (b)", "cg", NULL}}, false, "a=0 b=1 z=0 "},
        /* Shared by all: any pod. By one, or by nobody here: the name is its hash. */
        {{{"H in (1,ops)", "cg", NULL}, {"H in (2,ops)", "cg", NULL}}, true, "1=0 2=1 ops=-1 "},
        {{{"H in (1)", "cg", NULL}, {"H in (2,ops)", "cg", NULL}}, true, "1=0 2=1 ops=1 "},
        {{{"H in (1)", "cg", NULL}, {"H in (3)", "cg", NULL}}, true, "1=0 3=1 ops=-1 "},
        /* A hash label of that value that nobody shares is asked for by its hash alone. */
        {{{"H in (1,ops)", "cg", NULL}, {"H in (2)", "cg", NULL}}, false, "1=0 2=1 ops=0 "},
        {{{"H notin (0,1,2,3),C", "cg", NULL}, {"N in (x)", "c", NULL}},
         false,
         "4=0 5=0 6=0 7=0 8=0 9=0 10=0 11=0 12=0 13=0 14=0 15=0 16=0 17=0 18=0 19=0 20=0 21=0 "
         "22=0 23=0 24=0 25=0 26=0 27=0 28=0 29=0 30=0 31=0 "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct facts f;
        facts_init(&f, cases[i].shards, cases[i].shards[2].wanted == NULL ? 2 : 3);
        f.facts.shared = cases[i].shared ? &shared : NULL;
        expect_partition(&f, cases[i].want);
        facts_deinit(&f);
    }
}

/* ---- whether namespaces tell shards apart ---- */

static void shards_that_namespaces_do_not_tell_apart(void **state)
{
    (void)state;
    static const struct {
        struct given shards[2];
        bool apart;
    } cases[] = {
        {{{"app=a", "cg", NULL}, {"app=b", "cg", NULL}}, false},
        {{{"N in (x),app=a", "cg", NULL}, {"N in (x),app=b", "cg", NULL}}, false},
        {{{"N in (x)", "cg", NULL}, {"N in (x),app=b", "cg", NULL}}, false},
        {{{"app=a", "cg", NULL}, {"N in (x)", "cg", NULL}}, false},
        {{{"H in (1),app=a", "cg", NULL}, {"H in (1),app=b", "cg", NULL}}, false},
        {{{"app=a", "", NULL}, {"app=b", "cg", NULL}}, false}, /* its pods may come at any time */
        {{{"app=a", "cgs", NULL}, {"app=b", "cg", NULL}}, true},
        {{{"app=a", "cg", NULL}, {"app=b", "cgs", NULL}}, true},
        {{{"N in (x),app=a", "cg", NULL}, {"N in (y),app=a", "cg", NULL}}, true},
        {{{"H in (1,2),app=a", "cg", NULL}, {"H in (3),app=a", "cg", NULL}}, true},
        /* Only while it moves. */
        {{{"N in (y),app=a", "cg", "N in (x),app=a"}, {"N in (x),app=a", "cg", NULL}}, true},
        {{{"N in (x),app=a", "cg", NULL}, {"N in (x),app=a", "cg", "N in (y),app=a"}}, true},
        /* Both have it; but who is asked sees it. */
        {{{"N in (x)", "cg", NULL}, {"N in (x)", "cg", NULL}}, true},
        {{{"k,!k", "cg", NULL}, {"app=b", "cg", NULL}}, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct facts f;
        facts_init(&f, cases[i].shards, 2);
        struct partitioner *p = partitioner_new(&f.facts);
        struct partition present;
        struct partition next;
        struct route_verdict why = {.text = ""};
        partition_init(&present);
        partition_init(&next);
        enum route_reason got = partitioner_next(p, &PODS, &present, &next, &why);
        if (got != (cases[i].apart ? ROUTE_ROUTED : ROUTE_NOT_BY_NAMESPACE)) {
            fail_msg("case %zu: %s %s", i, route_reason_text(got), why.text);
        }
        if (!cases[i].apart) {
            assert_non_null(strstr(why.text, "n/a"));
            assert_non_null(strstr(why.text, "n/b"));
        }
        partition_deinit(&next);
        partitioner_free(p);
        facts_deinit(&f);
    }
}

/* ---- resources ---- */

static struct partition_resource resource(const char *text)
{
    size_t len = strcspn(text, ".");
    return (struct partition_resource){slice_str(text[len] == '.' ? text + len + 1 : ""),
                                       slice_of(text, len)};
}

static void resources_that_are_limited_alike(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } cases[] = {
        {"pods", "services", true},         {"pods", "secrets", true}, /* in other words */
        {"pods", "configmaps", false},      {"pods", "jobs.batch", false},
        {"pods", "deployments.apps", true}, {"nodes", "jobs.batch", true}, /* nobody limits them */
        {"pods", "events", false}, /* by another label, too */
    };
    static const struct given given[] = {
        {"pods:N in (x);services:N in (x);secrets:N=x;configmaps:N in (x,y);*.apps:N in (x);"
         "events:N in (x),app=a",
         "", NULL},
        {"pods:H in (1),C;services:H in (1),C;secrets:H in (1);configmaps:H in (1);*.apps:H=1;"
         "events:H in (1)",
         "", NULL},
    };
    struct facts f;
    facts_init(&f, given, 2);
    struct partitioner *p = partitioner_new(&f.facts);
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            const struct partition_resource a = resource(cases[i].a);
            const struct partition_resource b = resource(cases[i].b);
            if (partitioner_same(p, &a, &b) != cases[i].same ||
                partitioner_same(p, &b, &a) != cases[i].same) {
                fail_msg("%s, %s", cases[i].a, cases[i].b);
            }
        }
    }
    const struct partition_resource nodes = resource("nodes");
    assert_string_equal(partitioner_unlimited(p, &nodes)->key, "n/a");
    assert_null(partitioner_unlimited(p, &PODS));
    partitioner_free(p);
    facts_deinit(&f);
}

static void what_a_star_stands_for(void **state)
{
    (void)state;
    static const struct {
        const char *limits;
        const char *star;
        const char *other; /* NULL: all alike */
    } cases[] = {
        {"*.*:N in (x)", "*.*", NULL},
        {"*.*:N in (x);pods:N in (x)", "*.*", NULL},
        {"*.*:N in (x);pods:app=a", "*.*", "pods"},
        {"*.apps:N in (x);pods:N in (y)", "*.apps", NULL},
        {"*.apps:N in (x);daemonsets.apps:N in (y)", "*.apps", "daemonsets"},
        {"*.apps:N in (x);daemonsets.*:N in (x,y)", "*.apps", NULL}, /* ANDed: the same */
        {"*.apps:N in (x,y);daemonsets.*:N in (x)", "*.apps", "daemonsets"},
        {"pods.*:N in (x);pods.metrics:N in (y)", "pods.*", "pods"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct given given = {cases[i].limits, "", NULL};
        struct facts f;
        facts_init(&f, &given, 1);
        struct partitioner *p = partitioner_new(&f.facts);
        const struct partition_resource star = resource(cases[i].star);
        struct partition_resource other;
        bool same = partitioner_same_within(p, &star, &other);
        if (same != (cases[i].other == NULL) ||
            (!same && !slice_eq(other.resource, slice_str(cases[i].other)))) {
            fail_msg("case %zu", i);
        }
        partitioner_free(p);
        facts_deinit(&f);
    }
}

/* ---- what moves away ---- */

static void rules_that_still_show_what_a_shard_has(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        bool shown;
    } cases[] = {
        {"H in (1,2),N notin (b)", true},
        {"", true},
        {"H in (1,2,3),N notin (b)", true},
        {"H in (1),N notin (b)", false},
        {"H in (1,2),N notin (a,b)", false}, /* that goes with its hash */
        {"H in (1,2),N notin (b,c)", true},
        {"H in (1,2)", true},
        {"k,!k", false},
        {"N in (a)", false},
    };
    struct partition p;
    owns(&p, "b", 1);
    p.hashes[1] = 0;
    p.hashes[2] = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rules *rules = fixture_rules(cases[i].rules);
        if (partition_is_shown(&p, 0, rules, &PODS) != cases[i].shown) {
            fail_msg("case %zu", i);
        }
        rules_unref(rules);
    }
    partition_deinit(&p);
}

/* ---- bounds ---- */

/* "H in (1),N notin (PREFIX0,PREFIX1...)", or "N in". */
static char *long_selector(const char *head, const char *prefix, unsigned count)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    (void)buf_append_str(&text, head);
    for (unsigned i = 0; i < count; i++) {
        (void)buf_printf(&text, "%s%s%u", i == 0 ? "(" : ",", prefix, i);
    }
    (void)buf_append_str(&text, ")");
    char *copy = xstrndup((const char *)buf_data(&text), text.len);
    buf_reset(&text);
    return copy;
}

static enum route_reason reason_of(const struct facts *f, struct partition *next)
{
    struct partitioner *p = partitioner_new(&f->facts);
    struct partition present;
    struct route_verdict why;
    partition_init(&present);
    partition_init(next);
    enum route_reason got = partitioner_next(p, &PODS, &present, next, &why);
    partitioner_free(p);
    return got;
}

static void more_names_than_there_may_be(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        struct partition next;
        char *names = long_selector("N in ", "ns-", PARTITION_NAMES_MAX + more);
        const struct given given = {names, "cg", NULL};
        struct facts f;
        facts_init(&f, &given, 1);
        assert_int_equal(reason_of(&f, &next), more == 0 ? ROUTE_ROUTED : ROUTE_TOO_MANY);
        assert_int_equal(next.count, more == 0 ? PARTITION_NAMES_MAX : 0);
        partition_deinit(&next);
        facts_deinit(&f);
        free(names);
    }
}

/* ---- cost ---- */

static uint64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* 32 shards by hash, of which each leaves out the 1,000 names of the canary. */
static void many_shards_names_and_webhooks(void **state)
{
    (void)state;
    enum { SHARDS = 32, NAMES = 1000, WEBHOOKS = 50 };
    struct partition_shard shards[SHARDS + 1];
    char keys[SHARDS + 1][16];
    for (unsigned i = 0; i <= SHARDS; i++) {
        char head[64];
        (void)snprintf(keys[i], sizeof keys[i], "n/s%02u", i);
        (void)snprintf(head, sizeof head, i < SHARDS ? "H in (%u),N notin " : "N in ", i);
        char *selector = long_selector(head, "ns-", NAMES);
        struct rules *rules = fixture_rules(selector);
        shards[i] = (struct partition_shard){.key = keys[i],
                                             .wanted = rules,
                                             .published = rules,
                                             .confirmed = true,
                                             .can_gain = true};
        free(selector);
    }
    const struct partition_facts facts = {.shards = shards, .count = SHARDS + 1};
    uint64_t begin = now_us();
    struct partitioner *p = partitioner_new(&facts);
    struct partition present;
    partition_init(&present);
    for (unsigned i = 0; i < WEBHOOKS; i++) {
        struct partition next;
        struct route_verdict why;
        assert_int_equal(partitioner_next(p, &PODS, &present, &next, &why), ROUTE_ROUTED);
        assert_int_equal(next.count, NAMES);
        partition_deinit(&present);
        present = next;
    }
    partition_deinit(&present);
    partitioner_free(p);
    /* 25 ms of a release build. */
    assert_true(now_us() - begin < 1000000);
    for (unsigned i = 0; i <= SHARDS; i++) {
        rules_unref((struct rules *)shards[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_owner_of_a_class),
        cmocka_unit_test(what_nobody_wants_stays_for_a_moment),
        cmocka_unit_test(names_that_go_with_their_hash_are_left_out),
        cmocka_unit_test(shards_that_namespaces_do_not_tell_apart),
        cmocka_unit_test(resources_that_are_limited_alike),
        cmocka_unit_test(what_a_star_stands_for),
        cmocka_unit_test(any_pod_is_asked_about_where_the_shards_are),
        cmocka_unit_test(rules_that_still_show_what_a_shard_has),
        cmocka_unit_test(more_names_than_there_may_be),
        cmocka_unit_test(many_shards_names_and_webhooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
