/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate_root.h - checks spec.root of a ShardingConfig, automatic sharding.
 */
#ifndef MANAGER_COMPILE_VALIDATE_ROOT_H
#define MANAGER_COMPILE_VALIDATE_ROOT_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/compile.h"

/* Checks a config that has spec.root, whole. 0, -EINVAL or -E2BIG with the path of the field in the
 * message, or -ENOMEM. */
MUST_CHECK int validate_root(const cJSON *config, const struct compile_options *o, struct err *e);

#endif
