/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/token.h"

#include "base/buf.h"
#include "base/secret.h"
#include "crypto/digest.h"

enum { BASIC_MAX = 64 * 1024 };

static bool take_scheme(struct slice *value, struct slice scheme)
{
    if (value->len < scheme.len || !slice_ieq(slice_of(value->ptr, scheme.len), scheme)) {
        return false;
    }
    *value = slice_of(value->ptr + scheme.len, value->len - scheme.len);
    return true;
}

static bool has_password(struct slice encoded, struct slice token)
{
    struct buf text = BUF_INIT(BASIC_MAX);
    bool right = false;
    if (buf_reserve(&text, encoded.len) != NULL && base64_decode(encoded, &text) == 0 &&
        text.len > 0) {
        const char *user = (const char *)buf_data(&text);
        const char *colon = memchr(user, ':', text.len);
        size_t skip = colon != NULL ? (size_t)(colon - user) + 1 : text.len;
        right = secret_equal(slice_of(user + skip, text.len - skip), token);
    }
    secret_buf_reset(&text);
    return right;
}

bool token_is_in(const struct http_head *head, const struct token *token)
{
    const struct http_header *h = http_head_find(head, SLICE("Authorization"));
    if (h == NULL) {
        return false;
    }
    struct slice value = h->value;
    if (take_scheme(&value, SLICE("Bearer "))) {
        return secret_equal(value, token->text);
    }
    return take_scheme(&value, SLICE("Basic ")) &&
           (secret_equal(value, token->basic) || has_password(value, token->text));
}
