/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_bounds.h - how much a pod may say, looked at before anybody works on it: the API server
 * asks webhooks before it looks at its own bounds.
 */
#ifndef MANAGER_INJECT_INJECT_BOUNDS_H
#define MANAGER_INJECT_INJECT_BOUNDS_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"

enum {
    /* Bytes of names and values in all. Source: TotalAnnotationSizeLimitB in
     * k8s.io/apimachinery/pkg/api/validation/objectmeta.go. */
    INJECT_ANNOTATIONS_MAX = 256 * 1024,
    /* Of our own, many times what a node can run. */
    INJECT_LABELS_MAX = 250,
    INJECT_LABEL_BYTES_MAX = 8 * 1024, /* of keys and values: the manager keeps those of all pods */
    INJECT_CONTAINERS_MAX = 500,       /* of all kinds together */
    INJECT_VOLUMES_MAX = 1000,
    INJECT_VARIABLES_MAX = 10000, /* this and the next ones: of all containers together */
    INJECT_MOUNTS_MAX = 10000,
    INJECT_ARGUMENTS_MAX = 10000, /* command and args */
    INJECT_PORTS_MAX = 5000,
};

/* Bytes of the keys and values of labels, or annotations. */
size_t inject_bounds_bytes(const cJSON *map);

/* 0, or -EINVAL with the field. */
MUST_CHECK int inject_bounds_check(const cJSON *pod, struct err *e);

#endif
