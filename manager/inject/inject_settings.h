/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_settings.h - what is wrong with the settings of injection, before a pod is injected: with
 * these the API server would refuse each one, or its localproxy would not start.
 */
#ifndef MANAGER_INJECT_INJECT_SETTINGS_H
#define MANAGER_INJECT_INJECT_SETTINGS_H

#include "base/flags.h"
#include "inject/inject.h"

/* The flags of localproxy that --proxy-arg may give, without members to set. A test compares them
 * with localproxy's own. Ends with a NULL name. */
extern const struct flag inject_proxy_flags[];
/* Those of localproxy that the injection gives itself; ends with NULL. */
extern const char *const inject_own_flags[];

/* 0, or -EINVAL with a message that begins with the manager's flag. */
MUST_CHECK int inject_settings_check(const struct inject_settings *s, struct err *e);

#endif
