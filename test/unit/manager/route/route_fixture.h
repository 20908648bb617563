/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_fixture.h - rules, labels of namespaces and random numbers for tests of routing. Selectors
 * are written with N, H and C in place of the keys of control labels.
 */
#ifndef TEST_UNIT_MANAGER_ROUTE_FIXTURE_H
#define TEST_UNIT_MANAGER_ROUTE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "kube/selector.h"
#include "label/labels.h"
#include "rules/rules.h"
#include "rules/sharding.h"
#include "json/json.h"

static const struct labels_keys fixture_keys = {
    .key = {[LABELS_NAMESPACE] = "N", [LABELS_SHARD_HASH] = "H", [LABELS_CONTROL] = "C"}};

/* Limits as "RESOURCE.GROUP:SELECTOR", separated by `;`; without a resource, on pods. "": none. */
__attribute__((unused)) static struct rules *fixture_rules(const char *limits)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    (void)buf_append_str(&text, "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                                "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":1,\"spec\":{"
                                "\"labels\":{\"namespace\":\"N\",\"shardHash\":\"H\",\"control\":"
                                "\"C\"},\"limits\":[");
    for (const char *at = limits; *at != '\0';) {
        int len = (int)strcspn(at, ";");
        int resource = (int)strcspn(at, ".:;");
        int head = (int)strcspn(at, ":;");
        bool named = head < len;
        int group = named && resource < head ? head - resource - 1 : 0;
        (void)buf_printf(&text,
                         "%s{\"apiGroups\":[\"%.*s\"],\"resources\":[\"%.*s\"],\"selector\":\"%."
                         "*s\"}",
                         at == limits ? "" : ",", group, at + resource + 1, named ? resource : 4,
                         named ? at : "pods", named ? len - head - 1 : len,
                         named ? at + head + 1 : at);
        at += len + (at[len] == ';');
    }
    (void)buf_append_str(&text, "]}}");
    struct rules *r = rules_parse_plain((const char *)buf_data(&text), text.len, &e);
    if (r == NULL) {
        fail_msg("%s: %s", limits, e.msg);
    }
    buf_reset(&text);
    return r;
}

__attribute__((unused)) static cJSON *fixture_json(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *json = json_parse(text, strlen(text), &e);
    if (json == NULL) {
        fail_msg("%s: %s", e.msg, text);
    }
    return json;
}

/* Whether a namespace matches a namespaceSelector. `hash`: the value of that label, "" to have it
 * right; `labelled`: it has control labels. Each is also of a team, red or blue. */
__attribute__((unused)) static bool fixture_matches(const cJSON *selector, const char *ns,
                                                    const char *hash, bool labelled)
{
    char number[16];
    struct err e = ERR_INIT;
    (void)snprintf(number, sizeof number, "%u", sharding_hash(ns));
    const struct selector_label labels[] = {
        {SLICE("team"), strlen(ns) % 2 == 0 ? SLICE("red") : SLICE("blue")},
        {SLICE("C"), SLICE("true")},
        {SLICE("N"), slice_str(ns)},
        {SLICE("H"), slice_str(*hash == '\0' ? number : hash)},
    };
    struct selector *s = selector_from_label_selector(selector, "namespaceSelector", &e);
    if (s == NULL) {
        fail_msg("%s", e.msg);
    }
    bool matches = selector_matches(s, labels, labelled ? 4 : 1);
    selector_free(s);
    return matches;
}

struct fixture_random {
    uint64_t state;
};

__attribute__((unused)) static unsigned fixture_pick(struct fixture_random *r, unsigned below)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return (unsigned)((r->state >> 20) % below);
}

__attribute__((unused)) static struct fixture_random fixture_random_of(uint64_t seed)
{
    return (struct fixture_random){.state = seed * 0x9e3779b97f4a7c15u + 1};
}

#endif
