/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload.h - where the rules come from: a file at the start and on SIGHUP, the control socket from
 * then on.
 *
 * A document is taken if it is valid, of the shard whose rules are in force, and newer. It is
 * confirmed when it is enforced, which is at once: nothing outside it is shown any more. Some time
 * is given to writes to what it took away, and the answer says whether any may still be executed.
 */
#ifndef LOCALPROXY_CONTROL_RELOAD_H
#define LOCALPROXY_CONTROL_RELOAD_H

#include "flags.h"
#include "metrics/metrics.h"
#include "request/proxy.h"

struct reload;
struct documents; /* control/documents.h */

/* Loads the file; that it is missing or wrong is logged and said by the proxy, but no failure.
 * Opens the socket. NULL with `e` set. */
MUST_CHECK struct reload *reload_new(struct net_loop *l, const struct localproxy_flags *config,
                                     struct proxy *proxy, struct metrics *metrics, struct err *e);

/* Takes traffic documents on the socket, too, if there is one. Before the loop runs. */
void reload_serve_traffic(struct reload *r, struct documents *d);

/* From now on `cb` is called when other rules have come into force, and again when they are settled
 * (proxy_on_settled). Inside it nothing of this header may be called. */
typedef void (*reload_changed_cb)(void *data);
void reload_on_changed(struct reload *r, reload_changed_cb cb, void *data);

/* What rulesync says of itself on the control socket. */
#define RELOAD_TROUBLE_MAX 256
struct reload_source {
    bool known; /* it has said so, ever */
    /* What keeps it from handing over rules, or that it is not heard of any more; "": nothing.
     * UTF-8; what is no such was made U+FFFD. */
    char trouble[3 * RELOAD_TROUBLE_MAX + 1];
};
void reload_source(const struct reload *r, struct reload_source *out);

/* Reads the file again, on SIGHUP: what is newer and valid comes into force; otherwise the log says
 * why not. */
void reload_read_again(struct reload *r);

/* Closes the socket. NULL is ignored. */
void reload_free(struct reload *r);

#endif
