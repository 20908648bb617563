/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All is looked at anew each time, so that the next leader decides likewise.
 *
 *     holders_find: for each other shard of the namespace, with a config or without
 *                       same operator, and not shared with on purpose?
 *                       what its ConfigMap says; what each of its pods may show
 *                   for each pod of the operator that has no sidecar: everything
 */
#include "shard/holders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "compile/sharing.h"
#include "inject/inject_options.h"
#include "shard/kin.h"
#include "json/field.h"

enum { NAMED_MAX = 3, TEXT_MAX = 2048 };

/* What is looked for, and by whom. */
struct search {
    struct shard *shard;
    const struct shard_cache_config *config;
    const struct rules *from;
    const struct rules *to;
    struct kin kin;
    const struct pod **pods; /* of the shard itself: kin points to them */
    enum handover_mode mode;
    bool now; /* holders_now */
    struct holders *found;
};

/* Another shard. */
struct other {
    const char *key;
    const struct shard_cache_config *config; /* NULL: it is gone */
    struct shard *shard;                     /* NULL: nothing is remembered of it */
    const struct rules_map *map;             /* NULL: there is none */
    const struct pod **pods;
    size_t pod_count;

    /* Whether what is looked for is shown by its ConfigMap; or by that, or what stood there
     * earlier, once somebody wants to know. */
    bool shows_published;
    bool shows_past;
    bool past_known;
};

/* ---- saying who ---- */

/* Only some are named. Memory: the text is then incomplete, the count is not. */
static bool begin_name(struct search *q)
{
    struct holders *h = q->found;
    h->count++;
    if (h->count > NAMED_MAX) {
        return false;
    }
    (void)buf_append_str(&h->text, h->count > 1 ? "; " : "");
    return true;
}

static const char *why_of(const struct probe_result *r)
{
    if (r == NULL || !r->asked) {
        return "not heard of yet";
    }
    if (r->bypassed) {
        return "goes around its proxy, and so sees everything";
    }
    if (r->state != PROBE_ANSWERED) {
        return "does not respond";
    }
    return handover_unsettled(r) ? "is still finishing requests under earlier rules"
                                 : "has not confirmed yet that it gave it up";
}

/* When it can be done without it, or why not. */
static void name_lease(struct buf *text, const struct takeover_word *lease)
{
    char at[RFC3339_SIZE];
    if (lease->state == TAKEOVER_LATER && rfc3339_format(lease->expires, at) == 0) {
        (void)buf_printf(text, "; its rules will have expired for certain at %s", at);
    } else if (lease->state == TAKEOVER_FORBIDDEN) {
        (void)buf_append_str(text,
                             "; its rules have expired, but this manager may not patch Leases: "
                             "bind the ClusterRole cmesh-manager-takeover to it");
    } else if (lease->state == TAKEOVER_ASKED) {
        (void)buf_append_str(text, "; its rules have expired, and it is being given up");
    }
}

/* The time at which the rules of one that renews them would expire is nothing to wait for. */
static void name_pod(struct search *q, const struct other *o, const struct pod *p,
                     const struct probe_result *r, const struct takeover_word *lease)
{
    bool renews = lease->state == TAKEOVER_LATER && r != NULL && r->state == PROBE_ANSWERED;
    if (begin_name(q)) {
        (void)buf_printf(&q->found->text, "pod %s of shard %s%s (%s", p->name, o->key,
                         o->config == NULL ? ", which was deleted" : "", why_of(r));
        if (!renews) {
            name_lease(&q->found->text, lease);
        }
        (void)buf_append_str(&q->found->text, ")");
    }
}

/* What it holds may be certain to be over, or become so. */
static struct takeover_word want_pod(struct search *q, const struct other *o, const struct pod *p,
                                     const struct probe_result *r)
{
    struct takeover_word lease = {.state = TAKEOVER_NONE, .again_ms = UINT64_MAX};
    if (!q->now && (r == NULL || !r->bypassed || p->allow_bypass)) {
        takeover_want(q->shard->controller->takeover, p, r, o->key, o->map, &lease);
    }
    q->found->again_ms = lease.again_ms < q->found->again_ms ? lease.again_ms : q->found->again_ms;
    return lease;
}

static void name_bare(struct search *q, const struct pod *p)
{
    if (begin_name(q)) {
        (void)buf_printf(&q->found->text, "pod %s (%s)", p->name,
                         p->proxy_port == 0 ? "has no sidecar, and so sees everything"
                                            : "has the sidecars of a shard that nobody knows");
    }
}

/* Its pods may be of that release, too. */
static bool is_later(const struct other *o)
{
    return o->map != NULL && o->map->later;
}

/* By this leader, who will before long. */
static bool is_unread(const struct other *o)
{
    return o->map != NULL && o->map->unread;
}

/* There is no config, it does not say that there was, and nobody has read it: what its pods may
 * show is known only of themselves. */
static bool is_nobodys(const struct other *o)
{
    return o->config == NULL && o->map->unread && !rules_map_claims(o->map);
}

/* What it comes to see that rules show, too; NULL: at all. */
static bool gains(const struct search *q, const struct rules *rules)
{
    return gain_cache_ask(q->shard->controller->gains, q->from, q->to, rules);
}

static void name_shard(struct search *q, const struct other *o)
{
    bool wants = o->shard != NULL && o->shard->compiled != NULL && o->config != NULL &&
                 gains(q, o->shard->compiled);
    const char *why = "its ConfigMap still shows it";
    if (wants) {
        why = "its spec selects it too: change one of the specs";
    } else if (is_unread(o)) {
        why = "its ConfigMap was not read yet";
    } else if (is_later(o) && o->map->given_up > 0) {
        why = "there is no memory for its rules: raise the manager's --shards-memory";
    } else if (is_later(o)) {
        why = "its ConfigMap was written by another release, whose sidecars may see anything by it";
    }
    if (begin_name(q)) {
        (void)buf_printf(&q->found->text, "shard %s (%s)", o->key, why);
    }
}

/* ---- what another shard may show ---- */

static bool shows(const struct search *q, const struct rules *rules)
{
    return rules != NULL && gains(q, rules);
}

/* Its ConfigMap may show anything. A shard of which nothing can be read either goes by the other's
 * spec, or they would wait for each other for ever. */
static bool shows_later(const struct search *q, const struct other *o)
{
    const struct rules *spec = o->shard == NULL ? NULL : o->shard->compiled;
    return is_later(o) && (q->from != NULL || spec == NULL || shows(q, spec));
}

static const struct handover_past *past_of(const struct other *o)
{
    static const struct handover_past nothing = {.count = 0};
    return o->shard == NULL ? &nothing : &o->shard->past;
}

static bool says_the_same(const struct rules *a, const struct rules *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(rules_checksum(a), rules_checksum(b)) == 0);
}

/* What stands in its ConfigMap; or was sent last, and may be there although the cache does not show
 * it. */
static bool shows_published(const struct search *q, const struct other *o)
{
    const struct handover_past *past = past_of(o);
    const struct rules *there = o->map == NULL ? NULL : o->map->rules;
    const struct rules *sent = past->count == 0 ? NULL : past->rules[past->count - 1];
    return is_unread(o) || shows_later(q, o) || shows(q, there) ||
           (!says_the_same(sent, there) && shows(q, sent));
}

/* What stood there earlier, which few pods still have. */
static bool shows_past(const struct search *q, struct other *o)
{
    const struct handover_past *past = past_of(o);
    if (!o->past_known) {
        o->past_known = true;
        o->shows_past = o->shows_published;
        for (size_t i = 0; i + 1 < past->count && !o->shows_past; i++) {
            o->shows_past = shows(q, past->rules[i]);
        }
    }
    return o->shows_past;
}

/* If all enforce what is published, what was earlier is forgotten. */
static void settle(const struct other *o, enum handover_hold most)
{
    if (o->shard != NULL && o->map != NULL && o->map->rules != NULL && most <= HANDOVER_PUBLISHED) {
        handover_settled(&o->shard->past, o->map->rules);
    }
}

static enum handover_hold hold_of(const struct controller *c, const struct other *o,
                                  const struct pod *p, enum handover_mode mode)
{
    return handover_hold_of(p, prober_result(c->prober, p->key), o->key, o->map, past_of(o), mode);
}

/* It goes over from rules that a new leader does not know to those in the ConfigMap: what was told
 * of it before stands meanwhile. */
static bool is_in_between(const struct other *o, enum handover_hold hold,
                          const struct probe_result *r)
{
    return hold == HANDOVER_ANYTHING && o->map != NULL && (r == NULL || !r->bypassed);
}

static void look_at_pods(struct search *q, struct other *o)
{
    const struct controller *c = q->shard->controller;
    enum handover_hold most = HANDOVER_NOTHING;
    for (size_t i = 0; i < o->pod_count; i++) {
        const struct pod *p = o->pods[i];
        const struct probe_result *r = prober_result(c->prober, p->key);
        enum handover_hold hold = hold_of(c, o, p, q->mode);
        bool may = hold == HANDOVER_ANYTHING || (hold == HANDOVER_PAST && shows_past(q, o));
        if (q->now && is_in_between(o, hold, r)) {
            q->found->unasked = true;
            continue;
        }
        most = hold > most ? hold : most;
        if (may) {
            struct takeover_word lease = want_pod(q, o, p, r);
            name_pod(q, o, p, r, &lease);
        }
        if (may || (o->shows_published && hold == HANDOVER_PUBLISHED)) {
            q->found->unasked = q->found->unasked || (r != NULL && !r->asked);
            q->found->unsettled = q->found->unsettled || handover_unsettled(r);
        }
    }
    if (!q->now) {
        settle(o, most);
    }
}

static void look_at_other(struct search *q, struct other *o)
{
    if (q->now && is_unread(o)) {
        q->found->unasked = true;
        return;
    }
    o->shows_published = shows_published(q, o);
    if (o->shows_published) {
        name_shard(q, o);
    }
    look_at_pods(q, o);
}

static const char *annotation(const struct search *q, const struct shard_cache_config *config)
{
    char key[INJECT_KEY_SIZE];
    const cJSON *meta = field_get(config == NULL ? NULL : config->object, "metadata");
    return field_text(
        field_get(meta, "annotations"),
        inject_options_key(q->shard->controller->options.prefix, HOLDERS_SHARES_WITH, key));
}

static bool shares_with(const struct search *q, const struct other *o)
{
    const char *name = strchr(o->key, '/') + 1;
    const char *ours = annotation(q, q->config);
    const char *theirs = annotation(q, o->config);
    return inject_options_lists(ours, name) || inject_options_lists(theirs, q->config->name) ||
           inject_options_lists(ours, "*") || inject_options_lists(theirs, "*");
}

/* Of which operator it is, its rules may say: those that nobody has read, or can read, may say
 * anything. */
static bool is_of_same_operator(const struct search *q, const struct other *o)
{
    struct kin kin;
    bool unknown = is_unread(o) || (is_later(o) && o->map->given_up == 0);
    kin_init(&kin, o->config, o->map == NULL ? NULL : o->map->lock, o->pods, o->pod_count);
    return (!q->now && unknown) || kin_same_operator(&q->kin, &kin);
}

/* 0 or -ENOMEM. */
static int look_at(struct search *q, const char *key)
{
    struct controller *c = q->shard->controller;
    struct other o = {.key = key,
                      .config = shard_cache_find_config(c->options.cache, key),
                      .shard = controller_find_shard(c, key)};
    o.map = o.shard == NULL ? shard_cache_find_map(c->options.cache, key) : shard_map(o.shard);
    o.map = o.map != NULL && shard_owns_map(o.shard, o.config, o.map) ? o.map : NULL;
    o.map = o.map != NULL && is_nobodys(&o) ? NULL : o.map;
    o.pods = controller_own_pods(c, key, &o.pod_count);
    if (o.pods == NULL) {
        return -ENOMEM;
    }
    bool intended = shares_with(q, &o);
    if (is_of_same_operator(q, &o) && (q->now || !intended)) {
        size_t before = q->found->count;
        look_at_other(q, &o);
        q->found->intended += intended ? q->found->count - before : 0;
    }
    free(o.pods);
    return 0;
}

/* ---- all of them ---- */

static int look_at_configs(struct search *q)
{
    const struct shard_cache *w = q->shard->controller->options.cache;
    const struct shard_cache_config *next = NULL;
    int rc = 0;
    while (rc == 0 && (next = shard_cache_next_config_in(w, q->config->ns, next)) != NULL) {
        rc = next == q->config || next->root ? 0 : look_at(q, next->key);
    }
    return rc;
}

static int look_at_gone(struct search *q)
{
    size_t count = 0;
    const char **keys =
        shard_cache_gone_in(q->shard->controller->options.cache, q->config->ns, &count);
    int rc = keys == NULL ? -ENOMEM : 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = look_at(q, keys[i]);
    }
    free(keys);
    return rc;
}

/* Whether the pod, which has no sidecar, is one of the operator's. */
static bool is_of_operator(const struct search *q, const struct pod *p)
{
    enum { ROOM = 8 };
    const struct shard_cache *w = q->shard->controller->options.cache;
    const struct shard_cache_config *configs[ROOM];
    struct kin kin;
    if (kin_has_account(&q->kin, p->account)) {
        return true;
    }
    size_t count = shard_cache_shards_of(w, p, configs, ROOM);
    for (size_t i = 0; i < count; i++) {
        kin_init(&kin, configs[i], NULL, &p, 1);
        if (configs[i] == q->config || kin_same_operator(&q->kin, &kin)) {
            return true;
        }
    }
    return false;
}

/* Whose rules nobody knows: it has no sidecar, or does not say of which shard they are, and no
 * shard or more than one selects it. */
static bool is_bare(const struct search *q, const struct pod *p)
{
    const struct shard_cache *w = q->shard->controller->options.cache;
    return p->proxy_port == 0 || (p->injected[0] == '\0' && shard_cache_shard_count(w, p) != 1);
}

static void look_at_bare(struct search *q)
{
    const struct shard_cache *w = q->shard->controller->options.cache;
    for (const struct pod *p = NULL; (p = shard_cache_next_pod_in(w, q->config->ns, p)) != NULL;) {
        if (is_bare(q, p) && !p->over && !p->let_go && is_of_operator(q, p)) {
            name_bare(q, p);
        }
    }
}

/* `rules`: those that the shard has, for its kin. */
static int search(struct search *q, const struct rules *rules)
{
    size_t count = 0;
    struct holders *out = q->found;
    *out = (struct holders){.again_ms = UINT64_MAX};
    buf_init(&out->text, TEXT_MAX);
    bool gains_any = gains(q, NULL);
    if (q->from != NULL && !gains_any) {
        return 0;
    }
    q->pods = controller_own_pods(q->shard->controller, q->shard->key, &count);
    if (q->pods == NULL) {
        return -ENOMEM;
    }
    kin_init(&q->kin, q->config, rules == NULL ? NULL : rules_leader_election(rules), q->pods,
             count);
    int rc = look_at_configs(q);
    rc = rc == 0 ? look_at_gone(q) : rc;
    if (rc == 0) {
        if (gains_any) { /* what no limit mentions of these rules, it never lost to them */
            look_at_bare(q);
        }
        if (out->count > NAMED_MAX) {
            (void)buf_printf(&out->text, "; and %zu more", out->count - NAMED_MAX);
        }
    } else {
        holders_deinit(out);
    }
    free(q->pods);
    return rc;
}

/* NULL: without memory; or they are large, and nearly too large. */
static struct rules *leave_out_shared(const struct shard *s,
                                      const struct shard_cache_config *config, struct rules *rules)
{
    struct err e = ERR_INIT;
    struct rules *own = sharing_leave_out(rules, sharing_of(config->object),
                                          shard_cache_shared(s->controller->options.cache), &e);
    return own == NULL && e.code == -E2BIG ? rules_ref(rules) : own;
}

int holders_find(struct shard *s, const struct shard_cache_config *config, const struct rules *from,
                 struct rules *to, struct holders *out)
{
    struct rules *own = leave_out_shared(s, config, to);
    struct search q = {.shard = s,
                       .config = config,
                       .from = from,
                       .to = own,
                       .mode = s->controller->options.handover,
                       .found = out};
    int rc = own == NULL ? -ENOMEM : search(&q, from);
    rules_unref(own);
    return rc;
}

int holders_now(struct shard *s, const struct shard_cache_config *config, struct rules *rules,
                bool all, struct holders *out)
{
    struct rules *own = all ? rules_ref(rules) : leave_out_shared(s, config, rules);
    struct search q = {.shard = s,
                       .config = config,
                       .to = own,
                       .mode = HANDOVER_BOUNDED,
                       .now = true,
                       .found = out};
    int rc = own == NULL ? -ENOMEM : search(&q, rules);
    rules_unref(own);
    return rc;
}

void holders_deinit(struct holders *h)
{
    buf_reset(&h->text);
}
