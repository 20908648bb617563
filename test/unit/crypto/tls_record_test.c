/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/array.h"
#include "records_peer.h"

static int start(void **state)
{
    (void)state;
    return aead_usable() ? 0 : -1;
}

/* ---- RFC 8448 section 3 ---- */

static const uint8_t server_secret[32] = {
    0xa1, 0x1a, 0xf9, 0xf0, 0x55, 0x31, 0xf8, 0x56, 0xad, 0x47, 0x11, 0x6b, 0x45, 0xa9, 0x50, 0x32,
    0x82, 0x04, 0xb4, 0xf4, 0x4b, 0xfb, 0x6b, 0x3a, 0x4b, 0x4f, 0x1f, 0x3f, 0xcb, 0x63, 0x16, 0x43,
};
static const uint8_t client_secret[32] = {
    0x9e, 0x40, 0x64, 0x6c, 0xe7, 0x9a, 0x7f, 0x9d, 0xc0, 0x5a, 0xf8, 0x88, 0x9b, 0xce, 0x65, 0x52,
    0x87, 0x5a, 0xfa, 0x0b, 0x06, 0xdf, 0x00, 0x87, 0xf7, 0x92, 0xeb, 0xb7, 0xc1, 0x75, 0x04, 0xa5,
};
/* The server's second record of data, and the client's second, which is an alert. */
static const uint8_t server_record[] = {
    0x17, 0x03, 0x03, 0x00, 0x43, 0x2e, 0x93, 0x7e, 0x11, 0xef, 0x4a, 0xc7, 0x40, 0xe5, 0x38,
    0xad, 0x36, 0x00, 0x5f, 0xc4, 0xa4, 0x69, 0x32, 0xfc, 0x32, 0x25, 0xd0, 0x5f, 0x82, 0xaa,
    0x1b, 0x36, 0xe3, 0x0e, 0xfa, 0xf9, 0x7d, 0x90, 0xe6, 0xdf, 0xfc, 0x60, 0x2d, 0xcb, 0x50,
    0x1a, 0x59, 0xa8, 0xfc, 0xc4, 0x9c, 0x4b, 0xf2, 0xe5, 0xf0, 0xa2, 0x1c, 0x00, 0x47, 0xc2,
    0xab, 0xf3, 0x32, 0x54, 0x0d, 0xd0, 0x32, 0xe1, 0x67, 0xc2, 0x95, 0x5d,
};
static const uint8_t client_alert[] = {
    0x17, 0x03, 0x03, 0x00, 0x13, 0xc9, 0x87, 0x27, 0x60, 0x65, 0x56, 0x66,
    0xb7, 0x4d, 0x7f, 0xf1, 0x15, 0x3e, 0xfd, 0x6d, 0xb6, 0xd0, 0xb0, 0xe3,
};

static struct tls_handover trace(void)
{
    struct tls_handover h = {.client = true, .tls13 = true, .secret_len = 32};
    memcpy(h.in.secret, server_secret, 32);
    memcpy(h.out.secret, client_secret, 32);
    assert_int_equal(tls_keys_derive(&h.in, AEAD_AES_128_GCM, 32), 0);
    assert_int_equal(tls_keys_derive(&h.out, AEAD_AES_128_GCM, 32), 0);
    h.in.sequence = 1;
    h.out.sequence = 1;
    return h;
}

static void keys_are_those_of_the_trace(void **state)
{
    static const uint8_t key[] = {0x9f, 0x02, 0x28, 0x3b, 0x6c, 0x9c, 0x07, 0xef,
                                  0xc2, 0x6b, 0xb9, 0xf2, 0xac, 0x92, 0xe3, 0x56};
    static const uint8_t iv[] = {0xcf, 0x78, 0x2b, 0x88, 0xdd, 0x83,
                                 0x54, 0x9a, 0xad, 0xf1, 0xe9, 0x84};
    struct tls_handover h = trace();
    (void)state;
    assert_memory_equal(h.in.key, key, sizeof key);
    assert_memory_equal(h.in.iv, iv, sizeof iv);
}

static void records_are_those_of_the_trace(void **state)
{
    struct tls_handover h = trace();
    struct buf in = BUF_INIT(100);
    struct buf out = BUF_INIT(100);
    uint8_t to[100];
    enum tls_content type = TLS_HANDSHAKE;
    (void)state;
    assert_int_equal(buf_append(&in, server_record, sizeof server_record), 0);
    assert_int_equal(peer_take(&h, &in, &type, to), 50);
    assert_int_equal(type, TLS_APPLICATION_DATA);
    for (uint8_t i = 0; i < 50; i++) {
        assert_int_equal(to[i], i);
    }
    peer_put(&h, TLS_ALERT, "\1", 2, &out);
    assert_int_equal(out.len, sizeof client_alert);
    assert_memory_equal(buf_data(&out), client_alert, sizeof client_alert);
    buf_reset(&in);
    buf_reset(&out);
}

/* ---- forms ---- */

static void nonces_of_aes_in_tls12_are_the_sequence(void **state)
{
    struct tls_handover h = make_handover(&forms[0], true);
    struct buf out = BUF_INIT(1000);
    (void)state;
    h.out.sequence = 0x0102030405060708;
    peer_put(&h, TLS_APPLICATION_DATA, "x", 1, &out);
    assert_int_equal(out.len, 5 + 8 + 1 + 16);
    assert_memory_equal(buf_data(&out), "\x17\3\3\0\x19\1\2\3\4\5\6\7\x08", 13);
    assert_int_equal(h.out.sequence, 0x0102030405060709);
    buf_reset(&out);
}

/* Some servers take random nonces. */
static void nonces_of_aes_in_tls12_are_taken_as_they_come(void **state)
{
    struct tls_handover server = make_handover(&forms[0], false);
    struct tls_handover client = make_handover(&forms[0], true);
    struct buf out = BUF_INIT(1000);
    uint8_t to[10];
    enum tls_content type = TLS_ALERT;
    uint8_t nonce[AEAD_NONCE_SIZE];
    struct aead *a = aead_new(AEAD_AES_128_GCM, server.out.key);
    (void)state;
    memcpy(nonce, server.out.iv, 4);
    memcpy(nonce + 4, "randomly", 8);
    assert_int_equal(buf_append(&out,
                                "\x17\3\3\0\x1b"
                                "randomly",
                                13),
                     0);
    uint8_t *body = buf_reserve(&out, 3 + AEAD_TAG_SIZE);
    static const char extra[] = "\0\0\0\0\0\0\0\1\x17\3\3\0\3";
    assert_int_equal(aead_seal(a, nonce, slice_of(extra, 13), (const uint8_t *)"abc", 3, body), 0);
    buf_commit(&out, 3 + AEAD_TAG_SIZE);
    assert_int_equal(peer_take(&client, &out, &type, to), 3);
    assert_memory_equal(to, "abc", 3);
    assert_int_equal(type, TLS_APPLICATION_DATA);
    aead_free(a);
    buf_reset(&out);
}

static enum tls_alert refusal_of(const struct tls_handover *h, const char *head)
{
    size_t body = 0;
    struct tls_fault f = tls_record_check(h, (const uint8_t *)head, &body);
    return f.why == NULL ? TLS_ALERT_CLOSE_NOTIFY : f.alert;
}

static void headers_are_checked(void **state)
{
    static const struct {
        const char *head;
        enum tls_alert in_tls12; /* close_notify: none */
        enum tls_alert in_tls13;
    } cases[] = {
        {"\x17\3\3\0\x20", 0, 0},
        {"\x15\3\3\0\x20", 0, TLS_ALERT_UNEXPECTED_MESSAGE},
        {"\x16\3\3\0\x20", 0, TLS_ALERT_UNEXPECTED_MESSAGE},
        {"\x14\3\3\0\x01", TLS_ALERT_UNEXPECTED_MESSAGE, TLS_ALERT_UNEXPECTED_MESSAGE},
        {"\x18\3\3\0\x20", TLS_ALERT_UNEXPECTED_MESSAGE, TLS_ALERT_UNEXPECTED_MESSAGE},
        {"\0\3\3\0\x20", TLS_ALERT_UNEXPECTED_MESSAGE, TLS_ALERT_UNEXPECTED_MESSAGE},
        {"HTTP/", TLS_ALERT_UNEXPECTED_MESSAGE, TLS_ALERT_UNEXPECTED_MESSAGE},
        {"\x17\3\1\0\x20", TLS_ALERT_PROTOCOL_VERSION, TLS_ALERT_PROTOCOL_VERSION},
        {"\x17\3\4\0\x20", TLS_ALERT_PROTOCOL_VERSION, TLS_ALERT_PROTOCOL_VERSION},
        {"\x17\2\3\0\x20", TLS_ALERT_PROTOCOL_VERSION, TLS_ALERT_PROTOCOL_VERSION},
        {"\x17\3\3\x48\0", 0, TLS_ALERT_RECORD_OVERFLOW},
        {"\x17\3\3\x48\1", TLS_ALERT_RECORD_OVERFLOW, TLS_ALERT_RECORD_OVERFLOW},
        {"\x17\3\3\x41\0", 0, 0},
        {"\x17\3\3\x41\1", 0, TLS_ALERT_RECORD_OVERFLOW},
        {"\x17\3\3\xff\xff", TLS_ALERT_RECORD_OVERFLOW, TLS_ALERT_RECORD_OVERFLOW},
        {"\x17\3\3\0\x18", 0, 0},
        {"\x17\3\3\0\x17", TLS_ALERT_BAD_RECORD_MAC, 0},
        {"\x17\3\3\0\x10", TLS_ALERT_BAD_RECORD_MAC, TLS_ALERT_BAD_RECORD_MAC},
        {"\x17\3\3\0\0", TLS_ALERT_BAD_RECORD_MAC, TLS_ALERT_BAD_RECORD_MAC},
    };
    struct tls_handover tls12 = make_handover(&forms[0], true);
    struct tls_handover tls13 = make_handover(&forms[3], true);
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(refusal_of(&tls12, cases[i].head), cases[i].in_tls12);
        assert_int_equal(refusal_of(&tls13, cases[i].head), cases[i].in_tls13);
    }
}

/* ---- what must not be opened ---- */

static struct tls_fault open_at(struct tls_handover *h, const struct buf *record, uint8_t *to)
{
    struct aead *a = aead_new(h->algorithm, h->in.key);
    size_t len = 0;
    enum tls_content type = TLS_APPLICATION_DATA;
    size_t body = record->len - TLS_RECORD_HEADER;
    struct tls_fault f = tls_record_open(h, a, buf_data(record), body, to, &len, &type);
    aead_free(a);
    return f;
}

static void a_record_with_any_changed_bit_is_refused(void **state)
{
    static const uint8_t zeros[100];
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct tls_handover from = make_handover(&forms[i], false);
        struct tls_handover h = make_handover(&forms[i], true);
        struct buf out = BUF_INIT(1000);
        uint8_t to[100];
        peer_put(&from, TLS_APPLICATION_DATA, "twenty bytes of data", 20, &out);
        for (size_t bit = 0; bit < out.len * 8; bit++) {
            bool in_length = bit / 8 == 3 || bit / 8 == 4;
            bool in_version = bit / 8 == 1 || bit / 8 == 2;
            if (!h.tls13 && (in_version || in_length)) {
                continue; /* not a part of the header that is authenticated, but checked */
            }
            buf_data(&out)[bit / 8] ^= (uint8_t)(1u << bit % 8);
            memset(to, 1, sizeof to);
            struct tls_fault f = open_at(&h, &out, to);
            assert_non_null(f.why);
            assert_int_equal(f.alert, TLS_ALERT_BAD_RECORD_MAC);
            assert_memory_equal(to, zeros, tls_record_room(&h, out.len - TLS_RECORD_HEADER));
            buf_data(&out)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_null(open_at(&h, &out, to).why);
        /* Not again: it has another number. */
        assert_int_equal(open_at(&h, &out, to).alert, TLS_ALERT_BAD_RECORD_MAC);
        buf_reset(&out);
    }
}

static void each_direction_has_a_key_of_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct tls_handover h = make_handover(&forms[i], true);
        struct buf out = BUF_INIT(1000);
        uint8_t to[100];
        peer_put(&h, TLS_APPLICATION_DATA, "mine", 4, &out);
        assert_int_equal(open_at(&h, &out, to).alert, TLS_ALERT_BAD_RECORD_MAC);
        buf_reset(&out);
    }
}

/* A peer may send 16,384 bytes of plaintext and no more, whatever its record could hold. */
static void plaintext_has_a_bound(void **state)
{
    static uint8_t data[TLS_RECORD_DATA_MAX + 300];
    static uint8_t to[sizeof data + 100];
    (void)state;
    memset(data, 7, sizeof data);
    for (size_t i = 0; i < FORMS; i++) {
        for (size_t more = 0; more < 2; more++) {
            struct tls_handover from = make_handover(&forms[i], false);
            struct tls_handover h = make_handover(&forms[i], true);
            struct buf out = BUF_INIT(sizeof to);
            peer_put(&from, TLS_APPLICATION_DATA, data, TLS_RECORD_DATA_MAX + more, &out);
            struct tls_fault f = open_at(&h, &out, to);
            assert_int_equal(f.why != NULL, more);
            assert_int_equal(f.alert, more ? TLS_ALERT_RECORD_OVERFLOW : 0);
            buf_reset(&out);
        }
    }
}

/* RFC 8446 section 5.4. */
static void padding_is_taken_off(void **state)
{
    static const struct {
        const char *plain;
        size_t len;
        size_t content;
        enum tls_alert alert;
    } cases[] = {
        {"abc\x17", 4, 3, 0},
        {"abc\x17\0\0\0", 7, 3, 0},
        {"ab\0\x17\0", 5, 3, 0},
        {"\x17\0", 2, 0, 0},
        {"\x17", 1, 0, 0},
        {"\0\0\0", 3, 0, TLS_ALERT_UNEXPECTED_MESSAGE},
        {"", 0, 0, TLS_ALERT_UNEXPECTED_MESSAGE},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tls_handover from = make_handover(&forms[3], false);
        struct tls_handover h = make_handover(&forms[3], true);
        uint8_t record[100] = {0x17, 3, 3, 0, (uint8_t)(cases[i].len + AEAD_TAG_SIZE)};
        uint8_t to[100];
        size_t len = 0;
        enum tls_content type = TLS_ALERT;
        struct aead *a = aead_new(from.algorithm, from.out.key);
        assert_int_equal(aead_seal(a, from.out.iv, slice_of((const char *)record, 5),
                                   (const uint8_t *)cases[i].plain, cases[i].len, record + 5),
                         0);
        struct tls_fault f =
            tls_record_open(&h, a, record, cases[i].len + AEAD_TAG_SIZE, to, &len, &type);
        assert_int_equal(f.alert, cases[i].alert);
        if (f.why == NULL) {
            assert_int_equal(len, cases[i].content);
            assert_int_equal(type, TLS_APPLICATION_DATA);
            assert_memory_equal(to, cases[i].plain, len);
        }
        aead_free(a);
    }
}

static void numbers_never_begin_anew(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct tls_handover from = make_handover(&forms[i], false);
        struct tls_handover h = make_handover(&forms[i], true);
        struct buf out = BUF_INIT(1000);
        uint8_t to[100];
        from.out.sequence = UINT64_MAX - 1;
        h.in.sequence = UINT64_MAX - 1;
        peer_put(&from, TLS_APPLICATION_DATA, "last", 4, &out);
        assert_null(open_at(&h, &out, to).why);
        assert_int_equal(open_at(&h, &out, to).alert, TLS_ALERT_INTERNAL_ERROR);
        struct aead *a = aead_new(from.algorithm, from.out.key);
        assert_int_equal(
            tls_record_seal(&from, a, TLS_APPLICATION_DATA, (const uint8_t *)"one more", 8, to),
            -EOVERFLOW);
        aead_free(a);
        buf_reset(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_those_of_the_trace),
        cmocka_unit_test(records_are_those_of_the_trace),
        cmocka_unit_test(nonces_of_aes_in_tls12_are_the_sequence),
        cmocka_unit_test(nonces_of_aes_in_tls12_are_taken_as_they_come),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(a_record_with_any_changed_bit_is_refused),
        cmocka_unit_test(each_direction_has_a_key_of_its_own),
        cmocka_unit_test(plaintext_has_a_bound),
        cmocka_unit_test(padding_is_taken_off),
        cmocka_unit_test(numbers_never_begin_anew),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
