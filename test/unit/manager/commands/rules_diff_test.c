/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/rules_diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static struct rules *parse(unsigned generation, const char *spec)
{
    char text[8192];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"ns\",\"name\":\"a\"},\"generation\":%u,\"spec\":{%s}}",
                   generation, spec);
    struct rules *rules = rules_parse(text, strlen(text), &e);
    if (rules == NULL) {
        fail_msg("the test's own rules: %s", e.msg);
    }
    return rules;
}

#define LIMIT(groups, resources, selector)                                                         \
    "{\"apiGroups\":[" groups "],\"resources\":[" resources "],\"selector\":\"" selector "\"}"
#define PODS(selector) LIMIT("\"\"", "\"pods\"", selector)

/* The difference, without the lines that name the shards. The caller frees. */
static char *diff(const struct rules *before, const struct rules *after, bool *equal)
{
    struct buf out = BUF_INIT(65536);
    struct err e = ERR_INIT;
    if (rules_diff(before, after, &out, equal, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    char *text = buf_take_str(&out);
    assert_non_null(text);
    return text;
}

static const char *without_names(const char *text)
{
    const char *plus = strstr(text, "\n+++ ");
    assert_non_null(plus);
    return strchr(plus + 1, '\n') + 1;
}

static void differences(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *after;
        const char *want;
    } cases[] = {
        /* A value of a set. */
        {"\"limits\":[" PODS("k in (a,b,c,d,e,f,g)") "]",
         "\"limits\":[" PODS("k in (a,b,c,d,e,f,h)") "]",
         "@@ -7,4 +7,4 @@ pods in the core group:\n"
         "       d\n"
         "       e\n"
         "       f\n"
         "-      g\n"
         "+      h\n"},
        /* Two changes that are far from each other. */
        {"\"leaderElection\":{\"name\":\"l\"},\"limits\":[" PODS("k in (a,b,c,d,e,f,g)") "]",
         "\"limits\":[" PODS("k in (a,b,c,d,e,f)") "]",
         "@@ -1,4 +1,3 @@\n"
         "-leader election: l\n"
         " limits:\n"
         "   pods in the core group:\n"
         "     k in:\n"
         "@@ -8,4 +7,3 @@ pods in the core group:\n"
         "       d\n"
         "       e\n"
         "       f\n"
         "-      g\n"},
        /* Where the lock is. */
        {"\"leaderElection\":{\"name\":\"l\"},\"limits\":[]",
         "\"leaderElection\":{\"name\":\"l\",\"namespace\":\"kube-system\"},\"limits\":[]",
         "@@ -1,2 +1,2 @@\n"
         "-leader election: l\n"
         "+leader election: l in namespace kube-system\n"
         " no limits: everything is visible\n"},
        /* All ways to write a requirement. */
        {"\"limits\":[" PODS("a=1,b!=2,c,!d,e>5,f<6,g notin (x,y),h=") "]",
         "\"limits\":[" LIMIT("\"*\",\"apps\"", "\"*\"", "a=1") "]",
         "@@ -1,12 +1,5 @@\n"
         " limits:\n"
         "-  pods in the core group:\n"
         "-    !d\n"
         "-    a=1\n"
         "-    b!=2\n"
         "-    c\n"
         "-    e>5\n"
         "-    f<6\n"
         "-    g notin:\n"
         "-      x\n"
         "-      y\n"
         "-    h=\"\"\n"
         "+  all resources in any group:\n"
         "+    a=1\n"
         "+  all resources in apps:\n"
         "+    a=1\n"},
        /* Several limits on one resource are one; sets that are both demanded stay two. */
        {"\"limits\":[" PODS("k in (a,b),x=1") "," PODS("k in (b,c)") "]",
         "\"limits\":[" PODS("k in (a,b)") "," PODS("k in (b,d)") "]",
         "@@ -2,5 +2,4 @@\n"
         "   pods in the core group:\n"
         "     k in:\n"
         "       (a,b)\n"
         "-      (b,c)\n"
         "-    x=1\n"
         "+      (b,d)\n"},
        {"\"limits\":[" PODS("k,!k") "]", "\"limits\":[]",
         "@@ -1,3 +1,1 @@\n"
         "-limits:\n"
         "-  pods in the core group:\n"
         "-    nothing\n"
         "+no limits: everything is visible\n"},
        {"\"labels\":{\"control\":\"x/y\"},\"limits\":[]",
         "\"labels\":{\"control\":\"x/z\"},\"limits\":[]",
         "@@ -1,3 +1,3 @@\n"
         " control labels:\n"
         "-  control: x/y\n"
         "+  control: x/z\n"
         " no limits: everything is visible\n"},
        {"\"webhook\":{\"port\":9443},\"limits\":[]",
         "\"webhook\":{\"port\":443,\"certDir\":\"/c\"},\"limits\":[]",
         "@@ -1,3 +1,4 @@\n"
         " no limits: everything is visible\n"
         " webhook:\n"
         "-  port: 9443\n"
         "+  certDir: /c\n"
         "+  port: 443\n"},
        {"\"limits\":[" PODS("a=1") "," PODS("b=1") "]", "\"limits\":[" PODS("a=1,b=1") "]",
         "# the same limits, written differently\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rules *before = parse(1, cases[i].before);
        struct rules *after = parse(1, cases[i].after);
        bool equal = true;
        char *text = diff(before, after, &equal);
        assert_false(equal);
        assert_string_equal(without_names(text), cases[i].want);
        free(text);
        rules_unref(before);
        rules_unref(after);
    }
}

/* The generation that follows, whatever the new rules carry. */
static void names_and_generations(void **state)
{
    (void)state;
    struct rules *before = parse(7, "\"limits\":[" PODS("a=1") "]");
    struct rules *after = parse(1, "\"limits\":[" PODS("a=2") "]");
    struct rules *same = parse(1, "\"limits\":[" PODS("a=1") "]");
    char want[512];
    bool equal = true;
    char *text = diff(before, after, &equal);
    (void)snprintf(want, sizeof want, "--- ns/a\tgeneration 7, %s\n+++ ns/a\tgeneration 8, %s\n",
                   rules_checksum(before), rules_checksum(after));
    assert_memory_equal(text, want, strlen(want));
    assert_false(equal);
    free(text);

    text = diff(NULL, after, &equal);
    (void)snprintf(want, sizeof want, "--- /dev/null\n+++ ns/a\tgeneration 1, %s\n@@ -0,0 +1,3 @@",
                   rules_checksum(after));
    assert_memory_equal(text, want, strlen(want));
    assert_false(equal);
    free(text);

    text = diff(before, same, &equal);
    (void)snprintf(want, sizeof want, "ns/a is unchanged\tgeneration 7, %s\n",
                   rules_checksum(before));
    assert_string_equal(text, want);
    assert_true(equal);
    free(text);
    rules_unref(before);
    rules_unref(after);
    rules_unref(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences),
        cmocka_unit_test(names_and_generations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
