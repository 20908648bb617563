/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/user_agent.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void what_a_name_may_be(void **state)
{
    static const struct {
        const char *text;
        const char *why; /* NULL: nothing is wrong */
    } cases[] = {
        {"shard-a/", NULL},
        {"operator/v1 (shard a) $x", NULL},
        {"x", NULL},
        {"", "must have 1 to 256 characters"},
        {"/", "must have a name before the slash"},
        {" a", "must not begin or end with a blank"},
        {"a ", "must not begin or end with a blank"},
        {"a\tb", "must be of visible ASCII characters and blanks"},
        {"a\r\nX: y", "must be of visible ASCII characters and blanks"},
        {"a\x7f", "must be of visible ASCII characters and blanks"},
        {"\xc3\xa4", "must be of visible ASCII characters and blanks"},
    };
    char text[USER_AGENT_MAX + 1];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *why = user_agent_check(slice_str(cases[i].text));
        assert_string_equal(why == NULL ? "" : why, cases[i].why == NULL ? "" : cases[i].why);
    }
    memset(text, 'a', sizeof text);
    assert_null(user_agent_check(slice_of(text, USER_AGENT_MAX)));
    assert_non_null(user_agent_check(slice_of(text, USER_AGENT_MAX + 1)));
    assert_non_null(user_agent_check(slice_of("a\0b", 3)));
}

static void expect(const char *text, const char *own, size_t max, const char *want)
{
    struct buf out = BUF_INIT(max);
    assert_int_equal(user_agent_write(slice_str(text), slice_str(own), &out), 0);
    assert_true(slice_eq(buf_slice(&out), slice_str(want)));
    buf_reset(&out);
}

static void a_slash_keeps_the_clients_own(void **state)
{
    (void)state;
    expect("shard-a/", "manager/v1", 100, "shard-a/manager/v1");
    expect("shard-a", "manager/v1", 100, "shard-a");
    expect("shard-a/", "", 100, "shard-a");
    expect("shard-a", "", 100, "shard-a");
    expect("shard-a/", "manager/v1", 18, "shard-a/manager/v1");
    expect("shard-a/", "manager/v1", 17, "shard-a");
    struct buf small = BUF_INIT(3);
    assert_int_equal(user_agent_write(SLICE("shard-a"), SLICE(""), &small), -ENOBUFS);
    buf_reset(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_name_may_be),
        cmocka_unit_test(a_slash_keeps_the_clients_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
