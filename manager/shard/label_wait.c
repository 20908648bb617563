/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for control labels. The rules of a shard that had none yet are not published before the
 * objects that they select by control labels have them: else its operator would see a fraction of
 * what is there, and make what it misses. What was published once is not taken back, and later
 * edits do not wait, for objects that exist have their labels by then.
 */
#include <string.h>

#include "shard/controller_internal.h"
#include "shard/labelling.h"
#include "json/edit.h"
#include "json/field.h"

/* How far it is is told this often. */
enum { PROGRESS_MS = 20000 };

/* A labeller that begins anew, with another leader, lists all again, but does not find it bare. */
static bool was_labelled(const struct shard_cache_config *config)
{
    const cJSON *conditions = field_get(field_get(config->object, "status"), "conditions");
    const cJSON *labelled = edit_find(conditions, "type", "Labelled");
    const cJSON *generation = field_get(field_get(config->object, "metadata"), "generation");
    return strcmp(field_text(labelled, "status"), "True") == 0 &&
           cJSON_Compare(field_get(labelled, "observedGeneration"), generation, true);
}

void shard_look_labelling(struct shard *s, const struct shard_cache_config *config,
                          struct labelling *out)
{
    const struct rules *rules = shard_refusal(s) == NULL ? s->compiled : NULL;
    labelling_look(rules, s->controller->options.labelled, out);
    if (out->state == LABELLING_UNDER_WAY && was_labelled(config)) {
        labelling_done(out);
    }
    s->labelling = out->state;
    if (out->state == LABELLING_UNDER_WAY) {
        controller_look_after(s, PROGRESS_MS);
    }
}

/* Nothing is known of any rules that its pods could have had. */
static bool is_first(const struct shard *s, const struct shard_cache_config *config,
                     const struct rules_map *map)
{
    const cJSON *status = field_get(config->object, "status");
    return map == NULL && s->generation == 0 && !cJSON_IsNumber(field_get(status, "generation"));
}

bool shard_waits_for_labels(struct shard *s, const struct shard_cache_config *config,
                            const struct rules_map *map, struct labelling *why)
{
    if (!s->controller->options.wait_for_labels || !is_first(s, config, map)) {
        return false;
    }
    shard_look_labelling(s, config, why);
    return why->state == LABELLING_UNDER_WAY;
}

void controller_look_again(struct controller *c)
{
    for (const struct shard *s = NULL; (s = reconciler_next(c->reconciler, s)) != NULL;) {
        controller_look(c, s->key);
    }
}
