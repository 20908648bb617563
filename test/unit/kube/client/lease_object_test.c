/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/lease_object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "json/json.h"

#define NOW INT64_C(1767225600000123)

static cJSON *parse(const char *text)
{
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    return root;
}

static void expect(cJSON *lease, const char *text)
{
    struct buf out = BUF_INIT(4096);
    assert_non_null(lease);
    assert_int_equal(json_canonical(lease, &out), 0);
    assert_string_equal(buf_cstr(&out), text);
    buf_reset(&out);
    cJSON_Delete(lease);
}

#define HELD                                                                                       \
    "{\"metadata\":{\"labels\":{\"l\":\"v\"},\"name\":\"x\",\"resourceVersion\":\"7\"},\"spec\":{" \
    "\"acquireTime\":\"A\",\"holderIdentity\":\"other\",\"leaseDurationSeconds\":15,"              \
    "\"leaseTransitions\":4,\"more\":true,\"renewTime\":\"R\"}}"

static void test_reads(void **state)
{
    (void)state;
    cJSON *lease = parse(HELD);
    assert_string_equal(lease_object_holder(lease), "other");
    assert_int_equal(lease_object_seconds(lease), 15);
    cJSON_Delete(lease);
    assert_string_equal(lease_object_holder(NULL), "");
    static const char *const odd[] = {
        "{}",
        "[]",
        "{\"spec\":null}",
        "{\"spec\":[1]}",
        "{\"spec\":{\"holderIdentity\":null,\"leaseDurationSeconds\":\"15\"}}",
        "{\"spec\":{\"holderIdentity\":7,\"leaseDurationSeconds\":-1}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        lease = parse(odd[i]);
        assert_string_equal(lease_object_holder(lease), "");
        assert_int_equal(lease_object_seconds(lease), 0);
        cJSON_Delete(lease);
    }
    lease = parse("{\"spec\":{\"leaseDurationSeconds\":1e300}}");
    assert_int_equal(lease_object_seconds(lease), INT32_MAX);
    cJSON_Delete(lease);
}

static void test_a_renewal_is_a_difference(void **state)
{
    (void)state;
    static const struct {
        const char *other;
        bool same;
    } cases[] = {
        {HELD, true},
        {"{\"spec\":{\"acquireTime\":\"A\",\"holderIdentity\":\"other\",\"leaseDurationSeconds\":"
         "15,"
         "\"leaseTransitions\":4,\"renewTime\":\"R\"}}",
         true},
        {"{\"spec\":{\"acquireTime\":\"A\",\"holderIdentity\":\"other\",\"leaseDurationSeconds\":"
         "15,"
         "\"leaseTransitions\":4,\"renewTime\":\"S\"}}",
         false},
        {"{\"spec\":{\"acquireTime\":\"B\",\"holderIdentity\":\"other\",\"leaseDurationSeconds\":"
         "15,"
         "\"leaseTransitions\":4,\"renewTime\":\"R\"}}",
         false},
        {"{\"spec\":{\"acquireTime\":\"A\",\"holderIdentity\":\"o\",\"leaseDurationSeconds\":15,"
         "\"leaseTransitions\":4,\"renewTime\":\"R\"}}",
         false},
        {"{\"spec\":{\"acquireTime\":\"A\",\"holderIdentity\":\"other\",\"leaseDurationSeconds\":"
         "16,"
         "\"leaseTransitions\":4,\"renewTime\":\"R\"}}",
         false},
        {"{\"spec\":{\"acquireTime\":\"A\",\"holderIdentity\":\"other\",\"leaseDurationSeconds\":"
         "15,"
         "\"leaseTransitions\":5,\"renewTime\":\"R\"}}",
         false},
        {"{}", false},
    };
    cJSON *held = parse(HELD);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *other = parse(cases[i].other);
        assert_int_equal(lease_object_same(held, other), cases[i].same);
        cJSON_Delete(other);
    }
    cJSON_Delete(held);
}

#define META "{\"metadata\":{\"labels\":{\"l\":\"v\"},\"name\":\"x\",\"resourceVersion\":\"7\"},"

static void test_claims(void **state)
{
    (void)state;
    cJSON *held = parse(HELD);
    expect(lease_object_claim(held, LEASE_ACQUIRE, "me", 20, NOW),
           META "\"spec\":{\"acquireTime\":\"2026-01-01T00:00:00.000123Z\",\"holderIdentity\":"
                "\"me\",\"leaseDurationSeconds\":20,\"leaseTransitions\":5,\"more\":true,"
                "\"renewTime\":\"2026-01-01T00:00:00.000123Z\"}}");
    expect(lease_object_claim(held, LEASE_RENEW, "me", 20, NOW),
           META "\"spec\":{\"acquireTime\":\"A\",\"holderIdentity\":\"me\","
                "\"leaseDurationSeconds\":20,\"leaseTransitions\":4,\"more\":true,"
                "\"renewTime\":\"2026-01-01T00:00:00.000123Z\"}}");
    expect(lease_object_claim(held, LEASE_RELEASE, "me", 20, NOW),
           META "\"spec\":{\"acquireTime\":\"2026-01-01T00:00:00.000123Z\",\"holderIdentity\":"
                "\"\",\"leaseDurationSeconds\":1,\"leaseTransitions\":4,\"more\":true,"
                "\"renewTime\":\"2026-01-01T00:00:00.000123Z\"}}");
    cJSON_Delete(held);
}

static void test_claims_what_nobody_held(void **state)
{
    (void)state;
    cJSON *blank = lease_object_new("ns", "x");
    expect(lease_object_claim(blank, LEASE_CREATE, "me", 15, NOW + 999877),
           "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":"
           "\"x\",\"namespace\":\"ns\"},\"spec\":{\"acquireTime\":\"2026-01-01T00:00:01.000000Z\","
           "\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"leaseTransitions\":0,"
           "\"renewTime\":\"2026-01-01T00:00:01.000000Z\"}}");
    cJSON_Delete(blank);
    cJSON *odd = parse("{\"spec\":\"x\"}");
    expect(lease_object_claim(odd, LEASE_RENEW, "me", 15, NOW),
           "{\"spec\":{\"acquireTime\":\"2026-01-01T00:00:00.000123Z\",\"holderIdentity\":\"me\","
           "\"leaseDurationSeconds\":15,\"leaseTransitions\":0,\"renewTime\":"
           "\"2026-01-01T00:00:00.000123Z\"}}");
    cJSON_Delete(odd);
    odd = parse("{\"spec\":{\"leaseTransitions\":2147483647}}");
    cJSON *claim = lease_object_claim(odd, LEASE_ACQUIRE, "me", 15, NOW);
    const cJSON *spec = cJSON_GetObjectItem(claim, "spec");
    assert_true(cJSON_GetObjectItem(spec, "leaseTransitions")->valuedouble == INT32_MAX);
    cJSON_Delete(claim);
    cJSON_Delete(odd);
}

static bool play(void *data)
{
    cJSON *blank = lease_object_new("ns", "x");
    cJSON *first = blank == NULL ? NULL : lease_object_claim(blank, LEASE_CREATE, "me", 15, NOW);
    cJSON *second = lease_object_claim(data, LEASE_ACQUIRE, "me", 15, NOW);
    bool well = first != NULL && second != NULL;
    cJSON_Delete(blank);
    cJSON_Delete(first);
    cJSON_Delete(second);
    return well;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    cJSON *held = parse(HELD);
    assert_true(sweep_allocations(play, held) > 50);
    cJSON_Delete(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),         cmocka_unit_test(test_a_renewal_is_a_difference),
        cmocka_unit_test(test_claims),        cmocka_unit_test(test_claims_what_nobody_held),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
