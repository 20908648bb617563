/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/ca_bundle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "crypto/certificate.h"
#include "kube/client/object_request.h"
#include "net/work_queue.h"
#include "webhook/configuration.h"
#include "json/field.h"

#define MANAGER "cmesh-manager"
#define GROUP "/apis/admissionregistration.k8s.io/v1/"

enum {
    RETRY_MIN_MS = 200,
    RETRY_MAX_MS = 60 * 1000,
    FOLLOW_AGAIN_MS = 1000,
    CONDITION_AGAIN_MS = 10 * 60 * 1000,
    TRIES = 4,
};

enum kind { MUTATING, VALIDATING, KINDS };

static const char *const paths[KINDS] = {
    [MUTATING] = GROUP "mutatingwebhookconfigurations",
    [VALIDATING] = GROUP "validatingwebhookconfigurations",
};

/* One configuration of the API server. */
struct entry {
    struct list link;
    enum kind kind;
    bool stale; /* not shown by the list that runs */
    bool wrong;
    uint64_t refused_until; /* the match condition is not tried again before; 0: now */
    cJSON *object;
    char key[]; /* "0/NAME": its kind and its name */
};

/* LISTING --> SYNCED; and either --> LOST, there was no memory for what was shown --> LISTING. */
enum source_state { SOURCE_LISTING, SOURCE_SYNCED, SOURCE_LOST };

static const struct state_machine source_states = {
    .object = "webhook configurations",
    .states = {[SOURCE_LISTING] = {"Listing", STATE(SOURCE_SYNCED) | STATE(SOURCE_LOST)},
               [SOURCE_SYNCED] = {"Synced", STATE(SOURCE_LOST)},
               [SOURCE_LOST] = {"Lost", STATE(SOURCE_LOST) | STATE(SOURCE_LISTING)}},
};

struct source {
    struct ca_bundle *owner;
    enum kind kind;
    enum source_state state;
    struct reflector *reflector;
    struct err error;
};

struct ca_bundle {
    struct net_loop *loop;
    struct kube_client *client;
    const struct reflector_ops *ops;
    const struct net_clock *clock;
    struct configuration_target target;
    const char *selector;
    bool (*may_write)(void *data);
    void (*on_change)(void *data);
    void *data;

    struct source sources[KINDS];
    struct net_timer *timer;
    struct list entries;
    struct work_queue *queue;
    struct object_request *request;
    char *writing;          /* the key that is being written */
    bool writing_condition; /* and nothing else */

    char *bundle; /* NULL: not known yet */
    cJSON *rules; /* NULL: not known yet */
    bool all;     /* there are no other rules */
    const struct labels_keys *keys;
    enum configuration_condition condition;
    bool warned; /* that there are no webhooks of ours */
    struct err write;
    struct err refusal; /* of the match condition, the last one */
    struct ca_bundle_stats stats;
};

/* ---- what there is ---- */

static struct entry *find_entry(const struct ca_bundle *b, const char *key)
{
    LIST_FOR_EACH(n, &b->entries)
    {
        struct entry *entry = LIST_ITEM(n, struct entry, link);
        if (strcmp(entry->key, key) == 0) {
            return entry;
        }
    }
    return NULL;
}

static void entry_free(struct entry *entry)
{
    list_remove(&entry->link);
    cJSON_Delete(entry->object);
    free(entry);
}

static void recount(struct ca_bundle *b)
{
    b->stats.configurations = 0;
    b->stats.webhooks = 0;
    b->stats.wrong = 0;
    LIST_FOR_EACH(n, &b->entries)
    {
        const struct entry *entry = LIST_ITEM(n, struct entry, link);
        b->stats.configurations++;
        b->stats.webhooks += configuration_count(&b->target, entry->object);
        b->stats.wrong += entry->wrong ? 1 : 0;
    }
}

static int enqueue(struct ca_bundle *b, const char *key)
{
    int rc = work_queue_add(b->queue, key);
    if (rc != 0) {
        (void)err_set(&b->write, rc, "out of memory for webhook configurations");
    }
    return rc;
}

static struct entry *entry_new(struct ca_bundle *b, enum kind kind, const char *key)
{
    size_t size = strlen(key) + 1;
    struct entry *entry = calloc(1, sizeof *entry + size);
    if (entry != NULL) {
        entry->kind = kind;
        memcpy(entry->key, key, size);
        list_append(&b->entries, &entry->link);
    }
    return entry;
}

/* 0 or -ENOMEM. */
static int store_entry(struct ca_bundle *b, enum kind kind, const char *key, const cJSON *object)
{
    cJSON *copy = cJSON_Duplicate(object, true);
    struct entry *entry = find_entry(b, key);
    if (copy != NULL && entry == NULL) {
        entry = entry_new(b, kind, key);
    }
    if (copy == NULL || entry == NULL) {
        cJSON_Delete(copy);
        return -ENOMEM;
    }
    cJSON_Delete(entry->object);
    entry->object = copy;
    entry->stale = false;
    recount(b);
    return enqueue(b, key);
}

static void notify_change(struct ca_bundle *b)
{
    if (b->on_change != NULL) {
        b->on_change(b->data);
    }
}

static void remove_entry(struct ca_bundle *b, const char *key)
{
    struct entry *entry = find_entry(b, key);
    if (entry != NULL) {
        entry_free(entry);
        recount(b);
        notify_change(b);
    }
}

/* ---- following ---- */

static void set_state(struct source *s, enum source_state state)
{
    s->state = state_change(&source_states, s->state, state, slice_str(paths[s->kind]));
}

static bool is_synced(const struct ca_bundle *b)
{
    return b->sources[MUTATING].state == SOURCE_SYNCED &&
           b->sources[VALIDATING].state == SOURCE_SYNCED;
}

static void on_list(void *data)
{
    struct source *s = data;
    struct ca_bundle *b = s->owner;
    LIST_FOR_EACH(n, &b->entries)
    {
        struct entry *entry = LIST_ITEM(n, struct entry, link);
        entry->stale = entry->stale || entry->kind == s->kind;
    }
}

static void follow_again(struct source *s)
{
    set_state(s, SOURCE_LOST);
    net_clock_set_timer(s->owner->clock, s->owner->timer, FOLLOW_AGAIN_MS);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct source *s = data;
    struct ca_bundle *b = s->owner;
    const char *name = field_get(field_get(object, "metadata"), "name")->valuestring;
    char *key = NULL;
    if (asprintf(&key, "%d/%s", (int)s->kind, name) < 0) {
        follow_again(s);
        return;
    }
    if (change == REFLECTOR_DELETED) {
        remove_entry(b, key);
    } else if (store_entry(b, s->kind, key, object) != 0) {
        follow_again(s);
    } else {
        notify_change(b);
    }
    free(key);
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

static void on_synced(void *data)
{
    struct source *s = data;
    struct ca_bundle *b = s->owner;
    for (struct list *n = b->entries.next, *next; n != &b->entries; n = next) {
        struct entry *entry = LIST_ITEM(n, struct entry, link);
        next = n->next;
        if (entry->kind == s->kind && entry->stale) {
            entry_free(entry);
        }
    }
    if (s->state == SOURCE_LISTING) {
        set_state(s, SOURCE_SYNCED);
    }
    recount(b);
    warn_if_none(b);
    notify_change(b);
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct source *s = data;
    s->error = (struct err){0};
    if (error != NULL) {
        (void)err_set(&s->error, -EIO, "cannot read webhook configurations: %s", error);
        log_at(level, "cannot watch webhook configurations", log_str("error", error));
    }
}

static const struct reflector_handlers reflector_handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

static int follow_source(struct source *s, struct err *e)
{
    const struct reflector_options o = {.client = s->owner->client,
                                        .path = paths[s->kind],
                                        .label_selector = s->owner->selector,
                                        .ops = s->owner->ops};
    struct reflector *r = reflector_new(s->owner->loop, &o, &reflector_handlers, s, e);
    if (r == NULL) {
        return e->code;
    }
    reflector_free(s->reflector);
    s->reflector = r;
    if (s->state == SOURCE_LOST) {
        set_state(s, SOURCE_LISTING);
    }
    return 0;
}

static void on_timer(void *data)
{
    struct ca_bundle *b = data;
    struct err e = ERR_INIT;
    for (size_t i = 0; i < KINDS; i++) {
        if (b->sources[i].state == SOURCE_LOST && follow_source(&b->sources[i], &e) != 0) {
            follow_again(&b->sources[i]);
        }
    }
}

/* ---- writing ---- */

static void finish_write(struct ca_bundle *b, enum work_result result, unsigned retry_after)
{
    char *key = b->writing;
    b->writing = NULL;
    work_queue_done(b->queue, key, result, retry_after);
    free(key);
}

/* Whether somebody else was faster. A patch whose test fails is answered 422, as one is that cannot
 * be taken at all; that one fails each time. */
static bool is_conflict(const struct ca_bundle *b, unsigned code)
{
    return code == 409 || code == 404 ||
           (code == 422 && work_queue_failures(b->queue, b->writing) < TRIES);
}

/* Whether the API server has no objection to us, but one to what we wrote. */
static bool is_refusal(unsigned code)
{
    return code == 400 || code == 422;
}

/* Until it is tried again each write is asked about, as without match conditions. */
static void give_up_condition(struct ca_bundle *b, const char *why)
{
    struct entry *entry = find_entry(b, b->writing);
    if (strcmp(b->refusal.msg, why) != 0) {
        (void)err_set(&b->refusal, -EINVAL, "%s", why);
        log_warn("the API server does not take the match condition of webhooks that label: it asks "
                 "about each update",
                 log_str("name", b->writing + 2), log_str("error", b->refusal.msg));
    }
    if (entry != NULL && work_queue_add_after(b->queue, entry->key, CONDITION_AGAIN_MS) == 0) {
        entry->refused_until = net_clock_now(b->clock) + CONDITION_AGAIN_MS;
    }
    finish_write(b, WORK_DONE, 0);
}

/* Whether one of the webhooks that should have the condition is without. */
static bool lacks_condition(const struct ca_bundle *b, const cJSON *object)
{
    const struct configuration_wanted wanted = {.condition = CONFIGURATION_CONDITION_SET,
                                                .keys = b->keys};
    cJSON *patch = NULL;
    bool lacks = configuration_patch(&b->target, &wanted, object, &patch) == 0 && patch != NULL;
    cJSON_Delete(patch);
    return lacks;
}

static void fail_write(struct ca_bundle *b, const struct api_error *error)
{
    b->stats.failures++;
    (void)err_set(&b->write, -EIO, "cannot write webhook configuration %s: %s", b->writing + 2,
                  error->msg);
    log_at(error->level, "cannot write a webhook configuration", log_str("error", b->write.msg));
    finish_write(b, WORK_RETRY, error->retry_after);
}

static void end_write(struct ca_bundle *b, const cJSON *object)
{
    b->write = (struct err){0};
    if (b->writing_condition && lacks_condition(b, object)) {
        give_up_condition(b, "it was dropped: match conditions are switched off there");
        return;
    }
    if (b->writing_condition) {
        b->refusal = (struct err){0};
    }
    b->stats.writes++;
    log_info("repaired a webhook configuration", log_str("name", b->writing + 2));
    finish_write(b, WORK_DONE, 0);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct ca_bundle *b = data;
    b->request = NULL;
    if (object != NULL) {
        end_write(b, object);
    } else if (is_conflict(b, error->code)) {
        b->stats.conflicts++;
        finish_write(b, WORK_RETRY, 0);
    } else if (b->writing_condition && is_refusal(error->code)) {
        give_up_condition(b, error->msg);
    } else {
        fail_write(b, error);
    }
}

static int begin_write(struct ca_bundle *b, const struct entry *entry, const cJSON *patch)
{
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_JSON_PATCH,
        .path = paths[entry->kind],
        .name = entry->key + 2,
        .body = patch,
        .field_manager = MANAGER,
    };
    b->writing = strdup(entry->key);
    if (b->writing == NULL) {
        return err_set(&b->write, -ENOMEM, "out of memory for webhook configurations");
    }
    b->request = object_request_start(b->loop, b->client, &q, on_written, b, &b->write);
    if (b->request == NULL) {
        free(b->writing);
        b->writing = NULL;
        return b->write.code;
    }
    return 0;
}

static bool is_refused(const struct ca_bundle *b, const struct entry *entry)
{
    return entry->refused_until > net_clock_now(b->clock);
}

/* What is to be written next: first what must be right, and then the condition. 0 or -ENOMEM. */
static int plan_write(struct ca_bundle *b, struct entry *entry, cJSON **patch)
{
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
    int rc = configuration_patch(&b->target, &wanted, entry->object, patch);
    entry->wrong = rc != 0 || *patch != NULL;
    b->writing_condition = rc == 0 && *patch == NULL && set && !is_refused(b, entry);
    if (b->writing_condition) {
        wanted.condition = CONFIGURATION_CONDITION_SET;
        rc = configuration_patch(&b->target, &wanted, entry->object, patch);
    }
    recount(b);
    return rc;
}

static void on_work(void *data, const char *key)
{
    struct ca_bundle *b = data;
    struct entry *entry = find_entry(b, key);
    cJSON *patch = NULL;
    int rc = entry == NULL ? 0 : plan_write(b, entry, &patch);
    if (patch != NULL && (b->may_write == NULL || b->may_write(b->data))) {
        rc = begin_write(b, entry, patch);
    }
    cJSON_Delete(patch);
    if (b->writing == NULL) {
        work_queue_done(b->queue, key, rc == 0 ? WORK_DONE : WORK_RETRY, 0);
    }
}

void ca_bundle_check(struct ca_bundle *b)
{
    LIST_FOR_EACH(n, &b->entries)
    {
        (void)enqueue(b, LIST_ITEM(n, struct entry, link)->key);
    }
}

int ca_bundle_set(struct ca_bundle *b, struct slice bundle)
{
    char *copy = strndup(bundle.ptr, bundle.len);
    if (copy == NULL) {
        return -ENOMEM;
    }
    free(b->bundle);
    b->bundle = copy;
    ca_bundle_check(b);
    return 0;
}

int ca_bundle_set_resources(struct ca_bundle *b, const struct sharding_resource *resources,
                            size_t count, bool all)
{
    cJSON *rules = configuration_rules(resources, count);
    if (rules == NULL) {
        return -ENOMEM;
    }
    cJSON_Delete(b->rules);
    b->rules = rules;
    b->all = all;
    ca_bundle_check(b);
    return 0;
}

void ca_bundle_set_conditions(struct ca_bundle *b, bool evaluated)
{
    if (b->keys == NULL) {
        return;
    }
    b->condition = evaluated ? CONFIGURATION_CONDITION_SET : CONFIGURATION_CONDITION_NONE;
    LIST_FOR_EACH(n, &b->entries)
    {
        LIST_ITEM(n, struct entry, link)->refused_until = 0;
    }
    ca_bundle_check(b);
}

/* ---- what is known ---- */

bool ca_bundle_published(const struct ca_bundle *b, struct slice authority)
{
    struct certificate *c = certificate_read(authority, NULL, NULL);
    bool all = c != NULL && is_synced(b);
    for (struct list *n = b->entries.next; n != &b->entries && all; n = n->next) {
        all = configuration_trusts(&b->target, LIST_ITEM(n, struct entry, link)->object, c);
    }
    certificate_free(c);
    return all;
}

bool ca_bundle_pods(const struct ca_bundle *b, const cJSON **selector)
{
    unsigned n = 0;
    *selector = NULL;
    LIST_FOR_EACH(item, &b->entries)
    {
        const struct entry *entry = LIST_ITEM(item, struct entry, link);
        n += configuration_pods(&b->target, entry->object, selector);
    }
    return n == 1 && is_synced(b);
}

const char *ca_bundle_error(const struct ca_bundle *b)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (b->sources[i].error.code != 0) {
            return b->sources[i].error.msg;
        }
    }
    return b->write.code != 0 ? b->write.msg : NULL;
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
    LIST_FOR_EACH(n, &b->entries)
    {
        const struct entry *entry = LIST_ITEM(n, struct entry, link);
        if (lacks_condition(b, entry->object)) {
            return is_refused(b, entry) ? "refused by the API server" : "not written yet";
        }
    }
    return "in use";
}

/* ---- life ---- */

static int start_parts(struct ca_bundle *b, struct err *e)
{
    const struct work_queue_options qo = {.name = "webhook-configurations",
                                          .retry_min_ms = RETRY_MIN_MS,
                                          .retry_max_ms = RETRY_MAX_MS,
                                          .clock = b->clock};
    b->timer = net_timer_new(b->loop, on_timer, b);
    if (b->timer == NULL) {
        return err_memory(e);
    }
    b->queue = work_queue_new(b->loop, &qo, on_work, b, e);
    int rc = b->queue == NULL ? e->code : 0;
    for (size_t i = 0; i < KINDS && rc == 0; i++) {
        b->sources[i].owner = b;
        b->sources[i].kind = (enum kind)i;
        rc = follow_source(&b->sources[i], e);
    }
    return rc;
}

struct ca_bundle *ca_bundle_new(struct net_loop *l, const struct ca_bundle_options *o,
                                struct err *e)
{
    struct err local = ERR_INIT;
    struct ca_bundle *b = calloc(1, sizeof *b);
    e = e == NULL ? &local : e;
    if (b == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    b->loop = l;
    b->client = o->client;
    b->ops = o->ops;
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
    list_init(&b->entries);
    if (start_parts(b, e) != 0) {
        ca_bundle_free(b);
        return NULL;
    }
    return b;
}

void ca_bundle_free(struct ca_bundle *b)
{
    if (b == NULL) {
        return;
    }
    for (size_t i = 0; i < KINDS; i++) {
        reflector_free(b->sources[i].reflector);
    }
    object_request_cancel(b->request);
    work_queue_free(b->queue);
    net_timer_free(b->timer);
    while (!list_empty(&b->entries)) {
        entry_free(LIST_ITEM(b->entries.next, struct entry, link));
    }
    free(b->writing);
    free(b->bundle);
    cJSON_Delete(b->rules);
    free(b);
}
