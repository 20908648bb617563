/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - finds the command. Without one the manager runs.
 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/flags.h"
#include "compile/compile_flags.h"
#include "compile/coverage_flags.h"
#include "label/unlabel_flags.h"
#include "run/run.h"

struct subcommand {
    const char *name;
    int (*main)(int argc, char **argv);
};

static const struct subcommand commands[] = {
    {"compile", compile_main},
    {"coverage", coverage_main},
    {"unlabel", unlabel_main},
};

int main(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-') {
        return run_main(argc, argv);
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            argv[1] = argv[0];
            return commands[i].main(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "manager: there is no command \"%s\"; there are:", argv[1]);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", commands[i].name);
    }
    fprintf(stderr, "\nRun \"manager --help\" for commands and flags.\n");
    return EXIT_USAGE;
}
