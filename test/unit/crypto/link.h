/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - a client and a server session, wired to each other in memory.
 */
#ifndef TEST_UNIT_CRYPTO_LINK_H
#define TEST_UNIT_CRYPTO_LINK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Until both are done or one failed (whose alert then goes to the other). */
static inline void link_shake(struct link *l)
{
    for (int i = 0; i < 20; i++) {
        link_shake_end(&l->client, &l->server, l->step);
        link_shake_end(&l->server, &l->client, l->step);
    }
}

#endif
