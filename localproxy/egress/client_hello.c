/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/client_hello.h"

#include <stdint.h>
#include <string.h>

#include "base/ascii.h"

enum {
    RECORD_CHANGE_CIPHER_SPEC = 20,
    RECORD_ALERT = 21,
    RECORD_HANDSHAKE = 22,
    CHANGE_CIPHER_SPEC_LEN = 1,
    ALERT_LEN = 2,
    RECORD_HEADER = 5,
    RECORD_MAX = 16 * 1024,
    MESSAGE_HEADER = 4,
    MESSAGE_CLIENT_HELLO = 1,
    RANDOM_LEN = 32,
    EXTENSION_SERVER_NAME = 0,
    NAME_HOST = 0,
};

/* ---- reading numbers and vectors; what is too short is remembered ---- */

struct reader {
    const uint8_t *at;
    size_t left;
    bool short_of;
};

static struct reader reader_of(const uint8_t *bytes, size_t len)
{
    return (struct reader){.at = bytes, .left = len};
}

static struct reader take(struct reader *r, size_t len)
{
    if (len > r->left) {
        r->short_of = true;
        len = r->left;
    }
    struct reader part = reader_of(r->at, len);
    r->at += len;
    r->left -= len;
    return part;
}

static unsigned take_number(struct reader *r, size_t len)
{
    struct reader part = take(r, len);
    unsigned n = 0;
    for (size_t i = 0; i < part.left; i++) {
        n = n << 8 | part.at[i];
    }
    return n;
}

/* With its length in so many bytes in front. */
static struct reader take_vector(struct reader *r, size_t length_bytes)
{
    size_t len = take_number(r, length_bytes);
    return take(r, len);
}

/* All was read, and there was enough. */
static bool is_whole(const struct reader *r)
{
    return !r->short_of && r->left == 0;
}

/* ---- the message ---- */

static bool read_name(struct reader text, struct client_hello *out)
{
    size_t len = text.left;
    len -= len > 1 && text.at[len - 1] == '.' ? 1 : 0;
    if (len == 0 || len > URL_HOST_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = (char)text.at[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
        bool good = (c >= 'a' && c <= 'z') || ascii_is_digit(c) || strchr("-_.:", c) != NULL;
        if (!good || c == '\0') {
            return false;
        }
        out->name[i] = c;
    }
    out->name[len] = '\0';
    return true;
}

/* One name of a host, and perhaps some of other kinds. */
static bool read_server_name(struct reader body, struct client_hello *out)
{
    struct reader list = take_vector(&body, 2);
    if (!is_whole(&body) || list.left == 0 || out->name[0] != '\0') {
        return false;
    }
    while (list.left > 0) {
        unsigned type = take_number(&list, 1);
        struct reader name = take_vector(&list, 2);
        bool again = out->name[0] != '\0';
        if (list.short_of || (type == NAME_HOST && (again || !read_name(name, out)))) {
            return false;
        }
    }
    return true;
}

static bool read_extensions(struct reader all, struct client_hello *out)
{
    while (all.left > 0) {
        unsigned type = take_number(&all, 2);
        struct reader body = take_vector(&all, 2);
        if (all.short_of) {
            return false;
        }
        if (type == EXTENSION_SERVER_NAME && !read_server_name(body, out)) {
            return false;
        }
    }
    return true;
}

static bool read_message(struct reader body, struct client_hello *out)
{
    *out = (struct client_hello){.name = ""};
    (void)take_number(&body, 2); /* version */
    (void)take(&body, RANDOM_LEN);
    (void)take_vector(&body, 1); /* session */
    (void)take_vector(&body, 2); /* cipher suites */
    (void)take_vector(&body, 1); /* compression methods */
    if (is_whole(&body)) {
        return true; /* before there were extensions */
    }
    struct reader extensions = take_vector(&body, 2);
    return is_whole(&body) && read_extensions(extensions, out);
}

/* ---- the records ---- */

static enum client_hello_verdict read_so_far(const uint8_t *message, size_t len,
                                             struct client_hello *out)
{
    struct reader r = reader_of(message, len);
    if (len > 0 && message[0] != MESSAGE_CLIENT_HELLO) {
        return CLIENT_HELLO_BAD;
    }
    if (len < MESSAGE_HEADER) {
        return CLIENT_HELLO_MORE;
    }
    (void)take_number(&r, 1);
    size_t body = take_number(&r, MESSAGE_HEADER - 1);
    if (body > CLIENT_HELLO_MAX - MESSAGE_HEADER) {
        return CLIENT_HELLO_BAD;
    }
    if (body > r.left) {
        return CLIENT_HELLO_MORE;
    }
    return read_message(take(&r, body), out) ? CLIENT_HELLO_READ : CLIENT_HELLO_BAD;
}

/* Whether the bytes can be those of a record, as far as they go. */
static bool is_record(struct reader r)
{
    bool type = r.left < 1 || r.at[0] == RECORD_HANDSHAKE;
    bool version = r.left < 2 || r.at[1] == 3;
    return type && version;
}

/* What servers drop that comes first: warnings, and what clients of TLS 1.3 send for the sake of
 * middleboxes. */
static bool is_dropped(unsigned type, size_t size)
{
    return (type == RECORD_ALERT && size == ALERT_LEN) ||
           (type == RECORD_CHANGE_CIPHER_SPEC && size == CHANGE_CIPHER_SPEC_LEN);
}

/* Goes to the record with which a ClientHello begins. That is of any version: servers are to ignore
 * it there (RFC 8446 section 5.1). CLIENT_HELLO_READ: there it is. */
static enum client_hello_verdict find_begin(struct reader *r)
{
    while (r->left >= RECORD_HEADER) {
        unsigned type = r->at[0];
        size_t size = (size_t)r->at[3] << 8 | r->at[4];
        bool sure = r->at[1] == 3;
        if (type == RECORD_HANDSHAKE && !sure && r->left == RECORD_HEADER) {
            return CLIENT_HELLO_MORE;
        }
        if (type == RECORD_HANDSHAKE) {
            sure = sure || r->at[RECORD_HEADER] == MESSAGE_CLIENT_HELLO;
            return sure ? CLIENT_HELLO_READ : CLIENT_HELLO_NONE;
        }
        if (!is_dropped(type, size)) {
            return CLIENT_HELLO_NONE;
        }
        if (r->left < RECORD_HEADER + size) {
            return CLIENT_HELLO_MORE;
        }
        (void)take(r, RECORD_HEADER + size);
    }
    bool may_be =
        r->left < 1 || (r->at[0] >= RECORD_CHANGE_CIPHER_SPEC && r->at[0] <= RECORD_HANDSHAKE);
    return may_be ? CLIENT_HELLO_MORE : CLIENT_HELLO_NONE;
}

/* From the first record of a ClientHello on. */
static enum client_hello_verdict read_records(struct reader r, struct client_hello *out)
{
    uint8_t message[CLIENT_HELLO_MAX];
    size_t len = 0;
    enum client_hello_verdict verdict = CLIENT_HELLO_MORE;
    while (verdict == CLIENT_HELLO_MORE && r.left >= RECORD_HEADER) {
        if (len > 0 && !is_record(r)) {
            return CLIENT_HELLO_BAD;
        }
        (void)take(&r, RECORD_HEADER - 2);
        size_t size = take_number(&r, 2);
        if (size == 0 || size > RECORD_MAX || size > sizeof message - len) {
            return CLIENT_HELLO_BAD;
        }
        struct reader part = take(&r, size);
        memcpy(message + len, part.at, part.left);
        len += part.left;
        verdict = read_so_far(message, len, out);
    }
    return verdict;
}

enum client_hello_verdict client_hello_read(struct slice bytes, struct client_hello *out)
{
    bool full = bytes.len >= CLIENT_HELLO_BYTES_MAX;
    struct reader r =
        reader_of((const uint8_t *)bytes.ptr, full ? CLIENT_HELLO_BYTES_MAX : bytes.len);
    enum client_hello_verdict verdict = find_begin(&r);
    verdict = verdict == CLIENT_HELLO_READ ? read_records(r, out) : verdict;
    return verdict == CLIENT_HELLO_MORE && full ? CLIENT_HELLO_BAD : verdict;
}
