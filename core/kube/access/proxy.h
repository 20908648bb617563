/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h - the HTTP proxy through which an API server is reached, if any.
 *
 * It is asked for a tunnel (CONNECT), for http:// servers too. The environment is read as client-go
 * does it: HTTPS_PROXY for https servers and HTTP_PROXY for http ones, in lower case where the
 * upper case one is not set, and NO_PROXY (https://pkg.go.dev/golang.org/x/net/http/httpproxy).
 */
#ifndef CORE_KUBE_ACCESS_PROXY_H
#define CORE_KUBE_ACCESS_PROXY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/url.h"

struct kube_proxy {
    char *url; /* with user and password, if any: a secret; NULL: there is no proxy */
    struct url address;
    char *authorization; /* the value of Proxy-Authorization, a secret; NULL: none */
};

/* Parses `[http://][user:password@]host[:port]`; a path is of no meaning. -EINVAL, with a message
 * that does not repeat the text, or -ENOMEM; `out` needs no deinit then. */
MUST_CHECK int kube_proxy_parse(const char *text, struct kube_proxy *out, struct err *e);

/* What the environment says of the way to `server`. Errors name the variable. */
MUST_CHECK int kube_proxy_from_environment(const struct url *server, struct kube_proxy *out,
                                           struct err *e);

/* Whether NO_PROXY's text excepts the server: `*`, or separated by commas addresses, CIDRs and
 * domains, each but CIDRs with a port or without. `example.com` means its subdomains too,
 * `.example.com` and `*.example.com` those only. localhost and loopback addresses always are. */
bool kube_proxy_excepted(const struct url *server, const char *no_proxy);

/* Room for every kube_proxy_name. */
#define KUBE_PROXY_NAME_SIZE (URL_HOST_PORT_SIZE + 8)

/* "http://host:port" for messages, without user and password; "" when there is no proxy. */
void kube_proxy_name(const struct kube_proxy *p, char out[KUBE_PROXY_NAME_SIZE]);

/* Overwrites and frees what it holds. */
void kube_proxy_deinit(struct kube_proxy *p);

#endif
