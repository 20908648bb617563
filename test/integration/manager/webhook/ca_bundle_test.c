/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webhook configurations in an API server that keeps them, with one replica of the manager and with
 * two that do not know the same.
 */
#include "webhook/ca_bundle.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "storing_api.h"
#include "webhook/certificate_set.h"

#define MUTATING "mutatingwebhookconfigurations"
#define VALIDATING "validatingwebhookconfigurations"

enum { REPLICAS = 2, DAY = 24 * 3600 };

struct fixture;

struct replica {
    struct fixture *world;
    struct ca_bundle *bundle;
    struct labels_keys keys;
    bool labels; /* it writes match conditions, for these keys */
    bool leads;
    unsigned changes;
};

struct fixture {
    struct net_loop *loop;
    struct storing_api store;
    struct certificate_pair old;
    struct certificate_pair young;
    struct replica replicas[REPLICAS];
};

/* ---- replicas ---- */

static bool may_write(void *data)
{
    const struct replica *r = data;
    return r->leads;
}

static void on_change(void *data)
{
    struct replica *r = data;
    r->changes++;
}

static struct ca_bundle *open_bundle(struct fixture *f, size_t i)
{
    static const char *const hosts[] = {"127.0.0.1"};
    struct replica *r = &f->replicas[i];
    r->world = f;
    const struct ca_bundle_options o = {
        .client = f->store.api.client,
        .namespace = "cmesh-system",
        .service = "cmesh-webhook",
        .hosts = hosts,
        .host_count = 1,
        .keys = r->labels ? &r->keys : NULL,
        .may_write = may_write,
        .on_change = on_change,
        .data = r,
        .clock = &f->store.api.clock.clock,
        .ops = &f->store.ops,
    };
    return ca_bundle_new(f->loop, &o);
}

static struct ca_bundle *start(struct fixture *f, size_t i)
{
    f->replicas[i].leads = true;
    f->replicas[i].bundle = open_bundle(f, i);
    return f->replicas[i].bundle;
}

static void make_authority(const char *name, int64_t born, struct certificate_pair *out)
{
    const struct certificate_spec spec = {
        .common_name = name, .not_before = born, .not_after = born + 300 * DAY};
    assert_int_equal(certificate_make_authority(&spec, out, NULL), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0 || !store_open(&f->store, f->loop)) {
        return -1;
    }
    int64_t now = FAKE_CLOCK_WALL / 1000000;
    make_authority(CERTIFICATE_SET_AUTHORITY "1", now - 10 * DAY, &f->old);
    make_authority(CERTIFICATE_SET_AUTHORITY "2", now - DAY, &f->young);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < REPLICAS; i++) {
        ca_bundle_free(f->replicas[i].bundle);
    }
    store_close(&f->store);
    certificate_pair_deinit(&f->old);
    certificate_pair_deinit(&f->young);
    int rc = loop_teardown((void **)&f->loop);
    free(f);
    return rc;
}

/* ---- configurations ---- */

static cJSON *configuration(const char *name)
{
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app.kubernetes.io/part-of\":\"cmesh\"}},"
        "\"webhooks\":["
        "{\"name\":\"pods\",\"clientConfig\":{\"service\":{\"namespace\":\"cmesh-system\","
        "\"name\":\"cmesh-webhook\",\"path\":\"/mutate/pods\"}}},"
        "{\"name\":\"resources\",\"clientConfig\":{\"url\":\"https://127.0.0.1:1/mutate/resources\""
        "},\"rules\":[]},"
        "{\"name\":\"others\",\"clientConfig\":{\"url\":\"https://other.test/mutate/pods\"}}]}",
        name);
    return cJSON_Parse(text);
}

static const cJSON *webhook(struct fixture *f, const char *resource, const char *name, int index)
{
    const cJSON *object = store_get(&f->store, resource, "", name);
    assert_non_null(object);
    return cJSON_GetArrayItem(cJSON_GetObjectItem(object, "webhooks"), index);
}

/* What a webhook trusts, in base64; "": nothing. */
static const char *bundle_of(struct fixture *f, const char *resource, const char *name, int index)
{
    const cJSON *client = cJSON_GetObjectItem(webhook(f, resource, name, index), "clientConfig");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(client, "caBundle"));
    return text == NULL ? "" : text;
}

static void expect_bundle(struct fixture *f, const char *resource, const char *name,
                          const char *wanted)
{
    struct buf out = BUF_INIT(65536);
    assert_int_equal(base64_encode(slice_str(wanted), &out), 0);
    assert_string_equal(bundle_of(f, resource, name, 0), buf_cstr(&out));
    assert_string_equal(bundle_of(f, resource, name, 1), buf_cstr(&out));
    assert_string_equal(bundle_of(f, resource, name, 2), "");
    buf_reset(&out);
}

static void set(struct ca_bundle *b, const char *text)
{
    ca_bundle_set(b, slice_str(text));
}

/* The replica has these keys of labels. */
static void name_labels(struct fixture *f, size_t i, const char *prefix)
{
    const struct compile_labels names = {
        .prefix = prefix, .namespace = "namespace", .shard_hash = "hash", .control = "control"};
    f->replicas[i].labels = true;
    assert_int_equal(labels_keys_init(&f->replicas[i].keys, &names, NULL), 0);
}

/* The match condition of the webhook for resources; NULL: it has none. */
static const char *condition_of(struct fixture *f)
{
    const cJSON *list = cJSON_GetObjectItem(webhook(f, MUTATING, "cmesh", 1), "matchConditions");
    assert_true(cJSON_GetArraySize(list) <= 1);
    return cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "expression"));
}

/* It is the one for a prefix. */
static void expect_condition(struct fixture *f, const char *prefix)
{
    const char *text = condition_of(f);
    if (prefix == NULL) {
        assert_null(text);
    } else {
        assert_non_null(text);
        assert_non_null(strstr(text, prefix));
    }
}

/* Somebody removes what we wrote. */
static void overwrite(struct fixture *f, const char *resource, const char *name)
{
    store_put(&f->store, resource, "", configuration(name));
}

/* ---- tests ---- */

static void test_nothing_is_written_before_there_is_a_bundle(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    start(f, 0);
    store_settle(&f->store);
    assert_int_equal(f->store.writes, 0);
    assert_false(ca_bundle_published(f->replicas[0].bundle, slice_str(f->old.cert)));
}

static void test_both_kinds_are_put_right(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    overwrite(f, VALIDATING, "cmesh"); /* of the same name */
    struct ca_bundle *b = start(f, 0);
    set(b, f->old.cert);
    assert_false(ca_bundle_published(b, slice_str(f->old.cert)));
    store_settle(&f->store);
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    expect_bundle(f, VALIDATING, "cmesh", f->old.cert);
    assert_int_equal(f->store.writes, 2);
    assert_true(ca_bundle_published(b, slice_str(f->old.cert)));
    assert_false(ca_bundle_published(b, slice_str(f->young.cert)));
    assert_true(f->replicas[0].changes >= 4);
    const struct ca_bundle_stats *stats = ca_bundle_stats(b);
    assert_int_equal(stats->configurations, 2);
    assert_int_equal(stats->webhooks, 4);
    assert_int_equal(stats->wrong, 0);
    assert_null(ca_bundle_error(b));
}

/* That of operators' webhooks, whatever stands in it. */
static void test_routes_are_left_alone(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh-routes");
    overwrite(f, VALIDATING, "cmesh-routes");
    overwrite(f, VALIDATING, "cmesh");
    struct ca_bundle *b = start(f, 0);
    set(b, f->old.cert);
    store_settle(&f->store);
    assert_int_equal(f->store.writes, 1);
    assert_string_equal(bundle_of(f, MUTATING, "cmesh-routes", 0), "");
    assert_string_equal(bundle_of(f, VALIDATING, "cmesh-routes", 0), "");
    assert_true(ca_bundle_published(b, slice_str(f->old.cert)));
    assert_int_equal(ca_bundle_stats(b)->configurations, 1);
    assert_int_equal(ca_bundle_stats(b)->webhooks, 2);
}

static void test_what_comes_and_goes(void **state)
{
    struct fixture *f = *state;
    struct ca_bundle *b = start(f, 0);
    set(b, f->old.cert);
    store_settle(&f->store);
    assert_true(ca_bundle_published(b, slice_str(f->old.cert))); /* nobody needs it */
    overwrite(f, VALIDATING, "new");
    store_settle(&f->store);
    expect_bundle(f, VALIDATING, "new", f->old.cert);
    for (int i = 0; i < 5; i++) {
        overwrite(f, VALIDATING, "new");
        store_settle(&f->store);
        expect_bundle(f, VALIDATING, "new", f->old.cert);
    }
    store_delete(&f->store, VALIDATING, "", "new");
    store_settle(&f->store);
    assert_int_equal(ca_bundle_stats(b)->configurations, 0);
    assert_int_equal(f->store.writes, 6);
    assert_true(ca_bundle_published(b, slice_str(f->young.cert)));
}

static void test_rules_follow(void **state)
{
    static const struct sharding_resource resources[] = {{"", "v1", "configmaps", "ConfigMap"},
                                                         {"", "v1", "pods", "Pod"}};
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    struct ca_bundle *b = start(f, 0);
    set(b, f->old.cert);
    store_settle(&f->store);
    assert_int_equal(
        cJSON_GetArraySize(cJSON_GetObjectItem(webhook(f, MUTATING, "cmesh", 1), "rules")), 0);
    for (size_t count = 2; count > 0; count--) {
        ca_bundle_set_resources(b, resources, count, true);
        store_settle(&f->store);
        const cJSON *rules = cJSON_GetObjectItem(webhook(f, MUTATING, "cmesh", 1), "rules");
        const cJSON *names = cJSON_GetObjectItem(cJSON_GetArrayItem(rules, 0), "resources");
        assert_int_equal(cJSON_GetArraySize(names), (int)count);
    }
    assert_null(cJSON_GetObjectItem(webhook(f, MUTATING, "cmesh", 0), "rules"));
    assert_int_equal(f->store.writes, 3);
}

static int rule_count(struct fixture *f)
{
    const cJSON *rules = cJSON_GetObjectItem(webhook(f, MUTATING, "cmesh", 1), "rules");
    return cJSON_GetArraySize(rules);
}

/* The next leader has not seen yet what the last one had. */
static void test_a_new_leader_takes_no_rules_away(void **state)
{
    static const struct sharding_resource resources[] = {
        {"", "v1", "pods", "Pod"}, {"example.com", "v1", "widgets", "Widget"}};
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    struct ca_bundle *first = start(f, 0);
    set(first, f->old.cert);
    ca_bundle_set_resources(first, resources, 2, true);
    store_settle(&f->store);
    assert_int_equal(rule_count(f), 2);
    unsigned writes = f->store.writes;
    f->replicas[0].leads = false;
    struct ca_bundle *second = start(f, 1);
    set(second, f->old.cert);
    ca_bundle_set_resources(second, resources, 1, false);
    store_settle(&f->store);
    assert_int_equal(rule_count(f), 2);
    assert_int_equal(f->store.writes, writes);
    ca_bundle_set_resources(second, resources, 1, true);
    store_settle(&f->store);
    assert_int_equal(rule_count(f), 1);
    assert_int_equal(f->store.writes, writes + 1);
}

static void test_only_the_leader_writes(void **state)
{
    struct fixture *f = *state;
    struct replica *r = &f->replicas[0];
    overwrite(f, MUTATING, "cmesh");
    struct ca_bundle *b = start(f, 0);
    r->leads = false;
    set(b, f->old.cert);
    store_settle(&f->store);
    assert_int_equal(f->store.writes, 0);
    assert_int_equal(ca_bundle_stats(b)->wrong, 1);
    r->leads = true;
    ca_bundle_check(b);
    store_settle(&f->store);
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    assert_int_equal(ca_bundle_stats(b)->wrong, 0);
}

static void test_two_that_write_at_once(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    f->store.held = true;
    set(start(f, 0), f->old.cert);
    set(start(f, 1), f->old.cert);
    store_settle(&f->store);
    f->store.held = false;
    store_go_on(&f->store);
    store_settle(&f->store);
    store_pass(&f->store, 60000);
    store_settle(&f->store);
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    assert_int_equal(f->store.writes, 1);
    assert_int_equal(f->store.conflicts, 1);
}

/* One has seen the Secret with a next authority, the other has not. */
static void test_who_is_late_undoes_nothing(void **state)
{
    struct fixture *f = *state;
    char both[16384];
    (void)snprintf(both, sizeof both, "%s%s", f->old.cert, f->young.cert);
    overwrite(f, MUTATING, "cmesh");
    set(start(f, 0), f->old.cert);
    set(start(f, 1), both);
    store_settle(&f->store);
    expect_bundle(f, MUTATING, "cmesh", both);
    unsigned writes = f->store.writes;
    for (int i = 0; i < 5; i++) {
        ca_bundle_check(f->replicas[0].bundle);
        ca_bundle_check(f->replicas[1].bundle);
        store_pass(&f->store, 10000);
        store_settle(&f->store);
    }
    assert_int_equal(f->store.writes, writes);
    assert_true(ca_bundle_published(f->replicas[0].bundle, slice_str(f->young.cert)));
    /* And when somebody else removes all, both together put all back. */
    overwrite(f, MUTATING, "cmesh");
    store_settle(&f->store);
    store_pass(&f->store, 10000);
    store_settle(&f->store);
    expect_bundle(f, MUTATING, "cmesh", both);
}

static void test_a_refused_write_is_tried_again(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    store_fail(&f->store, "", 403, STORE_NONE, UINT32_MAX);
    struct ca_bundle *b = start(f, 0);
    set(b, f->old.cert);
    store_settle(&f->store);
    assert_non_null(strstr(ca_bundle_error(b), "cannot write webhook configuration cmesh: 403"));
    store_pass(&f->store, 100000);
    assert_in_range(ca_bundle_stats(b)->failures, 3, 14);
    store_fail(&f->store, "", 0, STORE_NONE, 0);
    store_pass(&f->store, 100000);
    store_settle(&f->store);
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    assert_null(ca_bundle_error(b));
}

static void test_what_others_put_right_is_no_error(void **state)
{
    struct fixture *f = *state;
    set(start(f, 0), f->old.cert);
    store_settle(&f->store);
    overwrite(f, MUTATING, "cmesh");
    store_settle(&f->store);
    cJSON *right = cJSON_Duplicate(store_get(&f->store, MUTATING, "", "cmesh"), true);
    struct replica *r = &f->replicas[0];
    for (int i = 0; i < 3; i++) {
        store_fail(&f->store, "", 403, STORE_NONE, UINT32_MAX);
        r->leads = true;
        overwrite(f, MUTATING, "cmesh");
        store_settle(&f->store);
        assert_non_null(ca_bundle_error(r->bundle));
        if (i == 0) {
            store_put(&f->store, MUTATING, "", right);
        } else if (i == 1) {
            store_delete(&f->store, MUTATING, "", "cmesh");
        } else {
            r->leads = false;
            store_pass(&f->store, 60000);
        }
        store_settle(&f->store);
        assert_null(ca_bundle_error(r->bundle));
    }
}

static void test_the_webhook_for_pods_is_known(void **state)
{
    struct fixture *f = *state;
    const cJSON *selector = NULL;
    struct ca_bundle *b = start(f, 0);
    assert_false(ca_bundle_pods(b, &selector));
    store_settle(&f->store);
    assert_false(ca_bundle_pods(b, &selector)); /* there is none */
    cJSON *object = configuration("cmesh");
    cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "webhooks"), 0);
    cJSON_AddItemToObject(first, "namespaceSelector",
                          cJSON_Parse("{\"matchLabels\":{\"a\":\"b\"}}"));
    store_put(&f->store, MUTATING, "", object);
    unsigned changes = f->replicas[0].changes;
    store_settle(&f->store);
    assert_true(f->replicas[0].changes > changes);
    assert_true(ca_bundle_pods(b, &selector));
    assert_string_equal(store_text(selector, "matchLabels/a"), "b");
    overwrite(f, MUTATING, "cmesh");
    store_settle(&f->store);
    assert_true(ca_bundle_pods(b, &selector));
    assert_null(selector);
    overwrite(f, MUTATING, "another"); /* which of the two is it? */
    store_settle(&f->store);
    assert_false(ca_bundle_pods(b, &selector));
}

/* ---- match conditions ---- */

static void test_a_match_condition_follows_the_version(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    name_labels(f, 0, "a.test");
    struct ca_bundle *b = start(f, 0);
    set(b, f->old.cert);
    store_settle(&f->store);
    expect_condition(f, NULL); /* it may be too old */
    assert_non_null(strstr(ca_bundle_conditions(b), "not known"));
    assert_int_equal(f->store.writes, 1);
    ca_bundle_set_conditions(b, true);
    store_settle(&f->store);
    expect_condition(f, "a.test");
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    assert_string_equal(ca_bundle_conditions(b), "in use");
    assert_int_equal(f->store.writes, 2);
    ca_bundle_set_conditions(b, false);
    store_settle(&f->store);
    expect_condition(f, NULL);
    assert_non_null(strstr(ca_bundle_conditions(b), "not supported"));
    assert_int_equal(f->store.writes, 3);
    assert_null(ca_bundle_error(b));
}

static void test_an_overwritten_match_condition_comes_back(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    name_labels(f, 0, "a.test");
    struct ca_bundle *b = start(f, 0);
    set(b, f->old.cert);
    ca_bundle_set_conditions(b, true);
    for (int i = 0; i < 5; i++) {
        store_settle(&f->store);
        expect_condition(f, "a.test");
        expect_bundle(f, MUTATING, "cmesh", f->old.cert);
        overwrite(f, MUTATING, "cmesh");
    }
    store_settle(&f->store);
    assert_int_equal(ca_bundle_stats(b)->writes, 12); /* two for each of six times */
    assert_int_equal(ca_bundle_stats(b)->wrong, 0);
}

/* How many writes came within ten minutes after all is quiet. */
static unsigned writes_later(struct fixture *f)
{
    unsigned writes = f->store.writes;
    for (int i = 0; i < 20; i++) {
        store_pass(&f->store, 30000);
        store_settle(&f->store);
    }
    return f->store.writes - writes;
}

/* Replicas of an upgrade that have other keys: whoever leads decides, and no other one writes. */
static void test_replicas_with_other_keys(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    for (size_t i = 0; i < REPLICAS; i++) {
        name_labels(f, i, i == 0 ? "a.test" : "b.test");
        set(start(f, i), f->old.cert);
        f->replicas[i].leads = i == 0;
    }
    ca_bundle_set_conditions(f->replicas[0].bundle, true);
    store_settle(&f->store);
    expect_condition(f, "a.test");
    /* The next leader does not know the version: at least nothing is kept from it. */
    f->replicas[0].leads = false;
    f->replicas[1].leads = true;
    ca_bundle_check(f->replicas[1].bundle);
    store_settle(&f->store);
    expect_condition(f, NULL);
    ca_bundle_set_conditions(f->replicas[1].bundle, true);
    store_settle(&f->store);
    expect_condition(f, "b.test");
    ca_bundle_check(f->replicas[0].bundle);
    ca_bundle_check(f->replicas[1].bundle);
    assert_int_equal(writes_later(f), 0);
    expect_condition(f, "b.test");
}

/* One that knows nothing yet leaves alone what the last leader wrote with the same keys. */
static void test_a_new_leader_takes_no_match_condition_away(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    name_labels(f, 0, "a.test");
    name_labels(f, 1, "a.test");
    set(start(f, 0), f->old.cert);
    ca_bundle_set_conditions(f->replicas[0].bundle, true);
    store_settle(&f->store);
    unsigned writes = f->store.writes;
    f->replicas[0].leads = false;
    set(start(f, 1), f->old.cert);
    store_settle(&f->store);
    ca_bundle_set_conditions(f->replicas[1].bundle, true);
    store_settle(&f->store);
    expect_condition(f, "a.test");
    assert_int_equal(f->store.writes, writes);
}

/* Refuses each write while there is a bundle already: that of the condition. */
static struct {
    unsigned status;
    unsigned count;
} refusing;

static void refuse_condition(struct storing_api *s)
{
    const cJSON *object = store_get(s, MUTATING, "", "cmesh");
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "webhooks"), 0);
    const cJSON *client = cJSON_GetObjectItem(first, "clientConfig");
    if (refusing.status != 0 && cJSON_GetObjectItem(client, "caBundle") != NULL) {
        refusing.count++;
        store_fail(s, "", refusing.status, STORE_NONE, 1);
    }
}

static void expect_refused(struct fixture *f, unsigned status, unsigned tries)
{
    overwrite(f, MUTATING, "cmesh");
    refusing.status = status;
    refusing.count = 0;
    f->store.before_write = refuse_condition;
    name_labels(f, 0, "a.test");
    struct ca_bundle *b = start(f, 0);
    ca_bundle_set_conditions(b, true);
    set(b, f->old.cert);
    for (int i = 0; i < 10; i++) {
        store_settle(&f->store);
        store_pass(&f->store, 5000);
    }
    /* All else is right, and it is not asked again and again. */
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    expect_condition(f, NULL);
    assert_non_null(strstr(ca_bundle_conditions(b), "refused"));
    assert_null(ca_bundle_error(b));
    assert_int_equal(ca_bundle_stats(b)->wrong, 0);
    assert_int_equal(refusing.count, tries);
}

static void expect_accepted_again(struct fixture *f)
{
    unsigned count = refusing.count;
    refusing.status = 0;
    store_pass(&f->store, 9 * 60 * 1000);
    store_settle(&f->store);
    expect_condition(f, NULL);
    assert_int_equal(refusing.count, count);
    store_pass(&f->store, 60 * 1000);
    store_settle(&f->store);
    expect_condition(f, "a.test");
    assert_string_equal(ca_bundle_conditions(f->replicas[0].bundle), "in use");
}

static void test_a_match_condition_that_is_invalid(void **state)
{
    struct fixture *f = *state;
    expect_refused(f, 422, 5); /* it may be a conflict for as long as four times */
    expect_accepted_again(f);
}

static void test_a_match_condition_that_is_not_understood(void **state)
{
    struct fixture *f = *state;
    expect_refused(f, 400, 1);
    expect_accepted_again(f);
}

static void test_another_version_is_asked_again(void **state)
{
    struct fixture *f = *state;
    expect_refused(f, 400, 1);
    refusing.status = 0;
    ca_bundle_set_conditions(f->replicas[0].bundle, true);
    store_settle(&f->store);
    expect_condition(f, "a.test");
}

/* While it is refused, all else still follows. */
static void test_a_refused_match_condition_holds_nothing_up(void **state)
{
    struct fixture *f = *state;
    expect_refused(f, 400, 1);
    refusing.status = 0;
    set(f->replicas[0].bundle, f->young.cert);
    store_settle(&f->store);
    expect_bundle(f, MUTATING, "cmesh", f->young.cert);
    expect_condition(f, NULL);
}

/* As an API server does that has the feature switched off. */
static void drop_condition(struct storing_api *s)
{
    static const char path[] = "matchConditions";
    struct api_request *r = LIST_ITEM(s->api.requests.prev, struct api_request, link);
    LIST_FOR_EACH(n, &s->api.requests)
    {
        struct api_request *q = LIST_ITEM(n, struct api_request, link);
        r = strcmp(q->method, "PATCH") == 0 ? q : r;
    }
    char *found = strstr(r->body, path);
    if (found != NULL) {
        refusing.count++;
        memcpy(found, "elsewhere______", strlen(path));
    }
}

static void test_a_match_condition_that_is_dropped(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    refusing.count = 0;
    f->store.before_write = drop_condition;
    name_labels(f, 0, "a.test");
    struct ca_bundle *b = start(f, 0);
    ca_bundle_set_conditions(b, true);
    set(b, f->old.cert);
    for (int i = 0; i < 10; i++) {
        store_settle(&f->store);
        store_pass(&f->store, 5000);
    }
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    expect_condition(f, NULL);
    assert_non_null(strstr(ca_bundle_conditions(b), "refused"));
    assert_int_equal(refusing.count, 1);
    f->store.before_write = NULL;
    refusing.count = 0;
    expect_accepted_again(f);
}

static void disturb(struct storing_api *s)
{
    static unsigned times;
    if (times++ < 3) {
        store_put(s, MUTATING, "", configuration("cmesh"));
    }
}

static void test_a_conflict_is_looked_at_again(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    f->store.before_write = disturb;
    set(start(f, 0), f->old.cert);
    for (int i = 0; i < 10; i++) {
        store_settle(&f->store);
        store_pass(&f->store, 10000);
    }
    expect_bundle(f, MUTATING, "cmesh", f->old.cert);
    assert_int_equal(f->store.conflicts, 3);
    assert_null(ca_bundle_error(f->replicas[0].bundle));
}

static void test_freed_at_any_moment(void **state)
{
    struct fixture *f = *state;
    overwrite(f, MUTATING, "cmesh");
    name_labels(f, 0, "a.test");
    for (int turns = 0; turns < 30; turns++) {
        f->store.held = turns % 2 == 0;
        struct ca_bundle *b = start(f, 0);
        ca_bundle_set_conditions(b, turns % 3 != 0);
        set(b, turns % 4 < 2 ? f->old.cert : f->young.cert);
        store_turn(&f->store, (uint64_t)(turns / 3));
        ca_bundle_free(f->replicas[0].bundle);
        f->replicas[0].bundle = NULL;
        fake_clock_forget(&f->store.api.clock);
        f->store.held = false;
        store_go_on(&f->store);
    }
    ca_bundle_free(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_written_before_there_is_a_bundle),
        TEST(test_both_kinds_are_put_right),
        TEST(test_routes_are_left_alone),
        TEST(test_what_comes_and_goes),
        TEST(test_rules_follow),
        TEST(test_a_new_leader_takes_no_rules_away),
        TEST(test_only_the_leader_writes),
        TEST(test_two_that_write_at_once),
        TEST(test_who_is_late_undoes_nothing),
        TEST(test_a_refused_write_is_tried_again),
        TEST(test_what_others_put_right_is_no_error),
        TEST(test_a_conflict_is_looked_at_again),
        TEST(test_the_webhook_for_pods_is_known),
        TEST(test_a_match_condition_follows_the_version),
        TEST(test_an_overwritten_match_condition_comes_back),
        TEST(test_replicas_with_other_keys),
        TEST(test_a_new_leader_takes_no_match_condition_away),
        TEST(test_a_match_condition_that_is_invalid),
        TEST(test_a_match_condition_that_is_not_understood),
        TEST(test_another_version_is_asked_again),
        TEST(test_a_refused_match_condition_holds_nothing_up),
        TEST(test_a_match_condition_that_is_dropped),
        TEST(test_freed_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
