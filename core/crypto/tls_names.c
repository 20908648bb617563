/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/tls_names.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void tls_peer_name_init(struct tls_peer_name *n, const char *text)
{
    char bare[INET6_ADDRSTRLEN];
    size_t len = strlen(text);
    const char *ip = text;
    *n = (struct tls_peer_name){.dns = NULL};
    if (len > 2 && len - 2 < sizeof(bare) && text[0] == '[' && text[len - 1] == ']') {
        memcpy(bare, text + 1, len - 2);
        bare[len - 2] = '\0';
        ip = bare;
    }
    if (inet_pton(AF_INET, ip, n->ip) == 1) {
        n->ip_len = 4;
    } else if (inet_pton(AF_INET6, ip, n->ip) == 1) {
        n->ip_len = 16;
    } else {
        n->dns = text;
        n->dns_len = len > 0 && text[len - 1] == '.' ? len - 1 : len;
    }
}

bool tls_name_matches(const char *pattern, size_t pattern_len, const char *host, size_t host_len)
{
    if (host_len == 0 || memchr(host, '*', host_len) != NULL) {
        return false;
    }
    if (pattern_len > 2 && pattern[0] == '*' && pattern[1] == '.') {
        const char *dot = memchr(host, '.', host_len);
        if (dot == NULL || dot == host) {
            return false;
        }
        host_len -= (size_t)(dot - host);
        host = dot;
        pattern++;
        pattern_len--;
    }
    return pattern_len == host_len && strncasecmp(pattern, host, host_len) == 0;
}

bool tls_san_matches(const struct tls_san *san, const struct tls_peer_name *n)
{
    const struct slice *v = &san->value;
    switch (san->type) {
    case TLS_SAN_DNS:
        return n->dns != NULL && tls_name_matches(v->ptr, v->len, n->dns, n->dns_len);
    case TLS_SAN_IP:
        return n->ip_len != 0 && v->len == n->ip_len && memcmp(v->ptr, n->ip, v->len) == 0;
    default:
        return false;
    }
}

static bool in_host_name(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '*';
}

/* A NUL inside must not hide what follows it, nor a comma make one name look like two. */
static void printable(struct slice name, char *out, size_t size)
{
    size_t n = name.len < size ? name.len : size - 1;
    for (size_t i = 0; i < n; i++) {
        out[i] = in_host_name(name.ptr[i]) ? name.ptr[i] : '?';
    }
    out[n] = '\0';
}

/* Writes one name as text; false when it is of a type that names no host. */
static bool san_text(const struct tls_san *san, char *out, size_t size)
{
    const struct slice *v = &san->value;
    switch (san->type) {
    case TLS_SAN_DNS:
        printable(*v, out, size);
        return true;
    case TLS_SAN_IP:
        return (v->len == 4 && inet_ntop(AF_INET, v->ptr, out, (socklen_t)size) != NULL) ||
               (v->len == 16 && inet_ntop(AF_INET6, v->ptr, out, (socklen_t)size) != NULL);
    default:
        return false;
    }
}

bool tls_san_list(const struct tls_san *san, char *out, size_t size)
{
    static const char more[] = ", ...";
    char name[256];
    if (!san_text(san, name, sizeof(name))) {
        return true;
    }
    size_t used = strlen(out);
    size_t len = strlen(name) + (used > 0 ? 2 : 0);
    if (used + len + sizeof(more) > size) {
        snprintf(out + used, size - used, "%s", used > 0 ? more : "...");
        return false;
    }
    snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", name);
    return true;
}
