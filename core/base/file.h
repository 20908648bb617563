/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - whole small files: read with a bound, written so that no reader sees half of one.
 *
 * These calls block; they are meant for configuration and credentials, not for the data path.
 */
#ifndef CORE_BASE_FILE_H
#define CORE_BASE_FILE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the file's content to `out`. Errors name the path: missing, unreadable, a directory,
 * larger than the buffer's maximum (-ENOBUFS). */
MUST_CHECK int file_read(const char *path, struct buf *out, struct err *e);

/* Writes beside the target, syncs, renames over it: a symbolic link is replaced, not followed; what
 * is no regular file is refused. `mode` is set whatever the umask. On error the target is as it was
 * and no temporary file stays. */
MUST_CHECK int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
                                 struct err *e);

/* The same without syncing: when the machine stops, what was there or nothing may be left of it. */
MUST_CHECK int file_replace(const char *path, const void *data, size_t len, mode_t mode,
                            struct err *e);

/* Whether file_write_atomic can make or replace the file, as far as that shows beforehand. */
MUST_CHECK int file_check_writable(const char *path, struct err *e);

/* Joins a relative `path` to the folder of the file `base`; copies an absolute one. The caller
 * frees; NULL without memory. */
MUST_CHECK char *file_resolve(const char *base, const char *path);

#endif
