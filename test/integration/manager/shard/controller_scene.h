/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controller_scene.h - a controller with all that it has around it: an API server in the same
 * process, and proxies that enforce what a test says. Everything is in namespace "n".
 *
 *     scene_pod(s, "a-0", "a", "a");              a pod labelled shard=a, with the sidecars of "a"
 *     scene_config(s, "a", "pods", "app=a");      its shard sees pods with app=a alone
 *     scene_lead(s);                              the controller begins
 *     scene_expect_generation(s, "a", 1);         within some seconds
 */
#ifndef TEST_INTEGRATION_CONTROLLER_SCENE_H
#define TEST_INTEGRATION_CONTROLLER_SCENE_H

#include "shard/controller.h"
#include "storing_api.h"

enum { SCENE_PROBES = 16 };

struct scene_probe_entry {
    char key[128];
    bool watched;
    unsigned expected; /* calls of prober_expect */
    struct probe_result result;
};

struct scene {
    struct storing_api store;
    struct shard_cache *cache;
    struct event_recorder *events;
    const struct net_clock *clock; /* NULL: the system's */
    struct controller *controller;
    struct controller_counts counts;
    bool holds; /* the lease */
    uint64_t handover_ms;
    struct {
        char *text;
        uint64_t generation;
    } parsed; /* the rules that were looked at last */

    struct prober_options probes;
    struct scene_probe_entry entries[SCENE_PROBES];
    bool slow_pods; /* pods do not even fail to answer before scene_probe */
};

/* A loop and an API server; scene_begin makes what the controller needs beside them. False: out of
 * memory. */
bool scene_open(struct scene *s);
bool scene_begin(struct scene *s, const struct reflector_ops *ops);
/* False: a handle survived. */
bool scene_close(struct scene *s);

/* cmocka set-up and tear-down: *state is the scene. */
int scene_setup(void **state);
int scene_teardown(void **state);

/* The process leads, or leads no more. `without`: it does not hold the lease. */
void scene_lead(struct scene *s);
bool scene_try_to_lead(struct scene *s);
/* Another one, in another cache: NULL without memory. */
struct controller *scene_controller(struct scene *s, struct shard_cache *cache);
void scene_lead_without(struct scene *s);
void scene_retire(struct scene *s);

void scene_pod(struct scene *s, const char *name, const char *label, const char *shard);
void scene_plain_pod(struct scene *s, const char *name, const char *label);
/* `selector`: KEY=VALUE. The pods are those with shard=<name>, or `label`. */
void scene_config(struct scene *s, const char *name, const char *resource, const char *selector);
void scene_config_for(struct scene *s, const char *name, const char *resource, const char *selector,
                      const char *label);
/* With so many values in its selectors. */
void scene_config_in(struct scene *s, const char *name, unsigned values);

/* The pod's proxy enforces what stands in the ConfigMap; or something else. */
void scene_enforces(struct scene *s, const char *pod, const char *shard);
void scene_probe(struct scene *s, const char *pod, const char *shard, uint64_t generation,
                 const char *checksum);
void scene_forget_probes(struct scene *s);

/* Until what store_fail asked for has happened. */
void scene_await_fault(struct scene *s);

/* Waits, or fails the test. */
void scene_expect_text(struct scene *s, const char *resource, const char *name, const char *path,
                       const char *text);
void scene_expect_generation(struct scene *s, const char *shard, uint64_t generation);
void scene_expect_rules(struct scene *s, const char *shard, const char *part);
void scene_expect_told(struct scene *s, const char *pod, uint64_t generation);
void scene_expect_condition(struct scene *s, const char *shard, const char *type,
                            const char *status);
/* So many Events about it of that reason in all. */
void scene_expect_event(struct scene *s, const char *name, const char *reason, unsigned count);
void scene_await_gone(struct scene *s, const char *resource, const char *name);
/* Until nothing is asked for any more, nothing that failed either. */
void scene_settle(struct scene *s);
/* For so long. */
void scene_await_quiet(struct scene *s, unsigned length_ms);

/* As it is now. */
const char *scene_text(struct scene *s, const char *resource, const char *name, const char *path);
const char *scene_condition(struct scene *s, const char *shard, const char *type, const char *key);
/* 0: there is none that can be read. */
uint64_t scene_generation(struct scene *s, const char *shard);
const char *scene_rules(struct scene *s, const char *shard);
void scene_set_rules(struct scene *s, const char *shard, const char *text);

#endif
