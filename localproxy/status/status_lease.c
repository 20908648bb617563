/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     IDLE -- it tells something new, or is to be renewed --> UPDATING -- 200 --> IDLE
 *       |                                                      |
 *       +-- its version is not known --> READING -- 200 -------+ (and back to UPDATING)
 *                                          |                   |
 *                                          +-- 404 --+-- 404 --+
 *                                                    v
 *                                                CREATING -- 201 --> IDLE
 *
 * Any other answer: IDLE, and again after a pause; its version is read anew then. So it goes when
 * the Lease that is there has not our labels: it may be somebody's lock. While a request is under
 * way nothing is looked at: its answer leads to the next look. These are the requests of a leader
 * election, so that who may have one may do this, too.
 */
#include "status/status_lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "base/token_bucket.h"
#include "kube/client/lease_object.h"
#include "kube/client/object_request.h"
#include "status/proxy_status.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    LOOK_MS = 5000,      /* what does not say so by itself is noticed so late */
    ASKED_MS = 45000,    /* a manager that asks does so three times meanwhile */
    PAUSE_MIN_MS = 1000, /* after a failure, doubled with each further one */
    PAUSE_MAX_MS = 10000,
    LEASE_PAUSE_MAX_MS = 10000, /* while the rules depend on it */
    LEASE_PARTS = 3,            /* of the lease on the rules: it is renewed after one */
    LASTING_MAX_MS =
        300000, /* where only a person can change that, as who may not. Doubled likewise,
                   for an API server that has just started may refuse anybody */
    MS = 1000,
    WRITES_BURST = 10, /* of what is not urgent, and then one in LOOK_MS: a breaker may open and
                          close all the time, for hours, and in many pods */
    BESIDE_MAX = 64,   /* bytes of what is said besides: for how long it runs */
    LOAD_STEP = 256,   /* of the room for the load: what else is told does not change with each
                          further digit */
};

enum phase { PHASE_IDLE, PHASE_READING, PHASE_UPDATING, PHASE_CREATING };

static const struct state_machine phases = {
    .object = "status lease",
    .states = {[PHASE_IDLE] = {"Idle", STATE(PHASE_READING) | STATE(PHASE_UPDATING)},
               [PHASE_READING] = {"Reading", STATE(PHASE_UPDATING) | STATE(PHASE_CREATING) |
                                                 STATE(PHASE_IDLE)},
               [PHASE_UPDATING] = {"Updating", STATE(PHASE_CREATING) | STATE(PHASE_IDLE)},
               [PHASE_CREATING] = {"Creating", STATE(PHASE_IDLE)}},
};

struct status_lease {
    struct net_loop *loop;
    struct status_lease_options o;
    struct net_timer *timer;
    uint64_t look_at; /* when the timer is due; UINT64_MAX: it is not set */
    enum phase phase;
    struct object_request *request;
    char *path;
    char *name;
    uint64_t started_at;
    uint64_t asked_at;  /* 0: never */
    char *version;      /* its resourceVersion; NULL: not known */
    char *sent;         /* what the request that is under way tells */
    char *told;         /* what the Lease tells; NULL: not known */
    uint64_t sent_rest; /* of both: as describe has it */
    uint64_t told_rest;
    uint64_t sent_at;
    bool sent_renews;    /* its success makes the rules valid */
    bool known;          /* a Lease of this pod was there, ever */
    uint64_t required;   /* as control_lease_required has it, of the version that is known */
    uint64_t renew_at;   /* it is to be written again then, changed or not */
    uint64_t allowed_at; /* after a failure: not before */
    struct token_bucket writes;
    uint64_t pause_ms; /* the last one; 0: it did not fail */
    bool lasting;      /* as the last failure was */
    struct err trouble;
};

static uint64_t now_of(const struct status_lease *s)
{
    return net_clock_now(s->o.clock);
}

static void set_phase(struct status_lease *s, enum phase phase)
{
    s->phase = state_change(&phases, s->phase, phase, slice_str(s->name));
}

/* ---- the lease on the rules ---- */

/* Between two renewals. */
static uint64_t renewal_ms(const struct status_lease *s)
{
    return s->o.lease == NULL ? CONTROL_LEASE_RENEW_MS
                              : rules_lease_seconds(s->o.lease) * MS / LEASE_PARTS;
}

static uint64_t generation_of(const struct status_lease *s)
{
    const struct rules *rules = proxy_rules(s->o.proxy);
    return rules == NULL ? 0 : rules_generation(rules);
}

/* Whether the rules in force are those that are required, or later ones. */
static bool may_renew(const struct status_lease *s)
{
    return s->required == 0 || generation_of(s) >= s->required;
}

/* Says why the rules are not valid although the Lease could be written. */
static void explain_requirement(const struct status_lease *s)
{
    char why[ERR_MSG_MAX];
    if (s->required == UINT64_MAX) {
        (void)snprintf(why, sizeof why,
                       "it was deleted meanwhile, or written by another pod of this name, and no "
                       "manager has said yet by the annotation "
                       "%s which generation of the rules is required",
                       CONTROL_LEASE_REQUIRED);
    } else {
        (void)snprintf(why, sizeof why,
                       "others were given what this pod could see: generation %" PRIu64
                       " of its rules is required, and generation %" PRIu64 " is in force",
                       s->required, generation_of(s));
    }
    rules_lease_explain(s->o.lease, why);
}

/* ---- what it tells ---- */

/* Bytes, rounded up. */
static size_t room_for_load(const struct status_lease *s)
{
    cJSON *load = cJSON_CreateObject();
    proxy_status_load(s->o.proxy, load);
    char *text = cJSON_PrintUnformatted(load);
    size_t len = text == NULL ? 0 : strlen(text);
    cJSON_free(text);
    cJSON_Delete(load);
    return (len + LOAD_STEP - 1) / LOAD_STEP * LOAD_STEP;
}

/* As many rules as there is room for. Returns the hash of all else. */
static uint64_t add_traffic(const struct status_lease *s, cJSON *root)
{
    char *text = cJSON_PrintUnformatted(root);
    if (text == NULL) {
        return HASH_SEED;
    }
    uint64_t rest = hash_slice(HASH_SEED, slice_str(text));
    size_t used = strlen(text) + BESIDE_MAX;
    used += proxy_facts(s->o.proxy).load == NULL ? 0 : room_for_load(s);
    cJSON_free(text);
    const struct policies_view view = {
        .rules = CONTROL_TRAFFIC_RULES_MAX,
        .bytes = used < CONTROL_LEASE_DOCUMENT_MAX ? CONTROL_LEASE_DOCUMENT_MAX - used : 0,
        .rough = true,
    };
    if (s->o.policies != NULL) {
        policies_describe(s->o.policies, &view, root);
    }
    return rest;
}

/* But for the time and the load. *rest is the hash of what has nothing to do with traffic policies.
 * NULL without memory. */
static cJSON *describe(const struct status_lease *s, uint64_t *rest)
{
    struct control_proxy_status rules;
    struct control_proxy_use use;
    struct reload_source source = {.known = false};
    const struct control_pod pod = {s->o.pod, s->o.uid};
    cJSON *root = cJSON_CreateObject();
    proxy_status_rules(s->o.proxy, &rules);
    proxy_status_use(s->o.proxy, s->o.bypass, &use);
    if (s->o.reload != NULL) {
        reload_source(s->o.reload, &source);
    }
    /* Numbers that grow all the time would be written all the time. The load is told when there is
     * something else to tell, or it is renewed. */
    use.requests = use.requests > 0;
    use.bypass_connections = use.bypass_connections > 0;
    use.first = 0;
    use.last = 0;
    use.bypass_error = NULL;
    cJSON_AddStringToObject(root, "program", CONTROL_STATUS_LOCALPROXY);
    cJSON_AddStringToObject(root, "version", CMESH_VERSION);
    control_pod_add(root, &pod);
    control_proxy_status_add(cJSON_AddObjectToObject(root, "rules"), &rules);
    control_proxy_use_add(root, &use);
    if (source.known) {
        control_proxy_source_add(root, source.trouble);
    }
    egress_describe(s->o.egress, false, root);
    if (s->o.lease != NULL) { /* as it is once this is written */
        const struct control_rules_lease lease = {
            .seconds = rules_lease_seconds(s->o.lease),
            .expired = !may_renew(s),
        };
        control_rules_lease_add(root, &lease, false);
    }
    *rest = add_traffic(s, root);
    return root;
}

static int64_t duration_of(const struct status_lease *s)
{
    return s->o.lease == NULL ? 2 * CONTROL_LEASE_RENEW_MS / MS
                              : (int64_t)rules_lease_seconds(s->o.lease);
}

static void add_metadata(const struct status_lease *s, struct edit *ed, cJSON *lease,
                         const char *text)
{
    cJSON *meta = edit_object(ed, lease, "metadata");
    cJSON *labels = edit_object(ed, meta, "labels");
    edit_string(ed, labels, CONTROL_LEASE_PART, "cmesh");
    edit_string(ed, labels, CONTROL_LEASE_COMPONENT, CONTROL_STATUS_LOCALPROXY);
    cJSON *annotations = edit_object(ed, meta, "annotations");
    edit_string(ed, annotations, CONTROL_LEASE_ANNOTATION, text);
    if (!may_renew(s)) {
        char required[32] = CONTROL_LEASE_REQUIRED_UNKNOWN;
        if (s->required != UINT64_MAX) {
            (void)snprintf(required, sizeof required, "%" PRIu64, s->required);
        }
        edit_string(ed, annotations, CONTROL_LEASE_REQUIRED, required);
    }
    cJSON *owner = edit_append_object(ed, edit_array(ed, meta, "ownerReferences"));
    edit_string(ed, owner, "apiVersion", "v1");
    edit_string(ed, owner, "kind", "Pod");
    edit_string(ed, owner, "name", s->o.pod);
    edit_string(ed, owner, "uid", s->o.uid);
}

/* To create, or in place of the version that is known. NULL without memory. */
static cJSON *make_lease(const struct status_lease *s, const char *text)
{
    struct edit ed = {.rc = 0};
    cJSON *named = lease_object_new(s->o.namespace, s->name);
    cJSON *lease = named == NULL ? NULL
                                 : lease_object_claim(named, LEASE_CREATE, s->o.pod, duration_of(s),
                                                      net_clock_wall(s->o.clock));
    cJSON_Delete(named);
    if (lease == NULL) {
        return NULL;
    }
    add_metadata(s, &ed, lease, text);
    if (s->phase == PHASE_UPDATING) {
        edit_string(&ed, edit_object(&ed, lease, "metadata"), "resourceVersion", s->version);
    }
    return edit_result(&ed, lease);
}

/* ---- writing ---- */

static void on_answer(void *data, const cJSON *object, const struct api_error *error);

/* Of what it tells now; the caller deletes. NULL without memory. */
static cJSON *next_lease(struct status_lease *s)
{
    cJSON *root = describe(s, &s->sent_rest);
    cJSON_free(s->sent);
    s->sent = cJSON_PrintUnformatted(root);
    cJSON_AddNumberToObject(root, "uptimeSeconds", (double)((now_of(s) - s->started_at) / MS));
    if (proxy_facts(s->o.proxy).load != NULL) {
        proxy_status_load(s->o.proxy, root);
        char *all = cJSON_PrintUnformatted(root);
        if (all == NULL || strlen(all) > CONTROL_LEASE_DOCUMENT_MAX) {
            cJSON_DeleteItemFromObjectCaseSensitive(root, "load"); /* there is no room */
        }
        cJSON_free(all);
    }
    char *text = s->sent == NULL ? NULL : cJSON_PrintUnformatted(root);
    cJSON *lease = text == NULL ? NULL : make_lease(s, text);
    cJSON_Delete(root);
    cJSON_free(text);
    return lease;
}

/* 0 or negative with `e` set. */
static int send_request(struct status_lease *s, struct err *e)
{
    static const enum object_request_verb verbs[] = {
        [PHASE_READING] = OBJECT_REQUEST_GET,
        [PHASE_UPDATING] = OBJECT_REQUEST_UPDATE,
        [PHASE_CREATING] = OBJECT_REQUEST_CREATE,
    };
    bool reading = s->phase == PHASE_READING;
    cJSON *lease = reading ? NULL : next_lease(s);
    struct object_request_options q = {
        .verb = verbs[s->phase],
        .path = s->path,
        .name = s->phase == PHASE_CREATING ? NULL : s->name,
        .body = lease,
        .field_manager = reading ? NULL : "cmesh-localproxy",
        .metadata_only = true,
        .timeout_ms = s->o.lease == NULL || renewal_ms(s) > OBJECT_REQUEST_TIMEOUT_MS
                          ? OBJECT_REQUEST_TIMEOUT_MS
                          : renewal_ms(s),
    };
    s->sent_at = now_of(s);
    s->sent_renews = may_renew(s);
    if (lease == NULL && !reading) {
        return err_memory(e);
    }
    s->request = object_request_start(s->loop, s->o.client, &q, on_answer, s, e);
    cJSON_Delete(lease);
    return s->request != NULL ? 0 : e->code;
}

static void set_timer(struct status_lease *s, uint64_t at)
{
    uint64_t now = now_of(s);
    s->look_at = at;
    net_clock_set_timer(s->o.clock, s->timer, at > now ? at - now : 0);
}

static uint64_t pause_max(const struct status_lease *s, bool lasting)
{
    uint64_t max = lasting ? LASTING_MAX_MS : PAUSE_MAX_MS;
    if (s->o.lease != NULL) {
        uint64_t often = renewal_ms(s) < LEASE_PAUSE_MAX_MS ? renewal_ms(s) : LEASE_PAUSE_MAX_MS;
        max = often < max ? often : max;
    }
    return max;
}

/* A word about it each time that the reason is another one. */
static void failed(struct status_lease *s, const char *why, bool lasting, enum log_level level)
{
    bool news = s->trouble.code == 0 || strcmp(s->trouble.msg, why) != 0;
    s->o.metrics->lease_failed++;
    if (s->o.lease != NULL) {
        rules_lease_explain(s->o.lease, why);
    }
    (void)err_set(&s->trouble, -EIO, "%s", why);
    if (news) {
        log_at(level,
               "cannot write the Lease with the status; a manager that reaches this pod asks it",
               log_str("namespace", s->o.namespace), log_str("lease", s->name),
               log_str("error", why));
    }
    uint64_t max = pause_max(s, lasting);
    bool again = s->pause_ms != 0 && s->lasting == lasting;
    uint64_t pause = again ? 2 * s->pause_ms : PAUSE_MIN_MS;
    s->pause_ms = pause > max ? max : pause;
    s->lasting = lasting;
    s->allowed_at = now_of(s) + s->pause_ms;
    set_phase(s, PHASE_IDLE);
    set_timer(s, s->allowed_at);
}

static void succeeded(struct status_lease *s)
{
    /* Within 10 % of it, so that pods started together do not write together for ever. */
    uint64_t spread = renewal_ms(s) / 5;
    uint64_t chance = spread * (net_clock_random(s->o.clock) >> 16) / 65536;
    if (s->trouble.code != 0) {
        log_info("the Lease with the status is written again", log_str("lease", s->name));
    }
    s->o.metrics->lease_written++;
    s->trouble = (struct err)ERR_INIT;
    s->pause_ms = 0;
    s->renew_at =
        (s->o.lease == NULL ? now_of(s) : s->sent_at) + renewal_ms(s) - spread / 2 + chance;
    s->known = true;
    if (s->o.lease != NULL && s->sent_renews) { /* written with what is known now */
        s->required = 0;
        rules_lease_renewed(s->o.lease, s->sent_at);
    } else if (s->o.lease != NULL) {
        explain_requirement(s);
    }
    cJSON_free(s->told);
    s->told = s->sent;
    s->told_rest = s->sent_rest;
    s->sent = NULL;
    set_phase(s, PHASE_IDLE);
    set_timer(s, 0); /* something may have changed meanwhile */
}

static void go_to(struct status_lease *s, enum phase phase)
{
    struct err e = ERR_INIT;
    set_phase(s, phase);
    if (send_request(s, &e) != 0) {
        failed(s, e.msg, false, kube_client_failure_level(s->o.client, 0));
    }
}

static void set_version(struct status_lease *s, const char *version)
{
    free(s->version);
    s->version = version == NULL ? NULL : strdup(version);
}

static const char not_ours[] =
    "the Lease of this name is not localproxy's, and was left unchanged: it has not the "
    "labels " CONTROL_LEASE_SELECTOR;

static bool is_ours(const cJSON *lease)
{
    const cJSON *labels = field_get(field_get(lease, "metadata"), "labels");
    return strcmp(field_text(labels, CONTROL_LEASE_PART), "cmesh") == 0 &&
           strcmp(field_text(labels, CONTROL_LEASE_COMPONENT), CONTROL_STATUS_LOCALPROXY) == 0;
}

/* Of an earlier pod of the same name nothing is required of this one. But one that comes after this
 * one's is perhaps a later pod's: then this one was deleted while nobody reached it. A manager
 * knows which of them is there, and answers that one alone. */
static void learn_requirement(struct status_lease *s, const cJSON *lease)
{
    const cJSON *meta = field_get(lease, "metadata");
    const cJSON *owner = cJSON_GetArrayItem(field_get(meta, "ownerReferences"), 0);
    bool own = strcmp(field_text(owner, "uid"), s->o.uid) == 0;
    const char *text = field_text(field_get(meta, "annotations"), CONTROL_LEASE_REQUIRED);
    uint64_t of_others = s->known && s->o.lease != NULL ? UINT64_MAX : 0;
    s->known = s->known || own;
    s->required = own ? control_lease_required(text) : of_others;
}

/* Without memory for the version it is read anew. */
static void was_read(struct status_lease *s, const cJSON *lease)
{
    if (!is_ours(lease)) {
        set_version(s, NULL); /* it is looked at again before it is written */
        failed(s, not_ours, true, LOG_WARN);
    } else if (s->version == NULL) {
        failed(s, "out of memory", false, LOG_WARN);
    } else {
        learn_requirement(s, lease);
        go_to(s, PHASE_UPDATING);
    }
}

static void on_answer(void *data, const cJSON *object, const struct api_error *error)
{
    struct status_lease *s = data;
    bool missing = object == NULL && error->code == 404 && s->phase != PHASE_CREATING;
    s->request = NULL;
    set_version(s, object == NULL ? NULL : field_meta(object, "resourceVersion"));
    if (missing) {
        /* If it was there before, nobody knows what somebody may have required: only while the
         * rules are valid nobody can have given them up for lost. */
        if (s->o.lease != NULL && s->known && !rules_lease_valid(s->o.lease)) {
            s->required = UINT64_MAX;
        }
        go_to(s, PHASE_CREATING);
    } else if (object == NULL) {
        bool lasting = error->code == 403 || error->code == 422;
        failed(s, error->msg, lasting, error->level);
    } else if (s->phase == PHASE_READING) {
        was_read(s, object);
    } else {
        succeeded(s);
    }
}

/* ---- when ---- */

/* Whether it has something to tell, or to say again. `urgent`: of more than traffic policies. */
static bool is_due(const struct status_lease *s, bool *urgent)
{
    uint64_t rest;
    cJSON *root = describe(s, &rest);
    char *text = cJSON_PrintUnformatted(root);
    bool same = s->told != NULL && text != NULL && strcmp(text, s->told) == 0;
    cJSON_Delete(root);
    cJSON_free(text);
    bool asked = s->asked_at != 0 && now_of(s) - s->asked_at < ASKED_MS;
    bool renew = now_of(s) >= s->renew_at && (s->o.lease != NULL || !asked);
    *urgent = s->told == NULL || rest != s->told_rest || (renew && s->o.lease != NULL);
    return !same || renew;
}

static void on_timer(void *data)
{
    struct status_lease *s = data;
    uint64_t now = now_of(s);
    if (s->phase != PHASE_IDLE) {
        return; /* the answer leads on */
    }
    (void)rules_lease_valid(s->o.lease); /* on_expired comes before what is done here */
    if (now < s->look_at) {
        set_timer(s, s->look_at);
        return;
    }
    bool urgent;
    bool due = is_due(s, &urgent);
    uint64_t wait = due ? token_bucket_take(&s->writes, now) : LOOK_MS;
    if (!due || (wait > 0 && !urgent)) {
        uint64_t next = now + wait;
        set_timer(s, s->o.lease != NULL && s->renew_at < next ? s->renew_at : next);
        return;
    }
    go_to(s, s->version == NULL ? PHASE_READING : PHASE_UPDATING);
}

void status_lease_look(struct status_lease *s, uint64_t ms)
{
    uint64_t at = now_of(s) + ms;
    at = at < s->allowed_at ? s->allowed_at : at;
    if (at < s->look_at) {
        set_timer(s, at);
    }
}

/* What is there is read before it is written again. */
static void on_expired(void *data)
{
    struct status_lease *s = data;
    if (s->phase == PHASE_IDLE) {
        set_version(s, NULL);
        status_lease_look(s, 0);
    }
}

void status_lease_asked(struct status_lease *s)
{
    s->asked_at = now_of(s);
}

/* ---- life ---- */

const char *status_lease_error(const struct status_lease *s)
{
    return s->trouble.code == 0 ? NULL : s->trouble.msg;
}

static int make_names(struct status_lease *s)
{
    if (asprintf(&s->path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases", s->o.namespace) <
        0) {
        s->path = NULL;
        return -ENOMEM;
    }
    if (asprintf(&s->name, CONTROL_LEASE_NAME "%s", s->o.pod) < 0) {
        s->name = NULL;
        return -ENOMEM;
    }
    return 0;
}

struct status_lease *status_lease_new(struct net_loop *l, const struct status_lease_options *o,
                                      struct err *e)
{
    struct status_lease *s = calloc(1, sizeof *s);
    if (s == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    s->loop = l;
    s->o = *o;
    s->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
    s->trouble = (struct err)ERR_INIT;
    s->timer = net_timer_new(l, on_timer, s);
    if (s->timer == NULL || make_names(s) != 0) {
        (void)err_memory(e);
        status_lease_free(s);
        return NULL;
    }
    token_bucket_init_limit(&s->writes, 1, LOOK_MS, WRITES_BURST);
    if (o->lease != NULL) {
        rules_lease_listen(o->lease, RULES_LEASE_STATUS, on_expired, s);
    }
    s->started_at = now_of(s);
    set_timer(s, s->started_at);
    return s;
}

void status_lease_free(struct status_lease *s)
{
    if (s == NULL) {
        return;
    }
    if (s->o.lease != NULL) {
        rules_lease_listen(s->o.lease, RULES_LEASE_STATUS, NULL, NULL);
    }
    object_request_cancel(s->request);
    net_timer_free(s->timer);
    cJSON_free(s->sent);
    cJSON_free(s->told);
    free(s->version);
    free(s->path);
    free(s->name);
    free(s);
}
