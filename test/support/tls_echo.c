/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a TLS connection over the socket that is its standard input, for tests with another
 * implementation at the other end: says everything back until the peer says close_notify.
 *
 *     tls_echo server CERT KEY [CLIENT_CA]
 *     tls_echo client CA NAME [CERT KEY]
 *
 * TLS_ECHO_AGAIN in the environment is the number of another socket, for a second connection when
 * the first has ended. TLS_ECHO_ALPN is a protocol to offer.
 *
 * It prints whose records it ended with, "own" or "library". What went wrong is said on standard
 * error, and the exit code is 1.
 */
#include <errno.h>
#include <signal.h>
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

/* What is offered by ALPN, or NULL. */
static const char *const *alpn(void)
{
    static const char *list[2];
    list[0] = getenv("TLS_ECHO_ALPN");
    return list[0] == NULL ? NULL : list;
}

/* Files that the command line names: CERT KEY [CLIENT_CA], or CA NAME [CERT KEY]. */
enum { FIRST = 2, SECOND, THIRD, FOURTH, FILES_MAX };

static struct tls_config *make_from(char **argv, const struct slice files[FILES_MAX], struct err *e)
{
    if (strcmp(argv[1], "client") == 0) {
        return tls_config_new_client(&(struct tls_client_options){.ca = files[FIRST],
                                                                  .ca_name = argv[FIRST],
                                                                  .server_name = argv[SECOND],
                                                                  .cert = files[THIRD],
                                                                  .cert_name = argv[THIRD],
                                                                  .key = files[FOURTH],
                                                                  .alpn = alpn()},
                                     e);
    }
    return tls_config_new_server(&(struct tls_server_options){.cert = files[FIRST],
                                                              .cert_name = argv[FIRST],
                                                              .key = files[SECOND],
                                                              .key_name = argv[SECOND],
                                                              .client_ca = files[THIRD],
                                                              .client_ca_name = argv[THIRD],
                                                              .alpn = alpn()},
                                 e);
}

static struct tls_config *make_config(int argc, char **argv, struct err *e)
{
    struct buf texts[FILES_MAX];
    struct slice files[FILES_MAX] = {{0}};
    int rc = 0;
    for (int i = FIRST; i < FILES_MAX; i++) {
        buf_init(&texts[i], MAX);
        bool is_name = i == SECOND && strcmp(argv[1], "client") == 0;
        if (rc == 0 && i < argc && !is_name) {
            rc = file_read(argv[i], &texts[i], e);
            files[i] = buf_slice(&texts[i]);
        }
    }
    struct tls_config *c = rc == 0 ? make_from(argv, files, e) : NULL;
    for (int i = FIRST; i < FILES_MAX; i++) {
        buf_reset(&texts[i]);
    }
    return c;
}

static void flush(int fd, struct buf *out)
{
    while (out->len > 0) {
        ssize_t n = write(fd, buf_data(out), out->len);
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

static enum tls_result talk(int fd, struct tls_session *s, struct err *e)
{
    static char bytes[65536];
    struct buf out = BUF_INIT(MAX);
    struct slice in = slice_of(NULL, 0);
    enum tls_result r = step(s, &in, &out, e);
    flush(fd, &out);
    while (r == TLS_MORE) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0) {
            err_set(e, -EPIPE, "the connection ended without close_notify");
            r = TLS_FAILED;
            break;
        }
        in = slice_of(bytes, (size_t)n);
        r = step(s, &in, &out, e);
        flush(fd, &out);
    }
    buf_reset(&out);
    return r;
}

static int serve(int fd, struct tls_config *c, struct err *e)
{
    struct tls_session *s = tls_session_new(c, e);
    if (s == NULL) {
        return fail(e);
    }
    enum tls_result r = talk(fd, s, e);
    (void)printf("%s\n", s->records != NULL ? "own" : "library");
    tls_session_free(s);
    return r == TLS_CLOSED ? 0 : fail(e);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    const char *again = getenv("TLS_ECHO_AGAIN");
    if (argc <= SECOND || argc > FILES_MAX) {
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct tls_config *c = make_config(argc, argv, &e);
    if (c == NULL) {
        return fail(&e);
    }
    int rc = serve(STDIN_FILENO, c, &e);
    if (rc == 0 && again != NULL) {
        rc = serve(atoi(again), c, &e);
    }
    tls_config_unref(c);
    return rc;
}
