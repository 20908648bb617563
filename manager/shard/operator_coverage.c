/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules and namespaces change together and often: after a while, all operators that are due are
 * looked at, one after the other, those first for which it took the least time before. After each
 * look is a rest that is longer than it was, so that nobody's shards keep a processor busy.
 */
#include "shard/operator_coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cache/namespaces.h"
#include "net/timer.h"
#include "shard/controller_internal.h"

enum { GATHER_MS = 500, NEXT_MS = 5, REST_TIMES = 9, KEY_SIZE = 520 };

struct operator_group {
    struct table_node node;
    bool due;
    bool moved;       /* the rules are others than those of `found`, */
    bool moved_since; /* and than those that are being looked at */
    bool looked;      /* `found` tells something */
    uint64_t took_ms; /* to find it */
    struct covered found;
    char key[];
};

struct operator_coverage {
    struct controller *controller;
    struct namespaces *namespaces;
    struct namespaces_listener listener;
    struct net_timer *timer;
    struct table groups;
    struct coverage_scan *look; /* under way; NULL: none is */
    struct operator_group *looked_at;
    bool telling; /* the timer is set */
};

/* ---- operators ---- */

static struct operator_group *group_of(struct table_node *n)
{
    return LIST_ITEM(n, struct operator_group, node);
}

static const char *write_key(char key[KEY_SIZE], const struct rules *rules)
{
    const char *lock = rules_leader_election(rules);
    (void)snprintf(key, KEY_SIZE, "%s/%s", rules_shard_namespace(rules), lock == NULL ? "" : lock);
    return key;
}

/* What it shows, or will; of a spec that is refused what it was before. NULL: nothing. */
static struct rules *rules_of(const struct shard *s)
{
    const struct rules_map *map = NULL;
    if (shard_config(s) == NULL) {
        return NULL;
    }
    if (s->compiled == NULL) {
        map = shard_cache_find_map(s->controller->options.cache, s->key);
    }
    return map != NULL && rules_map_ours(map) ? map->rules : s->compiled;
}

static bool is_of(const struct shard *s, const char *key)
{
    char own[KEY_SIZE];
    const struct rules *rules = rules_of(s);
    return rules != NULL && strcmp(write_key(own, rules), key) == 0;
}

/* By name, so that what is told does not depend on the order of a table. */
static int compare_shards(const void *left, const void *right)
{
    struct rules *const *a = left;
    struct rules *const *b = right;
    return strcmp(rules_shard_name(*a), rules_shard_name(*b));
}

/* With what at least one of the shards lists of what is shared. The caller frees both. */
static struct rules **collect_rules(const struct operator_coverage *v, const char *key,
                                    size_t *count, struct sharing_set *shared)
{
    const struct reconciler *all = v->controller->reconciler;
    const struct sharing_consent consent = {.known =
                                                shard_cache_shared(v->controller->options.cache)};
    struct rules **out = xcalloc(reconciler_count(all) + 1, sizeof *out);
    *count = 0;
    for (const struct shard *s = NULL; (s = reconciler_next(all, s)) != NULL;) {
        if (is_of(s, key)) {
            out[(*count)++] = rules_of(s);
            sharing_set_add(shared, shard_config(s)->object, &consent);
        }
    }
    qsort(out, *count, sizeof *out, compare_shards);
    return out;
}

/* ---- looking ---- */

/* All of the operator, or those that went without an answer. */
static void wake_shards(const struct operator_coverage *v, const char *key, bool all)
{
    struct controller *c = v->controller;
    for (const struct shard *s = NULL; (s = reconciler_next(c->reconciler, s)) != NULL;) {
        if ((all || s->not_covered_yet) && is_of(s, key)) {
            controller_look(c, s->key);
        }
    }
}

static bool same(const struct covered *a, const struct covered *b)
{
    return a->applies == b->applies && a->unknown == b->unknown && a->gaps == b->gaps &&
           a->overlaps == b->overlaps && strcmp(a->text, b->text) == 0;
}

static void plan(struct operator_coverage *v, uint64_t ms)
{
    if (!v->telling && v->look == NULL && namespaces_synced(v->namespaces)) {
        v->telling = true;
        net_clock_set_timer(v->controller->clock, v->timer, ms);
    }
}

static void plan_next(struct operator_coverage *v, uint64_t ms)
{
    bool due = false;
    for (struct table_node *n = NULL; !due && (n = table_next(&v->groups, n)) != NULL;) {
        due = group_of(n)->due;
    }
    if (due) {
        plan(v, ms);
    }
}

static void on_looked(void *data, const struct covered *found, uint64_t took_ms)
{
    struct operator_coverage *v = data;
    struct operator_group *g = v->looked_at;
    v->look = NULL;
    v->looked_at = NULL;
    bool changed = !same(found, &g->found);
    g->moved = g->moved_since;
    g->looked = true;
    g->took_ms = took_ms;
    g->found = *found;
    wake_shards(v, g->key, changed);
    plan_next(v, NEXT_MS + took_ms * REST_TIMES);
}

/* False: nobody has rules like that any more. */
static bool look_at(struct operator_coverage *v, struct operator_group *g)
{
    size_t count = 0;
    struct sharing_set shared = {.count = 0};
    struct rules **rules = collect_rules(v, g->key, &count, &shared);
    if (count > 0) {
        v->look = coverage_scan_start(v->controller->loop, v->controller->options.cache, rules,
                                      count, &shared, v->namespaces,
                                      v->controller->options.cover_steps, on_looked, v);
    }
    g->due = count > 0 && v->look == NULL; /* tried again */
    g->moved_since = g->due;
    v->looked_at = v->look == NULL ? NULL : g;
    sharing_set_deinit(&shared);
    free(rules);
    return count > 0;
}

static struct operator_group *find_quickest(const struct operator_coverage *v)
{
    struct operator_group *best = NULL;
    for (struct table_node *n = NULL; (n = table_next(&v->groups, n)) != NULL;) {
        struct operator_group *g = group_of(n);
        if (g->due && (best == NULL || g->took_ms < best->took_ms)) {
            best = g;
        }
    }
    return best;
}

static void on_timer(void *data)
{
    struct operator_coverage *v = data;
    struct operator_group *g = NULL;
    v->telling = false;
    while (v->look == NULL && (g = find_quickest(v)) != NULL) {
        if (!look_at(v, g)) {
            table_remove(&v->groups, &g->node);
            free(g);
        } else if (g->due) {
            plan(v, GATHER_MS);
            return;
        }
    }
}

static void on_namespaces(void *data, const struct namespace_entry *before,
                          const struct namespace_entry *after)
{
    struct operator_coverage *v = data;
    if (before != NULL && after != NULL) {
        return; /* it is there as before: its labels count by what shards are compiled to */
    }
    for (struct table_node *n = NULL; (n = table_next(&v->groups, n)) != NULL;) {
        group_of(n)->due = true;
    }
    plan(v, GATHER_MS);
}

/* ---- what others ask ---- */

void operator_coverage_note(struct operator_coverage *v, const struct rules *rules)
{
    char key[KEY_SIZE];
    if (v == NULL || rules == NULL) {
        return;
    }
    struct operator_group *g = xptr(
        TABLE_PROVIDE(&v->groups, slice_str(write_key(key, rules)), struct operator_group, key));
    g->due = true;
    g->moved = true;
    g->moved_since = true;
    plan(v, GATHER_MS);
}

const struct covered *operator_coverage_find(const struct operator_coverage *v,
                                             const struct rules *rules)
{
    char key[KEY_SIZE];
    struct table_node *n =
        v == NULL || rules == NULL ? NULL : table_find(&v->groups, write_key(key, rules));
    return n == NULL || group_of(n)->moved ? NULL : &group_of(n)->found;
}

const char *operator_coverage_reason(const struct covered *c)
{
    return c->unknown        ? "TooManyLimits"
           : c->overlaps > 0 ? "Overlaps"
           : c->gaps > 0     ? "Gaps"
                             : "Covered";
}

const char *operator_coverage_status(const struct covered *c)
{
    return c->unknown ? "Unknown" : c->gaps > 0 || c->overlaps > 0 ? "False" : "True";
}

static void write_series(const struct operator_coverage *v, struct buf *out, const char *name,
                         const char *help, bool gaps)
{
    size_t series = 0;
    prometheus_head(out, name, "gauge", help);
    for (struct table_node *n = NULL; (n = table_next(&v->groups, n)) != NULL;) {
        const struct operator_group *g = group_of(n);
        bool known = g->looked && g->found.applies && !g->found.unknown;
        if (known && series++ < OPERATOR_COVERAGE_SERIES_MAX) {
            buf_printf(out, "%s{operator=\"%s\"} %zu\n", name, g->key,
                       gaps ? g->found.gaps : g->found.overlaps);
        }
    }
}

void operator_coverage_metrics(const struct operator_coverage *v, struct buf *out)
{
    if (v != NULL) {
        write_series(v, out, "cmesh_manager_namespaces_uncovered",
                     "Namespaces that are in no shard, by operator.", true);
        write_series(v, out, "cmesh_manager_namespaces_overlapping",
                     "Namespaces that are in two shards, by operator.", false);
    }
}

/* ---- life ---- */

struct operator_coverage *operator_coverage_new(struct controller *c)
{
    struct operator_coverage *v = xcalloc(1, sizeof *v);
    v->controller = c;
    v->namespaces = c->options.namespaces;
    v->timer = xptr(net_timer_new(c->loop, on_timer, v));
    v->listener = (struct namespaces_listener){.on_change = on_namespaces, .data = v};
    namespaces_listen(v->namespaces, &v->listener);
    return v;
}

void operator_coverage_free(struct operator_coverage *v)
{
    if (v == NULL) {
        return;
    }
    coverage_scan_drop(v->look);
    namespaces_unlisten(&v->listener);
    net_timer_free(v->timer);
    for (struct table_node *n = NULL; (n = table_next(&v->groups, NULL)) != NULL;) {
        table_remove(&v->groups, n);
        free(group_of(n));
    }
    table_deinit(&v->groups);
    free(v);
}
