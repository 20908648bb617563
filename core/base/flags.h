/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.h - command lines: one table gives parsing, `CMESH_…` variables and `--help`.
 *
 * Long flags take `--flag=value` and `--flag value`; `--` ends them. Each flag is also read from
 * the environment as CMESH_<FLAG> (upper case, dashes as underscores; an empty variable counts as
 * none); the command line wins.
 * Exit codes of every program: 0 done, 1 failed, 2 wrong usage.
 */
#ifndef CORE_BASE_FLAGS_H
#define CORE_BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum flag_type {
    FLAG_STRING, /* target: const char * (points into argv or the environment) */
    FLAG_BOOL,   /* target: bool; `--flag` alone means true, `--flag=false` is taken too */
    FLAG_UINT,   /* target: uint64_t, within [min, max] */
    FLAG_CHOICE, /* target: int, the index in `choices` */
    FLAG_LIST, /* target: struct flag_list; may be repeated; in the environment: comma separated */
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
    char letter;  /* short form, or 0 */
    void *target; /* holds the default before parsing */
    uint64_t min; /* FLAG_UINT only */
    uint64_t max;
    const char *const *choices; /* FLAG_CHOICE only: NULL-terminated */
    const char *default_text;   /* overrides how the default is shown; "" hides it */
};

struct program {
    const char *name;
    const char *summary;      /* one line, for the head of --help */
    const char *usage;        /* one line a form, without the program's name, separated by \n */
    const char *description;  /* paragraphs separated by \n; may be NULL */
    const char *examples;     /* verbatim lines; may be NULL */
    const struct flag *flags; /* ends with a NULL name */
};

/* The flags that every program has; put FLAGS_COMMON into the table. */
struct flags_common {
    int log_format; /* enum log_format */
    int log_level;  /* enum log_level */
};

extern const char *const flags_log_formats[];
extern const char *const flags_log_levels[];

#define FLAGS_COMMON(common)                                                                       \
    {.name = "log-format",                                                                         \
     .value = "FORMAT",                                                                            \
     .help = "Format of the log lines on standard error.",                                         \
     .type = FLAG_CHOICE,                                                                          \
     .target = &(common)->log_format,                                                              \
     .choices = flags_log_formats},                                                                \
    {                                                                                              \
        .name = "log-level", .value = "LEVEL", .help = "Least important level that is logged.",    \
        .type = FLAG_CHOICE, .target = &(common)->log_level, .choices = flags_log_levels           \
    }

enum flags_result {
    FLAGS_OK,    /* go on; *rest is the index of the first positional argument */
    FLAGS_EXIT,  /* --help or --version was printed on stdout: exit 0 */
    FLAGS_WRONG, /* `e` says what: print it and exit 2 */
};

/* Positional arguments are moved behind the flags in argv; *rest is where they begin. */
MUST_CHECK enum flags_result flags_parse(const struct program *p, int argc, char **argv, int *rest,
                                         struct err *e);

/* Parses, and on FLAGS_EXIT or FLAGS_WRONG prints what is due and ends the process with the right
 * exit code; sets up the log from `common`. Returns the index of the first positional argument. */
int flags_parse_or_exit(const struct program *p, const struct flags_common *common, int argc,
                        char **argv);

#endif
