/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - one event loop and what its streams share: read buffers, spare write buffers, and the
 * flush at the end of each turn.
 *
 * Everything here belongs to the thread that runs the loop.
 */
#ifndef CORE_NET_LOOP_H
#define CORE_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"

/* What is read from a socket at once, and decrypted at once: bytes. */
#define NET_READ_SIZE ((size_t)64 * 1024)

/* Largest write buffer kept for the next user, and how many: bytes, count. */
#define NET_SPARE_SIZE ((size_t)128 * 1024)
#define NET_SPARE_COUNT 16

struct net_task;
typedef void (*net_task_cb)(struct net_task *t);

/* Work put off until the callbacks that are on the stack have returned. */
struct net_task {
    struct list link;
    net_task_cb cb;
};

struct net_loop {
    uv_loop_t uv;
    uv_prepare_t prepare; /* flushes what was staged outside of a read, before the loop sleeps */
    uv_timer_t tick;      /* looks at the deadlines: see deadline.h */
    uv_idle_t idle;       /* runs while handshakes wait for their turn */
    uint64_t tick_at;     /* when it does next; UINT64_MAX: it is stopped */
    uint64_t turns;       /* how often it has waited for sockets */
    struct list tasks;    /* put off until this turn's callbacks have returned */
    struct list last;     /* tasks that run after those: streams write what they have staged */
    struct list deadlines;
    struct list handshakes; /* streams with a step to take: see handshakes.c */
    struct list finishing;  /* streams without an owner: see net_stream_finish */
    unsigned streams;       /* open, those that are closing included */
    unsigned streams_most;  /* since memory was given back */
    uv_timer_t give_back;   /* gives it back to the system */
    struct buf spare[NET_SPARE_COUNT];
    size_t spare_count;
    uint8_t *cipher; /* NET_READ_SIZE: what was read */
    uint8_t *plain;  /* NET_READ_SIZE: what was decrypted */
    bool wipes;      /* overwrites that once it was handed over: it may be a Secret */
};

/* How many threads libuv gets in this process, half of which look up names at a time. Before it has
 * had any work for them; what UV_THREADPOOL_SIZE says already stays. */
void net_loop_set_threads(unsigned count);

/* NULL with `e` set. */
MUST_CHECK struct net_loop *net_loop_new(struct err *e);

/* Runs until nothing is left to do or net_loop_stop was called. */
void net_loop_run(struct net_loop *l);
void net_loop_stop(struct net_loop *l);

/* All handles must have been closed by their owners; runs the loop, for at most 5 s, until they
 * are. Peers of streams that were finished have a second to take what is queued. 0, or UV_EBUSY
 * when a handle is still open (a defect: it is logged; memory is kept, as it is where a name is
 * still being looked up). */
int net_loop_free(struct net_loop *l);

/* Milliseconds of a clock that never goes back, as of the start of this turn. */
static inline uint64_t net_loop_now(const struct net_loop *l)
{
    return uv_now(&l->uv);
}

/* The same clock now: a turn may have taken long. */
static inline uint64_t net_loop_clock(const struct net_loop *l)
{
    uint64_t now = uv_hrtime() / 1000000;
    uint64_t turn = net_loop_now(l);
    return now > turn ? now : turn;
}

void net_task_init(struct net_task *t, net_task_cb cb);
/* Runs the callback once, soon; queueing a queued task does nothing. */
void net_task_queue(struct net_loop *l, struct net_task *t);
/* The same, after all that net_task_queue put off. */
void net_task_queue_last(struct net_loop *l, struct net_task *t);
void net_task_cancel(struct net_task *t);

/* For the net layer, at the end of an event: runs the tasks, then the last ones. */
void net_loop_settle(struct net_loop *l);

/* A stream has memory, and has given it back. */
void net_loop_stream_begins(struct net_loop *l);
void net_loop_stream_is_gone(struct net_loop *l);

/* An empty write buffer gets memory that another stream gave back, if there is some; and gives
 * back its own. The maximum stays the stream's. */
void net_loop_lend(struct net_loop *l, struct buf *b);
void net_loop_take_back(struct net_loop *l, struct buf *b);

#endif
