/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownership_plan:
 *
 *   - It gains nothing, by the same lock, and there is no pod without a sidecar that a shard
 *     selects: give.
 *   - Collect whom it has to wait for:
 *       each of its own pods that may be elected by another lock, and who may lead by that;
 *       of each other shard of the operator with which it does not share on purpose,
 *           its ConfigMap, if that shows what is gained;
 *           each of its pods that may show it;
 *       each pod of the operator without a sidecar, which may show everything.
 *   - There is nobody: give. Else release what it loses, or all if there is such a pod or another
 *     lock, and wait.
 */
#include "ownership/ownership.h"

#include <string.h>

#include "base/keyed_hash.h"
#include "inject/inject_options.h"
#include "ownership/operator.h"

struct search {
    const struct ownership_facts *facts;
    const struct ownership_question *question;
    struct ownership_plan *plan;
    uint64_t doubt; /* a hash of the specs of the shard itself, and of those that are doubtful */
    bool certain;   /* somebody is waited for who is not */
    bool withdraw;  /* a pod without a sidecar is */
    bool relock;    /* a pod of its own is, or who leads one */
    bool now;       /* ownership_overlaps */
};

/* Another shard, and what it shows of what is looked for. */
struct other {
    const struct ownership_shard *shard;
    bool intended;
    bool doubtful;
    bool published; /* by its ConfigMap */
    bool past;      /* by what stood there earlier, once it is asked for: */
    bool past_known;
    bool leaves; /* of that it shows what its spec does not select any more, which ends by itself */
};

static const struct handover_past *past_of(const struct ownership_shard *s)
{
    static const struct handover_past nothing = {.count = 0};
    return s->past == NULL ? &nothing : s->past;
}

/* By this leader, who will read it before long. */
static bool is_unread(const struct ownership_shard *s)
{
    return s->map != NULL && s->map->unread;
}

/* Its pods may be of that release, too. */
static bool is_later(const struct ownership_shard *s)
{
    return s->map != NULL && s->map->later;
}

/* Whether it comes to see something that `rules` show too; NULL: anything at all. */
static bool gains(const struct search *q, const struct rules *rules)
{
    return q->facts->gain(q->facts->gain_data, q->question->from, q->question->to, rules);
}

static bool shows(const struct search *q, const struct rules *rules)
{
    return rules != NULL && gains(q, rules);
}

/* ---- what another shard shows ---- */

/* Whether nothing can be read of the shard that asks either. Others may then wait for it for the
 * same reason, and both would wait for ever. */
static bool is_unknown(const struct search *q)
{
    const struct ownership_shard *s = q->question->shard;
    enum handover_hold most = is_later(s) ? HANDOVER_ANYTHING : HANDOVER_NOTHING;
    for (size_t i = 0; i < s->pod_count && most != HANDOVER_ANYTHING; i++) {
        most = handover_hold_of(s->pods[i].pod, s->pods[i].probe, s->key, s->map, past_of(s),
                                q->facts->mode);
    }
    return q->question->from == NULL && most == HANDOVER_ANYTHING;
}

/* Whether its ConfigMap has the rules that its spec comes to, by their checksum. */
static bool has_what_it_wants(const struct ownership_shard *s)
{
    return strcmp(s->map->checksum, rules_checksum(s->wanted)) == 0;
}

/* Its ConfigMap may show anything, unless one may go by its spec. */
static bool shows_later(const struct search *q, const struct ownership_shard *s)
{
    if (!is_later(s) || s->wanted == NULL || shows(q, s->wanted)) {
        return is_later(s);
    }
    return q->question->from != NULL || !(q->now || has_what_it_wants(s) || is_unknown(q));
}

static bool says_the_same(const struct rules *a, const struct rules *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(rules_checksum(a), rules_checksum(b)) == 0);
}

/* What stands in its ConfigMap; or was sent last, and may be there although the cache does not show
 * it. */
static bool shows_published(const struct search *q, const struct ownership_shard *s)
{
    const struct handover_past *past = past_of(s);
    const struct rules *there = s->map == NULL ? NULL : s->map->rules;
    const struct rules *sent = past->count == 0 ? NULL : past->rules[past->count - 1];
    return is_unread(s) || shows_later(q, s) || shows(q, there) ||
           (!says_the_same(sent, there) && shows(q, sent));
}

static bool is_leaving(const struct search *q, const struct ownership_shard *s,
                       const struct rules *rules)
{
    return rules != NULL && q->facts->gain(q->facts->gain_data, s->wanted, rules, q->question->to);
}

/* By its ConfigMap, and what was sent last; or by all that pods may have. */
static bool leaves_something(const struct search *q, const struct ownership_shard *s, bool all)
{
    const struct handover_past *past = past_of(s);
    bool found = s->map != NULL && is_leaving(q, s, s->map->rules);
    for (size_t i = all || past->count == 0 ? 0 : past->count - 1; i < past->count && !found; i++) {
        found = is_leaving(q, s, past->rules[i]);
    }
    return found;
}

/* What stood there earlier, which few pods still have. */
static bool shows_past(const struct search *q, struct other *o)
{
    const struct handover_past *past = past_of(o->shard);
    if (!o->past_known) {
        o->past_known = true;
        o->past = o->published;
        for (size_t i = 0; i + 1 < past->count && !o->past; i++) {
            o->past = shows(q, past->rules[i]);
        }
        o->leaves = o->leaves || (o->doubtful && leaves_something(q, o->shard, true));
    }
    return o->past;
}

/* ---- who is waited for ---- */

static struct ownership_wait *add_wait(struct search *q, const struct other *o,
                                       enum ownership_reason reason)
{
    struct ownership_wait *w = &q->plan->waits[q->plan->count++];
    *w = (struct ownership_wait){.reason = reason};
    if (o != NULL) {
        w->shard = o->shard;
        w->doubtful = o->doubtful && !o->leaves;
        w->intended = o->intended;
    }
    q->plan->intended += w->intended;
    q->certain = q->certain || !w->doubtful;
    return w;
}

static enum ownership_reason reason_of_map(const struct search *q, const struct ownership_shard *s)
{
    if (s->exists && shows(q, s->wanted)) {
        return OWNERSHIP_WANTED;
    }
    if (is_unread(s)) {
        return OWNERSHIP_UNREAD;
    }
    if (is_later(s)) {
        return s->map->given_up > 0 ? OWNERSHIP_OVER_BUDGET : OWNERSHIP_OTHER_RELEASE;
    }
    return OWNERSHIP_PUBLISHED;
}

static enum ownership_reason reason_of_pod(const struct probe_result *r)
{
    if (r == NULL || !r->asked) {
        return OWNERSHIP_NOT_HEARD_OF;
    }
    if (r->bypassed) {
        return OWNERSHIP_BYPASSED;
    }
    if (r->state != PROBE_ANSWERED) {
        return OWNERSHIP_SILENT;
    }
    return handover_unsettled(r) ? OWNERSHIP_UNSETTLED : OWNERSHIP_UNCONFIRMED;
}

/* The pod is moving from rules that a new leader does not know to those in the ConfigMap. Until it
 * has moved, the last verdict on it stays. */
static bool is_in_between(const struct ownership_shard *s, enum handover_hold hold,
                          const struct probe_result *r)
{
    return hold == HANDOVER_ANYTHING && s->map != NULL && (r == NULL || !r->bypassed);
}

static void look_at_pod(struct search *q, struct other *o, const struct ownership_pod *p)
{
    const struct ownership_shard *s = o->shard;
    const struct probe_result *r = p->probe;
    enum handover_mode mode = q->now ? HANDOVER_BOUNDED : q->facts->mode;
    enum handover_hold hold = handover_hold_of(p->pod, r, s->key, s->map, past_of(s), mode);
    bool may = hold == HANDOVER_ANYTHING || (hold == HANDOVER_PAST && shows_past(q, o));
    if (q->now && is_in_between(s, hold, r)) {
        q->plan->unasked = true;
        return;
    }
    if (o->published && hold == HANDOVER_PUBLISHED && !s->exists) {
        add_wait(q, o, OWNERSHIP_KEEPS)->pod = p;
    } else if (may) {
        struct ownership_wait *w = add_wait(q, o, reason_of_pod(r));
        w->pod = p;
        w->may_expire = !q->now && (r == NULL || !r->bypassed || p->pod->allow_bypass);
    }
    if (may || (o->published && hold == HANDOVER_PUBLISHED)) {
        q->plan->unasked = q->plan->unasked || (r != NULL && !r->asked);
        q->plan->unsettled = q->plan->unsettled || handover_unsettled(r);
    }
}

/* ---- its own lock ---- */

static bool says(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

bool ownership_relocks(const struct rules *from, const struct rules *to)
{
    return !says(rules_leader_election(from), rules_leader_election(to)) ||
           !says(rules_leader_election_namespace(from), rules_leader_election_namespace(to));
}

/* Of earlier rules that a pod may still have, whatever they show: who leads by their lock does so
 * for a while after it has taken later ones. */
static bool has_other_lock(const struct search *q, enum handover_hold hold)
{
    const struct handover_past *past = past_of(q->question->shard);
    bool found =
        hold == HANDOVER_ANYTHING ||
        (hold != HANDOVER_NOTHING && ownership_relocks(q->question->from, q->question->to));
    for (size_t i = 0; hold == HANDOVER_PAST && i < past->count && !found; i++) {
        found = ownership_relocks(past->rules[i], q->question->to);
    }
    return found;
}

static bool relocks(const struct ownership_question *q)
{
    return q->from != NULL && (q->relocks || ownership_relocks(q->from, q->to));
}

static enum ownership_reason reason_of_own(const struct probe_result *r)
{
    enum ownership_reason reason = reason_of_pod(r);
    return reason == OWNERSHIP_UNCONFIRMED ? OWNERSHIP_OTHER_LOCK : reason;
}

static void look_at_own_lock(struct search *q)
{
    const struct ownership_shard *s = q->question->shard;
    const struct other self = {.shard = s};
    bool works = false;
    for (size_t i = 0; i < s->pod_count; i++) {
        const struct ownership_pod *p = &s->pods[i];
        enum handover_hold hold =
            handover_hold_of(p->pod, p->probe, s->key, s->map, past_of(s), q->facts->mode);
        works = works || hold != HANDOVER_NOTHING;
        if (has_other_lock(q, hold)) {
            struct ownership_wait *w = add_wait(q, &self, reason_of_own(p->probe));
            w->pod = p;
            w->may_expire = p->probe == NULL || !p->probe->bypassed || p->pod->allow_bypass;
            q->relock = true;
        }
    }
    if (works && q->question->led) {
        (void)add_wait(q, &self, OWNERSHIP_STILL_LED);
        q->relock = true;
    }
}

/* ---- who else is waited for ---- */

static bool lists(const char *shares_with, const struct ownership_shard *s)
{
    return shares_with != NULL && (inject_options_lists(shares_with, strchr(s->key, '/') + 1) ||
                                   inject_options_lists(shares_with, "*"));
}

/* There is no config, and the ConfigMap does not say that there was, so that nobody deletes it. If
 * nobody has read it, what its pods may show is known only of themselves; and so it is of none. */
static bool is_nobodys(const struct ownership_shard *s)
{
    return !s->exists && s->map != NULL && !rules_map_claims(s->map) &&
           (is_unread(s) || (s->pod_count == 0 && !is_later(s)));
}

/* Whether it waits for it or not: the others of them may publish meanwhile. */
static void note_doubt(struct search *q, const struct ownership_shard *s)
{
    q->doubt = keyed_hash(q->doubt, slice_str(s->key));
    q->doubt = keyed_hash(q->doubt, (struct slice){(const char *)&s->spec, sizeof s->spec});
}

static void look_at_shard(struct search *q, const struct ownership_shard *s)
{
    const struct ownership_shard *self = q->question->shard;
    struct ownership_shard known = *s;
    struct other o = {.shard = s,
                      .intended = lists(self->shares_with, s) || lists(s->shares_with, self)};
    if (is_nobodys(s)) {
        known.map = NULL;
        o.shard = &known;
    }
    enum operator_kinship kinship = OPERATOR_SAME;
    if (!q->now) {
        kinship = o.intended ? OPERATOR_OTHER : operator_kinship(self, o.shard);
    } else if (!operator_is_same(self, o.shard)) {
        kinship = OPERATOR_OTHER;
    }
    if (kinship == OPERATOR_OTHER) {
        return;
    }
    if (q->now && is_unread(o.shard)) {
        q->plan->unasked = true;
        return;
    }
    size_t before = q->plan->count;
    o.published = shows_published(q, o.shard);
    o.doubtful = kinship == OPERATOR_DOUBTFUL && s->exists && shows(q, s->wanted);
    if (o.doubtful) {
        note_doubt(q, s);
        o.leaves = leaves_something(q, s, false);
    }
    if (o.published && s->exists) {
        (void)add_wait(q, &o, reason_of_map(q, o.shard));
    }
    for (size_t i = 0; i < s->pod_count; i++) {
        look_at_pod(q, &o, &s->pods[i]);
    }
    if (o.published && q->plan->count == before) { /* else it goes with the pods */
        (void)add_wait(q, &o, reason_of_map(q, o.shard));
    }
    for (size_t i = before; i < q->plan->count; i++) {
        q->plan->waits[i].shard = s;
    }
}

/* Whoever runs it has said by a selector that it is a pod of the operator. Others with the same
 * service account, such as a Job, take nothing away. */
static bool is_replaced(const struct ownership_bare_pod *p)
{
    return p->pod->proxy_port == 0 && p->selected_count > 0;
}

/* Whether its pods keep what they have beside those without a sidecar: they have held the lock of
 * these already, if they act. */
static bool is_elected(const struct search *s)
{
    const struct ownership_question *q = s->question;
    return q->elected && !s->relock && q->from != NULL && rules_leader_election(q->from) == NULL;
}

static enum ownership_reason reason_of_bare(const struct pod *p)
{
    if (p->proxy_port != 0) {
        return OWNERSHIP_UNKNOWN_SIDECAR;
    }
    return p->ip[0] == '\0' ? OWNERSHIP_NOT_STARTED : OWNERSHIP_NO_SIDECAR;
}

/* Those that are elected by the same lock as the shard are not in its way, nor that in theirs. */
static void look_at_bare_pods(struct search *q, bool gains_any)
{
    bool elected = !q->now && is_elected(q);
    for (size_t i = 0; i < q->facts->bare_count; i++) {
        const struct ownership_bare_pod *p = &q->facts->bare[i];
        bool matters = is_replaced(p) ? !elected : gains_any;
        if (matters && operator_has_bare_pod(q->question->shard, p)) {
            struct ownership_wait *w = add_wait(q, NULL, reason_of_bare(p->pod));
            w->bare = p->pod;
            q->withdraw = q->withdraw || is_replaced(p);
        }
    }
}

static void search(struct search *q)
{
    struct ownership_plan *plan = q->plan;
    *plan = (struct ownership_plan){.waits = plan->waits, .again_ms = UINT64_MAX};
    bool gains_any = gains(q, NULL);
    if (!q->now && relocks(q->question)) {
        look_at_own_lock(q);
    }
    if (q->question->from != NULL && !gains_any) {
        if (!q->now) {
            look_at_bare_pods(q, false);
        }
        return;
    }
    note_doubt(q, q->question->shard);
    for (size_t i = 0; i < q->facts->shard_count; i++) {
        if (&q->facts->shards[i] != q->question->shard) {
            look_at_shard(q, &q->facts->shards[i]);
        }
    }
    if (gains_any || !q->now) { /* what no limit mentions of these rules, it never lost to them */
        look_at_bare_pods(q, gains_any);
    }
}

/* ---- the plan ---- */

size_t ownership_room(const struct ownership_facts *f)
{
    size_t room = f->shard_count + f->bare_count + 1; /* that of a lock */
    for (size_t i = 0; i < f->shard_count; i++) {
        room += f->shards[i].pod_count;
    }
    return room;
}

static void set_patience(const struct search *q)
{
    struct ownership_plan *plan = q->plan;
    uint64_t patience = q->question->limit_ms;
    plan->doubtful = !q->certain;
    if (plan->doubtful && patience > OWNERSHIP_DOUBT_MS) {
        patience = OWNERSHIP_DOUBT_MS;
    } else if (plan->unsettled && patience < HANDOVER_UNSETTLED_MS) {
        patience = HANDOVER_UNSETTLED_MS;
    }
    plan->patience = patience;
}

void ownership_plan(const struct ownership_facts *f, const struct ownership_question *question,
                    struct ownership_plan *out)
{
    struct search q = {.facts = f, .question = question, .plan = out};
    search(&q);
    out->doubt = q.doubt;
    if (out->count == 0) {
        out->step = OWNERSHIP_GIVE;
        return;
    }
    set_patience(&q);
    uint64_t doubted = out->doubt == question->doubt ? question->doubt_ms : 0;
    uint64_t waited = out->doubtful ? doubted : question->waited_ms;
    out->step = q.withdraw ? OWNERSHIP_WITHDRAW : q.relock ? OWNERSHIP_RELOCK : OWNERSHIP_RELEASE;
    out->late = waited >= out->patience;
    if (!out->late) {
        out->again_ms = out->patience - waited;
    } else if (!q.withdraw && (f->mode != HANDOVER_STRICT || out->doubtful)) {
        out->step = OWNERSHIP_OVERRIDE;
    }
}

void ownership_overlaps(const struct ownership_facts *f, const struct ownership_question *question,
                        struct ownership_plan *out)
{
    struct search q = {.facts = f, .question = question, .plan = out, .now = true};
    search(&q);
}
