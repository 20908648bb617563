/* SPDX-License-Identifier: Apache-2.0 */
/* The lock's name in Kubernetes' protobuf: "k8s\0", then Unknown{raw = 2: object{metadata = 1:
 * ObjectMeta{name = 1}}}. Encoding: protobuf.dev/programming-guides/encoding. */
#include "lock/lock_body.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/splice.h"

enum {
    UNKNOWN_RAW = 2,
    UNKNOWN_CONTENT_ENCODING = 3,
    UNKNOWN_CONTENT_TYPE = 4,
    OBJECT_METADATA = 1,
    METADATA_NAME = 1,
    VARINT_MAX = 10, /* bytes */
};

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* A field with bytes. */
struct field {
    struct slice length; /* as it was written */
    struct slice value;
};

struct reader {
    struct slice rest;
    uint32_t number; /* of the field that was read last */
    enum wire_type type;
    struct field field; /* WIRE_BYTES */
};

static void skip(struct slice *s, size_t n)
{
    *s = slice_of(s->ptr + n, s->len - n);
}

static bool take_varint(struct slice *s, uint64_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < VARINT_MAX && i < s->len; i++) {
        unsigned char c = (unsigned char)s->ptr[i];
        if (i == VARINT_MAX - 1 && c > 1) {
            return false;
        }
        *value |= (uint64_t)(c & 0x7f) << (7 * i);
        if (c < 0x80) {
            skip(s, i + 1);
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct slice *s, struct field *f)
{
    uint64_t n;
    const char *start = s->ptr;
    if (!take_varint(s, &n) || n > s->len) {
        return false;
    }
    f->length = slice_of(start, (size_t)(s->ptr - start));
    f->value = slice_of(s->ptr, (size_t)n);
    skip(s, (size_t)n);
    return true;
}

static bool take_fixed(struct slice *s, size_t n)
{
    if (s->len < n) {
        return false;
    }
    skip(s, n);
    return true;
}

/* The next field; false when the bytes are no message. Groups, which proto3 does not have, are not
 * read. */
static bool take_field(struct reader *r)
{
    uint64_t tag;
    uint64_t ignored;
    if (!take_varint(&r->rest, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
        return false;
    }
    r->number = (uint32_t)tag >> 3;
    r->type = (enum wire_type)(tag & 7);
    switch (r->type) {
    case WIRE_VARINT:
        return take_varint(&r->rest, &ignored);
    case WIRE_64:
        return take_fixed(&r->rest, 8);
    case WIRE_32:
        return take_fixed(&r->rest, 4);
    case WIRE_BYTES:
        return take_bytes(&r->rest, &r->field);
    }
    return false;
}

/* Finds the field of that number in a message: 1, 0, or -EINVAL: no message, or it is there twice.
 */
static int find(struct slice message, uint32_t number, struct field *out, struct err *e)
{
    struct reader r = {.rest = message};
    int found = 0;
    while (r.rest.len > 0) {
        if (!take_field(&r)) {
            return err_set(e, -EINVAL, "the body is not Kubernetes protobuf");
        }
        if (r.number != number) {
            continue;
        }
        if (r.type != WIRE_BYTES || found > 0) {
            return err_set(e, -EINVAL,
                           "field %u occurs twice in the protobuf body or has the wrong type: "
                           "ambiguous which object it names",
                           number);
        }
        *out = r.field;
        found = 1;
    }
    return found;
}

/* The envelope says that the object inside is not plain protobuf. */
static int check_envelope(struct slice unknown, struct err *e)
{
    struct field f;
    int rc = find(unknown, UNKNOWN_CONTENT_ENCODING, &f, e);
    if (rc > 0 && f.value.len > 0) {
        return err_set(e, -ENOTSUP, "the object in the protobuf body has a content encoding");
    }
    rc = rc < 0 ? rc : find(unknown, UNKNOWN_CONTENT_TYPE, &f, e);
    if (rc > 0 && f.value.len > 0 && !slice_ieq(f.value, SLICE(LOCK_PROTOBUF))) {
        return err_set(e, -ENOTSUP, "the object in the protobuf body has a content type");
    }
    return rc < 0 ? rc : 0;
}

struct varint {
    char bytes[VARINT_MAX];
    size_t len;
};

static struct varint make_varint(size_t value)
{
    struct varint v = {.len = 0};
    for (; value >= 0x80; value >>= 7) {
        v.bytes[v.len++] = (char)(value & 0x7f) | (char)0x80;
    }
    v.bytes[v.len++] = (char)value;
    return v;
}

/* A field's length when `old` bytes of its value become `new`. */
static size_t grown(struct field f, size_t old, size_t new)
{
    return f.value.len - old + new;
}

static int rewrite(struct slice body, struct field raw, struct field metadata, struct field name,
                   struct slice with, struct buf *out, struct err *e)
{
    struct varint name_len = make_varint(with.len);
    size_t size = grown(metadata, name.length.len + name.value.len, name_len.len + with.len);
    struct varint metadata_len = make_varint(size);
    size = grown(raw, metadata.length.len + metadata.value.len, metadata_len.len + size);
    struct varint raw_len = make_varint(size);

    struct splice s;
    splice_init(&s, body, out);
    splice_replace(&s, raw.length, slice_of(raw_len.bytes, raw_len.len));
    splice_replace(&s, metadata.length, slice_of(metadata_len.bytes, metadata_len.len));
    splice_replace(&s, name.length, slice_of(name_len.bytes, name_len.len));
    splice_replace(&s, name.value, with);
    int rc = splice_finish(&s);
    if (rc == -ENOBUFS) {
        return err_set(e, rc, "the body with the lock's own name is too large");
    }
    return rc == 0 ? 0 : err_set(e, rc, "out of memory");
}

int lock_rewrite_protobuf(const struct lock_rule *rule, struct slice body, struct buf *out,
                          enum lock_found *found, struct err *e)
{
    static const struct slice magic = {.ptr = "k8s\0", .len = 4};
    struct field raw;
    struct field metadata;
    struct field name;
    if (body.len < magic.len || memcmp(body.ptr, magic.ptr, magic.len) != 0) {
        return err_set(e, -EINVAL, "the body is not Kubernetes protobuf");
    }
    struct slice unknown = slice_of(body.ptr + magic.len, body.len - magic.len);
    int rc = check_envelope(unknown, e);
    if (rc != 0) {
        return rc;
    }
    rc = find(unknown, UNKNOWN_RAW, &raw, e);
    rc = rc <= 0 ? rc : find(raw.value, OBJECT_METADATA, &metadata, e);
    rc = rc <= 0 ? rc : find(metadata.value, METADATA_NAME, &name, e);
    if (rc <= 0) {
        return rc;
    }
    enum lock_found is = lock_compare(rule, name.value);
    rc = is == LOCK_RENAMED ? rewrite(body, raw, metadata, name, slice_str(rule->renamed), out, e)
                            : 0;
    *found = rc == 0 ? is : LOCK_OTHER;
    return rc;
}
