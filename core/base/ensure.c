/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ensure.h"

#include <stdlib.h>

#include "base/log.h"

void ensure_failed(const char *condition, const char *function, const char *file, int line)
{
    log_error("assertion failed", log_str("condition", condition), log_str("function", function),
              log_str("file", file), log_num("line", line));
    abort();
}

bool odd_found(const char *condition, const char *function, const char *file, int line)
{
    log_error("unexpected internal state", log_str("condition", condition),
              log_str("function", function), log_str("file", file), log_num("line", line));
#ifdef CMESH_STRICT
    abort();
#else
    return true;
#endif
}
