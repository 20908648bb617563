/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover.h - gives up pods for certain that nobody reaches: those whose localproxy keeps to a
 * lease on its rules (--rules-lease) that it has not renewed.
 *
 *     the Lease has not changed for as long as it lasts, and what was on its way is over
 *         -> a patch of that very version of it says which generation of rules is required now
 *         -> that succeeded: the pod shows nothing, and will show nothing older than that
 *
 * How that is certain: localproxy stops by itself when the lease is over that began when it *sent*
 * its last successful write of the Lease (localproxy/guard/rules_lease.h), and the manager counts
 * from when it *saw* that write, which was later. Whether another write came since is not a
 * question of what the watch shows: the patch names the version, and fails if there is a newer one.
 * After it localproxy cannot renew without having read what is required.
 *
 * Whoever may write Leases in the pod's namespace may say that a pod keeps to one, as they may say
 * what it enforces (status_leases.h).
 */
#ifndef MANAGER_ENFORCEMENT_TAKEOVER_H
#define MANAGER_ENFORCEMENT_TAKEOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cache/pod.h"
#include "cache/rules_map.h"
#include "enforcement/prober.h"
#include "enforcement/status_leases.h"
#include "kube/client/client.h"
#include "net/clock.h"
#include "net/loop.h"

/* What the operator had sent before the rules expired may still be executed for so long after that:
 * kube-apiserver's --request-timeout (60 s by default), and something for the way. That the kernel
 * of a frozen process still delivers what it had, and clocks that do not run alike, have a quarter
 * of the lease besides: localproxy's TCP_USER_TIMEOUT is no longer than that. */
#define TAKEOVER_MARGIN_MS 65000

struct takeover;

struct takeover_options {
    struct kube_client *client; /* all of these must outlive it */
    struct status_leases *leases;
    struct prober *prober;         /* is told what a pod is held to */
    uint64_t margin_ms;            /* 0: TAKEOVER_MARGIN_MS */
    const struct net_clock *clock; /* the one of `leases` */
    /* Whether this process leads at this very moment: asked right before each write. */
    bool (*may_write)(void *data);
    /* What was said of a pod, "namespace/name", may be different now. From the loop. */
    void (*on_change)(void *data, const char *pod);
    void *data;
};

MUST_CHECK struct takeover *takeover_new(struct net_loop *l, const struct takeover_options *o);

enum takeover_state {
    TAKEOVER_NONE,      /* it keeps to no lease, as far as is known */
    TAKEOVER_LATER,     /* its rules will have expired, unless it renews them */
    TAKEOVER_ASKED,     /* the patch is under way, or is to be tried again */
    TAKEOVER_FORBIDDEN, /* this manager may not patch Leases */
};

struct takeover_word {
    enum takeover_state state;
    uint64_t again_ms; /* to be asked again after so long at the latest; UINT64_MAX: when something
                          has changed */
    int64_t expires;   /* TAKEOVER_LATER: when it is certain, seconds since 1970 */
};

/* Somebody waits for this pod to give up what its shard ("namespace/name") has given up by what is
 * published: begins what can be begun, and says how it stands. `r` and `published` may be NULL. */
void takeover_want(struct takeover *t, const struct pod *p, const struct probe_result *r,
                   const char *shard, const struct rules_map *published, struct takeover_word *out);

/* The pod's Lease may ask which generation is required (CONTROL_LEASE_REQUIRED_UNKNOWN): then that
 * is answered with what is published. */
void takeover_answer(struct takeover *t, const struct pod *p, const struct probe_result *r,
                     const char *shard, const struct rules_map *published);

/* So many pods were given up for certain. */
uint64_t takeover_count(const struct takeover *t);

/* At once: what was sent may be done all the same. NULL is ignored. */
void takeover_free(struct takeover *t);

#endif
