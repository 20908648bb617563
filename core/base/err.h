/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - what went wrong, in words a user can act on.
 *
 * A function that can fail for a reason the user must learn takes a `struct err *` and returns a
 * negative errno or libuv code. The struct is bounded, holds no pointers and may live on the stack.
 * Never put a credential into a message.
 */
#ifndef CORE_BASE_ERR_H
#define CORE_BASE_ERR_H

#define ERR_MSG_MAX 512

/* Marks functions whose result must be looked at. */
#define MUST_CHECK __attribute__((warn_unused_result))

struct err {
    int code; /* negative errno or libuv code; 0: no error */
    char msg[ERR_MSG_MAX];
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        .code = 0, .msg = ""                                                                       \
    }

/* As ERR_INIT, without writing all of it: for what is done with every message, and mostly well. */
static inline void err_clear(struct err *e)
{
    e->code = 0;
    e->msg[0] = '\0';
}

/* Sets code and message (cut to fit, never split inside a UTF-8 sequence); returns `code`.
 * `e` may be NULL: then only the code is returned. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same for want of memory. Returns -ENOMEM. */
int err_memory(struct err *e);

/* Puts "<text>: " before the message that is there, for context: which file, which field. */
void err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The system's words for a negative errno or libuv code. */
const char *err_text(int code);

#endif
