/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_check.h - what stands against putting the sidecars into a pod.
 */
#ifndef MANAGER_INJECT_INJECT_CHECK_H
#define MANAGER_INJECT_INJECT_CHECK_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject_options.h"

/* 0: nothing; 1: the pod is one of the shard already; -EINVAL with the field and why. */
MUST_CHECK int inject_check(const struct inject_options *o, const cJSON *pod, const char *shard,
                            struct err *e);

#endif
