/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/configuration.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/url.h"
#include "base/xalloc.h"
#include "crypto/digest.h"
#include "label/labels_condition.h"
#include "object/json_patch.h"
#include "webhook/certificate_set.h"
#include "webhook/server.h"
#include "json/field.h"

enum { PATH_SIZE = 64 };

/* ---- whose ---- */

/* NULL: not ours. */
static const char *path_at_service(const struct configuration_target *t, const cJSON *service)
{
    bool ours = strcmp(field_text(service, "namespace"), t->namespace) == 0 &&
                strcmp(field_text(service, "name"), t->service) == 0;
    return ours ? field_text(service, "path") : NULL;
}

static bool is_host(const struct configuration_target *t, const char *host)
{
    for (size_t i = 0; i < t->host_count; i++) {
        if (strcasecmp(t->hosts[i], host) == 0) {
            return true;
        }
    }
    return false;
}

static const char *path_at_url(const struct configuration_target *t, const char *text)
{
    struct url url;
    if (url_parse(text, &url, NULL) != 0 || !is_host(t, url.host)) {
        return NULL;
    }
    const char *begin = strstr(text, "://");
    const char *path = begin == NULL ? NULL : strchr(begin + 3, '/');
    return path == NULL ? "" : path;
}

/* The path that the webhook asks for; NULL: it is not ours. */
static const char *path_of(const struct configuration_target *t, const cJSON *webhook)
{
    const cJSON *client = field_get(webhook, "clientConfig");
    const cJSON *service = field_get(client, "service");
    return service != NULL ? path_at_service(t, service)
                           : path_at_url(t, field_text(client, "url"));
}

unsigned configuration_count(const struct configuration_target *t, const cJSON *configuration)
{
    const cJSON *webhook;
    unsigned n = 0;
    cJSON_ArrayForEach(webhook, field_get(configuration, "webhooks"))
    {
        n += path_of(t, webhook) != NULL ? 1 : 0;
    }
    return n;
}

unsigned configuration_pods(const struct configuration_target *t, const cJSON *configuration,
                            const cJSON **selector)
{
    const cJSON *webhook;
    unsigned n = 0;
    cJSON_ArrayForEach(webhook, field_get(configuration, "webhooks"))
    {
        const char *path = path_of(t, webhook);
        if (path != NULL && strcmp(path, WEBHOOK_PATH_PODS) == 0) {
            *selector = field_get(webhook, "namespaceSelector");
            n++;
        }
    }
    return n;
}

/* ---- bundles ---- */

/* Appends the bundle of a webhook, PEM; nothing if it has none, or no base64. */
static void present_bundle(const cJSON *webhook, struct buf *out)
{
    const char *text = field_text(field_get(webhook, "clientConfig"), "caBundle");
    if (xrc(base64_decode(slice_str(text), out)) != 0) {
        buf_clear(out);
    }
}

/* Takes the first one off a bundle. NULL: it cannot be read, or none is left. */
static struct certificate *take_certificate(struct slice *bundle)
{
    struct err e = ERR_INIT;
    struct slice rest = {0};
    struct certificate *c = certificate_read(*bundle, &rest, &e);
    xerr(&e);
    *bundle = rest;
    return c;
}

/* What cannot be read is passed over. */
static bool holds(struct slice bundle, const struct certificate *wanted)
{
    bool found = false;
    while (bundle.len > 0 && !found) {
        struct certificate *c = take_certificate(&bundle);
        found = c != NULL && certificate_same(c, wanted);
        certificate_free(c);
    }
    return found;
}

/* Whether every certificate of `part` is in `bundle`. */
static bool holds_all(struct slice bundle, struct slice part)
{
    bool all = true;
    while (part.len > 0 && all) {
        struct certificate *c = take_certificate(&part);
        all = c == NULL || holds(bundle, c);
        certificate_free(c);
    }
    return all;
}

/* When the youngest of a bundle was born. */
static int64_t youngest(struct slice bundle)
{
    int64_t born = INT64_MIN;
    while (bundle.len > 0) {
        struct certificate *c = take_certificate(&bundle);
        if (c != NULL && certificate_not_before(c) > born) {
            born = certificate_not_before(c);
        }
        certificate_free(c);
    }
    return born;
}

static bool is_news(const struct certificate *c, int64_t born, int64_t now)
{
    return certificate_is_authority(c) && certificate_not_before(c) > born &&
           certificate_not_after(c) >= now &&
           strncmp(certificate_common_name(c), CERTIFICATE_SET_AUTHORITY,
                   strlen(CERTIFICATE_SET_AUTHORITY)) == 0;
}

/* Appends the authorities of ours that another replica knows and we do not. */
static void append_news(struct slice present, int64_t born, int64_t now, struct buf *out)
{
    while (present.len > 0) {
        const char *begin = memmem(present.ptr, present.len, "-----BEGIN", strlen("-----BEGIN"));
        struct certificate *c = take_certificate(&present);
        if (c != NULL && is_news(c, born, now)) {
            buf_append(out, begin, (size_t)(present.ptr - begin));
            buf_append_char(out, '\n');
        }
        certificate_free(c);
    }
}

/* Appends what the bundle should be, or nothing if it is right. */
static void right_bundle(const struct configuration_wanted *w, struct slice present,
                         struct buf *out)
{
    struct buf news = BUF_INIT(2 * CERTIFICATE_SET_BUNDLE_MAX);
    append_news(present, youngest(w->bundle), w->now, &news);
    xok(buf_error(&news)); /* little more than what is present */
    bool right = news.len == 0 ? slice_eq(present, w->bundle) : holds_all(present, w->bundle);
    if (!right) {
        buf_append(out, w->bundle.ptr, w->bundle.len);
        buf_append(out, buf_data(&news), news.len);
    }
    buf_reset(&news);
}

bool configuration_trusts(const struct configuration_target *t, const cJSON *configuration,
                          const struct certificate *authority)
{
    const cJSON *webhook;
    cJSON_ArrayForEach(webhook, field_get(configuration, "webhooks"))
    {
        struct buf present = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX);
        present_bundle(webhook, &present);
        bool good = path_of(t, webhook) == NULL || holds(buf_slice(&present), authority);
        buf_reset(&present);
        if (!good) {
            return false;
        }
    }
    return true;
}

/* ---- rules ---- */

static cJSON *one_string(const char *text)
{
    return cJSON_CreateStringArray(&text, 1);
}

/* A rule for one version of a group; its resources follow. */
static cJSON *add_rule(struct edit *ed, cJSON *rules, const struct sharding_resource *r)
{
    static const char *const operations[] = {"CREATE", "UPDATE"};
    cJSON *rule = edit_append_object(ed, rules);
    edit_set(ed, rule, "apiGroups", one_string(r->group));
    edit_set(ed, rule, "apiVersions", one_string(r->version));
    edit_set(ed, rule, "operations", cJSON_CreateStringArray(operations, 2));
    edit_string(ed, rule, "scope", "Namespaced");
    return edit_array(ed, rule, "resources");
}

cJSON *configuration_rules(const struct sharding_resource *resources, size_t count)
{
    struct edit ed = {.rc = 0};
    cJSON *rules = cJSON_CreateArray();
    cJSON *names = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct sharding_resource *r = &resources[i];
        bool same =
            i > 0 && strcmp(r->group, r[-1].group) == 0 && strcmp(r->version, r[-1].version) == 0;
        names = same ? names : add_rule(&ed, rules, r);
        edit_append_string(&ed, names, r->plural);
    }
    return rules;
}

static bool has_texts(const cJSON *list, const cJSON *wanted)
{
    const cJSON *item;
    bool all = true;
    cJSON_ArrayForEach(item, wanted)
    {
        all = all && field_has(list, cJSON_IsString(item) ? item->valuestring : "");
    }
    return all;
}

/* Whether `rule` sends at least what `wanted` does, apart from wildcards. */
static bool rule_covers(const cJSON *rule, const cJSON *wanted)
{
    static const char *const keys[] = {"apiGroups", "apiVersions", "operations", "resources"};
    bool all = strcmp(field_text(rule, "scope"), field_text(wanted, "scope")) == 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        all = all && has_texts(field_get(rule, keys[i]), field_get(wanted, keys[i]));
    }
    return all;
}

static bool is_covered(const cJSON *rules, const cJSON *wanted)
{
    const cJSON *rule;
    cJSON_ArrayForEach(rule, rules)
    {
        if (rule_covers(rule, wanted)) {
            return true;
        }
    }
    return false;
}

static bool rules_right(const cJSON *present, const struct configuration_wanted *w)
{
    const cJSON *rule;
    bool right = true;
    if (!w->other_rules) {
        return present == NULL ? w->rules->child == NULL : json_patch_equal(present, w->rules);
    }
    cJSON_ArrayForEach(rule, w->rules)
    {
        right = right && is_covered(present, rule);
    }
    return right;
}

/* The caller frees. */
static cJSON *right_rules(struct edit *ed, const cJSON *present,
                          const struct configuration_wanted *w)
{
    cJSON *rules = cJSON_Duplicate(w->rules, true);
    const cJSON *rule;
    cJSON_ArrayForEach(rule, present)
    {
        if (w->other_rules && !is_covered(w->rules, rule)) {
            edit_append(ed, rules, cJSON_Duplicate(rule, true));
        }
    }
    return rules;
}

/* ---- match conditions ---- */

static bool is_our_condition(const cJSON *condition)
{
    return strcmp(field_text(condition, "name"), CONFIGURATION_CONDITION) == 0;
}

/* How many of a webhook's match conditions are ours, and say `wanted` if that is not NULL. */
static unsigned count_conditions(const cJSON *present, const char *wanted)
{
    const cJSON *condition;
    unsigned n = 0;
    cJSON_ArrayForEach(condition, present)
    {
        bool same = wanted == NULL || strcmp(field_text(condition, "expression"), wanted) == 0;
        n += is_our_condition(condition) && same ? 1 : 0;
    }
    return n;
}

static bool conditions_right(const cJSON *present, enum configuration_condition wanted,
                             const char *expression)
{
    unsigned ours = count_conditions(present, NULL);
    bool right = ours == 1 && count_conditions(present, expression) == 1;
    return (right && wanted != CONFIGURATION_CONDITION_NONE) ||
           (ours == 0 && wanted != CONFIGURATION_CONDITION_SET);
}

/* Those that others have added, and ours if there is an expression. The caller frees. */
static cJSON *right_conditions(struct edit *ed, const cJSON *present, const char *expression)
{
    cJSON *conditions = cJSON_CreateArray();
    const cJSON *condition;
    cJSON_ArrayForEach(condition, present)
    {
        if (!is_our_condition(condition)) {
            edit_append(ed, conditions, cJSON_Duplicate(condition, true));
        }
    }
    if (expression != NULL) {
        cJSON *ours = edit_append_object(ed, conditions);
        edit_string(ed, ours, "name", CONFIGURATION_CONDITION);
        edit_string(ed, ours, "expression", expression);
    }
    return conditions;
}

/* ---- patches ---- */

static void add_bundle(struct edit *ed, cJSON *patch, const cJSON *webhook, int index,
                       const struct configuration_wanted *w)
{
    char path[PATH_SIZE];
    struct buf present = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX);
    struct buf right = BUF_INIT(3 * CERTIFICATE_SET_BUNDLE_MAX);
    struct buf coded = BUF_INIT(5 * CERTIFICATE_SET_BUNDLE_MAX);
    present_bundle(webhook, &present);
    right_bundle(w, buf_slice(&present), &right);
    xok(buf_error(&right));
    if (right.len > 0) {
        xok(base64_encode(buf_slice(&right), &coded));
        (void)snprintf(path, sizeof path, "/webhooks/%d/clientConfig/caBundle", index);
        json_patch_add(ed, patch, "add", path, cJSON_CreateString(xptr(buf_cstr(&coded))));
    }
    buf_reset(&present);
    buf_reset(&right);
    buf_reset(&coded);
}

static void add_rules(struct edit *ed, cJSON *patch, const cJSON *webhook, int index,
                      const struct configuration_wanted *w)
{
    char path[PATH_SIZE];
    const cJSON *present = field_get(webhook, "rules");
    if (w->rules != NULL && !rules_right(present, w)) {
        (void)snprintf(path, sizeof path, "/webhooks/%d/rules", index);
        json_patch_add(ed, patch, "add", path, right_rules(ed, present, w));
    }
}

static void add_conditions(struct edit *ed, cJSON *patch, const cJSON *webhook, int index,
                           const struct configuration_wanted *w, enum labels_condition_of of)
{
    char path[PATH_SIZE];
    const cJSON *present = field_get(webhook, "matchConditions");
    bool set = w->condition == CONFIGURATION_CONDITION_SET;
    struct buf text = BUF_INIT(LABELS_CONDITION_MAX);
    if (w->condition == CONFIGURATION_CONDITION_LEFT) {
        return;
    }
    labels_condition_write(w->keys, of, &text);
    const char *expression = xptr(buf_cstr(&text));
    if (!conditions_right(present, w->condition, expression)) {
        (void)snprintf(path, sizeof path, "/webhooks/%d/matchConditions", index);
        json_patch_add(ed, patch, "add", path,
                       right_conditions(ed, present, set ? expression : NULL));
    }
    buf_reset(&text);
}

static void add_labels(struct edit *ed, cJSON *patch, const cJSON *webhook, int index,
                       const struct configuration_wanted *w, const char *path)
{
    if (strcmp(path, WEBHOOK_PATH_RESOURCES) == 0) {
        add_rules(ed, patch, webhook, index, w);
        add_conditions(ed, patch, webhook, index, w, LABELS_CONDITION_RESOURCES);
    } else if (strcmp(path, WEBHOOK_PATH_NAMESPACES) == 0) {
        add_conditions(ed, patch, webhook, index, w, LABELS_CONDITION_NAMESPACES);
    }
}

static void add_changes(struct edit *ed, cJSON *patch, const struct configuration_target *t,
                        const struct configuration_wanted *w, const cJSON *configuration)
{
    const cJSON *webhook;
    int index = 0;
    cJSON_ArrayForEach(webhook, field_get(configuration, "webhooks"))
    {
        const char *path = path_of(t, webhook);
        if (path != NULL && w->bundle.len > 0) {
            add_bundle(ed, patch, webhook, index, w);
        }
        if (path != NULL) {
            add_labels(ed, patch, webhook, index, w, path);
        }
        index++;
    }
}

cJSON *configuration_patch(const struct configuration_target *t,
                           const struct configuration_wanted *wanted, const cJSON *configuration)
{
    const char *version = field_meta(configuration, "resourceVersion");
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateArray();
    json_patch_add(&ed, patch, "test", "/metadata/resourceVersion", cJSON_CreateString(version));
    add_changes(&ed, patch, t, wanted, configuration);
    if (cJSON_GetArraySize(patch) == 1) { /* the test alone: all is right */
        cJSON_Delete(patch);
        return NULL;
    }
    return patch;
}
