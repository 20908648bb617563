/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/token.h"

#include "base/buf.h"
#include "base/secret.h"
#include "crypto/digest.h"
#include "program/local_token.h"

enum { BASIC_MAX = 64 * 1024 };

static bool take_scheme(struct slice *value, struct slice scheme)
{
    if (value->len < scheme.len || !slice_ieq(slice_of(value->ptr, scheme.len), scheme)) {
        return false;
    }
    *value = slice_of(value->ptr + scheme.len, value->len - scheme.len);
    return true;
}

/* A token without a scope is good for every cluster. */
static enum token_verdict judge(struct slice given, const struct token *token)
{
    if (!local_token_matches(given, token->text)) {
        return TOKEN_WRONG;
    }
    struct slice scope = slice_of(given.ptr + token->text.len, given.len - token->text.len);
    return scope.len == 0 || slice_eq(scope, token->scope) ? TOKEN_RIGHT : TOKEN_OF_ANOTHER;
}

static enum token_verdict judge_password(struct slice encoded, const struct token *token)
{
    struct buf text = BUF_INIT(BASIC_MAX);
    enum token_verdict verdict = TOKEN_WRONG;
    if (buf_reserve(&text, encoded.len) != NULL && base64_decode(encoded, &text) == 0 &&
        text.len > 0) {
        const char *user = (const char *)buf_data(&text);
        const char *colon = memchr(user, ':', text.len);
        size_t skip = colon != NULL ? (size_t)(colon - user) + 1 : text.len;
        verdict = judge(slice_of(user + skip, text.len - skip), token);
    }
    secret_buf_reset(&text);
    return verdict;
}

enum token_verdict token_look(const struct http_head *head, const struct token *token)
{
    struct slice name = token->header.len > 0 ? token->header : SLICE("Authorization");
    const struct http_header *h = http_head_find(head, name);
    if (h == NULL) {
        return TOKEN_WRONG;
    }
    struct slice value = h->value;
    if (take_scheme(&value, SLICE("Bearer "))) {
        return judge(value, token);
    }
    if (!take_scheme(&value, SLICE("Basic "))) {
        return TOKEN_WRONG;
    }
    return secret_equal(value, token->basic) ? TOKEN_RIGHT : judge_password(value, token);
}
