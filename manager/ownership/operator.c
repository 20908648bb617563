/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/operator.h"

#include <string.h>

/* ---- lock names ---- */

enum { LOCKS_MAX = HANDOVER_RULES_MAX + 2 };

struct locks {
    const char *names[LOCKS_MAX];
    size_t count;
    bool nameless; /* it has or had rules, or a spec, without one */
};

static void add_lock(struct locks *l, const char *name)
{
    if (name == NULL || name[0] == '\0') {
        l->nameless = true;
    } else {
        l->names[l->count++] = name;
    }
}

static bool is_readable(const struct rules_map *map)
{
    return map != NULL && !map->unread && (!map->later || map->given_up > 0);
}

static struct locks locks_of(const struct ownership_shard *s)
{
    struct locks l = {.count = 0};
    if (s->exists) {
        add_lock(&l, s->lock);
    }
    if (is_readable(s->map) && s->map->generation != 0) {
        add_lock(&l, s->map->lock);
    }
    for (size_t i = 0; s->past != NULL && i < s->past->count; i++) {
        add_lock(&l, rules_leader_election(s->past->rules[i]));
    }
    return l;
}

static bool have_common(const struct locks *a, const struct locks *b)
{
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            if (strcmp(a->names[i], b->names[j]) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* ---- pods ---- */

typedef const char *pod_text_fn(const struct pod *p);

static const char *account_of(const struct pod *p)
{
    return p->account;
}

static const char *account_of_its_own(const struct pod *p)
{
    return strcmp(p->account, "default") == 0 ? "" : p->account;
}

static const char *controller_of(const struct pod *p)
{
    return p->owner;
}

static bool has_pod_with(const struct ownership_shard *s, pod_text_fn *text, const char *value)
{
    for (size_t i = 0; i < s->pod_count; i++) {
        if (strcmp(text(s->pods[i].pod), value) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether pods of both say the same, and not "". */
static bool pods_agree(const struct ownership_shard *a, const struct ownership_shard *b,
                       pod_text_fn *text)
{
    const char *last = "";
    for (size_t i = 0; i < a->pod_count; i++) {
        const char *value = text(a->pods[i].pod);
        if (value[0] != '\0' && strcmp(value, last) != 0 && has_pod_with(b, text, value)) {
            return true;
        }
        last = value;
    }
    return false;
}

static bool selects_pod_of(const struct ownership_shard *a, const struct ownership_shard *b)
{
    for (size_t i = 0; a->selector != NULL && i < b->pod_count; i++) {
        if (pod_selected(b->pods[i].pod, a->selector)) {
            return true;
        }
    }
    return false;
}

static bool is_made_by_one_root(const struct ownership_shard *a, const struct ownership_shard *b)
{
    return a->root != NULL && b->root != NULL && a->root[0] != '\0' &&
           strcmp(a->root, b->root) == 0;
}

/* It enforces rules of which only the checksum is known, if at all. */
static bool has_unknown_rules(const struct ownership_shard *s)
{
    for (size_t i = 0; i < s->pod_count; i++) {
        const struct probe_result *r = s->pods[i].probe;
        if (r != NULL && r->generation != 0 &&
            handover_hold_of(s->pods[i].pod, r, s->key, s->map, s->past, HANDOVER_STRICT) ==
                HANDOVER_ANYTHING) {
            return true;
        }
    }
    return false;
}

static bool is_adrift(const struct ownership_shard *s)
{
    return !s->exists || has_unknown_rules(s);
}

/* ---- both ---- */

static bool accounts_differ(const struct ownership_shard *a, const struct ownership_shard *b)
{
    return a->pod_count > 0 && b->pod_count > 0 && !pods_agree(a, b, account_of);
}

bool operator_is_same(const struct ownership_shard *a, const struct ownership_shard *b)
{
    struct locks la = locks_of(a);
    struct locks lb = locks_of(b);
    if (have_common(&la, &lb) || is_made_by_one_root(a, b)) {
        return true;
    }
    if (la.nameless && lb.nameless && !accounts_differ(a, b)) {
        return true;
    }
    if ((la.nameless || lb.nameless) && pods_agree(a, b, account_of_its_own)) {
        return true;
    }
    return selects_pod_of(a, b) || selects_pod_of(b, a) || pods_agree(a, b, controller_of) ||
           ((is_adrift(a) || is_adrift(b)) && pods_agree(a, b, account_of));
}

enum operator_kinship operator_kinship(const struct ownership_shard *a,
                                       const struct ownership_shard *b)
{
    bool readable = b->map == NULL || is_readable(b->map);
    if (!readable || operator_is_same(a, b)) {
        return OPERATOR_SAME;
    }
    return accounts_differ(a, b) ? OPERATOR_OTHER : OPERATOR_DOUBTFUL;
}

bool operator_has_bare_pod(const struct ownership_shard *a, const struct ownership_bare_pod *p)
{
    const struct ownership_pod pod = {.pod = p->pod};
    bool by_account = p->selected_count == 0 || p->pod->proxy_port != 0;
    if (by_account && account_of_its_own(p->pod)[0] != '\0' &&
        has_pod_with(a, account_of, p->pod->account)) {
        return true;
    }
    for (size_t i = 0; i < p->selected_count; i++) {
        struct ownership_shard other = *p->selected_by[i];
        other.pods = &pod;
        other.pod_count = 1;
        if (p->selected_by[i] == a || operator_is_same(a, &other)) {
            return true;
        }
    }
    return false;
}
