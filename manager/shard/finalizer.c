/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes KusionStack's finalizer off ShardingConfigs that were its controller mesh's before: with
 * that one removed nobody else would, and the objects, and so their namespaces, could never be
 * deleted.
 *
 * It is taken once; if somebody puts it back, that mesh still runs, and has the say until the
 * object is being deleted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "object/preconditions.h"
#include "shard/controller_internal.h"
#include "json/edit.h"
#include "json/field.h"

#define FINALIZER "finalizer.ctrlmesh.kusionstack.io/protected"

static const cJSON *finalizers_of(const struct shard_cache_config *config)
{
    return field_get(field_get(config->object, "metadata"), "finalizers");
}

static bool is_due(const struct shard *s, const struct shard_cache_config *config)
{
    bool deleted = field_meta(config->object, "deletionTimestamp")[0] != '\0';
    bool taken = s->unbound != NULL && strcmp(s->unbound, config->uid) == 0;
    return field_has(finalizers_of(config), FINALIZER) && (deleted || !taken);
}

static void on_taken(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    const struct shard_cache_config *config = shard_config_or_root(s);
    if (object != NULL) {
        log_info("took off another controller mesh's finalizer", log_str("shard", s->key),
                 log_str("finalizer", FINALIZER));
        free(s->unbound);
        s->unbound = config == NULL ? NULL : xstrdup(config->uid);
        shard_done(s, WORK_DONE, 0); /* what was written comes by the watch, and again here */
    } else {
        reconcile_failed(&s->run, error, "cannot take off another controller mesh's finalizer");
    }
}

bool shard_unbind(struct shard *s, const struct shard_cache_config *config)
{
    if (!is_due(s, config)) {
        return false;
    }
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateObject();
    preconditions_unbind(&ed, patch, config->uid, config->version, finalizers_of(config),
                         FINALIZER);
    cJSON *body = xptr(edit_result(&ed, patch));
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .name = config->name,
        .body = body,
        .field_manager = "cmesh-manager",
        .metadata_only = true,
    };
    shard_request(s, SHARD_CACHE_GROUP_PATH, SHARD_CACHE_RESOURCE, q, NULL, on_taken);
    cJSON_Delete(body);
    return true;
}
