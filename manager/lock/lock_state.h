/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_state.h - how it stands with a leader election lock.
 */
#ifndef MANAGER_LOCK_LOCK_STATE_H
#define MANAGER_LOCK_LOCK_STATE_H

/* The lock by which the pods of a shard elect a leader. */
enum lock_state {
    LOCK_STATE_NONE,    /* there is no Lease of that kind, and never was */
    LOCK_STATE_UNKNOWN, /* not seen for long enough to tell */
    LOCK_STATE_FREE,    /* nobody holds it, or who does has not renewed it in time */
    LOCK_STATE_HELD,
};

#endif
