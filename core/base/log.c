/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

static const char *log_component = "cmesh";
static enum log_format log_format = LOG_TEXT;
static enum log_level log_max_level = LOG_INFO;

/* How often a message came in this second. Messages are constants: their address names them. Two
 * that share a slot take it from each other, which only lets more through. */
struct burst {
    const char *msg;
    time_t second;
    unsigned count;
    int64_t left_out;
};

enum { BURST_SLOTS = 64 };

static struct burst bursts[BURST_SLOTS];

/* A bounded line under construction; the last bytes are kept for the cut mark and the newline. */
struct line {
    char text[LOG_LINE_MAX];
    size_t len;
    bool cut;
};

enum { LINE_RESERVE = 16, MSG_MAX = 512 };

void log_init(const char *component, enum log_format format, enum log_level level)
{
    log_component = component;
    log_format = format;
    log_max_level = level;
}

bool log_enabled(enum log_level level)
{
    return level <= log_max_level;
}

struct log_field log_strn(const char *key, const char *value, size_t len)
{
    return (struct log_field){.key = key, .str = value == NULL ? "" : value, .len = len};
}

struct log_field log_str(const char *key, const char *value)
{
    return log_strn(key, value, value == NULL ? 0 : strlen(value));
}

struct log_field log_num(const char *key, int64_t value)
{
    return (struct log_field){.key = key, .num = value};
}

static void put(struct line *l, const char *text, size_t len)
{
    if (l->cut || l->len + len > sizeof l->text - LINE_RESERVE) {
        l->cut = true;
        return;
    }
    memcpy(l->text + l->len, text, len);
    l->len += len;
}

static void put_str(struct line *l, const char *text)
{
    put(l, text, strlen(text));
}

static void put_code_point(struct line *l, uint32_t cp)
{
    char esc[16];
    put(l, esc, (size_t)snprintf(esc, sizeof esc, "\\u%04x", (unsigned)cp));
}

/* JSON string escapes; used for both formats, so that no value can forge a line or a field or
 * steer a terminal. What is not UTF-8 shows as U+FFFD. */
static void put_escaped(struct line *l, const char *text, size_t len)
{
    while (len > 0 && !l->cut) {
        uint32_t cp;
        size_t n = utf8_decode(slice_of(text, len), &cp);
        if (cp == '"' || cp == '\\') {
            const char esc[2] = {'\\', (char)cp};
            put(l, esc, 2);
        } else if (cp == '\n') {
            put(l, "\\n", 2);
        } else if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || (cp == UTF8_REPLACEMENT && n == 1)) {
            put_code_point(l, cp);
        } else {
            put(l, text, n);
        }
        text += n;
        len -= n;
    }
}

static void put_quoted(struct line *l, const char *text, size_t len)
{
    put(l, "\"", 1);
    put_escaped(l, text, len);
    put(l, "\"", 1);
}

static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c <= ' ' || c == '"' || c == '\\' || c == '=' || c >= 0x7f) {
            return false;
        }
    }
    return len > 0;
}

static void put_num(struct line *l, int64_t num)
{
    char text[24];
    put(l, text, (size_t)snprintf(text, sizeof text, "%" PRId64, num));
}

static void put_time(struct line *l)
{
    struct timespec now;
    struct tm tm;
    char text[40];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(text + n, sizeof text - n, ".%03ldZ", now.tv_nsec / 1000000);
    put(l, text, n);
}

static bool is_end(const struct log_field *f)
{
    return f->key == NULL && f->str == NULL;
}

static void put_text_fields(struct line *l, const struct log_field *f)
{
    for (; !is_end(f); f++) {
        put_str(l, " ");
        put_str(l, f->key);
        put_str(l, "=");
        if (f->str == NULL) {
            put_num(l, f->num);
        } else if (is_plain(f->str, f->len)) {
            put_escaped(l, f->str, f->len);
        } else {
            put_quoted(l, f->str, f->len);
        }
    }
}

static void format_text(struct line *l, const char *level, const char *msg,
                        const struct log_field *note, const struct log_field *f)
{
    put_time(l);
    put_str(l, " ");
    put_str(l, level);
    put_str(l, " ");
    put_str(l, log_component);
    put_str(l, ": ");
    put_escaped(l, msg, strnlen(msg, MSG_MAX));
    put_text_fields(l, note);
    put_text_fields(l, f);
}

static void put_json_fields(struct line *l, const struct log_field *f)
{
    for (; !is_end(f) && !l->cut; f++) {
        size_t mark = l->len;
        put_str(l, ",");
        put_quoted(l, f->key, strlen(f->key));
        put_str(l, ":");
        if (f->str != NULL) {
            put_quoted(l, f->str, f->len);
        } else {
            put_num(l, f->num);
        }
        if (l->cut) {
            l->len = mark; /* a field that does not fit is left out whole: the line stays JSON */
        }
    }
}

static void format_json(struct line *l, const char *level, const char *msg,
                        const struct log_field *note, const struct log_field *f)
{
    put_str(l, "{\"time\":\"");
    put_time(l);
    put_str(l, "\",\"level\":\"");
    put_str(l, level);
    put_str(l, "\",\"component\":");
    put_quoted(l, log_component, strlen(log_component));
    put_str(l, ",\"msg\":");
    put_quoted(l, msg, strnlen(msg, MSG_MAX));
    put_json_fields(l, note);
    put_json_fields(l, f);
}

/* Whether the message may be written now; then *left_out is how many were not since the last. */
static bool pass_burst(const char *msg, int64_t *left_out)
{
    struct timespec now;
    struct burst *b = &bursts[((uintptr_t)msg >> 4) % BURST_SLOTS];
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (b->msg != msg) {
        *b = (struct burst){.msg = msg, .second = now.tv_sec};
    } else if (b->second != now.tv_sec) {
        b->second = now.tv_sec;
        b->count = 0;
    }
    if (b->count == LOG_BURST) {
        b->left_out++;
        return false;
    }
    b->count++;
    *left_out = b->left_out;
    b->left_out = 0;
    return true;
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
    static const char *const text_names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    static const char *const json_names[] = {"error", "warn", "info", "debug"};
    struct line l = {.len = 0, .cut = false};

    struct log_field note[] = {{0}, {0}};

    if (level != LOG_DEBUG && !pass_burst(msg, &note[0].num)) {
        return;
    }
    if (note[0].num > 0) {
        note[0].key = "left_out";
    }
    fields++; /* the place holder */
    if (log_format == LOG_JSON) {
        format_json(&l, json_names[level], msg, note, fields);
        const char *end = l.cut ? ",\"cut\":1}\n" : "}\n";
        memcpy(l.text + l.len, end, strlen(end));
        l.len += strlen(end);
    } else {
        format_text(&l, text_names[level], msg, note, fields);
        const char *end = l.cut ? " [cut]\n" : "\n";
        memcpy(l.text + l.len, end, strlen(end));
        l.len += strlen(end);
    }
    /* One write a line, so that lines of several processes on one pipe do not mix. A log that
     * cannot be written must not stop the program. */
    ssize_t n = write(STDERR_FILENO, l.text, l.len);
    (void)n;
}
