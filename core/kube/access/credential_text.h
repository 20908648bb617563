/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credential_text.h - which credential a client shows, for how long it is valid, and what to do
 * when the API server refuses it: for messages. No text holds any of the credential.
 */
#ifndef CORE_KUBE_ACCESS_CREDENTIAL_TEXT_H
#define CORE_KUBE_ACCESS_CREDENTIAL_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "kube/access/access.h"

#define CREDENTIAL_SUBJECT_SIZE 320
#define CREDENTIAL_REMEDY_SIZE 400

/* Seconds since 1970. Not known: both 0. */
struct validity {
    int64_t from;
    int64_t until;
};

struct credential_text {
    char subject[CREDENTIAL_SUBJECT_SIZE]; /* "the token of user "blue" in /etc/kubeconfig" */
    char remedy[CREDENTIAL_REMEDY_SIZE];
    struct validity valid;
    bool none; /* there is no credential at all */
};

/* `authorization`: the header's value, NULL or "": none. `cert`: the client certificate, PEM. A
 * request with both is described by the header. */
void credential_text(const struct kube_access *a, const char *authorization, struct slice cert,
                     struct credential_text *out);

/* What a JSON Web Token says of itself (RFC 7519: iat or nbf, exp). */
struct validity validity_of_token(struct slice token);
/* Of the first certificate of a PEM text. */
struct validity validity_of_certificate(struct slice pem);
/* Whether it has ended at `now`, or does so within a week and within a tenth of its life, by when
 * it should have been renewed. */
bool validity_ends_soon(const struct validity *v, int64_t now);

#endif
