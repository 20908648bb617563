/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <errno.h>

/* The length that the first byte announces, and the bits it carries; 0 for a byte that begins none.
 */
static size_t lead(unsigned char c, uint32_t *bits)
{
    if (c < 0x80) {
        *bits = c;
        return 1;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        *bits = c & 0x1fu;
        return 2;
    }
    if (c >= 0xe0 && c <= 0xef) {
        *bits = c & 0x0fu;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        *bits = c & 0x07u;
        return 4;
    }
    return 0;
}

size_t utf8_decode(struct slice text, uint32_t *code_point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t cp = 0;
    size_t n = lead((unsigned char)text.ptr[0], &cp);
    *code_point = UTF8_REPLACEMENT;
    if (n == 0 || n > text.len) {
        return 1;
    }
    for (size_t i = 1; i < n; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c & 0xc0) != 0x80) {
            return 1;
        }
        cp = cp << 6 | (c & 0x3fu);
    }
    if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
        return 1;
    }
    *code_point = cp;
    return n;
}

int utf8_append(struct buf *out, uint32_t cp)
{
    char text[4];
    size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
        return buf_fail(out, -EINVAL);
    }
    for (size_t i = n; i > 1; i--) {
        text[i - 1] = (char)(0x80 | (cp & 0x3f));
        cp >>= 6;
    }
    text[0] = (char)(leads[n] | cp);
    return buf_append(out, text, n);
}

int utf8_append_valid(struct buf *out, struct slice text)
{
    while (text.len > 0) {
        uint32_t cp;
        size_t n = utf8_decode(text, &cp);
        bool bad = n == 1 && cp == UTF8_REPLACEMENT;
        buf_append(out, bad ? "\xef\xbf\xbd" : text.ptr, bad ? 3 : n);
        text = slice_of(text.ptr + n, text.len - n);
    }
    return buf_error(out);
}

void utf8_copy_plain(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    if (len >= size) {
        len = size - 1;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool c1 = c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0; /* U+0080 on */
        out[i] = c < ' ' || c == 0x7f || c1 ? ' ' : text[i];
        if (c1) {
            out[++i] = ' ';
        }
    }
    out[len] = '\0';
}
