/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/x509.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "certs.h"
#include "crypto/digest.h"

static struct buf made; /* an authority's certificate, DER */

static int make(void **state)
{
    struct certs_pair ca;
    (void)state;
    certs_make_ca("a \"CA\"", &ca);
    const char *from = strchr(ca.cert, '\n') + 1;
    const char *to = strstr(from, "-----END");
    buf_init(&made, 8192);
    int rc = base64_decode(slice_of(from, (size_t)(to - from)), &made);
    certs_free(&ca);
    return rc;
}

static int drop(void **state)
{
    (void)state;
    buf_reset(&made);
    return 0;
}

static void a_certificate_is_taken_apart(void **state)
{
    struct x509 c;
    struct x509_extension x;
    char text[64];
    size_t count = 0;
    bool constraints = false;
    (void)state;
    assert_true(x509_read(buf_slice(&made), &c));
    x509_subject_text(&c, text, sizeof text);
    assert_string_equal(text, "a ?CA?");
    x509_key_text(&c, text, sizeof text);
    assert_string_equal(text, "ECDSA on P-256");
    x509_oid_text(c.signature_oid, text, sizeof text);
    assert_string_equal(text, "1.2.840.10045.4.3.2"); /* ecdsa-with-SHA256 */
    while (x509_next_extension(&c.extensions, &x)) {
        count++;
        constraints = constraints || slice_eq(x.oid, X509_OID_NAME_CONSTRAINTS);
    }
    assert_int_equal(count, 1); /* basic constraints */
    assert_int_equal(c.extensions.len, 0);
    assert_false(constraints);
}

static void what_is_cut_is_none(void **state)
{
    struct x509 c;
    struct slice whole = buf_slice(&made);
    (void)state;
    for (size_t n = 0; n < whole.len; n++) {
        assert_false(x509_read(slice_of(whole.ptr, n), &c));
    }
}

static void texts_fit(void **state)
{
    struct x509 c;
    char text[64];
    (void)state;
    assert_true(x509_read(buf_slice(&made), &c));
    for (size_t size = 1; size < sizeof text; size++) {
        memset(text, 'x', sizeof text);
        x509_key_text(&c, text, size);
        assert_true(strlen(text) < size);
        x509_oid_text(c.signature_oid, text, size);
        assert_true(strlen(text) < size);
        x509_subject_text(&c, text, size);
        assert_true(strlen(text) < size);
        assert_int_equal(text[size], 'x');
    }
}

static void algorithms_have_names(void **state)
{
    static const struct {
        struct slice oid;
        const char *text;
    } cases[] = {
        {SLICE("\x2b\x65\x70"), "Ed25519"},
        {SLICE("\x60\x86\x48\x01\x65\x03\x04\x03\x12"), "ML-DSA-65"},
        {SLICE("\x2b\x24\x03\x03\x02\x08\x01\x01\x07"), "brainpoolP256r1"},
        {SLICE("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a"), "RSA-PSS"},
        {SLICE("\x55\x1d\x24"), "policy constraints"},
        {SLICE("\x2b\x06\x01\x04\x01\x86\x8d\x1f\x01"), "1.3.6.1.4.1.99999.1"},
        {SLICE("\x88\x37\x03"), "2.999.3"},
        {SLICE(""), ""},
    };
    char text[64];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        x509_oid_text(cases[i].oid, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void a_subject_without_a_name(void **state)
{
    struct x509 c = {.subject = SLICE("\x31\x0c\x30\x0a\x06\x03\x55\x04\x0a\x0c\x03"
                                      "Org")};
    char text[64];
    (void)state;
    x509_subject_text(&c, text, sizeof text);
    assert_string_equal(text, "Org");
    c.subject.len = 0;
    x509_subject_text(&c, text, sizeof text);
    assert_string_equal(text, "an unnamed subject");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_is_taken_apart),
        cmocka_unit_test(what_is_cut_is_none),
        cmocka_unit_test(texts_fit),
        cmocka_unit_test(algorithms_have_names),
        cmocka_unit_test(a_subject_without_a_name),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
