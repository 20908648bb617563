/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/traffic_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/xalloc.h"
#include "policy/traffic_compile.h"

/* ---- policies ---- */

static void tell_findings(struct traffic_files *t, const struct config_entry *entry,
                          const struct policy_findings *f)
{
    for (size_t i = 0; i < f->warnings.count; i++) {
        shard_files_warn_entry(t->shards, entry, f->warnings.items[i]);
    }
    for (size_t i = 0; i < f->errors.count; i++) {
        shard_files_fail_entry(t->shards, entry, f->errors.items[i]);
    }
    if (f->errors.dropped > 0) {
        char msg[64];
        (void)snprintf(msg, sizeof msg, "spec: and %zu errors more", f->errors.dropped);
        shard_files_fail_entry(t->shards, entry, msg);
    }
}

bool traffic_files_has(const struct traffic_files *t, enum traffic_kind kind, const char *ns,
                       const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct traffic_file_policy *p = &t->items[i];
        if (policy_kind(p->policy) == kind && strcmp(policy_name(p->policy), name) == 0 &&
            strcmp(p->ns, ns) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes over the policy. */
static void add_policy(struct traffic_files *t, const struct config_entry *entry,
                       struct policy *policy)
{
    const char *ns = policy_namespace(policy);
    struct traffic_file_policy p = {.entry = entry, .policy = policy};
    p.ns = ns[0] == '\0' ? t->shards->options->namespace : ns;
    if (traffic_files_has(t, policy_kind(policy), p.ns, policy_name(policy))) {
        char msg[ERR_MSG_MAX];
        (void)snprintf(msg, sizeof msg, "metadata.name: Duplicate value: %s %s/%s",
                       policy_kind_name(policy_kind(policy)), p.ns, policy_name(policy));
        shard_files_fail_entry(t->shards, entry, msg);
        policy_unref(policy);
        return;
    }
    t->items[t->count++] = p;
}

static void read_policy(struct traffic_files *t, const struct config_entry *entry)
{
    struct policy_options options = {.now = (int64_t)time(NULL)};
    struct policy_findings f = POLICY_FINDINGS_INIT;
    enum traffic_kind kind;
    if (!policy_is_one(entry->config, &kind)) {
        return;
    }
    struct policy *policy = policy_read(kind, entry->config, &options, &f);
    tell_findings(t, entry, &f);
    add_policy(t, entry, policy);
    policy_findings_deinit(&f);
}

/* ---- documents ---- */

/* What is left of a ConfigMap beside the rules. */
static size_t find_room(const struct rules *rules)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    xok(rules_to_json(rules, &text)); /* for which there is room */
    size_t room = text.len < TRAFFIC_TEXT_MAX ? TRAFFIC_TEXT_MAX - text.len : 0;
    buf_reset(&text);
    return room;
}

static void tell_outcome(struct traffic_files *t, const struct traffic_file_policy *p,
                         enum traffic_outcome outcome, const struct rules *rules)
{
    char shard[RULES_SET_NAME];
    char msg[RULES_SET_NAME + 128];
    if (outcome == TRAFFIC_TOO_MANY || outcome == TRAFFIC_TOO_LARGE) {
        (void)snprintf(msg, sizeof msg,
                       outcome == TRAFFIC_TOO_MANY
                           ? "spec: Too many: with this one the policies of shard %s are over the "
                             "bounds of a traffic document"
                           : "spec: Too long: there is no room for it in the ConfigMap of shard %s",
                       rules_set_name(rules, shard));
        shard_files_fail_entry(t->shards, p->entry, msg);
    }
}

/* Of one shard: the policies that may be for its pods, and where they stand in `items`. */
struct concerned {
    const struct policy **list;
    size_t *indexes;
    enum traffic_outcome *outcomes;
    size_t count;
};

static void choose(struct traffic_files *t, const struct rules *rules, struct concerned *c)
{
    struct selector *pods = shards_pod_selector(shard_files_config(t->shards, rules), NULL);
    for (size_t i = 0; i < t->count; i++) {
        struct traffic_file_policy *p = &t->items[i];
        if (strcmp(p->ns, rules_shard_namespace(rules)) == 0 && traffic_concerns(pods, p->policy)) {
            p->concerned = true;
            c->indexes[c->count] = i;
            c->list[c->count++] = p->policy;
        }
    }
    selector_free(pods);
}

static int make_document(struct traffic_files *t, const struct rules *rules, struct concerned *c,
                         struct traffic **out, struct err *e)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct traffic_compile_result result = {.outcomes = c->outcomes};
    struct traffic_source source = {.ns = rules_shard_namespace(rules),
                                    .shard = rules_shard_name(rules),
                                    .generation = t->shards->options->generation,
                                    .list = c->list,
                                    .count = c->count,
                                    .room = find_room(rules)};
    int rc = traffic_compile(&source, &text, &result, e);
    if (rc == 0 && text.len > 0) {
        *out = traffic_parse((const char *)buf_data(&text), text.len, e);
        rc = *out == NULL ? xrc(e->code) : 0;
    }
    for (size_t i = 0; i < c->count && rc == 0; i++) {
        tell_outcome(t, &t->items[c->indexes[i]], c->outcomes[i], rules);
    }
    buf_reset(&text);
    return rc;
}

static void compile_shard(struct traffic_files *t, size_t number)
{
    const struct rules *rules = t->shards->results.items[number];
    struct concerned c = {.list = xcalloc(t->count + 1, sizeof(struct policy *)),
                          .indexes = xcalloc(t->count + 1, sizeof(size_t)),
                          .outcomes = xcalloc(t->count + 1, sizeof(enum traffic_outcome))};
    struct err e = ERR_INIT;
    choose(t, rules, &c);
    if (make_document(t, rules, &c, &t->documents[number], &e) != 0) {
        char shard[RULES_SET_NAME];
        err_prefix(&e, "the traffic policies of shard %s", rules_set_name(rules, shard));
        shard_files_fail(t->shards, e.msg);
    }
    free(c.list);
    free(c.indexes);
    free(c.outcomes);
}

/* If one shard alone is looked at, others may have it. */
static void tell_unconcerned(struct traffic_files *t)
{
    for (size_t i = 0; i < t->count && t->shards->shard == NULL; i++) {
        if (!t->items[i].concerned) {
            shard_files_warn_entry(t->shards, t->items[i].entry,
                                   "spec.selector: no ShardingConfig of the input has a pod that "
                                   "it could select");
        }
    }
}

int traffic_files_read(struct traffic_files *t)
{
    const struct config_list *list = &t->shards->files.policies;
    size_t shards = t->shards->results.count;
    t->items = xcalloc(list->count + 1, sizeof *t->items);
    t->documents = xcalloc(shards + 1, sizeof(struct traffic *));
    for (size_t i = 0; i < list->count; i++) {
        read_policy(t, &list->entries[i]);
    }
    if (t->shards->failed || t->count == 0) {
        return t->shards->failed ? -1 : 0;
    }
    t->document_count = shards;
    for (size_t i = 0; i < shards; i++) {
        compile_shard(t, i);
    }
    tell_unconcerned(t);
    return t->shards->failed ? -1 : 0;
}

const struct traffic *traffic_files_document(const struct traffic_files *t, size_t number)
{
    return number < t->document_count ? t->documents[number] : NULL;
}

void traffic_files_deinit(struct traffic_files *t)
{
    for (size_t i = 0; i < t->count; i++) {
        policy_unref(t->items[i].policy);
    }
    for (size_t i = 0; i < t->document_count; i++) {
        traffic_unref(t->documents[i]);
    }
    free(t->items);
    free(t->documents);
}
