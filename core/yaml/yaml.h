/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.h - YAML documents as cJSON trees, and back; the only door to libyaml.
 *
 * Plain scalars are typed as Kubernetes' own reader (sigs.k8s.io/yaml, YAML 1.1) types them:
 * null and ~, true/yes/on/y and their opposites, integers (decimal, 0x, 0o and 0 octal, 0b, with
 * underscores), floats; all else and everything quoted is a string. Integers beyond 2^53 lose
 * their low digits, as in every JSON number of cJSON. JSON is YAML too, but for characters escaped
 * as a pair of surrogates.
 *
 * Refused, with line and column: a syntax error, a duplicate key, a tag outside the core
 * schema, .inf and .nan, a NUL inside a string, and documents beyond the limits below.
 */
#ifndef CORE_YAML_YAML_H
#define CORE_YAML_YAML_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"

#define YAML_DEPTH_MAX 64
#define YAML_NODES_MAX 200000
/* Bytes of strings that aliases may copy: anchors are expanded, a few lines must not fill memory.
 */
#define YAML_ALIAS_BYTES_MAX (4u << 20)

/* Where each value of a tree stands in its text. Owned by the caller; filled by a parse. */
struct yaml_lines {
    struct yaml_line *items; /* sorted by node */
    size_t count;
};

struct yaml_line {
    const cJSON *node;
    unsigned line; /* from 1 */
};

#define YAML_LINES_INIT                                                                            \
    {                                                                                              \
        .items = NULL, .count = 0                                                                  \
    }

/* Parses exactly one document; an empty one (only comments) is a null node. `lines` may be NULL;
 * it must be empty, and is empty again on error. NULL on error; cJSON_Delete frees. */
MUST_CHECK cJSON *yaml_parse(const char *text, size_t len, struct yaml_lines *lines, struct err *e);

/* Parses a stream: an array with one element a document; empty documents are left out. */
MUST_CHECK cJSON *yaml_parse_all(const char *text, size_t len, struct yaml_lines *lines,
                                 struct err *e);

/* The line of a node of the parsed tree; 0 when unknown. */
unsigned yaml_line_of(const struct yaml_lines *lines, const cJSON *node);
void yaml_lines_deinit(struct yaml_lines *lines);

/* Appends `item` as one block-style document. A string that any reader (YAML 1.1 or 1.2) could take
 * for something else is quoted; one of several lines is written as a literal block. 0, -ENOBUFS,
 * -ENOMEM, or -EINVAL (not UTF-8, not a finite number). */
MUST_CHECK int yaml_emit(const cJSON *item, struct buf *out);

#endif
