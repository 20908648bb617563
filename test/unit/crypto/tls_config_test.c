/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "crypto/digest.h"
#include "link.h"
#include "temp_dir.h"

static struct certs_pair ca;
static struct certs_pair server;
static struct certs_pair client;

static int make_certs(void **state)
{
    static const char *const names[] = {"localhost", NULL};
    (void)state;
    certs_make_ca("test CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.dns = names}, &server);
    certs_issue(&ca, &(struct certs_spec){.is_client = true}, &client);
    return 0;
}

static int free_certs(void **state)
{
    (void)state;
    certs_free(&ca);
    certs_free(&server);
    certs_free(&client);
    return 0;
}

static void server_fails(struct tls_server_options o, const char *says)
{
    struct err e = ERR_INIT;
    o.cert_name = "/some/tls.crt";
    o.key_name = "/some/tls.key";
    assert_null(tls_config_new_server(&o, &e));
    assert_int_equal(e.code, -EINVAL);
    if (strstr(e.msg, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", e.msg, says);
    }
    assert_null(strstr(e.msg, "PRIVATE"));
}

static void client_fails(struct tls_client_options o, const char *says)
{
    struct err e = ERR_INIT;
    assert_null(tls_config_new_client(&o, &e));
    assert_true(e.code < 0);
    if (strstr(e.msg, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", e.msg, says);
    }
}

static void a_server_needs_certificate_and_key(void **state)
{
    (void)state;
    server_fails((struct tls_server_options){.key = slice_str(server.key)},
                 "/some/tls.crt is empty");
    server_fails((struct tls_server_options){.cert = slice_str(server.cert)},
                 "/some/tls.key is empty");
}

static void a_key_of_another_certificate_is_refused(void **state)
{
    (void)state;
    server_fails(
        (struct tls_server_options){.cert = slice_str(server.cert), .key = slice_str(client.key)},
        "the private key of /some/tls.key does not belong to the certificate of "
        "/some/tls.crt");
}

static void a_client_certificate_cannot_serve(void **state)
{
    (void)state;
    server_fails(
        (struct tls_server_options){.cert = slice_str(client.cert), .key = slice_str(client.key)},
        "/some/tls.crt: the certificate is not meant for a TLS server");
}

static void unreadable_text_is_named(void **state)
{
    (void)state;
    server_fails((struct tls_server_options){.cert = SLICE("what?"), .key = slice_str(server.key)},
                 "/some/tls.crt: no certificate could be read");
    server_fails(
        (struct tls_server_options){.cert = slice_str(server.key), .key = slice_str(server.key)},
        "/some/tls.crt: no certificate could be read");
    server_fails((struct tls_server_options){.cert = slice_str(server.cert), .key = SLICE("what?")},
                 "/some/tls.key: no private key could be read");
    server_fails(
        (struct tls_server_options){.cert = slice_str(server.cert), .key = slice_str(server.cert)},
        "/some/tls.key: no private key could be read");
    client_fails((struct tls_client_options){.ca = SLICE("-----BEGIN CERTIFICATE-----\nxx\n"),
                                             .ca_name = "/some/ca.crt",
                                             .server_name = "localhost"},
                 "/some/ca.crt: no certificate could be read");
}

/* Made with: openssl ecparam -name prime256v1 -genkey | openssl pkcs8 -topk8 -passout pass:secret
 */
static const char encrypted_pkcs8[] =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhJFMFCNowUPwICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEG7wbmvcrgmuKrExm1IKahAEgZAb\n"
    "E63VE91ccWB2e6yLNsAYWEsw8WSlIVavxZW0WZ8N9iFWKfaGJAz4GztzSst/AZWi\n"
    "SqE6A5rOUOxa5tLUDdYUF6OdR/dv7FyqN6rB+F/KRd0a+IgNXeY8MMCKobfZz7dG\n"
    "eelhewR/ZaR3m7ZaaMbigJz8/KGVHrdJ69U3S0/3o4kIR425ML8deJgcFO4sigw=\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";

/* Made with: openssl ecparam -name prime256v1 -genkey | openssl ec -aes128 -passout pass:secret */
static const char encrypted_pem[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "Proc-Type: 4,ENCRYPTED\n"
    "DEK-Info: AES-128-CBC,935C288D936B3C7E886D440EA73E1D7E\n"
    "\n"
    "+JSwzFej9tJjMUSC3UrzaaBag2NfElO8QISfkoYVKg5gsnMhWYFKHdtRYq7DZkLA\n"
    "Cy2RbjLivkyNorMpDTw90yNotQgfLiPaqx3VNikcnNswWn5VLCyfiOHZ7AWK+vIo\n"
    "2xQr0gtvdrlgNEbTFZdWXFhwH9I+TMXsZXU8C28oARI=\n"
    "-----END EC PRIVATE KEY-----\n";

static void encrypted_keys_are_refused(void **state)
{
    (void)state;
    server_fails((struct tls_server_options){.cert = slice_str(server.cert),
                                             .key = slice_str(encrypted_pkcs8)},
                 "/some/tls.key: the private key is encrypted");
    server_fails((struct tls_server_options){.cert = slice_str(server.cert),
                                             .key = slice_str(encrypted_pem)},
                 "/some/tls.key: the private key is encrypted");
}

static void a_client_needs_the_name_unless_insecure(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    client_fails((struct tls_client_options){.ca = slice_str(ca.cert)}, "the server's name");
    client_fails((struct tls_client_options){.ca = slice_str(ca.cert), .server_name = ""},
                 "the server's name");
    struct tls_config *c =
        tls_config_new_client(&(struct tls_client_options){.insecure = true}, &e);
    assert_non_null(c);
    tls_config_unref(c);
}

static void a_client_needs_both_certificate_and_key(void **state)
{
    (void)state;
    client_fails((struct tls_client_options){.ca = slice_str(ca.cert),
                                             .server_name = "localhost",
                                             .cert = slice_str(client.cert),
                                             .key_name = "client-key-data"},
                 "client-key-data is empty");
    client_fails((struct tls_client_options){.ca = slice_str(ca.cert),
                                             .server_name = "localhost",
                                             .key = slice_str(client.key)},
                 "the certificate is empty");
    client_fails((struct tls_client_options){.ca = slice_str(ca.cert),
                                             .server_name = "localhost",
                                             .cert = slice_str(client.cert),
                                             .key = slice_str(server.key)},
                 "does not belong to");
}

/* Handshakes with a client that trusts `bundle`. */
static enum tls_result shake_with(struct slice bundle)
{
    struct err e = ERR_INIT;
    struct link l;
    struct tls_config *s = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(server.cert), .key = slice_str(server.key)},
        &e);
    assert_non_null(s);
    struct tls_config *c = tls_config_new_client(
        &(struct tls_client_options){.ca = bundle, .server_name = "localhost"}, &e);
    assert_string_equal(e.msg, "");
    link_init(&l, c, s);
    link_shake(&l);
    enum tls_result r = l.client.result;
    link_deinit(&l);
    tls_config_unref(c);
    tls_config_unref(s);
    return r;
}

static void odd_certificates_in_a_bundle_are_passed_over(void **state)
{
    struct buf bundle = BUF_INIT(64 * 1024);
    (void)state;
    assert_int_equal(buf_append_str(&bundle, "# a comment\n"), 0);
    assert_int_equal(buf_append_str(&bundle, "-----BEGIN CERTIFICATE-----\nMAMBAQU=\n"
                                             "-----END CERTIFICATE-----\n"),
                     0);
    assert_int_equal(buf_append_str(&bundle, ca.cert), 0);
    assert_int_equal(buf_append_str(&bundle, "the end"), 0);
    assert_int_equal(shake_with(buf_slice(&bundle)), TLS_OK);
    buf_reset(&bundle);
}

static void the_second_certificate_of_a_bundle_counts(void **state)
{
    struct certs_pair other;
    (void)state;
    certs_make_ca("other CA", &other);
    assert_int_equal(shake_with(slice_str(other.cert)), TLS_FAILED);
    certs_append(&other, &ca);
    assert_int_equal(shake_with(slice_str(other.cert)), TLS_OK);
    certs_free(&other);
}

static void without_a_ca_the_system_is_asked(void **state)
{
    struct temp_dir dir;
    char path[256];
    (void)state;
    temp_dir_init(&dir);
    temp_dir_write(&dir, "roots.pem", ca.cert, 0600);
    setenv("SSL_CERT_FILE", temp_dir_path(&dir, "roots.pem", path), 1);
    assert_int_equal(shake_with(slice_of(NULL, 0)), TLS_OK);
    setenv("SSL_CERT_FILE", temp_dir_path(&dir, "nothing.pem", path), 1);
    client_fails((struct tls_client_options){.server_name = "localhost"}, "nothing.pem");
    unsetenv("SSL_CERT_FILE");
    temp_dir_deinit(&dir);
}

static void authorities_are_shared(void **state)
{
    struct err e = ERR_INIT;
    struct link l;
    (void)state;
    struct tls_trust *trust = tls_trust_new(slice_str(ca.cert), "/some/ca.crt", &e);
    struct tls_config *right = tls_config_new_client(
        &(struct tls_client_options){.trust = trust, .server_name = "localhost"}, &e);
    struct tls_config *wrong = tls_config_new_client(
        &(struct tls_client_options){.trust = trust, .server_name = "example.org"}, &e);
    struct tls_config *s = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(server.cert), .key = slice_str(server.key)},
        &e);
    tls_trust_unref(trust);
    link_init(&l, right, s);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_OK);
    link_deinit(&l);
    tls_config_unref(right);
    link_init(&l, wrong, s);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_FAILED);
    assert_non_null(strstr(l.client.e.msg, "example.org"));
    link_deinit(&l);
    tls_config_unref(wrong);
    tls_config_unref(s);
}

static void authorities_that_cannot_be_read_are_named(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    assert_null(tls_trust_new(SLICE("nothing"), "/some/ca.crt", &e));
    assert_int_equal(e.code, -EINVAL);
    assert_non_null(strstr(e.msg, "/some/ca.crt: no certificate could be read"));
    tls_trust_unref(NULL);
}

static void der_is_read_too(void **state)
{
    (void)state;
    /* Without the PEM armour, a certificate is its base64 decoded. */
    const char *from = strchr(ca.cert, '\n') + 1;
    const char *to = strstr(from, "-----END");
    struct buf der = BUF_INIT(8192);
    assert_int_equal(base64_decode(slice_of(from, (size_t)(to - from)), &der), 0);
    assert_int_equal(shake_with(buf_slice(&der)), TLS_OK);
    buf_reset(&der);
}

static void options_are_copied(void **state)
{
    struct err e = ERR_INIT;
    char cert[8192];
    char name[] = "localhost";
    char proto[] = "http/1.1";
    const char *alpn[] = {proto, NULL};
    struct link l;
    (void)state;
    (void)snprintf(cert, sizeof(cert), "%s", ca.cert);
    struct tls_config *s = tls_config_new_server(
        &(struct tls_server_options){
            .cert = slice_str(server.cert), .key = slice_str(server.key), .alpn = alpn},
        &e);
    struct tls_config *c = tls_config_new_client(
        &(struct tls_client_options){.ca = slice_str(cert), .server_name = name, .alpn = alpn}, &e);
    memset(cert, 'x', sizeof(cert));
    memset(name, 'x', sizeof(name) - 1);
    memset(proto, 'x', sizeof(proto) - 1);
    alpn[0] = NULL;
    link_init(&l, c, s);
    link_shake(&l);
    assert_string_equal(l.client.e.msg, "");
    assert_string_equal(tls_session_alpn(l.client.tls), "http/1.1");
    link_deinit(&l);
    tls_config_unref(c);
    tls_config_unref(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_needs_certificate_and_key),
        cmocka_unit_test(a_key_of_another_certificate_is_refused),
        cmocka_unit_test(a_client_certificate_cannot_serve),
        cmocka_unit_test(unreadable_text_is_named),
        cmocka_unit_test(encrypted_keys_are_refused),
        cmocka_unit_test(a_client_needs_the_name_unless_insecure),
        cmocka_unit_test(a_client_needs_both_certificate_and_key),
        cmocka_unit_test(odd_certificates_in_a_bundle_are_passed_over),
        cmocka_unit_test(the_second_certificate_of_a_bundle_counts),
        cmocka_unit_test(without_a_ca_the_system_is_asked),
        cmocka_unit_test(authorities_are_shared),
        cmocka_unit_test(authorities_that_cannot_be_read_are_named),
        cmocka_unit_test(der_is_read_too),
        cmocka_unit_test(options_are_copied),
    };
    return cmocka_run_group_tests(tests, make_certs, free_certs);
}
