/* SPDX-License-Identifier: Apache-2.0 */
/*
 * condition.h - something that is wrong for now: its latest words, and when they are worth a line
 * in the log.
 */
#ifndef CORE_BASE_CONDITION_H
#define CORE_BASE_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The same words are logged again after so long. */
#define CONDITION_REPEAT_MS (10 * 60 * 1000)

/* Zero: all is well. */
struct condition {
    bool open;
    char text[ERR_MSG_MAX];
    int64_t since; /* seconds since 1970: raised first, and with these words or others last */
    int64_t last;
    uint64_t logged_ms;
};

/* `now_ms` is net_loop_now(). True: log it, for these words are new or were not said for long. */
bool condition_raise(struct condition *c, uint64_t now_ms, const char *text);
/* All is well. True: it was not before. Text and times stay, for those who ask what was. */
bool condition_clear(struct condition *c);

#endif
