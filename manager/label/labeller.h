/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labeller.h - gives namespaces and the objects of the configured resources their control labels:
 * what lacks them at start, and from then on whatever comes to be without the webhook.
 *
 * Namespaces come first, then one resource after the other. The API server is asked for what is not
 * labelled alone (`<control key>!=true`), as metadata; what is done is seen there, so a labeller
 * that begins anew goes on where another ended, and nothing is kept of an object but while it is to
 * be patched, and 8 bytes of each that is another owner's. At last everything that is labelled is
 * listed, once and every six hours, and what is ours and wrong is put right: labels of former
 * settings, or of the namespace that an object was copied from.
 *
 * A patch holds the version that was looked at: what was changed meanwhile is looked at again. What
 * another owner labelled (label/labels.h) is told, counted and left alone, unless the policy of the
 * keys is LABELS_TAKE.
 *
 * One lives while this process leads: made when it comes to lead, freed when it does not any more.
 */
#ifndef MANAGER_LABEL_LABELLER_H
#define MANAGER_LABEL_LABELLER_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/discovery.h"
#include "label/label_progress.h"
#include "label/labels.h"
#include "label/sharding_resources.h"
#include "net/clock.h"
#include "net/loop.h"

#define LABELLER_QPS 100 /* of --label-qps */

struct labeller;

/* All that is pointed to must outlive the labeller, texts included. */
struct labeller_options {
    struct kube_client *client;
    struct discovery *discovery;
    const struct sharding_resources *resources;
    const struct labels_keys *keys;
    const char *namespace; /* the manager's own; NULL: none */
    bool
        system_namespaces; /* the manager's own, kube-system, kube-public and kube-node-lease too */
    unsigned qps;          /* requests a second about single objects; 0: LABELLER_QPS */
    unsigned parallel;     /* of them at a time; 0: 8 */
    /* Asked right before each write: whether this process leads still. NULL: it does. */
    bool (*may_write)(void *data);
    /* What labeller_progress tells is other than before: the first labelling of a resource is
     * complete, or there are other resources. Also from labeller_new and labeller_discovered; may
     * not free. NULL: nobody. */
    void (*on_progress)(void *data);
    void *data;
    const struct net_clock *clock; /* NULL: the system's */
};

/* Begins with the loop's next turn. */
MUST_CHECK struct labeller *labeller_new(struct net_loop *l, const struct labeller_options *o);

/* To be called in discovery's on_change: begins with resources that are new, ends others. */
void labeller_discovered(struct labeller *l);

/* To be called when other namespaces are shared than before, or it is known which are: puts right
 * what is labelled, at once and once more after a while, since webhooks elsewhere may learn of it
 * later. */
void labeller_recheck(struct labeller *l);

/* For a struct label_progress_source. `l` NULL: nothing is labelled. */
enum label_progress_knowledge
labeller_resources(const struct labeller *l, const struct discovery_resource **all, size_t *count);
void labeller_progress(const struct labeller *l, const struct discovery_resource *d,
                       struct label_progress *out);

/* For the pages of the admin server: metrics cmesh_manager_label_*, whose errors stay in `out`, and
 * "labels" in the status. NULL, when another process leads: nothing is written. */
void labeller_metrics(const struct labeller *l, struct buf *out);
void labeller_status(const struct labeller *l, cJSON *root);

/* At once: what was sent may be done all the same. NULL is ignored. */
void labeller_free(struct labeller *l);

#endif
