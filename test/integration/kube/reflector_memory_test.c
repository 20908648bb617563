/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails, on either side, for every n that a reflector needs to list two pages,
 * watch, lose its version and list again: it gets there all the same.
 */
#include "alloc_sweep.h"
#include "base/log.h"
#include "reflector_fixture.h"

enum { PATIENCE_TURNS = 3000 };

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* What is kept after the version 20 was lost: the second list is at 30. */
static void serve(struct fixture *f)
{
    if (starts_with(f->asked->target, "/p?limit=500&continue=")) {
        api_answer(f->asked, 200, NULL,
                   fixture_list("10", NULL, (const char *[]){fixture_object("c", "3"), NULL}));
    } else if (starts_with(f->asked->target, "/p?limit=500") && !f->lost) {
        const char *objects[] = {fixture_object("a", "1"), fixture_object("b", "2"), NULL};
        api_answer(f->asked, 200, NULL, fixture_list("10", "token", objects));
    } else if (starts_with(f->asked->target, "/p?limit=500")) {
        api_answer(f->asked, 200, NULL,
                   fixture_list("30", NULL, (const char *[]){fixture_object("d", "4"), NULL}));
    } else if (strstr(f->asked->target, "resourceVersion=30") != NULL) {
        api_begin(f->asked, NULL);
        api_send(f->asked, fixture_event("ADDED", "e", "31"));
    } else {
        f->lost = true;
        api_answer(f->asked, 410, NULL, "{\"kind\":\"Status\",\"code\":410}");
    }
}

static bool is_there(struct fixture *f)
{
    const char *text = buf_cstr(&f->log);
    return text != NULL && strstr(text, "+d@4 synced ") != NULL && strstr(text, "A:e@31 ") != NULL;
}

static bool play(void *data)
{
    struct fixture f = {.on_request = serve, .running = true};
    struct reflector_options o = {.path = "/p", .label_selector = ""};
    struct net_loop *l = net_loop_new(NULL);
    (void)data;
    if (l == NULL) {
        return false;
    }
    bool started = fixture_open(&f, l) && fixture_start(&f, &o);
    for (int turn = 0; started && turn < PATIENCE_TURNS && !is_there(&f); turn++) {
        run_for(l, 1);
    }
    sweep_left = -1;
    if (started && !is_there(&f)) {
        fail_msg("it did not get there: \"%s\"", buf_cstr(&f.log));
    }
    fixture_close(&f);
    assert_int_equal(loop_free(l), 0);
    return started;
}

static void test_every_allocation_fails_once(void **state)
{
    log_init("test", LOG_TEXT, LOG_ERROR);
    long failed = sweep_allocations(play, *state);
    assert_true(failed > 100);
    print_message("%ld allocations\n", failed);
}

/* Its next try meets no memory. */
static void starve(struct fixture *f)
{
    sweep_left = 0;
    fixture_pass(f, 0, 30000);
    fixture_expect_deadline(f, 0, 30000);
    assert_true(sweep_left < 0);
}

static void test_says_that_there_is_never_memory(void **state)
{
    struct fixture f = {.on_request = serve};
    struct reflector_options o = {.path = "/p", .label_selector = ""};
    struct net_loop *l = net_loop_new(NULL);
    (void)state;
    assert_true(l != NULL && fixture_open(&f, l) && fixture_start(&f, &o));
    sweep_left = 0;
    fixture_expect_deadline(&f, 0, 30000);
    assert_int_equal(f.starved, 0);
    starve(&f);
    assert_int_equal(f.starved, 1);
    starve(&f);
    assert_int_equal(f.starved, 2);
    f.running = true;
    fixture_pass(&f, 0, 30000);
    for (int turn = 0; turn < PATIENCE_TURNS && !is_there(&f); turn++) {
        run_for(l, 1);
    }
    assert_true(is_there(&f));
    assert_int_equal(f.starved, 2);
    fixture_close(&f);
    assert_int_equal(loop_free(l), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_says_that_there_is_never_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
