/* SPDX-License-Identifier: Apache-2.0 */
#include "response.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void response_init(struct response *r)
{
    r->state = RESPONSE_HEAD;
    r->status = 0;
    r->chunked = false;
    r->closes = false;
    r->in_extension = false;
    r->left = 0;
    r->line_len = 0;
    r->head_len = 0;
}

static int head_parse(struct response *r, struct err *e)
{
    static const char length[] = "\r\nContent-Length:";
    r->head[r->head_len] = '\0';
    if (strncmp(r->head, "HTTP/1.1 ", 9) != 0) {
        return err_set(e, -EPROTO, "answered %.*s", (int)strcspn(r->head, "\r"), r->head);
    }
    const char *fixed = strcasestr(r->head, length);
    r->status = (unsigned)strtoul(r->head + 9, NULL, 10);
    r->chunked = strcasestr(r->head, "\r\nTransfer-Encoding: chunked\r\n") != NULL;
    r->closes = strcasestr(r->head, "\r\nConnection: close\r\n") != NULL;
    if (r->chunked) {
        r->state = RESPONSE_SIZE;
    } else if (fixed == NULL) {
        return err_set(e, -EPROTO, "an answer has no length");
    } else {
        r->left = strtoull(fixed + sizeof(length) - 1, NULL, 10);
        r->state = r->left == 0 ? RESPONSE_DONE : RESPONSE_FIXED;
    }
    return 0;
}

static ssize_t head_read(struct response *r, const char *data, size_t len, struct err *e)
{
    size_t taken = 0;
    while (taken < len) {
        if (r->head_len == RESPONSE_HEAD_MAX - 1) {
            return err_set(e, -EMSGSIZE, "the response head is too long");
        }
        r->head[r->head_len++] = data[taken++];
        if (r->head_len >= 4 && memcmp(r->head + r->head_len - 4, "\r\n\r\n", 4) == 0) {
            int rc = head_parse(r, e);
            return rc != 0 ? rc : (ssize_t)taken;
        }
    }
    return (ssize_t)taken;
}

/* One character of a chunk's size line. */
static int size_read(struct response *r, char c, struct err *e)
{
    if (c == '\n') {
        r->state = r->left == 0 ? RESPONSE_TRAILER : RESPONSE_DATA;
        r->in_extension = false;
        r->line_len = 0;
        return 0;
    }
    if (r->in_extension || c == ';' || c == '\r') {
        r->in_extension = true;
        return 0;
    }
    if (!isxdigit((unsigned char)c) || r->left > UINT32_MAX) {
        return err_set(e, -EPROTO, "bad chunk size");
    }
    uint64_t digit = isdigit((unsigned char)c) ? (uint64_t)(c - '0')
                                               : (uint64_t)(tolower((unsigned char)c) - 'a' + 10);
    r->left = r->left * 16 + digit;
    return 0;
}

static void trailer_read(struct response *r, char c)
{
    if (c == '\n') {
        r->state = r->line_len == 0 ? RESPONSE_DONE : RESPONSE_TRAILER;
        r->line_len = 0;
    } else if (c != '\r') {
        r->line_len++;
    }
}

static ssize_t data_read(struct response *r, const char *data, size_t len, response_body_cb on_body,
                         void *arg, struct err *e)
{
    size_t taken = len < r->left ? len : (size_t)r->left;
    r->left -= taken;
    if (r->left == 0) {
        r->state = r->state == RESPONSE_FIXED ? RESPONSE_DONE : RESPONSE_DATA_END;
    }
    int rc = on_body(arg, data, taken, e);
    return rc != 0 ? rc : (ssize_t)taken;
}

/* Takes at least one byte; the number taken, or an error. */
static ssize_t step(struct response *r, const char *data, size_t len, response_body_cb on_body,
                    void *arg, struct err *e)
{
    int rc = 0;
    switch (r->state) {
    case RESPONSE_HEAD:
        return head_read(r, data, len, e);
    case RESPONSE_SIZE:
        rc = size_read(r, *data, e);
        break;
    case RESPONSE_DATA:
    case RESPONSE_FIXED:
        return data_read(r, data, len, on_body, arg, e);
    case RESPONSE_DATA_END:
        r->state = *data == '\n' ? RESPONSE_SIZE : RESPONSE_DATA_END;
        break;
    case RESPONSE_TRAILER:
        trailer_read(r, *data);
        break;
    case RESPONSE_DONE:
        rc = err_set(e, -EPROTO, "bytes behind an answer");
        break;
    }
    return rc != 0 ? rc : 1;
}

ssize_t response_feed(struct response *r, const char *data, size_t len, response_body_cb on_body,
                      void *arg, struct err *e)
{
    bool in_head = r->state == RESPONSE_HEAD;
    size_t taken = 0;
    while (taken < len && r->state != RESPONSE_DONE && in_head == (r->state == RESPONSE_HEAD)) {
        ssize_t n = step(r, data + taken, len - taken, on_body, arg, e);
        if (n < 0) {
            return n;
        }
        taken += (size_t)n;
    }
    return (ssize_t)taken;
}
