/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which configs are compiled anew though nobody changed them.
 *
 * Limits by labels of namespaces: when a namespace comes, goes or changes its labels, the configs
 * of which some selector decides otherwise are compiled anew. Changes are gathered for a moment,
 * and then one config is left as it is for a second, in which many may change, so that each of its
 * pods need not take new rules for each of them.
 *
 * Limits by the hash depend on which namespaces are shared, by other operators too. Before all
 * configs are known nothing is compiled, and nobody knows which are shared; where the kind is not
 * installed, none is.
 */
#include "base/xalloc.h"
#include "cache/shard_cache_internal.h"

enum {
    GATHER_MS = 20,
    TICK_MS = 500,
    REST_TICKS = 3, /* of which the first may be short */
};

/* Who listens compiles it; on other replicas the next one who asks does. */
static void renew(struct shard_cache *w, struct config *c)
{
    config_spec_renew(&c->spec);
    c->seen.round++;
    shard_cache_count_config(c);
    shard_cache_tell_shard(w, c->seen.key, SHARD_CACHE_CONFIG);
}

/* ---- labels of namespaces ---- */

/* One that was given up has nothing to be compiled. */
static bool is_due(const struct config *c)
{
    return c->outdated && c->rest == 0 && c->spec.asks != NULL;
}

/* Whether there is one that rests. */
static bool renew_all(struct shard_cache *w)
{
    bool rests = false;
    LIST_FOR_EACH(n, &w->selecting)
    {
        struct config *c = LIST_ITEM(n, struct config, selecting);
        if (is_due(c)) {
            c->outdated = false;
            c->rest = REST_TICKS;
            renew(w, c);
        }
        rests = rests || c->rest > 0;
    }
    return rests;
}

static void plan_tick(struct shard_cache *w, bool needed)
{
    if (needed && !w->ticking) {
        w->ticking = true;
        net_timer_set(w->tick, TICK_MS);
    }
}

static void on_gathered(void *data)
{
    struct shard_cache *w = data;
    w->gathering = false;
    plan_tick(w, renew_all(w));
}

static void on_tick(void *data)
{
    struct shard_cache *w = data;
    w->ticking = false;
    LIST_FOR_EACH(n, &w->selecting)
    {
        struct config *c = LIST_ITEM(n, struct config, selecting);
        c->rest -= c->rest > 0;
    }
    plan_tick(w, renew_all(w));
}

static bool concerns(const struct config *c, const struct namespace_entry *before,
                     const struct namespace_entry *after)
{
    bool all = before == NULL && after == NULL;
    return c->spec.asks != NULL &&
           (all || namespace_selectors_tell_apart(c->spec.asks, before, after));
}

static void on_namespace(void *data, const struct namespace_entry *before,
                         const struct namespace_entry *after)
{
    struct shard_cache *w = data;
    bool due = false;
    LIST_FOR_EACH(n, &w->selecting)
    {
        struct config *c = LIST_ITEM(n, struct config, selecting);
        c->outdated = c->outdated || concerns(c, before, after);
        due = due || is_due(c);
    }
    if (due && !w->gathering) {
        w->gathering = true;
        net_timer_set(w->gather, GATHER_MS);
    }
}

void shard_cache_note_selecting(struct shard_cache *w, struct config *c)
{
    c->outdated = false;
    if (c->spec.asks == NULL) {
        list_remove(&c->selecting);
    } else if (!list_linked(&c->selecting)) {
        list_append(&w->selecting, &c->selecting);
    }
}

void shard_cache_renewal_begin(struct shard_cache *w, struct namespaces *known)
{
    if (known == NULL) {
        return;
    }
    w->gather = xptr(net_timer_new(w->loop, on_gathered, w));
    w->tick = xptr(net_timer_new(w->loop, on_tick, w));
    w->known = known;
    w->listener = (struct namespaces_listener){.on_change = on_namespace, .data = w};
    namespaces_listen(known, &w->listener);
}

void shard_cache_renewal_end(struct shard_cache *w)
{
    namespaces_unlisten(&w->listener);
    net_timer_free(w->gather);
    net_timer_free(w->tick);
}

/* ---- shared namespaces ---- */

static void find_shared(const struct shard_cache *w, struct sharing_set *out)
{
    for (const struct config *c = NULL; (c = next_config(w, c)) != NULL;) {
        const struct sharing_consent consent = {.ns = c->seen.ns, .any = &w->shareable};
        sharing_set_add(out, c->object, &consent);
    }
}

void shard_cache_share_namespaces(struct shard_cache *w)
{
    struct sharing_set now = {.count = 0};
    if (!informer_synced(w->configs)) {
        return;
    }
    find_shared(w, &now);
    if (sharing_set_equal(&now, &w->shared)) {
        sharing_set_deinit(&now);
        return;
    }
    sharing_set_deinit(&w->shared);
    w->shared = now;
    for (struct config *c = NULL; (c = next_config(w, c)) != NULL;) {
        /* One that was given up has nothing to be compiled. */
        if (c->spec.by_hash && c->spec.text != NULL && c->spec.compiled) {
            renew(w, c);
        }
    }
    shard_cache_tell_shared(w);
}

void shard_cache_share_nothing(struct shard_cache *w)
{
    if (w->shared.unknown) {
        w->shared.unknown = false;
        shard_cache_tell_shared(w);
    }
}

const struct sharing_set *shard_cache_shared(const struct shard_cache *w)
{
    return &w->shared;
}
