/* SPDX-License-Identifier: Apache-2.0 */
#include "object/admission_review.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"
#include "crypto/digest.h"
#include "kube/status.h"
#include "json/field.h"
#include "json/json.h"

#define KIND "AdmissionReview"
#define V1 "admission.k8s.io/v1"
#define V1BETA1 "admission.k8s.io/v1beta1"

enum { ANSWER_MAX = 4 * ADMISSION_REVIEW_MAX };

static const char *const operations[] = {
    [ADMISSION_CREATE] = "CREATE",
    [ADMISSION_UPDATE] = "UPDATE",
    [ADMISSION_DELETE] = "DELETE",
    [ADMISSION_CONNECT] = "CONNECT",
};

const char *admission_operation_name(enum admission_operation op)
{
    return operations[op];
}

/* ---- the question ---- */

static int read_head(struct admission_request *r, struct err *e)
{
    const char *kind = "";
    if (field_required(r->root, "", "kind", &kind, e) != 0) {
        return e->code;
    }
    if (strcmp(kind, KIND) != 0) {
        return err_set(e, -EINVAL, "kind: Unsupported value: \"%.100s\": must be " KIND, kind);
    }
    if (field_required(r->root, "", "apiVersion", &r->api_version, e) != 0) {
        return e->code;
    }
    bool known = strcmp(r->api_version, V1) == 0 || strcmp(r->api_version, V1BETA1) == 0;
    return known ? 0
                 : err_set(e, -EINVAL,
                           "apiVersion: Unsupported value: \"%.100s\": supported are \"" V1
                           "\" and \"" V1BETA1 "\": see admissionReviewVersions of the webhook",
                           r->api_version);
}

static int read_resource(struct admission_request *r, const cJSON *request, struct err *e)
{
    static const char path[] = "request.resource";
    const cJSON *resource = NULL;
    const cJSON *kind = NULL;
    struct admission_resource *out = &r->resource;
    bool read = field_object(request, "request", "resource", &resource, e) == 0 &&
                field_string(resource, path, "group", &out->group, e) == 0 &&
                field_string(resource, path, "version", &out->version, e) == 0 &&
                field_required(resource, path, "resource", &out->resource, e) == 0 &&
                field_string(request, "request", "subResource", &out->subresource, e) == 0 &&
                field_object(request, "request", "kind", &kind, e) == 0 &&
                field_string(kind, "request.kind", "kind", &r->kind, e) == 0;
    return read ? 0 : e->code;
}

static int read_operation(struct admission_request *r, const cJSON *request, struct err *e)
{
    const char *name = "";
    if (field_required(request, "request", "operation", &name, e) != 0) {
        return e->code;
    }
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        if (strcmp(operations[i], name) == 0) {
            r->operation = (enum admission_operation)i;
            return 0;
        }
    }
    return err_set(e, -EINVAL, "request.operation: Unsupported value: \"%.100s\"", name);
}

static int read_dry_run(struct admission_request *r, const cJSON *request, struct err *e)
{
    const cJSON *item = field_get(request, "dryRun");
    r->dry_run = cJSON_IsTrue(item);
    return item == NULL || cJSON_IsBool(item)
               ? 0
               : field_wrong_type(e, "request", "dryRun", "true or false");
}

static int read_request(struct admission_request *r, const cJSON *request, struct err *e)
{
    const cJSON *user = NULL;
    bool read = field_required(request, "request", "uid", &r->uid, e) == 0 &&
                read_operation(r, request, e) == 0 && read_resource(r, request, e) == 0 &&
                field_string(request, "request", "namespace", &r->namespace, e) == 0 &&
                field_string(request, "request", "name", &r->name, e) == 0 &&
                field_object(request, "request", "userInfo", &user, e) == 0 &&
                field_string(user, "request.userInfo", "username", &r->user, e) == 0 &&
                read_dry_run(r, request, e) == 0 &&
                field_object(request, "request", "object", &r->object, e) == 0 &&
                field_object(request, "request", "oldObject", &r->old_object, e) == 0;
    return read ? 0 : e->code;
}

static int read_review(struct admission_request *r, struct err *e)
{
    const cJSON *request = NULL;
    if (read_head(r, e) != 0 || field_object(r->root, "", "request", &request, e) != 0) {
        return e->code;
    }
    return request != NULL ? read_request(r, request, e)
                           : err_set(e, -EINVAL, "request: Required value");
}

int admission_request_init(struct admission_request *r, struct slice text, struct err *e)
{
    struct err ignored;
    e = e == NULL ? &ignored : e;
    *r = (struct admission_request){.api_version = ""};
    if (text.len > ADMISSION_REVIEW_MAX) {
        return err_set(e, -E2BIG, "the review has more than %d bytes", ADMISSION_REVIEW_MAX);
    }
    r->root = json_parse(text.ptr, text.len, e);
    if (r->root == NULL) {
        if (e->code == -EINVAL) {
            err_prefix(e, "the body is no " KIND);
        }
        return e->code;
    }
    int rc = read_review(r, e);
    if (rc != 0) {
        admission_request_deinit(r);
    }
    return rc;
}

void admission_request_deinit(struct admission_request *r)
{
    cJSON_Delete(r->root);
    r->root = NULL;
}

/* ---- the answer ---- */

/* In quotes; what is no UTF-8 becomes U+FFFD. */
static void add_text(struct slice text, struct buf *out)
{
    struct buf clean = BUF_INIT(3 * text.len);
    utf8_append_valid(&clean, text);
    const char *str = buf_cstr(&clean);
    if (str != NULL) {
        json_quote(str, out);
    } else {
        buf_fail(out, -ENOMEM);
    }
    buf_reset(&clean);
}

static void add_status(const struct admission_answer *a, struct buf *out)
{
    const char *reason = status_reason(a->refusal);
    buf_printf(out, ",\"status\":{\"code\":%u,\"message\":", a->refusal);
    add_text(slice_str(a->message), out);
    if (reason[0] != '\0') {
        buf_printf(out, ",\"reason\":\"%s\"", reason);
    }
    buf_append_str(out, ",\"status\":\"Failure\"}");
}

static void add_patch(const cJSON *patch, struct buf *out)
{
    struct buf text = BUF_INIT(ANSWER_MAX);
    buf_fail(out, json_canonical(patch, &text));
    buf_append_str(out, ",\"patch\":\"");
    buf_fail(out, base64_encode(buf_slice(&text), out));
    buf_append_str(out, "\",\"patchType\":\"JSONPatch\"");
    buf_reset(&text);
}

/* A piece of at most so many bytes that ends between two characters. */
static struct slice shorten(const char *text)
{
    size_t len = strlen(text);
    if (len > ADMISSION_WARNING_MAX) {
        len = ADMISSION_WARNING_MAX;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    return slice_of(text, len);
}

static void add_warnings(const struct warnings *warnings, struct buf *out)
{
    buf_append_str(out, ",\"warnings\":[");
    for (size_t i = 0; i < warnings->count; i++) {
        buf_append_str(out, i > 0 ? "," : "");
        add_text(shorten(warnings->items[i]), out);
    }
    if (warnings->dropped > 0) {
        buf_printf(out, "%s\"%zu more\"", warnings->count > 0 ? "," : "", warnings->dropped);
    }
    buf_append_char(out, ']');
}

static void add_response(const struct admission_request *r, const struct admission_answer *a,
                         struct buf *out)
{
    const struct warnings *w = a->warnings;
    buf_printf(out, "{\"allowed\":%s,\"uid\":", a->refusal == 0 ? "true" : "false");
    json_quote(r->uid, out);
    if (a->refusal != 0) {
        add_status(a, out);
    } else if (a->patch != NULL && a->patch->child != NULL) {
        add_patch(a->patch, out);
    }
    if (w != NULL && w->count + w->dropped > 0 && strcmp(r->api_version, V1) == 0) {
        add_warnings(w, out);
    }
    buf_append_char(out, '}');
}

int admission_answer_write(const struct admission_request *r, const struct admission_answer *a,
                           struct buf *out)
{
    size_t before = out->len;
    buf_append_str(out, "{\"apiVersion\":");
    json_quote(r->api_version, out);
    buf_append_str(out, ",\"kind\":\"" KIND "\",\"response\":");
    add_response(r, a, out);
    buf_append_char(out, '}');
    return buf_settle(out, before);
}
