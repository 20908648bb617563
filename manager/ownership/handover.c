/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/handover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "net/clock.h"
#include "json/field.h"
#include "json/json.h"

/* ---- what was published ---- */

static bool is_in(const struct handover_past *p, const char *checksum)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(rules_checksum(p->rules[i]), checksum) == 0) {
            return true;
        }
    }
    return false;
}

static void drop_first(struct handover_past *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rules_unref(p->rules[i]);
    }
    p->count -= count;
    memmove(p->rules, p->rules + count, p->count * sizeof(struct rules *));
}

static bool is_same(const struct rules *a, const struct rules *b)
{
    return strcmp(rules_checksum(a), rules_checksum(b)) == 0;
}

/* By one that says the same, and that others keep too. */
static void replace(struct rules **at, struct rules *rules)
{
    (void)rules_ref(rules);
    rules_unref(*at);
    *at = rules;
}

void handover_note(struct handover_past *p, struct rules *rules)
{
    if (p->count > 0 && is_same(p->rules[p->count - 1], rules)) {
        replace(&p->rules[p->count - 1], rules);
        return;
    }
    if (p->count == HANDOVER_RULES_MAX) {
        drop_first(p, 1);
        p->lost = true;
    }
    p->rules[p->count++] = rules_ref(rules);
}

void handover_settled(struct handover_past *p, struct rules *published)
{
    size_t at = p->count;
    while (at > 0 && !is_same(p->rules[at - 1], published)) {
        at--;
    }
    if (at > 0) {
        drop_first(p, at - 1);
        replace(&p->rules[0], published);
        p->lost = false;
    }
}

void handover_lose(struct handover_past *p)
{
    if (p->count > 1) {
        drop_first(p, p->count - 1);
        p->lost = true;
    }
}

void handover_deinit(struct handover_past *p)
{
    drop_first(p, p->count);
}

/* ---- pods ---- */

/* Whether all rules are known that the pod can ever have been given. */
static bool is_all_known(const struct pod *p, const struct rules_map *published,
                         const struct handover_past *past)
{
    const struct rules *first = published == NULL ? NULL : published->rules;
    if (past != NULL && past->count > 0) {
        first = past->rules[0];
    }
    if (past != NULL && past->lost) {
        return false;
    }
    return first == NULL ? published == NULL && !p->told : rules_generation(first) == 1;
}

/* It never told what it enforces, or that it enforces nothing. What it takes next is what stands in
 * the ConfigMap, or stood there: its kubelet may be behind. One that has no address yet has not
 * started. Unless that is to be proven, one that does not answer for some time is taken for one
 * that starts, and a kubelet for one that is not behind what is forgotten. */
static enum handover_hold hold_of_new(const struct pod *p, const struct probe_result *r,
                                      const struct rules_map *published,
                                      const struct handover_past *past, enum handover_mode mode)
{
    bool awaited = r != NULL && (!r->asked || (p->ready && r->state == PROBE_WAITING));
    awaited = mode == HANDOVER_STRICT ? p->ip[0] != '\0' : awaited;
    return awaited && !is_all_known(p, published, past) ? HANDOVER_ANYTHING : HANDOVER_PAST;
}

/* What a pod does not go back behind. */
struct confirmed {
    uint64_t generation;
    const char *checksum;
    bool enforcing;
};

/* What it said, or what was required of it when it had certainly stopped: of the rules that it said
 * to have, too, under which something may have been under way of earlier ones. */
static struct confirmed confirmed_of(const struct probe_result *r)
{
    bool same = r->required == r->generation && strcmp(r->required_checksum, r->checksum) == 0;
    if (r->required > r->generation || same) {
        return (struct confirmed){r->required, r->required_checksum, true};
    }
    return (struct confirmed){r->generation, r->checksum, r->enforcing};
}

enum handover_hold handover_hold_of(const struct pod *p, const struct probe_result *r,
                                    const char *shard, const struct rules_map *published,
                                    const struct handover_past *past, enum handover_mode mode)
{
    bool silent = r == NULL || (r->asked && r->state != PROBE_ANSWERED);
    bool left = p->ending && silent && mode != HANDOVER_STRICT;
    if (p->over || p->let_go || p->proxy_port == 0 || left) {
        return HANDOVER_NOTHING;
    }
    if (r != NULL && r->bypassed && !p->allow_bypass) {
        return HANDOVER_ANYTHING; /* whatever its proxy confirms */
    }
    if (r == NULL || r->generation == 0) {
        return hold_of_new(p, r, published, past, mode);
    }
    const struct confirmed c = confirmed_of(r);
    /* By generation: rules may have come back that were others in between. */
    bool current = published != NULL && published->generation == c.generation &&
                   strcmp(published->checksum, c.checksum) == 0 && strcmp(r->shard, shard) == 0;
    if (current && c.enforcing) {
        return HANDOVER_PUBLISHED; /* it does not go back, even if it is silent now */
    }
    bool known =
        past != NULL && !past->lost && strcmp(r->shard, shard) == 0 && is_in(past, c.checksum);
    /* What is under way began under what it enforced before, which only who saw that knows. */
    bool before = known && (c.enforcing || past->count > 1);
    return before ? HANDOVER_PAST : HANDOVER_ANYTHING;
}

bool handover_unsettled(const struct probe_result *r)
{
    return r != NULL && r->state == PROBE_ANSWERED && r->generation != 0 && !r->enforcing;
}

/* ---- the rules between ---- */

static cJSON *document_of(const struct rules *rules)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    xok(rules_to_json(rules, &text)); /* it has room for any */
    cJSON *document = xptr(json_parse((const char *)buf_data(&text), text.len, &e));
    buf_reset(&text);
    return document;
}

static cJSON *limits_of(const cJSON *document)
{
    return cJSON_GetObjectItemCaseSensitive(field_get(document, "spec"), "limits");
}

/* The text of a limit: two that say the same have the same one. */
struct known {
    struct table_node node;
    bool known;
    char text[];
};

/* Whether it was known. */
static bool know(struct table *t, const cJSON *limit)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    xok(json_canonical(limit, &text)); /* part of a document that is no longer */
    struct known *k = xptr(TABLE_PROVIDE(t, buf_slice(&text), struct known, text));
    bool known = k->known;
    k->known = true;
    buf_reset(&text);
    return known;
}

/* Limits on one resource are ANDed. Each side may have as many as rules can. */
static void add_limits(cJSON *document, const cJSON *other)
{
    struct table all = {.count = 0};
    cJSON *limits = limits_of(document);
    const cJSON *limit = NULL;
    cJSON_ArrayForEach(limit, limits)
    {
        (void)know(&all, limit);
    }
    cJSON_ArrayForEach(limit, limits_of(other))
    {
        if (!know(&all, limit)) {
            cJSON_AddItemToArray(limits, cJSON_Duplicate(limit, true));
        }
    }
    for (struct table_node *n = NULL; (n = table_next(&all, NULL)) != NULL;) {
        table_remove(&all, n);
        free(LIST_ITEM(n, struct known, node));
    }
    table_deinit(&all);
}

static struct rules *parse(const cJSON *document, struct err *e)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct rules *rules = NULL;
    if (xrc(json_canonical(document, &text)) != 0) {
        (void)err_set(e, -E2BIG, "the rules have more than %d bytes", RULES_TEXT_MAX);
    } else if ((rules = rules_parse_plain((const char *)buf_data(&text), text.len, e)) == NULL) {
        xerr(e);
    }
    buf_reset(&text);
    return rules;
}

struct rules *handover_between(const struct rules *from, const struct rules *to,
                               uint64_t generation, struct err *e)
{
    cJSON *old = document_of(from);
    cJSON *document = document_of(to);
    add_limits(document, old);
    cJSON_Delete(old);
    cJSON_DeleteItemFromObjectCaseSensitive(document, "checksum");
    cJSON_DeleteItemFromObjectCaseSensitive(document, "generation");
    cJSON_AddNumberToObject(document, "generation", (double)generation);
    struct rules *made = parse(document, e);
    cJSON_Delete(document);
    return made;
}
