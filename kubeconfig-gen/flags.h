/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.h - kubeconfig-gen's flags.
 */
#ifndef KUBECONFIG_GEN_FLAGS_H
#define KUBECONFIG_GEN_FLAGS_H

#include <stdbool.h>

#include "base/flags.h"
#include "base/url.h"
#include "program/kube_flags.h"

/* Strings point into argv or the environment; NULL: not given. */
struct kubeconfig_gen_flags {
    struct flags_common common;
    struct kube_flags kube; /* where the real kubeconfig is; context NULL: of one cluster */
    bool all_contexts;
    const char *proxy;    /* never NULL after parsing */
    struct url proxy_url; /* `proxy`, parsed */
    const char *proxy_ca;
    const char *local_tls;  /* as program/local_tls.h reads it; after parsing "off" where
                               clients verify by something else, or by nothing */
    bool may_lack_tls;      /* nobody has asked for TLS: without it the file is for plain HTTP */
    const char *token_file; /* as program/local_token.h reads it */
    const char *output;     /* "-": standard output; NULL: no kubeconfig is written */
    const char *service_account; /* a folder; NULL: none is written */
    const char *namespace;       /* NULL: that of the context, or the pod's */
    bool shared;                 /* others may read it */
    const char *configmap;
};

/* Of a --proxy with plain HTTP, where one with TLS was the default. */
void kubeconfig_gen_flags_go_plain(struct kubeconfig_gen_flags *c);

/* Ends the process on --help, --version and wrong usage. */
void kubeconfig_gen_flags_parse(struct kubeconfig_gen_flags *c, int argc, char **argv);

#endif
