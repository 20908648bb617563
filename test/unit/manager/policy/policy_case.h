/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_case.h - policies for tests, from YAML. Include it once.
 */
#ifndef TEST_UNIT_MANAGER_TRAFFIC_POLICY_CASE_H
#define TEST_UNIT_MANAGER_TRAFFIC_POLICY_CASE_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/traffic_compile.h"
#include "yaml/yaml.h"

#define POLICY_CASE_NOW INT64_C(1795600000) /* 26 November 2026 */

static struct policy_options policy_case_options = {.zones = "/nonexistent",
                                                    .now = POLICY_CASE_NOW};

static cJSON *policy_case_tree(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s\n%s", e.msg, text);
    }
    return tree;
}

/* A whole object. */
static inline struct policy *policy_case_object(const char *text, struct policy_findings *f)
{
    cJSON *tree = policy_case_tree(text);
    enum traffic_kind kind;
    assert_true(policy_is_one(tree, &kind));
    struct policy *p = policy_read(kind, tree, &policy_case_options, f);
    assert_non_null(p);
    cJSON_Delete(tree);
    return p;
}

/* One with this name and spec, which is indented by one space. */
static inline const char *policy_case_text(enum traffic_kind kind, const char *name,
                                           const char *spec)
{
    static char text[65536];
    (void)snprintf(text, sizeof text,
                   "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: %s\n"
                   "metadata: {name: %s, namespace: ns, uid: uid-of-%s}\nspec:\n%s",
                   policy_kind_name(kind), name, name, spec);
    return text;
}

/* The document of a shard with that policy alone; NULL: it has none. */
static inline struct traffic *policy_case_document(const struct policy *p)
{
    const struct policy *const list[] = {p};
    enum traffic_outcome outcome;
    struct traffic_compile_result result = {.outcomes = &outcome};
    const struct traffic_source source = {.ns = "demo",
                                          .shard = "blue",
                                          .generation = 1,
                                          .list = list,
                                          .count = 1,
                                          .room = TRAFFIC_TEXT_MAX};
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct err e = ERR_INIT;
    struct traffic *t = NULL;
    assert_int_equal(traffic_compile(&source, &text, &result, &e), 0);
    if (text.len > 0) {
        t = traffic_parse((const char *)buf_data(&text), text.len, &e);
        assert_non_null(t);
    }
    buf_reset(&text);
    return t;
}

/* The findings are exactly these, each of which is the beginning of one, in this order; the list
 * ends with NULL. */
static inline void policy_case_expect(const struct warnings *found, const char *what,
                                      const char *const *want)
{
    size_t i = 0;
    for (; want[i] != NULL; i++) {
        if (i >= found->count || strncmp(found->items[i], want[i], strlen(want[i])) != 0) {
            fail_msg("%s %zu: not \"%s\" but \"%s\"", what, i, want[i],
                     i < found->count ? found->items[i] : "(none)");
        }
    }
    if (i < found->count) {
        fail_msg("%s %zu is too many: \"%s\"", what, i, found->items[i]);
    }
}

#endif
