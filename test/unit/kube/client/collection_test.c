/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/collection.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct slice text(const struct buf *b)
{
    return buf_slice(b);
}

/* The targets as strings; the caller frees. */
static char *list_of(const struct collection *c, unsigned limit, const char *token)
{
    struct err e = ERR_INIT;
    struct buf base = BUF_INIT(65536);
    struct buf out = BUF_INIT(65536);
    assert_int_equal(collection_base(c, &base, &e), 0);
    assert_int_equal(collection_list(text(&base), limit, token, &out), 0);
    buf_reset(&base);
    return buf_take_str(&out);
}

static void expect_list(const struct collection *c, unsigned limit, const char *token,
                        const char *expected)
{
    char *target = list_of(c, limit, token);
    assert_string_equal(target, expected);
    free(target);
}

static void test_lists(void **state)
{
    (void)state;
    const char *path = "/api/v1/configmaps";
    expect_list(&(struct collection){.path = path}, 500, NULL, "/api/v1/configmaps?limit=500");
    expect_list(&(struct collection){.path = path}, 1,
                "a+b/c=", "/api/v1/configmaps?limit=1&continue=a%2Bb%2Fc%3D");
    expect_list(&(struct collection){.path = path, .label_selector = "a in (b,c),d!=e"}, 5, NULL,
                "/api/v1/configmaps?labelSelector=a%20in%20%28b%2Cc%29%2Cd%21%3De&limit=5");
    expect_list(&(struct collection){.path = path, .name = "x.y-z"}, 5, NULL,
                "/api/v1/configmaps?fieldSelector=metadata.name%3Dx.y-z&limit=5");
    expect_list(&(struct collection){.path = path, .name = "x", .field_selector = "a=b"}, 5, NULL,
                "/api/v1/configmaps?fieldSelector=metadata.name%3Dx%2Ca%3Db&limit=5");
    expect_list(&(struct collection){.path = path, .field_selector = "a=b", .label_selector = "l"},
                5, NULL, "/api/v1/configmaps?labelSelector=l&fieldSelector=a%3Db&limit=5");
    expect_list(&(struct collection){.path = path, .field_selector = "", .label_selector = ""}, 5,
                NULL, "/api/v1/configmaps?limit=5");
}

static void test_watches(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(65536);
    assert_int_equal(collection_watch(SLICE("/p?labelSelector=l&"), "12&3", 301, &out), 0);
    assert_string_equal(buf_cstr(&out), "/p?labelSelector=l&watch=true&allowWatchBookmarks=true&"
                                        "timeoutSeconds=301&resourceVersion=12%263");
    buf_reset(&out);
}

static void test_refuses_what_is_no_path_or_name(void **state)
{
    (void)state;
    static const char *const paths[] = {NULL,  "",       "api/v1/pods", "/api/v1/pods?x=y", "/a b",
                                        "/a#", "/a%20b", "/a\n",        "/\xc3\xa9"};
    static const char *const names[] = {"", "a,b", "a=b", "a\\b", "a/b", "a!"};
    struct buf out = BUF_INIT(65536);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct err e = ERR_INIT;
        assert_int_equal(collection_base(&(struct collection){.path = paths[i]}, &out, &e),
                         -EINVAL);
        assert_non_null(strstr(e.msg, "path"));
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct err e = ERR_INIT;
        const struct collection c = {.path = "/p", .name = names[i]};
        assert_int_equal(collection_base(&c, &out, &e), -EINVAL);
        assert_non_null(strstr(e.msg, "name"));
    }
    assert_int_equal(out.len, 0);
    buf_reset(&out);
}

static void test_too_long(void **state)
{
    (void)state;
    char selector[1000];
    memset(selector, ',', sizeof selector - 1);
    selector[sizeof selector - 1] = '\0';
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(2000); /* each comma takes three bytes */
    const struct collection c = {.path = "/p", .label_selector = selector};
    assert_int_equal(collection_base(&c, &out, &e), -ENOBUFS);
    assert_non_null(strstr(e.msg, "/p"));
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_watches),
        cmocka_unit_test(test_refuses_what_is_no_path_or_name),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
