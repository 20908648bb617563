/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/zone_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/file.h"
#include "temp_dir.h"
#include "zone_text.h"

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"
#define SUMMER_2026 INT64_C(1774746000) /* 29 March 2026, 01:00 UTC */
#define WINTER_2026 INT64_C(1792890000) /* 25 October 2026, 01:00 UTC */
#define SUMMER_2027 INT64_C(1806195600) /* 28 March 2027, 01:00 UTC */

static const int32_t cet[] = {3600, 7200};

static int parse(const struct buf *text, int64_t now, struct zone_rule *out, struct err *e)
{
    /* A copy of exactly that size, so that the sanitizer sees what reads over its end. */
    char *copy = malloc(text->len == 0 ? 1 : text->len);
    assert_non_null(copy);
    if (text->len > 0) {
        memcpy(copy, buf_data(text), text->len);
    }
    int rc = zone_file_parse(copy, text->len, now, out, e);
    free(copy);
    return rc;
}

static void test_rule_of_the_footer(void **state)
{
    (void)state;
    static const struct zone_change changes[] = {{SUMMER_2026, 1}, {WINTER_2026, 0}};
    struct buf text = BUF_INIT(65536);
    struct zone_rule rule;
    struct err e = ERR_INIT;
    zone_text(&text, changes, ARRAY_LEN(changes), cet, ARRAY_LEN(cet), BERLIN);
    assert_int_equal(parse(&text, 0, &rule, &e), 0);
    assert_string_equal(rule.text, BERLIN);
    assert_int_equal(rule.differs, 0);
    buf_reset(&text);
}

/* Clocks that are changed once more than the rule says, as those of Morocco. */
static void test_changes_to_come_that_no_rule_has(void **state)
{
    (void)state;
    static const struct zone_change changes[] = {{1000, 0}, {2000, 1}, {3000, 0}};
    static const int32_t offsets[] = {3600, 0};
    static const struct {
        int64_t now;
        int64_t differs;
    } times[] = {{0, 2000}, {1500, 2000}, {2000, 2000}, {2500, 2500}, {3000, 0}, {9000, 0}};
    struct buf text = BUF_INIT(65536);
    zone_text(&text, changes, ARRAY_LEN(changes), offsets, ARRAY_LEN(offsets), "<+01>-1");
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        struct zone_rule rule;
        struct err e = ERR_INIT;
        assert_int_equal(parse(&text, times[i].now, &rule, &e), 0);
        assert_int_equal(rule.differs, times[i].differs);
    }
    buf_reset(&text);
}

/* And those that are left as they are where the rule changes them. */
static void test_changes_that_do_not_come(void **state)
{
    (void)state;
    static const struct zone_change changes[] = {{WINTER_2026, 0}, {SUMMER_2027 + 1000, 1}};
    struct buf text = BUF_INIT(65536);
    struct zone_rule rule;
    struct err e = ERR_INIT;
    zone_text(&text, changes, ARRAY_LEN(changes), cet, ARRAY_LEN(cet), BERLIN);
    assert_int_equal(parse(&text, WINTER_2026, &rule, &e), 0);
    assert_int_equal(rule.differs, SUMMER_2027 + 999);
    buf_reset(&text);
}

static void expect_damage(const struct buf *text, const char *why)
{
    struct zone_rule rule;
    struct err e = ERR_INIT;
    assert_int_equal(parse(text, 0, &rule, &e), -EINVAL);
    if (strstr(e.msg, why) == NULL) {
        fail_msg("not %s: %s", why, e.msg);
    }
}

static void test_damaged_files(void **state)
{
    (void)state;
    static const struct zone_change good[] = {{1000, 0}};
    static const struct zone_change no_type[] = {{1000, 2}};
    static const struct zone_change unordered[] = {{1000, 0}, {1000, 1}};
    static const struct zone_change late[] = {{INT64_MAX, 0}};
    static const int32_t far[] = {3600, 27 * 3600};
    char long_rule[300];
    memset(long_rule, 'A', sizeof long_rule - 1);
    long_rule[sizeof long_rule - 1] = '\0';
    const struct {
        const struct zone_change *changes;
        size_t count;
        const int32_t *offsets;
        size_t types;
        const char *rule;
        const char *why;
    } files[] = {
        {no_type, 1, cet, 2, BERLIN, "a type is missing"},
        {unordered, 2, cet, 2, BERLIN, "not in order"},
        {late, 1, cet, 2, BERLIN, "a time is out of range"},
        {good, 1, far, 2, BERLIN, "an offset is out of range"},
        {good, 1, cet, 0, BERLIN, "types is out of range"},
        {good, 1, cet, 2, "", "has no rule"},
        {good, 1, cet, 2, "Berlin", "damaged"},
        {good, 1, cet, 2, long_rule, "last line is no rule"},
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct buf text = BUF_INIT(65536);
        zone_text(&text, files[i].changes, files[i].count, files[i].offsets, files[i].types,
                  files[i].rule);
        expect_damage(&text, files[i].why);
        buf_reset(&text);
    }
}

static void test_every_file_that_is_cut_short(void **state)
{
    (void)state;
    static const struct zone_change changes[] = {{SUMMER_2026, 1}, {WINTER_2026, 0}};
    struct buf text = BUF_INIT(65536);
    zone_text(&text, changes, ARRAY_LEN(changes), cet, ARRAY_LEN(cet), BERLIN);
    while (text.len > 0) {
        buf_truncate(&text, text.len - 1);
        expect_damage(&text, "");
    }
    buf_reset(&text);
}

/* Counts that are far more than the file has, and more than 32 bits together. */
static void test_hostile_counts(void **state)
{
    (void)state;
    for (size_t at = 20; at < 44; at += 4) {
        struct buf text = BUF_INIT(65536);
        zone_text(&text, NULL, 0, cet, ARRAY_LEN(cet), BERLIN);
        memset(buf_data(&text) + at, 0xff, 4);
        expect_damage(&text, "ends too early");
        memset(buf_data(&text) + at, 0, 4);
        memset(buf_data(&text) + 44 + at, 0xff, 4);
        expect_damage(&text, "damaged");
        buf_reset(&text);
    }
}

static void test_what_is_no_zone_file(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(65536);
    expect_damage(&text, "is no time zone");
    assert_int_equal(buf_append_str(&text, "# tzdb timezone descriptions, of more than 44 bytes\n"),
                     0);
    expect_damage(&text, "is no time zone");
    buf_clear(&text);
    zone_header(&text, '\0', 0, 0);
    expect_damage(&text, "version 1");
    buf_reset(&text);
}

/* ---- names ---- */

static void write_zone(const char *folder, const char *name)
{
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char path[512];
    zone_text(&text, NULL, 0, cet, ARRAY_LEN(cet), BERLIN);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write_atomic(path, buf_data(&text), text.len, 0644, &e), 0);
    buf_reset(&text);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        "/",         "/Berlin",   "Berlin/",  "Europe//Berlin",   "../zones/Berlin",
        "..",      "Ber.lin",   "Ber lin",   "Berlin\n", "Europe/../Berlin", "B\xc3\xa9rlin",
        "~Berlin", "Berlin%00", "C:\\Berlin"};
    struct temp_dir dir;
    char inner[256];
    struct zone_rule rule;
    temp_dir_init(&dir);
    const char *folder = dir.path;
    (void)temp_dir_path(&dir, "Europe", inner);
    assert_int_equal(mkdir(inner, 0755), 0);
    write_zone(folder, "Europe/Berlin");
    write_zone(folder, "Etc_GMT+1-x");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        if (zone_file_rule(folder, bad[i], 0, &rule, &e) != -EINVAL ||
            strstr(e.msg, "such as \"Europe/Berlin\"") == NULL) {
            fail_msg("\"%s\": %s", bad[i], e.msg);
        }
    }
    struct err e = ERR_INIT;
    assert_int_equal(zone_file_rule(folder, "Europe/Berlin", 0, &rule, &e), 0);
    assert_string_equal(rule.text, BERLIN);
    assert_int_equal(zone_file_rule(folder, "Etc_GMT+1-x", 0, &rule, &e), 0);
    temp_dir_deinit(&dir);
}

static void test_what_is_not_there(void **state)
{
    (void)state;
    struct temp_dir dir;
    char inner[256];
    struct zone_rule rule;
    struct err e = ERR_INIT;
    temp_dir_init(&dir);
    const char *folder = dir.path;
    (void)temp_dir_path(&dir, "Europe", inner);
    assert_int_equal(mkdir(inner, 0755), 0);
    assert_int_equal(zone_file_rule(folder, "Europe/Atlantis", 0, &rule, &e), -ENOENT);
    assert_non_null(strstr(e.msg, "write a name such as \"Europe/Berlin\""));
    assert_int_equal(zone_file_rule(folder, "Europe", 0, &rule, &e), -ENOENT); /* a folder */
    assert_int_equal(zone_file_rule(inner, "Berlin/Mitte", 0, &rule, &e), -ENOENT);
    assert_int_equal(zone_file_rule("/nonexistent", "Europe/Berlin", 0, &rule, &e), -ENOENT);
    assert_non_null(strstr(e.msg, "package tzdata"));
    assert_int_equal(zone_file_rule("/nonexistent", "UTC", 0, &rule, &e), 0);
    assert_string_equal(rule.text, "UTC0");
    temp_dir_deinit(&dir);
}

/* Debian's own, where it is installed. */
static void test_the_real_database(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *rule;
    } zones[] = {{"Europe/Berlin", BERLIN},
                 {"America/New_York", "EST5EDT,M3.2.0,M11.1.0"},
                 {"Asia/Kolkata", "IST-5:30"},
                 {"Etc/UTC", "UTC0"},
                 {"Etc/GMT+1", "<-01>1"}};
    struct stat st;
    if (stat(ZONE_FILE_FOLDER "/Europe/Berlin", &st) != 0) {
        skip();
    }
    for (size_t i = 0; i < ARRAY_LEN(zones); i++) {
        struct zone_rule rule;
        struct err e = ERR_INIT;
        if (zone_file_rule(NULL, zones[i].name, SUMMER_2026, &rule, &e) != 0) {
            fail_msg("%s: %s", zones[i].name, e.msg);
        }
        assert_string_equal(rule.text, zones[i].rule);
        assert_int_equal(rule.differs, 0);
    }
    struct zone_rule rule;
    struct err e = ERR_INIT;
    assert_int_equal(zone_file_rule(NULL, "Africa/Casablanca", SUMMER_2026, &rule, &e), 0);
    assert_int_not_equal(rule.differs, 0);
    assert_int_equal(zone_file_rule(NULL, "tzdata.zi", 0, &rule, &e), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_of_the_footer),
        cmocka_unit_test(test_changes_to_come_that_no_rule_has),
        cmocka_unit_test(test_changes_that_do_not_come),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_every_file_that_is_cut_short),
        cmocka_unit_test(test_hostile_counts),
        cmocka_unit_test(test_what_is_no_zone_file),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_is_not_there),
        cmocka_unit_test(test_the_real_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
