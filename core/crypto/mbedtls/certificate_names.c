/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/mbedtls/certificate_names.h"

/* GeneralName choices, RFC 5280 section 4.2.1.6; both versions of the library list the entries of
 * the extension with their tags, whatever the type. */
enum { SAN_DNS = 2, SAN_IP = 7 };

static struct tls_san san_of(const mbedtls_x509_buf *entry)
{
    struct tls_san san = {.value = slice_of((const char *)entry->p, entry->len)};
    switch (entry->tag & MBEDTLS_ASN1_TAG_VALUE_MASK) {
    case SAN_DNS:
        san.type = TLS_SAN_DNS;
        break;
    case SAN_IP:
        san.type = TLS_SAN_IP;
        break;
    default:
        san.type = TLS_SAN_OTHER;
        break;
    }
    return san;
}

bool certificate_names_peer(const mbedtls_x509_crt *crt, const struct tls_peer_name *n)
{
    for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s != NULL; s = s->next) {
        struct tls_san san = san_of(&s->buf);
        if (s->buf.p != NULL && tls_san_matches(&san, n)) {
            return true;
        }
    }
    return false;
}

void certificate_names_list(const mbedtls_x509_crt *crt, char *out, size_t size)
{
    out[0] = '\0';
    for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s != NULL; s = s->next) {
        struct tls_san san = san_of(&s->buf);
        if (s->buf.p != NULL && !tls_san_list(&san, out, size)) {
            return;
        }
    }
}
