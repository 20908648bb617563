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

static const char *common_pod(const void *pods, const char *ns, const struct selector *a,
                              const struct selector *b)
{
    const struct shard_cache *cache = pods;
    for (const struct pod *p = NULL; (p = shard_cache_next_pod_in(cache, ns, p)) != NULL;) {
        if (pod_selected(p, a) && pod_selected(p, b)) {
            return p->name;
        }
    }
    return NULL;
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

int admission_snapshot_look(struct admission_snapshot *o, struct validate_context *w, struct err *e)
{
    admission_snapshot_deinit(o);
    *w = (struct validate_context){.common_pod = common_pod, .pods = o->cache};
    /* The first config in a namespace makes its pods be listed: until then others are not refused.
     */
    if (!shard_cache_configs_synced(o->cache)) {
        const char *why = shard_cache_error(o->cache);
        return err_set(e, -EAGAIN, "the ShardingConfigs have not been listed yet%s%s",
                       why == NULL ? "" : ": ", why == NULL ? "" : why);
    }
    int rc = add_configs(o, w);
    if (rc == 0) {
        rc = add_resources(o, w);
    }
    return rc != 0 ? err_set(e, rc, "out of memory") : 0;
}

void admission_snapshot_deinit(struct admission_snapshot *o)
{
    free(o->configs);
    free(o->resources);
    o->configs = NULL;
    o->resources = NULL;
}
