/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/access_exec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/secret.h"
#include "json/json.h"

#define EXEC_GROUP "client.authentication.k8s.io/"

enum { ARGS_MAX = 1000, CLUSTER_CONFIG_MAX = 1 << 16 };

static int fail_memory(struct err *e)
{
    return err_memory(e);
}

/* A copy of the string at `field` of exec; *out is NULL when it is missing or empty. */
static int take(const struct kubeconfig_entry *user, const cJSON *body, const char *field,
                char **out, struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(body, field);
    char key[64];
    if (item == NULL || cJSON_IsNull(item) ||
        (cJSON_IsString(item) && item->valuestring[0] == '\0')) {
        return 0;
    }
    if (!cJSON_IsString(item)) {
        (void)snprintf(key, sizeof key, "exec.%s", field);
        return kubeconfig_fail(user, key, e, "must be a string");
    }
    *out = strdup(item->valuestring);
    return *out == NULL ? fail_memory(e) : 0;
}

/* With a slash it is a file beside the kubeconfig; without, a program in PATH. */
static int take_command(const struct kubeconfig_entry *user, const cJSON *body, struct kube_exec *x,
                        struct err *e)
{
    int rc = take(user, body, "command", &x->command, e);
    if (rc != 0) {
        return rc;
    }
    if (x->command == NULL) {
        return kubeconfig_fail(user, "exec.command", e, "the program to run is missing");
    }
    if (strchr(x->command, '/') != NULL) {
        char *resolved = file_resolve(user->file->path, x->command);
        free(x->command);
        x->command = resolved;
    }
    return x->command == NULL ? fail_memory(e) : 0;
}

static int take_args(const struct kubeconfig_entry *user, const cJSON *body, struct kube_exec *x,
                     struct err *e)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(body, "args");
    if (list == NULL || cJSON_IsNull(list)) {
        return 0;
    }
    int count = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || count > ARGS_MAX) {
        return kubeconfig_fail(user, "exec.args", e, "must be a list of at most %d strings",
                               ARGS_MAX);
    }
    x->args = calloc((size_t)count + 1, sizeof *x->args);
    if (x->args == NULL) {
        return fail_memory(e);
    }
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item)) {
            return kubeconfig_fail(user, "exec.args", e,
                                   "element %zu must be a string; put it in quotes", i + 1);
        }
        x->args[i] = strdup(item->valuestring);
        if (x->args[i++] == NULL) {
            return fail_memory(e);
        }
    }
    return 0;
}

static int take_variable(const struct kubeconfig_entry *user, const cJSON *item,
                         struct kube_exec *x, struct err *e)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, "value");
    if (!cJSON_IsString(name) || name->valuestring[0] == '\0' ||
        strchr(name->valuestring, '=') != NULL ||
        (value != NULL && !cJSON_IsNull(value) && !cJSON_IsString(value))) {
        return kubeconfig_fail(user, "exec.env", e,
                               "element %zu must have a name and a value, both strings",
                               x->env_count + 1);
    }
    struct kube_pair *pair = &x->env[x->env_count++];
    pair->name = strdup(name->valuestring);
    pair->value = strdup(cJSON_IsString(value) ? value->valuestring : "");
    return pair->name == NULL || pair->value == NULL ? fail_memory(e) : 0;
}

static int take_env(const struct kubeconfig_entry *user, const cJSON *body, struct kube_exec *x,
                    struct err *e)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(body, "env");
    if (list == NULL || cJSON_IsNull(list)) {
        return 0;
    }
    int count = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || count > ARGS_MAX) {
        return kubeconfig_fail(user, "exec.env", e,
                               "must be a list of at most %d names with values", ARGS_MAX);
    }
    x->env = calloc((size_t)count + 1, sizeof *x->env);
    if (x->env == NULL) {
        return fail_memory(e);
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        int rc = take_variable(user, item, x, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int take_version(const struct kubeconfig_entry *user, const cJSON *body, struct kube_exec *x,
                        struct err *e)
{
    int rc = take(user, body, "apiVersion", &x->api_version, e);
    if (rc != 0) {
        return rc;
    }
    if (x->api_version == NULL || (strcmp(x->api_version, EXEC_GROUP "v1") != 0 &&
                                   strcmp(x->api_version, EXEC_GROUP "v1beta1") != 0)) {
        return kubeconfig_fail(user, "exec.apiVersion", e,
                               "must be " EXEC_GROUP "v1 or v1beta1; update the plugin and its "
                               "entry here");
    }
    return 0;
}

static int check_mode(const struct kubeconfig_entry *user, const cJSON *body,
                      const struct kube_exec *x, struct err *e)
{
    char *mode = NULL;
    int rc = take(user, body, "interactiveMode", &mode, e);
    if (rc != 0) {
        return rc;
    }
    if (mode == NULL) {
        if (strcmp(x->api_version, EXEC_GROUP "v1") == 0) {
            rc = kubeconfig_fail(user, "exec.interactiveMode", e,
                                 "is missing; " EXEC_GROUP "v1 wants Never or IfAvailable");
        }
    } else if (strcmp(mode, "Always") == 0) {
        rc = kubeconfig_fail(user, "exec.interactiveMode", e,
                             "is Always, but there is no terminal for the plugin to ask on; use a "
                             "plugin or a mode that needs none");
    } else if (strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0) {
        rc = kubeconfig_fail(user, "exec.interactiveMode", e,
                             "must be Never, IfAvailable or Always");
    }
    free(mode);
    return rc;
}

static int take_cluster_flag(const struct kubeconfig_entry *user, const cJSON *body,
                             struct kube_exec *x, struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(body, "provideClusterInfo");
    if (item != NULL && !cJSON_IsNull(item) && !cJSON_IsBool(item)) {
        return kubeconfig_fail(user, "exec.provideClusterInfo", e, "must be true or false");
    }
    x->provide_cluster_info = cJSON_IsTrue(item);
    return 0;
}

static int read_fields(const struct kubeconfig_entry *user, const cJSON *body, struct kube_exec *x,
                       struct err *e)
{
    int rc = take_command(user, body, x, e);
    rc = rc != 0 ? rc : take_version(user, body, x, e);
    rc = rc != 0 ? rc : check_mode(user, body, x, e);
    rc = rc != 0 ? rc : take_args(user, body, x, e);
    rc = rc != 0 ? rc : take_env(user, body, x, e);
    rc = rc != 0 ? rc : take(user, body, "installHint", &x->install_hint, e);
    return rc != 0 ? rc : take_cluster_flag(user, body, x, e);
}

int kube_exec_read(const struct kubeconfig_entry *user, struct kube_exec **out, struct err *e)
{
    const cJSON *body = cJSON_GetObjectItemCaseSensitive(user->body, "exec");
    *out = NULL;
    if (body == NULL || cJSON_IsNull(body)) {
        return 0;
    }
    if (!cJSON_IsObject(body)) {
        return kubeconfig_fail(user, "exec", e, "must be a mapping");
    }
    struct kube_exec *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return fail_memory(e);
    }
    int rc = read_fields(user, body, x, e);
    if (rc != 0) {
        kube_exec_free(x);
        return rc;
    }
    *out = x;
    return 0;
}

int kube_exec_add_cluster(struct kube_exec *exec, const struct kubeconfig_entry *cluster,
                          struct err *e)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(cluster->body, "extensions");
    const cJSON *item;
    if (!exec->provide_cluster_info) {
        return 0;
    }
    cJSON_ArrayForEach(item, list)
    {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
        const cJSON *body = cJSON_GetObjectItemCaseSensitive(item, "extension");
        if (!cJSON_IsString(name) || strcmp(name->valuestring, EXEC_GROUP "exec") != 0 ||
            body == NULL) {
            continue;
        }
        struct buf text = BUF_INIT(CLUSTER_CONFIG_MAX);
        int rc = json_canonical(body, &text);
        if (rc != 0) {
            buf_reset(&text);
            return kubeconfig_fail(cluster, "extensions", e,
                                   "what it holds for plugins is larger than %d bytes",
                                   CLUSTER_CONFIG_MAX);
        }
        exec->cluster_config = buf_take_str(&text);
        return exec->cluster_config == NULL ? fail_memory(e) : 0;
    }
    return 0;
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
