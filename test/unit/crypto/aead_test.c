/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "crypto/aead.h"
#include "crypto/hmac.h"

#define SIZE_MOST 20000

static const enum aead_algorithm all[] = {AEAD_AES_128_GCM, AEAD_AES_256_GCM,
                                          AEAD_CHACHA20_POLY1305};
static const uint8_t key[AEAD_KEY_MAX] = {7, 1, 4};
static const uint8_t nonce[AEAD_NONCE_SIZE] = {1, 2, 3};

static uint8_t text[SIZE_MOST];
static uint8_t sealed[SIZE_MOST + AEAD_TAG_SIZE];
static uint8_t opened[SIZE_MOST + AEAD_TAG_SIZE];

/* Which compares the algorithms with their standards. */
static int start(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * 31);
    }
    return aead_usable() ? 0 : -1;
}

static struct aead *make(enum aead_algorithm a)
{
    struct aead *aead = aead_new(a, key);
    assert_non_null(aead);
    return aead;
}

static void texts_of_all_sizes_come_back(void **state)
{
    static const size_t sizes[] = {0,   1,   15,   16,   17,    63,    64,   65,
                                   255, 256, 1023, 4096, 16384, 16385, 20000};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct aead *a = make(all[i]);
        for (size_t j = 0; j < ARRAY_LEN(sizes); j++) {
            size_t n = sizes[j];
            assert_int_equal(aead_seal(a, nonce, SLICE("extra"), text, n, sealed), 0);
            assert_int_equal(aead_open(a, nonce, SLICE("extra"), sealed, n + AEAD_TAG_SIZE, opened),
                             0);
            assert_memory_equal(opened, text, n);
        }
        aead_free(a);
    }
}

static void texts_are_sealed_and_opened_in_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct aead *a = make(all[i]);
        memcpy(sealed, text, 1000);
        assert_int_equal(aead_seal(a, nonce, SLICE("extra"), text, 1000, opened), 0);
        assert_int_equal(aead_seal(a, nonce, SLICE("extra"), sealed, 1000, sealed), 0);
        assert_memory_equal(sealed, opened, 1000 + AEAD_TAG_SIZE);
        assert_int_equal(aead_open(a, nonce, SLICE("extra"), sealed, 1000 + AEAD_TAG_SIZE, sealed),
                         0);
        assert_memory_equal(sealed, text, 1000);
        aead_free(a);
    }
}

static void refuse(struct aead *a, const uint8_t *with, struct slice extra, size_t len)
{
    static const uint8_t zeros[100];
    memset(opened, 0xee, sizeof opened);
    assert_int_equal(aead_open(a, with, extra, sealed, len, opened), -EBADMSG);
    if (len > AEAD_TAG_SIZE) {
        assert_memory_equal(opened, zeros, len - AEAD_TAG_SIZE);
    }
}

static void what_was_changed_is_refused_and_not_given_out(void **state)
{
    static const uint8_t other_nonce[AEAD_NONCE_SIZE] = {1, 2, 4};
    static const uint8_t other_key[AEAD_KEY_MAX] = {7, 1, 5};
    size_t len = 100 + AEAD_TAG_SIZE;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct aead *a = make(all[i]);
        assert_int_equal(aead_seal(a, nonce, SLICE("extra"), text, 100, sealed), 0);
        for (size_t j = 0; j < len * 8; j++) {
            sealed[j / 8] ^= (uint8_t)(1u << j % 8);
            refuse(a, nonce, SLICE("extra"), len);
            sealed[j / 8] ^= (uint8_t)(1u << j % 8);
        }
        for (size_t j = 0; j < len; j++) {
            refuse(a, nonce, SLICE("extra"), j);
        }
        refuse(a, other_nonce, SLICE("extra"), len);
        refuse(a, nonce, SLICE("Extra"), len);
        refuse(a, nonce, SLICE(""), len);
        struct aead *other = aead_new(all[i], other_key);
        assert_non_null(other);
        refuse(other, nonce, SLICE("extra"), len);
        aead_free(other);
        assert_int_equal(aead_open(a, nonce, SLICE("extra"), sealed, len, opened), 0);
        aead_free(a);
    }
}

static void keys_have_the_size_of_their_algorithm(void **state)
{
    (void)state;
    assert_int_equal(aead_key_size(AEAD_AES_128_GCM), 16);
    assert_int_equal(aead_key_size(AEAD_AES_256_GCM), 32);
    assert_int_equal(aead_key_size(AEAD_CHACHA20_POLY1305), 32);
    aead_free(NULL);
}

/* RFC 4231, test case 2. */
static void hmac_gives_what_its_standard_says(void **state)
{
    static const uint8_t sha256[] = {
        0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
        0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
        0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43,
    };
    static const uint8_t sha384[] = {
        0xaf, 0x45, 0xd2, 0xe3, 0x76, 0x48, 0x40, 0x31, 0x61, 0x7f, 0x78, 0xd2,
        0xb5, 0x8a, 0x6b, 0x1b, 0x9c, 0x7e, 0xf4, 0x64, 0xf5, 0xa0, 0x1b, 0x47,
        0xe4, 0x2e, 0xc3, 0x73, 0x63, 0x22, 0x44, 0x5e, 0x8e, 0x22, 0x40, 0xca,
        0x5e, 0x69, 0xe2, 0xc7, 0x8b, 0x32, 0x39, 0xec, 0xfa, 0xb2, 0x16, 0x49,
    };
    uint8_t out[HMAC_SIZE_MAX];
    struct slice data = SLICE("what do ya want for nothing?");
    (void)state;
    assert_int_equal(hmac_size(HMAC_SHA256), sizeof sha256);
    assert_int_equal(hmac(HMAC_SHA256, SLICE("Jefe"), data, out), 0);
    assert_memory_equal(out, sha256, sizeof sha256);
    assert_int_equal(hmac_size(HMAC_SHA384), sizeof sha384);
    assert_int_equal(hmac(HMAC_SHA384, SLICE("Jefe"), data, out), 0);
    assert_memory_equal(out, sha384, sizeof sha384);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_all_sizes_come_back),
        cmocka_unit_test(texts_are_sealed_and_opened_in_their_place),
        cmocka_unit_test(what_was_changed_is_refused_and_not_given_out),
        cmocka_unit_test(keys_have_the_size_of_their_algorithm),
        cmocka_unit_test(hmac_gives_what_its_standard_says),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
