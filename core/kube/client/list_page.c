/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/list_page.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "kube/client/watch_event.h"
#include "json/cursor.h"
#include "json/field.h"
#include "json/json.h"

/*
 * A cursor finds where values end without checking what lies between: that is done by json_parse,
 * which reads the objects one by one, and all the rest, with `[]` in place of the items, as the
 * page's frame. When all of these are JSON and commas stand between the objects, the page is.
 */

/* What stands between the brackets of the page's items; without items, an empty slice at the end of
 * the text. */
static struct slice find_items(struct slice text)
{
    struct json_cursor c = json_cursor_of(text);
    struct slice key;
    struct slice value;
    bool more = json_enter(&c, '{');
    while (more && json_next_key(&c, &key) && json_value(&c, &value)) {
        if (slice_eq(key, SLICE("items")) && value.ptr[0] == '[') {
            return slice_of(value.ptr + 1, value.len - 2);
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
    return err_set(e, -EINVAL, "the list has no items");
}

static int read_frame(struct list_page *p, struct err *e)
{
    const char *token = field_meta(p->root, "continue");
    p->version = object_version(p->root);
    p->token = token[0] == '\0' ? NULL : token;
    if (p->version == NULL) {
        return err_set(e, -EINVAL, "the list has no metadata.resourceVersion");
    }
    return check_items(p, e);
}

int list_page_init(struct list_page *p, struct slice text, struct err *e)
{
    struct err local = ERR_INIT;
    memset(p, 0, sizeof *p);
    text = text.ptr == NULL ? SLICE("") : text;
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
    struct json_cursor c = json_cursor_of(p->items);
    if (json_at_end(&c)) {
        return 0;
    }
    if (p->count > 0 && *c.at++ != ',') {
        return err_set(e, -EINVAL, "missing comma between two items");
    }
    if (json_at_end(&c) || *c.at != '{' || !json_value(&c, object)) {
        return err_set(e, -EINVAL, "item %zu of the list is not an object", p->count + 1);
    }
    p->items = slice_of(c.at, (size_t)(c.end - c.at));
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
    *object = json_parse_foreign(text.ptr, text.len, &local);
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
