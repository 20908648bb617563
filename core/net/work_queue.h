/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_queue.h - keys that something is to be done about, each once however often it is added, and
 * never the same key twice at a time.
 *
 * A key that is added while it is being handled is handled once more afterwards. One whose handling
 * failed comes again after a pause that doubles with each failure in a row. So a handler needs to
 * know only the key: it looks at what is there, and does what is missing. As client-go's work
 * queue: https://pkg.go.dev/k8s.io/client-go/util/workqueue.
 *
 * Unlike there, namespaces take turns: of "namespace/name" one of each that has keys queued is
 * handed out after the other, in the order in which they were added. So however many keys one has,
 * and however often they are added, another's wait for no more than one of each. A key without
 * namespace has turns of its own.
 *
 * Only for the manager: it ends without memory (base/xalloc.h).
 */
#ifndef CORE_NET_WORK_QUEUE_H
#define CORE_NET_WORK_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/prometheus.h"
#include "net/clock.h"
#include "net/loop.h"

struct work_queue;

enum work_result {
    WORK_DONE,  /* its failures are forgotten */
    WORK_RETRY, /* it comes again after a pause */
    WORK_AGAIN, /* it is queued again at once; its failures are kept */
    WORK_FIRST, /* the same, before all others */
};

/* From the loop, never inside a function of this header. The key is handled until
 * work_queue_done, which may be called here or at any later time. `key` is valid until then. */
typedef void (*work_queue_cb)(void *data, const char *key);

struct work_queue_options {
    const char *name;            /* in metrics; kept, not copied */
    unsigned parallel;           /* keys that are handled at a time; 0: 1 */
    unsigned namespace_parallel; /* of them, of one namespace; 0: no bound */
    uint64_t retry_min_ms;       /* the first pause of a key; 0: 200 */
    uint64_t retry_max_ms;       /* the longest; 0: 60,000 */
    /* How long no key may be handed out yet: ms. Asked before each; with 0 one is. NULL: at any
     * time. */
    uint64_t (*wait)(void *data);
    const struct net_clock *clock; /* kept, not copied; NULL: the system's */
};

/* How durations are counted: in ms. */
extern const struct prometheus_bounds work_queue_bounds;

struct work_queue_stats {
    uint64_t adds;                         /* keys that came to be queued, retries included */
    uint64_t retries;                      /* WORK_RETRY */
    size_t depth;                          /* queued now */
    size_t active;                         /* being handled now */
    size_t waiting;                        /* to be added later */
    uint64_t longest_ms;                   /* how long the one begun first is handled already */
    struct prometheus_histogram queued;    /* from added to begun */
    struct prometheus_histogram processed; /* from begun to done */
};

/* Never NULL. */
MUST_CHECK struct work_queue *work_queue_new(struct net_loop *l, const struct work_queue_options *o,
                                             work_queue_cb handle, void *data);

/* Handles the key soon; it is copied. */
void work_queue_add(struct work_queue *q, const char *key);
/* The same after a while. Of several times the earliest counts; work_queue_add does not take it
 * back. */
void work_queue_add_after(struct work_queue *q, const char *key, uint64_t ms);

/* Ends the handling of a key that was handed out. `retry_after`: with WORK_RETRY, the shortest
 * pause in seconds (struct api_error has it), 0: none but the usual. */
void work_queue_done(struct work_queue *q, const char *key, enum work_result result,
                     unsigned retry_after);

struct work_queue_stats work_queue_stats(const struct work_queue *q);
const char *work_queue_name(const struct work_queue *q);
/* How many keys of the namespace of this one are queued, handled, or to be added later. */
size_t work_queue_companions(const struct work_queue *q, const char *key);
/* How often the key has failed in a row. */
unsigned work_queue_failures(const struct work_queue *q, const char *key);

/* Appends the metrics of several queues, under the names that client-go gives them: workqueue_depth
 * and so on, with the label `name`. Errors stay in `out`. */
void work_queue_metrics(struct buf *out, const struct work_queue *const *queues, size_t count);

/* At once: what is being handled is nobody's business any more, and work_queue_done must not be
 * called for it. Allowed inside the handler. NULL is ignored. */
void work_queue_free(struct work_queue *q);

#endif
