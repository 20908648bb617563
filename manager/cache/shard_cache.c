/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/shard_cache.h"

#include <stdlib.h>
#include <string.h>

#include "cache/shard_cache_internal.h"
#include "inject/inject_options.h"
#include "object/names.h"

/* ---- telling ---- */

/* The next one to be told; NULL: all were. One that goes meanwhile is left out. */
static const struct shard_cache_listener *next_listener(struct shard_cache *w)
{
    struct list *n = w->next_listener;
    if (n == &w->listeners) {
        return NULL;
    }
    w->next_listener = n->next;
    return LIST_ITEM(n, struct shard_cache_listener, link);
}

static const struct shard_cache_listener *first_listener(struct shard_cache *w)
{
    w->next_listener = w->listeners.next;
    return next_listener(w);
}

/* `arguments` in parentheses, `listener->data` first. */
#define TELL(w, handler, arguments)                                                                \
    do {                                                                                           \
        const struct shard_cache_listener *listener = first_listener(w);                           \
        for (; listener != NULL; listener = next_listener(w)) {                                    \
            if (listener->handlers->handler != NULL) {                                             \
                listener->handlers->handler arguments;                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

void shard_cache_tell_shard(struct shard_cache *w, const char *key, enum shard_cache_part part)
{
    TELL(w, on_shard, (listener->data, key, part));
}

void shard_cache_tell_pod(struct shard_cache *w, const struct pod *pod, bool gone)
{
    TELL(w, on_pod, (listener->data, pod, gone));
}

void shard_cache_tell_deleted(struct shard_cache *w, const struct shard_cache_config *config)
{
    TELL(w, on_deleted, (listener->data, config));
}

void shard_cache_tell_excess(struct shard_cache *w, const char *ns)
{
    TELL(w, on_excess, (listener->data, ns));
}

void shard_cache_tell_shards_of(struct shard_cache *w, const struct pod_entry *p)
{
    LIST_FOR_EACH(n, &p->member.shards)
    {
        struct config *c = config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard);
        shard_cache_tell_shard(w, c->seen.key, SHARD_CACHE_PODS);
    }
    if (p->injected != NULL) {
        shard_cache_tell_shard(w, p->injected->key, SHARD_CACHE_PODS);
    }
}

void shard_cache_tell_ready(struct shard_cache *w)
{
    bool all = w->configs_informer.synced && w->maps_informer.synced && w->pods_informer.synced;
    if (all && !w->synced) {
        w->synced = true;
        TELL(w, on_ready, (listener->data));
    }
}

void shard_cache_tell_shared(struct shard_cache *w)
{
    TELL(w, on_shared, (listener->data, &w->shared));
}

/* ---- life ---- */

static char *annotation(const char *prefix, const char *name)
{
    char key[NAMES_KEY_SIZE];
    return strdup(names_key(prefix, name, key));
}

static int copy_and_follow(struct shard_cache *w, const struct shard_cache_options *o,
                           struct err *e)
{
    w->prefix = strdup(o->prefix);
    w->shareable = o->shareable;
    w->namespace = o->namespace == NULL ? NULL : strdup(o->namespace);
    w->generation_key = annotation(o->prefix, POD_GENERATION);
    w->traffic_key = annotation(o->prefix, POD_TRAFFIC);
    w->injected_key = annotation(o->prefix, SIDECAR_INJECTED);
    w->allow_bypass_key = annotation(o->prefix, SIDECAR_ALLOW_BYPASS);
    w->let_go_key = annotation(o->prefix, POD_LET_GO);
    if (w->prefix == NULL || (w->namespace == NULL && o->namespace != NULL) ||
        w->generation_key == NULL || w->injected_key == NULL || w->allow_bypass_key == NULL ||
        w->let_go_key == NULL || w->traffic_key == NULL) {
        return err_memory(e);
    }
    w->keys = (struct pod_keys){.generation = w->generation_key,
                                .traffic = w->traffic_key,
                                .injected = w->injected_key,
                                .allow_bypass = w->allow_bypass_key,
                                .let_go = w->let_go_key};
    int rc = informer_follow(&w->configs_informer, e);
    return rc == 0 ? informer_follow(&w->pods_informer, e) : rc;
}

struct shard_cache *shard_cache_new(struct net_loop *l, const struct shard_cache_options *o,
                                    struct err *e)
{
    struct shard_cache *w = calloc(1, sizeof *w);
    if (w == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    w->keepers = 1;
    list_init(&w->listeners);
    w->shared.unknown = true;
    w->next_listener = &w->listeners;
    w->loop = l;
    w->client = o->client;
    w->ops = o->ops;
    net_deadline_init(&w->again, shard_cache_list_again);
    informer_init(&w->configs_informer, w, SHARD_CACHE_OF_CONFIGS, &shard_cache_config_handlers);
    informer_init(&w->maps_informer, w, SHARD_CACHE_OF_MAPS, &shard_cache_map_handlers);
    informer_init(&w->pods_informer, w, SHARD_CACHE_OF_PODS, &shard_cache_pod_handlers);
    shard_cache_budget_init(w, o->memory);
    struct err why = ERR_INIT;
    list_init(&w->selecting);
    if (shard_cache_namespaces_begin(w, o->namespaces) != 0) {
        (void)err_memory(&why);
    }
    if (why.code != 0 || copy_and_follow(w, o, &why) != 0) {
        (void)err_set(e, why.code, "%s", why.msg);
        shard_cache_free(w);
        return NULL;
    }
    return w;
}

void shard_cache_listen(struct shard_cache *w, struct shard_cache_listener *l)
{
    list_append(&w->listeners, &l->link);
}

void shard_cache_unlisten(struct shard_cache *w, struct shard_cache_listener *l)
{
    if (w->next_listener == &l->link) {
        w->next_listener = l->link.next;
    }
    if (l->link.next != NULL) {
        list_remove(&l->link);
    }
}

void shard_cache_free(struct shard_cache *w)
{
    if (w == NULL) {
        return;
    }
    while (!list_empty(&w->listeners)) {
        list_remove(w->listeners.next);
    }
    shard_cache_namespaces_end(w);
    net_deadline_clear(&w->again);
    for (struct table_node *n = NULL; (n = table_next(&w->configs, NULL)) != NULL;) {
        shard_cache_remove_config(w, LIST_ITEM(n, struct config, node));
    }
    for (struct table_node *n = NULL; (n = table_next(&w->maps, NULL)) != NULL;) {
        shard_cache_drop_map(w, LIST_ITEM(n, struct map_entry, node));
    }
    for (struct table_node *n = NULL; (n = table_next(&w->pods, NULL)) != NULL;) {
        shard_cache_drop_pod(w, LIST_ITEM(n, struct pod_entry, node));
    }
    informer_end(&w->configs_informer);
    informer_end(&w->maps_informer);
    informer_end(&w->pods_informer);
    sharing_set_deinit(&w->shared);
    table_deinit(&w->configs);
    table_deinit(&w->maps);
    table_deinit(&w->pods);
    table_deinit(&w->injected);
    table_deinit(&w->namespaces);
    shard_cache_budget_end(w);
    free(w->generation_key);
    free(w->traffic_key);
    free(w->injected_key);
    free(w->allow_bypass_key);
    free(w->let_go_key);
    free(w->namespace);
    free(w->prefix);
    shard_cache_release(w);
}

void shard_cache_keep(struct shard_cache *w)
{
    w->keepers++;
}

void shard_cache_release(struct shard_cache *w)
{
    if (--w->keepers == 0) {
        shard_cache_budget_deinit(w);
        free(w);
    }
}
