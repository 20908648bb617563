/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people see of a roll: two annotations of the StatefulSet, and Events on it.
 *
 * The annotation names a pod only once something has been done to it: so it tells the next leader
 * which pod that is (roll_facts.first). Nothing in it counts seconds, for each change is a write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "object/names.h"
#include "rolling/roller_internal.h"
#include "json/edit.h"

enum { MS = 1000, MICROSECONDS = 1000, KEY_SIZE = 330 };

/* Of the only one that is to be rolled; a root is none. */
static bool is_no_shard(const struct roll *r)
{
    char key[2 * KEY_SIZE];
    (void)snprintf(key, sizeof key, "%.253s/%.253s", r->set->ns, r->set->scope);
    const struct shard_cache_config *c = shard_cache_find_config(r->roller->options.cache, key);
    return r->set->scope[0] != '\0' && (c == NULL || c->root);
}

bool roll_refusal(const struct roll *r, char why[ROLL_STATUS_MESSAGE_SIZE])
{
    const struct stateful_set *set = r->set;
    const char *text = NULL;
    if (strcmp(set->strategy, "OnDelete") != 0) {
        text = "updateStrategy.type must be OnDelete: the canary has the lowest ordinals, and "
               "RollingUpdate begins with the highest, with a partition or without";
    } else if (set->replicas > ROLLER_PODS_MAX) {
        text = "it has more pods than can be rolled by shard";
    } else if (shard_cache_next_config_in(r->roller->options.cache, set->ns, NULL) == NULL) {
        text = "there is no ShardingConfig in its namespace";
    } else if (is_no_shard(r)) {
        (void)snprintf(why, ROLL_STATUS_MESSAGE_SIZE,
                       "there is no shard \"%.253s\" in its namespace: name one, or `" ROLLING_ALL
                       "`",
                       set->scope);
        return true;
    }
    (void)snprintf(why, ROLL_STATUS_MESSAGE_SIZE, "%s", text == NULL ? "" : text);
    return text != NULL;
}

/* ---- how long it has waited ---- */

static const struct pod *object_of(const struct roll_view *v, const struct roll_step *s)
{
    return s->pod == ROLL_NONE ? NULL : v->objects[s->pod];
}

/* Before this roller looked at it: a pod says since when it is not ready. */
static uint64_t waited_before(const struct roll *r, const struct pod *p)
{
    if (r->fresh || p == NULL || p->ready || p->unready_since == 0) {
        return 0;
    }
    int64_t ms = net_clock_wall(r->roller->clock) / MICROSECONDS - p->unready_since * MS;
    return ms > 0 ? (uint64_t)ms : 0;
}

static void note_failing(struct roll *r, const struct roll_step *s, const struct pod *p)
{
    bool fails = s->gate == ROLL_FAILING && p != NULL;
    if (!fails) {
        r->failing[0] = '\0';
    } else if (strcmp(r->failing, p->uid) != 0) {
        (void)snprintf(r->failing, sizeof r->failing, "%s", p->uid);
        r->failing_since = net_clock_now(r->roller->clock);
    }
}

/* `status`: with the names of what it waits for. */
static void note_waiting(struct roll *r, const struct roll_step *s, const struct pod *p,
                         const struct roll_status *status)
{
    uint64_t now = net_clock_now(r->roller->clock);
    const char *shard = status->shard[0] != '\0' ? status->shard : "-";
    const char *name = status->pod[0] != '\0' ? status->pod : shard;
    if (s->what != ROLL_WAIT && r->blocked[0] == '\0') {
        r->waits_for[0] = '\0';
        r->fresh = true; /* from here on it has seen all itself */
    } else if (strcmp(r->waits_for, name) != 0) {
        uint64_t before = waited_before(r, p);
        (void)snprintf(r->waits_for, sizeof r->waits_for, "%s", name);
        r->waits_since = before < now ? now - before : 0;
        r->fresh = true;
    }
    note_failing(r, s, p);
}

static bool is_stuck(const struct roll *r, const struct roll_step *s,
                     const struct roll_status *before, const struct roll_status *now)
{
    uint64_t at = net_clock_now(r->roller->clock);
    const struct roll_patience p = {
        .waited_ms = at - r->waits_since,
        .failing_ms = r->failing[0] == '\0' ? 0 : at - r->failing_since,
        .deadline_ms = r->set->deadline_ms,
        .stuck = before->state == ROLL_STATE_STUCK && strcmp(before->pod, now->pod) == 0 &&
                 strcmp(before->shard, now->shard) == 0 &&
                 strcmp(r->set->expected, r->set->revision) == 0,
        .blocked = r->blocked[0] != '\0',
    };
    return roll_is_stuck(s, &p);
}

/* ---- in words ---- */

static const char *pod_name(const struct roll_view *v, size_t pod)
{
    return pod == ROLL_NONE ? "a pod" : v->pods[pod].name;
}

static void say_not_enforced(const struct roll *r, const struct roll_view *v,
                             const struct roll_step *s, char *out, size_t size)
{
    struct controller_pod look;
    controller_look_pod(r->roller->options.controller, v->configs[s->shard], object_of(v, s),
                        &look);
    (void)snprintf(out, size, "it does not enforce the rules of its shard%s%s",
                   look.why[0] == '\0' ? "" : ": it ", look.why);
}

static void say_leaderless(const struct roll_view *v, const struct roll_step *s, char *out,
                           size_t size)
{
    const char *shard = v->shards[s->shard].name;
    if (s->gate == ROLL_LOCK) {
        (void)snprintf(out, size, "it is not known yet whether shard %s is led", shard);
    } else {
        (void)snprintf(out, size, "nobody leads shard %s: its Lease is not renewed", shard);
    }
}

static void say_cause(const struct roll_view *v, const struct roll_step *s, char *out, size_t size)
{
    const char *cause = pod_name(v, s->cause);
    size_t shard = s->cause == ROLL_NONE ? ROLL_NONE : v->pods[s->cause].shard;
    switch (s->gate) {
    case ROLL_OUT_OF_ORDER:
        (void)snprintf(out, size, "pod %s is not Ready, and pods are made in their order", cause);
        break;
    case ROLL_SHARD_DOWN:
        (void)snprintf(out, size, "no pod of shard %s is Ready, %s neither",
                       shard == ROLL_NONE ? "" : v->shards[shard].name, cause);
        break;
    default:
        (void)snprintf(out, size, "a breaker is open in pod %s",
                       pod_name(v, s->cause != ROLL_NONE ? s->cause : s->pod));
        break;
    }
}

static void say_why(const struct roll *r, const struct roll_view *v, const struct roll_step *s,
                    char *out, size_t size)
{
    switch (s->gate) {
    case ROLL_OPEN:
        break;
    case ROLL_UNSEEN:
        (void)snprintf(out, size,
                       "%sthe controller of StatefulSets has not reported on the last change",
                       s->pod == ROLL_NONE ? "" : "it has not been made, and ");
        break;
    case ROLL_NO_PODS:
        (void)snprintf(out, size, "no pod is of shard %s", r->set->scope);
        break;
    case ROLL_ENDING:
        (void)snprintf(out, size, "it is being deleted");
        break;
    case ROLL_FAILING:
        (void)snprintf(out, size, "its container does not start: %s", v->pods[s->pod].failing);
        break;
    case ROLL_NOT_READY:
        (void)snprintf(out, size, "it is not Ready");
        break;
    case ROLL_NOT_YET:
        (void)snprintf(out, size, "it is not Ready for minReadySeconds yet");
        break;
    case ROLL_MISSING:
        (void)snprintf(out, size, "it has not been made yet");
        break;
    case ROLL_NOT_ENFORCED:
        say_not_enforced(r, v, s, out, size);
        break;
    case ROLL_LOCK:
    case ROLL_LEADERLESS:
        say_leaderless(v, s, out, size);
        break;
    case ROLL_BREAKER:
    case ROLL_OUT_OF_ORDER:
    case ROLL_SHARD_DOWN:
        say_cause(v, s, out, size);
        break;
    }
}

/* Whether it waits for the pod itself, or evicts it; else the pod is merely the next one. */
static bool concerns_pod(const struct roll_step *s)
{
    bool by_another = s->cause != ROLL_NONE || s->gate == ROLL_LOCK || s->gate == ROLL_LEADERLESS;
    return s->what != ROLL_DONE && s->pod != ROLL_NONE && !by_another;
}

static enum roll_state state_of(const struct roll *r, const struct roll_step *s,
                                const struct roll_status *before, const struct roll_status *now)
{
    if (s->what == ROLL_DONE) {
        return ROLL_STATE_DONE;
    }
    if (is_stuck(r, s, before, now)) {
        return ROLL_STATE_STUCK;
    }
    return s->what == ROLL_WAIT    ? ROLL_STATE_WAITING
           : r->blocked[0] != '\0' ? ROLL_STATE_BLOCKED
                                   : ROLL_STATE_EVICTING;
}

void roll_describe(struct roll *r, const struct roll_view *v, const struct roll_step *step,
                   const struct roll_status *before, struct roll_status *out)
{
    *out = (struct roll_status){.done = step->done, .total = step->total};
    if (concerns_pod(step)) {
        (void)snprintf(out->pod, sizeof out->pod, "%s", v->pods[step->pod].name);
    }
    if (step->shard != ROLL_NONE) {
        (void)snprintf(out->shard, sizeof out->shard, "%s", v->shards[step->shard].name);
    }
    if (step->what != ROLL_EVICT || strcmp(out->pod, before->pod) != 0) {
        r->blocked[0] = '\0';
    }
    note_waiting(r, step, object_of(v, step), out);
    out->state = state_of(r, step, before, out);
    r->step = *step;
    if (r->blocked[0] != '\0') {
        (void)snprintf(out->message, sizeof out->message, "%s", r->blocked);
    } else {
        say_why(r, v, step, out->message, sizeof out->message);
    }
}

/* ---- annotations and the label ---- */

static void set_text(struct edit *ed, cJSON *map, const char *prefix, const char *name,
                     const char *value)
{
    char key[NAMES_KEY_SIZE];
    edit_string(ed, map, names_key(prefix, name, key), value);
}

cJSON *roll_patch(const struct roll *r, const struct roll_status *status, const char *expected)
{
    struct edit ed = {.rc = 0};
    char text[ROLL_STATUS_SIZE];
    const char *prefix = r->roller->options.prefix;
    cJSON *patch = cJSON_CreateObject();
    cJSON *meta = edit_object(&ed, patch, "metadata");
    char label[ROLL_STATUS_LABEL_SIZE];
    roll_status_print(status, text);
    roll_status_label(status, label);
    set_text(&ed, edit_object(&ed, meta, "labels"), prefix, ROLLING_PROGRESS, label);
    edit_string(&ed, meta, "uid", r->set->uid);
    if (!r->gone) {
        edit_string(&ed, meta, "resourceVersion", r->set->version);
    }
    cJSON *annotations = edit_object(&ed, meta, "annotations");
    set_text(&ed, annotations, prefix, ROLLING_STATUS, text);
    if (expected != NULL) {
        set_text(&ed, annotations, prefix, ROLLING_EXPECTED, expected);
    }
    return xptr(edit_result(&ed, patch));
}

/* ---- Events ---- */

static bool is_under_way(enum roll_state s)
{
    return s == ROLL_STATE_WAITING || s == ROLL_STATE_EVICTING || s == ROLL_STATE_BLOCKED ||
           s == ROLL_STATE_STUCK;
}

static bool has_started(const struct roll *r)
{
    bool anew = r->begins || r->before.state == ROLL_STATE_NONE ||
                r->before.state == ROLL_STATE_DONE || r->before.state == ROLL_STATE_REFUSED;
    return anew && is_under_way(r->writing.state) && r->writing.total > 0 &&
           r->step.gate != ROLL_UNSEEN;
}

static void tell_progress(struct roll *r, const struct event_object *about)
{
    struct event_recorder *events = r->roller->options.events;
    const struct roll_status *now = &r->writing;
    bool other = now->shard[0] != '\0' && strcmp(now->shard, r->shard) != 0;
    if (has_started(r)) {
        event_record(events, about, EVENT_NORMAL, "RollStarted",
                     "Revision %s is rolled out, one pod at a time: %zu of %zu run it.",
                     r->set->revision, now->done, now->total);
    } else if (now->state == ROLL_STATE_EVICTING && other && r->shard[0] != '\0') {
        event_record(events, about, EVENT_NORMAL, "RollProceeded",
                     "%zu of %zu pods run revision %s; shard %s is next.", now->done, now->total,
                     r->set->revision, now->shard);
    }
    if (now->state == ROLL_STATE_EVICTING) {
        (void)snprintf(r->shard, sizeof r->shard, "%s", now->shard);
    }
}

static void tell_stuck(const struct roll *r, const struct event_object *about)
{
    char text[ROLL_STUCK_SIZE];
    roll_stuck_print(&r->writing, &r->step, text);
    event_record(r->roller->options.events, about, EVENT_WARNING, "RollStuck", "%s", text);
}

void roll_tell(struct roll *r)
{
    const struct event_object about = {.api_version = STATEFUL_SET_API_VERSION,
                                       .kind = STATEFUL_SET_KIND,
                                       .namespace = r->set->ns,
                                       .name = r->set->name,
                                       .uid = r->set->uid};
    struct event_recorder *events = r->roller->options.events;
    const struct roll_status *now = &r->writing;
    const struct roll_status *before = &r->before;
    bool same_pod = strcmp(now->pod, before->pod) == 0;
    tell_progress(r, &about);
    if (now->state == ROLL_STATE_STUCK && (before->state != ROLL_STATE_STUCK || !same_pod)) {
        tell_stuck(r, &about);
    } else if (now->state == ROLL_STATE_DONE && is_under_way(before->state)) {
        event_record(events, &about, EVENT_NORMAL, "RollDone", "%zu of %zu pods run revision %s.",
                     now->done, now->total, r->set->revision);
    } else if (now->state == ROLL_STATE_REFUSED && before->state != ROLL_STATE_REFUSED) {
        event_record(events, &about, EVENT_WARNING, "RollRefused",
                     "It cannot be rolled by shard: %s.", now->message);
    }
}
