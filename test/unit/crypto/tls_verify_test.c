/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "link.h"

static struct certs_pair ca;
static struct certs_pair other_ca; /* same name, other key */

static int make_cas(void **state)
{
    (void)state;
    certs_make_ca("test CA", &ca);
    certs_make_ca("test CA", &other_ca);
    return 0;
}

static int free_cas(void **state)
{
    (void)state;
    certs_free(&ca);
    certs_free(&other_ca);
    return 0;
}

#define DNS(...) ((const char *const[]){__VA_ARGS__, NULL})

struct attempt {
    struct certs_spec server;
    bool unknown_ca;
    const char *name; /* the client's idea of the server's name */
    bool insecure;
    const char *says; /* in the error; NULL: accepted */
};

/* Runs a handshake and checks how it went on both sides. */
static void expect(struct attempt a)
{
    struct certs_pair pair;
    struct err e = ERR_INIT;
    struct link l;
    certs_issue(a.unknown_ca ? &other_ca : &ca, &a.server, &pair);
    struct tls_config *server = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(pair.cert), .key = slice_str(pair.key)}, &e);
    assert_non_null(server);
    struct tls_config *client =
        tls_config_new_client(&(struct tls_client_options){.ca = slice_str(ca.cert),
                                                           .ca_name = "/some/ca.crt",
                                                           .server_name = a.name,
                                                           .insecure = a.insecure},
                              &e);
    assert_non_null(client);
    link_init(&l, client, server);
    link_shake(&l);
    if (a.says == NULL) {
        assert_string_equal(l.client.e.msg, "");
        assert_int_equal(l.client.result, TLS_OK);
        assert_int_equal(l.server.result, TLS_OK);
    } else {
        assert_int_equal(l.client.result, TLS_FAILED);
        assert_int_equal(l.client.e.code, -EACCES);
        if (strstr(l.client.e.msg, a.says) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", l.client.e.msg, a.says);
        }
        assert_int_equal(l.server.result, TLS_FAILED);
        if (strstr(l.server.e.msg, "alert") == NULL) {
            fail_msg("\"%s\" tells of no alert", l.server.e.msg);
        }
    }
    link_deinit(&l);
    tls_config_unref(client);
    tls_config_unref(server);
    certs_free(&pair);
}

static void a_dns_name_matches(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.dns = DNS("other", "localhost")}, .name = "localhost"});
    expect((struct attempt){.server = {.dns = DNS("localhost")}, .name = "LOCALHOST."});
    expect((struct attempt){.server = {.dns = DNS("*.example.com")}, .name = "api.example.com"});
}

static void rsa_keys_work(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.dns = DNS("localhost"), .rsa_bits = 2048},
                            .name = "localhost"});
}

static void a_short_key_is_refused(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.dns = DNS("localhost"), .rsa_bits = 1024},
                            .name = "localhost",
                            .says = "\"test\" has a key that is too short"});
}

static void a_weak_signature_is_refused(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.dns = DNS("localhost"), .sha1 = true},
                            .name = "localhost",
                            .says = "\"test\" is signed with an algorithm that is too weak"});
}

static void a_wrong_dns_name_lists_the_right_ones(void **state)
{
    (void)state;
    expect((struct attempt){
        .server = {.dns = DNS("kubernetes", "kubernetes.default"), .ips = DNS("10.0.0.1")},
        .name = "localhost",
        .says = "certificate is for kubernetes, kubernetes.default, 10.0.0.1, but the server is "
                "called \"localhost\"",
    });
    expect((struct attempt){.server = {.dns = DNS("*.example.com")},
                            .name = "a.b.example.com",
                            .says = "certificate is for *.example.com, but"});
}

static void odd_bytes_in_names_do_not_mislead(void **state)
{
    (void)state;
    expect(
        (struct attempt){.server = {.dns = DNS("other, localhost", "new\nline", "*.example.com")},
                         .name = "localhost",
                         .says = "certificate is for other??localhost, new?line, *.example.com, "
                                 "but"});
}

static void a_long_list_of_names_is_cut(void **state)
{
    (void)state;
    expect((struct attempt){
        .server = {.dns = DNS("a-name-of-forty-characters-0123456789.abc",
                              "b-name-of-forty-characters-0123456789.abc",
                              "c-name-of-forty-characters-0123456789.abc",
                              "d-name-of-forty-characters-0123456789.abc")},
        .name = "localhost",
        .says = "c-name-of-forty-characters-0123456789.abc, ..., but",
    });
}

static void an_ip_address_matches(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.ips = DNS("10.0.0.1", "127.0.0.1")}, .name = "127.0.0.1"});
    expect((struct attempt){.server = {.ips = DNS("fd00::1", "::1")}, .name = "::1"});
    expect((struct attempt){.server = {.ips = DNS("fd00::1")}, .name = "[fd00:0:0::1]"});
}

static void a_wrong_ip_address_is_refused(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.ips = DNS("127.0.0.1")},
                            .name = "127.0.0.2",
                            .says = "certificate is for 127.0.0.1, but"});
    expect((struct attempt){.server = {.ips = DNS("fd00::1")},
                            .name = "fd00::2",
                            .says = "certificate is for fd00::1, but"});
    expect((struct attempt){.server = {.ips = DNS("::")}, .name = "0.0.0.0", .says = "is for ::"});
}

static void an_ip_address_in_a_dns_name_does_not_count(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.dns = DNS("127.0.0.1")},
                            .name = "127.0.0.1",
                            .says = "certificate is for 127.0.0.1, but"});
}

static void a_common_name_alone_names_nobody(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.cn = "localhost"},
                            .name = "localhost",
                            .says = "\"localhost\" has no DNS or IP subject alternative names"});
    expect((struct attempt){
        .server = {.cn = "127.0.0.1"}, .name = "127.0.0.1", .says = "has no DNS or IP"});
}

static void an_email_address_names_no_host(void **state)
{
    (void)state;
    expect((struct attempt){
        .server = {.emails = DNS("localhost")}, .name = "localhost", .says = "has no DNS or IP"});
}

static void the_common_name_does_not_help_beside_others(void **state)
{
    (void)state;
    expect((struct attempt){.server = {.cn = "localhost", .dns = DNS("other")},
                            .name = "localhost",
                            .says = "certificate is for other, but"});
}

static void an_unknown_authority_is_refused(void **state)
{
    (void)state;
    expect((struct attempt){
        .server = {.cn = "the server", .dns = DNS("localhost")},
        .unknown_ca = true,
        .name = "localhost",
        .says = "certificate of \"the server\" is signed by an unknown authority, \"test CA\" (CA "
                "from /some/ca.crt)",
    });
}

static void an_expired_certificate_is_refused_with_its_date(void **state)
{
    (void)state;
    expect((struct attempt){
        .server = {.cn = "old", .dns = DNS("localhost"), .not_after = "20240131235958"},
        .name = "localhost",
        .says = "certificate of \"old\" expired on 2024-01-31 23:59:58 UTC",
    });
}

static void a_certificate_of_the_future_is_refused_with_its_date(void **state)
{
    (void)state;
    expect((struct attempt){
        .server = {.cn = "new", .dns = DNS("localhost"), .not_before = "20480203040506"},
        .name = "localhost",
        .says = "certificate of \"new\" is not valid before 2048-02-03 04:05:06 UTC",
    });
}

static void insecure_accepts_everything(void **state)
{
    (void)state;
    expect((struct attempt){
        .server = {.dns = DNS("other"), .not_after = "20240131235959"},
        .unknown_ca = true,
        .name = "localhost",
        .insecure = true,
    });
    expect((struct attempt){.server = {.cn = "x"}, .name = NULL, .insecure = true});
}

static struct tls_config *new_server(const struct certs_pair *pair, const char *client_ca)
{
    struct err e = ERR_INIT;
    struct tls_config *c =
        tls_config_new_server(&(struct tls_server_options){.cert = slice_str(pair->cert),
                                                           .key = slice_str(pair->key),
                                                           .client_ca = slice_str(client_ca)},
                              &e);
    assert_string_equal(e.msg, "");
    return c;
}

static struct tls_config *new_server_for(const struct certs_pair *pair, const char *name)
{
    struct err e = ERR_INIT;
    struct tls_config *c =
        tls_config_new_server(&(struct tls_server_options){.cert = slice_str(pair->cert),
                                                           .key = slice_str(pair->key),
                                                           .client_ca = slice_str(ca.cert),
                                                           .client_name = name},
                              &e);
    assert_string_equal(e.msg, "");
    return c;
}

static struct tls_config *new_client(const struct certs_pair *pair)
{
    struct err e = ERR_INIT;
    struct tls_config *c =
        tls_config_new_client(&(struct tls_client_options){.ca = slice_str(ca.cert),
                                                           .server_name = "localhost",
                                                           .cert = slice_str(pair->cert),
                                                           .key = slice_str(pair->key)},
                              &e);
    assert_string_equal(e.msg, "");
    return c;
}

/* What the server says of a client with a certificate of this common name; "": it is admitted. */
static void expect_named_client(const struct certs_pair *issuer, const char *cn, const char *says)
{
    struct certs_pair pair;
    struct certs_pair mine;
    struct link l;
    certs_issue(&ca, &(struct certs_spec){.dns = DNS("localhost")}, &pair);
    certs_issue(issuer, &(struct certs_spec){.cn = cn, .is_client = true}, &mine);
    struct tls_config *server = new_server_for(&pair, "kube-apiserver");
    struct tls_config *client = new_client(&mine);
    link_init(&l, client, server);
    link_shake(&l);
    assert_int_equal(l.server.result, says[0] == '\0' ? TLS_OK : TLS_FAILED);
    assert_int_equal(l.server.e.code, says[0] == '\0' ? 0 : -EACCES);
    if (strstr(l.server.e.msg, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", l.server.e.msg, says);
    }
    link_deinit(&l);
    tls_config_unref(client);
    tls_config_unref(server);
    certs_free(&mine);
    certs_free(&pair);
}

static void only_the_client_of_that_name_is_admitted(void **state)
{
    (void)state;
    expect_named_client(&ca, "kube-apiserver", "");
    expect_named_client(&ca, "kubelet", "is that of \"kubelet\", and only \"kube-apiserver\"");
    expect_named_client(&ca, "kube-apiserver.evil", "is that of \"kube-apiserver.evil\"");
    expect_named_client(&ca, "kube-apiserve", "is that of \"kube-apiserve\"");
    expect_named_client(&other_ca, "kube-apiserver", "unknown authority");
}

static void an_intermediate_is_sent_and_followed(void **state)
{
    struct certs_pair middle;
    struct certs_pair leaf;
    struct link l;
    (void)state;
    certs_issue(&ca, &(struct certs_spec){.cn = "middle", .is_ca = true}, &middle);
    certs_issue(&middle, &(struct certs_spec){.dns = DNS("localhost")}, &leaf);
    struct tls_config *client = new_client(&(struct certs_pair){.cert = NULL});

    struct tls_config *server = new_server(&leaf, NULL);
    link_init(&l, client, server);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_FAILED);
    assert_non_null(strstr(l.client.e.msg, "unknown authority, \"middle\""));
    link_deinit(&l);
    tls_config_unref(server);

    certs_append(&leaf, &middle);
    server = new_server(&leaf, NULL);
    link_init(&l, client, server);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_OK);
    link_deinit(&l);
    tls_config_unref(server);

    tls_config_unref(client);
    certs_free(&middle);
    certs_free(&leaf);
}

static void an_intermediate_permits_some_names(void **state)
{
    struct certs_pair middle;
    struct certs_pair leaf;
    struct link l;
    (void)state;
    for (int i = 0; i < 2; i++) {
        certs_issue(&ca,
                    &(struct certs_spec){.cn = "middle",
                                         .is_ca = true,
                                         .permitted = i == 0 ? "example.org" : "localhost"},
                    &middle);
        certs_issue(&middle, &(struct certs_spec){.dns = DNS("localhost")}, &leaf);
        certs_append(&leaf, &middle);
        struct tls_config *client = new_client(&(struct certs_pair){.cert = NULL});
        struct tls_config *server = new_server(&leaf, NULL);
        link_init(&l, client, server);
        link_shake(&l);
        assert_int_equal(l.client.result, i == 0 ? TLS_FAILED : TLS_OK);
        assert_string_equal(l.client.e.msg,
                            i == 0 ? "certificate of \"test\" is for localhost, which the name "
                                     "constraints of its authority \"middle\" do not permit"
                                   : "");
        link_deinit(&l);
        tls_config_unref(server);
        tls_config_unref(client);
        certs_free(&middle);
        certs_free(&leaf);
    }
}

static void an_expired_intermediate_is_named(void **state)
{
    struct certs_pair middle;
    struct certs_pair leaf;
    struct link l;
    (void)state;
    certs_issue(&ca,
                &(struct certs_spec){.cn = "middle", .is_ca = true, .not_after = "20240131235959"},
                &middle);
    certs_issue(&middle, &(struct certs_spec){.dns = DNS("localhost")}, &leaf);
    certs_append(&leaf, &middle);
    struct tls_config *client = new_client(&(struct certs_pair){.cert = NULL});
    struct tls_config *server = new_server(&leaf, NULL);
    link_init(&l, client, server);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_FAILED);
    assert_non_null(strstr(l.client.e.msg, "certificate of \"middle\" expired on 2024-01-31"));
    link_deinit(&l);
    tls_config_unref(server);
    tls_config_unref(client);
    certs_free(&middle);
    certs_free(&leaf);
}

/* A leaf that signs another leaf must not pass for an authority. */
static void a_leaf_is_no_authority(void **state)
{
    struct certs_pair middle;
    struct certs_pair leaf;
    struct link l;
    (void)state;
    certs_issue(&ca, &(struct certs_spec){.cn = "no CA", .dns = DNS("mine")}, &middle);
    certs_issue(&middle, &(struct certs_spec){.dns = DNS("localhost")}, &leaf);
    certs_append(&leaf, &middle);
    struct tls_config *client = new_client(&(struct certs_pair){.cert = NULL});
    struct tls_config *server = new_server(&leaf, NULL);
    link_init(&l, client, server);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_FAILED);
    assert_non_null(strstr(l.client.e.msg, "unknown authority, \"no CA\""));
    link_deinit(&l);
    tls_config_unref(server);
    tls_config_unref(client);
    certs_free(&middle);
    certs_free(&leaf);
}

/* What the server makes of a client's certificate; `says` NULL: accepted. */
static void expect_client(const struct certs_pair *shown, const char *says)
{
    struct certs_pair pair;
    struct link l;
    certs_issue(&ca, &(struct certs_spec){.dns = DNS("localhost")}, &pair);
    struct tls_config *server = new_server(&pair, ca.cert);
    struct tls_config *client = new_client(shown);
    link_init(&l, client, server);
    link_shake(&l);
    if (says == NULL) {
        assert_string_equal(l.server.e.msg, "");
        assert_int_equal(l.server.result, TLS_OK);
        assert_int_equal(l.client.result, TLS_OK);
    } else {
        assert_int_equal(l.server.result, TLS_FAILED);
        assert_int_equal(l.server.e.code, -EACCES);
        if (strstr(l.server.e.msg, says) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", l.server.e.msg, says);
        }
        assert_int_equal(l.client.result, TLS_FAILED);
        if (strstr(l.client.e.msg, "the server ended TLS with an alert") == NULL) {
            fail_msg("\"%s\" tells of no alert", l.client.e.msg);
        }
    }
    link_deinit(&l);
    tls_config_unref(client);
    tls_config_unref(server);
    certs_free(&pair);
}

static void a_client_certificate_is_demanded(void **state)
{
    (void)state;
    expect_client(&(struct certs_pair){.cert = NULL}, "the client showed no certificate");
}

static void a_good_client_certificate_is_accepted(void **state)
{
    struct certs_pair pair;
    (void)state;
    certs_issue(&ca, &(struct certs_spec){.cn = "operator", .is_client = true}, &pair);
    expect_client(&pair, NULL);
    certs_free(&pair);
}

static void a_bad_client_certificate_is_refused(void **state)
{
    struct certs_pair pair;
    (void)state;
    certs_issue(&other_ca, &(struct certs_spec){.cn = "operator", .is_client = true}, &pair);
    expect_client(&pair, "certificate of \"operator\" is signed by an unknown authority");
    certs_free(&pair);
    certs_issue(&ca, &(struct certs_spec){.is_client = true, .not_after = "20240131235959"}, &pair);
    expect_client(&pair, "expired on 2024-01-31");
    certs_free(&pair);
    certs_issue(&ca, &(struct certs_spec){.dns = DNS("localhost")}, &pair);
    expect_client(&pair, "the client's certificate is not meant for a TLS client");
    certs_free(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dns_name_matches),
        cmocka_unit_test(rsa_keys_work),
        cmocka_unit_test(a_short_key_is_refused),
        cmocka_unit_test(a_weak_signature_is_refused),
        cmocka_unit_test(a_wrong_dns_name_lists_the_right_ones),
        cmocka_unit_test(odd_bytes_in_names_do_not_mislead),
        cmocka_unit_test(a_long_list_of_names_is_cut),
        cmocka_unit_test(an_ip_address_matches),
        cmocka_unit_test(a_wrong_ip_address_is_refused),
        cmocka_unit_test(an_ip_address_in_a_dns_name_does_not_count),
        cmocka_unit_test(a_common_name_alone_names_nobody),
        cmocka_unit_test(an_email_address_names_no_host),
        cmocka_unit_test(the_common_name_does_not_help_beside_others),
        cmocka_unit_test(an_unknown_authority_is_refused),
        cmocka_unit_test(an_expired_certificate_is_refused_with_its_date),
        cmocka_unit_test(a_certificate_of_the_future_is_refused_with_its_date),
        cmocka_unit_test(insecure_accepts_everything),
        cmocka_unit_test(only_the_client_of_that_name_is_admitted),
        cmocka_unit_test(an_intermediate_is_sent_and_followed),
        cmocka_unit_test(an_intermediate_permits_some_names),
        cmocka_unit_test(an_expired_intermediate_is_named),
        cmocka_unit_test(a_leaf_is_no_authority),
        cmocka_unit_test(a_client_certificate_is_demanded),
        cmocka_unit_test(a_good_client_certificate_is_accepted),
        cmocka_unit_test(a_bad_client_certificate_is_refused),
    };
    return cmocka_run_group_tests(tests, make_cas, free_cas);
}
