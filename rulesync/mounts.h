/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts.h - recognises mounts of ConfigMaps that never show a change.
 *
 * With `subPath` the kubelet mounts what the ConfigMap held when the container started; an update
 * makes new files elsewhere. https://kubernetes.io/docs/concepts/storage/volumes/#configmap
 */
#ifndef RULESYNC_MOUNTS_H
#define RULESYNC_MOUNTS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

/* Whether the file, or the folder it is in, is such a mount; then `why` says what to do. Paths
 * are absolute and without symbolic links but the file itself. `mountinfo`: the text of
 * /proc/self/mountinfo, see proc(5). */
bool mounts_never_update(struct slice mountinfo, const char *folder, const char *file,
                         char why[ERR_MSG_MAX]);

#endif
