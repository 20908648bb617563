/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_operator.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "inject/inject_account.h"
#include "inject/inject_names.h"
#include "inject/inject_sidecars.h"
#include "inject/inject_variables.h"
#include "object/names.h"
#include "json/field.h"

/* ---- the kubeconfig ---- */

/* The operator must not come past localproxy by what only localproxy is to have. */
static void hide_volume(cJSON *container, const char *volume)
{
    cJSON *mounts = cJSON_GetObjectItemCaseSensitive(container, "volumeMounts");
    cJSON *next = cJSON_IsArray(mounts) && volume[0] != '\0' ? mounts->child : NULL;
    while (next != NULL) {
        cJSON *mount = next;
        next = next->next;
        if (strcmp(field_text(mount, "name"), volume) == 0) {
            cJSON_Delete(cJSON_DetachItemViaPointer(mounts, mount));
        }
    }
}

/* `--kubeconfig=PATH`, or PATH alone behind the flag. Returns what stands in its place. */
static const cJSON *replace_argument(struct edit *ed, cJSON *list, const cJSON *item,
                                     const char *path)
{
    int flag = (int)(path - item->valuestring);
    char text[INJECT_PATH_SIZE];
    (void)snprintf(text, sizeof text, "%.*s%s", flag, item->valuestring, INJECT_KUBECONFIG);
    cJSON *made = cJSON_CreateString(text);
    edit_replace(ed, list, (cJSON *)item, made);
    return ed->rc == 0 ? made : NULL;
}

/* Whether there was one. */
static bool replace_arguments(struct edit *ed, cJSON *list)
{
    bool found = false;
    const char *path = NULL;
    const cJSON *item = cJSON_IsArray(list) ? list->child : NULL;
    while (ed->rc == 0 && (item = inject_access_argument(item, &path)) != NULL) {
        found = true;
        if (strcmp(path, INJECT_KUBECONFIG) != 0) {
            item = replace_argument(ed, list, item, path);
        }
        item = item == NULL ? NULL : item->next;
    }
    return found;
}

/* A program that a shell is told to run does not get the shell's arguments. */
static bool runs_a_shell(const cJSON *command, const cJSON *args)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ash", "busybox"};
    const cJSON *first = command != NULL && command->child != NULL ? command->child
                         : args != NULL                            ? args->child
                                                                   : NULL;
    const char *program = cJSON_GetStringValue(first);
    const char *slash = program == NULL ? NULL : strrchr(program, '/');
    program = slash == NULL ? program : slash + 1;
    return program != NULL && ARRAY_HAS(shells, program);
}

static void append_argument(struct edit *ed, cJSON *container, struct warnings *warnings)
{
    const cJSON *command = field_get(container, "command");
    const cJSON *args = field_get(container, "args");
    const char *why = NULL;
    if (cJSON_GetArraySize(command) == 0 && cJSON_GetArraySize(args) == 0) {
        why = "has neither command nor args, which would replace those of the image";
    } else if (runs_a_shell(command, args)) {
        why = "runs a shell";
    }
    if (why != NULL) {
        warnings_add(
            warnings,
            "spec.containers[%.63s]: %s: --kubeconfig was not added, only KUBECONFIG is set",
            field_text(container, "name"), why);
        return;
    }
    edit_append_string(ed, edit_array(ed, container, "args"), "--kubeconfig=" INJECT_KUBECONFIG);
}

/* cJSON: the first item's `prev` is the last one. */
static bool is_alone(const cJSON *container)
{
    return container->next == NULL && container->prev == container;
}

/* A program that does not know the flag would not start. So only that container gets it which is
 * the operator for certain: one that the pod names, or the only one. */
static bool takes_flag(const struct inject_options *o, const cJSON *container)
{
    return o->containers != NULL || is_alone(container) ||
           (o->default_container != NULL &&
            strcmp(o->default_container, field_text(container, "name")) == 0);
}

/* Of the containers that may be the operator and got no flag. */
static void warn_of_flagless(const struct inject_names *f, const struct inject_options *o,
                             struct warnings *warnings)
{
    if (f->len > 0) {
        warnings_add(warnings,
                     "spec.containers[%s]: --kubeconfig was not added, %s: if this is the "
                     "operator, name it in the annotation %s/operator-containers",
                     f->text, o->keep_env ? "nor KUBECONFIG" : "only KUBECONFIG is set", o->prefix);
    }
}

static void set_arguments(struct edit *ed, const struct inject_options *o, cJSON *container,
                          struct inject_names *flagless, struct warnings *warnings)
{
    bool in_command = replace_arguments(ed, cJSON_GetObjectItemCaseSensitive(container, "command"));
    bool replaced =
        replace_arguments(ed, cJSON_GetObjectItemCaseSensitive(container, "args")) || in_command;
    if (replaced || !o->add_args) {
        return;
    }
    if (takes_flag(o, container)) {
        append_argument(ed, container, warnings);
    } else {
        inject_names_add(flagless, field_text(container, "name"));
    }
}

void inject_operator_lead(struct edit *ed, const struct inject_options *o,
                          const struct inject_access *a, cJSON *spec, struct warnings *warnings)
{
    struct inject_names flagless = {.len = 0};
    cJSON *list = edit_array(ed, spec, "containers");
    cJSON *container;
    cJSON_ArrayForEach(container, list)
    {
        if (!inject_access_concerns(o, container)) {
            continue;
        }
        hide_volume(container, a->hidden);
        inject_sidecars_mount(ed, container, INJECT_KUBECONFIG_VOLUME, INJECT_KUBECONFIG_DIR, true);
        if (!o->keep_account) {
            inject_account_lead(ed, o, container);
        }
        if (!o->keep_env) {
            inject_variables_set(ed, container, "KUBECONFIG", INJECT_KUBECONFIG);
        }
        if (!o->keep_args) {
            set_arguments(ed, o, container, &flagless, warnings);
        }
    }
    warn_of_flagless(&flagless, o, warnings);
    if (o->keep_env && o->keep_args && o->keep_account) {
        warnings_add(warnings, "spec.containers: neither KUBECONFIG nor --kubeconfig was set: "
                               "without " INJECT_KUBECONFIG " the operator bypasses localproxy");
    }
}

bool inject_operator_leaves_out(const struct inject_options *o, const cJSON *spec)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(spec, "initContainers"))
    {
        if (strcmp(field_text(container, "restartPolicy"), "Always") == 0) {
            return true;
        }
    }
    cJSON_ArrayForEach(container, field_get(spec, "containers"))
    {
        if (!inject_access_concerns(o, container)) {
            return true;
        }
    }
    return false;
}

bool inject_operator_is_all(const struct inject_options *o, const cJSON *spec)
{
    return !inject_operator_leaves_out(o, spec) &&
           (o->containers != NULL || cJSON_GetArraySize(field_get(spec, "containers")) == 1);
}

/* ---- logs ---- */

static bool is_sidecar(const cJSON *container)
{
    const char *name = field_text(container, "name");
    return strcmp(name, SIDECAR_PROXY) == 0 || strcmp(name, SIDECAR_RULESYNC) == 0;
}

const char *inject_operator_volume_at(const cJSON *containers, const char *path)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, containers)
    {
        if (is_sidecar(container)) {
            continue;
        }
        const cJSON *mount = edit_find(cJSON_GetObjectItemCaseSensitive(container, "volumeMounts"),
                                       "mountPath", path);
        if (mount != NULL) {
            return field_text(mount, "name");
        }
    }
    return NULL;
}

void inject_operator_share_logs(struct edit *ed, const struct inject_options *o, cJSON *spec)
{
    if (o->log_path == NULL) {
        return;
    }
    cJSON *list = edit_array(ed, spec, "containers");
    const char *name = inject_operator_volume_at(list, o->log_path);
    if (name == NULL) {
        name = INJECT_LOGS_VOLUME;
        cJSON *volume = edit_append_object(ed, edit_array(ed, spec, "volumes"));
        edit_string(ed, volume, "name", INJECT_LOGS_VOLUME);
        (void)edit_object(ed, volume, "emptyDir");
    }
    cJSON *container;
    cJSON_ArrayForEach(container, list)
    {
        cJSON *mounts = edit_array(ed, container, "volumeMounts");
        if (edit_find(mounts, "mountPath", o->log_path) == NULL) {
            inject_sidecars_mount(ed, container, name, o->log_path, false);
        }
    }
}
