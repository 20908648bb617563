/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "validate.h"

#define PLACE "/etc/cmesh/traffic.json"

static const char *document(const char *shard, unsigned generation, const char *spec)
{
    static char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{"
                   "\"namespace\":\"ns\",\"name\":\"%s\"},\"generation\":%u,\"spec\":%s}",
                   shard, generation, spec);
    return text;
}

static void accepted(struct slice text, const char *shard)
{
    struct shard_document d;
    enum refusal refusal = REFUSALS;
    struct err e = ERR_INIT;
    if (validate_traffic(text, PLACE, shard, &d, &refusal, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(refusal, REFUSAL_NONE);
    assert_non_null(d.traffic);
    shard_document_unref(&d);
}

static void refused(struct slice text, const char *shard, int code, enum refusal refusal,
                    const char *words)
{
    struct shard_document d;
    enum refusal got = REFUSALS;
    struct err e = ERR_INIT;
    assert_int_equal(validate_traffic(text, PLACE, shard, &d, &got, &e), code);
    assert_int_equal(got, refusal);
    assert_memory_equal(e.msg, PLACE ": ", sizeof PLACE + 1);
    if (strstr(e.msg, words) == NULL) {
        fail_msg("wanted \"%s\", got \"%s\"", words, e.msg);
    }
    assert_int_equal(shard_document_is_none(&d), refusal == REFUSAL_INVALID);
    shard_document_unref(&d);
}

static void takes_what_is_valid_and_of_the_shard(void **state)
{
    (void)state;
    accepted(slice_str(document("a", 7, "{}")), NULL);
    accepted(slice_str(document("a", 1, "{\"faults\":[]}")), "ns/a");
}

static void refuses_another_shard(void **state)
{
    (void)state;
    refused(slice_str(document("a", 7, "{}")), "ns/b", -EINVAL, REFUSAL_SHARD,
            "these are the traffic policies of shard ns/a, not of ns/b");
    refused(slice_str(document("a", 7, "{}")), "n/a", -EINVAL, REFUSAL_SHARD, "not of n/a");
    refused(slice_str(document("aa", 7, "{}")), "ns/a", -EINVAL, REFUSAL_SHARD, "not of ns/a");
}

static void refuses_what_is_not_valid(void **state)
{
    (void)state;
    refused(SLICE(""), NULL, -EINVAL, REFUSAL_INVALID, "line 1");
    refused((struct slice){0}, NULL, -EINVAL, REFUSAL_INVALID, "line 1");
    refused(slice_str(document("a", 7, "{\"limits\":[]}")), NULL, -EINVAL, REFUSAL_INVALID,
            "spec.limits: Forbidden: unknown field");
    refused(SLICE("{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\"}"), NULL, -EINVAL,
            REFUSAL_INVALID, "kind");
    refused(SLICE("{\"apiVersion\":\"cmesh/v2\",\"kind\":\"ShardTraffic\"}"), NULL, -EINVAL,
            REFUSAL_INVALID, "apiVersion: Unsupported value: \"cmesh/v2\"");
}

/* A document that just fits, but no longer would with the checksum that it is stored with. */
static void refuses_what_localproxy_could_not_read(void **state)
{
    (void)state;
    static const char head[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"ns\","
        "\"name\":\"a\"},\"generation\":7,\"spec\":{\"faults\":[{\"name\":\"f\",\"spec\":{"
        "\"selector\":{},"
        "\"httpFault\":[{\"name\":\"r\",\"abort\":{\"httpStatus\":503,\"percent\":1},\"match\":{"
        "\"resources\":[";
    static const char tail[] = "]}}]}}]}}";
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    buf_append_str(&text, head);
    for (unsigned i = 0; text.len + sizeof tail + 100 < TRAFFIC_TEXT_MAX; i++) {
        const char *before = i % 1000 != 0 ? "," : "{\"namespaces\":[";
        (void)buf_printf(&text, "%s%s\"%063u\"", i % 1000 == 0 && i > 0 ? "]}," : "", before, i);
    }
    buf_append_str(&text, "]}");
    buf_append_str(&text, tail);
    assert_int_equal(buf_error(&text), 0);
    assert_true(text.len <= TRAFFIC_TEXT_MAX);
    refused(buf_slice(&text), NULL, -E2BIG, REFUSAL_INVALID, "spec: Too long");
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_valid_and_of_the_shard),
        cmocka_unit_test(refuses_another_shard),
        cmocka_unit_test(refuses_what_is_not_valid),
        cmocka_unit_test(refuses_what_localproxy_could_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
