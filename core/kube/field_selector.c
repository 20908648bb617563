/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/field_selector.h"

#include <errno.h>

#include "base/utf8.h"

static struct slice after(struct slice s, size_t n)
{
    return slice_of(s.ptr + n, s.len - n);
}

/* Takes the term before the next comma that is not escaped. */
static struct slice next_text(struct slice *rest)
{
    bool escaped = false;
    size_t i = 0;
    for (; i < rest->len; i++) {
        if (!escaped && rest->ptr[i] == ',') {
            break;
        }
        escaped = !escaped && rest->ptr[i] == '\\';
    }
    struct slice term = slice_of(rest->ptr, i);
    *rest = after(*rest, i < rest->len ? i + 1 : i);
    return term;
}

/* The first operator splits; the field's name has no escapes. */
static bool split_term(struct slice text, struct field_term *t)
{
    t->text = text;
    for (size_t i = 0; i < text.len; i++) {
        bool more = i + 1 < text.len && text.ptr[i + 1] == '=';
        t->negated = text.ptr[i] == '!' && more;
        if (t->negated || text.ptr[i] == '=') {
            t->field = slice_of(text.ptr, i);
            t->value = after(text, i + (more ? 2 : 1));
            return true;
        }
    }
    return false;
}

static bool special(char c)
{
    return c == '\\' || c == ',' || c == '=';
}

static bool value_ok(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] == '\\') {
            i++;
            if (i == value.len || !special(value.ptr[i])) {
                return false;
            }
        } else if (special(value.ptr[i])) {
            return false;
        }
    }
    return true;
}

static int unescape(struct slice value, struct buf *out)
{
    if (value.len == 0 || memchr(value.ptr, '\\', value.len) == NULL) {
        return buf_append(out, value.ptr, value.len);
    }
    int rc = 0;
    while (value.len > 0 && rc == 0) {
        value = value.ptr[0] == '\\' ? after(value, 1) : value;
        uint32_t cp;
        size_t n = utf8_decode(value, &cp);
        rc = utf8_append_valid(out, slice_of(value.ptr, n));
        value = after(value, n);
    }
    return rc;
}

static bool sorts_before(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = memcmp(a.ptr, b.ptr, n);
    return order < 0 || (order == 0 && a.len < b.len);
}

int field_selector_next(struct slice *rest, struct field_term *term)
{
    while (rest->len > 0) {
        struct slice text = next_text(rest);
        if (text.len > 0) {
            return split_term(text, term) && value_ok(term->value) ? 1 : -EINVAL;
        }
    }
    return 0;
}

int field_selector_exact(struct slice text, struct slice field, struct buf *value)
{
    struct field_term best = {.text = {.ptr = NULL, .len = 0}};
    struct field_term t;
    int rc;
    while ((rc = field_selector_next(&text, &t)) > 0) {
        if (!t.negated && slice_eq(t.field, field) &&
            (best.text.len == 0 || sorts_before(t.text, best.text))) {
            best = t;
        }
    }
    if (rc < 0 || best.text.len == 0) {
        return rc;
    }
    rc = unescape(best.value, value);
    return rc == 0 ? 1 : rc;
}
