/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a StatefulSet's pods and shards: from the shard cache, the controller and the
 * Leases of the shards' leader elections.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "rolling/roller_internal.h"
#include "json/field.h"

enum {
    NAME_SIZE = NAME_SUBDOMAIN_MAX + 1,
    KEY_SIZE = 512,
    SHARDS_OF_POD_MAX = 32,
    FUTURE_MAX = 64, /* missing pods for which it is looked whose they would be: while any is
                        missing no Ready pod is evicted, so the rest makes no difference */
    MICRO = 1000000
};

/* ---- locks ---- */

/* Who is gone has renewed it perhaps until the end: it counts what was seen since all pods are
 * there. */
static enum lock_state state_of(const struct roll *r, const struct shard_lock *lock)
{
    enum lock_state state = shard_lock_state(lock);
    bool stale = r->whole_since != 0 && shard_lock_seen_at(lock) <= r->whole_since;
    return state == LOCK_STATE_HELD && stale ? LOCK_STATE_UNKNOWN : state;
}

static void mark_holder(struct roll_view *v, size_t shard, const char *identity)
{
    for (size_t i = 0; i < v->facts.pod_count; i++) {
        struct roll_pod *p = &v->pods[i];
        if (p->shard == shard && roll_holds(identity, p->name)) {
            p->holder = true;
        }
    }
}

static void look_locks(const struct roll *r, struct roll_view *v)
{
    for (size_t i = 0; i < v->facts.shard_count; i++) {
        const struct shard_lock *lock = roll_lock_of(r, i);
        v->shards[i].lock = lock == NULL ? LOCK_STATE_NONE : state_of(r, lock);
        if (lock != NULL && v->shards[i].lock != LOCK_STATE_FREE) {
            mark_holder(v, i, shard_lock_holder(lock));
        }
    }
}

/* ---- shards ---- */

/* Of several that select the pod the one whose sidecars it has, else the first by name. */
static const struct shard_cache_config *shard_of(const struct pod *p)
{
    const struct shard_cache_config *all[SHARDS_OF_POD_MAX];
    size_t count = shard_cache_shards_of(p, all, SHARDS_OF_POD_MAX);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i]->key, p->shard) == 0) {
            return all[i];
        }
    }
    return shard_cache_shard_of(p, NULL);
}

/* Of a pod as the StatefulSet would make it. NULL: it would not have that label. */
static const char *label_of(const struct roll *r, const char *pod, const char *key)
{
    if (strcmp(key, POD_NAME_LABEL) == 0) {
        return pod;
    }
    const cJSON *value = field_get(r->set->labels, key);
    return cJSON_IsString(value) ? value->valuestring : NULL;
}

static bool would_select(const struct roll *r, const struct selector *s, const char *pod)
{
    size_t count = 0;
    const struct selector_requirement *items = selector_requirements(s, &count);
    for (size_t i = 0; i < count; i++) {
        const char *text = label_of(r, pod, items[i].key);
        struct slice value = slice_str(text);
        if (!selector_requirement_matches(&items[i], text == NULL ? NULL : &value)) {
            return false;
        }
    }
    return true;
}

/* Of a pod that is not there. */
static const struct shard_cache_config *future_shard(const struct roll *r, const char *pod)
{
    const struct shard_cache *w = r->roller->options.cache;
    const struct shard_cache_config *c = NULL;
    while ((c = shard_cache_next_config_in(w, r->set->ns, c)) != NULL) {
        if (!c->root && c->pods != NULL && would_select(r, c->pods, pod)) {
            return c;
        }
    }
    return NULL;
}

static int by_order(const void *left, const void *right)
{
    const struct shard_cache_config *const *a = left;
    const struct shard_cache_config *const *b = right;
    return roll_compare_shards((*a)->name, (*b)->name);
}

static size_t index_of(const struct roll_view *v, const struct shard_cache_config *config)
{
    for (size_t i = 0; config != NULL && i < v->facts.shard_count; i++) {
        if (v->configs[i] == config) {
            return i;
        }
    }
    return ROLL_NONE;
}

/* `of`: of each pod, or NULL. */
static void sort_shards(struct roll_view *v, const struct shard_cache_config *const *of)
{
    struct roll_facts *f = &v->facts;
    for (size_t i = 0; i < f->pod_count; i++) {
        if (of[i] != NULL && index_of(v, of[i]) == ROLL_NONE) {
            v->configs[f->shard_count++] = of[i];
        }
    }
    qsort(v->configs, f->shard_count, sizeof *v->configs, by_order);
    for (size_t i = 0; i < f->shard_count; i++) {
        v->shards[i] = (struct roll_shard){.name = v->configs[i]->name};
    }
    for (size_t i = 0; i < f->pod_count; i++) {
        v->pods[i].shard = index_of(v, of[i]);
    }
}

/* ---- pods ---- */

static bool is_available(const struct roll *r, const struct pod *p)
{
    int64_t now = net_clock_wall(r->roller->clock) / MICRO;
    int64_t min = r->set->min_ready_s;
    return p->ready && (min == 0 || (p->ready_since != 0 && p->ready_since + min <= now));
}

static bool is_old(const struct roll *r, const struct pod *p,
                   const struct shard_cache_config *config)
{
    const char *revision = pod_label(p, STATEFUL_SET_REVISION);
    bool other_shard = config != NULL && p->shard[0] != '\0' && strcmp(p->shard, config->key) != 0;
    return revision == NULL || strcmp(revision, r->set->revision) != 0 || other_shard;
}

/* Its eviction was answered, and what is followed does not show it yet. */
static bool was_evicted(const struct roll *r, const struct pod *p)
{
    return r->evicted[0] != '\0' && strcmp(r->evicted, p->uid) == 0 &&
           net_clock_now(r->roller->clock) - r->evicted_at <= RECONCILE_BELIEF_MS;
}

static void look_pod(const struct roll *r, const struct pod *p,
                     const struct shard_cache_config *config, struct roll_pod *out)
{
    struct controller_pod state = {.enforces = false};
    if (config != NULL) {
        controller_look_pod(r->roller->options.controller, config, p, &state);
    }
    out->ending = p->ending || was_evicted(r, p);
    out->there = !out->ending && !p->over;
    out->old = is_old(r, p, config);
    out->ready = out->there && p->ready;
    out->available = out->there && is_available(r, p);
    out->enforces = state.enforces;
    out->open_breaker = state.open_breaker;
    out->failing = p->failing;
}

/* NULL: it is not there, or is another's. */
static const struct pod *find_pod(const struct roll *r, const char *name)
{
    char key[KEY_SIZE];
    (void)snprintf(key, sizeof key, "%s/%s", r->set->ns, name);
    const struct pod *p = shard_cache_find_pod(r->roller->options.cache, key);
    return p != NULL && strcmp(p->owner, r->set->uid) == 0 ? p : NULL;
}

/* Each of those that are not there is held against all configs of the namespace. */
static void look_pods(const struct roll *r, struct roll_view *v,
                      const struct shard_cache_config **of)
{
    size_t missing = 0;
    for (size_t i = 0; i < v->facts.pod_count; i++) {
        char *name = v->names + i * NAME_SIZE;
        struct roll_pod *p = &v->pods[i];
        p->ordinal = (unsigned)(r->set->first + i);
        p->name = name;
        (void)snprintf(name, NAME_SIZE, "%s-%u", r->set->name, p->ordinal);
        const struct pod *object = find_pod(r, name);
        v->objects[i] = object;
        if (object != NULL) {
            of[i] = shard_of(object);
            look_pod(r, object, of[i], p);
        } else if (missing++ < FUTURE_MAX) {
            of[i] = future_shard(r, name);
        }
    }
}

/* ---- all of it ---- */

static void note_missing(struct roll *r, const struct roll_view *v)
{
    bool whole = true;
    for (size_t i = 0; i < v->facts.pod_count; i++) {
        whole = whole && v->pods[i].there;
    }
    if (whole && r->missed) {
        r->whole_since = net_clock_now(r->roller->clock);
    }
    r->missed = !whole;
}

static bool has_old(const struct roll_view *v)
{
    for (size_t i = 0; i < v->facts.pod_count; i++) {
        if (v->pods[i].there && v->pods[i].old) {
            return true;
        }
    }
    return false;
}

static void make_room(struct roll_view *v, size_t count)
{
    v->shards = xcalloc(count + 1, sizeof *v->shards);
    v->pods = xcalloc(count + 1, sizeof *v->pods);
    v->objects = xcalloc(count + 1, sizeof *v->objects);
    v->configs = xcalloc(count + 1, sizeof *v->configs);
    v->names = xcalloc(count + 1, NAME_SIZE);
    v->facts.pod_count = count;
}

void roll_view_deinit(struct roll_view *v)
{
    free(v->shards);
    free(v->pods);
    free(v->objects);
    free(v->configs);
    free(v->names);
}

bool roll_view_look(struct roll *r, const struct roll_status *status, struct roll_view *out)
{
    const struct stateful_set *set = r->set;
    const struct shard_cache_config **of = xcalloc(set->replicas + 1, sizeof *of);
    *out = (struct roll_view){.shards = NULL};
    make_room(out, set->replicas);
    bool same = strcmp(set->expected, set->revision) == 0;
    struct roll_facts *f = &out->facts;
    f->shards = out->shards;
    f->pods = out->pods;
    f->unseen = !set->current || set->revision[0] == '\0';
    f->scope = set->scope[0] == '\0' ? NULL : set->scope;
    f->ordered = set->ordered;
    f->first = status->pod;
    f->committed =
        same || status->state == ROLL_STATE_EVICTING || status->state == ROLL_STATE_BLOCKED;
    f->finished = status->state == ROLL_STATE_DONE && same;
    look_pods(r, out, of);
    sort_shards(out, of);
    free(of);
    note_missing(r, out);
    if (f->finished && !has_old(out)) {
        roll_forget_locks(r);
        return true;
    }
    if (!roll_take_locks(r, out)) {
        roll_view_deinit(out);
        return false;
    }
    look_locks(r, out);
    return true;
}
