/* SPDX-License-Identifier: Apache-2.0 */
/*
 * destination.h - where a request to another place than the API server is to go, and which way it
 * came.
 *
 *     GET http://host/path            a proxy's absolute form, also with https://: TLS is then
 *                                     spoken by localproxy
 *     CONNECT host:port               a tunnel
 *     GET / with Mesh-Real-Endpoint:  https://host/path: the header's URL is meant, and what stands
 *                                     in the request line is of no meaning
 *
 * Read strictly: what two programs could read differently is refused. So are user information, a
 * fragment, white space and control characters, all but letters, digits, "-", "." and "_" in a name
 * (one in another script comes as "xn--..."), hosts that are not quite IPv4 addresses ("127.1",
 * "0x7f.0.0.1", "2130706433", "127.0.0.1.") but that a resolver may take for one, IPv6 zones, port
 * 0, a tunnel without port, and the header several times, or beside one of the other two ways. A
 * Host header is of no meaning (RFC 9112 section 3.2.2).
 *
 * Path and query are passed on as they were written: neither escapes nor dots in them are resolved.
 */
#ifndef LOCALPROXY_EGRESS_DESTINATION_H
#define LOCALPROXY_EGRESS_DESTINATION_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"
#include "http/message.h"
#include "traffic/external.h"

#define DESTINATION_HEADER "Mesh-Real-Endpoint"

enum destination_way { DESTINATION_ABSOLUTE, DESTINATION_TUNNEL, DESTINATION_HEADER_WAY };

struct destination {
    enum destination_way way;
    bool https;                  /* localproxy speaks TLS with it; never of tunnels */
    char host[URL_HOST_MAX + 1]; /* as traffic/external.h has it; addresses in their shortest form,
                                    and an IPv4 one that is mapped into IPv6 as itself */
    bool literal;                /* it is an IP address */
    unsigned port;
    struct slice path;   /* "/..." up to the query, a view into the head; of tunnels "" */
    struct slice query;  /* behind "?" */
    struct slice origin; /* path and query, as the origin is asked for it; "" where there is no
                            path: then "/" is to be asked for, before a query */
};

/* Of a request's head. 0; -EINVAL with `e` set: it is none, or not well-formed; -ENOENT: an origin
 * form without the header, as one sends it who takes localproxy for a web server. */
MUST_CHECK int destination_read(const struct http_head *head, struct destination *out,
                                struct err *e);

/* What rules look at; views into `t` and `head`. */
void destination_describe(const struct destination *t, const struct http_head *head,
                          struct traffic_external *out);

/* Room for every destination_host_port. */
#define DESTINATION_HOST_PORT_SIZE (URL_HOST_MAX + 10)
/* "host:port", an IPv6 literal in brackets; without the port where `brief` and it is the scheme's
 * own. */
void destination_host_port(const struct destination *t, bool brief,
                           char out[DESTINATION_HOST_PORT_SIZE]);

#endif
