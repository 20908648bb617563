/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_sidecars.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "inject/inject_account.h"
#include "inject/inject_egress.h"
#include "inject/inject_environment.h"
#include "inject/inject_paths.h"
#include "inject/inject_variables.h"
#include "kube/access/access.h"
#include "kube/user_agent.h"
#include "object/names.h"
#include "json/field.h"

#define RULES_VOLUME "cmesh-rules"
#define RULES_DIR INJECT_ETC_DIR "/rules"
#define STATE_VOLUME "cmesh-state"
#define STATE_DIR INJECT_STATE_DIR
#define COPY STATE_DIR "/rules.json" /* the last known good rules */
#define RUN_VOLUME "cmesh-run"
#define RUN_DIR INJECT_RUN_DIR
#define CONTROL RUN_DIR "/control.sock"
#define SEEN RUN_DIR "/state" /* what clients have seen */
#define TOKEN RUN_DIR "/token"
#define BREAKERS RUN_DIR "/breakers.json" /* which of them are open */
#define POD_VOLUME "cmesh-pod"
#define POD_DIR INJECT_ETC_DIR "/pod"
#define LABELS_FILE "labels"

enum { PROBE_SECONDS = 5, GRACE_SECONDS = 30, DELAY_SECONDS_MAX = 86400 };

static const char *const containers[] = {SIDECAR_KUBECONFIG, SIDECAR_RULES, SIDECAR_PROXY,
                                         SIDECAR_RULESYNC, SIDECAR_NAT_INIT};
static const char *const volumes[] = {
    RULES_VOLUME,         STATE_VOLUME, RUN_VOLUME, POD_VOLUME, INJECT_KUBECONFIG_VOLUME,
    INJECT_ACCOUNT_VOLUME};
/* Those that pods of earlier releases do not have. */
static const char *const later_volumes[] = {POD_VOLUME, INJECT_ACCOUNT_VOLUME};

/* ---- pieces ---- */

static void add_quantity(struct edit *ed, cJSON *resources, const char *kind, const char *resource,
                         const char *quantity)
{
    if (quantity != NULL) {
        edit_string(ed, edit_object(ed, resources, kind), resource, quantity);
    }
}

static void add_resources(struct edit *ed, cJSON *container, const struct inject_resources *r)
{
    cJSON *resources = edit_object(ed, container, "resources");
    add_quantity(ed, resources, "requests", "cpu", r->cpu_request);
    add_quantity(ed, resources, "requests", "memory", r->memory_request);
    add_quantity(ed, resources, "limits", "cpu", r->cpu_limit);
    add_quantity(ed, resources, "limits", "memory", r->memory_limit);
}

/* As the Pod Security Standard "restricted" demands. */
static void add_security(struct edit *ed, cJSON *container, uint64_t user)
{
    cJSON *context = edit_object(ed, container, "securityContext");
    edit_bool(ed, context, "allowPrivilegeEscalation", false);
    edit_bool(ed, context, "privileged", false);
    edit_bool(ed, context, "readOnlyRootFilesystem", true);
    edit_bool(ed, context, "runAsNonRoot", true);
    if (user != 0) {
        edit_number(ed, context, "runAsUser", (double)user);
        edit_number(ed, context, "runAsGroup", (double)user);
    }
    cJSON *capabilities = edit_object(ed, context, "capabilities");
    edit_append_string(ed, edit_array(ed, capabilities, "drop"), "ALL");
    edit_string(ed, edit_object(ed, context, "seccompProfile"), "type", "RuntimeDefault");
}

void inject_sidecars_mount(struct edit *ed, cJSON *container, const char *volume, const char *path,
                           bool read_only)
{
    cJSON *mount = edit_append_object(ed, edit_array(ed, container, "volumeMounts"));
    edit_string(ed, mount, "name", volume);
    edit_string(ed, mount, "mountPath", path);
    if (read_only) {
        edit_bool(ed, mount, "readOnly", true);
    }
}

static void add_copies(struct edit *ed, cJSON *container, const char *key, const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        edit_append(ed, edit_array(ed, container, key), cJSON_Duplicate(item, true));
    }
}

static void add_variable(struct edit *ed, cJSON *container, const char *name, const char *value)
{
    inject_variables_append(ed, edit_array(ed, container, "env"), name, value);
}

/* Of the pod. */
static void add_field_variable(struct edit *ed, cJSON *container, const char *name,
                               const char *path)
{
    cJSON *variable = edit_append_object(ed, edit_array(ed, container, "env"));
    edit_string(ed, variable, "name", name);
    cJSON *from = edit_object(ed, edit_object(ed, variable, "valueFrom"), "fieldRef");
    edit_string(ed, from, "fieldPath", path);
}

static void add_port(struct edit *ed, cJSON *container, const char *name, int port)
{
    cJSON *entry = edit_append_object(ed, edit_array(ed, container, "ports"));
    edit_string(ed, entry, "name", name);
    edit_number(ed, entry, "containerPort", port);
    edit_string(ed, entry, "protocol", "TCP");
}

static void add_probe(struct edit *ed, cJSON *container, const char *kind, const char *path,
                      int port, unsigned period, unsigned failures)
{
    cJSON *probe = edit_object(ed, container, kind);
    cJSON *get = edit_object(ed, probe, "httpGet");
    edit_string(ed, get, "path", path);
    edit_number(ed, get, "port", port);
    edit_number(ed, probe, "periodSeconds", period);
    edit_number(ed, probe, "failureThreshold", failures);
    edit_number(ed, probe, "timeoutSeconds", PROBE_SECONDS);
}

static void add_probes(struct edit *ed, cJSON *container, int port)
{
    add_probe(ed, container, "readinessProbe", "/readyz", port, PROBE_SECONDS, 3);
    add_probe(ed, container, "livenessProbe", "/healthz", port, 2 * PROBE_SECONDS, 3);
}

static cJSON *new_container(struct edit *ed, const struct inject_plan *plan, const char *name,
                            const char *program, const struct inject_resources *r)
{
    const struct inject_settings *s = plan->settings;
    cJSON *c = cJSON_CreateObject();
    edit_string(ed, c, "name", name);
    edit_string(ed, c, "image", s->image);
    if (s->pull_policy != NULL) {
        edit_string(ed, c, "imagePullPolicy", s->pull_policy);
    }
    edit_append_string(ed, edit_array(ed, c, "command"), program);
    add_resources(ed, c, r);
    add_security(ed, c, s->user);
    /* So that `kubectl describe pod` shows why one failed. */
    edit_string(ed, c, "terminationMessagePolicy", "FallbackToLogsOnError");
    return c;
}

/* ---- the containers ---- */

static void add_access(struct edit *ed, const struct inject_plan *plan, cJSON *container)
{
    const struct inject_access *a = &plan->access;
    cJSON *args = edit_array(ed, container, "args");
    if (a->kubeconfig[0] == '\0') {
        edit_append_string(ed, args, "--in-cluster");
    } else {
        edit_append_format(ed, args, "--kubeconfig=%s", a->kubeconfig);
    }
    edit_append_string(ed, args, "--token-file=" TOKEN);
    add_copies(ed, container, "env", a->env);
    add_copies(ed, container, "volumeMounts", a->mounts);
}

/* Of a pod whose operator does not keep its own. By variables: see add_later_settings. */
static void add_account(struct edit *ed, const struct inject_plan *plan, cJSON *container)
{
    if (!plan->options->keep_account) {
        add_variable(ed, container, "CMESH_SERVICE_ACCOUNT", INJECT_ACCOUNT_DIR);
        add_variable(ed, container, "CMESH_NAMESPACE", plan->ns);
        inject_sidecars_mount(ed, container, INJECT_ACCOUNT_VOLUME, INJECT_ACCOUNT_DIR, false);
    }
}

/* Without --proxy, whose default is where localproxy listens: https from the release on that has
 * both on one port, http before. */
static cJSON *kubeconfig_container(struct edit *ed, const struct inject_plan *plan)
{
    cJSON *c =
        new_container(ed, plan, SIDECAR_KUBECONFIG, "kubeconfig-gen", &plan->settings->others);
    add_access(ed, plan, c);
    cJSON *args = edit_array(ed, c, "args");
    edit_append_string(ed, args, "--output=" INJECT_KUBECONFIG);
    edit_append_string(ed, args, "--shared");
    add_account(ed, plan, c);
    add_variable(ed, c, "CMESH_LOCAL_TLS", RUN_DIR);
    inject_sidecars_mount(ed, c, INJECT_KUBECONFIG_VOLUME, INJECT_KUBECONFIG_DIR, false);
    inject_sidecars_mount(ed, c, RUN_VOLUME, RUN_DIR, false); /* for the token */
    return c;
}

static cJSON *rules_container(struct edit *ed, const struct inject_plan *plan)
{
    cJSON *c = new_container(ed, plan, SIDECAR_RULES, "rulesync", &plan->settings->others);
    cJSON *args = edit_array(ed, c, "args");
    edit_append_string(ed, args, "--once");
    edit_append_string(ed, args, "--at-start");
    edit_append_string(ed, args, "--from=" RULES_DIR);
    edit_append_string(ed, args, "--to=" COPY);
    edit_append_format(ed, args, "--shard=%s/%s", plan->ns, plan->shard);
    inject_sidecars_mount(ed, c, RULES_VOLUME, RULES_DIR, true);
    inject_sidecars_mount(ed, c, STATE_VOLUME, STATE_DIR, false);
    return c;
}

/* The kubelet tells all ordinary containers to end at the same time. The operator needs localproxy
 * for what it still has to do, such as to give its lease back. */
static void add_delay(struct edit *ed, cJSON *args, const cJSON *spec)
{
    const cJSON *grace = field_get(spec, "terminationGracePeriodSeconds");
    int seconds = cJSON_IsNumber(grace) ? grace->valueint : GRACE_SECONDS;
    seconds = seconds < 0 ? 0 : seconds > DELAY_SECONDS_MAX ? DELAY_SECONDS_MAX : seconds;
    edit_append_format(ed, args, "--shutdown-delay=%d", seconds);
}

static void add_proxy_args(struct edit *ed, const struct inject_plan *plan, const cJSON *spec,
                           cJSON *c)
{
    const struct inject_settings *s = plan->settings;
    add_access(ed, plan, c);
    cJSON *args = edit_array(ed, c, "args");
    edit_append_format(ed, args, "--listen=127.0.0.1:%d", SIDECAR_API_PORT);
    edit_append_format(ed, args, "--admin=%s:%d", s->bind, SIDECAR_ADMIN_PORT);
    edit_append_string(ed, args, "--rules=" COPY);
    edit_append_string(ed, args, "--control=" CONTROL);
    edit_append_string(ed, args, "--state=" SEEN);
    if (!s->native) {
        add_delay(ed, args, spec);
    }
    for (size_t i = 0; s->proxy_args != NULL && s->proxy_args[i] != NULL; i++) {
        if (inject_egress_passes(plan->options, s->proxy_args[i])) {
            edit_append_string(ed, args, s->proxy_args[i]);
        }
    }
}

/* As it is: what is in $() would be taken for the name of another variable. */
static void add_user_agent(struct edit *ed, const struct inject_plan *plan, cJSON *c)
{
    char value[2 * USER_AGENT_MAX + 1];
    size_t len = 0;
    const char *text = plan->options->user_agent;
    text = text == NULL ? plan->settings->user_agent : text;
    if (text == NULL || text[0] == '\0') {
        return;
    }
    for (const char *at = text; *at != '\0' && len + 2 < sizeof value; at++) {
        value[len++] = *at;
        if (*at == '$') {
            value[len++] = '$';
        }
    }
    value[len] = '\0';
    add_variable(ed, c, "CMESH_USER_AGENT", value);
}

/* What the localproxy of 0.1.0 does not know: a flag would end it, a variable is passed over. So
 * --sidecar-image may name an older release, as in the midst of an upgrade. */
static void add_later_settings(struct edit *ed, const struct inject_plan *plan, cJSON *c)
{
    char text[64];
    add_variable(ed, c, "CMESH_STATUS_LEASE", "true");
    add_variable(ed, c, "CMESH_POD_LABELS", POD_DIR "/" LABELS_FILE);
    add_variable(ed, c, "CMESH_BREAKER_STATE", BREAKERS);
    if (plan->options->rules_lease_s > 0) {
        (void)snprintf(text, sizeof text, "%u", plan->options->rules_lease_s);
        add_variable(ed, c, "CMESH_RULES_LEASE", text);
    }
    if (plan->watch_bypass) {
        add_variable(ed, c, "CMESH_WATCH_BYPASS", "true");
    }
    add_variable(ed, c, "CMESH_LOCAL_TLS", RUN_DIR);
    if (!plan->options->keep_account) {
        (void)snprintf(text, sizeof text, "localhost:%d%s", SIDECAR_TLS_PORT,
                       plan->options->by_name ? ",localhost:443" : "");
        add_variable(ed, c, "CMESH_LISTEN_TLS", text);
    }
    add_user_agent(ed, plan, c);
    if (plan->options->count_load) {
        add_variable(ed, c, "CMESH_COUNT_LOAD", "true");
    }
    add_copies(ed, c, "env", plan->egress_env);
}

static cJSON *proxy_container(struct edit *ed, const struct inject_plan *plan, const cJSON *spec)
{
    cJSON *c = new_container(ed, plan, SIDECAR_PROXY, "localproxy", &plan->settings->proxy);
    if (plan->options->resources != NULL) {
        edit_set(ed, c, "resources", cJSON_Duplicate(plan->options->resources, true));
    }
    add_proxy_args(ed, plan, spec, c);
    add_later_settings(ed, plan, c);
    add_field_variable(ed, c, "POD_NAME", "metadata.name");
    add_field_variable(ed, c, "POD_NAMESPACE", "metadata.namespace");
    add_field_variable(ed, c, "POD_UID", "metadata.uid");
    add_copies(ed, c, "env", plan->proxy_env);
    add_port(ed, c, SIDECAR_API_PORT_NAME, SIDECAR_API_PORT);
    if (!plan->options->keep_account) {
        add_port(ed, c, SIDECAR_TLS_PORT_NAME, SIDECAR_TLS_PORT);
    }
    if (plan->options->egress_port != 0) {
        add_port(ed, c, SIDECAR_EGRESS_PORT_NAME, (int)plan->options->egress_port);
    }
    add_port(ed, c, SIDECAR_ADMIN_PORT_NAME, SIDECAR_ADMIN_PORT);
    add_probe(ed, c, "startupProbe", "/readyz", SIDECAR_ADMIN_PORT, 1,
              plan->settings->start_seconds);
    add_probes(ed, c, SIDECAR_ADMIN_PORT);
    inject_sidecars_mount(ed, c, STATE_VOLUME, STATE_DIR, true);
    inject_sidecars_mount(ed, c, RUN_VOLUME, RUN_DIR, false);
    inject_sidecars_mount(ed, c, POD_VOLUME, POD_DIR, true);
    return c;
}

/* Ends when localproxy has confirmed the rules that an init container has stored, newer ones being
 * as good. The kubelet starts no further container before. It goes on after a failure too, but then
 * localproxy enforces nothing and answers nothing but errors; and without a time limit it could
 * not even delete the pod. */
static void add_gate(struct edit *ed, const struct inject_plan *plan, cJSON *c)
{
    cJSON *hook = edit_object(ed, edit_object(ed, c, "lifecycle"), "postStart");
    cJSON *command = edit_array(ed, edit_object(ed, hook, "exec"), "command");
    edit_append_string(ed, command, "rulesync");
    edit_append_string(ed, command, "--once");
    edit_append_string(ed, command, "--at-start");
    edit_append_string(ed, command, "--from=" COPY);
    edit_append_string(ed, command, "--control=" CONTROL);
    edit_append_format(ed, command, "--shard=%s/%s", plan->ns, plan->shard);
    edit_append_format(ed, command, "--timeout=%u", plan->settings->start_seconds);
}

static cJSON *rulesync_container(struct edit *ed, const struct inject_plan *plan)
{
    cJSON *c = new_container(ed, plan, SIDECAR_RULESYNC, "rulesync", &plan->settings->others);
    cJSON *args = edit_array(ed, c, "args");
    edit_append_string(ed, args, "--from=" RULES_DIR);
    edit_append_string(ed, args, "--to=" COPY);
    edit_append_string(ed, args, "--control=" CONTROL);
    edit_append_format(ed, args, "--shard=%s/%s", plan->ns, plan->shard);
    edit_append_format(ed, args, "--admin=%s:%d", plan->settings->bind, SIDECAR_RULESYNC_PORT);
    add_port(ed, c, SIDECAR_RULESYNC_PORT_NAME, SIDECAR_RULESYNC_PORT);
    add_probes(ed, c, SIDECAR_RULESYNC_PORT);
    inject_sidecars_mount(ed, c, RULES_VOLUME, RULES_DIR, true);
    inject_sidecars_mount(ed, c, STATE_VOLUME, STATE_DIR, false);
    inject_sidecars_mount(ed, c, RUN_VOLUME, RUN_DIR, false);
    return c;
}

/* The only part of the mesh that has a right in the pod; and no credential: where nothing is
 * mounted in its place, the API server adds the token of the service account to each container. */
static cJSON *nat_container(struct edit *ed, const struct inject_plan *plan)
{
    cJSON *c = new_container(ed, plan, SIDECAR_NAT_INIT, "nat-init", &plan->settings->others);
    cJSON *args = edit_array(ed, c, "args");
    edit_string(ed, c, "image", plan->settings->nat_image);
    edit_append_format(ed, args, "--except-user=%u", (unsigned)plan->settings->user);
    edit_append_format(ed, args, "--to-port=%d", SIDECAR_TLS_PORT);
    add_copies(ed, c, "env", plan->access.env);
    inject_sidecars_mount(ed, c, INJECT_ACCOUNT_VOLUME, KUBE_SERVICE_ACCOUNT_DIR, true);
    cJSON *context = edit_object(ed, c, "securityContext");
    edit_bool(ed, context, "runAsNonRoot", false);
    edit_number(ed, context, "runAsUser", 0);
    edit_number(ed, context, "runAsGroup", 0);
    cJSON *capabilities = edit_object(ed, context, "capabilities");
    edit_append_string(ed, edit_array(ed, capabilities, "add"), "NET_ADMIN");
    return c;
}

static void add_containers(struct edit *ed, const struct inject_plan *plan, cJSON *spec)
{
    const char *const *more = plan->settings->env;
    cJSON *init = edit_array(ed, spec, "initContainers");
    cJSON *proxy = proxy_container(ed, plan, spec);
    cJSON *rulesync = rulesync_container(ed, plan);
    cJSON *kubeconfig = kubeconfig_container(ed, plan);
    cJSON *rules = rules_container(ed, plan);
    inject_environment_add(ed, more, true, proxy);
    inject_environment_add(ed, more, false, rulesync);
    inject_environment_add(ed, more, false, kubeconfig);
    inject_environment_add(ed, more, false, rules);
    edit_append(ed, init, kubeconfig);
    edit_append(ed, init, rules);
    if (plan->options->nat) {
        edit_append(ed, init, nat_container(ed, plan));
    }
    if (plan->settings->native) {
        edit_string(ed, proxy, "restartPolicy", "Always");
        edit_string(ed, rulesync, "restartPolicy", "Always");
        edit_append(ed, init, proxy);
        edit_append(ed, init, rulesync);
        return;
    }
    cJSON *list = edit_array(ed, spec, "containers");
    add_gate(ed, plan, rulesync);
    edit_prepend(ed, list, rulesync);
    edit_prepend(ed, list, proxy);
}

/* ---- the volumes ---- */

/* In memory: nothing of it is worth keeping longer than the pod, and a disk that is full does not
 * matter; and such a pod does not keep a cluster autoscaler from emptying the node. */
static void add_empty_dir(struct edit *ed, cJSON *list, const char *name, const char *size)
{
    cJSON *volume = edit_append_object(ed, list);
    edit_string(ed, volume, "name", name);
    cJSON *source = edit_object(ed, volume, "emptyDir");
    edit_string(ed, source, "medium", "Memory");
    edit_string(ed, source, "sizeLimit", size);
}

/* The pod's labels, by which traffic policies select it: the kubelet writes them anew when they
 * change, so that nobody has to ask the API server for them. */
static void add_labels_volume(struct edit *ed, cJSON *list)
{
    cJSON *volume = edit_append_object(ed, list);
    edit_string(ed, volume, "name", POD_VOLUME);
    cJSON *items = edit_array(ed, edit_object(ed, volume, "downwardAPI"), "items");
    cJSON *item = edit_append_object(ed, items);
    edit_string(ed, item, "path", LABELS_FILE);
    edit_string(ed, edit_object(ed, item, "fieldRef"), "fieldPath", "metadata.labels");
}

static void add_volumes(struct edit *ed, const struct inject_plan *plan, cJSON *spec)
{
    cJSON *list = edit_array(ed, spec, "volumes");
    cJSON *rules = edit_append_object(ed, list);
    edit_string(ed, rules, "name", RULES_VOLUME);
    cJSON *source = edit_object(ed, rules, "configMap");
    char name[512] = RULES_MAP_PREFIX;
    strncat(name, plan->shard, sizeof name - sizeof RULES_MAP_PREFIX);
    edit_string(ed, source, "name", name);
    edit_bool(ed, source, "optional", true);
    add_empty_dir(ed, list, STATE_VOLUME, "32Mi");
    add_empty_dir(ed, list, RUN_VOLUME, "4Mi");
    add_labels_volume(ed, list);
    add_empty_dir(ed, list, INJECT_KUBECONFIG_VOLUME, "1Mi");
    if (!plan->options->keep_account) {
        add_empty_dir(ed, list, INJECT_ACCOUNT_VOLUME, "1Mi");
    }
}

static void add_pull_secrets(struct edit *ed, const struct inject_plan *plan, cJSON *spec)
{
    const char *const *names = plan->settings->pull_secrets;
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        cJSON *list = edit_array(ed, spec, "imagePullSecrets");
        if (edit_find(list, "name", names[i]) == NULL) {
            edit_string(ed, edit_append_object(ed, list), "name", names[i]);
        }
    }
}

void inject_sidecars_add(struct edit *ed, const struct inject_plan *plan, cJSON *spec)
{
    add_pull_secrets(ed, plan, spec);
    add_containers(ed, plan, spec);
    add_volumes(ed, plan, spec);
}

/* ---- what is there ---- */

static bool has_container(const cJSON *spec, const char *name)
{
    return edit_find(field_get(spec, "initContainers"), "name", name) != NULL ||
           edit_find(field_get(spec, "containers"), "name", name) != NULL;
}

static bool has_volume(const cJSON *spec, const char *name)
{
    return edit_find(field_get(spec, "volumes"), "name", name) != NULL;
}

const char *inject_sidecars_taken(const cJSON *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(containers); i++) {
        if (has_container(spec, containers[i])) {
            return containers[i];
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(volumes); i++) {
        if (has_volume(spec, volumes[i])) {
            return volumes[i];
        }
    }
    return NULL;
}

const char *inject_sidecars_missing(const cJSON *spec, bool nat)
{
    for (size_t i = 0; i < ARRAY_LEN(containers); i++) {
        bool needed = nat || strcmp(containers[i], SIDECAR_NAT_INIT) != 0;
        if (needed && !has_container(spec, containers[i])) {
            return containers[i];
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(volumes); i++) {
        if (!ARRAY_HAS(later_volumes, volumes[i]) && !has_volume(spec, volumes[i])) {
            return volumes[i];
        }
    }
    return NULL;
}
