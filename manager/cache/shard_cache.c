/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/shard_cache.h"

#include <stdio.h>
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
    bool all = informer_synced(w->configs) && informer_synced(w->maps) && informer_synced(w->pods);
    if (all && !w->synced) {
        w->synced = true;
        TELL(w, on_ready, (listener->data));
    }
}

void shard_cache_tell_shared(struct shard_cache *w)
{
    TELL(w, on_shared, (listener->data, &w->shared));
}

/* ---- namespaces ---- */

struct namespace *shard_cache_provide_namespace(struct shard_cache *w, const char *ns)
{
    struct namespace *s = TABLE_PROVIDE(&w->namespaces, slice_str(ns), struct namespace, name);
    if (s != NULL && s->configs.next == NULL) {
        list_init(&s->configs);
        list_init(&s->maps);
        list_init(&s->injected);
        list_init(&s->pods);
        pod_selection_init(&s->members);
    }
    return s;
}

void shard_cache_leave_namespace(struct shard_cache *w, const struct namespace *s)
{
    if (list_empty(&s->configs) && list_empty(&s->maps) && list_empty(&s->pods)) {
        shard_cache_trim(w);
    }
}

/* ---- life ---- */

static void set_keys(struct shard_cache *w)
{
    w->keys = (struct pod_keys){
        .generation = names_key(w->prefix, POD_GENERATION, w->key_texts[0]),
        .traffic = names_key(w->prefix, POD_TRAFFIC, w->key_texts[1]),
        .injected = names_key(w->prefix, SIDECAR_INJECTED, w->key_texts[2]),
        .allow_bypass = names_key(w->prefix, SIDECAR_ALLOW_BYPASS, w->key_texts[3]),
        .let_go = names_key(w->prefix, POD_LET_GO, w->key_texts[4]),
    };
}

static int follow(struct shard_cache *w, const struct shard_cache_options *o, struct err *e)
{
    char key[NAMES_KEY_SIZE];
    char label[NAMES_KEY_SIZE + sizeof "=true"];
    struct informer_options io = {.client = o->client, .namespace = o->namespace, .ops = o->ops};
    struct informer_options maps = io;
    (void)snprintf(label, sizeof label, "%s=true", names_key(w->prefix, RULES_MAP_LABEL, key));
    maps.label_selector = label;
    maps.held = true;
    w->configs = informer_new(w->loop, &shard_cache_config_kind, &io, w, e);
    w->maps = w->configs == NULL ? NULL : informer_new(w->loop, &shard_cache_map_kind, &maps, w, e);
    w->pods = w->maps == NULL ? NULL : informer_new(w->loop, &shard_cache_pod_kind, &io, w, e);
    return w->pods == NULL ? e->code : 0;
}

static int begin(struct shard_cache *w, const struct shard_cache_options *o, struct err *e)
{
    w->prefix = strdup(o->prefix);
    if (w->prefix == NULL || shard_cache_namespaces_begin(w, o->namespaces) != 0) {
        return err_memory(e);
    }
    set_keys(w);
    return follow(w, o, e);
}

struct shard_cache *shard_cache_new(struct net_loop *l, const struct shard_cache_options *o,
                                    struct err *e)
{
    struct shard_cache *w = calloc(1, sizeof *w);
    struct err why = ERR_INIT;
    if (w == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    w->keepers = 1;
    w->loop = l;
    w->ops = o->ops;
    w->shareable = o->shareable;
    w->shared.unknown = true;
    list_init(&w->listeners);
    list_init(&w->selecting);
    w->next_listener = &w->listeners;
    shard_cache_budget_init(w, o->memory);
    if (begin(w, o, &why) != 0) {
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
    informer_free(w->pods);
    informer_free(w->configs);
    informer_free(w->maps);
    sharing_set_deinit(&w->shared);
    table_deinit(&w->injected);
    shard_cache_budget_end(w);
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
