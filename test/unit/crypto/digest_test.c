/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/array.h"
#include "crypto/digest.h"

static void sha256_of_known_texts(void **state)
{
    /* The examples of FIPS 180-4. */
    char hex[SHA256_HEX_LEN + 1];
    (void)state;
    sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void sha256_sees_nul_bytes(void **state)
{
    char a[SHA256_HEX_LEN + 1];
    char b[SHA256_HEX_LEN + 1];
    (void)state;
    sha256_hex("a\0b", 3, a);
    sha256_hex("a\0c", 3, b);
    assert_string_not_equal(a, b);
}

/* The examples of RFC 4648 section 10. */
static const char *const vectors[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

static void base64_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct buf text = BUF_INIT(64);
        struct buf data = BUF_INIT(64);
        assert_int_equal(base64_encode(slice_str(vectors[i][0]), &text), 0);
        assert_string_equal(buf_cstr(&text), vectors[i][1]);
        assert_int_equal(base64_decode(slice_str(vectors[i][1]), &data), 0);
        assert_string_equal(buf_cstr(&data), vectors[i][0]);
        buf_reset(&text);
        buf_reset(&data);
    }
}

static void base64_appends(void **state)
{
    struct buf b = BUF_INIT(64);
    (void)state;
    assert_int_equal(buf_append_str(&b, "Basic "), 0);
    assert_int_equal(base64_encode(SLICE("foo"), &b), 0);
    assert_int_equal(base64_encode(SLICE("bar"), &b), 0);
    assert_string_equal(buf_cstr(&b), "Basic Zm9vYmFy");
    buf_reset(&b);
}

static void base64_all_lengths(void **state)
{
    unsigned char data[300];
    (void)state;
    for (size_t len = 0; len < sizeof(data); len++) {
        struct buf text = BUF_INIT(1024);
        struct buf back = BUF_INIT(len);
        data[len] = (unsigned char)(len * 167 + 13);
        assert_int_equal(base64_encode(slice_of((const char *)data, len), &text), 0);
        assert_int_equal(base64_decode(buf_slice(&text), &back), 0);
        assert_int_equal(back.len, len);
        if (len > 0) {
            assert_memory_equal(buf_data(&back), data, len);
        }
        buf_reset(&text);
        buf_reset(&back);
    }
}

static void base64_skips_white_space_anywhere(void **state)
{
    struct buf b = BUF_INIT(64);
    (void)state;
    assert_int_equal(base64_decode(SLICE(" Zm\n9 v\tYm\r\nFy\n\n"), &b), 0);
    assert_string_equal(buf_cstr(&b), "foobar");
    buf_clear(&b);
    assert_int_equal(base64_decode(SLICE("Zg =\n="), &b), 0);
    assert_string_equal(buf_cstr(&b), "f");
    buf_reset(&b);
}

static void base64_refuses_what_is_not(void **state)
{
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",  "Zm9vY",    "Zm9v!g==", "=Zg=",      "Zg==Zg==",
        "Z===", "====", "Zm-_", "Zm9v\x80", "Zg==x",    "Zm9vYg===",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct buf b = BUF_INIT(64);
        assert_int_equal(buf_append_str(&b, "kept"), 0);
        assert_int_equal(base64_decode(slice_str(bad[i]), &b), -EINVAL);
        assert_string_equal(buf_cstr(&b), "kept");
        buf_reset(&b);
    }
}

static void base64_refuses_what_does_not_fit(void **state)
{
    struct buf b = BUF_INIT(5);
    (void)state;
    assert_int_equal(base64_decode(SLICE("Zm9vYmFy"), &b), -ENOBUFS);
    assert_int_equal(base64_encode(SLICE("foob"), &b), -ENOBUFS);
    assert_int_equal(b.len, 0);
    assert_int_equal(base64_decode(SLICE("Zm9vYmE="), &b), 0);
    assert_int_equal(b.len, 5);
    buf_reset(&b);
}

static void secrets_are_compared_whole(void **state)
{
    (void)state;
    assert_true(secret_equal(SLICE(""), slice_of(NULL, 0)));
    assert_true(secret_equal(SLICE("token"), SLICE("token")));
    assert_false(secret_equal(SLICE("token"), SLICE("tokem")));
    assert_false(secret_equal(SLICE("token"), SLICE("Token")));
    assert_false(secret_equal(SLICE("token"), SLICE("token2")));
    assert_false(secret_equal(SLICE("token"), SLICE("")));
    assert_false(secret_equal(SLICE("a\0b"), SLICE("a\0c")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_of_known_texts),
        cmocka_unit_test(sha256_sees_nul_bytes),
        cmocka_unit_test(base64_both_ways),
        cmocka_unit_test(base64_appends),
        cmocka_unit_test(base64_all_lengths),
        cmocka_unit_test(base64_skips_white_space_anywhere),
        cmocka_unit_test(base64_refuses_what_is_not),
        cmocka_unit_test(base64_refuses_what_does_not_fit),
        cmocka_unit_test(secrets_are_compared_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
