/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each policy has its entry as text already, which the parser took in a document of its own
 * (policy.h). Those that have a place are chosen oldest first, and written by name.
 */
#include "policy/traffic_compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "kube/selector_overlap.h"
#include "policy/policy_check.h"
#include "json/field.h"
#include "json/json.h"
#include "json/scanner.h"

/* Bytes and values beside the entries: both lists, and a checksum. */
#define SHELL                                                                                      \
    "{'apiVersion':'" TRAFFIC_API_VERSION "','checksum':'','generation':18446744073709551615,"     \
    "'kind':'" TRAFFIC_KIND "','shard':{'name':'','namespace':''},"                                \
    "'spec':{'breakers':[],'faults':[]}}"

enum { SHELL_LEN = sizeof SHELL - 1 + TRAFFIC_CHECKSUM_LEN, SHELL_VALUES = 16, ROW_LISTS = 4 };

/* A text of that length has room for what else the parser wants to stand around the lists. */
#define ROOM_MAX ((size_t)TRAFFIC_TEXT_MAX - 1024)

struct candidate {
    size_t index; /* in the list of the source */
    const struct policy *policy;
    const char *text; /* of its entry; NULL: it is left out */
    char *kept;       /* the same, if it comes from what is published */
    struct policy_entry entry;
};

struct compilation {
    const struct traffic_source *source;
    enum traffic_outcome *outcomes;
    cJSON *published; /* the spec of what is; NULL: there is nothing */
    struct candidate *items;
    size_t count;
    /* Taken so far: */
    size_t policies;
    size_t bytes;
    size_t names;
    size_t values;
    size_t intercepts;
    size_t patterns;
    size_t rows[TRAFFIC_FAULT_INJECTION + 1]; /* of each kind */
    size_t externals[TRAFFIC_FAULT_INJECTION + 1];
};

/* ---- outcomes ---- */

const char *traffic_outcome_text(enum traffic_outcome o)
{
    static const char *const texts[] = {
        [TRAFFIC_COMPILED] = "Compiled", [TRAFFIC_KEPT] = "Invalid",
        [TRAFFIC_DISABLED] = "Disabled", [TRAFFIC_INVALID] = "Invalid",
        [TRAFFIC_EMPTY] = "Empty",       [TRAFFIC_TOO_MANY] = "TooMany",
        [TRAFFIC_TOO_LARGE] = "TooLarge"};
    return texts[o];
}

bool traffic_outcome_in(enum traffic_outcome o)
{
    return o == TRAFFIC_COMPILED || o == TRAFFIC_KEPT;
}

/* ---- what is published ---- */

static const char *const lists[] = {
    [TRAFFIC_BREAKER] = "breakers", [TRAFFIC_FAULT_INJECTION] = "faults"};

static bool any_invalid(const struct traffic_source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (!policy_valid(s->list[i])) {
            return true;
        }
    }
    return false;
}

/* Reads it as a tree, if something of it may have to stay. */
static void read_published(struct compilation *c)
{
    struct buf text = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX); /* twice what there can be */
    struct err ignored = ERR_INIT;
    if (c->source->published != NULL && any_invalid(c->source)) {
        xok(traffic_to_json(c->source->published, &text));
        c->published = xptr(json_parse((const char *)buf_data(&text), text.len, &ignored));
    }
    buf_reset(&text);
}

/* The entry of the same object. */
static const cJSON *find_published(const struct compilation *c, const struct policy *p)
{
    const cJSON *item;
    const char *list = lists[policy_kind(p)];
    cJSON_ArrayForEach(item, field_get(field_get(c->published, "spec"), list))
    {
        if (policy_uid(p)[0] != '\0' && strcmp(field_text(item, "uid"), policy_uid(p)) == 0 &&
            strcmp(field_text(item, "name"), policy_name(p)) == 0) {
            return item;
        }
    }
    return NULL;
}

static void count_rows(const cJSON *rule, struct policy_entry *out)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, field_get(rule, "resources"))
    {
        const cJSON *list;
        out->rows++;
        out->names += ROW_LISTS - (size_t)cJSON_GetArraySize(row); /* `*` for each absent one */
        cJSON_ArrayForEach(list, row)
        {
            out->names += (size_t)cJSON_GetArraySize(list);
        }
    }
}

/* Urls, or http matches and the expressions in them. */
static void count_externals(const cJSON *rule, struct policy_entry *out)
{
    const cJSON *http;
    out->externals += (size_t)cJSON_GetArraySize(field_get(rule, "urls"));
    cJSON_ArrayForEach(http, field_get(rule, "http"))
    {
        out->externals++;
        out->names += (size_t)cJSON_GetArraySize(field_get(http, "headers"));
        out->patterns += field_get(field_get(http, "host"), "regex") != NULL;
        out->patterns += field_get(field_get(http, "path"), "regex") != NULL;
    }
}

static void count_intercepts(const cJSON *entry, struct policy_entry *out)
{
    const cJSON *rule;
    cJSON_ArrayForEach(rule, field_get(entry, "intercepts"))
    {
        bool regexp = strcmp(field_text(rule, "content"), "Regexp") == 0;
        size_t contents = (size_t)cJSON_GetArraySize(field_get(rule, "contents"));
        out->intercepts++;
        out->patterns += regexp ? contents : 0;
        out->names += contents + (size_t)cJSON_GetArraySize(field_get(rule, "methods"));
    }
}

static void count_entry(const cJSON *entry, const char *rules, struct policy_entry *out)
{
    const cJSON *rule;
    cJSON_ArrayForEach(rule, field_get(entry, rules))
    {
        count_rows(rule, out);
        count_externals(rule, out);
    }
    count_intercepts(entry, out);
}

static void keep(const struct compilation *c, struct candidate *x)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX); /* as the document that it is of */
    const cJSON *entry = find_published(c, x->policy);
    if (entry == NULL) {
        return;
    }
    bool breaker = policy_kind(x->policy) == TRAFFIC_BREAKER;
    xok(json_canonical(entry, &text));
    count_entry(entry, breaker ? "limitings" : "rules", &x->entry);
    x->entry.len = text.len;
    x->entry.values = json_count_values(buf_slice(&text));
    x->kept = xptr(buf_take_str(&text));
    x->text = x->kept;
}

/* ---- choosing ---- */

static int compare_age(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    int order = strcmp(policy_created(x->policy), policy_created(y->policy));
    order = order != 0 ? order : strcmp(policy_name(x->policy), policy_name(y->policy));
    return order != 0 ? order : (int)policy_kind(x->policy) - (int)policy_kind(y->policy);
}

static int compare_name(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    return strcmp(policy_name(x->policy), policy_name(y->policy));
}

/* Whether there are places for so many more of what is bounded. */
static bool fits(const struct compilation *c, enum traffic_kind kind, const struct policy_entry *n)
{
    return c->policies < TRAFFIC_POLICIES_MAX && n->rows <= TRAFFIC_ROWS_MAX - c->rows[kind] &&
           n->externals <= TRAFFIC_EXTERNAL_MAX - c->externals[kind] &&
           n->intercepts <= TRAFFIC_INTERCEPTS_MAX - c->intercepts &&
           n->patterns <= TRAFFIC_PATTERNS_MAX - c->patterns &&
           n->names <= TRAFFIC_NAMES_MAX - c->names && n->values <= TRAFFIC_VALUES_MAX - c->values;
}

/* What it adds, and a comma. */
static enum traffic_outcome choose(struct compilation *c, const struct candidate *x)
{
    const struct policy_entry *n = &x->entry;
    enum traffic_kind kind = policy_kind(x->policy);
    if (!fits(c, kind, n)) {
        return TRAFFIC_TOO_MANY;
    }
    size_t room = c->source->room < ROOM_MAX ? c->source->room : ROOM_MAX;
    if (c->bytes > room || n->len + 1 > room - c->bytes) {
        return TRAFFIC_TOO_LARGE;
    }
    c->policies++;
    c->bytes += n->len + 1;
    c->names += n->names;
    c->values += n->values;
    c->intercepts += n->intercepts;
    c->patterns += n->patterns;
    c->rows[kind] += n->rows;
    c->externals[kind] += n->externals;
    return policy_valid(x->policy) ? TRAFFIC_COMPILED : TRAFFIC_KEPT;
}

/* Finds the entry of a candidate; without one it is left out, and the outcome says why. */
static enum traffic_outcome find_entry(const struct compilation *c, struct candidate *x)
{
    const struct policy_entry *entry = policy_entry(x->policy);
    if (policy_disabled(x->policy) || policy_deleting(x->policy)) {
        return TRAFFIC_DISABLED;
    }
    if (!policy_valid(x->policy)) {
        keep(c, x);
        return TRAFFIC_INVALID;
    }
    if (entry != NULL) {
        x->entry = *entry;
        x->text = entry->text;
    }
    return TRAFFIC_EMPTY;
}

static void choose_all(struct compilation *c)
{
    const struct traffic_source *s = c->source;
    for (size_t i = 0; i < s->count; i++) {
        c->items[i] = (struct candidate){.index = i, .policy = s->list[i]};
    }
    c->count = s->count;
    qsort(c->items, c->count, sizeof *c->items, compare_age);
    for (size_t i = 0; i < c->count; i++) {
        struct candidate *x = &c->items[i];
        enum traffic_outcome *outcome = &c->outcomes[x->index];
        *outcome = find_entry(c, x);
        if (x->text != NULL) {
            *outcome = choose(c, x);
            x->text = traffic_outcome_in(*outcome) ? x->text : NULL;
        }
    }
}

/* ---- writing ---- */

static void write_list(const struct compilation *c, enum traffic_kind kind, struct buf *out)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct candidate *x = &c->items[i];
        if (x->text != NULL && policy_kind(x->policy) == kind) {
            (void)buf_append(out, ",", out->len > 0 ? 1 : 0);
            (void)buf_append(out, x->text, x->entry.len);
        }
    }
}

static int write_document(struct compilation *c, struct buf *out, struct traffic_compile_result *r,
                          struct err *e)
{
    const struct traffic_source *s = c->source;
    struct buf breakers = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct buf faults = BUF_INIT(TRAFFIC_TEXT_MAX);
    qsort(c->items, c->count, sizeof *c->items, compare_name);
    write_list(c, TRAFFIC_BREAKER, &breakers);
    write_list(c, TRAFFIC_FAULT_INJECTION, &faults);
    xok(buf_error(&breakers)); /* ROOM_MAX is less */
    xok(buf_error(&faults));
    struct traffic *made = policy_check_document(s->ns, s->shard, s->generation,
                                                 buf_slice(&breakers), buf_slice(&faults), e);
    buf_reset(&breakers);
    buf_reset(&faults);
    if (made == NULL) {
        return e->code;
    }
    (void)snprintf(r->checksum, sizeof r->checksum, "%s", traffic_checksum(made));
    int rc = xrc(traffic_to_json(made, out));
    traffic_unref(made);
    return rc == 0 ? 0 : err_set(e, rc, "the traffic document cannot be written: %s", err_text(rc));
}

int traffic_compile(const struct traffic_source *s, struct buf *out,
                    struct traffic_compile_result *r, struct err *e)
{
    struct compilation c = {.source = s, .outcomes = r->outcomes, .values = SHELL_VALUES};
    c.bytes = SHELL_LEN + strlen(s->ns) + strlen(s->shard);
    c.items = xcalloc(s->count + 1, sizeof *c.items);
    r->checksum[0] = '\0';
    read_published(&c);
    choose_all(&c);
    int rc = c.policies > 0 ? write_document(&c, out, r, e) : 0;
    r->compiled = rc == 0 ? c.policies : 0;
    for (size_t i = 0; i < c.count; i++) {
        free(c.items[i].kept);
    }
    free(c.items);
    cJSON_Delete(c.published);
    return rc;
}

bool traffic_concerns(const struct selector *pods, const struct policy *p)
{
    const struct selector *wanted = policy_selector(p);
    return !policy_valid(p) || wanted == NULL ||
           (selector_satisfiable(wanted) &&
            (pods == NULL || selector_overlap(pods, wanted) != OVERLAP_NONE));
}
