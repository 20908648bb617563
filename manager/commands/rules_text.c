/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/rules_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/xalloc.h"
#include "kube/selector.h"
#include "json/field.h"
#include "json/json.h"

#define JOIN RULES_TEXT_JOIN
#define VALUES_MAX (SELECTOR_TEXT_MAX + 4096) /* of a selector whose text is no longer */

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

void rules_text_line(struct rules_text *t, const char *path, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    xok(vasprintf(&text, fmt, ap));
    va_end(ap);
    const char join[] = {path[0] == '\0' ? '\0' : JOIN, '\0'};
    struct rules_text_line line = {.key = xasprintf("%s%s%s", path, join, text)};
    free(text);
    line.text = line.key;
    for (const char *p = line.key; *p != '\0'; p++) {
        if (*p == JOIN) {
            line.text = p + 1;
            line.depth++;
        }
    }
    t->lines = xptr(grow_array(t->lines, t->count, &t->cap, sizeof line));
    t->lines[t->count++] = line;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct rules_text_line *)a)->key,
                  ((const struct rules_text_line *)b)->key);
}

/* Two requirements on one key share the line that their values stand below. */
void rules_text_settle(struct rules_text *t)
{
    size_t count = 0;
    if (t->count == 0) {
        return;
    }
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

static void add_values(struct rules_text *t, const char *path, const struct selector_requirement *r,
                       const char *word, bool twin)
{
    rules_text_line(t, path, "%s %s:", r->key, word);
    char *below = xstrdup(t->lines[t->count - 1].key);
    if (twin) {
        struct buf values = BUF_INIT(VALUES_MAX);
        for (size_t i = 0; i < r->value_count; i++) {
            buf_printf(&values, "%s%s", i == 0 ? "" : ",", shown(r->values[i]));
        }
        rules_text_line(t, below, "(%s)", xptr(buf_cstr(&values)));
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

static void collect_patterns(struct patterns *p, const cJSON *limits)
{
    p->items = xcalloc(count_patterns(limits) + 1, sizeof *p->items);
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
}

/* What `count` patterns of the same resource demand together; NULL: that is too large. */
static struct selector *join(const struct pattern *items, size_t count, struct err *e)
{
    struct selector **list = xcalloc(count, sizeof *list);
    for (size_t i = 0; i < count && e->code == 0; i++) {
        list[i] = selector_parse(slice_str(items[i].selector), e);
    }
    struct selector *all =
        e->code != 0 ? NULL : selector_and((const struct selector *const *)list, count, e);
    xerr(e);
    for (size_t i = 0; i < count; i++) {
        selector_free(list[i]);
    }
    free(list);
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
    rules_text_line(t, "", "%s", path);
    add_selector(t, path, selector);
    selector_free(selector);
    return 0;
}

static int add_limits(struct rules_text *t, const cJSON *limits, struct err *e)
{
    struct patterns p = {.items = NULL};
    int rc = 0;
    collect_patterns(&p, limits);
    rules_text_line(t, "", p.count > 0 ? "limits:" : "no limits: everything is visible");
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

static int add_spec(struct rules_text *t, const cJSON *spec, struct err *e)
{
    const cJSON *election = field_get(spec, "leaderElection");
    if (election != NULL) {
        const char *ns = field_text(election, "namespace");
        rules_text_line(t, "", "leader election: %s%s%s", field_text(election, "name"),
                        ns[0] == '\0' ? "" : " in namespace ", ns);
    }
    add_fields(t, "control labels:", field_get(spec, "labels"));
    add_fields(t, "webhook:", field_get(spec, "webhook"));
    return add_limits(t, field_get(spec, "limits"), e);
}

int rules_text_add(struct rules_text *t, const struct rules *rules, struct err *e)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    xok(rules_to_json(rules, &text)); /* which has room for all rules */
    cJSON *tree = xptr(json_parse((const char *)buf_data(&text), text.len, NULL));
    int rc = add_spec(t, field_get(tree, "spec"), e);
    rules_text_settle(t);
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
