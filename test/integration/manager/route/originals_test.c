/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webhook configurations of an API server that keeps them, also those that are not to be routed.
 */
#include "route/originals.h"

#include <stdlib.h>

#include "route/narrowing.h"
#include "storing_api.h"
#include "json/field.h"

#define PREFIX "ctrlmesh.kusionstack.io"
#define VALIDATING "validatingwebhookconfigurations"
#define MUTATING "mutatingwebhookconfigurations"
#define LABEL "\"labels\":{\"" PREFIX "/route\":\"true\"}"
#define NARROWED                                                                                   \
    "\"namespaceSelector\":{\"matchExpressions\":[{\"key\":\"" PREFIX                              \
    "/control\",\"operator\":\"DoesNotExist\"}]}"

struct user {
    struct storing_api store;
    struct originals *originals;
    unsigned changes;
};

static void on_change(void *data)
{
    struct user *u = data;
    u->changes++;
}

static int setup(void **state)
{
    if (store_setup(state, sizeof(struct user)) != 0) {
        return -1;
    }
    struct user *u = *state;
    const struct originals_options o = {
        .client = u->store.api.client, .prefix = PREFIX, .ops = &u->store.ops};
    u->originals = originals_new(u->store.api.loop, &o);
    originals_listen(u->originals, on_change, u);
    return 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    originals_free(u->originals);
    originals_free(NULL);
    return store_teardown(state);
}

/* `metadata`: of it beside the name; `webhook`: members of its only one. */
static void put(struct user *u, const char *resource, const char *name, const char *metadata,
                const char *webhook)
{
    store_put_text(&u->store, resource, "",
                   "{\"metadata\":{\"name\":\"%s\",\"managedFields\":[1]%s%s},"
                   "\"webhooks\":[{\"name\":\"w\",\"clientConfig\":{\"service\":"
                   "{\"namespace\":\"ops\",\"name\":\"hook\"}}%s%s}]}",
                   name, metadata[0] == '\0' ? "" : ",", metadata, webhook[0] == '\0' ? "" : ",",
                   webhook);
    store_settle(&u->store);
}

static unsigned count(const struct user *u)
{
    unsigned n = 0;
    for (enum originals_kind kind = 0; kind < ORIGINALS_KINDS; kind++) {
        const struct original *o = NULL;
        while ((o = originals_next(u->originals, kind, o)) != NULL) {
            assert_int_equal(o->kind, kind);
            n++;
        }
    }
    return n;
}

static void all_but_our_own_are_kept(void **state)
{
    struct user *u = *state;
    put(u, VALIDATING, "cmesh", LABEL, NARROWED);
    put(u, MUTATING, "cmesh-routes", LABEL, NARROWED);
    assert_true(originals_synced(u->originals));
    assert_int_equal(count(u), 0);
    assert_false(originals_lead_to(u->originals, "ops"));
    put(u, VALIDATING, "asks", LABEL, "");
    put(u, MUTATING, "asks", "", "");
    put(u, MUTATING, "told", "\"annotations\":{\"" PREFIX "/route-narrowed\":\"{\\\"w\\\":{}}\"}",
        "");
    assert_int_equal(count(u), 3);
    const struct original *asks = originals_find(u->originals, ORIGINALS_VALIDATING, "asks");
    assert_true(asks->labelled);
    assert_null(field_get(field_get(asks->object, "metadata"), "managedFields"));
    assert_false(originals_find(u->originals, ORIGINALS_MUTATING, "asks")->labelled);
    const struct original *told = originals_find(u->originals, ORIGINALS_MUTATING, "told");
    assert_true(narrowing_is_ours(told->object, originals_annotation(u->originals), "w"));
}

static void a_label_makes_one_and_unmakes_it(void **state)
{
    struct user *u = *state;
    put(u, MUTATING, "op", "", "");
    unsigned changes = u->changes;
    assert_false(originals_lead_to(u->originals, "ops"));
    put(u, MUTATING, "op", LABEL, "");
    assert_int_equal(u->changes, changes + 1);
    assert_true(originals_lead_to(u->originals, "ops"));
    assert_false(originals_lead_to(u->originals, "other"));
    put(u, MUTATING, "op", LABEL, "\"timeoutSeconds\":3");
    assert_int_equal(u->changes, changes + 2);
    put(u, MUTATING, "op", "", "");
    assert_int_equal(u->changes, changes + 3);
    assert_false(originals_find(u->originals, ORIGINALS_MUTATING, "op")->labelled);
    assert_false(originals_lead_to(u->originals, "ops"));
    put(u, MUTATING, "op", LABEL, "");
    store_delete(&u->store, MUTATING, "", "op");
    store_settle(&u->store);
    assert_int_equal(u->changes, changes + 5);
    assert_int_equal(count(u), 0);
}

static void what_cannot_be_followed_is_said(void **state)
{
    struct user *u = *state;
    originals_free(u->originals);
    u->store.refused.part = MUTATING;
    u->store.refused.status = 403;
    const struct originals_options o = {
        .client = u->store.api.client, .prefix = PREFIX, .ops = &u->store.ops};
    u->originals = originals_new(u->store.api.loop, &o);
    for (unsigned i = 0; i < 20; i++) {
        store_turn(&u->store, 5);
    }
    assert_false(originals_synced(u->originals));
    assert_non_null(originals_error(u->originals));
    u->store.refused.part = NULL;
    store_settle(&u->store);
    assert_true(originals_synced(u->originals));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_but_our_own_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_label_makes_one_and_unmakes_it, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_followed_is_said, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
