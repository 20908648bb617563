/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it stands with one pod, for others than the status.
 */
#include <stdio.h>
#include <string.h>

#include "policy/pod_traffic.h"
#include "shard/controller_internal.h"
#include "shard/pod_verdict.h"

enum { MICROSECONDS = 1000 };

static bool has_open_breaker(const struct probe_result *r)
{
    const struct pod_traffic *t =
        r == NULL || r->state != PROBE_ANSWERED || r->traffic == NULL ? NULL : r->traffic;
    for (size_t i = 0; t != NULL && i < t->count; i++) {
        if (t->breakers[i].state == CONTROL_BREAKER_OPENED) {
            return true;
        }
    }
    return false;
}

static void look(struct shard *s, const struct shard_cache_config *config, const struct pod *p,
                 struct controller_pod *out)
{
    const struct rules_map *map = shard_map(s);
    bool ours = map != NULL && shard_owns_map(s, config, map);
    const struct status_pod pod = shard_pod_facts(s, config, p);
    const struct status_facts facts = {
        .generation = ours ? map->generation : 0,
        .checksum = ours ? map->checksum : "",
        .left_out = shard_is_left_out(s, config->ns),
        .bypass_wait_ms = s->controller->options.bypass_wait_ms,
        .now_ms = net_clock_wall(s->controller->clock) / MICROSECONDS,
    };
    char why[POD_VERDICT_TEXT_SIZE];
    enum pod_verdict v = pod_verdict(&facts, config->key, &pod, why);
    out->enforces = v == VERDICT_ENFORCES || v == VERDICT_CONTESTED;
    out->open_breaker = has_open_breaker(pod.probe);
    (void)snprintf(out->why, sizeof out->why, "%.*s", (int)sizeof out->why - 1, why);
}

struct in_force {
    struct shard *shard;
    const struct shard_cache_config *config;
    size_t ready;
    size_t enforcing;
};

static void count_pod(void *data, const struct pod *p)
{
    struct in_force *f = data;
    struct controller_pod pod;
    if (p->ready && !p->ending && !p->over) {
        look(f->shard, f->config, p, &pod);
        f->ready++;
        f->enforcing += pod.enforces;
    }
}

bool controller_in_force(const struct controller *c, const struct shard_cache_config *config,
                         struct rules **published)
{
    struct in_force f = {.shard = controller_find_shard(c, config->key), .config = config};
    *published = NULL;
    if (f.shard == NULL) {
        return false;
    }
    const struct rules_map *map = shard_map(f.shard);
    *published = map == NULL || !shard_owns_map(f.shard, config, map) ? NULL : map->rules;
    shard_cache_each_pod_of(config, count_pod, &f);
    return *published != NULL && f.ready > 0 && f.enforcing == f.ready;
}

void controller_look_pod(const struct controller *c, const struct shard_cache_config *config,
                         const struct pod *p, struct controller_pod *out)
{
    struct shard *s = controller_find_shard(c, config->key);
    *out = (struct controller_pod){.enforces = false};
    if (s != NULL) {
        look(s, config, p, out);
    }
    if (out->enforces) {
        out->why[0] = '\0';
    }
}
