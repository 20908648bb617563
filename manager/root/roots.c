/* SPDX-License-Identifier: Apache-2.0 */
#include "root/roots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "object/names.h"
#include "root/roots_internal.h"
#include "json/field.h"

enum {
    PARALLEL = 4,
    GATHER_MS = 20,     /* changes of pods and children are gathered for so long, */
    NAMES_MS = 200,     /* and those of namespaces */
    RESYNC_MS = 300000, /* each root is looked at again after this and up to twice this */
};

uint64_t roots_now(const struct roots *r)
{
    return net_clock_now(r->clock);
}

const char *root_namespace(const struct root *t, char out[ROOT_NS_SIZE])
{
    (void)snprintf(out, ROOT_NS_SIZE, "%.*s", (int)strcspn(t->key, "/"), t->key);
    return out;
}

const struct shard_cache_config *root_config(const struct root *t)
{
    const struct shard_cache_config *c = shard_cache_find_config(t->roots->options.cache, t->key);
    return c != NULL && c->root ? c : NULL;
}

char *root_path(const struct root *t)
{
    char ns[ROOT_NS_SIZE];
    return xasprintf(SHARD_CACHE_GROUP_PATH "/namespaces/%s/" SHARD_CACHE_RESOURCE,
                     root_namespace(t, ns));
}

uint64_t root_version(const struct shard_cache_config *config)
{
    uint64_t hash = config == NULL ? 1
                                   : keyed_hash(keyed_hash(0, slice_str(config->uid)),
                                                slice_str(config->version));
    return hash == 0 ? 1 : hash;
}

/* ---- roots ---- */

static void begin(void *state)
{
    struct root *t = state;
    t->roots = t->run.data;
    t->key = t->run.key;
    t->first = -1;
    t->moved_at = roots_now(t->roots);
}

static void forget_children(struct root *t)
{
    for (size_t i = 0; i < ARRAY_LEN(t->children); i++) {
        root_child_forget(&t->children[i]);
    }
    root_load_forget(t);
    root_balance_forget(t);
    t->size = 0;
    t->moved = 0;
    t->conflicts = 0;
}

static void drop(void *state)
{
    struct root *t = state;
    root_end_pass(t);
    forget_children(t);
    targets_leave(t->roots->targets, &t->target);
    cJSON_Delete(t->status);
    free(t->prefix);
    free(t->uid);
}

/* ---- what is to be done ---- */

static void end_namespaces(struct roots *r)
{
    free(r->names);
    r->names = NULL;
    namespaces_free(r->namespaces);
    r->namespaces = NULL;
}

static void release_namespaces(struct roots *r)
{
    bool needed = false;
    for (const struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        needed = needed || t->needs_namespaces;
    }
    if (!needed) {
        end_namespaces(r);
    }
}

static bool end(void *state, enum work_result result)
{
    struct root *t = state;
    bool there = root_config(t) != NULL;
    (void)result;
    t->refused = t->pass.refused;
    root_end_pass(t);
    if (there) {
        reconcile_after(&t->run, RESYNC_MS + net_clock_random(t->roots->clock) % RESYNC_MS);
    }
    t->needs_namespaces = t->needs_namespaces && there;
    release_namespaces(t->roots);
    return there;
}

/* Another root of the same name knows nothing of this one's children. */
static void take_uid(struct root *t, const char *uid)
{
    if (t->uid != NULL && strcmp(t->uid, uid) == 0) {
        return;
    }
    forget_children(t);
    free(t->uid);
    t->uid = xstrdup(uid);
}

static void look(void *state)
{
    struct root *t = state;
    const struct shard_cache_config *config = root_config(t);
    bool ready = shard_cache_synced(t->roots->options.cache);
    if (config == NULL || !ready || field_meta(config->object, "deletionTimestamp")[0] != '\0') {
        reconcile_done(&t->run, WORK_DONE, 0); /* on_ready brings it again */
        return;
    }
    take_uid(t, config->uid);
    root_begin(t);
}

static const struct reconciler_handlers root_handlers = {
    .begin = begin, .reconcile = look, .done = end, .drop = drop};

/* ---- what the cache tells ---- */

static bool is_in_namespace(const struct root *t, const char *ns, size_t len)
{
    return strncmp(t->key, ns, len) == 0 && t->key[len] == '/';
}

static bool has_name_of_child(const struct root *t, const char *name)
{
    size_t len = t->prefix == NULL ? 0 : strlen(t->prefix);
    return len > 0 && strncmp(name, t->prefix, len) == 0 && name[len] == '-';
}

/* Those for which a config may be a child, whatever else it is; `c` NULL: it is gone. There may be
 * many roots in a namespace, and each of their children changes often. */
static void look_at_concerned(struct roots *r, const char *key, const struct shard_cache_config *c)
{
    size_t len = strcspn(key, "/");
    for (const struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        if (is_in_namespace(t, key, len) &&
            (t->refused || t->balance.rival || has_name_of_child(t, key + len + 1) ||
             (c != NULL && root_owns(t, c)))) {
            reconciler_look(r->reconciler, t->key, GATHER_MS);
        }
    }
}

/* The root that a child says to be of. */
static void look_at_parent(struct roots *r, const struct shard_cache_config *child)
{
    const char *name = root_child_parent(child->object, r->options.labels.prefix);
    if (name[0] == '\0') {
        return;
    }
    char *key = xasprintf("%s/%s", child->ns, name);
    const struct shard_cache_config *root = shard_cache_find_config(r->options.cache, key);
    if (root != NULL && root->root) {
        reconciler_look(r->reconciler, key, GATHER_MS);
    }
    free(key);
}

static void on_shard(void *data, const char *key, enum shard_cache_part part)
{
    struct roots *r = data;
    const struct shard_cache_config *c = shard_cache_find_config(r->options.cache, key);
    if (part == SHARD_CACHE_CONFIGMAP) {
        return;
    }
    if (reconciler_find(r->reconciler, key) != NULL || (c != NULL && c->root)) {
        reconciler_look(r->reconciler, key, 0);
    }
    if (c == NULL || part == SHARD_CACHE_CONFIG) {
        look_at_concerned(r, key, c);
    } else {
        look_at_parent(r, c);
    }
}

static void on_ready(void *data)
{
    const struct roots *r = data;
    for (const struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        reconciler_look(r->reconciler, t->key, 0);
    }
}

static const struct shard_cache_handlers handlers = {.on_shard = on_shard, .on_ready = on_ready};

static void on_target(void *data, const char *ns)
{
    const struct roots *r = data;
    for (const struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        if (is_in_namespace(t, ns, strlen(ns))) {
            reconciler_look(r->reconciler, t->key, GATHER_MS);
        }
    }
}

/* ---- the names of namespaces ---- */

static void on_namespaces(void *data)
{
    struct roots *r = data;
    free(r->names);
    r->names = NULL;
    for (const struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        if (t->needs_namespaces) {
            reconciler_look(r->reconciler, t->key, NAMES_MS);
        }
    }
}

static void follow_namespaces(struct roots *r)
{
    const struct namespaces_options o = {
        .client = r->options.client,
        .system = true,
        .effect = "it is not known which namespaces a canary with both lists has",
        .ops = r->options.ops,
        .on_change = on_namespaces,
        .data = r,
    };
    r->namespaces = namespaces_new(r->loop, &o);
}

/* The texts stand behind the array. */
static void collect_names(struct roots *r)
{
    size_t count = 0;
    size_t texts = 1;
    uint64_t digest = 0;
    for (const char *n = NULL; (n = namespaces_next(r->namespaces, n)) != NULL;) {
        count++;
        texts += strlen(n) + 1;
    }
    r->names = xmalloc(count * sizeof *r->names + texts);
    char *at = (char *)(r->names + count);
    r->name_count = 0;
    for (const char *n = NULL; (n = namespaces_next(r->namespaces, n)) != NULL;) {
        size_t size = strlen(n) + 1;
        r->names[r->name_count++] = memcpy(at, n, size);
        at += size;
    }
    qsort(r->names, r->name_count, sizeof *r->names, array_compare_texts);
    for (size_t i = 0; i < r->name_count; i++) {
        digest = keyed_hash(digest, slice_str(r->names[i]));
    }
    r->names_digest = digest;
}

bool roots_names(struct roots *r, struct child_namespaces *out)
{
    if (r->namespaces == NULL) {
        follow_namespaces(r);
    }
    if (!namespaces_synced(r->namespaces)) {
        return false;
    }
    if (r->names == NULL) {
        collect_names(r);
    }
    *out = (struct child_namespaces){.names = r->names, .count = r->name_count};
    return true;
}

/* ---- metrics ---- */

static void write_applies(struct buf *out, const struct roots_counts *n)
{
    static const char name[] = "cmesh_manager_root_applies_total";
    static const char *const results[ROOTS_RESULTS] = {[ROOTS_WRITTEN] = "written",
                                                       [ROOTS_CONFLICT] = "conflict",
                                                       [ROOTS_REFUSED] = "refused",
                                                       [ROOTS_FAILED] = "failed"};
    prometheus_head(out, name, "counter",
                    "Writes of the ShardingConfigs that the leading manager makes of roots, "
                    "deletions among them.");
    for (size_t i = 0; i < ROOTS_RESULTS; i++) {
        buf_printf(out, "%s{result=\"%s\"} %" PRIu64 "\n", name, results[i], n->applies[i]);
    }
}

enum family { FAMILY_READY, FAMILY_SIZED, FAMILY_BALANCED, FAMILY_STATE, FAMILIES };

static const struct {
    const char *name;
    const char *help;
} families[FAMILIES] = {
    [FAMILY_READY] = {"cmesh_manager_root_ready",
                      "1 while the condition Ready of a root is True, 0 otherwise."},
    [FAMILY_SIZED] = {"cmesh_manager_root_sized",
                      "0 while the StatefulSet or Deployment of a root has too few or too many "
                      "pods, cannot be read or does not exist, 1 otherwise."},
    [FAMILY_BALANCED] = {"cmesh_manager_root_balanced",
                         "0 while the pods of a root's Deployment are not spread evenly over its "
                         "shards, or some are in none, 1 otherwise."},
    [FAMILY_STATE] = {"cmesh_manager_root_state",
                      "The reason of a root's condition Ready; always 1."},
};

/* Bytes that all series of roots may take, and those of one series beside the root's key. */
enum { SERIES_BYTES_MAX = 256 * 1024, SERIES_BYTES = 128 };

/* How many can be named, in the order of the table. */
static size_t count_named(const struct roots *r)
{
    size_t bytes = 0;
    size_t count = 0;
    for (const struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        bytes += FAMILIES * (strlen(t->key) + SERIES_BYTES);
        if (bytes > SERIES_BYTES_MAX) {
            break;
        }
        count++;
    }
    return count;
}

static void write_series(struct buf *out, enum family f, const struct root *t)
{
    const char *slash = strchr(t->key, '/');
    const char *reason = t->reported.reason;
    buf_printf(out, "%s{root_namespace=\"%.*s\",root=\"%s\"", families[f].name,
               (int)(slash - t->key), t->key, slash + 1);
    if (f == FAMILY_STATE) {
        buf_printf(out, ",state=\"%s\"} 1\n", reason[0] == '\0' ? "Pending" : reason);
    } else {
        bool holds = f == FAMILY_READY   ? t->reported.ready
                     : f == FAMILY_SIZED ? t->reported.sized || reason[0] == '\0'
                                         : !t->reported.unbalanced;
        buf_printf(out, "} %d\n", holds ? 1 : 0);
    }
}

static void write_families(const struct roots *r, struct buf *out)
{
    for (enum family f = 0; f < FAMILIES; f++) {
        size_t left = count_named(r);
        const struct root *t = NULL;
        prometheus_head(out, families[f].name, "gauge", families[f].help);
        for (; left > 0 && (t = reconciler_next(r->reconciler, t)) != NULL; left--) {
            write_series(out, f, t);
        }
    }
}

static void write_roots(const struct roots *r, struct buf *out)
{
    uint64_t children = 0;
    for (const struct root *t = NULL; (t = reconciler_next(r->reconciler, t)) != NULL;) {
        children += t->child_count;
    }
    const struct prometheus_metric gauges[] = {
        {"cmesh_manager_root_roots", "gauge", "ShardingConfigs with root, automatic shards.",
         reconciler_count(r->reconciler)},
        {"cmesh_manager_root_children", "gauge", "ShardingConfigs that were made of roots.",
         children},
    };
    prometheus_write(out, gauges, ARRAY_LEN(gauges));
    write_families(r, out);
}

void roots_metrics(const struct roots *r, const struct roots_counts *n, struct buf *out)
{
    const struct prometheus_metric counters[] = {
        {"cmesh_manager_root_buckets_moved_total", "counter",
         "Buckets of namespaces that went from one automatic shard to another.", n->moved},
        {"cmesh_manager_root_rebalanced_total", "counter",
         "Buckets of namespaces that went from one automatic shard to another for the sake of "
         "load.",
         n->rebalanced},
        {"cmesh_manager_root_takeovers_total", "counter",
         "Automatic shards whose share was given to the others because they had no ready pod.",
         n->takeovers},
    };
    prometheus_write(out, counters, ARRAY_LEN(counters));
    write_applies(out, n);
    eviction_write_counts(out, "cmesh_manager_root_evictions_total",
                          "Evictions of surplus pods of Deployments with automatic shards, by "
                          "result.",
                          n->evictions);
    if (r != NULL) {
        write_roots(r, out);
    }
}

const struct work_queue *roots_queue(const struct roots *r)
{
    return reconciler_queue(r->reconciler);
}

/* ---- life ---- */

struct roots *roots_new(struct net_loop *l, const struct roots_options *o)
{
    struct roots *r = xcalloc(1, sizeof *r);
    r->loop = l;
    r->options = *o;
    r->clock = o->clock != NULL ? o->clock : &net_clock_system;
    const struct reconciler_options reconciler = {
        .name = "roots",
        .kind = "root",
        .parallel = o->parallel != 0 ? o->parallel : PARALLEL,
        .state_size = sizeof(struct root),
        .data = r,
        .client = o->client,
        .may_write = o->may_write,
        .gate = o->data,
        .clock = o->clock,
    };
    const struct targets_options targets = {
        .client = o->client, .max = o->targets, .ops = o->ops, .on_change = on_target, .data = r};
    r->reconciler = reconciler_new(l, &reconciler, &root_handlers);
    r->targets = targets_new(l, &targets);
    roots_load_begin(r);
    r->listener = (struct shard_cache_listener){.handlers = &handlers, .data = r};
    shard_cache_listen(o->cache, &r->listener);
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config(o->cache, c)) != NULL;) {
        if (c->root) {
            reconciler_look(r->reconciler, c->key, 0);
        }
    }
    return r;
}

void roots_free(struct roots *r)
{
    if (r == NULL) {
        return;
    }
    roots_load_end(r);
    shard_cache_unlisten(r->options.cache, &r->listener);
    reconciler_free(r->reconciler);
    targets_free(r->targets);
    end_namespaces(r);
    free(r);
}
