/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_status.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "object/conditions.h"
#include "json/field.h"

#define NOW INT64_C(1767225600000)
#define OLD "2025-05-05T00:00:00Z"

#define STATUS(ready, reason, more)                                                                \
    "{\"enforced\":\"2/2\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"" ready                \
    "\",\"reason\":\"" reason "\",\"message\":\"because\"}" more "]}"

struct made {
    cJSON *root;
    cJSON *status;
    cJSON *children[3];
    struct root_status_result result;
};

static const char *const fine = STATUS("True", "Enforced", "");

/* A canary and two shards of two pods each. `texts`: their children's status; NULL: none yet. */
static struct made make_of(struct root_status_facts f, struct root_status_shard shards[3],
                           const char *const texts[3], const char *old)
{
    struct made m = {.root = cJSON_Parse("{\"metadata\":{\"generation\":4}}")};
    if (old != NULL) {
        assert_true(cJSON_AddItemToObject(m.root, "status", cJSON_Parse(old)));
    }
    for (size_t i = 0; i < 3; i++) {
        m.children[i] = texts[i] == NULL ? NULL : cJSON_Parse(texts[i]);
        shards[i].status = m.children[i];
    }
    f.root = m.root;
    f.shards = shards;
    f.now_ms = NOW;
    m.status = root_status_make(&f, &m.result);
    return m;
}

static void made_free(struct made *m)
{
    cJSON_Delete(m->root);
    cJSON_Delete(m->status);
    for (size_t i = 0; i < 3; i++) {
        cJSON_Delete(m->children[i]);
    }
}

static struct root_status_facts facts(void)
{
    return (struct root_status_facts){.target_name = "op",
                                      .target = {.state = TARGET_FOUND, .replicas = 6},
                                      .size = 2,
                                      .needed = 6,
                                      .room = 6,
                                      .count = 3};
}

static void set_shards(struct root_status_shard shards[3])
{
    static const char *const names[] = {"x-0-canary", "x-1-normal", "x-2-normal"};
    for (unsigned i = 0; i < 3; i++) {
        shards[i] = (struct root_status_shard){
            .name = names[i],
            .exists = true,
            .observed = true,
            .normal = i > 0,
            .first = 2 * i,
            .wanted = 2,
            .pods = 2,
            .ready = 2,
            .buckets = i == 0   ? 0
                       : i == 1 ? 0xffff
                                : 0xffff0000,
        };
    }
}

static void expect(const struct made *m, const char *type, const char *status, const char *reason,
                   const char *part)
{
    const cJSON *c = conditions_find(m->status, type);
    assert_non_null(m->status);
    assert_string_equal(field_text(c, "status"), status);
    assert_string_equal(field_text(c, "reason"), reason);
    if (strstr(field_text(c, "message"), part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, field_text(c, "message"));
    }
}

static void test_all_is_well(void **state)
{
    struct root_status_shard shards[3];
    const char *const texts[] = {fine, fine, fine};
    (void)state;
    set_shards(shards);
    struct made m = make_of(facts(), shards, texts, NULL);
    expect(&m, "Compiled", "True", "Valid", "valid");
    expect(&m, "Sized", "True", "Sized", "StatefulSet op has 6 replicas; 6 are needed.");
    expect(&m, "Conflict", "False", "NoConflict", "");
    expect(&m, "Ready", "True", "Enforced", "6 of 6 pods of 3 shards");
    assert_null(conditions_find(m.status, "Stalled"));
    assert_true(m.result.changed);
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(m.status, "root"));
    assert_string_equal(
        text, "{\"childShardingConfigs\":[\"x-0-canary\",\"x-1-normal\",\"x-2-normal\"],\"size\":2,"
              "\"shards\":[{\"name\":\"x-0-canary\",\"pods\":2,\"readyPods\":2},"
              "{\"name\":\"x-1-normal\",\"pods\":2,\"readyPods\":2,\"buckets\":\"0-15\"},"
              "{\"name\":\"x-2-normal\",\"pods\":2,\"readyPods\":2,\"buckets\":\"16-31\"}]}");
    cJSON_free(text);
    /* The same again says nothing new, at any time. */
    char *old = cJSON_PrintUnformatted(m.status);
    made_free(&m);
    m = make_of(facts(), shards, texts, old);
    assert_false(m.result.changed);
    made_free(&m);
    cJSON_free(old);
}

#define ROUTED(status, reason)                                                                     \
    STATUS("True", "Enforced",                                                                     \
           ",{\"type\":\"WebhookRouted\",\"status\":\"" status "\",\"reason\":\"" reason           \
           "\",\"message\":\"" reason ".\"}")

static void test_reviews_are_as_of_the_shards(void **state)
{
    struct root_status_shard shards[3];
    const char *const well[] = {ROUTED("True", "Routed"), ROUTED("True", "Routed"), NULL};
    const char *const ill[] = {ROUTED("True", "Routed"), ROUTED("False", "OldPods"),
                               ROUTED("False", "NoPods")};
    const char *const silent[] = {fine, fine, fine};
    (void)state;
    set_shards(shards);
    struct made m = make_of(facts(), shards, well, NULL);
    expect(&m, "WebhookRouted", "True", "Routed", "Reviews reach their shard of 2.");
    made_free(&m);
    m = make_of(facts(), shards, ill, NULL);
    expect(&m, "WebhookRouted", "False", "OldPods", "Shard x-1-normal: OldPods.");
    made_free(&m);
    m = make_of(facts(), shards, silent, NULL);
    assert_null(conditions_find(m.status, "WebhookRouted"));
    made_free(&m);
}

static void expect_ready(struct root_status_facts f, struct root_status_shard shards[3],
                         const char *const texts[3], const char *status, const char *reason,
                         bool stalled)
{
    struct made m = make_of(f, shards, texts, NULL);
    expect(&m, "Ready", status, reason, "");
    assert_int_equal(conditions_find(m.status, "Stalled") != NULL, stalled);
    made_free(&m);
}

/* What comes first is told. */
static void test_ready(void **state)
{
    static const char waits[] = "{\"enforced\":\"0/1\",\"conditions\":[{\"type\":\"Published\","
                                "\"status\":\"False\",\"reason\":\"WaitingForHandover\","
                                "\"message\":\"for x-1-normal\"}]}";
    struct root_status_shard shards[3];
    const char *texts[] = {fine, fine, fine};
    struct root_status_facts f = facts();
    (void)state;
    set_shards(shards);
    f.disabled = true;
    expect_ready(f, shards, texts, "True", "Disabled", false);
    f.disabled = false;
    texts[2] = STATUS("False", "Silent", "");
    expect_ready(f, shards, texts, "False", "Silent", false);
    texts[2] = STATUS("False", "NameTaken", ",{\"type\":\"Stalled\",\"status\":\"True\"}");
    expect_ready(f, shards, texts, "False", "NameTaken", true);
    texts[2] = "{}";
    expect_ready(f, shards, texts, "False", "Pending", false);
    shards[1].ready = 0;
    expect_ready(f, shards, texts, "False", "WaitingForPods", false);
    shards[1].leaving = true;
    expect_ready(f, shards, texts, "False", "Resizing", false);
    shards[1] = shards[2];
    texts[1] = waits;
    expect_ready(f, shards, texts, "False", "Resizing", false);
    texts[1] = fine;
    shards[1].observed = false;
    expect_ready(f, shards, texts, "False", "Resizing", false);
    f.under_way = true;
    expect_ready(f, shards, texts, "False", "Resizing", false);
    f.refused = "no";
    expect_ready(f, shards, texts, "False", "Refused", false);
    f.earlier = "x-1-normal";
    expect_ready(f, shards, texts, "False", "Conflict", false);
    f.foreign = "x-2-normal";
    expect_ready(f, shards, texts, "False", "Conflict", true);
    f.invalid_reason = "Invalid";
    f.invalid = "spec.root: wrong";
    expect_ready(f, shards, texts, "False", "Invalid", true);
}

static void test_sized(void **state)
{
    static const struct {
        struct target target;
        const char *status;
        const char *reason;
        const char *message;
    } cases[] = {
        {{TARGET_FOUND, 7, 0, false, false, ""},
         "False",
         "TooManyReplicas",
         "Pods from op-6 on are in no"},
        {{TARGET_FOUND, 7, 3, false, false, ""},
         "False",
         "TooManyReplicas",
         "Pods from op-9 on are in no"},
        {{TARGET_FOUND, 5, 0, false, false, ""},
         "False",
         "TooFewReplicas",
         "op has 5 replicas; 6 are needed."},
        {{TARGET_FOUND, 1, 0, false, false, ""},
         "False",
         "TooFewReplicas",
         "Without pods: x-1-normal, x-2-no"},
        {{TARGET_ABSENT, 0, 0, false, false, ""}, "False", "NotFound", "no StatefulSet op"},
        {{TARGET_UNKNOWN, 0, 0, false, false, "403 Forbidden"},
         "Unknown",
         "Unreadable",
         "403 Forbidden"},
        {{TARGET_OVER, 0, 0, false, false, ""}, "Unknown", "TooMany", "It need not be."},
        {{TARGET_ASKED, 0, 0, false, false, ""}, "Unknown", "Pending", "is being read"},
    };
    struct root_status_shard shards[3];
    const char *const texts[] = {fine, fine, fine};
    (void)state;
    set_shards(shards);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct root_status_facts f = facts();
        f.target = cases[i].target;
        f.foreign_pods = "op-3";
        struct made m = make_of(f, shards, texts, NULL);
        expect(&m, "Sized", cases[i].status, cases[i].reason, cases[i].message);
        expect(&m, "Sized", cases[i].status, cases[i].reason, "another shard: op-3.");
        assert_int_equal(m.result.sized, cases[i].target.state >= TARGET_OVER ||
                                             cases[i].target.state == TARGET_ASKED);
        made_free(&m);
    }
    struct root_status_facts f = facts();
    f.target.state = TARGET_ASKED; /* what was known stands */
    struct made m = make_of(f, shards, texts,
                            "{\"conditions\":[{\"type\":\"Sized\",\"status\":\"True\",\"reason\":"
                            "\"Sized\",\"message\":\"was\",\"lastTransitionTime\":\"" OLD "\"}]}");
    expect(&m, "Sized", "True", "Sized", "was");
    made_free(&m);
}

/* Pods that are recreated before there is the canary leave a shard without any. */
static void test_pods_of_a_canary_that_there_is_not(void **state)
{
    struct root_status_shard shards[3];
    struct root_status_facts f = facts();
    const char *const texts[] = {fine, fine, fine};
    (void)state;
    set_shards(shards);
    f.foreign_pods = "op-3";
    f.canary_barred = true;
    struct made m = make_of(f, shards, texts, NULL);
    expect(&m, "Sized", "True", "Sized",
           "another shard when the canary is there, not before: op-3.");
    made_free(&m);
}

/* Names may be as long as Kubernetes allows. */
static void test_long_names(void **state)
{
    enum { NAME = 253, FOREIGN = 2046 };
    static char name[NAME + 1];
    static char foreign[FOREIGN + 1];
    struct root_status_shard shards[6];
    struct root_status_facts f = facts();
    cJSON *root = cJSON_CreateObject();
    (void)state;
    memset(name, 'a', NAME);
    memset(foreign, 'b', FOREIGN);
    for (unsigned i = 0; i < ARRAY_LEN(shards); i++) {
        shards[i] = (struct root_status_shard){.name = name, .wanted = 1, .normal = true};
    }
    f.root = root;
    f.target_name = name;
    f.target.replicas = 0;
    f.foreign_pods = foreign;
    f.shards = shards;
    f.count = ARRAY_LEN(shards);
    f.now_ms = NOW;
    struct made m = {.root = root};
    m.status = root_status_make(&f, &m.result);
    expect(&m, "Sized", "False", "TooFewReplicas", foreign);
    expect(&m, "Sized", "False", "TooFewReplicas", " and 1 more.");
    made_free(&m);
}

/* Why no pods come, and why there are not as many shards as pods, is what STATE says. */
static void test_without_a_statefulset(void **state)
{
    struct root_status_shard shards[3];
    struct root_status_facts f = facts();
    const char *const texts[] = {fine, fine, fine};
    (void)state;
    set_shards(shards);
    f.target = (struct target){.state = TARGET_ABSENT};
    struct made m = make_of(f, shards, texts, NULL);
    expect(&m, "Ready", "True", "Enforced", "");
    assert_true(m.result.ready);
    assert_string_equal(m.result.reason, "Enforced");
    made_free(&m);
    shards[1].ready = 0;
    m = make_of(f, shards, texts, NULL);
    expect(&m, "Ready", "False", "StatefulSetNotFound",
           "x-1-normal has no ready pod. There is no StatefulSet op: create it");
    assert_null(conditions_find(m.status, "Stalled"));
    assert_false(m.result.ready);
    assert_string_equal(m.result.reason, "StatefulSetNotFound");
    made_free(&m);
    shards[1].ready = 2;
    f.target.state = TARGET_OVER;
    m = make_of(f, shards, texts, NULL);
    expect(&m, "Ready", "True", "Enforced", "");
    expect(&m, "Sized", "Unknown", "TooMany", "is not followed");
    made_free(&m);
    f.elastic = true;
    m = make_of(f, shards, texts, NULL);
    expect(&m, "Sized", "Unknown", "TooMany", "Give roots a number as shardingSize");
    expect(&m, "Ready", "False", "TooManyStatefulSets", "raise --root-statefulsets");
    assert_non_null(conditions_find(m.status, "Stalled"));
    made_free(&m);
}

/* Its shards take all the pods that there are. */
static void test_of_a_deployment(void **state)
{
    struct root_status_shard shards[3];
    struct root_status_facts f = facts();
    const char *const texts[] = {fine, fine, fine};
    (void)state;
    set_shards(shards);
    f.deployment = true;
    f.room = UINT_MAX;
    f.target.replicas = 5;
    struct made m = make_of(f, shards, texts, NULL);
    expect(&m, "Sized", "False", "TooFewReplicas", "Deployment op has 5 replicas; 6 are needed.");
    made_free(&m);
    f.target.replicas = 50;
    m = make_of(f, shards, texts, NULL);
    expect(&m, "Sized", "True", "Sized", "Deployment op has 50 replicas; 6 are needed.");
    made_free(&m);
    f.target = (struct target){.state = TARGET_OVER};
    f.elastic = true;
    m = make_of(f, shards, texts, NULL);
    expect(&m, "Ready", "False", "TooManyDeployments", "do not follow Deployment op");
    made_free(&m);
    f.target = (struct target){.state = TARGET_ABSENT};
    shards[1].ready = 0;
    m = make_of(f, shards, texts, NULL);
    expect(&m, "Sized", "False", "NotFound", "There is no Deployment op.");
    expect(&m, "Ready", "False", "DeploymentNotFound", "or correct spec.root.targetDeployment.");
    made_free(&m);
}

static void test_invalid_keeps_what_was_told(void **state)
{
    struct root_status_shard shards[3];
    const char *const texts[] = {NULL, NULL, NULL};
    struct root_status_facts f = {.invalid_reason = "Invalid", .invalid = "spec.root: wrong"};
    (void)state;
    set_shards(shards);
    struct made m = make_of(f, shards, texts, "{\"root\":{\"size\":9}}");
    expect(&m, "Compiled", "False", "Invalid", "spec.root: wrong");
    assert_null(conditions_find(m.status, "Sized"));
    assert_string_equal(field_text(m.status, "enforced"), "");
    const cJSON *size = field_get(field_get(m.status, "root"), "size");
    assert_int_equal(size->valueint, 9);
    made_free(&m);
}

static void test_taken_over(void **state)
{
    struct root_status_shard shards[3];
    const char *const texts[] = {fine, "{\"enforced\":\"9/1\"}", "{\"enforced\":\"x\"}"};
    (void)state;
    set_shards(shards);
    shards[1].buckets = 0;
    shards[1].taken_over = true;
    shards[1].ready = 0;
    struct root_status_facts f = facts();
    f.drops_pod_names = true;
    struct made m = make_of(f, shards, texts, NULL);
    expect(&m, "Compiled", "True", "PodNamesIgnored", "ordinals");
    expect(&m, "Ready", "False", "WaitingForPods", "the others have its buckets");
    const cJSON *row = cJSON_GetArrayItem(field_get(field_get(m.status, "root"), "shards"), 1);
    assert_string_equal(field_text(row, "buckets"), "none");
    assert_true(cJSON_IsTrue(field_get(row, "takenOver")));
    assert_string_equal(field_text(m.status, "enforced"), "2/2");
    made_free(&m);
    shards[1].normal = false; /* so may be a canary */
    m = make_of(f, shards, texts, NULL);
    expect(&m, "Ready", "False", "WaitingForPods", "the others have its namespaces");
    row = cJSON_GetArrayItem(field_get(field_get(m.status, "root"), "shards"), 1);
    assert_null(field_get(row, "buckets"));
    assert_true(cJSON_IsTrue(field_get(row, "takenOver")));
    made_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_well),
        cmocka_unit_test(test_reviews_are_as_of_the_shards),
        cmocka_unit_test(test_without_a_statefulset),
        cmocka_unit_test(test_of_a_deployment),
        cmocka_unit_test(test_ready),
        cmocka_unit_test(test_sized),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_pods_of_a_canary_that_there_is_not),
        cmocka_unit_test(test_invalid_keeps_what_was_told),
        cmocka_unit_test(test_taken_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
