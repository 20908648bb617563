/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc_sweep.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

volatile long sweep_left = -1;
volatile bool sweep_failed;

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

long sweep_allocations(bool (*scenario)(void *data), void *data)
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
