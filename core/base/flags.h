/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.h - command lines: one table gives parsing, `CMESH_…` variables, `--help` and the manual
 * page.
 *
 * Long flags take `--flag=value` and `--flag value`; `--` ends them. Each flag is also read from
 * the environment as CMESH_<FLAG> (upper case, dashes as underscores; an empty variable counts as
 * none); the command line wins. A CMESH_ variable that no program knows is warned of. `--man` (for
 * the build, not in --help) prints the manual page. Exit codes of every program: 0 done, 1 failed,
 * 2 wrong usage.
 *
 * A table is constant: each flag names the member that it sets by its offset in the struct that
 * holds what was read, and FLAG_STRING_AT and so on check that the member has the right type.
 */
#ifndef CORE_BASE_FLAGS_H
#define CORE_BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum flag_type {
    FLAG_STRING, /* const char * (points into argv or the environment) */
    FLAG_BOOL,   /* bool; `--flag` alone means true, `--flag=false` is taken too */
    FLAG_UINT,   /* uint64_t, within [min, max] */
    FLAG_CHOICE, /* int, the index in `choices` */
    FLAG_LIST,   /* struct flag_list; may be repeated; in the environment: comma separated */
};

#define FLAG_LIST_MAX 64

struct flag_list {
    const char *items[FLAG_LIST_MAX];
    size_t count;
};

struct flag {
    const char *name;  /* without the dashes */
    const char *value; /* name of the value in the help, as PATH; NULL for booleans */
    const char *help;  /* one or more sentences; wrapped by the printer */
    enum flag_type type;
    char letter;   /* short form, or 0 */
    size_t offset; /* of the member that it sets, which holds the default before parsing */
    uint64_t min;  /* FLAG_UINT only */
    uint64_t max;
    const char *const *choices; /* FLAG_CHOICE only: NULL-terminated */
    const char *default_text;   /* overrides how the default is shown; "" hides it */
    /* Other flags, boolean or text without a default: on the command line this one is refused
     * without `needs` and with `excludes`, where it would do nothing. Given as false or empty it is
     * not, for then nothing is asked; nor is a variable, which may be meant for another program. */
    const char *needs;
    const char *excludes;
};

/* The flag's type and offset: FLAG_STRING_AT(struct x_flags, path). Does not compile when the
 * member has another type. */
#define FLAG_AT(flag_type, c_type, owner, member)                                                  \
    .type = (flag_type),                                                                           \
    .offset = offsetof(owner, member) + 0 * sizeof(_Generic(((owner *)NULL)->member, c_type : 1))
#define FLAG_STRING_AT(owner, member) FLAG_AT(FLAG_STRING, const char *, owner, member)
#define FLAG_BOOL_AT(owner, member) FLAG_AT(FLAG_BOOL, bool, owner, member)
#define FLAG_UINT_AT(owner, member) FLAG_AT(FLAG_UINT, uint64_t, owner, member)
#define FLAG_CHOICE_AT(owner, member) FLAG_AT(FLAG_CHOICE, int, owner, member)
#define FLAG_LIST_AT(owner, member) FLAG_AT(FLAG_LIST, struct flag_list, owner, member)

/* A program, or one command of a program that has several. */
struct command {
    const char *program;
    const char *name;            /* as in `manager compile`; NULL: the program itself */
    const char *summary;         /* one line, for the head of --help */
    const char *usage;           /* one line a form, without program and name, separated by \n */
    const char *const *commands; /* of the program, ends with NULL; NULL: it has none */
    const char *description;     /* paragraphs separated by \n; may be NULL */
    const char *examples;        /* verbatim lines; may be NULL */
    const char *exit_codes;      /* a sentence, where they are others; may be NULL */
    const char *see_also;        /* for the manual page: "x(1), y(1)"; may be NULL */
    const struct flag *flags;    /* ends with a NULL name */
    bool takes_arguments;        /* beside flags */
};

/* The flags that every program has: a member of its struct, and FLAGS_COMMON in the table. */
struct flags_common {
    int log_format; /* enum log_format */
    int log_level;  /* enum log_level */
    bool allow_core_dumps;
};

#define FLAGS_COMMON_DEFAULTS                                                                      \
    {                                                                                              \
        .log_format = LOG_TEXT, .log_level = LOG_INFO                                              \
    }

extern const char *const flags_log_formats[];
extern const char *const flags_log_levels[];

#define FLAGS_COMMON(owner, common)                                                                \
    {.name = "log-format",                                                                         \
     .value = "FORMAT",                                                                            \
     FLAG_CHOICE_AT(owner, common.log_format),                                                     \
     .choices = flags_log_formats,                                                                 \
     .help = "Format of the log lines on standard error."},                                        \
        {.name = "log-level",                                                                      \
         .value = "LEVEL",                                                                         \
         FLAG_CHOICE_AT(owner, common.log_level),                                                  \
         .choices = flags_log_levels,                                                              \
         .help = "Least important level that is logged."},                                         \
    {                                                                                              \
        .name = "allow-core-dumps", FLAG_BOOL_AT(owner, common.allow_core_dumps),                  \
        .help = "Let the kernel write core dumps, and other processes of this user debug and "     \
                "profile this one. Both can show credentials, so without this flag neither works." \
    }

enum flags_result {
    FLAGS_OK,    /* go on; *rest is the index of the first positional argument */
    FLAGS_EXIT,  /* --help or --version was printed on stdout: exit 0 */
    FLAGS_WRONG, /* `e` says what: print it and exit 2 */
};

/* Sets members of `flags`, the struct that the table is about. Positional arguments are moved
 * behind the flags in argv; *rest is where they begin. */
MUST_CHECK enum flags_result flags_parse(const struct command *c, void *flags, int argc,
                                         char **argv, int *rest, struct err *e);

/* Parses, and on FLAGS_EXIT or FLAGS_WRONG prints what is due and ends the process with the right
 * exit code; sets up the log from `common`, a part of `flags`, and forbids core dumps
 * (base/core_dump.h) unless it allows them. Returns the index of the first positional argument. */
int flags_parse_or_exit(const struct command *c, void *flags, const struct flags_common *common,
                        int argc, char **argv);

/* Whether a program with these flags, which end with a NULL name, takes `--name=value`, or the name
 * alone of a boolean one, as an argument. 0, or -EINVAL with the message. */
MUST_CHECK int flags_check_argument(const struct flag *flags, const char *argument, struct err *e);

/* For what cannot be told flag by flag: ends the process with the message and EXIT_USAGE. */
_Noreturn void flags_misuse(const struct command *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
