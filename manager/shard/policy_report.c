/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people see of a CircuitBreaker or FaultInjection: its status, and Events on breakers that
 * open and recover, and on requests that are refused. A queue of its own: shards do not wait for
 * it.
 *
 *     queue -> a foreign finalizer is taken off -> done
 *           -> the status is made, Events are recorded -> it is written if it is other than before
 *              -> done
 *
 * A status is written once a second at most. Events compare with what was made last, or after the
 * start with what the object says: what is open since before is not told again. Requests that rules
 * have refused are told, and counted in the status, every few minutes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "object/preconditions.h"
#include "shard/controller_internal.h"
#include "shard/policy_found.h"
#include "traffic/policy_status.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum {
    PARALLEL = 4,
    EACH_MS = 1000,    /* between two writes of one status */
    PENDING_MS = 2000, /* for so long nothing is said while it is being published */
    MICROSECONDS = 1000000,
    UNBIND_MS = 30000,    /* until a finalizer that could not be taken off is tried again */
    EVENTS_MAX = 10,      /* about one policy at a time; the rest are counted */
    REFUSALS_MS = 300000, /* between two Events on requests that one policy has refused */
    REFUSERS_MAX = 3,     /* rules in pods that such an Event names */
    REFUSED_BY_MAX = 1536,
    STATUS_MAX = 1024 * 1024,
    KEY_SIZE = 640,
};

struct policy_reporter {
    struct controller *controller;
    struct work_queue *queue;
    struct table states;
};

/* What is remembered of a policy. */
struct state {
    struct table_node node;
    struct policy_reporter *reporter;
    struct object_request *request; /* that is under way */
    char *uid;                      /* of which the rest tells */
    char *last;                     /* the status that was made last, as JSON; NULL: none was */
    char *base;                     /* the version on which the status was written last; NULL */
    char *stored;                   /* the version with `last`, as far as the definition of the kind
                                       has the fields; NULL: it is not written */
    uint64_t written_at;
    bool written;       /* ever */
    bool unbound;       /* the foreign finalizer was taken off */
    bool bared;         /* the API server does not take the object as it is: its spec goes, too */
    uint64_t unbind_at; /* not before; 0: at once */
    bool untaken;       /* the last write of the status, and it was told */
    bool reported;
    uint64_t pending_at; /* since when it is being published; 0: it is not */
    bool refused;        /* requests, of which was told */
    uint64_t refused_at; /* at that time */
    enum policy_enforced enforced;
    size_t open;
    char key[];
};

/* ---- what is remembered ---- */

static struct state *find_state(const struct policy_reporter *r, const char *key)
{
    return TABLE_FIND(&r->states, slice_str(key), struct state);
}

static void free_state(struct state *s)
{
    table_remove(&s->reporter->states, &s->node);
    object_request_cancel(s->request);
    free(s->uid);
    free(s->last);
    free(s->base);
    free(s->stored);
    free(s);
}

static struct state *provide_state(struct policy_reporter *r, const char *key)
{
    struct state *s = TABLE_PROVIDE(&r->states, slice_str(key), struct state, key);
    if (s != NULL) {
        s->reporter = r;
    }
    return s;
}

/* Another object of that name: what was known is of no use. 0 or -ENOMEM. */
static int reset_if_replaced(struct state *s, const struct policy_object *o)
{
    if (s->uid != NULL && strcmp(s->uid, o->uid) == 0) {
        return 0;
    }
    char *uid = strdup(o->uid);
    if (uid == NULL) {
        return -ENOMEM;
    }
    free(s->uid);
    free(s->last);
    free(s->base);
    free(s->stored);
    s->uid = uid;
    s->last = NULL;
    s->base = NULL;
    s->stored = NULL;
    s->written = false;
    s->unbound = false;
    s->bared = false;
    s->unbind_at = 0;
    s->untaken = false;
    s->refused = false;
    s->reported = false;
    return 0;
}

/* `s` may be gone afterwards. */
static void done(struct state *s, enum work_result result, unsigned retry_after)
{
    const struct policy_reporter *r = s->reporter;
    bool gone = policy_cache_find(r->controller->policies, s->key) == NULL;
    work_queue_done(r->queue, s->key, gone ? WORK_DONE : result, retry_after);
    if (gone) {
        free_state(s);
    }
}

static void look_after(struct state *s, uint64_t ms)
{
    int rc = work_queue_add_after(s->reporter->queue, s->key, ms);
    (void)rc; /* its key is in the queue */
}

/* False: it could not be sent, and is done. */
static bool send_request(struct state *s, const struct object_request_options *q,
                         object_request_cb cb)
{
    struct controller *c = s->reporter->controller;
    struct err e = ERR_INIT;
    bool may = q->path != NULL && q->body != NULL && c->options.may_write(c->options.data);
    s->request = may ? object_request_start(c->loop, c->options.client, q, cb, s, &e) : NULL;
    if (s->request == NULL) {
        done(s, WORK_RETRY, 0);
    }
    return s->request != NULL;
}

/* ---- a foreign finalizer ---- */

/* Takes away what may not be valid, of either kind. */
static void empty_spec(struct edit *ed, cJSON *patch)
{
    static const char *const fields[] = {"rateLimitings", "trafficInterceptRules", "httpFault",
                                         "disabled"};
    cJSON *spec = edit_object(ed, patch, "spec");
    cJSON *selector = edit_object(ed, spec, "selector");
    edit_set(ed, selector, "matchLabels", cJSON_CreateNull());
    edit_set(ed, selector, "matchExpressions", cJSON_CreateNull());
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        edit_set(ed, spec, fields[i], cJSON_CreateNull());
    }
}

/* `bared`: and without a spec. */
static cJSON *without_finalizer(const struct policy_object *o, const cJSON *rest, bool bared)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateObject();
    cJSON *meta = preconditions_set(&ed, patch, o->uid, o->version);
    const cJSON *item = NULL;
    cJSON *list = edit_array(&ed, meta, "finalizers");
    cJSON_ArrayForEach(item, field_get(field_get(rest, "metadata"), "finalizers"))
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, POLICY_FINALIZER) != 0) {
            edit_append_string(&ed, list, item->valuestring);
        }
    }
    if (bared) {
        empty_spec(&ed, patch);
    }
    return edit_result(&ed, patch);
}

/* While an object breaks the schema the API server takes no change of it. One that is being deleted
 * needs no spec any more. */
static void on_not_taken(struct state *s, const struct api_error *error)
{
    const struct policy_object *o = policy_cache_find(s->reporter->controller->policies, s->key);
    bool deleting = o != NULL && policy_deleting(o->policy);
    if (error->code == 409 || error->code == 404 || error->code == 0) {
        done(s, WORK_RETRY, error->retry_after);
        return;
    }
    if (error->code == 422 && deleting && !s->bared) {
        s->bared = true;
        s->unbind_at = 0;
        done(s, WORK_RETRY, 0);
        return;
    }
    LOG_AT(s->unbind_at == 0 ? LOG_WARN : LOG_DEBUG,
           "cannot take off another controller mesh's finalizer", log_str("policy", s->key),
           log_str("error", error->msg));
    s->unbind_at = controller_now(s->reporter->controller) + UNBIND_MS;
    look_after(s, UNBIND_MS);
    done(s, WORK_RETRY, 0); /* its status does not wait for that */
}

static void on_taken(void *data, const cJSON *object, const struct api_error *error)
{
    struct state *s = data;
    s->request = NULL;
    if (object == NULL) {
        on_not_taken(s, error);
        return;
    }
    log_info("took off another controller mesh's finalizer", log_str("policy", s->key),
             log_str("finalizer", POLICY_FINALIZER));
    s->unbound = true;
    s->unbind_at = 0;
    done(s, WORK_DONE, 0);
}

static char *collection_path(const struct policy_object *o)
{
    return controller_path(POLICY_CACHE_GROUP_PATH, o->ns,
                           policy_kind_plural(policy_kind(o->policy)));
}

/* Once; if somebody puts it back, that mesh still runs, and has the say until the object is being
 * deleted. */
static bool unbind(struct state *s, const struct policy_object *o, const cJSON *rest)
{
    bool deleting = policy_deleting(o->policy);
    bool waits = controller_now(s->reporter->controller) < s->unbind_at && (!deleting || s->bared);
    if (!policy_has_finalizer(o->policy) || (s->unbound && !deleting) || waits) {
        return false;
    }
    char *path = collection_path(o);
    cJSON *body = without_finalizer(o, rest, s->bared);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = o->name,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
        .metadata_only = true,
    };
    bool sent = send_request(s, &q, on_taken);
    (void)sent;
    cJSON_Delete(body);
    free(path);
    return true;
}

/* ---- Events ---- */

struct telling {
    struct event_recorder *events;
    struct event_object about;
    unsigned opened;
    unsigned recovered;
    bool rough;            /* there were more, maybe */
    unsigned refusers;     /* rules, each in each pod */
    uint64_t refused;      /* requests, by all of them */
    struct buf refused_by; /* some */
};

static void add_refuser(struct telling *t, const struct policy_news *n)
{
    t->refused += n->refused;
    if (t->refusers++ < REFUSERS_MAX) {
        (void)buf_printf(&t->refused_by, "%srule %s in pod %s (%" PRIu64 ")",
                         t->refusers == 1 ? "" : ", ", n->rule, n->pod, n->refused);
    }
}

static void on_news(void *data, const struct policy_news *n)
{
    struct telling *t = data;
    if (n->kind == POLICY_NEWS_REFUSED) {
        add_refuser(t, n);
        return;
    }
    unsigned count = n->kind == POLICY_NEWS_OPENED ? ++t->opened : ++t->recovered;
    if (count > EVENTS_MAX) {
        return;
    }
    if (n->kind == POLICY_NEWS_OPENED) {
        event_record(t->events, &t->about, EVENT_WARNING, "BreakerOpened",
                     "Rule %s opened in pod %s%s%s: %s", n->rule, n->pod,
                     n->since[0] == '\0' ? "" : " at ", n->since,
                     n->message[0] == '\0' ? "requests are refused" : n->message);
    } else {
        event_record(t->events, &t->about, EVENT_NORMAL, "BreakerRecovered",
                     "Rule %s closed in pod %s%s%s.", n->rule, n->pod,
                     n->since[0] == '\0' ? "" : " at ", n->since);
    }
}

static void tell_refusals(struct telling *t)
{
    char more[48] = "";
    const char *by = buf_cstr(&t->refused_by);
    if (t->refusers > REFUSERS_MAX) {
        (void)snprintf(more, sizeof more, " and %u more", t->refusers - REFUSERS_MAX);
    }
    if (t->refusers > 0) {
        event_record(t->events, &t->about, EVENT_WARNING, "RequestsRefused",
                     "%s%" PRIu64
                     " request%s to other places than the API server %s refused: %s%s.",
                     t->rough ? "At least " : "", t->refused, t->refused == 1 ? "" : "s",
                     t->refused == 1 ? "was" : "were", by == NULL ? "see the status" : by, more);
    }
}

static void tell_rest(struct telling *t)
{
    tell_refusals(t);
    if (t->opened > EVENTS_MAX) {
        event_record(t->events, &t->about, EVENT_WARNING, "BreakerOpened",
                     "%u more breakers opened: see the status.", t->opened - EVENTS_MAX);
    }
    if (t->recovered > EVENTS_MAX) {
        event_record(t->events, &t->about, EVENT_NORMAL, "BreakerRecovered",
                     "%u more breakers closed.", t->recovered - EVENTS_MAX);
    }
}

static struct event_object about(const struct policy_object *o)
{
    return (struct event_object){.api_version = POLICY_API_VERSION,
                                 .kind = policy_kind_name(policy_kind(o->policy)),
                                 .namespace = o->ns,
                                 .name = o->name,
                                 .uid = o->uid,
                                 .version = o->version};
}

/* `before`: what was told last. */
static void record_events(struct state *s, const struct policy_object *o, const cJSON *before,
                          const cJSON *status, const struct policy_status_result *result)
{
    struct telling t = {
        .events = s->reporter->controller->options.events,
        .about = about(o),
        .rough = result->rough,
        .refused_by = BUF_INIT(REFUSED_BY_MAX),
    };
    policy_status_compare(before, status, on_news, &t);
    tell_rest(&t);
    if (t.refusers > 0) {
        s->refused = true;
        s->refused_at = controller_now(s->reporter->controller);
    }
    buf_reset(&t.refused_by);
}

/* Whether this was written already, and nobody has written anything since: an older definition of
 * the kind drops the fields that it does not have, and would do so each time. */
static bool is_stored(const struct state *s, const struct policy_object *o, const cJSON *status)
{
    struct err e = ERR_INIT;
    if (s->stored == NULL || s->last == NULL || strcmp(s->stored, o->version) != 0) {
        return false;
    }
    cJSON *last = json_parse(s->last, strlen(s->last), &e);
    bool same = policy_status_same(last, status);
    cJSON_Delete(last);
    return same;
}

/* 0 or -ENOMEM. */
static int remember(struct state *s, const cJSON *status)
{
    struct buf text = BUF_INIT(STATUS_MAX);
    int rc = json_canonical(status, &text);
    char *copy = rc == 0 ? strdup(buf_cstr(&text)) : NULL;
    buf_reset(&text);
    if (copy == NULL) {
        return -ENOMEM;
    }
    free(s->last);
    free(s->stored);
    s->last = copy;
    s->stored = NULL;
    return 0;
}

/* ---- the status ---- */

/* Once, and where somebody looks who finds no status: older API servers take none of an object that
 * its definition would not let in any more, and say which field it is. */
static void tell_refused(struct state *s, const struct api_error *error)
{
    const struct controller *c = s->reporter->controller;
    const struct policy_object *o = policy_cache_find(c->policies, s->key);
    LOG_AT(s->untaken ? LOG_DEBUG : LOG_WARN, "cannot write the status of a traffic policy",
           log_str("policy", s->key), log_str("error", error->msg));
    if (!s->untaken && o != NULL) {
        const struct event_object object = about(o);
        event_record(c->options.events, &object, EVENT_WARNING, "StatusRefused",
                     "The API server takes no status of it: %s", error->msg);
    }
    s->untaken = true;
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct state *s = data;
    s->request = NULL;
    controller_count(s->reporter->controller, CONTROLLER_POLICY_STATUS, error);
    if (object != NULL) {
        s->stored = strdup(field_meta(object, "resourceVersion"));
        s->untaken = false;
        look_after(s, CONTROLLER_BELIEF_MS + 1); /* if the cache should not show it */
        done(s, WORK_DONE, 0);
        return;
    }
    free(s->base);
    s->base = NULL;
    s->written = false; /* the queue's pauses grow, and no other is needed */
    if (error->code != 409 && error->code != 404) {
        tell_refused(s, error);
    }
    done(s, WORK_RETRY, error->retry_after);
}

static void write_status(struct state *s, const struct policy_object *o, const cJSON *old,
                         const cJSON *status)
{
    char *path = collection_path(o);
    cJSON *body = preconditions_status(o->uid, o->version, old, status);
    free(s->base);
    s->base = strdup(o->version);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = o->name,
        .subresource = "status",
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
        .metadata_only = true,
    };
    if (send_request(s, &q, on_written)) {
        s->written = true;
        s->written_at = controller_now(s->reporter->controller);
    }
    cJSON_Delete(body);
    free(path);
}

/* For how long, in ms, nothing may be written: so soon after the last time, or because the cache
 * does not show yet what was written then. */
static uint64_t pause_of(const struct state *s, const struct policy_object *o)
{
    uint64_t passed = controller_now(s->reporter->controller) - s->written_at;
    bool unseen = s->base != NULL && strcmp(s->base, o->version) == 0;
    uint64_t pause = !s->written ? 0 : unseen ? CONTROLLER_BELIEF_MS : EACH_MS;
    return passed < pause ? pause - passed : 0;
}

/* For how long, in ms, requests that were refused are not told of: so soon after the last time. */
static uint64_t refusals_wait(const struct state *s)
{
    uint64_t passed = controller_now(s->reporter->controller) - s->refused_at;
    return s->refused && passed < REFUSALS_MS ? REFUSALS_MS - passed : 0;
}

static void finish(struct state *s, const struct policy_object *o, const cJSON *old,
                   const cJSON *status, const struct policy_status_result *result)
{
    uint64_t pause = pause_of(s, o);
    if (result->changed && is_stored(s, o, status)) {
        done(s, WORK_DONE, 0);
    } else if (remember(s, status) != 0) {
        done(s, WORK_RETRY, 0);
    } else if (result->changed && pause == 0) {
        write_status(s, o, old, status);
    } else {
        if (result->changed) {
            look_after(s, pause);
        }
        done(s, WORK_DONE, 0);
    }
}

/* `told`: the status that was made last, or that there was at the start. */
static void report_after(struct state *s, const struct policy_object *o, const cJSON *old,
                         const cJSON *told, const struct policy_found *found)
{
    const struct controller *c = s->reporter->controller;
    uint64_t wait = refusals_wait(s);
    const struct policy_facts facts = {
        .policy = o->policy,
        .old = old,
        .told = told,
        .tells = wait == 0,
        .errors = o->errors,
        .warnings = o->warnings,
        .shards = found->shards,
        .shard_count = found->shard_count,
        .pods = found->pods,
        .pod_count = found->pod_count,
        .now = net_clock_wall(c->clock) / MICROSECONDS,
    };
    struct policy_status_result result;
    cJSON *status = policy_status_make(&facts, &result);
    if (status == NULL) {
        done(s, WORK_RETRY, 0);
        return;
    }
    s->reported = true;
    s->enforced = result.enforced;
    s->open = result.open;
    record_events(s, o, told, status, &result);
    if (result.refused) {
        look_after(s, wait);
    }
    finish(s, o, old, status, &result);
    cJSON_Delete(status);
}

static void report(struct state *s, const struct policy_object *o, const cJSON *old,
                   const struct policy_found *found)
{
    struct err e = ERR_INIT;
    cJSON *last = s->last == NULL ? NULL : json_parse(s->last, strlen(s->last), &e);
    if (s->last != NULL && last == NULL) {
        done(s, WORK_RETRY, 0);
        return;
    }
    report_after(s, o, old, s->last == NULL ? old : last, found);
    cJSON_Delete(last);
}

/* ---- the step ---- */

/* What the last leader wrote stands until each shard was looked at and each pod was asked once. */
static bool is_too_early(const struct state *s, const cJSON *old, const struct policy_found *found)
{
    return (found->early || found->pending) && !s->reported && old != NULL;
}

/* So that a status does not become worse, and better again, each time that a policy of the
 * namespace changes. For how long, in ms. */
static uint64_t patience(struct state *s, const struct policy_found *found)
{
    uint64_t now = controller_now(s->reporter->controller);
    if (!found->pending) {
        s->pending_at = 0;
        return 0;
    }
    s->pending_at = s->pending_at != 0 ? s->pending_at : now;
    uint64_t passed = now - s->pending_at;
    return passed < PENDING_MS ? PENDING_MS - passed : 0;
}

static void handle(struct state *s, const struct policy_object *o, const cJSON *rest)
{
    const struct controller *c = s->reporter->controller;
    const cJSON *old = field_map(rest, "status");
    struct policy_found found = {.shards = NULL};
    if (unbind(s, o, rest)) {
        return;
    }
    if (policy_found_look(c, o, &found) != 0) {
        done(s, WORK_RETRY, 0);
    } else if (policy_deleting(o->policy) || is_too_early(s, old, &found)) {
        done(s, WORK_DONE, 0); /* the first answers bring it again */
    } else if (patience(s, &found) > 0) {
        look_after(s, patience(s, &found));
        done(s, WORK_DONE, 0); /* or sooner, when it stands there */
    } else {
        report(s, o, old, &found);
    }
    policy_found_deinit(&found);
}

static void on_work(void *data, const char *key)
{
    struct policy_reporter *r = data;
    const struct controller *c = r->controller;
    const struct policy_object *o = policy_cache_find(c->policies, key);
    struct err e = ERR_INIT;
    if (o == NULL) {
        policy_reporter_forget(r, key);
    }
    if (o == NULL || !shard_cache_ready(c->options.cache, o->ns)) {
        work_queue_done(r->queue, key, WORK_DONE, 0); /* on_ready brings it again */
        return;
    }
    struct state *s = provide_state(r, key);
    cJSON *rest = json_parse(o->rest, strlen(o->rest), &e);
    if (s == NULL || rest == NULL || reset_if_replaced(s, o) != 0) {
        work_queue_done(r->queue, key, WORK_RETRY, 0);
    } else {
        handle(s, o, rest);
    }
    cJSON_Delete(rest);
}

/* ---- what it is told ---- */

void policy_reporter_look(struct policy_reporter *r, const char *key, uint64_t ms)
{
    int rc = ms == 0 ? work_queue_add(r->queue, key) : work_queue_add_after(r->queue, key, ms);
    if (rc != 0) {
        log_error("out of memory; this policy is processed again with its next change",
                  log_str("policy", key));
    }
}

void policy_reporter_look_in(struct policy_reporter *r, const char *key, uint64_t ms)
{
    char ns[KEY_SIZE];
    const struct policy_object *o = NULL;
    (void)snprintf(ns, sizeof ns, "%.*s", (int)strcspn(key, "/"), key);
    while ((o = policy_cache_next_in(r->controller->policies, ns, o)) != NULL) {
        policy_reporter_look(r, o->key, ms);
    }
}

/* A request of its that is under way ends by itself: its key is being handled. */
void policy_reporter_forget(struct policy_reporter *r, const char *key)
{
    struct state *s = find_state(r, key);
    if (s != NULL && s->request == NULL) {
        free_state(s);
    }
}

const struct work_queue *policy_reporter_queue(const struct policy_reporter *r)
{
    return r->queue;
}

int policy_reporter_metrics(const struct policy_reporter *r, struct buf *out)
{
    static const char name[] = "cmesh_manager_policies";
    uint64_t numbers[POLICY_KINDS][POLICY_ENFORCED_STATES] = {{0}};
    uint64_t open = 0;
    for (struct table_node *n = NULL; (n = table_next(&r->states, n)) != NULL;) {
        const struct state *s = LIST_ITEM(n, struct state, node);
        const struct policy_object *o = policy_cache_find(r->controller->policies, s->key);
        if (o != NULL && s->reported) {
            numbers[policy_kind(o->policy)][s->enforced]++;
            open += s->open;
        }
    }
    prometheus_head(out, name, "gauge", "Traffic policies by kind and enforcement state.");
    for (size_t i = 0; i < (size_t)POLICY_KINDS * POLICY_ENFORCED_STATES; i++) {
        size_t kind = i / POLICY_ENFORCED_STATES;
        size_t state = i % POLICY_ENFORCED_STATES;
        buf_printf(out, "%s{kind=\"%s\",state=\"%s\"} %" PRIu64 "\n", name,
                   policy_kind_name((enum traffic_kind)kind),
                   policy_enforced_text((enum policy_enforced)state), numbers[kind][state]);
    }
    const struct prometheus_metric gauge = {
        "cmesh_manager_open_breakers", "gauge",
        "Rules of CircuitBreakers that are open, each in each pod.", open};
    return prometheus_write(out, &gauge, 1);
}

/* ---- life ---- */

struct policy_reporter *policy_reporter_new(struct controller *c, struct err *e)
{
    struct policy_reporter *r = calloc(1, sizeof *r);
    const struct work_queue_options o = {
        .name = "policies", .parallel = PARALLEL, .clock = c->options.clock};
    if (r == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    r->controller = c;
    r->queue = work_queue_new(c->loop, &o, on_work, r, e);
    if (r->queue == NULL) {
        free(r);
        return NULL;
    }
    return r;
}

void policy_reporter_free(struct policy_reporter *r)
{
    if (r == NULL) {
        return;
    }
    for (struct table_node *n = NULL; (n = table_next(&r->states, NULL)) != NULL;) {
        free_state(LIST_ITEM(n, struct state, node));
    }
    table_deinit(&r->states);
    work_queue_free(r->queue);
    free(r);
}
