/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unanswered_writes.h - writes that were sent and given up before they were answered.
 *
 * That their connection has ended stops nobody: the API server may not have read them yet, or be in
 * the midst of them. They are remembered for as long as it works on a request, so that rules which
 * take away what they write are not taken for settled before.
 */
#ifndef LOCALPROXY_GUARD_UNANSWERED_WRITES_H
#define LOCALPROXY_GUARD_UNANSWERED_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "guard/request_attributes.h"
#include "net/clock.h"
#include "net/loop.h"

/* How long after it was sent a write is executed at the latest: kube-apiserver's --request-timeout
 * (60 s by default), and something for the way. */
#define UNANSWERED_WRITE_MS 65000

/* So many are told apart; while there are more, each is taken for any. */
#define UNANSWERED_WRITES_MAX 1024

/* Embedded; single-threaded. */
struct unanswered_writes {
    const struct net_clock *clock;
    struct net_timer *timer;
    struct list all;
    unsigned count;
    unsigned lost; /* of them, since they were sent */
    struct {
        uint64_t until_ms; /* 0: all are told apart */
        bool lost;
    } others;
    /* None is lost any more. From the loop. */
    void (*on_settled)(void *data);
    void *data;
};

/* `clock` must outlive it. 0 or -ENOMEM. */
MUST_CHECK int unanswered_writes_init(struct unanswered_writes *u, struct net_loop *l,
                                      const struct net_clock *clock, void (*on_settled)(void *data),
                                      void *data);
void unanswered_writes_deinit(struct unanswered_writes *u);

/* A write that was sent at `sent_ms` (of the clock), or will have arrived then, will not be
 * answered. `lost`: what it writes is not the shard's any more. Takes the memory of `a`, which was
 * kept. */
void unanswered_writes_add(struct unanswered_writes *u, struct request_attributes *a,
                           uint64_t sent_ms, bool lost);

/* The rules have changed: asks of each whether it is lost now. */
void unanswered_writes_judge(struct unanswered_writes *u,
                             bool (*is_lost)(void *data, const struct request_attributes *a),
                             void *data);

/* How many may still be executed although what they write was lost. */
unsigned unanswered_writes_lost(const struct unanswered_writes *u);

#endif
