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

/* "<file>:<line>: <text>", without the line where it is not known. */
static int __attribute__((format(printf, 4, 5)))
fail_at(const struct kubeconfig_file *file, const cJSON *node, struct err *e, const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    char line[16] = "";
    unsigned number = yaml_line_of(&file->lines, node);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (number > 0) {
        (void)snprintf(line, sizeof line, ":%u", number);
    }
    return err_set(e, -EINVAL, "%.280s%s: %s", file->path, line, text);
}

/* NULL: it is not there; *deepest is what there is of the way to it. */
static const cJSON *walk_path(const cJSON *at, const char *path, const cJSON **deepest)
{
    do {
        char field[64];
        size_t len = strcspn(path, ".");
        (void)snprintf(field, sizeof field, "%.*s", (int)len, path);
        *deepest = at;
        at = cJSON_GetObjectItemCaseSensitive(at, field);
        path += path[len] == '.' ? len + 1 : len;
    } while (at != NULL && *path != '\0');
    *deepest = at != NULL ? at : *deepest;
    return at;
}

void kubeconfig_fail(const struct kubeconfig_entry *entry, const char *path, struct err *e,
                     const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    const cJSON *deepest;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)walk_path(entry->body, path, &deepest);
    if (e->code == 0) {
        fail_at(entry->file, deepest, e, "%s[" NAME_FMT "]%s%s: %s", entry->kind, entry->name,
                *path == '\0' ? "" : ".", path, text);
    }
}

const cJSON *kubeconfig_value(const struct kubeconfig_entry *entry, const char *path)
{
    const cJSON *deepest;
    const cJSON *item = walk_path(entry->body, path, &deepest);
    return cJSON_IsNull(item) ? NULL : item;
}

const char *kubeconfig_string(const struct kubeconfig_entry *entry, const char *path, struct err *e)
{
    const cJSON *item = kubeconfig_value(entry, path);
    if (item == NULL || e->code != 0) {
        return NULL;
    }
    if (!cJSON_IsString(item)) {
        bool bare = cJSON_IsNumber(item) || cJSON_IsBool(item);
        kubeconfig_fail(entry, path, e, "must be a string%s", bare ? "; put it in quotes" : "");
        return NULL;
    }
    return item->valuestring[0] != '\0' ? item->valuestring : NULL;
}

char *kubeconfig_copy(const struct kubeconfig_entry *entry, const char *path, struct err *e)
{
    const char *text = kubeconfig_string(entry, path, e);
    char *copy = text == NULL ? NULL : strdup(text);
    if (copy == NULL && text != NULL) {
        err_memory(e);
    }
    return copy;
}

bool kubeconfig_bool(const struct kubeconfig_entry *entry, const char *path, struct err *e)
{
    const cJSON *item = kubeconfig_value(entry, path);
    if (item != NULL && !cJSON_IsBool(item)) {
        kubeconfig_fail(entry, path, e, "must be true or false, without quotes");
    }
    return cJSON_IsTrue(item);
}

/* The whole file in `text`, reserved in one piece so that no copy of a credential stays behind. */
static int read_file(const char *path, struct buf *text, struct err *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= (off_t)text->max && buf_reserve(text, (size_t)st.st_size) == NULL) {
        return err_memory(e);
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

static int check_constant(const struct kubeconfig_file *file, const char *key, const char *want,
                          struct err *e)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(file->tree, key);
    return item == NULL || (cJSON_IsString(item) && strcmp(item->valuestring, want) == 0)
               ? 0
               : fail_at(file, item, e, "not a kubeconfig: %s must be %s", key, want);
}

static int check_header(const struct kubeconfig_file *file, struct err *e)
{
    if (!cJSON_IsObject(file->tree) && !cJSON_IsNull(file->tree)) {
        return fail_at(file, file->tree, e,
                       "not a kubeconfig: it must be a mapping with clusters, users and contexts");
    }
    int rc = check_constant(file, "kind", "Config", e);
    return rc == 0 ? check_constant(file, "apiVersion", "v1", e) : rc;
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
    if (!cJSON_IsString(name) || name->valuestring[0] == '\0') {
        bool bare = cJSON_IsNumber(name) || cJSON_IsBool(name);
        return fail_at(file, name != NULL ? name : item, e,
                       "%s: each element needs a name, as a string%s", s->kind,
                       bare ? " (put it in quotes)" : "");
    }
    *out = (struct kubeconfig_entry){
        .kind = s->kind,
        .name = name->valuestring,
        .body = cJSON_IsObject(body) ? body : NULL,
        .file = file,
    };
    if (body != NULL && !cJSON_IsObject(body) && !cJSON_IsNull(body)) {
        return fail_at(file, body, e, "%s[" NAME_FMT "].%s must be a mapping", s->kind, out->name,
                       s->body_key);
    }
    return 0;
}

static int add_entry(const struct section *s, const struct kubeconfig_entry *entry, struct err *e)
{
    struct kubeconfig_list *list = s->list;
    const struct kubeconfig_entry *same = kubeconfig_find(list, entry->name);
    if (same != NULL && same->file == entry->file) {
        return fail_at(entry->file, entry->body, e, "%s[" NAME_FMT "]: duplicate name in this file",
                       entry->kind, entry->name);
    }
    if (same != NULL) {
        return 0; /* an earlier file won it */
    }
    if (list->count == KUBECONFIG_ENTRIES_MAX) {
        return fail_at(entry->file, entry->body, e, "%s[" NAME_FMT "]: more than %d entries",
                       entry->kind, entry->name, KUBECONFIG_ENTRIES_MAX);
    }
    if ((list->count & (list->count - 1)) == 0) {
        size_t cap = list->count == 0 ? 1 : list->count * 2;
        struct kubeconfig_entry *items = realloc(list->items, cap * sizeof *items);
        if (items == NULL) {
            return err_memory(e);
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
        return fail_at(file, array, e, "%s must be a list", s->kind);
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        struct kubeconfig_entry entry;
        int rc = read_entry(file, s, item, &entry, e);
        if (rc == 0) {
            rc = add_entry(s, &entry, e);
        }
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
        return fail_at(file, current, e, "current-context must be a string; put it in quotes");
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
        return err_memory(e);
    }
    kc->file_count++;
    struct err why = ERR_INIT; /* `e` keeps its first error, and a missing file may be none */
    int rc = parse_file(file, &why);
    if (rc == -ENOENT && may_miss) {
        log_debug("kubeconfig file does not exist, skipped", log_str("path", path));
        free(file->path);
        kc->file_count--;
        return 0;
    }
    return rc == 0 ? merge_file(kc, file, e) : err_set(e, rc, "%s", why.msg);
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
        return err_memory(e);
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

static int load_all(struct kubeconfig *kc, const char *path, struct err *e)
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
        return err_memory(e);
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
        err_memory(e);
        return NULL;
    }
    if (load_all(kc, path, e) != 0) {
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
        err_set(e, -EINVAL,
                "%s: no current-context is set; choose one with --context, or set it with kubectl "
                "config use-context: %s",
                kc->files[0].path, names);
    } else {
        err_set(e, -EINVAL, "%s: there is no context \"" NAME_FMT "\"%s; there are: %s",
                kc->files[0].path, wanted, name == NULL ? " (the current-context)" : "", names);
    }
    return NULL;
}

const struct kubeconfig_entry *kubeconfig_referred(const struct kubeconfig *kc,
                                                   const struct kubeconfig_entry *context,
                                                   const char *key, struct err *e)
{
    const char *name = kubeconfig_string(context, key, e);
    if (name == NULL) {
        return NULL;
    }
    const struct kubeconfig_entry *found =
        kubeconfig_find(strcmp(key, "cluster") == 0 ? &kc->clusters : &kc->users, name);
    if (found == NULL) {
        kubeconfig_fail(context, key, e, "there is no %s named \"%.80s\" in the kubeconfig", key,
                        name);
    }
    return found;
}
