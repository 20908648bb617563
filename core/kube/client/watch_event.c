/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/watch_event.h"

#include <errno.h>
#include <string.h>

#include "json/field.h"
#include "json/json.h"

static const char *const type_names[] = {
    [WATCH_ADDED] = "ADDED",       [WATCH_MODIFIED] = "MODIFIED", [WATCH_DELETED] = "DELETED",
    [WATCH_BOOKMARK] = "BOOKMARK", [WATCH_ERROR] = "ERROR",
};

void watch_lines_init(struct watch_lines *w, size_t max)
{
    buf_init(&w->partial, max);
    w->max = max;
    w->given = false;
}

void watch_lines_deinit(struct watch_lines *w)
{
    buf_reset(&w->partial);
    w->given = false;
}

size_t watch_lines_pending(const struct watch_lines *w)
{
    return w->given ? 0 : w->partial.len;
}

static int keep_partial(struct watch_lines *w, struct slice bytes)
{
    int rc = buf_append(&w->partial, bytes.ptr, bytes.len);
    return rc == -ENOBUFS ? -EMSGSIZE : rc;
}

/* Takes the bytes up to the line feed off `data`: 1 with a line, which may be empty. */
static int take_line(struct watch_lines *w, struct slice *data, struct slice *line)
{
    const char *feed = data->len == 0 ? NULL : memchr(data->ptr, '\n', data->len);
    size_t len = feed == NULL ? data->len : (size_t)(feed - data->ptr);
    struct slice head = slice_of(data->ptr, len);
    if (feed == NULL || w->partial.len > 0) {
        int rc = keep_partial(w, head);
        if (rc != 0) {
            return rc;
        }
    }
    data->ptr += len;
    data->len -= len;
    if (feed == NULL) {
        return 0;
    }
    data->ptr++;
    data->len--;
    w->given = w->partial.len > 0;
    *line = w->given ? buf_slice(&w->partial) : head;
    return line->len > w->max ? -EMSGSIZE : 1;
}

int watch_lines_next(struct watch_lines *w, struct slice *data, struct slice *line)
{
    int rc;
    do {
        if (w->given) {
            buf_reset(&w->partial); /* a large event must not keep its memory for good */
            w->given = false;
        }
        rc = take_line(w, data, line);
    } while (rc == 1 && line->len == 0);
    return rc;
}

static const char *metadata_text(const cJSON *object, const char *key)
{
    const char *text = field_meta(object, key);
    return text[0] == '\0' ? NULL : text;
}

const char *object_name(const cJSON *object)
{
    return metadata_text(object, "name");
}

const char *object_version(const cJSON *object)
{
    const char *version = metadata_text(object, "resourceVersion");
    return version == NULL || strlen(version) > RESOURCE_VERSION_MAX ? NULL : version;
}

static int read_type(const cJSON *root, enum watch_event_type *type, struct err *e)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "type"));
    if (text == NULL) {
        return err_set(e, -EINVAL, "an event has no type");
    }
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        if (strcmp(text, type_names[i]) == 0) {
            *type = (enum watch_event_type)i;
            return 0;
        }
    }
    return err_set(e, -EINVAL, "unknown event type \"%.32s\"", text);
}

static int read_event(struct watch_event *event, struct err *e)
{
    int rc = read_type(event->root, &event->type, e);
    if (rc != 0) {
        return rc;
    }
    const char *type = type_names[event->type];
    event->object = cJSON_GetObjectItemCaseSensitive(event->root, "object");
    if (!cJSON_IsObject(event->object)) {
        return err_set(e, -EINVAL, "the %s event has no object", type);
    }
    if (event->type == WATCH_ERROR) {
        event->version = NULL;
        return 0;
    }
    event->version = object_version(event->object);
    if (event->version == NULL) {
        return err_set(e, -EINVAL, "the %s event has no metadata.resourceVersion", type);
    }
    if (event->type != WATCH_BOOKMARK && object_name(event->object) == NULL) {
        return err_set(e, -EINVAL, "the %s event has no metadata.name", type);
    }
    return 0;
}

int watch_event_parse(struct slice line, struct watch_event *event, struct err *e)
{
    struct err local = ERR_INIT;
    event->root = json_parse_foreign(line.ptr, line.len, &local);
    int rc = event->root == NULL ? local.code : read_event(event, &local);
    if (rc != 0) {
        watch_event_deinit(event);
        err_set(e, rc, "%s", local.msg);
    }
    return rc;
}

void watch_event_deinit(struct watch_event *event)
{
    cJSON_Delete(event->root);
    event->root = NULL;
}
