/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deployment.h - what is kept of a Deployment that is rolled pod by pod.
 */
#ifndef MANAGER_ROLLING_DEPLOYMENT_H
#define MANAGER_ROLLING_DEPLOYMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/selector.h"
#include "rolling/deployment_roll.h"

/* Label of pods: the template that they are made of. */
#define DEPLOYMENT_REVISION "pod-template-hash"

struct deployment {
    cJSON *tree;     /* that the texts belong to */
    const char *key; /* "namespace/name" */
    const char *ns;
    const char *name;
    const char *uid;
    const char *version;             /* resourceVersion */
    const char *label;               /* ROLLING_LABEL (stateful_set.h) */
    const char *status;              /* ROLLING_STATUS; "" */
    const char *expected;            /* ROLLING_EXPECTED: DEPLOYMENT_REVISION of the new pods; "" */
    struct selector *pods;           /* NULL: spec.selector makes no sense */
    struct deployment_roll_facts is; /* but for `resumed` and pods that are seen */
    uint64_t deadline_ms;
    bool one_by_one; /* its strategy is RollingUpdate, maxSurge 1, maxUnavailable 0 */
    bool ending;     /* it is being deleted */
};

MUST_CHECK struct deployment *deployment_new(const cJSON *object, const char *prefix);
/* NULL is ignored. */
void deployment_free(struct deployment *d);

#endif
