/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/user_agent.h"

const char *user_agent_check(struct slice text)
{
    if (text.len == 0 || text.len > USER_AGENT_MAX) {
        return "must have 1 to 256 characters";
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < ' ' || text.ptr[i] > '~') {
            return "must be of visible ASCII characters and blanks";
        }
    }
    if (text.ptr[0] == ' ' || text.ptr[text.len - 1] == ' ') {
        return "must not begin or end with a blank";
    }
    return text.len == 1 && text.ptr[0] == '/' ? "must have a name before the slash" : NULL;
}

int user_agent_write(struct slice text, struct slice own, struct buf *out)
{
    bool prefix = text.len > 0 && text.ptr[text.len - 1] == '/';
    if (prefix && (own.len == 0 || text.len + own.len > out->max - out->len)) {
        return buf_append(out, text.ptr, text.len - 1);
    }
    int rc = buf_append(out, text.ptr, text.len);
    return rc == 0 && prefix ? buf_append(out, own.ptr, own.len) : rc;
}
