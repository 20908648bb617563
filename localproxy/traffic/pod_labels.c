/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/pod_labels.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/file_state.h"
#include "base/log.h"
#include "base/utf8.h"
#include "kube/name.h"
#include "net/folder_watch.h"
#include "net/timer.h"

enum { LOOK_MS = 10000, BLIND_MS = 1000, SETTLE_MS = 50 };

/* ---- the text ---- */

/* Where it is read, and what is wrong with it. */
struct reader {
    struct slice rest;
    size_t line;
};

static int wrong(const struct reader *r, struct err *e, const char *what)
{
    return err_set(e, -EINVAL, "line %zu: %s", r->line, what);
}

/* So many hexadecimal digits. */
static bool read_hex(struct reader *r, size_t digits, uint32_t *out)
{
    *out = 0;
    if (r->rest.len < digits) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        int value = ascii_hex_value(r->rest.ptr[i]);
        if (value < 0) {
            return false;
        }
        *out = *out << 4 | (uint32_t)value;
    }
    r->rest = slice_of(r->rest.ptr + digits, r->rest.len - digits);
    return true;
}

static char take_char(struct reader *r)
{
    char c = r->rest.ptr[0];
    r->rest = slice_of(r->rest.ptr + 1, r->rest.len - 1);
    return c;
}

/* Source: https://go.dev/ref/spec#Rune_literals, as strconv.Quote writes them. */
static bool read_escape(struct reader *r, struct buf *out)
{
    static const char letters[] = "abfnrtv\\\"";
    static const char values[] = "\a\b\f\n\r\t\v\\\"";
    uint32_t code;
    if (r->rest.len == 0) {
        return false;
    }
    char c = take_char(r);
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    if (letter != NULL) {
        buf_append_char(out, values[letter - letters]);
        return true;
    }
    if (c == 'x') {
        bool good = read_hex(r, 2, &code);
        buf_append_char(out, (char)code);
        return good;
    }
    if ((c != 'u' || !read_hex(r, 4, &code)) && (c != 'U' || !read_hex(r, 8, &code))) {
        return false;
    }
    return utf8_append(out, code) != -EINVAL;
}

/* Behind the first quote; appends what stands up to the second. */
static bool read_quoted(struct reader *r, struct buf *out)
{
    while (r->rest.len > 0) {
        char c = take_char(r);
        if (c == '"') {
            return true;
        }
        if (c == '\n') {
            return false;
        }
        if (c != '\\') {
            buf_append_char(out, c);
        } else if (!read_escape(r, out)) {
            return false;
        }
    }
    return false;
}

/* Appends key and value to `texts`; *out has their lengths (point_at_text). */
static int read_line(struct reader *r, struct buf *texts, struct selector_label *out, struct err *e)
{
    const char *equals = memchr(r->rest.ptr, '=', r->rest.len);
    if (equals == NULL) {
        return wrong(r, e, "there is no \"=\"");
    }
    struct slice key = slice_of(r->rest.ptr, (size_t)(equals - r->rest.ptr));
    if (name_check_qualified(key) != NULL) {
        return wrong(r, e, "the key is not that of a label");
    }
    r->rest = slice_of(equals + 1, r->rest.len - key.len - 1);
    if (r->rest.len == 0 || take_char(r) != '"') {
        return wrong(r, e, "the value is not in quotes");
    }
    buf_append(texts, key.ptr, key.len);
    size_t value_at = texts->len;
    if (!read_quoted(r, texts)) {
        return wrong(r, e, "the value is not quoted as Go quotes it");
    }
    if (r->rest.len > 0 && take_char(r) != '\n') {
        return wrong(r, e, "something stands behind the value");
    }
    out->key = (struct slice){.ptr = NULL, .len = key.len};
    out->value = (struct slice){.ptr = NULL, .len = texts->len - value_at};
    r->line++;
    return buf_error(texts);
}

/* The texts stand one behind the other. */
static void point_at_text(struct pod_label_list *list)
{
    const char *at = (const char *)buf_data(&list->text);
    for (size_t i = 0; i < list->count; i++) {
        struct selector_label *l = &list->labels[i];
        l->key = slice_of(at, l->key.len);
        l->value = slice_of(at + l->key.len, l->value.len);
        at += l->key.len + l->value.len;
    }
}

static size_t count_lines(struct slice text)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n' ? 1 : 0;
    }
    return lines;
}

static int read_lines(struct slice text, struct pod_label_list *out, struct err *e)
{
    struct reader r = {.rest = text, .line = 1};
    while (r.rest.len > 0) {
        int rc = read_line(&r, &out->text, &out->labels[out->count], e);
        if (rc != 0) {
            return e->code == rc ? rc : err_set(e, rc, "out of memory");
        }
        out->count++;
    }
    point_at_text(out);
    return 0;
}

int pod_label_list_parse(struct slice text, struct pod_label_list *out, struct err *e)
{
    size_t lines = count_lines(text);
    *out = (struct pod_label_list){.count = 0};
    buf_init(&out->text, POD_LABELS_TEXT_MAX);
    if (text.len > POD_LABELS_TEXT_MAX || lines > POD_LABELS_MAX) {
        return err_set(e, -E2BIG, "there are too many labels");
    }
    out->labels = calloc(lines, sizeof out->labels[0]);
    if (out->labels == NULL) {
        return err_memory(e);
    }
    int rc = read_lines(text, out, e);
    if (rc != 0) {
        pod_label_list_deinit(out);
    }
    return rc;
}

void pod_label_list_deinit(struct pod_label_list *list)
{
    free(list->labels);
    buf_reset(&list->text);
    *list = (struct pod_label_list){.count = 0};
}

/* ---- the file ---- */

struct pod_labels {
    char path[PATH_MAX];
    char folder[PATH_MAX];
    struct net_folder_watch *watch;
    struct net_timer *timer;
    bool soon;  /* the timer is set for an event */
    bool blind; /* the folder cannot be watched */
    struct file_state state;
    struct pod_label_list list;
    struct err trouble;
    void (*on_change)(void *data);
    void *data;
};

static int read_list(const char *path, struct pod_label_list *out, struct err *e)
{
    struct buf text = BUF_INIT(POD_LABELS_TEXT_MAX);
    int rc = file_read(path, &text, e);
    if (rc == 0) {
        rc = pod_label_list_parse(buf_slice(&text), out, e);
        if (rc != 0) {
            err_prefix(e, "%s", path);
        }
    }
    buf_reset(&text);
    return rc;
}

static void tell_trouble(struct pod_labels *p, const struct err *e)
{
    bool news = p->trouble.code == 0 || strcmp(p->trouble.msg, e->msg) != 0;
    p->trouble = *e;
    if (news) {
        log_warn("cannot read the pod's labels", log_str("error", e->msg));
        p->on_change(p->data);
    }
}

static void look(struct pod_labels *p)
{
    struct pod_label_list list;
    struct err e = ERR_INIT;
    p->blind = net_folder_watch_set(p->watch, p->folder) != 0;
    if (!file_state_changed(&p->state, p->path) && p->trouble.code == 0) {
        return;
    }
    if (read_list(p->path, &list, &e) != 0) {
        tell_trouble(p, &e);
        return;
    }
    struct pod_label_list before = p->list;
    p->list = list;
    p->trouble = (struct err)ERR_INIT;
    pod_label_list_deinit(&before);
    p->on_change(p->data);
}

static void on_timer(void *data)
{
    struct pod_labels *p = data;
    p->soon = false;
    look(p);
    net_timer_set(p->timer, p->blind ? BLIND_MS : LOOK_MS);
}

/* The kubelet swaps a link beside it. */
static void on_event(void *data, const char *name)
{
    struct pod_labels *p = data;
    (void)name;
    if (!p->soon) {
        p->soon = true;
        net_timer_set(p->timer, SETTLE_MS);
    }
}

static void set_folder(struct pod_labels *p)
{
    const char *slash = strrchr(p->path, '/');
    if (slash == NULL) {
        (void)snprintf(p->folder, sizeof p->folder, ".");
    } else {
        int len = slash == p->path ? 1 : (int)(slash - p->path);
        (void)snprintf(p->folder, sizeof p->folder, "%.*s", len, p->path);
    }
}

static void nobody(void *data)
{
    (void)data;
}

struct pod_labels *pod_labels_new(struct net_loop *l, const char *path,
                                  void (*on_change)(void *data), void *data, struct err *e)
{
    if (strlen(path) >= PATH_MAX) {
        (void)err_set(e, -ENAMETOOLONG, "%.100s...: the path is too long", path);
        return NULL;
    }
    struct pod_labels *p = calloc(1, sizeof *p);
    if (p == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    (void)snprintf(p->path, sizeof p->path, "%s", path);
    set_folder(p);
    p->on_change = nobody; /* while it is read the first time */
    p->data = data;
    p->trouble = (struct err)ERR_INIT;
    p->watch = net_folder_watch_new(l, on_event, p);
    p->timer = net_timer_new(l, on_timer, p);
    if (p->watch == NULL || p->timer == NULL) {
        (void)err_memory(e);
        pod_labels_free(p);
        return NULL;
    }
    on_timer(p);
    p->on_change = on_change;
    return p;
}

const struct pod_label_list *pod_labels_list(const struct pod_labels *p)
{
    return &p->list;
}

const struct err *pod_labels_trouble(const struct pod_labels *p)
{
    return p->trouble.code == 0 ? NULL : &p->trouble;
}

void pod_labels_free(struct pod_labels *p)
{
    if (p != NULL) {
        net_folder_watch_free(p->watch);
        net_timer_free(p->timer);
        pod_label_list_deinit(&p->list);
        free(p);
    }
}
