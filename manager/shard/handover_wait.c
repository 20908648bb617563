/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what a shard comes to see must wait until others have given it up. All is looked at anew
 * each time, so that the next leader decides likewise; only since when it waits is remembered here.
 *
 * strict:  it waits until that is proven, or a person lets go of a pod
 * bounded: it is given after a while all the same
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "shard/controller_internal.h"
#include "shard/holders.h"

enum { MS = 1000 };

void shard_settle(struct shard *s, const struct shard_cache_config *config,
                  const struct rules_map *map)
{
    struct controller *c = s->controller;
    enum handover_hold most = HANDOVER_NOTHING;
    size_t count = 0;
    const struct pod **pods =
        s->past.count > 1 ? controller_own_pods(c, config->key, &count) : NULL;
    if (pods == NULL) {
        return; /* without memory it is remembered for longer */
    }
    for (size_t i = 0; i < count; i++) {
        enum handover_hold hold = handover_hold_of(pods[i], prober_result(c->prober, pods[i]->key),
                                                   s->key, map, &s->past, c->options.handover);
        most = hold > most ? hold : most;
    }
    free(pods);
    if (map->rules != NULL && most <= HANDOVER_PUBLISHED) {
        handover_settled(&s->past, map->rules);
    }
}

void shard_wait_end(struct shard *s)
{
    free(s->holders);
    free(s->waits_text);
    s->holders = NULL;
    s->waits_text = NULL;
    s->late = false;
    list_remove(&s->waiting);
}

/* Takes `text`. */
static void wait_for(struct shard *s, char *text, const char *checksum)
{
    struct controller *c = s->controller;
    bool begun = s->holders != NULL && strcmp(s->waits_for, checksum) == 0;
    free(s->holders);
    s->holders = text;
    if (!begun) {
        log_info("waiting for handover", log_str("shard", s->key), log_str("holders", text));
        s->waits_since = controller_now(c);
        s->late = false;
        (void)snprintf(s->waits_for, sizeof s->waits_for, "%s", checksum);
        c->options.counts->waits++;
    }
    if (!list_linked(&s->waiting)) {
        list_append(&c->waiting, &s->waiting);
    }
}

/* It has waited for so long as it should take. An Event tells once. */
static void tell_blocked(struct shard *s, const struct shard_cache_config *config)
{
    struct controller *c = s->controller;
    struct event_object about = event_object_of(config->object);
    c->options.counts->blocked++;
    log_warn("handover is blocked", log_str("shard", s->key), log_str("holders", s->holders));
    event_record(c->options.events, &about, EVENT_WARNING, "HandoverBlocked",
                 "Waiting for more than %" PRIu64 " s for others to give up what the spec adds: %s",
                 s->waits_ms / MS, s->holders);
}

/* 1, or 0 when it waits no longer. */
static int go_on(struct shard *s, const struct shard_cache_config *config, bool unsettled)
{
    struct controller *c = s->controller;
    s->waits_ms = c->options.handover_ms;
    if (unsettled && s->waits_ms < HANDOVER_UNSETTLED_MS) {
        s->waits_ms = HANDOVER_UNSETTLED_MS;
    }
    uint64_t waited = controller_now(c) - s->waits_since;
    if (waited < s->waits_ms) {
        controller_look_after(s, s->waits_ms - waited);
        return 1;
    }
    bool strict = c->options.handover == HANDOVER_STRICT;
    if (strict && !s->late) {
        tell_blocked(s, config);
    }
    s->late = true;
    return strict;
}

/* A pod that nobody reaches may be certain to show nothing then. */
static void look_when_certain(struct shard *s, uint64_t ms)
{
    if (ms != UINT64_MAX) {
        controller_look_after(s, ms);
    }
}

int shard_wait(struct shard *s, const struct shard_cache_config *config, const struct rules *from,
               struct rules *to)
{
    struct holders h;
    if (s->controller->options.handover == HANDOVER_OFF) {
        shard_wait_end(s);
        return 0;
    }
    int rc = holders_find(s, config, from, to, &h);
    if (rc != 0) {
        return rc;
    }
    char *text = h.count == 0 ? NULL : buf_take_str(&h.text);
    if (text != NULL) {
        wait_for(s, text, rules_checksum(to));
        rc = go_on(s, config, h.unsettled);
        look_when_certain(s, h.again_ms);
    } else if (h.count == 0) {
        shard_wait_end(s);
    } else {
        rc = -ENOMEM;
    }
    holders_deinit(&h);
    return rc;
}

void shard_tell_late(struct shard *s, const struct shard_cache_config *config, uint64_t generation)
{
    struct controller *c = s->controller;
    struct event_object about = event_object_of(config->object);
    c->options.counts->late++;
    log_warn("handover timed out: others may still show what this shard has gained",
             log_str("shard", s->key), log_str("holders", s->holders));
    event_record(c->options.events, &about, EVENT_WARNING, "HandoverTimedOut",
                 "Generation %" PRIu64 " was published after %" PRIu64
                 " s, although others have not confirmed that they do not show some of what is "
                 "new in it: two shards may work on the same objects. %s",
                 generation, s->waits_ms / MS, s->holders);
}

void controller_wake(struct controller *c, const char *key)
{
    LIST_FOR_EACH(n, &c->waiting)
    {
        struct shard *s = LIST_ITEM(n, struct shard, waiting);
        if (shard_is_beside(s, key)) {
            int rc = work_queue_add(c->queue, s->key);
            (void)rc; /* it is looked at again when it has waited long enough */
        }
    }
}
