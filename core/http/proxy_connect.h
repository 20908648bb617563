/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy_connect.h - a stream to an origin through an HTTP proxy (RFC 9110 section 9.3.6, CONNECT).
 */
#ifndef CORE_HTTP_PROXY_CONNECT_H
#define CORE_HTTP_PROXY_CONNECT_H

#include "base/err.h"
#include "http/client.h"
#include "net/stream.h"

/* NULL without memory. The authorization is overwritten when the copy is freed. */
MUST_CHECK struct http_proxy *http_proxy_copy(const struct http_proxy *p);
void http_proxy_free(struct http_proxy *p);

struct proxy_connect;

/* As net_dial, but that `proxy` is connected to and asked for a tunnel to the host and port of `o`,
 * a name being looked up by the proxy; TLS is spoken with the origin, in the tunnel. The connect
 * timeout covers all of it. Errors name the proxy; none has a code of -HTTP_PARSE_*.
 *
 * The stream is the caller's from the beginning. Of `handlers` on_open or on_error follows; *out is
 * freed when it does. `proxy` must live until then. */
MUST_CHECK int proxy_connect(struct net_loop *l, const struct http_proxy *proxy,
                             const struct net_dial_options *o,
                             const struct net_stream_handlers *handlers, void *data,
                             struct proxy_connect **out, struct net_stream **stream, struct err *e);

/* Gives up before; the caller closes the stream. NULL is allowed. */
void proxy_connect_free(struct proxy_connect *c);

#endif
