/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h - one request of a client to an origin, and the answer back, whose bodies pass as they
 * come; when one side takes no more, the other is not read.
 *
 *     client --- down: request in, response out ---+
 *                                                  | relay
 *     origin --- up: response in, request out -----+
 *
 * Headers pass but for those that are between two neighbours, those of proxies (Proxy-*), Expect,
 * and KusionStack's own; and of answers localproxy's, EGRESS_HEADER. Host is written anew, from the
 * target, and Via is added both ways.
 */
#ifndef LOCALPROXY_EGRESS_RELAY_H
#define LOCALPROXY_EGRESS_RELAY_H

#include "base/list.h"
#include "egress/destination.h"
#include "egress/origins.h"
#include "egress/pseudonym.h"
#include "http/exchange.h"
#include "traffic/passage.h"

struct relays {
    struct net_loop *loop;
    struct origins *origins;
    const struct pseudonym *pseudonym;
    struct byte_budget *sent; /* for large heads that are to be sent; NULL: no bound */
    uint64_t idle_ms; /* nothing moves for so long: 504, or the answer is broken off; 0: no limit */
    /* The origin did not answer: by the callee, with 502, 503 (for want of memory), 504 or, if it
     * may not be reached, 403. No handlers are set then. */
    void (*on_failed)(void *data, struct http_exchange *x, unsigned code,
                      const struct destination *t, const char *why);
    /* The head of the answer was passed on. */
    void (*on_answered)(void *data, const struct destination *t, unsigned status);
    void *data;
    struct list running;
    uint64_t sent_bytes;     /* of bodies and upgraded connections, since the start */
    uint64_t received_bytes; /* likewise, from origins */
};

/* What is the caller's to set is set afterwards. */
void relays_init(struct relays *all, struct net_loop *l);
/* Those that are left are broken off. */
void relays_deinit(struct relays *all);

/* Other rules are in force: breaks off the upgraded connections of which `allows` says no, or whose
 * address may not be reached any more. Requests that were let through are finished, but
 * upgraded no more. */
void relays_review(struct relays *all, bool (*allows)(void *data, const struct traffic_external *q),
                   void *data);

/* Takes the exchange, whose destination was judged, and the passage. `ended`: all of the request
 * has come. On failure answers by on_failed, perhaps before return. */
void relay_begin(struct relays *all, struct http_exchange *x, const struct http_head *head,
                 const struct destination *t, bool ended, struct passage *passage);

#endif
