/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Secret of the webhooks' certificates in an API server that keeps it, with one replica of the
 * manager and with two.
 */
#include "webhook/certificates.h"

#include <stdio.h>
#include <stdlib.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/log.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "storing_api.h"

#define SECRETS "secrets", "cmesh-system"

enum { REPLICAS = 2, DAY = 24 * 3600, PATIENCE = 4000 };

static const char *const names[] = {"cmesh-webhook.cmesh-system.svc"};

struct world;

/* What one manager has. */
struct replica {
    struct world *world;
    struct certificates *certificates;
    struct tls_config *tls;
    unsigned served; /* times that another certificate came */
    char bundle[16384];
    bool published; /* every authority is */
    struct kube_client *client;
};

struct world {
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

static void start(struct world *w, size_t i)
{
    struct replica *r = &w->replicas[i];
    struct err e = ERR_INIT;
    r->world = w;
    r->client = w->store.api.client;
    struct certificates_options o = options(r);
    r->certificates = certificates_new(w->loop, &o, &handlers, r, &e);
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
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL || loop_setup((void **)&w->loop) != 0 || !store_open(&w->store, w->loop)) {
        return -1;
    }
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < REPLICAS; i++) {
        stop(&w->replicas[i]);
    }
    store_close(&w->store);
    int rc = loop_teardown((void **)&w->loop);
    free(w);
    return rc;
}

/* ---- the Secret ---- */

static const char *field(struct world *w, const char *key)
{
    const cJSON *secret = store_get(&w->store, SECRETS, CERTIFICATES_SECRET);
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(secret, "data");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, key));
    return text == NULL ? "" : text;
}

static struct certificate *read_field(struct world *w, const char *key)
{
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    assert_int_equal(base64_decode(slice_str(field(w, key)), &text), 0);
    struct certificate *c = certificate_read(buf_slice(&text), NULL, &e);
    buf_reset(&text);
    if (c == NULL) {
        fail_msg("%s: %s", key, e.msg);
    }
    return c;
}

/* The Secret as it is, for a change. */
static cJSON *secret_copy(struct world *w)
{
    cJSON *copy = cJSON_Duplicate(store_get(&w->store, SECRETS, CERTIFICATES_SECRET), true);
    assert_non_null(copy);
    return copy;
}

static void overwrite(struct world *w, const char *key, const char *value)
{
    cJSON *secret = secret_copy(w);
    cJSON *data = cJSON_GetObjectItemCaseSensitive(secret, "data");
    cJSON_DeleteItemFromObjectCaseSensitive(data, key);
    cJSON_AddStringToObject(data, key, value);
    store_put(&w->store, SECRETS, secret);
}

/* What every replica that is all right shows. */
static void expect_good(struct world *w, size_t i)
{
    struct replica *r = &w->replicas[i];
    struct certificate *authority = read_field(w, "ca.crt");
    struct certificate *serving = read_field(w, "tls.crt");
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
    struct world *w = *state;
    start(w, 0);
    assert_false(certificates_ready(w->replicas[0].certificates));
    assert_non_null(strstr(certificates_error(w->replicas[0].certificates), "not been read yet"));
    store_settle(&w->store);
    expect_good(w, 0);
    const cJSON *secret = store_get(&w->store, SECRETS, CERTIFICATES_SECRET);
    assert_string_equal(cJSON_GetObjectItem(secret, "type")->valuestring, "kubernetes.io/tls");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(secret, "data")), 4);
    assert_int_equal(w->store.writes, 1);
    assert_int_equal(w->replicas[0].served, 1);
    assert_int_equal(certificates_stats(w->replicas[0].certificates)->replaced, 0);
}

static void test_what_is_there_is_used(void **state)
{
    struct world *w = *state;
    start(w, 0);
    store_settle(&w->store);
    stop(&w->replicas[0]);
    start(w, 0);
    store_settle(&w->store);
    expect_good(w, 0);
    assert_int_equal(w->store.writes, 1);
}

static void test_two_replicas_start_at_once(void **state)
{
    struct world *w = *state;
    w->store.held = true; /* both find nothing, and both write */
    start(w, 0);
    start(w, 1);
    store_settle(&w->store);
    w->store.held = false;
    store_go_on(&w->store);
    store_settle(&w->store);
    store_pass(&w->store, 60000);
    store_settle(&w->store);
    expect_good(w, 0);
    expect_good(w, 1);
    assert_string_equal(w->replicas[0].bundle, w->replicas[1].bundle);
    assert_int_equal(w->store.writes, 1);
    assert_int_equal(w->store.conflicts, 1);
    assert_int_equal(w->replicas[0].served, 1);
    assert_int_equal(w->replicas[1].served, 1);
}

static void test_a_renewal_reaches_both(void **state)
{
    struct world *w = *state;
    start(w, 0);
    start(w, 1);
    store_settle(&w->store);
    for (int days = 0; days < 30; days++) {
        fake_clock_jump(&w->store.api.clock, (uint64_t)DAY * 1000);
        store_pass(&w->store, 600000);
        store_settle(&w->store);
        store_pass(&w->store, 30000);
        store_settle(&w->store);
        expect_good(w, 0);
        expect_good(w, 1);
    }
    assert_in_range(w->store.writes, 5, 7); /* of 9 days' life 6, from 27 hours before its birth */
    assert_int_equal(w->replicas[0].served, w->store.writes);
    assert_int_equal(w->replicas[1].served, w->store.writes);
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
    struct world *w = *state;
    start(w, 0);
    start(w, 1);
    store_settle(&w->store);
    struct certificate *first = read_field(w, "ca.crt");
    fake_clock_jump(&w->store.api.clock, (uint64_t)70 * DAY * 1000);
    for (int i = 0; i < 10; i++) {
        store_pass(&w->store, 600000);
        store_settle(&w->store);
    }
    struct certificate *serving = read_field(w, "tls.crt");
    assert_true(certificate_signed_by(serving, first)); /* a new one, of the old authority */
    struct certificate *next = read_field(w, "next-ca.crt");
    assert_int_equal(trusted(&w->replicas[0]), 2);
    assert_int_equal(trusted(&w->replicas[1]), 2);
    assert_true(certificates_stats(w->replicas[0].certificates)->rotating);

    w->replicas[0].published = true;
    w->replicas[1].published = true;
    certificates_check(w->replicas[0].certificates);
    certificates_check(w->replicas[1].certificates);
    store_pass(&w->store, 4000);
    store_settle(&w->store);
    assert_string_not_equal(field(w, "next-ca.crt"), ""); /* some may not have noticed */
    store_pass(&w->store, 2000);
    store_settle(&w->store);
    struct certificate *now = read_field(w, "ca.crt");
    assert_true(certificate_same(now, next));
    assert_string_equal(field(w, "next-ca.crt"), "");
    expect_good(w, 0);
    expect_good(w, 1);
    assert_int_equal(trusted(&w->replicas[0]), 2);

    fake_clock_jump(&w->store.api.clock, (uint64_t)7 * DAY * 1000);
    store_pass(&w->store, 600000);
    store_settle(&w->store);
    expect_good(w, 0);
    assert_int_equal(trusted(&w->replicas[0]), 1);
    assert_string_equal(field(w, "previous-ca.crt"), "");
    certificate_free(first);
    certificate_free(serving);
    certificate_free(next);
    certificate_free(now);
}

/* It is taken back for a moment: settling begins anew. */
static void test_settling_begins_anew(void **state)
{
    struct world *w = *state;
    start(w, 0);
    store_settle(&w->store);
    fake_clock_jump(&w->store.api.clock, (uint64_t)70 * DAY * 1000);
    for (int i = 0; i < 5; i++) {
        store_pass(&w->store, 600000);
        store_settle(&w->store);
    }
    for (int i = 0; i < 5; i++) {
        w->replicas[0].published = true;
        certificates_check(w->replicas[0].certificates);
        store_pass(&w->store, 4000);
        w->replicas[0].published = false;
        certificates_check(w->replicas[0].certificates);
        store_pass(&w->store, 4000);
        store_settle(&w->store);
    }
    assert_string_not_equal(field(w, "next-ca.crt"), "");
}

static void test_damage_is_repaired_while_service_goes_on(void **state)
{
    static const char *const keys[] = {"tls.crt", "tls.key", "ca.crt"};
    struct world *w = *state;
    start(w, 0);
    start(w, 1);
    store_settle(&w->store);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        unsigned served = w->replicas[0].served;
        char *bundle = strndup(w->replicas[0].bundle, 200);
        overwrite(w, keys[i], "Z2FyYmFnZQ==");
        store_settle(&w->store);
        store_pass(&w->store, 400000); /* not too often */
        store_settle(&w->store);
        assert_string_not_equal(field(w, keys[i]), "Z2FyYmFnZQ==");
        expect_good(w, 0);
        expect_good(w, 1);
        /* What was held went back: clients notice nothing. */
        assert_int_equal(w->replicas[0].served, served);
        assert_true(strncmp(bundle, w->replicas[0].bundle, 200) == 0);
        free(bundle);
    }
    assert_true(certificates_stats(w->replicas[0].certificates)->replaced +
                    certificates_stats(w->replicas[1].certificates)->replaced >=
                3);
}

static void test_a_deleted_secret_comes_back_with_a_next_authority(void **state)
{
    struct world *w = *state;
    start(w, 0);
    start(w, 1);
    store_settle(&w->store);
    struct certificate *before = read_field(w, "ca.crt");
    store_delete(&w->store, SECRETS, CERTIFICATES_SECRET);
    store_settle(&w->store);
    expect_good(w, 0);
    expect_good(w, 1);
    struct certificate *after = read_field(w, "ca.crt");
    assert_true(certificate_same(before, after));
    assert_string_not_equal(field(w, "next-ca.crt"), "");
    assert_int_equal(w->replicas[0].served, 1);
    certificate_free(before);
    certificate_free(after);
}

/* Fields that others put there stay; so does what is no business of ours. */
static void test_what_others_wrote_stays(void **state)
{
    struct world *w = *state;
    cJSON *secret = cJSON_Parse("{\"metadata\":{\"name\":\"" CERTIFICATES_SECRET
                                "\",\"annotations\":{\"a\":\"b\"}},\"data\":{\"x\":\"eA==\"}}");
    store_put(&w->store, SECRETS, secret);
    start(w, 0);
    store_settle(&w->store);
    expect_good(w, 0);
    assert_string_equal(field(w, "x"), "eA==");
    const cJSON *now = store_get(&w->store, SECRETS, CERTIFICATES_SECRET);
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(now, "metadata"), "annotations"));
    assert_int_equal(certificates_stats(w->replicas[0].certificates)->replaced, 1);
}

static void test_a_refused_write_is_tried_again(void **state)
{
    struct world *w = *state;
    store_fail(&w->store, "", 500, STORE_NONE, UINT32_MAX);
    start(w, 0);
    store_settle(&w->store);
    assert_false(certificates_ready(w->replicas[0].certificates));
    assert_non_null(strstr(certificates_error(w->replicas[0].certificates),
                           "cannot write Secret " CERTIFICATES_SECRET));
    store_pass(&w->store, 100000);
    unsigned failures = (unsigned)certificates_stats(w->replicas[0].certificates)->failures;
    assert_in_range(failures, 2, 12); /* with growing pauses */
    store_fail(&w->store, "", 0, STORE_NONE, 0);
    store_pass(&w->store, 60000);
    store_settle(&w->store);
    expect_good(w, 0);
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
    struct world *w = *state;
    store_put(&w->store, SECRETS,
              cJSON_Parse("{\"metadata\":{\"name\":\"" CERTIFICATES_SECRET "\"}}"));
    w->store.before_write = disturb;
    start(w, 0);
    store_settle(&w->store);
    for (int i = 0; i < 10; i++) {
        store_pass(&w->store, 10000);
        store_settle(&w->store);
    }
    expect_good(w, 0);
    assert_int_equal(w->store.conflicts, 3);
    assert_int_equal(certificates_stats(w->replicas[0].certificates)->conflicts, 3);
}

/* Two managers whose names exclude each other, as a mistake in a flag may make them. */
static void test_two_that_disagree_do_not_fight_fast(void **state)
{
    static const char *const others[] = {"another.name"};
    struct world *w = *state;
    struct replica *r = &w->replicas[1];
    start(w, 0);
    store_settle(&w->store);
    r->world = w;
    r->client = w->store.api.client;
    struct certificates_options o = options(r);
    o.names = others;
    r->certificates = certificates_new(w->loop, &o, &handlers, r, NULL);
    store_settle(&w->store);
    for (int i = 0; i < 60; i++) {
        store_pass(&w->store, 10000);
    }
    assert_in_range(w->store.writes, 2, 30);
}

static void test_freed_at_any_moment(void **state)
{
    struct world *w = *state;
    w->store.held = true;
    for (int turns = 0; turns < 30; turns++) {
        start(w, 0);
        run_for(w->loop, (uint64_t)(turns / 3));
        stop(&w->replicas[0]);
        fake_clock_forget(&w->store.api.clock);
        w->store.held = turns % 2 == 0;
        store_go_on(&w->store);
    }
    certificates_free(NULL);
}

static void expect_refused(struct world *w, struct certificates_options o, const char *says)
{
    struct err e = ERR_INIT;
    o.client = w->store.api.client;
    assert_null(certificates_new(w->loop, &o, &handlers, NULL, &e));
    assert_int_equal(e.code, -22);
    assert_non_null(strstr(e.msg, says));
}

static void test_wrong_options(void **state)
{
    struct world *w = *state;
    struct replica r = {.world = w};
    struct certificates_options o = options(&r);
    o.namespace = "Not/One";
    expect_refused(w, o, "namespace");
    o = options(&r);
    o.secret = "x/y";
    expect_refused(w, o, "x/y cannot be the name of a Secret");
    o = options(&r);
    o.name_count = 0;
    expect_refused(w, o, "needs 1 to 64 names");
}

/* ---- memory ---- */

/* Making certificates takes most of the time and has tests of its own: a sweep makes them once. Its
 * plays begin at the same time by their clock, so they are as good in each. */
struct made {
    struct certificate_pair pair;
    bool kept;
};

static bool sweeps;
static struct made authority;
static struct made server;

static int take(struct made *m, struct certificate_pair *out, struct err *e)
{
    *out = (struct certificate_pair){.cert = strdup(m->pair.cert), .key = strdup(m->pair.key)};
    if (out->cert == NULL || out->key == NULL) {
        certificate_pair_deinit(out);
        return err_memory(e);
    }
    return 0;
}

int __real_certificate_make_authority(const struct certificate_spec *spec,
                                      struct certificate_pair *out, struct err *e);
int __wrap_certificate_make_authority(const struct certificate_spec *spec,
                                      struct certificate_pair *out, struct err *e);
int __real_certificate_make_server(const struct certificate_spec *spec, struct slice ca_cert,
                                   struct slice ca_key, struct certificate_pair *out,
                                   struct err *e);
int __wrap_certificate_make_server(const struct certificate_spec *spec, struct slice ca_cert,
                                   struct slice ca_key, struct certificate_pair *out,
                                   struct err *e);

int __wrap_certificate_make_authority(const struct certificate_spec *spec,
                                      struct certificate_pair *out, struct err *e)
{
    if (!sweeps) {
        return __real_certificate_make_authority(spec, out, e);
    }
    long left = alloc_sweep_pause();
    if (!authority.kept) {
        authority.kept = __real_certificate_make_authority(spec, &authority.pair, e) == 0;
    }
    assert_true(authority.kept);
    alloc_sweep_resume(left);
    return take(&authority, out, e);
}

int __wrap_certificate_make_server(const struct certificate_spec *spec, struct slice ca_cert,
                                   struct slice ca_key, struct certificate_pair *out, struct err *e)
{
    if (!sweeps) {
        return __real_certificate_make_server(spec, ca_cert, ca_key, out, e);
    }
    long left = alloc_sweep_pause();
    if (!server.kept) {
        server.kept = __real_certificate_make_server(spec, ca_cert, ca_key, &server.pair, e) == 0;
    }
    assert_true(server.kept);
    alloc_sweep_resume(left);
    return take(&server, out, e);
}

static bool play(void *data)
{
    struct world *w = calloc(1, sizeof *w);
    struct net_loop *l = w == NULL ? NULL : net_loop_new(NULL);
    (void)data;
    if (l == NULL) {
        free(w);
        return false;
    }
    w->loop = l;
    long left = sweep_left;
    sweep_left = -1; /* the API server always has memory, until it is asked */
    bool well = store_open(&w->store, l);
    struct replica *r = &w->replicas[0];
    r->world = w;
    r->client = w->store.api.client;
    struct certificates_options o = options(r);
    sweep_left = left;
    r->certificates = certificates_new(l, &o, &handlers, r, NULL);
    well = r->certificates != NULL;
    for (int i = 0; well && i < PATIENCE && r->served == 0; i++) {
        store_turn(&w->store, 0);
        fake_clock_pass(&w->store.api.clock, 1000);
        if (i == 30) {
            sweep_left = -1; /* the first half is over: now it must come right */
        }
    }
    sweep_left = -1;
    if (well) {
        assert_int_equal(r->served, 1);
    }
    stop(r);
    store_close(&w->store);
    assert_int_equal(loop_free(l), 0);
    free(w);
    return well;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    log_init("test", LOG_TEXT, LOG_ERROR);
    sweeps = true;
    long n = sweep_allocations(play, NULL);
    sweeps = false;
    certificate_pair_deinit(&authority.pair);
    certificate_pair_deinit(&server.pair);
    print_message("%ld allocations\n", n);
    assert_true(n > 50);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_start_makes_everything),
        TEST(test_what_is_there_is_used),
        TEST(test_two_replicas_start_at_once),
        TEST(test_a_renewal_reaches_both),
        TEST(test_an_authority_is_used_only_when_all_trust_it),
        TEST(test_settling_begins_anew),
        TEST(test_damage_is_repaired_while_service_goes_on),
        TEST(test_a_deleted_secret_comes_back_with_a_next_authority),
        TEST(test_what_others_wrote_stays),
        TEST(test_a_refused_write_is_tried_again),
        TEST(test_a_conflict_is_looked_at_again),
        TEST(test_two_that_disagree_do_not_fight_fast),
        TEST(test_freed_at_any_moment),
        TEST(test_wrong_options),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
