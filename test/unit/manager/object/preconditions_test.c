/* SPDX-License-Identifier: Apache-2.0 */
#include "object/preconditions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "json/json.h"

#define META "\"metadata\":{\"resourceVersion\":\"7\",\"uid\":\"u\"}"

static void check(cJSON *made, const char *want)
{
    struct buf out = BUF_INIT(4096);
    assert_non_null(made);
    assert_int_equal(json_canonical(made, &out), 0);
    assert_string_equal(buf_cstr(&out), want);
    buf_reset(&out);
    cJSON_Delete(made);
}

static void check_status(const char *old_text, const char *new_text, const char *want)
{
    cJSON *old = old_text == NULL ? NULL : cJSON_Parse(old_text);
    cJSON *new = cJSON_Parse(new_text);
    check(preconditions_status("u", "7", old, new), want);
    cJSON_Delete(old);
    cJSON_Delete(new);
}

static void a_status_replaces_the_old_one(void **state)
{
    (void)state;
    check_status(NULL, "{\"a\":1}", "{" META ",\"status\":{\"a\":1}}");
    check_status("\"text\"", "{\"a\":1}", "{" META ",\"status\":{\"a\":1}}");
    check_status("{\"a\":2,\"b\":[1],\"A\":3}", "{\"a\":1}",
                 "{" META ",\"status\":{\"A\":null,\"a\":1,\"b\":null}}");
}

static void fields_of_objects_in_it_are_removed(void **state)
{
    (void)state;
    check_status("{\"a\":{\"x\":{\"y\":1,\"z\":2},\"w\":1},\"b\":{\"c\":1}}",
                 "{\"a\":{\"x\":{\"z\":3}},\"b\":[]}",
                 "{" META ",\"status\":{\"a\":{\"w\":null,\"x\":{\"y\":null,\"z\":3}},\"b\":[]}}");
}

static void other_bodies_have_preconditions(void **state)
{
    struct edit ed = {.rc = 0};
    cJSON *body = cJSON_Parse("{\"metadata\":{\"name\":\"n\"}}");
    (void)state;
    edit_string(&ed, preconditions_set(&ed, body, "u", "7"), "x", "y");
    assert_int_equal(ed.rc, 0);
    check(body, "{\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"7\",\"uid\":\"u\","
                "\"x\":\"y\"}}");
    check(preconditions_delete("u", "7"),
          "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"preconditions\":{"
          "\"resourceVersion\":\"7\",\"uid\":\"u\"}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_replaces_the_old_one),
        cmocka_unit_test(fields_of_objects_in_it_are_removed),
        cmocka_unit_test(other_bodies_have_preconditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
