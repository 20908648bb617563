/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/log.h"

static int exit_code = EXIT_FAILURE;

void xalloc_set_exit_code(int code)
{
    exit_code = code;
}

void xalloc_end(void)
{
    log_error("out of memory", log_str("effect", "the process exits"));
#ifdef CMESH_STRICT
    abort(); /* nothing that comes from outside may bring it here: fuzzing looks for that */
#else
    _exit(exit_code);
#endif
}

static void *have(void *p)
{
    if (p == NULL) {
        xalloc_end();
    }
    return p;
}

void *xmalloc(size_t size)
{
    return have(malloc(size));
}

void *xcalloc(size_t count, size_t size)
{
    return have(calloc(count, size));
}

void *xrealloc(void *old, size_t size)
{
    return have(realloc(old, size));
}

char *xstrdup(const char *text)
{
    return have(strdup(text));
}

char *xstrndup(const char *text, size_t len)
{
    return have(strndup(text, len));
}

char *xasprintf(const char *fmt, ...)
{
    char *out = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&out, fmt, ap);
    va_end(ap);
    return have(n < 0 ? NULL : out);
}

void xalloc_use_for_json(void)
{
    cJSON_Hooks hooks = {.malloc_fn = xmalloc, .free_fn = free};
    cJSON_InitHooks(&hooks);
}
