/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_spec.h - the limits of a ShardingConfig and what they compile to, in little memory: they
 * are kept as text, for as a tree they take ten times as much, and only until they are compiled.
 */
#ifndef MANAGER_SHARD_CONFIG_SPEC_H
#define MANAGER_SHARD_CONFIG_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/byte_budget.h"
#include "base/err.h"
#include "compile/compile.h"
#include "rules/rules.h"

/* All zero: nothing is known. */
struct config_spec {
    bool lacks_limits; /* compile_lacks_limits */
    bool unlimited;    /* it has a list of limits, without any */
    char *limits;      /* JSON; NULL: they are in the object, or nobody asks for them any more */
    bool compiled;
    struct rules *rules; /* NULL: not compiled, or refused */
    int refused;         /* -EINVAL, -E2BIG, -EDQUOT; 0: it is not */
    char *refusal;       /* NULL: the message is missing */
};

/* The spec is another one: what was known is forgotten, and the limits are taken out of the object,
 * unless there are none. 0; -ENOMEM, and then nothing is known. */
MUST_CHECK int config_spec_set(struct config_spec *s, cJSON *object);
/* Takes them out of an object whose spec is known. */
void config_spec_strip(cJSON *object);

/* Compiled at the first call; the object is left as it was. The rules count in `budget`. The spec
 * holds the reference. NULL: as compile_config. */
struct rules *config_spec_compile(struct config_spec *s, cJSON *object,
                                  const struct compile_options *o, struct byte_budget *budget,
                                  struct err *e);

/* It is refused from now on with that message and -EDQUOT, and takes no memory any more; without
 * memory for the message too. */
void config_spec_give_up(struct config_spec *s, const char *why);

/* Bytes of memory, about, without those of the rules. */
size_t config_spec_weight(const struct config_spec *s);

void config_spec_forget(struct config_spec *s);

#endif
