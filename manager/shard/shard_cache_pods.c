/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of one namespace.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shard/shard_cache_internal.h"

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
    members_leave(&p->member);
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
    members_pod_init(&p->member);
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

static int put_pod(struct informer *f, struct pod *pod)
{
    struct shard_cache *w = f->cache;
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
    p = p != NULL ? p : add_pod(w, f->namespace, pod);
    if (p == NULL) {
        free(pod);
        return -ENOMEM;
    }
    shard_cache_tell_shards_of(w, p);
    free(exchange_pod(p, pod));
    p->stale = false;
    if (link_injected(w, f->namespace, p, pod) != 0 ||
        members_place(&f->namespace->members, &p->member, pod) != 0) {
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
        informer_lose(f);
    } else if (change != REFLECTOR_DELETED) {
        if (put_pod(f, pod) != 0) {
            informer_lose(f);
        }
    } else {
        free(pod);
        if (p != NULL) {
            shard_cache_drop_pod(f->cache, p);
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
            shard_cache_drop_pod(f->cache, p);
        }
    }
    f->synced = true;
    shard_cache_tell_ready(f->cache, f->namespace);
}

const struct reflector_handlers shard_cache_pod_handlers = {
    .on_list = on_pod_list,
    .on_object = on_pod_object,
    .on_synced = on_pods_synced,
    .on_state = informer_on_state,
};
