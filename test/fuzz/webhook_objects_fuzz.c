/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any JSON as a webhook configuration, and as the Secret of certificates: what others may have
 * written there. A configuration that was patched needs no other patch, and trusts the authority;
 * whatever stands in a Secret, there is a plan, and what it makes of an empty one can be served.
 */
#include <stdlib.h>

#include "base/secret.h"
#include "check.h"
#include "patch_apply.h"
#include "webhook/certificate_set.h"
#include "webhook/configuration.h"
#include "json/json.h"

#define NOW INT64_C(1767225600)

static const char *const names[] = {"cmesh-webhook.n.svc"};
static const char *const hosts[] = {"127.0.0.1"};
static const struct certificate_rules rules = {
    .names = names, .name_count = 1, .authority_seconds = 1000, .serving_seconds = 100};
static const struct configuration_target target = {
    .namespace = "n", .service = "cmesh-webhook", .hosts = hosts, .host_count = 1};
static const struct sharding_resource resources[] = {{"", "v1", "pods", "Pod"}};

static struct certificate_pair authority;
static struct certificate *authority_read;
static cJSON *wanted_rules;
static struct labels_keys keys;

static void make_authority(void)
{
    const struct certificate_spec spec = {.common_name = CERTIFICATE_SET_AUTHORITY "1",
                                          .not_before = NOW - 1000,
                                          .not_after = NOW + 1000};
    CHECK(certificate_make_authority(&spec, &authority, NULL) == 0);
    authority_read = certificate_read(slice_str(authority.cert), NULL, NULL);
    wanted_rules = configuration_rules(resources, 1);
    const struct compile_labels names_of_labels = {
        .namespace = "namespace", .shard_hash = "hash", .control = "control"};
    CHECK(labels_keys_init(&keys, &names_of_labels, NULL) == 0);
    CHECK(authority_read != NULL && wanted_rules != NULL);
}

static void check_configuration(const cJSON *object)
{
    const struct configuration_wanted w = {.bundle = slice_str(authority.cert),
                                           .rules = wanted_rules,
                                           .condition = CONFIGURATION_CONDITION_SET,
                                           .keys = &keys,
                                           .now = NOW};
    cJSON *patch = configuration_patch(&target, &w, object);
    if (patch == NULL) {
        return;
    }
    CHECK(configuration_count(&target, object) > 0);
    cJSON_DeleteItemFromArray(patch, 0); /* the test of the version */
    cJSON *now = patch_apply(object, patch);
    cJSON_Delete(patch);
    if (now != NULL) { /* it has webhooks by numbers */
        patch = configuration_patch(&target, &w, now);
        CHECK(patch == NULL);
        CHECK(configuration_trusts(&target, now, authority_read));
        cJSON_Delete(now);
    }
}

static void check_secret(const cJSON *object)
{
    struct certificate_set set = {0};
    struct certificate_plan plan;
    certificate_set_read(&set, object);
    certificate_set_plan(&set, &rules, NOW, true, &plan);
    CHECK(plan.action == CERTIFICATE_KEEP || plan.why[0] != '\0');
    free(certificate_set_bundle(&set));
    certificate_set_deinit(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (authority.cert == NULL) {
        make_authority();
    }
    struct slice rest = slice_of((const char *)data, size);
    struct certificate *c = certificate_read(rest, &rest, NULL);
    CHECK(c == NULL || certificate_not_before(c) != INT64_MIN);
    certificate_free(c);
    cJSON *object = json_parse((const char *)data, size, NULL);
    if (object != NULL) {
        check_configuration(object);
        check_secret(object);
    }
    cJSON_Delete(object);
    return 0;
}
