/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - kubeconfig-gen's flags.
 */
#ifndef KUBECONFIG_GEN_CONFIG_H
#define KUBECONFIG_GEN_CONFIG_H

#include <stdbool.h>

#include "base/url.h"

/* Strings point into argv or the environment; NULL: not given. */
struct config {
    const char *kubeconfig;
    bool in_cluster;
    const char *context;
    const char *proxy;
    struct url proxy_url; /* `proxy`, parsed */
    const char *proxy_ca;
    const char *token_file;
    const char *output; /* "-": standard output */
    bool shared;        /* others may read it */
    const char *configmap;
};

/* Ends the process on --help, --version and wrong usage. */
void config_parse(struct config *c, int argc, char **argv);

#endif
