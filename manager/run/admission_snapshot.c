/* SPDX-License-Identifier: Apache-2.0 */
#include "run/admission_snapshot.h"

#include <errno.h>
#include <stdlib.h>

static int add_configs(struct admission_snapshot *o, struct validate_context *w)
{
    size_t count = 0, n = 0;
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config(o->cache, c)) != NULL;) {
        count++;
    }
    o->configs = calloc(count + 1, sizeof(cJSON *));
    if (o->configs == NULL) {
        return -ENOMEM;
    }
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config(o->cache, c)) != NULL;) {
        o->configs[n++] = c->object;
    }
    w->configs = o->configs;
    w->config_count = n;
    return 0;
}

static int add_pods(struct admission_snapshot *o, struct validate_context *w)
{
    size_t count = 0;
    for (const struct pod *p = NULL; (p = shard_cache_next_pod(o->cache, p)) != NULL;) {
        count++;
    }
    o->pods = calloc(count + 1, sizeof(cJSON *));
    if (o->pods == NULL) {
        return -ENOMEM;
    }
    for (const struct pod *p = NULL; (p = shard_cache_next_pod(o->cache, p)) != NULL;) {
        cJSON *pod = pod_to_json(p);
        if (pod == NULL) {
            return -ENOMEM;
        }
        o->pods[o->pod_count++] = pod;
    }
    w->pods = (const cJSON *const *)o->pods;
    w->pod_count = o->pod_count;
    return 0;
}

static int add_resources(struct admission_snapshot *o, struct validate_context *w)
{
    if (!discovery_ready(o->discovery)) {
        return 0;
    }
    size_t count;
    const struct discovery_resource *all = discovery_all(o->discovery, &count);
    o->resources = calloc(count + 1, sizeof *o->resources);
    if (o->resources == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        o->resources[i] =
            (struct validate_resource){.group = all[i].group, .resource = all[i].plural};
    }
    w->resources = o->resources;
    w->resource_count = count;
    return 0;
}

int admission_snapshot_look(struct admission_snapshot *o, bool pods_needed,
                            struct validate_context *w, struct err *e)
{
    admission_snapshot_deinit(o);
    *w = (struct validate_context){.config_count = 0};
    /* The first config in a namespace makes its pods be listed: until then others are not refused.
     */
    if (!shard_cache_configs_synced(o->cache)) {
        const char *why = shard_cache_error(o->cache);
        return err_set(e, -EAGAIN, "the ShardingConfigs have not been listed yet%s%s",
                       why == NULL ? "" : ": ", why == NULL ? "" : why);
    }
    int rc = add_configs(o, w);
    if (rc == 0 && pods_needed) {
        rc = add_pods(o, w);
    }
    if (rc == 0) {
        rc = add_resources(o, w);
    }
    return rc != 0 ? err_set(e, rc, "out of memory") : 0;
}

void admission_snapshot_deinit(struct admission_snapshot *o)
{
    for (size_t i = 0; i < o->pod_count; i++) {
        cJSON_Delete(o->pods[i]);
    }
    free(o->pods);
    free(o->configs);
    free(o->resources);
    o->pods = NULL;
    o->configs = NULL;
    o->resources = NULL;
    o->pod_count = 0;
}
