/* SPDX-License-Identifier: Apache-2.0 */
#include "object/route_names.h"

#include <stdio.h>
#include <string.h>

#include "crypto/digest.h"

const char *route_port_name(const char *shard, char out[ROUTE_PORT_SIZE])
{
    char hash[SHA256_HEX_LEN + 1];
    sha256_hex(shard, strlen(shard), hash);
    (void)snprintf(out, ROUTE_PORT_SIZE, ROUTE_PORT_PREFIX "%.*s", ROUTE_PORT_HASH_LEN, hash);
    return out;
}

bool route_port_is(const char *name)
{
    const size_t prefix = strlen(ROUTE_PORT_PREFIX);
    if (strncmp(name, ROUTE_PORT_PREFIX, prefix) != 0) {
        return false;
    }
    const char *rest = name + prefix;
    return strcmp(name, ROUTE_HOLD_PORT) == 0 ||
           (strlen(rest) == ROUTE_PORT_HASH_LEN &&
            strspn(rest, "0123456789abcdef") == ROUTE_PORT_HASH_LEN);
}
