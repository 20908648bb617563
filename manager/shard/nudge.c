/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells pods of a new generation of rules or traffic policies by an annotation: the kubelet looks
 * at the volumes of a pod that changes, and so brings the ConfigMap at once instead of within a
 * minute.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "inject/inject_options.h"
#include "object/preconditions.h"
#include "ownership/generation.h"
#include "shard/controller_internal.h"
#include "json/edit.h"
#include "json/field.h"

enum { PARALLEL = 16, NUMBER_SIZE = 24 };

struct nudger {
    struct controller *controller;
    struct work_queue *queue;
    struct list running; /* of struct nudge */
};

/* One request. */
struct nudge {
    struct list link;
    struct nudger *nudger;
    struct object_request *request;
    uint64_t generation; /* of the rules; 0: it is not told */
    bool tells_traffic;
    uint64_t traffic; /* of the traffic document; 0: there is none */
    char *key;        /* of the pod */
};

static void free_nudge(struct nudge *n)
{
    list_remove(&n->link);
    object_request_cancel(n->request);
    free(n->key);
    free(n);
}

static void finish_nudge(struct nudge *n, enum work_result result, unsigned retry_after)
{
    work_queue_done(n->nudger->queue, n->key, result, retry_after);
    free_nudge(n);
}

static void note_told(const struct nudge *n, const char *uid)
{
    struct controller *c = n->nudger->controller;
    if (n->generation != 0) {
        shard_cache_pod_told(c->options.cache, n->key, uid, n->generation);
        prober_expect(c->prober, n->key, n->generation);
    }
    if (n->tells_traffic) {
        shard_cache_pod_told_traffic(c->options.cache, n->key, uid, n->traffic);
    }
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct nudge *n = data;
    struct controller *c = n->nudger->controller;
    n->request = NULL;
    controller_count(c, CONTROLLER_NUDGE, error);
    if (object != NULL) {
        note_told(n, field_meta(object, "uid"));
        finish_nudge(n, WORK_DONE, 0);
        return;
    }
    /* Another pod of that name, or none: next time the cache shows it. */
    bool gone = error->code == 404 || error->code == 409 || error->code == 422;
    if (!gone) {
        log_at(error->level,
               "cannot notify a pod of its new rules; the kubelet updates them within a minute",
               log_str("pod", n->key), log_str("error", error->msg));
    }
    finish_nudge(n, WORK_RETRY, error->retry_after);
}

/* Refused for another pod of that name, and when it has changed: a leader of before might tell an
 * older generation. */
static cJSON *make_patch(const struct nudge *n, const struct pod *p)
{
    const char *prefix = n->nudger->controller->options.prefix;
    struct edit ed = {.rc = 0};
    char key[INJECT_KEY_SIZE];
    char number[NUMBER_SIZE];
    cJSON *patch = cJSON_CreateObject();
    cJSON *meta = preconditions_set(&ed, patch, p->uid, p->version);
    cJSON *annotations = edit_object(&ed, meta, "annotations");
    if (n->generation != 0) {
        (void)snprintf(number, sizeof number, "%" PRIu64, n->generation);
        edit_string(&ed, annotations, inject_options_key(prefix, POD_GENERATION, key), number);
    }
    if (n->tells_traffic) {
        (void)snprintf(number, sizeof number, "%" PRIu64, n->traffic);
        edit_string(&ed, annotations, inject_options_key(prefix, POD_TRAFFIC, key), number);
    }
    return edit_result(&ed, patch);
}

static bool is_due(const struct nudge *n)
{
    return n->generation != 0 || n->tells_traffic;
}

/* What is to be told. */
static void look(const struct controller *c, const struct pod *p, struct nudge *out)
{
    struct shard *s = p == NULL ? NULL : controller_mounted_shard(c, p);
    const struct rules_map *map = s == NULL ? NULL : shard_map(s);
    if (map == NULL || !rules_map_ours(map)) {
        return;
    }
    out->generation = generation_was_told(p->generation, map->generation) ? 0 : map->generation;
    out->tells_traffic = shard_traffic_due(s, p, &out->traffic);
}

static struct nudge *new_nudge(struct nudger *r, const char *key, const struct nudge *what)
{
    struct nudge *n = calloc(1, sizeof *n);
    if (n == NULL) {
        return NULL;
    }
    *n = *what;
    list_init(&n->link);
    n->nudger = r;
    n->key = strdup(key);
    if (n->key == NULL) {
        free_nudge(n);
        return NULL;
    }
    list_append(&r->running, &n->link);
    return n;
}

static int send_nudge(struct nudge *n, const struct pod *p)
{
    const struct controller *c = n->nudger->controller;
    struct err e = ERR_INIT;
    cJSON *body = make_patch(n, p);
    char *path = controller_path("/api/v1", p->ns, "pods");
    struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = p->name,
        .body = body,
        .field_manager = "cmesh-manager",
        .metadata_only = true,
    };
    bool may = path != NULL && body != NULL && c->options.may_write(c->options.data);
    n->request =
        may ? object_request_start(c->loop, c->options.client, &q, on_written, n, &e) : NULL;
    cJSON_Delete(body);
    free(path);
    return n->request == NULL ? -EAGAIN : 0;
}

static void on_work(void *data, const char *key)
{
    struct nudger *r = data;
    const struct pod *p = shard_cache_find_pod(r->controller->options.cache, key);
    struct nudge what = {.generation = 0};
    look(r->controller, p, &what);
    if (!is_due(&what)) {
        work_queue_done(r->queue, key, WORK_DONE, 0);
        return;
    }
    struct nudge *n = new_nudge(r, key, &what);
    if (n == NULL) {
        work_queue_done(r->queue, key, WORK_RETRY, 0);
    } else if (send_nudge(n, p) != 0) {
        finish_nudge(n, WORK_RETRY, 0);
    }
}

struct nudger *nudger_new(struct controller *c, struct err *e)
{
    struct nudger *r = calloc(1, sizeof *r);
    struct work_queue_options o = {
        .name = "pods",
        .parallel = c->options.nudges != 0 ? c->options.nudges : PARALLEL,
        .clock = c->options.clock,
    };
    if (r == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    r->controller = c;
    list_init(&r->running);
    r->queue = work_queue_new(c->loop, &o, on_work, r, e);
    if (r->queue == NULL) {
        free(r);
        return NULL;
    }
    return r;
}

void nudger_add(struct nudger *n, const struct pod *p)
{
    if (work_queue_add(n->queue, p->key) != 0) {
        log_error("out of memory; the kubelet updates the rules within a minute",
                  log_str("pod", p->key));
    }
}

const struct work_queue *nudger_queue(const struct nudger *n)
{
    return n->queue;
}

void nudger_free(struct nudger *n)
{
    if (n == NULL) {
        return;
    }
    while (!list_empty(&n->running)) {
        free_nudge(LIST_ITEM(n->running.next, struct nudge, link));
    }
    work_queue_free(n->queue);
    free(n);
}
