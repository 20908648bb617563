/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - finds the command. Without one the manager runs.
 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/flags.h"
#include "base/spelling.h"
#include "base/xalloc.h"
#include "commands/check_operator_flags.h"
#include "commands/compile_flags.h"
#include "commands/coverage_flags.h"
#include "commands/unlabel_flags.h"
#include "run/run.h"

struct subcommand {
    const char *name;
    int (*main)(int argc, char **argv);
};

static const struct subcommand commands[] = {
    {"check-operator", check_operator_main},
    {"compile", compile_main},
    {"coverage", coverage_main},
    {"unlabel", unlabel_main},
};

/* What is most like it, or a flag without its dashes; NULL: nothing is. */
static const char *meant_by(const char *name)
{
    unsigned best = SPELLING_NEAR + 1;
    const char *meant = strcmp(name, "help") == 0      ? "--help"
                        : strcmp(name, "version") == 0 ? "--version"
                                                       : NULL;
    for (size_t i = 0; i < ARRAY_LEN(commands) && meant == NULL; i++) {
        unsigned distance = spelling_distance(name, commands[i].name);
        if (distance < best) {
            best = distance;
            meant = commands[i].name;
        }
    }
    return meant;
}

static int refuse(const char *name)
{
    const char *meant = meant_by(name);
    fprintf(stderr, "manager: there is no command \"%s\"; there are:", name);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", commands[i].name);
    }
    if (meant != NULL) {
        fprintf(stderr, "; is \"manager %s\" meant?", meant);
    }
    fprintf(stderr, "\nRun \"manager --help\" for commands and flags.\n");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    xalloc_use_for_json();
    if (argc < 2 || argv[1][0] == '-') {
        return run_main(argc, argv);
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            argv[1] = argv[0];
            return commands[i].main(argc - 1, argv + 1);
        }
    }
    return refuse(argv[1]);
}
