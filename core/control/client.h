/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - talks to a localproxy over its control socket: gives it documents, asks what it
 * enforces.
 *
 * One call at a time, each on a connection of its own, so that nothing is left over from a proxy
 * that was restarted.
 */
#ifndef CORE_CONTROL_CLIENT_H
#define CORE_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "control/state.h"
#include "net/loop.h"

struct control_client;

struct control_client_options {
    const char *path;    /* of the socket; copied */
    uint64_t timeout_ms; /* for a whole call, whatever the other side does or does not */
};

/* Runs once for each call that was begun, unless it is cancelled; never inside the function that
 * began it; may begin the next. Either the state with e NULL, or NULL and why: -EINVAL (the
 * document is bad), -ESTALE (older than what is enforced, other rules of the same generation, or of
 * another shard), -EAGAIN (the proxy cannot now: out of memory, shutting down), -ENOSYS (it is
 * too old for documents of this kind; never of rules), -EPROTO (it does not speak this protocol),
 * -ETIMEDOUT, -ENOENT or -ECONNREFUSED (nobody listens), or another of
 * the system's. */
typedef void (*control_client_cb)(void *data, const struct control_state *state, bool changed,
                                  const struct err *e);

/* NULL with `e` set: out of memory, a path too long. Connects with the first call. */
MUST_CHECK struct control_client *
control_client_new(struct net_loop *l, const struct control_client_options *o, struct err *e);

/* Hands over a document (copied). The callback's `changed` says whether it was not in force before.
 * 0, or negative with `e` set and no callback: -EBUSY while a call is under way, -EMSGSIZE over
 * control_document_max, -ENOMEM. */
MUST_CHECK int control_client_put(struct control_client *c, enum control_document d,
                                  struct slice text, control_client_cb cb, void *data,
                                  struct err *e);
/* Hands over that there are none, which is not for rules. `changed` says whether there were some.
 * As above. */
MUST_CHECK int control_client_delete(struct control_client *c, enum control_document d,
                                     control_client_cb cb, void *data, struct err *e);
/* Asks what is enforced; `changed` is false. `trouble`: what keeps the caller from handing over
 * these documents, which the proxy tells whoever asks it; "": nothing does; NULL: it is nobody's
 * business. As above. */
MUST_CHECK int control_client_get(struct control_client *c, enum control_document d,
                                  const char *trouble, control_client_cb cb, void *data,
                                  struct err *e);

/* Ends the call that is under way, if one is; its callback is not called. What was handed over may
 * have been put in force nevertheless. */
void control_client_cancel(struct control_client *c);
/* Cancels and frees; not inside a callback of its own. NULL is ignored. */
void control_client_free(struct control_client *c);

#endif
