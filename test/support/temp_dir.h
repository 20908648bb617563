/* SPDX-License-Identifier: Apache-2.0 */
/*
 * temp_dir.h - a folder of a test's own, removed at the end with what is in it (one level of
 * folders deep).
 */
#ifndef TEST_SUPPORT_TEMP_DIR_H
#define TEST_SUPPORT_TEMP_DIR_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct temp_dir {
    char path[64];
};

static inline void temp_dir_init(struct temp_dir *d)
{
    strcpy(d->path, "/tmp/cmesh-unit-XXXXXX");
    if (mkdtemp(d->path) == NULL) {
        perror("mkdtemp");
        abort();
    }
}

/* "<folder>/<name>" in a buffer of the caller's. */
static inline const char *temp_dir_path(const struct temp_dir *d, const char *name, char out[256])
{
    (void)snprintf(out, 256, "%s/%s", d->path, name);
    return out;
}

static inline void temp_dir_write(const struct temp_dir *d, const char *name, const char *text,
                                  mode_t mode)
{
    char path[256];
    int fd = open(temp_dir_path(d, name, path), O_WRONLY | O_CREAT | O_TRUNC, mode);
    size_t len = strlen(text);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) != 0) {
        perror(path);
        abort();
    }
}

static inline void temp_dir_empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char *child = NULL;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (asprintf(&child, "%s/%s", path, entry->d_name) < 0) {
            abort();
        }
        if (unlink(child) != 0) {
            temp_dir_empty(child);
            (void)rmdir(child);
        }
        free(child);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static inline void temp_dir_deinit(struct temp_dir *d)
{
    temp_dir_empty(d->path);
    (void)rmdir(d->path);
}

/* For cmocka: the folder is the state. */
static inline int temp_dir_setup(void **state)
{
    struct temp_dir *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return -1;
    }
    temp_dir_init(d);
    *state = d;
    return 0;
}

static inline int temp_dir_teardown(void **state)
{
    temp_dir_deinit(*state);
    free(*state);
    return 0;
}

#endif
