/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/headers.h"

#include "kube/user_agent.h"

struct slice headers_value(const struct http_head *head, struct slice name)
{
    const struct http_header *h = http_head_find(head, name);
    return h != NULL ? h->value : (struct slice){0};
}

enum encoding headers_encoding(const struct http_head *head)
{
    return headers_value(head, SLICE("Content-Encoding")).len > 0
               ? ENCODING_OTHER
               : encoding_of(headers_value(head, SLICE("Content-Type")));
}

/* `from` is the first Connection header; NULL: there is none. */
static bool is_hop_by_hop(const struct http_head *head, const struct http_header *from,
                          struct slice name)
{
    bool found = http_header_is_hop_by_hop(name, (struct slice){0});
    const struct http_header *end = head->headers + head->header_count;
    for (const struct http_header *h = from; h != NULL && h < end && !found; h++) {
        found = slice_ieq(h->name, SLICE("Connection")) && http_list_has(h->value, name);
    }
    return found;
}

size_t headers_end_to_end(const struct http_head *head, struct http_header out[HEADERS_MAX])
{
    size_t n = 0;
    const struct http_header *connection = http_head_find(head, SLICE("Connection"));
    for (size_t i = 0; i < head->header_count && n < HEADERS_MAX - 1; i++) {
        if (!is_hop_by_hop(head, connection, head->headers[i].name)) {
            out[n++] = head->headers[i];
        }
    }
    if (head->upgrade) {
        const struct http_header *upgrade = http_head_find(head, SLICE("Upgrade"));
        if (upgrade != NULL) {
            out[n++] = *upgrade;
        }
    }
    return n;
}

static bool goes_up(struct slice name, enum request_verb verb)
{
    return !slice_ieq(name, SLICE("Host")) && !slice_ieq(name, SLICE("Authorization")) &&
           !slice_ieq(name, SLICE("Expect")) &&
           !(verb == VERB_WATCH && slice_ieq(name, SLICE("Accept-Encoding")));
}

/* RFC 9110, section 7.6.3. */
static struct http_header via(const struct http_head *head)
{
    return (struct http_header){SLICE("Via"),
                                head->minor == 0 ? SLICE("1.0 cmesh") : SLICE("1.1 cmesh")};
}

/* Of the client's. */
static size_t headers_that_go_up(const struct http_head *head, enum request_verb verb,
                                 struct http_header out[HEADERS_MAX])
{
    size_t n = headers_end_to_end(head, out);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (goes_up(out[i].name, verb)) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

struct http_head *headers_copy_of_watch(const struct http_head *head)
{
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    h.headers = headers;
    h.header_count = headers_that_go_up(head, VERB_WATCH, headers);
    return http_head_copy(&h);
}

size_t headers_of_request(const struct http_head *head, enum request_verb verb,
                          struct http_header out[HEADERS_MAX])
{
    size_t kept = headers_that_go_up(head, verb, out);
    /* Without the header any encoding would do (RFC 9110, section 12.5.3). */
    if (verb == VERB_WATCH && kept < HEADERS_MAX) {
        out[kept++] = (struct http_header){SLICE("Accept-Encoding"), SLICE("identity")};
    }
    if (kept < HEADERS_MAX) {
        out[kept++] = via(head);
    }
    return kept;
}

int headers_name_client(struct http_header headers[HEADERS_MAX], size_t *count, struct slice text,
                        struct buf *agent)
{
    static const struct slice name = {"User-Agent", 10};
    const struct http_head head = {.headers = headers, .header_count = *count};
    int rc = user_agent_write(text, headers_value(&head, name), agent);
    size_t kept = 0;
    for (size_t i = 0; rc == 0 && i < *count; i++) {
        if (!slice_ieq(headers[i].name, name)) {
            headers[kept++] = headers[i];
        }
    }
    if (rc == 0 && kept < HEADERS_MAX) {
        headers[kept++] = (struct http_header){name, buf_slice(agent)};
        *count = kept;
    }
    return rc;
}

bool headers_may_upgrade(const struct http_head *head, enum request_verb verb)
{
    struct slice protocol = headers_value(head, SLICE("Upgrade"));
    return head->upgrade && verb != VERB_WATCH &&
           (slice_ieq(protocol, SLICE("SPDY/3.1")) || slice_ieq(protocol, SLICE("websocket")));
}

struct http_head headers_answer(const struct http_head *head, const struct http_header *headers,
                                size_t count, bool unhurried)
{
    struct http_head h = *head;
    h.headers = headers;
    h.header_count = count;
    h.unhurried = unhurried;
    if (head->framing == HTTP_BODY_NONE && head->content_length > 0) {
        h.framing = HTTP_BODY_LENGTH;
    }
    return h;
}

bool headers_announce_body(const struct http_head *head)
{
    return head->framing == HTTP_BODY_CHUNKED ||
           (head->framing == HTTP_BODY_LENGTH && head->content_length > 0);
}

bool headers_method_is_safe(const struct http_head *head)
{
    return slice_eq(head->method, SLICE("GET")) || slice_eq(head->method, SLICE("HEAD")) ||
           slice_eq(head->method, SLICE("OPTIONS"));
}
