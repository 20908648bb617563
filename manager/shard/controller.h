/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controller.h - makes of each ShardingConfig rules that are enforced: compiles it, publishes the
 * rules in a ConfigMap, tells the pods, asks their proxies, and writes status and Events.
 *
 * Only the leader has one: it begins with controller_new and ends with controller_free, whenever
 * leadership comes and goes. What it knows is at the API server, so the next leader goes on from
 * there; a generation never goes back.
 *
 *     on_started: controller = controller_new(loop, &options);
 *     on_stopped: controller_free(controller); controller = NULL;
 */
#ifndef MANAGER_SHARD_CONTROLLER_H
#define MANAGER_SHARD_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/prometheus.h"
#include "cache/excluded_namespaces.h"
#include "cache/namespaces.h"
#include "cache/shard_cache.h"
#include "compile/compile.h"
#include "enforcement/prober.h"
#include "kube/client/client.h"
#include "kube/client/event_recorder.h"
#include "label/label_progress.h"
#include "net/clock.h"
#include "net/loop.h"
#include "net/work_queue.h"
#include "ownership/handover.h"
#include "policy/policy_cache.h"
#include "route/route_report.h"
#include "runtime/reconciler.h"

struct controller;

#define CONTROLLER_WHY_SIZE 256
#define CONTROLLER_QUEUES_MAX 3

/* What was written. */
enum controller_write {
    CONTROLLER_CONFIGMAP,
    CONTROLLER_NUDGE, /* the annotation of a pod */
    CONTROLLER_STATUS,
    CONTROLLER_CLEANUP, /* the ConfigMap of a config that is gone */
    CONTROLLER_TRAFFIC, /* the traffic document alone */
    CONTROLLER_POLICY_STATUS,
    CONTROLLER_WRITES,
};

/* Counts go on from one controller to the next: they belong to whoever makes controllers. All zero
 * at first. */
struct controller_counts {
    uint64_t compiled;
    uint64_t refused; /* specs that are invalid */
    uint64_t writes[CONTROLLER_WRITES][RECONCILE_RESULTS];
    uint64_t waits;   /* times that rules waited for another shard's pods to confirm theirs */
    uint64_t late;    /* times that these did not in time, and it was published all the same; */
    uint64_t blocked; /* and times that it waits on */
    struct prometheus_histogram published; /* from the change of a config to its rules in place, */
    struct prometheus_histogram enforced;  /* and in force on every pod */
};

struct controller_options {
    struct kube_client *client; /* these four must outlive the controller */
    struct shard_cache *cache;
    struct event_recorder *events;
    struct controller_counts *counts;
    struct compile_labels labels; /* texts are kept, not copied */
    const char *prefix;           /* of labels and annotations, as the cache's; kept, not copied */
    /* Whether this process leads at this very moment: asked right before each write. */
    bool (*may_write)(void *data);
    void *data;
    /* Whether what a shard gains waits until others of the same operator have given it up; and how
     * long at most, or until an Event tells of it. */
    enum handover_mode handover;
    uint64_t handover_ms;
    uint64_t takeover_margin_ms; /* as takeover.h has it; 0: TAKEOVER_MARGIN_MS */
    const struct label_progress_source
        *labelled;        /* must outlive the controller; NULL: nobody labels */
    bool wait_for_labels; /* the first rules of a shard, for what they select by control labels */
    /* A pod that is ready for so long without a client of its proxy is bypassed; 0: it is not. */
    uint64_t bypass_wait_ms;
    struct namespaces *namespaces; /* the cache's; must outlive it; NULL: not known */
    bool coverage;      /* which of them are in no shard or in two is told: needs namespaces */
    size_t cover_steps; /* as coverage_scan.h has it; 0: COVERAGE_SCAN_STEPS */
    const struct excluded_namespaces
        *left_out;                   /* by the webhook for pods; NULL: not known; must outlive it */
    struct prober_options probes;    /* on_change and data are not used */
    const char *watch_namespace;     /* the cache's; NULL: all; copied */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    unsigned parallel;               /* shards that are handled at a time; 0: 8 */
    /* What controller_in_force says of a shard may be other than before. NULL: nobody asks. */
    void (*on_in_force)(void *data, const char *key);
    /* Whether the shard may publish these rules now: not while reviews of what they do not show
     * any more would still be sent to it. What is refused is asked for again soon, and published
     * all the same after 10 s. NULL: it may. */
    bool (*release)(void *data, const char *key, struct rules *to);
    /* What its condition WebhookRouted is to say, valid until the next call. NULL: there is no
     * such condition. */
    const struct route_report *(*routed)(void *data, const char *key);
    uint64_t orphan_ms; /* how long a config and its pods are gone before its ConfigMap is deleted;
                           0: 1,000 */
    bool policies;      /* CircuitBreakers and FaultInjections are followed: controller_serve */
    size_t policy_memory;          /* bytes that they may take; 0: any */
    const struct net_clock *clock; /* kept, not copied; NULL: the system's */
};

/* Begins with all that the cache knows. */
MUST_CHECK struct controller *controller_new(struct net_loop *l,
                                             const struct controller_options *o);

/* What options.labelled or left_out tell is other than before: shards look again, soon. */
void controller_look_again(struct controller *c);
/* What options.routed says of a shard, likewise. */
void controller_look_at(struct controller *c, const char *key);

/* Whether the API server has that kind of traffic policies. The first ConfigMap of a shard waits
 * for that, for some seconds. */
void controller_serve(struct controller *c, enum traffic_kind kind, enum policy_served served);

/* What a pod is to a shard that selects it. */
struct controller_pod {
    bool enforces;     /* the rules of that shard, as they are published, and its operator
                          does not go around its proxy */
    bool open_breaker; /* it says that a breaker is open there */
    char why[CONTROLLER_WHY_SIZE]; /* it does not enforce them, for people; "" */
};
void controller_look_pod(const struct controller *c, const struct shard_cache_config *config,
                         const struct pod *p, struct controller_pod *out);

/* Whether the shard has a ready pod, and all that are ready enforce the rules in its ConfigMap.
 * *published: these, which are the shard's; NULL: there are none, or they are not known. */
bool controller_in_force(const struct controller *c, const struct shard_cache_config *config,
                         struct rules **published);

/* What the localproxy of a pod, "namespace/name", counts; NULL: it does not, does not answer, or is
 * not known. Valid until the loop runs on. */
const struct control_load *controller_load(const struct controller *c, const char *pod);

/* Adds what there is to say of traffic policies. `c` NULL: nothing. */
void controller_status(const struct controller *c, cJSON *root);

/* Appends metrics, cmesh_manager_... without those of its queues. `c` NULL: this process does not
 * lead. Errors stay in `out`. */
void controller_metrics(const struct controller *c, const struct controller_counts *n,
                        struct buf *out);
/* Its queues; how many they are. */
size_t controller_queues(const struct controller *c,
                         const struct work_queue *out[CONTROLLER_QUEUES_MAX]);

/* At once: requests are broken off; what was sent may be done all the same. NULL is ignored. */
void controller_free(struct controller *c);

#endif
