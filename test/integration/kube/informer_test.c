/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an informer keeps of the pods of an API server in the same process, and what it tells.
 */
#include "kube/client/informer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "storing_api.h"
#include "json/field.h"

struct pod {
    struct informer_item item;
    char color[16];
};

struct user {
    struct storing_api store;
    struct reflector_ops ops;
    uint64_t pause_ms; /* the last one that was asked for */
    struct informer *informer;
    char log[512];
    size_t pods;
};

static const char *color_of(const cJSON *object)
{
    return field_text(field_get(field_get(object, "metadata"), "labels"), "color");
}

/* "in-place" changes the item, "none" is not kept, another color makes another item; before "other"
 * the old one is removed. */
static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct user *u = data;
    struct pod *old = (struct pod *)(void *)*item;
    const char *color = color_of(object);
    if (strcmp(color, "none") == 0) {
        *item = NULL;
        return false;
    }
    if (old != NULL && strcmp(old->color, color) == 0) {
        return false;
    }
    if (old != NULL && strcmp(color, "other") == 0) {
        informer_remove(u->informer, *item);
        *item = NULL;
    }
    struct pod *p = strcmp(color, "in-place") == 0 && old != NULL ? old : NULL;
    if (p == NULL) {
        p = informer_item_new(sizeof *p, key);
        u->pods++;
    }
    (void)snprintf(p->color, sizeof p->color, "%s", color);
    *item = &p->item;
    return true;
}

static void drop(void *data, struct informer_item *item)
{
    ((struct user *)data)->pods--;
    free(item);
}

static void note(struct user *u, const char *text)
{
    size_t len = strlen(u->log);
    (void)snprintf(u->log + len, sizeof u->log - len, "%s ", text);
}

static const char *text_of(const struct informer_item *item)
{
    return item == NULL ? "-" : ((const struct pod *)(const void *)item)->color;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    struct user *u = data;
    char text[128];
    const struct informer_item *any = after != NULL ? after : before;
    assert_ptr_equal(informer_find(u->informer, any->node.key), after);
    (void)snprintf(text, sizeof text, "%s:%s>%s", any->node.key, text_of(before), text_of(after));
    note(u, text);
    if (after != NULL && strcmp(text_of(after), "unwanted") == 0) {
        informer_remove(u->informer, after);
    }
}

static void on_synced(void *data, bool first)
{
    note(data, first ? "first" : "synced");
}

static void on_state(void *data, const char *error)
{
    note(data, error != NULL ? "error" : "fine");
}

static const struct informer_kind kind = {.path = "/api/v1/pods",
                                          .metadata_only = true,
                                          .keep = keep,
                                          .drop = drop,
                                          .on_change = on_change,
                                          .on_synced = on_synced,
                                          .on_state = on_state};

static void set_pause(void *data, struct net_deadline *d, uint64_t ms)
{
    struct user *u = data;
    u->pause_ms = ms;
    u->store.ops.set_deadline(u->store.ops.data, d, ms);
}

static uint32_t take_random(void *data)
{
    const struct user *u = data;
    return u->store.ops.random(u->store.ops.data);
}

static struct informer *open_informer(struct user *u, const struct informer_kind *k,
                                      struct informer_options o)
{
    o.client = u->store.api.client;
    u->ops = (struct reflector_ops){set_pause, take_random, u};
    o.ops = &u->ops;
    u->informer = informer_new(u->store.api.loop, k, &o, u);
    return u->informer;
}

static int setup(void **state)
{
    return store_setup(state, sizeof(struct user));
}

static int teardown(void **state)
{
    struct user *u = *state;
    informer_free(u->informer);
    assert_int_equal(u->pods, 0);
    return store_teardown(state);
}

static void put(struct user *u, const char *ns, const char *name, const char *color)
{
    store_put_text(&u->store, "pods", ns,
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"color\":\"%s\"}}}", name, color);
}

/* What was told since the last time. */
static void expect(struct user *u, const char *log)
{
    store_settle(&u->store);
    assert_string_equal(u->log, log);
    u->log[0] = '\0';
}

static void follow(struct user *u)
{
    put(u, "n", "a", "red");
    assert_non_null(open_informer(u, &kind, (struct informer_options){0}));
    assert_false(informer_synced(u->informer));
    expect(u, "n/a:->red first ");
    assert_true(informer_synced(u->informer));
}

static void test_each_change_is_told(void **state)
{
    struct user *u = *state;
    follow(u);
    put(u, "n", "b", "blue");
    put(u, "n", "a", "red"); /* as it was */
    expect(u, "n/b:->blue ");
    put(u, "n", "a", "green");
    expect(u, "n/a:red>green ");
    put(u, "n", "a", "in-place");
    expect(u, "n/a:in-place>in-place ");
    put(u, "n", "a", "none");
    expect(u, "n/a:in-place>- ");
    put(u, "n", "a", "none");
    expect(u, "");
    assert_int_equal(informer_size(u->informer), 1);
    store_delete(&u->store, "pods", "n", "a"); /* is not kept */
    store_delete(&u->store, "pods", "n", "b");
    expect(u, "n/b:blue>- ");
    assert_null(informer_next(u->informer, NULL));
    put(u, "n", "c", "unwanted");
    expect(u, "n/c:->unwanted n/c:unwanted>- ");
    assert_int_equal(informer_size(u->informer), 0);
}

/* The end of one is told whole before another one comes. */
static void test_one_is_replaced_by_another(void **state)
{
    struct user *u = *state;
    put(u, "n", "a", "red");
    assert_non_null(open_informer(u, &kind, (struct informer_options){0}));
    expect(u, "n/a:->red first ");
    put(u, "n", "a", "other");
    expect(u, "n/a:red>- n/a:->other ");
    store_delete(&u->store, "pods", "n", "a");
    expect(u, "n/a:other>- ");
}

static void test_impossible_namespaces_are_passed_over(void **state)
{
    struct user *u = *state;
    follow(u);
    put(u, "n/../m", "a", "red");
    put(u, "n m", "a", "red");
    put(u, "", "a", "red");
    expect(u, "a:->red ");
}

static void test_nothing_is_asked_for_while_held(void **state)
{
    struct user *u = *state;
    put(u, "n", "a", "red");
    assert_non_null(open_informer(u, &kind, (struct informer_options){.held = true}));
    expect(u, "");
    assert_int_equal(u->store.lists, 0);
    informer_release(u->informer);
    expect(u, "n/a:->red first ");
}

static void test_what_a_list_does_not_show_is_dropped(void **state)
{
    struct user *u = *state;
    follow(u);
    put(u, "n", "b", "red");
    expect(u, "n/b:->red ");
    u->store.silent = true;
    store_delete(&u->store, "pods", "n", "a");
    put(u, "n", "b", "blue");
    store_settle(&u->store);
    u->store.silent = false;
    store_expire_watches(&u->store, "/pods");
    expect(u, "n/b:red>blue n/a:red>- synced ");
}

static void test_lists_again_when_asked_to(void **state)
{
    struct user *u = *state;
    follow(u);
    informer_list_again(u->informer, 30000);
    informer_list_again(u->informer, 5000);
    informer_list_again(u->informer, 10000); /* the soonest counts */
    assert_int_equal(u->pause_ms, 5000);
    expect(u, "synced ");
    assert_int_equal(u->store.lists, 2);
    assert_int_equal(reflector_stats(informer_reflector(u->informer))->lists[REFLECTOR_ASKED], 1);
}

static void test_says_what_keeps_it_from_following(void **state)
{
    struct user *u = *state;
    put(u, "n", "a", "red");
    u->store.refused.part = "/pods";
    u->store.refused.status = 403;
    assert_non_null(open_informer(u, &kind, (struct informer_options){0}));
    store_turn(&u->store, 20);
    assert_non_null(strstr(reflector_error(informer_reflector(u->informer)), "403"));
    assert_string_equal(u->log, "error ");
    u->store.refused.part = NULL;
    expect(u, "error n/a:->red first fine ");
}

static char *color_key(void *data, const cJSON *object)
{
    const char *color = color_of(object);
    (void)data;
    return color[0] == '\0' ? NULL : strdup(color);
}

static void test_a_part_under_other_keys(void **state)
{
    struct user *u = *state;
    struct informer_kind other = kind;
    struct table items = {0};
    other.key = color_key;
    put(u, "n", "a", "red");
    put(u, "n", "b", "");
    put(u, "m", "c", "blue");
    assert_non_null(
        open_informer(u, &other, (struct informer_options){.namespace = "n", .items = &items}));
    expect(u, "red:->red first ");
    assert_int_equal(items.count, 1);
    informer_free(u->informer);
    assert_non_null(open_informer(u, &kind, (struct informer_options){.name = "c"}));
    expect(u, "m/c:->blue first ");
    informer_free(u->informer);
    const struct informer_options labelled = {.label_selector = "color=red"};
    assert_non_null(open_informer(u, &kind, labelled));
    expect(u, "n/a:->red first ");
}

static void test_freed_at_any_moment(void **state)
{
    struct user *u = *state;
    put(u, "n", "a", "red");
    for (uint64_t ms = 0; ms < 10; ms++) {
        assert_non_null(open_informer(u, &kind, (struct informer_options){0}));
        store_turn(&u->store, ms);
        informer_free(u->informer);
        u->informer = NULL;
    }
    informer_free(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_each_change_is_told),
        TEST(test_one_is_replaced_by_another),
        TEST(test_impossible_namespaces_are_passed_over),
        TEST(test_nothing_is_asked_for_while_held),
        TEST(test_what_a_list_does_not_show_is_dropped),
        TEST(test_lists_again_when_asked_to),
        TEST(test_says_what_keeps_it_from_following),
        TEST(test_a_part_under_other_keys),
        TEST(test_freed_at_any_moment),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
