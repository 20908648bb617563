/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses what the rest is:
 *
 * f  faults in a session between a real client and a real server, four bytes each: direction and
 *    position (15 bits), what the byte there is XORed with, and whether to cut there. Whatever
 *    happens on the wire, each side reads a prefix of what the other wrote, or nothing.
 * m  the same where the server asks for a certificate of the client, with a name.
 * c  what a client reads from a server; s: what a server reads from a client. No handshake
 *    completes, and pieces make no difference to whether it fails.
 * n  a certificate: it bears each name that is listed for it.
 * b  base64: what can be decoded is the same after encoding and decoding again.
 */
#include <stdlib.h>
#include <string.h>

#include "certs.h"
#include "check.h"
#include "crypto/digest.h"
#include "crypto/mbedtls/certificate_names.h"
#include "crypto/tls.h"

#define WIRE_MAX (1024 * 1024)

static struct tls_config *client;
static struct tls_config *server;
static struct tls_config *known_client; /* has a certificate, which is asked for by the next */
static struct tls_config *choosy_server;

static void make_mutual(const struct certs_pair *ca, const struct certs_pair *pair)
{
    struct certs_pair mine;
    struct err e = ERR_INIT;
    certs_issue(ca, &(struct certs_spec){.cn = "api", .is_client = true}, &mine);
    known_client = tls_config_new_client(&(struct tls_client_options){.ca = slice_str(ca->cert),
                                                                      .cert = slice_str(mine.cert),
                                                                      .key = slice_str(mine.key),
                                                                      .server_name = "localhost"},
                                         &e);
    choosy_server =
        tls_config_new_server(&(struct tls_server_options){.cert = slice_str(pair->cert),
                                                           .key = slice_str(pair->key),
                                                           .client_ca = slice_str(ca->cert),
                                                           .client_name = "api"},
                              &e);
    CHECK(known_client != NULL && choosy_server != NULL);
    certs_free(&mine);
}

static void make_configs(void)
{
    static const char *const names[] = {"localhost", NULL};
    struct err e = ERR_INIT;
    struct certs_pair ca;
    struct certs_pair pair;
    if (client != NULL) {
        return;
    }
    certs_make_ca("test CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.dns = names}, &pair);
    client = tls_config_new_client(
        &(struct tls_client_options){.ca = slice_str(ca.cert), .server_name = "localhost"}, &e);
    server = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(pair.cert), .key = slice_str(pair.key)}, &e);
    CHECK(client != NULL && server != NULL);
    make_mutual(&ca, &pair);
    certs_free(&ca);
    certs_free(&pair);
}

/* ---- faults ---- */

struct end {
    struct tls_session *tls;
    struct buf out;
    size_t sent; /* bytes of `out` that were delivered before */
    struct buf plain;
    bool open;
    bool dead;
};

static void end_init(struct end *end, struct tls_config *c)
{
    *end = (struct end){.tls = tls_session_new(c, NULL)};
    CHECK(end->tls != NULL);
    buf_init(&end->out, WIRE_MAX);
    buf_init(&end->plain, WIRE_MAX);
}

static void end_deinit(struct end *end)
{
    tls_session_free(end->tls);
    buf_reset(&end->out);
    buf_reset(&end->plain);
}

static void take_result(struct end *end, enum tls_result r, const struct err *e)
{
    end->dead = r == TLS_FAILED || r == TLS_CLOSED;
    CHECK((r == TLS_FAILED) == (e->code < 0));
    CHECK(r != TLS_FAILED || e->msg[0] != '\0');
}

static void feed(struct end *end, struct slice in)
{
    struct err e = ERR_INIT;
    if (!end->open && !end->dead) {
        enum tls_result r = tls_session_handshake(end->tls, &in, &end->out, &e);
        take_result(end, r, &e);
        end->open = r == TLS_OK;
        CHECK(r != TLS_MORE || in.len == 0);
    }
    while (end->open && !end->dead) {
        char data[1000];
        size_t got = 0;
        enum tls_result r =
            tls_session_read(end->tls, &in, data, sizeof(data), &got, &end->out, &e);
        take_result(end, r, &e);
        CHECK((r == TLS_OK) == (got > 0));
        CHECK(buf_append(&end->plain, data, got) == 0);
        if (r != TLS_OK) {
            break;
        }
    }
}

/* Hands over what waits, with the faults that lie in it. */
static void deliver(struct end *from, struct end *to, unsigned direction, struct slice faults)
{
    struct buf *b = &from->out;
    for (size_t i = 0; i + 4 <= faults.len; i += 4) {
        const unsigned char *f = (const unsigned char *)faults.ptr + i;
        size_t at = (size_t)(f[0] & 0x7f) << 8 | f[1];
        if (f[0] >> 7 != direction || at < from->sent || at - from->sent >= b->len) {
            continue;
        }
        buf_data(b)[at - from->sent] ^= f[2];
        if (f[3] > 200) {
            b->len = at - from->sent;
        }
    }
    struct buf wire = *b;
    buf_init(b, WIRE_MAX);
    from->sent += wire.len;
    feed(to, buf_slice(&wire));
    buf_reset(&wire);
}

static const char talk[] = "GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n";

static void say(struct end *end)
{
    struct err e = ERR_INIT;
    if (end->open && !end->dead) {
        CHECK(tls_session_write(end->tls, talk, sizeof(talk), &end->out, &e) == 0);
    }
}

static void check_prefix(const struct end *end)
{
    CHECK(end->plain.len % sizeof(talk) == 0);
    for (size_t i = 0; i < end->plain.len; i += sizeof(talk)) {
        CHECK(memcmp(buf_data(&end->plain) + i, talk, sizeof(talk)) == 0);
    }
}

static void fuzz_faults(struct tls_config *from, struct tls_config *to, struct slice faults)
{
    struct end c;
    struct end s;
    end_init(&c, from);
    end_init(&s, to);
    feed(&c, slice_of(NULL, 0));
    for (int i = 0; i < 6; i++) {
        deliver(&c, &s, 0, faults);
        deliver(&s, &c, 1, faults);
        say(&c);
        say(&s);
        tls_session_idle(c.tls);
    }
    tls_session_shutdown(c.tls, &c.out);
    deliver(&c, &s, 0, faults);
    check_prefix(&c);
    check_prefix(&s);
    CHECK(faults.len >= 4 || (c.open && s.open && s.plain.len > 0 && c.plain.len > 0));
    end_deinit(&c);
    end_deinit(&s);
}

/* ---- arbitrary bytes ---- */

static bool fails(struct tls_config *config, struct slice bytes, size_t piece)
{
    struct end end;
    end_init(&end, config);
    feed(&end, slice_of(NULL, 0));
    while (bytes.len > 0 && !end.dead) {
        size_t n = bytes.len < piece ? bytes.len : piece;
        feed(&end, slice_of(bytes.ptr, n));
        bytes.ptr += n;
        bytes.len -= n;
    }
    CHECK(!end.open);
    bool dead = end.dead;
    end_deinit(&end);
    return dead;
}

static void fuzz_bytes(struct tls_config *config, struct slice bytes)
{
    bool whole = fails(config, bytes, SIZE_MAX);
    CHECK(fails(config, bytes, 1) == whole);
    CHECK(fails(config, bytes, 7) == whole);
}

static void fuzz_names(struct slice der)
{
    mbedtls_x509_crt crt;
    char names[4096];
    mbedtls_x509_crt_init(&crt);
    if (mbedtls_x509_crt_parse_der(&crt, (const unsigned char *)der.ptr, der.len) == 0) {
        char *save = NULL;
        certificate_names_list(&crt, names, sizeof(names));
        for (char *n = strtok_r(names, ", ", &save); n != NULL; n = strtok_r(NULL, ", ", &save)) {
            struct tls_peer_name peer;
            tls_peer_name_init(&peer, n);
            /* Cut, not printable, a pattern, a name that reads as an address, or a final dot. */
            if (strpbrk(n, "?*") == NULL && strcmp(n, "...") != 0 && peer.dns != NULL &&
                peer.dns_len == strlen(n) && strlen(n) < 255) {
                CHECK(certificate_names_peer(&crt, &peer));
            }
        }
        certificate_names_list(&crt, names, 5);
        CHECK(strlen(names) < 5);
    }
    mbedtls_x509_crt_free(&crt);
}

static void fuzz_base64(struct slice text)
{
    struct buf data = BUF_INIT(WIRE_MAX);
    struct buf again = BUF_INIT(WIRE_MAX);
    struct buf data2 = BUF_INIT(WIRE_MAX);
    if (base64_decode(text, &data) == 0) {
        CHECK(base64_encode(buf_slice(&data), &again) == 0);
        CHECK(base64_decode(buf_slice(&again), &data2) == 0);
        CHECK(data.len == data2.len);
        CHECK(data.len == 0 || memcmp(buf_data(&data), buf_data(&data2), data.len) == 0);
    }
    buf_reset(&data);
    buf_reset(&again);
    buf_reset(&data2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    make_configs();
    struct slice rest = slice_of((const char *)data + 1, size - 1);
    switch (data[0]) {
    case 'f':
        fuzz_faults(client, server, rest);
        break;
    case 'm':
        fuzz_faults(known_client, choosy_server, rest);
        break;
    case 'c':
        fuzz_bytes(client, rest);
        break;
    case 's':
        fuzz_bytes(server, rest);
        break;
    case 'n':
        fuzz_names(rest);
        break;
    case 'b':
        fuzz_base64(rest);
        break;
    default:
        break;
    }
    return 0;
}
