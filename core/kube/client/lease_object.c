/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/lease_object.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/rfc3339.h"
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

/* Takes `item`, also when it fails. */
static bool put(cJSON *object, const char *key, cJSON *item)
{
    if (item == NULL) {
        return false;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    if (!cJSON_AddItemToObject(object, key, item)) {
        cJSON_Delete(item);
        return false;
    }
    return true;
}

static bool put_text(cJSON *object, const char *key, const char *text)
{
    return put(object, key, cJSON_CreateString(text));
}

static bool put_number(cJSON *object, const char *key, int64_t number)
{
    return put(object, key, cJSON_CreateNumber((double)number));
}

static bool fill_spec(cJSON *spec, const cJSON *before, enum lease_claim claim,
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
    return put_text(spec, "holderIdentity", release ? "" : identity) &&
           put_number(spec, "leaseDurationSeconds", release ? 1 : seconds) &&
           put_text(spec, "acquireTime", acquired) && put_text(spec, "renewTime", now) &&
           put_number(spec, "leaseTransitions", transitions);
}

/* Its own spec, or an empty one in place of what is none. */
static cJSON *obtain_spec(cJSON *lease)
{
    cJSON *spec = cJSON_GetObjectItemCaseSensitive(lease, "spec");
    if (cJSON_IsObject(spec)) {
        return spec;
    }
    spec = cJSON_CreateObject();
    return put(lease, "spec", spec) ? spec : NULL;
}

cJSON *lease_object_new(const char *namespace, const char *name)
{
    cJSON *lease = cJSON_CreateObject();
    cJSON *metadata = lease == NULL ? NULL : cJSON_AddObjectToObject(lease, "metadata");
    if (metadata == NULL || !put_text(metadata, "name", name) ||
        !put_text(metadata, "namespace", namespace) ||
        !put_text(lease, "apiVersion", "coordination.k8s.io/v1") ||
        !put_text(lease, "kind", "Lease")) {
        cJSON_Delete(lease);
        return NULL;
    }
    return lease;
}

cJSON *lease_object_claim(const cJSON *before, enum lease_claim claim, const char *identity,
                          int64_t seconds, int64_t now)
{
    char time[TIME_SIZE];
    if (write_time(now, time) != 0) {
        return NULL;
    }
    cJSON *lease = cJSON_Duplicate(before, true);
    cJSON *spec = lease == NULL ? NULL : obtain_spec(lease);
    if (spec == NULL || !fill_spec(spec, before, claim, identity, seconds, time)) {
        cJSON_Delete(lease);
        return NULL;
    }
    return lease;
}
