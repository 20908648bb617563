/* SPDX-License-Identifier: Apache-2.0 */
/*
 * definitions.h - follows the CustomResourceDefinitions, so that discovery asks again when there is
 * something new.
 */
#ifndef MANAGER_LABEL_DEFINITIONS_H
#define MANAGER_LABEL_DEFINITIONS_H

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/discovery.h"
#include "net/clock.h"
#include "net/loop.h"

struct definitions;

/* Client, discovery and clock must outlive it. NULL with `e` set: -ENOMEM. */
MUST_CHECK struct definitions *definitions_new(struct net_loop *l, struct kube_client *c,
                                               struct discovery *d, const struct net_clock *clock,
                                               struct err *e);
/* NULL is ignored. */
void definitions_free(struct definitions *d);

#endif
