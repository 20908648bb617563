/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/destination.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "net/address.h"

enum { NAME_MAX_LEN = 253, LABEL_MAX = 63, PORT_DIGITS = 5 };

/* The messages never hold the text itself: it may carry a password. */

/* ---- the host ---- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '-' || c == '_' || c == '.';
}

static int check_name_chars(const char *host, struct err *e)
{
    for (const char *p = host; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (!is_name_char(*p)) {
            return c > ' ' && c < 0x7f
                       ? err_set(e, -EINVAL, "the host contains \"%c\"", c)
                       : err_set(e, -EINVAL, "the host contains the byte 0x%02x", c);
        }
    }
    return 0;
}

static int check_labels(const char *host, struct err *e)
{
    for (const char *p = host;;) {
        size_t len = strcspn(p, ".");
        if (len == 0 || len > LABEL_MAX) {
            return err_set(e, -EINVAL, "a part of the host is empty, or longer than %d characters",
                           LABEL_MAX);
        }
        if (p[len] == '\0') {
            return 0;
        }
        p += len + 1;
    }
}

/* Whether inet_aton(3) could take the name for an address: its last part is a number. No domain is
 * called so. */
static bool ends_in_number(const char *host)
{
    const char *dot = strrchr(host, '.');
    const char *last = dot != NULL ? dot + 1 : host;
    if (last[0] == '0' && last[1] == 'x') {
        for (last += 2; ascii_hex_value(*last) >= 0;) {
            last++;
        }
        return *last == '\0';
    }
    return strspn(last, "0123456789") == strlen(last);
}

/* A name, or an IPv4 address. */
static int read_name(struct slice text, struct destination *out, struct err *e)
{
    bool dot = text.len > 1 && text.ptr[text.len - 1] == '.';
    size_t len = text.len - (dot ? 1 : 0);
    struct in_addr address;
    if (len == 0) {
        return err_set(e, -EINVAL, "there is no host");
    }
    if (len > NAME_MAX_LEN) {
        return err_set(e, -EINVAL, "the host is longer than %d characters", NAME_MAX_LEN);
    }
    for (size_t i = 0; i < len; i++) {
        char c = text.ptr[i];
        out->host[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    out->host[len] = '\0';
    if (memchr(text.ptr, '\0', len) != NULL) {
        return err_set(e, -EINVAL, "the host contains the byte 0x00");
    }
    if (check_name_chars(out->host, e) != 0 || check_labels(out->host, e) != 0) {
        return -EINVAL;
    }
    if (!ends_in_number(out->host)) {
        return 0;
    }
    /* inet_pton(3) takes the one form that all agree on. */
    if (dot || inet_pton(AF_INET, out->host, &address) != 1) {
        return err_set(e, -EINVAL,
                       "the host is nearly an IPv4 address; write it with four numbers without "
                       "zeros in front");
    }
    out->literal = true;
    return 0;
}

/* What stands in brackets. */
static int read_ipv6(struct slice text, struct destination *out, struct err *e)
{
    struct in6_addr address;
    char bare[INET6_ADDRSTRLEN];
    if (text.len >= sizeof bare || memchr(text.ptr, '\0', text.len) != NULL) {
        return err_set(e, -EINVAL, "the host in brackets is not an IPv6 address");
    }
    memcpy(bare, text.ptr, text.len);
    bare[text.len] = '\0';
    if (strchr(bare, '%') != NULL) {
        return err_set(e, -EINVAL, "the host is an IPv6 address with a zone");
    }
    if (inet_pton(AF_INET6, bare, &address) != 1) {
        return err_set(e, -EINVAL, "the host in brackets is not an IPv6 address");
    }
    bool mapped = IN6_IS_ADDR_V4MAPPED(&address);
    const void *bytes = mapped ? &address.s6_addr[12] : &address.s6_addr[0];
    (void)inet_ntop(mapped ? AF_INET : AF_INET6, bytes, out->host, sizeof out->host);
    out->literal = true;
    return 0;
}

static int read_port(struct slice digits, struct destination *out, struct err *e)
{
    unsigned port = 0;
    bool good = digits.len > 0 && digits.len <= PORT_DIGITS && digits.ptr[0] != '0';
    for (size_t i = 0; good && i < digits.len; i++) {
        good = ascii_is_digit(digits.ptr[i]);
        port = port * 10 + (unsigned)(digits.ptr[i] - '0');
    }
    if (!good || port > 65535) {
        return err_set(e, -EINVAL, "the port is not a number from 1 to 65535");
    }
    out->port = port;
    return 0;
}

static const char *find(struct slice text, char c)
{
    return text.len > 0 ? memchr(text.ptr, c, text.len) : NULL;
}

static struct slice from(struct slice text, size_t at)
{
    return slice_of(text.ptr + at, text.len - at);
}

/* "host", "host:port", or with an IPv6 address in brackets. Without port, or with an empty one, it
 * stays what it is in *out. */
static int read_authority(struct slice text, struct destination *out, struct err *e)
{
    bool bracket = text.len > 0 && text.ptr[0] == '[';
    const char *end = find(text, bracket ? ']' : ':');
    if (text.len == 0) {
        return err_set(e, -EINVAL, "there is no host");
    }
    if (find(text, '@') != NULL) {
        return err_set(e, -EINVAL, "a user or password before an \"@\" is not taken here");
    }
    if (bracket && end == NULL) {
        return err_set(e, -EINVAL, "the host has no closing bracket");
    }
    size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
    struct slice rest = from(text, len + (bracket ? 1 : 0));
    int rc = bracket ? read_ipv6(slice_of(text.ptr + 1, len - 1), out, e)
                     : read_name(slice_of(text.ptr, len), out, e);
    if (rc != 0) {
        return rc;
    }
    if (rest.len > 0 && rest.ptr[0] != ':') {
        return err_set(e, -EINVAL, "there is text between the host and its port");
    }
    return rest.len > 1 ? read_port(from(rest, 1), out, e) : 0;
}

/* ---- URLs ---- */

static bool cut_scheme(struct slice *text, struct slice scheme)
{
    if (text->len < scheme.len || !slice_ieq(slice_of(text->ptr, scheme.len), scheme)) {
        return false;
    }
    *text = from(*text, scheme.len);
    return true;
}

/* Of path and query; servers read a backslash as they like. */
static int check_rest(struct slice path, struct slice query, struct err *e)
{
    if (find(path, '\\') != NULL) {
        return err_set(e, -EINVAL, "the path contains a backslash; write it as %%5C");
    }
    if (find(path, '#') != NULL || find(query, '#') != NULL) {
        return err_set(e, -EINVAL, "the URL has a fragment (#...)");
    }
    return 0;
}

static int check_characters(struct slice text, struct err *e)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c == 0x7f) {
            return err_set(e, -EINVAL,
                           "character %zu of the URL is not allowed there (byte 0x%02x)", i + 1, c);
        }
    }
    return 0;
}

static int read_url(struct slice text, struct destination *out, struct err *e)
{
    if (check_characters(text, e) != 0) {
        return -EINVAL;
    }
    out->https = cut_scheme(&text, SLICE("https://"));
    if (!out->https && !cut_scheme(&text, SLICE("http://"))) {
        return err_set(e, -EINVAL, "the URL must begin with http:// or https://");
    }
    size_t at = 0;
    while (at < text.len && strchr("/?#", text.ptr[at]) == NULL) {
        at++;
    }
    out->port = out->https ? 443 : 80;
    if (read_authority(slice_of(text.ptr, at), out, e) != 0) {
        return -EINVAL;
    }
    struct slice rest = from(text, at);
    const char *mark = find(rest, '?');
    size_t path_len = mark == NULL ? rest.len : (size_t)(mark - rest.ptr);
    out->path = slice_of(rest.ptr, path_len);
    out->query = mark == NULL ? SLICE("") : from(rest, path_len + 1);
    if (check_rest(out->path, out->query, e) != 0) {
        return -EINVAL;
    }
    out->origin = path_len > 0 ? rest : SLICE("");
    out->path = path_len > 0 ? out->path : SLICE("/");
    return 0;
}

/* ---- requests ---- */

static size_t count_headers(const struct http_head *head, struct slice name)
{
    size_t count = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        count += slice_ieq(head->headers[i].name, name) ? 1 : 0;
    }
    return count;
}

static int read_tunnel(const struct http_head *head, struct destination *out, struct err *e)
{
    out->way = DESTINATION_TUNNEL;
    out->path = out->query = out->origin = SLICE("");
    int rc = read_authority(head->target, out, e);
    if (rc == 0 && out->port == 0) {
        return err_set(e, -EINVAL, "CONNECT needs host and port");
    }
    return rc;
}

/* "/..." or "*". */
static bool is_origin_form(struct slice target)
{
    return target.len > 0 && (target.ptr[0] == '/' || slice_eq(target, SLICE("*")));
}

int destination_read(const struct http_head *head, struct destination *out, struct err *e)
{
    const struct http_header *endpoint = http_head_find(head, SLICE(DESTINATION_HEADER));
    bool origin_form = !head->connect && is_origin_form(head->target);
    *out = (struct destination){.way = DESTINATION_ABSOLUTE};
    if (count_headers(head, SLICE(DESTINATION_HEADER)) > 1) {
        return err_set(e, -EINVAL, "there are several headers " DESTINATION_HEADER);
    }
    if (endpoint != NULL && !origin_form) {
        return err_set(e, -EINVAL,
                       "the request line and the header " DESTINATION_HEADER " both name a host");
    }
    if (head->connect) {
        return read_tunnel(head, out, e);
    }
    if (endpoint != NULL) {
        struct err why = ERR_INIT;
        out->way = DESTINATION_HEADER_WAY;
        return read_url(endpoint->value, out, &why) == 0
                   ? 0
                   : err_set(e, -EINVAL, DESTINATION_HEADER ": %s", why.msg);
    }
    if (origin_form) {
        return err_set(e, -ENOENT, "the request is for no other host: this is a proxy");
    }
    return read_url(head->target, out, e);
}

void destination_describe(const struct destination *t, const struct http_head *head,
                          struct traffic_external *out)
{
    bool tunnel = t->way == DESTINATION_TUNNEL;
    *out = (struct traffic_external){
        .tunnel = tunnel,
        .https = t->https,
        .host = slice_str(t->host),
        .port = t->port,
        .path = t->path,
        .query = t->query,
        .method = tunnel ? SLICE("CONNECT") : head->method,
        .headers = tunnel ? NULL : head->headers,
        .header_count = tunnel ? 0 : head->header_count,
    };
}

void destination_host_port(const struct destination *t, bool brief,
                           char out[DESTINATION_HOST_PORT_SIZE])
{
    bool v6 = strchr(t->host, ':') != NULL;
    bool own = t->way != DESTINATION_TUNNEL && t->port == (t->https ? 443 : 80);
    int n =
        snprintf(out, DESTINATION_HOST_PORT_SIZE, "%s%s%s", v6 ? "[" : "", t->host, v6 ? "]" : "");
    if (!brief || !own) {
        (void)snprintf(out + n, DESTINATION_HOST_PORT_SIZE - (size_t)n, ":%u", t->port);
    }
}
