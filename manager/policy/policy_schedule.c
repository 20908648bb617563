/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"
#include "policy/policy_reader.h"
#include "policy/zone_file.h"
#include "traffic/schedule.h"
#include "json/field.h"

/* What the lists of numbers say: bits. */
struct days {
    uint32_t of_week;
    uint32_t of_month;
    uint32_t months;
};

/* Each number once. */
static uint32_t read_numbers(struct policy_reader *r, const cJSON *time, const char *path,
                             const char *key, int min, int max, cJSON *out)
{
    uint32_t bits = 0;
    size_t i = 0;
    const cJSON *item = policy_list(r, time, path, key, TRAFFIC_LIST_MAX);
    cJSON *copy = item == NULL ? NULL : edit_array(&r->edit, out, key);
    for (; item != NULL; item = item->next, i++) {
        int n = cJSON_IsNumber(item) ? item->valueint : -1;
        if (n < min || n > max || item->valuedouble > n || item->valuedouble < n) {
            policy_error(r, "%s.%s[%zu]: Invalid value: must be a whole number from %d to %d", path,
                         key, i, min, max);
        } else if ((bits >> n & 1) == 0) {
            bits |= UINT32_C(1) << n;
            edit_append(&r->edit, copy, cJSON_CreateNumber(n));
        }
    }
    return bits;
}

/* The 30th of February, and the like. */
static bool never_comes(const struct days *d)
{
    static const uint8_t length[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (d->of_month == 0 || d->months == 0) {
        return false;
    }
    for (unsigned month = 1; month <= 12; month++) {
        bool there = (d->months >> month & 1) != 0;
        if (there && (d->of_month & ((UINT64_C(2) << length[month - 1]) - 1)) != 0) {
            return false;
        }
    }
    return true;
}

static void read_days(struct policy_reader *r, const cJSON *time, const char *path, cJSON *out)
{
    struct days d = {
        .of_week = read_numbers(r, time, path, "daysOfWeek", 0, 6, out),
        .of_month = read_numbers(r, time, path, "daysOfMonth", 1, 31, out),
        .months = read_numbers(r, time, path, "months", 1, 12, out),
    };
    if (never_comes(&d)) {
        policy_warn(r, "%s.daysOfMonth: none of these months has such a day: never in effect",
                    path);
    }
}

/* ---- times of the day ---- */

static bool read_time(struct policy_reader *r, const cJSON *time, const char *path, const char *key,
                      const char *other, const char **out)
{
    uint32_t seconds = 0;
    *out = policy_text(r, time, path, key);
    if ((*out)[0] == '\0') {
        if (field_text(time, other)[0] != '\0') {
            policy_error(r, "%s.%s: Required value: with %s", path, key, other);
        }
        return false;
    }
    if (!schedule_read_time(*out, &seconds)) {
        policy_error(r,
                     "%s.%s: Invalid value: \"%.100s\": must be a time from \"00:00:00\" to "
                     "\"23:59:59\"",
                     path, key, *out);
        return false;
    }
    return true;
}

static void read_times(struct policy_reader *r, const cJSON *time, const char *path, cJSON *out)
{
    const char *start;
    const char *end;
    bool starts = read_time(r, time, path, "startTime", "endTime", &start);
    bool ends = read_time(r, time, path, "endTime", "startTime", &end);
    if (starts && ends) {
        edit_string(&r->edit, out, "start", start);
        edit_string(&r->edit, out, "end", end);
    }
}

/* ---- time zones ---- */

static void warn_of_difference(struct policy_reader *r, const char *path, const char *name,
                               const struct zone_rule *rule)
{
    char when[RFC3339_SIZE];
    if (rule->differs != 0 && rfc3339_format(rule->differs, when) == 0) {
        policy_warn(r,
                    "%s.timeZone: clocks of %.100s do not follow one rule: from %s they differ for "
                    "a while from %s, which is used",
                    path, name, when, rule->text);
    }
}

static void read_zone(struct policy_reader *r, const cJSON *time, const char *path, cJSON *out)
{
    const char *name = policy_text(r, time, path, "timeZone");
    struct zone_rule rule;
    struct err e = ERR_INIT;
    if (name[0] == '\0') {
        return;
    }
    if (zone_file_rule(r->options->zones, name, r->options->now, &rule, &e) != 0) {
        policy_error(r, "%s.timeZone: Invalid value: \"%.100s\": %s", path, name, e.msg);
        return;
    }
    warn_of_difference(r, path, name, &rule);
    cJSON *zone = edit_object(&r->edit, out, "zone");
    edit_string(&r->edit, zone, "name", name);
    edit_string(&r->edit, zone, "rule", rule.text);
}

void policy_schedule(struct policy_reader *r, const cJSON *fault, const char *path, cJSON *out)
{
    static const char *const known[] = {"startTime", "endTime",  "daysOfWeek", "daysOfMonth",
                                        "months",    "timeZone", NULL};
    struct policy_path p = policy_field_path(path, "effectiveTime");
    const cJSON *time = policy_object_field(r, fault, path, "effectiveTime", known);
    if (time == NULL) {
        return;
    }
    cJSON *when = cJSON_CreateObject();
    read_times(r, time, p.text, when);
    read_days(r, time, p.text, when);
    bool any = when->child == NULL;
    read_zone(r, time, p.text, when);
    if (any) {
        cJSON_Delete(when); /* always, in whatever zone */
    } else {
        edit_set(&r->edit, out, "when", when);
    }
}
