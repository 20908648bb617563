/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/policy_found.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "enforcement/probe_answer.h"
#include "policy/pod_traffic.h"

static const char pending[] = "Pending";

static void add_shard(const struct controller *c, const struct policy_object *o,
                      const struct shard_cache_config *config, struct policy_shard *out)
{
    const struct shard *s = controller_find_shard(c, config->key);
    const struct shard_traffic *t = s == NULL ? NULL : &s->traffic;
    bool current =
        t != NULL && t->compiled && t->revision == policy_cache_revision(c->policies, o->ns);
    *out = (struct policy_shard){.name = config->name, .reason = pending, .why = ""};
    if (t != NULL && t->trouble_reason != NULL) {
        out->reason = t->trouble_reason;
        out->why = t->trouble.msg;
    }
    for (size_t i = 0; current && t->placed && i < t->count; i++) {
        if (strcmp(policy_uid(t->policies[i].policy), o->uid) == 0) {
            out->placed = true;
            out->outcome = t->policies[i].outcome;
        }
    }
}

static int by_shard_name(const void *left, const void *right)
{
    const struct policy_shard *a = left;
    const struct policy_shard *b = right;
    return strcmp(a->name, b->name);
}

static void collect_shards(const struct controller *c, const struct policy_object *o,
                           struct policy_found *out)
{
    const struct shard_cache *w = c->options.cache;
    const struct shard_cache_config *config = NULL;
    size_t count = 0;
    while ((config = shard_cache_next_config_in(w, o->ns, config)) != NULL) {
        count++;
    }
    out->shards = xcalloc(count + 1, sizeof *out->shards);
    while ((config = shard_cache_next_config_in(w, o->ns, config)) != NULL) {
        if (!config->root && traffic_concerns(config->pods, o->policy)) {
            struct policy_shard *one = &out->shards[out->shard_count++];
            add_shard(c, o, config, one);
            out->pending = out->pending || (!one->placed && strcmp(one->reason, pending) == 0);
        }
    }
    qsort(out->shards, out->shard_count, sizeof *out->shards, by_shard_name);
}

/* How the policy fares in the document of a shard. */
static enum traffic_outcome outcome_in(const struct shard *s, const struct policy_object *o)
{
    for (size_t i = 0; i < s->traffic.count; i++) {
        if (strcmp(policy_uid(s->traffic.policies[i].policy), o->uid) == 0) {
            return s->traffic.policies[i].outcome;
        }
    }
    return TRAFFIC_EMPTY;
}

/* Whether none of its rules is for the pod by what localproxy says, which may know other labels of
 * it, or none. */
static bool passes_over(const struct policy_object *o, const struct pod_traffic *t)
{
    size_t count = 0;
    if (t->left_out > 0) {
        return false;
    }
    if (policy_kind(o->policy) == TRAFFIC_FAULT_INJECTION) {
        return !t->has_faults;
    }
    (void)pod_traffic_find(t, o->uid, &count);
    if (count == 0) {
        (void)pod_traffic_find_intercepts(t, o->uid, &count);
    }
    return count == 0;
}

/* Of a pod that follows the document in which the policy fares so. */
static enum policy_pod_state state_with(const struct policy_object *o, const struct pod_traffic *t,
                                        enum traffic_outcome outcome, const char **text)
{
    *text = t->error;
    if (!traffic_outcome_in(outcome)) {
        return POLICY_POD_WITHOUT;
    }
    if (outcome == TRAFFIC_COMPILED && passes_over(o, t)) {
        return t->error[0] != '\0' ? POLICY_POD_OLD : POLICY_POD_WAITING;
    }
    if (policy_external_rules(o->policy) > 0 && !t->has_egress) {
        return POLICY_POD_NO_EGRESS;
    }
    return POLICY_POD_ENFORCES;
}

/* It may be written by a newer manager than the pod's sidecars know, and have what these do not. */
static enum policy_pod_state refuses(struct policy_pod *one, const struct probe_result *r)
{
    one->text = r->traffic->error;
    if (probe_is_other_version(r)) {
        one->own = xasprintf("runs cmesh %s, the manager %s: a restart may help: %s", r->version,
                             CMESH_VERSION, r->traffic->error);
        one->text = one->own;
    }
    return POLICY_POD_REFUSING;
}

/* By what the pod says of the document of its shard. */
static enum policy_pod_state state_of(const struct controller *c, const struct policy_object *o,
                                      const struct pod *p, const struct probe_result *r,
                                      struct policy_pod *one)
{
    struct shard *s = controller_mounted_shard(c, p);
    one->text = "";
    if (s == NULL || (shard_config(s) == NULL && shard_map(s) == NULL)) {
        return POLICY_POD_NO_SHARD;
    }
    if (r == NULL || r->state != PROBE_ANSWERED) {
        one->text = r == NULL ? "" : r->message;
        return r != NULL && r->state == PROBE_SILENT ? POLICY_POD_SILENT : POLICY_POD_WAITING;
    }
    if (r->traffic == NULL) {
        return POLICY_POD_OLD;
    }
    if (s->traffic.placed && pod_traffic_enforces(r->traffic, s->traffic.checksum)) {
        return state_with(o, r->traffic, outcome_in(s, o), &one->text);
    }
    if (r->traffic->error[0] != '\0') {
        return refuses(one, r);
    }
    one->text = r->message;
    return POLICY_POD_WAITING;
}

/* One that has not started, or is going and does not answer any more, does not count. */
static bool counts(const struct pod *p, const struct policy *policy, const struct probe_result *r)
{
    const struct selector *pods = policy_selector(policy);
    bool ends = p->ending && (r == NULL || r->state != PROBE_ANSWERED);
    return p->proxy_port != 0 && !p->over && p->ip[0] != '\0' && !ends && pods != NULL &&
           pod_selected(p, pods);
}

static int by_pod_name(const void *left, const void *right)
{
    const struct policy_pod *a = left;
    const struct policy_pod *b = right;
    return strcmp(a->name, b->name);
}

static void add_pod(const struct controller *c, const struct policy_object *o, const struct pod *p,
                    struct policy_found *out)
{
    const struct probe_result *r = prober_result(c->prober, p->key);
    struct policy_pod *one = &out->pods[out->pod_count++];
    one->name = p->name;
    one->ip = p->ip;
    one->state = state_of(c, o, p, r, one);
    one->answers = r != NULL && r->state == PROBE_ANSWERED;
    one->traffic = one->answers ? r->traffic : NULL;
    out->early = out->early || (r != NULL && !r->asked);
}

static void collect_pods(const struct controller *c, const struct policy_object *o,
                         struct policy_found *out)
{
    const struct shard_cache *w = c->options.cache;
    const struct pod *p = NULL;
    size_t count = 0;
    while ((p = shard_cache_next_pod_in(w, o->ns, p)) != NULL) {
        count += counts(p, o->policy, prober_result(c->prober, p->key));
    }
    out->pods = xcalloc(count + 1, sizeof *out->pods);
    while ((p = shard_cache_next_pod_in(w, o->ns, p)) != NULL) {
        if (counts(p, o->policy, prober_result(c->prober, p->key))) {
            add_pod(c, o, p, out);
        }
    }
    qsort(out->pods, out->pod_count, sizeof *out->pods, by_pod_name);
}

void policy_found_look(const struct controller *c, const struct policy_object *o,
                       struct policy_found *out)
{
    collect_shards(c, o, out);
    collect_pods(c, o, out);
}

void policy_found_deinit(struct policy_found *f)
{
    for (size_t i = 0; i < f->pod_count; i++) {
        free(f->pods[i].own);
    }
    free(f->shards);
    free(f->pods);
}
