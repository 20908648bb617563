/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_objects.h - finds the objects of a list, and the namespace of each, while its body streams
 * by.
 *
 * The body is not compressed. It may be a list of whole objects or of their metadata, or a Table.
 * Nothing is held but a key, a namespace or the head of a field; what is behind a namespace is
 * skipped, in JSON at one to two instructions a byte, in protobuf at once. It trusts that the body
 * is a list: of other bytes it makes something or other, but stays inside.
 *
 * Sources: k8s.io/apimachinery/pkg/apis/meta/v1 (ObjectMeta, Table), pkg/runtime/generated.proto.
 */
#ifndef LOCALPROXY_CODEC_LIST_OBJECTS_H
#define LOCALPROXY_CODEC_LIST_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "codec/encoding.h"
#include "codec/protobuf_scan.h"
#include "json/cursor.h"

/* Longer keys and namespaces are none of interest (RFC 1123: 63 characters). */
#define LIST_OBJECTS_TEXT_MAX 63

/* An object went by. `ns`, valid until return, is empty if it has no namespace, or they are not
 * looked for. */
typedef void (*list_objects_cb)(void *data, struct slice ns);

struct list_objects_json {
    int state;
    bool escaped;            /* in a string: the next byte is */
    const char *const *path; /* keys from an element to its namespace; NULL: not in an array */
    unsigned depth;          /* open brackets of the element */
    struct json_nesting nesting;
};

struct list_objects_protobuf {
    int level;
    size_t magic; /* bytes of it that have come */
    char head[2 * PROTOBUF_VARINT_MAX];
    size_t head_len;  /* of a head that came in part */
    uint64_t left[4]; /* by level: bytes of the message behind the field at hand */
    uint64_t skip;
    uint64_t name_left; /* bytes of a namespace that are still to come */
};

struct list_objects {
    enum encoding encoding;
    bool namespaces;
    bool over; /* nothing more is looked at */
    list_objects_cb cb;
    void *data;
    char text[LIST_OBJECTS_TEXT_MAX + 1]; /* the key or namespace; full: it is longer */
    size_t text_len;
    union {
        struct list_objects_json json;
        struct list_objects_protobuf protobuf;
    };
};

/* Needs no deinit. `encoding` is JSON or PROTOBUF; of others there are no objects. */
void list_objects_init(struct list_objects *l, enum encoding encoding, bool namespaces,
                       list_objects_cb cb, void *data);

/* The next bytes of the body; `cb` may be called. */
void list_objects_feed(struct list_objects *l, struct slice data);

#endif
