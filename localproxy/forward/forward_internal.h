/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_internal.h - what a forward is made of, for its own files: forward.c has its life,
 * forward_watch.c and forward_list.c the answers that are looked into, forward_write.c writes that
 * may be lost, forward_bookmark.c bookmarks after writes, forward_failure.c an API server that does
 * not answer.
 */
#ifndef LOCALPROXY_FORWARD_FORWARD_INTERNAL_H
#define LOCALPROXY_FORWARD_FORWARD_INTERNAL_H

#include "exchange/pump.h"
#include "forward/forward.h"
#include "net/deadline.h"

#define FORWARD_RETRY_AFTER_S 1

/* What an open watch does not need any more. */
struct asking {
    struct forward *forward;
    struct delivered_account *account; /* of a watch */
    uint64_t coming;                   /* of a list: bytes of its body; UINT64_MAX: not known */
    struct buf body;                   /* of the request, if it was collected, until it is sent */
    struct byte_share body_share;      /* until the API server answers: so long it may be queued */
    struct pending_write write;        /* if it is one that the rules concern */
    struct net_deadline lost_due;      /* when a lost write must have come, or be over */
    struct written *written;           /* the answer of a write that watches may want to know of */
    struct passage passage;
};

struct forward {
    struct forward_context *ctx;
    struct upstream *upstream;
    struct pump pump; /* `up` of a watch that passes nothing is NULL */
    struct list link;
    enum request_verb verb;
    uint64_t begun_ns;
    struct request_attributes attributes; /* if `concerned` */
    struct http_head *head;      /* the operator's: of a list or watch until the answer begins, of a
                                    watch that can migrate also then (headers_copy_of_watch) */
    struct list_meta *list;      /* a list that is being passed on */
    struct watch *watch;         /* an open watch */
    struct migration migration;  /* of `watch` */
    struct bookmark *bookmark;   /* of `watch`; NULL: nothing was written outside of it */
    struct asking *asking;       /* NULL of an open watch */
    struct net_deadline overdue; /* when the API server must have answered, or ended a watch */
    struct time_limits limits;
    uint32_t target_len; /* of what was asked upstream last: bytes */
    uint32_t added_len;  /* of which so many are not the client's */
    bool concerned;      /* the rules concern it */
    bool carried;        /* behind the API server somebody else answers it */
    bool resource;       /* it goes on only while they are valid */
    bool safe;           /* to be asked a second time */
    bool inflated;       /* `list`, to be counted */
};

/* ---- forward.c ---- */

/* Asks the API server for `target` in the name of the operator's request `head`. */
MUST_CHECK int forward_ask(struct forward *f, const struct http_head *head, struct slice target,
                           const struct slice *body, struct err *e);
/* Without closing either side: those that are left must have been taken out of it. */
void forward_free(struct forward *f);
/* Breaks off both sides; `f` is gone. */
void forward_abort(struct forward *f);
/* The watch is at the end of an event: the operator sees a plain end and will watch on. The rules
 * do not concern a watch of the lock alone, which is passed on unread. `f` may be gone. */
void forward_end_watch(struct forward *f);
void forward_end_asking(struct forward *f);
/* A target that is refused for its length is reported, if the shard's selector has a part in it. */
void forward_judge_length(struct forward *f, const struct http_head *head);

/* ---- forward_watch.c ---- */

/* The answer begins. False: no memory. */
MUST_CHECK bool forward_open_watch(struct forward *f, const struct http_head *head);
/* What came of it. `f` may be gone. */
void forward_pass_events(struct forward *f, struct slice data);
bool forward_is_silent(const struct forward *f);
bool forward_is_reopening(const struct forward *f);

/* ---- forward_list.c ---- */

/* The answer begins. False: no memory. */
MUST_CHECK bool forward_open_list(struct forward *f, const struct http_head *head);
/* What is about to be passed on. */
void forward_feed_list(struct forward *f, struct slice data);
/* The client will have all of it, and may go on from it. */
void forward_note_list(struct forward *f);

/* ---- forward_write.c ---- */

void forward_write_init(struct forward *f);
/* If the rules concern it. */
void forward_write_begin(struct forward *f);
/* It is answered, or was never sent. */
void forward_write_end(struct forward *f);
/* The API server's side `x` is given up, or has ended. */
void forward_write_leave(struct forward *f, const struct http_exchange *x);
/* Of pending_writes. */
void forward_write_on_lost(struct pending_write *w);
/* The rules `now` are in force: writes that may still be executed, and would be refused now, are
 * lost (upstream/pending_writes.h). Of those under way, what its client has not sent completely
 * after a short time is broken off, and so never executed. */
void forward_judge_writes(struct forward_context *ctx, const struct rules *now);

/* ---- forward_bookmark.c ---- */

/* The answer of a write begins: it is read if an open watch may want to know of it. */
void forward_open_written(struct forward *f, const struct http_head *head);
/* What is passed on of it, and its end. */
void forward_feed_written(struct forward *f, struct slice data);
void forward_note_written(struct forward *f);
/* NULL is ignored. */
void forward_free_written(struct written *w);
/* The watch `f`, which has a bookmark, has delivered events. `f` may be gone. */
void forward_advance_bookmark(struct forward *f);
/* It is about to have another selector, or to end. */
void forward_stop_bookmark(struct forward *f);
/* It ends. */
void forward_free_bookmark(struct forward *f);
/* Of forward_context: watches that wait for it have their turn. */
void forward_on_write_probe_ended(struct net_task *t);

/* ---- forward_failure.c ---- */

/* The API server has all of the request: it is to answer in time. */
void forward_expect_answer(struct forward *f);
void forward_on_overdue(struct net_deadline *d);
/* Nothing of an answer came: the operator gets localproxy's. `sent`: something of the request may
 * have come there. */
void forward_fail_unanswered(struct forward *f, bool sent, const struct err *e);
/* Nothing was asked. */
void forward_fail_unasked(struct forward *f, const struct err *e);
/* A watch waits while the API server is away for a moment, and is asked for again: of client-go
 * before 0.22 all informers would list upon any answer, and they do not list when a connection is
 * refused. True: it has been taken out of `f`, which is gone. */
bool forward_wait(struct forward *f, const struct http_exchange *x, const struct err *e);

#endif
