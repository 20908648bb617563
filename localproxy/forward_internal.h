/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_internal.h - what forward.c and change.c share.
 */
#ifndef LOCALPROXY_FORWARD_INTERNAL_H
#define LOCALPROXY_FORWARD_INTERNAL_H

#include "codec/list_meta.h"
#include "forward.h"
#include "watch/difference_writer.h"
#include "watch/version_probe.h"
#include "watch/watch.h"

struct forward {
    struct forward_context *ctx;
    struct http_exchange *down; /* NULL once it is over */
    struct http_exchange *up;   /* likewise; of a silent watch NULL too */
    struct list link;
    enum request_verb verb;
    uint64_t begun_ns;
    struct request_attributes attributes; /* with `scoped` */
    struct http_head *head;  /* the operator's: of a list or watch until the answer begins, of a
                                watch that can be changed while it is open also then */
    struct watch *watch;     /* an open watch */
    struct list_meta *list;  /* a list that is being passed on */
    struct buf body;         /* of the request, if it was collected, until it is sent */
    struct net_deadline due; /* when a silent watch is cut, or the event it is within must have
                                ended; or a lost write must have */
    uint64_t cut_at_ms;      /* when it is cut */
    struct difference_writer *writer;
    struct version_probe
        *version_probe;  /* in transition: finds a version that the API server still keeps */
    struct rules *view;  /* in transition: the rules under which the client saw what it has */
    struct rules *goal;  /* and those under which it will */
    uint64_t changed_ns; /* when the goal was set */
    bool reopening;      /* `up` is the watch that goes on after a transition, not answered yet */
    bool scoped;         /* the rules concern it */
    bool lost;           /* a write to what the shard has lost meanwhile */
    bool responded;      /* the response's head went down */
    bool tunnel;
    bool request_ended;  /* down sent all of its request */
    bool request_passed; /* and up was told */
    bool response_ended; /* up sent all of its response */
};

/* forward.c */

/* Asks the API server for `target` in the name of the operator's request `head`. NULL with `e` set.
 */
MUST_CHECK struct http_exchange *forward_ask(struct forward *f, const struct http_head *head,
                                             struct slice target, const struct slice *body,
                                             struct err *e);
void forward_abort_up(struct forward *f);
/* Breaks off both sides; `f` is gone. */
void forward_abort(struct forward *f);
/* Without closing either side: those that are left must have been taken out of it. */
void forward_destroy(struct forward *f);
/* The watch stands between two events: the operator sees a plain end and will watch on. */
void forward_end_watch(struct forward *f);
/* A watch that did not begin: the client may try again from where it is. */
void forward_give_back(struct forward *f);

/* change.c */

void change_context_init(struct forward_context *ctx);
void change_context_deinit(struct forward_context *ctx);
/* The watch that follows a transition was answered, or cannot be had. */
void change_reopened(struct forward *f, const struct http_head *head);
void change_not_reopened(struct forward *f);
/* Ends a watch such that the operator lists again. */
void change_cut(struct forward *f);
/* The event is over that a silenced watch was within. */
void change_last_passed(struct forward *f);
/* Of one that ends: gives up what is under way. */
void change_forget(struct forward *f);

#endif
