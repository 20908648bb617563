/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_state.h"

#include <sys/stat.h>

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool file_state_changed(struct file_state *state, const char *path)
{
    struct stat st;
    struct file_state now = {.ino = 0};
    if (stat(path, &st) == 0) {
        now = (struct file_state){
            .dev = st.st_dev,
            .ino = st.st_ino,
            .size = st.st_size,
            .modified = st.st_mtim,
            .changed = st.st_ctim,
        };
    }
    bool same = now.ino != 0 && now.dev == state->dev && now.ino == state->ino &&
                now.size == state->size && same_time(now.modified, state->modified) &&
                same_time(now.changed, state->changed);
    *state = now;
    return !same;
}
