/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shards take of memory: their limits and rules have one bound together, so that whoever may
 * write very many or very large ones does not end the manager. Above the bound the namespace that
 * takes the most gives something up, its largest shard first, until the rest fits:
 * so a namespace keeps what it has as long as another takes more. The ConfigMap of a shard that was
 * given up stays as it is; its spec is refused until there is room for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cache/shard_cache_internal.h"
#include "json/json.h"

enum {
    READMIT_MS = 10000, /* until room for what was given up is looked for again */
    MIB = 1024 * 1024,
    WHY_SIZE = 320,
    GRAINS = 256, /* of the bound, as fine as shards are compared */
    BATCH = 64,   /* shards that one look finds: a namespace may have tens of thousands */
};

/* With a larger selector a shard that was given up has no pods. */
#define SELECTOR_KEPT_MAX ((size_t)64 * 1024)

/* ---- what there is ---- */

static void free_namespace(struct shard_cache *w, struct namespace *s)
{
    pod_selection_deinit(&s->members);
    table_remove(&w->namespaces, &s->node);
    free(s);
}

static bool is_used(const struct namespace *s)
{
    return !list_empty(&s->configs) || !list_empty(&s->maps) || !list_empty(&s->pods) ||
           s->bytes.used > 0;
}

static void drop_unused(struct shard_cache *w)
{
    for (struct namespace *s = next_namespace(w, NULL), *next; s != NULL; s = next) {
        next = next_namespace(w, s);
        if (!is_used(s)) {
            free_namespace(w, s);
        }
    }
}

static size_t total(const struct shard_cache *w)
{
    size_t sum = 0;
    for (const struct namespace *s = NULL; (s = next_namespace(w, s)) != NULL;) {
        sum += s->bytes.used;
    }
    return sum;
}

static bool is_over(const struct shard_cache *w)
{
    return w->memory_max != 0 && total(w) > w->memory_max;
}

bool shard_cache_has_room(const struct shard_cache *w, size_t bytes)
{
    size_t used = total(w);
    return w->memory_max == 0 || (used <= w->memory_max && bytes <= w->memory_max - used);
}

size_t shard_cache_memory(const struct shard_cache *w)
{
    return total(w);
}

size_t shard_cache_given_up(const struct shard_cache *w)
{
    size_t count = 0;
    for (const struct config *c = NULL; (c = next_config(w, c)) != NULL;) {
        count += c->seen.over;
    }
    return count;
}

static struct namespace *largest(const struct shard_cache *w)
{
    struct namespace *found = NULL;
    for (struct namespace *s = NULL; (s = next_namespace(w, s)) != NULL;) {
        bool more = found == NULL || s->bytes.used > found->bytes.used ||
                    (s->bytes.used == found->bytes.used && strcmp(s->name, found->name) > 0);
        found = more ? s : found;
    }
    return found;
}

void shard_cache_count_config(struct config *c)
{
    size_t sum = json_weight(c->object) + config_spec_weight(&c->spec) +
                 (c->selector == NULL ? 0 : selector_weight(c->selector));
    byte_share_force(&c->share, sum > c->reserved ? sum : c->reserved);
}

void shard_cache_count_rules(struct shard_cache *w, const char *ns, struct rules *rules)
{
    if (rules != NULL) {
        rules_count_once(rules, &shard_cache_provide_namespace(w, ns)->bytes);
        shard_cache_trim(w);
    }
}

bool shard_cache_drops_selector(const struct config *c)
{
    return c->selector != NULL && selector_weight(c->selector) > SELECTOR_KEPT_MAX;
}

/* ---- what can be given up ---- */

/* A shard: its config, or its ConfigMap, or both. */
struct candidate {
    struct config *config; /* NULL: there is none, or it was given up */
    struct map_entry *map; /* with rules that the config does not have in memory; NULL: without */
    const char *key;
    size_t bytes;
};

/* The largest ones of a namespace, the first in front. */
struct candidates {
    struct candidate items[BATCH];
    size_t count;
    size_t most; /* of them are wanted */
};

static size_t weight_of(const struct config *c)
{
    return c->share.size + (c->spec.rules == NULL ? 0 : rules_counted(c->spec.rules));
}

/* Rules that its config does not have in memory anyhow. */
static size_t weight_of_map(const struct map_entry *m, const struct config *c)
{
    const struct rules *rules = m->map->rules;
    bool shared =
        rules != NULL && c != NULL && c->spec.rules != NULL && rules_share(rules, c->spec.rules);
    return rules == NULL || shared ? 0 : rules_counted(rules);
}

/* What differs by little, as the text of a status does, is the same: then the name decides, so that
 * each replica gives up the same. */
static bool is_larger(const struct shard_cache *w, const struct candidate *a,
                      const struct candidate *b)
{
    size_t grain = w->memory_max / GRAINS + 1;
    size_t x = a->bytes / grain;
    size_t y = b->bytes / grain;
    return x > y || (x == y && a->bytes > 0 && strcmp(a->key, b->key) > 0);
}

static void consider(const struct shard_cache *w, struct candidates *best, struct config *c,
                     struct map_entry *m)
{
    struct candidate one = {.config = c, .key = c != NULL ? c->seen.key : m->map->key};
    size_t rules = m == NULL ? 0 : weight_of_map(m, c);
    one.bytes = rules + (c == NULL ? 0 : weight_of(c));
    one.map = rules == 0 ? NULL : m;
    size_t i = best->count;
    if (one.bytes == 0 || (i == best->most && !is_larger(w, &one, &best->items[i - 1]))) {
        return;
    }
    i = i == best->most ? i - 1 : best->count++;
    for (; i > 0 && is_larger(w, &one, &best->items[i - 1]); i--) {
        best->items[i] = best->items[i - 1];
    }
    best->items[i] = one;
}

/* Of all that the namespace has; none: there is nothing. `most`: 1 to BATCH. */
static void find_largest(const struct shard_cache *w, const struct namespace *s, size_t most,
                         struct candidates *best)
{
    best->count = 0;
    best->most = most;
    LIST_FOR_EACH(i, &s->configs)
    {
        struct config *c = LIST_ITEM(i, struct config, link);
        if (!c->seen.over) {
            consider(w, best, c, find_map(w, c->seen.key));
        }
    }
    LIST_FOR_EACH(i, &s->maps)
    {
        struct map_entry *m = LIST_ITEM(i, struct map_entry, link);
        const struct config *c = find_config(w, m->map->key);
        if (c == NULL || c->seen.over) {
            consider(w, best, NULL, m);
        }
    }
}

/* ---- giving up ---- */

/* Somebody may hold them still: from now on they count for nobody. */
static void let_go(struct shard_cache *w, struct rules *rules)
{
    if (rules != NULL) {
        rules_count_in(rules, &w->leaving);
    }
}

/* Who gives up more meanwhile puts nothing off. */
static void await_room(struct shard_cache *w)
{
    if (!w->readmission_set) {
        w->readmission_set = true;
        if (w->ops != NULL) {
            w->ops->set_deadline(w->ops->data, &w->readmission, READMIT_MS);
        } else {
            net_deadline_set(w->loop, &w->readmission, READMIT_MS);
        }
    }
}

static void give_up_map(struct shard_cache *w, struct map_entry *m)
{
    let_go(w, m->map->rules);
    rules_map_give_up(m->map);
    await_room(w);
}

static void give_up_config(struct shard_cache *w, struct config *c)
{
    char why[WHY_SIZE];
    struct map_entry *m = find_map(w, c->seen.key);
    c->wanted = weight_of(c);
    (void)snprintf(why, sizeof why,
                   "spec.limits: Too large: this shard needs %.1f MiB of the manager's memory, all "
                   "together may take %zu MiB, and those of namespace %.63s take the most: reduce "
                   "them, or raise the manager's --shards-memory and memory limit",
                   (double)c->wanted / MIB, w->memory_max / MIB, c->namespace->name);
    if (m != NULL) {
        give_up_map(w, m);
    }
    let_go(w, c->spec.rules);
    config_spec_give_up(&c->spec, why);
    config_spec_drop_share(c->object);
    c->seen.over = true;
    c->reserved = 0;
    shard_cache_count_config(c);
    if (shard_cache_drops_selector(c)) {
        shard_cache_drop_selector(w, c);
        shard_cache_count_config(c);
    }
    log_warn("too many limits; refusing the spec of a shard until there is room",
             log_str("shard", c->seen.key), log_num("bytes", (int64_t)c->wanted));
    await_room(w);
}

/* The past of its shards goes before any of them. */
static void ask_for_past(struct shard_cache *w, struct namespace *s)
{
    if (!s->asked) {
        shard_cache_tell_excess(w, s->name);
    }
    s->asked = true;
}

/* What stands in its ConfigMap goes first, if it is something else than the spec comes to: that is
 * what is going to be written there. */
static void give_up_one(struct shard_cache *w, const struct candidate *c)
{
    if (c->map != NULL) {
        log_warn("too many rules; those in a ConfigMap are not kept in memory",
                 log_str("shard", c->key), log_num("bytes", (int64_t)c->bytes));
        give_up_map(w, c->map);
        shard_cache_tell_shard(w, c->key, SHARD_CACHE_CONFIGMAP);
    } else {
        give_up_config(w, c->config);
        shard_cache_tell_shard(w, c->key, SHARD_CACHE_CONFIG);
    }
}

/* As many as have to, as long as no other namespace is larger. Who gave up what stands in its
 * ConfigMap has the spec to give up: it is found anew. */
static void give_up_from(struct shard_cache *w, struct namespace *s)
{
    struct candidates found;
    find_largest(w, s, BATCH, &found);
    s->exhausted = found.count == 0;
    for (size_t i = 0; i < found.count && is_over(w) && largest(w) == s; i++) {
        give_up_one(w, &found.items[i]);
        if (found.items[i].map != NULL) {
            return;
        }
    }
}

static void begin_anew(const struct shard_cache *w)
{
    for (struct namespace *s = NULL; (s = next_namespace(w, s)) != NULL;) {
        s->asked = false;
        s->exhausted = false;
    }
}

static void on_trim(struct net_task *t)
{
    struct shard_cache *w = LIST_ITEM(t, struct shard_cache, trimming);
    struct namespace *s = NULL;
    drop_unused(w);
    if (!is_over(w)) {
        return;
    }
    begin_anew(w);
    /* Who takes less does not pay for what another cannot give up. */
    while (is_over(w) && (s = largest(w)) != NULL && !s->exhausted) {
        if (s->asked) {
            give_up_from(w, s);
        } else {
            ask_for_past(w, s);
        }
    }
}

void shard_cache_trim(struct shard_cache *w)
{
    net_task_queue(w->loop, &w->trimming);
}

bool shard_cache_is_too_much(struct shard_cache *w, struct config *c)
{
    if (!is_over(w)) {
        return false;
    }
    begin_anew(w);
    struct candidates found = {.count = 0};
    if (largest(w) == c->namespace) {
        find_largest(w, c->namespace, 1, &found);
    }
    const struct candidate first = found.count > 0 ? found.items[0] : (struct candidate){.key = ""};
    bool quiet = !shard_cache_drops_selector(c); /* nobody is to be told of pods */
    size_t beside = first.map == NULL ? 0 : weight_of_map(first.map, c);
    if (first.config == c && quiet && total(w) - beside > w->memory_max) {
        give_up_config(w, c);
        return true;
    }
    shard_cache_trim(w);
    return false;
}

/* ---- taking up again ---- */

/* Of shards that are not given up. Whoever leads reads it. */
static bool readmit_maps(struct shard_cache *w)
{
    bool waits = false;
    size_t promised = 0;
    for (struct map_entry *m = NULL; (m = next_map(w, m)) != NULL;) {
        const struct config *c = find_config(w, m->map->key);
        bool missed = m->map->given_up > 0 && (c == NULL || !c->seen.over);
        waits = waits || missed;
        if (missed && shard_cache_has_room(w, promised + m->map->given_up)) {
            promised += m->map->given_up;
            rules_map_forget(m->map);
            shard_cache_tell_shard(w, m->map->key, SHARD_CACHE_CONFIGMAP);
        }
    }
    return waits;
}

/* All are listed: those for which there is room are taken. */
static void on_readmission(struct net_deadline *d)
{
    struct shard_cache *w = LIST_ITEM(d, struct shard_cache, readmission);
    w->readmission_set = false;
    bool waits = readmit_maps(w);
    bool room = false;
    for (const struct config *c = NULL; (c = next_config(w, c)) != NULL;) {
        waits = waits || c->seen.over;
        room = room || (c->seen.over && shard_cache_has_room(w, c->wanted));
    }
    if (room) {
        informer_list_again(w->configs, 1);
    }
    if (waits) {
        await_room(w);
    }
}

/* ---- life ---- */

void shard_cache_budget_init(struct shard_cache *w, size_t max)
{
    w->memory_max = max;
    net_task_init(&w->trimming, on_trim);
    net_deadline_init(&w->readmission, on_readmission);
}

void shard_cache_budget_end(struct shard_cache *w)
{
    net_task_cancel(&w->trimming);
    net_deadline_clear(&w->readmission);
}

void shard_cache_budget_deinit(struct shard_cache *w)
{
    for (struct namespace *s; (s = next_namespace(w, NULL)) != NULL;) {
        free_namespace(w, s);
    }
    table_deinit(&w->namespaces);
}
