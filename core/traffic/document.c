/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a traffic document: the envelope, then all policies by the rows of their specs, which has
 * every text and list checked, and bounded as a whole. Then what requests are matched with is made
 * of the rules, policies by their names.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "document/document.h"
#include "kube/name.h"
#include "traffic/traffic_internal.h"
#include "json/field.h"

#define VALUES_BESIDE_MAX 1000

/* ---- the rows ---- */

/* A policy. */
struct entry {
    const char *name;
    const char *uid;
    const char *spec_hash;
    const cJSON *reset; /* of breakers: tokens by rule */
    struct traffic_spec spec;
};

struct body {
    struct schema_list policies[TRAFFIC_KINDS]; /* struct entry */
    const cJSON *zones;                         /* rules of POSIX by name */
};

/* An object of texts of 1 to `max` bytes, by names. */
static void check_texts(struct schema_reader *r, const struct schema_path *at, const char *key,
                        size_t max)
{
    const cJSON *texts = field_get(at->item, key);
    const cJSON *item;
    bool good = texts == NULL || cJSON_IsObject(texts);
    cJSON_ArrayForEach(item, texts)
    {
        good = good && cJSON_IsString(item) && item->valuestring[0] != '\0' &&
               strlen(item->valuestring) <= max;
    }
    if (!good) {
        schema_error(r, at, key, "Invalid value: must be texts of 1 to %zu bytes by name", max);
    }
}

static void check_breaker(struct schema_reader *r, const struct schema_path *at, void *out)
{
    (void)out;
    check_texts(r, at, "reset", TRAFFIC_TOKEN_MAX);
}

static void check_body(struct schema_reader *r, const struct schema_path *at, void *out)
{
    (void)out;
    check_texts(r, at, "zones", TRAFFIC_ZONE_RULE_MAX);
}

#define ENTRY_FIELDS(spec_)                                                                        \
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct entry, name), .required = "",                       \
     .check = name_check_subdomain},                                                               \
        {"uid", SCHEMA_TEXT, SCHEMA_MEMBER(struct entry, uid), .max = TRAFFIC_UID_MAX},            \
        {"specHash", SCHEMA_TEXT, SCHEMA_MEMBER(struct entry, spec_hash), .max = 71},              \
    {                                                                                              \
        "spec", SCHEMA_PART, SCHEMA_MEMBER(struct entry, spec), .required = "", .object = (spec_)  \
    }

static const struct schema_field breaker_fields[] = {
    ENTRY_FIELDS(&circuit_breaker_spec),
    {"reset", SCHEMA_TREE, SCHEMA_MEMBER(struct entry, reset)},
};
static const struct schema_object breaker = {SCHEMA_OBJECT_OF(breaker_fields, struct entry),
                                             .check = check_breaker};

static const struct schema_field fault_fields[] = {ENTRY_FIELDS(&fault_injection_spec)};
static const struct schema_object fault = {SCHEMA_OBJECT_OF(fault_fields, struct entry)};

static const struct schema_field body_fields[] = {
    {"breakers", SCHEMA_LIST, SCHEMA_MEMBER(struct body, policies[TRAFFIC_BREAKER]),
     .max = TRAFFIC_POLICIES_MAX, .flags = SCHEMA_KEYED, .object = &breaker},
    {"faults", SCHEMA_LIST, SCHEMA_MEMBER(struct body, policies[TRAFFIC_FAULT_INJECTION]),
     .max = TRAFFIC_POLICIES_MAX, .flags = SCHEMA_KEYED, .object = &fault},
    {"zones", SCHEMA_TREE, SCHEMA_MEMBER(struct body, zones)},
};
static const struct schema_object body_object = {SCHEMA_OBJECT_OF(body_fields, struct body),
                                                 .check = check_body};

struct document {
    struct document_head head;
    struct body spec;
};

static const char *const versions[] = {TRAFFIC_API_VERSION, NULL};
static const char *const document_kind[] = {TRAFFIC_KIND, NULL};
static const struct schema_field document_fields[] = {
    DOCUMENT_FIELDS(struct document, versions, document_kind),
    {"spec", SCHEMA_PART, SCHEMA_MEMBER(struct document, spec), .required = "",
     .object = &body_object},
};
static const struct schema_object document_object = {
    SCHEMA_OBJECT_OF(document_fields, struct document), .open = true};

/* ---- what is made of it: 0 or -ENOMEM ---- */

static int add_names(struct row_table *rows, uint16_t row, enum row_dimension d,
                     const struct schema_texts *names)
{
    if (names->count == 0) {
        return row_table_name(rows, row, d, "*");
    }
    for (size_t i = 0; i < names->count; i++) {
        if (row_table_name(rows, row, d, names->items[i]) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int add_rows(struct row_table *rows, size_t rule, const struct schema_list *list)
{
    const struct traffic_resource_rule *all = list->items;
    for (size_t i = 0; i < list->count; i++) {
        uint16_t row = row_table_add(rows, rule);
        if (add_names(rows, row, ROW_NAMESPACE, &all[i].namespaces) != 0 ||
            add_names(rows, row, ROW_GROUP, &all[i].groups) != 0 ||
            add_names(rows, row, ROW_RESOURCE, &all[i].resources) != 0 ||
            add_names(rows, row, ROW_VERB, &all[i].verbs) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int add_limitings(struct traffic *t, const struct traffic_policy *policy,
                         const struct entry *of)
{
    struct traffic_limiting *all = of->spec.limitings.items;
    for (size_t i = 0; i < of->spec.limitings.count; i++) {
        const char *token = cJSON_GetStringValue(field_get(of->reset, all[i].name));
        size_t index = t->limiting_count++;
        all[i].policy = policy;
        all[i].reset = token == NULL ? "" : token;
        t->limitings[index] = &all[i];
        if (add_rows(&t->limiting_rows, index, &all[i].resources) != 0 ||
            external_table_urls(&t->external, index, &all[i].urls) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int add_intercepts(struct traffic *t, const struct traffic_policy *policy,
                          const struct entry *of)
{
    struct traffic_intercept *all = of->spec.intercepts.items;
    for (size_t i = 0; i < of->spec.intercepts.count; i++) {
        size_t index = t->intercept_count++;
        all[i].policy = policy;
        t->intercepts[index] = &all[i];
        if (all[i].content == TRAFFIC_HOSTS &&
            external_table_names(&t->external, index, &all[i].contents) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int add_faults(struct traffic *t, const struct traffic_policy *policy,
                      const struct entry *of)
{
    struct traffic_fault *all = of->spec.faults.items;
    for (size_t i = 0; i < of->spec.faults.count; i++) {
        if (!traffic_fault_acts(&all[i])) {
            continue;
        }
        size_t index = t->fault_count++;
        all[i].policy = policy;
        t->faults[index] = &all[i];
        if (add_rows(&t->fault_rows, index, &all[i].resources) != 0 ||
            external_table_http(&t->external, index, &all[i].http) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->name, (*(const struct entry *const *)b)->name);
}

/* By name. */
static int add_policies(struct traffic *t, enum traffic_kind kind, const struct schema_list *list)
{
    const struct entry *sorted[TRAFFIC_POLICIES_MAX];
    const struct entry *all = list->items;
    for (size_t i = 0; i < list->count; i++) {
        sorted[i] = &all[i];
    }
    qsort(sorted, list->count, sizeof(const struct entry *), compare_entries);
    for (size_t i = 0; i < list->count; i++) {
        struct traffic_policy *policy = &t->policies[t->policy_count++];
        *policy = (struct traffic_policy){.kind = kind,
                                          .name = sorted[i]->name,
                                          .uid = sorted[i]->uid,
                                          .spec_hash = sorted[i]->spec_hash,
                                          .pods = sorted[i]->spec.pods};
        if (add_limitings(t, policy, sorted[i]) != 0 || add_intercepts(t, policy, sorted[i]) != 0 ||
            add_faults(t, policy, sorted[i]) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int allocate(struct traffic *t)
{
    struct schema_memory *m = &t->reading.memory;
    const size_t *counts = t->reading.counts.of;
    t->policies = schema_alloc(m, counts[TRAFFIC_BOUND_POLICIES] + 1, sizeof *t->policies);
    t->limitings = schema_alloc(m, counts[TRAFFIC_BOUND_LIMITINGS] + 1, sizeof *t->limitings);
    t->intercepts = schema_alloc(m, counts[TRAFFIC_BOUND_INTERCEPTS] + 1, sizeof *t->intercepts);
    t->faults = schema_alloc(m, counts[TRAFFIC_BOUND_FAULTS] + 1, sizeof *t->faults);
    bool all =
        t->policies != NULL && t->limitings != NULL && t->intercepts != NULL && t->faults != NULL;
    return all ? external_table_init(&t->external, m, &t->reading.counts) : -ENOMEM;
}

static int build(struct traffic *t, const struct body *body)
{
    int rc = allocate(t);
    for (int kind = 0; kind < TRAFFIC_KINDS && rc == 0; kind++) {
        rc = add_policies(t, (enum traffic_kind)kind, &body->policies[kind]);
    }
    if (rc != 0 || row_table_build(&t->limiting_rows) != 0 ||
        row_table_build(&t->fault_rows) != 0) {
        return -ENOMEM;
    }
    return external_table_build(&t->external, t->reading.pattern_count > 0);
}

/* ---- the document ---- */

/* The document has the rules of the zones that its faults name. */
static void find_zone(struct schema_reader *r, const struct schema_path *at, const char *name,
                      struct time_zone *out)
{
    const struct traffic_reading *x = r->data;
    struct err e = ERR_INIT;
    const char *rule = cJSON_GetStringValue(field_get(x->data, name));
    if (rule == NULL) {
        schema_error(r, at, NULL, "Invalid value: \"%.100s\": spec.zones has no rule for it", name);
    } else if (time_zone_parse(rule, out, &e) != 0) {
        schema_error(r, at, NULL, "Invalid value: \"%.100s\": %s", name, e.msg);
    }
}

static void read_document(struct schema_reader *r, struct traffic *t)
{
    char too_long[64];
    struct document d = {.spec.zones = NULL};
    const struct schema_path at = SCHEMA_AT(NULL, "", t->document);
    (void)snprintf(too_long, sizeof too_long, "it has more than %d bytes",
                   TRAFFIC_TEXT_MAX - TRAFFIC_FRAME_MAX);
    if (schema_read(r, &document_object, &at, &d) != 0) {
        return;
    }
    t->generation = d.head.generation;
    t->shard_namespace = d.head.shard.namespace;
    t->shard_name = d.head.shard.name;
    if (build(t, &d.spec) != 0) {
        schema_fail(r, -ENOMEM, &at, NULL, "%s", "");
        return;
    }
    document_checksum(r, &d.head, TRAFFIC_TEXT_MAX - TRAFFIC_FRAME_MAX, "spec", too_long,
                      t->checksum);
}

struct traffic *traffic_parse(const char *text, size_t len, struct err *e)
{
    static const struct document_bounds bounds = {
        .bytes = TRAFFIC_TEXT_MAX, .values = TRAFFIC_VALUES_MAX, .beside = VALUES_BESIDE_MAX};
    struct err why = ERR_INIT;
    struct slice document = document_without_mark(slice_of(text, len));
    struct traffic *t = calloc(1, sizeof *t);
    if (t == NULL) {
        err_memory(e);
        return NULL;
    }
    t->refs = 1;
    t->document = document_parse(document, &bounds, &why);
    if (why.code == 0) {
        t->reading.zone = find_zone;
        t->reading.data = (void *)field_get(field_get(t->document, "spec"), "zones");
        struct schema_reader r = traffic_reader(&t->reading);
        r.text = document;
        r.root = t->document;
        read_document(&r, t);
        why = r.first;
    }
    if (why.code != 0) {
        traffic_unref(t);
        err_set(e, why.code, "%s", why.msg);
        return NULL;
    }
    return t;
}
