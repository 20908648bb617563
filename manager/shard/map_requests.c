/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests for the ConfigMap of a shard, and what their answers are remembered as.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "ownership/generation.h"
#include "shard/controller_internal.h"

void shard_count_rules(const struct shard *s, struct rules *rules)
{
    char ns[NAME_LABEL_MAX + 1];
    (void)snprintf(ns, sizeof ns, "%.*s", (int)strcspn(s->key, "/"), s->key);
    shard_cache_count_rules(s->controller->options.cache, ns, rules);
}

/* Of a shard that was given up meanwhile none are kept. */
static void keep_rules(const struct shard *s, struct rules_map *map)
{
    const struct shard_cache_config *config = shard_config(s);
    if (config != NULL && config->over) {
        rules_map_give_up(map);
    }
    shard_count_rules(s, map->rules);
}

void shard_request_map(struct shard *s, struct object_request_options q, uint64_t *counts,
                       object_request_cb next)
{
    char *name = rules_map_name(strchr(s->key, '/') + 1);
    q.name = q.verb == OBJECT_REQUEST_CREATE ? NULL : name;
    shard_request(s, "/api/v1", "configmaps", q, counts, next);
    free(name);
}

void shard_store_map(struct shard *s, struct rules_map *map)
{
    const struct rules_map *seen = shard_cache_find_map(s->controller->options.cache, s->key);
    if (s->base == NULL || strcmp(seen == NULL ? "" : seen->version, s->base) != 0) {
        rules_map_free(map); /* it has moved on already */
        return;
    }
    rules_map_free(s->written);
    s->written = map;
    s->written_at = controller_now(s->controller);
    controller_look_after(s, RECONCILE_BELIEF_MS + 1);
}

void shard_note_base(struct shard *s)
{
    const struct rules_map *seen = shard_cache_find_map(s->controller->options.cache, s->key);
    rules_map_free(s->written);
    s->written = NULL;
    free(s->base);
    s->base = xstrdup(seen == NULL ? "" : seen->version);
}

/* Pods that have the sidecars of the shard go on mounting its ConfigMap when its selector has
 * changed, until they are gone. */
void shard_tell_pods(struct shard *s, uint64_t generation, bool fresh)
{
    struct controller *c = s->controller;
    size_t count = 0;
    struct ownership_pod *pods = controller_own_pods(c, s->key, &count);
    for (size_t i = 0; i < count; i++) {
        if (fresh) {
            prober_expect(c->prober, pods[i].pod->key, generation);
        }
        if (!generation_was_told(pods[i].pod->generation, generation)) {
            pod_notifier_add(c->pod_notifier, pods[i].pod);
        }
    }
    free(pods);
}

static void on_success(struct shard *s, const struct rules_map *map)
{
    struct controller *c = s->controller;
    const struct shard_cache_config *config = shard_config(s);
    bool whole = strcmp(map->checksum, s->checksum) == 0; /* nothing that it gains waits */
    if (whole) {
        shard_set_reason(s, PUBLISH_OK, NULL);
    }
    if (map->rules != NULL) {
        shard_keep_rules(&s->own, map->rules);
    }
    s->generation = map->generation;
    (void)snprintf(s->generation_checksum, sizeof s->generation_checksum, "%s", map->checksum);
    if (s->changed_at != 0 && !s->placed && whole) {
        controller_observe(&c->options.counts->published, controller_now(c) - s->changed_at);
        s->placed = true;
    }
    log_info("published", log_str("shard", s->key), log_num("generation", (int64_t)map->generation),
             log_str("checksum", map->checksum));
    if (config != NULL) {
        struct event_object about = event_object_of(config->object);
        event_record(c->options.events, &about, EVENT_NORMAL, "Published",
                     "Published generation %" PRIu64 " to ConfigMap %s.", map->generation,
                     map->name);
        if (whole && s->late) {
            shard_tell_late(s, config, map->generation);
        }
        shard_tell_pods(s, map->generation, true);
    }
    if (whole) {
        shard_wait_end(s);
    }
}

static void on_failure(struct shard *s, const struct api_error *error)
{
    bool conflict = error->code == 409 || error->code == 404;
    if (error->exists) {
        shard_read_map(s);
        return;
    }
    if (conflict || error->code == 0) {
        log_info("publishing failed, will retry", log_str("shard", s->key),
                 log_str("error", error->msg));
        shard_done(s, WORK_RETRY, error->retry_after);
        return;
    }
    log_at(error->level, "cannot publish rules", log_str("shard", s->key),
           log_str("error", error->msg));
    shard_set_reason(s, PUBLISH_REFUSED, xstrdup(error->msg));
    s->retry_after = error->retry_after;
    shard_report(s);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    if (object == NULL) {
        on_failure(s, error);
        return;
    }
    struct rules_map *map = rules_map_new(object, s->controller->options.prefix);
    if (map == NULL) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    if (s->sent != NULL) {
        rules_map_share(map, s->sent);
    }
    keep_rules(s, map);
    shard_traffic_written(s, map);
    on_success(s, map);
    shard_store_map(s, map);
    shard_report(s);
}

/* One that the cache does not show, for it has not our label, or not yet; or has not read. */
static void on_looked(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    if (object == NULL) {
        shard_done(s, WORK_RETRY, error->retry_after);
        return;
    }
    struct rules_map *map = rules_map_new(object, s->controller->options.prefix);
    if (map == NULL) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    shard_hear(s, map);
    keep_rules(s, map);
    if (shard_cache_learn_map(s->controller->options.cache, map)) {
        controller_wake(s->controller, s->key);
        shard_publish(s);
        return;
    }
    if (!shard_owns_map(s, shard_config(s), map)) {
        shard_set_reason(s, PUBLISH_NAME_TAKEN, shard_name_taken(map));
        rules_map_free(map);
        shard_report(s);
        return;
    }
    shard_store_map(s, map);
    if (s->written == NULL) {
        shard_done(s, WORK_RETRY, 0); /* the cache has it by now */
    } else {
        shard_publish(s);
    }
}

void shard_read_map(struct shard *s)
{
    const struct object_request_options q = {.verb = OBJECT_REQUEST_GET};
    shard_note_base(s);
    shard_request_map(s, q, NULL, on_looked);
}

void shard_write_map(struct shard *s, bool create, const cJSON *body)
{
    const struct object_request_options q = {
        .verb = create ? OBJECT_REQUEST_CREATE : OBJECT_REQUEST_MERGE_PATCH,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
    };
    shard_note_base(s);
    shard_request_map(s, q, s->controller->options.counts->writes[CONTROLLER_CONFIGMAP],
                      on_written);
}
