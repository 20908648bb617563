/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All memory is had at once, so that nothing can fail later. It is a zeroed half megabyte of which
 * only what is used is ever touched.
 *
 * In a file it must be right at any moment, since a process may end at any: what is written in one
 * go is right by itself, everything else stands between begin_change() and end_change().
 */
#include "upstream/delivered_versions.h"

#include <assert.h>
#include <stdlib.h>

#include "upstream/delivered_verdict.h"
#include "upstream/delivered_versions_internal.h"

/* Before the first refusal of those that listed in vain; then twice as long, up to the second. */
#define PAUSE_MS UINT64_C(500)
#define PAUSE_MAX_MS UINT64_C(5000)
/* When a client that was refused has listed again: client-go backs off for up to a minute. */
#define LISTS_WITHIN_MS UINT64_C(120000)

/* Until end_change(), what a file holds is not whole. */
static void begin_change(struct delivered_versions *r)
{
    atomic_store_explicit(&r->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static void end_change(struct delivered_versions *r)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&r->busy, 0, memory_order_relaxed);
}

void delivered_init(struct delivered_versions *r, uint64_t doubt_ms)
{
    r->doubt_ms = doubt_ms;
    list_init(&r->points);
    list_init(&r->resources);
}

struct delivered_versions *delivered_new(uint64_t doubt_ms)
{
    struct delivered_versions *r = calloc(1, sizeof *r);
    if (r != NULL) {
        delivered_init(r, doubt_ms);
        r->writes = PENDING_UNKNOWN;
    }
    return r;
}

void delivered_free(struct delivered_versions *r)
{
    if (r != NULL && r->file != NULL) {
        delivered_file_close(r);
    } else {
        free(r);
    }
}

struct pending_record *delivered_writes(struct delivered_versions *r)
{
    return &r->writes;
}

/* Fibonacci hashing. */
static size_t bucket_of(uint64_t hash, unsigned log2)
{
    return (size_t)(hash * 0x9e3779b97f4a7c15u >> (64 - log2));
}

static void move_to_front(struct list *head, struct list *node)
{
    list_remove(node);
    list_prepend(head, node);
}

/*
 * Resources and their ceilings.
 */

static struct resource **resource_bucket(struct delivered_versions *r, uint64_t id)
{
    return &r->resource_buckets[bucket_of(id, DELIVERED_RESOURCE_BUCKETS_LOG2)];
}

static struct resource *find_resource(struct delivered_versions *r, uint64_t id)
{
    /* Events mostly come in runs. */
    struct resource *last = LIST_ITEM(r->resources.next, struct resource, node);
    if (!list_empty(&r->resources) && last->id == id) {
        return last;
    }
    struct resource *x = *resource_bucket(r, id);
    while (x != NULL && x->id != id) {
        x = x->next;
    }
    if (x != NULL) {
        move_to_front(&r->resources, &x->node);
    }
    return x;
}

static void raise_to(uint64_t *highest, uint64_t version)
{
    if (version > *highest) {
        *highest = version;
    }
}

/* A selector that is new here takes the place of the one that was seen least far: two others were
 * seen at least as far, so that no ceiling sinks below a version that it knew. */
static_assert(DELIVERED_SELECTORS_MAX >= 3, "one may be left out of a ceiling, one replaced");
static void raise_highest(struct resource *x, uint64_t selector, uint64_t version)
{
    struct seen *lowest = &x->seen[0];
    for (size_t i = 0; i < DELIVERED_SELECTORS_MAX; i++) {
        struct seen *s = &x->seen[i];
        if (s->selector == selector) {
            raise_to(&s->highest, version);
            return;
        }
        lowest = s->highest < lowest->highest ? s : lowest;
    }
    *lowest = (struct seen){.selector = selector, .highest = version};
}

static void note_unread(struct resource *x, uint64_t selector)
{
    x->unread = x->has_unread && x->unread != selector ? DELIVERED_MIXED : selector;
    x->has_unread = true;
}

/* Of those that were seen, whatever could not be read. */
static uint64_t highest_seen(const struct resource *x)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < DELIVERED_SELECTORS_MAX; i++) {
        raise_to(&highest, x->seen[i].highest);
    }
    return highest;
}

/* No version above it was given out. `x` NULL: nothing is remembered of the resource. */
static uint64_t bound(const struct delivered_versions *r, const struct resource *x)
{
    if (x == NULL) {
        return r->lost_unread ? UINT64_MAX : r->lost_highest;
    }
    return x->has_unread ? UINT64_MAX : highest_seen(x);
}

/* What was given out of it was so under whatever selector. */
static struct resource *forget_resource(struct delivered_versions *r)
{
    struct resource *x = LIST_ITEM(r->resources.prev, struct resource, node);
    raise_to(&r->lost_highest, highest_seen(x));
    raise_to(&r->lost_forgotten, x->forgotten);
    r->lost_unread = r->lost_unread || x->has_unread;
    struct resource **at = resource_bucket(r, x->id);
    while (*at != x) {
        at = &(*at)->next;
    }
    *at = x->next;
    list_remove(&x->node);
    return x;
}

/* Of a resource that nothing is remembered of. */
static uint64_t unknown_floor(const struct delivered_versions *r)
{
    return r->all_known ? 0 : UINT64_MAX;
}

static uint64_t floor_of(const struct delivered_versions *r, const struct resource *x)
{
    return x != NULL ? x->floor : unknown_floor(r);
}

static struct resource *ensure_resource(struct delivered_versions *r, uint64_t id)
{
    struct resource *x = find_resource(r, id);
    if (x != NULL) {
        return x;
    }
    x = r->resource_count < DELIVERED_RESOURCES_MAX ? &r->resource_pool[r->resource_count++]
                                                    : forget_resource(r);
    struct resource **bucket = resource_bucket(r, id);
    *x = (struct resource){
        .id = id, .next = *bucket, .floor = unknown_floor(r), .forgotten = r->lost_forgotten};
    raise_highest(x, DELIVERED_MIXED, r->lost_highest);
    if (r->lost_unread) {
        note_unread(x, DELIVERED_MIXED);
    }
    *bucket = x;
    list_prepend(&r->resources, &x->node);
    return x;
}

/* `version` is the newest that there was, under `selector`: what came under others is not above it.
 * Whether `selector` is among several is not known. */
static void bound_unread(struct resource *x, uint64_t selector, uint64_t version)
{
    if (!x->has_unread || x->unread == selector) {
        return;
    }
    raise_highest(x, x->unread, version);
    x->has_unread = x->unread == DELIVERED_MIXED;
    x->unread = selector;
}

static uint64_t ceiling(const struct delivered_versions *r, const struct resource *x,
                        uint64_t selector)
{
    if (x == NULL) {
        return bound(r, x);
    }
    uint64_t highest = x->has_unread && x->unread != selector ? UINT64_MAX : 0;
    for (size_t i = 0; i < DELIVERED_SELECTORS_MAX; i++) {
        if (x->seen[i].selector != selector) {
            raise_to(&highest, x->seen[i].highest);
        }
    }
    return highest;
}

/*
 * Points.
 */

static struct point **point_bucket(struct delivered_versions *r, const struct delivered_key *key)
{
    uint64_t hash = key->resource * 0xff51afd7ed558ccdu + key->view;
    return &r->point_buckets[bucket_of(hash, DELIVERED_POINT_BUCKETS_LOG2)];
}

static bool same_view(const struct point *p, const struct delivered_key *key, enum point_kind kind)
{
    return p->key.view == key->view && p->key.resource == key->resource && p->kind == kind;
}

static uint64_t range_width(const struct point *p)
{
    return p->range.to - p->range.from;
}

static bool is_any(struct delivered_range range)
{
    return range.from == 0 && range.to == UINT64_MAX;
}

static void unlink_point(struct delivered_versions *r, struct point *p)
{
    struct point **at = point_bucket(r, &p->key);
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    list_remove(&p->node);
}

/* As long as it is doubted that a client has read a 410. */
static bool is_recent(const struct delivered_versions *r, const struct point *cut)
{
    return r->now_ms - cut->since_ms < r->doubt_ms;
}

static void drop_point(struct delivered_versions *r, struct point *p)
{
    unlink_point(r, p);
    p->count = 0;
    p->next = r->spare;
    r->spare = p;
}

/* Whoever has it may still come: so all of the resource up to it is as good as stale. If the
 * resource was forgotten before, it may be any that is not remembered. */
static void forget_point(struct delivered_versions *r, struct point *p)
{
    struct resource *x = find_resource(r, p->key.resource);
    unlink_point(r, p);
    if (p->kind == POINT_VERSION || (p->kind == POINT_CUT && is_recent(r, p))) {
        raise_to(x != NULL ? &x->forgotten : &r->lost_forgotten,
                 is_any(p->range) ? bound(r, x) : p->range.to);
    }
}

static struct point *unused_point(struct delivered_versions *r)
{
    struct point *p = r->spare;
    if (p != NULL) {
        r->spare = p->next;
        return p;
    }
    if (r->point_count < DELIVERED_POINTS_MAX) {
        return &r->point_pool[r->point_count++];
    }
    p = LIST_ITEM(r->points.prev, struct point, node);
    forget_point(r, p);
    return p;
}

static struct point *find_point(struct delivered_versions *r, const struct delivered_key *key,
                                enum point_kind kind, struct delivered_range range)
{
    struct point *p = *point_bucket(r, key);
    while (p != NULL && !(same_view(p, key, kind) && p->key.selector == key->selector &&
                          p->range.from == range.from && p->range.to == range.to)) {
        p = p->next;
    }
    return p;
}

static void add_point(struct delivered_versions *r, const struct delivered_key *key,
                      enum point_kind kind, struct delivered_range range)
{
    struct point *p = find_point(r, key, kind, range);
    if (p != NULL) {
        p->count++;
        move_to_front(&r->points, &p->node);
        return;
    }
    p = unused_point(r); /* before the bucket is read: may change it */
    struct point **bucket = point_bucket(r, key);
    *p = (struct point){.next = *bucket, .key = *key, .kind = kind, .count = 1, .range = range};
    *bucket = p;
    list_prepend(&r->points, &p->node);
}

static void add_point_now(struct delivered_versions *r, const struct delivered_key *key,
                          enum point_kind kind, struct delivered_range range)
{
    add_point(r, key, kind, range);
    find_point(r, key, kind, range)->since_ms = r->now_ms;
}

static bool holds(const struct point *p, uint64_t number)
{
    return p->range.from <= number && number <= p->range.to;
}

/* The narrowest points that hold a number; NULL: none. */
struct match {
    struct point *fresh;
    struct point *stale;
};

static struct match match_points(struct delivered_versions *r, const struct delivered_key *key,
                                 enum point_kind kind, uint64_t number)
{
    struct match m = {.fresh = NULL};
    for (struct point *p = *point_bucket(r, key); p != NULL; p = p->next) {
        bool over = kind == POINT_CUT && !is_recent(r, p);
        if (same_view(p, key, kind) && holds(p, number) && !over) {
            struct point **best = p->key.selector == key->selector ? &m.fresh : &m.stale;
            *best = *best == NULL || range_width(p) < range_width(*best) ? p : *best;
        }
    }
    return m;
}

/* A watch goes on from `version`, which has an account: one of the points that hold it was its
 * client's. Which one is not known, so what the others are about may be what this one was. */
static void take_point(struct delivered_versions *r, struct point *taken, uint64_t version)
{
    for (struct point *p = *point_bucket(r, &taken->key); p != NULL; p = p->next) {
        if (same_view(p, &taken->key, POINT_VERSION) && p->key.selector == taken->key.selector &&
            holds(p, version)) {
            p->range = delivered_join(p->range, taken->range);
        }
    }
    if (--taken->count == 0) {
        drop_point(r, taken);
    }
}

/* Whether it was refused already, long enough ago. */
static bool refused_before(struct delivered_versions *r, const struct delivered_key *key,
                           enum point_kind kind, uint64_t number)
{
    struct delivered_range range = {.from = number, .to = number};
    struct point *mark = find_point(r, key, kind, range);
    if (mark == NULL) {
        add_point_now(r, key, kind, range);
        return false;
    }
    return r->now_ms - mark->since_ms >= r->doubt_ms;
}

/* Of the view, under other selectors. */
static void drop_doubts(struct delivered_versions *r, const struct delivered_key *key,
                        enum point_kind kind)
{
    for (struct point *p = *point_bucket(r, key), *next; p != NULL; p = next) {
        next = p->next;
        if (same_view(p, key, kind) && p->key.selector != key->selector) {
            drop_point(r, p);
        }
    }
}

void delivered_clock(struct delivered_versions *r, uint64_t now_ms)
{
    r->now_ms = now_ms;
    if (r->began_ms == 0) {
        r->began_ms = now_ms;
    }
}

/* Versions that could not be read have no end, until delivered_newest. Those that are no numbers
 * never have one: all of the view are doubted anew. */
static void give_versions(struct delivered_versions *r, const struct delivered_key *key,
                          struct delivered_range range)
{
    add_point(r, key, POINT_VERSION, range);
    if (is_any(range)) {
        note_unread(ensure_resource(r, key->resource), key->selector);
        drop_doubts(r, key, POINT_VERSION_REFUSED);
    } else {
        raise_highest(ensure_resource(r, key->resource), key->selector, range.to);
    }
}

void delivered_give(struct delivered_versions *r, const struct delivered_key *key,
                    struct delivered_range range)
{
    begin_change(r);
    give_versions(r, key, range);
    end_change(r);
}

/* One that may have been in the API server's memory before this process is good for its client as
 * one version of many is: others may have that very one, however much has changed since. */
void delivered_give_list(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t version, bool newest)
{
    struct delivered_range range = {.from = version, .to = version};
    begin_change(r);
    if (!newest && version <= ensure_resource(r, key->resource)->floor) {
        range.from--;
    }
    give_versions(r, key, range);
    end_change(r);
}

static void lower_to(uint64_t *bound, uint64_t version)
{
    if (version != 0 && version < *bound) {
        *bound = version;
    }
}

void delivered_newest(struct delivered_versions *r, const struct delivered_key *key,
                      uint64_t version)
{
    begin_change(r);
    struct resource *x = ensure_resource(r, key->resource);
    lower_to(&x->floor, version);
    lower_to(&x->forgotten, version);
    bound_unread(x, key->selector, version);
    end_change(r);
}

void delivered_started(struct delivered_versions *r, uint64_t resource, uint64_t version)
{
    begin_change(r);
    lower_to(&ensure_resource(r, resource)->floor, version);
    end_change(r);
}

void delivered_saw(struct delivered_versions *r, const struct delivered_key *key, uint64_t version)
{
    begin_change(r);
    raise_highest(ensure_resource(r, key->resource), key->selector, version);
    end_change(r);
}

static void tell_to_list(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t version)
{
    struct delivered_range range = {.from = version, .to = version};
    add_point_now(r, key, POINT_TOLD_TO_LIST, range);
}

static enum delivered_fresh freshness(const struct point *fresh)
{
    if (fresh == NULL) {
        return DELIVERED_NOT_FRESH;
    }
    return range_width(fresh) == 0 ? DELIVERED_LISTED : DELIVERED_WITHIN;
}

/* Of a view; *fresh is the narrowest fresh point that holds the version, or NULL. */
static struct delivered_facts facts_of(struct delivered_versions *r,
                                       const struct delivered_key *key, uint64_t version,
                                       struct point **fresh)
{
    const struct resource *x = find_resource(r, key->resource);
    struct match m = match_points(r, key, POINT_VERSION, version);
    *fresh = m.fresh;
    return (struct delivered_facts){
        .others = ceiling(r, x, key->selector),
        .floor = floor_of(r, x),
        .forgotten = x != NULL ? x->forgotten : r->lost_forgotten,
        .stale = m.stale != NULL,
        .cut = match_points(r, key, POINT_CUT, version).stale != NULL,
        .fresh = freshness(m.fresh),
    };
}

static bool may_watch(struct delivered_versions *r, const struct delivered_key *key,
                      uint64_t version)
{
    struct point *fresh;
    struct delivered_facts facts = facts_of(r, key, version, &fresh);
    switch (delivered_judge(&facts, version)) {
    case DELIVERED_SERVE:
        /* What could not be read need not be this client's, if others could come as well; nor need
         * any, if this one may not have read that the rules have changed, and have changed back. */
        if (fresh != NULL && match_points(r, key, POINT_CUT, version).fresh == NULL &&
            !(version > facts.others && is_any(fresh->range))) {
            take_point(r, fresh, version);
        }
        return true;
    case DELIVERED_STALE:
        tell_to_list(r, key, version);
        return version == DELIVERED_OPAQUE &&
               refused_before(r, key, POINT_VERSION_REFUSED, version);
    case DELIVERED_DOUBT:
        break;
    }
    if (fresh != NULL) {
        tell_to_list(r, key, version); /* it did so in vain */
    }
    return refused_before(r, key, POINT_VERSION_REFUSED, version);
}

bool delivered_is_doubted(struct delivered_versions *r, const struct delivered_key *key,
                          uint64_t version)
{
    struct point *fresh;
    struct delivered_facts facts = facts_of(r, key, version, &fresh);
    if (delivered_judge(&facts, version) == DELIVERED_SERVE) {
        return false;
    }
    facts.floor = 0;
    return delivered_judge(&facts, version) == DELIVERED_SERVE;
}

bool delivered_past_is_known(const struct delivered_versions *r)
{
    return r->all_known;
}

bool delivered_watch(struct delivered_versions *r, const struct delivered_key *key,
                     uint64_t version)
{
    begin_change(r);
    bool may = may_watch(r, key, version);
    end_change(r);
    return may;
}

uint64_t delivered_pause(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t version)
{
    struct delivered_range range = {.from = version, .to = version};
    const struct point *told = find_point(r, key, POINT_TOLD_TO_LIST, range);
    if (told == NULL || match_points(r, key, POINT_VERSION, version).fresh == NULL) {
        return 0;
    }
    return told->count > 4 ? PAUSE_MAX_MS : PAUSE_MS << (told->count - 1);
}

/* Whoever comes back after a start has done so. */
static bool is_settled(const struct delivered_versions *r)
{
    uint64_t within_ms = r->doubt_ms < LISTS_WITHIN_MS ? r->doubt_ms : LISTS_WITHIN_MS;
    return r->now_ms - r->began_ms >= within_ms;
}

/* Of one from the API server's memory somebody may have had the version before this process. */
static bool proves_nothing(const struct delivered_versions *r, const struct resource *x)
{
    uint64_t floor = floor_of(r, x);
    return floor == UINT64_MAX || (floor > 0 && !is_settled(r));
}

/* What the API server has in memory mostly is the last that was seen of a resource. */
static bool would_be_refused(struct delivered_versions *r, const struct delivered_key *key,
                             uint64_t version)
{
    struct point *fresh;
    struct delivered_facts facts = facts_of(r, key, version, &fresh);
    facts.floor = 0; /* that is proves_nothing */
    facts.fresh = DELIVERED_LISTED;
    return delivered_judge(&facts, version) != DELIVERED_SERVE;
}

static bool was_told_to_list(struct delivered_versions *r, const struct delivered_key *key)
{
    for (const struct point *p = *point_bucket(r, key); p != NULL; p = p->next) {
        if (same_view(p, key, POINT_TOLD_TO_LIST) && p->key.selector == key->selector &&
            r->now_ms - p->since_ms <= LISTS_WITHIN_MS) {
            return true;
        }
    }
    return false;
}

bool delivered_list_newest(struct delivered_versions *r, const struct delivered_key *key)
{
    const struct resource *x = find_resource(r, key->resource);
    uint64_t highest = x != NULL ? highest_seen(x) : 0;
    return (r->doubt_ms > 0 && proves_nothing(r, x)) || was_told_to_list(r, key) ||
           (highest != 0 && would_be_refused(r, key, highest));
}

/* Tokens that could not be learnt are 0. */
static struct delivered_range token_range(uint64_t token)
{
    return token == 0 ? DELIVERED_ANY : (struct delivered_range){.from = token, .to = token};
}

void delivered_give_page(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t token)
{
    begin_change(r);
    add_point(r, key, POINT_PAGE, token_range(token));
    if (token == 0) {
        drop_doubts(r, key, POINT_PAGE_REFUSED);
    }
    end_change(r);
}

/* A fresh token that is known goes before a stale one that is not. */
static bool may_page(struct delivered_versions *r, const struct delivered_key *key, uint64_t token)
{
    struct match m = match_points(r, key, POINT_PAGE, token);
    if (m.stale != NULL && !is_any(m.stale->range)) {
        return false;
    }
    if (m.fresh != NULL && (m.stale == NULL || !is_any(m.fresh->range))) {
        move_to_front(&r->points, &m.fresh->node);
        return true;
    }
    return refused_before(r, key, POINT_PAGE_REFUSED, token);
}

bool delivered_page(struct delivered_versions *r, const struct delivered_key *key, uint64_t token)
{
    begin_change(r);
    bool may = may_page(r, key, token);
    end_change(r);
    return may;
}

/*
 * Accounts.
 */

static bool is_nothing(struct delivered_range range)
{
    return range.from > range.to;
}

static bool in_pool(const struct delivered_versions *r, const struct delivered_account *a)
{
    return a >= r->account_pool && a < r->account_pool + DELIVERED_ACCOUNTS_MAX;
}

static struct delivered_account *unused_account(struct delivered_versions *r)
{
    struct delivered_account *a = r->spare_account;
    if (a != NULL) {
        r->spare_account = a->next;
        return a;
    }
    if (r->account_count < DELIVERED_ACCOUNTS_MAX) {
        return &r->account_pool[r->account_count++];
    }
    a = malloc(sizeof *a);
    r->accounts_elsewhere += a != NULL ? 1 : 0;
    return a;
}

struct delivered_account *delivered_account_open(struct delivered_versions *r,
                                                 const struct delivered_key *key, uint64_t from)
{
    begin_change(r);
    struct delivered_account *a = unused_account(r);
    if (a != NULL) {
        *a = (struct delivered_account){
            .key = *key,
            .delivered =
                from == 0 ? DELIVERED_NOTHING : (struct delivered_range){.from = from, .to = from},
            .mixed = DELIVERED_NOTHING,
            .synced = 1,
            .open = 1,
        };
    }
    end_change(r);
    return a;
}

/* What could not be read, or cannot be compared, is left out: all clients of the view would list
 * again and again for as long as it is recent. */
static void give_cut(struct delivered_versions *r, const struct delivered_account *a)
{
    struct delivered_key mixed = a->key;
    mixed.selector = DELIVERED_MIXED;
    if (a->synced && !is_nothing(a->delivered) && a->delivered.to != DELIVERED_OPAQUE) {
        add_point_now(r, &a->key, POINT_CUT, a->delivered);
    }
    if (a->synced && !is_nothing(a->mixed)) {
        add_point_now(r, &mixed, POINT_CUT, a->mixed);
    }
}

/* What the client of a watch that has ended may go on from. */
static void give_account(struct delivered_versions *r, const struct delivered_account *a)
{
    struct delivered_key mixed = a->key;
    mixed.selector = DELIVERED_MIXED;
    if (!a->synced) {
        return;
    }
    if (a->unknown) {
        give_versions(r, &a->key, DELIVERED_ANY);
    } else if (!is_nothing(a->delivered)) {
        give_versions(r, &a->key, a->delivered);
    }
    if (!is_nothing(a->mixed)) {
        give_versions(r, &mixed, a->mixed);
    }
}

void delivered_account_close(struct delivered_versions *r, struct delivered_account *a,
                             uint64_t told_ms)
{
    begin_change(r);
    if (told_ms != 0) {
        raise_to(&r->now_ms, told_ms); /* perhaps nobody has asked for anything in a while */
        give_cut(r, a);
    } else {
        give_account(r, a);
    }
    a->open = 0;
    if (in_pool(r, a)) {
        a->next = r->spare_account;
        r->spare_account = a;
    } else {
        r->accounts_elsewhere--;
        free(a);
    }
    end_change(r);
}

/*
 * What a process knew that has ended.
 */

static void take_points(struct delivered_versions *r, const struct delivered_versions *old)
{
    for (size_t i = 0; i < old->point_count; i++) {
        const struct point *p = &old->point_pool[i];
        if (p->count > 0 && p->kind < POINT_KINDS) {
            add_point(r, &p->key, (enum point_kind)p->kind, p->range);
            struct point *mine = find_point(r, &p->key, (enum point_kind)p->kind, p->range);
            mine->count += p->count - 1; /* there may be several of that range */
            mine->since_ms = p->since_ms;
        }
    }
}

static void take_resources(struct delivered_versions *r, const struct delivered_versions *old)
{
    r->all_known = old->all_known != 0;
    r->began_ms = old->began_ms;
    for (size_t i = 0; i < old->resource_count; i++) {
        const struct resource *was = &old->resource_pool[i];
        struct resource *x = ensure_resource(r, was->id);
        for (size_t k = 0; k < DELIVERED_SELECTORS_MAX; k++) {
            raise_highest(x, was->seen[k].selector, was->seen[k].highest);
        }
        x->floor = was->floor;
        raise_to(&x->forgotten, was->forgotten);
        if (was->has_unread) {
            note_unread(x, was->unread);
        }
    }
    r->lost_highest = old->lost_highest;
    r->lost_forgotten = old->lost_forgotten;
    r->lost_unread = old->lost_unread != 0;
}

static void take_accounts(struct delivered_versions *r, const struct delivered_versions *old)
{
    for (size_t i = 0; i < old->account_count; i++) {
        struct delivered_account a = old->account_pool[i];
        a.key.selector = a.changing ? DELIVERED_MIXED : a.key.selector;
        if (a.open) {
            give_account(r, &a);
        }
    }
}

bool delivered_take_over(struct delivered_versions *r, const struct delivered_versions *old)
{
    if (old->busy != 0 || old->accounts_elsewhere != 0 || old->point_count > DELIVERED_POINTS_MAX ||
        old->resource_count > DELIVERED_RESOURCES_MAX ||
        old->account_count > DELIVERED_ACCOUNTS_MAX) {
        return false;
    }
    r->writes = old->writes;
    take_points(r, old);
    take_resources(r, old);
    take_accounts(r, old);
    return true;
}
