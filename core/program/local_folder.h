/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_folder.h - where localproxy and kubeconfig-gen, run by one user, find what they share
 * without being told.
 *
 * It is the user's alone: a folder or file that is somebody else's, that others may write or read,
 * or that is a symbolic link, is refused and never changed.
 */
#ifndef CORE_PROGRAM_LOCAL_FOLDER_H
#define CORE_PROGRAM_LOCAL_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* $XDG_STATE_HOME/cmesh; of root, whose HOME is not always its own, /var/lib/cmesh; of others
 * ~/.local/state/cmesh. A path that is not absolute counts as none (XDG Base Directory
 * Specification 0.8). NULL with `e` set: there is none (-ENOENT), -ENOMEM. The caller frees. */
MUST_CHECK char *local_folder_path(const char *state_home, const char *home, uid_t user,
                                   struct err *e);

/* The folder of the process's user, which is made, mode 0700, where it is missing. NULL with `e`
 * set: also when it cannot be made, or is not the user's alone. The caller frees. */
MUST_CHECK char *local_folder_open(struct err *e);

/* Whether the folder at `path` is the user's alone; it is made where it is missing, and so are
 * those above it. */
MUST_CHECK int local_folder_make(const char *path, struct err *e);

/* Whether the file is the user's alone, or is missing. */
MUST_CHECK int local_folder_check_file(const char *path, struct err *e);

#endif
