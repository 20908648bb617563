/* SPDX-License-Identifier: Apache-2.0 */
#include "label/labeller.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "label/labeller_internal.h"

enum { PARALLEL = 8, PROGRESS_MS = 5000, CHECK_MS = 6 * 3600 * 1000, RECHECK_MS = 30000 };

static const struct state_machine stages = {
    .object = "labeller",
    .states = {[LABELLER_RESOLVING] = {"Resolving", STATE(LABELLER_LABELLING)},
               [LABELLER_LABELLING] = {"Labelling", STATE(LABELLER_CHECKING)},
               [LABELLER_CHECKING] = {"Checking", STATE(LABELLER_STEADY)},
               [LABELLER_STEADY] = {"Steady", 0}},
};

static void set_stage(struct labeller *l, enum labeller_stage stage)
{
    l->stage = state_change(&stages, l->stage, stage, slice_str(""));
}

/* ---- what is to be patched ---- */

/* Those that wait longer, since somebody takes their labels away, are no reason to wait for. */
static size_t level_now(const struct labeller *l)
{
    return patcher_level(l->patcher) - patcher_later(l->patcher);
}

static bool is_idle(const struct labeller *l)
{
    return level_now(l) == 0;
}

static struct resource *first(const struct labeller *l)
{
    return list_empty(&l->resources) ? NULL : LIST_ITEM(l->resources.next, struct resource, link);
}

/* The one behind `r`; NULL: `r` is the last. */
static struct resource *next_resource(const struct labeller *l, const struct resource *r)
{
    return r->link.next == &l->resources ? NULL : LIST_ITEM(r->link.next, struct resource, link);
}

static struct resource *find_resource(const struct labeller *l, unsigned id)
{
    struct resource *r = first(l);
    while (r != NULL && r->id != id) {
        r = next_resource(l, r);
    }
    return r;
}

static void each_reflector(struct labeller *l, void (*act)(struct reflector *))
{
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        if (r->unlabelled != NULL) {
            act(r->unlabelled);
        }
        if (r->labelled != NULL) {
            act(r->labelled);
        }
    }
}

static uint64_t pause_for(struct labeller *l, struct resource *r, const char *ns, const char *name)
{
    bool begins;
    uint64_t pause = relabel_backoff_pause(&l->backoff, r->id, ns, name,
                                           net_clock_now(l->options.clock), &begins);
    l->pauses += pause > 0 ? 1 : 0;
    if (begins) {
        resource_tell_backoff(r, ns, name);
    }
    return pause;
}

bool labeller_add(struct labeller *l, struct resource *r, const char *ns, const char *name,
                  const char *version)
{
    if (level_now(l) >= LEVEL_HIGH && !l->held) {
        l->held = true;
        each_reflector(l, reflector_hold);
    }
    labeller_go_on(l);
    return patcher_level(l->patcher) < LEVEL_MAX &&
           patcher_add(l->patcher, r->id, ns, name, version, pause_for(l, r, ns, name));
}

static int path_of(void *data, unsigned resource, const char *ns, struct buf *out)
{
    const struct resource *r = find_resource(data, resource);
    if (r == NULL || r->phase == RESOURCE_RESTING) {
        return -ENOENT;
    }
    return discovery_path(&r->api, r->api.namespaced ? ns : NULL, out);
}

static void on_done(void *data, unsigned resource, const char *ns, const char *name,
                    enum patcher_outcome outcome, const struct api_error *error)
{
    struct labeller *l = data;
    struct resource *r = find_resource(l, resource);
    if (r != NULL) {
        resource_take_outcome(r, ns, name, outcome, error);
    }
    if (outcome == PATCHER_CHANGED) {
        relabel_backoff_labelled(&l->backoff, resource, ns, name, net_clock_now(l->options.clock));
    }
    labeller_go_on(l);
}

static void on_level(void *data, unsigned resource, bool more)
{
    struct resource *r = find_resource(data, resource);
    if (r != NULL) {
        r->pending += more ? 1 : (size_t)-1;
    }
}

static const struct patcher_handlers patcher_handlers = {
    .path = path_of, .on_done = on_done, .on_level = on_level};

uint64_t labeller_outcomes(const struct labeller *l, enum patcher_outcome outcome)
{
    uint64_t sum = 0;
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        sum += r->outcomes[outcome];
    }
    return sum;
}

/* ---- what is said ---- */

static uint64_t changes(const struct labeller *l)
{
    return labeller_outcomes(l, PATCHER_CHANGED);
}

static uint64_t foreign(const struct labeller *l)
{
    uint64_t sum = 0;
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        sum += r->foreign.count;
    }
    return sum;
}

static uint64_t failures(const struct labeller *l)
{
    return labeller_outcomes(l, PATCHER_REFUSED) + labeller_outcomes(l, PATCHER_UNDONE);
}

static void log_progress(const struct labeller *l, const char *what)
{
    uint64_t ms = net_clock_now(l->options.clock) - l->began_at;
    log_write(LOG_INFO, what,
              (const struct log_field[]){{0},
                                         log_num("labelled", (int64_t)changes(l)),
                                         log_num("pending", (int64_t)patcher_level(l->patcher)),
                                         log_num("foreign", (int64_t)foreign(l)),
                                         log_num("failed", (int64_t)failures(l)),
                                         log_num("ms", (int64_t)ms),
                                         {0}});
}

static void on_progress(void *data)
{
    struct labeller *l = data;
    l->telling = changes(l) != l->told_changes || !is_idle(l);
    if (l->telling) {
        l->told_changes = changes(l);
        log_progress(l, "adding control labels");
        net_clock_set_timer(l->options.clock, l->progress, PROGRESS_MS);
    }
}

static void begin_telling(struct labeller *l)
{
    if (!l->telling) {
        l->telling = true;
        net_clock_set_timer(l->options.clock, l->progress, PROGRESS_MS);
    }
}

/* ---- whose turn it is ---- */

void labeller_go_on(struct labeller *l)
{
    net_task_queue(l->loop, &l->turn);
}

static void release_reflectors(struct labeller *l)
{
    if (l->held && level_now(l) <= LEVEL_LOW) {
        l->held = false;
        each_reflector(l, reflector_release);
    }
}

/* What is labelled is checked again after a while: something may have been copied, labels and all,
 * into another namespace. */
static void check_again(struct labeller *l, uint64_t now)
{
    if (l->check_at == 0 || l->check_at > now) {
        return;
    }
    l->check_at = 0;
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        if (r->check == CHECK_DONE) {
            resource_set_check(r, CHECK_DUE);
        }
    }
}

/* Those that have waited long enough, and those of which objects were left out for which there is
 * room now. Sets the timer for the others. */
static void begin_again(struct labeller *l)
{
    uint64_t now = net_clock_now(l->options.clock);
    check_again(l, now);
    uint64_t soonest = l->check_at;
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        bool room = r->left_out && !l->held && r->phase != RESOURCE_RESTING;
        if (room || (r->again_at != 0 && r->again_at <= now)) {
            resource_begin(r);
        }
        if (r->again_at != 0 && (soonest == 0 || r->again_at < soonest)) {
            soonest = r->again_at;
        }
    }
    if (soonest != 0) {
        net_clock_set_timer(l->options.clock, l->wake, soonest > now ? soonest - now : 0);
    }
}

/* One resource is listed at a time; one that cannot be is not waited for. True: all are. */
static bool list_next(struct labeller *l)
{
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        if (r->phase == RESOURCE_LISTING && resource_error(r) == NULL) {
            return false;
        }
        if (r->phase == RESOURCE_DUE) {
            resource_begin(r);
            return false;
        }
    }
    return l->stage != LABELLER_RESOLVING;
}

static bool check_next(struct labeller *l)
{
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        if (r->check == CHECK_RUNNING && reflector_error(r->labelled) == NULL) {
            return false;
        }
        if (r->check == CHECK_DUE && r->phase == RESOURCE_FOLLOWING) {
            resource_check(r);
            return false;
        }
    }
    return true;
}

/* What was refused once and is not any more, is tried soon again when it is refused next time. */
static void forget_refusals(struct labeller *l)
{
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        if (r->again_at == 0) {
            backoff_reset(&r->backoff);
        }
    }
}

bool labeller_follows_all(const struct labeller *l)
{
    const struct resource *r = first(l);
    while (r != NULL && r->phase == RESOURCE_FOLLOWING) {
        r = next_resource(l, r);
    }
    return r == NULL && l->stage != LABELLER_RESOLVING;
}

static void plan_check(struct labeller *l)
{
    if (l->check_at == 0) {
        l->check_at = net_clock_now(l->options.clock) + CHECK_MS;
        labeller_go_on(l); /* which sets the timer */
    }
}

/* Once. */
static void tell_stage(struct labeller *l, enum labeller_stage stage, const char *all,
                       const char *some)
{
    if (l->stage < stage) {
        set_stage(l, stage);
        l->told_changes = changes(l);
        log_progress(l, labeller_follows_all(l) ? all : some);
    }
}

static void on_turn(struct net_task *task)
{
    struct labeller *l = LIST_ITEM(task, struct labeller, turn);
    release_reflectors(l);
    begin_again(l);
    labeller_note_passes(l);
    bool idle = is_idle(l);
    if (!idle) {
        begin_telling(l);
    }
    if (!list_next(l) || !idle) {
        return;
    }
    tell_stage(l, LABELLER_CHECKING, "all objects have their control labels",
               "all objects have their control labels, except of resources that cannot be watched");
    if (l->options.keys->shared != NULL && l->options.keys->shared->unknown) {
        return; /* what is right is not known */
    }
    if (check_next(l)) {
        forget_refusals(l);
        plan_check(l);
        tell_stage(l, LABELLER_STEADY, "all control labels verified",
                   "all control labels verified, except of resources that cannot be watched");
    }
}

static void on_wake(void *data)
{
    labeller_go_on(data);
}

/* ---- which resources there are ---- */

static void log_warnings(struct labeller *l, const struct warnings *warnings)
{
    uint64_t hash = HASH_SEED;
    for (size_t i = 0; i < warnings->count; i++) {
        hash = hash_slice(hash, slice_str(warnings->items[i]));
    }
    if (hash == l->notes_hash) {
        return;
    }
    l->notes_hash = hash;
    for (size_t i = 0; i < warnings->count; i++) {
        log_warn("configured resource cannot be labelled", log_str("reason", warnings->items[i]));
    }
}

static void keep_or_add(struct labeller *l, const struct sharding_resource *s)
{
    struct resource *r = first(l);
    while (r != NULL && !resource_is(r, s)) {
        r = next_resource(l, r);
    }
    if (r == NULL) {
        r = resource_new(l, s->group, s->version, s->plural, true);
    }
    r->stale = false;
}

static void update_resources(struct labeller *l, const struct sharding_resource *wanted,
                             size_t count)
{
    for (struct resource *r = first(l); r != NULL; r = next_resource(l, r)) {
        r->stale = r->api.namespaced; /* namespaces stay */
    }
    for (size_t i = 0; i < count; i++) {
        keep_or_add(l, &wanted[i]);
    }
    for (struct resource *r = first(l), *after; r != NULL; r = after) {
        after = next_resource(l, r);
        if (r->stale) {
            resource_free(r);
        }
    }
}

void labeller_discovered(struct labeller *l)
{
    struct warnings warnings = WARNINGS_INIT;
    size_t count;
    if (!discovery_ready(l->options.discovery)) {
        return;
    }
    struct sharding_resource *wanted =
        sharding_resources_resolve(l->options.resources, l->options.discovery, &count, &warnings);
    if (l->stage == LABELLER_RESOLVING) {
        set_stage(l, LABELLER_LABELLING);
    }
    update_resources(l, wanted, count);
    log_warnings(l, &warnings);
    free(wanted);
    labeller_tell_progress(l);
    warnings_deinit(&warnings);
    labeller_go_on(l);
}

/* ---- which namespaces are shared ---- */

void labeller_recheck(struct labeller *l)
{
    bool shared = l->options.keys->shared->count > 0;
    for (struct resource *r = first(l); (shared || l->shared) && r != NULL;) {
        resource_recheck(r);
        l->check_at = net_clock_now(l->options.clock) + RECHECK_MS;
        r = next_resource(l, r);
    }
    l->shared = shared;
    labeller_go_on(l);
}

/* ---- life ---- */

static void make_parts(struct labeller *l)
{
    const struct labeller_options *o = &l->options;
    const struct patcher_options po = {
        .client = o->client,
        .keys = o->keys,
        .qps = o->qps,
        .parallel = o->parallel,
        .may_write = o->may_write,
        .may_write_data = o->data,
        .clock = o->clock,
    };
    l->patcher = patcher_new(l->loop, &po, &patcher_handlers, l);
    l->wake = xptr(net_timer_new(l->loop, on_wake, l));
    l->progress = xptr(net_timer_new(l->loop, on_progress, l));
    (void)resource_new(l, "", "v1", "namespaces", false);
}

struct labeller *labeller_new(struct net_loop *loop, const struct labeller_options *o)
{
    struct labeller *l = xcalloc(1, sizeof *l);
    l->loop = loop;
    l->options = *o;
    l->options.clock = o->clock == NULL ? &net_clock_system : o->clock;
    l->options.qps = o->qps == 0 ? LABELLER_QPS : o->qps;
    l->options.parallel = o->parallel == 0 ? PARALLEL : o->parallel;
    l->shared = o->keys->shared != NULL && o->keys->shared->count > 0;
    l->notes_hash = HASH_SEED;
    l->began_at = net_clock_now(l->options.clock);
    list_init(&l->resources);
    net_task_init(&l->turn, on_turn);
    make_parts(l);
    labeller_discovered(l);
    labeller_go_on(l);
    return l;
}

void labeller_free(struct labeller *l)
{
    if (l == NULL) {
        return;
    }
    while (!list_empty(&l->resources)) {
        resource_free(first(l));
    }
    net_task_cancel(&l->turn);
    patcher_free(l->patcher);
    net_timer_free(l->wake);
    net_timer_free(l->progress);
    free(l);
}
