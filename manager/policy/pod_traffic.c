/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/pod_traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/utf8.h"
#include "base/xalloc.h"

uint64_t pod_traffic_policy(const char *uid)
{
    return keyed_hash(0, slice_str(uid));
}

/* Of breakers, and of rules that allow and forbid: both begin with it. */
static int compare(const void *left, const void *right)
{
    const struct pod_rule *a = left;
    const struct pod_rule *b = right;
    return a->policy < b->policy ? -1 : a->policy > b->policy ? 1 : strcmp(a->name, b->name);
}

/* False: none of ours has so long a name. */
static bool read_rule(struct pod_rule *out, const char *uid, const char *name)
{
    if (strlen(name) > POLICY_NAME_MAX) {
        return false;
    }
    out->policy = pod_traffic_policy(uid);
    utf8_copy_plain(out->name, sizeof out->name, name);
    return true;
}

static void read_breakers(struct pod_traffic *t, const cJSON *root, size_t most)
{
    struct control_breaker row;
    const cJSON *at = NULL;
    for (size_t i = 0; i < most && control_traffic_next_breaker(root, &at, &row); i++) {
        struct pod_breaker *b = &t->breakers[t->count];
        if (read_rule(&b->rule, row.uid, row.rule)) {
            b->state = row.state;
            b->since = row.since;
            b->until = row.until;
            utf8_copy_plain(b->why, sizeof b->why, row.why);
            t->count++;
        }
    }
    qsort(t->breakers, t->count, sizeof *t->breakers, compare);
}

/* At most so many rows of a list are read. */
static size_t count_rows(const cJSON *root, const char *list)
{
    const cJSON *rows =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "traffic"), list);
    int items = cJSON_GetArraySize(rows);
    return items > CONTROL_TRAFFIC_RULES_MAX ? CONTROL_TRAFFIC_RULES_MAX : (size_t)items;
}

static void read_intercepts(struct pod_traffic *t, const cJSON *root)
{
    struct control_intercept row;
    const cJSON *at = NULL;
    size_t most = count_rows(root, "intercepts");
    t->intercepts = most == 0 ? NULL : xcalloc(most, sizeof *t->intercepts);
    for (size_t i = 0; i < most && control_traffic_next_intercept(root, &at, &row); i++) {
        struct pod_intercept *n = &t->intercepts[t->intercept_count];
        if (read_rule(&n->rule, row.uid, row.rule)) {
            n->refused = row.refused;
            t->intercept_count++;
        }
    }
    if (t->intercept_count > 0) {
        qsort(t->intercepts, t->intercept_count, sizeof *t->intercepts, compare);
    }
}

static void read_document(struct pod_traffic *t, const struct control_traffic_status *s)
{
    char shard[sizeof s->document.shard_namespace + sizeof s->document.shard_name];
    t->in_force = s->document.enforcing;
    if (t->in_force) {
        (void)snprintf(shard, sizeof shard, "%s/%s", s->document.shard_namespace,
                       s->document.shard_name);
        t->shard = keyed_hash(0, slice_str(shard));
        t->generation = s->document.generation;
        (void)snprintf(t->checksum, sizeof t->checksum, "%s", s->document.checksum);
    }
    utf8_copy_plain(t->error, sizeof t->error, s->error == NULL ? "" : s->error);
    t->left_out = s->left_out;
}

struct pod_traffic *pod_traffic_read(const cJSON *root)
{
    struct control_traffic_status s;
    struct control_fault fault;
    struct control_egress_status egress;
    control_traffic_status_read(root, &s);
    if (!s.known) {
        return NULL;
    }
    size_t most = count_rows(root, "breakers");
    struct pod_traffic *t = xcalloc(1, sizeof *t + most * sizeof(struct pod_breaker));
    read_document(t, &s);
    read_breakers(t, root, most);
    t->has_faults = control_traffic_next_fault(root, &(const cJSON *){NULL}, &fault);
    control_egress_status_read(root, &egress);
    t->has_egress = egress.known && egress.address[0] != '\0';
    read_intercepts(t, root);
    return t;
}

void pod_traffic_set_rough(struct pod_traffic *t)
{
    for (size_t i = 0; i < t->intercept_count; i++) {
        t->intercepts[i].rough = t->intercepts[i].refused > 0;
    }
}

void pod_traffic_free(struct pod_traffic *t)
{
    if (t != NULL) {
        free(t->intercepts);
        free(t);
    }
}

static bool has_row(const struct pod_traffic *t, const struct pod_breaker *b)
{
    return bsearch(b, t->breakers, t->count, sizeof *b, compare) != NULL;
}

/* It is closed, and nothing is said of it now. */
static bool is_missing(const struct pod_traffic *now, const struct pod_breaker *b)
{
    return b->state == CONTROL_BREAKER_CLOSED && !has_row(now, b);
}

static struct pod_intercept *find_intercept(const struct pod_traffic *t,
                                            const struct pod_intercept *n)
{
    return t->intercept_count == 0
               ? NULL
               : bsearch(n, t->intercepts, t->intercept_count, sizeof *t->intercepts, compare);
}

/* A number that was known better stands until there is another one. */
static void refine(struct pod_traffic *now, const struct pod_traffic *before)
{
    for (size_t i = 0; i < now->intercept_count; i++) {
        struct pod_intercept *n = &now->intercepts[i];
        const struct pod_intercept *was = n->rough ? find_intercept(before, n) : NULL;
        if (was != NULL && was->refused >= n->refused) {
            *n = *was;
        }
    }
}

/* Those that are left out, as they were. */
static void add_intercepts(struct pod_traffic *now, const struct pod_traffic *before)
{
    size_t most = now->intercept_count + before->intercept_count;
    size_t count = now->intercept_count;
    if (before->intercept_count == 0) {
        return;
    }
    struct pod_intercept *all = xrealloc(now->intercepts, most * sizeof *all);
    now->intercepts = all;
    for (size_t i = 0; i < before->intercept_count && now->left_out > 0; i++) {
        if (find_intercept(now, &before->intercepts[i]) == NULL) {
            all[count++] = before->intercepts[i];
            now->left_out--;
        }
    }
    now->intercept_count = count;
    if (count > 0) {
        qsort(all, count, sizeof *all, compare);
    }
}

/* Takes `now`. */
static struct pod_traffic *add_breakers(struct pod_traffic *now, const struct pod_traffic *before)
{
    size_t most = now->count + before->count;
    struct pod_traffic *t = xcalloc(1, sizeof *t + most * sizeof(struct pod_breaker));
    memcpy(t, now, sizeof *t + now->count * sizeof(struct pod_breaker));
    for (size_t i = 0; i < before->count && t->left_out > 0; i++) {
        if (is_missing(now, &before->breakers[i])) {
            t->breakers[t->count++] = before->breakers[i];
            t->left_out--;
        }
    }
    qsort(t->breakers, t->count, sizeof *t->breakers, compare);
    now->intercepts = NULL; /* taken over */
    pod_traffic_free(now);
    return t;
}

struct pod_traffic *pod_traffic_complete(struct pod_traffic *now, const struct pod_traffic *before)
{
    bool same = before != NULL && now->in_force && pod_traffic_enforces(before, now->checksum);
    if (!same) {
        return now;
    }
    refine(now, before);
    if (now->left_out > 0 && before->count > 0) {
        now = add_breakers(now, before);
    }
    if (now->left_out > 0) {
        add_intercepts(now, before);
    }
    return now;
}

static bool same_breaker(const struct pod_breaker *a, const struct pod_breaker *b)
{
    return compare(a, b) == 0 && a->state == b->state && a->since == b->since &&
           a->until == b->until && strcmp(a->why, b->why) == 0;
}

static bool same_intercept(const struct pod_intercept *a, const struct pod_intercept *b)
{
    return compare(a, b) == 0 && a->refused == b->refused && a->rough == b->rough;
}

bool pod_traffic_same(const struct pod_traffic *a, const struct pod_traffic *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    bool same = a->in_force == b->in_force && a->generation == b->generation &&
                a->shard == b->shard && a->left_out == b->left_out &&
                a->has_faults == b->has_faults && a->has_egress == b->has_egress &&
                a->count == b->count && a->intercept_count == b->intercept_count &&
                strcmp(a->checksum, b->checksum) == 0 && strcmp(a->error, b->error) == 0;
    for (size_t i = 0; same && i < a->count; i++) {
        same = same_breaker(&a->breakers[i], &b->breakers[i]);
    }
    for (size_t i = 0; same && i < a->intercept_count; i++) {
        same = same_intercept(&a->intercepts[i], &b->intercepts[i]);
    }
    return same;
}

/* The place of the first of `all`, which have that size. */
static size_t find(const void *all, size_t length, size_t size, const char *uid, size_t *count)
{
    uint64_t policy = pod_traffic_policy(uid);
    size_t first = 0;
    *count = 0;
    for (size_t i = 0; i < length; i++) {
        const struct pod_rule *rule = (const void *)((const char *)all + i * size);
        first += rule->policy < policy;
        *count += rule->policy == policy;
    }
    return first;
}

const struct pod_breaker *pod_traffic_find(const struct pod_traffic *t, const char *uid,
                                           size_t *count)
{
    return &t->breakers[find(t->breakers, t->count, sizeof *t->breakers, uid, count)];
}

const struct pod_intercept *pod_traffic_find_intercepts(const struct pod_traffic *t,
                                                        const char *uid, size_t *count)
{
    size_t first = find(t->intercepts, t->intercept_count, sizeof *t->intercepts, uid, count);
    return *count == 0 ? NULL : &t->intercepts[first];
}

bool pod_traffic_is_of(const struct pod_traffic *t, const char *shard)
{
    return t->in_force && t->shard == keyed_hash(0, slice_str(shard));
}

bool pod_traffic_enforces(const struct pod_traffic *t, const char *checksum)
{
    return checksum[0] == '\0' ? !t->in_force : t->in_force && strcmp(t->checksum, checksum) == 0;
}
