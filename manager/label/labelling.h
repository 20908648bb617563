/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labelling.h - whether the objects that a shard's limits select by control labels have them: the
 * condition Labelled.
 *
 * Asked are the limits and the labeller (label/label_progress.h), resource by resource, for all
 * that the API server has: a limit on any resource is one on each.
 */
#ifndef MANAGER_LABEL_LABELLING_H
#define MANAGER_LABEL_LABELLING_H

#include <stdbool.h>

#include "label/label_progress.h"
#include "rules/rules.h"

/* Of several the first. */
enum labelling_state {
    LABELLING_NOT_COMPILED, /* there are no rules */
    LABELLING_OFF,          /* nobody labels, so it is not known */
    LABELLING_UNDER_WAY,
    LABELLING_NEVER, /* it is complete, but for resources that are not labelled */
    LABELLING_DONE,  /* or no limit asks for a control label */
    LABELLING_STATES,
};

struct labelling {
    enum labelling_state state;
    char text[1024]; /* for people: which resources, and how far */
};

/* `rules` NULL: they could not be compiled. `source` NULL: nobody labels. */
void labelling_look(const struct rules *rules, const struct label_progress_source *source,
                    struct labelling *out);

/* It is so, whatever was seen. */
void labelling_done(struct labelling *out);

/* The condition's reason, "True", "False" or "Unknown". */
const char *labelling_reason(enum labelling_state state);
const char *labelling_status(enum labelling_state state);

#endif
