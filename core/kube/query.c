/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/query.h"

#include <errno.h>

#include "kube/percent.h"

#define SELECTOR_KEY "labelSelector"
#define END (-1)
#define BAD (-2)

static struct slice after(struct slice s, size_t n)
{
    return slice_of(s.ptr + n, s.len - n);
}

/* Takes the next decoded byte off `rest`; END or BAD when there is none. */
static int next_byte(struct slice *rest)
{
    if (rest->len == 0) {
        return END;
    }
    char c = rest->ptr[0];
    if (c == '%') {
        int byte = percent_byte(*rest);
        if (byte < 0) {
            return BAD;
        }
        *rest = after(*rest, 3);
        return byte;
    }
    *rest = after(*rest, 1);
    return c == '+' ? ' ' : (unsigned char)c;
}

static bool escapes_ok(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '%' && percent_byte(after(s, i)) < 0) {
            return false;
        }
    }
    return true;
}

static bool has_byte(struct slice s, char c)
{
    return s.len > 0 && memchr(s.ptr, c, s.len) != NULL;
}

/* Splits at the first `c`; without one all of it is the head and the tail is empty. */
static struct slice cut(struct slice s, char c, struct slice *tail)
{
    const char *at = s.len == 0 ? NULL : memchr(s.ptr, c, s.len);
    if (at == NULL) {
        *tail = slice_of(s.ptr + s.len, 0);
        return s;
    }
    size_t n = (size_t)(at - s.ptr);
    *tail = after(s, n + 1);
    return slice_of(s.ptr, n);
}

struct slice query_of(struct slice target)
{
    struct slice query = {.ptr = NULL, .len = 0};
    if (target.len > 0) {
        (void)cut(target, '?', &query);
    }
    return query;
}

bool query_next(struct slice *rest, struct query_piece *piece)
{
    if (rest->len == 0) {
        return false;
    }
    piece->text = cut(*rest, '&', rest);
    piece->key = cut(piece->text, '=', &piece->value);
    piece->valid = piece->text.len > 0 && !has_byte(piece->text, ';') && escapes_ok(piece->text);
    return true;
}

bool query_equal(struct slice encoded, struct slice plain)
{
    for (size_t i = 0; i < plain.len; i++) {
        if (next_byte(&encoded) != (unsigned char)plain.ptr[i]) {
            return false;
        }
    }
    return encoded.len == 0;
}

int query_decode(struct slice encoded, struct buf *out)
{
    if (!escapes_ok(encoded)) {
        return -EINVAL;
    }
    uint8_t *to = buf_reserve(out, encoded.len);
    if (to == NULL) {
        return encoded.len > out->max - out->len ? -ENOBUFS : -ENOMEM;
    }
    size_t n = 0;
    int byte;
    while ((byte = next_byte(&encoded)) >= 0) {
        to[n++] = (uint8_t)byte;
    }
    buf_commit(out, n);
    return 0;
}

static bool unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int query_encode(struct slice plain, struct buf *out)
{
    static const char digits[] = "0123456789ABCDEF";
    uint8_t *to = plain.len > out->max / 3 ? NULL : buf_reserve(out, plain.len * 3);
    if (to == NULL) {
        bool full = plain.len > out->max / 3 || plain.len * 3 > out->max - out->len;
        return buf_fail(out, full ? -ENOBUFS : -ENOMEM);
    }
    size_t n = 0;
    for (size_t i = 0; i < plain.len; i++) {
        unsigned char c = (unsigned char)plain.ptr[i];
        if (unreserved((char)c)) {
            to[n++] = c;
            continue;
        }
        to[n++] = '%';
        to[n++] = (uint8_t)digits[c >> 4];
        to[n++] = (uint8_t)digits[c & 15];
    }
    buf_commit(out, n);
    return 0;
}

bool query_find(struct slice query, struct slice key, struct slice *value)
{
    struct query_piece piece;
    while (query_next(&query, &piece)) {
        if (piece.valid && query_equal(piece.key, key)) {
            *value = piece.value;
            return true;
        }
    }
    return false;
}

static bool is_one_of(struct slice key, const struct slice *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (query_equal(key, keys[i])) {
            return true;
        }
    }
    return false;
}

int query_drop(struct slice target, const struct slice *keys, size_t count, struct buf *out)
{
    struct slice rest = query_of(target);
    struct slice path;
    struct slice tail;
    char joint = '?';
    path = target.len > 0 ? cut(target, '?', &tail) : target;
    buf_append(out, path.ptr, path.len);
    for (struct query_piece piece; query_next(&rest, &piece);) {
        if (!is_one_of(piece.key, keys, count)) {
            buf_append_char(out, joint);
            buf_append(out, piece.text.ptr, piece.text.len);
            joint = '&';
        }
    }
    return buf_error(out);
}

/* What the selector grammar skips: nothing would be left to AND with. */
static bool blank(struct slice encoded)
{
    int byte;
    while ((byte = next_byte(&encoded)) >= 0) {
        if (byte != ' ' && byte != '\t' && byte != '\r' && byte != '\n') {
            return false;
        }
    }
    return true;
}

int query_check(struct slice target, struct err *e)
{
    struct slice query = query_of(target);
    if (has_byte(target, '#')) {
        return err_set(e, -EINVAL, "the request target contains a '#'");
    }
    if (has_byte(query, ';')) {
        return err_set(e, -EINVAL,
                       "the query contains a ';', which some servers read as a separator");
    }
    size_t pieces = 1;
    for (size_t i = 0; i < query.len; i++) {
        pieces += query.ptr[i] == '&';
    }
    if (pieces > QUERY_PIECES_MAX) {
        return err_set(e, -EINVAL, "the query has more than %d parameters", QUERY_PIECES_MAX);
    }
    return 0;
}

/* Appends all of the slices or nothing. */
static int append_all(struct buf *out, const struct slice *parts, size_t count, struct err *e)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i].len;
    }
    uint8_t *to = buf_reserve(out, total);
    if (to == NULL) {
        bool full = out->len > out->max || total > out->max - out->len;
        return full ? err_set(e, -ENOBUFS, "the request target with the selector is too long")
                    : err_memory(e);
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > 0) {
            memcpy(to, parts[i].ptr, parts[i].len);
            to += parts[i].len;
        }
    }
    buf_commit(out, total);
    return 0;
}

static int add_piece(struct slice target, struct slice query, struct slice escaped, struct buf *out,
                     struct err *e)
{
    struct slice joint = SLICE("&");
    if (!has_byte(target, '?')) {
        joint = SLICE("?");
    } else if (query.len == 0 || query.ptr[query.len - 1] == '&') {
        joint = SLICE("");
    }
    struct slice parts[] = {target, joint, SLICE(SELECTOR_KEY "="), escaped};
    return append_all(out, parts, 4, e);
}

static int extend_piece(struct slice target, const struct query_piece *piece, struct slice escaped,
                        struct buf *out, struct err *e)
{
    struct slice head =
        slice_of(target.ptr, (size_t)(piece->key.ptr + piece->key.len - target.ptr));
    struct slice tail = after(target, (size_t)(piece->text.ptr + piece->text.len - target.ptr));
    bool alone = blank(piece->value);
    struct slice joint = alone ? SLICE("") : SLICE("%2C");
    struct slice theirs = alone ? SLICE("") : piece->value;
    struct slice parts[] = {head, SLICE("="), escaped, joint, theirs, tail};
    return append_all(out, parts, 6, e);
}

int query_inject_selector(struct slice target, struct slice escaped, struct buf *out, struct err *e)
{
    struct slice query = query_of(target);
    int rc = query_check(target, e);
    if (rc != 0) {
        return rc;
    }
    struct query_piece selector = {.valid = false};
    struct slice rest = query;
    for (struct query_piece piece; query_next(&rest, &piece);) {
        if (piece.valid && query_equal(piece.key, SLICE(SELECTOR_KEY))) {
            if (selector.valid) {
                return err_set(e, -EINVAL,
                               "the query has more than one labelSelector, of which "
                               "servers do not all take the same");
            }
            selector = piece;
        }
    }
    return selector.valid ? extend_piece(target, &selector, escaped, out, e)
                          : add_piece(target, query, escaped, out, e);
}
