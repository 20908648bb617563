/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_alias.h - lets the names of the API server's Service lead to localproxy in a pod, for
 * operators that are told https://kubernetes.default.svc (annotation lead-by-name).
 *
 * /etc/hosts is the whole pod's, so the sidecars reach the API server by its address. localproxy
 * listens on port 443, which a pod's sysctl lets it do without a capability.
 */
#ifndef MANAGER_INJECT_INJECT_ALIAS_H
#define MANAGER_INJECT_INJECT_ALIAS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject.h"
#include "inject/inject_access.h"
#include "inject/inject_options.h"
#include "json/edit.h"

#define INJECT_ALIAS_PORT 443

/* Whether an API server of that version lets pods set the sysctl: from 1.22 on. */
bool inject_alias_possible(const char *major, const char *minor);

/* 0, with what is doubtful as a warning, or -EINVAL with the reason why it cannot be. */
MUST_CHECK int inject_alias_check(const struct inject_settings *s, const struct inject_options *o,
                                  const struct inject_access *a, const cJSON *spec,
                                  struct warnings *warnings, struct err *e);

/* Adds names and sysctl to the pod's spec. */
void inject_alias_add(struct edit *ed, const struct inject_settings *s, cJSON *spec);

#endif
