/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/eviction.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prometheus.h"
#include "base/xalloc.h"
#include "json/edit.h"
#include "json/field.h"

/* "policy/v1" from 1.22 on; before it "policy/v1beta1", which is gone since 1.25. */
void eviction_ask(struct reconcile *s, object_request_cb next)
{
    const struct object_request_options q = {.verb = OBJECT_REQUEST_GET, .path = "/api/v1"};
    reconcile_write(s, &q, NULL, next);
}

const struct api_error *eviction_learn(struct eviction_api *a, const cJSON *resources,
                                       const struct api_error *error)
{
    static const struct api_error absent = {.msg = "it has no evictions"};
    const cJSON *resource = NULL;
    cJSON_ArrayForEach(resource, field_get(resources, "resources"))
    {
        if (strcmp(field_text(resource, "name"), "pods/eviction") == 0) {
            (void)snprintf(a->version, sizeof a->version, "%s/%s", field_text(resource, "group"),
                           field_text(resource, "version"));
            return NULL;
        }
    }
    return error != NULL ? error : &absent;
}

static cJSON *make_eviction(const struct eviction_api *a, const struct eviction_pod *p)
{
    struct edit ed = {.rc = 0};
    cJSON *body = cJSON_CreateObject();
    edit_string(&ed, body, "apiVersion", a->version);
    edit_string(&ed, body, "kind", "Eviction");
    cJSON *meta = edit_object(&ed, body, "metadata");
    edit_string(&ed, meta, "name", p->name);
    edit_string(&ed, meta, "namespace", p->ns);
    cJSON *preconditions =
        edit_object(&ed, edit_object(&ed, body, "deleteOptions"), "preconditions");
    edit_string(&ed, preconditions, "uid", p->uid);
    return xptr(edit_result(&ed, body));
}

void eviction_send(struct reconcile *s, const struct eviction_api *a, const struct eviction_pod *p,
                   object_request_cb next)
{
    char *path = xasprintf("/api/v1/namespaces/%s/pods", p->ns);
    cJSON *body = make_eviction(a, p);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_CREATE,
        .path = path,
        .name = p->name,
        .subresource = "eviction",
        .body = body,
    };
    reconcile_write(s, &q, NULL, next);
    cJSON_Delete(body);
    free(path);
}

enum eviction_result eviction_judge(struct eviction_api *a, const struct api_error *error)
{
    switch (error == NULL ? 201 : error->code) {
    case 201:
        return EVICTION_DONE;
    case 429:
        return EVICTION_BLOCKED;
    case 404:
    case 409: /* what is there now will be seen */
        a->version[0] = '\0';
        return EVICTION_GONE;
    case 400:
    case 415:
        a->version[0] = '\0';
        return EVICTION_FAILED;
    default:
        return EVICTION_FAILED;
    }
}

void eviction_write_counts(struct buf *out, const char *name, const char *help,
                           const uint64_t counts[EVICTION_RESULTS])
{
    static const char *const results[EVICTION_RESULTS] = {"evicted", "blocked", "gone", "failed"};
    prometheus_head(out, name, "counter", help);
    for (size_t i = 0; i < EVICTION_RESULTS; i++) {
        buf_printf(out, "%s{result=\"%s\"} %" PRIu64 "\n", name, results[i], counts[i]);
    }
}
