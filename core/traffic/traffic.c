/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/traffic.h"

#include <stdlib.h>
#include <string.h>

#include "traffic/traffic_internal.h"
#include "json/field.h"
#include "json/json.h"

struct traffic *traffic_ref(struct traffic *t)
{
    t->refs++;
    return t;
}

void traffic_unref(struct traffic *t)
{
    if (t == NULL || --t->refs > 0) {
        return;
    }
    row_table_deinit(&t->limiting_rows);
    row_table_deinit(&t->fault_rows);
    external_table_deinit(&t->external);
    traffic_reading_deinit(&t->reading);
    cJSON_Delete(t->document);
    free(t);
}

int traffic_to_json(const struct traffic *t, struct buf *out)
{
    size_t before = out->len;
    buf_append_str(out, "{\"apiVersion\":\"" TRAFFIC_API_VERSION "\",\"checksum\":\"");
    buf_append_str(out, t->checksum);
    buf_printf(out, "\",\"generation\":%llu", (unsigned long long)t->generation);
    buf_append_str(out, ",\"kind\":\"" TRAFFIC_KIND "\",\"shard\":{\"name\":\"");
    buf_append_str(out, t->shard_name);
    buf_append_str(out, "\",\"namespace\":\"");
    buf_append_str(out, t->shard_namespace);
    buf_append_str(out, "\"},\"spec\":");
    json_canonical(field_get(t->document, "spec"), out);
    buf_append_char(out, '}');
    return buf_settle(out, before);
}

/* ---- what it says ---- */

uint64_t traffic_generation(const struct traffic *t)
{
    return t->generation;
}

const char *traffic_checksum(const struct traffic *t)
{
    return t->checksum;
}

const char *traffic_shard_namespace(const struct traffic *t)
{
    return t->shard_namespace;
}

const char *traffic_shard_name(const struct traffic *t)
{
    return t->shard_name;
}

size_t traffic_policy_count(const struct traffic *t)
{
    return t->policy_count;
}

const struct traffic_policy *traffic_policy_at(const struct traffic *t, size_t i)
{
    return &t->policies[i];
}

size_t traffic_limiting_count(const struct traffic *t)
{
    return t->limiting_count;
}

const struct traffic_limiting *traffic_limiting_at(const struct traffic *t, size_t i)
{
    return t->limitings[i];
}

size_t traffic_intercept_count(const struct traffic *t)
{
    return t->intercept_count;
}

const struct traffic_intercept *traffic_intercept_at(const struct traffic *t, size_t i)
{
    return t->intercepts[i];
}

size_t traffic_fault_count(const struct traffic *t)
{
    return t->fault_count;
}

const struct traffic_fault *traffic_fault_at(const struct traffic *t, size_t i)
{
    return t->faults[i];
}

static bool same_policy(const struct traffic_policy *a, const struct traffic_policy *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->uid, b->uid) == 0;
}

static bool same_health(const struct traffic_health *a, const struct traffic_health *b)
{
    return a->window_ms == b->window_ms && a->minimum_requests == b->minimum_requests &&
           a->error_percent == b->error_percent && a->slow_ms == b->slow_ms &&
           a->slow_percent == b->slow_percent && a->half_open == b->half_open;
}

bool traffic_limiting_same(const struct traffic_limiting *a, const struct traffic_limiting *b)
{
    return same_policy(a->policy, b->policy) && strcmp(a->name, b->name) == 0 &&
           a->trigger == b->trigger && a->has_bucket == b->has_bucket &&
           a->bucket.burst == b->bucket.burst && a->bucket.limit == b->bucket.limit &&
           a->bucket.interval_ms == b->bucket.interval_ms && a->max_in_flight == b->max_in_flight &&
           a->recover == b->recover && a->window_ms == b->window_ms &&
           same_health(&a->health, &b->health);
}
