/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - the query of a request target as a Go server reads it, and the injection of a label
 * selector into it.
 *
 * Glossary: a *piece* is what stands between two `&`. Go (url.ParseQuery, since 1.17) drops a piece
 * that is empty, holds a `;` or has a bad percent-escape in key or value, and goes on with the
 * others. `+` and `%20` are a space. A target has no fragment: `#` is an ordinary character to Go.
 */
#ifndef CORE_KUBE_QUERY_H
#define CORE_KUBE_QUERY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Go servers since 1.24.12 and 1.25.6 ignore a query with more than 10,000 pieces *whole*, and with
 * it any selector: a query with more pieces than this is refused. */
#define QUERY_PIECES_MAX 1000

struct query_piece {
    struct slice text;  /* all of it, as written */
    struct slice key;   /* before the first `=`, still encoded */
    struct slice value; /* behind it, still encoded; empty without `=` */
    bool valid;         /* Go takes it */
};

/* What stands behind the first `?` of a target; empty when there is none. */
struct slice query_of(struct slice target);

/* Takes the next piece off `rest` (initially the query). False at the end. Pieces that Go drops are
 * returned too, with `valid` false. */
bool query_next(struct slice *rest, struct query_piece *piece);

/* Whether `encoded` decodes to exactly `plain`. */
bool query_equal(struct slice encoded, struct slice plain);

/* Appends the decoded text. 0, -EINVAL (bad escape), -ENOBUFS or -ENOMEM. */
MUST_CHECK int query_decode(struct slice encoded, struct buf *out);

/* Appends `plain` with all but `A-Za-z0-9-._~` percent-encoded. 0, -ENOBUFS or -ENOMEM, which
 * stays in the buffer (base/buf.h). */
int query_encode(struct slice plain, struct buf *out);

/* The first valid piece whose decoded key is `key`: true, and its encoded value. */
bool query_find(struct slice query, struct slice key, struct slice *value);

/* Appends to `out` the target without its pieces that have one of the `count` keys; all else stays
 * byte for byte. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int query_drop(struct slice target, const struct slice *keys, size_t count,
                          struct buf *out);

/* Whether all servers read the query alike. -EINVAL: a `;` in it (servers built with Go before 1.17
 * split there), a `#` in the target, or too many pieces. */
MUST_CHECK int query_check(struct slice target, struct err *e);

/* Appends to `out` the target with the selector ANDed to the client's own `labelSelector`.
 * `escaped` is the selector in canonical form, encoded by query_encode.
 *
 * The first valid piece with the key labelSelector gets the value `<escaped>%2C<client's value as
 * it was written>`: ours stands first, so that no text of the client can change how it is read. If
 * the client's value is empty or white space, it is replaced. Without such a piece one is added at
 * the end. Everything else stays byte for byte.
 *
 * -EINVAL (query_check, or a second labelSelector: Go servers read the first only, others might
 * read the last), -ENOBUFS, -ENOMEM. On error `out` is as it was. */
MUST_CHECK int query_inject_selector(struct slice target, struct slice escaped, struct buf *out,
                                     struct err *e);

#endif
