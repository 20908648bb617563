/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/exclusive.h"

#include <stdio.h>
#include <stdlib.h>

#include "compile/control_labels.h"
#include "compile/sharing.h"
#include "shard/controller_internal.h"
#include "shard/ownership_facts.h"
#include "shard/waits_text.h"

static void say(struct exclusive *out, enum exclusive_state state, const char *text)
{
    out->state = state;
    (void)snprintf(out->text, sizeof out->text, "%s", text);
}

/* Who else shows what the shard's `rules` show. `all`: also in namespaces that it shares. The
 * caller frees; NULL: nobody does. */
static char *find_others(struct shard *s, const struct shard_cache_config *config,
                         struct rules *rules, bool all, struct ownership_plan *out)
{
    struct ownership_gathering g;
    struct rules *own = all ? rules_ref(rules) : shard_leave_out_shared(s, config, rules);
    ownership_facts_gather(s, config, &g);
    const struct ownership_question q = {.shard = g.self, .to = own};
    out->waits = g.waits;
    ownership_overlaps(&g.facts, &q, out);
    char *who = out->count == 0 ? NULL : waits_text(out, NULL);
    ownership_facts_deinit(&g);
    out->waits = NULL;
    rules_unref(own);
    return who;
}

static void judge(struct exclusive *out, const struct ownership_plan *others, const char *who)
{
    if (others->unasked) {
        say(out, EXCLUSIVE_UNKNOWN, "");
    } else if (others->count == 0) {
        say(out, EXCLUSIVE_YES, "No other shard or pod of the operator shows what this one shows.");
    } else {
        out->state = others->count == others->intended ? EXCLUSIVE_INTENDED : EXCLUSIVE_NO;
        (void)snprintf(out->text, sizeof out->text,
                       "Others may see some of what this shard sees: %s.", who);
    }
}

/* Who others are that see what its config shares, unless there is something to say already. What is
 * the shard's by the hash and shared by others alone is theirs on purpose, and not this one's. */
static void judge_shared(struct exclusive *out, struct shard *s,
                         const struct shard_cache_config *config, struct rules *rules)
{
    struct ownership_plan others;
    bool shares = sharing_of(config->object) != NULL;
    bool left_out = shares || (shard_cache_shared(s->controller->options.cache)->count > 0 &&
                               control_labels_ask_hash(rules));
    if (out->state != EXCLUSIVE_YES || !left_out) {
        return;
    }
    char *who = find_others(s, config, rules, true, &others);
    if (!shares) {
        judge(out, &others, who);
    } else if (who != NULL) {
        out->state = EXCLUSIVE_INTENDED;
        (void)snprintf(out->text, sizeof out->text,
                       "Others see spec." SHARING_FIELD " too, and nothing else of what this shard "
                       "sees: %s.",
                       who);
    }
    free(who);
}

void shard_look_beside(const struct shard *s, const struct shard_cache_config *config)
{
    const struct shard_cache *w = s->controller->options.cache;
    for (const struct shard_cache_config *o = NULL;
         (o = shard_cache_next_config_in(w, config->ns, o)) != NULL;) {
        if (o != config) {
            controller_look(s->controller, o->key);
        }
    }
}

/* By rules that cannot be read, or that were there before. */
static bool may_show_something(const struct shard *s, const struct rules_map *map)
{
    size_t count = 0;
    struct ownership_pod *pods = controller_own_pods(s->controller, s->key, &count);
    bool found = map != NULL && map->later;
    for (size_t i = 0; i < count && !found; i++) {
        found = pods[i].probe != NULL && pods[i].probe->generation != 0;
    }
    free(pods);
    return found;
}

void shard_look_exclusive(struct shard *s, const struct shard_cache_config *config,
                          const struct rules_map *map, struct exclusive *out)
{
    struct ownership_plan others;
    bool known = map != NULL && map->rules != NULL;
    if (map != NULL && map->given_up > 0) {
        say(out, EXCLUSIVE_GIVEN_UP,
            "There is no memory for its rules, so they are not compared with those of others.");
    } else if (!known && !may_show_something(s, map)) {
        say(out, EXCLUSIVE_NO_RULES, "The shard has no rules, and so shows nothing.");
    } else if (!known) {
        say(out, EXCLUSIVE_UNKNOWN, "");
    } else {
        char *who = find_others(s, config, map->rules, false, &others);
        judge(out, &others, who);
        free(who);
        judge_shared(out, s, config, map->rules);
    }
    bool was = s->exclusive >= EXCLUSIVE_INTENDED;
    if (out->state != EXCLUSIVE_UNKNOWN) {
        s->exclusive = out->state;
        if (was != (out->state >= EXCLUSIVE_INTENDED)) {
            shard_look_beside(s, config); /* they may share with this one, or not any more */
        }
    }
}

const char *exclusive_status(enum exclusive_state state)
{
    if (state == EXCLUSIVE_GIVEN_UP) {
        return "Unknown";
    }
    return state >= EXCLUSIVE_INTENDED ? "False" : "True";
}

const char *exclusive_reason(enum exclusive_state state)
{
    static const char *const reasons[EXCLUSIVE_STATES] = {
        [EXCLUSIVE_UNKNOWN] = "Unknown",          [EXCLUSIVE_GIVEN_UP] = "OverBudget",
        [EXCLUSIVE_NO_RULES] = "NoRules",         [EXCLUSIVE_YES] = "Exclusive",
        [EXCLUSIVE_INTENDED] = "SharedOnPurpose", [EXCLUSIVE_NO] = "Shared",
    };
    return reasons[state];
}
