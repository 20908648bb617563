/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last_good.h - the last known good copy of a document: one file that a restart, of rulesync or of
 * localproxy, begins with.
 *
 * It is replaced in one step (write, sync, rename), in canonical form with its checksum. Writing
 * blocks the loop. What cannot be written now, the disk being full, is tried again, with pauses
 * from 1 s to 30 s, until it can or a newer document takes its place. That there are no traffic
 * policies is kept by removing the file, in the same way.
 */
#ifndef RULESYNC_LAST_GOOD_H
#define RULESYNC_LAST_GOOD_H

#include <stdint.h>

#include "base/condition.h"
#include "net/loop.h"
#include "rules/rules.h"
#include "shard_document.h"

struct last_good;

struct last_good_status {
    uint64_t generation; /* of what the file holds; 0: nothing that can be used */
    char checksum[RULES_CHECKSUM_LEN + 1];
    int64_t at; /* written, by this process: seconds since 1970; 0: it was there before */
    uint64_t stores;
    uint64_t failures;
    struct condition trouble; /* open: a newer document could not be stored yet */
};

/* Reads the file; *out is what it holds, the caller unrefs; NULL when there is none, or a damaged
 * one (which is logged). NULL with `e` set: its folder does not exist, or it is there and cannot be
 * read: it may be newer than what comes, so nobody should go on. */
MUST_CHECK struct last_good *last_good_new(struct net_loop *l, const char *path, struct rules **out,
                                           struct err *e);

/* The same of traffic policies; but a copy that cannot be read is taken as a damaged one, for what
 * comes is in force whatever the copy says. */
MUST_CHECK struct last_good *last_good_new_traffic(struct net_loop *l, const char *path,
                                                   struct traffic **out, struct err *e);

/* Writes at once, unless the file holds these rules; sees to it later if that fails. */
void last_good_store(struct last_good *c, struct rules *rules);
/* The same of traffic policies. NULL: there are none, and the file is removed. */
void last_good_store_traffic(struct last_good *c, struct traffic *traffic);
/* Tries again now what failed. */
void last_good_retry(struct last_good *c);

const struct last_good_status *last_good_status(const struct last_good *c);
/* NULL is ignored. */
void last_good_free(struct last_good *c);

#endif
