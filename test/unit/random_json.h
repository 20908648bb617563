/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_json.h - JSON values full of what scanners stumble over: strings of quotes, brackets and
 * backslashes, nesting, white space, empty things, keys that are looked for in places where they
 * mean nothing.
 */
#ifndef TEST_UNIT_RANDOM_JSON_H
#define TEST_UNIT_RANDOM_JSON_H

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"

static uint32_t random_state = 1;

static inline unsigned random_below(unsigned n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

static inline void put_text(struct buf *b, const char *text)
{
    if (buf_append_str(b, text) != 0) {
        abort();
    }
}

static inline void put_blank(struct buf *b)
{
    static const char *const blanks[] = {" ", "\n", "\t", "\r\n", "  "};
    if (random_below(16) == 0) {
        put_text(b, blanks[random_below(5)]);
    }
}

static inline void put_random_string(struct buf *b)
{
    static const char *const parts[] = {
        "\\\"",
        "\\\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\\u0022",
        "\\n",
        "metadata",
        "a",
        "0123456789",
        "\xc3\xa4\xe2\x82\xac",
        "/",
        "\\\\\\\"",
        "\\/",
        "resourceVersion",
        "\\\"},{\\\"metadata\\\":{",
        " ",
    };
    put_text(b, "\"");
    for (unsigned n = random_below(4) == 0 ? random_below(60) : random_below(4); n > 0; n--) {
        put_text(b, parts[random_below(sizeof parts / sizeof *parts)]);
    }
    put_text(b, "\"");
}

static inline void put_random_value(struct buf *b, unsigned depth);

/* Keys differ by their numbers; some are names that mean something elsewhere. */
static inline void put_random_members(struct buf *b, unsigned depth, unsigned n)
{
    static const char *const names[] = {
        "resourceVersion", "metadata", "kind", "object", "type", "a", "", "x y"};
    unsigned first = random_below(8);
    for (unsigned i = 0; i < n; i++) {
        put_blank(b);
        if (i < 4 && depth > 0) {
            /* Inside of something: each name once. */
            put_text(b, "\"");
            put_text(b, names[(first + i) % 8]);
            put_text(b, "\"");
        } else if (buf_printf(b, "\"f:%u}\\\"\"", i) != 0) {
            abort();
        }
        put_blank(b);
        put_text(b, ":");
        put_random_value(b, depth + 1);
        put_text(b, i + 1 < n ? "," : "");
    }
}

static inline void put_random_value(struct buf *b, unsigned depth)
{
    static const char *const words[] = {"true", "false", "null", "0", "-1.5e+3", "123456"};
    unsigned kind = random_below(depth > 6 ? 4 : 8);
    put_blank(b);
    if (kind < 2) {
        put_random_string(b);
    } else if (kind < 4) {
        put_text(b, words[random_below(6)]);
    } else if (kind < 6) {
        put_text(b, "{");
        put_random_members(b, depth + 1, random_below(5));
        put_blank(b);
        put_text(b, "}");
    } else {
        put_text(b, "[");
        for (unsigned n = random_below(5); n > 0; n--) {
            put_random_value(b, depth + 1);
            put_text(b, n > 1 ? "," : "");
        }
        put_blank(b);
        put_text(b, "]");
    }
    put_blank(b);
}

#endif
