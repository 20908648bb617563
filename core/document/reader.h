/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - reads a document that is understood as a whole or refused: what manager writes for the
 * pods of one shard.
 *
 * The first error stays, and then all that is read is empty: a series of readings needs one look at
 * the error at its end. Messages have the line, the JSON path, and what is wrong in Kubernetes'
 * words: "line 7: spec.limits[0].selector: Required value".
 */
#ifndef CORE_DOCUMENT_READER_H
#define CORE_DOCUMENT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/slice.h"

#define DOCUMENT_PATH_LEN 128
/* Documents with larger ones are refused. */
#define DOCUMENT_GENERATION_MAX (UINT64_C(1) << 52)
#define DOCUMENT_CHECKSUM_LEN (7 + 64) /* "sha256:" and hex */

struct document_reader {
    const char *text; /* as it was written, without a byte order mark */
    size_t len;
    const cJSON *root;
    struct err *e; /* never NULL */
};

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

/* `item` NULL: no line is told. */
void document_fail(const struct document_reader *r, int code, const cJSON *item, const char *path,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* "Invalid value: must be <expected>". */
void document_wrong_type(const struct document_reader *r, const cJSON *item, const char *path,
                         const char *expected);

/* NULL: it is not there. */
cJSON *document_member(const cJSON *object, const char *key);
/* The same of what must be there. */
cJSON *document_required(const struct document_reader *r, const cJSON *parent, const char *key,
                         const char *path);

/* NULL: it is missing, or no object. Other fields than these, which end with NULL, are refused, for
 * a newer writer may mean something by them: it must not be half obeyed. `known` NULL: it may have
 * any. */
const cJSON *document_object(const struct document_reader *r, const cJSON *parent, const char *key,
                             const char *path, const char *const *known);
/* The same of one that is there: false and an error if it is no object. */
bool document_check_object(const struct document_reader *r, const cJSON *item, const char *path,
                           const char *const *known);

/* A string that must be there; "" when it is not. */
const char *document_string(const struct document_reader *r, const cJSON *parent, const char *key,
                            const char *path);
/* The same; `check` returns what is wrong with it, or NULL (kube/name.h). */
const char *document_name(const struct document_reader *r, const cJSON *parent, const char *key,
                          const char *path, const char *(*check)(struct slice));
/* A whole number of at least `min` and at most `max`, which must be there; `min` when it is not. */
uint64_t document_number(const struct document_reader *r, const cJSON *parent, const char *key,
                         const char *path, uint64_t min, uint64_t max);

/* An array of 1 to `max` different strings, each of which `check` likes, which must be there. NULL
 * with an error. */
const cJSON *document_list(const struct document_reader *r, const cJSON *parent,
                           const char *parent_path, const char *key, size_t max,
                           const char *(*check)(struct slice));

/* ---- what all of them have ---- */

void document_constant(const struct document_reader *r, const char *key, const char *want);
/* Whose document it is. */
void document_shard(const struct document_reader *r, const char **namespace, const char **name);
/* An integer from 1; 0 with an error. `item` may be NULL after an error. */
uint64_t document_generation(const struct document_reader *r, const cJSON *item, const char *key);

/* Computes the checksum of the canonical spec, and compares it with the one that the document has,
 * if it has one. A spec of more than `max` bytes is refused: `path` is too long, and why. */
void document_checksum(const struct document_reader *r, size_t max, const char *path,
                       const char *too_long, char out[DOCUMENT_CHECKSUM_LEN + 1]);

#endif
