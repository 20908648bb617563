/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON array: the workload, the metrics of a localproxy, and the lists in the order of
 * operator_list. Whatever the objects of strangers hold, each finding has a text, and both reports
 * can be written, for people without control characters.
 */
#include "readiness/operator_check.h"

#include <stdlib.h>

#include "base/array.h"
#include "check.h"
#include "label/labels.h"
#include "json/field.h"
#include "json/json.h"

static const struct discovery_resource resources[] = {
    {"", "v1", "Node", "nodes", false, true, UINT32_MAX, 0},
    {"", "v1", "Pod", "pods", true, true, UINT32_MAX, 0},
    {"example.com", "v1", "Widget", "widgets", true, true, UINT32_MAX, 0},
};
static const struct sharding_resource labelled[] = {{"", "v1", "pods", "Pod"}};

static void check_all(const struct operator_facts *facts)
{
    struct findings found;
    struct err e = ERR_INIT;
    char *about = NULL;
    int rc = operator_check(facts, &found, &about, &e);
    CHECK((rc == 0) == (about != NULL));
    CHECK((rc == 0) == (e.code == 0));
    if (rc == 0) {
        struct buf out = BUF_INIT(64 * 1024 * 1024);
        for (size_t i = 0; i < found.count; i++) {
            CHECK(found.items[i].text != NULL && found.items[i].text[0] != '\0');
        }
        findings_write_text(&found, about, &out);
        for (size_t i = 0; i < out.len; i++) {
            unsigned char c = out.base[i];
            CHECK(c == '\n' || (c >= ' ' && c != 0x7f));
        }
        findings_write_json(&found, about, &out);
        CHECK(buf_error(&out) == 0);
        buf_reset(&out);
    }
    findings_deinit(&found);
    free(about);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *all = json_parse_foreign((const char *)data, size, NULL);
    struct operator_facts facts = {
        .prefix = LABELS_PREFIX,
        .resources = resources,
        .resource_count = ARRAY_LEN(resources),
        .labelled = labelled,
        .labelled_count = ARRAY_LEN(labelled),
    };
    const cJSON *metrics = cJSON_GetArrayItem(all, 1);
    facts.workload = cJSON_GetArrayItem(all, 0);
    if (cJSON_IsString(metrics)) {
        requests_seen_add(&facts.seen, slice_str(metrics->valuestring));
    }
    for (unsigned i = 0; i < OPERATOR_LISTS; i++) {
        facts.lists[i] = cJSON_GetArrayItem(all, (int)i + 2);
        facts.errors[i] = "403";
    }
    check_all(&facts);
    const cJSON *pod;
    cJSON_ArrayForEach(pod, field_get(facts.lists[OPERATOR_PODS], "items"))
    {
        (void)operator_pod_in_mesh(&facts, pod);
    }
    requests_seen_deinit(&facts.seen);
    cJSON_Delete(all);
    return 0;
}
