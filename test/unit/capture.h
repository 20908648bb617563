/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - responses and watches of a real kube-apiserver 1.20, kept in localproxy/data/.
 */
#ifndef TEST_UNIT_CAPTURE_H
#define TEST_UNIT_CAPTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/slice.h"
#include "codec/encoding.h"

#define CAPTURE_MAX ((size_t)1 << 20)

/* The caller resets it. Ends the program when the file is not there. */
static inline struct buf capture_read(const char *name)
{
    char path[512];
    struct buf b = BUF_INIT(CAPTURE_MAX);
    struct err e = ERR_INIT;
    (void)snprintf(path, sizeof path, "%s/localproxy/data/%s", TEST_SOURCES, name);
    if (file_read(path, &b, &e) != 0) {
        (void)fprintf(stderr, "%s\n", e.msg);
        abort();
    }
    return b;
}

static inline enum encoding capture_encoding(const char *name)
{
    return strstr(name, "protobuf") != NULL ? ENCODING_PROTOBUF : ENCODING_JSON;
}

static inline struct slice capture_slice(const struct buf *b)
{
    return buf_slice(b);
}

/* Takes the next event off a captured watch, with its length of 4 bytes in protobuf. */
static inline bool capture_next_frame(enum encoding encoding, struct slice *rest,
                                      struct slice *frame)
{
    if (rest->len == 0) {
        return false;
    }
    const unsigned char *p = (const unsigned char *)rest->ptr;
    size_t len = encoding == ENCODING_PROTOBUF
                     ? 4 + ((size_t)p[2] << 8 | p[3])
                     : (size_t)((const char *)memchr(p, '\n', rest->len) - rest->ptr) + 1;
    *frame = slice_of(rest->ptr, len);
    *rest = slice_of(rest->ptr + len, rest->len - len);
    return true;
}

/* The same without that length. */
static inline bool capture_next_event(enum encoding encoding, struct slice *rest,
                                      struct slice *event)
{
    if (!capture_next_frame(encoding, rest, event)) {
        return false;
    }
    if (encoding == ENCODING_PROTOBUF) {
        *event = slice_of(event->ptr + 4, event->len - 4);
    }
    return true;
}

/* A copy of exactly that size, so that reads beyond it are seen; the caller frees. */
static inline struct slice exact_copy(struct slice s)
{
    char *copy = malloc(s.len);
    if (copy == NULL && s.len > 0) {
        abort();
    }
    if (s.len > 0) {
        memcpy(copy, s.ptr, s.len);
    }
    return slice_of(copy, s.len);
}

#endif
