/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/shard_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/xalloc.h"
#include "compile/compile.h"
#include "kube/client/informer.h"
#include "kube/client/lease_object.h"
#include "kube/name.h"
#include "json/field.h"

enum { DEFAULT_S = 15, DURATION_MAX_S = SHARD_LOCK_MAX_MS / 1000 };

struct lease {
    struct informer_item item;
    cJSON *object;    /* as it was seen last */
    uint64_t seen_at; /* when it came, or was renewed */
    bool renewed;     /* that was seen, ever */
};

struct shard_lock {
    const struct net_clock *clock;
    struct informer *informer; /* NULL: no Lease can have the name */
    bool reading;              /* it is being read anew */
    uint64_t gone_seen_at;     /* of one that was deleted: as of struct lease */
    uint64_t gone_ms;          /* and its duration; 0: none was */
};

/* Without a namespace of its own it is beside the pods. */
bool lock_place_same(const struct lock_place *a, const struct lock_place *b)
{
    return strcmp(a->ns, b->ns) == 0 && strcmp(a->name, b->name) == 0;
}

bool shard_lock_find(const struct shard_cache_config *config, struct lock_place *out)
{
    const cJSON *spec = field_get(config->object, "spec");
    const cJSON *controller = field_get(spec, "controller");
    const char *name = field_text(controller, COMPILE_LOCK_NAME);
    const char *elsewhere = field_text(controller, COMPILE_LOCK_NAMESPACE);
    const char *ns = elsewhere[0] == '\0' ? config->ns : elsewhere;
    if (name[0] == '\0' || strlen(ns) >= sizeof out->ns) {
        return false;
    }
    (void)snprintf(out->ns, sizeof out->ns, "%s", ns);
    if (strcmp(field_text(spec, COMPILE_LEAVING), config->name) == 0) { /* it has the operator's */
        return (size_t)snprintf(out->name, sizeof out->name, "%s", name) < sizeof out->name;
    }
    return lock_name_of_shard(name, config->name, out->name);
}

static struct lease *lease_of(struct informer_item *item)
{
    return item == NULL ? NULL : LIST_ITEM(item, struct lease, item);
}

/* NULL: there is none. */
static struct lease *lease_of_lock(const struct shard_lock *s)
{
    return s->informer == NULL ? NULL : lease_of(informer_next(s->informer, NULL));
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    const struct shard_lock *s = data;
    struct lease *l = lease_of(*item);
    if (l != NULL && lease_object_same(l->object, object)) {
        return false;
    }
    bool renewed = l != NULL;
    l = renewed ? l : informer_item_new(sizeof *l, key);
    cJSON_Delete(l->object);
    l->object = cJSON_Duplicate(object, true);
    l->renewed = renewed;
    l->seen_at = net_clock_now(s->clock);
    *item = &l->item;
    return false;
}

/* One that lasts for longer than anybody waits counts as one of an hour. */
static uint64_t duration_ms(const struct lease *l)
{
    int64_t seconds = lease_object_seconds(l->object);
    seconds = seconds == 0 ? DEFAULT_S : seconds < DURATION_MAX_S ? seconds : DURATION_MAX_S;
    return 1000 * (uint64_t)seconds;
}

static void drop(void *data, struct informer_item *item)
{
    struct shard_lock *s = data;
    struct lease *l = lease_of(item);
    s->gone_seen_at = l->seen_at;
    s->gone_ms = duration_ms(l);
    cJSON_Delete(l->object);
    free(l);
}

static void on_synced(void *data, bool first)
{
    struct shard_lock *s = data;
    (void)first;
    s->reading = false;
}

static const struct informer_kind kind = {.path = "/apis/coordination.k8s.io/v1/leases",
                                          .keep = keep,
                                          .drop = drop,
                                          .on_synced = on_synced};

struct shard_lock *shard_lock_new(struct net_loop *l, const struct shard_lock_options *o)
{
    const struct informer_options io = {.client = o->client,
                                        .namespace = o->place.ns,
                                        .name = o->place.name,
                                        .effect = "it is not known who leads a shard",
                                        .ops = o->ops};
    struct shard_lock *s = xcalloc(1, sizeof *s);
    s->clock = o->clock;
    if (name_check_subdomain(slice_str(o->place.name)) == NULL) {
        s->informer = informer_new(l, &kind, &io, s);
    }
    return s;
}

enum lock_state shard_lock_state(const struct shard_lock *s)
{
    const struct lease *l = lease_of_lock(s);
    if (s->informer == NULL || !informer_synced(s->informer)) {
        return LOCK_STATE_UNKNOWN;
    }
    if (l == NULL) {
        return LOCK_STATE_NONE;
    }
    bool held = lease_object_holder(l->object)[0] != '\0';
    if (!held || net_clock_now(s->clock) - l->seen_at > duration_ms(l)) {
        return LOCK_STATE_FREE;
    }
    return l->renewed ? LOCK_STATE_HELD : LOCK_STATE_UNKNOWN;
}

uint64_t shard_lock_seen_at(const struct shard_lock *s)
{
    const struct lease *l = lease_of_lock(s);
    return l == NULL ? 0 : l->seen_at;
}

const char *shard_lock_holder(const struct shard_lock *s)
{
    const struct lease *l = lease_of_lock(s);
    return l == NULL ? "" : lease_object_holder(l->object);
}

void shard_lock_read(struct shard_lock *s)
{
    if (s->informer != NULL) {
        s->reading = true;
        informer_list_again(s->informer, 0);
    }
}

bool shard_lock_is_read(const struct shard_lock *s)
{
    return s->informer == NULL || (informer_synced(s->informer) && !s->reading);
}

uint64_t shard_lock_ends_at(const struct shard_lock *s, uint64_t since)
{
    const struct lease *l = lease_of_lock(s);
    uint64_t seen_at = l == NULL ? s->gone_seen_at : l->seen_at;
    return (seen_at < since ? seen_at : since) + (l == NULL ? s->gone_ms : duration_ms(l));
}

const char *shard_lock_error(const struct shard_lock *s)
{
    return s->informer == NULL ? NULL : reflector_error(informer_reflector(s->informer));
}

void shard_lock_free(struct shard_lock *s)
{
    if (s != NULL) {
        informer_free(s->informer);
        free(s);
    }
}
