/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/namespace_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/slice.h"

/* `labels`: JSON of a map, or of nothing. */
static int put(struct namespace_set *s, const char *name, const char *labels)
{
    char text[256];
    struct namespace_entry *before = NULL;
    (void)snprintf(text, sizeof text, "{\"metadata\":{\"name\":\"%s\",\"labels\":%s}}", name,
                   labels);
    cJSON *object = cJSON_Parse(text);
    assert_non_null(object);
    int rc = namespace_set_put(s, object, &before);
    cJSON_Delete(object);
    free(before);
    return rc;
}

/* The caller frees. */
static struct namespace_entry *take(struct namespace_set *s, const char *name)
{
    struct namespace_entry *e = namespace_set_find(s, name);
    if (e != NULL) {
        table_remove(&s->entries, &e->item.node);
    }
    return e;
}

static void expect(const struct namespace_set *s, const char *selector, const char *want)
{
    const char *names[8];
    char found[256] = "";
    struct err e = ERR_INIT;
    struct selector *parsed = selector_parse(slice_str(selector), &e);
    assert_non_null(parsed);
    size_t count = namespace_set_select(s, parsed, names, 8);
    for (size_t i = 0; i < count; i++) {
        (void)strcat(strcat(found, names[i]), " ");
    }
    assert_string_equal(found, want);
    selector_free(parsed);
}

static void by_labels(void **state)
{
    struct namespace_set s = {.own = "own"};
    (void)state;
    assert_int_equal(put(&s, "b", "{\"team\":\"x\",\"tier\":\"1\"}"), 1);
    assert_int_equal(put(&s, "a", "{\"team\":\"x\"}"), 1);
    assert_int_equal(put(&s, "c", "null"), 1);
    expect(&s, "team=x", "a b ");
    expect(&s, "team=x,tier=1", "b ");
    expect(&s, "team!=x", "c ");
    expect(&s, "!team", "c ");
    expect(&s, "team=y", "");
    expect(&s, "", "a b c ");
    assert_int_equal(put(&s, "b", "{\"team\":\"x\",\"tier\":\"1\"}"), 0); /* as before */
    assert_int_equal(put(&s, "b", "{\"team\":\"y\",\"tier\":\"1\"}"), 1);
    expect(&s, "team=y", "b ");
    free(take(&s, "b"));
    assert_null(take(&s, "b"));
    expect(&s, "team", "a ");
    namespace_set_deinit(&s);
}

/* What changes afterwards, or goes, is not seen in it. */
static void a_copy(void **state)
{
    struct namespace_set s = {.own = "own", .missing = "later"};
    (void)state;
    struct namespace_set *before = namespace_set_copy(&s);
    assert_non_null(before->missing);
    s.missing = NULL;
    assert_int_equal(put(&s, "a", "{\"team\":\"x\"}"), 1);
    assert_int_equal(put(&s, "b", "null"), 1);
    struct namespace_set *copy = namespace_set_copy(&s);
    assert_null(copy->missing);
    assert_int_equal(put(&s, "a", "{\"team\":\"y\"}"), 1);
    free(take(&s, "b"));
    expect(copy, "team=x", "a ");
    expect(copy, "", "a b ");
    expect(before, "", "");
    assert_true(namespace_set_leaves_out(copy, "own"));
    namespace_set_deinit(&s);
    namespace_set_free(copy);
    namespace_set_free(before);
    namespace_set_free(NULL);
}

static void what_is_no_text(void **state)
{
    struct namespace_set s = {.own = NULL};
    (void)state;
    assert_int_equal(put(&s, "a", "{\"n\":null,\"x\":1,\"y\":{}}"), 1);
    expect(&s, "n=", "a ");
    expect(&s, "!x,!y", "a ");
    assert_int_equal(put(&s, "a", "[\"x\"]"), 1);
    expect(&s, "!n", "a ");
    namespace_set_deinit(&s);
}

static void the_systems(void **state)
{
    struct namespace_set s = {.own = "own"};
    (void)state;
    assert_true(namespace_is_system("kube-system"));
    assert_true(namespace_is_system("kube-public"));
    assert_true(namespace_is_system("kube-node-lease"));
    assert_false(namespace_is_system("kube-systems"));
    assert_false(namespace_is_system("default"));
    assert_int_equal(put(&s, "own", "{}"), 0);
    assert_int_equal(put(&s, "kube-system", "{}"), 0);
    expect(&s, "", "");
    s.system = true;
    assert_int_equal(put(&s, "own", "{}"), 1);
    assert_int_equal(put(&s, "kube-system", "{}"), 1);
    expect(&s, "", "kube-system own ");
    namespace_set_deinit(&s);
}

/* Selected by nothing, not even by what it lacks. */
static void too_many_labels(void **state)
{
    struct namespace_set s = {.own = NULL};
    struct namespace_entry *before = NULL;
    cJSON *object = cJSON_Parse("{\"metadata\":{\"name\":\"a\"}}");
    cJSON *labels = cJSON_AddObjectToObject(cJSON_GetObjectItem(object, "metadata"), "labels");
    (void)state;
    for (int i = 0; i < NAMESPACE_LABELS_MAX; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_non_null(cJSON_AddStringToObject(labels, key, "v"));
    }
    assert_int_equal(namespace_set_put(&s, object, &before), 1);
    expect(&s, "k127=v,!other", "a ");
    assert_non_null(cJSON_AddStringToObject(labels, "one-more", "v"));
    assert_int_equal(namespace_set_put(&s, object, &before), 1);
    assert_non_null(before);
    free(before);
    assert_true(namespace_set_find(&s, "a")->too_many);
    expect(&s, "!other", "");
    cJSON_Delete(object);
    namespace_set_deinit(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_labels),       cmocka_unit_test(a_copy),
        cmocka_unit_test(what_is_no_text), cmocka_unit_test(the_systems),
        cmocka_unit_test(too_many_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
