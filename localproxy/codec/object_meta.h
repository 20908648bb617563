/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_meta.h - type, version and labels of one object, such as the answer of a write.
 *
 * The object is read from the front, no further than its metadata, and nothing is allocated. It may
 * be JSON or protobuf in Kubernetes' envelope; bytes that are neither are never read past their
 * end. It may be cut off behind its metadata, in protobuf behind its labels: the API server writes
 * fields in the order of their numbers.
 *
 * Sources: k8s.io/apimachinery/pkg/apis/meta/v1 (ObjectMeta) and pkg/runtime/generated.proto.
 */
#ifndef LOCALPROXY_CODEC_OBJECT_META_H
#define LOCALPROXY_CODEC_OBJECT_META_H

#include <stdbool.h>
#include <stdint.h>

#include "codec/encoding.h"
#include "codec/list_items.h"
#include "kube/selector.h"

/* Labels that are read of an object. */
#define OBJECT_META_LABELS 64
/* Bytes of an object in protobuf that have them all: what stands before is short. */
#define OBJECT_META_PROTOBUF_HEAD ((size_t)32 * 1024)

/* Views into the object. */
struct object_meta {
    struct object_type type;
    uint64_t resource_version;
    struct selector_label labels[OBJECT_META_LABELS];
    size_t label_count;
};

/* False: it has no version that is a decimal number of 64 bits (a Status, say), more labels than
 * can be read, or cannot be read. */
MUST_CHECK bool object_meta_read(enum encoding encoding, struct slice object,
                                 struct object_meta *out);

#endif
