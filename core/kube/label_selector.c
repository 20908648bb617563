/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors from metav1.LabelSelector objects. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "kube/selector.h"
#include "kube/selector_builder.h"
#include "schema/schema.h"

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

struct expression {
    const char *key;
    unsigned operator;
    const cJSON *values;
};

static const char *const operators[] = {"In", "NotIn", "Exists", "DoesNotExist", NULL};
static const enum selector_op ops[] = {SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS,
                                       SELECTOR_NOT_EXISTS};
static const struct schema_field expression_fields[] = {
    {"key", SCHEMA_TEXT, SCHEMA_MEMBER(struct expression, key), .required = "",
     .flags = SCHEMA_EMPTY},
    {"operator", SCHEMA_WORD, SCHEMA_MEMBER(struct expression, operator), .required = "",
     .words = operators},
    {"values", SCHEMA_TREE, SCHEMA_MEMBER(struct expression, values)},
};
static const struct schema_object expression_object = {
    SCHEMA_OBJECT_OF(expression_fields, struct expression)};

struct parts {
    const cJSON *labels;
    const cJSON *expressions;
};

static const struct schema_field parts_fields[] = {
    {"matchLabels", SCHEMA_TREE, SCHEMA_MEMBER(struct parts, labels)},
    {"matchExpressions", SCHEMA_TREE, SCHEMA_MEMBER(struct parts, expressions)},
};
static const struct schema_object parts_object = {SCHEMA_OBJECT_OF(parts_fields, struct parts)};

static bool read_object(struct source *s, const struct schema_object *o, const cJSON *item,
                        void *out)
{
    struct schema_reader r = {.memory = NULL};
    const struct schema_path at = SCHEMA_AT(NULL, s->path, item);
    if (s->e->code == 0 && schema_read(&r, o, &at, out) != 0) {
        err_set(s->e, r.first.code, "%s", r.first.msg);
    }
    return s->e->code == 0;
}

static void add_expression(struct source *s, const cJSON *item)
{
    struct expression x = {.values = NULL};
    if (read_object(s, &expression_object, item, &x)) {
        check_values(s, ops[x.operator], x.values);
        open_requirement(s, "key", x.key, ops[x.operator]);
        add_values(s, x.values);
    }
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
    struct parts parts = {.labels = NULL};
    struct selector_builder b;
    struct err why = ERR_INIT;
    struct source s = {.path = path, .builder = &b, .e = &why, .nothing = cJSON_IsNull(object)};
    selector_builder_init(&b);
    if (!s.nothing && read_object(&s, &parts_object, object, &parts)) {
        add_match_labels(&s, parts.labels);
        add_expressions(&s, parts.expressions);
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
