/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_chain.h - the proxy that the operator's containers have of their own, for localproxy to
 * go through: it must be one for all, since there is one localproxy.
 */
#ifndef MANAGER_INJECT_INJECT_CHAIN_H
#define MANAGER_INJECT_INJECT_CHAIN_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject_options.h"

/* Variables of the pod. */
struct inject_chain {
    const cJSON *via;    /* NULL: no container has a proxy but `ours` */
    const cJSON *except; /* NO_PROXY; NULL: nothing is excepted */
};

/* Looks at the operator's containers. 0, or -EINVAL with what stands against it: it never repeats a
 * value, which may hold a password. */
MUST_CHECK int inject_chain_find(struct inject_chain *c, const struct inject_options *o,
                                 const cJSON *spec, const char *ours, struct err *e);

#endif
