/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/pod_selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

enum {
    ANCHOR_VALUES_MAX = 256,
    ANCHOR_TEXT_MAX = 512, /* key=value: 317 and 63 bytes at most, else nothing has it */
};

/* One label with its value, and the shards that are found by it. */
struct anchor {
    struct table_node node;
    struct list shards; /* of struct link */
    size_t count;
    char text[];
};

struct link {
    struct list of_anchor;
    struct list of_shard;
    struct anchor *anchor;
    struct pod_selection_shard *shard;
};

void pod_selection_init(struct pod_selection *m)
{
    m->anchors = (struct table){.buckets = NULL};
    list_init(&m->loose);
}

void pod_selection_deinit(struct pod_selection *m)
{
    table_deinit(&m->anchors);
}

void pod_selection_shard_init(struct pod_selection_shard *s)
{
    s->selector = NULL;
    s->pod_count = 0;
    list_init(&s->pods);
    list_init(&s->anchors);
    list_init(&s->loose);
}

void pod_selection_pod_init(struct pod_selection_pod *p)
{
    p->shard_count = 0;
    list_init(&p->shards);
}

static struct anchor *find_anchor(const struct pod_selection *m, const char *key, const char *value)
{
    char text[ANCHOR_TEXT_MAX];
    int n = snprintf(text, sizeof text, "%s=%s", key, value);
    struct table_node *node =
        n < 0 || (size_t)n >= sizeof text ? NULL : table_find(&m->anchors, text);
    return node == NULL ? NULL : LIST_ITEM(node, struct anchor, node);
}

static struct anchor *provide_anchor(struct pod_selection *m, const char *key, const char *value)
{
    char text[ANCHOR_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s=%s", key, value);
    struct anchor *a = xptr(TABLE_PROVIDE(&m->anchors, slice_str(text), struct anchor, text));
    if (a->shards.next == NULL) {
        list_init(&a->shards);
    }
    return a;
}

static void attach(struct pod_selection *m, struct pod_selection_shard *s, const char *key,
                   const char *value)
{
    struct link *l = xcalloc(1, sizeof *l);
    l->anchor = provide_anchor(m, key, value);
    l->shard = s;
    list_append(&l->anchor->shards, &l->of_anchor);
    list_append(&s->anchors, &l->of_shard);
    l->anchor->count++;
}

static void detach(struct pod_selection *m, struct link *l)
{
    list_remove(&l->of_anchor);
    list_remove(&l->of_shard);
    if (--l->anchor->count == 0) {
        table_remove(&m->anchors, &l->anchor->node);
        free(l->anchor);
    }
    free(l);
}

/* Whether only objects with one of its values can satisfy it, and they can be told in labels. */
static bool demands_value(const struct selector_requirement *r)
{
    bool equal =
        r->op == SELECTOR_EQUALS || r->op == SELECTOR_DOUBLE_EQUALS || r->op == SELECTOR_IN;
    size_t len = strlen(r->key);
    for (size_t i = 0; equal && i < r->value_count; i++) {
        equal = len + strlen(r->values[i]) + 2 <= ANCHOR_TEXT_MAX;
    }
    return equal && r->value_count <= ANCHOR_VALUES_MAX;
}

/* How many shards are found by the same labels already. */
static size_t crowd(const struct pod_selection *m, const struct selector_requirement *r)
{
    size_t sum = 0;
    for (size_t i = 0; i < r->value_count; i++) {
        const struct anchor *a = find_anchor(m, r->key, r->values[i]);
        sum += a == NULL ? 0 : a->count;
    }
    return sum;
}

static const struct selector_requirement *choose(const struct pod_selection *m,
                                                 const struct selector *selector)
{
    const struct selector_requirement *best = NULL;
    size_t count = 0;
    size_t least = SIZE_MAX;
    const struct selector_requirement *items = selector_requirements(selector, &count);
    for (size_t i = 0; i < count && least > 0; i++) {
        size_t others = demands_value(&items[i]) ? crowd(m, &items[i]) : SIZE_MAX;
        if (others < least) {
            least = others;
            best = &items[i];
        }
    }
    return best;
}

void pod_selection_add(struct pod_selection *m, struct pod_selection_shard *s,
                       const struct selector *selector)
{
    const struct selector_requirement *r = choose(m, selector);
    s->selector = selector;
    if (r == NULL) {
        list_append(&m->loose, &s->loose);
        return;
    }
    for (size_t i = 0; i < r->value_count; i++) {
        attach(m, s, r->key, r->values[i]);
    }
}

void pod_selection_part(struct member *member)
{
    list_remove(&member->of_shard);
    list_remove(&member->of_pod);
    member->shard->pod_count--;
    member->pod->shard_count--;
    free(member);
}

void pod_selection_remove(struct pod_selection *m, struct pod_selection_shard *s)
{
    while (!list_empty(&s->pods)) {
        pod_selection_part(LIST_ITEM(s->pods.next, struct member, of_shard));
    }
    while (!list_empty(&s->anchors)) {
        detach(m, LIST_ITEM(s->anchors.next, struct link, of_shard));
    }
    list_remove(&s->loose);
    s->selector = NULL;
}

static bool is_in(const struct pod_selection_shard *s, const struct pod_selection_pod *p)
{
    for (const struct list *n = p->shards.next; n != &p->shards; n = n->next) {
        if (LIST_ITEM(n, const struct member, of_pod)->shard == s) {
            return true;
        }
    }
    return false;
}

void pod_selection_join(struct pod_selection_shard *s, struct pod_selection_pod *p,
                        const struct pod *pod)
{
    if (s->selector == NULL || !pod_selected(pod, s->selector) || is_in(s, p)) {
        return;
    }
    struct member *member = xcalloc(1, sizeof *member);
    member->shard = s;
    member->pod = p;
    list_append(&s->pods, &member->of_shard);
    list_append(&p->shards, &member->of_pod);
    s->pod_count++;
    p->shard_count++;
}

static void join_anchored(const struct pod_selection *m, struct pod_selection_pod *p,
                          const struct pod *pod)
{
    for (size_t i = 0; i < pod->label_count; i++) {
        struct anchor *a = find_anchor(m, pod->labels[i].key, pod->labels[i].value);
        struct list *n = a == NULL ? NULL : a->shards.next;
        for (; n != NULL && n != &a->shards; n = n->next) {
            pod_selection_join(LIST_ITEM(n, struct link, of_anchor)->shard, p, pod);
        }
    }
}

void pod_selection_leave(struct pod_selection_pod *p)
{
    while (!list_empty(&p->shards)) {
        pod_selection_part(LIST_ITEM(p->shards.next, struct member, of_pod));
    }
}

void pod_selection_place(struct pod_selection *m, struct pod_selection_pod *p,
                         const struct pod *pod)
{
    pod_selection_leave(p);
    join_anchored(m, p, pod);
    LIST_FOR_EACH(n, &m->loose)
    {
        pod_selection_join(LIST_ITEM(n, struct pod_selection_shard, loose), p, pod);
    }
}
