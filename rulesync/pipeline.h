/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h - takes documents of one kind, rules or traffic policies, from where they arrive to
 * where they are kept and enforced.
 *
 *     source -> validate -> last_good -> delivery (to localproxy)
 *
 * Rules in use are replaced only by rules that are valid, of the same shard, and newer: whatever
 * else arrives, or if nothing does, the rules in use stay stored and enforced. It begins with what
 * the copy holds. Rules that cannot be stored are handed over nevertheless.
 *
 * Traffic policies go their way in a pipeline of their own, so that neither waits for the other or
 * fails with it. They have no order, and there may be none: the copy is removed then, and
 * localproxy told. Nothing is done with them before the source has said something of them; a source
 * that is a single file never does, and then they are left alone.
 */
#ifndef RULESYNC_PIPELINE_H
#define RULESYNC_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/condition.h"
#include "delivery.h"
#include "last_good.h"
#include "shard_document.h"
#include "source.h"
#include "validate.h"

struct pipeline;

/* Texts are kept, not copied. */
struct pipeline_options {
    enum control_document document;
    const char *to;                   /* the last known good copy; NULL: none is kept */
    const char *control;              /* localproxy's socket; NULL: nobody is told */
    const char *shard;                /* NAMESPACE/NAME that they must be for; NULL: any */
    const struct pipeline *rules;     /* of traffic policies without `shard`: which counts; outlives
                                         this one. NULL: none does */
    bool once;                        /* a single pass: localproxy is told of no trouble */
    bool at_start;                    /* see pipeline_result */
    struct delivery_options delivery; /* times; the rest is set by the pipeline */
    /* Something changed that pipeline_result tells; may be NULL. Never inside a function of this
     * header but pipeline_handlers'; may not free. */
    void (*on_change)(void *data);
    void *data;
};

/* The document that the source showed last, taken or not. */
struct pipeline_seen {
    int64_t at; /* seconds since 1970; 0: none yet */
    uint64_t generation;
    char checksum[RULES_CHECKSUM_LEN + 1]; /* "" and 0: it could not be read */
    enum refusal refusal;
};

struct pipeline_status {
    const struct shard_document *used; /* in use, perhaps none */
    int64_t used_at;                   /* taken from the source; 0: they are the copy's */
    bool none;                         /* there are no traffic policies, as the source says */
    bool silent;                       /* of traffic policies the source says nothing */
    bool heard;                        /* the source has said something, or that it does not */
    struct pipeline_seen seen;
    struct condition refused; /* open: the document that is there now was refused */
    struct condition source;  /* open: there is no document */
    enum source_trouble trouble;
    char warning[ERR_MSG_MAX]; /* of the source; "": none */
    bool blind;                /* of changes of the source nobody tells: it is looked at */
    uint64_t offers;
    uint64_t taken;
    uint64_t refusals[REFUSALS];
    uint64_t troubles[SOURCE_TROUBLES];
    const struct last_good_status *copy;    /* NULL: no copy is kept */
    const struct delivery_status *delivery; /* NULL: nobody is told */
};

/* Reads the copy. NULL with `e` set. */
MUST_CHECK struct pipeline *pipeline_new(struct net_loop *l, const struct pipeline_options *o,
                                         struct err *e);

/* What a source is to be given, with the pipeline as data. */
extern const struct source_handlers pipeline_handlers;

/* Tries again now whatever is waiting. */
void pipeline_retry(struct pipeline *s);

const struct pipeline_status *pipeline_status(const struct pipeline *s);

/* Of rules: whether some are in use and, if somebody is to be told, enforced; `why` says "ok" or
 * why not. */
bool pipeline_ready(const struct pipeline *s, char *why, size_t size);

enum pipeline_result {
    PIPELINE_UNDER_WAY,
    PIPELINE_DONE,   /* a document was taken or known already, is stored, and is enforced */
    PIPELINE_FAILED, /* that will not be without a change from outside; pipeline_ready says why */
};

/* For a single pass. With `at_start`, before an operator starts, good rules that are there already
 * will do: stored ones when the document is missing or refused, and newer ones that localproxy
 * enforces; and a document that is missing, without stored rules, may still come. */
enum pipeline_result pipeline_result(const struct pipeline *s, char *why, size_t size);

/* The same of traffic policies, for which nothing fails: whether there is nothing left to wait for.
 * localproxy is called once: what it does not take then is in the copy. */
bool pipeline_settled(const struct pipeline *s);

/* NULL is ignored. */
void pipeline_free(struct pipeline *s);

#endif
