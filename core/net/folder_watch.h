/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folder_watch.h - a hint that something in a folder changed.
 *
 * No more than a hint: the kernel may drop events, network file systems send none for what others
 * do, and a folder that is moved away or replaced is not the one that is watched. Whoever needs to
 * know looks from time to time as well, and watches anew when it looks.
 */
#ifndef CORE_NET_FOLDER_WATCH_H
#define CORE_NET_FOLDER_WATCH_H

#include "base/err.h"
#include "net/loop.h"

struct net_folder_watch;

/* An entry was made, removed, renamed, written to or changed its mode, or the folder itself was
 * touched. `name` is the entry's (or the folder's), valid during the call; NULL: it is not known.
 * May watch anew or free the watch. */
typedef void (*net_folder_watch_cb)(void *data, const char *name);

/* Watches nothing yet. NULL without memory. */
MUST_CHECK struct net_folder_watch *net_folder_watch_new(struct net_loop *l, net_folder_watch_cb cb,
                                                         void *data);
/* Watches what is at `path` now, and no more what was watched before. 0, or a negative code: there
 * is nothing, or too many are watched on this machine; then nothing is watched. */
MUST_CHECK int net_folder_watch_set(struct net_folder_watch *w, const char *path);
/* The callback is not called any more. NULL is ignored. */
void net_folder_watch_free(struct net_folder_watch *w);

#endif
