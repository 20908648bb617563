/* SPDX-License-Identifier: Apache-2.0 */
#include "net/work_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/due_heap.h"
#include "base/list.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "base/table.h"
#include "base/xalloc.h"

enum {
    RETRY_MIN_MS = 200,
    RETRY_MAX_MS = 60000,
    BATCH = 64,    /* keys handed out before others have their turn, */
    BATCH_MS = 10, /* or so long */
};

/*
 *             add                 hand out               done, nothing else to do
 *   IDLE ------------> QUEUED --------------> ACTIVE ------------------------------> IDLE
 *    ^ due later, or     ^                    |
 *    | the entry goes    |                add |
 *                        |    done            v
 *                        +------------------ AGAIN
 *
 * Beside that, in any phase, the key may be due to be added at some time.
 */
enum phase { PHASE_IDLE, PHASE_QUEUED, PHASE_ACTIVE, PHASE_AGAIN };

static const struct state_machine phases = {
    .object = "key of a work queue",
    .states = {[PHASE_IDLE] = {"idle", STATE(PHASE_QUEUED)},
               [PHASE_QUEUED] = {"queued", STATE(PHASE_ACTIVE)},
               [PHASE_ACTIVE] = {"active", STATE(PHASE_AGAIN) | STATE(PHASE_IDLE)},
               [PHASE_AGAIN] = {"again", STATE(PHASE_IDLE)}},
};

/* Keys of one namespace: "namespace/name", of others each is its own. */
struct group {
    struct table_node node;
    size_t entries;
    unsigned active;    /* of them: ACTIVE, AGAIN */
    struct list queued; /* entries */
    struct list link;   /* in the queue's `turns`, if one of these may be handed out */
    char name[];
};

struct entry {
    struct table_node node;
    struct group *group;
    struct list link; /* QUEUED: in the group's; ACTIVE, AGAIN */
    enum phase phase;
    unsigned failures;   /* in a row */
    uint64_t added_at;   /* QUEUED, AGAIN */
    uint64_t begun_at;   /* ACTIVE, AGAIN */
    struct due due;      /* to be added later */
    bool due_to_failure; /* and to nothing else */
    char key[];
};

struct work_queue {
    struct net_loop *loop;
    struct work_queue_options options;
    const struct net_clock *clock;
    work_queue_cb handle;
    void *data;
    bool closed;
    bool resting;      /* the next batch begins with the timer, */
    uint64_t begin_at; /* not before */
    unsigned calls;    /* of ours on the stack that may call the user */

    struct table entries;
    struct table groups;
    struct list turns; /* groups with queued entries: the first has the next turn */
    struct list active;

    struct due_heap later; /* with room for all entries */

    struct net_task turn;
    struct net_timer *timer;
    struct work_queue_stats stats;
};

const struct prometheus_bounds work_queue_bounds = {
    .per_second = 1000,
    .count = 5,
    .upper = {1, 10, 100, 1000, 10000},
};

static void set_phase(struct entry *e, enum phase phase)
{
    e->phase = state_change(&phases, e->phase, phase, slice_str(e->key));
}

/* ---- the table of entries ---- */

static struct entry *find(const struct work_queue *q, const char *key)
{
    return TABLE_FIND(&q->entries, slice_str(key), struct entry);
}

static struct slice namespace_of(const char *key)
{
    return slice_of(key, strcspn(key, "/"));
}

static struct group *obtain_group(struct work_queue *q, const char *key)
{
    struct group *g = xptr(TABLE_PROVIDE(&q->groups, namespace_of(key), struct group, name));
    if (g->link.next == NULL) {
        list_init(&g->queued);
        list_init(&g->link);
    }
    return g;
}

/* The entry of that key, a new one if there is none. */
static struct entry *obtain(struct work_queue *q, const char *key)
{
    struct entry *e = xptr(TABLE_PROVIDE(&q->entries, slice_str(key), struct entry, key));
    if (e->group == NULL) {
        e->group = obtain_group(q, key);
        e->group->entries++;
        list_init(&e->link);
        xok(due_heap_reserve(&q->later, q->entries.count));
    }
    return e;
}

/* Nothing is known of it any more but its failures, and those only while it is to come again. */
static void forget_if_idle(struct work_queue *q, struct entry *e)
{
    if (e->phase != PHASE_IDLE || due_is_set(&e->due)) {
        return;
    }
    table_remove(&q->entries, &e->node);
    if (--e->group->entries == 0) {
        table_remove(&q->groups, &e->group->node);
        free(e->group);
    }
    free(e);
}

/* ---- what is to be done when ---- */

static bool may_begin(const struct work_queue *q)
{
    return !list_empty(&q->turns) && q->stats.active < q->options.parallel;
}

/* Inside of our own callbacks it is done at their end. */
static void attend(struct work_queue *q)
{
    if (q->calls == 0 && !q->resting && may_begin(q)) {
        net_task_queue(q->loop, &q->turn);
    }
}

static void set_timer(struct work_queue *q)
{
    uint64_t now = net_clock_now(q->clock);
    const struct due *later = due_heap_first(&q->later);
    if (may_begin(q) || later != NULL) {
        uint64_t at = may_begin(q) ? q->begin_at : later->at;
        net_clock_set_timer(q->clock, q->timer, at > now ? at - now : 0);
    } else {
        net_timer_clear(q->timer);
    }
}

/* Behind the others, unless it has its place already. */
static void take_turns(struct work_queue *q, struct group *g)
{
    unsigned most = q->options.namespace_parallel;
    bool may = !list_empty(&g->queued) && (most == 0 || g->active < most);
    if (may && !list_linked(&g->link)) {
        list_append(&q->turns, &g->link);
    }
}

static void enqueue(struct work_queue *q, struct entry *e)
{
    if (e->phase == PHASE_QUEUED || e->phase == PHASE_AGAIN) {
        return;
    }
    e->added_at = net_clock_now(q->clock);
    if (e->phase == PHASE_ACTIVE) {
        set_phase(e, PHASE_AGAIN);
        return;
    }
    set_phase(e, PHASE_QUEUED);
    list_append(&e->group->queued, &e->link);
    take_turns(q, e->group);
    q->stats.adds++;
    q->stats.depth++;
}

/* The earlier of two times counts; what is due for another reason than a failure stays so. */
static void put_off(struct work_queue *q, struct entry *e, uint64_t ms, bool due_to_failure)
{
    uint64_t at = net_clock_now(q->clock) + ms;
    bool was_due = due_is_set(&e->due);
    e->due_to_failure = due_to_failure && (!was_due || e->due_to_failure);
    if (was_due && e->due.at <= at) {
        return;
    }
    due_heap_set(&q->later, &e->due, at);
    if (q->calls == 0 && due_heap_first(&q->later) == &e->due) {
        set_timer(q);
    }
}

static void take_due(struct work_queue *q)
{
    uint64_t now = net_clock_now(q->clock);
    struct due *d;
    while ((d = due_heap_first(&q->later)) != NULL && d->at <= now) {
        due_heap_remove(&q->later, d);
        enqueue(q, LIST_ITEM(d, struct entry, due));
    }
}

/* Of the group whose turn it is. */
static struct entry *take_queued(struct work_queue *q)
{
    struct group *g = LIST_ITEM(q->turns.next, struct group, link);
    struct entry *e = LIST_ITEM(g->queued.next, struct entry, link);
    list_remove(&e->link);
    list_remove(&g->link);
    g->active++;
    take_turns(q, g);
    return e;
}

static void hand_out_key(struct work_queue *q)
{
    struct entry *e = take_queued(q);
    set_phase(e, PHASE_ACTIVE);
    e->begun_at = net_clock_now(q->clock);
    list_append(&q->active, &e->link);
    q->stats.depth--;
    q->stats.active++;
    prometheus_observe(&q->stats.queued, &work_queue_bounds, e->begun_at - e->added_at);
    q->handle(q->data, e->key);
}

static void destroy(struct work_queue *q)
{
    for (struct table_node *n = table_next(&q->entries, NULL), *next; n != NULL; n = next) {
        next = table_next(&q->entries, n);
        free(LIST_ITEM(n, struct entry, node));
    }
    for (struct table_node *n = table_next(&q->groups, NULL), *next; n != NULL; n = next) {
        next = table_next(&q->groups, n);
        free(LIST_ITEM(n, struct group, node));
    }
    table_deinit(&q->entries);
    table_deinit(&q->groups);
    due_heap_deinit(&q->later);
    free(q);
}

/* Keys take no more of a turn of the loop than that; the rest has to wait for I/O. */
static bool is_full(const struct work_queue *q, unsigned handed_out, uint64_t begun)
{
    return handed_out == BATCH || (handed_out > 0 && net_clock_now(q->clock) - begun >= BATCH_MS);
}

static bool has_to_wait(struct work_queue *q)
{
    uint64_t ms = q->options.wait == NULL ? 0 : q->options.wait(q->data);
    q->begin_at = net_clock_now(q->clock) + ms;
    return ms > 0;
}

static void hand_out_keys(struct work_queue *q)
{
    uint64_t begun = net_clock_now(q->clock);
    unsigned n = 0;
    q->calls++;
    q->begin_at = begun;
    take_due(q);
    while (!q->closed && may_begin(q) && !is_full(q, n, begun) && !has_to_wait(q)) {
        hand_out_key(q);
        n++;
    }
    q->calls--;
    q->resting = may_begin(q);
    if (q->closed) {
        destroy(q);
    } else {
        set_timer(q);
    }
}

static void on_turn(struct net_task *t)
{
    hand_out_keys(LIST_ITEM(t, struct work_queue, turn));
}

static void on_timer(void *data)
{
    hand_out_keys(data);
}

/* ---- what users call ---- */

static void fill_options(struct work_queue *q, const struct work_queue_options *o)
{
    q->options = *o;
    q->clock = o->clock == NULL ? &net_clock_system : o->clock;
    q->options.parallel = o->parallel == 0 ? 1 : o->parallel;
    q->options.retry_min_ms = o->retry_min_ms == 0 ? RETRY_MIN_MS : o->retry_min_ms;
    q->options.retry_max_ms = o->retry_max_ms == 0 ? RETRY_MAX_MS : o->retry_max_ms;
    if (q->options.retry_max_ms < q->options.retry_min_ms) {
        q->options.retry_max_ms = q->options.retry_min_ms;
    }
}

struct work_queue *work_queue_new(struct net_loop *l, const struct work_queue_options *o,
                                  work_queue_cb handle, void *data)
{
    struct work_queue *q = xcalloc(1, sizeof *q);
    fill_options(q, o);
    q->loop = l;
    q->handle = handle;
    q->data = data;
    list_init(&q->turns);
    list_init(&q->active);
    net_task_init(&q->turn, on_turn);
    q->timer = xptr(net_timer_new(l, on_timer, q));
    return q;
}

void work_queue_add(struct work_queue *q, const char *key)
{
    enqueue(q, obtain(q, key));
    attend(q);
}

void work_queue_add_after(struct work_queue *q, const char *key, uint64_t ms)
{
    if (ms == 0) {
        work_queue_add(q, key);
    } else {
        put_off(q, obtain(q, key), ms, false);
    }
}

static uint64_t pause_of(struct work_queue *q, const struct entry *e, unsigned retry_after)
{
    enum { DOUBLINGS_MAX = 32 };
    struct backoff b;
    uint64_t longest = q->options.retry_min_ms;
    for (unsigned i = 1; i < e->failures && i < DOUBLINGS_MAX; i++) {
        longest = longest > q->options.retry_max_ms / 2 ? q->options.retry_max_ms : longest * 2;
    }
    backoff_init(&b, longest, q->options.retry_max_ms);
    uint64_t pause = backoff_next(&b, net_clock_random(q->clock));
    uint64_t asked = (uint64_t)retry_after * 1000;
    return pause > asked ? pause : asked + pause / 2;
}

static void retry_key(struct work_queue *q, struct entry *e, unsigned retry_after)
{
    q->stats.retries++;
    e->failures++;
    put_off(q, e, pause_of(q, e, retry_after), true);
}

static void reset_failures(struct work_queue *q, struct entry *e)
{
    e->failures = 0;
    if (e->due_to_failure) {
        due_heap_remove(&q->later, &e->due);
    }
}

static void go_first(struct work_queue *q, struct entry *e)
{
    list_remove(&e->link);
    list_remove(&e->group->link);
    list_prepend(&e->group->queued, &e->link);
    list_prepend(&q->turns, &e->group->link);
}

void work_queue_done(struct work_queue *q, const char *key, enum work_result result,
                     unsigned retry_after)
{
    struct entry *e = find(q, key);
    if (e == NULL || (e->phase != PHASE_ACTIVE && e->phase != PHASE_AGAIN)) {
        log_error("a key was marked done that is not being processed", log_str("key", key));
        return;
    }
    bool added = e->phase == PHASE_AGAIN;
    uint64_t added_at = added ? e->added_at : net_clock_now(q->clock);
    prometheus_observe(&q->stats.processed, &work_queue_bounds,
                       net_clock_now(q->clock) - e->begun_at);
    list_remove(&e->link);
    q->stats.active--;
    e->group->active--;
    take_turns(q, e->group);
    set_phase(e, PHASE_IDLE);
    if (added || result == WORK_AGAIN || result == WORK_FIRST) {
        enqueue(q, e);
        e->added_at = added_at;
    }
    if (result == WORK_FIRST) {
        go_first(q, e);
    } else if (result == WORK_RETRY) {
        retry_key(q, e, retry_after);
    } else if (result == WORK_DONE) {
        reset_failures(q, e);
    }
    forget_if_idle(q, e);
    attend(q);
}

struct work_queue_stats work_queue_stats(const struct work_queue *q)
{
    struct work_queue_stats s = q->stats;
    s.waiting = q->later.count;
    /* Those that are handled stand in the order in which they were begun. */
    if (!list_empty(&q->active)) {
        const struct entry *first = LIST_ITEM(q->active.next, struct entry, link);
        s.longest_ms = net_clock_now(q->clock) - first->begun_at;
    }
    return s;
}

const char *work_queue_name(const struct work_queue *q)
{
    return q->options.name;
}

size_t work_queue_companions(const struct work_queue *q, const char *key)
{
    const struct group *g = TABLE_FIND(&q->groups, namespace_of(key), struct group);
    return g == NULL ? 0 : g->entries;
}

unsigned work_queue_failures(const struct work_queue *q, const char *key)
{
    const struct entry *e = find(q, key);
    return e == NULL ? 0 : e->failures;
}

void work_queue_free(struct work_queue *q)
{
    if (q == NULL || q->closed) {
        return;
    }
    q->closed = true;
    net_task_cancel(&q->turn);
    net_timer_free(q->timer);
    if (q->calls == 0) {
        destroy(q);
    }
}
