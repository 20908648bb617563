/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain_path.h - a URL's path in the form in which paths are compared.
 *
 * Servers differ in which of "/a/b", "/a//b", "/a/./b", "/a/x/../b", "/a%2Fb" and "/%61/b" they
 * take for one; here all are. Escapes are decoded once, each of them; then empty segments and those
 * with one dot are left out, and those with two take the one before them along. "/a/" is another
 * one than "/a". RFC 3986 section 6.2.2.
 */
#ifndef CORE_TRAFFIC_PLAIN_PATH_H
#define CORE_TRAFFIC_PLAIN_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

#define PLAIN_PATH_MAX 4096

struct plain_path {
    size_t len;
    bool whole; /* else it is longer, and the text the beginning of it */
    char text[PLAIN_PATH_MAX];
};

/* Of a path from "/" up to the query; of an empty one "/". */
void plain_path_read(struct plain_path *p, struct slice path);

#endif
