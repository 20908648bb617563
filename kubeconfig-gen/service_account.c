/* SPDX-License-Identifier: Apache-2.0 */
#include "service_account.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/file.h"

static int make_folder(const struct service_account *a, struct err *e)
{
    struct stat st;
    mode_t mode = a->shared ? 0755 : 0700;
    bool made = mkdir(a->folder, mode) == 0;
    if (!made && errno != EEXIST) {
        return err_set(e, -errno, "%s: cannot make the folder: %s", a->folder, strerror(errno));
    }
    if (stat(a->folder, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return err_set(e, -ENOTDIR, "%s: is not a folder", a->folder);
    }
    if (made && chmod(a->folder, mode) != 0) { /* whatever the umask */
        return err_set(e, -errno, "%s: cannot set its mode: %s", a->folder, strerror(errno));
    }
    return 0;
}

/* The kubelet's files are links into a folder that it exchanges, to which ..data leads. */
static int refuse_real(const struct service_account *a, struct err *e)
{
    static const char *const marks[] = {"..data", "../..data"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        char *path = NULL;
        struct stat st;
        if (asprintf(&path, "%s/%s", a->folder, marks[i]) < 0) {
            return err_memory(e);
        }
        bool real = lstat(path, &st) == 0;
        free(path);
        if (real) {
            return err_set(e, -EEXIST,
                           "%s: is the service account of a pod, whose credentials would be lost",
                           a->folder);
        }
    }
    return 0;
}

struct part {
    const char *name;
    struct slice text;
};

static char *part_path(const struct service_account *a, const struct part *p, struct err *e)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", a->folder, p->name) < 0) {
        err_memory(e);
        return NULL;
    }
    return path;
}

static int check_part(const struct service_account *a, const struct part *p, struct err *e)
{
    char *path = part_path(a, p, e);
    int rc = path == NULL ? e->code : file_check_writable(path, e);
    free(path);
    return rc;
}

static int write_part(const struct service_account *a, const struct part *p, struct err *e)
{
    char *path = part_path(a, p, e);
    mode_t mode = a->shared ? 0644 : 0600;
    int rc = path == NULL ? e->code : file_write_atomic(path, p->text.ptr, p->text.len, mode, e);
    free(path);
    return rc;
}

int service_account_write(const struct service_account *a, struct err *e)
{
    const struct part parts[] = {
        {"ca.crt", a->ca},
        {"namespace", slice_str(a->namespace)},
        {"token", slice_str(a->token)},
    };
    int rc = make_folder(a, e);
    if (rc == 0) {
        rc = refuse_real(a, e);
    }
    for (size_t i = 0; i < ARRAY_LEN(parts) && rc == 0; i++) {
        rc = check_part(a, &parts[i], e);
    }
    for (size_t i = 0; i < ARRAY_LEN(parts) && rc == 0; i++) {
        rc = write_part(a, &parts[i], e);
    }
    return rc;
}

int service_account_variables(const struct url *proxy, struct buf *out)
{
    return buf_printf(out,
                      "KUBERNETES_SERVICE_HOST=%s\nKUBERNETES_SERVICE_PORT=%u\n"
                      "KUBERNETES_SERVICE_PORT_HTTPS=%u\n",
                      proxy->host, (unsigned)proxy->port, (unsigned)proxy->port);
}
