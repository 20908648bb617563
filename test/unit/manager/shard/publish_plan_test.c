/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/publish_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

/* One row: what is known, and what comes of it. */
struct row {
    const char *name;
    struct publish_facts facts;
    enum publish_action action;
    enum publish_reason reason;
};

static void expect_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct publish_plan plan = publish_plan(&rows[i].facts);
        if (plan.action != rows[i].action || plan.reason != rows[i].reason) {
            fail_msg("%s: action %d, not %d; reason %d, not %d", rows[i].name, (int)plan.action,
                     (int)rows[i].action, (int)plan.reason, (int)rows[i].reason);
        }
    }
}

#define NONE .map = PUBLISH_MAP_NONE
#define FOREIGN .map = PUBLISH_MAP_FOREIGN
#define OURS .map = PUBLISH_MAP_OURS
#define GIVEN .handover = PUBLISH_HANDOVER_DONE
#define WAITING .handover = PUBLISH_HANDOVER_WAITS

/* What is known later is as it would be if it mattered, so that the order shows. */
static void test_before_others_are_asked(void **state)
{
    static const struct row rows[] = {
        {"the first", {NONE}, PUBLISH_ASK_OTHERS, PUBLISH_PENDING},
        {"an edit", {OURS}, PUBLISH_ASK_OTHERS, PUBLISH_PENDING},
        {"it is right", {OURS, .right = true, .mounted = true}, PUBLISH_CONFIRM, PUBLISH_OK},
        {"namespaces are not known",
         {.spec = PUBLISH_SPEC_NAMESPACES, OURS, .unread = true, .right = true},
         PUBLISH_NOTHING,
         PUBLISH_WAITS_FOR_NAMESPACES},
        {"it was not read", {OURS, .unread = true, .right = true}, PUBLISH_READ, PUBLISH_PENDING},
        {"somebody else's was not read", {FOREIGN, .unread = true}, PUBLISH_READ, PUBLISH_PENDING},
        {"it was not read, and the spec is invalid",
         {.spec = PUBLISH_SPEC_REFUSED, OURS, .unread = true},
         PUBLISH_READ,
         PUBLISH_PENDING},
        {"somebody else's",
         {FOREIGN, .unasked = true, .policies_unknown = true, .labels_missing = true},
         PUBLISH_REPORT,
         PUBLISH_NAME_TAKEN},
        {"somebody else's, with other rules",
         {FOREIGN, .overwritten = true},
         PUBLISH_REPORT,
         PUBLISH_NAME_TAKEN},
        {"pods may know of a generation",
         {NONE, .unasked = true, .policies_unknown = true, .labels_missing = true, .right = true},
         PUBLISH_NOTHING,
         PUBLISH_WAITS_FOR_PODS},
        {"they may, but so does the ConfigMap",
         {OURS, .unasked = true},
         PUBLISH_ASK_OTHERS,
         PUBLISH_PENDING},
        {"policies are not known",
         {NONE, .policies_unknown = true, .labels_missing = true, .right = true},
         PUBLISH_NOTHING,
         PUBLISH_WAITS_FOR_POLICIES},
        {"they are not, but pods have started without",
         {OURS, .policies_unknown = true},
         PUBLISH_ASK_OTHERS,
         PUBLISH_PENDING},
        {"labels are missing",
         {NONE, .labels_missing = true, .right = true},
         PUBLISH_REPORT,
         PUBLISH_WAITS_FOR_LABELS},
    };
    (void)state;
    expect_rows(rows, ARRAY_LEN(rows));
}

static void test_nothing_is_gained(void **state)
{
    static const struct row rows[] = {
        {"to be made", {OURS, GIVEN, .meanwhile = true}, PUBLISH_MAKE, PUBLISH_PENDING},
        {"the first is to be made", {NONE, GIVEN}, PUBLISH_MAKE, PUBLISH_PENDING},
        {"it fits", {OURS, GIVEN, .wanted = PUBLISH_FITS}, PUBLISH_WRITE, PUBLISH_PENDING},
        {"it fits, over what somebody wrote",
         {OURS, GIVEN, .wanted = PUBLISH_FITS, .overwritten = true, .own = PUBLISH_FITS},
         PUBLISH_WRITE,
         PUBLISH_PENDING},
        {"what would be right meanwhile does not matter",
         {OURS, GIVEN, .meanwhile = true, .right_meanwhile = true},
         PUBLISH_MAKE,
         PUBLISH_PENDING},
        {"too large", {OURS, GIVEN, .wanted = PUBLISH_TOO_LARGE}, PUBLISH_KEEP, PUBLISH_OVERSIZED},
        {"pods do not read it",
         {OURS, GIVEN, .wanted = PUBLISH_UNREADABLE},
         PUBLISH_KEEP,
         PUBLISH_HELD_BACK},
        {"too large, and somebody changed what stands there",
         {OURS, GIVEN, .wanted = PUBLISH_TOO_LARGE, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_OVERSIZED},
        {"pods do not read it, and somebody changed what stands there",
         {OURS, GIVEN, .wanted = PUBLISH_UNREADABLE, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_HELD_BACK},
        {"that is put back",
         {OURS, GIVEN, .wanted = PUBLISH_UNREADABLE, .overwritten = true, .own = PUBLISH_FITS},
         PUBLISH_WRITE,
         PUBLISH_HELD_BACK},
        {"that cannot be put back",
         {OURS, GIVEN, .wanted = PUBLISH_TOO_LARGE, .overwritten = true, .own = PUBLISH_UNREADABLE},
         PUBLISH_KEEP,
         PUBLISH_OVERSIZED},
    };
    (void)state;
    expect_rows(rows, ARRAY_LEN(rows));
}

/* It is asked of others although nothing changed. */
static void test_beside_pods_without_sidecars(void **state)
{
    static const struct row rows[] = {
        {"perhaps",
         {OURS, .right = true, .beside_bare = true},
         PUBLISH_ASK_OTHERS,
         PUBLISH_PENDING},
        {"they are of another operator",
         {OURS, GIVEN, .right = true, .beside_bare = true},
         PUBLISH_CONFIRM,
         PUBLISH_OK},
        {"it withdraws",
         {OURS, WAITING, .right = true, .beside_bare = true, .meanwhile = true},
         PUBLISH_MAKE,
         PUBLISH_PENDING},
        {"it has withdrawn",
         {OURS, WAITING, .beside_bare = true, .meanwhile = true, .right_meanwhile = true},
         PUBLISH_CONFIRM,
         PUBLISH_WAITS_FOR_HANDOVER},
        {"a new one is published without anything",
         {NONE, WAITING, .beside_bare = true, .meanwhile = true, .wanted = PUBLISH_FITS},
         PUBLISH_WRITE,
         PUBLISH_WAITS_FOR_HANDOVER},
    };
    (void)state;
    expect_rows(rows, ARRAY_LEN(rows));
}

/* What it loses is published at once, and the reason is always that it waits. */
static void test_waiting_for_others(void **state)
{
    static const struct row rows[] = {
        {"what its pods had nobody knows",
         {NONE, WAITING, .right_meanwhile = true},
         PUBLISH_REPORT,
         PUBLISH_WAITS_FOR_HANDOVER},
        {"what it loses", {OURS, WAITING, .meanwhile = true}, PUBLISH_MAKE, PUBLISH_PENDING},
        {"what it loses fits",
         {OURS, WAITING, .meanwhile = true, .wanted = PUBLISH_FITS},
         PUBLISH_WRITE,
         PUBLISH_WAITS_FOR_HANDOVER},
        {"it has lost it",
         {OURS, WAITING, .meanwhile = true, .right_meanwhile = true},
         PUBLISH_CONFIRM,
         PUBLISH_WAITS_FOR_HANDOVER},
        {"what it loses does not fit",
         {OURS, WAITING, .meanwhile = true, .wanted = PUBLISH_TOO_LARGE},
         PUBLISH_KEEP,
         PUBLISH_WAITS_FOR_HANDOVER},
        {"its pods do not read it",
         {OURS, WAITING, .meanwhile = true, .wanted = PUBLISH_UNREADABLE},
         PUBLISH_KEEP,
         PUBLISH_WAITS_FOR_HANDOVER},
        {"nor does it hold any more what it has",
         {OURS, WAITING, .meanwhile = true, .wanted = PUBLISH_TOO_LARGE, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_WAITS_FOR_HANDOVER},
    };
    (void)state;
    expect_rows(rows, ARRAY_LEN(rows));
}

/* What is in force stays so, whoever changes it. */
static void test_nothing_newer_can_be_published(void **state)
{
    static const struct row rows[] = {
        {"invalid",
         {.spec = PUBLISH_SPEC_REFUSED, OURS, .mounted = true},
         PUBLISH_KEEP,
         PUBLISH_OK},
        {"invalid from the beginning",
         {.spec = PUBLISH_SPEC_REFUSED, NONE},
         PUBLISH_KEEP,
         PUBLISH_OK},
        {"being deleted", {.spec = PUBLISH_SPEC_ENDING, OURS}, PUBLISH_KEEP, PUBLISH_OK},
        {"being deleted, and never published",
         {.spec = PUBLISH_SPEC_ENDING, NONE, .labels_missing = true},
         PUBLISH_KEEP,
         PUBLISH_OK},
        {"invalid, and overwritten",
         {.spec = PUBLISH_SPEC_REFUSED, OURS, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_OK},
        {"invalid, and taken away",
         {.spec = PUBLISH_SPEC_REFUSED, NONE, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_OK},
        {"being deleted, and overwritten so that it looks like somebody else's",
         {.spec = PUBLISH_SPEC_ENDING, FOREIGN, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_OK},
        {"put back",
         {.spec = PUBLISH_SPEC_REFUSED, OURS, .overwritten = true, .own = PUBLISH_FITS},
         PUBLISH_WRITE,
         PUBLISH_OK},
        {"too large by now",
         {.spec = PUBLISH_SPEC_REFUSED, OURS, .overwritten = true, .own = PUBLISH_TOO_LARGE},
         PUBLISH_KEEP,
         PUBLISH_OK},
    };
    (void)state;
    expect_rows(rows, ARRAY_LEN(rows));
}

#define GONE .spec = PUBLISH_SPEC_GONE

static void test_the_config_is_gone(void **state)
{
    static const struct row rows[] = {
        {"so is the ConfigMap", {GONE, NONE, .mounted = true}, PUBLISH_NOTHING, PUBLISH_OK},
        {"somebody else's", {GONE, FOREIGN}, PUBLISH_NOTHING, PUBLISH_OK},
        {"somebody else's, which pods mount",
         {GONE, FOREIGN, .mounted = true, .unread = true},
         PUBLISH_NOTHING,
         PUBLISH_OK},
        {"pods mount it", {GONE, OURS, .mounted = true}, PUBLISH_FOLLOW, PUBLISH_OK},
        {"pods mount it, and it was not read",
         {GONE, OURS, .mounted = true, .unread = true},
         PUBLISH_READ,
         PUBLISH_OK},
        {"nobody mounts it", {GONE, OURS}, PUBLISH_DELETE, PUBLISH_OK},
        {"nobody does, and it was not read",
         {GONE, OURS, .unread = true},
         PUBLISH_DELETE,
         PUBLISH_OK},
        {"nobody mounts what somebody changed",
         {GONE, OURS, .overwritten = true},
         PUBLISH_DELETE,
         PUBLISH_OK},
        {"nobody mounts what somebody took",
         {GONE, FOREIGN, .overwritten = true},
         PUBLISH_NOTHING,
         PUBLISH_OK},
        {"pods mount what somebody changed",
         {GONE, OURS, .mounted = true, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_OK},
        {"pods mount what somebody took",
         {GONE, FOREIGN, .mounted = true, .overwritten = true},
         PUBLISH_MAKE_OWN,
         PUBLISH_OK},
        {"it is put back",
         {GONE, FOREIGN, .mounted = true, .overwritten = true, .own = PUBLISH_FITS},
         PUBLISH_WRITE,
         PUBLISH_OK},
        {"it does not fit any more",
         {GONE, OURS, .mounted = true, .overwritten = true, .own = PUBLISH_UNREADABLE},
         PUBLISH_FOLLOW,
         PUBLISH_OK},
        {"nor does what somebody took",
         {GONE, FOREIGN, .mounted = true, .overwritten = true, .own = PUBLISH_UNREADABLE},
         PUBLISH_NOTHING,
         PUBLISH_OK},
    };
    (void)state;
    expect_rows(rows, ARRAY_LEN(rows));
}

/* Of all facts: each question is asked once, so that it ends; and nothing is written that was not
 * made, nor over somebody else's ConfigMap, nor what others still have. */
static void check_all(struct publish_facts f)
{
    for (unsigned asked = 0; asked < 4; asked++) {
        struct publish_plan plan = publish_plan(&f);
        switch (plan.action) {
        case PUBLISH_ASK_OTHERS:
            assert_int_equal(f.handover, PUBLISH_HANDOVER_UNKNOWN);
            f.handover = PUBLISH_HANDOVER_DONE;
            break;
        case PUBLISH_MAKE:
            assert_int_equal(f.wanted, PUBLISH_UNMADE);
            f.wanted = PUBLISH_TOO_LARGE;
            break;
        case PUBLISH_MAKE_OWN:
            assert_int_equal(f.own, PUBLISH_UNMADE);
            f.own = PUBLISH_FITS;
            break;
        case PUBLISH_WRITE:
            assert_true(f.own == PUBLISH_FITS || f.wanted == PUBLISH_FITS);
            assert_true(f.map != PUBLISH_MAP_FOREIGN || f.overwritten);
            return;
        case PUBLISH_CONFIRM:
            assert_true(f.right || f.right_meanwhile);
            return;
        case PUBLISH_DELETE:
            assert_int_equal(f.spec, PUBLISH_SPEC_GONE);
            assert_int_equal(f.map, PUBLISH_MAP_OURS);
            assert_false(f.mounted);
            return;
        default:
            return;
        }
    }
    fail_msg("it does not end");
}

static void test_it_always_ends(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 1U << 10; flags++) {
        for (unsigned n = 0; n < 5 * 3 * 3 * 4 * 4; n++) {
            check_all((struct publish_facts){.spec = (enum publish_spec)(n % 5),
                                             .map = (enum publish_map)(n / 5 % 3),
                                             .handover = (enum publish_handover)(n / 15 % 3),
                                             .wanted = (enum publish_document)(n / 45 % 4),
                                             .own = (enum publish_document)(n / 180 % 4),
                                             .unread = flags & 1U,
                                             .overwritten = flags & 2U,
                                             .mounted = flags & 4U,
                                             .unasked = flags & 8U,
                                             .policies_unknown = flags & 16U,
                                             .labels_missing = flags & 32U,
                                             .right = flags & 64U,
                                             .meanwhile = flags & 128U,
                                             .right_meanwhile = flags & 256U,
                                             .beside_bare = flags & 512U});
        }
    }
}

/* Events tell of what needs somebody; again tried is what nothing that is known would bring. */
static void test_reasons(void **state)
{
    static const struct {
        enum publish_reason reason;
        bool passes;
        bool retried;
    } rows[] = {
        {PUBLISH_OK, true, false},
        {PUBLISH_PENDING, true, false},
        {PUBLISH_WAITS_FOR_NAMESPACES, true, false},
        {PUBLISH_WAITS_FOR_PODS, true, false},
        {PUBLISH_WAITS_FOR_POLICIES, true, false},
        {PUBLISH_WAITS_FOR_LABELS, true, false},
        {PUBLISH_WAITS_FOR_HANDOVER, true, false},
        {PUBLISH_HELD_BACK, false, false},
        {PUBLISH_OVERSIZED, false, false},
        {PUBLISH_NAME_TAKEN, false, true},
        {PUBLISH_REFUSED, false, true},
    };
    (void)state;
    assert_int_equal(ARRAY_LEN(rows), PUBLISH_REASONS);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(publish_reason_passes(rows[i].reason), rows[i].passes);
        assert_int_equal(publish_reason_retried(rows[i].reason), rows[i].retried);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_others_are_asked),
        cmocka_unit_test(test_nothing_is_gained),
        cmocka_unit_test(test_beside_pods_without_sidecars),
        cmocka_unit_test(test_waiting_for_others),
        cmocka_unit_test(test_nothing_newer_can_be_published),
        cmocka_unit_test(test_the_config_is_gone),
        cmocka_unit_test(test_it_always_ends),
        cmocka_unit_test(test_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
