/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/misspelt.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/spelling.h"
#include "json/field.h"

enum { PLURAL_SIZE = 64 };

/* ---- labels ---- */

static const char *name_part(const char *key)
{
    const char *slash = strchr(key, '/');
    return slash == NULL ? key : slash + 1;
}

static bool same_prefix(const char *a, const char *b)
{
    size_t len = (size_t)(name_part(a) - a);
    return len == (size_t)(name_part(b) - b) && strncmp(a, b, len) == 0;
}

/* The control label that is meant by the key; NULL: none, or the key is one. What lies below their
 * prefix is meant to be one in any case. */
static const char *control_label_meant(const char *key, const struct rules_labels *labels)
{
    const char *const known[] = {labels->namespace, labels->shard_hash, labels->control};
    unsigned best = SPELLING_NEAR + 1;
    const char *meant = NULL;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        unsigned distance = spelling_distance(key, known[i]);
        if (distance == 0) {
            return NULL;
        }
        if (strcmp(key, name_part(known[i])) == 0) {
            distance = 1;
        }
        if (distance < best || (meant == NULL && same_prefix(key, known[i]))) {
            best = distance;
            meant = known[i];
        }
    }
    return meant;
}

static void note_key(const char *key, const struct rules_labels *labels, const char *path,
                     struct warnings *warnings)
{
    const char *meant = control_label_meant(key, labels);
    if (meant != NULL) {
        warnings_add(warnings,
                     "%s: the manager sets no label \"%.100s\"; is \"%.200s\" meant? Selected is "
                     "only what somebody else has given this label",
                     path, key, meant);
    }
}

size_t misspelt_key_count(const cJSON *selector)
{
    return (size_t)cJSON_GetArraySize(field_get(selector, "matchLabels")) +
           (size_t)cJSON_GetArraySize(field_get(selector, "matchExpressions"));
}

void misspelt_note_keys(const cJSON *selector, const struct rules_labels *labels, const char *path,
                        struct warnings *warnings)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(selector, "matchLabels"))
    {
        note_key(item->string, labels, path, warnings);
    }
    cJSON_ArrayForEach(item, field_get(selector, "matchExpressions"))
    {
        note_key(field_text(item, "key"), labels, path, warnings);
    }
}

/* ---- resources ---- */

/* All of a group of Kubernetes' own. Those of others have a dot in their name. */
struct own_group {
    const char *name;
    const char *resources[20]; /* ends with NULL; none: not known here */
};

static const struct own_group own_groups[] = {
    {"",
     {"bindings", "componentstatuses", "configmaps", "endpoints", "events", "limitranges",
      "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
      "replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services"}},
    {"apps", {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"}},
    {"batch", {"cronjobs", "jobs"}},
    {"autoscaling", {NULL}},
    {"policy", {NULL}},
    {"extensions", {NULL}},
};

static const struct own_group *find_group(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(own_groups); i++) {
        if (strcmp(own_groups[i].name, name) == 0) {
            return &own_groups[i];
        }
    }
    return NULL;
}

static bool has(const struct own_group *g, const char *resource)
{
    for (size_t i = 0; g->resources[i] != NULL; i++) {
        if (strcmp(g->resources[i], resource) == 0) {
            return true;
        }
    }
    return false;
}

/* What may be of a group that is not known here, or that has it. */
static bool may_be_in(const char *group, const char *resource)
{
    const struct own_group *g = find_group(group);
    return g == NULL ? strchr(group, '.') != NULL || strcmp(group, "*") == 0
                     : g->resources[0] == NULL || has(g, resource);
}

static bool may_be(const cJSON *groups, const char *resource)
{
    const cJSON *group;
    if (strcmp(resource, "*") == 0) {
        return true;
    }
    cJSON_ArrayForEach(group, groups)
    {
        if (may_be_in(group->valuestring, resource)) {
            return true;
        }
    }
    return false;
}

/* The group that has the plural, or that of the singular; NULL: none. */
static const struct own_group *group_of(const char *resource, char plural[PLURAL_SIZE])
{
    for (size_t more = 0; more < 2; more++) {
        (void)snprintf(plural, PLURAL_SIZE, "%.60s%s", resource, more == 0 ? "" : "s");
        for (size_t i = 0; i < ARRAY_LEN(own_groups); i++) {
            if (has(&own_groups[i], plural)) {
                return &own_groups[i];
            }
        }
    }
    return NULL;
}

static void note_resource(const char *path, unsigned index, const char *resource,
                          struct warnings *warnings)
{
    char plural[PLURAL_SIZE];
    const struct own_group *group = group_of(resource, plural);
    if (group == NULL) {
        warnings_add(warnings,
                     "%s.resources[%u]: Kubernetes has no \"%.63s\" in these groups: this limits "
                     "nothing, and without other limits the shard sees everything",
                     path, index, resource);
    } else {
        warnings_add(warnings,
                     "%s.resources[%u]: Kubernetes has no \"%.63s\" in these groups: this limits "
                     "nothing, and without other limits the shard sees everything; is \"%s\" of "
                     "group \"%s\" meant?",
                     path, index, resource, plural, group->name);
    }
}

static void note_group(const char *path, unsigned index, const char *group,
                       struct warnings *warnings)
{
    const char *meant = strncmp(group, "apps", 4) == 0    ? "apps"
                        : strncmp(group, "batch", 5) == 0 ? "batch"
                                                          : "";
    warnings_add(
        warnings,
        "%s.apiGroups[%u]: Kubernetes has no group \"%.63s\", and all others have a dot in "
        "their name: this limits nothing; is \"%s\" meant?",
        path, index, group, meant);
}

void misspelt_note_resources(const cJSON *entry, const char *path, struct warnings *warnings)
{
    const cJSON *groups = field_get(entry, "apiGroups");
    bool any = false;
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, groups)
    {
        const char *group = item->valuestring;
        bool known =
            find_group(group) != NULL || strchr(group, '.') != NULL || strcmp(group, "*") == 0;
        any = any || known;
        if (!known) {
            note_group(path, i, group, warnings);
        }
        i++;
    }
    i = 0;
    cJSON_ArrayForEach(item, field_get(entry, "resources"))
    {
        if (any && !may_be(groups, item->valuestring)) {
            note_resource(path, i, item->valuestring, warnings);
        }
        i++;
    }
}
