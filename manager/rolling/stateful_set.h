/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stateful_set.h - what is kept of a StatefulSet that is rolled by shard.
 */
#ifndef MANAGER_ROLLING_STATEFUL_SET_H
#define MANAGER_ROLLING_STATEFUL_SET_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"

#define STATEFUL_SET_API_VERSION "apps/v1"
#define STATEFUL_SET_KIND "StatefulSet"

/* Names below the prefix of labels and annotations. */
#define ROLLING_LABEL "rolling"          /* "all", or the name of a shard */
#define ROLLING_ALL "all"                /* its value */
#define ROLLING_SHARD "rolling-shard"    /* annotation: the shard, where a label cannot name it */
#define ROLLING_STATUS "roll-status"     /* how far it has come (roll_status.h) */
#define ROLLING_EXPECTED "roll-expected" /* the revision that is rolled out */
#define ROLLING_PROGRESS "roll-progress" /* label: state and numbers, for kubectl get -L */
#define ROLLING_DEADLINE "rolling-deadline-seconds" /* for a new pod to become well */

/* Label of pods: the revision of the StatefulSet's template that they are made of. */
#define STATEFUL_SET_REVISION "controller-revision-hash"

/* Seconds. */
#define ROLLING_DEADLINE_DEFAULT 600
#define ROLLING_DEADLINE_MIN 10
#define ROLLING_DEADLINE_MAX 86400

struct stateful_set {
    cJSON *tree;     /* that the texts belong to */
    const char *key; /* "namespace/name" */
    const char *ns;
    const char *name;
    const char *uid;
    const char *version;  /* resourceVersion */
    const char *revision; /* status.updateRevision; "": not known yet */
    const char *strategy; /* spec.updateStrategy.type */
    const char *label;    /* the values of what is named above */
    const char *scope;    /* of the annotation, or the label: the only shard; "": all */
    const char *status;   /* "" */
    const char *expected; /* "" */
    const cJSON *labels;  /* of the pods, as the template has them; NULL: none */
    uint64_t replicas;
    uint64_t first; /* the lowest ordinal */
    int64_t min_ready_s;
    uint64_t deadline_ms;
    bool ordered; /* it makes a pod only while all before it are Ready */
    bool current; /* its status is about the spec as it is */
    bool ending;  /* it is being deleted */
};

/* ROLLING_DEADLINE as a text, in ms; what makes no sense is the default. */
uint64_t rolling_deadline_ms(const char *text);

/* `prefix`: of labels and annotations. What is missing or makes no sense counts as the default. */
MUST_CHECK struct stateful_set *stateful_set_new(const cJSON *object, const char *prefix);
/* NULL is ignored. */
void stateful_set_free(struct stateful_set *s);

#endif
