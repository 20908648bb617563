/* SPDX-License-Identifier: Apache-2.0 */
/* A list in JSON: {"kind":...,"metadata":{...},"items":[{...},{...}]} with its keys in any order.
 */
#include "codec/list_items_internal.h"

#include <errno.h>

#include "base/ascii.h"
#include "base/decimal.h"

/* What is awaited. */
enum {
    AT_START,     /* the list's bracket */
    AT_KEY,       /* a key, or the end of the list when there was none */
    IN_KEY,       /* its closing quote */
    AT_COLON,     /* ... */
    AT_VALUE,     /* the first byte of a value */
    IN_STRING,    /* its closing quote */
    IN_NESTED,    /* its closing bracket */
    IN_WORD,      /* what follows a number or literal */
    BEHIND_VALUE, /* a comma, or the end of the list */
    AT_ITEM,      /* an item, or the end of `items` when there was none */
    IN_ITEM,      /* its closing bracket */
    BEHIND_ITEM,  /* a comma, or the end of `items` */
    AT_END,       /* nothing */
};

/* Room for a metadata with the longest token. */
enum { VALUE_MAX = 2 * LIST_ITEMS_TOKEN_MAX };

static bool key_is(const struct list_items_json *j, struct slice name)
{
    return slice_eq(slice_of(j->key, j->key_len), name);
}

static bool is_wanted(const struct list_items_json *j)
{
    return key_is(j, SLICE("kind")) || key_is(j, SLICE("apiVersion")) ||
           key_is(j, SLICE("metadata"));
}

static int take_metadata(struct list_items *l, struct slice metadata)
{
    struct json_cursor c = json_cursor_of(metadata);
    struct slice key;
    struct slice text;
    for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key); more = json_skip(&c)) {
        struct json_cursor value = c;
        if (slice_eq(key, SLICE("resourceVersion")) && json_string(&value, &text)) {
            l->version = decimal_or_zero(text);
        } else if (slice_eq(key, SLICE("continue")) && json_string(&value, &text)) {
            if (text.len > 0 && memchr(text.ptr, '\\', text.len) != NULL) {
                return list_items_fail(l, -ENOTSUP, "the list's continue token has escapes");
            }
            int rc = list_items_set_token(l, text);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

/* The value of a wanted key is complete; strings without their quotes. */
static int take_value(struct list_items *l, struct slice value)
{
    if (key_is(&l->json, SLICE("metadata"))) {
        return take_metadata(l, value);
    }
    if (key_is(&l->json, SLICE("apiVersion"))) {
        return list_items_set_name(l, &l->api_version, value);
    }
    if (slice_eq(value, SLICE("Table"))) {
        return list_items_fail(l, -ENOTSUP, "a Table is not taken apart");
    }
    return list_items_set_name(l, &l->kind, value);
}

/* Where the string ends in the piece: behind its last byte, before the quote. */
static size_t string_part(struct list_items_json *j, struct slice piece, bool *closed)
{
    size_t i = 0;
    for (; i < piece.len; i++) {
        if (j->escaped) {
            j->escaped = false;
        } else if (piece.ptr[i] == '\\') {
            j->escaped = true;
        } else if (piece.ptr[i] == '"') {
            *closed = true;
            return i;
        }
    }
    *closed = false;
    return i;
}

static void take_key(struct list_items_json *j, struct slice *piece)
{
    bool closed;
    size_t n = string_part(j, *piece, &closed);
    size_t room = sizeof j->key - j->key_len;
    memcpy(j->key + j->key_len, piece->ptr, n < room ? n : room);
    j->key_len += n < room ? n : room;
    list_items_skip(piece, closed ? n + 1 : n);
    j->state = closed ? AT_COLON : IN_KEY;
}

/* The next `n` bytes belong to the value, and are its last ones when `closed`. */
static int take_part(struct list_items *l, struct slice *piece, size_t n, bool closed)
{
    l->json.state = closed ? BEHIND_VALUE : l->json.state;
    if (!is_wanted(&l->json)) {
        list_items_skip(piece, n);
        return 0;
    }
    if (!closed) {
        return list_items_hold(l, piece, n, VALUE_MAX);
    }
    struct slice value;
    int rc = list_items_complete(l, piece, n, VALUE_MAX, &value);
    rc = rc != 0 ? rc : take_value(l, value);
    buf_clear(&l->held);
    return rc;
}

static int take_string(struct list_items *l, struct slice *piece)
{
    bool closed;
    size_t n = string_part(&l->json, *piece, &closed);
    int rc = take_part(l, piece, n, closed);
    if (closed && rc == 0) {
        list_items_skip(piece, 1);
    }
    return rc;
}

static int take_nested(struct list_items *l, struct slice *piece)
{
    const char *end = json_nesting_end(&l->json.nesting, piece->ptr, piece->ptr + piece->len);
    return take_part(l, piece, end == NULL ? piece->len : (size_t)(end - piece->ptr), end != NULL);
}

/* Numbers and literals mean nothing here. */
static void take_word(struct list_items_json *j, struct slice *piece)
{
    size_t n = 0;
    while (n < piece->len && piece->ptr[n] != ',' && piece->ptr[n] != '}' &&
           !ascii_is_space(piece->ptr[n])) {
        n++;
    }
    j->state = n < piece->len ? BEHIND_VALUE : IN_WORD;
    list_items_skip(piece, n);
}

/* What the first item says of its type goes for all. */
static int learn_type(struct list_items *l, struct slice item)
{
    struct json_cursor c = json_cursor_of(item);
    struct slice key;
    struct slice text;
    int rc = 0;
    bool more = json_enter(&c, '{');
    for (; rc == 0 && more && json_next_key(&c, &key); more = json_skip(&c)) {
        struct json_cursor value = c;
        if (slice_eq(key, SLICE("kind")) && json_string(&value, &text)) {
            rc = list_items_set_name(l, &l->item_kind, text);
        } else if (slice_eq(key, SLICE("apiVersion")) && json_string(&value, &text)) {
            rc = list_items_set_name(l, &l->item_api_version, text);
        }
    }
    return rc;
}

/* 1: it is complete. */
static int take_item(struct list_items *l, struct slice *piece, struct slice *item)
{
    const char *end = json_nesting_end(&l->json.nesting, piece->ptr, piece->ptr + piece->len);
    if (end == NULL) {
        return list_items_hold(l, piece, piece->len, LIST_ITEMS_ITEM_MAX);
    }
    int rc = list_items_complete(l, piece, (size_t)(end - piece->ptr), LIST_ITEMS_ITEM_MAX, item);
    if (rc == 0 && !l->json.item_seen) {
        l->json.item_seen = true;
        rc = learn_type(l, *item);
    }
    l->json.state = BEHIND_ITEM;
    l->held_is_item = true;
    return rc != 0 ? rc : 1;
}

/* The value's first byte is left where it is, but for the quote of a string. */
static int begin_value(struct list_items *l, char c)
{
    struct list_items_json *j = &l->json;
    if (key_is(j, SLICE("items")) && (c == '[' || c == 'n')) { /* null, when there is none */
        j->items_seen = true;
        j->state = c == '[' ? AT_ITEM : IN_WORD;
        j->first = true;
        return 1;
    }
    if (key_is(j, SLICE("items")) || strchr(",:]}", c) != NULL) {
        return list_items_malformed(l);
    }
    if (c == '"') {
        j->state = IN_STRING;
        return 1;
    }
    j->nesting = (struct json_nesting){0};
    j->state = c == '{' || c == '[' ? IN_NESTED : IN_WORD;
    return 0;
}

/* A byte between the values. 1: it is taken; 0: it is looked at again in the new state. */
static int step(struct list_items *l, char c)
{
    struct list_items_json *j = &l->json;
    if (j->state == AT_START && c == '{') {
        j->state = AT_KEY;
        j->first = true;
    } else if (j->state == AT_KEY && c == '"') {
        j->state = IN_KEY;
        j->key_len = 0;
    } else if ((j->state == AT_KEY && c == '}' && j->first) ||
               (j->state == BEHIND_VALUE && c == '}')) {
        j->state = AT_END;
    } else if (j->state == AT_COLON && c == ':') {
        j->state = AT_VALUE;
    } else if (j->state == BEHIND_VALUE && c == ',') {
        j->state = AT_KEY;
        j->first = false;
    } else if (j->state == BEHIND_ITEM && c == ',') {
        j->state = AT_ITEM;
        j->first = false;
    } else if ((j->state == AT_ITEM && c == ']' && j->first) ||
               (j->state == BEHIND_ITEM && c == ']')) {
        j->state = BEHIND_VALUE;
    } else if (j->state == AT_ITEM && c == '{') {
        j->state = IN_ITEM;
        j->nesting = (struct json_nesting){0};
        return 0;
    } else {
        return j->state == AT_VALUE ? begin_value(l, c) : list_items_malformed(l);
    }
    return 1;
}

static int step_over(struct list_items *l, struct slice *piece)
{
    while (piece->len > 0 && ascii_is_space(piece->ptr[0])) {
        list_items_skip(piece, 1);
    }
    int rc = piece->len == 0 ? 0 : step(l, piece->ptr[0]);
    if (rc > 0) {
        list_items_skip(piece, 1);
    }
    return rc < 0 ? rc : 0;
}

int list_items_next_json(struct list_items *l, struct slice *piece, struct slice *item)
{
    int rc = 0;
    while (piece->len > 0 && rc == 0) {
        switch (l->json.state) {
        case IN_KEY:
            take_key(&l->json, piece);
            break;
        case IN_STRING:
            rc = take_string(l, piece);
            break;
        case IN_NESTED:
            rc = take_nested(l, piece);
            break;
        case IN_WORD:
            take_word(&l->json, piece);
            break;
        case IN_ITEM:
            rc = take_item(l, piece, item);
            break;
        default:
            rc = step_over(l, piece);
        }
    }
    return rc;
}

bool list_items_json_whole(const struct list_items *l)
{
    return l->json.state == AT_END && l->json.items_seen;
}
