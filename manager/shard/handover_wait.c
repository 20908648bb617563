/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out what ownership/ownership.h decides. Only since when a shard waits is remembered here.
 *
 * strict:  it waits until it is proven that others gave it up, or a person lets go of a pod
 * bounded: it is given after a while all the same
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "compile/compile.h"
#include "compile/sharing.h"
#include "inject/inject_options.h"
#include "object/names.h"
#include "shard/controller_internal.h"
#include "shard/ownership_facts.h"
#include "shard/waits_text.h"
#include "json/field.h"

enum {
    MS = 1000,
    LED_MS = 200,         /* between two looks at who leads */
    UNREADABLE_MS = 5000, /* likewise, while that cannot be read */
};

void shard_settle(struct shard *s, const struct rules_map *map, const struct ownership_pod *pods,
                  size_t count)
{
    enum handover_hold most = HANDOVER_NOTHING;
    if (s->past.count <= 1 || map == NULL || map->rules == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        enum handover_hold hold = handover_hold_of(pods[i].pod, pods[i].probe, s->key, map,
                                                   &s->past, s->controller->options.handover);
        most = hold > most ? hold : most;
    }
    if (most <= HANDOVER_PUBLISHED) {
        handover_settled(&s->past, map->rules);
    }
}

void shard_wait_end(struct shard *s)
{
    free(s->holders);
    s->holders = NULL;
    s->late = false;
    s->blocked = false;
    s->withdrawn = false;
    list_remove(&s->waiting);
}

static bool waits_for(const struct shard *s, const char *checksum)
{
    return s->holders != NULL && strcmp(s->waits_for, checksum) == 0;
}

/* Takes `text`. */
static void wait_for(struct shard *s, char *text, const char *checksum)
{
    struct controller *c = s->controller;
    bool begun = waits_for(s, checksum);
    free(s->holders);
    s->holders = text;
    if (!begun) {
        log_info("waiting for handover", log_str("shard", s->key), log_str("holders", text));
        s->waits_since = controller_now(c);
        s->late = false;
        s->blocked = false;
        (void)snprintf(s->waits_for, sizeof s->waits_for, "%s", checksum);
        c->options.counts->waits++;
    }
    if (!list_linked(&s->waiting)) {
        list_append(&c->waiting, &s->waiting);
    }
}

/* It has waited for so long as it should take. An Event tells once. */
static void tell_blocked(struct shard *s, const struct shard_cache_config *config,
                         enum ownership_step step)
{
    struct controller *c = s->controller;
    struct event_object about = event_object_of(config->object);
    c->options.counts->blocked++;
    log_warn("handover is blocked", log_str("shard", s->key), log_str("holders", s->holders));
    event_record(c->options.events, &about, EVENT_WARNING, "HandoverBlocked",
                 "Waiting for more than %" PRIu64 " s for %s: %s", s->waits_ms / MS,
                 step == OWNERSHIP_RELEASE  ? "others to give up what the spec adds"
                 : step == OWNERSHIP_RELOCK ? "the shard's lock to change, and showing nothing"
                                            : "pods without sidecars, and showing nothing",
                 s->holders);
}

/* Of each pod that is waited for, whether its rules are certain to be over, or become so; begins
 * what makes it certain. */
static struct takeover_word *ask_leases(const struct controller *c, struct ownership_plan *plan)
{
    struct takeover_word *leases = xcalloc(plan->count, sizeof *leases);
    for (size_t i = 0; i < plan->count; i++) {
        const struct ownership_wait *w = &plan->waits[i];
        if (w->may_expire) {
            takeover_want(c->takeover, w->pod->pod, w->pod->probe, w->shard->key, w->shard->map,
                          &leases[i]);
            plan->again_ms =
                leases[i].again_ms < plan->again_ms ? leases[i].again_ms : plan->again_ms;
        }
    }
    return leases;
}

/* What others have of it for ever, since no spec of theirs gives it up, and who may be of another
 * operator, is theirs, too. */
static void note_override(struct shard *s, const struct ownership_plan *plan)
{
    if (plan->doubtful) {
        log_info("shards of another leaderElectionName, whose specs select the same, are not "
                 "waited for any longer",
                 log_str("shard", s->key), log_str("holders", s->holders));
        s->late = false;
    }
}

static bool waits_for_pods(const struct ownership_plan *plan)
{
    size_t i = 0;
    while (i < plan->count && plan->waits[i].pod == NULL && plan->waits[i].bare == NULL) {
        i++;
    }
    return i < plan->count;
}

/* As a condition says it. */
static char *make_message(const struct shard *s, const struct ownership_plan *plan)
{
    char limit[64] = "";
    char let_go[NAMES_KEY_SIZE + 128] = "";
    char key[NAMES_KEY_SIZE];
    const struct controller_options *o = &s->controller->options;
    if (o->handover == HANDOVER_BOUNDED) {
        (void)snprintf(limit, sizeof limit, ", for %" PRIu64 " s at most,", s->waits_ms / MS);
    }
    if (plan->step == OWNERSHIP_WITHDRAW) {
        return xasprintf("Pods of the operator run without sidecars, and so see everything. Until "
                         "they are gone this shard sees nothing: %s. One that works on nothing "
                         "for certain need not be waited for: kubectl annotate pod POD %s=true",
                         s->holders, names_key(o->prefix, POD_LET_GO, key));
    }
    if (plan->step == OWNERSHIP_RELOCK) {
        const char *error = s->relock == NULL ? NULL : lock_change_error(s->relock);
        return xasprintf("The lock by which the shard is led changes. So that no two of its pods "
                         "work, one by each lock, it sees nothing until that is certain%s: %s. A "
                         "pod that works on nothing for certain need not be waited for: kubectl "
                         "annotate pod POD %s=true%s%s",
                         limit, s->holders, names_key(o->prefix, POD_LET_GO, key),
                         error == NULL ? "" : ". The manager ", error == NULL ? "" : error);
    }
    if (waits_for_pods(plan)) {
        (void)snprintf(let_go, sizeof let_go,
                       " A pod that works on nothing for certain need not be waited for: kubectl "
                       "annotate pod POD %s=true",
                       names_key(o->prefix, POD_LET_GO, key));
    }
    return xasprintf("Publishing what the spec adds waits%s until it is given up by: %s.%s", limit,
                     s->holders, let_go);
}

bool shard_shows_anything(const struct shard *s, const struct rules *rules)
{
    return rules_limit_count(rules) == 0 || gain_cache_ask(s->controller->gains, NULL, rules, NULL);
}

/* The others of the operator show nothing either, before long. */
static void note_withdrawal(struct shard *s, const struct shard_cache_config *config,
                            const struct rules *from)
{
    struct controller *c = s->controller;
    struct event_object about = event_object_of(config->object);
    bool shows = from != NULL && shard_shows_anything(s, from);
    shard_look_beside(s, config);
    if (shows) {
        log_warn("the shard gives up all that it has, since pods have no sidecars",
                 log_str("shard", s->key), log_str("holders", s->holders));
        event_record(c->options.events, &about, EVENT_WARNING, "Withdrawn",
                     "The shard has given up all that it had until these pods are gone: %s",
                     s->holders);
    }
}

/* Whether somebody has to do something. A rolling update, to or from sidecars, takes its time. */
static bool is_blocked(const struct ownership_plan *plan)
{
    bool blocked = plan->step == OWNERSHIP_RELEASE || plan->step == OWNERSHIP_RELOCK;
    for (size_t i = 0; i < plan->count && !blocked && plan->step == OWNERSHIP_WITHDRAW; i++) {
        const struct ownership_wait *w = &plan->waits[i];
        blocked = w->reason == OWNERSHIP_NOT_STARTED ||
                  (w->reason == OWNERSHIP_NO_SIDECAR && w->bare->failing != NULL);
    }
    return blocked && plan->late;
}

/* `from`, and as shard_wait. */
static char *carry_out(struct shard *s, const struct shard_cache_config *config,
                       struct ownership_plan *plan, const struct rules *from, const char *checksum)
{
    struct takeover_word *leases = ask_leases(s->controller, plan);
    wait_for(s, waits_text(plan, leases), checksum);
    free(leases);
    s->waits_ms = plan->patience;
    if (is_blocked(plan) && !s->blocked) {
        s->blocked = true;
        tell_blocked(s, config, plan->step);
    }
    s->late = plan->late;
    if (plan->step == OWNERSHIP_WITHDRAW && !s->withdrawn) {
        note_withdrawal(s, config, from);
    }
    s->withdrawn = plan->step == OWNERSHIP_WITHDRAW;
    if (plan->again_ms != UINT64_MAX) {
        controller_look_after(s, plan->again_ms);
    }
    if (plan->step == OWNERSHIP_OVERRIDE) {
        note_override(s, plan);
        return NULL;
    }
    return make_message(s, plan);
}

struct rules *shard_leave_out_shared(const struct shard *s, const struct shard_cache_config *config,
                                     struct rules *rules)
{
    struct rules *own = sharing_leave_out(rules, sharing_of(config->object),
                                          shard_cache_shared(s->controller->options.cache));
    return own == NULL ? rules_ref(rules) : own;
}

/* ---- its lock ---- */

/* A shard that shows nothing may be about to change its lock, which who led before may know. */
void shard_note_lock(struct shard *s, const struct shard_cache_config *config, bool first,
                     const struct rules *from, const struct rules *to)
{
    const struct controller *c = s->controller;
    const cJSON *controller = field_get(field_get(config->object, "spec"), "controller");
    const char *own = field_text(controller, COMPILE_LOCK_NAME);
    const char *ns = field_text(controller, COMPILE_LOCK_NAMESPACE);
    struct lock_change_options o = {
        .client = c->options.client, .clock = c->clock, .ops = c->options.ops};
    if (from == NULL || c->options.handover == HANDOVER_OFF) {
        return;
    }
    own = own[0] != '\0' ? own : rules_leader_election(from);
    if (own == NULL) {
        return;
    }
    ns = ns[0] != '\0' ? ns : config->ns;
    lock_place_of(from, own, ns, &o.from);
    lock_place_of(to, own, ns, &o.to);
    bool changes = !lock_place_same(&o.from, &o.to);
    if (!changes && first && rules_generation(from) != 1 && !shard_shows_anything(s, from)) {
        lock_place_other(from, own, ns, &o.from);
        changes = true;
    }
    if (changes && s->relock != NULL) {
        lock_change_again(s->relock, &o.from, &o.to);
    } else if (changes) {
        s->relock = lock_change_new(c->loop, &o);
    }
}

void shard_lock_is_right(struct shard *s)
{
    lock_change_free(s->relock);
    s->relock = NULL;
}

/* For pods of its own, of which it waits for nothing else. */
static bool waits_for_its_lock(const struct ownership_question *q,
                               const struct ownership_plan *plan)
{
    size_t i = 0;
    while (i < plan->count && (plan->waits[i].shard != q->shard || plan->waits[i].pod == NULL)) {
        i++;
    }
    return i < plan->count;
}

/* The plan, which depends on who leads once all pods of the shard have confirmed its lock. */
static void make_plan(struct shard *s, const struct ownership_facts *f,
                      struct ownership_question *q, struct ownership_plan *plan)
{
    q->relocks = s->relock != NULL;
    q->led = s->relock != NULL && !lock_change_is_over(s->relock);
    ownership_plan(f, q, plan);
    if (s->relock != NULL) {
        bool confirmed = !waits_for_its_lock(q, plan);
        uint64_t again_ms = lock_change_error(s->relock) == NULL ? LED_MS : UNREADABLE_MS;
        lock_change_confirm(s->relock, confirmed);
        q->led = !lock_change_is_over(s->relock);
        ownership_plan(f, q, plan);
        if (q->led && confirmed && plan->again_ms > again_ms) {
            plan->again_ms = again_ms;
        }
    }
}

/* `own`: of what is to be published, what it does not share on purpose. As shard_wait. */
static char *ask(struct shard *s, const struct shard_cache_config *config, const struct rules *from,
                 const struct rules *own, const char *checksum, enum shard_meanwhile *meanwhile)
{
    struct ownership_gathering g;
    struct ownership_plan plan;
    uint64_t now = controller_now(s->controller);
    uint64_t waited = waits_for(s, checksum) ? now - s->waits_since : 0;
    char *message = NULL;
    ownership_facts_gather(s, config, &g);
    struct ownership_question q = {.shard = g.self,
                                   .from = from,
                                   .to = own,
                                   .elected = g.self->lock[0] != '\0' &&
                                              rules_leader_election(own) == NULL,
                                   .limit_ms = s->controller->options.handover_ms,
                                   .waited_ms = waited,
                                   .doubt = s->doubt,
                                   .doubt_ms = now - s->doubt_since};
    plan.waits = g.waits;
    make_plan(s, &g.facts, &q, &plan);
    s->doubt_since = plan.doubt == s->doubt ? s->doubt_since : now;
    s->doubt = plan.doubt;
    if (plan.count == 0 || plan.step == OWNERSHIP_OVERRIDE) {
        shard_lock_is_right(s);
    }
    if (plan.count == 0) {
        shard_wait_end(s);
    } else {
        message = carry_out(s, config, &plan, from, checksum);
        *meanwhile = plan.step == OWNERSHIP_WITHDRAW ? SHARD_WITHDRAWS
                     : plan.step == OWNERSHIP_RELOCK ? SHARD_RELOCKS
                     : plan.doubtful                 ? SHARD_DOUBTS
                                                     : SHARD_KEEPS;
    }
    ownership_facts_deinit(&g);
    return message;
}

static bool is_of_some_operator(const struct deployment_roots *roots, const struct pod *p)
{
    return p->proxy_port == 0 && !p->over && !p->let_go &&
           (shard_cache_shard_count(p) > 0 || deployment_roots_of(roots, p) != NULL);
}

bool shard_is_beside_bare(const struct shard *s, const char *ns)
{
    const struct shard_cache *w = s->controller->options.cache;
    const struct pod *p = NULL;
    struct deployment_roots roots;
    deployment_roots_find(&roots, w, ns);
    do {
        p = shard_cache_next_pod_in(w, ns, p);
    } while (p != NULL && !is_of_some_operator(&roots, p));
    deployment_roots_deinit(&roots);
    return p != NULL && s->controller->options.handover != HANDOVER_OFF;
}

char *shard_wait(struct shard *s, const struct shard_cache_config *config, const struct rules *from,
                 struct rules *to, enum shard_meanwhile *meanwhile)
{
    struct controller *c = s->controller;
    *meanwhile = SHARD_KEEPS;
    if (c->options.handover == HANDOVER_OFF) {
        shard_wait_end(s);
        return NULL;
    }
    struct rules *own = shard_leave_out_shared(s, config, to);
    char *message = NULL;
    if (from != NULL && s->relock == NULL && !gain_cache_ask(c->gains, from, own, NULL) &&
        !shard_is_beside_bare(s, config->ns)) {
        shard_wait_end(s);
    } else {
        message = ask(s, config, from, own, rules_checksum(to), meanwhile);
    }
    rules_unref(own);
    return message;
}

void shard_tell_late(struct shard *s, const struct shard_cache_config *config, uint64_t generation)
{
    struct controller *c = s->controller;
    struct event_object about = event_object_of(config->object);
    c->options.counts->late++;
    log_warn("handover timed out: others may still show what this shard has gained",
             log_str("shard", s->key), log_str("holders", s->holders));
    event_record(c->options.events, &about, EVENT_WARNING, "HandoverTimedOut",
                 "Generation %" PRIu64 " was published after %" PRIu64
                 " s, although others have not confirmed that they do not show some of what is "
                 "new in it: two shards may work on the same objects. %s",
                 generation, s->waits_ms / MS, s->holders);
}

void controller_wake(struct controller *c, const char *key)
{
    LIST_FOR_EACH(n, &c->waiting)
    {
        struct shard *s = LIST_ITEM(n, struct shard, waiting);
        if (shard_is_beside(s, key)) {
            controller_look_now(c, s->key);
        }
    }
}
