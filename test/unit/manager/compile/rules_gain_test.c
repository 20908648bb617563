/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/rules_gain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "rounds.h"

/* "pods ns=1|apps/deployments ns=2|secrets,configmaps a": limits; NULL: no rules. */
static struct rules *make(const char *limits)
{
    struct buf text = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    if (limits == NULL) {
        return NULL;
    }
    char *copy = strdup(limits);
    int rc =
        buf_append_str(&text, "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                              "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":1,"
                              "\"spec\":{\"limits\":[");
    bool first = true;
    for (char *limit = strtok(copy, "|"); limit != NULL; limit = strtok(NULL, "|")) {
        char *selector = strchr(limit, ' ');
        *selector++ = '\0';
        char *slash = strchr(limit, '/');
        const char *resource = slash == NULL ? limit : slash + 1;
        const char *group = slash == NULL ? "" : limit;
        if (slash != NULL) {
            *slash = '\0';
        }
        rc |= buf_printf(&text,
                         "%s{\"apiGroups\":[\"%s\"],\"resources\":[\"%s\"],\"selector\":\"%s\"}",
                         first ? "" : ",", group, resource, selector);
        first = false;
    }
    rc |= buf_append_str(&text, "]}}");
    assert_int_equal(rc, 0);
    struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
    if (r == NULL) {
        fail_msg("%s: %s", limits, e.msg);
    }
    buf_reset(&text);
    free(copy);
    return r;
}

static void cases(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        const char *to;
        const char *others;
        bool want; /* some of the gain is the others' */
        bool any;  /* there is any */
    } list[] = {
        /* A namespace moves. */
        {"pods ns in (4,5)", "pods ns in (3,4,5)", "pods ns in (1,2,3)", true, true},
        {"pods ns in (4,5)", "pods ns in (3,4,5)", "pods ns in (1,2)", false, true},
        {"pods ns in (4,5)", "pods ns in (4)", "pods ns in (4)", false, false},
        {"pods ns in (4,5)", "pods ns in (5,4)", "pods ns in (4,5)", false, false},
        {"pods ns in (4,5)", "pods ns in (4,6)", "pods ns in (4,5)", false, true},
        /* Both see some of it before: that is no gain. */
        {"pods ns in (3,4)", "pods ns in (3,4,5)", "pods ns in (1,3)", false, true},
        /* Each resource for itself. */
        {"pods ns in (4)|secrets ns in (4)", "pods ns in (3,4)|secrets ns in (4)",
         "pods ns in (1)|secrets ns in (3)", false, true},
        {"pods ns in (4)|secrets ns in (4)", "pods ns in (4)|secrets ns in (3,4)",
         "pods ns in (1)|secrets ns in (3)", true, true},
        {"pods ns=4", "pods ns in (3,4)", "apps/pods ns=3|pods ns=1", false, true},
        {"*/pods ns=4", "*/pods ns in (3,4)", "apps/pods ns=3|pods ns=1", true, true},
        {"*/* ns=4", "*/* ns in (3,4)", "*/* ns=1|pods a=1", false, true},
        {"*/* ns=4", "*/* ns in (3,4)", "*/* ns in (1,3)|pods a=1", true, true},
        /* The resource of one pattern and the group of another. */
        {"apps/* ns=4", "apps/* ns in (3,4)", "*/* ns=1|*/things ns=3", false, true},
        {"apps/* ns=4", "apps/* ns in (3,4)", "apps/* ns=1|*/things ns in (1,3)", false, true},
        {"*/things ns=4", "*/things ns in (3,4)", "apps/* ns=1|*/* ns in (1,3)", true, true},
        {"*/things ns=4", "*/things ns in (3,4)", "apps/* ns=3|*/* ns in (1,2)", false, true},
        /* Without limits of one side. */
        {"pods ns=4", "pods ns in (3,4)", "secrets ns=1", true, true},
        {"pods ns=4", "secrets ns=4", "pods ns=1", true, true},
        {"pods ns=4", "", "pods ns=4", false, true},
        {"pods ns=4", "", "pods ns=5", true, true},
        {"pods ns=4", "", "", true, true},
        {"", "pods ns=4", "", false, false},
        {"", "", "", false, false},
        /* No rules before: all is gained, but what every shard sees. */
        {NULL, "pods ns in (3,4)", "pods ns in (1,3)", true, true},
        {NULL, "pods ns in (3,4)", "pods ns in (1)", false, true},
        {NULL, "pods ns in (3,4)", "secrets ns in (1)", true, true},
        {NULL, "pods k,!k", "pods ns in (1)", false, false},
        {NULL, "", "", false, false},
        /* By other labels: it may be the same. */
        {"pods hash=1", "pods hash in (1,2)", "pods ns=3", true, true},
        /* Limits on one resource are one. */
        {"pods ns in (3,4)|pods ns in (4,5)", "pods ns in (4,5)", "pods ns=5", true, true},
        {"pods ns in (3,4)|pods ns in (4,5)", "pods ns in (4)", "pods ns=4", false, false},
        {"pods k,!k", "pods ns=1", "pods ns=1", true, true},
        /* "The others", of what is labelled. */
        {"pods ns in (1)", "pods ns in (1,2)", "pods ns,ns notin (1)", true, true},
        {"pods ns in (1)", "pods ns in (1,2)", "pods ns,ns notin (1,2)", false, true},
        {"pods ns,ns notin (1,2)", "pods ns,ns notin (1)", "pods ns in (1,2)", true, true},
        {"pods ns,ns notin (1,2)", "pods ns,ns notin (1)", "pods ns in (1)", false, true},
        {"pods ns,ns notin (1)", "pods ns,ns notin (1,2)", "pods ns in (1)", false, false},
        {"pods ns notin (1)", "pods ns,ns notin (1)", NULL, false, false},
        {"pods ns,ns notin (1)", "pods ns notin (1)", "pods ns in (1,2)", false, true},
        {"pods ns,ns notin (1)", "pods ns notin (1)", "pods ns notin (1,2)", true, true},
        {NULL, "pods ns,ns notin (1)", "pods ns in (1)", false, true},
        {NULL, "pods ns,ns notin (1)", "pods ns,ns notin (2)", true, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        struct rules *from = make(list[i].from);
        struct rules *to = make(list[i].to);
        struct rules *others = make(list[i].others);
        if (rules_gain(from, to, others) != list[i].want ||
            rules_gain(from, to, NULL) != list[i].any) {
            fail_msg("case %zu: %s -> %s, others %s: %d, any: %d", i, list[i].from, list[i].to,
                     list[i].others, rules_gain(from, to, others), rules_gain(from, to, NULL));
        }
        rules_unref(from);
        rules_unref(to);
        rules_unref(others);
    }
}

/* The limits that each of so many names gets, by "%u" twice. */
static struct rules *many(unsigned count, const char *format)
{
    struct buf text = BUF_INIT(1 << 20);
    for (unsigned i = 0; i < count; i++) {
        char limit[64];
        (void)snprintf(limit, sizeof limit, format, i, i);
        assert_int_equal(buf_printf(&text, "%s%s", i == 0 ? "" : "|", limit), 0);
    }
    struct rules *r = make(buf_cstr(&text));
    buf_reset(&text);
    return r;
}

/* What would take too long is not sure. */
static void very_many_resources(void **state)
{
    (void)state;
    struct rules *named = many(3000, "group-%u/resource-%u a=1");
    struct rules *groups = many(300, "group-%u/* a=1");
    struct rules *few = many(200, "*/resource-%u a=1");
    struct rules *lots = many(300, "*/resource-%u a=1");
    assert_false(rules_gain(named, named, named));
    assert_false(rules_gain(groups, groups, few));
    assert_true(rules_gain(groups, groups, lots));
    rules_unref(named);
    rules_unref(groups);
    rules_unref(few);
    rules_unref(lots);
}

/* ---- against what single objects show ---- */

static const char *const group_names[] = {"a", "b", "*", "z"};
static const char *const resource_names[] = {"x", "y", "*", "w"};
enum { WRITTEN = 3 }; /* of these names; the last one is nobody's */

static size_t any_below(unsigned *seed, size_t count)
{
    return (size_t)rand_r(seed) % count;
}

static struct rules *make_any(unsigned *seed)
{
    static const char *const selectors[] = {"k=1", "k=2", "k", "!k", "k in (1,2)", "k!=1"};
    struct buf text = BUF_INIT(4096);
    size_t count = 1 + any_below(seed, 4);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, "%s%s/%s %s", i == 0 ? "" : "|", group_names[any_below(seed, WRITTEN)],
                   resource_names[any_below(seed, WRITTEN)],
                   selectors[any_below(seed, ARRAY_LEN(selectors))]);
    }
    struct rules *r = make(buf_cstr(&text));
    buf_reset(&text);
    return r;
}

static bool is_seen(const struct rules *r, const char *group, const char *resource,
                    const char *value)
{
    const struct rules_entry *entry = rules_match(r, slice_str(group), slice_str(resource));
    struct selector_label label = {.key = SLICE("k"), .value = slice_str(value)};
    return entry == NULL || selector_matches(entry->compiled, &label, value[0] == '\0' ? 0 : 1);
}

static bool gains_one(const struct rules *from, const struct rules *to, const struct rules *others)
{
    static const char *const values[] = {"", "1", "2", "3"};
    bool gained = false;
    for (size_t i = 0; i < 4 * 4 * 4 && !gained; i++) {
        const char *group = strcmp(group_names[i / 16], "*") == 0 ? "z" : group_names[i / 16];
        const char *resource = resource_names[i / 4 % 4];
        const char *value = values[i % 4];
        resource = strcmp(resource, "*") == 0 ? "w" : resource;
        bool limited = rules_match(to, slice_str(group), slice_str(resource)) != NULL ||
                       rules_match(others, slice_str(group), slice_str(resource)) != NULL;
        bool before = from == NULL ? !limited : is_seen(from, group, resource, value);
        gained = !before && is_seen(to, group, resource, value) &&
                 is_seen(others, group, resource, value);
    }
    return gained;
}

static void whatever_the_limits_are(void **state)
{
    const unsigned turns = rounds(5000, 20000);
    unsigned seed = 7;
    unsigned gains = 0;
    (void)state;
    for (unsigned i = 0; i < turns; i++) {
        struct rules *from = i % 4 == 0 ? NULL : make_any(&seed);
        struct rules *to = make_any(&seed);
        struct rules *others = make_any(&seed);
        bool gained = gains_one(from, to, others);
        if (rules_gain(from, to, others) != gained) {
            fail_msg("turn %u: %s", i, gained ? "gains" : "does not gain");
        }
        gains += gained;
        rules_unref(from);
        rules_unref(to);
        rules_unref(others);
    }
    assert_in_range(gains, turns / 10, turns * 9 / 10);
}

/* Two limits, which have every other resource each, by so many names of their own. */
static struct rules *make_alternating(const char *who)
{
    enum { RESOURCES = 600, NAMES = 3000 };
    struct buf text = BUF_INIT(1 << 20);
    buf_append_str(&text, "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                          "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":1,"
                          "\"spec\":{\"limits\":[");
    for (unsigned limit = 0; limit < 2; limit++) {
        buf_printf(&text, "%s{\"apiGroups\":[\"g\"],\"resources\":[\"r%u\"", limit > 0 ? "," : "",
                   1000 + limit);
        for (unsigned i = 2 + limit; i < RESOURCES; i += 2) {
            buf_printf(&text, ",\"r%u\"", 1000 + i);
        }
        buf_printf(&text, "],\"selector\":\"ns in (%s%u", who, limit);
        for (unsigned i = 1; i < NAMES; i++) {
            buf_printf(&text, ",n%u-%s%u", i, who, limit);
        }
        buf_append_str(&text, ")\"}");
    }
    buf_append_str(&text, "]}}");
    assert_int_equal(buf_error(&text), 0);
    struct rules *r = rules_parse((const char *)buf_data(&text), text.len, NULL);
    assert_non_null(r);
    buf_reset(&text);
    return r;
}

/* However the names of resources come: what was compared once is known. */
static void limits_that_alternate(void **state)
{
    enum { TIMES = 5 };
    (void)state;
    clock_t begun = clock();
    struct rules *from = make_alternating("a");
    struct rules *to = make_alternating("b");
    struct rules *others = make_alternating("c");
    clock_t parsed = clock();
    assert_true(rules_gain(from, to, NULL));
    assert_true(rules_gain(from, to, to));
    assert_false(rules_gain(from, to, others));
    assert_in_range(clock() - parsed, 0, TIMES * (parsed - begun));
    rules_unref(from);
    rules_unref(to);
    rules_unref(others);
}

/* A wide limit by so many names, which each of the narrow ones has too. */
static struct rules *make_wide(const char *who, unsigned narrow)
{
    enum { NAMES = 11000 };
    struct buf text = BUF_INIT(1 << 20);
    buf_printf(&text, "*/* ns in (%s", who);
    for (unsigned i = 0; i < NAMES; i++) {
        buf_printf(&text, ",%s%u", who, i);
    }
    buf_append_str(&text, ")");
    for (unsigned i = 0; i < narrow; i++) {
        buf_printf(&text, "|g/r%u app=a%u", i, i);
    }
    struct rules *r = make(buf_cstr(&text));
    buf_reset(&text);
    return r;
}

static void very_many_values(void **state)
{
    enum { FEW = 10, LOTS = 110 };
    (void)state;
    struct rules *a[] = {make_wide("a", FEW), make_wide("a", LOTS)};
    struct rules *b[] = {make_wide("b", FEW), make_wide("b", LOTS)};
    assert_false(rules_gain(NULL, a[0], b[0]));
    assert_true(rules_gain(NULL, a[1], b[1]));
    for (size_t i = 0; i < 2; i++) {
        rules_unref(a[i]);
        rules_unref(b[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),
        cmocka_unit_test(very_many_resources),
        cmocka_unit_test(whatever_the_limits_are),
        cmocka_unit_test(limits_that_alternate),
        cmocka_unit_test(very_many_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
