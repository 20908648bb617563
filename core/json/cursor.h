/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cursor.h - walks over JSON text without building anything.
 *
 * A cursor never leaves its text. It trusts that the text is JSON: of other text it makes something
 * or other, but stays inside. Skipping takes one to two instructions a byte.
 *
 *     struct json_cursor c = json_cursor_of(text);
 *     for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key);) {
 *         if (slice_eq(key, SLICE("name"))) ... json_string(&c, &value) ...
 *         else more = json_skip(&c);
 *     }
 */
#ifndef CORE_JSON_CURSOR_H
#define CORE_JSON_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct json_cursor {
    const char *at;
    const char *end;
};

static inline struct json_cursor json_cursor_of(struct slice text)
{
    return (struct json_cursor){.at = text.ptr,
                                .end = text.len == 0 ? text.ptr : text.ptr + text.len};
}

/* All return false where the text is another, or ends. */

/* Takes one bracket: '{' and '[' to go into an object or array. */
bool json_enter(struct json_cursor *c, char bracket);
/* The next member of the object that was entered: its key as written, the cursor before its value,
 * which has to be taken or skipped. False at the end, behind the object. */
bool json_next_key(struct json_cursor *c, struct slice *key);
/* Goes into an object and on to the value of its first member with that key, which is written
 * without escapes there. */
bool json_find_member(struct json_cursor *c, struct slice name);
/* The next element of the array that was entered, the cursor before it. False at the end, behind
 * the array. */
bool json_next_element(struct json_cursor *c);
/* Takes a string: what stands between its quotes, escapes as they are written. */
bool json_string(struct json_cursor *c, struct slice *text);
/* Takes any value; `text` is the whole of it. A number or literal must not be the last thing in the
 * text: that it is complete shows in what follows. */
bool json_value(struct json_cursor *c, struct slice *text);
bool json_skip(struct json_cursor *c);
/* Nothing but white space is left. */
bool json_at_end(struct json_cursor *c);

/* The first quote or backslash; `end` when there is none. */
const char *json_string_stop(const char *p, const char *end);

/* How far an object or array was followed that arrives in pieces; all zero before it. */
struct json_nesting {
    uint64_t in_string; /* all bits: the last byte was inside of a string */
    uint64_t escaped;   /* 1: the next byte is escaped */
    uint64_t depth;     /* open brackets */
};

/* Follows the value whose opening bracket was the first byte of all pieces. Returns the place
 * behind its closing one; NULL when that has not come yet. */
const char *json_nesting_end(struct json_nesting *n, const char *data, const char *end);

#endif
