/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/decimal.h"
#include "base/xalloc.h"
#include "control/status.h"
#include "inject/inject_hints.h"
#include "inject/inject_paths.h"
#include "kube/user_agent.h"
#include "object/names.h"
#include "schema/schema.h"
#include "json/field.h"
#include "json/json.h"

struct source {
    const char *prefix;
    const cJSON *labels;
    const cJSON *annotations;
    struct err *e;
};

/* NULL: it is not given; nor is one that inject_hints.c would call unknown, so that it cannot be
 * forgotten there. */
static const char *get(const struct source *s, const char *name)
{
    char key[NAMES_KEY_SIZE];
    if (!inject_hints_knows(name)) {
        return NULL;
    }
    (void)names_key(s->prefix, name, key);
    const char *text = cJSON_GetStringValue(field_get(s->annotations, key));
    return text != NULL ? text : cJSON_GetStringValue(field_get(s->labels, key));
}

static int invalid_annotation(const struct source *s, const char *name, const char *why)
{
    return err_set(s->e, -EINVAL, "metadata.annotations[%s/%s]: Invalid value: %s", s->prefix, name,
                   why);
}

int inject_options_invalid(const struct inject_options *o, const char *name, struct err *e,
                           const char *fmt, ...)
{
    char why[ERR_MSG_MAX];
    const struct source s = {.prefix = o->prefix, .e = e};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return invalid_annotation(&s, name, why);
}

static int read_switch(const struct source *s, const char *name, bool *out)
{
    const char *text = get(s, name);
    *out = text != NULL && strcmp(text, "true") == 0;
    return text == NULL || *out || strcmp(text, "false") == 0 || text[0] == '\0'
               ? 0
               : invalid_annotation(s, name, "must be \"true\" or \"false\"");
}

static int read_json(const struct source *s, const char *name, cJSON **out)
{
    const char *text = get(s, name);
    struct err inner = ERR_INIT;
    *out = NULL;
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    *out = json_parse(text, strlen(text), &inner);
    xerr(&inner);
    return *out != NULL ? 0 : invalid_annotation(s, name, inner.msg);
}

/* Quantities are left to the API server, which knows all ways to write them. */
static int read_resources(const struct source *s, struct inject_options *o)
{
    static const char name[] = "proxy-resource";
    static const struct schema_field fields[] = {
        {"limits", SCHEMA_TREE, .offset = 0},
        {"requests", SCHEMA_TREE, .offset = 0},
        {"claims", SCHEMA_TREE, .offset = 0},
    };
    static const struct schema_object resources = {SCHEMA_OBJECT_OF(fields, const cJSON *)};
    const cJSON *ignored = NULL;
    struct schema_reader r = {.memory = NULL};
    int rc = read_json(s, name, &o->resources);
    const struct schema_path at = SCHEMA_AT(NULL, "", o->resources);
    if (rc != 0 || o->resources == NULL) {
        return rc;
    }
    if (!cJSON_IsObject(o->resources)) {
        return invalid_annotation(s, name, "must be an object with limits and requests");
    }
    return schema_read(&r, &resources, &at, &ignored) == 0
               ? 0
               : invalid_annotation(s, name, r.first.msg);
}

static int check_variables(const struct source *s, const cJSON *list)
{
    static const char name[] = "env-inject";
    if (list != NULL && !cJSON_IsArray(list)) {
        return invalid_annotation(s, name, "env must be a list");
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *key = cJSON_GetStringValue(field_get(item, "key"));
        if (key == NULL || key[0] == '\0' || !cJSON_IsString(field_get(item, "value"))) {
            return invalid_annotation(s, name, "each of env must have key and value, two strings");
        }
        if (strncmp(key, "KUBERNETES_SERVICE_", strlen("KUBERNETES_SERVICE_")) == 0) {
            return invalid_annotation(s, name,
                                      "where the API server is must stand in the pod's env");
        }
    }
    return 0;
}

static int read_env_inject(const struct source *s, struct inject_options *o)
{
    static const char name[] = "env-inject";
    if (read_json(s, name, &o->env_inject) != 0) {
        return s->e->code;
    }
    if (o->env_inject != NULL && !cJSON_IsArray(o->env_inject)) {
        return invalid_annotation(s, name, "must be a list of containers");
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, o->env_inject)
    {
        if (!cJSON_IsString(field_get(item, "name"))) {
            return invalid_annotation(s, name, "each entry must have the name of a container");
        }
        if (check_variables(s, field_get(item, "env")) != 0) {
            return s->e->code;
        }
    }
    return 0;
}

static int read_log_path(const struct source *s, struct inject_options *o)
{
    o->log_path = get(s, "log-path");
    if (o->log_path == NULL) {
        return 0;
    }
    if (o->log_path[0] != '/' || o->log_path[1] == '\0') {
        return invalid_annotation(s, "log-path", "must be an absolute path");
    }
    const char *why = inject_paths_refuse(o->log_path);
    return why == NULL ? 0 : invalid_annotation(s, "log-path", why);
}

/* Empty: the operator has its own, whatever the shard says. */
static int read_user_agent(const struct source *s, struct inject_options *o)
{
    o->user_agent = get(s, SIDECAR_USER_AGENT);
    bool none = o->user_agent == NULL || o->user_agent[0] == '\0';
    const char *why = none ? NULL : user_agent_check(slice_str(o->user_agent));
    return why == NULL ? 0 : invalid_annotation(s, SIDECAR_USER_AGENT, why);
}

/* What the pod says goes before what the shard does. */
static int read_count_load(const struct source *s, const struct inject_settings *settings,
                           struct inject_options *o)
{
    const char *said = get(s, SIDECAR_COUNT_LOAD);
    int rc = read_switch(s, SIDECAR_COUNT_LOAD, &o->count_load);
    if (said == NULL || said[0] == '\0') {
        o->count_load = settings->count_load;
    }
    return rc;
}

/* Who asks for another way than by the kubeconfig needs the folder for it. */
static bool keeps_account(const struct inject_settings *settings, const struct inject_options *o)
{
    return o->keep_account ||
           (settings->keep_account && !o->said_account && !o->by_name && !o->nat);
}

static int read_account(const struct source *s, const struct inject_settings *settings,
                        struct inject_options *o)
{
    static const char name[] = "service-account-path";
    if (read_switch(s, SIDECAR_KEEP_ACCOUNT, &o->keep_account) != 0 ||
        read_switch(s, SIDECAR_BY_NAME, &o->by_name) != 0 ||
        read_switch(s, SIDECAR_NAT, &o->nat) != 0) {
        return s->e->code;
    }
    const char *said = get(s, SIDECAR_KEEP_ACCOUNT);
    o->said_account = said != NULL && said[0] != '\0';
    o->keep_account = keeps_account(settings, o);
    o->account_path = get(s, name);
    if (o->account_path == NULL) {
        return 0;
    }
    if (o->account_path[0] != '/' || o->account_path[1] == '\0') {
        return invalid_annotation(s, name, "must be an absolute path");
    }
    const char *why = inject_paths_refuse(o->account_path);
    return why == NULL ? 0 : invalid_annotation(s, name, why);
}

static int read_egress(const struct source *s, struct inject_options *o)
{
    static const struct {
        const char *text;
        enum inject_egress_way way;
    } known[] = {
        {"", EGRESS_UNSAID}, {"off", EGRESS_OFF}, {"proxy", EGRESS_PROXY}, {"chain", EGRESS_CHAIN}};
    const char *text = get(s, SIDECAR_EGRESS);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(text == NULL ? "" : text, known[i].text) == 0) {
            o->egress = known[i].way;
            return 0;
        }
    }
    return invalid_annotation(s, SIDECAR_EGRESS, "must be \"proxy\", \"chain\" or \"off\"");
}

static int read_rules_lease(const struct source *s, const struct inject_settings *settings,
                            struct inject_options *o)
{
    char why[64];
    const char *text = get(s, SIDECAR_RULES_LEASE);
    uint64_t seconds = settings->rules_lease_s;
    bool good = true;
    if (text != NULL && text[0] != '\0') {
        seconds = decimal_or_zero(slice_str(text));
        good = strcmp(text, "0") == 0 ||
               (seconds >= CONTROL_RULES_LEASE_MIN_S && seconds <= CONTROL_RULES_LEASE_MAX_S);
    }
    if (!good) {
        (void)snprintf(why, sizeof why, "must be \"0\", or seconds from %d to %d",
                       CONTROL_RULES_LEASE_MIN_S, CONTROL_RULES_LEASE_MAX_S);
        return invalid_annotation(s, SIDECAR_RULES_LEASE, why);
    }
    o->rules_lease_s = (unsigned)seconds;
    return 0;
}

/* An operator that keeps the pod's service account is not led in any other way; else a program that
 * does not know the flag is led as well, and would not start with it. */
static int read_arguments(const struct source *s, struct inject_options *o)
{
    static const char name[] = "disable-fake-kubeconfig-arg";
    int rc = read_switch(s, name, &o->keep_args);
    o->add_args = !o->keep_args && (get(s, name) != NULL || o->keep_account);
    return rc;
}

static void read_containers(const struct source *s, struct inject_options *o)
{
    char *rest = NULL;
    o->containers = get(s, "operator-containers");
    inject_index_init(&o->named);
    o->named_text = xstrdup(o->containers == NULL ? "" : o->containers);
    for (char *name = strtok_r(o->named_text, ", ", &rest); name != NULL;
         name = strtok_r(NULL, ", ", &rest)) {
        if (inject_index_find(&o->named, name) == NULL) {
            inject_index_add(&o->named, name, NULL);
        }
    }
}

static int read_all(const struct source *s, const struct inject_settings *settings,
                    struct inject_options *o)
{
    o->injected = get(s, SIDECAR_INJECTED);
    o->kubeconfig_volume = get(s, "kubeconfig-volume");
    o->env_sync = get(s, "env-sync");
    read_containers(s, o);
    o->default_container =
        cJSON_GetStringValue(field_get(s->annotations, "kubectl.kubernetes.io/default-container"));
    bool read = read_account(s, settings, o) == 0 && read_arguments(s, o) == 0 &&
                read_switch(s, "disable-fake-kubeconfig-env", &o->keep_env) == 0 &&
                read_log_path(s, o) == 0 && read_env_inject(s, o) == 0 &&
                read_resources(s, o) == 0 && read_egress(s, o) == 0 && read_user_agent(s, o) == 0 &&
                read_rules_lease(s, settings, o) == 0 && read_count_load(s, settings, o) == 0;
    return read ? 0 : s->e->code;
}

int inject_options_init(struct inject_options *o, const struct inject_settings *settings,
                        const cJSON *pod, struct err *e)
{
    const cJSON *meta = field_get(pod, "metadata");
    const struct source s = {.prefix = settings->prefix,
                             .labels = field_get(meta, "labels"),
                             .annotations = field_get(meta, "annotations"),
                             .e = e};
    *o = (struct inject_options){.prefix = settings->prefix};
    int rc = read_all(&s, settings, o);
    if (rc != 0) {
        inject_options_deinit(o);
    }
    return rc;
}

void inject_options_deinit(struct inject_options *o)
{
    inject_index_deinit(&o->named);
    free(o->named_text);
    o->named_text = NULL;
    cJSON_Delete(o->env_inject);
    cJSON_Delete(o->resources);
    o->env_inject = NULL;
    o->resources = NULL;
}

bool inject_options_lists(const char *list, const char *name)
{
    size_t len = strlen(name);
    while (*list != '\0') {
        list += strspn(list, ", ");
        size_t n = strcspn(list, ", ");
        if (n == len && len > 0 && memcmp(list, name, len) == 0) {
            return true;
        }
        list += n;
    }
    return false;
}
