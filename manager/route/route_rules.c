/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_rules.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "json/edit.h"
#include "json/field.h"

#define PAIRS_MAX 1024 /* of group and resource that one webhook names */

#define NAMESPACES "namespaces"

/* One webhook. */
struct walk {
    struct route_rules *out;
    struct partitioner *p;
    size_t pairs;
};

/* ---- what a rule names ---- */

static struct slice without_subresource(const char *resource)
{
    return slice_of(resource, strcspn(resource, "/"));
}

static bool is_any(struct slice text)
{
    return slice_eq(text, SLICE("*"));
}

static bool has_scope(const cJSON *rule, const char *scope)
{
    const char *text = field_text(rule, "scope");
    return *text == '\0' || strcmp(text, "*") == 0 || strcmp(text, scope) == 0;
}

/* A rule for namespaced objects is never about Namespaces, and the name is of the core group. */
static bool is_namespaces(const char *group, const char *resource)
{
    return *group == '\0' && slice_eq(without_subresource(resource), SLICE(NAMESPACES));
}

typedef bool (*pair_cb)(struct walk *w, const struct partition_resource *pair);

/* Calls for each pair that namespaced objects can have; false once a call was. */
static bool each_pair(struct walk *w, const cJSON *rule, pair_cb cb)
{
    const cJSON *group;
    cJSON_ArrayForEach(group, field_get(rule, "apiGroups"))
    {
        const cJSON *resource;
        cJSON_ArrayForEach(resource, field_get(rule, "resources"))
        {
            if (!cJSON_IsString(group) || !cJSON_IsString(resource) ||
                is_namespaces(group->valuestring, resource->valuestring)) {
                continue;
            }
            const struct partition_resource pair = {slice_str(group->valuestring),
                                                    without_subresource(resource->valuestring)};
            if (!cb(w, &pair)) {
                return false;
            }
        }
    }
    return true;
}

static bool is_none(struct walk *w, const struct partition_resource *pair)
{
    (void)w;
    (void)pair;
    return false;
}

static size_t count_pairs(const cJSON *rule)
{
    return (size_t)cJSON_GetArraySize(field_get(rule, "apiGroups")) *
           (size_t)cJSON_GetArraySize(field_get(rule, "resources"));
}

static bool is_namespaced(struct walk *w, const cJSON *rule)
{
    return has_scope(rule, "Namespaced") &&
           (count_pairs(rule) > PAIRS_MAX || !each_pair(w, rule, is_none));
}

/* ---- whether a rule can be routed ---- */

/* The first reason of all rules stays. */
static void leave(struct walk *w, const struct route_verdict *why)
{
    if (w->out->left.reason == ROUTE_ROUTED) {
        w->out->left = *why;
    }
}

/* printf arguments. */
#define RESOURCE_FMT "%.*s%s%.*s"
#define RESOURCE_ARGS(r)                                                                           \
    (int)((r)->resource.len < 100 ? (r)->resource.len : 100), (r)->resource.ptr,                   \
        (r)->group.len == 0 ? "" : ".", (int)((r)->group.len < 100 ? (r)->group.len : 100),        \
        (r)->group.ptr

static bool refuse_mixed(struct walk *w, const struct partition_resource *a,
                         const struct partition_resource *b)
{
    struct route_verdict why;
    route_verdict_set(&why, ROUTE_MIXED,
                      "shards limit " RESOURCE_FMT " and " RESOURCE_FMT " in different ways: name "
                      "them in webhooks of their own",
                      RESOURCE_ARGS(a), RESOURCE_ARGS(b));
    leave(w, &why);
    return false;
}

static bool is_limited(struct walk *w, const struct partition_resource *pair)
{
    struct route_verdict why;
    const struct partition_shard *shard = partitioner_unlimited(w->p, pair);
    if (shard != NULL) {
        route_verdict_set(&why, ROUTE_SEEN_BY_ALL,
                          "no limit of shard %.320s names " RESOURCE_FMT ", so it sees all of them",
                          shard->key, RESOURCE_ARGS(pair));
        leave(w, &why);
    }
    return shard == NULL;
}

static bool is_one_way(struct walk *w, const struct partition_resource *pair)
{
    struct partition_resource other;
    bool wide = is_any(pair->group) || is_any(pair->resource);
    return !wide || partitioner_same_within(w->p, pair, &other) || refuse_mixed(w, pair, &other);
}

/* As the first pair of the webhook that can be routed. */
static bool is_same(struct walk *w, const struct partition_resource *pair)
{
    const struct partition_resource *first = &w->out->resource;
    if (first->resource.ptr == NULL) {
        w->out->resource = *pair;
        return true;
    }
    return partitioner_same(w->p, first, pair) || refuse_mixed(w, first, pair);
}

static bool can_route_pair(struct walk *w, const struct partition_resource *pair)
{
    return is_limited(w, pair) && is_one_way(w, pair) && is_same(w, pair);
}

static bool are_few(struct walk *w, const cJSON *rule)
{
    struct route_verdict why;
    w->pairs += count_pairs(rule);
    if (w->pairs > PAIRS_MAX) {
        route_verdict_set(&why, ROUTE_TOO_MANY, "it names more than %d resources", PAIRS_MAX);
        leave(w, &why);
    }
    return w->pairs <= PAIRS_MAX;
}

/* What a rule says that cannot be routed after all does not count. */
static bool can_route(struct walk *w, const cJSON *rule)
{
    struct partition_resource before = w->out->resource;
    bool can = are_few(w, rule) && each_pair(w, rule, can_route_pair);
    if (!can) {
        w->out->resource = before;
    }
    return can;
}

/* ---- what entries have of it ---- */

static void append_rule(cJSON **list, const cJSON *rule, const char *scope)
{
    struct edit ed = {0};
    cJSON *copy = xptr(cJSON_Duplicate(rule, true));
    *list = *list == NULL ? xptr(cJSON_CreateArray()) : *list;
    edit_string(&ed, copy, "scope", scope);
    edit_append(&ed, *list, copy);
    xok(ed.rc);
}

/* `namespaces`, `*` and `*` with a subresource; "" for others. */
static const char *subresource_of_namespaces(const char *resource)
{
    struct slice name = without_subresource(resource);
    return is_any(name) || slice_eq(name, SLICE(NAMESPACES)) ? resource + name.len : NULL;
}

/* "namespaces/STAR" stands for itself and all others; the API server wants it alone then. */
static cJSON *resources_of_namespaces(const cJSON *rule)
{
    struct edit ed = {0};
    cJSON *list = xptr(cJSON_CreateArray());
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(rule, "resources"))
    {
        const char *sub =
            cJSON_IsString(item) ? subresource_of_namespaces(item->valuestring) : NULL;
        char *name = sub == NULL ? NULL : xasprintf(NAMESPACES "%s", sub);
        if (name != NULL && !field_has(list, name)) {
            edit_append_string(&ed, list, name);
        }
        free(name);
    }
    if (field_has(list, NAMESPACES "/*")) {
        cJSON_Delete(list);
        list = xptr(cJSON_CreateArray());
        edit_append_string(&ed, list, NAMESPACES "/*");
    }
    xok(ed.rc);
    return list;
}

/* The part of a rule that is about Namespaces, which are cluster-scoped. */
static void append_namespaces(cJSON **list, const cJSON *rule)
{
    const cJSON *groups = field_get(rule, "apiGroups");
    cJSON *resources = resources_of_namespaces(rule);
    if (!has_scope(rule, "Cluster") || resources->child == NULL ||
        !(field_has(groups, "") || field_has(groups, "*"))) {
        cJSON_Delete(resources);
        return;
    }
    struct edit ed = {0};
    cJSON *copy = xptr(cJSON_Duplicate(rule, true));
    cJSON *core = xptr(cJSON_CreateArray());
    edit_append_string(&ed, core, "");
    edit_set(&ed, copy, "apiGroups", core);
    edit_set(&ed, copy, "resources", resources);
    xok(ed.rc);
    append_rule(list, copy, "Cluster");
    cJSON_Delete(copy);
}

static void add_rule(struct walk *w, const cJSON *rule, bool routed)
{
    if (is_namespaced(w, rule)) {
        append_rule(routed ? &w->out->routed : &w->out->others, rule, "Namespaced");
    }
    append_namespaces(&w->out->others, rule);
}

/* ---- rules that can match the same request ---- */

typedef bool (*texts_meet_fn)(const char *a, const char *b);

static bool words_meet(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || strcmp(a, "*") == 0 || strcmp(b, "*") == 0;
}

/* Groups that have had resources in common. Source: cohabitating resources, kube-apiserver's
 * DefaultStorageFactory. */
static bool groups_meet(const char *a, const char *b)
{
    static const char *const pairs[][2] = {{"", "events.k8s.io"},
                                           {"extensions", "apps"},
                                           {"extensions", "networking.k8s.io"},
                                           {"extensions", "policy"}};
    bool found = words_meet(a, b);
    for (size_t i = 0; i < ARRAY_LEN(pairs) && !found; i++) {
        found = (strcmp(a, pairs[i][0]) == 0 && strcmp(b, pairs[i][1]) == 0) ||
                (strcmp(b, pairs[i][0]) == 0 && strcmp(a, pairs[i][1]) == 0);
    }
    return found;
}

/* "pods/STAR" stands for pods, too. */
static bool resources_meet(const char *a, const char *b)
{
    struct slice x = without_subresource(a);
    struct slice y = without_subresource(b);
    const char *sub_x = a[x.len] == '/' ? a + x.len + 1 : "";
    const char *sub_y = b[y.len] == '/' ? b + y.len + 1 : "";
    return (is_any(x) || is_any(y) || slice_eq(x, y)) && words_meet(sub_x, sub_y);
}

static bool lists_meet(const cJSON *a, const cJSON *b, const char *field, texts_meet_fn meet)
{
    const cJSON *x;
    cJSON_ArrayForEach(x, field_get(a, field))
    {
        const cJSON *y;
        cJSON_ArrayForEach(y, field_get(b, field))
        {
            if (cJSON_IsString(x) && cJSON_IsString(y) && meet(x->valuestring, y->valuestring)) {
                return true;
            }
        }
    }
    return false;
}

/* Whatever the versions, and by which group a resource comes: an API server converts. */
static bool rules_meet(const cJSON *a, const cJSON *b)
{
    return lists_meet(a, b, "operations", words_meet) &&
           lists_meet(a, b, "apiGroups", groups_meet) &&
           lists_meet(a, b, "resources", resources_meet);
}

/* ---- all ---- */

/* A rule of a webhook. */
struct choice {
    const cJSON *rule;
    bool namespaced;
    bool left; /* for good */
    bool routed;
};

static void choose(struct walk *w, struct choice *choices, size_t count)
{
    w->out->resource = (struct partition_resource){.resource = {0}};
    w->pairs = 0;
    for (size_t i = 0; i < count; i++) {
        struct choice *c = &choices[i];
        c->routed = c->namespaced && !c->left && can_route(w, c->rule);
    }
}

/* What two entries match is asked about twice. So a rule that can match what one of the others
 * does is left to the others, too. */
static bool leave_more(struct choice *choices, size_t count)
{
    bool more = false;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count && choices[i].routed; k++) {
            if (choices[k].namespaced && !choices[k].routed &&
                rules_meet(choices[i].rule, choices[k].rule)) {
                choices[i].left = true;
                choices[i].routed = false;
                more = true;
            }
        }
    }
    return more;
}

static void choose_all(struct walk *w, const cJSON *rules)
{
    size_t count = 0;
    struct choice *choices = xcalloc((size_t)cJSON_GetArraySize(rules) + 1, sizeof *choices);
    const cJSON *rule;
    cJSON_ArrayForEach(rule, rules)
    {
        choices[count++] = (struct choice){.rule = rule, .namespaced = is_namespaced(w, rule)};
    }
    do {
        choose(w, choices, count);
    } while (leave_more(choices, count));
    for (size_t i = 0; i < count; i++) {
        add_rule(w, choices[i].rule, choices[i].routed);
    }
    free(choices);
}

static bool leads_to_service(const cJSON *webhook)
{
    return *field_text(field_get(field_get(webhook, "clientConfig"), "service"), "name") != '\0';
}

static void conclude(struct route_rules *r)
{
    if (r->routed == NULL && r->left.reason != ROUTE_ROUTED) {
        r->verdict = r->left;
    } else if (r->routed == NULL) {
        route_verdict_set(&r->verdict, ROUTE_NOTHING, "it has no rule for namespaced objects");
    }
}

void route_rules_init(struct route_rules *r, struct partitioner *p, const cJSON *webhook)
{
    struct walk w = {.out = r, .p = p};
    *r = (struct route_rules){.routed = NULL};
    if (!leads_to_service(webhook)) {
        struct route_verdict why;
        route_verdict_set(&why, ROUTE_BY_URL, "clientConfig.url leads to no Service");
        route_rules_give_up(r, webhook, &why);
        return;
    }
    choose_all(&w, field_get(webhook, "rules"));
    conclude(r);
}

void route_rules_give_up(struct route_rules *r, const cJSON *webhook,
                         const struct route_verdict *why)
{
    const struct route_verdict reason = *why; /* perhaps part of `r` */
    struct walk w = {.out = r};
    const cJSON *rule;
    route_rules_deinit(r);
    cJSON_ArrayForEach(rule, field_get(webhook, "rules"))
    {
        add_rule(&w, rule, false);
    }
    r->verdict = reason;
    r->left = reason;
}

void route_rules_deinit(struct route_rules *r)
{
    cJSON_Delete(r->routed);
    cJSON_Delete(r->others);
    *r = (struct route_rules){.routed = NULL};
}
