/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ShardingConfigs, and the namespaces of all that is followed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/shard_cache_internal.h"
#include "compile/shards.h"
#include "inject/inject_options.h"
#include "object/last_editor.h"
#include "object/names.h"
#include "object/root_child.h"
#include "json/field.h"

/* ---- namespaces ---- */

static void free_namespace(struct shard_cache *w, struct namespace *s)
{
    pod_selection_deinit(&s->members);
    table_remove(&w->namespaces, &s->node);
    free(s);
    shard_cache_trim(w); /* its account */
}

static struct namespace *new_namespace(struct shard_cache *w, const char *ns)
{
    struct namespace *s = calloc(1, sizeof *s + strlen(ns) + 1);
    if (s == NULL) {
        return NULL;
    }
    memcpy(s->name, ns, strlen(ns) + 1);
    list_init(&s->configs);
    list_init(&s->maps);
    list_init(&s->injected);
    list_init(&s->pods);
    pod_selection_init(&s->members);
    s->account = shard_cache_account(w, ns);
    if (s->account == NULL || table_insert(&w->namespaces, &s->node, s->name) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

struct namespace *shard_cache_provide_namespace(struct shard_cache *w, const char *ns)
{
    struct table_node *n = table_find(&w->namespaces, ns);
    return n == NULL ? new_namespace(w, ns) : LIST_ITEM(n, struct namespace, node);
}

void shard_cache_leave_namespace(struct shard_cache *w, struct namespace *s)
{
    if (list_empty(&s->configs) && list_empty(&s->maps) && list_empty(&s->pods)) {
        free_namespace(w, s);
    }
}

/* ---- configs ---- */

/* The pods whose membership of a shard changes are told of afterwards. */
static void tell_pods_of(struct shard_cache *w, const struct config *c)
{
    LIST_FOR_EACH(n, &c->shard.pods)
    {
        struct pod_entry *p = pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod);
        shard_cache_tell_shards_of(w, p);
        shard_cache_tell_pod(w, p->pod, false);
    }
}

static int join_pods(struct shard_cache *w, struct config *c)
{
    struct namespace *s = c->namespace;
    int rc = pod_selection_add(&s->members, &c->shard, c->selector);
    for (struct list *n = s->pods.next; rc == 0 && n != &s->pods; n = n->next) {
        struct pod_entry *p = LIST_ITEM(n, struct pod_entry, link);
        rc = pod_selection_join(&c->shard, &p->member, p->pod);
    }
    tell_pods_of(w, c);
    return rc;
}

/* They are told of one by one, when they are not members any more. */
static void part_pods(struct shard_cache *w, struct config *c)
{
    while (!list_empty(&c->shard.pods)) {
        struct member *m = LIST_ITEM(c->shard.pods.next, struct member, of_shard);
        struct pod_entry *p = pod_of_member(m->pod);
        pod_selection_part(m);
        shard_cache_tell_shards_of(w, p);
        shard_cache_tell_pod(w, p->pod, false);
    }
    pod_selection_remove(&c->namespace->members, &c->shard);
}

static void free_config(struct config *c)
{
    free(c->changed_by);
    selector_free(c->selector);
    list_remove(&c->selecting);
    config_spec_forget(&c->spec);
    byte_share_give_back(&c->share);
    cJSON_Delete(c->object);
    free(c);
}

/* The namespace stays: shard_cache_leave_namespace is due. */
static void drop_config(struct shard_cache *w, struct config *c)
{
    c->seen.pod_count = c->shard.pod_count;
    shard_cache_tell_deleted(w, &c->seen);
    table_remove(&w->configs, &c->node);
    part_pods(w, c);
    list_remove(&c->link);
    shard_cache_tell_shard(w, c->seen.key, SHARD_CACHE_CONFIG);
    free_config(c);
}

/* Whether both have the same spec: the API server counts its changes. */
static bool same_generation(const cJSON *a, const cJSON *b)
{
    const cJSON *x = field_get(field_get(a, "metadata"), "generation");
    const cJSON *y = field_get(field_get(b, "metadata"), "generation");
    return cJSON_IsNumber(x) && cJSON_IsNumber(y) && x->valuedouble == y->valuedouble;
}

struct rules *shard_cache_rules(struct shard_cache *w, const struct shard_cache_config *seen,
                                const struct compile_options *o, struct err *e)
{
    struct config *c = LIST_ITEM(seen, struct config, seen);
    bool before = c->spec.compiled;
    struct compile_options with = *o;
    with.shared = &w->shared;
    struct rules *rules =
        config_spec_compile(&c->spec, c->object, &with, &c->namespace->account->bytes, e);
    if (!before) {
        c->reserved = 0;
        c->seen.namespaces = c->spec.namespaces;
        shard_cache_count_config(c);
    }
    struct map_entry *m = before || rules == NULL ? NULL : find_map(w, c->key);
    if (m != NULL) {
        rules_map_share(m->map, rules);
    }
    if (!before && rules != NULL && shard_cache_is_too_much(w, c)) {
        return config_spec_compile(&c->spec, c->object, &with, NULL, e); /* which says why not */
    }
    return rules;
}

cJSON *shard_cache_whole(const struct shard_cache_config *seen)
{
    const struct config *c = LIST_ITEM(seen, struct config, seen);
    return config_spec_whole(&c->spec, c->object);
}

/* The spec is another one. 0 or -ENOMEM: then all is as before. */
static int take_spec(struct shard_cache *w, struct config *c, const cJSON *object)
{
    struct config_spec spec = {.text = NULL};
    if (config_spec_set(&spec, object) != 0) {
        config_spec_forget(&spec);
        return -ENOMEM;
    }
    config_spec_forget(&c->spec);
    c->spec = spec;
    c->seen.over = false;
    shard_cache_note_selecting(w, c);
    return 0;
}

/* It was given up, and there is room for it. */
static bool is_welcome(const struct shard_cache *w, const struct config *c)
{
    return c->seen.over && shard_cache_has_room(w, c->wanted);
}

/* Of a child of a root alone, for others may be changed by anybody. 0 or -ENOMEM. */
static int note_changer(const struct shard_cache *w, struct config *c, const cJSON *whole)
{
    static const char *const managers[] = {RULES_MAP_MANAGER, ROOT_FIELD_MANAGER, NULL};
    char key[NAMES_KEY_SIZE];
    char text[LAST_EDITOR_SIZE] = "";
    const cJSON *meta = field_get(whole, "metadata");
    names_key(w->prefix, ROOT_LABEL, key);
    if (field_text(field_get(meta, "labels"), key)[0] != '\0' || c->changed_by != NULL) {
        last_editor_find(meta, managers, text);
    }
    char *copy = text[0] == '\0' ? NULL : strdup(text);
    free(c->changed_by);
    c->changed_by = copy;
    return text[0] != '\0' && copy == NULL ? -ENOMEM : 0;
}

/* `whole` is what the API server has; takes `object`, which is kept of it. */
static int set_config(struct shard_cache *w, struct config *c, const cJSON *whole, cJSON *object)
{
    bool welcome = is_welcome(w, c);
    bool fresh = welcome || !same_generation(c->object, object);
    if (note_changer(w, c, whole) != 0 || (fresh && take_spec(w, c, whole) != 0)) {
        cJSON_Delete(object);
        return -ENOMEM;
    }
    cJSON_Delete(c->object);
    c->object = object;
    c->stale = false;
    c->seen = (struct shard_cache_config){
        .key = c->key,
        .ns = shards_namespace(object),
        .name = shards_name(object),
        .uid = field_meta(object, "uid"),
        .version = field_meta(object, "resourceVersion"),
        .object = object,
        .lacks_limits = c->spec.lacks_limits,
        .unlimited = c->spec.unlimited,
        .over = c->seen.over,
        .root = field_get(field_get(object, "spec"), "root") != NULL,
        .digest = c->spec.digest,
        .changed_by = c->changed_by == NULL ? "" : c->changed_by,
        .by_namespaces = c->spec.asks != NULL,
        .namespaces = c->spec.namespaces,
        .round = c->seen.round,
    };
    c->reserved = welcome ? c->wanted : 0;
    return 0;
}

static struct config *add_config(struct shard_cache *w, const char *key, const char *ns)
{
    struct namespace *s = shard_cache_provide_namespace(w, ns);
    struct config *c = calloc(1, sizeof *c + strlen(key) + 1);
    if (c != NULL && s != NULL) {
        memcpy(c->key, key, strlen(key) + 1);
        pod_selection_shard_init(&c->shard);
        list_init(&c->selecting);
        c->namespace = s;
        byte_share_init(&c->share, &s->account->bytes);
        if (table_insert(&w->configs, &c->node, c->key) == 0) {
            list_append(&s->configs, &c->link);
            shard_cache_show_map(w, s, key);
            return c;
        }
    }
    if (s != NULL) {
        shard_cache_leave_namespace(w, s);
    }
    free(c);
    return NULL;
}

/* What selects its pods; *out is NULL when nothing sensible does. */
static int pod_selector(const cJSON *object, struct selector **out)
{
    struct err e = ERR_INIT;
    bool root = field_get(field_get(object, "spec"), "root") != NULL;
    *out = root ? NULL : shards_pod_selector(object, &e);
    return *out == NULL && e.code == -ENOMEM ? -ENOMEM : 0;
}

static bool same_selector(const struct selector *a, const struct selector *b)
{
    return (a == NULL) == (b == NULL) && (a == NULL || selector_equal(a, b));
}

/* Takes `selector`. */
static int change_selector(struct shard_cache *w, struct config *c, struct selector *selector)
{
    if (same_selector(c->selector, selector)) {
        selector_free(selector);
        return 0;
    }
    part_pods(w, c);
    selector_free(c->selector);
    c->selector = selector;
    int rc = selector == NULL ? 0 : join_pods(w, c);
    if (rc != 0) {
        part_pods(w, c);
        selector_free(c->selector);
        c->selector = NULL;
        c->seen.version = ""; /* so that the next list changes it again */
    }
    return rc;
}

void shard_cache_drop_selector(struct shard_cache *w, struct config *c)
{
    cJSON *spec = cJSON_GetObjectItemCaseSensitive(c->object, "spec");
    int rc = change_selector(w, c, NULL);
    (void)rc; /* fails with a selector only */
    cJSON_DeleteItemFromObjectCaseSensitive(spec, "selector");
}

static void leave_by_name(struct shard_cache *w, const char *ns)
{
    struct table_node *n = table_find(&w->namespaces, ns);
    if (n != NULL) {
        shard_cache_leave_namespace(w, LIST_ITEM(n, struct namespace, node));
    }
}

/* One that was not told of yet. */
static void undo_config(struct shard_cache *w, struct config *c)
{
    struct namespace *s = c->namespace;
    table_remove(&w->configs, &c->node);
    list_remove(&c->link);
    free_config(c);
    shard_cache_leave_namespace(w, s);
}

static int put_config(struct shard_cache *w, const char *key, const cJSON *object)
{
    struct config *c = find_config(w, key);
    struct selector *selector = NULL;
    bool replaced = false;
    if (c != NULL && strcmp(c->seen.uid, field_meta(object, "uid")) != 0) {
        replaced = true; /* by another config of the same name */
        drop_config(w, c);
        c = NULL;
    }
    if (c != NULL && strcmp(c->seen.version, field_meta(object, "resourceVersion")) == 0 &&
        !is_welcome(w, c)) {
        c->stale = false;
        return 0;
    }
    cJSON *copy = config_spec_rest(object, w->prefix);
    int rc = copy == NULL ? -ENOMEM : pod_selector(object, &selector);
    c = rc != 0 || c != NULL ? c : add_config(w, key, shards_namespace(object));
    if (rc != 0 || c == NULL) {
        cJSON_Delete(copy);
        selector_free(selector);
        if (replaced) {
            leave_by_name(w, shards_namespace(object)); /* add_config may have left it already */
        }
        return -ENOMEM;
    }
    bool shares = c->object != NULL && sharing_of(c->object) != NULL;
    rc = set_config(w, c, object, copy);
    if (rc != 0) {
        selector_free(selector);
        if (c->object == NULL) {
            undo_config(w, c);
        }
        return rc;
    }
    rc = change_selector(w, c, selector);
    if (c->seen.over) {
        config_spec_drop_share(c->object);
    }
    if (c->seen.over && shard_cache_drops_selector(c)) {
        shard_cache_drop_selector(w, c);
    }
    shard_cache_count_config(c);
    shard_cache_trim(w);
    shard_cache_tell_shard(w, key, SHARD_CACHE_CONFIG);
    if (shares || sharing_of(c->object) != NULL) {
        shard_cache_share_namespaces(w);
    }
    return rc;
}

static int config_key(const cJSON *object, char **out)
{
    return asprintf(out, "%s/%s", shards_namespace(object), shards_name(object)) < 0 ? -ENOMEM : 0;
}

static void on_config_list(void *data)
{
    struct informer *f = data;
    for (struct table_node *n = NULL; (n = table_next(&f->cache->configs, n)) != NULL;) {
        LIST_ITEM(n, struct config, node)->stale = true;
    }
}

void shard_cache_remove_config(struct shard_cache *w, struct config *c)
{
    struct namespace *s = c->namespace;
    bool shares = sharing_of(c->object) != NULL;
    drop_config(w, c);
    shard_cache_leave_namespace(w, s);
    if (shares) {
        shard_cache_share_namespaces(w);
    }
}

static void on_config_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    char *key = NULL;
    int rc = config_key(object, &key);
    struct config *c = rc != 0 ? NULL : find_config(f->cache, key);
    if (rc != 0) {
        informer_lose(f);
        return;
    }
    if (change != REFLECTOR_DELETED) {
        rc = put_config(f->cache, key, object);
    } else if (c != NULL) {
        shard_cache_remove_config(f->cache, c);
    }
    free(key);
    if (rc != 0) {
        informer_lose(f);
    }
}

/* When it is known which of them are to be read. */
static void follow_maps(struct shard_cache *w)
{
    struct err e = ERR_INIT;
    if (w->maps_informer.reflector == NULL && informer_follow(&w->maps_informer, &e) != 0) {
        informer_lose(&w->maps_informer);
    }
}

static void on_configs_synced(void *data)
{
    struct informer *f = data;
    struct table_node *next = f->lost ? NULL : table_next(&f->cache->configs, NULL);
    while (next != NULL) {
        struct config *c = LIST_ITEM(next, struct config, node);
        next = table_next(&f->cache->configs, next);
        if (c->stale) {
            shard_cache_remove_config(f->cache, c);
        }
    }
    f->synced = f->synced || !f->lost;
    shard_cache_share_namespaces(f->cache);
    follow_maps(f->cache);
    shard_cache_tell_ready(f->cache);
}

static void on_config_state(void *data, const char *error, enum log_level level)
{
    struct informer *f = data;
    informer_on_state(f, error, level);
    if (error != NULL && reflector_not_found(f->reflector)) {
        shard_cache_share_nothing(f->cache);
    }
}

const struct reflector_handlers shard_cache_config_handlers = {
    .on_list = on_config_list,
    .on_object = on_config_object,
    .on_synced = on_configs_synced,
    .on_state = on_config_state,
};
