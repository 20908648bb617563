/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says whether the rest is a whole policy in JSON or stands in place of some part of
 * a good one, and how much room there is. Whatever it is, another policy of the namespace stays in
 * the document, and the proxies' parser takes the document. A policy that is valid is enforced as
 * it is read: its rules are as many as were counted. One that is not keeps what was published.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "check.h"
#include "policy/traffic_compile.h"
#include "json/json.h"

#define NAMED(kind, name)                                                                          \
    "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"" kind                        \
    "\",\"metadata\":{\"name\":\"" name "\",\"uid\":\"u\"},\"spec\":"
#define META(kind) NAMED(kind, "fuzzed")
#define ROWS                                                                                       \
    "[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\"],\"namespaces\":[\"a\"]}]"

static const struct {
    const char *before;
    const char *after;
} frames[] = {
    {"", ""},
    {META("CircuitBreaker"), "}"},
    {META("CircuitBreaker") "{\"selector\":{},\"rateLimitings\":[", "]}}"},
    {META("CircuitBreaker") "{\"selector\":{},\"rateLimitings\":[{\"name\":\"a\","
                            "\"resourceRules\":" ROWS ",",
     "}]}}"},
    {META("CircuitBreaker") "{\"selector\":", "}}"},
    {META("FaultInjection"), "}"},
    {META("FaultInjection") "{\"selector\":{},\"httpFault\":[", "]}}"},
    {META("FaultInjection") "{\"selector\":{},\"httpFault\":[{\"match\":{\"resources\":[{}]},",
     "}]}}"},
    {META("CircuitBreaker") "{\"selector\":{},\"trafficInterceptRules\":[", "]}}"},
    {META("CircuitBreaker") "{\"selector\":{},\"rateLimitings\":[{\"name\":\"a\","
                            "\"triggerPolicy\":\"ForceOpened\",\"restRules\":[",
     "]}]}}"},
    {META("FaultInjection") "{\"selector\":{},\"httpFault\":[{\"delay\":{\"fixedDelay\":\"1s\","
                            "\"percent\":1},\"match\":{\"httpMatch\":[",
     "]}}]}}"},
};

#define GOOD(name)                                                                                 \
    NAMED("CircuitBreaker", name)                                                                  \
    "{\"selector\":{},\"rateLimitings\":[{\"name\":\"r\",\"triggerPolicy\":\"ForceClosed\","       \
    "\"resourceRules\":" ROWS "}]}}"

static const struct policy_options options = {.zones = "/nonexistent", .now = 1795600000};

/* NULL: it is no policy. */
static struct policy *read_text(const char *text, size_t len)
{
    struct err e = ERR_INIT;
    struct policy_findings f = POLICY_FINDINGS_INIT;
    enum traffic_kind kind;
    struct policy *p = NULL;
    cJSON *tree = json_parse(text, len, &e);
    if (tree != NULL && policy_is_one(tree, &kind)) {
        p = policy_read(kind, tree, &options, &f);
        CHECK(p != NULL && policy_valid(p) != policy_findings_failed(&f));
        CHECK((policy_findings_join(&f, &e) == 0) == policy_valid(p));
        CHECK(policy_valid(p) || e.msg[0] != '\0');
        CHECK((policy_entry(p) != NULL) == (policy_rules(p) > 0));
        CHECK(policy_external_rules(p) <= policy_rules(p));
        CHECK(policy_blind_rules(p) <= policy_external_rules(p));
    }
    policy_findings_deinit(&f);
    cJSON_Delete(tree);
    return p;
}

static struct policy *read_framed(const uint8_t *data, size_t size)
{
    size_t frame = data[0] % ARRAY_LEN(frames);
    struct buf text = BUF_INIT(65536);
    struct policy *p = NULL;
    if (buf_append_str(&text, frames[frame].before) == 0 &&
        buf_append(&text, data + 1, size - 1) == 0 &&
        buf_append_str(&text, frames[frame].after) == 0) {
        p = read_text((const char *)buf_data(&text), text.len);
    }
    buf_reset(&text);
    return p;
}

/* NULL: nothing is in force. */
static struct traffic *compile(const struct policy *const *list, size_t count,
                               const struct traffic *published, size_t room,
                               enum traffic_outcome *outcomes)
{
    struct traffic_source s = {.ns = "ns",
                               .shard = "shard",
                               .generation = 1,
                               .list = list,
                               .count = count,
                               .published = published,
                               .room = room};
    struct traffic_compile_result r = {.outcomes = outcomes};
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct err e = ERR_INIT;
    struct traffic *t = NULL;
    CHECK(traffic_compile(&s, &text, &r, &e) == 0 && text.len <= room);
    if (text.len > 0) {
        t = traffic_parse((const char *)buf_data(&text), text.len, &e);
        CHECK(t != NULL && traffic_policy_count(t) == r.compiled);
        CHECK(strcmp(traffic_checksum(t), r.checksum) == 0);
    }
    buf_reset(&text);
    return t;
}

static size_t count_rules(const struct traffic *t)
{
    return t == NULL
               ? 0
               : traffic_limiting_count(t) + traffic_intercept_count(t) + traffic_fault_count(t);
}

static void check_compiled(const struct policy *p, const struct policy *other, size_t room)
{
    const struct policy *const both[] = {p, other};
    enum traffic_outcome outcomes[2];
    struct traffic *t = compile(both, 1, NULL, TRAFFIC_TEXT_MAX, outcomes);
    CHECK(count_rules(t) == (outcomes[0] == TRAFFIC_COMPILED ? policy_rules(p) : 0));
    CHECK(t == NULL || policy_valid(p));
    traffic_unref(t);
    t = compile(both, 2, NULL, room, outcomes);
    CHECK(outcomes[1] == TRAFFIC_COMPILED || room < TRAFFIC_TEXT_MAX);
    traffic_unref(t);
}

/* What was published stays, if the policy is not valid and there. */
static void check_kept(const struct policy *p, const struct policy *other)
{
    enum traffic_outcome outcome;
    struct traffic *before = compile(&other, 1, NULL, TRAFFIC_TEXT_MAX, &outcome);
    struct traffic *after = compile(&p, 1, before, TRAFFIC_TEXT_MAX, &outcome);
    if (outcome == TRAFFIC_KEPT) {
        CHECK(!policy_valid(p));
        CHECK(strcmp(traffic_checksum(before), traffic_checksum(after)) == 0);
    }
    traffic_unref(before);
    traffic_unref(after);
}

static struct policy *read_good(const char *text)
{
    struct policy *p = read_text(text, strlen(text));
    CHECK(p != NULL && policy_valid(p));
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy *p = size > 0 ? read_framed(data, size) : NULL;
    if (p == NULL) {
        return 0;
    }
    struct policy *other = read_good(GOOD("other"));
    struct policy *earlier = read_good(GOOD("fuzzed"));
    size_t room = data[0] < 0x80 ? TRAFFIC_TEXT_MAX : (size_t)data[0] * 4;
    if (strcmp(policy_name(p), policy_name(other)) != 0) { /* as names in a namespace are */
        check_compiled(p, other, room);
    }
    check_kept(p, earlier);
    policy_unref(earlier);
    policy_unref(other);
    policy_unref(p);
    return 0;
}
