/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/ca_bundle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "crypto/certificate.h"
#include "kube/client/informer.h"
#include "object/route_names.h"
#include "runtime/reconciler.h"
#include "webhook/configuration.h"
#include "json/field.h"

enum { CONDITION_AGAIN_MS = 10 * 60 * 1000, TRIES = 4 };

enum kind { MUTATING, VALIDATING, KINDS };

/* One configuration of the API server; its key: "0/NAME", its kind and its name. */
struct entry {
    struct informer_item item;
    bool wrong;
    uint64_t refused_until; /* the match condition is not tried again before; 0: now */
    struct err error;       /* why it could not be written */
    cJSON *object;
};

/* Of one of them, with the same key. */
struct write {
    struct reconcile run;
    bool condition; /* and nothing else */
};

struct source {
    struct ca_bundle *owner;
    enum kind kind;
    struct informer *informer;
};

struct ca_bundle {
    const struct net_clock *clock;
    struct configuration_target target;
    const char *selector;
    bool (*may_write)(void *data);
    void (*on_change)(void *data);
    void *data;

    struct source sources[KINDS];
    struct reconciler *writes; /* struct write */

    char *bundle; /* NULL: not known yet */
    cJSON *rules; /* NULL: not known yet */
    bool all;     /* there are no other rules */
    const struct labels_keys *keys;
    enum configuration_condition condition;
    bool warned;        /* that there are no webhooks of ours */
    struct err refusal; /* of the match condition, the last one */
    struct ca_bundle_stats stats;
};

/* ---- what there is ---- */

static struct entry *entry_of(struct informer_item *item)
{
    return (struct entry *)(void *)item;
}

static enum kind kind_of(const char *key)
{
    return key[0] == '0' ? MUTATING : VALIDATING;
}

static struct entry *find_entry(const struct ca_bundle *b, const char *key)
{
    return entry_of(informer_find(b->sources[kind_of(key)].informer, key));
}

/* NULL begins, and ends. */
static struct entry *next_entry(const struct ca_bundle *b, const struct entry *entry)
{
    bool mutating = entry == NULL || kind_of(entry->item.node.key) == MUTATING;
    const struct informer *f = b->sources[mutating ? MUTATING : VALIDATING].informer;
    struct informer_item *next = informer_next(f, entry == NULL ? NULL : &entry->item);
    if (next == NULL && mutating) {
        next = informer_next(b->sources[VALIDATING].informer, NULL);
    }
    return entry_of(next);
}

static void recount(struct ca_bundle *b)
{
    b->stats.configurations = 0;
    b->stats.webhooks = 0;
    b->stats.wrong = 0;
    for (const struct entry *entry = NULL; (entry = next_entry(b, entry)) != NULL;) {
        b->stats.configurations++;
        b->stats.webhooks += configuration_count(&b->target, entry->object);
        b->stats.wrong += entry->wrong ? 1 : 0;
    }
}

static void enqueue(struct ca_bundle *b, const struct entry *entry)
{
    work_queue_add(reconciler_queue(b->writes), entry->item.node.key);
}

static void notify_change(struct ca_bundle *b)
{
    if (b->on_change != NULL) {
        b->on_change(b->data);
    }
}

/* ---- following ---- */

static bool is_synced(const struct ca_bundle *b)
{
    return informer_synced(b->sources[MUTATING].informer) &&
           informer_synced(b->sources[VALIDATING].informer);
}

/* What leads to operators has the label, too, and is not ours to repair. */
static char *key_of(void *data, const cJSON *object)
{
    const struct source *s = data;
    const char *name = field_meta(object, "name");
    return strcmp(name, ROUTE_OBJECT) == 0 ? NULL : xasprintf("%d/%s", (int)s->kind, name);
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct entry *entry = *item != NULL ? entry_of(*item) : informer_item_new(sizeof *entry, key);
    (void)data;
    cJSON_Delete(entry->object);
    entry->object = cJSON_Duplicate(object, true);
    *item = &entry->item;
    return true;
}

static void drop(void *data, struct informer_item *item)
{
    struct entry *entry = entry_of(item);
    (void)data;
    cJSON_Delete(entry->object);
    free(entry);
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    const struct source *s = data;
    (void)before;
    recount(s->owner);
    if (after != NULL) {
        enqueue(s->owner, entry_of(after));
    }
    notify_change(s->owner);
}

/* Once: an installation without them is easily taken for one that works. */
static void warn_if_none(struct ca_bundle *b)
{
    if (is_synced(b) && b->stats.webhooks == 0 && !b->warned) {
        b->warned = true;
        log_warn("no webhook configuration refers to this manager: it will not be called",
                 log_str("selector", b->selector), log_str("namespace", b->target.namespace),
                 log_str("service", b->target.service));
    }
}

static void on_synced(void *data, bool first)
{
    const struct source *s = data;
    (void)first;
    warn_if_none(s->owner);
    notify_change(s->owner);
}

#define KIND(name)                                                                                 \
    {                                                                                              \
        .path = "/apis/admissionregistration.k8s.io/v1/" name, .key = key_of, .keep = keep,        \
        .drop = drop, .on_change = on_change, .on_synced = on_synced                               \
    }

static const struct informer_kind kinds[KINDS] = {
    [MUTATING] = KIND("mutatingwebhookconfigurations"),
    [VALIDATING] = KIND("validatingwebhookconfigurations"),
};

/* ---- writing ---- */

/* Whether somebody else was faster. A patch whose test fails is answered 422, as one is that cannot
 * be taken at all; that one fails each time. */
static bool is_conflict(const struct write *w, unsigned code)
{
    const struct ca_bundle *b = w->run.data;
    return code == 409 || code == 404 ||
           (code == 422 && work_queue_failures(reconciler_queue(b->writes), w->run.key) < TRIES);
}

/* Whether the API server has no objection to us, but one to what we wrote. */
static bool is_refusal(unsigned code)
{
    return code == 400 || code == 422;
}

/* Until it is tried again each write is asked about, as without match conditions. */
static void give_up_condition(struct write *w, const char *why)
{
    struct ca_bundle *b = w->run.data;
    struct entry *entry = find_entry(b, w->run.key);
    if (strcmp(b->refusal.msg, why) != 0) {
        (void)err_set(&b->refusal, -EINVAL, "%s", why);
        log_warn("the API server does not take the match condition of webhooks that label: it asks "
                 "about each update",
                 log_str("name", w->run.key + 2), log_str("error", b->refusal.msg));
    }
    if (entry != NULL) {
        err_clear(&entry->error);
        entry->refused_until = net_clock_now(b->clock) + CONDITION_AGAIN_MS;
        reconcile_after(&w->run, CONDITION_AGAIN_MS);
    }
    reconcile_done(&w->run, WORK_DONE, 0);
}

/* Whether one of the webhooks that should have the condition is without. */
static bool lacks_condition(const struct ca_bundle *b, const cJSON *object)
{
    const struct configuration_wanted wanted = {.condition = CONFIGURATION_CONDITION_SET,
                                                .keys = b->keys};
    cJSON *patch = configuration_patch(&b->target, &wanted, object);
    cJSON_Delete(patch);
    return patch != NULL;
}

static void fail_write(struct write *w, const struct api_error *error)
{
    struct ca_bundle *b = w->run.data;
    struct entry *entry = find_entry(b, w->run.key);
    struct err e = ERR_INIT;
    b->stats.failures++;
    (void)err_set(&e, -EIO, "cannot write webhook configuration %s: %s", w->run.key + 2,
                  error->msg);
    log_at(error->level, "cannot write a webhook configuration", log_str("error", e.msg));
    if (entry != NULL) {
        entry->error = e;
    }
    reconcile_done(&w->run, WORK_RETRY, error->retry_after);
}

static void end_write(struct write *w, const cJSON *object)
{
    struct ca_bundle *b = w->run.data;
    struct entry *entry = find_entry(b, w->run.key);
    if (entry != NULL) {
        err_clear(&entry->error);
    }
    if (w->condition && lacks_condition(b, object)) {
        give_up_condition(w, "it was dropped: match conditions are switched off there");
        return;
    }
    if (w->condition) {
        b->refusal = (struct err){0};
    }
    b->stats.writes++;
    log_info("repaired a webhook configuration", log_str("name", w->run.key + 2));
    reconcile_done(&w->run, WORK_DONE, 0);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct write *w = data;
    struct ca_bundle *b = w->run.data;
    if (object != NULL) {
        end_write(w, object);
    } else if (is_conflict(w, error->code)) {
        b->stats.conflicts++;
        reconcile_done(&w->run, WORK_RETRY, 0);
    } else if (w->condition && is_refusal(error->code)) {
        give_up_condition(w, error->msg);
    } else {
        fail_write(w, error);
    }
}

static bool is_refused(const struct ca_bundle *b, const struct entry *entry)
{
    return entry->refused_until > net_clock_now(b->clock);
}

/* What is to be written next: first what must be right, and then the condition. NULL: nothing. */
static cJSON *plan_write(struct write *w, struct entry *entry)
{
    struct ca_bundle *b = w->run.data;
    struct configuration_wanted wanted = {
        .bundle = slice_str(b->bundle),
        .rules = b->rules,
        .other_rules = !b->all,
        .condition = b->condition,
        .keys = b->keys,
        .now = net_clock_wall(b->clock) / 1000000,
    };
    bool set = b->condition == CONFIGURATION_CONDITION_SET;
    if (set) {
        wanted.condition = CONFIGURATION_CONDITION_KEPT;
    }
    cJSON *patch = configuration_patch(&b->target, &wanted, entry->object);
    entry->wrong = patch != NULL;
    w->condition = patch == NULL && set && !is_refused(b, entry);
    if (w->condition) {
        wanted.condition = CONFIGURATION_CONDITION_SET;
        patch = configuration_patch(&b->target, &wanted, entry->object);
    }
    recount(b);
    return patch;
}

static bool may_write(void *data)
{
    const struct ca_bundle *b = data;
    return b->may_write == NULL || b->may_write(b->data);
}

static void repair(void *state)
{
    struct write *w = state;
    struct ca_bundle *b = w->run.data;
    struct entry *entry = find_entry(b, w->run.key);
    cJSON *patch = entry == NULL ? NULL : plan_write(w, entry);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_JSON_PATCH,
        .path = kinds[kind_of(w->run.key)].path,
        .name = w->run.key + 2,
        .body = patch,
        .field_manager = "cmesh-manager",
    };
    if (patch != NULL && may_write(b)) {
        reconcile_write(&w->run, &q, NULL, on_written);
    } else {
        if (entry != NULL) { /* it is right, or another one's to write */
            err_clear(&entry->error);
        }
        reconcile_done(&w->run, WORK_DONE, 0);
    }
    cJSON_Delete(patch);
}

static const struct reconciler_handlers handlers = {.reconcile = repair};

void ca_bundle_check(struct ca_bundle *b)
{
    for (const struct entry *entry = NULL; (entry = next_entry(b, entry)) != NULL;) {
        enqueue(b, entry);
    }
}

void ca_bundle_set(struct ca_bundle *b, struct slice bundle)
{
    free(b->bundle);
    b->bundle = xstrndup(bundle.ptr, bundle.len);
    ca_bundle_check(b);
}

void ca_bundle_set_resources(struct ca_bundle *b, const struct sharding_resource *resources,
                             size_t count, bool all)
{
    cJSON_Delete(b->rules);
    b->rules = configuration_rules(resources, count);
    b->all = all;
    ca_bundle_check(b);
}

void ca_bundle_set_conditions(struct ca_bundle *b, bool evaluated)
{
    if (b->keys == NULL) {
        return;
    }
    b->condition = evaluated ? CONFIGURATION_CONDITION_SET : CONFIGURATION_CONDITION_NONE;
    for (struct entry *entry = NULL; (entry = next_entry(b, entry)) != NULL;) {
        entry->refused_until = 0;
    }
    ca_bundle_check(b);
}

/* ---- what is known ---- */

bool ca_bundle_published(const struct ca_bundle *b, struct slice authority)
{
    struct err e = ERR_INIT;
    struct certificate *c = certificate_read(authority, NULL, &e);
    xerr(&e);
    bool all = c != NULL && is_synced(b);
    for (const struct entry *entry = NULL; all && (entry = next_entry(b, entry)) != NULL;) {
        all = configuration_trusts(&b->target, entry->object, c);
    }
    certificate_free(c);
    return all;
}

bool ca_bundle_pods(const struct ca_bundle *b, const cJSON **selector)
{
    unsigned n = 0;
    *selector = NULL;
    for (const struct entry *entry = NULL; (entry = next_entry(b, entry)) != NULL;) {
        n += configuration_pods(&b->target, entry->object, selector);
    }
    return n == 1 && is_synced(b);
}

const char *ca_bundle_error(const struct ca_bundle *b)
{
    for (size_t i = 0; i < KINDS; i++) {
        const char *error = reflector_error(informer_reflector(b->sources[i].informer));
        if (error != NULL) {
            return error;
        }
    }
    const struct entry *entry = next_entry(b, NULL);
    while (entry != NULL && entry->error.code == 0) {
        entry = next_entry(b, entry);
    }
    return entry != NULL ? entry->error.msg : NULL;
}

const struct ca_bundle_stats *ca_bundle_stats(const struct ca_bundle *b)
{
    return &b->stats;
}

const char *ca_bundle_conditions(const struct ca_bundle *b)
{
    switch (b->condition) {
    case CONFIGURATION_CONDITION_LEFT:
        return "left alone";
    case CONFIGURATION_CONDITION_KEPT:
        return "the version of the API server is not known";
    case CONFIGURATION_CONDITION_NONE:
        return "not supported by the API server";
    case CONFIGURATION_CONDITION_SET:
        break;
    }
    for (const struct entry *entry = NULL; (entry = next_entry(b, entry)) != NULL;) {
        if (lacks_condition(b, entry->object)) {
            return is_refused(b, entry) ? "refused by the API server" : "not written yet";
        }
    }
    return "in use";
}

/* ---- life ---- */

static void start_parts(struct ca_bundle *b, struct net_loop *l, const struct ca_bundle_options *o)
{
    const struct reconciler_options ro = {.name = "webhook-configurations",
                                          .kind = "configuration",
                                          .state_size = sizeof(struct write),
                                          .data = b,
                                          .client = o->client,
                                          .may_write = may_write,
                                          .gate = b,
                                          .clock = b->clock};
    const struct informer_options io = {.client = o->client,
                                        .label_selector = b->selector,
                                        .effect = "they are not repaired",
                                        .ops = o->ops};
    b->writes = reconciler_new(l, &ro, &handlers);
    for (size_t i = 0; i < KINDS; i++) {
        struct source *s = &b->sources[i];
        s->owner = b;
        s->kind = (enum kind)i;
        s->informer = informer_new(l, &kinds[i], &io, s);
    }
}

struct ca_bundle *ca_bundle_new(struct net_loop *l, const struct ca_bundle_options *o)
{
    struct ca_bundle *b = xcalloc(1, sizeof *b);
    b->clock = o->clock != NULL ? o->clock : &net_clock_system;
    b->may_write = o->may_write;
    b->on_change = o->on_change;
    b->data = o->data;
    b->keys = o->keys;
    b->condition = o->keys != NULL ? CONFIGURATION_CONDITION_KEPT : CONFIGURATION_CONDITION_LEFT;
    b->selector = o->label_selector != NULL ? o->label_selector : CA_BUNDLE_SELECTOR;
    b->target = (struct configuration_target){.namespace = o->namespace,
                                              .service = o->service,
                                              .hosts = o->hosts,
                                              .host_count = o->host_count};
    start_parts(b, l, o);
    return b;
}

void ca_bundle_free(struct ca_bundle *b)
{
    if (b == NULL) {
        return;
    }
    for (size_t i = 0; i < KINDS; i++) {
        informer_free(b->sources[i].informer);
    }
    reconciler_free(b->writes);
    free(b->bundle);
    cJSON_Delete(b->rules);
    free(b);
}
