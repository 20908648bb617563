/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/health.h"

#include <stdio.h>
#include <string.h>

#include "alloc_sweep.h"
#include "fake_clock.h"
#include "log_capture.h"
#include "json/field.h"

enum { MINUTE_MS = 60 * 1000, REPEAT_MS = 10 * MINUTE_MS };

struct world {
    struct fake_clock clock;
    struct health health;
    struct log_capture log;
};

static int setup(void **state)
{
    static struct world w;
    w = (struct world){0};
    fake_clock_init(&w.clock, NULL);
    health_init(&w.health, &w.clock.clock);
    log_init("test", LOG_TEXT, LOG_INFO);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    health_deinit(&w->health);
    return 0;
}

static void raise_about(struct world *w, enum health_cause cause, const char *subject,
                        const char *message)
{
    const struct health_report r = {
        .cause = cause, .subject = subject, .message = message, .remedy = "mend it"};
    health_raise(&w->health, &r);
}

static unsigned lines(const char *text)
{
    unsigned n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n' ? 1 : 0;
    }
    return n;
}

/* How many lines raising it logs. */
static unsigned lines_of_raise(struct world *w, const char *message)
{
    log_capture_begin(&w->log);
    raise_about(w, HEALTH_CREDENTIALS, "the token", message);
    return lines(log_capture_end(&w->log));
}

static unsigned lines_of_clear(struct world *w)
{
    log_capture_begin(&w->log);
    health_clear(&w->health, HEALTH_CREDENTIALS, "the token");
    return lines(log_capture_end(&w->log));
}

static void one_line_names_cause_and_remedy(void **state)
{
    struct world *w = *state;
    log_capture_begin(&w->log);
    raise_about(w, HEALTH_CREDENTIALS, "the token", "401 Unauthorized");
    const char *text = log_capture_end(&w->log);
    assert_int_equal(lines(text), 1);
    assert_non_null(strstr(text, " WARN "));
    assert_non_null(strstr(text, "subject=\"the token\" error=\"401 Unauthorized\""));
    assert_non_null(strstr(text, "remedy=\"mend it\""));
    assert_int_equal(lines_of_raise(w, "401 Unauthorized"), 0);
    assert_string_equal(health_message(&w->health, HEALTH_CREDENTIALS), "401 Unauthorized");
    log_capture_begin(&w->log);
    health_clear(&w->health, HEALTH_CREDENTIALS, "the token");
    text = log_capture_end(&w->log);
    assert_int_equal(lines(text), 1);
    assert_non_null(strstr(text, " INFO "));
    assert_int_equal(lines_of_clear(w), 0);
    assert_null(health_message(&w->health, HEALTH_CREDENTIALS));
}

static void it_is_said_again_with_other_words_or_after_long(void **state)
{
    struct world *w = *state;
    assert_int_equal(lines_of_raise(w, "bad"), 1);
    assert_int_equal(lines_of_raise(w, "worse"), 1);
    fake_clock_jump(&w->clock, REPEAT_MS - 1);
    assert_int_equal(lines_of_raise(w, "worse"), 0);
    fake_clock_jump(&w->clock, 1);
    assert_int_equal(lines_of_raise(w, "worse"), 1);
}

static void what_comes_and_goes_is_logged_once_a_minute(void **state)
{
    struct world *w = *state;
    unsigned logged = 0;
    for (unsigned i = 0; i < 120; i++) {
        logged += lines_of_raise(w, "bad");
        fake_clock_jump(&w->clock, 500);
        logged += lines_of_clear(w);
        fake_clock_jump(&w->clock, 500);
    }
    assert_int_equal(logged, 2 * 2);
    assert_int_equal(w->health.raised[HEALTH_CREDENTIALS], 120);
}

static void rows_are_told_apart(void **state)
{
    struct world *w = *state;
    raise_about(w, HEALTH_PERMISSION, "list pods", "no");
    raise_about(w, HEALTH_PERMISSION, "list leases", "neither");
    raise_about(w, HEALTH_EXPIRY, "list pods", "soon");
    assert_int_equal(health_count(&w->health, HEALTH_PERMISSION), 2);
    health_clear(&w->health, HEALTH_PERMISSION, "list pods");
    assert_string_equal(health_message(&w->health, HEALTH_PERMISSION), "neither");
    assert_int_equal(health_count(&w->health, HEALTH_EXPIRY), 1);
    raise_about(w, HEALTH_PERMISSION, "list pods", "no");
    health_clear(&w->health, HEALTH_PERMISSION, NULL);
    assert_int_equal(health_count(&w->health, HEALTH_PERMISSION), 0);
    assert_int_equal(health_count(&w->health, HEALTH_EXPIRY), 1);
}

static void there_are_so_many_rows(void **state)
{
    struct world *w = *state;
    char subject[16];
    for (unsigned i = 0; i < HEALTH_ROWS_MAX + 3; i++) {
        (void)snprintf(subject, sizeof subject, "row %u", i);
        raise_about(w, HEALTH_PERMISSION, subject, "no");
    }
    assert_int_equal(health_count(&w->health, HEALTH_PERMISSION), HEALTH_ROWS_MAX);
    /* Of another cause there is room all the same. */
    raise_about(w, HEALTH_CREDENTIALS, "the token", "401");
    assert_non_null(health_message(&w->health, HEALTH_CREDENTIALS));
    health_clear(&w->health, HEALTH_PERMISSION, "row 7");
    raise_about(w, HEALTH_PERMISSION, "list pods", "no");
    assert_int_equal(health_count(&w->health, HEALTH_PERMISSION), HEALTH_ROWS_MAX);
}

/* A missing ClusterRole is met in each of hundreds of namespaces, again and again. */
static void further_ones_are_no_flood(void **state)
{
    struct world *w = *state;
    char subject[32];
    log_init("test", LOG_TEXT, LOG_ERROR); /* whose own bound is not met so, nor by this message */
    for (unsigned i = 0; i < HEALTH_ROWS_MAX; i++) {
        (void)snprintf(subject, sizeof subject, "row %u", i);
        raise_about(w, HEALTH_UNREACHABLE, subject, "no");
    }
    log_init("test", LOG_TEXT, LOG_INFO);
    log_capture_begin(&w->log);
    for (unsigned i = 0; i < 500; i++) {
        (void)snprintf(subject, sizeof subject, "further %u", i % 50);
        raise_about(w, HEALTH_UNREACHABLE, subject, "no");
        fake_clock_jump(&w->clock, 1000);
    }
    assert_int_equal(lines(log_capture_end(&w->log)), 1);
    fake_clock_jump(&w->clock, REPEAT_MS);
    log_capture_begin(&w->log);
    raise_about(w, HEALTH_UNREACHABLE, "one more", "no");
    assert_int_equal(lines(log_capture_end(&w->log)), 1);
}

/* By a manager that leads no more: only who asks again learns that it is mended. */
static void what_nobody_asks_for_any_more_ends(void **state)
{
    struct world *w = *state;
    raise_about(w, HEALTH_PERMISSION, "create configmaps in namespace a", "no");
    raise_about(w, HEALTH_CREDENTIALS, "the token", "401");
    fake_clock_jump(&w->clock, HEALTH_ASKED_MS - 1);
    assert_int_equal(health_count(&w->health, HEALTH_PERMISSION), 1);
    fake_clock_jump(&w->clock, 1);
    cJSON *root = cJSON_CreateObject();
    health_describe(&w->health, root);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "problems")), 1);
    cJSON_Delete(root);
    assert_int_equal(health_count(&w->health, HEALTH_PERMISSION), 0);
    assert_null(health_message(&w->health, HEALTH_PERMISSION));
    assert_int_equal(health_count(&w->health, HEALTH_CREDENTIALS), 1);
    raise_about(w, HEALTH_PERMISSION, "create configmaps in namespace a", "no");
    assert_int_equal(health_count(&w->health, HEALTH_PERMISSION), 1);
    assert_int_equal(w->health.raised[HEALTH_PERMISSION], 2);
}

static void status_has_what_lasts(void **state)
{
    struct world *w = *state;
    cJSON *root = cJSON_CreateObject();
    raise_about(w, HEALTH_LENGTH, "configmaps", "414");
    raise_about(w, HEALTH_LENGTH, "configmaps", "414");
    raise_about(w, HEALTH_EXPIRY, "the certificate", "soon");
    health_clear(&w->health, HEALTH_EXPIRY, "the certificate");
    health_describe(&w->health, root);
    const cJSON *array = cJSON_GetObjectItem(root, "problems");
    const cJSON *row = cJSON_GetArrayItem(array, 0);
    assert_int_equal(cJSON_GetArraySize(array), 1);
    assert_string_equal(field_text(row, "cause"), "length");
    assert_string_equal(field_text(row, "subject"), "configmaps");
    assert_string_equal(field_text(row, "message"), "414");
    assert_string_equal(field_text(row, "remedy"), "mend it");
    assert_non_null(strchr(field_text(row, "since"), 'Z'));
    assert_int_equal(cJSON_GetObjectItem(row, "count")->valueint, 2);
    cJSON_Delete(root);
}

static void metrics_have_every_cause(void **state)
{
    struct world *w = *state;
    struct buf out = BUF_INIT(4096);
    raise_about(w, HEALTH_PERMISSION, "list pods", "no");
    raise_about(w, HEALTH_PERMISSION, "list leases", "no");
    health_clear(&w->health, HEALTH_PERMISSION, "list pods");
    assert_int_equal(health_write_metrics(&w->health, "cmesh_x", &out), 0);
    const char *text = buf_cstr(&out);
    assert_non_null(text);
    assert_non_null(strstr(text, "cmesh_x_problems{cause=\"permission\"} 1\n"));
    assert_non_null(strstr(text, "cmesh_x_problems_total{cause=\"permission\"} 2\n"));
    assert_non_null(strstr(text, "cmesh_x_problems{cause=\"credentials\"} 0\n"));
    assert_non_null(strstr(text, "cmesh_x_problems_total{cause=\"unreachable\"} 0\n"));
    buf_reset(&out);
}

/* True: all went well. */
static bool raise_and_clear(void *data)
{
    struct world w = {0};
    (void)data;
    fake_clock_init(&w.clock, NULL);
    health_init(&w.health, &w.clock.clock);
    raise_about(&w, HEALTH_CREDENTIALS, "the token", "401");
    unsigned count = health_count(&w.health, HEALTH_CREDENTIALS);
    health_clear(&w.health, HEALTH_CREDENTIALS, NULL);
    assert_int_equal(w.health.raised[HEALTH_CREDENTIALS], 1);
    health_deinit(&w.health);
    return count == 1;
}

static void without_memory_it_is_logged_all_the_same(void **state)
{
    struct world *w = *state;
    log_capture_begin(&w->log);
    long failed = sweep_allocations(raise_and_clear, NULL);
    const char *text = log_capture_end(&w->log);
    assert_int_equal(failed, 1);
    assert_int_equal(lines(text), 3); /* a warning with each, and the end of the second */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_line_names_cause_and_remedy),
        TEST(it_is_said_again_with_other_words_or_after_long),
        TEST(what_comes_and_goes_is_logged_once_a_minute),
        TEST(rows_are_told_apart),
        TEST(there_are_so_many_rows),
        TEST(further_ones_are_no_flood),
        TEST(what_nobody_asks_for_any_more_ends),
        TEST(status_has_what_lasts),
        TEST(metrics_have_every_cause),
        TEST(without_memory_it_is_logged_all_the_same),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
