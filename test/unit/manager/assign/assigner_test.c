/* SPDX-License-Identifier: Apache-2.0 */
#include "assign/assigner.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "assign/assignments.h"
#include "base/array.h"

#define PREFIX "ctrlmesh.kusionstack.io"

enum { SHARDS_MAX = 8, PODS_MAX = 64 };

struct seen_pod {
    const char *shard;
    char owner[16];
    struct assigner_pod pod;
};

struct fixture {
    struct assigner *assigner;
    uint64_t now;
    uint32_t random;
    struct net_clock clock;
    cJSON *configs;
    struct shards_item items[SHARDS_MAX];
    struct shards_list shards;
    struct seen_pod pods[PODS_MAX];
    size_t pod_count;
    bool from_back;
    struct assigner_choice choice;
    struct warnings warnings;
    struct err e;
};

static uint64_t now(void *data)
{
    return ((struct fixture *)data)->now;
}

static uint32_t random_number(void *data)
{
    return ((struct fixture *)data)->random++;
}

static void pods_of(void *data, size_t shard, assigner_pod_cb cb, void *arg)
{
    struct fixture *f = data;
    for (size_t i = 0; i < f->pod_count; i++) {
        if (strcmp(f->pods[i].shard, f->items[shard].name) == 0) {
            f->pods[i].pod.owner = f->pods[i].owner;
            cb(arg, &f->pods[i].pod);
        }
    }
}

static void add_config(struct fixture *f, const char *text)
{
    cJSON *config = cJSON_Parse(text);
    assert_non_null(config);
    cJSON_AddItemToArray(f->configs, config);
    f->items[f->shards.count++] = shards_item_of(config);
}

static void add_root(struct fixture *f)
{
    add_config(f, "{\"metadata\":{\"name\":\"op\",\"namespace\":\"demo\",\"uid\":\"root-1\"},"
                  "\"spec\":{\"root\":{\"prefix\":\"op\",\"targetDeployment\":\"op\"}}}");
}

static void add_child_of(struct fixture *f, const char *root_uid, const char *name,
                         const char *annotations)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"demo\",\"uid\":\"uid-%s\","
                   "\"ownerReferences\":[{\"uid\":\"%s\",\"controller\":true}],"
                   "\"annotations\":{%s}},\"spec\":{\"selector\":{\"matchLabels\":{\"" PREFIX
                   "/shard\":\"%s\"}}}}",
                   name, name, root_uid, annotations, name);
    add_config(f, text);
}

static void add_child(struct fixture *f, const char *name, unsigned wanted)
{
    char annotations[128];
    (void)snprintf(annotations, sizeof annotations, "\"" PREFIX "/auto-sharding-pods\":\"%u\"",
                   wanted);
    add_child_of(f, "root-1", name, annotations);
}

static struct seen_pod *see(struct fixture *f, const char *shard, const char *set,
                            struct pod_place place)
{
    struct seen_pod *p = &f->pods[f->pod_count++];
    *p = (struct seen_pod){.shard = shard, .pod = {.place = place, .lives = true}};
    (void)snprintf(p->owner, sizeof p->owner, "%s", set);
    assigner_see(f->assigner, &place);
    return p;
}

/* The pod of a ReplicaSet whose uid is its hash. */
static cJSON *make_pod(const char *deployment, const char *hash, const char *more)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"generateName\":\"%s-%s-\",\"labels\":{\"pod-template-hash\":"
                   "\"%s\"},\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":"
                   "\"ReplicaSet\",\"name\":\"%s-%s\",\"uid\":\"%s\",\"controller\":true}]}}",
                   deployment, hash, hash, deployment, hash, hash);
    cJSON *pod = cJSON_Parse(text);
    cJSON *extra = cJSON_Parse(more);
    cJSON *metadata = cJSON_GetObjectItem(pod, "metadata");
    assert_non_null(pod);
    for (const cJSON *field = extra == NULL ? NULL : extra->child; field != NULL;
         field = field->next) {
        cJSON *to = cJSON_GetObjectItem(metadata, field->string);
        if (to == NULL || !cJSON_IsObject(field)) {
            cJSON_DeleteItemFromObject(metadata, field->string);
            cJSON_AddItemToObject(metadata, field->string, cJSON_Duplicate(field, true));
            continue;
        }
        const cJSON *entry;
        cJSON_ArrayForEach(entry, field)
        {
            cJSON_DeleteItemFromObject(to, entry->string);
            cJSON_AddItemToObject(to, entry->string, cJSON_Duplicate(entry, true));
        }
    }
    cJSON_Delete(extra);
    return pod;
}

static int ask(struct fixture *f, cJSON *pod, bool dry_run)
{
    const struct assigner_view view = {.shards = &f->shards,
                                       .pods_of = pods_of,
                                       .data = f,
                                       .prefix = PREFIX,
                                       .from_back = f->from_back};
    const struct admission_request r = {.namespace = "demo", .object = pod, .dry_run = dry_run};
    warnings_deinit(&f->warnings);
    f->e = (struct err)ERR_INIT;
    int rc = assigner_choose(f->assigner, &r, &view, &f->choice, &f->warnings, &f->e);
    if (rc == 0 && f->choice.config != NULL) {
        assigner_keep(f->assigner, &r, &f->choice);
    }
    cJSON_Delete(pod);
    return rc;
}

/* The shard that a pod of that ReplicaSet gets; "": none. */
static const char *choose(struct fixture *f, const char *set)
{
    return ask(f, make_pod("op", set, ""), false) != 0 || f->choice.config == NULL
               ? ""
               : shards_name(f->choice.config);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->clock = (struct net_clock){.now = now, .random = random_number, .data = f};
    f->now = 1000000;
    f->assigner = assigner_new(&f->clock);
    f->configs = cJSON_CreateArray();
    f->shards.items = f->items;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assigner_free(f->assigner);
    warnings_deinit(&f->warnings);
    cJSON_Delete(f->configs);
    free(f);
    return 0;
}

static void three(struct fixture *f)
{
    add_root(f);
    add_child(f, "op-0-canary", 1);
    add_child(f, "op-1-normal", 2);
    add_child(f, "op-2-normal", 2);
}

static void test_whose_pods(void **state)
{
    static const struct {
        const char *what;
        const char *deployment;
        const char *more;
        bool want;
    } cases[] = {
        {"of the Deployment", "op", "", true},
        {"of another", "op2", "", false},
        {"of one whose name begins so", "op-x", "", false},
        {"of nobody", "op", "{\"ownerReferences\":[]}", false},
        {"nobody controls it", "op",
         "{\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":"
         "\"op-1\",\"uid\":\"1\"}]}",
         false},
        {"of a StatefulSet", "op",
         "{\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"StatefulSet\",\"name\":"
         "\"op-1\",\"uid\":\"1\",\"controller\":true}]}",
         false},
        {"of a ReplicaSet of somebody else's kind", "op",
         "{\"ownerReferences\":[{\"apiVersion\":\"apps.example.com/v1\",\"kind\":\"ReplicaSet\","
         "\"name\":\"op-1\",\"uid\":\"1\",\"controller\":true}]}",
         false},
        {"of a ReplicaSet of no Deployment", "op", "{\"labels\":{\"pod-template-hash\":\"other\"}}",
         false},
        {"without the hash", "op", "{\"labels\":{\"pod-template-hash\":\"\"}}", false},
        {"injected by another webhook", "op",
         "{\"annotations\":{\"" PREFIX "/sharding-config-injected\":\"op-1-normal\"}}", false},
    };
    struct fixture *f = *state;
    three(f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(ask(f, make_pod(cases[i].deployment, "1", cases[i].more), false), 0);
        if ((f->choice.config != NULL) != cases[i].want) {
            fail_msg("%s", cases[i].what);
        }
    }
}

static void test_remembers_what_is_not_seen(void **state)
{
    struct fixture *f = *state;
    three(f);
    assert_string_equal(choose(f, "1"), "op-0-canary");
    struct pod_place canary = f->choice.place;
    assert_int_equal(canary.rank, 1);
    assert_string_equal(choose(f, "1"), "op-1-normal");
    struct pod_place normal = f->choice.place;
    assert_true(normal.mark != canary.mark);
    see(f, "op-1-normal", "1", normal); /* counts once */
    assert_string_equal(choose(f, "1"), "op-2-normal");
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assert_int_equal(f->choice.place.rank, 2);
    f->now += ASSIGNMENTS_MS; /* the others have not come */
    assert_string_equal(choose(f, "1"), "op-0-canary");
}

static void test_dry_runs_are_not_remembered(void **state)
{
    struct fixture *f = *state;
    three(f);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask(f, make_pod("op", "1", ""), true), 0);
        assert_string_equal(shards_name(f->choice.config), "op-0-canary");
    }
}

static void test_revisions_and_pods_that_end(void **state)
{
    struct fixture *f = *state;
    three(f);
    see(f, "op-0-canary", "old", (struct pod_place){.rank = 1});
    see(f, "op-1-normal", "old", (struct pod_place){.rank = 1});
    see(f, "op-2-normal", "old", (struct pod_place){.rank = 1})->pod.lives = false;
    assert_string_equal(choose(f, "new"), "op-2-normal");
    assert_string_equal(choose(f, "new"), "op-0-canary");
    assert_string_equal(choose(f, "new"), "op-1-normal");
    assert_int_equal(f->choice.place.rank, 1);
}

static void test_from_the_back(void **state)
{
    struct fixture *f = *state;
    three(f);
    f->from_back = true;
    assert_string_equal(choose(f, "1"), "op-2-normal");
    assert_int_equal(f->choice.place.rank, 2);
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assert_string_equal(choose(f, "1"), "op-2-normal"); /* the canary is left to the front */
}

static void test_other_children(void **state)
{
    struct fixture *f = *state;
    add_root(f);
    add_child_of(f, "another", "op-0-canary", "\"" PREFIX "/auto-sharding-pods\":\"1\"");
    add_child_of(f, "root-1", "op-1-normal", "");
    add_child_of(f, "root-1", "by-hand", "\"" PREFIX "/auto-sharding-pods\":\"1\"");
    add_child_of(f, "root-1", "op-3-normal",
                 "\"" PREFIX "/auto-sharding-pods\":\"1\",\"" PREFIX
                 "/auto-sharding-leaving\":\"true\"");
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    assert_non_null(strstr(f->e.msg, "shards of Deployment \"op\" have not all been made yet"));
    assert_non_null(strstr(f->e.msg, "kubectl get shardingconfigs")); /* it may be disabled */
    add_child(f, "op-2-normal", 1);
    assert_string_equal(choose(f, "1"), "op-2-normal");
}

/* Webhooks know of roots in the order in which each heard of them. */
static void test_two_roots(void **state)
{
    static const char *const roots[] = {
        "{\"metadata\":{\"name\":\"a\",\"uid\":\"root-2\",\"creationTimestamp\":"
        "\"2026-01-02T00:00:00Z\"},"
        "\"spec\":{\"root\":{\"prefix\":\"a\",\"targetDeployment\":\"op\"}}}",
        "{\"metadata\":{\"name\":\"op\",\"uid\":\"root-1\",\"creationTimestamp\":"
        "\"2026-01-01T00:00:00Z\"},"
        "\"spec\":{\"root\":{\"prefix\":\"op\",\"targetDeployment\":\"op\"}}}",
    };
    struct fixture *f = *state;
    for (size_t first = 0; first < 2; first++) {
        f->shards.count = 0;
        add_config(f, roots[first]);
        add_config(f, roots[1 - first]);
        add_child_of(f, "root-2", "a-1-normal", "\"" PREFIX "/auto-sharding-pods\":\"4\"");
        add_child(f, "op-1-normal", 4);
        assert_string_equal(choose(f, "1"), "op-1-normal");
    }
}

static void test_shards_that_are_being_made(void **state)
{
    struct fixture *f = *state;
    three(f);
    f->items[2].sized_ms = f->now - ASSIGNER_SETTLE_MS;
    assert_string_equal(choose(f, "1"), "op-0-canary");
    f->items[3].sized_ms = f->now - ASSIGNER_SETTLE_MS + 1;
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    assert_non_null(strstr(f->e.msg, "have not all been made yet"));
    f->now++;
    assert_string_equal(choose(f, "1"), "op-1-normal");
}

static void test_patience(void **state)
{
    struct fixture *f = *state;
    add_root(f);
    add_child(f, "op-1-normal", 1);
    see(f, "op-1-normal", "1", (struct pod_place){.rank = 1});
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    assert_non_null(strstr(f->e.msg, "has all its pods"));
    f->now += ASSIGNER_PATIENCE_MS - 1;
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    f->now += 1;
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assert_int_equal(f->choice.place.rank, 2);
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assert_string_equal(choose(f, "2"), "op-1-normal"); /* another one has a place */
    assert_int_equal(ask(f, make_pod("op", "2", ""), false), -ENOENT);
    f->now += 3600000; /* nobody has waited since */
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    add_child(f, "op-2-normal", 1);
    assert_string_equal(choose(f, "1"), "op-2-normal");
}

static void test_patience_ends_with_a_place(void **state)
{
    struct fixture *f = *state;
    add_root(f);
    add_child(f, "op-1-normal", 1);
    struct seen_pod *p = see(f, "op-1-normal", "1", (struct pod_place){.rank = 1});
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    p->pod.lives = false;
    f->now += ASSIGNER_PATIENCE_MS;
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assert_int_equal(f->choice.place.rank, 1);
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
}

static void test_many_wait(void **state)
{
    struct fixture *f = *state;
    char set[16];
    add_root(f);
    add_child(f, "op-1-normal", 1);
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(set, sizeof set, "set%u", i);
        see(f, "op-1-normal", set, (struct pod_place){.rank = 1});
        assert_int_equal(ask(f, make_pod("op", set, ""), false), -ENOENT);
        f->now++;
    }
    f->now += ASSIGNER_PATIENCE_MS;
    assert_string_equal(choose(f, set), "op-1-normal");
    assert_int_equal(ask(f, make_pod("op", "set0", ""), false), -ENOENT); /* it was forgotten */
}

static void test_a_label_is_replaced(void **state)
{
    struct fixture *f = *state;
    three(f);
    assert_int_equal(
        ask(f, make_pod("op", "1", "{\"labels\":{\"" PREFIX "/shard\":\"mine\"}}"), false), 0);
    assert_int_equal(f->warnings.count, 1);
    assert_non_null(strstr(f->warnings.items[0],
                           "metadata.labels[" PREFIX
                           "/shard]: \"mine\" is replaced by \"op-0-canary\""));
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assert_int_equal(f->warnings.count, 0);
}

static void test_metrics(void **state)
{
    struct fixture *f = *state;
    struct buf out = BUF_INIT(4096);
    add_root(f);
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    add_child(f, "op-1-normal", 1);
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assert_int_equal(ask(f, make_pod("op", "1", ""), false), -ENOENT);
    see(f, "op-1-normal", "1", f->choice.place);
    f->now += ASSIGNER_PATIENCE_MS;
    assert_string_equal(choose(f, "1"), "op-1-normal");
    assigner_metrics(f->assigner, &out);
    const char *text = buf_cstr(&out);
    assert_non_null(strstr(text, "cmesh_webhook_assignments_total{result=\"assigned\"} 2\n"));
    assert_non_null(strstr(text, "cmesh_webhook_assignments_total{result=\"beyond\"} 1\n"));
    assert_non_null(strstr(text, "cmesh_webhook_assignments_total{result=\"no_place\"} 1\n"));
    assert_non_null(strstr(text, "cmesh_webhook_assignments_total{result=\"no_shard\"} 1\n"));
    buf_reset(&out);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_whose_pods),
        TEST(test_remembers_what_is_not_seen),
        TEST(test_dry_runs_are_not_remembered),
        TEST(test_revisions_and_pods_that_end),
        TEST(test_from_the_back),
        TEST(test_other_children),
        TEST(test_two_roots),
        TEST(test_shards_that_are_being_made),
        TEST(test_patience),
        TEST(test_patience_ends_with_a_place),
        TEST(test_many_wait),
        TEST(test_a_label_is_replaced),
        TEST(test_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
