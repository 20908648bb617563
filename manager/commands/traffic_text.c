/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/traffic_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "policy/policy.h"
#include "json/field.h"
#include "json/json.h"

enum {
    PATH_LEN = 1024,                  /* names have at most 253 bytes */
    VALUE_MAX = 2 * TRAFFIC_TEXT_MAX, /* what is printed is hardly longer than in the document */
};

static const char *const lists[TRAFFIC_KINDS] = {
    [TRAFFIC_BREAKER] = "breakers", [TRAFFIC_FAULT_INJECTION] = "faults"};

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
    if (!cJSON_IsObject(value) || value->child == NULL) {
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

/* ---- fields ---- */

static bool has_objects(const cJSON *value)
{
    return cJSON_IsArray(value) && cJSON_IsObject(value->child);
}

/* Whether it is more than one line. */
static bool is_tree(const cJSON *value)
{
    const cJSON *field;
    cJSON_ArrayForEach(field, value)
    {
        if (cJSON_IsObject(value) && (cJSON_IsObject(field) || has_objects(field))) {
            return true;
        }
    }
    return false;
}

static void add_fields(struct rules_text *t, const char *path, const cJSON *object);

/* `what` has the name of the field, and its own if it has one. */
static void add_object(struct rules_text *t, const char *path, const char *what,
                       const cJSON *object)
{
    char below[2 * PATH_LEN];
    rules_text_line(t, path, "%s:", what);
    (void)snprintf(below, sizeof below, "%s%c%s:", path, RULES_TEXT_JOIN, what);
    add_fields(t, below, object);
}

static void add_value(struct rules_text *t, const char *path, const char *name, const cJSON *value)
{
    struct buf text = BUF_INIT(VALUE_MAX);
    print_value(value, &text);
    rules_text_line(t, path, "%s: %s", name, xptr(buf_cstr(&text)));
    buf_reset(&text);
}

static void add_entry(struct rules_text *t, const char *path, const char *list, const cJSON *entry)
{
    char what[PATH_LEN];
    const char *name = field_text(entry, "name");
    if (name[0] == '\0') {
        add_value(t, path, list, entry);
    } else {
        (void)snprintf(what, sizeof what, "%s %s", list, name);
        add_object(t, path, what, entry);
    }
}

/* But for the name, which stands above. */
static void add_fields(struct rules_text *t, const char *path, const cJSON *object)
{
    const cJSON *field;
    cJSON_ArrayForEach(field, object)
    {
        const cJSON *entry;
        if (has_objects(field)) {
            cJSON_ArrayForEach(entry, field)
            {
                add_entry(t, path, field->string, entry);
            }
        } else if (is_tree(field)) {
            add_object(t, path, field->string, field);
        } else if (strcmp(field->string, "name") != 0) {
            add_value(t, path, field->string, field);
        }
    }
}

/* ---- policies ---- */

/* Writes the rules of time zones behind their names. */
static void explain_zones(const cJSON *policy, const cJSON *zones)
{
    cJSON *fault;
    cJSON_ArrayForEach(fault, field_get(field_get(policy, "spec"), "httpFault"))
    {
        const cJSON *time = field_get(fault, "effectiveTime");
        const char *name = field_text(time, "timeZone");
        if (name[0] != '\0') {
            char *both = xasprintf("%s (%s)", name, field_text(zones, name));
            (void)xptr(cJSON_SetValuestring((cJSON *)field_get(time, "timeZone"), both));
            free(both);
        }
    }
}

static void add_policy(struct rules_text *t, enum traffic_kind kind, const cJSON *policy)
{
    char path[PATH_LEN];
    const cJSON *item;
    (void)snprintf(path, sizeof path, "%s %s:", policy_kind_name(kind), field_text(policy, "name"));
    rules_text_line(t, "", "%s", path);
    cJSON_ArrayForEach(item, field_get(policy, "reset"))
    {
        rules_text_line(t, path, "recover %s: %s", item->string, item->valuestring);
    }
    add_fields(t, path, field_get(policy, "spec"));
}

static void add_spec(struct rules_text *t, const cJSON *spec, traffic_text_wants_cb wants,
                     void *data)
{
    for (int i = 0; i < TRAFFIC_KINDS; i++) {
        enum traffic_kind kind = (enum traffic_kind)i;
        const cJSON *policy;
        cJSON_ArrayForEach(policy, field_get(spec, lists[kind]))
        {
            explain_zones(policy, field_get(spec, "zones"));
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
