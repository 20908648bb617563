/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "net/timer.h"
#include "object/conditions.h"
#include "root/roots_internal.h"
#include "json/field.h"

enum {
    MINUTE_MS = 60000,
    LOOKS = 4, /* a minute */
    HOUR = 60, /* minutes */
    MS = 1000,
    MICROSECONDS = 1000000,
};

static uint64_t minute_ms(const struct roots *r)
{
    return r->options.minute_ms != 0 ? r->options.minute_ms : MINUTE_MS;
}

static int64_t wall_s(const struct roots *r)
{
    return net_clock_wall(r->clock) / MICROSECONDS;
}

static int64_t minutes_s(const struct roots *r, unsigned minutes)
{
    return (int64_t)(minutes * minute_ms(r) / MS);
}

/* ---- looking at pods ---- */

struct pods {
    struct load_window_pod *items;
    size_t count;
    bool any; /* of them counts */
};

static void add_pod(const struct root *t, unsigned shard, const struct pod *p, struct pods *out)
{
    const struct roots_options *o = &t->roots->options;
    const struct control_load *load = o->load_of(o->data, p->key);
    out->items = xrealloc(out->items, (out->count + 1) * sizeof *out->items);
    out->items[out->count++] =
        (struct load_window_pod){.key = p->key, .uid = p->uid, .shard = shard, .load = load};
    out->any = out->any || load != NULL;
}

/* Those that have its sidecars and are not over. */
static void add_pods_of(const struct root *t, unsigned shard, struct pods *out)
{
    const struct root_spec spec = {.prefix = t->load.prefix};
    char name[CHILD_NAME_SIZE];
    char ns[ROOT_NS_SIZE];
    size_t count = 0;
    if (child_name(&spec, shard, name) != 0) {
        return;
    }
    char *key = xasprintf("%s/%s", root_namespace(t, ns), name);
    const struct pod **pods = shard_cache_injected(t->roots->options.cache, key, &count);
    for (size_t i = 0; i < count; i++) {
        if (!pods[i]->over) {
            add_pod(t, shard, pods[i], out);
        }
    }
    free(pods);
    free(key);
}

/* As they were written last; what two have for a moment is of either. */
static void find_owners(const struct root *t, struct buckets *out)
{
    *out = (struct buckets){.owner = {0}};
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        for (unsigned k = 0; k < SHARDING_HASH_SIZE; k++) {
            if (t->children[i].known && (t->children[i].buckets >> k & 1) != 0) {
                out->owner[k] = (uint8_t)i;
            }
        }
    }
}

static void stop_looking(struct root *t)
{
    load_window_free(t->load.window);
    t->load.window = NULL;
    if (t->load.report.known) {
        t->load.report.known = false;
        reconciler_look(t->roots->reconciler, t->key, 0);
    }
}

/* Once a minute people are told, and it is looked whether something is to move. */
static void report(struct root *t, const struct buckets *owners)
{
    struct load_counts rates[SHARDING_HASH_SIZE];
    uint64_t now = roots_now(t->roots);
    bool due = !t->load.report.known || now - t->load.reported_at >= minute_ms(t->roots);
    if (load_window_minutes(t->load.window) == 0 || !due) {
        return;
    }
    load_window_rates(t->load.window, rates);
    load_report_make(&t->load.report, rates, owners);
    t->load.reported_at = now;
    reconciler_look(t->roots->reconciler, t->key, 0);
}

static void look(struct root *t)
{
    struct pods pods = {.items = NULL};
    struct load_window **window = &t->load.window;
    struct buckets owners;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX && t->load.prefix != NULL; i++) {
        if (t->children[i].known) {
            add_pods_of(t, i, &pods);
        }
    }
    if (pods.any) {
        *window = *window != NULL ? *window : load_window_new(minute_ms(t->roots));
        find_owners(t, &owners);
        load_window_look(*window, roots_now(t->roots), pods.items, pods.count, &owners);
        report(t, &owners);
    } else {
        stop_looking(t);
    }
    free(pods.items);
}

static void on_timer(void *data)
{
    struct roots *r = data;
    for (struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        look(t);
    }
    net_clock_set_timer(r->clock, r->load_timer, minute_ms(r) / LOOKS);
}

void roots_load_begin(struct roots *r)
{
    if (r->options.load_of != NULL) {
        r->load_timer = xptr(net_timer_new(r->loop, on_timer, r));
        net_clock_set_timer(r->clock, r->load_timer, minute_ms(r) / LOOKS);
    }
}

void roots_load_end(struct roots *r)
{
    net_timer_free(r->load_timer);
    r->load_timer = NULL;
}

void root_load_forget(struct root *t)
{
    load_window_free(t->load.window);
    free(t->load.prefix);
    t->load = (struct root_load){.prefix = NULL};
}

/* ---- whether something may move ---- */

static const cJSON *status_of(const struct root *t)
{
    const struct shard_cache_config *config = root_config(t);
    return config == NULL ? NULL : field_get(config->object, "status");
}

/* All rules are in force, and the status says so of the spec that there is. */
static bool is_enforced(const struct root *t)
{
    const cJSON *ready = conditions_find(status_of(t), "Ready");
    return strcmp(field_text(ready, "status"), "True") == 0 &&
           conditions_observed(root_config(t)->object);
}

/* Each normal shard is to stay, and its pods have told long enough what they count. */
static bool all_tell(const struct root *t)
{
    const struct layout *l = &t->pass.layout;
    for (size_t i = 0; i < l->count; i++) {
        const struct layout_shard *s = &l->shards[i];
        if (s->leaving || s->taken_over ||
            (s->number != 0 && !load_window_covers(t->load.window, s->number))) {
            return false;
        }
    }
    return true;
}

static bool may_move(const struct root *t)
{
    const struct root_pass *p = &t->pass;
    return t->load.per_hour != 0 && t->load.window != NULL && !p->spec.disable && !p->held &&
           p->layout.moved == 0 && !p->layout.changed && !p->layout.fresh && is_enforced(t) &&
           all_tell(t);
}

/* ---- the move ---- */

static void read_layout(const struct layout *l, struct buckets *b, uint32_t *eligible)
{
    *b = (struct buckets){.owner = {0}};
    *eligible = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct layout_shard *s = &l->shards[i];
        *eligible |= s->number == 0 ? 0 : (uint32_t)1 << (s->number - 1);
        for (unsigned k = 0; k < SHARDING_HASH_SIZE; k++) {
            if ((s->buckets >> k & 1) != 0) {
                b->owner[k] = (uint8_t)s->number;
            }
        }
    }
}

static bool choose(const struct root *t, struct root_move *m)
{
    struct load_counts rates[SHARDING_HASH_SIZE];
    uint64_t cost[SHARDING_HASH_SIZE];
    struct load_report exact;
    struct buckets b;
    uint32_t eligible;
    read_layout(&t->pass.layout, &b, &eligible);
    load_window_rates(t->load.window, rates);
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        cost[i] = load_cost(&rates[i]);
    }
    if (!load_choose(&b, cost, eligible, &m->bucket, &m->to)) {
        return false;
    }
    load_report_make(&exact, rates, &b);
    m->from = b.owner[m->bucket];
    m->carried = exact.of_shard[m->from];
    m->cost = exact.percent[m->bucket];
    return true;
}

/* The status is written with its time, which brings the root again. */
static void plan(struct root *t)
{
    const struct roots *r = t->roots;
    struct root_move m = {.state = ROOT_MOVE_PLANNED, .at_s = wall_s(r)};
    bool allowed = load_moves_allow(&t->load.moves, t->load.per_hour, m.at_s,
                                    minutes_s(r, LOAD_WINDOW_MINUTES));
    if (allowed && choose(t, &m)) {
        t->load.move = m;
    }
}

static struct layout_shard *find_shard(struct layout *l, unsigned number)
{
    for (size_t i = 0; i < l->count; i++) {
        if (l->shards[i].number == number) {
            return &l->shards[i];
        }
    }
    return NULL;
}

static void make_move(struct root *t)
{
    struct root_move *m = &t->load.move;
    struct layout *l = &t->pass.layout;
    struct layout_shard *from = find_shard(l, m->from);
    struct layout_shard *to = find_shard(l, m->to);
    uint32_t bit = (uint32_t)1 << m->bucket;
    if (from == NULL || to == NULL || (from->buckets & bit) == 0) {
        m->state = ROOT_MOVE_NONE;
        return;
    }
    from->buckets &= ~bit;
    to->buckets |= bit;
    l->moved = 1;
    l->changed = true;
    m->state = ROOT_MOVE_MOVING;
    t->load.told = false;
}

void root_load_move(struct root *t)
{
    struct root_move *m = &t->load.move;
    load_moves_read(&t->load.moves, field_get(status_of(t), "root"), wall_s(t->roots),
                    minutes_s(t->roots, HOUR));
    if (!may_move(t)) {
        m->state = m->state == ROOT_MOVE_PLANNED ? ROOT_MOVE_NONE : m->state;
    } else if (m->state != ROOT_MOVE_PLANNED) {
        plan(t);
    } else if (load_moves_has(&t->load.moves, m->at_s)) {
        make_move(t);
    }
}

struct load_moves root_load_moves(const struct root *t)
{
    struct load_moves moves = t->load.moves;
    const struct root_move *m = &t->load.move;
    if (m->state == ROOT_MOVE_PLANNED && !load_moves_has(&moves, m->at_s)) {
        load_moves_note(&moves, m->at_s);
    }
    return moves;
}

static void tell(const struct root *t, const struct root_move *m)
{
    const struct shard_cache_config *config = root_config(t);
    char from[CHILD_NAME_SIZE];
    char to[CHILD_NAME_SIZE];
    if (config == NULL || child_name(&t->pass.spec, m->from, from) != 0 ||
        child_name(&t->pass.spec, m->to, to) != 0) {
        return;
    }
    const struct event_object about = event_object_of(config->object);
    event_record(t->roots->options.events, &about, EVENT_NORMAL, "Rebalanced",
                 "Bucket %u moves from shard %s to %s: %s carried %u %% of the load, %u %% of all "
                 "by this bucket.",
                 m->bucket, from, to, from, m->carried, m->cost);
    t->roots->options.counts->rebalanced++;
}

void root_load_written(struct root *t)
{
    struct root_move *m = &t->load.move;
    const struct layout_shard *s = &t->pass.shard;
    if (m->state == ROOT_MOVE_MOVING && s->number == m->to && (s->buckets >> m->bucket & 1) != 0 &&
        !t->load.told) {
        t->load.told = true;
        t->told_takeover = true; /* nor need another one tell that something moved */
        tell(t, m);
    }
}

/* ---- the beginning of a pass ---- */

static struct layout_child *find_fact(struct root_pass *p, unsigned number)
{
    for (size_t i = 0; i < p->fact_count; i++) {
        if (p->facts[i].number == number) {
            return &p->facts[i];
        }
    }
    return NULL;
}

static void finish_move(struct root *t)
{
    struct root_move *m = &t->load.move;
    uint32_t bit = (uint32_t)1 << m->bucket;
    struct layout_child *from = find_fact(&t->pass, m->from);
    struct layout_child *to = find_fact(&t->pass, m->to);
    bool both =
        from != NULL && to != NULL && (from->buckets & bit) != 0 && (to->buckets & bit) != 0;
    if (both) {
        from->buckets &= ~bit;
    } else {
        m->state = ROOT_MOVE_NONE;
    }
}

static void take_prefix(struct root *t, const char *prefix)
{
    if (t->load.prefix != NULL && strcmp(t->load.prefix, prefix) == 0) {
        return;
    }
    free(t->load.prefix);
    t->load.prefix = xstrdup(prefix);
}

void root_load_begin_pass(struct root *t)
{
    take_prefix(t, t->pass.spec.prefix);
    t->load.per_hour = t->pass.spec.automatic.moves_per_hour;
    if (t->load.move.state == ROOT_MOVE_MOVING) {
        finish_move(t);
    }
}
