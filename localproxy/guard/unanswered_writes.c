/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/unanswered_writes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "net/timer.h"

struct unanswered_write {
    struct list link;
    struct request_attributes attributes;
    uint64_t until_ms;
    bool lost;
};

static struct unanswered_write *write_of(struct list *node)
{
    return LIST_ITEM(node, struct unanswered_write, link);
}

unsigned unanswered_writes_lost(const struct unanswered_writes *u)
{
    return u->lost + (u->others.lost ? 1 : 0);
}

static void write_free(struct unanswered_writes *u, struct unanswered_write *w)
{
    list_remove(&w->link);
    u->count--;
    u->lost -= w->lost ? 1 : 0;
    request_attributes_deinit(&w->attributes);
    free(w);
}

/* ---- time ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Forgets what is over; returns when the next is, or UINT64_MAX. */
static uint64_t sweep(struct unanswered_writes *u, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    LIST_FOR_EACH_SAFE(node, after, &u->all)
    {
        struct unanswered_write *w = write_of(node);
        if (w->until_ms <= now) {
            write_free(u, w);
        } else {
            next = earlier(next, w->until_ms);
        }
    }
    if (u->others.until_ms <= now) {
        u->others.until_ms = 0;
        u->others.lost = false;
    }
    return u->others.until_ms != 0 ? earlier(next, u->others.until_ms) : next;
}

static void on_timer(void *data)
{
    struct unanswered_writes *u = data;
    unsigned before = unanswered_writes_lost(u);
    uint64_t now = net_clock_now(u->clock);
    uint64_t next = sweep(u, now);
    if (next != UINT64_MAX) {
        net_clock_set_timer(u->clock, u->timer, next - now);
    }
    if (before > 0 && unanswered_writes_lost(u) == 0) {
        u->on_settled(u->data);
    }
}

/* ---- what comes ---- */

static void tell_lost(const struct request_attributes *a)
{
    log_info("a write to what the shard has lost was not answered and may still be executed",
             log_strn("namespace", a->namespace.ptr, a->namespace.len),
             log_strn("resource", a->resource.ptr, a->resource.len));
}

static void add_other(struct unanswered_writes *u, uint64_t until_ms, bool lost)
{
    if (u->others.until_ms < until_ms) {
        u->others.until_ms = until_ms;
    }
    u->others.lost = u->others.lost || lost;
}

void unanswered_writes_add(struct unanswered_writes *u, struct request_attributes *a,
                           uint64_t sent_ms, bool lost)
{
    uint64_t until = sent_ms + UNANSWERED_WRITE_MS;
    if (lost) {
        tell_lost(a);
    }
    struct unanswered_write *w = u->count < UNANSWERED_WRITES_MAX ? calloc(1, sizeof *w) : NULL;
    if (w == NULL) {
        request_attributes_deinit(a);
        add_other(u, until, lost);
    } else {
        *w = (struct unanswered_write){.attributes = *a, .until_ms = until, .lost = lost};
        a->memory = NULL;
        list_init(&w->link);
        list_append(&u->all, &w->link);
        u->count++;
        u->lost += lost ? 1 : 0;
    }
    net_clock_set_timer(u->clock, u->timer, 0); /* which looks when it has to look again */
}

void unanswered_writes_judge(struct unanswered_writes *u,
                             bool (*is_lost)(void *data, const struct request_attributes *a),
                             void *data)
{
    LIST_FOR_EACH(node, &u->all)
    {
        struct unanswered_write *w = LIST_ITEM(node, struct unanswered_write, link);
        if (!w->lost && is_lost(data, &w->attributes)) {
            tell_lost(&w->attributes);
            w->lost = true;
            u->lost++;
        }
    }
    u->others.lost = u->others.until_ms != 0;
}

/* ---- life ---- */

int unanswered_writes_init(struct unanswered_writes *u, struct net_loop *l,
                           const struct net_clock *clock, void (*on_settled)(void *data),
                           void *data)
{
    *u = (struct unanswered_writes){.clock = clock, .on_settled = on_settled, .data = data};
    list_init(&u->all);
    u->timer = net_timer_new(l, on_timer, u);
    return u->timer != NULL ? 0 : -ENOMEM;
}

void unanswered_writes_deinit(struct unanswered_writes *u)
{
    while (!list_empty(&u->all)) {
        write_free(u, write_of(u->all.next));
    }
    net_timer_free(u->timer);
    u->timer = NULL;
}
