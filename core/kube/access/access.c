/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/access.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/secret.h"
#include "crypto/digest.h"
#include "kube/access/access_exec.h"

enum { PEM_MAX = 1 << 20 };

/* Messages name files, lines and fields, never what a field holds. */

static char *copy_string(const char *from, struct err *e)
{
    char *copy = strdup(from);
    if (copy == NULL) {
        err_memory(e);
    }
    return copy;
}

/* As kubeconfig_copy, of a path: relative ones are meant from the kubeconfig's folder. */
static char *take_path(const struct kubeconfig_entry *entry, const char *key, struct err *e)
{
    const char *text = kubeconfig_string(entry, key, e);
    char *path = text == NULL ? NULL : file_resolve(entry->file->path, text);
    if (path == NULL && text != NULL) {
        err_memory(e);
    }
    return path;
}

static void decode_pem(const struct kubeconfig_entry *entry, const char *key, const char *text,
                       struct kube_pem *out, struct err *e)
{
    struct buf data = BUF_INIT(PEM_MAX);
    /* In one piece, so that a growing buffer leaves no copy of a key behind. */
    size_t room = strlen(text) < PEM_MAX ? strlen(text) : PEM_MAX;
    int rc = buf_reserve(&data, room) == NULL ? -ENOMEM : base64_decode(slice_str(text), &data);
    if (rc == 0) {
        out->len = data.len;
        out->data = buf_take_str(&data);
        if (asprintf(&out->name, "%s: %s[%.80s].%s", entry->file->path, entry->kind, entry->name,
                     key) < 0) {
            out->name = NULL;
        }
        rc = out->data == NULL || out->name == NULL ? -ENOMEM : 0;
    }
    if (rc == -ENOMEM) {
        err_memory(e);
    } else if (rc == -ENOBUFS) {
        kubeconfig_fail(entry, key, e, "larger than %d bytes", PEM_MAX);
    } else if (rc != 0) {
        kubeconfig_fail(entry, key, e,
                        "is not valid base64; encode it again with base64 -w0, or name the file "
                        "instead");
    }
    secret_buf_reset(&data);
}

int kube_pem_read(const char *path, struct kube_pem *out, struct err *e)
{
    struct buf data = BUF_INIT(PEM_MAX);
    data.secret = true; /* it may be a key */
    int rc = file_read(path, &data, e);
    if (rc == 0 && data.len == 0) {
        rc = err_set(e, -EINVAL, "%s: the file is empty", path);
    }
    if (rc == 0) {
        *out = (struct kube_pem){.data = calloc(1, data.len + 1),
                                 .len = data.len,
                                 .name = strdup(path),
                                 .path = strdup(path)};
        if (out->data == NULL || out->name == NULL || out->path == NULL) {
            rc = err_memory(e);
        } else {
            memcpy(out->data, buf_data(&data), data.len);
        }
    }
    buf_reset(&data);
    return rc;
}

void kube_pem_deinit(struct kube_pem *pem)
{
    if (pem->data != NULL) {
        explicit_bzero(pem->data, pem->len);
    }
    free(pem->data);
    free(pem->name);
    free(pem->path);
    *pem = (struct kube_pem){.data = NULL};
}

/* From `<field>-data`, or from the file that `<field>` names; the data wins, as in client-go. */
static void take_pem(const struct kubeconfig_entry *entry, const char *field, struct kube_pem *out,
                     struct err *e)
{
    char data_key[64];
    (void)snprintf(data_key, sizeof data_key, "%s-data", field);
    const char *data = kubeconfig_string(entry, data_key, e);
    char *path = take_path(entry, field, e);
    if (e->code != 0) {
        free(path);
        return;
    }
    if (data != NULL) {
        decode_pem(entry, data_key, data, out, e);
    } else if (path != NULL) {
        int rc = kube_pem_read(path, out, e);
        if (rc != 0 && rc != -ENOMEM) {
            err_prefix(e, "%s: %s[%.80s].%s", entry->file->path, entry->kind, entry->name, field);
        }
    }
    free(path);
}

/* `host:port` without a scheme means https where something of TLS is configured (client-go). */
static void take_server(const struct kubeconfig_entry *cluster, bool has_tls, struct url *out,
                        struct err *e)
{
    const char *text = kubeconfig_string(cluster, "server", e);
    char *full = NULL;
    struct err inner = ERR_INIT;
    if (text == NULL) {
        kubeconfig_fail(cluster, "server", e, "the URL of the API server is missing");
        return;
    }
    if (strstr(text, "://") == NULL &&
        asprintf(&full, "%s://%s", has_tls ? "https" : "http", text) < 0) {
        err_memory(e);
        return;
    }
    if (strstr(text, "://" KUBE_LOCALPROXY_USER ":") != NULL) {
        kubeconfig_fail(cluster, "server", e,
                        "is the address of a localproxy: kubeconfig-gen wrote this kubeconfig for "
                        "the operator; give the real one");
    } else if (url_parse(full != NULL ? full : text, out, &inner) != 0) {
        kubeconfig_fail(cluster, "server", e, "%s", inner.msg);
    }
    free(full);
}

static void refuse_field(const struct kubeconfig_entry *entry, const char *key, const char *why,
                         struct err *e)
{
    const cJSON *item = kubeconfig_value(entry, key);
    if (item != NULL && !(cJSON_IsString(item) && item->valuestring[0] == '\0')) {
        kubeconfig_fail(entry, key, e, "%s", why);
    }
}

/* `proxy-url` is used wherever the server is; only the environment has exceptions (client-go). */
static void take_proxy(const struct kubeconfig_entry *cluster, struct kube_access *a, struct err *e)
{
    struct err inner = ERR_INIT;
    const char *text = kubeconfig_string(cluster, "proxy-url", e);
    if (e->code != 0) {
        return;
    }
    int rc = text == NULL ? kube_proxy_from_environment(&a->server, &a->proxy, e)
                          : kube_proxy_parse(text, &a->proxy, &inner);
    if (rc == -ENOMEM) {
        err_memory(e);
    } else if (rc != 0 && text != NULL) {
        kubeconfig_fail(cluster, "proxy-url", e, "%s", inner.msg);
    }
}

static void take_cluster(const struct kubeconfig_entry *cluster, struct kube_access *a,
                         struct err *e)
{
    a->insecure = kubeconfig_bool(cluster, "insecure-skip-tls-verify", e);
    take_pem(cluster, "certificate-authority", &a->ca, e);
    if (a->insecure && a->ca.data != NULL) {
        kubeconfig_fail(cluster, "insecure-skip-tls-verify", e,
                        "is true although a certificate authority is given; remove one of the two");
    }
    take_server(cluster, a->insecure || a->ca.data != NULL || a->cert.data != NULL, &a->server, e);
    take_proxy(cluster, a, e);
    a->server_name = kubeconfig_copy(cluster, "tls-server-name", e);
    if (e->code == 0 && a->server_name == NULL && a->server.https) {
        a->server_name = strndup(a->server.host, strcspn(a->server.host, "%"));
        if (a->server_name == NULL) {
            err_memory(e);
        }
    }
}

/* What may stand in a header's value: no control characters (RFC 9110 section 5.5). */
static bool header_ok(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* `value` NULL: none. */
static void impersonate(const struct kubeconfig_entry *user, const char *key, const char *name,
                        const char *value, struct kube_access *a, struct err *e)
{
    if (value == NULL || e->code != 0) {
        return;
    }
    if (!header_ok(value)) {
        kubeconfig_fail(user, key, e, "contains a control character");
        return;
    }
    struct kube_pair *items = realloc(a->headers, (a->header_count + 1) * sizeof *items);
    if (items == NULL) {
        err_memory(e);
        return;
    }
    a->headers = items;
    struct kube_pair *pair = &items[a->header_count++];
    *pair = (struct kube_pair){.name = strdup(name), .value = strdup(value)};
    if (pair->name == NULL || pair->value == NULL) {
        err_memory(e);
    }
}

static void impersonate_list(const struct kubeconfig_entry *user, const char *key, const char *name,
                             const cJSON *list, struct kube_access *a, struct err *e)
{
    if (list != NULL && !cJSON_IsNull(list) && !cJSON_IsArray(list)) {
        kubeconfig_fail(user, key, e, "must be a list of strings");
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item)) {
            kubeconfig_fail(user, key, e, "must be a string; put it in quotes");
        }
        impersonate(user, key, name, cJSON_GetStringValue(item), a, e);
    }
}

/* Bytes that a header's name cannot hold are percent-encoded, and the percent sign itself. */
static void extra_name(const char *key, struct buf *out)
{
    buf_append_str(out, "Impersonate-Extra-");
    for (const char *p = key; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (isalnum(c) || strchr("!#$&'*+-.^_`|~", c) != NULL) {
            buf_append_char(out, (char)c);
        } else {
            buf_printf(out, "%%%02X", c);
        }
    }
}

static void impersonate_extra(const struct kubeconfig_entry *user, struct kube_access *a,
                              struct err *e)
{
    const cJSON *map = kubeconfig_value(user, "as-user-extra");
    const cJSON *list;
    if (map != NULL && !cJSON_IsObject(map)) {
        kubeconfig_fail(user, "as-user-extra", e, "must map names to lists of strings");
        return;
    }
    cJSON_ArrayForEach(list, map)
    {
        struct buf name = BUF_INIT(1024);
        extra_name(list->string, &name);
        const char *text = buf_cstr(&name);
        if (text != NULL) {
            impersonate_list(user, "as-user-extra", text, list, a, e);
        } else if (buf_error(&name) == -ENOBUFS) {
            kubeconfig_fail(user, "as-user-extra", e, "a name is too long for a header");
        } else {
            err_memory(e);
        }
        buf_reset(&name);
    }
}

/* https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation */
static void take_impersonation(const struct kubeconfig_entry *user, struct kube_access *a,
                               struct err *e)
{
    const char *as = kubeconfig_string(user, "as", e);
    impersonate(user, "as", "Impersonate-User", as, a, e);
    impersonate(user, "as-uid", "Impersonate-Uid", kubeconfig_string(user, "as-uid", e), a, e);
    impersonate_list(user, "as-groups", "Impersonate-Group", kubeconfig_value(user, "as-groups"), a,
                     e);
    impersonate_extra(user, a, e);
    if (as == NULL && a->header_count > 0) {
        kubeconfig_fail(user, "as", e,
                        "is missing: a uid, groups or extra fields can only be impersonated "
                        "together with a user");
    }
}

static void take_certificate(const struct kubeconfig_entry *user, struct kube_access *a,
                             struct err *e)
{
    take_pem(user, "client-certificate", &a->cert, e);
    take_pem(user, "client-key", &a->key, e);
    if ((a->cert.data == NULL) != (a->key.data == NULL)) {
        const char *key = a->cert.data == NULL ? "client-certificate" : "client-key";
        const char *other = a->cert.data == NULL ? "client-key" : "client-certificate";
        kubeconfig_fail(user, key, e, "is missing, or %s-data, although %s is given", key, other);
    }
}

char *kube_token_trim(char *text)
{
    char *token = text + strspn(text, " \t\r\n");
    size_t len = strlen(token);
    while (len > 0 && strchr(" \t\r\n", token[len - 1]) != NULL) {
        len--;
    }
    token[len] = '\0';
    return token;
}

bool kube_token_ok(const char *token)
{
    while (*token > ' ' && *token < 0x7f) {
        token++;
    }
    return *token == '\0';
}

static void take_secrets(const struct kubeconfig_entry *user, struct kube_access *a, struct err *e)
{
    a->token = kubeconfig_copy(user, "token", e);
    if (a->token != NULL && !kube_token_ok(a->token)) {
        kubeconfig_fail(user, "token", e,
                        "contains white space or another character that is not allowed in a "
                        "token");
    }
    a->token_file = take_path(user, "tokenFile", e);
    a->username = kubeconfig_copy(user, "username", e);
    a->password = kubeconfig_copy(user, "password", e);
    bool basic = a->username != NULL || a->password != NULL;
    if (basic && (a->token != NULL || a->token_file != NULL)) {
        kubeconfig_fail(user, "", e,
                        "has a token and a user name or password; only one is allowed");
    }
    if (a->username != NULL && strchr(a->username, ':') != NULL) {
        kubeconfig_fail(user, "username", e, "cannot contain a colon");
    }
}

static void take_user(const struct kubeconfig_entry *user, struct kube_access *a, struct err *e)
{
    refuse_field(user, "auth-provider",
                 "is not supported (and was removed from kubectl); use an exec plugin instead, as "
                 "gke-gcloud-auth-plugin or kubelogin",
                 e);
    take_certificate(user, a, e);
    take_secrets(user, a, e);
    take_impersonation(user, a, e);
    a->exec = kube_exec_read(user, e);
    bool fixed = a->token != NULL || a->token_file != NULL || a->username != NULL;
    if (a->exec != NULL && fixed) {
        log_warn("the exec plugin is not used: the user has a token or password",
                 log_str("user", user->name));
        kube_exec_free(a->exec);
        a->exec = NULL;
    }
}

static void take_context(const struct kubeconfig *kc, const struct kubeconfig_entry *context,
                         struct kube_access *a, struct err *e)
{
    const struct kubeconfig_entry *cluster = kubeconfig_referred(kc, context, "cluster", e);
    if (cluster == NULL) {
        kubeconfig_fail(context, "cluster", e, "the context names no cluster");
    }
    const struct kubeconfig_entry *user = kubeconfig_referred(kc, context, "user", e);
    const char *ns = kubeconfig_string(context, "namespace", e);
    if (e->code != 0) {
        return;
    }
    a->context = copy_string(context->name, e);
    a->cluster = copy_string(cluster->name, e);
    a->user = copy_string(user != NULL ? user->name : "", e);
    a->file = copy_string(user != NULL ? user->file->path : "", e);
    a->ns = copy_string(ns != NULL ? ns : "default", e);
    if (user != NULL) {
        take_user(user, a, e);
    }
    take_cluster(cluster, a, e);
    if (a->exec != NULL) {
        kube_exec_add_cluster(a->exec, cluster, e);
    }
}

/* What was begun is not kept after an error. */
static int finish_access(struct kube_access *out, const struct err *why, struct err *e)
{
    if (why->code == 0) {
        return 0;
    }
    kube_access_deinit(out);
    return err_set(e, why->code, "%s", why->msg);
}

int kube_access_resolve(const struct kubeconfig *kc, const char *context, struct kube_access *out,
                        struct err *e)
{
    struct err why = ERR_INIT;
    *out = (struct kube_access){.context = NULL};
    const struct kubeconfig_entry *entry = kubeconfig_context(kc, context, &why);
    if (entry != NULL) {
        take_context(kc, entry, out, &why);
    }
    return finish_access(out, &why, e);
}

static int check_pod(const char **host, const char **port, struct err *e)
{
    *host = getenv("KUBERNETES_SERVICE_HOST");
    *port = getenv("KUBERNETES_SERVICE_PORT");
    if (*host == NULL || **host == '\0' || *port == NULL || **port == '\0') {
        return err_set(e, -ENOENT,
                       "not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT "
                       "are not set; give --kubeconfig instead");
    }
    return 0;
}

static void take_pod_server(struct url *out, struct err *e)
{
    const char *host;
    const char *port;
    char *text = NULL;
    if (check_pod(&host, &port, e) != 0) {
        return;
    }
    bool v6 = strchr(host, ':') != NULL;
    if (asprintf(&text, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port) < 0) {
        err_memory(e);
        return;
    }
    if (url_parse(text, out, e) != 0) {
        err_prefix(e, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");
    }
    free(text);
}

int kube_service_account_namespace(const char *dir, char **out, struct err *e)
{
    const char *host;
    const char *port;
    char *path = NULL;
    int rc = check_pod(&host, &port, e);
    if (rc != 0) {
        return rc;
    }
    if (asprintf(&path, "%s/namespace", dir != NULL ? dir : KUBE_SERVICE_ACCOUNT_DIR) < 0) {
        return err_memory(e);
    }
    struct buf text = BUF_INIT(256);
    struct err why = ERR_INIT;
    rc = file_read(path, &text, &why);
    if (rc == 0 || rc == -ENOENT) {
        const char *ns = rc == 0 ? buf_cstr(&text) : NULL;
        *out = ns == NULL ? strdup("default") : strndup(ns, strcspn(ns, " \t\r\n"));
        rc = *out == NULL ? err_memory(e) : 0;
    } else {
        err_set(e, rc, "%s", why.msg);
    }
    buf_reset(&text);
    free(path);
    return rc;
}

static void take_pod(const char *dir, struct kube_access *a, struct err *e)
{
    char *ca = NULL;
    take_pod_server(&a->server, e);
    if (e->code != 0) {
        return;
    }
    if (kube_proxy_from_environment(&a->server, &a->proxy, e) != 0) {
        return;
    }
    if (asprintf(&a->token_file, "%s/token", dir) < 0) {
        a->token_file = NULL;
        err_memory(e);
        return;
    }
    if (asprintf(&ca, "%s/ca.crt", dir) < 0) {
        err_memory(e);
        return;
    }
    int rc = kube_pem_read(ca, &a->ca, e);
    free(ca);
    if (rc != 0) {
        err_prefix(e, "service account");
        return;
    }
    if (kube_service_account_namespace(dir, &a->ns, e) != 0) {
        return;
    }
    a->context = copy_string("", e);
    a->cluster = copy_string("", e);
    a->user = copy_string("", e);
    a->file = copy_string("", e);
    a->server_name = copy_string(a->server.host, e);
}

int kube_access_in_cluster(const char *dir, struct kube_access *out, struct err *e)
{
    struct err why = ERR_INIT;
    *out = (struct kube_access){.context = NULL};
    take_pod(dir != NULL ? dir : KUBE_SERVICE_ACCOUNT_DIR, out, &why);
    return finish_access(out, &why, e);
}

int kube_access_open(const char *kubeconfig, const char *context, bool in_cluster_wanted,
                     struct kube_access *out, struct err *e)
{
    if (in_cluster_wanted && (kubeconfig != NULL || context != NULL)) {
        return err_set(e, -EINVAL, "--in-cluster cannot be combined with %s",
                       kubeconfig != NULL ? "--kubeconfig" : "--context");
    }
    if (in_cluster_wanted) {
        return kube_access_in_cluster(NULL, out, e);
    }
    struct err why = ERR_INIT;
    struct kubeconfig *kc = kubeconfig_load(kubeconfig, &why);
    if (kc == NULL && why.code == -ENOENT && kubeconfig == NULL && context == NULL &&
        getenv("KUBERNETES_SERVICE_HOST") != NULL) {
        return kube_access_in_cluster(NULL, out, e);
    }
    if (kc == NULL) {
        return err_set(e, why.code, "%s", why.msg);
    }
    int rc = kube_access_resolve(kc, context, out, e);
    kubeconfig_free(kc);
    return rc;
}

void kube_access_deinit(struct kube_access *a)
{
    free(a->context);
    free(a->cluster);
    free(a->user);
    free(a->file);
    free(a->ns);
    kube_proxy_deinit(&a->proxy);
    free(a->server_name);
    kube_pem_deinit(&a->ca);
    kube_pem_deinit(&a->cert);
    kube_pem_deinit(&a->key);
    secret_free(a->token);
    free(a->token_file);
    secret_free(a->username);
    secret_free(a->password);
    kube_exec_free(a->exec);
    for (size_t i = 0; i < a->header_count; i++) {
        free(a->headers[i].name);
        free(a->headers[i].value);
    }
    free(a->headers);
    *a = (struct kube_access){.context = NULL};
}
