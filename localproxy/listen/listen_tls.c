/* SPDX-License-Identifier: Apache-2.0 */
#include "listen/listen_tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define LOCALHOST "localhost:"

static const char *const loopback[LISTEN_TLS_ADDRESSES] = {"127.0.0.1", "[::1]"};

int listen_tls_parse(const char *text, struct listen_tls *out, struct err *e)
{
    const char *port = text + sizeof LOCALHOST - 1;
    bool both = strncmp(text, LOCALHOST, sizeof LOCALHOST - 1) == 0;
    out->count = both ? LISTEN_TLS_ADDRESSES : 1;
    if (both && strcmp(port, "0") == 0) {
        return err_set(e, -EINVAL, "\"%s\" would be two ports: say which one", text);
    }
    for (size_t i = 0; i < out->count; i++) {
        int n = snprintf(out->addresses[i], NET_ADDRESS_MAX, both ? "%s:%s" : "%s%s",
                         both ? loopback[i] : "", both ? port : text);
        int rc = n >= NET_ADDRESS_MAX ? err_set(e, -EINVAL, "\"%.80s\" is too long", text)
                                      : net_address_check(out->addresses[i], e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static bool is_missing(int rc)
{
    return rc == UV_EADDRNOTAVAIL || rc == UV_EAFNOSUPPORT;
}

int listen_tls_open(struct http_server *s, const char *text, struct tls_config *tls, struct err *e)
{
    struct listen_tls t;
    int rc = listen_tls_parse(text, &t, e);
    for (size_t i = 0; i < t.count && rc == 0; i++) {
        struct err why = ERR_INIT;
        rc = http_server_listen(s, t.addresses[i], tls, &why);
        if (i > 0 && is_missing(rc)) {
            log_info("the kernel has no such address", log_str("listenTLS", t.addresses[i]));
            rc = 0;
        } else if (rc != 0) {
            *e = why;
        }
    }
    return rc;
}
