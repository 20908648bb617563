/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending_writes.h - the writes that may still be executed: those under way, and those that were
 * given up before they were answered.
 *
 * That the connection of one has ended stops nobody: the API server may not have read it yet, or be
 * in the midst of it. It counts for as long as the API server works on a request, so that rules
 * which take away what it writes are not taken for settled before. Nor does the end of the process
 * stop anybody: a record of it all is kept, for the next one (delivered_versions.h has the file).
 */
#ifndef LOCALPROXY_UPSTREAM_PENDING_WRITES_H
#define LOCALPROXY_UPSTREAM_PENDING_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "net/clock.h"
#include "net/loop.h"
#include "upstream/request_attributes.h"

/* How long after it was sent a write is executed at the latest: kube-apiserver's --request-timeout
 * (60 s by default), and something for the way. */
#define PENDING_WRITE_MS 65000

/* How much later what was sent may arrive: TCP's user timeout. */
#define PENDING_ARRIVAL_MS 30000

/* So many that were given up are told apart; while there are more, each is taken for any. */
#define PENDING_WRITES_MAX 1024

/* What the next process has to know, whenever this one ends. Plain integers, for it may come from a
 * file; times are those of CLOCK_BOOTTIME. */
struct pending_record {
    uint64_t under_way; /* how many are */
    uint64_t until_ms;  /* the others are over then */
    uint64_t lost;      /* not 0: of some the shard has lost what they write */
    uint64_t rules;     /* a hash of those in force; 0: there are none */
};

/* When nothing is known of the process before: one may be under way to what was lost. */
#define PENDING_UNKNOWN ((struct pending_record){.under_way = 1, .lost = 1})

/* A write; while it is under way, in the memory of who sends it. */
struct pending_write {
    struct list link; /* not linked: it is none, or not any more */
    const struct request_attributes *attributes;
    uint64_t sent_ms;  /* last, whole; 0: not yet */
    uint64_t until_ms; /* it was given up, and is over then; 0: it is under way */
    bool lost;         /* what it writes is not the shard's any more */
};

/* Embedded; single-threaded. */
struct pending_writes {
    const struct net_clock *clock;
    struct net_timer *timer;
    struct pending_record *record;
    struct list all;
    unsigned count; /* of those given up */
    unsigned lost;  /* of all */
    struct {
        uint64_t until_ms; /* 0: all are told apart */
        bool lost;
    } others; /* of the process before, and those for which there was no room */
    /* No lost one is under way any more, or none is lost at all. From the loop. */
    void (*on_settled)(void *data);
    /* `w`, which is under way, is lost now. */
    void (*on_lost)(struct pending_write *w);
    void *data; /* of on_settled */
};

/* Callbacks are the caller's to set. `clock` and `record` must outlive it; the record says what the
 * process before has left, and is this one's from now on. 0 or -ENOMEM. */
MUST_CHECK int pending_writes_init(struct pending_writes *p, struct net_loop *l,
                                   const struct net_clock *clock, struct pending_record *record);
/* None is under way any more. */
void pending_writes_deinit(struct pending_writes *p);

/* A write is about to be sent, perhaps in part. `a` must live as long as it is under way. */
void pending_writes_begin(struct pending_writes *p, struct pending_write *w,
                          const struct request_attributes *a);
/* All of it is sent, for the first time or once more. */
void pending_writes_sent(const struct pending_writes *p, struct pending_write *w);
/* It was answered, or can never be executed. Nothing, if it is not under way. */
void pending_writes_end(struct pending_writes *p, struct pending_write *w);
/* It was sent, and nobody waits for its answer any more. `on_its_way`: it has perhaps not arrived
 * yet. Takes the memory of `a`, which are its attributes and were kept. */
void pending_writes_give_up(struct pending_writes *p, struct pending_write *w,
                            struct request_attributes *a, bool on_its_way);

/* Whether it is under way; and if it was sent, when it is executed at the latest. */
bool pending_write_is_under_way(const struct pending_write *w);
uint64_t pending_write_over_ms(const struct pending_write *w);

/* The rules of that hash (not 0) are in force: asks of each write whether it is lost now. */
void pending_writes_judge(struct pending_writes *p, uint64_t rules,
                          bool (*is_lost)(void *data, const struct request_attributes *a),
                          void *data);

/* How many may still be executed although what they write was lost. */
unsigned pending_writes_lost(const struct pending_writes *p);
/* Whether it is worth waiting for so long until there are none, or fewer: some may be answered, or
 * the last is over. */
bool pending_writes_may_settle(const struct pending_writes *p, uint64_t within_ms);

#endif
