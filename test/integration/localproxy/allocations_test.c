/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request and an event allocate on connections that are there: no more than is said here,
 * which is what the figures of test/bench rest on.
 */
#include "reload_fixture.h"

#include "alloc_sweep.h"

/* Of a GET: what carries it, what is needed until it is answered, its request to the API server,
 * and the head of that. */
enum { OF_GET = 4, OF_EVENT = 0, WARM = 4, COUNTED = 8, PLENTY = 1 << 20 };

static void count_from_now(void)
{
    sweep_left = PLENTY;
}

static long counted(void)
{
    long n = PLENTY - sweep_left;
    sweep_left = -1;
    return n;
}

/* The test's own memory is there before anything is counted. */
static void make_room(struct client *c)
{
    long paused = alloc_sweep_pause();
    assert_non_null(buf_reserve(&c->text, 1024 * 1024));
    alloc_sweep_resume(paused);
}

static void get_and_answer(struct fixture *f, struct client *c)
{
    buf_clear(&c->text);
    client_send(c, "GET /api/v1/namespaces/a/pods/p HTTP/1.1\r\nHost: localhost\r\n"
                   "User-Agent: test\r\nAccept: application/json\r\n\r\n");
    struct api_request *q = api_expect_part(f->api, "/pods/p");
    api_answer(q, 200, NULL, "{\"found\":1}");
    fixture_expect(f, c, "{\"found\":1}");
}

static void a_get_allocates_little(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    client_open(f, &c);
    make_room(&c);
    for (int i = 0; i < WARM; i++) {
        get_and_answer(f, &c);
    }
    count_from_now();
    for (int i = 0; i < COUNTED; i++) {
        get_and_answer(f, &c);
    }
    assert_in_range(counted(), 1, OF_GET * COUNTED);
    client_close(&c);
}

static void pass_event(struct fixture *f, struct client *c, struct api_request *q, unsigned version)
{
    char text[32];
    (void)snprintf(text, sizeof text, "\"%u\"", version);
    buf_clear(&c->text);
    api_send(q, pod_event("MODIFIED", "p", version));
    fixture_expect(f, c, text);
}

static void an_event_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    struct client c;
    unsigned version = 100;
    fixture_limit(f, "ns in (a)");
    fixture_get(f, &c, "/api/v1/pods?watch=1");
    make_room(&c);
    struct api_request *q = api_expect_part(f->api, "watch=1");
    api_begin(q, NULL);
    for (int i = 0; i < WARM; i++) {
        pass_event(f, &c, q, ++version);
    }
    count_from_now();
    for (int i = 0; i < COUNTED; i++) {
        pass_event(f, &c, q, ++version);
    }
    assert_int_equal(counted(), OF_EVENT * COUNTED);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_get_allocates_little, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(an_event_allocates_nothing, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
