/* SPDX-License-Identifier: Apache-2.0 */
#include "object/admission_review.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/secret.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "crypto/digest.h"
#include "kube/status.h"
#include "schema/schema.h"
#include "json/json.h"
#include "json/scanner.h"

#define KIND "AdmissionReview"
#define V1 "admission.k8s.io/v1"
#define V1BETA1 "admission.k8s.io/v1beta1"

enum { ANSWER_MAX = 4 * ADMISSION_REVIEW_MAX };

static const char *const operations[] = {
    [ADMISSION_CREATE] = "CREATE",
    [ADMISSION_UPDATE] = "UPDATE",
    [ADMISSION_DELETE] = "DELETE",
    [ADMISSION_CONNECT] = "CONNECT",
    NULL,
};

const char *admission_operation_name(enum admission_operation op)
{
    return operations[op];
}

/* ---- the question ---- */

/* Where its parts stand in the text. An object that is absent has no length. */
struct review_text {
    struct slice whole;
    struct slice object;
    struct slice old_object;
};

static const char *check_version(struct slice text)
{
    return slice_eq(text, SLICE(V1)) || slice_eq(text, SLICE(V1BETA1))
               ? NULL
               : "supported are \"" V1 "\" and \"" V1BETA1
                 "\": see admissionReviewVersions of the webhook";
}

#define TEXT(name_, member_)                                                                       \
    {                                                                                              \
        (name_), SCHEMA_TEXT, SCHEMA_MEMBER(struct admission_request, member_)                     \
    }
#define REQUIRED_TEXT(name_, member_)                                                              \
    {                                                                                              \
        (name_), SCHEMA_TEXT, SCHEMA_MEMBER(struct admission_request, member_), .required = ""     \
    }
/* All of them fill the request itself, and skip other fields. */
#define PART(rows)                                                                                 \
    {                                                                                              \
        SCHEMA_OBJECT_OF(rows, struct admission_request), .open = true                             \
    }

static const struct schema_field resource_fields[] = {
    TEXT("group", resource.group),
    TEXT("version", resource.version),
    REQUIRED_TEXT("resource", resource.resource),
};
static const struct schema_object resource = PART(resource_fields);

static const struct schema_field kind_fields[] = {TEXT("kind", kind)};
static const struct schema_object kind = PART(kind_fields);

static const struct schema_field user_fields[] = {TEXT("username", user)};
static const struct schema_object user = PART(user_fields);

static const struct schema_field request_fields[] = {
    REQUIRED_TEXT("uid", uid),
    {"operation", SCHEMA_WORD, SCHEMA_MEMBER(struct admission_request, operation), .required = "",
     .words = operations},
    {"resource", SCHEMA_PART, .required = "", .object = &resource},
    TEXT("subResource", resource.subresource),
    {"kind", SCHEMA_PART, .object = &kind},
    TEXT("namespace", namespace),
    TEXT("name", name),
    {"userInfo", SCHEMA_PART, .object = &user},
    {"dryRun", SCHEMA_BOOL, SCHEMA_MEMBER(struct admission_request, dry_run)},
};
static const struct schema_object request = PART(request_fields);

static const char *const review_kind[] = {KIND, NULL};
static const struct schema_field review_fields[] = {
    {"kind", SCHEMA_CONSTANT, .required = "", .words = review_kind},
    {"apiVersion", SCHEMA_TEXT, SCHEMA_MEMBER(struct admission_request, api_version),
     .required = "", .check = check_version},
    {"request", SCHEMA_PART, .required = "", .object = &request},
};
static const struct schema_object review = PART(review_fields);

static int read_review(struct admission_request *r, struct err *e)
{
    struct schema_reader reader = {.memory = NULL};
    const struct schema_path at = SCHEMA_AT(NULL, "", r->root);
    int rc = schema_read(&reader, &review, &at, r);
    return rc == 0 ? 0 : err_set(e, rc, "%s", reader.first.msg);
}

static int fail_duplicate(const char *key, struct err *e)
{
    return err_set(e, -EINVAL, "the body is no " KIND ": duplicate key \"%s\"", key);
}

/* A member of an object of the text; of no length where it is absent. */
static int find_member(struct slice object, const char *key, struct slice *value, struct err *e)
{
    *value = slice_of(NULL, 0);
    return json_scan_member(object, slice_str(key), value) < 0 ? fail_duplicate(key, e) : 0;
}

static int find_objects(struct review_text *t, struct slice document, struct err *e)
{
    struct slice inner;
    int rc = find_member(document, "request", &inner, e);
    if (rc == 0) {
        rc = find_member(inner, "object", &t->object, e);
    }
    return rc != 0 ? rc : find_member(inner, "oldObject", &t->old_object, e);
}

static cJSON *parse(struct slice text, struct err *e)
{
    cJSON *tree = json_parse(text.ptr, text.len, e);
    if (tree == NULL && xrc(e->code) == -EINVAL) {
        err_prefix(e, "the body is no " KIND);
    }
    return tree;
}

/* Parses what is bounded nowhere else. */
static cJSON *parse_bounded(struct buf *text, struct err *e)
{
    cJSON *tree = NULL;
    xok(buf_error(text)); /* it has room for all of the review */
    if (json_count_values(buf_slice(text)) > ADMISSION_VALUES_MAX) {
        (void)err_set(e, -E2BIG, "the review has more than %d values besides its objects",
                      ADMISSION_VALUES_MAX);
    } else {
        tree = parse(buf_slice(text), e);
    }
    secret_buf_reset(text);
    return tree;
}

/* The text up to `part`, without it; `rest` is what stands behind. */
static void add_until(struct slice *rest, struct slice part, struct buf *out)
{
    if (part.len > 0) {
        buf_append(out, rest->ptr, (size_t)(part.ptr - rest->ptr));
        buf_append_str(out, "null");
        *rest =
            slice_of(part.ptr + part.len, (size_t)(rest->ptr + rest->len - (part.ptr + part.len)));
    }
}

/* All but the objects. */
static int parse_frame(struct admission_request *r, const struct review_text *t, struct err *e)
{
    bool ordered =
        t->object.len == 0 || t->old_object.len == 0 || t->object.ptr < t->old_object.ptr;
    struct slice rest = t->whole;
    struct buf out = BUF_INIT(t->whole.len + 16);
    add_until(&rest, ordered ? t->object : t->old_object, &out);
    add_until(&rest, ordered ? t->old_object : t->object, &out);
    buf_append(&out, rest.ptr, rest.len);
    r->root = parse_bounded(&out, e);
    return r->root == NULL ? e->code : 0;
}

static void add_member(const char *key, struct slice value, struct buf *out)
{
    if (value.len > 0) {
        buf_append_str(out, buf_data(out)[out->len - 1] == '{' ? "\"" : ",\"");
        buf_append_str(out, key);
        buf_append_str(out, "\":");
        buf_append(out, value.ptr, value.len);
    }
}

static int add_metadata(struct slice metadata, bool annotations, struct buf *out, struct err *e)
{
    static const char *const kept[] = {"name", "namespace", "labels", "deletionTimestamp",
                                       "annotations"};
    size_t count = ARRAY_LEN(kept) - (annotations ? 0 : 1);
    buf_append_str(out, "\"metadata\":{");
    for (size_t i = 0; i < count && buf_error(out) == 0; i++) {
        struct slice value;
        if (find_member(metadata, kept[i], &value, e) != 0) {
            return e->code;
        }
        add_member(kept[i], value, out);
    }
    buf_append_char(out, '}');
    return 0;
}

/* *metadata has no length where there is none. */
static int find_metadata(struct slice object, struct slice *metadata, struct err *e)
{
    int rc = find_member(object, "metadata", metadata, e);
    metadata->len = metadata->len > 0 && metadata->ptr[0] == '{' ? metadata->len : 0;
    return rc;
}

static int add_template(struct slice object, struct buf *out, struct err *e)
{
    struct slice spec;
    struct slice template;
    struct slice metadata;
    if (find_member(object, "spec", &spec, e) != 0 ||
        find_member(spec, "template", &template, e) != 0 ||
        find_metadata(template, &metadata, e) != 0) {
        return e->code;
    }
    if (metadata.len == 0) {
        return 0;
    }
    buf_append_str(out, buf_data(out)[out->len - 1] == '{' ? "" : ",");
    buf_append_str(out, "\"spec\":{\"template\":{");
    int rc = add_metadata(metadata, true, out, e);
    buf_append_str(out, "}}");
    return rc;
}

/* What of an object is read beside its labels. */
struct extra {
    bool annotations; /* of a pod: somebody may have taken one for a label */
    bool template;    /* of pods: people see what is said of it, and of the pods themselves not */
};

/* An object without what is not asked for. NULL with the error set. */
static cJSON *parse_labels(struct slice object, const struct extra *extra, struct err *e)
{
    struct slice metadata;
    struct buf out = BUF_INIT(object.len + 64);
    int rc = find_metadata(object, &metadata, e);
    buf_append_char(&out, '{');
    if (rc == 0 && metadata.len > 0) {
        rc = add_metadata(metadata, extra->annotations, &out, e);
    }
    if (rc == 0 && extra->template) {
        rc = add_template(object, &out, e);
    }
    if (rc != 0) {
        buf_reset(&out);
        return NULL;
    }
    buf_append_char(&out, '}');
    return parse_bounded(&out, e);
}

static bool is_of_new(const struct admission_request *r)
{
    return r->operation == ADMISSION_CREATE || (r->operation == ADMISSION_UPDATE && !r->same_spec);
}

static int parse_object(const struct admission_request *r, struct slice text, bool whole,
                        const char *key, cJSON **root, const cJSON **object, struct err *e)
{
    const struct extra extra = {
        .annotations = r->operation == ADMISSION_CREATE && r->resource.group[0] == '\0' &&
                       strcmp(r->resource.resource, "pods") == 0,
        .template = object == &r->object && is_of_new(r),
    };
    if (text.len == 0 || text.ptr[0] == 'n') {
        return 0;
    }
    if (text.ptr[0] != '{') {
        return err_set(e, -EINVAL, "request.%s: Invalid value: must be an object", key);
    }
    *root = whole ? parse(text, e) : parse_labels(text, &extra, e);
    *object = *root;
    return *root == NULL ? e->code : 0;
}

static int parse_objects(struct admission_request *r, const struct review_text *t,
                         enum admission_parts parts, struct err *e)
{
    size_t count = parts == ADMISSION_LABELS ? 0 : json_count_values(t->object);
    size_t both = parts == ADMISSION_LABELS ? 0 : count + json_count_values(t->old_object);
    r->cut = count > ADMISSION_VALUES_MAX;
    int rc = parse_object(r, t->object, parts == ADMISSION_OBJECTS && !r->cut, "object",
                          &r->objects[0], &r->object, e);
    return rc != 0 ? rc
                   : parse_object(r, t->old_object,
                                  parts == ADMISSION_OBJECTS && both <= ADMISSION_VALUES_MAX,
                                  "oldObject", &r->objects[1], &r->old_object, e);
}

static int compare_specs(struct admission_request *r, const struct review_text *t, struct err *e)
{
    struct slice spec;
    struct slice old;
    if (find_member(t->object, "spec", &spec, e) != 0 ||
        find_member(t->old_object, "spec", &old, e) != 0) {
        return e->code;
    }
    r->same_spec = spec.len > 0 && slice_eq(spec, old);
    return 0;
}

static int read_all(struct admission_request *r, struct slice document, struct slice text,
                    enum admission_parts parts, struct err *e)
{
    struct review_text t = {.whole = text};
    int rc = find_objects(&t, document, e);
    if (rc == 0) {
        rc = parse_frame(r, &t, e);
    }
    if (rc == 0) {
        rc = read_review(r, e);
    }
    if (rc == 0) {
        rc = compare_specs(r, &t, e);
    }
    return rc != 0 ? rc : parse_objects(r, &t, parts, e);
}

int admission_request_read(struct admission_request *r, struct slice text,
                           enum admission_parts parts, struct err *e)
{
    struct err ignored;
    struct slice document;
    e = e == NULL ? &ignored : e;
    *r = (struct admission_request){.api_version = ""};
    if (text.len > ADMISSION_REVIEW_MAX) {
        return err_set(e, -E2BIG, "the review has more than %d bytes", ADMISSION_REVIEW_MAX);
    }
    if (json_scan_document(text, &document, e) != 0) {
        err_prefix(e, "the body is no " KIND);
        return e->code;
    }
    int rc = read_all(r, document, text, parts, e);
    if (rc != 0) {
        admission_request_deinit(r);
    }
    return rc;
}

void admission_request_drop_objects(struct admission_request *r)
{
    secret_json_delete(r->objects[0]);
    secret_json_delete(r->objects[1]);
    r->objects[0] = NULL;
    r->objects[1] = NULL;
    r->object = NULL;
    r->old_object = NULL;
}

void admission_request_deinit(struct admission_request *r)
{
    admission_request_drop_objects(r);
    cJSON_Delete(r->root);
    r->root = NULL;
}

/* ---- the answer ---- */

/* In quotes; what is no UTF-8 becomes U+FFFD. */
static void add_text(struct slice text, struct buf *out)
{
    struct buf clean = BUF_INIT(3 * text.len);
    utf8_append_valid(&clean, text);
    json_quote(xptr(buf_cstr(&clean)), out);
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
    return xrc(buf_settle(out, before));
}
