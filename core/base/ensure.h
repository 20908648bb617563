/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ensure.h - the two kinds of assertion. Both are checked in every build.
 *
 * `ensure` is for what must never be: memory or state is corrupt, and going on would make it worse.
 * It logs and aborts. `odd` is for what should not be and can be survived: it logs, and the caller
 * takes the safe way; with CMESH_STRICT, as tests are built, it aborts too.
 *
 *     ensure(c->refs > 0);
 *     if (odd(x->sent_end)) {
 *         return -EINVAL;
 *     }
 *
 * Neither is for what comes from outside (network, files, flags) or for memory that runs out.
 */
#ifndef CORE_BASE_ENSURE_H
#define CORE_BASE_ENSURE_H

#include <stdbool.h>

#define ensure(condition)                                                                          \
    ((condition) ? (void)0 : ensure_failed(#condition, __func__, __FILE__, __LINE__))

/* Whether `condition`, which is not expected, holds. */
#define odd(condition) ((condition) && odd_found(#condition, __func__, __FILE__, __LINE__))

_Noreturn void ensure_failed(const char *condition, const char *function, const char *file,
                             int line);
/* True. */
bool odd_found(const char *condition, const char *function, const char *file, int line);

#endif
