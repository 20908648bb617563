/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controller_internal.h - what the steps of the controller share.
 *
 *     queue -> shard_publish -> shard_report -> shard_publish_traffic -> shard_report_status
 *                 -> shard_done
 *
 * Each step goes on to the next one, at once or when its request was answered. At most one request
 * of a shard is under way. Between two steps the cache may have changed: each looks anew.
 */
#ifndef MANAGER_SHARD_CONTROLLER_INTERNAL_H
#define MANAGER_SHARD_CONTROLLER_INTERNAL_H

#include "base/list.h"
#include "base/table.h"
#include "enforcement/status_leases.h"
#include "enforcement/takeover.h"
#include "kube/client/object_request.h"
#include "label/labelling.h"
#include "lock/lock_change.h"
#include "net/work_queue.h"
#include "ownership/gain_cache.h"
#include "ownership/ownership.h"
#include "policy/policy_cache.h"
#include "shard/controller.h"
#include "shard/exclusive.h"
#include "shard/operator_coverage.h"
#include "shard/publish_plan.h"
#include "shard/shard_traffic.h"
#include "shard/status.h"

/* What users should see, once. */
struct shard_news {
    bool refused;       /* the spec is invalid */
    bool trouble;       /* its rules do not stand in the ConfigMap, and somebody should know */
    bool enforced;      /* all is well */
    bool lost;          /* something is wrong with pods */
    bool shared;        /* others may show what it shows */
    const char *routed; /* the Event that tells whether reviews for its operator's webhooks reach
                           it; NULL: none */
};

/* What is remembered of a shard: nothing that another leader would need. */
struct shard {
    struct reconcile run;
    struct controller *controller;
    const char *key; /* of run */

    /* The spec that was compiled last. */
    char *uid;      /* of its config; NULL: none was */
    uint64_t spec;  /* shard_spec_hash() of it */
    unsigned round; /* and of what namespaces it selects */
    char checksum[RULES_CHECKSUM_LEN + 1];
    struct err refusal; /* code 0: it makes sense */

    /* The ConfigMap that the cache does not show yet. */
    struct rules_map *written;  /* NULL: the cache is right */
    struct rules_map *outdated; /* was `written` in this step; NULL */
    char *base; /* the version that the cache showed when it was written; "": none */
    uint64_t written_at;

    uint64_t generation; /* written last by this controller; 0: none was */
    uint64_t heard;      /* the largest that stood in its ConfigMap, whoever wrote it */
    char generation_checksum[RULES_CHECKSUM_LEN + 1];

    struct rules *compiled; /* of the spec, of generation 1; NULL: not known, or it is refused */
    struct handover_past past;
    struct rules *sent; /* last to its ConfigMap; NULL: none */
    struct rules *own;  /* that a manager wrote last, as far as is known; NULL: it is not */

    /* What it gains waits for others to give it up. */
    struct list waiting; /* in controller->waiting */
    char *holders;       /* who may show it, for people; NULL: it does not wait */
    uint64_t waits_since;
    uint64_t waits_ms;                      /* for so long at most, or until it is told of */
    char waits_for[RULES_CHECKSUM_LEN + 1]; /* the rules that it is to have */
    uint64_t doubt;                         /* ownership_plan.doubt, since: */
    uint64_t doubt_since;
    bool late;      /* it has waited for so long */
    bool blocked;   /* an Event has told so, since somebody has to do something */
    bool withdrawn; /* it shows nothing because of pods without sidecars */
    struct lock_change
        *relock; /* its lock is another one than before, or may be; NULL: it is not */

    enum publish_reason reason; /* why the rules of its spec are not in the ConfigMap, */
    char *message;              /* for people; NULL: nothing more is known */
    unsigned retry_after;

    cJSON *status;          /* that is being written, */
    struct shard_news news; /* and what Events are to tell of it then */
    enum status_enforced enforced;
    bool ready;
    enum labelling_state labelling;
    bool reported;        /* these three tell something */
    bool not_covered_yet; /* nobody knew how its operator is covered */

    char *unbound; /* uid of the config whose foreign finalizer was taken off; NULL: of none */

    enum exclusive_state exclusive;

    struct shard_traffic traffic;

    uint64_t noticed_at; /* a change of the config that is not looked at yet; 0: none */
    uint64_t changed_at; /* the change whose rules are not enforced yet; 0: none */
    bool placed;         /* they are in the ConfigMap */

    uint64_t unreleased_since; /* what it is to publish waits for reviews; 0: it does not */
    bool release_told;         /* that it did not wait for longer */

    uint64_t tampered; /* hash of the version that was told of last; 0: none */
    bool kept_told;    /* Events have told that pods keep its rules */
    uint64_t gone_at;  /* since when there is a ConfigMap, no config and no pod; 0: it is not so */
};

struct controller {
    struct net_loop *loop;
    struct controller_options options;
    const struct net_clock *clock;
    struct reconciler *reconciler;   /* struct shard */
    struct reconciler *pod_notifier; /* pods */
    struct prober *prober;
    struct status_leases *leases;
    struct takeover *takeover;
    struct operator_coverage *operator_coverage; /* NULL: not asked for */
    struct gain_cache *gains;
    struct policy_cache *policies; /* NULL: nobody follows them; and with it: */
    struct reconciler *reporter;   /* NULL */
    struct shard_cache_listener listener;
    struct list waiting; /* struct shard */
};

/* ---- the steps ---- */

void shard_publish(struct shard *s);
void shard_report(struct shard *s);
void shard_publish_traffic(struct shard *s);
void shard_report_status(struct shard *s);
/* Whether it takes a foreign finalizer off the config now: then that is the last step. */
bool shard_unbind(struct shard *s, const struct shard_cache_config *config);
/* The other shards of the namespace are to be looked at. */
void shard_look_beside(const struct shard *s, const struct shard_cache_config *config);
/* The last one. `s` may be gone afterwards. */
void shard_done(struct shard *s, enum work_result result, unsigned retry_after);

/* ---- what they have in common ---- */

/* What is known of a pod that the config selects. Valid until the loop runs on. */
struct status_pod shard_pod_facts(struct shard *s, const struct shard_cache_config *config,
                                  const struct pod *p);
/* Whether the webhook for pods does not look at the namespace, as far as is known. */
bool shard_is_left_out(const struct shard *s, const char *ns);

/* NULL: it is gone, or has become a root, which is no shard. */
const struct shard_cache_config *shard_config(const struct shard *s);
/* The same, a root's too. */
const struct shard_cache_config *shard_config_or_root(const struct shard *s);
/* Whether it is in the namespace of this key, "namespace/name" or the namespace alone. */
bool shard_is_beside(const struct shard *s, const char *key);
/* The ConfigMap as far as is known: NULL: there is none. */
const struct rules_map *shard_map(struct shard *s);
/* Why the config's spec is invalid, or there is no memory for it; NULL: it is valid. */
const char *shard_refusal(const struct shard *s);
bool shard_is_given_up(const struct shard *s);
/* Another number for each edit of a spec, and for each object of that name. */
uint64_t shard_spec_hash(const struct shard_cache_config *config);
/* Compiles the spec, if that is another one than before. It may be invalid: shard_refusal. */
void shard_compile(struct shard *s, const struct shard_cache_config *config);
/* Holds a reference to `rules`, NULL: to none, instead of to what is there. */
void shard_keep_rules(struct rules **at, struct rules *rules);
/* Takes `message`, which may be NULL. */
void shard_set_reason(struct shard *s, enum publish_reason reason, char *message);
/* Whether it is that spec which was looked at last, and not an edit that came since. */
bool shard_has_looked(const struct shard *s, const struct shard_cache_config *config);
/* If there is no memory for its rules, none are kept; if there is none for what stands in its
 * ConfigMap, nothing of earlier rules. What its pods may show is not known then. `config` NULL: it
 * is gone. */
void shard_give_up_rules(struct shard *s, const struct shard_cache_config *config);

/* Looks at the shard, whose key is being handled, again after so many ms. */
void controller_look_after(const struct shard *s, uint64_t ms);

void controller_observe(struct prometheus_histogram *h, uint64_t ms);
uint64_t controller_now(const struct controller *c);

/* "/api/v1/namespaces/NS/<resource>"; the caller frees. */
char *controller_path(const char *group, const char *ns, const char *resource);
/* As reconcile_write, in the shard's namespace: `q` without its path. */
void shard_request(struct shard *s, const char *group, const char *resource,
                   struct object_request_options q, uint64_t *counts, object_request_cb next);

/* NULL: nothing is remembered of it. */
struct shard *controller_find_shard(const struct controller *c, const char *key);
/* The shard whose rules the pod mounts: of which its sidecars were put into it, else the only one
 * that selects it; also if its config is gone. NULL: there is none, or that cannot be told, or it
 * has no sidecars; or nothing is remembered of it. */
struct shard *controller_mounted_shard(const struct controller *c, const struct pod *p);
/* The pods that mount the rules of this shard, which may have no config any more; the caller
 * frees. */
MUST_CHECK struct ownership_pod *controller_own_pods(const struct controller *c, const char *key,
                                                     size_t *count);
/* Asks the pod's proxy from now on, if it has one, and expects the shard's generation of it. */
void controller_watch_pod(struct controller *c, const struct pod *p);

/* ---- its ConfigMap ---- */

/* As shard_request, for the ConfigMap: without its name. */
void shard_request_map(struct shard *s, struct object_request_options q, uint64_t *counts,
                       object_request_cb next);
/* Asks the API server for it, since the cache has not read it; then the step begins anew. Nothing
 * may be done with `s` afterwards. */
void shard_read_map(struct shard *s);
/* Writes it; then the status is reported. */
void shard_write_map(struct shard *s, bool create, const cJSON *body);
/* When no pod has mounted it for a while, and the API server says that there is no config. */
void shard_delete_map(struct shard *s);
/* Tells pods the generation of the ConfigMap, unless they know it; `fresh`: it has just changed. */
void shard_tell_pods(struct shard *s, uint64_t generation, bool fresh);
/* Tells by Events on the pods, of which there are some, and on the config, which is gone or has
 * become a root, that pods keep its rules. `map` NULL: there is none. */
void shard_tell_kept(struct shard *s, const struct rules_map *map, const struct ownership_pod *pods,
                     size_t count);
/* The memory of these counts for the shard's namespace; NULL is ignored. */
void shard_count_rules(const struct shard *s, struct rules *rules);
/* What Events are about. `config` NULL: it is gone; `map` NULL: there is none. */
struct event_object shard_event_object(const struct shard *s,
                                       const struct shard_cache_config *config, const char *ns,
                                       const struct rules_map *map);
/* Why a ConfigMap of somebody else is left alone; the caller frees. */
char *shard_name_taken(const struct rules_map *map);
/* Whether it may be written: it is ours, or the shard was published before; `s` NULL: nothing is
 * remembered of it; `config` NULL: it is gone. */
bool shard_owns_map(const struct shard *s, const struct shard_cache_config *config,
                    const struct rules_map *map);
/* Its generation counts, whoever wrote it: pods may have taken it. `map` NULL is ignored. */
void shard_hear(struct shard *s, const struct rules_map *map);
/* If it is not as it was written, the log and an Event say who changed it, once for each version of
 * it. `config` NULL: it is gone; `map` NULL: there is nothing to say. */
void shard_tell_tampered(struct shard *s, const struct shard_cache_config *config,
                         const struct rules_map *map);
/* What stands there is its own, if it was sent last or is what the status tells of. `config` and
 * `map` may be NULL. */
void shard_learn_own(struct shard *s, const struct shard_cache_config *config,
                     const struct rules_map *map);
/* It says something else than what a manager wrote last, which is known. */
bool shard_is_overwritten(const struct shard *s, const struct rules_map *map);

/* What the API server has now, which the cache shows before long. */
void shard_store_map(struct shard *s, struct rules_map *map);
/* Before a request that tells it: remembers what the cache shows. */
void shard_note_base(struct shard *s);

/* ---- traffic policies ---- */

void shard_traffic_deinit(struct shard_traffic *t);
/* Whether the first ConfigMap waits for the policies to be known; the shard comes again then. */
bool shard_waits_for_policies(const struct shard *s);
/* The traffic document, as it is to be now, goes with rules that are written: into what
 * rules_map_make has made. False: it cannot be made, which is logged. */
MUST_CHECK bool shard_traffic_add(struct shard *s, const struct shard_cache_config *config,
                                  const struct rules_map *map, cJSON *body);
/* What was written stands there. */
void shard_traffic_written(struct shard *s, const struct rules_map *map);
/* Whether the pod is to be told of the generation of the traffic document: 0: there is none. */
bool shard_traffic_due(struct shard *s, const struct pod *p, uint64_t *generation);
/* It is overwritten: an Event names who did it. */
void shard_tell_traffic_changed(struct shard *s, const struct shard_cache_config *config,
                                const struct rules_map *map);
/* Follows them, if that is asked for. */
void controller_follow_policies(struct controller *c);
/* Whether a policy is for the pod. */
bool controller_attends(const struct controller *c, const struct pod *p);
/* The pod is other than before, or gone; and: it says something else of policies. */
void controller_pod_changed(struct controller *c, const struct pod *p);
void controller_pod_says(struct controller *c, const struct pod *p);
/* The status of the policies in the namespace of this key, NULL: of all, is made anew soon. */
void controller_look_policies(struct controller *c, const char *key);

/* ---- waiting for another shard's pods ---- */

/* What a shard may publish while it waits. */
enum shard_meanwhile {
    SHARD_KEEPS,     /* what it has and is to have; a new one rules that show nothing */
    SHARD_WITHDRAWS, /* rules that show nothing */
    SHARD_RELOCKS,   /* the same, by the lock that it is to have; not even what is shared */
    SHARD_DOUBTS,    /* what it has; a new one nothing: it waits for a short time alone, and rules
                        that show nothing would take memory that others may lack */
};

/* Whether there is a pod without sidecars that some shard of its namespace selects, or that is of a
 * root's Deployment: it may be of its operator. */
bool shard_is_beside_bare(const struct shard *s, const char *ns);
/* Why rules `to` must not be published yet, for people, which the caller frees: the shard comes
 * again when that may be different. NULL: they may be. `from`: what its own pods may enforce, NULL:
 * nothing. */
MUST_CHECK char *shard_wait(struct shard *s, const struct shard_cache_config *config,
                            const struct rules *from, struct rules *to,
                            enum shard_meanwhile *meanwhile);
/* Whether rules show anything that they name, or name nothing. */
bool shard_shows_anything(const struct shard *s, const struct rules *rules);
/* Before: remembers that its lock changes, or may have changed before it was looked at, `first`. */
void shard_note_lock(struct shard *s, const struct shard_cache_config *config, bool first,
                     const struct rules *from, const struct rules *to);
/* What its spec asks for is in force: it has the lock that it is to have. */
void shard_lock_is_right(struct shard *s);
void shard_wait_end(struct shard *s);
/* The rules without the namespaces that its config shares on purpose: what others are compared
 * with. The caller holds one reference. */
MUST_CHECK struct rules *shard_leave_out_shared(const struct shard *s,
                                                const struct shard_cache_config *config,
                                                struct rules *rules);
/* Forgets rules that none of its pods enforces any more. */
void shard_settle(struct shard *s, const struct rules_map *map, const struct ownership_pod *pods,
                  size_t count);
/* It was published late: an Event names the other shard. */
void shard_tell_late(struct shard *s, const struct shard_cache_config *config, uint64_t generation);
/* Something about this shard or pod, "namespace/name", has changed: who waits in that namespace
 * looks again. */
void controller_wake(struct controller *c, const char *key);
/* The shard is looked at again soon, or at once. */
void controller_look(struct controller *c, const char *key);
void controller_look_now(struct controller *c, const char *key);

/* ---- control labels ---- */

void shard_look_labelling(struct shard *s, const struct shard_cache_config *config,
                          struct labelling *out);

/* ---- telling pods ---- */

/* A reconciler with the controller as its data. */
MUST_CHECK struct reconciler *controller_reconciler(struct controller *c,
                                                    const struct reconciler_options *o,
                                                    const struct reconciler_handlers *handlers);

MUST_CHECK struct reconciler *pod_notifier_new(struct controller *c);
/* Tells the pod the generations of its shard, unless it knows. */
void pod_notifier_add(struct reconciler *pod_notifier, const struct pod *p);

/* ---- the status of policies ---- */

/* controller->policies must be there. */
MUST_CHECK struct reconciler *policy_reporter_new(struct controller *c);
/* The policies in the namespace of a key. */
void policy_reporter_look_in(struct controller *c, const char *key, uint64_t ms);
void policy_reporter_metrics(const struct controller *c, struct buf *out);

#endif
