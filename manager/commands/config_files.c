/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/config_files.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/grow.h"
#include "base/spelling.h"
#include "base/xalloc.h"
#include "commands/input.h"
#include "commands/namespace_names.h"
#include "compile/compile.h"
#include "policy/policy.h"
#include "yaml/yaml.h"
#include "json/field.h"

static const char *const workload_kinds[] = {"StatefulSet", "Deployment"};
static const char *const webhooks_kinds[] = {"ValidatingWebhookConfiguration",
                                             "MutatingWebhookConfiguration"};
#define WEBHOOKS_GROUP "admissionregistration.k8s.io/"

struct config_file {
    const char *name; /* as messages show it */
    cJSON *documents;
    struct yaml_lines lines;
    struct config_file *next;
};

struct reader {
    struct config_files *files;
    struct config_file *file;
    config_files_report_cb report;
    void *data;
    int rc;
};

static void report_file_error(struct reader *r, unsigned line, const char *msg)
{
    r->report(r->data, LOG_ERROR, r->file->name, line, msg);
    r->rc = -1;
}

/* Errors of the parser begin with the line: "line 3, column 5: why". */
static void fail_parsing(struct reader *r, const char *msg)
{
    unsigned line = 0;
    int used = 0;
    if (sscanf(msg, "line %u%n", &line, &used) == 1 && strchr(",:", msg[used]) != NULL) {
        msg += used + 1;
        msg += strspn(msg, " ");
    }
    report_file_error(r, line, msg);
}

/* The kind that is likely meant by another one; NULL: none. */
static const char *kind_meant(const char *kind)
{
    const char *const known[] = {COMPILE_KIND, policy_kind_name(TRAFFIC_BREAKER),
                                 policy_kind_name(TRAFFIC_FAULT_INJECTION)};
    unsigned best = SPELLING_NEAR + 1;
    const char *meant = NULL;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        unsigned distance = spelling_distance(kind, known[i]);
        if (distance != 0 && distance < best) {
            best = distance;
            meant = known[i];
        }
    }
    return meant;
}

static void skip(struct reader *r, const cJSON *document)
{
    const char *kind = field_text(document, "kind");
    const char *meant = kind_meant(kind);
    enum log_level level = kind[0] == '\0' || meant != NULL ? LOG_WARN : LOG_INFO;
    char msg[160];
    if (meant != NULL) {
        (void)snprintf(msg, sizeof msg, "skipped: kind %.60s: is %s meant?", kind, meant);
    } else {
        (void)snprintf(msg, sizeof msg, "skipped: %s%.60s, not a " COMPILE_KIND,
                       kind[0] == '\0' ? "it has no kind" : "kind ", kind);
    }
    r->report(r->data, level, r->file->name, yaml_line_of(&r->file->lines, document), msg);
}

static void append(struct config_list *list, struct config_entry entry)
{
    list->entries = xptr(grow_array(list->entries, list->count, &list->cap, sizeof entry));
    list->entries[list->count++] = entry;
}

static void add_entry(const struct reader *r, struct config_list *list, const cJSON *config)
{
    append(list, (struct config_entry){.config = config, .file = r->file});
}

void config_files_add(struct config_list *list, const cJSON *config,
                      const struct config_entry *source)
{
    append(list,
           (struct config_entry){.config = config, .file = source->file, .source = source->config});
}

static bool is_workload(const cJSON *object)
{
    const char *kind = field_text(object, "kind");
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(workload_kinds); i++) {
        known = known || strcmp(kind, workload_kinds[i]) == 0;
    }
    return known && strncmp(field_text(object, "apiVersion"), "apps/", 5) == 0;
}

static bool is_webhooks(const struct reader *r, const cJSON *object)
{
    const cJSON *labels = field_get(field_get(object, "metadata"), "labels");
    const char *api = field_text(object, "apiVersion");
    return ARRAY_HAS(webhooks_kinds, field_text(object, "kind")) &&
           strncmp(api, WEBHOOKS_GROUP, strlen(WEBHOOKS_GROUP)) == 0 &&
           strcmp(field_text(labels, r->files->route_label), "true") == 0;
}

static bool is_service(const cJSON *object)
{
    return strcmp(field_text(object, "kind"), "Service") == 0 &&
           strcmp(field_text(object, "apiVersion"), "v1") == 0;
}

static bool add_webhooks(const struct reader *r, const cJSON *object)
{
    if (r->files->route_label == NULL) {
        return false;
    }
    if (is_webhooks(r, object)) {
        add_entry(r, &r->files->webhooks, object);
        return true;
    }
    if (is_service(object)) {
        add_entry(r, &r->files->services, object);
        return true;
    }
    return false;
}

/* False if it is of another kind. */
static bool add_object(const struct reader *r, const cJSON *object)
{
    enum traffic_kind kind;
    if (compile_is_config(object)) {
        add_entry(r, &r->files->configs, object);
        return true;
    }
    if (r->files->take_policies && policy_is_one(object, &kind)) {
        add_entry(r, &r->files->policies, object);
        return true;
    }
    if (namespace_names_is_one(object, false)) {
        add_entry(r, &r->files->namespaces, object);
        return true;
    }
    if (is_workload(object)) {
        add_entry(r, &r->files->workloads, object);
        return true;
    }
    return add_webhooks(r, object);
}

/* NULL: it is no list of what is looked for. */
static const cJSON *list_items(const struct reader *r, const cJSON *document)
{
    const cJSON *items = input_list_items(document, COMPILE_KIND);
    items = items != NULL ? items : input_list_items(document, "Namespace");
    for (size_t i = 0; items == NULL && i < ARRAY_LEN(workload_kinds); i++) {
        items = input_list_items(document, workload_kinds[i]);
    }
    for (size_t i = 0; items == NULL && i < ARRAY_LEN(webhooks_kinds); i++) {
        items =
            r->files->route_label == NULL ? NULL : input_list_items(document, webhooks_kinds[i]);
    }
    if (items == NULL && r->files->route_label != NULL) {
        items = input_list_items(document, "Service");
    }
    for (int i = TRAFFIC_BREAKER; i <= TRAFFIC_FAULT_INJECTION && r->files->take_policies; i++) {
        if (items == NULL) {
            items = input_list_items(document, policy_kind_name((enum traffic_kind)i));
        }
    }
    return items;
}

static void add_document(struct reader *r, const cJSON *document)
{
    const cJSON *items = list_items(r, document);
    const cJSON *item;
    if (!add_object(r, document) && items == NULL &&
        !cJSON_IsNull(document)) { /* null: nothing between two "---" */
        skip(r, document);
    }
    cJSON_ArrayForEach(item, items)
    {
        if (!add_object(r, item)) {
            skip(r, item);
        }
    }
}

static void add_text(struct reader *r, const struct buf *text)
{
    struct err e = ERR_INIT;
    struct config_file *f = r->file;
    f->documents = yaml_parse_all((const char *)buf_data(text), text->len, &f->lines, &e);
    if (f->documents == NULL) {
        xerr(&e);
        fail_parsing(r, e.msg);
        return;
    }
    if (f->documents->child == NULL) {
        report_file_error(r, 0, "contains no document");
    }
    const cJSON *document;
    cJSON_ArrayForEach(document, f->documents)
    {
        add_document(r, document);
    }
}

int config_files_read(struct config_files *c, const char *path, config_files_report_cb report,
                      void *data)
{
    struct config_file *f = xcalloc(1, sizeof *f);
    struct buf text = BUF_INIT(INPUT_MAX);
    struct err e = ERR_INIT;
    f->name = strcmp(path, "-") == 0 ? "standard input" : path;
    f->next = c->files;
    c->files = f;
    struct reader r = {.files = c, .file = f, .report = report, .data = data};
    if (input_read(path, &text, &e) == 0) {
        add_text(&r, &text);
    } else {
        report(data, LOG_ERROR, NULL, 0, e.msg); /* it names the file */
        r.rc = -1;
    }
    buf_reset(&text);
    return r.rc;
}

const char *config_files_name(const struct config_entry *entry)
{
    return entry->file->name;
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

unsigned config_files_line(const struct config_entry *entry, const char *msg)
{
    const struct yaml_lines *lines = &entry->file->lines;
    const cJSON *at = entry->source != NULL ? entry->source : entry->config;
    unsigned line = yaml_line_of(lines, at);
    while (*msg != '\0' && *msg != ':' && (at = step(at, &msg)) != NULL) {
        unsigned found = yaml_line_of(lines, at);
        line = found != 0 ? found : line;
    }
    return line;
}

void config_files_deinit(struct config_files *c)
{
    while (c->files != NULL) {
        struct config_file *f = c->files;
        c->files = f->next;
        cJSON_Delete(f->documents);
        yaml_lines_deinit(&f->lines);
        free(f);
    }
    free(c->configs.entries);
    free(c->policies.entries);
    free(c->workloads.entries);
    free(c->namespaces.entries);
    free(c->webhooks.entries);
    free(c->services.entries);
    *c = (struct config_files)CONFIG_FILES_INIT;
}
