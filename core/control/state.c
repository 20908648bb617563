/* SPDX-License-Identifier: Apache-2.0 */
#include "control/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/utf8.h"
#include "control/status.h"
#include "schema/schema.h"
#include "json/field.h"
#include "json/json.h"

static const struct {
    const char *target;
    const char *text;
    size_t max;
} documents[CONTROL_DOCUMENTS] = {
    [CONTROL_RULES] = {"/v1/rules", "rules", RULES_TEXT_MAX},
    [CONTROL_TRAFFIC] = {"/v1/traffic", "traffic policies", TRAFFIC_TEXT_MAX},
};

const char *control_target(enum control_document d)
{
    return documents[d].target;
}

const char *control_document_text(enum control_document d)
{
    return documents[d].text;
}

size_t control_document_max(enum control_document d)
{
    return documents[d].max;
}

static void set_none(struct control_state *s, const char *reason, const char *otherwise)
{
    bool said = reason != NULL && reason[0] != '\0';
    memset(s, 0, sizeof *s);
    (void)snprintf(s->reason, sizeof s->reason, "%s", said ? reason : otherwise);
}

void control_state_set(struct control_state *s, const struct rules *r, int64_t since,
                       const char *reason)
{
    if (r == NULL) {
        set_none(s, reason, "no rules received yet");
        return;
    }
    memset(s, 0, sizeof *s);
    s->enforcing = true;
    (void)snprintf(s->shard_namespace, sizeof s->shard_namespace, "%s", rules_shard_namespace(r));
    (void)snprintf(s->shard_name, sizeof s->shard_name, "%s", rules_shard_name(r));
    (void)snprintf(s->checksum, sizeof s->checksum, "%s", rules_checksum(r));
    s->generation = rules_generation(r);
    s->since = since;
}

void control_state_set_traffic(struct control_state *s, const struct traffic *t, int64_t since,
                               const char *reason)
{
    if (t == NULL) {
        set_none(s, reason, "there are no traffic policies");
        return;
    }
    memset(s, 0, sizeof *s);
    s->enforcing = true;
    (void)snprintf(s->shard_namespace, sizeof s->shard_namespace, "%s", traffic_shard_namespace(t));
    (void)snprintf(s->shard_name, sizeof s->shard_name, "%s", traffic_shard_name(t));
    (void)snprintf(s->checksum, sizeof s->checksum, "%s", traffic_checksum(t));
    s->generation = traffic_generation(t);
    s->since = since;
}

/* ---- writing ---- */

/* Texts may quote what others sent, and may be cut within a character. */
static int clean_text(const char *text, struct buf *out)
{
    buf_init(out, 3 * strlen(text) + 1);
    int rc = utf8_append_valid(out, slice_str(text));
    return rc == 0 && buf_cstr(out) == NULL ? -ENOMEM : rc;
}

static int add_enforced(const struct control_state *s, cJSON *root)
{
    char since[RFC3339_SIZE];
    if (s->since < 0 || rfc3339_format(s->since, since) != 0) {
        return -EINVAL;
    }
    cJSON *enforced = cJSON_AddObjectToObject(root, "enforced");
    bool good =
        control_rules_add(enforced, s) && cJSON_AddStringToObject(enforced, "since", since) != NULL;
    return good ? 0 : -ENOMEM;
}

static int add_reason(const char *reason, cJSON *root)
{
    struct buf clean;
    int rc = clean_text(reason, &clean);
    if (rc == 0 && (cJSON_AddNullToObject(root, "enforced") == NULL ||
                    cJSON_AddStringToObject(root, "reason", buf_cstr(&clean)) == NULL)) {
        rc = -ENOMEM;
    }
    buf_reset(&clean);
    return rc;
}

static int add_state(const struct control_state *s, const bool *changed, cJSON *root)
{
    if (cJSON_AddNumberToObject(root, "version", CONTROL_VERSION) == NULL) {
        return -ENOMEM;
    }
    int rc = s->enforcing ? add_enforced(s, root) : add_reason(s->reason, root);
    if (rc == 0 && s->unsettled && cJSON_AddFalseToObject(root, "settled") == NULL) {
        rc = -ENOMEM;
    }
    if (rc == 0 && changed != NULL && cJSON_AddBoolToObject(root, "changed", *changed) == NULL) {
        rc = -ENOMEM;
    }
    return rc;
}

/* In one line. */
static int print(const cJSON *root, struct buf *out)
{
    char *text = cJSON_PrintUnformatted(root);
    if (text == NULL) {
        return -ENOMEM;
    }
    buf_append_str(out, text);
    cJSON_free(text);
    return buf_append_char(out, '\n');
}

int control_state_encode(const struct control_state *s, const bool *changed, struct buf *out)
{
    size_t before = out->len;
    cJSON *root = cJSON_CreateObject();
    int rc = add_state(s, changed, root);
    if (rc == 0) {
        rc = print(root, out);
    }
    cJSON_Delete(root);
    if (rc != 0) {
        buf_truncate(out, before);
    }
    return rc;
}

static int add_error(const char *why, struct buf *out)
{
    struct buf clean;
    int rc = clean_text(why, &clean);
    cJSON *root = cJSON_CreateObject();
    if (rc == 0 && cJSON_AddStringToObject(root, "error", buf_cstr(&clean)) == NULL) {
        rc = -ENOMEM;
    }
    if (rc == 0) {
        rc = print(root, out);
    }
    cJSON_Delete(root);
    buf_reset(&clean);
    return rc;
}

int control_error_encode(const char *why, struct buf *out)
{
    size_t before = out->len;
    int rc = add_error(why, out);
    if (rc != 0) {
        buf_truncate(out, before);
    }
    return rc;
}

/* ---- reading ---- */

struct body {
    uint32_t version;
    bool changed;
    const cJSON *settled;
    const cJSON *enforced;
    const cJSON *reason; /* why nothing is */
};

static const struct schema_field body_fields[] = {
    {"version", SCHEMA_NUMBER, SCHEMA_MEMBER(struct body, version), .required = "",
     .max = UINT32_MAX},
    {"changed", SCHEMA_BOOL, SCHEMA_MEMBER(struct body, changed)},
    {"settled", SCHEMA_TREE, SCHEMA_MEMBER(struct body, settled)},
    {"enforced", SCHEMA_TREE, SCHEMA_MEMBER(struct body, enforced)},
    {"reason", SCHEMA_TREE, SCHEMA_MEMBER(struct body, reason)},
};
static const struct schema_object body_object = {SCHEMA_OBJECT_OF(body_fields, struct body),
                                                 .open = true};

static int read_state(const cJSON *root, struct control_state *out, bool *changed, struct err *e)
{
    struct body b = {0};
    struct err cut = ERR_INIT;
    struct schema_reader r = {.null_is_value = true};
    const struct schema_path at = SCHEMA_AT(NULL, "", root);
    if (schema_read(&r, &body_object, &at, &b) == 0 && b.version != CONTROL_VERSION) {
        schema_error(&r, &at, "version", "is %u, but only %d is supported", b.version,
                     CONTROL_VERSION);
    }
    *changed = b.changed;
    out->unsettled = cJSON_IsFalse(b.settled);
    if (!schema_stopped(&r) && cJSON_IsObject(b.enforced)) {
        return control_rules_read(b.enforced, "enforced", out, e);
    }
    if (!cJSON_IsNull(b.enforced)) {
        schema_error(&r, &at, "enforced", "Invalid value: must be an object or null");
    } else if (!cJSON_IsString(b.reason)) {
        schema_error(&r, &at, "reason", "Required value: a text");
    } else { /* cut to fit, as its writer's was: bytes replaced there may have made it longer */
        (void)err_set(&cut, 0, "%s", b.reason->valuestring);
        memcpy(out->reason, cut.msg, sizeof out->reason);
    }
    return r.first.code == 0 ? 0 : err_set(e, r.first.code, "%s", r.first.msg);
}

int control_state_decode(struct slice body, struct control_state *out, bool *changed, struct err *e)
{
    struct err why = ERR_INIT;
    bool ignored;
    memset(out, 0, sizeof *out);
    cJSON *root = json_parse(body.ptr, body.len, &why);
    int rc =
        root == NULL ? why.code : read_state(root, out, changed != NULL ? changed : &ignored, &why);
    cJSON_Delete(root);
    return rc == 0 ? 0 : err_set(e, rc == -ENOMEM ? rc : -EPROTO, "%s", why.msg);
}

void control_error_decode(struct slice body, char out[ERR_MSG_MAX])
{
    struct err cut = ERR_INIT;
    cJSON *root = json_parse(body.ptr, body.len, NULL);
    const cJSON *item = field_get(root, "error");
    if (cJSON_IsString(item)) {
        (void)err_set(&cut, -EPROTO, "%s", item->valuestring);
    }
    cJSON_Delete(root);
    memcpy(out, cut.msg, ERR_MSG_MAX);
}
