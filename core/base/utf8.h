/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8.h - UTF-8 as Go reads it: what is not UTF-8 counts byte by byte as U+FFFD.
 */
#ifndef CORE_BASE_UTF8_H
#define CORE_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

#define UTF8_REPLACEMENT 0xfffdu

/* Decodes the first code point of a text that is not empty and gives its length in bytes: 1 to 4.
 * An invalid, overlong or surrogate sequence gives U+FFFD and 1. RFC 3629. */
size_t utf8_decode(struct slice text, uint32_t *code_point);

/* Appends a code point. 0, -ENOBUFS or -ENOMEM; -EINVAL for a surrogate, or what is none, which
 * stays in the buffer (base/buf.h). */
int utf8_append(struct buf *out, uint32_t code_point);

/* Appends the text with each invalid byte replaced by U+FFFD. 0, -ENOBUFS or -ENOMEM. */
int utf8_append_valid(struct buf *out, struct slice text);

/* Copies the text as far as there is room, cut between two characters, each byte of a control
 * character made a space. `out` may be `text`. */
void utf8_copy_plain(char *out, size_t size, const char *text);

#endif
