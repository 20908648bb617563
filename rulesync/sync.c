/* SPDX-License-Identifier: Apache-2.0 */
#include "sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"

enum { PATH_LEN = 4096 };

/* Where the document is: a mounted ConfigMap is a folder with a file for each key. */
static int resolve(const char *from, char path[PATH_LEN], struct err *e)
{
    struct stat st;
    if (stat(from, &st) != 0) {
        return err_set(e, -errno, "%s: %s", from, strerror(errno));
    }
    int n = snprintf(path, PATH_LEN, "%s%s", from, S_ISDIR(st.st_mode) ? "/" SYNC_KEY : "");
    return n < PATH_LEN ? 0 : err_set(e, -ENAMETOOLONG, "%.100s...: the path is too long", from);
}

static int load(const char *path, struct rules **out, struct err *e)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    int rc = file_read(path, &text, e);
    if (rc == 0) {
        *out = rules_parse((const char *)buf_data(&text), text.len, e);
        rc = *out == NULL ? e->code : 0;
        if (rc != 0) {
            err_prefix(e, "%s", path);
        }
    }
    buf_reset(&text);
    return rc;
}

/* The stored copy; *out stays NULL when there is none, or none that can be used. One that cannot be
 * read is an error: it may be newer. */
static int load_stored(const char *path, struct rules **out, struct err *e)
{
    struct err why = ERR_INIT;
    struct stat st;
    *out = NULL;
    if (stat(path, &st) != 0) {
        return errno == ENOENT ? 0 : err_set(e, -errno, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, -EINVAL, "%s: not a file", path);
    }
    int rc = load(path, out, &why);
    if (rc == -EINVAL || rc == -E2BIG || rc == -ENOBUFS) {
        log_warn("the stored rules are damaged and will be replaced", log_str("error", why.msg));
        return 0;
    }
    return rc == 0 ? 0 : err_set(e, rc, "%s", why.msg);
}

static int check_wanted(const struct rules *rules, const char *shard, const char *path,
                        struct err *e)
{
    const char *ns = rules_shard_namespace(rules);
    size_t len = strlen(ns);
    if (shard == NULL || (strncmp(shard, ns, len) == 0 && shard[len] == '/' &&
                          strcmp(shard + len + 1, rules_shard_name(rules)) == 0)) {
        return 0;
    }
    return err_set(e, -EINVAL, "%s: these are the rules of shard %s/%s, not of %s", path, ns,
                   rules_shard_name(rules), shard);
}

static bool same_shard(const struct rules *a, const struct rules *b)
{
    return strcmp(rules_shard_name(a), rules_shard_name(b)) == 0 &&
           strcmp(rules_shard_namespace(a), rules_shard_namespace(b)) == 0;
}

/* Whether `rules` may take the place of `stored`. */
static int check_stored(const struct rules *rules, const struct rules *stored,
                        const struct sync_options *o, const char *path, struct err *e)
{
    uint64_t new = rules_generation(rules);
    uint64_t old = rules_generation(stored);
    if (!same_shard(rules, stored)) {
        return err_set(e, -EINVAL,
                       "%s: these are the rules of shard %s/%s, but %s holds those of shard %s/%s",
                       path, rules_shard_namespace(rules), rules_shard_name(rules), o->to,
                       rules_shard_namespace(stored), rules_shard_name(stored));
    }
    if (new < old) {
        return err_set(e, -ESTALE,
                       "%s: generation %" PRIu64 " is older than generation %" PRIu64
                       ", which %s holds",
                       path, new, old, o->to);
    }
    if (new == old && strcmp(rules_checksum(rules), rules_checksum(stored)) != 0) {
        return err_set(e, -EINVAL,
                       "%s: generation %" PRIu64 " with %s, but %s holds that generation with %s: "
                       "rules that change need a higher generation",
                       path, new, rules_checksum(rules), o->to, rules_checksum(stored));
    }
    return 0;
}

static int store(const struct rules *rules, const char *path, struct err *e)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    int rc = rules_to_json(rules, &text);
    rc = rc != 0 ? rc : buf_append_char(&text, '\n');
    if (rc != 0) {
        (void)err_set(e, rc, "%s: cannot write: %s", path, err_text(rc));
    } else {
        rc = file_write_atomic(path, buf_data(&text), text.len, 0644, e);
    }
    buf_reset(&text);
    return rc;
}

int sync_once(const struct sync_options *o, struct sync_outcome *outcome, struct err *e)
{
    char path[PATH_LEN];
    struct rules *rules = NULL;
    struct rules *stored = NULL;
    int rc = resolve(o->from, path, e);
    rc = rc != 0 ? rc : load(path, &rules, e);
    rc = rc != 0 ? rc : check_wanted(rules, o->shard, path, e);
    rc = rc != 0 ? rc : load_stored(o->to, &stored, e);
    if (rc == 0 && stored != NULL) {
        rc = check_stored(rules, stored, o, path, e);
    }
    bool unchanged =
        rc == 0 && stored != NULL && rules_generation(rules) == rules_generation(stored);
    if (rc == 0 && !unchanged) {
        rc = store(rules, o->to, e);
    }
    rules_unref(stored);
    if (rc != 0) {
        rules_unref(rules);
        return rc;
    }
    *outcome = (struct sync_outcome){.rules = rules, .unchanged = unchanged};
    return 0;
}
