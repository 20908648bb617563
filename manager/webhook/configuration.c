/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/configuration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/url.h"
#include "crypto/digest.h"
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

/* ---- bundles ---- */

/* The bundle of a webhook, PEM; empty: none, or no base64. 0 or -ENOMEM. */
static int present_bundle(const cJSON *webhook, struct buf *out)
{
    const char *text = field_text(field_get(webhook, "clientConfig"), "caBundle");
    int rc = base64_decode(slice_str(text), out);
    return rc == -ENOMEM ? rc : 0;
}

static struct slice text_in(const struct buf *b)
{
    return buf_slice(b);
}

/* 1: there is that one; 0; or -ENOMEM. What cannot be read is passed over. */
static int holds(struct slice bundle, const struct certificate *wanted)
{
    struct err e = ERR_INIT;
    while (bundle.len > 0) {
        struct slice rest = {0};
        struct certificate *c = certificate_read(bundle, &rest, &e);
        bool same = c != NULL && certificate_same(c, wanted);
        certificate_free(c);
        if (same) {
            return 1;
        }
        if (c == NULL && e.code == -ENOMEM) {
            return -ENOMEM;
        }
        bundle = rest;
    }
    return 0;
}

/* 1: every certificate of `part` is in `bundle`; 0; or -ENOMEM. */
static int holds_all(struct slice bundle, struct slice part)
{
    struct err e = ERR_INIT;
    while (part.len > 0) {
        struct slice rest = {0};
        struct certificate *c = certificate_read(part, &rest, &e);
        int rc = c == NULL ? (e.code == -ENOMEM ? -ENOMEM : 1) : holds(bundle, c);
        certificate_free(c);
        if (rc != 1) {
            return rc;
        }
        part = rest;
    }
    return 1;
}

/* When the youngest of a bundle was born. 0 or -ENOMEM. */
static int youngest(struct slice bundle, int64_t *out)
{
    struct err e = ERR_INIT;
    *out = INT64_MIN;
    while (bundle.len > 0) {
        struct slice rest = {0};
        struct certificate *c = certificate_read(bundle, &rest, &e);
        if (c == NULL && e.code == -ENOMEM) {
            return -ENOMEM;
        }
        if (c != NULL && certificate_not_before(c) > *out) {
            *out = certificate_not_before(c);
        }
        certificate_free(c);
        bundle = rest;
    }
    return 0;
}

static bool is_news(const struct certificate *c, int64_t born, int64_t now)
{
    return certificate_is_authority(c) && certificate_not_before(c) > born &&
           certificate_not_after(c) >= now &&
           strncmp(certificate_common_name(c), CERTIFICATE_SET_AUTHORITY,
                   strlen(CERTIFICATE_SET_AUTHORITY)) == 0;
}

/* Appends the authorities of ours that another replica knows and we do not. 0, -ENOBUFS or
 * -ENOMEM. */
static int append_news(struct slice present, int64_t born, int64_t now, struct buf *out)
{
    struct err e = ERR_INIT;
    int rc = 0;
    while (present.len > 0 && rc == 0) {
        struct slice rest = {0};
        struct certificate *c = certificate_read(present, &rest, &e);
        if (c == NULL && e.code == -ENOMEM) {
            return -ENOMEM;
        }
        if (c != NULL && is_news(c, born, now)) {
            const char *begin =
                memmem(present.ptr, present.len, "-----BEGIN", strlen("-----BEGIN"));
            rc = buf_append(out, begin, (size_t)(rest.ptr - begin));
            rc = rc != 0 ? rc : buf_append_char(out, '\n');
        }
        certificate_free(c);
        present = rest;
    }
    return rc;
}

/* Appends what the bundle should be, or nothing if it is right. 0, -ENOBUFS or -ENOMEM. */
static int right_bundle(const struct configuration_wanted *w, struct slice present, struct buf *out)
{
    int64_t born = 0;
    struct buf news = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX);
    int rc = youngest(w->bundle, &born);
    rc = rc != 0 ? rc : append_news(present, born, w->now, &news);
    bool right = slice_eq(present, w->bundle);
    if (rc == 0 && news.len > 0) {
        rc = holds_all(present, w->bundle);
        right = rc == 1;
        rc = rc < 0 ? rc : 0;
    }
    if (rc == 0 && !right) {
        rc = buf_append(out, w->bundle.ptr, w->bundle.len);
        rc = rc != 0 || news.len == 0 ? rc : buf_append(out, buf_data(&news), news.len);
    }
    buf_reset(&news);
    return rc;
}

bool configuration_trusts(const struct configuration_target *t, const cJSON *configuration,
                          const struct certificate *authority)
{
    const cJSON *webhook;
    cJSON_ArrayForEach(webhook, field_get(configuration, "webhooks"))
    {
        struct buf present = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX);
        bool good = path_of(t, webhook) == NULL || (present_bundle(webhook, &present) == 0 &&
                                                    holds(text_in(&present), authority) == 1);
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
static cJSON *add_rule(cJSON *rules, const struct sharding_resource *r)
{
    static const char *const operations[] = {"CREATE", "UPDATE"};
    cJSON *rule = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(rules, rule)) {
        cJSON_Delete(rule);
        return NULL;
    }
    cJSON *resources = cJSON_CreateArray();
    struct {
        const char *key;
        cJSON *value;
    } fields[] = {
        {"apiGroups", one_string(r->group)},
        {"apiVersions", one_string(r->version)},
        {"operations", cJSON_CreateStringArray(operations, 2)},
        {"resources", resources},
        {"scope", cJSON_CreateString("Namespaced")},
    };
    bool ok = true;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (!cJSON_AddItemToObject(rule, fields[i].key, fields[i].value)) {
            cJSON_Delete(fields[i].value);
            ok = false;
        }
    }
    return ok ? resources : NULL;
}

cJSON *configuration_rules(const struct sharding_resource *resources, size_t count)
{
    cJSON *rules = cJSON_CreateArray();
    cJSON *names = NULL;
    bool ok = rules != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        const struct sharding_resource *r = &resources[i];
        bool same =
            i > 0 && strcmp(r->group, r[-1].group) == 0 && strcmp(r->version, r[-1].version) == 0;
        names = same ? names : add_rule(rules, r);
        cJSON *name = names == NULL ? NULL : cJSON_CreateString(r->plural);
        ok = name != NULL && cJSON_AddItemToArray(names, name);
    }
    if (!ok) {
        cJSON_Delete(rules);
        return NULL;
    }
    return rules;
}

static bool rules_right(const cJSON *webhook, const cJSON *wanted)
{
    const cJSON *present = field_get(webhook, "rules");
    return present == NULL ? wanted->child == NULL : json_patch_equal(present, wanted);
}

/* ---- patches ---- */

static int add_bundle(cJSON *patch, const cJSON *webhook, int index,
                      const struct configuration_wanted *w)
{
    char path[PATH_SIZE];
    struct buf present = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX);
    struct buf right = BUF_INIT(2 * CERTIFICATE_SET_BUNDLE_MAX);
    struct buf coded = BUF_INIT(4 * CERTIFICATE_SET_BUNDLE_MAX);
    int rc = present_bundle(webhook, &present);
    rc = rc != 0 ? rc : right_bundle(w, text_in(&present), &right);
    if (rc == 0 && right.len > 0) {
        rc = base64_encode(text_in(&right), &coded);
        const char *text = rc == 0 ? buf_cstr(&coded) : NULL;
        (void)snprintf(path, sizeof path, "/webhooks/%d/clientConfig/caBundle", index);
        rc = text == NULL ? -ENOMEM : json_patch_add(patch, "add", path, cJSON_CreateString(text));
    }
    buf_reset(&present);
    buf_reset(&right);
    buf_reset(&coded);
    return rc;
}

static int add_rules(cJSON *patch, const cJSON *webhook, int index, const cJSON *rules)
{
    char path[PATH_SIZE];
    if (rules == NULL || rules_right(webhook, rules)) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "/webhooks/%d/rules", index);
    return json_patch_add(patch, "add", path, cJSON_Duplicate(rules, true));
}

static int add_changes(cJSON *patch, const struct configuration_target *t,
                       const struct configuration_wanted *w, const cJSON *configuration)
{
    const cJSON *webhook;
    int index = 0;
    int rc = 0;
    cJSON_ArrayForEach(webhook, field_get(configuration, "webhooks"))
    {
        const char *path = path_of(t, webhook);
        if (rc == 0 && path != NULL && w->bundle.len > 0) {
            rc = add_bundle(patch, webhook, index, w);
        }
        if (rc == 0 && path != NULL && strcmp(path, WEBHOOK_PATH_RESOURCES) == 0) {
            rc = add_rules(patch, webhook, index, w->rules);
        }
        index++;
    }
    return rc;
}

int configuration_patch(const struct configuration_target *t,
                        const struct configuration_wanted *wanted, const cJSON *configuration,
                        cJSON **out)
{
    const char *version = field_text(field_get(configuration, "metadata"), "resourceVersion");
    cJSON *patch = cJSON_CreateArray();
    *out = NULL;
    int rc = patch == NULL ? -ENOMEM
                           : json_patch_add(patch, "test", "/metadata/resourceVersion",
                                            cJSON_CreateString(version));
    rc = rc != 0 ? rc : add_changes(patch, t, wanted, configuration);
    if (rc == 0 && cJSON_GetArraySize(patch) > 1) {
        *out = patch;
        return 0;
    }
    cJSON_Delete(patch);
    return rc == 0 ? 0 : -ENOMEM;
}
