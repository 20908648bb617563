/* SPDX-License-Identifier: Apache-2.0 */
#include "readiness/grants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "json/field.h"

#define EVERYTHING "*"

static const struct {
    const char *name;
    unsigned verb;
} verbs[] = {
    {"get", DISCOVERY_GET},       {"list", DISCOVERY_LIST},
    {"watch", DISCOVERY_WATCH},   {"create", DISCOVERY_CREATE},
    {"update", DISCOVERY_UPDATE}, {"patch", DISCOVERY_PATCH},
    {"delete", DISCOVERY_DELETE}, {"deletecollection", DISCOVERY_DELETECOLLECTION},
};

static bool is_group_of_account(const char *group, const char *ns)
{
    static const char accounts[] = "system:serviceaccounts";
    const size_t len = sizeof accounts - 1;
    return strncmp(group, accounts, len) == 0 &&
           (group[len] == '\0' || (group[len] == ':' && strcmp(group + len + 1, ns) == 0));
}

static bool is_bound(const cJSON *binding, const char *ns, const char *account)
{
    const cJSON *subject;
    cJSON_ArrayForEach(subject, field_get(binding, "subjects"))
    {
        const char *kind = field_text(subject, "kind");
        const char *name = field_text(subject, "name");
        const char *where = field_text(subject, "namespace");
        if (strcmp(kind, "ServiceAccount") == 0 && strcmp(name, account) == 0 &&
            strcmp(where, ns) == 0) {
            return true;
        }
        if (strcmp(kind, "Group") == 0 && is_group_of_account(name, ns)) {
            return true;
        }
    }
    return false;
}

/* The rules of a role; `ns` "": a ClusterRole. NULL: there is none of that name. */
static const cJSON *rules_of(const cJSON *roles, const char *ns, const char *name)
{
    const cJSON *role;
    cJSON_ArrayForEach(role, field_get(roles, "items"))
    {
        if (strcmp(field_meta(role, "name"), name) == 0 &&
            strcmp(field_meta(role, "namespace"), ns) == 0) {
            return field_get(role, "rules");
        }
    }
    return NULL;
}

static void add(struct grants *g, const struct grants_source *from, const cJSON *binding,
                const char *ns)
{
    const cJSON *ref = field_get(binding, "roleRef");
    bool cluster = strcmp(field_text(ref, "kind"), "ClusterRole") == 0;
    if (!cluster && ns == NULL) {
        return; /* a Role holds in its namespace alone */
    }
    const cJSON *rules = rules_of(cluster ? from->cluster_roles : from->roles, cluster ? "" : ns,
                                  field_text(ref, "name"));
    if (rules != NULL) {
        g->items = xrealloc(g->items, (g->count + 1) * sizeof *g->items);
        g->items[g->count++] = (struct grant){rules, ns};
    }
}

void grants_find(const struct grants_source *from, const char *ns, const char *account,
                 struct grants *out)
{
    const cJSON *binding;
    *out = (struct grants){.items = NULL};
    cJSON_ArrayForEach(binding, field_get(from->cluster_role_bindings, "items"))
    {
        if (is_bound(binding, ns, account)) {
            add(out, from, binding, NULL);
        }
    }
    cJSON_ArrayForEach(binding, field_get(from->role_bindings, "items"))
    {
        if (is_bound(binding, ns, account)) {
            add(out, from, binding, field_meta(binding, "namespace"));
        }
    }
}

void grants_deinit(struct grants *g)
{
    free(g->items);
    *g = (struct grants){.items = NULL};
}

unsigned grants_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return verbs[i].verb;
        }
    }
    return 0;
}

static unsigned verbs_of(const cJSON *rule)
{
    const cJSON *list = field_get(rule, "verbs");
    bool all = field_has(list, EVERYTHING);
    unsigned found = 0;
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        found |= all || field_has(list, verbs[i].name) ? verbs[i].verb : 0;
    }
    return found;
}

static bool is_open(const cJSON *rule)
{
    return field_has(field_get(rule, "apiGroups"), EVERYTHING) &&
           field_has(field_get(rule, "resources"), EVERYTHING);
}

/* Whether "PLURAL/PART" is a part of the resource by which an object is written. */
static bool is_written_part(const char *name, const struct discovery_resource *r)
{
    static const char *const parts[] = {EVERYTHING, "status", "scale", "approval", "finalize"};
    const char *slash = strchr(name, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - name);
    bool of_it = (len == 1 && *name == '*') ||
                 (len > 0 && strncmp(name, r->plural, len) == 0 && r->plural[len] == '\0');
    for (size_t i = 0; of_it && i < ARRAY_LEN(parts); i++) {
        if (strcmp(slash + 1, parts[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What the rule allows with the resource; of its parts, writes alone. */
static unsigned verbs_for(const cJSON *rule, const struct discovery_resource *r)
{
    const unsigned reads = DISCOVERY_GET | DISCOVERY_LIST | DISCOVERY_WATCH;
    const cJSON *groups = field_get(rule, "apiGroups");
    const cJSON *resources = field_get(rule, "resources");
    const cJSON *name;
    if (is_open(rule) || !(field_has(groups, r->group) || field_has(groups, EVERYTHING))) {
        return 0;
    }
    if (field_has(resources, r->plural) || field_has(resources, EVERYTHING)) {
        return verbs_of(rule);
    }
    cJSON_ArrayForEach(name, resources)
    {
        if (cJSON_IsString(name) && is_written_part(name->valuestring, r)) {
            return verbs_of(rule) & ~reads;
        }
    }
    return 0;
}

unsigned grants_verbs(const struct grants *g, const struct discovery_resource *r, const char *ns)
{
    unsigned found = 0;
    for (size_t i = 0; i < g->count; i++) {
        const struct grant *grant = &g->items[i];
        const cJSON *rule;
        bool holds =
            grant->ns == NULL || (ns != NULL && r->namespaced && strcmp(grant->ns, ns) == 0);
        cJSON_ArrayForEach(rule, grant->rules)
        {
            found |= holds ? verbs_for(rule, r) : 0;
        }
    }
    return found;
}

bool grants_are_open(const struct grants *g)
{
    for (size_t i = 0; i < g->count; i++) {
        const cJSON *rule;
        cJSON_ArrayForEach(rule, g->items[i].rules)
        {
            if (is_open(rule)) {
                return true;
            }
        }
    }
    return false;
}
