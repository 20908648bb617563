/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.h - takes rules from where they arrive to where they are kept and enforced.
 *
 *     source -> accept -> copy (last known good) -> deliver (localproxy)
 *
 * What is in use is replaced only by rules that are valid, of the same shard, and newer: whatever
 * else arrives, or if nothing does, the rules in use stay stored and enforced. It begins with what
 * the copy holds. Rules that cannot be stored are handed over nevertheless.
 */
#ifndef RULESYNC_SYNC_H
#define RULESYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "accept.h"
#include "complaint.h"
#include "copy.h"
#include "deliver.h"
#include "source.h"

struct sync;

/* Texts are kept, not copied. */
struct sync_options {
    const char *to;                 /* the last known good copy; NULL: none is kept */
    const char *control;            /* localproxy's socket; NULL: nobody is told */
    const char *shard;              /* NAMESPACE/NAME that the rules must be for; NULL: any */
    bool at_start;                  /* see sync_result */
    struct deliver_options deliver; /* times; the rest is set by sync */
    /* Something changed that sync_result tells; may be NULL. Never inside a function of this
     * header but sync_handlers'; may not free. */
    void (*on_change)(void *data);
    void *data;
};

/* The document that the source showed last, taken or not. */
struct sync_seen {
    int64_t at; /* seconds since 1970; 0: none yet */
    uint64_t generation;
    char checksum[RULES_CHECKSUM_LEN + 1]; /* "" and 0: it could not be read */
    enum refusal refusal;
};

struct sync_status {
    const struct rules *rules; /* in use; NULL: none */
    int64_t rules_at;          /* taken from the source; 0: they are the copy's */
    struct sync_seen seen;
    struct complaint refused; /* open: the document that is there now was refused */
    struct complaint source;  /* open: there is no document */
    enum source_trouble trouble;
    char warning[ERR_MSG_MAX]; /* of the source; "": none */
    uint64_t offers;
    uint64_t taken;
    uint64_t refusals[REFUSALS];
    uint64_t troubles[SOURCE_TROUBLES];
    const struct copy_status *copy;       /* NULL: no copy is kept */
    const struct deliver_status *deliver; /* NULL: nobody is told */
};

/* Reads the copy. NULL with `e` set. */
MUST_CHECK struct sync *sync_new(struct net_loop *l, const struct sync_options *o, struct err *e);

/* What a source is to be given, with the sync as data. */
extern const struct source_handlers sync_handlers;

/* Tries again now whatever is waiting. */
void sync_retry(struct sync *s);

const struct sync_status *sync_status(const struct sync *s);

/* Whether rules are in use and, if somebody is to be told, enforced; `why` says "ok" or why not. */
bool sync_ready(const struct sync *s, char *why, size_t size);

enum sync_result {
    SYNC_UNDER_WAY,
    SYNC_DONE,   /* a document was taken or known already, is stored, and is enforced */
    SYNC_FAILED, /* that will not be without a change from outside; sync_ready says why */
};

/* For a single pass. With `at_start`, before an operator starts, good rules that are there already
 * will do: stored ones when the document is missing or refused, and newer ones that localproxy
 * enforces; and a document that is missing, without stored rules, may still come. */
enum sync_result sync_result(const struct sync *s, char *why, size_t size);

/* NULL is ignored. */
void sync_free(struct sync *s);

#endif
