/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explores who owns what, breadth first: a small cluster in which users, kubelets and bad luck take
 * every step that they can, and the manager decides by the real function (ownership/ownership.h).
 *
 *   cluster   3 ShardingConfigs, 2 namespaces of objects, 2 pods; ConfigMaps; what each pod
 * enforces manager   what it remembers of earlier rules and of pods: nothing, after it was replaced
 *   oracle    says_two_owners() below. It knows what pods do, and nothing of what the manager knows
 *
 * Each scenario limits which edits users make; all other steps are always possible. Prints the
 * states, the depth and the rate, and of a violation the steps that lead to it.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "compile/rules_gain.h"
#include "ownership/handover.h"
#include "ownership/ownership.h"

enum {
    SHARDS = 3,
    PODS = 2,
    MASKS = 4, /* sets of the namespaces x and y */
    LOCKS = 3, /* none, lead, lead2 */
    GENERATIONS = 15,
    PAST_MAX = 3,
    NONE = 255,
};

static const char *const shard_keys[SHARDS] = {"n/a", "n/b", "n/c"};
static const char *const lock_names[LOCKS] = {"", "lead", "lead2"};
static const char *const mask_names[MASKS] = {"{}", "{x}", "{y}", "{x,y}"};

/* ---- the world: no padding, so that states can be compared as bytes ---- */

/* Rules without their generation. */
struct content {
    uint8_t mask;
    uint8_t lock;
};

struct spec {
    uint8_t exists;
    uint8_t root;    /* it is one */
    uint8_t made;    /* by the root b */
    uint8_t selects; /* the pods of which workload */
    struct content content;
    uint8_t edits;   /* modulo 4 */
    uint8_t leaving; /* 1: a is to have everything, by the lock of pods without sidecars */
};

struct map {
    uint8_t generation; /* 0: there is none */
    struct content content;
};

/* What the manager remembers; nothing of it is known to the next one. */
struct memory {
    uint8_t count; /* of earlier rules */
    uint8_t lost;
    struct content past[PAST_MAX];
    uint8_t doubt;   /* a few bits of it; */
    uint8_t doubted; /* long enough */
    uint8_t relocks; /* its lock is another one, or may be */
};

/* POD_BARE: without sidecars. It acts on everything, once it has started. */
enum { POD_NONE, POD_RUNS, POD_BARE };

struct pod_state {
    uint8_t state;
    uint8_t shard; /* whose sidecars it has */
    uint8_t cut_off;
    uint8_t told;
    uint8_t ending;
    struct map mounted;  /* as its kubelet has it */
    struct map enforced; /* by localproxy */
    uint8_t writes;      /* namespaces in which a write of it is under way */
    uint8_t leads;       /* by which lock, plus 1; 0: by none. If scenario->together, as */
    uint8_t wrote_by;    /* by which it led when it sent them */
    /* What the manager has heard of it. */
    uint8_t asked;
    uint8_t answered;
    uint8_t enforcing;
    struct map heard;
    /* Of a bare one: namespaces that others had when it began, and have not given up since. */
    uint8_t started;
    uint8_t found;
};

struct world {
    struct spec specs[SHARDS];
    struct map maps[SHARDS];
    struct memory memory[SHARDS];
    struct pod_state pods[PODS];
    uint8_t pending; /* the second edit of one apply: of which shard; NONE: there is none */
    struct spec pending_spec;
    uint8_t exempt; /* namespaces that two operators share for long, as their specs say */
};

struct scenario {
    const char *name;
    uint8_t locks[LOCKS + 1]; /* that edits choose of, ended by NONE */
    uint8_t masks[MASKS + 1];
    bool roots;     /* b becomes a root and back, and makes c */
    bool workloads; /* c selects the pods of b, too */
    bool bare;      /* pods also start without sidecars */
    bool leaving;   /* specs also say that shards are to be left */
    bool together;  /* both pods are of a, the only shard, and elect a leader */
    struct spec begin[SHARDS];
};

static const struct scenario *scenario;

/* Of a pod. */
static unsigned workload_of(unsigned i)
{
    return scenario->together ? 0 : i;
}

/* ---- rules ---- */

static struct rules *all_rules[SHARDS][MASKS][LOCKS][2]; /* [1]: of the first generation */
static uint8_t mask_by_slot[1 << 16];

static size_t slot_of(const struct rules *r)
{
    uintptr_t n = (uintptr_t)r;
    return (size_t)((n >> 4) * 2654435761U >> 8) & 0xffff;
}

static uint8_t mask_of(const struct rules *r)
{
    return mask_by_slot[slot_of(r)];
}

static struct rules *make_rules(unsigned shard, unsigned mask, unsigned lock, bool first)
{
    static const char *const selectors[MASKS] = {"ns=x,ns=y", "ns=x", "ns=y", "ns in (x,y)"};
    char text[1024];
    char election[128] = "";
    struct err e = ERR_INIT;
    if (lock > 0) {
        (void)snprintf(election, sizeof election, ",\"leaderElection\":{\"name\":\"%s\"}",
                       lock_names[lock]);
    }
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"n\",\"name\":\"%s\"},\"generation\":%d,\"spec\":{\"limits\":[{\"apiGroups\":"
                   "[\"\"],\"resources\":[\"pods\"],\"selector\":\"%s\"}]%s}}",
                   shard_keys[shard] + 2, first ? 1 : 2, selectors[mask], election);
    struct rules *r = rules_parse_plain(text, strlen(text), &e);
    if (r == NULL) {
        fprintf(stderr, "ownership_model: %s\n", e.msg);
        exit(2);
    }
    return r;
}

static bool gains(void *data, const struct rules *from, const struct rules *to,
                  const struct rules *others)
{
    (void)data;
    unsigned have = from == NULL ? 0 : mask_of(from);
    unsigned shown = others == NULL ? MASKS - 1 : mask_of(others);
    return (mask_of(to) & ~have & shown) != 0;
}

/* The short way says what the real one does. */
static void check_gains(void)
{
    for (unsigned from = 0; from < MASKS; from++) {
        for (unsigned to = 0; to < MASKS; to++) {
            for (unsigned others = 0; others < MASKS; others++) {
                const struct rules *f = all_rules[0][from][1][0];
                const struct rules *t = all_rules[0][to][1][0];
                const struct rules *o = all_rules[1][others][1][0];
                if (gains(NULL, f, t, o) != rules_gain(f, t, o)) {
                    fprintf(stderr, "ownership_model: rules_gain differs\n");
                    exit(2);
                }
            }
        }
    }
}

static void make_all_rules(void)
{
    static bool taken[1 << 16];
    for (unsigned i = 0; i < SHARDS * MASKS * LOCKS * 2; i++) {
        unsigned shard = i % SHARDS;
        unsigned mask = i / SHARDS % MASKS;
        unsigned lock = i / (SHARDS * MASKS) % LOCKS;
        bool first = i / (SHARDS * MASKS * LOCKS) != 0;
        struct rules *r = make_rules(shard, mask, lock, first);
        while (taken[slot_of(r)]) { /* another address */
            r = make_rules(shard, mask, lock, first);
        }
        taken[slot_of(r)] = true;
        mask_by_slot[slot_of(r)] = (uint8_t)mask;
        all_rules[shard][mask][lock][first] = r;
    }
    check_gains();
}

static struct rules *rules_of(unsigned shard, struct content c, bool first)
{
    return all_rules[shard][c.mask][c.lock][first];
}

/* What a spec comes to. */
static struct content wanted_of(unsigned shard, const struct spec *s)
{
    if (!s->leaving) {
        return s->content;
    }
    return shard == 0 ? (struct content){MASKS - 1, 0} : (struct content){0, s->content.lock};
}

/* ---- what the manager sees: struct world as facts ---- */

struct view {
    struct pod pods[PODS];
    struct probe_result probes[PODS];
    struct pod_label labels[PODS];
    struct rules_map maps[SHARDS];
    struct handover_past past[SHARDS];
    struct ownership_pod of_shard[SHARDS][PODS];
    struct ownership_shard shards[SHARDS];
    struct ownership_bare_pod bare[PODS];
    struct ownership_wait waits[SHARDS + 2 * PODS + 1];
    struct ownership_facts facts;
};

static const char *const workloads[] = {"w0", "w1"};
static struct selector *selectors[ARRAY_LEN(workloads)];

static void show_map(struct rules_map *m, unsigned shard, struct map map)
{
    struct rules *r = rules_of(shard, map.content, map.generation == 1);
    *m = (struct rules_map){.key = shard_keys[shard],
                            .config_uid = "u",
                            .rules = r,
                            .checksum = rules_checksum(r),
                            .lock = lock_names[map.content.lock],
                            .generation = map.generation};
}

static void show_pod(struct view *v, const struct world *w, unsigned i)
{
    const struct pod_state *p = &w->pods[i];
    struct probe_result *r = &v->probes[i];
    v->labels[i] = (struct pod_label){"app", workloads[workload_of(i)]};
    v->pods[i] = (struct pod){.key = i == 0 ? "n/p0" : "n/p1",
                              .name = i == 0 ? "p0" : "p1",
                              .ip = "10.0.0.1",
                              .account = "op",
                              .owner = "",
                              .labels = &v->labels[i],
                              .label_count = 1,
                              .proxy_port = p->state == POD_RUNS,
                              .told = p->told != 0,
                              .ending = p->ending != 0};
    r->asked = p->asked != 0;
    r->state = p->answered ? PROBE_ANSWERED : p->asked ? PROBE_SILENT : PROBE_WAITING;
    r->generation = p->heard.generation;
    r->enforcing = p->enforcing != 0;
    r->checksum[0] = '\0';
    r->shard[0] = '\0';
    if (p->heard.generation != 0) {
        const struct rules *rules = rules_of(p->shard, p->heard.content, false);
        memcpy(r->checksum, rules_checksum(rules), RULES_CHECKSUM_LEN + 1);
        memcpy(r->shard, shard_keys[p->shard], 4);
    }
}

static void show_shard(struct view *v, const struct world *w, unsigned i)
{
    const struct spec *spec = &w->specs[i];
    const struct memory *m = &w->memory[i];
    struct ownership_shard *s = &v->shards[i];
    *s = (struct ownership_shard){.key = shard_keys[i], .past = &v->past[i]};
    if (spec->exists && !spec->root) {
        s->exists = true;
        s->spec = spec->edits + 1U;
        s->lock = lock_names[spec->content.lock];
        s->root = spec->made ? "b" : "";
        s->selector = selectors[spec->selects];
        s->wanted = rules_of(i, wanted_of(i, spec), true);
    } else if (spec->exists) {
        s->root = shard_keys[i] + 2;
    }
    if (w->maps[i].generation != 0) {
        show_map(&v->maps[i], i, w->maps[i]);
        s->map = &v->maps[i];
    }
    v->past[i] = (struct handover_past){.count = m->count, .lost = m->lost != 0};
    for (unsigned j = 0; j < m->count; j++) {
        v->past[i].rules[j] = rules_of(i, m->past[j], false);
    }
    s->pods = v->of_shard[i];
    for (unsigned j = 0; j < PODS; j++) {
        if (w->pods[j].state == POD_RUNS && w->pods[j].shard == i) {
            v->of_shard[i][s->pod_count++] =
                (struct ownership_pod){&v->pods[j], w->pods[j].asked ? &v->probes[j] : NULL};
        }
    }
}

static void show_bare_pod(struct view *v, unsigned i)
{
    struct ownership_bare_pod *b = &v->bare[v->facts.bare_count++];
    *b = (struct ownership_bare_pod){.pod = &v->pods[i]};
    for (unsigned j = 0; j < SHARDS; j++) {
        if (v->shards[j].selector != NULL && pod_selected(b->pod, v->shards[j].selector)) {
            b->selected_by[b->selected_count++] = &v->shards[j];
        }
    }
}

static void show(struct view *v, const struct world *w)
{
    for (unsigned i = 0; i < PODS; i++) {
        if (w->pods[i].state != POD_NONE) {
            show_pod(v, w, i);
        }
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        show_shard(v, w, i);
    }
    v->facts = (struct ownership_facts){.shards = v->shards,
                                        .shard_count = SHARDS,
                                        .bare = v->bare,
                                        .mode = HANDOVER_STRICT,
                                        .gain = gains};
    for (unsigned i = 0; i < PODS; i++) {
        if (w->pods[i].state == POD_BARE) {
            show_bare_pod(v, i);
        }
    }
}

/* ---- the manager's step ---- */

static bool is_same(struct content a, struct content b)
{
    return a.mask == b.mask && a.lock == b.lock;
}

static void remember(struct memory *m, struct content c)
{
    if (m->count > 0 && is_same(m->past[m->count - 1], c)) {
        return;
    }
    if (m->count == PAST_MAX) {
        memmove(m->past, m->past + 1, sizeof m->past - sizeof m->past[0]);
        m->count--;
        m->lost = 1;
    }
    m->past[m->count++] = c;
}

/* Later than all that is known of, as generation.h has it. */
static uint8_t next_generation(const struct world *w, unsigned shard, struct content c)
{
    uint8_t largest = w->maps[shard].generation;
    bool same = largest != 0 && is_same(w->maps[shard].content, c);
    for (unsigned i = 0; i < PODS; i++) {
        const struct pod_state *p = &w->pods[i];
        if (p->state == POD_RUNS && p->shard == shard && p->heard.generation > largest) {
            largest = p->heard.generation;
            same = is_same(p->heard.content, c);
        }
    }
    return (uint8_t)(same ? largest : largest + 1);
}

static bool publish(struct world *w, unsigned shard, struct content c)
{
    struct map *map = &w->maps[shard];
    uint8_t next = next_generation(w, shard, c);
    if (next > GENERATIONS || (map->generation == next && is_same(map->content, c))) {
        return false;
    }
    *map = (struct map){next, c};
    remember(&w->memory[shard], c);
    for (unsigned i = 0; i < PODS; i++) {
        if (w->pods[i].state == POD_RUNS && w->pods[i].shard == shard) {
            w->pods[i].told = 1;
        }
    }
    return true;
}

/* Earlier rules are forgotten when no pod can have them. */
static void settle(struct world *w, const struct view *v, unsigned shard)
{
    const struct ownership_shard *s = &v->shards[shard];
    struct memory *m = &w->memory[shard];
    for (size_t i = 0; i < s->pod_count; i++) {
        if (handover_hold_of(s->pods[i].pod, s->pods[i].probe, s->key, s->map, s->past,
                             HANDOVER_STRICT) > HANDOVER_PUBLISHED) {
            return;
        }
    }
    for (unsigned at = m->count; at-- > 0;) {
        if (is_same(m->past[at], w->maps[shard].content)) {
            memmove(m->past, m->past + at, (m->count - at) * sizeof m->past[0]);
            m->count = (uint8_t)(m->count - at);
            memset(m->past + m->count, 0, (PAST_MAX - m->count) * sizeof m->past[0]);
            m->lost = 0;
            return;
        }
    }
}

static bool has_pods(const struct world *w, unsigned shard)
{
    for (unsigned i = 0; i < PODS; i++) {
        if (w->pods[i].state == POD_RUNS && w->pods[i].shard == shard) {
            return true;
        }
    }
    return false;
}

/* What shard_publish does without a config. */
static bool clean_up(struct world *w, unsigned shard)
{
    if (w->maps[shard].generation == 0 || has_pods(w, shard)) {
        return false;
    }
    w->maps[shard] = (struct map){.generation = 0};
    w->memory[shard] = (struct memory){.count = 0};
    return true;
}

/* Without a ConfigMap its pods are asked first. */
static bool must_ask(const struct world *w, unsigned shard)
{
    for (unsigned i = 0; i < PODS && w->maps[shard].generation == 0; i++) {
        const struct pod_state *p = &w->pods[i];
        if (p->state == POD_RUNS && p->shard == shard && !p->asked) {
            return true;
        }
    }
    return false;
}

/* Nothing is known of any rules that its pods could have had, by shard_publish. */
static bool is_first(const struct world *w, unsigned shard)
{
    bool first = w->maps[shard].generation == 0;
    for (unsigned i = 0; i < PODS && first; i++) {
        const struct pod_state *p = &w->pods[i];
        bool own = p->state == POD_RUNS && p->shard == shard;
        first = !own || (!p->told && p->heard.generation == 0);
    }
    return first;
}

/* Whether its lock changes, or may have changed before this manager looks at it first. */
static bool relocks(const struct world *w, unsigned shard, struct content wanted)
{
    const struct map *map = &w->maps[shard];
    const struct memory *m = &w->memory[shard];
    bool first = m->count == 0 && map->generation > 1 && map->content.mask == 0;
    struct content from = m->count == 0 ? map->content : m->past[m->count - 1];
    bool any = m->count != 0 || map->generation != 0;
    return any && (m->relocks || first || from.lock != wanted.lock);
}

/* By another lock than it is to have. */
static bool is_led(const struct world *w, unsigned shard, struct content wanted)
{
    for (unsigned i = 0; i < PODS; i++) {
        const struct pod_state *p = &w->pods[i];
        if (p->state == POD_RUNS && p->shard == shard && p->leads != 0 &&
            p->leads != wanted.lock + 1) {
            return true;
        }
    }
    return false;
}

/* What shard_publish does. */
static bool reconcile(struct world *w, unsigned shard)
{
    static struct view v;
    const struct spec *spec = &w->specs[shard];
    const struct content wanted = wanted_of(shard, spec);
    struct map *map = &w->maps[shard];
    struct memory *m = &w->memory[shard];
    if (!spec->exists || spec->root) {
        return clean_up(w, shard);
    }
    m->relocks = relocks(w, shard, wanted);
    if (map->generation != 0) {
        remember(m, map->content);
    }
    show(&v, w);
    if (map->generation != 0 && m->count > 1) {
        settle(w, &v, shard);
        show(&v, w);
    }
    if (must_ask(w, shard)) {
        return false;
    }
    if (map->generation != 0 && is_same(map->content, wanted) &&
        next_generation(w, shard, wanted) == map->generation && v.facts.bare_count == 0) {
        return false;
    }
    struct ownership_question q = {
        .shard = &v.shards[shard],
        .from = m->count == 0 ? NULL : rules_of(shard, m->past[m->count - 1], false),
        .to = rules_of(shard, wanted, false),
        .elected = spec->content.lock != 0 && wanted.lock == 0,
        .relocks = m->relocks != 0,
        .led = m->relocks != 0 && is_led(w, shard, wanted),
        .limit_ms = 120000,
        .doubt_ms = m->doubted ? UINT32_MAX : 0,
    };
    struct ownership_plan plan = {.waits = v.waits};
    ownership_plan(&v.facts, &q, &plan);
    if (m->doubt == (uint8_t)plan.doubt) {
        q.doubt = plan.doubt;
        ownership_plan(&v.facts, &q, &plan);
    }
    m->doubted = m->doubted && q.doubt == plan.doubt;
    m->doubt = (uint8_t)plan.doubt;
    struct content c = wanted;
    bool withdraws = plan.step == OWNERSHIP_WITHDRAW || plan.step == OWNERSHIP_RELOCK;
    bool waits = plan.step == OWNERSHIP_RELEASE || withdraws;
    m->relocks = m->relocks && waits;
    if (waits && q.from == NULL && !is_first(w, shard)) {
        return false;
    }
    if (waits) {
        c.mask &= q.from == NULL || withdraws ? 0 : m->past[m->count - 1].mask;
    }
    if (plan.step == OWNERSHIP_WITHDRAW && q.from != NULL && wanted.lock == 0) {
        c.lock = m->past[m->count - 1].lock; /* its pods do not compete with those */
    }
    return publish(w, shard, c);
}

/* ---- the oracle ---- */

/* What a pod may act on: what it enforces, and what was sent before. */
static unsigned acts_on(const struct pod_state *p)
{
    if (p->state == POD_BARE) {
        return p->started ? MASKS - 1 : 0;
    }
    unsigned shown = p->enforced.generation == 0 ? 0 : p->enforced.content.mask;
    return p->state == POD_RUNS ? shown | p->writes : 0;
}

static bool is_elected_by_name(const struct pod_state *p)
{
    return p->state == POD_BARE ||
           (scenario->leaving && p->enforced.generation != 0 && p->enforced.content.lock == 0);
}

/* Two without sidecars are elected among themselves, as without a mesh, and so is one of the shard
 * that has everything when shards are left; but what it had sent before as another shard's leader.
 */
static bool is_of_two(const struct pod_state *a, const struct pod_state *b)
{
    if (is_elected_by_name(a) && is_elected_by_name(b)) {
        return a->state != b->state && (a->writes | b->writes) != 0;
    }
    return a->state != b->state || (a->state == POD_RUNS && a->shard != b->shard);
}

/* What others had, or could take, when a bare pod began, that one is to have alone once they gave
 * it up. */
static void note_given_up(struct world *w)
{
    for (unsigned i = 0; i < PODS; i++) {
        unsigned others = 0;
        for (unsigned j = 0; j < PODS; j++) {
            const struct pod_state *p = &w->pods[j];
            others |= p->state == POD_RUNS ? acts_on(p) | p->mounted.content.mask : 0U;
        }
        for (unsigned j = 0; j < SHARDS; j++) {
            others |= w->maps[j].content.mask;
        }
        w->pods[i].found &= (uint8_t)others;
    }
}

static unsigned works_on(const struct pod_state *p)
{
    unsigned shown = p->enforced.generation == 0 ? 0 : p->enforced.content.mask;
    shown = p->state == POD_BARE ? MASKS - 1 : shown;
    return p->leads == 0 ? 0 : shown;
}

/* Of one shard. Two that lead by one lock, one after the other, are the operator's own business, as
 * is what the first one had sent. */
static bool says_two_leaders(const struct pod_state *a, const struct pod_state *b)
{
    unsigned both = works_on(a) & works_on(b);
    both |= a->wrote_by != b->leads ? a->writes & works_on(b) : 0U;
    both |= b->wrote_by != a->leads ? b->writes & works_on(a) : 0U;
    both |= a->wrote_by != b->wrote_by ? (unsigned)(a->writes & b->writes) : 0U;
    return (both & ~(unsigned)(a->found | b->found)) != 0;
}

static bool says_two_owners(const struct world *w)
{
    if (scenario->together) {
        return says_two_leaders(&w->pods[0], &w->pods[1]);
    }
    for (unsigned i = 0; i < PODS; i++) {
        for (unsigned j = i + 1; j < PODS; j++) {
            const struct pod_state *a = &w->pods[i];
            const struct pod_state *b = &w->pods[j];
            unsigned found = (unsigned)(a->found | b->found);
            unsigned both = acts_on(a) & acts_on(b) & ~(unsigned)w->exempt & ~found;
            if (is_of_two(a, b) && both != 0) {
                return true;
            }
        }
    }
    return false;
}

/* ---- steps ---- */

static const struct scenario scenarios[] = {
    {.name = "moves",
     .locks = {1, NONE},
     .masks = {0, 1, 3, NONE},
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}, {1, 0, 0, 1, {2, 1}, 0, 0}}},
    {.name = "renames",
     .locks = {1, 2, NONE},
     .masks = {1, 2, NONE},
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}, {1, 0, 0, 1, {2, 1}, 0, 0}}},
    {.name = "renamed shards",
     .locks = {1, 2, NONE},
     .masks = {2, NONE},
     .workloads = true,
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}, {1, 0, 0, 1, {2, 1}, 0, 0}}},
    {.name = "roots",
     .locks = {1, NONE},
     .masks = {1, 2, NONE},
     .roots = true,
     .workloads = true,
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}, {1, 0, 0, 1, {2, 1}, 0, 0}}},
    {.name = "in and out",
     .locks = {1, NONE},
     .masks = {1, 2, NONE},
     .bare = true,
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}, {1, 0, 0, 1, {2, 1}, 0, 0}}},
    {.name = "leaving",
     .locks = {1, NONE},
     .masks = {1, 2, NONE},
     .bare = true,
     .leaving = true,
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 1}, {1, 0, 0, 1, {2, 1}, 0, 1}}},
    {.name = "one shard",
     .locks = {1, 2, NONE},
     .masks = {1, 3, NONE},
     .leaving = true,
     .together = true,
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}}},
    {.name = "one lock, or two", /* with few edits, and so deeper */
     .locks = {1, NONE},
     .masks = {1, NONE},
     .leaving = true,
     .together = true,
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}}},
    {.name = "one shard, left",
     .locks = {1, NONE},
     .masks = {1, NONE},
     .bare = true,
     .leaving = true,
     .together = true,
     .begin = {{1, 0, 0, 0, {1, 1}, 0, 0}}},
    {.name = "nameless",
     .locks = {0, 1, NONE},
     .masks = {1, 2, NONE},
     .begin = {{1, 0, 0, 0, {1, 0}, 0, 0}, {1, 0, 0, 1, {2, 0}, 0, 0}}},
};

/* A step that was possible; `text` says which, when the way to a violation is printed. */
typedef void step_fn(void *data, const struct world *next, const char *text);

struct steps {
    step_fn *fn;
    void *data;
    bool explain;
    char text[160];
};

static void take(struct steps *s, const struct world *next, const char *what, const char *who)
{
    struct world noted = *next;
    note_given_up(&noted);
    if (s->explain) {
        (void)snprintf(s->text, sizeof s->text, "%s %s", what, who);
    }
    s->fn(s->data, &noted, s->text);
}

static const char *spec_text(unsigned shard, const struct spec *s)
{
    static char text[128];
    if (!s->exists) {
        (void)snprintf(text, sizeof text, "%s", shard_keys[shard]);
    } else {
        (void)snprintf(
            text, sizeof text, "%s: %s%s%s lock '%s' pods %s", shard_keys[shard],
            s->leaving ? "leaving, " : "", s->root ? "root" : mask_names[s->content.mask],
            s->made ? " made by root b" : "", lock_names[s->content.lock], workloads[s->selects]);
    }
    return text;
}

static void set_spec(struct world *w, unsigned shard, struct spec spec)
{
    spec.edits = (uint8_t)((w->specs[shard].edits + 1) % 4);
    w->specs[shard] = spec;
}

static bool is_same_spec(const struct spec *a, const struct spec *b)
{
    return a->exists == b->exists && a->root == b->root && a->made == b->made &&
           a->selects == b->selects && a->leaving == b->leaving && is_same(a->content, b->content);
}

/* Every spec that the scenario lets a user write. */
static size_t specs_for(unsigned shard, const struct world *w, struct spec *out)
{
    size_t count = 0;
    uint8_t own = (uint8_t)(shard == 0 ? 0 : 1);
    out[count++] = (struct spec){.exists = 0};
    for (const uint8_t *l = scenario->locks; *l != NONE; l++) {
        for (const uint8_t *m = scenario->masks; *m != NONE; m++) {
            bool made = scenario->roots && shard == 2;
            out[count++] = (struct spec){1, 0, made, own, {*m, *l}, 0, 0};
            if (scenario->leaving) {
                out[count++] = (struct spec){1, 0, made, own, {*m, *l}, 0, 1};
            }
        }
        if (scenario->roots && shard == 1) {
            out[count++] = (struct spec){1, 1, 0, own, {0, *l}, 0, 0};
        }
    }
    (void)w;
    return count;
}

static bool may_edit(unsigned shard)
{
    return scenario->together ? shard == 0 : shard < 2 || scenario->workloads;
}

static void step_edits(struct steps *s, const struct world *w)
{
    struct spec first[16];
    struct spec second[16];
    if (w->pending != NONE) {
        struct world next = *w;
        set_spec(&next, w->pending, w->pending_spec);
        next.pending = NONE;
        next.pending_spec = (struct spec){.exists = 0};
        take(s, &next, "the rest arrives:", spec_text(w->pending, &w->pending_spec));
        return;
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        size_t count = may_edit(i) ? specs_for(i, w, first) : 0;
        for (size_t a = 0; a < count; a++) {
            struct world next = *w;
            if (is_same_spec(&first[a], &w->specs[i])) {
                continue;
            }
            set_spec(&next, i, first[a]);
            take(s, &next, first[a].exists ? "apply" : "delete", spec_text(i, &first[a]));
            for (unsigned j = 0; j < SHARDS; j++) {
                size_t others = may_edit(j) && j != i ? specs_for(j, w, second) : 0;
                for (size_t b = 0; b < others; b++) {
                    if (!is_same_spec(&second[b], &w->specs[j])) {
                        next.pending = (uint8_t)j;
                        next.pending_spec = second[b];
                        take(s, &next, "apply, with one more to come:", spec_text(i, &first[a]));
                    }
                }
            }
        }
    }
}

/* For so long as what is doubtful is waited for nothing is edited, and the manager looks at what
 * was edited before. What two operators, that differ by their names, both select for so long is
 * theirs on purpose. */
static void step_time(struct steps *s, const struct world *w)
{
    struct world next = *w;
    if (w->pending != NONE) {
        return;
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        (void)reconcile(&next, i);
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        const struct spec *a = &w->specs[i];
        next.memory[i].doubted = next.memory[i].doubt != 0;
        for (unsigned j = i + 1; j < SHARDS; j++) {
            const struct spec *b = &w->specs[j];
            bool both = a->exists && b->exists && !a->root && !b->root;
            if (both && a->content.lock != b->content.lock) {
                next.exempt |= wanted_of(i, a).mask & wanted_of(j, b).mask;
            }
        }
    }
    if (memcmp(&next, w, sizeof next) != 0) {
        take(s, &next, "time passes", "");
    }
}

/* The webhook puts the sidecars of the shard into it that selects it. */
static unsigned shard_for(const struct world *w, unsigned workload)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        const struct spec *spec = &w->specs[i];
        if (spec->exists && !spec->root && spec->selects == workload) {
            return i;
        }
    }
    return NONE;
}

/* Its kubelet has what is published now, or reads what is published later. */
static void start_pod(struct steps *s, const struct world *w, unsigned i)
{
    struct world next = *w;
    unsigned shard = shard_for(w, workload_of(i));
    if (shard != NONE) {
        next.pods[i] = (struct pod_state){
            .state = POD_RUNS, .shard = (uint8_t)shard, .mounted = w->maps[shard]};
        take(s, &next, "starts:", i == 0 ? "p0" : "p1");
    }
    if (scenario->bare) {
        next.pods[i] = (struct pod_state){.state = POD_BARE, .shard = NONE};
        take(s, &next, "is made without sidecars:", i == 0 ? "p0" : "p1");
    }
}

/* Whatever others have given up by then: nobody asks them. */
static void step_bare_pod(struct steps *s, const struct world *w, unsigned i)
{
    const char *who = i == 0 ? "p0" : "p1";
    struct world next = *w;
    next.pods[i] = (struct pod_state){.state = POD_NONE};
    take(s, &next, "ends:", who);
    if (!w->pods[i].started) {
        next = *w;
        next.pods[i].started = 1;
        next.pods[i].found = MASKS - 1; /* less what nobody has, by note_given_up */
        take(s, &next, "starts without sidecars:", who);
    }
}

/* It enforces what is mounted from now on; what it had sent may still be executed. */
static void sync_pod(struct steps *s, const struct world *w, unsigned i, bool writing)
{
    struct world next = *w;
    struct pod_state *p = &next.pods[i];
    const struct map *map = &w->maps[p->shard];
    if (map->generation <= p->enforced.generation) {
        return;
    }
    bool works = !scenario->together || p->leads != 0;
    if (writing && works && p->enforced.generation != 0 && !is_elected_by_name(p)) {
        if (p->enforced.content.mask != 0) {
            p->wrote_by = p->writes != 0 && p->wrote_by != p->leads ? NONE : p->leads;
        }
        p->writes |= p->enforced.content.mask;
    }
    p->mounted = *map;
    p->enforced = *map;
    take(s, &next,
         writing ? "takes the rules amid writes:" : "takes the rules:", i == 0 ? "p0" : "p1");
}

/* Who leads does so until it gives up, also by a lock that it asks for no more; and it goes on if
 * it gets the one that it asks for now. */
static void step_election(struct steps *s, const struct world *w, unsigned i)
{
    const char *who = i == 0 ? "p0" : "p1";
    const struct pod_state *now = &w->pods[i];
    bool stands = now->state == POD_BARE ? now->started != 0 : now->enforced.generation != 0;
    uint8_t lock = now->state == POD_BARE ? 1 : (uint8_t)(now->enforced.content.lock + 1);
    struct world next = *w;
    if (stands && now->leads != lock && w->pods[1 - i].leads != lock) {
        next.pods[i].leads = lock;
        take(s, &next, "is elected:", who);
    }
    if (now->leads != 0) {
        next = *w;
        next.pods[i].leads = 0;
        take(s, &next, "leads no more:", who);
    }
}

static void step_pod(struct steps *s, const struct world *w, unsigned i)
{
    const char *who = i == 0 ? "p0" : "p1";
    const struct pod_state *now = &w->pods[i];
    struct world next = *w;
    struct pod_state *p = &next.pods[i];
    if (now->state == POD_NONE) {
        start_pod(s, w, i);
        return;
    }
    if (now->state == POD_BARE) {
        step_bare_pod(s, w, i);
        return;
    }
    *p = (struct pod_state){.state = POD_NONE};
    take(s, &next, "ends:", who);
    if (!now->ending) {
        next = *w;
        p->ending = 1;
        take(s, &next, "is being deleted:", who);
    }
    next = *w;
    p->cut_off = !now->cut_off;
    p->answered = now->cut_off ? now->answered : 0;
    take(s, &next, now->cut_off ? "is back:" : "is cut off:", who);
    if (now->writes != 0) {
        next = *w;
        p->writes = p->wrote_by = 0;
        take(s, &next, "its writes are executed:", who);
    }
    if (now->mounted.generation > now->enforced.generation) {
        next = *w;
        p->enforced = now->mounted;
        take(s, &next, "begins with what is mounted:", who);
    }
    if (now->cut_off) {
        next = *w;
        p->asked = 1;
        p->answered = 0;
        take(s, &next, "does not answer:", who);
        return;
    }
    next = *w;
    p->asked = 1;
    p->answered = 1;
    p->heard = now->enforced;
    p->enforcing = now->enforced.generation != 0 && now->writes == 0;
    take(s, &next, "answers:", who);
    sync_pod(s, w, i, true);
    sync_pod(s, w, i, false);
}

static void step_manager(struct steps *s, const struct world *w)
{
    struct world next = *w;
    for (unsigned i = 0; i < SHARDS; i++) {
        next = *w;
        if (reconcile(&next, i) || memcmp(&next, w, sizeof next) != 0) {
            take(s, &next, "the manager looks at", shard_keys[i]);
        }
    }
    next = *w;
    for (unsigned i = 0; i < SHARDS; i++) {
        next.memory[i] = (struct memory){.count = 0};
    }
    for (unsigned i = 0; i < PODS; i++) {
        struct pod_state *p = &next.pods[i];
        p->asked = p->answered = p->enforcing = 0;
        p->heard = (struct map){.generation = 0};
    }
    take(s, &next, "the manager is replaced", "");
}

static void all_steps(struct steps *s, const struct world *w)
{
    step_manager(s, w);
    for (unsigned i = 0; i < PODS; i++) {
        step_pod(s, w, i);
        if (scenario->together) {
            step_election(s, w, i);
        }
    }
    step_edits(s, w);
    step_time(s, w);
}

/* ---- it gets somewhere ---- */

/* Nobody edits, all pods take what is published and answer, and the manager looks at all shards,
 * until nothing changes. */
static void come_to_rest(struct world *w)
{
    bool moved = true;
    if (w->pending != NONE) {
        set_spec(w, w->pending, w->pending_spec);
        w->pending = NONE;
    }
    for (unsigned round = 0; moved && round < 40; round++) {
        moved = false;
        for (unsigned i = 0; i < PODS; i++) {
            struct pod_state *p = &w->pods[i];
            if (p->state != POD_RUNS) {
                continue;
            }
            p->cut_off = 0;
            p->writes = p->wrote_by = 0;
            if (p->ending) {
                *p = (struct pod_state){.state = POD_NONE};
                continue;
            }
            if (w->maps[p->shard].generation > p->enforced.generation) {
                p->enforced = p->mounted = w->maps[p->shard];
                moved = true;
            }
            p->leads = 0;
            p->asked = p->answered = 1;
            p->heard = p->enforced;
            p->enforcing = p->enforced.generation != 0;
        }
        for (unsigned i = 0; i < SHARDS; i++) {
            w->memory[i].doubted = w->memory[i].doubt != 0 && round > 20;
            moved = reconcile(w, i) || moved || round <= 21;
        }
    }
}

/* Whether another shard has or wants it: then it may wait for ever, and says so. */
static bool is_contested(const struct world *w, unsigned shard)
{
    unsigned mask = wanted_of(shard, &w->specs[shard]).mask;
    for (unsigned i = 0; i < SHARDS; i++) {
        bool wants = w->specs[i].exists && !w->specs[i].root &&
                     (wanted_of(i, &w->specs[i]).mask & mask) != 0;
        bool keeps = w->maps[i].generation != 0 && (w->maps[i].content.mask & mask) != 0;
        if (i != shard && (wants || keeps)) {
            return true;
        }
    }
    for (unsigned i = 0; i < PODS; i++) {
        if (w->pods[i].shard != shard && (acts_on(&w->pods[i]) & mask) != 0) {
            return true;
        }
    }
    return false;
}

/* Pods without sidecars have everything to themselves, if a shard selects them. */
static bool is_beside_bare(const struct world *w)
{
    for (unsigned i = 0; i < PODS; i++) {
        if (w->pods[i].state == POD_BARE) {
            return true;
        }
    }
    return false;
}

static bool has_bare_alone(const struct world *w)
{
    for (unsigned i = 0; i < PODS; i++) {
        if (w->pods[i].state == POD_RUNS && !is_elected_by_name(&w->pods[i]) &&
            acts_on(&w->pods[i]) != 0 && w->specs[0].exists && w->specs[1].exists) {
            return false;
        }
    }
    return true;
}

static bool gets_stuck(const struct world *w)
{
    struct world end = *w;
    come_to_rest(&end);
    if (is_beside_bare(&end)) {
        return !has_bare_alone(&end);
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        const struct spec *spec = &end.specs[i];
        if (spec->exists && !spec->root && !is_contested(&end, i) &&
            end.maps[i].generation < GENERATIONS &&
            (end.maps[i].generation == 0 || !is_same(end.maps[i].content, wanted_of(i, spec)))) {
            return true;
        }
    }
    return false;
}

/* ---- breadth first ---- */

struct node {
    struct world world;
    uint32_t parent;
    uint32_t depth;
};

struct exploration {
    struct node *nodes;
    size_t count;
    size_t max;
    uint32_t *table; /* of indices + 1 */
    size_t table_mask;
    size_t from; /* whose steps are taken */
    uint64_t steps;
    uint64_t lively;  /* states from which it was seen to come to rest */
    size_t violation; /* SIZE_MAX: none */
    const char *what;
    bool full;
};

static uint64_t hash_of(const struct world *w)
{
    const unsigned char *p = (const unsigned char *)w;
    uint64_t h = 1469598103934665603U;
    for (size_t i = 0; i < sizeof *w; i++) {
        h = (h ^ p[i]) * 1099511628211U;
    }
    return h ^ h >> 29;
}

static void add_state(void *data, const struct world *next, const char *text)
{
    struct exploration *x = data;
    (void)text;
    size_t at = hash_of(next) & x->table_mask;
    x->steps++;
    while (x->table[at] != 0) {
        if (memcmp(&x->nodes[x->table[at] - 1].world, next, sizeof *next) == 0) {
            return;
        }
        at = (at + 1) & x->table_mask;
    }
    if (x->count == x->max) {
        x->full = true;
        return;
    }
    x->nodes[x->count] = (struct node){*next, (uint32_t)x->from, x->nodes[x->from].depth + 1};
    x->table[at] = (uint32_t)++x->count;
    if (x->violation == SIZE_MAX && says_two_owners(next)) {
        x->violation = x->count - 1;
        x->what = "two owners";
    }
}

struct telling {
    const struct world *goal;
    bool told;
};

static void tell_step(void *data, const struct world *next, const char *text)
{
    struct telling *t = data;
    if (!t->told && memcmp(next, t->goal, sizeof *next) == 0) {
        printf("  %s\n", text);
        t->told = true;
    }
}

static void print_way(const struct exploration *x, size_t to)
{
    size_t way[1024];
    size_t count = 0;
    for (size_t at = to; at != 0 && count < ARRAY_LEN(way); at = x->nodes[at].parent) {
        way[count++] = at;
    }
    while (count-- > 0) {
        struct telling t = {.goal = &x->nodes[way[count]].world};
        struct steps s = {.fn = tell_step, .data = &t, .explain = true};
        all_steps(&s, &x->nodes[x->nodes[way[count]].parent].world);
    }
}

/* All is published and enforced. */
static void begin(struct world *w)
{
    memcpy(w->specs, scenario->begin, sizeof w->specs);
    for (unsigned i = 0; i < PODS; i++) {
        w->pods[i] = (struct pod_state){.state = POD_RUNS, .shard = (uint8_t)workload_of(i)};
    }
    come_to_rest(w);
}

static int explore(size_t max, unsigned lively_every)
{
    struct exploration x = {.max = max, .violation = SIZE_MAX, .table_mask = 1};
    struct timespec start;
    struct timespec end;
    while (x.table_mask < max * 2) {
        x.table_mask *= 2;
    }
    x.nodes = calloc(max, sizeof *x.nodes);
    x.table = calloc(x.table_mask, sizeof *x.table);
    x.table_mask--;
    if (x.nodes == NULL || x.table == NULL) {
        fprintf(stderr, "ownership_model: out of memory\n");
        return 2;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    struct world first = {.pending = NONE};
    begin(&first);
    add_state(&x, &first, "");
    x.nodes[0].depth = 0;
    struct steps s = {.fn = add_state, .data = &x};
    for (; x.from < x.count && x.violation == SIZE_MAX; x.from++) {
        struct world w = x.nodes[x.from].world;
        all_steps(&s, &w);
        if (x.from % lively_every == 0) {
            x.lively++;
            if (gets_stuck(&w)) {
                x.violation = x.from;
                x.what = "a shard without its share, though nobody is in the way";
            }
        }
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    double s_taken =
        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    printf("%-15s %9zu states%s, depth %u, %llu steps (%.0f a second), %llu brought to rest\n",
           scenario->name, x.count, x.full ? " (as many as it may have)" : "",
           x.nodes[x.count - 1].depth, (unsigned long long)x.steps, (double)x.steps / s_taken,
           (unsigned long long)x.lively);
    if (x.violation != SIZE_MAX) {
        printf("%s:\n", x.what);
        print_way(&x, x.violation);
    }
    free(x.nodes);
    free(x.table);
    return x.violation != SIZE_MAX;
}

static int usage(FILE *out, int rc)
{
    fprintf(out, "Usage: ownership_model [--states N] [--scenario NAME]\n"
                 "Explores who owns what; N states of each scenario at most (100000).\n");
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"states", required_argument, NULL, 's'},
                                            {"scenario", required_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    enum { LIVELY_EVERY = 37 };
    size_t max = 100000;
    const char *only = NULL;
    int rc = 0;
    int o;
    while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (o == 's') {
            max = strtoul(optarg, NULL, 10);
        } else if (o == 'n') {
            only = optarg;
        } else {
            return usage(o == 'h' ? stdout : stderr, o == 'h' ? 0 : 2);
        }
    }
    if (max == 0 || max > UINT32_MAX / 2 || optind != argc) {
        return usage(stderr, 2);
    }
    for (size_t i = 0; i < ARRAY_LEN(workloads); i++) {
        struct err e = ERR_INIT;
        char text[32];
        (void)snprintf(text, sizeof text, "app=%s", workloads[i]);
        selectors[i] = selector_parse(slice_str(text), &e);
        if (selectors[i] == NULL) {
            return 2;
        }
    }
    make_all_rules();
    size_t explored = 0;
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
        scenario = &scenarios[i];
        if (only == NULL || strcmp(only, scenario->name) == 0) {
            explored++;
            rc = explore(max, LIVELY_EVERY) != 0 ? 1 : rc;
        }
    }
    return explored == 0 ? usage(stderr, 2) : rc;
}
