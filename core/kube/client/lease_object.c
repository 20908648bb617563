/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/lease_object.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/rfc3339.h"
#include "json/edit.h"
#include "json/field.h"

enum { MICRO = 1000000, TIME_SIZE = 40 };

static const cJSON *spec_of(const cJSON *lease)
{
    return cJSON_GetObjectItemCaseSensitive(lease, "spec");
}

/* From 0 to what an int32 holds. */
static int64_t number_of(const cJSON *lease, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(spec_of(lease), key);
    double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    return value >= INT32_MAX ? INT32_MAX : value >= 1 ? (int64_t)value : 0;
}

const char *lease_object_holder(const cJSON *lease)
{
    return field_text(spec_of(lease), "holderIdentity");
}

int64_t lease_object_seconds(const cJSON *lease)
{
    return number_of(lease, "leaseDurationSeconds");
}

bool lease_object_same(const cJSON *a, const cJSON *b)
{
    static const char *const texts[] = {"holderIdentity", "acquireTime", "renewTime"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (strcmp(field_text(spec_of(a), texts[i]), field_text(spec_of(b), texts[i])) != 0) {
            return false;
        }
    }
    return lease_object_seconds(a) == lease_object_seconds(b) &&
           number_of(a, "leaseTransitions") == number_of(b, "leaseTransitions");
}

/* As metav1.MicroTime: 2026-07-14T09:30:00.000001Z. */
static int write_time(int64_t micros, char out[TIME_SIZE])
{
    char seconds[RFC3339_SIZE];
    int rc = rfc3339_format(micros / MICRO, seconds);
    if (rc == 0) {
        (void)snprintf(out, TIME_SIZE, "%.*s.%06dZ", (int)(RFC3339_SIZE - 2), seconds,
                       (int)(micros % MICRO));
    }
    return rc;
}

static void fill_spec(struct edit *ed, cJSON *spec, const cJSON *before, enum lease_claim claim,
                      const char *identity, int64_t seconds, const char *now)
{
    int64_t transitions = number_of(before, "leaseTransitions");
    const char *acquired = field_text(spec_of(before), "acquireTime");
    bool release = claim == LEASE_RELEASE;
    if (claim == LEASE_ACQUIRE && transitions < INT32_MAX) {
        transitions++;
    }
    if (claim != LEASE_RENEW || acquired[0] == '\0') {
        acquired = now;
    }
    edit_string(ed, spec, "holderIdentity", release ? "" : identity);
    edit_number(ed, spec, "leaseDurationSeconds", release ? 1 : (double)seconds);
    edit_string(ed, spec, "acquireTime", acquired);
    edit_string(ed, spec, "renewTime", now);
    edit_number(ed, spec, "leaseTransitions", (double)transitions);
}

cJSON *lease_object_new(const char *namespace, const char *name)
{
    struct edit ed = {.rc = 0};
    cJSON *lease = cJSON_CreateObject();
    cJSON *metadata = edit_object(&ed, lease, "metadata");
    edit_string(&ed, metadata, "name", name);
    edit_string(&ed, metadata, "namespace", namespace);
    edit_string(&ed, lease, "apiVersion", "coordination.k8s.io/v1");
    edit_string(&ed, lease, "kind", "Lease");
    return edit_result(&ed, lease);
}

cJSON *lease_object_claim(const cJSON *before, enum lease_claim claim, const char *identity,
                          int64_t seconds, int64_t now)
{
    char time[TIME_SIZE];
    struct edit ed = {.rc = 0};
    if (write_time(now, time) != 0) {
        return NULL;
    }
    cJSON *lease = cJSON_Duplicate(before, true);
    if (!cJSON_IsObject(spec_of(lease))) {
        edit_set(&ed, lease, "spec", cJSON_CreateObject());
    }
    fill_spec(&ed, cJSON_GetObjectItemCaseSensitive(lease, "spec"), before, claim, identity,
              seconds, time);
    return edit_result(&ed, lease);
}
