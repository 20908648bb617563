/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/selector.h"

#include <errno.h>
#include <stdlib.h>

#include "base/ascii.h"
#include "base/decimal.h"
#include "base/heap_size.h"
#include "kube/selector_builder.h"

enum token_kind {
    TOKEN_END,
    TOKEN_WORD, /* `in` and `notin` too: the parser decides by place */
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_COMMA,
    TOKEN_NOT,
    TOKEN_EQUALS,
    TOKEN_DOUBLE_EQUALS,
    TOKEN_NOT_EQUALS,
    TOKEN_GREATER,
    TOKEN_LESS,
};

struct token {
    enum token_kind kind;
    struct slice text;
    size_t at; /* position in the selector */
};

struct parser {
    struct slice text;
    size_t pos;
    struct token next; /* looked at, not consumed */
    struct selector_builder *builder;
    struct err *e;
};

static enum token_kind symbol_kind(char c)
{
    switch (c) {
    case '(':
        return TOKEN_OPEN;
    case ')':
        return TOKEN_CLOSE;
    case ',':
        return TOKEN_COMMA;
    case '!':
        return TOKEN_NOT;
    case '=':
        return TOKEN_EQUALS;
    case '>':
        return TOKEN_GREATER;
    case '<':
        return TOKEN_LESS;
    default:
        return TOKEN_END;
    }
}

static size_t symbol_end(const struct parser *p, size_t start, enum token_kind *kind)
{
    char c = p->text.ptr[start];
    if (start + 1 < p->text.len && p->text.ptr[start + 1] == '=' && (c == '=' || c == '!')) {
        *kind = c == '=' ? TOKEN_DOUBLE_EQUALS : TOKEN_NOT_EQUALS;
        return start + 2;
    }
    *kind = symbol_kind(c);
    return start + 1;
}

static size_t word_end(const struct parser *p, size_t start)
{
    size_t i = start;
    while (i < p->text.len && p->text.ptr[i] != '\0' && !ascii_is_space(p->text.ptr[i]) &&
           symbol_kind(p->text.ptr[i]) == TOKEN_END) {
        i++;
    }
    return i;
}

/* Kubernetes' lexer takes a NUL where a token could begin for the end, and swallows one that ends a
 * token. */
static void lex(struct parser *p)
{
    while (p->pos < p->text.len && ascii_is_space(p->text.ptr[p->pos])) {
        p->pos++;
    }
    struct token t = {.kind = TOKEN_END, .at = p->pos, .text = SLICE("")};
    if (p->pos < p->text.len && p->text.ptr[p->pos] != '\0') {
        size_t end;
        if (symbol_kind(p->text.ptr[p->pos]) != TOKEN_END) {
            end = symbol_end(p, p->pos, &t.kind);
        } else {
            t.kind = TOKEN_WORD;
            end = word_end(p, p->pos);
        }
        t.text = slice_of(p->text.ptr + p->pos, end - p->pos);
        p->pos = end < p->text.len && p->text.ptr[end] == '\0' ? end + 1 : end;
    } else {
        p->pos = p->text.len;
    }
    p->next = t;
}

static struct token consume(struct parser *p)
{
    struct token t = p->next;
    lex(p);
    return t;
}

/* Texts of others go into messages: bounded, and only what prints. */
static int fail_unexpected(struct parser *p, struct token t, const char *expected)
{
    if (t.kind == TOKEN_END) {
        return err_set(p->e, -EINVAL, "position %zu: the selector ends, expected %s", t.at + 1,
                       expected);
    }
    char shown[41];
    size_t n = 0;
    for (; n < t.text.len && n < sizeof shown - 1; n++) {
        char c = t.text.ptr[n];
        shown[n] = (char)(c > ' ' && c < 0x7f ? c : '?');
    }
    shown[n] = '\0';
    return err_set(p->e, -EINVAL, "position %zu: found '%s', expected %s", t.at + 1, shown,
                   expected);
}

static int fail_refused(struct parser *p, struct token t, int rc, const char *what, const char *why)
{
    if (rc == -EINVAL) {
        return err_set(p->e, rc, "position %zu: invalid label %s: %s", t.at + 1, what, why);
    }
    return err_set(p->e, rc, "position %zu: %s", t.at + 1,
                   rc == -E2BIG ? "the selector is too large" : "out of memory");
}

static int add_value(struct parser *p, struct token t)
{
    const char *why = NULL;
    int rc = selector_builder_value(p->builder, t.text, &why);
    return rc == 0 ? 0 : fail_refused(p, t, rc, "value", why);
}

static int add_empty_value(struct parser *p)
{
    struct token t = {.kind = TOKEN_WORD, .text = SLICE(""), .at = p->next.at};
    return add_value(p, t);
}

/* What stands behind a comma in a list: `(,a)`, `(a,,b)` and `(a,)` hold the empty value. */
static int parse_list_comma(struct parser *p, bool first)
{
    int rc = first || p->next.kind == TOKEN_CLOSE || p->next.kind == TOKEN_COMMA
                 ? add_empty_value(p)
                 : 0;
    if (p->next.kind == TOKEN_COMMA) {
        (void)consume(p);
    }
    return rc;
}

/* One quirk is kept: after `,,` another value or comma must follow, so `(a,,)` is an error. */
static int parse_list(struct parser *p)
{
    bool first = true;
    while (true) {
        struct token t = consume(p);
        int rc = 0;
        if (t.kind == TOKEN_WORD) {
            rc = add_value(p, t);
            if (rc == 0 && p->next.kind != TOKEN_COMMA && p->next.kind != TOKEN_CLOSE) {
                rc = fail_unexpected(p, p->next, "',' or ')'");
            }
        } else if (t.kind == TOKEN_COMMA) {
            bool last = p->next.kind == TOKEN_CLOSE;
            rc = parse_list_comma(p, first);
            if (rc == 0 && !last) {
                first = false;
                continue;
            }
        } else {
            rc = fail_unexpected(p, t, "',' or a value");
        }
        if (rc != 0 || p->next.kind == TOKEN_CLOSE) {
            return rc;
        }
        first = false;
    }
}

static int parse_values(struct parser *p)
{
    struct token t = consume(p);
    if (t.kind != TOKEN_OPEN) {
        return fail_unexpected(p, t, "'('");
    }
    int rc = p->next.kind == TOKEN_CLOSE ? add_empty_value(p) : parse_list(p);
    if (rc == 0) {
        (void)consume(p);
    }
    return rc;
}

static int parse_exact_value(struct parser *p)
{
    if (p->next.kind == TOKEN_END || p->next.kind == TOKEN_COMMA) {
        return add_empty_value(p);
    }
    struct token t = consume(p);
    return t.kind == TOKEN_WORD ? add_value(p, t) : fail_unexpected(p, t, "a value");
}

static int operator_of(struct parser *p, struct token t, enum selector_op *op)
{
    switch (t.kind) {
    case TOKEN_EQUALS:
        *op = SELECTOR_EQUALS;
        return 0;
    case TOKEN_DOUBLE_EQUALS:
        *op = SELECTOR_DOUBLE_EQUALS;
        return 0;
    case TOKEN_NOT_EQUALS:
        *op = SELECTOR_NOT_EQUALS;
        return 0;
    case TOKEN_GREATER:
        *op = SELECTOR_GREATER;
        return 0;
    case TOKEN_LESS:
        *op = SELECTOR_LESS;
        return 0;
    default:
        break;
    }
    if (t.kind == TOKEN_WORD && slice_eq(t.text, SLICE("in"))) {
        *op = SELECTOR_IN;
        return 0;
    }
    if (t.kind == TOKEN_WORD && slice_eq(t.text, SLICE("notin"))) {
        *op = SELECTOR_NOT_IN;
        return 0;
    }
    return fail_unexpected(p, t, "'=', '==', '!=', '>', '<', 'in' or 'notin'");
}

static int open_requirement(struct parser *p, struct token key, enum selector_op op)
{
    const char *why = NULL;
    int rc = selector_builder_open(p->builder, key.text, op, &why);
    return rc == 0 ? 0 : fail_refused(p, key, rc, "key", why);
}

static int parse_requirement(struct parser *p)
{
    struct token key = consume(p);
    bool negated = key.kind == TOKEN_NOT;
    if (negated) {
        key = consume(p);
    }
    if (key.kind != TOKEN_WORD) {
        return fail_unexpected(p, key, "a label key");
    }
    if (negated || p->next.kind == TOKEN_END || p->next.kind == TOKEN_COMMA) {
        return open_requirement(p, key, negated ? SELECTOR_NOT_EXISTS : SELECTOR_EXISTS);
    }
    enum selector_op op = SELECTOR_EXISTS;
    int rc = operator_of(p, consume(p), &op);
    if (rc == 0) {
        rc = open_requirement(p, key, op);
    }
    if (rc == 0) {
        rc = op == SELECTOR_IN || op == SELECTOR_NOT_IN ? parse_values(p) : parse_exact_value(p);
    }
    return rc;
}

static int parse_requirements(struct parser *p)
{
    lex(p);
    if (p->next.kind == TOKEN_END) {
        return 0;
    }
    while (true) {
        if (p->next.kind != TOKEN_WORD && p->next.kind != TOKEN_NOT) {
            return fail_unexpected(p, p->next, "'!' or a label key");
        }
        int rc = parse_requirement(p);
        if (rc != 0) {
            return rc;
        }
        struct token t = consume(p);
        if (t.kind == TOKEN_END) {
            return 0;
        }
        if (t.kind != TOKEN_COMMA) {
            return fail_unexpected(p, t, "',' or the end");
        }
    }
}

static struct selector *build_selector(struct selector_builder *b, bool merge, struct err *e)
{
    struct selector *s = selector_builder_finish(b, merge);
    if (s == NULL) {
        (void)err_memory(e);
    }
    return s;
}

struct selector *selector_parse(struct slice text, struct err *e)
{
    if (text.len > SELECTOR_TEXT_MAX) {
        (void)err_set(e, -E2BIG, "the selector is longer than %d bytes", SELECTOR_TEXT_MAX);
        return NULL;
    }
    struct selector_builder b;
    selector_builder_init(&b);
    struct parser p = {.text = text, .builder = &b, .e = e};
    if (parse_requirements(&p) != 0) {
        selector_builder_deinit(&b);
        return NULL;
    }
    return build_selector(&b, false, e);
}

struct selector *selector_nothing(void)
{
    return selector_parse(SLICE(SELECTOR_NOTHING), NULL);
}

static int add_requirement(struct selector_builder *b, const struct selector_requirement *r)
{
    const char *why;
    int rc = selector_builder_open(b, slice_str(r->key), r->op, &why);
    for (size_t i = 0; i < r->value_count && rc == 0; i++) {
        rc = selector_builder_value(b, slice_str(r->values[i]), &why);
    }
    return rc;
}

static int add_copy(struct selector_builder *b, const struct selector *s)
{
    int rc = 0;
    for (size_t i = 0; i < s->count && rc == 0; i++) {
        rc = add_requirement(b, &s->items[i]);
    }
    return rc;
}

struct selector *selector_and(const struct selector *const *list, size_t count, struct err *e)
{
    struct selector_builder b;
    selector_builder_init(&b);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = add_copy(&b, list[i]);
    }
    if (rc != 0) {
        selector_builder_deinit(&b);
        (void)err_set(e, rc,
                      rc == -E2BIG ? "the selectors are too large together" : "out of memory");
        return NULL;
    }
    return build_selector(&b, true, e);
}

struct selector *selector_and_shared(const struct selector *const *list, size_t count,
                                     struct err *e)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += list[i]->count;
    }
    if (total > SELECTOR_REQUIREMENTS_MAX) {
        (void)err_set(e, -E2BIG, "the selectors are too large together");
        return NULL;
    }
    struct selector *s = malloc(sizeof *s + total * sizeof s->items[0]);
    if (s == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    s->count = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(s->items + s->count, list[i]->items, list[i]->count * sizeof s->items[0]);
        s->count += list[i]->count;
    }
    selector_builder_merge(s);
    return s;
}

void selector_free(struct selector *s)
{
    free(s);
}

bool selector_is_everything(const struct selector *s)
{
    return s->count == 0;
}

bool selector_has_doubles(const struct selector *s)
{
    size_t i = 1;
    while (i < s->count && selector_builder_compare(&s->items[i - 1], &s->items[i]) != 0) {
        i++;
    }
    return i < s->count;
}

const struct selector_requirement *selector_requirements(const struct selector *s, size_t *count)
{
    *count = s->count;
    return s->items;
}

static int compare_slice(struct slice a, const char *b)
{
    size_t n = strlen(b);
    int order = memcmp(a.ptr, b, a.len < n ? a.len : n);
    return order != 0 ? order : (a.len > n) - (a.len < n);
}

static bool has_value(const struct selector_requirement *r, struct slice value)
{
    size_t low = 0;
    size_t high = r->value_count;
    value.ptr = value.ptr == NULL ? "" : value.ptr;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_slice(value, r->values[middle]);
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

static bool compares(const struct selector_requirement *r, struct slice value)
{
    int64_t theirs;
    int64_t ours;
    if (!decimal_parse(value, &theirs) || !decimal_parse(slice_str(r->values[0]), &ours)) {
        return false;
    }
    return r->op == SELECTOR_GREATER ? theirs > ours : theirs < ours;
}

bool selector_requirement_matches(const struct selector_requirement *r, const struct slice *value)
{
    switch (r->op) {
    case SELECTOR_EXISTS:
        return value != NULL;
    case SELECTOR_NOT_EXISTS:
        return value == NULL;
    case SELECTOR_EQUALS:
    case SELECTOR_DOUBLE_EQUALS:
    case SELECTOR_IN:
        return value != NULL && has_value(r, *value);
    case SELECTOR_NOT_EQUALS:
    case SELECTOR_NOT_IN:
        return value == NULL || !has_value(r, *value);
    case SELECTOR_GREATER:
    case SELECTOR_LESS:
        return value != NULL && compares(r, *value);
    }
    return false;
}

static const struct slice *find_label(const struct selector_label *labels, size_t count,
                                      struct slice key)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_eq(labels[i].key, key)) {
            return &labels[i].value;
        }
    }
    return NULL;
}

bool selector_matches(const struct selector *s, const struct selector_label *labels, size_t count)
{
    size_t required;
    const struct selector_requirement *r = selector_requirements(s, &required);
    for (size_t i = 0; i < required; i++) {
        if (!selector_requirement_matches(&r[i], find_label(labels, count, slice_str(r[i].key)))) {
            return false;
        }
    }
    return true;
}

/* What is left of a requirement that does not match `value` (NULL: there is none), with it. */
static int add_widened(struct selector_builder *b, const struct selector_requirement *r,
                       const struct slice *value)
{
    const char *why;
    bool takes_out = r->op == SELECTOR_NOT_IN || r->op == SELECTOR_NOT_EQUALS;
    bool lists =
        r->op == SELECTOR_IN || r->op == SELECTOR_EQUALS || r->op == SELECTOR_DOUBLE_EQUALS;
    if (value == NULL || !(lists || (takes_out && r->value_count > 1))) {
        return 0;
    }
    int rc = selector_builder_open(b, slice_str(r->key), takes_out ? SELECTOR_NOT_IN : SELECTOR_IN,
                                   &why);
    for (size_t i = 0; i < r->value_count && rc == 0; i++) {
        if (lists || !slice_eq(*value, slice_str(r->values[i]))) {
            rc = selector_builder_value(b, slice_str(r->values[i]), &why);
        }
    }
    return rc == 0 && lists ? selector_builder_value(b, *value, &why) : rc;
}

struct selector *selector_widen(const struct selector *s, const struct selector_label *labels,
                                size_t count, struct err *e)
{
    struct selector_builder b;
    selector_builder_init(&b);
    int rc = 0;
    for (size_t i = 0; i < s->count && rc == 0; i++) {
        const struct selector_requirement *r = &s->items[i];
        const struct slice *value = find_label(labels, count, slice_str(r->key));
        rc = selector_requirement_matches(r, value) ? add_requirement(&b, r)
                                                    : add_widened(&b, r, value);
    }
    if (rc != 0) {
        selector_builder_deinit(&b);
        (void)err_set(e, rc, "the selector cannot be widened");
        return NULL;
    }
    return build_selector(&b, true, e);
}

struct selector *selector_one(const struct selector *s, size_t i, struct err *e)
{
    struct selector_builder b;
    selector_builder_init(&b);
    int rc = add_requirement(&b, &s->items[i]);
    if (rc != 0) {
        selector_builder_deinit(&b);
        (void)err_set(e, rc, "the selector cannot be copied");
        return NULL;
    }
    return build_selector(&b, true, e);
}

size_t selector_weight_shared(const struct selector *s)
{
    return heap_size(sizeof *s + s->count * sizeof s->items[0]);
}

size_t selector_weight(const struct selector *s)
{
    size_t sum = selector_weight_shared(s);
    for (size_t i = 0; i < s->count; i++) {
        const struct selector_requirement *r = &s->items[i];
        sum += strlen(r->key) + 1 + r->value_count * sizeof r->values[0];
        for (size_t j = 0; j < r->value_count; j++) {
            sum += strlen(r->values[j]) + 1;
        }
    }
    return sum;
}

size_t selector_size(const struct selector *s)
{
    size_t size = s->count;
    for (size_t i = 0; i < s->count; i++) {
        size += s->items[i].value_count;
    }
    return size;
}

static bool requirement_equal(const struct selector_requirement *a,
                              const struct selector_requirement *b)
{
    if (a->op != b->op || a->value_count != b->value_count || strcmp(a->key, b->key) != 0) {
        return false;
    }
    for (size_t i = 0; i < a->value_count; i++) {
        if (strcmp(a->values[i], b->values[i]) != 0) {
            return false;
        }
    }
    return true;
}

bool selector_equal(const struct selector *a, const struct selector *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (!requirement_equal(&a->items[i], &b->items[i])) {
            return false;
        }
    }
    return true;
}

static void print_requirement(const struct selector_requirement *r, struct buf *out)
{
    static const char *const words[] = {
        [SELECTOR_EXISTS] = "",          [SELECTOR_NOT_EXISTS] = "", [SELECTOR_EQUALS] = "=",
        [SELECTOR_DOUBLE_EQUALS] = "==", [SELECTOR_IN] = " in (",    [SELECTOR_NOT_EQUALS] = "!=",
        [SELECTOR_NOT_IN] = " notin (",  [SELECTOR_GREATER] = ">",   [SELECTOR_LESS] = "<",
    };
    buf_append_str(out, r->op == SELECTOR_NOT_EXISTS ? "!" : "");
    buf_append_str(out, r->key);
    buf_append_str(out, words[r->op]);
    for (size_t i = 0; i < r->value_count; i++) {
        buf_append_str(out, i > 0 ? "," : "");
        buf_append_str(out, r->values[i]);
    }
    if (r->op == SELECTOR_IN || r->op == SELECTOR_NOT_IN) {
        buf_append_char(out, ')');
    }
}

int selector_print(const struct selector *s, struct buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        buf_append_str(out, i > 0 ? "," : "");
        print_requirement(&s->items[i], out);
    }
    return buf_error(out);
}
