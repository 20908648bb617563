/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/client_hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"

/* ---- writing one ---- */

static void put_number(struct buf *b, size_t n, size_t len)
{
    while (len-- > 0) {
        assert_int_equal(buf_append_char(b, (char)(n >> 8 * len)), 0);
    }
}

static void put_vector(struct buf *b, struct slice content, size_t length_bytes)
{
    put_number(b, content.len, length_bytes);
    assert_int_equal(buf_append(b, content.ptr, content.len), 0);
}

static void put_extension(struct buf *b, unsigned type, struct slice body)
{
    put_number(b, type, 2);
    put_vector(b, body, 2);
}

static void put_name(struct buf *extensions, struct slice name)
{
    struct buf entry = BUF_INIT(1024);
    struct buf list = BUF_INIT(1024);
    put_number(&entry, 0, 1);
    put_vector(&entry, name, 2);
    put_vector(&list, buf_slice(&entry), 2);
    put_extension(extensions, 0, buf_slice(&list));
    buf_reset(&entry);
    buf_reset(&list);
}

/* The message; `extensions` NULL: it has none at all. */
static void put_message(struct buf *b, const struct buf *extensions)
{
    struct buf body = BUF_INIT(SIZE_MAX);
    put_number(&body, 0x0303, 2);
    for (int i = 0; i < 32; i++) {
        put_number(&body, 7, 1);
    }
    put_vector(&body, SLICE("session"), 1);
    put_vector(&body, SLICE("\x13\x01"), 2);
    put_vector(&body, slice_of("", 1), 1);
    if (extensions != NULL) {
        put_vector(&body, buf_slice(extensions), 2);
    }
    put_number(b, 1, 1);
    put_vector(b, buf_slice(&body), 3);
    buf_reset(&body);
}

/* In records of at most so many bytes. */
static void put_records(struct buf *b, const struct buf *message, size_t size)
{
    struct slice rest = buf_slice(message);
    while (rest.len > 0) {
        size_t len = rest.len < size ? rest.len : size;
        put_number(b, 0x160301, 3);
        put_vector(b, slice_of(rest.ptr, len), 2);
        rest = slice_of(rest.ptr + len, rest.len - len);
    }
}

struct hello {
    struct buf extensions;
    struct buf message;
    struct buf bytes;
};

static void hello_init(struct hello *h)
{
    buf_init(&h->extensions, SIZE_MAX);
    buf_init(&h->message, SIZE_MAX);
    buf_init(&h->bytes, SIZE_MAX);
}

static void hello_deinit(struct hello *h)
{
    buf_reset(&h->extensions);
    buf_reset(&h->message);
    buf_reset(&h->bytes);
}

/* Of what is in its extensions. */
static enum client_hello_verdict hello_read(struct hello *h, size_t record,
                                            struct client_hello *out)
{
    put_message(&h->message, &h->extensions);
    put_records(&h->bytes, &h->message, record);
    return client_hello_read(buf_slice(&h->bytes), out);
}

/* ---- tests ---- */

static void test_names(void **state)
{
    static const struct {
        const char *name;
        const char *read; /* NULL: it is not well-formed */
    } rows[] = {
        {"example.com", "example.com"},
        {"EXAMPLE.com.", "example.com"},
        {"a_b-c.1", "a_b-c.1"},
        {"10.0.0.1", "10.0.0.1"},
        {"fd00::1", "fd00::1"},
        {"", NULL},
        {"a b", NULL},
        {"a\nb", NULL},
        {"b\xc3\xbc", NULL},
        {"a/b", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hello h;
        struct client_hello c;
        hello_init(&h);
        put_extension(&h.extensions, 43, SLICE("\x02\x03\x04"));
        put_name(&h.extensions, slice_str(rows[i].name));
        put_extension(&h.extensions, 10, SLICE("x"));
        enum client_hello_verdict verdict = hello_read(&h, 16384, &c);
        assert_int_equal(verdict, rows[i].read != NULL ? CLIENT_HELLO_READ : CLIENT_HELLO_BAD);
        if (rows[i].read != NULL) {
            assert_string_equal(c.name, rows[i].read);
        }
        hello_deinit(&h);
    }
}

static void test_a_nul_in_a_name(void **state)
{
    struct hello h;
    struct client_hello c;
    (void)state;
    hello_init(&h);
    put_name(&h.extensions, SLICE("a\0b"));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_BAD);
    hello_deinit(&h);
}

static void test_without_name(void **state)
{
    struct hello h;
    struct client_hello c;
    (void)state;
    hello_init(&h);
    put_message(&h.message, NULL);
    put_records(&h.bytes, &h.message, 16384);
    assert_int_equal(client_hello_read(buf_slice(&h.bytes), &c), CLIENT_HELLO_READ);
    assert_string_equal(c.name, "");
    hello_deinit(&h);
    hello_init(&h);
    put_extension(&h.extensions, 43, SLICE("\x02\x03\x04"));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_READ);
    assert_string_equal(c.name, "");
    hello_deinit(&h);
}

static void test_encrypted(void **state)
{
    struct hello h;
    struct client_hello c;
    (void)state;
    hello_init(&h);
    put_name(&h.extensions, SLICE("public.example"));
    put_extension(&h.extensions, 0xfe0d, SLICE("sealed"));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_READ);
    assert_string_equal(c.name, "public.example");
    hello_deinit(&h);
}

/* However it is cut into records, and however much of it has come. */
static void test_pieces(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 4, 5, 50, 16384};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct hello h;
        struct client_hello c;
        hello_init(&h);
        put_name(&h.extensions, SLICE("example.com"));
        assert_int_equal(hello_read(&h, sizes[i], &c), CLIENT_HELLO_READ);
        assert_string_equal(c.name, "example.com");
        struct slice all = buf_slice(&h.bytes);
        for (size_t len = 0; len < all.len; len++) {
            char *copy = malloc(len + 1);
            memcpy(copy, all.ptr, len);
            assert_int_equal(client_hello_read(slice_of(copy, len), &c), CLIENT_HELLO_MORE);
            free(copy);
        }
        put_number(&h.bytes, 0x140303000101, 6);
        assert_int_equal(client_hello_read(buf_slice(&h.bytes), &c), CLIENT_HELLO_READ);
        hello_deinit(&h);
    }
}

/* Servers ignore the version of the first record, and drop warnings in front of it. */
static void test_records_that_servers_take(void **state)
{
    static const struct slice before[] = {
        {"", 0},
        {"\x15\x03\x01\x00\x02\x01\x64", 7},
        {"\x15\x00\x00\x00\x02\x01\x5a\x15\x03\x03\x00\x02\x01\x5a", 14},
        {"\x14\x03\x03\x00\x01\x01", 6},
    };
    static const char versions[][2] = {"\3\1", "\3\3", "\2\0", "\0\0", "\x0f\0", "\x7f\x1c"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(before) * ARRAY_LEN(versions); i++) {
        struct slice first = before[i % ARRAY_LEN(before)];
        struct buf all = BUF_INIT(SIZE_MAX);
        struct hello h;
        struct client_hello c;
        hello_init(&h);
        put_name(&h.extensions, SLICE("example.com"));
        assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_READ);
        memcpy(buf_data(&h.bytes) + 1, versions[i / ARRAY_LEN(before)], 2);
        assert_int_equal(buf_append(&all, first.ptr, first.len), 0);
        assert_int_equal(buf_append(&all, buf_data(&h.bytes), h.bytes.len), 0);
        for (size_t len = 0; len < all.len; len++) {
            assert_int_equal(client_hello_read(slice_of((char *)buf_data(&all), len), &c),
                             CLIENT_HELLO_MORE);
        }
        assert_int_equal(client_hello_read(buf_slice(&all), &c), CLIENT_HELLO_READ);
        assert_string_equal(c.name, "example.com");
        buf_reset(&all);
        hello_deinit(&h);
    }
}

static void test_other_protocols(void **state)
{
    static const struct slice texts[] = {
        SLICE("GET / HTTP/1.1\r\n"),
        SLICE("SSH-2.0-x\r\n"),
        SLICE("\x80\x2e\x01"),
        SLICE("\x17\x03\x03"),
        {"\x16\x01\x00\x00\x07\x00", 6}, /* a length that looks like a record */
        {"\x15\x01\x00\x00\x07\x00", 6}, /* likewise, like a warning */
        {"\x15\x03\x01\x00\x02\x01\x64\x17\x03\x01\0\0", 12}, /* a warning and something else */
    };
    struct client_hello c;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(client_hello_read(texts[i], &c), CLIENT_HELLO_NONE);
    }
    assert_int_equal(client_hello_read(SLICE(""), &c), CLIENT_HELLO_MORE);
    assert_int_equal(client_hello_read(SLICE("\x16"), &c), CLIENT_HELLO_MORE);
    assert_int_equal(client_hello_read(SLICE("\x15"), &c), CLIENT_HELLO_MORE);
}

static void test_not_well_formed(void **state)
{
    static const struct slice texts[] = {
        {"\x16\x03\x01\x00\x00", 5},                          /* an empty record */
        {"\x16\x03\x01\x40\x01", 5},                          /* a record that is too long */
        {"\x16\x03\x01\x00\x01\x02", 6},                      /* another message */
        {"\x16\x03\x01\x00\x04\x01\x00\x40\x00", 9},          /* too long a message */
        {"\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9},          /* too short a one */
        {"\x16\x03\x01\x00\x01\x01\x17\x03\x01\x00\x01", 11}, /* another record within */
    };
    struct client_hello c;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(client_hello_read(texts[i], &c), CLIENT_HELLO_BAD);
    }
}

static void test_two_names(void **state)
{
    struct hello h;
    struct client_hello c;
    (void)state;
    hello_init(&h);
    put_name(&h.extensions, SLICE("a.example"));
    put_name(&h.extensions, SLICE("b.example"));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_BAD);
    hello_deinit(&h);
    hello_init(&h);
    put_extension(&h.extensions, 0,
                  slice_of("\x00\x08\x00\x00\x01"
                           "a\x00\x00\x01"
                           "b",
                           10));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_BAD);
    hello_deinit(&h);
    hello_init(&h);
    put_extension(&h.extensions, 0, slice_of("\x00\x00", 2));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_BAD);
    hello_deinit(&h);
}

static void test_too_long(void **state)
{
    struct hello h;
    struct client_hello c;
    struct buf filler = BUF_INIT(SIZE_MAX);
    (void)state;
    for (size_t i = 0; i < 16000; i++) {
        put_number(&filler, 0, 1);
    }
    hello_init(&h);
    put_extension(&h.extensions, 21, buf_slice(&filler));
    put_name(&h.extensions, SLICE("example.com"));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_READ);
    assert_string_equal(c.name, "example.com");
    hello_deinit(&h);
    /* In records that are far too small. */
    hello_init(&h);
    put_extension(&h.extensions, 21, buf_slice(&filler));
    assert_int_equal(hello_read(&h, 1, &c), CLIENT_HELLO_BAD);
    struct slice all = buf_slice(&h.bytes);
    assert_int_equal(client_hello_read(slice_of(all.ptr, CLIENT_HELLO_BYTES_MAX - 1), &c),
                     CLIENT_HELLO_MORE);
    assert_int_equal(client_hello_read(slice_of(all.ptr, CLIENT_HELLO_BYTES_MAX), &c),
                     CLIENT_HELLO_BAD);
    hello_deinit(&h);
    hello_init(&h);
    put_extension(&h.extensions, 21, buf_slice(&filler));
    put_extension(&h.extensions, 22, buf_slice(&filler));
    assert_int_equal(hello_read(&h, 16384, &c), CLIENT_HELLO_BAD);
    hello_deinit(&h);
    buf_reset(&filler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_nul_in_a_name),
        cmocka_unit_test(test_without_name),
        cmocka_unit_test(test_encrypted),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_other_protocols),
        cmocka_unit_test(test_records_that_servers_take),
        cmocka_unit_test(test_not_well_formed),
        cmocka_unit_test(test_two_names),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
