/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/traffic_diff.h"

#include <inttypes.h>

#include "commands/text_diff.h"

static void print_name(const char *sign, const struct traffic *t, uint64_t generation,
                       struct buf *out)
{
    if (t == NULL) {
        (void)buf_printf(out, "%s /dev/null\n", sign);
    } else {
        (void)buf_printf(out, "%s %s/%s traffic policies\tgeneration %" PRIu64 ", %s\n", sign,
                         traffic_shard_namespace(t), traffic_shard_name(t), generation,
                         traffic_checksum(t));
    }
}

static void print_equal(const struct traffic *t, struct buf *out)
{
    (void)buf_printf(out, "%s/%s traffic policies are unchanged\tgeneration %" PRIu64 ", %s\n",
                     traffic_shard_namespace(t), traffic_shard_name(t), traffic_generation(t),
                     traffic_checksum(t));
}

static bool wants_all(void *data, enum traffic_kind kind, const char *name)
{
    (void)data;
    (void)kind;
    (void)name;
    return true;
}

/* Returns whether they say the same. */
static bool print_hunks(const struct traffic *before, const struct traffic *after,
                        const struct rules_text *a, const struct rules_text *b, struct buf *out)
{
    struct buf hunks = BUF_INIT(out->max);
    bool equal = text_diff(a, b, &hunks) == 0;
    if (!equal) {
        uint64_t generation = before == NULL ? 0 : traffic_generation(before);
        print_name("---", before, generation, out);
        print_name("+++", after, generation + 1, out);
        (void)buf_append(out, buf_data(&hunks), hunks.len);
        (void)buf_fail(out, buf_error(&hunks));
    } else if (after != NULL) {
        print_equal(before, out);
    }
    buf_reset(&hunks);
    return equal;
}

bool traffic_diff(const struct traffic *before, const struct traffic *after,
                  traffic_text_wants_cb wants, void *data, struct buf *out)
{
    struct rules_text a = RULES_TEXT_INIT;
    struct rules_text b = RULES_TEXT_INIT;
    if (before != NULL) {
        traffic_text_add(&a, before, wants, data);
    }
    if (after != NULL) {
        traffic_text_add(&b, after, wants_all, NULL);
    }
    bool equal = print_hunks(before, after, &a, &b, out);
    rules_text_deinit(&a);
    rules_text_deinit(&b);
    return equal;
}
