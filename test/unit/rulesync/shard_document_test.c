/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shard_document.h"

static struct shard_document make(enum control_document kind, const char *shard,
                                  unsigned generation, const char *spec)
{
    char text[512];
    struct shard_document d;
    struct err e = ERR_INIT;
    int len =
        snprintf(text, sizeof text,
                 "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"%s\",\"shard\":{"
                 "\"namespace\":\"ns\",\"name\":\"%s\"},\"generation\":%u,\"spec\":%s}",
                 kind == CONTROL_RULES ? "ShardRules" : "ShardTraffic", shard, generation, spec);
    if (shard_document_parse(kind, slice_of(text, (size_t)len), &d, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return d;
}

static void both_kinds_say_the_same_of_themselves(void **state)
{
    (void)state;
    for (enum control_document kind = 0; kind < CONTROL_DOCUMENTS; kind++) {
        const char *spec = kind == CONTROL_RULES ? "{\"limits\":[]}" : "{}";
        struct shard_document d = make(kind, "a", 7, spec);
        struct shard_document same = shard_document_ref(&d);
        struct buf text = BUF_INIT(1024);
        assert_int_equal(d.kind, kind);
        assert_false(shard_document_is_none(&d));
        assert_int_equal(shard_document_generation(&d), 7);
        assert_string_equal(shard_document_namespace(&d), "ns");
        assert_string_equal(shard_document_shard(&d), "a");
        assert_int_equal(strlen(shard_document_checksum(&d)), RULES_CHECKSUM_LEN);
        assert_int_equal(shard_document_size(&d), 0);
        assert_true(shard_document_is_of(&d, "ns/a"));
        assert_false(shard_document_is_of(&d, "ns/ab"));
        assert_false(shard_document_is_of(&d, "n/a"));
        assert_int_equal(shard_document_to_json(&d, &text), 0);
        assert_non_null(strstr(buf_cstr(&text), shard_document_checksum(&d)));
        assert_true(shard_document_same(&d, &same));
        buf_reset(&text);
        shard_document_unref(&d);
        assert_true(shard_document_is_none(&d));
        assert_int_equal(shard_document_generation(&same), 7);
        assert_false(shard_document_same(&d, &same));
        shard_document_unref(&same);
        assert_true(shard_document_same(&d, &same));
    }
}

static void what_tells_two_apart(void **state)
{
    (void)state;
    struct shard_document d = make(CONTROL_TRAFFIC, "a", 7, "{}");
    struct shard_document others[] = {
        make(CONTROL_TRAFFIC, "b", 7, "{}"),
        make(CONTROL_TRAFFIC, "a", 8, "{}"),
        make(CONTROL_TRAFFIC, "a", 7,
             "{\"faults\":[{\"name\":\"f\",\"spec\":{\"selector\":{},\"httpFault\":[{\"name\":"
             "\"r\",\"match\":{"
             "\"resources\":[{}]},"
             "\"abort\":{\"httpStatus\":503,\"percent\":\"0.0001\"}}]}}]}"),
    };
    assert_int_equal(shard_document_size(&others[2]), 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(shard_document_same(&d, &others[i]));
        shard_document_unref(&others[i]);
    }
    shard_document_unref(&d);
}

static void what_cannot_be_read_is_none(void **state)
{
    (void)state;
    struct shard_document d;
    struct err e = ERR_INIT;
    for (enum control_document kind = 0; kind < CONTROL_DOCUMENTS; kind++) {
        assert_int_equal(shard_document_parse(kind, SLICE("[]"), &d, &e), -EINVAL);
        assert_true(shard_document_is_none(&d));
        shard_document_unref(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_kinds_say_the_same_of_themselves),
        cmocka_unit_test(what_tells_two_apart),
        cmocka_unit_test(what_cannot_be_read_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
