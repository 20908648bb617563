/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_nat.h - redirects the pod's connections to the API server by rules of the kernel, for
 * operators that neither variables nor a kubeconfig reach (label enable-iptables).
 *
 * An init container sets the rules (nat-init); it is the only part of the mesh with a right in the
 * pod. Connections of the sidecars' user pass, so nobody else may be that user.
 */
#ifndef MANAGER_INJECT_INJECT_NAT_H
#define MANAGER_INJECT_INJECT_NAT_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject.h"
#include "inject/inject_options.h"
#include "object/warnings.h"

/* 0, with what is doubtful as a warning, or -EINVAL with the reason why it cannot be. */
MUST_CHECK int inject_nat_check(const struct inject_settings *s, const struct inject_options *o,
                                const cJSON *spec, struct warnings *warnings, struct err *e);

#endif
