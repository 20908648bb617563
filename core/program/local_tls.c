/* SPDX-License-Identifier: Apache-2.0 */
#include "program/local_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/secret.h"
#include "program/local_folder.h"

#define COMMON_NAME "cmesh-local-ca"

enum { PEM_MAX = 16 * 1024, BACKDATE_S = 24 * 60 * 60 };

/* The folder, locked: of several that make an authority one does, and all get that. */
struct store {
    const char *folder;
    int lock;
    char *cert_path;
    char *key_path;
};

static void store_close(struct store *s)
{
    if (s->lock >= 0) {
        (void)close(s->lock);
    }
    free(s->cert_path);
    free(s->key_path);
}

static int store_open(struct store *s, const char *folder, struct err *e)
{
    *s = (struct store){.folder = folder, .lock = -1};
    if (asprintf(&s->cert_path, "%s/" LOCAL_TLS_CERT, folder) < 0) {
        s->cert_path = NULL;
        return err_memory(e);
    }
    if (asprintf(&s->key_path, "%s/" LOCAL_TLS_KEY, folder) < 0) {
        s->key_path = NULL;
        return err_memory(e);
    }
    s->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0 || flock(s->lock, LOCK_EX) != 0) {
        return err_set(e, -errno, "%s: %s", folder, strerror(errno));
    }
    int rc = local_folder_check_file(s->cert_path, e);
    return rc == 0 ? local_folder_check_file(s->key_path, e) : rc;
}

/* A copy of the text; NULL in *out when there is no such file. */
static int read_pem(const char *path, char **out, struct err *e)
{
    struct buf text = BUF_INIT(PEM_MAX);
    *out = NULL;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return 0;
    }
    if (buf_reserve(&text, PEM_MAX) == NULL) {
        return err_memory(e);
    }
    int rc = file_read(path, &text, e);
    const char *cstr = rc == 0 ? buf_cstr(&text) : NULL;
    if (cstr != NULL) {
        *out = strdup(cstr);
    }
    if (rc == 0 && *out == NULL) {
        rc = err_memory(e);
    }
    secret_buf_reset(&text);
    return rc;
}

/* One whose time has not come yet is one, for then the clock was wrong or is: clients know it. */
static bool is_good(const struct certificate_pair *p, int64_t now)
{
    struct err ignored = ERR_INIT;
    if (p->cert == NULL || p->key == NULL) {
        return false;
    }
    struct certificate *c = certificate_read(slice_str(p->cert), NULL, &ignored);
    bool good = c != NULL && certificate_is_authority(c) &&
                certificate_fits(c, slice_str(p->key)) &&
                certificate_not_after(c) - now > LOCAL_TLS_REPLACE_S;
    certificate_free(c);
    return good;
}

/* A folder with a token may have the authority of a cluster, as that of a service account has: what
 * somebody else made is not replaced. */
static int refuse_foreign(const struct store *s, const struct certificate_pair *p, struct err *e)
{
    struct err ignored = ERR_INIT;
    struct certificate *c =
        p->cert == NULL ? NULL : certificate_read(slice_str(p->cert), NULL, &ignored);
    bool foreign = c != NULL ? strcmp(certificate_common_name(c), COMMON_NAME) != 0
                             : p->cert == NULL && p->key != NULL;
    certificate_free(c);
    if (!foreign) {
        return 0;
    }
    return err_set(e, -EEXIST, "%s: cmesh did not make this file and does not replace it",
                   p->cert != NULL ? s->cert_path : s->key_path);
}

/* The certificate first: a key without one is taken for somebody else's. */
static int make(const struct store *s, int64_t now, struct certificate_pair *out, struct err *e)
{
    const struct certificate_spec spec = {
        .common_name = COMMON_NAME,
        .not_before = now - BACKDATE_S,
        .not_after = now + LOCAL_TLS_AUTHORITY_S,
    };
    certificate_pair_deinit(out);
    int rc = certificate_make_authority(&spec, out, e);
    if (rc == 0) {
        rc = file_write_atomic(s->cert_path, out->cert, strlen(out->cert), 0600, e);
    }
    if (rc == 0) {
        rc = file_write_atomic(s->key_path, out->key, strlen(out->key), 0600, e);
    }
    return rc;
}

bool local_tls_is_asked(const char *flag)
{
    return flag != NULL && strcmp(flag, "off") != 0;
}

static int folder_of(const char *path, char **folder, struct err *e)
{
    char *copy = strdup(path);
    *folder = copy == NULL ? NULL : strdup(dirname(copy));
    free(copy);
    return *folder == NULL ? err_memory(e) : 0;
}

int local_tls_folder(const char *flag, const char *token_path, char **folder, struct err *e)
{
    struct stat st;
    *folder = NULL;
    if (flag == NULL && token_path != NULL) {
        return folder_of(token_path, folder, e);
    }
    if (!local_tls_is_asked(flag)) {
        return 0;
    }
    if (strcmp(flag, "auto") != 0) {
        if (stat(flag, &st) != 0 || !S_ISDIR(st.st_mode)) {
            return err_set(e, -ENOTDIR, "--local-tls: %s: is not a folder", flag);
        }
        *folder = strdup(flag);
        return *folder == NULL ? err_memory(e) : 0;
    }
    *folder = local_folder_open(e);
    if (*folder == NULL) {
        err_prefix(e, "no place for an authority (--local-tls=PATH names one)");
        return e->code;
    }
    return 0;
}

int local_tls_authority(const char *folder, int64_t now, struct certificate_pair *out, bool *made,
                        struct err *e)
{
    struct store s;
    *out = (struct certificate_pair){.cert = NULL};
    *made = false;
    int rc = store_open(&s, folder, e);
    if (rc == 0) {
        rc = read_pem(s.cert_path, &out->cert, e);
    }
    if (rc == 0) {
        rc = read_pem(s.key_path, &out->key, e);
    }
    if (rc == 0 && !is_good(out, now)) {
        rc = refuse_foreign(&s, out, e);
        rc = rc == 0 ? make(&s, now, out, e) : rc;
        *made = rc == 0;
    }
    store_close(&s);
    if (rc != 0) {
        certificate_pair_deinit(out);
        err_prefix(e, "--local-tls");
    }
    return rc;
}

int local_tls_serving(const struct certificate_pair *authority, int64_t now,
                      const char *const *names, size_t name_count, struct certificate_pair *out,
                      int64_t *renew_at, struct err *e)
{
    /* Within the authority's time, which has more than LOCAL_TLS_REPLACE_S left. */
    const struct certificate_spec spec = {
        .common_name = "localproxy",
        .not_before = now - BACKDATE_S,
        .not_after = now + LOCAL_TLS_SERVING_S,
        .names = names,
        .name_count = name_count,
    };
    int rc = certificate_make_server(&spec, slice_str(authority->cert), slice_str(authority->key),
                                     out, e);
    *renew_at = now + LOCAL_TLS_SERVING_S * 2 / 3;
    if (rc != 0) {
        err_prefix(e, "--local-tls");
    }
    return rc;
}
