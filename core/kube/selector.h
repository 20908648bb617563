/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selector.h - Kubernetes label selectors: parse, print, evaluate, AND.
 *
 * Source: k8s.io/apimachinery/pkg/labels (grammar and meaning have not changed from 1.20 to current
 * releases) and metav1.LabelSelector. A selector is a conjunction of requirements; one with none
 * matches everything.
 *
 *     a=b  a==b  a!=b  a in (b,c)  a notin (b,c)  a  !a  a>5  a<5
 *
 * A missing key satisfies `!=`, `notin` and `!a` and nothing else. There is no quoting. `a=` and
 * `a in ()` ask for the empty value. Canonical text is what Selector.String() prints: requirements
 * by key, values sorted; those with equal keys stand in a fixed order here, so that the order in
 * which they were written does not matter.
 */
#ifndef CORE_KUBE_SELECTOR_H
#define CORE_KUBE_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define SELECTOR_TEXT_MAX (1024 * 1024) /* bytes of text that are parsed */
#define SELECTOR_REQUIREMENTS_MAX 1024
#define SELECTOR_VALUES_MAX 65536 /* of one requirement */

enum selector_op {
    SELECTOR_EXISTS,
    SELECTOR_NOT_EXISTS,
    SELECTOR_EQUALS,
    SELECTOR_DOUBLE_EQUALS,
    SELECTOR_IN,
    SELECTOR_NOT_EQUALS,
    SELECTOR_NOT_IN,
    SELECTOR_GREATER,
    SELECTOR_LESS,
};

struct selector_requirement {
    const char *key;
    enum selector_op op;
    const char **values; /* sorted by byte, without doubles */
    size_t value_count;
};

struct selector; /* immutable */

/* Parses the text of a labelSelector parameter. As in Kubernetes a NUL byte between two tokens ends
 * the text. NULL with the byte position in the message: -EINVAL, -E2BIG (over the bounds above),
 * -ENOMEM. */
MUST_CHECK struct selector *selector_parse(struct slice text, struct err *e);

/* Builds from a metav1.LabelSelector object (matchLabels, matchExpressions); `path` names it in
 * messages, as in "spec.limits[0].selector.matchExpressions[1].values: Required value". Fields
 * other than those two are refused. An `In` with an empty list makes the whole match nothing, where
 * Kubernetes refuses it; a NotIn with one is refused. JSON null matches nothing, `{}` everything.
 */
MUST_CHECK struct selector *selector_from_label_selector(const cJSON *object, const char *path,
                                                         struct err *e);

/* Matches no label set; prints as SELECTOR_NOTHING, which the API server accepts. NULL without
 * memory. */
#define SELECTOR_NOTHING "k,!k"
MUST_CHECK struct selector *selector_nothing(void);

/* What matches all of them; a requirement that stands in several is kept once. None: everything.
 * NULL: -E2BIG or -ENOMEM. */
MUST_CHECK struct selector *selector_and(const struct selector *const *list, size_t count,
                                         struct err *e);

/* The same, but its keys and values are those of the selectors in the list, which must outlive it:
 * what is wide is not copied into each that it is a part of. */
MUST_CHECK struct selector *selector_and_shared(const struct selector *const *list, size_t count,
                                                struct err *e);

/* NULL is fine. */
void selector_free(struct selector *s);

struct selector_label {
    struct slice key;
    struct slice value;
};

/* The narrowest that matches what `s` does, and also objects with these labels (of labels with the
 * same key the first counts): their values are added to lists or taken out of them; a requirement
 * that cannot be widened so is left out. NULL: -EINVAL (they are no labels), -E2BIG or -ENOMEM. */
MUST_CHECK struct selector *selector_widen(const struct selector *s,
                                           const struct selector_label *labels, size_t count,
                                           struct err *e);

/* A copy of its requirement `i` (selector_requirements) alone. NULL: -ENOMEM. */
MUST_CHECK struct selector *selector_one(const struct selector *s, size_t i, struct err *e);

/* Whether it has no requirement. */
bool selector_is_everything(const struct selector *s);
/* Whether it has one twice, which selector_and would not. */
bool selector_has_doubles(const struct selector *s);
/* In canonical order: by key. */
const struct selector_requirement *selector_requirements(const struct selector *s, size_t *count);
/* Of its requirements and their values. */
size_t selector_size(const struct selector *s);
/* Bytes of memory that it takes, about; of a shared one (above) without what it shares. */
size_t selector_weight(const struct selector *s);
size_t selector_weight_shared(const struct selector *s);
/* Whether an object whose label of that key has this value satisfies it; NULL: has no such label.
 */
bool selector_requirement_matches(const struct selector_requirement *r, const struct slice *value);

/* Whether an object with these labels satisfies all of it; of labels with the same key the first
 * counts. */
bool selector_matches(const struct selector *s, const struct selector_label *labels, size_t count);

/* Same canonical text. */
bool selector_equal(const struct selector *a, const struct selector *b);

/* Appends the canonical text. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int selector_print(const struct selector *s, struct buf *out);

#endif
