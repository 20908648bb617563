/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/compile_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/flags.h"
#include "compile/config_files.h"
#include "compile/rules_diff.h"
#include "compile/rules_set.h"
#include "compile/validate.h"
#include "object/warnings.h"
#include "json/json.h"

#define PROGRAM "manager" /* what messages about no file begin with */
#define TEXT_MAX ((size_t)8 * RULES_TEXT_MAX)

struct run {
    const struct compile_command *command;
    struct config_files files;
    const cJSON **configs; /* all of them */
    struct rules_set results;
    size_t skipped; /* configs of other shards */
    bool failed;
};

/* Prints a message without the control characters that a hostile file may have put into it. */
static void print_plain(const char *file, unsigned line, const char *msg)
{
    char place[16] = "";
    if (line != 0) {
        (void)snprintf(place, sizeof place, ":%u", line);
    }
    char text[ERR_MSG_MAX * 2];
    (void)snprintf(text, sizeof text, "%s%s: %s", file, place, msg);
    for (char *p = text; *p != '\0'; p++) {
        *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    }
    fprintf(stderr, "%s\n", text);
}

static void report(void *data, enum log_level level, const char *file, unsigned line,
                   const char *msg)
{
    struct run *r = data;
    file = file == NULL ? PROGRAM : file;
    r->failed = r->failed || level == LOG_ERROR;
    if (!log_enabled(level)) {
        return;
    }
    if (r->command->log_format == LOG_TEXT) {
        print_plain(file, line, msg);
    } else {
        LOG_AT(level, msg, log_str("file", file), log_num("line", line));
    }
}

static void report_error(struct run *r, const char *msg)
{
    report(r, LOG_ERROR, NULL, 0, msg);
}

/* About a field of a config. */
static void fail_config(struct run *r, const struct config_entry *entry, const char *msg)
{
    report(r, LOG_ERROR, config_files_name(entry), config_files_line(entry, msg), msg);
}

/* ---- compiling ---- */

static bool wanted(const struct run *r, const struct rules *rules)
{
    const char *shard = r->command->shard;
    if (shard == NULL) {
        return true;
    }
    const char *slash = strchr(shard, '/');
    if (slash == NULL) {
        return strcmp(shard, rules_shard_name(rules)) == 0;
    }
    const char *ns = rules_shard_namespace(rules);
    return strlen(ns) == (size_t)(slash - shard) &&
           strncmp(ns, shard, (size_t)(slash - shard)) == 0 &&
           strcmp(slash + 1, rules_shard_name(rules)) == 0;
}

/* What the webhook would say, beside all configs of the input. */
static void validate(struct run *r, const struct config_entry *entry)
{
    const struct validate_context context = {.configs = r->configs, .config_count = r->files.count};
    struct warnings warnings = WARNINGS_INIT;
    struct err e = ERR_INIT;
    int rc = validate_config(entry->config, &r->command->options, &context, &warnings, &e);
    for (size_t i = 0; i < warnings.count; i++) {
        char msg[ERR_MSG_MAX + 8];
        (void)snprintf(msg, sizeof msg, "note: %s", warnings.items[i]);
        report(r, LOG_WARN, config_files_name(entry), config_files_line(entry, warnings.items[i]),
               msg);
    }
    if (rc != 0) {
        fail_config(r, entry, e.msg);
    }
    warnings_deinit(&warnings);
}

static void compile_one(struct run *r, const struct config_entry *entry)
{
    struct err e = ERR_INIT;
    struct rules *rules = compile_config(entry->config, &r->command->options, &e);
    if (rules == NULL) {
        fail_config(r, entry, e.msg);
        return;
    }
    if (!wanted(r, rules)) {
        r->skipped++;
        rules_unref(rules);
        return;
    }
    char shard[RULES_SET_NAME];
    char msg[RULES_SET_NAME + 64];
    (void)snprintf(msg, sizeof msg, "metadata.name: Duplicate value: shard %s",
                   rules_set_name(rules, shard));
    int rc = rules_set_add(&r->results, rules);
    if (rc != 0) {
        fail_config(r, entry, rc == -EEXIST ? msg : "out of memory");
    } else {
        validate(r, entry);
    }
}

static void compile_all(struct run *r)
{
    r->configs = calloc(r->files.count + 1, sizeof(cJSON *));
    if (r->configs == NULL) {
        report_error(r, "out of memory");
        return;
    }
    for (size_t i = 0; i < r->files.count; i++) {
        r->configs[i] = r->files.entries[i].config;
    }
    for (size_t i = 0; i < r->files.count; i++) {
        compile_one(r, &r->files.entries[i]);
    }
}

/* ---- writing ---- */

/* Appends one document, indented for the reader; its checksum is that of the canonical form. */
static int to_text(const struct rules *rules, struct buf *out)
{
    struct buf canonical = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    int rc = rules_to_json(rules, &canonical);
    if (rc == 0) {
        struct err e = ERR_INIT;
        cJSON *tree = json_parse((const char *)buf_data(&canonical), canonical.len, &e);
        if (tree != NULL) {
            json_indented(tree, out);
        } else {
            buf_fail(out, e.code);
        }
        rc = buf_append_char(out, '\n');
        cJSON_Delete(tree);
    }
    buf_reset(&canonical);
    return rc;
}

static int write_file(const char *folder, const struct rules *rules, const struct buf *text,
                      struct err *e)
{
    struct buf path = BUF_INIT(4096);
    int rc = buf_printf(&path, "%s/%s.%s.json", folder, rules_shard_namespace(rules),
                        rules_shard_name(rules));
    const char *name = rc == 0 ? buf_cstr(&path) : NULL;
    rc = name == NULL ? err_set(e, -ENAMETOOLONG, "%.100s...: the path is too long", folder)
                      : file_write_atomic(name, buf_data(text), text->len, 0644, e);
    buf_reset(&path);
    return rc;
}

static int print(const struct buf *text, struct err *e)
{
    return fwrite(buf_data(text), 1, text->len, stdout) == text->len
               ? 0
               : err_set(e, -EIO, "standard output: cannot write: %s", strerror(errno));
}

static int write_result(const struct run *r, const struct rules *rules, struct err *e)
{
    const char *output = r->command->output;
    struct buf text = BUF_INIT(TEXT_MAX);
    char shard[RULES_SET_NAME];
    int rc = to_text(rules, &text);
    if (rc != 0) {
        (void)err_set(e, rc, "cannot write the rules of %s: %s", rules_set_name(rules, shard),
                      err_text(rc));
    } else if (strcmp(output, "-") != 0) {
        rc = write_file(output, rules, &text, e);
    } else {
        rc = print(&text, e);
    }
    buf_reset(&text);
    return rc;
}

static void flush(struct err *e)
{
    if (e->code == 0 && fflush(stdout) != 0) {
        (void)err_set(e, -errno, "standard output: cannot write: %s", strerror(errno));
    }
}

static void write_results(struct run *r)
{
    struct err e = ERR_INIT;
    const char *output = r->command->output;
    if (strcmp(output, "-") != 0 && mkdir(output, 0755) != 0 && errno != EEXIST) {
        (void)err_set(&e, -errno, "%s: cannot create the folder: %s", output, strerror(errno));
    }
    for (size_t i = 0; i < r->results.count && e.code == 0; i++) {
        (void)write_result(r, r->results.items[i], &e);
    }
    flush(&e);
    if (e.code != 0) {
        report_error(r, e.msg);
    }
}

/* ---- comparing ---- */

static int print_difference(const struct rules *before, const struct rules *after, bool *different,
                            struct err *e)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    bool equal = false;
    int rc = rules_diff(before, after, &text, &equal, e);
    *different = *different || !equal;
    if (rc == 0) {
        rc = print(&text, e);
    }
    buf_reset(&text);
    return rc;
}

/* A file may hold some of the shards only, and to apply it removes none. */
static void note_missing(struct run *r, const struct rules *rules)
{
    char shard[RULES_SET_NAME];
    char msg[RULES_SET_NAME + 64];
    (void)snprintf(msg, sizeof msg, "note: shard %s is not in the input and not compared",
                   rules_set_name(rules, shard));
    report(r, LOG_WARN, NULL, 0, msg);
}

static int compare_all(struct run *r, const struct rules_set *before, bool *different,
                       struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < r->results.count && rc == 0; i++) {
        const struct rules *after = r->results.items[i];
        rc = print_difference(rules_set_find(before, after), after, different, e);
    }
    for (size_t i = 0; i < before->count && rc == 0; i++) {
        const struct rules *rules = before->items[i];
        if (wanted(r, rules) && rules_set_find(&r->results, rules) == NULL) {
            note_missing(r, rules);
        }
    }
    return rc;
}

/* Whether there is a difference. */
static bool compare(struct run *r)
{
    struct err e = ERR_INIT;
    struct rules_set before = RULES_SET_INIT;
    bool different = false;
    if (rules_set_read(&before, r->command->diff, &e) == 0) {
        rules_set_sort(&before);
        (void)compare_all(r, &before, &different, &e);
        flush(&e);
    } else {
        err_prefix(&e, "--diff");
    }
    rules_set_deinit(&before);
    if (e.code != 0) {
        report_error(r, e.msg);
    }
    return different;
}

/* ---- all ---- */

static void check_found(struct run *r)
{
    if (r->failed || r->results.count > 0) {
        return;
    }
    char msg[RULES_SET_NAME];
    if (r->command->shard == NULL) {
        (void)snprintf(msg, sizeof msg, "there is no " COMPILE_KIND " in the input");
    } else {
        (void)snprintf(msg, sizeof msg,
                       "there is no " COMPILE_KIND " of shard %.300s in the input; of others: %zu",
                       r->command->shard, r->skipped);
    }
    report_error(r, msg);
}

int compile_command_run(const struct compile_command *command)
{
    enum { SAME, DIFFERENT, TROUBLE }; /* the exit codes of diff(1) */
    struct run r = {.command = command, .files = CONFIG_FILES_INIT, .results = RULES_SET_INIT};
    bool different = false;
    for (size_t i = 0; i < command->file_count; i++) {
        (void)config_files_read(&r.files, command->files[i], report, &r);
    }
    compile_all(&r);
    check_found(&r);
    rules_set_sort(&r.results);
    if (!r.failed && command->diff != NULL) {
        different = compare(&r);
    } else if (!r.failed) {
        write_results(&r);
    }
    rules_set_deinit(&r.results);
    config_files_deinit(&r.files);
    free(r.configs);
    if (command->diff != NULL) {
        return r.failed ? TROUBLE : different ? DIFFERENT : SAME;
    }
    return r.failed ? EXIT_FAILED : EXIT_DONE;
}
