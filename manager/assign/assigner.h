/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assigner.h - gives each new pod of a Deployment with automatic shards one of them: what the
 * webhook for pods asks, with what it knows and remembers.
 *
 *     pod --> its ReplicaSet --> Deployment --> root --> children --> their pods --> a place
 *
 * For the loop alone. Nothing is asked of the API server.
 */
#ifndef MANAGER_ASSIGN_ASSIGNER_H
#define MANAGER_ASSIGN_ASSIGNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "compile/shards.h"
#include "net/clock.h"
#include "object/admission_review.h"
#include "object/pod_place.h"
#include "object/warnings.h"

/* For so long pods for which there is no place are refused, so that ReplicaSets try again: by then
 * a shard more was made, or the end of a pod was seen. After that they are put where there is none.
 */
#define ASSIGNER_PATIENCE_MS 10000

/* So long after a shard came, or is to have another number of pods, all pods are refused: with the
 * root's other shards it is the same soon, and where there is one place two webhooks take it. */
#define ASSIGNER_SETTLE_MS 500

struct assigner;

/* A pod that a shard selects. */
struct assigner_pod {
    const char *owner; /* uid of its controller */
    struct pod_place place;
    bool lives; /* it is not terminating, Succeeded or Failed */
};

typedef void (*assigner_pod_cb)(void *arg, const struct assigner_pod *pod);

/* What there is in the pod's namespace. */
struct assigner_view {
    const struct shards_list *shards;
    /* Gives each pod of the shard at that position of the list. */
    void (*pods_of)(void *data, size_t shard, assigner_pod_cb cb, void *arg);
    void *data;
    const char *prefix; /* of labels */
    bool from_back;     /* of the places: another webhook takes them from the front */
};

struct assigner_choice {
    const cJSON *config; /* of the shard; NULL: it is no pod of such a Deployment */
    unsigned number;     /* of the shard */
    struct pod_place place;
};

/* `clock`: that of shards_item.sized_ms; NULL: the system's. */
struct assigner *assigner_new(const struct net_clock *clock);
/* NULL is ignored. */
void assigner_free(struct assigner *a);

/* Of a pod that is created and gets sidecars. A label that the pod has already is replaced, with a
 * warning; not that of a pod that is injected, for a webhook has chosen it. assigner_keep remembers
 * the choice. 0, or -ENOENT with the reason: the pod is refused, and its ReplicaSet tries again. */
MUST_CHECK int assigner_choose(struct assigner *a, const struct admission_request *r,
                               const struct assigner_view *view, struct assigner_choice *out,
                               struct warnings *warnings, struct err *e);
/* The pod is going to be created in that place: it is remembered until assigner_see, or for
 * ASSIGNMENTS_MS. */
void assigner_keep(struct assigner *a, const struct admission_request *r,
                   const struct assigner_choice *choice);

/* There is such a pod, which counts where it is from now on; it may be gone again. */
void assigner_see(struct assigner *a, const struct pod_place *place);

/* Appends metrics; errors stay in `out`. */
void assigner_metrics(const struct assigner *a, struct buf *out);

#endif
