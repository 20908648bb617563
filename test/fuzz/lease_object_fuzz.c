/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a Lease says: who claims it is its holder then, and a claim is a difference.
 */
#include "kube/client/lease_object.h"

#include <string.h>

#include "check.h"
#include "json/json.h"

static void check_claim(const cJSON *before, enum lease_claim claim, const char *holder)
{
    cJSON *lease = lease_object_claim(before, claim, "me", 15, INT64_C(1767225600000123));
    CHECK(lease != NULL);
    CHECK(strcmp(lease_object_holder(lease), holder) == 0);
    CHECK(lease_object_seconds(lease) == (claim == LEASE_RELEASE ? 1 : 15));
    CHECK(lease_object_same(lease, lease));
    CHECK(!lease_object_same(before, lease) || strcmp(lease_object_holder(before), holder) == 0);
    cJSON_Delete(lease);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *root = json_parse((const char *)data, size, NULL);
    if (cJSON_IsObject(root)) {
        CHECK(lease_object_seconds(root) >= 0 && lease_object_seconds(root) <= INT32_MAX);
        check_claim(root, LEASE_ACQUIRE, "me");
        check_claim(root, LEASE_RENEW, "me");
        check_claim(root, LEASE_RELEASE, "");
    }
    cJSON_Delete(root);
    return 0;
}
