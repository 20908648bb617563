/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/handlers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "assign/assignment.h"
#include "base/xalloc.h"
#include "inject/inject_hints.h"
#include "kube/name.h"
#include "kube/user_agent.h"
#include "object/names.h"
#include "webhook/policy_review.h"
#include "json/edit.h"
#include "json/field.h"

/* Bytes: a few limits may have many resources. Policies are read in a thread, however small: the
 * files of time zones are read with them. */
enum { CONFIG_INLINE_MAX = 4096, POLICY_INLINE_MAX = 1 };

/* A refusal is an answer that is known; what is not known yet must not look like one. */
static int take_snapshot(const struct webhook_context *context, const char *ns,
                         struct validate_context *w, struct err *e)
{
    *w = (struct validate_context){0};
    int rc = context->look(context->data, ns, w, e);
    if (rc == 0) {
        return 0;
    }
    if (e->msg[0] == '\0') {
        (void)err_set(e, rc, "%s", err_text(rc));
    }
    err_prefix(e, "not ready to decide");
    e->code = -EAGAIN;
    return e->code;
}

/* Its names of what there is are for the log where anybody may have sent the review. */
static int look(const struct webhook_context *context, const struct admission_request *r,
                struct webhook_decision *d, struct validate_context *w, struct err *e)
{
    int rc = take_snapshot(context, r->namespace, w, e);
    w->shards.withheld = context->known_askers ? NULL : d->withheld;
    return rc;
}

/* ---- pods ---- */

/* What is known when the shard is: the settings may change while a thread uses them. */
struct pod_state {
    struct inject_settings settings;
    char shard[NAME_SUBDOMAIN_MAX + 1];
    char user_agent[USER_AGENT_MAX + 1];
    struct inject_assignment assignment;
};

static int check_whole(const struct admission_request *r, struct err *e)
{
    return !r->cut
               ? 0
               : err_set(e, -E2BIG, "the pod has more than %d values (fields and items of lists)",
                         ADMISSION_VALUES_MAX);
}

static void remember_shard(const struct webhook_context *context, const char *ns,
                           const cJSON *config, const struct assigner_choice *choice,
                           struct webhook_decision *d)
{
    const char *agent = compile_user_agent(config);
    struct pod_state *state = xmalloc(sizeof *state);
    state->settings = *context->inject;
    state->settings.restricted =
        context->is_restricted != NULL && context->is_restricted(context->data, ns);
    state->settings.count_load = inject_counts_load(context->inject, config);
    state->settings.webhook_port = compile_webhook_port(config);
    (void)snprintf(state->shard, sizeof state->shard, "%s", shards_name(config));
    if (agent != NULL) {
        (void)snprintf(state->user_agent, sizeof state->user_agent, "%s", agent);
        state->settings.user_agent = state->user_agent;
    }
    if (choice->config != NULL) {
        state->assignment = (struct inject_assignment){
            .place = choice->place,
            .deletion_cost = assignment_cost(choice->number, choice->place.rank)};
        state->settings.assignment = &state->assignment;
    }
    d->state = state;
}

/* What a pod's shard is known by: its labels, with the one that it is going to have. The caller
 * frees. */
static cJSON *assigned_pod(const struct inject_settings *s, const cJSON *pod, const char *shard)
{
    char key[NAMES_KEY_SIZE];
    struct edit ed = {.rc = 0};
    const cJSON *labels = field_map(field_get(pod, "metadata"), "labels");
    cJSON *view = cJSON_CreateObject();
    cJSON *metadata = edit_object(&ed, view, "metadata");
    if (labels != NULL) {
        edit_set(&ed, metadata, "labels", cJSON_Duplicate(labels, true));
    }
    edit_string(&ed, edit_object(&ed, metadata, "labels"), names_key(s->prefix, POD_SHARD, key),
                shard);
    return xptr(edit_result(&ed, view));
}

/* The shard of a pod of a Deployment with automatic shards. `choice` is empty of any other pod. */
static int assign_shard(const struct webhook_context *context, const struct admission_request *r,
                        const struct shards_list *shards, struct warnings *warnings,
                        struct assigner_choice *choice, struct err *e)
{
    const struct assigner_view view = {
        .shards = shards,
        .pods_of = context->pods_of,
        .data = context->data,
        .prefix = context->inject->prefix,
        .from_back = context->leads != NULL && !context->leads(context->data),
    };
    int rc = assigner_choose(context->assigner, r, &view, choice, warnings, e);
    if (rc != 0 || choice->config == NULL) {
        return rc;
    }
    cJSON *pod = assigned_pod(context->inject, r->object, shards_name(choice->config));
    const cJSON *config = inject_choose(context->inject, shards, r->namespace, pod, e);
    cJSON_Delete(pod);
    if (config != NULL) {
        assigner_keep(context->assigner, r, choice);
    } else if (e->code == -ENOENT) {
        (void)err_set(e, -ENOENT,
                      "the automatic shards of its Deployment do not select this pod: it lacks "
                      "labels that spec.selector of their ShardingConfig with spec.root asks for");
    }
    return config == NULL ? e->code : 0;
}

static int find_shard(const struct webhook_context *context, const struct admission_request *r,
                      const struct shards_list *shards, struct webhook_decision *d, struct err *e)
{
    struct assigner_choice choice = {.config = NULL};
    if (context->assigner != NULL &&
        assign_shard(context, r, shards, &d->warnings, &choice, e) != 0) {
        return e->code;
    }
    const cJSON *config = choice.config != NULL
                              ? choice.config
                              : inject_choose(context->inject, shards, r->namespace, r->object, e);
    if (config == NULL) {
        return e->code;
    }
    remember_shard(context, r->namespace, config, &choice, d);
    return 0;
}

static int choose_shard(void *data, const struct admission_request *r, struct webhook_decision *d,
                        struct err *e)
{
    const struct webhook_context *context = data;
    struct validate_context w;
    if (r->operation != ADMISSION_CREATE || r->resource.subresource[0] != '\0') {
        return 0;
    }
    inject_hints_names(context->inject->prefix, context->keys, r->object, true, &d->warnings);
    if (!inject_wanted(context->inject, r->object)) {
        return 0;
    }
    if (check_whole(r, e) != 0 || look(context, r, d, &w, e) != 0) {
        return e->code;
    }
    int rc = inject_asked(r, context->inject, &d->warnings, e);
    return rc <= 0 ? rc : find_shard(context, r, &w.shards, d, e);
}

static int inject_sidecars(const void *data, const struct admission_request *r,
                           struct webhook_decision *d, struct err *e)
{
    const struct pod_state *state = d->state;
    (void)data;
    return state == NULL ? 0
                         : inject_pod(&state->settings, r->object, r->namespace, state->shard,
                                      &d->warnings, &d->patch, e);
}

/* ---- labels ---- */

/* A pod that has not even a label by which the webhook for pods is asked, because that is
 * misspelt. */
static void note_pod(const struct webhook_context *context, const struct admission_request *r,
                     struct webhook_decision *d)
{
    if (r->operation == ADMISSION_CREATE && strcmp(r->resource.resource, "pods") == 0 &&
        r->resource.group[0] == '\0' && r->resource.subresource[0] == '\0' &&
        !inject_wanted(context->inject, r->object)) {
        inject_hints_names(context->inject->prefix, context->keys, r->object, false, &d->warnings);
    }
}

/* Their pods are made by a controller, which shows nobody what it is told of them. */
static void note_template(const struct webhook_context *context, const struct admission_request *r,
                          struct webhook_decision *d)
{
    const cJSON *template = field_get(field_get(r->object, "spec"), "template");
    struct warnings found = WARNINGS_INIT;
    if (template == NULL || (r->operation == ADMISSION_UPDATE && r->same_spec)) {
        return;
    }
    inject_hints_names(context->inject->prefix, context->keys, template,
                       inject_wanted(context->inject, template), &found);
    for (size_t i = 0; i < found.count; i++) {
        warnings_add(&d->warnings, "spec.template.%s", found.items[i]);
    }
    warnings_deinit(&found);
}

/* In the loop, to which the shared namespaces belong. */
static int decide_labels(void *data, const struct admission_request *r, struct webhook_decision *d,
                         struct err *e)
{
    const struct webhook_context *context = data;
    note_pod(context, r, d);
    note_template(context, r, d);
    return labels_admit(context->keys, r, &d->patch, &d->warnings, e);
}

/* ---- ShardingConfigs ---- */

/* `namespaces` are the loop's, or for a thread a copy. */
struct config_state {
    struct namespace_set *copy;
    const struct namespace_set *namespaces;
    struct validate_draft *draft;
};

static struct compile_options compile_with(const struct webhook_context *context,
                                           const struct namespace_set *namespaces)
{
    struct compile_options o = *context->compile;
    o.namespaces = namespaces;
    return o;
}

static void begin_config(const void *data, bool thread, struct webhook_decision *d)
{
    const struct webhook_context *context = data;
    struct config_state *state = xcalloc(1, sizeof *state);
    d->state = state;
    state->namespaces = context->namespaces;
    if (thread && context->namespaces != NULL) {
        state->copy = namespace_set_copy(context->namespaces);
        state->namespaces = state->copy;
    }
}

static int draft_config(const void *data, const struct admission_request *r,
                        struct webhook_decision *d, struct err *e)
{
    struct config_state *state = d->state;
    const struct compile_options o = compile_with(data, state->namespaces);
    (void)e;
    state->draft = validate_draft_new(r, &o);
    return 0;
}

static int decide_config(void *data, const struct admission_request *r, struct webhook_decision *d,
                         struct err *e)
{
    const struct webhook_context *context = data;
    const struct config_state *state = d->state;
    const struct compile_options o = compile_with(context, context->namespaces);
    struct validate_context w;
    if (look(context, r, d, &w, e) != 0) {
        return e->code;
    }
    return validate_drafted(r, &o, state->draft, &w, &d->warnings, e);
}

static void forget_config(void *data)
{
    struct config_state *state = data;
    validate_draft_free(state->draft);
    namespace_set_free(state->copy);
    free(state);
}

/* ---- traffic policies ---- */

static int review_policy(const void *data, const struct admission_request *r,
                         struct webhook_decision *d, struct err *e)
{
    const struct policy_options options = {.now = time(NULL)};
    struct policy *p;
    (void)data;
    int rc = policy_review(r, &options, &d->warnings, &p, e);
    d->state = p;
    return rc;
}

/* What the shards are only adds a warning: that they are not known yet keeps nobody waiting. */
static int review_shards(void *data, const struct admission_request *r, struct webhook_decision *d,
                         struct err *e)
{
    const struct webhook_context *context = data;
    struct validate_context w;
    struct err unknown = ERR_INIT;
    (void)e;
    if (d->state != NULL && look(context, r, d, &w, &unknown) == 0) {
        policy_review_shards(d->state, r->namespace, &w.shards, &d->warnings);
    }
    return 0;
}

static void forget_policy(void *state)
{
    policy_unref(state);
}

const struct webhook_route webhook_routes[] = {
    {.path = WEBHOOK_PATH_PODS,
     .name = "pods",
     .decide = choose_shard,
     .finish = inject_sidecars,
     .forget = free},
    {.path = WEBHOOK_PATH_NAMESPACES,
     .name = "namespaces",
     .decide = decide_labels,
     .parts = ADMISSION_LABELS},
    {.path = WEBHOOK_PATH_RESOURCES,
     .name = "resources",
     .decide = decide_labels,
     .parts = ADMISSION_LABELS},
    {.path = WEBHOOK_PATH_CONFIGS,
     .name = "shardingconfigs",
     .begin = begin_config,
     .prepare = draft_config,
     .decide = decide_config,
     .forget = forget_config,
     .inline_max = CONFIG_INLINE_MAX},
    {.path = WEBHOOK_PATH_POLICIES,
     .name = "trafficpolicies",
     .prepare = review_policy,
     .decide = review_shards,
     .forget = forget_policy,
     .inline_max = POLICY_INLINE_MAX},
    {.path = NULL},
};
