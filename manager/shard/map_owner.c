/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the ConfigMap of a shard is. Who may write it could take it away by what is in it: another
 * owner, no label, no annotation. So what proves that it is ours stands elsewhere: the status of
 * the ShardingConfig has the uid of the last ConfigMap that this shard was published in. From then
 * on whatever has its name is put right, and who changed it is named.
 */
#include <stdio.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "compile/compile.h"
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

char *shard_name_taken(const struct rules_map *map)
{
    return xasprintf("ConfigMap %s is not managed by this manager%s and was left unchanged: "
                     "delete or rename it, or rename the ShardingConfig",
                     map->name, map->foreign_owner ? ", who controls it," : "");
}

void shard_hear(struct shard *s, const struct rules_map *map)
{
    if (map != NULL && map->generation > s->heard) {
        s->heard = map->generation;
    }
}

static bool is_of(const struct rules_map *map, uint64_t generation, const char *checksum)
{
    return map->generation == generation && strcmp(map->checksum, checksum) == 0;
}

static bool is_told(const struct shard_cache_config *config, const struct rules_map *map)
{
    const cJSON *status = config == NULL ? NULL : field_get(config->object, "status");
    const cJSON *n = field_get(status, "generation");
    return cJSON_IsNumber(n) && n->valuedouble >= 1 &&
           is_of(map, (uint64_t)n->valuedouble, field_text(status, "checksum"));
}

void shard_learn_own(struct shard *s, const struct shard_cache_config *config,
                     const struct rules_map *map)
{
    if (map == NULL || map->rules == NULL) {
        return;
    }
    bool sent = s->sent != NULL && is_of(map, rules_generation(s->sent), rules_checksum(s->sent));
    if (sent || (s->own == NULL && is_told(config, map))) {
        shard_keep_rules(&s->own, map->rules);
    }
}

bool shard_is_overwritten(const struct shard *s, const struct rules_map *map)
{
    return map != NULL && !map->unread && s->own != NULL &&
           strcmp(map->checksum, rules_checksum(s->own)) != 0;
}

/* Other rules than a manager wrote, or not as they are written. */
static bool is_tampered(const struct shard *s, const struct shard_cache_config *config,
                        const struct rules_map *map)
{
    const cJSON *status = config == NULL ? NULL : field_get(config->object, "status");
    bool other = s->generation != 0
                     ? !is_of(map, s->generation, s->generation_checksum)
                     : field_get(status, "generation") != NULL && !is_told(config, map);
    return other || shard_is_overwritten(s, map) || !map->intact || !map->labelled ||
           !map->described || map->foreign_owner;
}

static bool is_told_of(struct shard *s, const struct rules_map *map)
{
    uint64_t version = keyed_hash(keyed_hash(0, slice_str(map->uid)), slice_str(map->version));
    bool told = s->tampered == version;
    s->tampered = version;
    return told;
}

struct event_object shard_event_object(const struct shard *s,
                                       const struct shard_cache_config *config, const char *ns,
                                       const struct rules_map *map)
{
    if (config != NULL) {
        return event_object_of(config->object);
    }
    return (struct event_object){.api_version = COMPILE_API_VERSION,
                                 .kind = COMPILE_KIND,
                                 .namespace = ns,
                                 .name = strchr(s->key, '/') + 1,
                                 .uid = s->uid != NULL ? s->uid
                                        : map == NULL  ? NULL
                                                       : map->config_uid};
}

static void tell_changed(struct shard *s, const struct shard_cache_config *config,
                         const struct rules_map *map, const char *reason, const char *what)
{
    if (map->changed_by[0] == '\0' || is_told_of(s, map)) {
        return;
    }
    struct event_object object = shard_event_object(s, config, map->ns, map);
    log_warn("somebody changed the ConfigMap of a shard", log_str("shard", s->key),
             log_str("configmap", map->name), log_str("changed", what),
             log_str("changed by", map->changed_by));
    event_record(s->controller->options.events, &object, EVENT_WARNING, reason,
                 "The %s in ConfigMap %s were changed by %s, which is no manager of them: they are "
                 "put right as soon as possible.",
                 what, map->name, map->changed_by);
}

void shard_tell_tampered(struct shard *s, const struct shard_cache_config *config,
                         const struct rules_map *map)
{
    if (map != NULL && is_tampered(s, config, map)) {
        tell_changed(s, config, map, "RulesChanged", "rules");
    }
}

void shard_tell_traffic_changed(struct shard *s, const struct shard_cache_config *config,
                                const struct rules_map *map)
{
    const struct rules_map_traffic *is = &map->traffic;
    bool other = s->traffic.sent_hash != 0 && is->text_hash != s->traffic.sent_hash;
    if (is->present && (other || !is->intact)) {
        tell_changed(s, config, map, "TrafficChanged", "traffic policies");
    }
}
