/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_status.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/rfc3339.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "object/conditions.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    NAMES_MAX = 3,       /* pods or shards that a message names of each kind */
    WHY_MAX = 160,       /* bytes of what is said of one of them */
    CAUSE_MAX = 4096,    /* bytes of errors and warnings */
    MESSAGE_MAX = 32768, /* as the schema has it; what is written is shorter */
};

/* What is made of the facts. */
struct view {
    const struct policy_facts *f;
    const cJSON *old_rows;
    size_t number[POLICY_POD_STATES];
    size_t open;      /* breakers */
    size_t open_pods; /* with one */
    size_t rows;
    size_t rules; /* in them */
    bool refused; /* more than is told */
    bool rough;   /* what is told may be too little */
    char now[RFC3339_SIZE];
    struct edit ed;
    struct conditions conditions;
};

static const struct {
    enum policy_enforced enforced;
    const char *reason;
    const char *head; /* of the list of names */
} kinds[POLICY_POD_STATES] = {
    [POLICY_POD_NO_SHARD] = {POLICY_NO_SHARD, "NoShard",
                             "In no shard, so without traffic policies"},
    [POLICY_POD_OLD] = {POLICY_PODS_OLD, "PodsOld",
                        "Started by an older version, restart to enforce"},
    [POLICY_POD_REFUSING] = {POLICY_PODS_REFUSING, "PodsRefusing", "Refusing the policies"},
    [POLICY_POD_SILENT] = {POLICY_PODS_SILENT, "PodsSilent", "Not responding"},
    [POLICY_POD_WAITING] = {POLICY_PODS_WAITING, "PodsWaiting", "Not confirmed yet"},
    [POLICY_POD_WITHOUT] = {POLICY_NOT_PUBLISHED, "NotPublished", "Without it"},
    [POLICY_POD_NO_EGRESS] = {POLICY_NO_EGRESS, "NoEgress",
                              "Without a listener for requests to other places, annotate the pods "
                              "with " POLICY_EGRESS ": " POLICY_EGRESS_PROXY},
    [POLICY_POD_ENFORCES] = {POLICY_ENFORCED, "Enforced", ""},
};

const char *policy_enforced_text(enum policy_enforced e)
{
    static const char *const texts[POLICY_ENFORCED_STATES] = {
        [POLICY_ENFORCED] = "enforced",       [POLICY_DISABLED] = "disabled",
        [POLICY_INVALID] = "invalid",         [POLICY_NOT_PUBLISHED] = "not_published",
        [POLICY_NO_SHARD] = "no_shard",       [POLICY_NO_PODS] = "no_pods",
        [POLICY_PODS_OLD] = "pods_old",       [POLICY_PODS_REFUSING] = "pods_refusing",
        [POLICY_PODS_SILENT] = "pods_silent", [POLICY_PODS_WAITING] = "pods_waiting",
        [POLICY_NO_EGRESS] = "no_egress",
    };
    return texts[e];
}

/* ---- conditions ---- */

static bool has_outcome(const struct policy_facts *f, enum traffic_outcome o)
{
    for (size_t i = 0; i < f->shard_count; i++) {
        if (f->shards[i].placed && f->shards[i].outcome == o) {
            return true;
        }
    }
    return false;
}

static void add_compiled(struct view *v)
{
    const struct policy_facts *f = v->f;
    char cause[CAUSE_MAX];
    if (!policy_valid(f->policy)) {
        utf8_copy_plain(cause, sizeof cause, f->errors[0] == '\0' ? "not valid" : f->errors);
        conditions_set(&v->conditions, "Compiled", false, "Invalid", cause);
        return;
    }
    utf8_copy_plain(cause, sizeof cause,
                    f->warnings[0] == '\0' ? "The spec is valid." : f->warnings);
    bool nothing = policy_rules(f->policy) == 0;
    bool partly = policy_blind_rules(f->policy) > 0;
    conditions_set(&v->conditions, "Compiled", true,
                   nothing  ? "NothingEnforceable"
                   : partly ? "PartlyEnforceable"
                            : "Valid",
                   cause);
}

/* The first shard in which it does not stand as it should; NULL: there is none. */
static const struct policy_shard *find_obstacle(const struct policy_facts *f)
{
    for (size_t i = 0; i < f->shard_count; i++) {
        const struct policy_shard *s = &f->shards[i];
        if (!s->placed || s->outcome != TRAFFIC_COMPILED) {
            return s;
        }
    }
    return NULL;
}

static void list_shards(const struct policy_facts *f, struct buf *out)
{
    size_t more = f->shard_count > NAMES_MAX ? f->shard_count - NAMES_MAX : 0;
    buf_append_str(out, "In the traffic document of ");
    for (size_t i = 0; i < f->shard_count - more; i++) {
        buf_printf(out, "%s%s", i == 0 ? "" : ", ", f->shards[i].name);
    }
    if (more > 0) {
        buf_printf(out, " and %zu more", more);
    }
    buf_append_char(out, '.');
}

/* Of what keeps it out of one shard. */
static void write_obstacle(const struct policy_shard *s, const char **reason, struct buf *out)
{
    char why[CAUSE_MAX];
    if (!s->placed) {
        *reason = s->reason;
        utf8_copy_plain(why, sizeof why, s->why);
        buf_printf(out, "Not published for ShardingConfig %s%s%s.", s->name,
                   why[0] == '\0' ? "" : ": ", why);
        return;
    }
    *reason = traffic_outcome_text(s->outcome);
    buf_printf(out,
               "There is no room for it in the traffic document of ShardingConfig %s: use fewer or "
               "smaller policies in this namespace.",
               s->name);
}

/* Why it stands nowhere, whatever shards there are; NULL: it may. */
static const char *own_obstacle(const struct policy_facts *f, const char **reason)
{
    if (policy_disabled(f->policy)) {
        *reason = "Disabled";
        return "It is disabled.";
    }
    if (!policy_valid(f->policy)) {
        *reason = "NotCompiled";
        return has_outcome(f, TRAFFIC_KEPT)
                   ? "The spec is not valid; the last one that was valid stays in force."
                   : "The spec is not valid, and there is no earlier one that was published.";
    }
    if (policy_rules(f->policy) == 0) {
        *reason = "NothingEnforceable";
        return "It has no rule that does anything.";
    }
    if (f->shard_count == 0) {
        *reason = "NoShard";
        return "No ShardingConfig of this namespace selects pods that it may be for.";
    }
    return NULL;
}

static bool add_published(struct view *v)
{
    const struct policy_facts *f = v->f;
    const char *reason = "Published";
    const char *text = own_obstacle(f, &reason);
    const struct policy_shard *s = text == NULL ? find_obstacle(f) : NULL;
    struct buf message = BUF_INIT(MESSAGE_MAX);
    if (text != NULL) {
        buf_append_str(&message, text);
    } else if (s != NULL) {
        write_obstacle(s, &reason, &message);
    } else {
        list_shards(f, &message);
    }
    bool holds = text == NULL && s == NULL;
    conditions_set(&v->conditions, "Published", holds, reason, xptr(buf_cstr(&message)));
    buf_reset(&message);
    return holds;
}

/* ---- how far it is enforced ---- */

/* "PodsOld: a (why), b (why), c (why) and 4 more." */
static void list_pods(const struct view *v, enum policy_pod_state state, struct buf *out)
{
    const struct policy_facts *f = v->f;
    size_t listed = 0;
    if (v->number[state] == 0) {
        return;
    }
    buf_printf(out, " %s: ", kinds[state].head);
    for (size_t i = 0; i < f->pod_count && listed < NAMES_MAX; i++) {
        const struct policy_pod *p = &f->pods[i];
        if (p->state == state) {
            char why[WHY_MAX];
            utf8_copy_plain(why, sizeof why, p->text);
            buf_printf(out, "%s%s%s%s%s", listed > 0 ? ", " : "", p->name,
                       why[0] == '\0' ? "" : " (", why, why[0] == '\0' ? "" : ")");
            listed++;
        }
    }
    if (v->number[state] > listed) {
        buf_printf(out, " and %zu more", v->number[state] - listed);
    }
    buf_append_char(out, '.');
}

static enum policy_enforced unpublished(const struct policy_facts *f)
{
    if (policy_disabled(f->policy)) {
        return POLICY_DISABLED;
    }
    if (!policy_valid(f->policy)) {
        return POLICY_INVALID;
    }
    bool nowhere = policy_rules(f->policy) > 0 && f->shard_count == 0;
    return nowhere ? POLICY_NO_SHARD : POLICY_NOT_PUBLISHED;
}

static enum policy_enforced enforced_of(const struct view *v, bool published, const char **reason)
{
    enum policy_pod_state worst = 0;
    if (!published) {
        enum policy_enforced why = unpublished(v->f);
        *reason = why == POLICY_DISABLED   ? "Disabled"
                  : why == POLICY_NO_SHARD ? "NoShard"
                                           : "NotPublished";
        return why;
    }
    if (v->f->pod_count == 0) {
        *reason = "NoPods";
        return POLICY_NO_PODS;
    }
    while (v->number[worst] == 0) {
        worst++;
    }
    *reason = kinds[worst].reason;
    return kinds[worst].enforced;
}

static void write_progress(const struct view *v, enum policy_enforced e, struct buf *out)
{
    const struct policy_facts *f = v->f;
    bool disabled = e == POLICY_DISABLED;
    if (f->pod_count == 0) {
        buf_append_str(out, "It selects no pods with a proxy.");
        return;
    }
    if (disabled) {
        buf_printf(out, "%zu of %zu pods do without it.", v->number[POLICY_POD_WITHOUT],
                   f->pod_count);
    } else {
        buf_printf(out, "%zu of %zu pods enforce %s.", v->number[POLICY_POD_ENFORCES], f->pod_count,
                   e == POLICY_INVALID ? "the last one that was valid" : "it");
    }
    for (enum policy_pod_state i = 0; i < POLICY_POD_ENFORCES; i++) {
        if (!disabled || i != POLICY_POD_WITHOUT) {
            list_pods(v, i, out);
        }
    }
}

static enum policy_enforced add_enforced(struct view *v, bool published)
{
    const char *reason = NULL;
    struct buf message = BUF_INIT(MESSAGE_MAX);
    enum policy_enforced e = enforced_of(v, published, &reason);
    write_progress(v, e, &message);
    if (policy_external_rules(v->f->policy) > 0) {
        buf_append_str(&message, " Of requests to other places than the API server it is for only "
                                 "requests that are sent to localproxy's proxy.");
    }
    conditions_set(&v->conditions, "Enforced", e == POLICY_ENFORCED, reason,
                   xptr(buf_cstr(&message)));
    buf_reset(&message);
    return e;
}

/* ---- rows ---- */

static const cJSON *told_row(const struct view *v, const char *pod)
{
    return edit_find(field_get(v->f->told, "targetStatus"), "podName", pod);
}

/* What was said of a pod last stands while it says nothing. */
static void keep_row(struct view *v, cJSON *row, const struct policy_pod *p)
{
    const cJSON *old = edit_find(v->old_rows, "podName", p->name);
    const cJSON *rules = field_get(old, "limitingSnapshots");
    const char *hash = field_text(old, "configHash");
    if (hash[0] != '\0') {
        edit_string(&v->ed, row, "configHash", hash);
    }
    if (cJSON_IsArray(rules)) {
        edit_set(&v->ed, row, "limitingSnapshots", cJSON_Duplicate(rules, true));
    }
    rules = field_get(told_row(v, p->name), "interceptSnapshots");
    if (cJSON_IsArray(rules)) {
        edit_set(&v->ed, row, "interceptSnapshots", cJSON_Duplicate(rules, true));
    }
}

static void add_rule(struct view *v, cJSON *rules, const struct pod_breaker *b)
{
    char since[RFC3339_SIZE];
    cJSON *rule = edit_append_object(&v->ed, rules);
    edit_string(&v->ed, rule, "name", b->rule.name);
    edit_string(&v->ed, rule, "state", control_breaker_state_text(b->state));
    if (b->since != 0 && rfc3339_format(b->since, since) == 0) {
        edit_string(&v->ed, rule, "lastTransitionTime", since);
    }
    v->rules++;
}

/* "rule: why" of what is not closed. */
static void add_reason(struct buf *out, const struct pod_breaker *b)
{
    char until[RFC3339_SIZE];
    bool ends = b->until != 0 && rfc3339_format(b->until, until) == 0;
    buf_printf(out, "%s%s: %s%s%s", out->len == 0 ? "" : "; ", b->rule.name,
               b->why[0] == '\0' ? "open" : b->why, ends ? ", until " : "", ends ? until : "");
}

static void add_rules(struct view *v, cJSON *row, const struct policy_pod *p, struct buf *why)
{
    size_t count = 0;
    const struct pod_breaker *b = pod_traffic_find(p->traffic, policy_uid(v->f->policy), &count);
    cJSON *rules = edit_array(&v->ed, row, "limitingSnapshots");
    for (size_t i = 0; i < count && v->rules < POLICY_STATUS_RULES_MAX; i++) {
        if (b[i].state != CONTROL_BREAKER_CLOSED) {
            add_reason(why, &b[i]);
        }
        add_rule(v, rules, &b[i]);
    }
}

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *item = field_get(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* A JSON number tells no more than that. */
static double rough_number(uint64_t n)
{
    return n < UINT64_C(1) << 53 ? (double)n : 9007199254740992.0;
}

/* Numbers that grow all the time would be written all the time. */
static double told_refusals(struct view *v, const cJSON *told, const struct pod_intercept *n)
{
    double now = rough_number(n->refused);
    double before = number_of(
        edit_find(field_get(told, "interceptSnapshots"), "name", n->rule.name), "refused");
    if (v->f->tells) {
        return now;
    }
    v->refused = v->refused || now > before || now < before;
    return before;
}

static void add_refusals(struct view *v, cJSON *row, const struct policy_pod *p)
{
    size_t count = 0;
    const struct pod_intercept *n =
        pod_traffic_find_intercepts(p->traffic, policy_uid(v->f->policy), &count);
    const cJSON *told = told_row(v, p->name);
    cJSON *rules = NULL;
    for (size_t i = 0; i < count && v->rules < POLICY_STATUS_RULES_MAX; i++) {
        double refused = told_refusals(v, told, &n[i]);
        if (refused > 0) {
            v->rough = v->rough || n[i].rough;
            rules = rules != NULL ? rules : edit_array(&v->ed, row, "interceptSnapshots");
            cJSON *rule = edit_append_object(&v->ed, rules);
            edit_string(&v->ed, rule, "name", n[i].rule.name);
            edit_number(&v->ed, rule, "refused", refused);
            v->rules++;
        }
    }
}

static void add_message(struct view *v, cJSON *row, const struct policy_pod *p, struct buf *why)
{
    static const char no_egress[] = "it has no listener for requests to other places";
    const char *text = p->text[0] != '\0' ? p->text : buf_cstr(why);
    if (p->state == POLICY_POD_NO_EGRESS && (text == NULL || text[0] == '\0')) {
        text = no_egress;
    }
    if (text != NULL && text[0] != '\0') {
        edit_string(&v->ed, row, "message", text);
    }
}

static bool is_breaker(const struct view *v)
{
    return policy_kind(v->f->policy) == TRAFFIC_BREAKER;
}

static void add_row(struct view *v, cJSON *rows, const struct policy_pod *p)
{
    struct buf why = BUF_INIT(CAUSE_MAX);
    cJSON *row = edit_append_object(&v->ed, rows);
    bool holds = p->state == POLICY_POD_ENFORCES || p->state == POLICY_POD_NO_EGRESS;
    edit_string(&v->ed, row, "podName", p->name);
    edit_string(&v->ed, row, "podIP", p->ip);
    if (!p->answers) {
        keep_row(v, row, p);
    } else if (p->traffic != NULL) {
        const char *before = field_text(edit_find(v->old_rows, "podName", p->name), "configHash");
        bool has = holds && policy_valid(v->f->policy);
        bool lacks = holds || p->state == POLICY_POD_WITHOUT;
        const char *hash = has ? policy_spec_hash(v->f->policy) : lacks ? "" : before;
        if (hash[0] != '\0') {
            edit_string(&v->ed, row, "configHash", hash);
        }
        if (is_breaker(v)) {
            add_rules(v, row, p, &why);
            add_refusals(v, row, p);
        }
    }
    add_message(v, row, p, &why);
    buf_reset(&why);
    v->rows++;
}

/* How many of the policy's breakers are open there, by what was said last; *half: or half open. */
static size_t count_open(const struct view *v, const struct policy_pod *p, bool *half)
{
    size_t count = 0;
    size_t open = 0;
    const cJSON *rule = NULL;
    *half = false;
    if (p->answers && p->traffic != NULL) {
        const struct pod_breaker *b =
            pod_traffic_find(p->traffic, policy_uid(v->f->policy), &count);
        for (size_t i = 0; i < count; i++) {
            open += b[i].state == CONTROL_BREAKER_OPENED;
            *half = *half || b[i].state == CONTROL_BREAKER_HALF_OPENED;
        }
    } else if (!p->answers) {
        const cJSON *old = edit_find(v->old_rows, "podName", p->name);
        cJSON_ArrayForEach(rule, field_get(old, "limitingSnapshots"))
        {
            open += strcmp(field_text(rule, "state"), "Opened") == 0;
        }
    }
    return open;
}

/* Whether such rules have refused anything there, by what was said last. */
static bool has_refused(const struct view *v, const struct policy_pod *p)
{
    size_t count = 0;
    bool refused = field_get(told_row(v, p->name), "interceptSnapshots") != NULL;
    if (p->answers && p->traffic != NULL) {
        const struct pod_intercept *n =
            pod_traffic_find_intercepts(p->traffic, policy_uid(v->f->policy), &count);
        for (size_t i = 0; i < count; i++) {
            refused = refused || n[i].refused > 0;
        }
    }
    return refused;
}

static void add_rows(struct view *v, cJSON *status)
{
    const struct policy_facts *f = v->f;
    cJSON *rows = edit_array(&v->ed, status, "targetStatus");
    for (size_t i = 0; i < f->pod_count; i++) {
        bool half = false;
        size_t open = is_breaker(v) ? count_open(v, &f->pods[i], &half) : 0;
        v->open += open;
        v->open_pods += open > 0;
        bool shown = f->pod_count <= POLICY_STATUS_PODS || open > 0 || half ||
                     (is_breaker(v) && has_refused(v, &f->pods[i]));
        if (shown && v->rows < POLICY_STATUS_ROWS_MAX) {
            add_row(v, rows, &f->pods[i]);
        }
    }
}

/* ---- the whole ---- */

static cJSON *without_time(const cJSON *status)
{
    cJSON *copy = cJSON_Duplicate(status, true);
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "lastUpdatedTime");
    return copy;
}

bool policy_status_same(const cJSON *a, const cJSON *b)
{
    cJSON *x = without_time(a);
    cJSON *y = without_time(b);
    bool same = cJSON_Compare(x, y, true); /* which NULL never is */
    cJSON_Delete(x);
    cJSON_Delete(y);
    return same;
}

static void add_counts(struct view *v, cJSON *status)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%zu/%zu", v->number[POLICY_POD_ENFORCES], v->f->pod_count);
    edit_number(&v->ed, status, "pods", (double)v->f->pod_count);
    if (is_breaker(v)) {
        edit_number(&v->ed, status, "open", (double)v->open_pods);
    }
    edit_string(&v->ed, status, "enforced", text);
}

cJSON *policy_status_make(const struct policy_facts *f, struct policy_status_result *out)
{
    struct view v = {.f = f, .old_rows = field_get(f->old, "targetStatus")};
    cJSON *status = cJSON_CreateObject();
    (void)!rfc3339_format(f->now, v.now);
    for (size_t i = 0; i < f->pod_count; i++) {
        v.number[f->pods[i].state]++;
    }
    v.conditions =
        conditions_begin(&v.ed, status, f->old, (double)policy_generation(f->policy), v.now);
    edit_string(&v.ed, status, "currentSpecHash", policy_spec_hash(f->policy));
    add_compiled(&v);
    bool published = add_published(&v);
    out->enforced = add_enforced(&v, published);
    add_rows(&v, status);
    add_counts(&v, status);
    out->open = v.open;
    out->refused = v.refused;
    out->rough = v.rough;
    out->changed = !policy_status_same(status, f->old);
    const char *before = field_text(f->old, "lastUpdatedTime");
    edit_string(&v.ed, status, "lastUpdatedTime",
                out->changed || before[0] == '\0' ? v.now : before);
    return xptr(edit_result(&v.ed, status));
}

/* ---- what is new ---- */

static bool is_state(const cJSON *rule, const char *state)
{
    return strcmp(field_text(rule, "state"), state) == 0;
}

/* One that was half open has not recovered. */
static bool has_opened(const cJSON *old, const cJSON *new)
{
    const char *before = field_text(old, "lastTransitionTime");
    const char *now = field_text(new, "lastTransitionTime");
    bool again = is_state(old, "Opened") && strcmp(before, now) != 0;
    return is_state(new, "Opened") && !is_state(old, "HalfOpened") &&
           (!is_state(old, "Opened") || again);
}

static bool has_recovered(const cJSON *old, const cJSON *new)
{
    return is_state(new, "Closed") && (is_state(old, "Opened") || is_state(old, "HalfOpened"));
}

static void compare_limitings(const cJSON *old, const cJSON *row, policy_news_cb cb, void *data)
{
    const cJSON *rule = NULL;
    cJSON_ArrayForEach(rule, field_get(row, "limitingSnapshots"))
    {
        const char *name = field_text(rule, "name");
        const cJSON *was = edit_find(field_get(old, "limitingSnapshots"), "name", name);
        bool opened = has_opened(was, rule);
        if (opened || has_recovered(was, rule)) {
            const struct policy_news n = {.kind =
                                              opened ? POLICY_NEWS_OPENED : POLICY_NEWS_RECOVERED,
                                          .pod = field_text(row, "podName"),
                                          .rule = name,
                                          .since = field_text(rule, "lastTransitionTime"),
                                          .message = field_text(row, "message")};
            cb(data, &n);
        }
    }
}

/* One that has refused less than before counts anew. */
static void compare_intercepts(const cJSON *old, const cJSON *row, policy_news_cb cb, void *data)
{
    const cJSON *rule = NULL;
    cJSON_ArrayForEach(rule, field_get(row, "interceptSnapshots"))
    {
        const char *name = field_text(rule, "name");
        const cJSON *was = edit_find(field_get(old, "interceptSnapshots"), "name", name);
        double before = number_of(was, "refused");
        double now = number_of(rule, "refused");
        double more = now < before ? now : now - before;
        if (more > 0) {
            const struct policy_news n = {.kind = POLICY_NEWS_REFUSED,
                                          .pod = field_text(row, "podName"),
                                          .rule = name,
                                          .since = "",
                                          .message = "",
                                          .refused = (uint64_t)more};
            cb(data, &n);
        }
    }
}

void policy_status_compare(const cJSON *before, const cJSON *now, policy_news_cb cb, void *data)
{
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, field_get(now, "targetStatus"))
    {
        const char *pod = field_text(row, "podName");
        const cJSON *old = edit_find(field_get(before, "targetStatus"), "podName", pod);
        compare_limitings(old, row, cb, data);
        compare_intercepts(old, row, cb, data);
    }
}
