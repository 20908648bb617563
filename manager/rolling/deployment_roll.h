/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deployment_roll.h - what a rolling upgrade of a Deployment does next: it stays paused, and is
 * resumed for one pod at a time. No clock, no cluster.
 *
 * With maxSurge 1 and maxUnavailable 0 the Deployment's controller makes a new pod, and goes on
 * only once that is available: it removes an old pod and makes the next new one. A paused
 * Deployment stays as it is, whatever becomes of its pods. So to pause it as soon as a new pod is
 * there means that the old one stays until all is well and it is resumed.
 */
#ifndef MANAGER_ROLLING_DEPLOYMENT_ROLL_H
#define MANAGER_ROLLING_DEPLOYMENT_ROLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of pods, as the Deployment's status has them. */
struct deployment_roll_facts {
    uint64_t replicas; /* that are to be */
    uint64_t updated;  /* of the present template */
    uint64_t total;    /* of all templates, without those that are being deleted */
    bool observed;     /* the status is about the spec that there is */
    bool paused;
    int64_t resumed;   /* `updated` when it was resumed; -1: not, as far as is known */
    uint64_t new_pods; /* of the present template, that are seen */
    uint64_t new_well; /* of them: Ready, enforcing, without an open breaker */
    bool ending;       /* a pod is being deleted */
};

enum deployment_roll_step {
    DEPLOYMENT_ROLL_DONE,    /* all pods are of the present template, and it is paused */
    DEPLOYMENT_ROLL_PAUSE,   /* a new pod was made, or it has not been paused */
    DEPLOYMENT_ROLL_RESUME,  /* for the next pod */
    DEPLOYMENT_ROLL_OBSERVE, /* wait for the Deployment's controller */
    DEPLOYMENT_ROLL_WAIT,    /* wait for pods */
};

enum deployment_roll_step deployment_roll_decide(const struct deployment_roll_facts *f);

#endif
