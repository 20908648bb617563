/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The messages never hold the text itself: it may carry a password. */

static int parse_scheme(const char **p, struct url *out, struct err *e)
{
    if (strncasecmp(*p, "https://", 8) == 0) {
        out->https = true;
        *p += 8;
        return 0;
    }
    if (strncasecmp(*p, "http://", 7) == 0) {
        out->https = false;
        *p += 7;
        return 0;
    }
    return err_set(e, -EINVAL, "the URL must begin with http:// or https://");
}

static int check_characters(const char *text, struct err *e)
{
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c) != NULL) {
            return err_set(
                e, -EINVAL,
                "character %zu of the URL is not allowed there (byte 0x%02x); percent-encode it",
                (size_t)(p - text) + 1, c);
        }
    }
    return 0;
}

/* An IPv6 literal up to its bracket; a zone is written %25zone (RFC 6874). */
static int parse_ipv6(const char **p, const char *end, struct url *out, struct err *e)
{
    const char *bracket = memchr(*p, ']', (size_t)(end - *p));
    if (bracket == NULL) {
        return err_set(e, -EINVAL, "the URL's IPv6 address has no closing bracket");
    }
    size_t len = (size_t)(bracket - *p) - 1;
    if (len > URL_HOST_MAX) {
        return err_set(e, -EINVAL, "the URL's IPv6 address is too long");
    }
    memcpy(out->host, *p + 1, len);
    out->host[len] = '\0';
    char *zone = strchr(out->host, '%');
    if (zone != NULL && strncmp(zone, "%25", 3) == 0 && zone[3] != '\0') {
        memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
    } else if (zone != NULL) {
        return err_set(e, -EINVAL, "the zone of the URL's IPv6 address must be written %%25ZONE");
    }
    struct in6_addr addr;
    char bare[URL_HOST_MAX + 1];
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(out->host, "%"), out->host);
    if (inet_pton(AF_INET6, bare, &addr) != 1) {
        return err_set(e, -EINVAL, "the URL's host in brackets is not an IPv6 address");
    }
    *p = bracket + 1;
    return 0;
}

static int parse_name(const char **p, const char *end, struct url *out, struct err *e)
{
    const char *colon = memchr(*p, ':', (size_t)(end - *p));
    size_t len = (size_t)((colon != NULL ? colon : end) - *p);
    if (len == 0) {
        return err_set(e, -EINVAL, "the URL has no host");
    }
    if (len > URL_HOST_MAX) {
        return err_set(e, -EINVAL, "the URL's host is longer than %d characters", URL_HOST_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)(*p)[i];
        if (!isalnum(c) && c != '-' && c != '.' && c != '_') {
            return err_set(e, -EINVAL, "the URL's host contains \"%c\"", c);
        }
    }
    memcpy(out->host, *p, len);
    out->host[len] = '\0';
    *p += len;
    return 0;
}

/* What follows the host: nothing, or a colon and perhaps digits (RFC 3986 allows none). */
static int parse_port(const char *p, const char *end, struct url *out, struct err *e)
{
    out->port = out->https ? 443 : 80;
    if (p == end) {
        return 0;
    }
    if (*p != ':') {
        return err_set(e, -EINVAL, "the URL has text between its host and its port");
    }
    unsigned port = 0;
    for (p++; p < end; p++) {
        if (!isdigit((unsigned char)*p) || (port = port * 10 + (unsigned)(*p - '0')) > 65535) {
            return err_set(e, -EINVAL, "the URL's port is not a number from 1 to 65535");
        }
    }
    if (port == 0 && end[-1] != ':') {
        return err_set(e, -EINVAL, "the URL's port is not a number from 1 to 65535");
    }
    out->port = port == 0 ? out->port : (uint16_t)port;
    return 0;
}

static int parse_path(const char *p, struct url *out, struct err *e)
{
    size_t len = strcspn(p, "?#");
    if (p[len] != '\0') {
        return err_set(e, -EINVAL, "the URL has a %s; only a path may follow the host",
                       p[len] == '?' ? "query (?...)" : "fragment (#...)");
    }
    while (len > 0 && p[len - 1] == '/') {
        len--;
    }
    if (len > URL_PATH_MAX) {
        return err_set(e, -EINVAL, "the URL's path is longer than %d bytes", URL_PATH_MAX);
    }
    memcpy(out->path, p, len);
    out->path[len] = '\0';
    return 0;
}

int url_parse(const char *text, struct url *out, struct err *e)
{
    const char *p = text;
    if (check_characters(text, e) != 0 || parse_scheme(&p, out, e) != 0) {
        return -EINVAL;
    }
    const char *end = p + strcspn(p, "/?#");
    if (memchr(p, '@', (size_t)(end - p)) != NULL) {
        return err_set(e, -EINVAL,
                       "the URL contains a user or password before an \"@\"; remove it");
    }
    int rc = *p == '[' ? parse_ipv6(&p, end, out, e) : parse_name(&p, end, out, e);
    if (rc != 0 || parse_port(p, end, out, e) != 0) {
        return -EINVAL;
    }
    return parse_path(end, out, e);
}

void url_host_port(const struct url *u, char out[URL_HOST_PORT_SIZE])
{
    bool v6 = strchr(u->host, ':') != NULL;
    /* A zone has a meaning on this machine only (RFC 6874 section 4). */
    int len = (int)strcspn(u->host, "%");
    int n =
        snprintf(out, URL_HOST_PORT_SIZE, "%s%.*s%s", v6 ? "[" : "", len, u->host, v6 ? "]" : "");
    if (u->port != (u->https ? 443 : 80)) {
        (void)snprintf(out + n, URL_HOST_PORT_SIZE - (size_t)n, ":%u", (unsigned)u->port);
    }
}
