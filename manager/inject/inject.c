/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compile/compile.h"
#include "crypto/digest.h"
#include "inject/inject_access.h"
#include "inject/inject_account.h"
#include "inject/inject_alias.h"
#include "inject/inject_bounds.h"
#include "inject/inject_check.h"
#include "inject/inject_egress.h"
#include "inject/inject_hints.h"
#include "inject/inject_nat.h"
#include "inject/inject_operator.h"
#include "inject/inject_options.h"
#include "inject/inject_pod_level.h"
#include "inject/inject_sidecars.h"
#include "inject/inject_users.h"
#include "inject/inject_variables.h"
#include "inject/inject_webhook.h"
#include "kube/name.h"
#include "kube/service_names.h"
#include "label/labels.h"
#include "object/json_patch.h"
#include "object/names.h"
#include "object/server_release.h"
#include "json/edit.h"
#include "json/field.h"

#define DELETION_COST "controller.kubernetes.io/pod-deletion-cost"
#define DEFAULT_CONTAINER "kubectl.kubernetes.io/default-container"

const struct inject_settings inject_defaults = {
    .prefix = LABELS_PREFIX,
    .proxy = {.cpu_request = "50m", .memory_request = "32Mi", .memory_limit = "256Mi"},
    .others = {.cpu_request = "5m", .memory_request = "16Mi", .memory_limit = "64Mi"},
    .user = 5443, /* as no image has it: 65532 is that of many operators' */
    .cluster_domain = KUBE_CLUSTER_DOMAIN,
    .bind = "[::]",
    .start_seconds = 60,
};

bool inject_native_sidecars(const char *major, const char *minor)
{
    return server_release_at_least(major, minor, 29);
}

bool inject_counts_load(const struct inject_settings *s, const cJSON *config)
{
    char key[NAMES_KEY_SIZE];
    const cJSON *annotations = field_get(field_get(config, "metadata"), "annotations");
    const char *text = field_text(annotations, names_key(s->prefix, SIDECAR_COUNT_LOAD, key));
    return strcmp(text, "true") == 0;
}

bool inject_wanted(const struct inject_settings *s, const cJSON *pod)
{
    char key[NAMES_KEY_SIZE];
    const cJSON *labels = field_get(field_get(pod, "metadata"), "labels");
    return strcmp(field_text(labels, names_key(s->prefix, SIDECAR_ENABLE, key)), "true") == 0;
}

/* ---- the change ---- */

/* kubectl shows logs of the first container unless the pod says otherwise. */
static void keep_default_container(struct edit *ed, const struct inject_options *o,
                                   const cJSON *pod, cJSON *annotations)
{
    const cJSON *list = field_get(field_get(pod, "spec"), "containers");
    const char *first = cJSON_GetStringValue(field_get(list->child, "name"));
    if (o->default_container == NULL && first != NULL) {
        edit_string(ed, annotations, DEFAULT_CONTAINER, first);
    }
}

/* By which kubectl selects the pods of a shard. A name that is too long for a label's value is cut,
 * and told from others by its hash. */
static void label_with_shard(struct edit *ed, cJSON *labels, const char *key, const char *shard)
{
    enum { HASH_LEN = 8, KEPT = NAME_LABEL_MAX - HASH_LEN - 1 };
    char hash[SHA256_HEX_LEN + 1];
    char value[NAME_LABEL_MAX + 1];
    if (strlen(shard) <= NAME_LABEL_MAX) {
        edit_string(ed, labels, key, shard);
        return;
    }
    sha256_hex(shard, strlen(shard), hash);
    (void)snprintf(value, sizeof value, "%.*s-%.*s", KEPT, shard, HASH_LEN, hash);
    edit_string(ed, labels, key, value);
}

/* A cost that the pod has is somebody's, who wants other pods to go first. */
static void mark_assigned(struct edit *ed, const struct inject_plan *plan, cJSON *labels,
                          cJSON *annotations)
{
    const struct inject_assignment *a = plan->settings->assignment;
    char key[NAMES_KEY_SIZE];
    char text[POD_PLACE_SIZE];
    if (a == NULL) {
        return;
    }
    edit_string(ed, labels, names_key(plan->settings->prefix, POD_SHARD, key), plan->shard);
    pod_place_print(&a->place, text);
    edit_string(ed, annotations, names_key(plan->settings->prefix, POD_PLACE, key), text);
    if (field_get(annotations, DELETION_COST) == NULL) {
        (void)snprintf(text, sizeof text, "%" PRId32, a->deletion_cost);
        edit_string(ed, annotations, DELETION_COST, text);
    }
}

static void mark_pod(struct edit *ed, const struct inject_plan *plan, const cJSON *pod, cJSON *copy)
{
    char key[NAMES_KEY_SIZE];
    cJSON *metadata = edit_object(ed, copy, "metadata");
    cJSON *annotations = edit_object(ed, metadata, "annotations");
    (void)names_key(plan->settings->prefix, SIDECAR_INJECTED, key);
    edit_string(ed, annotations, key, plan->shard);
    cJSON *labels = edit_object(ed, metadata, "labels");
    label_with_shard(ed, labels, key, plan->shard);
    mark_assigned(ed, plan, labels, annotations);
    if (!plan->settings->native) {
        keep_default_container(ed, plan->options, pod, annotations);
    }
}

/* What the annotations set counts as the pod's own. 0, or -EINVAL. */
static int change_variables(struct edit *ed, struct inject_plan *plan, cJSON *spec,
                            struct warnings *warnings, struct err *e)
{
    const struct inject_options *o = plan->options;
    plan->proxy_env = inject_variables_sync(ed, o, spec, warnings);
    inject_variables_inject(ed, o, spec, warnings);
    return inject_egress_lead(ed, plan->settings, o, spec, &plan->egress_env, warnings, e);
}

/* Failures are those of `ed`. */
static void change_pod(struct edit *ed, const struct inject_plan *plan, const cJSON *pod,
                       cJSON *copy, cJSON *spec, struct warnings *warnings)
{
    const struct inject_options *o = plan->options;
    inject_hints_containers(o, spec, warnings);
    inject_operator_lead(ed, o, &plan->access, spec, warnings);
    inject_webhook_add(ed, plan, spec);
    inject_sidecars_add(ed, plan, spec);
    inject_pod_level_raise(ed, field_get(pod, "spec"), spec);
    if (o->by_name) {
        inject_alias_add(ed, plan->settings, spec);
    }
    inject_operator_share_logs(ed, o, spec);
    mark_pod(ed, plan, pod, copy);
}

static int change(struct edit *ed, struct inject_plan *plan, const cJSON *pod, cJSON *copy,
                  struct warnings *warnings, struct err *e)
{
    cJSON *spec = edit_object(ed, copy, "spec");
    plan->watch_bypass = !cJSON_IsTrue(field_get(spec, "hostNetwork")) &&
                         inject_operator_is_all(plan->options, spec);
    int rc = change_variables(ed, plan, spec, warnings, e);
    if (rc == 0) {
        change_pod(ed, plan, pod, copy, spec, warnings);
    }
    cJSON_Delete(plan->proxy_env);
    cJSON_Delete(plan->egress_env);
    plan->proxy_env = NULL;
    plan->egress_env = NULL;
    return rc;
}

static void note_restarts(const struct inject_settings *s, const cJSON *spec,
                          struct warnings *warnings)
{
    const char *policy = cJSON_GetStringValue(field_get(spec, "restartPolicy"));
    if (!s->native && policy != NULL && strcmp(policy, "Always") != 0) {
        warnings_add(
            warnings,
            "spec.restartPolicy: %.20s: the sidecars keep running after the operator has exited, "
            "so the pod does not complete: this needs native sidecars (Kubernetes 1.29)",
            policy);
    }
}

static int make_patch(struct inject_plan *plan, const cJSON *pod, struct warnings *warnings,
                      cJSON **patch, struct err *e)
{
    struct edit ed = {.rc = 0};
    cJSON *copy = cJSON_Duplicate(pod, true);
    int rc = change(&ed, plan, pod, copy, warnings, e);
    if (rc == 0 && ed.rc != 0) {
        rc = err_set(e, -EINVAL, "the pod has a field of the wrong type");
    }
    if (rc == 0) {
        *patch = json_patch_diff(pod, copy);
    }
    cJSON_Delete(copy);
    return rc;
}

/* The ways in which the operator is led, which not every pod lets it be. */
static int check_ways(const struct inject_settings *s, struct inject_options *o,
                      const struct inject_access *a, const cJSON *spec, struct warnings *warnings,
                      struct err *e)
{
    inject_account_settle(o, a, warnings);
    bool right = inject_account_check(o, spec, e) == 0 &&
                 inject_nat_check(s, o, spec, warnings, e) == 0 &&
                 inject_alias_check(s, o, a, spec, warnings, e) == 0 &&
                 inject_egress_check(o, spec, warnings, e) == 0;
    return right ? 0 : e->code;
}

static int inject(const struct inject_settings *s, struct inject_options *o, const cJSON *pod,
                  const char *ns, const char *shard, struct warnings *warnings, cJSON **patch,
                  struct err *e)
{
    struct inject_plan plan = {.settings = s, .options = o, .ns = ns, .shard = shard};
    const cJSON *spec = field_get(pod, "spec");
    inject_egress_settle(s, o, spec);
    int rc = inject_check(o, pod, shard, e);
    if (rc != 0) {
        return rc > 0 ? 0 : rc;
    }
    rc = inject_webhook_check(&plan, spec, e);
    if (rc == 0) {
        rc = inject_users_check(s, o, spec, warnings, e);
    }
    if (rc == 0) {
        rc = inject_access_init(&plan.access, o, spec, INJECT_KUBECONFIG, warnings, e);
    }
    if (rc != 0) {
        return rc;
    }
    rc = check_ways(s, o, &plan.access, spec, warnings, e);
    if (rc == 0) {
        note_restarts(s, spec, warnings);
        inject_account_note_tokens(o, spec, warnings);
        rc = make_patch(&plan, pod, warnings, patch, e);
    }
    inject_access_deinit(&plan.access);
    return rc;
}

int inject_pod(const struct inject_settings *s, const cJSON *pod, const char *ns, const char *shard,
               struct warnings *warnings, cJSON **patch, struct err *e)
{
    struct inject_options o;
    *patch = NULL;
    if (s->image == NULL) {
        return err_set(e, -EINVAL,
                       "there is no image for the sidecars: the manager was started without "
                       "--sidecar-image");
    }
    int rc = inject_bounds_check(pod, e);
    if (rc == 0) {
        rc = inject_options_init(&o, s, pod, e);
    }
    if (rc == 0) {
        rc = inject(s, &o, pod, ns, shard, warnings, patch, e);
        inject_options_deinit(&o);
    }
    return rc;
}

/* What a kubelet shows of a pod that it has from a file. */
static bool is_mirror(const cJSON *pod)
{
    return field_get(field_get(field_get(pod, "metadata"), "annotations"),
                     "kubernetes.io/config.mirror") != NULL;
}

static bool is_ignored(const struct inject_settings *s, const cJSON *pod)
{
    char key[NAMES_KEY_SIZE];
    const cJSON *labels = field_get(field_get(pod, "metadata"), "labels");
    return strcmp(field_text(labels, names_key(s->prefix, LABELS_IGNORE, key)), "true") == 0;
}

int inject_asked(const struct admission_request *r, const struct inject_settings *s,
                 struct warnings *warnings, struct err *e)
{
    if (r->operation != ADMISSION_CREATE || strcmp(r->resource.resource, "pods") != 0 ||
        r->resource.group[0] != '\0' || r->resource.subresource[0] != '\0' ||
        !inject_wanted(s, r->object)) {
        return 0;
    }
    if (is_mirror(r->object)) {
        warnings_add(
            warnings,
            "static pods cannot be injected: the kubelet runs them from its manifest file");
        return 0;
    }
    if (is_ignored(s, r->object)) {
        warnings_add(warnings,
                     "metadata.labels[%s/" LABELS_IGNORE "]: so this pod gets no sidecars, though "
                     "it asks for them: it sees and changes the objects of all shards",
                     s->prefix);
        return 0;
    }
    return inject_bounds_check(r->object, e) == 0 ? 1 : e->code;
}

const cJSON *inject_choose(const struct inject_settings *s, const struct shards_list *shards,
                           const char *ns, const cJSON *pod, struct err *e)
{
    const cJSON *config = shards_of_pod(shards, ns, pod, e);
    if (config == NULL && e->code == -ENOENT) {
        char key[NAMES_KEY_SIZE];
        (void)err_set(e, -ENOENT,
                      "no ShardingConfig in namespace \"%.63s\" selects this pod: create one "
                      "first, or remove the label %s",
                      ns, names_key(s->prefix, SIDECAR_ENABLE, key));
    }
    return config;
}
