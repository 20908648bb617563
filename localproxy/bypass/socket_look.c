/* SPDX-License-Identifier: Apache-2.0 */
#include "bypass/socket_look.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"

#define FOLDER "/proc/self/fd"

enum {
    TEXT_MAX = 16 * 1024 * 1024, /* 150 to 180 bytes for each socket, closed a moment ago or not */
    OWN_MAX = 65536,
    FIRST_ROOM = 64,
};

/* ---- all connections ---- */

/* A kernel without IPv6 has no file for it. */
static int add_file(struct socket_table *t, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    struct err why = ERR_INIT;
    int rc = file_read(path, &text, &why);
    if (rc == 0) {
        rc = socket_table_add(t, buf_slice(&text));
        if (rc != 0) {
            (void)err_set(&why, rc, "%s: %s", path,
                          rc == -EPROTO ? "is of an unknown form" : strerror(-rc));
        }
    }
    buf_reset(&text);
    return rc == 0 || rc == -ENOENT ? 0 : err_set(e, rc, "%s", why.msg);
}

static int read_table(struct socket_table *t, struct err *e)
{
    static const char *const files[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        int rc = add_file(t, files[i], e);
        if (rc != 0) {
            return rc;
        }
    }
    socket_table_sort(t);
    return 0;
}

/* ---- our own ---- */

static int compare_inodes(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static int append(struct socket_look *look, size_t *room, uint64_t inode)
{
    if (look->own_count == OWN_MAX) {
        return -ENOBUFS;
    }
    if (look->own_count == *room) {
        size_t more = *room == 0 ? FIRST_ROOM : 2 * *room;
        uint64_t *own = realloc(look->own, more * sizeof *own);
        if (own == NULL) {
            return -ENOMEM;
        }
        look->own = own;
        *room = more;
    }
    look->own[look->own_count++] = inode;
    return 0;
}

/* What is no number, or was closed meanwhile, is no socket. */
static int add_descriptor(struct socket_look *look, size_t *room, const char *name)
{
    char *end = NULL;
    long fd = strtol(name, &end, 10);
    struct stat st;
    if (end == name || *end != '\0' || fstat((int)fd, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        return 0;
    }
    return append(look, room, st.st_ino);
}

static int read_own(struct socket_look *look, struct err *e)
{
    DIR *folder = opendir(FOLDER);
    size_t room = 0;
    int rc = 0;
    if (folder == NULL) {
        return err_set(e, -errno, FOLDER ": cannot open: %s", strerror(errno));
    }
    for (const struct dirent *d = readdir(folder); d != NULL && rc == 0; d = readdir(folder)) {
        rc = add_descriptor(look, &room, d->d_name);
    }
    (void)closedir(folder);
    if (look->own_count > 1) {
        qsort(look->own, look->own_count, sizeof *look->own, compare_inodes);
    }
    return rc == 0 ? 0 : err_set(e, rc, FOLDER ": %s", strerror(-rc));
}

/* ---- both ---- */

int socket_look_take(struct socket_look *look, struct err *e)
{
    *look = (struct socket_look){.own = NULL};
    int rc = read_table(&look->table, e);
    return rc == 0 ? read_own(look, e) : rc;
}

bool socket_look_is_own(const struct socket_look *look, const struct socket_entry *entry)
{
    return look->own_count > 0 && bsearch(&entry->inode, look->own, look->own_count,
                                          sizeof *look->own, compare_inodes) != NULL;
}

void socket_look_deinit(struct socket_look *look)
{
    socket_table_deinit(&look->table);
    free(look->own);
    *look = (struct socket_look){.own = NULL};
}
