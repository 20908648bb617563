/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_body.h"

#include <stdio.h>

#include "base/rfc3339.h"
#include "json/edit.h"

const char *event_body_namespace(const struct event_object *about)
{
    return about->namespace == NULL || about->namespace[0] == '\0' ? "default" : about->namespace;
}

static char name_char(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.') {
        return c;
    }
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : '-';
}

/* Each part between two dots begins and ends with a letter or a digit. */
static bool may_stand(char c, char before)
{
    return (c != '.' && c != '-') ||
           (before != '.' && before != '\0' && (c == '-' || before != '-'));
}

void event_body_name(const char *about, uint64_t unique, char out[EVENT_NAME_SIZE])
{
    enum { SUFFIX_LEN = 17 };
    size_t len = 0;
    for (const char *p = about; *p != '\0' && len < EVENT_NAME_SIZE - 1 - SUFFIX_LEN; p++) {
        char c = name_char(*p);
        if (may_stand(c, len == 0 ? '\0' : out[len - 1])) {
            out[len++] = c;
        }
    }
    while (len > 0 && (out[len - 1] == '.' || out[len - 1] == '-')) {
        len--;
    }
    (void)snprintf(out + len, EVENT_NAME_SIZE - len, "%s%016llx", len == 0 ? "" : ".",
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

static void put_repeats(struct edit *ed, cJSON *event, const struct event_body *b)
{
    put_text(ed, event, "message", b->message);
    edit_number(ed, event, "count", (double)b->count);
    put_time(ed, event, "lastTimestamp", b->last);
}

cJSON *event_body_new(const struct event_body *b)
{
    struct edit ed = {.rc = 0};
    cJSON *event = cJSON_CreateObject();
    edit_string(&ed, event, "apiVersion", "v1");
    edit_string(&ed, event, "kind", "Event");
    cJSON *metadata = edit_object(&ed, event, "metadata");
    put_text(&ed, metadata, "name", b->name);
    put_text(&ed, metadata, "namespace", event_body_namespace(&b->about));
    put_about(&ed, edit_object(&ed, event, "involvedObject"), &b->about);
    cJSON *source = edit_object(&ed, event, "source");
    put_text(&ed, source, "component", b->component);
    put_text(&ed, source, "host", b->host);
    put_text(&ed, event, "reportingComponent", b->component);
    put_text(&ed, event, "reportingInstance", b->host);
    edit_string(&ed, event, "type", b->type == EVENT_WARNING ? "Warning" : "Normal");
    put_text(&ed, event, "reason", b->reason);
    put_time(&ed, event, "firstTimestamp", b->first);
    put_repeats(&ed, event, b);
    return edit_result(&ed, event);
}

cJSON *event_body_repeat(const struct event_body *b)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateObject();
    put_repeats(&ed, patch, b);
    return edit_result(&ed, patch);
}
