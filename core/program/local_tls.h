/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_tls.h - the authority by which clients of the same user know localproxy over TLS.
 *
 * It is two files of one folder, ca.crt and ca.key, mode 0600, which localproxy and kubeconfig-gen
 * both read and whichever comes first makes. Files that are not the user's alone are refused. What
 * localproxy shows it makes itself; the key of that is never in a file.
 */
#ifndef CORE_PROGRAM_LOCAL_TLS_H
#define CORE_PROGRAM_LOCAL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crypto/certificate.h"

/* Seconds: how long an authority is good for, when it is replaced before its end, and how long what
 * it signs is good for, at most. */
#define LOCAL_TLS_AUTHORITY_S (INT64_C(3650) * 86400)
#define LOCAL_TLS_REPLACE_S (INT64_C(365) * 86400)
#define LOCAL_TLS_SERVING_S (INT64_C(365) * 86400)

/* The names of these files. */
#define LOCAL_TLS_CERT "ca.crt"
#define LOCAL_TLS_KEY "ca.key"

/* As --help shows it. */
#define LOCAL_TLS_DEFAULT "the folder of the token"

/* Whether --local-tls was given, and says anything but "off". */
bool local_tls_is_asked(const char *flag);

/* What --local-tls says: "off" (then *folder is NULL), "auto" for the user's own folder
 * (local_folder.h), a folder, which must be there, or nothing (NULL): the folder in which the token
 * is; none (NULL) without a token. The caller frees. */
MUST_CHECK int local_tls_folder(const char *flag, const char *token_path, char **folder,
                                struct err *e);

/* The authority, at `now` (seconds since 1970); one that is missing, broken or near its end is
 * replaced: kubeconfigs are to be written anew then. *made tells. -EEXIST: the one there is not
 * usable, and was made by somebody else. The caller deinits `out`. */
MUST_CHECK int local_tls_authority(const char *folder, int64_t now, struct certificate_pair *out,
                                   bool *made, struct err *e);

/* A certificate with its key for a server of these names; `*renew_at` is when another one is due.
 */
MUST_CHECK int local_tls_serving(const struct certificate_pair *authority, int64_t now,
                                 const char *const *names, size_t name_count,
                                 struct certificate_pair *out, int64_t *renew_at, struct err *e);

#endif
