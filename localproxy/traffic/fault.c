/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ensure.h"
#include "base/list.h"

enum { WORD = 64 };

/* ---- the rules of a document ---- */

static void fault_unref(struct fault *f)
{
    if (f != NULL && --f->refs == 0) {
        traffic_unref(f->document);
        free(f);
    }
}

void fault_set_unref(struct fault_set *s)
{
    if (s == NULL || --s->refs > 0) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        fault_unref(s->at[i]);
    }
    free(s);
}

void faults_init(struct faults *all, uint64_t seed)
{
    *all = (struct faults){.chance = seed};
}

void faults_deinit(struct faults *all)
{
    table_deinit(&all->by_key);
    fault_set_unref(all->now);
    all->now = NULL;
}

/* As breaker_key. */
static char *key_of(const struct traffic_fault *rule)
{
    char *key = NULL;
    int n = asprintf(&key, "%s/%s/%s", rule->policy->name, rule->policy->uid, rule->name);
    return n < 0 ? NULL : key;
}

static struct fault *fault_new(struct traffic *document, const struct traffic_fault *rule,
                               const char *key)
{
    size_t len = strlen(key);
    struct fault *f = calloc(1, sizeof *f + len + 1);
    if (f != NULL) {
        memcpy(f->key, key, len + 1);
        f->refs = 1;
        f->document = traffic_ref(document);
        f->rule = rule;
    }
    return f;
}

static struct fault *find_or_make(const struct faults *all, struct traffic *document,
                                  const struct traffic_fault *rule)
{
    char *key = key_of(rule);
    if (key == NULL) {
        return NULL;
    }
    struct table_node *n = table_find(&all->by_key, key);
    struct fault *f = NULL;
    if (n != NULL) {
        f = LIST_ITEM(n, struct fault, node);
        f->refs++;
    } else {
        f = fault_new(document, rule, key);
    }
    free(key);
    return f;
}

/* What is there already is not changed. NULL without memory. */
static struct fault_set *set_new(const struct faults *all, struct traffic *document)
{
    size_t count = traffic_fault_count(document);
    struct fault_set *s = calloc(1, sizeof *s + count * sizeof s->at[0]);
    if (s == NULL) {
        return NULL;
    }
    s->refs = 1;
    for (; s->count < count; s->count++) {
        s->at[s->count] = find_or_make(all, document, traffic_fault_at(document, s->count));
        if (s->at[s->count] == NULL) {
            fault_set_unref(s);
            return NULL;
        }
    }
    return s;
}

static void follow(struct fault *f, struct traffic *document, const struct traffic_fault *rule)
{
    struct traffic *before = f->document;
    f->document = traffic_ref(document);
    f->rule = rule;
    traffic_unref(before);
}

void faults_put_in_force(struct faults *all, struct fault_set *s, struct traffic *document)
{
    struct fault_set *before = all->now;
    for (size_t i = 0; before != NULL && i < before->count; i++) {
        before->at[i]->in_force = false;
        table_remove(&all->by_key, &before->at[i]->node);
    }
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        ensure(table_insert(&all->by_key, &s->at[i]->node, s->at[i]->key) == 0);
        follow(s->at[i], document, traffic_fault_at(document, i));
    }
    all->now = s;
    fault_set_unref(before);
}

int faults_prepare(struct faults *all, struct traffic *document, struct fault_set **out)
{
    struct fault_set *s = set_new(all, document);
    if (s == NULL || table_reserve(&all->by_key) != 0) {
        fault_set_unref(s);
        return -ENOMEM;
    }
    *out = s;
    return 0;
}

static bool has_bit(const uint64_t *set, size_t i)
{
    return (set[i / WORD] >> (i % WORD) & 1) != 0;
}

void faults_activate(struct faults *all, const struct selector_label *labels, size_t count)
{
    for (size_t i = 0; all->now != NULL && i < all->now->count; i++) {
        struct fault *f = all->now->at[i];
        f->in_force = traffic_policy_selects(f->rule->policy, labels, count);
    }
}

/* ---- chance ---- */

/* SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014). */
static uint64_t next_number(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool happens(struct faults *all, uint32_t ppm)
{
    return (next_number(&all->chance) >> 32) * TRAFFIC_PPM >> 32 < ppm;
}

void faults_draw(struct faults *all, const struct traffic_found *found, int64_t now,
                 struct fault_drawn *out)
{
    struct fault_set *s = all->now;
    *out = (struct fault_drawn){.set = NULL};
    for (size_t i = 0; i < found->count; i++) {
        size_t k = found->index[i];
        const struct traffic_fault *rule = s->at[k]->rule;
        if (rule->when != NULL && !schedule_covers(rule->when, now)) {
            continue;
        }
        if (rule->delay_ms != 0 && happens(all, rule->delay_ppm)) {
            out->delay_ms += rule->delay_ms;
            out->delays[k / WORD] |= UINT64_C(1) << (k % WORD);
            out->set = s;
        }
        if (rule->abort_status != 0 && out->abort == NULL && happens(all, rule->abort_ppm)) {
            out->abort = s->at[k];
            out->set = s;
        }
    }
    out->delay_ms = out->delay_ms > TRAFFIC_DELAY_MAX_MS ? TRAFFIC_DELAY_MAX_MS : out->delay_ms;
    if (out->set != NULL) {
        s->refs++;
    }
}

/* ---- what was drawn ---- */

uint64_t fault_drawn_delay(const struct fault_drawn *d)
{
    uint64_t ms = 0;
    for (size_t i = 0; d->delay_ms != 0 && i < d->set->count; i++) {
        if (has_bit(d->delays, i) && d->set->at[i]->in_force) {
            ms += d->set->at[i]->rule->delay_ms;
        }
    }
    return ms > d->delay_ms ? d->delay_ms : ms;
}

struct fault *fault_drawn_abort(const struct fault_drawn *d)
{
    return d->abort != NULL && d->abort->in_force && d->abort->rule->abort_status != 0 ? d->abort
                                                                                       : NULL;
}

void fault_drawn_count_delay(struct fault_drawn *d)
{
    for (size_t i = 0; i < d->set->count; i++) {
        d->set->at[i]->delayed += has_bit(d->delays, i) ? 1 : 0;
    }
}

void fault_drawn_release(struct fault_drawn *d)
{
    fault_set_unref(d->set);
    *d = (struct fault_drawn){.set = NULL};
}

/* ---- what it says ---- */

void fault_message(const struct fault *f, struct buf *out)
{
    buf_printf(out, "faultinjection \"%s/%s\" rule \"%s\": answered with %u",
               traffic_shard_namespace(f->document), f->rule->policy->name, f->rule->name,
               f->rule->abort_status);
}

void fault_describe(const struct fault *f, struct control_fault *out)
{
    *out = (struct control_fault){
        .policy = f->rule->policy->name,
        .uid = f->rule->policy->uid,
        .rule = f->rule->name,
        .delayed = f->delayed,
        .aborted = f->aborted,
    };
}
