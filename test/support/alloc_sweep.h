/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_sweep.h - fails the first allocation of a scenario, then the second, and so on, until the
 * scenario needs no more. For a test linked with cmesh_sweep_allocations(); include it once.
 *
 * What libraries allocate inside of themselves does not fail, but for cJSON.
 */
#ifndef TEST_SUPPORT_ALLOC_SWEEP_H
#define TEST_SUPPORT_ALLOC_SWEEP_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "alloc_pause.h"

/* Volatile, for compilers know that the real functions change neither.
 * sweep_left: allocations until the one that fails; negative: none fails. */
static volatile long sweep_left = -1;
static volatile bool sweep_failed;

static bool sweep_fails(void)
{
    if (sweep_left < 0 || sweep_left-- > 0) {
        return false;
    }
    sweep_failed = true;
    errno = ENOMEM;
    return true;
}

long alloc_sweep_pause(void)
{
    long left = sweep_left;
    sweep_left = -1;
    return left;
}

void alloc_sweep_resume(long paused)
{
    sweep_left = paused;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
int __wrap_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void *__wrap_malloc(size_t size)
{
    return sweep_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return sweep_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return sweep_fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return sweep_fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
    return sweep_fails() ? NULL : __real_strndup(text, len);
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
    if (sweep_fails()) {
        *out = (char *)(size_t)1; /* undefined after a failure: whoever uses it shall crash */
        return -1;
    }
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(out, fmt, ap);
    va_end(ap);
    return n;
}

/* Runs `scenario` again and again. It returns false when it met an error; true when all went well,
 * which is only right when nothing failed, or when it can do without what failed. The number of
 * allocations that were made to fail. */
__attribute__((unused)) static long sweep_allocations(bool (*scenario)(void *data), void *data)
{
    cJSON_Hooks hooks = {.malloc_fn = __wrap_malloc, .free_fn = free};
    cJSON_InitHooks(&hooks);
    long n = 0;
    for (;; n++) {
        sweep_failed = false;
        sweep_left = n;
        bool well = scenario(data);
        sweep_left = -1;
        if (!sweep_failed) {
            if (!well) {
                (void)fprintf(stderr, "the scenario fails by itself\n");
                n = -1;
            }
            break;
        }
    }
    cJSON_InitHooks(NULL);
    return n;
}

#endif
