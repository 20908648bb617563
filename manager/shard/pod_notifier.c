/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells pods of a new generation of rules or traffic policies by an annotation: the kubelet looks
 * at the volumes of a pod that changes, and so brings the ConfigMap at once instead of within a
 * minute.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "inject/inject_options.h"
#include "object/names.h"
#include "object/preconditions.h"
#include "ownership/generation.h"
#include "shard/controller_internal.h"
#include "json/edit.h"
#include "json/field.h"

enum { PARALLEL = 16, NUMBER_SIZE = 24 };

struct nudge {
    struct reconcile run;
    uint64_t generation; /* of the rules; 0: it is not told */
    bool tells_traffic;
    uint64_t traffic; /* of the traffic document; 0: there is none */
};

static void note_told(const struct nudge *n, const char *uid)
{
    struct controller *c = n->run.data;
    if (n->generation != 0) {
        shard_cache_pod_told(c->options.cache, n->run.key, uid, n->generation);
        prober_expect(c->prober, n->run.key, n->generation);
    }
    if (n->tells_traffic) {
        shard_cache_pod_told_traffic(c->options.cache, n->run.key, uid, n->traffic);
    }
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct nudge *n = data;
    if (object != NULL) {
        note_told(n, field_meta(object, "uid"));
        reconcile_done(&n->run, WORK_DONE, 0);
    } else if (error->code == 422) { /* another pod of that name */
        reconcile_done(&n->run, WORK_RETRY, error->retry_after);
    } else {
        reconcile_failed(
            &n->run, error,
            "cannot notify a pod of its new rules; the kubelet updates them within a minute");
    }
}

/* Refused for another pod of that name, and when it has changed: a leader of before might tell an
 * older generation. */
static cJSON *make_patch(const struct nudge *n, const struct pod *p)
{
    const struct controller *c = n->run.data;
    const char *prefix = c->options.prefix;
    struct edit ed = {.rc = 0};
    char key[NAMES_KEY_SIZE];
    char number[NUMBER_SIZE];
    cJSON *patch = cJSON_CreateObject();
    cJSON *meta = preconditions_set(&ed, patch, p->uid, p->version);
    cJSON *annotations = edit_object(&ed, meta, "annotations");
    if (n->generation != 0) {
        (void)snprintf(number, sizeof number, "%" PRIu64, n->generation);
        edit_string(&ed, annotations, names_key(prefix, POD_GENERATION, key), number);
    }
    if (n->tells_traffic) {
        (void)snprintf(number, sizeof number, "%" PRIu64, n->traffic);
        edit_string(&ed, annotations, names_key(prefix, POD_TRAFFIC, key), number);
    }
    return xptr(edit_result(&ed, patch));
}

/* What is to be told. */
static void look(const struct controller *c, const struct pod *p, struct nudge *out)
{
    struct shard *s = p == NULL ? NULL : controller_mounted_shard(c, p);
    const struct rules_map *map = s == NULL ? NULL : shard_map(s);
    if (map == NULL || !rules_map_ours(map)) {
        return;
    }
    out->generation = generation_was_told(p->generation, map->generation) ? 0 : map->generation;
    out->tells_traffic = shard_traffic_due(s, p, &out->traffic);
}

static void tell(void *state)
{
    struct nudge *n = state;
    struct controller *c = n->run.data;
    const struct pod *p = shard_cache_find_pod(c->options.cache, n->run.key);
    look(c, p, n);
    if (n->generation == 0 && !n->tells_traffic) {
        reconcile_done(&n->run, WORK_DONE, 0);
        return;
    }
    cJSON *body = make_patch(n, p);
    char *path = controller_path("/api/v1", p->ns, "pods");
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = p->name,
        .body = body,
        .field_manager = "cmesh-manager",
        .metadata_only = true,
    };
    reconcile_write(&n->run, &q, c->options.counts->writes[CONTROLLER_NUDGE], on_written);
    cJSON_Delete(body);
    free(path);
}

static const struct reconciler_handlers handlers = {.reconcile = tell};

struct reconciler *pod_notifier_new(struct controller *c)
{
    const struct reconciler_options o = {
        .name = "pods",
        .kind = "pod",
        .parallel = PARALLEL,
        .state_size = sizeof(struct nudge),
    };
    return controller_reconciler(c, &o, &handlers);
}

void pod_notifier_add(struct reconciler *pod_notifier, const struct pod *p)
{
    reconciler_look(pod_notifier, p->key, 0);
}
