/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/sharing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "config/sharding_config.h"
#include "kube/name.h"
#include "rules/sharding.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

/* ---- names ---- */

const cJSON *sharing_of(const cJSON *config)
{
    const cJSON *list = field_get(field_get(config, "spec"), SHARING_FIELD);
    const cJSON *item;
    bool right = cJSON_IsArray(list) && cJSON_GetArraySize(list) <= SHARDING_SHARED_MAX;
    cJSON_ArrayForEach(item, list)
    {
        right = right && cJSON_IsString(item) &&
                sharding_check_shared(slice_str(item->valuestring)) == NULL;
    }
    return right && list->child != NULL ? list : NULL;
}

/* ---- those of all configs ---- */

bool sharing_set_has(const struct sharing_set *s, const char *ns)
{
    return s != NULL && s->count > 0 &&
           bsearch(&ns, s->names, s->count, sizeof *s->names, array_compare_texts) != NULL;
}

static void add_name(struct sharing_set *s, const char *name)
{
    if (sharing_set_has(s, name)) {
        return;
    }
    s->names = xrealloc(s->names, (s->count + 1) * sizeof *s->names);
    size_t at = s->count++;
    for (; at > 0 && strcmp(s->names[at - 1], name) > 0; at--) {
        s->names[at] = s->names[at - 1];
    }
    s->names[at] = xstrdup(name);
}

int sharing_check_flag(const struct flag_list *names, struct err *e)
{
    for (size_t i = 0; i < names->count; i++) {
        const char *why = sharding_check_shared(slice_str(names->items[i]));
        if (why != NULL) {
            return err_set(e, -EINVAL, "--shareable-namespaces: Invalid value: \"%.100s\": %s",
                           names->items[i], why);
        }
    }
    return 0;
}

bool sharing_allowed(const struct sharing_consent *c, const char *ns)
{
    bool allowed = (c->ns != NULL && strcmp(c->ns, ns) == 0) || sharing_set_has(c->known, ns);
    for (size_t i = 0; c->any != NULL && i < c->any->count && !allowed; i++) {
        allowed = strcmp(c->any->items[i], ns) == 0;
    }
    return allowed;
}

void sharing_set_add(struct sharing_set *s, const cJSON *config, const struct sharing_consent *c)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, sharing_of(config))
    {
        if (sharing_allowed(c, item->valuestring)) {
            add_name(s, item->valuestring);
        }
    }
}

bool sharing_set_equal(const struct sharing_set *a, const struct sharing_set *b)
{
    bool same = a->count == b->count && a->unknown == b->unknown;
    for (size_t i = 0; i < a->count && same; i++) {
        same = strcmp(a->names[i], b->names[i]) == 0;
    }
    return same;
}

void sharing_set_deinit(struct sharing_set *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->names[i]);
    }
    free(s->names);
    *s = (struct sharing_set){.count = 0};
}

/* ---- what a limit selects ---- */

static bool is_key(const cJSON *requirement, const char *key)
{
    return strcmp(field_text(requirement, "key"), key) == 0;
}

static bool has_operator(const cJSON *requirement, const char *name)
{
    return strcmp(field_text(requirement, "operator"), name) == 0;
}

static bool are_strings(const cJSON *values)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, values)
    {
        if (!cJSON_IsString(item)) {
            return false;
        }
    }
    return cJSON_IsArray(values);
}

/* Names for a requirement that lets these hashes through; NULL: one on names. By the hash nothing
 * is let through that is not shared: the write fence would, too. */
static void add_names(struct edit *ed, const struct sharing *s, cJSON *values, const cJSON *hashes)
{
    const cJSON *item;
    for (size_t i = 0; s->all != NULL && i < s->all->count; i++) {
        char hash[16];
        (void)snprintf(hash, sizeof hash, "%u", sharding_hash(s->all->names[i]));
        if (hashes != NULL && field_has(hashes, hash) && !field_has(s->own, s->all->names[i])) {
            edit_append_string(ed, values, s->all->names[i]);
        }
    }
    cJSON_ArrayForEach(item, s->own)
    {
        bool passes =
            hashes == NULL || s->all == NULL || sharing_set_has(s->all, item->valuestring);
        if (passes && !field_has(values, item->valuestring)) {
            edit_append_string(ed, values, item->valuestring);
        }
    }
}

/* NotIn becomes In of all the others, so that no name passes that is not listed. */
static void list_other_hashes(struct edit *ed, cJSON *requirement)
{
    cJSON *others = cJSON_CreateArray();
    const cJSON *values = field_get(requirement, "values");
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        char hash[16];
        (void)snprintf(hash, sizeof hash, "%u", i);
        if (!field_has(values, hash)) {
            edit_append_string(ed, others, hash);
        }
    }
    edit_string(ed, requirement, "operator", "In");
    edit_set(ed, requirement, "values", others);
}

static void widen_hashes(struct edit *ed, const struct sharing *s, cJSON *requirement)
{
    cJSON *values = cJSON_GetObjectItemCaseSensitive(requirement, "values");
    bool all_but = has_operator(requirement, "NotIn") && are_strings(values) &&
                   values->child != NULL; /* without any it is refused */
    if (all_but) {
        list_other_hashes(ed, requirement);
        values = cJSON_GetObjectItemCaseSensitive(requirement, "values");
    }
    if (all_but || (has_operator(requirement, "In") && are_strings(values))) {
        add_names(ed, s, values, values);
    }
}

/* Without any value left, it asks for the label alone. */
static void keep_others(struct edit *ed, const struct sharing *s, cJSON *requirement, cJSON *values)
{
    cJSON *next = NULL;
    bool any = values->child != NULL;
    for (cJSON *item = values->child; item != NULL; item = next) {
        next = item->next;
        if (field_has(s->own, item->valuestring)) {
            cJSON_Delete(cJSON_DetachItemViaPointer(values, item));
        }
    }
    if (any && values->child == NULL) {
        edit_string(ed, requirement, "operator", "Exists");
        cJSON_DeleteItemFromObjectCaseSensitive(requirement, "values");
    }
}

static void widen_namespaces(struct edit *ed, const struct sharing *s, cJSON *requirement)
{
    cJSON *values = cJSON_GetObjectItemCaseSensitive(requirement, "values");
    if (s->own == NULL || !are_strings(values)) {
        return;
    }
    if (has_operator(requirement, "In")) {
        add_names(ed, s, values, NULL);
    } else if (has_operator(requirement, "NotIn")) {
        keep_others(ed, s, requirement, values);
    }
}

/* matchLabels can name one value only. */
static void move_label(struct edit *ed, cJSON *label_selector, const char *key)
{
    cJSON *labels = cJSON_GetObjectItemCaseSensitive(label_selector, "matchLabels");
    const cJSON *value = field_get(labels, key);
    const cJSON *expressions = field_get(label_selector, "matchExpressions");
    if (!cJSON_IsString(value) || (expressions != NULL && !cJSON_IsArray(expressions))) {
        return;
    }
    cJSON *requirement = edit_append_object(ed, edit_array(ed, label_selector, "matchExpressions"));
    edit_string(ed, requirement, "key", key);
    edit_string(ed, requirement, "operator", "In");
    edit_append_string(ed, edit_array(ed, requirement, "values"), value->valuestring);
    cJSON_DeleteItemFromObjectCaseSensitive(labels, key);
}

void sharing_widen(const struct sharing *s, cJSON *label_selector)
{
    struct edit ed = {.rc = 0};
    bool any = s->own != NULL || (s->all != NULL && s->all->count > 0);
    if (any) {
        move_label(&ed, label_selector, s->namespace_key);
        move_label(&ed, label_selector, s->hash_key);
    }
    cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(label_selector, "matchExpressions"))
    {
        if (is_key(item, s->hash_key)) {
            widen_hashes(&ed, s, item);
        } else if (is_key(item, s->namespace_key)) {
            widen_namespaces(&ed, s, item);
        }
    }
}

struct selector *sharing_widen_names(const struct sharing *s, const struct selector *names)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX); /* room for that many names */
    size_t count;
    const struct selector_requirement *r = selector_requirements(names, &count);
    bool some = count == 1 && r[0].op == SELECTOR_IN;
    const char *between = "";
    (void)buf_printf(&text, "%s in (", s->namespace_key);
    for (size_t i = 0; some && i < r[0].value_count; i++) {
        (void)buf_printf(&text, "%s%s", between, r[0].values[i]);
        between = ",";
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, s->own)
    {
        (void)buf_printf(&text, "%s%s", between, item->valuestring);
        between = ",";
    }
    xok(buf_append_char(&text, ')'));
    struct selector *made = xptr(selector_parse(buf_slice(&text), NULL));
    buf_reset(&text);
    return made;
}

/* ---- what is not shared ---- */

static bool asks_for(const struct selector *s, const char *key)
{
    size_t count;
    const struct selector_requirement *r = selector_requirements(s, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(r[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

static void write_exclusion(struct buf *out, const char *key, const cJSON *own,
                            const struct sharing_set *all)
{
    const char *between = "";
    const cJSON *item;
    (void)buf_printf(out, ",%s notin (", key);
    cJSON_ArrayForEach(item, own)
    {
        (void)buf_printf(out, "%s%s", between, item->valuestring);
        between = ",";
    }
    for (size_t i = 0; all != NULL && i < all->count; i++) {
        (void)buf_printf(out, "%s%s", between, all->names[i]);
        between = ",";
    }
    (void)buf_append_char(out, ')');
}

/* A name that stands for a hash of the shard's own is left out with those that are shared: it goes
 * where the hash goes. False: the selector would be too long. */
static bool narrow(cJSON *limit, const struct rules_labels *keys, const cJSON *own,
                   const struct sharing_set *all)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    struct edit ed = {.rc = 0};
    struct err e = ERR_INIT;
    bool fits = true;
    const char *old = field_text(limit, "selector");
    struct selector *selector = selector_parse(slice_str(old), &e);
    if (selector == NULL) { /* canonical text may be longer than what was written */
        xerr(&e);
        return false;
    }
    bool by_hash = asks_for(selector, keys->shard_hash);
    bool by_name = asks_for(selector, keys->namespace);
    if (by_hash || by_name) {
        (void)buf_append_str(&text, old);
        if (by_hash) {
            write_exclusion(&text, keys->shard_hash, own, all);
        }
        if (own != NULL) {
            write_exclusion(&text, keys->namespace, own, NULL);
        }
        fits = xrc(buf_error(&text)) == 0;
        if (fits) {
            edit_string(&ed, limit, "selector", xptr(buf_cstr(&text)));
        }
    }
    selector_free(selector);
    buf_reset(&text);
    return fits;
}

/* ---- what is shared alone ---- */

static bool asks_for_namespaces(const char *text, const struct rules_labels *keys)
{
    struct err e = ERR_INIT;
    struct selector *selector = selector_parse(slice_str(text), &e);
    if (selector == NULL) { /* canonical text may be longer than what was written */
        xerr(&e);
        return false;
    }
    bool asks = asks_for(selector, keys->shard_hash) || asks_for(selector, keys->namespace);
    selector_free(selector);
    return asks;
}

/* By the namespaces' names, if the limit knows namespaces at all, and that is not too long. */
static void show_shared(cJSON *limit, const struct rules_labels *keys, const cJSON *own)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    struct edit ed = {.rc = 0};
    const char *old = field_text(limit, "selector");
    if (own != NULL && asks_for_namespaces(old, keys)) {
        const char *between = "";
        const cJSON *item;
        (void)buf_printf(&text, "%s,%s in (", old, keys->namespace);
        cJSON_ArrayForEach(item, own)
        {
            (void)buf_printf(&text, "%s%s", between, item->valuestring);
            between = ",";
        }
        (void)buf_append_char(&text, ')');
    }
    bool shares = text.len > 0 && xrc(buf_error(&text)) == 0;
    edit_string(&ed, limit, "selector", shares ? xptr(buf_cstr(&text)) : SELECTOR_NOTHING);
    buf_reset(&text);
}

void sharing_hide(cJSON *limits, const struct rules_labels *keys, const cJSON *own)
{
    struct edit ed = {.rc = 0};
    cJSON *limit;
    cJSON_ArrayForEach(limit, limits)
    {
        show_shared(limit, keys, own);
    }
    if (limits->child == NULL) {
        limit = edit_append_object(&ed, limits);
        edit_append_string(&ed, edit_array(&ed, limit, "apiGroups"), "*");
        edit_append_string(&ed, edit_array(&ed, limit, "resources"), "*");
        edit_string(&ed, limit, "selector", SELECTOR_NOTHING);
    }
}

/* ---- whole rules ---- */

static cJSON *document_of(const struct rules *rules)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    xok(rules_to_json(rules, &text)); /* which has room for all rules */
    cJSON *document = xptr(json_parse((const char *)buf_data(&text), text.len, NULL));
    cJSON_DeleteItemFromObjectCaseSensitive(document, "checksum");
    buf_reset(&text);
    return document;
}

static cJSON *limits_of(cJSON *document)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(document, "spec"),
                                            "limits");
}

/* Takes the document. NULL: it is too large. */
static struct rules *parse(cJSON *document)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    struct rules *made = NULL;
    if (xrc(json_canonical(document, &text)) == 0) {
        made = rules_parse_plain((const char *)buf_data(&text), text.len, &e);
        xerr(&e);
    }
    cJSON_Delete(document);
    buf_reset(&text);
    return made;
}

struct rules *sharing_leave_out(struct rules *rules, const cJSON *own,
                                const struct sharing_set *all)
{
    bool named = all != NULL && all->count > 0 && control_labels_ask_hash(rules);
    if (own == NULL && !named) {
        return rules_ref(rules);
    }
    cJSON *document = document_of(rules);
    cJSON *limit;
    bool fits = true;
    cJSON_ArrayForEach(limit, limits_of(document))
    {
        fits = fits && narrow(limit, rules_labels(rules), own, all);
    }
    if (!fits) {
        cJSON_Delete(document);
        return NULL;
    }
    return parse(document);
}

struct rules *sharing_only_shared(const struct rules *rules, const cJSON *own)
{
    cJSON *document = document_of(rules);
    sharing_hide(limits_of(document), rules_labels(rules), own);
    return parse(document);
}
