/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets are counted 64 bytes at a time with bit masks, one bit a byte, as Langdale and Lemire
 * describe it ("Parsing Gigabytes of JSON per Second", 2019): quotes that are not escaped, and by
 * their parity what lies inside of strings, then brackets outside of them.
 */
#include "json/cursor.h"

#include "base/ascii.h"

#if defined(__SSE2__) && !defined(JSON_CURSOR_PORTABLE)
#include <emmintrin.h>
#define HAVE_SSE2 1
#else
#define HAVE_SSE2 0
#endif

enum { BLOCK = 64 };

struct masks {
    uint64_t backslash;
    uint64_t quote;
    uint64_t open;
    uint64_t close;
};

/* '[' and '{' differ in one bit only, as ']' and '}' do. */
enum { BRACKET_BIT = 0x20 };

#if HAVE_SSE2
static inline uint64_t equal(__m128i bytes, char c)
{
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)));
}

static inline void classify_part(struct masks *m, const char *block, unsigned at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(block + at));
    __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(BRACKET_BIT));
    m->backslash |= equal(bytes, '\\') << at;
    m->quote |= equal(bytes, '"') << at;
    m->open |= equal(folded, '{') << at;
    m->close |= equal(folded, '}') << at;
}

static inline struct masks classify(const char *block)
{
    struct masks m = {0, 0, 0, 0};
    classify_part(&m, block, 0);
    classify_part(&m, block, 16);
    classify_part(&m, block, 32);
    classify_part(&m, block, 48);
    return m;
}
#else
static inline struct masks classify(const char *block)
{
    struct masks m = {0, 0, 0, 0};
    for (unsigned i = 0; i < BLOCK; i++) {
        char folded = (char)(block[i] | BRACKET_BIT);
        m.backslash |= (uint64_t)(block[i] == '\\') << i;
        m.quote |= (uint64_t)(block[i] == '"') << i;
        m.open |= (uint64_t)(folded == '{') << i;
        m.close |= (uint64_t)(folded == '}') << i;
    }
    return m;
}
#endif

/* The bytes that a backslash before them escapes. */
static inline uint64_t escaped_by(uint64_t backslash, uint64_t *carry)
{
    if ((backslash | *carry) == 0) {
        return 0;
    }
    uint64_t escaped = 0;
    uint64_t next = *carry;
    *carry = 0;
    for (uint64_t rest = backslash & ~next; rest != 0;) {
        unsigned i = (unsigned)__builtin_ctzll(rest);
        if (i == BLOCK - 1) {
            *carry = 1;
            break;
        }
        escaped |= UINT64_C(2) << i;
        /* The escaped byte is no escape itself. */
        rest &= ~(UINT64_C(3) << i);
    }
    return escaped | next;
}

/* Bit n of the result: the parity of bits 0 to n. */
static inline uint64_t parity_up_to(uint64_t x)
{
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    return x ^ x << 32;
}

static inline unsigned count(uint64_t x)
{
    x -= (x >> 1) & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + ((x >> 2) & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)((x * UINT64_C(0x0101010101010101)) >> 56);
}

/* Looks for the closing bracket that ends depth 0; its bit index, or BLOCK. */
static inline unsigned find_end(uint64_t *depth, uint64_t open, uint64_t close)
{
    uint64_t level = *depth;
    for (; close != 0; close &= close - 1) {
        uint64_t lowest = close & (0 - close);
        unsigned opened = count(open & (lowest - 1));
        open &= ~(lowest - 1);
        level += opened;
        if (level <= 1) {
            *depth = 0;
            return (unsigned)__builtin_ctzll(lowest);
        }
        level--;
    }
    *depth = level + count(open);
    return BLOCK;
}

/* Takes `len` bytes, those of the block behind them being zero. The bit index of the end, or BLOCK.
 */
static inline unsigned scan_block(struct json_nesting *n, const char *block, size_t len)
{
    struct masks m = classify(block);
    uint64_t escaped = escaped_by(m.backslash, &n->escaped);
    if (len < BLOCK) {
        n->escaped = escaped >> len & 1;
    }
    uint64_t in_string = parity_up_to(m.quote & ~escaped) ^ n->in_string;
    n->in_string = 0 - (in_string >> (BLOCK - 1));
    uint64_t open = m.open & ~in_string;
    uint64_t close = m.close & ~in_string;
    if ((open | close) == 0) {
        return BLOCK;
    }
    unsigned closed = count(close);
    if (closed >= n->depth) {
        return find_end(&n->depth, open, close);
    }
    n->depth = n->depth + count(open) - closed;
    return BLOCK;
}

const char *json_nesting_end(struct json_nesting *n, const char *data, const char *end)
{
    for (; end - data >= BLOCK; data += BLOCK) {
        unsigned i = scan_block(n, data, BLOCK);
        if (i < BLOCK) {
            return data + i + 1;
        }
    }
    size_t len = (size_t)(end - data);
    if (len == 0) {
        return NULL;
    }
    char last[BLOCK] = {0};
    memcpy(last, data, len);
    unsigned i = scan_block(n, last, len);
    return i < BLOCK ? data + i + 1 : NULL;
}

/* The byte under the cursor, behind white space; 0 at the end. */
static inline char peek(struct json_cursor *c)
{
    while (c->at < c->end && ascii_is_space(*c->at)) {
        c->at++;
    }
    return c->at < c->end ? *c->at : '\0';
}

bool json_at_end(struct json_cursor *c)
{
    (void)peek(c);
    return c->at == c->end;
}

bool json_enter(struct json_cursor *c, char bracket)
{
    if (peek(c) != bracket) {
        return false;
    }
    c->at++;
    return true;
}

/* The first quote or backslash; `end` when there is none. */
static inline const char *string_stop(const char *p, const char *end)
{
#if HAVE_SSE2
    for (; end - p >= 16; p += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        uint64_t found = equal(bytes, '"') | equal(bytes, '\\');
        if (found != 0) {
            return p + __builtin_ctzll(found);
        }
    }
#endif
    while (p < end && *p != '"' && *p != '\\') {
        p++;
    }
    return p;
}

const char *json_string_stop(const char *p, const char *end)
{
    return string_stop(p, end);
}

bool json_string(struct json_cursor *c, struct slice *text)
{
    if (peek(c) != '"') {
        return false;
    }
    const char *start = c->at + 1;
    const char *p = string_stop(start, c->end);
    while (p < c->end && *p == '\\') {
        p = c->end - p > 2 ? string_stop(p + 2, c->end) : c->end;
    }
    if (p == c->end) {
        return false;
    }
    *text = slice_of(start, (size_t)(p - start));
    c->at = p + 1;
    return true;
}

/* Steps over the comma; false at the closing bracket, which is taken, and at the end. */
static bool next_in(struct json_cursor *c, char closing)
{
    char ch = peek(c);
    if (ch == ',') {
        c->at++;
        ch = peek(c);
    }
    if (ch == closing) {
        c->at++;
        return false;
    }
    return ch != '\0';
}

bool json_next_key(struct json_cursor *c, struct slice *key)
{
    if (!next_in(c, '}') || !json_string(c, key) || peek(c) != ':') {
        return false;
    }
    c->at++;
    return true;
}

bool json_next_element(struct json_cursor *c)
{
    return next_in(c, ']');
}

/* A number or a literal. */
static bool skip_word(struct json_cursor *c)
{
    const char *p = c->at;
    while (p < c->end && *p != ',' && *p != '}' && *p != ']' && !ascii_is_space(*p)) {
        p++;
    }
    bool whole = p < c->end && p > c->at;
    c->at = p;
    return whole;
}

bool json_skip(struct json_cursor *c)
{
    struct slice ignored;
    char ch = peek(c);
    if (ch == '"') {
        return json_string(c, &ignored);
    }
    if (ch != '{' && ch != '[') {
        return skip_word(c);
    }
    struct json_nesting n = {0};
    const char *behind = json_nesting_end(&n, c->at, c->end);
    c->at = behind == NULL ? c->end : behind;
    return behind != NULL;
}

bool json_value(struct json_cursor *c, struct slice *text)
{
    (void)peek(c);
    const char *start = c->at;
    if (!json_skip(c)) {
        return false;
    }
    *text = slice_of(start, (size_t)(c->at - start));
    return true;
}

bool json_find_member(struct json_cursor *c, struct slice name)
{
    struct slice key;
    for (bool more = json_enter(c, '{'); more && json_next_key(c, &key); more = json_skip(c)) {
        if (slice_eq(key, name)) {
            return true;
        }
    }
    return false;
}
