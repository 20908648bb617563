/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says whether the rest is a pod (and a StatefulSet) or a ConfigMap with rules, as
 * the API server might send it, in JSON, or the text of the rules in an otherwise good ConfigMap.
 * What is kept of a pod must say the same when it is read again; what is written in place of a
 * ConfigMap must be right.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/pod.h"
#include "cache/rules_map.h"
#include "check.h"
#include "rolling/stateful_set.h"
#include "rules/rules.h"
#include "json/json.h"

#define PREFIX "p"

static const struct pod_keys keys = {.generation = "p/rules-generation",
                                     .traffic = "p/traffic-generation",
                                     .injected = "p/sharding-config-injected",
                                     .allow_bypass = "p/allow-bypass",
                                     .let_go = "p/let-go"};

static const char rules_text[] =
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"n\",\"name\":"
    "\"a\"},\"generation\":7,\"spec\":{\"limits\":[]}}";

static void look_at_set(const cJSON *tree)
{
    struct stateful_set *s = stateful_set_new(tree, PREFIX);
    CHECK(s != NULL && s->key != NULL && s->label != NULL);
    CHECK(s->deadline_ms >= 1000 * ROLLING_DEADLINE_MIN);
    CHECK(s->deadline_ms <= 1000 * ROLLING_DEADLINE_MAX);
    CHECK(s->replicas <= INT32_MAX && s->first <= INT32_MAX && s->min_ready_s >= 0);
    stateful_set_free(s);
}

static void look_at_pod(const cJSON *tree)
{
    char address[POD_ADDRESS_SIZE];
    struct pod *p = pod_new(0, tree, &keys);
    CHECK(p != NULL);
    CHECK(pod_same(p, p));
    CHECK(p->generation <= RULES_GENERATION_MAX && (p->told || p->generation == 0));
    pod_address(p, p->proxy_port, address);
    for (size_t i = 0; i < p->label_count; i++) {
        CHECK(i == 0 || strcmp(p->labels[i - 1].key, p->labels[i].key) < 0);
        CHECK(strcmp(pod_label(p, p->labels[i].key), p->labels[i].value) == 0);
    }
    free(p);
}

/* Puts it right, as the API server would. */
static void put_right(const struct rules_map *m)
{
    enum rules_version version;
    struct err e = ERR_INIT;
    struct rules *rules = rules_parse(rules_text, sizeof rules_text - 1, &e);
    cJSON *object = rules_map_make(NULL, rules, PREFIX, "u", &version, &e);
    CHECK(object != NULL);
    struct rules_map *again = rules_map_new(object, PREFIX);
    CHECK(again != NULL);
    CHECK(rules_map_ours(again));
    CHECK(rules_map_right(again, "u", 7, rules_checksum(rules)));
    cJSON_Delete(object);
    rules_map_free(again);
    object = rules_map_make(m, rules, PREFIX, "u", &version, &e);
    CHECK(object != NULL || (e.code == -E2BIG && m->foreign_size > 0));
    cJSON_Delete(object);
    rules_unref(rules);
}

static void look_at_map(const cJSON *tree)
{
    struct rules_map *m = rules_map_new(tree, PREFIX);
    if (m == NULL) {
        return;
    }
    CHECK(!m->intact || (m->generation != 0 && m->checksum[0] != '\0'));
    CHECK(!rules_map_ours(m) || !m->foreign_owner);
    put_right(m);
    rules_map_free(m);
}

static void look_at_text(const uint8_t *data, size_t size)
{
    cJSON *tree = cJSON_CreateObject();
    cJSON *meta = cJSON_AddObjectToObject(tree, "metadata");
    cJSON *item = cJSON_AddObjectToObject(tree, "data");
    char *text = strndup((const char *)data, size);
    CHECK(cJSON_AddStringToObject(meta, "name", "cmesh-rules-a") != NULL);
    CHECK(cJSON_AddStringToObject(meta, "namespace", "n") != NULL);
    CHECK(cJSON_AddStringToObject(item, "rules.json", text) != NULL);
    look_at_map(tree);
    free(text);
    cJSON_Delete(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    if (size == 0) {
        return 0;
    }
    if (data[0] % 3 == 0) {
        look_at_text(data + 1, size - 1);
        return 0;
    }
    cJSON *tree = json_parse((const char *)data + 1, size - 1, &e);
    if (tree != NULL && data[0] % 3 == 1) {
        look_at_pod(tree);
        look_at_set(tree);
    } else if (tree != NULL) {
        look_at_map(tree);
    }
    cJSON_Delete(tree);
    return 0;
}
