/* SPDX-License-Identifier: Apache-2.0 */
#include "program/local_token.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/secret.h"
#include "crypto/digest.h"
#include "kube/access/access.h"
#include "program/local_folder.h"

enum { RANDOM_BYTES = 32, FILE_MAX = LOCAL_TOKEN_LEN_MAX + 256 };

/* The one line of the file, without the white space around it; a copy. */
static char *check_token(char *text, const char *path, struct err *e)
{
    char *token = kube_token_trim(text);
    size_t len = strlen(token);
    if (!kube_token_ok(token)) {
        err_set(e, -EINVAL,
                "%s: must hold one token on one line, of printable ASCII characters without white "
                "space",
                path);
        return NULL;
    }
    if (len < LOCAL_TOKEN_LEN_MIN || len > LOCAL_TOKEN_LEN_MAX) {
        err_set(e, -EINVAL,
                "%s: the token has %zu characters; from %d to %d are allowed (remove the file to "
                "have a random token made)",
                path, len, LOCAL_TOKEN_LEN_MIN, LOCAL_TOKEN_LEN_MAX);
        return NULL;
    }
    token = strdup(token);
    if (token == NULL) {
        err_memory(e);
    }
    return token;
}

static char *read_token(const char *path, struct err *e)
{
    struct buf text = BUF_INIT(FILE_MAX);
    char *token = NULL;
    if (buf_reserve(&text, FILE_MAX) == NULL) {
        err_memory(e);
    } else if (file_read(path, &text, e) == 0) {
        char none[] = "";
        const char *cstr = buf_cstr(&text);
        bool whole = cstr != NULL && strlen(cstr) == text.len;
        token = check_token(whole ? (char *)buf_data(&text) : none, path, e);
    }
    secret_buf_reset(&text);
    return token;
}

/* 32 random bytes in the URL-safe alphabet, RFC 4648 section 5, without padding, and a newline. */
static int random_line(struct buf *out, struct err *e)
{
    uint8_t bytes[RANDOM_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return err_set(e, -EIO, "no random bytes from the system");
    }
    int rc = base64_encode(slice_of((const char *)bytes, sizeof bytes), out);
    explicit_bzero(bytes, sizeof bytes);
    if (rc != 0) {
        return err_set(e, rc, "out of memory");
    }
    for (uint8_t *p = buf_data(out); p < buf_data(out) + out->len; p++) {
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p == '=' ? '\n' : *p;
    }
    return 0;
}

/* Writes `line` under a temporary name and links it to `path`: nobody ever reads half a token.
 * Another program's, which came first, stays: then *made is false. */
static int publish(const char *path, const struct buf *line, bool *made, struct err *e)
{
    char *tmp = NULL;
    if (asprintf(&tmp, "%s.XXXXXX", path) < 0) {
        return err_memory(e);
    }
    int fd = mkostemp(tmp, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) {
        int rc = err_set(e, -errno, "%s: cannot create: %s", path, strerror(errno));
        free(tmp);
        return rc;
    }
    int rc = 0;
    if (write(fd, buf_data(line), line->len) != (ssize_t)line->len || fsync(fd) != 0) {
        rc = err_set(e, -errno, "%s: cannot write: %s", tmp, strerror(errno));
    } else if (link(tmp, path) == 0) {
        *made = true;
    } else if (errno != EEXIST) {
        rc = err_set(e, -errno, "%s: cannot create: %s", path, strerror(errno));
    }
    (void)close(fd);
    (void)unlink(tmp);
    free(tmp);
    return rc;
}

static int make_token(const char *path, bool *made, struct err *e)
{
    struct buf line = BUF_INIT(64);
    int rc = random_line(&line, e);
    if (rc == 0) {
        rc = publish(path, &line, made, e);
    }
    secret_buf_reset(&line);
    return rc;
}

char *local_token_load(const char *path, bool *made, struct err *e)
{
    *made = false;
    if (access(path, F_OK) != 0 && errno == ENOENT && make_token(path, made, e) != 0) {
        return NULL;
    }
    return read_token(path, e);
}

bool local_token_is_off(const char *flag)
{
    return flag != NULL && strcmp(flag, "off") == 0;
}

/* Makes it, or sees that it can be used. */
static int check_own(const char *path, bool *made, struct err *e)
{
    int rc = local_folder_check_file(path, e);
    if (rc != 0) {
        return rc;
    }
    char *token = local_token_load(path, made, e);
    secret_free(token);
    return token == NULL ? e->code : 0;
}

static char *find_own(bool *made, struct err *e)
{
    char *folder = local_folder_open(e);
    char *path = NULL;
    if (folder == NULL) {
        return NULL;
    }
    if (asprintf(&path, "%s/token", folder) < 0) {
        path = NULL;
        err_memory(e);
    } else if (check_own(path, made, e) != 0) {
        free(path);
        path = NULL;
    }
    free(folder);
    return path;
}

int local_token_path(const char *flag, char **path, bool *made, struct err *e)
{
    *path = NULL;
    *made = false;
    if (local_token_is_off(flag)) {
        return 0;
    }
    if (flag != NULL) {
        *path = strdup(flag);
        return *path == NULL ? err_memory(e) : 0;
    }
    *path = find_own(made, e);
    if (*path == NULL) {
        err_prefix(e, "no place for a token (--token-file=PATH names one)");
        return e->code;
    }
    return 0;
}

void local_token_scope(const struct url *server, char out[LOCAL_TOKEN_SCOPE_LEN + 1])
{
    char text[sizeof server->host + sizeof server->path + 32];
    char hash[SHA256_HEX_LEN + 1];
    int n = snprintf(text, sizeof text, "%d %u ", server->https, server->port);
    for (const char *p = server->host; *p != '\0'; p++) {
        text[n++] = (char)tolower((unsigned char)*p);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, " %s", server->path);
    sha256_hex(text, (size_t)n, hash);
    (void)snprintf(out, LOCAL_TOKEN_SCOPE_LEN + 1, ".%.8s", hash);
}

bool local_token_matches(struct slice given, struct slice token)
{
    if (given.len == token.len + LOCAL_TOKEN_SCOPE_LEN && given.ptr[token.len] == '.') {
        given.len = token.len;
    }
    return token.len > 0 && secret_equal(given, token);
}
