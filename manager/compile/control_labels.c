/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/control_labels.h"

#include <errno.h>
#include <string.h>

#include "base/xalloc.h"
#include "rules/sharding.h"
#include "json/field.h"

static bool is_control_label(const struct control_label_keys *k, const char *key)
{
    for (size_t i = 0; i < CONTROL_LABEL_KEYS; i++) {
        if (strcmp(k->key[i], key) == 0) {
            return true;
        }
    }
    return false;
}

int control_labels_check(const struct control_label_keys *k, const cJSON *label_selector,
                         const char *path, struct err *e)
{
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(label_selector, "matchExpressions"))
    {
        const char *key = field_text(item, "key");
        if (strcmp(field_text(item, "operator"), "DoesNotExist") == 0 && is_control_label(k, key)) {
            return err_set(e, -EINVAL,
                           "%s.matchExpressions[%u].operator: Forbidden: DoesNotExist: what does "
                           "not have the control label \"%.200s\" is in no shard",
                           path, i, key);
        }
        i++;
    }
    return 0;
}

/* Whether `s` asks for this label, and takes what does not have it. */
static bool takes_unlabelled(const struct selector *s, const char *key)
{
    size_t count;
    const struct selector_requirement *list = selector_requirements(s, &count);
    bool asks = false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].key, key) == 0) {
            if (!selector_requirement_matches(&list[i], NULL)) {
                return false;
            }
            asks = true;
        }
    }
    return asks;
}

static struct selector *and_key(const struct selector *s, const char *key, struct err *e)
{
    struct selector *exists = xptr(selector_parse(slice_str(key), NULL)); /* `s` has that key */
    const struct selector *const both[] = {s, exists};
    struct selector *made = selector_and(both, 2, e);
    selector_free(exists);
    return made;
}

struct selector *control_labels_demand(const struct control_label_keys *k, struct selector *s,
                                       struct err *e)
{
    for (size_t i = 0; i < CONTROL_LABEL_KEYS && s != NULL; i++) {
        if (takes_unlabelled(s, k->key[i])) {
            struct selector *narrow = and_key(s, k->key[i], e);
            selector_free(s);
            s = narrow;
        }
    }
    return s;
}

/* ---- rules ---- */

static bool is_any_label(const struct rules_labels *labels, const char *key)
{
    return strcmp(key, labels->namespace) == 0 || strcmp(key, labels->shard_hash) == 0 ||
           strcmp(key, labels->control) == 0;
}

static bool is_hash_label(const struct rules_labels *labels, const char *key)
{
    return strcmp(key, labels->shard_hash) == 0;
}

typedef bool (*label_cb)(const struct rules_labels *labels, const char *key);

static bool asks(const struct rules *rules, const struct rules_entry *entry, label_cb cb)
{
    size_t count;
    const struct selector_requirement *r = selector_requirements(entry->compiled, &count);
    for (size_t i = 0; i < count; i++) {
        if (cb(rules_labels(rules), r[i].key)) {
            return true;
        }
    }
    return false;
}

static bool any_asks(const struct rules *rules, label_cb cb)
{
    const struct rules_entry *last = NULL;
    bool found = false;
    for (size_t i = 0; i < rules_pattern_count(rules) && !found; i++) {
        struct slice group;
        struct slice resource;
        rules_pattern(rules, i, &group, &resource);
        const struct rules_entry *entry = rules_match(rules, group, resource);
        found = entry != NULL && entry != last && asks(rules, entry, cb);
        last = entry;
    }
    return found;
}

bool control_labels_ask(const struct rules *rules, const struct rules_entry *entry)
{
    return asks(rules, entry, is_any_label);
}

/* Whether objects in the namespace have the control label as required. */
static bool accepts(const struct rules_labels *labels, const struct selector_requirement *r,
                    struct slice ns)
{
    static const struct slice yes = {.ptr = "true", .len = 4};
    return strcmp(r->key, labels->shard_hash) == 0 ? sharding_accepts(r, ns)
           : strcmp(r->key, labels->control) == 0  ? selector_requirement_matches(r, &yes)
                                                   : selector_requirement_matches(r, &ns);
}

bool control_labels_accept(const struct rules *rules, const struct rules_entry *entry,
                           struct slice ns, bool *asks)
{
    size_t count;
    const struct rules_labels *labels = rules_labels(rules);
    const struct selector_requirement *r = selector_requirements(entry->compiled, &count);
    bool accepted = true;
    *asks = false;
    for (size_t i = 0; i < count && accepted; i++) {
        bool ours = is_any_label(labels, r[i].key);
        *asks = *asks || ours;
        accepted = !ours || accepts(labels, &r[i], ns);
    }
    return accepted;
}

bool control_labels_any_ask(const struct rules *rules)
{
    return any_asks(rules, is_any_label);
}

bool control_labels_ask_hash(const struct rules *rules)
{
    return any_asks(rules, is_hash_label);
}
