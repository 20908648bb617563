/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/shard_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "commands/shard_roots.h"
#include "compile/namespace_selectors.h"
#include "object/warnings.h"
#include "validate/validate.h"
#include "json/field.h"

#define PROGRAM "manager" /* what messages about no file begin with */

/* Prints a message without the control characters that a hostile file may have put into it. */
static void print_plain(enum log_level level, const char *file, unsigned line, const char *msg)
{
    char place[16] = "";
    if (line != 0) {
        (void)snprintf(place, sizeof place, ":%u", line);
    }
    const char *what = level == LOG_WARN ? "warning: " : level == LOG_INFO ? "note: " : "";
    char text[ERR_MSG_MAX * 2];
    (void)snprintf(text, sizeof text, "%s%s: %s%s", file, place, what, msg);
    for (char *p = text; *p != '\0'; p++) {
        *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    }
    fprintf(stderr, "%s\n", text);
}

/* LOG_ERROR is an error, LOG_WARN a warning, LOG_INFO a note. */
static void report(void *data, enum log_level level, const char *file, unsigned line,
                   const char *msg)
{
    struct shard_files *r = data;
    file = file == NULL ? PROGRAM : file;
    r->failed = r->failed || level == LOG_ERROR;
    r->warned = r->warned || level == LOG_WARN;
    if (!log_enabled(level)) {
        return;
    }
    if (r->log_format == LOG_TEXT) {
        print_plain(level, file, line, msg);
    } else {
        LOG_AT(level, msg, log_str("file", file), log_num("line", line));
    }
}

static void report_entry(struct shard_files *r, enum log_level level,
                         const struct config_entry *entry, const char *msg)
{
    report(r, level, config_files_name(entry), config_files_line(entry, msg), msg);
}

void shard_files_fail(struct shard_files *r, const char *msg)
{
    report(r, LOG_ERROR, NULL, 0, msg);
}

void shard_files_fail_entry(struct shard_files *r, const struct config_entry *entry,
                            const char *msg)
{
    char text[ERR_MSG_MAX + 280];
    bool made = entry->source != NULL;
    (void)snprintf(text, sizeof text, "%s%s%.253s%s", msg, made ? " (shard " : "",
                   made ? shards_name(entry->config) : "", made ? ")" : "");
    report_entry(r, LOG_ERROR, entry, text);
}

void shard_files_warn_entry(struct shard_files *r, const struct config_entry *entry,
                            const char *msg)
{
    report_entry(r, LOG_WARN, entry, msg);
}

void shard_files_note(struct shard_files *r, const char *msg)
{
    report(r, LOG_INFO, NULL, 0, msg);
}

void shard_files_note_entry(struct shard_files *r, const struct config_entry *entry,
                            const char *msg)
{
    report_entry(r, LOG_INFO, entry, msg);
}

int shard_files_be_strict(struct shard_files *r)
{
    if (r->warned && !r->failed) {
        shard_files_fail(r, "with --strict a warning is an error");
    }
    return r->failed ? -1 : 0;
}

/* ---- compiling ---- */

bool shard_files_wants(const struct shard_files *r, const struct rules *rules)
{
    const char *shard = r->shard;
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

static const char *namespace_of(const struct shard_files *r, const struct shards_item *item)
{
    return item->ns[0] == '\0' ? r->options->namespace : item->ns;
}

const cJSON *shard_files_config(const struct shard_files *r, const struct rules *rules)
{
    for (size_t i = 0; i < r->files.configs.count; i++) {
        const struct shards_item *item = &r->items[i];
        if (strcmp(item->name, rules_shard_name(rules)) == 0 &&
            strcmp(namespace_of(r, item), rules_shard_namespace(rules)) == 0) {
            return item->config;
        }
    }
    return NULL;
}

/* Whether a webhook of a configuration with the label leads to a Service of the namespace. */
static bool is_routed(const struct shard_files *r, const char *ns)
{
    for (size_t i = 0; i < r->files.webhooks.count; i++) {
        const cJSON *webhook;
        cJSON_ArrayForEach(webhook, field_get(r->files.webhooks.entries[i].config, "webhooks"))
        {
            const cJSON *service = field_get(field_get(webhook, "clientConfig"), "service");
            if (strcmp(field_text(service, "namespace"), ns) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* What the webhook would say, beside all configs of the input. Of shards that are made of a root no
 * warnings: they would be those of the root, again and again. */
static void validate(struct shard_files *r, const struct config_entry *entry)
{
    const struct shards_item item = shards_item_of(entry->config);
    const struct validate_context context = {
        .shards = {.items = r->items, .count = r->files.configs.count},
        .routed = is_routed(r, namespace_of(r, &item))};
    struct warnings warnings = WARNINGS_INIT;
    struct err e = ERR_INIT;
    int rc = validate_config(entry->config, &r->with, &context, &warnings, &e);
    for (size_t i = 0; i < warnings.count && entry->source == NULL; i++) {
        shard_files_warn_entry(r, entry, warnings.items[i]);
    }
    if (rc != 0) {
        shard_files_fail_entry(r, entry, e.msg);
    }
    warnings_deinit(&warnings);
}

static void compile_one(struct shard_files *r, const struct config_entry *entry)
{
    struct err e = ERR_INIT;
    if (field_get(field_get(entry->config, "spec"), "root") != NULL) {
        r->roots = true;
        validate(r, entry);
        return;
    }
    struct rules *rules = compile_config(entry->config, &r->with, &e);
    if (rules == NULL) {
        shard_files_fail_entry(r, entry, e.msg);
        return;
    }
    if (!shard_files_wants(r, rules)) {
        r->skipped++;
        rules_unref(rules);
        return;
    }
    char shard[RULES_SET_NAME];
    char msg[RULES_SET_NAME + 64];
    (void)snprintf(msg, sizeof msg, "metadata.name: Duplicate value: shard %s",
                   rules_set_name(rules, shard));
    if (rules_set_add(&r->results, rules)) {
        validate(r, entry);
    } else {
        shard_files_fail_entry(r, entry, msg);
    }
}

static void compile_all(struct shard_files *r)
{
    r->items = xcalloc(r->files.configs.count + 1, sizeof *r->items);
    for (size_t i = 0; i < r->files.configs.count; i++) {
        r->items[i] = shards_item_of(r->files.configs.entries[i].config);
        const struct sharing_consent consent = {.ns = namespace_of(r, &r->items[i]),
                                                .any = &r->options->shareable};
        sharing_set_add(&r->shared, r->items[i].config, &consent);
    }
    for (size_t i = 0; i < r->files.configs.count; i++) {
        compile_one(r, &r->files.configs.entries[i]);
    }
}

static void check_found(struct shard_files *r)
{
    if (r->failed || r->results.count > 0 || (r->roots && r->shard == NULL)) {
        return;
    }
    char msg[RULES_SET_NAME];
    if (r->shard == NULL) {
        (void)snprintf(msg, sizeof msg, "there is no " COMPILE_KIND " in the input");
    } else {
        (void)snprintf(msg, sizeof msg,
                       "there is no " COMPILE_KIND " of shard %.300s in the input; of others: %zu",
                       r->shard, r->skipped);
    }
    shard_files_fail(r, msg);
}

/* ---- namespaces ---- */

static void add_namespaces(struct shard_files *r)
{
    const struct config_list *list = &r->files.namespaces;
    for (size_t i = 0; i < list->count; i++) {
        struct err e = ERR_INIT;
        if (namespace_names_add(&r->names, list->entries[i].config, &e) != 0) {
            shard_files_fail_entry(r, &list->entries[i], e.msg);
        }
    }
    namespace_names_sort(&r->names);
}

/* For messages; NULL: nothing. */
static const char *what_is_missing(const struct shard_files *r)
{
    if (r->names.bare) {
        return "--namespaces gives names without labels: give it what `kubectl get namespaces -o "
               "yaml` prints";
    }
    if (r->names.count == 0) {
        return "the namespaces are not known: give --namespaces what `kubectl get namespaces -o "
               "yaml` prints";
    }
    return NULL;
}

static void read_namespaces(struct shard_files *r)
{
    struct err e = ERR_INIT;
    const struct shard_namespaces *n = &r->namespaces;
    r->names.set.own = n->own;
    r->names.set.system = n->system;
    if (n->path != NULL && namespace_names_read(&r->names, n->path, &e) != 0) {
        shard_files_fail(r, e.msg);
    }
    add_namespaces(r);
    r->names.set.missing = what_is_missing(r);
    r->with = *r->options;
    r->with.namespaces = &r->names.set;
    r->with.shared = &r->shared;
}

/* So that nobody takes a part for the whole. */
static void note_namespaces(struct shard_files *r)
{
    for (size_t i = 0; i < r->files.configs.count && r->namespaces.path == NULL; i++) {
        struct namespace_selectors asked = {.count = 0};
        namespace_selectors_read(&asked, r->files.configs.entries[i].config);
        bool asks = asked.count > 0 && r->names.count > 0;
        namespace_selectors_deinit(&asked);
        if (asks) {
            shard_files_note(r, "without --namespaces the Namespaces of the input are taken for "
                                "all that there are");
            return;
        }
    }
}

int shard_files_read(struct shard_files *r, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)config_files_read(&r->files, paths[i], report, r);
    }
    read_namespaces(r);
    shard_roots_expand(r);
    note_namespaces(r);
    compile_all(r);
    check_found(r);
    rules_set_sort(&r->results);
    return r->failed ? -1 : 0;
}

void shard_files_deinit(struct shard_files *r)
{
    rules_set_deinit(&r->results);
    sharing_set_deinit(&r->shared);
    config_files_deinit(&r->files);
    namespace_names_deinit(&r->names);
    cJSON_Delete(r->made);
    free(r->items);
    r->items = NULL;
}
