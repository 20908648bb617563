/* SPDX-License-Identifier: Apache-2.0 */
#include "label/labels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "kube/name.h"
#include "object/json_patch.h"
#include "rules/sharding.h"
#include "json/field.h"

int labels_keys_init(struct labels_keys *k, const struct compile_labels *names, struct err *e)
{
    const char *prefix = names->prefix != NULL ? names->prefix : LABELS_PREFIX;
    const struct {
        const char *flag;
        const char *name;
    } parts[LABELS_COUNT] = {
        [LABELS_NAMESPACE] = {"--label-namespace", names->namespace},
        [LABELS_SHARD_HASH] = {"--label-shard-hash", names->shard_hash},
        [LABELS_CONTROL] = {"--label-control", names->control},
    };
    const char *wrong = name_check_subdomain(slice_str(prefix));
    if (wrong != NULL) {
        return err_set(e, -EINVAL, "--label-prefix: Invalid value: \"%.100s\": %s", prefix, wrong);
    }
    k->policy = LABELS_REFUSE;
    k->shared = NULL;
    (void)names_key(prefix, LABELS_IGNORE, k->ignore);
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        (void)names_key(prefix, parts[i].name, k->key[i]);
        const char *why = name_check_qualified(slice_str(k->key[i]));
        if (why != NULL) {
            return err_set(e, -EINVAL, "%s: Invalid value: \"%.100s\": %s", parts[i].flag,
                           k->key[i], why);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(k->key[i], k->key[j]) == 0) {
                return err_set(e, -EINVAL, "%s: Duplicate value: \"%.100s\": %s has it too",
                               parts[i].flag, k->key[i], parts[j].flag);
            }
        }
    }
    return 0;
}

static const cJSON *labels_of(const cJSON *object)
{
    return field_get(field_get(object, "metadata"), "labels");
}

/* NULL: there is no such label. */
static const char *value_of(const cJSON *labels, const char *key)
{
    return field_get(labels, key) == NULL ? NULL : field_text(labels, key);
}

static bool is_ignored(const struct labels_keys *k, const cJSON *object)
{
    return strcmp(field_text(labels_of(object), k->ignore), "true") == 0;
}

void labels_plan_init(struct labels_plan *p, const struct labels_keys *k, const cJSON *object,
                      const char *ns)
{
    const cJSON *labels = labels_of(object);
    const char *control = value_of(labels, k->key[LABELS_CONTROL]);
    bool ours =
        k->policy == LABELS_TAKE || (control != NULL && strcmp(control, LABELS_CONTROLLED) == 0);
    *p = (struct labels_plan){.hash = ""};
    (void)snprintf(p->hash, sizeof p->hash, "%u", sharding_hash(ns));
    p->value[LABELS_NAMESPACE] = ns;
    p->value[LABELS_SHARD_HASH] = sharing_set_has(k->shared, ns) ? ns : p->hash;
    p->value[LABELS_CONTROL] = LABELS_CONTROLLED;
    p->state = is_ignored(k, object) ? LABELS_IGNORED : LABELS_RIGHT;
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        const char *found = value_of(labels, k->key[i]);
        p->set[i] = found == NULL || strcmp(found, p->value[i]) != 0;
        if (p->state == LABELS_IGNORED) {
            continue;
        }
        if (p->set[i] && found != NULL && !ours) {
            p->state = LABELS_FOREIGN;
            p->foreign = (enum labels_label)i;
            p->found = found;
        } else if (p->set[i] && p->state == LABELS_RIGHT) {
            p->state = LABELS_MISSING;
        }
    }
}

/* Those that are not as they should be. */
static void set_labels(struct edit *ed, cJSON *labels, const struct labels_plan *p,
                       const struct labels_keys *k)
{
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        if (p->set[i]) {
            edit_string(ed, labels, k->key[i], p->value[i]);
        }
    }
}

static void add_whole(struct edit *ed, const struct labels_plan *p, const struct labels_keys *k,
                      bool has_metadata, cJSON *patch)
{
    cJSON *value = cJSON_CreateObject();
    set_labels(ed, has_metadata ? value : edit_object(ed, value, "labels"), p, k);
    json_patch_add(ed, patch, "add", has_metadata ? "/metadata/labels" : "/metadata", value);
}

/* "/metadata/labels/ctrlmesh.kusionstack.io~1control": of what a key may hold only the slash, which
 * every key of ours has, needs an escape (RFC 6901 section 3). */
static void label_pointer(const char *key, char *out, size_t size)
{
    size_t prefix = strcspn(key, "/");
    (void)snprintf(out, size, "/metadata/labels/%.*s~1%s", (int)prefix, key, key + prefix + 1);
}

static void add_each(struct edit *ed, const struct labels_plan *p, const struct labels_keys *k,
                     cJSON *patch)
{
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        char path[NAMES_KEY_SIZE + 32];
        label_pointer(k->key[i], path, sizeof path);
        if (p->set[i]) {
            json_patch_add(ed, patch, "add", path, cJSON_CreateString(p->value[i]));
        }
    }
}

cJSON *labels_json_patch(const struct labels_plan *p, const struct labels_keys *k,
                         const cJSON *object)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateArray();
    if (cJSON_IsObject(labels_of(object))) {
        add_each(&ed, p, k, patch);
    } else {
        add_whole(&ed, p, k, cJSON_IsObject(field_get(object, "metadata")), patch);
    }
    return xptr(edit_result(&ed, patch));
}

cJSON *labels_merge_patch(const struct labels_plan *p, const struct labels_keys *k)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateObject();
    set_labels(&ed, edit_object(&ed, edit_object(&ed, patch, "metadata"), "labels"), p, k);
    return xptr(edit_result(&ed, patch));
}

bool labels_are_ours(const struct labels_keys *k, const cJSON *object)
{
    const char *control = value_of(labels_of(object), k->key[LABELS_CONTROL]);
    return control != NULL && strcmp(control, LABELS_CONTROLLED) == 0;
}

cJSON *labels_removal_patch(const struct labels_keys *k)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateObject();
    cJSON *labels = edit_object(&ed, edit_object(&ed, patch, "metadata"), "labels");
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        edit_set(&ed, labels, k->key[i], cJSON_CreateNull());
    }
    return xptr(edit_result(&ed, patch));
}

/* The namespace that the object of the request belongs to; "" when there is none, or when it has no
 * name yet: the server makes one up later. */
static const char *namespace_of(const struct admission_request *r)
{
    if (strcmp(r->resource.resource, "namespaces") != 0 || r->resource.group[0] != '\0') {
        return r->namespace;
    }
    const char *name = cJSON_GetStringValue(field_get(field_get(r->object, "metadata"), "name"));
    return name != NULL ? name : r->name;
}

/* Whether the object had that value before. */
static bool was_so(const struct labels_keys *k, const struct admission_request *r, size_t i,
                   const char *found)
{
    const char *before = value_of(labels_of(r->old_object), k->key[i]);
    return before != NULL && strcmp(before, found) == 0;
}

/* Whether the object had a foreign value for the label before, and it is the one of the plan. */
static bool was_foreign(const struct labels_keys *k, const struct admission_request *r, size_t i,
                        const char *found)
{
    return was_so(k, r, i, found) && !labels_are_ours(k, r->old_object);
}

/* What had foreign values before goes on as it is: else its owner could not even write its status
 * or take off a finalizer. */
static int check_foreign(const struct labels_plan *p, const struct labels_keys *k,
                         const struct admission_request *r, struct err *e)
{
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        const char *found = value_of(labels_of(r->object), k->key[i]);
        if (p->set[i] && found != NULL && !was_foreign(k, r, i, found)) {
            return err_set(e, -EINVAL,
                           "metadata.labels[%s]: Invalid value: \"%.63s\": must be \"%s\", as the "
                           "manager sets it: leave this label out, or add %s: \"" LABELS_CONTROLLED
                           "\" to have it corrected",
                           k->key[i], found, p->value[i], k->key[LABELS_CONTROL]);
        }
    }
    return 0;
}

/* Nothing is corrected there, so nothing wrong may be set. */
static int check_ignored(const struct labels_plan *p, const struct labels_keys *k,
                         const struct admission_request *r, struct err *e)
{
    for (size_t i = 0; i < LABELS_COUNT && k->policy == LABELS_REFUSE; i++) {
        const char *found = value_of(labels_of(r->object), k->key[i]);
        if (p->set[i] && found != NULL && !was_so(k, r, i, found)) {
            return err_set(e, -EINVAL,
                           "metadata.labels[%s]: Invalid value: \"%.63s\": must be \"%s\", and is "
                           "not corrected because of %s: leave this label out",
                           k->key[i], found, p->value[i], k->ignore);
        }
    }
    return 0;
}

/* Said once, not of each update. */
static void note_ignored(const struct labels_plan *p, const struct labels_keys *k,
                         const struct admission_request *r, struct warnings *warnings)
{
    bool all = !p->set[LABELS_NAMESPACE] && !p->set[LABELS_SHARD_HASH] && !p->set[LABELS_CONTROL];
    if (!all && !is_ignored(k, r->old_object)) {
        warnings_add(warnings,
                     "metadata.labels[%s]: so this gets no control labels: no shard whose limits "
                     "ask for them sees it",
                     k->ignore);
    }
}

static void note_foreign(const struct labels_plan *p, const struct labels_keys *k,
                         struct warnings *warnings)
{
    warnings_add(warnings,
                 "metadata.labels[%s]: \"%.63s\" is not \"%s\", and is left as it is without %s: "
                 "\"" LABELS_CONTROLLED "\": the shard that this belongs to may not see it",
                 k->key[p->foreign], p->found, p->value[p->foreign], k->key[LABELS_CONTROL]);
}

int labels_admit(const struct labels_keys *k, const struct admission_request *r, cJSON **patch,
                 struct warnings *warnings, struct err *e)
{
    struct labels_plan p;
    const char *ns = namespace_of(r);
    *patch = NULL;
    if ((r->operation != ADMISSION_CREATE && r->operation != ADMISSION_UPDATE) ||
        r->object == NULL || r->resource.subresource[0] != '\0' || ns[0] == '\0') {
        return 0;
    }
    labels_plan_init(&p, k, r->object, ns);
    if (p.state == LABELS_IGNORED) {
        note_ignored(&p, k, r, warnings);
        return check_ignored(&p, k, r, e);
    }
    if (p.set[LABELS_SHARD_HASH] && k->shared != NULL && k->shared->unknown) {
        return err_set(e, -EAGAIN,
                       "not ready to decide: it is not known yet whether namespace "
                       "\"%.63s\" is shared",
                       ns);
    }
    if (p.state == LABELS_FOREIGN) {
        if (k->policy == LABELS_REFUSE && check_foreign(&p, k, r, e) != 0) {
            return e->code;
        }
        note_foreign(&p, k, warnings);
    }
    if (p.state == LABELS_MISSING) {
        *patch = labels_json_patch(&p, k, r->object);
    }
    return 0;
}
