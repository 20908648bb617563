/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the controller does when something about traffic policies, or about pods that they are for,
 * is other than before.
 */
#include <string.h>

#include "policy/policy_cache.h"
#include "shard/controller_internal.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum {
    GATHER_MS = 200,   /* changes of pods, and what they say, are gathered for so long */
    POLICIES_MAX = 200 /* that /status lists */
};

static bool is_for(const struct policy_object *o, const struct pod *p)
{
    const struct selector *pods = policy_selector(o->policy);
    return pods != NULL && !policy_deleting(o->policy) && pod_selected(p, pods);
}

bool controller_attends(const struct controller *c, const struct pod *p)
{
    const struct policy_object *o = NULL;
    while (c->policies != NULL && (o = policy_cache_next_in(c->policies, p->ns, o)) != NULL) {
        if (is_for(o, p)) {
            return true;
        }
    }
    return false;
}

void controller_look_policies(struct controller *c, const char *key)
{
    const struct policy_object *o = NULL;
    if (c->reporter != NULL && key != NULL) {
        policy_reporter_look_in(c, key, 0);
        return;
    }
    while (c->reporter != NULL && (o = policy_cache_next(c->policies, o)) != NULL) {
        reconciler_look(c->reporter, o->key, 0);
    }
}

void controller_pod_changed(struct controller *c, const struct pod *p)
{
    if (c->reporter != NULL) {
        policy_reporter_look_in(c, p->key, GATHER_MS);
    }
}

void controller_pod_says(struct controller *c, const struct pod *p)
{
    const struct policy_object *o = NULL;
    while (c->policies != NULL && (o = policy_cache_next_in(c->policies, p->ns, o)) != NULL) {
        if (is_for(o, p)) {
            reconciler_look(c->reporter, o->key, GATHER_MS);
        }
    }
}

/* ---- what the cache tells ---- */

/* All policies of the namespace are looked through only for pods that had one. */
static void attend_pods(struct controller *c, const struct policy_object *o, bool gone)
{
    const struct pod *p = NULL;
    while ((p = shard_cache_next_pod_in(c->options.cache, o->ns, p)) != NULL) {
        if (!gone && is_for(o, p)) {
            prober_attend(c->prober, p->key, true);
        } else if (prober_attends(c->prober, p->key)) {
            prober_attend(c->prober, p->key, controller_attends(c, p));
        }
    }
}

/* Also at those whose config is gone, while pods mount their ConfigMap. `ns` NULL: at all. */
static void look_at_shards(struct controller *c, const char *ns)
{
    for (const struct shard *s = NULL; (s = reconciler_next(c->reconciler, s)) != NULL;) {
        if (ns == NULL || shard_is_beside(s, ns)) {
            controller_look_now(c, s->key);
        }
    }
}

static void on_policy(void *data, const struct policy_object *o, bool gone, bool same)
{
    struct controller *c = data;
    if (gone) {
        reconciler_forget(c->reporter, o->key);
    } else {
        reconciler_look(c->reporter, o->key, 0);
    }
    if (!same) {
        look_at_shards(c, o->ns);
        attend_pods(c, o, gone);
    }
}

static void on_known(void *data)
{
    look_at_shards(data, NULL);
}

static const struct policy_cache_handlers handlers = {.on_policy = on_policy, .on_known = on_known};

void controller_follow_policies(struct controller *c)
{
    const struct policy_cache_options o = {
        .client = c->options.client,
        .namespace = c->options.watch_namespace,
        .memory = c->options.policy_memory,
        .clock = c->clock,
        .ops = c->options.ops,
    };
    if (c->options.policies) {
        c->reporter = policy_reporter_new(c);
        c->policies = policy_cache_new(c->loop, &o, &handlers, c);
    }
}

void controller_serve(struct controller *c, enum traffic_kind kind, enum policy_served served)
{
    if (c->policies != NULL) {
        policy_cache_serve(c->policies, kind, served);
    }
}

/* ---- /status ---- */

static void add_policy(cJSON *items, const struct policy_object *o)
{
    struct err e = ERR_INIT;
    cJSON *rest = json_parse(o->rest, strlen(o->rest), &e);
    const cJSON *status = field_get(rest, "status");
    const cJSON *open = field_get(status, "open");
    const cJSON *enforced = edit_find(field_get(status, "conditions"), "type", "Enforced");
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "kind", policy_kind_name(policy_kind(o->policy)));
    cJSON_AddStringToObject(item, "namespace", o->ns);
    cJSON_AddStringToObject(item, "name", o->name);
    cJSON_AddStringToObject(item, "enforced", field_text(status, "enforced"));
    cJSON_AddStringToObject(item, "state",
                            enforced == NULL ? "Pending" : field_text(enforced, "reason"));
    cJSON_AddNumberToObject(item, "open", cJSON_IsNumber(open) ? open->valuedouble : 0);
    cJSON_AddItemToArray(items, item);
    cJSON_Delete(rest);
}

void controller_status(const struct controller *c, cJSON *root)
{
    const struct policy_cache *p = c == NULL ? NULL : c->policies;
    const struct policy_object *o = NULL;
    double count = 0;
    if (p == NULL) {
        return;
    }
    cJSON *policies = cJSON_AddObjectToObject(root, "policies");
    cJSON *items = cJSON_AddArrayToObject(policies, "items");
    while ((o = policy_cache_next(p, o)) != NULL) {
        if (++count <= POLICIES_MAX) {
            add_policy(items, o);
        }
    }
    cJSON_AddNumberToObject(policies, "count", count);
    if (policy_cache_error(p) != NULL) {
        cJSON_AddStringToObject(policies, "error", policy_cache_error(p));
    }
}
