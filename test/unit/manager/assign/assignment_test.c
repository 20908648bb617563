/* SPDX-License-Identifier: Apache-2.0 */
#include "assign/assignment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

/* "NUMBER:WANTED:RANKS:OTHERS", where RANKS are digits, 0 of a pod without one, and OTHERS how many
 * pods of other revisions there are; a `-` in front: it is leaving. */
static size_t read_shards(const char *text, struct assignment_shard *out)
{
    size_t count = 0;
    char copy[256];
    char *rest = NULL;
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *s = strtok_r(copy, " ", &rest); s != NULL; s = strtok_r(NULL, " ", &rest)) {
        char ranks[32] = "";
        unsigned others = 0;
        struct assignment_shard *shard = &out[count++];
        *shard = (struct assignment_shard){.leaving = s[0] == '-'};
        assert_true(sscanf(s + shard->leaving, "%u:%u:%31[0-9.]:%u", &shard->number, &shard->wanted,
                           ranks, &others) == 4);
        for (const char *r = ranks; *r != '\0'; r++) {
            if (*r != '.') {
                assignment_add_pod(shard, true, (unsigned)(*r - '0'));
            }
        }
        for (; others > 0; others--) {
            assignment_add_pod(shard, false, 1);
        }
    }
    return count;
}

static void test_choose(void **state)
{
    static const struct {
        const char *what;
        const char *shards;
        bool from_back;
        bool beyond;
        const char *want; /* "NUMBER rank RANK", or the error */
    } cases[] = {
        {"the canary is first", "0:1:.:0 1:3:.:0 2:3:.:0", false, false, "0 rank 1"},
        {"and last from the back", "0:1:.:0 1:3:.:0 2:3:.:0", true, false, "2 rank 3"},
        {"each gets one", "0:1:1:0 1:3:1:0 2:3:.:0", false, false, "2 rank 1"},
        {"before any gets the next", "0:1:1:0 1:3:1:0 2:3:1:0", false, false, "1 rank 2"},
        {"from the back too", "1:3:.:0 2:3:3:0", true, false, "1 rank 3"},
        {"and then the next", "1:3:3:0 2:3:3:0", true, false, "2 rank 2"},
        {"where both meet", "1:3:12:0 2:3:13:0", false, false, "2 rank 2"},
        {"where both meet, from the back", "1:3:12:0 2:3:123:0", true, false, "1 rank 3"},
        {"a lost rank comes again", "1:3:23:0 2:3:123:0", false, false, "1 rank 1"},
        {"from the back too", "1:3:23:0 2:3:123:0", true, false, "1 rank 1"},
        {"by share", "1:4:12:0 2:2:1:0", false, false, "1 rank 3"},
        {"by share, then by number", "1:4:1:0 2:2:.:0 3:2:1:0", false, false, "2 rank 1"},
        {"no pod at all goes first", "1:3:.:2 2:3:1:0 3:3:.:0", false, false, "3 rank 1"},
        {"though others have less", "1:2:.:2 2:2:1:0 3:2:.:0", true, false, "3 rank 2"},
        {"a canary is left to the front", "0:1:.:0 1:3:3:0 2:3:3:0", true, false, "2 rank 2"},
        {"but for the last place", "0:1:.:0 1:1:1:0", true, false, "0 rank 1"},
        {"old pods do not count", "0:1:.:1 1:1:.:1 2:1:.:1", false, false, "0 rank 1"},
        {"nor for the canary", "0:1:.:2 1:1:1:1 2:1:1:1", false, false, "0 rank 1"},
        {"a canary that is full", "0:1:1:0 1:1:1:0 2:1:.:0", false, false, "2 rank 1"},
        {"never gets more", "0:1:1:0 1:1:1:0", false, true, "1 rank 2"},
        {"no place", "0:1:1:0 1:1:1:0 2:2:12:0", false, false, "no place"},
        {"beyond, by share", "1:2:123:0 2:2:12:0 3:1:1:0", false, true, "2 rank 3"},
        {"beyond, from the back", "1:2:12:0 2:2:12:0 3:1:1:0", true, true, "3 rank 2"},
        {"pods without a rank are somewhere", "1:2:00:0 2:2:1:0", false, false, "2 rank 2"},
        {"two with the same one", "1:2:11:0 2:2:1:0", false, false, "2 rank 2"},
        {"leaving ones get none", "-1:3:.:0 2:3:12:0", false, false, "2 rank 3"},
        {"not even beyond", "-1:3:.:0 2:1:1:0", false, true, "2 rank 2"},
        {"all leave", "-1:3:.:0 -2:3:.:0", false, true, "no shard"},
        {"there is none", "", false, true, "no shard"},
        {"a canary alone that is full", "0:1:1:0", false, true, "no place"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct assignment_shard shards[8];
        struct assignment_place place;
        char got[64] = "";
        size_t count = read_shards(cases[i].shards, shards);
        int rc = assignment_choose(shards, count, cases[i].from_back, cases[i].beyond, &place);
        if (rc == 0) {
            (void)snprintf(got, sizeof got, "%u rank %u", shards[place.shard].number, place.rank);
        } else {
            (void)snprintf(got, sizeof got, "%s", rc == -EAGAIN ? "no place" : "no shard");
        }
        if (strcmp(got, cases[i].want) != 0) {
            fail_msg("%s: %s: %s, not %s", cases[i].what, cases[i].shards, got, cases[i].want);
        }
    }
}

/* Two that see nothing of each other never take the same place, however pods fall to them, as long
 * as there are as many places as pods; and at no time has a shard two more than another. */
static void test_both_ends(void **state)
{
    enum { SHARDS = 5, WANTED = 3 };
    uint64_t random = 88172645463325252u;
    (void)state;
    for (unsigned round = 0; round < 1000; round++) {
        struct assignment_shard seen[2][SHARDS];
        struct assignment_place place;
        unsigned count[SHARDS] = {0};
        for (unsigned i = 0; i < SHARDS; i++) {
            seen[0][i] = (struct assignment_shard){.number = i + 1, .wanted = WANTED};
            seen[1][i] = seen[0][i];
        }
        for (unsigned pod = 0; pod < SHARDS * WANTED; pod++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bool back = (random >> 20 & 1) != 0;
            unsigned most = 0;
            unsigned fewest = UINT32_MAX;
            assert_int_equal(assignment_choose(seen[back], SHARDS, back, false, &place), 0);
            assignment_add_pod(&seen[back][place.shard], true, place.rank);
            count[place.shard]++;
            for (unsigned i = 0; i < SHARDS; i++) {
                most = count[i] > most ? count[i] : most;
                fewest = count[i] < fewest ? count[i] : fewest;
            }
            assert_true(most - fewest <= 1);
        }
    }
}

/* The first to be deleted has the lowest cost. */
static void test_costs(void **state)
{
    static const struct {
        unsigned number;
        unsigned rank;
    } order[] = {{32, 1000000}, {1, 4000000000u}, {2, 3}, {1, 3}, {32, 1}, {2, 1}, {1, 1}, {0, 1}};
    (void)state;
    assert_true(assignment_cost(order[0].number, order[0].rank) > 0);
    for (size_t i = 1; i < ARRAY_LEN(order); i++) {
        assert_true(assignment_cost(order[i - 1].number, order[i - 1].rank) <
                    assignment_cost(order[i].number, order[i].rank));
    }
    assert_int_equal(assignment_cost(0, 2), assignment_cost(0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_both_ends),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
