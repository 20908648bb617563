/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Secret of the webhooks' certificates in an API server that keeps it, with one replica of the
 * manager and with two.
 */
#include "webhook/certificates.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "storing_api.h"

#define SECRETS "secrets", "cmesh-system"

enum { REPLICAS = 2, DAY = 24 * 3600, PATIENCE = 4000 };

static const char *const names[] = {"cmesh-webhook.cmesh-system.svc"};

struct fixture;

/* What one manager has. */
struct replica {
    struct fixture *world;
    struct certificates *certificates;
    struct tls_config *tls;
    unsigned served; /* times that another certificate came */
    char bundle[16384];
    bool published; /* every authority is */
    struct kube_client *client;
};

struct fixture {
    struct net_loop *loop;
    struct storing_api store;
    struct replica replicas[REPLICAS];
};

/* ---- a replica ---- */

static void on_serving(void *data, struct tls_config *tls)
{
    struct replica *r = data;
    assert_true(r->bundle[0] != '\0'); /* it comes first */
    tls_config_unref(r->tls);
    r->tls = tls_config_ref(tls);
    r->served++;
}

static void on_bundle(void *data, struct slice bundle)
{
    struct replica *r = data;
    (void)snprintf(r->bundle, sizeof r->bundle, "%.*s", (int)bundle.len, bundle.ptr);
}

static bool is_published(void *data, struct slice authority)
{
    struct replica *r = data;
    (void)authority;
    return r->published;
}

static const struct certificates_handlers handlers = {
    .on_serving = on_serving,
    .on_bundle = on_bundle,
    .is_published = is_published,
};

static struct certificates_options options(struct replica *r)
{
    return (struct certificates_options){
        .client = r->client,
        .namespace = "cmesh-system",
        .names = names,
        .name_count = 1,
        .authority_seconds = 100 * DAY,
        .serving_seconds = 9 * DAY,
        .settle_ms = 5000,
        .clock = &r->world->store.api.clock.clock,
        .ops = &r->world->store.ops,
    };
}

static void start(struct fixture *f, size_t i)
{
    struct replica *r = &f->replicas[i];
    struct err e = ERR_INIT;
    r->world = f;
    r->client = f->store.api.client;
    struct certificates_options o = options(r);
    r->certificates = certificates_new(f->loop, &o, &handlers, r, &e);
    if (r->certificates == NULL) {
        fail_msg("%s", e.msg);
    }
}

static void stop(struct replica *r)
{
    certificates_free(r->certificates);
    tls_config_unref(r->tls);
    *r = (struct replica){.world = r->world};
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0 || !store_open(&f->store, f->loop)) {
        return -1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < REPLICAS; i++) {
        stop(&f->replicas[i]);
    }
    store_close(&f->store);
    int rc = loop_teardown((void **)&f->loop);
    free(f);
    return rc;
}

/* ---- the Secret ---- */

static const char *field(struct fixture *f, const char *key)
{
    const cJSON *secret = store_get(&f->store, SECRETS, CERTIFICATES_SECRET);
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(secret, "data");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, key));
    return text == NULL ? "" : text;
}

static struct certificate *read_field(struct fixture *f, const char *key)
{
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    assert_int_equal(base64_decode(slice_str(field(f, key)), &text), 0);
    struct certificate *c = certificate_read(buf_slice(&text), NULL, &e);
    buf_reset(&text);
    if (c == NULL) {
        fail_msg("%s: %s", key, e.msg);
    }
    return c;
}

/* The Secret as it is, for a change. */
static cJSON *secret_copy(struct fixture *f)
{
    cJSON *copy = cJSON_Duplicate(store_get(&f->store, SECRETS, CERTIFICATES_SECRET), true);
    assert_non_null(copy);
    return copy;
}

static void overwrite(struct fixture *f, const char *key, const char *value)
{
    cJSON *secret = secret_copy(f);
    cJSON *data = cJSON_GetObjectItemCaseSensitive(secret, "data");
    cJSON_DeleteItemFromObjectCaseSensitive(data, key);
    cJSON_AddStringToObject(data, key, value);
    store_put(&f->store, SECRETS, secret);
}

/* What every replica that is all right shows. */
static void expect_good(struct fixture *f, size_t i)
{
    struct replica *r = &f->replicas[i];
    struct certificate *authority = read_field(f, "ca.crt");
    struct certificate *serving = read_field(f, "tls.crt");
    struct certificate *trusted = certificate_read(slice_str(r->bundle), NULL, NULL);
    assert_non_null(trusted);
    assert_true(certificate_same(trusted, authority));
    assert_true(certificate_signed_by(serving, authority));
    assert_true(certificate_has_name(serving, names[0]));
    assert_true(certificates_ready(r->certificates));
    assert_int_equal(certificates_stats(r->certificates)->serving_expires,
                     certificate_not_after(serving));
    const char *error = certificates_error(r->certificates);
    if (error != NULL) {
        fail_msg("%s", error);
    }
    certificate_free(authority);
    certificate_free(serving);
    certificate_free(trusted);
}

/* ---- tests ---- */

static void test_the_first_start_makes_everything(void **state)
{
    struct fixture *f = *state;
    start(f, 0);
    assert_false(certificates_ready(f->replicas[0].certificates));
    assert_non_null(strstr(certificates_error(f->replicas[0].certificates), "not been read yet"));
    store_settle(&f->store);
    expect_good(f, 0);
    const cJSON *secret = store_get(&f->store, SECRETS, CERTIFICATES_SECRET);
    assert_string_equal(cJSON_GetObjectItem(secret, "type")->valuestring, "kubernetes.io/tls");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(secret, "data")), 4);
    assert_int_equal(f->store.writes, 1);
    assert_int_equal(f->replicas[0].served, 1);
    assert_int_equal(certificates_stats(f->replicas[0].certificates)->replaced, 0);
}

static void test_what_is_there_is_used(void **state)
{
    struct fixture *f = *state;
    start(f, 0);
    store_settle(&f->store);
    stop(&f->replicas[0]);
    start(f, 0);
    store_settle(&f->store);
    expect_good(f, 0);
    assert_int_equal(f->store.writes, 1);
}

/* The certificate is the same, and is served anew with what is asked of clients now. */
static void test_other_clients_are_trusted(void **state)
{
    struct fixture *f = *state;
    start(f, 0);
    certificates_clients_changed(f->replicas[0].certificates); /* there is nothing to serve yet */
    store_settle(&f->store);
    assert_int_equal(f->replicas[0].served, 1);
    certificates_clients_changed(f->replicas[0].certificates);
    store_settle(&f->store);
    certificates_check(f->replicas[0].certificates);
    store_settle(&f->store);
    assert_int_equal(f->replicas[0].served, 2);
    assert_int_equal(f->store.writes, 1);
}

static void test_two_replicas_start_at_once(void **state)
{
    struct fixture *f = *state;
    f->store.held = true; /* both find nothing, and both write */
    start(f, 0);
    start(f, 1);
    store_settle(&f->store);
    f->store.held = false;
    store_go_on(&f->store);
    store_settle(&f->store);
    store_pass(&f->store, 60000);
    store_settle(&f->store);
    expect_good(f, 0);
    expect_good(f, 1);
    assert_string_equal(f->replicas[0].bundle, f->replicas[1].bundle);
    assert_int_equal(f->store.writes, 1);
    assert_int_equal(f->store.conflicts, 1);
    assert_int_equal(f->replicas[0].served, 1);
    assert_int_equal(f->replicas[1].served, 1);
}

static void test_a_renewal_reaches_both(void **state)
{
    struct fixture *f = *state;
    start(f, 0);
    start(f, 1);
    store_settle(&f->store);
    for (int days = 0; days < 30; days++) {
        fake_clock_jump(&f->store.api.clock, (uint64_t)DAY * 1000);
        store_pass(&f->store, 600000);
        store_settle(&f->store);
        store_pass(&f->store, 30000);
        store_settle(&f->store);
        expect_good(f, 0);
        expect_good(f, 1);
    }
    assert_in_range(f->store.writes, 5, 7); /* of 9 days' life 6, from 27 hours before its birth */
    assert_int_equal(f->replicas[0].served, f->store.writes);
    assert_int_equal(f->replicas[1].served, f->store.writes);
}

/* How many certificates a replica's bundle has. */
static int trusted(struct replica *r)
{
    int n = 0;
    for (const char *p = r->bundle; (p = strstr(p, "BEGIN CERT")) != NULL; p++) {
        n++;
    }
    return n;
}

static void test_an_authority_is_used_only_when_all_trust_it(void **state)
{
    struct fixture *f = *state;
    start(f, 0);
    start(f, 1);
    store_settle(&f->store);
    struct certificate *first = read_field(f, "ca.crt");
    fake_clock_jump(&f->store.api.clock, (uint64_t)70 * DAY * 1000);
    for (int i = 0; i < 10; i++) {
        store_pass(&f->store, 600000);
        store_settle(&f->store);
    }
    struct certificate *serving = read_field(f, "tls.crt");
    assert_true(certificate_signed_by(serving, first)); /* a new one, of the old authority */
    struct certificate *next = read_field(f, "next-ca.crt");
    assert_int_equal(trusted(&f->replicas[0]), 2);
    assert_int_equal(trusted(&f->replicas[1]), 2);
    assert_true(certificates_stats(f->replicas[0].certificates)->rotating);

    f->replicas[0].published = true;
    f->replicas[1].published = true;
    certificates_check(f->replicas[0].certificates);
    certificates_check(f->replicas[1].certificates);
    store_pass(&f->store, 4000);
    store_settle(&f->store);
    assert_string_not_equal(field(f, "next-ca.crt"), ""); /* some may not have noticed */
    store_pass(&f->store, 2000);
    store_settle(&f->store);
    struct certificate *now = read_field(f, "ca.crt");
    assert_true(certificate_same(now, next));
    assert_string_equal(field(f, "next-ca.crt"), "");
    expect_good(f, 0);
    expect_good(f, 1);
    assert_int_equal(trusted(&f->replicas[0]), 2);

    fake_clock_jump(&f->store.api.clock, (uint64_t)7 * DAY * 1000);
    store_pass(&f->store, 600000);
    store_settle(&f->store);
    expect_good(f, 0);
    assert_int_equal(trusted(&f->replicas[0]), 1);
    assert_string_equal(field(f, "previous-ca.crt"), "");
    certificate_free(first);
    certificate_free(serving);
    certificate_free(next);
    certificate_free(now);
}

/* It is taken back for a moment: settling begins anew. */
static void test_settling_begins_anew(void **state)
{
    struct fixture *f = *state;
    start(f, 0);
    store_settle(&f->store);
    fake_clock_jump(&f->store.api.clock, (uint64_t)70 * DAY * 1000);
    for (int i = 0; i < 5; i++) {
        store_pass(&f->store, 600000);
        store_settle(&f->store);
    }
    for (int i = 0; i < 5; i++) {
        f->replicas[0].published = true;
        certificates_check(f->replicas[0].certificates);
        store_pass(&f->store, 4000);
        f->replicas[0].published = false;
        certificates_check(f->replicas[0].certificates);
        store_pass(&f->store, 4000);
        store_settle(&f->store);
    }
    assert_string_not_equal(field(f, "next-ca.crt"), "");
}

static void test_damage_is_repaired_while_service_goes_on(void **state)
{
    static const char *const keys[] = {"tls.crt", "tls.key", "ca.crt"};
    struct fixture *f = *state;
    start(f, 0);
    start(f, 1);
    store_settle(&f->store);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        unsigned served = f->replicas[0].served;
        char *bundle = strndup(f->replicas[0].bundle, 200);
        overwrite(f, keys[i], "Z2FyYmFnZQ==");
        store_settle(&f->store);
        store_pass(&f->store, 400000); /* not too often */
        store_settle(&f->store);
        assert_string_not_equal(field(f, keys[i]), "Z2FyYmFnZQ==");
        expect_good(f, 0);
        expect_good(f, 1);
        /* What was held went back: clients notice nothing. */
        assert_int_equal(f->replicas[0].served, served);
        assert_true(strncmp(bundle, f->replicas[0].bundle, 200) == 0);
        free(bundle);
    }
    assert_true(certificates_stats(f->replicas[0].certificates)->replaced +
                    certificates_stats(f->replicas[1].certificates)->replaced >=
                3);
}

static void test_a_deleted_secret_comes_back_with_a_next_authority(void **state)
{
    struct fixture *f = *state;
    start(f, 0);
    start(f, 1);
    store_settle(&f->store);
    struct certificate *before = read_field(f, "ca.crt");
    store_delete(&f->store, SECRETS, CERTIFICATES_SECRET);
    store_settle(&f->store);
    expect_good(f, 0);
    expect_good(f, 1);
    struct certificate *after = read_field(f, "ca.crt");
    assert_true(certificate_same(before, after));
    assert_string_not_equal(field(f, "next-ca.crt"), "");
    assert_int_equal(f->replicas[0].served, 1);
    certificate_free(before);
    certificate_free(after);
}

/* Fields that others put there stay; so does what is no business of ours. */
static void test_what_others_wrote_stays(void **state)
{
    struct fixture *f = *state;
    cJSON *secret = cJSON_Parse("{\"metadata\":{\"name\":\"" CERTIFICATES_SECRET
                                "\",\"annotations\":{\"a\":\"b\"}},\"data\":{\"x\":\"eA==\"}}");
    store_put(&f->store, SECRETS, secret);
    start(f, 0);
    store_settle(&f->store);
    expect_good(f, 0);
    assert_string_equal(field(f, "x"), "eA==");
    const cJSON *now = store_get(&f->store, SECRETS, CERTIFICATES_SECRET);
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(now, "metadata"), "annotations"));
    assert_int_equal(certificates_stats(f->replicas[0].certificates)->replaced, 1);
}

/* It was not another replica that was faster. */
static void test_a_missing_namespace_is_told(void **state)
{
    struct fixture *f = *state;
    store_fail(&f->store, "", 404, STORE_NONE, UINT32_MAX);
    start(f, 0);
    store_settle(&f->store);
    assert_non_null(strstr(certificates_error(f->replicas[0].certificates),
                           "cannot write Secret " CERTIFICATES_SECRET ": 404"));
    assert_int_equal(certificates_stats(f->replicas[0].certificates)->conflicts, 0);
    store_fail(&f->store, "", 0, STORE_NONE, 0);
    store_pass(&f->store, 60000);
    store_settle(&f->store);
    expect_good(f, 0);
}

static void test_a_refused_write_is_tried_again(void **state)
{
    struct fixture *f = *state;
    store_fail(&f->store, "", 500, STORE_NONE, UINT32_MAX);
    start(f, 0);
    store_settle(&f->store);
    assert_false(certificates_ready(f->replicas[0].certificates));
    assert_non_null(strstr(certificates_error(f->replicas[0].certificates),
                           "cannot write Secret " CERTIFICATES_SECRET));
    store_pass(&f->store, 100000);
    unsigned failures = (unsigned)certificates_stats(f->replicas[0].certificates)->failures;
    assert_in_range(failures, 2, 12); /* with growing pauses */
    store_fail(&f->store, "", 0, STORE_NONE, 0);
    store_pass(&f->store, 60000);
    store_settle(&f->store);
    expect_good(f, 0);
}

static void disturb(struct storing_api *s)
{
    static int times;
    if (times++ < 3) {
        store_put(s, SECRETS, cJSON_Duplicate(store_get(s, SECRETS, CERTIFICATES_SECRET), true));
    }
}

static void test_a_conflict_is_looked_at_again(void **state)
{
    struct fixture *f = *state;
    store_put(&f->store, SECRETS,
              cJSON_Parse("{\"metadata\":{\"name\":\"" CERTIFICATES_SECRET "\"}}"));
    f->store.before_write = disturb;
    start(f, 0);
    store_settle(&f->store);
    for (int i = 0; i < 10; i++) {
        store_pass(&f->store, 10000);
        store_settle(&f->store);
    }
    expect_good(f, 0);
    assert_int_equal(f->store.conflicts, 3);
    assert_int_equal(certificates_stats(f->replicas[0].certificates)->conflicts, 3);
}

/* Two managers whose names exclude each other, as a mistake in a flag may make them. */
static void test_two_that_disagree_do_not_fight_fast(void **state)
{
    static const char *const others[] = {"another.name"};
    struct fixture *f = *state;
    struct replica *r = &f->replicas[1];
    start(f, 0);
    store_settle(&f->store);
    r->world = f;
    r->client = f->store.api.client;
    struct certificates_options o = options(r);
    o.names = others;
    r->certificates = certificates_new(f->loop, &o, &handlers, r, NULL);
    store_settle(&f->store);
    for (int i = 0; i < 60; i++) {
        store_pass(&f->store, 10000);
    }
    assert_in_range(f->store.writes, 2, 30);
}

static void test_freed_at_any_moment(void **state)
{
    struct fixture *f = *state;
    f->store.held = true;
    for (int turns = 0; turns < 30; turns++) {
        start(f, 0);
        run_for(f->loop, (uint64_t)(turns / 3));
        stop(&f->replicas[0]);
        fake_clock_forget(&f->store.api.clock);
        f->store.held = turns % 2 == 0;
        store_go_on(&f->store);
    }
    certificates_free(NULL);
}

static void expect_refused(struct fixture *f, struct certificates_options o, const char *says)
{
    struct err e = ERR_INIT;
    o.client = f->store.api.client;
    assert_null(certificates_new(f->loop, &o, &handlers, NULL, &e));
    assert_int_equal(e.code, -22);
    assert_non_null(strstr(e.msg, says));
}

static void test_wrong_options(void **state)
{
    struct fixture *f = *state;
    struct replica r = {.world = f};
    struct certificates_options o = options(&r);
    o.namespace = "Not/One";
    expect_refused(f, o, "namespace");
    o = options(&r);
    o.secret = "x/y";
    expect_refused(f, o, "x/y cannot be the name of a Secret");
    o = options(&r);
    o.name_count = 0;
    expect_refused(f, o, "needs 1 to 64 names");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_start_makes_everything),
        TEST(test_what_is_there_is_used),
        TEST(test_other_clients_are_trusted),
        TEST(test_two_replicas_start_at_once),
        TEST(test_a_renewal_reaches_both),
        TEST(test_an_authority_is_used_only_when_all_trust_it),
        TEST(test_settling_begins_anew),
        TEST(test_damage_is_repaired_while_service_goes_on),
        TEST(test_a_deleted_secret_comes_back_with_a_next_authority),
        TEST(test_what_others_wrote_stays),
        TEST(test_a_missing_namespace_is_told),
        TEST(test_a_refused_write_is_tried_again),
        TEST(test_a_conflict_is_looked_at_again),
        TEST(test_two_that_disagree_do_not_fight_fast),
        TEST(test_freed_at_any_moment),
        TEST(test_wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
