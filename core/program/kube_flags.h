/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kube_flags.h - the flags of programs that talk to an API server: how to reach it.
 */
#ifndef CORE_PROGRAM_KUBE_FLAGS_H
#define CORE_PROGRAM_KUBE_FLAGS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/flags.h"
#include "kube/access/access.h"

/* A member of the program's flags. NULL: not given. */
struct kube_flags {
    const char *kubeconfig;
    const char *context;
    bool in_cluster;
};

/* For the table. `needs_`: the flag that each of them needs, or NULL. */
#define FLAGS_KUBE(owner, kube, needs_)                                                            \
    {.name = "kubeconfig",                                                                         \
     .value = "PATH",                                                                              \
     FLAG_STRING_AT(owner, kube.kubeconfig),                                                       \
     .needs = (needs_),                                                                            \
     .help =                                                                                       \
         "Kubeconfig of the API server. Without it: $KUBECONFIG, ~/.kube/config, or the pod's "    \
         "service account."},                                                                      \
        {.name = "context",                                                                        \
         .value = "NAME",                                                                          \
         FLAG_STRING_AT(owner, kube.context),                                                      \
         .needs = (needs_),                                                                        \
         .help = "Context of the kubeconfig to use instead of its current one."},                  \
    {                                                                                              \
        .name = "in-cluster", FLAG_BOOL_AT(owner, kube.in_cluster), .needs = (needs_),             \
        .help = "Use the pod's service account, whatever kubeconfig there is. Its token is read "  \
                "again when the file changes."                                                     \
    }

/* Of their combination: 0, or -EINVAL with the message. */
MUST_CHECK int kube_flags_check(const struct kube_flags *f, struct err *e);

/* kube_access_open with them; the message names the flag. */
MUST_CHECK int kube_flags_open(const struct kube_flags *f, struct kube_access *out, struct err *e);

#endif
