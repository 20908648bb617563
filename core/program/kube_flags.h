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

/* For the table. `when`: a sentence before each, as "Only with --x. ", or "". */
#define FLAGS_KUBE(owner, kube, when)                                                              \
    {.name = "kubeconfig",                                                                         \
     .value = "PATH",                                                                              \
     FLAG_STRING_AT(owner, kube.kubeconfig),                                                       \
     .help = when "Kubeconfig of the API server. Without it: $KUBECONFIG, ~/.kube/config, or the " \
                  "pod's service account."},                                                       \
        {.name = "context",                                                                        \
         .value = "NAME",                                                                          \
         FLAG_STRING_AT(owner, kube.context),                                                      \
         .help = when "Context of the kubeconfig to use instead of its current one."},             \
    {                                                                                              \
        .name = "in-cluster", FLAG_BOOL_AT(owner, kube.in_cluster),                                \
        .help = when "Use the pod's service account, whatever kubeconfig there is. Its token is "  \
                     "read again when the file changes."                                           \
    }

/* What is wrong with their combination; NULL: nothing. */
const char *kube_flags_check(const struct kube_flags *f);

/* kube_access_open with them. */
MUST_CHECK int kube_flags_open(const struct kube_flags *f, struct kube_access *out, struct err *e);

#endif
