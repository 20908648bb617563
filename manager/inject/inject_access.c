/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "inject/inject_paths.h"
#include "object/json_patch.h"
#include "json/edit.h"
#include "json/field.h"

#define TOKEN_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
#define CLUSTER_DIR INJECT_ETC_DIR "/cluster"

struct search {
    struct inject_access *access;
    const struct inject_options *options;
    const cJSON *spec;
    const char *ours;
    const cJSON *taken; /* the container whose kubeconfig was looked at last */
    struct edit edit;
    struct err *e;
};

/* The variable of that name: of several the last one counts. */
static const cJSON *find_variable(const cJSON *container, const char *name)
{
    const cJSON *found = NULL;
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(container, "env"))
    {
        found = strcmp(field_text(item, "name"), name) == 0 ? item : found;
    }
    return found;
}

bool inject_access_concerns(const struct inject_options *o, const cJSON *container)
{
    return o->containers == NULL ||
           inject_index_find(&o->named, field_text(container, "name")) != NULL;
}

const cJSON *inject_access_argument(const cJSON *item, const char **path)
{
    static const char flag[] = "-kubeconfig";
    for (; item != NULL; item = item->next) {
        const char *text = cJSON_GetStringValue(item);
        if (text == NULL) {
            continue;
        }
        text += strncmp(text, "--", 2) == 0 ? 1 : 0;
        if (strncmp(text, flag, sizeof flag - 1) != 0) {
            continue;
        }
        const char *rest = text + sizeof flag - 1;
        if (*rest == '=') {
            *path = rest + 1;
            return item;
        }
        const char *next = cJSON_GetStringValue(item->next);
        if (*rest == '\0' && next != NULL) {
            *path = next;
            return item->next;
        }
    }
    return NULL;
}

static const cJSON *first_item(const cJSON *container, const char *key)
{
    const cJSON *list = field_get(container, key);
    return cJSON_IsArray(list) ? list->child : NULL;
}

/* ---- the operator's own kubeconfig ---- */

/* Bytes of `path` that the mount stands for; 0: it is not in there. */
static size_t covers(const cJSON *mount, const char *path)
{
    const char *dir = field_text(mount, "mountPath");
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    return len > 0 && strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0') ? len
                                                                                              : 0;
}

static const cJSON *find_mount(const cJSON *container, const char *path)
{
    const cJSON *best = NULL;
    size_t most = 0;
    const cJSON *mount;
    cJSON_ArrayForEach(mount, field_get(container, "volumeMounts"))
    {
        size_t len = covers(mount, path);
        best = len > most ? mount : best;
        most = len > most ? len : most;
    }
    return best;
}

static int refuse_kubeconfig(const struct search *s, const cJSON *container, const char *path,
                             const char *why)
{
    return err_set(s->e, -EINVAL,
                   "spec.containers[%.63s]: its kubeconfig \"%.150s\" %s: localproxy needs it "
                   "instead of the container",
                   field_text(container, "name"), path, why);
}

/* Returns the copy of it. */
static cJSON *add_mount(struct search *s, const cJSON *mount)
{
    cJSON *copy = cJSON_Duplicate(mount, true);
    edit_append(&s->edit, s->access->mounts, copy);
    edit_bool(&s->edit, copy, "readOnly", true);
    return copy;
}

/* All containers must mean the same file, for there is one localproxy. */
static int check_same(const struct search *s, const cJSON *container, const cJSON *mount,
                      const char *path)
{
    const cJSON *first = s->access->mounts->child;
    bool same = strcmp(s->access->kubeconfig, path) == 0 &&
                strcmp(field_text(first, "name"), field_text(mount, "name")) == 0 &&
                strcmp(field_text(first, "subPath"), field_text(mount, "subPath")) == 0;
    return same ? 0
                : refuse_kubeconfig(s, container, path, "differs from that of another container");
}

static int take_path(struct search *s, const cJSON *container, const char *path)
{
    struct inject_access *a = s->access;
    if (path[0] == '\0' || strcmp(path, s->ours) == 0) {
        return 0;
    }
    if (container == s->taken && strcmp(path, a->kubeconfig) == 0) {
        return 0;
    }
    if (strstr(path, "$(") != NULL || strchr(path, ':') != NULL) {
        return refuse_kubeconfig(s, container, path, "must be one path, without variables");
    }
    const cJSON *mount = path[0] == '/' ? find_mount(container, path) : NULL;
    if (mount == NULL || strlen(path) >= sizeof a->kubeconfig) {
        return refuse_kubeconfig(s, container, path, "is in none of its volumes");
    }
    if (field_get(mount, "subPathExpr") != NULL) {
        return refuse_kubeconfig(s, container, path, "is mounted with subPathExpr");
    }
    if (inject_paths_refuse(field_text(mount, "mountPath")) != NULL) {
        return refuse_kubeconfig(s, container, path, "is mounted over a folder of the sidecars");
    }
    s->taken = container;
    if (a->kubeconfig[0] != '\0') {
        return check_same(s, container, mount, path);
    }
    (void)snprintf(a->kubeconfig, sizeof a->kubeconfig, "%s", path);
    (void)add_mount(s, mount);
    return 0;
}

static int take_environment(struct search *s, const cJSON *container)
{
    const cJSON *variable = find_variable(container, "KUBECONFIG");
    if (variable == NULL || s->options->keep_env) {
        return 0;
    }
    if (field_get(variable, "valueFrom") != NULL) {
        return refuse_kubeconfig(s, container, "$KUBECONFIG", "comes from another source");
    }
    return take_path(s, container, field_text(variable, "value"));
}

static int take_arguments(struct search *s, const cJSON *container)
{
    static const char *const lists[] = {"command", "args"};
    int rc = 0;
    for (size_t i = 0; i < 2 && !s->options->keep_args; i++) {
        const char *path = "";
        const cJSON *item = first_item(container, lists[i]);
        while (rc == 0 && (item = inject_access_argument(item, &path)) != NULL) {
            rc = take_path(s, container, path);
            item = item->next;
        }
    }
    return rc;
}

/* ---- a volume that holds it ---- */

/* The only file of a ConfigMap or Secret that the volume shows, if it says which. */
static const char *only_item(const cJSON *volume)
{
    const cJSON *source = field_get(volume, "configMap");
    source = source != NULL ? source : field_get(volume, "secret");
    const cJSON *items = field_get(source, "items");
    return cJSON_GetArraySize(items) == 1 ? field_text(items->child, "path") : "";
}

/* Where in the volume the file is that a container of the operator was given. */
static const char *used_file(const struct search *s, const char *volume)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(s->spec, "containers"))
    {
        const char *path = field_text(find_variable(container, "KUBECONFIG"), "value");
        (void)inject_access_argument(first_item(container, "command"), &path);
        (void)inject_access_argument(first_item(container, "args"), &path);
        const cJSON *mount = find_mount(container, path);
        if (mount != NULL && strcmp(field_text(mount, "name"), volume) == 0 &&
            field_get(mount, "subPath") == NULL) {
            path += covers(mount, path);
            return path + strspn(path, "/");
        }
    }
    return "";
}

static int refuse_volume(const struct search *s, const char *why)
{
    return inject_options_invalid(s->options, "kubeconfig-volume", s->e, "\"%.150s\": %s",
                                  s->options->kubeconfig_volume, why);
}

/* VOLUME or VOLUME/FILE. */
static int take_volume(struct search *s)
{
    struct inject_access *a = s->access;
    const char *given = s->options->kubeconfig_volume;
    size_t len = strcspn(given, "/");
    (void)snprintf(a->hidden, sizeof a->hidden, "%.*s", (int)len, given);
    const cJSON *volume = edit_find(field_get(s->spec, "volumes"), "name", a->hidden);
    if (volume == NULL) {
        return refuse_volume(s, "the pod has no such volume");
    }
    const char *file = given[len] == '/' ? given + len + 1 : only_item(volume);
    file = file[0] != '\0' ? file : used_file(s, a->hidden);
    if (file[0] == '\0' || strstr(file, "..") != NULL) {
        return refuse_volume(
            s, "cannot determine which file of it: set VOLUME/FILE with an annotation");
    }
    int n = snprintf(a->kubeconfig, sizeof a->kubeconfig, CLUSTER_DIR "/%s", file);
    if (n < 0 || (size_t)n >= sizeof a->kubeconfig) {
        return refuse_volume(s, "the path is too long");
    }
    cJSON *mount = edit_append_object(&s->edit, a->mounts);
    edit_string(&s->edit, mount, "name", a->hidden);
    edit_string(&s->edit, mount, "mountPath", CLUSTER_DIR);
    edit_bool(&s->edit, mount, "readOnly", true);
    return 0;
}

/* ---- the service account ---- */

static const cJSON *find_folder(const struct search *s, const char *path)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(s->spec, "containers"))
    {
        const cJSON *mount;
        if (!inject_access_concerns(s->options, container)) {
            continue;
        }
        cJSON_ArrayForEach(mount, field_get(container, "volumeMounts"))
        {
            if (inject_paths_equal(field_text(mount, "mountPath"), path)) {
                return mount;
            }
        }
    }
    return NULL;
}

/* The operator's own folder, wherever it has it. */
static const cJSON *find_token(const struct search *s)
{
    const char *other = s->options->account_path;
    const cJSON *mount = find_folder(s, TOKEN_DIR);
    return mount != NULL || other == NULL ? mount : find_folder(s, other);
}

static void add_token_mount(struct search *s, const cJSON *mount)
{
    edit_string(&s->edit, add_mount(s, mount), "mountPath", TOKEN_DIR);
}

/* A kubeconfig may name the token's file. */
static void add_token(struct search *s)
{
    const cJSON *mount = find_token(s);
    const cJSON *other = s->access->mounts->child;
    bool there = mount == NULL || (other != NULL && strcmp(field_text(mount, "mountPath"),
                                                           field_text(other, "mountPath")) == 0);
    if (!there) {
        add_token_mount(s, mount);
    }
}

static int take_service_account(struct search *s, struct warnings *warnings)
{
    const cJSON *mount = find_token(s);
    if (mount != NULL) {
        add_token_mount(s, mount);
        return 0;
    }
    if (cJSON_IsFalse(field_get(s->spec, "automountServiceAccountToken"))) {
        return err_set(s->e, -EINVAL,
                       "spec.automountServiceAccountToken: Invalid value: false: localproxy needs "
                       "the token, or a kubeconfig in one of the operator's volumes");
    }
    warnings_add(warnings, "spec.containers: none mounts a service account token: localproxy, "
                           "which uses the operator's identity, may have none either");
    return 0;
}

/* ---- where the API server is ---- */

static int take_variable(struct search *s, const cJSON *container, const char *name)
{
    const cJSON *variable = find_variable(container, name);
    const cJSON *known = edit_find(s->access->env, "name", name);
    if (variable == NULL || (known != NULL && json_patch_equal(variable, known))) {
        return 0;
    }
    if (known != NULL) {
        return err_set(
            s->e, -EINVAL,
            "spec.containers[%.63s].env[%s]: Invalid value: differs from that of another container",
            field_text(container, "name"), name);
    }
    if (strstr(field_text(variable, "value"), "$(") != NULL) {
        return err_set(s->e, -EINVAL,
                       "spec.containers[%.63s].env[%s]: Invalid value: \"%.100s\": localproxy, "
                       "which needs it too, does not have the variables that it refers to",
                       field_text(container, "name"), name, field_text(variable, "value"));
    }
    edit_append(&s->edit, s->access->env, cJSON_Duplicate(variable, true));
    return 0;
}

static int take_container(struct search *s, const cJSON *container)
{
    if (s->options->kubeconfig_volume == NULL &&
        (take_environment(s, container) != 0 || take_arguments(s, container) != 0)) {
        return s->e->code;
    }
    bool taken = take_variable(s, container, "KUBERNETES_SERVICE_HOST") == 0 &&
                 take_variable(s, container, "KUBERNETES_SERVICE_PORT") == 0;
    return taken ? 0 : s->e->code;
}

static int take_all(struct search *s, struct warnings *warnings)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(s->spec, "containers"))
    {
        if (inject_access_concerns(s->options, container) && take_container(s, container) != 0) {
            return s->e->code;
        }
    }
    if (s->options->kubeconfig_volume != NULL && take_volume(s) != 0) {
        return s->e->code;
    }
    if (s->access->kubeconfig[0] == '\0') {
        return take_service_account(s, warnings);
    }
    add_token(s);
    return 0;
}

int inject_access_init(struct inject_access *a, const struct inject_options *o, const cJSON *spec,
                       const char *ours, struct warnings *warnings, struct err *e)
{
    struct search s = {.access = a, .options = o, .spec = spec, .ours = ours, .e = e};
    *a = (struct inject_access){.mounts = cJSON_CreateArray(), .env = cJSON_CreateArray()};
    int rc = take_all(&s, warnings);
    if (rc != 0) {
        inject_access_deinit(a);
    }
    return rc;
}

void inject_access_deinit(struct inject_access *a)
{
    cJSON_Delete(a->mounts);
    cJSON_Delete(a->env);
    a->mounts = NULL;
    a->env = NULL;
}
