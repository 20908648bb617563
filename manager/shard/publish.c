/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first step of a shard: gathers what is known of it, asks publish_plan.h, and does what that
 * says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "compile/rules_gain.h"
#include "compile/sharing.h"
#include "ownership/generation.h"
#include "ownership/incompatible_pods.h"
#include "shard/controller_internal.h"
#include "shard/publish_plan.h"
#include "json/field.h"

enum {
    NAMESPACES_MS = 1000,    /* until it is seen what keeps them */
    NAMES_MAX = 4096,        /* bytes: of some pods, with versions */
    RELEASE_MS = 200,        /* it is asked again whether reviews go elsewhere, */
    RELEASE_WAIT_MS = 10000, /* for so long at most */
};

/* One look at a shard. */
struct publishing {
    struct shard *s;
    const struct shard_cache_config *config; /* NULL: it is gone, or a root */
    const struct rules_map *map;             /* NULL: there is none */
    struct ownership_pod *pods;              /* that have its sidecars */
    size_t pod_count;
    struct publish_facts facts;
    struct rules *next; /* what the ConfigMap is to hold, with its generation */
    cJSON *body;        /* of the request that writes it */
    char *why;          /* what the plan's reason says to people; NULL: nothing */
};

/* ---- which generation ---- */

/* That this manager wrote, or by the status the one before. `config` NULL: it is gone. */
static void ask_managers(struct generation *g, const struct shard *s,
                         const struct shard_cache_config *config, const char *checksum)
{
    const cJSON *status = config == NULL ? NULL : field_get(config->object, "status");
    const cJSON *n = field_get(status, "generation");
    bool counts =
        cJSON_IsNumber(n) && n->valuedouble >= 1 && n->valuedouble <= (double)GENERATION_TOLD_MAX;
    uint64_t told = counts ? (uint64_t)n->valuedouble : 0;
    g->own = told > s->generation ? told : s->generation;
    generation_known(g, s->generation, s->generation_checksum, checksum);
    generation_known(g, told, cJSON_GetStringValue(field_get(status, "checksum")), checksum);
}

static void ask_pods(struct generation *g, const struct publishing *p, const char *checksum)
{
    for (size_t i = 0; i < p->pod_count; i++) {
        const struct probe_result *r = p->pods[i].probe;
        generation_heard(g, p->pods[i].pod->generation);
        if (r != NULL && strcmp(r->shard, p->s->key) == 0) {
            generation_known(g, r->generation, r->checksum, checksum);
        }
    }
}

/* These rules are next, with the generation that they get. */
static void choose_next(struct publishing *p, struct rules *rules)
{
    const char *checksum = rules_checksum(rules);
    struct generation g = {.own = 0};
    ask_managers(&g, p->s, p->config, checksum);
    if (p->map != NULL) {
        generation_known(&g, p->map->generation, p->map->checksum, checksum);
    }
    generation_seen(&g, p->s->heard);
    ask_pods(&g, p, checksum);
    uint64_t voids = generation_voids(&g, p->map == NULL ? 0 : p->map->voids);
    struct rules *next = xptr(rules_with_generation(rules, generation_next(&g), voids));
    rules_unref(p->next);
    p->next = next;
}

/* Whether the ConfigMap holds exactly them. */
static bool holds_next(const struct publishing *p)
{
    return p->map != NULL && p->map->voids == rules_voids(p->next) &&
           rules_map_right(p->map, p->config->uid, rules_generation(p->next),
                           rules_checksum(p->next));
}

/* ---- what others have to give up ---- */

/* What it loses, it loses at once, unless what both show is too large. Of generation 1, as what is
 * compiled. */
static struct rules *rules_between(struct rules *from, const struct rules *wanted)
{
    struct err e = ERR_INIT;
    bool loses = rules_gain(wanted, from, NULL);
    struct rules *both = loses ? handover_between(from, wanted, 1, &e) : NULL;
    return both != NULL ? both : xptr(rules_with_generation(from, 1, 0));
}

/* What its own pods may enforce; NULL: nothing is known of. */
static struct rules *published_rules(struct shard *s, const struct rules_map *map)
{
    if (map != NULL && map->rules != NULL) {
        handover_note(&s->past, map->rules);
    }
    if (shard_is_overwritten(s, map)) {
        return rules_ref(s->own); /* by somebody who took what is held back for it */
    }
    struct rules *last = s->past.count == 0 ? NULL : s->past.rules[s->past.count - 1];
    return last == NULL ? NULL : rules_ref(last);
}

/* Nothing is known of any rules that its pods could have had. */
static bool is_first(const struct publishing *p)
{
    const cJSON *status = field_get(p->config->object, "status");
    bool first =
        p->map == NULL && p->s->generation == 0 && !cJSON_IsNumber(field_get(status, "generation"));
    for (size_t i = 0; i < p->pod_count && first; i++) {
        const struct probe_result *r = p->pods[i].probe;
        first = !p->pods[i].pod->told && (r == NULL || r->generation == 0);
    }
    return first;
}

/* Whether the rules show what `from` does not; but for what the config shares on purpose. */
static bool shows_more(const struct publishing *p, struct rules *from, struct rules *rules)
{
    struct rules *own = shard_leave_out_shared(p->s, p->config, rules);
    bool more = rules_gain(from, own, NULL);
    rules_unref(own);
    return more;
}

/* Nothing of what its spec limits, but for what is shared, NULL: nothing; and nothing of what
 * `from` limits and the spec does not. A spec that limits nothing, as that of who has everything
 * when all leave, adds nothing to `from`, which has the shard's own lock: its pods do not compete
 * for the operator's and see nothing. Of generation 1, as what is compiled. */
static struct rules *rules_withdrawn(const struct publishing *p, struct rules *from,
                                     const cJSON *shared)
{
    bool limits = from == NULL || rules_limit_count(p->next) > 0 || rules_limit_count(from) == 0;
    struct rules *none = sharing_only_shared(limits ? p->next : from, shared);
    struct rules *made = none == NULL ? NULL : xptr(rules_with_generation(none, 1, 0));
    if (made != NULL && from != NULL && shows_more(p, from, made)) {
        struct rules *old = sharing_only_shared(from, NULL);
        rules_unref(made);
        made = old == NULL ? NULL : rules_between(old, none);
        rules_unref(old);
    }
    rules_unref(none);
    return made;
}

/* The same of all, by the lock that it is to have. */
static struct rules *rules_relocked(const struct publishing *p, struct rules *from)
{
    struct err e = ERR_INIT;
    struct rules *none = rules_withdrawn(p, from, NULL);
    struct rules *made = none;
    if (none != NULL && ownership_relocks(none, p->next)) {
        made = handover_between(none, p->next, 1, &e);
        rules_unref(none);
    }
    return made;
}

/* What is published until others have given up what the spec adds. NULL: nothing new. Of a new
 * shard that is rules all the same, without which its pods would not start. */
static struct rules *rules_meanwhile(const struct publishing *p, struct rules *from,
                                     enum shard_meanwhile meanwhile)
{
    if (from == NULL && (meanwhile == SHARD_DOUBTS || !is_first(p))) {
        return NULL;
    }
    if (meanwhile == SHARD_RELOCKS) {
        return rules_relocked(p, from);
    }
    const cJSON *shared = p->s->relock == NULL ? sharing_of(p->config->object) : NULL;
    return meanwhile == SHARD_WITHDRAWS || from == NULL ? rules_withdrawn(p, from, shared)
                                                        : rules_between(from, p->next);
}

static void ask_others(struct publishing *p)
{
    enum shard_meanwhile meanwhile;
    bool first = p->s->past.count == 0;
    struct rules *from = published_rules(p->s, p->map);
    shard_note_lock(p->s, p->config, first, from, p->next);
    p->why = shard_wait(p->s, p->config, from, p->next, &meanwhile);
    p->facts.handover = p->why != NULL ? PUBLISH_HANDOVER_WAITS : PUBLISH_HANDOVER_DONE;
    struct rules *rules = p->why == NULL ? NULL : rules_meanwhile(p, from, meanwhile);
    p->facts.meanwhile = rules != NULL;
    if (rules != NULL) {
        choose_next(p, rules);
        shard_count_rules(p->s, rules);
        p->facts.right_meanwhile = holds_next(p);
    }
    rules_unref(rules);
    rules_unref(from);
}

/* ---- the ConfigMap that is to be written ---- */

/* What was said first stays. */
static void say(struct publishing *p, const char *text)
{
    p->why = p->why != NULL ? p->why : xstrdup(text);
}

/* Whether pods could not read them: that is said. */
static bool is_unreadable(struct publishing *p, enum rules_version version)
{
    struct err e = ERR_INIT;
    struct buf names = BUF_INIT(NAMES_MAX);
    bool first = p->map == NULL || p->map->generation == 0;
    if (version == RULES_V1 ||
        incompatible_pods(p->pods, p->pod_count, version, first, &names) == 0) {
        return false;
    }
    (void)err_set(&e, -EAGAIN,
                  "the rules fit into a ConfigMap as %s only, which these pods do not read: "
                  "%s. Recreate them, so that they get newer sidecars: those of "
                  "--sidecar-image",
                  rules_version_text(version), xptr(buf_cstr(&names)));
    say(p, e.msg);
    buf_reset(&names);
    return true;
}

/* Of p->next. False: not now. */
static bool make_body(struct publishing *p, enum publish_document *out)
{
    struct err e = ERR_INIT;
    enum rules_version version = RULES_V1;
    const struct shard *s = p->s;
    const char *uid = p->config != NULL ? p->config->uid
                      : s->uid == NULL  ? p->map->config_uid
                                        : s->uid;
    cJSON_Delete(p->body);
    p->body = rules_map_make(p->map, p->next, s->controller->options.prefix, uid, &version, &e);
    if (p->body == NULL) {
        *out = PUBLISH_TOO_LARGE;
        say(p, e.msg);
        return true;
    }
    *out = is_unreadable(p, version) ? PUBLISH_UNREADABLE : PUBLISH_FITS;
    return *out != PUBLISH_FITS || shard_traffic_add(p->s, p->config, p->map, p->body);
}

/* ---- facts ---- */

/* With an error they may be unknown for long, which is reported. */
static bool waits_for_namespaces(const struct shard *s, const struct shard_cache_config *config)
{
    const struct namespaces *n = s->controller->options.namespaces;
    return config->by_namespaces && n != NULL && !namespaces_synced(n) &&
           namespaces_error(n) == NULL;
}

static bool is_ending(const struct shard_cache_config *config)
{
    return field_get(field_get(config->object, "metadata"), "deletionTimestamp") != NULL;
}

/* A labeller that begins anew, with another leader, lists all again. What was published once is not
 * taken back, and later edits do not wait, for objects that exist have their labels by then. */
static void look_at_labels(struct publishing *p)
{
    struct labelling labels;
    if (!p->s->controller->options.wait_for_labels || !is_first(p)) {
        return;
    }
    shard_look_labelling(p->s, p->config, &labels);
    p->facts.labels_missing = labels.state == LABELLING_UNDER_WAY;
    if (p->facts.labels_missing) {
        say(p, labels.text);
    }
}

static bool has_unasked(const struct publishing *p)
{
    size_t i = 0;
    while (i < p->pod_count && (p->pods[i].probe == NULL || p->pods[i].probe->asked)) {
        i++;
    }
    return i < p->pod_count;
}

static void look_at_valid(struct publishing *p)
{
    struct publish_facts *f = &p->facts;
    if (f->map == PUBLISH_MAP_FOREIGN) {
        p->why = shard_name_taken(p->map);
        return;
    }
    f->policies_unknown = p->map == NULL && shard_waits_for_policies(p->s);
    f->unasked = p->map == NULL && has_unasked(p);
    look_at_labels(p);
    choose_next(p, p->s->compiled);
    f->right = holds_next(p);
    f->beside_bare = f->right && shard_is_beside_bare(p->s, p->config->ns);
}

static void look_at_map(struct publishing *p)
{
    struct shard *s = p->s;
    struct publish_facts *f = &p->facts;
    p->map = shard_map(s);
    p->pods = controller_own_pods(s->controller, s->key, &p->pod_count);
    f->mounted = p->pod_count > 0;
    shard_hear(s, p->map);
    shard_learn_own(s, p->config, p->map);
    shard_settle(s, p->map, p->pods, p->pod_count);
    f->overwritten = p->map == NULL && p->config != NULL && !is_ending(p->config) && s->own != NULL;
    if (p->map != NULL) {
        bool claimed = p->config != NULL || rules_map_claims(p->map) || s->own != NULL;
        bool ours = claimed && shard_owns_map(s, p->config, p->map);
        f->map = ours ? PUBLISH_MAP_OURS : PUBLISH_MAP_FOREIGN;
        f->unread = p->map->unread;
        f->overwritten = shard_is_overwritten(s, p->map);
    }
}

static void gather(struct publishing *p)
{
    struct shard *s = p->s;
    struct publish_facts *f = &p->facts;
    p->config = shard_config(s);
    if (p->config == NULL) {
        f->spec = PUBLISH_SPEC_GONE;
        look_at_map(p);
        return;
    }
    if (waits_for_namespaces(s, p->config)) {
        f->spec = PUBLISH_SPEC_NAMESPACES;
        controller_look_after(s, NAMESPACES_MS);
        return;
    }
    shard_compile(s, p->config);
    shard_give_up_rules(s, p->config);
    if (s->compiled != NULL) {
        shard_cache_share_rules(s->controller->options.cache, s->key, s->compiled);
    }
    f->spec = is_ending(p->config)       ? PUBLISH_SPEC_ENDING
              : shard_refusal(s) != NULL ? PUBLISH_SPEC_REFUSED
                                         : PUBLISH_SPEC_VALID;
    look_at_map(p);
    if (f->spec == PUBLISH_SPEC_VALID && !f->unread) {
        look_at_valid(p);
    }
}

/* What the plan asks for. False: not now. */
static bool find_out(struct publishing *p, enum publish_action what)
{
    if (what == PUBLISH_ASK_OTHERS) {
        ask_others(p);
        return true;
    }
    if (what == PUBLISH_MAKE) {
        return make_body(p, &p->facts.wanted);
    }
    choose_next(p, p->s->own);
    return make_body(p, &p->facts.own);
}

/* ---- what is done ---- */

static void confirm(struct shard *s, const struct rules_map *map, enum publish_reason reason)
{
    uint64_t generation = map->generation;
    if (reason == PUBLISH_OK) {
        shard_lock_is_right(s);
        shard_keep_rules(&s->own, map->rules != NULL ? map->rules : s->compiled);
        s->changed_at = s->placed ? s->changed_at : 0; /* it stood there already */
    }
    shard_tell_pods(s, generation, false);
    shard_report(s);
}

/* Whether reviews of what the shard is not to show any more go elsewhere by now. */
static bool is_released(struct publishing *p)
{
    struct shard *s = p->s;
    const struct controller_options *o = &s->controller->options;
    uint64_t now = controller_now(s->controller);
    if (o->release == NULL || o->release(o->data, s->key, p->next)) {
        s->unreleased_since = 0;
        s->release_told = false;
        return true;
    }
    s->unreleased_since = s->unreleased_since != 0 ? s->unreleased_since : now;
    if (now - s->unreleased_since >= RELEASE_WAIT_MS && !s->release_told) {
        log_warn("rules are published although reviews of what they do not show are not held",
                 log_str("shard", s->key));
        s->release_told = true;
    }
    return s->release_told;
}

static void write_next(struct publishing *p)
{
    struct shard *s = p->s;
    if (!is_released(p)) {
        controller_look_after(s, RELEASE_MS);
        shard_done(s, WORK_DONE, 0);
        return;
    }
    shard_tell_tampered(s, p->config, p->map);
    shard_keep_rules(&s->sent, p->next);
    handover_note(&s->past, p->next); /* they may arrive although the answer does not */
    shard_write_map(s, p->map == NULL, p->body);
}

/* What is remembered for as long as there is no config, or is reported once. A pod whose config is
 * still to come, or had no rules, keeps none. */
static void note_end(struct publishing *p, enum publish_action action)
{
    struct shard *s = p->s;
    bool foreign = p->facts.map == PUBLISH_MAP_FOREIGN && !p->facts.overwritten;
    bool rules = (p->map != NULL && !foreign) || s->own != NULL;
    bool kept = p->config == NULL && p->facts.mounted && rules;
    if (kept && !s->kept_told) {
        shard_tell_kept(s, p->map, p->pods, p->pod_count);
    }
    s->kept_told = p->config == NULL && (kept || s->kept_told);
    s->gone_at = action == PUBLISH_DELETE ? s->gone_at : 0;
}

static void carry_out(struct publishing *p, struct publish_plan plan)
{
    struct shard *s = p->s;
    note_end(p, plan.action);
    shard_set_reason(s, plan.reason, p->why);
    p->why = NULL;
    if (plan.reason == PUBLISH_OK || plan.reason == PUBLISH_NAME_TAKEN) {
        shard_wait_end(s);
    }
    switch (plan.action) {
    case PUBLISH_READ:
        shard_read_map(s);
        break;
    case PUBLISH_KEEP:
        shard_tell_tampered(s, p->config, p->map);
        shard_report(s);
        break;
    case PUBLISH_REPORT:
        shard_report(s);
        break;
    case PUBLISH_CONFIRM:
        confirm(s, p->map, plan.reason);
        break;
    case PUBLISH_WRITE:
        write_next(p);
        break;
    case PUBLISH_FOLLOW:
        shard_publish_traffic(s); /* its pods bring it again, and policies that change */
        break;
    case PUBLISH_DELETE:
        shard_delete_map(s);
        break;
    default:
        shard_done(s, WORK_DONE, 0);
    }
}

void shard_publish(struct shard *s)
{
    struct publishing p = {.s = s};
    gather(&p);
    struct publish_plan plan = publish_plan(&p.facts);
    while (plan.action <= PUBLISH_MAKE_OWN && find_out(&p, plan.action)) {
        plan = publish_plan(&p.facts);
    }
    if (plan.action <= PUBLISH_MAKE_OWN) {
        shard_done(s, WORK_RETRY, 0);
    } else {
        carry_out(&p, plan);
    }
    free(p.why);
    free(p.pods);
    cJSON_Delete(p.body);
    rules_unref(p.next);
}
