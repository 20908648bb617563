/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/exec_credential.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rfc3339.h"
#include "base/secret.h"
#include "crypto/digest.h"
#include "json/json.h"

#define INFO_NAME "KUBERNETES_EXEC_INFO"

enum { INFO_MAX = 4 << 20 };

/* A copy of the string at `key`; *out stays NULL when it is missing or empty. */
static int take(const cJSON *status, const char *key, char **out, struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(status, key);
    if (item == NULL || cJSON_IsNull(item)) {
        return 0;
    }
    if (!cJSON_IsString(item)) {
        return err_set(e, -EINVAL, "status.%s is not a string", key);
    }
    if (item->valuestring[0] == '\0') {
        return 0;
    }
    *out = strdup(item->valuestring);
    return *out == NULL ? err_memory(e) : 0;
}

static int take_expiry(const cJSON *status, int64_t now, int64_t *out, struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(status, "expirationTimestamp");
    if (item == NULL || cJSON_IsNull(item)) {
        return 0;
    }
    if (!cJSON_IsString(item) || !rfc3339_parse(item->valuestring, out)) {
        return err_set(e, -EINVAL, "status.expirationTimestamp is not an RFC 3339 time");
    }
    if (*out <= now) {
        return err_set(e, -EKEYEXPIRED,
                       "the credential expired at %.40s already; if the plugin is right, this "
                       "machine's clock is wrong",
                       item->valuestring);
    }
    return 0;
}

static int check_token(const char *token, struct err *e)
{
    for (const char *p = token != NULL ? token : ""; *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f) {
            return err_set(e, -EINVAL,
                           "status.token contains white space or another character that is not "
                           "allowed in a token");
        }
    }
    return 0;
}

static bool string_is(const cJSON *root, const char *key, const char *expected)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    return cJSON_IsString(item) && strcmp(item->valuestring, expected) == 0;
}

static int parse_document(const cJSON *root, const char *api_version, int64_t now,
                          struct exec_credential *out, struct err *e)
{
    const cJSON *status = cJSON_GetObjectItemCaseSensitive(root, "status");
    if (!string_is(root, "kind", "ExecCredential") || !string_is(root, "apiVersion", api_version)) {
        return err_set(e, -EINVAL,
                       "it is not an ExecCredential of %s, which the kubeconfig asks for",
                       api_version);
    }
    if (!cJSON_IsObject(status)) {
        return err_set(e, -EINVAL, "it has no status");
    }
    int rc = take_expiry(status, now, &out->expires_at, e);
    rc = rc != 0 ? rc : take(status, "token", &out->token, e);
    rc = rc != 0 ? rc : check_token(out->token, e);
    rc = rc != 0 ? rc : take(status, "clientCertificateData", &out->cert, e);
    rc = rc != 0 ? rc : take(status, "clientKeyData", &out->key, e);
    if (rc == 0 && (out->cert == NULL) != (out->key == NULL)) {
        return err_set(e, -EINVAL, "it has only one of clientCertificateData and clientKeyData");
    }
    if (rc == 0 && out->token == NULL && out->cert == NULL) {
        return err_set(e, -EINVAL, "it has neither a token nor a client certificate");
    }
    return rc;
}

int exec_credential_parse(struct slice output, const char *api_version, int64_t now,
                          struct exec_credential *out, struct err *e)
{
    *out = (struct exec_credential){.token = NULL};
    cJSON *root = output.len == 0 ? NULL : json_parse(output.ptr, output.len, e);
    if (output.len == 0) {
        err_set(e, -EINVAL, "empty output");
    }
    int rc = root == NULL ? -EINVAL : parse_document(root, api_version, now, out, e);
    secret_json_delete(root);
    if (rc != 0) {
        exec_credential_deinit(out);
        err_prefix(e, "invalid output");
    }
    return rc;
}

void exec_credential_deinit(struct exec_credential *c)
{
    secret_free(c->token);
    secret_free(c->cert);
    secret_free(c->key);
    *c = (struct exec_credential){.token = NULL};
}

static bool add_ca(cJSON *cluster, const struct kube_pem *ca)
{
    if (ca->data == NULL) {
        return true;
    }
    struct buf text = BUF_INIT(INFO_MAX);
    bool ok = base64_encode(slice_of(ca->data, ca->len), &text) == 0;
    const char *encoded = ok ? buf_cstr(&text) : NULL;
    ok = encoded != NULL &&
         cJSON_AddStringToObject(cluster, "certificate-authority-data", encoded) != NULL;
    buf_reset(&text);
    return ok;
}

static bool add_config(cJSON *cluster, const char *config)
{
    struct err e = ERR_INIT;
    if (config == NULL) {
        return true;
    }
    cJSON *tree = json_parse(config, strlen(config), &e);
    if (tree == NULL || !cJSON_AddItemToObject(cluster, "config", tree)) {
        cJSON_Delete(tree);
        return false;
    }
    return true;
}

static bool add_cluster(cJSON *spec, const struct kube_access *a)
{
    char host[URL_HOST_PORT_SIZE];
    char server[sizeof host + URL_PATH_MAX + 16];
    url_host_port(&a->server, host);
    (void)snprintf(server, sizeof server, "http%s://%s%s", a->server.https ? "s" : "", host,
                   a->server.path);
    cJSON *cluster = cJSON_AddObjectToObject(spec, "cluster");
    bool named = a->server_name != NULL && strcmp(a->server_name, a->server.host) != 0;
    return cluster != NULL && cJSON_AddStringToObject(cluster, "server", server) != NULL &&
           (!named ||
            cJSON_AddStringToObject(cluster, "tls-server-name", a->server_name) != NULL) &&
           (!a->insecure || cJSON_AddTrueToObject(cluster, "insecure-skip-tls-verify") != NULL) &&
           add_ca(cluster, &a->ca) && add_config(cluster, a->exec->cluster_config);
}

/* "KUBERNETES_EXEC_INFO=<ExecCredential>"; NULL without memory. */
static char *make_info(const struct kube_access *a)
{
    struct buf text = BUF_INIT(INFO_MAX);
    cJSON *root = cJSON_CreateObject();
    cJSON *spec = root == NULL ? NULL : cJSON_AddObjectToObject(root, "spec");
    bool ok = spec != NULL && cJSON_AddFalseToObject(spec, "interactive") != NULL &&
              cJSON_AddStringToObject(root, "kind", "ExecCredential") != NULL &&
              cJSON_AddStringToObject(root, "apiVersion", a->exec->api_version) != NULL &&
              (!a->exec->provide_cluster_info || add_cluster(spec, a)) &&
              buf_append_str(&text, INFO_NAME "=") == 0 && json_canonical(root, &text) == 0;
    cJSON_Delete(root);
    char *info = ok ? buf_take_str(&text) : NULL;
    buf_reset(&text);
    return info;
}

static bool is_overridden(const struct kube_exec *x, const char *variable)
{
    size_t len = strcspn(variable, "=");
    if (strncmp(variable, INFO_NAME "=", strlen(INFO_NAME "=")) == 0) {
        return true;
    }
    for (size_t i = 0; i < x->env_count; i++) {
        if (strlen(x->env[i].name) == len && strncmp(x->env[i].name, variable, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool fill_env(const struct kube_access *a, char **env)
{
    size_t n = 0;
    for (char **v = environ; *v != NULL; v++) {
        if (!is_overridden(a->exec, *v) && (env[n++] = strdup(*v)) == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < a->exec->env_count; i++) {
        const struct kube_pair *pair = &a->exec->env[i];
        if (asprintf(&env[n], "%s=%s", pair->name, pair->value) < 0) {
            env[n] = NULL;
            return false;
        }
        n++;
    }
    env[n] = make_info(a);
    return env[n] != NULL;
}

char **exec_credential_env(const struct kube_access *a)
{
    size_t count = a->exec->env_count + 2;
    for (char **v = environ; *v != NULL; v++) {
        count++;
    }
    char **env = calloc(count, sizeof *env);
    if (env != NULL && !fill_env(a, env)) {
        exec_credential_env_free(env);
        return NULL;
    }
    return env;
}

void exec_credential_env_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        secret_free(env[i]);
    }
    free(env);
}

char **exec_credential_argv(const struct kube_access *a)
{
    size_t count = 0;
    while (a->exec->args != NULL && a->exec->args[count] != NULL) {
        count++;
    }
    char **argv = calloc(count + 2, sizeof *argv);
    if (argv != NULL) {
        argv[0] = a->exec->command;
        for (size_t i = 0; i < count; i++) {
            argv[i + 1] = a->exec->args[i];
        }
    }
    return argv;
}
