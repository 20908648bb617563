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

/* Towards the API server. */
enum upstream_protocol {
    UPSTREAM_AUTO,  /* HTTP/2 where the server takes it, over TLS; otherwise HTTP/1.1 */
    UPSTREAM_HTTP1, /* HTTP/1.1 */
};

extern const char *const kube_flags_protocols[];

/* A member of the program's flags, which begins as KUBE_FLAGS_DEFAULTS. NULL: not given. */
struct kube_flags {
    const char *kubeconfig;
    const char *context;
    bool in_cluster;
    int protocol; /* enum upstream_protocol */
};

#define KUBE_FLAGS_DEFAULTS                                                                        \
    {                                                                                              \
        .protocol = UPSTREAM_AUTO                                                                  \
    }

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
        {.name = "in-cluster",                                                                     \
         FLAG_BOOL_AT(owner, kube.in_cluster),                                                     \
         .needs = (needs_),                                                                        \
         .help = "Use the pod's service account, whatever kubeconfig there is. Its token is read " \
                 "again when the file changes."},                                                  \
    {                                                                                              \
        .name = "upstream-protocol", .value = "PROTOCOL", .choices = kube_flags_protocols,         \
        FLAG_CHOICE_AT(owner, kube.protocol), .needs = (needs_),                                   \
        .help = "How the API server is spoken to: auto offers it HTTP/2, by which many requests "  \
                "share a connection, and goes back to HTTP/1.1 where it, or a load balancer on "   \
                "the way, does not take it; http1 offers HTTP/1.1 alone, with a connection for "   \
                "each watch. exec, attach and port-forward have HTTP/1.1 connections of their "    \
                "own in both."                                                                     \
    }

/* Of their combination: 0, or -EINVAL with the message. */
MUST_CHECK int kube_flags_check(const struct kube_flags *f, struct err *e);

/* kube_access_open with them; the message names the flag. */
MUST_CHECK int kube_flags_open(const struct kube_flags *f, struct kube_access *out, struct err *e);

#endif
