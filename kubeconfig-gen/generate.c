/* SPDX-License-Identifier: Apache-2.0 */
#include "generate.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "crypto/digest.h"
#include "yaml/yaml.h"

/* The user name that stands beside the token in the proxy's URL, see add_server. */
#define TOKEN_USER "cmesh"
/* Of a context that names no user, where a token must be sent. */
#define EXTRA_USER "cmesh"
#define IN_CLUSTER "in-cluster"

/* The tree under construction. */
struct tree {
    const struct generate_options *o;
    cJSON *root;
    cJSON *clusters;
    cJSON *users;
    cJSON *contexts;
};

static int init(struct tree *w, const struct generate_options *o, struct err *e)
{
    *w = (struct tree){.o = o, .root = cJSON_CreateObject()};
    if (w->root == NULL || cJSON_AddStringToObject(w->root, "apiVersion", "v1") == NULL ||
        cJSON_AddStringToObject(w->root, "kind", "Config") == NULL ||
        (w->clusters = cJSON_AddArrayToObject(w->root, "clusters")) == NULL ||
        (w->contexts = cJSON_AddArrayToObject(w->root, "contexts")) == NULL ||
        (w->users = cJSON_AddArrayToObject(w->root, "users")) == NULL) {
        return err_memory(e);
    }
    return 0;
}

/* Adds {name: <name>, <key>: {}} to the list and returns the inner object; NULL without memory. */
static cJSON *add_named(cJSON *list, const char *name, const char *key)
{
    cJSON *item = cJSON_CreateObject();
    if (item == NULL || !cJSON_AddItemToArray(list, item) ||
        cJSON_AddStringToObject(item, "name", name) == NULL) {
        return NULL;
    }
    return cJSON_AddObjectToObject(item, key);
}

static bool has_named(const cJSON *list, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(cJSON_GetObjectItem(item, "name")->valuestring, name) == 0) {
            return true;
        }
    }
    return false;
}

static void append_escaped(struct buf *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (isalnum(c) || strchr("-._~", c) != NULL) {
            buf_append_char(out, (char)c);
        } else {
            buf_printf(out, "%%%02X", c);
        }
    }
}

/*
 * Over plain HTTP client-go leaves the user's token out (it reads users only for https), but sends
 * what stands in the URL as Basic authentication; the other clients do it the other way round.
 * With both in place each sends one, and localproxy takes either.
 */
static int server_text(const struct generate_options *o, struct buf *out)
{
    char host[URL_HOST_PORT_SIZE];
    url_host_port(o->proxy, host);
    buf_append_str(out, o->proxy->https ? "https://" : "http://");
    if (o->token != NULL && !o->proxy->https) {
        buf_append_str(out, TOKEN_USER ":");
        append_escaped(out, o->token);
        buf_append_char(out, '@');
    }
    return buf_append_str(out, host);
}

static int add_ca(cJSON *cluster, struct slice ca)
{
    struct buf text = BUF_INIT(ca.len * 2 + 8);
    int rc = base64_encode(ca, &text);
    const char *encoded = rc == 0 ? buf_cstr(&text) : NULL;
    if (encoded == NULL ||
        cJSON_AddStringToObject(cluster, "certificate-authority-data", encoded) == NULL) {
        rc = -ENOMEM;
    }
    buf_reset(&text);
    return rc;
}

static int add_cluster(struct tree *w, const char *name, struct err *e)
{
    struct buf server = BUF_INIT((size_t)64 * 1024);
    cJSON *cluster = add_named(w->clusters, name, "cluster");
    int rc = cluster == NULL ? -ENOMEM : server_text(w->o, &server);
    const char *text = rc == 0 ? buf_cstr(&server) : NULL;
    if (text == NULL || cJSON_AddStringToObject(cluster, "server", text) == NULL) {
        rc = -ENOMEM;
    }
    if (rc == 0 && w->o->proxy_ca.len > 0) {
        rc = add_ca(cluster, w->o->proxy_ca);
    }
    /* Nothing is verified over plain HTTP; the JavaScript client wants to have that said. */
    if (rc == 0 && !w->o->proxy->https &&
        cJSON_AddTrueToObject(cluster, "insecure-skip-tls-verify") == NULL) {
        rc = -ENOMEM;
    }
    secret_buf_reset(&server);
    return rc != 0 ? err_memory(e) : 0;
}

static int add_user(struct tree *w, const char *name, struct err *e)
{
    cJSON *user = add_named(w->users, name, "user");
    if (user == NULL ||
        (w->o->token != NULL && cJSON_AddStringToObject(user, "token", w->o->token) == NULL)) {
        return err_memory(e);
    }
    return 0;
}

static int add_context(struct tree *w, const char *name, const char *cluster, const char *user,
                       const char *ns, struct err *e)
{
    cJSON *context = add_named(w->contexts, name, "context");
    if (context == NULL ||
        (cluster != NULL && cJSON_AddStringToObject(context, "cluster", cluster) == NULL) ||
        (user != NULL && cJSON_AddStringToObject(context, "user", user) == NULL) ||
        (ns != NULL && cJSON_AddStringToObject(context, "namespace", ns) == NULL)) {
        return err_memory(e);
    }
    return 0;
}

static int set_current(struct tree *w, const char *name, struct err *e)
{
    return cJSON_AddStringToObject(w->root, "current-context", name) == NULL ? err_memory(e) : 0;
}

/* The three strings of a context that are copied; NULL where it has none. */
struct context_fields {
    const char *cluster;
    const char *user;
    const char *ns;
};

static int read_context(const struct kubeconfig_entry *entry, const struct generate_options *o,
                        struct context_fields *out, struct err *e)
{
    out->cluster = kubeconfig_string(entry, "cluster", e);
    out->user = kubeconfig_string(entry, "user", e);
    out->ns = kubeconfig_string(entry, "namespace", e);
    if (out->user == NULL && o->token != NULL) {
        out->user = EXTRA_USER;
    }
    return e->code;
}

static int copy_context(struct tree *w, const struct kubeconfig_entry *entry, struct err *e)
{
    struct context_fields f;
    int rc = read_context(entry, w->o, &f, e);
    if (rc == 0) {
        rc = add_context(w, entry->name, f.cluster, f.user, f.ns, e);
    }
    if (rc == 0 && f.user != NULL && strcmp(f.user, EXTRA_USER) == 0 &&
        !has_named(w->users, EXTRA_USER)) {
        rc = add_user(w, EXTRA_USER, e);
    }
    return rc;
}

/* Remembers two contexts whose clusters have different servers, if there are. */
static void note_server(const struct kubeconfig *kc, const struct kubeconfig_entry *context,
                        const char **first_server, struct generate_notes *notes)
{
    struct err ignored = ERR_INIT;
    const char *name = kubeconfig_string(context, "cluster", &ignored);
    const struct kubeconfig_entry *cluster =
        name == NULL ? NULL : kubeconfig_find(&kc->clusters, name);
    const char *server = cluster == NULL ? NULL : kubeconfig_string(cluster, "server", &ignored);
    if (server == NULL || notes->other != NULL) {
        return;
    }
    if (*first_server == NULL) {
        *first_server = server;
        notes->one = context->name;
    } else if (strcmp(*first_server, server) != 0) {
        notes->other = context->name;
    }
}

static int copy_all(struct tree *w, const struct kubeconfig *kc, struct generate_notes *notes,
                    struct err *e)
{
    const char *first_server = NULL;
    int rc = 0;
    for (size_t i = 0; i < kc->clusters.count && rc == 0; i++) {
        rc = add_cluster(w, kc->clusters.items[i].name, e);
    }
    for (size_t i = 0; i < kc->users.count && rc == 0; i++) {
        rc = add_user(w, kc->users.items[i].name, e);
    }
    for (size_t i = 0; i < kc->contexts.count && rc == 0; i++) {
        rc = copy_context(w, &kc->contexts.items[i], e);
        note_server(kc, &kc->contexts.items[i], &first_server, notes);
    }
    notes->contexts = kc->contexts.count;
    if (notes->other == NULL) {
        notes->one = NULL;
    }
    notes->no_current = kubeconfig_find(&kc->contexts, kc->current_context) == NULL;
    if (rc == 0 && !notes->no_current &&
        cJSON_AddStringToObject(w->root, "current-context", kc->current_context) == NULL) {
        return err_memory(e);
    }
    return rc;
}

static int copy_one(struct tree *w, const struct kubeconfig *kc, struct generate_notes *notes,
                    struct err *e)
{
    struct context_fields f;
    const struct kubeconfig_entry *entry = kubeconfig_context(kc, w->o->context, e);
    int rc = entry == NULL ? -EINVAL : read_context(entry, w->o, &f, e);
    if (rc != 0) {
        return rc;
    }
    if (f.cluster == NULL || kubeconfig_find(&kc->clusters, f.cluster) == NULL) {
        kubeconfig_fail(entry, "cluster", e, "the context refers to a cluster that does not exist");
        return e->code;
    }
    rc = add_cluster(w, f.cluster, e);
    if (rc == 0 && f.user != NULL) {
        rc = add_user(w, f.user, e);
    }
    if (rc == 0) {
        rc = add_context(w, entry->name, f.cluster, f.user, f.ns, e);
    }
    if (rc == 0) {
        rc = set_current(w, entry->name, e);
    }
    notes->contexts = 1;
    return rc;
}

static int print(const struct tree *w, struct buf *out, struct err *e)
{
    buf_append_str(out, "# Written by kubeconfig-gen. The clusters lead to localproxy, which has "
                        "the credentials.\n");
    int rc = yaml_emit(w->root, out);
    if (rc == -EINVAL) {
        return err_set(e, rc, "a name in the kubeconfig is not UTF-8");
    }
    return rc != 0 ? err_set(e, rc, "cannot write the kubeconfig: %s", err_text(rc)) : 0;
}

int generate_from_kubeconfig(const struct kubeconfig *kc, const struct generate_options *o,
                             struct buf *out, struct generate_notes *notes, struct err *e)
{
    struct tree w;
    *notes = (struct generate_notes){.contexts = 0};
    int rc = init(&w, o, e);
    if (rc == 0) {
        rc = o->context != NULL ? copy_one(&w, kc, notes, e) : copy_all(&w, kc, notes, e);
    }
    if (rc == 0) {
        rc = print(&w, out, e);
    }
    secret_json_delete(w.root);
    return rc;
}

static int fill_in_cluster(struct tree *w, const char *ns, struct err *e)
{
    int rc = add_cluster(w, IN_CLUSTER, e);
    if (rc != 0) {
        return rc;
    }
    rc = add_user(w, IN_CLUSTER, e);
    if (rc != 0) {
        return rc;
    }
    rc = add_context(w, IN_CLUSTER, IN_CLUSTER, IN_CLUSTER, ns, e);
    return rc == 0 ? set_current(w, IN_CLUSTER, e) : rc;
}

int generate_in_cluster(const char *ns, const struct generate_options *o, struct buf *out,
                        struct err *e)
{
    struct tree w;
    int rc = init(&w, o, e);
    if (rc == 0) {
        rc = fill_in_cluster(&w, ns, e);
    }
    if (rc == 0) {
        rc = print(&w, out, e);
    }
    secret_json_delete(w.root);
    return rc;
}

static cJSON *configmap_tree(const char *ns_and_name, const char *text)
{
    const char *slash = strchr(ns_and_name, '/');
    cJSON *root = cJSON_CreateObject();
    bool ok = root != NULL && cJSON_AddStringToObject(root, "apiVersion", "v1") != NULL &&
              cJSON_AddStringToObject(root, "kind", "ConfigMap") != NULL;
    cJSON *metadata = ok ? cJSON_AddObjectToObject(root, "metadata") : NULL;
    char *ns = strndup(ns_and_name, (size_t)(slash - ns_and_name));
    ok = metadata != NULL && ns != NULL &&
         cJSON_AddStringToObject(metadata, "name", slash + 1) != NULL &&
         cJSON_AddStringToObject(metadata, "namespace", ns) != NULL;
    cJSON *data = ok ? cJSON_AddObjectToObject(root, "data") : NULL;
    free(ns);
    if (data == NULL || cJSON_AddStringToObject(data, "kubeconfig", text) == NULL) {
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

int generate_configmap(const char *ns_and_name, const char *text, struct buf *out, struct err *e)
{
    cJSON *root = configmap_tree(ns_and_name, text);
    int rc = root == NULL ? -ENOMEM : yaml_emit(root, out);
    cJSON_Delete(root);
    return rc != 0 ? err_set(e, rc, "cannot write the ConfigMap: %s", err_text(rc)) : 0;
}
