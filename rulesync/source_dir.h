/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_dir.h - rules and traffic policies from a mounted ConfigMap, or rules from any file.
 *
 * The kubelet keeps the keys of a mounted ConfigMap behind a symbolic link, `..data`, and puts all
 * of them in place at once by renaming a new link over it. So the folder is watched, and what it
 * leads to is compared every 10 s too, since events can be missed. A folder that goes away and
 * comes back, or comes later, is found the same way. In other folders, traffic policies that are
 * gone are looked for twice: an editor may be about to put them back.
 *
 * What cannot be watched is compared each second, and each time a watch is tried again: the kernel
 * lets all processes of a user on a node have no more than fs.inotify.max_user_instances of 128
 * together, so others can use them up (inotify(7)).
 *
 * Source: AtomicWriter in kubernetes/pkg/volume/util/atomic_writer.go.
 */
#ifndef RULESYNC_SOURCE_DIR_H
#define RULESYNC_SOURCE_DIR_H

#include <stdint.h>

#include "net/loop.h"
#include "source.h"

struct source_dir;

/* Zero: the default. */
struct source_dir_options {
    const char *path; /* a folder that holds the keys, or a file; need not exist yet; copied */
    struct source_taker traffic;
    const char *mountinfo; /* /proc/self/mountinfo */
    uint64_t look_ms;      /* between two looks without an event; 10,000 */
    uint64_t blind_ms;     /* the same where nothing can be watched; 1,000 */
    uint64_t settle_ms;    /* from an event to the look, so that a burst is one; 50 */
    uint64_t retry_ms;     /* from one look at a half-written file to the next; 200 */
};

/* Looks first when the loop runs. NULL with `e` set: out of memory, a path too long. */
MUST_CHECK struct source_dir *source_dir_new(struct net_loop *l, const struct source_dir_options *o,
                                             const struct source_handlers *h, void *data,
                                             struct err *e);
/* Looks again when the loop runs, and reads what is there even if it did not change. */
void source_dir_look(struct source_dir *s);
/* NULL is ignored. */
void source_dir_free(struct source_dir *s);

#endif
