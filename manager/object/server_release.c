/* SPDX-License-Identifier: Apache-2.0 */
#include "object/server_release.h"

#include <stdlib.h>

bool server_release_at_least(const char *major, const char *minor, long least)
{
    long whole = strtol(major, NULL, 10);
    return whole > 1 || (whole == 1 && strtol(minor, NULL, 10) >= least);
}
