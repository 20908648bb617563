/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/list_page.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "kube/client/watch_event.h"

/* The names of the objects, each followed by a space; or the error. Every byte after the text is
 * out of bounds. */
static int read_page(const char *text, struct buf *names, char *version, char *token)
{
    struct list_page p;
    struct err e = ERR_INIT;
    size_t len = strlen(text);
    char *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    buf_clear(names);
    int rc = list_page_init(&p, slice_of(copy, len), &e);
    if (rc == 0) {
        cJSON *object;
        strcpy(version, p.version);
        strcpy(token, p.token == NULL ? "" : p.token);
        while ((rc = list_page_next(&p, &object, &e)) == 1) {
            const cJSON *metadata = cJSON_GetObjectItem(object, "metadata");
            const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "name"));
            assert_int_equal(buf_printf(names, "%s ", name), 0);
            cJSON_Delete(object);
        }
        list_page_deinit(&p);
    }
    assert_int_equal(rc, e.code);
    free(copy);
    return rc;
}

static void expect(const char *text, const char *expected)
{
    struct buf names = BUF_INIT(65536);
    char version[64];
    char token[64];
    int rc = read_page(text, &names, version, token);
    if (expected == NULL) {
        assert_int_equal(rc, -EINVAL);
    } else {
        assert_int_equal(rc, 0);
        assert_string_equal(buf_cstr(&names), expected);
    }
    buf_reset(&names);
}

#define ITEM(name) "{\"metadata\":{\"name\":\"" name "\"}}"
#define META "\"metadata\":{\"resourceVersion\":\"7\"}"

static void test_pages(void **state)
{
    (void)state;
    struct buf names = BUF_INIT(65536);
    char version[64];
    char token[64];
    assert_int_equal(read_page("{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"12\","
                               "\"continue\":\"abc\",\"remainingItemCount\":9},\"items\":[" ITEM(
                                   "a") "," ITEM("b") "]}\n",
                               &names, version, token),
                     0);
    assert_string_equal(buf_cstr(&names), "a b ");
    assert_string_equal(version, "12");
    assert_string_equal(token, "abc");
    /* As custom resources are sent: the version stands behind the items. */
    assert_int_equal(
        read_page("{\"apiVersion\":\"v1\",\"items\":[" ITEM(
                      "a") "],\"kind\":\"PodList\","
                           "\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"13\"}}",
                  &names, version, token),
        0);
    assert_string_equal(buf_cstr(&names), "a ");
    assert_string_equal(version, "13");
    assert_string_equal(token, "");
    buf_reset(&names);
}

static void test_white_space_and_brackets_in_strings(void **state)
{
    (void)state;
    expect(" { " META " , \"items\" : [ ] } ", "");
    expect("\t{" META ",\r\n\"items\"\n:\t[\n" ITEM("a") " ,\n " ITEM("b") "\n]\n}\n", "a b ");
    expect("{\"x\":\"]}\\\"items\\\":[\",\"items\":[{\"d\":\"}],[{\\\\\",\"metadata\":{\"name\":"
           "\"\\\"a\"},\"l\":[[{}],[1]]}]," META "}",
           "\"a ");
    expect("{\"o\":{\"items\":[1]},\"a\":[{\"items\":[2]}],\"items\":[" ITEM("a") "]," META "}",
           "a ");
    expect("{" META ",\"items\":null}", "");
}

static void test_refuses_what_is_no_list(void **state)
{
    (void)state;
    static const char *const pages[] = {
        "",
        " ",
        "x",
        "[]",
        "{}",
        "{" META "}",
        "{\"items\":[]}",
        "{\"metadata\":{},\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"\"},\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":7},\"items\":[]}",
        "{" META ",\"items\":{}}",
        "{" META ",\"items\":\"\"}",
        "{" META ",\"it\\u0065ms\":[" ITEM("a") "]}",
        "{" META ",\"items\":[" ITEM("a") "],\"items\":[" ITEM("b") "]}",
        "{" META ",\"items\":[" ITEM("a") "],\"it\\u0065ms\":[" ITEM("b") "]}",
        "{" META ",\"items\":[" ITEM("a"),
        "{" META ",\"items\":[" ITEM("a") "]",
        "{" META ",\"items\":[" ITEM("a") "}",
        "{" META ",\"items\":[" ITEM("a") "]]",
        "{" META ",\"items\":[" ITEM("a") "]} {}",
        "{" META ",\"items\":[",
        "{" META ",\"items\":",
        "{" META ",\"items\"",
        "{" META ",\"items",
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        expect(pages[i], NULL);
    }
}

static void test_refuses_items_that_are_no_objects(void **state)
{
    (void)state;
    static const char *const items[] = {
        "1",
        "null",
        "\"a\"",
        "[]",
        ",",
        "," ITEM("a"),
        ITEM("a") ",",
        ITEM("a") ITEM("b"),
        ITEM("a") ",," ITEM("b"),
        ITEM("a") " x",
        ITEM("a") ":" ITEM("b"),
        "{}",
        "{\"metadata\":{}}",
        "{\"metadata\":{\"name\":\"\"}}",
        "{\"metadata\":{\"name\":\"a\"}, \"x\":[}]",
        "{\"metadata\":{\"name\":\"a\"}, \"x\" 1}",
        "{\"metadata\":{\"name\":\"a\"}, \"x\":1, \"x\":2}",
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        char page[256];
        (void)snprintf(page, sizeof page, "{" META ",\"items\":[%s]}", items[i]);
        expect(page, NULL);
    }
}

/* Users of pods may write any key and any depth into managedFields, and API servers from 1.20
 * to 1.36 give it out so: that hides no other object. */
static void test_objects_of_strangers(void **state)
{
    (void)state;
    enum { DEPTH = 5000 };
    struct buf page = BUF_INIT(65536);
    buf_append_str(&page,
                   "{" META ",\"items\":[{\"metadata\":{\"name\":\"deep\",\"managedFields\":[{"
                   "\"fieldsV1\":");
    for (int i = 0; i < DEPTH; i++) {
        buf_append_str(&page, "{\"f:]}\":");
    }
    buf_append_str(&page, "{}");
    for (int i = 0; i < DEPTH; i++) {
        buf_append_char(&page, '}');
    }
    buf_append_str(
        &page, "}]}}," ITEM("a") ",{\"metadata\":{\"name\":\"b\",\"managedFields\":[{"
                                 "\"fieldsV1\":{\"f:\xff\\\"}\":{},\"f:\xfe\\\"}\":{}}}]}},"
                                 "{\"metadata\":{\"name\":\"c\",\"managedFields\":[{\"fieldsV1\":{"
                                 "\"f:\\u0000\":{},\"f:\\ufffd\":{}}}]}}]}");
    assert_int_equal(buf_error(&page), 0);
    expect(buf_cstr(&page), "deep a b c ");
    buf_reset(&page);
}

static void test_says_which_item_is_wrong(void **state)
{
    (void)state;
    const char *text = "{" META ",\"items\":[" ITEM("a") ",{\"metadata\":}]}";
    struct list_page p;
    struct err e = ERR_INIT;
    cJSON *object;
    assert_int_equal(list_page_init(&p, slice_str(text), &e), 0);
    assert_int_equal(list_page_next(&p, &object, &e), 1);
    cJSON_Delete(object);
    assert_int_equal(list_page_next(&p, &object, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "item 2"));
    list_page_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_white_space_and_brackets_in_strings),
        cmocka_unit_test(test_refuses_what_is_no_list),
        cmocka_unit_test(test_refuses_items_that_are_no_objects),
        cmocka_unit_test(test_objects_of_strangers),
        cmocka_unit_test(test_says_which_item_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
