/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The condition Covered, as namespaces and rules change.
 */
#include <stdlib.h>

#include "controller_fixture.h"

#define IN(ns) "ctrlmesh.kusionstack.io/namespace=" ns

static void put(struct fixture *s, const char *ns)
{
    store_put_text(&s->store, "namespaces", "", "{\"metadata\":{\"name\":\"%s\"}}", ns);
}

static void expect(struct fixture *s, const char *shard, const char *key, const char *text)
{
    for (int i = 0; i < 5000 && strcmp(fixture_condition(s, shard, "Covered", key), text) != 0;
         i++) {
        run_for(s->store.api.loop, 2);
    }
    assert_string_equal(fixture_condition(s, shard, "Covered", key), text);
}

static void begin(struct fixture *s)
{
    s->coverage = true;
    put(s, "x");
    put(s, "y");
    put(s, "kube-system");
    fixture_config(s, "a", "pods", IN("x"));
    fixture_config(s, "b", "pods", IN("y"));
    fixture_lead(s);
    expect(s, "a", "reason", "Covered");
    expect(s, "b", "reason", "Covered");
}

static void namespaces_come_and_go(void **state)
{
    struct fixture *s = *state;
    begin(s);
    put(s, "z");
    expect(s, "a", "message", "In no shard: z.");
    expect(s, "b", "reason", "Gaps");
    store_delete(&s->store, "namespaces", "", "z");
    expect(s, "a", "reason", "Covered");
    expect(s, "b", "reason", "Covered");
}

static void rules_change(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_config(s, "b", "pods", IN("x"));
    expect(s, "a", "message", "In no shard: y. In two shards: x (a, b).");
    expect(s, "b", "reason", "Overlaps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(namespaces_come_and_go, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(rules_change, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
