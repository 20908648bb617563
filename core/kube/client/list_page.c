/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/list_page.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "kube/client/watch_event.h"
#include "json/json.h"

/*
 * Only brackets and strings are looked at to find where a value ends. What lies between them is
 * checked by json_parse: the objects one by one, and all the rest, with `[]` in place of the items,
 * as the page's frame. When all of these are JSON and commas stand between the objects, the page
 * is.
 */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(struct slice text, size_t at)
{
    while (at < text.len && is_space(text.ptr[at])) {
        at++;
    }
    return at;
}

/* Behind the string that begins at `at`. */
static size_t skip_string(struct slice text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != '"'; at++) {
        at += text.ptr[at] == '\\' ? 1 : 0;
    }
    return at < text.len ? at + 1 : text.len;
}

/* From inside a bracket to the one that closes it, or to the end of the text. */
static size_t find_close(struct slice text, size_t at)
{
    size_t depth = 0;
    while (at < text.len) {
        char c = text.ptr[at];
        if (c == '"') {
            at = skip_string(text, at);
            continue;
        }
        if (c == '}' || c == ']') {
            if (depth == 0) {
                return at;
            }
            depth--;
        }
        depth += c == '{' || c == '[' ? 1 : 0;
        at++;
    }
    return text.len;
}

/* Behind the `[` that opens the items, if a key named so begins at `at`; 0: none does. */
static size_t items_start(struct slice text, size_t at)
{
    const struct slice key = SLICE("\"items\"");
    if (text.len - at < key.len || memcmp(text.ptr + at, key.ptr, key.len) != 0) {
        return 0;
    }
    at = skip_space(text, at + key.len);
    if (at == text.len || text.ptr[at] != ':') {
        return 0;
    }
    at = skip_space(text, at + 1);
    return at < text.len && text.ptr[at] == '[' ? at + 1 : 0;
}

/* What stands between the brackets of the page's items; without items, an empty slice at the end of
 * the text. */
static struct slice find_items(struct slice text)
{
    size_t at = skip_space(text, 0);
    at += at < text.len ? 1 : 0; /* the page's own bracket */
    while (at < text.len && text.ptr[at] != '}' && text.ptr[at] != ']') {
        char c = text.ptr[at];
        if (c == '"') {
            size_t start = items_start(text, at);
            if (start != 0) {
                return slice_of(text.ptr + start, find_close(text, start) - start);
            }
            at = skip_string(text, at);
        } else if (c == '{' || c == '[') {
            at = find_close(text, at + 1);
            at += at < text.len ? 1 : 0;
        } else {
            at++;
        }
    }
    return slice_of(text.ptr + text.len, 0);
}

/* All but the items, as a tree. */
static cJSON *parse_frame(struct slice text, struct slice items, struct err *e)
{
    struct buf frame = BUF_INIT(text.len);
    const char *behind = items.ptr + items.len;
    cJSON *root = NULL;
    if (buf_append(&frame, text.ptr, (size_t)(items.ptr - text.ptr)) != 0 ||
        buf_append(&frame, behind, (size_t)(text.ptr + text.len - behind)) != 0) {
        err_memory(e);
    } else {
        root = json_parse((const char *)buf_data(&frame), frame.len, e);
    }
    buf_reset(&frame);
    return root;
}

/* The key was looked for as it is always written; a list that has none, or writes it with escapes,
 * must not seem to be empty. */
static int check_items(const struct list_page *p, struct err *e)
{
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(p->root, "items");
    if (cJSON_IsNull(items) || (cJSON_IsArray(items) && items->child == NULL)) {
        return 0;
    }
    return err_set(e, -EINVAL, "a list without items");
}

static int read_frame(struct list_page *p, struct err *e)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(p->root, "metadata");
    const char *token =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, "continue"));
    p->version = object_version(p->root);
    p->token = token == NULL || token[0] == '\0' ? NULL : token;
    if (p->version == NULL) {
        return err_set(e, -EINVAL, "a list without metadata.resourceVersion");
    }
    return check_items(p, e);
}

int list_page_init(struct list_page *p, struct slice text, struct err *e)
{
    struct err local = ERR_INIT;
    memset(p, 0, sizeof *p);
    p->items = find_items(text);
    p->root = parse_frame(text, p->items, &local);
    int rc = p->root == NULL ? local.code : read_frame(p, &local);
    if (rc != 0) {
        list_page_deinit(p);
        err_set(e, rc, "%s", local.msg);
    }
    return rc;
}

/* Takes the text of the next object off the items, and the comma before it: 1; 0 at the end. */
static int next_text(struct list_page *p, struct slice *object, struct err *e)
{
    struct slice rest = p->items;
    size_t at = skip_space(rest, 0);
    if (at == rest.len) {
        return 0;
    }
    if (p->count > 0) {
        if (rest.ptr[at] != ',') {
            return err_set(e, -EINVAL, "no comma between two items");
        }
        at = skip_space(rest, at + 1);
    }
    if (at == rest.len || rest.ptr[at] != '{') {
        return err_set(e, -EINVAL, "item %zu of the list is no object", p->count + 1);
    }
    size_t end = find_close(rest, at + 1);
    end += end < rest.len ? 1 : 0;
    *object = slice_of(rest.ptr + at, end - at);
    p->items = slice_of(rest.ptr + end, rest.len - end);
    p->count++;
    return 1;
}

int list_page_next(struct list_page *p, cJSON **object, struct err *e)
{
    struct slice text = {0};
    int rc = next_text(p, &text, e);
    if (rc != 1) {
        return rc;
    }
    struct err local = ERR_INIT;
    *object = json_parse(text.ptr, text.len, &local);
    if (*object == NULL) {
        return err_set(e, local.code, "item %zu of the list: %s", p->count, local.msg);
    }
    if (object_name(*object) == NULL) {
        cJSON_Delete(*object);
        return err_set(e, -EINVAL, "item %zu of the list has no metadata.name", p->count);
    }
    return 1;
}

void list_page_deinit(struct list_page *p)
{
    cJSON_Delete(p->root);
    p->root = NULL;
}
