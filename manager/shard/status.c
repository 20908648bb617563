/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/rfc3339.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "compile/compile.h"
#include "object/conditions.h"
#include "object/names.h"
#include "shard/pod_verdict.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    NAMES_MAX = 3,       /* pods that a message names of each kind */
    WHY_MAX = 160,       /* bytes of what is said of one of them */
    CAUSE_MAX = 4096,    /* bytes of an error */
    MESSAGE_MAX = 32768, /* as the schema has it; what is written is shorter */
};

struct row {
    const struct status_pod *pod;
    enum pod_verdict verdict;
    char text[POD_VERDICT_TEXT_SIZE];
};

/* What is made of the facts. */
struct view {
    const struct status_facts *f;
    struct row *rows; /* what hinders first, then by name; pods that are gone at the end */
    size_t counted;   /* rows without those */
    size_t number[VERDICTS];
    size_t enforcing;
    char now[RFC3339_SIZE];
    struct edit ed;
    struct conditions conditions;
};

struct kind {
    enum status_enforced enforced;
    const char *reason;
    const char *head; /* of the list of names */
    const char *tail; /* what to do */
    bool with_text;   /* what is said of each pod tells more than the head */
};

static const struct kind kinds[VERDICTS] = {
    [VERDICT_NO_SIDECAR] = {STATUS_NO_SIDECAR, "NoSidecar",
                            "Without a sidecar, so seeing everything", ". ", false},
    [VERDICT_BYPASSED] =
        {STATUS_BYPASSED, "Bypassed", "Bypassing their proxies",
         ". Lead these operators (docs/manager.md, \"How operators are led\": annotation "
         "keep-service-account, KUBECONFIG, lead-by-name), or annotate the pods' template ",
         true},
    [VERDICT_OVERLAPPING] = {STATUS_OVERLAPPING, "Overlapping", "In two shards",
                             ". Change one of the selectors", true},
    [VERDICT_OTHER_RULES] = {STATUS_OTHER_RULES, "OtherRules", "Enforcing other rules", "", true},
    [VERDICT_REFUSED] = {STATUS_REFUSED, "Refused", "Refusing the rules", "", true},
    [VERDICT_SILENT] = {STATUS_SILENT, "Silent", "Not responding", "", true},
    [VERDICT_WAITING] = {STATUS_WAITING, "Waiting", "Not confirmed yet", "", true},
    [VERDICT_CONTESTED] = {STATUS_ENFORCED, "Enforced", "In two shards",
                           ". Change one of the selectors", true},
    [VERDICT_STARTING] = {STATUS_WAITING, "Waiting", "Not ready yet", "", true},
};

/* ---- pods ---- */

static int by_name(const struct row *a, const struct row *b)
{
    return strcmp(a->pod->name, b->pod->name);
}

static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;
    return a->verdict != b->verdict ? (a->verdict < b->verdict ? -1 : 1) : by_name(a, b);
}

static int compare_names(const void *left, const void *right)
{
    return by_name(left, right);
}

static void judge(struct view *v)
{
    const struct status_facts *f = v->f;
    const cJSON *metadata = field_get(f->config, "metadata");
    char shard[512];
    (void)snprintf(shard, sizeof shard, "%s/%s", field_text(metadata, "namespace"),
                   field_text(metadata, "name"));
    v->rows = xcalloc(f->pod_count + 1, sizeof *v->rows);
    for (size_t i = 0; i < f->pod_count; i++) {
        struct row *row = &v->rows[i];
        row->pod = &f->pods[i];
        row->verdict = pod_verdict(f, shard, row->pod, row->text);
        v->number[row->verdict]++;
    }
    qsort(v->rows, f->pod_count, sizeof *v->rows, compare_rows);
    v->counted = f->pod_count - v->number[VERDICT_GONE];
    v->enforcing = v->number[VERDICT_ENFORCES] + v->number[VERDICT_CONTESTED];
}

static void add_row(struct view *v, cJSON *array, const struct row *row)
{
    const struct probe_result *r = row->pod->probe;
    char since[RFC3339_SIZE];
    cJSON *object = edit_append_object(&v->ed, array);
    edit_string(&v->ed, object, "name", row->pod->name);
    if (r != NULL && r->generation != 0) {
        edit_number(&v->ed, object, "generation", (double)r->generation);
        edit_string(&v->ed, object, "checksum", r->checksum);
    }
    if (r != NULL && r->since_ms != 0 && rfc3339_format(r->since_ms / 1000, since) == 0) {
        edit_string(&v->ed, object, "since", since);
    }
    if (row->text[0] != '\0') {
        edit_string(&v->ed, object, "message", row->text);
    }
}

/* By name if there is room for all, so that a row does not move when it becomes right. */
static void add_rows(struct view *v, cJSON *status)
{
    cJSON *array = edit_array(&v->ed, status, "pods");
    size_t n = v->counted < STATUS_ROWS_MAX ? v->counted : STATUS_ROWS_MAX;
    if (v->counted == n) {
        qsort(v->rows, n, sizeof *v->rows, compare_names);
    }
    for (size_t i = 0; i < n; i++) {
        add_row(v, array, &v->rows[i]);
    }
}

/* ---- conditions ---- */

/* What one should know of a valid spec. */
static const char *valid_text(const struct status_facts *f, const char **reason)
{
    *reason = "Valid";
    if (f->lacks_limits) {
        *reason = "LimitsMissing";
        return "spec.limits is missing, so the shard sees nothing. Write limits: [] for a shard "
               "that sees everything.";
    }
    return f->unlimited ? "The spec is valid. It has no limits: the shard sees everything."
                        : "The spec is valid.";
}

static const char *refusal_reason(const struct status_facts *f)
{
    return f->given_up ? "OverBudget" : f->namespaces_unknown ? "NamespacesUnknown" : "Invalid";
}

static void add_compiled(struct view *v)
{
    const struct status_facts *f = v->f;
    const char *reason = NULL;
    char cause[CAUSE_MAX];
    if (f->compile_error == NULL) { /* never "": old API servers take it for null */
        const char *text = valid_text(f, &reason);
        conditions_set(&v->conditions, "Compiled", true, reason, text);
        return;
    }
    utf8_copy_plain(cause, sizeof cause, f->compile_error);
    conditions_set(&v->conditions, "Compiled", false, refusal_reason(f), cause);
}

static const char *const publish_reasons[PUBLISH_REASONS] = {
    [PUBLISH_OK] = "Pending", /* nothing was published yet */
    [PUBLISH_PENDING] = "Pending",
    [PUBLISH_WAITS_FOR_NAMESPACES] = "Pending",
    [PUBLISH_WAITS_FOR_PODS] = "Pending",
    [PUBLISH_WAITS_FOR_POLICIES] = "Pending",
    [PUBLISH_WAITS_FOR_LABELS] = "WaitingForLabels",
    [PUBLISH_WAITS_FOR_HANDOVER] = "WaitingForHandover",
    [PUBLISH_HELD_BACK] = "HeldBack",
    [PUBLISH_OVERSIZED] = "TooLarge",
    [PUBLISH_NAME_TAKEN] = "NameTaken",
    [PUBLISH_REFUSED] = "Refused",
};

static bool is_published(const struct status_facts *f)
{
    return f->compile_error == NULL && f->publish_reason == PUBLISH_OK && f->generation != 0;
}

static void add_published(struct view *v)
{
    const struct status_facts *f = v->f;
    char text[CAUSE_MAX + 512];
    if (f->compile_error != NULL && f->generation == 0) {
        conditions_set(&v->conditions, "Published", false, "NotCompiled", "There are no rules.");
    } else if (f->compile_error != NULL) {
        (void)snprintf(text, sizeof text, "ConfigMap %s still holds generation %" PRIu64 ", %s.",
                       f->configmap, f->generation,
                       f->shows_nothing ? "which shows nothing: others had what the earlier "
                                          "spec named when it was published"
                       : f->given_up    ? "which stays in force"
                                        : "of an earlier spec");
        conditions_set(&v->conditions, "Published", false, "NotCompiled", text);
    } else if (!is_published(f)) {
        const char *message = f->publish_message;
        utf8_copy_plain(text, CAUSE_MAX, message != NULL ? message : "Publishing is pending.");
        conditions_set(&v->conditions, "Published", false, publish_reasons[f->publish_reason],
                       text);
    } else {
        (void)snprintf(text, sizeof text, "ConfigMap %s holds generation %" PRIu64 ".",
                       f->configmap, f->generation);
        conditions_set(&v->conditions, "Published", true, "Published", text);
    }
}

static void add_labelled(struct view *v)
{
    const struct labelling *l = v->f->labelling;
    if (l != NULL) {
        conditions_add(&v->conditions, "Labelled", labelling_status(l->state),
                       labelling_reason(l->state), l->text);
    }
}

static void add_covered(struct view *v)
{
    const struct covered *c = v->f->covered;
    if (c == NULL) {
        (void)conditions_keep(&v->conditions, "Covered");
    } else if (c->applies) {
        conditions_add(&v->conditions, "Covered", operator_coverage_status(c),
                       operator_coverage_reason(c), c->text);
    }
}

static void add_exclusive(struct view *v)
{
    const struct exclusive *x = v->f->exclusive;
    if (x != NULL && x->state == EXCLUSIVE_UNKNOWN) {
        (void)conditions_keep(&v->conditions, "Exclusive");
    } else if (x != NULL) {
        conditions_add(&v->conditions, "Exclusive", exclusive_status(x->state),
                       exclusive_reason(x->state), x->text);
    }
}

static void write_remedy(const struct view *v, struct buf *out)
{
    if (v->f->left_out) {
        buf_append_str(out, "The webhook for pods leaves this namespace out: use another one, or "
                            "change the namespaceSelector of its MutatingWebhookConfiguration");
    } else {
        buf_printf(out, "Label the pods' template %s/" SIDECAR_ENABLE ": \"true\"", v->f->prefix);
    }
}

/* What to do about it. */
static void write_tail(const struct view *v, enum pod_verdict verdict, struct buf *out)
{
    buf_append_str(out, kinds[verdict].tail);
    if (verdict == VERDICT_NO_SIDECAR) {
        write_remedy(v, out);
    } else if (verdict == VERDICT_BYPASSED) {
        buf_printf(out, "%s/" SIDECAR_ALLOW_BYPASS ": \"true\" if it is on purpose", v->f->prefix);
    }
    buf_append_char(out, '.');
}

/* "Not answering: a (why), b (why), c (why) and 4 more." */
static void list_names(const struct view *v, enum pod_verdict verdict, struct buf *out)
{
    const struct kind *kind = &kinds[verdict];
    size_t listed = 0;
    if (v->number[verdict] == 0) {
        return;
    }
    buf_printf(out, " %s: ", kind->head);
    for (size_t i = 0; i < v->counted && listed < NAMES_MAX; i++) {
        const struct row *row = &v->rows[i];
        if (row->verdict == verdict) {
            char why[WHY_MAX];
            utf8_copy_plain(why, sizeof why, row->text);
            bool more = kind->with_text && why[0] != '\0';
            buf_printf(out, "%s%s%s%s%s", listed > 0 ? ", " : "", row->pod->name, more ? " (" : "",
                       more ? why : "", more ? ")" : "");
            listed++;
        }
    }
    if (v->number[verdict] > listed) {
        buf_printf(out, " and %zu more", v->number[verdict] - listed);
    }
    write_tail(v, verdict, out);
}

static void write_count(const struct view *v, struct buf *out)
{
    buf_printf(out, "%zu of %zu pods enforce generation %" PRIu64 "%s", v->enforcing, v->counted,
               v->f->generation,
               is_published(v->f) || v->f->given_up ? "." : ", of an earlier spec.");
}

/* How far the rules are enforced, and what is missing. */
static void write_progress(const struct view *v, struct buf *out)
{
    if (v->f->generation == 0) {
        buf_append_str(out, "No rules are published.");
        list_names(v, VERDICT_NO_SIDECAR, out);
    } else if (!is_published(v->f)) {
        write_count(v, out);
        list_names(v, VERDICT_NO_SIDECAR, out);
    } else if (v->counted == 0) {
        buf_append_str(out, "There are no pods.");
    } else {
        write_count(v, out);
        for (enum pod_verdict i = 0; i < VERDICT_ENFORCES; i++) {
            list_names(v, i, out);
        }
    }
}

static enum status_enforced enforced_of(const struct view *v, const char **reason)
{
    enum pod_verdict worst = 0;
    if (v->f->generation != 0 && v->number[VERDICT_NO_SIDECAR] > 0) {
        *reason = kinds[VERDICT_NO_SIDECAR].reason; /* why it may not be published */
        return kinds[VERDICT_NO_SIDECAR].enforced;
    }
    *reason = "NotPublished";
    if (!is_published(v->f)) {
        bool waits =
            v->f->compile_error == NULL && v->f->publish_reason == PUBLISH_WAITS_FOR_HANDOVER;
        return waits ? STATUS_HANDOVER : STATUS_NO_RULES;
    }
    *reason = "NoPods";
    if (v->counted == 0) {
        return STATUS_NO_PODS;
    }
    while (v->number[worst] == 0) {
        worst++;
    }
    *reason = "Enforced";
    if (worst > VERDICT_STARTING || (worst == VERDICT_STARTING && v->enforcing > 0)) {
        return STATUS_ENFORCED;
    }
    *reason = kinds[worst].reason;
    return kinds[worst].enforced;
}

static enum status_enforced add_enforced(struct view *v)
{
    const char *reason = NULL;
    struct buf message = BUF_INIT(MESSAGE_MAX);
    enum status_enforced enforced = enforced_of(v, &reason);
    bool holds = enforced == STATUS_ENFORCED || enforced == STATUS_NO_PODS;
    write_progress(v, &message);
    conditions_set(&v->conditions, "Enforced", holds, reason, xptr(buf_cstr(&message)));
    buf_reset(&message);
    return enforced;
}

/* What is wrong until somebody changes it, of the reasons of Compiled and Published. */
static bool needs_somebody(const char *reason)
{
    static const char *const reasons[] = {"Invalid", "NameTaken", "TooLarge", "HeldBack"};
    bool found = false;
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        found = found || strcmp(reasons[i], reason) == 0;
    }
    return found;
}

/* What the others come to, for who looks at one condition only. */
static bool add_ready(struct view *v)
{
    static const char *const parts[] = {"Compiled", "Published", "Enforced"};
    const cJSON *part = NULL;
    bool ready = true;
    for (size_t i = 0; i < ARRAY_LEN(parts) && ready; i++) {
        part = edit_find(v->conditions.list, "type", parts[i]);
        ready = strcmp(field_text(part, "status"), "True") == 0;
    }
    const char *reason = field_text(part, "reason");
    const char *message = field_text(part, "message");
    conditions_set(&v->conditions, "Ready", ready, reason, message);
    if (!ready && needs_somebody(reason)) {
        conditions_set(&v->conditions, "Stalled", true, reason, message);
    }
    return ready;
}

/* ---- the whole ---- */

/* That of the last one stays: from then on what has its name is ours (shard/map_owner.c). */
static void add_configmap_uid(struct view *v, cJSON *status)
{
    const struct status_facts *f = v->f;
    const char *uid = f->configmap_uid;
    uid = uid != NULL ? uid : field_text(field_get(f->config, "status"), "configMapUID");
    if (uid[0] != '\0') {
        edit_string(&v->ed, status, "configMapUID", uid);
    }
}

static void add_numbers(struct view *v, cJSON *status)
{
    const struct status_facts *f = v->f;
    char text[64];
    if (f->generation != 0) {
        edit_number(&v->ed, status, "generation", (double)f->generation);
        edit_string(&v->ed, status, "checksum", f->checksum);
    }
    if (f->by_namespaces) {
        edit_number(&v->ed, status, "namespaces", (double)f->namespaces);
    }
    add_configmap_uid(v, status);
    edit_number(&v->ed, status, "podCount", (double)v->counted);
    (void)snprintf(text, sizeof text, "%zu/%zu", v->enforcing, v->counted);
    edit_string(&v->ed, status, "enforced", text);
}

cJSON *status_make(const struct status_facts *f, struct status_result *out)
{
    struct view v = {.f = f};
    cJSON *status = cJSON_CreateObject();
    (void)!rfc3339_format(f->now_ms / 1000, v.now);
    judge(&v);
    const cJSON *old = field_get(f->config, "status");
    v.conditions = conditions_begin(&v.ed, status, old, field_generation(f->config), v.now);
    add_numbers(&v, status);
    add_compiled(&v);
    add_labelled(&v);
    add_published(&v);
    add_exclusive(&v);
    out->enforced = add_enforced(&v);
    out->ready = add_ready(&v);
    add_covered(&v);
    route_report_add(&v.conditions, f->routed);
    add_rows(&v, status); /* the last, since it sorts anew */
    free(v.rows);
    xok(v.ed.rc);
    out->changed = !cJSON_Compare(status, old, true);
    return status;
}
