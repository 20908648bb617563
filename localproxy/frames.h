/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h - where one event of a watch ends and the next begins.
 *
 * A JSON watch is one object a line. A protobuf watch is frames of a 4-byte big-endian length and
 * that many bytes (k8s.io/apimachinery/pkg/util/framer). Content is not looked at.
 */
#ifndef LOCALPROXY_FRAMES_H
#define LOCALPROXY_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum frames_kind { FRAMES_LINES, FRAMES_LENGTH };

struct frames {
    enum frames_kind kind;
    bool boundary;       /* FRAMES_LINES: the last byte ended an event */
    uint32_t body_left;  /* FRAMES_LENGTH: bytes left of the current event */
    uint32_t length;     /* FRAMES_LENGTH: the header as far as it came */
    unsigned header_len; /* FRAMES_LENGTH: bytes of the header seen */
};

/* By the response's Content-Type. */
void frames_init(struct frames *f, struct slice content_type);

/* Takes the next bytes of the stream. Returns how many of them belong to events that are complete
 * with them; 0 when none is. */
size_t frames_feed(struct frames *f, struct slice data);

/* Whether the bytes so far end with a whole event. */
bool frames_at_boundary(const struct frames *f);

#endif
