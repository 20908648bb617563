/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which informer tells of a namespace's pods: one of its own, or the shared one, which follows the
 * pods of all namespaces by one watch as long as there are many to follow.
 *
 * The shared one is there from the moment that there are more namespaces than `own_watches`, until
 * there are half as many or fewer: a namespace that comes and goes changes nothing, and few do not
 * pay for what happens to all pods of the cluster. While it is there, at most `own_watches` others
 * list at a time.
 *
 * A namespace that has an informer of its own goes over to the shared one when nothing is lost by
 * it, and nothing comes back even for a moment: when all is known of it up to a version (`since`)
 * that is no lower than that of anything the shared one told of it and was ignored. What the shared
 * one tells of it later, and is no newer than that, is known already. For that
 *
 *   - all versions of pods must be comparable, as they are: the API server counts them;
 *   - a list must be of no older version than what any watch had told before it was asked for. It
 *     is, for it asks for the newest (no resourceVersion), which is read from a quorum.
 *
 * So a new namespace usually takes one list and no watch. One that goes back does so at once, for
 * its own list will show all that the shared one had told. It keeps what is known of it, and stays
 * ready, in all of this.
 *
 * When the first list of the shared one is refused (403), or later ones fail for
 * SHARED_PATIENCE_MS, every namespace gets an informer of its own. The shared one goes on trying,
 * with growing pauses; once its watch is open they go over.
 */
#include "base/decimal.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "cache/shard_cache_internal.h"
#include "compile/shards.h"

enum { SHARED_PATIENCE_MS = 45000 /* more than the longest pause of a reflector */ };

#define VERSION_UNKNOWN UINT64_MAX

/*
 *              the shared informer begins a list
 *   new --> WAITING --------------------------------------------> SHARED --+
 *           ^   |                                                  ^       |
 *           |   +-- its turn to list --> OWN -- knows as much -----+       |
 *           |                                                              |
 *           +------------- the shared informer fails, or ends -------------+
 */
static const struct state_machine machine = {
    .object = "pods of namespace",
    .states = {[PODS_WAITING] = {"waiting", STATE(PODS_OWN) | STATE(PODS_SHARED)},
               [PODS_OWN] = {"own", STATE(PODS_SHARED)},
               [PODS_SHARED] = {"shared", STATE(PODS_WAITING)}},
};

/* One after the other; NULL begins, and ends. None may go meanwhile. */
static struct namespace *next_namespace(const struct shard_cache *w, const struct namespace *s)
{
    struct table_node *n = table_next(&w->namespaces, s == NULL ? NULL : &s->node);
    return n == NULL ? NULL : LIST_ITEM(n, struct namespace, node);
}

/* ---- what the shared informer is good for ---- */

/* Or is in the midst of one; it is there. */
static bool needs_list(const struct informer *f)
{
    return reflector_version(f->reflector)[0] == '\0';
}

static bool is_wanted(const struct shard_cache *w)
{
    return w->namespace == NULL && w->namespaces.count > w->own_watches;
}

/* Namespaces may wait for it, whether it is there or soon will be. */
static bool is_hopeful(const struct shard_cache *w)
{
    return (w->shared_informer.reflector != NULL || is_wanted(w)) && !w->shared_failed;
}

/* Its first list will take all that wait. */
static bool is_about_to_list(const struct shard_cache *w)
{
    struct informer_counts counts = {0};
    informer_count(&counts, &w->shared_informer);
    return counts.lists == 0 && informer_error(&w->shared_informer) == NULL;
}

/* It has told all that there is up to its version, and goes on from there. */
static bool is_current(const struct shard_cache *w)
{
    return is_hopeful(w) && !w->shared_informer.lost && informer_version(&w->shared_informer) != 0;
}

/* ---- namespaces ---- */

static void enqueue(struct shard_cache *w, struct namespace *s)
{
    if (!list_linked(&s->queued)) {
        list_append(&w->queue, &s->queued);
    }
}

static void set_source(struct namespace *s, enum pod_source next)
{
    s->source = state_change(&machine, s->source, next, slice_str(s->name));
    list_remove(&s->queued);
}

static void go_over(struct namespace *s, uint64_t since)
{
    s->since = since;
    informer_end(&s->informer);
    set_source(s, PODS_SHARED);
}

static void go_back(struct shard_cache *w, struct namespace *s)
{
    s->ignored = 0;
    set_source(s, PODS_WAITING);
    enqueue(w, s);
}

static void begin_list(struct namespace *s)
{
    struct err e = ERR_INIT;
    list_remove(&s->queued);
    if (s->source == PODS_WAITING) {
        set_source(s, PODS_OWN);
    }
    if (informer_follow(&s->informer, &e) != 0) {
        informer_lose(&s->informer);
    }
}

void shard_cache_source_begin(struct shard_cache *w, struct namespace *s)
{
    const struct informer *f = &w->shared_informer;
    bool told = f->reflector != NULL && !needs_list(f);
    uint64_t version = informer_version(f);
    list_init(&s->queued);
    /* What it has told of the namespace before is not known any more. */
    s->ignored = told && version == 0 ? VERSION_UNKNOWN : version;
    enqueue(w, s);
    shard_cache_arrange(w);
}

void shard_cache_source_end(struct shard_cache *w, struct namespace *s)
{
    list_remove(&s->queued);
    informer_end(&s->informer);
    shard_cache_arrange(w);
}

void shard_cache_source_moved(struct shard_cache *w, struct namespace *s)
{
    uint64_t version = informer_version(&s->informer);
    if (is_current(w) && s->source == PODS_OWN && !s->informer.lost && version != 0 &&
        version >= s->ignored) {
        go_over(s, version);
    }
}

/* ---- who needs what ---- */

static bool is_listing(const struct informer *f)
{
    return f->reflector != NULL && needs_list(f) && reflector_error(f->reflector) == NULL;
}

/* How many namespaces may begin a list. */
static size_t room(const struct shard_cache *w)
{
    bool current = is_current(w);
    size_t taken = 0;
    if (!is_hopeful(w)) {
        return SIZE_MAX;
    }
    if (is_about_to_list(w)) {
        return 0;
    }
    for (const struct namespace *s = NULL; (s = next_namespace(w, s)) != NULL;) {
        taken += current ? is_listing(&s->informer) : s->informer.reflector != NULL;
    }
    return taken < w->own_watches ? w->own_watches - taken : 0;
}

/* Those that have informers list once more, to know as much as the shared one; as long as that one
 * knows all. */
static void begin_lists(struct shard_cache *w)
{
    for (size_t n = list_empty(&w->queue) ? 0 : room(w); n > 0 && !list_empty(&w->queue); n--) {
        struct namespace *s = LIST_ITEM(w->queue.next, struct namespace, queued);
        if (s->source == PODS_WAITING || is_current(w)) {
            begin_list(s);
        } else {
            list_remove(&s->queued);
        }
    }
}

static void end_shared(struct shard_cache *w)
{
    log_info("few namespaces: watching the pods of each",
             log_num("count", (int64_t)w->namespaces.count));
    informer_end(&w->shared_informer);
    net_deadline_clear(&w->shared_patience);
    w->shared_failed = false;
}

static void choose(struct shard_cache *w)
{
    bool there = w->shared_informer.reflector != NULL;
    bool counted = w->configs_informer.synced && w->maps_informer.synced;
    if (!there && is_wanted(w) && counted && !w->shared_informer.lost) {
        log_info("many namespaces: watching the pods of all by one watch",
                 log_num("count", (int64_t)w->namespaces.count));
        shard_cache_follow_shared(w);
    } else if (there && w->namespaces.count <= w->own_watches / 2) {
        end_shared(w);
    }
}

static void leave_shared(struct shard_cache *w)
{
    for (struct namespace *s = NULL; (s = next_namespace(w, s)) != NULL;) {
        if (s->source == PODS_SHARED) {
            go_back(w, s);
        }
    }
}

static void on_arrange(struct net_task *t)
{
    struct shard_cache *w = LIST_ITEM(t, struct shard_cache, arranging);
    choose(w);
    if (!is_hopeful(w)) {
        leave_shared(w);
    }
    begin_lists(w);
}

void shard_cache_arrange(struct shard_cache *w)
{
    net_task_queue(w->loop, &w->arranging);
}

/* ---- the shared informer ---- */

static bool wants(void *data, const char *ns)
{
    const struct informer *f = data;
    return table_find(&f->cache->namespaces, ns) != NULL;
}

static void on_list(void *data)
{
    struct informer *f = data;
    for (struct namespace *s = NULL; (s = next_namespace(f->cache, s)) != NULL;) {
        if (s->source == PODS_WAITING && !f->cache->shared_failed) {
            set_source(s, PODS_SHARED);
        }
        if (s->source == PODS_SHARED) {
            s->since = 0;
            shard_cache_pods_begin(s);
        }
    }
}

/* What is listed is noted when the list is complete. */
static void ignore(const struct informer *f, struct namespace *s, enum reflector_change change)
{
    uint64_t version = informer_version(f);
    if (change != REFLECTOR_LISTED) {
        s->ignored = version == 0 ? VERSION_UNKNOWN : version;
    }
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    struct table_node *n = table_find(&f->cache->namespaces, shards_namespace(object));
    struct namespace *s = n == NULL ? NULL : LIST_ITEM(n, struct namespace, node);
    if (s == NULL) {
        return;
    }
    if (s->source != PODS_SHARED) {
        ignore(f, s, change);
        return;
    }
    uint64_t version = informer_version(f);
    bool old = change != REFLECTOR_LISTED && version != 0 && version <= s->since;
    if (!old && shard_cache_keep_pod(f->cache, s, change, object) != 0) {
        informer_lose(f);
    }
}

/* Those that have informers of their own go over, at once or after a list. */
static void take_over(struct shard_cache *w)
{
    for (struct namespace *s = NULL; (s = next_namespace(w, s)) != NULL;) {
        shard_cache_source_moved(w, s);
        if (s->source == PODS_OWN && s->ignored != VERSION_UNKNOWN) {
            enqueue(w, s);
        }
    }
    shard_cache_arrange(w);
}

static void on_synced(void *data)
{
    struct informer *f = data;
    uint64_t version = informer_version(f);
    if (f->lost) {
        return;
    }
    for (struct namespace *s = NULL; (s = next_namespace(f->cache, s)) != NULL;) {
        if (s->source == PODS_SHARED) {
            shard_cache_pods_end(f->cache, s);
        } else {
            s->ignored = version == 0 ? VERSION_UNKNOWN : version;
        }
    }
    if (is_current(f->cache)) {
        take_over(f->cache);
    }
}

/* ---- when it cannot follow ---- */

static void fail(struct shard_cache *w)
{
    if (!w->shared_failed) {
        log_warn("watching the pods of each namespace, as those of all cannot be followed",
                 log_str("error", informer_error(&w->shared_informer)));
    }
    w->shared_failed = true;
    shard_cache_arrange(w);
}

/* A list may have been complete meanwhile, and the watch not have worked yet. */
static void on_patience(struct net_deadline *d)
{
    struct shard_cache *w = LIST_ITEM(d, struct shard_cache, shared_patience);
    if (needs_list(&w->shared_informer)) {
        fail(w);
    } else {
        shard_cache_set_deadline(w, d, SHARED_PATIENCE_MS);
    }
}

/* A server that has just started may refuse what it allows in a moment, and so it is waited for
 * when namespaces are served. */
static void on_error(struct shard_cache *w)
{
    const struct reflector *r = w->shared_informer.reflector;
    if (!needs_list(&w->shared_informer)) {
        net_deadline_clear(&w->shared_patience); /* the watch goes on from its version */
    } else if (reflector_forbidden(r) && !reflector_stats(r)->synced) {
        fail(w);
    } else if (!list_linked(&w->shared_patience.link)) {
        shard_cache_set_deadline(w, &w->shared_patience, SHARED_PATIENCE_MS);
    }
    shard_cache_arrange(w);
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct informer *f = data;
    struct shard_cache *w = f->cache;
    informer_on_state(f, error, level);
    if (error != NULL) {
        on_error(w);
        return;
    }
    net_deadline_clear(&w->shared_patience);
    w->shared_failed = false;
    take_over(w);
}

static const struct reflector_handlers shared_handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
    .wants = wants,
};

void shard_cache_follow_shared(struct shard_cache *w)
{
    struct err e = ERR_INIT;
    if (informer_follow(&w->shared_informer, &e) != 0) {
        informer_lose(&w->shared_informer);
    } else {
        net_deadline_clear(&w->shared_patience);
        w->shared_failed = false;
    }
    shard_cache_arrange(w);
}

/* ---- life ---- */

void shard_cache_sources_init(struct shard_cache *w)
{
    informer_init(&w->shared_informer, w, NULL, SHARD_CACHE_OF_PODS, &shared_handlers);
    net_deadline_init(&w->shared_patience, on_patience);
    net_task_init(&w->arranging, on_arrange);
    list_init(&w->queue);
}

void shard_cache_sources_deinit(struct shard_cache *w)
{
    net_deadline_clear(&w->shared_patience);
    net_task_cancel(&w->arranging);
    informer_end(&w->shared_informer);
}
