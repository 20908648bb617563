/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deployment_roller.h - rolls Deployments with the label PREFIX/rolling pod by pod: keeps them
 * paused, and resumes them for one pod at a time, as soon as all that there are do what they
 * should.
 *
 * Only the leader has one. What it knows is at the API server: that the Deployment is paused or
 * not, and in an annotation with how many new pods it was resumed, written at the same time. If
 * nobody leads while it is resumed, the rolling update goes on without a gate.
 */
#ifndef MANAGER_ROLLING_DEPLOYMENT_ROLLER_H
#define MANAGER_ROLLING_DEPLOYMENT_ROLLER_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/loop.h"
#include "rolling/roller.h"

/* Deployments that are followed: more are passed over. */
#define DEPLOYMENT_ROLLER_MAX 1000

struct deployment_roller;

/* As the roller's; `counts` is not used. */
MUST_CHECK struct deployment_roller *deployment_roller_new(struct net_loop *l,
                                                           const struct roller_options *o);

/* Appends metrics. `r` NULL: this process does not lead. Errors stay in `out`. */
void deployment_roller_metrics(const struct deployment_roller *r, struct buf *out);

/* At once: requests are broken off; what was sent may be done all the same. NULL is ignored. */
void deployment_roller_free(struct deployment_roller *r);

#endif
