/* SPDX-License-Identifier: Apache-2.0 */
/*
 * via.h - the HTTP proxy through which the pod reaches other places, if it has one: localproxy's
 * egress does not replace it, but goes through it.
 */
#ifndef LOCALPROXY_EGRESS_VIA_H
#define LOCALPROXY_EGRESS_VIA_H

#include "base/err.h"
#include "egress/destination.h"
#include "http/client.h"

/* Look-ups of the proxy's name at a time. */
enum { VIA_LOOKUPS_MAX = 2 };

struct via;

/* `url` as kube/access/proxy.h parses it, NULL: there is none; `no_proxy` as the variable of that
 * name, NULL: nothing is excepted. NULL with `e` set: -EINVAL, without repeating a password, or
 * -ENOMEM. */
MUST_CHECK struct via *via_new(const char *url, const char *no_proxy, struct err *e);
/* After all streams that were dialled to the proxy were closed. NULL is ignored. */
void via_free(struct via *v);

/* The proxy on the way to the destination; NULL: it is reached directly. Lives as long as `v`. */
const struct http_proxy *via_of(const struct via *v, const struct destination *t);
/* "http://host:port" for messages, without user and password; "": there is none. */
const char *via_name(const struct via *v);

#endif
