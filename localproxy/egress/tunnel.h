/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel.h - CONNECT: bytes between a client and a host, of which nothing is looked at but the name
 * of the server that a TLS client asks for (client_hello.h), which may be another one.
 *
 *     DIALLING -- connected, the client is told 200 --> OPEN -- both sides have ended --> gone
 *
 * Either side may end before the other one (half-closed). What one side does not read stops the
 * other; together they hold what the backlog lets (net/backlog.h). A tunnel in which nothing moves
 * for the idle time is closed; a half-closed one after a minute, and one whose client has sent a
 * part of a ClientHello after ten seconds, unless bytes wait to be read. Where one side breaks off,
 * the other one is reset, and so are both when localproxy ends them.
 */
#ifndef LOCALPROXY_EGRESS_TUNNEL_H
#define LOCALPROXY_EGRESS_TUNNEL_H

#include <stdint.h>

#include "base/byte_budget.h"
#include "base/list.h"
#include "egress/destination.h"
#include "egress/reach.h"
#include "egress/via.h"
#include "http/exchange.h"
#include "net/backlog.h"
#include "net/loop.h"
#include "traffic/passage.h"

struct tunnel;

struct tunnels {
    struct net_loop *loop;
    struct reach *reach;
    struct net_backlog *backlog;
    struct byte_budget *budget; /* for what has come of ClientHellos; NULL: no bound */
    uint64_t connect_timeout_ms;
    uint64_t idle_ms;
    unsigned max; /* more are not taken */
    /* The tunnel was not opened: to be answered by the callee, with 502, 504, 403, or 503 when
     * draining (`code`). The exchange has no handlers then. */
    void (*on_failed)(void *data, struct http_exchange *x, unsigned code,
                      const struct destination *t, const char *why);
    /* It is open; may be NULL. */
    void (*on_opened)(void *data, const struct destination *t);
    /* Whether rules allow what the client turned out to ask for, TLS with a server of another name
     * than the host's; `host` "": with a ClientHello that cannot be read. If not, the tunnel is
     * broken off before the host has all of it. Not asked where there is no name. NULL: nothing is
     * looked at. */
    bool (*allows_name)(void *data, const struct traffic_external *q);
    /* One that was open is over. Bytes to the host, and from it. */
    void (*on_over)(void *data, const struct destination *t, uint64_t sent, uint64_t received);
    void *data;
    struct list all;
    unsigned count;  /* also those that are being dialled */
    uint64_t opened; /* since the start, like the next */
    uint64_t bytes;  /* both ways */
    uint64_t sent;   /* of them, to hosts */
    uint64_t idle_closed;
};

void tunnels_init(struct tunnels *all, struct net_loop *l);
/* Those that are left are closed at once, and nothing is told of them. */
void tunnels_deinit(struct tunnels *all);

/* Takes the exchange, whose destination was judged, and the passage, which is given back with the
 * answer. `proxy` as via_of has it, outlives the tunnel. on_failed may be called before return.
 * False: there are too many, or there is no memory; nothing is taken. */
MUST_CHECK bool tunnel_begin(struct tunnels *all, struct http_exchange *x,
                             const struct destination *t, const struct http_proxy *proxy,
                             struct passage *passage);

/* Other rules are in force: closes those of which `allows` says no, and refuses those that are not
 * open yet with 403. */
void tunnels_review(struct tunnels *all,
                    bool (*allows)(void *data, const struct traffic_external *q), void *data);
/* Those that are not open yet are refused with 503; the others go on. */
void tunnels_drain(struct tunnels *all);

#endif
