/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/api_error.h"

#include <string.h>

#include "base/decimal.h"
#include "http/message.h"
#include "json/field.h"
#include "json/json.h"

/* Of a body that is no Status: so much of its first line is shown. */
enum { EXCERPT_MAX = 120 };

static unsigned bounded(double number, unsigned max)
{
    return number >= 1 ? number < max ? (unsigned)number : max : 0;
}

static unsigned number_of(const cJSON *object, const char *key, unsigned max)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? bounded(item->valuedouble, max) : 0;
}

static void set_message(struct api_error *out, const char *reason, const char *message)
{
    struct err e = ERR_INIT;
    const char *colon = message[0] == '\0' ? "" : ": ";
    if (out->code == 0) {
        err_set(&e, 0, "%s%s%s", reason, colon, message);
    } else {
        err_set(&e, 0, "%u %s%s%s", out->code, reason, colon, message);
    }
    memcpy(out->msg, e.msg, sizeof out->msg);
}

void api_error_from_status(const cJSON *status, struct api_error *out)
{
    const cJSON *details = cJSON_GetObjectItemCaseSensitive(status, "details");
    const char *reason = field_text(status, "reason");
    out->level = LOG_WARN;
    out->code = number_of(status, "code", 999);
    out->retry_after = number_of(details, "retryAfterSeconds", API_ERROR_RETRY_MAX);
    out->expired =
        out->code == 410 || strcmp(reason, "Expired") == 0 || strcmp(reason, "Gone") == 0;
    out->exists = strcmp(reason, "AlreadyExists") == 0;
    if (reason[0] == '\0') {
        reason = out->code == 0 ? "an unknown error" : http_reason(out->code);
    }
    set_message(out, reason, field_text(status, "message"));
}

static unsigned retry_seconds(const char *header)
{
    int64_t seconds = 0;
    if (header == NULL || !decimal_parse(slice_str(header), &seconds)) {
        return 0;
    }
    return bounded((double)seconds, API_ERROR_RETRY_MAX);
}

/* The printable beginning of a body that is no Status. */
static void take_excerpt(struct slice body, char out[EXCERPT_MAX + 1])
{
    size_t len = 0;
    while (len < body.len && len < EXCERPT_MAX && body.ptr[len] >= ' ' && body.ptr[len] <= '~') {
        out[len] = body.ptr[len];
        len++;
    }
    out[len] = '\0';
}

void api_error_from_answer(unsigned status, const char *retry_after, struct slice body,
                           struct api_error *out)
{
    char excerpt[EXCERPT_MAX + 1];
    cJSON *root = json_parse(body.ptr, body.len, NULL);
    const char *kind = field_text(root, "kind");
    bool is_status = strcmp(kind, "Status") == 0;
    api_error_from_status(is_status ? root : NULL, out);
    /* The head is what the server, or who answered for it, acts by; the body explains. */
    if (out->code != status || !is_status) {
        out->code = status;
        take_excerpt(body, excerpt);
        set_message(out, http_reason(status), is_status ? field_text(root, "message") : excerpt);
    }
    out->expired = status == 410;
    out->exists = out->exists && status == 409;
    unsigned seconds = retry_seconds(retry_after);
    out->retry_after = seconds > out->retry_after ? seconds : out->retry_after;
    cJSON_Delete(root);
}
