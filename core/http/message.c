/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ascii.h"

const struct http_header *http_head_find(const struct http_head *h, struct slice name)
{
    for (size_t i = 0; i < h->header_count; i++) {
        if (slice_ieq(h->headers[i].name, name)) {
            return &h->headers[i];
        }
    }
    return NULL;
}

static struct slice trim(const char *ptr, size_t len)
{
    while (len > 0 && ascii_is_blank(ptr[0])) {
        ptr++;
        len--;
    }
    while (len > 0 && ascii_is_blank(ptr[len - 1])) {
        len--;
    }
    return slice_of(ptr, len);
}

bool http_list_has(struct slice value, struct slice token)
{
    const char *at = value.ptr;
    size_t left = value.len;
    while (left > 0) {
        const char *comma = memchr(at, ',', left);
        size_t len = comma == NULL ? left : (size_t)(comma - at);
        if (token.len > 0 && slice_ieq(trim(at, len), token)) {
            return true;
        }
        len += comma == NULL ? 0 : 1;
        at += len;
        left -= len;
    }
    return false;
}

bool http_header_is_hop_by_hop(struct slice name, struct slice connection)
{
    bool listed = false;
    switch (name.len) {
    case 2:
        listed = slice_ieq(name, SLICE("TE"));
        break;
    case 7:
        listed = slice_ieq(name, SLICE("Trailer")) || slice_ieq(name, SLICE("Upgrade"));
        break;
    case 10:
        listed = slice_ieq(name, SLICE("Connection")) || slice_ieq(name, SLICE("Keep-Alive"));
        break;
    case 16:
        listed = slice_ieq(name, SLICE("Proxy-Connection"));
        break;
    case 17:
        listed = slice_ieq(name, SLICE("Transfer-Encoding"));
        break;
    case 18:
        listed = slice_ieq(name, SLICE("Proxy-Authenticate"));
        break;
    case 19:
        listed = slice_ieq(name, SLICE("Proxy-Authorization"));
        break;
    default:
        break;
    }
    return listed || (connection.len > 0 && http_list_has(connection, name));
}

/* The phrases of RFC 9110 section 15 and of the registry's other codes that Kubernetes uses; of 413
 * and 422 those of RFC 7231, which servers in Go say. */
const char *http_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *phrase;
    } known[] = {
        {200, "OK"},
        {201, "Created"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {409, "Conflict"},
        {410, "Gone"},
        {422, "Unprocessable Entity"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {100, "Continue"},
        {101, "Switching Protocols"},
        {103, "Early Hints"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {205, "Reset Content"},
        {206, "Partial Content"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {402, "Payment Required"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {407, "Proxy Authentication Required"},
        {408, "Request Timeout"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Request Entity Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {425, "Too Early"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {431, "Request Header Fields Too Large"},
        {501, "Not Implemented"},
        {505, "HTTP Version Not Supported"},
        {511, "Network Authentication Required"},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i].status == status) {
            return known[i].phrase;
        }
    }
    return "Unknown";
}

static struct slice copy_text(char **at, struct slice text)
{
    struct slice kept = slice_of(*at, text.len);
    if (text.len > 0) {
        memcpy(*at, text.ptr, text.len);
    }
    *at += text.len;
    return kept;
}

size_t http_head_size(const struct http_head *h)
{
    size_t size = sizeof *h + h->header_count * sizeof *h->headers;
    size += h->method.len + h->target.len + h->reason.len;
    for (size_t i = 0; i < h->header_count; i++) {
        size += h->headers[i].name.len + h->headers[i].value.len;
    }
    return size;
}

struct http_head *http_head_copy(const struct http_head *h)
{
    struct http_head *kept = malloc(http_head_size(h));
    if (kept == NULL) {
        return NULL;
    }
    struct http_header *headers = (struct http_header *)(kept + 1);
    char *at = (char *)(headers + h->header_count);
    *kept = *h;
    kept->headers = headers;
    kept->method = copy_text(&at, h->method);
    kept->target = copy_text(&at, h->target);
    kept->reason = copy_text(&at, h->reason);
    for (size_t i = 0; i < h->header_count; i++) {
        headers[i].name = copy_text(&at, h->headers[i].name);
        headers[i].value = copy_text(&at, h->headers[i].value);
    }
    return kept;
}
