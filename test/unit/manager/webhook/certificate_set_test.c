/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/certificate_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/secret.h"
#include "crypto/digest.h"

enum { YEAR = 365 * 24 * 3600, DAYS_90 = 90 * 24 * 3600 };

#define NOW INT64_C(1767225600)

static const char *const names[] = {"cmesh-webhook.cmesh-system.svc", "10.0.0.1"};
static const struct certificate_rules rules = {
    .names = names, .name_count = 2, .authority_seconds = YEAR, .serving_seconds = DAYS_90};

/* A Secret, as it changes. */
struct fixture {
    cJSON *secret;
    struct certificate_set set;
    struct certificate_plan plan;
    int64_t now;
};

static cJSON *data_of(struct fixture *f)
{
    return cJSON_GetObjectItemCaseSensitive(f->secret, "data");
}

static void read_again(struct fixture *f)
{
    certificate_set_deinit(&f->set);
    certificate_set_read(&f->set, f->secret);
}

static void plan(struct fixture *f, bool next_trusted)
{
    certificate_set_plan(&f->set, &rules, f->now, next_trusted, &f->plan);
}

/* Carries the plan out, as the API server would with a merge patch. */
static void carry_out(struct fixture *f)
{
    struct err e = ERR_INIT;
    cJSON *change = certificate_set_change(&f->set, &rules, f->now, &f->plan, &e);
    if (change == NULL) {
        fail_msg("%s", e.msg);
        return;
    }
    for (cJSON *item = change->child; item != NULL; item = item->next) {
        cJSON_DeleteItemFromObjectCaseSensitive(data_of(f), item->string);
        if (!cJSON_IsNull(item)) {
            cJSON_AddStringToObject(data_of(f), item->string, item->valuestring);
        }
    }
    cJSON_Delete(change);
    read_again(f);
}

static void expect(struct fixture *f, bool next_trusted, enum certificate_action action,
                   const char *why)
{
    plan(f, next_trusted);
    if (f->plan.action != action || strstr(f->plan.why, why) == NULL) {
        fail_msg("action %d because \"%s\", not %d because \"%s\"", f->plan.action, f->plan.why,
                 action, why);
    }
}

static char *field(struct fixture *f, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(data_of(f), key);
    return item == NULL ? NULL : item->valuestring;
}

static void set_field(struct fixture *f, const char *key, const char *text)
{
    struct buf coded = BUF_INIT(65536);
    assert_int_equal(base64_encode(slice_str(text), &coded), 0);
    cJSON_DeleteItemFromObjectCaseSensitive(data_of(f), key);
    cJSON_AddStringToObject(data_of(f), key, buf_cstr(&coded));
    buf_reset(&coded);
    read_again(f);
}

static void copy_field(struct fixture *f, const char *to, const char *from)
{
    char *text = strdup(field(f, from));
    cJSON_DeleteItemFromObjectCaseSensitive(data_of(f), to);
    cJSON_AddStringToObject(data_of(f), to, text);
    free(text);
    read_again(f);
}

static bool serves(struct fixture *f)
{
    char why[256];
    return certificate_set_serves(&f->set, &rules, f->now, why);
}

/* How many authorities are trusted. */
static int bundle_size(struct fixture *f)
{
    char *text = certificate_set_bundle(&f->set);
    struct slice rest = slice_str(text);
    int n = 0;
    struct certificate *c;
    while (rest.len > 0 && (c = certificate_read(rest, &rest, NULL)) != NULL) {
        assert_true(certificate_is_authority(c));
        certificate_free(c);
        n++;
    }
    free(text);
    return n;
}

static bool trusted(struct fixture *f, const char *cert)
{
    char *text = certificate_set_bundle(&f->set);
    bool found = strstr(text, cert) != NULL;
    free(text);
    return found;
}

static int setup_empty(void **state)
{
    static struct fixture f;
    f = (struct fixture){.secret = cJSON_CreateObject(), .now = NOW};
    cJSON_AddObjectToObject(f.secret, "data");
    *state = &f;
    return 0;
}

/* All is well. */
static int setup(void **state)
{
    int rc = setup_empty(state);
    struct fixture *f = *state;
    read_again(f);
    expect(f, false, CERTIFICATE_RESTART, "");
    carry_out(f);
    return rc;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    certificate_set_deinit(&f->set);
    cJSON_Delete(f->secret);
    return 0;
}

static void test_nothing_becomes_everything(void **state)
{
    struct fixture *f = *state;
    read_again(f);
    assert_false(serves(f));
    assert_int_equal(bundle_size(f), 0);
    expect(f, false, CERTIFICATE_RESTART, "the authority's certificate is missing");
    assert_true(f->plan.broken);
    carry_out(f);
    assert_true(serves(f));
    assert_int_equal(bundle_size(f), 1);
    assert_null(field(f, "next-ca.crt"));
    assert_null(field(f, "previous-ca.crt"));
    expect(f, false, CERTIFICATE_KEEP, "");
    assert_in_range(f->plan.next_look, NOW + DAYS_90 * 2 / 3 - 3600, NOW + DAYS_90 * 2 / 3 + 3600);
    assert_int_equal(certificate_not_after(f->set.entries[CERTIFICATE_CURRENT].read), NOW + YEAR);
}

static void test_the_serving_certificate_is_renewed(void **state)
{
    struct fixture *f = *state;
    char *authority = strdup(field(f, "ca.crt"));
    plan(f, false);
    f->now = f->plan.next_look - 1;
    expect(f, false, CERTIFICATE_KEEP, "");
    f->now++;
    expect(f, false, CERTIFICATE_RENEW, "two thirds of the serving");
    assert_false(f->plan.broken);
    carry_out(f);
    assert_true(serves(f));
    assert_int_equal(certificate_not_after(f->set.entries[CERTIFICATE_SERVING].read),
                     f->now + DAYS_90);
    assert_string_equal(field(f, "ca.crt"), authority);
    expect(f, false, CERTIFICATE_KEEP, "");
    assert_true(f->plan.next_look > f->now);
    free(authority);
}

/* From one authority to the next: whoever trusts the bundle of one step takes the certificate of
 * the step before and of the step after. */
static void test_an_authority_is_replaced_without_a_gap(void **state)
{
    struct fixture *f = *state;
    char *first = strdup(f->set.entries[CERTIFICATE_CURRENT].cert);
    f->now = NOW + YEAR * 2 / 3 + 1;
    set_field(f, "unknown", "stays");
    plan(f, false);
    assert_int_equal(f->plan.action, CERTIFICATE_RENEW); /* its certificate expired long ago */
    carry_out(f);
    expect(f, false, CERTIFICATE_PREPARE, "two thirds of the authority");
    assert_false(f->plan.broken);
    carry_out(f);
    char *second = strdup(f->set.entries[CERTIFICATE_NEXT].cert);
    assert_true(serves(f) && trusted(f, first) && trusted(f, second));
    assert_string_equal(f->set.entries[CERTIFICATE_CURRENT].cert, first);

    expect(f, false, CERTIFICATE_KEEP, "");
    expect(f, true, CERTIFICATE_PROMOTE, "trust the next authority");
    assert_false(f->plan.broken);
    carry_out(f);
    assert_true(serves(f) && trusted(f, first) && trusted(f, second));
    assert_string_equal(f->set.entries[CERTIFICATE_CURRENT].cert, second);
    assert_string_equal(f->set.entries[CERTIFICATE_PREVIOUS].cert, first);
    assert_null(f->set.entries[CERTIFICATE_NEXT].cert);

    expect(f, true, CERTIFICATE_KEEP, "");
    f->now = f->plan.next_look;
    expect(f, true, CERTIFICATE_RENEW, "two thirds of the serving");
    carry_out(f);
    assert_true(serves(f) && !trusted(f, first) && trusted(f, second));
    assert_int_equal(bundle_size(f), 1);
    assert_non_null(field(f, "unknown"));
    free(first);
    free(second);
}

/* While nobody publishes the next one, service goes on for as long as anybody can be served. */
static void test_an_authority_that_is_never_published(void **state)
{
    struct fixture *f = *state;
    f->now = NOW + YEAR * 2 / 3 + 1;
    int64_t end = NOW + YEAR;
    for (int i = 0; i < 20 && f->now <= end; i++) {
        plan(f, false);
        if (f->plan.action == CERTIFICATE_KEEP) {
            f->now = f->plan.next_look;
        } else {
            assert_int_not_equal(f->plan.action, CERTIFICATE_PROMOTE);
            carry_out(f);
        }
        assert_true(f->now > end || serves(f));
    }
    assert_true(f->now > end);
    expect(f, false, CERTIFICATE_PROMOTE, "the authority's certificate has expired");
    assert_true(f->plan.broken);
    carry_out(f);
    assert_true(serves(f));
    assert_null(field(f, "previous-ca.crt"));
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
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        const struct damage *d = &damages[i];
        cJSON *good = cJSON_Duplicate(data_of(f), true);
        if (d->text != NULL) {
            set_field(f, d->field, d->text);
        } else {
            copy_field(f, d->field, d->from);
        }
        expect(f, false, d->action, d->why);
        if (d->action != CERTIFICATE_KEEP) {
            assert_true(f->plan.broken);
            carry_out(f);
            assert_true(serves(f));
            plan(f, false);
            assert_int_equal(f->plan.action, CERTIFICATE_KEEP);
        }
        cJSON_ReplaceItemInObjectCaseSensitive(f->secret, "data", good);
        read_again(f);
    }
}

static void test_no_base64_is_not_there(void **state)
{
    struct fixture *f = *state;
    cJSON_ReplaceItemInObjectCaseSensitive(data_of(f), "tls.crt", cJSON_CreateString("%%%"));
    cJSON_ReplaceItemInObjectCaseSensitive(data_of(f), "tls.key", cJSON_CreateNumber(1));
    read_again(f);
    expect(f, false, CERTIFICATE_RENEW, "the serving certificate is missing");
    cJSON_ReplaceItemInObjectCaseSensitive(f->secret, "data", cJSON_CreateString("x"));
    read_again(f);
    expect(f, false, CERTIFICATE_RESTART, "the authority's certificate is missing");
}

static void test_a_missing_name_is_added(void **state)
{
    static const char *const more[] = {"cmesh-webhook.cmesh-system.svc", "10.0.0.1", "10.0.0.2"};
    struct certificate_rules wider = rules;
    struct fixture *f = *state;
    wider.names = more;
    wider.name_count = 3;
    certificate_set_plan(&f->set, &wider, f->now, false, &f->plan);
    assert_int_equal(f->plan.action, CERTIFICATE_RENEW);
    assert_string_equal(f->plan.why, "the serving certificate does not name 10.0.0.2");
}

/* A certificate of another authority that happens to be in the Secret. */
static void test_another_authority(void **state)
{
    struct fixture *f = *state;
    struct certificate_pair other;
    const struct certificate_spec spec = {
        .common_name = "other", .not_before = NOW - 10, .not_after = NOW + YEAR};
    assert_int_equal(certificate_make_authority(&spec, &other, NULL), 0);
    set_field(f, "ca.crt", other.cert);
    set_field(f, "ca.key", other.key);
    expect(f, false, CERTIFICATE_RENEW, "the serving certificate is signed by another CA");
    carry_out(f);
    assert_true(serves(f));
    certificate_pair_deinit(&other);
}

static void test_an_expired_certificate_is_replaced(void **state)
{
    struct fixture *f = *state;
    f->now = NOW + DAYS_90 + 1;
    expect(f, false, CERTIFICATE_RENEW, "the serving certificate has expired");
    carry_out(f);
    assert_true(serves(f));
    f->now = NOW + YEAR + 1;
    expect(f, false, CERTIFICATE_RESTART, "the authority's certificate has expired");
    carry_out(f);
    assert_true(serves(f));
    assert_null(field(f, "previous-ca.crt"));
    f->now = NOW - YEAR;
    expect(f, false, CERTIFICATE_RESTART, "the authority's certificate is not valid yet");
}

/* Everything that is held goes back, and an authority that only we know how to sign with. */
static void test_restoring(void **state)
{
    struct fixture *f = *state;
    char *serving = strdup(field(f, "tls.crt"));
    struct certificate_plan p = {.action = CERTIFICATE_RESTORE};
    cJSON *change = certificate_set_change(&f->set, &rules, f->now, &p, NULL);
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
    struct fixture *f = *state;
    const struct certificate_rules brief = {
        .names = names, .name_count = 2, .authority_seconds = 30, .serving_seconds = 60};
    struct certificate_plan p = {.action = CERTIFICATE_RESTART};
    cJSON *change = certificate_set_change(&f->set, &brief, f->now, &p, NULL);
    cJSON_ReplaceItemInObjectCaseSensitive(f->secret, "data", change);
    read_again(f);
    /* Never longer than its authority. */
    assert_int_equal(certificate_not_after(f->set.entries[CERTIFICATE_SERVING].read), NOW + 30);
    certificate_set_plan(&f->set, &brief, f->now, false, &p);
    assert_int_equal(p.action, CERTIFICATE_KEEP);
    assert_in_range(p.next_look, NOW + 15, NOW + 21);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
