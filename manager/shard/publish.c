/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first step of a shard: its spec is compiled, and the rules put into the ConfigMap.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "compile/rules_gain.h"
#include "inject/inject_options.h"
#include "kube/name.h"
#include "object/names.h"
#include "ownership/generation.h"
#include "shard/controller_internal.h"
#include "json/field.h"

enum {
    MS = 1000,
    NAMESPACES_MS = 1000, /* until it is seen what keeps them */
};

/* ---- compiling ---- */

/* Of generation 1, for which one they get is known later, by their checksum. */
static struct rules *compile_spec(const struct shard *s, const struct shard_cache_config *config,
                                  struct err *e)
{
    struct compile_options o = {.namespace = config->ns,
                                .generation = 1,
                                .labels = s->controller->options.labels,
                                .namespaces = namespaces_set(s->controller->options.namespaces)};
    struct rules *known = shard_cache_rules(s->controller->options.cache, config, &o, e);
    return known == NULL ? NULL : rules_ref(known);
}

static double spec_version(const struct shard_cache_config *config)
{
    const cJSON *n = field_get(field_get(config->object, "metadata"), "generation");
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

bool shard_has_looked(const struct shard *s, const struct shard_cache_config *config)
{
    double version = spec_version(config);
    return s->uid != NULL && strcmp(s->uid, config->uid) == 0 && version >= s->spec_version &&
           version <= s->spec_version;
}

static bool is_compiled(const struct shard *s, const struct shard_cache_config *config)
{
    bool done = s->compiled != NULL || s->refusal.code != 0;
    return done && config->over == shard_is_given_up(s) && shard_has_looked(s, config) &&
           spec_version(config) > 0 && s->round == config->round;
}

/* The config is another one of the same name: what was known is of no use. */
static int reset_if_replaced(struct shard *s, const struct shard_cache_config *config)
{
    if (s->uid != NULL && strcmp(s->uid, config->uid) == 0) {
        return 0;
    }
    char *uid = strdup(config->uid);
    if (uid == NULL) {
        return -ENOMEM;
    }
    free(s->uid);
    s->uid = uid;
    s->checksum[0] = '\0';
    s->spec_version = 0;
    return 0;
}

/* 0, also when the spec is invalid: shard_refusal tells; or -ENOMEM. */
static int update_spec(struct shard *s, const struct shard_cache_config *config)
{
    struct err e = ERR_INIT;
    uint64_t noticed = s->noticed_at;
    s->noticed_at = 0;
    if (is_compiled(s, config)) {
        return 0;
    }
    struct rules *rules = reset_if_replaced(s, config) != 0 ? NULL : compile_spec(s, config, &e);
    if (rules == NULL && (e.code == -ENOMEM || e.code == 0)) {
        return -ENOMEM;
    }
    const char *checksum = rules == NULL ? "" : rules_checksum(rules);
    if (strcmp(checksum, s->checksum) != 0) {
        s->changed_at = rules == NULL ? 0 : noticed;
        s->placed = false;
    }
    (void)snprintf(s->checksum, sizeof s->checksum, "%s", checksum);
    operator_coverage_note(s->controller->operator_coverage, s->compiled);
    operator_coverage_note(s->controller->operator_coverage, rules);
    rules_unref(s->compiled);
    s->compiled = rules;
    s->refusal = e;
    s->spec_version = spec_version(config);
    s->round = config->round;
    s->controller->options.counts->compiled += rules != NULL;
    s->controller->options.counts->refused += rules == NULL;
    return 0;
}

static void count_rules(const struct shard *s, struct rules *rules)
{
    char ns[NAME_LABEL_MAX + 1];
    (void)snprintf(ns, sizeof ns, "%.*s", (int)strcspn(s->key, "/"), s->key);
    shard_cache_count_rules(s->controller->options.cache, ns, rules);
}

/* Of a shard that was given up meanwhile none are kept. */
static void keep_rules(const struct shard *s, struct rules_map *map)
{
    const struct shard_cache_config *config = shard_config(s);
    if (config != NULL && config->over) {
        rules_map_give_up(map);
    }
    count_rules(s, map->rules);
}

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

static int ask_pods(struct generation *g, const struct shard *s, const char *checksum)
{
    struct controller *c = s->controller;
    size_t count = 0;
    const struct pod **pods = controller_own_pods(c, s->key, &count);
    if (pods == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct probe_result *r = prober_result(c->prober, pods[i]->key);
        generation_heard(g, pods[i]->generation);
        if (r != NULL && strcmp(r->shard, s->key) == 0) {
            generation_known(g, r->generation, r->checksum, checksum);
        }
    }
    free(pods);
    return 0;
}

/* Without a ConfigMap only pods know which generation there was, and the last leader may have died
 * before it could tell them by an annotation: they are asked first, and their answers bring the
 * shard again. */
static bool must_ask_first(const struct shard *s, const struct rules_map *map)
{
    struct controller *c = s->controller;
    size_t count = 0;
    const struct pod **pods = map != NULL ? NULL : controller_own_pods(c, s->key, &count);
    bool must = false;
    for (size_t i = 0; pods != NULL && i < count && !must; i++) {
        const struct probe_result *r = prober_result(c->prober, pods[i]->key);
        must = r != NULL && !r->asked;
    }
    free(pods);
    return must;
}

/* What rules are given when they are published. */
struct number {
    uint64_t generation; /* 0: out of memory */
    uint64_t voids;
};

/* Of rules with this checksum. */
static struct number choose_number(const struct shard *s, const struct shard_cache_config *config,
                                   const struct rules_map *map, const char *checksum)
{
    struct generation g = {.own = 0};
    ask_managers(&g, s, config, checksum);
    if (map != NULL) {
        generation_known(&g, map->generation, map->checksum, checksum);
    }
    generation_seen(&g, s->heard);
    if (ask_pods(&g, s, checksum) != 0) {
        return (struct number){.generation = 0};
    }
    return (struct number){.generation = generation_next(&g),
                           .voids = generation_voids(&g, map == NULL ? 0 : map->voids)};
}

static bool is_right(const struct rules_map *map, const struct shard_cache_config *config,
                     struct number n, const char *checksum)
{
    return map != NULL && map->voids == n.voids &&
           rules_map_right(map, config->uid, n.generation, checksum);
}

/* ---- writing ---- */

static void set_trouble(struct shard *s, enum shard_trouble trouble, bool retry, const char *msg)
{
    s->trouble = trouble;
    s->retry = retry;
    s->retry_after = 0;
    (void)err_set(&s->trouble_text, -EIO, "%s", msg);
}

static void clear_trouble(struct shard *s)
{
    s->trouble = SHARD_TROUBLE_NONE;
    s->retry = false;
    s->retry_after = 0;
}

static void not_ours(struct shard *s, const struct rules_map *map)
{
    struct err e = ERR_INIT;
    (void)err_set(&e, -EEXIST,
                  "ConfigMap %s is not managed by this manager%s and was left unchanged: delete or "
                  "rename it, or rename the ShardingConfig",
                  map->name, map->foreign_owner ? ", who controls it," : "");
    set_trouble(s, SHARD_NAME_TAKEN, true, e.msg);
}

void shard_store_map(struct shard *s, struct rules_map *map)
{
    const struct rules_map *seen = shard_cache_find_map(s->controller->options.cache, s->key);
    if (s->base == NULL || strcmp(seen == NULL ? "" : seen->version, s->base) != 0) {
        rules_map_free(map); /* it has moved on already */
        return;
    }
    rules_map_free(s->written);
    s->written = map;
    s->written_at = controller_now(s->controller);
    controller_look_later(s);
}

int shard_note_base(struct shard *s)
{
    const struct rules_map *seen = shard_cache_find_map(s->controller->options.cache, s->key);
    rules_map_free(s->written);
    s->written = NULL;
    free(s->base);
    s->base = strdup(seen == NULL ? "" : seen->version);
    return s->base == NULL ? -ENOMEM : 0;
}

/* `fresh`: it is another generation than before. Pods that have the sidecars of the shard go on
 * mounting its ConfigMap when its selector has changed, until they are gone. */
static void tell_pods(struct shard *s, uint64_t generation, bool fresh)
{
    struct controller *c = s->controller;
    size_t count = 0;
    const struct pod **pods = controller_own_pods(c, s->key, &count);
    for (size_t i = 0; pods != NULL && i < count; i++) {
        if (fresh) {
            prober_expect(c->prober, pods[i]->key, generation);
        }
        if (!generation_was_told(pods[i]->generation, generation)) {
            pod_notifier_add(c->pod_notifier, pods[i]);
        }
    }
    free(pods);
}

static void on_success(struct shard *s, const struct rules_map *map)
{
    struct controller *c = s->controller;
    const struct shard_cache_config *config = shard_config(s);
    bool whole = strcmp(map->checksum, s->checksum) == 0; /* nothing that it gains waits */
    if (whole) {
        clear_trouble(s);
    }
    if (map->rules != NULL) {
        shard_note_own(s, map->rules);
    }
    s->generation = map->generation;
    (void)snprintf(s->generation_checksum, sizeof s->generation_checksum, "%s", map->checksum);
    if (s->changed_at != 0 && !s->placed && whole) {
        controller_observe(&c->options.counts->published, controller_now(c) - s->changed_at);
        s->placed = true;
    }
    log_info("published", log_str("shard", s->key), log_num("generation", (int64_t)map->generation),
             log_str("checksum", map->checksum));
    if (config != NULL) {
        struct event_object about = event_object_of(config->object);
        event_record(c->options.events, &about, EVENT_NORMAL, "Published",
                     "Published generation %" PRIu64 " to ConfigMap %s.", map->generation,
                     map->name);
        if (whole && s->late) {
            shard_tell_late(s, config, map->generation);
        }
        tell_pods(s, map->generation, true);
    }
    if (whole) {
        shard_wait_end(s);
    }
}

static void on_failure(struct shard *s, const struct api_error *error)
{
    bool conflict = error->code == 409 || error->code == 404;
    if (error->exists) {
        shard_read_map(s);
        return;
    }
    if (conflict || error->code == 0) {
        log_info("publishing failed, will retry", log_str("shard", s->key),
                 log_str("error", error->msg));
        shard_done(s, WORK_RETRY, error->retry_after);
        return;
    }
    log_at(error->level, "cannot publish rules", log_str("shard", s->key),
           log_str("error", error->msg));
    set_trouble(s, SHARD_REFUSED, true, error->msg);
    s->retry_after = error->retry_after;
    shard_report(s);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    struct rules_map *map = NULL;
    if (object == NULL) {
        on_failure(s, error);
        return;
    }
    if (rules_map_new(object, s->controller->options.prefix, &map) != 0 || map == NULL) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    if (s->sent != NULL) {
        rules_map_share(map, s->sent);
    }
    keep_rules(s, map);
    shard_traffic_written(s, map);
    on_success(s, map);
    shard_store_map(s, map);
    shard_report(s);
}

/* With what is known now. */
static void begin_anew(struct shard *s)
{
    if (shard_config(s) == NULL) {
        shard_clean_up(s);
    } else {
        shard_publish(s);
    }
}

/* One that the cache does not show, for it has not our label, or not yet; or has not read. */
static void on_looked(void *data, const cJSON *object, const struct api_error *error)
{
    struct shard *s = data;
    struct rules_map *map = NULL;
    if (object == NULL) {
        shard_done(s, WORK_RETRY, error->retry_after);
        return;
    }
    if (rules_map_new(object, s->controller->options.prefix, &map) != 0 || map == NULL) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    shard_hear(s, map);
    keep_rules(s, map);
    if (shard_cache_learn_map(s->controller->options.cache, map)) {
        controller_wake(s->controller, s->key);
        begin_anew(s);
        return;
    }
    if (!shard_owns_map(s, shard_config(s), map)) {
        not_ours(s, map);
        rules_map_free(map);
        shard_report(s);
        return;
    }
    shard_store_map(s, map);
    if (s->written == NULL) {
        shard_done(s, WORK_RETRY, 0); /* the cache has it by now */
    } else {
        begin_anew(s);
    }
}

void shard_read_map(struct shard *s)
{
    const char *shard = strchr(s->key, '/') + 1;
    char *ns = strndup(s->key, (size_t)(shard - 1 - s->key));
    char *path = ns == NULL ? NULL : controller_path("/api/v1", ns, "configmaps");
    char *name = rules_map_name(shard);
    struct object_request_options q = {.verb = OBJECT_REQUEST_GET, .path = path, .name = name};
    if (name == NULL || shard_note_base(s) != 0) {
        shard_done(s, WORK_RETRY, 0);
    } else {
        reconcile_write(&s->run, &q, NULL, on_looked);
    }
    free(ns);
    free(path);
    free(name);
}

static void send_map(struct shard *s, const struct rules_map *map, const char *ns,
                     const cJSON *body)
{
    char *path = controller_path("/api/v1", ns, "configmaps");
    char *name = map == NULL ? NULL : strdup(map->name);
    struct object_request_options q = {
        .verb = map == NULL ? OBJECT_REQUEST_CREATE : OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = name,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
    };
    if ((map != NULL && name == NULL) || shard_note_base(s) != 0) {
        shard_done(s, WORK_RETRY, 0);
    } else {
        reconcile_write(&s->run, &q, s->controller->options.counts->writes[CONTROLLER_CONFIGMAP],
                        on_written);
    }
    free(path);
    free(name);
}

/* 1: there are pods that could not read them, `e` says which; 0; -ENOMEM. */
static int check_readers(const struct shard *s, const struct rules_map *map,
                         enum rules_version version, struct err *e)
{
    struct buf names = BUF_INIT(ERR_MSG_MAX);
    int count = version == RULES_V1 ? 0 : shard_find_held_back(s, map, version, &names);
    if (count > 0) {
        (void)err_set(
            e, -EAGAIN,
            "the rules fit into a ConfigMap as %s only, which these pods do not read: %s. "
            "Recreate them, so that they get newer sidecars: those of --sidecar-image",
            rules_version_text(version), buf_cstr(&names));
    }
    buf_reset(&names);
    return count > 0 ? 1 : count;
}

/* 0: on its way. As check_readers and rules_map_make, with `e` set. */
static int try_to_write(struct shard *s, const struct shard_cache_config *config,
                        const struct rules_map *map, struct rules *rules, struct err *e)
{
    cJSON *body = NULL;
    enum rules_version version = RULES_V1;
    const char *uid = config != NULL ? config->uid : s->uid == NULL ? map->config_uid : s->uid;
    int rc = rules_map_make(map, rules, s->controller->options.prefix, uid, &body, &version, e);
    rc = rc == 0 ? check_readers(s, map, version, e) : rc;
    rc = rc == 0 ? shard_traffic_add(s, config, map, body) : rc;
    if (rc == 0) {
        if (map != NULL) {
            shard_tell_tampered(s, config, map);
        }
        shard_note_sent(s, rules);
        handover_note(&s->past, rules); /* they may arrive although the answer does not */
        send_map(s, map, config != NULL ? config->ns : map->ns, body);
    }
    cJSON_Delete(body);
    return rc;
}

bool shard_put_back(struct shard *s, const struct shard_cache_config *config,
                    const struct rules_map *map)
{
    struct err e = ERR_INIT;
    if (map != NULL) {
        shard_tell_tampered(s, config, map);
    }
    if (!shard_is_overwritten(s, map)) {
        return false;
    }
    struct number n = choose_number(s, config, map, rules_checksum(s->own));
    struct rules *next =
        n.generation == 0 ? NULL : rules_with_generation(s->own, n.generation, n.voids);
    bool sent = next != NULL && try_to_write(s, config, map, next, &e) == 0;
    rules_unref(next);
    return sent;
}

/* What a manager wrote last stays. While something else is waited for, that is what is said. */
static void cannot_write(struct shard *s, const struct shard_cache_config *config,
                         const struct rules_map *map, enum shard_trouble trouble, const char *msg)
{
    if (s->trouble != SHARD_WAITING_FOR_HANDOVER) {
        set_trouble(s, trouble, false, msg);
    }
    if (!shard_put_back(s, config, map)) {
        shard_report(s);
    }
}

static void write_map(struct shard *s, const struct shard_cache_config *config,
                      const struct rules_map *map, struct rules *rules)
{
    struct err e = ERR_INIT;
    int rc = try_to_write(s, config, map, rules, &e);
    if (rc > 0) {
        cannot_write(s, config, map, SHARD_HELD_BACK, e.msg);
    } else if (rc == -E2BIG) {
        cannot_write(s, config, map, SHARD_TOO_LARGE, e.msg);
    } else if (rc != 0) {
        shard_done(s, WORK_RETRY, 0);
    }
}

/* ---- while what it gains waits ---- */

/* 0 or -ENOMEM. */
static int set_waiting(struct shard *s)
{
    char limit[64] = "";
    char let_go[NAMES_KEY_SIZE + 128] = "";
    char key[NAMES_KEY_SIZE];
    const struct controller_options *o = &s->controller->options;
    char *text = NULL;
    if (o->handover == HANDOVER_BOUNDED) {
        (void)snprintf(limit, sizeof limit, ", for %" PRIu64 " s at most,", s->waits_ms / MS);
    }
    if (s->waits_pods) {
        (void)snprintf(let_go, sizeof let_go,
                       " A pod that works on nothing for certain need not be waited for: kubectl "
                       "annotate pod POD %s=true",
                       names_key(o->prefix, POD_LET_GO, key));
    }
    if (asprintf(&text, "Publishing what the spec adds waits%s until it is given up by: %s.%s",
                 limit, s->holders, let_go) < 0) {
        return -ENOMEM;
    }
    free(s->waits_text);
    s->waits_text = text;
    set_trouble(s, SHARD_WAITING_FOR_HANDOVER, false, "");
    return 0;
}

/* What it loses, it loses at once. Of generation 1, as what is compiled. NULL: not now. */
static struct rules *rules_between(const struct rules *from, const struct rules *wanted)
{
    struct err e = ERR_INIT;
    bool loses = rules_gain(wanted, from, NULL);
    struct rules *rules = handover_between(from, loses ? wanted : NULL, 1, &e);
    return rules == NULL && e.code == -E2BIG ? handover_between(from, NULL, 1, &e) : rules;
}

static void publish_between(struct shard *s, const struct shard_cache_config *config,
                            const struct rules_map *map, const struct rules *from,
                            const struct rules *wanted)
{
    if (set_waiting(s) != 0) {
        shard_done(s, WORK_RETRY, 0);
        return;
    }
    if (from == NULL) {
        shard_report(s); /* its pods wait for rules */
        return;
    }
    struct rules *rules = rules_between(from, wanted);
    count_rules(s, rules);
    struct number n = {.generation = 0};
    if (rules != NULL) {
        n = choose_number(s, config, map, rules_checksum(rules));
    }
    bool right = n.generation != 0 && is_right(map, config, n, rules_checksum(rules));
    struct rules *next =
        n.generation == 0 || right ? NULL : rules_with_generation(rules, n.generation, n.voids);
    if (right) {
        tell_pods(s, n.generation, false);
        shard_report(s);
    } else if (next == NULL) {
        shard_done(s, WORK_RETRY, 0);
    } else {
        write_map(s, config, map, next);
    }
    rules_unref(next);
    rules_unref(rules);
}

/* ---- the step ---- */

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

static void publish_wanted(struct shard *s, const struct shard_cache_config *config,
                           const struct rules_map *map, struct number n)
{
    struct rules *from = published_rules(s, map);
    struct rules *wanted = rules_with_generation(s->compiled, n.generation, n.voids);
    int waits = wanted == NULL ? -ENOMEM : shard_wait(s, config, from, wanted);
    if (waits < 0) {
        shard_done(s, WORK_RETRY, 0);
    } else if (waits > 0) {
        publish_between(s, config, map, from, wanted);
    } else {
        if (s->trouble == SHARD_WAITING_FOR_HANDOVER) {
            clear_trouble(s);
        }
        write_map(s, config, map, wanted);
    }
    rules_unref(wanted);
    rules_unref(from);
}

static void note_right(struct shard *s, const struct rules_map *map)
{
    uint64_t generation = map->generation;
    shard_note_own(s, map->rules != NULL ? map->rules : s->compiled);
    clear_trouble(s);
    shard_wait_end(s);
    s->changed_at = s->placed ? s->changed_at : 0; /* it stood there already */
    tell_pods(s, generation, false);
    shard_report(s);
}

static bool is_ending(const struct shard_cache_config *config)
{
    return field_get(field_get(config->object, "metadata"), "deletionTimestamp") != NULL;
}

/* They are on their way, and bring it again. With an error they may be for long, which is told. */
static bool waits_for_namespaces(const struct shard *s, const struct shard_cache_config *config)
{
    const struct namespaces *n = s->controller->options.namespaces;
    return config->by_namespaces && n != NULL && !namespaces_synced(n) &&
           namespaces_error(n) == NULL;
}

void shard_publish(struct shard *s)
{
    const struct shard_cache_config *config = shard_config(s);
    if (config != NULL && waits_for_namespaces(s, config)) {
        controller_look_after(s, NAMESPACES_MS);
        shard_done(s, WORK_DONE, 0);
        return;
    }
    if (config == NULL || update_spec(s, config) != 0) {
        shard_done(s, config == NULL ? WORK_DONE : WORK_RETRY, 0);
        return;
    }
    shard_give_up_rules(s, config);
    if (s->compiled != NULL) {
        shard_cache_share_rules(s->controller->options.cache, s->key, s->compiled);
    }
    const struct rules_map *map = shard_map(s);
    struct labelling labels;
    shard_hear(s, map);
    shard_learn_own(s, config, map);
    shard_settle(s, config, map);
    if (map != NULL && map->unread) {
        shard_read_map(s);
    } else if (shard_refusal(s) != NULL || is_ending(config)) {
        clear_trouble(s);
        shard_wait_end(s);
        if (!shard_put_back(s, config, map)) {
            shard_report(s);
        }
    } else if (map != NULL && !shard_owns_map(s, config, map)) {
        not_ours(s, map);
        shard_wait_end(s);
        shard_report(s);
    } else if (must_ask_first(s, map)) {
        shard_done(s, WORK_DONE, 0);
    } else if (map == NULL && shard_waits_for_policies(s) > 0) {
        controller_look_after(s, shard_waits_for_policies(s));
        shard_done(s, WORK_DONE, 0);
    } else if (shard_waits_for_labels(s, config, map, &labels)) {
        set_trouble(s, SHARD_WAITING_FOR_LABELS, false, labels.text);
        shard_report(s);
    } else {
        struct number n = choose_number(s, config, map, s->checksum);
        if (n.generation == 0) {
            shard_done(s, WORK_RETRY, 0);
        } else if (is_right(map, config, n, s->checksum)) {
            note_right(s, map);
        } else {
            publish_wanted(s, config, map, n);
        }
    }
}
