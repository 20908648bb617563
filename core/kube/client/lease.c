/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/lease.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/state_machine.h"
#include "base/xalloc.h"
#include "kube/client/lease_object.h"
#include "kube/client/object_request.h"
#include "kube/name.h"

enum {
    DURATION_MS = 15000,
    RENEW_DEADLINE_MS = 10000,
    RETRY_PERIOD_MS = 2000,
    PATH_SIZE = 160,
    LOOKS_MAX = 3, /* in one attempt, when others write the Lease at the same time */
};

/*
 *   new --> CANDIDATE --- written in our name ---> LEADER
 *            |  ^                                   |  |
 *            |  +--- another's name, or too late ---+  |
 *            |              (on_stopped)               |
 *            +---> RELEASING <--- (on_stopped) --------+
 *                     |
 *                     +---> RELEASED: nothing of ours is written any more, or time is up
 *
 * and each of them --> CLOSED, for the rest of the callback that is on the stack.
 */
enum state { STATE_CANDIDATE, STATE_LEADER, STATE_RELEASING, STATE_RELEASED, STATE_CLOSED };

static const struct state_machine machine = {
    .object = "lease",
    .states = {[STATE_CANDIDATE] = {"candidate", STATE(STATE_LEADER) | STATE(STATE_RELEASING) |
                                                     STATE(STATE_CLOSED)},
               [STATE_LEADER] = {"leader", STATE(STATE_CANDIDATE) | STATE(STATE_RELEASING) |
                                               STATE(STATE_CLOSED)},
               [STATE_RELEASING] = {"releasing", STATE(STATE_RELEASED) | STATE(STATE_CLOSED)},
               [STATE_RELEASED] = {"released", STATE(STATE_CLOSED)},
               [STATE_CLOSED] = {"closed", 0}},
};

struct lease {
    struct net_loop *loop;
    struct kube_client *client;
    const struct lease_handlers *handlers;
    void *data;
    const struct net_clock *clock;
    char *namespace;
    char *name;
    char *identity;
    char path[PATH_SIZE]; /* of the namespace's Leases */
    uint64_t duration_ms;
    uint64_t renew_deadline_ms;
    uint64_t retry_period_ms;

    enum state state;
    unsigned calls;       /* of ours on the stack that may call the user */
    struct err error;     /* as told to on_state; code 0: none */
    enum log_level level; /* likewise */
    bool refused;         /* that is what the API server answered */
    char *leader;         /* as told to on_leader */

    struct net_timer *timer;
    uint64_t attempt_at; /* the next attempt, while no request is under way */
    uint64_t renewed_at; /* LEADER: when the last renewal that succeeded was sent */
    uint64_t release_by; /* RELEASING: when it is given up */
    uint64_t led_until;  /* as long as somebody is known to lead, or to have led */
    uint64_t tell_at;    /* CANDIDATE: when to tell that nobody leads */

    cJSON *seen;      /* the Lease as it was read or written last; NULL: not known */
    uint64_t seen_at; /* when it was seen to have changed */
    bool unsure;      /* a write of ours failed, or nobody knows: it is to be read first */

    struct object_request *request;
    bool writing;           /* `request` is not just a look */
    enum lease_claim claim; /* what it writes */
    unsigned looks;         /* in this attempt */
    uint64_t sent_at;

    lease_release_cb on_released;
    void *release_data;
};

/* ---- the state, and calls of the user ---- */

static void set_state(struct lease *l, enum state next)
{
    l->state = state_change(&machine, l->state, next, slice_str(l->name));
}

static void destroy_lease(struct lease *l)
{
    cJSON_Delete(l->seen);
    free(l->leader);
    free(l->namespace);
    free(l->name);
    free(l->identity);
    free(l);
}

static uint64_t now(const struct lease *l)
{
    return net_clock_now(l->clock);
}

static uint64_t deadline(const struct lease *l)
{
    return l->renewed_at + l->renew_deadline_ms;
}

static void set_timer(struct lease *l)
{
    uint64_t at = UINT64_MAX;
    uint64_t t = now(l);
    if (l->request == NULL && l->state != STATE_RELEASED) {
        at = l->attempt_at;
    }
    if (l->state == STATE_CANDIDATE && l->tell_at < at) {
        at = l->tell_at;
    }
    if (l->state == STATE_LEADER && deadline(l) < at) {
        at = deadline(l);
    }
    if (l->state == STATE_RELEASING && l->release_by < at) {
        at = l->release_by;
    }
    if (l->state == STATE_RELEASED && l->on_released != NULL) {
        at = t;
    }
    if (at == UINT64_MAX) {
        net_timer_clear(l->timer);
    } else {
        net_clock_set_timer(l->clock, l->timer, at > t ? at - t : 0);
    }
}

/* Between these two the memory stays, whatever the user does. */
static void enter(struct lease *l)
{
    l->calls++;
}

static void leave(struct lease *l)
{
    if (--l->calls > 0) {
        return;
    }
    if (l->state == STATE_CLOSED) {
        destroy_lease(l);
    } else {
        set_timer(l);
    }
}

static void report_state(struct lease *l, const struct err *e, enum log_level level)
{
    if (l->state == STATE_CLOSED ||
        (e == NULL ? l->error.code == 0
                   : l->error.code != 0 && strcmp(l->error.msg, e->msg) == 0)) {
        return;
    }
    l->error = e == NULL ? (struct err)ERR_INIT : *e;
    l->level = level;
    if (l->handlers->on_state != NULL) {
        l->handlers->on_state(l->data, e == NULL ? NULL : l->error.msg, level);
    }
}

static void report_well(struct lease *l)
{
    l->refused = false;
    report_state(l, NULL, l->level == LOG_DEBUG ? LOG_DEBUG : LOG_INFO);
}

static void report_leader(struct lease *l)
{
    const char *holder = lease_object_holder(l->seen);
    if (l->state == STATE_CLOSED || strcmp(l->leader, holder) == 0) {
        return;
    }
    free(l->leader);
    l->leader = xstrdup(holder);
    if (l->handlers->on_leader != NULL) {
        l->handlers->on_leader(l->data, l->leader);
    }
}

/* ---- what is known ---- */

static bool is_ours(const struct lease *l)
{
    return strcmp(lease_object_holder(l->seen), l->identity) == 0;
}

/* Until when somebody else may go on to lead; 0: nobody may. */
static uint64_t taken_until(const struct lease *l)
{
    uint64_t lasts = (uint64_t)lease_object_seconds(l->seen) * 1000;
    lasts = lasts > l->duration_ms ? lasts : l->duration_ms;
    return lease_object_holder(l->seen)[0] == '\0' || is_ours(l) ? 0 : l->seen_at + lasts;
}

static void led_until(struct lease *l, uint64_t t)
{
    if (t > l->led_until) {
        l->led_until = t;
        l->tell_at = t + LEASE_PATIENCE * l->duration_ms;
    }
}

static void observe(struct lease *l, const cJSON *object)
{
    if (l->seen == NULL || !lease_object_same(l->seen, object)) {
        l->seen_at = now(l);
    }
    cJSON_Delete(l->seen);
    l->seen = cJSON_Duplicate(object, true);
    l->unsure = false;
    led_until(l, taken_until(l));
}

/* ---- to lead, and to stop ---- */

static void start_leading(struct lease *l)
{
    set_state(l, STATE_LEADER);
    log_info("became leader", log_str("lease", l->name), log_str("identity", l->identity));
    l->handlers->on_started(l->data);
}

/* `next`: CANDIDATE or RELEASING. */
static void stop_leading(struct lease *l, enum state next, const char *why)
{
    set_state(l, next);
    log_info("lost leadership", log_str("lease", l->name), log_str("identity", l->identity),
             log_str("reason", why));
    l->handlers->on_stopped(l->data);
}

/* The rest of an attempt: the next one is so far away. A candidate's is up to chance, so that not
 * all of them try at the same moment. */
static void schedule_next_attempt(struct lease *l)
{
    uint64_t pause = l->retry_period_ms;
    if (l->state == STATE_CANDIDATE) {
        pause += pause * 6 / 5 * (net_clock_random(l->clock) >> 16) >> 16;
    }
    l->attempt_at = now(l) + pause;
    l->looks = 0;
}

static void fail_attempt(struct lease *l, const char *verb, const char *why, enum log_level level)
{
    struct err e = ERR_INIT;
    err_set(&e, -EIO, "cannot %s the lease %s/%s: %s", verb, l->namespace, l->name, why);
    schedule_next_attempt(l);
    report_state(l, &e, level);
}

/* Here, not there. */
static void attempt_failed(struct lease *l, const char *verb, const char *why)
{
    l->refused = false;
    fail_attempt(l, verb, why, kube_client_failure_level(l->client, 0));
}

static void attempt_refused(struct lease *l, const char *verb, const struct api_error *error)
{
    l->refused = error->code != 0;
    fail_attempt(l, verb, error->msg, error->level);
}

static void cancel_request(struct lease *l)
{
    object_request_cancel(l->request);
    l->request = NULL;
}

static void finish_release(struct lease *l)
{
    cancel_request(l);
    set_state(l, STATE_RELEASED);
}

/* ---- requests ---- */

static void on_read(void *data, const cJSON *object, const struct api_error *error);
static void on_write(void *data, const cJSON *object, const struct api_error *error);

static int send_request(struct lease *l, const struct object_request_options *q, struct err *e)
{
    l->writing = q->verb != OBJECT_REQUEST_GET;
    l->sent_at = now(l);
    l->request = object_request_start(l->loop, l->client, q, l->writing ? on_write : on_read, l, e);
    return l->request == NULL ? e->code : 0;
}

static void read_lease(struct lease *l)
{
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_GET,
        .path = l->path,
        .name = l->name,
        .timeout_ms = l->renew_deadline_ms / 2,
    };
    struct err e = ERR_INIT;
    l->looks++;
    if (send_request(l, &q, &e) != 0) {
        attempt_failed(l, "read", e.msg);
    }
}

static const char *verb_of(enum lease_claim claim)
{
    static const char *const verbs[] = {
        [LEASE_CREATE] = "create",
        [LEASE_ACQUIRE] = "acquire",
        [LEASE_RENEW] = "renew",
        [LEASE_RELEASE] = "release",
    };
    return verbs[claim];
}

static void write_lease(struct lease *l, enum lease_claim claim)
{
    struct err e = ERR_INIT;
    bool create = claim == LEASE_CREATE;
    l->claim = claim;
    cJSON *blank = create ? lease_object_new(l->namespace, l->name) : NULL;
    cJSON *body = lease_object_claim(create ? blank : l->seen, claim, l->identity,
                                     (int64_t)l->duration_ms / 1000, net_clock_wall(l->clock));
    const struct object_request_options q = {
        .verb = create ? OBJECT_REQUEST_CREATE : OBJECT_REQUEST_UPDATE,
        .path = l->path,
        .name = create ? NULL : l->name,
        .body = body,
        .timeout_ms = l->renew_deadline_ms / 2,
    };
    if (body == NULL) {
        attempt_failed(l, verb_of(claim), "the system's clock shows no date");
    } else if (send_request(l, &q, &e) != 0) {
        attempt_failed(l, verb_of(claim), e.msg);
    }
    cJSON_Delete(blank);
    cJSON_Delete(body);
}

/* ---- answers ---- */

static void wait_for_others(struct lease *l, uint64_t until)
{
    schedule_next_attempt(l);
    if (until < l->attempt_at) {
        l->attempt_at = until;
    }
    report_well(l);
}

/* The Lease is known as it is now. */
static void act_on_lease(struct lease *l)
{
    bool ours = is_ours(l);
    if (l->state == STATE_RELEASING && !ours) {
        finish_release(l);
        return;
    }
    if (l->state == STATE_LEADER && !ours) {
        stop_leading(l, STATE_CANDIDATE, "another process holds the lease");
        if (l->state != STATE_CANDIDATE) {
            return;
        }
    }
    uint64_t until = taken_until(l);
    if (until > now(l)) {
        wait_for_others(l, until);
    } else {
        write_lease(l, l->state == STATE_RELEASING ? LEASE_RELEASE
                       : ours                      ? LEASE_RENEW
                                                   : LEASE_ACQUIRE);
    }
}

static void take_look(struct lease *l, const cJSON *object, const struct api_error *error)
{
    if (object != NULL) {
        observe(l, object);
        act_on_lease(l);
    } else if (error->code != 404) {
        attempt_refused(l, "read", error);
    } else if (l->state == STATE_RELEASING) {
        finish_release(l);
    } else {
        write_lease(l, LEASE_CREATE);
    }
}

static void on_read(void *data, const cJSON *object, const struct api_error *error)
{
    struct lease *l = data;
    l->request = NULL;
    enter(l);
    take_look(l, object, error);
    report_leader(l);
    leave(l);
}

/* It is written in our name. How long that counts runs from when it was sent. */
static void take_success(struct lease *l)
{
    uint64_t sent_at = l->sent_at;
    bool late = now(l) >= sent_at + l->renew_deadline_ms;
    l->renewed_at = sent_at;
    led_until(l, deadline(l));
    schedule_next_attempt(l);
    if (l->state == STATE_RELEASING) {
        act_on_lease(l);
    } else if (l->state == STATE_LEADER && late) {
        stop_leading(l, STATE_CANDIDATE, "the lease was not renewed in time");
    } else if (late) {
        l->attempt_at = now(l); /* it is renewed before anything is done in its name */
    } else if (l->state == STATE_CANDIDATE) {
        start_leading(l);
    }
    report_well(l);
}

/* Somebody else was faster, or removed it, or perhaps it was written: a look tells. A candidate
 * that was not the first has time. Where it cannot be made, there is no such namespace. */
static void take_failure(struct lease *l, const struct api_error *error)
{
    bool conflict = error->code == 409 || (error->code == 404 && l->claim != LEASE_CREATE);
    if ((conflict || error->code == 0) && l->state != STATE_CANDIDATE && l->looks < LOOKS_MAX) {
        read_lease(l);
    } else if (conflict && l->state == STATE_CANDIDATE) {
        schedule_next_attempt(l);
    } else {
        attempt_refused(l, verb_of(l->claim), error);
    }
}

static void on_write(void *data, const cJSON *object, const struct api_error *error)
{
    struct lease *l = data;
    l->request = NULL;
    l->unsure = true;
    enter(l);
    if (object == NULL) {
        take_failure(l, error);
    } else {
        observe(l, object);
        take_success(l);
    }
    report_leader(l);
    leave(l);
}

/* ---- time ---- */

static void begin_attempt(struct lease *l)
{
    l->looks = 0;
    /* A leader knows what it wrote last; if that is not so any more, the server says so. */
    if (l->state == STATE_CANDIDATE || l->seen == NULL || l->unsure) {
        read_lease(l);
    } else {
        act_on_lease(l);
    }
}

/* What is over, is over first. */
static void take_time(struct lease *l)
{
    uint64_t t = now(l);
    if (l->state == STATE_LEADER && t >= deadline(l)) {
        cancel_request(l);
        schedule_next_attempt(l);
        stop_leading(l, STATE_CANDIDATE, "the lease could not be renewed in time");
    } else if (l->state == STATE_RELEASING && t >= l->release_by) {
        log_warn("cannot release the lease", log_str("lease", l->name));
        finish_release(l);
    } else if (l->state == STATE_CANDIDATE && t >= l->tell_at) {
        l->tell_at = t + LEASE_PATIENCE * l->duration_ms;
        if (l->handlers->on_leaderless != NULL) {
            l->handlers->on_leaderless(l->data, lease_leaderless_ms(l));
        }
    }
    if (l->state < STATE_RELEASED && l->request == NULL && t >= l->attempt_at) {
        begin_attempt(l);
    }
}

static void on_timer(void *data)
{
    struct lease *l = data;
    enter(l);
    take_time(l);
    lease_release_cb cb = l->state == STATE_RELEASED ? l->on_released : NULL;
    if (cb != NULL) {
        l->on_released = NULL;
        cb(l->release_data);
    }
    leave(l);
}

/* ---- life ---- */

static int check_options(const struct lease_options *o, const struct lease *l, struct err *e)
{
    const char *why = name_check_label(slice_str(o->namespace));
    if (why != NULL) {
        return err_set(e, -EINVAL, "the namespace of the lease: %s", why);
    }
    why = name_check_subdomain(slice_str(o->name));
    if (why != NULL) {
        return err_set(e, -EINVAL, "the name of the lease: %s", why);
    }
    if (o->identity == NULL || o->identity[0] == '\0') {
        return err_set(e, -EINVAL, "the identity of this process is missing");
    }
    if (l->duration_ms % 1000 != 0 || l->duration_ms / 1000 > INT32_MAX) {
        return err_set(e, -EINVAL, "the lease duration must be a whole number of seconds");
    }
    if (l->renew_deadline_ms >= l->duration_ms) {
        return err_set(e, -EINVAL, "the lease duration must be longer than the renew deadline");
    }
    if (l->retry_period_ms * 6 / 5 >= l->renew_deadline_ms) {
        return err_set(e, -EINVAL, "the renew deadline must be longer than 1.2 retry periods");
    }
    return 0;
}

static int set_options(struct lease *l, const struct lease_options *o, struct err *e)
{
    l->client = o->client;
    l->clock = o->clock == NULL ? &net_clock_system : o->clock;
    l->duration_ms = o->duration_ms == 0 ? DURATION_MS : o->duration_ms;
    l->renew_deadline_ms = o->renew_deadline_ms == 0 ? RENEW_DEADLINE_MS : o->renew_deadline_ms;
    l->retry_period_ms = o->retry_period_ms == 0 ? RETRY_PERIOD_MS : o->retry_period_ms;
    if (check_options(o, l, e) != 0) {
        return -EINVAL;
    }
    l->namespace = xstrdup(o->namespace);
    l->name = xstrdup(o->name);
    l->identity = xstrdup(o->identity);
    l->leader = xstrdup("");
    (void)snprintf(l->path, sizeof l->path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases",
                   l->namespace);
    return 0;
}

struct lease *lease_new(struct net_loop *loop, const struct lease_options *o,
                        const struct lease_handlers *handlers, void *data, struct err *e)
{
    struct lease *l = xcalloc(1, sizeof *l);
    if (set_options(l, o, e) != 0) {
        destroy_lease(l);
        return NULL;
    }
    l->timer = xptr(net_timer_new(loop, on_timer, l));
    l->loop = loop;
    l->handlers = handlers;
    l->data = data;
    l->attempt_at = now(l);
    l->led_until = l->attempt_at;
    l->tell_at = l->led_until + LEASE_PATIENCE * l->duration_ms;
    set_timer(l);
    return l;
}

bool lease_held(const struct lease *l)
{
    return l->state == STATE_LEADER && now(l) < deadline(l);
}

const char *lease_leader(const struct lease *l)
{
    return l->leader;
}

const char *lease_error(const struct lease *l)
{
    return l->error.code == 0 ? NULL : l->error.msg;
}

bool lease_refused(const struct lease *l)
{
    return l->refused;
}

uint64_t lease_leaderless_ms(const struct lease *l)
{
    uint64_t t = now(l);
    return l->state == STATE_LEADER || t < l->led_until ? 0 : t - l->led_until;
}

static void begin_release(struct lease *l, bool perhaps_ours)
{
    if (l->request != NULL && l->writing) {
        return; /* what it does is known with its answer */
    }
    cancel_request(l);
    l->attempt_at = now(l);
    if (!perhaps_ours) {
        finish_release(l);
    }
}

void lease_release(struct lease *l, lease_release_cb cb, void *data)
{
    if (l->state != STATE_CANDIDATE && l->state != STATE_LEADER) {
        return;
    }
    bool leads = l->state == STATE_LEADER;
    l->on_released = cb;
    l->release_data = data;
    l->release_by = now(l) + l->renew_deadline_ms;
    enter(l);
    if (leads) {
        stop_leading(l, STATE_RELEASING, "shutting down");
    } else {
        set_state(l, STATE_RELEASING);
    }
    if (l->state == STATE_RELEASING) {
        begin_release(l, leads || l->unsure || is_ours(l));
    }
    leave(l);
}

void lease_free(struct lease *l)
{
    if (l == NULL || l->state == STATE_CLOSED) {
        return;
    }
    set_state(l, STATE_CLOSED);
    cancel_request(l);
    net_timer_free(l->timer);
    if (l->calls == 0) {
        destroy_lease(l);
    }
}
