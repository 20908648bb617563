/* SPDX-License-Identifier: Apache-2.0 */
#include "route/limit_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "kube/selector_overlap.h"
#include "rules/sharding.h"

struct name {
    struct table_node node;
    size_t class;
    char text[];
};

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

/* By the number of its selector and by what control labels are called. */
struct limit {
    struct table_node node;
    const struct rules *rules;
    const struct rules_entry *entry; /* NULL: there is no limit */
    bool nothing;                    /* no object can match it */
    bool by_namespace;
    size_t *mentions;
    size_t mention_count;
    unsigned char *answers; /* of the first `room` classes */
    size_t room;
    char text[];
};

struct limit_classes {
    struct table table;
    struct name **names; /* by class */
    size_t count;
    size_t room;
    struct table limits;
};

/* ---- classes ---- */

/* "~" is in no value of a label; the hash of "~@" is 30. */
static void add_representatives(struct limit_classes *c)
{
    enum { TILDE_HASH = 30, AT = '@' };
    for (unsigned hash = 0; hash < SHARDING_HASH_SIZE; hash++) {
        char at = (char)(AT + (hash + SHARDING_HASH_SIZE - TILDE_HASH) % SHARDING_HASH_SIZE);
        const char name[] = {'~', at, '\0'};
        (void)limit_classes_of(c, name);
    }
}

struct limit_classes *limit_classes_new(void)
{
    struct limit_classes *c = xcalloc(1, sizeof *c);
    add_representatives(c);
    return c;
}

size_t limit_classes_of(struct limit_classes *c, const char *text)
{
    struct name *n = xptr(TABLE_PROVIDE(&c->table, slice_str(text), struct name, text));
    if (c->table.count == c->count) {
        return n->class;
    }
    if (c->count == c->room) {
        c->room = c->room == 0 ? 2 * SHARDING_HASH_SIZE : 2 * c->room;
        c->names = xrealloc(c->names, c->room * sizeof *c->names);
    }
    n->class = c->count;
    c->names[c->count++] = n;
    return n->class;
}

const char *limit_classes_name(const struct limit_classes *c, size_t class)
{
    return c->names[class]->text;
}

size_t limit_classes_count(const struct limit_classes *c)
{
    return c->count;
}

/* ---- limits ---- */

static bool is_key(const struct selector_requirement *r, const char *key)
{
    return strcmp(r->key, key) == 0;
}

static void mention(struct limit_classes *c, struct limit *l, const struct selector_requirement *r,
                    bool hashes)
{
    l->mentions = xrealloc(l->mentions, (l->mention_count + r->value_count + 1) * sizeof(size_t));
    for (size_t i = 0; i < r->value_count; i++) {
        if (!hashes || !sharding_is_hash(slice_str(r->values[i]))) {
            l->mentions[l->mention_count++] = limit_classes_of(c, r->values[i]);
        }
    }
}

static void read_limit(struct limit_classes *c, struct limit *l)
{
    size_t count;
    const struct rules_labels *labels = rules_labels(l->rules);
    const struct selector_requirement *r = selector_requirements(l->entry->compiled, &count);
    size_t ours = 0;
    for (size_t i = 0; i < count; i++) {
        bool hashes = is_key(&r[i], labels->shard_hash);
        if (hashes || is_key(&r[i], labels->namespace)) {
            mention(c, l, &r[i], hashes);
        }
        ours += hashes || is_key(&r[i], labels->namespace) || is_key(&r[i], labels->control);
    }
    l->by_namespace = ours > 0 && ours == count;
    l->nothing = !selector_satisfiable(l->entry->compiled);
}

static struct limit *provide_limit(struct limit_classes *c, const struct rules *rules,
                                   const struct rules_entry *entry)
{
    char key[32 + 3 * NAMES_KEY_SIZE];
    const struct rules_labels *labels = rules_labels(rules);
    int len = entry == NULL ? 0
                            : snprintf(key, sizeof key, "%016" PRIx64 " %s %s %s", entry->id,
                                       labels->namespace, labels->shard_hash, labels->control);
    struct slice text = slice_of(key, (size_t)len < sizeof key ? (size_t)len : sizeof key - 1);
    return xptr(TABLE_PROVIDE(&c->limits, text, struct limit, text));
}

struct limit *limit_classes_find(struct limit_classes *c, const struct rules *rules,
                                 struct slice group, struct slice resource)
{
    const struct rules_entry *entry = rules_match(rules, group, resource);
    struct limit *l = provide_limit(c, rules, entry);
    if (l->entry == NULL && entry != NULL) {
        l->rules = rules;
        l->entry = entry;
        read_limit(c, l);
    }
    return l;
}

static void grow_answers(struct limit *l, size_t room)
{
    l->answers = xrealloc(l->answers, room);
    memset(l->answers + l->room, ANSWER_UNKNOWN, room - l->room);
    l->room = room;
}

static bool ask(const struct limit_classes *c, const struct limit *l, size_t class)
{
    bool asks;
    return !l->nothing &&
           control_labels_accept(l->rules, l->entry, slice_str(c->names[class]->text), &asks);
}

bool limit_accepts(struct limit_classes *c, struct limit *l, size_t class)
{
    if (l->entry == NULL) {
        return true;
    }
    if (class >= l->room) {
        grow_answers(l, c->room);
    }
    if (l->answers[class] == ANSWER_UNKNOWN) {
        l->answers[class] = ask(c, l, class) ? ANSWER_YES : ANSWER_NO;
    }
    return l->answers[class] == ANSWER_YES;
}

const size_t *limit_mentions(const struct limit *l, size_t *count)
{
    *count = l->mention_count;
    return l->mentions;
}

bool limit_is_by_namespace(const struct limit *l)
{
    return l->by_namespace;
}

void limit_classes_free(struct limit_classes *c)
{
    struct table_node *next;
    for (struct table_node *n = table_next(&c->limits, NULL); n != NULL; n = next) {
        struct limit *l = LIST_ITEM(n, struct limit, node);
        next = table_next(&c->limits, n);
        free(l->mentions);
        free(l->answers);
        free(l);
    }
    table_deinit(&c->limits);
    table_deinit(&c->table);
    for (size_t i = 0; i < c->count; i++) {
        free(c->names[i]);
    }
    free(c->names);
    free(c);
}
