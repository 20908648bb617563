/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_frame_write.h - writes watch events of localproxy's own, as kube-apiserver writes them.
 *
 * JSON: one line with its newline. Protobuf: a frame with its length of 4 bytes before it
 * (k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto, pkg/runtime/serializer/protobuf).
 *
 * All functions append one whole event to `out` and return 0, -ENOBUFS (over its maximum), -ENOMEM,
 * or -ENOTSUP for an encoding that localproxy cannot write. On error `out` is as it was.
 */
#ifndef LOCALPROXY_CODEC_WATCH_FRAME_WRITE_H
#define LOCALPROXY_CODEC_WATCH_FRAME_WRITE_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/encoding.h"
#include "codec/list_items.h"
#include "codec/watch_frame.h"

/* The ERROR event with a Status of code 410 and reason Expired, which makes a client list again.
 * "cmesh: " is put before the message; what is not UTF-8 in it becomes U+FFFD. At most 1 KiB of
 * the message is taken. */
MUST_CHECK int watch_frame_write_expired(enum encoding encoding, const char *message,
                                         struct buf *out);

/* An event with an item of a list as its object. `type`: what the list says that its items are; in
 * JSON it fills in what the item does not say of itself (kube-apiserver leaves both out in lists of
 * its own types), and may be empty when it says both. In protobuf it is needed. -EINVAL when kind
 * or apiVersion is missing, or the item is no object. */
MUST_CHECK int watch_frame_write_item(enum encoding encoding, enum watch_frame_type event,
                                      const struct object_type *type, struct slice item,
                                      struct buf *out);

/* A BOOKMARK: all until `resource_version` was delivered. -EINVAL when the type is not known. */
MUST_CHECK int watch_frame_write_bookmark(enum encoding encoding, const struct object_type *type,
                                          uint64_t resource_version, struct buf *out);

#endif
