/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_paths.h - the folders of the sidecars, where nothing of the pod may be mounted.
 */
#ifndef MANAGER_INJECT_INJECT_PATHS_H
#define MANAGER_INJECT_INJECT_PATHS_H

#include <stdbool.h>

#define INJECT_RUN_DIR "/run/cmesh"       /* control socket, token, what clients have seen */
#define INJECT_STATE_DIR "/var/lib/cmesh" /* the last known good rules */
#define INJECT_ETC_DIR "/etc/cmesh"       /* rules as published, kubeconfigs */

/* Why a mount at that absolute path would touch one of them, for "<path> ..."; NULL: it does not.
 * It may be one of them, be in one, or hold one, by whatever name: /var/run is /run. */
const char *inject_paths_refuse(const char *path);

/* Whether two paths are the same, /var/run being /run. */
bool inject_paths_equal(const char *a, const char *b);

/* Whether a path is that folder or in it, /var/run being /run. */
bool inject_paths_in_linked(const char *path, const char *folder);

/* Whether a path is that folder or in it, however many slashes and dots it is written with. */
bool inject_paths_in(const char *path, const char *folder);

#endif
