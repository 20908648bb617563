/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors from metav1.LabelSelector objects. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/array.h"
#include "kube/selector.h"
#include "kube/selector_builder.h"
#include "json/field.h"

#define PATH_MAX_LEN 256

/* The first error stays in `e`: a series of these needs one look at it at its end. */
struct source {
    const char *path;
    struct selector_builder *builder;
    struct err *e;
    bool nothing; /* an In with an empty list was seen */
};

static void __attribute__((format(printf, 2, 3))) fail(struct source *s, const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (s->e->code == 0) {
        err_set(s->e, -EINVAL, "%s%s", s->path, text);
    }
}

/* What the builder said of a key or a value. */
static void note_built(struct source *s, int rc, const char *field, const char *value,
                       const char *why)
{
    if (rc == -EINVAL) {
        fail(s, ".%s: Invalid value: \"%.100s\": %s", field, value, why);
    } else if (rc != 0 && s->e->code == 0) {
        err_set(s->e, rc, "%s: %s", s->path,
                rc == -E2BIG ? "the selector is too large" : "out of memory");
    }
}

static void open_requirement(struct source *s, const char *field, const char *key,
                             enum selector_op op)
{
    if (s->e->code == 0) {
        const char *why = NULL;
        int rc = selector_builder_open(s->builder, slice_str(key), op, &why);
        note_built(s, rc, field, key, why);
    }
}

static void add_value(struct source *s, const char *field, const char *value)
{
    if (s->e->code == 0) {
        const char *why = NULL;
        int rc = selector_builder_value(s->builder, slice_str(value), &why);
        note_built(s, rc, field, value, why);
    }
}

static void add_match_labels(struct source *s, const cJSON *labels)
{
    const cJSON *item;
    if (labels != NULL && !cJSON_IsObject(labels)) {
        fail(s, ".matchLabels: Invalid value: must be an object");
        return;
    }
    cJSON_ArrayForEach(item, labels)
    {
        if (!cJSON_IsString(item)) {
            fail(s, ".matchLabels[%.100s]: Invalid value: must be a string", item->string);
            return;
        }
        open_requirement(s, "matchLabels", item->string, SELECTOR_EQUALS);
        add_value(s, "matchLabels", item->valuestring);
    }
}

static enum selector_op read_operator(struct source *s, const cJSON *item)
{
    static const struct {
        const char *name;
        enum selector_op op;
    } operators[] = {{"In", SELECTOR_IN},
                     {"NotIn", SELECTOR_NOT_IN},
                     {"Exists", SELECTOR_EXISTS},
                     {"DoesNotExist", SELECTOR_NOT_EXISTS}};
    for (size_t i = 0; cJSON_IsString(item) && i < ARRAY_LEN(operators); i++) {
        if (strcmp(item->valuestring, operators[i].name) == 0) {
            return operators[i].op;
        }
    }
    if (item == NULL) {
        fail(s, ".operator: Required value");
    } else if (!cJSON_IsString(item)) {
        fail(s, ".operator: Invalid value: must be a string");
    } else {
        fail(s,
             ".operator: Invalid value: \"%.100s\": not a valid selector operator (In, NotIn, "
             "Exists or DoesNotExist)",
             item->valuestring);
    }
    return SELECTOR_EXISTS;
}

static void check_values(struct source *s, enum selector_op op, const cJSON *values)
{
    bool empty = values == NULL || values->child == NULL;
    if (values != NULL && !cJSON_IsArray(values)) {
        fail(s, ".values: Invalid value: must be an array");
    } else if (op == SELECTOR_EXISTS || op == SELECTOR_NOT_EXISTS) {
        if (!empty) {
            fail(s, ".values: Forbidden: may not be specified when `operator` is 'Exists' or "
                    "'DoesNotExist'");
        }
    } else if (empty && (values == NULL || op != SELECTOR_IN)) {
        /* An empty list that was written out means that nothing is in it. For NotIn that would be
         * everything, which nobody should get by an empty list. */
        fail(s, ".values: Required value: must be specified when `operator` is 'In' or 'NotIn'");
    } else if (empty) {
        s->nothing = true;
    }
}

static void add_values(struct source *s, const cJSON *values)
{
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, values)
    {
        char field[32];
        (void)snprintf(field, sizeof field, "values[%zu]", i++);
        if (!cJSON_IsString(item)) {
            fail(s, ".%s: Invalid value: must be a string", field);
            return;
        }
        add_value(s, field, item->valuestring);
    }
}

static void add_expression(struct source *s, const cJSON *expression)
{
    static const char *const known[] = {"key", "operator", "values", NULL};
    if (!cJSON_IsObject(expression)) {
        fail(s, ": Invalid value: must be an object");
    }
    if (s->e->code != 0 || field_known(expression, s->path, known, s->e) != 0) {
        return;
    }
    const cJSON *key = cJSON_GetObjectItemCaseSensitive(expression, "key");
    const cJSON *values = field_get(expression, "values");
    enum selector_op op =
        read_operator(s, cJSON_GetObjectItemCaseSensitive(expression, "operator"));
    check_values(s, op, values);
    if (!cJSON_IsString(key)) {
        fail(s, key == NULL ? ".key: Required value" : ".key: Invalid value: must be a string");
        return;
    }
    open_requirement(s, "key", key->valuestring, op);
    add_values(s, values);
}

static void add_expressions(struct source *s, const cJSON *expressions)
{
    size_t i = 0;
    const cJSON *item;
    if (expressions != NULL && !cJSON_IsArray(expressions)) {
        fail(s, ".matchExpressions: Invalid value: must be an array");
        return;
    }
    cJSON_ArrayForEach(item, expressions)
    {
        char path[PATH_MAX_LEN];
        (void)snprintf(path, sizeof path, "%s.matchExpressions[%zu]", s->path, i++);
        struct source inner = *s;
        inner.path = path;
        add_expression(&inner, item);
        s->nothing = inner.nothing;
    }
}

struct selector *selector_from_label_selector(const cJSON *object, const char *path, struct err *e)
{
    static const char *const known[] = {"matchLabels", "matchExpressions", NULL};
    struct selector_builder b;
    struct err why = ERR_INIT;
    struct source s = {.path = path, .builder = &b, .e = &why, .nothing = cJSON_IsNull(object)};
    selector_builder_init(&b);
    if (!cJSON_IsObject(object) && !s.nothing) {
        fail(&s, ": Invalid value: must be an object");
    } else if (field_known(object, s.path, known, &why) == 0) {
        add_match_labels(&s, field_get(object, "matchLabels"));
        add_expressions(&s, field_get(object, "matchExpressions"));
    }
    if (why.code != 0 || s.nothing) {
        selector_builder_deinit(&b);
    }
    if (why.code != 0) {
        err_set(e, why.code, "%s", why.msg);
        return NULL;
    }
    struct selector *made = s.nothing ? selector_nothing() : selector_builder_finish(&b, false);
    if (made == NULL) {
        err_memory(e);
    }
    return made;
}
