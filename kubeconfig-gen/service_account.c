/* SPDX-License-Identifier: Apache-2.0 */
#include "service_account.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

static int make_folder(const struct service_account *a, struct err *e)
{
    struct stat st;
    if (mkdir(a->folder, a->shared ? 0755 : 0700) != 0 && errno != EEXIST) {
        return err_set(e, -errno, "%s: cannot make the folder: %s", a->folder, strerror(errno));
    }
    if (stat(a->folder, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return err_set(e, -ENOTDIR, "%s: is not a folder", a->folder);
    }
    return 0;
}

/* The kubelet's files are links into a folder that it exchanges. */
static int refuse_real(const struct service_account *a, struct err *e)
{
    char *path = NULL;
    struct stat st;
    if (asprintf(&path, "%s/..data", a->folder) < 0) {
        return err_memory(e);
    }
    bool real = lstat(path, &st) == 0;
    free(path);
    return real ? err_set(e, -EEXIST,
                          "%s: is the service account of a pod, whose credentials would be lost",
                          a->folder)
                : 0;
}

static int write_file(const struct service_account *a, const char *name, struct slice text,
                      struct err *e)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", a->folder, name) < 0) {
        return err_memory(e);
    }
    int rc = file_write_atomic(path, text.ptr, text.len, a->shared ? 0644 : 0600, e);
    free(path);
    return rc;
}

int service_account_write(const struct service_account *a, struct err *e)
{
    int rc = make_folder(a, e);
    if (rc == 0) {
        rc = refuse_real(a, e);
    }
    if (rc == 0) {
        rc = write_file(a, "ca.crt", a->ca, e);
    }
    if (rc == 0) {
        rc = write_file(a, "namespace", slice_str(a->namespace), e);
    }
    if (rc == 0) {
        rc = write_file(a, "token", slice_str(a->token), e);
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
