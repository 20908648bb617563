/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First it is found who has which bucket now, and which shards may have some; then buckets are
 * spread over those, and the rest follows.
 */
#include "root/layout.h"

#include <limits.h>
#include <string.h>

struct planning {
    const struct root_spec *spec;
    const struct layout_facts *facts;
    unsigned size;
    unsigned every;
    unsigned first;                       /* ordinal of all */
    uint32_t claims[ROOT_SHARDS_MAX + 1]; /* of the children */
    struct buckets before;
    bool canary_taken; /* its share is that of the normal shards */
    uint32_t spread;   /* all that are not the canary's */
    uint32_t eligible; /* bit i - 1: shard i */
    bool some_work;    /* of those that are eligible, while buckets are somebody's */
    bool fresh;
};

static uint32_t shard_bit(unsigned shard)
{
    return (uint32_t)1 << (shard - 1);
}

static const struct layout_child *find_child(const struct layout_facts *f, unsigned number)
{
    for (size_t i = 0; i < f->child_count; i++) {
        if (f->children[i].number == number) {
            return &f->children[i];
        }
    }
    return NULL;
}

static enum layout_life life_of(const struct planning *p, unsigned number)
{
    const struct layout_child *child = find_child(p->facts, number);
    return child == NULL ? LAYOUT_UNKNOWN : child->life;
}

static bool is_alive(const struct planning *p, unsigned number)
{
    enum layout_life life = life_of(p, number);
    return life == LAYOUT_ALIVE || life == LAYOUT_LONG_ALIVE;
}

static bool is_dead(const struct planning *p, unsigned number)
{
    enum layout_life life = life_of(p, number);
    return life == LAYOUT_DEAD || life == LAYOUT_LONG_DEAD;
}

/* ---- how many ---- */

static unsigned clamp(unsigned value, unsigned min, unsigned max)
{
    unsigned most = value > max ? max : value;
    return most < min ? min : most;
}

/* The last shard that has buckets, or would if it lived; without any, the last one. */
static unsigned size_there_is(const struct layout_facts *f)
{
    unsigned sharing = 0;
    unsigned last = 0;
    for (size_t i = 0; i < f->child_count; i++) {
        const struct layout_child *child = &f->children[i];
        unsigned number = child->number <= ROOT_SHARDS_MAX ? child->number : 0;
        bool shares = child->buckets != 0 || child->taken_over;
        last = number > last ? number : last;
        sharing = shares && number > sharing ? number : sharing;
    }
    return clamp(sharing != 0 ? sharing : last, 1, ROOT_SHARDS_MAX);
}

/* Pods that the canary leaves. */
static unsigned pods_left(const struct planning *p)
{
    unsigned replicas = (unsigned)p->facts->replicas;
    unsigned canary = p->spec->canary.replicas;
    return replicas > canary ? replicas - canary : 0;
}

/* The last shard of a StatefulSet may have fewer pods than the others: else those that are left
 * over, while an autoscaler says so, would be in no shard. Those of a Deployment go to the shards
 * that there are. */
static unsigned find_size(const struct planning *p)
{
    const struct root_auto *a = &p->spec->automatic;
    if (!a->there) {
        return 1;
    }
    if (a->size != 0) {
        return clamp(a->size, 1, ROOT_SHARDS_MAX);
    }
    unsigned rounding = p->spec->deployment ? 0 : a->every - 1;
    return p->facts->replicas < 0 ? size_there_is(p->facts)
                                  : clamp((pods_left(p) + rounding) / a->every, 1, ROOT_SHARDS_MAX);
}

static unsigned find_every(const struct planning *p)
{
    const struct layout_child *first = find_child(p->facts, 1);
    if (p->spec->automatic.there) {
        return p->spec->automatic.every;
    }
    unsigned pods = first == NULL ? 0 : first->pods;
    return clamp(p->facts->replicas < 0 ? pods : pods_left(p), 1, ROOT_REPLICAS_MAX);
}

/* The lowest ordinal that a child has, as long as the StatefulSet does not tell. A canary that
 * could not be made may lack below it. */
static unsigned find_first(const struct planning *p)
{
    const struct layout_facts *f = p->facts;
    unsigned lowest = UINT32_MAX;
    if (f->first >= 0) {
        return (unsigned)f->first;
    }
    for (size_t i = 0; i < f->child_count; i++) {
        const struct layout_child *child = &f->children[i];
        lowest = child->pods != 0 && child->first < lowest ? child->first : lowest;
    }
    bool lacks = find_child(f, 0) == NULL && lowest == p->spec->canary.replicas;
    return lacks || lowest == UINT32_MAX ? 0 : lowest;
}

/* ---- who has what ---- */

/* Whether the first of two that claim a bucket is the one that it belongs to. */
static bool has_better_claim(const struct planning *p, unsigned a, unsigned b)
{
    unsigned mine = (unsigned)__builtin_popcount(p->claims[a]);
    unsigned theirs = (unsigned)__builtin_popcount(p->claims[b]);
    return mine != theirs ? mine < theirs : a > b;
}

static unsigned find_owner(const struct planning *p, unsigned bucket)
{
    unsigned owner = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        bool claims = (p->claims[i] >> bucket & 1) != 0;
        if (claims && (owner == 0 || has_better_claim(p, i, owner))) {
            owner = i;
        }
    }
    return owner;
}

static void find_owners(struct planning *p)
{
    for (size_t i = 0; i < p->facts->child_count; i++) {
        const struct layout_child *child = &p->facts->children[i];
        if (child->number >= 1 && child->number <= ROOT_SHARDS_MAX) {
            p->claims[child->number] = child->buckets;
        }
    }
    p->fresh = true;
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        unsigned owner = find_owner(p, i);
        p->before.owner[i] = (uint8_t)owner;
        p->fresh = p->fresh && owner == 0;
    }
}

/* ---- who may have some ---- */

static uint32_t all_shards(const struct planning *p)
{
    return p->size == ROOT_SHARDS_MAX ? UINT32_MAX : ((uint32_t)1 << p->size) - 1;
}

static bool is_taken_over(const struct planning *p, unsigned number)
{
    const struct layout_child *child = find_child(p->facts, number);
    return p->spec->automatic.takeover_s != 0 && child != NULL && child->taken_over;
}

/* What has buckets keeps some. Others must show that they work first. */
static bool may_have_some(const struct planning *p, unsigned number)
{
    if (is_taken_over(p, number)) {
        return life_of(p, number) == LAYOUT_LONG_ALIVE;
    }
    return p->claims[number] != 0 || is_alive(p, number);
}

/* Shards above the size that work. */
static uint32_t find_substitutes(const struct planning *p)
{
    uint32_t found = 0;
    for (unsigned i = p->size + 1; i <= ROOT_SHARDS_MAX; i++) {
        const struct layout_child *child = find_child(p->facts, i);
        if (child != NULL && child->has_pods && p->claims[i] != 0 && !is_dead(p, i)) {
            found |= shard_bit(i);
        }
    }
    return found;
}

/* Those of `shards` of which it is so. */
static uint32_t choose(const struct planning *p, uint32_t shards,
                       bool (*is)(const struct planning *p, unsigned number))
{
    uint32_t chosen = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        chosen |= (shards & shard_bit(i)) != 0 && is(p, i) ? shard_bit(i) : 0;
    }
    return chosen;
}

static bool is_long_dead(const struct planning *p, unsigned number)
{
    return life_of(p, number) == LAYOUT_LONG_DEAD;
}

static void find_eligible(struct planning *p)
{
    uint32_t all = all_shards(p);
    uint32_t chosen = p->fresh ? 0 : choose(p, all, may_have_some);
    if (p->spec->automatic.takeover_s != 0 && choose(p, chosen, is_alive) != 0) {
        chosen &= ~choose(p, chosen, is_long_dead);
    }
    if (!p->fresh && (chosen & ~choose(p, chosen, is_dead)) == 0) {
        chosen |= find_substitutes(p);
    }
    p->some_work = (chosen & ~choose(p, chosen, is_dead)) != 0;
    p->eligible = chosen == 0 ? all : chosen;
}

/* Whether the canary is taken over, as a normal shard would be: one of those must live. */
static bool takes_canary(const struct planning *p)
{
    const struct layout_child *child = find_child(p->facts, 0);
    if (p->spec->automatic.takeover_s == 0 || p->spec->canary.replicas == 0 || child == NULL) {
        return false;
    }
    if (child->taken_over) {
        return child->life != LAYOUT_LONG_ALIVE;
    }
    return child->life == LAYOUT_LONG_DEAD && choose(p, p->eligible, is_alive) != 0;
}

/* Normal shards that have no bucket because the canary has all are not new: they get some when
 * they live. */
static void find_takers(struct planning *p)
{
    find_eligible(p);
    p->canary_taken = takes_canary(p);
    if (p->canary_taken && p->fresh) {
        p->fresh = false;
        find_eligible(p);
    }
    p->spread = p->canary_taken ? UINT32_MAX : ~p->spec->canary.buckets;
}

/* ---- the spread ---- */

/* Nobody's buckets go to who has fewest; all others stay. */
static void fill(const struct planning *p, uint32_t eligible, struct buckets *b)
{
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        unsigned fewest = 0;
        unsigned count = SHARDING_HASH_SIZE + 1;
        for (unsigned s = 1; s <= ROOT_SHARDS_MAX; s++) {
            unsigned has = (unsigned)__builtin_popcount(buckets_of(b, s));
            if ((eligible & shard_bit(s)) != 0 && has < count) {
                fewest = s;
                count = has;
            }
        }
        if ((p->spread >> i & 1) == 0) {
            b->owner[i] = 0;
        } else if (b->owner[i] == 0) {
            b->owner[i] = (uint8_t)fewest;
        }
    }
}

/* Whether the shards that have buckets are those that are to have some. */
static bool same_shards(const struct planning *p)
{
    uint32_t having = 0;
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        unsigned owner = p->before.owner[i];
        bool spread = (p->spread >> i & 1) != 0;
        having |= owner != 0 && spread ? shard_bit(owner) : 0;
    }
    return having == p->eligible;
}

/* A dead shard that would get more than it has keeps what it has, while others work. Without it
 * the others share what is left; and so on, for they may be dead too. */
static uint32_t find_keeping(const struct planning *p, const struct buckets *b, uint32_t sharing)
{
    uint32_t keeping = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        bool gains = (buckets_of(b, i) & ~buckets_of(&p->before, i)) != 0;
        keeping |= (sharing & shard_bit(i)) != 0 && gains && is_dead(p, i) ? shard_bit(i) : 0;
    }
    return keeping;
}

static void keep(const struct planning *p, uint32_t keeping, struct buckets *b)
{
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        unsigned owner = p->before.owner[i];
        if (owner != 0 && (keeping & shard_bit(owner)) != 0 && (p->spread >> i & 1) != 0) {
            b->owner[i] = (uint8_t)owner;
        }
    }
}

static uint32_t owned_by(const struct planning *p, uint32_t shards)
{
    uint32_t buckets = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        buckets |= (shards & shard_bit(i)) != 0 ? buckets_of(&p->before, i) : 0;
    }
    return buckets;
}

static void balance(const struct planning *p, struct buckets *b)
{
    uint32_t keeping = 0;
    uint32_t more = 0;
    do {
        keeping |= more;
        *b = p->before;
        buckets_balance(b, p->spread & ~owned_by(p, keeping), p->eligible & ~keeping);
        keep(p, keeping, b);
        more = p->some_work ? find_keeping(p, b, p->eligible & ~keeping) : 0;
    } while (more != 0);
}

static void spread(const struct planning *p, struct buckets *b)
{
    if (p->spec->automatic.moves_per_hour != 0 && same_shards(p)) {
        uint32_t dead = p->some_work ? choose(p, p->eligible, is_dead) : 0;
        *b = p->before;
        fill(p, p->eligible & ~dead, b);
    } else {
        balance(p, b);
    }
}

/* ---- the result ---- */

static struct layout_shard *append(struct layout *out, unsigned number)
{
    struct layout_shard *shard = &out->shards[out->count++];
    shard->number = number;
    return shard;
}

/* Its pods are those of other shards when it is not to be any more. */
static void add_canary(const struct planning *p, struct layout *out)
{
    const struct layout_child *child = find_child(p->facts, 0);
    unsigned replicas = p->spec->canary.replicas;
    if (replicas != 0 || (child != NULL && child->has_pods)) {
        struct layout_shard *shard = append(out, 0);
        shard->first = p->first;
        shard->pods = replicas;
        shard->leaving = replicas == 0;
        shard->taken_over = p->canary_taken;
        out->changed = child != NULL && child->taken_over != shard->taken_over;
    }
}

/* Of a Deployment all pods are some shard's: those that are left over are spread, and where there
 * are fewer than the shards are made for, all have fewer. */
static unsigned pods_of(const struct planning *p, unsigned number)
{
    if (!p->spec->deployment || p->facts->replicas < 0 || number > p->size) {
        return p->every;
    }
    unsigned left = pods_left(p);
    return clamp(left / p->size + (number <= left % p->size), 1, ROOT_REPLICAS_MAX);
}

static void add_normal(const struct planning *p, const struct buckets *b, unsigned number,
                       struct layout *out)
{
    const struct layout_child *child = find_child(p->facts, number);
    uint32_t buckets = buckets_of(b, number);
    out->changed = out->changed || buckets != p->claims[number];
    if (number > p->size && (child == NULL || !child->has_pods)) {
        return;
    }
    struct layout_shard *shard = append(out, number);
    shard->first = p->first + p->spec->canary.replicas + p->every * (number - 1);
    shard->pods = pods_of(p, number);
    shard->buckets = buckets;
    shard->with_canary = p->canary_taken;
    shard->leaving = number > p->size;
    shard->taken_over = number <= p->size && (p->eligible & shard_bit(number)) == 0 &&
                        (is_taken_over(p, number) ||
                         (p->spec->automatic.takeover_s != 0 && p->claims[number] != 0));
}

/* Of pods, by what the canary and the normal shards are to have. */
static void bound_pods(const struct planning *p, struct layout *out)
{
    unsigned canary = p->spec->canary.replicas;
    bool elastic = !p->spec->automatic.there || p->spec->automatic.size == 0;
    unsigned whole = canary + p->size * p->every;
    unsigned least = canary + (p->size - 1) * p->every + 1;
    if (p->spec->deployment) {
        out->room = UINT_MAX;
        out->needed = elastic ? canary + 1 : whole;
        return;
    }
    out->room = whole;
    out->needed = elastic ? least : whole;
}

void layout_make(const struct root_spec *spec, const struct layout_facts *facts, struct layout *out)
{
    struct planning p = {.spec = spec, .facts = facts};
    struct buckets after;
    *out = (struct layout){.count = 0};
    p.size = find_size(&p);
    p.every = find_every(&p);
    p.first = find_first(&p);
    find_owners(&p);
    find_takers(&p);
    spread(&p, &after);
    add_canary(&p, out);
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        add_normal(&p, &after, i, out);
    }
    out->size = p.size;
    out->first = p.first;
    bound_pods(&p, out);
    out->moved = buckets_moved(&p.before, &after);
    out->fresh = p.fresh;
}
