/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf_scan.h - walks over the fields of protobuf messages without building anything.
 *
 * protobuf.dev/programming-guides/encoding; groups, which proto3 does not have, count as malformed.
 * k8s.io/apimachinery/pkg/runtime/generated.proto.
 */
#ifndef LOCALPROXY_CODEC_PROTOBUF_SCAN_H
#define LOCALPROXY_CODEC_PROTOBUF_SCAN_H

#include <stdint.h>
#include <string.h>

#include "base/slice.h"

enum protobuf_wire { PROTOBUF_VARINT = 0, PROTOBUF_64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_32 = 5 };

enum { PROTOBUF_VARINT_MAX = 10 }; /* bytes */

/* Kubernetes' envelope: "k8s\0", then Unknown{typeMeta: TypeMeta, raw: an object, ...}. */
#define PROTOBUF_MAGIC SLICE("k8s\0")
enum {
    UNKNOWN_TYPE_META = 1,
    UNKNOWN_RAW = 2,
    UNKNOWN_ENCODING = 3,
    UNKNOWN_CONTENT_TYPE = 4,
    TYPE_META_API_VERSION = 1,
    TYPE_META_KIND = 2,
    OBJECT_METADATA = 1, /* of lists too */
};

struct protobuf_field {
    uint32_t number;
    enum protobuf_wire wire;
    uint64_t value;     /* PROTOBUF_VARINT */
    struct slice bytes; /* PROTOBUF_BYTES */
};

enum protobuf_result {
    PROTOBUF_FIELD,
    PROTOBUF_END, /* of the message */
    PROTOBUF_CUT, /* the bytes end inside of a field */
    PROTOBUF_MALFORMED,
};

/* Takes a varint of up to 64 bits. */
static inline enum protobuf_result protobuf_varint(struct slice *rest, uint64_t *value)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < PROTOBUF_VARINT_MAX; i++) {
        if (i == rest->len) {
            return PROTOBUF_CUT;
        }
        unsigned char c = (unsigned char)rest->ptr[i];
        if (i == PROTOBUF_VARINT_MAX - 1 && c > 1) {
            return PROTOBUF_MALFORMED;
        }
        v |= (uint64_t)(c & 0x7f) << (7 * i);
        if (c < 0x80) {
            *rest = slice_of(rest->ptr + i + 1, rest->len - i - 1);
            *value = v;
            return PROTOBUF_FIELD;
        }
    }
    return PROTOBUF_MALFORMED;
}

/* Returns how many bytes it wrote. */
static inline size_t protobuf_put_varint(char out[PROTOBUF_VARINT_MAX], uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) {
        out[n++] = (char)(value | 0x80);
    }
    out[n++] = (char)value;
    return n;
}

/* Takes the head of a field: number and wire type, and value or, in `value`, length. */
static inline enum protobuf_result protobuf_head(struct slice *rest, struct protobuf_field *f)
{
    if (rest->len == 0) {
        return PROTOBUF_END;
    }
    uint64_t tag = 0;
    enum protobuf_result rc = protobuf_varint(rest, &tag);
    if (rc != PROTOBUF_FIELD) {
        return rc;
    }
    f->number = (uint32_t)(tag >> 3);
    f->wire = (enum protobuf_wire)(tag & 7);
    if (tag > UINT32_MAX || f->number == 0) {
        return PROTOBUF_MALFORMED;
    }
    switch (f->wire) {
    case PROTOBUF_VARINT:
    case PROTOBUF_BYTES:
        return protobuf_varint(rest, &f->value);
    case PROTOBUF_64:
        f->value = 8;
        return PROTOBUF_FIELD;
    case PROTOBUF_32:
        f->value = 4;
        return PROTOBUF_FIELD;
    }
    return PROTOBUF_MALFORMED;
}

/* Takes the next field of a message. On PROTOBUF_CUT and PROTOBUF_MALFORMED `rest` is as it was. */
static inline enum protobuf_result protobuf_next(struct slice *rest, struct protobuf_field *f)
{
    struct slice left = *rest;
    enum protobuf_result rc = protobuf_head(&left, f);
    if (rc != PROTOBUF_FIELD) {
        return rc;
    }
    if (f->wire != PROTOBUF_VARINT) {
        if (f->value > left.len) {
            return PROTOBUF_CUT;
        }
        f->bytes = slice_of(left.ptr, (size_t)f->value);
        left = slice_of(left.ptr + f->value, left.len - (size_t)f->value);
    }
    *rest = left;
    return PROTOBUF_FIELD;
}

/* The bytes of field `number`; nothing when it is not there or the message is malformed before. */
static inline struct slice protobuf_find(struct slice message, uint32_t number)
{
    struct protobuf_field f;
    while (protobuf_next(&message, &f) == PROTOBUF_FIELD) {
        if (f.number == number && f.wire == PROTOBUF_BYTES) {
            return f.bytes;
        }
    }
    return slice_of(NULL, 0);
}

/* The object inside of an envelope, and what its type is; nothing when it is not plain protobuf. */
static inline struct slice protobuf_open(struct slice raw, struct slice *type_meta)
{
    const struct slice magic = PROTOBUF_MAGIC;
    struct slice object = {NULL, 0};
    *type_meta = object;
    if (raw.len < magic.len || memcmp(raw.ptr, magic.ptr, magic.len) != 0) {
        return object;
    }
    struct slice unknown = slice_of(raw.ptr + magic.len, raw.len - magic.len);
    struct protobuf_field f;
    enum protobuf_result rc;
    while ((rc = protobuf_next(&unknown, &f)) == PROTOBUF_FIELD) {
        if (f.wire != PROTOBUF_BYTES) {
            continue;
        }
        if (f.number == UNKNOWN_RAW) {
            object = f.bytes;
        } else if (f.number == UNKNOWN_TYPE_META) {
            *type_meta = f.bytes;
        } else if ((f.number == UNKNOWN_ENCODING || f.number == UNKNOWN_CONTENT_TYPE) &&
                   f.bytes.len > 0) {
            return slice_of(NULL, 0);
        }
    }
    return rc == PROTOBUF_END ? object : slice_of(NULL, 0);
}

#endif
