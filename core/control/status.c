/* SPDX-License-Identifier: Apache-2.0 */
#include "control/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/decimal.h"
#include "base/rfc3339.h"
#include "document/document.h"
#include "schema/schema.h"
#include "traffic/traffic.h"
#include "json/field.h"
#include "json/json.h"

#define INTEGER_MAX ((UINT64_C(1) << 53) - 1) /* what a JSON number holds exactly */
#define SECONDS_MAX UINT64_C(253402300799)    /* the last second of the year 9999 */

/* A count since the start of the program. */
#define COUNT(name_, type_, member_)                                                               \
    {                                                                                              \
        (name_), SCHEMA_NUMBER64, SCHEMA_MEMBER(type_, member_), .max = INTEGER_MAX                \
    }

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* 0; -EPROTO with the path of the field in the message, or -ENOMEM. */
static int read_object(const struct schema_object *o, const char *path, const cJSON *item,
                       void *out, struct err *e)
{
    struct schema_reader r = {.null_is_value = true};
    const struct schema_path at = SCHEMA_AT(NULL, path, item);
    memset(out, 0, o->size);
    int rc = schema_read(&r, o, &at, out);
    return rc == 0 ? 0 : err_set(e, rc == -ENOMEM ? rc : -EPROTO, "%s", r.first.msg);
}

/* Whether it is there and makes sense; otherwise *out is undefined. */
static bool read_part(const struct schema_object *o, const cJSON *item, void *out)
{
    return item != NULL && read_object(o, "", item, out, NULL) == 0;
}

/* Whether it is a whole number from `min` to `max`. */
static bool read_integer(const cJSON *item, uint64_t min, uint64_t max, uint64_t *out)
{
    double n = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(n >= (double)min && n <= (double)max) || (double)(uint64_t)n < n) {
        return false;
    }
    *out = (uint64_t)n;
    return true;
}

/* ---- a document that is in force ---- */

/* Of rules, and of traffic policies. */
struct told {
    bool in_force; /* otherwise only `reads` is there */
    const char *reads;
    struct document_shard shard;
    uint64_t generation;
    const char *checksum;
    int64_t since;
    bool settled;
};

#define TOLD(member_) SCHEMA_MEMBER(struct told, member_)
static const struct schema_field told_fields[] = {
    {"inForce", SCHEMA_BOOL, TOLD(in_force), .required = ""},
    {"reads", SCHEMA_TEXT, TOLD(reads), .flags = SCHEMA_LENIENT},
    {"shard", SCHEMA_PART, TOLD(shard), .required = "", .object = &document_shard},
    {"generation", SCHEMA_NUMBER64, TOLD(generation), .required = "", .min = 1, .max = INTEGER_MAX},
    {"checksum", SCHEMA_TEXT, TOLD(checksum), .required = "", .check = document_check_checksum},
    /* Not as other times are: managers of 0.1.0 read seconds alone. */
    {"since", SCHEMA_TIME, TOLD(since), .required = "", .flags = SCHEMA_SECONDS},
    {"settled", SCHEMA_BOOL, TOLD(settled), .flags = SCHEMA_LENIENT},
};
#define TOLD_OBJECT(first, count_)                                                                 \
    {                                                                                              \
        .fields = told_fields + (first), .count = (count_), .size = sizeof(struct told),           \
        .open = true                                                                               \
    }
static const struct schema_object told_head = TOLD_OBJECT(0, 2);
static const struct schema_object told_rules = TOLD_OBJECT(2, 3);
static const struct schema_object told_rules_since = TOLD_OBJECT(2, 4);
static const struct schema_object told_traffic = TOLD_OBJECT(0, 6);
static const struct schema_object told_proxy = TOLD_OBJECT(0, 7);

static struct told tell(const struct control_state *s, const char *reads, bool settled)
{
    return (struct told){.in_force = s->enforcing,
                         .reads = reads,
                         .shard = {s->shard_namespace, s->shard_name},
                         .generation = s->generation,
                         .checksum = s->checksum,
                         .since = s->since,
                         .settled = settled};
}

static void take(const struct told *t, struct control_state *out)
{
    out->enforcing = true;
    (void)snprintf(out->shard_namespace, sizeof out->shard_namespace, "%s", t->shard.namespace);
    (void)snprintf(out->shard_name, sizeof out->shard_name, "%s", t->shard.name);
    (void)snprintf(out->checksum, sizeof out->checksum, "%s", t->checksum);
    out->generation = t->generation;
    out->since = t->since;
}

bool control_rules_add(cJSON *object, const struct control_state *s)
{
    const struct told t = tell(s, "", false);
    return schema_write_json(&told_rules, &t, object);
}

int control_rules_read(const cJSON *object, const char *path, struct control_state *out,
                       struct err *e)
{
    struct told t;
    int rc = read_object(&told_rules_since, path, object, &t, e);
    if (rc == 0) {
        take(&t, out);
    }
    return rc;
}

/* ---- GET /status ---- */

void control_proxy_status_add(cJSON *rules, const struct control_proxy_status *s)
{
    const struct told t = tell(&s->rules, rules_version_text(RULES_NEWEST), s->settled);
    (void)schema_write_json(t.in_force ? &told_proxy : &told_head, &t, rules);
}

int control_proxy_status_read(const cJSON *root, struct control_proxy_status *out, struct err *e)
{
    const cJSON *rules = member(root, "rules");
    struct told t;
    memset(out, 0, sizeof *out);
    int rc = read_object(&told_head, "rules", rules, &t, e);
    if (rc == 0 && t.in_force) {
        rc = read_object(&told_proxy, "rules", rules, &t, e);
    }
    if (rc != 0) {
        return rc;
    }
    out->reads = rules_version_common(t.reads);
    if (t.in_force) {
        out->settled = t.settled;
        take(&t, &out->rules);
    }
    return 0;
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

#define LEASE(member_) SCHEMA_MEMBER(struct control_rules_lease, member_)
static const struct schema_field lease_fields[] = {
    {"remaining", SCHEMA_NUMBER64, LEASE(remaining_s), .max = INTEGER_MAX},
    {"seconds", SCHEMA_NUMBER64, LEASE(seconds), .required = "", .min = CONTROL_RULES_LEASE_MIN_S,
     .max = CONTROL_RULES_LEASE_MAX_S},
    {"expired", SCHEMA_BOOL, LEASE(expired), .flags = SCHEMA_LENIENT},
};
static const struct schema_object lease_of_page = {
    SCHEMA_OBJECT_OF(lease_fields, struct control_rules_lease)};
static const struct schema_object lease_of_all = {.fields = lease_fields + 1,
                                                  .count = ARRAY_LEN(lease_fields) - 1,
                                                  .size = sizeof(struct control_rules_lease),
                                                  .open = true};

void control_rules_lease_add(cJSON *root, const struct control_rules_lease *lease, bool remaining)
{
    if (lease->seconds != 0) {
        (void)schema_write_json(remaining ? &lease_of_page : &lease_of_all, lease,
                                cJSON_AddObjectToObject(root, "lease"));
    }
}

void control_rules_lease_read(const cJSON *root, struct control_rules_lease *out)
{
    if (!read_part(&lease_of_all, member(root, "lease"), out)) {
        *out = (struct control_rules_lease){.seconds = 0};
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
    NULL,
};

const char *control_breaker_state_text(enum control_breaker_state state)
{
    return breaker_states[state];
}

cJSON *control_traffic_status_add(cJSON *root, const struct control_traffic_status *s)
{
    const struct told t = tell(&s->document, TRAFFIC_API_VERSION, false);
    cJSON *traffic = cJSON_AddObjectToObject(root, "traffic");
    (void)schema_write_json(t.in_force ? &told_traffic : &told_head, &t, traffic);
    if (s->error != NULL) {
        cJSON_AddStringToObject(traffic, "error", s->error);
    }
    cJSON_AddArrayToObject(traffic, "breakers");
    cJSON_AddArrayToObject(traffic, "faults");
    cJSON_AddArrayToObject(traffic, "intercepts");
    cJSON_AddNumberToObject(traffic, "leftOut", s->left_out);
    return traffic;
}

void control_traffic_status_read(const cJSON *root, struct control_traffic_status *out)
{
    const cJSON *traffic = member(root, "traffic");
    uint64_t left_out = 0;
    struct told t;
    memset(out, 0, sizeof *out);
    if (!read_part(&told_head, traffic, &t) ||
        (t.in_force && !read_part(&told_traffic, traffic, &t))) {
        return;
    }
    if (t.in_force) {
        take(&t, &out->document);
    }
    out->known = true;
    out->error = cJSON_GetStringValue(member(traffic, "error"));
    if (read_integer(member(traffic, "leftOut"), 0, INT32_MAX, &left_out)) {
        out->left_out = (unsigned)left_out;
    }
}

/* What all rules have. */
#define RULE_FIELDS(type)                                                                          \
    {"policy",                                                                                     \
     SCHEMA_TEXT,                                                                                  \
     SCHEMA_MEMBER(type, policy),                                                                  \
     .required = "",                                                                               \
     .max = CONTROL_TRAFFIC_TEXT_MAX,                                                              \
     .check = name_check_subdomain},                                                               \
        {"uid", SCHEMA_TEXT, SCHEMA_MEMBER(type, uid), .max = CONTROL_TRAFFIC_TEXT_MAX,            \
         .flags = SCHEMA_LENIENT},                                                                 \
    {                                                                                              \
        "rule", SCHEMA_TEXT, SCHEMA_MEMBER(type, rule), .required = "",                            \
                                                        .max = CONTROL_TRAFFIC_TEXT_MAX            \
    }

static const struct schema_field breaker_fields[] = {
    RULE_FIELDS(struct control_breaker),
    {"state", SCHEMA_WORD, SCHEMA_MEMBER(struct control_breaker, state), .required = "",
     .words = breaker_states},
    {"since", SCHEMA_TIME, SCHEMA_MEMBER(struct control_breaker, since)},
    {"until", SCHEMA_TIME, SCHEMA_MEMBER(struct control_breaker, until)},
    {"why", SCHEMA_TEXT, SCHEMA_MEMBER(struct control_breaker, why),
     .max = CONTROL_TRAFFIC_TEXT_MAX, .flags = SCHEMA_LENIENT},
    COUNT("refused", struct control_breaker, refused),
};
static const struct schema_object breaker = {
    SCHEMA_OBJECT_OF(breaker_fields, struct control_breaker), .open = true};

static const struct schema_field fault_fields[] = {
    RULE_FIELDS(struct control_fault),
    COUNT("delayed", struct control_fault, delayed),
    COUNT("aborted", struct control_fault, aborted),
};
static const struct schema_object fault = {SCHEMA_OBJECT_OF(fault_fields, struct control_fault),
                                           .open = true};

static const struct schema_field intercept_fields[] = {
    RULE_FIELDS(struct control_intercept),
    COUNT("refused", struct control_intercept, refused),
};
static const struct schema_object intercept = {
    SCHEMA_OBJECT_OF(intercept_fields, struct control_intercept), .open = true};

static bool add_row(cJSON *traffic, const char *list, const struct schema_object *o,
                    const void *row)
{
    cJSON *item = cJSON_CreateObject();
    if (!schema_write_json(o, row, item) ||
        !cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(traffic, list), item)) {
        cJSON_Delete(item);
        return false;
    }
    return true;
}

static bool next_row(const cJSON *root, const char *list, const struct schema_object *o,
                     const cJSON **row, void *out)
{
    const cJSON *rows = member(member(root, "traffic"), list);
    const cJSON *next = *row != NULL ? (*row)->next : cJSON_IsArray(rows) ? rows->child : NULL;
    while (next != NULL && !read_part(o, next, out)) {
        next = next->next;
    }
    *row = next;
    return next != NULL;
}

bool control_traffic_breaker_add(cJSON *traffic, const struct control_breaker *row)
{
    return add_row(traffic, "breakers", &breaker, row);
}

bool control_traffic_fault_add(cJSON *traffic, const struct control_fault *row)
{
    return add_row(traffic, "faults", &fault, row);
}

bool control_traffic_intercept_add(cJSON *traffic, const struct control_intercept *row)
{
    return add_row(traffic, "intercepts", &intercept, row);
}

bool control_traffic_next_breaker(const cJSON *root, const cJSON **row, struct control_breaker *out)
{
    return next_row(root, "breakers", &breaker, row, out);
}

bool control_traffic_next_fault(const cJSON *root, const cJSON **row, struct control_fault *out)
{
    return next_row(root, "faults", &fault, row, out);
}

bool control_traffic_next_intercept(const cJSON *root, const cJSON **row,
                                    struct control_intercept *out)
{
    return next_row(root, "intercepts", &intercept, row, out);
}

/* ---- requests to other places ---- */

static const struct schema_field egress_fields[] = {
    {"address", SCHEMA_TEXT, SCHEMA_MEMBER(struct control_egress_status, address), .required = "",
     .max = CONTROL_TRAFFIC_TEXT_MAX, .flags = SCHEMA_EMPTY},
    COUNT("requests", struct control_egress_status, requests),
    COUNT("refused", struct control_egress_status, refused),
    COUNT("failed", struct control_egress_status, failed),
    COUNT("tunnels", struct control_egress_status, tunnels),
};
static const struct schema_object egress = {
    SCHEMA_OBJECT_OF(egress_fields, struct control_egress_status)};
/* Only the address is read. */
static const struct schema_object egress_address = {.fields = egress_fields,
                                                    .count = 1,
                                                    .size = sizeof(struct control_egress_status),
                                                    .open = true};

void control_egress_status_add(cJSON *root, const struct control_egress_status *s)
{
    (void)schema_write_json(&egress, s, cJSON_AddObjectToObject(root, "egress"));
}

void control_egress_status_read(const cJSON *root, struct control_egress_status *out)
{
    bool known = read_part(&egress_address, member(root, "egress"), out);
    if (!known) {
        *out = (struct control_egress_status){.address = ""};
    }
    out->known = known;
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
