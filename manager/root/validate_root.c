/* SPDX-License-Identifier: Apache-2.0 */
#include "root/validate_root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/names.h"
#include "root/child.h"
#include "json/field.h"

#define RESOURCES "spec.root.resourceSelector"

/* ---- what shards are made of ---- */

struct making {
    const struct compile_options *options;
    struct root_spec spec;
    char prefix[COMPILE_PREFIX_SIZE];
    struct compile_labels labels;
    struct child_options child;
    struct err *e;
};

static int making_init(struct making *m, const cJSON *config, const struct compile_options *o,
                       struct err *e)
{
    const char *ns = shards_namespace(config);
    *m = (struct making){.options = o, .labels = o->labels, .e = e};
    compile_prefix(config, &o->labels, m->prefix);
    m->labels.prefix = m->prefix;
    m->child = (struct child_options){.root = config,
                                      .spec = &m->spec,
                                      .labels = &m->labels,
                                      .ns = ns[0] == '\0' ? o->namespace : ns};
    return root_spec_read(config, &m->spec, e);
}

static struct layout_shard last_shard(const struct root_spec *spec)
{
    const struct root_auto *a = &spec->automatic;
    unsigned most = a->size == 0 ? ROOT_SHARDS_MAX : a->size;
    unsigned number = a->there ? most : 1;
    unsigned every = a->there ? a->every : 1;
    return (struct layout_shard){.number = number,
                                 .first = spec->canary.replicas + every * (number - 1),
                                 .pods = every,
                                 .buckets = ~spec->canary.buckets};
}

/* ---- checks ---- */

/* An error of a shard in terms of the root: each limit is one of resourceSelector. */
static int translate(const struct err *inner, struct err *e)
{
    static const char limits[] = "spec.limits";
    size_t len = sizeof limits - 1;
    bool other = strncmp(inner->msg, limits, len) == 0;
    return err_set(e, inner->code, "%s%s", other ? RESOURCES : "", inner->msg + (other ? len : 0));
}

/* `out` NULL: nothing of it is of interest. */
static int check_shard(const struct making *m, const struct layout_shard *shard,
                       struct validate_root *out)
{
    struct err inner = ERR_INIT;
    bool unknown = false;
    cJSON *child = child_make(&m->child, shard, m->e);
    if (child == NULL) {
        return m->e->code == -ENAMETOOLONG ? (m->e->code = -EINVAL) : m->e->code;
    }
    struct rules *rules = compile_draft(child, m->options, &unknown, &inner);
    struct selector *pods = rules == NULL ? NULL : shards_pod_selector(child, &inner);
    cJSON_Delete(child);
    if (pods == NULL || out == NULL) {
        rules_unref(rules);
        selector_free(pods);
        return pods == NULL ? translate(&inner, m->e) : 0;
    }
    *out = (struct validate_root){.rules = rules, .pods = pods, .unknown = unknown};
    return 0;
}

int validate_root(const cJSON *config, const struct compile_options *o, struct validate_root *out,
                  struct err *e)
{
    struct making m;
    const struct layout_shard canary = {.number = 0};
    *out = (struct validate_root){.rules = NULL};
    if (making_init(&m, config, o, e) != 0) {
        return e->code;
    }
    const char *name = field_meta(config, "name");
    if (child_number(&m.spec, name) >= 0) {
        return err_set(e, -EINVAL,
                       "metadata.name: Invalid value: \"%.100s\": is the name of a shard of its "
                       "own, by spec.root.prefix: choose another one",
                       name);
    }
    const struct layout_shard last = last_shard(&m.spec);
    struct layout_shard first = canary;
    first.pods = m.spec.canary.replicas;
    if (first.pods != 0 && check_shard(&m, &first, NULL) != 0) {
        return e->code;
    }
    return check_shard(&m, &last, out);
}

/* ---- what is odd ---- */

static void note_everything(const struct root_spec *spec, struct warnings *warnings)
{
    unsigned i = 0;
    const cJSON *limit;
    cJSON_ArrayForEach(limit, spec->resources)
    {
        const cJSON *inner = field_get(limit, "objectSelector");
        const cJSON *entry;
        cJSON_ArrayForEach(entry, field_get(inner != NULL ? inner : limit, "relateResources"))
        {
            if (field_has(field_get(entry, "apiGroups"), "*") &&
                field_has(field_get(entry, "resources"), "*")) {
                warnings_add(warnings,
                             RESOURCES "[%u]: everything is spread, also Leases, Events and what "
                                       "is not namespaced, as Nodes: list the resources that the "
                                       "operator works on",
                             i);
                return;
            }
        }
        i++;
    }
}

static void note_spec(const struct making *m, struct warnings *warnings)
{
    const struct root_spec *spec = &m->spec;
    note_everything(spec, warnings);
    if (child_drops_pod_names(m->child.root)) {
        warnings_add(warnings,
                     "spec.selector: what it says of names of pods (" POD_NAME_LABEL
                     ") is left out: each shard has its pods by %s",
                     spec->deployment ? "the label that the webhook gives them" : "their ordinals");
    }
    if (child_needs_namespaces(spec)) {
        warnings_add(warnings, "spec.root.canary: with both inNamespaces and inShardHash the "
                               "canary has what either of them selects");
    }
    if (spec->canary.buckets == UINT32_MAX) {
        warnings_add(warnings, "spec.root.canary.inShardHash: these are all hashes: nothing is "
                               "left for the other shards");
    }
}

static void note_taken(const struct shards_list *others, const char *name,
                       struct warnings *warnings)
{
    if (others->withheld != NULL) {
        warnings_add(warnings, "spec.root.prefix: a shard would have the name of a ShardingConfig "
                               "that is not of this root, and that stays as it is");
    } else {
        warnings_add(warnings,
                     "spec.root.prefix: a shard would have the name of ShardingConfig \"%.100s\", "
                     "which is not of this root, and stays as it is",
                     name);
    }
}

static void note_rival(const struct shards_list *others, const char *field, const char *what,
                       const char *name, struct warnings *warnings)
{
    if (others->withheld != NULL) {
        warnings_add(warnings, "spec.root.%s: another root of the namespace has the same%s", field,
                     what);
    } else {
        warnings_add(warnings, "spec.root.%s: root \"%.100s\" has the same%s", field, name, what);
    }
}

/* What is noted of others, each thing once. */
struct noted {
    bool taken;
    bool prefix;
    bool target;
};

static void note_root(const struct making *m, const struct shards_list *others,
                      const struct shards_item *other, struct noted *noted,
                      struct warnings *warnings)
{
    const cJSON *root = field_get(field_get(other->config, "spec"), "root");
    if (!noted->prefix && strcmp(field_text(root, "prefix"), m->spec.prefix) == 0) {
        note_rival(others, "prefix", ": their shards would have the same names", other->name,
                   warnings);
        noted->prefix = true;
    }
    const char *field = m->spec.deployment ? "targetDeployment" : "targetStatefulSet";
    if (!noted->target && strcmp(field_text(root, field), m->spec.target) == 0) {
        note_rival(others, field, ": a pod can be in one shard only", other->name, warnings);
        noted->target = true;
    }
}

static void note_other(const struct making *m, const struct shards_list *others,
                       const struct shards_item *other, struct noted *noted,
                       struct warnings *warnings)
{
    const char *self = field_meta(m->child.root, "name");
    int number = child_number(&m->spec, other->name);
    bool first = number > 0 || (number == 0 && m->spec.canary.replicas != 0);
    if (other->root) {
        note_root(m, others, other, noted, warnings);
    } else if (!noted->taken && first && number <= (int)last_shard(&m->spec).number &&
               strcmp(root_child_parent(other->config, m->prefix), self) != 0) {
        note_taken(others, other->name, warnings);
        noted->taken = true;
    }
}

void validate_root_note(const cJSON *config, const struct compile_options *o, const char *ns,
                        const struct shards_list *others, struct warnings *warnings)
{
    struct err ignored = ERR_INIT;
    struct noted noted = {.taken = false};
    struct making m;
    if (making_init(&m, config, o, &ignored) != 0) {
        return;
    }
    note_spec(&m, warnings);
    for (size_t i = 0; i < others->count; i++) {
        const struct shards_item *other = &others->items[i];
        const char *where = other->ns[0] == '\0' ? o->namespace : other->ns;
        if (strcmp(where, ns) == 0 && strcmp(other->name, shards_name(config)) != 0) {
            note_other(&m, others, other, &noted, warnings);
        }
    }
}
