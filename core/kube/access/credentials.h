/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials.h - what a kube_access proves itself with, and what it trusts, kept fresh.
 *
 * Tokens and passwords of a kubeconfig never change. A token file, and the files of a client
 * certificate and of the authorities, are read again when they changed: looked at on use, at most
 * every 10 s. A plugin's
 * credential is fetched at start, ahead of its expiry and after the server rejected it; failures
 * are retried with growing pauses (1 s to 60 s), and what is still valid is used meanwhile.
 *
 * Not thread-safe: everything on the loop's thread.
 */
#ifndef CORE_KUBE_ACCESS_CREDENTIALS_H
#define CORE_KUBE_ACCESS_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/access/access.h"
#include "kube/access/credential_text.h"
#include "net/loop.h"

struct credentials;

enum credentials_event {
    CREDENTIALS_READY,  /* usable from now on (first time, or again after a failure) */
    CREDENTIALS_TLS,    /* the client certificate or the authorities changed: new connections need a
                         * new tls_config. Comes before READY when a plugin gives the first one. While
                         * two files    are being replaced they may not fit together for a moment: keep
                         * the old    tls_config until a later event brings a pair that does. */
    CREDENTIALS_FAILED, /* a plugin failed and nothing is usable: credentials_error says why.
                         * Comes again with each failed attempt */
};

/* Runs from the loop or from credentials_authorization/_rejected, never from credentials_new.
 * credentials_close is allowed inside. */
typedef void (*credentials_event_cb)(void *data, enum credentials_event event);
typedef void (*credentials_close_cb)(void *data);

/* Zero: the default. */
struct credentials_options {
    credentials_event_cb on_event; /* may be NULL */
    void *data;
    uint64_t file_check_ms;   /* pause between looks at files; 10,000 */
    uint64_t exec_timeout_ms; /* a plugin that runs longer is killed; 60,000 */
    uint64_t retry_ms;        /* first pause after a failed plugin, doubled up to 60 times; 1,000 */
};

/* Reads the files at once; starts the plugin, if there is one. `access` must outlive it. NULL with
 * `e` set; then nothing is left to close. */
MUST_CHECK struct credentials *credentials_new(struct net_loop *l, const struct kube_access *access,
                                               const struct credentials_options *options,
                                               struct err *e);

/* False while a plugin has not yet given a credential, or none that is still valid. */
bool credentials_ready(const struct credentials *c);
/* Why the last attempt failed, with what to do about it; NULL when it did not. */
const char *credentials_error(const struct credentials *c);

/* The value for the Authorization header; NULL: send none (only while credentials_ready). Cheap.
 * Valid until the next call or the loop's next turn. */
const char *credentials_authorization(struct credentials *c);

/* Whom to trust, as PEM; empty: the system's roots. Valid until CREDENTIALS_TLS. */
struct slice credentials_ca(const struct credentials *c);
/* The client certificate and key, as PEM; empty: none. Valid until CREDENTIALS_TLS. */
struct slice credentials_cert(const struct credentials *c);
struct slice credentials_key(const struct credentials *c);

/* Looks at once whether the files of token, certificates and authorities changed, as each request
 * does now and then. Calls on_event. */
void credentials_refresh(struct credentials *c);

/* Which credential the next request has, for messages. */
void credentials_describe(const struct credentials *c, struct credential_text *out);

/* To be told when the server answered 401: files are looked at again, a plugin is run again (not
 * more often than every 10 s). */
void credentials_rejected(struct credentials *c);

/* Kills a plugin that runs; `cb` is the last access. Idempotent: only the first `cb` runs. */
void credentials_close(struct credentials *c, credentials_close_cb cb, void *data);

#endif
