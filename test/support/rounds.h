/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rounds.h - how long a test of random or of very many cases plays: some seconds at most, or as
 * long as it takes with CMESH_LONG in the environment, as the preset release and `test/run` have
 * it.
 */
#ifndef TEST_SUPPORT_ROUNDS_H
#define TEST_SUPPORT_ROUNDS_H

#include <stdint.h>
#include <stdlib.h>

static inline unsigned rounds(unsigned few, unsigned many)
{
    return getenv("CMESH_LONG") != NULL ? many : few;
}

/* A number in the environment, such as CMESH_SEED. */
__attribute__((unused)) static uint64_t rounds_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

#endif
