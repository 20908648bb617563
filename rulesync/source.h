/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - what a place from where documents come tells to whoever takes them.
 *
 * A place may hold rules and traffic policies. They are told apart from each other, each to its own
 * handlers: rules always, traffic policies to whoever wants them. That the place is there, and has
 * rules but no traffic policies, means that there are none. Where rules are missing too, it is no
 * ConfigMap of ours any more, or not yet: the kubelet shows one that was deleted as an empty
 * folder.
 */
#ifndef RULESYNC_SOURCE_H
#define RULESYNC_SOURCE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "base/slice.h"

/* Keys of the ConfigMap, so their names in the mounted folder. */
#define SOURCE_KEY "rules.json"
#define SOURCE_TRAFFIC_KEY "traffic.json"

/* What keeps a source from having a document. */
enum source_trouble {
    SOURCE_FINE,
    SOURCE_MISSING,     /* the folder, the ConfigMap or the key is not there */
    SOURCE_UNREADABLE,  /* it is there: no permission, not a file, too large */
    SOURCE_UNREACHABLE, /* the API server cannot be asked: it may be there or not */
    SOURCE_TROUBLES,
};

/* None is called inside a function of a source; a source may not be freed inside them. */
struct source_handlers {
    /* A whole document is there, new or not, at `place` ("/etc/cmesh/rules.json"); both are valid
     * during the call. 0: taken, or known already. Negative: refused, `e` says why; unless `final`,
     * nobody need know yet: the document may be half-written, and is offered again soon. */
    int (*offer)(void *data, const char *place, struct slice text, bool final, struct err *e);
    /* Comes with each look that fails, and before an offer with SOURCE_FINE and `e` NULL. `level`:
     * at which to log it, LOG_ERROR or less where its cause has a line of its own. */
    void (*trouble)(void *data, enum source_trouble trouble, const struct err *e,
                    enum log_level level);
    /* There is no document, and that is what the place says: comes with each look. For traffic
     * policies only. */
    void (*none)(void *data);
    /* The place says nothing of such documents, not even that there are none: it is a single file.
     * Comes with each look. For traffic policies only. */
    void (*silent)(void *data);
    /* Something that people should know, once. */
    void (*warn)(void *data, const char *text);
    /* With each change: whether changes are only found by looking, since nobody tells of them. At
     * the beginning they are told of. NULL: never mind. */
    void (*blind)(void *data, bool blind);
};

/* Who takes the traffic policies of a source. */
struct source_taker {
    const struct source_handlers *handlers; /* offer, trouble, none and silent; NULL: nobody */
    void *data;
};

#endif
