/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_certificate.h - the certificate that localproxy shows with --local-tls.
 */
#ifndef LOCALPROXY_LISTEN_LOCAL_CERTIFICATE_H
#define LOCALPROXY_LISTEN_LOCAL_CERTIFICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "crypto/tls.h"
#include "flags.h"

/* A new one, at `now` (seconds since 1970), signed by the authority in the folder of --local-tls;
 * it names localhost, the addresses of --listen and --listen-tls, --accept-host, and the API server
 * as clients in a pod know it (api_server_names.h). `*renew_at`: when another one is due.
 * *made_authority: there was none that could be used. NULL with `e` set. */
MUST_CHECK struct tls_config *local_certificate_new(const struct localproxy_flags *f, int64_t now,
                                                    int64_t *renew_at, bool *made_authority,
                                                    struct err *e);

#endif
