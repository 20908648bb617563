/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMap of a config that is gone, or has become a root. Its rules stay until the last pod
 * that mounts them is gone, and hold what they show; then it is deleted. Traffic policies are
 * followed until then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "object/preconditions.h"
#include "shard/controller_internal.h"
#include "json/field.h"

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
    char *path = controller_path("/api/v1", map->ns, "configmaps");
    cJSON *body = preconditions_delete(map->uid, map->version);
    struct object_request_options q = {
        .verb = OBJECT_REQUEST_DELETE, .path = path, .name = map->name, .body = body};
    reconcile_write(&s->run, &q, s->controller->options.counts->writes[CONTROLLER_CLEANUP],
                    on_deleted);
    cJSON_Delete(body);
    free(path);
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

static void get_config(struct shard *s, const struct rules_map *map)
{
    char *path = controller_path(SHARD_CACHE_GROUP_PATH, map->ns, SHARD_CACHE_RESOURCE);
    struct object_request_options q = {
        .verb = OBJECT_REQUEST_GET, .path = path, .name = map->shard};
    reconcile_write(&s->run, &q, NULL, on_looked);
    free(path);
}

/* It became a root, or was deleted while nobody led. */
static void tell_late(struct shard *s, const struct rules_map *map, const struct pod *const *pods,
                      size_t count)
{
    struct event_object about = {.api_version = COMPILE_API_VERSION,
                                 .kind = COMPILE_KIND,
                                 .namespace = map->ns,
                                 .name = map->shard,
                                 .uid = map->config_uid};
    controller_tell_kept(s->controller, &about, shard_config_or_root(s) != NULL, pods, count);
    s->kept_told = true;
}

/* Pods that are being created may mount it still: the manager's webhook has let them in before. */
static void wait_or_delete(struct shard *s, const struct rules_map *map)
{
    struct controller *c = s->controller;
    uint64_t now = controller_now(c);
    s->gone_at = s->gone_at != 0 ? s->gone_at : now;
    uint64_t gone = now - s->gone_at;
    if (gone >= c->options.orphan_ms) {
        get_config(s, map);
        return;
    }
    controller_look_after(s, c->options.orphan_ms - gone);
    shard_done(s, WORK_DONE, 0);
}

void shard_clean_up(struct shard *s)
{
    struct controller *c = s->controller;
    const struct rules_map *map = shard_map(s);
    size_t count = 0;
    shard_wait_end(s);
    bool overwritten = shard_is_overwritten(s, map);
    bool claimed = map != NULL && (rules_map_claims(map) || s->own != NULL); /* by us at least */
    bool ours = claimed && rules_map_ours(map);
    if (map == NULL || (!ours && !overwritten)) {
        shard_done(s, WORK_DONE, 0);
        return;
    }
    const struct pod **pods = controller_own_pods(c, s->key, &count);
    if (pods == NULL) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    if (!s->kept_told) {
        tell_late(s, map, pods, count);
    }
    free(pods);
    if (count > 0 && map->unread) {
        shard_read_map(s); /* others ask what it shows */
    } else if (count > 0 && overwritten && shard_put_back(s, NULL, map)) {
        return;
    } else if (count > 0 && ours) {
        s->gone_at = 0;
        shard_publish_traffic(s); /* its pods bring it again, and policies that change */
    } else if (!ours) {
        s->gone_at = 0;
        shard_done(s, WORK_DONE, 0);
    } else {
        wait_or_delete(s, map);
    }
}
