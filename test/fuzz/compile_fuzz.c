/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says whether the rest is a whole ShardingConfig in YAML or stands in place of some
 * part of a good one. What compiles must give rules that parse again, with no limit that shows
 * everything, and the same ones from the config with its fields in another order. Errors never
 * speak in the terms of the rules document. The first byte says, too, whether namespaces are known.
 */
#include "compile/compile.h"

#include <string.h>

#include "base/array.h"
#include "check.h"
#include "yaml/yaml.h"

#define HEAD                                                                                       \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: ShardingConfig\n"                         \
    "metadata: {name: s, namespace: ns}\n"

static const struct {
    const char *before;
    const char *after;
} frames[] = {
    {"", ""},
    {HEAD "spec:\n", "\n"},
    {HEAD "spec: {selector: {}, limits: [", "]}\n"},
    {HEAD "spec: {selector: {}, limits: [{relateResources: [{apiGroups: [''], resources: [pods]}], "
          "selector: {",
     "}}]}\n"},
    {HEAD "spec: {selector: {}, limits: [{objectSelector: {relateResources: [", "]}}]}\n"},
    {HEAD "spec: {selector: {}, limits: [{relateResources: [{apiGroups: [''], resources: [pods]}], "
          "namespaceSelector: {",
     "}}]}\n"},
};

/* What there is of namespaces, for selectors by their labels. */
static const char *const namespaces[] = {
    "{\"metadata\":{\"name\":\"a\",\"labels\":{\"team\":\"red\",\"tier\":\"1\"}}}",
    "{\"metadata\":{\"name\":\"b\",\"labels\":{\"team\":\"red\"}}}",
    "{\"metadata\":{\"name\":\"c\"}}",
};

static const struct namespace_set *all_namespaces(void)
{
    static struct namespace_set set;
    for (size_t i = 0; set.entries.count < ARRAY_LEN(namespaces) && i < ARRAY_LEN(namespaces);
         i++) {
        struct namespace_entry *before = NULL;
        cJSON *object = cJSON_Parse(namespaces[i]);
        CHECK(namespace_set_put(&set, object, &before) == 1 && before == NULL);
        cJSON_Delete(object);
    }
    return &set;
}

static struct compile_options options = {
    .namespace = "default",
    .generation = 1,
    .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
};

static cJSON *read_config(const uint8_t *data, size_t size)
{
    size_t frame = (data[0] & 0x7fu) % (ARRAY_LEN(frames));
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    cJSON *config = NULL;
    if (buf_append_str(&text, frames[frame].before) == 0 &&
        buf_append(&text, data + 1, size - 1) == 0 &&
        buf_append_str(&text, frames[frame].after) == 0) {
        config = yaml_parse((const char *)buf_data(&text), text.len, NULL, &e);
    }
    buf_reset(&text);
    return config;
}

/* Turns the order of all fields round; lists stay as they are. */
static void reverse_fields(cJSON *item)
{
    cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        reverse_fields(child);
    }
    if (cJSON_IsObject(item)) {
        cJSON *reversed = cJSON_CreateObject();
        while ((child = item->child) != NULL) {
            CHECK(cJSON_InsertItemInArray(reversed, 0, cJSON_DetachItemViaPointer(item, child)));
        }
        item->child = reversed->child;
        reversed->child = NULL;
        cJSON_Delete(reversed);
    }
}

static void check_rules(const struct rules *rules)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    CHECK(rules_to_json(rules, &text) == 0);
    struct rules *again = rules_parse((const char *)buf_data(&text), text.len, &e);
    CHECK(again != NULL && strcmp(rules_checksum(again), rules_checksum(rules)) == 0);
    const struct rules_entry *entry = rules_match(again, SLICE(""), SLICE("pods"));
    CHECK(entry == NULL || !selector_is_everything(entry->compiled));
    rules_unref(again);
    buf_reset(&text);
}

static void check_error(const struct err *e)
{
    CHECK(e->code < 0 && e->msg[0] != '\0');
    CHECK(strncmp(e->msg, "line ", 5) != 0 && strncmp(e->msg, "shard", 5) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *config = size > 0 ? read_config(data, size) : NULL;
    if (config == NULL) {
        return 0;
    }
    struct err e = ERR_INIT;
    options.namespaces = data[0] & 0x80 ? NULL : all_namespaces();
    struct rules *rules = compile_config(config, &options, &e);
    if (rules != NULL) {
        check_rules(rules);
        reverse_fields(config);
        struct rules *other = compile_config(config, &options, &e);
        CHECK(other != NULL && strcmp(rules_checksum(rules), rules_checksum(other)) == 0);
        rules_unref(other);
    } else {
        check_error(&e);
    }
    rules_unref(rules);
    cJSON_Delete(config);
    return 0;
}
