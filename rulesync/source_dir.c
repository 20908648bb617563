/* SPDX-License-Identifier: Apache-2.0 */
#include "source_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/file_state.h"
#include "base/log.h"
#include "control/state.h"
#include "mounts.h"
#include "net/folder_watch.h"
#include "net/timer.h"

enum {
    LOOK_MS = 10000,
    BLIND_MS = 1000,
    SETTLE_MS = 50,
    RETRY_MS = 200,
    RETRIES = 5,
    YOUNG_S = 2,
    MOUNTINFO_MAX = 4 * 1024 * 1024,
};

/* One kind of document. */
struct entry {
    struct source_taker taker;
    enum control_document kind;
    char file[PATH_MAX];
    struct file_state state; /* of the file when it was read last */
    bool known;              /* what is there was taken, or refused for good */
    bool gone;               /* of traffic policies: it is not there, after it was */
    uint64_t patience_until; /* with a file that may be half-written; 0: none was seen */
};

struct source_dir {
    struct source_dir_options o;
    char given[PATH_MAX];
    char folder[PATH_MAX]; /* holds the files */
    bool single;           /* what is given is a file */
    struct entry rules;
    struct entry traffic;
    struct net_loop *loop;
    struct net_folder_watch *watch;
    struct net_timer *timer;
    bool soon; /* the timer is set for an event */
    bool mount_checked;
    bool blind; /* nothing is watched */
};

/* ---- where the file is ---- */

/* The folder of `path`, as dirname(1). */
static void parent_folder(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        (void)snprintf(out, PATH_MAX, ".");
    } else {
        int len = slash == path ? 1 : (int)(slash - path);
        (void)snprintf(out, PATH_MAX, "%.*s", len, path);
    }
}

/* What is given may be a folder today and have been nothing, or a file, before. */
static int locate_file(struct source_dir *s, struct err *e)
{
    struct stat st;
    int rc = stat(s->given, &st) == 0 ? 0 : -errno;
    bool folder = rc == 0 && S_ISDIR(st.st_mode);
    s->single = rc == 0 && !folder;
    if (folder) {
        (void)snprintf(s->folder, PATH_MAX, "%s", s->given);
        (void)snprintf(s->rules.file, PATH_MAX, "%.*s/" SOURCE_KEY, PATH_MAX - 32, s->given);
        (void)snprintf(s->traffic.file, PATH_MAX, "%.*s/" SOURCE_TRAFFIC_KEY, PATH_MAX - 32,
                       s->given);
    } else {
        parent_folder(s->given, s->folder);
        (void)snprintf(s->rules.file, PATH_MAX, "%s", s->given);
    }
    return rc == 0 ? 0 : err_set(e, rc, "%s: %s", s->given, strerror(-rc));
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* A folder may hold much that is not ours, and /tmp is never quiet. */
static bool concerns_source(const struct source_dir *s, const char *name)
{
    bool traffic = s->traffic.taker.handlers != NULL && !s->single;
    return name == NULL || strcmp(name, last_part(s->rules.file)) == 0 ||
           (traffic && strcmp(name, SOURCE_TRAFFIC_KEY) == 0) ||
           strcmp(name, last_part(s->folder)) == 0 || strcmp(name, last_part(s->given)) == 0 ||
           strcmp(name, "..data") == 0;
}

/* `rc`: of watching. */
static void note_watched(struct source_dir *s, int rc)
{
    bool blind = rc != 0;
    if (blind == s->blind) {
        return;
    }
    s->blind = blind;
    if (blind) {
        log_warn("cannot watch the source: looking each second", log_str("folder", s->folder),
                 log_str("error", err_text(rc)));
    } else {
        log_info("watching the source again", log_str("folder", s->folder));
    }
    if (s->rules.taker.handlers->blind != NULL) {
        s->rules.taker.handlers->blind(s->rules.taker.data, blind);
    }
}

/* While the folder is not there, its own folder tells when it comes. */
static void watch_folder(struct source_dir *s)
{
    char above[PATH_MAX];
    struct stat st;
    int rc = net_folder_watch_set(s->watch, s->folder);
    if (rc != 0) {
        parent_folder(s->folder, above);
        rc = net_folder_watch_set(s->watch, above);
        if (stat(s->folder, &st) == 0) { /* it came in between */
            rc = net_folder_watch_set(s->watch, s->folder);
        }
    }
    note_watched(s, rc);
}

/* ---- mounts that never change ---- */

static void check_mount(struct source_dir *s)
{
    char folder[PATH_MAX];
    char file[PATH_MAX];
    char why[ERR_MSG_MAX];
    struct buf text = BUF_INIT(MOUNTINFO_MAX);
    struct err e = ERR_INIT;
    if (s->mount_checked || realpath(s->folder, folder) == NULL) {
        return;
    }
    s->mount_checked = true;
    (void)snprintf(file, sizeof file, "%.*s/%.255s", PATH_MAX - 257,
                   strcmp(folder, "/") == 0 ? "" : folder, last_part(s->rules.file));
    if (file_read(s->o.mountinfo, &text, &e) == 0 &&
        mounts_never_update(buf_slice(&text), folder, file, why)) {
        s->rules.taker.handlers->warn(s->rules.taker.data, why);
    }
    buf_reset(&text);
}

/* ---- a look ---- */

/* The kubelet put all of it there in one step. */
static bool is_volume(const struct source_dir *s)
{
    char link[PATH_MAX];
    struct stat st;
    (void)snprintf(link, sizeof link, "%.*s/..data", PATH_MAX - 16, s->folder);
    return lstat(link, &st) == 0;
}

/* A file that is not put in place by a rename, and was written to just now, may be half-written. */
static bool may_be_half_written(const struct source_dir *s, const struct entry *n)
{
    struct stat st;
    bool patient = n->patience_until == 0 || net_loop_now(s->loop) < n->patience_until;
    if (!patient || is_volume(s) || stat(n->file, &st) != 0) {
        return false;
    }
    return time(NULL) - st.st_mtim.tv_sec <= YOUNG_S;
}

static int read_text(const struct source_dir *s, const struct entry *n, struct buf *text,
                     struct err *e)
{
    struct stat st;
    int rc = stat(n->file, &st) == 0 ? 0 : -errno;
    if (rc == -ENOENT) {
        return err_set(e, rc, "%s: the folder has no key %s", s->folder, last_part(n->file));
    }
    if (rc != 0) {
        return err_set(e, rc, "%s: %s", n->file, strerror(-rc));
    }
    if (!S_ISREG(st.st_mode)) { /* reading a pipe could take for ever */
        return err_set(e, -EINVAL, "%s: not a file", n->file);
    }
    return file_read(n->file, text, e);
}

/* False: look again soon. */
static bool offer_file(struct source_dir *s, struct entry *n, struct slice text)
{
    struct err e = ERR_INIT;
    const struct source_taker *t = &n->taker;
    bool final = !may_be_half_written(s, n);
    t->handlers->trouble(t->data, SOURCE_FINE, NULL, LOG_INFO);
    int rc = t->handlers->offer(t->data, n->file, text, final, &e);
    if (rc != 0 && !final) {
        if (n->patience_until == 0) {
            n->patience_until = net_loop_now(s->loop) + RETRIES * s->o.retry_ms;
        }
        return false;
    }
    n->patience_until = 0;
    n->known = rc != -ENOMEM;
    return true;
}

static void tell_trouble(struct entry *n, const struct err *e)
{
    bool missing = e->code == -ENOENT || e->code == -ENOTDIR;
    n->known = false;
    n->taker.handlers->trouble(n->taker.data, missing ? SOURCE_MISSING : SOURCE_UNREADABLE, e,
                               LOG_ERROR);
}

/* Reads what is there, unless it is known. False: look again soon. */
static bool read_entry(struct source_dir *s, struct entry *n)
{
    struct err e = ERR_INIT;
    bool changed = file_state_changed(&n->state, n->file);
    n->known = n->known && !changed;
    if (n->known) {
        return true;
    }
    bool settled = true;
    struct buf text = BUF_INIT(control_document_max(n->kind));
    if (read_text(s, n, &text, &e) == 0) {
        settled = offer_file(s, n, buf_slice(&text));
    } else {
        tell_trouble(n, &e);
    }
    buf_reset(&text);
    return settled;
}

/* Traffic policies need not be there. False: look again soon. */
static bool read_traffic(struct source_dir *s)
{
    struct entry *n = &s->traffic;
    struct err e = ERR_INIT;
    struct stat st;
    if (stat(n->file, &st) == 0 || errno != ENOENT) {
        n->gone = false;
        return read_entry(s, n);
    }
    if (stat(s->rules.file, &st) != 0) {
        err_set(&e, -ENOENT,
                "%s: the folder has neither key " SOURCE_KEY " nor " SOURCE_TRAFFIC_KEY, s->folder);
        tell_trouble(n, &e);
        return true;
    }
    if (n->known && !n->gone && !is_volume(s)) {
        n->gone = true;
        return false;
    }
    n->known = false;
    n->taker.handlers->none(n->taker.data);
    return true;
}

/* False: look again soon. */
static bool read_source(struct source_dir *s)
{
    struct err e = ERR_INIT;
    const struct source_taker *t = &s->traffic.taker;
    int rc = locate_file(s, &e);
    watch_folder(s);
    if (rc != 0) {
        tell_trouble(&s->rules, &e);
        if (t->handlers != NULL) {
            tell_trouble(&s->traffic, &e);
        }
        return true;
    }
    check_mount(s);
    bool settled = read_entry(s, &s->rules);
    if (t->handlers == NULL) {
        return settled;
    }
    if (s->single) {
        t->handlers->silent(t->data);
        return settled;
    }
    return read_traffic(s) && settled;
}

static void on_timer(void *data)
{
    struct source_dir *s = data;
    s->soon = false;
    uint64_t pause_ms = s->o.retry_ms;
    if (read_source(s)) {
        pause_ms = s->blind ? s->o.blind_ms : s->o.look_ms;
    }
    net_timer_set(s->timer, pause_ms);
}

static void on_change(void *data, const char *name)
{
    struct source_dir *s = data;
    if (!s->soon && concerns_source(s, name)) {
        s->soon = true;
        net_timer_set(s->timer, s->o.settle_ms);
    }
}

/* ---- life ---- */

static void set_given_path(struct source_dir *s, const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    memcpy(s->given, path, len); /* what follows is zero */
}

struct source_dir *source_dir_new(struct net_loop *l, const struct source_dir_options *o,
                                  const struct source_handlers *h, void *data, struct err *e)
{
    if (strlen(o->path) >= PATH_MAX - 32) {
        err_set(e, -ENAMETOOLONG, "%.100s...: the path is too long", o->path);
        return NULL;
    }
    struct source_dir *s = calloc(1, sizeof *s);
    if (s == NULL) {
        err_memory(e);
        return NULL;
    }
    s->o = *o;
    s->o.mountinfo = o->mountinfo != NULL ? o->mountinfo : "/proc/self/mountinfo";
    s->o.look_ms = o->look_ms != 0 ? o->look_ms : LOOK_MS;
    s->o.blind_ms = o->blind_ms != 0 ? o->blind_ms : BLIND_MS;
    s->o.settle_ms = o->settle_ms != 0 ? o->settle_ms : SETTLE_MS;
    s->o.retry_ms = o->retry_ms != 0 ? o->retry_ms : RETRY_MS;
    s->rules.kind = CONTROL_RULES;
    s->rules.taker = (struct source_taker){.handlers = h, .data = data};
    s->traffic.kind = CONTROL_TRAFFIC;
    s->traffic.taker = o->traffic;
    s->loop = l;
    set_given_path(s, o->path);
    (void)locate_file(s, NULL);
    s->watch = net_folder_watch_new(l, on_change, s);
    s->timer = net_timer_new(l, on_timer, s);
    if (s->watch == NULL || s->timer == NULL) {
        err_memory(e);
        source_dir_free(s);
        return NULL;
    }
    net_timer_set(s->timer, 0);
    return s;
}

void source_dir_look(struct source_dir *s)
{
    s->rules.known = false;
    s->rules.patience_until = 0;
    s->traffic.known = false;
    s->traffic.patience_until = 0;
    net_timer_set(s->timer, 0);
}

void source_dir_free(struct source_dir *s)
{
    if (s != NULL) {
        net_folder_watch_free(s->watch);
        net_timer_free(s->timer);
        free(s);
    }
}
