/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes say what there is of children, their pods and replicas; the rest, YAML, stands in
 * spec.root, or beside it, or is a whole ShardingConfig. Of a root that is right each bucket that
 * is not the canary's must have one shard, and what is made must be read back the same. When it
 * passes validation all shards must compile, and, unless limits ask for more than shards do, each
 * namespace must be in one of them.
 */
#include "root/child.h"

#include <string.h>

#include "base/array.h"
#include "check.h"
#include "compile/shards.h"
#include "root/validate_root.h"
#include "rules/sharding.h"
#include "yaml/yaml.h"

#define HEAD                                                                                       \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: ShardingConfig\n"                         \
    "metadata: {name: r, namespace: ns}\n"
#define ROOT HEAD "spec:\n  root:\n    prefix: op\n    targetStatefulSet: sts\n"
#define PODS "resourceSelector: [{relateResources: [{apiGroups: [''], resources: [pods]}]}]"

static const struct {
    const char *before;
    const char *after;
    bool plain; /* limits ask for nothing more */
} frames[] = {
    {"", "", false},
    {HEAD "spec:\n", "\n", false},
    {ROOT "    ", "\n    " PODS "\n", true},
    {ROOT "    auto: {shardingSize: 3, everyShardReplicas: 2}\n    canary: {", "}\n    " PODS "\n",
     true},
    {ROOT "    auto: {shardingSize: 3, everyShardReplicas: 2}\n    resourceSelector: [", "]\n",
     false},
    {ROOT "    auto: {shardingSize: 3, everyShardReplicas: 2}\n    " PODS "\n  ", "\n", true},
};
enum { FACTS = 8 }; /* bytes */

#define LABELS                                                                                     \
    {                                                                                              \
        .prefix = "ctrlmesh.kusionstack.io", .namespace = "namespace",                             \
        .shard_hash = "sharding-hash", .control = "control"                                        \
    }
static const struct compile_labels labels = LABELS;
static const struct compile_options options = {
    .namespace = "default", .generation = 1, .labels = LABELS};
static const char *const namespaces[] = {"a", "b", "c", "d", "team-1", "x", "y"};

static cJSON *read_config(const uint8_t *data, size_t size, size_t frame)
{
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    cJSON *config = NULL;
    if (buf_append_str(&text, frames[frame].before) == 0 && buf_append(&text, data, size) == 0 &&
        buf_append_str(&text, frames[frame].after) == 0) {
        config = yaml_parse((const char *)buf_data(&text), text.len, NULL, &e);
    }
    buf_reset(&text);
    return config;
}

/* Some children with some of the buckets, which others may claim too. */
static void find_facts(const uint8_t *data, struct layout_child *children,
                       struct layout_facts *facts)
{
    size_t count = data[1] % 8u;
    for (size_t i = 0; i < count; i++) {
        unsigned mixed = (unsigned)data[2 + i % 4] * 2654435761u + (unsigned)i * 40503u;
        children[i] = (struct layout_child){.number = (unsigned)i * (1 + data[6] % 3u),
                                            .buckets = mixed,
                                            .taken_over = (mixed >> 5 & 7) == 0,
                                            .has_pods = (mixed >> 8 & 1) != 0,
                                            .life = (mixed >> 9) % 5};
    }
    *facts = (struct layout_facts){
        .children = children, .child_count = count, .replicas = (int)data[7] - 1};
}

static void check_layout(const struct root_spec *spec, const struct layout *made)
{
    uint32_t seen = 0;
    CHECK(made->size >= 1 && made->size <= ROOT_SHARDS_MAX);
    for (size_t i = 0; i < made->count; i++) {
        CHECK((seen & made->shards[i].buckets) == 0);
        seen |= made->shards[i].buckets;
    }
    CHECK(seen == (uint32_t)~spec->canary.buckets);
}

/* What the webhook for pods of a Deployment reads. */
static void check_seat(const cJSON *config, const struct root_spec *spec, const cJSON *child,
                       const struct layout_shard *shard)
{
    struct root_child_seat seat;
    CHECK(root_child_seat(config, child, labels.prefix, &seat) == spec->deployment);
    if (spec->deployment) {
        CHECK(seat.number == shard->number && seat.leaving == shard->leaving);
        CHECK(seat.wanted == (shard->pods == 0 ? 1 : shard->pods));
    }
}

static void check_read(const struct root_spec *spec, const cJSON *child,
                       const struct layout_shard *shard)
{
    struct layout_child read;
    CHECK(child_read(spec, child, labels.prefix, &read) == 0);
    CHECK(read.number == shard->number && read.pods == shard->pods);
    CHECK(read.buckets == shard->buckets && read.taken_over == shard->taken_over);
}

static bool sees(const struct rules *rules, const char *ns)
{
    const struct rules_entry *entry = rules_match(rules, slice_str(""), slice_str("pods"));
    char hash[16];
    (void)snprintf(hash, sizeof hash, "%u", sharding_hash(ns));
    const struct selector_label set[] = {
        {slice_str("ctrlmesh.kusionstack.io/namespace"), slice_str(ns)},
        {slice_str("ctrlmesh.kusionstack.io/sharding-hash"), slice_str(hash)},
        {slice_str("ctrlmesh.kusionstack.io/control"), slice_str("true")},
    };
    return entry == NULL || selector_matches(entry->compiled, set, ARRAY_LEN(set));
}

/* Counts in `owners` what it sees. */
static void check_compiled(const cJSON *child, unsigned owners[ARRAY_LEN(namespaces)])
{
    struct err e = ERR_INIT;
    bool unknown = false;
    struct rules *rules = compile_draft(child, &options, &unknown, &e);
    struct selector *pods = shards_pod_selector(child, &e);
    CHECK(rules != NULL && pods != NULL);
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        owners[i] += sees(rules, namespaces[i]) ? 1 : 0;
    }
    selector_free(pods);
    rules_unref(rules);
}

static void check_shards(const cJSON *config, const struct root_spec *spec,
                         const struct layout *made, bool right, bool plain)
{
    const char *ns = shards_namespace(config);
    struct child_options o = {
        .root = config, .spec = spec, .labels = &labels, .ns = ns[0] == '\0' ? "default" : ns};
    unsigned owners[ARRAY_LEN(namespaces)] = {0};
    o.namespaces = (struct child_namespaces){.names = namespaces, .count = ARRAY_LEN(namespaces)};
    for (size_t i = 0; i < made->count; i++) {
        struct err e = ERR_INIT;
        cJSON *child = child_make(&o, &made->shards[i], &e);
        if (child == NULL) {
            CHECK(e.code < 0 && e.msg[0] != '\0' && !right);
            return;
        }
        check_read(spec, child, &made->shards[i]);
        check_seat(config, spec, child, &made->shards[i]);
        if (right) {
            check_compiled(child, owners);
        }
        cJSON_Delete(child);
    }
    for (size_t i = 0; i < ARRAY_LEN(namespaces) && right && plain; i++) {
        CHECK(owners[i] == 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct layout_child children[8];
    struct layout_facts facts;
    struct root_spec spec;
    struct err e = ERR_INIT;
    if (size < FACTS) {
        return 0;
    }
    size_t frame = data[0] % ARRAY_LEN(frames);
    cJSON *config = read_config(data + FACTS, size - FACTS, frame);
    if (config != NULL && root_spec_read(config, &spec, &e) == 0) {
        struct layout made;
        struct validate_root draft;
        find_facts(data, children, &facts);
        layout_make(&spec, &facts, &made);
        check_layout(&spec, &made);
        bool right = validate_root(config, &options, &draft, &e) == 0;
        /* Ordinals above those of what was checked, as children that leave may have, are longer. */
        bool within = made.shards[made.count - 1].number <= made.size;
        check_shards(config, &spec, &made, right && within, frames[frame].plain);
        rules_unref(draft.rules);
        selector_free(draft.pods);
    } else if (config != NULL) {
        CHECK(e.code < 0 && e.msg[0] != '\0');
    }
    cJSON_Delete(config);
    return 0;
}
