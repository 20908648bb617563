/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target is given a selector; then a reader written here after Go's url.ParseQuery looks at both.
 * The first labelSelector it takes must be ours, followed by the client's if there was one; all
 * other pieces must be as they were.
 */
#include "kube/query.h"

#include "base/buf.h"
#include "check.h"

#define PIECES_MAX 4200 /* more than an input has bytes */

static const char selector[] = "a in (b,c)";
static const char escaped[] = "a%20in%20%28b%2Cc%29";

struct pair {
    struct slice text;
    bool taken;
    char key[4200];
    size_t key_len;
    char value[4200];
    size_t value_len;
};

static int hex(char c)
{
    const char *digits = "0123456789abcdefABCDEF";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits) - (at - digits > 15 ? 6 : 0);
}

/* url.QueryUnescape. */
static bool unescape(struct slice s, char *out, size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            if (i + 2 >= s.len || hex(s.ptr[i + 1]) < 0 || hex(s.ptr[i + 2]) < 0) {
                return false;
            }
            c = (char)(hex(s.ptr[i + 1]) * 16 + hex(s.ptr[i + 2]));
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        out[(*len)++] = c;
    }
    return true;
}

static void read_pair(struct slice text, struct pair *p)
{
    size_t equals = 0;
    while (equals < text.len && text.ptr[equals] != '=') {
        equals++;
    }
    struct slice value = slice_of(text.ptr + text.len, 0);
    if (equals < text.len) {
        value = slice_of(text.ptr + equals + 1, text.len - equals - 1);
    }
    p->text = text;
    p->taken = text.len > 0 && memchr(text.ptr, ';', text.len) == NULL &&
               unescape(slice_of(text.ptr, equals), p->key, &p->key_len) &&
               unescape(value, p->value, &p->value_len);
}

static bool is_selector(const struct pair *p)
{
    return p->taken && slice_eq(slice_of(p->key, p->key_len), SLICE("labelSelector"));
}

/* The text of each piece; the first labelSelector goes to `found`, how many there are to
 * `selectors`. Its index, or -1. */
static int read_query(struct slice target, struct slice *pieces, size_t *count, struct pair *found,
                      size_t *selectors)
{
    static struct pair p;
    int index = -1;
    *count = 0;
    *selectors = 0;
    size_t i = 0;
    while (i < target.len && target.ptr[i] != '?') {
        i++;
    }
    for (i++; i <= target.len; i++) {
        size_t start = i;
        while (i < target.len && target.ptr[i] != '&') {
            i++;
        }
        CHECK(*count < PIECES_MAX);
        pieces[(*count)++] = slice_of(target.ptr + start, i - start);
        read_pair(pieces[*count - 1], &p);
        *selectors += is_selector(&p);
        if (index < 0 && is_selector(&p)) {
            index = (int)*count - 1;
            *found = p;
        }
    }
    return index;
}

static bool blank(const struct pair *p)
{
    for (size_t i = 0; i < p->value_len; i++) {
        if (p->value[i] == '\0' || strchr(" \t\r\n", p->value[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static void check_value(const struct pair *before, const struct pair *after)
{
    struct slice rest = slice_of(after->value, after->value_len);
    struct slice ours = slice_str(selector);
    CHECK(rest.len >= ours.len && slice_eq(slice_of(rest.ptr, ours.len), ours));
    rest = slice_of(rest.ptr + ours.len, rest.len - ours.len);
    if (before == NULL || blank(before)) {
        CHECK(rest.len == 0);
        return;
    }
    CHECK(rest.len > 0 && rest.ptr[0] == ',');
    CHECK(
        slice_eq(slice_of(rest.ptr + 1, rest.len - 1), slice_of(before->value, before->value_len)));
}

static void check_refused(struct slice target, size_t selectors)
{
    const char *mark = target.len == 0 ? NULL : memchr(target.ptr, '?', target.len);
    size_t query = mark == NULL ? 0 : (size_t)(target.ptr + target.len - mark);
    size_t pieces = 1;
    for (size_t i = 0; i < query; i++) {
        pieces += mark[i] == '&';
    }
    CHECK(selectors > 1 || pieces > QUERY_PIECES_MAX ||
          memchr(target.ptr, '#', target.len) != NULL ||
          (query > 0 && memchr(mark, ';', query) != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct slice before[PIECES_MAX];
    static struct slice after[PIECES_MAX];
    static struct pair first_before;
    static struct pair first_after;
    struct slice target = slice_of((const char *)data, size);
    if (size > 4096) {
        return 0;
    }
    struct buf out = BUF_INIT(8192);
    size_t count_before;
    size_t count_after;
    size_t selectors;
    int at_before = read_query(target, before, &count_before, &first_before, &selectors);
    if (query_inject_selector(target, slice_str(escaped), &out, NULL) != 0) {
        CHECK(out.len == 0);
        check_refused(target, selectors);
        return 0;
    }
    CHECK(selectors <= 1); /* servers do not all take the same */
    struct slice changed = slice_of((const char *)out.base, out.len);
    int at_after = read_query(changed, after, &count_after, &first_after, &selectors);
    CHECK(selectors == 1 && at_after >= 0 && (at_before < 0 || at_before == at_after));
    check_value(at_before < 0 ? NULL : &first_before, &first_after);
    size_t path = (size_t)(count_before == 0 ? target.len : (size_t)(before[0].ptr - target.ptr));
    CHECK(memcmp(target.ptr, changed.ptr, path) == 0);
    for (size_t i = 0; i < count_before; i++) {
        bool replaced = (int)i == at_after;
        CHECK(replaced || slice_eq(before[i], after[i]));
        CHECK(!replaced || at_before >= 0 || before[i].len == 0);
    }
    CHECK(count_after == count_before || (at_before < 0 && count_after == count_before + 1));
    buf_reset(&out);
    return 0;
}
