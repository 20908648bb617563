/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "log_capture.h"
#include "json/json.h"

static cJSON *parse_line(const char *line)
{
    struct err e = ERR_INIT;
    size_t len = strlen(line);
    assert_true(len > 0 && len <= LOG_LINE_MAX && line[len - 1] == '\n');
    assert_ptr_equal(strchr(line, '\n'), line + len - 1);
    cJSON *root = json_parse(line, len, &e);
    if (root == NULL) {
        fail_msg("%s: %s", e.msg, line);
    }
    return root;
}

static const char *string_of(const cJSON *root, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    assert_true(cJSON_IsString(item));
    return item->valuestring;
}

static void text_lines_show_fields(void **state)
{
    (void)state;
    struct log_capture c;
    log_init("prog", LOG_TEXT, LOG_INFO);
    log_capture_begin(&c);
    log_info("it happened", log_str("plain", "a/b"), log_str("spaced", "a b"), log_str("empty", ""),
             log_str("none", NULL), log_num("n", INT64_MIN));
    const char *line = log_capture_end(&c);
    /* 2024-01-02T03:04:05.678Z */
    assert_true(strlen(line) > 25 && line[10] == 'T' && line[23] == 'Z');
    assert_string_equal(line + 24, " INFO prog: it happened plain=a/b spaced=\"a b\" empty=\"\" "
                                   "none=\"\" n=-9223372036854775808\n");
}

static void values_cannot_forge_lines_or_fields(void **state)
{
    (void)state;
    struct log_capture c;
    log_init("prog", LOG_TEXT, LOG_INFO);
    log_capture_begin(&c);
    log_warn("m", log_str("a", "x\n2024 ERROR prog: forged"), log_str("b", "y\" c=\"z"),
             log_str("d", "\x1b[31m\r\x7f\xc2\x9b"), log_str("e", "k=v"),
             log_str("f", "\xc3\xa4\xff"));
    const char *line = log_capture_end(&c);
    assert_string_equal(line + 24,
                        " WARN prog: m a=\"x\\n2024 ERROR prog: forged\" b=\"y\\\" c=\\\"z\" "
                        "d=\"\\u001b[31m\\u000d\\u007f\\u009b\" e=\"k=v\" f=\"\xc3\xa4\\ufffd\"\n");
}

static void json_lines_are_json(void **state)
{
    (void)state;
    struct log_capture c;
    log_init("prog", LOG_JSON, LOG_DEBUG);
    log_capture_begin(&c);
    log_debug("it \"happened\"", log_str("a", "q\"\\\n\t\x01\x7f\xff\xc3\xa4"),
              log_strn("b", "cut here", 3), log_num("n", -5));
    cJSON *root = parse_line(log_capture_end(&c));
    assert_string_equal(string_of(root, "level"), "debug");
    assert_string_equal(string_of(root, "component"), "prog");
    assert_string_equal(string_of(root, "msg"), "it \"happened\"");
    assert_string_equal(string_of(root, "a"), "q\"\\\n\t\x01\x7f\xef\xbf\xbd\xc3\xa4");
    assert_string_equal(string_of(root, "b"), "cut");
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(root, "n")->valueint, -5);
    assert_int_equal(strlen(string_of(root, "time")), 24);
    cJSON_Delete(root);
}

static void long_lines_are_cut_and_say_so(void **state)
{
    (void)state;
    struct log_capture c;
    char *big = malloc(3 * LOG_LINE_MAX + 1);
    assert_non_null(big);
    for (int fill = 0; fill < 3; fill++) {
        static const char *const fills[] = {"x", "\x01", "\xe2\x82\xac"};
        big[0] = '\0';
        for (size_t i = 0; i < 3 * LOG_LINE_MAX / strlen(fills[fill]); i++) {
            memcpy(big + i * strlen(fills[fill]), fills[fill], strlen(fills[fill]) + 1);
        }
        log_init("prog", LOG_JSON, LOG_DEBUG);
        log_capture_begin(&c);
        log_debug("m", log_str("kept", "k"), log_str("big", big), log_str("after", "a"));
        cJSON *root = parse_line(log_capture_end(&c));
        assert_string_equal(string_of(root, "kept"), "k");
        assert_null(cJSON_GetObjectItemCaseSensitive(root, "big"));
        assert_non_null(cJSON_GetObjectItemCaseSensitive(root, "cut"));
        cJSON_Delete(root);

        log_capture_begin(&c);
        log_debug(big, log_str("a", "b"));
        cJSON_Delete(parse_line(log_capture_end(&c)));

        log_init("prog", LOG_TEXT, LOG_DEBUG);
        log_capture_begin(&c);
        log_debug("m", log_str("big", big));
        const char *line = log_capture_end(&c);
        assert_true(strlen(line) <= LOG_LINE_MAX && strlen(line) > LOG_LINE_MAX - 32);
        assert_string_equal(strstr(line, " [cut]"), " [cut]\n");
    }
    free(big);
}

/* Each length around the bound: never over it, always JSON. */
static void lines_near_the_bound_stay_json(void **state)
{
    (void)state;
    char text[LOG_LINE_MAX];
    struct log_capture c;
    log_init("prog", LOG_JSON, LOG_DEBUG);
    memset(text, 'x', sizeof text);
    for (size_t len = LOG_LINE_MAX - 160; len < LOG_LINE_MAX; len++) {
        log_capture_begin(&c);
        log_debug("m", log_strn("a", text, len), log_num("n", 123456));
        cJSON_Delete(parse_line(log_capture_end(&c)));
    }
}

static void levels_are_obeyed(void **state)
{
    (void)state;
    struct log_capture c;
    log_init("prog", LOG_TEXT, LOG_WARN);
    assert_true(log_enabled(LOG_ERROR) && log_enabled(LOG_WARN));
    assert_false(log_enabled(LOG_INFO) || log_enabled(LOG_DEBUG));
    log_capture_begin(&c);
    log_debug("d");
    log_info("i");
    log_warn("w");
    log_error("e");
    const char *text = log_capture_end(&c);
    assert_non_null(strstr(text, " WARN prog: w\n"));
    assert_non_null(strstr(text, " ERROR prog: e\n"));
    assert_null(strstr(text, "INFO"));
    assert_null(strstr(text, "DEBUG"));
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) {
        n++;
    }
    return n;
}

/* The first lines may fall into two seconds of the clock. */
static void a_flood_of_one_message_is_thinned(void **state)
{
    (void)state;
    struct log_capture c;
    log_init("prog", LOG_TEXT, LOG_INFO);
    log_capture_begin(&c);
    for (int i = 0; i < 40; i++) {
        log_info("flood", log_num("i", i));
    }
    (void)usleep(1100 * 1000);
    log_info("flood", log_str("the", "last"));
    const char *text = log_capture_end(&c);
    size_t floods = count(text, " flood");
    assert_true(floods >= LOG_BURST + 1 && floods <= 2 * LOG_BURST + 1);
    assert_non_null(strstr(text, "left_out="));
    assert_non_null(strstr(text, "the=last"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines_show_fields),
        cmocka_unit_test(values_cannot_forge_lines_or_fields),
        cmocka_unit_test(json_lines_are_json),
        cmocka_unit_test(long_lines_are_cut_and_say_so),
        cmocka_unit_test(lines_near_the_bound_stay_json),
        cmocka_unit_test(levels_are_obeyed),
        cmocka_unit_test(a_flood_of_one_message_is_thinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
