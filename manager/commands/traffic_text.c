/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/traffic_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "policy/policy.h"
#include "json/field.h"
#include "json/json.h"

enum { PATH_LEN = 1024 }; /* names have at most 253 bytes */

/* Of each kind. */
static const struct {
    const char *policies;
    const char *rules;
} lists[] = {
    [TRAFFIC_BREAKER] = {"breakers", "limitings"},
    [TRAFFIC_FAULT_INJECTION] = {"faults", "rules"},
};

/* ---- values ---- */

static void print_scalar(const cJSON *value, struct buf *out)
{
    if (cJSON_IsString(value)) {
        (void)buf_append_str(out, value->valuestring[0] == '\0' ? "\"\"" : value->valuestring);
    } else {
        (void)json_canonical(value, out);
    }
}

static void print_array(const cJSON *array, struct buf *out)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        (void)buf_append_str(out, item == array->child ? "" : " ");
        print_scalar(item, out);
    }
}

/* "burst 1, limit 2": what is in it; objects in it in canonical form. */
static void print_value(const cJSON *value, struct buf *out)
{
    const cJSON *field;
    if (cJSON_IsArray(value)) {
        print_array(value, out);
        return;
    }
    if (!cJSON_IsObject(value)) {
        print_scalar(value, out);
        return;
    }
    cJSON_ArrayForEach(field, value)
    {
        (void)buf_printf(out, "%s%s ", field == value->child ? "" : ", ", field->string);
        if (cJSON_IsArray(field)) {
            print_array(field, out);
        } else {
            print_scalar(field, out);
        }
    }
}

static int add_value(struct rules_text *t, const char *path, const char *name, const cJSON *value)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    print_value(value, &text);
    int rc = buf_error(&text);
    const char *printed = rc == 0 ? buf_cstr(&text) : NULL;
    if (printed != NULL) {
        rules_text_line(t, path, "%s: %s", name, printed);
    }
    buf_reset(&text);
    return printed == NULL ? -ENOMEM : 0;
}

/* ---- policies ---- */

static int add_requests(struct rules_text *t, const char *path, const cJSON *rows)
{
    int rc = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        if (row->child == NULL) {
            rules_text_line(t, path, "requests: all");
        } else if (rc == 0) {
            rc = add_value(t, path, "requests", row);
        }
    }
    return rc;
}

static int add_urls(struct rules_text *t, const char *path, const cJSON *urls)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, urls)
    {
        rules_text_line(t, path, "requests: %s %s", field_text(item, "method"),
                        field_text(item, "url"));
    }
    return 0;
}

/* "host is a", "path matches ^/b": what a request must have. */
static void print_match(const cJSON *http, const char *key, struct buf *out)
{
    const cJSON *match = field_get(http, key);
    bool exact = field_get(match, "exact") != NULL;
    if (match != NULL) {
        (void)buf_printf(out, "%s%s %s %s", out->len == 0 ? "" : ", ", key,
                         exact ? "is" : "matches", field_text(match, exact ? "exact" : "regex"));
    }
}

static int add_http(struct rules_text *t, const char *path, const cJSON *matches)
{
    int rc = 0;
    const cJSON *http;
    cJSON_ArrayForEach(http, matches)
    {
        struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
        const cJSON *header;
        const char *method = field_text(http, "method");
        (void)buf_append_str(&text, method);
        print_match(http, "host", &text);
        print_match(http, "path", &text);
        cJSON_ArrayForEach(header, field_get(http, "headers"))
        {
            const char *value = field_text(header, "value");
            (void)buf_printf(&text, "%sheader %s%s%s", text.len == 0 ? "" : ", ",
                             field_text(header, "name"), value[0] == '\0' ? "" : ": ", value);
        }
        const char *printed = buf_cstr(&text);
        if (printed != NULL) {
            rules_text_line(t, path, "requests: %s", printed);
        }
        rc = printed == NULL ? -ENOMEM : rc;
        buf_reset(&text);
    }
    return rc;
}

static int add_field(struct rules_text *t, const char *path, const cJSON *field)
{
    static const struct {
        const char *name;
        int (*add)(struct rules_text *t, const char *path, const cJSON *list);
    } requests[] = {{"resources", add_requests}, {"urls", add_urls}, {"http", add_http}};
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        if (strcmp(field->string, requests[i].name) == 0) {
            return requests[i].add(t, path, field);
        }
    }
    return add_value(t, path, field->string, field);
}

/* `what` is "rule" or another word, for names are unique among those of a list alone. */
static int add_rule(struct rules_text *t, const char *policy, const char *what, const cJSON *rule)
{
    char path[2 * PATH_LEN];
    int rc = 0;
    const cJSON *field;
    const char *name = field_text(rule, "name");
    rules_text_line(t, policy, "%s %s:", what, name);
    (void)snprintf(path, sizeof path, "%s%c%s %s:", policy, RULES_TEXT_JOIN, what, name);
    cJSON_ArrayForEach(field, rule)
    {
        if (rc == 0 && strcmp(field->string, "name") != 0) {
            rc = add_field(t, path, field);
        }
    }
    return rc;
}

static int add_policy(struct rules_text *t, enum traffic_kind kind, const cJSON *policy)
{
    char path[PATH_LEN];
    int rc = 0;
    const cJSON *item;
    const char *pods = field_text(policy, "pods");
    (void)snprintf(path, sizeof path, "%s %s:", policy_kind_name(kind), field_text(policy, "name"));
    rules_text_line(t, "", "%s", path);
    rules_text_line(t, path, "pods: %s", pods[0] == '\0' ? "all" : pods);
    cJSON_ArrayForEach(item, field_get(policy, "reset"))
    {
        rules_text_line(t, path, "recover %s: %s", item->string, item->valuestring);
    }
    cJSON_ArrayForEach(item, field_get(policy, lists[kind].rules))
    {
        rc = rc == 0 ? add_rule(t, path, "rule", item) : rc;
    }
    cJSON_ArrayForEach(item, field_get(policy, "intercepts"))
    {
        rc = rc == 0 ? add_rule(t, path, "intercept rule", item) : rc;
    }
    return rc;
}

static int add_spec(struct rules_text *t, const cJSON *spec, traffic_text_wants_cb wants,
                    void *data)
{
    int rc = 0;
    for (int i = TRAFFIC_BREAKER; i <= TRAFFIC_FAULT_INJECTION; i++) {
        enum traffic_kind kind = (enum traffic_kind)i;
        const cJSON *policy;
        cJSON_ArrayForEach(policy, field_get(spec, lists[kind].policies))
        {
            if (rc == 0 && wants(data, kind, field_text(policy, "name"))) {
                rc = add_policy(t, kind, policy);
            }
        }
    }
    return rc;
}

int traffic_text_add(struct rules_text *t, const struct traffic *traffic,
                     traffic_text_wants_cb wants, void *data, struct err *e)
{
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    struct err ignored = ERR_INIT;
    cJSON *tree = NULL;
    if (traffic_to_json(traffic, &text) == 0) {
        tree = json_parse((const char *)buf_data(&text), text.len, &ignored);
    }
    int rc = tree == NULL ? -ENOMEM : add_spec(t, field_get(tree, "spec"), wants, data);
    cJSON_Delete(tree);
    buf_reset(&text);
    return rc == 0 ? rules_text_settle(t, e) : err_memory(e);
}
