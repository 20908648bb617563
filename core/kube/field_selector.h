/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field_selector.h - the terms of a field selector, and which value it demands of a field.
 *
 * Source: k8s.io/apimachinery/pkg/fields. Terms `a=b`, `a==b`, `a!=b` joined by commas; in values
 * `\`, `,` and `=` are escaped by a backslash.
 */
#ifndef CORE_KUBE_FIELD_SELECTOR_H
#define CORE_KUBE_FIELD_SELECTOR_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct field_term {
    struct slice text; /* all of it */
    struct slice field;
    struct slice value; /* still escaped */
    bool negated;       /* `!=` */
};

/* Takes the next term off `rest` (initially the selector). 1, 0 at the end, -EINVAL. */
MUST_CHECK int field_selector_next(struct slice *rest, struct field_term *term);

/* Appends the value that a term `field=value` demands; of several such terms it is, as in
 * Kubernetes, the one that sorts first. 1 found, 0 none, -EINVAL (not a field selector), -ENOBUFS,
 * -ENOMEM. */
MUST_CHECK int field_selector_exact(struct slice text, struct slice field, struct buf *value);

#endif
