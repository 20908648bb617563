/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/name.h"
#include "rules/sharding.h"
#include "json/field.h"

#define ROOT "spec.root"
#define AUTO ROOT ".auto"
#define CANARY ROOT ".canary"
#define RESOURCES ROOT ".resourceSelector"

enum { PATH_LEN = 96 };

typedef const char *(*check_cb)(struct slice text);

/* ---- the canary ---- */

/* A list of strings, each of which `check` finds nothing wrong with. */
static int read_list(const cJSON *canary, const char *key, check_cb check, const cJSON **out,
                     struct err *e)
{
    const cJSON *list = NULL;
    if (field_array(canary, CANARY, key, &list, e) != 0) {
        return e->code;
    }
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        char entry[64];
        const char *text = cJSON_GetStringValue(item);
        const char *why = text == NULL ? "must be a string" : check(slice_str(text));
        (void)snprintf(entry, sizeof entry, "%s[%u]", key, i++);
        if (why != NULL) {
            return field_invalid(e, CANARY, entry, text == NULL ? "" : text, why);
        }
    }
    *out = list == NULL || list->child == NULL ? NULL : list;
    return 0;
}

static const char *check_hash(struct slice text)
{
    bool digits = text.len == 1 || (text.len == 2 && text.ptr[0] != '0');
    for (size_t i = 0; i < text.len; i++) {
        digits = digits && text.ptr[i] >= '0' && text.ptr[i] <= '9';
    }
    return digits && strtol(text.ptr, NULL, 10) < SHARDING_HASH_SIZE
               ? NULL
               : "must be a whole number from 0 to 31";
}

static uint32_t buckets_in(const cJSON *hashes)
{
    uint32_t buckets = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, hashes)
    {
        buckets |= (uint32_t)1 << strtoul(item->valuestring, NULL, 10);
    }
    return buckets;
}

/* One without pods would leave its namespaces to nobody, and one without namespaces its pods idle:
 * likely something was forgotten. `replicas: 0` is a way to do without a canary for a while. */
static int check_halves(const cJSON *canary, const struct root_canary *c, struct err *e)
{
    bool lists = c->namespaces != NULL || c->buckets != 0;
    if (c->replicas > 0 && !lists) {
        return err_set(e, -EINVAL,
                       CANARY ".inNamespaces: Required value: says what the canary has, unless "
                              "inShardHash does");
    }
    if (lists && field_get(canary, "replicas") == NULL) {
        return err_set(e, -EINVAL,
                       CANARY ".replicas: Required value: how many pods the canary has; 0: there "
                              "is none");
    }
    return 0;
}

static int read_canary(const cJSON *root, struct root_canary *out, struct err *e)
{
    static const char *const known[] = {"replicas", "inNamespaces", "inShardHash", NULL};
    const cJSON *canary = NULL;
    const cJSON *hashes = NULL;
    int replicas = 0;
    if (field_object(root, ROOT, "canary", &canary, e) != 0 ||
        field_known(canary, CANARY, known, e) != 0 ||
        field_int(canary, CANARY, "replicas", 0, ROOT_REPLICAS_MAX, &replicas, e) != 0 ||
        read_list(canary, "inNamespaces", name_check_label, &out->namespaces, e) != 0 ||
        read_list(canary, "inShardHash", check_hash, &hashes, e) != 0) {
        return e->code;
    }
    out->replicas = (unsigned)replicas;
    out->buckets = buckets_in(hashes);
    if (check_halves(canary, out, e) != 0) {
        return e->code;
    }
    if (out->replicas == 0) {
        *out = (struct root_canary){.replicas = 0};
    }
    return 0;
}

/* ---- normal shards ---- */

static int read_number(const cJSON *object, const char *path, const char *key, int min, int max,
                       unsigned *out, struct err *e)
{
    int value = 0;
    if (field_int(object, path, key, min, max, &value, e) != 0) {
        return e->code;
    }
    *out = (unsigned)value;
    return value != 0 ? 0 : err_set(e, -EINVAL, "%s.%s: Required value", path, key);
}

static int read_size(const cJSON *automatic, unsigned *out, struct err *e)
{
    const cJSON *item = field_get(automatic, "shardingSize");
    if (!cJSON_IsString(item)) {
        return read_number(automatic, AUTO, "shardingSize", 1, ROOT_SHARDS_MAX, out, e);
    }
    *out = 0;
    return strcmp(item->valuestring, ROOT_SIZE_AUTO) == 0
               ? 0
               : field_invalid(e, AUTO, "shardingSize", item->valuestring,
                               "must be a whole number from 1 to 32, or the text \"auto\"");
}

/* An object of one number; *out stays as it is when it is absent. */
static int read_option(const cJSON *automatic, const char *key, const char *number, int min,
                       int max, unsigned *out, struct err *e)
{
    const char *const known[] = {number, NULL};
    char path[PATH_LEN];
    const cJSON *option = NULL;
    (void)snprintf(path, sizeof path, AUTO ".%s", key);
    if (field_object(automatic, AUTO, key, &option, e) != 0 ||
        field_known(option, path, known, e) != 0) {
        return e->code;
    }
    return option == NULL ? 0 : read_number(option, path, number, min, max, out, e);
}

static int read_auto(const cJSON *root, struct root_auto *out, struct err *e)
{
    static const char *const known[] = {"shardingSize", "everyShardReplicas", "takeover",
                                        "rebalance", NULL};
    const cJSON *automatic = NULL;
    if (field_object(root, ROOT, "auto", &automatic, e) != 0 || automatic == NULL) {
        return e->code;
    }
    out->there = true;
    bool right =
        field_known(automatic, AUTO, known, e) == 0 && read_size(automatic, &out->size, e) == 0 &&
        read_number(automatic, AUTO, "everyShardReplicas", 1, ROOT_REPLICAS_MAX, &out->every, e) ==
            0 &&
        read_option(automatic, "takeover", "afterSeconds", ROOT_TAKEOVER_MIN, ROOT_TAKEOVER_MAX,
                    &out->takeover_s, e) == 0 &&
        read_option(automatic, "rebalance", "maxMovesPerHour", 1, ROOT_MOVES_MAX,
                    &out->moves_per_hour, e) == 0;
    return right ? 0 : e->code;
}

/* ---- resources ---- */

/* What requirements are added to: the rest of a limit is looked at where it is compiled. */
static int check_selector(const cJSON *limit, const char *path, struct err *e)
{
    char inner[PATH_LEN + 64];
    const cJSON *selector = NULL;
    const cJSON *ignored = NULL;
    (void)snprintf(inner, sizeof inner, "%s.selector", path);
    bool right = field_object(limit, path, "selector", &selector, e) == 0 &&
                 field_array(selector, inner, "matchExpressions", &ignored, e) == 0;
    return right ? 0 : e->code;
}

static int check_limit(const cJSON *limit, const char *path, struct err *e)
{
    char inner[PATH_LEN + 32];
    const cJSON *wrapped = NULL;
    if (!cJSON_IsObject(limit)) {
        return err_set(e, -EINVAL, "%s: Invalid value: must be an object", path);
    }
    (void)snprintf(inner, sizeof inner, "%s.objectSelector", path);
    if (field_object(limit, path, "objectSelector", &wrapped, e) != 0) {
        return e->code;
    }
    return wrapped == NULL ? check_selector(limit, path, e) : check_selector(wrapped, inner, e);
}

static int read_resources(const cJSON *root, const cJSON **out, struct err *e)
{
    if (field_array(root, ROOT, "resourceSelector", out, e) != 0) {
        return e->code;
    }
    if (*out == NULL || (*out)->child == NULL) {
        return err_set(e, -EINVAL,
                       RESOURCES ": Required value: must have at least one entry: without, each "
                                 "shard would see everything");
    }
    unsigned i = 0;
    const cJSON *limit;
    cJSON_ArrayForEach(limit, *out)
    {
        char path[PATH_LEN];
        (void)snprintf(path, sizeof path, RESOURCES "[%u]", i++);
        if (check_limit(limit, path, e) != 0) {
            return e->code;
        }
    }
    return 0;
}

/* ---- the whole ---- */

static int read_name(const cJSON *root, const char *key, const char **out, struct err *e)
{
    int rc = field_required(root, ROOT, key, out, e);
    const char *why = rc == 0 ? name_check_subdomain(slice_str(*out)) : NULL;
    return why == NULL ? rc : field_invalid(e, ROOT, key, *out, why);
}

static int read_disable(const cJSON *root, bool *out, struct err *e)
{
    const cJSON *disable = field_get(root, "disable");
    if (disable != NULL && !cJSON_IsBool(disable)) {
        return field_wrong_type(e, ROOT, "disable", "true or false");
    }
    *out = cJSON_IsTrue(disable);
    return 0;
}

/* What stands beside it: selected pods, and limits, which cannot be both here and there. */
static int check_beside(const cJSON *spec, struct err *e)
{
    const cJSON *limits = field_get(spec, "limits");
    if (limits != NULL && limits->child != NULL) {
        return err_set(e, -EINVAL,
                       "spec.limits: Forbidden: may not be set together with " ROOT
                       ", which has resourceSelector");
    }
    return check_selector(spec, "spec", e);
}

static int read_fields(const cJSON *root, struct root_spec *out, struct err *e)
{
    static const char *const known[] = {
        "disable", "prefix", "targetStatefulSet", "canary", "auto", "resourceSelector", NULL};
    bool right =
        field_known(root, ROOT, known, e) == 0 && read_disable(root, &out->disable, e) == 0 &&
        read_name(root, "prefix", &out->prefix, e) == 0 &&
        read_name(root, "targetStatefulSet", &out->target, e) == 0 &&
        read_canary(root, &out->canary, e) == 0 && read_auto(root, &out->automatic, e) == 0 &&
        read_resources(root, &out->resources, e) == 0;
    return right ? 0 : e->code;
}

int root_spec_read(const cJSON *config, struct root_spec *out, struct err *e)
{
    struct err ignored = ERR_INIT;
    struct err *said = e == NULL ? &ignored : e;
    const cJSON *spec = field_get(config, "spec");
    const cJSON *root = NULL;
    *out = (struct root_spec){.disable = false};
    said->code = 0;
    if (field_object(spec, "spec", "root", &root, said) != 0) {
        return said->code;
    }
    if (root == NULL) {
        return err_set(said, -EINVAL, ROOT ": Required value");
    }
    if (check_beside(spec, said) != 0 || read_fields(root, out, said) != 0) {
        return said->code;
    }
    if (!out->automatic.there && out->canary.replicas == 0) {
        return err_set(said, -EINVAL,
                       AUTO ": Required value: says how many shards there are, unless there is a "
                            "canary");
    }
    return 0;
}

unsigned root_first_ordinal(const cJSON *stateful_set)
{
    const cJSON *ordinals = field_get(field_get(stateful_set, "spec"), "ordinals");
    const cJSON *start = field_get(ordinals, "start");
    bool good = cJSON_IsNumber(start) && start->valuedouble >= 0 && start->valuedouble <= INT32_MAX;
    return good ? (unsigned)start->valuedouble : 0;
}
