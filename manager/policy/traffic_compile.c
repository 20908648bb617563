/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each policy has its entry as text already (policy.h). Those that have a place are chosen oldest
 * first, and written by name.
 */
#include "policy/traffic_compile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "kube/selector_overlap.h"
#include "json/field.h"
#include "json/json.h"
#include "json/scanner.h"

/* Bytes and values beside the entries and zones: their lists, and a checksum. */
#define SHELL                                                                                      \
    "{'apiVersion':'" TRAFFIC_API_VERSION "','checksum':'','generation':18446744073709551615,"     \
    "'kind':'" TRAFFIC_KIND "','shard':{'name':'','namespace':''},"                                \
    "'spec':{'breakers':[],'faults':[],'zones':{}}}"

enum { SHELL_LEN = sizeof SHELL - 1 + TRAFFIC_CHECKSUM_LEN, SHELL_VALUES = 16 };

/* A text of that length has room for what else the parser wants to stand around the lists. */
#define ROOM_MAX ((size_t)TRAFFIC_TEXT_MAX - 1024)

struct candidate {
    size_t index; /* in the list of the source */
    const struct policy *policy;
    struct policy_entry entry; /* `text` NULL: it is left out */
    char *kept;                /* its text, and */
    cJSON *zones;              /* its zones, if it comes from what is published */
};

struct compilation {
    const struct traffic_source *source;
    enum traffic_outcome *outcomes;
    cJSON *published; /* the document that is; NULL: there is none that matters */
    struct candidate *items;
    size_t count;
    /* Taken so far: */
    struct traffic_counts counts;
    size_t bytes;
    size_t values;
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

static void add_zone(cJSON *zones, const char *name, const char *rule)
{
    if (field_get(zones, name) == NULL) {
        (void)xptr(cJSON_AddStringToObject(zones, name, rule));
    }
}

/* What it has of what is bounded, and its zones. */
static void count_entry(const struct compilation *c, const cJSON *entry, struct candidate *x)
{
    const struct schema_path at = SCHEMA_AT(NULL, "spec", field_get(entry, "spec"));
    const cJSON *zones = field_get(field_get(c->published, "spec"), "zones");
    struct traffic_reading reading = {.on_finding = NULL};
    struct schema_reader r = traffic_reader(&reading);
    struct traffic_spec out = {.selector = NULL};
    (void)!xrc(schema_read(&r, policy_spec_rows(policy_kind(x->policy)), &at, &out));
    const struct traffic_fault *faults = out.faults.items;
    x->zones = xptr(cJSON_CreateObject());
    for (size_t i = 0; i < out.faults.count; i++) {
        const char *name = faults[i].time == NULL ? "" : faults[i].time->zone;
        if (name[0] != '\0') {
            add_zone(x->zones, name, field_text(zones, name));
        }
    }
    x->entry.counts = reading.counts;
    x->entry.zones = x->zones;
    traffic_reading_deinit(&reading);
}

static void keep(const struct compilation *c, struct candidate *x)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX); /* as the document that it is of */
    const cJSON *entry = find_published(c, x->policy);
    if (entry == NULL) {
        return;
    }
    xok(json_canonical(entry, &text));
    count_entry(c, entry, x);
    x->entry.len = text.len;
    x->entry.values = json_count_values(buf_slice(&text));
    x->kept = xptr(buf_take_str(&text));
    x->entry.text = x->kept;
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

/* Bytes and values of its zones, should no other policy name them. */
static size_t zones_size(const cJSON *zones, size_t *values)
{
    size_t bytes = 0;
    const cJSON *zone;
    *values = 0;
    cJSON_ArrayForEach(zone, zones)
    {
        bytes += strlen(zone->string) + strlen(zone->valuestring) + sizeof "\"\":\"\",";
        ++*values;
    }
    return bytes;
}

/* What it adds, and a comma. */
static enum traffic_outcome choose(struct compilation *c, const struct candidate *x)
{
    size_t values = 0;
    size_t bytes = x->entry.len + 1 + zones_size(x->entry.zones, &values);
    size_t room = c->source->room < ROOM_MAX ? c->source->room : ROOM_MAX;
    values += x->entry.values;
    struct traffic_counts sum = c->counts;
    if (values > TRAFFIC_VALUES_MAX - c->values || !traffic_counts_add(&sum, &x->entry.counts)) {
        return TRAFFIC_TOO_MANY;
    }
    if (c->bytes > room || bytes > room - c->bytes) {
        return TRAFFIC_TOO_LARGE;
    }
    c->counts = sum;
    c->bytes += bytes;
    c->values += values;
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
        if (x->entry.text != NULL) {
            *outcome = choose(c, x);
            x->entry.text = traffic_outcome_in(*outcome) ? x->entry.text : NULL;
        }
    }
}

/* ---- writing ---- */

/* "name":[...] of the entries of a kind; nothing if there are none. */
static void write_list(const struct compilation *c, enum traffic_kind kind, struct buf *out)
{
    bool any = false;
    for (size_t i = 0; i < c->count; i++) {
        const struct candidate *x = &c->items[i];
        if (x->entry.text != NULL && policy_kind(x->policy) == kind) {
            (void)buf_printf(out, any ? "," : "\"%s\":[", lists[kind]);
            (void)buf_append(out, x->entry.text, x->entry.len);
            any = true;
        }
    }
    (void)buf_append_str(out, any ? "]," : "");
}

/* Those of new policies first: they may be newer. */
static void write_zones(const struct compilation *c, struct buf *out)
{
    cJSON *zones = xptr(cJSON_CreateObject());
    const cJSON *zone;
    for (int kept = 0; kept <= 1; kept++) {
        for (size_t i = 0; i < c->count; i++) {
            const struct candidate *x = &c->items[i];
            if (x->entry.text != NULL && (x->kept != NULL) == (kept == 1)) {
                cJSON_ArrayForEach(zone, x->entry.zones)
                {
                    add_zone(zones, zone->string, zone->valuestring);
                }
            }
        }
    }
    if (zones->child == NULL) {
        buf_truncate(out, out->len - 1); /* the comma of the lists, of which there is one */
    } else {
        (void)buf_append_str(out, "\"zones\":");
        (void)json_canonical(zones, out);
    }
    cJSON_Delete(zones);
}

/* What proxies will make of it; it has no checksum yet. */
static struct traffic *make_document(const struct compilation *c, struct err *e)
{
    const struct traffic_source *s = c->source;
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    (void)buf_printf(&text,
                     "{\"apiVersion\":\"" TRAFFIC_API_VERSION "\",\"generation\":%" PRIu64
                     ",\"kind\":\"" TRAFFIC_KIND "\",\"shard\":{\"name\":",
                     s->generation);
    (void)json_quote(s->shard, &text);
    (void)buf_append_str(&text, ",\"namespace\":");
    (void)json_quote(s->ns, &text);
    (void)buf_append_str(&text, "},\"spec\":{");
    write_list(c, TRAFFIC_BREAKER, &text);
    write_list(c, TRAFFIC_FAULT_INJECTION, &text);
    write_zones(c, &text);
    (void)buf_append_str(&text, "}}");
    xok(buf_error(&text)); /* ROOM_MAX is less */
    struct traffic *made = traffic_parse((const char *)buf_data(&text), text.len, e);
    xerr(e);
    buf_reset(&text);
    return made;
}

static int write_document(struct compilation *c, struct buf *out, struct traffic_compile_result *r,
                          struct err *e)
{
    qsort(c->items, c->count, sizeof *c->items, compare_name);
    struct traffic *made = make_document(c, e);
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
    size_t policies = c.counts.of[TRAFFIC_BOUND_POLICIES];
    int rc = policies > 0 ? write_document(&c, out, r, e) : 0;
    r->compiled = rc == 0 ? policies : 0;
    for (size_t i = 0; i < c.count; i++) {
        free(c.items[i].kept);
        cJSON_Delete(c.items[i].zones);
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
