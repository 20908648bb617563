/* SPDX-License-Identifier: Apache-2.0 */
#include "listen/api_server_names.h"

#include <stdbool.h>
#include <string.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "kube/service_names.h"
#include "net/address.h"

#define IN_DOMAIN "svc."
#define RESOLV_CONF "/etc/resolv.conf"
enum { RESOLV_CONF_MAX = 64 * 1024 };

static void add(struct api_server_names *n, const char *name)
{
    size_t len = strlen(name);
    if (n->count < API_SERVER_NAMES_MAX && len > 0 && len < API_SERVER_NAME_SIZE) {
        memcpy(n->names[n->count++], name, len + 1);
    }
}

/* The next word of a line; empty at its end. */
static struct slice next_word(struct slice *line)
{
    size_t from = 0;
    while (from < line->len && ascii_is_space(line->ptr[from])) {
        from++;
    }
    size_t to = from;
    while (to < line->len && !ascii_is_space(line->ptr[to])) {
        to++;
    }
    struct slice word = slice_of(line->ptr + from, to - from);
    *line = slice_of(line->ptr + to, line->len - to);
    return word;
}

static bool is_domain(struct slice domain)
{
    for (size_t i = 0; i < domain.len; i++) {
        char c = domain.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
        if (!ok) {
            return false;
        }
    }
    return domain.len > 0;
}

/* Of a line "search default.svc.cluster.local svc.cluster.local cluster.local". */
static struct slice find_domain(struct slice line)
{
    const size_t prefix = sizeof IN_DOMAIN - 1;
    if (!slice_eq(next_word(&line), SLICE("search"))) {
        return SLICE("");
    }
    for (struct slice word; (word = next_word(&line)).len > 0;) {
        if (word.len > prefix && memcmp(word.ptr, IN_DOMAIN, prefix) == 0) {
            struct slice domain = slice_of(word.ptr + prefix, word.len - prefix);
            domain.len -= domain.ptr[domain.len - 1] == '.' ? 1 : 0;
            return is_domain(domain) ? domain : SLICE("");
        }
    }
    return SLICE("");
}

static bool is_host(const char *host)
{
    struct sockaddr_storage ignored;
    return is_domain(slice_str(host)) || net_address_literal(host, 443, &ignored) == 0;
}

void api_server_names_make(struct slice resolv_conf, const char *host, struct api_server_names *out)
{
    struct slice domain = SLICE(KUBE_CLUSTER_DOMAIN);
    char service[KUBE_SERVICE_NAMES][KUBE_SERVICE_NAME_SIZE];
    out->count = 0;
    while (resolv_conf.len > 0) {
        const char *end = memchr(resolv_conf.ptr, '\n', resolv_conf.len);
        size_t len = end == NULL ? resolv_conf.len : (size_t)(end - resolv_conf.ptr);
        struct slice found = find_domain(slice_of(resolv_conf.ptr, len));
        domain = found.len > 0 ? found : domain;
        len += end == NULL ? 0 : 1;
        resolv_conf = slice_of(resolv_conf.ptr + len, resolv_conf.len - len);
    }
    kube_service_names(domain, service);
    for (size_t i = 0; i < KUBE_SERVICE_NAMES; i++) {
        add(out, service[i]);
    }
    if (host != NULL && is_host(host)) {
        add(out, host);
    }
}

void api_server_names_read(const char *host, struct api_server_names *out)
{
    struct buf text = BUF_INIT(RESOLV_CONF_MAX);
    struct err ignored = ERR_INIT;
    if (file_read(RESOLV_CONF, &text, &ignored) != 0) {
        buf_clear(&text);
    }
    api_server_names_make(buf_slice(&text), host, out);
    buf_reset(&text);
}
