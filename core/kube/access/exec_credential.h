/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_credential.h - what is said between us and a credential plugin.
 *
 * https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
 */
#ifndef CORE_KUBE_ACCESS_EXEC_CREDENTIAL_H
#define CORE_KUBE_ACCESS_EXEC_CREDENTIAL_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/access/access.h"

/* What a plugin gave: a token, or certificate and key, or all three. */
struct exec_credential {
    char *token; /* NULL: none; fit for a header */
    char *cert;  /* PEM; NULL: none */
    char *key;
    int64_t expires_at; /* seconds since 1970; 0: never */
};

/* `output` is what the plugin printed, `now` the time in seconds since 1970. The error says what is
 * wrong without repeating it. */
MUST_CHECK int exec_credential_parse(struct slice output, const char *api_version, int64_t now,
                                     struct exec_credential *out, struct err *e);
void exec_credential_deinit(struct exec_credential *c);

/* The plugin's environment: our own, then what the kubeconfig sets, and KUBERNETES_EXEC_INFO, which
 * describes the cluster if the kubeconfig wants that. NULL-terminated; NULL without memory. */
MUST_CHECK char **exec_credential_env(const struct kube_access *a);
/* The command and its arguments; the strings belong to the access, only the array is freed. */
MUST_CHECK char **exec_credential_argv(const struct kube_access *a);
void exec_credential_env_free(char **env);

#endif
