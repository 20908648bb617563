/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "policy/policy_reader.h"
#include "json/field.h"

enum { STATUS_OK = 200, STATUS_MIN = 400, STATUS_MAX = 599 };

/* Both return whether it is there, in order, and ever happens. */

static bool read_delay(struct policy_reader *r, const cJSON *fault, const char *path, cJSON *out)
{
    static const char *const known[] = {"fixedDelay", "percent", NULL};
    struct policy_path p = policy_field_path(path, "delay");
    const cJSON *delay = policy_object_field(r, fault, path, "delay", known);
    uint64_t ms = 0;
    uint32_t ppm = 0;
    if (delay == NULL) {
        return false;
    }
    policy_missing(r, delay, p.text, "fixedDelay");
    bool timed = policy_duration(r, delay, p.text, "fixedDelay", 1, TRAFFIC_DELAY_MAX_MS, &ms);
    if (!policy_percent(r, delay, p.text, "percent", &ppm) || !timed || ppm == 0) {
        return false;
    }
    cJSON *written = edit_object(&r->edit, out, "delay");
    edit_number(&r->edit, written, "ms", (double)ms);
    edit_number(&r->edit, written, "ppm", ppm);
    return true;
}

/* 0 and 200 are how an abort is switched off elsewhere. */
static bool read_status(struct policy_reader *r, const cJSON *abort, const char *path,
                        uint64_t *out)
{
    const cJSON *item = field_get(abort, "httpStatus");
    bool whole = cJSON_IsNumber(item) && !(item->valuedouble < item->valueint) &&
                 !(item->valuedouble > item->valueint);
    bool off = whole && (item->valueint == 0 || item->valueint == STATUS_OK);
    policy_missing(r, abort, path, "httpStatus");
    if (off) {
        policy_warn(r, "%s.httpStatus: is %d: no request is aborted", path, item->valueint);
        return false;
    }
    return policy_number(r, abort, path, "httpStatus", STATUS_MIN, STATUS_MAX, out);
}

static bool read_abort(struct policy_reader *r, const cJSON *fault, const char *path, cJSON *out)
{
    static const char *const known[] = {"httpStatus", "percent", NULL};
    struct policy_path p = policy_field_path(path, "abort");
    const cJSON *abort = policy_object_field(r, fault, path, "abort", known);
    uint64_t status = 0;
    uint32_t ppm = 0;
    if (abort == NULL) {
        return false;
    }
    bool aborts = read_status(r, abort, p.text, &status);
    if (!policy_percent(r, abort, p.text, "percent", &ppm) || !aborts || ppm == 0) {
        return false;
    }
    cJSON *written = edit_object(&r->edit, out, "abort");
    edit_number(&r->edit, written, "status", (double)status);
    edit_number(&r->edit, written, "ppm", ppm);
    return true;
}

/* As in the first examples of KusionStack's mesh. One error says what to write instead. */
static bool is_of_old(struct policy_reader *r, const cJSON *match, const char *path)
{
    if (cJSON_IsArray(match)) {
        policy_error(r,
                     "%s: Invalid value: must be an object: of {method, url}, write httpMatch with "
                     "method, host and path; of requests to the API server, write resources",
                     path);
        return true;
    }
    if (field_get(match, "relatedResources") != NULL) {
        policy_error(r, "%s.relatedResources: Forbidden: write resources", path);
        return true;
    }
    return false;
}

/* `acts`: it ever does anything. */
static void read_match(struct policy_reader *r, const cJSON *fault, const char *path, bool acts,
                       cJSON *out)
{
    static const char *const known[] = {"resources", "httpMatch", NULL};
    struct policy_path p = policy_field_path(path, "match");
    struct policy_resources found = {.count = 0};
    struct policy_externals external = {.count = 0};
    size_t before = r->row_count;
    if (is_of_old(r, field_get(fault, "match"), p.text)) {
        return;
    }
    const cJSON *match = policy_object_field(r, fault, path, "match", known);
    policy_resources(r, match, p.text, "resources", false, out, &found);
    policy_http_matches(r, match, p.text, out, &external);
    if (r->row_count == before && external.count == 0) {
        policy_error(r,
                     "%s: Required value: must say in resources or httpMatch which requests are "
                     "meant",
                     p.text);
    }
    if (found.leases) {
        policy_warn(r,
                    "%s.resources: names leases, so it is for those of the operator's own leader "
                    "election, too",
                    p.text);
    }
    if (acts) {
        policy_count_external(r, field_text(out, "name"), &external);
    }
}

/* It needs a name in the document, and elsewhere it need not have one. */
static const char *read_name(struct policy_reader *r, const cJSON *fault, const char *path,
                             size_t i, cJSON *seen, char made[32])
{
    const char *name = policy_text(r, fault, path, "name");
    if (name[0] == '\0' && !cJSON_IsString(field_get(fault, "name")) &&
        field_get(fault, "name") != NULL) {
        return ""; /* that it is no string was told */
    }
    if (name[0] == '\0') {
        (void)snprintf(made, 32, "httpFault-%zu", i);
        policy_warn(r, "%s.name: is not set: it is called %s", path, made);
        name = made;
    }
    return policy_rule_name(r, name, path, seen);
}

static void read_fault(struct policy_reader *r, const cJSON *item, const char *path, size_t i,
                       cJSON *seen)
{
    static const char *const known[] = {"name", "delay", "abort", "match", "effectiveTime", NULL};
    char made[32];
    if (!policy_object(r, item, path, known)) {
        return;
    }
    cJSON *out = cJSON_CreateObject();
    edit_string(&r->edit, out, "name", read_name(r, item, path, i, seen, made));
    if (field_get(item, "delay") == NULL && field_get(item, "abort") == NULL) {
        policy_error(r, "%s.delay: Required value: this, or abort", path);
    }
    bool delays = read_delay(r, item, path, out);
    bool aborts = read_abort(r, item, path, out);
    read_match(r, item, path, delays || aborts, out);
    policy_schedule(r, item, path, out);
    bool meets = field_get(out, "resources") != NULL || field_get(out, "http") != NULL;
    if (meets && (delays || aborts)) {
        edit_append(&r->edit, r->rules, out);
        r->enforced_count++;
    } else {
        cJSON_Delete(out); /* it is wrong, or never does anything */
    }
}

void policy_read_fault_injection(struct policy_reader *r, const cJSON *spec)
{
    static const char *const known[] = {"selector", "disabled", "httpFault", NULL};
    static const char key[] = "httpFault";
    size_t i = 0;
    if (!policy_object(r, spec, "spec", known)) {
        return;
    }
    cJSON *seen = cJSON_CreateArray();
    const cJSON *item = policy_list(r, spec, "spec", key, TRAFFIC_ROWS_MAX);
    for (; item != NULL; item = item->next, i++) {
        struct policy_path p = policy_item_path("spec", key, i);
        read_fault(r, item, p.text, i, seen);
    }
    cJSON_Delete(seen);
    policy_warn_external(r);
}
