/* SPDX-License-Identifier: Apache-2.0 */
#include "object/names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *names_key(const char *prefix, const char *name, char out[NAMES_KEY_SIZE])
{
    bool whole = strchr(name, '/') != NULL;
    (void)snprintf(out, NAMES_KEY_SIZE, "%s%s%s", whole ? "" : prefix, whole ? "" : "/", name);
    return out;
}

const char *names_shard_of_map(const char *name)
{
    const size_t prefix = strlen(RULES_MAP_PREFIX);
    return strncmp(name, RULES_MAP_PREFIX, prefix) == 0 ? name + prefix : NULL;
}
