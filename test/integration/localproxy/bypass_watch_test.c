/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With real sockets: the test is localproxy, and a child process is an operator with a connection
 * of its own to what is taken for the API server.
 */
#include "bypass/bypass_watch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_clock.h"
#include "loop_fixture.h"

enum { BETWEEN_MS = 5000, HOLD_MS = 60000 };

struct scene {
    struct net_loop *loop;
    struct fake_clock clock;
    struct sockaddr_in server;
    int listener;
    int pipe[2]; /* the operator lives until it is closed */
    pid_t child;
    struct bypass_watch *watch;
};

static struct scene scene;

/* At an address and a port of its own: tests beside this one dial ports that the kernel gives, at
 * 127.0.0.1, of which it may give one here too. The watch goes by the port alone. */
static void listen_as_server(struct scene *s)
{
    socklen_t len = sizeof s->server;
    s->server = (struct sockaddr_in){.sin_family = AF_INET};
    s->server.sin_port = htons((uint16_t)(7000 + getpid() % 2000));
    s->server.sin_addr.s_addr = htonl(0x7f400001 + (((uint32_t)getpid() & 0xffff) << 4));
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&s->server, sizeof s->server), 0);
    assert_int_equal(listen(s->listener, 8), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&s->server, &len), 0);
}

static int connect_to(const struct scene *s)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&s->server, sizeof s->server), 0);
    return fd;
}

static int set_up(void **state)
{
    struct err e = ERR_INIT;
    struct url server = {.https = true, .host = "api.example.test"};
    if (loop_setup(state) != 0) {
        return -1;
    }
    scene = (struct scene){.loop = *state};
    fake_clock_init(&scene.clock, scene.loop);
    fake_clock_jump(&scene.clock, BETWEEN_MS);
    listen_as_server(&scene);
    server.port = ntohs(scene.server.sin_port);
    const struct bypass_watch_options o = {
        .server = &server,
        .own = {"127.0.0.1:5443", "0.0.0.0:5441"},
        .clock = &scene.clock.clock,
    };
    scene.watch = bypass_watch_new(scene.loop, &o, &e);
    return scene.watch != NULL ? 0 : -1;
}

static void end_operator(struct scene *s)
{
    int status = 0;
    (void)close(s->pipe[1]);
    assert_int_equal(waitpid(s->child, &status, 0), s->child);
    assert_int_equal(status, 0);
}

static void start_operator(struct scene *s)
{
    char c;
    assert_int_equal(pipe(s->pipe), 0);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    s->child = fork();
    assert_true(s->child >= 0);
    if (s->child == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        int rc = connect(fd, (const struct sockaddr *)&s->server, sizeof s->server);
        (void)close(s->pipe[1]);
        bool told = write(ready[1], "x", 1) == 1;
        bool ended = read(s->pipe[0], &c, 1) == 0;
        _exit(rc == 0 && told && ended ? 0 : 1);
    }
    (void)close(s->pipe[0]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static int tear_down(void **state)
{
    bypass_watch_free(scene.watch);
    fake_clock_forget(&scene.clock);
    (void)close(scene.listener);
    return loop_teardown(state);
}

/* Asks, and waits for the look that this began. */
static struct bypass_answer ask_and_look(struct scene *s)
{
    run_to_end(s->loop); /* what was begun before */
    fake_clock_pass(&s->clock, BETWEEN_MS);
    (void)bypass_watch_ask(s->watch);
    run_to_end(s->loop);
    return bypass_watch_ask(s->watch);
}

static void an_operator_that_goes_around(void **state)
{
    struct scene *s = &scene;
    int own = connect_to(s);
    (void)state;
    assert_false(bypass_watch_ask(s->watch).known);
    struct bypass_answer a = ask_and_look(s);
    assert_true(a.known && a.connections == 0 && a.error == NULL);
    start_operator(s);
    a = ask_and_look(s);
    assert_true(a.known && a.connections == 0);
    a = ask_and_look(s);
    assert_int_equal(a.connections, 1);
    end_operator(s);
    a = ask_and_look(s);
    assert_int_equal(a.connections, 1);
    fake_clock_pass(&s->clock, HOLD_MS);
    a = ask_and_look(s);
    assert_true(a.known && a.connections == 0);
    (void)close(own);
}

/* Whoever asks seldom need not ask twice in a row. */
static void a_second_look_follows_by_itself(void **state)
{
    struct scene *s = &scene;
    int own = connect_to(s);
    (void)state;
    start_operator(s);
    (void)bypass_watch_ask(s->watch);
    run_to_end(s->loop);
    assert_int_equal(fake_clock_next(&s->clock), BETWEEN_MS);
    fake_clock_pass(&s->clock, BETWEEN_MS);
    run_to_end(s->loop);
    struct bypass_answer a = bypass_watch_ask(s->watch);
    assert_true(a.known);
    assert_int_equal(a.connections, 1);
    end_operator(s);
    (void)close(own);
}

static void freed_during_a_look(void **state)
{
    (void)state;
    (void)bypass_watch_ask(scene.watch);
    bypass_watch_free(scene.watch);
    scene.watch = NULL;
    run_to_end(scene.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_operator_that_goes_around, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_look_follows_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed_during_a_look, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
