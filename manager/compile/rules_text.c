/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/rules_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/selector.h"
#include "json/json.h"

/* Parts of a key are joined by a byte that no name has and that sorts before all others: so a line
 * stands before those below it, and these before the next of its kind. */
#define JOIN '\x01'
#define KEY_MAX (SELECTOR_TEXT_MAX + 4096)

/* One resource of one group, and a selector that limits it. */
struct pattern {
    const char *group;
    const char *resource;
    const char *selector;
};

struct patterns {
    struct pattern *items;
    size_t count;
};

/* ---- lines ---- */

/* Takes over the key. */
static int add_key(struct rules_text *t, char *key)
{
    struct rules_text_line line = {.key = key, .text = key};
    if (key != NULL && t->count == t->cap) {
        size_t cap = t->cap == 0 ? 64 : t->cap * 2;
        struct rules_text_line *grown = realloc(t->lines, cap * sizeof *grown);
        if (grown == NULL) {
            free(key);
            return -ENOMEM;
        }
        t->lines = grown;
        t->cap = cap;
    }
    if (key == NULL) {
        return -ENOMEM;
    }
    for (char *p = key; *p != '\0'; p++) {
        if (*p == JOIN) {
            line.text = p + 1;
            line.depth++;
        }
    }
    t->lines[t->count++] = line;
    return 0;
}

/* A line below those of `path`, which is a key too. */
__attribute__((format(printf, 3, 4))) static int add(struct rules_text *t, const char *path,
                                                     const char *fmt, ...)
{
    struct buf key = BUF_INIT(KEY_MAX);
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        return -ENOMEM;
    }
    buf_append_str(&key, path);
    if (path[0] != '\0') {
        buf_append_char(&key, JOIN);
    }
    int rc = buf_append_str(&key, text);
    if (rc == 0) {
        rc = add_key(t, buf_take_str(&key));
    }
    buf_reset(&key);
    free(text);
    return rc;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct rules_text_line *)a)->key,
                  ((const struct rules_text_line *)b)->key);
}

/* Two requirements on one key share the line that their values stand below. */
static void sort_lines(struct rules_text *t)
{
    size_t count = 0;
    qsort(t->lines, t->count, sizeof *t->lines, compare_lines);
    for (size_t i = 0; i < t->count; i++) {
        if (count > 0 && strcmp(t->lines[count - 1].key, t->lines[i].key) == 0) {
            free(t->lines[i].key);
        } else {
            t->lines[count++] = t->lines[i];
        }
    }
    t->count = count;
}

/* ---- selectors ---- */

static const char *shown(const char *value)
{
    return value[0] == '\0' ? "\"\"" : value;
}

/* Whether another requirement on the same key has the same operator: their values must not be
 * thrown together. */
static bool has_twin(const struct selector_requirement *list, size_t count,
                     const struct selector_requirement *r)
{
    for (size_t i = 0; i < count; i++) {
        if (&list[i] != r && list[i].op == r->op && strcmp(list[i].key, r->key) == 0) {
            return true;
        }
    }
    return false;
}

static int add_values(struct rules_text *t, const char *path, const struct selector_requirement *r,
                      const char *word, bool twin)
{
    int rc = add(t, path, "%s %s:", r->key, word);
    char *below = rc == 0 ? strdup(t->lines[t->count - 1].key) : NULL;
    if (below == NULL) {
        return -ENOMEM;
    }
    if (twin) {
        struct buf values = BUF_INIT(KEY_MAX);
        for (size_t i = 0; i < r->value_count && rc == 0; i++) {
            rc = buf_printf(&values, "%s%s", i == 0 ? "" : ",", shown(r->values[i]));
        }
        const char *text = rc == 0 ? buf_cstr(&values) : NULL;
        rc = text == NULL ? -ENOMEM : add(t, below, "(%s)", text);
        buf_reset(&values);
    }
    for (size_t i = 0; i < r->value_count && rc == 0 && !twin; i++) {
        rc = add(t, below, "%s", shown(r->values[i]));
    }
    free(below);
    return rc;
}

static int add_requirement(struct rules_text *t, const char *path,
                           const struct selector_requirement *r, bool twin)
{
    static const char *const signs[] = {
        [SELECTOR_EQUALS] = "=",  [SELECTOR_DOUBLE_EQUALS] = "=", [SELECTOR_NOT_EQUALS] = "!=",
        [SELECTOR_GREATER] = ">", [SELECTOR_LESS] = "<",
    };
    switch (r->op) {
    case SELECTOR_EXISTS:
        return add(t, path, "%s", r->key);
    case SELECTOR_NOT_EXISTS:
        return add(t, path, "!%s", r->key);
    case SELECTOR_IN:
        return add_values(t, path, r, "in", twin);
    case SELECTOR_NOT_IN:
        return add_values(t, path, r, "notin", twin);
    case SELECTOR_EQUALS:
    case SELECTOR_DOUBLE_EQUALS:
    case SELECTOR_NOT_EQUALS:
    case SELECTOR_GREATER:
    case SELECTOR_LESS:
        break;
    }
    return add(t, path, "%s%s%s", r->key, signs[r->op],
               r->value_count == 0 ? "" : shown(r->values[0]));
}

/* As selectors that match nothing are written: `k,!k`. */
static bool is_nothing(const struct selector_requirement *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            if (list[i].op == SELECTOR_EXISTS && list[j].op == SELECTOR_NOT_EXISTS &&
                strcmp(list[i].key, list[j].key) == 0) {
                return true;
            }
        }
    }
    return false;
}

static int add_selector(struct rules_text *t, const char *path, const struct selector *s)
{
    size_t count;
    const struct selector_requirement *list = selector_requirements(s, &count);
    if (is_nothing(list, count)) {
        return add(t, path, "nothing");
    }
    int rc = count == 0 ? add(t, path, "everything") : 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = add_requirement(t, path, &list[i], has_twin(list, count, &list[i]));
    }
    return rc;
}

/* ---- limits ---- */

static int compare_patterns(const void *a, const void *b)
{
    const struct pattern *left = a;
    const struct pattern *right = b;
    int order = strcmp(left->resource, right->resource);
    return order != 0 ? order : strcmp(left->group, right->group);
}

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_of(const cJSON *item)
{
    const char *text = cJSON_GetStringValue(item);
    return text == NULL ? "" : text;
}

static size_t count_patterns(const cJSON *limits)
{
    size_t count = 0;
    const cJSON *limit;
    cJSON_ArrayForEach(limit, limits)
    {
        count += (size_t)cJSON_GetArraySize(get(limit, "apiGroups")) *
                 (size_t)cJSON_GetArraySize(get(limit, "resources"));
    }
    return count;
}

static int collect(struct patterns *p, const cJSON *limits)
{
    p->items = calloc(count_patterns(limits) + 1, sizeof *p->items);
    if (p->items == NULL) {
        return -ENOMEM;
    }
    const cJSON *limit;
    const cJSON *group;
    const cJSON *resource;
    cJSON_ArrayForEach(limit, limits)
    {
        cJSON_ArrayForEach(group, get(limit, "apiGroups"))
        {
            cJSON_ArrayForEach(resource, get(limit, "resources"))
            {
                p->items[p->count++] =
                    (struct pattern){.group = text_of(group),
                                     .resource = text_of(resource),
                                     .selector = text_of(get(limit, "selector"))};
            }
        }
    }
    qsort(p->items, p->count, sizeof *p->items, compare_patterns);
    return 0;
}

static void free_selectors(struct selector **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        selector_free(list[i]);
    }
    free(list);
}

/* What `count` patterns of the same resource demand together; NULL with `e` set. */
static struct selector *join(const struct pattern *items, size_t count, struct err *e)
{
    struct selector **list = calloc(count, sizeof *list);
    if (list == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        list[i] = selector_parse(slice_str(items[i].selector), e);
        whole = list[i] != NULL;
    }
    struct selector *all =
        whole ? selector_and((const struct selector *const *)list, count, e) : NULL;
    free_selectors(list, count);
    return all;
}

static int add_pattern(struct rules_text *t, const struct pattern *items, size_t count,
                       struct err *e)
{
    const char *group = items->group;
    const char *resource = items->resource;
    char path[1024];
    (void)snprintf(path, sizeof path, "limits:%c%s in %s:", JOIN,
                   strcmp(resource, "*") == 0 ? "all resources" : resource,
                   strcmp(group, "*") == 0 ? "any group"
                   : group[0] == '\0'      ? "the core group"
                                           : group);
    struct selector *selector = join(items, count, e);
    if (selector == NULL) {
        return e->code;
    }
    int rc = add(t, "", "%s", path);
    rc = rc != 0 ? rc : add_selector(t, path, selector);
    selector_free(selector);
    return rc;
}

static int add_limits(struct rules_text *t, const cJSON *limits, struct err *e)
{
    struct patterns p = {.items = NULL};
    int rc = collect(&p, limits);
    rc = rc != 0 || p.count > 0 ? rc : add(t, "", "no limits: everything is visible");
    rc = rc != 0 || p.count == 0 ? rc : add(t, "", "limits:");
    for (size_t i = 0, n; i < p.count && rc == 0; i += n) {
        for (n = 1; i + n < p.count && compare_patterns(&p.items[i], &p.items[i + n]) == 0; n++) {
        }
        rc = add_pattern(t, &p.items[i], n, e);
    }
    free(p.items);
    return rc;
}

/* ---- all ---- */

/* "webhook:" and below it each of its fields. */
static int add_fields(struct rules_text *t, const char *title, const cJSON *fields)
{
    int rc = fields == NULL ? 0 : add(t, "", "%s", title);
    const cJSON *field;
    cJSON_ArrayForEach(field, fields)
    {
        if (rc == 0 && cJSON_IsNumber(field)) {
            rc = add(t, title, "%s: %.0f", field->string, field->valuedouble);
        } else if (rc == 0) {
            rc = add(t, title, "%s: %s", field->string, text_of(field));
        }
    }
    return rc;
}

static int add_spec(struct rules_text *t, const cJSON *spec, struct err *e)
{
    const cJSON *lock = get(get(spec, "leaderElection"), "name");
    int rc = lock == NULL ? 0 : add(t, "", "leader election: %s", text_of(lock));
    rc = rc != 0 ? rc : add_fields(t, "control labels:", get(spec, "labels"));
    rc = rc != 0 ? rc : add_fields(t, "webhook:", get(spec, "webhook"));
    return rc != 0 ? rc : add_limits(t, get(spec, "limits"), e);
}

int rules_text_add(struct rules_text *t, const struct rules *rules, struct err *e)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    cJSON *tree = NULL;
    int rc = rules_to_json(rules, &text);
    if (rc == 0) {
        tree = json_parse((const char *)buf_data(&text), text.len, e);
        rc = tree == NULL ? e->code : add_spec(t, get(tree, "spec"), e);
    }
    if (rc != 0 && e->code == 0) {
        (void)err_set(e, rc, "%s", err_text(rc));
    }
    if (rc == 0) {
        sort_lines(t);
    }
    cJSON_Delete(tree);
    buf_reset(&text);
    return rc;
}

void rules_text_deinit(struct rules_text *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->lines[i].key);
    }
    free(t->lines);
    *t = (struct rules_text)RULES_TEXT_INIT;
}
