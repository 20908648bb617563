/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/upstream_failure.h"

#include "base/array.h"
#include "http/h1_parser.h"
#include "net/loop.h"

enum { RETRY_AFTER_S = 1 };

bool upstream_failure_is_outage(const struct err *e)
{
    static const int codes[] = {UV_ECONNREFUSED, UV_ECONNRESET,   UV_EPIPE,       UV_EOF,
                                UV_ETIMEDOUT,    UV_EHOSTUNREACH, UV_ENETUNREACH, UV_EAI_AGAIN};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        if (e->code == codes[i]) {
            return true;
        }
    }
    return false;
}

struct upstream_failure upstream_failure_of(enum request_verb verb, bool may_be_executed,
                                            const struct err *e)
{
    bool timeout = e->code == UV_ETIMEDOUT;
    bool unread = e->code == UV_ENOBUFS;           /* net/backlog.h */
    bool no_room = e->code == -HTTP_PARSE_NO_ROOM; /* http_head.budget */
    if (may_be_executed && unread) {
        return (struct upstream_failure){
            503, 0, "does not read a request, which may have been executed in part"};
    }
    if (may_be_executed) {
        return (struct upstream_failure){
            timeout ? 504 : 502, 0, "has not answered a request, which may have been executed"};
    }
    if (!no_room && e->code <= -HTTP_PARSE_BAD && e->code >= -HTTP_PARSE_VERSION) {
        return (struct upstream_failure){502, 0, "sent an invalid answer"};
    }
    if (verb == VERB_WATCH && (unread || no_room || upstream_failure_is_outage(e))) {
        return (struct upstream_failure){429, RETRY_AFTER_S, "cannot be asked"};
    }
    return (struct upstream_failure){timeout ? 504 : 503, RETRY_AFTER_S, "cannot be asked"};
}
