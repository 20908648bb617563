/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/time_limits.h"

#include <stdlib.h>

#include "base/decimal.h"
#include "kube/query.h"

enum {
    WATCH_S = 3600, /* without timeoutSeconds */
    WATCH_MAX_S = 365 * 24 * 3600,
    WATCH_SPARE_MS = 30000,
};

static uint64_t watch_seconds(struct slice query)
{
    struct slice value = {0};
    struct buf text = BUF_INIT(64);
    uint64_t seconds = 0;
    if (query_find(query, SLICE("timeoutSeconds"), &value) && query_decode(value, &text) == 0) {
        seconds = decimal_or_zero(buf_slice(&text));
    }
    buf_reset(&text);
    if (seconds == 0) {
        return WATCH_S;
    }
    return seconds < (uint64_t)WATCH_MAX_S ? seconds : (uint64_t)WATCH_MAX_S;
}

static bool is_stream(const struct request_info *ri)
{
    const struct slice profiles = SLICE("/debug/pprof/");
    if (!ri->is_resource) {
        return ri->own_path.len > profiles.len &&
               slice_eq(slice_of(ri->own_path.ptr, profiles.len), profiles);
    }
    return request_info_opens_session(ri) || slice_eq(ri->subresource, SLICE("log")) ||
           slice_eq(ri->subresource, SLICE("proxy")) || ri->verb == VERB_PROXY;
}

struct time_limits time_limits_of(const struct request_info *ri)
{
    struct time_limits limits = {0};
    if (ri->verb == VERB_WATCH) {
        limits.watch_ms = watch_seconds(ri->query) * 1000 + WATCH_SPARE_MS;
    } else if (is_stream(ri)) {
        limits.unhurried = true;
    } else {
        limits.answer_ms = REQUEST_ANSWER_MS;
    }
    return limits;
}
