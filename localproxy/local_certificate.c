/* SPDX-License-Identifier: Apache-2.0 */
#include "local_certificate.h"

#include <string.h>

#include "base/array.h"
#include "net/address.h"
#include "program/local_tls.h"

/* The address without port and brackets; "" where none can be told. */
static void listen_name(const char *listen, char out[NET_ADDRESS_MAX])
{
    bool bracketed = listen[0] == '[';
    const char *from = listen + (bracketed ? 1 : 0);
    const char *to = bracketed ? strchr(from, ']') : strrchr(from, ':');
    size_t len = to == NULL ? 0 : (size_t)(to - from);
    bool is_name = len < NET_ADDRESS_MAX && memchr(from, '%', len) == NULL;
    out[0] = '\0';
    if (is_name) {
        memcpy(out, from, len);
        out[len] = '\0';
    }
}

/* How many there are. */
static size_t find_names(const struct localproxy_flags *f, const char *listen,
                         const char *names[CERTIFICATE_NAMES_MAX])
{
    static const char *const always[] = {"localhost", "127.0.0.1", "::1"};
    size_t n = ARRAY_LEN(always);
    memcpy(names, always, sizeof always);
    if (listen[0] != '\0') {
        names[n++] = listen;
    }
    for (size_t i = 0; i < f->accept_hosts.count && n < CERTIFICATE_NAMES_MAX; i++) {
        names[n++] = f->accept_hosts.items[i];
    }
    return n;
}

static struct tls_config *make(const struct localproxy_flags *f,
                               const struct certificate_pair *authority, int64_t now,
                               int64_t *renew_at, struct err *e)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    struct certificate_pair made = {.cert = NULL};
    char listen[NET_ADDRESS_MAX];
    const char *names[CERTIFICATE_NAMES_MAX];
    listen_name(f->listen, listen);
    size_t n = find_names(f, listen, names);
    if (local_tls_serving(authority, now, names, n, &made, renew_at, e) != 0) {
        return NULL;
    }
    const struct tls_server_options o = {
        .cert = slice_str(made.cert),
        .cert_name = "--local-tls",
        .key = slice_str(made.key),
        .key_name = "--local-tls",
        .alpn = alpn,
    };
    struct tls_config *tls = tls_config_new_server(&o, e);
    certificate_pair_deinit(&made);
    return tls;
}

struct tls_config *local_certificate_new(const struct localproxy_flags *f, int64_t now,
                                         int64_t *renew_at, bool *made_authority, struct err *e)
{
    struct certificate_pair authority;
    if (local_tls_authority(f->local_tls, now, &authority, made_authority, e) != 0) {
        return NULL;
    }
    struct tls_config *tls = make(f, &authority, now, renew_at, e);
    certificate_pair_deinit(&authority);
    return tls;
}
