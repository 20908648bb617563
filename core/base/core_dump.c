/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core_dump.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/log.h"

void core_dump_forbid(void)
{
    static const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    /* A core_pattern that is a pipe does not look at the limit, but at this. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        log_warn("cannot hide the memory of this process", log_str("error", strerror(errno)));
    }
    if (setrlimit(RLIMIT_CORE, &none) != 0) {
        log_warn("cannot switch core dumps off", log_str("error", strerror(errno)));
    }
}
