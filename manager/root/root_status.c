/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "object/conditions.h"
#include "root/buckets.h"
#include "route/route_report.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    NAMES_MAX = 5,        /* shards that a message names */
    TEXT_MAX = 4096,      /* bytes of a message: with so many shards and pods, and an error */
    COUNT_MAX = 10000000, /* pods that a status can tell of */
    MS = 1000,
};

struct view {
    const struct root_status_facts *f;
    struct edit ed;
    struct conditions conditions;
    char now[RFC3339_SIZE];
    uint64_t pods;
    uint64_t enforcing;
    bool ready;
    bool stalled;
    const char *reason; /* of Ready */
    char text[TEXT_MAX];
};

/* What the target is called. */
static const struct kind_words {
    const char *kind;
    const char *absent; /* reasons of Ready */
    const char *over;
} kind_words[2] = {{"StatefulSet", "StatefulSetNotFound", "TooManyStatefulSets"},
                   {"Deployment", "DeploymentNotFound", "TooManyDeployments"}};

static const struct kind_words *words_of(const struct root_status_facts *f)
{
    return &kind_words[f->deployment];
}

static void add(struct view *v, const char *type, const char *status, const char *reason,
                const char *message)
{
    conditions_add(&v->conditions, type, status, reason, message);
}

/* ---- Compiled ---- */

static void add_compiled(struct view *v)
{
    const struct root_status_facts *f = v->f;
    if (f->invalid != NULL) {
        add(v, "Compiled", "False", f->invalid_reason, f->invalid);
    } else if (f->drops_pod_names) {
        add(v, "Compiled", "True", "PodNamesIgnored",
            f->deployment ? "The spec is valid. spec.selector asks for names of pods, which is "
                            "left out: which pods a shard has follows from their label."
                          : "The spec is valid. spec.selector asks for names of pods, which is "
                            "left out: which pods a shard has follows from their ordinals.");
    } else {
        add(v, "Compiled", "True", "Valid", "The spec is valid.");
    }
}

/* ---- Sized ---- */

/* Those without a single pod, if the StatefulSet is all that makes pods. */
static void write_short(const struct root_status_facts *f, struct buf *out)
{
    size_t found = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct root_status_shard *s = &f->shards[i];
        unsigned end = f->target.first + (unsigned)f->target.replicas;
        bool none = !f->deployment && !s->leaving && s->wanted > 0 && s->first >= end;
        if (none && found < NAMES_MAX) {
            buf_printf(out, "%s%s", found == 0 ? " Without pods: " : ", ", s->name);
        }
        found += none;
    }
    if (found > NAMES_MAX) {
        buf_printf(out, " and %zu more", found - NAMES_MAX);
    }
    if (found > 0) {
        buf_append_char(out, '.');
    }
}

static void write_found(const struct root_status_facts *f, struct buf *out)
{
    unsigned replicas = (unsigned)f->target.replicas;
    buf_printf(out, "%s %s has %u replica%s; %u %s needed.", words_of(f)->kind, f->target_name,
               replicas, replicas == 1 ? "" : "s", f->needed, f->needed == 1 ? "is" : "are");
    if (replicas < f->needed) {
        write_short(f, out);
    } else if (replicas > f->room) {
        buf_printf(out,
                   " Pods from %s-%u on are in no shard, and are refused if they ask for sidecars.",
                   f->target_name, f->target.first + f->room);
    }
}

static void write_foreign_pods(const struct root_status_facts *f, struct buf *out)
{
    if (f->foreign_pods != NULL) {
        buf_printf(out, " Recreate pods that have the sidecars of another shard%s: %s.",
                   f->canary_barred ? " when the canary is there, not before" : "",
                   f->foreign_pods);
    }
}

static const char *judge_size(const struct root_status_facts *f, const char **reason,
                              struct buf *out)
{
    switch (f->target.state) {
    case TARGET_FOUND:
        write_found(f, out);
        unsigned replicas = (unsigned)f->target.replicas;
        *reason = replicas < f->needed ? "TooFewReplicas"
                  : replicas > f->room ? "TooManyReplicas"
                                       : "Sized";
        return replicas < f->needed || replicas > f->room ? "False" : "True";
    case TARGET_ABSENT:
        buf_printf(out, "There is no %s %s.", words_of(f)->kind, f->target_name);
        *reason = "NotFound";
        return "False";
    case TARGET_OVER:
        buf_printf(out,
                   "%s %s is not followed: the manager follows as many others as "
                   "--root-statefulsets allows, a quarter of them in one namespace%s",
                   words_of(f)->kind, f->target_name,
                   f->elastic ? ". Give roots a number as shardingSize, delete some, or raise it."
                              : ". It need not be.");
        *reason = "TooMany";
        return "Unknown";
    case TARGET_UNKNOWN:
        buf_printf(out, "%s %s cannot be read: %.512s", words_of(f)->kind, f->target_name,
                   f->target.error);
        *reason = "Unreadable";
        return "Unknown";
    case TARGET_ASKED:
        break;
    }
    buf_printf(out, "%s %s is being read.", words_of(f)->kind, f->target_name);
    *reason = "Pending";
    return "Unknown";
}

static void add_sized(struct view *v)
{
    if (v->f->target.state == TARGET_ASKED && conditions_keep(&v->conditions, "Sized")) {
        return; /* what was said last stands */
    }
    const char *reason = NULL;
    struct buf text = BUF_INIT(TEXT_MAX);
    const char *status = judge_size(v->f, &reason, &text);
    write_foreign_pods(v->f, &text);
    add(v, "Sized", status, reason, xptr(buf_cstr(&text)));
    buf_reset(&text);
}

/* ---- Balanced ---- */

static void add_balanced(struct view *v)
{
    const struct root_balance_report *r = v->f->balance;
    if (r != NULL && r->status != NULL) {
        add(v, "Balanced", r->status, r->reason, r->message);
    }
}

static void add_eviction(struct view *v, cJSON *root)
{
    const struct root_balance_report *r = v->f->balance;
    char time[RFC3339_SIZE];
    if (r != NULL && r->pod[0] != '\0' && rfc3339_format(r->at_s, time) == 0) {
        cJSON *eviction = edit_object(&v->ed, root, "eviction");
        edit_string(&v->ed, eviction, "pod", r->pod);
        edit_string(&v->ed, eviction, "shard", r->shard);
        edit_string(&v->ed, eviction, "time", time);
    }
}

/* What is taken from nobody. */
static const char *who_keeps(const struct root_status_facts *f)
{
    return f->canary_barred ? " Until then the normal shards keep its namespaces." : "";
}

/* ---- Conflict ---- */

static void add_conflict(struct view *v)
{
    const struct root_status_facts *f = v->f;
    if (f->foreign != NULL) {
        (void)snprintf(
            v->text, sizeof v->text,
            "Other ShardingConfigs have the names of shards, and stay as they are: %s. "
            "Give root another prefix, or delete them if they are not of another root.%s",
            f->foreign, who_keeps(f));
        add(v, "Conflict", "True", "NameTaken", v->text);
    } else if (f->earlier != NULL) {
        (void)snprintf(v->text, sizeof v->text,
                       "Shards of an earlier ShardingConfig of this name are not deleted yet by "
                       "the garbage collector: %s.%s",
                       f->earlier, who_keeps(f));
        add(v, "Conflict", "True", "WaitingForGarbageCollector", v->text);
    } else {
        add(v, "Conflict", "False", "NoConflict", "No other object has the name of a shard.");
    }
}

/* ---- Ready ---- */

static void set_ready(struct view *v, bool ready, const char *reason)
{
    v->ready = ready;
    v->reason = reason;
}

/* That somebody has to change something is for them to know. */
static bool judge_spec(struct view *v)
{
    const struct root_status_facts *f = v->f;
    if (f->invalid != NULL) {
        (void)snprintf(v->text, sizeof v->text, "%s", f->invalid);
        set_ready(v, false, f->invalid_reason);
        v->stalled = true;
    } else if (f->foreign != NULL || f->earlier != NULL) {
        (void)snprintf(v->text, sizeof v->text, "Names of shards are taken: %s.",
                       f->foreign != NULL ? f->foreign : f->earlier);
        set_ready(v, false, "Conflict");
        v->stalled = f->foreign != NULL;
    } else if (f->refused != NULL) {
        (void)snprintf(v->text, sizeof v->text, "%s%s%s", f->refused, f->canary_barred ? "." : "",
                       who_keeps(f));
        set_ready(v, false, "Refused");
    } else if (f->elastic && f->target.state == TARGET_OVER) {
        (void)snprintf(
            v->text, sizeof v->text,
            "The shards do not follow %s %s: the manager follows as many others as it "
            "may. Give roots a number as shardingSize, delete some, or raise --root-statefulsets "
            "of the manager.",
            words_of(f)->kind, f->target_name);
        set_ready(v, false, words_of(f)->over);
        v->stalled = true;
    } else {
        return false;
    }
    return true;
}

static bool waits(const struct root_status_shard *s)
{
    const cJSON *published = conditions_find(s->status, "Published");
    return strcmp(field_text(published, "status"), "False") == 0 &&
           strcmp(field_text(published, "reason"), "WaitingForHandover") == 0;
}

/* Not all that is to be is there, or in force. */
static bool judge_progress(struct view *v)
{
    const struct root_status_facts *f = v->f;
    bool resizing = f->under_way;
    (void)snprintf(v->text, sizeof v->text, "Shards are being changed.");
    for (size_t i = 0; i < f->count && !resizing; i++) {
        const struct root_status_shard *s = &f->shards[i];
        if (!s->exists || !s->observed) {
            (void)snprintf(v->text, sizeof v->text, "Shard %s is being changed.", s->name);
            resizing = true;
        } else if (waits(s)) {
            const cJSON *published = conditions_find(s->status, "Published");
            (void)snprintf(v->text, sizeof v->text, "Shard %s: %.1024s", s->name,
                           field_text(published, "message"));
            resizing = true;
        } else if (s->leaving && s->pods > 0) {
            (void)snprintf(v->text, sizeof v->text,
                           "Shard %s is not to be any more, and goes with its last pod.", s->name);
            resizing = true;
        }
    }
    if (resizing) {
        set_ready(v, false, "Resizing");
    }
    return resizing;
}

/* Without the target no pod will come. */
static void set_without_pods(struct view *v, const struct root_status_shard *s)
{
    const struct root_status_facts *f = v->f;
    int n = snprintf(v->text, sizeof v->text, "Shard %s has no ready pod%s.", s->name,
                     !s->taken_over ? ""
                     : s->normal    ? "; the others have its buckets"
                                    : "; the others have its namespaces");
    set_ready(v, false, "WaitingForPods");
    if (f->target.state == TARGET_ABSENT) {
        (void)snprintf(v->text + n, sizeof v->text - (size_t)n,
                       " There is no %s %s: create it, or correct spec.root.target%s.",
                       words_of(f)->kind, f->target_name, words_of(f)->kind);
        v->reason = words_of(f)->absent;
    }
}

static bool judge_pods(struct view *v)
{
    for (size_t i = 0; i < v->f->count; i++) {
        const struct root_status_shard *s = &v->f->shards[i];
        if (!s->leaving && s->ready == 0) {
            set_without_pods(v, s);
            return true;
        }
    }
    return false;
}

static bool judge_children(struct view *v)
{
    for (size_t i = 0; i < v->f->count; i++) {
        const struct root_status_shard *s = &v->f->shards[i];
        const cJSON *ready = conditions_find(s->status, "Ready");
        const char *reason = field_text(ready, "reason");
        if (strcmp(field_text(ready, "status"), "True") != 0) {
            (void)snprintf(v->text, sizeof v->text, "Shard %s: %.1024s", s->name,
                           ready == NULL ? "not looked at yet" : field_text(ready, "message"));
            set_ready(v, false, reason[0] == '\0' ? "Pending" : reason);
            v->stalled = conditions_find(s->status, "Stalled") != NULL;
            return true;
        }
    }
    return false;
}

static void judge(struct view *v)
{
    if (judge_spec(v) || judge_progress(v) || judge_pods(v) || judge_children(v)) {
        return;
    }
    (void)snprintf(v->text, sizeof v->text,
                   "%" PRIu64 " of %" PRIu64 " pods of %zu shards enforce their rules.",
                   v->enforcing, v->pods, v->f->count);
    set_ready(v, true, v->f->disabled ? "Disabled" : "Enforced");
}

static void add_ready(struct view *v)
{
    judge(v);
    conditions_set(&v->conditions, "Ready", v->ready, v->reason, v->text);
    if (v->stalled) {
        add(v, "Stalled", "True", v->reason, v->text);
    }
}

/* ---- WebhookRouted ---- */

/* As its shards say it: the first one that is False, else True. None says it: nobody asks. */
static void add_routed(struct view *v)
{
    size_t routed = 0;
    for (size_t i = 0; i < v->f->count; i++) {
        const struct root_status_shard *s = &v->f->shards[i];
        const cJSON *c = conditions_find(s->status, ROUTE_CONDITION);
        if (strcmp(field_text(c, "status"), "False") == 0) {
            (void)snprintf(v->text, sizeof v->text, "Shard %s: %.1024s", s->name,
                           field_text(c, "message"));
            add(v, ROUTE_CONDITION, "False", field_text(c, "reason"), v->text);
            return;
        }
        routed += c != NULL;
    }
    if (routed > 0) {
        (void)snprintf(v->text, sizeof v->text, "Reviews reach their shard of %zu.", routed);
        add(v, ROUTE_CONDITION, "True", route_reason_text(ROUTE_ROUTED), v->text);
    }
}

/* ---- the whole ---- */

/* "2/3" of each shard that tells it. */
static void count_pods(struct view *v)
{
    for (size_t i = 0; i < v->f->count; i++) {
        const char *text = field_text(v->f->shards[i].status, "enforced");
        char *end = NULL;
        unsigned long n = strtoul(text, &end, 10);
        unsigned long m = *end == '/' ? strtoul(end + 1, NULL, 10) : 0;
        if (n <= m && m <= COUNT_MAX) {
            v->enforcing += n;
            v->pods += m;
        }
    }
}

static void add_shard(struct view *v, cJSON *array, const struct root_status_shard *s)
{
    char buckets[BUCKETS_TEXT_SIZE];
    cJSON *row = edit_append_object(&v->ed, array);
    edit_string(&v->ed, row, "name", s->name);
    edit_number(&v->ed, row, "pods", (double)s->pods);
    edit_number(&v->ed, row, "readyPods", (double)s->ready);
    if (s->normal) {
        buckets_print(s->buckets, buckets);
        edit_string(&v->ed, row, "buckets", buckets[0] == '\0' ? "none" : buckets);
    }
    if (s->taken_over) {
        edit_bool(&v->ed, row, "takenOver", true);
    }
    if (s->normal && v->f->load != NULL) {
        edit_number(&v->ed, row, "loadPercent", v->f->load->of_shard[s->number]);
    }
}

static void add_load(struct view *v, cJSON *root)
{
    const struct root_status_facts *f = v->f;
    const char *names[SHARDING_HASH_SIZE] = {NULL};
    for (size_t i = 0; i < f->count; i++) {
        for (unsigned k = 0; k < SHARDING_HASH_SIZE; k++) {
            bool has = f->shards[i].normal && (f->shards[i].buckets >> k & 1) != 0;
            names[k] = has ? f->shards[i].name : names[k];
        }
    }
    if (f->load != NULL) {
        load_report_add(&v->ed, root, f->load, names);
    }
    if (f->moves != NULL) {
        load_moves_add(&v->ed, root, f->moves);
    }
}

/* Of a spec that makes no sense nothing is known of shards; what was told stays. */
static void add_root(struct view *v, cJSON *status)
{
    const struct root_status_facts *f = v->f;
    const cJSON *old = field_get(field_get(f->root, "status"), "root");
    if (f->invalid != NULL && f->count == 0) {
        if (old != NULL) {
            edit_set(&v->ed, status, "root", cJSON_Duplicate(old, true));
        }
        return;
    }
    cJSON *root = edit_object(&v->ed, status, "root");
    cJSON *names = edit_array(&v->ed, root, "childShardingConfigs");
    edit_number(&v->ed, root, "size", f->size);
    cJSON *shards = edit_array(&v->ed, root, "shards");
    for (size_t i = 0; i < f->count; i++) {
        if (f->shards[i].exists) {
            edit_append_string(&v->ed, names, f->shards[i].name);
        }
        add_shard(v, shards, &f->shards[i]);
    }
    add_load(v, root);
    add_eviction(v, root);
}

static bool is_sized(const cJSON *status)
{
    const cJSON *sized = conditions_find(status, "Sized");
    return sized == NULL || (strcmp(field_text(sized, "status"), "False") != 0 &&
                             strcmp(field_text(sized, "reason"), "Unreadable") != 0);
}

cJSON *root_status_make(const struct root_status_facts *f, struct root_status_result *out)
{
    struct view v = {.f = f};
    char text[64];
    cJSON *status = cJSON_CreateObject();
    (void)!rfc3339_format(f->now_ms / MS, v.now);
    count_pods(&v);
    const cJSON *old = field_get(f->root, "status");
    v.conditions = conditions_begin(&v.ed, status, old, field_generation(f->root), v.now);
    if (f->invalid == NULL || f->count > 0) {
        edit_number(&v.ed, status, "podCount", (double)v.pods);
        (void)snprintf(text, sizeof text, "%" PRIu64 "/%" PRIu64, v.enforcing, v.pods);
        edit_string(&v.ed, status, "enforced", text);
    }
    add_compiled(&v);
    if (f->invalid == NULL) {
        add_sized(&v);
        add_balanced(&v);
        add_conflict(&v);
    }
    add_ready(&v);
    add_routed(&v);
    add_root(&v, status);
    out->changed = !cJSON_Compare(status, old, true);
    out->ready = v.ready;
    out->sized = is_sized(status);
    out->unbalanced =
        strcmp(field_text(conditions_find(status, "Balanced"), "status"), "False") == 0;
    (void)snprintf(out->reason, sizeof out->reason, "%s", v.reason);
    return xptr(edit_result(&v.ed, status));
}
