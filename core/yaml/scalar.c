/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml/scalar.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Longer digits are no number that a double could hold exactly anyway. */
enum { DIGITS_MAX = 128 };

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
static const char *const true_words[] = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                         "True", "TRUE", "on",  "On",  "ON",  NULL};
static const char *const false_words[] = {"n",     "N",     "no",  "No",  "NO",  "false",
                                          "False", "FALSE", "off", "Off", "OFF", NULL};
static const char *const odd_words[] = {".nan",  ".NaN",  ".NAN",  ".inf",  ".Inf",
                                        ".INF",  "+.inf", "+.Inf", "+.INF", "-.inf",
                                        "-.Inf", "-.INF", NULL};

static bool is_digit_of(char c, unsigned base, unsigned *digit)
{
    if (isdigit((unsigned char)c)) {
        *digit = (unsigned)(c - '0');
    } else if (isalpha((unsigned char)c)) {
        *digit = (unsigned)(tolower((unsigned char)c) - 'a') + 10;
    } else {
        return false;
    }
    return *digit < base;
}

/* Go's strconv.ParseInt and ParseUint with base 0. */
static bool parse_integer(const char *p, double *out)
{
    bool negative = *p == '-';
    unsigned base = 10;
    p += *p == '-' || *p == '+' ? 1 : 0;
    if (p[0] == '0' && p[1] != '\0') {
        char mark = (char)tolower((unsigned char)p[1]);
        base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
        p += mark == 'x' || mark == 'b' || mark == 'o' ? 2 : 1;
    }
    if (*p == '\0') {
        return false;
    }
    uint64_t value = 0;
    for (; *p != '\0'; p++) {
        unsigned digit;
        if (!is_digit_of(*p, base, &digit) || value > (UINT64_MAX - digit) / base) {
            return false;
        }
        value = value * base + digit;
    }
    if (negative && value > (uint64_t)1 << 63) {
        return false;
    }
    *out = negative ? -(double)value : (double)value;
    return true;
}

static const char *skip_digits(const char *p)
{
    while (isdigit((unsigned char)*p)) {
        p++;
    }
    return p;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? and within the range of a double. */
static bool parse_float(const char *text, double *out)
{
    const char *p = text + (*text == '-' || *text == '+' ? 1 : 0);
    const char *whole = p;
    p = skip_digits(p);
    bool some = p > whole;
    if (*p == '.') {
        const char *fraction = ++p;
        p = skip_digits(p);
        some = some || p > fraction;
    }
    if (!some) {
        return false;
    }
    if (*p == 'e' || *p == 'E') {
        p += p[1] == '-' || p[1] == '+' ? 2 : 1;
        const char *exponent = p;
        p = skip_digits(p);
        if (p == exponent) {
            return false;
        }
    }
    if (*p != '\0') {
        return false;
    }
    *out = strtod(text, NULL);
    return isfinite(*out);
}

static bool parse_number(const char *text, double *out)
{
    char bare[DIGITS_MAX + 1];
    size_t len = 0;
    if (*text == '.') {
        return parse_float(text, out);
    }
    if (!isdigit((unsigned char)*text) && *text != '-' && *text != '+') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text == '_') {
            continue;
        }
        if (len == DIGITS_MAX) {
            return false;
        }
        bare[len++] = *text;
    }
    bare[len] = '\0';
    return parse_integer(bare, out) || parse_float(bare, out);
}

struct yaml_scalar yaml_scalar_resolve(const char *plain)
{
    struct yaml_scalar s = {.type = YAML_STRING};
    if (is_one_of(plain, null_words)) {
        s.type = YAML_NULL;
    } else if (is_one_of(plain, true_words)) {
        s.type = YAML_BOOL;
        s.boolean = true;
    } else if (is_one_of(plain, false_words)) {
        s.type = YAML_BOOL;
    } else if (is_one_of(plain, odd_words)) {
        s.type = YAML_NOT_FINITE;
    } else if (parse_number(plain, &s.number)) {
        s.type = YAML_NUMBER;
    }
    return s;
}

bool yaml_scalar_plain_ok(const char *text)
{
    static const char *const words[] = {"y",  "n",   "yes",  "no",  "true", "false",
                                        "on", "off", "null", "nan", "inf",  NULL};
    if (!isalpha((unsigned char)text[0]) && text[0] != '/' && text[0] != '_') {
        return false;
    }
    for (const char *const *w = words; *w != NULL; w++) {
        if (strcasecmp(text, *w) == 0) {
            return false;
        }
    }
    for (const char *p = text; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("_./@-:", *p) == NULL) {
            return false;
        }
        if (*p == ':' && (p[1] == '\0' || strchr(".@", p[1]) != NULL)) {
            return false;
        }
    }
    return true;
}
