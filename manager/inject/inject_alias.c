/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_alias.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inject/inject_account.h"
#include "inject/inject_operator.h"
#include "kube/service_names.h"
#include "object/names.h"
#include "object/server_release.h"
#include "json/field.h"

#define SYSCTL "net.ipv4.ip_unprivileged_port_start"

bool inject_alias_possible(const char *major, const char *minor)
{
    return server_release_at_least(major, minor, 22);
}

static bool is_name(const struct inject_settings *s, const char *text)
{
    char names[KUBE_SERVICE_NAMES][KUBE_SERVICE_NAME_SIZE];
    kube_service_names(slice_str(s->cluster_domain), names);
    for (size_t i = 0; i < KUBE_SERVICE_NAMES; i++) {
        if (strcasecmp(names[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what stands against it ---- */

/* NULL: the pod has none of these names in /etc/hosts. */
static const char *find_alias(const struct inject_settings *s, const cJSON *spec)
{
    const cJSON *alias;
    cJSON_ArrayForEach(alias, field_get(spec, "hostAliases"))
    {
        const cJSON *name;
        cJSON_ArrayForEach(name, field_get(alias, "hostnames"))
        {
            if (cJSON_IsString(name) && is_name(s, name->valuestring)) {
                return name->valuestring;
            }
        }
    }
    return NULL;
}

static const cJSON *find_sysctl(const cJSON *spec)
{
    return edit_find(field_get(field_get(spec, "securityContext"), "sysctls"), "name", SYSCTL);
}

/* What comes from another source may be such a name. */
static bool leads_to_itself(const struct inject_settings *s, const struct inject_access *a)
{
    const cJSON *host = edit_find(a->env, "name", "KUBERNETES_SERVICE_HOST");
    return host != NULL &&
           (field_get(host, "valueFrom") != NULL || is_name(s, field_text(host, "value")));
}

static const char *why_not(const struct inject_settings *s, const struct inject_options *o,
                           const struct inject_access *a, const cJSON *spec)
{
    if (cJSON_IsTrue(field_get(spec, "hostNetwork"))) {
        return "the pod is on the host's network, where port 443 is the node's";
    }
    if (!s->low_ports) {
        return "this needs the sysctl " SYSCTL ", which pods may set from Kubernetes 1.22 on";
    }
    if (o->keep_account) {
        return INJECT_ACCOUNT_KEPT;
    }
    if (find_alias(s, spec) != NULL) {
        return "spec.hostAliases has one of the API server's names already";
    }
    if (leads_to_itself(s, a)) {
        return "KUBERNETES_SERVICE_HOST is one of the API server's names, or may be one, by which "
               "localproxy would reach itself";
    }
    const cJSON *sysctl = find_sysctl(spec);
    if (sysctl != NULL && atoi(field_text(sysctl, "value")) > INJECT_ALIAS_PORT) {
        return "spec.securityContext.sysctls[" SYSCTL "] keeps port 443 from localproxy";
    }
    return NULL;
}

int inject_alias_check(const struct inject_settings *s, const struct inject_options *o,
                       const struct inject_access *a, const cJSON *spec, struct warnings *warnings,
                       struct err *e)
{
    const char *why = o->by_name ? why_not(s, o, a, spec) : NULL;
    if (why != NULL) {
        return inject_options_invalid(o, SIDECAR_BY_NAME, e, "\"true\": %s", why);
    }
    if (o->by_name && inject_operator_leaves_out(o, spec)) {
        warnings_add(warnings, INJECT_ACCOUNT_OTHERS SIDECAR_BY_NAME);
    }
    if (o->by_name && cJSON_GetArraySize(field_get(spec, "initContainers")) > 0) {
        warnings_add(warnings,
                     "spec.initContainers: they run before localproxy, and with " SIDECAR_BY_NAME
                     " reach the API server by its address alone");
    }
    return 0;
}

/* ---- the change ---- */

void inject_alias_add(struct edit *ed, const struct inject_settings *s, cJSON *spec)
{
    char names[KUBE_SERVICE_NAMES][KUBE_SERVICE_NAME_SIZE];
    cJSON *alias = edit_append_object(ed, edit_array(ed, spec, "hostAliases"));
    edit_string(ed, alias, "ip", "127.0.0.1");
    kube_service_names(slice_str(s->cluster_domain), names);
    for (size_t i = 0; i < KUBE_SERVICE_NAMES; i++) {
        edit_append_string(ed, edit_array(ed, alias, "hostnames"), names[i]);
    }
    if (find_sysctl(spec) == NULL) {
        cJSON *context = edit_object(ed, spec, "securityContext");
        cJSON *sysctl = edit_append_object(ed, edit_array(ed, context, "sysctls"));
        edit_string(ed, sysctl, "name", SYSCTL);
        edit_string(ed, sysctl, "value", "443");
    }
}
