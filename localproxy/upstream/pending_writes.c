/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record is right at any moment, since the process may end at any: what makes it say more is
 * stored before what makes it say less.
 */
#include "upstream/pending_writes.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "net/timer.h"

struct given_up {
    struct pending_write write;
    struct request_attributes attributes;
};

static struct pending_write *write_of(struct list *node)
{
    return LIST_ITEM(node, struct pending_write, link);
}

unsigned pending_writes_lost(const struct pending_writes *p)
{
    return p->lost + (p->others.lost ? 1 : 0);
}

/* ---- the record ---- */

static void store(uint64_t *at, uint64_t value)
{
    atomic_signal_fence(memory_order_seq_cst);
    *at = value;
    atomic_signal_fence(memory_order_seq_cst);
}

static void record_lost(const struct pending_writes *p)
{
    store(&p->record->lost, pending_writes_lost(p) > 0 ? 1 : 0);
}

/* ---- time ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void given_up_free(struct pending_writes *p, struct given_up *g)
{
    list_remove(&g->write.link);
    p->count--;
    p->lost -= g->write.lost ? 1 : 0;
    request_attributes_deinit(&g->attributes);
    free(g);
}

/* Forgets what is over; returns when the next is, or UINT64_MAX. */
static uint64_t sweep(struct pending_writes *p, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    LIST_FOR_EACH_SAFE(node, after, &p->all)
    {
        struct pending_write *w = write_of(node);
        if (w->until_ms > now) {
            next = earlier(next, w->until_ms);
        } else if (w->until_ms != 0) {
            given_up_free(p, LIST_ITEM(w, struct given_up, write));
        }
    }
    if (p->others.until_ms <= now) {
        p->others.until_ms = 0;
        p->others.lost = false;
    }
    record_lost(p);
    return p->others.until_ms != 0 ? earlier(next, p->others.until_ms) : next;
}

static void on_timer(void *data)
{
    struct pending_writes *p = data;
    unsigned before = pending_writes_lost(p);
    uint64_t now = net_clock_now(p->clock);
    uint64_t next = sweep(p, now);
    if (next != UINT64_MAX) {
        net_clock_set_timer(p->clock, p->timer, next - now);
    }
    if (before > 0 && pending_writes_lost(p) == 0) {
        p->on_settled(p->data);
    }
}

/* ---- under way ---- */

bool pending_write_is_under_way(const struct pending_write *w)
{
    return list_linked(&w->link);
}

uint64_t pending_write_over_ms(const struct pending_write *w)
{
    return w->sent_ms + PENDING_WRITE_MS;
}

void pending_writes_begin(struct pending_writes *p, struct pending_write *w,
                          const struct request_attributes *a)
{
    *w = (struct pending_write){.attributes = a};
    list_init(&w->link);
    store(&p->record->under_way, p->record->under_way + 1);
    list_append(&p->all, &w->link);
}

void pending_writes_sent(const struct pending_writes *p, struct pending_write *w)
{
    w->sent_ms = net_clock_now(p->clock);
}

static bool is_lost_under_way(const struct pending_writes *p)
{
    LIST_FOR_EACH(node, &p->all)
    {
        const struct pending_write *w = write_of(node);
        if (w->lost && w->until_ms == 0) {
            return true;
        }
    }
    return false;
}

static void leave(struct pending_writes *p, struct pending_write *w)
{
    list_remove(&w->link);
    p->lost -= w->lost ? 1 : 0;
    store(&p->record->under_way, p->record->under_way - 1);
    record_lost(p);
    if (w->lost && !is_lost_under_way(p)) {
        p->on_settled(p->data);
    }
}

void pending_writes_end(struct pending_writes *p, struct pending_write *w)
{
    if (pending_write_is_under_way(w)) {
        leave(p, w);
    }
}

/* ---- given up ---- */

static void tell_lost(const struct request_attributes *a)
{
    log_info("a write to what the shard has lost was not answered and may still be executed",
             log_strn("namespace", a->namespace.ptr, a->namespace.len),
             log_strn("resource", a->resource.ptr, a->resource.len));
}

static void add_other(struct pending_writes *p, uint64_t until_ms, bool lost)
{
    if (p->others.until_ms < until_ms) {
        p->others.until_ms = until_ms;
    }
    p->others.lost = p->others.lost || lost;
}

static void add(struct pending_writes *p, struct request_attributes *a, uint64_t until_ms,
                bool lost)
{
    struct given_up *g = p->count < PENDING_WRITES_MAX ? calloc(1, sizeof *g) : NULL;
    if (g == NULL) {
        request_attributes_deinit(a);
        add_other(p, until_ms, lost);
        return;
    }
    g->attributes = *a;
    a->memory = NULL;
    g->write =
        (struct pending_write){.attributes = &g->attributes, .until_ms = until_ms, .lost = lost};
    list_append(&p->all, &g->write.link);
    p->count++;
    p->lost += lost ? 1 : 0;
}

void pending_writes_give_up(struct pending_writes *p, struct pending_write *w,
                            struct request_attributes *a, bool on_its_way)
{
    uint64_t now = net_clock_now(p->clock);
    uint64_t sent = w->sent_ms != 0 ? w->sent_ms : now;
    uint64_t until = (on_its_way ? now + PENDING_ARRIVAL_MS : sent) + PENDING_WRITE_MS;
    if (w->lost) {
        tell_lost(a);
    }
    if (until > p->record->until_ms) {
        store(&p->record->until_ms, until);
    }
    add(p, a, until, w->lost);
    net_clock_set_timer(p->clock, p->timer, 0); /* which looks when it has to look again */
    leave(p, w);
}

/* ---- the rules change ---- */

void pending_writes_judge(struct pending_writes *p, uint64_t rules,
                          bool (*is_lost)(void *data, const struct request_attributes *a),
                          void *data)
{
    LIST_FOR_EACH(node, &p->all)
    {
        struct pending_write *w = write_of(node);
        if (w->lost || !is_lost(data, w->attributes)) {
            continue;
        }
        w->lost = true;
        p->lost++;
        if (w->until_ms == 0) {
            p->on_lost(w);
        } else {
            tell_lost(w->attributes);
        }
    }
    if (p->others.until_ms != 0 && rules != p->record->rules) {
        p->others.lost = true;
    }
    record_lost(p);
    store(&p->record->rules, rules);
}

/* Of those under way each may be answered at any time; of the others it is known. */
bool pending_writes_may_settle(const struct pending_writes *p, uint64_t within_ms)
{
    uint64_t end = net_clock_now(p->clock) + within_ms;
    bool later = p->others.lost && p->others.until_ms > end;
    LIST_FOR_EACH(node, &p->all)
    {
        const struct pending_write *w = write_of(node);
        later = later || (w->lost && w->until_ms > end);
    }
    return !later || is_lost_under_way(p);
}

/* ---- life ---- */

/* What was under way at its end was sent before now. */
static void take_over(struct pending_writes *p)
{
    struct pending_record *r = p->record;
    uint64_t now = net_clock_now(p->clock);
    uint64_t last = now + PENDING_ARRIVAL_MS + PENDING_WRITE_MS;
    if (r->under_way > 0 || r->until_ms > last) {
        store(&r->until_ms, last);
    }
    store(&r->under_way, 0);
    if (r->until_ms > now) {
        log_info("writes that were sent before the start may still be executed",
                 log_num("seconds", (int64_t)((r->until_ms - now) / 1000)));
        add_other(p, r->until_ms, r->lost != 0);
        net_clock_set_timer(p->clock, p->timer, r->until_ms - now);
    }
    record_lost(p);
}

int pending_writes_init(struct pending_writes *p, struct net_loop *l, const struct net_clock *clock,
                        struct pending_record *record)
{
    *p = (struct pending_writes){.clock = clock, .record = record};
    list_init(&p->all);
    p->timer = net_timer_new(l, on_timer, p);
    if (p->timer == NULL) {
        return -ENOMEM;
    }
    take_over(p);
    return 0;
}

void pending_writes_deinit(struct pending_writes *p)
{
    LIST_FOR_EACH_SAFE(node, after, &p->all)
    {
        struct pending_write *w = write_of(node);
        if (w->until_ms != 0) { /* as a process that is killed leaves the others */
            given_up_free(p, LIST_ITEM(w, struct given_up, write));
        }
    }
    net_timer_free(p->timer);
    p->timer = NULL;
}
