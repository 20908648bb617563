/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - which faults a request is to suffer: delays, and an answer that is no answer.
 *
 * What a rule has done is counted apart from the document, and goes on where another one has the
 * same rule. Chance comes from a generator of its own, which is started by the kernel's, or by a
 * test.
 */
#ifndef LOCALPROXY_TRAFFIC_FAULT_H
#define LOCALPROXY_TRAFFIC_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/table.h"
#include "control/status.h"
#include "traffic/match.h"
#include "traffic/traffic.h"

/* A rule of a FaultInjection, and what it has done. */
struct fault {
    struct table_node node; /* among those of the document in force */
    unsigned refs;
    struct traffic *document; /* which has the rule */
    const struct traffic_fault *rule;
    bool in_force; /* it is in the document in force, and its policy selects the pod */
    uint64_t delayed;
    uint64_t aborted;
    char key[];
};

/* Those of one document: one for each of its fault rules, at its index. */
struct fault_set {
    unsigned refs;
    size_t count;
    struct fault *at[];
};

struct faults {
    uint64_t chance; /* the generator's state */
    struct table by_key;
    struct fault_set *now; /* NULL: there is no document */
};

/* What one request is to suffer. */
struct fault_drawn {
    struct fault_set *set; /* referenced, if it is to suffer anything; NULL: nothing */
    uint64_t delay_ms;     /* of all of them together, at most TRAFFIC_DELAY_MAX_MS */
    struct fault *abort;   /* held by the set; NULL: it is answered as ever */
    uint64_t delays[TRAFFIC_SET_WORDS];
};

void faults_init(struct faults *all, uint64_t seed);
/* Nothing that was drawn may be held any more. */
void faults_deinit(struct faults *all);

/* As in breakers.h. After another document, and when the pod's labels change: faults_activate. */
MUST_CHECK int faults_prepare(struct faults *all, struct traffic *document, struct fault_set **out);
void faults_put_in_force(struct faults *all, struct fault_set *s, struct traffic *document);
void fault_set_unref(struct fault_set *s);
void faults_activate(struct faults *all, const struct selector_label *labels, size_t count);

/* Draws for a request that meets these rules at that time (seconds since 1970). To be given back by
 * fault_drawn_release. */
void faults_draw(struct faults *all, const struct traffic_found *found, int64_t now,
                 struct fault_drawn *out);
/* How long it is to wait by what is still in force. */
uint64_t fault_drawn_delay(const struct fault_drawn *d);
/* The rule by which it is to be answered, if that is still in force; NULL: as ever. */
struct fault *fault_drawn_abort(const struct fault_drawn *d);
/* Counts the delay that begins. */
void fault_drawn_count_delay(struct fault_drawn *d);
void fault_drawn_release(struct fault_drawn *d);

/* Appends what whoever is answered with an error is told. */
void fault_message(const struct fault *f, struct buf *out);
/* Views into it. */
void fault_describe(const struct fault *f, struct control_fault *out);

#endif
