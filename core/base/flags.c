/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flags.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

const char *const flags_log_formats[] = {"text", "json", NULL};
const char *const flags_log_levels[] = {"error", "warn", "info", "debug", NULL};

enum { TEXT_INDENT = 4, HELP_INDENT = 8, HELP_WIDTH = 88, ENV_NAME_MAX = 64 };

static void env_name(const char *flag, char out[ENV_NAME_MAX])
{
    int n = snprintf(out, ENV_NAME_MAX, "CMESH_%s", flag);
    for (int i = 0; i < n && i < ENV_NAME_MAX - 1; i++) {
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
    }
}

/* Prints `text` wrapped to the help's width, each line indented; \n begins a new line. */
static void print_wrapped(const char *text, int indent)
{
    const char *p = text;
    while (*p != '\0') {
        int column = printf("%*s", indent, "");
        bool first = true;
        while (*p != '\0' && *p != '\n') {
            size_t word = strcspn(p, " \n");
            if (!first && column + 1 + (int)word > HELP_WIDTH) {
                break;
            }
            column += printf("%s%.*s", first ? "" : " ", (int)word, p);
            first = false;
            p += word;
            p += *p == ' ' ? 1 : 0;
        }
        p += *p == '\n' ? 1 : 0;
        (void)putchar('\n');
    }
}

static void print_default(const struct flag *f)
{
    if (f->default_text != NULL) {
        if (f->default_text[0] != '\0') {
            printf("%*sDefault: %s.\n", HELP_INDENT, "", f->default_text);
        }
        return;
    }
    switch (f->type) {
    case FLAG_STRING: {
        const char *value = *(const char **)f->target;
        if (value != NULL && value[0] != '\0') {
            printf("%*sDefault: %s.\n", HELP_INDENT, "", value);
        }
        break;
    }
    case FLAG_UINT:
        printf("%*sDefault: %" PRIu64 ".\n", HELP_INDENT, "", *(uint64_t *)f->target);
        break;
    case FLAG_CHOICE:
        printf("%*sDefault: %s.\n", HELP_INDENT, "", f->choices[*(int *)f->target]);
        break;
    case FLAG_BOOL:
    case FLAG_LIST:
        break;
    }
}

static void print_flag(const struct flag *f)
{
    printf("    ");
    if (f->letter != 0) {
        printf("-%c, ", f->letter);
    }
    printf("--%s", f->name);
    if (f->value != NULL) {
        printf("=%s", f->value);
    }
    (void)putchar('\n');
    print_wrapped(f->help, HELP_INDENT);
    if (f->choices != NULL) {
        printf("%*sOne of:", HELP_INDENT, "");
        for (size_t i = 0; f->choices[i] != NULL; i++) {
            printf("%s %s", i == 0 ? "" : ",", f->choices[i]);
        }
        printf(".\n");
    }
    print_default(f);
}

static void print_help(const struct program *p)
{
    printf("%s - %s\n\nUsage:\n", p->name, p->summary);
    for (const char *u = p->usage; *u != '\0';) {
        size_t n = strcspn(u, "\n");
        printf("    %s %.*s\n", p->name, (int)n, u);
        u += n + (u[n] == '\n' ? 1 : 0);
    }
    if (p->description != NULL) {
        (void)putchar('\n');
        print_wrapped(p->description, 0);
    }
    printf("\nFlags:\n");
    for (const struct flag *f = p->flags; f->name != NULL; f++) {
        print_flag(f);
    }
    printf("    --help\n%*sPrint this text.\n", HELP_INDENT, "");
    printf("    --version\n%*sPrint the version.\n", HELP_INDENT, "");
    printf("\nEnvironment:\n");
    print_wrapped("Each flag can be given as CMESH_<FLAG>, upper case with underscores "
                  "(--log-level: CMESH_LOG_LEVEL). The command line wins.",
                  TEXT_INDENT);
    printf("\nExit codes:\n    0 done, 1 failed, 2 wrong usage.\n");
    if (p->examples != NULL) {
        printf("\nExamples:\n%s", p->examples);
    }
}

static int set_uint(const struct flag *f, const char *value, const char *shown, struct err *e)
{
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)value[0]) || *end != '\0' || errno != 0 || n < f->min ||
        n > f->max) {
        return err_set(e, -EINVAL, "%s: \"%s\" is not a whole number from %" PRIu64 " to %" PRIu64,
                       shown, value, f->min, f->max);
    }
    *(uint64_t *)f->target = n;
    return 0;
}

static int set_choice(const struct flag *f, const char *value, const char *shown, struct err *e)
{
    char known[160] = "";
    for (int i = 0; f->choices[i] != NULL; i++) {
        if (strcmp(f->choices[i], value) == 0) {
            *(int *)f->target = i;
            return 0;
        }
        size_t n = strlen(known);
        (void)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", f->choices[i]);
    }
    return err_set(e, -EINVAL, "%s: \"%s\" is not one of: %s", shown, value, known);
}

static int set_bool(const struct flag *f, const char *value, const char *shown, struct err *e)
{
    bool yes = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!yes && strcmp(value, "false") != 0 && strcmp(value, "0") != 0) {
        return err_set(e, -EINVAL, "%s: \"%s\" is not true or false", shown, value);
    }
    *(bool *)f->target = yes;
    return 0;
}

static int set_list(const struct flag *f, const char *value, const char *shown, struct err *e)
{
    struct flag_list *list = f->target;
    if (list->count == FLAG_LIST_MAX) {
        return err_set(e, -EINVAL, "%s: given more than %d times", shown, FLAG_LIST_MAX);
    }
    list->items[list->count++] = value;
    return 0;
}

/* `shown` names where the value came from, for the message: --flag or CMESH_FLAG. */
static int set_value(const struct flag *f, const char *value, const char *shown, struct err *e)
{
    switch (f->type) {
    case FLAG_STRING:
        *(const char **)f->target = value;
        return 0;
    case FLAG_UINT:
        return set_uint(f, value, shown, e);
    case FLAG_CHOICE:
        return set_choice(f, value, shown, e);
    case FLAG_BOOL:
        return set_bool(f, value, shown, e);
    case FLAG_LIST:
        return set_list(f, value, shown, e);
    }
    return 0;
}

/* Splits a comma separated variable in place; the environment's own copy is modified. What it gives
 * replaces the default. */
static int set_list_from_env(const struct flag *f, char *value, const char *shown, struct err *e)
{
    char *save = NULL;
    ((struct flag_list *)f->target)->count = 0;
    for (char *item = strtok_r(value, ",", &save); item != NULL;
         item = strtok_r(NULL, ",", &save)) {
        int rc = set_list(f, item, shown, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int read_environment(const struct program *p, struct err *e)
{
    for (const struct flag *f = p->flags; f->name != NULL; f++) {
        char name[ENV_NAME_MAX];
        env_name(f->name, name);
        char *value = getenv(name);
        if (value == NULL || value[0] == '\0') {
            continue;
        }
        int rc = f->type == FLAG_LIST ? set_list_from_env(f, value, name, e)
                                      : set_value(f, value, name, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static const struct flag *find_flag(const struct program *p, const char *name, size_t len)
{
    for (const struct flag *f = p->flags; f->name != NULL; f++) {
        if (strlen(f->name) == len && strncmp(f->name, name, len) == 0) {
            return f;
        }
    }
    return NULL;
}

static const struct flag *find_letter(const struct program *p, char letter)
{
    for (const struct flag *f = p->flags; f->name != NULL; f++) {
        if (f->letter != 0 && f->letter == letter) {
            return f;
        }
    }
    return NULL;
}

/* One argument that begins with a dash; *i moves past a value taken from the next argument. */
static int parse_one(const struct program *p, int argc, char **argv, int *i, struct err *e)
{
    char *arg = argv[*i];
    const struct flag *f;
    const char *value = NULL;
    char shown[80];
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        f = find_flag(p, arg + 2, len);
        value = arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL;
        (void)snprintf(shown, sizeof shown, "--%.*s", (int)(len < 64 ? len : 64), arg + 2);
    } else {
        f = find_letter(p, arg[1]);
        value = arg[2] != '\0' ? arg + 2 : NULL;
        (void)snprintf(shown, sizeof shown, "-%c", arg[1]);
    }
    if (f == NULL) {
        return err_set(e, -EINVAL, "unknown flag %s", shown);
    }
    if (value == NULL && f->type == FLAG_BOOL) {
        value = "true";
    }
    if (value == NULL) {
        if (*i + 1 >= argc) {
            return err_set(e, -EINVAL, "%s needs a value (%s)", shown,
                           f->value != NULL ? f->value : "VALUE");
        }
        value = argv[++*i];
    }
    return set_value(f, value, shown, e);
}

/* A list given on the command line replaces the one from the environment. */
static void forget_env_lists(const struct program *p, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const struct flag *f = NULL;
        if (strncmp(argv[i], "--", 2) == 0) {
            f = find_flag(p, argv[i] + 2, strcspn(argv[i] + 2, "="));
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            f = find_letter(p, argv[i][1]);
        }
        if (f != NULL && f->type == FLAG_LIST) {
            ((struct flag_list *)f->target)->count = 0;
        }
    }
}

enum flags_result flags_parse(const struct program *p, int argc, char **argv, int *rest,
                              struct err *e)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(p);
            return FLAGS_EXIT;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("%s %s\n", p->name, CMESH_VERSION);
            return FLAGS_EXIT;
        }
    }
    if (read_environment(p, e) != 0) {
        return FLAGS_WRONG;
    }
    forget_env_lists(p, argc, argv);

    char **positional = calloc((size_t)argc + 1, sizeof *positional);
    if (positional == NULL) {
        err_memory(e);
        return FLAGS_WRONG;
    }
    int count = 0;
    int i = 1;
    enum flags_result result = FLAGS_OK;
    for (; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            positional[count++] = argv[i];
        } else if (parse_one(p, argc, argv, &i, e) != 0) {
            result = FLAGS_WRONG;
            break;
        }
    }
    if (result == FLAGS_OK) {
        for (; i < argc; i++) {
            positional[count++] = argv[i];
        }
        *rest = argc - count;
        for (int k = 0; k < count; k++) {
            argv[*rest + k] = positional[k];
        }
    }
    free(positional);
    return result;
}

int flags_parse_or_exit(const struct program *p, const struct flags_common *common, int argc,
                        char **argv)
{
    struct err e = ERR_INIT;
    int rest = argc;
    switch (flags_parse(p, argc, argv, &rest, &e)) {
    case FLAGS_EXIT:
        exit(fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED);
    case FLAGS_WRONG:
        fprintf(stderr, "%s: %s\nRun \"%s --help\" for the flags.\n", p->name, e.msg, p->name);
        exit(EXIT_USAGE);
    case FLAGS_OK:
        break;
    }
    log_init(p->name, (enum log_format)common->log_format, (enum log_level)common->log_level);
    return rest;
}
