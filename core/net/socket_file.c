/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket_file.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

int socket_file_address(const char *path, struct sockaddr_un *out, struct err *e)
{
    size_t len = strlen(path);
    if (len == 0) {
        return err_set(e, -EINVAL, "the path of a Unix socket must not be empty");
    }
    if (len >= sizeof out->sun_path) {
        return err_set(e, -ENAMETOOLONG,
                       "%.120s...: the path of a Unix socket may have %zu bytes, this has %zu",
                       path, sizeof out->sun_path - 1, len);
    }
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path, path, len);
    return 0;
}

int socket_file_check(const char *path, struct err *e)
{
    struct sockaddr_un ignored;
    return socket_file_address(path, &ignored, e);
}

static int set_errno_error(const char *path, const char *doing, struct err *e)
{
    int code = -errno;
    return err_set(e, code, "%s %s: %s", doing, path, err_text(code));
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* 0 when the file is a socket on which nobody listens. */
static int probe(const struct sockaddr_un *addr, struct err *e)
{
    const char *path = addr->sun_path;
    int fd = new_socket();
    if (fd < 0) {
        return set_errno_error(path, "cannot create a socket for", e);
    }
    int rc = connect(fd, (const struct sockaddr *)addr, sizeof *addr) == 0 ? 0 : errno;
    (void)close(fd);
    switch (rc) {
    case ECONNREFUSED:
    case ENOENT:
        return 0;
    case 0:
    case EAGAIN: /* more connections wait there than it takes */
        return err_set(e, -EADDRINUSE, "cannot listen on %s: another process is listening on it",
                       path);
    case EPROTOTYPE:
        return err_set(
            e, -EADDRINUSE,
            "cannot listen on %s: it is a socket of another type, which another process may use",
            path);
    default:
        errno = rc;
        return set_errno_error(path, "cannot determine whether a process is listening on", e);
    }
}

static int remove_stale(const struct sockaddr_un *addr, struct err *e)
{
    const char *path = addr->sun_path;
    struct stat st;
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? 0 : set_errno_error(path, "cannot stat", e);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return err_set(e, -EEXIST, "cannot listen on %s: it exists and is not a socket", path);
    }
    int rc = probe(addr, e);
    if (rc == 0 && unlink(path) != 0 && errno != ENOENT) {
        rc = set_errno_error(path, "cannot remove the old socket", e);
    }
    if (rc == 0) {
        log_info("replacing a stale socket", log_str("path", path));
    }
    return rc;
}

/* Remembers which file it is. */
static int identify(struct socket_file *f, struct err *e)
{
    struct stat st;
    if (lstat(f->path, &st) != 0) {
        return set_errno_error(f->path, "cannot stat", e);
    }
    f->device = st.st_dev;
    f->inode = st.st_ino;
    return 0;
}

int socket_file_bind(struct socket_file *f, const char *path, struct err *e)
{
    struct sockaddr_un addr;
    int rc = socket_file_address(path, &addr, e);
    if (rc == 0) {
        rc = remove_stale(&addr, e);
    }
    if (rc != 0) {
        return rc;
    }
    memcpy(f->path, addr.sun_path, sizeof f->path);
    int fd = new_socket();
    /* Linux gives the file the socket's own mode, less the umask: it is never open to others. */
    if (fd < 0 || fchmod(fd, S_IRUSR | S_IWUSR) != 0 ||
        bind(fd, (const struct sockaddr *)&addr, sizeof addr) != 0) {
        rc = set_errno_error(path, "cannot listen on", e);
    } else {
        rc = identify(f, e);
    }
    if (rc != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return rc;
    }
    return fd;
}

void socket_file_remove(const struct socket_file *f)
{
    struct stat st;
    if (lstat(f->path, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode) {
        (void)unlink(f->path);
    }
}
