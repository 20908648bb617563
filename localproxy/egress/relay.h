/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h - one request of a client to an origin, and the answer back, whose bodies pass as they
 * come; when one side takes no more, the other is not read.
 */
#ifndef LOCALPROXY_EGRESS_RELAY_H
#define LOCALPROXY_EGRESS_RELAY_H

#include "base/list.h"
#include "egress/origins.h"
#include "egress/target.h"
#include "http/exchange.h"
#include "traffic/passage.h"

struct relays {
    struct origins *origins;
    struct byte_budget *sent;   /* for large heads that are to be sent */
    uint64_t answer_timeout_ms; /* until the head of the answer; 0: none */
    /* The origin did not answer: by the callee, with 502, 504 or 403. No handlers are set then. */
    void (*on_failed)(void *data, struct http_exchange *x, unsigned code, const struct target *t,
                      const char *why);
    /* The head of the answer was passed on. */
    void (*on_answered)(void *data, const struct target *t, unsigned status);
    void *data;
    struct list running;
};

void relays_init(struct relays *all);
/* Those that are left are broken off. */
void relays_deinit(struct relays *all);

/* Takes the exchange, whose target was judged, and the passage. `ended`: all of the request has
 * come. On failure answers by on_failed, perhaps before return. */
void relay_begin(struct relays *all, struct http_exchange *x, const struct http_head *head,
                 const struct target *t, bool ended, struct passage *passage);

#endif
