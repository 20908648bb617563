/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_peer.h - an HTTP/2 server in memory, which does what a test says: bytes of the client go in,
 * bytes for it come out. Nothing is answered by itself but SETTINGS and PING.
 */
#ifndef TEST_SUPPORT_H2_PEER_H
#define TEST_SUPPORT_H2_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct h2_peer;

/* What it has seen of a request; stays until h2_peer_free. */
struct h2_peer_request {
    int32_t id;
    struct buf head; /* lines `name: value`, in order; `!` before those that may not be indexed */
    struct buf body;
    bool ended;
    bool reset; /* by the client */
    uint32_t reset_code;
    void *data; /* the test's */
};

struct h2_peer_options {
    uint32_t max_streams;          /* 0: says nothing of it */
    uint32_t window;               /* of each stream; 0: says nothing of it */
    uint32_t max_header_list_size; /* 0: says nothing of it */
    bool holds_window;             /* it never opens a window again */
    bool silent;                   /* no SETTINGS at first */
    bool pads;                     /* its frames with bodies */
    /* Inside h2_peer_receive; may be NULL. on_request: its head is complete. on_end: and its body.
     */
    void (*on_request)(struct h2_peer *p, struct h2_peer_request *r, void *data);
    void (*on_end)(struct h2_peer *p, struct h2_peer_request *r, void *data);
    void *data;
};

struct h2_peer *h2_peer_new(const struct h2_peer_options *o);
void h2_peer_free(struct h2_peer *p);

/* False: the client broke the protocol, or GOAWAY with an error has come. */
bool h2_peer_receive(struct h2_peer *p, struct slice bytes);
/* Appends what is to be sent now. */
void h2_peer_send(struct h2_peer *p, struct buf *out);

unsigned h2_peer_request_count(const struct h2_peer *p);
/* The n-th from 0. */
struct h2_peer_request *h2_peer_request(struct h2_peer *p, unsigned n);
/* The value of a field of the head, or NULL; valid until the next call. */
const char *h2_peer_field(struct h2_peer_request *r, const char *name);

/* `headers`: lines `name: value`, each with its '\n'; NULL: none. */
void h2_peer_answer(struct h2_peer *p, int32_t id, unsigned status, const char *headers, bool end);
/* Copied, and sent as the client's windows allow. */
void h2_peer_body(struct h2_peer *p, int32_t id, struct slice bytes, bool end);
/* After the body, instead of its end. */
void h2_peer_trailers(struct h2_peer *p, int32_t id, const char *headers);
void h2_peer_reset(struct h2_peer *p, int32_t id, uint32_t code);
void h2_peer_goaway(struct h2_peer *p, int32_t last, uint32_t code);
void h2_peer_ping(struct h2_peer *p);
void h2_peer_allow_streams(struct h2_peer *p, uint32_t max);
/* Bytes of the client's heads that it remembers (HPACK): both in one SETTINGS, one after the other.
 */
void h2_peer_remember(struct h2_peer *p, uint32_t first, uint32_t then);

/* Pings of ours that were answered, and those of the client. */
unsigned h2_peer_pongs(const struct h2_peer *p);
unsigned h2_peer_pings(const struct h2_peer *p);
/* The client has said GOAWAY: its code, or -1. */
int64_t h2_peer_goaway_code(const struct h2_peer *p);
/* Bytes of body that wait for the client's windows. */
size_t h2_peer_unsent(const struct h2_peer *p, int32_t id);

#endif
