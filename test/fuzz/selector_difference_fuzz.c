/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two selectors with a `;` between them: what the difference lists is what the first matches and
 * the second does not, each label set once, on label sets made from keys and values of both.
 */
#include "rules/selector_difference.h"

#include <errno.h>
#include <stdint.h>

#include "base/array.h"
#include "base/buf.h"
#include "check.h"
#include "kube/query.h"

#define LABELS_MAX 16

static struct selector *read_back(const char *escaped)
{
    struct buf text = BUF_INIT(1 << 20);
    struct buf again = BUF_INIT(1 << 20);
    CHECK(query_decode(slice_str(escaped), &text) == 0);
    struct slice canonical = buf_slice(&text);
    struct selector *s = selector_parse(canonical, NULL);
    CHECK(s != NULL);
    CHECK(selector_print(s, &again) == 0);
    CHECK(slice_eq(buf_slice(&again), canonical));
    buf_reset(&text);
    buf_reset(&again);
    return s;
}

static unsigned draw(unsigned *choice, size_t below)
{
    *choice = *choice * 1103515245u + 12345u;
    return (*choice >> 16) % (unsigned)below;
}

/* One in three labels is left out, one in three has a value of its own. */
static size_t add_labels(const struct selector *s, unsigned *choice, struct selector_label *labels,
                         size_t made)
{
    static const char *const odd[] = {"", "0", "-1", "7", "99999999999999999999", "x"};
    size_t count;
    const struct selector_requirement *r = selector_requirements(s, &count);
    for (size_t i = 0; i < count && made < LABELS_MAX; i++) {
        unsigned kind = draw(choice, 3);
        if (kind == 0) {
            continue;
        }
        const char *value = kind == 1 || r[i].value_count == 0
                                ? odd[draw(choice, ARRAY_LEN(odd))]
                                : r[i].values[draw(choice, r[i].value_count)];
        labels[made++] =
            (struct selector_label){.key = slice_str(r[i].key), .value = slice_str(value)};
    }
    return made;
}

static void check_labels(const struct selector *of, const struct selector *without,
                         struct selector *const *parts, size_t part_count)
{
    for (unsigned seed = 0; seed < 64; seed++) {
        struct selector_label labels[LABELS_MAX];
        unsigned choice = seed;
        const struct selector *first = seed % 2 == 0 ? of : without;
        size_t count = add_labels(first, &choice, labels, 0);
        count = add_labels(first == of ? without : of, &choice, labels, count);
        unsigned hits = 0;
        for (size_t i = 0; i < part_count; i++) {
            hits += selector_matches(parts[i], labels, count);
        }
        bool wanted =
            selector_matches(of, labels, count) && !selector_matches(without, labels, count);
        CHECK(hits == (wanted ? 1 : 0));
    }
}

static void check(const struct selector *of, const struct selector *without)
{
    struct selector *parts[SELECTOR_DIFFERENCE_MAX];
    struct selector_difference d;
    struct err e = ERR_INIT;
    int rc = selector_difference(of, without, &d, &e);
    CHECK(rc == 0 || rc == -ENOTSUP || rc == -E2BIG);
    CHECK(rc == e.code && (rc == 0 || d.count == 0));
    for (size_t i = 0; i < d.count; i++) {
        parts[i] = read_back(d.escaped[i]);
    }
    if (rc == 0) {
        check_labels(of, without, parts, d.count);
    }
    for (size_t i = 0; i < d.count; i++) {
        selector_free(parts[i]);
    }
    selector_difference_deinit(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = slice_of((const char *)data, size);
    const char *middle = size == 0 ? NULL : memchr(text.ptr, ';', size);
    if (middle == NULL) {
        return 0;
    }
    size_t len = (size_t)(middle - text.ptr);
    struct selector *a = selector_parse(slice_of(text.ptr, len), NULL);
    struct selector *b = selector_parse(slice_of(middle + 1, size - len - 1), NULL);
    if (a != NULL && b != NULL) {
        check(a, b);
        check(b, a);
        check(a, a);
    }
    selector_free(a);
    selector_free(b);
    return 0;
}
