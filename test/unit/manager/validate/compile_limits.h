/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_limits.h - rules of a ShardingConfig of which only the limits matter.
 */
#ifndef TEST_UNIT_MANAGER_COMPILE_COMPILE_LIMITS_H
#define TEST_UNIT_MANAGER_COMPILE_COMPILE_LIMITS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/compile.h"
#include "yaml/yaml.h"

/* Of limits in YAML, inside of the brackets. The caller unrefs. Ends the test when they are wrong.
 */
static inline struct rules *compile_limits(const char *limits)
{
    static const struct compile_options options = {
        .namespace = "demo",
        .generation = 1,
        .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
    };
    char text[2048];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                   "kind: ShardingConfig\n"
                   "metadata: {name: a, namespace: demo}\n"
                   "spec: {selector: {matchLabels: {a: b}}, limits: [%s]}\n",
                   limits);
    cJSON *config = yaml_parse(text, strlen(text), NULL, &e);
    struct rules *rules = config == NULL ? NULL : compile_config(config, &options, &e);
    cJSON_Delete(config);
    if (rules == NULL) {
        fprintf(stderr, "the test's own limits: %s\n", e.msg);
        abort();
    }
    return rules;
}

#endif
