/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handover_fixture.h - two shards of one operator, blue and green, between which namespaces move.
 */
#ifndef TEST_INTEGRATION_HANDOVER_FIXTURE_H
#define TEST_INTEGRATION_HANDOVER_FIXTURE_H

#include <stdlib.h>

#include "controller_fixture.h"

enum { LONG_MS = 60000, SHORT_MS = 400, PAUSE_MS = 300 };

/* A config whose shard sees the pods of these namespaces: "\"1\",\"2\"". */
void handover_sees(struct fixture *s, const char *name, const char *values);
void handover_pod(struct fixture *s, const char *name, const char *shard, const char *account);
/* Blue sees 1 to 3 and green 4 and 5, each on one pod; all is enforced. */
void handover_begin(struct fixture *s, uint64_t handover_ms);
void handover_expect_waiting(struct fixture *s, const char *shard, const char *other);
/* No pod is in the way, and so none can be let go. */
void handover_expect_no_pods(struct fixture *s, const char *shard);
void handover_stays_at(struct fixture *s, const char *shard, uint64_t generation);
void handover_shows_nothing_at(struct fixture *s, const char *shard, uint64_t generation);
/* Its pods can start, and get nothing yet that another one has. */
void handover_shows_nothing(struct fixture *s, const char *shard);
void handover_begin_strict(struct fixture *s, uint64_t handover_ms);
/* A config whose shard sees these namespaces, and whose operator elects a leader by this lock. */
void handover_sees_with_lock(struct fixture *s, const char *name, const char *lock,
                             const char *values);
/* Selected by blue, as a pod of the operator that is not to be in the mesh any more. */
void handover_bare_pod(struct fixture *s, const char *let_go);

#endif
