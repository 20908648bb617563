/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/lock_name.h"

#include <stdio.h>

bool lock_name_of_shard(const char *name, const char *shard, char out[LOCK_NAME_SIZE])
{
    int n = snprintf(out, LOCK_NAME_SIZE, "%s" LOCK_NAME_BETWEEN "%s", name, shard);
    if (n < 0 || n >= LOCK_NAME_SIZE) {
        out[0] = '\0';
        return false;
    }
    return true;
}
