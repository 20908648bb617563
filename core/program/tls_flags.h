/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_flags.h - the flag of programs with much TLS: who makes its records.
 */
#ifndef CORE_PROGRAM_TLS_FLAGS_H
#define CORE_PROGRAM_TLS_FLAGS_H

#include "base/flags.h"

/* By enum tls_records_by (crypto/tls.h), which the member has as an int; its default is 0. */
extern const char *const tls_records_choices[];

/* For the table. Once parsed, the member goes to tls_use_records. */
#define FLAGS_TLS(owner, member)                                                                   \
    {                                                                                              \
        .name = "tls-records", .value = "LIBRARY", .choices = tls_records_choices,                 \
        FLAG_CHOICE_AT(owner, member),                                                             \
        .help = "Which library encrypts once a TLS connection is established: libgcrypt is "       \
                "several times as fast and takes less memory; mbedtls, which shakes hands in any " \
                "case, does it where the other cannot."                                            \
    }

#endif
