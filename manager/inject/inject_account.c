/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_account.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "inject/inject_access.h"
#include "inject/inject_names.h"
#include "inject/inject_paths.h"
#include "inject/inject_sidecars.h"
#include "inject/inject_variables.h"
#include "kube/access/access.h"
#include "object/names.h"
#include "json/field.h"

bool inject_account_is_folder(const char *path)
{
    return inject_paths_equal(path, KUBE_SERVICE_ACCOUNT_DIR);
}

/* Where the operator's containers get it. */
static bool is_place(const struct inject_options *o, const char *path)
{
    return inject_account_is_folder(path) ||
           (o->account_path != NULL && inject_paths_equal(path, o->account_path));
}

/* There, or in it. */
static bool is_in_place(const struct inject_options *o, const char *path)
{
    return inject_paths_in_linked(path, KUBE_SERVICE_ACCOUNT_DIR) ||
           (o->account_path != NULL && inject_paths_in_linked(path, o->account_path));
}

void inject_account_settle(struct inject_options *o, const struct inject_access *a,
                           struct warnings *warnings)
{
    if (o->keep_account || o->said_account || a->kubeconfig[0] == '\0') {
        return;
    }
    o->keep_account = true;
    warnings_add(warnings,
                 "spec.containers: the operator is led by its own kubeconfig, and keeps the pod's "
                 "service account: what uses that bypasses localproxy. If both are of one cluster, "
                 "annotate %.80s/" SIDECAR_KEEP_ACCOUNT ": \"false\"",
                 o->prefix);
}

/* ---- what is in the way ---- */

static bool has_dots(const char *path)
{
    for (const char *p = path; (p = strstr(p, "..")) != NULL; p += 2) {
        if ((p == path || p[-1] == '/') && (p[2] == '\0' || p[2] == '/')) {
            return true;
        }
    }
    return false;
}

static int check_mount(const cJSON *container, const char *path, struct err *e)
{
    if (has_dots(path)) {
        return err_set(e, -EINVAL,
                       "spec.containers[%.63s].volumeMounts: Invalid value: \"%.150s\": must not "
                       "contain \"..\"",
                       field_text(container, "name"), path);
    }
    if (inject_account_is_folder(path) || !inject_paths_in_linked(path, KUBE_SERVICE_ACCOUNT_DIR)) {
        return 0;
    }
    return err_set(
        e, -EINVAL,
        "spec.containers[%.63s].volumeMounts: Invalid value: \"%.150s\": is in the folder "
        "of the service account, in whose place the operator gets one that leads to "
        "localproxy (unless %s is \"true\")",
        field_text(container, "name"), path, SIDECAR_KEEP_ACCOUNT);
}

int inject_account_check(const struct inject_options *o, const cJSON *spec, struct err *e)
{
    const cJSON *container;
    if (!o->keep_account && o->log_path != NULL && is_in_place(o, o->log_path)) {
        return inject_options_invalid(o, "log-path", e, "is where the service account is mounted");
    }
    cJSON_ArrayForEach(container, field_get(spec, "containers"))
    {
        const cJSON *mount;
        if (o->keep_account || !inject_access_concerns(o, container)) {
            continue;
        }
        cJSON_ArrayForEach(mount, field_get(container, "volumeMounts"))
        {
            if (check_mount(container, field_text(mount, "mountPath"), e) != 0) {
                return e->code;
            }
        }
    }
    return 0;
}

/* ---- in its place ---- */

static void drop_mounts(const struct inject_options *o, cJSON *container)
{
    cJSON *mounts = cJSON_GetObjectItemCaseSensitive(container, "volumeMounts");
    cJSON *next = cJSON_IsArray(mounts) ? mounts->child : NULL;
    while (next != NULL) {
        cJSON *mount = next;
        next = next->next;
        if (is_place(o, field_text(mount, "mountPath"))) {
            cJSON_Delete(cJSON_DetachItemViaPointer(mounts, mount));
        }
    }
}

void inject_account_lead(struct edit *ed, const struct inject_options *o, cJSON *container)
{
    static const char *const ports[] = {"KUBERNETES_SERVICE_PORT_HTTPS", "KUBERNETES_SERVICE_PORT"};
    char port[16];
    (void)snprintf(port, sizeof port, "%d", SIDECAR_TLS_PORT);
    drop_mounts(o, container);
    inject_sidecars_mount(ed, container, INJECT_ACCOUNT_VOLUME, KUBE_SERVICE_ACCOUNT_DIR, true);
    if (o->account_path != NULL && !inject_account_is_folder(o->account_path)) {
        inject_sidecars_mount(ed, container, INJECT_ACCOUNT_VOLUME, o->account_path, true);
    }
    if (o->nat) {
        return; /* the address is the API server's, and leads to localproxy */
    }
    for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
        inject_variables_set_first(ed, container, ports[i], port);
    }
    inject_variables_set_first(ed, container, "KUBERNETES_SERVICE_HOST", "127.0.0.1");
}

/* ---- what is left ---- */

/* One for an audience of its own opens nothing at the API server, which is usually called so. */
static bool is_for_others(const char *audience)
{
    return audience[0] != '\0' && strstr(audience, "kubernetes.default") == NULL;
}

/* Of Secrets nobody knows here what is in them. */
static bool holds_token(const cJSON *volume)
{
    const cJSON *source;
    cJSON_ArrayForEach(source, field_get(field_get(volume, "projected"), "sources"))
    {
        const cJSON *token = field_get(source, "serviceAccountToken");
        if (token != NULL && !is_for_others(field_text(token, "audience"))) {
            return true;
        }
    }
    return false;
}

static void note_tokens_of(const struct inject_options *o, const cJSON *spec,
                           const cJSON *container, struct warnings *warnings)
{
    const cJSON *mount;
    cJSON_ArrayForEach(mount, field_get(container, "volumeMounts"))
    {
        const char *path = field_text(mount, "mountPath");
        const char *name = field_text(mount, "name");
        if (!is_place(o, path) &&
            holds_token(edit_find(field_get(spec, "volumes"), "name", name))) {
            warnings_add(
                warnings,
                "spec.containers[%.40s]: what is at %.60s holds a token for the API server, "
                "which bypasses localproxy: name it in %.60s/service-account-path",
                field_text(container, "name"), path, o->prefix);
        }
    }
}

void inject_account_note_tokens(const struct inject_options *o, const cJSON *spec,
                                struct warnings *warnings)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(spec, "containers"))
    {
        if (!o->keep_account && inject_access_concerns(o, container)) {
            note_tokens_of(o, spec, container, warnings);
        }
    }
}
