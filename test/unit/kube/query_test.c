/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "kube/query.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void inject(const char *target, const char *want)
{
    struct buf out = BUF_INIT(4096);
    struct err e = ERR_INIT;
    int rc = query_inject_selector(slice_str(target), SLICE("a%3Db"), &out, &e);
    if (rc != 0) {
        fail_msg("%s: %s", target, e.msg);
    }
    const char *got = buf_cstr(&out);
    assert_non_null(got);
    if (strcmp(got, want) != 0) {
        fail_msg("%s: got %s, not %s", target, got, want);
    }
    buf_reset(&out);
}

static void adds_a_parameter(void **state)
{
    (void)state;
    inject("/p", "/p?labelSelector=a%3Db");
    inject("/p?", "/p?labelSelector=a%3Db");
    inject("/p?x=1", "/p?x=1&labelSelector=a%3Db");
    inject("/p?x=1&", "/p?x=1&labelSelector=a%3Db");
    inject("/p?&", "/p?&labelSelector=a%3Db");
    inject("/p??", "/p??&labelSelector=a%3Db");
    inject("/p?b=%7e&A=+&b=2&&c", "/p?b=%7e&A=+&b=2&&c&labelSelector=a%3Db");
}

static void ands_with_the_clients(void **state)
{
    (void)state;
    inject("/p?labelSelector=c%3Dd", "/p?labelSelector=a%3Db%2Cc%3Dd");
    inject("/p?labelSelector=c=d", "/p?labelSelector=a%3Db%2Cc=d");
    inject("/p?x=1&labelSelector=c&y=%20", "/p?x=1&labelSelector=a%3Db%2Cc&y=%20");
    inject("/p?label%53elector=c", "/p?label%53elector=a%3Db%2Cc");
    inject("/p?%6CabelSelector=c", "/p?%6CabelSelector=a%3Db%2Cc");
    inject("/p?labelSelector=c,d+in+(e)", "/p?labelSelector=a%3Db%2Cc,d+in+(e)");
    /* malformed selectors stay malformed, behind ours */
    inject("/p?labelSelector=)", "/p?labelSelector=a%3Db%2C)");
    inject("/p?labelSelector=%00", "/p?labelSelector=a%3Db%2C%00");
    inject("/p?labelSelector=,", "/p?labelSelector=a%3Db%2C,");
}

static void replaces_an_empty_one(void **state)
{
    (void)state;
    inject("/p?labelSelector=", "/p?labelSelector=a%3Db");
    inject("/p?labelSelector", "/p?labelSelector=a%3Db");
    inject("/p?labelSelector&x", "/p?labelSelector=a%3Db&x");
    inject("/p?labelSelector=+%20%09%0a%0D", "/p?labelSelector=a%3Db");
    inject("/p?labelSelector=%0b", "/p?labelSelector=a%3Db%2C%0b");
}

static void takes_the_piece_that_the_server_takes(void **state)
{
    (void)state;
    /* dropped by Go: as if it were not there */
    inject("/p?labelSelector=%zz", "/p?labelSelector=%zz&labelSelector=a%3Db");
    inject("/p?labelSelector=%zz&labelSelector=d", "/p?labelSelector=%zz&labelSelector=a%3Db%2Cd");
    inject("/p?labelSelector=c%", "/p?labelSelector=c%&labelSelector=a%3Db");
    inject("/p?labelSelector%=c", "/p?labelSelector%=c&labelSelector=a%3Db");
    /* other keys */
    inject("/p?labelselector=c", "/p?labelselector=c&labelSelector=a%3Db");
    inject("/p?+labelSelector=c", "/p?+labelSelector=c&labelSelector=a%3Db");
    inject("/p?labelSelector%00=c", "/p?labelSelector%00=c&labelSelector=a%3Db");
    inject("/p?labelSelector%3Dc", "/p?labelSelector%3Dc&labelSelector=a%3Db");
    inject("/p?x=1%26labelSelector=c", "/p?x=1%26labelSelector=c&labelSelector=a%3Db");
    inject("/p??labelSelector=c", "/p??labelSelector=c&labelSelector=a%3Db");
    inject("/p?=labelSelector", "/p?=labelSelector&labelSelector=a%3Db");
    inject("/p?labelSelecto=c", "/p?labelSelecto=c&labelSelector=a%3Db");
    /* in the path it is no query */
    inject("/labelSelector=c&labelSelector=d",
           "/labelSelector=c&labelSelector=d?labelSelector=a%3Db");
    inject("/p;x?y", "/p;x?y&labelSelector=a%3Db");
}

static void refuse(const char *target, const char *says)
{
    struct buf out = BUF_INIT(64 * 1024);
    struct err e = ERR_INIT;
    assert_int_equal(buf_append_str(&out, "kept"), 0);
    assert_int_equal(query_inject_selector(slice_str(target), SLICE("a"), &out, &e), -EINVAL);
    if (strstr(e.msg, says) == NULL) {
        fail_msg("%s: %s", target, e.msg);
    }
    assert_string_equal(buf_cstr(&out), "kept");
    buf_reset(&out);
}

static void refuses_what_servers_read_differently(void **state)
{
    (void)state;
    refuse("/p?x=1;labelSelector=c", "';'");
    refuse("/p?labelSelector=c;", "';'");
    refuse("/p?;", "';'");
    refuse("/p#", "'#'");
    refuse("/p?x=1#y", "'#'");
    inject("/p?x=%3B%23", "/p?x=%3B%23&labelSelector=a%3Db");
    refuse("/p?labelSelector=c&labelSelector=d", "more than one labelSelector");
    refuse("/p?label%53elector=&x&labelSelector=", "more than one labelSelector");
}

static void checks_without_changing(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_int_equal(query_check(SLICE("/p"), &e), 0);
    assert_int_equal(query_check(SLICE("/p;x?a=%zz&&b=%3B"), &e), 0);
    assert_int_equal(query_check(SLICE("/p?a;b"), &e), -EINVAL);
    assert_non_null(strstr(e.msg, "';'"));
    assert_int_equal(query_check(SLICE("/p#?a"), &e), -EINVAL);
    assert_non_null(strstr(e.msg, "'#'"));
}

static void bounds_the_number_of_parameters(void **state)
{
    (void)state;
    char target[QUERY_PIECES_MAX + 16] = "/p?";
    memset(target + 3, '&', QUERY_PIECES_MAX);
    refuse(target, "more than 1000 parameters");
    target[3 + QUERY_PIECES_MAX - 1] = '\0';
    struct buf out = BUF_INIT(4096);
    assert_int_equal(query_inject_selector(slice_str(target), SLICE("a"), &out, NULL), 0);
    buf_reset(&out);
}

static void bounded_by_the_buffer(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(21);
    struct err e = ERR_INIT;
    assert_int_equal(query_inject_selector(SLICE("/p"), SLICE("abcde"), &out, &e), -ENOBUFS);
    assert_int_equal(out.len, 0);
    assert_int_equal(query_inject_selector(SLICE("/p"), SLICE("abcd"), &out, &e), 0);
    assert_string_equal(buf_cstr(&out), "/p?labelSelector=abcd");
    buf_reset(&out);
}

static void encodes_and_decodes(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1024);
    assert_int_equal(query_encode(SLICE("aZ9-._~ a/b in (c,d)\0\xff%+"), &out), 0);
    assert_string_equal(buf_cstr(&out), "aZ9-._~%20a%2Fb%20in%20%28c%2Cd%29%00%FF%25%2B");
    struct buf back = BUF_INIT(1024);
    assert_int_equal(query_decode(buf_slice(&out), &back), 0);
    assert_int_equal(back.len, 24);
    assert_memory_equal(buf_data(&back), "aZ9-._~ a/b in (c,d)\0\xff%+", back.len);
    buf_clear(&back);
    assert_int_equal(query_decode(SLICE("a+%2b%2B"), &back), 0);
    assert_string_equal(buf_cstr(&back), "a ++");
    assert_int_equal(query_decode(SLICE("%"), &back), -EINVAL);
    assert_int_equal(query_decode(SLICE("%4"), &back), -EINVAL);
    assert_int_equal(query_decode(SLICE("%4g"), &back), -EINVAL);
    assert_int_equal(query_decode(SLICE("%%41"), &back), -EINVAL);
    buf_reset(&back);
    back.max = 2;
    assert_int_equal(query_decode(SLICE("abc"), &back), -ENOBUFS);
    assert_int_equal(query_decode(SLICE("ab"), &back), 0);
    buf_reset(&back);
    buf_reset(&out);
}

static void drops_parameters(void **state)
{
    (void)state;
    static const struct slice keys[] = {{"a", 1}, {"b", 1}};
    static const struct {
        const char *target;
        const char *left;
    } rows[] = {
        {"/p", "/p"},
        {"/p?a=1", "/p"},
        {"/p?a=1&%62=2&c=%33&a", "/p?c=%33"},
        {"/p?c=a&&d&b=&e;a", "/p?c=a&&d&e;a"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out = BUF_INIT(64);
        assert_int_equal(query_drop(slice_str(rows[i].target), keys, 2, &out), 0);
        assert_string_equal(buf_cstr(&out), rows[i].left);
        buf_reset(&out);
    }
    struct buf small = BUF_INIT(3);
    assert_int_equal(query_drop(SLICE("/p?c"), keys, 2, &small), -ENOBUFS);
    buf_reset(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_a_parameter),
        cmocka_unit_test(ands_with_the_clients),
        cmocka_unit_test(replaces_an_empty_one),
        cmocka_unit_test(takes_the_piece_that_the_server_takes),
        cmocka_unit_test(refuses_what_servers_read_differently),
        cmocka_unit_test(checks_without_changing),
        cmocka_unit_test(bounds_the_number_of_parameters),
        cmocka_unit_test(bounded_by_the_buffer),
        cmocka_unit_test(encodes_and_decodes),
        cmocka_unit_test(drops_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
