/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What parses is printed canonically, reads back as the same selector, survives the way through a
 * query, and decides the same on label sets that are made from its own keys and values. Widened by
 * one of them it matches that, and no less than before.
 */
#include "kube/selector.h"

#include "base/array.h"
#include "base/buf.h"
#include "check.h"
#include "kube/query.h"

#define LABELS_MAX 16

static struct slice print(const struct selector *s, struct buf *out)
{
    CHECK(selector_print(s, out) == 0);
    return buf_slice(out);
}

static void check_order(const struct selector *s)
{
    size_t count;
    const struct selector_requirement *r = selector_requirements(s, &count);
    CHECK(selector_is_everything(s) == (count == 0));
    for (size_t i = 0; i < count; i++) {
        CHECK(i == 0 || strcmp(r[i - 1].key, r[i].key) <= 0);
        for (size_t j = 1; j < r[i].value_count; j++) {
            CHECK(strcmp(r[i].values[j - 1], r[i].values[j]) < 0);
        }
    }
}

/* Each choice says for one requirement: no label, an odd value, or one of its values. */
static size_t make_labels(const struct selector *s, unsigned choice, struct selector_label *labels)
{
    static const char *const odd[] = {"", "0", "-1", "7", "99999999999999999999", "x"};
    size_t count;
    size_t made = 0;
    const struct selector_requirement *r = selector_requirements(s, &count);
    for (size_t i = 0; i < count && made < LABELS_MAX; i++) {
        choice = choice * 1103515245u + 12345u;
        unsigned c = (choice >> 16) % 8;
        if (c == 0) {
            continue;
        }
        const char *value = c == 1 || r[i].value_count == 0
                                ? odd[(choice >> 8) % (ARRAY_LEN(odd))]
                                : r[i].values[(choice >> 8) % r[i].value_count];
        labels[made++] =
            (struct selector_label){.key = slice_str(r[i].key), .value = slice_str(value)};
    }
    return made;
}

static void check_same_decisions(const struct selector *a, const struct selector *b)
{
    struct selector_label labels[LABELS_MAX];
    const struct selector *pair[] = {a, b};
    struct selector *both = selector_and(pair, 2, NULL);
    struct selector *nothing = selector_nothing();
    CHECK(nothing != NULL);
    for (unsigned choice = 0; choice < 32; choice++) {
        size_t count = make_labels(a, choice, labels);
        bool match = selector_matches(a, labels, count);
        CHECK(selector_matches(b, labels, count) == match);
        CHECK(both == NULL || selector_matches(both, labels, count) == match);
        CHECK(!selector_matches(nothing, labels, count));
    }
    selector_free(nothing);
    selector_free(both);
}

/* Widened by labels it matches them, and all that it matched before. */
static void check_widened(const struct selector *s)
{
    struct selector_label by[LABELS_MAX];
    struct selector_label labels[LABELS_MAX];
    for (unsigned i = 0; i < 8; i++) {
        struct err e = ERR_INIT;
        size_t by_count = make_labels(s, i, by);
        struct selector *wide = selector_widen(s, by, by_count, &e);
        CHECK((wide == NULL) == (e.code != 0));
        CHECK(wide == NULL || selector_matches(wide, by, by_count));
        for (unsigned choice = 0; choice < 32 && wide != NULL; choice++) {
            size_t count = make_labels(s, choice, labels);
            CHECK(selector_matches(wide, labels, count) || !selector_matches(s, labels, count));
        }
        selector_free(wide);
    }
}

static void check_query(struct slice canonical)
{
    struct buf escaped = BUF_INIT(1 << 20);
    struct buf back = BUF_INIT(1 << 20);
    CHECK(query_encode(canonical, &escaped) == 0);
    CHECK(query_decode(slice_of((const char *)escaped.base, escaped.len), &back) == 0);
    CHECK(slice_eq(slice_of((const char *)back.base, back.len), canonical));
    buf_reset(&escaped);
    buf_reset(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct selector *s = selector_parse(slice_of((const char *)data, size), &e);
    if (s == NULL) {
        CHECK(e.code < 0 && e.msg[0] != '\0');
        return 0;
    }
    struct buf text = BUF_INIT(1 << 20);
    struct buf second = BUF_INIT(1 << 20);
    struct slice canonical = print(s, &text);
    struct selector *again = selector_parse(canonical, &e);
    CHECK(again != NULL);
    CHECK(slice_eq(print(again, &second), canonical));
    CHECK(selector_equal(s, again));
    check_order(s);
    check_widened(s);
    check_same_decisions(s, again);
    check_query(canonical);
    selector_free(again);
    selector_free(s);
    buf_reset(&text);
    buf_reset(&second);
    return 0;
}
