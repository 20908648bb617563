/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_cache_fixture.h - a shard cache, a small API server that it follows, and a listener that
 * writes down what it is told.
 *
 *     place_put_config(p, "n", "a", "a");           shard "n/a" of the pods with shard=a
 *     place_begin(p, NULL);
 *     place_await_synced(p);
 *     place_put_pod(p, "n", "p1", "a");
 *     place_expect(p, "pods(n/a) pod(n/p1 1) ");    what was told since the last look
 */
#ifndef TEST_INTEGRATION_SHARD_CACHE_FIXTURE_H
#define TEST_INTEGRATION_SHARD_CACHE_FIXTURE_H

#include "cache/shard_cache.h"
#include "storing_api.h"

enum { PLACE_PATIENCE_TURNS = 5000 };

struct place {
    struct storing_api store;
    struct shard_cache *cache;
    struct shard_cache_listener listener;
    struct buf log;
    size_t memory; /* of shard_cache_options */
    bool hurried;  /* pauses of reflectors are over with the next turn */
};

/* False: out of memory. What stands in `store` as store_open keeps it, and the options, is kept. */
bool place_open(struct place *p);
/* False: a handle survived. */
bool place_close(struct place *p);
/* cmocka set-up and tear-down: *state is the place. */
int place_setup(void **state);
int place_teardown(void **state);

/* The cache begins; `namespace` as in shard_cache_options. */
void place_begin(struct place *p, const char *namespace);
/* The loop runs so many ms, and pauses pass. */
void place_run(struct place *p, unsigned ms);
/* Waits, or fails the test. */
void place_await_synced(struct place *p);
/* Until all pods are as it is in the API server. */
void place_await_same(struct place *p);
/* Until it was told; what was told is forgotten then. */
void place_expect(struct place *p, const char *text);

void place_put_config(struct place *p, const char *ns, const char *name, const char *label);
void place_put_pod(struct place *p, const char *ns, const char *name, const char *label);
void place_put_map(struct place *p, const char *ns, const char *shard, const char *label);

/* "": each config that is known has the pods that it selects of those that are known; otherwise
 * what is wrong, valid until the next call. All but roots have a selector. */
const char *place_config_difference(struct place *p);
/* The same, and the pods are as they are in the API server, in these very versions. */
const char *place_difference(struct place *p);
/* The value of a metric without labels. */
unsigned place_metric(struct place *p, const char *name);

#endif
