/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first step of a shard: gathers what is known of it, asks publish_plan.h, and does what that
 * says.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/rules_gain.h"
#include "ownership/generation.h"
#include "ownership/incompatible_pods.h"
#include "shard/controller_internal.h"
#include "shard/publish_plan.h"
#include "json/field.h"

enum { NAMESPACES_MS = 1000 }; /* until it is seen what keeps them */

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

/* These rules are next, with the generation that they get. 0 or -ENOMEM. */
static int choose_next(struct publishing *p, struct rules *rules)
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
    struct rules *next = rules_with_generation(rules, generation_next(&g), voids);
    rules_unref(p->next);
    p->next = next;
    return next == NULL ? -ENOMEM : 0;
}

/* Whether the ConfigMap holds exactly them. */
static bool holds_next(const struct publishing *p)
{
    return p->map != NULL && p->map->voids == rules_voids(p->next) &&
           rules_map_right(p->map, p->config->uid, rules_generation(p->next),
                           rules_checksum(p->next));
}

/* ---- what others have to give up ---- */

/* What it loses, it loses at once. Of generation 1, as what is compiled. NULL: not now. */
static struct rules *rules_between(const struct rules *from, const struct rules *wanted)
{
    struct err e = ERR_INIT;
    bool loses = rules_gain(wanted, from, NULL);
    struct rules *rules = handover_between(from, loses ? wanted : NULL, 1, &e);
    return rules == NULL && e.code == -E2BIG ? handover_between(from, NULL, 1, &e) : rules;
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

/* What is published until others have given up what the spec adds. 0 or -ENOMEM. */
static int choose_meanwhile(struct publishing *p, const struct rules *from)
{
    struct rules *rules = rules_between(from, p->next);
    int rc = rules == NULL ? -ENOMEM : choose_next(p, rules);
    shard_count_rules(p->s, rules);
    p->facts.right_meanwhile = rc == 0 && holds_next(p);
    rules_unref(rules);
    return rc;
}

static int ask_others(struct publishing *p)
{
    struct rules *from = published_rules(p->s, p->map);
    int rc = shard_wait(p->s, p->config, from, p->next, &p->why);
    p->facts.handover = rc > 0 ? PUBLISH_HANDOVER_WAITS : PUBLISH_HANDOVER_DONE;
    p->facts.enforced = from != NULL;
    if (rc > 0) {
        rc = from == NULL ? 0 : choose_meanwhile(p, from);
    }
    rules_unref(from);
    return rc;
}

/* ---- the ConfigMap that is to be written ---- */

/* What was said first stays. 0 or -ENOMEM. */
static int say(struct publishing *p, const char *text)
{
    p->why = p->why != NULL ? p->why : strdup(text);
    return p->why == NULL ? -ENOMEM : 0;
}

/* Whether pods could not read them: then `out` says so. 0 or -ENOMEM. */
static int check_readers(struct publishing *p, enum rules_version version,
                         enum publish_document *out)
{
    struct err e = ERR_INIT;
    struct buf names = BUF_INIT(ERR_MSG_MAX);
    bool first = p->map == NULL || p->map->generation == 0;
    size_t count =
        version == RULES_V1 ? 0 : incompatible_pods(p->pods, p->pod_count, version, first, &names);
    int rc = buf_error(&names);
    *out = count > 0 ? PUBLISH_UNREADABLE : PUBLISH_FITS;
    if (rc == 0 && count > 0) {
        (void)err_set(&e, -EAGAIN,
                      "the rules fit into a ConfigMap as %s only, which these pods do not read: "
                      "%s. Recreate them, so that they get newer sidecars: those of "
                      "--sidecar-image",
                      rules_version_text(version), buf_cstr(&names));
        rc = say(p, e.msg);
    }
    buf_reset(&names);
    return rc;
}

/* Of p->next. 0 or -ENOMEM. */
static int make_body(struct publishing *p, enum publish_document *out)
{
    struct err e = ERR_INIT;
    enum rules_version version = RULES_V1;
    const struct shard *s = p->s;
    const char *uid = p->config != NULL ? p->config->uid
                      : s->uid == NULL  ? p->map->config_uid
                                        : s->uid;
    cJSON_Delete(p->body);
    p->body = NULL;
    p->body = rules_map_make(p->map, p->next, s->controller->options.prefix, uid, &version, &e);
    if (p->body == NULL) {
        *out = PUBLISH_TOO_LARGE;
        return say(p, e.msg);
    }
    int rc = check_readers(p, version, out);
    return rc != 0 || *out != PUBLISH_FITS ? rc
                                           : shard_traffic_add(p->s, p->config, p->map, p->body);
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

/* Nothing is known of any rules that its pods could have had. */
static bool is_first(const struct publishing *p)
{
    const cJSON *status = field_get(p->config->object, "status");
    return p->map == NULL && p->s->generation == 0 &&
           !cJSON_IsNumber(field_get(status, "generation"));
}

/* A labeller that begins anew, with another leader, lists all again. What was published once is not
 * taken back, and later edits do not wait, for objects that exist have their labels by then. */
static int look_at_labels(struct publishing *p)
{
    struct labelling labels;
    if (!p->s->controller->options.wait_for_labels || !is_first(p)) {
        return 0;
    }
    shard_look_labelling(p->s, p->config, &labels);
    p->facts.labels_missing = labels.state == LABELLING_UNDER_WAY;
    return p->facts.labels_missing ? say(p, labels.text) : 0;
}

static bool has_unasked(const struct publishing *p)
{
    size_t i = 0;
    while (i < p->pod_count && (p->pods[i].probe == NULL || p->pods[i].probe->asked)) {
        i++;
    }
    return i < p->pod_count;
}

/* 0 or -ENOMEM. */
static int look_at_valid(struct publishing *p)
{
    struct publish_facts *f = &p->facts;
    if (f->map == PUBLISH_MAP_FOREIGN) {
        p->why = shard_name_taken(p->map);
        return p->why == NULL ? -ENOMEM : 0;
    }
    f->policies_unknown = p->map == NULL && shard_waits_for_policies(p->s);
    f->unasked = p->map == NULL && has_unasked(p);
    int rc = look_at_labels(p);
    rc = rc == 0 ? choose_next(p, p->s->compiled) : rc;
    f->right = rc == 0 && holds_next(p);
    return rc;
}

/* 0 or -ENOMEM. */
static int look_at_map(struct publishing *p)
{
    struct shard *s = p->s;
    struct publish_facts *f = &p->facts;
    p->map = shard_map(s);
    p->pods = controller_own_pods(s->controller, s->key, &p->pod_count);
    if (p->pods == NULL) {
        return -ENOMEM;
    }
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
    return 0;
}

/* 0 or -ENOMEM. */
static int gather(struct publishing *p)
{
    struct shard *s = p->s;
    struct publish_facts *f = &p->facts;
    p->config = shard_config(s);
    if (p->config == NULL) {
        f->spec = PUBLISH_SPEC_GONE;
        return look_at_map(p);
    }
    if (waits_for_namespaces(s, p->config)) {
        f->spec = PUBLISH_SPEC_NAMESPACES;
        controller_look_after(s, NAMESPACES_MS);
        return 0;
    }
    if (shard_compile(s, p->config) != 0) {
        return -ENOMEM;
    }
    shard_give_up_rules(s, p->config);
    if (s->compiled != NULL) {
        shard_cache_share_rules(s->controller->options.cache, s->key, s->compiled);
    }
    f->spec = is_ending(p->config)       ? PUBLISH_SPEC_ENDING
              : shard_refusal(s) != NULL ? PUBLISH_SPEC_REFUSED
                                         : PUBLISH_SPEC_VALID;
    int rc = look_at_map(p);
    return rc != 0 || f->spec != PUBLISH_SPEC_VALID || f->unread ? rc : look_at_valid(p);
}

/* What the plan asks for. 0 or -ENOMEM. */
static int find_out(struct publishing *p, enum publish_action what)
{
    if (what == PUBLISH_ASK_OTHERS) {
        return ask_others(p);
    }
    if (what == PUBLISH_MAKE) {
        return make_body(p, &p->facts.wanted);
    }
    int rc = choose_next(p, p->s->own);
    return rc == 0 ? make_body(p, &p->facts.own) : rc;
}

/* ---- what is done ---- */

static void confirm(struct shard *s, const struct rules_map *map, enum publish_reason reason)
{
    uint64_t generation = map->generation;
    if (reason == PUBLISH_OK) {
        shard_keep_rules(&s->own, map->rules != NULL ? map->rules : s->compiled);
        s->changed_at = s->placed ? s->changed_at : 0; /* it stood there already */
    }
    shard_tell_pods(s, generation, false);
    shard_report(s);
}

static void write_next(struct publishing *p)
{
    struct shard *s = p->s;
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
    int rc = gather(&p);
    struct publish_plan plan = publish_plan(&p.facts);
    while (rc == 0 && plan.action <= PUBLISH_MAKE_OWN) {
        rc = find_out(&p, plan.action);
        plan = publish_plan(&p.facts);
    }
    if (rc == 0) {
        carry_out(&p, plan);
    } else {
        shard_done(s, WORK_RETRY, 0);
    }
    free(p.why);
    free(p.pods);
    cJSON_Delete(p.body);
    rules_unref(p.next);
}
