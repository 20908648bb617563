/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "shard/summary.h"
#include "yaml/yaml.h"

#define CONDITION(type, status, reason, message)                                                   \
    "{type: " type ", status: '" status "', reason: " reason ", message: '" message "'}"
#define FINE CONDITION("Compiled", "True", "Valid", "The spec is valid.")

static void shards_in_a_few_words(void **state)
{
    static const struct {
        const char *status;
        const char *want;
    } rows[] = {
        {"", "\"enforced\":\"\",\"state\":\"Pending\"}"},
        {"generation: three", "\"name\":\"blue\",\"enforced\":\"\""},
        {"generation: 3, enforced: 2/2, conditions: [" FINE
         "," CONDITION("Published", "True", "Published",
                       "It is.") "," CONDITION("Ready", "True", "Enforced", "2 of 2.") "]",
         "\"generation\":3,\"enforced\":\"2/2\",\"state\":\"Enforced\"}"},
        {"generation: 3, enforced: 1/2, conditions: [" FINE
         "," CONDITION("Published", "True", "Published",
                       "It is.") "," CONDITION("Ready", "False", "Silent", "1 of 2.") "]",
         "\"generation\":3,\"enforced\":\"1/2\",\"state\":\"Silent\"}"},
        {"generation: 3, enforced: 2/2, conditions: [" FINE
         "," CONDITION("Published", "False", "WaitingForHandover",
                       "blue") "," CONDITION("Ready", "False", "WaitingForHandover", "blue") "]",
         "\"state\":\"WaitingForHandover\",\"message\":\"blue\"}"},
        {"enforced: 0/0, conditions: [" CONDITION(
             "Compiled", "False", "Invalid",
             "spec: wrong") "," CONDITION("Published", "False", "NotCompiled",
                                          "None.") "," CONDITION("Ready", "False", "Invalid",
                                                                 "spec: wrong") "]",
         "\"enforced\":\"0/0\",\"state\":\"Invalid\",\"message\":\"spec: wrong\"}"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[2048];
        struct err e = ERR_INIT;
        (void)snprintf(text, sizeof text, "{metadata: {namespace: ns, name: blue}, status: {%s}}",
                       rows[i].status);
        cJSON *config = yaml_parse(text, strlen(text), NULL, &e);
        cJSON *array = cJSON_CreateArray();
        assert_non_null(config);
        summary_add(array, config);
        char *got = cJSON_PrintUnformatted(array);
        if (strstr(got, "[{\"namespace\":\"ns\",\"name\":\"blue\",") != got ||
            strstr(got, rows[i].want) == NULL) {
            fail_msg("%s: %s", rows[i].status, got);
        }
        cJSON_free(got);
        cJSON_Delete(array);
        cJSON_Delete(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_in_a_few_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
