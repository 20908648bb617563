/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/pod_selection.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SHARDS = 12, PODS = 60 };

struct shard {
    struct pod_selection_shard shard;
    struct selector *selector;
};

struct entry {
    struct pod_selection_pod member;
    struct pod *pod;
};

struct yard {
    struct pod_selection members;
    struct shard shards[SHARDS];
    struct entry pods[PODS];
};

static const struct pod_keys keys = {
    .generation = "g", .traffic = "t", .injected = "i", .allow_bypass = "b", .let_go = "l"};

static struct pod *make_pod(const char *labels)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"labels\":{%s}}}", labels);
    cJSON *tree = cJSON_Parse(text);
    struct pod *p = pod_new(0, tree, &keys);
    cJSON_Delete(tree);
    return p;
}

static void open_yard(struct yard *y)
{
    *y = (struct yard){.shards = {{.selector = NULL}}};
    pod_selection_init(&y->members);
    for (size_t i = 0; i < SHARDS; i++) {
        pod_selection_shard_init(&y->shards[i].shard);
    }
    for (size_t i = 0; i < PODS; i++) {
        pod_selection_pod_init(&y->pods[i].member);
    }
}

static void close_yard(struct yard *y)
{
    for (size_t i = 0; i < SHARDS; i++) {
        pod_selection_remove(&y->members, &y->shards[i].shard);
        selector_free(y->shards[i].selector);
    }
    for (size_t i = 0; i < PODS; i++) {
        assert_int_equal(y->pods[i].member.shard_count, 0);
        free(y->pods[i].pod);
    }
    pod_selection_deinit(&y->members);
}

static void set_shard(struct yard *y, size_t i, const char *selector)
{
    struct shard *s = &y->shards[i];
    pod_selection_remove(&y->members, &s->shard);
    selector_free(s->selector);
    s->selector = selector_parse(slice_str(selector), NULL);
    assert_non_null(s->selector);
    pod_selection_add(&y->members, &s->shard, s->selector);
    for (size_t p = 0; p < PODS; p++) {
        if (y->pods[p].pod != NULL) {
            pod_selection_join(&s->shard, &y->pods[p].member, y->pods[p].pod);
        }
    }
}

static void set_pod(struct yard *y, size_t i, const char *labels)
{
    free(y->pods[i].pod);
    y->pods[i].pod = make_pod(labels);
    pod_selection_place(&y->members, &y->pods[i].member, y->pods[i].pod);
}

static bool is_member(const struct pod_selection_shard *s, const struct pod_selection_pod *p)
{
    LIST_FOR_EACH(n, &s->pods)
    {
        if (LIST_ITEM(n, struct member, of_shard)->pod == p) {
            return true;
        }
    }
    return false;
}

/* What the index says is what each selector says of each pod. */
static void check(const struct yard *y)
{
    for (size_t i = 0; i < SHARDS; i++) {
        const struct shard *s = &y->shards[i];
        size_t count = 0;
        for (size_t p = 0; p < PODS; p++) {
            bool selected = s->shard.selector != NULL && y->pods[p].pod != NULL &&
                            pod_selected(y->pods[p].pod, s->selector);
            assert_int_equal(is_member(&s->shard, &y->pods[p].member), selected);
            count += selected;
        }
        assert_int_equal(s->shard.pod_count, count);
    }
}

static void test_kinds_of_selectors(void **state)
{
    struct yard y;
    (void)state;
    open_yard(&y);
    set_shard(&y, 0, "app=op,shard=a");
    set_shard(&y, 1, "app=op,shard in (b,c)");
    set_shard(&y, 2, "shard,!canary"); /* no label finds it */
    set_shard(&y, 3, "shard notin (a)");
    set_shard(&y, 4, "k,!k");
    set_pod(&y, 0, "\"app\":\"op\",\"shard\":\"a\"");
    set_pod(&y, 1, "\"app\":\"op\",\"shard\":\"c\",\"canary\":\"\"");
    set_pod(&y, 2, "");
    check(&y);
    assert_int_equal(y.pods[0].member.shard_count, 2);
    assert_int_equal(y.pods[1].member.shard_count, 2);
    assert_int_equal(y.pods[2].member.shard_count, 1);
    set_pod(&y, 0, "\"app\":\"op\",\"shard\":\"b\"");
    check(&y);
    pod_selection_leave(&y.pods[0].member);
    assert_int_equal(y.pods[0].member.shard_count, 0);
    pod_selection_place(&y.members, &y.pods[0].member, y.pods[0].pod);
    check(&y);
    close_yard(&y);
}

static void test_at_random(void **state)
{
    static const char *const ops[] = {"a=%u",   "b=%u,a=%u", "a in (%u,%u)",    "a!=%u",
                                      "a,b=%u", "!a",        "b notin (%u,%u)", "a=%u,b in (%u,1)"};
    struct yard y;
    unsigned random = 12345;
    (void)state;
    open_yard(&y);
    for (int round = 0; round < 2000; round++) {
        char text[128];
        random = random * 1103515245u + 12345u;
        unsigned r = random >> 8;
        unsigned a = r % 4;
        unsigned b = r / 4 % 4;
        if (r / 16 % 3 == 0) {
/* The arguments that a format does not name are not looked at. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
            (void)snprintf(text, sizeof text, ops[r / 48 % 8], a, b);
#pragma GCC diagnostic pop
            set_shard(&y, r / 384 % SHARDS, text);
        } else {
            (void)snprintf(text, sizeof text, "\"a\":\"%u\",\"b\":\"%u\"", a, b);
            set_pod(&y, r / 384 % PODS, r / 48 % 5 == 0 ? "" : text);
        }
        if (round % 20 == 0) {
            check(&y);
        }
    }
    check(&y);
    close_yard(&y);
}

/* A thousand shards that are told apart by one label among several: a pod meets its own only. */
static void test_anchors_are_spread(void **state)
{
    static struct pod_selection_shard shards[1000];
    static struct selector *selectors[1000];
    struct pod_selection m;
    (void)state;
    pod_selection_init(&m);
    for (unsigned i = 0; i < 1000; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "app=op,shard=s%u,zone=z", i);
        selectors[i] = selector_parse(slice_str(text), NULL);
        pod_selection_shard_init(&shards[i]);
        pod_selection_add(&m, &shards[i], selectors[i]);
    }
    assert_true(m.anchors.count >= 998); /* hardly any two under one label */
    for (unsigned i = 0; i < 1000; i++) {
        pod_selection_remove(&m, &shards[i]);
        selector_free(selectors[i]);
    }
    assert_int_equal(m.anchors.count, 0);
    pod_selection_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_selectors),
        cmocka_unit_test(test_at_random),
        cmocka_unit_test(test_anchors_are_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
