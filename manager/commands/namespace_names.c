/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/namespace_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/grow.h"
#include "base/xalloc.h"
#include "commands/input.h"
#include "kube/name.h"
#include "yaml/yaml.h"
#include "json/field.h"

#define KIND "Namespace"

static void add(struct namespace_names *n, struct slice name)
{
    n->items = xptr(grow_array(n->items, n->count, &n->cap, sizeof *n->items));
    n->items[n->count++] = xstrndup(name.ptr, name.len);
}

/* ---- lines ---- */

/* Without what is around it; empty: there is none. */
static struct slice name_in(const char *line, size_t len)
{
    static const char *const kinds[] = {"namespace/", "namespaces/"};
    while (len > 0 && strchr(" \t\r", line[len - 1]) != NULL) {
        len--;
    }
    while (len > 0 && strchr(" \t", line[0]) != NULL) {
        line++;
        len--;
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n = strlen(kinds[i]);
        if (len > n && strncmp(line, kinds[i], n) == 0) {
            return slice_of(line + n, len - n);
        }
    }
    return len > 0 && line[0] == '#' ? slice_of(line, 0) : slice_of(line, len);
}

/* 0; -EINVAL: a line is no name, with the message. */
static int add_lines(struct namespace_names *n, const struct buf *text, struct err *e)
{
    const char *line = (const char *)buf_data(text);
    size_t left = text->len;
    int rc = 0;
    for (size_t number = 1; left > 0 && rc == 0; number++) {
        const char *end = memchr(line, '\n', left);
        size_t len = end == NULL ? left : (size_t)(end - line);
        struct slice name = name_in(line, len);
        const char *wrong = name.len == 0 ? NULL : name_check_label(name);
        if (wrong != NULL) {
            rc = err_set(e, -EINVAL, "line %zu is no name of a namespace: %s", number, wrong);
        } else if (name.len > 0) {
            n->bare = true;
            add(n, name);
        }
        line += end == NULL ? len : len + 1;
        left -= end == NULL ? len : len + 1;
    }
    return rc;
}

/* ---- documents ---- */

int namespace_names_add(struct namespace_names *n, const cJSON *object, struct err *e)
{
    struct namespace_entry *before = NULL;
    const char *name = field_meta(object, "name");
    const char *wrong = name_check_label(slice_str(name));
    if (wrong != NULL) {
        return err_set(e, -EINVAL, "metadata.name: Invalid value: \"%.100s\": %s", name, wrong);
    }
    (void)namespace_set_put(&n->set, object, &before);
    free(before);
    add(n, slice_str(name));
    return 0;
}

/* Items of a NamespaceList have no kind where the API server itself wrote it. */
bool namespace_names_is_one(const cJSON *object, bool bare)
{
    const char *kind = field_text(object, "kind");
    return strcmp(kind, KIND) == 0 || (bare && kind[0] == '\0');
}

static int add_document(struct namespace_names *n, const cJSON *document, struct err *e)
{
    bool bare = strcmp(field_text(document, "kind"), KIND "List") == 0;
    int rc = namespace_names_is_one(document, false) ? namespace_names_add(n, document, e) : 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, input_list_items(document, KIND))
    {
        if (rc == 0 && namespace_names_is_one(item, bare)) {
            rc = namespace_names_add(n, item, e);
        }
    }
    return rc;
}

/* `lines`: why it is not one name a line, for what is no document of Kubernetes either. */
static int add_documents(struct namespace_names *n, const struct buf *text, const struct err *lines,
                         struct err *e)
{
    cJSON *documents = yaml_parse_all((const char *)buf_data(text), text->len, NULL, e);
    bool objects = false;
    int rc = documents == NULL ? xrc(e->code) : 0;
    const cJSON *document;
    cJSON_ArrayForEach(document, documents)
    {
        objects = objects || cJSON_IsObject(document);
        if (rc == 0) {
            rc = add_document(n, document, e);
        }
    }
    if (rc == 0 && !objects) {
        *e = *lines;
        rc = e->code;
    }
    cJSON_Delete(documents);
    return rc;
}

/* ---- all ---- */

void namespace_names_sort(struct namespace_names *n)
{
    size_t kept = 0;
    if (n->count > 0) {
        qsort(n->items, n->count, sizeof *n->items, array_compare_texts);
    }
    for (size_t i = 0; i < n->count; i++) {
        if (kept > 0 && strcmp(n->items[kept - 1], n->items[i]) == 0) {
            free(n->items[i]);
        } else {
            n->items[kept++] = n->items[i];
        }
    }
    n->count = kept;
}

static void forget_lines(struct namespace_names *n)
{
    while (n->count > 0) {
        free(n->items[--n->count]);
    }
    n->bare = false;
}

static int add_text(struct namespace_names *n, const struct buf *text, struct err *e)
{
    struct err lines = ERR_INIT;
    int rc = add_lines(n, text, &lines);
    if (rc != 0) {
        forget_lines(n);
        rc = add_documents(n, text, &lines, e);
    }
    return rc == 0 && n->count == 0 ? err_set(e, -EINVAL, "contains no namespace") : rc;
}

int namespace_names_read(struct namespace_names *n, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(INPUT_MAX);
    int rc = input_read(path, &text, e);
    if (rc == 0) {
        rc = add_text(n, &text, e);
        if (rc != 0) {
            err_prefix(e, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
        }
    }
    buf_reset(&text);
    namespace_names_sort(n);
    return rc;
}

void namespace_names_deinit(struct namespace_names *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    free(n->items);
    namespace_set_deinit(&n->set);
    *n = (struct namespace_names)NAMESPACE_NAMES_INIT;
}
