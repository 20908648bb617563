/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMap of a config that is gone, or has become a root: how it is deleted when no pod
 * mounts it any more.
 */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "object/preconditions.h"
#include "shard/controller_internal.h"
#include "json/field.h"

/* Pods of one config of which an Event tells that they keep its rules. */
enum { KEPT_EVENTS_MAX = 100 };

static void on_deleted(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    if (object != NULL) {
        log_info("deleted the rules of a deleted ShardingConfig", log_str("shard", s->key));
    } else if (error->code != 404 && error->code != 409) {
        log_at(error->level, "cannot delete the rules of a deleted ShardingConfig",
               log_str("shard", s->key), log_str("error", error->msg));
    }
    shard_done(s, object != NULL || error->code == 404 ? WORK_DONE : WORK_RETRY,
               object != NULL ? 0 : error->retry_after);
}

static void delete_map(struct shard *s, const struct rules_map *map)
{
    cJSON *body = preconditions_delete(map->uid, map->version);
    const struct object_request_options q = {.verb = OBJECT_REQUEST_DELETE, .body = body};
    shard_request_map(s, q, s->controller->options.counts->writes[CONTROLLER_CLEANUP], on_deleted);
    cJSON_Delete(body);
}

/* The cache may be behind: only the API server's word counts. */
static void on_looked(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    const struct rules_map *map = shard_map(s);
    bool gone =
        object == NULL ? error->code == 404 : field_get(field_get(object, "spec"), "root") != NULL;
    if (gone && map != NULL && shard_config(s) == NULL) {
        delete_map(s, map);
    } else {
        shard_done(s, map == NULL ? WORK_DONE : WORK_RETRY, 0);
    }
}

void shard_delete_map(struct shard *s)
{
    struct controller *c = s->controller;
    uint64_t now = controller_now(c);
    s->gone_at = s->gone_at != 0 ? s->gone_at : now;
    uint64_t gone = now - s->gone_at;
    if (gone < c->options.orphan_ms) {
        controller_look_after(s, c->options.orphan_ms - gone);
        shard_done(s, WORK_DONE, 0);
        return;
    }
    const struct object_request_options q = {.verb = OBJECT_REQUEST_GET,
                                             .name = strchr(s->key, '/') + 1};
    shard_request(s, SHARD_CACHE_GROUP_PATH, SHARD_CACHE_RESOURCE, q, NULL, on_looked);
}

static void tell_pod(struct event_recorder *events, const char *shard, bool root,
                     const struct ownership_pod *p)
{
    const struct pod *pod = p->pod;
    bool known = p->probe != NULL && p->probe->generation != 0;
    struct event_object about = {.api_version = "v1",
                                 .kind = "Pod",
                                 .namespace = pod->ns,
                                 .name = pod->name,
                                 .uid = pod->uid};
    event_record(events, &about, EVENT_WARNING, "RulesKept",
                 "ShardingConfig %s %s: this pod keeps enforcing generation %" PRIu64
                 " of its rules until it is gone.",
                 shard, root ? "has become a root" : "was deleted",
                 known ? p->probe->generation : pod->generation);
}

void shard_tell_kept(struct shard *s, const struct rules_map *map, const struct ownership_pod *pods,
                     size_t count)
{
    struct event_object about = shard_event_object(s, NULL, pods[0].pod->ns, map);
    bool root = shard_config_or_root(s) != NULL;
    for (size_t i = 0; i < count && i < KEPT_EVENTS_MAX; i++) {
        tell_pod(s->controller->options.events, about.name, root, &pods[i]);
    }
    event_record(s->controller->options.events, &about, EVENT_WARNING, "RulesKept",
                 "%s while %zu pod%s enforced it: %s its rules until %s gone.",
                 root ? "Became a root" : "Deleted", count, count == 1 ? "" : "s",
                 count == 1 ? "it keeps" : "they keep", count == 1 ? "it is" : "they are");
}
