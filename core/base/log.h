/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - structured log lines on stderr.
 *
 * One line an event: a constant message that says what happened, and fields that say to what.
 * `--log-format=text` prints `time LEVEL component message key=value`, `json` one object a line.
 * Values are escaped; a line is bounded (LOG_LINE_MAX) and cut with a mark. So that no client can
 * flood the log, a message (other than debug) is written at most LOG_BURST times a second; the next
 * one says how many were left out. Credentials are never passed to these functions. The settings
 * are the process's only global state, set once by main.
 *
 *     log_info("listening", log_str("address", addr), log_num("port", port));
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 4096
#define LOG_BURST 10

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
    const char *key; /* NULL: no field */
    const char *str; /* NULL: the number counts */
    size_t len;      /* of str */
    int64_t num;
};

/* `component` is the program's name; it must outlive the process. */
void log_init(const char *component, enum log_format format, enum log_level level);
bool log_enabled(enum log_level level);

/* Fields end with one whose key is NULL and str is NULL; the first is a place holder. */
void log_write(enum log_level level, const char *msg, const struct log_field *fields);

/* A NULL string prints as empty. */
struct log_field log_str(const char *key, const char *value);
struct log_field log_strn(const char *key, const char *value, size_t len);
struct log_field log_num(const char *key, int64_t value);

#define LOG_AT(level, msg, ...)                                                                    \
    do {                                                                                           \
        if (log_enabled(level)) {                                                                  \
            log_write(level, msg, (const struct log_field[]){{0}, ##__VA_ARGS__, {0}});            \
        }                                                                                          \
    } while (0)

#define log_at(level, msg, ...) LOG_AT(level, msg, ##__VA_ARGS__)
#define log_error(msg, ...) LOG_AT(LOG_ERROR, msg, ##__VA_ARGS__)
#define log_warn(msg, ...) LOG_AT(LOG_WARN, msg, ##__VA_ARGS__)
#define log_info(msg, ...) LOG_AT(LOG_INFO, msg, ##__VA_ARGS__)
#define log_debug(msg, ...) LOG_AT(LOG_DEBUG, msg, ##__VA_ARGS__)

#endif
