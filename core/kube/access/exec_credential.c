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
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

#define INFO_NAME "KUBERNETES_EXEC_INFO"

enum { INFO_MAX = 4 << 20 };

/* A copy of the string at `key`; NULL when it is missing or empty. The first error stays in `e`. */
static char *take_string(const cJSON *status, const char *key, struct err *e)
{
    const cJSON *item = field_get(status, key);
    if (item == NULL || e->code != 0) {
        return NULL;
    }
    if (!cJSON_IsString(item)) {
        err_set(e, -EINVAL, "status.%s is not a string", key);
        return NULL;
    }
    char *copy = item->valuestring[0] == '\0' ? NULL : strdup(item->valuestring);
    if (copy == NULL && item->valuestring[0] != '\0') {
        err_memory(e);
    }
    return copy;
}

static int take_expiry(const cJSON *status, int64_t now, int64_t *out, struct err *e)
{
    const cJSON *item = field_get(status, "expirationTimestamp");
    if (item == NULL) {
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

static int parse_document(const cJSON *root, const char *api_version, int64_t now,
                          struct exec_credential *out, struct err *e)
{
    const cJSON *status = field_get(root, "status");
    if (strcmp(field_text(root, "kind"), "ExecCredential") != 0 ||
        strcmp(field_text(root, "apiVersion"), api_version) != 0) {
        return err_set(e, -EINVAL,
                       "it is not an ExecCredential of %s, which the kubeconfig asks for",
                       api_version);
    }
    if (!cJSON_IsObject(status)) {
        return err_set(e, -EINVAL, "it has no status");
    }
    if (take_expiry(status, now, &out->expires_at, e) != 0) {
        return e->code;
    }
    out->token = take_string(status, "token", e);
    out->cert = take_string(status, "clientCertificateData", e);
    out->key = take_string(status, "clientKeyData", e);
    if (e->code != 0) {
        return e->code;
    }
    if (out->token != NULL && !kube_token_ok(out->token)) {
        return err_set(e, -EINVAL,
                       "status.token contains white space or another character that is not allowed "
                       "in a token");
    }
    if ((out->cert == NULL) != (out->key == NULL)) {
        return err_set(e, -EINVAL, "it has only one of clientCertificateData and clientKeyData");
    }
    if (out->token == NULL && out->cert == NULL) {
        return err_set(e, -EINVAL, "it has neither a token nor a client certificate");
    }
    return 0;
}

int exec_credential_parse(struct slice output, const char *api_version, int64_t now,
                          struct exec_credential *out, struct err *e)
{
    struct err why = ERR_INIT;
    *out = (struct exec_credential){.token = NULL};
    if (output.len == 0) {
        return err_set(e, -EINVAL, "invalid output: empty output");
    }
    cJSON *root = json_parse(output.ptr, output.len, &why);
    int rc = root == NULL ? -EINVAL : parse_document(root, api_version, now, out, &why);
    secret_json_delete(root);
    if (rc != 0) {
        exec_credential_deinit(out);
        err_set(e, why.code, "invalid output: %s", why.msg);
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

static void put_ca(struct edit *ed, cJSON *cluster, const struct kube_pem *ca)
{
    struct buf text = BUF_INIT(INFO_MAX);
    bool ok = base64_encode(slice_of(ca->data, ca->len), &text) == 0 && buf_cstr(&text) != NULL;
    edit_set(ed, cluster, "certificate-authority-data",
             ok ? cJSON_CreateString((const char *)buf_data(&text)) : NULL);
    buf_reset(&text);
}

static void put_cluster(struct edit *ed, cJSON *cluster, const struct kube_access *a)
{
    const char *config = a->exec->cluster_config;
    char host[URL_HOST_PORT_SIZE];
    char server[sizeof host + URL_PATH_MAX + 16];
    url_host_port(&a->server, host);
    (void)snprintf(server, sizeof server, "http%s://%s%s", a->server.https ? "s" : "", host,
                   a->server.path);
    edit_string(ed, cluster, "server", server);
    if (a->server_name != NULL && strcmp(a->server_name, a->server.host) != 0) {
        edit_string(ed, cluster, "tls-server-name", a->server_name);
    }
    if (a->proxy.url != NULL) {
        edit_string(ed, cluster, "proxy-url", a->proxy.url);
    }
    if (a->insecure) {
        edit_bool(ed, cluster, "insecure-skip-tls-verify", true);
    }
    if (a->ca.data != NULL) {
        put_ca(ed, cluster, &a->ca);
    }
    if (config != NULL) {
        edit_set(ed, cluster, "config", json_parse(config, strlen(config), NULL));
    }
}

/* "KUBERNETES_EXEC_INFO=<ExecCredential>"; NULL without memory. */
static char *make_info(const struct kube_access *a)
{
    struct edit ed = {.rc = 0};
    struct buf text = BUF_INIT(INFO_MAX);
    cJSON *root = cJSON_CreateObject();
    cJSON *spec = edit_object(&ed, root, "spec");
    edit_bool(&ed, spec, "interactive", false);
    edit_string(&ed, root, "kind", "ExecCredential");
    edit_string(&ed, root, "apiVersion", a->exec->api_version);
    if (a->exec->provide_cluster_info) {
        put_cluster(&ed, edit_object(&ed, spec, "cluster"), a);
    }
    buf_append_str(&text, INFO_NAME "=");
    char *info = ed.rc == 0 && json_canonical(root, &text) == 0 ? buf_take_str(&text) : NULL;
    secret_json_delete(root); /* a proxy's password may be in it */
    secret_buf_reset(&text);
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
