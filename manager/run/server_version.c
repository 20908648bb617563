/* SPDX-License-Identifier: Apache-2.0 */
#include "run/server_version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "kube/client/object_request.h"
#include "net/timer.h"

enum { RETRY_MS = 2000, AGAIN_MS = 600000, NUMBER_SIZE = 32 };

struct server_version {
    struct net_loop *loop;
    struct kube_client *client;
    const struct net_clock *clock;
    struct net_timer *timer;
    struct object_request *running;
    char major[NUMBER_SIZE];
    char minor[NUMBER_SIZE]; /* "": not known yet */
    struct err error;        /* of the last request; code 0: none */
    server_version_cb cb;
    void *data;
};

/* What is known stays; without anything it is asked again soon. */
static void fail(struct server_version *v, const char *why, enum log_level level)
{
    bool known = server_version_known(v);
    if (v->error.code == 0 || strcmp(v->error.msg, why) != 0) {
        (void)err_set(&v->error, -EIO, "%s", why);
        log_at(level,
               known ? "cannot ask for the version of the API server; the last one is believed"
                     : "cannot determine the version of the API server",
               log_str("error", v->error.msg));
    }
    net_clock_set_timer(v->clock, v->timer, known ? AGAIN_MS : RETRY_MS);
}

static void take(struct server_version *v, const char *major, const char *minor)
{
    v->error = (struct err)ERR_INIT;
    net_clock_set_timer(v->clock, v->timer, AGAIN_MS);
    if (strcmp(v->major, major) == 0 && strcmp(v->minor, minor) == 0) {
        return;
    }
    (void)snprintf(v->major, sizeof v->major, "%s", major);
    (void)snprintf(v->minor, sizeof v->minor, "%s", minor);
    log_info("API server", log_str("major", major), log_str("minor", minor));
    v->cb(v->data, major, minor);
}

static void on_answer(void *data, const cJSON *object, const struct api_error *error)
{
    struct server_version *v = data;
    v->running = NULL;
    const char *major = cJSON_GetStringValue(cJSON_GetObjectItem(object, "major"));
    const char *minor = cJSON_GetStringValue(cJSON_GetObjectItem(object, "minor"));
    if (object == NULL) {
        fail(v, error->msg, error->level);
    } else if (major == NULL || minor == NULL || major[0] == '\0' || minor[0] == '\0' ||
               strlen(major) >= NUMBER_SIZE || strlen(minor) >= NUMBER_SIZE) {
        fail(v, "/version: the response has none", LOG_WARN);
    } else {
        take(v, major, minor);
    }
}

static void request_version(void *data)
{
    struct server_version *v = data;
    struct err e = ERR_INIT;
    const struct object_request_options q = {.verb = OBJECT_REQUEST_GET, .path = "/version"};
    v->running = object_request_start(v->loop, v->client, &q, on_answer, v, &e);
    if (v->running == NULL) {
        fail(v, e.msg, kube_client_failure_level(v->client, 0));
    }
}

struct server_version *server_version_new(struct net_loop *l, struct kube_client *c,
                                          const struct net_clock *clock, server_version_cb cb,
                                          void *data)
{
    struct server_version *v = xcalloc(1, sizeof *v);
    v->loop = l;
    v->client = c;
    v->clock = clock != NULL ? clock : &net_clock_system;
    v->timer = xptr(net_timer_new(l, request_version, v));
    v->cb = cb;
    v->data = data;
    net_clock_set_timer(v->clock, v->timer, 0);
    return v;
}

bool server_version_known(const struct server_version *v)
{
    return v->minor[0] != '\0';
}

const char *server_version_major(const struct server_version *v)
{
    return v->major;
}

const char *server_version_minor(const struct server_version *v)
{
    return v->minor;
}

const char *server_version_error(const struct server_version *v)
{
    return v->error.code == 0 ? NULL : v->error.msg;
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
