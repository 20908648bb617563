/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_rules.c - reads a rules document as all programs do, and prints what that took:
 * "CPU ms, KiB of memory at most: what is wrong with it".
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sys/resource.h>

#include "base/file.h"
#include "rules/rules.h"

static long memory_kib(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
}

int main(int argc, char **argv)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    if (argc != 2 || file_read(argv[1], &text, &e) != 0) {
        (void)fprintf(stderr, "usage: read_rules FILE: %s\n", e.msg);
        return EXIT_FAILURE;
    }
    clock_t began = clock();
    struct rules *rules = rules_parse((const char *)buf_data(&text), text.len, &e);
    long ms = (long)((clock() - began) * 1000 / CLOCKS_PER_SEC);
    printf("%ld ms, %ld KiB: %s\n", ms, memory_kib(), rules != NULL ? "" : e.msg);
    rules_unref(rules);
    buf_reset(&text);
    return EXIT_SUCCESS;
}
