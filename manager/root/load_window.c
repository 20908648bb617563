/* SPDX-License-Identifier: Apache-2.0 */
#include "root/load_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "root/root_spec.h"

enum { SLOTS = LOAD_WINDOW_MINUTES + 1 };

struct watched {
    struct table_node node;
    uint64_t first_at; /* it counts for as long as is known */
    uint64_t look;     /* the last one in which it was there */
    unsigned shard;
    struct control_load load;
    char *uid;
    char key[];
};

struct slot {
    struct load_counts of[SHARDING_HASH_SIZE];
};

struct load_window {
    uint64_t minute_ms;
    uint64_t looks;
    uint64_t first_minute;
    uint64_t minute; /* of the last look */
    struct slot slots[SLOTS];
    struct buckets owners;
    struct table pods;                   /* struct watched */
    uint64_t since[ROOT_SHARDS_MAX + 1]; /* by shard: when the last of its pods began to tell */
    bool telling[ROOT_SHARDS_MAX + 1];   /* it has pods, and all of them tell */
    uint64_t now;
};

struct load_window *load_window_new(uint64_t minute_ms)
{
    struct load_window *w = xcalloc(1, sizeof *w);
    w->minute_ms = minute_ms;
    return w;
}

static void forget(struct load_window *w, struct watched *p)
{
    table_remove(&w->pods, &p->node);
    free(p->uid);
    free(p);
}

void load_window_free(struct load_window *w)
{
    if (w == NULL) {
        return;
    }
    for (struct table_node *n; (n = table_next(&w->pods, NULL)) != NULL;) {
        forget(w, LIST_ITEM(n, struct watched, node));
    }
    table_deinit(&w->pods);
    free(w);
}

/* ---- pods ---- */

static bool went_back(const struct control_load_counts *from, const struct control_load_counts *to)
{
    return to->requests < from->requests || to->events < from->events ||
           to->objects < from->objects;
}

/* Whether what is counted now goes on from what it counted at the last look. */
static bool goes_on(const struct watched *p, const struct load_window_pod *pod)
{
    if (p->uid == NULL || strcmp(p->uid, pod->uid) != 0 || p->shard != pod->shard ||
        pod->load->since_s < p->load.since_s) {
        return false;
    }
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        if (went_back(&p->load.of[i], &pod->load->of[i])) {
            return false;
        }
    }
    return true;
}

static void add(struct load_counts *sum, const struct control_load_counts *from,
                const struct control_load_counts *to)
{
    sum->requests += to->requests - from->requests;
    sum->events += to->events - from->events;
    sum->objects += to->objects - from->objects;
}

static void count_growth(struct load_window *w, const struct watched *p,
                         const struct control_load *load, const struct buckets *owners)
{
    struct slot *slot = &w->slots[w->minute % SLOTS];
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        if (owners->owner[i] == p->shard && w->owners.owner[i] == p->shard) {
            add(&slot->of[i], &p->load.of[i], &load->of[i]);
        }
    }
}

static void begin(const struct load_window *w, struct watched *p, const struct load_window_pod *pod)
{
    free(p->uid);
    p->uid = xstrdup(pod->uid);
    p->shard = pod->shard;
    p->first_at = w->now;
}

static void look_at(struct load_window *w, const struct load_window_pod *pod,
                    const struct buckets *owners)
{
    if (pod->load == NULL) {
        w->telling[pod->shard] = false;
        return;
    }
    struct watched *p = xptr(TABLE_PROVIDE(&w->pods, slice_str(pod->key), struct watched, key));
    if (goes_on(p, pod)) {
        count_growth(w, p, pod->load, owners);
    } else {
        begin(w, p, pod);
    }
    p->load = *pod->load;
    p->look = w->looks;
    uint64_t since = w->since[pod->shard];
    w->since[pod->shard] = p->first_at > since ? p->first_at : since;
}

static void forget_others(struct load_window *w)
{
    for (struct table_node *n = table_next(&w->pods, NULL), *next; n != NULL; n = next) {
        struct watched *p = LIST_ITEM(n, struct watched, node);
        next = table_next(&w->pods, n);
        if (p->look != w->looks) {
            forget(w, p);
        }
    }
}

/* ---- minutes ---- */

/* As if nothing had been seen before. */
static void start(struct load_window *w, uint64_t minute)
{
    forget_others(w);
    memset(w->slots, 0, sizeof w->slots);
    w->first_minute = minute;
    w->minute = minute;
}

/* What grew while nobody looked for more than a minute is of no certain minute. */
static void go_to(struct load_window *w, uint64_t now)
{
    uint64_t minute = now / w->minute_ms;
    bool first = w->looks == 0;
    w->now = now;
    w->looks++;
    if (first || minute - w->minute > 1) {
        start(w, minute);
    } else if (minute != w->minute) {
        w->minute = minute;
        memset(&w->slots[minute % SLOTS], 0, sizeof *w->slots);
    }
}

void load_window_look(struct load_window *w, uint64_t now, const struct load_window_pod *pods,
                      size_t count, const struct buckets *owners)
{
    go_to(w, now);
    memset(w->since, 0, sizeof w->since);
    memset(w->telling, 0, sizeof w->telling);
    for (size_t i = 0; i < count; i++) {
        w->telling[pods[i].shard] = true;
    }
    for (size_t i = 0; i < count; i++) {
        look_at(w, &pods[i], owners);
    }
    forget_others(w);
    w->owners = *owners;
}

unsigned load_window_minutes(const struct load_window *w)
{
    /* The one in which it began is not whole. */
    uint64_t minutes =
        w->looks == 0 || w->minute == w->first_minute ? 0 : w->minute - w->first_minute - 1;
    return minutes < LOAD_WINDOW_MINUTES ? (unsigned)minutes : LOAD_WINDOW_MINUTES;
}

static uint64_t rounded(uint64_t sum, unsigned minutes)
{
    return (sum + minutes / 2) / minutes;
}

void load_window_rates(const struct load_window *w, struct load_counts out[SHARDING_HASH_SIZE])
{
    unsigned minutes = load_window_minutes(w);
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        struct load_counts sum = {0, 0, 0};
        for (unsigned k = 1; k <= minutes; k++) {
            const struct load_counts *c = &w->slots[(w->minute - k) % SLOTS].of[i];
            sum.requests += c->requests;
            sum.events += c->events;
            sum.objects += c->objects;
        }
        out[i] = minutes == 0 ? sum
                              : (struct load_counts){.requests = rounded(sum.requests, minutes),
                                                     .events = rounded(sum.events, minutes),
                                                     .objects = rounded(sum.objects, minutes)};
    }
}

bool load_window_covers(const struct load_window *w, unsigned shard)
{
    return shard <= ROOT_SHARDS_MAX && w->telling[shard] &&
           w->now - w->since[shard] >= LOAD_WINDOW_MINUTES * w->minute_ms;
}
