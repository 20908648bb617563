/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - answers the API server's AdmissionReviews over HTTPS.
 *
 * Each path has a handler. What goes wrong is never an answer "allowed": a request that cannot be
 * understood is answered 4xx, and one that could not be decided 500, each with a Status that says
 * why; the failurePolicy of the webhook decides then.
 *
 * Anybody may reach the port. Bounded: size, time and rate of a body, bytes of all bodies that have
 * come, what waits for a decision (webhook/decider.h), number of connections, time without a
 * request; places and bytes are shared by address (http/server.h, webhook/body_budget.h), so that
 * who crowds the port is in the way of nobody else.
 */
#ifndef MANAGER_WEBHOOK_SERVER_H
#define MANAGER_WEBHOOK_SERVER_H

#include "base/buf.h"
#include "base/err.h"
#include "crypto/tls.h"
#include "net/loop.h"
#include "webhook/route.h"

struct client_trust; /* webhook/client_trust.h */
struct webhook_server;

struct webhook_server_options {
    const char *address;                /* ADDR:PORT */
    const struct webhook_route *routes; /* kept, not copied; ends with a NULL path */
    void *data; /* of all routes; threads may use it until the loop is freed */
    const struct client_trust *clients; /* for the certificate until webhook_server_set_tls */
    uint64_t body_timeout_ms;           /* from a request's head to the end of its body; 0: 10 s */
    uint64_t bodies_max;                /* bytes of all that are held; 0: 32 MiB */
};

/* Listens. Until webhook_server_set_tls a certificate is shown that nobody trusts. NULL with `e`
 * set. */
MUST_CHECK struct webhook_server *
webhook_server_new(struct net_loop *l, const struct webhook_server_options *o, struct err *e);
/* For connections from now on; referenced. Those that are open go on. */
void webhook_server_set_tls(struct webhook_server *s, struct tls_config *tls);
const char *webhook_server_address(const struct webhook_server *s);
/* Appends cmesh_webhook_*; errors stay in `out`. */
void webhook_server_metrics(const struct webhook_server *s, struct buf *out);
/* Takes no connections any more, and calls `cb` once all that runs is answered; the server is still
 * to be freed, also inside. */
void webhook_server_drain(struct webhook_server *s, void (*cb)(void *data), void *data);
/* At once. NULL is ignored. */
void webhook_server_free(struct webhook_server *s);

#endif
