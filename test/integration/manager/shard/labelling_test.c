/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first rules of a shard wait until what they select by control labels has them; the labeller
 * is played by the test.
 */
#include <stdio.h>
#include <stdlib.h>

#include "controller_fixture.h"

#define BY_NAMESPACE "ctrlmesh.kusionstack.io/namespace=x"

static const struct discovery_resource pods = {.version = "v1",
                                               .group = "",
                                               .plural = "pods",
                                               .namespaced = true,
                                               .preferred = true,
                                               .verbs = DISCOVERY_LIST};

struct played {
    struct fixture s;
    struct label_progress_source source;
    enum label_progress_knowledge known;
    struct label_progress progress;
};

static enum label_progress_knowledge
give_resources(void *data, const struct discovery_resource **all, size_t *count)
{
    *all = &pods;
    *count = 1;
    return ((const struct played *)data)->known;
}

static void give_progress(void *data, const struct discovery_resource *d,
                          struct label_progress *out)
{
    assert_ptr_equal(d, &pods);
    *out = ((const struct played *)data)->progress;
}

static int setup(void **state)
{
    struct played *p = calloc(1, sizeof *p);
    *state = p;
    if (p == NULL || !fixture_open(&p->s)) {
        return -1;
    }
    fixture_begin(&p->s);
    p->source = (struct label_progress_source){give_resources, give_progress, p};
    p->s.labelled = &p->source;
    p->s.wait_for_labels = true;
    p->known = LABELLED_KNOWN;
    p->progress.state = LABELLED_DUE;
    return 0;
}

static int teardown(void **state)
{
    struct played *p = *state;
    bool well = fixture_close(&p->s);
    free(p);
    return well ? 0 : -1;
}

/* The labeller has come to this, and says so. */
static void come_to(struct played *p, enum label_progress_state state)
{
    p->progress.state = state;
    controller_look_again(p->s.controller);
}

static void expect_reason(struct fixture *s, const char *type, const char *reason)
{
    for (int i = 0; i < 5000 && strcmp(fixture_condition(s, "a", type, "reason"), reason) != 0;
         i++) {
        run_for(s->store.api.loop, 2);
    }
    assert_string_equal(fixture_condition(s, "a", type, "reason"), reason);
}

static void test_first_rules_wait(void **state)
{
    struct played *p = *state;
    struct fixture *s = &p->s;
    p->progress.pending = 3;
    fixture_config(s, "a", "pods", BY_NAMESPACE);
    fixture_lead(s);
    expect_reason(s, "Published", "WaitingForLabels");
    expect_reason(s, "Labelled", "Labelling");
    expect_reason(s, "Ready", "WaitingForLabels");
    assert_non_null(strstr(fixture_condition(s, "a", "Published", "message"), "3 waiting"));
    fixture_settle(s);
    assert_int_equal(fixture_generation(s, "a"), 0);
    come_to(p, LABELLED_DONE);
    fixture_expect_generation(s, "a", 1);
    fixture_expect_condition(s, "a", "Labelled", "True");
    fixture_expect_condition(s, "a", "Ready", "True");
    fixture_expect_event(s, "a", "PublishFailed", 0);
}

static void test_later_rules_do_not_wait(void **state)
{
    struct played *p = *state;
    struct fixture *s = &p->s;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_expect_condition(s, "a", "Labelled", "True");
    fixture_config(s, "a", "pods", BY_NAMESPACE);
    fixture_expect_generation(s, "a", 2);
    expect_reason(s, "Labelled", "Labelling");
    fixture_expect_condition(s, "a", "Published", "True");
    /* Nor after somebody has deleted the ConfigMap, for another leader. */
    fixture_retire(s);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    run_for(s->store.api.loop, 200);
    fixture_lead(s);
    fixture_expect_generation(s, "a", 2);
}

/* The manager that wrote the first ones knows that there were some. */
static void test_rules_without_a_status_do_not_wait(void **state)
{
    struct played *p = *state;
    struct fixture *s = &p->s;
    p->progress.state = LABELLED_DONE;
    store_fail(&s->store, "/status", 500, STORE_NONE, 1000);
    fixture_config(s, "a", "pods", BY_NAMESPACE);
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    run_for(s->store.api.loop, 200); /* until the cache shows it */
    come_to(p, LABELLED_DUE);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_expect_generation(s, "a", 1);
}

static void test_another_leader(void **state)
{
    struct played *p = *state;
    struct fixture *s = &p->s;
    p->progress.state = LABELLED_DONE;
    fixture_config(s, "a", "pods", BY_NAMESPACE);
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Labelled", "True");
    fixture_settle(s);
    fixture_retire(s);
    unsigned writes = s->store.writes;
    p->progress.state = LABELLED_DUE; /* its labeller begins anew */
    fixture_lead(s);
    fixture_settle(s);
    assert_string_equal(fixture_condition(s, "a", "Labelled", "status"), "True");
    assert_int_equal(s->store.writes, writes);
}

static void test_not_when_told_not_to(void **state)
{
    struct played *p = *state;
    struct fixture *s = &p->s;
    s->wait_for_labels = false;
    fixture_config(s, "a", "pods", BY_NAMESPACE);
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    expect_reason(s, "Labelled", "Labelling");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_rules_wait),
        TEST(test_later_rules_do_not_wait),
        TEST(test_rules_without_a_status_do_not_wait),
        TEST(test_another_leader),
        TEST(test_not_when_told_not_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
