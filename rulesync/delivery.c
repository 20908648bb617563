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

/* What the log says. */
struct texts {
    const char *confirmed;
    const char *ahead;
    const char *refused;
    const char *failed;
    const char *others;
};

static const struct texts texts[CONTROL_DOCUMENTS] = {
    [CONTROL_RULES] =
        {
            .confirmed = "localproxy enforces the rules",
            .ahead = "rules not sent to localproxy",
            .refused = "localproxy refused the rules",
            .failed = "cannot send the rules to localproxy, will retry",
            .others = "localproxy accepted the rules, but reports that it enforces others",
        },
    [CONTROL_TRAFFIC] =
        {
            .confirmed = "localproxy enforces the traffic policies",
            .ahead = "traffic policies not sent to localproxy",
            .refused = "localproxy refused the traffic policies",
            .failed = "cannot send the traffic policies to localproxy, will retry",
            .others = "localproxy accepted the traffic policies, but reports that it enforces "
                      "others",
        },
};

/*
 *   STARTING --+       +-- it has to have them -------> OFFERING
 *              v       |                                 |   |
 *     +-----> ASKING --+------ answer ----+---- answer --+   |
 *     |        |                          v                  |
 *     |        +-- failed --+          RESTING --> ASKING, when the pause is over
 *     |                     v                                |
 *     +-- the pause ---- RETRYING <-------- failed ----------+
 *
 * A new document: from RESTING and OFFERING, where it is known what the proxy enforces, to
 * OFFERING, unless it is ahead, or there is to be none and it has not refused the last one; from
 * all others to ASKING.
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
    bool given; /* a document, or that there is none; until then it is only asked */
    struct shard_document document;
    enum state state;
    bool held; /* STARTING, until it is let go */
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

static bool same_shard(const struct control_state *s, const struct shard_document *d)
{
    return strcmp(s->shard_namespace, shard_document_namespace(d)) == 0 &&
           strcmp(s->shard_name, shard_document_shard(d)) == 0;
}

static bool enforces(const struct control_state *s, const struct shard_document *d)
{
    if (shard_document_is_none(d)) {
        return !s->enforcing;
    }
    return s->enforcing && same_shard(s, d) && s->generation == shard_document_generation(d) &&
           strcmp(s->checksum, shard_document_checksum(d)) == 0;
}

/* Only rules have an order. */
static bool ahead(const struct control_state *s, const struct shard_document *d)
{
    return d->rules != NULL && s->enforcing && same_shard(s, d) &&
           rules_older_than(d->rules, s->generation);
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

/* For the log and for messages; 0: there is none. */
static uint64_t generation(const struct delivery *d)
{
    return shard_document_is_none(&d->document) ? 0 : shard_document_generation(&d->document);
}

static void raise_trouble(struct delivery *d, enum log_level level, const char *event,
                          const char *why)
{
    if (condition_raise(&d->status.trouble, net_loop_now(d->loop), why)) {
        LOG_AT(level, event, log_str("error", why), log_num("generation", (int64_t)generation(d)),
               log_str("socket", d->socket));
    }
}

static void tell(const struct delivery *d)
{
    if (d->o.on_verdict != NULL) {
        d->o.on_verdict(d->o.data);
    }
}

static void set_verdict(struct delivery *d, enum delivery_verdict verdict)
{
    bool news = d->status.verdict != verdict;
    d->status.verdict = verdict;
    if (news) {
        tell(d);
    }
}

static void log_confirmed(const struct delivery *d)
{
    if (!shard_document_is_none(&d->document)) {
        log_info(texts[d->o.document].confirmed, log_num("generation", (int64_t)generation(d)),
                 log_str("checksum", shard_document_checksum(&d->document)),
                 log_str("socket", d->socket));
    } else if (d->state == STATE_OFFERING) {
        log_info("localproxy enforces no traffic policies any more", log_str("socket", d->socket));
    }
}

static void note_confirmed(struct delivery *d)
{
    bool again = condition_clear(&d->status.trouble);
    d->status.confirmed_at = time(NULL);
    d->status.outdated = false;
    d->refused.until_ms = 0;
    if (again || d->status.verdict != DELIVERY_CONFIRMED) {
        log_confirmed(d);
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
                   d->status.proxy.generation, generation(d));
    raise_trouble(d, LOG_ERROR, texts[d->o.document].ahead, why);
    rest_until_check(d);
    set_verdict(d, DELIVERY_AHEAD);
}

/* It answers, and does not know these documents. That is said once. */
static void note_unsupported(struct delivery *d)
{
    bool outdated = d->given && !shard_document_is_none(&d->document);
    (void)condition_clear(&d->status.trouble);
    if (outdated && !d->status.outdated) {
        log_warn("localproxy is too old for traffic policies: restart the pod to enforce them",
                 log_num("generation", (int64_t)generation(d)), log_str("socket", d->socket));
    }
    d->status.outdated = outdated;
    d->status.answered = false;
    d->refused.until_ms = 0;
    backoff_reset(&d->backoff);
    rest_until_check(d);
    set_verdict(d, DELIVERY_UNSUPPORTED);
}

static void note_refused(struct delivery *d, const char *why)
{
    d->status.refusals++;
    d->refused = (struct refused){.until_ms = net_loop_now(d->loop) + d->o.refused_ms,
                                  .proxy = d->status.proxy};
    raise_trouble(d, LOG_ERROR, texts[d->o.document].refused, why);
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
    raise_trouble(d, LOG_WARN, texts[d->o.document].failed, why);
    pause_for(d, backoff_next(&d->backoff, chance()));
}

/* ---- a proxy that comes up ---- */

/* Its socket shows: nobody need wait for the end of a pause. */
static void on_folder(void *data, const char *name)
{
    struct delivery *d = data;
    const char *slash = strrchr(d->socket, '/');
    const char *own = slash != NULL ? slash + 1 : d->socket;
    if ((name == NULL || strcmp(name, own) == 0) && !is_calling(d) && !d->held) {
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
    if (e->code == -ENOSYS) {
        note_unsupported(d);
        return;
    }
    watch_folder(d);
    (void)snprintf(why, sizeof why, "%s%s", e->msg,
                   forbidden ? " (localproxy and rulesync must run as the same user)" : "");
    retry_later(d, why);
    tell(d);
}

static void offer_document(struct delivery *d);

/* It is known what the proxy enforces: is there something to do? */
static void act_on_answer(struct delivery *d)
{
    const struct control_state *proxy = &d->status.proxy;
    if (!d->given) {
        (void)condition_clear(&d->status.trouble);
        rest_until_check(d);
    } else if (enforces(proxy, &d->document)) {
        note_confirmed(d);
    } else if (ahead(proxy, &d->document)) {
        note_ahead(d);
    } else if (net_loop_now(d->loop) < d->refused.until_ms &&
               same_state(proxy, &d->refused.proxy)) {
        rest_until_check(d);
    } else {
        offer_document(d);
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
    if (control_client_get(d->client, d->o.document, trouble, on_asked, d, &e) != 0) {
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
    if (enforces(state, &d->document)) {
        d->status.confirmations++;
        note_confirmed(d);
    } else {
        retry_later(d, texts[d->o.document].others);
    }
}

static int send_document(struct delivery *d, struct err *e)
{
    struct buf text = BUF_INIT(2 * control_document_max(d->o.document));
    int rc = shard_document_to_json(&d->document, &text);
    if (rc == 0) {
        d->status.offers++;
        rc = control_client_put(d->client, d->o.document, buf_slice(&text), on_offered, d, e);
    } else {
        err_set(e, rc, "cannot write the %s as text: %s", control_document_text(d->o.document),
                err_text(rc));
    }
    buf_reset(&text);
    return rc;
}

static int send_none(struct delivery *d, struct err *e)
{
    d->status.offers++;
    return control_client_delete(d->client, d->o.document, on_offered, d, e);
}

static void offer_document(struct delivery *d)
{
    struct err e = ERR_INIT;
    set_state(d, STATE_OFFERING);
    int rc = shard_document_is_none(&d->document) ? send_none(d, &e) : send_document(d, &e);
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

/* Takes over the reference. */
static void set_document(struct delivery *d, struct shard_document document)
{
    bool refused = d->status.verdict == DELIVERY_REFUSED; /* of which the proxy complains still */
    shard_document_unref(&d->document);
    d->document = document;
    d->given = true;
    d->held = false;
    d->refused.until_ms = 0;
    d->status.verdict = DELIVERY_PENDING;
    backoff_reset(&d->backoff);
    control_client_cancel(d->client);
    net_timer_clear(d->pause);
    bool known = (d->state == STATE_RESTING || d->state == STATE_OFFERING) && d->status.answered;
    bool news = refused || !shard_document_is_none(&document);
    if (known && news && !ahead(&d->status.proxy, &document)) {
        offer_document(d);
    } else {
        ask_state(d);
    }
}

void delivery_set(struct delivery *d, struct rules *rules)
{
    set_document(d, shard_document_rules(rules_ref(rules)));
}

void delivery_set_traffic(struct delivery *d, struct traffic *traffic)
{
    set_document(d, shard_document_traffic(traffic != NULL ? traffic_ref(traffic) : NULL));
}

void delivery_check(struct delivery *d)
{
    if (!is_calling(d)) {
        d->held = false;
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
    d->document.kind = o->document;
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
    d->held = o->held;
    if (!d->held) {
        net_timer_set(d->pause, 0);
    }
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
        shard_document_unref(&d->document);
        free(d->folder);
        free(d->socket);
        free(d);
    }
}
