/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods. A pod that changes is another entry, which takes the place of the one before.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cache/shard_cache_internal.h"

/* ---- by whose sidecars they have ---- */

/* 0 or -ENOMEM. */
static int join_injected(struct shard_cache *w, struct pod_entry *p)
{
    if (p->pod.shard[0] == '\0') {
        return 0;
    }
    struct injected *i = TABLE_PROVIDE(&w->injected, slice_str(p->pod.shard), struct injected, key);
    if (i == NULL) {
        return -ENOMEM;
    }
    if (i->count++ == 0) {
        list_init(&i->pods);
        list_append(&p->namespace->injected, &i->link);
        shard_cache_show_map(w, p->namespace, i->key);
    }
    p->injected = i;
    list_append(&i->pods, &p->injected_link);
    return 0;
}

static void leave_injected(struct shard_cache *w, struct pod_entry *p)
{
    struct injected *i = p->injected;
    if (i == NULL) {
        return;
    }
    p->injected = NULL;
    list_remove(&p->injected_link);
    if (--i->count == 0) {
        table_remove(&w->injected, &i->node);
        list_remove(&i->link);
        free(i);
    }
}

/* ---- pods ---- */

static void leave(struct shard_cache *w, struct pod_entry *p)
{
    leave_injected(w, p);
    pod_selection_leave(&p->member);
    list_remove(&p->link);
}

static void drop(void *data, struct informer_item *item)
{
    leave(data, pod_of(item));
    free(item);
}

/* The shards that select it have it, and its namespace will. 0 or -ENOMEM. */
static int join(struct shard_cache *w, struct pod_entry *p)
{
    struct namespace *s = shard_cache_provide_namespace(w, p->pod.ns);
    if (s == NULL) {
        return -ENOMEM;
    }
    p->namespace = s;
    int rc = join_injected(w, p);
    rc = rc == 0 ? pod_selection_place(&s->members, &p->member, &p->pod) : rc;
    if (rc != 0) {
        leave(w, p);
        shard_cache_leave_namespace(w, s);
    }
    return rc;
}

static int keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct shard_cache *w = data;
    struct pod_entry *old = pod_of(*item);
    struct pod_entry *p = pod_new(offsetof(struct pod_entry, pod), object, &w->keys);
    (void)key;
    if (p == NULL) {
        return -ENOMEM;
    }
    if (old != NULL && pod_same(&old->pod, &p->pod) &&
        pod_take_version(&old->pod, p->pod.version)) {
        free(p);
        return 0;
    }
    p->item.node.key = p->pod.key;
    list_init(&p->link);
    pod_selection_pod_init(&p->member);
    if (old != NULL && strcmp(old->pod.uid, p->pod.uid) != 0) {
        informer_remove(w->pods, *item); /* it was another pod of the same name */
        *item = NULL;
    }
    if (join(w, p) != 0) {
        free(p);
        return -ENOMEM;
    }
    *item = &p->item;
    return 1;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    struct shard_cache *w = data;
    struct pod_entry *old = pod_of(before);
    struct pod_entry *p = pod_of(after);
    struct namespace *s = p != NULL ? p->namespace : old->namespace;
    if (p != NULL) {
        list_append(old != NULL ? &old->link : &s->pods, &p->link);
    }
    if (old != NULL) {
        shard_cache_tell_shards_of(w, old);
        leave(w, old);
    }
    if (p != NULL) {
        shard_cache_tell_shards_of(w, p);
        shard_cache_tell_pod(w, &p->pod, false);
    } else {
        shard_cache_tell_pod(w, &old->pod, true);
        shard_cache_leave_namespace(w, s);
    }
}

static void on_synced(void *data, bool first)
{
    (void)first;
    shard_cache_tell_ready(data);
}

const struct informer_kind shard_cache_pod_kind = {.path = "/api/v1/pods",
                                                   .keep = keep,
                                                   .drop = drop,
                                                   .on_change = on_change,
                                                   .on_synced = on_synced};

void shard_cache_pod_told(struct shard_cache *w, const char *key, const char *uid,
                          uint64_t generation)
{
    struct pod_entry *p = pod_of(informer_find(w->pods, key));
    if (p != NULL && strcmp(p->pod.uid, uid) == 0) {
        p->pod.generation = generation;
        p->pod.told = true;
    }
}

void shard_cache_pod_told_traffic(struct shard_cache *w, const char *key, const char *uid,
                                  uint64_t generation)
{
    struct pod_entry *p = pod_of(informer_find(w->pods, key));
    if (p != NULL && strcmp(p->pod.uid, uid) == 0) {
        p->pod.traffic = generation;
    }
}
