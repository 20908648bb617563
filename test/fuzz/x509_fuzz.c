/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses what the rest is:
 *
 * c  a certificate. What the library reads, ours takes apart too, so that no constraint is missed;
 *    and what it says of it fits.
 * n  the values of two extensions, behind a byte with the length of the first: name constraints,
 * and the names of a certificate. It passes if and only if each half of its names passes; the case
 * of letters makes no difference; and unreadable constraints pass nothing.
 */
#include <ctype.h>
#include <string.h>

#include "check.h"
#include "crypto/mbedtls/certificate_chain.h"
#include "crypto/mbedtls/certificate_parse.h"
#include "crypto/name_constraints.h"
#include "der_write.h"

static void fuzz_certificate(struct slice der)
{
    struct x509 x;
    struct err e = ERR_INIT;
    char text[16];
    mbedtls_x509_crt crt;
    bool taken = x509_read(der, &x);
    mbedtls_x509_crt_init(&crt);
    certificate_parse_watch(&e);
    int rc = mbedtls_x509_crt_parse_der(&crt, (const unsigned char *)der.ptr, der.len);
    certificate_parse_watch(NULL);
    CHECK((rc == 0) == (e.code == 0));
    if (rc == 0) {
        struct certificate_chain chain = {.count = 0};
        CHECK(taken);
        CHECK(certificate_chain_add(&chain, &crt, &e) == 0);
        CHECK((chain.count == 1) == name_constraints_present(&x));
        CHECK(certificate_chain_add(&chain, &crt, &e) <= 0);
    }
    mbedtls_x509_crt_free(&crt);
    if (taken) {
        x509_subject_text(&x, text, sizeof text);
        CHECK(strlen(text) < sizeof text && text[0] != '\0');
        x509_key_text(&x, text, sizeof text);
        CHECK(strlen(text) < sizeof text);
    }
}

static int check(struct slice constraints, struct slice names, struct err *e)
{
    struct buf authority = BUF_INIT(SIZE_MAX);
    struct buf certificate = BUF_INIT(SIZE_MAX);
    der_put(&authority, constraints.ptr, constraints.len);
    der_wrap_extension(&authority, 0, X509_OID_NAME_CONSTRAINTS);
    der_put(&certificate, names.ptr, names.len);
    der_wrap(&certificate, 0, DER_SEQUENCE);
    der_wrap_extension(&certificate, 0, X509_OID_SUBJECT_ALT_NAME);
    struct x509 ca = {.extensions = buf_slice(&authority)};
    struct x509 c = {.extensions = buf_slice(&certificate)};
    int rc = name_constraints_check(&ca, &c, e);
    buf_reset(&authority);
    buf_reset(&certificate);
    return rc;
}

static void fuzz_names(struct slice bytes)
{
    struct err e = ERR_INIT;
    uint8_t tag = 0;
    struct slice value;
    if (bytes.len == 0 || der_byte(bytes, 0) >= bytes.len) {
        return;
    }
    struct slice constraints = slice_of(bytes.ptr + 1, der_byte(bytes, 0));
    struct slice names =
        slice_of(constraints.ptr + constraints.len, bytes.len - 1 - constraints.len);
    int rc = check(constraints, names, &e);
    CHECK(rc == e.code && (rc == 0 || e.msg[0] != '\0'));
    CHECK(name_constraints_readable(constraints) || rc != 0);
    struct slice rest = names;
    if (der_next(&rest, &tag, &value)) {
        struct slice first = slice_of(names.ptr, names.len - rest.len);
        struct err ignored = ERR_INIT;
        CHECK((rc == 0) == (check(constraints, first, &ignored) == 0 &&
                            check(constraints, rest, &ignored) == 0));
        if (tag == 0x82 && value.len > 0) {
            char *letters = (char *)(uintptr_t)value.ptr; /* of a copy */
            for (size_t i = 0; i < value.len; i++) {
                letters[i] =
                    (char)(islower((unsigned char)letters[i]) ? toupper((unsigned char)letters[i])
                                                              : tolower((unsigned char)letters[i]));
            }
            CHECK((rc == 0) == (check(constraints, names, &ignored) == 0));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct buf copy = BUF_INIT(SIZE_MAX);
    der_put(&copy, data + 1, size - 1);
    if (data[0] == 'c') {
        fuzz_certificate(buf_slice(&copy));
    } else if (data[0] == 'n') {
        fuzz_names(buf_slice(&copy));
    }
    buf_reset(&copy);
    return 0;
}
