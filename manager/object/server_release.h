/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_release.h - compares what an API server says of its version with a release of Kubernetes.
 */
#ifndef MANAGER_OBJECT_SERVER_RELEASE_H
#define MANAGER_OBJECT_SERVER_RELEASE_H

#include <stdbool.h>

/* Whether it is Kubernetes 1.`least` or later. `major` and `minor` as /version has them: "1",
 * "29+"; what is no number is taken for an old one. */
bool server_release_at_least(const char *major, const char *minor, long least);

#endif
