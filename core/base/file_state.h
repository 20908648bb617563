/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_state.h - whether a file is another one than before, or was written to.
 *
 * Follows symbolic links, so that a folder swapped by the kubelet shows as new files.
 */
#ifndef CORE_BASE_FILE_STATE_H
#define CORE_BASE_FILE_STATE_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct file_state {
    dev_t dev;
    ino_t ino; /* 0: nothing is known; the next look says "changed" */
    off_t size;
    struct timespec modified;
    struct timespec changed;
};

/* True when the file is not as `state` has it, which is brought up to date; true as well while it
 * cannot be looked at (whoever reads it finds out why). */
bool file_state_changed(struct file_state *state, const char *path);

#endif
