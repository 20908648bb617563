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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "object/preconditions.h"
#include "policy/policy_status.h"
#include "shard/controller_internal.h"
#include "shard/policy_found.h"
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

/* What is remembered of a policy. */
struct state {
    struct reconcile run;
    char *uid;          /* of which the rest tells */
    char *last;         /* the status that was made last, as JSON; NULL: none was */
    char *stored;       /* the version with `last`, as far as the definition of the kind has the
                           fields; NULL: it is not written */
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
};

/* ---- what is remembered ---- */

static void drop(void *state)
{
    struct state *s = state;
    free(s->uid);
    free(s->last);
    free(s->stored);
}

/* Another object of that name: what was known is of no use. */
static void reset_if_replaced(struct state *s, const struct policy_object *o)
{
    if (s->uid == NULL || strcmp(s->uid, o->uid) != 0) {
        drop(s);
        *s = (struct state){.run = s->run, .uid = xstrdup(o->uid)};
    }
}

static bool is_there(void *state, enum work_result result)
{
    const struct state *s = state;
    const struct controller *c = s->run.data;
    (void)result;
    return policy_cache_find(c->policies, s->run.key) != NULL;
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
    preconditions_unbind(&ed, patch, o->uid, o->version,
                         field_get(field_get(rest, "metadata"), "finalizers"), POLICY_FINALIZER);
    if (bared) {
        empty_spec(&ed, patch);
    }
    return xptr(edit_result(&ed, patch));
}

/* While an object breaks the schema the API server takes no change of it. One that is being deleted
 * needs no spec any more. */
static void on_not_taken(struct state *s, const struct api_error *error)
{
    const struct controller *c = s->run.data;
    const struct policy_object *o = policy_cache_find(c->policies, s->run.key);
    bool deleting = o != NULL && policy_deleting(o->policy);
    if (error->code == 409 || error->code == 404 || error->code == 0) {
        reconcile_done(&s->run, WORK_RETRY, error->retry_after);
        return;
    }
    if (error->code == 422 && deleting && !s->bared) {
        s->bared = true;
        s->unbind_at = 0;
        reconcile_done(&s->run, WORK_RETRY, 0);
        return;
    }
    LOG_AT(s->unbind_at == 0 ? LOG_WARN : LOG_DEBUG,
           "cannot take off another controller mesh's finalizer", log_str("policy", s->run.key),
           log_str("error", error->msg));
    s->unbind_at = controller_now(c) + UNBIND_MS;
    reconcile_after(&s->run, UNBIND_MS);
    reconcile_done(&s->run, WORK_RETRY, 0); /* its status does not wait for that */
}

static void on_taken(void *data, const cJSON *object, const struct api_error *error)
{
    struct state *s = data;
    if (object == NULL) {
        on_not_taken(s, error);
        return;
    }
    log_info("took off another controller mesh's finalizer", log_str("policy", s->run.key),
             log_str("finalizer", POLICY_FINALIZER));
    s->unbound = true;
    s->unbind_at = 0;
    reconcile_done(&s->run, WORK_DONE, 0);
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
    const struct controller *c = s->run.data;
    bool deleting = policy_deleting(o->policy);
    bool waits = controller_now(c) < s->unbind_at && (!deleting || s->bared);
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
    reconcile_write(&s->run, &q, NULL, on_taken);
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
    const struct controller *c = s->run.data;
    struct telling t = {
        .events = c->options.events,
        .about = about(o),
        .rough = result->rough,
        .refused_by = BUF_INIT(REFUSED_BY_MAX),
    };
    policy_status_compare(before, status, on_news, &t);
    tell_rest(&t);
    if (t.refusers > 0) {
        s->refused = true;
        s->refused_at = controller_now(c);
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
    xerr(&e);
    bool same = policy_status_same(last, status);
    cJSON_Delete(last);
    return same;
}

/* False: it is too large. */
static bool remember(struct state *s, const cJSON *status)
{
    struct buf text = BUF_INIT(STATUS_MAX);
    bool fits = xrc(json_canonical(status, &text)) == 0;
    if (fits) {
        free(s->last);
        free(s->stored);
        s->last = xptr(buf_take_str(&text));
        s->stored = NULL;
    }
    buf_reset(&text);
    return fits;
}

/* ---- the status ---- */

/* Once, and where somebody looks who finds no status: older API servers take none of an object that
 * its definition would not let in any more, and say which field it is. */
static void tell_refused(struct state *s, const struct api_error *error)
{
    const struct controller *c = s->run.data;
    const struct policy_object *o = policy_cache_find(c->policies, s->run.key);
    LOG_AT(s->untaken ? LOG_DEBUG : LOG_WARN, "cannot write the status of a traffic policy",
           log_str("policy", s->run.key), log_str("error", error->msg));
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
    if (object != NULL) {
        s->stored = xstrdup(field_meta(object, "resourceVersion"));
        s->untaken = false;
        reconcile_done(&s->run, WORK_DONE, 0);
        return;
    }
    if (error->code != 409 && error->code != 404) {
        tell_refused(s, error);
    }
    reconcile_done(&s->run, WORK_RETRY, error->retry_after);
}

static void write_status(struct state *s, const struct policy_object *o, const cJSON *old,
                         const cJSON *status)
{
    struct controller *c = s->run.data;
    const struct reconcile_status w = {
        .path = collection_path(o),
        .name = o->name,
        .uid = o->uid,
        .version = o->version,
        .old = old,
        .status = status,
        .field_manager = RULES_MAP_MANAGER,
        .counts = c->options.counts->writes[CONTROLLER_POLICY_STATUS],
        .next = on_written,
    };
    reconcile_status(&s->run, &w);
}

/* For how long, in ms, requests that were refused are not told of: so soon after the last time. */
static uint64_t refusals_wait(const struct state *s)
{
    const struct controller *c = s->run.data;
    uint64_t passed = controller_now(c) - s->refused_at;
    return s->refused && passed < REFUSALS_MS ? REFUSALS_MS - passed : 0;
}

static void finish(struct state *s, const struct policy_object *o, const cJSON *old,
                   const cJSON *status, const struct policy_status_result *result)
{
    bool stored = result->changed && is_stored(s, o, status);
    if (!stored && !remember(s, status)) {
        reconcile_done(&s->run, WORK_RETRY, 0);
    } else if (stored || !result->changed ||
               reconcile_too_early(&s->run, o->uid, o->version, EACH_MS)) {
        reconcile_done(&s->run, WORK_DONE, 0);
    } else {
        write_status(s, o, old, status);
    }
}

/* Events tell what is other than in the status that was made last, or that there was at the start.
 */
static void report(struct state *s, const struct policy_object *o, const cJSON *old,
                   const struct policy_found *found)
{
    const struct controller *c = s->run.data;
    uint64_t wait = refusals_wait(s);
    struct err e = ERR_INIT;
    cJSON *last = s->last == NULL ? NULL : json_parse(s->last, strlen(s->last), &e);
    xerr(&e);
    const cJSON *told = last == NULL ? old : last;
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
    s->reported = true;
    s->enforced = result.enforced;
    s->open = result.open;
    record_events(s, o, told, status, &result);
    if (result.refused) {
        reconcile_after(&s->run, wait);
    }
    finish(s, o, old, status, &result);
    cJSON_Delete(status);
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
    const struct controller *c = s->run.data;
    uint64_t now = controller_now(c);
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
    const struct controller *c = s->run.data;
    const cJSON *old = field_map(rest, "status");
    struct policy_found found = {.shards = NULL};
    if (unbind(s, o, rest)) {
        return;
    }
    policy_found_look(c, o, &found);
    if (policy_deleting(o->policy) || is_too_early(s, old, &found)) {
        reconcile_done(&s->run, WORK_DONE, 0); /* the first answers bring it again */
    } else if (patience(s, &found) > 0) {
        reconcile_after(&s->run, patience(s, &found));
        reconcile_done(&s->run, WORK_DONE, 0); /* or sooner, when it stands there */
    } else {
        report(s, o, old, &found);
    }
    policy_found_deinit(&found);
}

static void look(void *state)
{
    struct state *s = state;
    const struct controller *c = s->run.data;
    const struct policy_object *o = policy_cache_find(c->policies, s->run.key);
    struct err e = ERR_INIT;
    if (o == NULL || !shard_cache_synced(c->options.cache)) {
        reconcile_done(&s->run, WORK_DONE, 0); /* on_ready brings it again */
        return;
    }
    cJSON *rest = json_parse(o->rest, strlen(o->rest), &e);
    reset_if_replaced(s, o);
    if (rest != NULL) {
        handle(s, o, rest);
    } else { /* somebody has written what reads as a key twice */
        xerr(&e);
        reconcile_done(&s->run, WORK_RETRY, 0);
    }
    cJSON_Delete(rest);
}

void policy_reporter_look_in(struct controller *c, const char *key, uint64_t ms)
{
    char ns[KEY_SIZE];
    const struct policy_object *o = NULL;
    (void)snprintf(ns, sizeof ns, "%.*s", (int)strcspn(key, "/"), key);
    while ((o = policy_cache_next_in(c->policies, ns, o)) != NULL) {
        reconciler_look(c->reporter, o->key, ms);
    }
}

void policy_reporter_metrics(const struct controller *c, struct buf *out)
{
    static const char name[] = "cmesh_manager_policies";
    uint64_t numbers[POLICY_KINDS][POLICY_ENFORCED_STATES] = {{0}};
    uint64_t open = 0;
    for (const struct state *s = NULL; (s = reconciler_next(c->reporter, s)) != NULL;) {
        const struct policy_object *o = policy_cache_find(c->policies, s->run.key);
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
    prometheus_write(out, &gauge, 1);
}

/* ---- life ---- */

static const struct reconciler_handlers handlers = {
    .reconcile = look, .done = is_there, .drop = drop};

struct reconciler *policy_reporter_new(struct controller *c)
{
    const struct reconciler_options o = {
        .name = "policies",
        .kind = "policy",
        .parallel = PARALLEL,
        .state_size = sizeof(struct state),
    };
    return controller_reconciler(c, &o, &handlers);
}
