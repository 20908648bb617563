/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>

/* Cuts a UTF-8 sequence that the bound tore apart at the end of a full message. */
static void trim_torn_utf8(char *msg)
{
    size_t len = strlen(msg);
    if (len + 1 < ERR_MSG_MAX) {
        return;
    }
    size_t start = len;
    while (start > 0 && ((unsigned char)msg[start - 1] & 0xc0) == 0x80) {
        start--;
    }
    if (start > 0 && ((unsigned char)msg[start - 1] & 0x80) != 0) {
        msg[start - 1] = '\0';
    }
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e != NULL) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        va_end(ap);
        e->code = code;
        trim_torn_utf8(e->msg);
    }
    return code;
}

void err_prefix(struct err *e, const char *fmt, ...)
{
    if (e == NULL) {
        return;
    }
    char old[ERR_MSG_MAX];
    memcpy(old, e->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg) {
        size_t at = (size_t)n;
        const char *sep = ": ";
        while (*sep != '\0' && at + 1 < sizeof e->msg) {
            e->msg[at++] = *sep++;
        }
        for (const char *p = old; *p != '\0' && at + 1 < sizeof e->msg; p++) {
            e->msg[at++] = *p;
        }
        e->msg[at] = '\0';
    }
    trim_torn_utf8(e->msg);
}

/* libuv's words, from its own table: uv_strerror would allocate for a code that is not in it. */
const char *err_text(int code)
{
#define TEXT_OF(name, text)                                                                        \
    case UV_##name:                                                                                \
        return text;
    switch (code) {
        UV_ERRNO_MAP(TEXT_OF)
    default:
        return strerror(-code);
    }
#undef TEXT_OF
}

int err_memory(struct err *e)
{
    return err_set(e, -ENOMEM, "out of memory");
}
