/* SPDX-License-Identifier: Apache-2.0 */
#include "delivery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/backoff.h"
#include "base/file.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "control/client.h"
#include "net/folder_watch.h"
#include "net/timer.h"

enum {
    CALL_MS = 10000,
    CHECK_MS = 5000,
    BLIND_MS = 1000,
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 5000,
    REFUSED_MS = 60000,
    APPEARED_MS = 10, /* from a new socket to the call, so that the proxy listens by then */
};

/*
 *   STARTING --+       +-- it has to have the rules --> OFFERING
 *              v       |                                 |   |
 *     +-----> ASKING --+------ answer ----+---- answer --+   |
 *     |        |                          v                  |
 *     |        +-- failed --+          RESTING --> ASKING, when the pause is over
 *     |                     v                                |
 *     +-- the pause ---- RETRYING <-------- failed ----------+
 *
 * New rules: from RESTING and OFFERING, where it is known what the proxy enforces, to OFFERING,
 * unless it is ahead; from all others to ASKING.
 */
enum state { STATE_STARTING, STATE_ASKING, STATE_OFFERING, STATE_RESTING, STATE_RETRYING };

static const struct state_machine machine = {
    .object = "delivery",
    .states = {[STATE_STARTING] = {"starting", STATE(STATE_ASKING)},
               [STATE_ASKING] = {"asking", STATE(STATE_ASKING) | STATE(STATE_OFFERING) |
                                               STATE(STATE_RESTING) | STATE(STATE_RETRYING)},
               [STATE_OFFERING] = {"offering", STATE(STATE_ASKING) | STATE(STATE_OFFERING) |
                                                   STATE(STATE_RESTING) | STATE(STATE_RETRYING)},
               [STATE_RESTING] = {"resting", STATE(STATE_ASKING) | STATE(STATE_OFFERING)},
               [STATE_RETRYING] = {"retrying", STATE(STATE_ASKING)}},
};

/* What the proxy enforced when it refused, and until when that counts. */
struct refused {
    uint64_t until_ms; /* 0: it did not refuse */
    struct control_state proxy;
};

struct delivery {
    struct delivery_options o;
    char *socket;
    char *folder; /* holds the socket */
    struct net_folder_watch *watch;
    bool blind; /* it watches nothing */
    struct net_loop *loop;
    struct control_client *client;
    struct net_timer *pause; /* STARTING, RESTING, RETRYING */
    struct backoff backoff;
    struct rules *rules; /* NULL: none were given yet */
    enum state state;
    struct refused refused;
    struct delivery_status status;
};

static void set_state(struct delivery *d, enum state next)
{
    d->state = state_change(&machine, d->state, next, slice_str(d->socket));
}

/* The folder may come later than we do, or anew. */
static void watch_folder(struct delivery *d)
{
    int rc = net_folder_watch_set(d->watch, d->folder);
    if (rc != 0) {
        log_debug("cannot watch the folder of the control socket: asking localproxy each second",
                  log_str("folder", d->folder), log_str("error", err_text(rc)));
    }
    d->blind = rc != 0;
}

/* Where nobody tells of a new socket, no pause is long. */
static void pause_for(struct delivery *d, uint64_t ms)
{
    net_timer_set(d->pause, d->blind && ms > d->o.blind_ms ? d->o.blind_ms : ms);
}

static void rest_until_check(struct delivery *d)
{
    set_state(d, STATE_RESTING);
    if (d->blind) {
        watch_folder(d);
    }
    pause_for(d, d->o.check_ms);
}

static bool is_calling(const struct delivery *d)
{
    return d->state == STATE_ASKING || d->state == STATE_OFFERING;
}

/* ---- comparing ---- */

static bool same_shard(const struct control_state *s, const struct rules *r)
{
    return strcmp(s->shard_namespace, rules_shard_namespace(r)) == 0 &&
           strcmp(s->shard_name, rules_shard_name(r)) == 0;
}

static bool enforces(const struct control_state *s, const struct rules *r)
{
    return s->enforcing && same_shard(s, r) && s->generation == rules_generation(r) &&
           strcmp(s->checksum, rules_checksum(r)) == 0;
}

static bool ahead(const struct control_state *s, const struct rules *r)
{
    return s->enforcing && same_shard(s, r) && rules_older_than(r, s->generation);
}

static bool same_state(const struct control_state *a, const struct control_state *b)
{
    return a->enforcing == b->enforcing &&
           (!a->enforcing ||
            (a->generation == b->generation && strcmp(a->checksum, b->checksum) == 0 &&
             strcmp(a->shard_name, b->shard_name) == 0 &&
             strcmp(a->shard_namespace, b->shard_namespace) == 0));
}

/* ---- verdicts ---- */

static void raise_trouble(struct delivery *d, enum log_level level, const char *event,
                          const char *why)
{
    if (condition_raise(&d->status.trouble, net_loop_now(d->loop), why)) {
        LOG_AT(level, event, log_str("error", why),
               log_num("generation", d->rules == NULL ? 0 : (int64_t)rules_generation(d->rules)),
               log_str("socket", d->socket));
    }
}

static void set_verdict(struct delivery *d, enum delivery_verdict verdict)
{
    bool news = d->status.verdict != verdict;
    d->status.verdict = verdict;
    if (news && d->o.on_verdict != NULL) {
        d->o.on_verdict(d->o.data);
    }
}

static void note_confirmed(struct delivery *d)
{
    bool again = condition_clear(&d->status.trouble);
    d->status.confirmed_at = time(NULL);
    d->refused.until_ms = 0;
    if (again || d->status.verdict != DELIVERY_CONFIRMED) {
        log_info("localproxy enforces the rules",
                 log_num("generation", (int64_t)rules_generation(d->rules)),
                 log_str("checksum", rules_checksum(d->rules)), log_str("socket", d->socket));
    }
    rest_until_check(d);
    set_verdict(d, DELIVERY_CONFIRMED);
}

static void note_ahead(struct delivery *d)
{
    char why[ERR_MSG_MAX];
    (void)snprintf(why, sizeof why,
                   "localproxy enforces generation %" PRIu64
                   ", which is newer than generation %" PRIu64 "; keeping it",
                   d->status.proxy.generation, rules_generation(d->rules));
    raise_trouble(d, LOG_ERROR, "rules not sent to localproxy", why);
    rest_until_check(d);
    set_verdict(d, DELIVERY_AHEAD);
}

static void note_refused(struct delivery *d, const char *why)
{
    d->status.refusals++;
    d->refused = (struct refused){.until_ms = net_loop_now(d->loop) + d->o.refused_ms,
                                  .proxy = d->status.proxy};
    raise_trouble(d, LOG_ERROR, "localproxy refused the rules", why);
    rest_until_check(d);
    set_verdict(d, DELIVERY_REFUSED);
}

static uint32_t chance(void)
{
    uint32_t number = 0;
    (void)!getrandom(&number, sizeof number, 0); /* without it all pauses are short ones */
    return number;
}

static void retry_later(struct delivery *d, const char *why)
{
    set_state(d, STATE_RETRYING);
    d->status.verdict = DELIVERY_PENDING;
    raise_trouble(d, LOG_WARN, "cannot send the rules to localproxy, will retry", why);
    pause_for(d, backoff_next(&d->backoff, chance()));
}

/* ---- a proxy that comes up ---- */

/* Its socket shows: nobody need wait for the end of a pause. */
static void on_folder(void *data, const char *name)
{
    struct delivery *d = data;
    const char *slash = strrchr(d->socket, '/');
    const char *own = slash != NULL ? slash + 1 : d->socket;
    if ((name == NULL || strcmp(name, own) == 0) && !is_calling(d)) {
        net_timer_set(d->pause, APPEARED_MS);
    }
}

/* ---- calls ---- */

static void note_answer(struct delivery *d, const struct control_state *state)
{
    d->status.proxy = *state;
    d->status.answered = true;
    d->status.answered_at = time(NULL);
    backoff_reset(&d->backoff);
}

static void fail_call(struct delivery *d, const struct err *e)
{
    char why[ERR_MSG_MAX + 64];
    bool forbidden = e->code == -EACCES || e->code == -EPERM;
    watch_folder(d);
    (void)snprintf(why, sizeof why, "%s%s", e->msg,
                   forbidden ? " (localproxy and rulesync must run as the same user)" : "");
    retry_later(d, why);
}

static void offer_rules(struct delivery *d);

/* It is known what the proxy enforces: is there something to do? */
static void act_on_answer(struct delivery *d)
{
    const struct control_state *proxy = &d->status.proxy;
    if (d->rules == NULL) {
        (void)condition_clear(&d->status.trouble);
        rest_until_check(d);
    } else if (enforces(proxy, d->rules)) {
        note_confirmed(d);
    } else if (ahead(proxy, d->rules)) {
        note_ahead(d);
    } else if (net_loop_now(d->loop) < d->refused.until_ms &&
               same_state(proxy, &d->refused.proxy)) {
        rest_until_check(d);
    } else {
        offer_rules(d);
    }
}

static void on_asked(void *data, const struct control_state *state, bool changed,
                     const struct err *e)
{
    (void)changed;
    struct delivery *d = data;
    if (e != NULL) {
        fail_call(d, e);
        return;
    }
    note_answer(d, state);
    act_on_answer(d);
}

static void ask_state(struct delivery *d)
{
    struct err e = ERR_INIT;
    const char *trouble = d->o.trouble == NULL ? NULL : d->o.trouble(d->o.data);
    set_state(d, STATE_ASKING);
    if (control_client_get(d->client, CONTROL_RULES, trouble, on_asked, d, &e) != 0) {
        retry_later(d, e.msg);
    }
}

static void on_offered(void *data, const struct control_state *state, bool changed,
                       const struct err *e)
{
    (void)changed;
    struct delivery *d = data;
    if (e != NULL && (e->code == -EINVAL || e->code == -ESTALE)) {
        note_refused(d, e->msg);
        return;
    }
    if (e != NULL) {
        fail_call(d, e);
        return;
    }
    note_answer(d, state);
    if (enforces(state, d->rules)) {
        d->status.confirmations++;
        note_confirmed(d);
    } else {
        retry_later(d, "localproxy accepted the rules, but reports that it enforces others");
    }
}

static void offer_rules(struct delivery *d)
{
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    set_state(d, STATE_OFFERING);
    int rc = rules_to_json(d->rules, &text);
    if (rc == 0) {
        d->status.offers++;
        struct slice document = buf_slice(&text);
        rc = control_client_put(d->client, CONTROL_RULES, document, on_offered, d, &e);
    } else {
        err_set(&e, rc, "cannot write the rules as text: %s", err_text(rc));
    }
    buf_reset(&text);
    if (rc != 0) {
        retry_later(d, e.msg);
    }
}

static void on_pause_over(void *data)
{
    struct delivery *d = data;
    d->status.retries += d->state == STATE_RETRYING ? 1 : 0;
    ask_state(d);
}

void delivery_set(struct delivery *d, struct rules *rules)
{
    rules_unref(d->rules);
    d->rules = rules_ref(rules);
    d->refused.until_ms = 0;
    d->status.verdict = DELIVERY_PENDING;
    backoff_reset(&d->backoff);
    control_client_cancel(d->client);
    net_timer_clear(d->pause);
    bool known = d->state == STATE_RESTING || d->state == STATE_OFFERING;
    if (known && !ahead(&d->status.proxy, rules)) {
        offer_rules(d);
    } else {
        ask_state(d);
    }
}

void delivery_check(struct delivery *d)
{
    if (!is_calling(d)) {
        d->refused.until_ms = 0;
        net_timer_set(d->pause, 0);
    }
}

/* ---- life ---- */

static uint64_t or_default(uint64_t value, uint64_t normal)
{
    return value != 0 ? value : normal;
}

static void set_options(struct delivery *d, const struct delivery_options *o)
{
    d->o = *o;
    d->o.call_ms = or_default(o->call_ms, CALL_MS);
    d->o.check_ms = or_default(o->check_ms, CHECK_MS);
    d->o.blind_ms = or_default(o->blind_ms, BLIND_MS);
    d->o.refused_ms = or_default(o->refused_ms, REFUSED_MS);
    backoff_init(&d->backoff, or_default(o->retry_min_ms, RETRY_MIN_MS),
                 or_default(o->retry_max_ms, RETRY_MAX_MS));
}

struct delivery *delivery_new(struct net_loop *l, const struct delivery_options *o, struct err *e)
{
    struct delivery *d = calloc(1, sizeof *d);
    if (d == NULL) {
        err_memory(e);
        return NULL;
    }
    d->loop = l;
    set_options(d, o);
    d->socket = strdup(o->socket);
    d->folder = file_resolve(o->socket, ".");
    d->watch = net_folder_watch_new(l, on_folder, d);
    d->pause = net_timer_new(l, on_pause_over, d);
    if (d->socket == NULL || d->folder == NULL || d->watch == NULL || d->pause == NULL) {
        err_memory(e);
        delivery_free(d);
        return NULL;
    }
    struct control_client_options co = {.path = o->socket, .timeout_ms = d->o.call_ms};
    d->client = control_client_new(l, &co, e);
    if (d->client == NULL) {
        delivery_free(d);
        return NULL;
    }
    watch_folder(d);
    net_timer_set(d->pause, 0);
    return d;
}

const struct delivery_status *delivery_status(const struct delivery *d)
{
    return &d->status;
}

void delivery_free(struct delivery *d)
{
    if (d != NULL) {
        control_client_free(d->client);
        net_timer_free(d->pause);
        net_folder_watch_free(d->watch);
        rules_unref(d->rules);
        free(d->folder);
        free(d->socket);
        free(d);
    }
}
