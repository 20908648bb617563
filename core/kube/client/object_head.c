/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/object_head.h"

#include <string.h>

#include "kube/client/watch_event.h"
#include "json/cursor.h"

/* A string that needs no escapes. */
static bool plain_text(struct json_cursor *c, size_t max, struct slice *text)
{
    return json_string(c, text) && text->len > 0 && text->len <= max &&
           memchr(text->ptr, '\\', text->len) == NULL;
}

static bool read_metadata(struct json_cursor *c, struct object_head *out)
{
    struct slice key;
    struct slice ns = {0};
    bool more = json_enter(c, '{');
    out->version = (struct slice){0};
    while (more && (ns.len == 0 || out->version.len == 0) && json_next_key(c, &key)) {
        if (slice_eq(key, SLICE("namespace"))) {
            more = plain_text(c, OBJECT_NAMESPACE_MAX, &ns);
        } else if (slice_eq(key, SLICE("resourceVersion"))) {
            more = plain_text(c, RESOURCE_VERSION_MAX, &out->version);
        } else {
            more = json_skip(c);
        }
    }
    if (!more || ns.len == 0 || out->version.len == 0) {
        return false;
    }
    memcpy(out->ns, ns.ptr, ns.len);
    out->ns[ns.len] = '\0';
    return true;
}

static bool read_object(struct json_cursor *c, struct object_head *out)
{
    return json_find_member(c, SLICE("metadata")) && read_metadata(c, out);
}

bool object_head_read(struct slice text, struct object_head *out)
{
    struct json_cursor c = json_cursor_of(text);
    return read_object(&c, out);
}

static bool is_change(struct slice type)
{
    return slice_eq(type, SLICE("ADDED")) || slice_eq(type, SLICE("MODIFIED")) ||
           slice_eq(type, SLICE("DELETED"));
}

bool object_head_of_event(struct slice line, struct object_head *out)
{
    struct json_cursor c = json_cursor_of(line);
    struct slice key;
    struct slice type;
    /* In this order, so that the object need not be skipped to know what it is. */
    return json_enter(&c, '{') && json_next_key(&c, &key) && slice_eq(key, SLICE("type")) &&
           json_string(&c, &type) && is_change(type) && json_next_key(&c, &key) &&
           slice_eq(key, SLICE("object")) && read_object(&c, out);
}
