/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors from metav1.LabelSelector objects. */
#include <errno.h>
#include <stdio.h>

#include "base/array.h"
#include "kube/selector.h"
#include "kube/selector_builder.h"
#include "json/field.h"

#define PATH_MAX_LEN 256

struct source {
    const char *path;
    struct selector_builder *builder;
    struct err *e;
    bool nothing; /* an In with an empty list was seen */
};

static int built(struct source *s, int rc, const char *field, const char *value, const char *why)
{
    if (rc == -EINVAL) {
        return field_invalid(s->e, s->path, field, value, why);
    }
    if (rc != 0) {
        (void)err_set(s->e, rc, "%s: %s", s->path,
                      rc == -E2BIG ? "the selector is too large" : "out of memory");
    }
    return rc;
}

static int add_match_label(struct source *s, const cJSON *item)
{
    if (!cJSON_IsString(item)) {
        return err_set(s->e, -EINVAL, "%s.matchLabels[%.100s]: Invalid value: must be a string",
                       s->path, item->string);
    }
    const char *why = NULL;
    int rc = selector_builder_open(s->builder, slice_str(item->string), SELECTOR_EQUALS, &why);
    if (rc != 0) {
        return built(s, rc, "matchLabels", item->string, why);
    }
    rc = selector_builder_value(s->builder, slice_str(item->valuestring), &why);
    return built(s, rc, "matchLabels", item->valuestring, why);
}

static int add_match_labels(struct source *s, const cJSON *labels)
{
    if (labels == NULL || cJSON_IsNull(labels)) {
        return 0;
    }
    if (!cJSON_IsObject(labels)) {
        return field_wrong_type(s->e, s->path, "matchLabels", "an object");
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, labels)
    {
        int rc = add_match_label(s, item);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int read_operator(struct source *s, const cJSON *item, enum selector_op *op)
{
    static const struct {
        const char *name;
        enum selector_op op;
    } operators[] = {{"In", SELECTOR_IN},
                     {"NotIn", SELECTOR_NOT_IN},
                     {"Exists", SELECTOR_EXISTS},
                     {"DoesNotExist", SELECTOR_NOT_EXISTS}};
    if (item == NULL) {
        return err_set(s->e, -EINVAL, "%s.operator: Required value", s->path);
    }
    if (!cJSON_IsString(item)) {
        return field_wrong_type(s->e, s->path, "operator", "a string");
    }
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        if (strcmp(item->valuestring, operators[i].name) == 0) {
            *op = operators[i].op;
            return 0;
        }
    }
    return field_invalid(s->e, s->path, "operator", item->valuestring,
                         "not a valid selector operator (In, NotIn, Exists or DoesNotExist)");
}

static int check_values(struct source *s, enum selector_op op, const cJSON *values)
{
    bool given = values != NULL && !cJSON_IsNull(values);
    if (given && !cJSON_IsArray(values)) {
        return field_wrong_type(s->e, s->path, "values", "an array");
    }
    bool empty = !given || values->child == NULL;
    if (op == SELECTOR_EXISTS || op == SELECTOR_NOT_EXISTS) {
        return empty ? 0
                     : err_set(s->e, -EINVAL,
                               "%s.values: Forbidden: may not be specified when `operator` is "
                               "'Exists' or 'DoesNotExist'",
                               s->path);
    }
    /* An empty list that was written out means that nothing is in it. For NotIn that would be
     * everything, which nobody should get by an empty list. */
    if (empty && !(given && op == SELECTOR_IN)) {
        return err_set(s->e, -EINVAL,
                       "%s.values: Required value: must be specified when `operator` is 'In' or "
                       "'NotIn'",
                       s->path);
    }
    s->nothing = s->nothing || (empty && op == SELECTOR_IN);
    return 0;
}

static int add_values(struct source *s, const cJSON *values)
{
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, values)
    {
        char field[32];
        (void)snprintf(field, sizeof field, "values[%zu]", i++);
        if (!cJSON_IsString(item)) {
            return field_wrong_type(s->e, s->path, field, "a string");
        }
        const char *why = NULL;
        int rc = selector_builder_value(s->builder, slice_str(item->valuestring), &why);
        if (rc != 0) {
            return built(s, rc, field, item->valuestring, why);
        }
    }
    return 0;
}

static int add_expression(struct source *s, const cJSON *expression)
{
    static const char *const known[] = {"key", "operator", "values", NULL};
    if (!cJSON_IsObject(expression)) {
        return err_set(s->e, -EINVAL, "%s: Invalid value: must be an object", s->path);
    }
    int rc = field_known(expression, s->path, known, s->e);
    enum selector_op op = SELECTOR_EXISTS;
    if (rc == 0) {
        rc = read_operator(s, cJSON_GetObjectItemCaseSensitive(expression, "operator"), &op);
    }
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(expression, "values");
    if (rc == 0) {
        rc = check_values(s, op, values);
    }
    if (rc != 0) {
        return rc;
    }
    const cJSON *key = cJSON_GetObjectItemCaseSensitive(expression, "key");
    if (!cJSON_IsString(key)) {
        return key == NULL ? err_set(s->e, -EINVAL, "%s.key: Required value", s->path)
                           : field_wrong_type(s->e, s->path, "key", "a string");
    }
    const char *why = NULL;
    rc = selector_builder_open(s->builder, slice_str(key->valuestring), op, &why);
    return rc != 0 ? built(s, rc, "key", key->valuestring, why) : add_values(s, values);
}

static int add_expressions(struct source *s, const cJSON *expressions)
{
    if (expressions == NULL || cJSON_IsNull(expressions)) {
        return 0;
    }
    if (!cJSON_IsArray(expressions)) {
        return field_wrong_type(s->e, s->path, "matchExpressions", "an array");
    }
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, expressions)
    {
        char path[PATH_MAX_LEN];
        (void)snprintf(path, sizeof path, "%s.matchExpressions[%zu]", s->path, i++);
        struct source inner = *s;
        inner.path = path;
        int rc = add_expression(&inner, item);
        s->nothing = inner.nothing;
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static struct selector *build_selector(struct source *s)
{
    if (s->nothing) {
        selector_builder_deinit(s->builder);
    }
    struct selector *made =
        s->nothing ? selector_nothing() : selector_builder_finish(s->builder, false);
    if (made == NULL) {
        (void)err_memory(s->e);
    }
    return made;
}

struct selector *selector_from_label_selector(const cJSON *object, const char *path, struct err *e)
{
    static const char *const known[] = {"matchLabels", "matchExpressions", NULL};
    struct selector_builder b;
    struct source s = {.path = path, .builder = &b, .e = e, .nothing = cJSON_IsNull(object)};
    if (!cJSON_IsObject(object) && !s.nothing) {
        (void)err_set(e, -EINVAL, "%s: Invalid value: must be an object", path);
        return NULL;
    }
    selector_builder_init(&b);
    int rc = field_known(object, s.path, known, s.e);
    if (rc == 0) {
        rc = add_match_labels(&s, cJSON_GetObjectItemCaseSensitive(object, "matchLabels"));
    }
    if (rc == 0) {
        rc = add_expressions(&s, cJSON_GetObjectItemCaseSensitive(object, "matchExpressions"));
    }
    if (rc != 0) {
        selector_builder_deinit(&b);
        return NULL;
    }
    return build_selector(&s);
}
