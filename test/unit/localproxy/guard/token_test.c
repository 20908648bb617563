/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "crypto/digest.h"
#include "program/local_token.h"

#define TEXT "0123456789abcdef"
#define BASIC "Y21lc2g6MDEyMzQ1Njc4OWFiY2RlZg==" /* cmesh:TEXT */

static char scope[LOCAL_TOKEN_SCOPE_LEN + 1];

static enum token_verdict look(const char *authorization)
{
    struct http_header header = {SLICE("Authorization"), slice_str(authorization)};
    const struct http_head head = {.headers = &header, .header_count = 1};
    const struct token token = {
        .text = SLICE(TEXT), .basic = SLICE(BASIC), .scope = slice_str(scope)};
    return token_look(&head, &token);
}

static enum token_verdict look_basic(const char *text)
{
    struct buf out = BUF_INIT(1024);
    assert_int_equal(buf_append_str(&out, "Basic "), 0);
    assert_int_equal(base64_encode(slice_str(text), &out), 0);
    enum token_verdict verdict = look(buf_cstr(&out));
    buf_reset(&out);
    return verdict;
}

static void verdicts(void **state)
{
    (void)state;
    static const struct {
        const char *before; /* of the scope, which is left out where there is a `*` */
        const char *after;
        enum token_verdict verdict;
    } cases[] = {
        {TEXT "*", "", TOKEN_RIGHT},
        {TEXT, "", TOKEN_RIGHT},
        {TEXT ".00000000*", "", TOKEN_OF_ANOTHER},
        {"", "", TOKEN_WRONG},
        {"*", "", TOKEN_WRONG},
        {TEXT, "x", TOKEN_WRONG},
        {TEXT "x", "", TOKEN_WRONG},
        {"x" TEXT "*", "", TOKEN_WRONG},
        {"0123456789abcdeX*", "", TOKEN_WRONG},
        {"0123456789abcdeX", "", TOKEN_WRONG},
        {"0123456789abcde", "", TOKEN_WRONG},
        {TEXT "-00000000*", "", TOKEN_WRONG},
        {TEXT ".0000000*", "", TOKEN_WRONG},
        {TEXT ".000000000*", "", TOKEN_WRONG},
        {TEXT ".00000000", "", TOKEN_WRONG}, /* two scopes */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char given[64];
        char text[128];
        size_t len = strcspn(cases[i].before, "*");
        bool bare = cases[i].before[len] == '*';
        (void)snprintf(given, sizeof given, "%.*s%s%s", (int)len, cases[i].before,
                       bare ? "" : scope, cases[i].after);
        (void)snprintf(text, sizeof text, "Bearer %s", given);
        if (look(text) != cases[i].verdict) {
            fail_msg("%s: %d", text, look(text));
        }
        (void)snprintf(text, sizeof text, "cmesh:%s", given);
        assert_int_equal(look_basic(text), cases[i].verdict);
        (void)snprintf(text, sizeof text, "anybody:%s", given);
        assert_int_equal(look_basic(text), cases[i].verdict);
        (void)snprintf(text, sizeof text, "Digest %s", given);
        assert_int_equal(look(text), TOKEN_WRONG);
    }
    assert_int_equal(look("Basic " BASIC), TOKEN_RIGHT);
    assert_int_equal(look("Basic %"), TOKEN_WRONG);
    assert_int_equal(look_basic(TEXT), TOKEN_WRONG);
}

static void no_header(void **state)
{
    (void)state;
    const struct http_head head = {.headers = NULL};
    const struct token token = {
        .text = SLICE(TEXT), .basic = SLICE(BASIC), .scope = slice_str(scope)};
    assert_int_equal(token_look(&head, &token), TOKEN_WRONG);
}

/* However the URL is written. */
static void scopes(void **state)
{
    (void)state;
    static const char *const urls[] = {"https://a:443", "https://b", "https://a:6443",
                                       "http://a:443", "https://a/x"};
    char seen[ARRAY_LEN(urls)][LOCAL_TOKEN_SCOPE_LEN + 1];
    struct err e = ERR_INIT;
    struct url url;
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        assert_int_equal(url_parse(urls[i], &url, &e), 0);
        local_token_scope(&url, seen[i]);
        assert_int_equal(strlen(seen[i]), LOCAL_TOKEN_SCOPE_LEN);
        assert_int_equal(seen[i][0], '.');
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(seen[i], seen[j]);
        }
    }
    assert_int_equal(url_parse("https://A/", &url, &e), 0);
    local_token_scope(&url, scope);
    assert_string_equal(scope, seen[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes), /* first: the others have the scope from it */
        cmocka_unit_test(verdicts),
        cmocka_unit_test(no_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
