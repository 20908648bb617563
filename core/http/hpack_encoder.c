/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hpack_encoder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ascii.h"

/* How fields begin (RFC 7541 section 6), and the bits that are left for a number. */
enum {
    INDEXED = 0x80,
    INDEXED_BITS = 7,
    REMEMBERED = 0x40,
    REMEMBERED_BITS = 6,
    SIZE_UPDATE = 0x20,
    SIZE_UPDATE_BITS = 5,
    SECRET = 0x10,
    PLAIN = 0,
    PLAIN_BITS = 4,
    LENGTH_BITS = 7,
};

enum { ENTRY_OVERHEAD = 32, STATIC_COUNT = 61 };

/* The name is as it was given: the same field comes in the same case again. */
struct hpack_entry {
    size_t name_len;
    size_t value_len;
    char bytes[];
};

/* Of the static table (RFC 7541 appendix A): what requests have. Without a value: its name alone is
 * of use. */
static const struct known {
    unsigned index;
    struct slice name;
    struct slice value;
} known[] = {
#define KNOWN(index, name, value)                                                                  \
    {                                                                                              \
        index, {name, sizeof(name) - 1},                                                           \
        {                                                                                          \
            value, sizeof(value) - 1                                                               \
        }                                                                                          \
    }
    KNOWN(2, ":method", "GET"),
    KNOWN(3, ":method", "POST"),
    KNOWN(7, ":scheme", "https"),
    KNOWN(4, ":path", "/"),
    KNOWN(1, ":authority", ""),
    KNOWN(16, "accept-encoding", "gzip, deflate"),
    KNOWN(17, "accept-language", ""),
    KNOWN(19, "accept", ""),
    KNOWN(23, "authorization", ""),
    KNOWN(28, "content-length", ""),
    KNOWN(31, "content-type", ""),
    KNOWN(32, "cookie", ""),
    KNOWN(35, "expect", ""),
    KNOWN(39, "if-match", ""),
    KNOWN(41, "if-none-match", ""),
    KNOWN(49, "proxy-authorization", ""),
    KNOWN(50, "range", ""),
    KNOWN(58, "user-agent", ""),
    KNOWN(60, "via", ""),
#undef KNOWN
};

/* ---- what the server remembers ---- */

static size_t entry_size(const struct hpack_entry *e)
{
    return e->name_len + e->value_len + ENTRY_OVERHEAD;
}

static struct hpack_entry **entry_at(struct hpack_encoder *h, unsigned n)
{
    return &h->entries[(h->first + n) % HPACK_ENTRIES_MAX];
}

static void shrink(struct hpack_encoder *h, size_t size)
{
    while (h->size > size) {
        struct hpack_entry *oldest = *entry_at(h, 0);
        h->size -= (unsigned)entry_size(oldest);
        h->first = (h->first + 1) % HPACK_ENTRIES_MAX;
        h->count--;
        explicit_bzero(oldest->bytes, oldest->name_len + oldest->value_len);
        free(oldest);
    }
}

void hpack_encoder_deinit(struct hpack_encoder *h)
{
    shrink(h, 0);
}

void hpack_encoder_limit(struct hpack_encoder *h, uint32_t size)
{
    unsigned less = size < HPACK_TABLE_MAX ? HPACK_TABLE_MAX - size : 0;
    h->size_is_due = h->size_is_due || less != h->less;
    h->less = less;
    h->least = less > h->least ? less : h->least;
    shrink(h, HPACK_TABLE_MAX - less);
}

static char lower_case(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool same_name(struct slice name, const char *lower)
{
    for (size_t i = 0; i < name.len; i++) {
        if (lower_case(name.ptr[i]) != lower[i]) {
            return false;
        }
    }
    return true;
}

/* Its index, or 0. */
static unsigned find_remembered(struct hpack_encoder *h, struct slice name, struct slice value)
{
    for (unsigned n = h->count; n > 0; n--) {
        const struct hpack_entry *e = *entry_at(h, n - 1);
        if (slice_eq(slice_of(e->bytes, e->name_len), name) &&
            slice_eq(slice_of(e->bytes + e->name_len, e->value_len), value)) {
            return STATIC_COUNT + 1 + h->count - n;
        }
    }
    return 0;
}

static const struct known *find_known(struct slice name, struct slice value)
{
    const struct known *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const struct known *k = &known[i];
        if (k->name.len == name.len && same_name(name, k->name.ptr)) {
            if (k->value.len > 0 && slice_eq(k->value, value)) {
                return k;
            }
            found = found == NULL ? k : found;
        }
    }
    return found;
}

static int remember(struct hpack_encoder *h, struct slice name, struct slice value)
{
    struct hpack_entry *e = malloc(sizeof *e + name.len + value.len);
    if (e == NULL) {
        return -ENOMEM;
    }
    e->name_len = name.len;
    e->value_len = value.len;
    memcpy(e->bytes, name.ptr, name.len);
    if (value.len > 0) {
        memcpy(e->bytes + name.len, value.ptr, value.len);
    }
    shrink(h, HPACK_TABLE_MAX - h->less - entry_size(e));
    *entry_at(h, h->count++) = e;
    h->size += (unsigned)entry_size(e);
    return 0;
}

/* ---- writing ---- */

/* RFC 7541 section 5.1. */
static void put_number(struct buf *out, unsigned form, unsigned bits, size_t n)
{
    size_t most = (1u << bits) - 1;
    uint8_t bytes[12];
    size_t len = 0;
    bytes[len++] = (uint8_t)(form | (n < most ? n : most));
    if (n >= most) {
        n -= most;
        while (n >= 128) {
            bytes[len++] = (uint8_t)(n % 128 + 128);
            n /= 128;
        }
        bytes[len++] = (uint8_t)n;
    }
    (void)buf_append(out, bytes, len);
}

static void put_name(struct buf *out, struct slice name)
{
    put_number(out, 0, LENGTH_BITS, name.len);
    uint8_t *to = buf_reserve(out, name.len);
    for (size_t i = 0; to != NULL && i < name.len; i++) {
        to[i] = (uint8_t)lower_case(name.ptr[i]);
    }
    if (to != NULL) {
        buf_commit(out, name.len);
    }
}

void hpack_encoder_begin(struct hpack_encoder *h, struct buf *out)
{
    if (h->size_is_due) {
        if (h->least > h->less) {
            put_number(out, SIZE_UPDATE, SIZE_UPDATE_BITS, HPACK_TABLE_MAX - h->least);
        }
        put_number(out, SIZE_UPDATE, SIZE_UPDATE_BITS, HPACK_TABLE_MAX - h->less);
    }
    h->size_is_due = false;
    h->least = h->less;
}

void hpack_encoder_put(struct hpack_encoder *h, struct buf *out, struct slice name,
                       struct slice value, enum hpack_kind kind)
{
    unsigned index = kind == HPACK_REPEATED ? find_remembered(h, name, value) : 0;
    const struct known *k = index == 0 ? find_known(name, value) : NULL;
    if (k != NULL && k->value.len > 0 && slice_eq(k->value, value) && kind != HPACK_SECRET) {
        index = k->index;
    }
    if (index != 0) {
        put_number(out, INDEXED, INDEXED_BITS, index);
        return;
    }
    /* What takes more than half of the table would leave no room for others. */
    bool fits = name.len + value.len + ENTRY_OVERHEAD <= (HPACK_TABLE_MAX - h->less) / 2;
    bool remembered = kind == HPACK_REPEATED && fits;
    unsigned form = remembered ? REMEMBERED : kind == HPACK_SECRET ? SECRET : PLAIN;
    put_number(out, form, remembered ? REMEMBERED_BITS : PLAIN_BITS, k != NULL ? k->index : 0);
    if (k == NULL) {
        put_name(out, name);
    }
    put_number(out, 0, LENGTH_BITS, value.len);
    (void)buf_append(out, value.ptr, value.len);
    if (remembered && remember(h, name, value) != 0) {
        (void)buf_fail(out, -ENOMEM);
    }
}
