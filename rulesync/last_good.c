/* SPDX-License-Identifier: Apache-2.0 */
#include "last_good.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/file.h"
#include "base/log.h"
#include "kube/name.h"
#include "net/timer.h"

enum { RETRY_MIN_MS = 1000, RETRY_MAX_MS = 30000 };

/* What the log says. */
struct texts {
    const char *damaged;
    const char *stored;
    const char *removed;
    const char *failed;
};

static const struct texts texts[CONTROL_DOCUMENTS] = {
    [CONTROL_RULES] =
        {
            .damaged = "the stored rules are damaged and will be replaced",
            .stored = "rules stored",
            .removed = "stored rules removed",
            .failed = "cannot store the rules; they would be lost by a restart",
        },
    [CONTROL_TRAFFIC] =
        {
            .damaged = "the stored traffic policies cannot be used and will be replaced",
            .stored = "traffic policies stored",
            .removed = "stored traffic policies removed",
            .failed = "cannot store the traffic policies; a restart would begin with earlier ones",
        },
};

struct last_good {
    enum control_document kind;
    char *path;
    struct net_loop *loop;
    struct net_timer *retry;
    struct backoff backoff;
    bool waiting;                  /* for `pending` to be stored */
    struct shard_document pending; /* none: the file is to be removed */
    bool exists;                   /* there is a file, whatever is in it */
    char ns[NAME_LABEL_MAX + 1];   /* of the shard of what it holds */
    char shard[NAME_SUBDOMAIN_MAX + 1];
    struct last_good_status status;
};

/* ---- reading ---- */

static int load_document(const char *path, struct shard_document *out, struct err *e)
{
    struct buf text = BUF_INIT(control_document_max(out->kind));
    int rc = file_read(path, &text, e);
    if (rc == 0) {
        rc = shard_document_parse(out->kind, buf_slice(&text), out, e);
        if (rc != 0) {
            err_prefix(e, "%s", path);
        }
    }
    buf_reset(&text);
    return rc;
}

/* Rules that are there may be newer than what comes, so nobody should go on without them. */
static int note_unreadable(enum control_document kind, const struct err *why, struct err *e)
{
    if (kind == CONTROL_RULES || why->code == -ENOMEM) {
        return err_set(e, why->code, "%s", why->msg);
    }
    log_warn(texts[kind].damaged, log_str("error", why->msg));
    return 0;
}

static int read_stored(const char *path, struct shard_document *out, bool *exists, struct err *e)
{
    struct err why = ERR_INIT;
    struct stat st;
    int rc = stat(path, &st) == 0 ? 0 : -errno;
    *exists = rc != -ENOENT;
    if (!*exists) {
        return 0;
    }
    if (rc != 0) {
        (void)err_set(&why, rc, "%s: %s", path, strerror(-rc));
        return note_unreadable(out->kind, &why, e);
    }
    if (!S_ISREG(st.st_mode)) {
        (void)err_set(&why, -EINVAL, "%s: not a file", path);
        return note_unreadable(out->kind, &why, e);
    }
    rc = load_document(path, out, &why);
    if (rc == -EINVAL || rc == -E2BIG || rc == -ENOBUFS) {
        log_warn(texts[out->kind].damaged, log_str("error", why.msg));
        return 0;
    }
    return rc == 0 ? 0 : note_unreadable(out->kind, &why, e);
}

static int check_folder(const char *path, struct err *e)
{
    struct stat st;
    char *folder = file_resolve(path, ".");
    if (folder == NULL) {
        return err_memory(e);
    }
    int rc = stat(folder, &st) == 0 ? 0 : -errno;
    free(folder);
    return rc == 0 ? 0 : err_set(e, rc, "%s: its folder: %s", path, strerror(-rc));
}

/* ---- writing ---- */

static int write_document(const struct shard_document *d, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(2 * control_document_max(d->kind));
    int rc = shard_document_to_json(d, &text);
    if (rc == 0) {
        rc = buf_append_char(&text, '\n');
    }
    if (rc != 0) {
        (void)err_set(e, rc, "%s: cannot write: %s", path, err_text(rc));
    } else {
        rc = file_write_atomic(path, buf_data(&text), text.len, 0644, e);
    }
    buf_reset(&text);
    return rc;
}

static int remove_file(const char *path, struct err *e)
{
    if (unlink(path) == 0 || errno == ENOENT) {
        return 0;
    }
    return err_set(e, -errno, "%s: cannot remove: %s", path, strerror(errno));
}

static void note_stored(struct last_good *c, const struct shard_document *d, int64_t at)
{
    bool none = shard_document_is_none(d);
    c->status.generation = none ? 0 : shard_document_generation(d);
    (void)snprintf(c->status.checksum, sizeof c->status.checksum, "%s",
                   none ? "" : shard_document_checksum(d));
    (void)snprintf(c->ns, sizeof c->ns, "%s", none ? "" : shard_document_namespace(d));
    (void)snprintf(c->shard, sizeof c->shard, "%s", none ? "" : shard_document_shard(d));
    c->status.at = at;
}

static bool holds_document(const struct last_good *c, const struct shard_document *d)
{
    if (shard_document_is_none(d)) {
        return !c->exists;
    }
    return c->status.generation == shard_document_generation(d) &&
           strcmp(c->status.checksum, shard_document_checksum(d)) == 0 &&
           strcmp(c->ns, shard_document_namespace(d)) == 0 &&
           strcmp(c->shard, shard_document_shard(d)) == 0;
}

static void store_succeeded(struct last_good *c)
{
    bool none = shard_document_is_none(&c->pending);
    note_stored(c, &c->pending, time(NULL));
    c->status.stores++;
    (void)condition_clear(&c->status.trouble);
    backoff_reset(&c->backoff);
    if (none) {
        log_info(texts[c->kind].removed, log_str("path", c->path));
    } else {
        log_info(texts[c->kind].stored, log_num("generation", (int64_t)c->status.generation),
                 log_str("path", c->path));
    }
    c->exists = !none;
    c->waiting = false;
    shard_document_unref(&c->pending);
}

static void store_failed(struct last_good *c, const struct err *e)
{
    bool none = shard_document_is_none(&c->pending);
    c->status.failures++;
    if (condition_raise(&c->status.trouble, net_loop_now(c->loop), e->msg)) {
        log_error(
            texts[c->kind].failed, log_str("error", e->msg),
            log_num("generation", none ? 0 : (int64_t)shard_document_generation(&c->pending)));
    }
    /* Nobody competes for this file: no chance needed. */
    net_timer_set(c->retry, backoff_next(&c->backoff, 0));
}

static void try_to_store(void *data)
{
    struct last_good *c = data;
    struct err e = ERR_INIT;
    if (!c->waiting) {
        return;
    }
    int rc = shard_document_is_none(&c->pending) ? remove_file(c->path, &e)
                                                 : write_document(&c->pending, c->path, &e);
    if (rc == 0) {
        store_succeeded(c);
    } else {
        store_failed(c, &e);
    }
}

static void store_document(struct last_good *c, const struct shard_document *d)
{
    if (!c->waiting && holds_document(c, d)) {
        return;
    }
    shard_document_unref(&c->pending);
    c->pending = shard_document_ref(d);
    c->waiting = true;
    last_good_retry(c);
}

void last_good_store(struct last_good *c, struct rules *rules)
{
    const struct shard_document d = shard_document_rules(rules);
    store_document(c, &d);
}

void last_good_store_traffic(struct last_good *c, struct traffic *traffic)
{
    const struct shard_document d = shard_document_traffic(traffic);
    store_document(c, &d);
}

void last_good_retry(struct last_good *c)
{
    net_timer_clear(c->retry);
    backoff_reset(&c->backoff);
    try_to_store(c);
}

/* ---- life ---- */

static struct last_good *new_copy(struct net_loop *l, const char *path, struct shard_document *out,
                                  struct err *e)
{
    bool exists = false;
    if (check_folder(path, e) != 0 || read_stored(path, out, &exists, e) != 0) {
        return NULL;
    }
    struct last_good *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->path = strdup(path);
        c->retry = net_timer_new(l, try_to_store, c);
    }
    if (c == NULL || c->path == NULL || c->retry == NULL) {
        err_memory(e);
        last_good_free(c);
        shard_document_unref(out);
        return NULL;
    }
    c->kind = out->kind;
    c->pending.kind = out->kind;
    c->loop = l;
    c->exists = exists;
    backoff_init(&c->backoff, RETRY_MIN_MS, RETRY_MAX_MS);
    note_stored(c, out, 0);
    return c;
}

struct last_good *last_good_new(struct net_loop *l, const char *path, struct rules **out,
                                struct err *e)
{
    struct shard_document found = shard_document_rules(NULL);
    struct last_good *c = new_copy(l, path, &found, e);
    *out = found.rules;
    return c;
}

struct last_good *last_good_new_traffic(struct net_loop *l, const char *path, struct traffic **out,
                                        struct err *e)
{
    struct shard_document found = shard_document_traffic(NULL);
    struct last_good *c = new_copy(l, path, &found, e);
    *out = found.traffic;
    return c;
}

const struct last_good_status *last_good_status(const struct last_good *c)
{
    return &c->status;
}

void last_good_free(struct last_good *c)
{
    if (c != NULL) {
        net_timer_free(c->retry);
        shard_document_unref(&c->pending);
        free(c->path);
        free(c);
    }
}
