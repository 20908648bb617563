/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_probe.h - what a watch still has to deliver before a version that was written outside of
 * it.
 *
 * The operator has written an object at version V that its watch of that kind does not select, so
 * no event will tell the watch that V is past. A bookmark at V may be written into it once all its
 * events up to V have been delivered. Which those are cannot be learnt from a second watch with the
 * same selector: that it shows nothing proves nothing, until a bookmark comes 1 to 2 s later. Nor
 * from a list: the events up to its version may still be on their way.
 *
 * So two short watches, or a few, are begun at R, which the watch has delivered up to. *Cover* has
 * a selector widened by the labels of the object that was written (selector_widen), so that it
 * shows that object, too; one watch is in the order of versions, so when it has come to V it has
 * shown all events of the first up to there. *Rest* is what cover selects and the watch does not.
 * An event that both show with the same type is none of the watch:
 *
 *     cover     rest      the object                        the watch
 *     ADDED     ADDED     was in neither, is in rest        nothing
 *     MODIFIED  MODIFIED  was and is in rest                nothing
 *     DELETED   DELETED   was in rest, is in neither        nothing
 *     MODIFIED  ADDED     was the watch's, is in rest       DELETED
 *     MODIFIED  DELETED   was in rest, is the watch's       ADDED
 *     any       none      the watch's, before and after     the same
 *
 * What is not selected by a conjunction fails one of its requirements, so rest is a union of what
 * fails the first, the second and so on. Of the requirements that the object fails each has a
 * watch, which so shows the object, too; the others stand in cover. An object was, or is, in rest
 * if one of these says so.
 *
 * Each event is expected to have a version above the one before. Objects that are deleted with
 * their etcd lease, as Events are, have one version together: the watch may have delivered some of
 * them when it comes to that version, so the probe fails, and its owner begins another one later.
 *
 * The last event of the other kinds up to V is what the watch has to deliver first. They take as
 * long as the API server needs to answer: some milliseconds. Where V is not shown for another
 * reason (the client's own selectors), a bookmark of cover and rest past V is as good.
 */
#ifndef LOCALPROXY_WATCH_WRITE_PROBE_H
#define LOCALPROXY_WATCH_WRITE_PROBE_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/client/client.h"
#include "kube/selector.h"
#include "net/loop.h"

/* Requirements that the object may fail; beyond, there is no probe. */
#define WRITE_PROBE_RESTS 3
/* Events of a watch, and bytes of one, that are looked at; beyond, the probe fails. */
#define WRITE_PROBE_EVENTS 16384
#define WRITE_PROBE_BYTES ((size_t)8 * 1024 * 1024)

struct write_probe;

struct write_probe_options {
    struct kube_client *client;
    struct slice target;                 /* the watch as the client asked for it */
    const struct selector *selector;     /* ours */
    const struct selector_label *labels; /* of the object, which `selector` does not match */
    size_t label_count;
    uint64_t from;              /* R */
    uint64_t to;                /* V, above R */
    struct byte_budget *budget; /* for requests and events (watch_memory.h); NULL: no bound */
};

/* The watch has everything up to V once it has delivered `version` (0: it has it now). Or (`e`) it
 * is not known: -E2BIG, or the API server has not said.
 * Never called before write_probe_new returns; may free the probe. */
typedef void (*write_probe_cb)(void *data, uint64_t version, const struct err *e);

/* `cb` follows once. NULL with `e` set; -ENOTSUP: there are no such selectors, or they are too
 * long, and will be. */
MUST_CHECK struct write_probe *write_probe_new(struct net_loop *l,
                                               const struct write_probe_options *o,
                                               write_probe_cb cb, void *data, struct err *e);

/* NULL is ignored. */
void write_probe_free(struct write_probe *p);

#endif
