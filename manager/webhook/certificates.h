/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificates.h - the webhooks' certificates: made, kept in a Secret that all replicas share,
 * renewed and replaced before they expire.
 *
 * Glossary: the *authority* signs the *serving certificate* that the server shows; the *bundle* is
 * what the API server is told to trust. What else the Secret may hold while an authority is
 * replaced: the *next* one, which is in the bundle and signs nothing yet, and the *previous* one,
 * which is still in the bundle for replicas that have not noticed.
 *
 *     next made --> in the bundle of every webhook configuration --> it signs, the old one is
 *     previous --> the serving certificate is renewed once: previous is gone
 *
 * So a client that trusts the bundle of yesterday takes the certificate of today. Every replica
 * runs this: writes carry the version of the Secret they are based on, who is late takes what the
 * other wrote. What is broken in the Secret is replaced; the log says what and why.
 */
#ifndef MANAGER_WEBHOOK_CERTIFICATES_H
#define MANAGER_WEBHOOK_CERTIFICATES_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "crypto/tls.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/clock.h"
#include "net/loop.h"

#define CERTIFICATES_SECRET "cmesh-webhook-cert"

struct certificates;
struct client_trust; /* webhook/client_trust.h */

/* From the loop, never inside a function of this header; certificates_free is not allowed inside.
 */
struct certificates_handlers {
    /* Another serving certificate, for connections from now on; referenced by who keeps it. */
    void (*on_serving)(void *data, struct tls_config *tls);
    /* Another bundle, PEM, valid during the call. Comes before the on_serving that needs it. */
    void (*on_bundle)(void *data, struct slice bundle);
    /* Whether every client has been told to trust this authority (PEM). Asked again and again
     * before the authority signs what is served. */
    bool (*is_published)(void *data, struct slice authority);
};

/* All that is pointed to must outlive the certificates, texts included. */
struct certificates_options {
    struct kube_client *client;
    const char *namespace;    /* of the Secret */
    const char *secret;       /* its name; NULL: CERTIFICATES_SECRET */
    const char *const *names; /* what the serving certificate must bear */
    size_t name_count;
    uint64_t authority_seconds;         /* how long an authority is good for; 0: a year */
    uint64_t serving_seconds;           /* 0: 90 days */
    uint64_t settle_ms;                 /* from published to used, for API servers that learn late;
                                           0: a minute */
    const struct client_trust *clients; /* whose certificates are asked for; NULL: nobody's */
    const struct net_clock *clock;      /* NULL: the system's */
    const struct reflector_ops *ops;    /* for tests; NULL: the usual */
};

struct certificates_stats {
    uint64_t writes;           /* of the Secret that were accepted */
    uint64_t conflicts;        /* in which another replica was faster */
    uint64_t failures;         /* of writes, for other reasons */
    uint64_t replaced;         /* times that something was found broken */
    int64_t authority_expires; /* seconds since 1970; 0: there is none yet */
    int64_t serving_expires;
    bool rotating; /* there is a next authority */
};

/* Begins with the loop's next turn. NULL with `e` set: -EINVAL (options). */
MUST_CHECK struct certificates *certificates_new(struct net_loop *l,
                                                 const struct certificates_options *o,
                                                 const struct certificates_handlers *handlers,
                                                 void *data, struct err *e);

/* Why there is no serving certificate that could be used, or why the Secret cannot be read or
 * written; NULL: all is well. Valid until the loop runs on. */
const char *certificates_error(const struct certificates *c);
/* Whether there is a serving certificate. */
bool certificates_ready(const struct certificates *c);
const struct certificates_stats *certificates_stats(const struct certificates *c);

/* What `clients` says has changed: on_serving follows, once there is a certificate. */
void certificates_clients_changed(struct certificates *c);
/* Looks again soon: is_published may have changed. */
void certificates_check(struct certificates *c);

/* At once: no handler is called any more. NULL is ignored. */
void certificates_free(struct certificates *c);

#endif
