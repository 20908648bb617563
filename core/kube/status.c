/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "json/json.h"

#define MESSAGE_MAX 2048

const char *status_reason(unsigned code)
{
    switch (code) {
    case 400:
        return "BadRequest";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "NotFound";
    case 405:
        return "MethodNotAllowed";
    case 406:
        return "NotAcceptable";
    case 409:
        return "Conflict";
    case 410:
        return "Expired";
    case 413:
        return "RequestEntityTooLarge";
    case 415:
        return "UnsupportedMediaType";
    case 422:
        return "Invalid";
    case 429:
        return "TooManyRequests";
    case 500:
        return "InternalError";
    case 503:
        return "ServiceUnavailable";
    case 504:
        return "Timeout";
    default:
        return "";
    }
}

static void add_string(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, ",\"%s\":", key);
    json_quote(value, out);
}

/* The message as valid UTF-8 (it may quote what a client sent, and may be cut), in quotes. */
static void add_message(struct buf *out, const char *message)
{
    struct buf clean = BUF_INIT(3 * MESSAGE_MAX);
    utf8_append_valid(&clean, slice_str(message));
    const char *text = buf_cstr(&clean);
    if (text != NULL) {
        add_string(out, "message", text);
    } else {
        buf_fail(out, -ENOMEM);
    }
    buf_reset(&clean);
}

static void write_fields(struct buf *out, unsigned code, const char *reason, unsigned retry_after,
                         const char *message)
{
    buf_append_str(
        out, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"");
    add_message(out, message);
    if (reason[0] != '\0') {
        add_string(out, "reason", reason);
    }
    if (retry_after > 0) {
        buf_printf(out, ",\"details\":{\"retryAfterSeconds\":%u}", retry_after);
    }
    buf_printf(out, ",\"code\":%u}", code);
}

int status_write(struct buf *out, unsigned code, const char *reason, unsigned retry_after,
                 const char *fmt, ...)
{
    char message[MESSAGE_MAX] = "cmesh: ";
    size_t prefix = sizeof "cmesh: " - 1;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message + prefix, sizeof message - prefix, fmt, ap);
    va_end(ap);
    size_t before = out->len;
    write_fields(out, code, reason == NULL ? status_reason(code) : reason, retry_after, message);
    return buf_settle(out, before);
}
