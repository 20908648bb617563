/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "kube/field_selector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void expect_term(struct slice *rest, const char *field, const char *value, bool negated)
{
    struct field_term t;
    assert_int_equal(field_selector_next(rest, &t), 1);
    assert_true(slice_eq(t.field, slice_str(field)));
    assert_true(slice_eq(t.value, slice_str(value)));
    assert_int_equal(t.negated, negated);
}

static void takes_terms_in_order(void **state)
{
    (void)state;
    struct field_term t;
    struct slice rest = SLICE(",a=b,,metadata.name==x\\,y\\=\\\\,c!=,=d");
    expect_term(&rest, "a", "b", false);
    expect_term(&rest, "metadata.name", "x\\,y\\=\\\\", false);
    expect_term(&rest, "c", "", true);
    expect_term(&rest, "", "d", false);
    assert_int_equal(field_selector_next(&rest, &t), 0);
    rest = SLICE("");
    assert_int_equal(field_selector_next(&rest, &t), 0);
}

static void refuses_what_is_no_term(void **state)
{
    (void)state;
    static const char *const bad[] = {"a", "a!", "a=b=c", "a=b\\", "a=\\b", " "};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct field_term t;
        struct slice rest = slice_str(bad[i]);
        if (field_selector_next(&rest, &t) != -EINVAL) {
            fail_msg("%s", bad[i]);
        }
    }
}

static void expect_exact(const char *text, const char *want)
{
    struct buf value = BUF_INIT(64);
    int rc = field_selector_exact(slice_str(text), SLICE("metadata.name"), &value);
    assert_int_equal(rc, want != NULL ? 1 : 0);
    assert_string_equal(buf_cstr(&value), want != NULL ? want : "");
    buf_reset(&value);
}

static void tells_the_value_that_is_demanded(void **state)
{
    (void)state;
    expect_exact("metadata.name=x", "x");
    expect_exact("a=b,metadata.name==x\\,y,c!=d", "x,y");
    expect_exact("metadata.name=b,metadata.name=a", "a");
    expect_exact("metadata.name=", "");
    expect_exact("metadata.name!=x", NULL);
    expect_exact("metadata.namespace=x", NULL);
    expect_exact("", NULL);
    struct buf value = BUF_INIT(64);
    assert_int_equal(
        field_selector_exact(SLICE("metadata.name=x,y"), SLICE("metadata.name"), &value), -EINVAL);
    assert_int_equal(value.len, 0);
    buf_reset(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_terms_in_order),
        cmocka_unit_test(refuses_what_is_no_term),
        cmocka_unit_test(tells_the_value_that_is_demanded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
