/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that are under way when the rules take away what they concern: who tells that the new
 * rules are in force waits for them.
 */
#include "reload_fixture.h"

#include <unistd.h>

#include "base/array.h"
#include "temp_dir.h"
#include "upstream/pending_writes.h"

#define OWN "ctrlmesh.kusionstack.io/namespace"

/* The API server has it, and does not answer yet. */
static struct api_request *send_write(struct fixture *f, struct client *c, const char *ns)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "POST /api/v1/namespaces/%s/pods HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                   ns);
    client_open(f, c);
    client_send(c, text);
    return api_expect_part(f->api, "/pods");
}

static void write_to_what_was_lost_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_write(f, &c, "a");
    unsigned before = f->settled;
    fixture_limit(f, OWN " in (b)");
    run_for(f->api->loop, 20);
    assert_int_equal(f->settled, before);
    assert_false(proxy_settled(f->proxy));
    api_answer(a, 201, NULL, "{}");
    fixture_expect(f, &c, "201 Created");
    fixture_expect_settled(f);
    assert_int_equal(f->settled, before + 1);
    client_close(&c);
}

/* What it deletes was selected by the old rules. */
static void deletion_of_a_collection_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    client_open(f, &c);
    client_send(&c, "DELETE /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct api_request *a = api_expect_part(f->api, "/pods");
    fixture_limit(f, "ns in (b)");
    assert_false(proxy_settled(f->proxy));
    api_answer(a, 200, NULL, "{}");
    fixture_expect(f, &c, "200 OK");
    fixture_expect_settled(f);
    client_close(&c);
}

/* The API server may work on a write for PENDING_WRITE_MS. */
static void expect_unsettled_for(struct fixture *f, uint64_t ms)
{
    unsigned before = f->settled;
    fake_clock_pass(&f->clock, ms - 1);
    assert_false(proxy_settled(f->proxy));
    assert_int_equal(f->settled, before);
    fake_clock_pass(&f->clock, 1);
    fixture_expect_settled(f);
    assert_int_equal(f->settled, before + 1);
}

/* That nobody waits for the answer any more stops no API server. */
static void lost_write_whose_client_leaves_may_be_executed(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_write(f, &c, "a");
    fixture_limit(f, OWN " in (b)");
    fake_clock_pass(&f->clock, 1000); /* since it was sent, not since it was given up */
    client_close(&c);
    api_expect_given_up(a);
    assert_int_equal(proxy_lost_writes(f->proxy), 1);
    expect_unsettled_for(f, PENDING_WRITE_MS - 1000);
}

static void lost_write_whose_connection_breaks_may_be_executed(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_write(f, &c, "a");
    fixture_limit(f, OWN " in (b)");
    api_cut(a);
    fixture_expect(f, &c, "HTTP/1.1 5");
    expect_unsettled_for(f, PENDING_WRITE_MS);
    client_close(&c);
}

/* Nor that it was given up before the rules changed. */
static void write_that_was_given_up_before_may_be_executed(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a,b)");
    struct api_request *a = send_write(f, &c, "a");
    client_close(&c);
    api_expect_given_up(a);
    struct api_request *b = send_write(f, &c, "b");
    client_close(&c);
    api_expect_given_up(b);
    assert_true(proxy_settled(f->proxy));
    fixture_limit(f, OWN " in (b)");
    assert_int_equal(proxy_lost_writes(f->proxy), 1);
    expect_unsettled_for(f, PENDING_WRITE_MS);
}

static void write_that_is_over_is_forgotten(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_write(f, &c, "a");
    client_close(&c);
    api_expect_given_up(a);
    fake_clock_pass(&f->clock, PENDING_WRITE_MS);
    run_for(f->api->loop, 1);
    fixture_limit(f, OWN " in (b)");
    assert_true(proxy_settled(f->proxy));
}

static struct api_request *send_part_of_a_write(struct fixture *f, struct client *c)
{
    client_open(f, c);
    client_send(c, "POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{}");
    return api_expect_part(f->api, "/pods");
}

static void write_that_was_not_sent_completely_is_never_executed(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_part_of_a_write(f, &c);
    fixture_limit(f, OWN " in (b)");
    assert_false(proxy_settled(f->proxy));
    client_close(&c);
    api_expect_given_up(a);
    fixture_expect_settled(f);
}

static void lost_write_that_does_not_come_is_broken_off(void **state)
{
    struct fixture *f = *state;
    struct client c;
    f->clock.now = 1; /* the machine has just started */
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_part_of_a_write(f, &c);
    fixture_limit(f, OWN " in (b)");
    assert_false(proxy_settled(f->proxy));
    loop_skip(f->api->loop, 5000);
    api_expect_given_up(a);
    fixture_expect(f, &c, NULL);
    fixture_expect_settled(f);
    client_close(&c);
}

/* The answer is what tells, however long it takes. */
static void lost_write_is_not_broken_off(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_write(f, &c, "a");
    fixture_limit(f, OWN " in (b)");
    loop_skip(f->api->loop, 6000);
    run_for(f->api->loop, 20);
    assert_false(proxy_settled(f->proxy));
    api_answer(a, 201, NULL, "{}");
    fixture_expect(f, &c, "201 Created");
    fixture_expect_settled(f);
    client_close(&c);
}

static void write_that_nobody_lost_goes_on(void **state)
{
    static const int modes[] = {FENCE_OFF, FENCE_AUDIT};
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct client c;
        struct client lost;
        f->flags.write_fence = modes[i];
        fixture_restart(f);
        fixture_limit(f, OWN " in (a)");
        struct api_request *q = send_write(f, &c, "other");
        unsigned before = f->settled;
        fixture_limit(f, OWN " in (a,b)");
        assert_int_equal(f->settled, before + 1);
        struct api_request *b = send_write(f, &lost, "b");
        fixture_limit(f, OWN " in (a)");
        assert_false(proxy_settled(f->proxy));
        api_answer(b, 201, NULL, "{}");
        fixture_expect(f, &lost, "201 Created");
        fixture_expect_settled(f);
        api_answer(q, 201, NULL, "{}");
        fixture_expect(f, &c, "201 Created");
        client_close(&c);
        client_close(&lost);
    }
}

/* ---- the process ends ---- */

struct ending {
    bool killed;
    bool given_up; /* by its client, before */
    const char *rules;
    bool settled;     /* at once */
    uint64_t over_ms; /* else */
};

/* A write to namespace a is under way, or was given up 1 s ago. */
static void end_with_a_write(struct fixture *f, const struct ending *e)
{
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *a = send_write(f, &c, "a");
    if (e->given_up) {
        client_close(&c);
        api_expect_given_up(a);
        fake_clock_pass(&f->clock, 1000);
    }
    fixture_stop(f, e->killed);
    fixture_start(f);
    if (!e->given_up) {
        client_close(&c);
    }
    fixture_limit(f, e->rules);
    assert_int_equal(proxy_settled(f->proxy), e->settled);
    if (!e->settled) {
        expect_unsettled_for(f, e->over_ms);
    }
}

/* No end of a process stops the API server. */
static void writes_outlive_the_process(void **state)
{
    enum { SENT = PENDING_WRITE_MS, KILLED = PENDING_ARRIVAL_MS + PENDING_WRITE_MS };
    static const char same[] = OWN " in (a)";
    static const char other[] = OWN " in (b)";
    static const struct ending endings[] = {
        {.killed = true, .rules = other, .over_ms = KILLED},
        {.killed = true, .rules = same, .settled = true},
        {.killed = true, .given_up = true, .rules = other, .over_ms = SENT - 1000},
        {.killed = true, .given_up = true, .rules = same, .settled = true},
        {.rules = other, .over_ms = SENT},
        {.rules = same, .settled = true},
        {.given_up = true, .rules = other, .over_ms = SENT - 1000},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        struct temp_dir dir;
        char path[256];
        temp_dir_init(&dir);
        f->flags.state = temp_dir_path(&dir, "state", path);
        fixture_restart(f);
        end_with_a_write(f, &endings[i]);
        f->flags.state = NULL;
        fixture_restart(f);
        temp_dir_deinit(&dir);
    }
}

/* With a file that says nothing of a process before, or without one. */
static void nothing_is_under_way_at_first(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    f->flags.state = temp_dir_path(&dir, "state", path);
    fixture_restart(f);
    fixture_limit(f, OWN " in (a)");
    assert_true(proxy_settled(f->proxy));
    fixture_stop(f, true);
    assert_int_equal(truncate(path, 100), 0); /* it is not whole */
    fixture_start(f);
    fixture_limit(f, OWN " in (a)");
    assert_false(proxy_settled(f->proxy));
    expect_unsettled_for(f, PENDING_ARRIVAL_MS + PENDING_WRITE_MS);
    f->flags.state = NULL;
    fixture_restart(f);
    temp_dir_deinit(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_to_what_was_lost_is_waited_for, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(deletion_of_a_collection_is_waited_for, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(lost_write_whose_client_leaves_may_be_executed,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(lost_write_whose_connection_breaks_may_be_executed,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(write_that_was_given_up_before_may_be_executed,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(write_that_is_over_is_forgotten, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(write_that_was_not_sent_completely_is_never_executed,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(lost_write_that_does_not_come_is_broken_off, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(lost_write_is_not_broken_off, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(write_that_nobody_lost_goes_on, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(writes_outlive_the_process, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_under_way_at_first, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
