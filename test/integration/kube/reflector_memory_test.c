/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails, on either side, for every n that a reflector needs to list two pages,
 * watch, lose its version and list again: it gets there all the same.
 */
#include "alloc_sweep.h"
#include "base/log.h"
#include "reflector_world.h"

enum { PATIENCE_TURNS = 3000 };

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* What is kept after the version 20 was lost: the second list is at 30. */
static void serve(struct world *w)
{
    if (starts_with(w->target, "/p?limit=500&continue=")) {
        world_answer(w, 200, NULL,
                     world_list("10", NULL, (const char *[]){world_object("c", "3"), NULL}));
    } else if (starts_with(w->target, "/p?limit=500") && !w->lost) {
        const char *objects[] = {world_object("a", "1"), world_object("b", "2"), NULL};
        world_answer(w, 200, NULL, world_list("10", "token", objects));
    } else if (starts_with(w->target, "/p?limit=500")) {
        world_answer(w, 200, NULL,
                     world_list("30", NULL, (const char *[]){world_object("d", "4"), NULL}));
    } else if (strstr(w->target, "resourceVersion=30") != NULL) {
        world_begin(w);
        world_send(w, world_event("ADDED", "e", "31"));
    } else {
        w->lost = true;
        world_answer(w, 410, NULL, "{\"kind\":\"Status\",\"code\":410}");
    }
}

static bool is_there(struct world *w)
{
    const char *text = buf_cstr(&w->log);
    return text != NULL && strstr(text, "+d@4 synced ") != NULL && strstr(text, "A:e@31 ") != NULL;
}

static bool play(void *data)
{
    struct world w = {.on_request = serve, .running = true};
    struct reflector_options o = {.path = "/p", .label_selector = ""};
    struct net_loop *l = net_loop_new(NULL);
    (void)data;
    if (l == NULL) {
        return false;
    }
    bool started = world_open(&w, l) && world_start(&w, &o);
    for (int turn = 0; started && turn < PATIENCE_TURNS && !is_there(&w); turn++) {
        run_for(l, 1);
    }
    sweep_left = -1;
    if (started && !is_there(&w)) {
        fail_msg("it did not get there: \"%s\"", buf_cstr(&w.log));
    }
    world_close(&w);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
