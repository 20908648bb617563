/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/shard_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "compile/shards.h"
#include "inject/inject_options.h"
#include "object/names.h"
#include "shard/members.h"
#include "shard/shard_cache_internal.h"
#include "json/field.h"

enum {
    PATH_SIZE = 400,
    AGAIN_MS = 5000, /* until what could not be kept for want of memory is listed again */
};

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

/* ---- telling ---- */

static void tell_shard(const struct shard_cache *w, const char *key, enum shard_cache_part part)
{
    if (w->handlers != NULL && w->handlers->on_shard != NULL) {
        w->handlers->on_shard(w->data, key, part);
    }
}

static void tell_pod(const struct shard_cache *w, const struct pod *pod, bool gone)
{
    if (w->handlers != NULL && w->handlers->on_pod != NULL) {
        w->handlers->on_pod(w->data, pod, gone);
    }
}

static void tell_shards_of(const struct shard_cache *w, const struct pod_entry *p)
{
    LIST_FOR_EACH(n, &p->member.shards)
    {
        struct config *c = config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard);
        tell_shard(w, c->seen.key, SHARD_CACHE_PODS);
    }
}

static void tell_ready(const struct shard_cache *w, const struct namespace *s)
{
    if (w->handlers != NULL && w->handlers->on_ready != NULL && shard_cache_ready(w, s->name)) {
        w->handlers->on_ready(w->data, s->name);
    }
}

static void set_again(struct shard_cache *w)
{
    if (w->again_set) {
        return;
    }
    w->again_set = true;
    if (w->ops != NULL) {
        w->ops->set_deadline(w->ops->data, &w->again, AGAIN_MS);
    } else {
        net_deadline_set(w->loop, &w->again, AGAIN_MS);
    }
}

/* Something could not be kept: the collection is listed again before long. */
static void lose(struct informer *f)
{
    log_error("out of memory; this collection will be listed again",
              log_str("collection", shard_cache_collection_text(f->collection)));
    f->lost = true;
    set_again(f->cache);
}

/* ---- pods ---- */

static void drop_pod(struct shard_cache *w, struct pod_entry *p)
{
    struct pod *old = p->pod;
    tell_shards_of(w, p);
    members_leave(&p->member);
    table_remove(&w->pods, &p->node);
    list_remove(&p->link);
    free(p);
    tell_pod(w, old, true);
    free(old);
}

static struct pod_entry *add_pod(struct shard_cache *w, struct namespace *s, struct pod *pod)
{
    struct pod_entry *p = calloc(1, sizeof *p);
    if (p == NULL || table_insert(&w->pods, &p->node, pod->key) != 0) {
        free(p);
        return NULL;
    }
    p->namespace = s;
    members_pod_init(&p->member);
    list_append(&s->pods, &p->link);
    return p;
}

/* Takes `pod`, and gives the old one back. */
static struct pod *exchange_pod(struct pod_entry *p, struct pod *pod)
{
    struct pod *old = p->pod;
    p->pod = pod;
    p->node.key = pod->key;
    return old;
}

static int put_pod(struct informer *f, struct pod *pod)
{
    struct shard_cache *w = f->cache;
    struct pod_entry *p = find_pod(w, pod->key);
    if (p != NULL && strcmp(p->pod->uid, pod->uid) != 0) {
        drop_pod(w, p); /* another pod of the same name */
        p = NULL;
    }
    if (p != NULL && pod_same(p->pod, pod)) {
        p->stale = false;
        free(exchange_pod(p, pod));
        return 0;
    }
    p = p != NULL ? p : add_pod(w, f->namespace, pod);
    if (p == NULL) {
        free(pod);
        return -ENOMEM;
    }
    tell_shards_of(w, p);
    free(exchange_pod(p, pod));
    p->stale = false;
    if (members_place(&f->namespace->members, &p->member, pod) != 0) {
        drop_pod(w, p);
        return -ENOMEM;
    }
    tell_shards_of(w, p);
    tell_pod(w, pod, false);
    return 0;
}

void shard_cache_pod_told(struct shard_cache *w, const char *key, const char *uid,
                          uint64_t generation)
{
    struct pod_entry *p = find_pod(w, key);
    if (p != NULL && strcmp(p->pod->uid, uid) == 0) {
        p->pod->generation = generation;
    }
}

static void on_pod_list(void *data)
{
    struct informer *f = data;
    LIST_FOR_EACH(n, &f->namespace->pods)
    {
        LIST_ITEM(n, struct pod_entry, link)->stale = true;
    }
}

static void on_pod_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    struct pod *pod = pod_new(object, &f->cache->keys);
    struct pod_entry *p = pod == NULL ? NULL : find_pod(f->cache, pod->key);
    if (pod == NULL) {
        lose(f);
    } else if (change != REFLECTOR_DELETED) {
        if (put_pod(f, pod) != 0) {
            lose(f);
        }
    } else {
        free(pod);
        if (p != NULL) {
            drop_pod(f->cache, p);
        }
    }
}

static void on_pods_synced(void *data)
{
    struct informer *f = data;
    struct list *next = NULL;
    if (f->lost) {
        return;
    }
    for (struct list *n = f->namespace->pods.next; n != &f->namespace->pods; n = next) {
        next = n->next;
        struct pod_entry *p = LIST_ITEM(n, struct pod_entry, link);
        if (p->stale) {
            drop_pod(f->cache, p);
        }
    }
    f->synced = true;
    tell_ready(f->cache, f->namespace);
}

/* ---- following ---- */

static void on_state(void *data, const char *error)
{
    struct informer *f = data;
    const char *what = shard_cache_collection_text(f->collection);
    const char *ns = f->namespace == NULL ? "" : f->namespace->name;
    if (error != NULL) {
        log_warn("cannot follow", log_str("collection", what), log_str("namespace", ns),
                 log_str("error", error));
    } else {
        log_info("following again", log_str("collection", what), log_str("namespace", ns));
    }
}

static const struct reflector_handlers pod_handlers = {
    .on_list = on_pod_list,
    .on_object = on_pod_object,
    .on_synced = on_pods_synced,
    .on_state = on_state,
};

static void collect_path(const struct informer *f, char out[PATH_SIZE])
{
    static const struct {
        const char *group;
        const char *resource;
    } parts[SHARD_CACHE_COLLECTIONS] = {
        [SHARD_CACHE_OF_CONFIGS] = {SHARD_CACHE_GROUP_PATH, SHARD_CACHE_RESOURCE},
        [SHARD_CACHE_OF_MAPS] = {"/api/v1", "configmaps"},
        [SHARD_CACHE_OF_PODS] = {"/api/v1", "pods"},
    };
    const char *ns = f->namespace != NULL ? f->namespace->name : f->cache->namespace;
    (void)snprintf(out, PATH_SIZE, "%s%s%s/%s", parts[f->collection].group,
                   ns == NULL ? "" : "/namespaces/", ns == NULL ? "" : ns,
                   parts[f->collection].resource);
}

static int follow(struct informer *f, struct err *e)
{
    char path[PATH_SIZE];
    char label[INJECT_KEY_SIZE + sizeof "=true"];
    char key[INJECT_KEY_SIZE];
    const struct shard_cache *w = f->cache;
    (void)snprintf(label, sizeof label, "%s=true",
                   inject_options_key(w->prefix, RULES_MAP_LABEL, key));
    collect_path(f, path);
    struct reflector_options o = {
        .client = w->client,
        .path = path,
        .label_selector = f->collection == SHARD_CACHE_OF_MAPS ? label : NULL,
        .ops = w->ops,
    };
    struct reflector *fresh = reflector_new(w->loop, &o, f->handlers, f, e);
    if (fresh == NULL) {
        return e->code;
    }
    informer_end(f);
    f->reflector = fresh;
    f->lost = false;
    return 0;
}

static void feed_init(struct informer *f, struct shard_cache *w, struct namespace *s,
                      enum shard_cache_collection collection, const struct reflector_handlers *h)
{
    f->cache = w;
    f->namespace = s;
    f->collection = collection;
    f->handlers = h;
}

static void follow_again(struct informer *f)
{
    struct err e = ERR_INIT;
    if (f->lost && follow(f, &e) != 0) {
        lose(f);
    }
}

static void on_again(struct net_deadline *d)
{
    struct shard_cache *w = LIST_ITEM(d, struct shard_cache, again);
    w->again_set = false;
    follow_again(&w->configs_informer);
    follow_again(&w->maps_informer);
    for (struct table_node *n = NULL; (n = table_next(&w->namespaces, n)) != NULL;) {
        follow_again(&LIST_ITEM(n, struct namespace, node)->informer);
    }
}

/* ---- namespaces ---- */

static struct namespace *find_space(const struct shard_cache *w, const char *ns)
{
    struct table_node *n = table_find(&w->namespaces, ns);
    return n == NULL ? NULL : LIST_ITEM(n, struct namespace, node);
}

static void free_space(struct shard_cache *w, struct namespace *s)
{
    informer_end(&s->informer);
    while (!list_empty(&s->pods)) {
        drop_pod(w, LIST_ITEM(s->pods.next, struct pod_entry, link));
    }
    members_deinit(&s->members);
    table_remove(&w->namespaces, &s->node);
    free(s);
}

static struct namespace *new_space(struct shard_cache *w, const char *ns)
{
    struct err e = ERR_INIT;
    struct namespace *s = calloc(1, sizeof *s + strlen(ns) + 1);
    if (s == NULL) {
        return NULL;
    }
    memcpy(s->name, ns, strlen(ns) + 1);
    list_init(&s->configs);
    list_init(&s->pods);
    members_init(&s->members);
    feed_init(&s->informer, w, s, SHARD_CACHE_OF_PODS, &pod_handlers);
    if (table_insert(&w->namespaces, &s->node, s->name) != 0) {
        free(s);
        return NULL;
    }
    if (follow(&s->informer, &e) != 0) {
        free_space(w, s);
        return NULL;
    }
    return s;
}

static void leave_space(struct shard_cache *w, struct namespace *s)
{
    if (list_empty(&s->configs)) {
        free_space(w, s);
    }
}

/* ---- configs ---- */

/* The pods whose membership of a shard changes are told of afterwards. */
static void tell_pods_of(const struct shard_cache *w, const struct config *c)
{
    LIST_FOR_EACH(n, &c->shard.pods)
    {
        struct pod_entry *p = pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod);
        tell_shards_of(w, p);
        tell_pod(w, p->pod, false);
    }
}

static int join_pods(struct shard_cache *w, struct config *c)
{
    struct namespace *s = c->namespace;
    int rc = members_add(&s->members, &c->shard, c->selector);
    for (struct list *n = s->pods.next; rc == 0 && n != &s->pods; n = n->next) {
        struct pod_entry *p = LIST_ITEM(n, struct pod_entry, link);
        rc = members_join(&c->shard, &p->member, p->pod);
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
        members_part(m);
        tell_shards_of(w, p);
        tell_pod(w, p->pod, false);
    }
    members_remove(&c->namespace->members, &c->shard);
}

static void free_config(struct config *c)
{
    selector_free(c->selector);
    cJSON_Delete(c->object);
    free(c);
}

/* The namespace is followed on: leave_space is due. */
static void drop_config(struct shard_cache *w, struct config *c)
{
    if (w->handlers != NULL && w->handlers->on_deleted != NULL) {
        c->seen.pod_count = c->shard.pod_count;
        w->handlers->on_deleted(w->data, &c->seen);
    }
    table_remove(&w->configs, &c->node);
    part_pods(w, c);
    list_remove(&c->link);
    tell_shard(w, c->seen.key, SHARD_CACHE_CONFIG);
    free_config(c);
}

static cJSON *copy_config(const cJSON *object)
{
    cJSON *copy = cJSON_Duplicate(object, true);
    cJSON *meta = cJSON_GetObjectItemCaseSensitive(copy, "metadata");
    cJSON *annotations = cJSON_GetObjectItemCaseSensitive(meta, "annotations");
    cJSON_DeleteItemFromObjectCaseSensitive(meta, "managedFields");
    cJSON_DeleteItemFromObjectCaseSensitive(annotations, LAST_APPLIED);
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "apiVersion"); /* items of lists have none */
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "kind");
    if (cJSON_AddStringToObject(copy, "apiVersion", COMPILE_API_VERSION) == NULL ||
        cJSON_AddStringToObject(copy, "kind", COMPILE_KIND) == NULL) {
        cJSON_Delete(copy);
        return NULL;
    }
    return copy;
}

static const char *meta_string(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(field_get(field_get(object, "metadata"), key));
    return text == NULL ? "" : text;
}

static void set_config(struct config *c, cJSON *object)
{
    cJSON_Delete(c->object);
    c->object = object;
    c->stale = false;
    c->seen = (struct shard_cache_config){
        .key = c->key,
        .ns = shards_namespace(object),
        .name = shards_name(object),
        .uid = meta_string(object, "uid"),
        .version = meta_string(object, "resourceVersion"),
        .object = object,
        .root = field_get(field_get(object, "spec"), "root") != NULL,
    };
}

static struct config *add_config(struct shard_cache *w, const char *key, const char *ns)
{
    struct namespace *s = find_space(w, ns);
    struct config *c = calloc(1, sizeof *c + strlen(key) + 1);
    s = s != NULL ? s : new_space(w, ns);
    if (c != NULL && s != NULL) {
        memcpy(c->key, key, strlen(key) + 1);
        members_shard_init(&c->shard);
        c->namespace = s;
        if (table_insert(&w->configs, &c->node, c->key) == 0) {
            list_append(&s->configs, &c->link);
            return c;
        }
    }
    if (s != NULL) {
        leave_space(w, s);
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

static int put_config(struct shard_cache *w, const char *key, const cJSON *object)
{
    struct config *c = find_config(w, key);
    struct selector *selector = NULL;
    struct namespace *left = NULL;
    if (c != NULL && strcmp(c->seen.uid, meta_string(object, "uid")) != 0) {
        left = c->namespace; /* another config of the same name */
        drop_config(w, c);
        c = NULL;
    }
    if (c != NULL && strcmp(c->seen.version, meta_string(object, "resourceVersion")) == 0) {
        c->stale = false;
        return 0;
    }
    cJSON *copy = copy_config(object);
    int rc = copy == NULL ? -ENOMEM : pod_selector(object, &selector);
    c = rc != 0 || c != NULL ? c : add_config(w, key, shards_namespace(object));
    if (rc != 0 || c == NULL) {
        cJSON_Delete(copy);
        selector_free(selector);
        if (left != NULL) {
            leave_space(w, left);
        }
        return -ENOMEM;
    }
    set_config(c, copy);
    rc = change_selector(w, c, selector);
    tell_shard(w, key, SHARD_CACHE_CONFIG);
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

static void remove_config(struct shard_cache *w, struct config *c)
{
    struct namespace *s = c->namespace;
    drop_config(w, c);
    leave_space(w, s);
}

static void on_config_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    char *key = NULL;
    int rc = config_key(object, &key);
    struct config *c = rc != 0 ? NULL : find_config(f->cache, key);
    if (rc != 0) {
        lose(f);
        return;
    }
    if (change != REFLECTOR_DELETED) {
        rc = put_config(f->cache, key, object);
    } else if (c != NULL) {
        remove_config(f->cache, c);
    }
    free(key);
    if (rc != 0) {
        lose(f);
    }
}

static void tell_all_ready(const struct shard_cache *w)
{
    if (w->handlers != NULL && w->handlers->on_ready != NULL && w->configs_informer.synced &&
        w->maps_informer.synced) {
        w->handlers->on_ready(w->data, NULL);
    }
    for (struct table_node *n = NULL; (n = table_next(&w->namespaces, n)) != NULL;) {
        tell_ready(w, LIST_ITEM(n, struct namespace, node));
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
            remove_config(f->cache, c);
        }
    }
    f->synced = f->synced || !f->lost;
    tell_all_ready(f->cache);
}

static const struct reflector_handlers config_handlers = {
    .on_list = on_config_list,
    .on_object = on_config_object,
    .on_synced = on_configs_synced,
    .on_state = on_state,
};

/* ---- ConfigMaps ---- */

static void drop_map(struct shard_cache *w, struct map_entry *m)
{
    table_remove(&w->maps, &m->node);
    tell_shard(w, m->map->key, SHARD_CACHE_CONFIGMAP);
    rules_map_free(m->map);
    free(m);
}

/* Takes `map`. */
static int put_map(struct shard_cache *w, struct rules_map *map)
{
    struct map_entry *m = find_map(w, map->key);
    bool same = m != NULL && strcmp(m->map->version, map->version) == 0;
    if (m == NULL) {
        m = calloc(1, sizeof *m);
        if (m == NULL || table_insert(&w->maps, &m->node, map->key) != 0) {
            free(m);
            rules_map_free(map);
            return -ENOMEM;
        }
    }
    rules_map_free(m->map);
    m->map = map;
    m->node.key = map->key;
    m->stale = false;
    if (!same) {
        tell_shard(w, map->key, SHARD_CACHE_CONFIGMAP);
    }
    return 0;
}

static void on_map_list(void *data)
{
    struct informer *f = data;
    for (struct table_node *n = NULL; (n = table_next(&f->cache->maps, n)) != NULL;) {
        LIST_ITEM(n, struct map_entry, node)->stale = true;
    }
}

static void on_map_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    struct rules_map *map = NULL;
    int rc = rules_map_new(object, f->cache->prefix, &map);
    if (rc == 0 && map != NULL && change == REFLECTOR_DELETED) {
        struct map_entry *m = find_map(f->cache, map->key);
        rules_map_free(map);
        if (m != NULL) {
            drop_map(f->cache, m);
        }
    } else if (rc == 0 && map != NULL) {
        rc = put_map(f->cache, map);
    }
    if (rc != 0) {
        lose(f);
    }
}

static void on_maps_synced(void *data)
{
    struct informer *f = data;
    struct table_node *next = f->lost ? NULL : table_next(&f->cache->maps, NULL);
    while (next != NULL) {
        struct map_entry *m = LIST_ITEM(next, struct map_entry, node);
        next = table_next(&f->cache->maps, next);
        if (m->stale) {
            drop_map(f->cache, m);
        }
    }
    f->synced = f->synced || !f->lost;
    tell_all_ready(f->cache);
}

static const struct reflector_handlers map_handlers = {
    .on_list = on_map_list,
    .on_object = on_map_object,
    .on_synced = on_maps_synced,
    .on_state = on_state,
};

/* ---- life ---- */

static char *annotation(const char *prefix, const char *name)
{
    char key[INJECT_KEY_SIZE];
    return strdup(inject_options_key(prefix, name, key));
}

static int begin(struct shard_cache *w, const struct shard_cache_options *o, struct err *e)
{
    w->prefix = strdup(o->prefix);
    w->namespace = o->namespace == NULL ? NULL : strdup(o->namespace);
    w->generation_key = annotation(o->prefix, POD_GENERATION);
    w->injected_key = annotation(o->prefix, SIDECAR_INJECTED);
    if (w->prefix == NULL || (w->namespace == NULL && o->namespace != NULL) ||
        w->generation_key == NULL || w->injected_key == NULL) {
        return err_memory(e);
    }
    w->keys = (struct pod_keys){.generation = w->generation_key, .injected = w->injected_key};
    int rc = follow(&w->configs_informer, e);
    return rc != 0 ? rc : follow(&w->maps_informer, e);
}

struct shard_cache *shard_cache_new(struct net_loop *l, const struct shard_cache_options *o,
                                    struct err *e)
{
    struct shard_cache *w = calloc(1, sizeof *w);
    if (w == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    w->loop = l;
    w->client = o->client;
    w->ops = o->ops;
    net_deadline_init(&w->again, on_again);
    feed_init(&w->configs_informer, w, NULL, SHARD_CACHE_OF_CONFIGS, &config_handlers);
    feed_init(&w->maps_informer, w, NULL, SHARD_CACHE_OF_MAPS, &map_handlers);
    struct err why = ERR_INIT;
    if (begin(w, o, &why) != 0) {
        (void)err_set(e, why.code, "%s", why.msg);
        shard_cache_free(w);
        return NULL;
    }
    return w;
}

void shard_cache_listen(struct shard_cache *w, const struct shard_cache_handlers *h, void *data)
{
    w->handlers = h;
    w->data = data;
}

void shard_cache_free(struct shard_cache *w)
{
    if (w == NULL) {
        return;
    }
    w->handlers = NULL;
    net_deadline_clear(&w->again);
    for (struct table_node *n = NULL; (n = table_next(&w->configs, NULL)) != NULL;) {
        remove_config(w, LIST_ITEM(n, struct config, node));
    }
    for (struct table_node *n = NULL; (n = table_next(&w->maps, NULL)) != NULL;) {
        drop_map(w, LIST_ITEM(n, struct map_entry, node));
    }
    informer_end(&w->configs_informer);
    informer_end(&w->maps_informer);
    table_deinit(&w->configs);
    table_deinit(&w->maps);
    table_deinit(&w->pods);
    table_deinit(&w->namespaces);
    free(w->generation_key);
    free(w->injected_key);
    free(w->namespace);
    free(w->prefix);
    free(w);
}
