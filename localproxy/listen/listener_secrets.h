/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener_secrets.h - the certificate with its key that the operator sees, and the token that is
 * demanded of it: --listen-tls-cert with --listen-tls-key, or what the authority in the folder of
 * --local-tls signs; and the file that --token-file comes to. NULL: none.
 *
 * Read at the start, and again when a file changed: looked at every 10 s. What cannot be read, or
 * does not fit together, changes nothing; the log says why, once for each change. What the
 * authority signs is made at the start, before it ends, and when the authority changed.
 */
#ifndef LOCALPROXY_LISTEN_LISTENER_SECRETS_H
#define LOCALPROXY_LISTEN_LISTENER_SECRETS_H

#include "base/err.h"
#include "base/slice.h"
#include "crypto/tls.h"
#include "flags.h"
#include "kube/client/health.h"
#include "net/loop.h"

struct listener_secrets;

/* NULL with `e` set, which names flag and file. `flags` must outlive it. `check_ms`: the pause
 * between looks; 0: 10,000. */
MUST_CHECK struct listener_secrets *listener_secrets_new(struct net_loop *l,
                                                         const struct localproxy_flags *flags,
                                                         uint64_t check_ms, struct err *e);

/* Empty: none is demanded. Valid until the loop runs on. */
struct slice listener_secrets_token(const struct listener_secrets *s);
/* The same with LOCAL_TOKEN_USER, as Basic credentials have it (RFC 7617). */
struct slice listener_secrets_basic(const struct listener_secrets *s);

/* NULL: plain. Belongs to `s`, which lets it go with the next one. */
struct tls_config *listener_secrets_tls(const struct listener_secrets *s);

/* `cb` is called, from the loop, when there is another TLS configuration, for new connections;
 * listener_secrets_tls has it. NULL: no more. */
typedef void (*listener_secrets_tls_cb)(void *data);
void listener_secrets_on_tls(struct listener_secrets *s, listener_secrets_tls_cb cb, void *data);

/* From now on the end of --listen-tls-cert is reported there ahead. NULL: no more. */
void listener_secrets_report_to(struct listener_secrets *s, struct health *health);

/* Overwrites the token. NULL is ignored. */
void listener_secrets_free(struct listener_secrets *s);

#endif
