/* SPDX-License-Identifier: Apache-2.0 */
#include "test_main.h"

#include <stdio.h>
#include <string.h>

static struct test_main *tests;
static struct test_main **end = &tests;

void test_main_add(struct test_main *t)
{
    *end = t;
    end = &t->next;
}

int main(int argc, char **argv)
{
    for (const struct test_main *t = tests; t != NULL; t = t->next) {
        if (argc == 2 && strcmp(t->name, argv[1]) == 0) {
            return t->run();
        }
    }
    (void)fprintf(stderr, "Usage: %s TEST, which is one of:\n", argv[0]);
    for (const struct test_main *t = tests; t != NULL; t = t->next) {
        (void)fprintf(stderr, "  %s\n", t->name);
    }
    return 2;
}
