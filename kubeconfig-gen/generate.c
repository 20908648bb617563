/* SPDX-License-Identifier: Apache-2.0 */
#include "generate.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/secret.h"
#include "crypto/digest.h"
#include "program/local_token.h"
#include "same_cluster.h"
#include "yaml/yaml.h"
#include "json/edit.h"
#include "json/field.h"

/* Of a context that names no user, where a token must be sent. */
#define EXTRA_USER "cmesh"
#define IN_CLUSTER "in-cluster"

/* The tree under construction. */
struct tree {
    const struct generate_options *o;
    struct edit ed;
    cJSON *root;
    cJSON *clusters;
    cJSON *users;
    cJSON *contexts;
};

static void init_tree(struct tree *w, const struct generate_options *o)
{
    *w = (struct tree){.o = o, .root = cJSON_CreateObject()};
    edit_string(&w->ed, w->root, "apiVersion", "v1");
    edit_string(&w->ed, w->root, "kind", "Config");
    w->clusters = edit_array(&w->ed, w->root, "clusters");
    w->contexts = edit_array(&w->ed, w->root, "contexts");
    w->users = edit_array(&w->ed, w->root, "users");
}

/* NULL: left out. */
static void put_text(struct edit *ed, cJSON *object, const char *key, const char *text)
{
    if (text != NULL) {
        edit_string(ed, object, key, text);
    }
}

/* Adds {name: <name>, <key>: {}} to the list and returns the inner object. */
static cJSON *add_named(struct tree *w, cJSON *list, const char *name, const char *key)
{
    cJSON *item = edit_append_object(&w->ed, list);
    edit_string(&w->ed, item, "name", name);
    return edit_object(&w->ed, item, key);
}

static bool has_named(const cJSON *list, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(field_text(item, "name"), name) == 0) {
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
 * what stands in the URL as Basic authentication; most others do it the other way round. With both
 * in place each of these sends one, and localproxy takes either; some refuse such a file
 * (docs/clients.md).
 */
static void write_server(const struct generate_options *o, struct buf *out)
{
    char host[URL_HOST_PORT_SIZE];
    url_host_port(o->proxy, host);
    buf_append_str(out, o->proxy->https ? "https://" : "http://");
    if (o->token != NULL && !o->proxy->https) {
        buf_append_str(out, LOCAL_TOKEN_USER ":");
        append_escaped(out, o->token);
        buf_append_char(out, '@');
    }
    buf_append_str(out, host);
}

static void put_buffer(struct edit *ed, cJSON *object, const char *key, struct buf *text)
{
    const char *str = buf_cstr(text);
    edit_set(ed, object, key, str == NULL ? NULL : cJSON_CreateString(str));
    secret_buf_reset(text);
}

static void put_ca(struct edit *ed, cJSON *cluster, struct slice ca)
{
    struct buf text = BUF_INIT(ca.len * 2 + 8);
    if (base64_encode(ca, &text) != 0) {
        edit_fail(ed, -ENOMEM);
    }
    put_buffer(ed, cluster, "certificate-authority-data", &text);
}

static void add_cluster(struct tree *w, const char *name)
{
    struct buf server = BUF_INIT((size_t)64 * 1024);
    cJSON *cluster = add_named(w, w->clusters, name, "cluster");
    write_server(w->o, &server);
    put_buffer(&w->ed, cluster, "server", &server);
    if (w->o->proxy_ca.len > 0) {
        put_ca(&w->ed, cluster, w->o->proxy_ca);
    }
    /* Nothing is verified over plain HTTP; the JavaScript client wants to have that said. */
    if (!w->o->proxy->https) {
        edit_bool(&w->ed, cluster, "insecure-skip-tls-verify", true);
    }
}

static void add_user(struct tree *w, const char *name)
{
    put_text(&w->ed, add_named(w, w->users, name, "user"), "token", w->o->token);
}

static void add_context(struct tree *w, const char *name, const char *cluster, const char *user,
                        const char *ns)
{
    cJSON *context = add_named(w, w->contexts, name, "context");
    put_text(&w->ed, context, "cluster", cluster);
    put_text(&w->ed, context, "user", user);
    put_text(&w->ed, context, "namespace", ns);
}

static void set_current(struct tree *w, const char *name)
{
    edit_string(&w->ed, w->root, "current-context", name);
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
    add_context(w, entry->name, f.cluster, f.user, f.ns);
    if (f.user != NULL && strcmp(f.user, EXTRA_USER) == 0 && !has_named(w->users, EXTRA_USER)) {
        add_user(w, EXTRA_USER);
    }
    return 0;
}

/* ---- which contexts ---- */

/* NULL: the context names none, or one that is not there. */
static const struct kubeconfig_entry *cluster_of(const struct kubeconfig *kc,
                                                 const struct kubeconfig_entry *context)
{
    struct err ignored = ERR_INIT;
    const char *name = kubeconfig_string(context, "cluster", &ignored);
    return name == NULL ? NULL : kubeconfig_find(&kc->clusters, name);
}

/* As localproxy reads it: what it refuses is of no use to the operator either. */
static int check_user(const struct kubeconfig *kc, const struct kubeconfig_entry *context,
                      struct err *e)
{
    (void)kubeconfig_referred(kc, context, "user", e);
    return e->code;
}

/* The contexts of a kubeconfig, and which of them are written. */
struct choice {
    const struct kubeconfig *kc;
    bool *others; /* for each of kc->clusters: it is not the one */
    bool all;
};

static bool is_of_another(const struct choice *c, const struct kubeconfig_entry *cluster)
{
    return cluster != NULL && c->others[cluster - c->kc->clusters.items];
}

/* `home` NULL: no context has a cluster. */
static int find_others(struct choice *c, const struct kubeconfig_entry *home)
{
    const struct kubeconfig_list *clusters = &c->kc->clusters;
    int same = 1;
    c->others = calloc(clusters->count + 1, sizeof *c->others);
    if (c->others == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < clusters->count && home != NULL && same >= 0; i++) {
        same = same_cluster(home, &clusters->items[i]);
        c->others[i] = same == 0;
    }
    return same < 0 ? same : 0;
}

static bool is_left_out(const struct choice *c, const struct kubeconfig_entry *cluster)
{
    return !c->all && is_of_another(c, cluster);
}

static void note_others(const struct choice *c, struct generate_notes *notes)
{
    const struct kubeconfig_list *contexts = &c->kc->contexts;
    for (size_t i = 0; i < contexts->count; i++) {
        const struct kubeconfig_entry *cluster = cluster_of(c->kc, &contexts->items[i]);
        if (is_of_another(c, cluster)) {
            notes->other = notes->other == NULL ? contexts->items[i].name : notes->other;
            notes->others++;
        } else if (notes->one == NULL && cluster != NULL) {
            notes->one = contexts->items[i].name;
        }
    }
    if (notes->other == NULL) {
        notes->one = NULL;
    }
}

/* The cluster of the context, or else of the first one that has any. NULL: none has. */
static const struct kubeconfig_entry *home_of(const struct kubeconfig *kc,
                                              const struct kubeconfig_entry *context)
{
    const struct kubeconfig_entry *home = context == NULL ? NULL : cluster_of(kc, context);
    for (size_t i = 0; i < kc->contexts.count && home == NULL; i++) {
        home = cluster_of(kc, &kc->contexts.items[i]);
    }
    return home;
}

/* The current context says which cluster; without one, that of all contexts. `out->others` is to be
 * freed in any case. */
static int choose(const struct kubeconfig *kc, bool all, struct choice *out,
                  struct generate_notes *notes, struct err *e)
{
    const struct kubeconfig_entry *current = kubeconfig_find(&kc->contexts, kc->current_context);
    bool said = current != NULL && cluster_of(kc, current) != NULL;
    *out = (struct choice){.kc = kc, .all = all};
    if (find_others(out, home_of(kc, current)) != 0) {
        return err_memory(e);
    }
    note_others(out, notes);
    notes->no_current = current == NULL;
    if (!said && notes->other != NULL && !all) {
        return err_set(
            e, -EINVAL,
            "the contexts are of several clusters (\"%.63s\" and \"%.63s\" for "
            "example), and the current context names none of them: choose one with --context",
            notes->one, notes->other);
    }
    return current == NULL ? 0 : check_user(kc, current, e);
}

/* ---- the whole ---- */

/* Users whom only contexts that are left out have are not of use. */
static bool is_user_left_out(const struct choice *c, const char *user)
{
    bool left_out = false;
    for (size_t i = 0; i < c->kc->contexts.count; i++) {
        struct err ignored = ERR_INIT;
        const struct kubeconfig_entry *context = &c->kc->contexts.items[i];
        const char *name = kubeconfig_string(context, "user", &ignored);
        if (name != NULL && strcmp(name, user) == 0) {
            if (!is_left_out(c, cluster_of(c->kc, context))) {
                return false;
            }
            left_out = true;
        }
    }
    return left_out;
}

static void copy_names(struct tree *w, const struct choice *c, bool some_left_out)
{
    for (size_t i = 0; i < c->kc->clusters.count; i++) {
        if (!is_left_out(c, &c->kc->clusters.items[i])) {
            add_cluster(w, c->kc->clusters.items[i].name);
        }
    }
    for (size_t i = 0; i < c->kc->users.count; i++) {
        const char *name = c->kc->users.items[i].name;
        if (!some_left_out || !is_user_left_out(c, name)) {
            add_user(w, name);
        }
    }
}

static int copy_chosen(struct tree *w, const struct choice *c, struct generate_notes *notes,
                       struct err *e)
{
    int rc = 0;
    copy_names(w, c, !c->all && notes->others > 0);
    if (!notes->no_current) {
        set_current(w, c->kc->current_context);
    }
    for (size_t i = 0; i < c->kc->contexts.count && rc == 0; i++) {
        const struct kubeconfig_entry *context = &c->kc->contexts.items[i];
        if (!is_left_out(c, cluster_of(c->kc, context))) {
            rc = copy_context(w, context, e);
            notes->contexts++;
        }
    }
    return rc;
}

static int copy_all(struct tree *w, const struct kubeconfig *kc, struct generate_notes *notes,
                    struct err *e)
{
    struct choice c;
    int rc = choose(kc, w->o->all_contexts, &c, notes, e);
    if (rc == 0) {
        rc = copy_chosen(w, &c, notes, e);
    }
    free(c.others);
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
    if (kubeconfig_referred(kc, entry, "cluster", e) == NULL) {
        kubeconfig_fail(entry, "cluster", e, "the context names no cluster");
    }
    if (check_user(kc, entry, e) != 0) {
        return e->code;
    }
    notes->contexts = 1;
    add_cluster(w, f.cluster);
    if (f.user != NULL) {
        add_user(w, f.user);
    }
    add_context(w, entry->name, f.cluster, f.user, f.ns);
    set_current(w, entry->name);
    return 0;
}

/* Ends the tree, too. */
static int print_tree(struct tree *w, struct buf *out, struct err *e)
{
    if (out == NULL) {
        secret_json_delete(w->root);
        return 0;
    }
    buf_append_str(out, "# Written by kubeconfig-gen. The clusters lead to localproxy, which has "
                        "the credentials.\n");
    int rc = w->ed.rc != 0 ? w->ed.rc : yaml_emit(w->root, out);
    secret_json_delete(w->root);
    if (rc == -EINVAL) {
        return err_set(e, rc, "a name in the kubeconfig is not UTF-8");
    }
    return rc != 0 ? err_set(e, rc, "cannot write the kubeconfig: %s", err_text(rc)) : 0;
}

char *generate_token(const struct kubeconfig *kc, const char *context, const char *token)
{
    const char *name = context != NULL ? context : kc->current_context;
    const struct kubeconfig_entry *home = home_of(kc, kubeconfig_find(&kc->contexts, name));
    struct err ignored = ERR_INIT;
    char scope[LOCAL_TOKEN_SCOPE_LEN + 1] = "";
    struct url server;
    char *text = NULL;
    const char *url = home == NULL ? NULL : kubeconfig_string(home, "server", &ignored);
    if (url != NULL && url_parse(url, &server, &ignored) == 0) {
        local_token_scope(&server, scope);
    }
    return asprintf(&text, "%s%s", token, scope) < 0 ? NULL : text;
}

static int write_chosen(const struct kubeconfig *kc, const struct generate_options *o,
                        struct buf *out, struct generate_notes *notes, struct err *e)
{
    struct tree w;
    init_tree(&w, o);
    int rc = o->context != NULL ? copy_one(&w, kc, notes, e) : copy_all(&w, kc, notes, e);
    if (rc == 0) {
        return print_tree(&w, out, e);
    }
    secret_json_delete(w.root);
    return rc;
}

int generate_from_kubeconfig(const struct kubeconfig *kc, const struct generate_options *o,
                             struct buf *out, struct generate_notes *notes, struct err *e)
{
    struct generate_options scoped = *o;
    char *token = NULL;
    *notes = (struct generate_notes){.contexts = 0};
    if (o->token != NULL && !o->all_contexts) {
        token = generate_token(kc, o->context, o->token);
        if (token == NULL) {
            return err_memory(e);
        }
        scoped.token = token;
    }
    int rc = write_chosen(kc, &scoped, out, notes, e);
    secret_free(token);
    return rc;
}

int generate_in_cluster(const char *ns, const struct generate_options *o, struct buf *out,
                        struct err *e)
{
    struct tree w;
    init_tree(&w, o);
    add_cluster(&w, IN_CLUSTER);
    add_user(&w, IN_CLUSTER);
    add_context(&w, IN_CLUSTER, IN_CLUSTER, IN_CLUSTER, ns);
    set_current(&w, IN_CLUSTER);
    return print_tree(&w, out, e);
}

static cJSON *configmap_tree(const char *ns_and_name, const char *text)
{
    struct edit ed = {.rc = 0};
    const char *slash = strchr(ns_and_name, '/');
    char *ns = strndup(ns_and_name, (size_t)(slash - ns_and_name));
    cJSON *root = cJSON_CreateObject();
    edit_string(&ed, root, "apiVersion", "v1");
    edit_string(&ed, root, "kind", "ConfigMap");
    cJSON *metadata = edit_object(&ed, root, "metadata");
    edit_string(&ed, metadata, "name", slash + 1);
    edit_set(&ed, metadata, "namespace", ns == NULL ? NULL : cJSON_CreateString(ns));
    edit_string(&ed, edit_object(&ed, root, "data"), "kubeconfig", text);
    free(ns);
    return edit_result(&ed, root);
}

int generate_configmap(const char *ns_and_name, const char *text, struct buf *out, struct err *e)
{
    cJSON *root = configmap_tree(ns_and_name, text);
    int rc = root == NULL ? -ENOMEM : yaml_emit(root, out);
    cJSON_Delete(root);
    return rc != 0 ? err_set(e, rc, "cannot write the ConfigMap: %s", err_text(rc)) : 0;
}
