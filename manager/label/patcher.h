/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patcher.h - gives objects their control labels, or takes them away: with one patch each, so many
 * a second, and again when that may help.
 *
 *     patcher_add(p, RESOURCE, ns, name, version, 0);   as it was seen
 *
 * The patch demands that version, so an object that was changed or made anew meanwhile is looked at
 * first. What the server cannot do now (429, 5xx, no answer) is tried again; 429 and Retry-After
 * hold all back.
 */
#ifndef MANAGER_LABEL_PATCHER_H
#define MANAGER_LABEL_PATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/client/api_error.h"
#include "kube/client/client.h"
#include "label/labels.h"
#include "net/clock.h"
#include "net/loop.h"

struct patcher;

enum patcher_outcome {
    PATCHER_CHANGED,
    PATCHER_NEEDLESS, /* somebody did it before */
    PATCHER_FOREIGN,  /* it has become another owner's */
    PATCHER_GONE,     /* it is not there any more, or nobody wants it done */
    PATCHER_REFUSED,  /* by the server, for good or again and again */
    PATCHER_UNDONE,   /* accepted, but the object is not as it should be: by an admission webhook */
    PATCHER_OUTCOMES,
};

/* Both from the loop; neither may free the patcher. */
struct patcher_handlers {
    /* Appends the path of the collection ("" is the namespace of what has none). 0; -ENOENT: this
     * resource is not wanted any more; or what buf_append fails with. */
    int (*path)(void *data, unsigned resource, const char *ns, struct buf *out);
    /* Once for each object that was added, unless it waited already. `error` is NULL but with
     * PATCHER_REFUSED. patcher_level counts it until this returns. May not add the same object. */
    void (*on_done)(void *data, unsigned resource, const char *ns, const char *name,
                    enum patcher_outcome outcome, const struct api_error *error);
    /* One object of the resource more, or one less, waits or is being dealt with; those that wait
     * since their user wanted it do not count. Also from patcher_add. NULL: nobody asks. */
    void (*on_level)(void *data, unsigned resource, bool more);
};

/* All that is pointed to must outlive the patcher. */
struct patcher_options {
    struct kube_client *client;
    const struct labels_keys *keys;
    bool remove;                   /* take the labels away */
    unsigned qps;                  /* requests a second, at least 1 */
    unsigned parallel;             /* at a time, at least 1 */
    bool (*may_write)(void *data); /* asked before each patch; NULL: always. May not free. */
    void *may_write_data;
    const struct net_clock *clock;
};

struct patcher_stats {
    uint64_t patches; /* sent */
    uint64_t looks;   /* requests for an object's metadata */
    uint64_t retries;
    uint64_t throttled; /* answers 429 */
};

MUST_CHECK struct patcher *patcher_new(struct net_loop *l, const struct patcher_options *o,
                                       const struct patcher_handlers *handlers, void *data);

/* After a while, or soon (0). `resource` is the user's number. All is copied. A Namespace has `ns`
 * "". One without a version (NULL) is looked at first. An object that waits already is not added;
 * one that is being dealt with is looked at once more afterwards. False: a text is longer than that
 * of any object. */
MUST_CHECK bool patcher_add(struct patcher *p, unsigned resource, const char *ns, const char *name,
                            const char *version, uint64_t after_ms);

/* Objects that wait or are being dealt with, and of them those that wait since their user wanted
 * it. */
size_t patcher_level(const struct patcher *p);
size_t patcher_later(const struct patcher *p);
const struct patcher_stats *patcher_stats(const struct patcher *p);

/* At once: what was sent may be done all the same. NULL is ignored. */
void patcher_free(struct patcher *p);

#endif
