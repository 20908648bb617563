/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a webhook: the Service that it leads to, with the shards that take part and their
 * ports (find_service); what of its rules can be routed; its entries, which are claimed for its
 * configuration. Once all claims are known: which of them fit, the routes object of each kind, and
 * the configurations without the namespaces that are routed.
 */
#include "commands/route_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "config/sharding_config.h"
#include "kube/selector_overlap.h"
#include "object/route_names.h"
#include "route/entries.h"
#include "route/entries_list.h"
#include "route/narrowing.h"
#include "route/originals.h"
#include "route/route_rules.h"
#include "route/service_ports.h"
#include "json/edit.h"
#include "json/field.h"

/* A Service with our ports, and the shards that take part. */
struct file_service {
    const char *ns;
    const char *name;
    const cJSON *object; /* NULL: it is not among the files */
    struct partition_shard *shards;
    struct entries_shard *entries; /* of these, likewise */
    unsigned *ports;               /* of their containers */
    struct partition_facts facts;
    struct partitioner *partitioner;
    int hold_port;
    enum service_ports_fault fault;
};

/* A configuration with the label. */
struct labelled {
    const struct config_entry *entry;
    enum originals_kind kind;
    cJSON *entries;
    const char **narrowed; /* names of webhooks that are to be */
    size_t narrowed_count;
};

/* ---- shards ---- */

/* Whether the Service may select pods of the shard; both name labels. */
static bool selects(const cJSON *service, const cJSON *config)
{
    struct err e = ERR_INIT;
    struct selector *own = service_ports_selector(service);
    struct selector *pods = shards_pod_selector(config, &e);
    bool both = own != NULL && pods != NULL && selector_overlap(own, pods) != OVERLAP_NONE;
    selector_free(own);
    selector_free(pods);
    return both;
}

static bool takes_part(const struct route_files *r, const struct file_service *s,
                       const struct rules *rules)
{
    const cJSON *config = shard_files_config(r->shards, rules);
    return strcmp(rules_shard_namespace(rules), s->ns) == 0 && compile_webhook_port(config) != 0 &&
           (s->object == NULL || selects(s->object, config));
}

static void add_shard(const struct route_files *r, struct file_service *s,
                      const struct rules *rules)
{
    char shares[NAMES_KEY_SIZE];
    char prefix[COMPILE_PREFIX_SIZE];
    const cJSON *config = shard_files_config(r->shards, rules);
    const cJSON *annotations = field_get(field_get(config, "metadata"), "annotations");
    compile_prefix(config, &r->shards->options->labels, prefix);
    const char *with = field_text(annotations, names_key(prefix, SHARDING_SHARES_WITH, shares));
    size_t i = s->facts.count++;
    char *key = xasprintf("%s/%s", s->ns, rules_shard_name(rules));
    s->ports[i] = compile_webhook_port(config);
    s->entries[i].key = key;
    s->shards[i] = (struct partition_shard){.key = key,
                                            .wanted = rules,
                                            .published = rules,
                                            .confirmed = true,
                                            .can_gain = true,
                                            .hold = compile_webhook_holds(config),
                                            .shares_with = *with == '\0' ? NULL : with};
}

/* They are sorted, as the results are. */
static void find_shards(const struct route_files *r, struct file_service *s)
{
    const struct rules_set *results = &r->shards->results;
    s->shards = xcalloc(results->count + 1, sizeof *s->shards);
    s->entries = xcalloc(results->count + 1, sizeof *s->entries);
    s->ports = xcalloc(results->count + 1, sizeof *s->ports);
    for (size_t i = 0; i < results->count; i++) {
        if (takes_part(r, s, results->items[i])) {
            add_shard(r, s, results->items[i]);
        }
    }
    s->facts.shards = s->shards;
    s->facts.shared = &r->shards->shared;
    s->facts.own = &s->ns;
    s->facts.own_count = 1;
    s->partitioner = partitioner_new(&s->facts);
}

/* ---- Services ---- */

static void give_ports(struct file_service *s)
{
    size_t count = s->facts.count;
    struct service_port *ports = xcalloc(count + 1, sizeof *ports);
    struct service_ports plan;
    bool hold = false;
    for (size_t i = 0; i < count; i++) {
        (void)route_port_name(s->shards[i].key, ports[i].name);
        hold = hold || s->shards[i].hold;
    }
    (void)snprintf(ports[count].name, sizeof ports[count].name, "%s", ROUTE_HOLD_PORT);
    service_ports_plan(s->object, ports, count + hold, &plan);
    for (size_t i = 0; i < count; i++) {
        s->entries[i].port = ports[i].number;
    }
    s->hold_port = hold ? ports[count].number : 0;
    s->fault = plan.fault;
    cJSON_Delete(plan.apply);
    free(ports);
}

static const cJSON *find_object(const struct route_files *r, const char *ns, const char *name)
{
    const struct config_list *list = &r->shards->files.services;
    for (size_t i = 0; i < list->count; i++) {
        const cJSON *object = list->entries[i].config;
        const char *own = shards_namespace(object);
        own = *own == '\0' ? r->shards->options->namespace : own;
        if (strcmp(shards_name(object), name) == 0 && strcmp(own, ns) == 0) {
            list->entries[i].used = true;
            return object;
        }
    }
    return NULL;
}

/* Each once. Valid until the next one is found. */
static const struct file_service *find_service(struct route_files *r, const char *ns,
                                               const char *name)
{
    for (size_t i = 0; i < r->service_count; i++) {
        if (strcmp(r->services[i].ns, ns) == 0 && strcmp(r->services[i].name, name) == 0) {
            return &r->services[i];
        }
    }
    struct file_service *s = &r->services[r->service_count++];
    *s = (struct file_service){.ns = ns, .name = name, .object = find_object(r, ns, name)};
    find_shards(r, s);
    give_ports(s);
    return s;
}

static void service_deinit(struct file_service *s)
{
    partitioner_free(s->partitioner);
    for (size_t i = 0; i < s->facts.count; i++) {
        free((char *)s->shards[i].key);
    }
    free(s->shards);
    free(s->entries);
    free(s->ports);
}

/* ---- one webhook ---- */

/* What is known of it while it is looked at. */
struct look {
    struct route_files *files;
    struct labelled *original;
    const cJSON *webhook;
    size_t place;
    const struct file_service *service; /* with our ports; NULL: it leads to none */
    struct route_rules rules;
};

/* printf arguments follow: what it is about, below the webhook. */
static void warn(const struct look *l, const char *what, const struct route_verdict *why)
{
    char msg[ROUTE_VERDICT_SIZE + 512];
    (void)snprintf(msg, sizeof msg, "webhooks[%zu]%s of %.253s cannot be routed: %s: %s", l->place,
                   what, field_text(l->webhook, "name"), route_reason_text(why->reason), why->text);
    shard_files_warn_entry(l->files->shards, l->original->entry, msg);
}

static void give_up(struct look *l, enum route_reason reason, const char *text)
{
    struct route_verdict why;
    route_verdict_set(&why, reason, "%s", text);
    route_rules_give_up(&l->rules, l->webhook, &why);
}

/* What keeps its Service from leading to shards. */
static void check_service(struct look *l)
{
    const struct file_service *s = l->service;
    char text[512];
    if (s->facts.count == 0) {
        (void)snprintf(text, sizeof text, "%s of namespace %s has spec.webhook.port%s", "no shard",
                       s->ns, s->object != NULL ? " and may be selected by the Service" : "");
        give_up(l, ROUTE_NO_PODS, text);
    } else if (s->fault == SERVICE_PORTS_UNNAMED) {
        (void)snprintf(text, sizeof text,
                       "the only port of Service %.63s has no name, so it cannot have another one",
                       s->name);
        give_up(l, ROUTE_PORT_UNNAMED, text);
    } else if (s->fault == SERVICE_PORTS_TOO_MANY) {
        (void)snprintf(text, sizeof text, "Service %.63s would have more than %d ports", s->name,
                       SERVICE_PORTS_MAX);
        give_up(l, ROUTE_TOO_MANY, text);
    }
}

/* A Service that leads to another port than that of some shard. */
static void check_port(struct look *l)
{
    const struct file_service *s = l->service;
    struct entries_service own;
    char text[640];
    (void)entries_service_of(l->webhook, &own);
    const cJSON *object = find_object(l->files, own.namespace, own.name);
    for (size_t i = 0; object != NULL && i < s->facts.count; i++) {
        if (service_ports_target(object, own.port, s->ports[i]) == SERVICE_PORTS_OTHER) {
            (void)snprintf(text, sizeof text,
                           "port %d of Service %.63s leads to another port than %u, "
                           "spec.webhook.port of shard %.320s",
                           own.port, own.name, s->ports[i], s->shards[i].key);
            give_up(l, ROUTE_OTHER_PORT, text);
            return;
        }
    }
}

static const struct file_service *service_of(struct look *l)
{
    struct entries_service own;
    const cJSON *annotations =
        field_get(field_get(l->original->entry->config, "metadata"), "annotations");
    const char *other = field_text(annotations, l->files->service_key);
    return entries_service_of(l->webhook, &own)
               ? find_service(l->files, own.namespace, *other == '\0' ? own.name : other)
               : NULL;
}

/* Without one whose namespaces are decided. */
static void decide(struct look *l)
{
    static const struct partition_facts none = {.count = 0};
    struct partitioner *nobody = partitioner_new(&none);
    route_rules_init(&l->rules, l->service != NULL ? l->service->partitioner : nobody, l->webhook);
    partitioner_free(nobody);
    if (l->rules.verdict.reason != ROUTE_NOTHING && l->service != NULL) {
        check_service(l);
    }
    if (l->rules.verdict.reason == ROUTE_ROUTED) {
        check_port(l);
    }
}

/* False: nothing of it is routed. */
static bool partition_of(struct look *l, struct partition *next)
{
    struct partition present;
    struct route_verdict why;
    partition_init(&present);
    if (l->rules.verdict.reason != ROUTE_ROUTED) {
        return false;
    }
    if (partitioner_next(l->service->partitioner, &l->rules.resource, &present, next, &why) !=
        ROUTE_ROUTED) {
        route_rules_give_up(&l->rules, l->webhook, &why);
        return false;
    }
    return true;
}

static void tell(const struct look *l)
{
    if (l->rules.verdict.reason != ROUTE_ROUTED && l->rules.verdict.reason != ROUTE_NOTHING) {
        warn(l, "", &l->rules.verdict);
    } else if (l->rules.left.reason != ROUTE_ROUTED) {
        warn(l, ".rules: some", &l->rules.left);
    }
}

static void claim(struct look *l, const struct partition *next)
{
    struct entries_webhook w = {.keys = &l->files->keys,
                                .configuration = shards_name(l->original->entry->config),
                                .webhook = l->webhook};
    if (l->service != NULL) {
        w.shards = l->service->entries;
        w.shard_count = l->service->facts.count;
        w.service = l->service->name;
        w.hold_port = l->service->hold_port;
    }
    entries_make(&w, &l->rules, next, l->original->entries);
}

static void look_at(struct route_files *r, struct labelled *o, const cJSON *webhook, size_t place)
{
    struct look l = {.files = r, .original = o, .webhook = webhook, .place = place};
    struct partition next;
    l.service = service_of(&l);
    decide(&l);
    bool routed = partition_of(&l, &next);
    tell(&l);
    if (routed) {
        o->narrowed[o->narrowed_count++] = field_text(webhook, "name");
    }
    /* What its owner narrowed is asked about in any case. */
    if (routed || narrowing_is(&r->keys, webhook)) {
        claim(&l, routed ? &next : NULL);
    }
    if (routed) {
        partition_deinit(&next);
    }
    route_rules_deinit(&l.rules);
}

/* ---- configurations ---- */

static bool is_kind(const struct labelled *o, enum originals_kind kind)
{
    return strcmp(field_text(o->entry->config, "kind"), originals_kind_name(kind)) == 0;
}

/* Which field is of another type than the API server takes; NULL: none. */
static const char *wrong_field(const cJSON *webhook)
{
    const cJSON *selector = field_get(webhook, "namespaceSelector");
    const cJSON *client = field_get(webhook, "clientConfig");
    const cJSON *list = field_get(selector, "matchExpressions");
    const cJSON *rules = field_get(webhook, "rules");
    if (*field_text(webhook, "name") == '\0') {
        return ".name";
    }
    if (!cJSON_IsObject(client)) {
        return ".clientConfig";
    }
    if (rules != NULL && !cJSON_IsArray(rules)) {
        return ".rules";
    }
    if ((selector != NULL && !cJSON_IsObject(selector)) || (list != NULL && !cJSON_IsArray(list))) {
        return ".namespaceSelector";
    }
    return NULL;
}

/* Whether a field is wrong, which is reported. */
static bool refuse(struct route_files *r, const struct config_entry *entry, const cJSON *webhook,
                   size_t place)
{
    char msg[160];
    const char *field = wrong_field(webhook);
    if (field != NULL) {
        (void)snprintf(msg, sizeof msg, "webhooks[%zu]%s: Invalid value: is missing, or not valid",
                       place, field);
        shard_files_fail_entry(r->shards, entry, msg);
    }
    return field != NULL;
}

static void labelled_init(struct route_files *r, struct labelled *o,
                          const struct config_entry *entry)
{
    const cJSON *webhooks = field_get(entry->config, "webhooks");
    const cJSON *webhook;
    size_t place = 0;
    *o = (struct labelled){.entry = entry, .entries = xptr(cJSON_CreateArray())};
    o->kind = is_kind(o, ORIGINALS_MUTATING) ? ORIGINALS_MUTATING : ORIGINALS_VALIDATING;
    o->narrowed = xcalloc((size_t)cJSON_GetArraySize(webhooks) + 1, sizeof *o->narrowed);
    cJSON_ArrayForEach(webhook, webhooks)
    {
        if (!refuse(r, entry, webhook, place)) {
            look_at(r, o, webhook, place);
        }
        place++;
    }
}

static void labelled_deinit(struct labelled *o)
{
    cJSON_Delete(o->entries);
    free(o->narrowed);
}

/* The routes object of a kind. */
static cJSON *join(const struct entries_claim *claims, size_t count, enum originals_kind kind)
{
    struct edit ed = {0};
    cJSON *object = xptr(cJSON_CreateObject());
    edit_string(&ed, object, "apiVersion", "admissionregistration.k8s.io/v1");
    edit_string(&ed, object, "kind", originals_kind_name(kind));
    edit_string(&ed, edit_object(&ed, object, "metadata"), "name", ROUTE_OBJECT);
    edit_set(&ed, object, "webhooks", entries_list_join(claims, count));
    xok(ed.rc);
    return object;
}

static void warn_too_many(struct route_files *r, struct labelled *o)
{
    char msg[160];
    (void)snprintf(msg, sizeof msg,
                   "webhooks: cannot be routed: %s: more than %d entries or %zu bytes in all",
                   route_reason_text(ROUTE_TOO_MANY), ENTRIES_MAX, ENTRIES_BYTES_MAX);
    shard_files_warn_entry(r->shards, o->entry, msg);
    o->narrowed_count = 0;
}

static void add_routes(struct route_files *r, struct labelled *originals, size_t count,
                       enum originals_kind kind)
{
    struct entries_claim *claims = xcalloc(count + 1, sizeof *claims);
    size_t claimed = 0;
    for (size_t i = 0; i < count; i++) {
        if (originals[i].kind == kind) {
            claims[claimed++] = (struct entries_claim){
                .configuration = shards_name(originals[i].entry->config),
                .created = field_meta(originals[i].entry->config, "creationTimestamp"),
                .entries = originals[i].entries};
        }
    }
    entries_list_fit(claims, claimed, NULL);
    claimed = 0;
    for (size_t i = 0; i < count; i++) {
        if (originals[i].kind == kind && !claims[claimed++].fits) {
            warn_too_many(r, &originals[i]);
        }
    }
    if (claimed > 0) {
        (void)cJSON_AddItemToArray(r->objects, join(claims, claimed, kind));
    }
    free(claims);
}

static bool is_narrowed(void *data, const cJSON *webhook)
{
    const struct labelled *o = data;
    return array_has(o->narrowed, o->narrowed_count, field_text(webhook, "name"));
}

/* As its owner would have it: without our annotation. */
static void add_narrowed(struct route_files *r, struct labelled *o)
{
    struct edit ed = {0};
    cJSON *copy = xptr(cJSON_Duplicate(o->entry->config, true));
    cJSON *patch = narrowing_patch(&r->keys, copy, ROUTE_NARROWED, is_narrowed, o);
    if (patch != NULL) {
        edit_set(&ed, copy, "webhooks", cJSON_DetachItemFromObjectCaseSensitive(patch, "webhooks"));
        xok(ed.rc);
    }
    cJSON_Delete(patch);
    (void)cJSON_AddItemToArray(r->objects, copy);
}

/* ---- all ---- */

static void make(struct route_files *r, struct labelled *originals, size_t count)
{
    r->objects = xptr(cJSON_CreateArray());
    for (int kind = 0; kind < ORIGINALS_KINDS; kind++) {
        add_routes(r, originals, count, (enum originals_kind)kind);
    }
    for (size_t i = 0; i < count; i++) {
        if (originals[i].narrowed_count > 0) {
            add_narrowed(r, &originals[i]);
        }
    }
}

static size_t count_webhooks(const struct config_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        count += (size_t)cJSON_GetArraySize(field_get(list->entries[i].config, "webhooks"));
    }
    return count;
}

void route_files_make(struct route_files *r)
{
    struct err e = ERR_INIT;
    const struct config_list *list = &r->shards->files.webhooks;
    struct compile_labels labels = r->shards->options->labels;
    if (list->count == 0) {
        return;
    }
    if (labels_keys_init(&r->keys, &labels, &e) != 0) {
        shard_files_fail(r->shards, e.msg);
        return;
    }
    (void)names_key(labels.prefix != NULL ? labels.prefix : LABELS_PREFIX, ROUTE_SERVICE,
                    r->service_key);
    r->services = xcalloc(count_webhooks(list) + 1, sizeof *r->services);
    struct labelled *originals = xcalloc(list->count, sizeof *originals);
    for (size_t i = 0; i < list->count; i++) {
        labelled_init(r, &originals[i], &list->entries[i]);
    }
    if (!r->shards->failed) {
        make(r, originals, list->count);
    }
    for (size_t i = 0; i < list->count; i++) {
        labelled_deinit(&originals[i]);
    }
    free(originals);
}

void route_files_deinit(struct route_files *r)
{
    for (size_t i = 0; i < r->service_count; i++) {
        service_deinit(&r->services[i]);
    }
    free(r->services);
    cJSON_Delete(r->objects);
}
