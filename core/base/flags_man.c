/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual page, in man(7)'s macros: the same texts as --help, with a sentence more where a page
 * has a section of its own.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/flags_internal.h"

enum { PAGE_WIDTH = 78 };

/* A dash that can be copied, and a backslash that is one. */
static void put_char(char c)
{
    switch (c) {
    case '-':
        (void)fputs("\\-", stdout);
        break;
    case '\\':
        (void)fputs("\\e", stdout);
        break;
    default:
        (void)putchar(c);
        break;
    }
}

static void put_text(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        put_char(*p);
    }
}

static size_t flag_len(const char *word, size_t len)
{
    size_t n = 2;
    while (n < len && (isalnum((unsigned char)word[n]) || word[n] == '-')) {
        n++;
    }
    return n;
}

/* A word of prose: flags, and what stands between backquotes, are bold. */
static void put_word(const char *word, size_t len, bool *quoted)
{
    for (size_t i = 0; i < len;) {
        bool begins = i == 0 || strchr("(\"", word[i - 1]) != NULL;
        if (word[i] == '`') {
            *quoted = !*quoted;
            (void)fputs(*quoted ? "\\fB" : "\\fR", stdout);
            i++;
        } else if (begins && !*quoted && len - i > 2 && word[i] == '-' && word[i + 1] == '-') {
            size_t end = i + flag_len(word + i, len - i);
            (void)fputs("\\fB", stdout);
            while (i < end) {
                put_char(word[i++]);
            }
            (void)fputs("\\fR", stdout);
        } else {
            put_char(word[i++]);
        }
    }
}

/* Filled text; \n begins a new paragraph with `macro`. */
static void put_prose(const char *text, const char *macro)
{
    bool quoted = false;
    size_t column = 0;
    for (const char *p = text; *p != '\0';) {
        size_t len = strcspn(p, " \n");
        if (column > 0 && column + 1 + len > PAGE_WIDTH) {
            (void)putchar('\n');
            column = 0;
        }
        if (column > 0) {
            (void)putchar(' ');
        } else if (*p == '.' || *p == '\'') {
            (void)fputs("\\&", stdout); /* it would be a request */
        }
        put_word(p, len, &quoted);
        column += len + 1;
        p += len;
        if (*p == '\n' && p[1] != '\0') {
            printf("\n%s\n", macro);
            column = 0;
        }
        p += *p != '\0' ? 1 : 0;
    }
    (void)putchar('\n');
}

/* Lines as they are. */
static void put_verbatim(const char *text)
{
    printf(".PP\n.nf\n");
    for (const char *p = text; *p != '\0'; p++) {
        if ((p == text || p[-1] == '\n') && (*p == '.' || *p == '\'')) {
            (void)fputs("\\&", stdout);
        }
        put_char(*p);
    }
    printf(".fi\n");
}

static void put_head(const struct command *c)
{
    char name[FLAGS_FULL_NAME_SIZE];
    flags_full_name(c, '-', name);
    printf(".\\\" Made from the program's flags.\n.TH \"");
    for (const char *p = name; *p != '\0'; p++) {
        put_char((char)toupper((unsigned char)*p));
    }
    printf("\" 1 \"\" \"cmesh %s\" \"cmesh\"\n.SH NAME\n", CMESH_VERSION);
    put_text(name);
    printf(" \\- ");
    put_text(c->summary);
    (void)putchar('\n');
}

static void put_synopsis(const struct command *c)
{
    char name[FLAGS_FULL_NAME_SIZE];
    flags_full_name(c, ' ', name);
    printf(".SH SYNOPSIS\n");
    for (const char *u = c->usage; *u != '\0';) {
        size_t len = strcspn(u, "\n");
        bool quoted = true; /* nothing but the name is bold */
        printf("%s\\fB", u == c->usage ? "" : ".br\n");
        put_text(name);
        printf("\\fR ");
        put_word(u, len, &quoted);
        (void)putchar('\n');
        u += len + (u[len] == '\n' ? 1 : 0);
    }
}

static void put_flag(const struct flag *f, const void *flags)
{
    char number[FLAGS_NUMBER_SIZE];
    char variable[FLAGS_ENV_NAME_SIZE];
    printf(".TP\n");
    if (f->letter != 0) {
        printf("\\fB\\-%c\\fR, ", f->letter);
    }
    printf("\\fB\\-\\-");
    put_text(f->name);
    printf("\\fR");
    if (f->value != NULL) {
        printf("=\\fI");
        put_text(f->value);
        printf("\\fR");
    }
    (void)putchar('\n');
    put_prose(f->help, ".IP");
    if (f->choices != NULL) {
        printf("One of:");
        for (size_t i = 0; f->choices[i] != NULL; i++) {
            printf("%s ", i == 0 ? "" : ",");
            put_text(f->choices[i]);
        }
        printf(".\n");
    }
    if (f->needs != NULL || f->excludes != NULL) {
        printf("%s with \\fB\\-\\-", f->needs != NULL ? "Only" : "Not");
        put_text(f->needs != NULL ? f->needs : f->excludes);
        printf("\\fR.\n");
    }
    const char *value = flags_default(f, flags, number);
    if (value != NULL) {
        printf("Default: ");
        put_text(value);
        printf(".\n");
    }
    flags_env_name(f->name, variable);
    printf("Environment: \\fB%s\\fR.\n", variable);
}

static void put_exit_status(const struct command *c)
{
    printf(".SH EXIT STATUS\n"
           ".TP\n.B 0\nDone.\n.TP\n.B 1\nFailed; standard error says why.\n"
           ".TP\n.B 2\nWrong usage.\n");
    if (c->exit_codes != NULL) {
        printf(".PP\n");
        put_prose(c->exit_codes, ".PP");
    }
}

void flags_print_man(const struct command *c, const void *flags)
{
    put_head(c);
    put_synopsis(c);
    if (c->description != NULL) {
        printf(".SH DESCRIPTION\n");
        put_prose(c->description, ".PP");
    }
    printf(".SH OPTIONS\n");
    for (const struct flag *f = c->flags; f->name != NULL; f++) {
        put_flag(f, flags);
    }
    printf(".TP\n\\fB\\-\\-help\\fR\nPrint a short form of this text.\n"
           ".TP\n\\fB\\-\\-version\\fR\nPrint the version.\n.SH ENVIRONMENT\n");
    put_prose("Each flag can be given as the variable that is named beside it; of lists the items "
              "are separated by commas. An empty variable counts as none. The command line wins.",
              ".PP");
    put_exit_status(c);
    if (c->examples != NULL) {
        printf(".SH EXAMPLES\n");
        put_verbatim(c->examples);
    }
    if (c->see_also != NULL) {
        printf(".SH SEE ALSO\n");
        put_prose(c->see_also, ".PP");
    }
}
