/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/decimal.h"

enum { DIGITS_MAX = 64, EXPONENT_MAX = 18 };

/* 1e3 and 1E3 are numbers, 1E is a suffix. */
static bool take_exponent(const char *text, double *factor)
{
    int64_t exponent;
    if ((text[0] != 'e' && text[0] != 'E') || !decimal_parse(slice_str(text + 1), &exponent)) {
        return false;
    }
    *factor = pow(10, (double)exponent);
    return exponent >= -EXPONENT_MAX && exponent <= EXPONENT_MAX;
}

static bool take_suffix(const char *text, double *factor)
{
    static const char *const decimal[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    static const char *const binary[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    for (size_t i = 0; i < ARRAY_LEN(decimal); i++) {
        if (strcmp(text, decimal[i]) == 0) {
            *factor = pow(1000, (double)i - 3);
            return true;
        }
    }
    for (size_t i = 1; i < ARRAY_LEN(binary); i++) {
        if (strcmp(text, binary[i]) == 0) {
            *factor = pow(1024, (double)i);
            return true;
        }
    }
    return take_exponent(text, factor);
}

int quantity_parse(const char *text, double *value, struct err *e)
{
    char digits[DIGITS_MAX + 1];
    double factor = 1;
    const char *number = text[0] == '+' ? text + 1 : text;
    size_t len = strspn(number, "0123456789.");
    const char *dot = memchr(number, '.', len);
    if (number[0] == '-') {
        return err_set(e, -EINVAL, "\"%s\" is negative", text);
    }
    bool several = dot != NULL && memchr(dot + 1, '.', len - (size_t)(dot + 1 - number)) != NULL;
    if (len == 0 || len > DIGITS_MAX || (len == 1 && dot != NULL) || several ||
        !take_suffix(number + len, &factor)) {
        return err_set(e, -EINVAL, "\"%s\" is not a quantity, as 50m, 0.5, 64Mi or 1G", text);
    }
    memcpy(digits, number, len);
    digits[len] = '\0';
    *value = strtod(digits, NULL) * factor;
    return 0;
}

/* A sum of decimal fractions is a little too large at times: less than a billionth is not counted.
 */
static uint64_t thousandths_of(double value)
{
    return (uint64_t)ceil(value * 1000 - 1e-6);
}

int quantity_print(double value, char out[QUANTITY_SIZE])
{
    static const char *const suffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
    const double exact = 9007199254740992.0; /* 2^53: integers up to it are in a double */
    if (!(value >= 0 && value <= exact)) {
        return -ERANGE;
    }
    bool large = value * 1000 > exact;
    uint64_t whole = large ? (uint64_t)ceil(value) : thousandths_of(value) / 1000;
    if (!large && thousandths_of(value) % 1000 != 0) {
        (void)snprintf(out, QUANTITY_SIZE, "%" PRIu64 "m", thousandths_of(value));
        return 0;
    }
    size_t i = 0;
    for (; whole != 0 && whole % 1024 == 0 && i + 1 < ARRAY_LEN(suffixes); i++) {
        whole /= 1024;
    }
    (void)snprintf(out, QUANTITY_SIZE, "%" PRIu64 "%s", whole, suffixes[i]);
    return 0;
}
