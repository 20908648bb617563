/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_framing.h"

#include <stdint.h>

/* What stands in the headers. */
struct notes {
    unsigned lengths;
    unsigned encodings;
    unsigned hosts;
    struct slice length;
    struct slice encoding;
    bool close;
    bool keep_alive;
    bool connection_upgrade;
    bool upgrade;
    bool expect_continue;
};

static void note_connection(struct notes *n, struct slice value)
{
    n->close = n->close || http_list_has(value, SLICE("close"));
    n->keep_alive = n->keep_alive || http_list_has(value, SLICE("keep-alive"));
    n->connection_upgrade = n->connection_upgrade || http_list_has(value, SLICE("upgrade"));
}

/* True when the header is framing, which is taken out. */
static bool note_header(struct notes *n, const struct http_header *h)
{
    switch (h->name.len) {
    case 4:
        n->hosts += slice_ieq(h->name, SLICE("Host")) ? 1 : 0;
        break;
    case 6:
        if (slice_ieq(h->name, SLICE("Expect"))) {
            n->expect_continue = slice_ieq(h->value, SLICE("100-continue"));
        }
        break;
    case 7:
        if (slice_ieq(h->name, SLICE("Upgrade"))) {
            n->upgrade = h->value.len > 0;
        }
        break;
    case 10:
        if (slice_ieq(h->name, SLICE("Connection"))) {
            note_connection(n, h->value);
        }
        break;
    case 14:
        if (slice_ieq(h->name, SLICE("Content-Length"))) {
            n->lengths++;
            n->length = h->value;
            return true;
        }
        break;
    case 17:
        if (slice_ieq(h->name, SLICE("Transfer-Encoding"))) {
            n->encodings++;
            n->encoding = h->value;
            return true;
        }
        break;
    default:
        break;
    }
    return false;
}

static struct notes note_headers(struct http_head *h, struct http_header *headers)
{
    struct notes n = {.lengths = 0};
    size_t kept = 0;
    for (size_t i = 0; i < h->header_count; i++) {
        if (!note_header(&n, &headers[i])) {
            headers[kept++] = headers[i];
        }
    }
    h->headers = headers;
    h->header_count = kept;
    return n;
}

static int refuse(int status, const char *text, const char **why)
{
    *why = text;
    return -status;
}

/* 1*DIGIT up to 2^63 - 1. */
static bool read_length(struct slice text, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)(unsigned char)text.ptr[i] - '0';
        if (digit > 9 || n > ((uint64_t)INT64_MAX - digit) / 10) {
            return false;
        }
        n = n * 10 + digit;
    }
    *out = n;
    return text.len > 0;
}

/* Where section 6.3 lets a recipient repair a message, this one refuses it. */
static int check(struct http_head *h, const struct notes *n, enum h1_role role, const char **why)
{
    if (role != H1_RESPONSES && (n->hosts > 1 || (n->hosts == 0 && h->minor == 1))) {
        return refuse(HTTP_PARSE_BAD, "no Host header, or several", why);
    }
    if (h->connect && n->lengths + n->encodings > 0) {
        return refuse(HTTP_PARSE_BAD, "CONNECT with Content-Length or Transfer-Encoding", why);
    }
    if (n->lengths > 1 || n->encodings > 1 || (n->lengths > 0 && n->encodings > 0)) {
        return refuse(HTTP_PARSE_BAD, "several Content-Length or Transfer-Encoding headers", why);
    }
    if (n->lengths > 0 && !read_length(n->length, &h->content_length)) {
        return refuse(HTTP_PARSE_BAD, "Content-Length is not a number", why);
    }
    if (n->encodings > 0 && !slice_ieq(n->encoding, SLICE("chunked"))) {
        return refuse(HTTP_PARSE_NOT_IMPLEMENTED, "Transfer-Encoding is not `chunked`", why);
    }
    if (n->encodings > 0 && role != H1_RESPONSES && h->minor == 0) {
        return refuse(HTTP_PARSE_BAD, "Transfer-Encoding in an HTTP/1.0 request", why);
    }
    return 0;
}

static enum http_framing framing_of(const struct http_head *h, const struct notes *n,
                                    enum h1_role role, bool to_head_request)
{
    if (role == H1_RESPONSES &&
        (to_head_request || h->status < 200 || h->status == 204 || h->status == 304)) {
        return HTTP_BODY_NONE;
    }
    if (n->encodings > 0) {
        return HTTP_BODY_CHUNKED;
    }
    if (n->lengths > 0) {
        return HTTP_BODY_LENGTH;
    }
    return role == H1_RESPONSES ? HTTP_BODY_CLOSE : HTTP_BODY_NONE;
}

int h1_framing_derive(struct http_head *h, struct http_header *headers, enum h1_role role,
                      bool to_head_request, const char **why)
{
    const struct notes n = note_headers(h, headers);
    int rc = check(h, &n, role, why);
    if (rc != 0) {
        return rc;
    }
    h->framing = framing_of(h, &n, role, to_head_request);
    if (h->framing == HTTP_BODY_NONE && !to_head_request && h->status != 304) {
        h->content_length = 0; /* meaningless there */
    }
    h->keep_alive = !n.close && (h->minor == 1 || n.keep_alive);
    if (role != H1_RESPONSES) {
        h->upgrade = h->minor == 1 && !h->connect && n.connection_upgrade && n.upgrade;
        h->expect_continue = h->minor == 1 && !h->connect && n.expect_continue;
        return 0;
    }
    h->upgrade = h->status == 101;
    /* Section 6.1: what HTTP/1.0 says about Transfer-Encoding is not to be trusted. */
    if (h->framing == HTTP_BODY_CLOSE || h->upgrade || (h->minor == 0 && n.encodings > 0)) {
        h->keep_alive = false;
    }
    return 0;
}
