/* SPDX-License-Identifier: Apache-2.0 */
#include "root/buckets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "root/root_spec.h"

/* A share is what a shard is to have in the end: the mean, rounded up for some, down for all
 * others. It is up to us for whom. A shard keeps what it has, up to its share. So moves are fewest
 * when those that have more than the mean are rounded up first. */
struct shares {
    unsigned has[ROOT_SHARDS_MAX + 1];
    unsigned share[ROOT_SHARDS_MAX + 1]; /* 0: not eligible */
};

static unsigned count_bits(uint32_t bits)
{
    return (unsigned)__builtin_popcount(bits);
}

static bool has_bit(uint32_t bits, unsigned i)
{
    return (bits >> i & 1) != 0;
}

static bool is_eligible(uint32_t eligible, unsigned shard)
{
    return shard >= 1 && shard <= ROOT_SHARDS_MAX && has_bit(eligible, shard - 1);
}

uint32_t buckets_of(const struct buckets *b, unsigned shard)
{
    uint32_t bits = 0;
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        bits |= b->owner[i] == shard ? (uint32_t)1 << i : 0;
    }
    return bits;
}

/* Of those that have more than the mean, or of those that do not. Lower numbers come first. */
static unsigned round_up(struct shares *s, uint32_t eligible, unsigned mean, bool more,
                         unsigned left)
{
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX && left > 0; i++) {
        if (is_eligible(eligible, i) && (s->has[i] > mean) == more) {
            s->share[i]++;
            left--;
        }
    }
    return left;
}

static void find_shares(const struct buckets *b, uint32_t spread, uint32_t eligible,
                        struct shares *s)
{
    unsigned total = count_bits(spread);
    unsigned shards = count_bits(eligible);
    unsigned mean = total / shards;
    *s = (struct shares){.has = {0}};
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        s->has[i] = count_bits(buckets_of(b, i) & spread);
        s->share[i] = is_eligible(eligible, i) ? mean : 0;
    }
    unsigned left = round_up(s, eligible, mean, true, total % shards);
    (void)round_up(s, eligible, mean, false, left);
}

/* Takes away what is beyond shares: the last ones. */
static void take(struct buckets *b, uint32_t spread, const struct shares *s)
{
    unsigned kept[ROOT_SHARDS_MAX + 1] = {0};
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        unsigned owner = b->owner[i] <= ROOT_SHARDS_MAX ? b->owner[i] : 0;
        bool keeps = has_bit(spread, i) && kept[owner] < s->share[owner];
        kept[owner] += keeps ? 1 : 0;
        b->owner[i] = keeps ? (uint8_t)owner : 0;
    }
}

static void give(struct buckets *b, uint32_t spread, const struct shares *s)
{
    unsigned to = 1;
    unsigned has = count_bits(buckets_of(b, to));
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        if (!has_bit(spread, i) || b->owner[i] != 0) {
            continue;
        }
        while (has >= s->share[to]) { /* shares are as many as buckets */
            to++;
            has = count_bits(buckets_of(b, to));
        }
        b->owner[i] = (uint8_t)to;
        has++;
    }
}

void buckets_balance(struct buckets *b, uint32_t spread, uint32_t eligible)
{
    struct shares s;
    if (eligible == 0) {
        *b = (struct buckets){.owner = {0}};
        return;
    }
    find_shares(b, spread, eligible, &s);
    take(b, spread, &s);
    give(b, spread, &s);
}

size_t buckets_moved(const struct buckets *from, const struct buckets *to)
{
    size_t moved = 0;
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        moved += from->owner[i] != 0 && from->owner[i] != to->owner[i] ? 1 : 0;
    }
    return moved;
}

/* ---- text ---- */

void buckets_print(uint32_t buckets, char out[BUCKETS_TEXT_SIZE])
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        if (!has_bit(buckets, i)) {
            continue;
        }
        unsigned first = i;
        while (i + 1 < SHARDING_HASH_SIZE && has_bit(buckets, i + 1)) {
            i++;
        }
        const char *comma = len == 0 ? "" : ",";
        int n = i == first
                    ? snprintf(out + len, BUCKETS_TEXT_SIZE - len, "%s%u", comma, first)
                    : snprintf(out + len, BUCKETS_TEXT_SIZE - len, "%s%u-%u", comma, first, i);
        len += (size_t)n;
    }
}

/* *text: past the number. -EINVAL: there is none below the size. */
static int parse_number(const char **text, unsigned *out)
{
    const char *at = *text;
    unsigned value = 0;
    size_t digits = strspn(at, "0123456789");
    if (digits == 0 || digits > 2 || (digits == 2 && at[0] == '0')) {
        return -EINVAL;
    }
    for (size_t i = 0; i < digits; i++) {
        value = value * 10 + (unsigned)(at[i] - '0');
    }
    *text = at + digits;
    *out = value;
    return value < SHARDING_HASH_SIZE ? 0 : -EINVAL;
}

/* One number or a range. */
static int parse_range(const char **text, uint32_t *out)
{
    unsigned first = 0;
    if (parse_number(text, &first) != 0) {
        return -EINVAL;
    }
    unsigned last = first;
    if (**text == '-') {
        (*text)++;
        if (parse_number(text, &last) != 0 || last <= first) {
            return -EINVAL;
        }
    }
    for (unsigned i = first; i <= last; i++) {
        *out |= (uint32_t)1 << i;
    }
    return 0;
}

int buckets_parse(const char *text, uint32_t *out)
{
    uint32_t buckets = 0;
    const char *at = text;
    while (*at != '\0') {
        if (at != text && *at++ != ',') {
            return -EINVAL;
        }
        if (parse_range(&at, &buckets) != 0) {
            return -EINVAL;
        }
    }
    *out = buckets;
    return 0;
}
