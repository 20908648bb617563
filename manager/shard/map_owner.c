/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the ConfigMap of a shard is. Who may write it could take it away by what is in it: another
 * owner, no label, no annotation. So what proves that it is ours stands elsewhere: the status of
 * the ShardingConfig has the uid of the last ConfigMap that this shard was published in. From then
 * on whatever has its name is put right, and who changed it is named.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "shard/controller_internal.h"
#include "json/field.h"

bool shard_owns_map(const struct shard *s, const struct shard_cache_config *config,
                    const struct rules_map *map)
{
    if (rules_map_ours(map) || config == NULL) {
        return rules_map_ours(map);
    }
    bool published = field_text(field_get(config->object, "status"), "configMapUID")[0] != '\0';
    bool written = s != NULL && s->generation != 0;
    return written || published || strcmp(map->config_uid, config->uid) == 0;
}

void shard_hear(struct shard *s, const struct rules_map *map)
{
    if (map != NULL && map->generation > s->heard) {
        s->heard = map->generation;
    }
}

/* Other rules than this controller wrote, or not as they are written. */
static bool is_tampered(const struct shard *s, const struct rules_map *map)
{
    bool other = s->generation != 0 && (map->generation != s->generation ||
                                        strcmp(map->checksum, s->generation_checksum) != 0);
    return other || !map->intact || !map->labelled || !map->described || map->foreign_owner;
}

void shard_tell_tampered(struct shard *s, const struct shard_cache_config *config,
                         const struct rules_map *map)
{
    if (map->changed_by[0] == '\0' || !is_tampered(s, map)) {
        return;
    }
    struct event_object about = event_object_of(config->object);
    log_warn("somebody changed the ConfigMap of a shard: it is put right", log_str("shard", s->key),
             log_str("configmap", map->name), log_str("changed by", map->changed_by));
    event_record(s->controller->options.events, &about, EVENT_WARNING, "RulesChanged",
                 "ConfigMap %s was changed by %s, which is no manager of rules: it is put right.",
                 map->name, map->changed_by);
}
