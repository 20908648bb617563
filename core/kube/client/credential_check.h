/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credential_check.h - whether the API server accepts a client's credentials.
 *
 * An answer 401 does not prove that it refuses them: what is behind an aggregated API or a `proxy`
 * subresource may have answered. So a 401 only raises the question, and the API server itself is
 * asked for /version, which everybody may read whom it knows:
 *
 *     ACCEPTED --401--> DOUBTED --401 to /version--> REFUSED
 *        ^                 |                            |
 *        +-----------------+-- any other answer --------+
 *
 * The question is asked again after 1 to 10 s while they are refused, and as soon as another
 * request is answered; and not more often than every 10 s while they are accepted. REFUSED is a row
 * of the table of health.h, with the credential, when it expired, and the remedy.
 */
#ifndef CORE_KUBE_CLIENT_CREDENTIAL_CHECK_H
#define CORE_KUBE_CLIENT_CREDENTIAL_CHECK_H

#include "base/err.h"
#include "http/fetch.h"
#include "kube/access/credentials.h"
#include "kube/client/health.h"
#include "net/clock.h"

struct credential_check;

struct credential_check_options {
    struct http_requester via; /* of the client, with its credentials */
    struct credentials *credentials;
    struct health *health;
    const struct net_clock *clock;
    const char *server; /* its URL, for messages; as the others, outlives the check */
};

MUST_CHECK struct credential_check *
credential_check_new(struct net_loop *l, const struct credential_check_options *o, struct err *e);
void credential_check_free(struct credential_check *c);

/* To be told of each answer's status, as http_client_options.on_status. */
void credential_check_status(struct credential_check *c, const struct http_head *request,
                             unsigned status);

/* A plugin has failed and nothing is usable; or they are usable. */
void credential_check_lost(struct credential_check *c);
void credential_check_found(struct credential_check *c);

/* Whether they may be refused: a 401 was seen, and is not explained by anything else. */
bool credential_check_doubted(const struct credential_check *c);
/* For how long the API server has refused them: ms; 0: it does not. */
uint64_t credential_check_refused_ms(const struct credential_check *c);

#endif
