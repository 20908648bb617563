/* SPDX-License-Identifier: Apache-2.0 */
#include "listen/local_certificate.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "listen/api_server_names.h"
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

/* What the certificate is for. */
struct names {
    char listen[1 + FLAG_LIST_MAX][NET_ADDRESS_MAX];
    struct api_server_names api_server;
    const char *all[CERTIFICATE_NAMES_MAX];
    size_t count;
};

static void add_name(struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->all[i], name) == 0) {
            return;
        }
    }
    if (name[0] != '\0' && n->count < CERTIFICATE_NAMES_MAX) {
        n->all[n->count++] = name;
    }
}

static void find_names(const struct localproxy_flags *f, struct names *n)
{
    static const char *const always[] = {"localhost", "127.0.0.1", "::1"};
    n->count = 0;
    for (size_t i = 0; i < ARRAY_LEN(always); i++) {
        add_name(n, always[i]);
    }
    listen_name(f->listen, n->listen[0]);
    add_name(n, n->listen[0]);
    for (size_t i = 0; i < f->listen_tls.count; i++) {
        listen_name(f->listen_tls.items[i], n->listen[1 + i]);
        add_name(n, n->listen[1 + i]);
    }
    api_server_names_read(getenv("KUBERNETES_SERVICE_HOST"), &n->api_server);
    for (size_t i = 0; i < n->api_server.count; i++) {
        add_name(n, n->api_server.names[i]);
    }
    for (size_t i = 0; i < f->accept_hosts.count; i++) {
        add_name(n, f->accept_hosts.items[i]);
    }
}

static struct tls_config *make(const struct localproxy_flags *f,
                               const struct certificate_pair *authority, int64_t now,
                               int64_t *renew_at, struct err *e)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    struct certificate_pair made = {.cert = NULL};
    struct names names;
    find_names(f, &names);
    if (local_tls_serving(authority, now, names.all, names.count, &made, renew_at, e) != 0) {
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
