/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a TLS connection over the socket that is its standard input, for tests with another
 * implementation at the other end: says everything back until the peer says close_notify.
 *
 *     tls_echo server CERT KEY
 *     tls_echo client CA NAME
 *
 * It prints whose records it ended with, "own" or "library". What went wrong is said on standard
 * error, and the exit code is 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "crypto/mbedtls/tls_internal.h"

#define MAX ((size_t)1024 * 1024)

static int fail(const struct err *e)
{
    (void)fprintf(stderr, "%s\n", e->msg);
    return 1;
}

static struct tls_config *make_config(char **argv, struct err *e)
{
    struct buf first = BUF_INIT(MAX);
    struct buf second = BUF_INIT(MAX);
    struct tls_config *c = NULL;
    if (file_read(argv[2], &first, e) != 0) {
        return NULL;
    }
    if (strcmp(argv[1], "client") == 0) {
        c = tls_config_new_client(&(struct tls_client_options){.ca = buf_slice(&first),
                                                               .ca_name = argv[2],
                                                               .server_name = argv[3]},
                                  e);
    } else if (file_read(argv[3], &second, e) == 0) {
        c = tls_config_new_server(&(struct tls_server_options){.cert = buf_slice(&first),
                                                               .cert_name = argv[2],
                                                               .key = buf_slice(&second),
                                                               .key_name = argv[3]},
                                  e);
    }
    buf_reset(&first);
    buf_reset(&second);
    return c;
}

static void flush(struct buf *out)
{
    while (out->len > 0) {
        ssize_t n = write(STDIN_FILENO, buf_data(out), out->len);
        if (n <= 0) {
            buf_clear(out);
            return;
        }
        buf_consume(out, (size_t)n);
    }
}

/* Works on what came, and says it back. */
static enum tls_result step(struct tls_session *s, struct slice *in, struct buf *out, struct err *e)
{
    static char plain[40000];
    size_t got = 0;
    enum tls_result r = tls_session_handshake(s, in, out, e);
    while (r == TLS_OK) {
        r = tls_session_read(s, in, plain, sizeof plain, &got, out, e);
        if (r == TLS_OK && tls_session_write(s, plain, got, out, e) != 0) {
            r = TLS_FAILED;
        }
    }
    if (r == TLS_CLOSED) {
        tls_session_shutdown(s, out);
    }
    return r;
}

static enum tls_result talk(struct tls_session *s, struct err *e)
{
    static char bytes[65536];
    struct buf out = BUF_INIT(MAX);
    struct slice in = slice_of(NULL, 0);
    enum tls_result r = step(s, &in, &out, e);
    flush(&out);
    while (r == TLS_MORE) {
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n <= 0) {
            err_set(e, -EPIPE, "the connection ended without close_notify");
            r = TLS_FAILED;
            break;
        }
        in = slice_of(bytes, (size_t)n);
        r = step(s, &in, &out, e);
        flush(&out);
    }
    buf_reset(&out);
    return r;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc != 4) {
        return 2;
    }
    struct tls_config *c = make_config(argv, &e);
    struct tls_session *s = c == NULL ? NULL : tls_session_new(c, &e);
    if (s == NULL) {
        return fail(&e);
    }
    enum tls_result r = talk(s, &e);
    (void)printf("%s\n", s->records != NULL ? "own" : "library");
    tls_session_free(s);
    tls_config_unref(c);
    return r == TLS_CLOSED ? 0 : fail(&e);
}
