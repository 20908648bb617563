/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - strict JSON documents over cJSON, and their canonical text.
 *
 * The tree is cJSON's own (`cJSON_Delete` frees it). Canonical text: UTF-8, object keys in byte
 * order, no white space, integers without exponent; equal documents give equal bytes.
 */
#ifndef CORE_JSON_JSON_H
#define CORE_JSON_JSON_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"

/* Parses one whole document as RFC 8259 has it (cJSON alone takes more). Refused, with line and
 * column in the message: a syntax error, a byte order mark, bytes after the document, a NUL byte
 * and other control bytes, strings that are not UTF-8; and a duplicate key in one object, a number
 * out of a double's range, more than a thousand levels. An escaped NUL, where a C string would end,
 * is read as U+FFFD: no name, label or selector may hold either, and an object of a stranger that
 * has one in an annotation must not make a whole list unreadable. NULL on error: -EINVAL or
 * -ENOMEM. */
MUST_CHECK cJSON *json_parse(const char *text, size_t len, struct err *e);

/* The same for objects that the API server hands out: their users may write any bytes, keys and
 * depth into managedFields, and must not hide other objects by it. A text that json_parse refuses
 * is read once more. Values below a thousand levels are empty then, bytes that are not UTF-8 are
 * `?`, and an object may have a key twice. */
MUST_CHECK cJSON *json_parse_foreign(const char *text, size_t len, struct err *e);

/* The first two members that sorting shows to have the same key, in their order in the object: 1;
 * 0: there are none; -ENOMEM. A hostile object with 100,000 keys costs no more than sorting them.
 */
MUST_CHECK int json_find_duplicate(const cJSON *object, const cJSON **one, const cJSON **other);

/* The members of an object in the order of their keys; the caller frees the list. NULL without
 * memory or when there are none. */
MUST_CHECK const cJSON **json_sorted_members(const cJSON *object, size_t *count);

/* The line on which `item` begins in the text that `root` was parsed from; 0 if it is not there. */
unsigned json_line(const char *text, size_t len, const cJSON *root, const cJSON *item);

/* Bytes of memory that the tree takes, about. */
size_t json_weight(const cJSON *item);

/* Appends the canonical text of `item`. 0, -ENOBUFS, -ENOMEM, or -EINVAL (not finite number), which
 * stays in the buffer (base/buf.h). */
int json_canonical(const cJSON *item, struct buf *out);

/* The same document for people: two spaces a level, lists of scalars in one line. No newline at the
 * end. Errors as above. */
int json_indented(const cJSON *item, struct buf *out);

/* Appends `str` as a quoted JSON string. 0, -ENOBUFS or -ENOMEM. */
int json_quote(const char *str, struct buf *out);

#endif
