/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/access_exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/secret.h"
#include "json/field.h"
#include "json/json.h"

#define EXEC_GROUP "client.authentication.k8s.io/"

enum { ARGS_MAX = 1000, CLUSTER_CONFIG_MAX = 1 << 16 };

/* With a slash it is a file beside the kubeconfig; without, a program in PATH. */
static void take_command(const struct kubeconfig_entry *user, struct kube_exec *x, struct err *e)
{
    const char *command = kubeconfig_string(user, "exec.command", e);
    if (command == NULL) {
        kubeconfig_fail(user, "exec.command", e, "the program to run is missing");
        return;
    }
    x->command =
        strchr(command, '/') != NULL ? file_resolve(user->file->path, command) : strdup(command);
    if (x->command == NULL) {
        err_memory(e);
    }
}

/* The elements of a list; NULL: there is none, or too many, or an error. */
static const cJSON *take_list(const struct kubeconfig_entry *user, const char *path,
                              const char *of_what, size_t *count, struct err *e)
{
    const cJSON *list = kubeconfig_value(user, path);
    *count = (size_t)cJSON_GetArraySize(list);
    if (list != NULL && (!cJSON_IsArray(list) || *count > ARGS_MAX)) {
        kubeconfig_fail(user, path, e, "must be a list of at most %d %s", ARGS_MAX, of_what);
    }
    return list == NULL || e->code != 0 ? NULL : list;
}

static void take_args(const struct kubeconfig_entry *user, struct kube_exec *x, struct err *e)
{
    size_t count;
    size_t i = 0;
    const cJSON *item;
    const cJSON *list = take_list(user, "exec.args", "strings", &count, e);
    x->args = list == NULL ? NULL : calloc(count + 1, sizeof *x->args);
    if (list != NULL && x->args == NULL) {
        err_memory(e);
        return;
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item)) {
            kubeconfig_fail(user, "exec.args", e, "element %zu must be a string; put it in quotes",
                            i + 1);
            return;
        }
        x->args[i] = strdup(item->valuestring);
        if (x->args[i++] == NULL) {
            err_memory(e);
            return;
        }
    }
}

static void take_variable(const struct kubeconfig_entry *user, const cJSON *item,
                          struct kube_exec *x, struct err *e)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, "value");
    if (!cJSON_IsString(name) || name->valuestring[0] == '\0' ||
        strchr(name->valuestring, '=') != NULL ||
        (value != NULL && !cJSON_IsNull(value) && !cJSON_IsString(value))) {
        kubeconfig_fail(user, "exec.env", e,
                        "element %zu must have a name and a value, both strings", x->env_count + 1);
        return;
    }
    struct kube_pair *pair = &x->env[x->env_count++];
    pair->name = strdup(name->valuestring);
    pair->value = strdup(cJSON_IsString(value) ? value->valuestring : "");
    if (pair->name == NULL || pair->value == NULL) {
        err_memory(e);
    }
}

static void take_env(const struct kubeconfig_entry *user, struct kube_exec *x, struct err *e)
{
    size_t count;
    const cJSON *list = take_list(user, "exec.env", "names with values", &count, e);
    x->env = list == NULL ? NULL : calloc(count + 1, sizeof *x->env);
    if (list != NULL && x->env == NULL) {
        err_memory(e);
    }
    for (const cJSON *item = e->code != 0 || list == NULL ? NULL : list->child;
         item != NULL && e->code == 0; item = item->next) {
        take_variable(user, item, x, e);
    }
}

static bool is_v1(const struct kube_exec *x)
{
    return strcmp(x->api_version, EXEC_GROUP "v1") == 0;
}

static void take_version(const struct kubeconfig_entry *user, struct kube_exec *x, struct err *e)
{
    x->api_version = kubeconfig_copy(user, "exec.apiVersion", e);
    if (x->api_version == NULL ||
        (!is_v1(x) && strcmp(x->api_version, EXEC_GROUP "v1beta1") != 0)) {
        kubeconfig_fail(user, "exec.apiVersion", e,
                        "must be " EXEC_GROUP "v1 or v1beta1; update the plugin and its entry "
                        "here");
    }
}

static void check_mode(const struct kubeconfig_entry *user, const struct kube_exec *x,
                       struct err *e)
{
    const char *mode = kubeconfig_string(user, "exec.interactiveMode", e);
    const char *wrong = NULL;
    if (mode == NULL) {
        wrong = e->code == 0 && is_v1(x) ? "is missing; " EXEC_GROUP "v1 wants Never or IfAvailable"
                                         : NULL;
    } else if (strcmp(mode, "Always") == 0) {
        wrong = "is Always, but there is no terminal for the plugin to ask on; use a plugin or a "
                "mode that needs none";
    } else if (strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0) {
        wrong = "must be Never, IfAvailable or Always";
    }
    if (wrong != NULL) {
        kubeconfig_fail(user, "exec.interactiveMode", e, "%s", wrong);
    }
}

struct kube_exec *kube_exec_read(const struct kubeconfig_entry *user, struct err *e)
{
    const cJSON *body = kubeconfig_value(user, "exec");
    if (body == NULL || e->code != 0) {
        return NULL;
    }
    if (!cJSON_IsObject(body)) {
        kubeconfig_fail(user, "exec", e, "must be a mapping");
        return NULL;
    }
    struct kube_exec *x = calloc(1, sizeof *x);
    if (x == NULL) {
        err_memory(e);
        return NULL;
    }
    take_command(user, x, e);
    take_version(user, x, e);
    check_mode(user, x, e);
    take_args(user, x, e);
    take_env(user, x, e);
    x->install_hint = kubeconfig_copy(user, "exec.installHint", e);
    x->provide_cluster_info = kubeconfig_bool(user, "exec.provideClusterInfo", e);
    if (e->code != 0) {
        kube_exec_free(x);
        return NULL;
    }
    return x;
}

void kube_exec_add_cluster(struct kube_exec *exec, const struct kubeconfig_entry *cluster,
                           struct err *e)
{
    const cJSON *item;
    if (!exec->provide_cluster_info) {
        return;
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(cluster->body, "extensions"))
    {
        const cJSON *body = cJSON_GetObjectItemCaseSensitive(item, "extension");
        if (strcmp(field_text(item, "name"), EXEC_GROUP "exec") != 0 || body == NULL) {
            continue;
        }
        struct buf text = BUF_INIT(CLUSTER_CONFIG_MAX);
        int rc = json_canonical(body, &text);
        exec->cluster_config = rc == 0 ? buf_take_str(&text) : NULL;
        buf_reset(&text);
        if (rc == -ENOBUFS) {
            kubeconfig_fail(cluster, "extensions", e,
                            "what it holds for plugins is larger than %d bytes",
                            CLUSTER_CONFIG_MAX);
        } else if (exec->cluster_config == NULL) {
            err_memory(e);
        }
        return;
    }
}

void kube_exec_free(struct kube_exec *exec)
{
    if (exec == NULL) {
        return;
    }
    free(exec->command);
    for (size_t i = 0; exec->args != NULL && exec->args[i] != NULL; i++) {
        secret_free(exec->args[i]);
    }
    free(exec->args);
    for (size_t i = 0; i < exec->env_count; i++) {
        free(exec->env[i].name);
        secret_free(exec->env[i].value);
    }
    free(exec->env);
    free(exec->api_version);
    free(exec->install_hint);
    free(exec->cluster_config);
    free(exec);
}
