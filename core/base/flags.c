/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flags.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/core_dump.h"
#include "base/flags_internal.h"
#include "base/log.h"
#include "base/spelling.h"

/* What no table has. */
static const char *const bare[] = {"help", "version", "man"};

const char *const flags_log_formats[] = {"text", "json", NULL};
const char *const flags_log_levels[] = {"error", "warn", "info", "debug", NULL};

void flags_env_name(const char *flag, char out[FLAGS_ENV_NAME_SIZE])
{
    int n = snprintf(out, FLAGS_ENV_NAME_SIZE, "CMESH_%s", flag);
    for (int i = 0; i < n && i < FLAGS_ENV_NAME_SIZE - 1; i++) {
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
    }
}

void flags_full_name(const struct command *c, char separator, char out[FLAGS_FULL_NAME_SIZE])
{
    if (c->name == NULL) {
        (void)snprintf(out, FLAGS_FULL_NAME_SIZE, "%s", c->program);
    } else {
        (void)snprintf(out, FLAGS_FULL_NAME_SIZE, "%s%c%s", c->program, separator, c->name);
    }
}

/* The member that the flag sets. */
static void *target_of(const struct flag *f, void *flags)
{
    return (char *)flags + f->offset;
}

static int set_uint(const struct flag *f, void *target, const char *value, const char *shown,
                    struct err *e)
{
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)value[0]) || *end != '\0' || errno != 0 || n < f->min ||
        n > f->max) {
        return err_set(e, -EINVAL, "%s: \"%s\" is not a whole number from %" PRIu64 " to %" PRIu64,
                       shown, value, f->min, f->max);
    }
    *(uint64_t *)target = n;
    return 0;
}

static int set_choice(const struct flag *f, void *target, const char *value, const char *shown,
                      struct err *e)
{
    char known[160] = "";
    for (int i = 0; f->choices[i] != NULL; i++) {
        if (strcmp(f->choices[i], value) == 0) {
            *(int *)target = i;
            return 0;
        }
        size_t n = strlen(known);
        (void)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", f->choices[i]);
    }
    return err_set(e, -EINVAL, "%s: \"%s\" is not one of: %s", shown, value, known);
}

static int set_bool(void *target, const char *value, const char *shown, struct err *e)
{
    bool yes = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!yes && strcmp(value, "false") != 0 && strcmp(value, "0") != 0) {
        return err_set(e, -EINVAL, "%s: \"%s\" is not true or false", shown, value);
    }
    *(bool *)target = yes;
    return 0;
}

static int set_list(void *target, const char *value, const char *shown, struct err *e)
{
    struct flag_list *list = target;
    if (list->count == FLAG_LIST_MAX) {
        return err_set(e, -EINVAL, "%s: given more than %d times", shown, FLAG_LIST_MAX);
    }
    list->items[list->count++] = value;
    return 0;
}

/* `shown` names where the value came from, for the message: --flag or CMESH_FLAG. */
static int set_value(const struct flag *f, void *target, const char *value, const char *shown,
                     struct err *e)
{
    switch (f->type) {
    case FLAG_STRING:
        *(const char **)target = value;
        return 0;
    case FLAG_UINT:
        return set_uint(f, target, value, shown, e);
    case FLAG_CHOICE:
        return set_choice(f, target, value, shown, e);
    case FLAG_BOOL:
        return set_bool(target, value, shown, e);
    case FLAG_LIST:
        return set_list(target, value, shown, e);
    }
    return 0;
}

/* Splits a comma separated variable in place; the environment's own copy is modified. What it gives
 * replaces the default. */
static int set_list_from_env(void *target, char *value, const char *shown, struct err *e)
{
    char *save = NULL;
    ((struct flag_list *)target)->count = 0;
    for (char *item = strtok_r(value, ",", &save); item != NULL;
         item = strtok_r(NULL, ",", &save)) {
        int rc = set_list(target, item, shown, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int read_environment(const struct command *c, void *flags, struct err *e)
{
    for (const struct flag *f = c->flags; f->name != NULL; f++) {
        char name[FLAGS_ENV_NAME_SIZE];
        flags_env_name(f->name, name);
        char *value = getenv(name);
        if (value == NULL || value[0] == '\0') {
            continue;
        }
        void *target = target_of(f, flags);
        int rc = f->type == FLAG_LIST ? set_list_from_env(target, value, name, e)
                                      : set_value(f, target, value, name, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static const struct flag *find_flag(const struct command *c, const char *name, size_t len)
{
    for (const struct flag *f = c->flags; f->name != NULL; f++) {
        if (strlen(f->name) == len && strncmp(f->name, name, len) == 0) {
            return f;
        }
    }
    return NULL;
}

static const struct flag *find_letter(const struct command *c, char letter)
{
    for (const struct flag *f = c->flags; f->name != NULL; f++) {
        if (f->letter != 0 && f->letter == letter) {
            return f;
        }
    }
    return NULL;
}

/* A command line while it is read. */
struct line {
    const struct command *command;
    void *flags;
    int argc;
    char **argv;
    int at;
    bool given[FLAGS_MAX]; /* the flags that it has, by their place in the table */
};

const char *flags_meant(const struct flag *flags, const char *name, unsigned near)
{
    unsigned best = near + 1;
    const char *meant = NULL;
    for (const struct flag *f = flags; f->name != NULL; f++) {
        unsigned distance = spelling_distance(name, f->name);
        if (distance < best) {
            best = distance;
            meant = f->name;
        }
    }
    return meant;
}

/* `name` is without dashes, and as `shown` otherwise. */
static int refuse_unknown(const struct flag *flags, const char *shown, const char *name,
                          struct err *e)
{
    /* Of a short name little is left when three letters differ. */
    size_t third = (strlen(name) + 1) / 3;
    const char *meant =
        flags_meant(flags, name, third < SPELLING_NEAR ? (unsigned)third : SPELLING_NEAR);
    return meant == NULL ? err_set(e, -EINVAL, "unknown flag %s", shown)
                         : err_set(e, -EINVAL, "unknown flag %s; is --%s meant?", shown, meant);
}

static int refuse_long(const struct flag *flags, const char *name, size_t len, struct err *e)
{
    enum { NAME_SHOWN = 64 };
    char shown[NAME_SHOWN + 3];
    (void)snprintf(shown, sizeof shown, "--%.*s", (int)(len < NAME_SHOWN ? len : NAME_SHOWN), name);
    return refuse_unknown(flags, shown, shown + 2, e);
}

/* "--help=x"; without a value it was done. */
static bool is_bare(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(bare); i++) {
        if (strlen(bare[i]) == len && memcmp(bare[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

/* "-rules=x", as other programs take it: what begins with a letter of ours would be its value. */
static const struct flag *long_by_one_dash(const struct command *c, const char *arg)
{
    size_t len = strcspn(arg + 1, "=");
    return len < 2 ? NULL : find_flag(c, arg + 1, len);
}

/* One argument that begins with a dash; l->at moves past a value taken from the next argument. */
static int parse_one(struct line *l, struct err *e)
{
    char *arg = l->argv[l->at];
    const struct flag *f;
    const char *value = NULL;
    char shown[FLAGS_ENV_NAME_SIZE];
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        f = find_flag(l->command, arg + 2, len);
        value = arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL;
        if (f == NULL && is_bare(arg + 2, len)) {
            return err_set(e, -EINVAL, "%.*s takes no value", (int)len + 2, arg);
        }
        if (f == NULL) {
            return refuse_long(l->command->flags, arg + 2, len, e);
        }
        (void)snprintf(shown, sizeof shown, "--%s", f->name);
    } else {
        f = long_by_one_dash(l->command, arg);
        if (f != NULL) {
            return err_set(e, -EINVAL, "unknown flag -%s; is --%s meant?", f->name, f->name);
        }
        f = find_letter(l->command, arg[1]);
        value = arg[2] != '\0' ? arg + 2 : NULL;
        (void)snprintf(shown, sizeof shown, "-%c", arg[1]);
        if (f == NULL) {
            return refuse_unknown(l->command->flags, shown, arg + 1, e);
        }
    }
    l->given[f - l->command->flags] = true;
    if (value == NULL && f->type == FLAG_BOOL) {
        value = "true";
    }
    if (value == NULL && l->at + 1 >= l->argc) {
        return err_set(e, -EINVAL, "%s needs a value (%s)", shown,
                       f->value != NULL ? f->value : "VALUE");
    }
    if (value == NULL) {
        value = l->argv[++l->at];
    }
    return set_value(f, target_of(f, l->flags), value, shown, e);
}

/* A list given on the command line replaces the one from the environment. */
static void forget_env_lists(const struct line *l)
{
    for (int i = 1; i < l->argc && strcmp(l->argv[i], "--") != 0; i++) {
        const char *arg = l->argv[i];
        const struct flag *f = NULL;
        if (strncmp(arg, "--", 2) == 0) {
            f = find_flag(l->command, arg + 2, strcspn(arg + 2, "="));
        } else if (arg[0] == '-' && arg[1] != '\0') {
            f = find_letter(l->command, arg[1]);
        }
        if (f != NULL && f->type == FLAG_LIST) {
            ((struct flag_list *)target_of(f, l->flags))->count = 0;
        }
    }
}

/* --help and the like, wherever they are before a "--"; false: there is none. */
static bool print_what_is_asked(const struct line *l)
{
    const struct command *c = l->command;
    for (int i = 1; i < l->argc && strcmp(l->argv[i], "--") != 0; i++) {
        const char *arg = l->argv[i];
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            flags_print_help(c, l->flags);
            return true;
        }
        if (strcmp(arg, "--version") == 0) {
            printf("%s %s\n", c->program, CMESH_VERSION);
            return true;
        }
        if (strcmp(arg, "--man") == 0) {
            flags_print_man(c, l->flags);
            return true;
        }
    }
    return false;
}

/* Reads all flags, and moves what is none to the end of argv, in its order: *rest is where it
 * begins. `positional` has room for all. */
static int parse_all(struct line *l, char **positional, int *rest, struct err *e)
{
    int count = 0;
    for (l->at = 1; l->at < l->argc && strcmp(l->argv[l->at], "--") != 0; l->at++) {
        const char *arg = l->argv[l->at];
        if (arg[0] != '-' || arg[1] == '\0') {
            positional[count++] = l->argv[l->at];
            continue;
        }
        int rc = parse_one(l, e);
        if (rc != 0) {
            return rc;
        }
    }
    for (int i = l->at + 1; i < l->argc; i++) {
        positional[count++] = l->argv[i];
    }
    *rest = l->argc - count;
    for (int i = 0; i < count; i++) {
        l->argv[*rest + i] = positional[i];
    }
    return 0;
}

/* Not so: what is false, and a text that is empty. */
static bool is_on(const struct line *l, const struct flag *f)
{
    const void *target = target_of(f, l->flags);
    if (f->type == FLAG_BOOL) {
        return *(const bool *)target;
    }
    if (f->type == FLAG_STRING) {
        const char *text = *(const char *const *)target;
        return text != NULL && text[0] != '\0';
    }
    return true;
}

static bool is_set(const struct line *l, const char *name)
{
    return is_on(l, find_flag(l->command, name, strlen(name)));
}

/* What one flag asks of others. */
static int check_others(const struct line *l, struct err *e)
{
    for (const struct flag *f = l->command->flags; f->name != NULL; f++) {
        if (!l->given[f - l->command->flags] || !is_on(l, f)) {
            continue;
        }
        if (f->needs != NULL && !is_set(l, f->needs)) {
            return err_set(e, -EINVAL, "--%s needs --%s", f->name, f->needs);
        }
        if (f->excludes != NULL && is_set(l, f->excludes)) {
            return err_set(e, -EINVAL, "--%s cannot be combined with --%s", f->name, f->excludes);
        }
    }
    return 0;
}

static int refuse_argument(const struct command *c, const char *argument, struct err *e)
{
    for (const char *const *name = c->commands; name != NULL && *name != NULL; name++) {
        if (strcmp(*name, argument) == 0) {
            return err_set(e, -EINVAL, "the command %s must come first, its flags behind it: %s %s",
                           argument, c->program, argument);
        }
    }
    if (is_bare(argument, strlen(argument))) {
        return err_set(e, -EINVAL, "unexpected argument \"%s\"; is --%s meant?", argument,
                       argument);
    }
    return err_set(e, -EINVAL, "unexpected argument \"%s\"", argument);
}

enum flags_result flags_parse(const struct command *c, void *flags, int argc, char **argv,
                              int *rest, struct err *e)
{
    struct line l = {.command = c, .flags = flags, .argc = argc, .argv = argv};
    if (print_what_is_asked(&l)) {
        return FLAGS_EXIT;
    }
    if (read_environment(c, flags, e) != 0) {
        return FLAGS_WRONG;
    }
    forget_env_lists(&l);
    char **positional = calloc((size_t)argc + 1, sizeof *positional);
    if (positional == NULL) {
        err_memory(e);
        return FLAGS_WRONG;
    }
    int rc = parse_all(&l, positional, rest, e);
    free(positional);
    if (rc == 0 && *rest < argc && !c->takes_arguments) {
        rc = refuse_argument(c, argv[*rest], e);
    }
    if (rc == 0) {
        rc = check_others(&l, e);
    }
    return rc == 0 ? FLAGS_OK : FLAGS_WRONG;
}

int flags_check_argument(const struct flag *flags, const char *argument, struct err *e)
{
    const struct command c = {.flags = flags};
    union {
        const char *text;
        bool yes;
        uint64_t number;
        int choice;
        struct flag_list list;
    } value = {.list = {.count = 0}};
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        return err_set(e, -EINVAL, "\"%s\" must be --FLAG=VALUE", argument);
    }
    size_t len = strcspn(argument + 2, "=");
    const struct flag *f = find_flag(&c, argument + 2, len);
    if (f == NULL) {
        return refuse_long(flags, argument + 2, len, e);
    }
    if (argument[2 + len] == '=') {
        char shown[FLAGS_ENV_NAME_SIZE];
        (void)snprintf(shown, sizeof shown, "--%s", f->name);
        return set_value(f, &value, argument + 2 + len + 1, shown, e);
    }
    return f->type == FLAG_BOOL ? 0
                                : err_set(e, -EINVAL, "--%s needs a value: --%s=%s", f->name,
                                          f->name, f->value != NULL ? f->value : "VALUE");
}

void flags_misuse(const struct command *c, const char *fmt, ...)
{
    char name[FLAGS_FULL_NAME_SIZE];
    va_list ap;
    flags_full_name(c, ' ', name);
    (void)fprintf(stderr, "%s: ", c->program);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fprintf(stderr, "\nRun \"%s --help\" for the flags.\n", name);
    exit(EXIT_USAGE);
}

int flags_parse_or_exit(const struct command *c, void *flags, const struct flags_common *common,
                        int argc, char **argv)
{
    struct err e = ERR_INIT;
    int rest = argc;
    switch (flags_parse(c, flags, argc, argv, &rest, &e)) {
    case FLAGS_EXIT:
        exit(fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED);
    case FLAGS_WRONG:
        flags_misuse(c, "%s", e.msg);
    case FLAGS_OK:
        break;
    }
    log_init(c->program, (enum log_format)common->log_format, (enum log_level)common->log_level);
    if (!common->allow_core_dumps) {
        core_dump_forbid();
    }
    flags_warn_of_environment(c);
    return rest;
}
