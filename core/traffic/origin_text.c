/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/origin_text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "net/address.h"

#define NAME_MAX_LEN 253 /* RFC 1035 section 2.3.4, as text */
#define PORT_MAX 65535

static const char bad_host[] =
    "must be a host, or host:port: letters, digits, '-', '_' and '.', or an IP address";

static struct slice from(struct slice text, size_t at)
{
    return slice_of(text.ptr + at, text.len - at);
}

/* Bytes before the first of `stops`; all of them without one. */
static size_t span(struct slice text, const char *stops)
{
    size_t n = 0;
    while (n < text.len && (text.ptr[n] == '\0' || strchr(stops, text.ptr[n]) == NULL)) {
        n++;
    }
    return n;
}

static bool begins_with(struct slice text, struct slice start)
{
    return text.len >= start.len && slice_ieq(slice_of(text.ptr, start.len), start);
}

/* ---- hosts ---- */

static const char *read_port(struct slice text, unsigned *port)
{
    *port = 0;
    for (size_t i = 0; i < text.len; i++) {
        *port = ascii_is_digit(text.ptr[i]) ? *port * 10 + (unsigned)(text.ptr[i] - '0') : 0;
        if (*port == 0 || *port > PORT_MAX) {
            break;
        }
    }
    return *port == 0 || *port > PORT_MAX ? "the port must be a number from 1 to 65535" : NULL;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '-' || c == '_';
}

static const char *read_name(struct slice text, struct origin_host *out)
{
    struct slice name = text;
    if (name.len > 0 && name.ptr[name.len - 1] == '.') {
        name.len--;
    }
    if (name.len == 0 || name.len > NAME_MAX_LEN) {
        return bad_host;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = lower(name.ptr[i]);
        bool between = i > 0 && i + 1 < name.len && name.ptr[i - 1] != '.';
        if (!is_name_byte(c) && !(c == '.' && between)) {
            return bad_host;
        }
        out->host[i] = c;
    }
    out->host[name.len] = '\0';
    return NULL;
}

/* One that carries an IPv4 address is that, as it is in requests. */
static const char *read_ipv6(struct slice text, struct origin_host *out)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.ptr, '\0', text.len) != NULL) {
        return bad_host;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (inet_pton(AF_INET6, copy, &address) != 1) {
        return bad_host;
    }
    const uint8_t *ipv4 = net_address_carried(address.s6_addr);
    (void)inet_ntop(ipv4 != NULL ? AF_INET : AF_INET6, ipv4 != NULL ? ipv4 : address.s6_addr,
                    out->host, sizeof out->host);
    return NULL;
}

/* With an IPv6 address. */
static bool has_brackets(struct slice text)
{
    return text.len > 0 && text.ptr[0] == '[';
}

static bool has_two_colons(struct slice text)
{
    size_t colon = span(text, ":");
    return colon < text.len && memchr(text.ptr + colon + 1, ':', text.len - colon - 1) != NULL;
}

const char *origin_host_read(struct slice text, struct origin_host *out)
{
    size_t colon = span(text, ":");
    bool brackets = has_brackets(text);
    out->port = 0;
    if (span(text, "/") < text.len) {
        return bad_host; /* a URL's scheme is no host with a bad port */
    }
    if (!brackets && has_two_colons(text)) {
        return read_ipv6(text, out);
    }
    size_t end = brackets ? span(text, "]") : colon;
    if (brackets && end == text.len) {
        return bad_host;
    }
    const char *why = brackets ? read_ipv6(slice_of(text.ptr + 1, end - 1), out)
                               : read_name(slice_of(text.ptr, end), out);
    struct slice rest = from(text, brackets ? end + 1 : end);
    if (why != NULL || rest.len == 0) {
        return why;
    }
    return rest.ptr[0] == ':' ? read_port(from(rest, 1), &out->port) : bad_host;
}

/* ---- URLs ---- */

static bool has_bad_byte(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c == 0x7f || c == '#' || c == '\\') {
            return true;
        }
    }
    return false;
}

static const char *read_authority(struct slice text, struct origin_url *out)
{
    out->below_host = begins_with(text, SLICE("*."));
    struct slice host = out->below_host ? from(text, 2) : text;
    const char *why = origin_host_read(host, &out->at);
    if (why == NULL && out->at.port == 0) {
        out->at.port = out->https ? 443 : 80;
    }
    if (why == NULL && out->below_host && (has_brackets(host) || has_two_colons(host))) {
        return bad_host;
    }
    return why;
}

static const char *read_path(struct slice text, struct origin_url *out)
{
    size_t end = span(text, "?");
    struct slice path = slice_of(text.ptr, end);
    out->has_query = end < text.len;
    out->query = out->has_query ? from(text, end + 1) : slice_of("", 0);
    out->below_path = text.len == 0;
    if (path.len >= 2 && path.ptr[path.len - 1] == '*' && path.ptr[path.len - 2] == '/') {
        out->below_path = true;
        path.len--;
    }
    if (out->below_path && out->has_query) {
        return "a path that ends with /* has no query";
    }
    plain_path_read(&out->path, path);
    return out->path.whole ? NULL : "the path is too long";
}

const char *origin_url_read(struct slice text, struct origin_url *out)
{
    struct slice http = SLICE("http://");
    struct slice https = SLICE("https://");
    out->https = begins_with(text, https);
    if (!out->https && !begins_with(text, http)) {
        return "must begin with http:// or https://";
    }
    if (has_bad_byte(text)) {
        return "must not have white space, control characters, '#' or '\\'";
    }
    struct slice rest = from(text, out->https ? https.len : http.len);
    size_t end = span(rest, "/?");
    const char *why = read_authority(slice_of(rest.ptr, end), out);
    return why != NULL ? why : read_path(from(rest, end), out);
}

/* ---- methods ---- */

/* Of RFC 9110 section 5.6.2 what methods are made of. */
const char *origin_method_check(struct slice text)
{
    bool good = text.len > 0 && text.len <= ORIGIN_METHOD_MAX;
    for (size_t i = 0; good && i < text.len; i++) {
        char c = text.ptr[i];
        good = (c >= 'A' && c <= 'Z') || ascii_is_digit(c) || c == '-' || c == '_';
    }
    return good || slice_eq(text, SLICE("*"))
               ? NULL
               : "must be an HTTP method in upper case, as \"GET\", or \"*\"";
}
