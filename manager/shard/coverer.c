/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules and namespaces change together and often: after a while, all operators that are due are
 * looked at, one in each turn of the loop, since each takes as long as it has shards times
 * namespaces.
 */
#include "shard/coverer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/coverage.h"
#include "net/timer.h"
#include "shard/controller_internal.h"
#include "shard/namespaces.h"

enum { GATHER_MS = 500, NEXT_MS = 5, NAMES_MAX = 3, NAME_SIZE = 64, KEY_SIZE = 520 };

struct operator_group {
    struct table_node node;
    bool due;
    bool moved;  /* the rules are others than those of `found` */
    bool looked; /* `found` tells something */
    struct covered found;
    char key[];
};

struct coverer {
    struct controller *controller;
    struct namespaces *namespaces;
    struct net_timer *timer;
    struct table groups;
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

static struct operator_group *provide_group(struct coverer *v, const char *key)
{
    struct table_node *n = table_find(&v->groups, key);
    size_t size = strlen(key) + 1;
    struct operator_group *g = n != NULL ? group_of(n) : calloc(1, sizeof *g + size);
    if (n != NULL || g == NULL) {
        return g;
    }
    memcpy(g->key, key, size);
    if (table_insert(&v->groups, &g->node, g->key) != 0) {
        free(g);
        return NULL;
    }
    return g;
}

/* What it shows, or will; of a spec that is refused what it was before. NULL: nothing. */
static const struct rules *rules_of(const struct shard *s)
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
    const struct rules *const *a = left;
    const struct rules *const *b = right;
    return strcmp(rules_shard_name(*a), rules_shard_name(*b));
}

/* The caller frees. NULL without memory. */
static const struct rules **collect_rules(const struct coverer *v, const char *key, size_t *count)
{
    const struct table *shards = &v->controller->shards;
    const struct rules **out = calloc(shards->count + 1, sizeof *out);
    *count = 0;
    for (struct table_node *n = NULL; out != NULL && (n = table_next(shards, n)) != NULL;) {
        const struct shard *s = LIST_ITEM(n, struct shard, node);
        if (is_of(s, key)) {
            out[(*count)++] = rules_of(s);
        }
    }
    if (out != NULL) {
        qsort(out, *count, sizeof *out, compare_shards);
    }
    return out;
}

/* ---- looking ---- */

/* The first few, by name. */
struct few {
    size_t count;
    char names[NAMES_MAX][NAME_SIZE];
    size_t shards[NAMES_MAX][2];
};

static void few_add(struct few *f, const char *name, size_t a, size_t b)
{
    size_t listed = f->count < NAMES_MAX ? f->count : NAMES_MAX;
    size_t at = listed;
    f->count++;
    while (at > 0 && strcmp(name, f->names[at - 1]) < 0) {
        at--;
        if (at + 1 < NAMES_MAX) {
            memcpy(f->names[at + 1], f->names[at], NAME_SIZE);
            memcpy(f->shards[at + 1], f->shards[at], sizeof f->shards[at]);
        }
    }
    if (at < NAMES_MAX) {
        (void)snprintf(f->names[at], NAME_SIZE, "%s", name);
        f->shards[at][0] = a;
        f->shards[at][1] = b;
    }
}

static int write_few(struct buf *out, const char *head, const struct few *f,
                     const struct rules *const *rules)
{
    size_t listed = f->count < NAMES_MAX ? f->count : NAMES_MAX;
    int rc = listed == 0 ? 0 : buf_printf(out, "%s%s", out->len > 0 ? " " : "", head);
    for (size_t i = 0; i < listed && rc == 0; i++) {
        rc = buf_printf(out, "%s%s", i > 0 ? ", " : "", f->names[i]);
        if (rules != NULL && rc == 0) {
            rc = buf_printf(out, " (%.50s, %.50s)", rules_shard_name(rules[f->shards[i][0]]),
                            rules_shard_name(rules[f->shards[i][1]]));
        }
    }
    if (f->count > listed && rc == 0) {
        rc = buf_printf(out, " and %zu more", f->count - listed);
    }
    return listed == 0 || rc != 0 ? rc : buf_append_char(out, '.');
}

static int write_text(struct covered *c, const struct few *gaps, const struct few *overlaps,
                      const struct rules *const *rules)
{
    struct buf out = BUF_INIT(sizeof c->text - 1);
    int rc = write_few(&out, "In no shard: ", gaps, NULL);
    rc = rc != 0 ? rc : write_few(&out, "In two shards: ", overlaps, rules);
    if (rc == 0 && out.len == 0) {
        rc = buf_append_str(&out, "Each namespace is in one shard.");
    }
    const char *text = rc == 0 ? buf_cstr(&out) : NULL;
    (void)snprintf(c->text, sizeof c->text, "%s", text == NULL ? "" : text);
    buf_reset(&out);
    return text == NULL ? -ENOMEM : 0;
}

static int look_at_all(const struct coverer *v, struct coverage *coverage,
                       const struct rules *const *rules, struct covered *out)
{
    struct few gaps = {.count = 0};
    struct few overlaps = {.count = 0};
    for (const char *ns = NULL; (ns = namespaces_next(v->namespaces, ns)) != NULL;) {
        size_t a = 0;
        size_t b = 0;
        enum coverage_verdict verdict = coverage_look(coverage, ns, &a, &b);
        if (verdict == COVERAGE_GAP) {
            few_add(&gaps, ns, 0, 0);
        } else if (verdict == COVERAGE_OVERLAP) {
            few_add(&overlaps, ns, a, b);
        }
    }
    out->gaps = gaps.count;
    out->overlaps = overlaps.count;
    return write_text(out, &gaps, &overlaps, rules);
}

/* All of the operator, or those that went without an answer. */
static void wake_shards(const struct coverer *v, const char *key, bool all)
{
    struct controller *c = v->controller;
    for (struct table_node *n = NULL; (n = table_next(&c->shards, n)) != NULL;) {
        const struct shard *s = LIST_ITEM(n, struct shard, node);
        if ((all || s->not_covered_yet) && is_of(s, key)) {
            controller_look(c, s->key);
        }
    }
}

static bool same(const struct covered *a, const struct covered *b)
{
    return a->applies == b->applies && a->gaps == b->gaps && a->overlaps == b->overlaps &&
           strcmp(a->text, b->text) == 0;
}

/* False: nobody has rules like that any more. */
static bool look_at(struct coverer *v, struct operator_group *g)
{
    size_t count = 0;
    const struct rules **rules = collect_rules(v, g->key, &count);
    struct coverage *coverage = rules == NULL ? NULL : coverage_new(rules, count);
    struct covered found = {.applies = coverage != NULL && coverage_by_namespace(coverage)};
    int rc = coverage == NULL ? -ENOMEM : 0;
    if (rc == 0 && found.applies) {
        rc = look_at_all(v, coverage, rules, &found);
    }
    g->due = rc != 0; /* tried again */
    if (rc == 0 && count > 0) {
        bool changed = !same(&found, &g->found);
        g->moved = false;
        g->looked = true;
        g->found = found;
        wake_shards(v, g->key, changed);
    }
    coverage_free(coverage);
    free(rules);
    return rc != 0 || count > 0;
}

static void plan(struct coverer *v, uint64_t ms)
{
    if (!v->telling && namespaces_synced(v->namespaces)) {
        v->telling = true;
        net_clock_set_timer(v->controller->clock, v->timer, ms);
    }
}

static void on_timer(void *data)
{
    struct coverer *v = data;
    bool one = false;
    v->telling = false;
    for (struct table_node *n = table_next(&v->groups, NULL), *after; n != NULL; n = after) {
        struct operator_group *g = group_of(n);
        after = table_next(&v->groups, n);
        if (g->due && one) {
            plan(v, NEXT_MS);
            return;
        }
        if (g->due) {
            one = true;
            if (!look_at(v, g)) {
                table_remove(&v->groups, &g->node);
                free(g);
            } else if (g->due) {
                plan(v, GATHER_MS);
                return;
            }
        }
    }
}

static void on_namespaces(void *data)
{
    struct coverer *v = data;
    for (struct table_node *n = NULL; (n = table_next(&v->groups, n)) != NULL;) {
        group_of(n)->due = true;
    }
    plan(v, GATHER_MS);
}

/* ---- what others ask ---- */

void coverer_note(struct coverer *v, const struct rules *rules)
{
    char key[KEY_SIZE];
    struct operator_group *g =
        v == NULL || rules == NULL ? NULL : provide_group(v, write_key(key, rules));
    if (g != NULL) {
        g->due = true;
        g->moved = true;
        plan(v, GATHER_MS);
    }
}

const struct covered *coverer_find(const struct coverer *v, const struct rules *rules)
{
    char key[KEY_SIZE];
    struct table_node *n =
        v == NULL || rules == NULL ? NULL : table_find(&v->groups, write_key(key, rules));
    return n == NULL || group_of(n)->moved ? NULL : &group_of(n)->found;
}

const char *coverer_reason(const struct covered *c)
{
    return c->overlaps > 0 ? "Overlaps" : c->gaps > 0 ? "Gaps" : "Covered";
}

static int write_series(const struct coverer *v, struct buf *out, const char *name,
                        const char *help, bool gaps)
{
    size_t series = 0;
    int rc = prometheus_head(out, name, "gauge", help);
    for (struct table_node *n = NULL; (n = table_next(&v->groups, n)) != NULL && rc == 0;) {
        const struct operator_group *g = group_of(n);
        if (g->looked && g->found.applies && series++ < COVERER_SERIES_MAX) {
            rc = buf_printf(out, "%s{operator=\"%s\"} %zu\n", name, g->key,
                            gaps ? g->found.gaps : g->found.overlaps);
        }
    }
    return rc;
}

int coverer_metrics(const struct coverer *v, struct buf *out)
{
    int rc = v == NULL ? 0
                       : write_series(v, out, "cmesh_manager_namespaces_uncovered",
                                      "Namespaces that are in no shard, by operator.", true);
    return v == NULL || rc != 0
               ? rc
               : write_series(v, out, "cmesh_manager_namespaces_overlapping",
                              "Namespaces that are in two shards, by operator.", false);
}

/* ---- life ---- */

struct coverer *coverer_new(struct controller *c, struct err *e)
{
    struct coverer *v = calloc(1, sizeof *v);
    const struct namespaces_options o = {.client = c->options.client,
                                         .own = c->options.namespace,
                                         .system = c->options.system_namespaces,
                                         .unknown = "whether each of them is in a shard",
                                         .on_change = on_namespaces,
                                         .data = v};
    if (v == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    v->controller = c;
    v->timer = net_timer_new(c->loop, on_timer, v);
    v->namespaces = v->timer == NULL ? NULL : namespaces_new(c->loop, &o, e);
    if (v->namespaces == NULL) {
        coverer_free(v);
        (void)err_memory(e);
        return NULL;
    }
    return v;
}

void coverer_free(struct coverer *v)
{
    if (v == NULL) {
        return;
    }
    namespaces_free(v->namespaces);
    net_timer_free(v->timer);
    for (struct table_node *n = NULL; (n = table_next(&v->groups, NULL)) != NULL;) {
        table_remove(&v->groups, n);
        free(group_of(n));
    }
    table_deinit(&v->groups);
    free(v);
}
