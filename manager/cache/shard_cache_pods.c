/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of one namespace, and the informer that it has of its own.
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
    shard_cache_tell_shards_of(w, p);
    unlink_injected(w, p);
    pod_selection_leave(&p->member);
    table_remove(&w->pods, &p->node);
    list_remove(&p->link);
    free(p);
    shard_cache_tell_pod(w, old, true);
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
static int put_pod(struct shard_cache *w, struct namespace *s, struct pod *pod)
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
    p = p != NULL ? p : add_pod(w, s, pod);
    if (p == NULL) {
        free(pod);
        return -ENOMEM;
    }
    shard_cache_tell_shards_of(w, p);
    free(exchange_pod(p, pod));
    p->stale = false;
    if (link_injected(w, s, p, pod) != 0 ||
        pod_selection_place(&s->members, &p->member, pod) != 0) {
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

int shard_cache_keep_pod(struct shard_cache *w, struct namespace *s, enum reflector_change change,
                         const cJSON *object)
{
    struct pod *pod = pod_new(object, &w->keys);
    if (pod == NULL) {
        return -ENOMEM;
    }
    if (change != REFLECTOR_DELETED) {
        return put_pod(w, s, pod);
    }
    struct pod_entry *p = find_pod(w, pod->key);
    free(pod);
    if (p != NULL) {
        shard_cache_drop_pod(w, p);
    }
    return 0;
}

void shard_cache_pods_begin(struct namespace *s)
{
    LIST_FOR_EACH(n, &s->pods)
    {
        LIST_ITEM(n, struct pod_entry, link)->stale = true;
    }
}

void shard_cache_pods_end(struct shard_cache *w, struct namespace *s)
{
    LIST_FOR_EACH_SAFE(n, after, &s->pods)
    {
        struct pod_entry *p = LIST_ITEM(n, struct pod_entry, link);
        if (p->stale) {
            shard_cache_drop_pod(w, p);
        }
    }
    bool first = !s->synced;
    s->synced = true;
    if (first) {
        shard_cache_tell_ready(w, s);
    }
}

/* ---- the informer of one namespace ---- */

static void on_pod_list(void *data)
{
    const struct informer *f = data;
    shard_cache_pods_begin(f->namespace);
}

static void on_pod_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    if (shard_cache_keep_pod(f->cache, f->namespace, change, object) != 0) {
        informer_lose(f);
    }
    shard_cache_source_moved(f->cache, f->namespace);
}

static void on_pods_synced(void *data)
{
    struct informer *f = data;
    if (!f->lost) {
        shard_cache_pods_end(f->cache, f->namespace);
    }
    shard_cache_source_moved(f->cache, f->namespace);
    shard_cache_arrange(f->cache);
}

static void on_pods_state(void *data, const char *error, enum log_level level)
{
    struct informer *f = data;
    informer_on_state(f, error, level);
    shard_cache_arrange(f->cache);
}

const struct reflector_handlers shard_cache_pod_handlers = {
    .on_list = on_pod_list,
    .on_object = on_pod_object,
    .on_synced = on_pods_synced,
    .on_state = on_pods_state,
};
