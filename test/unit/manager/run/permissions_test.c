/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each permission of k8s/base that a manager has the remedy names a role that grants it.
 */
#include "run/permissions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "yaml/yaml.h"
#include "json/field.h"

enum { FILE_MAX = 256 * 1024 };

static const struct {
    const char *name;
    enum request_verb verb;
} verbs[] = {{"get", VERB_GET},       {"list", VERB_LIST},     {"watch", VERB_WATCH},
             {"create", VERB_CREATE}, {"update", VERB_UPDATE}, {"patch", VERB_PATCH},
             {"delete", VERB_DELETE}};

struct roles {
    cJSON *documents[8];
    size_t count;
};

static void read_file(struct roles *r, const char *name)
{
    char path[512];
    struct buf text = BUF_INIT(FILE_MAX);
    struct err e = ERR_INIT;
    (void)snprintf(path, sizeof path, TEST_SOURCES "/../../k8s/base/%s", name);
    assert_int_equal(file_read(path, &text, &e), 0);
    r->documents[r->count] = yaml_parse_all((const char *)buf_data(&text), text.len, NULL, &e);
    assert_non_null(r->documents[r->count++]);
    buf_reset(&text);
}

static enum request_verb verb_of(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return verbs[i].verb;
        }
    }
    fail_msg("no verb %s", name);
    return VERB_OTHER;
}

static bool has(const cJSON *list, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(cJSON_GetStringValue(item), text) == 0) {
            return true;
        }
    }
    return false;
}

static bool grants(const cJSON *role, const char *group, const char *resource, const char *verb)
{
    const cJSON *rule;
    cJSON_ArrayForEach(rule, cJSON_GetObjectItem(role, "rules"))
    {
        if (has(cJSON_GetObjectItem(rule, "apiGroups"), group) &&
            has(cJSON_GetObjectItem(rule, "resources"), resource) &&
            has(cJSON_GetObjectItem(rule, "verbs"), verb)) {
            return true;
        }
    }
    return false;
}

/* Whether the text names one that grants it, by kind and name. */
static bool names_one(const struct roles *r, const char *text, const char *group,
                      const char *resource, const char *verb)
{
    for (size_t i = 0; i < r->count; i++) {
        const cJSON *role;
        cJSON_ArrayForEach(role, r->documents[i])
        {
            char name[256];
            (void)snprintf(name, sizeof name, "%s %s", field_text(role, "kind"),
                           field_meta(role, "name"));
            const char *at = strstr(text, name);
            if (at != NULL && strchr("-abcdefghijklmnopqrstuvwxyz", at[strlen(name)]) == NULL &&
                grants(role, group, resource, verb)) {
                return true;
            }
        }
    }
    return false;
}

static void check_one(const struct roles *r, bool cluster, const char *group, const char *resource,
                      const char *verb)
{
    const char *slash = strchr(resource, '/');
    size_t len = slash == NULL ? strlen(resource) : (size_t)(slash - resource);
    const struct request_info ri = {
        .is_resource = true,
        .verb = verb_of(verb),
        .group = slice_str(group),
        .resource = slice_of(resource, len),
        .subresource = slice_str(slash == NULL ? "" : slash + 1),
        .namespace = slice_str(cluster ? "" : "cmesh-system"),
    };
    const char *text = permissions_granted_by(&ri);
    if (!names_one(r, text, group, resource, verb)) {
        fail_msg("%s %s.%s: \"%s\" names no role that grants it", verb, resource, group, text);
    }
}

static void check_rule(const struct roles *r, bool cluster, const cJSON *rule)
{
    const cJSON *group;
    const cJSON *resource;
    const cJSON *verb;
    cJSON_ArrayForEach(group, cJSON_GetObjectItem(rule, "apiGroups"))
    {
        cJSON_ArrayForEach(resource, cJSON_GetObjectItem(rule, "resources"))
        {
            cJSON_ArrayForEach(verb, cJSON_GetObjectItem(rule, "verbs"))
            {
                check_one(r, cluster, cJSON_GetStringValue(group), cJSON_GetStringValue(resource),
                          cJSON_GetStringValue(verb));
            }
        }
    }
}

/* Those of users and of operators aside. */
static bool is_managers(const cJSON *role)
{
    static const char *const of_others[] = {"cmesh-view", "cmesh-edit", "cmesh-admin",
                                            "cmesh-sidecar"};
    for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; i++) {
        if (strcmp(field_meta(role, "name"), of_others[i]) == 0) {
            return false;
        }
    }
    return true;
}

static void every_permission_names_its_role(void **state)
{
    (void)state;
    struct roles r = {.count = 0};
    unsigned rules = 0;
    read_file(&r, "cluster_role.yaml");
    read_file(&r, "role.yaml");
    read_file(&r, "user_roles.yaml");
    read_file(&r, "labelled_resources.yaml");
    for (size_t i = 0; i < r.count; i++) {
        const cJSON *role;
        const cJSON *rule;
        cJSON_ArrayForEach(role, r.documents[i])
        {
            bool cluster = strcmp(field_text(role, "kind"), "ClusterRole") == 0 &&
                           strcmp(field_meta(role, "name"), "cmesh-manager-webhooks") != 0;
            if (!is_managers(role)) {
                continue;
            }
            cJSON_ArrayForEach(rule, cJSON_GetObjectItem(role, "rules"))
            {
                check_rule(&r, cluster, rule);
                rules++;
            }
        }
    }
    assert_true(rules > 15);
    for (size_t i = 0; i < r.count; i++) {
        cJSON_Delete(r.documents[i]);
    }
}

static void what_is_no_resource_has_words_too(void **state)
{
    (void)state;
    const struct request_info ri = {.is_resource = false};
    assert_non_null(strstr(permissions_granted_by(&ri), "system:discovery"));
}

static const char *remedy(const char *group, const char *resource, const char *ns, const char *name,
                          enum request_verb verb)
{
    const struct request_info ri = {
        .is_resource = true,
        .verb = verb,
        .group = slice_str(group),
        .resource = slice_str(resource),
        .namespace = slice_str(ns),
        .name = slice_str(name),
    };
    return permissions_granted_by(&ri);
}

/* Of operators whose webhooks are asked by shard. */
static void what_leads_to_operators(void **state)
{
    (void)state;
    static const char kind[] = "validatingwebhookconfigurations";
    static const char group[] = "admissionregistration.k8s.io";
    assert_non_null(strstr(remedy("", "services", "ops", "s", VERB_PATCH), "RoleBinding"));
    assert_non_null(strstr(remedy("", "services", "ops", "s", VERB_PATCH), "aggregate-to-labels"));
    assert_non_null(strstr(remedy("", "endpoints", "ops", "", VERB_LIST), "RoleBinding"));
    assert_null(strstr(remedy("", "services", "", "", VERB_LIST), "RoleBinding"));
    assert_null(strstr(remedy("", "endpoints", "ops", "e", VERB_PATCH), "RoleBinding"));
    assert_non_null(strstr(remedy(group, kind, "", "theirs", VERB_PATCH), "or narrow it yourself"));
    for (unsigned i = 0; i < 2; i++) {
        const char *ours = i == 0 ? "cmesh" : "cmesh-routes";
        assert_non_null(strstr(remedy(group, kind, "", ours, VERB_PATCH), "cluster_role.yaml"));
    }
    assert_non_null(strstr(remedy(group, kind, "", "", VERB_LIST), "cluster_role.yaml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_permission_names_its_role),
        cmocka_unit_test(what_is_no_resource_has_words_too),
        cmocka_unit_test(what_leads_to_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
