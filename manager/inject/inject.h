/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject.h - puts the mesh's sidecars into an operator's pod.
 *
 * Glossary: the *operator's containers* are those that are led through localproxy: all that the pod
 * has, or those that the annotation `operator-containers` names. A *native* sidecar is an init
 * container with restartPolicy Always (Kubernetes 1.29): it starts before the operator and ends
 * after it. Without them localproxy and rulesync are the first of the ordinary containers, a
 * postStart hook of rulesync holds the next ones back until localproxy enforces rules, and
 * localproxy, told to end together with the operator, serves it until it has ended.
 *
 * README.md in this folder describes what a pod gets, and the labels and annotations that change
 * it.
 */
#ifndef MANAGER_INJECT_INJECT_H
#define MANAGER_INJECT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/shards.h"
#include "object/admission_review.h"
#include "object/pod_place.h"
#include "object/warnings.h"

/* Quantities as Kubernetes writes them, "50m", "64Mi"; NULL: none. */
struct inject_resources {
    const char *cpu_request;
    const char *memory_request;
    const char *cpu_limit;
    const char *memory_limit;
};

/* What the pod of a Deployment gets, whose shard was chosen for it: a label, and annotations. */
struct inject_assignment {
    struct pod_place place;
    int32_t deletion_cost; /* unless it has one */
};

struct inject_settings {
    const char *prefix;    /* of labels and annotations */
    const char *image;     /* has localproxy, rulesync and kubeconfig-gen in its PATH; NULL: nothing
                              can be injected */
    const char *nat_image; /* has nat-init; NULL: connections are redirected nowhere */
    const char *pull_policy;        /* NULL: as the API server decides */
    struct inject_resources proxy;  /* of localproxy */
    struct inject_resources others; /* of rulesync and the init containers */
    uint64_t user; /* that the sidecars run as; 0: as the cluster or the image has it */
    const char *const *pull_secrets; /* names, for the image; ends with NULL; may be NULL */
    bool native;                     /* see inject_native_sidecars */
    bool low_ports;                  /* see inject_alias_possible */
    bool restricted;                 /* Pod Security keeps capabilities from the pods there */
    bool keep_account;               /* as if all pods had keep-service-account, unless "false" */
    const char *cluster_domain;      /* of names of Services */
    const char *bind;       /* where health and metrics are served; "[::]": on all addresses */
    unsigned start_seconds; /* how long the start of localproxy may take */
    uint64_t rules_lease_s; /* localproxy's --rules-lease, unless the pod names another; 0: none */
    const char *const *proxy_args; /* more for localproxy, ends with NULL; may be NULL */
    const char *const *env;        /* inject_environment.h; may be NULL */
    /* Of the shard, as compile_user_agent has it; NULL: the operator is called as it says. A pod's
     * own annotation goes before it. */
    const char *user_agent;
    bool count_load;       /* of the shard, as inject_counts_load has it; likewise */
    unsigned webhook_port; /* of the shard, as compile_webhook_port has it; 0: none */
    const struct inject_assignment *assignment; /* NULL: the pod's labels say which shard it is of
                                                 */
};

/* All but the image. */
extern const struct inject_settings inject_defaults;

/* Whether an API server of that version, as /version tells it ("1", "29+"), has native sidecars.
 * Kubelets may be older than it: those before 1.29 do not run such pods. */
bool inject_native_sidecars(const char *major, const char *minor);

/* Whether the annotation SIDECAR_COUNT_LOAD of the shard's config asks for that. */
bool inject_counts_load(const struct inject_settings *s, const cJSON *config);

/* Whether the pod's label asks for injection. */
bool inject_wanted(const struct inject_settings *s, const cJSON *pod);

/* What makes a pod of `ns` one of the shard, as a JSON Patch that the caller frees; NULL when it is
 * injected already. 0; -EINVAL with the reason in the message: nothing is injected, and the pod
 * must not run, for it would see everything. */
MUST_CHECK int inject_pod(const struct inject_settings *s, const cJSON *pod, const char *ns,
                          const char *shard, struct warnings *warnings, cJSON **patch,
                          struct err *e);

/* The webhook's questions before that. Whether sidecars are to be put into it: 1; 0: it is left
 * alone, as is what is not a new pod that asks for injection; -EINVAL as above. */
MUST_CHECK int inject_asked(const struct admission_request *r, const struct inject_settings *s,
                            struct warnings *warnings, struct err *e);
/* The config of the shard that the pod is to become one of, as long as the list. Then inject_pod is
 * due, with what the config says of user_agent, count_load and webhook_port. NULL: -ENOENT or
 * -EEXIST: not exactly one of the configs selects the pod. */
MUST_CHECK const cJSON *inject_choose(const struct inject_settings *s,
                                      const struct shards_list *shards, const char *ns,
                                      const cJSON *pod, struct err *e);

#endif
