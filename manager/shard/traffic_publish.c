/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step of a shard between its rules and its status: the policies that may be for its pods are
 * compiled, and the document is put into its ConfigMap, beside the rules and whatever these wait
 * for. When rules are written at that moment, it goes with them.
 *
 *     nothing is known of the policies, or there is no ConfigMap   as it is
 *     what stands there is right                                   pods are told
 *     a policy is invalid, and what was published of it is needed  the ConfigMap is read, then:
 *     else                                                         the key alone is written
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "ownership/generation.h"
#include "policy/pod_traffic.h"
#include "shard/controller_internal.h"
#include "json/field.h"

/* ---- what there is to compile ---- */

static void drop_policies(struct shard_traffic *t)
{
    for (size_t i = 0; i < t->count; i++) {
        policy_unref(t->policies[i].policy);
    }
    free(t->policies);
    t->policies = NULL;
    t->count = 0;
}

void shard_traffic_deinit(struct shard_traffic *t)
{
    drop_policies(t);
    traffic_unref(t->good);
}

/* For whose pods it is: of a config that is gone its ConfigMap tells, as long as pods mount it.
 * `out` is for that. NULL: for nobody's. */
static const struct shard_cache_config *subject(struct shard *s, struct shard_cache_config *out)
{
    const struct shard_cache_config *config = shard_config(s);
    const struct rules_map *map = shard_map(s);
    if (config != NULL || map == NULL) {
        return config;
    }
    *out = (struct shard_cache_config){
        .key = s->key, .ns = map->ns, .name = map->shard, .uid = map->config_uid};
    return out;
}

/* Whether all that may be for its pods is known. */
static bool is_known(const struct shard *s, const struct shard_cache_config *config)
{
    const struct policy_cache *p = s->controller->policies;
    return p != NULL && config != NULL && !config->root && policy_cache_knows(p, config->ns);
}

static bool is_fresh(const struct shard *s, const struct shard_cache_config *config,
                     const struct rules_map *map, size_t room)
{
    const struct shard_traffic *t = &s->traffic;
    bool fits = room == t->room || (!t->squeezed && t->size <= room);
    bool kept = !t->kept || (map != NULL && map->traffic.text_hash == t->kept_hash);
    return t->compiled && fits && kept && t->config == shard_spec_hash(config) &&
           t->revision == policy_cache_revision(s->controller->policies, config->ns);
}

/* In t->policies, with no outcome yet. */
static void collect(struct shard *s, const struct shard_cache_config *config)
{
    const struct policy_cache *cache = s->controller->policies;
    const struct policy_object *o = NULL;
    size_t count = 0;
    while ((o = policy_cache_next_in(cache, config->ns, o)) != NULL) {
        count += traffic_concerns(config->pods, o->policy);
    }
    struct shard_policy *list = xcalloc(count + 1, sizeof *list);
    drop_policies(&s->traffic);
    s->traffic.policies = list;
    while ((o = policy_cache_next_in(cache, config->ns, o)) != NULL) {
        if (traffic_concerns(config->pods, o->policy)) {
            list[s->traffic.count++].policy = policy_ref(o->policy);
        }
    }
}

/* Appends the document of that generation; nothing if there is to be none. False: it cannot be
 * made, which is logged. */
static bool compile(struct shard *s, const struct shard_cache_config *config, uint64_t generation,
                    const struct traffic *published, size_t room, struct buf *out)
{
    struct shard_traffic *t = &s->traffic;
    struct err e = ERR_INIT;
    const struct policy **list = xcalloc(t->count + 1, sizeof *list);
    enum traffic_outcome *outcomes = xcalloc(t->count + 1, sizeof *outcomes);
    struct traffic_compile_result r = {.outcomes = outcomes};
    struct traffic_source source = {.ns = config->ns,
                                    .shard = config->name,
                                    .generation = generation,
                                    .list = list,
                                    .count = t->count,
                                    .published = published,
                                    .room = room};
    for (size_t i = 0; i < t->count; i++) {
        list[i] = t->policies[i].policy;
    }
    bool made = xrc(traffic_compile(&source, out, &r, &e)) == 0;
    for (size_t i = 0; made && i < t->count; i++) {
        t->policies[i].outcome = outcomes[i];
        t->squeezed = t->squeezed || outcomes[i] == TRAFFIC_TOO_LARGE;
        t->kept = t->kept || outcomes[i] == TRAFFIC_KEPT;
    }
    if (made) {
        (void)snprintf(t->checksum, sizeof t->checksum, "%s", r.checksum);
    } else {
        log_error("cannot make a traffic document", log_str("shard", s->key),
                  log_str("error", e.msg));
    }
    free(list);
    free(outcomes);
    return made;
}

/* Whether a policy is invalid, so that it matters what was published. */
static bool has_invalid(const struct shard *s, const struct shard_cache_config *config)
{
    const struct policy_cache *cache = s->controller->policies;
    const struct policy_object *o = NULL;
    while ((o = policy_cache_next_in(cache, config->ns, o)) != NULL) {
        if (!policy_valid(o->policy)) {
            return true;
        }
    }
    return false;
}

/* What was read of the ConfigMap for the sake of what it holds. */
struct reading {
    bool done;
    struct traffic *published; /* NULL: nothing that can be read */
};

/* What was published of an invalid policy is good also when somebody changes the key. */
static struct reading remembered(const struct shard_traffic *t, const struct rules_map *map)
{
    bool ours = map == NULL || map->traffic.text_hash == t->good_hash;
    return (struct reading){.done = t->good != NULL && !ours, .published = ours ? NULL : t->good};
}

static void remember_good(struct shard_traffic *t, const struct rules_map *map,
                          const struct reading *read)
{
    if (t->kept && read->published == t->good) {
        return;
    }
    struct traffic *good = t->kept ? traffic_ref(read->published) : NULL;
    traffic_unref(t->good);
    t->good = good;
    t->good_hash = map == NULL ? 0 : map->traffic.text_hash;
}

/* Digits of any generation: how much longer a text may become by it. */
enum { DIGITS = 20 };

/* As compile. */
static bool refresh(struct shard *s, const struct shard_cache_config *config,
                    const struct rules_map *map, const struct reading *read, size_t room)
{
    struct shard_traffic *t = &s->traffic;
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    collect(s, config);
    t->placed = false; /* until it is written, or was found to stand there */
    t->squeezed = false;
    t->kept = false;
    t->compiled = compile(s, config, 1, read->published, room, &text);
    t->size = text.len + DIGITS;
    buf_reset(&text);
    if (t->compiled) {
        t->revision = policy_cache_revision(s->controller->policies, config->ns);
        t->config = shard_spec_hash(config);
        t->room = room;
        t->kept_hash = map == NULL ? 0 : map->traffic.text_hash;
        remember_good(t, map, read);
    }
    return t->compiled;
}

/* ---- which generation ---- */

static void ask_pods(struct generation *g, const struct shard *s)
{
    size_t count = 0;
    struct ownership_pod *pods = controller_own_pods(s->controller, s->key, &count);
    for (size_t i = 0; i < count; i++) {
        const struct probe_result *r = pods[i].probe;
        generation_heard(g, pods[i].pod->traffic);
        if (r != NULL && r->traffic != NULL && pod_traffic_is_of(r->traffic, s->key)) {
            generation_known(g, r->traffic->generation, r->traffic->checksum, s->traffic.checksum);
        }
    }
    free(pods);
}

static uint64_t choose_generation(struct shard *s, const struct rules_map *map)
{
    struct shard_traffic *t = &s->traffic;
    struct generation g = {.own = t->generation};
    generation_known(&g, t->generation, t->generation_checksum, t->checksum);
    if (map != NULL) {
        t->heard = map->traffic.generation > t->heard ? map->traffic.generation : t->heard;
        generation_known(&g, map->traffic.generation, map->traffic.checksum, t->checksum);
    }
    generation_seen(&g, t->heard);
    ask_pods(&g, s);
    return generation_next(&g);
}

static bool is_right(struct shard *s, const struct rules_map *map)
{
    const struct shard_traffic *t = &s->traffic;
    if (t->checksum[0] == '\0' || map == NULL) {
        return t->checksum[0] == '\0' && (map == NULL || !map->traffic.present);
    }
    return map->traffic.intact && strcmp(map->traffic.checksum, t->checksum) == 0 &&
           map->traffic.generation == choose_generation(s, map);
}

/* ---- what is to be done ---- */

enum need {
    NEED_NOTHING,
    NEED_WRITE,
    NEED_READ,  /* of what is published, before */
    NEED_RETRY, /* it cannot be made */
};

static enum need judge(struct shard *s, const struct shard_cache_config *config,
                       const struct rules_map *map, const struct reading *read, size_t room)
{
    bool needs = !read->done && map != NULL && map->traffic.present && has_invalid(s, config);
    if (!is_fresh(s, config, map, room)) {
        if (needs) {
            return NEED_READ;
        }
        if (!refresh(s, config, map, read, room)) {
            return NEED_RETRY;
        }
    }
    if (is_right(s, map)) {
        return NEED_NOTHING;
    }
    return needs && s->traffic.kept ? NEED_READ : NEED_WRITE;
}

/* The text that is to be written; empty: none. As compile. */
static bool make_text(struct shard *s, const struct shard_cache_config *config,
                      const struct rules_map *map, const struct reading *read, struct buf *out)
{
    struct shard_traffic *t = &s->traffic;
    uint64_t generation = t->checksum[0] == '\0' ? 1 : choose_generation(s, map);
    bool made = compile(s, config, generation, read->published, t->room, out);
    if (made && out->len > 0) {
        t->sent_hash = keyed_hash(0, buf_slice(out));
    }
    return made;
}

static const char *text_of(struct buf *text)
{
    return text->len == 0 ? NULL : xptr(buf_cstr(text));
}

bool shard_traffic_add(struct shard *s, const struct shard_cache_config *config,
                       const struct rules_map *map, cJSON *body)
{
    const struct reading nothing = {.done = false};
    size_t room = rules_map_room_in(map, body);
    bool stays = map == NULL || !map->traffic.present || map->traffic.size <= room;
    if (!is_known(s, config)) {
        if (!stays) {
            rules_map_add_traffic(body, map, NULL);
        }
        return true;
    }
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    enum need v = judge(s, config, map, &nothing, room);
    bool made = v != NEED_RETRY;
    if (v == NEED_WRITE) {
        made = make_text(s, config, map, &nothing, &text);
        if (made) {
            rules_map_add_traffic(body, map, text_of(&text));
        }
    } else if (v == NEED_READ && !stays) {
        rules_map_add_traffic(body, map, NULL); /* rules have the first claim */
    }
    buf_reset(&text);
    return made;
}

/* ---- telling pods ---- */

static bool is_for(const struct shard *s, const struct pod *p)
{
    for (size_t i = 0; i < s->traffic.count; i++) {
        const struct shard_policy *one = &s->traffic.policies[i];
        const struct selector *pods = policy_selector(one->policy);
        if (traffic_outcome_in(one->outcome) && pods != NULL && pod_selected(p, pods)) {
            return true;
        }
    }
    return false;
}

/* Whether it follows rules of another document, by what it says. */
static bool is_behind(const struct shard *s, const struct probe_result *r)
{
    const struct pod_traffic *t = r == NULL ? NULL : r->traffic;
    return t != NULL && (t->count > 0 || t->has_faults) &&
           !pod_traffic_enforces(t, s->traffic.checksum);
}

static uint64_t generation_in(const struct rules_map *map)
{
    return map == NULL ? 0 : map->traffic.generation;
}

bool shard_traffic_due(struct shard *s, const struct pod *p, uint64_t *generation)
{
    const struct rules_map *map = s->traffic.placed ? shard_map(s) : NULL;
    if (map == NULL) {
        return false;
    }
    *generation = generation_in(map);
    return p->traffic != *generation &&
           (is_for(s, p) || is_behind(s, prober_result(s->controller->prober, p->key)));
}

static void tell_pods(struct shard *s)
{
    struct controller *c = s->controller;
    size_t count = 0;
    uint64_t generation = 0;
    struct ownership_pod *pods = controller_own_pods(c, s->key, &count);
    for (size_t i = 0; i < count; i++) {
        prober_expect_traffic(c->prober, pods[i].pod->key, s->traffic.checksum);
        if (shard_traffic_due(s, pods[i].pod, &generation)) {
            pod_notifier_add(c->pod_notifier, pods[i].pod);
        }
    }
    free(pods);
}

/* Those whose status says whether it stands there. */
static void tell_policies(struct shard *s)
{
    struct shard_traffic *t = &s->traffic;
    char text[256];
    int len = snprintf(text, sizeof text, "%d %" PRIu64 " %s %s", t->placed, t->revision,
                       t->checksum, t->trouble_reason == NULL ? "" : t->trouble_reason);
    uint64_t now = keyed_hash(0, slice_of(text, (size_t)len));
    if (now != t->told) {
        t->told = now;
        controller_look_policies(s->controller, s->key);
    }
}

static void note_placed(struct shard *s)
{
    s->traffic.placed = true;
    s->traffic.trouble_reason = NULL;
    s->traffic.retry_after = 0;
    tell_pods(s);
    tell_policies(s);
}

/* `why` NULL: it is to be told before long, or nobody knows. */
static void note_missing(struct shard *s, const char *reason, const char *why)
{
    s->traffic.placed = false;
    s->traffic.trouble_reason = reason;
    if (why != NULL) {
        (void)err_set(&s->traffic.trouble, -EIO, "%s", why);
    }
    tell_policies(s);
}

void shard_traffic_written(struct shard *s, const struct rules_map *map)
{
    struct shard_traffic *t = &s->traffic;
    if (t->kept && t->sent_hash == map->traffic.text_hash) {
        t->kept_hash = t->sent_hash; /* which comes to the same */
        t->good_hash = t->sent_hash;
    }
    if (map->traffic.generation != 0 && map->traffic.text_hash == t->sent_hash) {
        t->generation = map->traffic.generation;
        (void)snprintf(t->generation_checksum, sizeof t->generation_checksum, "%s",
                       map->traffic.checksum);
    }
}

/* ---- writing ---- */

static void on_failure(struct shard *s, const struct api_error *error)
{
    if (error->code == 409 || error->code == 404 || error->code == 0) {
        shard_done(s, WORK_RETRY, error->retry_after);
        return;
    }
    log_at(error->level, "cannot publish traffic policies", log_str("shard", s->key),
           log_str("error", error->msg));
    note_missing(s, "Refused", error->msg);
    s->traffic.retry_after = error->retry_after;
    shard_report_status(s);
}

/* What was written is not judged anew at once: somebody may change it on the way. */
static void finish(struct shard *s)
{
    const struct reading nothing = {.done = false};
    struct shard_cache_config gone;
    const struct shard_cache_config *config = subject(s, &gone);
    const struct rules_map *map = shard_map(s);
    bool known = map != NULL && is_known(s, config);
    if (!known || judge(s, config, map, &nothing, rules_map_room(map)) != NEED_NOTHING) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    note_placed(s);
    shard_report_status(s);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    if (object == NULL) {
        on_failure(s, error);
        return;
    }
    struct rules_map *map =
        rules_map_look(object, s->controller->options.prefix, shard_map(s), true);
    if (map == NULL) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    log_info("published traffic policies", log_str("shard", s->key),
             log_num("generation", (int64_t)map->traffic.generation),
             log_str("checksum", map->traffic.checksum));
    shard_traffic_written(s, map);
    shard_store_map(s, map);
    finish(s);
}

static void send_document(struct shard *s, const struct rules_map *map, const char *text)
{
    cJSON *body = rules_map_make_traffic(map, text);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
    };
    shard_note_base(s);
    shard_request_map(s, q, s->controller->options.counts->writes[CONTROLLER_TRAFFIC], on_written);
    cJSON_Delete(body);
}

static void write_document(struct shard *s, const struct shard_cache_config *config,
                           const struct rules_map *map, const struct reading *read)
{
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    if (make_text(s, config, map, read, &text)) {
        shard_tell_traffic_changed(s, shard_config(s), map);
        send_document(s, map, text_of(&text));
    } else {
        shard_done(s, WORK_RETRY, 0);
    }
    buf_reset(&text);
}

/* ---- reading what is published ---- */

static void go_on(struct shard *s, const struct reading *read);

static void on_read(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    const struct rules_map *map = shard_map(s);
    if (object == NULL || map == NULL ||
        strcmp(field_meta(object, "resourceVersion"), map->version) != 0) {
        shard_done(s, WORK_RETRY, error == NULL ? 0 : error->retry_after);
        return;
    }
    const char *text = field_text(field_get(object, "data"), RULES_MAP_TRAFFIC);
    struct err e = ERR_INIT;
    struct reading read = {.done = true, .published = traffic_parse(text, strlen(text), &e)};
    xerr(&e);
    go_on(s, &read);
    traffic_unref(read.published);
}

/* ---- the step ---- */

/* Why it cannot be written; NULL: it can be. */
static const char *obstacle(const struct shard *s, const struct shard_cache_config *config,
                            const struct rules_map *map, const char **why)
{
    if (!is_known(s, config)) {
        *why = "the policies of the namespace are not known";
        return "Pending";
    }
    if (map == NULL || map->unread) {
        *why = "the ShardingConfig has no rules yet, without which its pods do not start";
        return "NoRules";
    }
    if (!shard_owns_map(s, config, map)) {
        *why = "its ConfigMap is not managed by this manager";
        return "NameTaken";
    }
    return NULL;
}

static void go_on(struct shard *s, const struct reading *read)
{
    struct shard_cache_config gone;
    const struct shard_cache_config *config = subject(s, &gone);
    const struct rules_map *map = shard_map(s);
    enum need v = judge(s, config, map, read, rules_map_room(map));
    if (v == NEED_NOTHING) {
        note_placed(s);
        shard_report_status(s);
    } else if (v == NEED_WRITE) {
        write_document(s, config, map, read);
    } else if (v == NEED_READ) {
        const struct object_request_options q = {.verb = OBJECT_REQUEST_GET};
        shard_request_map(s, q, NULL, on_read);
    } else {
        shard_done(s, WORK_RETRY, 0);
    }
}

void shard_publish_traffic(struct shard *s)
{
    struct shard_cache_config gone;
    const struct shard_cache_config *config = subject(s, &gone);
    const struct rules_map *map = shard_map(s);
    const char *why = NULL;
    const char *reason = obstacle(s, config, map, &why);
    if (reason == NULL) {
        const struct reading read = remembered(&s->traffic, map);
        go_on(s, &read);
        return;
    }
    if (s->controller->policies != NULL) {
        note_missing(s, reason, why);
    }
    shard_report_status(s);
}

bool shard_waits_for_policies(const struct shard *s)
{
    const struct policy_cache *p = s->controller->policies;
    uint64_t ms = p == NULL ? 0 : policy_cache_waits_ms(p);
    if (ms > 0) {
        controller_look_after(s, ms);
    }
    return ms > 0;
}
