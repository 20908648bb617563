/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_alert.h - the alerts of TLS (RFC 5246 section 7.2 and RFC 8446 section 6), and words for
 * them.
 */
#ifndef CORE_CRYPTO_TLS_ALERT_H
#define CORE_CRYPTO_TLS_ALERT_H

#include <stdbool.h>

#include "base/err.h"

enum tls_alert {
    TLS_ALERT_CLOSE_NOTIFY = 0,
    TLS_ALERT_UNEXPECTED_MESSAGE = 10,
    TLS_ALERT_BAD_RECORD_MAC = 20,
    TLS_ALERT_RECORD_OVERFLOW = 22,
    TLS_ALERT_HANDSHAKE_FAILURE = 40,
    TLS_ALERT_BAD_CERTIFICATE = 42,
    TLS_ALERT_UNSUPPORTED_CERTIFICATE = 43,
    TLS_ALERT_CERTIFICATE_REVOKED = 44,
    TLS_ALERT_CERTIFICATE_EXPIRED = 45,
    TLS_ALERT_CERTIFICATE_UNKNOWN = 46,
    TLS_ALERT_ILLEGAL_PARAMETER = 47,
    TLS_ALERT_UNKNOWN_CA = 48,
    TLS_ALERT_ACCESS_DENIED = 49,
    TLS_ALERT_DECODE_ERROR = 50,
    TLS_ALERT_DECRYPT_ERROR = 51,
    TLS_ALERT_PROTOCOL_VERSION = 70,
    TLS_ALERT_INTERNAL_ERROR = 80,
    TLS_ALERT_USER_CANCELED = 90,
    TLS_ALERT_NO_RENEGOTIATION = 100,
    TLS_ALERT_UNRECOGNIZED_NAME = 112,
    TLS_ALERT_CERTIFICATE_REQUIRED = 116,
    TLS_ALERT_NO_APPLICATION_PROTOCOL = 120,
};

enum { TLS_ALERT_LEVEL_WARNING = 1, TLS_ALERT_LEVEL_FATAL = 2 };

/* Sets `e` to say that the peer ended TLS with an alert, and with which: the server, if we are the
 * client. */
void tls_alert_error(struct err *e, bool client, bool shaking, int description);

#endif
