/* SPDX-License-Identifier: Apache-2.0 */
#include "program/local_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OF_ROOT "/var/lib/cmesh"

static bool is_absolute(const char *path)
{
    return path != NULL && path[0] == '/';
}

char *local_folder_path(const char *state_home, const char *home, uid_t user, struct err *e)
{
    char *path = NULL;
    int rc = 0;
    if (is_absolute(state_home)) {
        rc = asprintf(&path, "%s/cmesh", state_home);
    } else if (user == 0) {
        rc = asprintf(&path, "%s", OF_ROOT);
    } else if (is_absolute(home)) {
        rc = asprintf(&path, "%s/.local/state/cmesh", home);
    } else {
        err_set(e, -ENOENT, "this user has no folder: neither HOME nor XDG_STATE_HOME is set");
        return NULL;
    }
    if (rc < 0) {
        err_memory(e);
        return NULL;
    }
    return path;
}

/* All but the last one; those that are there are not looked at. */
static int make_above(char *path, struct err *e)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -errno;
        if (rc != 0) {
            err_set(e, rc, "%s: cannot make the folder: %s", path, strerror(-rc));
        }
        *slash = '/';
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int check(const char *path, const struct stat *st, struct err *e)
{
    if (st->st_uid != geteuid()) {
        return err_set(e, -EPERM, "%s: belongs to another user", path);
    }
    if ((st->st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return err_set(e, -EPERM, "%s: others may use it: its mode is %03o (chmod go= %s)", path,
                       (unsigned)(st->st_mode & 0777), path);
    }
    return 0;
}

static int check_folder(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(e, -ENOTDIR, "%s: is not a folder", path);
    }
    return check(path, &st, e);
}

int local_folder_make(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) == 0) {
        return check_folder(path, e);
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return err_memory(e);
    }
    int rc = make_above(copy, e);
    free(copy);
    if (rc == 0 && mkdir(path, 0700) != 0 && errno != EEXIST) {
        rc = err_set(e, -errno, "%s: cannot make the folder: %s", path, strerror(errno));
    }
    return rc == 0 ? check_folder(path, e) : rc;
}

char *local_folder_open(struct err *e)
{
    char *path = local_folder_path(getenv("XDG_STATE_HOME"), getenv("HOME"), geteuid(), e);
    if (path != NULL && local_folder_make(path, e) != 0) {
        free(path);
        return NULL;
    }
    return path;
}

int local_folder_check_file(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? 0 : err_set(e, -errno, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, -EINVAL, "%s: is not a regular file", path);
    }
    return check(path, &st, e);
}
