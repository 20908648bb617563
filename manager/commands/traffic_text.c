/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/traffic_text.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "policy/policy.h"
#include "json/field.h"
#include "json/json.h"

enum {
    PATH_LEN = 1024,                  /* names have at most 253 bytes */
    VALUE_MAX = 2 * TRAFFIC_TEXT_MAX, /* what is printed is hardly longer than in the document */
};

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

static void add_value(struct rules_text *t, const char *path, const char *name, const cJSON *value)
{
    struct buf text = BUF_INIT(VALUE_MAX);
    print_value(value, &text);
    rules_text_line(t, path, "%s: %s", name, xptr(buf_cstr(&text)));
    buf_reset(&text);
}

/* ---- policies ---- */

static void add_requests(struct rules_text *t, const char *path, const cJSON *rows)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        if (row->child == NULL) {
            rules_text_line(t, path, "requests: all");
        } else {
            add_value(t, path, "requests", row);
        }
    }
}

static void add_urls(struct rules_text *t, const char *path, const cJSON *urls)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, urls)
    {
        rules_text_line(t, path, "requests: %s %s", field_text(item, "method"),
                        field_text(item, "url"));
    }
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

static void add_http(struct rules_text *t, const char *path, const cJSON *matches)
{
    const cJSON *http;
    cJSON_ArrayForEach(http, matches)
    {
        struct buf text = BUF_INIT(VALUE_MAX);
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
        rules_text_line(t, path, "requests: %s", xptr(buf_cstr(&text)));
        buf_reset(&text);
    }
}

static void add_field(struct rules_text *t, const char *path, const cJSON *field)
{
    static const struct {
        const char *name;
        void (*add)(struct rules_text *t, const char *path, const cJSON *list);
    } requests[] = {{"resources", add_requests}, {"urls", add_urls}, {"http", add_http}};
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        if (strcmp(field->string, requests[i].name) == 0) {
            requests[i].add(t, path, field);
            return;
        }
    }
    add_value(t, path, field->string, field);
}

/* `what` is "rule" or another word, for names are unique among those of a list alone. */
static void add_rule(struct rules_text *t, const char *policy, const char *what, const cJSON *rule)
{
    char path[2 * PATH_LEN];
    const cJSON *field;
    const char *name = field_text(rule, "name");
    rules_text_line(t, policy, "%s %s:", what, name);
    (void)snprintf(path, sizeof path, "%s%c%s %s:", policy, RULES_TEXT_JOIN, what, name);
    cJSON_ArrayForEach(field, rule)
    {
        if (strcmp(field->string, "name") != 0) {
            add_field(t, path, field);
        }
    }
}

static void add_policy(struct rules_text *t, enum traffic_kind kind, const cJSON *policy)
{
    char path[PATH_LEN];
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
        add_rule(t, path, "rule", item);
    }
    cJSON_ArrayForEach(item, field_get(policy, "intercepts"))
    {
        add_rule(t, path, "intercept rule", item);
    }
}

static void add_spec(struct rules_text *t, const cJSON *spec, traffic_text_wants_cb wants,
                     void *data)
{
    for (int i = TRAFFIC_BREAKER; i <= TRAFFIC_FAULT_INJECTION; i++) {
        enum traffic_kind kind = (enum traffic_kind)i;
        const cJSON *policy;
        cJSON_ArrayForEach(policy, field_get(spec, lists[kind].policies))
        {
            if (wants(data, kind, field_text(policy, "name"))) {
                add_policy(t, kind, policy);
            }
        }
    }
}

void traffic_text_add(struct rules_text *t, const struct traffic *traffic,
                      traffic_text_wants_cb wants, void *data)
{
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    xok(traffic_to_json(traffic, &text));
    cJSON *tree = xptr(json_parse((const char *)buf_data(&text), text.len, NULL));
    add_spec(t, field_get(tree, "spec"), wants, data);
    rules_text_settle(t);
    cJSON_Delete(tree);
    buf_reset(&text);
}
