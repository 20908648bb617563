/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - the status of a ShardingConfig: conditions and a row for each pod, from what is known.
 *
 * No clock, no cluster: the same facts and the same old status give the same bytes, so that nothing
 * is written when nothing changed.
 *
 *   Compiled   the spec makes sense
 *   Published  its rules stand in the ConfigMap
 *   Enforced   they do, and every ready proxy has confirmed them
 *   Ready      all of these; its reason is that of the first which is not so, else of Enforced
 *   Stalled    only while somebody has to change something before it can be Ready
 *   Labelled   what the limits select by control labels has them (label/labelling.h)
 *   Covered    each namespace is in one shard of the operator (shard/operator_coverage.h)
 *   Exclusive  nobody else of the operator shows what it shows (shard/exclusive.h)
 *   WebhookRouted  reviews for the operator's webhooks reach the shard that owns the object; only
 *              while somebody asks for that (route/routes.h)
 *
 * Ready asks for none of the last four, but the first rules of a shard wait for its labels.
 *
 * Ready, Stalled and observedGeneration are as kstatus wants them, by which Flux, kpt and Argo CD's
 * health checks tell what is done, under way or failed.
 * https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
 *
 * A pod counts (podCount, the m of "n/m", a row) until it has ended, or does not answer any more
 * while it is being deleted: until then it may still show something. n counts those that enforce
 * what is in the ConfigMap, be it of this spec or an earlier one.
 *
 * The message of Compiled is empty when all is well: kubectl shows it as what is wrong.
 */
#ifndef MANAGER_SHARD_STATUS_H
#define MANAGER_SHARD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "enforcement/prober.h"
#include "label/labelling.h"
#include "route/route_report.h"
#include "shard/exclusive.h"
#include "shard/operator_coverage.h"
#include "shard/publish_plan.h"

/* Rows that are written; of more pods those that are not right come first. */
#define STATUS_ROWS_MAX 200

struct status_pod {
    const char *name;
    bool sidecar;                     /* it has a localproxy */
    bool ready;                       /* its condition Ready */
    bool ending;                      /* it is being deleted */
    bool allow_bypass;                /* it says that its bypassing is on purpose */
    int64_t ready_since;              /* seconds of the epoch; 0: not known */
    bool over;                        /* Succeeded or Failed: counts no more */
    const char *other_shard;          /* another config that selects it too; NULL: none */
    const struct probe_result *probe; /* NULL: it is not asked (no address yet, no sidecar) */
};

struct status_facts {
    const cJSON *config;                /* the ShardingConfig as it is, with its old status */
    const char *prefix;                 /* of labels and annotations */
    const char *compile_error;          /* why the spec is invalid; NULL: it is valid */
    bool namespaces_unknown;            /* compile_error is that its limits select some; or that */
    bool given_up;                      /* there is no memory for its limits */
    bool shows_nothing;                 /* what stands in the ConfigMap, because others had more */
    bool lacks_limits;                  /* of a valid spec: it has no list of limits, */
    bool unlimited;                     /* or an empty one */
    bool by_namespaces;                 /* its limits select namespaces by their labels, */
    size_t namespaces;                  /* so many */
    enum publish_reason publish_reason; /* why its rules do not stand in the ConfigMap, */
    const char *publish_message;        /* for people; NULL: nothing more is known */
    uint64_t generation; /* of the rules in the ConfigMap; 0: there are none. After compile_error
                            those of an earlier spec, which stay in force. */
    const char *checksum;
    const char *configmap;             /* its name */
    const char *configmap_uid;         /* NULL: there is none that is ours */
    const struct labelling *labelling; /* NULL: nothing is said about labels */
    const struct covered *covered;     /* NULL: not known, so what was told before stays */
    const struct exclusive *exclusive; /* NULL: nothing is said about others */
    const struct route_report *routed; /* NULL: nothing is said about reviews */
    const struct status_pod *pods;
    size_t pod_count;
    bool left_out;           /* the webhook for pods does not look at its namespace */
    uint64_t bypass_wait_ms; /* without any client a pod that is ready for so long is bypassed; 0:
                                never */
    int64_t now_ms;          /* of the epoch: for conditions that change */
};

/* Why Enforced holds or not, for metrics and tests. Of several reasons the first of those below. */
enum status_enforced {
    STATUS_ENFORCED,    /* pods that are not ready do not hinder it, if nothing is in force there
                           that they could show, and another pod enforces the rules */
    STATUS_NO_PODS,     /* nobody enforces anything: True, for nobody shows anything */
    STATUS_NO_RULES,    /* this spec's were not published, */
    STATUS_HANDOVER,    /* for others have not given up yet what it adds */
    STATUS_NO_SIDECAR,  /* pods without a proxy see everything */
    STATUS_BYPASSED,    /* pods whose operators go around their proxies */
    STATUS_OVERLAPPING, /* pods that another shard selects too, and that do not enforce ours */
    STATUS_OTHER_RULES, /* pods that enforce another shard's, or newer ones */
    STATUS_REFUSED,     /* proxies or rulesync say why they do not take the rules */
    STATUS_SILENT,      /* proxies that do not answer */
    STATUS_WAITING,     /* proxies that have not confirmed yet */
};

/* What it says, in short. */
struct status_result {
    enum status_enforced enforced;
    bool ready;
    bool changed; /* it says anything else than the old one */
};

/* The new status. The caller frees. */
MUST_CHECK cJSON *status_make(const struct status_facts *f, struct status_result *out);

#endif
