/* SPDX-License-Identifier: Apache-2.0 */
#include "last_good.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/backoff.h"
#include "base/file.h"
#include "base/log.h"
#include "net/timer.h"

enum { RETRY_MIN_MS = 1000, RETRY_MAX_MS = 30000 };

struct last_good {
    char *path;
    struct net_loop *loop;
    struct net_timer *retry;
    struct backoff backoff;
    struct rules *pending; /* to be stored; NULL: the file is up to date */
    struct last_good_status status;
};

/* ---- reading ---- */

static int load_rules(const char *path, struct rules **out, struct err *e)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    int rc = file_read(path, &text, e);
    if (rc == 0) {
        *out = rules_parse_plain((const char *)buf_data(&text), text.len, e);
        rc = *out == NULL ? e->code : 0;
        if (rc != 0) {
            err_prefix(e, "%s", path);
        }
    }
    buf_reset(&text);
    return rc;
}

static int read_stored(const char *path, struct rules **out, struct err *e)
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
    int rc = load_rules(path, out, &why);
    if (rc == -EINVAL || rc == -E2BIG || rc == -ENOBUFS) {
        log_warn("the stored rules are damaged and will be replaced", log_str("error", why.msg));
        return 0;
    }
    return rc == 0 ? 0 : err_set(e, rc, "%s", why.msg);
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

static int write_rules(const struct rules *rules, const char *path, struct err *e)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    int rc = rules_to_json(rules, &text);
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

static void note_stored(struct last_good *c, const struct rules *rules, int64_t at)
{
    c->status.generation = rules_generation(rules);
    memcpy(c->status.checksum, rules_checksum(rules), sizeof c->status.checksum);
    c->status.at = at;
}

static bool holds_rules(const struct last_good *c, const struct rules *rules)
{
    return c->status.generation == rules_generation(rules) &&
           strcmp(c->status.checksum, rules_checksum(rules)) == 0;
}

static void store_succeeded(struct last_good *c)
{
    note_stored(c, c->pending, time(NULL));
    c->status.stores++;
    (void)condition_clear(&c->status.trouble);
    backoff_reset(&c->backoff);
    log_info("rules stored", log_num("generation", (int64_t)c->status.generation),
             log_str("path", c->path));
    rules_unref(c->pending);
    c->pending = NULL;
}

static void store_failed(struct last_good *c, const struct err *e)
{
    c->status.failures++;
    if (condition_raise(&c->status.trouble, net_loop_now(c->loop), e->msg)) {
        log_error("cannot store the rules; they would be lost by a restart",
                  log_str("error", e->msg),
                  log_num("generation", (int64_t)rules_generation(c->pending)));
    }
    /* Nobody competes for this file: no chance needed. */
    net_timer_set(c->retry, backoff_next(&c->backoff, 0));
}

static void try_to_store(void *data)
{
    struct last_good *c = data;
    struct err e = ERR_INIT;
    if (c->pending == NULL) {
        return;
    }
    if (write_rules(c->pending, c->path, &e) == 0) {
        store_succeeded(c);
    } else {
        store_failed(c, &e);
    }
}

void last_good_store(struct last_good *c, struct rules *rules)
{
    if (c->pending == NULL && holds_rules(c, rules)) {
        return;
    }
    rules_unref(c->pending);
    c->pending = rules_ref(rules);
    last_good_retry(c);
}

void last_good_retry(struct last_good *c)
{
    net_timer_clear(c->retry);
    backoff_reset(&c->backoff);
    try_to_store(c);
}

/* ---- life ---- */

struct last_good *last_good_new(struct net_loop *l, const char *path, struct rules **out,
                                struct err *e)
{
    *out = NULL;
    if (check_folder(path, e) != 0 || read_stored(path, out, e) != 0) {
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
        rules_unref(*out);
        *out = NULL;
        return NULL;
    }
    c->loop = l;
    backoff_init(&c->backoff, RETRY_MIN_MS, RETRY_MAX_MS);
    if (*out != NULL) {
        note_stored(c, *out, 0);
    }
    return c;
}

const char *last_good_path(const struct last_good *c)
{
    return c->path;
}

const struct last_good_status *last_good_status(const struct last_good *c)
{
    return &c->status;
}

void last_good_free(struct last_good *c)
{
    if (c != NULL) {
        net_timer_free(c->retry);
        rules_unref(c->pending);
        free(c->path);
        free(c);
    }
}
