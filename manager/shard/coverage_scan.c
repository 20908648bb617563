/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/coverage_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "compile/coverage.h"
#include "net/blocking.h"

enum { NAMES_MAX = 3, NAME_SIZE = 64, NAMESPACE_BYTES_MAX = 64 * 1024 * 1024 };

struct coverage_scan {
    struct net_blocking *work;
    struct shard_cache *cache; /* kept, which counts the rules */
    coverage_scan_fn *done;
    void *data;
    struct coverage_bounds bounds;
    atomic_bool dropped;
    uint64_t took_ms;
    struct covered found;
    struct sharing_set shared;
    struct buf namespaces; /* each ends with NUL */
    size_t count;
    struct rules *rules[];
};

/* ---- what is told ---- */

/* The first few, by name. */
struct few {
    size_t count;
    char names[NAMES_MAX][NAME_SIZE];
    size_t shards[NAMES_MAX][2];
};

static void few_add(struct few *f, const char *name, size_t a, size_t b)
{
    size_t listed = f->count < NAMES_MAX ? f->count : NAMES_MAX;
    size_t at = listed;
    f->count++;
    while (at > 0 && strcmp(name, f->names[at - 1]) < 0) {
        at--;
        if (at + 1 < NAMES_MAX) {
            memcpy(f->names[at + 1], f->names[at], NAME_SIZE);
            memcpy(f->shards[at + 1], f->shards[at], sizeof f->shards[at]);
        }
    }
    if (at < NAMES_MAX) {
        (void)snprintf(f->names[at], NAME_SIZE, "%s", name);
        f->shards[at][0] = a;
        f->shards[at][1] = b;
    }
}

static void write_few(struct buf *out, const char *head, const struct few *f,
                      struct rules *const *rules)
{
    size_t listed = f->count < NAMES_MAX ? f->count : NAMES_MAX;
    if (listed == 0) {
        return;
    }
    buf_printf(out, "%s%s", out->len > 0 ? " " : "", head);
    for (size_t i = 0; i < listed; i++) {
        buf_printf(out, "%s%s", i > 0 ? ", " : "", f->names[i]);
        if (rules != NULL) {
            buf_printf(out, " (%.50s, %.50s)", rules_shard_name(rules[f->shards[i][0]]),
                       rules_shard_name(rules[f->shards[i][1]]));
        }
    }
    if (f->count > listed) {
        buf_printf(out, " and %zu more", f->count - listed);
    }
    buf_append_char(out, '.');
}

static void write_text(struct covered *c, const struct few *gaps, const struct few *overlaps,
                       struct rules *const *rules)
{
    struct buf out = BUF_INIT(sizeof c->text - 1); /* of the longest names less than 800 */
    write_few(&out, "In no shard: ", gaps, NULL);
    write_few(&out, "In two shards: ", overlaps, rules);
    if (out.len == 0) {
        buf_append_str(&out, "Each namespace is in one shard.");
    }
    (void)snprintf(c->text, sizeof c->text, "%s", xptr(buf_cstr(&out)));
    buf_reset(&out);
}

/* ---- the thread ---- */

static const char *next_namespace(const struct coverage_scan *look, const char *ns)
{
    struct slice all = buf_slice(&look->namespaces);
    const char *next = ns == NULL ? all.ptr : ns + strlen(ns) + 1;
    return all.len == 0 || next >= all.ptr + all.len ? NULL : next;
}

static void look_at_all(struct coverage_scan *look, struct coverage *coverage)
{
    struct covered *found = &look->found;
    struct few gaps = {.count = 0};
    struct few overlaps = {.count = 0};
    for (const char *ns = NULL; !found->unknown && (ns = next_namespace(look, ns)) != NULL;) {
        size_t a = 0;
        size_t b = 0;
        enum coverage_verdict verdict = coverage_look(coverage, ns, &a, &b);
        if (verdict == COVERAGE_GAP) {
            few_add(&gaps, ns, 0, 0);
        } else if (verdict == COVERAGE_OVERLAP) {
            few_add(&overlaps, ns, a, b);
        }
        found->unknown = verdict == COVERAGE_UNKNOWN;
    }
    if (found->unknown) {
        (void)snprintf(found->text, sizeof found->text,
                       "%zu shards have too many limits to be compared in all namespaces: "
                       "`manager coverage` does, however long it takes.",
                       look->count);
        return;
    }
    found->gaps = gaps.count;
    found->overlaps = overlaps.count;
    write_text(found, &gaps, &overlaps, look->rules);
}

static void work(void *data)
{
    struct coverage_scan *look = data;
    uint64_t begun = uv_hrtime();
    struct coverage *coverage =
        coverage_new((const struct rules *const *)look->rules, look->count, &look->bounds);
    look->found.applies = coverage_by_namespace(coverage);
    if (look->found.applies) {
        coverage_set_shared(coverage, &look->shared);
        look_at_all(look, coverage);
    }
    coverage_free(coverage);
    look->took_ms = (uv_hrtime() - begun) / (1000 * 1000);
}

/* ---- the loop ---- */

static void free_look(void *data)
{
    struct coverage_scan *look = data;
    for (size_t i = 0; i < look->count; i++) {
        rules_unref(look->rules[i]);
    }
    shard_cache_release(look->cache);
    sharing_set_deinit(&look->shared);
    buf_reset(&look->namespaces);
    free(look);
}

static void on_done(void *data)
{
    struct coverage_scan *look = data;
    look->done(look->data, &look->found, look->took_ms);
    free_look(look);
}

static int copy_namespaces(struct coverage_scan *look, const struct namespaces *all)
{
    int rc = 0;
    look->namespaces = (struct buf)BUF_INIT(NAMESPACE_BYTES_MAX);
    for (const char *ns = NULL; rc == 0 && (ns = namespaces_next(all, ns)) != NULL;) {
        rc = buf_append(&look->namespaces, ns, strlen(ns) + 1);
    }
    return xrc(rc);
}

struct coverage_scan *coverage_scan_start(struct net_loop *l, struct shard_cache *cache,
                                          struct rules *const *rules, size_t count,
                                          struct sharing_set *shared, const struct namespaces *all,
                                          size_t steps, coverage_scan_fn *done, void *data)
{
    static const struct net_blocking_ops ops = {.work = work, .done = on_done, .drop = free_look};
    struct coverage_scan *look = xcalloc(1, sizeof *look + count * sizeof look->rules[0]);
    look->shared = *shared;
    *shared = (struct sharing_set){.count = 0};
    shard_cache_keep(cache);
    look->cache = cache;
    look->done = done;
    look->data = data;
    look->bounds = (struct coverage_bounds){.steps = steps, .stop = &look->dropped};
    look->count = count;
    for (size_t i = 0; i < count; i++) {
        look->rules[i] = rules_ref(rules[i]);
    }
    if (copy_namespaces(look, all) != 0) {
        free_look(look);
        return NULL;
    }
    look->work = xptr(net_blocking_start(l, &ops, look));
    return look;
}

void coverage_scan_drop(struct coverage_scan *look)
{
    if (look != NULL) {
        look->dropped = true; /* it ends soon */
        net_blocking_drop(look->work);
    }
}
