/* SPDX-License-Identifier: Apache-2.0 */
#include "run/server_version.h"

#include <stdlib.h>

#include "base/log.h"
#include "kube/client/object_request.h"
#include "net/timer.h"

enum { PAUSE_MS = 2000 };

struct server_version {
    struct net_loop *loop;
    struct kube_client *client;
    struct net_timer *timer;
    struct object_request *running;
    server_version_cb cb;
    void *data;
};

static void on_answer(void *data, const cJSON *object, const struct api_error *error)
{
    struct server_version *v = data;
    v->running = NULL;
    const char *major = cJSON_GetStringValue(cJSON_GetObjectItem(object, "major"));
    const char *minor = cJSON_GetStringValue(cJSON_GetObjectItem(object, "minor"));
    if (major == NULL || minor == NULL) {
        log_debug("cannot determine the version of the API server",
                  log_str("error", object == NULL ? error->msg : "the response has none"));
        net_timer_set(v->timer, PAUSE_MS);
        return;
    }
    log_info("API server", log_str("major", major), log_str("minor", minor));
    v->cb(v->data, major, minor);
}

static void request_version(void *data)
{
    struct server_version *v = data;
    struct err e = ERR_INIT;
    const struct object_request_options q = {.verb = OBJECT_REQUEST_GET, .path = "/version"};
    v->running = object_request_start(v->loop, v->client, &q, on_answer, v, &e);
    if (v->running == NULL) {
        net_timer_set(v->timer, PAUSE_MS);
    }
}

struct server_version *server_version_new(struct net_loop *l, struct kube_client *c,
                                          server_version_cb cb, void *data, struct err *e)
{
    struct server_version *v = calloc(1, sizeof *v);
    struct net_timer *timer = v == NULL ? NULL : net_timer_new(l, request_version, v);
    if (timer == NULL) {
        free(v);
        err_memory(e);
        return NULL;
    }
    *v = (struct server_version){.loop = l, .client = c, .timer = timer, .cb = cb, .data = data};
    net_timer_set(timer, 0);
    return v;
}

void server_version_free(struct server_version *v)
{
    if (v == NULL) {
        return;
    }
    object_request_cancel(v->running);
    net_timer_free(v->timer);
    free(v);
}
