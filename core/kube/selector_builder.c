/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/selector_builder.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/decimal.h"
#include "kube/name.h"

/* Each string has a NUL where the text had a separator, each value takes a separator at least. */
#define TEXT_MAX ((size_t)2 * SELECTOR_TEXT_MAX)
#define VALUES_MAX ((size_t)SELECTOR_TEXT_MAX * sizeof(size_t))

void selector_builder_init(struct selector_builder *b)
{
    buf_init(&b->text, TEXT_MAX);
    buf_init(&b->values, VALUES_MAX);
    buf_init(&b->items, SELECTOR_REQUIREMENTS_MAX * sizeof(struct selector_draft));
}

void selector_builder_deinit(struct selector_builder *b)
{
    buf_reset(&b->text);
    buf_reset(&b->values);
    buf_reset(&b->items);
}

static int too_big(int rc)
{
    return rc == -ENOBUFS ? -E2BIG : rc;
}

/* Appends a string; its position goes to `at`. */
static int add_text(struct selector_builder *b, struct slice s, size_t *at)
{
    *at = b->text.len;
    buf_append(&b->text, s.ptr, s.len);
    return too_big(buf_append_char(&b->text, '\0'));
}

int selector_builder_open(struct selector_builder *b, struct slice key, enum selector_op op,
                          const char **why)
{
    *why = name_check_qualified(key);
    if (*why != NULL) {
        return -EINVAL;
    }
    struct selector_draft d = {.op = op, .first_value = b->values.len / sizeof(size_t)};
    int rc = add_text(b, key, &d.key);
    return rc == 0 ? too_big(buf_append(&b->items, &d, sizeof d)) : rc;
}

int selector_builder_value(struct selector_builder *b, struct slice value, const char **why)
{
    struct selector_draft *d = (struct selector_draft *)(void *)(b->items.base + b->items.len) - 1;
    int64_t ignored;
    if ((d->op == SELECTOR_GREATER || d->op == SELECTOR_LESS) && !decimal_parse(value, &ignored)) {
        *why = "for 'Gt', 'Lt' operators, the value must be an integer";
        return -EINVAL;
    }
    *why = name_check_value(value);
    if (*why != NULL) {
        return -EINVAL;
    }
    if (d->value_count == SELECTOR_VALUES_MAX) {
        return -E2BIG;
    }
    size_t at;
    int rc = add_text(b, value, &at);
    if (rc == 0) {
        rc = too_big(buf_append(&b->values, &at, sizeof at));
    }
    if (rc == 0) {
        d->value_count++;
    }
    return rc;
}

int selector_builder_compare(const struct selector_requirement *x,
                             const struct selector_requirement *y)
{
    int order = strcmp(x->key, y->key);
    if (order == 0) {
        order = (x->op > y->op) - (x->op < y->op);
    }
    for (size_t i = 0; order == 0 && i < x->value_count && i < y->value_count; i++) {
        order = strcmp(x->values[i], y->values[i]);
    }
    return order != 0 ? order
                      : (x->value_count > y->value_count) - (x->value_count < y->value_count);
}

static int compare_requirements(const void *a, const void *b)
{
    return selector_builder_compare(a, b);
}

/* As they are in canonical text. */
static bool is_sorted(const struct selector_requirement *r)
{
    size_t i = 1;
    while (i < r->value_count && strcmp(r->values[i - 1], r->values[i]) < 0) {
        i++;
    }
    return i >= r->value_count;
}

static void sort_values(struct selector_requirement *r)
{
    if (is_sorted(r)) {
        return;
    }
    qsort(r->values, r->value_count, sizeof(char *), array_compare_texts);
    size_t kept = 1;
    for (size_t i = 1; i < r->value_count; i++) {
        if (strcmp(r->values[i], r->values[kept - 1]) != 0) {
            r->values[kept++] = r->values[i];
        }
    }
    r->value_count = kept;
}

static void drop_doubles(struct selector *s)
{
    size_t kept = s->count > 0;
    for (size_t i = 1; i < s->count; i++) {
        if (compare_requirements(&s->items[i], &s->items[kept - 1]) != 0) {
            s->items[kept++] = s->items[i];
        }
    }
    s->count = kept;
}

void selector_builder_merge(struct selector *s)
{
    if (s->count > 1) {
        qsort(s->items, s->count, sizeof s->items[0], compare_requirements);
    }
    drop_doubles(s);
}

/* One block of memory holds it all: requirements, then pointers to values, then the text. */
static struct selector *lay_out(const struct selector_builder *b)
{
    size_t count = b->items.len / sizeof(struct selector_draft);
    size_t value_count = b->values.len / sizeof(size_t);
    struct selector *s =
        malloc(sizeof *s + count * sizeof s->items[0] + value_count * sizeof(char *) + b->text.len);
    if (s == NULL) {
        return NULL;
    }
    const char **values = (const char **)(void *)(s->items + count);
    char *text = (char *)(values + value_count);
    if (b->text.len > 0) {
        memcpy(text, b->text.base, b->text.len);
    }
    const size_t *positions = (const size_t *)(const void *)b->values.base;
    for (size_t i = 0; i < value_count; i++) {
        values[i] = text + positions[i];
    }
    const struct selector_draft *drafts =
        (const struct selector_draft *)(const void *)b->items.base;
    for (size_t i = 0; i < count; i++) {
        s->items[i] = (struct selector_requirement){.key = text + drafts[i].key,
                                                    .op = drafts[i].op,
                                                    .values = values + drafts[i].first_value,
                                                    .value_count = drafts[i].value_count};
    }
    s->count = count;
    return s;
}

struct selector *selector_builder_finish(struct selector_builder *b, bool merge)
{
    struct selector *s = lay_out(b);
    selector_builder_deinit(b);
    if (s == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < s->count; i++) {
        sort_values(&s->items[i]);
    }
    if (s->count > 1) {
        qsort(s->items, s->count, sizeof s->items[0], compare_requirements);
    }
    if (merge) {
        drop_doubles(s);
    }
    return s;
}
