/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/object_target.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"

#define MAPS "/api/v1/namespaces/n/configmaps"

static void expect(const struct object_target *t, const char *expected)
{
    struct buf out = BUF_INIT(4096);
    struct err e = ERR_INIT;
    assert_int_equal(object_target_write(t, &out, &e), 0);
    assert_string_equal(buf_cstr(&out), expected);
    buf_reset(&out);
}

static void expect_refusal(const struct object_target *t, const char *msg)
{
    struct buf out = BUF_INIT(4096);
    struct err e = ERR_INIT;
    assert_int_equal(object_target_write(t, &out, &e), -EINVAL);
    assert_string_equal(e.msg, msg);
    assert_int_equal(out.len, 0);
}

static void test_names_what_is_meant(void **state)
{
    (void)state;
    expect(&(struct object_target){.path = MAPS}, MAPS);
    expect(&(struct object_target){.path = MAPS, .name = "x"}, MAPS "/x");
    expect(&(struct object_target){.path = MAPS, .name = "x", .subresource = "status"},
           MAPS "/x/status");
    expect(&(struct object_target){.path = "/clusterroles", .name = "system:a b?c#d"},
           "/clusterroles/system%3Aa%20b%3Fc%23d");
    expect(&(struct object_target){.path = MAPS, .name = "..."}, MAPS "/...");
}

static void test_says_how(void **state)
{
    (void)state;
    expect(&(struct object_target){.path = MAPS, .dry_run = true}, MAPS "?dryRun=All");
    expect(
        &(struct object_target){
            .path = MAPS, .name = "x", .field_manager = "me & you", .force = true, .dry_run = true},
        MAPS "/x?fieldManager=me%20%26%20you&force=true&dryRun=All");
}

static void test_refuses_what_would_be_another_object(void **state)
{
    (void)state;
    expect_refusal(&(struct object_target){.name = "x"}, "not the path of a resource: \"\"");
    expect_refusal(&(struct object_target){.path = "/a?b"}, "not the path of a resource: \"/a?b\"");
    static const char *const names[] = {"", ".", "..", "a/b", "a%2fb"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char msg[64] = "not the name of an object: \"";
        strcat(strcat(msg, names[i]), "\"");
        expect_refusal(&(struct object_target){.path = MAPS, .name = names[i]}, msg);
    }
    expect_refusal(&(struct object_target){.path = MAPS, .subresource = "status"},
                   "not a subresource of an object: \"status\"");
    expect_refusal(&(struct object_target){.path = MAPS, .name = "x", .subresource = "a/b"},
                   "not a subresource of an object: \"a/b\"");
}

static bool write_one(void *data)
{
    const struct object_target t = {
        .path = MAPS, .name = "a:b", .subresource = "status", .field_manager = "m", .force = true};
    struct buf out = BUF_INIT(4096);
    struct err e = ERR_INIT;
    (void)data;
    int rc = object_target_write(&t, &out, &e);
    assert_true(rc == 0 || (rc == -ENOMEM && e.code == -ENOMEM && e.msg[0] != '\0'));
    buf_reset(&out);
    return rc == 0;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(write_one, NULL) > 0);
}

static void test_too_long(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(40);
    assert_int_equal(
        object_target_write(&(struct object_target){.path = MAPS, .name = "123456789"}, &out, NULL),
        -ENOBUFS);
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_what_is_meant),
        cmocka_unit_test(test_says_how),
        cmocka_unit_test(test_refuses_what_would_be_another_object),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
