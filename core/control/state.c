/* SPDX-License-Identifier: Apache-2.0 */
#include "control/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/utf8.h"
#include "json/json.h"

#define GENERATION_MAX 9007199254740991.0 /* what a JSON number holds exactly */

void control_state_set(struct control_state *s, const struct rules *r, int64_t since,
                       const char *reason)
{
    memset(s, 0, sizeof *s);
    if (r == NULL) {
        bool unsaid = reason == NULL || reason[0] == '\0';
        (void)snprintf(s->reason, sizeof s->reason, "%s",
                       unsaid ? "no rules received yet" : reason);
        return;
    }
    s->enforcing = true;
    (void)snprintf(s->shard_namespace, sizeof s->shard_namespace, "%s", rules_shard_namespace(r));
    (void)snprintf(s->shard_name, sizeof s->shard_name, "%s", rules_shard_name(r));
    (void)snprintf(s->checksum, sizeof s->checksum, "%s", rules_checksum(r));
    s->generation = rules_generation(r);
    s->since = since;
}

/* ---- writing ---- */

/* Texts may quote what others sent, and may be cut within a character. */
static int add_text(struct buf *out, const char *text)
{
    struct buf clean = BUF_INIT(3 * strlen(text) + 1);
    int rc = utf8_append_valid(&clean, slice_str(text));
    const char *str = rc == 0 ? buf_cstr(&clean) : NULL;
    rc = str == NULL && rc == 0 ? -ENOMEM : rc;
    rc = rc != 0 ? rc : json_quote(str, out);
    buf_reset(&clean);
    return rc;
}

static int add_member(struct buf *out, const char *before, const char *text)
{
    int rc = buf_append_str(out, before);
    return rc != 0 ? rc : add_text(out, text);
}

static int add_enforced(const struct control_state *s, struct buf *out)
{
    char since[RFC3339_SIZE];
    if (s->since < 0 || rfc3339_format(s->since, since) != 0) {
        return -EINVAL;
    }
    int rc = add_member(out, "{\"shard\":{\"namespace\":", s->shard_namespace);
    rc = rc != 0 ? rc : add_member(out, ",\"name\":", s->shard_name);
    rc = rc != 0 ? rc : buf_printf(out, "},\"generation\":%" PRIu64, s->generation);
    rc = rc != 0 ? rc : add_member(out, ",\"checksum\":", s->checksum);
    return rc != 0 ? rc : buf_printf(out, ",\"since\":\"%s\"}", since);
}

static int add_state(const struct control_state *s, const bool *changed, struct buf *out)
{
    int rc = buf_printf(out, "{\"version\":%d,\"enforced\":", CONTROL_VERSION);
    if (rc == 0 && s->enforcing) {
        rc = add_enforced(s, out);
    } else if (rc == 0) {
        rc = add_member(out, "null,\"reason\":", s->reason);
    }
    if (rc == 0 && changed != NULL) {
        rc = buf_printf(out, ",\"changed\":%s", *changed ? "true" : "false");
    }
    return rc != 0 ? rc : buf_append_str(out, "}\n");
}

int control_state_encode(const struct control_state *s, const bool *changed, struct buf *out)
{
    size_t before = out->len;
    int rc = add_state(s, changed, out);
    if (rc != 0) {
        buf_truncate(out, before);
    }
    return rc;
}

int control_error_encode(const char *why, struct buf *out)
{
    size_t before = out->len;
    int rc = add_member(out, "{\"error\":", why);
    rc = rc != 0 ? rc : buf_append_str(out, "}\n");
    if (rc != 0) {
        buf_truncate(out, before);
    }
    return rc;
}

/* ---- reading ---- */

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static int wrong(struct err *e, const char *path, const char *what)
{
    return err_set(e, -EPROTO, "%s: %s", path, what);
}

/* A string that `check` takes; `out` has room for all such. */
static int read_string(const cJSON *parent, const char *key, const char *path,
                       const char *(*check)(struct slice), char *out, size_t size, struct err *e)
{
    const cJSON *item = member(parent, key);
    if (!cJSON_IsString(item)) {
        return wrong(e, path, item == NULL ? "is missing" : "must be a string");
    }
    const char *why = check(slice_str(item->valuestring));
    if (why != NULL) {
        return wrong(e, path, why);
    }
    (void)snprintf(out, size, "%s", item->valuestring);
    return 0;
}

static const char *check_checksum(struct slice text)
{
    const size_t prefix = sizeof "sha256:" - 1;
    bool good = text.len == RULES_CHECKSUM_LEN && memcmp(text.ptr, "sha256:", prefix) == 0 &&
                strspn(text.ptr + prefix, "0123456789abcdef") == text.len - prefix;
    return good ? NULL : "must be \"sha256:\" and 64 lower case hex digits";
}

static int read_shard(const cJSON *enforced, struct control_state *out, struct err *e)
{
    const cJSON *shard = member(enforced, "shard");
    if (!cJSON_IsObject(shard)) {
        return wrong(e, "enforced.shard", shard == NULL ? "is missing" : "must be an object");
    }
    int rc = read_string(shard, "namespace", "enforced.shard.namespace", name_check_label,
                         out->shard_namespace, sizeof out->shard_namespace, e);
    return rc != 0 ? rc
                   : read_string(shard, "name", "enforced.shard.name", name_check_subdomain,
                                 out->shard_name, sizeof out->shard_name, e);
}

static int read_generation(const cJSON *enforced, struct control_state *out, struct err *e)
{
    const cJSON *item = member(enforced, "generation");
    double n = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(n >= 1 && n <= GENERATION_MAX) || (double)(uint64_t)n != n) {
        return wrong(e, "enforced.generation",
                     item == NULL ? "is missing" : "must be an integer of at least 1");
    }
    out->generation = (uint64_t)n;
    return 0;
}

static int read_since(const cJSON *enforced, struct control_state *out, struct err *e)
{
    const cJSON *item = member(enforced, "since");
    if (!cJSON_IsString(item) || !rfc3339_parse(item->valuestring, &out->since) || out->since < 0) {
        return wrong(e, "enforced.since",
                     item == NULL ? "is missing" : "must be an RFC 3339 time since 1970");
    }
    return 0;
}

static int read_enforced(const cJSON *enforced, struct control_state *out, struct err *e)
{
    out->enforcing = true;
    int rc = read_shard(enforced, out, e);
    rc = rc != 0 ? rc : read_generation(enforced, out, e);
    rc = rc != 0 ? rc
                 : read_string(enforced, "checksum", "enforced.checksum", check_checksum,
                               out->checksum, sizeof out->checksum, e);
    return rc != 0 ? rc : read_since(enforced, out, e);
}

static int read_version(const cJSON *root, struct err *e)
{
    const cJSON *item = member(root, "version");
    if (!cJSON_IsNumber(item)) {
        return wrong(e, "version", item == NULL ? "is missing" : "must be a number");
    }
    return item->valuedouble == CONTROL_VERSION
               ? 0
               : err_set(e, -EPROTO, "version: is %g, but only %d is supported", item->valuedouble,
                         CONTROL_VERSION);
}

/* Cut to fit, as its writer's was: bytes replaced there may have made it longer. */
static int read_reason(const cJSON *root, struct control_state *out, struct err *e)
{
    const cJSON *item = member(root, "reason");
    struct err cut = ERR_INIT;
    if (!cJSON_IsString(item)) {
        return wrong(e, "reason", item == NULL ? "is missing" : "must be a string");
    }
    (void)err_set(&cut, 0, "%s", item->valuestring);
    memcpy(out->reason, cut.msg, sizeof out->reason);
    return 0;
}

static int read_state(const cJSON *root, struct control_state *out, bool *changed, struct err *e)
{
    if (!cJSON_IsObject(root)) {
        return err_set(e, -EPROTO, "the body must be a JSON object");
    }
    int rc = read_version(root, e);
    if (rc != 0) {
        return rc;
    }
    const cJSON *said = member(root, "changed");
    if (said != NULL && !cJSON_IsBool(said)) {
        return wrong(e, "changed", "must be true or false");
    }
    *changed = cJSON_IsTrue(said);
    const cJSON *enforced = member(root, "enforced");
    if (cJSON_IsObject(enforced)) {
        return read_enforced(enforced, out, e);
    }
    if (!cJSON_IsNull(enforced)) {
        return wrong(e, "enforced", enforced == NULL ? "is missing" : "must be an object or null");
    }
    return read_reason(root, out, e);
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
    const cJSON *item = member(root, "error");
    if (cJSON_IsString(item)) {
        (void)err_set(&cut, -EPROTO, "%s", item->valuestring);
    }
    cJSON_Delete(root);
    memcpy(out, cut.msg, ERR_MSG_MAX);
}
