/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/prober.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "base/table.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "control/status.h"
#include "enforcement/probe_answer.h"
#include "enforcement/probe_endpoint.h"
#include "net/work_queue.h"
#include "object/names.h"
#include "policy/pod_traffic.h"

enum {
    INTERVAL_MS = 15000,
    TIMEOUT_MS = 3000,
    QUICK_TIMEOUT_MS = 1000,
    PARALLEL = 32,
    QUICK_MS = 100,  /* between two questions to a pod of which a change is expected */
    RETRY_MS = 1000, /* after a question that failed, if nothing is expected; and until one that
                        tells by itself is asked what is expected */
    TOLD_MS = 3 * CONTROL_LEASE_RENEW_MS + 20000, /* so long what it told counts as an answer, */
    TOLD_LEASE_MS = 1000, /* or for so many times the seconds after which it stops by itself */
    PATIENCE_MS = 1000, /* so long localproxy is expected to change without rulesync being asked */
    STARTUP_MS = 10000, /* so long a pod that never answered may be about to start */
    MISSES = 2,         /* a pod that answered and misses so many questions is silent */
    SLOW_MS = 500,      /* an answer that took longer is slow */
};

/*
 * Pods that were slow the last time, or silent, have a part of the questions at a time to
 * themselves, and a namespace has a part of either; namespaces take turns. So neither
 * a node full of silent pods nor somebody who makes his own answer late holds up the others.
 */
enum lane { LANE_QUICK, LANE_SLOW, LANES };

enum {
    SLOW_PART = 4,           /* a fourth of the questions are for slow pods, */
    NAMESPACE_PART = 4,      /* and of all for one namespace; */
    NAMESPACE_SLOW_PART = 2, /* half of those for slow pods */
};

/*
 *   IDLE ----> ASKING_PROXY ----> ASKING_RULESYNC
 *    ^               |                   |
 *    +---------------+-------------------+       it is due in IDLE only
 */
enum phase { PHASE_IDLE, PHASE_ASKING_PROXY, PHASE_ASKING_RULESYNC };

static const struct state_machine phases = {
    .object = "probed pod",
    .states = {[PHASE_IDLE] = {"idle", STATE(PHASE_ASKING_PROXY)},
               [PHASE_ASKING_PROXY] = {"asking the proxy",
                                       STATE(PHASE_ASKING_RULESYNC) | STATE(PHASE_IDLE)},
               [PHASE_ASKING_RULESYNC] = {"asking rulesync", STATE(PHASE_IDLE)}},
};

struct target {
    struct table_node node;
    struct prober *prober;
    char *uid;
    struct probe_endpoint proxy;
    struct probe_endpoint rulesync;

    enum phase phase;
    enum lane lane; /* whose queue has its key; another's may have it besides */
    uint64_t due_at;
    uint64_t asked_at;
    bool slow; /* the last question took longer than SLOW_MS */
    struct http_fetch *fetch;

    uint64_t expected; /* 0: nothing is */
    bool unmet;        /* it is expected and not enforced, since unmet_at */
    uint64_t unmet_at;
    uint64_t stale; /* hash of what it complained of before that, without rules; 0: nothing */
    bool attended;
    bool traffic_expected; /* the document with the checksum below */
    bool traffic_unmet;    /* is expected and not in force, since traffic_unmet_at */
    uint64_t traffic_unmet_at;
    char traffic[TRAFFIC_CHECKSUM_LEN + 1];
    unsigned misses; /* questions without an answer in a row, the first at missed_at */
    uint64_t missed_at;
    bool tells;            /* by itself, */
    uint64_t told_at;      /* last then, */
    bool told_meanwhile;   /* and since it was asked what it is asked now */
    uint64_t answered;     /* the generation that it answered with last; 0: none */
    int64_t said_since_ms; /* as the pod said it */
    uint64_t load_at;      /* when it said result.load */
    struct probe_result result;
    struct list changed; /* in prober->changed, for: */
    bool news;           /* on_change */
    bool traffic_news;   /* on_traffic */
    char key[];
};

struct prober {
    struct net_loop *loop;
    struct prober_options o;
    struct table targets;
    struct queue {
        struct prober *prober;
        struct work_queue *keys;
    } lanes[LANES];
    struct list changed; /* targets of which the user is still to be told */
    struct net_task tell;
    struct prober_stats stats;
};

static uint64_t now_of(const struct prober *p)
{
    return net_clock_now(p->o.clock);
}

static void set_phase(struct target *t, enum phase phase)
{
    t->phase = state_change(&phases, t->phase, phase, slice_str(t->key));
}

static struct target *find_target(const struct prober *p, const char *key)
{
    struct table_node *n = table_find(&p->targets, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct target, node);
}

/* ---- when to ask ---- */

static bool enforces(const struct target *t)
{
    const struct probe_result *r = &t->result;
    return r->state == PROBE_ANSWERED && r->enforcing && r->generation == t->expected;
}

static void set_unmet(struct target *t, bool unmet)
{
    if (unmet && !t->unmet) {
        t->unmet_at = now_of(t->prober);
    }
    t->unmet = unmet;
}

/* One that is too old for traffic policies is not waited for. */
static bool lacks_traffic(const struct target *t, const struct pod_traffic *says)
{
    return t->traffic_expected && says != NULL && !pod_traffic_enforces(says, t->traffic);
}

static void set_traffic_unmet(struct target *t, bool unmet)
{
    if (unmet && !t->traffic_unmet) {
        t->traffic_unmet_at = now_of(t->prober);
    }
    t->traffic_unmet = unmet;
}

/* Whether what it told is fresh. */
static bool is_telling(const struct target *t)
{
    uint64_t ms = (uint64_t)t->result.lease_s * TOLD_LEASE_MS;
    ms = ms != 0 && ms < TOLD_MS ? ms : TOLD_MS;
    return t->tells && now_of(t->prober) - t->told_at < ms;
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A millisecond for each pod of the namespace: of all together no more than 1,000 a second are
 * asked, whatever is expected of them. */
static uint64_t least_delay(const struct target *t, uint64_t ms)
{
    const struct prober *p = t->prober;
    return later_of(ms, work_queue_companions(p->lanes[LANE_QUICK].keys, t->key) +
                            work_queue_companions(p->lanes[LANE_SLOW].keys, t->key));
}

static uint64_t usual_delay(const struct target *t)
{
    const struct prober *p = t->prober;
    uint64_t all = (uint64_t)p->stats.attended * 1000 / PROBER_ATTENDED_PER_S;
    uint64_t often = later_of(all, PROBER_ATTENDED_MS);
    bool often_enough = !t->attended || t->misses > 0 || often > p->o.interval_ms;
    return often_enough ? p->o.interval_ms : often;
}

/* A tenth of the time that has passed already: the answer is late by no more than that. */
static uint64_t delay_of(const struct target *t)
{
    const struct prober *p = t->prober;
    uint64_t now = now_of(p);
    uint64_t usual = usual_delay(t);
    /* Within 10 % of it, so that pods found together are not asked together for ever. */
    usual = usual - usual / 10 + usual / 5 * (net_clock_random(p->o.clock) >> 16) / 65536;
    uint64_t delay = usual;
    if (t->proxy.client == NULL) { /* it may tell by itself */
        return usual;
    }
    if (t->unmet) {
        delay = later_of((now - t->unmet_at) / 10, least_delay(t, t->tells ? RETRY_MS : QUICK_MS));
    } else if (t->misses > 0) {
        delay = later_of((now - t->missed_at) / 10, least_delay(t, RETRY_MS));
    } else if (t->traffic_unmet) {
        uint64_t least = least_delay(t, t->tells ? RETRY_MS : QUICK_MS);
        delay = later_of((now - t->traffic_unmet_at) / 10, least);
    }
    return delay < usual ? delay : usual;
}

static void add_after(struct target *t, enum lane lane, uint64_t delay)
{
    t->lane = lane;
    work_queue_add_after(t->prober->lanes[lane].keys, t->key, delay);
}

/* A question that was under way is over. */
static void make_due(struct target *t, uint64_t delay)
{
    struct prober *p = t->prober;
    enum lane before = t->lane;
    bool silent = t->result.state == PROBE_SILENT || (t->tells && t->misses >= MISSES);
    t->due_at = now_of(p) + delay;
    add_after(t, silent || t->slow ? LANE_SLOW : LANE_QUICK, delay);
    if (t->phase != PHASE_IDLE) {
        set_phase(t, PHASE_IDLE);
        work_queue_done(p->lanes[before].keys, t->key, WORK_DONE, 0);
    }
}

/* ---- what is known ---- */

static bool same_result(const struct probe_result *a, const struct probe_result *b)
{
    return a->state == b->state && a->enforcing == b->enforcing && a->generation == b->generation &&
           a->lease_s == b->lease_s && a->expired == b->expired && a->required == b->required &&
           a->since_ms == b->since_ms && a->unused == b->unused && a->bypassed == b->bypassed &&
           strcmp(a->checksum, b->checksum) == 0 && strcmp(a->shard, b->shard) == 0 &&
           strcmp(a->message, b->message) == 0 && strcmp(a->version, b->version) == 0;
}

/* Takes r->traffic and r->load, if they are others than before. */
static void learn(struct target *t, const struct probe_result *r)
{
    struct prober *p = t->prober;
    struct pod_traffic *before = t->result.traffic;
    struct control_load *counted = t->result.load;
    t->news = t->news || !same_result(&t->result, r);
    t->traffic_news = t->traffic_news || t->result.state != r->state ||
                      t->result.asked != r->asked || !pod_traffic_same(before, r->traffic);
    p->stats.other_versions -= probe_is_other_version(&t->result);
    p->stats.other_versions += probe_is_other_version(r);
    t->result = *r;
    if (before != r->traffic) {
        pod_traffic_free(before);
    }
    if (counted != r->load) {
        t->load_at = now_of(p);
        free(counted);
    }
    set_unmet(t, t->expected != 0 && !enforces(t));
    set_traffic_unmet(t, lacks_traffic(t, r->traffic));
    if ((t->news || t->traffic_news) && !list_linked(&t->changed)) {
        list_append(&p->changed, &t->changed);
        net_task_queue(p->loop, &p->tell);
    }
}

/* One at a time, since the user may forget the others, or free all. */
static void on_tell(struct net_task *task)
{
    struct prober *p = LIST_ITEM(task, struct prober, tell);
    if (list_empty(&p->changed)) {
        return;
    }
    struct target *t = LIST_ITEM(p->changed.next, struct target, changed);
    bool news = t->news;
    net_task_queue(p->loop, &p->tell);
    if (news) {
        t->news = false; /* and comes again if there is more */
    } else {
        t->traffic_news = false;
    }
    if (!t->traffic_news) {
        list_remove(&t->changed);
    }
    if (news && p->o.on_change != NULL) {
        p->o.on_change(p->o.data, t->key);
    } else if (!news && p->o.on_traffic != NULL) {
        p->o.on_traffic(p->o.data, t->key);
    }
}

/* ---- asking ---- */

static void end_question(struct target *t)
{
    t->slow = now_of(t->prober) - t->asked_at > SLOW_MS;
    make_due(t, delay_of(t));
}

static struct http_fetch *start_fetch(struct target *t, const struct probe_endpoint *to,
                                      http_fetch_cb cb, struct err *e)
{
    struct prober *p = t->prober;
    uint64_t ms = t->lane == LANE_QUICK ? p->o.quick_timeout_ms : p->o.timeout_ms;
    p->stats.asked++;
    return probe_endpoint_ask(to, p->loop, ms, cb, t, e);
}

/* Whether there is an answer to be parsed; else `why` tells. */
static bool take_answer(struct target *t, const struct http_answer *a, const struct err *e,
                        struct err *why)
{
    t->fetch = NULL;
    if (a == NULL) {
        *why = *e;
    } else if (a->status != 200) {
        (void)err_set(why, -EPROTO, "HTTP status %u", a->status);
    }
    return why->code == 0;
}

/* What is there instead, and whether anything is, is for those who may read the log: people who
 * may only create pods must not learn by this what answers where. */
static void set_message(const struct target *t, struct probe_result *r, const char *who,
                        const struct err *why)
{
    char text[PROBE_MESSAGE_SIZE];
    if (t->proxy.client == NULL) {
        (void)snprintf(text, sizeof text, "%s is not asked: %s is not where a sidecar can be", who,
                       t->proxy.address);
    } else {
        (void)snprintf(text, sizeof text, "%s did not answer as a cmesh sidecar", who);
    }
    enum log_level level = strcmp(t->result.message, text) == 0 ? LOG_DEBUG : LOG_INFO;
    LOG_AT(level, "a sidecar does not answer", log_str("pod", t->key), log_str("sidecar", who),
           log_str("reason", why->msg));
    utf8_copy_plain(r->message, sizeof r->message, text);
}

static void rulesync_failed(struct target *t, const struct err *e)
{
    struct probe_result r = t->result;
    set_message(t, &r, "rulesync", e);
    learn(t, &r);
}

static void on_rulesync(void *data, const struct http_answer *a, const struct err *e)
{
    struct target *t = data;
    struct prober *p = t->prober;
    struct probe_result r = t->result;
    struct err why = ERR_INIT;
    if (take_answer(t, a, e, &why) && probe_answer_rulesync(a->body, r.message, &why) == 0) {
        learn(t, &r);
    } else {
        p->stats.failed++;
        rulesync_failed(t, &why);
    }
    end_question(t);
}

static bool needs_rulesync(const struct target *t)
{
    return t->unmet && !t->result.says_why && t->rulesync.client != NULL &&
           now_of(t->prober) - t->unmet_at >= PATIENCE_MS;
}

static void ask_rulesync(struct target *t)
{
    struct err e = ERR_INIT;
    set_phase(t, PHASE_ASKING_RULESYNC);
    t->fetch = start_fetch(t, &t->rulesync, on_rulesync, &e);
    if (t->fetch == NULL) {
        t->prober->stats.failed++;
        rulesync_failed(t, &e);
        end_question(t);
    }
}

/* Of what it told before its last answer the answer's counts stand: a localproxy that was started
 * again since then cannot have counted for longer. */
static void keep_later_load(const struct target *t, struct probe_result *r)
{
    const struct control_load *before = t->result.load;
    uint64_t passed_s = (now_of(t->prober) - t->load_at) / 1000;
    if (before != NULL && r->load != NULL && r->load->since_s < before->since_s &&
        r->load->since_s > passed_s + 1) {
        free(r->load);
        r->load = t->result.load;
    }
}

static uint64_t hash_of(const char *message)
{
    return keyed_hash(0, slice_str(message));
}

/* Whether it says the same of what is expected as when there was nothing to expect, although that
 * may just be on its way. */
static bool is_stale(const struct target *t, const char *message)
{
    return t->unmet && t->stale == hash_of(message) &&
           now_of(t->prober) - t->unmet_at < PATIENCE_MS;
}

/* What a pod says, asked or not. */
static void take_word(struct target *t, struct probe_result *r)
{
    /* A clock that is ahead must not show times that are still to come. */
    int64_t now = net_clock_wall(t->prober->o.clock) / 1000;
    bool known = t->result.generation == r->generation && t->said_since_ms == r->since_ms;
    t->said_since_ms = r->since_ms;
    r->since_ms = known ? t->result.since_ms : r->since_ms < now ? r->since_ms : now;
    r->state = PROBE_ANSWERED;
    r->asked = true;
    if (r->lease_s == 0 || r->generation >= r->required) {
        r->required = 0;
    }
    if (r->traffic != NULL) {
        r->traffic = pod_traffic_complete(r->traffic, t->result.traffic);
    }
    keep_later_load(t, r);
    set_unmet(t, t->expected != 0 && !(r->enforcing && r->generation == t->expected));
    r->says_why = r->says_why && !is_stale(t, r->message);
    if (!r->says_why && (!needs_rulesync(t) || t->result.state != PROBE_ANSWERED)) {
        r->message[0] = '\0'; /* else what was said of it last stands until it is asked again */
    }
    learn(t, r);
}

static void proxy_answered(struct target *t, struct probe_result *r)
{
    bool late = t->told_meanwhile && r->generation < t->result.generation;
    t->misses = 0;
    t->answered = r->generation;
    if (!late) {
        take_word(t, r);
    } else { /* it has told newer rules while the answer was on its way */
        pod_traffic_free(r->traffic);
        free(r->load);
    }
}

static void proxy_missed(struct target *t, const struct err *e)
{
    struct probe_result r = t->result;
    uint64_t now = now_of(t->prober);
    t->missed_at = t->misses == 0 ? now : t->missed_at;
    t->misses++;
    if (r.state == PROBE_ANSWERED && (t->misses < MISSES || is_telling(t))) {
        return;
    }
    if (r.state == PROBE_ANSWERED || now - t->missed_at >= STARTUP_MS) {
        r.state = PROBE_SILENT;
    }
    r.asked = true;
    set_message(t, &r, "localproxy", e);
    learn(t, &r);
}

static void on_proxy(void *data, const struct http_answer *a, const struct err *e)
{
    struct target *t = data;
    struct prober *p = t->prober;
    struct probe_result r = t->result;
    struct err why = ERR_INIT;
    if (!take_answer(t, a, e, &why) || probe_answer_proxy(a->body, t->key, t->uid, &r, &why) != 0) {
        p->stats.failed++;
        proxy_missed(t, &why);
        end_question(t);
    } else {
        proxy_answered(t, &r);
        if (needs_rulesync(t)) {
            ask_rulesync(t);
        } else {
            end_question(t);
        }
    }
}

static void start_probe(struct target *t)
{
    struct prober *p = t->prober;
    struct err e = ERR_INIT;
    t->asked_at = now_of(p);
    t->told_meanwhile = false;
    set_phase(t, PHASE_ASKING_PROXY);
    if (t->proxy.client == NULL) {
        (void)err_set(&e, -EACCES, "no sidecar can be at %s", t->proxy.address);
    } else {
        t->fetch = start_fetch(t, &t->proxy, on_proxy, &e);
    }
    if (t->fetch == NULL) {
        p->stats.failed += t->proxy.client != NULL;
        proxy_missed(t, &e);
        end_question(t);
    }
}

/* Whatever it is due for in this lane; that may be old news. */
static void on_due(void *data, const char *key)
{
    const struct queue *q = data;
    struct prober *p = q->prober;
    struct target *t = find_target(p, key);
    uint64_t now = now_of(p);
    bool ours = t != NULL && &p->lanes[t->lane] == q;
    if (ours && now >= t->due_at) {
        start_probe(t);
        return;
    }
    if (ours) {
        work_queue_add_after(q->keys, key, t->due_at - now);
    }
    work_queue_done(q->keys, key, WORK_DONE, 0);
}

/* ---- targets ---- */

static void target_free(struct target *t)
{
    t->prober->stats.other_versions -= probe_is_other_version(&t->result);
    t->prober->stats.telling -= t->tells;
    t->prober->stats.attended -= t->attended;
    pod_traffic_free(t->result.traffic);
    free(t->result.load);
    if (t->phase != PHASE_IDLE) {
        http_fetch_cancel(t->fetch);
        work_queue_done(t->prober->lanes[t->lane].keys, t->key, WORK_DONE, 0);
    }
    list_remove(&t->changed);
    probe_endpoint_deinit(&t->proxy);
    probe_endpoint_deinit(&t->rulesync);
    free(t->uid);
    free(t);
}

static struct target *target_new(struct prober *p, const char *key)
{
    size_t size = strlen(key) + 1;
    struct target *t = xcalloc(1, sizeof *t + size);
    memcpy(t->key, key, size);
    t->prober = p;
    list_init(&t->changed);
    add_after(t, LANE_QUICK, 0);
    xok(table_insert(&p->targets, &t->node, t->key));
    p->stats.targets++;
    return t;
}

/* Another pod of the same name. */
static void forget_result(struct target *t)
{
    t->prober->stats.other_versions -= probe_is_other_version(&t->result);
    t->prober->stats.telling -= t->tells;
    pod_traffic_free(t->result.traffic);
    free(t->result.load);
    t->result = (struct probe_result){0};
    t->expected = 0;
    t->unmet = false;
    t->traffic_expected = false;
    t->traffic_unmet = false;
    t->tells = false;
    t->answered = 0;
    t->said_since_ms = 0;
}

/* Takes what is in `to`. */
static void redirect(struct target *t, const char *uid, const struct probe_endpoint to[2])
{
    bool other = t->uid == NULL || strcmp(t->uid, uid) != 0;
    http_fetch_cancel(t->fetch);
    t->fetch = NULL;
    probe_endpoint_deinit(&t->proxy);
    probe_endpoint_deinit(&t->rulesync);
    free(t->uid);
    t->uid = xstrdup(uid);
    t->proxy = to[0];
    t->rulesync = to[1];
    t->misses = 0;
    t->slow = false;
    if (other) {
        forget_result(t);
    }
    make_due(t, 0);
}

static int open_endpoint(const struct prober *p, struct probe_endpoint *out, const char *address,
                         unsigned usual_port)
{
    const struct probe_endpoint_options o = {
        .timeout_ms = p->o.timeout_ms, .any = p->o.any_address, .usual_port = usual_port};
    return probe_endpoint_init(out, p->loop, address, &o);
}

int prober_watch(struct prober *p, const struct prober_target *o)
{
    struct target *known = find_target(p, o->key);
    struct probe_endpoint to[2] = {{0}, {0}};
    if (known != NULL && strcmp(known->uid, o->uid) == 0 &&
        probe_endpoint_is_at(&known->proxy, o->proxy) &&
        probe_endpoint_is_at(&known->rulesync, o->rulesync)) {
        return 0;
    }
    if (o->proxy == NULL) {
        return -EINVAL;
    }
    if (open_endpoint(p, &to[0], o->proxy, SIDECAR_ADMIN_PORT) != 0 ||
        open_endpoint(p, &to[1], o->rulesync, SIDECAR_RULESYNC_PORT) != 0) {
        probe_endpoint_deinit(&to[0]);
        return -EINVAL;
    }
    redirect(known != NULL ? known : target_new(p, o->key), o->uid, to);
    return 0;
}

void prober_forget(struct prober *p, const char *key)
{
    struct target *t = find_target(p, key);
    if (t != NULL) {
        table_remove(&p->targets, &t->node);
        p->stats.targets--;
        target_free(t);
    }
}

void prober_expect(struct prober *p, const char *key, uint64_t generation)
{
    struct target *t = find_target(p, key);
    if (t == NULL || t->expected == generation) {
        return;
    }
    struct probe_result *r = &t->result;
    t->expected = generation;
    t->unmet = false;
    set_unmet(t, generation != 0 && !enforces(t));
    if (t->unmet && r->state == PROBE_ANSWERED && r->generation == 0) {
        t->stale = r->says_why ? hash_of(r->message) : t->stale;
        r->says_why = false;
        r->message[0] = '\0';
    }
    if (t->phase == PHASE_IDLE && generation != 0) {
        make_due(t, t->tells ? RETRY_MS : 0);
    }
}

/* Sooner than it would have been, if anything. */
static void ask_sooner(struct target *t)
{
    if (t->phase == PHASE_IDLE && t->proxy.client != NULL) {
        make_due(t, delay_of(t));
    }
}

void prober_attend(struct prober *p, const char *key, bool attended)
{
    struct target *t = find_target(p, key);
    if (t == NULL || t->attended == attended) {
        return;
    }
    t->attended = attended;
    if (attended) {
        p->stats.attended++;
    } else {
        p->stats.attended--;
    }
    if (attended && t->misses == 0 && t->result.asked) {
        ask_sooner(t);
    }
}

bool prober_attends(const struct prober *p, const char *key)
{
    const struct target *t = find_target(p, key);
    return t != NULL && t->attended;
}

void prober_expect_traffic(struct prober *p, const char *key, const char *checksum)
{
    struct target *t = find_target(p, key);
    if (t == NULL || (t->traffic_expected && strcmp(t->traffic, checksum) == 0)) {
        return;
    }
    t->traffic_expected = true;
    (void)snprintf(t->traffic, sizeof t->traffic, "%s", checksum);
    t->traffic_unmet = false;
    set_traffic_unmet(t, lacks_traffic(t, t->result.traffic));
    if (t->traffic_unmet && !t->unmet && t->misses == 0) {
        ask_sooner(t);
    }
}

void prober_told(struct prober *p, const char *key, struct slice document)
{
    struct target *t = find_target(p, key);
    struct err why = ERR_INIT;
    if (t == NULL) {
        return;
    }
    struct probe_result r = t->result;
    if (probe_answer_told(document, t->key, t->uid, &r, &why) != 0) {
        return;
    }
    if (r.generation != 0 && r.generation < t->answered) {
        pod_traffic_free(r.traffic);
        free(r.load);
        return;
    }
    bool unmet = t->unmet || t->traffic_unmet;
    p->stats.telling += !t->tells;
    t->tells = true;
    t->told_at = now_of(p);
    t->told_meanwhile = true;
    take_word(t, &r);
    if (unmet && !t->unmet && !t->traffic_unmet &&
        t->phase == PHASE_IDLE) { /* what it was to be asked for */
        make_due(t, delay_of(t));
    }
}

void prober_require(struct prober *p, const char *key, const char *uid, uint64_t generation,
                    const char *checksum)
{
    struct target *t = find_target(p, key);
    if (t == NULL || strcmp(t->uid, uid) != 0 || generation < t->result.generation ||
        (generation == t->result.generation && t->result.enforcing)) {
        return;
    }
    struct probe_result r = t->result;
    r.required = generation;
    (void)snprintf(r.required_checksum, sizeof r.required_checksum, "%s", checksum);
    learn(t, &r);
}

const struct probe_result *prober_result(const struct prober *p, const char *key)
{
    const struct target *t = find_target(p, key);
    return t != NULL ? &t->result : NULL;
}

const struct prober_stats *prober_stats(const struct prober *p)
{
    return &p->stats;
}

/* ---- life ---- */

static unsigned part_of(unsigned all, unsigned part)
{
    return all / part > 0 ? all / part : 1;
}

static void fill_options(struct prober *p, const struct prober_options *o)
{
    p->o = *o;
    p->o.interval_ms = o->interval_ms != 0 ? o->interval_ms : INTERVAL_MS;
    p->o.timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : TIMEOUT_MS;
    p->o.quick_timeout_ms = o->quick_timeout_ms != 0 ? o->quick_timeout_ms : QUICK_TIMEOUT_MS;
    p->o.parallel = o->parallel != 0 ? o->parallel : PARALLEL;
    p->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
}

static void open_lanes(struct prober *p)
{
    unsigned all = p->o.parallel;
    unsigned slow = part_of(all, SLOW_PART);
    const struct work_queue_options options[LANES] = {
        [LANE_QUICK] = {.parallel = all > slow ? all - slow : 1,
                        .namespace_parallel = part_of(all, NAMESPACE_PART),
                        .clock = p->o.clock},
        [LANE_SLOW] = {.parallel = slow,
                       .namespace_parallel = part_of(slow, NAMESPACE_SLOW_PART),
                       .clock = p->o.clock},
    };
    for (enum lane lane = 0; lane < LANES; lane++) {
        struct queue *q = &p->lanes[lane];
        q->prober = p;
        q->keys = work_queue_new(p->loop, &options[lane], on_due, q);
    }
}

struct prober *prober_new(struct net_loop *l, const struct prober_options *o)
{
    struct prober *p = xcalloc(1, sizeof *p);
    p->loop = l;
    fill_options(p, o);
    list_init(&p->changed);
    net_task_init(&p->tell, on_tell);
    open_lanes(p);
    return p;
}

void prober_free(struct prober *p)
{
    if (p == NULL) {
        return;
    }
    for (struct table_node *n = table_next(&p->targets, NULL), *next; n != NULL; n = next) {
        next = table_next(&p->targets, n);
        target_free(LIST_ITEM(n, struct target, node));
    }
    net_task_cancel(&p->tell);
    for (enum lane lane = 0; lane < LANES; lane++) {
        work_queue_free(p->lanes[lane].keys);
    }
    table_deinit(&p->targets);
    free(p);
}
