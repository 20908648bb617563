/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_egress.h - leads the operator's requests to other places than the API server through
 * localproxy, where the pod asks for it: by the variables that tell programs of an HTTP proxy.
 *
 * A proxy that the pod has already is never replaced silently. With "proxy" such containers are
 * left alone; with "chain" their variables lead to localproxy, which goes through that proxy.
 */
#ifndef MANAGER_INJECT_INJECT_EGRESS_H
#define MANAGER_INJECT_INJECT_EGRESS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject.h"
#include "inject/inject_options.h"
#include "object/warnings.h"
#include "json/edit.h"

/* Settles whether localproxy listens, and where: also for variables by which KusionStack's
 * controller mesh is told to, and where --proxy-arg gives --egress to all pods. */
void inject_egress_settle(const struct inject_settings *s, struct inject_options *o,
                          const cJSON *spec);

/* 0, with what is doubtful as a warning, or -EINVAL with the reason why it cannot be. */
MUST_CHECK int inject_egress_check(const struct inject_options *o, const cJSON *spec,
                                   struct warnings *warnings, struct err *e);

/* Sets the variables of the operator's containers, and makes those of localproxy: a new array that
 * the caller frees, NULL where there are none or after a failure of `ed`. 0, or -EINVAL: the pod's
 * own proxy cannot be chained. */
MUST_CHECK int inject_egress_lead(struct edit *ed, const struct inject_settings *s,
                                  const struct inject_options *o, cJSON *spec, cJSON **env,
                                  struct warnings *warnings, struct err *e);

/* Whether an argument of --proxy-arg is for the localproxy of this pod, as it is: where it listens
 * it is told by a variable, and without a listener it needs none of the flags that go with it. */
bool inject_egress_passes(const struct inject_options *o, const char *argument);

#endif
