/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openapi.h - the rows of an object as people and API servers read them: the schema in a
 * CustomResourceDefinition, and a table of Markdown.
 *
 * Of the schema only what Kubernetes 1.16 knows is used. Objects keep unknown fields, for the
 * webhook to refuse: where they are dropped, as they are by default, `matchExpression` in place of
 * `matchExpressions` would leave a selector that selects more.
 */
#ifndef CORE_SCHEMA_OPENAPI_H
#define CORE_SCHEMA_OPENAPI_H

#include "base/buf.h"
#include "schema/schema.h"

/* Appends the schema of `o` in YAML, each line with `indent` blanks before it. Errors stay in the
 * buffer. */
void schema_write_openapi(const struct schema_object *o, unsigned indent, struct buf *out);

/* Appends one row of a Markdown table for each field at any depth: its path below `prefix`, its
 * type and bounds, and its help. */
void schema_write_reference(const struct schema_object *o, const char *prefix, struct buf *out);

#endif
