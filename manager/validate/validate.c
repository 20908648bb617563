/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/validate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/spelling.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "kube/selector_overlap.h"
#include "object/json_patch.h"
#include "object/names.h"
#include "object/route_names.h"
#include "root/child.h"
#include "root/validate_root.h"
#include "validate/also_served.h"
#include "validate/long_selectors.h"
#include "validate/misspelt.h"
#include "validate/sharing_note.h"
#include "json/field.h"

enum {
    PATH_LEN = 128,
    SHARED_MAX = 64,          /* configs whose limits are compared with those of the new one */
    NAMED_MAX = 3,            /* of which each is warned of by itself: there is more to be told */
    STEPS_MAX = 1500000,      /* for the sake of warnings, each as long as comparing two words */
    PODS_STEPS_MAX = 1000000, /* to compare the selector of pods with all others */
    SPELLING_STEPS = 64,
    PAIR_STEPS = 32, /* to look for a group and a resource in rules */
    BYTE_STEPS = 8,  /* of a selector that is compared with another one */
};

/* The rules of a config, and the selector of its pods. */
struct draft {
    struct rules *rules; /* NULL: `e` says why */
    bool unknown;        /* they are without the namespaces that they ask for */
    struct selector *pods;
    struct err e;
};

struct validate_draft {
    bool examined;   /* the rest is of interest */
    bool reselected; /* the selector of pods is another one than before, */
    bool renamed;    /* or the operator's User-Agent */
    struct draft draft;
};

struct validation {
    const cJSON *config;
    const char *ns;
    const char *name;
    const char *root; /* that made it; "": none did */
    const cJSON *spec;
    const cJSON *limits;
    const char *limits_path;
    const struct compile_options *options;
    const struct validate_context *context;
    struct rules *rules; /* of the draft, as the next */
    struct selector *pods;
    size_t pods_steps; /* that may still be made to compare it */
    bool looked;       /* at the pods that there are */
    size_t possible;   /* shards whose selectors may select a pod of this one, */
    size_t shared;     /* and that see what it sees */
    size_t *steps;     /* that may still be made */
    struct warnings *warnings;
    struct err *e;
};

/* Whether so many steps may be made, which then are. Limits may be many, and who asks is kept
 * waiting, as all others are: what is only odd is looked for as long as that takes no time to speak
 * of. */
static bool afford(const struct validation *v, size_t steps)
{
    bool can = *v->steps >= steps;
    *v->steps = can ? *v->steps - steps : 0;
    return can;
}

static const char *namespace_or_default(const struct validation *v, const char *ns)
{
    return ns[0] == '\0' ? v->options->namespace : ns;
}

/* The root that it was made of; "": none. */
static const char *root_of(const cJSON *config, const struct compile_options *o)
{
    char prefix[COMPILE_PREFIX_SIZE];
    compile_prefix(config, &o->labels, prefix);
    return root_child_parent(config, prefix);
}

/* Made of the same root, which tells them apart. While it changes several of them, one after the
 * other, they may have pods in common for a moment. */
static bool is_sibling(const struct validation *v, const struct shards_item *other)
{
    return v->root[0] != '\0' && strcmp(root_of(other->config, v->options), v->root) == 0;
}

/* Other shards of the same namespace. */
static bool is_neighbour(const struct validation *v, const struct shards_item *other)
{
    return !other->root && strcmp(other->name, v->name) != 0 &&
           strcmp(namespace_or_default(v, other->ns), v->ns) == 0 && !is_sibling(v, other);
}

/* ---- fields by themselves ---- */

/* The rules are published in a ConfigMap that is named after the shard. */
static int check_name(const struct validation *v)
{
    const char *name = v->name;
    if (strlen(name) <= (size_t)RULES_MAP_SHARD_MAX) {
        return 0;
    }
    return err_set(v->e, -EINVAL,
                   "metadata.name: Invalid value: \"%.100s...\": must be no more than %d "
                   "characters, for the rules are published in ConfigMap \"" RULES_MAP_PREFIX
                   "<name>\"",
                   name, RULES_MAP_SHARD_MAX);
}

static int check_cert_dir(const struct validation *v, const char *dir)
{
    size_t len = strlen(dir);
    bool up = strstr(dir, "/../") != NULL || (len >= 3 && strcmp(dir + len - 3, "/..") == 0);
    const char *why = dir[0] != '/' ? "must be an absolute path" : "must not contain '..'";
    return len == 0 || (dir[0] == '/' && !up)
               ? 0
               : err_set(v->e, -EINVAL, "spec.webhook.certDir: Invalid value: \"%.100s\": %s", dir,
                         why);
}

/* Of a config that was compiled, so that types are right. */
static int check_webhook(const struct validation *v)
{
    static const unsigned taken[] = {SIDECAR_API_PORT, SIDECAR_ADMIN_PORT, SIDECAR_RULESYNC_PORT};
    const cJSON *webhook = field_get(v->spec, "webhook");
    const cJSON *port = field_get(webhook, "port");
    for (size_t i = 0; i < ARRAY_LEN(taken) && port != NULL; i++) {
        if (port->valueint == (int)taken[i]) {
            return err_set(v->e, -EINVAL,
                           "spec.webhook.port: Invalid value: %d: is a port of the sidecars",
                           port->valueint);
        }
    }
    return check_cert_dir(v, field_text(webhook, "certDir"));
}

/* ---- pods ---- */

/* What is withheld from who asks is asked for by this. */
static int refuse_withheld(const struct validation *v, const char *what)
{
    return err_set(v->e, -EINVAL,
                   "spec.selector: Invalid value: selects %s that another ShardingConfig of the "
                   "namespace selects too, and a pod can be in one shard only: see " SHARDS_SHOW,
                   what, v->ns);
}

static int refuse_pod(const struct validation *v, const char *pod, const char *other)
{
    const struct shards_list *list = &v->context->shards;
    shards_withhold(list, "it selects pod \"%.200s\", as ShardingConfig \"%.200s\" does", pod,
                    other);
    if (list->withheld != NULL) {
        return refuse_withheld(v, "a pod");
    }
    return err_set(v->e, -EINVAL,
                   "spec.selector: Invalid value: selects pod \"%.253s\", as ShardingConfig "
                   "\"%.253s\" does: a pod can be in one shard only",
                   pod, other);
}

static int refuse_overlap(const struct validation *v, const char *other,
                          const struct selector *theirs)
{
    const struct shards_list *list = &v->context->shards;
    shards_withhold(list, "ShardingConfig \"%.253s\" selects them too", other);
    if (list->withheld != NULL) {
        return refuse_withheld(v, "pods");
    }
    struct buf text = BUF_INIT(256);
    bool fits = xrc(selector_print(theirs, &text)) == 0;
    int rc = err_set(v->e, -EINVAL,
                     "spec.selector: Invalid value: selects pods that ShardingConfig \"%.100s\" "
                     "selects too, and a pod can be in one shard only: %s",
                     other, fits ? xptr(buf_cstr(&text)) : "");
    buf_reset(&text);
    return rc;
}

static bool is_name_of_sibling(const struct validation *v, const char *name)
{
    const struct shards_list *list = &v->context->shards;
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0 && is_sibling(v, &list->items[i])) {
            return true;
        }
    }
    return false;
}

/* Whether a pod that there is would be in two shards. To look once is enough: whatever shard the
 * pod is in, this one must not have it. */
static int check_shared_pod(struct validation *v)
{
    const struct validate_context *w = v->context;
    const char *other = NULL;
    if (w->shared_pod == NULL || v->looked) {
        return 0;
    }
    v->looked = true;
    const char *pod = w->shared_pod(w->data, v->ns, v->name, v->pods, &other);
    return pod == NULL || is_name_of_sibling(v, other) ? 0 : refuse_pod(v, pod, other);
}

static void note_possible(struct validation *v, const char *other)
{
    v->possible++;
    if (v->context->shards.withheld != NULL && v->possible == 1) {
        warnings_add(v->warnings, "spec.selector: a pod could have the labels for this and for "
                                  "another ShardingConfig; it would be refused");
    } else if (v->context->shards.withheld == NULL && v->possible <= NAMED_MAX) {
        warnings_add(v->warnings,
                     "spec.selector: a pod could have the labels for this and for ShardingConfig "
                     "\"%.100s\"; it would be refused",
                     other);
    }
}

static void note_more(const struct validation *v, const char *field, size_t count)
{
    size_t told = v->context->shards.withheld != NULL ? 1 : NAMED_MAX;
    if (count > told) {
        warnings_add(v->warnings, "%s: so it is with %zu more ShardingConfigs", field,
                     count - told);
    }
}

/* Not one that is not compared with all others. */
static int afford_pods(struct validation *v, const struct selector *theirs)
{
    size_t steps = selector_size(v->pods) + selector_size(theirs);
    if (steps > v->pods_steps) {
        return err_set(v->e, -E2BIG,
                       "spec.selector: Too long: with its values it cannot be compared with those "
                       "of all other ShardingConfigs of the namespace, which have %d in all",
                       PODS_STEPS_MAX);
    }
    v->pods_steps -= steps;
    return 0;
}

static int compare_pods(struct validation *v, const char *other, const struct selector *theirs)
{
    if (afford_pods(v, theirs) != 0) {
        return v->e->code;
    }
    enum overlap overlap = selector_overlap(v->pods, theirs);
    if (overlap == OVERLAP_NONE) {
        return 0;
    }
    int rc = check_shared_pod(v);
    if (rc == 0 && overlap == OVERLAP_CERTAIN) {
        rc = refuse_overlap(v, other, theirs);
    } else if (rc == 0) {
        note_possible(v, other);
    }
    return rc;
}

static int check_neighbour(struct validation *v, const struct shards_item *other)
{
    if (other->pods != NULL) {
        return compare_pods(v, other->name, other->pods);
    }
    struct selector *theirs = shards_pod_selector(other->config, NULL);
    int rc = theirs == NULL ? 0 : compare_pods(v, other->name, theirs);
    selector_free(theirs);
    return rc;
}

/* A root leaves room for what it adds for each shard. */
static int check_requirements(const struct validation *v, size_t added)
{
    size_t requirements = 0;
    (void)selector_requirements(v->pods, &requirements);
    return requirements <= VALIDATE_POD_REQUIREMENTS_MAX
               ? 0
               : err_set(v->e, -E2BIG,
                         "spec.selector: Too many: must have at most %zu requirements",
                         VALIDATE_POD_REQUIREMENTS_MAX - added);
}

static int check_pods(struct validation *v)
{
    if (check_requirements(v, 0) != 0) {
        return v->e->code;
    }
    if (!selector_satisfiable(v->pods)) {
        warnings_add(v->warnings,
                     "spec.selector: no pod can match it: its requirements contradict each "
                     "other, or a list of values is empty");
    }
    int rc = 0;
    const struct shards_list *list = &v->context->shards;
    for (size_t i = 0; i < list->count && rc == 0; i++) {
        if (is_neighbour(v, &list->items[i])) {
            rc = check_neighbour(v, &list->items[i]);
        }
    }
    note_more(v, "spec.selector", v->possible);
    return rc;
}

/* ---- resources ---- */

typedef int (*entry_cb)(const struct validation *v, void *data, const cJSON *entry,
                        const char *path);

/* Calls for each entry of relateResources, until one returns an error. */
static int each_entry(const struct validation *v, entry_cb cb, void *data)
{
    unsigned i = 0;
    const cJSON *limit;
    cJSON_ArrayForEach(limit, v->limits)
    {
        const cJSON *inner = field_get(limit, "objectSelector");
        unsigned j = 0;
        const cJSON *entry;
        cJSON_ArrayForEach(entry, field_get(inner != NULL ? inner : limit, "relateResources"))
        {
            char path[PATH_LEN];
            (void)snprintf(path, sizeof path, "%s[%u]%s.relateResources[%u]", v->limits_path, i,
                           inner != NULL ? ".objectSelector" : "", j++);
            int rc = cb(v, data, entry, path);
            if (rc != 0) {
                return rc;
            }
        }
        i++;
    }
    return 0;
}

static bool same_or_any(const char *pattern, const char *text)
{
    return strcmp(pattern, "*") == 0 || strcmp(pattern, text) == 0;
}

/* Whether the group, or any if NULL, serves the resource, or anything if that is `*`. */
static bool is_served(const struct validate_context *w, const char *group, const char *resource)
{
    for (size_t i = 0; i < w->resource_count; i++) {
        if (same_or_any(group, w->resources[i].group) &&
            same_or_any(resource, w->resources[i].resource)) {
            return true;
        }
    }
    return false;
}

static bool is_served_by_one(const struct validate_context *w, const cJSON *groups,
                             const char *resource)
{
    const cJSON *group;
    cJSON_ArrayForEach(group, groups)
    {
        if (is_served(w, group->valuestring, resource)) {
            return true;
        }
    }
    return false;
}

/* The resource that is likely meant: the plural of what was written, or one that is spelt nearly
 * so; NULL: none. */
static const char *resource_meant(const struct validate_context *w, const cJSON *groups,
                                  const char *resource)
{
    unsigned best = SPELLING_NEAR + 1;
    const char *meant = NULL;
    for (size_t i = 0; i < w->resource_count; i++) {
        const char *known = w->resources[i].resource;
        unsigned distance = spelling_distance(resource, known);
        const cJSON *group;
        cJSON_ArrayForEach(group, groups)
        {
            if (distance < best && same_or_any(group->valuestring, w->resources[i].group)) {
                best = distance;
                meant = known;
            }
        }
    }
    return meant;
}

static const char *group_meant(const struct validate_context *w, const char *group)
{
    unsigned best = SPELLING_NEAR + 1;
    const char *meant = NULL;
    for (size_t i = 0; i < w->resource_count; i++) {
        const char *known = w->resources[i].group;
        unsigned distance = known[0] == '\0' ? best : spelling_distance(group, known);
        if (distance < best) {
            best = distance;
            meant = known;
        }
    }
    return meant;
}

static void note_unserved(const struct validation *v, const char *path, const char *what,
                          unsigned index, const char *name, const char *meant)
{
    bool group = strcmp(what, "apiGroups") == 0;
    warnings_add(
        v->warnings,
        "%s.%s[%u]: \"%.100s\" is not found: the API server serves no such %s so far%s%.100s%s",
        path, what, index, name, group ? "group" : "resource in these groups",
        meant == NULL ? "" : "; is \"", meant == NULL ? "" : meant,
        meant == NULL ? "" : "\" meant?");
}

/* 0, or 1: there is no time for more. */
static int note_groups(const struct validation *v, const cJSON *groups, const char *path, bool *any)
{
    const struct validate_context *w = v->context;
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, groups)
    {
        if (!afford(v, w->resource_count)) {
            return 1;
        }
        bool served = is_served(w, item->valuestring, "*");
        *any = *any || served;
        if (!served && !afford(v, SPELLING_STEPS * w->resource_count)) {
            return 1;
        }
        if (!served) {
            note_unserved(v, path, "apiGroups", i, item->valuestring,
                          group_meant(w, item->valuestring));
        }
        i++;
    }
    return 0;
}

static int note_resources_of(const struct validation *v, const cJSON *entry, const char *path)
{
    const struct validate_context *w = v->context;
    const cJSON *groups = field_get(entry, "apiGroups");
    size_t once = w->resource_count * (size_t)cJSON_GetArraySize(groups);
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(entry, "resources"))
    {
        if (!afford(v, once)) {
            return 1;
        }
        bool served = is_served_by_one(w, groups, item->valuestring);
        if (!served && !afford(v, once + SPELLING_STEPS * w->resource_count)) {
            return 1;
        }
        if (!served) {
            note_unserved(v, path, "resources", i, item->valuestring,
                          resource_meant(w, groups, item->valuestring));
        }
        i++;
    }
    return 0;
}

/* No reason to refuse it: the definition may be on its way, or this replica may not have seen it.
 */
static int note_served(const struct validation *v, void *data, const cJSON *entry, const char *path)
{
    bool any = false; /* group is served */
    (void)data;
    int rc = note_groups(v, field_get(entry, "apiGroups"), path, &any);
    return rc == 0 && any ? note_resources_of(v, entry, path) : rc;
}

/* ---- what is odd ---- */

typedef bool (*pair_cb)(const struct rules_entry *ours, const struct rules_entry *theirs);

/* A search for a resource of which `cb` says yes to the limits that two shards have on it. Where
 * neither has any, it says no. */
struct pair_search {
    const struct rules *theirs; /* NULL: of one shard */
    pair_cb cb;
    const struct rules_entry *ours_no; /* said no to last: many resources have the same limits */
    const struct rules_entry *theirs_no;
    const char *resource; /* found last; NULL: none */
};

static size_t steps_for(const struct rules_entry *entry)
{
    return entry == NULL ? 0 : BYTE_STEPS * entry->length;
}

static bool says_yes(const struct validation *v, struct pair_search *q, struct slice group,
                     struct slice resource)
{
    const struct rules_entry *ours = rules_match(v->rules, group, resource);
    const struct rules_entry *theirs =
        q->theirs == NULL ? NULL : rules_match(q->theirs, group, resource);
    bool again = ours == q->ours_no && theirs == q->theirs_no;
    if (again || !afford(v, steps_for(ours) + steps_for(theirs))) {
        return false;
    }
    bool yes = q->cb(ours, theirs);
    if (!yes) {
        q->ours_no = ours;
        q->theirs_no = theirs;
    }
    return yes;
}

/* The first resource of the entry for which it says yes; NULL: none, or no time to look. */
static const char *find_resource(const struct validation *v, struct pair_search *q,
                                 const cJSON *entry)
{
    const cJSON *group;
    const cJSON *resource;
    cJSON_ArrayForEach(group, field_get(entry, "apiGroups"))
    {
        cJSON_ArrayForEach(resource, field_get(entry, "resources"))
        {
            if (!afford(v, PAIR_STEPS)) {
                return NULL;
            }
            if (says_yes(v, q, slice_str(group->valuestring), slice_str(resource->valuestring))) {
                return resource->valuestring;
            }
        }
    }
    return NULL;
}

static bool is_contradiction(const struct rules_entry *ours, const struct rules_entry *theirs)
{
    (void)theirs;
    return ours != NULL && !selector_satisfiable(ours->compiled);
}

static int note_contradiction(const struct validation *v, void *data, const cJSON *entry,
                              const char *path)
{
    const char *resource = find_resource(v, data, entry);
    if (resource != NULL) {
        warnings_add(v->warnings,
                     "%s: the limits on \"%.63s\" contradict each other, or a list of values is "
                     "empty, or no namespace is selected: the shard sees none",
                     path, resource);
    }
    return 0;
}

static bool is_shared(const struct rules_entry *ours, const struct rules_entry *theirs)
{
    return ours != NULL && (theirs == NULL ||
                            selector_overlap(ours->compiled, theirs->compiled) == OVERLAP_CERTAIN);
}

static int find_shared(const struct validation *v, void *data, const cJSON *entry, const char *path)
{
    struct pair_search *q = data;
    (void)path;
    q->resource = find_resource(v, q, entry);
    return q->resource == NULL ? 0 : 1;
}

/* Those of a neighbour; the caller holds one reference. NULL: it is invalid. */
static struct rules *rules_of(const struct validation *v, size_t number)
{
    struct err ignored = ERR_INIT;
    const struct validate_context *w = v->context;
    if (w->rules_of == NULL) {
        return compile_config(w->shards.items[number].config, v->options, &ignored);
    }
    struct rules *rules = w->rules_of(w->data, number);
    return rules == NULL ? NULL : rules_ref(rules);
}

static void note_shared(struct validation *v, const char *other, const char *resource)
{
    v->shared++;
    if (v->context->shards.withheld != NULL && v->shared == 1) {
        warnings_add(v->warnings,
                     "spec.limits: another shard of the same operator sees \"%.63s\" that this one "
                     "sees too",
                     resource);
    } else if (v->context->shards.withheld == NULL && v->shared <= NAMED_MAX) {
        warnings_add(v->warnings,
                     "spec.limits: shard \"%.100s\" of the same operator sees \"%.63s\" that "
                     "this one sees too",
                     other, resource);
    }
}

/* Shards of one operator, which all ask for the same lock, must not both see an object. */
static void note_sharing(struct validation *v, size_t number)
{
    struct rules *theirs = rules_of(v, number);
    const char *lock = theirs == NULL ? NULL : rules_leader_election(theirs);
    if (lock != NULL && strcmp(lock, rules_leader_election(v->rules)) == 0) {
        struct pair_search q = {.theirs = theirs, .cb = is_shared};
        if (each_entry(v, find_shared, &q) != 0) {
            note_shared(v, v->context->shards.items[number].name, q.resource);
        }
    }
    rules_unref(theirs);
}

/* Of one limit, which may be wrapped in an objectSelector. */
static void note_keys(const struct validation *v)
{
    unsigned i = 0;
    const cJSON *limit;
    cJSON_ArrayForEach(limit, v->limits)
    {
        const cJSON *inner = field_get(limit, "objectSelector");
        char path[PATH_LEN];
        (void)snprintf(path, sizeof path, "%s[%u]%s.selector", v->limits_path, i++,
                       inner != NULL ? ".objectSelector" : "");
        const cJSON *selector = field_get(inner != NULL ? inner : limit, "selector");
        if (!afford(v, SPELLING_STEPS * misspelt_key_count(selector))) {
            return;
        }
        misspelt_note_keys(selector, rules_labels(v->rules), path, v->warnings);
    }
}

static int note_resources(const struct validation *v, void *data, const cJSON *entry,
                          const char *path)
{
    size_t groups = (size_t)cJSON_GetArraySize(field_get(entry, "apiGroups"));
    size_t resources = (size_t)cJSON_GetArraySize(field_get(entry, "resources"));
    (void)data;
    if (!afford(v, PAIR_STEPS * (groups * resources + 1))) {
        return 1;
    }
    misspelt_note_resources(entry, path, v->warnings);
    return 0;
}

/* Without an API server what is so on each. */
static void note_unlabelled(const struct validation *v)
{
    const struct validate_context *w = v->context;
    if (w->resource_count > 0) {
        never_labelled_note(v->rules, v->limits_path, w->unlabelled, w->unlabelled_count,
                            v->warnings);
    } else {
        never_labelled_note(v->rules, v->limits_path, never_labelled_anywhere,
                            never_labelled_anywhere_count, v->warnings);
    }
}

static bool serves(const void *context, const char *group, const char *resource)
{
    return is_served(context, group, resource);
}

static void note_lengths(const struct validation *v)
{
    if (afford(v, PAIR_STEPS * (rules_pattern_count(v->rules) + LONG_SELECTORS_STEPS))) {
        long_selectors_note(v->rules, v->limits_path, v->warnings);
    }
}

static void note_shared_namespaces(const struct validation *v)
{
    const struct sharing_consent consent = {
        .ns = v->ns,
        .any = &v->options->shareable,
        .known = v->context->shared != NULL ? v->context->shared : v->options->shared};
    sharing_note(v->rules, v->config, &consent, v->options->namespaces, v->warnings);
}

static void note_limits(const struct validation *v)
{
    struct pair_search contradictions = {.cb = is_contradiction};
    if (field_text(v->spec, COMPILE_LEAVING)[0] == '\0') { /* else they show nothing on purpose */
        (void)each_entry(v, note_contradiction, &contradictions);
    }
    note_keys(v);
    (void)each_entry(v, v->context->resource_count == 0 ? note_resources : note_served, NULL);
    note_unlabelled(v);
    note_lengths(v);
    note_shared_namespaces(v);
    also_served_note(v->rules, v->limits_path, v->context->resource_count == 0 ? NULL : serves,
                     v->context, v->warnings);
}

/* What it shares on purpose is left out. */
static void note_neighbours(struct validation *v)
{
    size_t compared = 0;
    bool elects = rules_leader_election(v->rules) != NULL;
    struct rules *whole = v->rules;
    struct rules *own = sharing_leave_out(whole, sharing_of(v->config), v->options->shared);
    if (own == NULL) {
        return;
    }
    v->rules = own;
    const struct shards_list *list = &v->context->shards;
    for (size_t i = 0; i < list->count && elects && compared < SHARED_MAX; i++) {
        if (is_neighbour(v, &list->items[i])) {
            note_sharing(v, i);
            compared++;
        }
    }
    note_more(v, "spec.limits", v->shared);
    v->rules = whole;
    rules_unref(own);
}

static void note_steps(const struct validation *v)
{
    if (*v->steps == 0) {
        warnings_add(v->warnings,
                     "%s: there are so many that not all was looked at: there may be more to warn "
                     "of",
                     v->limits_path);
    }
}

static void note_oddities(struct validation *v)
{
    if (compile_lacks_limits(v->config)) {
        warnings_add(v->warnings, "spec.limits: missing: the shard sees nothing; write limits: [] "
                                  "for a shard that sees everything");
    } else if (rules_limit_count(v->rules) == 0) {
        warnings_add(v->warnings, "spec.limits: no limits: the shard sees everything");
    }
    note_limits(v);
    note_neighbours(v);
    note_steps(v);
}

/* ---- a whole config ---- */

static bool is_root(const cJSON *config)
{
    return field_get(field_get(config, "spec"), "root") != NULL;
}

/* A root is drafted by one of its shards. */
static void draft_init(struct draft *d, const cJSON *config, const struct compile_options *o)
{
    *d = (struct draft){.e = ERR_INIT};
    if (is_root(config)) {
        struct validate_root root;
        d->e.code = validate_root(config, o, &root, &d->e);
        d->rules = root.rules;
        d->pods = root.pods;
        d->unknown = root.unknown;
        return;
    }
    d->rules = compile_draft(config, o, &d->unknown, &d->e);
    d->pods = d->rules == NULL ? NULL : shards_pod_selector(config, &d->e);
}

static void draft_deinit(struct draft *d)
{
    rules_unref(d->rules);
    selector_free(d->pods);
}

/* Where several things are wrong, the one that stands first in the spec is told. */
static int check_draft(struct validation *v, const struct draft *d)
{
    v->rules = d->rules;
    v->pods = d->pods;
    if (d->rules == NULL) {
        return err_set(v->e, d->e.code, "%s", d->e.msg);
    }
    if (check_webhook(v) != 0) {
        return v->e->code;
    }
    return d->pods != NULL ? 0 : err_set(v->e, d->e.code, "%s", d->e.msg);
}

/* Reviews reach shards where the operator's own configuration asks for it. */
static void note_webhook(const struct validation *v, const char *prefix)
{
    const cJSON *webhook = field_get(v->spec, COMPILE_WEBHOOK);
    if (cJSON_GetArraySize(webhook) == 0) {
        return;
    }
    if (field_get(webhook, COMPILE_WEBHOOK_PORT) == NULL) {
        warnings_add(v->warnings, "spec.webhook: has no effect without spec.webhook.port");
    } else if (!v->context->routed) {
        warnings_add(v->warnings,
                     "spec.webhook: has no effect until the operator's "
                     "ValidatingWebhookConfiguration or MutatingWebhookConfiguration has the label "
                     "%s/" ROUTE_LABEL ": \"true\"",
                     prefix);
    }
}

/* What KusionStack's mesh acts on, and this one does not. */
static void note_without_effect(const struct validation *v)
{
    char prefix[COMPILE_PREFIX_SIZE];
    char key[COMPILE_PREFIX_SIZE + sizeof "/ignore-validate"];
    compile_prefix(v->config, &v->options->labels, prefix);
    (void)snprintf(key, sizeof key, "%s/ignore-validate", prefix);
    note_webhook(v, prefix);
    if (field_get(field_map(field_get(v->config, "metadata"), "labels"), key) != NULL) {
        warnings_add(v->warnings,
                     "metadata.labels[%s]: has no effect: what is wrong with a ShardingConfig is "
                     "refused with it, too",
                     key);
    }
}

/* What users write on a ShardingConfig. */
static const char *const config_annotations[] = {SHARDING_SHARES_WITH, SIDECAR_COUNT_LOAD};

/* Of a name below the prefix. NULL: it is one of these, or like none. */
static const char *annotation_meant(const char *name)
{
    const char *meant = NULL;
    for (size_t i = 0; i < ARRAY_LEN(config_annotations); i++) {
        unsigned distance = spelling_distance(name, config_annotations[i]);
        if (distance == 0) {
            return NULL;
        }
        meant = distance <= SPELLING_NEAR ? config_annotations[i] : meant;
    }
    return meant;
}

/* One that is misspelt, or a label, says nothing to anybody. */
static void note_annotations(const struct validation *v)
{
    char prefix[COMPILE_PREFIX_SIZE];
    const cJSON *metadata = field_get(v->config, "metadata");
    const cJSON *item;
    compile_prefix(v->config, &v->options->labels, prefix);
    size_t len = strlen(prefix);
    cJSON_ArrayForEach(item, field_map(metadata, "annotations"))
    {
        const char *key = item->string;
        if (strncmp(key, prefix, len) != 0 || key[len] != '/') {
            continue;
        }
        if (!afford(v, SPELLING_STEPS * ARRAY_LEN(config_annotations))) {
            return;
        }
        const char *meant = annotation_meant(key + len + 1);
        if (meant != NULL) {
            warnings_add(v->warnings,
                         "metadata.annotations[%.100s]: unknown, so it has no effect; is %s/%s "
                         "meant?",
                         key, prefix, meant);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(config_annotations); i++) {
        char key[COMPILE_PREFIX_SIZE + 32];
        (void)snprintf(key, sizeof key, "%s/%s", prefix, config_annotations[i]);
        if (field_get(field_map(metadata, "labels"), key) != NULL) {
            warnings_add(v->warnings,
                         "metadata.labels[%s]: has no effect, since it is an annotation", key);
        }
    }
}

static void note_unknown(const struct validation *v)
{
    warnings_add(v->warnings,
                 "%s: the namespaces are not known to this manager yet: what namespaceSelector "
                 "selects was not checked",
                 v->limits_path);
}

static bool is_here(const struct validation *v, const struct shards_item *other)
{
    return !other->root && strcmp(namespace_or_default(v, other->ns), v->ns) == 0;
}

/* With as many shards as there are pods for, those that there are count, if any are known. */
static bool is_automatic_child(const struct validation *v, const char *prefix, const char *name)
{
    const struct shards_list *list = &v->context->shards;
    bool any = false;
    for (size_t i = 0; i < list->count; i++) {
        const struct shards_item *other = &list->items[i];
        if (is_here(v, other) && root_child_number(prefix, other->name) > 0) {
            any = true;
            if (strcmp(other->name, name) == 0) {
                return true;
            }
        }
    }
    return !any;
}

/* Whether the root has a shard of that name, or will have. */
static bool is_child(const struct validation *v, const cJSON *root, const char *name)
{
    const char *prefix = field_text(root, "prefix");
    int number = root_child_number(prefix, name);
    const cJSON *size = field_get(field_get(root, "auto"), "shardingSize");
    if (number == 0) {
        return field_get(root, "canary") != NULL;
    }
    return number > 0 && (cJSON_IsNumber(size) ? number <= size->valuedouble
                                               : is_automatic_child(v, prefix, name));
}

/* Whether there is a shard of that name, or will be one of the root. */
static bool is_shard(const struct validation *v, const char *name)
{
    const cJSON *root = field_get(v->spec, "root");
    const struct shards_list *list = &v->context->shards;
    bool found = root != NULL ? is_child(v, root, name) : strcmp(name, v->name) == 0;
    for (size_t i = 0; i < list->count && !found && root == NULL; i++) {
        const struct shards_item *other = &list->items[i];
        found = is_here(v, other) && strcmp(other->name, name) == 0;
    }
    return found;
}

static void note_leaving(const struct validation *v)
{
    const char *name = field_text(v->spec, COMPILE_LEAVING);
    if (name[0] != '\0' && !is_shard(v, name)) {
        warnings_add(v->warnings,
                     "spec.leaving: there is no shard \"%.253s\": so nobody has what the limits "
                     "name, until pods without sidecars have",
                     name);
    }
}

static int validate_shard(struct validation *v, const struct draft *d)
{
    if (check_draft(v, d) != 0 || check_pods(v) != 0) {
        return v->e->code;
    }
    note_without_effect(v);
    note_leaving(v);
    note_annotations(v);
    if (d->unknown) {
        note_unknown(v);
        return 0;
    }
    note_oddities(v);
    return 0;
}

/* Its shards have pods and limits of their own, which are looked at when they are written. */
static int validate_root_config(struct validation *v, const struct draft *d)
{
    v->limits = field_get(field_get(v->spec, "root"), "resourceSelector");
    v->limits_path = "spec.root.resourceSelector";
    if (check_draft(v, d) != 0 || check_requirements(v, 1) != 0) {
        return v->e->code;
    }
    note_without_effect(v);
    note_leaving(v);
    note_annotations(v);
    validate_root_note(v->config, v->options, v->ns, &v->context->shards, v->warnings);
    if (d->unknown) {
        note_unknown(v);
        return 0;
    }
    note_limits(v);
    note_steps(v);
    return 0;
}

static int validate(const cJSON *config, const struct compile_options *o, const struct draft *d,
                    const struct validate_context *w, struct warnings *warnings, struct err *e)
{
    size_t steps = STEPS_MAX;
    struct validation v = {.config = config,
                           .root = root_of(config, o),
                           .spec = field_get(config, "spec"),
                           .limits = field_get(field_get(config, "spec"), "limits"),
                           .limits_path = "spec.limits",
                           .options = o,
                           .context = w,
                           .steps = &steps,
                           .pods_steps = PODS_STEPS_MAX,
                           .warnings = warnings,
                           .e = e};
    v.ns = namespace_or_default(&v, shards_namespace(config));
    v.name = shards_name(config);
    if (check_name(&v) != 0) {
        return v.e->code;
    }
    return is_root(config) ? validate_root_config(&v, d) : validate_shard(&v, d);
}

int validate_config(const cJSON *config, const struct compile_options *o,
                    const struct validate_context *w, struct warnings *warnings, struct err *e)
{
    struct draft d;
    draft_init(&d, config, o);
    int rc = validate(config, o, &d, w, warnings, e);
    draft_deinit(&d);
    return rc;
}

/* ---- the webhook ---- */

static bool same_field(const cJSON *a, const cJSON *b, const char *key)
{
    const cJSON *x = field_get(a, key);
    const cJSON *y = field_get(b, key);
    return x == NULL || y == NULL ? x == y : json_patch_equal(x, y);
}

static bool same_user_agent(const cJSON *a, const cJSON *b)
{
    const char *x = compile_user_agent(a);
    const char *y = compile_user_agent(b);
    return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

/* Pods of the shard that enforce its rules. */
static unsigned count_pods(const cJSON *config)
{
    unsigned pods = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, field_get(field_get(config, "status"), "pods"))
    {
        pods += field_get(row, "generation") != NULL ? 1 : 0; /* without a sidecar there is none */
    }
    return pods;
}

static const char *lock_of(const cJSON *config)
{
    return field_text(field_get(field_get(config, "spec"), "controller"), COMPILE_LOCK_NAME);
}

/* Running pods ask for the lock that the operator was started with. */
static void note_lock(const struct admission_request *r, struct warnings *warnings)
{
    const char *old = lock_of(r->old_object);
    const char *new = lock_of(r->object);
    if (old[0] != '\0' && new[0] != '\0' && strcmp(old, new) != 0 &&
        count_pods(r->old_object) > 0) {
        warnings_add(warnings,
                     "spec.controller." COMPILE_LOCK_NAME
                     ": changed: until all its pods are replaced, one may be elected by "
                     "the old lock and another one by the new. Pods of a shard of another "
                     "name wait for the old ones");
    }
}

static void note_deletion(const cJSON *config, struct warnings *warnings)
{
    unsigned pods = count_pods(config);
    if (pods == 1) {
        warnings_add(warnings, "1 pod of this shard enforces its rules, and does so until it is "
                               "deleted");
    } else if (pods > 1) {
        warnings_add(warnings,
                     "%u pods of this shard enforce its rules, and do so until they are deleted",
                     pods);
    }
}

/* Whatever is changed: a pod that asks for sidecars there runs without, and nobody is told. */
static void note_left_out(const struct admission_request *r, struct warnings *warnings)
{
    warnings_add(
        warnings,
        "metadata.namespace: pods in \"%.63s\" get no sidecars, and see everything: the "
        "webhook for pods leaves it out by its namespaceSelector. Use another namespace, or "
        "change that",
        r->namespace);
}

/* People see warnings: the manager, and most else that writes by itself, is a service account. */
static void note_root_of(const struct admission_request *r, const struct compile_options *o,
                         struct warnings *warnings)
{
    static const char account[] = "system:serviceaccount:";
    const char *root = root_of(r->old_object, o);
    if (root[0] != '\0' && strncmp(r->user, account, sizeof account - 1) != 0) {
        warnings_add(warnings,
                     "metadata.labels: this shard is made of root \"%.63s\", and the manager "
                     "makes it so again: change spec.root of that one",
                     root);
    }
}

/* Whether its spec is looked at. */
static bool is_examined(const struct admission_request *r)
{
    if (r->object == NULL || r->resource.subresource[0] != '\0' || field_is_deleted(r->object)) {
        return false;
    }
    return r->operation != ADMISSION_UPDATE ||
           !(r->same_spec || same_field(r->old_object, r->object, "spec"));
}

static struct compile_options options_for(const struct admission_request *r,
                                          const struct compile_options *o)
{
    struct compile_options options = *o;
    options.namespace = r->namespace;
    return options;
}

struct validate_draft *validate_draft_new(const struct admission_request *r,
                                          const struct compile_options *o)
{
    struct validate_draft *d = xcalloc(1, sizeof *d);
    d->examined = is_examined(r);
    if (d->examined && !r->cut) {
        const struct compile_options options = options_for(r, o);
        draft_init(&d->draft, r->object, &options);
    }
    d->reselected =
        d->examined && r->operation == ADMISSION_UPDATE &&
        !same_field(field_get(r->old_object, "spec"), field_get(r->object, "spec"), "selector");
    d->renamed = d->examined && r->operation == ADMISSION_UPDATE &&
                 !same_user_agent(r->old_object, r->object);
    return d;
}

void validate_draft_free(struct validate_draft *d)
{
    if (d != NULL) {
        draft_deinit(&d->draft);
        free(d);
    }
}

/* A spec that is to be looked at. */
static int examine(const struct admission_request *r, const struct compile_options *o,
                   const struct validate_draft *d, const struct validate_context *w,
                   struct warnings *warnings, struct err *e)
{
    const struct compile_options options = options_for(r, o);
    if (r->cut) {
        return err_set(e, -E2BIG,
                       "spec: Too long: the object has more than %d values (fields and items of "
                       "lists): use fewer limits, or several shards",
                       ADMISSION_VALUES_MAX);
    }
    int rc = validate(r->object, &options, &d->draft, w, warnings, e);
    if (rc == 0 && r->operation == ADMISSION_UPDATE) {
        note_root_of(r, &options, warnings);
        note_lock(r, warnings);
    }
    if (rc == 0 && d->reselected) {
        warnings_add(
            warnings,
            "spec.selector: changed: running pods stay in the shard that they were started in");
    }
    if (rc == 0 && d->renamed) {
        warnings_add(warnings, "spec.controller." COMPILE_USER_AGENT
                               ": changed: running pods keep what they were started with");
    }
    return rc;
}

int validate_drafted(const struct admission_request *r, const struct compile_options *o,
                     const struct validate_draft *d, const struct validate_context *w,
                     struct warnings *warnings, struct err *e)
{
    if (r->operation == ADMISSION_DELETE) {
        note_deletion(r->old_object, warnings);
    }
    bool leaves =
        r->object == NULL || r->resource.subresource[0] != '\0' || field_is_deleted(r->object);
    if (!leaves && w->left_out) {
        note_left_out(r, warnings);
    }
    return d->examined ? examine(r, o, d, w, warnings, e) : 0;
}
