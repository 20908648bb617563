/* SPDX-License-Identifier: Apache-2.0 */
#include "compile_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/json.h"
#include "base/yaml.h"

enum { FILE_MAX = 64 * 1024 * 1024, STEP = 64 * 1024, NAME_LEN = 400 };

/* What one config became. */
struct result {
    char shard[NAME_LEN]; /* NAMESPACE/NAME */
    struct rules *rules;
};

struct run {
    const struct compile_command *command;
    struct result *results;
    size_t count;
    size_t cap;
    size_t skipped; /* configs of other shards */
    bool failed;
};

/* The file that is being read. */
struct input {
    struct run *run;
    const char *name; /* as messages show it */
    struct yaml_lines lines;
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

static void report(const struct run *r, enum log_level level, const char *file, unsigned line,
                   const char *msg)
{
    if (!log_enabled(level)) {
        return;
    }
    if (r->command->log_format == LOG_TEXT) {
        print_plain(file, line, msg);
    } else {
        LOG_AT(level, msg, log_str("file", file), log_num("line", line));
    }
}

static void fail(struct run *r, const char *file, unsigned line, const char *msg)
{
    report(r, LOG_ERROR, file, line, msg);
    r->failed = true;
}

/* The child that the next step of a path names; moves *path behind it. NULL: there is none. */
static const cJSON *step(const cJSON *at, const char **path)
{
    const char *p = *path;
    if (*p == '[') {
        char *end;
        unsigned long i = strtoul(p + 1, &end, 10);
        *path = end + 1;
        return *end == ']' && i < INT32_MAX ? cJSON_GetArrayItem(at, (int)i) : NULL;
    }
    p += *p == '.' ? 1 : 0;
    size_t len = strcspn(p, ".[:");
    *path = p + len;
    const cJSON *item;
    cJSON_ArrayForEach(item, at)
    {
        if (item->string != NULL && strlen(item->string) == len &&
            strncmp(item->string, p, len) == 0) {
            return item;
        }
    }
    return NULL;
}

/* The line of the field that a message begins with, or of the nearest around it. */
static unsigned line_of_message(const struct input *in, const cJSON *config, const char *msg)
{
    unsigned line = yaml_line_of(&in->lines, config);
    const cJSON *at = config;
    while (*msg != '\0' && *msg != ':' && (at = step(at, &msg)) != NULL) {
        unsigned found = yaml_line_of(&in->lines, at);
        line = found != 0 ? found : line;
    }
    return line;
}

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

static const struct result *find(const struct run *r, const char *shard)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->results[i].shard, shard) == 0) {
            return &r->results[i];
        }
    }
    return NULL;
}

/* Takes the rules. */
static void keep(struct input *in, unsigned line, struct rules *rules)
{
    struct run *r = in->run;
    struct result result = {.rules = rules};
    (void)snprintf(result.shard, sizeof result.shard, "%s/%s", rules_shard_namespace(rules),
                   rules_shard_name(rules));
    if (r->count == r->cap) {
        size_t cap = r->cap == 0 ? 16 : r->cap * 2;
        struct result *grown = realloc(r->results, cap * sizeof *grown);
        if (grown == NULL) {
            rules_unref(rules);
            fail(r, in->name, line, "out of memory");
            return;
        }
        r->results = grown;
        r->cap = cap;
    }
    r->results[r->count++] = result;
}

static void compile_one(struct input *in, const cJSON *config)
{
    struct run *r = in->run;
    struct err e = ERR_INIT;
    struct rules *rules = compile_config(config, &r->command->options, &e);
    unsigned line = yaml_line_of(&in->lines, config);
    if (rules == NULL) {
        fail(r, in->name, line_of_message(in, config, e.msg), e.msg);
        return;
    }
    char shard[NAME_LEN];
    (void)snprintf(shard, sizeof shard, "%s/%s", rules_shard_namespace(rules),
                   rules_shard_name(rules));
    char msg[NAME_LEN + 64];
    if (!wanted(r, rules)) {
        r->skipped++;
        rules_unref(rules);
    } else if (find(r, shard) != NULL) {
        (void)snprintf(msg, sizeof msg, "metadata.name: Duplicate value: shard %s", shard);
        fail(r, in->name, line, msg);
        rules_unref(rules);
    } else {
        if (rules_limit_count(rules) == 0) {
            (void)snprintf(msg, sizeof msg, "note: shard %s has no limits: it sees everything",
                           shard);
            report(r, LOG_WARN, in->name, line, msg);
        }
        keep(in, line, rules);
    }
}

static void skip(struct input *in, const cJSON *document)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(document, "kind"));
    char msg[128];
    (void)snprintf(msg, sizeof msg, "note: skipped: %s%.60s, not a " COMPILE_KIND,
                   kind == NULL ? "it has no kind" : "kind ", kind == NULL ? "" : kind);
    report(in->run, LOG_WARN, in->name, yaml_line_of(&in->lines, document), msg);
}

/* What `kubectl get -o yaml` prints for several objects. */
static const cJSON *list_items(const cJSON *document)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(document, "kind"));
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(document, "items");
    bool list =
        kind != NULL && (strcmp(kind, "List") == 0 || strcmp(kind, COMPILE_KIND "List") == 0);
    return list && cJSON_IsArray(items) ? items : NULL;
}

static void compile_document(struct input *in, const cJSON *document)
{
    const cJSON *items = list_items(document);
    const cJSON *item;
    if (compile_is_config(document)) {
        compile_one(in, document);
    } else if (items == NULL && !cJSON_IsNull(document)) { /* null: nothing between two "---" */
        skip(in, document);
    }
    cJSON_ArrayForEach(item, items)
    {
        if (compile_is_config(item)) {
            compile_one(in, item);
        } else {
            skip(in, item);
        }
    }
}

static int read_stdin(struct buf *out, struct err *e)
{
    for (;;) {
        uint8_t *room = buf_reserve(out, STEP);
        if (room == NULL) {
            return err_set(e, -ENOBUFS, "more than %d bytes", FILE_MAX);
        }
        size_t n = fread(room, 1, STEP, stdin);
        buf_commit(out, n);
        if (n == 0) {
            return ferror(stdin) ? err_set(e, -EIO, "cannot read: %s", strerror(errno)) : 0;
        }
    }
}

static void compile_text(struct input *in, const struct buf *text)
{
    struct err e = ERR_INIT;
    cJSON *documents = yaml_parse_all((const char *)buf_data(text), text->len, &in->lines, &e);
    if (documents == NULL) {
        fail(in->run, in->name, 0, e.msg);
        return;
    }
    if (documents->child == NULL) {
        fail(in->run, in->name, 0, "holds no document");
    }
    const cJSON *document;
    cJSON_ArrayForEach(document, documents)
    {
        compile_document(in, document);
    }
    cJSON_Delete(documents);
    yaml_lines_deinit(&in->lines);
}

static void compile_file(struct run *r, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    struct input in = {
        .run = r, .name = standard ? "standard input" : path, .lines = YAML_LINES_INIT};
    struct buf text = BUF_INIT(FILE_MAX);
    struct err e = ERR_INIT;
    int rc = standard ? read_stdin(&text, &e) : file_read(path, &text, &e);
    if (rc == 0) {
        compile_text(&in, &text);
    } else {
        /* file_read has named the file. */
        fail(r, standard ? in.name : "manager compile", 0, e.msg);
    }
    buf_reset(&text);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct result *)a)->shard, ((const struct result *)b)->shard);
}

/* Appends one document, indented for the reader; its checksum is that of the canonical form. */
static int to_text(const struct rules *rules, struct buf *out)
{
    struct buf canonical = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    int rc = rules_to_json(rules, &canonical);
    if (rc == 0) {
        struct err e = ERR_INIT;
        cJSON *tree = json_parse((const char *)buf_data(&canonical), canonical.len, &e);
        rc = tree == NULL ? e.code : json_indented(tree, out);
        rc = rc != 0 ? rc : buf_append_char(out, '\n');
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

static int write_result(const struct run *r, const struct result *result, struct err *e)
{
    const char *output = r->command->output;
    struct buf text = BUF_INIT((size_t)8 * RULES_TEXT_MAX);
    int rc = to_text(result->rules, &text);
    if (rc != 0) {
        (void)err_set(e, rc, "cannot write the rules of %s: %s", result->shard, err_text(rc));
    } else if (strcmp(output, "-") != 0) {
        rc = write_file(output, result->rules, &text, e);
    } else if (fwrite(buf_data(&text), 1, text.len, stdout) != text.len) {
        rc = err_set(e, -EIO, "standard output: cannot write: %s", strerror(errno));
    }
    buf_reset(&text);
    return rc;
}

static void write_results(struct run *r)
{
    struct err e = ERR_INIT;
    const char *output = r->command->output;
    qsort(r->results, r->count, sizeof *r->results, compare);
    if (strcmp(output, "-") != 0 && mkdir(output, 0755) != 0 && errno != EEXIST) {
        (void)err_set(&e, -errno, "%s: cannot make the folder: %s", output, strerror(errno));
    }
    for (size_t i = 0; i < r->count && e.code == 0; i++) {
        (void)write_result(r, &r->results[i], &e);
    }
    if (e.code == 0 && fflush(stdout) != 0) {
        (void)err_set(&e, -errno, "standard output: cannot write: %s", strerror(errno));
    }
    if (e.code != 0) {
        fail(r, "manager compile", 0, e.msg);
    }
}

static void check_found(struct run *r)
{
    if (r->failed || r->count > 0) {
        return;
    }
    char msg[NAME_LEN];
    if (r->command->shard == NULL) {
        (void)snprintf(msg, sizeof msg, "there is no " COMPILE_KIND " in the input");
    } else {
        (void)snprintf(msg, sizeof msg, "none of the %zu configs in the input is shard %.300s",
                       r->skipped, r->command->shard);
    }
    fail(r, "manager compile", 0, msg);
}

int compile_command_run(const struct compile_command *command)
{
    struct run r = {.command = command};
    for (size_t i = 0; i < command->file_count; i++) {
        compile_file(&r, command->files[i]);
    }
    check_found(&r);
    if (!r.failed) {
        write_results(&r);
    }
    for (size_t i = 0; i < r.count; i++) {
        rules_unref(r.results[i].rules);
    }
    free(r.results);
    return r.failed ? EXIT_FAILED : EXIT_DONE;
}
