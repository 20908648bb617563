/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_hello.h - which server a TLS client asks for, out of the first bytes that it sends
 * (RFC 8446 section 4.1.2, RFC 6066 section 3).
 */
#ifndef LOCALPROXY_EGRESS_CLIENT_HELLO_H
#define LOCALPROXY_EGRESS_CLIENT_HELLO_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"

/* Of a ClientHello, and of the bytes that may carry one, in however many records: bytes. */
enum { CLIENT_HELLO_MAX = 16 * 1024, CLIENT_HELLO_BYTES_MAX = 20 * 1024 };

enum client_hello_verdict {
    CLIENT_HELLO_MORE, /* these may be the first bytes of one */
    CLIENT_HELLO_NONE, /* it is not TLS */
    CLIENT_HELLO_READ,
    CLIENT_HELLO_BAD, /* not well-formed, or too long */
};

struct client_hello {
    /* In lower case, without a dot at the end; "": it has none. With Encrypted Client Hello it is
     * that of the server which decrypts the other one (RFC 9849). */
    char name[URL_HOST_MAX + 1];
};

/* `bytes`: all that came from the beginning on; warnings in front of the ClientHello, which servers
 * drop, are passed over, and what follows it is not looked at. More
 * bytes change no other verdict than CLIENT_HELLO_MORE. *out is set with CLIENT_HELLO_READ. */
MUST_CHECK enum client_hello_verdict client_hello_read(struct slice bytes,
                                                       struct client_hello *out);

#endif
