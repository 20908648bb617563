/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/certificate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <time.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "link.h"
#include "temp_dir.h"

enum { HOUR = 3600, DAY = 24 * HOUR };

static const char *const names[] = {"cmesh-webhook.cmesh-system.svc", "*.example.org", "127.0.0.1",
                                    "fd00::1"};

static struct certificate_pair ca;     /* good for a day */
static struct certificate_pair other;  /* of the same name, with another key */
static struct certificate_pair server; /* good for an hour */
static int64_t now;

static struct certificate_spec authority_spec(void)
{
    return (struct certificate_spec){
        .common_name = "cmesh-webhook-ca@1", .not_before = now - HOUR, .not_after = now + DAY};
}

static struct certificate_spec server_spec(void)
{
    return (struct certificate_spec){.common_name = "cmesh-webhook",
                                     .not_before = now - HOUR,
                                     .not_after = now + HOUR,
                                     .names = names,
                                     .name_count = ARRAY_LEN(names)};
}

static int make(void **state)
{
    struct certificate_spec a = authority_spec();
    struct certificate_spec s = server_spec();
    struct err e = ERR_INIT;
    (void)state;
    now = (int64_t)time(NULL);
    a = authority_spec();
    s = server_spec();
    int rc = certificate_make_authority(&a, &ca, &e);
    rc = rc != 0 ? rc : certificate_make_authority(&a, &other, &e);
    rc = rc != 0 ? rc
                 : certificate_make_server(&s, slice_str(ca.cert), slice_str(ca.key), &server, &e);
    if (rc != 0) {
        (void)fprintf(stderr, "%s\n", e.msg);
    }
    return rc;
}

static int drop(void **state)
{
    (void)state;
    certificate_pair_deinit(&ca);
    certificate_pair_deinit(&other);
    certificate_pair_deinit(&server);
    return 0;
}

static struct certificate *read_pem(const char *pem)
{
    struct err e = ERR_INIT;
    struct certificate *c = certificate_read(slice_str(pem), NULL, &e);
    if (c == NULL) {
        fail_msg("%s", e.msg);
    }
    return c;
}

static void test_an_authority_is_one(void **state)
{
    (void)state;
    struct certificate *c = read_pem(ca.cert);
    assert_true(certificate_is_authority(c));
    assert_false(certificate_is_server(c));
    assert_string_equal(certificate_common_name(c), "cmesh-webhook-ca@1");
    assert_int_equal(certificate_not_before(c), now - HOUR);
    assert_int_equal(certificate_not_after(c), now + DAY);
    assert_true(certificate_signed_by(c, c));
    assert_true(certificate_fits(c, slice_str(ca.key)));
    assert_false(certificate_has_name(c, "cmesh-webhook-ca@1"));
    certificate_free(c);
}

static void test_a_server_is_of_its_authority(void **state)
{
    (void)state;
    struct certificate *c = read_pem(server.cert);
    struct certificate *a = read_pem(ca.cert);
    struct certificate *o = read_pem(other.cert);
    assert_false(certificate_is_authority(c));
    assert_true(certificate_is_server(c));
    assert_true(certificate_signed_by(c, a));
    assert_false(certificate_signed_by(c, o)); /* though its name is the same */
    assert_false(certificate_signed_by(a, c));
    assert_true(certificate_fits(c, slice_str(server.key)));
    assert_false(certificate_fits(c, slice_str(ca.key)));
    assert_false(certificate_fits(c, slice_str("")));
    assert_false(certificate_fits(c, slice_str("garbage")));
    assert_true(certificate_same(a, a));
    assert_false(certificate_same(a, o));
    certificate_free(c);
    certificate_free(a);
    certificate_free(o);
}

static void test_an_authority_permits_some_names(void **state)
{
    struct certs_pair root;
    struct certs_pair limited;
    struct certs_pair signed_by_it;
    (void)state;
    certs_make_ca("root", &root);
    for (int i = 0; i < 2; i++) {
        certs_issue(
            &root,
            &(struct certs_spec){.is_ca = true, .permitted = i == 0 ? "example.org" : "localhost"},
            &limited);
        certs_issue(&limited, &(struct certs_spec){.dns = (const char *[]){"localhost", NULL}},
                    &signed_by_it);
        struct certificate *a = read_pem(limited.cert);
        struct certificate *c = read_pem(signed_by_it.cert);
        assert_int_equal(certificate_signed_by(c, a), i == 1);
        certificate_free(a);
        certificate_free(c);
        certs_free(&limited);
        certs_free(&signed_by_it);
    }
    certs_free(&root);
}

static void test_names(void **state)
{
    (void)state;
    struct certificate *c = read_pem(server.cert);
    assert_true(certificate_has_name(c, "cmesh-webhook.cmesh-system.svc"));
    assert_true(certificate_has_name(c, "CMESH-webhook.cmesh-system.svc."));
    assert_true(certificate_has_name(c, "a.example.org"));
    assert_true(certificate_has_name(c, "127.0.0.1"));
    assert_true(certificate_has_name(c, "fd00::1"));
    assert_true(certificate_has_name(c, "[fd00::1]"));
    assert_false(certificate_has_name(c, "cmesh-webhook.other.svc"));
    assert_false(certificate_has_name(c, "127.0.0.2"));
    assert_false(certificate_has_name(c, "a.b.example.org"));
    assert_false(certificate_has_name(c, ""));
    certificate_free(c);
}

/* An expired authority's signature is one still: whether it counts is another question. */
static void test_dates_are_not_looked_at_by_signatures(void **state)
{
    (void)state;
    struct certificate_pair a;
    struct certificate_pair s;
    struct certificate_spec as = {
        .common_name = "old", .not_before = now - 2 * DAY, .not_after = now - DAY};
    struct certificate_spec ss = {.common_name = "young",
                                  .not_before = now + DAY,
                                  .not_after = now + 2 * DAY,
                                  .names = names,
                                  .name_count = 1};
    assert_int_equal(certificate_make_authority(&as, &a, NULL), 0);
    assert_int_equal(certificate_make_server(&ss, slice_str(a.cert), slice_str(a.key), &s, NULL),
                     0);
    struct certificate *ca_read = read_pem(a.cert);
    struct certificate *read = read_pem(s.cert);
    assert_true(certificate_signed_by(read, ca_read));
    certificate_free(ca_read);
    certificate_free(read);
    certificate_pair_deinit(&a);
    certificate_pair_deinit(&s);
}

/* RFC 5280 has two forms of dates, one for each side of 2050. */
static void test_far_dates(void **state)
{
    (void)state;
    struct certificate_pair a;
    struct certificate_spec as = {
        .common_name = "far", .not_before = 0, .not_after = INT64_C(4102444800)};
    assert_int_equal(certificate_make_authority(&as, &a, NULL), 0);
    struct certificate *c = read_pem(a.cert);
    assert_int_equal(certificate_not_before(c), 0);
    assert_int_equal(certificate_not_after(c), INT64_C(4102444800));
    certificate_free(c);
    certificate_pair_deinit(&a);
}

static void test_several_in_one_text(void **state)
{
    (void)state;
    char text[8192];
    (void)snprintf(text, sizeof text, "# a\n%s# b\n%s\nthe end", ca.cert, server.cert);
    struct slice rest = slice_str(text);
    struct err e = ERR_INIT;
    struct certificate *first = certificate_read(rest, &rest, &e);
    struct certificate *second = certificate_read(rest, &rest, &e);
    assert_non_null(first);
    assert_non_null(second);
    assert_true(certificate_is_authority(first));
    assert_true(certificate_is_server(second));
    assert_null(certificate_read(rest, &rest, &e));
    assert_int_equal(e.code, -ENOENT);
    certificate_free(first);
    certificate_free(second);
}

static void expect_unreadable(const char *text, int code)
{
    struct err e = ERR_INIT;
    assert_null(certificate_read(slice_str(text), NULL, &e));
    assert_int_equal(e.code, code);
    assert_true(strlen(e.msg) > 5);
}

static void test_garbage(void **state)
{
    char text[4096];
    (void)state;
    expect_unreadable("", -ENOENT);
    expect_unreadable("garbage", -ENOENT);
    expect_unreadable(server.key, -ENOENT);
    expect_unreadable("-----BEGIN CERTIFICATE-----\n", -EINVAL);
    expect_unreadable("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", -EINVAL);
    (void)snprintf(text, sizeof text, "%s", server.cert);
    memset(text + 100, 'A', 20);
    expect_unreadable(text, -EINVAL);
}

static void expect_refused(struct certificate_spec s, const char *cert, const char *key,
                           const char *says)
{
    struct err e = ERR_INIT;
    struct certificate_pair p;
    assert_int_equal(certificate_make_server(&s, slice_str(cert), slice_str(key), &p, &e), -EINVAL);
    assert_null(p.cert);
    assert_null(p.key);
    if (strstr(e.msg, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", e.msg, says);
    }
    assert_null(strstr(e.msg, "PRIVATE"));
}

static void test_what_cannot_be_made(void **state)
{
    (void)state;
    static const char *const empty[] = {""};
    struct certificate_spec s = server_spec();
    expect_refused(s, ca.cert, other.key, "the key is not that of the authority");
    expect_refused(s, ca.cert, "", "the private key cannot be read");
    expect_refused(s, ca.cert, "garbage", "the private key cannot be read");
    expect_refused(s, "garbage", ca.key, "the authority's certificate is missing");
    expect_refused(s, server.cert, server.key, "not that of an authority");
    s.name_count = 0;
    expect_refused(s, ca.cert, ca.key, "needs 1 to 64 names");
    s = server_spec();
    s.names = empty;
    s.name_count = 1;
    expect_refused(s, ca.cert, ca.key, "names");
    s = server_spec();
    s.common_name = "a,O=b";
    expect_refused(s, ca.cert, ca.key, "common name");
    s = server_spec();
    s.not_after = s.not_before - 1;
    expect_refused(s, ca.cert, ca.key, "dates");
    s.not_after = INT64_MAX;
    expect_refused(s, ca.cert, ca.key, "dates");
}

static void test_two_are_never_the_same(void **state)
{
    (void)state;
    struct certificate *a = read_pem(ca.cert);
    struct certificate *b = read_pem(other.cert);
    assert_false(certificate_same(a, b));
    assert_string_not_equal(ca.key, other.key);
    certificate_free(a);
    certificate_free(b);
}

static struct link shake(const char *name, const char *trusted)
{
    struct err e = ERR_INIT;
    struct link l;
    struct tls_server_options so = {.cert = slice_str(server.cert), .key = slice_str(server.key)};
    struct tls_client_options co = {.ca = slice_str(trusted), .server_name = name};
    struct tls_config *s = tls_config_new_server(&so, &e);
    struct tls_config *c = tls_config_new_client(&co, &e);
    if (s == NULL || c == NULL) {
        fail_msg("%s", e.msg);
    }
    link_init(&l, c, s);
    link_shake(&l);
    tls_config_unref(s);
    tls_config_unref(c);
    return l;
}

static void test_a_client_takes_it(void **state)
{
    char both[8192];
    (void)state;
    struct link l = shake("cmesh-webhook.cmesh-system.svc", ca.cert);
    assert_int_equal(l.client.result, TLS_OK);
    assert_int_equal(l.server.result, TLS_OK);
    send_and_check(&l.client, &l.server, 1000, LINK_MAX);
    link_deinit(&l);
    /* As while an authority is replaced, in either order. */
    (void)snprintf(both, sizeof both, "%s%s", other.cert, ca.cert);
    l = shake("127.0.0.1", both);
    assert_int_equal(l.client.result, TLS_OK);
    link_deinit(&l);
    (void)snprintf(both, sizeof both, "%s%s", ca.cert, other.cert);
    l = shake("127.0.0.1", both);
    assert_int_equal(l.client.result, TLS_OK);
    link_deinit(&l);
    l = shake("127.0.0.1", other.cert);
    assert_int_equal(l.client.result, TLS_FAILED);
    link_deinit(&l);
    l = shake("127.0.0.2", ca.cert);
    assert_int_equal(l.client.result, TLS_FAILED);
    link_deinit(&l);
}

/* Runs a shell command in the folder; what it printed must hold `says`. */
static void openssl(const struct temp_dir *d, const char *command, const char *says)
{
    char line[512];
    char text[16384];
    (void)snprintf(line, sizeof line, "cd %s && openssl %s 2>&1", d->path, command);
    FILE *f = popen(line, "r"); /* NOLINT(cert-env33-c): a constant command */
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    (void)pclose(f);
    if (strstr(text, says) == NULL) {
        fail_msg("openssl %s: \"%s\" does not say \"%s\"", command, text, says);
    }
}

static void test_openssl_agrees(void **state)
{
    struct temp_dir d;
    (void)state;
    if (system("command -v openssl >/dev/null") != 0) { /* NOLINT(cert-env33-c) */
        skip();
    }
    temp_dir_init(&d);
    temp_dir_write(&d, "ca.crt", ca.cert, 0600);
    temp_dir_write(&d, "other.crt", other.cert, 0600);
    temp_dir_write(&d, "tls.crt", server.cert, 0600);
    temp_dir_write(&d, "tls.key", server.key, 0600);
    openssl(&d, "verify -x509_strict -purpose sslserver -CAfile ca.crt tls.crt", "tls.crt: OK");
    openssl(&d, "verify -x509_strict -CAfile ca.crt ca.crt", "ca.crt: OK");
    openssl(&d, "verify -CAfile other.crt tls.crt", "error");
    openssl(&d, "verify -verify_ip fd00::1 -CAfile ca.crt tls.crt", "tls.crt: OK");
    openssl(&d, "verify -verify_hostname cmesh-webhook.cmesh-system.svc -CAfile ca.crt tls.crt",
            "tls.crt: OK");
    openssl(&d, "ec -in tls.key -check -noout", "valid");
    openssl(&d, "x509 -in ca.crt -noout -ext basicConstraints,keyUsage",
            "X509v3 Basic Constraints: critical\n    CA:TRUE, pathlen:0\n");
    openssl(&d, "x509 -in ca.crt -noout -ext keyUsage",
            "X509v3 Key Usage: critical\n    Certificate Sign, CRL Sign\n");
    openssl(&d, "x509 -in tls.crt -noout -ext keyUsage",
            "X509v3 Key Usage: critical\n    Digital Signature\n");
    openssl(&d, "x509 -in tls.crt -noout -ext extendedKeyUsage", "TLS Web Server Authentication\n");
    openssl(&d, "x509 -in tls.crt -noout -ext subjectAltName",
            "DNS:cmesh-webhook.cmesh-system.svc, DNS:*.example.org, IP Address:127.0.0.1, "
            "IP Address:FD00:0:0:0:0:0:0:1");
    temp_dir_deinit(&d);
}

static bool play(void *data)
{
    struct certificate_pair a = {0};
    struct certificate_pair s = {0};
    struct certificate_spec as = authority_spec();
    struct certificate_spec ss = server_spec();
    struct err e = ERR_INIT;
    (void)data;
    int rc = certificate_make_authority(&as, &a, &e);
    rc = rc != 0 ? rc : certificate_make_server(&ss, slice_str(a.cert), slice_str(a.key), &s, &e);
    struct certificate *c = rc != 0 ? NULL : certificate_read(slice_str(s.cert), NULL, &e);
    rc = rc == 0 && c == NULL ? e.code : rc;
    assert_true(rc == 0 || rc == -ENOMEM);
    certificate_free(c);
    certificate_pair_deinit(&a);
    certificate_pair_deinit(&s);
    return rc == 0;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(play, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_authority_is_one),
        cmocka_unit_test(test_a_server_is_of_its_authority),
        cmocka_unit_test(test_an_authority_permits_some_names),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_dates_are_not_looked_at_by_signatures),
        cmocka_unit_test(test_far_dates),
        cmocka_unit_test(test_several_in_one_text),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_what_cannot_be_made),
        cmocka_unit_test(test_two_are_never_the_same),
        cmocka_unit_test(test_a_client_takes_it),
        cmocka_unit_test(test_openssl_agrees),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
