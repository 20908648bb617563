/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unix_test.c - streams over Unix sockets: who may connect, the socket's file, and all that goes
 * wrong between two processes of one machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop_fixture.h"
#include "net/listener.h"
#include "net/stream.h"
#include "raw_peer.h"
#include "temp_dir.h"

enum { LARGE = 3 * 1024 * 1024, STRANGER = 65533, PLAIN_USER = 65534 };

/* One end of a connection: what happened to it. */
struct end {
    struct net_stream *stream;
    bool opened;
    bool eof;
    bool failed;
    bool drained;
    bool enough;
    struct err error;
    size_t received;
    size_t want; /* bytes after which `enough` is set */
    char text[64];
};

struct world {
    struct net_loop *loop;
    struct temp_dir dir;
    char path[256]; /* of the socket */
    struct net_listener *listener;
    struct end client;
    struct end server;
    unsigned accepted;
    uint64_t write_timeout_ms; /* of what is opened next */
};

static void close_end(struct end *t)
{
    if (t->stream != NULL) {
        net_stream_close(t->stream);
        t->stream = NULL;
    }
}

static void on_open(void *data)
{
    struct end *t = data;
    t->opened = true;
    net_stream_read_start(t->stream);
}

static void on_read(void *data, struct slice bytes)
{
    struct end *t = data;
    for (size_t i = 0; i < bytes.len && t->received + i < sizeof t->text - 1; i++) {
        t->text[t->received + i] = bytes.ptr[i];
    }
    t->received += bytes.len;
    t->enough = t->received >= t->want;
}

static void on_eof(void *data)
{
    struct end *t = data;
    t->eof = true;
}

static void on_drain(void *data)
{
    struct end *t = data;
    t->drained = true;
}

static void on_error(void *data, const struct err *e)
{
    struct end *t = data;
    t->failed = true;
    t->error = *e;
    close_end(t);
}

static const struct net_stream_handlers handlers = {
    .on_open = on_open,
    .on_read = on_read,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_error = on_error,
};

static void on_accept(void *data, struct net_stream *s)
{
    struct world *w = data;
    w->accepted++;
    close_end(&w->server);
    w->server = (struct end){.stream = s, .opened = true};
    net_stream_set_handlers(s, &handlers, &w->server);
    net_stream_read_start(s);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(loop_setup((void **)&w->loop), 0);
    temp_dir_init(&w->dir);
    (void)temp_dir_path(&w->dir, "control.sock", w->path);
    w->write_timeout_ms = 60000;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    close_end(&w->client);
    close_end(&w->server);
    net_listener_close(w->listener);
    if (geteuid() != getuid()) {
        assert_int_equal(seteuid(getuid()), 0);
        (void)prctl(PR_SET_DUMPABLE, 1); /* for the leak checker */
    }
    int rc = loop_free(w->loop);
    temp_dir_deinit(&w->dir);
    free(w);
    return rc;
}

static struct net_listener *try_listen(struct world *w, const char *path, struct err *e)
{
    struct net_listener_options o = {.path = path, .write_timeout_ms = w->write_timeout_ms};
    return net_listener_new(w->loop, &o, on_accept, w, e);
}

static void listen_here(struct world *w)
{
    struct err e = ERR_INIT;
    w->listener = try_listen(w, w->path, &e);
    if (w->listener == NULL) {
        fail_msg("%s", e.msg);
    }
}

static void dial(struct world *w)
{
    struct err e = ERR_INIT;
    struct net_dial_options o = {
        .path = w->path, .connect_timeout_ms = 20000, .write_timeout_ms = w->write_timeout_ms};
    memset(&w->client, 0, sizeof w->client);
    assert_int_equal(net_dial(w->loop, &o, &handlers, &w->client, &w->client.stream, &e), 0);
    assert_false(w->client.opened || w->client.failed); /* never before net_dial returns */
}

static void open_pair(struct world *w)
{
    listen_here(w);
    dial(w);
    run_until(w->loop, &w->client.opened);
    run_until(w->loop, &w->server.opened);
}

static void send_text(struct end *t, const char *text)
{
    struct slice part = slice_str(text);
    assert_int_equal(net_stream_write(t->stream, &part, 1), 0);
}

/* A socket of the test's own at the path. */
static int raw_socket(const char *path, int backlog)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    if (backlog >= 0) {
        assert_int_equal(listen(fd, backlog), 0);
    }
    return fd;
}

static int raw_dial(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* ---- bytes ---- */

static void test_bytes_pass_both_ways(void **state)
{
    struct world *w = *state;
    open_pair(w);
    w->server.want = 5;
    w->client.want = 3;
    send_text(&w->client, "hel");
    send_text(&w->client, "lo");
    run_until(w->loop, &w->server.enough);
    assert_string_equal(w->server.text, "hello");
    send_text(&w->server, "yes");
    run_until(w->loop, &w->client.enough);
    assert_string_equal(w->client.text, "yes");
}

static void test_each_side_can_end(void **state)
{
    struct world *w = *state;
    open_pair(w);
    net_stream_shutdown(w->client.stream);
    run_until(w->loop, &w->server.eof);
    w->client.want = 4;
    send_text(&w->server, "more"); /* the other direction is open */
    run_until(w->loop, &w->client.enough);
    net_stream_finish(w->server.stream);
    w->server.stream = NULL;
    run_until(w->loop, &w->client.eof);
}

static void test_finish_delivers_what_is_queued(void **state)
{
    struct world *w = *state;
    char *large = calloc(1, LARGE);
    struct slice part = slice_of(large, LARGE);
    assert_non_null(large);
    open_pair(w);
    w->server.want = LARGE;
    assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
    assert_true(net_stream_blocked(w->client.stream));
    net_stream_finish(w->client.stream);
    w->client.stream = NULL;
    run_until(w->loop, &w->server.enough);
    run_until(w->loop, &w->server.eof);
    assert_int_equal(w->server.received, LARGE);
    free(large);
}

static void test_a_slow_reader_blocks_the_writer(void **state)
{
    struct world *w = *state;
    char *large = calloc(1, LARGE);
    struct slice part = slice_of(large, LARGE);
    assert_non_null(large);
    open_pair(w);
    net_stream_read_stop(w->server.stream);
    assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
    assert_true(net_stream_blocked(w->client.stream));
    run_for(w->loop, 50);
    assert_true(w->server.received <= NET_READ_SIZE);
    assert_false(w->client.drained);
    net_stream_read_start(w->server.stream);
    run_until(w->loop, &w->client.drained);
    assert_false(net_stream_blocked(w->client.stream));
    free(large);
}

static void test_a_peer_that_never_reads_is_given_up(void **state)
{
    struct world *w = *state;
    char *large = calloc(1, LARGE);
    struct slice part = slice_of(large, LARGE);
    assert_non_null(large);
    w->write_timeout_ms = 500;
    open_pair(w);
    net_stream_read_stop(w->server.stream);
    assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
    run_until(w->loop, &w->client.failed);
    assert_int_equal(w->client.error.code, UV_ETIMEDOUT);
    free(large);
}

static void test_quiet_sees_bytes_and_the_end(void **state)
{
    struct world *w = *state;
    open_pair(w);
    assert_true(net_stream_quiet(w->client.stream));
    net_stream_read_stop(w->client.stream);
    close_end(&w->server);
    run_for(w->loop, 20);
    assert_false(net_stream_quiet(w->client.stream));
}

static void test_peer_is_named(void **state)
{
    struct world *w = *state;
    uid_t uid = 12345;
    open_pair(w);
    assert_int_equal(net_stream_peer_uid(w->server.stream, &uid), 0);
    assert_int_equal(uid, geteuid());
}

/* ---- dialling what is not there ---- */

static void expect_no_connection(struct world *w, int code, const char *text)
{
    dial(w);
    run_until(w->loop, &w->client.failed);
    assert_int_equal(w->client.error.code, code);
    assert_non_null(strstr(w->client.error.msg, w->path));
    assert_non_null(strstr(w->client.error.msg, text));
    assert_null(strstr(w->client.error.msg, "port"));
}

static void test_nobody_listens(void **state)
{
    struct world *w = *state;
    expect_no_connection(w, UV_ENOENT, "no such file");
    int fd = raw_socket(w->path, -1);
    expect_no_connection(w, UV_ECONNREFUSED, "connection refused");
    (void)close(fd);
    expect_no_connection(w, UV_ECONNREFUSED, "connection refused");
}

static void test_nobody_accepts(void **state)
{
    struct world *w = *state;
    int fd = raw_socket(w->path, 0);
    int waiting = raw_dial(w->path);
    assert_true(waiting >= 0);
    expect_no_connection(w, UV_EAGAIN, "too many connections are waiting");
    (void)close(waiting);
    (void)close(fd);
}

static void test_path_too_long_or_empty(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    char longest[109] = {0};
    struct net_dial_options o = {.path = longest};
    memset(longest, 'x', 108);
    assert_int_equal(net_dial(w->loop, &o, &handlers, &w->client, &w->client.stream, &e),
                     -ENAMETOOLONG);
    assert_non_null(strstr(e.msg, "may have 107 bytes, this has 108"));
    assert_null(try_listen(w, longest, &e));
    assert_int_equal(e.code, -ENAMETOOLONG);
    o.path = "";
    assert_int_equal(net_dial(w->loop, &o, &handlers, &w->client, &w->client.stream, &e), -EINVAL);
    assert_null(try_listen(w, "", &e));
    assert_int_equal(e.code, -EINVAL);
}

static void test_longest_path(void **state)
{
    struct world *w = *state;
    size_t len = strlen(w->dir.path);
    memset(w->path, 'x', 107);
    memcpy(w->path, w->dir.path, len);
    w->path[len] = '/';
    w->path[107] = '\0';
    open_pair(w);
    assert_true(exists(w->path));
}

/* ---- the socket's file ---- */

static void test_file_is_ours_alone_and_goes(void **state)
{
    struct world *w = *state;
    struct stat st;
    mode_t old = umask(0);
    listen_here(w);
    (void)umask(old);
    assert_string_equal(net_listener_address(w->listener), w->path);
    assert_int_equal(lstat(w->path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0600);
    net_listener_close(w->listener);
    w->listener = NULL;
    assert_false(exists(w->path));
}

static void test_stale_socket_is_replaced(void **state)
{
    struct world *w = *state;
    (void)close(raw_socket(w->path, 5));
    assert_true(exists(w->path));
    open_pair(w);
}

static void test_socket_of_a_killed_process_is_replaced(void **state)
{
    struct world *w = *state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(30); /* whatever becomes of the test */
        (void)raw_socket(w->path, 5);
        (void)!write(ready[1], "x", 1);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct err e = ERR_INIT;
    assert_null(try_listen(w, w->path, &e));
    assert_int_equal(e.code, -EADDRINUSE);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(ready[0]);
    (void)close(ready[1]);
    open_pair(w);
}

static void test_living_socket_is_left_alone(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    int fd = raw_socket(w->path, 0);
    assert_null(try_listen(w, w->path, &e));
    assert_int_equal(e.code, -EADDRINUSE);
    assert_non_null(strstr(e.msg, w->path));
    assert_non_null(strstr(e.msg, "another process is listening on it"));
    /* Also when it accepts nobody: the connection just made waits, and fills its queue. */
    assert_null(try_listen(w, w->path, &e));
    assert_int_equal(e.code, -EADDRINUSE);
    assert_true(exists(w->path));
    (void)close(fd);
}

static void test_other_files_are_left_alone(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct stat st;
    char target[256];
    temp_dir_write(&w->dir, "control.sock", "precious", 0644);
    assert_null(try_listen(w, w->path, &e));
    assert_int_equal(e.code, -EEXIST);
    assert_non_null(strstr(e.msg, "is not a socket"));
    assert_int_equal(lstat(w->path, &st), 0);
    assert_int_equal(st.st_size, 8);
    assert_int_equal(unlink(w->path), 0);
    assert_int_equal(mkdir(w->path, 0700), 0);
    assert_null(try_listen(w, w->path, &e));
    assert_int_equal(rmdir(w->path), 0);
    (void)close(raw_socket(temp_dir_path(&w->dir, "other", target), 1));
    assert_int_equal(symlink(target, w->path), 0);
    assert_null(try_listen(w, w->path, &e));
    assert_int_equal(e.code, -EEXIST);
    assert_true(exists(target) && exists(w->path));
}

static void test_datagram_socket_is_left_alone(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%.100s", w->path);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_null(try_listen(w, w->path, &e));
    assert_int_equal(e.code, -EADDRINUSE);
    assert_true(exists(w->path));
    (void)close(fd);
}

static void test_close_leaves_a_file_that_is_not_its_own(void **state)
{
    struct world *w = *state;
    listen_here(w);
    assert_int_equal(unlink(w->path), 0);
    int other = raw_socket(w->path, 1);
    net_listener_close(w->listener);
    w->listener = NULL;
    assert_true(exists(w->path));
    (void)close(other);
}

static void test_no_such_folder(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    char path[256];
    assert_null(try_listen(w, temp_dir_path(&w->dir, "missing/control.sock", path), &e));
    assert_int_equal(e.code, -ENOENT);
    assert_non_null(strstr(e.msg, "missing/control.sock: no such file"));
}

/* ---- who may connect ---- */

/* A process of the user connects; true when it was let in: gets a greeting. */
static bool let_in(struct world *w, uid_t uid)
{
    unsigned before = w->accepted;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte;
        (void)alarm(30);
        bool able = seteuid(0) == 0 && setuid(uid) == 0;
        int fd = able ? raw_dial(w->path) : -1;
        _exit(fd < 0 ? 2 : read(fd, &byte, 1) == 1 ? 1 : 0);
    }
    int status = 0;
    for (int i = 0; i < 4000 && waitpid(pid, &status, WNOHANG) == 0; i++) {
        run_for(w->loop, 5);
        if (w->accepted > before && w->server.stream != NULL) {
            send_text(&w->server, "x");
        }
    }
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 2);
    return WEXITSTATUS(status) == 1;
}

/* The file's mode keeps strangers out; here it is opened to them. */
static void open_to_all(const struct world *w)
{
    assert_int_equal(chmod(w->path, 0666), 0);
}

static void test_strangers_are_turned_away(void **state)
{
    struct world *w = *state;
    if (getuid() != 0) {
        skip();
    }
    char log[256];
    int old = dup(STDERR_FILENO);
    int fd = open(temp_dir_path(&w->dir, "log", log), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char text[4096] = {0};
    assert_int_equal(chmod(w->dir.path, 0755), 0);
    listen_here(w);
    open_to_all(w);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    bool stranger = let_in(w, STRANGER);
    assert_true(dup2(old, STDERR_FILENO) >= 0);
    assert_false(stranger);
    assert_int_equal(w->accepted, 0);
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, "another user"));
    assert_non_null(strstr(text, "65533"));
    assert_true(let_in(w, 0));
    (void)close(old);
    (void)close(fd);
}

/* The effective user counts; root may always. */
static void test_own_user_and_root_are_let_in(void **state)
{
    struct world *w = *state;
    if (getuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(w->dir.path, 0777), 0);
    assert_int_equal(seteuid(PLAIN_USER), 0);
    listen_here(w);
    open_to_all(w);
    bool own = let_in(w, PLAIN_USER);
    bool root = let_in(w, 0);
    bool stranger = let_in(w, STRANGER);
    assert_true(own);
    assert_true(root);
    assert_false(stranger);
}

/* The mode of the file alone is enough. */
static void test_mode_keeps_strangers_out(void **state)
{
    struct world *w = *state;
    if (getuid() != 0) {
        skip();
    }
    listen_here(w);
    assert_int_equal(chmod(w->dir.path, 0755), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(setuid(STRANGER) == 0 && raw_dial(w->path) < 0 && errno == EACCES ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- closing in each phase ---- */

static void test_close_while_connecting(void **state)
{
    struct world *w = *state;
    listen_here(w);
    dial(w);
    close_end(&w->client);
    run_for(w->loop, 20);
    assert_false(w->client.opened || w->client.failed);
}

static void test_close_while_failing(void **state)
{
    struct world *w = *state;
    dial(w);
    close_end(&w->client);
    run_for(w->loop, 20);
    assert_false(w->client.opened || w->client.failed);
}

static void test_close_with_bytes_queued(void **state)
{
    struct world *w = *state;
    char *large = calloc(1, LARGE);
    struct slice part = slice_of(large, LARGE);
    assert_non_null(large);
    open_pair(w);
    net_stream_read_stop(w->server.stream);
    assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
    close_end(&w->client);
    net_stream_read_start(w->server.stream);
    run_until(w->loop, &w->server.eof);
    assert_true(w->server.received < LARGE);
    free(large);
}

static void test_peer_gone_while_writing(void **state)
{
    struct world *w = *state;
    open_pair(w);
    close_end(&w->server);
    run_until(w->loop, &w->client.eof);
    send_text(&w->client, "anybody?");
    run_until(w->loop, &w->client.failed);
    assert_int_equal(w->client.error.code, UV_EPIPE);
}

static void test_listener_closed_with_connections_waiting(void **state)
{
    struct world *w = *state;
    listen_here(w);
    int fd = raw_dial(w->path);
    char byte;
    assert_true(fd >= 0);
    net_listener_close(w->listener);
    w->listener = NULL;
    run_for(w->loop, 20);
    assert_int_equal(w->accepted, 0);
    assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0);
    (void)close(fd);
}

static void test_listens_again_after_close(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 3; i++) {
        open_pair(w);
        close_end(&w->client);
        close_end(&w->server);
        net_listener_close(w->listener);
        w->listener = NULL;
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_pass_both_ways),
        TEST(test_each_side_can_end),
        TEST(test_finish_delivers_what_is_queued),
        TEST(test_a_slow_reader_blocks_the_writer),
        TEST(test_a_peer_that_never_reads_is_given_up),
        TEST(test_quiet_sees_bytes_and_the_end),
        TEST(test_peer_is_named),
        TEST(test_nobody_listens),
        TEST(test_nobody_accepts),
        TEST(test_path_too_long_or_empty),
        TEST(test_longest_path),
        TEST(test_file_is_ours_alone_and_goes),
        TEST(test_stale_socket_is_replaced),
        TEST(test_socket_of_a_killed_process_is_replaced),
        TEST(test_living_socket_is_left_alone),
        TEST(test_other_files_are_left_alone),
        TEST(test_datagram_socket_is_left_alone),
        TEST(test_close_leaves_a_file_that_is_not_its_own),
        TEST(test_no_such_folder),
        TEST(test_strangers_are_turned_away),
        TEST(test_own_user_and_root_are_let_in),
        TEST(test_mode_keeps_strangers_out),
        TEST(test_close_while_connecting),
        TEST(test_close_while_failing),
        TEST(test_close_with_bytes_queued),
        TEST(test_peer_gone_while_writing),
        TEST(test_listener_closed_with_connections_waiting),
        TEST(test_listens_again_after_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
