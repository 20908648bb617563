/* SPDX-License-Identifier: Apache-2.0 */
#include "program/tls_flags.h"

#include <stddef.h>

#include "crypto/tls.h"

const char *const tls_records_choices[] = {
    [TLS_RECORDS_OWN] = "libgcrypt", [TLS_RECORDS_LIBRARY] = "mbedtls", NULL};
