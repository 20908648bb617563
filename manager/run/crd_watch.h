/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crd_watch.h - follows the CustomResourceDefinitions, so that discovery asks again when there is
 * something new. Each replica has one, whether it leads or not: each answers the webhooks, and may
 * lead next.
 *
 * A list is followed by a round of discovery too: what it shows may be younger than what discovery
 * has seen, the first one as well as one after a time in which nothing could be watched.
 */
#ifndef MANAGER_RUN_CRD_WATCH_H
#define MANAGER_RUN_CRD_WATCH_H

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/discovery.h"
#include "net/clock.h"
#include "net/loop.h"

struct crd_watch;

/* Client, discovery and clock, of which NULL is the system's, must outlive it. */
MUST_CHECK struct crd_watch *crd_watch_new(struct net_loop *l, struct kube_client *c,
                                           struct discovery *d, const struct net_clock *clock);
/* What keeps it from following them, for people; NULL: nothing. Valid until the loop runs on. */
const char *crd_watch_error(const struct crd_watch *w);
/* NULL is ignored. */
void crd_watch_free(struct crd_watch *d);

#endif
