/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ShardingConfigs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "cache/shard_cache_internal.h"
#include "compile/shards.h"
#include "inject/inject_options.h"
#include "object/last_editor.h"
#include "object/names.h"
#include "object/root_child.h"
#include "json/field.h"

/* Reports the pods that the config selects, once they are its members. */
static void tell_pods_of(struct shard_cache *w, const struct config *c)
{
    LIST_FOR_EACH(n, &c->shard.pods)
    {
        struct pod_entry *p = pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod);
        shard_cache_tell_shards_of(w, p);
        shard_cache_tell_pod(w, &p->pod, false);
    }
}

static void join_pods(struct config *c)
{
    struct namespace *s = c->namespace;
    pod_selection_add(&s->members, &c->shard, c->selector);
    LIST_FOR_EACH(n, &s->pods)
    {
        struct pod_entry *p = LIST_ITEM(n, struct pod_entry, link);
        pod_selection_join(&c->shard, &p->member, &p->pod);
    }
}

/* Reports each pod once it is no member any more. */
static void part_pods(struct shard_cache *w, struct config *c)
{
    while (!list_empty(&c->shard.pods)) {
        struct member *m = LIST_ITEM(c->shard.pods.next, struct member, of_shard);
        struct pod_entry *p = pod_of_member(m->pod);
        pod_selection_part(m);
        shard_cache_tell_shards_of(w, p);
        shard_cache_tell_pod(w, &p->pod, false);
    }
    pod_selection_remove(&c->namespace->members, &c->shard);
}

static void drop(void *data, struct informer_item *item)
{
    struct config *c = config_of(item);
    (void)data;
    pod_selection_remove(&c->namespace->members, &c->shard);
    list_remove(&c->link);
    free(c->changed_by);
    selector_free(c->selector);
    list_remove(&c->selecting);
    config_spec_forget(&c->spec);
    byte_share_give_back(&c->share);
    cJSON_Delete(c->object);
    free(c);
}

/* Whether both have the same spec: the API server counts its changes. */
static bool same_generation(const cJSON *a, const cJSON *b)
{
    return field_generation(a) > 0 && field_generation(a) == field_generation(b);
}

struct rules *shard_cache_rules(struct shard_cache *w, const struct shard_cache_config *seen,
                                const struct compile_options *o, struct err *e)
{
    struct config *c = LIST_ITEM(seen, struct config, seen);
    bool before = c->spec.compiled;
    struct compile_options with = *o;
    with.shared = &w->shared;
    struct rules *rules = config_spec_compile(&c->spec, c->object, &with, &c->namespace->bytes, e);
    if (!before) {
        c->reserved = 0;
        c->seen.namespaces = c->spec.namespaces;
        shard_cache_count_config(c);
    }
    struct map_entry *m = before || rules == NULL ? NULL : find_map(w, c->seen.key);
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

/* The spec is another one. */
static void take_spec(struct shard_cache *w, struct config *c, const cJSON *object)
{
    config_spec_set(&c->spec, object);
    c->seen.over = false;
    shard_cache_note_selecting(w, c);
}

/* It was given up, and there is room for it. */
static bool is_welcome(const struct shard_cache *w, const struct config *c)
{
    return c->seen.over && shard_cache_has_room(w, c->wanted);
}

/* Of a child of a root alone, for others may be changed by anybody: the caller frees; NULL:
 * nobody. */
static char *find_changer(const struct shard_cache *w, const struct config *c, const cJSON *whole)
{
    static const char *const managers[] = {RULES_MAP_MANAGER, ROOT_FIELD_MANAGER, NULL};
    char key[NAMES_KEY_SIZE];
    char text[LAST_EDITOR_SIZE] = "";
    const cJSON *meta = field_get(whole, "metadata");
    names_key(w->prefix, ROOT_LABEL, key);
    if (field_text(field_get(meta, "labels"), key)[0] != '\0' || c->changed_by != NULL) {
        last_editor_find(meta, managers, text);
    }
    return text[0] == '\0' ? NULL : xstrdup(text);
}

static const char *pods_of_shard(const struct shard_cache *w, const cJSON *object)
{
    char key[NAMES_KEY_SIZE];
    return field_text(field_get(field_get(object, "metadata"), "annotations"),
                      names_key(w->prefix, ROOT_PODS, key));
}

static uint64_t sized_at(const struct shard_cache *w, const struct config *c, const cJSON *object)
{
    bool same =
        c->object != NULL && strcmp(pods_of_shard(w, c->object), pods_of_shard(w, object)) == 0;
    return same ? c->seen.sized_ms : w->synced ? net_clock_now(w->clock) : 0;
}

/* `whole` is what the API server has; takes `object`, which is kept of it. */
static void set_config(struct shard_cache *w, struct config *c, const cJSON *whole, cJSON *object)
{
    bool welcome = is_welcome(w, c);
    char *changer = find_changer(w, c, whole);
    if (welcome || !same_generation(c->object, object)) {
        take_spec(w, c, whole);
    }
    free(c->changed_by);
    c->changed_by = changer;
    uint64_t sized = sized_at(w, c, object);
    cJSON_Delete(c->object);
    c->object = object;
    c->seen = (struct shard_cache_config){
        .sized_ms = sized,
        .key = c->item.node.key,
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
}

static struct config *new_config(struct shard_cache *w, const char *key, const char *ns)
{
    struct config *c = informer_item_new(sizeof *c, key);
    pod_selection_shard_init(&c->shard);
    list_init(&c->selecting);
    list_init(&c->link);
    c->namespace = shard_cache_provide_namespace(w, ns);
    byte_share_init(&c->share, &c->namespace->bytes);
    return c;
}

/* What selects its pods; NULL: nothing sensible does. */
static struct selector *pod_selector(const cJSON *object)
{
    bool root = field_get(field_get(object, "spec"), "root") != NULL;
    return root ? NULL : shards_pod_selector(object, NULL);
}

static bool same_selector(const struct selector *a, const struct selector *b)
{
    return (a == NULL) == (b == NULL) && (a == NULL || selector_equal(a, b));
}

/* Takes `selector`. The pods of a config that is new are not told of yet. */
static void change_selector(struct shard_cache *w, struct config *c, struct selector *selector)
{
    if (same_selector(c->selector, selector)) {
        selector_free(selector);
        return;
    }
    part_pods(w, c);
    selector_free(c->selector);
    c->selector = selector;
    if (selector != NULL) {
        join_pods(c);
    }
    if (list_linked(&c->link)) {
        tell_pods_of(w, c);
    }
}

void shard_cache_drop_selector(struct shard_cache *w, struct config *c)
{
    cJSON *spec = cJSON_GetObjectItemCaseSensitive(c->object, "spec");
    change_selector(w, c, NULL);
    cJSON_DeleteItemFromObjectCaseSensitive(spec, "selector");
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct shard_cache *w = data;
    struct config *c = config_of(*item);
    if (c != NULL && strcmp(c->seen.uid, field_meta(object, "uid")) != 0) {
        informer_remove(w->configs, *item); /* it was another config of the same name */
        *item = NULL;
        c = NULL;
    }
    if (c != NULL && strcmp(c->seen.version, field_meta(object, "resourceVersion")) == 0 &&
        !is_welcome(w, c)) {
        return false;
    }
    c = c != NULL ? c : new_config(w, key, shards_namespace(object));
    set_config(w, c, object, config_spec_rest(object, w->prefix));
    change_selector(w, c, pod_selector(object));
    *item = &c->item;
    return true;
}

static void end_config(struct shard_cache *w, struct config *c)
{
    part_pods(w, c);
    list_remove(&c->link);
    shard_cache_tell_shard(w, c->seen.key, SHARD_CACHE_CONFIG);
    shard_cache_leave_namespace(w, c->namespace);
    if (c->shares) {
        shard_cache_share_namespaces(w);
    }
}

static void begin_config(struct shard_cache *w, struct config *c)
{
    list_append(&c->namespace->configs, &c->link);
    shard_cache_show_map(w, c->namespace, c->seen.key);
    tell_pods_of(w, c);
}

/* It is given up, and what it was given up for comes with each change. */
static void drop_large_parts(struct shard_cache *w, struct config *c)
{
    config_spec_drop_share(c->object);
    if (shard_cache_drops_selector(c)) {
        shard_cache_drop_selector(w, c);
    }
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    struct shard_cache *w = data;
    struct config *c = config_of(after);
    if (after == NULL) {
        end_config(w, config_of(before));
        return;
    }
    if (before == NULL) {
        begin_config(w, c);
    }
    if (c->seen.over) {
        drop_large_parts(w, c);
    }
    shard_cache_count_config(c);
    shard_cache_trim(w);
    shard_cache_tell_shard(w, c->seen.key, SHARD_CACHE_CONFIG);
    bool shared = c->shares;
    c->shares = sharing_of(c->object) != NULL;
    if (shared || c->shares) {
        shard_cache_share_namespaces(w);
    }
}

static void on_synced(void *data, bool first)
{
    struct shard_cache *w = data;
    (void)first;
    shard_cache_share_namespaces(w);
    informer_release(w->maps);
    informer_release(w->pods);
    shard_cache_tell_ready(w);
}

const char *shard_cache_configs_error(const struct shard_cache *w)
{
    const struct reflector *r = informer_reflector(w->configs);
    return reflector_not_found(r)
               ? "the CustomResourceDefinition " SHARD_CACHE_RESOURCE "." COMPILE_GROUP
                 " is not installed: apply k8s/base/crd.yaml, or what the chart has in crds/"
               : reflector_error(r);
}

static void on_state(void *data, const char *error)
{
    struct shard_cache *w = data;
    if (error != NULL && reflector_not_found(informer_reflector(w->configs))) {
        log_warn("there are no ShardingConfigs", log_str("error", shard_cache_configs_error(w)));
        shard_cache_share_nothing(w);
    }
}

const struct informer_kind shard_cache_config_kind = {
    .path = SHARD_CACHE_GROUP_PATH "/" SHARD_CACHE_RESOURCE,
    .keep = keep,
    .drop = drop,
    .on_change = on_change,
    .on_synced = on_synced,
    .on_state = on_state,
};

/* ---- look-ups ---- */

static const struct shard_cache_config *show_config(struct config *c)
{
    c->seen.pod_count = c->shard.pod_count;
    c->seen.pods = c->selector;
    return &c->seen;
}

const struct shard_cache_config *shard_cache_find_config(const struct shard_cache *w,
                                                         const char *key)
{
    struct config *c = find_config(w, key);
    return c == NULL ? NULL : show_config(c);
}

const struct shard_cache_config *shard_cache_next_config(const struct shard_cache *w,
                                                         const struct shard_cache_config *c)
{
    struct config *next = next_config(w, c == NULL ? NULL : LIST_ITEM(c, struct config, seen));
    return next == NULL ? NULL : show_config(next);
}

const struct shard_cache_config *shard_cache_next_config_in(const struct shard_cache *w,
                                                            const char *ns,
                                                            const struct shard_cache_config *c)
{
    struct config *last = c == NULL ? NULL : LIST_ITEM(c, struct config, seen);
    struct namespace *s = last == NULL ? find_namespace(w, ns) : last->namespace;
    struct list *next = last != NULL ? last->link.next : s != NULL ? s->configs.next : NULL;
    return s == NULL || next == &s->configs ? NULL
                                            : show_config(LIST_ITEM(next, struct config, link));
}

size_t shard_cache_shard_count(const struct pod *p)
{
    return entry_of_pod(p)->member.shard_count;
}

const struct shard_cache_config *shard_cache_shard_of(const struct pod *p,
                                                      const struct shard_cache_config *but)
{
    const struct shard_cache_config *best = NULL;
    const struct pod_selection_pod *member = &entry_of_pod(p)->member;
    LIST_FOR_EACH(n, &member->shards)
    {
        struct config *c = config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard);
        if (&c->seen != but && (best == NULL || strcmp(c->seen.name, best->name) < 0)) {
            best = show_config(c);
        }
    }
    return best;
}

size_t shard_cache_shards_of(const struct pod *p, const struct shard_cache_config **out,
                             size_t room)
{
    const struct pod_selection_pod *member = &entry_of_pod(p)->member;
    size_t count = 0;
    for (struct list *n = member->shards.next; n != &member->shards && count < room; n = n->next) {
        out[count++] = show_config(config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard));
    }
    return count;
}
