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

static int fail_memory(struct err *e)
{
    return err_memory(e);
}

static int copy_string(const char *from, char **to, struct err *e)
{
    *to = from == NULL ? NULL : strdup(from);
    return from != NULL && *to == NULL ? fail_memory(e) : 0;
}

/* A copy of the string at `key` of the entry. */
static int take_string(const struct kubeconfig_entry *entry, const char *key, char **out,
                       struct err *e)
{
    const char *text;
    int rc = kubeconfig_string(entry, key, &text, e);
    return rc != 0 ? rc : copy_string(text, out, e);
}

/* As take_string, for a path: relative ones are meant from the kubeconfig's folder. */
static int take_path(const struct kubeconfig_entry *entry, const char *key, char **out,
                     struct err *e)
{
    const char *text;
    int rc = kubeconfig_string(entry, key, &text, e);
    if (rc != 0 || text == NULL) {
        return rc;
    }
    *out = file_resolve(entry->file->path, text);
    return *out == NULL ? fail_memory(e) : 0;
}

static int take_bool(const struct kubeconfig_entry *entry, const char *key, bool *out,
                     struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(entry->body, key);
    if (item != NULL && !cJSON_IsNull(item) && !cJSON_IsBool(item)) {
        return kubeconfig_fail(entry, key, e, "must be true or false, without quotes");
    }
    *out = cJSON_IsTrue(item);
    return 0;
}

static int decode_pem(const struct kubeconfig_entry *entry, const char *key, const char *text,
                      struct kube_pem *out, struct err *e)
{
    struct buf data = BUF_INIT(PEM_MAX);
    /* In one piece, so that a growing buffer leaves no copy of a key behind. */
    if (buf_reserve(&data, strlen(text) < PEM_MAX ? strlen(text) : PEM_MAX) == NULL) {
        return fail_memory(e);
    }
    int rc = base64_decode(slice_str(text), &data);
    if (rc != 0) {
        secret_buf_reset(&data);
        return rc == -ENOMEM    ? fail_memory(e)
               : rc == -ENOBUFS ? kubeconfig_fail(entry, key, e, "larger than %d bytes", PEM_MAX)
                                : kubeconfig_fail(entry, key, e,
                                                  "is not valid base64; encode it again with "
                                                  "base64 -w0, or name the file instead");
    }
    out->len = data.len;
    out->data = buf_take_str(&data);
    if (out->data == NULL || asprintf(&out->name, "%s: %s[%.80s].%s", entry->file->path,
                                      entry->kind, entry->name, key) < 0) {
        out->name = NULL;
        return fail_memory(e);
    }
    return 0;
}

int kube_pem_read(const char *path, struct kube_pem *out, struct err *e)
{
    struct buf data = BUF_INIT(PEM_MAX);
    if (buf_reserve(&data, PEM_MAX) == NULL) {
        return fail_memory(e);
    }
    int rc = file_read(path, &data, e);
    if (rc == 0 && data.len == 0) {
        rc = err_set(e, -EINVAL, "%s: the file is empty", path);
    }
    if (rc == 0) {
        out->len = data.len;
        out->data = calloc(1, data.len + 1);
        if (out->data != NULL) {
            memcpy(out->data, buf_data(&data), data.len);
        }
        rc = out->data == NULL ? fail_memory(e) : copy_string(path, &out->name, e);
        rc = rc != 0 ? rc : copy_string(path, &out->path, e);
    }
    secret_buf_reset(&data);
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
static int take_pem(const struct kubeconfig_entry *entry, const char *field, struct kube_pem *out,
                    struct err *e)
{
    char data_key[64];
    const char *data;
    const char *path;
    (void)snprintf(data_key, sizeof data_key, "%s-data", field);
    int rc = kubeconfig_string(entry, data_key, &data, e);
    rc = rc != 0 ? rc : kubeconfig_string(entry, field, &path, e);
    if (rc != 0) {
        return rc;
    }
    if (data != NULL) {
        return decode_pem(entry, data_key, data, out, e);
    }
    if (path == NULL) {
        return 0;
    }
    char *resolved = file_resolve(entry->file->path, path);
    if (resolved == NULL) {
        return fail_memory(e);
    }
    rc = kube_pem_read(resolved, out, e);
    if (rc != 0 && rc != -ENOMEM) {
        err_prefix(e, "%s: %s[%.80s].%s", entry->file->path, entry->kind, entry->name, field);
    }
    free(resolved);
    return rc;
}

/* `host:port` without a scheme means https where something of TLS is configured (client-go). */
static int take_server(const struct kubeconfig_entry *cluster, const char *text, bool has_tls,
                       struct url *out, struct err *e)
{
    char *full = NULL;
    struct err inner = ERR_INIT;
    if (strstr(text, "://") == NULL) {
        if (asprintf(&full, "%s://%s", has_tls ? "https" : "http", text) < 0) {
            return fail_memory(e);
        }
    }
    int rc = url_parse(full != NULL ? full : text, out, &inner);
    free(full);
    return rc != 0 ? kubeconfig_fail(cluster, "server", e, "%s", inner.msg) : 0;
}

static int take_server_name(const struct kubeconfig_entry *cluster, struct kube_access *a,
                            struct err *e)
{
    int rc = take_string(cluster, "tls-server-name", &a->server_name, e);
    if (rc != 0 || a->server_name != NULL || !a->server.https) {
        return rc;
    }
    a->server_name = strndup(a->server.host, strcspn(a->server.host, "%"));
    return a->server_name == NULL ? fail_memory(e) : 0;
}

static int refuse_field(const struct kubeconfig_entry *entry, const char *key, const char *why,
                        struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(entry->body, key);
    bool given = item != NULL && !cJSON_IsNull(item) &&
                 !(cJSON_IsString(item) && item->valuestring[0] == '\0');
    return given ? kubeconfig_fail(entry, key, e, "%s", why) : 0;
}

static int resolve_cluster(const struct kubeconfig_entry *cluster, struct kube_access *a,
                           bool client_tls, struct err *e)
{
    const char *server;
    int rc = kubeconfig_string(cluster, "server", &server, e);
    if (rc == 0 && server == NULL) {
        rc = kubeconfig_fail(cluster, "server", e, "the URL of the API server is missing");
    }
    rc = rc != 0 ? rc
                 : refuse_field(cluster, "proxy-url",
                                "reaching the API server through a proxy is not supported; remove "
                                "the field, or name an address that is reached directly",
                                e);
    rc = rc != 0 ? rc : take_bool(cluster, "insecure-skip-tls-verify", &a->insecure, e);
    rc = rc != 0 ? rc : take_pem(cluster, "certificate-authority", &a->ca, e);
    if (rc == 0 && a->insecure && a->ca.data != NULL) {
        rc = kubeconfig_fail(cluster, "insecure-skip-tls-verify", e,
                             "is true although a certificate authority is given; remove one of "
                             "the two");
    }
    bool has_tls = a->insecure || a->ca.data != NULL || client_tls;
    rc = rc != 0 ? rc : take_server(cluster, server, has_tls, &a->server, e);
    return rc != 0 ? rc : take_server_name(cluster, a, e);
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

static int add_header(struct kube_access *a, const char *name, const char *value, struct err *e)
{
    struct kube_pair *items = realloc(a->headers, (a->header_count + 1) * sizeof *items);
    if (items == NULL) {
        return fail_memory(e);
    }
    a->headers = items;
    struct kube_pair *pair = &items[a->header_count++];
    *pair = (struct kube_pair){.name = strdup(name), .value = strdup(value)};
    return pair->name == NULL || pair->value == NULL ? fail_memory(e) : 0;
}

static int impersonate_one(const struct kubeconfig_entry *user, const char *key, const char *name,
                           const cJSON *item, struct kube_access *a, struct err *e)
{
    if (!cJSON_IsString(item)) {
        return kubeconfig_fail(user, key, e, "must be a string; put it in quotes");
    }
    if (!header_ok(item->valuestring)) {
        return kubeconfig_fail(user, key, e, "contains a control character");
    }
    return add_header(a, name, item->valuestring, e);
}

static int impersonate_list(const struct kubeconfig_entry *user, const char *key, const char *name,
                            const cJSON *list, struct kube_access *a, struct err *e)
{
    if (list != NULL && !cJSON_IsNull(list) && !cJSON_IsArray(list)) {
        return kubeconfig_fail(user, key, e, "must be a list of strings");
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        int rc = impersonate_one(user, key, name, item, a, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Bytes that a header's name cannot hold are percent-encoded, and the percent sign itself. */
static int extra_name(const char *key, struct buf *out)
{
    int rc = buf_append_str(out, "Impersonate-Extra-");
    for (const char *p = key; *p != '\0' && rc == 0; p++) {
        unsigned char c = (unsigned char)*p;
        bool legal = isalnum(c) || strchr("!#$&'*+-.^_`|~", c) != NULL;
        rc = legal ? buf_append_char(out, (char)c) : buf_printf(out, "%%%02X", c);
    }
    return rc;
}

static int impersonate_extra(const struct kubeconfig_entry *user, struct kube_access *a,
                             struct err *e)
{
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(user->body, "as-user-extra");
    if (map != NULL && !cJSON_IsNull(map) && !cJSON_IsObject(map)) {
        return kubeconfig_fail(user, "as-user-extra", e, "must map names to lists of strings");
    }
    const cJSON *list;
    cJSON_ArrayForEach(list, map)
    {
        struct buf name = BUF_INIT(1024);
        int rc = extra_name(list->string, &name);
        const char *text = rc == 0 ? buf_cstr(&name) : NULL;
        rc = text != NULL ? impersonate_list(user, "as-user-extra", text, list, a, e)
             : rc == -ENOBUFS
                 ? kubeconfig_fail(user, "as-user-extra", e, "a name is too long for a header")
                 : fail_memory(e);
        buf_reset(&name);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation */
static int take_impersonation(const struct kubeconfig_entry *user, struct kube_access *a,
                              struct err *e)
{
    const char *as;
    const char *uid;
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(user->body, "as-groups");
    int rc = kubeconfig_string(user, "as", &as, e);
    rc = rc != 0 ? rc : kubeconfig_string(user, "as-uid", &uid, e);
    if (rc == 0 && as != NULL) {
        rc = impersonate_one(user, "as", "Impersonate-User",
                             cJSON_GetObjectItemCaseSensitive(user->body, "as"), a, e);
    }
    if (rc == 0 && uid != NULL) {
        rc = impersonate_one(user, "as-uid", "Impersonate-Uid",
                             cJSON_GetObjectItemCaseSensitive(user->body, "as-uid"), a, e);
    }
    rc = rc != 0 ? rc : impersonate_list(user, "as-groups", "Impersonate-Group", groups, a, e);
    rc = rc != 0 ? rc : impersonate_extra(user, a, e);
    if (rc == 0 && as == NULL && a->header_count > 0) {
        rc = kubeconfig_fail(user, "as", e,
                             "is missing: a uid, groups or extra fields can only be impersonated "
                             "together with a user");
    }
    return rc;
}

static int take_certificate(const struct kubeconfig_entry *user, struct kube_access *a,
                            struct err *e)
{
    int rc = take_pem(user, "client-certificate", &a->cert, e);
    rc = rc != 0 ? rc : take_pem(user, "client-key", &a->key, e);
    if (rc == 0 && (a->cert.data == NULL) != (a->key.data == NULL)) {
        const char *key = a->cert.data == NULL ? "client-certificate" : "client-key";
        const char *other = a->cert.data == NULL ? "client-key" : "client-certificate";
        rc = kubeconfig_fail(user, key, e, "is missing, or %s-data, although %s is given", key,
                             other);
    }
    return rc;
}

static int check_token(const struct kubeconfig_entry *user, const char *token, struct err *e)
{
    for (const char *p = token != NULL ? token : ""; *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f) {
            return kubeconfig_fail(
                user, "token", e,
                "contains white space or another character that is not allowed in a token");
        }
    }
    return 0;
}

static int take_secrets(const struct kubeconfig_entry *user, struct kube_access *a, struct err *e)
{
    int rc = take_string(user, "token", &a->token, e);
    rc = rc != 0 ? rc : check_token(user, a->token, e);
    rc = rc != 0 ? rc : take_path(user, "tokenFile", &a->token_file, e);
    rc = rc != 0 ? rc : take_string(user, "username", &a->username, e);
    rc = rc != 0 ? rc : take_string(user, "password", &a->password, e);
    bool basic = a->username != NULL || a->password != NULL;
    if (rc == 0 && basic && (a->token != NULL || a->token_file != NULL)) {
        return kubeconfig_fail(user, "", e,
                               "has a token and a user name or password; only one is allowed");
    }
    if (rc == 0 && a->username != NULL && strchr(a->username, ':') != NULL) {
        return kubeconfig_fail(user, "username", e, "cannot contain a colon");
    }
    return rc;
}

static int resolve_user(const struct kubeconfig_entry *user, struct kube_access *a, struct err *e)
{
    int rc = refuse_field(user, "auth-provider",
                          "is not supported (and was removed from kubectl); use an exec plugin "
                          "instead, as gke-gcloud-auth-plugin or kubelogin",
                          e);
    rc = rc != 0 ? rc : take_certificate(user, a, e);
    rc = rc != 0 ? rc : take_secrets(user, a, e);
    rc = rc != 0 ? rc : take_impersonation(user, a, e);
    rc = rc != 0 ? rc : kube_exec_read(user, &a->exec, e);
    bool fixed = a->token != NULL || a->token_file != NULL || a->username != NULL;
    if (rc == 0 && a->exec != NULL && fixed) {
        log_warn("the exec plugin is not used: the user has a token or password",
                 log_str("user", user->name));
        kube_exec_free(a->exec);
        a->exec = NULL;
    }
    return rc;
}

static const struct kubeconfig_entry *referred(const struct kubeconfig_entry *context,
                                               const struct kubeconfig_list *list, const char *key,
                                               const char *name, struct err *e)
{
    const struct kubeconfig_entry *found = kubeconfig_find(list, name);
    if (found == NULL) {
        kubeconfig_fail(context, key, e, "there is no %s named \"%.80s\" in the kubeconfig", key,
                        name);
    }
    return found;
}

static int resolve(const struct kubeconfig *kc, const struct kubeconfig_entry *context,
                   struct kube_access *a, struct err *e)
{
    const char *cluster_name = NULL;
    const char *user_name = NULL;
    const char *ns = NULL;
    int rc = kubeconfig_string(context, "cluster", &cluster_name, e);
    rc = rc != 0 ? rc : kubeconfig_string(context, "user", &user_name, e);
    rc = rc != 0 ? rc : kubeconfig_string(context, "namespace", &ns, e);
    if (rc != 0) {
        return rc;
    }
    if (cluster_name == NULL) {
        return kubeconfig_fail(context, "cluster", e, "the context names no cluster");
    }
    const struct kubeconfig_entry *cluster =
        referred(context, &kc->clusters, "cluster", cluster_name, e);
    const struct kubeconfig_entry *user =
        user_name == NULL ? NULL : referred(context, &kc->users, "user", user_name, e);
    if (cluster == NULL || (user == NULL && user_name != NULL)) {
        return -EINVAL;
    }
    rc = copy_string(context->name, &a->context, e);
    rc = rc != 0 ? rc : copy_string(cluster_name, &a->cluster, e);
    rc = rc != 0 ? rc : copy_string(user_name != NULL ? user_name : "", &a->user, e);
    rc = rc != 0 ? rc : copy_string(ns != NULL ? ns : "default", &a->ns, e);
    rc = rc != 0 || user == NULL ? rc : resolve_user(user, a, e);
    rc = rc != 0 ? rc : resolve_cluster(cluster, a, a->cert.data != NULL, e);
    return rc != 0 || a->exec == NULL ? rc : kube_exec_add_cluster(a->exec, cluster, e);
}

int kube_access_resolve(const struct kubeconfig *kc, const char *context, struct kube_access *out,
                        struct err *e)
{
    *out = (struct kube_access){.context = NULL};
    const struct kubeconfig_entry *entry = kubeconfig_context(kc, context, e);
    int rc = entry == NULL ? -EINVAL : resolve(kc, entry, out, e);
    if (rc != 0) {
        kube_access_deinit(out);
    }
    return rc;
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

static int in_cluster_server(struct url *out, struct err *e)
{
    const char *host;
    const char *port;
    int rc = check_pod(&host, &port, e);
    if (rc != 0) {
        return rc;
    }
    char *text = NULL;
    bool v6 = strchr(host, ':') != NULL;
    if (asprintf(&text, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port) < 0) {
        return fail_memory(e);
    }
    rc = url_parse(text, out, e);
    if (rc != 0) {
        err_prefix(e, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");
    }
    free(text);
    return rc;
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
        return fail_memory(e);
    }
    struct buf text = BUF_INIT(256);
    rc = file_read(path, &text, e);
    if (rc == 0) {
        const char *ns = buf_cstr(&text);
        *out = ns == NULL ? strdup("default") : strndup(ns, strcspn(ns, " \t\r\n"));
        rc = *out == NULL ? fail_memory(e) : 0;
    } else if (rc == -ENOENT) {
        rc = copy_string("default", out, e);
    }
    buf_reset(&text);
    free(path);
    return rc;
}

static int in_cluster(const char *dir, struct kube_access *a, struct err *e)
{
    int rc = in_cluster_server(&a->server, e);
    if (rc != 0) {
        return rc;
    }
    char *ca = NULL;
    if (asprintf(&a->token_file, "%s/token", dir) < 0) {
        a->token_file = NULL;
        return fail_memory(e);
    }
    if (asprintf(&ca, "%s/ca.crt", dir) < 0) {
        return fail_memory(e);
    }
    rc = kube_pem_read(ca, &a->ca, e);
    free(ca);
    if (rc != 0) {
        err_prefix(e, "service account");
        return rc;
    }
    rc = kube_service_account_namespace(dir, &a->ns, e);
    rc = rc != 0 ? rc : copy_string("", &a->context, e);
    rc = rc != 0 ? rc : copy_string("", &a->cluster, e);
    rc = rc != 0 ? rc : copy_string("", &a->user, e);
    return rc != 0 ? rc : copy_string(a->server.host, &a->server_name, e);
}

int kube_access_in_cluster(const char *dir, struct kube_access *out, struct err *e)
{
    *out = (struct kube_access){.context = NULL};
    int rc = in_cluster(dir != NULL ? dir : KUBE_SERVICE_ACCOUNT_DIR, out, e);
    if (rc != 0) {
        kube_access_deinit(out);
    }
    return rc;
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
    free(a->ns);
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
