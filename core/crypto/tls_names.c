/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/tls_names.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* GeneralName choices, RFC 5280 section 4.2.1.6; both versions of the library list the entries of
 * the extension with their tags, whatever the type. */
#define SAN_DNS 2
#define SAN_IP 7

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

static bool entry_matches(const mbedtls_x509_buf *san, const struct tls_peer_name *n)
{
    switch (san->tag & MBEDTLS_ASN1_TAG_VALUE_MASK) {
    case SAN_DNS:
        return n->dns != NULL &&
               tls_name_matches((const char *)san->p, san->len, n->dns, n->dns_len);
    case SAN_IP:
        return n->ip_len != 0 && san->len == n->ip_len && memcmp(san->p, n->ip, san->len) == 0;
    default:
        return false;
    }
}

bool tls_cert_names(const mbedtls_x509_crt *crt, const struct tls_peer_name *n)
{
    for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s != NULL; s = s->next) {
        if (s->buf.p != NULL && entry_matches(&s->buf, n)) {
            return true;
        }
    }
    return false;
}

static bool in_host_name(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '*';
}

/* A NUL inside must not hide what follows it, nor a comma make one name look like two. */
static void printable(const mbedtls_x509_buf *san, char *out, size_t size)
{
    size_t n = san->len < size ? san->len : size - 1;
    for (size_t i = 0; i < n; i++) {
        out[i] = in_host_name(san->p[i]) ? (char)san->p[i] : '?';
    }
    out[n] = '\0';
}

/* Writes one name as text; false when it is of a type that names no host. */
static bool entry_text(const mbedtls_x509_buf *san, char *out, size_t size)
{
    switch (san->tag & MBEDTLS_ASN1_TAG_VALUE_MASK) {
    case SAN_DNS:
        printable(san, out, size);
        return true;
    case SAN_IP:
        return (san->len == 4 && inet_ntop(AF_INET, san->p, out, (socklen_t)size) != NULL) ||
               (san->len == 16 && inet_ntop(AF_INET6, san->p, out, (socklen_t)size) != NULL);
    default:
        return false;
    }
}

void tls_cert_list_names(const mbedtls_x509_crt *crt, char *out, size_t size)
{
    static const char more[] = ", ...";
    size_t used = 0;
    out[0] = '\0';
    for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s != NULL; s = s->next) {
        char name[256];
        if (s->buf.p == NULL || !entry_text(&s->buf, name, sizeof(name))) {
            continue;
        }
        size_t len = strlen(name) + (used > 0 ? 2 : 0);
        if (used + len + sizeof(more) > size) {
            snprintf(out + used, size - used, "%s", used > 0 ? more : "...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", name);
    }
}
