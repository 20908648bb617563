/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/flags_internal.h"

enum { TEXT_INDENT = 4, HELP_INDENT = 8, HELP_WIDTH = 88 };

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

/* An empty text is none. */
static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

const char *flags_default(const struct flag *f, const void *flags, char number[FLAGS_NUMBER_SIZE])
{
    const void *target = (const char *)flags + f->offset;
    if (f->default_text != NULL) {
        return text_or_null(f->default_text);
    }
    switch (f->type) {
    case FLAG_STRING:
        return text_or_null(*(const char *const *)target);
    case FLAG_UINT:
        (void)snprintf(number, FLAGS_NUMBER_SIZE, "%" PRIu64, *(const uint64_t *)target);
        return number;
    case FLAG_CHOICE:
        return f->choices[*(const int *)target];
    case FLAG_BOOL:
    case FLAG_LIST:
        break;
    }
    return NULL;
}

static void print_flag(const struct flag *f, const void *flags)
{
    char number[FLAGS_NUMBER_SIZE];
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
    if (f->needs != NULL || f->excludes != NULL) {
        printf("%*s%s with --%s.\n", HELP_INDENT, "", f->needs != NULL ? "Only" : "Not",
               f->needs != NULL ? f->needs : f->excludes);
    }
    const char *value = flags_default(f, flags, number);
    if (value != NULL) {
        printf("%*sDefault: %s.\n", HELP_INDENT, "", value);
    }
}

static void print_usage(const struct command *c, const char *name)
{
    printf("%s - %s\n\nUsage:\n", name, c->summary);
    for (const char *u = c->usage; *u != '\0';) {
        size_t n = strcspn(u, "\n");
        printf("    %s %.*s\n", name, (int)n, u);
        u += n + (u[n] == '\n' ? 1 : 0);
    }
}

void flags_print_help(const struct command *c, const void *flags)
{
    char name[FLAGS_FULL_NAME_SIZE];
    flags_full_name(c, ' ', name);
    print_usage(c, name);
    if (c->description != NULL) {
        (void)putchar('\n');
        print_wrapped(c->description, 0);
    }
    printf("\nFlags:\n");
    for (const struct flag *f = c->flags; f->name != NULL; f++) {
        print_flag(f, flags);
    }
    printf("    --help\n%*sPrint this text.\n", HELP_INDENT, "");
    printf("    --version\n%*sPrint the version.\n", HELP_INDENT, "");
    printf("\nEnvironment:\n");
    print_wrapped("Each flag can be given as CMESH_<FLAG>, upper case with underscores "
                  "(--log-level: CMESH_LOG_LEVEL). The command line wins.",
                  TEXT_INDENT);
    printf("\nExit codes:\n    0 done, 1 failed, 2 wrong usage.\n");
    if (c->exit_codes != NULL) {
        print_wrapped(c->exit_codes, TEXT_INDENT);
    }
    if (c->examples != NULL) {
        printf("\nExamples:\n%s", c->examples);
    }
}
