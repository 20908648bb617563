/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/long_selectors.h"

#include "kube/query.h"

enum {
    BESIDE = 160,         /* of a URL, beside the selector */
    MEASURED = 64 * 1024, /* longer ones are long enough without */
    ESCAPE = 3,           /* bytes of an escaped one */
    KB = 1000,
};

/* In a query; what is too long to be measured has its own. */
static size_t encoded_length(const struct rules_entry *entry)
{
    struct buf text = BUF_INIT(MEASURED);
    struct buf escaped = BUF_INIT((size_t)ESCAPE * MEASURED);
    size_t len = entry->length;
    if (len <= MEASURED && selector_print(entry->compiled, &text) == 0 &&
        query_encode(buf_slice(&text), &escaped) == 0) {
        len = escaped.len;
    }
    buf_reset(&text);
    buf_reset(&escaped);
    return len;
}

void long_selectors_note(const struct rules *rules, const char *path, struct warnings *warnings)
{
    const struct rules_entry *longest = NULL;
    struct slice of = {NULL, 0};
    for (size_t i = 0; i < rules_pattern_count(rules); i++) {
        struct slice group;
        struct slice resource;
        rules_pattern(rules, i, &group, &resource);
        const struct rules_entry *entry = rules_match(rules, group, resource);
        if (entry != NULL && (longest == NULL || entry->length > longest->length)) {
            longest = entry;
            of = resource;
        }
    }
    if (longest == NULL || longest->length * ESCAPE + BESIDE <= LONG_SELECTORS_URL) {
        return;
    }
    size_t len = encoded_length(longest) + BESIDE;
    if (len > LONG_SELECTORS_URL) {
        warnings_add(warnings,
                     "%s: the selector for \"%.*s\" makes URLs of %zu kB; many load balancers "
                     "refuse more than 8 (414). Shorter: NotIn, the sharding hash, more shards",
                     path, of.len < 63 ? (int)of.len : 63, of.ptr, (len + KB / 2) / KB);
    }
}
