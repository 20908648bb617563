/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever stands in /proc/net/tcp: every connection that was read is found by its remote end.
 */
#include "bypass/socket_table.h"

#include <errno.h>

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct socket_table t = {.entries = NULL};
    int rc = socket_table_add(&t, slice_of((const char *)data, size));
    CHECK(rc == 0 || rc == -EPROTO || rc == -ENOBUFS);
    CHECK(t.count <= SOCKET_TABLE_MAX);
    socket_table_sort(&t);
    size_t seen = 0;
    while (seen < t.count) {
        size_t count = 0;
        CHECK(socket_table_to(&t, &t.entries[seen].remote, &count) == &t.entries[seen]);
        CHECK(count > 0);
        seen += count;
    }
    CHECK(seen == t.count);
    socket_table_deinit(&t);
    return 0;
}
