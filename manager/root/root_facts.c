/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a root has now: its children and their pods; and what follows of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "object/conditions.h"
#include "root/roots_internal.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    HOLD_MS = 30000, /* buckets move again after so long, whatever became of the last ones */
    MS = 1000,
    MICROSECONDS = 1000000,
    KEY_SIZE = ROOT_NS_SIZE + CHILD_NAME_SIZE,
};

/* ---- children ---- */

bool root_owns(const struct root *t, const struct shard_cache_config *config)
{
    return t->uid != NULL &&
           strcmp(field_text(field_controller(config->object), "uid"), t->uid) == 0;
}

const char *root_other_owner(const struct shard_cache_config *config)
{
    const cJSON *owner = field_controller(config->object);
    bool root = strcmp(field_text(owner, "kind"), COMPILE_KIND) == 0;
    return root ? field_text(owner, "name") : "";
}

bool root_owned_before(const struct root *t, const struct shard_cache_config *config)
{
    const cJSON *owner = field_controller(config->object);
    return !root_owns(t, config) && strcmp(field_text(owner, "kind"), COMPILE_KIND) == 0 &&
           strcmp(field_text(owner, "name"), strchr(t->key, '/') + 1) == 0;
}

/* False: no object has so long a name. */
static bool child_key(const struct root *t, unsigned number, char out[KEY_SIZE])
{
    char ns[ROOT_NS_SIZE];
    char name[CHILD_NAME_SIZE];
    bool fits = child_name(&t->pass.spec, number, name) == 0;
    (void)snprintf(out, KEY_SIZE, "%s/%s", root_namespace(t, ns), fits ? name : "");
    return fits;
}

const struct shard_cache_config *root_find_child(const struct root *t, unsigned number)
{
    char key[KEY_SIZE];
    return child_key(t, number, key) ? shard_cache_find_config(t->roots->options.cache, key) : NULL;
}

static bool is_due(const struct root *t, const struct root_child *c,
                   const struct shard_cache_config *config)
{
    return c->base != 0 && c->base == root_version(config) &&
           roots_now(t->roots) - c->written_at <= RECONCILE_BELIEF_MS;
}

void root_child_forget_answer(struct root_child *c)
{
    free(c->uid);
    free(c->version);
    c->uid = NULL;
    c->version = NULL;
    c->base = 0;
}

void root_child_forget(struct root_child *c)
{
    free(c->uid);
    free(c->version);
    cJSON_Delete(c->share);
    *c = (struct root_child){.known = false};
}

void root_child_rename(struct root_child *c)
{
    const struct root_child kept = {
        .known = c->known, .buckets = c->buckets, .taken_over = c->taken_over, .life = c->life};
    root_child_forget(c);
    *c = kept;
}

/* ---- pods ---- */

static bool has_sidecars(const struct pod *p, const char *key)
{
    return p->shard[0] == '\0' ? p->proxy_port != 0 : strcmp(p->shard, key) == 0;
}

static void count_pod(const struct pod *p, const char *key, struct root_pods *out)
{
    bool own = has_sidecars(p, key);
    out->all++;
    out->own += own;
    if (own && p->ready && !p->ending) {
        out->ready++;
        bool first = p->ready_since != 0 && (out->since == 0 || p->ready_since < out->since);
        out->since = first ? p->ready_since : out->since;
    }
}

static void count_all(const struct shard_cache *w, const char *key, struct root_pods *out)
{
    size_t count = 0;
    const struct shard_cache_config *config = shard_cache_find_config(w, key);
    const struct pod **injected = shard_cache_injected(w, key, &count);
    const struct pod **selected = config == NULL ? NULL : shard_cache_pods_of(config);
    for (size_t i = 0; i < count; i++) {
        if (!injected[i]->over) {
            count_pod(injected[i], key, out);
        }
    }
    for (size_t i = 0; config != NULL && i < config->pod_count; i++) {
        bool counted = strcmp(selected[i]->shard, key) == 0;
        if (!counted && !selected[i]->over) {
            count_pod(selected[i], key, out);
        }
    }
    free(injected);
    free(selected);
}

struct root_pods root_count_pods(const struct root *t, unsigned number)
{
    struct root_pods out = {.all = 0};
    char key[KEY_SIZE];
    if (child_key(t, number, key)) {
        count_all(t->roots->options.cache, key, &out);
    }
    return out;
}

/* ---- facts ---- */

/* For how long, by what its pods say; the API server's clock may be another one. */
static uint64_t alive_ms(const struct root *t, const struct root_pods *pods)
{
    int64_t now = net_clock_wall(t->roots->clock) / MICROSECONDS;
    return pods->since == 0 || pods->since > now ? 0 : (uint64_t)(now - pods->since) * MS;
}

static void look_at_life(struct root *t, struct root_child *c, const struct root_pods *pods,
                         struct layout_child *fact)
{
    uint64_t wake_ms = 0;
    const struct root_life_sight sight = {
        .alive = pods->ready > 0,
        .alive_ms = alive_ms(t, pods),
        .now = roots_now(t->roots),
        .takeover_s = t->pass.spec.automatic.takeover_s,
    };
    fact->has_pods = pods->all > 0;
    fact->life = root_life_look(&c->life, &sight, &wake_ms);
    if (wake_ms != 0) {
        reconcile_after(&t->run, wake_ms);
    }
}

bool root_child_settle(const struct root *t, struct root_child *c,
                       const struct shard_cache_config *config)
{
    if (c->base != 0 && !is_due(t, c, config)) {
        root_child_forget_answer(c);
    }
    return c->base == 0;
}

/* Of the canary that the cache shows; one that was written since has what was written. */
static void read_share(struct root *t, const struct shard_cache_config *config)
{
    struct root_child *c = &t->children[0];
    if (c->base == 0) {
        bool own = config != NULL && root_owns(t, config);
        cJSON_Delete(c->share);
        c->share = own ? cJSON_Duplicate(root_child_share(config->object), true) : NULL;
    }
}

/* What was written last is what it has: whatever somebody made of that since is put back; so is a
 * child that somebody deleted. Whether there is one, or is to be one again. */
static bool read_child(struct root *t, unsigned number, struct layout_child *fact)
{
    struct root_child *c = &t->children[number];
    const struct shard_cache_config *config = root_find_child(t, number);
    bool settled = root_child_settle(t, c, config);
    *fact = (struct layout_child){.number = number};
    if (config != NULL && root_owns(t, config)) {
        int rc = child_read(&t->pass.spec, config->object, t->roots->options.labels.prefix, fact);
        (void)rc; /* the name is one of its own */
        if (!c->known && settled) {
            c->known = true;
            c->buckets = fact->buckets;
            c->taken_over = fact->taken_over;
        }
    } else if (config != NULL && settled) {
        c->known = false;
    }
    fact->buckets = c->buckets;
    fact->taken_over = c->taken_over;
    return c->known;
}

static void gather_child(struct root *t, unsigned number)
{
    struct layout_child fact;
    if (!read_child(t, number, &fact)) {
        t->children[number].life.seen = false;
        return;
    }
    const struct root_pods pods = root_count_pods(t, number);
    look_at_life(t, &t->children[number], &pods, &fact);
    t->pass.facts[t->pass.fact_count++] = fact;
}

void root_gather(struct root *t)
{
    t->pass.fact_count = 0;
    for (unsigned i = 0; i < ROOT_CHILDREN_MAX; i++) {
        gather_child(t, i);
    }
    read_share(t, root_find_child(t, 0));
}

/* ---- layout ---- */

/* Whether its rules stand in its ConfigMap, as far as the controller of shards can do that now: it
 * waits for nobody who has to give something up. */
static bool has_arrived(const struct shard_cache_config *config)
{
    const cJSON *published = conditions_find(field_get(config->object, "status"), "Published");
    bool waits = strcmp(field_text(published, "status"), "False") == 0 &&
                 strcmp(field_text(published, "reason"), "WaitingForHandover") == 0;
    return !waits && conditions_observed(config->object);
}

static bool all_arrived(const struct root *t)
{
    for (unsigned i = 0; i < ROOT_CHILDREN_MAX; i++) {
        const struct root_child *c = &t->children[i];
        const struct shard_cache_config *config = c->known ? root_find_child(t, i) : NULL;
        if (c->known && (c->base != 0 || (config != NULL && !has_arrived(config)))) {
            return false;
        }
    }
    return true;
}

/* What was broken off in the middle is finished first, and what is nobody's is given. */
static bool is_urgent(const struct root_pass *p)
{
    uint32_t claimed = p->had_canary ? 0 : p->spec.canary.buckets;
    bool twice = false;
    for (size_t i = 0; i < p->fact_count; i++) {
        twice = twice || (claimed & p->facts[i].buckets) != 0;
        claimed |= p->facts[i].buckets;
    }
    return twice || claimed != UINT32_MAX;
}

/* One step at a time. The children's changes bring the root again. */
static bool must_hold(struct root *t)
{
    uint64_t ms = roots_now(t->roots) - t->moved_at;
    if (t->pass.layout.moved == 0 || ms >= HOLD_MS || is_urgent(&t->pass) || all_arrived(t)) {
        return false;
    }
    reconcile_after(&t->run, HOLD_MS - ms);
    return true;
}

static void hold(struct root *t)
{
    struct layout *l = &t->pass.layout;
    for (size_t i = 0; i < l->count; i++) {
        const struct root_child *c = &t->children[l->shards[i].number];
        l->shards[i].buckets = c->known ? c->buckets : 0;
        l->shards[i].taken_over = c->known && c->taken_over;
        l->shards[i].with_canary = l->shards[i].number != 0 && t->pass.had_canary;
    }
    l->moved = 0;
}

/* Those that have something, when it is seen first. */
static unsigned count_sharing(const struct root_pass *p)
{
    unsigned count = 0;
    for (size_t i = 0; i < p->fact_count; i++) {
        const struct layout_child *c = &p->facts[i];
        count += c->number != 0 && (c->buckets != 0 || c->taken_over);
    }
    return count;
}

void root_lay_out(struct root *t)
{
    struct root_pass *p = &t->pass;
    p->had_canary = t->children[0].known && t->children[0].taken_over;
    root_load_begin_pass(t);
    t->size = t->size != 0 ? t->size : count_sharing(p);
    const struct layout_facts facts = {
        .children = p->facts,
        .child_count = p->fact_count,
        .replicas = p->target.state == TARGET_FOUND ? p->target.replicas : -1,
        .first = p->target.state == TARGET_FOUND ? (int64_t)p->target.first : t->first,
    };
    layout_make(&p->spec, &facts, &p->layout);
    t->first = p->layout.first;
    p->held = must_hold(t);
    if (p->held) {
        hold(t);
    } else {
        root_load_move(t);
    }
}

/* ---- what is to go ---- */

static bool is_in_layout(const struct layout *l, unsigned number)
{
    for (size_t i = 0; i < l->count; i++) {
        if (l->shards[i].number == number) {
            return true;
        }
    }
    return false;
}

static void add_removal(struct root_pass *p, const struct shard_cache_config *config,
                        unsigned number)
{
    p->removals = xrealloc(p->removals, (p->removal_count + 1) * sizeof *p->removals);
    p->removals[p->removal_count++] = (struct root_removal){.number = number,
                                                            .name = xstrdup(config->name),
                                                            .uid = xstrdup(config->uid),
                                                            .version = xstrdup(config->version)};
}

/* One that the cache shows as it is, and that holds no buckets any more. */
static bool is_to_go(struct root *t, unsigned number)
{
    const struct root_child *c = &t->children[number];
    return c->known && c->base == 0 && !is_in_layout(&t->pass.layout, number);
}

static void consider(struct root *t, const struct shard_cache_config *config)
{
    int number = child_number(&t->pass.spec, config->name);
    if (number < 0) {
        add_removal(&t->pass, config, ROOT_CHILDREN_MAX);
    } else if (is_to_go(t, (unsigned)number)) {
        add_removal(&t->pass, config, (unsigned)number);
    }
}

void root_find_removals(struct root *t)
{
    char ns[ROOT_NS_SIZE];
    const struct shard_cache_config *c = NULL;
    (void)root_namespace(t, ns);
    while ((c = shard_cache_next_config_in(t->roots->options.cache, ns, c)) != NULL) {
        if (root_owns(t, c)) {
            consider(t, c);
        }
    }
    for (unsigned i = 0; i < ROOT_CHILDREN_MAX; i++) {
        if (is_to_go(t, i) && root_find_child(t, i) == NULL) {
            root_child_forget(&t->children[i]); /* somebody did it */
        }
    }
}
