/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_body.h"

#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "json/edit.h"

const char *event_body_namespace(const struct event_object *about)
{
    return about->namespace == NULL || about->namespace[0] == '\0' ? "default" : about->namespace;
}

void event_body_name(const char *about, uint64_t unique, char out[EVENT_NAME_SIZE])
{
    enum { SUFFIX_LEN = 17 };
    size_t len = strnlen(about, EVENT_NAME_SIZE - 1 - SUFFIX_LEN);
    while (len > 0 && (about[len - 1] == '.' || about[len - 1] == '-')) {
        len--;
    }
    (void)snprintf(out, EVENT_NAME_SIZE, "%.*s.%016llx", (int)len, about,
                   (unsigned long long)unique);
}

/* NULL and "": left out. */
static void put_text(struct edit *ed, cJSON *object, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        edit_string(ed, object, key, text);
    }
}

static void put_time(struct edit *ed, cJSON *object, const char *key, int64_t seconds)
{
    char text[RFC3339_SIZE];
    if (rfc3339_format(seconds, text) == 0) {
        edit_string(ed, object, key, text);
    }
}

static void put_about(struct edit *ed, cJSON *object, const struct event_object *about)
{
    put_text(ed, object, "apiVersion", about->api_version);
    put_text(ed, object, "kind", about->kind);
    put_text(ed, object, "namespace", about->namespace);
    put_text(ed, object, "name", about->name);
    put_text(ed, object, "uid", about->uid);
    put_text(ed, object, "resourceVersion", about->version);
}

static void put_constant(struct edit *ed, cJSON *event, const struct event_body *b)
{
    edit_string(ed, event, "apiVersion", "v1");
    edit_string(ed, event, "kind", "Event");
    cJSON *metadata = edit_object(ed, event, "metadata");
    put_text(ed, metadata, "name", b->name);
    put_text(ed, metadata, "namespace", event_body_namespace(&b->about));
    put_about(ed, edit_object(ed, event, "involvedObject"), &b->about);
    cJSON *source = edit_object(ed, event, "source");
    put_text(ed, source, "component", b->component);
    put_text(ed, source, "host", b->host);
    put_text(ed, event, "reportingComponent", b->component);
    put_text(ed, event, "reportingInstance", b->host);
    edit_string(ed, event, "type", b->type == EVENT_WARNING ? "Warning" : "Normal");
    put_text(ed, event, "reason", b->reason);
    put_time(ed, event, "firstTimestamp", b->first);
}

cJSON *event_body(const struct event_body *b, bool repeat)
{
    struct edit ed = {.rc = 0};
    cJSON *event = cJSON_CreateObject();
    if (!repeat) {
        put_constant(&ed, event, b);
    }
    put_text(&ed, event, "message", b->message);
    edit_number(&ed, event, "count", (double)b->count);
    put_time(&ed, event, "lastTimestamp", b->last);
    return xptr(edit_result(&ed, event));
}
