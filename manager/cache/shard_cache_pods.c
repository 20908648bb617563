/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods. A pod that changes is another entry, which takes the place of the one before.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cache/shard_cache_internal.h"

/* ---- by whose sidecars they have ---- */

/* The pods with the sidecars of one shard, whether there is a config of that name, and selects
 * them, or not. */
struct injected {
    struct table_node node;
    struct list link; /* of the namespace's */
    struct list pods;
    size_t count;
    char key[];
};

static struct injected *find_injected(const struct shard_cache *w, const char *key)
{
    return TABLE_FIND(&w->injected, slice_str(key), struct injected);
}

bool shard_cache_is_injected(const struct shard_cache *w, const char *key)
{
    return find_injected(w, key) != NULL;
}

static void join_injected(struct shard_cache *w, struct pod_entry *p)
{
    if (p->pod.shard[0] == '\0') {
        return;
    }
    struct injected *i =
        xptr(TABLE_PROVIDE(&w->injected, slice_str(p->pod.shard), struct injected, key));
    if (i->count++ == 0) {
        list_init(&i->pods);
        list_append(&p->namespace->injected, &i->link);
        shard_cache_show_map(w, p->namespace, i->key);
    }
    p->injected = i;
    list_append(&i->pods, &p->injected_link);
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

/* The shards that select it have it, and its namespace will. */
static void join(struct shard_cache *w, struct pod_entry *p)
{
    p->namespace = shard_cache_provide_namespace(w, p->pod.ns);
    join_injected(w, p);
    pod_selection_place(&p->namespace->members, &p->member, &p->pod);
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct shard_cache *w = data;
    struct pod_entry *old = pod_of(*item);
    struct pod_entry *p = pod_new(offsetof(struct pod_entry, pod), object, &w->keys);
    (void)key;
    if (old != NULL && pod_same(&old->pod, &p->pod) &&
        pod_take_version(&old->pod, p->pod.version)) {
        free(p);
        return false;
    }
    p->item.node.key = p->pod.key;
    list_init(&p->link);
    pod_selection_pod_init(&p->member);
    if (old != NULL && strcmp(old->pod.uid, p->pod.uid) != 0) {
        informer_remove(w->pods, *item); /* it was another pod of the same name */
        *item = NULL;
    }
    join(w, p);
    *item = &p->item;
    return true;
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

/* ---- look-ups ---- */

const struct pod *shard_cache_find_pod(const struct shard_cache *w, const char *key)
{
    const struct pod_entry *p = pod_of(informer_find(w->pods, key));
    return p == NULL ? NULL : &p->pod;
}

const struct pod *shard_cache_next_pod(const struct shard_cache *w, const struct pod *p)
{
    const struct informer_item *last = p == NULL ? NULL : &entry_of_pod(p)->item;
    const struct pod_entry *next = pod_of(informer_next(w->pods, last));
    return next == NULL ? NULL : &next->pod;
}

const struct pod *shard_cache_next_pod_in(const struct shard_cache *w, const char *ns,
                                          const struct pod *p)
{
    const struct pod_entry *last = p == NULL ? NULL : entry_of_pod(p);
    const struct namespace *s = last == NULL ? find_namespace(w, ns) : last->namespace;
    const struct list *next = last != NULL ? last->link.next : s != NULL ? s->pods.next : NULL;
    return s == NULL || next == &s->pods ? NULL : &LIST_ITEM(next, struct pod_entry, link)->pod;
}

const struct pod *shard_cache_shared_pod(const struct shard_cache *w, const char *ns,
                                         const struct selector *s,
                                         const struct shard_cache_config *but,
                                         const struct shard_cache_config **other)
{
    for (const struct pod *p = NULL; (p = shard_cache_next_pod_in(w, ns, p)) != NULL;) {
        *other = pod_selected(p, s) ? shard_cache_shard_of(p, but) : NULL;
        if (*other != NULL) {
            return p;
        }
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const struct pod *const *x = a;
    const struct pod *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

void shard_cache_each_pod_of(const struct shard_cache_config *c,
                             void (*cb)(void *data, const struct pod *pod), void *data)
{
    const struct pod_selection_shard *s = &LIST_ITEM(c, struct config, seen)->shard;
    LIST_FOR_EACH(n, &s->pods)
    {
        cb(data, &pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod)->pod);
    }
}

const struct pod **shard_cache_pods_of(const struct shard_cache_config *c)
{
    const struct pod_selection_shard *s = &LIST_ITEM(c, struct config, seen)->shard;
    const struct pod **pods = xcalloc(s->pod_count + 1, sizeof(const struct pod *));
    size_t count = 0;
    LIST_FOR_EACH(n, &s->pods)
    {
        pods[count++] = &pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod)->pod;
    }
    qsort(pods, count, sizeof *pods, by_name);
    return pods;
}

const struct pod **shard_cache_injected(const struct shard_cache *w, const char *key, size_t *count)
{
    const struct injected *i = find_injected(w, key);
    const struct pod **pods = xcalloc(i == NULL ? 1 : i->count, sizeof(const struct pod *));
    *count = 0;
    if (i == NULL) {
        return pods;
    }
    LIST_FOR_EACH(n, &i->pods)
    {
        pods[(*count)++] = &LIST_ITEM(n, struct pod_entry, injected_link)->pod;
    }
    qsort(pods, *count, sizeof *pods, by_name);
    return pods;
}

static size_t list_length(const struct list *head)
{
    size_t n = 0;
    LIST_FOR_EACH(item, head)
    {
        n++;
    }
    return n;
}

/* Not of a root, which has no pods and no rules. */
static bool is_of_shard(const struct shard_cache *w, const char *key)
{
    const struct config *c = find_config(w, key);
    return c != NULL && !c->seen.root;
}

const char **shard_cache_gone_in(const struct shard_cache *w, const char *ns, size_t *count)
{
    const struct namespace *s = find_namespace(w, ns);
    size_t room = s == NULL ? 0 : list_length(&s->injected) + list_length(&s->maps);
    const char **keys = xcalloc(room + 1, sizeof *keys);
    *count = 0;
    if (s == NULL) {
        return keys;
    }
    LIST_FOR_EACH(n, &s->injected)
    {
        const struct injected *i = LIST_ITEM(n, struct injected, link);
        if (!is_of_shard(w, i->key)) {
            keys[(*count)++] = i->key;
        }
    }
    LIST_FOR_EACH(n, &s->maps)
    {
        const char *key = LIST_ITEM(n, struct map_entry, link)->map->key;
        if (!is_of_shard(w, key) && find_injected(w, key) == NULL) {
            keys[(*count)++] = key;
        }
    }
    return keys;
}
