/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/event_body.h"

#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"

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
static bool put_text(cJSON *object, const char *key, const char *text)
{
    return text == NULL || text[0] == '\0' || cJSON_AddStringToObject(object, key, text) != NULL;
}

static bool put_time(cJSON *object, const char *key, int64_t seconds)
{
    char text[RFC3339_SIZE];
    return rfc3339_format(seconds, text) != 0 || cJSON_AddStringToObject(object, key, text) != NULL;
}

static bool put_metadata(cJSON *event, const struct event_body *b)
{
    cJSON *metadata = cJSON_AddObjectToObject(event, "metadata");
    return metadata != NULL && put_text(metadata, "name", b->name) &&
           put_text(metadata, "namespace", event_body_namespace(&b->about));
}

static bool put_about(cJSON *event, const struct event_object *about)
{
    cJSON *object = cJSON_AddObjectToObject(event, "involvedObject");
    return object != NULL && put_text(object, "apiVersion", about->api_version) &&
           put_text(object, "kind", about->kind) &&
           put_text(object, "namespace", about->namespace) &&
           put_text(object, "name", about->name) && put_text(object, "uid", about->uid) &&
           put_text(object, "resourceVersion", about->version);
}

static bool put_source(cJSON *event, const struct event_body *b)
{
    cJSON *source = cJSON_AddObjectToObject(event, "source");
    return source != NULL && put_text(source, "component", b->component) &&
           put_text(source, "host", b->host) &&
           put_text(event, "reportingComponent", b->component) &&
           put_text(event, "reportingInstance", b->host);
}

static bool put_repeats(cJSON *event, const struct event_body *b)
{
    return put_text(event, "message", b->message) &&
           cJSON_AddNumberToObject(event, "count", (double)b->count) != NULL &&
           put_time(event, "lastTimestamp", b->last);
}

cJSON *event_body_new(const struct event_body *b)
{
    const char *type = b->type == EVENT_WARNING ? "Warning" : "Normal";
    cJSON *event = cJSON_CreateObject();
    if (event == NULL || !put_text(event, "apiVersion", "v1") ||
        !put_text(event, "kind", "Event") || !put_metadata(event, b) ||
        !put_about(event, &b->about) || !put_source(event, b) || !put_text(event, "type", type) ||
        !put_text(event, "reason", b->reason) || !put_time(event, "firstTimestamp", b->first) ||
        !put_repeats(event, b)) {
        cJSON_Delete(event);
        return NULL;
    }
    return event;
}

cJSON *event_body_repeat(const struct event_body *b)
{
    cJSON *patch = cJSON_CreateObject();
    if (patch == NULL || !put_repeats(patch, b)) {
        cJSON_Delete(patch);
        return NULL;
    }
    return patch;
}
