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
    int rc = field_required(r->root, "", "kind", &kind, e);
    if (rc == 0 && strcmp(kind, KIND) != 0) {
        rc = err_set(e, -EINVAL, "kind: Unsupported value: \"%.100s\": must be " KIND, kind);
    }
    rc = rc != 0 ? rc : field_required(r->root, "", "apiVersion", &r->api_version, e);
    if (rc == 0 && strcmp(r->api_version, V1) != 0 && strcmp(r->api_version, V1BETA1) != 0) {
        rc = err_set(e, -EINVAL,
                     "apiVersion: Unsupported value: \"%.100s\": supported are \"" V1
                     "\" and \"" V1BETA1 "\": see admissionReviewVersions of the webhook",
                     r->api_version);
    }
    return rc;
}

static int read_resource(struct admission_request *r, const cJSON *request, struct err *e)
{
    const cJSON *resource = NULL;
    const cJSON *kind = NULL;
    struct admission_resource *out = &r->resource;
    int rc = field_object(request, "request", "resource", &resource, e);
    rc = rc != 0 ? rc : field_string(resource, "request.resource", "group", &out->group, e);
    rc = rc != 0 ? rc : field_string(resource, "request.resource", "version", &out->version, e);
    rc = rc != 0 ? rc : field_required(resource, "request.resource", "resource", &out->resource, e);
    rc = rc != 0 ? rc : field_string(request, "request", "subResource", &out->subresource, e);
    rc = rc != 0 ? rc : field_object(request, "request", "kind", &kind, e);
    return rc != 0 ? rc : field_string(kind, "request.kind", "kind", &r->kind, e);
}

static int read_operation(struct admission_request *r, const cJSON *request, struct err *e)
{
    const char *name = "";
    int rc = field_required(request, "request", "operation", &name, e);
    for (size_t i = 0; i < ARRAY_LEN(operations) && rc == 0; i++) {
        if (strcmp(operations[i], name) == 0) {
            r->operation = (enum admission_operation)i;
            return 0;
        }
    }
    return rc != 0 ? rc
                   : err_set(e, -EINVAL, "request.operation: Unsupported value: \"%.100s\"", name);
}

static int read_dry_run(struct admission_request *r, const cJSON *request, struct err *e)
{
    const cJSON *item = field_get(request, "dryRun");
    r->dry_run = cJSON_IsTrue(item);
    return item == NULL || cJSON_IsBool(item)
               ? 0
               : err_set(e, -EINVAL, "request.dryRun: Invalid value: must be true or false");
}

static int read_request(struct admission_request *r, const cJSON *request, struct err *e)
{
    const cJSON *user = NULL;
    int rc = field_required(request, "request", "uid", &r->uid, e);
    rc = rc != 0 ? rc : read_operation(r, request, e);
    rc = rc != 0 ? rc : read_resource(r, request, e);
    rc = rc != 0 ? rc : field_string(request, "request", "namespace", &r->namespace, e);
    rc = rc != 0 ? rc : field_string(request, "request", "name", &r->name, e);
    rc = rc != 0 ? rc : field_object(request, "request", "userInfo", &user, e);
    rc = rc != 0 ? rc : field_string(user, "request.userInfo", "username", &r->user, e);
    rc = rc != 0 ? rc : read_dry_run(r, request, e);
    rc = rc != 0 ? rc : field_object(request, "request", "object", &r->object, e);
    return rc != 0 ? rc : field_object(request, "request", "oldObject", &r->old_object, e);
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
    const cJSON *request = NULL;
    int rc = read_head(r, e);
    rc = rc != 0 ? rc : field_object(r->root, "", "request", &request, e);
    if (rc == 0 && request == NULL) {
        rc = err_set(e, -EINVAL, "request: Required value");
    }
    rc = rc != 0 ? rc : read_request(r, request, e);
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
static int add_text(struct slice text, struct buf *out)
{
    struct buf clean = BUF_INIT(3 * text.len);
    int rc = utf8_append_valid(&clean, text);
    const char *str = rc == 0 ? buf_cstr(&clean) : NULL;
    rc = rc == 0 && str == NULL ? -ENOMEM : rc;
    rc = rc != 0 ? rc : json_quote(str, out);
    buf_reset(&clean);
    return rc;
}

static int add_status(const struct admission_answer *a, struct buf *out)
{
    const char *reason = status_reason(a->refusal);
    int rc = buf_printf(out, ",\"status\":{\"code\":%u,\"message\":", a->refusal);
    rc = rc != 0 ? rc : add_text(slice_str(a->message), out);
    if (rc == 0 && reason[0] != '\0') {
        rc = buf_printf(out, ",\"reason\":\"%s\"", reason);
    }
    rc = rc != 0 ? rc : buf_append_str(out, ",\"status\":\"Failure\"");
    return rc != 0 ? rc : buf_append_char(out, '}');
}

static int add_patch(const cJSON *patch, struct buf *out)
{
    struct buf text = BUF_INIT(ANSWER_MAX);
    int rc = json_canonical(patch, &text);
    rc = rc != 0 ? rc : buf_append_str(out, ",\"patch\":\"");
    rc = rc != 0 ? rc : base64_encode(buf_slice(&text), out);
    rc = rc != 0 ? rc : buf_append_str(out, "\",\"patchType\":\"JSONPatch\"");
    buf_reset(&text);
    return rc;
}

/* A piece of at most so many bytes that ends between two characters. */
static struct slice cut(const char *text)
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

static int add_warnings(const struct warnings *warnings, struct buf *out)
{
    int rc = buf_append_str(out, ",\"warnings\":[");
    for (size_t i = 0; i < warnings->count && rc == 0; i++) {
        rc = i > 0 ? buf_append_char(out, ',') : 0;
        rc = rc != 0 ? rc : add_text(cut(warnings->items[i]), out);
    }
    if (rc == 0 && warnings->dropped > 0) {
        rc = buf_printf(out, "%s\"%zu more\"", warnings->count > 0 ? "," : "", warnings->dropped);
    }
    return rc != 0 ? rc : buf_append_char(out, ']');
}

static int add_response(const struct admission_request *r, const struct admission_answer *a,
                        struct buf *out)
{
    int rc = buf_printf(out, "{\"allowed\":%s,\"uid\":", a->refusal == 0 ? "true" : "false");
    rc = rc != 0 ? rc : json_quote(r->uid, out);
    if (rc == 0 && a->refusal != 0) {
        rc = add_status(a, out);
    } else if (rc == 0 && a->patch != NULL && a->patch->child != NULL) {
        rc = add_patch(a->patch, out);
    }
    const struct warnings *w = a->warnings;
    if (rc == 0 && w != NULL && w->count + w->dropped > 0 && strcmp(r->api_version, V1) == 0) {
        rc = add_warnings(w, out);
    }
    return rc != 0 ? rc : buf_append_char(out, '}');
}

int admission_answer_write(const struct admission_request *r, const struct admission_answer *a,
                           struct buf *out)
{
    size_t before = out->len;
    int rc = buf_append_str(out, "{\"apiVersion\":");
    rc = rc != 0 ? rc : json_quote(r->api_version, out);
    rc = rc != 0 ? rc : buf_append_str(out, ",\"kind\":\"" KIND "\",\"response\":");
    rc = rc != 0 ? rc : add_response(r, a, out);
    rc = rc != 0 ? rc : buf_append_char(out, '}');
    if (rc != 0) {
        buf_truncate(out, before);
    }
    return rc;
}
