/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_line.h"

#include <stdint.h>
#include <string.h>

static bool is_control(unsigned char c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

/* False for eight bytes that are surely none below 0x20 and none 0x7f: of a byte below 0x80, the
 * top bit is set by taking 0x20 away when it is below that, and by adding 1 when it is 0x7f. A
 * carry from the neighbour can set it in vain, and never hides it. */
static bool may_hold_control(const char *eight)
{
    const uint64_t ones = 0x0101010101010101ULL;
    uint64_t word;
    memcpy(&word, eight, sizeof word);
    return (((word - ones * 0x20) | (word + ones)) & ~word & (ones * 0x80)) != 0;
}

static bool holds_control_bytewise(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is_control((unsigned char)s[i])) {
            return true;
        }
    }
    return false;
}

static bool holds_control(const char *s, size_t n)
{
    if (n < 8) {
        return holds_control_bytewise(s, n);
    }
    const char *last = s + n - 8; /* eight bytes that may have been looked at */
    for (; s < last; s += 8) {
        if (may_hold_control(s) && holds_control_bytewise(s, 8)) {
            return true;
        }
    }
    return may_hold_control(last) && holds_control_bytewise(last, 8);
}

enum h1_line_result h1_line_scan(struct h1_line *l, const char *data, size_t len, size_t *used)
{
    const char *lf = memchr(data, '\n', len);
    size_t n = lf != NULL ? (size_t)(lf - data) : len;
    *used = lf != NULL ? n + 1 : n;
    if (l->cr && n > 0) {
        return H1_LINE_BAD;
    }
    if (n > 0 && data[n - 1] == '\r') {
        l->cr = true;
        n--;
    }
    if (holds_control(data, n)) {
        return H1_LINE_BAD;
    }
    l->len += n;
    if (lf == NULL) {
        return H1_LINE_OPEN;
    }
    return l->cr ? H1_LINE_DONE : H1_LINE_BAD;
}
