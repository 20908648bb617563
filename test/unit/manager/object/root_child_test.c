/* SPDX-License-Identifier: Apache-2.0 */
#include "object/root_child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/array.h"

static cJSON *make_root(const char *name, const char *created, const char *deployment)
{
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"name\":\"%s\",\"creationTimestamp\":\"%s\"},\"spec\":{\"root\":"
        "{\"targetDeployment\":\"%s\"}}}",
        name, created, deployment);
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    return root;
}

#define TEN "0123456789"

/* Kubernetes takes 58 characters of "DEPLOYMENT-HASH-", and adds 5. */
static void test_names_of_pods(void **state)
{
    static const struct {
        const char *deployment;
        const char *pod;
        const char *hash;
        bool want;
    } cases[] = {
        {"op", "op-5d4f8c7b9c-abcde", "5d4f8c7b9c", true},
        {"op", "op-5d4f8c7b9c-abcde", "5d4f8c7b9d", false},
        {"op", "op-x-5d4f8c7b9c-abcde", "5d4f8c7b9c", false},
        {"op", "op", "5d4f8c7b9c", false},
        {"op", "op-5d4f8c7b9c-abcde", "", false},
        {"", "-5d4f8c7b9c-abcde", "5d4f8c7b9c", false},
        {TEN TEN TEN TEN "012345", TEN TEN TEN TEN "012345-5d4f8c7b9c-abcde", "5d4f8c7b9c", true},
        {TEN TEN TEN TEN "0123456", TEN TEN TEN TEN "0123456-5d4f8c7b9cabcde", "5d4f8c7b9c", true},
        {TEN TEN TEN TEN TEN, TEN TEN TEN TEN TEN "-5d4f8c7abcde", "5d4f8c7b9c", true},
        {TEN TEN TEN TEN TEN, TEN TEN TEN TEN TEN "-5d4f8c6abcde", "5d4f8c7b9c", false},
        {TEN TEN TEN TEN TEN TEN, TEN TEN TEN TEN TEN "01234567abcde", "5d4f8c7b9c", true},
        {TEN TEN TEN TEN TEN TEN, TEN TEN TEN TEN TEN "01234568abcde", "5d4f8c7b9c", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *root = make_root("r", "2026-01-01T00:00:00Z", cases[i].deployment);
        if (root_child_deploys(root, cases[i].pod, cases[i].hash) != cases[i].want) {
            fail_msg("%s of Deployment %s", cases[i].pod, cases[i].deployment);
        }
        cJSON_Delete(root);
    }
}

static void test_which_root_precedes(void **state)
{
    cJSON *old = make_root("z", "2026-01-01T00:00:00Z", "op");
    cJSON *new = make_root("a", "2026-01-01T00:00:01Z", "op");
    cJSON *same = make_root("b", "2026-01-01T00:00:01Z", "op");
    (void)state;
    assert_true(root_child_precedes(old, new));
    assert_false(root_child_precedes(new, old));
    assert_true(root_child_precedes(new, same));
    assert_false(root_child_precedes(same, new));
    assert_false(root_child_precedes(new, new));
    cJSON_Delete(old);
    cJSON_Delete(new);
    cJSON_Delete(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_pods),
        cmocka_unit_test(test_which_root_precedes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
