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

/* NULL: left out. */
static bool put_text(cJSON *object, const char *key, const char *text)
{
    return text == NULL || cJSON_AddStringToObject(object, key, text) != NULL;
}

static bool init_tree(struct tree *w, const struct generate_options *o)
{
    *w = (struct tree){.o = o, .root = cJSON_CreateObject()};
    return w->root != NULL && put_text(w->root, "apiVersion", "v1") &&
           put_text(w->root, "kind", "Config") &&
           (w->clusters = cJSON_AddArrayToObject(w->root, "clusters")) != NULL &&
           (w->contexts = cJSON_AddArrayToObject(w->root, "contexts")) != NULL &&
           (w->users = cJSON_AddArrayToObject(w->root, "users")) != NULL;
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
static void write_server(const struct generate_options *o, struct buf *out)
{
    char host[URL_HOST_PORT_SIZE];
    url_host_port(o->proxy, host);
    buf_append_str(out, o->proxy->https ? "https://" : "http://");
    if (o->token != NULL && !o->proxy->https) {
        buf_append_str(out, TOKEN_USER ":");
        append_escaped(out, o->token);
        buf_append_char(out, '@');
    }
    buf_append_str(out, host);
}

static bool put_ca(cJSON *cluster, struct slice ca)
{
    struct buf text = BUF_INIT(ca.len * 2 + 8);
    bool ok = base64_encode(ca, &text) == 0 && buf_cstr(&text) != NULL &&
              put_text(cluster, "certificate-authority-data", (const char *)buf_data(&text));
    buf_reset(&text);
    return ok;
}

/* These fail for want of memory only. */

static bool add_cluster(struct tree *w, const char *name)
{
    struct buf server = BUF_INIT((size_t)64 * 1024);
    cJSON *cluster = add_named(w->clusters, name, "cluster");
    write_server(w->o, &server);
    bool ok = cluster != NULL && buf_cstr(&server) != NULL &&
              put_text(cluster, "server", (const char *)buf_data(&server));
    if (ok && w->o->proxy_ca.len > 0) {
        ok = put_ca(cluster, w->o->proxy_ca);
    }
    /* Nothing is verified over plain HTTP; the JavaScript client wants to have that said. */
    if (ok && !w->o->proxy->https) {
        ok = cJSON_AddTrueToObject(cluster, "insecure-skip-tls-verify") != NULL;
    }
    secret_buf_reset(&server);
    return ok;
}

static bool add_user(struct tree *w, const char *name)
{
    cJSON *user = add_named(w->users, name, "user");
    return user != NULL && put_text(user, "token", w->o->token);
}

static bool add_context(struct tree *w, const char *name, const char *cluster, const char *user,
                        const char *ns)
{
    cJSON *context = add_named(w->contexts, name, "context");
    return context != NULL && put_text(context, "cluster", cluster) &&
           put_text(context, "user", user) && put_text(context, "namespace", ns);
}

static bool set_current(struct tree *w, const char *name)
{
    return put_text(w->root, "current-context", name);
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
    if (rc != 0) {
        return rc;
    }
    bool extra =
        f.user != NULL && strcmp(f.user, EXTRA_USER) == 0 && !has_named(w->users, EXTRA_USER);
    return add_context(w, entry->name, f.cluster, f.user, f.ns) &&
                   (!extra || add_user(w, EXTRA_USER))
               ? 0
               : err_memory(e);
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
    bool ok = true;
    for (size_t i = 0; i < kc->clusters.count && ok; i++) {
        ok = add_cluster(w, kc->clusters.items[i].name);
    }
    for (size_t i = 0; i < kc->users.count && ok; i++) {
        ok = add_user(w, kc->users.items[i].name);
    }
    notes->no_current = kubeconfig_find(&kc->contexts, kc->current_context) == NULL;
    if (!ok || (!notes->no_current && !set_current(w, kc->current_context))) {
        return err_memory(e);
    }
    int rc = 0;
    for (size_t i = 0; i < kc->contexts.count && rc == 0; i++) {
        rc = copy_context(w, &kc->contexts.items[i], e);
        note_server(kc, &kc->contexts.items[i], &first_server, notes);
    }
    notes->contexts = kc->contexts.count;
    if (notes->other == NULL) {
        notes->one = NULL;
    }
    return rc;
}

static int copy_one(struct tree *w, const struct kubeconfig *kc, struct generate_notes *notes,
                    struct err *e)
{
    struct context_fields f;
    const struct kubeconfig_entry *entry = kubeconfig_context(kc, w->o->context, e);
    if (entry == NULL || read_context(entry, w->o, &f, e) != 0) {
        return e->code;
    }
    if (f.cluster == NULL || kubeconfig_find(&kc->clusters, f.cluster) == NULL) {
        kubeconfig_fail(entry, "cluster", e, "the context refers to a cluster that does not exist");
        return e->code;
    }
    notes->contexts = 1;
    return add_cluster(w, f.cluster) && (f.user == NULL || add_user(w, f.user)) &&
                   add_context(w, entry->name, f.cluster, f.user, f.ns) &&
                   set_current(w, entry->name)
               ? 0
               : err_memory(e);
}

static int print_tree(const struct tree *w, struct buf *out, struct err *e)
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
    int rc = !init_tree(&w, o)    ? err_memory(e)
             : o->context != NULL ? copy_one(&w, kc, notes, e)
                                  : copy_all(&w, kc, notes, e);
    if (rc == 0) {
        rc = print_tree(&w, out, e);
    }
    secret_json_delete(w.root);
    return rc;
}

int generate_in_cluster(const char *ns, const struct generate_options *o, struct buf *out,
                        struct err *e)
{
    struct tree w;
    bool ok = init_tree(&w, o) && add_cluster(&w, IN_CLUSTER) && add_user(&w, IN_CLUSTER) &&
              add_context(&w, IN_CLUSTER, IN_CLUSTER, IN_CLUSTER, ns) &&
              set_current(&w, IN_CLUSTER);
    int rc = ok ? print_tree(&w, out, e) : err_memory(e);
    secret_json_delete(w.root);
    return rc;
}

static cJSON *configmap_tree(const char *ns_and_name, const char *text)
{
    const char *slash = strchr(ns_and_name, '/');
    cJSON *root = cJSON_CreateObject();
    bool ok =
        root != NULL && put_text(root, "apiVersion", "v1") && put_text(root, "kind", "ConfigMap");
    cJSON *metadata = ok ? cJSON_AddObjectToObject(root, "metadata") : NULL;
    char *ns = strndup(ns_and_name, (size_t)(slash - ns_and_name));
    ok = metadata != NULL && ns != NULL && put_text(metadata, "name", slash + 1) &&
         put_text(metadata, "namespace", ns);
    cJSON *data = ok ? cJSON_AddObjectToObject(root, "data") : NULL;
    free(ns);
    if (data == NULL || !put_text(data, "kubeconfig", text)) {
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
