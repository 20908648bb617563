/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_STEP = 16 * 1024, WRITER_MS = 3000 };

/* Waits for a writer, or for what one writes. False: nobody came in time. */
static bool wait_for_writer(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc;
    do {
        rc = poll(&p, 1, ms);
    } while (rc < 0 && errno == EINTR);
    return rc != 0;
}

static int read_step(int fd, const char *path, struct buf *out, bool *more, struct err *e)
{
    size_t room = out->max - out->len;
    size_t want = room < READ_STEP ? room + 1 : READ_STEP;
    uint8_t step[READ_STEP + 1];
    ssize_t n = read(fd, step, want);
    *more = n != 0;
    if (n < 0 && errno == EAGAIN) {
        (void)wait_for_writer(fd, -1); /* it takes its time */
        return 0;
    }
    if (n < 0 && errno != EINTR) {
        return err_set(e, -errno, "%s: cannot read: %s", path, strerror(errno));
    }
    int rc = n <= 0 ? 0 : buf_append(out, step, (size_t)n);
    if (rc == -ENOBUFS) {
        return err_set(e, rc, "%s: larger than the limit of %zu bytes", path, out->max);
    }
    return rc == 0 ? 0 : err_set(e, rc, "%s: out of memory", path);
}

/* A pipe that nobody writes to must not hold up the program. */
static int read_all(int fd, const char *path, struct buf *out, struct err *e)
{
    struct stat st;
    bool pipe = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
    bool late = pipe && !wait_for_writer(fd, WRITER_MS);
    size_t before = out->len;
    bool more = true;
    int rc = pipe || fcntl(fd, F_SETFL, 0) == 0 ? 0 : -errno;
    while (rc == 0 && more) {
        rc = read_step(fd, path, out, &more, e);
    }
    return rc == 0 && late && out->len == before
               ? err_set(e, -ENXIO, "%s: cannot read: nobody writes to this pipe", path)
               : rc;
}

int file_read(const char *path, struct buf *out, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is opened without a writer */
    if (fd < 0) {
        return err_set(e, -errno, "%s: cannot open: %s", path, strerror(errno));
    }
    int rc = read_all(fd, path, out, e);
    (void)close(fd);
    return rc;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Makes the rename itself durable. Some file systems refuse to sync a folder: not an error. */
static void sync_folder_of(const char *path)
{
    char *folder = file_resolve(path, ".");
    if (folder == NULL) {
        return;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
    free(folder);
}

/* Renaming over a device or a pipe (/dev/stdout, say) would replace it for everybody. */
static int check_target(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return err_set(e, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, "%s: not a regular file", path);
    }
    return 0;
}

int file_check_writable(const char *path, struct err *e)
{
    int rc = check_target(path, e);
    if (rc != 0) {
        return rc;
    }
    char *folder = file_resolve(path, ".");
    if (folder == NULL) {
        return err_memory(e);
    }
    rc = access(folder, W_OK | X_OK) == 0 ? 0 : -errno;
    free(folder);
    return rc == 0 ? 0 : err_set(e, rc, "%s: its folder: %s", path, strerror(-rc));
}

static int replace(const char *path, struct slice text, mode_t mode, bool durable, struct err *e)
{
    int rc = check_target(path, e);
    if (rc != 0) {
        return rc;
    }
    char *tmp = NULL;
    if (asprintf(&tmp, "%s.XXXXXX", path) < 0) {
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    }
    int fd = mkostemp(tmp, O_CLOEXEC);
    if (fd < 0) {
        rc = err_set(e, -errno, "%s: cannot create a temporary file next to it: %s", path,
                     strerror(errno));
        free(tmp);
        return rc;
    }
    rc = write_all(fd, text.ptr, text.len);
    if (rc == 0 && (fchmod(fd, mode) != 0 || (durable && fsync(fd) != 0))) {
        rc = -errno;
    }
    if (close(fd) != 0 && rc == 0) {
        rc = -errno;
    }
    if (rc == 0 && rename(tmp, path) != 0) {
        rc = -errno;
    }
    if (rc != 0) {
        (void)unlink(tmp);
        err_set(e, rc, "%s: cannot write: %s", path, strerror(-rc));
    } else if (durable) {
        sync_folder_of(path);
    }
    free(tmp);
    return rc;
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
    return replace(path, slice_of(data, len), mode, true, e);
}

int file_replace(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
    return replace(path, slice_of(data, len), mode, false, e);
}

char *file_resolve(const char *base, const char *path)
{
    const char *slash = strrchr(base, '/');
    if (path[0] == '/' || slash == NULL) {
        return strdup(path);
    }
    char *joined = NULL;
    int n = asprintf(&joined, "%.*s/%s", (int)(slash - base), base, path);
    return n < 0 ? NULL : joined;
}
