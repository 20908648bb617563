/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says whether the rest is a whole traffic document or stands in place of some part
 * of a good one. What is taken must write itself as a document that means the same, and find for
 * requests what the lists of the document say when they are read one by one.
 */
#include "traffic/match.h"

#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/array.h"
#include "check.h"
#include "traffic_external.h"

#define HEAD                                                                                       \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"ns\","      \
    "\"name\":\"s\"},\"generation\":1,\"spec\":"
#define BREAKER "{\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"rateLimitings\":["
#define FAULTS "{\"faults\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"httpFault\":["
#define INTERCEPTS                                                                                 \
    "{\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"trafficInterceptRules\":["
#define OPENED "{\"name\":\"r\",\"triggerPolicy\":\"ForceOpened\","
#define ABORTS "{\"name\":\"r\",\"abort\":{\"httpStatus\":503,\"percent\":1},\"match\":{"
#define ROW                                                                                        \
    "{\"apiGroups\":[\"a\"],\"resources\":[\"pods\"],\"verbs\":[\"*\"],\"namespaces\":[\"*\"]}"
#define END "]}}]}}"

static const struct {
    const char *before;
    const char *after;
} frames[] = {
    {"", ""},
    {HEAD, "}"},
    {HEAD "{", "}}"},
    {HEAD BREAKER, END},
    {HEAD FAULTS, END},
    {HEAD BREAKER OPENED "\"resourceRules\":[", "]}" END},
    {HEAD BREAKER OPENED "\"resourceRules\":[" ROW "],", "}" END},
    {HEAD FAULTS ABORTS "\"resources\":[", "]}}" END},
    {HEAD FAULTS "{\"name\":\"r\",\"match\":{\"resources\":[{}]},\"delay\":{\"fixedDelay\":\"1ms\","
                 "\"percent\":1},\"effectiveTime\":{",
     "}}]}}],\"zones\":{\"X\":\"CET-1CEST,M3.5.0,M10.5.0/3\"}}}"},
    {HEAD INTERCEPTS, END},
    {HEAD INTERCEPTS "{\"name\":\"r\",\"interceptType\":\"Whitelist\",\"methods\":[\"GET\"],",
     "}" END},
    {HEAD INTERCEPTS "{\"name\":\"r\",\"interceptType\":\"Blacklist\",\"methods\":[\"*\"],"
                     "\"contentType\":\"Regexp\",\"contents\":[",
     "]}" END},
    {HEAD BREAKER OPENED "\"restRules\":[", "]}" END},
    {HEAD BREAKER OPENED "\"restRules\":[{\"url\":\"http://*.example/*\",\"method\":\"*\"}]},"
                         "{\"name\":\"s\",",
     "}" END},
    {HEAD FAULTS ABORTS "\"httpMatch\":[", "]}}" END},
    {HEAD FAULTS ABORTS "\"httpMatch\":[{", "}]}}" END},
    {HEAD "{\"breakers\":[{\"name\":\"q\",\"spec\":{\"selector\":{\"matchLabels\":{\"x\":\"y\"}},"
          "\"rateLimitings\":[" OPENED "\"resourceRules\":[" ROW "]}]}},{",
     "}]}}"},
};

static struct traffic *parse(struct slice text)
{
    struct err e = ERR_INIT;
    struct traffic *t = traffic_parse(text.ptr, text.len, &e);
    CHECK(t != NULL || (e.code < 0 && e.msg[0] != '\0'));
    return t;
}

/* ---- the lists, one by one ---- */

static bool has(const cJSON *list, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(cJSON_IsNull(item) ? "" : item->valuestring, text) == 0) {
            return true;
        }
    }
    return false;
}

struct question {
    const char *namespace;
    const char *group;
    const char *resource;
    const char *subresource;
    const char *verb;
    bool named_only;
    const char *or_verb; /* NULL: none */
};

/* Whether the row matches with `*` where bits are set, and the resource named in that way. */
static bool row_matches(const cJSON *row, const struct question *q, unsigned wild, int level)
{
    const char *const keys[] = {"namespaces", "apiGroups", "resources", "verbs"};
    const char *const values[] = {q->namespace, q->group, q->resource, q->verb};
    for (size_t d = 0; d < ARRAY_LEN(keys); d++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(row, keys[d]);
        list = list == NULL || list->child == NULL ? NULL : list;
        char name[64];
        bool hit;
        if ((wild >> d & 1) != 0) {
            hit = (list == NULL || has(list, "*")) && !(d == 2 && q->named_only);
        } else if (d != 2 || level == 2) {
            hit = list != NULL && strcmp(values[d], "*") != 0 &&
                  (has(list, values[d]) || (d == 3 && q->or_verb != NULL && has(list, q->or_verb)));
        } else {
            (void)snprintf(name, sizeof name, "%s/%s", level == 0 ? q->resource : "*",
                           q->subresource);
            hit = list != NULL && q->subresource[0] != '\0' && !(level == 1 && q->named_only) &&
                  has(list, name);
        }
        if (!hit) {
            return false;
        }
    }
    return true;
}

/* The rank of the best of its rows; 1000: none matches. */
static int best_of(const cJSON *rows, const struct question *q)
{
    static const unsigned order[] = {0, 1, 2, 4, 8, 3, 5, 6, 9, 10, 12, 7, 11, 13, 14, 15};
    int best = 1000;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        for (int i = 0; i < (int)ARRAY_LEN(order); i++) {
            for (int level = 0; level < 3; level++) {
                int rank = i * 3 + level;
                if (rank < best && row_matches(row, q, order[i], level)) {
                    best = rank;
                }
            }
        }
    }
    /* With `*` as the resource there is one level alone. */
    return best == 1000 ? best : (order[best / 3] & 4) != 0 ? best / 3 * 3 : best;
}

/* The rule of that name in a list of the policy's spec, and a field of it. */
static const cJSON *rule_named(const cJSON *document, const char *family, const char *rules,
                               const char *policy, const char *name)
{
    const cJSON *p;
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(document, "spec");
    cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(spec, family))
    {
        const cJSON *rule;
        int i = 0;
        if (strcmp(cJSON_GetObjectItemCaseSensitive(p, "name")->valuestring, policy) != 0) {
            continue;
        }
        cJSON_ArrayForEach(rule, external_member(external_member(p, "spec"), rules))
        {
            char made[32];
            const char *own = external_string(rule, "name");
            (void)snprintf(made, sizeof made, "httpFault-%d", i++);
            if (strcmp(own == NULL ? made : own, name) == 0) {
                return rule;
            }
        }
    }
    CHECK(false);
    return NULL;
}

static bool found_has(const struct traffic_found *found, size_t i)
{
    for (size_t k = 0; k < found->count; k++) {
        CHECK(k == 0 || found->index[k - 1] < found->index[k]);
        if (found->index[k] == i) {
            return true;
        }
    }
    return false;
}

static void check_question(const struct traffic *t, const cJSON *document, const struct question *q)
{
    struct traffic_active a;
    struct traffic_found found;
    struct traffic_request r = {.namespace = slice_str(q->namespace),
                                .group = slice_str(q->group),
                                .resource = slice_str(q->resource),
                                .subresource = slice_str(q->subresource),
                                .verb = slice_str(q->verb),
                                .or_verb = slice_str(q->or_verb == NULL ? "" : q->or_verb),
                                .named_only = q->named_only};
    int best = 1000;
    traffic_active_set(&a, t, NULL, 0);
    traffic_find_limitings(t, &a, &r, &found);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < traffic_limiting_count(t); i++) {
            const struct traffic_limiting *l = traffic_limiting_at(t, i);
            bool selects = traffic_policy_selects(l->policy, NULL, 0);
            const cJSON *rule =
                rule_named(document, "breakers", "rateLimitings", l->policy->name, l->name);
            int rank = selects ? best_of(external_member(rule, "resourceRules"), q) : 1000;
            best = pass == 0 && rank < best ? rank : best;
            CHECK(pass == 0 || found_has(&found, i) == (rank == best && best < 1000));
        }
    }
    traffic_find_faults(t, &a, &r, &found);
    for (size_t i = 0; i < traffic_fault_count(t); i++) {
        const struct traffic_fault *f = traffic_fault_at(t, i);
        bool met = traffic_policy_selects(f->policy, NULL, 0);
        bool any = false;
        const cJSON *row;
        const cJSON *rule = rule_named(document, "faults", "httpFault", f->policy->name, f->name);
        cJSON_ArrayForEach(row, external_member(external_member(rule, "match"), "resources"))
        {
            for (unsigned wild = 0; wild < 16; wild++) {
                for (int level = 0; level < 3; level++) {
                    any = any || row_matches(row, q, wild, level);
                }
            }
        }
        CHECK(found_has(&found, i) == (met && any));
    }
}

/* ---- other places than the API server ---- */

/* The rules of the document, at their index. */
struct rule_items {
    const cJSON *limitings[TRAFFIC_ROWS_MAX];
    const cJSON *intercepts[TRAFFIC_INTERCEPTS_MAX];
    const cJSON *faults[TRAFFIC_ROWS_MAX];
};

static void find_items(const struct traffic *t, const cJSON *document, struct rule_items *out)
{
    for (size_t i = 0; i < traffic_limiting_count(t); i++) {
        const struct traffic_limiting *l = traffic_limiting_at(t, i);
        out->limitings[i] =
            rule_named(document, "breakers", "rateLimitings", l->policy->name, l->name);
    }
    for (size_t i = 0; i < traffic_intercept_count(t); i++) {
        const struct traffic_intercept *x = traffic_intercept_at(t, i);
        out->intercepts[i] =
            rule_named(document, "breakers", "trafficInterceptRules", x->policy->name, x->name);
    }
    for (size_t i = 0; i < traffic_fault_count(t); i++) {
        const struct traffic_fault *f = traffic_fault_at(t, i);
        out->faults[i] = rule_named(document, "faults", "httpFault", f->policy->name, f->name);
    }
}

static void check_external(const struct traffic *t, const cJSON *document)
{
    static struct rule_items items; /* large */
    struct traffic_active a;
    find_items(t, document, &items);
    traffic_active_set(&a, t, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(external_questions); i++) {
        const struct traffic_external *r = &external_questions[i];
        external_check_judgement(t, &a, items.intercepts, r);
        external_check_address(t, &a, items.intercepts, r);
        external_check_urls(t, &a, items.limitings, r);
        external_check_http(t, &a, items.faults, r);
    }
}

static void check_matches(const struct traffic *t, struct slice text)
{
    static const struct question questions[] = {
        {"", "", "nodes", "", "get", false, NULL},
        {"n", "", "pods", "", "list", false, NULL},
        {"n", "", "pods", "eviction", "create", false, NULL},
        {"n", "a", "pods", "exec", "create", false, "get"},
        {"a", "a", "a", "a", "a", false, NULL},
        {"n", "a", "leases", "", "update", true, NULL},
        {"n", "a", "pods", "status", "update", true, NULL},
        {"*", "*", "*", "*", "*", false, NULL},
    };
    cJSON *document = cJSON_ParseWithLength(text.ptr, text.len);
    CHECK(document != NULL);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        check_question(t, document, &questions[i]);
    }
    check_external(t, document);
    cJSON_Delete(document);
}

static void check_document(const struct traffic *t)
{
    struct buf text = BUF_INIT(2 << 20);
    struct buf again = BUF_INIT(2 << 20);
    CHECK(traffic_to_json(t, &text) == 0);
    struct traffic *second = parse(buf_slice(&text));
    CHECK(second != NULL && traffic_to_json(second, &again) == 0);
    CHECK(slice_eq(buf_slice(&text), buf_slice(&again)));
    CHECK(strcmp(traffic_checksum(t), traffic_checksum(second)) == 0);
    CHECK(traffic_limiting_count(t) == traffic_limiting_count(second));
    CHECK(traffic_fault_count(t) == traffic_fault_count(second));
    for (size_t i = 0; i < traffic_limiting_count(t); i++) {
        CHECK(traffic_limiting_same(traffic_limiting_at(t, i), traffic_limiting_at(second, i)));
    }
    for (size_t i = 0; i < traffic_fault_count(t); i++) {
        const struct schedule *when = traffic_fault_at(t, i)->when;
        (void)(when != NULL && schedule_covers(when, (int64_t)i * 100000000));
    }
    check_matches(t, buf_slice(&text));
    traffic_unref(second);
    buf_reset(&text);
    buf_reset(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    size_t frame = data[0] % (ARRAY_LEN(frames));
    struct buf text = BUF_INIT(1 << 20);
    CHECK(buf_append_str(&text, frames[frame].before) == 0);
    CHECK(buf_append(&text, data + 1, size - 1) == 0);
    CHECK(buf_append_str(&text, frames[frame].after) == 0);
    /* A copy of the exact size: reading past the end shows. */
    struct buf exact = BUF_INIT(text.len);
    CHECK(buf_append(&exact, text.base, text.len) == 0);
    struct traffic *t = parse(buf_slice(&exact));
    if (t != NULL) {
        check_document(t);
    }
    traffic_unref(t);
    buf_reset(&exact);
    buf_reset(&text);
    return 0;
}
