/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/rules_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "kube/selector.h"
#include "json/field.h"
#include "json/json.h"

#define JOIN RULES_TEXT_JOIN
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

static void note_error(struct rules_text *t, int error)
{
    if (t->error == 0) {
        t->error = error;
    }
}

static bool make_room(struct rules_text *t)
{
    struct rules_text_line *lines = grow_array(t->lines, t->count, &t->cap, sizeof *lines);
    t->lines = lines != NULL ? lines : t->lines;
    return lines != NULL;
}

/* Takes over the key; NULL: there was no memory for it. */
static void add_key(struct rules_text *t, char *key)
{
    struct rules_text_line line = {.key = key, .text = key};
    if (key == NULL || t->error != 0 || !make_room(t)) {
        note_error(t, -ENOMEM);
        free(key);
        return;
    }
    for (char *p = key; *p != '\0'; p++) {
        if (*p == JOIN) {
            line.text = p + 1;
            line.depth++;
        }
    }
    t->lines[t->count++] = line;
}

void rules_text_line(struct rules_text *t, const char *path, const char *fmt, ...)
{
    struct buf key = BUF_INIT(KEY_MAX);
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        note_error(t, -ENOMEM);
        return;
    }
    buf_append_str(&key, path);
    if (path[0] != '\0') {
        buf_append_char(&key, JOIN);
    }
    note_error(t, buf_append_str(&key, text));
    add_key(t, buf_take_str(&key));
    buf_reset(&key);
    free(text);
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

int rules_text_settle(struct rules_text *t, struct err *e)
{
    if (t->error == 0 && t->count > 0) {
        sort_lines(t);
    } else if (t->error != 0 && e->code == 0) {
        (void)err_set(e, t->error, "%s", err_text(t->error));
    }
    return t->error;
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

static void add_values(struct rules_text *t, const char *path, const struct selector_requirement *r,
                       const char *word, bool twin)
{
    rules_text_line(t, path, "%s %s:", r->key, word);
    char *below = t->error == 0 ? strdup(t->lines[t->count - 1].key) : NULL;
    if (below == NULL) {
        note_error(t, -ENOMEM);
        return;
    }
    if (twin) {
        struct buf values = BUF_INIT(KEY_MAX);
        for (size_t i = 0; i < r->value_count; i++) {
            buf_printf(&values, "%s%s", i == 0 ? "" : ",", shown(r->values[i]));
        }
        const char *text = buf_cstr(&values);
        note_error(t, text == NULL ? -ENOMEM : 0);
        rules_text_line(t, below, "(%s)", text == NULL ? "" : text);
        buf_reset(&values);
    }
    for (size_t i = 0; i < r->value_count && !twin; i++) {
        rules_text_line(t, below, "%s", shown(r->values[i]));
    }
    free(below);
}

static void add_requirement(struct rules_text *t, const char *path,
                            const struct selector_requirement *r, bool twin)
{
    static const char *const signs[] = {
        [SELECTOR_EQUALS] = "=",  [SELECTOR_DOUBLE_EQUALS] = "=", [SELECTOR_NOT_EQUALS] = "!=",
        [SELECTOR_GREATER] = ">", [SELECTOR_LESS] = "<",
    };
    switch (r->op) {
    case SELECTOR_EXISTS:
        rules_text_line(t, path, "%s", r->key);
        break;
    case SELECTOR_NOT_EXISTS:
        rules_text_line(t, path, "!%s", r->key);
        break;
    case SELECTOR_IN:
        add_values(t, path, r, "in", twin);
        break;
    case SELECTOR_NOT_IN:
        add_values(t, path, r, "notin", twin);
        break;
    case SELECTOR_EQUALS:
    case SELECTOR_DOUBLE_EQUALS:
    case SELECTOR_NOT_EQUALS:
    case SELECTOR_GREATER:
    case SELECTOR_LESS:
        rules_text_line(t, path, "%s%s%s", r->key, signs[r->op],
                        r->value_count == 0 ? "" : shown(r->values[0]));
        break;
    }
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

static void add_selector(struct rules_text *t, const char *path, const struct selector *s)
{
    size_t count;
    const struct selector_requirement *list = selector_requirements(s, &count);
    if (is_nothing(list, count)) {
        rules_text_line(t, path, "nothing");
        return;
    }
    if (count == 0) {
        rules_text_line(t, path, "everything");
    }
    for (size_t i = 0; i < count; i++) {
        add_requirement(t, path, &list[i], has_twin(list, count, &list[i]));
    }
}

/* ---- limits ---- */

static int compare_patterns(const void *a, const void *b)
{
    const struct pattern *left = a;
    const struct pattern *right = b;
    int order = strcmp(left->resource, right->resource);
    return order != 0 ? order : strcmp(left->group, right->group);
}

static size_t count_patterns(const cJSON *limits)
{
    size_t count = 0;
    const cJSON *limit;
    cJSON_ArrayForEach(limit, limits)
    {
        count += (size_t)cJSON_GetArraySize(field_get(limit, "apiGroups")) *
                 (size_t)cJSON_GetArraySize(field_get(limit, "resources"));
    }
    return count;
}

static int collect_patterns(struct patterns *p, const cJSON *limits)
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
        cJSON_ArrayForEach(group, field_get(limit, "apiGroups"))
        {
            cJSON_ArrayForEach(resource, field_get(limit, "resources"))
            {
                p->items[p->count++] = (struct pattern){.group = group->valuestring,
                                                        .resource = resource->valuestring,
                                                        .selector = field_text(limit, "selector")};
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

static void add_pattern(struct rules_text *t, const struct pattern *items, size_t count,
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
        note_error(t, e->code);
        return;
    }
    rules_text_line(t, "", "%s", path);
    add_selector(t, path, selector);
    selector_free(selector);
}

static void add_limits(struct rules_text *t, const cJSON *limits, struct err *e)
{
    struct patterns p = {.items = NULL};
    note_error(t, collect_patterns(&p, limits));
    rules_text_line(t, "", p.count > 0 ? "limits:" : "no limits: everything is visible");
    for (size_t i = 0, n; i < p.count && t->error == 0; i += n) {
        for (n = 1; i + n < p.count && compare_patterns(&p.items[i], &p.items[i + n]) == 0; n++) {
        }
        add_pattern(t, &p.items[i], n, e);
    }
    free(p.items);
}

/* ---- all ---- */

/* "webhook:" and below it each of its fields. */
static void add_fields(struct rules_text *t, const char *title, const cJSON *fields)
{
    if (fields != NULL) {
        rules_text_line(t, "", "%s", title);
    }
    const cJSON *field;
    cJSON_ArrayForEach(field, fields)
    {
        if (cJSON_IsNumber(field)) {
            rules_text_line(t, title, "%s: %.0f", field->string, field->valuedouble);
        } else {
            rules_text_line(t, title, "%s: %s", field->string, field->valuestring);
        }
    }
}

static void add_spec(struct rules_text *t, const cJSON *spec, struct err *e)
{
    const cJSON *election = field_get(spec, "leaderElection");
    if (election != NULL) {
        const char *ns = field_text(election, "namespace");
        rules_text_line(t, "", "leader election: %s%s%s", field_text(election, "name"),
                        ns[0] == '\0' ? "" : " in namespace ", ns);
    }
    add_fields(t, "control labels:", field_get(spec, "labels"));
    add_fields(t, "webhook:", field_get(spec, "webhook"));
    add_limits(t, field_get(spec, "limits"), e);
}

int rules_text_add(struct rules_text *t, const struct rules *rules, struct err *e)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    note_error(t, rules_to_json(rules, &text));
    cJSON *tree = t->error == 0 ? json_parse((const char *)buf_data(&text), text.len, e) : NULL;
    if (tree != NULL) {
        add_spec(t, field_get(tree, "spec"), e);
    } else {
        note_error(t, e->code);
    }
    int rc = rules_text_settle(t, e);
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
