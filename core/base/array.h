/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array.h - the length of an array, which must not have become a pointer, and what is in it.
 */
#ifndef CORE_BASE_ARRAY_H
#define CORE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Whether one of these texts is that one. They end with `count`, or with NULL. */
static inline bool array_has(const char *const *texts, size_t count, const char *text)
{
    size_t i = 0;
    while (i < count && texts[i] != NULL && strcmp(texts[i], text) != 0) {
        i++;
    }
    return i < count && texts[i] != NULL;
}
#define ARRAY_HAS(texts, text) array_has(texts, ARRAY_LEN(texts), text)

/* For qsort and bsearch of texts: by byte. */
static inline int array_compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#endif
