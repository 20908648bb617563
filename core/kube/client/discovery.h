/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery.h - which resources the API server has: their groups, versions, kinds, names and verbs.
 *
 * Asks at start, every few minutes, and when told to. A server that answers all groups at once
 * (Kubernetes 1.26 and later) is asked once; others group by group. A group version whose server
 * does not answer keeps what was known of it.
 *
 * Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api.
 */
#ifndef CORE_KUBE_CLIENT_DISCOVERY_H
#define CORE_KUBE_CLIENT_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/resource_table.h"
#include "net/clock.h"
#include "net/loop.h"

struct discovery;

/* All from the loop; discovery_free is allowed inside. May be NULL. */
struct discovery_handlers {
    /* What is known has changed. */
    void (*on_change)(void *data);
    /* What is not known, for people: groups whose server does not answer, or all of it. NULL:
     * everything is. When it changes. `level`: at which to log it, as kube_client_failure_level. */
    void (*on_state)(void *data, const char *error, enum log_level level);
    /* A round is complete, and on_change has been called if it showed anything new. */
    void (*on_complete)(void *data);
};

struct discovery_options {
    struct kube_client *client;    /* must outlive the discovery */
    uint64_t refresh_ms;           /* 0: 600,000 */
    const struct net_clock *clock; /* kept, not copied; NULL: the system's */
};

/* Begins with the loop's next turn. */
MUST_CHECK struct discovery *discovery_new(struct net_loop *l, const struct discovery_options *o,
                                           const struct discovery_handlers *handlers, void *data);

/* Asks again soon: after a definition was added, or when something was not found. Not more often
 * than every few seconds. */
void discovery_refresh(struct discovery *d);

/* Rounds are numbered from 1. The next one to begin: once that, or a later one, is complete, all is
 * known that is served at this moment. */
uint64_t discovery_next_round(const struct discovery *d);
/* The last round in which every part answered; 0: none yet. */
uint64_t discovery_complete_round(const struct discovery *d);

/* Whether all has been asked for, ever; before, "not found" means nothing. */
bool discovery_ready(const struct discovery *d);
/* What on_state said last; NULL: nothing. Valid until the loop runs on. */
const char *discovery_error(const struct discovery *d);

/* Everything, sorted by group, version and plural; no subresources. Valid until the loop runs on:
 * each round replaces it, also when nothing has changed. */
const struct discovery_resource *discovery_all(const struct discovery *d, size_t *count);

void discovery_free(struct discovery *d);

#endif
