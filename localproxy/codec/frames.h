/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h - where one event of a watch ends and the next begins.
 *
 * A JSON watch is one object a line. A protobuf watch is frames of a 4-byte big-endian length and
 * that many bytes (k8s.io/apimachinery/pkg/util/framer). Content is not looked at.
 */
#ifndef LOCALPROXY_CODEC_FRAMES_H
#define LOCALPROXY_CODEC_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "codec/encoding.h"

enum { FRAMES_HEADER = 4 }; /* bytes before a protobuf event */

struct frames {
    enum encoding encoding;
    uint64_t have;   /* bytes of the current event so far */
    uint32_t length; /* protobuf: of the current event's body, once its header came */
};

/* `encoding` is JSON or PROTOBUF. */
void frames_init(struct frames *f, enum encoding encoding);

/* Takes bytes of the stream up to the end of the current event: returns how many that were. 0: all
 * of `data` was taken, and the event is not complete with it. */
size_t frames_next(struct frames *f, struct slice data);

/* Whether the bytes so far end with a whole event. */
bool frames_at_boundary(const struct frames *f);

#endif
