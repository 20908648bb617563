/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/credential_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "certs.h"
#include "crypto/digest.h"

enum { DAY = 24 * 3600, NOW = 1800000000 };

static const struct slice none = {NULL, 0};

static void describe(const struct kube_access *a, const char *authorization,
                     struct credential_text *out)
{
    credential_text(a, authorization, none, out);
    assert_null(strstr(out->subject, "hunter2"));
    assert_null(strstr(out->remedy, "hunter2"));
}

/* Where to look, and what to do there. */
static void each_kind_has_its_words(void **state)
{
    (void)state;
    struct credential_text t;
    struct kube_exec exec = {.command = "login-tool"};
    struct kube_access a = {.context = "c", .user = "blue", .file = "/etc/blue.kubeconfig"};
    describe(&a, NULL, &t);
    assert_string_equal(t.subject, "no credentials: none of user \"blue\" in /etc/blue.kubeconfig");
    a.token = "hunter2";
    describe(&a, "Bearer hunter2", &t);
    assert_string_equal(t.subject, "the token of user \"blue\" in /etc/blue.kubeconfig");
    assert_non_null(strstr(t.remedy, "restart"));
    assert_int_equal(t.valid.until, 0);
    a.token_file = "/run/token";
    describe(&a, "Bearer hunter2", &t);
    assert_string_equal(t.subject, "the token in the file /run/token");
    assert_null(strstr(t.remedy, "pod"));
    a.context = "";
    describe(&a, "Bearer hunter2", &t);
    assert_non_null(strstr(t.remedy, "delete the pod"));
    a = (struct kube_access){.context = "c", .user = "blue", .password = "hunter2"};
    describe(&a, "Basic hunter2", &t);
    assert_string_equal(t.subject, "the password of user \"blue\"");
    a = (struct kube_access){.context = "c", .user = "blue", .exec = &exec};
    describe(&a, "Bearer hunter2", &t);
    assert_non_null(strstr(t.subject, "login-tool"));
    describe(&a, NULL, &t); /* it has given none yet */
    assert_non_null(strstr(t.subject, "login-tool"));
    assert_non_null(strstr(t.remedy, "login-tool"));
}

static void certificates_say_until_when(void **state)
{
    (void)state;
    struct certs_pair ca;
    struct certs_pair pair;
    struct credential_text t;
    certs_make_ca("authority", &ca);
    certs_issue(&ca,
                &(struct certs_spec){.not_before = "20270101000000",
                                     .not_after = "20270111000000",
                                     .is_client = true},
                &pair);
    struct kube_access a = {.context = "c",
                            .cert = {.name = "/etc/client.crt", .path = "/etc/client.crt"},
                            .key = {.path = "/etc/client.key"}};
    credential_text(&a, NULL, slice_str(pair.cert), &t);
    assert_string_equal(t.subject, "the client certificate /etc/client.crt");
    assert_non_null(strstr(t.remedy, "read again by themselves"));
    assert_int_equal(t.valid.until - t.valid.from, 10 * DAY);
    a.key.path = NULL;
    credential_text(&a, NULL, slice_str(pair.cert), &t);
    assert_non_null(strstr(t.remedy, "restart"));
    certs_free(&pair);
    certs_free(&ca);
}

/* A token of these claims; the caller frees. */
static char *token_of(const char *claims)
{
    char *text = NULL;
    struct buf b = BUF_INIT(1024);
    assert_int_equal(base64_encode(slice_str(claims), &b), 0);
    char *payload = buf_take_str(&b);
    assert_non_null(payload);
    payload[strcspn(payload, "=")] = '\0';
    for (char *p = payload; *p != '\0'; p++) {
        *p = (char)(*p == '+' ? '-' : *p == '/' ? '_' : *p);
    }
    assert_true(asprintf(&text, "eyJhbGciOiJSUzI1NiJ9.%s.c2lnbmF0dXJl", payload) > 0);
    free(payload);
    return text;
}

static void tokens_say_until_when(void **state)
{
    (void)state;
    static const struct {
        const char *claims;
        int64_t from;
        int64_t until;
    } cases[] = {
        {"{\"iat\":1800000000,\"exp\":1800003600,\"sub\":\"\xc3\xbf\xc3\xbe?~>>\"}", 1800000000,
         1800003600},
        {"{\"nbf\":1800000000,\"exp\":1800003600}", 1800000000, 1800003600},
        {"{\"exp\":1800003600}", 0, 1800003600},
        {"{\"iss\":\"kubernetes/serviceaccount\"}", 0, 0}, /* of a Secret: without end */
        {"{\"exp\":\"soon\"}", 0, 0},
        {"{\"exp\":-1}", 0, 0},
        {"{\"exp\":1e300}", 0, 0},
        {"[1]", 0, 0},
        {"{", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *token = token_of(cases[i].claims);
        struct validity v = validity_of_token(slice_str(token));
        assert_int_equal(v.from, cases[i].from);
        assert_int_equal(v.until, cases[i].until);
        free(token);
    }
    static const char *const opaque[] = {"", "hunter2", "a.b", ".", "..", "a.!.c", "a..c"};
    for (size_t i = 0; i < sizeof opaque / sizeof opaque[0]; i++) {
        assert_int_equal(validity_of_token(slice_str(opaque[i])).until, 0);
    }
}

static void soon_is_a_week_or_a_tenth_of_its_life(void **state)
{
    (void)state;
    static const struct {
        int64_t life;
        int64_t left;
        bool soon;
    } cases[] = {
        {365 * DAY, 8 * DAY, false}, {365 * DAY, 7 * DAY - 1, true}, {365 * DAY, -1, true},
        {DAY, DAY / 10, false},      {DAY, DAY / 10 - 1, true},      {3600, 361, false},
        {3600, 359, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct validity v = {.from = NOW + cases[i].left - cases[i].life,
                             .until = NOW + cases[i].left};
        assert_int_equal(validity_ends_soon(&v, NOW), cases[i].soon);
    }
    struct validity unknown = {0, 0};
    assert_false(validity_ends_soon(&unknown, NOW));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_words),
        cmocka_unit_test(certificates_say_until_when),
        cmocka_unit_test(tokens_say_until_when),
        cmocka_unit_test(soon_is_a_week_or_a_tenth_of_its_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
