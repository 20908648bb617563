/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shards take of memory: their limits and rules have one bound together, so that whoever may
 * write very many or very large ones does not end the manager. Each namespace has an account. Above
 * the bound the largest account gives something up, its largest shard first, until the rest fits:
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

/* ---- accounts ---- */

static struct account *account_of(struct table_node *n)
{
    return LIST_ITEM(n, struct account, node);
}

struct account *shard_cache_account(struct shard_cache *w, const char *ns)
{
    struct table_node *n = table_find(&w->accounts, ns);
    struct account *a = n != NULL ? account_of(n) : calloc(1, sizeof *a + strlen(ns) + 1);
    if (n != NULL || a == NULL) {
        return a;
    }
    memcpy(a->ns, ns, strlen(ns) + 1);
    if (table_insert(&w->accounts, &a->node, a->ns) != 0) {
        free(a);
        return NULL;
    }
    return a;
}

static void free_account(struct shard_cache *w, struct account *a)
{
    table_remove(&w->accounts, &a->node);
    free(a);
}

static void drop_unused(struct shard_cache *w)
{
    struct table_node *next = table_next(&w->accounts, NULL);
    while (next != NULL) {
        struct account *a = account_of(next);
        next = table_next(&w->accounts, next);
        if (a->bytes.used == 0 && table_find(&w->namespaces, a->ns) == NULL) {
            free_account(w, a);
        }
    }
}

static size_t total(const struct shard_cache *w)
{
    size_t sum = 0;
    for (struct table_node *n = NULL; (n = table_next(&w->accounts, n)) != NULL;) {
        sum += account_of(n)->bytes.used;
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
    for (struct table_node *n = NULL; (n = table_next(&w->configs, n)) != NULL;) {
        count += LIST_ITEM(n, struct config, node)->seen.over;
    }
    return count;
}

static struct account *largest(const struct shard_cache *w)
{
    struct account *found = NULL;
    for (struct table_node *n = NULL; (n = table_next(&w->accounts, n)) != NULL;) {
        struct account *a = account_of(n);
        bool more = found == NULL || a->bytes.used > found->bytes.used ||
                    (a->bytes.used == found->bytes.used && strcmp(a->ns, found->ns) > 0);
        found = more ? a : found;
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
    struct account *a = rules == NULL ? NULL : shard_cache_account(w, ns);
    if (a != NULL) {
        rules_count_once(rules, &a->bytes);
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
    struct candidate one = {.config = c, .key = c != NULL ? c->key : m->map->key};
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
static void find_largest(const struct shard_cache *w, const char *ns, size_t most,
                         struct candidates *best)
{
    best->count = 0;
    best->most = most;
    struct table_node *n = table_find(&w->namespaces, ns);
    if (n == NULL) {
        return;
    }
    const struct namespace *s = LIST_ITEM(n, struct namespace, node);
    LIST_FOR_EACH(i, &s->configs)
    {
        struct config *c = LIST_ITEM(i, struct config, link);
        if (!c->seen.over) {
            consider(w, best, c, find_map(w, c->key));
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
        shard_cache_set_deadline(w, &w->readmission, READMIT_MS);
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
    struct map_entry *m = find_map(w, c->key);
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
             log_str("shard", c->key), log_num("bytes", (int64_t)c->wanted));
    await_room(w);
}

/* The past of its shards goes before any of them. */
static void ask_for_past(struct shard_cache *w, struct account *a)
{
    if (!a->asked) {
        shard_cache_tell_excess(w, a->ns);
    }
    a->asked = true;
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

/* As many as have to, as long as no other account is larger. Who gave up what stands in its
 * ConfigMap has the spec to give up: it is found anew. */
static void give_up_from(struct shard_cache *w, struct account *a)
{
    struct candidates found;
    find_largest(w, a->ns, BATCH, &found);
    a->exhausted = found.count == 0;
    for (size_t i = 0; i < found.count && is_over(w) && largest(w) == a; i++) {
        give_up_one(w, &found.items[i]);
        if (found.items[i].map != NULL) {
            return;
        }
    }
}

static void begin_anew(const struct shard_cache *w)
{
    for (struct table_node *n = NULL; (n = table_next(&w->accounts, n)) != NULL;) {
        account_of(n)->asked = false;
        account_of(n)->exhausted = false;
    }
}

static void on_trim(struct net_task *t)
{
    struct shard_cache *w = LIST_ITEM(t, struct shard_cache, trimming);
    struct account *a = NULL;
    drop_unused(w);
    if (!is_over(w)) {
        return;
    }
    begin_anew(w);
    /* Who takes less does not pay for what another cannot give up. */
    while (is_over(w) && (a = largest(w)) != NULL && !a->exhausted) {
        if (a->asked) {
            give_up_from(w, a);
        } else {
            ask_for_past(w, a);
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
    const struct account *a = largest(w);
    struct candidates found = {.count = 0};
    if (a == c->namespace->account) {
        find_largest(w, a->ns, 1, &found);
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
    for (struct table_node *n = NULL; (n = table_next(&w->maps, n)) != NULL;) {
        struct map_entry *m = LIST_ITEM(n, struct map_entry, node);
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
    for (struct table_node *n = NULL; (n = table_next(&w->configs, n)) != NULL;) {
        const struct config *c = LIST_ITEM(n, struct config, node);
        waits = waits || c->seen.over;
        room = room || (c->seen.over && shard_cache_has_room(w, c->wanted));
    }
    if (room) {
        struct err e = ERR_INIT;
        if (informer_follow(&w->configs_informer, &e) != 0) {
            log_error("cannot list what was given up", log_str("error", e.msg));
        }
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
    for (struct table_node *n = NULL; (n = table_next(&w->accounts, NULL)) != NULL;) {
        free_account(w, account_of(n));
    }
    table_deinit(&w->accounts);
}
