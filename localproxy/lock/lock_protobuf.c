/* SPDX-License-Identifier: Apache-2.0 */
/* The lock's name in Kubernetes' protobuf: "k8s\0", then Unknown{raw = 2: object{metadata = 1:
 * ObjectMeta{name = 1}}} or, of a LeaseCandidate, {spec = 2: LeaseCandidateSpec{leaseName = 1}}.
 * Encoding: protobuf.dev/programming-guides/encoding. */
#include "lock/lock_body.h"

#include <errno.h>
#include <string.h>

#include "base/splice.h"
#include "codec/protobuf_scan.h"

/* A field with bytes. */
struct field {
    struct slice length; /* as it was written */
    struct slice value;
};

/* Finds the field of that number in a message: 1, 0, or -EINVAL: no message, or it is there twice.
 */
static int find_field(struct slice message, uint32_t number, struct field *out, struct err *e)
{
    struct protobuf_field f;
    uint64_t tag = 0;
    int found = 0;
    while (message.len > 0) {
        struct slice length = message;
        if (protobuf_next(&message, &f) != PROTOBUF_FIELD) {
            return err_set(e, -EINVAL, "the body is not Kubernetes protobuf");
        }
        if (f.number != number) {
            continue;
        }
        if (f.wire != PROTOBUF_BYTES || found > 0) {
            return err_set(e, -EINVAL,
                           "field %u occurs twice in the protobuf body or has the wrong type: "
                           "ambiguous which object it names",
                           number);
        }
        (void)protobuf_varint(&length, &tag);
        length.len = (size_t)(f.bytes.ptr - length.ptr);
        *out = (struct field){.length = length, .value = f.bytes};
        found = 1;
    }
    return found;
}

/* The envelope says that the object inside is not plain protobuf. */
static int check_envelope(struct slice unknown, struct err *e)
{
    struct field f;
    int rc = find_field(unknown, UNKNOWN_ENCODING, &f, e);
    if (rc > 0 && f.value.len > 0) {
        return err_set(e, -ENOTSUP, "the object in the protobuf body has a content encoding");
    }
    if (rc >= 0) {
        rc = find_field(unknown, UNKNOWN_CONTENT_TYPE, &f, e);
    }
    if (rc > 0 && f.value.len > 0 && !slice_ieq(f.value, SLICE(LOCK_PROTOBUF))) {
        return err_set(e, -ENOTSUP, "the object in the protobuf body has a content type");
    }
    return rc < 0 ? rc : 0;
}

struct varint {
    char bytes[PROTOBUF_VARINT_MAX];
    size_t len;
};

static struct varint varint_of(size_t value)
{
    struct varint v;
    v.len = protobuf_put_varint(v.bytes, value);
    return v;
}

/* A field's length when `old` bytes of its value become `new`. */
static size_t grown(struct field f, size_t old, size_t new)
{
    return f.value.len - old + new;
}

static int rewrite_name(struct slice body, struct field raw, struct field part, struct field name,
                        struct slice with, struct buf *out)
{
    struct varint name_len = varint_of(with.len);
    size_t size = grown(part, name.length.len + name.value.len, name_len.len + with.len);
    struct varint part_len = varint_of(size);
    size = grown(raw, part.length.len + part.value.len, part_len.len + size);
    struct varint raw_len = varint_of(size);

    struct splice s;
    splice_init(&s, body, out);
    splice_replace(&s, raw.length, slice_of(raw_len.bytes, raw_len.len));
    splice_replace(&s, part.length, slice_of(part_len.bytes, part_len.len));
    splice_replace(&s, name.length, slice_of(name_len.bytes, name_len.len));
    splice_replace(&s, name.value, with);
    return splice_finish(&s);
}

int lock_rewrite_protobuf(const struct lock_rule *rule, const struct lock_path *path,
                          struct slice body, struct buf *out, enum lock_found *found, struct err *e)
{
    const struct slice magic = PROTOBUF_MAGIC;
    struct field raw;
    struct field part;
    struct field name;
    if (body.len < magic.len || memcmp(body.ptr, magic.ptr, magic.len) != 0) {
        return err_set(e, -EINVAL, "the body is not Kubernetes protobuf");
    }
    struct slice unknown = slice_of(body.ptr + magic.len, body.len - magic.len);
    int rc = check_envelope(unknown, e);
    if (rc != 0) {
        return rc;
    }
    if ((rc = find_field(unknown, UNKNOWN_RAW, &raw, e)) <= 0 ||
        (rc = find_field(raw.value, path->object_number, &part, e)) <= 0 ||
        (rc = find_field(part.value, path->member_number, &name, e)) <= 0) {
        return rc;
    }
    *found = lock_compare(rule, name.value);
    return *found == LOCK_RENAMED
               ? rewrite_name(body, raw, part, name, slice_str(rule->renamed), out)
               : 0;
}
