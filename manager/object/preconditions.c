/* SPDX-License-Identifier: Apache-2.0 */
#include "object/preconditions.h"

#include <string.h>

#include "base/xalloc.h"

cJSON *preconditions_set(struct edit *ed, cJSON *body, const char *uid, const char *version)
{
    cJSON *meta = edit_object(ed, body, "metadata");
    edit_string(ed, meta, "uid", uid);
    edit_string(ed, meta, "resourceVersion", version);
    return meta;
}

void preconditions_unbind(struct edit *ed, cJSON *patch, const char *uid, const char *version,
                          const cJSON *finalizers, const char *finalizer)
{
    cJSON *list = edit_array(ed, preconditions_set(ed, patch, uid, version), "finalizers");
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, finalizers)
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, finalizer) != 0) {
            edit_append_string(ed, list, item->valuestring);
        }
    }
}

cJSON *preconditions_delete(const char *uid, const char *version)
{
    struct edit ed = {.rc = 0};
    cJSON *options = cJSON_CreateObject();
    edit_string(&ed, options, "apiVersion", "v1");
    edit_string(&ed, options, "kind", "DeleteOptions");
    cJSON *conditions = edit_object(&ed, options, "preconditions");
    edit_string(&ed, conditions, "uid", uid);
    edit_string(&ed, conditions, "resourceVersion", version);
    return xptr(edit_result(&ed, options));
}

/* Depth is that of a JSON document that was read, which is bounded. */
static void remove_missing(struct edit *ed, cJSON *to, const cJSON *old)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, old)
    {
        cJSON *new = cJSON_GetObjectItemCaseSensitive(to, item->string);
        if (new == NULL) {
            edit_set(ed, to, item->string, cJSON_CreateNull());
        } else if (cJSON_IsObject(new) && cJSON_IsObject(item)) {
            remove_missing(ed, new, item);
        }
    }
}

cJSON *preconditions_status(const char *uid, const char *version, const cJSON *old,
                            const cJSON *status)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateObject();
    cJSON *copy = cJSON_Duplicate(status, true);
    (void)preconditions_set(&ed, patch, uid, version);
    edit_set(&ed, patch, "status", copy);
    if (cJSON_IsObject(old)) {
        remove_missing(&ed, copy, old);
    }
    return xptr(edit_result(&ed, patch));
}
