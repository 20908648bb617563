/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/discovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/backoff.h"
#include "base/state_machine.h"
#include "base/xalloc.h"
#include "kube/client/object_request.h"

enum {
    REFRESH_MS = 600000,
    BETWEEN_MS = 5000, /* rounds that were asked for */
    RETRY_MIN_MS = 2000,
    PARALLEL = 4, /* requests at a time */
    PATH_SIZE = 400,
};

/* As client-go asks: all groups in one document if the server can, else their names. */
static const char root_accept[] =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json";

/* One request. */
struct question {
    struct discovery *discovery;
    struct object_request *request;   /* NULL: not under way */
    struct resource_version *version; /* NULL: a root */
    char path[PATH_SIZE];
};

/*
 *   RESTING ---- time, or told to ----> ASKING: the roots, then each version that they only name
 *      ^                                   |
 *      +---------- nothing is left --------+
 *
 * and both --> CLOSED, for the rest of the callback that is on the stack.
 */
enum state { STATE_RESTING, STATE_ASKING, STATE_CLOSED };

static const struct state_machine machine = {
    .object = "discovery",
    .states = {[STATE_RESTING] = {"resting", STATE(STATE_ASKING) | STATE(STATE_CLOSED)},
               [STATE_ASKING] = {"asking", STATE(STATE_RESTING) | STATE(STATE_CLOSED)},
               [STATE_CLOSED] = {"closed", 0}},
};

struct discovery {
    struct net_loop *loop;
    struct kube_client *client;
    const struct discovery_handlers *handlers;
    void *data;
    const struct net_clock *clock;
    uint64_t refresh_ms;
    enum state state;
    unsigned calls; /* of ours on the stack that may call the user */

    struct net_timer *timer;
    uint64_t next_at; /* RESTING: of the next round */
    bool again;       /* ASKING: was told to meanwhile */
    struct backoff backoff;

    struct resource_table known;
    bool ready;
    struct err error;             /* as told to on_state; code 0: none */
    enum log_level level;         /* likewise */
    enum log_level failure_level; /* of what failed in this round: the highest */
    uint64_t begun;               /* rounds */
    uint64_t complete;            /* the last of them in which every part answered */

    /* of this round */
    struct resource_table found;
    struct list versions; /* not asked for yet */
    struct question questions[PARALLEL];
    unsigned roots; /* asked for */
    unsigned asking;
    unsigned failed;    /* parts of which nothing new is known */
    struct err failure; /* the first of them */
    bool root_failed;
    uint64_t ended_at;
};

static const char *const root_paths[] = {"/api", "/apis"};

enum { ROOTS = ARRAY_LEN(root_paths) };

/* ---- the state, and calls of the user ---- */

static void set_state(struct discovery *d, enum state next)
{
    d->state = state_change(&machine, d->state, next, SLICE(""));
    if (next == STATE_ASKING) {
        d->begun++;
        d->roots = 0;
        d->failed = 0;
        d->failure = (struct err)ERR_INIT;
        d->root_failed = false;
    }
}

static void destroy_discovery(struct discovery *d)
{
    resource_table_deinit(&d->known);
    free(d);
}

static void enter(struct discovery *d)
{
    d->calls++;
}

static void leave(struct discovery *d)
{
    if (--d->calls == 0 && d->state == STATE_CLOSED) {
        destroy_discovery(d);
    }
}

/* NULL: all is known. */
static void report_state(struct discovery *d, const struct err *e)
{
    enum log_level before = d->level;
    if (d->state == STATE_CLOSED ||
        (e == NULL ? d->error.code == 0
                   : d->error.code != 0 && strcmp(d->error.msg, e->msg) == 0)) {
        return;
    }
    d->error = e == NULL ? (struct err)ERR_INIT : *e;
    d->level = e != NULL ? d->failure_level : before == LOG_DEBUG ? LOG_DEBUG : LOG_INFO;
    if (d->handlers != NULL && d->handlers->on_state != NULL) {
        d->handlers->on_state(d->data, e == NULL ? NULL : d->error.msg, d->level);
    }
}

static void tell_change(struct discovery *d)
{
    if (d->handlers != NULL && d->handlers->on_change != NULL) {
        d->handlers->on_change(d->data);
    }
}

static void tell_complete(struct discovery *d)
{
    d->complete = d->begun;
    if (d->state != STATE_CLOSED && d->handlers != NULL && d->handlers->on_complete != NULL) {
        d->handlers->on_complete(d->data);
    }
}

/* ---- the parts of a round ---- */

static bool is_core(const struct question *q)
{
    return q->version == NULL && strcmp(q->path, root_paths[0]) == 0;
}

/* What was known of that part stays. */
static void keep_known(struct discovery *d, const struct question *q)
{
    if (q->version != NULL) {
        resource_table_copy(&d->found, &d->known, q->version->group, q->version->version);
    } else if (is_core(q)) {
        resource_table_copy(&d->found, &d->known, "", NULL);
    } else {
        resource_table_copy_groups(&d->found, &d->known);
    }
}

static void question_failed(struct discovery *d, const struct question *q, const char *why,
                            enum log_level level)
{
    d->failure_level = d->failed == 0 || level < d->failure_level ? level : d->failure_level;
    const struct resource_version *v = q->version;
    if (d->failed++ == 0 && v == NULL) {
        err_set(&d->failure, -EIO, "%s: %s", q->path, why);
    } else if (d->failed == 1) {
        err_set(&d->failure, -EIO, "%s%s%s: %s", v->group, v->group[0] == '\0' ? "" : "/",
                v->version, why);
    }
    d->root_failed = d->root_failed || v == NULL;
    keep_known(d, q);
}

static void add_document(struct discovery *d, const struct question *q, const cJSON *document)
{
    struct err e = ERR_INIT;
    int rc = q->version == NULL ? resource_table_add_root(&d->found, document, &d->versions, &e)
                                : resource_table_add_list(&d->found, document, q->version, &e);
    if (rc != 0) {
        question_failed(d, q, e.msg, LOG_WARN);
    }
}

static void close_question(struct question *q)
{
    object_request_cancel(q->request);
    free(q->version);
    q->request = NULL;
    q->version = NULL;
}

static void ask_more(struct discovery *d);

static void on_answer(void *data, const cJSON *object, const struct api_error *error)
{
    struct question *q = data;
    struct discovery *d = q->discovery;
    q->request = NULL;
    d->asking--;
    if (object != NULL) {
        add_document(d, q, object);
    } else if (error->code != 404) { /* it is not there, or not any more */
        question_failed(d, q, error->msg, error->level);
    }
    close_question(q);
    enter(d);
    ask_more(d);
    leave(d);
}

static struct question *free_question(struct discovery *d)
{
    size_t i = 0;
    while (d->questions[i].request != NULL) {
        i++;
    }
    return &d->questions[i];
}

static void send_question(struct discovery *d, struct question *q)
{
    const struct resource_version *v = q->version;
    struct err e = ERR_INIT;
    struct object_request_options request = {
        .verb = OBJECT_REQUEST_GET, .path = q->path, .accept = root_accept};
    if (v != NULL) {
        request.accept = NULL;
        (void)snprintf(q->path, sizeof q->path, "%s%s/%s", v->group[0] == '\0' ? "/api" : "/apis/",
                       v->group, v->version);
    }
    bool stale = v != NULL && v->stale;
    if (stale) {
        err_set(&e, -EIO, "its API server does not respond");
    } else {
        q->request = object_request_start(d->loop, d->client, &request, on_answer, q, &e);
    }
    if (q->request != NULL) {
        d->asking++;
    } else {
        question_failed(d, q, e.msg, stale ? LOG_WARN : kube_client_failure_level(d->client, 0));
        close_question(q);
    }
}

/* False: nothing is left to ask for. */
static bool ask_next(struct discovery *d)
{
    struct question *q = free_question(d);
    if (d->roots < ROOTS) {
        (void)snprintf(q->path, sizeof q->path, "%s", root_paths[d->roots++]);
    } else if (!list_empty(&d->versions)) {
        q->version = LIST_ITEM(d->versions.next, struct resource_version, link);
        list_remove(&q->version->link);
    } else {
        return false;
    }
    send_question(d, q);
    return true;
}

/* ---- rounds ---- */

static void set_timer(struct discovery *d)
{
    uint64_t now = net_clock_now(d->clock);
    if (d->state == STATE_RESTING) {
        net_clock_set_timer(d->clock, d->timer, d->next_at > now ? d->next_at - now : 0);
    }
}

static void wait_for_next_round(struct discovery *d, bool well)
{
    uint64_t pause = d->refresh_ms;
    if (well) {
        backoff_reset(&d->backoff);
    } else {
        pause = backoff_next(&d->backoff, net_clock_random(d->clock));
    }
    if (d->again && pause > BETWEEN_MS) {
        pause = BETWEEN_MS;
    }
    d->again = false;
    set_state(d, STATE_RESTING);
    d->ended_at = net_clock_now(d->clock);
    d->next_at = d->ended_at + pause;
}

/* Whether more is known than before, or other things. */
static bool take_over(struct discovery *d)
{
    bool was_ready = d->ready;
    resource_table_finish(&d->found);
    d->ready = d->ready || !d->root_failed;
    bool changed = !resource_table_same(&d->known, &d->found);
    resource_table_deinit(&d->known);
    d->known = d->found;
    d->found = (struct resource_table){0};
    return changed || d->ready != was_ready;
}

static void end_round(struct discovery *d)
{
    struct err e = d->failure;
    if (d->failed > 1) {
        err_set(&e, -EIO, "%s (and %u more)", d->failure.msg, d->failed - 1);
    }
    err_prefix(&e, "discovery is incomplete");
    bool changed = take_over(d);
    wait_for_next_round(d, e.code == 0);
    if (changed) {
        tell_change(d);
    }
    report_state(d, e.code == 0 ? NULL : &e);
    if (e.code == 0) {
        tell_complete(d);
    }
    if (d->state != STATE_CLOSED) {
        set_timer(d);
    }
}

static void ask_more(struct discovery *d)
{
    while (d->asking < PARALLEL && ask_next(d)) {
    }
    if (d->asking == 0) {
        end_round(d);
    }
}

static void on_timer(void *data)
{
    struct discovery *d = data;
    if (d->state != STATE_RESTING) {
        return;
    }
    if (net_clock_now(d->clock) < d->next_at) {
        set_timer(d);
        return;
    }
    set_state(d, STATE_ASKING);
    enter(d);
    ask_more(d);
    leave(d);
}

/* ---- what users call ---- */

struct discovery *discovery_new(struct net_loop *l, const struct discovery_options *o,
                                const struct discovery_handlers *handlers, void *data)
{
    struct discovery *d = xcalloc(1, sizeof *d);
    d->loop = l;
    d->client = o->client;
    d->handlers = handlers;
    d->data = data;
    d->clock = o->clock == NULL ? &net_clock_system : o->clock;
    d->refresh_ms = o->refresh_ms == 0 ? REFRESH_MS : o->refresh_ms;
    d->timer = xptr(net_timer_new(l, on_timer, d));
    list_init(&d->versions);
    for (size_t i = 0; i < PARALLEL; i++) {
        d->questions[i].discovery = d;
    }
    backoff_init(&d->backoff, RETRY_MIN_MS < d->refresh_ms ? RETRY_MIN_MS : d->refresh_ms,
                 d->refresh_ms);
    d->next_at = net_clock_now(d->clock);
    set_timer(d);
    return d;
}

void discovery_refresh(struct discovery *d)
{
    uint64_t soon = d->ended_at + BETWEEN_MS;
    if (d->state == STATE_ASKING) {
        d->again = true;
    } else if (d->state == STATE_RESTING && soon < d->next_at) {
        d->next_at = soon;
        set_timer(d);
    }
}

uint64_t discovery_next_round(const struct discovery *d)
{
    return d->begun + 1;
}

uint64_t discovery_complete_round(const struct discovery *d)
{
    return d->complete;
}

bool discovery_ready(const struct discovery *d)
{
    return d->ready;
}

const char *discovery_error(const struct discovery *d)
{
    return d->error.code == 0 ? NULL : d->error.msg;
}

const struct discovery_resource *discovery_all(const struct discovery *d, size_t *count)
{
    *count = d->known.count;
    return d->known.items;
}

void discovery_free(struct discovery *d)
{
    if (d == NULL || d->state == STATE_CLOSED) {
        return;
    }
    set_state(d, STATE_CLOSED);
    for (size_t i = 0; i < PARALLEL; i++) {
        close_question(&d->questions[i]);
    }
    while (!list_empty(&d->versions)) {
        struct list *n = d->versions.next;
        list_remove(n);
        free(LIST_ITEM(n, struct resource_version, link));
    }
    resource_table_deinit(&d->found);
    net_timer_free(d->timer);
    if (d->calls == 0) {
        destroy_discovery(d);
    }
}
