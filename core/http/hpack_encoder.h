/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hpack_encoder.h - header lists of requests as HTTP/2 carries them (HPACK, RFC 7541). Internal to
 * core/http.
 *
 * nghttp2 has an encoder, too: it never indexes `authorization`, so that a service account's token
 * of 1 KB is sent with each request, in a Huffman code that takes 27,000 instructions to write and
 * as long to read. A request that says what the one before said is some ten bytes here. Strings are
 * never Huffman-coded: what is not repeated is short, and on a fast network.
 */
#ifndef CORE_HTTP_HPACK_ENCODER_H
#define CORE_HTTP_HPACK_ENCODER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* Bytes of the dynamic table, at most and until the server says less (RFC 9113 section 6.5.2); and
 * entries: each counts 32 more than its name and value. */
enum { HPACK_TABLE_MAX = 4096, HPACK_ENTRIES_MAX = HPACK_TABLE_MAX / 32 };

enum hpack_kind {
    HPACK_REPEATED, /* the server remembers it */
    HPACK_ONCE,
    HPACK_SECRET, /* nobody on the way may remember it (RFC 7541 section 7.1.3) */
};

struct hpack_entry;

/* What the server remembers, the oldest at `first`. Zeros are an encoder that has sent nothing. */
struct hpack_encoder {
    struct hpack_entry *entries[HPACK_ENTRIES_MAX];
    unsigned first;
    unsigned count;
    unsigned size;
    unsigned less;    /* than HPACK_TABLE_MAX, by what the server has said */
    unsigned least;   /* likewise the most that it has said since the last list */
    bool size_is_due; /* the server is to be told */
};

void hpack_encoder_deinit(struct hpack_encoder *h);
/* The server's SETTINGS_HEADER_TABLE_SIZE. */
void hpack_encoder_limit(struct hpack_encoder *h, uint32_t size);
/* Begins a header list. Lists are to be sent in the order in which they are written. */
void hpack_encoder_begin(struct hpack_encoder *h, struct buf *out);
/* Appends a field; the name's case is lowered. `out` remembers that it had no memory; what is sent
 * then the server cannot read. */
void hpack_encoder_put(struct hpack_encoder *h, struct buf *out, struct slice name,
                       struct slice value, enum hpack_kind kind);

#endif
