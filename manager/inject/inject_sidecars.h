/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_sidecars.h - the containers and volumes that a pod gets.
 */
#ifndef MANAGER_INJECT_INJECT_SIDECARS_H
#define MANAGER_INJECT_INJECT_SIDECARS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "inject/inject.h"
#include "inject/inject_access.h"
#include "inject/inject_options.h"
#include "inject/inject_paths.h"
#include "json/edit.h"

/* The kubeconfig that leads to localproxy, in the operator's containers. */
#define INJECT_KUBECONFIG_DIR INJECT_ETC_DIR "/kubeconfig"
#define INJECT_KUBECONFIG INJECT_KUBECONFIG_DIR "/config"
#define INJECT_KUBECONFIG_VOLUME "cmesh-kubeconfig"

struct inject_plan {
    const struct inject_settings *settings;
    const struct inject_options *options;
    struct inject_access access;
    const char *ns;
    const char *shard;
    cJSON *proxy_env;  /* more variables for localproxy */
    cJSON *egress_env; /* those of its egress; NULL: there is none */
    bool watch_bypass; /* whoever goes around localproxy is an operator */
};

/* Adds everything to a pod's spec. */
void inject_sidecars_add(struct edit *ed, const struct inject_plan *plan, cJSON *spec);

/* Mounts a volume into a container. */
void inject_sidecars_mount(struct edit *ed, cJSON *container, const char *volume, const char *path,
                           bool read_only);

/* The first name of a part that the spec has already; NULL: none. */
const char *inject_sidecars_taken(const cJSON *spec);
/* The first part that an injected spec lacks, one with nat or without; NULL: none. */
const char *inject_sidecars_missing(const cJSON *spec, bool nat);

#endif
