/* SPDX-License-Identifier: Apache-2.0 */
#include "route/entries_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "json/field.h"

enum { CLAIMS_MAX = 4 };

/* Of `count` entries, NAME0, NAME1..., that have about so many bytes together. */
static cJSON *entries_of(const char *name, int count, size_t bytes)
{
    cJSON *list = cJSON_CreateArray();
    char *filling = calloc(1, bytes + 1);
    (void)memset(filling, 'x', bytes);
    for (int i = 0; i < count; i++) {
        char text[64];
        cJSON *entry = cJSON_CreateObject();
        (void)snprintf(text, sizeof text, "%s%d", name, i);
        cJSON_AddStringToObject(entry, "name", text);
        if (i == 0) {
            cJSON_AddStringToObject(entry, "x", filling);
        }
        cJSON_AddItemToArray(list, entry);
    }
    free(filling);
    return list;
}

struct given {
    const char *configuration;
    const char *created;
    bool has_entries;
    int count;
    size_t bytes;
    const char *names; /* what the entries are called; NULL: as the configuration */
    bool fits;
};

static void expect(size_t number, const struct given *given)
{
    struct entries_claim claims[CLAIMS_MAX];
    size_t count = 0;
    for (; count < CLAIMS_MAX && given[count].configuration != NULL; count++) {
        const struct given *g = &given[count];
        claims[count] = (struct entries_claim){
            .configuration = g->configuration,
            .created = g->created,
            .has_entries = g->has_entries,
            .entries =
                entries_of(g->names != NULL ? g->names : g->configuration, g->count, g->bytes)};
    }
    entries_list_fit(claims, count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (claims[i].fits != given[i].fits) {
            fail_msg("case %zu: %s", number, given[i].configuration);
        }
        cJSON_Delete((cJSON *)claims[i].entries);
    }
}

static void which_claims_fit(void **state)
{
    enum { HALF = ENTRIES_BYTES_MAX / 2 };
    static const struct given cases[][CLAIMS_MAX] = {
        {{"a", "1", false, 100, 0, NULL, true}, {"b", "2", false, 50, 0, NULL, true}},
        {{"a", "1", false, 100, 0, NULL, true},
         {"b", "2", false, 51, 0, NULL, false},
         {"c", "3", false, 50, 0, NULL, true}},
        {{"a", "2", false, 100, 0, NULL, false}, {"b", "1", false, 51, 0, NULL, true}},
        {{"b", "1", false, 100, 0, NULL, false}, {"a", "1", false, 51, 0, NULL, true}},
        {{"a", "1", false, 100, 0, NULL, false}, {"b", "2", true, 51, 0, NULL, true}},
        {{"a", "1", false, ENTRIES_MAX, 0, NULL, true}},
        {{"a", "1", false, ENTRIES_MAX + 1, 0, NULL, false}},
        {{"a", "1", false, 1, HALF, NULL, true}, {"b", "2", false, 1, HALF, NULL, false}},
        {{"a", "1", false, 1, HALF, NULL, true}, {"b", "2", false, 1, HALF - 100, NULL, true}},
        {{"a", "1", false, 1, ENTRIES_BYTES_MAX, NULL, false}},
        {{"a", "1", false, 3, 0, "x", true}, {"b", "2", false, 2, 0, "x", false}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect(i, cases[i]);
    }
}

static void a_claim_with_a_name_twice_does_not_fit(void **state)
{
    struct entries_claim claim = {.configuration = "a", .created = "1", .fits = true};
    cJSON *list = entries_of("a", 2, 0);
    (void)state;
    cJSON_AddItemToArray(list, cJSON_Duplicate(list->child, true));
    claim.entries = list;
    entries_list_fit(&claim, 1, NULL);
    assert_false(claim.fits);
    cJSON_Delete(list);
}

/* Of "a" and then "b", which is younger: how many entries of each are written, when so many were
 * there before, and each has a least of 10. */
static void expect_written(const int before[2], const int now[2], const int written[2])
{
    static const char *const names[] = {"a", "b"};
    struct entries_claim claims[2];
    cJSON *standing = cJSON_CreateArray();
    for (size_t i = 0; i < 2; i++) {
        cJSON *list = entries_of(names[i], before[i], 0);
        claims[i] = (struct entries_claim){.configuration = names[i],
                                           .created = names[i],
                                           .has_entries = before[i] > 0,
                                           .entries = entries_of(names[i], now[i], 0),
                                           .least = entries_of(names[i], 10, 0)};
        while (list->child != NULL) {
            cJSON_AddItemToArray(standing, cJSON_DetachItemFromArray(list, 0));
        }
        cJSON_Delete(list);
    }
    entries_list_fit(claims, 2, standing);
    cJSON *all = entries_list_join(claims, 2);
    int found[2] = {0, 0};
    const cJSON *item;
    cJSON_ArrayForEach(item, all)
    {
        found[field_text(item, "name")[0] == 'b']++;
    }
    assert_int_equal(found[0], written[0]);
    assert_int_equal(found[1], written[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_true(claims[i].fits == (written[i] == now[i]));
        cJSON_Delete((cJSON *)claims[i].entries);
        cJSON_Delete((cJSON *)claims[i].least);
    }
    cJSON_Delete(standing);
    cJSON_Delete(all);
}

static void who_grows_takes_no_room_of_others(void **state)
{
    (void)state;
    expect_written((int[]){100, 50}, (int[]){100, 50}, (int[]){100, 50});
    expect_written((int[]){100, 50}, (int[]){101, 50}, (int[]){10, 50});
    expect_written((int[]){100, 50}, (int[]){101, 40}, (int[]){101, 40});
    expect_written((int[]){100, 50}, (int[]){90, 51}, (int[]){90, 51});
    expect_written((int[]){100, 50}, (int[]){100, 51}, (int[]){100, 10});
    expect_written((int[]){10, 50}, (int[]){101, 50}, (int[]){10, 50});
    expect_written((int[]){10, 50}, (int[]){100, 50}, (int[]){100, 50});
    expect_written((int[]){0, 50}, (int[]){101, 50}, (int[]){10, 50});
    expect_written((int[]){0, 145}, (int[]){20, 145}, (int[]){5, 145});
}

static void they_stand_by_the_names_of_configurations(void **state)
{
    struct entries_claim claims[] = {
        {.configuration = "b", .entries = entries_of("b", 2, 0), .fits = true},
        {.configuration = "c", .entries = entries_of("c", 1, 0)},
        {.configuration = "a", .entries = entries_of("a", 1, 0), .fits = true},
    };
    static const char *const names[] = {"a0", "b0", "b1"};
    (void)state;
    cJSON *all = entries_list_join(claims, ARRAY_LEN(claims));
    assert_int_equal(cJSON_GetArraySize(all), ARRAY_LEN(names));
    for (int i = 0; i < (int)ARRAY_LEN(names); i++) {
        assert_string_equal(field_text(cJSON_GetArrayItem(all, i), "name"), names[i]);
    }
    cJSON_Delete(all);
    for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
        cJSON_Delete((cJSON *)claims[i].entries);
    }
}

/* ---- other installations ---- */

#define ENTRY(name, key, operator)                                                                 \
    "{\"name\":\"" name "\",\"namespaceSelector\":{\"matchExpressions\":[{\"key\":\"" key          \
    "\",\"operator\":\""                                                                           \
    operator"\"},{\"key\":\"hash\",\"operator\":\"In\",\"values\":[\"1\"]}]}}"
#define OURS(name) ENTRY(name, "x/control", "Exists")
#define THEIRS(name) ENTRY(name, "y/control", "Exists")

static void entries_of_another_installation_stay(void **state)
{
    static const struct {
        const char *now;
        const char *own;
        bool is;
        const char *written;
    } cases[] = {
        {"[]", "[]", true, "[]"},
        {"null", "[]", true, "[]"},
        {"[" OURS("a") "]", "[" OURS("a") "]", true, "[" OURS("a") "]"},
        {"[" OURS("a") "]", "[]", false, "[]"},
        {"[]", "[" OURS("a") "]", false, "[" OURS("a") "]"},
        {"[" THEIRS("t") "]", "[]", true, "[" THEIRS("t") "]"},
        {"[" OURS("a") "," THEIRS("t") "]", "[" OURS("a") "]", true,
         "[" OURS("a") "," THEIRS("t") "]"},
        {"[" THEIRS("t") "," OURS("a") "]", "[" OURS("a") "]", true,
         "[" OURS("a") "," THEIRS("t") "]"},
        {"[" THEIRS("t") "," OURS("b") "]", "[" OURS("a") "]", false,
         "[" OURS("a") "," THEIRS("t") "]"},
        /* What is neither goes, and so does what has a name of ours. */
        {"[" ENTRY("n", "y/control", "DoesNotExist") "]", "[]", false, "[]"},
        {"[{\"name\":\"n\"}]", "[]", false, "[]"},
        {"[" THEIRS("a") "]", "[" OURS("a") "]", false, "[" OURS("a") "]"},
        {"[" THEIRS("a") "," OURS("a") "]", "[" OURS("a") "]", false, "[" OURS("a") "]"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *now = cJSON_Parse(cases[i].now);
        cJSON *own = cJSON_Parse(cases[i].own);
        cJSON *written = cJSON_Parse(cases[i].written);
        assert_non_null(written);
        if (entries_list_is(now, own, "x/control") != cases[i].is) {
            fail_msg("case %zu", i);
        }
        uint64_t hash = entries_list_hash(own, "x/control");
        entries_list_add_foreign(own, now, "x/control");
        if (!cJSON_Compare(own, written, true) || entries_list_hash(own, "x/control") != hash) {
            fail_msg("case %zu: %s", i, cJSON_PrintUnformatted(own));
        }
        cJSON_Delete(now);
        cJSON_Delete(own);
        cJSON_Delete(written);
    }
}

static void those_that_do_not_fit_go(void **state)
{
    (void)state;
    cJSON *now = entries_of("t", 3, 0);
    cJSON *own = entries_of("a", 1, ENTRIES_BYTES_MAX - 1024);
    char *filling = calloc(1, ENTRIES_BYTES_MAX);
    cJSON *item;
    (void)memset(filling, 'x', ENTRIES_BYTES_MAX / 5);
    cJSON_ArrayForEach(item, now)
    {
        cJSON_AddItemToObject(item, "namespaceSelector",
                              cJSON_Parse("{\"matchExpressions\":[{\"key\":\"y/control\","
                                          "\"operator\":\"Exists\"}]}"));
        cJSON_AddStringToObject(item, "filling", filling);
    }
    entries_list_add_foreign(own, now, "x/control");
    assert_int_equal(cJSON_GetArraySize(own), 2);
    free(filling);
    cJSON_Delete(now);
    cJSON_Delete(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_claims_fit),
        cmocka_unit_test(a_claim_with_a_name_twice_does_not_fit),
        cmocka_unit_test(who_grows_takes_no_room_of_others),
        cmocka_unit_test(entries_of_another_installation_stay),
        cmocka_unit_test(those_that_do_not_fit_go),
        cmocka_unit_test(they_stand_by_the_names_of_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
