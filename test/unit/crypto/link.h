/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - a client and a server session, wired to each other in memory. Include cmocka.h first.
 */
#ifndef TEST_UNIT_CRYPTO_LINK_H
#define TEST_UNIT_CRYPTO_LINK_H

#include <stdio.h>
#include <stdlib.h>

#include "certs.h"
#include "crypto/tls.h"

#define LINK_MAX (4 * 1024 * 1024)

struct link_end {
    struct tls_session *tls;
    struct buf out; /* on its way to the other end */
    enum tls_result result;
    struct err e;
};

struct link {
    struct link_end client;
    struct link_end server;
    size_t step; /* how many bytes are handed over at once */
};

static inline void link_end_init(struct link_end *end, struct tls_config *c)
{
    *end = (struct link_end){.result = TLS_MORE};
    buf_init(&end->out, LINK_MAX);
    end->tls = tls_session_new(c, &end->e);
    if (end->tls == NULL) {
        fprintf(stderr, "%s\n", end->e.msg);
        abort();
    }
}

static inline void link_init(struct link *l, struct tls_config *client, struct tls_config *server)
{
    link_end_init(&l->client, client);
    link_end_init(&l->server, server);
    l->step = LINK_MAX;
}

static inline void link_deinit(struct link *l)
{
    tls_session_free(l->client.tls);
    tls_session_free(l->server.tls);
    buf_reset(&l->client.out);
    buf_reset(&l->server.out);
}

/* Hands `end` what the other end sent, and runs its handshake. */
static inline void link_shake_end(struct link_end *end, struct link_end *peer, size_t step)
{
    do {
        size_t n = peer->out.len < step ? peer->out.len : step;
        struct slice in = slice_of((const char *)buf_data(&peer->out), n);
        if (end->result == TLS_MORE) {
            end->result = tls_session_handshake(end->tls, &in, &end->out, &end->e);
        }
        n -= in.len;
        if (n == 0) {
            return;
        }
        buf_consume(&peer->out, n);
    } while (peer->out.len > 0 && end->result == TLS_MORE);
}

/* Reads all that waits for `to`, handed over `step` bytes at a time, and returns how it ended. */
static inline enum tls_result drain(struct link_end *to, struct link_end *from, size_t step,
                                    struct buf *plain)
{
    enum tls_result r = TLS_MORE;
    while (from->out.len > 0) {
        size_t n = from->out.len < step ? from->out.len : step;
        struct slice in = slice_of((const char *)buf_data(&from->out), n);
        do {
            char data[5000];
            size_t got = 0;
            r = tls_session_read(to->tls, &in, data, sizeof(data), &got, &to->out, &to->e);
            assert_int_equal(got > 0, r == TLS_OK);
            assert_int_equal(buf_append(plain, data, got), 0);
        } while (r == TLS_OK);
        buf_consume(&from->out, n - in.len);
        if (r != TLS_MORE) {
            return r;
        }
        assert_int_equal(in.len, 0);
    }
    return r;
}

/* Until both are done or one failed (whose alert then goes to the other). In TLS 1.3 the client is
 * done first: a ticket follows, or the refusal of its certificate. */
static inline void link_shake(struct link *l)
{
    struct buf none = BUF_INIT(1);
    for (int i = 0; i < 20; i++) {
        link_shake_end(&l->client, &l->server, l->step);
        link_shake_end(&l->server, &l->client, l->step);
    }
    if (l->client.result == TLS_OK && l->server.out.len > 0) {
        enum tls_result r = drain(&l->client, &l->server, l->step, &none);
        l->client.result = r == TLS_MORE ? TLS_OK : r;
    }
}

/* What `len` bytes become at the most: records of 16 KiB, each with 40 bytes around it. */
static inline size_t link_records_max(size_t len)
{
    return len + (len / 16384 + 1) * 40;
}

/* Writes at one end and reads the same at the other. */
static inline void send_and_check(struct link_end *from, struct link_end *to, size_t len,
                                  size_t step)
{
    char *data = malloc(len + 1);
    struct buf plain = BUF_INIT(LINK_MAX);
    assert_non_null(data);
    for (size_t i = 0; i < len; i++) {
        data[i] = (char)(i * 31 + len);
    }
    size_t before = from->out.len;
    assert_int_equal(tls_session_write(from->tls, data, len, &from->out, &from->e), 0);
    assert_true(from->out.len - before <= link_records_max(len));
    assert_true(len == 0 || from->out.len - before > len);
    assert_int_equal(drain(to, from, step, &plain), TLS_MORE);
    assert_int_equal(plain.len, len);
    assert_memory_equal(plain.base != NULL ? (char *)buf_data(&plain) : data, data, len);
    buf_reset(&plain);
    free(data);
}

#endif
