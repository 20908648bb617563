/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate_set.h - what the Secret of the webhooks' certificates holds, what is wrong with it,
 * and what is to be done next. No I/O, no clock.
 *
 * Glossary: see webhook/certificates.h. The *usual time* to renew something is when a third of its
 * life is left.
 */
#ifndef MANAGER_WEBHOOK_CERTIFICATE_SET_H
#define MANAGER_WEBHOOK_CERTIFICATE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "crypto/certificate.h"

/* How the common names of our authorities begin; the time of birth follows. */
#define CERTIFICATE_SET_AUTHORITY "cmesh-webhook-ca@"

#define CERTIFICATE_SET_BUNDLE_MAX (256 * 1024)

/* A certificate and what the Secret has as its key. */
struct certificate_entry {
    char *cert;               /* PEM; NULL: not there */
    char *key;                /* NULL: not there */
    struct certificate *read; /* NULL: not there, or unreadable */
};

enum certificate_role {
    CERTIFICATE_CURRENT,  /* ca.crt, ca.key */
    CERTIFICATE_SERVING,  /* tls.crt, tls.key */
    CERTIFICATE_NEXT,     /* next-ca.crt, next-ca.key */
    CERTIFICATE_PREVIOUS, /* previous-ca.crt */
    CERTIFICATE_ROLES,
};

struct certificate_set {
    struct certificate_entry entries[CERTIFICATE_ROLES];
};

/* What certificates must be like. */
struct certificate_rules {
    const char *const *names; /* of the serving certificate */
    size_t name_count;
    uint64_t authority_seconds;
    uint64_t serving_seconds;
};

enum certificate_action {
    CERTIFICATE_KEEP,    /* nothing is to be done before `next_look` */
    CERTIFICATE_RENEW,   /* another serving certificate, of the current authority */
    CERTIFICATE_PREPARE, /* a next authority */
    CERTIFICATE_PROMOTE, /* the next authority becomes the current one, with a serving certificate
                          */
    CERTIFICATE_RESTART, /* nothing is of use: an authority and a serving certificate */
    CERTIFICATE_RESTORE, /* what is held goes back into the Secret, with a next authority */
};

struct certificate_plan {
    enum certificate_action action;
    bool broken;       /* something was not as it must be: `why` */
    char why[256];     /* for the log */
    int64_t next_look; /* CERTIFICATE_KEEP: seconds since 1970 */
};

/* All zero: empty. Then it is empty again; keys are overwritten. */
void certificate_set_deinit(struct certificate_set *s);
/* Reads a Secret, into an empty set; what cannot be read counts as not there. */
void certificate_set_read(struct certificate_set *s, const cJSON *secret);

/* Whether a server can show the serving certificate now, and the bundle's clients take it. If not,
 * `why` says what is wrong. */
bool certificate_set_serves(const struct certificate_set *s, const struct certificate_rules *r,
                            int64_t now, char why[256]);
/* `next_trusted`: all clients trust the next authority. */
void certificate_set_plan(const struct certificate_set *s, const struct certificate_rules *r,
                          int64_t now, bool next_trusted, struct certificate_plan *plan);
/* What the action (not CERTIFICATE_KEEP) makes of the Secret's `data`, as a merge patch; it holds
 * keys: secret_json_delete is due. NULL with `e` set: -EINVAL or -EIO. */
MUST_CHECK cJSON *certificate_set_change(const struct certificate_set *s,
                                         const struct certificate_rules *r, int64_t now,
                                         const struct certificate_plan *plan, struct err *e);

/* The authorities that are to be trusted, the current one first; the caller frees. */
char *certificate_set_bundle(const struct certificate_set *s);

#endif
