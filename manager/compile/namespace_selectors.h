/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespace_selectors.h - the namespaceSelectors of a config's limits, each different one once, and
 * what they come to: a selector of objects by the names of namespaces.
 *
 * Proxies know no labels of namespaces, but each object has a control label with the name of its
 * own.
 */
#ifndef MANAGER_COMPILE_NAMESPACE_SELECTORS_H
#define MANAGER_COMPILE_NAMESPACE_SELECTORS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/namespace_set.h"
#include "kube/selector.h"

#define NAMESPACE_SELECTOR "namespaceSelector" /* the field of a limit */

/* All are matched against all namespaces whenever labels change. */
#define NAMESPACE_SELECTORS_MAX 8        /* different ones of a config */
#define NAMESPACE_SELECTOR_SIZE_MAX 1000 /* requirements and values of one, */
#define NAMESPACE_REQUIREMENTS_MAX 16    /* and requirements */
#define NAMESPACE_NAMES_MAX 1000         /* namespaces that one may select */

struct namespace_selectors {
    struct {
        struct selector *selector;
        char *text;             /* the same, canonical */
        struct selector *names; /* what it comes to; NULL: nobody has asked */
    } items[NAMESPACE_SELECTORS_MAX];
    size_t count;
};

/* Adds one, found at `path`, unless it is there already. Returns its number; or -EINVAL, -E2BIG. */
int namespace_selectors_add(struct namespace_selectors *s, const cJSON *item, const char *path,
                            struct err *e);

/* What the one of that number comes to: `key in (names)`; without any name a selector that asks for
 * `key` and matches nothing. It belongs to `s`. `set` NULL: no namespaces are known. NULL: -EAGAIN:
 * they are not known; -E2BIG: they are too many; -EINVAL: it is no key. */
const struct selector *namespace_selectors_resolve(struct namespace_selectors *s, int number,
                                                   const struct namespace_set *set, const char *key,
                                                   const char *path, struct err *e);

/* Adds all of a config's limits, but those that are wrong and for which it is refused. */
void namespace_selectors_read(struct namespace_selectors *s, const cJSON *config);
/* Whether one of them selects one of the two, and not the other; NULL: there is none. */
bool namespace_selectors_tell_apart(const struct namespace_selectors *s,
                                    const struct namespace_entry *a,
                                    const struct namespace_entry *b);
/* How many namespaces at least one of them selects. */
size_t namespace_selectors_count(const struct namespace_selectors *s,
                                 const struct namespace_set *set);
/* Bytes of memory, about. */
size_t namespace_selectors_weight(const struct namespace_selectors *s);

void namespace_selectors_deinit(struct namespace_selectors *s);

#endif
