/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_head.h - what the text of an object says at its beginning, read before anything is built
 * of it: of which namespace it is, and of which version.
 *
 * For whoever wants few of many objects. API servers write the metadata in front of all that is
 * large; of what is written in another way nothing is said here, and that is no error: json_parse
 * tells.
 */
#ifndef CORE_KUBE_CLIENT_OBJECT_HEAD_H
#define CORE_KUBE_CLIENT_OBJECT_HEAD_H

#include <stdbool.h>

#include "base/slice.h"

/* Longest namespace: bytes. A label as in RFC 1123. */
#define OBJECT_NAMESPACE_MAX 63

struct object_head {
    char ns[OBJECT_NAMESPACE_MAX + 1]; /* not empty */
    struct slice version;              /* resourceVersion, 1 to RESOURCE_VERSION_MAX bytes */
};

/* Of an object in JSON. False: nothing is said. What follows the metadata is not looked at. */
bool object_head_read(struct slice text, struct object_head *out);
/* The same of an event of a watch, ADDED, MODIFIED or DELETED. */
bool object_head_of_event(struct slice line, struct object_head *out);

#endif
