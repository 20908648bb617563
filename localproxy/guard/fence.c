/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/fence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube/name.h"
#include "rules/sharding.h"
#include "upstream/request_attributes.h"

/* Whether an object bears its labels already cannot be told, only what they say. */
static bool op_decides(enum selector_op op)
{
    return op != SELECTOR_EXISTS && op != SELECTOR_NOT_EXISTS;
}

/* Whether the label, which the namespace says something about, is not as required. */
static bool is_excluded(const struct rules_labels *keys, const struct selector_requirement *r,
                        struct slice namespace)
{
    if (strcmp(r->key, keys->namespace) == 0) {
        return !selector_requirement_matches(r, &namespace);
    }
    return strcmp(r->key, keys->shard_hash) == 0 && namespace.len <= NAME_LABEL_MAX &&
           !sharding_accepts(r, namespace);
}

static bool namespace_excluded(const struct rules_labels *keys, struct slice namespace,
                               const struct selector_requirement *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (op_decides(list[i].op) && is_excluded(keys, &list[i], namespace)) {
            return true;
        }
    }
    return false;
}

static bool all_match(const struct selector_requirement *list, size_t count,
                      const struct slice *value)
{
    for (size_t i = 0; i < count; i++) {
        if (!selector_requirement_matches(&list[i], value)) {
            return false;
        }
    }
    return true;
}

static bool op_names_values(enum selector_op op)
{
    return op == SELECTOR_EQUALS || op == SELECTOR_DOUBLE_EQUALS || op == SELECTOR_IN;
}

/* Whether some label value, or having no such label, satisfies all requirements on one key. Of
 * those that leave the values open (`>`, `!=` and so on) it is taken for granted. */
static bool key_satisfiable(const struct selector_requirement *list, size_t count)
{
    if (all_match(list, count, NULL)) {
        return true;
    }
    const struct selector_requirement *set = NULL;
    for (size_t i = 0; i < count; i++) {
        if (list[i].op == SELECTOR_NOT_EXISTS) {
            return false;
        }
        set = op_names_values(list[i].op) ? &list[i] : set;
    }
    for (size_t i = 0; set != NULL && i < set->value_count; i++) {
        struct slice value = slice_str(set->values[i]);
        if (all_match(list, count, &value)) {
            return true;
        }
    }
    return set == NULL;
}

/* Whether two requirements on one key contradict each other. The list is sorted by key. */
static bool matches_nothing(const struct selector_requirement *list, size_t count)
{
    size_t first = 0;
    for (size_t i = 1; i <= count; i++) {
        if (i < count && strcmp(list[i].key, list[first].key) == 0) {
            continue;
        }
        if (i - first > 1 && !key_satisfiable(&list[first], i - first)) {
            return true;
        }
        first = i;
    }
    return false;
}

static bool is_write(const struct request_info *ri)
{
    return request_verb_is_write(ri->verb) || request_info_opens_session(ri);
}

/* Of /api/v1/namespaces/x Kubernetes says that it is in namespace x. */
static bool is_namespaced(const struct request_info *ri)
{
    bool is_namespace = ri->group.len == 0 && slice_eq(ri->resource, SLICE("namespaces"));
    return ri->namespace.len > 0 && !is_namespace;
}

/* What has a name: of a collection it would be a list. The old form of proxy is for any method. */
static bool is_read(const struct request_info *ri)
{
    return (ri->verb == VERB_GET && !request_info_opens_session(ri)) || ri->verb == VERB_PROXY;
}

/* Whether the object is certainly not the shard's. */
static bool is_outside(const struct rules *r, const struct request_info *ri)
{
    if (!is_namespaced(ri)) {
        return false;
    }
    const struct rules_entry *entry = rules_match(r, ri->group, ri->resource);
    if (entry == NULL) {
        return false;
    }
    size_t count;
    const struct selector_requirement *list = selector_requirements(entry->compiled, &count);
    return namespace_excluded(rules_labels(r), ri->namespace, list, count) ||
           matches_nothing(list, count);
}

bool fence_applies(const struct rules *r, const struct request_info *ri)
{
    return r != NULL && ri->is_resource && is_write(ri) && is_outside(r, ri);
}

bool fence_applies_to_read(const struct rules *r, const struct request_info *ri)
{
    return r != NULL && ri->is_resource && is_read(ri) && is_outside(r, ri);
}

/* "deployments.apps/scale" */
static void name_resource(const struct request_info *ri, char *out, size_t size)
{
    struct slice group = ri->group;
    struct slice sub = ri->subresource;
    (void)snprintf(out, size, "%.*s%s%.*s%s%.*s", (int)ri->resource.len, ri->resource.ptr,
                   group.len > 0 ? "." : "", (int)group.len, group.len > 0 ? group.ptr : "",
                   sub.len > 0 ? "/" : "", (int)sub.len, sub.len > 0 ? sub.ptr : "");
}

void fence_message(const struct rules *r, const struct request_info *ri, bool lost, struct err *e)
{
    char resource[128];
    char advice[128];
    name_resource(ri, resource, sizeof resource);
    (void)snprintf(advice, sizeof advice,
                   "widen the limits of the shard's ShardingConfig, or run localproxy with "
                   "--%s-fence=audit or off",
                   is_read(ri) ? "read" : "write");
    int ns_len = ri->namespace.len > NAME_LABEL_MAX ? NAME_LABEL_MAX : (int)ri->namespace.len;
    (void)err_set(
        e, -EACCES,
        "%.*s of %s in namespace \"%.*s\" is fenced: by generation %llu of the rules this "
        "%s shard %.63s/%.100s; %s",
        (int)ri->verb_name.len, ri->verb_name.ptr, resource, ns_len, ri->namespace.ptr,
        (unsigned long long)rules_generation(r),
        lost ? "no longer belongs to" : "does not belong to", rules_shard_namespace(r),
        rules_shard_name(r),
        lost ? "another shard may own it now: drop it and do not retry" : advice);
}

void fence_history_init(struct fence_history *h)
{
    h->count = 0;
}

void fence_history_deinit(struct fence_history *h)
{
    for (size_t i = 0; i < h->count; i++) {
        rules_unref(h->past[i].rules);
    }
    h->count = 0;
}

static void forget_rules(struct fence_history *h, size_t index)
{
    rules_unref(h->past[index].rules);
    h->count--;
    memmove(&h->past[index], &h->past[index + 1], (h->count - index) * sizeof h->past[0]);
}

static bool past_too_old(const struct fence_past *past, uint64_t now_ms)
{
    return now_ms > past->replaced_ms && now_ms - past->replaced_ms > FENCE_HISTORY_MS;
}

void fence_history_add(struct fence_history *h, struct rules *old, uint64_t now_ms)
{
    while (h->count > 0 && past_too_old(&h->past[0], now_ms)) {
        forget_rules(h, 0);
    }
    if (old == NULL) {
        return;
    }
    for (size_t i = 0; i < h->count; i++) {
        if (strcmp(rules_checksum(h->past[i].rules), rules_checksum(old)) == 0) {
            forget_rules(h, i);
            break;
        }
    }
    if (h->count == FENCE_HISTORY_MAX) {
        forget_rules(h, 0);
    }
    h->past[h->count++] = (struct fence_past){.rules = rules_plain(old), .replaced_ms = now_ms};
}

bool fence_lost(const struct fence_history *h, const struct rules *now,
                const struct request_info *ri, uint64_t now_ms)
{
    if (!fence_applies(now, ri)) {
        return false;
    }
    for (size_t i = h->count; i-- > 0;) {
        if (!past_too_old(&h->past[i], now_ms) && !fence_applies(h->past[i].rules, ri)) {
            return true;
        }
    }
    return false;
}
