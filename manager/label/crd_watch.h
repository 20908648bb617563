/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crd_watch.h - follows the CustomResourceDefinitions, so that discovery asks again when there is
 * something new.
 */
#ifndef MANAGER_LABEL_CRD_WATCH_H
#define MANAGER_LABEL_CRD_WATCH_H

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/discovery.h"
#include "net/clock.h"
#include "net/loop.h"

struct crd_watch;

/* Client, discovery and clock must outlive it. NULL with `e` set: -ENOMEM. */
MUST_CHECK struct crd_watch *crd_watch_new(struct net_loop *l, struct kube_client *c,
                                           struct discovery *d, const struct net_clock *clock,
                                           struct err *e);
/* NULL is ignored. */
void crd_watch_free(struct crd_watch *d);

#endif
