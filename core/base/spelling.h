/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spelling.h - how alike two words are, for "is ... meant?".
 */
#ifndef CORE_BASE_SPELLING_H
#define CORE_BASE_SPELLING_H

#define SPELLING_MAX 319 /* letters that are compared */
#define SPELLING_NEAR 3  /* the distance up to which one is likely meant by the other */

/* How many letters differ, are missing, are too many, or have changed places with their neighbour
 * (the restricted Damerau-Levenshtein distance). A longer word is like no other. */
unsigned spelling_distance(const char *a, const char *b);

#endif
