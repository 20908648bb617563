/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/flags.h"
#include "base/log.h"

/* A program with a flag of each type, and what was read. */
struct fixture {
    struct flags_common common;
    const char *path;
    bool on;
    uint64_t port;
    int mode;
    struct flag_list list;
    const char *with_on;
    uint64_t without_on;
    int rest;
    struct err e;
};

static const char *const modes[] = {"block", "passthrough", NULL};

static const struct flag table[] = {
    {.name = "a-path",
     .letter = 'p',
     .value = "PATH",
     FLAG_STRING_AT(struct fixture, path),
     .help = "Where it is."},
    {.name = "on", FLAG_BOOL_AT(struct fixture, on), .help = "Whether it is on."},
    {.name = "port",
     .value = "N",
     .min = 1,
     .max = 65535,
     FLAG_UINT_AT(struct fixture, port),
     .help = "The port."},
    {.name = "mode",
     .value = "MODE",
     .choices = modes,
     FLAG_CHOICE_AT(struct fixture, mode),
     .help = "What it does; see --on."},
    {.name = "list",
     .letter = 'l',
     .value = "ITEM",
     FLAG_LIST_AT(struct fixture, list),
     .help = "What there is."},
    {.name = "with-on",
     .value = "TEXT",
     FLAG_STRING_AT(struct fixture, with_on),
     .needs = "on",
     .help = "What is on."},
    {.name = "without-on",
     .value = "N",
     .max = 9,
     FLAG_UINT_AT(struct fixture, without_on),
     .excludes = "on",
     .help = "What is off."},
    FLAGS_COMMON(struct fixture, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "prog",
    .summary = "tests flags",
    .usage = "[FLAGS] FILE\n--on [FLAGS]",
    .description = "The first paragraph, with `prog run` in it and a\\backslash.\n.second",
    .examples = "    prog --on FILE\n.hidden\n",
    .exit_codes = "With --on: 3.",
    .see_also = "other(1)",
    .flags = table,
    .takes_arguments = true,
};

static void init(struct fixture *f)
{
    *f = (struct fixture){
        .common = FLAGS_COMMON_DEFAULTS,
        .path = "/default",
        .port = 80,
        .list = {.items = {"default"}, .count = 1},
    };
}

enum { ARGS_MAX = 100 };

/* Parses a NULL-terminated list of arguments. */
static enum flags_result parse(struct fixture *f, const char **argv, ...)
{
    int argc = 0;
    const char *arg = "prog";
    va_list ap;
    va_start(ap, argv);
    while (arg != NULL && argc < ARGS_MAX) {
        argv[argc++] = arg;
        arg = va_arg(ap, const char *);
    }
    va_end(ap);
    argv[argc] = NULL;
    f->e = (struct err)ERR_INIT;
    return flags_parse(&command, f, argc, (char **)argv, &f->rest, &f->e);
}

#define PARSE(f, ...) parse(f, argv, ##__VA_ARGS__, NULL)

static void unset_environment(void)
{
    static const char *const names[] = {"CMESH_A_PATH",  "CMESH_ON",        "CMESH_PORT",
                                        "CMESH_MODE",    "CMESH_LIST",      "CMESH_LOG_LEVEL",
                                        "CMESH_WITH_ON", "CMESH_WITHOUT_ON"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)unsetenv(names[i]);
    }
}

static int clean_up(void **state)
{
    (void)state;
    unset_environment();
    return 0;
}

static void defaults_stay(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    assert_int_equal(PARSE(&f), FLAGS_OK);
    assert_int_equal(f.rest, 1);
    assert_string_equal(f.path, "/default");
    assert_int_equal(f.port, 80);
    assert_int_equal(f.list.count, 1);
}

static void takes_values_in_both_forms(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    assert_int_equal(PARSE(&f, "--a-path=/x=y", "--port", "443", "--on", "--mode=passthrough",
                           "--log-level", "debug", "--log-format=json"),
                     FLAGS_OK);
    assert_string_equal(f.path, "/x=y");
    assert_int_equal(f.port, 443);
    assert_true(f.on);
    assert_int_equal(f.mode, 1);
    assert_int_equal(f.common.log_level, LOG_DEBUG);
    assert_int_equal(f.common.log_format, LOG_JSON);

    init(&f);
    f.on = true;
    assert_int_equal(PARSE(&f, "-p", "-", "--on=false", "--port=1", "--port=2"), FLAGS_OK);
    assert_string_equal(f.path, "-");
    assert_false(f.on);
    assert_int_equal(f.port, 2);
    assert_int_equal(PARSE(&f, "-p/short", "--a-path="), FLAGS_OK);
    assert_string_equal(f.path, "");
}

static void lists_collect_and_replace_the_default(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    assert_int_equal(PARSE(&f, "--list=a", "-l", "b", "--list", "c,d"), FLAGS_OK);
    assert_int_equal(f.list.count, 3);
    assert_string_equal(f.list.items[0], "a");
    assert_string_equal(f.list.items[1], "b");
    assert_string_equal(f.list.items[2], "c,d");
}

static void lists_are_bounded(void **state)
{
    (void)state;
    char *argv[FLAG_LIST_MAX + 2] = {"prog"};
    struct fixture f;
    for (int i = 1; i < FLAG_LIST_MAX + 2; i++) {
        argv[i] = "--list=x";
    }
    init(&f);
    assert_int_equal(flags_parse(&command, &f, FLAG_LIST_MAX + 1, argv, &f.rest, &f.e), FLAGS_OK);
    assert_int_equal(f.list.count, FLAG_LIST_MAX);
    assert_int_equal(flags_parse(&command, &f, FLAG_LIST_MAX + 2, argv, &f.rest, &f.e),
                     FLAGS_WRONG);
    assert_non_null(strstr(f.e.msg, "--list"));
}

static void moves_positional_arguments_behind(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    assert_int_equal(PARSE(&f, "one", "--port=5", "-", "--on", "--", "--mode", "two"), FLAGS_OK);
    assert_int_equal(f.port, 5);
    assert_int_equal(f.mode, 0);
    assert_int_equal(8 - f.rest, 4);
    assert_string_equal(argv[f.rest], "one");
    assert_string_equal(argv[f.rest + 1], "-");
    assert_string_equal(argv[f.rest + 2], "--mode");
    assert_string_equal(argv[f.rest + 3], "two");
}

static void refuses_and_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *first;
        const char *second;
        const char *want[3];
    } rows[] = {
        {"--nope", NULL, {"--nope", "unknown"}},
        {"--nope=x", NULL, {"--nope", "unknown"}},
        {"--por=1", NULL, {"--por", "unknown"}},
        {"--portal=1", NULL, {"--portal", "unknown"}},
        {"-x", NULL, {"-x", "unknown"}},
        {"--port", NULL, {"--port", "needs a value", "N"}},
        {"-p", NULL, {"-p", "needs a value", "PATH"}},
        {"--port=0", NULL, {"--port", "\"0\"", "1 to 65535"}},
        {"--port=65536", NULL, {"--port", "\"65536\""}},
        {"--port=-1", NULL, {"--port", "\"-1\""}},
        {"--port", "+1", {"--port", "\"+1\""}},
        {"--port= 1", NULL, {"--port", "\" 1\""}},
        {"--port=1x", NULL, {"--port", "\"1x\""}},
        {"--port=0x1", NULL, {"--port", "\"0x1\""}},
        {"--port=", NULL, {"--port", "\"\""}},
        {"--port=18446744073709551617", NULL, {"--port", "18446744073709551617"}},
        {"--mode=Block", NULL, {"--mode", "\"Block\"", "block, passthrough"}},
        {"--mode=bloc", NULL, {"--mode", "\"bloc\""}},
        {"--on=yes", NULL, {"--on", "\"yes\"", "true or false"}},
        {"--log-level=trace", NULL, {"--log-level", "error, warn, info, debug"}},
        {"--help=1", NULL, {"--help takes no value"}},
        {"--version=", NULL, {"--version takes no value"}},
        {"--with-on=x", NULL, {"--with-on needs --on"}},
        {"--with-on=x", "--on=false", {"--with-on needs --on"}},
        {"--without-on=1", "--on", {"--without-on cannot be combined with --on"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *argv[ARGS_MAX + 1];
        struct fixture f;
        init(&f);
        assert_int_equal(PARSE(&f, rows[i].first, rows[i].second), FLAGS_WRONG);
        for (size_t k = 0; k < 3 && rows[i].want[k] != NULL; k++) {
            if (strstr(f.e.msg, rows[i].want[k]) == NULL) {
                fail_msg("%s: \"%s\" does not hold %s", rows[i].first, f.e.msg, rows[i].want[k]);
            }
        }
    }
}

static void reads_the_environment(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    (void)setenv("CMESH_A_PATH", "/env", 1);
    (void)setenv("CMESH_ON", "true", 1);
    (void)setenv("CMESH_PORT", "99", 1);
    (void)setenv("CMESH_LIST", "a,b,,c", 1);
    (void)setenv("CMESH_LOG_LEVEL", "", 1);
    assert_int_equal(PARSE(&f, "--port=1"), FLAGS_OK);
    assert_string_equal(f.path, "/env");
    assert_true(f.on);
    assert_int_equal(f.port, 1);
    assert_int_equal(f.list.count, 3);
    assert_string_equal(f.list.items[0], "a");
    assert_string_equal(f.list.items[2], "c");
    assert_int_equal(f.common.log_level, LOG_INFO);
}

static void the_command_line_wins(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    (void)setenv("CMESH_LIST", "a,b", 1);
    (void)setenv("CMESH_MODE", "passthrough", 1);
    assert_int_equal(PARSE(&f, "--list=c", "--mode=block"), FLAGS_OK);
    assert_int_equal(f.list.count, 1);
    assert_string_equal(f.list.items[0], "c");
    assert_int_equal(f.mode, 0);
}

static void flags_that_need_or_exclude_others(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    assert_int_equal(PARSE(&f, "--with-on=x", "--on"), FLAGS_OK);
    init(&f);
    assert_int_equal(PARSE(&f, "--with-on="), FLAGS_OK);
    init(&f);
    assert_int_equal(PARSE(&f, "--without-on=1"), FLAGS_OK);
    /* A variable may be meant for another program. */
    (void)setenv("CMESH_WITH_ON", "x", 1);
    assert_int_equal(PARSE(&f), FLAGS_OK);
    (void)setenv("CMESH_ON", "true", 1);
    (void)setenv("CMESH_WITHOUT_ON", "1", 1);
    assert_int_equal(PARSE(&f), FLAGS_OK);
}

static void refuses_arguments(void **state)
{
    (void)state;
    static const char *const commands[] = {"run", NULL};
    struct command c = command;
    c.takes_arguments = false;
    c.commands = commands;
    static const struct {
        const char *argument;
        const char *want;
    } rows[] = {
        {"", "unexpected argument \"\""},
        {"two words", "unexpected argument \"two words\""},
        {"help", "unexpected argument \"help\"; is --help meant?"},
        {"version", "unexpected argument \"version\"; is --version meant?"},
        {"run", "the command run must come first, its flags behind it: prog run"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *argv[] = {"prog", "--on", (char *)rows[i].argument, NULL};
        struct fixture f;
        init(&f);
        f.e = (struct err)ERR_INIT;
        assert_int_equal(flags_parse(&c, &f, 3, argv, &f.rest, &f.e), FLAGS_WRONG);
        assert_string_equal(f.e.msg, rows[i].want);
    }
}

static void names_a_wrong_variable(void **state)
{
    (void)state;
    const char *argv[ARGS_MAX + 1];
    struct fixture f;
    init(&f);
    (void)setenv("CMESH_PORT", "many", 1);
    assert_int_equal(PARSE(&f), FLAGS_WRONG);
    assert_non_null(strstr(f.e.msg, "CMESH_PORT"));
    assert_non_null(strstr(f.e.msg, "many"));
}

/* Runs flags_parse_or_exit in a child; its exit code, 77 when it returned. */
static int run(char **argv, int fd, char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct fixture f;
        init(&f);
        int argc = 0;
        while (argv[argc] != NULL) {
            argc++;
        }
        (void)dup2(ends[1], fd);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
        _exit(77);
    }
    (void)close(ends[1]);
    size_t len = 0;
    ssize_t n;
    while ((n = read(ends[0], text + len, size - 1 - len)) > 0) {
        len += (size_t)n;
    }
    text[len] = '\0';
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void prints_help_and_exits_0(void **state)
{
    (void)state;
    char text[16384];
    char *help[] = {"prog", "--port=wrong", "--help", NULL};
    assert_int_equal(run(help, STDOUT_FILENO, text, sizeof text), 0);
    static const char *const wants[] = {
        "prog - tests flags",          "prog [FLAGS] FILE", "-p, --a-path=PATH",   "Where it is.",
        "Default: /default.",          "--port=N",          "Default: 80.",        "--mode=MODE",
        "One of: block, passthrough.", "--log-level=LEVEL", "--version",           "CMESH_",
        "Only with --on.\n",           "Not with --on.\n",  "    With --on: 3.\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(wants); i++) {
        if (strstr(text, wants[i]) == NULL) {
            fail_msg("no \"%s\" in:\n%s", wants[i], text);
        }
    }
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_true(strlen(line) <= 100);
    }
    char *behind_dashes[] = {"prog", "--", "--help", NULL};
    assert_int_equal(run(behind_dashes, STDOUT_FILENO, text, sizeof text), 77);
    assert_string_equal(text, "");
}

/* In man(7): dashes can be copied, and no text is taken for a request. */
static void prints_the_manual_page(void **state)
{
    (void)state;
    char text[16384];
    char *man[] = {"prog", "--man", NULL};
    assert_int_equal(run(man, STDOUT_FILENO, text, sizeof text), 0);
    static const char *const wants[] = {
        ".TH \"PROG\" 1",
        ".SH NAME\nprog \\- tests flags\n",
        "\\fBprog\\fR [FLAGS] FILE\n.br\n\\fBprog\\fR \\-\\-on [FLAGS]\n",
        "with \\fBprog run\\fR in it and a\\ebackslash.\n.PP\n\\&.second\n",
        ".TP\n\\fB\\-p\\fR, \\fB\\-\\-a\\-path\\fR=\\fIPATH\\fR\n",
        ("What it does; see \\fB\\-\\-on\\fR.\nOne of: block, passthrough.\nDefault: block.\n"
         "Environment: \\fBCMESH_MODE\\fR.\n"),
        ".SH EXIT STATUS\n",
        "What is on.\nOnly with \\fB\\-\\-on\\fR.\nEnvironment:",
        "Wrong usage.\n.PP\nWith \\fB\\-\\-on\\fR: 3.\n.SH EXAMPLES",
        "    prog \\-\\-on FILE\n\\&.hidden\n",
        ".SH SEE ALSO\nother(1)\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(wants); i++) {
        if (strstr(text, wants[i]) == NULL) {
            fail_msg("no \"%s\" in:\n%s", wants[i], text);
        }
    }
}

static void checks_one_argument(void **state)
{
    (void)state;
    static const struct {
        const char *argument;
        const char *why; /* NULL: it is taken */
    } rows[] = {
        {"--a-path=x", NULL},
        {"--a-path=", NULL},
        {"--on", NULL},
        {"--on=false", NULL},
        {"--port=1", NULL},
        {"--mode=block", NULL},
        {"--list=a", NULL},
        {"a-path=x", "\"a-path=x\" must be --FLAG=VALUE"},
        {"-p", "must be --FLAG=VALUE"},
        {"--", "must be --FLAG=VALUE"},
        {"", "must be --FLAG=VALUE"},
        {"--a-pat=x", "unknown flag --a-pat; is --a-path meant?"},
        {"--=x", "unknown flag --"},
        {"--help", "unknown flag --help"},
        {"--a-path", "--a-path needs a value: --a-path=PATH"},
        {"--on=maybe", "--on: \"maybe\" is not true or false"},
        {"--port=0", "--port: \"0\" is not a whole number from 1 to 65535"},
        {"--mode=x", "--mode: \"x\" is not one of: block, passthrough"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        int rc = flags_check_argument(table, rows[i].argument, &e);
        if ((rc == 0) != (rows[i].why == NULL) ||
            (rows[i].why != NULL && strstr(e.msg, rows[i].why) == NULL)) {
            fail_msg("%s: %s", rows[i].argument, e.msg);
        }
    }
}

static void prints_the_version_and_exits_0(void **state)
{
    (void)state;
    char text[1024];
    char *argv[] = {"prog", "--version", NULL};
    assert_int_equal(run(argv, STDOUT_FILENO, text, sizeof text), 0);
    assert_string_equal(text, "prog " CMESH_VERSION "\n");
}

/* An unknown flag is followed by the one that is meant, if one is likely. */
static void names_the_flag_that_is_meant(void **state)
{
    static const struct {
        char *argument;
        const char *message;
    } rows[] = {
        {"--a-pth=x", "unknown flag --a-pth; is --a-path meant?"},
        {"--pathh", "unknown flag --pathh"},
        {"--prot=1", "unknown flag --prot; is --port meant?"},
        {"-port=1", "unknown flag -port; is --port meant?"},
        {"-a-path", "unknown flag -a-path; is --a-path meant?"},
        {"-list=x", "unknown flag -list; is --list meant?"},
        {"-zzz", "unknown flag -z"},
        {"--nope", "unknown flag --nope"},
        {"--x", "unknown flag --x"},
        {"--help=x", "--help takes no value"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[1024];
        char wanted[256];
        char *argv[] = {"prog", rows[i].argument, NULL};
        (void)snprintf(wanted, sizeof wanted, "prog: %s\n", rows[i].message);
        assert_int_equal(run(argv, STDERR_FILENO, text, sizeof text), 2);
        if (strstr(text, wanted) == NULL) {
            fail_msg("%s: %s", rows[i].argument, text);
        }
    }
}

static void wrong_usage_exits_2(void **state)
{
    (void)state;
    char text[1024];
    char *argv[] = {"prog", "--nope", NULL};
    assert_int_equal(run(argv, STDERR_FILENO, text, sizeof text), 2);
    assert_non_null(strstr(text, "prog: unknown flag --nope\n"));
    assert_non_null(strstr(text, "--help"));
    char *out[] = {"prog", "--nope", NULL};
    assert_int_equal(run(out, STDOUT_FILENO, text, sizeof text), 2);
    assert_string_equal(text, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, clean_up, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_stay),
        TEST(takes_values_in_both_forms),
        TEST(lists_collect_and_replace_the_default),
        TEST(lists_are_bounded),
        TEST(moves_positional_arguments_behind),
        TEST(refuses_and_says_why),
        TEST(reads_the_environment),
        TEST(the_command_line_wins),
        TEST(flags_that_need_or_exclude_others),
        TEST(refuses_arguments),
        TEST(names_a_wrong_variable),
        TEST(checks_one_argument),
        TEST(prints_help_and_exits_0),
        TEST(prints_the_manual_page),
        TEST(prints_the_version_and_exits_0),
        TEST(names_the_flag_that_is_meant),
        TEST(wrong_usage_exits_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
