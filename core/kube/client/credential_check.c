/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/credential_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/state_machine.h"

enum {
    SECOND_MS = 1000,
    AGAIN_MAX_MS = 10 * SECOND_MS, /* between questions while they are refused */
    QUIET_MS = 10 * SECOND_MS,     /* and while they are accepted */
    ANSWER_MS = 15 * SECOND_MS,
    ANSWER_MAX = 64 * 1024,
    REQUEST_SHOWN = 192,
    US_PER_SECOND = 1000000,
};

enum state { ACCEPTED, DOUBTED, REFUSED };

static const struct state_machine machine = {
    .object = "credentials at the API server",
    .states = {[ACCEPTED] = {"Accepted", STATE(DOUBTED)},
               [DOUBTED] = {"Doubted", STATE(ACCEPTED) | STATE(REFUSED)},
               [REFUSED] = {"Refused", STATE(ACCEPTED)}},
};

struct credential_check {
    struct credential_check_options o;
    struct net_loop *loop;
    enum state state;
    bool rejected;         /* a 401 has come, of which the credentials are to be told */
    struct net_task task;  /* runs after the client's handlers have returned */
    struct net_timer *due; /* of the next question */
    struct http_fetch *asking;
    struct backoff backoff;
    uint64_t asked_ms; /* the last question; 0: none yet */
    uint64_t refused_ms;
    char request[REQUEST_SHOWN];           /* of our own, answered 401 just now; "": none */
    char before[REQUEST_SHOWN];            /* likewise, before they were last accepted */
    char subject[CREDENTIAL_SUBJECT_SIZE]; /* of the row that was raised */
};

static void set_state(struct credential_check *c, enum state next)
{
    c->state = state_change(&machine, c->state, next, slice_str(c->o.server));
}

/* ---- the row ---- */

static void raise_row(struct credential_check *c, const char *message)
{
    struct credential_text text;
    credentials_describe(c->o.credentials, &text);
    if (strcmp(c->subject, text.subject) != 0) {
        credential_check_found(c);
    }
    (void)snprintf(c->subject, sizeof c->subject, "%s", text.subject);
    const struct health_report r = {
        .cause = HEALTH_CREDENTIALS,
        .subject = text.subject,
        .message = message,
        .remedy = text.remedy,
    };
    health_raise(c->o.health, &r);
}

static void raise_refused(struct credential_check *c)
{
    struct credential_text text;
    char until[RFC3339_SIZE];
    struct err e = ERR_INIT;
    credentials_describe(c->o.credentials, &text);
    bool over = text.valid.until != 0 &&
                text.valid.until <= net_clock_wall(c->o.clock) / US_PER_SECOND &&
                rfc3339_format(text.valid.until, until) == 0;
    err_set(&e, 0, "%s answers 401 Unauthorized%s%s", c->o.server,
            over        ? ": it expired at "
            : text.none ? ""
                        : ": it is not valid there, or was revoked",
            over ? until : "");
    raise_row(c, e.msg);
}

void credential_check_found(struct credential_check *c)
{
    if (c->subject[0] != '\0') {
        health_clear(c->o.health, HEALTH_CREDENTIALS, c->subject);
        c->subject[0] = '\0';
    }
}

void credential_check_lost(struct credential_check *c)
{
    const char *why = credentials_error(c->o.credentials);
    raise_row(c, why != NULL ? why : "there is none");
}

/* ---- the question ---- */

static void ask(struct credential_check *c);

static void ask_in(struct credential_check *c, uint64_t ms)
{
    net_clock_set_timer(c->o.clock, c->due, ms);
}

static void ask_later(struct credential_check *c)
{
    ask_in(c, backoff_next(&c->backoff, net_clock_random(c->o.clock)));
}

static void on_due(void *data)
{
    struct credential_check *c = data;
    if (c->state != ACCEPTED && c->asking == NULL) {
        ask(c);
    }
}

static void take_acceptance(struct credential_check *c)
{
    bool same = strcmp(c->request, c->before) == 0;
    if (c->request[0] != '\0' && same) {
        log_warn("the API server accepts the credentials, but answers 401 to a request: what "
                 "serves it, an aggregated API perhaps, refuses them",
                 log_str("request", c->request));
    }
    (void)snprintf(c->before, sizeof c->before, "%s", c->request); /* they may be others by now */
    c->request[0] = '\0';
    backoff_reset(&c->backoff);
    set_state(c, ACCEPTED);
    credential_check_found(c);
}

static void take_refusal(struct credential_check *c)
{
    if (c->state == DOUBTED) {
        set_state(c, REFUSED);
        c->refused_ms = net_clock_now(c->o.clock);
    }
    c->request[0] = '\0';
    raise_refused(c);
    ask_later(c);
}

/* Of an answer that the API server gives only to those whom it knows. */
static bool is_proof(unsigned status)
{
    return status < 500 && status != 401 && status != 429;
}

static void on_answer(void *data, const struct http_answer *a, const struct err *e)
{
    struct credential_check *c = data;
    (void)e;
    c->asking = NULL;
    if (a != NULL && a->status == 401) {
        take_refusal(c);
    } else if (a != NULL && is_proof(a->status)) {
        take_acceptance(c);
    } else {
        ask_later(c);
    }
}

static void ask(struct credential_check *c)
{
    const struct http_header headers[] = {
        {SLICE("Accept"), SLICE("application/json")},
        {SLICE("User-Agent"), SLICE("cmesh/" CMESH_VERSION)},
    };
    const struct http_fetch_options o = {
        .via = c->o.via,
        .method = SLICE("GET"),
        .target = SLICE("/version"),
        .headers = headers,
        .header_count = sizeof headers / sizeof headers[0],
        .answer_max = ANSWER_MAX,
        .timeout_ms = ANSWER_MS,
    };
    struct err e = ERR_INIT;
    c->asked_ms = net_clock_now(c->o.clock);
    c->asking = credentials_ready(c->o.credentials)
                    ? http_fetch_start(c->loop, &o, on_answer, c, &e)
                    : NULL;
    if (c->asking == NULL) {
        ask_later(c);
    }
}

/* As soon as that many have passed since the last time. */
static void ask_soon(struct credential_check *c, uint64_t between_ms)
{
    uint64_t now = net_clock_now(c->o.clock);
    uint64_t passed = now - c->asked_ms;
    if (c->asking != NULL) {
        return;
    }
    if (c->asked_ms == 0 || passed >= between_ms) {
        ask(c);
    } else {
        ask_in(c, between_ms - passed);
    }
}

static void on_task(struct net_task *t)
{
    struct credential_check *c = LIST_ITEM(t, struct credential_check, task);
    bool rejected = c->rejected;
    c->rejected = false;
    if (rejected) {
        credentials_rejected(c->o.credentials);
    }
    if (c->state == REFUSED && !rejected) {
        ask_soon(c, SECOND_MS);
    } else if (c->state == ACCEPTED && rejected) {
        set_state(c, DOUBTED);
        ask_soon(c, QUIET_MS);
    }
}

static void note_request(struct credential_check *c, const struct http_head *request)
{
    struct slice target = request->target;
    const char *query = memchr(target.ptr, '?', target.len);
    size_t len = query != NULL ? (size_t)(query - target.ptr) : target.len;
    if (!request->borrowed && c->asking == NULL) {
        (void)snprintf(c->request, sizeof c->request, "%.*s %.*s", (int)(request->method.len & 15),
                       request->method.ptr, (int)(len < REQUEST_SHOWN ? len : REQUEST_SHOWN),
                       target.ptr);
    }
}

void credential_check_status(struct credential_check *c, const struct http_head *request,
                             unsigned status)
{
    if (status == 401) {
        c->rejected = true;
        note_request(c, request);
        net_task_queue(c->loop, &c->task);
    } else if (c->state == REFUSED && c->asking == NULL && is_proof(status)) {
        net_task_queue(c->loop, &c->task);
    }
}

/* ---- life ---- */

struct credential_check *
credential_check_new(struct net_loop *l, const struct credential_check_options *o, struct err *e)
{
    struct credential_check *c = calloc(1, sizeof *c);
    if (c == NULL || (c->due = net_timer_new(l, on_due, c)) == NULL) {
        free(c);
        err_memory(e);
        return NULL;
    }
    c->loop = l;
    c->o = *o;
    net_task_init(&c->task, on_task);
    backoff_init(&c->backoff, SECOND_MS, AGAIN_MAX_MS);
    return c;
}

void credential_check_free(struct credential_check *c)
{
    if (c == NULL) {
        return;
    }
    http_fetch_cancel(c->asking);
    net_task_cancel(&c->task);
    net_timer_free(c->due);
    free(c);
}

bool credential_check_doubted(const struct credential_check *c)
{
    return c->state != ACCEPTED || c->rejected;
}

uint64_t credential_check_refused_ms(const struct credential_check *c)
{
    uint64_t ms = net_clock_now(c->o.clock) - c->refused_ms;
    return c->state != REFUSED ? 0 : ms > 0 ? ms : 1;
}
