/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"

#include "base/array.h"
#include "base/ascii.h"

static const struct {
    struct slice name;
    int64_t ns;
} units[] = {
    {{"ns", 2}, 1},
    {{"us", 2}, 1000},
    {{"\xc2\xb5s", 3}, 1000}, /* U+00B5, the micro sign */
    {{"\xce\xbcs", 3}, 1000}, /* U+03BC, the letter mu */
    {{"ms", 2}, DURATION_MS},
    {{"s", 1}, 1000 * DURATION_MS},
    {{"m", 1}, 60 * 1000 * DURATION_MS},
    {{"h", 1}, 3600 * 1000 * DURATION_MS},
};

/* What is left of the text. */
struct reader {
    const char *at;
    const char *end;
};

static bool is_at_digit(const struct reader *r)
{
    return r->at < r->end && ascii_is_digit(*r->at);
}

/* False when it is too large. */
static bool read_whole(struct reader *r, int64_t *n)
{
    *n = 0;
    for (; is_at_digit(r); r->at++) {
        if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, *r->at - '0', n)) {
            return false;
        }
    }
    return true;
}

/* The digits behind a point. More than 18 of them are less than a nanosecond of an hour. */
static double read_fraction(struct reader *r)
{
    int64_t n = 0;
    int64_t scale = 1;
    for (; is_at_digit(r); r->at++) {
        if (scale < INT64_C(1000000000000000000)) {
            n = n * 10 + (*r->at - '0');
            scale *= 10;
        }
    }
    return (double)n / (double)scale;
}

/* 0: there is none. */
static int64_t read_unit(struct reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at != '.' && !ascii_is_digit(*r->at)) {
        r->at++;
    }
    struct slice name = slice_of(from, (size_t)(r->at - from));
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (slice_eq(name, units[i].name)) {
            return units[i].ns;
        }
    }
    return 0;
}

/* One number with its unit. */
static bool read_part(struct reader *r, int64_t *ns)
{
    const char *from = r->at;
    int64_t whole;
    double fraction = 0;
    if (!read_whole(r, &whole)) {
        return false;
    }
    bool digits = r->at > from;
    if (r->at < r->end && *r->at == '.') {
        const char *dot = r->at++;
        fraction = read_fraction(r);
        digits = digits || r->at > dot + 1;
    }
    int64_t unit = digits ? read_unit(r) : 0;
    if (unit == 0 || __builtin_mul_overflow(whole, unit, &whole)) {
        return false;
    }
    return !__builtin_add_overflow(whole, (int64_t)(fraction * (double)unit + 0.5), ns);
}

bool duration_parse(struct slice text, int64_t *ns)
{
    struct reader r = {.at = text.ptr, .end = text.len == 0 ? text.ptr : text.ptr + text.len};
    bool negative = r.at < r.end && *r.at == '-';
    int64_t sum = 0;
    if (negative || (r.at < r.end && *r.at == '+')) {
        r.at++;
    }
    if (r.at == r.end) {
        return false;
    }
    if (r.end - r.at == 1 && *r.at == '0') {
        *ns = 0;
        return true;
    }
    while (r.at < r.end) {
        int64_t part;
        if (!read_part(&r, &part) || __builtin_add_overflow(sum, part, &sum)) {
            return false;
        }
    }
    *ns = negative ? -sum : sum;
    return true;
}
