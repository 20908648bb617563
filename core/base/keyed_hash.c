/* SPDX-License-Identifier: Apache-2.0 */
#include "base/keyed_hash.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { ROUNDS = 1, LAST_ROUNDS = 3, WORD = 8 };

static uint64_t process_key[2];
static pthread_once_t drawn = PTHREAD_ONCE_INIT;

/* Linux has had randomness long before anybody starts a program of ours. */
static void draw_key(void)
{
    ssize_t n;
    do {
        n = getrandom(process_key, sizeof process_key, 0);
    } while (n < 0 && errno == EINTR);
    if (n != sizeof process_key) {
        abort();
    }
}

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4], unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, ROUNDS);
    v[0] ^= word;
}

/* Little endian, as the algorithm is written. */
static uint64_t read_word(const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return le64toh(word);
}

/* The last one, which is shorter. */
static uint64_t read_rest(const char *from, size_t len)
{
    uint64_t word = 0;
    for (size_t i = len; i > 0; i--) {
        word = word << 8 | (unsigned char)from[i - 1];
    }
    return word;
}

uint64_t keyed_hash_with(const uint64_t key[2], struct slice text)
{
    uint64_t v[4] = {
        key[0] ^ UINT64_C(0x736f6d6570736575),
        key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261),
        key[1] ^ UINT64_C(0x7465646279746573),
    };
    size_t at = 0;
    for (; text.len - at >= WORD; at += WORD) {
        take_word(v, read_word(text.ptr + at));
    }
    uint64_t rest = text.len > at ? read_rest(text.ptr + at, text.len - at) : 0;
    take_word(v, rest | (uint64_t)text.len << 56);
    v[2] ^= 0xff;
    mix(v, LAST_ROUNDS);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t keyed_hash(uint64_t hash, struct slice text)
{
    (void)pthread_once(&drawn, draw_key);
    const uint64_t key[2] = {process_key[0], process_key[1] ^ hash};
    return keyed_hash_with(key, text);
}
