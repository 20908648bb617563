/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/roll.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- the order of shards ---- */

enum { RANK_NUMBERED, RANK_OTHER, DIGITS_MAX = 6 };

struct rank {
    int kind;
    unsigned long number; /* the canary's is 0 */
};

/* Of "x-NUMBER<suffix>"; false: it is not of that form. */
static bool read_number(const char *name, const char *suffix, unsigned long *out)
{
    size_t len = strlen(name);
    size_t tail = strlen(suffix);
    if (len <= tail || strcmp(name + len - tail, suffix) != 0) {
        return false;
    }
    size_t end = len - tail;
    size_t at = end;
    while (at > 0 && isdigit((unsigned char)name[at - 1])) {
        at--;
    }
    if (at == end || end - at > DIGITS_MAX || at < 2 || name[at - 1] != '-') {
        return false;
    }
    *out = strtoul(name + at, NULL, 10);
    return true;
}

static struct rank rank_of(const char *name)
{
    struct rank r = {RANK_NUMBERED, 0};
    if (read_number(name, "-canary", &r.number) && r.number == 0) {
        return r;
    }
    if (!read_number(name, "-normal", &r.number)) {
        r.kind = RANK_OTHER;
        r.number = 0;
    }
    return r;
}

int roll_compare_shards(const char *a, const char *b)
{
    struct rank x = rank_of(a);
    struct rank y = rank_of(b);
    if (x.kind != y.kind) {
        return x.kind < y.kind ? -1 : 1;
    }
    if (x.number != y.number) {
        return x.number < y.number ? -1 : 1;
    }
    return strcmp(a, b);
}

bool roll_holds(const char *identity, const char *pod)
{
    size_t len = strlen(pod);
    return strncmp(identity, pod, len) == 0 && !isdigit((unsigned char)identity[len]);
}

/* ---- which pod is next ---- */

static bool is_in_scope(const struct roll_facts *f, const struct roll_pod *p)
{
    return f->scope == NULL ||
           (p->shard != ROLL_NONE && strcmp(f->shards[p->shard].name, f->scope) == 0);
}

static bool is_due(const struct roll_facts *f, const struct roll_pod *p)
{
    return p->there && p->old && is_in_scope(f, p);
}

/* It was begun with, and left in a state in which nobody wants it. */
static bool is_first(const struct roll_facts *f, const struct roll_pod *p)
{
    return (f->committed || !p->ready) && strcmp(f->first, p->name) == 0;
}

static bool enforces(const struct roll_pod *p)
{
    return p->shard == ROLL_NONE || p->enforces;
}

/* Which of two old pods is evicted before the other. */
static bool is_before(const struct roll_facts *f, const struct roll_pod *a,
                      const struct roll_pod *b)
{
    if (is_first(f, a) != is_first(f, b)) {
        return is_first(f, a);
    }
    if (a->shard != b->shard) {
        return a->shard < b->shard; /* ROLL_NONE is the largest */
    }
    if (a->ready != b->ready) {
        return !a->ready;
    }
    if (enforces(a) != enforces(b)) {
        return !enforces(a);
    }
    if (a->holder != b->holder) {
        return !a->holder;
    }
    return a->ordinal < b->ordinal;
}

static size_t choose_next(const struct roll_facts *f)
{
    size_t best = ROLL_NONE;
    for (size_t i = 0; i < f->pod_count; i++) {
        if (is_due(f, &f->pods[i]) &&
            (best == ROLL_NONE || is_before(f, &f->pods[i], &f->pods[best]))) {
            best = i;
        }
    }
    return best;
}

/* ---- what it waits for ---- */

static enum roll_gate unwell(const struct roll_pod *p)
{
    if (!p->ready) {
        return p->failing != NULL ? ROLL_FAILING : ROLL_NOT_READY;
    }
    if (!p->available) {
        return ROLL_NOT_YET;
    }
    return enforces(p) ? p->open_breaker ? ROLL_BREAKER : ROLL_OPEN : ROLL_NOT_ENFORCED;
}

/* Closed by the pod itself. */
static bool close_for(const struct roll_facts *f, struct roll_step *s, size_t i,
                      enum roll_gate gate)
{
    s->gate = gate;
    s->pod = i;
    s->shard = f->pods[i].shard;
    return true;
}

/* Closed for the pod that is next, by another one. */
static bool close_by(struct roll_step *s, size_t cause, enum roll_gate gate)
{
    s->gate = gate;
    s->cause = cause;
    return true;
}

static bool waits_for_ending(const struct roll_facts *f, struct roll_step *s)
{
    for (size_t i = 0; i < f->pod_count; i++) {
        if (!f->pods[i].there && f->pods[i].ending) {
            return close_for(f, s, i, ROLL_ENDING);
        }
    }
    return false;
}

static bool waits_for_new(const struct roll_facts *f, struct roll_step *s)
{
    for (size_t i = 0; i < f->pod_count; i++) {
        const struct roll_pod *p = &f->pods[i];
        if (p->there && !p->old && unwell(p) != ROLL_OPEN) {
            return close_for(f, s, i, unwell(p));
        }
    }
    return false;
}

/* A StatefulSet that makes pods in order waits for the pod that is next, too. */
static bool is_made_after(const struct roll_facts *f, const struct roll_pod *missing,
                          const struct roll_pod *next)
{
    return f->ordered && next != NULL && !next->ready && next->ordinal < missing->ordinal;
}

/* `next` NULL: none is to be evicted. */
static bool waits_for_missing(const struct roll_facts *f, const struct roll_pod *next,
                              struct roll_step *s)
{
    for (size_t i = 0; i < f->pod_count; i++) {
        const struct roll_pod *p = &f->pods[i];
        if (!p->there && !is_made_after(f, p, next)) {
            return close_for(f, s, i, ROLL_MISSING);
        }
    }
    return false;
}

static bool waits_for_order(const struct roll_facts *f, size_t next, struct roll_step *s)
{
    for (size_t i = 0; f->ordered && i < f->pod_count; i++) {
        if (i != next && f->pods[i].ordinal < f->pods[next].ordinal && !f->pods[i].ready) {
            return close_by(s, i, ROLL_OUT_OF_ORDER);
        }
    }
    return false;
}

/* Of its pods another one than `but`; if none is, the first of them, if it has any. */
static bool has_ready_pod(const struct roll_facts *f, size_t shard, size_t *first)
{
    bool ready = false;
    *first = ROLL_NONE;
    for (size_t i = 0; i < f->pod_count; i++) {
        if (f->pods[i].shard == shard) {
            *first = *first == ROLL_NONE ? i : *first;
            ready = ready || f->pods[i].ready;
        }
    }
    return ready;
}

static bool waits_for_shards(const struct roll_facts *f, size_t next, struct roll_step *s)
{
    for (size_t i = 0; i < f->shard_count; i++) {
        size_t first;
        if (i != f->pods[next].shard && !has_ready_pod(f, i, &first) && first != ROLL_NONE) {
            return close_by(s, first, ROLL_SHARD_DOWN);
        }
    }
    return false;
}

static bool waits_for_breakers(const struct roll_facts *f, size_t next, struct roll_step *s)
{
    size_t shard = f->pods[next].shard;
    for (size_t i = 0; shard != ROLL_NONE && i < f->pod_count; i++) {
        if (f->pods[i].shard == shard && f->pods[i].there && f->pods[i].open_breaker) {
            return close_by(s, i, ROLL_BREAKER);
        }
    }
    return false;
}

static bool has_new_pod(const struct roll_facts *f, size_t shard)
{
    for (size_t i = 0; i < f->pod_count; i++) {
        if (f->pods[i].shard == shard && f->pods[i].there && !f->pods[i].old) {
            return true;
        }
    }
    return false;
}

/* `of`: a shard that must be led in any case, beside those that have new pods. */
static bool waits_for_leaders(const struct roll_facts *f, size_t of, struct roll_step *s)
{
    for (size_t i = 0; i < f->shard_count; i++) {
        enum lock_state lock = f->shards[i].lock;
        bool led = lock == LOCK_STATE_NONE || lock == LOCK_STATE_HELD;
        if (!led && (i == of || has_new_pod(f, i))) {
            s->gate = lock == LOCK_STATE_UNKNOWN ? ROLL_LOCK : ROLL_LEADERLESS;
            s->shard = i;
            return true;
        }
    }
    return false;
}

static bool waits_before(const struct roll_facts *f, size_t next, struct roll_step *s)
{
    const struct roll_pod *p = &f->pods[next];
    if (waits_for_ending(f, s) || waits_for_new(f, s) || waits_for_missing(f, p, s)) {
        return true;
    }
    return p->ready && (waits_for_order(f, next, s) || waits_for_shards(f, next, s) ||
                        waits_for_breakers(f, next, s) || waits_for_leaders(f, p->shard, s));
}

static bool waits_at_the_end(const struct roll_facts *f, struct roll_step *s)
{
    return waits_for_ending(f, s) || waits_for_new(f, s) || waits_for_missing(f, NULL, s) ||
           waits_for_leaders(f, ROLL_NONE, s);
}

/* ---- the step ---- */

static void count_pods(const struct roll_facts *f, struct roll_step *s)
{
    for (size_t i = 0; i < f->pod_count; i++) {
        const struct roll_pod *p = &f->pods[i];
        bool counts = is_in_scope(f, p);
        s->total += counts;
        s->done += counts && p->there && !p->old && p->ready;
    }
}

static void wait_for_notice(const struct roll_facts *f, struct roll_step *s)
{
    s->gate = ROLL_UNSEEN;
    s->done = 0;
    for (size_t i = 0; i < f->pod_count; i++) {
        if (!f->pods[i].there && !f->pods[i].ending) {
            (void)close_for(f, s, i, ROLL_UNSEEN);
            return;
        }
    }
}

struct roll_step roll_decide(const struct roll_facts *f)
{
    struct roll_step s = {
        .what = ROLL_WAIT, .pod = ROLL_NONE, .shard = ROLL_NONE, .cause = ROLL_NONE};
    count_pods(f, &s);
    if (f->unseen) {
        wait_for_notice(f, &s);
        return s;
    }
    if (s.total == 0 && f->scope != NULL) {
        s.gate = ROLL_NO_PODS;
        return s;
    }
    size_t next = choose_next(f);
    if (next == ROLL_NONE) {
        bool waits = !f->finished && waits_at_the_end(f, &s);
        s.what = waits ? ROLL_WAIT : ROLL_DONE;
        s.done = waits ? s.done : s.total;
        return s;
    }
    s.pod = next;
    s.shard = f->pods[next].shard;
    s.what = waits_before(f, next, &s) ? ROLL_WAIT : ROLL_EVICT;
    return s;
}

/* Those that should open by themselves before long, if the new revision is good. */
static bool has_deadline(enum roll_gate gate)
{
    return gate == ROLL_ENDING || gate == ROLL_FAILING || gate == ROLL_NOT_READY ||
           gate == ROLL_NOT_ENFORCED || gate == ROLL_BREAKER || gate == ROLL_MISSING ||
           gate == ROLL_LEADERLESS || gate == ROLL_NO_PODS || gate == ROLL_UNSEEN;
}

bool roll_is_stuck(const struct roll_step *s, const struct roll_patience *p)
{
    bool waits = s->what == ROLL_WAIT ? has_deadline(s->gate) : s->what == ROLL_EVICT && p->blocked;
    if (!waits) {
        return false;
    }
    return p->stuck || p->waited_ms >= p->deadline_ms ||
           (s->gate == ROLL_FAILING && p->failing_ms >= ROLL_FAILING_MS);
}
