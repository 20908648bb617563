/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one collection is followed, and listed again when something of it could not be kept.
 */
#include <stdio.h>

#include "base/log.h"
#include "cache/shard_cache_internal.h"
#include "inject/inject_options.h"
#include "object/names.h"

enum {
    PATH_SIZE = 400,
    AGAIN_MS = 5000, /* until what could not be kept for want of memory is listed again */
};

const char *shard_cache_collection_text(enum shard_cache_collection c)
{
    static const char *const texts[SHARD_CACHE_COLLECTIONS] = {
        [SHARD_CACHE_OF_CONFIGS] = SHARD_CACHE_RESOURCE,
        [SHARD_CACHE_OF_MAPS] = "configmaps",
        [SHARD_CACHE_OF_PODS] = "pods",
    };
    return texts[c];
}

void shard_cache_set_deadline(struct shard_cache *w, struct net_deadline *d, uint64_t ms)
{
    if (w->ops != NULL) {
        w->ops->set_deadline(w->ops->data, d, ms);
    } else {
        net_deadline_set(w->loop, d, ms);
    }
}

void informer_lose(struct informer *f)
{
    log_error("out of memory; listing this collection again",
              log_str("collection", shard_cache_collection_text(f->collection)));
    f->lost = true;
    if (!f->cache->again_set) {
        f->cache->again_set = true;
        shard_cache_set_deadline(f->cache, &f->cache->again, AGAIN_MS);
    }
}

const char *informer_error(const struct informer *f)
{
    if (f->reflector == NULL) {
        return NULL;
    }
    return f->collection == SHARD_CACHE_OF_CONFIGS && reflector_not_found(f->reflector)
               ? "the CustomResourceDefinition " SHARD_CACHE_RESOURCE "." COMPILE_GROUP
                 " is not installed: apply k8s/base/crd.yaml, or what the chart has in crds/"
               : reflector_error(f->reflector);
}

void informer_on_state(void *data, const char *error, enum log_level level)
{
    struct informer *f = data;
    const char *what = shard_cache_collection_text(f->collection);
    if (error != NULL) {
        log_at(level, "cannot list or watch", log_str("collection", what),
               log_str("error", informer_error(f)));
    } else {
        log_at(level, "watching again", log_str("collection", what));
    }
}

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
    const char *ns = f->cache->namespace;
    (void)snprintf(out, PATH_SIZE, "%s%s%s/%s", parts[f->collection].group,
                   ns == NULL ? "" : "/namespaces/", ns == NULL ? "" : ns,
                   parts[f->collection].resource);
}

void informer_count(struct informer_counts *to, const struct informer *f)
{
    if (f->reflector == NULL) {
        return;
    }
    const struct reflector_stats *s = reflector_stats(f->reflector);
    for (size_t i = 0; i < REFLECTOR_REASONS; i++) {
        to->lists += s->lists[i];
    }
    to->watches += s->watches;
    to->events += s->events;
    to->failures += s->failures;
}

void informer_end(struct informer *f)
{
    informer_count(&f->cache->past[f->collection], f);
    reflector_free(f->reflector);
    f->reflector = NULL;
    f->lost = false;
}

int informer_follow(struct informer *f, struct err *e)
{
    char path[PATH_SIZE];
    char label[NAMES_KEY_SIZE + sizeof "=true"];
    char key[NAMES_KEY_SIZE];
    const struct shard_cache *w = f->cache;
    (void)snprintf(label, sizeof label, "%s=true", names_key(w->prefix, RULES_MAP_LABEL, key));
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
    return 0;
}

void informer_init(struct informer *f, struct shard_cache *w,
                   enum shard_cache_collection collection, const struct reflector_handlers *h)
{
    f->cache = w;
    f->collection = collection;
    f->handlers = h;
}

static void follow_again(struct informer *f)
{
    struct err e = ERR_INIT;
    if (f->lost && informer_follow(f, &e) != 0) {
        informer_lose(f);
    }
}

void shard_cache_list_again(struct net_deadline *d)
{
    struct shard_cache *w = LIST_ITEM(d, struct shard_cache, again);
    w->again_set = false;
    follow_again(&w->configs_informer);
    follow_again(&w->maps_informer);
    follow_again(&w->pods_informer);
}
