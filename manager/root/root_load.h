/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_load.h - what the buckets of a root cost, and the moves that are made for its sake.
 *
 * A bucket moves in two steps, so that a new leader knows of it: its time stands in the root's
 * status first, and only what the cache shows there is done. So at most as many move in an hour as
 * may; one that is told of and then not made, because something else came first, counts as well.
 *
 *   nothing -- the shards do not carry alike, and all is as it is to be --> PLANNED
 *   PLANNED -- its time stands in the status --> MOVING, as long as the pass takes
 *   PLANNED -- something changes --> nothing
 */
#ifndef MANAGER_ROOT_ROOT_LOAD_H
#define MANAGER_ROOT_ROOT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "root/load_report.h"
#include "root/load_window.h"

struct root;
struct roots;

enum root_move_state { ROOT_MOVE_NONE, ROOT_MOVE_PLANNED, ROOT_MOVE_MOVING };

struct root_move {
    enum root_move_state state;
    unsigned bucket;
    unsigned from;
    unsigned to;
    int64_t at_s;     /* seconds since 1970 */
    unsigned carried; /* by `from`, percent of all; */
    unsigned cost;    /* of it by the bucket */
};

/* All zero: nothing is known. */
struct root_load {
    char *prefix;               /* of the names of children; NULL: no pass was made yet */
    unsigned per_hour;          /* moves; 0: none */
    struct load_window *window; /* NULL: no pod counts */
    struct load_report report;
    uint64_t reported_at;
    struct load_moves moves; /* as the root's status has them */
    struct root_move move;
    bool told; /* an Event has told of it */
};

/* Begins to look at all roots, four times a minute. */
void roots_load_begin(struct roots *r);
void roots_load_end(struct roots *r);

/* ---- of a root, in a pass ---- */

/* Its spec is known. What was moved last and claimed by both, because the pass was broken off, is
 * the new shard's. */
void root_load_begin_pass(struct root *t);
/* pass.layout is made and nothing else is to move: plans a move, or makes one. */
void root_load_move(struct root *t);
/* The child of pass.shard was written: an Event tells if that was the move. */
void root_load_written(struct root *t);
/* The times for status.root.moves, with that of a planned one. */
struct load_moves root_load_moves(const struct root *t);

void root_load_forget(struct root *t);

#endif
