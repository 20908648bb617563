/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label_progress.h - how far the first labelling of each resource is: what the labeller tells
 * whoever publishes rules that ask for control labels.
 *
 * The first labelling of a resource is complete when it was listed to its end and each object that
 * needed labels was dealt with: has them, is another owner's, or was refused for itself alone. It
 * stays so: what comes later is labelled when it comes.
 */
#ifndef MANAGER_LABEL_LABEL_PROGRESS_H
#define MANAGER_LABEL_LABEL_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "kube/client/discovery.h"

enum label_progress_state {
    LABELLED_DONE,
    LABELLED_DUE,   /* or under way */
    LABELLED_NEVER, /* it is none of the resources that get labels */
};

struct label_progress {
    enum label_progress_state state;
    uint64_t labelled; /* objects that were given labels */
    size_t pending;    /* objects that are known to wait for them */
    const char *error; /* why it cannot be listed; NULL: it can */
};

enum label_progress_knowledge {
    LABELLED_BY_NOBODY, /* nothing is labelled by this process */
    LABELLED_UNKNOWN,   /* which resources there are is not known yet */
    LABELLED_KNOWN,
};

/* Whom to ask. What it gives out is valid until the loop runs on. */
struct label_progress_source {
    /* What the API server has, as discovery_all. */
    enum label_progress_knowledge (*resources)(void *data, const struct discovery_resource **all,
                                               size_t *count);
    /* Of one of them; while they are LABELLED_KNOWN. */
    void (*progress)(void *data, const struct discovery_resource *resource,
                     struct label_progress *out);
    void *data;
};

#endif
