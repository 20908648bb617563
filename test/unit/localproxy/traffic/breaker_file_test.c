/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/breaker_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/file.h"
#include "traffic_document.h"

static uint64_t now_ms;
static int64_t wall_ms;

static uint64_t clock_now(void *data)
{
    (void)data;
    return now_ms;
}

static int64_t clock_wall(void *data)
{
    (void)data;
    return wall_ms * 1000;
}

static const struct net_clock test_clock = {.now = clock_now, .wall = clock_wall};

static char folder[] = "/tmp/cmesh-breaker-file-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    now_ms = 1000;
    wall_ms = INT64_C(1784021400000);
    (void)snprintf(path, sizeof path, "%s/breakers.json", folder);
    (void)unlink(path);
    return 0;
}

static void put_in_force(struct breakers *all, const char *spec)
{
    struct traffic *t = traffic_document(1, spec);
    struct breaker_turn turn = breakers_turn(all);
    struct breaker_set *set = NULL;
    assert_int_equal(breakers_prepare(all, t, &turn, &set), 0);
    breakers_put_in_force(all, set, t, &turn);
    traffic_unref(t);
}

/* A process that starts; false: it found no file. */
static bool start(struct breakers *all, const char *spec)
{
    struct breaker_saved *saved;
    struct err e = ERR_INIT;
    breakers_init(all, &test_clock);
    assert_int_equal(breaker_file_read(path, &saved, &e), 0);
    put_in_force(all, spec);
    if (saved == NULL) {
        return false;
    }
    struct breaker_turn turn = breakers_turn(all);
    breaker_file_restore(saved, all, &turn);
    breaker_saved_free(saved);
    return true;
}

static void stop(struct breakers *all)
{
    struct err e = ERR_INIT;
    assert_int_equal(breaker_file_write(path, all, &e), 0);
    breakers_deinit(all);
}

static void open_all(struct breakers *all)
{
    for (size_t i = 0; i < all->now->count; i++) {
        uint64_t wait;
        struct breaker_turn turn = breakers_turn(all);
        while (breaker_look(all->now->at[i], &turn, &wait) == BREAKER_ALLOWS) {
            breaker_take(all->now->at[i], &turn);
        }
    }
}

static enum control_breaker_state state_of(struct breakers *all, size_t i)
{
    struct breaker_turn turn = breakers_turn(all);
    breaker_settle(all->now->at[i], &turn);
    return all->now->at[i]->state;
}

#define PODS TRAFFIC_RESOURCES("pods", "delete")
#define MANUALLY TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_MANUALLY)
#define RULES(reset, a, b)                                                                         \
    "{\"breakers\":[{\"name\":\"guard\",\"uid\":\"u\",\"reset\":{" reset                           \
    "},\"spec\":{\"selector\":{},\"rateLimitings\":[" TRAFFIC_LIMITING(                            \
        "a", PODS, a) "," TRAFFIC_LIMITING("b", PODS, b) "]}}]}"
#define BOTH RULES("", MANUALLY, TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_WINDOW(60000)))

static void test_open_ones_outlive_a_restart(void **state)
{
    struct breakers all;
    struct stat st;
    (void)state;
    assert_false(start(&all, BOTH));
    open_all(&all);
    stop(&all);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    now_ms = 77;
    wall_ms += 20000;
    assert_true(start(&all, BOTH));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_OPENED);
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_OPENED);
    assert_true(all.now->at[0]->since_wall_ms == INT64_C(1784021400000));
    assert_int_equal(all.now->at[0]->until_wall_ms, 0);
    assert_true(all.now->at[1]->until_wall_ms == INT64_C(1784021460000));
    now_ms += 39999;
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_OPENED);
    now_ms += 1;
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_OPENED);
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_CLOSED);
    stop(&all);
    assert_true(start(&all, BOTH));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_OPENED);
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_CLOSED);
    stop(&all);
}

static void test_its_time_passes_meanwhile(void **state)
{
    struct breakers all;
    (void)state;
    (void)start(&all, BOTH);
    open_all(&all);
    stop(&all);
    wall_ms += 60000;
    assert_true(start(&all, BOTH));
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_CLOSED);
    stop(&all);
}

/* The clock was set back, or forward by a year. */
static void test_a_clock_that_was_set_makes_it_no_longer(void **state)
{
    struct breakers all;
    (void)state;
    (void)start(&all, BOTH);
    open_all(&all);
    stop(&all);
    wall_ms -= INT64_C(365) * 24 * 3600 * 1000;
    assert_true(start(&all, BOTH));
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_OPENED);
    assert_true(all.now->at[1]->since_wall_ms == wall_ms);
    assert_true(all.now->at[1]->until_wall_ms == wall_ms + 60000);
    now_ms += 60000;
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_CLOSED);
    stop(&all);
}

#define HEALTH                                                                                     \
    "\"triggerPolicy\":\"Health\",\"healthPolicy\":{\"window\":\"10000ms\",\"minimumRequests\":1," \
    "\"errorPercent\":1}," TRAFFIC_WINDOW(5000)

static void test_health_goes_on_half_open(void **state)
{
    struct breakers all;
    struct breaker *b;
    uint64_t wait;
    (void)state;
    (void)start(&all, RULES("", HEALTH, MANUALLY));
    struct breaker_turn turn = breakers_turn(&all);
    b = all.now->at[0];
    assert_int_equal(breaker_look(b, &turn, &wait), BREAKER_ALLOWS);
    breaker_take(b, &turn);
    breaker_answered(b, turn.number, true, 1, &turn);
    breaker_leave(b, turn.number, false);
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_OPENED);
    now_ms += 5000;
    wall_ms += 5000;
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_HALF_OPENED);
    stop(&all);
    assert_true(start(&all, RULES("", HEALTH, MANUALLY)));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_HALF_OPENED);
    stop(&all);
}

static void test_what_decides_otherwise_begins_anew(void **state)
{
    struct breakers all;
    (void)state;
    (void)start(&all, BOTH);
    open_all(&all);
    stop(&all);
    assert_true(start(&all, RULES("", TRAFFIC_NORMALLY(2, 0, 1, TRAFFIC_MANUALLY),
                                  TRAFFIC_NORMALLY(1, 0, 1, TRAFFIC_WINDOW(60000)))));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_CLOSED);
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_OPENED);
    stop(&all);
}

static void test_tokens_are_remembered(void **state)
{
    struct breakers all;
    (void)state;
    (void)start(&all, RULES("\"a\":\"1\"", MANUALLY, MANUALLY)); /* closes nothing */
    open_all(&all);
    stop(&all);
    assert_true(start(&all, RULES("\"a\":\"1\"", MANUALLY, MANUALLY)));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_OPENED);
    stop(&all);
    /* It is new for both. */
    assert_true(start(&all, RULES("\"a\":\"2\",\"b\":\"2\"", MANUALLY, MANUALLY)));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_CLOSED);
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_CLOSED);
    open_all(&all);
    stop(&all);
    assert_true(start(&all, RULES("\"a\":\"2\",\"b\":\"2\"", MANUALLY, MANUALLY)));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_OPENED);
    assert_int_equal(state_of(&all, 1), CONTROL_BREAKER_OPENED);
    stop(&all);
}

static void test_what_its_policy_opens_is_not_kept(void **state)
{
    struct breakers all;
    (void)state;
    (void)start(&all, RULES("", "\"triggerPolicy\":\"ForceOpened\"", MANUALLY));
    assert_int_equal(state_of(&all, 0), CONTROL_BREAKER_OPENED);
    stop(&all);
    struct buf text = BUF_INIT(BREAKER_FILE_MAX);
    assert_int_equal(file_read(path, &text, NULL), 0);
    assert_string_equal(buf_cstr(&text), "{\"breakers\":[]}\n");
    buf_reset(&text);
}

#define SAME "\"same\":\"0123456789abcdef\""

static void test_odd_files_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"breakers\":{}}",
        "{\"breakers\":[1]}",
        "{\"breakers\":[{}]}",
        "{\"breakers\":[{\"key\":\"a\"}]}",
        "{\"breakers\":[{\"key\":\"a\",\"same\":\"0123456789abcdeF\"}]}",
        "{\"breakers\":[{\"key\":\"a\",\"same\":\"0\"}]}",
        "{\"breakers\":[{\"key\":\"\"," SAME "}]}",
        "{\"breakers\":[{\"key\":7," SAME "}]}",
        "{\"breakers\":[{\"key\":\"a\"," SAME ",\"since\":-1}]}",
        "{\"breakers\":[{\"key\":\"a\"," SAME ",\"until\":1e300}]}",
        "{\"breakers\":[{\"key\":\"a\"," SAME ",\"until\":\"1\"}]}",
        "{\"breakers\":[{\"key\":\"a\"," SAME ",\"reset\":\"" //
        "0123456789012345678901234567890123456789012345678901234567890123\"}]}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct breaker_saved *saved;
        struct err e = ERR_INIT;
        if (breaker_file_parse(slice_str(texts[i]), &saved, &e) != -EINVAL || saved != NULL) {
            fail_msg("%s", texts[i]);
        }
    }
    struct breaker_saved *saved;
    assert_int_equal(
        breaker_file_parse(SLICE("{\"breakers\":[{\"key\":\"a\"," SAME "}]}"), &saved, NULL), 0);
    assert_int_equal(saved->count, 1);
    breaker_saved_free(saved);
}

static void test_too_many_are_refused(void **state)
{
    struct buf text = BUF_INIT(BREAKER_FILE_MAX);
    struct breaker_saved *saved;
    struct err e = ERR_INIT;
    (void)state;
    buf_append_str(&text, "{\"breakers\":[");
    for (int i = 0; i <= TRAFFIC_ROWS_MAX; i++) {
        buf_printf(&text, "%s{\"key\":\"a\"," SAME "}", i > 0 ? "," : "");
    }
    buf_append_str(&text, "]}");
    assert_int_equal(breaker_file_parse(buf_slice(&text), &saved, &e), -EINVAL);
    buf_reset(&text);
}

/* The largest that a document can make it: each name and token as long as it may be, of characters
 * that JSON writes long. */
static char *largest_document(void)
{
    enum { POLICIES = TRAFFIC_POLICIES_MAX, RULES = TRAFFIC_ROWS_MAX / TRAFFIC_POLICIES_MAX };
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    buf_append_str(&text, "{\"breakers\":[");
    for (int i = 0; i < POLICIES; i++) {
        buf_printf(&text, "%s{\"name\":\"p%02d.%062d.%062d.%062d.%058d\",\"uid\":\"",
                   i > 0 ? "," : "", i, 0, 0, 0, 0);
        for (int k = 0; k < 63; k++) {
            buf_append_str(&text, "\\u0001");
        }
        buf_append_str(&text, "\",\"reset\":{\"*\":\"");
        for (int k = 0; k < TRAFFIC_TOKEN_MAX; k++) {
            buf_append_str(&text, "\\u0001");
        }
        buf_append_str(&text, "\"},\"spec\":{\"selector\":{},\"rateLimitings\":[");
        for (int k = 0; k < RULES; k++) {
            buf_printf(&text, "%s{\"name\":\"%02d", k > 0 ? "," : "", k);
            for (int n = 0; n < 61; n++) {
                buf_append_str(&text, "\\\\");
            }
            buf_append_str(&text, "\"," PODS "," MANUALLY "}");
        }
        buf_append_str(&text, "]}}");
    }
    buf_append_str(&text, "]}");
    assert_int_equal(buf_error(&text), 0);
    char *spec = strdup(buf_cstr(&text));
    buf_reset(&text);
    return spec;
}

static void test_the_largest_outlives_a_restart(void **state)
{
    struct breakers all;
    char *spec = largest_document();
    (void)state;
    assert_false(start(&all, spec));
    assert_int_equal(all.now->count, TRAFFIC_ROWS_MAX);
    open_all(&all);
    stop(&all);
    assert_true(start(&all, spec));
    for (size_t i = 0; i < all.now->count; i++) {
        assert_int_equal(state_of(&all, i), CONTROL_BREAKER_OPENED);
    }
    stop(&all);
    free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_open_ones_outlive_a_restart, set_up),
        cmocka_unit_test_setup(test_its_time_passes_meanwhile, set_up),
        cmocka_unit_test_setup(test_a_clock_that_was_set_makes_it_no_longer, set_up),
        cmocka_unit_test_setup(test_health_goes_on_half_open, set_up),
        cmocka_unit_test_setup(test_what_decides_otherwise_begins_anew, set_up),
        cmocka_unit_test_setup(test_tokens_are_remembered, set_up),
        cmocka_unit_test_setup(test_what_its_policy_opens_is_not_kept, set_up),
        cmocka_unit_test_setup(test_odd_files_are_refused, set_up),
        cmocka_unit_test_setup(test_too_many_are_refused, set_up),
        cmocka_unit_test_setup(test_the_largest_outlives_a_restart, set_up),
    };
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    (void)rmdir(folder);
    return failed;
}
