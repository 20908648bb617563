/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose places are shared by address, and clients with loopback addresses of their own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server.h"
#include "loop_fixture.h"

enum { PLACES = 4, LONG_MS = 60000 };

struct scene {
    struct net_loop *loop;
    struct http_server *server;
    bool answers;
    unsigned closed; /* exchanges that ended with an error */
    int fds[16];
    size_t count;
};

static void ignore_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct scene *t = x->data;
    t->closed += e != NULL ? 1 : 0;
}

static const struct http_exchange_handlers exchange_handlers = {
    .on_body = ignore_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = on_close,
};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct scene *t = data;
    (void)head;
    x->handlers = &exchange_handlers;
    x->data = t;
    assert_non_null(http_server_peer(x));
    if (t->answers) {
        assert_int_equal(http_respond(x, 200, SLICE("text/plain"), SLICE("x"), NULL, 0), 0);
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)why;
    (void)body;
}

static const struct http_server_handlers handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

static int setup(void **state)
{
    static struct scene t;
    t = (struct scene){.answers = true};
    if (loop_setup((void **)&t.loop) != 0) {
        return -1;
    }
    const struct http_server_options o = {
        .address = "127.0.0.1:0",
        .head_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .max_connections = PLACES,
        .shares = true,
    };
    t.server = http_server_new(t.loop, &o, &handlers, &t, NULL);
    *state = &t;
    return t.server == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct scene *t = *state;
    for (size_t i = 0; i < t->count; i++) {
        (void)close(t->fds[i]);
    }
    http_server_free(t->server);
    return loop_teardown((void **)&t->loop);
}

static const struct http_server_stats *stats(const struct scene *t)
{
    return http_server_stats(t->server);
}

/* A connection from the address, which the server has accepted or refused. */
static int come(struct scene *t, const char *source)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *address = http_server_address(t->server);
    uint64_t before = stats(t)->accepted + stats(t)->no_room;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    t->fds[t->count++] = fd;
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
    assert_int_equal(inet_pton(AF_INET, source, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    (void)connect(fd, (const struct sockaddr *)&to, sizeof to);
    for (int i = 0; i < 5000 && stats(t)->accepted + stats(t)->no_room == before; i++) {
        run_for(t->loop, 1);
    }
    assert_int_equal(stats(t)->accepted + stats(t)->no_room, before + 1);
    run_for(t->loop, 5);
    return fd;
}

static void say(struct scene *t, int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    run_for(t->loop, 20);
}

/* Takes what was answered. */
static bool is_open(int fd)
{
    char bytes[1000];
    ssize_t n;
    do {
        n = recv(fd, bytes, sizeof bytes, 0);
    } while (n > 0);
    return n < 0 && errno == EAGAIN;
}

#define REQUEST "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define BODY_BEGUN "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1"

static void test_a_newcomer_gets_a_place_of_who_has_most(void **state)
{
    struct scene *t = *state;
    int few = come(t, "127.0.0.3"); /* idle longest */
    int many[PLACES - 1];
    for (size_t i = 0; i < PLACES - 1; i++) {
        many[i] = come(t, "127.0.0.2");
    }
    int newcomer = come(t, "127.0.0.3");
    assert_true(is_open(newcomer));
    assert_true(is_open(few));
    assert_false(is_open(many[0]));
    assert_true(is_open(many[1]));
    assert_int_equal(stats(t)->replaced, 1);
    assert_int_equal(stats(t)->open, PLACES);
}

static void test_who_has_most_takes_from_itself(void **state)
{
    struct scene *t = *state;
    int few = come(t, "127.0.0.3");
    int many[3 * PLACES];
    for (size_t i = 0; i < 2 * PLACES; i++) {
        many[i] = come(t, "127.0.0.2");
    }
    assert_true(is_open(few));
    assert_false(is_open(many[PLACES]));
    assert_true(is_open(many[2 * PLACES - 1]));
    assert_int_equal(stats(t)->no_room, 0);
}

static void test_who_never_asked_goes_first(void **state)
{
    struct scene *t = *state;
    int asked = come(t, "127.0.0.2");
    say(t, asked, REQUEST);
    int silent = come(t, "127.0.0.2");
    for (size_t i = 0; i < PLACES - 2; i++) {
        (void)come(t, "127.0.0.2");
    }
    assert_true(is_open(come(t, "127.0.0.2")));
    assert_true(is_open(asked));
    assert_false(is_open(silent));
}

static void test_what_is_being_answered_stays(void **state)
{
    struct scene *t = *state;
    t->answers = false;
    for (size_t i = 0; i < PLACES; i++) {
        say(t, come(t, "127.0.0.2"), REQUEST);
    }
    assert_false(is_open(come(t, "127.0.0.3")));
    assert_int_equal(stats(t)->no_room, 1);
    assert_int_equal(stats(t)->replaced, 0);
    for (size_t i = 0; i < PLACES; i++) {
        assert_true(is_open(t->fds[i]));
    }
}

static void test_a_body_that_takes_long_is_no_excuse(void **state)
{
    struct scene *t = *state;
    t->answers = false;
    for (size_t i = 0; i < PLACES; i++) {
        say(t, come(t, "127.0.0.2"), BODY_BEGUN);
    }
    assert_false(is_open(come(t, "127.0.0.3"))); /* it may be coming */
    run_for(t->loop, 2100);
    assert_true(is_open(come(t, "127.0.0.3")));
    assert_int_equal(t->closed, 1);
    assert_false(is_open(t->fds[0]));
}

/* More addresses than places: nobody has more than another. */
static void test_where_all_have_few_the_silent_go(void **state)
{
    static const char *const sources[PLACES] = {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"};
    struct scene *t = *state;
    say(t, come(t, sources[0]), REQUEST);
    for (size_t i = 1; i < PLACES; i++) {
        (void)come(t, sources[i]);
    }
    assert_false(is_open(come(t, "127.0.0.6"))); /* they came just now */
    run_for(t->loop, 1100);
    assert_true(is_open(come(t, "127.0.0.6")));
    assert_true(is_open(t->fds[0]));
    assert_false(is_open(t->fds[1]));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_newcomer_gets_a_place_of_who_has_most),
        TEST(test_who_has_most_takes_from_itself),
        TEST(test_who_never_asked_goes_first),
        TEST(test_what_is_being_answered_stays),
        TEST(test_a_body_that_takes_long_is_no_excuse),
        TEST(test_where_all_have_few_the_silent_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
