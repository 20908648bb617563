/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_file.h - the file by which a Unix socket is found.
 */
#ifndef CORE_NET_SOCKET_FILE_H
#define CORE_NET_SOCKET_FILE_H

#include <sys/types.h>
#include <sys/un.h>

#include "base/err.h"

/* Bytes of a path, the NUL included: unix(7). */
#define SOCKET_FILE_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

struct socket_file {
    char path[SOCKET_FILE_PATH_SIZE];
    dev_t device; /* with inode: which file it is */
    ino_t inode;
};

/* 0, or -EINVAL or -ENAMETOOLONG with the message. */
MUST_CHECK int socket_file_address(const char *path, struct sockaddr_un *out, struct err *e);
/* The same, to learn only whether a socket can have this path. */
MUST_CHECK int socket_file_check(const char *path, struct err *e);

/* Makes the file, of mode 0600 from its first moment, and returns a socket bound to it. A socket
 * left by a process that is gone is replaced. Negative with `e` set: somebody listens there
 * (-EADDRINUSE), the path is no socket (-EEXIST; it is left alone), or what the system says. */
MUST_CHECK int socket_file_bind(struct socket_file *f, const char *path, struct err *e);

/* Removes the file, unless another has taken its place. */
void socket_file_remove(const struct socket_file *f);

#endif
