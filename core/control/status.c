/* SPDX-License-Identifier: Apache-2.0 */
#include "control/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/decimal.h"
#include "base/rfc3339.h"
#include "traffic/traffic.h"
#include "json/field.h"
#include "json/json.h"

#define INTEGER_MAX 9007199254740991.0 /* what a JSON number holds exactly */
#define SECONDS_MAX 253402300799.0     /* the last second of the year 9999 */

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static int wrong(struct err *e, const char *path, const char *field, const cJSON *item,
                 const char *what)
{
    return err_set(e, -EPROTO, "%s.%s: %s", path, field, item == NULL ? "is missing" : what);
}

/* ---- rules, wherever they are told ---- */

bool control_rules_add(cJSON *object, const struct control_state *s)
{
    char generation[24]; /* cJSON prints large numbers to 15 digits */
    (void)snprintf(generation, sizeof generation, "%" PRIu64, s->generation);
    cJSON *shard = cJSON_AddObjectToObject(object, "shard");
    return cJSON_AddStringToObject(shard, "namespace", s->shard_namespace) != NULL &&
           cJSON_AddStringToObject(shard, "name", s->shard_name) != NULL &&
           cJSON_AddRawToObject(object, "generation", generation) != NULL &&
           cJSON_AddStringToObject(object, "checksum", s->checksum) != NULL;
}

/* A string that `check` takes; `out` has room for all such. */
static int read_string(const cJSON *item, const char *path, const char *field,
                       const char *(*check)(struct slice), char *out, size_t size, struct err *e)
{
    if (!cJSON_IsString(item)) {
        return wrong(e, path, field, item, "must be a string");
    }
    const char *why = check(slice_str(item->valuestring));
    if (why != NULL) {
        return wrong(e, path, field, item, why);
    }
    (void)snprintf(out, size, "%s", item->valuestring);
    return 0;
}

static int read_shard(const cJSON *object, const char *path, struct control_state *out,
                      struct err *e)
{
    const cJSON *shard = member(object, "shard");
    if (!cJSON_IsObject(shard)) {
        return wrong(e, path, "shard", shard, "must be an object");
    }
    int rc = read_string(member(shard, "namespace"), path, "shard.namespace", name_check_label,
                         out->shard_namespace, sizeof out->shard_namespace, e);
    if (rc != 0) {
        return rc;
    }
    return read_string(member(shard, "name"), path, "shard.name", name_check_subdomain,
                       out->shard_name, sizeof out->shard_name, e);
}

static const char *check_checksum(struct slice text)
{
    const size_t prefix = sizeof "sha256:" - 1;
    bool good = text.len == RULES_CHECKSUM_LEN && memcmp(text.ptr, "sha256:", prefix) == 0 &&
                strspn(text.ptr + prefix, "0123456789abcdef") == text.len - prefix;
    return good ? NULL : "must be \"sha256:\" and 64 lower case hex digits";
}

/* Whether it is a whole number of at least `min`. */
static bool read_integer(const cJSON *item, double min, double max, uint64_t *out)
{
    double n = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(n >= min && n <= max) || (double)(uint64_t)n != n) {
        return false;
    }
    *out = (uint64_t)n;
    return true;
}

static bool read_time(const cJSON *item, int64_t *out)
{
    uint64_t seconds = 0;
    if (cJSON_IsString(item)) {
        return rfc3339_parse(item->valuestring, out) && *out >= 0;
    }
    if (!read_integer(item, 0, SECONDS_MAX, &seconds)) {
        return false;
    }
    *out = (int64_t)seconds;
    return true;
}

int control_rules_read(const cJSON *object, const char *path, struct control_state *out,
                       struct err *e)
{
    const cJSON *generation = member(object, "generation");
    const cJSON *since = member(object, "since");
    out->enforcing = true;
    int rc = read_shard(object, path, out, e);
    if (rc != 0) {
        return rc;
    }
    if (!read_integer(generation, 1, INTEGER_MAX, &out->generation)) {
        return wrong(e, path, "generation", generation, "must be an integer of at least 1");
    }
    rc = read_string(member(object, "checksum"), path, "checksum", check_checksum, out->checksum,
                     sizeof out->checksum, e);
    if (rc != 0) {
        return rc;
    }
    if (!read_time(since, &out->since)) {
        return wrong(e, path, "since", since,
                     "must be a time since 1970, in seconds or in RFC 3339 format");
    }
    return 0;
}

/* ---- GET /status ---- */

void control_proxy_status_add(cJSON *rules, const struct control_proxy_status *s)
{
    cJSON_AddBoolToObject(rules, "inForce", s->rules.enforcing);
    cJSON_AddStringToObject(rules, "reads", rules_version_text(RULES_NEWEST));
    if (s->rules.enforcing && control_rules_add(rules, &s->rules)) {
        /* Not as other times are: managers of 0.1.0 read seconds alone. */
        cJSON_AddNumberToObject(rules, "since", (double)s->rules.since);
        cJSON_AddBoolToObject(rules, "settled", s->settled);
    }
}

int control_proxy_status_read(const cJSON *root, struct control_proxy_status *out, struct err *e)
{
    const cJSON *rules = member(root, "rules");
    const cJSON *in_force = member(rules, "inForce");
    memset(out, 0, sizeof *out);
    if (!cJSON_IsBool(in_force)) {
        return wrong(e, "rules", "inForce", in_force, "must be true or false");
    }
    out->reads = rules_version_common(cJSON_GetStringValue(member(rules, "reads")));
    if (cJSON_IsFalse(in_force)) {
        return 0;
    }
    out->settled = cJSON_IsTrue(member(rules, "settled"));
    return control_rules_read(rules, "rules", &out->rules, e);
}

void control_proxy_use_add(cJSON *root, const struct control_proxy_use *use)
{
    cJSON *clients = cJSON_AddObjectToObject(root, "clients");
    cJSON_AddNumberToObject(clients, "requests", (double)use->requests);
    control_time_add(clients, "first", use->first);
    control_time_add(clients, "last", use->last);
    if (!use->bypass_known && use->bypass_error == NULL) {
        return;
    }
    cJSON *bypass = cJSON_AddObjectToObject(root, "bypass");
    if (use->bypass_known) {
        cJSON_AddNumberToObject(bypass, "connections", (double)use->bypass_connections);
    }
    if (use->bypass_error != NULL) {
        cJSON_AddStringToObject(bypass, "error", use->bypass_error);
    }
}

void control_proxy_use_read(const cJSON *root, struct control_proxy_use *out)
{
    const cJSON *requests = member(member(root, "clients"), "requests");
    const cJSON *connections = member(member(root, "bypass"), "connections");
    memset(out, 0, sizeof *out);
    out->clients_known =
        read_integer(member(root, "uptimeSeconds"), 0, SECONDS_MAX, &out->uptime_s) &&
        read_integer(requests, 0, INTEGER_MAX, &out->requests);
    out->bypass_known = read_integer(connections, 0, INTEGER_MAX, &out->bypass_connections);
}

/* ---- load ---- */

static const char load_others[] = "others";

static void add_counts(cJSON *object, const char *key, const struct control_load_counts *c)
{
    const double counts[] = {(double)c->requests, (double)c->events, (double)c->objects};
    if ((c->requests | c->events | c->objects) != 0) {
        cJSON_AddItemToObject(object, key, cJSON_CreateDoubleArray(counts, ARRAY_LEN(counts)));
    }
}

cJSON *control_load_add(cJSON *root, const struct control_load *l)
{
    cJSON *load = cJSON_AddObjectToObject(root, "load");
    cJSON_AddNumberToObject(load, "sinceSeconds", (double)l->since_s);
    cJSON *buckets = cJSON_AddObjectToObject(load, "buckets");
    for (unsigned i = 0; i < CONTROL_LOAD_BUCKETS; i++) {
        char key[12];
        (void)snprintf(key, sizeof key, "%u", i);
        add_counts(buckets, key, &l->of[i]);
    }
    add_counts(load, load_others, &l->of[CONTROL_LOAD_OTHERS]);
    if (l->unread != 0) {
        cJSON_AddNumberToObject(load, "unread", (double)l->unread);
    }
    return load;
}

/* [requests, events, objects]; NULL: all 0. */
static bool read_counts(const cJSON *array, struct control_load_counts *out)
{
    uint64_t *const counts[] = {&out->requests, &out->events, &out->objects};
    if (array == NULL) {
        return true;
    }
    if (cJSON_GetArraySize(array) != (int)ARRAY_LEN(counts)) {
        return false;
    }
    const cJSON *item = array->child;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++, item = item->next) {
        if (!read_integer(item, 0, INTEGER_MAX, counts[i])) {
            return false;
        }
    }
    return true;
}

static bool read_load(const cJSON *load, struct control_load *out)
{
    const cJSON *buckets = member(load, "buckets");
    const cJSON *unread = member(load, "unread");
    bool good = read_integer(member(load, "sinceSeconds"), 0, SECONDS_MAX, &out->since_s) &&
                cJSON_IsObject(buckets) &&
                read_counts(member(load, load_others), &out->of[CONTROL_LOAD_OTHERS]) &&
                (unread == NULL || read_integer(unread, 0, INTEGER_MAX, &out->unread));
    for (unsigned i = 0; good && i < CONTROL_LOAD_BUCKETS; i++) {
        char key[12];
        (void)snprintf(key, sizeof key, "%u", i);
        good = read_counts(member(buckets, key), &out->of[i]);
    }
    return good;
}

void control_load_read(const cJSON *root, struct control_load *out)
{
    memset(out, 0, sizeof *out);
    out->known = read_load(member(root, "load"), out);
    if (!out->known) {
        memset(out, 0, sizeof *out);
    }
}

void control_rules_lease_add(cJSON *root, const struct control_rules_lease *lease, bool remaining)
{
    if (lease->seconds == 0) {
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(root, "lease");
    cJSON_AddNumberToObject(object, "seconds", (double)lease->seconds);
    if (remaining) {
        cJSON_AddNumberToObject(object, "remaining", (double)lease->remaining_s);
    }
    cJSON_AddBoolToObject(object, "expired", lease->expired);
}

void control_rules_lease_read(const cJSON *root, struct control_rules_lease *out)
{
    const cJSON *lease = member(root, "lease");
    memset(out, 0, sizeof *out);
    if (read_integer(member(lease, "seconds"), CONTROL_RULES_LEASE_MIN_S, CONTROL_RULES_LEASE_MAX_S,
                     &out->seconds)) {
        out->expired = cJSON_IsTrue(member(lease, "expired"));
    } else {
        out->seconds = 0;
    }
}

uint64_t control_lease_required(const char *text)
{
    uint64_t n = decimal_or_zero(slice_str(text));
    if (text[0] == '\0') {
        return 0;
    }
    return n > 0 && n <= RULES_GENERATION_MAX ? n : UINT64_MAX;
}

void control_proxy_source_add(cJSON *root, const char *trouble)
{
    cJSON_AddStringToObject(cJSON_AddObjectToObject(root, "rulesync"), "error", trouble);
}

const char *control_proxy_source_read(const cJSON *root)
{
    return cJSON_GetStringValue(member(member(root, "rulesync"), "error"));
}

/* ---- traffic policies ---- */

static const char *const breaker_states[] = {
    [CONTROL_BREAKER_CLOSED] = "Closed",
    [CONTROL_BREAKER_OPENED] = "Opened",
    [CONTROL_BREAKER_HALF_OPENED] = "HalfOpened",
};

const char *control_breaker_state_text(enum control_breaker_state state)
{
    return breaker_states[state];
}

cJSON *control_traffic_status_add(cJSON *root, const struct control_traffic_status *s)
{
    cJSON *traffic = cJSON_AddObjectToObject(root, "traffic");
    cJSON_AddStringToObject(traffic, "reads", TRAFFIC_API_VERSION);
    cJSON_AddBoolToObject(traffic, "inForce", s->document.enforcing);
    if (s->document.enforcing && control_rules_add(traffic, &s->document)) {
        cJSON_AddNumberToObject(traffic, "since", (double)s->document.since);
    }
    if (s->error != NULL) {
        cJSON_AddStringToObject(traffic, "error", s->error);
    }
    cJSON_AddArrayToObject(traffic, "breakers");
    cJSON_AddArrayToObject(traffic, "faults");
    cJSON_AddArrayToObject(traffic, "intercepts");
    cJSON_AddNumberToObject(traffic, "leftOut", s->left_out);
    return traffic;
}

/* What all rules have. */
static cJSON *add_rule(const char *policy, const char *uid, const char *rule)
{
    cJSON *row = cJSON_CreateObject();
    bool good = cJSON_AddStringToObject(row, "policy", policy) != NULL &&
                (uid[0] == '\0' || cJSON_AddStringToObject(row, "uid", uid) != NULL) &&
                cJSON_AddStringToObject(row, "rule", rule) != NULL;
    if (!good) {
        cJSON_Delete(row);
        return NULL;
    }
    return row;
}

static bool append_rule(cJSON *traffic, const char *list, cJSON *row, bool good)
{
    if (!good || !cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(traffic, list), row)) {
        cJSON_Delete(row);
        return false;
    }
    return true;
}

bool control_traffic_breaker_add(cJSON *traffic, const struct control_breaker *row)
{
    cJSON *item = add_rule(row->policy, row->uid, row->rule);
    bool good =
        cJSON_AddStringToObject(item, "state", control_breaker_state_text(row->state)) != NULL;
    control_time_add(item, "since", row->since);
    control_time_add(item, "until", row->until);
    if (row->why[0] != '\0') {
        cJSON_AddStringToObject(item, "why", row->why);
    }
    good = good && cJSON_AddNumberToObject(item, "refused", (double)row->refused) != NULL;
    return append_rule(traffic, "breakers", item, good);
}

bool control_traffic_fault_add(cJSON *traffic, const struct control_fault *row)
{
    cJSON *item = add_rule(row->policy, row->uid, row->rule);
    bool good = cJSON_AddNumberToObject(item, "delayed", (double)row->delayed) != NULL &&
                cJSON_AddNumberToObject(item, "aborted", (double)row->aborted) != NULL;
    return append_rule(traffic, "faults", item, good);
}

bool control_traffic_intercept_add(cJSON *traffic, const struct control_intercept *row)
{
    cJSON *item = add_rule(row->policy, row->uid, row->rule);
    bool good = cJSON_AddNumberToObject(item, "refused", (double)row->refused) != NULL;
    return append_rule(traffic, "intercepts", item, good);
}

void control_traffic_status_read(const cJSON *root, struct control_traffic_status *out)
{
    const cJSON *traffic = member(root, "traffic");
    const cJSON *in_force = member(traffic, "inForce");
    uint64_t left_out = 0;
    memset(out, 0, sizeof *out);
    if (!cJSON_IsBool(in_force)) {
        return;
    }
    if (cJSON_IsTrue(in_force) &&
        control_rules_read(traffic, "traffic", &out->document, NULL) != 0) {
        memset(out, 0, sizeof *out);
        return;
    }
    out->known = true;
    out->error = cJSON_GetStringValue(member(traffic, "error"));
    if (read_integer(member(traffic, "leftOut"), 0, INT32_MAX, &left_out)) {
        out->left_out = (unsigned)left_out;
    }
}

/* False: it is missing, though it must not, or too long. */
static bool read_row_text(const cJSON *row, const char *key, bool required, const char **out)
{
    *out = field_text(row, key);
    return (!required || (*out)[0] != '\0') && strlen(*out) <= CONTROL_TRAFFIC_TEXT_MAX;
}

static bool read_rule(const cJSON *row, const char **policy, const char **uid, const char **rule)
{
    return read_row_text(row, "policy", true, policy) &&
           name_check_subdomain(slice_str(*policy)) == NULL &&
           read_row_text(row, "uid", false, uid) && read_row_text(row, "rule", true, rule);
}

/* What is missing is 0. */
static bool read_count(const cJSON *row, const char *key, uint64_t *out)
{
    const cJSON *item = member(row, key);
    *out = 0;
    return item == NULL || read_integer(item, 0, INTEGER_MAX, out);
}

static bool read_row_time(const cJSON *row, const char *key, int64_t *out)
{
    const cJSON *item = member(row, key);
    *out = 0;
    return item == NULL || read_time(item, out);
}

static bool read_breaker_state(const cJSON *row, enum control_breaker_state *out)
{
    const char *text = field_text(row, "state");
    for (size_t i = 0; i < ARRAY_LEN(breaker_states); i++) {
        if (strcmp(text, breaker_states[i]) == 0) {
            *out = (enum control_breaker_state)i;
            return true;
        }
    }
    return false;
}

static bool read_breaker(const cJSON *row, void *data)
{
    struct control_breaker *out = data;
    return read_rule(row, &out->policy, &out->uid, &out->rule) &&
           read_breaker_state(row, &out->state) && read_row_time(row, "since", &out->since) &&
           read_row_time(row, "until", &out->until) &&
           read_row_text(row, "why", false, &out->why) && read_count(row, "refused", &out->refused);
}

static bool read_fault(const cJSON *row, void *data)
{
    struct control_fault *out = data;
    return read_rule(row, &out->policy, &out->uid, &out->rule) &&
           read_count(row, "delayed", &out->delayed) && read_count(row, "aborted", &out->aborted);
}

static bool read_intercept(const cJSON *row, void *data)
{
    struct control_intercept *out = data;
    return read_rule(row, &out->policy, &out->uid, &out->rule) &&
           read_count(row, "refused", &out->refused);
}

static bool next_row(const cJSON *root, const char *list, const cJSON **row,
                     bool (*read)(const cJSON *row, void *data), void *data)
{
    const cJSON *rows = member(member(root, "traffic"), list);
    const cJSON *next = *row != NULL ? (*row)->next : cJSON_IsArray(rows) ? rows->child : NULL;
    while (next != NULL && !read(next, data)) {
        next = next->next;
    }
    *row = next;
    return next != NULL;
}

bool control_traffic_next_breaker(const cJSON *root, const cJSON **row, struct control_breaker *out)
{
    return next_row(root, "breakers", row, read_breaker, out);
}

bool control_traffic_next_fault(const cJSON *root, const cJSON **row, struct control_fault *out)
{
    return next_row(root, "faults", row, read_fault, out);
}

bool control_traffic_next_intercept(const cJSON *root, const cJSON **row,
                                    struct control_intercept *out)
{
    return next_row(root, "intercepts", row, read_intercept, out);
}

/* ---- requests to other places ---- */

void control_egress_status_add(cJSON *root, const struct control_egress_status *s)
{
    cJSON *egress = cJSON_AddObjectToObject(root, "egress");
    cJSON_AddStringToObject(egress, "address", s->address);
    cJSON_AddNumberToObject(egress, "requests", (double)s->requests);
    cJSON_AddNumberToObject(egress, "refused", (double)s->refused);
    cJSON_AddNumberToObject(egress, "failed", (double)s->failed);
    cJSON_AddNumberToObject(egress, "tunnels", (double)s->tunnels);
}

void control_egress_status_read(const cJSON *root, struct control_egress_status *out)
{
    const cJSON *address = member(member(root, "egress"), "address");
    *out = (struct control_egress_status){.address = ""};
    if (cJSON_IsString(address) && strlen(address->valuestring) <= CONTROL_TRAFFIC_TEXT_MAX) {
        out->known = true;
        out->address = address->valuestring;
    }
}

/* ---- rulesync ---- */

static const char *const parts[] = {
    [CONTROL_SOURCE] = "source",
    [CONTROL_SEEN] = "seen",
    [CONTROL_ENFORCED] = "enforced",
};

cJSON *control_rulesync_part_add(cJSON *root, enum control_rulesync_part part)
{
    return cJSON_AddObjectToObject(root, parts[part]);
}

void control_rulesync_error_add(cJSON *part, const char *text, int64_t since)
{
    cJSON_AddStringToObject(part, "error", text);
    control_time_add(part, "errorSince", since);
}

void control_rulesync_warning_add(cJSON *part, const char *text)
{
    cJSON_AddStringToObject(part, "warning", text);
}

const char *control_rulesync_trouble(const cJSON *root)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const char *text = field_text(member(root, parts[i]), "error");
        if (text[0] != '\0') {
            return text;
        }
    }
    return field_text(member(root, parts[CONTROL_SOURCE]), "warning");
}

cJSON *control_status_parse(struct slice body, const char *program, struct err *e)
{
    struct err why = ERR_INIT;
    cJSON *root = json_parse(body.ptr != NULL ? body.ptr : "", body.len, &why);
    if (root == NULL) {
        (void)err_set(e, why.code == -ENOMEM ? why.code : -EPROTO, "invalid response: %s", why.msg);
        return NULL;
    }
    if (strcmp(field_text(root, "program"), program) != 0) {
        (void)err_set(e, -EPROTO, "the server there is not %s", program);
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

void control_pod_add(cJSON *root, const struct control_pod *pod)
{
    cJSON *object = cJSON_AddObjectToObject(root, "pod");
    cJSON_AddStringToObject(object, "name", pod->name);
    cJSON_AddStringToObject(object, "uid", pod->uid);
}

struct control_pod control_pod_read(const cJSON *root)
{
    const cJSON *object = member(root, "pod");
    return (struct control_pod){.name = field_text(object, "name"),
                                .uid = field_text(object, "uid")};
}

void control_time_add(cJSON *object, const char *key, int64_t seconds)
{
    char text[RFC3339_SIZE];
    if (seconds != 0 && rfc3339_format(seconds, text) == 0) {
        cJSON_AddStringToObject(object, key, text);
    }
}
