/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/kubeconfig.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/secret.h"

/* Names in messages are cut: they come from the file. */
#define NAME_FMT "%.80s"

static int fail_memory(struct err *e)
{
    return err_memory(e);
}

/* "path" or "path:line". */
static void location(const struct kubeconfig_file *file, const cJSON *node, char *out, size_t size)
{
    unsigned line = yaml_line_of(&file->lines, node);
    if (line > 0) {
        (void)snprintf(out, size, "%s:%u", file->path, line);
    } else {
        (void)snprintf(out, size, "%s", file->path);
    }
}

static int fail_file(const struct kubeconfig_file *file, const cJSON *node, struct err *e,
                     const char *what)
{
    char where[300];
    location(file, node, where, sizeof where);
    return err_set(e, -EINVAL, "%s: %s", where, what);
}

/* The deepest node that is there on the path `key`. */
static const cJSON *walk(const cJSON *body, const char *key)
{
    const cJSON *at = body;
    while (*key != '\0') {
        char field[64];
        size_t len = strcspn(key, ".[");
        (void)snprintf(field, sizeof field, "%.*s", (int)len, key);
        const cJSON *next = cJSON_GetObjectItemCaseSensitive(at, field);
        if (next == NULL) {
            return at;
        }
        at = next;
        key += len;
        if (*key != '.') {
            return at;
        }
        key++;
    }
    return at;
}

int kubeconfig_fail(const struct kubeconfig_entry *entry, const char *key, struct err *e,
                    const char *fmt, ...)
{
    char where[300];
    char text[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    location(entry->file, walk(entry->body, key), where, sizeof where);
    return err_set(e, -EINVAL, "%s: %s[" NAME_FMT "]%s%s: %s", where, entry->kind, entry->name,
                   *key == '\0' ? "" : ".", key, text);
}

int kubeconfig_string(const struct kubeconfig_entry *entry, const char *key, const char **out,
                      struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(entry->body, key);
    *out = NULL;
    if (item == NULL || cJSON_IsNull(item)) {
        return 0;
    }
    if (!cJSON_IsString(item)) {
        return kubeconfig_fail(entry, key, e, "must be a string%s",
                               cJSON_IsNumber(item) || cJSON_IsBool(item) ? "; put it in quotes"
                                                                          : "");
    }
    if (item->valuestring[0] != '\0') {
        *out = item->valuestring;
    }
    return 0;
}

/* The whole file in `text`, reserved in one piece so that no copy of a credential stays behind. */
static int read_file(const char *path, struct buf *text, struct err *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= (off_t)text->max && buf_reserve(text, (size_t)st.st_size) == NULL) {
        return fail_memory(e);
    }
    int rc = file_read(path, text, e);
    if (rc == -EACCES) {
        err_set(e, rc, "%s: not readable for this user; check its owner and mode", path);
    }
    return rc;
}

static int parse_file(struct kubeconfig_file *file, struct err *e)
{
    struct buf text = BUF_INIT(KUBECONFIG_FILE_MAX);
    int rc = read_file(file->path, &text, e);
    if (rc == 0) {
        file->tree = yaml_parse(text.len > 0 ? (const char *)buf_data(&text) : "", text.len,
                                &file->lines, e);
        if (file->tree == NULL) {
            rc = e != NULL ? e->code : -EINVAL;
            err_prefix(e, "%s", file->path);
        }
    }
    secret_buf_reset(&text);
    return rc;
}

static int check_header(const struct kubeconfig_file *file, struct err *e)
{
    if (cJSON_IsNull(file->tree)) {
        return 0;
    }
    if (!cJSON_IsObject(file->tree)) {
        return fail_file(file, file->tree, e,
                         "not a kubeconfig: it must be a mapping with clusters, users and "
                         "contexts");
    }
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(file->tree, "kind");
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(file->tree, "apiVersion");
    bool ok = (kind == NULL || (cJSON_IsString(kind) && strcmp(kind->valuestring, "Config") == 0));
    if (!ok) {
        return fail_file(file, kind, e, "not a kubeconfig: kind must be Config");
    }
    ok = version == NULL || (cJSON_IsString(version) && strcmp(version->valuestring, "v1") == 0);
    return ok ? 0 : fail_file(file, version, e, "not a kubeconfig: apiVersion must be v1");
}

/* Where the entries of one kind stand in a file, and under which key each has its body. */
struct section {
    const char *kind;
    const char *body_key;
    struct kubeconfig_list *list;
};

static int read_entry(const struct kubeconfig_file *file, const struct section *s,
                      const cJSON *item, struct kubeconfig_entry *out, struct err *e)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
    const cJSON *body = cJSON_GetObjectItemCaseSensitive(item, s->body_key);
    char what[160];
    if (!cJSON_IsString(name) || name->valuestring[0] == '\0') {
        (void)snprintf(what, sizeof what, "%s: each element needs a name, as a string%s", s->kind,
                       cJSON_IsNumber(name) || cJSON_IsBool(name) ? " (put it in quotes)" : "");
        return fail_file(file, name != NULL ? name : item, e, what);
    }
    *out = (struct kubeconfig_entry){
        .kind = s->kind,
        .name = name->valuestring,
        .body = cJSON_IsObject(body) ? body : NULL,
        .file = file,
    };
    if (body != NULL && !cJSON_IsObject(body) && !cJSON_IsNull(body)) {
        (void)snprintf(what, sizeof what, "%s[" NAME_FMT "].%s must be a mapping", s->kind,
                       out->name, s->body_key);
        return fail_file(file, body, e, what);
    }
    return 0;
}

static int add_entry(const struct section *s, const struct kubeconfig_entry *entry, struct err *e)
{
    struct kubeconfig_list *list = s->list;
    const struct kubeconfig_entry *same = kubeconfig_find(list, entry->name);
    if (same != NULL && same->file == entry->file) {
        return kubeconfig_fail(entry, "", e, "duplicate name in this file");
    }
    if (same != NULL) {
        return 0; /* an earlier file won it */
    }
    if (list->count == KUBECONFIG_ENTRIES_MAX) {
        return kubeconfig_fail(entry, "", e, "more than %d entries", KUBECONFIG_ENTRIES_MAX);
    }
    if ((list->count & (list->count - 1)) == 0) {
        size_t cap = list->count == 0 ? 1 : list->count * 2;
        struct kubeconfig_entry *items = realloc(list->items, cap * sizeof *items);
        if (items == NULL) {
            return fail_memory(e);
        }
        list->items = items;
    }
    list->items[list->count++] = *entry;
    return 0;
}

static int merge_section(const struct kubeconfig_file *file, const struct section *s, struct err *e)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(file->tree, s->kind);
    if (array == NULL || cJSON_IsNull(array)) {
        return 0;
    }
    if (!cJSON_IsArray(array)) {
        char what[64];
        (void)snprintf(what, sizeof what, "%s must be a list", s->kind);
        return fail_file(file, array, e, what);
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        struct kubeconfig_entry entry;
        int rc = read_entry(file, s, item, &entry, e);
        rc = rc != 0 ? rc : add_entry(s, &entry, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int merge_file(struct kubeconfig *kc, const struct kubeconfig_file *file, struct err *e)
{
    const struct section sections[] = {{"clusters", "cluster", &kc->clusters},
                                       {"users", "user", &kc->users},
                                       {"contexts", "context", &kc->contexts}};
    int rc = check_header(file, e);
    for (size_t i = 0; i < sizeof sections / sizeof *sections && rc == 0; i++) {
        rc = merge_section(file, &sections[i], e);
    }
    if (rc != 0) {
        return rc;
    }
    const cJSON *current = cJSON_GetObjectItemCaseSensitive(file->tree, "current-context");
    if (current != NULL && !cJSON_IsNull(current) && !cJSON_IsString(current)) {
        return fail_file(file, current, e, "current-context must be a string; put it in quotes");
    }
    if (cJSON_IsString(current) && kc->current_context[0] == '\0') {
        kc->current_context = current->valuestring;
    }
    return 0;
}

/* Reads one file; a missing one is left out when `may_miss`. */
static int load_file(struct kubeconfig *kc, const char *path, bool may_miss, struct err *e)
{
    struct kubeconfig_file *file = &kc->files[kc->file_count];
    *file = (struct kubeconfig_file){.path = strdup(path), .lines = YAML_LINES_INIT};
    if (file->path == NULL) {
        return fail_memory(e);
    }
    kc->file_count++;
    int rc = parse_file(file, e);
    if (rc == -ENOENT && may_miss) {
        log_debug("kubeconfig file does not exist, skipped", log_str("path", path));
        free(file->path);
        kc->file_count--;
        return 0;
    }
    return rc != 0 ? rc : merge_file(kc, file, e);
}

static bool is_loaded(const struct kubeconfig *kc, const char *path)
{
    for (size_t i = 0; i < kc->file_count; i++) {
        if (strcmp(kc->files[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

static int load_list(struct kubeconfig *kc, char *list, struct err *e)
{
    char *save = NULL;
    for (char *path = strtok_r(list, ":", &save); path != NULL; path = strtok_r(NULL, ":", &save)) {
        int rc = is_loaded(kc, path) ? 0 : load_file(kc, path, true, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int load_environment_list(struct kubeconfig *kc, const char *value, struct err *e)
{
    char *list = strdup(value);
    if (list == NULL) {
        return fail_memory(e);
    }
    int rc = load_list(kc, list, e);
    free(list);
    if (rc == 0 && kc->file_count == 0) {
        return err_set(e, -ENOENT, "$KUBECONFIG: none of these files exists: %.300s", value);
    }
    return rc;
}

static int load_home(struct kubeconfig *kc, struct err *e)
{
    const char *home = getenv("HOME");
    char path[4096];
    if (home == NULL || home[0] == '\0') {
        return err_set(e, -ENOENT, "no kubeconfig: give --kubeconfig, or set $KUBECONFIG or $HOME");
    }
    int n = snprintf(path, sizeof path, "%s/.kube/config", home);
    if (n < 0 || (size_t)n >= sizeof path) {
        return err_set(e, -ENAMETOOLONG, "$HOME is too long");
    }
    int rc = load_file(kc, path, false, e);
    if (rc == -ENOENT) {
        err_set(e, rc, "no kubeconfig: %s does not exist; give --kubeconfig or set $KUBECONFIG",
                path);
    }
    return rc;
}

static int load(struct kubeconfig *kc, const char *path, struct err *e)
{
    const char *list = getenv("KUBECONFIG");
    size_t slots = 1;
    bool listed = path == NULL && list != NULL && list[0] != '\0';
    for (const char *p = listed ? list : ""; *p != '\0'; p++) {
        slots += *p == ':';
    }
    kc->current_context = "";
    kc->files = calloc(slots, sizeof *kc->files); /* entries point into it: it never moves */
    if (kc->files == NULL) {
        return fail_memory(e);
    }
    int rc = path != NULL ? load_file(kc, path, false, e)
             : listed     ? load_environment_list(kc, list, e)
                          : load_home(kc, e);
    if (rc == 0 && kc->clusters.count + kc->users.count + kc->contexts.count == 0) {
        return err_set(e, -EINVAL,
                       "%s: the kubeconfig is empty: it has no clusters, users or "
                       "contexts",
                       kc->files[0].path);
    }
    return rc;
}

struct kubeconfig *kubeconfig_load(const char *path, struct err *e)
{
    struct kubeconfig *kc = calloc(1, sizeof *kc);
    if (kc == NULL) {
        fail_memory(e);
        return NULL;
    }
    if (load(kc, path, e) != 0) {
        kubeconfig_free(kc);
        return NULL;
    }
    return kc;
}

void kubeconfig_free(struct kubeconfig *kc)
{
    if (kc == NULL) {
        return;
    }
    for (size_t i = 0; i < kc->file_count; i++) {
        free(kc->files[i].path);
        secret_json_delete(kc->files[i].tree);
        yaml_lines_deinit(&kc->files[i].lines);
    }
    free(kc->files);
    free(kc->clusters.items);
    free(kc->users.items);
    free(kc->contexts.items);
    free(kc);
}

const struct kubeconfig_entry *kubeconfig_find(const struct kubeconfig_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

/* "a, b, c" or "a, b and 7 more", within `size`. */
static void list_names(const struct kubeconfig_list *list, char *out, size_t size)
{
    enum { SHOWN = 8 };
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < list->count && i < SHOWN; i++) {
        int n = snprintf(out + at, size - at, "%s%.60s", i > 0 ? ", " : "", list->items[i].name);
        if (n < 0 || (size_t)n >= size - at) {
            return;
        }
        at += (size_t)n;
    }
    if (list->count > SHOWN) {
        (void)snprintf(out + at, size - at, " and %zu more", list->count - SHOWN);
    }
}

const struct kubeconfig_entry *kubeconfig_context(const struct kubeconfig *kc, const char *name,
                                                  struct err *e)
{
    const char *wanted = name != NULL ? name : kc->current_context;
    const struct kubeconfig_entry *found = kubeconfig_find(&kc->contexts, wanted);
    char names[300];
    if (found != NULL) {
        return found;
    }
    list_names(&kc->contexts, names, sizeof names);
    if (kc->contexts.count == 0) {
        err_set(e, -EINVAL, "%s: the kubeconfig has no contexts", kc->files[0].path);
    } else if (wanted[0] == '\0') {
        err_set(e, -EINVAL, "%s: no current-context is set; choose one with --context: %s",
                kc->files[0].path, names);
    } else {
        err_set(e, -EINVAL, "%s: there is no context \"" NAME_FMT "\"%s; there are: %s",
                kc->files[0].path, wanted, name == NULL ? " (the current-context)" : "", names);
    }
    return NULL;
}
