/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's configuration and a routes object, both by anybody: {"webhooks": [...], "entries":
 * [...]}. What is decided from them for two shards must be read back the same and come to rest, and
 * each namespace with control labels must match one entry if it matches the original's own
 * selector, and none besides. What is narrowed must be as before once that is undone.
 */
#include "route/entries.h"

#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "check.h"
#include "kube/selector.h"
#include "route/entries_list.h"
#include "route/narrowing.h"
#include "json/field.h"
#include "json/json.h"

static const struct labels_keys keys = {
    .key = {[LABELS_NAMESPACE] = "N", [LABELS_SHARD_HASH] = "H", [LABELS_CONTROL] = "C"}};

#define RULES(name, limits)                                                                        \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ops\","       \
    "\"name\":\"" name "\"},\"generation\":1,\"spec\":{\"labels\":{\"namespace\":\"N\","           \
    "\"shardHash\":\"H\",\"control\":\"C\"},\"limits\":[" limits "]}}"
#define LIMIT(group, resource, selector)                                                           \
    "{\"apiGroups\":[\"" group "\"],\"resources\":[\"" resource "\"],\"selector\":\"" selector "\"}"

static const char *const texts[] = {
    RULES("a", LIMIT("", "pods", "H in (1,2,s),N notin (x)") "," LIMIT(
                   "*", "*", "H in (1,2,s),N notin (x)") "," LIMIT("", "secrets", "app=a")),
    RULES("b", LIMIT("", "pods", "N in (x,y)") "," LIMIT("*", "*", "N in (x,y)") "," LIMIT(
                   "", "secrets", "app=b")),
};
enum { SHARDS = ARRAY_LEN(texts) };

static const struct entries_shard shards[SHARDS] = {{"ops/a", 20443}, {"ops/b", 20444}};
static const char *const namespaces[] = {"a", "b", "c", "s", "x", "y", "wj"};

struct scene {
    struct partition_shard facts[SHARDS];
    struct partition_facts all;
    struct sharing_set shared;
    struct partitioner *partitioner;
    struct entries_webhook webhook;
    const cJSON *entries;
};

static char *shared_names[] = {"s"};

static void scene_init(struct scene *s, const cJSON *document)
{
    *s = (struct scene){.shared = {.names = shared_names, .count = 1}};
    s->all = (struct partition_facts){.shards = s->facts, .count = SHARDS, .shared = &s->shared};
    for (size_t i = 0; i < SHARDS; i++) {
        struct rules *rules = rules_parse_plain(texts[i], strlen(texts[i]), NULL);
        CHECK(rules != NULL);
        s->facts[i] = (struct partition_shard){.key = shards[i].key,
                                               .wanted = rules,
                                               .published = rules,
                                               .confirmed = true,
                                               .can_gain = true};
    }
    s->partitioner = partitioner_new(&s->all);
    s->webhook = (struct entries_webhook){.keys = &keys,
                                          .configuration = "operator",
                                          .shards = shards,
                                          .shard_count = SHARDS,
                                          .hold_port = 20500};
    s->entries = field_get(document, "entries");
}

static void scene_deinit(struct scene *s)
{
    partitioner_free(s->partitioner);
    for (size_t i = 0; i < SHARDS; i++) {
        rules_unref((struct rules *)s->facts[i].wanted);
    }
}

/* ---- who is asked ---- */

/* Whether a namespace matches; -1: that is no selector. */
static int matches(const cJSON *selector, const char *ns, bool labelled)
{
    char hash[16];
    struct err e = ERR_INIT;
    struct selector *s = selector_from_label_selector(selector, "s", &e);
    (void)snprintf(hash, sizeof hash, "%u", sharding_hash(ns));
    const struct selector_label labels[] = {{SLICE("team"), SLICE("red")},
                                            {SLICE("N"), slice_str(ns)},
                                            {SLICE("H"), slice_str(hash)},
                                            {SLICE("C"), SLICE("true")}};
    int matched = s == NULL ? -1 : selector_matches(s, labels, labelled ? 4 : 1);
    selector_free(s);
    return matched;
}

static bool asks_about(const cJSON *entry, const cJSON *rules)
{
    return cJSON_Compare(field_get(entry, "rules"), rules, true);
}

/* What narrows it does not count. */
static void check_asked(const cJSON *own, const struct route_rules *rules, const cJSON *made)
{
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        int wanted = matches(own, namespaces[i], true);
        int found = 0;
        const cJSON *entry;
        cJSON_ArrayForEach(entry, made)
        {
            const cJSON *selector = field_get(entry, "namespaceSelector");
            int labelled = matches(selector, namespaces[i], true);
            if (wanted < 0 || labelled < 0) {
                return;
            }
            CHECK(matches(selector, namespaces[i], false) == 0);
            found += asks_about(entry, rules->routed) && labelled > 0;
        }
        CHECK(found == wanted);
    }
}

/* ---- one webhook ---- */

static const cJSON *own_selector(const cJSON *webhook)
{
    return field_get(webhook, "namespaceSelector");
}

/* Neither by us nor by its owner, and not by control labels otherwise. */
static bool is_plain(const cJSON *webhook)
{
    char *text = cJSON_PrintUnformatted(own_selector(webhook));
    bool plain =
        text != NULL && cJSON_IsObject(own_selector(webhook)) && strpbrk(text, "CHN") == NULL;
    cJSON_free(text);
    return plain;
}

static void check_read_again(struct scene *s, const struct partition_resource *r,
                             const struct partition *next, const cJSON *made)
{
    struct partition read;
    struct partition rest;
    struct route_verdict why;
    int ports[SHARDS];
    CHECK(entries_read(&s->webhook, made, &read, ports));
    CHECK(partition_equal(&read, next));
    CHECK(partitioner_next(s->partitioner, r, &read, &rest, &why) == ROUTE_ROUTED);
    CHECK(partition_equal(&rest, next));
    partition_deinit(&read);
    partition_deinit(&rest);
}

static void check_fits(const cJSON *made)
{
    struct entries_claim claim = {.configuration = "operator", .created = "1", .entries = made};
    entries_list_fit(&claim, 1, NULL);
    cJSON *all = entries_list_join(&claim, 1);
    CHECK(cJSON_GetArraySize(all) == (claim.fits ? cJSON_GetArraySize(made) : 0));
    cJSON_Delete(all);
}

static void check_webhook(struct scene *s, const cJSON *webhook)
{
    struct partition present;
    struct partition next;
    struct route_rules rules;
    struct route_verdict why;
    cJSON *made = xptr(cJSON_CreateArray());
    s->webhook.webhook = webhook;
    (void)entries_read(&s->webhook, s->entries, &present, NULL);
    route_rules_init(&rules, s->partitioner, webhook);
    struct partition_resource r = rules.resource;
    bool routed = rules.verdict.reason == ROUTE_ROUTED;
    if (routed && partitioner_next(s->partitioner, &r, &present, &next, &why) != ROUTE_ROUTED) {
        route_rules_give_up(&rules, webhook, &why);
        routed = false;
    }
    CHECK(routed == (rules.routed != NULL));
    entries_make(&s->webhook, &rules, routed ? &next : NULL, made);
    if (routed) {
        check_read_again(s, &r, &next, made);
        if (is_plain(webhook)) {
            check_asked(own_selector(webhook), &rules, made);
        }
        partition_deinit(&next);
    }
    check_fits(made);
    partition_deinit(&present);
    route_rules_deinit(&rules);
    cJSON_Delete(made);
}

/* ---- the configuration ---- */

static bool is_typed(const cJSON *webhook)
{
    const cJSON *selector = own_selector(webhook);
    const cJSON *list = field_get(selector, "matchExpressions");
    return cJSON_IsObject(webhook) && cJSON_IsObject(selector) &&
           (cJSON_IsArray(list) || !cJSON_HasObjectItem(selector, "matchExpressions")) &&
           !narrowing_is(&keys, webhook) && *field_text(webhook, "name") != '\0';
}

static void check_narrowing(const cJSON *webhook)
{
    cJSON *configuration = xptr(cJSON_CreateObject());
    cJSON *list = cJSON_AddArrayToObject(configuration, "webhooks");
    cJSON_AddItemToArray(list, cJSON_Duplicate(webhook, true));
    cJSON *patch = narrowing_patch(&keys, configuration, "x/narrowed", NULL, NULL);
    CHECK(patch != NULL && narrowing_is(&keys, field_get(patch, "webhooks")->child));
    cJSON *undone = narrowing_undo_patch(&keys, patch, "x/narrowed", NULL, NULL);
    CHECK(undone != NULL && !narrowing_is(&keys, field_get(undone, "webhooks")->child));
    cJSON_Delete(undone);
    cJSON_Delete(patch);
    cJSON_Delete(configuration);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    cJSON *document = json_parse((const char *)data, size, &e);
    struct scene s;
    const cJSON *webhook;
    scene_init(&s, document);
    cJSON_ArrayForEach(webhook, field_get(document, "webhooks"))
    {
        check_webhook(&s, webhook);
        if (is_typed(webhook)) {
            check_narrowing(webhook);
        }
    }
    scene_deinit(&s);
    cJSON_Delete(document);
    return 0;
}
