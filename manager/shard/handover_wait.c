/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what a shard comes to see must wait until the pods of another shard of the same operator
 * have confirmed that they do not show it any more. All is looked at anew each time, so that the
 * next leader decides likewise; only since when it waits is remembered here.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "compile/rules_gain.h"
#include "shard/controller_internal.h"

enum { MS = 1000, ACCOUNTS_MAX = 16 };

/* The service accounts of a shard's pods: pods of one operator share one. */
struct accounts {
    const char *names[ACCOUNTS_MAX];
    size_t count;
};

/* What is to be gained. */
struct gain {
    const struct rules *from; /* NULL: everything */
    const struct rules *to;
    struct accounts accounts;
    bool unsettled; /* found: a pod that may hold it says that writes may still be executed */
};

/* ---- which shards are of one operator ---- */

static bool has_account(const struct accounts *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int find_accounts(const struct shard *s, const struct shard_cache_config *config,
                         struct accounts *out)
{
    size_t count = 0;
    const struct pod **pods = controller_own_pods(s->controller, config, &count);
    if (pods == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count && out->count < ACCOUNTS_MAX; i++) {
        if (!has_account(out, pods[i]->account)) {
            out->names[out->count++] = pods[i]->account;
        }
    }
    free(pods);
    return 0;
}

/* ---- what the other shard's pods may show ---- */

/* What its pods with one of these accounts hold, at most; -ENOMEM. If all enforce what is
 * published, what was earlier is forgotten. *unsettled: set if one of these pods is. */
static int find_hold(struct controller *c, struct shard *other,
                     const struct shard_cache_config *config, const struct rules_map *map,
                     const struct accounts *accounts, bool *unsettled)
{
    size_t count = 0;
    const struct pod **pods = controller_own_pods(c, config, &count);
    enum handover_hold most = HANDOVER_NOTHING;
    enum handover_hold ours = HANDOVER_NOTHING;
    if (pods == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct probe_result *r = prober_result(c->prober, pods[i]->key);
        enum handover_hold hold =
            handover_hold_of(pods[i], r, config->key, map, other == NULL ? NULL : &other->past);
        most = hold > most ? hold : most;
        if (has_account(accounts, pods[i]->account)) {
            ours = hold > ours ? hold : ours;
            *unsettled = *unsettled || handover_unsettled(r);
        }
    }
    free(pods);
    if (other != NULL && map != NULL && map->rules != NULL && most <= HANDOVER_PUBLISHED) {
        handover_settled(&other->past, map->rules);
    }
    return (int)ours;
}

void shard_settle(struct shard *s, const struct shard_cache_config *config,
                  const struct rules_map *map)
{
    static const struct accounts none = {.count = 0};
    bool unsettled = false;
    int rc = s->past.count > 1 ? find_hold(s->controller, s, config, map, &none, &unsettled) : 0;
    (void)rc; /* without memory it is remembered for longer */
}

static bool may_show(const struct gain *g, const struct shard *other, const struct rules_map *map,
                     enum handover_hold hold)
{
    bool shows = hold == HANDOVER_ANYTHING;
    if (!shows && hold != HANDOVER_NOTHING && map != NULL && map->rules != NULL) {
        shows = rules_gain(g->from, g->to, map->rules);
    }
    if (other == NULL || hold == HANDOVER_NOTHING) {
        return shows;
    }
    /* What was sent last may be there already, though the cache does not show it. */
    size_t first = hold == HANDOVER_PAST || other->past.count == 0 ? 0 : other->past.count - 1;
    for (size_t i = first; i < other->past.count && !shows; i++) {
        shows = rules_gain(g->from, g->to, other->past.rules[i]);
    }
    return shows;
}

/* Whether the pods of that config's shard may show some of it. 0, 1, or -ENOMEM. */
static int holds(struct controller *c, const struct shard_cache_config *config, struct gain *g)
{
    struct shard *other = controller_find_shard(c, config->key);
    const struct rules_map *map =
        other == NULL ? shard_cache_find_map(c->options.cache, config->key) : shard_map(other);
    map = map != NULL && rules_map_ours(map) ? map : NULL;
    bool unsettled = false;
    int hold = find_hold(c, other, config, map, &g->accounts, &unsettled);
    if (hold < 0 || !may_show(g, other, map, (enum handover_hold)hold)) {
        return hold < 0 ? hold : 0;
    }
    g->unsettled = g->unsettled || unsettled;
    return 1;
}

static bool is_before(const struct shard_cache_config *a, const struct shard_cache_config *b)
{
    return b == NULL || strcmp(a->name, b->name) < 0;
}

/* The first by name of those whose pods may; *out NULL: nobody's. 0 or -ENOMEM. */
static int find_holder(struct shard *s, const struct shard_cache_config *config, struct gain *g,
                       const struct shard_cache_config **out)
{
    struct controller *c = s->controller;
    const struct shard_cache *w = c->options.cache;
    const struct shard_cache_config *next = NULL;
    *out = NULL;
    if (g->from != NULL && !rules_gain(g->from, g->to, NULL)) {
        return 0;
    }
    int rc = find_accounts(s, config, &g->accounts);
    if (rc != 0 || g->accounts.count == 0) {
        return rc;
    }
    while (rc >= 0 && (next = shard_cache_next_config_in(w, config->ns, next)) != NULL) {
        rc = next != config ? holds(c, next, g) : 0;
        *out = rc > 0 && is_before(next, *out) ? next : *out;
    }
    return rc < 0 ? rc : 0;
}

/* ---- waiting ---- */

void shard_wait_end(struct shard *s)
{
    free(s->holder);
    s->holder = NULL;
    s->late = false;
    list_remove(&s->waiting);
}

/* 0 or -ENOMEM. */
static int wait_for(struct shard *s, const struct shard_cache_config *holder, const char *checksum)
{
    struct controller *c = s->controller;
    bool begun = s->holder != NULL && strcmp(s->waits_for, checksum) == 0;
    char *key = strdup(holder->key);
    if (key == NULL) {
        return -ENOMEM;
    }
    free(s->holder);
    s->holder = key;
    if (!begun) {
        log_info("waiting for handover from another shard", log_str("shard", s->key),
                 log_str("other", key));
        s->waits_since = controller_now(c);
        s->late = false;
        (void)snprintf(s->waits_for, sizeof s->waits_for, "%s", checksum);
        c->options.counts->waits++;
    }
    if (!list_linked(&s->waiting)) {
        list_append(&c->waiting, &s->waiting);
    }
    return 0;
}

int shard_wait(struct shard *s, const struct shard_cache_config *config, const struct rules *from,
               const struct rules *to)
{
    struct controller *c = s->controller;
    struct gain g = {.from = from, .to = to};
    const struct shard_cache_config *holder = NULL;
    int rc = c->options.handover_ms == 0 ? 0 : find_holder(s, config, &g, &holder);
    if (rc != 0 || holder == NULL) {
        shard_wait_end(s);
        return rc;
    }
    rc = wait_for(s, holder, rules_checksum(to));
    if (rc != 0) {
        return rc;
    }
    s->waits_ms = c->options.handover_ms;
    if (g.unsettled && s->waits_ms < HANDOVER_UNSETTLED_MS) {
        s->waits_ms = HANDOVER_UNSETTLED_MS;
    }
    uint64_t waited = controller_now(c) - s->waits_since;
    if (waited >= s->waits_ms) {
        s->late = true;
        return 0;
    }
    controller_look_after(s, s->waits_ms - waited);
    return 1;
}

void shard_tell_late(struct shard *s, const struct shard_cache_config *config, uint64_t generation)
{
    struct controller *c = s->controller;
    struct event_object about = event_object_of(config->object);
    c->options.counts->late++;
    log_warn(
        "handover timed out: pods of the other shard may still show what this shard has gained",
        log_str("shard", s->key), log_str("other", s->holder));
    event_record(c->options.events, &about, EVENT_WARNING, "HandoverTimedOut",
                 "Generation %" PRIu64 " was published after %" PRIu64
                 " s, although pods of shard %s have not confirmed that they do not show some of "
                 "what is new in it: two shards may work on the same objects.",
                 generation, s->waits_ms / MS, s->holder);
}

void controller_wake(struct controller *c, const char *key)
{
    LIST_FOR_EACH(n, &c->waiting)
    {
        struct shard *s = LIST_ITEM(n, struct shard, waiting);
        if (strcmp(s->holder, key) == 0) {
            int rc = work_queue_add(c->queue, s->key);
            (void)rc; /* it is looked at again when it has waited long enough */
        }
    }
}
