/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate_root.h - checks a ShardingConfig with spec.root by what its shards could come to.
 *
 * Which shard has which share changes, so a share is taken that none can exceed: of the last
 * normal shard, with everything that is not the canary's. What compiles so compiles for all.
 */
#ifndef MANAGER_ROOT_VALIDATE_ROOT_H
#define MANAGER_ROOT_VALIDATE_ROOT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/compile.h"
#include "compile/shards.h"
#include "object/warnings.h"

struct validate_root {
    struct rules *rules;   /* of that shard; the caller unrefs */
    struct selector *pods; /* that it selects; the caller frees */
    bool unknown;          /* as compile_draft has it */
};

/* Checks the whole. 0; -EINVAL or -E2BIG with the path of a field of the root in the message, and
 * `out` is empty. */
MUST_CHECK int validate_root(const cJSON *config, const struct compile_options *o,
                             struct validate_root *out, struct err *e);

/* Notes what is odd but not wrong with a root that was found right, beside the others of its
 * namespace `ns`. */
void validate_root_note(const cJSON *config, const struct compile_options *o, const char *ns,
                        const struct shards_list *others, struct warnings *warnings);

#endif
