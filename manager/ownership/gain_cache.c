/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/gain_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "compile/rules_gain.h"
#include "crypto/digest.h"

/* Of fewer resources an answer is as quick as a look. */
enum { RESOURCES_MIN = 128, SLOTS = 4096, RULES = 3, NAME_SIZE = RULES_CHECKSUM_LEN + 1 };

/* Which rules are asked about: by checksum, which tells all that they say; "": none. */
struct question {
    char names[RULES][NAME_SIZE];
};

/* Hashes of questions that were answered with no, at places that these tell. A yes is found soon.
 */
struct gain_cache {
    char slots[SLOTS][SHA256_HEX_LEN + 1];
    size_t hits;
};

static size_t count_resources(const struct rules *r)
{
    return r == NULL ? 0 : rules_pattern_count(r);
}

static const char *name_of(const struct rules *r)
{
    return r == NULL ? "" : rules_checksum(r);
}

/* What all of them show is the same whichever of the two comes first. */
static void write_question(struct question *q, const struct rules *from, const struct rules *to,
                           const struct rules *others)
{
    const char *a = name_of(to);
    const char *b = name_of(others);
    bool turn = from == NULL && strcmp(a, b) > 0;
    memset(q, 0, sizeof *q);
    (void)snprintf(q->names[0], NAME_SIZE, "%s", name_of(from));
    (void)snprintf(q->names[1], NAME_SIZE, "%s", turn ? b : a);
    (void)snprintf(q->names[2], NAME_SIZE, "%s", turn ? a : b);
}

static char *find_slot(struct gain_cache *c, const char *hash)
{
    char start[] = {hash[0], hash[1], hash[2], '\0'}; /* 12 bits */
    return c->slots[strtoul(start, NULL, 16)];
}

struct gain_cache *gain_cache_new(void)
{
    return xcalloc(1, sizeof(struct gain_cache));
}

bool gain_cache_ask(struct gain_cache *c, const struct rules *from, const struct rules *to,
                    const struct rules *others)
{
    struct question q;
    char hash[SHA256_HEX_LEN + 1];
    if (count_resources(from) + count_resources(to) + count_resources(others) < RESOURCES_MIN) {
        return rules_gain(from, to, others);
    }
    write_question(&q, from, to, others);
    sha256_hex(&q, sizeof q, hash);
    char *slot = find_slot(c, hash);
    if (strcmp(slot, hash) == 0) {
        c->hits++;
        return false;
    }
    bool gain = rules_gain(from, to, others);
    if (!gain) {
        memcpy(slot, hash, sizeof hash);
    }
    return gain;
}

size_t gain_cache_hits(const struct gain_cache *c)
{
    return c->hits;
}

void gain_cache_free(struct gain_cache *c)
{
    free(c);
}
