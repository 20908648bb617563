/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "base/secret.h"
#include "base/slice.h"
#include "crypto/digest.h"
#include "kube/percent.h"

/* The messages never hold the text itself: it may carry a password. */

/* ---- the proxy's URL ---- */

enum { USER_MAX = 4096 };

/* Goes past the scheme. */
static int check_scheme(const char **text, struct err *e)
{
    if (strncasecmp(*text, "http://", 7) == 0) {
        *text += 7;
    } else if (strncasecmp(*text, "https://", 8) == 0) {
        return err_set(e, -EINVAL,
                       "a proxy that speaks TLS itself (https://) is not supported; name an "
                       "http:// one");
    } else if (strstr(*text, "://") != NULL) {
        return err_set(e, -EINVAL,
                       "only HTTP proxies are supported, SOCKS is not; name an http:// one");
    }
    return 0;
}

/* Without percent-escapes. */
static int append_decoded(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        int byte = (unsigned char)text.ptr[i];
        if (byte == '%') {
            byte = percent_byte(slice_of(text.ptr + i, text.len - i));
            i += 2;
        }
        if (byte < 0) {
            return -EINVAL;
        }
        int rc = buf_append_char(out, (char)byte);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* "user:password" as RFC 7617 has it. An escaped colon in the user's name counts as one. */
static int encode_user(struct slice user, struct buf *plain, struct buf *out)
{
    bool has_password = memchr(user.ptr, ':', user.len) != NULL;
    /* In one piece each, so that a growing buffer leaves no copy behind. */
    if (buf_reserve(plain, user.len + 1) == NULL || buf_reserve(out, user.len * 2 + 16) == NULL) {
        return -ENOMEM;
    }
    int rc = append_decoded(user, plain);
    if (rc == 0 && !has_password) {
        rc = buf_append_char(plain, ':');
    }
    if (rc == 0) {
        rc = buf_append_str(out, "Basic ");
    }
    return rc == 0 ? base64_encode(buf_slice(plain), out) : rc;
}

static int take_user(struct slice user, struct kube_proxy *out, struct err *e)
{
    struct buf plain = BUF_INIT(USER_MAX + 1);
    struct buf text = BUF_INIT(2 * USER_MAX + 16);
    if (user.len > USER_MAX) {
        return err_set(e, -EINVAL, "user and password are longer than %d characters", USER_MAX);
    }
    int rc = encode_user(user, &plain, &text);
    if (rc == 0) {
        out->authorization = buf_take_str(&text);
        rc = out->authorization == NULL ? -ENOMEM : 0;
    }
    secret_buf_reset(&plain);
    secret_buf_reset(&text);
    if (rc == -EINVAL) {
        return err_set(e, rc,
                       "user or password has a %% that begins no escape; write %%25 instead");
    }
    return rc == 0 ? 0 : err_memory(e);
}

static int take_address(struct slice host_port, struct kube_proxy *out, struct err *e)
{
    char *text = NULL;
    if (asprintf(&text, "http://%.*s", (int)host_port.len, host_port.ptr) < 0) {
        return err_memory(e);
    }
    int rc = url_parse(text, &out->address, e);
    free(text);
    return rc;
}

static int parse(const char *text, struct kube_proxy *out, struct err *e)
{
    int rc = check_scheme(&text, e);
    if (rc != 0) {
        return rc;
    }
    size_t len = strcspn(text, "/?#");
    const char *at = memrchr(text, '@', len);
    const char *host = at != NULL ? at + 1 : text;
    rc = take_address(slice_of(host, (size_t)(text + len - host)), out, e);
    if (rc == 0 && at != NULL) {
        rc = take_user(slice_of(text, (size_t)(at - text)), out, e);
    }
    if (rc == 0 && asprintf(&out->url, "http://%.*s", (int)len, text) < 0) {
        out->url = NULL;
        rc = err_memory(e);
    }
    return rc;
}

int kube_proxy_parse(const char *text, struct kube_proxy *out, struct err *e)
{
    *out = (struct kube_proxy){.url = NULL};
    int rc = parse(text, out, e);
    if (rc != 0) {
        kube_proxy_deinit(out);
    }
    return rc;
}

/* ---- NO_PROXY ---- */

/* IPv4 in IPv6 is the former. */
struct ip {
    unsigned char bytes[16];
    unsigned len; /* 4, 16, or 0: none */
};

struct target {
    const char *host;
    char port[8];
    struct ip ip;
};

static struct ip parse_ip(const char *text)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct ip ip = {.len = 0};
    if (inet_pton(AF_INET, text, ip.bytes) == 1) {
        ip.len = 4;
    } else if (inet_pton(AF_INET6, text, ip.bytes) == 1) {
        ip.len = 16;
        if (memcmp(ip.bytes, mapped, sizeof mapped) == 0) {
            memmove(ip.bytes, ip.bytes + sizeof mapped, 4);
            ip.len = 4;
        }
    }
    return ip;
}

static bool same_bits(const struct ip *a, const struct ip *b, unsigned bits)
{
    unsigned whole = bits / 8;
    unsigned rest = bits % 8;
    if (a->len != b->len || memcmp(a->bytes, b->bytes, whole) != 0) {
        return false;
    }
    return rest == 0 || (a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_loopback(const struct target *t)
{
    static const struct ip one = {.bytes = {[15] = 1}, .len = 16};
    return strcasecmp(t->host, "localhost") == 0 || (t->ip.len == 4 && t->ip.bytes[0] == 127) ||
           same_bits(&t->ip, &one, 128);
}

static bool in_cidr(const struct target *t, const char *address, const char *length)
{
    struct ip net = parse_ip(address);
    char *end = NULL;
    unsigned long bits = ascii_is_digit(length[0]) ? strtoul(length, &end, 10) : 0;
    return end != NULL && *end == '\0' && net.len > 0 && bits <= net.len * 8UL &&
           same_bits(&t->ip, &net, (unsigned)bits);
}

/* Whether the host is that domain or below it; with a dot in front: below it. */
static bool in_domain(const char *host, const char *domain)
{
    size_t skip = strncmp(domain, "*.", 2) == 0 ? 1 : 0;
    const char *name = domain + skip;
    size_t host_len = strlen(host);
    size_t len = strlen(name);
    if (strcasecmp(host, name) == 0) {
        return true;
    }
    return host_len > len && strcasecmp(host + host_len - len, name) == 0 &&
           (name[0] == '.' || host[host_len - len - 1] == '.');
}

/* Cuts `host:port`, `[ipv6]:port`, `[ipv6]` and what has no port. */
static const char *cut_port(char **host)
{
    char *end = **host == '[' ? strchr(*host, ']') : strchr(*host, ':');
    if (end == NULL || (*end == ':' && strchr(end + 1, ':') != NULL)) {
        return ""; /* an IPv6 address without brackets */
    }
    const char *port = *end == ':' ? end + 1 : end[1] == ':' ? end + 2 : "";
    *host += **host == '[' ? 1 : 0;
    *end = '\0';
    return port;
}

static bool entry_matches(const struct target *t, char *entry)
{
    char *slash = strchr(entry, '/');
    if (strcmp(entry, "*") == 0) {
        return true;
    }
    if (slash != NULL) {
        *slash = '\0';
        return in_cidr(t, entry, slash + 1);
    }
    const char *port = cut_port(&entry);
    if (entry[0] == '\0' || (port[0] != '\0' && strcmp(port, t->port) != 0)) {
        return false;
    }
    struct ip ip = parse_ip(entry);
    return ip.len > 0 ? same_bits(&t->ip, &ip, ip.len * 8) : in_domain(t->host, entry);
}

bool kube_proxy_excepted(const struct url *server, const char *no_proxy)
{
    enum { ENTRY_MAX = URL_HOST_MAX + 16 };
    char bare[URL_HOST_MAX + 1];
    struct target t = {.host = server->host};
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(server->host, "%"), server->host);
    t.ip = parse_ip(bare);
    (void)snprintf(t.port, sizeof t.port, "%u", (unsigned)server->port);
    if (is_loopback(&t)) {
        return true;
    }
    for (const char *p = no_proxy; *p != '\0'; p += *p == ',' ? 1 : 0) {
        char entry[ENTRY_MAX + 1];
        p += strspn(p, " \t");
        size_t len = strcspn(p, ",");
        size_t used = len;
        while (used > 0 && ascii_is_blank(p[used - 1])) {
            used--;
        }
        (void)snprintf(entry, sizeof entry, "%.*s", (int)used, p);
        if (used <= ENTRY_MAX && entry_matches(&t, entry)) {
            return true;
        }
        p += len;
    }
    return false;
}

/* ---- the environment ---- */

/* Whichever of the two is set; *name is its name. */
static const char *variable(const char *upper, const char *lower, const char **name)
{
    const char *value = getenv(upper);
    *name = upper;
    if (value == NULL || value[0] == '\0') {
        value = getenv(lower);
        *name = lower;
    }
    return value != NULL ? value : "";
}

int kube_proxy_from_environment(const struct url *server, struct kube_proxy *out, struct err *e)
{
    const char *name;
    const char *ignored;
    *out = (struct kube_proxy){.url = NULL};
    const char *text = server->https ? variable("HTTPS_PROXY", "https_proxy", &name)
                                     : variable("HTTP_PROXY", "http_proxy", &name);
    if (text[0] == '\0' ||
        kube_proxy_excepted(server, variable("NO_PROXY", "no_proxy", &ignored))) {
        return 0;
    }
    struct err why = ERR_INIT;
    int rc = kube_proxy_parse(text, out, &why);
    if (rc != 0) {
        err_set(e, rc, "the environment variable %s: %s; or except the API server with NO_PROXY",
                name, why.msg);
    }
    return rc;
}

/* ---- the rest ---- */

void kube_proxy_name(const struct kube_proxy *p, char out[KUBE_PROXY_NAME_SIZE])
{
    bool v6 = strchr(p->address.host, ':') != NULL;
    out[0] = '\0';
    if (p->url != NULL) {
        (void)snprintf(out, KUBE_PROXY_NAME_SIZE, "http://%s%s%s:%u", v6 ? "[" : "",
                       p->address.host, v6 ? "]" : "", (unsigned)p->address.port);
    }
}

void kube_proxy_deinit(struct kube_proxy *p)
{
    secret_free(p->url);
    secret_free(p->authorization);
    *p = (struct kube_proxy){.url = NULL};
}
