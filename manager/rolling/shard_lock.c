/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/shard_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kube/client/lease_object.h"
#include "json/field.h"

enum { PATH_SIZE = 160, DEFAULT_S = 15, DURATION_MAX_S = 3600 };

struct shard_lock {
    const struct net_clock *clock;
    struct reflector *reflector;
    cJSON *lease;     /* as it was seen last; NULL: there is none */
    uint64_t seen_at; /* when it came, or was renewed */
    bool renewed;     /* that was seen, ever */
    bool listed;      /* in the list under way */
    bool synced;
    bool lost; /* there was no memory for it */
    char name[];
};

static void forget(struct shard_lock *s)
{
    cJSON_Delete(s->lease);
    s->lease = NULL;
    s->renewed = false;
    s->lost = false;
}

static void observe(struct shard_lock *s, const cJSON *object)
{
    bool first = s->lease == NULL;
    if (!first && lease_object_same(s->lease, object)) {
        return;
    }
    cJSON *copy = cJSON_Duplicate(object, true);
    bool renewed = !first;
    forget(s);
    s->lease = copy;
    s->lost = copy == NULL;
    s->renewed = renewed && copy != NULL;
    s->seen_at = net_clock_now(s->clock);
}

static void on_list(void *data)
{
    ((struct shard_lock *)data)->listed = false;
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct shard_lock *s = data;
    if (change == REFLECTOR_DELETED) {
        forget(s);
        return;
    }
    s->listed = true;
    observe(s, object);
}

static void on_synced(void *data)
{
    struct shard_lock *s = data;
    if (!s->listed) {
        forget(s);
    }
    s->synced = true;
}

static void on_state(void *data, const char *error, enum log_level level)
{
    const struct shard_lock *s = data;
    if (error != NULL) {
        log_at(level, "cannot watch the Lease of a shard that is rolled", log_str("lease", s->name),
               log_str("error", error));
    }
}

static const struct reflector_handlers handlers = {
    .on_list = on_list, .on_object = on_object, .on_synced = on_synced, .on_state = on_state};

struct shard_lock *shard_lock_new(struct net_loop *l, const struct shard_lock_options *o,
                                  struct err *e)
{
    char path[PATH_SIZE];
    size_t size = strlen(o->name) + 1;
    struct shard_lock *s = calloc(1, sizeof *s + size);
    if (s == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    memcpy(s->name, o->name, size);
    s->clock = o->clock;
    (void)snprintf(path, sizeof path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases", o->ns);
    const struct reflector_options ro = {
        .client = o->client, .path = path, .name = s->name, .ops = o->ops};
    s->reflector = reflector_new(l, &ro, &handlers, s, e);
    if (s->reflector == NULL) {
        shard_lock_free(s);
        return NULL;
    }
    return s;
}

static uint64_t duration_ms(const struct shard_lock *s)
{
    int64_t seconds = lease_object_seconds(s->lease);
    bool good = seconds > 0 && seconds <= DURATION_MAX_S;
    return 1000 * (uint64_t)(good ? seconds : DEFAULT_S);
}

enum roll_lock shard_lock_state(const struct shard_lock *s)
{
    if (!s->synced || s->lost) {
        return ROLL_LOCK_UNKNOWN;
    }
    if (s->lease == NULL) {
        return ROLL_LOCK_NONE;
    }
    bool held = lease_object_holder(s->lease)[0] != '\0';
    if (!held || net_clock_now(s->clock) - s->seen_at > duration_ms(s)) {
        return ROLL_LOCK_FREE;
    }
    return s->renewed ? ROLL_LOCK_HELD : ROLL_LOCK_UNKNOWN;
}

uint64_t shard_lock_seen_at(const struct shard_lock *s)
{
    return s->seen_at;
}

const char *shard_lock_holder(const struct shard_lock *s)
{
    return s->lease == NULL ? "" : lease_object_holder(s->lease);
}

void shard_lock_free(struct shard_lock *s)
{
    if (s == NULL) {
        return;
    }
    reflector_free(s->reflector);
    cJSON_Delete(s->lease);
    free(s);
}
