/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intercepts.h - the rules of a traffic document that allow and forbid requests to other places
 * than the API server, and what each has refused.
 *
 * Counts go on where another document has the same rule: of the same policy, by its name and uid,
 * and with the same name.
 */
#ifndef LOCALPROXY_TRAFFIC_INTERCEPTS_H
#define LOCALPROXY_TRAFFIC_INTERCEPTS_H

#include "base/buf.h"
#include "control/status.h"
#include "traffic/external.h"

struct intercept {
    const struct traffic_intercept *rule;
    bool in_force; /* its policy selects the pod */
    uint64_t refused;
};

/* Those of one document, at their index. */
struct intercept_set {
    struct traffic *document;
    size_t count;
    struct intercept at[];
};

/* All zero: there is no document. */
struct intercepts {
    struct intercept_set *now;
    uint64_t exhausted; /* expressions, of earlier documents */
    uint64_t not_ours;  /* and of this one before it was in force */
};

void intercepts_deinit(struct intercepts *all);

/* As in breakers.h. After another document, and when the pod's labels change: intercepts_activate.
 */
MUST_CHECK int intercepts_prepare(struct traffic *document, struct intercept_set **out);
void intercepts_put_in_force(struct intercepts *all, struct intercept_set *s);
/* Of one that is not in force. NULL is ignored. */
void intercept_set_free(struct intercept_set *s);
void intercepts_activate(struct intercepts *all, const struct selector_label *labels, size_t count);

/* Whether that is allowed. If not, the rule has one refusal more, and what whoever asked is told is
 * appended to `why`. */
MUST_CHECK bool intercepts_allow(struct intercepts *all, const struct traffic_active *a,
                                 const struct traffic_external *r, struct buf *why);

/* How often an expression took too long. */
uint64_t intercepts_exhausted(const struct intercepts *all);

/* Views into it. */
void intercept_describe(const struct intercept *i, struct control_intercept *out);

#endif
