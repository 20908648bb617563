/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xalloc.h - memory for the manager, which exits when there is none: the kubelet starts it again,
 * another replica leads meanwhile, and proxies keep the rules that they have. So no decision is
 * ever made from half of the facts.
 *
 * Programs that carry the traffic of others (localproxy, rulesync) do not use it: they give up what
 * asked for the memory and go on.
 *
 *     c->name = xstrdup(name);                                never NULL
 *     t = xptr(selector_copy(s));                             NULL only without memory
 *     xok(table_put(&w->pods, &p->node));                     fails only without memory
 *     rc = xrc(json_canonical(document, &text));              fails for other reasons, too
 *     if ((s = selector_parse(text, e)) == NULL) {            the same, where `e` says why
 *         xerr(e);
 *     }
 */
#ifndef CORE_BASE_XALLOC_H
#define CORE_BASE_XALLOC_H

#include <errno.h>
#include <stddef.h>

#include "base/err.h"

/* Logs, and exits with 1, or with the code that was set; with CMESH_STRICT it aborts. Nothing is
 * freed or written any more. */
_Noreturn void xalloc_end(void);

/* For a command whose exit code 1 means something else. */
void xalloc_set_exit_code(int code);

/* As their namesakes in the C library. The caller frees. */
MUST_CHECK void *xmalloc(size_t size) __attribute__((returns_nonnull, malloc));
MUST_CHECK void *xcalloc(size_t count, size_t size) __attribute__((returns_nonnull, malloc));
MUST_CHECK void *xrealloc(void *old, size_t size) __attribute__((returns_nonnull));
MUST_CHECK char *xstrdup(const char *text) __attribute__((returns_nonnull, malloc));
MUST_CHECK char *xstrndup(const char *text, size_t len) __attribute__((returns_nonnull, malloc));
MUST_CHECK char *xasprintf(const char *fmt, ...)
    __attribute__((returns_nonnull, malloc, format(printf, 1, 2)));

/* cJSON's trees come from xmalloc from now on: its functions do not fail for want of memory. */
void xalloc_use_for_json(void);

/* The result of a function that is NULL only without memory. */
#define xptr(p)                                                                                    \
    (__extension__({                                                                               \
        __typeof__(p) xptr_got = (p);                                                              \
        if (xptr_got == NULL) {                                                                    \
            xalloc_end();                                                                          \
        }                                                                                          \
        xptr_got;                                                                                  \
    }))

/* Takes the result of a function that fails only without memory. */
static inline void xok(int rc)
{
    if (rc < 0) {
        xalloc_end();
    }
}

/* The result of a function that fails without memory, with -ENOMEM, and for other reasons. */
MUST_CHECK static inline int xrc(int rc)
{
    if (rc == -ENOMEM) {
        xalloc_end();
    }
    return rc;
}

/* The same after a function that failed and set `e`. */
static inline void xerr(const struct err *e)
{
    if (e->code == -ENOMEM) {
        xalloc_end();
    }
}

#endif
