/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_check.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/xalloc.h"
#include "json/field.h"
#include "json/json.h"

static void append_list(struct buf *out, const char *before, const char *key, struct slice entries)
{
    if (entries.len > 0) {
        (void)buf_printf(out, "%s\"%s\":[", before, key);
        (void)buf_append(out, entries.ptr, entries.len);
        (void)buf_append_char(out, ']');
    }
}

struct traffic *policy_check_document(const char *ns, const char *shard, uint64_t generation,
                                      struct slice breakers, struct slice faults, struct err *e)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct traffic *made = NULL;
    (void)buf_printf(&text,
                     "{\"apiVersion\":\"" TRAFFIC_API_VERSION "\",\"generation\":%" PRIu64
                     ",\"kind\":\"" TRAFFIC_KIND "\",\"shard\":{\"name\":",
                     generation);
    (void)json_quote(shard, &text);
    (void)buf_append_str(&text, ",\"namespace\":");
    (void)json_quote(ns, &text);
    (void)buf_append_str(&text, "},\"spec\":{");
    append_list(&text, "", "breakers", breakers);
    append_list(&text, breakers.len > 0 ? "," : "", "faults", faults);
    (void)buf_append_str(&text, "}}");
    if (xrc(buf_error(&text)) != 0) {
        (void)err_set(e, -E2BIG, "spec: Too long: must have at most %d bytes", TRAFFIC_TEXT_MAX);
    } else {
        made = traffic_parse((const char *)buf_data(&text), text.len, e);
        xerr(e);
    }
    buf_reset(&text);
    return made;
}

/* Appends the one entry of the document, which the parser has found short enough. */
static void extract(const struct traffic *t, const char *list, struct buf *out)
{
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    struct err ignored = ERR_INIT;
    xok(traffic_to_json(t, &text));
    cJSON *tree = xptr(json_parse((const char *)buf_data(&text), text.len, &ignored));
    xok(json_canonical(field_get(field_get(tree, "spec"), list)->child, out));
    cJSON_Delete(tree);
    buf_reset(&text);
}

/* Its author knows nothing of documents. */
static void translate(struct err *e)
{
    char msg[ERR_MSG_MAX];
    const char *from = e->msg;
    if (strncmp(from, "line ", 5) == 0 && strchr(from, ':') != NULL) {
        from = strchr(from, ':') + 1;
        from += strspn(from, " ");
    }
    (void)strncpy(msg, from, sizeof msg - 1);
    msg[sizeof msg - 1] = '\0';
    (void)err_set(e, e->code, "spec: Invalid value: proxies would refuse it: %s", msg);
}

int policy_check_entry(enum traffic_kind kind, const cJSON *entry, struct buf *out, struct err *e)
{
    bool breaker = kind == TRAFFIC_BREAKER;
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct traffic *made = NULL;
    int rc = xrc(json_canonical(entry, &text));
    if (rc == -ENOBUFS) {
        rc = err_set(e, -E2BIG, "spec: Too long: must have at most %d bytes", TRAFFIC_TEXT_MAX);
    } else if (rc != 0) {
        rc = err_set(e, rc, "spec: %s", err_text(rc));
    } else {
        made = policy_check_document("default", "shard", 1, breaker ? buf_slice(&text) : SLICE(""),
                                     breaker ? SLICE("") : buf_slice(&text), e);
        if (made != NULL) {
            extract(made, breaker ? "breakers" : "faults", out);
        } else {
            translate(e);
            rc = e->code;
        }
    }
    traffic_unref(made);
    buf_reset(&text);
    return rc;
}
