/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request as anybody sends it who reaches localproxy's port, on its whole way to the
 * API server: what is looked at in it, and which headers pass. A credential that the head does not
 * hold is not found in it; no credential of the client's passes, nor anything that is about its own
 * connection; and what an attribute says can be kept without the head.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "codec/encoding.h"
#include "exchange/headers.h"
#include "forward/time_limits.h"
#include "guard/host.h"
#include "guard/token.h"
#include "http/h1_parser.h"
#include "kube/request_info.h"
#include "upstream/request_attributes.h"

#define TOKEN "fuzz-token-of-localproxy"
#define SCOPE ".0123abcd"
#define BASIC "Y21lc2g6ZnV6ei10b2tlbi1vZi1sb2NhbHByb3h5" /* with the user cmesh */

static bool contains(struct slice text, const char *word)
{
    return text.len > 0 && memmem(text.ptr, text.len, word, strlen(word)) != NULL;
}

/* Also by a name that only this machine can have. */
static bool is_below_localhost(struct slice host)
{
    static const struct slice below = SLICE(".localhost");
    const char *colon = memchr(host.ptr, ':', host.len);
    size_t len = colon == NULL ? host.len : (size_t)(colon - host.ptr);
    len -= len > 0 && host.ptr[len - 1] == '.' ? 1 : 0;
    return len > below.len && slice_ieq(slice_of(host.ptr + len - below.len, below.len), below);
}

static void check_guards(const struct http_head *head)
{
    static const struct flag_list none = {.count = 0};
    const struct token right = {.text = SLICE(TOKEN), .basic = SLICE(BASIC), .scope = SLICE(SCOPE)};
    const struct token never = {.text = SLICE("a token that cannot be there\n"),
                                .basic = SLICE("nor this\n"),
                                .scope = SLICE(SCOPE)};
    struct slice authorization = headers_value(head, SLICE("Authorization"));
    struct slice host = headers_value(head, SLICE("Host"));
    enum token_verdict verdict = token_look(head, &right);
    bool found = verdict != TOKEN_WRONG;
    bool bearer = contains(authorization, TOKEN);
    CHECK(verdict != TOKEN_OF_ANOTHER || !contains(authorization, TOKEN SCOPE));
    CHECK(!found || bearer || authorization.len > strlen("Basic ") + sizeof TOKEN);
    CHECK(token_look(head, &never) == TOKEN_WRONG);
    bool accepted = host_is_accepted(head, &none);
    CHECK(!accepted || !contains(host, "evil.example") || is_below_localhost(host));
    CHECK(!accepted || !contains(host, "\t"));
}

static void check_passed(const struct http_head *head, enum request_verb verb)
{
    struct http_header out[HEADERS_MAX];
    size_t n = headers_of_request(head, verb, out);
    CHECK(n <= HEADERS_MAX && n > 0);
    for (size_t i = 0; i < n; i++) {
        CHECK(!slice_ieq(out[i].name, SLICE("Authorization")));
        CHECK(!slice_ieq(out[i].name, SLICE("Host")));
        CHECK(!slice_ieq(out[i].name, SLICE("Connection")));
        CHECK(!slice_ieq(out[i].name, SLICE("Transfer-Encoding")));
        CHECK(!slice_ieq(out[i].name, SLICE("Content-Length")));
    }
    CHECK(verb != VERB_WATCH || !headers_may_upgrade(head, verb));
}

static void check_accept(const struct http_head *head)
{
    struct slice accept = headers_value(head, SLICE("Accept"));
    struct buf out = BUF_INIT(64 * 1024);
    struct buf again = BUF_INIT(64 * 1024);
    (void)encoding_form(accept, encoding_accepted(accept));
    if (encoding_without_cbor(accept, &out)) {
        CHECK(out.len <= accept.len);
        CHECK(!encoding_without_cbor(buf_slice(&out), &again));
    }
    buf_reset(&out);
    buf_reset(&again);
}

static void check_attributes(const struct request_info *ri)
{
    struct request_attributes read = {.verb = VERB_OTHER};
    struct request_attributes kept = {.verb = VERB_OTHER};
    request_attributes_read(&read, ri);
    CHECK(request_attributes_keep(&kept, &read) == 0);
    CHECK(kept.version == read.version && kept.page == read.page);
    CHECK(slice_eq(kept.resource, read.resource) && slice_eq(kept.namespace, read.namespace));
    struct time_limits limits = time_limits_of(ri);
    CHECK((limits.watch_ms != 0) == (ri->verb == VERB_WATCH));
    request_attributes_deinit(&kept);
}

static void check_head(const struct http_head *head)
{
    struct request_info ri;
    struct err e = ERR_INIT;
    struct http_head *copy = http_head_copy(head);
    CHECK(copy != NULL && copy->header_count == head->header_count);
    check_guards(copy);
    check_accept(copy);
    if (request_info_parse(&ri, copy->method, copy->target, &e) == 0) {
        check_passed(copy, ri.verb);
        if (ri.is_resource && !ri.ambiguous) {
            check_attributes(&ri);
        }
        request_info_deinit(&ri);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct h1_limits limits = {.head_bytes = 64 * 1024, .header_count = 128};
    struct h1_parser *p = h1_parser_new(H1_REQUESTS, &limits);
    struct slice rest = slice_of((const char *)data, size);
    const struct http_head *head = NULL;
    struct slice body = {0};
    struct err e = ERR_INIT;
    CHECK(p != NULL);
    if (h1_parser_next(p, &rest, &head, &body, &e) == H1_HEAD) {
        check_head(head);
    }
    h1_parser_free(p);
    return 0;
}
