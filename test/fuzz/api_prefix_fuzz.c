/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first line is a prefix, the rest a path. A prefix that is taken must not change how a request
 * to the API server's own API is read.
 */
#include "kube/request_info.h"

#include <errno.h>
#include <stdlib.h>

#include "check.h"

static void check_read(const char *prefix, struct slice target)
{
    const struct api_prefixes prefixes = {&prefix, 1};
    struct request_info plain;
    struct request_info behind;
    if (request_info_parse(&plain, SLICE("GET"), target, NULL) != 0) {
        return;
    }
    if (request_info_parse_behind(&behind, &prefixes, SLICE("GET"), target, NULL) != 0) {
        CHECK(request_info_unnamed_gateway(&plain).len > 0);
        request_info_deinit(&plain);
        return;
    }
    bool is_gateway = request_info_unnamed_gateway(&plain).len > 0;
    if (plain.is_resource && !is_gateway) {
        CHECK(behind.gateway.len == 0 && slice_eq(behind.parts, plain.parts));
    }
    CHECK(behind.gateway.len == 0 || !behind.is_resource || is_gateway);
    request_info_deinit(&plain);
    request_info_deinit(&behind);
}

/* What matches itself: `*` is a segment as good as any. */
static void check_itself(const char *prefix)
{
    const struct api_prefixes prefixes = {&prefix, 1};
    struct slice path = slice_str(prefix + 1);
    CHECK(api_prefix_match(&prefixes, path) == path.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *line = size == 0 ? NULL : memchr(data, '\n', size);
    if (line == NULL) {
        return 0;
    }
    size_t n = (size_t)(line - (const char *)data);
    char *prefix = strndup((const char *)data, n);
    struct err e = ERR_INIT;
    CHECK(prefix != NULL);
    if (api_prefix_check(prefix, &e) == 0) {
        check_itself(prefix);
        check_read(prefix, slice_of(line + 1, size - n - 1));
    } else {
        CHECK(e.code == -EINVAL && e.msg[0] != '\0');
    }
    free(prefix);
    return 0;
}
