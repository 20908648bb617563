/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "kube/name.h"
#include "policy/policy_reader.h"
#include "json/field.h"

/* ---- what may stand in the lists ---- */

/* All return what is wrong with it, or NULL. */
static const char *check_group(const char *text)
{
    if (text[0] == '\0' || strcmp(text, "*") == 0) {
        return NULL;
    }
    return strchr(text, '/') != NULL ? "must be a group without its version, as \"apps\""
                                     : name_check_subdomain(slice_str(text));
}

static const char *check_resource(const char *text)
{
    const char *slash = strchr(text, '/');
    size_t len = slash == NULL ? strlen(text) : (size_t)(slash - text);
    bool any = len == 1 && text[0] == '*';
    bool name = name_check_label(slice_of(text, len)) == NULL;
    if (slash != NULL && strcmp(slash, "/*") == 0) {
        return "must name the subresource; without one a resource stands for all that it has";
    }
    if (slash != NULL && name_check_label(slice_str(slash + 1)) != NULL) {
        name = any = false;
    }
    return name || any ? NULL
                       : "must be a plural name in lower case, as \"pods\", \"pods/eviction\" or "
                         "\"*/scale\", or \"*\"";
}

static const char *check_verb(const char *text)
{
    static const char *const verbs[] = {"*",      "get",    "list",  "watch",
                                        "create", "update", "patch", "deletecollection",
                                        "delete", "proxy"};
    return ARRAY_HAS(verbs, text) ? NULL
                                  : "must be one of get, list, watch, create, update, patch, "
                                    "delete, deletecollection, or \"*\"";
}

static const char *check_namespace(const char *text)
{
    bool any = text[0] == '\0' || strcmp(text, "*") == 0; /* "": of what belongs to none */
    return any ? NULL : name_check_label(slice_str(text));
}

static const struct list {
    const char *key;
    const char *(*check)(const char *text);
} lists[] = {
    {"apiGroups", check_group},
    {"resources", check_resource},
    {"verbs", check_verb},
    {"namespaces", check_namespace},
};

static const char *const known[] = {"apiGroups", "resources", "verbs", "namespaces", NULL};

/* ---- reading ---- */

static bool check_text(struct policy_reader *r, const cJSON *item, const char *path,
                       const struct list *list, size_t i)
{
    if (!cJSON_IsString(item)) {
        policy_error(r, "%s.%s[%zu]: Invalid value: must be a string", path, list->key, i);
        return false;
    }
    const char *why = list->check(item->valuestring);
    if (why != NULL) {
        policy_error(r, "%s.%s[%zu]: Invalid value: \"%.100s\": %s", path, list->key, i,
                     item->valuestring, why);
    }
    return why == NULL;
}

/* Copies it, each name once. */
static void read_list(struct policy_reader *r, const cJSON *rule, const char *path,
                      const struct list *list, bool required, cJSON *out)
{
    size_t i = 0;
    const cJSON *item = policy_list(r, rule, path, list->key, TRAFFIC_LIST_MAX);
    cJSON *copy = item == NULL ? NULL : edit_array(&r->edit, out, list->key);
    const cJSON *written = field_get(rule, list->key);
    if (required && (written == NULL || (cJSON_IsArray(written) && written->child == NULL))) {
        policy_error(r, "%s.%s: Required value: write [\"*\"] for any", path, list->key);
    }
    if (item == NULL && !required) {
        (void)policy_count_name(r, path); /* `*` */
    }
    for (; item != NULL; item = item->next) {
        if (check_text(r, item, path, list, i++) && !field_has(copy, item->valuestring)) {
            if (!policy_count_name(r, path)) {
                return;
            }
            edit_append_string(&r->edit, copy, item->valuestring);
        }
    }
}

/* Names leases itself, so that the operator's own are not exempt. */
static bool names_leases(const cJSON *rule)
{
    const cJSON *groups = field_get(rule, "apiGroups");
    bool group =
        groups == NULL || field_has(groups, "*") || field_has(groups, "coordination.k8s.io");
    return group && field_has(field_get(rule, "resources"), "leases");
}

static bool relists(const cJSON *rule)
{
    const cJSON *verbs = field_get(rule, "verbs");
    return field_has(field_get(rule, "namespaces"), "*") &&
           (field_has(verbs, "list") || field_has(verbs, "watch") || field_has(verbs, "*"));
}

static void read_rule(struct policy_reader *r, const cJSON *rule, const char *path, bool required,
                      cJSON *array, struct policy_resources *found)
{
    if (!policy_object(r, rule, path, known)) {
        return;
    }
    cJSON *out = edit_append_object(&r->edit, array);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        read_list(r, rule, path, &lists[i], required, out);
    }
    found->count++;
    found->leases = found->leases || names_leases(rule);
    found->relisted = found->relisted || relists(rule);
}

void policy_resources(struct policy_reader *r, const cJSON *parent, const char *path,
                      const char *key, bool required, cJSON *out, struct policy_resources *found)
{
    size_t i = 0;
    const cJSON *rule = policy_list(r, parent, path, key, TRAFFIC_ROWS_MAX);
    cJSON *array = rule == NULL ? NULL : edit_array(&r->edit, out, "resources");
    for (; rule != NULL; rule = rule->next) {
        struct policy_path p = policy_item_path(path, key, i++);
        if (r->row_count == TRAFFIC_ROWS_MAX) {
            policy_error(r, "%s: Too many: a policy can have at most %d resource rules in all",
                         p.text, TRAFFIC_ROWS_MAX);
            return;
        }
        r->row_count++;
        read_rule(r, rule, p.text, required, array, found);
    }
}
