/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/shard_roots.h"

#include <stdio.h>
#include <string.h>

#include "root/child.h"
#include "root/validate_root.h"
#include "json/field.h"

/* One root. */
struct expansion {
    struct shard_files *files;
    struct config_entry entry; /* a copy: the list may move */
    const char *ns;
    char prefix[COMPILE_PREFIX_SIZE];
    struct compile_labels labels;
    struct root_spec spec;
    struct child_options child;
    struct layout_child children[1 + ROOT_SHARDS_MAX];
    size_t child_count;
    int replicas;
    int64_t first; /* ordinal; -1: not known */
    struct layout layout;
};

static const char *namespace_of(const struct shard_files *r, const cJSON *object)
{
    const char *ns = field_meta(object, "namespace");
    return ns[0] == '\0' ? r->options->namespace : ns;
}

/* ---- what there is ---- */

static struct config_entry *find_config(const struct expansion *x, const char *name)
{
    const struct config_list *list = &x->files->files.configs;
    for (size_t i = 0; i < list->count; i++) {
        const cJSON *config = list->entries[i].config;
        if (config != NULL && strcmp(field_meta(config, "name"), name) == 0 &&
            strcmp(namespace_of(x->files, config), x->ns) == 0) {
            return &list->entries[i];
        }
    }
    return NULL;
}

static bool is_own(const struct expansion *x, const struct config_entry *entry)
{
    const char *root = field_meta(x->entry.config, "name");
    return entry->source == NULL && strcmp(root_child_parent(entry->config, x->prefix), root) == 0;
}

/* NULL: there is none of that number, or it is somebody else's. */
static struct config_entry *find_child(const struct expansion *x, unsigned number)
{
    char name[CHILD_NAME_SIZE];
    struct config_entry *entry =
        child_name(&x->spec, number, name) == 0 ? find_config(x, name) : NULL;
    return entry != NULL && is_own(x, entry) ? entry : NULL;
}

static int replicas_of(const cJSON *workload)
{
    const cJSON *replicas = field_get(field_get(workload, "spec"), "replicas");
    if (replicas == NULL) {
        return 1; /* the API server's default */
    }
    return cJSON_IsNumber(replicas) && replicas->valueint >= 0 ? replicas->valueint : -1;
}

static void find_replicas(struct expansion *x)
{
    const struct config_list *list = &x->files->files.workloads;
    x->replicas = -1;
    x->first = -1;
    for (size_t i = 0; i < list->count; i++) {
        const cJSON *workload = list->entries[i].config;
        if (strcmp(field_text(workload, "kind"), root_target_kind(&x->spec)) == 0 &&
            strcmp(field_meta(workload, "name"), x->spec.target) == 0 &&
            strcmp(namespace_of(x->files, workload), x->ns) == 0) {
            x->replicas = replicas_of(workload);
            x->first = root_first_ordinal(workload);
            list->entries[i].used = true;
        }
    }
}

/* Those that are not there yet come to live too, if it is known how many there are to be. One whose
 * share others have taken over stays without it. */
static void find_children(struct expansion *x)
{
    bool counted = x->spec.automatic.size != 0 || !x->spec.automatic.there || x->replicas >= 0;
    for (unsigned i = 0; i <= ROOT_SHARDS_MAX; i++) {
        const struct config_entry *entry = find_child(x, i);
        struct layout_child child = {.number = i};
        bool there = entry != NULL && child_read(&x->spec, entry->config, x->prefix, &child) == 0;
        if (there || (counted && i > 0)) {
            child.life = child.taken_over ? LAYOUT_UNKNOWN : LAYOUT_LONG_ALIVE;
            x->children[x->child_count++] = child;
        }
    }
}

/* ---- what is made ---- */

static void note(const struct expansion *x, const char *msg)
{
    shard_files_note_entry(x->files, &x->entry, msg);
}

static void warn(const struct expansion *x, const char *msg)
{
    shard_files_warn_entry(x->files, &x->entry, msg);
}

/* In place of the one that there is; not of one that is somebody else's. Takes `child`. */
static void place(struct expansion *x, cJSON *child)
{
    struct shard_files *r = x->files;
    struct config_entry *entry = find_config(x, field_meta(child, "name"));
    if (entry != NULL && !is_own(x, entry) && entry->source == NULL) {
        cJSON_Delete(child);
        return;
    }
    cJSON_AddItemToArray(r->made, child);
    if (entry != NULL && entry->source == NULL) {
        *entry = (struct config_entry){
            .config = child, .file = x->entry.file, .source = x->entry.config};
    } else {
        config_files_add(&r->files.configs, child, &x->entry);
    }
}

static void make_shards(struct expansion *x)
{
    struct err e = ERR_INIT;
    for (size_t i = 0; i < x->layout.count; i++) {
        cJSON *child = child_make(&x->child, &x->layout.shards[i], &e);
        if (child == NULL) {
            shard_files_fail_entry(x->files, &x->entry, e.msg);
            return;
        }
        place(x, child);
    }
}

static bool is_made(const struct expansion *x, unsigned number)
{
    for (size_t i = 0; i < x->layout.count; i++) {
        if (x->layout.shards[i].number == number) {
            return true;
        }
    }
    return false;
}

static void drop_others(struct expansion *x)
{
    for (unsigned i = 0; i <= ROOT_SHARDS_MAX; i++) {
        struct config_entry *entry = is_made(x, i) ? NULL : find_child(x, i);
        if (entry != NULL) {
            char msg[RULES_SET_NAME];
            (void)snprintf(msg, sizeof msg,
                           "spec.root: shard %.300s is not to be any more: it goes when it has no "
                           "pods",
                           field_meta(entry->config, "name"));
            note(x, msg);
            entry->config = NULL;
        }
    }
}

static void note_unknown(const struct expansion *x)
{
    char msg[ERR_MSG_MAX];
    const char *kind = root_target_kind(&x->spec);
    bool counts = x->spec.automatic.there && x->spec.automatic.size == 0;
    if (x->replicas < 0 && counts) {
        (void)snprintf(msg, sizeof msg,
                       "spec.root.target%s: %s %.253s is not in the input: the number of shards is "
                       "what there is: %u",
                       kind, kind, x->spec.target, x->layout.size);
        note(x, msg);
    }
    if (child_needs_namespaces(&x->spec) && x->child.namespaces.names == NULL) {
        warn(x, "spec.root.canary: the namespaces are not known, so the canary has inNamespaces "
                "alone, and what else it would have is in no shard: give --namespaces");
    }
    if (x->replicas >= 0 && (unsigned)x->replicas < x->layout.needed) {
        (void)snprintf(msg, sizeof msg, "spec.root: the shards need %u pods, and %s %.253s has %d",
                       x->layout.needed, kind, x->spec.target, x->replicas);
        warn(x, msg);
    }
    if (x->replicas >= 0 && (unsigned)x->replicas > x->layout.room) {
        (void)snprintf(msg, sizeof msg,
                       "spec.root: the shards have room for %u pods, and %s %.253s has %d: "
                       "further ones are refused if they ask for sidecars",
                       x->layout.room, kind, x->spec.target, x->replicas);
        warn(x, msg);
    }
}

static void expand(struct expansion *x)
{
    const struct namespace_names *names = &x->files->names;
    x->child = (struct child_options){
        .root = x->entry.config, .spec = &x->spec, .labels = &x->labels, .ns = x->ns};
    if (names->count > 0) {
        x->child.namespaces = (struct child_namespaces){.names = (const char *const *)names->items,
                                                        .count = names->count};
    }
    find_replicas(x);
    find_children(x);
    const struct layout_facts facts = {.children = x->children,
                                       .child_count = x->child_count,
                                       .replicas = x->replicas,
                                       .first = x->first};
    layout_make(&x->spec, &facts, &x->layout);
    drop_others(x);
    make_shards(x);
    note_unknown(x);
}

/* Validation tells what is wrong. */
static bool is_right(struct expansion *x)
{
    struct err ignored = ERR_INIT;
    struct validate_root draft;
    bool right = root_spec_read(x->entry.config, &x->spec, &ignored) == 0 &&
                 validate_root(x->entry.config, &x->files->with, &draft, &ignored) == 0;
    if (right) {
        rules_unref(draft.rules);
        selector_free(draft.pods);
    }
    return right;
}

static void expand_entry(struct shard_files *r, const struct config_entry *entry)
{
    struct expansion x = {.files = r, .entry = *entry, .labels = r->options->labels};
    x.ns = namespace_of(r, entry->config);
    compile_prefix(entry->config, &x.labels, x.prefix);
    x.labels.prefix = x.prefix;
    if (!is_right(&x)) {
        return;
    }
    if (x.spec.disable) {
        note(&x, "spec.root.disable: its shards stay as they are: none is made");
        return;
    }
    expand(&x);
}

/* ---- all ---- */

static void note_unused(struct shard_files *r)
{
    const struct config_list *list = &r->files.workloads;
    for (size_t i = 0; i < list->count; i++) {
        if (!list->entries[i].used) {
            char msg[80];
            (void)snprintf(msg, sizeof msg, "skipped: kind %.20s, not a " COMPILE_KIND,
                           field_text(list->entries[i].config, "kind"));
            shard_files_note_entry(r, &list->entries[i], msg);
        }
    }
}

static void compact(struct config_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->entries[i].config != NULL) {
            list->entries[kept++] = list->entries[i];
        }
    }
    list->count = kept;
}

void shard_roots_expand(struct shard_files *r)
{
    size_t count = r->files.configs.count;
    r->made = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        const struct config_entry *entry = &r->files.configs.entries[i];
        if (entry->config != NULL && entry->source == NULL &&
            field_get(field_get(entry->config, "spec"), "root") != NULL) {
            expand_entry(r, entry);
        }
    }
    compact(&r->files.configs);
    note_unused(r);
}
