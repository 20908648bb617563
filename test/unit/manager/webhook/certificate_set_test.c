/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/certificate_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/secret.h"
#include "crypto/digest.h"

enum { YEAR = 365 * 24 * 3600, DAYS_90 = 90 * 24 * 3600 };

#define NOW INT64_C(1767225600)

static const char *const names[] = {"cmesh-webhook.cmesh-system.svc", "10.0.0.1"};
static const struct certificate_rules rules = {
    .names = names, .name_count = 2, .authority_seconds = YEAR, .serving_seconds = DAYS_90};

/* A Secret, as it changes. */
struct world {
    cJSON *secret;
    struct certificate_set set;
    struct certificate_plan plan;
    int64_t now;
};

static cJSON *data_of(struct world *w)
{
    return cJSON_GetObjectItemCaseSensitive(w->secret, "data");
}

static void read_again(struct world *w)
{
    certificate_set_deinit(&w->set);
    assert_int_equal(certificate_set_read(&w->set, w->secret), 0);
}

static void plan(struct world *w, bool next_trusted)
{
    certificate_set_plan(&w->set, &rules, w->now, next_trusted, &w->plan);
}

/* Carries the plan out, as the API server would with a merge patch. */
static void carry_out(struct world *w)
{
    struct err e = ERR_INIT;
    cJSON *change = certificate_set_change(&w->set, &rules, w->now, &w->plan, &e);
    if (change == NULL) {
        fail_msg("%s", e.msg);
        return;
    }
    for (cJSON *item = change->child; item != NULL; item = item->next) {
        cJSON_DeleteItemFromObjectCaseSensitive(data_of(w), item->string);
        if (!cJSON_IsNull(item)) {
            cJSON_AddStringToObject(data_of(w), item->string, item->valuestring);
        }
    }
    cJSON_Delete(change);
    read_again(w);
}

static void expect(struct world *w, bool next_trusted, enum certificate_action action,
                   const char *why)
{
    plan(w, next_trusted);
    if (w->plan.action != action || strstr(w->plan.why, why) == NULL) {
        fail_msg("action %d because \"%s\", not %d because \"%s\"", w->plan.action, w->plan.why,
                 action, why);
    }
}

static char *field(struct world *w, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(data_of(w), key);
    return item == NULL ? NULL : item->valuestring;
}

static void set_field(struct world *w, const char *key, const char *text)
{
    struct buf coded = BUF_INIT(65536);
    assert_int_equal(base64_encode(slice_str(text), &coded), 0);
    cJSON_DeleteItemFromObjectCaseSensitive(data_of(w), key);
    cJSON_AddStringToObject(data_of(w), key, buf_cstr(&coded));
    buf_reset(&coded);
    read_again(w);
}

static void copy_field(struct world *w, const char *to, const char *from)
{
    char *text = strdup(field(w, from));
    cJSON_DeleteItemFromObjectCaseSensitive(data_of(w), to);
    cJSON_AddStringToObject(data_of(w), to, text);
    free(text);
    read_again(w);
}

static bool serves(struct world *w)
{
    char why[256];
    return certificate_set_serves(&w->set, &rules, w->now, why);
}

/* How many authorities are trusted. */
static int bundle_size(struct world *w)
{
    struct buf text = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX);
    assert_int_equal(certificate_set_bundle(&w->set, &text), 0);
    struct slice rest = buf_slice(&text);
    int n = 0;
    struct certificate *c;
    while (rest.len > 0 && (c = certificate_read(rest, &rest, NULL)) != NULL) {
        assert_true(certificate_is_authority(c));
        certificate_free(c);
        n++;
    }
    buf_reset(&text);
    return n;
}

static bool trusted(struct world *w, const char *cert)
{
    struct buf text = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX);
    assert_int_equal(certificate_set_bundle(&w->set, &text), 0);
    bool found = strstr(buf_cstr(&text), cert) != NULL;
    buf_reset(&text);
    return found;
}

static int setup_empty(void **state)
{
    static struct world w;
    w = (struct world){.secret = cJSON_CreateObject(), .now = NOW};
    cJSON_AddObjectToObject(w.secret, "data");
    *state = &w;
    return 0;
}

/* All is well. */
static int setup(void **state)
{
    int rc = setup_empty(state);
    struct world *w = *state;
    read_again(w);
    expect(w, false, CERTIFICATE_RESTART, "");
    carry_out(w);
    return rc;
}

static int teardown(void **state)
{
    struct world *w = *state;
    certificate_set_deinit(&w->set);
    cJSON_Delete(w->secret);
    return 0;
}

static void test_nothing_becomes_everything(void **state)
{
    struct world *w = *state;
    read_again(w);
    assert_false(serves(w));
    assert_int_equal(bundle_size(w), 0);
    expect(w, false, CERTIFICATE_RESTART, "the authority's certificate is missing");
    assert_true(w->plan.broken);
    carry_out(w);
    assert_true(serves(w));
    assert_int_equal(bundle_size(w), 1);
    assert_null(field(w, "next-ca.crt"));
    assert_null(field(w, "previous-ca.crt"));
    expect(w, false, CERTIFICATE_KEEP, "");
    assert_in_range(w->plan.next_look, NOW + DAYS_90 * 2 / 3 - 3600, NOW + DAYS_90 * 2 / 3 + 3600);
    assert_int_equal(certificate_not_after(w->set.entries[CERTIFICATE_CURRENT].read), NOW + YEAR);
}

static void test_the_serving_certificate_is_renewed(void **state)
{
    struct world *w = *state;
    char *authority = strdup(field(w, "ca.crt"));
    plan(w, false);
    w->now = w->plan.next_look - 1;
    expect(w, false, CERTIFICATE_KEEP, "");
    w->now++;
    expect(w, false, CERTIFICATE_RENEW, "two thirds of the serving");
    assert_false(w->plan.broken);
    carry_out(w);
    assert_true(serves(w));
    assert_int_equal(certificate_not_after(w->set.entries[CERTIFICATE_SERVING].read),
                     w->now + DAYS_90);
    assert_string_equal(field(w, "ca.crt"), authority);
    expect(w, false, CERTIFICATE_KEEP, "");
    assert_true(w->plan.next_look > w->now);
    free(authority);
}

/* From one authority to the next: whoever trusts the bundle of one step takes the certificate of
 * the step before and of the step after. */
static void test_an_authority_is_replaced_without_a_gap(void **state)
{
    struct world *w = *state;
    char *first = strdup(w->set.entries[CERTIFICATE_CURRENT].cert);
    w->now = NOW + YEAR * 2 / 3 + 1;
    set_field(w, "unknown", "stays");
    plan(w, false);
    assert_int_equal(w->plan.action, CERTIFICATE_RENEW); /* its certificate expired long ago */
    carry_out(w);
    expect(w, false, CERTIFICATE_PREPARE, "two thirds of the authority");
    assert_false(w->plan.broken);
    carry_out(w);
    char *second = strdup(w->set.entries[CERTIFICATE_NEXT].cert);
    assert_true(serves(w) && trusted(w, first) && trusted(w, second));
    assert_string_equal(w->set.entries[CERTIFICATE_CURRENT].cert, first);

    expect(w, false, CERTIFICATE_KEEP, "");
    expect(w, true, CERTIFICATE_PROMOTE, "trust the next authority");
    assert_false(w->plan.broken);
    carry_out(w);
    assert_true(serves(w) && trusted(w, first) && trusted(w, second));
    assert_string_equal(w->set.entries[CERTIFICATE_CURRENT].cert, second);
    assert_string_equal(w->set.entries[CERTIFICATE_PREVIOUS].cert, first);
    assert_null(w->set.entries[CERTIFICATE_NEXT].cert);

    expect(w, true, CERTIFICATE_KEEP, "");
    w->now = w->plan.next_look;
    expect(w, true, CERTIFICATE_RENEW, "two thirds of the serving");
    carry_out(w);
    assert_true(serves(w) && !trusted(w, first) && trusted(w, second));
    assert_int_equal(bundle_size(w), 1);
    assert_non_null(field(w, "unknown"));
    free(first);
    free(second);
}

/* While nobody publishes the next one, service goes on for as long as anybody can be served. */
static void test_an_authority_that_is_never_published(void **state)
{
    struct world *w = *state;
    w->now = NOW + YEAR * 2 / 3 + 1;
    int64_t end = NOW + YEAR;
    for (int i = 0; i < 20 && w->now <= end; i++) {
        plan(w, false);
        if (w->plan.action == CERTIFICATE_KEEP) {
            w->now = w->plan.next_look;
        } else {
            assert_int_not_equal(w->plan.action, CERTIFICATE_PROMOTE);
            carry_out(w);
        }
        assert_true(w->now > end || serves(w));
    }
    assert_true(w->now > end);
    expect(w, false, CERTIFICATE_PROMOTE, "the authority's certificate has expired");
    assert_true(w->plan.broken);
    carry_out(w);
    assert_true(serves(w));
    assert_null(field(w, "previous-ca.crt"));
}

/* What somebody did to the Secret. */
struct damage {
    const char *field;
    const char *text; /* NULL: as the field `from` */
    const char *from;
    enum certificate_action action;
    const char *why;
};

static void test_damage_is_repaired(void **state)
{
    static const struct damage damages[] = {
        {"tls.crt", "", NULL, CERTIFICATE_RENEW, "the serving certificate is missing"},
        {"tls.crt", "garbage", NULL, CERTIFICATE_RENEW, "the serving certificate cannot be read"},
        {"tls.key", "", NULL, CERTIFICATE_RENEW, "the serving certificate has no key"},
        {"tls.key", "garbage", NULL, CERTIFICATE_RENEW, "has a key that does not match"},
        {"tls.key", NULL, "ca.key", CERTIFICATE_RENEW, "has a key that does not match"},
        {"ca.crt", "", NULL, CERTIFICATE_RESTART, "the authority's certificate is missing"},
        {"ca.crt", "garbage", NULL, CERTIFICATE_RESTART, "the authority's certificate cannot"},
        {"ca.crt", NULL, "tls.crt", CERTIFICATE_RESTART, "is not a CA certificate"},
        /* Nothing is wrong for the clients yet, so they get the time to learn of another. */
        {"ca.key", "", NULL, CERTIFICATE_PREPARE, "the authority's certificate has no key"},
        {"ca.key", "garbage", NULL, CERTIFICATE_PREPARE, "has a key that does not match"},
        {"ca.key", NULL, "tls.key", CERTIFICATE_PREPARE, "has a key that does not match"},
        {"next-ca.crt", "garbage", NULL, CERTIFICATE_PREPARE, "the next authority's certificate"},
        {"next-ca.crt", NULL, "ca.crt", CERTIFICATE_PREPARE, "has no key"},
        {"previous-ca.crt", "garbage", NULL, CERTIFICATE_KEEP, ""},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        const struct damage *d = &damages[i];
        cJSON *good = cJSON_Duplicate(data_of(w), true);
        if (d->text != NULL) {
            set_field(w, d->field, d->text);
        } else {
            copy_field(w, d->field, d->from);
        }
        expect(w, false, d->action, d->why);
        if (d->action != CERTIFICATE_KEEP) {
            assert_true(w->plan.broken);
            carry_out(w);
            assert_true(serves(w));
            plan(w, false);
            assert_int_equal(w->plan.action, CERTIFICATE_KEEP);
        }
        cJSON_ReplaceItemInObjectCaseSensitive(w->secret, "data", good);
        read_again(w);
    }
}

static void test_no_base64_is_not_there(void **state)
{
    struct world *w = *state;
    cJSON_ReplaceItemInObjectCaseSensitive(data_of(w), "tls.crt", cJSON_CreateString("%%%"));
    cJSON_ReplaceItemInObjectCaseSensitive(data_of(w), "tls.key", cJSON_CreateNumber(1));
    read_again(w);
    expect(w, false, CERTIFICATE_RENEW, "the serving certificate is missing");
    cJSON_ReplaceItemInObjectCaseSensitive(w->secret, "data", cJSON_CreateString("x"));
    read_again(w);
    expect(w, false, CERTIFICATE_RESTART, "the authority's certificate is missing");
}

static void test_a_missing_name_is_added(void **state)
{
    static const char *const more[] = {"cmesh-webhook.cmesh-system.svc", "10.0.0.1", "10.0.0.2"};
    struct certificate_rules wider = rules;
    struct world *w = *state;
    wider.names = more;
    wider.name_count = 3;
    certificate_set_plan(&w->set, &wider, w->now, false, &w->plan);
    assert_int_equal(w->plan.action, CERTIFICATE_RENEW);
    assert_string_equal(w->plan.why, "the serving certificate does not name 10.0.0.2");
}

/* A certificate of another authority that happens to be in the Secret. */
static void test_another_authority(void **state)
{
    struct world *w = *state;
    struct certificate_pair other;
    const struct certificate_spec spec = {
        .common_name = "other", .not_before = NOW - 10, .not_after = NOW + YEAR};
    assert_int_equal(certificate_make_authority(&spec, &other, NULL), 0);
    set_field(w, "ca.crt", other.cert);
    set_field(w, "ca.key", other.key);
    expect(w, false, CERTIFICATE_RENEW, "the serving certificate is signed by another CA");
    carry_out(w);
    assert_true(serves(w));
    certificate_pair_deinit(&other);
}

static void test_an_expired_certificate_is_replaced(void **state)
{
    struct world *w = *state;
    w->now = NOW + DAYS_90 + 1;
    expect(w, false, CERTIFICATE_RENEW, "the serving certificate has expired");
    carry_out(w);
    assert_true(serves(w));
    w->now = NOW + YEAR + 1;
    expect(w, false, CERTIFICATE_RESTART, "the authority's certificate has expired");
    carry_out(w);
    assert_true(serves(w));
    assert_null(field(w, "previous-ca.crt"));
    w->now = NOW - YEAR;
    expect(w, false, CERTIFICATE_RESTART, "the authority's certificate is not valid yet");
}

/* Everything that is held goes back, and an authority that only we know how to sign with. */
static void test_restoring(void **state)
{
    struct world *w = *state;
    char *serving = strdup(field(w, "tls.crt"));
    struct certificate_plan p = {.action = CERTIFICATE_RESTORE};
    cJSON *change = certificate_set_change(&w->set, &rules, w->now, &p, NULL);
    assert_non_null(change);
    assert_string_equal(cJSON_GetObjectItem(change, "tls.crt")->valuestring, serving);
    assert_true(cJSON_IsString(cJSON_GetObjectItem(change, "tls.key")));
    assert_true(cJSON_IsString(cJSON_GetObjectItem(change, "ca.crt")));
    assert_true(cJSON_IsString(cJSON_GetObjectItem(change, "ca.key")));
    assert_true(cJSON_IsString(cJSON_GetObjectItem(change, "next-ca.crt")));
    assert_true(cJSON_IsString(cJSON_GetObjectItem(change, "next-ca.key")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(change, "previous-ca.crt")));
    cJSON_Delete(change);
    free(serving);
}

static void test_short_lives(void **state)
{
    struct world *w = *state;
    const struct certificate_rules brief = {
        .names = names, .name_count = 2, .authority_seconds = 30, .serving_seconds = 60};
    struct certificate_plan p = {.action = CERTIFICATE_RESTART};
    cJSON *change = certificate_set_change(&w->set, &brief, w->now, &p, NULL);
    cJSON_ReplaceItemInObjectCaseSensitive(w->secret, "data", change);
    read_again(w);
    /* Never longer than its authority. */
    assert_int_equal(certificate_not_after(w->set.entries[CERTIFICATE_SERVING].read), NOW + 30);
    certificate_set_plan(&w->set, &brief, w->now, false, &p);
    assert_int_equal(p.action, CERTIFICATE_KEEP);
    assert_in_range(p.next_look, NOW + 15, NOW + 21);
}

/* One action by itself, for keys take their time to make. */
struct act {
    const struct world *world;
    enum certificate_action action;
};

static bool play(void *data)
{
    const struct act *act = data;
    const struct certificate_plan p = {.action = act->action};
    struct certificate_set set = {0};
    struct err e = ERR_INIT;
    char why[256];
    cJSON *change = NULL;
    int rc = certificate_set_read(&set, act->world->secret);
    assert_true(rc == 0 || rc == -ENOMEM);
    if (rc == 0) {
        assert_true(certificate_set_serves(&set, &rules, act->world->now, why));
        change = certificate_set_change(&set, &rules, act->world->now, &p, &e);
        assert_true(change != NULL || e.code == -ENOMEM);
    }
    bool well = change != NULL;
    secret_json_delete(change);
    certificate_set_deinit(&set);
    return well;
}

static void test_out_of_memory(void **state)
{
    struct world *w = *state;
    copy_field(w, "next-ca.crt", "ca.crt");
    copy_field(w, "next-ca.key", "ca.key");
    for (int action = CERTIFICATE_RENEW; action <= CERTIFICATE_RESTORE; action++) {
        struct act act = {.world = w, .action = (enum certificate_action)action};
        assert_true(sweep_allocations(play, &act) > 20);
    }
}

int main(void)
{
#define GOOD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_becomes_everything, setup_empty, teardown),
        GOOD(test_the_serving_certificate_is_renewed),
        GOOD(test_an_authority_is_replaced_without_a_gap),
        GOOD(test_an_authority_that_is_never_published),
        GOOD(test_damage_is_repaired),
        GOOD(test_no_base64_is_not_there),
        GOOD(test_a_missing_name_is_added),
        GOOD(test_another_authority),
        GOOD(test_an_expired_certificate_is_replaced),
        GOOD(test_restoring),
        GOOD(test_short_lives),
        GOOD(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
