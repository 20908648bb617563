/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response.h - reads HTTP/1.1 responses as they come, one after the other on a connection.
 *
 *     HEAD -> SIZE -> DATA -> DATA_END -> SIZE ...  -> TRAILER -> DONE     chunked
 *          -> FIXED -----------------------------------------> DONE     with Content-Length
 */
#ifndef BENCH_RESPONSE_H
#define BENCH_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { RESPONSE_HEAD_MAX = 8192 };

enum response_state {
    RESPONSE_HEAD,
    RESPONSE_SIZE,
    RESPONSE_DATA,
    RESPONSE_DATA_END,
    RESPONSE_TRAILER,
    RESPONSE_FIXED,
    RESPONSE_DONE
};

struct response {
    enum response_state state;
    unsigned status; /* 0 while the head is being read */
    bool chunked;
    bool closes;       /* the server closes the connection behind it */
    bool in_extension; /* behind a chunk's size, before the end of its line */
    uint64_t left;     /* bytes to come of the chunk or the body; in SIZE: the number so far */
    size_t line_len;   /* in TRAILER */
    size_t head_len;
    char head[RESPONSE_HEAD_MAX]; /* a string once the status is known */
};

/* Gets the body without its framing. 0, or a negative errno, which ends the reading. */
typedef int (*response_body_cb)(void *data, const char *body, size_t len, struct err *e);

/* Waits for the next head. */
void response_init(struct response *r);

/* Takes bytes up to the end of the head or of the response, so that the caller can look in between.
 * The number taken, at least 1 of `len`, or a negative errno. */
MUST_CHECK ssize_t response_feed(struct response *r, const char *data, size_t len,
                                 response_body_cb on_body, void *arg, struct err *e);

#endif
