/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/shard_cache_internal.h"

/* ---- by whose sidecars they have ---- */

static struct injected *provide_injected(struct shard_cache *w, struct namespace *s,
                                         const struct pod *pod)
{
    struct injected *i = find_injected(w, pod->shard);
    if (i != NULL) {
        return i;
    }
    size_t len = strlen(pod->shard) + 1;
    i = calloc(1, sizeof *i + len);
    if (i == NULL) {
        return NULL;
    }
    memcpy(i->key, pod->shard, len);
    list_init(&i->pods);
    if (table_insert(&w->injected, &i->node, i->key) != 0) {
        free(i);
        return NULL;
    }
    list_append(&s->injected, &i->link);
    shard_cache_show_map(w, s, i->key);
    return i;
}

static void unlink_injected(struct shard_cache *w, struct pod_entry *p)
{
    struct injected *i = p->injected;
    if (i == NULL) {
        return;
    }
    p->injected = NULL;
    list_remove(&p->injected_link);
    i->count--;
    if (i->count == 0) {
        table_remove(&w->injected, &i->node);
        list_remove(&i->link);
        free(i);
    }
}

static int link_injected(struct shard_cache *w, struct namespace *s, struct pod_entry *p,
                         const struct pod *pod)
{
    unlink_injected(w, p);
    if (pod->shard[0] == '\0') {
        return 0;
    }
    p->injected = provide_injected(w, s, pod);
    if (p->injected == NULL) {
        return -ENOMEM;
    }
    list_append(&p->injected->pods, &p->injected_link);
    p->injected->count++;
    return 0;
}

/* ---- pods ---- */

void shard_cache_drop_pod(struct shard_cache *w, struct pod_entry *p)
{
    struct pod *old = p->pod;
    struct namespace *s = p->namespace;
    shard_cache_tell_shards_of(w, p);
    unlink_injected(w, p);
    pod_selection_leave(&p->member);
    table_remove(&w->pods, &p->node);
    list_remove(&p->link);
    free(p);
    shard_cache_tell_pod(w, old, true);
    free(old);
    shard_cache_leave_namespace(w, s);
}

static struct pod_entry *add_pod(struct shard_cache *w, struct pod *pod)
{
    struct namespace *s = shard_cache_provide_namespace(w, pod->ns);
    struct pod_entry *p = calloc(1, sizeof *p);
    if (s == NULL || p == NULL || table_insert(&w->pods, &p->node, pod->key) != 0) {
        if (s != NULL) {
            shard_cache_leave_namespace(w, s);
        }
        free(p);
        return NULL;
    }
    p->namespace = s;
    pod_selection_pod_init(&p->member);
    list_init(&p->injected_link);
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

/* Takes `pod`. */
static int put_pod(struct shard_cache *w, struct pod *pod)
{
    struct pod_entry *p = find_pod(w, pod->key);
    if (p != NULL && strcmp(p->pod->uid, pod->uid) != 0) {
        shard_cache_drop_pod(w, p); /* another pod of the same name */
        p = NULL;
    }
    if (p != NULL && pod_same(p->pod, pod)) {
        p->stale = false;
        free(exchange_pod(p, pod));
        return 0;
    }
    p = p != NULL ? p : add_pod(w, pod);
    if (p == NULL) {
        free(pod);
        return -ENOMEM;
    }
    shard_cache_tell_shards_of(w, p);
    free(exchange_pod(p, pod));
    p->stale = false;
    if (link_injected(w, p->namespace, p, pod) != 0 ||
        pod_selection_place(&p->namespace->members, &p->member, pod) != 0) {
        shard_cache_drop_pod(w, p);
        return -ENOMEM;
    }
    shard_cache_tell_shards_of(w, p);
    shard_cache_tell_pod(w, pod, false);
    return 0;
}

void shard_cache_pod_told(struct shard_cache *w, const char *key, const char *uid,
                          uint64_t generation)
{
    struct pod_entry *p = find_pod(w, key);
    if (p != NULL && strcmp(p->pod->uid, uid) == 0) {
        p->pod->generation = generation;
        p->pod->told = true;
    }
}

void shard_cache_pod_told_traffic(struct shard_cache *w, const char *key, const char *uid,
                                  uint64_t generation)
{
    struct pod_entry *p = find_pod(w, key);
    if (p != NULL && strcmp(p->pod->uid, uid) == 0) {
        p->pod->traffic = generation;
    }
}

/* 0 or -ENOMEM. */
static int keep_pod(struct shard_cache *w, enum reflector_change change, const cJSON *object)
{
    struct pod *pod = pod_new(object, &w->keys);
    if (pod == NULL) {
        return -ENOMEM;
    }
    if (change != REFLECTOR_DELETED) {
        return put_pod(w, pod);
    }
    struct pod_entry *p = find_pod(w, pod->key);
    free(pod);
    if (p != NULL) {
        shard_cache_drop_pod(w, p);
    }
    return 0;
}

/* ---- the informer ---- */

static void on_pod_list(void *data)
{
    struct informer *f = data;
    for (struct table_node *n = NULL; (n = table_next(&f->cache->pods, n)) != NULL;) {
        LIST_ITEM(n, struct pod_entry, node)->stale = true;
    }
}

static void on_pod_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    if (keep_pod(f->cache, change, object) != 0) {
        informer_lose(f);
    }
}

static void on_pods_synced(void *data)
{
    struct informer *f = data;
    struct table_node *next = f->lost ? NULL : table_next(&f->cache->pods, NULL);
    while (next != NULL) {
        struct pod_entry *p = LIST_ITEM(next, struct pod_entry, node);
        next = table_next(&f->cache->pods, next);
        if (p->stale) {
            shard_cache_drop_pod(f->cache, p);
        }
    }
    f->synced = f->synced || !f->lost;
    shard_cache_tell_ready(f->cache);
}

const struct reflector_handlers shard_cache_pod_handlers = {
    .on_list = on_pod_list,
    .on_object = on_pod_object,
    .on_synced = on_pods_synced,
    .on_state = informer_on_state,
};
