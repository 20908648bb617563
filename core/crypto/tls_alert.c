/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/tls_alert.h"

#include <errno.h>
#include <stddef.h>

#include "crypto/tls.h"

static const char *alert_text(int description)
{
    switch (description) {
    case TLS_ALERT_UNEXPECTED_MESSAGE:
        return "unexpected message";
    case TLS_ALERT_BAD_RECORD_MAC:
        return "bad record MAC";
    case TLS_ALERT_RECORD_OVERFLOW:
        return "record overflow";
    case TLS_ALERT_HANDSHAKE_FAILURE:
        return "handshake failure";
    case TLS_ALERT_BAD_CERTIFICATE:
        return "bad certificate";
    case TLS_ALERT_UNSUPPORTED_CERTIFICATE:
        return "unsupported certificate";
    case TLS_ALERT_CERTIFICATE_REVOKED:
        return "certificate revoked";
    case TLS_ALERT_CERTIFICATE_EXPIRED:
        return "certificate expired";
    case TLS_ALERT_CERTIFICATE_UNKNOWN:
        return "certificate unknown";
    case TLS_ALERT_ILLEGAL_PARAMETER:
        return "illegal parameter";
    case TLS_ALERT_UNKNOWN_CA:
        return "certificate of an unknown authority";
    case TLS_ALERT_ACCESS_DENIED:
        return "access denied";
    case TLS_ALERT_DECODE_ERROR:
        return "decode error";
    case TLS_ALERT_DECRYPT_ERROR:
        return "decrypt error";
    case TLS_ALERT_PROTOCOL_VERSION:
        return tls_has_13() ? "protocol version not supported (TLS 1.2 and 1.3 were offered)"
                            : "protocol version not supported (TLS 1.2 was offered; TLS 1.3 needs "
                              "a build on Debian 13, such as the images)";
    case TLS_ALERT_INTERNAL_ERROR:
        return "internal error";
    case TLS_ALERT_UNRECOGNIZED_NAME:
        return "unrecognized server name";
    case TLS_ALERT_CERTIFICATE_REQUIRED:
        return "a client certificate is required";
    case TLS_ALERT_NO_APPLICATION_PROTOCOL:
        return "no application protocol in common";
    default:
        return NULL;
    }
}

void tls_alert_error(struct err *e, bool client, bool shaking, int description)
{
    const char *text = alert_text(description);
    const char *peer = client ? "server" : "client";
    if (description == TLS_ALERT_HANDSHAKE_FAILURE && shaking) {
        err_set(e, -EPROTO,
                "the %s ended TLS with an alert: handshake failure (no cipher, curve or kind of "
                "certificate in common, or it wants a certificate; an Ed25519 or ML-DSA "
                "certificate cannot be used here: give the %s one with an ECDSA or RSA key)",
                peer, peer);
    } else if (text != NULL) {
        err_set(e, -EPROTO, "the %s ended TLS with an alert: %s", peer, text);
    } else {
        err_set(e, -EPROTO, "the %s ended TLS with alert %d", peer, description);
    }
}
