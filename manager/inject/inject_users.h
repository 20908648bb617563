/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_users.h - whether others in the pod may run as the user of the sidecars.
 *
 * What keeps them apart from the operator is that each container has a file system and processes of
 * its own. Where a pod shares its processes (shareProcessNamespace, hostPID), only the user is
 * left: who has the sidecars' reads their files and memory under /proc, and gives them rules. With
 * enable-iptables it is the user whose connections are not redirected.
 */
#ifndef MANAGER_INJECT_INJECT_USERS_H
#define MANAGER_INJECT_INJECT_USERS_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject.h"
#include "inject/inject_options.h"
#include "object/warnings.h"

/* 0, with what is doubtful as a warning, or -EINVAL with the field. */
MUST_CHECK int inject_users_check(const struct inject_settings *s, const struct inject_options *o,
                                  const cJSON *spec, struct warnings *warnings, struct err *e);

#endif
