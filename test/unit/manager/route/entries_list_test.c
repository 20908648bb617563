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
    entries_list_fit(claims, count);
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
    struct entries_claim claim = {"a", "1", false, NULL, true};
    cJSON *list = entries_of("a", 2, 0);
    (void)state;
    cJSON_AddItemToArray(list, cJSON_Duplicate(list->child, true));
    claim.entries = list;
    entries_list_fit(&claim, 1);
    assert_false(claim.fits);
    cJSON_Delete(list);
}

static void they_stand_by_the_names_of_configurations(void **state)
{
    struct entries_claim claims[] = {
        {"b", "1", true, entries_of("b", 2, 0), true},
        {"c", "0", false, entries_of("c", 1, 0), false},
        {"a", "2", false, entries_of("a", 1, 0), true},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_claims_fit),
        cmocka_unit_test(a_claim_with_a_name_twice_does_not_fit),
        cmocka_unit_test(they_stand_by_the_names_of_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
