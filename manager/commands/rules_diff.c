/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/rules_diff.h"

#include <inttypes.h>
#include <string.h>

#include "commands/rules_set.h"
#include "commands/rules_text.h"
#include "commands/text_diff.h"

static void print_name(const char *sign, const struct rules *rules, uint64_t generation,
                       struct buf *out)
{
    char name[RULES_SET_NAME];
    if (rules == NULL) {
        buf_printf(out, "%s /dev/null\n", sign);
    } else {
        buf_printf(out, "%s %s\tgeneration %" PRIu64 ", %s\n", sign, rules_set_name(rules, name),
                   generation, rules_checksum(rules));
    }
}

/* ---- all ---- */

static void print_equal(const struct rules *rules, struct buf *out)
{
    char name[RULES_SET_NAME];
    buf_printf(out, "%s is unchanged\tgeneration %" PRIu64 ", %s\n", rules_set_name(rules, name),
               rules_generation(rules), rules_checksum(rules));
}

static void print_different(const struct rules *before, const struct rules *after,
                            const struct rules_text *a, const struct rules_text *b, struct buf *out)
{
    uint64_t generation = before == NULL ? 0 : rules_generation(before);
    print_name("---", before, generation, out);
    print_name("+++", after, generation + 1, out);
    if (text_diff(a, b, out) == 0 && before != NULL) {
        buf_append_str(out, "# the same limits, written differently\n");
    }
}

int rules_diff(const struct rules *before, const struct rules *after, struct buf *out, bool *equal,
               struct err *e)
{
    *equal = before != NULL && strcmp(rules_checksum(before), rules_checksum(after)) == 0;
    if (*equal) {
        print_equal(before, out);
        return 0;
    }
    struct rules_text a = RULES_TEXT_INIT;
    struct rules_text b = RULES_TEXT_INIT;
    int rc = before == NULL ? 0 : rules_text_add(&a, before, e);
    if (rc == 0) {
        rc = rules_text_add(&b, after, e);
    }
    if (rc == 0) {
        print_different(before, after, &a, &b, out);
    }
    rules_text_deinit(&a);
    rules_text_deinit(&b);
    return rc;
}
