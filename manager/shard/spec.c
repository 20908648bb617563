/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spec of a shard, compiled when it has changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/xalloc.h"
#include "shard/controller_internal.h"
#include "json/field.h"

uint64_t shard_spec_hash(const struct shard_cache_config *config)
{
    double generation = field_generation(config->object);
    struct slice bytes = {(const char *)&generation, sizeof generation};
    return keyed_hash(keyed_hash(0, slice_str(config->uid)), bytes);
}

/* As generation 1; the real one is chosen later, from the checksum. */
static struct rules *compile_spec(const struct shard *s, const struct shard_cache_config *config,
                                  struct err *e)
{
    struct compile_options o = {.namespace = config->ns,
                                .generation = 1,
                                .labels = s->controller->options.labels,
                                .namespaces = namespaces_set(s->controller->options.namespaces)};
    struct rules *known = shard_cache_rules(s->controller->options.cache, config, &o, e);
    return known == NULL ? NULL : rules_ref(known);
}

bool shard_has_looked(const struct shard *s, const struct shard_cache_config *config)
{
    return s->uid != NULL && s->spec == shard_spec_hash(config);
}

static bool is_compiled(const struct shard *s, const struct shard_cache_config *config)
{
    bool done = s->compiled != NULL || s->refusal.code != 0;
    return done && config->over == shard_is_given_up(s) && shard_has_looked(s, config) &&
           s->round == config->round;
}

/* The config is another one of the same name: what was known is of no use. */
static void reset_if_replaced(struct shard *s, const struct shard_cache_config *config)
{
    if (s->uid == NULL || strcmp(s->uid, config->uid) != 0) {
        free(s->uid);
        s->uid = xstrdup(config->uid);
        s->checksum[0] = '\0';
    }
}

void shard_compile(struct shard *s, const struct shard_cache_config *config)
{
    struct err e = ERR_INIT;
    uint64_t noticed = s->noticed_at;
    s->noticed_at = 0;
    if (is_compiled(s, config)) {
        return;
    }
    reset_if_replaced(s, config);
    struct rules *rules = compile_spec(s, config, &e);
    const char *checksum = rules == NULL ? "" : rules_checksum(rules);
    if (strcmp(checksum, s->checksum) != 0) {
        s->changed_at = rules == NULL ? 0 : noticed;
        s->placed = false;
    }
    (void)snprintf(s->checksum, sizeof s->checksum, "%s", checksum);
    operator_coverage_note(s->controller->operator_coverage, s->compiled);
    operator_coverage_note(s->controller->operator_coverage, rules);
    rules_unref(s->compiled);
    s->compiled = rules;
    s->refusal = e;
    s->spec = shard_spec_hash(config);
    s->round = config->round;
    s->controller->options.counts->compiled += rules != NULL;
    s->controller->options.counts->refused += rules == NULL;
}
