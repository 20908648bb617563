/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controller_fixture.h - a controller with all that it has around it: an API server in the same
 * process, and proxies that enforce what a test says. Everything is in namespace "n".
 *
 *     fixture_pod(s, "a-0", "a", "a");              a pod labelled shard=a, with the sidecars of
 * "a" fixture_config(s, "a", "pods", "app=a");      its shard sees pods with app=a alone
 *     fixture_lead(s);                              the controller begins
 *     fixture_expect_generation(s, "a", 1);         within some seconds
 */
#ifndef TEST_INTEGRATION_CONTROLLER_FIXTURE_H
#define TEST_INTEGRATION_CONTROLLER_FIXTURE_H

#include "shard/controller.h"
#include "storing_api.h"

enum { FIXTURE_PROBES = 16 };

struct fixture_probe_entry {
    char key[128];
    bool watched;
    char uid[64];
    unsigned expected; /* calls of prober_expect */
    unsigned told;     /* of prober_told */
    bool attended;
    unsigned attends; /* calls of prober_attend */
    char traffic[80]; /* the checksum that is expected */
    struct probe_result result;
};

struct fixture {
    struct storing_api store;
    struct shard_cache *cache;
    struct namespaces *namespaces;
    struct event_recorder *events;
    const struct net_clock *clock; /* NULL: the system's */
    struct controller *controller;
    struct controller_counts counts;
    bool holds;           /* the lease */
    uint64_t handover_ms; /* 0: it is switched off */
    bool strict;
    const struct label_progress_source *labelled; /* NULL: nobody labels */
    bool wait_for_labels;
    bool coverage;      /* namespaces are followed, */
    size_t cover_steps; /* and compared in so many steps; 0: the usual */
    size_t memory;      /* of shard_cache_options */
    uint64_t orphan_ms; /* 0: no test waits so long */
    void (*on_in_force)(void *fixture, const char *key); /* these three as in the options */
    bool (*release)(void *fixture, const char *key, struct rules *to);
    const struct route_report *(*routed)(void *fixture, const char *key);
    bool policies; /* are followed, when fixture_serve says so */
    size_t policy_memory;
    struct {
        char *text;
        uint64_t generation;
    } parsed; /* the rules that were looked at last */

    struct prober_options probes;
    struct fixture_probe_entry entries[FIXTURE_PROBES];
    bool slow_pods; /* pods do not even fail to answer before fixture_probe */
};

/* A loop and an API server; fixture_begin makes what the controller needs beside them. False: out
 * of memory. */
bool fixture_open(struct fixture *s);
void fixture_begin(struct fixture *s);
/* False: a handle survived. */
bool fixture_close(struct fixture *s);

/* cmocka set-up and tear-down: *state is the fixture. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* The process leads, or leads no more. `without`: it does not hold the lease. */
void fixture_lead(struct fixture *s);
/* Another one, in another cache. */
struct controller *fixture_controller(struct fixture *s, struct shard_cache *cache);
void fixture_lead_without(struct fixture *s);
void fixture_retire(struct fixture *s);

void fixture_pod(struct fixture *s, const char *name, const char *label, const char *shard);
/* The pod of that name as it is when somebody says that it need not be waited for. */
void fixture_let_go(struct fixture *s, const char *pod, const char *shard);
void fixture_plain_pod(struct fixture *s, const char *name, const char *label);
/* `selector`: KEY=VALUE. The pods are those with shard=<name>, or `label`. */
void fixture_config(struct fixture *s, const char *name, const char *resource,
                    const char *selector);
void fixture_config_for(struct fixture *s, const char *name, const char *resource,
                        const char *selector, const char *label);
/* With three limits that have so many values in their selectors, the same or others. */
void fixture_config_in(struct fixture *s, const char *name, unsigned values, bool same);

/* Leads, with a shard "a" that sees pods with app=a alone, and is enforced on its only pod. */
void fixture_begin_enforced(struct fixture *s);

/* The pod's proxy enforces what stands in the ConfigMap; or something else. */
void fixture_enforces(struct fixture *s, const char *pod, const char *shard);
/* Its localproxy is of that version of cmesh. */
void fixture_version(struct fixture *s, const char *pod, const char *version);
void fixture_probe(struct fixture *s, const char *pod, const char *shard, uint64_t generation,
                   const char *checksum);
void fixture_forget_probes(struct fixture *s);
/* The pod's localproxy answers {"traffic": ...} with this; NULL: it is too old. */
void fixture_says(struct fixture *s, const char *pod, const char *traffic);
/* The API server has both kinds of policies, or not. */
void fixture_serve(struct fixture *s, enum policy_served served);
/* The pod says by its Lease that it enforces what stands in the ConfigMap. */
void fixture_tells(struct fixture *s, const char *pod, const char *shard);

/* Until what store_fail asked for has happened. */
void fixture_await_fault(struct fixture *s);

/* Waits, or fails the test. */
void fixture_expect_text(struct fixture *s, const char *resource, const char *name,
                         const char *path, const char *text);
void fixture_expect_generation(struct fixture *s, const char *shard, uint64_t generation);
void fixture_expect_rules(struct fixture *s, const char *shard, const char *part);
void fixture_expect_told(struct fixture *s, const char *pod, uint64_t generation);
void fixture_expect_condition(struct fixture *s, const char *shard, const char *type,
                              const char *status);
/* So many Events about it of that reason in all. */
void fixture_expect_event(struct fixture *s, const char *name, const char *reason, unsigned count);
void fixture_await_gone(struct fixture *s, const char *resource, const char *name);
/* Until nothing is asked for any more, nothing that failed either. */
void fixture_settle(struct fixture *s);
/* How often something was put into that work queue. */
unsigned long fixture_adds(struct fixture *s, const char *queue);
/* For so long. */
void fixture_await_quiet(struct fixture *s, unsigned length_ms);

/* As it is now. */
const char *fixture_text(struct fixture *s, const char *resource, const char *name,
                         const char *path);
const char *fixture_condition(struct fixture *s, const char *shard, const char *type,
                              const char *key);
/* 0: there is none that can be read. */
uint64_t fixture_generation(struct fixture *s, const char *shard);
const char *fixture_rules(struct fixture *s, const char *shard);
void fixture_set_rules(struct fixture *s, const char *shard, const char *text);

#endif
