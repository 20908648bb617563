/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document.h - a document that is understood as a whole or refused: what manager writes for the
 * pods of one shard.
 *
 * Each kind of document has a table of rows (schema/schema.h), which begins with DOCUMENT_FIELDS.
 * Outside of its spec other fields are skipped; within it they are refused, for a newer writer may
 * mean something by them. Null is refused too, as a value of the wrong type.
 */
#ifndef CORE_DOCUMENT_DOCUMENT_H
#define CORE_DOCUMENT_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/slice.h"
#include "schema/schema.h"

/* Documents with larger ones are refused. */
#define DOCUMENT_GENERATION_MAX (UINT64_C(1) << 52)
#define DOCUMENT_CHECKSUM_LEN (7 + 64) /* "sha256:" and hex */

/* ---- the text ---- */

/* Without the byte order mark that editors of some systems write (RFC 8259 section 8.1). */
struct slice document_without_mark(struct slice text);

struct document_bounds {
    size_t bytes;
    size_t values; /* JSON values in all, */
    size_t beside; /* and of these outside of its spec: nobody asked for them */
};

/* The tree of `text`, which is without a byte order mark. NULL with `e` set: -EINVAL, -E2BIG or
 * -ENOMEM. */
MUST_CHECK cJSON *document_parse(struct slice text, const struct document_bounds *b, struct err *e);

/* ---- what all of them have ---- */

/* Whose document it is. */
struct document_shard {
    const char *namespace;
    const char *name;
};

struct document_head {
    unsigned version; /* the index of its apiVersion */
    struct document_shard shard;
    uint64_t generation;
    const char *checksum; /* that the document names; "": none */
};

extern const struct schema_object document_shard;
/* NULL, or what is wrong with it. */
const char *document_check_checksum(struct slice text);

/* The first rows of a document, whose struct `type` has a `head`. `versions` and `kind` are lists
 * of words that end with NULL. */
#define DOCUMENT_FIELDS(type, versions, kind)                                                      \
    {"apiVersion", SCHEMA_WORD, SCHEMA_MEMBER(type, head.version), .required = "",                 \
     .words = (versions)},                                                                         \
        {"kind", SCHEMA_CONSTANT, .required = "", .words = (kind)},                                \
        {"shard", SCHEMA_PART, SCHEMA_MEMBER(type, head.shard), .required = "",                    \
         .object = &document_shard},                                                               \
        {"generation",   SCHEMA_NUMBER64, SCHEMA_MEMBER(type, head.generation),                    \
         .required = "", .min = 1,        .max = DOCUMENT_GENERATION_MAX},                         \
    {                                                                                              \
        "checksum", SCHEMA_TEXT, SCHEMA_MEMBER(type, head.checksum),                               \
            .flags = SCHEMA_EMPTY, .check = document_check_checksum                                \
    }

/* Computes the checksum of the canonical spec, and compares it with the one that the document
 * names. A spec of more than `max` bytes is refused: `path` is too long, and why. */
void document_checksum(struct schema_reader *r, const struct document_head *head, size_t max,
                       const char *path, const char *too_long, char out[DOCUMENT_CHECKSUM_LEN + 1]);

#endif
