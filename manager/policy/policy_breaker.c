/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy_reader.h"
#include "json/field.h"

/* One entry of rateLimitings. */
struct limiting {
    const cJSON *item;
    const char *path;
    cJSON *out;  /* in the entry of the document */
    int trigger; /* enum traffic_trigger; -1: it is wrong */
    bool has_bucket;
    uint64_t burst;
    uint64_t limit;
    uint64_t interval_ms;
    uint64_t max_in_flight; /* 0: any number */
};

/* In the order of enum traffic_trigger and enum traffic_recover. */
static const char *const triggers[] = {"Normal",      "LimiterOnly", "ForceOpened",
                                       "ForceClosed", "Health",      NULL};
static const char *const recoveries[] = {"Manual", "SleepingWindow", NULL};

/* ---- bucket ---- */

static void read_bucket(struct policy_reader *r, struct limiting *l)
{
    static const char *const known[] = {"burst", "interval", "limit", NULL};
    struct policy_path p = policy_field_path(l->path, "bucket");
    const cJSON *bucket = policy_object_field(r, l->item, l->path, "bucket", known);
    if (bucket == NULL) {
        return;
    }
    for (size_t i = 0; known[i] != NULL; i++) {
        policy_missing(r, bucket, p.text, known[i]);
    }
    bool burst = policy_number(r, bucket, p.text, "burst", 0, UINT32_MAX, &l->burst);
    bool limit = policy_number(r, bucket, p.text, "limit", 0, UINT32_MAX, &l->limit);
    bool interval =
        policy_duration(r, bucket, p.text, "interval", 1, TRAFFIC_TIME_MAX_MS, &l->interval_ms);
    l->has_bucket = burst && limit && interval;
    if (burst && l->burst == 0) {
        policy_warn(r, "%s.burst: is 0: refuses every request", p.text);
    } else if (limit && l->limit == 0) {
        policy_warn(r,
                    "%s.limit: is 0: never refills, and refuses every request when burst is used "
                    "up",
                    p.text);
    }
}

static void write_bucket(struct policy_reader *r, const struct limiting *l)
{
    cJSON *bucket = edit_object(&r->edit, l->out, "bucket");
    edit_number(&r->edit, bucket, "burst", (double)l->burst);
    edit_number(&r->edit, bucket, "limit", (double)l->limit);
    edit_number(&r->edit, bucket, "intervalMs", (double)l->interval_ms);
}

/* What the trigger needs, and what it would do nothing with. */
static void check_bucket(struct policy_reader *r, const struct limiting *l)
{
    bool written = field_get(l->item, "bucket") != NULL;
    bool needed = l->trigger == TRAFFIC_NORMAL ||
                  (l->trigger == TRAFFIC_LIMITER_ONLY && l->max_in_flight == 0);
    if (needed && !written) {
        policy_error(r, "%s.bucket: Required value: with triggerPolicy %s%s", l->path,
                     triggers[l->trigger],
                     l->trigger == TRAFFIC_NORMAL ? "" : " and without maxInFlight");
    }
    if (l->has_bucket && (l->trigger == TRAFFIC_NORMAL || l->trigger == TRAFFIC_LIMITER_ONLY)) {
        write_bucket(r, l);
    } else if (l->has_bucket && l->trigger == TRAFFIC_HEALTH) {
        policy_warn(r, "%s.bucket: is not used with triggerPolicy Health", l->path);
    }
}

/* ---- recovery ---- */

/* Between two tokens. */
static uint64_t refill_ms(const struct limiting *l)
{
    return l->limit == 0 ? 0 : l->interval_ms / l->limit;
}

static void write_recover(struct policy_reader *r, const struct limiting *l,
                          enum traffic_recover type, uint64_t window_ms)
{
    cJSON *recover = edit_object(&r->edit, l->out, "recover");
    edit_string(&r->edit, recover, "type", recoveries[type]);
    if (type == TRAFFIC_SLEEPING_WINDOW) {
        edit_number(&r->edit, recover, "windowMs", (double)window_ms);
    }
}

/* Not an error: objects without one are stored in clusters, and so it opens for good. */
static void default_recover(struct policy_reader *r, const struct limiting *l)
{
    policy_warn(r,
                "%s.recoverPolicy: is not set, as if type were Manual: once open it stays open "
                "until it is closed by annotation %s",
                l->path, POLICY_RECOVER);
    write_recover(r, l, TRAFFIC_MANUAL, 0);
}

static void read_recover_policy(struct policy_reader *r, const struct limiting *l)
{
    static const char *const known[] = {"type", "sleepingWindowSize", NULL};
    struct policy_path p = policy_field_path(l->path, "recoverPolicy");
    bool opens = l->trigger == TRAFFIC_NORMAL || l->trigger == TRAFFIC_HEALTH;
    const cJSON *policy = policy_object_field(r, l->item, l->path, "recoverPolicy", known);
    uint64_t window_ms = 0;
    if (policy == NULL) {
        if (opens && field_get(l->item, "recoverPolicy") == NULL) {
            default_recover(r, l);
        }
        return;
    }
    int type = policy_enum(r, policy, p.text, "type", recoveries, NULL);
    bool window = policy_duration(r, policy, p.text, "sleepingWindowSize", 1, TRAFFIC_TIME_MAX_MS,
                                  &window_ms);
    if (type == TRAFFIC_SLEEPING_WINDOW && field_get(policy, "sleepingWindowSize") == NULL) {
        policy_error(r, "%s.sleepingWindowSize: Required value: with type SleepingWindow", p.text);
    }
    if (window && type == TRAFFIC_SLEEPING_WINDOW && l->trigger == TRAFFIC_NORMAL &&
        l->has_bucket && window_ms < refill_ms(l)) {
        policy_warn(r,
                    "%s.sleepingWindowSize: is less than the %" PRIu64 " ms in which bucket gets a "
                    "request more: it can open again at once",
                    p.text, refill_ms(l));
    }
    if (opens && type >= 0) {
        write_recover(r, l, (enum traffic_recover)type, window_ms);
    }
}

/* ---- health ---- */

static void write_number(struct policy_reader *r, cJSON *out, const char *key, bool there,
                         uint64_t value)
{
    if (there) {
        edit_number(&r->edit, out, key, (double)value);
    }
}

static void read_health_fields(struct policy_reader *r, const cJSON *health, const char *path,
                               cJSON *out)
{
    uint64_t n = 0;
    policy_missing(r, health, path, "window");
    policy_missing(r, health, path, "minimumRequests");
    bool there =
        policy_duration(r, health, path, "window", TRAFFIC_HEALTH_MIN_MS, TRAFFIC_TIME_MAX_MS, &n);
    write_number(r, out, "windowMs", there, n);
    there = policy_number(r, health, path, "minimumRequests", 1, UINT32_MAX, &n);
    write_number(r, out, "minimumRequests", there, n);
    there = policy_number(r, health, path, "errorPercent", 1, 100, &n);
    write_number(r, out, "errorPercent", there, n);
    there = policy_duration(r, health, path, "slowCallDuration", 1, TRAFFIC_TIME_MAX_MS, &n);
    write_number(r, out, "slowMs", there, n);
    there = policy_number(r, health, path, "slowCallPercent", 1, 100, &n);
    write_number(r, out, "slowPercent", there, n);
    there = policy_number(r, health, path, "halfOpenRequests", 1, TRAFFIC_HALF_OPEN_MAX, &n);
    write_number(r, out, "halfOpen", there, n);
}

/* Slowness is told by two fields, and one of errors and slowness is needed. */
static void check_health(struct policy_reader *r, const cJSON *health, const char *path)
{
    bool errors = field_get(health, "errorPercent") != NULL;
    bool slow = field_get(health, "slowCallDuration") != NULL;
    bool percent = field_get(health, "slowCallPercent") != NULL;
    if (slow != percent) {
        policy_error(r, "%s.%s: Required value: with %s", path,
                     slow ? "slowCallPercent" : "slowCallDuration",
                     slow ? "slowCallDuration" : "slowCallPercent");
    } else if (!errors && !slow) {
        policy_error(r,
                     "%s.errorPercent: Required value: this, or slowCallDuration and "
                     "slowCallPercent",
                     path);
    }
}

static void read_health(struct policy_reader *r, const struct limiting *l)
{
    static const char *const known[] = {"window",
                                        "minimumRequests",
                                        "errorPercent",
                                        "slowCallDuration",
                                        "slowCallPercent",
                                        "halfOpenRequests",
                                        NULL};
    struct policy_path p = policy_field_path(l->path, "healthPolicy");
    const cJSON *health = policy_object_field(r, l->item, l->path, "healthPolicy", known);
    bool used = l->trigger == TRAFFIC_HEALTH;
    if (used) {
        policy_missing(r, l->item, l->path, "healthPolicy");
    }
    if (health == NULL) {
        return;
    }
    if (l->trigger >= 0 && !used) {
        policy_error(r, "%s: Forbidden: needs triggerPolicy Health", p.text);
        return;
    }
    read_health_fields(r, health, p.text, edit_object(&r->edit, l->out, "health"));
    check_health(r, health, p.text);
}

/* ---- a whole one ---- */

static void warn_of_resources(struct policy_reader *r, const struct limiting *l,
                              const struct policy_resources *found)
{
    if (l->trigger == TRAFFIC_FORCE_CLOSED) {
        return;
    }
    if (found->leases) {
        policy_warn(r,
                    "%s.resourceRules: names leases, so it is for those of the operator's own "
                    "leader election, too: refused for too long, it ends the operator's processes",
                    l->path);
    }
    if (found->relisted) {
        policy_warn(r,
                    "%s.resourceRules: is for list or watch in all namespaces: what the operator "
                    "reads at its start and after an interrupted watch may be refused, and its "
                    "caches stay empty",
                    l->path);
    }
}

static void read_requests(struct policy_reader *r, const struct limiting *l)
{
    struct policy_resources found = {.count = 0};
    struct policy_externals external = {.count = 0};
    policy_resources(r, l->item, l->path, "resourceRules", true, l->out, &found);
    policy_rest_rules(r, l->item, l->path, l->out, &external);
    if (field_get(l->out, "resources") == NULL && external.count == 0) {
        policy_error(r, "%s.resourceRules: Required value: this, or restRules", l->path);
    }
    warn_of_resources(r, l, &found);
    policy_count_external(r, field_text(l->out, "name"), &external);
}

/* Texts that nobody reads, as other controllers have them. */
static void check_properties(struct policy_reader *r, const struct limiting *l)
{
    const cJSON *properties = field_get(l->item, "properties");
    if (properties != NULL) {
        policy_warn(r, "%s.properties: is not used", l->path);
    }
}

static void read_limiting_fields(struct policy_reader *r, struct limiting *l)
{
    l->trigger = policy_enum(r, l->item, l->path, "triggerPolicy", triggers, NULL);
    if (l->trigger >= 0) {
        edit_string(&r->edit, l->out, "trigger", triggers[l->trigger]);
    }
    read_requests(r, l);
    read_bucket(r, l);
    if (policy_number(r, l->item, l->path, "maxInFlight", 1, UINT32_MAX, &l->max_in_flight)) {
        edit_number(&r->edit, l->out, "maxInFlight", (double)l->max_in_flight);
    }
    if (l->trigger >= 0) {
        check_bucket(r, l);
    }
    read_recover_policy(r, l);
    read_health(r, l);
    check_properties(r, l);
}

static void read_limiting(struct policy_reader *r, const cJSON *item, const char *path, cJSON *seen)
{
    static const char *const known[] = {
        "name",          "resourceRules", "restRules",   "bucket",     "triggerPolicy",
        "recoverPolicy", "healthPolicy",  "maxInFlight", "properties", NULL};
    if (!policy_object(r, item, path, known)) {
        return;
    }
    struct limiting l = {.item = item, .path = path, .out = cJSON_CreateObject(), .trigger = -1};
    const char *name = policy_required(r, item, path, "name");
    edit_string(&r->edit, l.out, "name", policy_rule_name(r, name, path, seen));
    read_limiting_fields(r, &l);
    if (field_get(l.out, "resources") != NULL || field_get(l.out, "urls") != NULL) {
        edit_append(&r->edit, r->rules, l.out);
        r->enforced_count++;
    } else {
        cJSON_Delete(l.out); /* it is wrong */
    }
}

void policy_read_breaker(struct policy_reader *r, const cJSON *spec, cJSON *entry)
{
    static const char *const known[] = {"selector", "rateLimitings", "trafficInterceptRules", NULL};
    static const char key[] = "rateLimitings";
    size_t i = 0;
    if (!policy_object(r, spec, "spec", known)) {
        return;
    }
    cJSON *seen = cJSON_CreateArray();
    const cJSON *item = policy_list(r, spec, "spec", key, TRAFFIC_ROWS_MAX);
    for (; item != NULL; item = item->next) {
        struct policy_path p = policy_item_path("spec", key, i++);
        read_limiting(r, item, p.text, seen);
    }
    cJSON_Delete(seen);
    policy_intercept_rules(r, spec, entry);
    policy_warn_external(r);
}
