/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/intercepts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a rule's methods that a message names. */
#define METHODS_TOLD 120

/* ---- the rules of a document ---- */

void intercept_set_free(struct intercept_set *s)
{
    if (s != NULL) {
        traffic_unref(s->document);
        free(s);
    }
}

void intercepts_deinit(struct intercepts *all)
{
    intercept_set_free(all->now);
    all->now = NULL;
}

int intercepts_prepare(struct traffic *document, struct intercept_set **out)
{
    size_t count = traffic_intercept_count(document);
    struct intercept_set *s = calloc(1, sizeof *s + count * sizeof s->at[0]);
    if (s == NULL) {
        return -ENOMEM;
    }
    s->document = traffic_ref(document);
    s->count = count;
    for (size_t i = 0; i < count; i++) {
        s->at[i].rule = traffic_intercept_at(document, i);
    }
    *out = s;
    return 0;
}

static bool same_rule(const struct traffic_intercept *a, const struct traffic_intercept *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->policy->name, b->policy->name) == 0 &&
           strcmp(a->policy->uid, b->policy->uid) == 0;
}

static uint64_t refused_so_far(const struct intercept_set *before, const struct intercept *i)
{
    for (size_t k = 0; before != NULL && k < before->count; k++) {
        if (same_rule(before->at[k].rule, i->rule)) {
            return before->at[k].refused;
        }
    }
    return 0;
}

void intercepts_put_in_force(struct intercepts *all, struct intercept_set *s)
{
    struct intercept_set *before = all->now;
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        s->at[i].refused = refused_so_far(before, &s->at[i]);
    }
    all->exhausted = intercepts_exhausted(all);
    all->not_ours = s != NULL ? traffic_patterns_exhausted(s->document) : 0;
    all->now = s;
    intercept_set_free(before);
}

void intercepts_activate(struct intercepts *all, const struct selector_label *labels, size_t count)
{
    for (size_t i = 0; all->now != NULL && i < all->now->count; i++) {
        struct intercept *x = &all->now->at[i];
        x->in_force = traffic_policy_selects(x->rule->policy, labels, count);
    }
}

/* ---- requests ---- */

static struct intercept *find(const struct intercepts *all, const struct traffic_intercept *rule)
{
    for (size_t i = 0; i < all->now->count; i++) {
        if (all->now->at[i].rule == rule) {
            return &all->now->at[i];
        }
    }
    return NULL;
}

static void append_methods(const struct traffic_intercept *rule, struct buf *why)
{
    size_t told = 0;
    for (size_t i = 0; i < rule->methods.count; i++) {
        const char *method = rule->methods.items[i];
        told += strlen(method) + 2;
        if (told > METHODS_TOLD) {
            buf_append_str(why, "...");
            return;
        }
        buf_printf(why, "%s%s", i == 0 ? "" : ", ", method);
    }
}

static void append_reason(const struct traffic_judgement *j, bool tunnel, struct buf *why)
{
    switch (j->verdict) {
    case TRAFFIC_FORBIDDEN:
        buf_printf(why, "Blacklist rule \"%s\" names it", j->by->name);
        break;
    case TRAFFIC_METHOD_NOT_LISTED:
        buf_printf(why, "rule \"%s\" allows it for ", j->by->name);
        append_methods(j->by, why);
        buf_append_str(why, tunnel ? " only, which nobody can see in a tunnel: add CONNECT or * to "
                                     "its methods"
                                   : " only");
        break;
    case TRAFFIC_PATTERN_EXHAUSTED:
        buf_printf(why, "an expression of rule \"%s\" takes too long with it", j->by->name);
        break;
    case TRAFFIC_NOT_LISTED:
    case TRAFFIC_ALLOWED:
    case TRAFFIC_ALLOWED_BY_RULE:
        buf_append_str(why, "no Whitelist rule names it");
        break;
    }
}

static void append_message(const struct traffic_judgement *j, const struct traffic_external *r,
                           struct buf *why)
{
    bool brackets = r->host.len > 0 && memchr(r->host.ptr, ':', r->host.len) != NULL;
    buf_append_str(why, "CircuitBreaker ");
    if (j->by != NULL) {
        buf_printf(why, "\"%s\" ", j->by->policy->name);
    }
    buf_append_str(why, brackets ? "does not allow requests to [" : "does not allow requests to ");
    buf_append(why, r->host.ptr, r->host.len);
    buf_printf(why, brackets ? "]:%u: " : ":%u: ", r->port);
    append_reason(j, r->tunnel, why);
}

bool intercepts_allow(struct intercepts *all, const struct traffic_active *a,
                      const struct traffic_external *r, struct buf *why)
{
    if (all->now == NULL) {
        return true;
    }
    struct traffic_judgement j = traffic_judge(all->now->document, a, r);
    if (j.verdict == TRAFFIC_ALLOWED || j.verdict == TRAFFIC_ALLOWED_BY_RULE) {
        return true;
    }
    struct intercept *by = find(all, j.by);
    if (by != NULL) {
        by->refused++;
    }
    append_message(&j, r, why);
    return false;
}

uint64_t intercepts_exhausted(const struct intercepts *all)
{
    uint64_t ours =
        all->now == NULL ? 0 : traffic_patterns_exhausted(all->now->document) - all->not_ours;
    return all->exhausted + ours;
}

void intercept_describe(const struct intercept *i, struct control_intercept *out)
{
    *out = (struct control_intercept){
        .policy = i->rule->policy->name,
        .uid = i->rule->policy->uid,
        .rule = i->rule->name,
        .refused = i->refused,
    };
}
