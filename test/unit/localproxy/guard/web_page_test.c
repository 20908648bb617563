/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "guard/web_page.h"

static const struct flag_list none = {.count = 0};
static const struct flag_list some = {.items = {"http://dash.example:8080", "null"}, .count = 2};
static const struct flag_list any = {.items = {"*"}, .count = 1};

/* NULL: without that header. */
static bool is_accepted(const char *origin, const char *site, const struct flag_list *accepted)
{
    struct http_header h[3] = {{SLICE("Host"), SLICE("127.0.0.1:5443")}};
    struct http_head head = {.headers = h, .header_count = 1};
    if (origin != NULL) {
        h[head.header_count++] = (struct http_header){SLICE("origin"), slice_str(origin)};
    }
    if (site != NULL) {
        h[head.header_count++] = (struct http_header){SLICE("sec-fetch-site"), slice_str(site)};
    }
    return web_page_is_accepted(&head, accepted);
}

static void pages_of_others_are_not_accepted(void **state)
{
    static const struct {
        const char *origin;
        const char *site;
        bool none, some, any;
    } rows[] = {
        {NULL, NULL, true, true, true},
        {NULL, "none", true, true, true},
        {NULL, "same-origin", true, true, true},
        {NULL, "same-site", false, false, true},
        {NULL, "cross-site", false, false, true},
        {NULL, "", false, false, true},
        {"http://evil.example", NULL, false, false, true},
        {"http://evil.example", "cross-site", false, false, true},
        {"http://evil.example", "none", false, false, true},
        {"null", "cross-site", false, true, true},
        {"", NULL, false, false, true},
        {"http://dash.example:8080", "cross-site", false, true, true},
        {"HTTP://Dash.example:8080", NULL, false, true, true},
        {"http://dash.example:8081", NULL, false, false, true},
        {"http://dash.example", NULL, false, false, true},
        {"http://127.0.0.1:5443", NULL, true, true, true},
        {"https://127.0.0.1:5443", "same-origin", true, true, true},
        {"http://127.0.0.1:5443", "cross-site", false, false, true},
        {"http://127.0.0.1:5444", NULL, false, false, true},
        {"http://127.0.0.1", NULL, false, false, true},
        {"http://127.0.0.1:5443.evil.example", NULL, false, false, true},
        {"127.0.0.1:5443", NULL, false, false, true},
        {"file://127.0.0.1:5443", NULL, false, false, true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (is_accepted(rows[i].origin, rows[i].site, &none) != rows[i].none ||
            is_accepted(rows[i].origin, rows[i].site, &some) != rows[i].some ||
            is_accepted(rows[i].origin, rows[i].site, &any) != rows[i].any) {
            fail_msg("row %zu", i);
        }
    }
}

static void neither_header_may_be_there_twice(void **state)
{
    const struct http_header own = {SLICE("Origin"), SLICE("http://127.0.0.1:5443")};
    const struct http_header site = {SLICE("Sec-Fetch-Site"), SLICE("none")};
    const struct http_header origins[] = {{SLICE("Host"), SLICE("127.0.0.1:5443")}, own, own};
    const struct http_header sites[] = {site, site};
    (void)state;
    assert_true(
        web_page_is_accepted(&(struct http_head){.headers = origins, .header_count = 2}, &none));
    assert_false(
        web_page_is_accepted(&(struct http_head){.headers = origins, .header_count = 3}, &none));
    assert_true(
        web_page_is_accepted(&(struct http_head){.headers = sites, .header_count = 1}, &none));
    assert_false(
        web_page_is_accepted(&(struct http_head){.headers = sites, .header_count = 2}, &none));
}

static void without_host_no_origin_is_ones_own(void **state)
{
    const struct http_header h = {SLICE("Origin"), SLICE("http://")};
    (void)state;
    assert_false(
        web_page_is_accepted(&(struct http_head){.headers = &h, .header_count = 1}, &none));
}

static void what_never_matches_is_no_origin(void **state)
{
    static const char *const origins[] = {"*",
                                          "null",
                                          "http://a",
                                          "https://a.example:8443",
                                          "http://[::1]:80",
                                          "chrome-extension://abc"};
    static const char *const others[] = {"",           "a.example",  "http://",   "://a",
                                         "http://a/",  "http://a/b", "http://*",  "http://u@a",
                                         "http://a b", "http://a?b", "http://a#b"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(origins); i++) {
        if (!web_page_is_origin(origins[i])) {
            fail_msg("\"%s\"", origins[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (web_page_is_origin(others[i])) {
            fail_msg("\"%s\"", others[i]);
        }
    }
}

#define GO "e2e.test/v1.36.2 (linux/amd64) kubernetes/7a5c31d"
#define FIREFOX "Mozilla/5.0 (X11; Linux x86_64; rv:68.0) Gecko/20100101 Firefox/68.0"
#define EDGE                                                                                       \
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "            \
    "Chrome/70.0.3538.102 Safari/537.36 Edge/18.19582"

/* A POST without Origin and Sec-Fetch-Site; NULL: without that header. */
struct post {
    enum http_framing framing;
    uint64_t length;
    const char *type;
    const char *agent;
    const char *language;
};

static bool is_untold(const struct post *p)
{
    const struct http_header all[] = {
        {SLICE("content-type"), slice_str(p->type != NULL ? p->type : "")},
        {SLICE("user-agent"), slice_str(p->agent != NULL ? p->agent : "")},
        {SLICE("accept-language"), slice_str(p->language != NULL ? p->language : "")},
    };
    const bool there[] = {p->type != NULL, p->agent != NULL, p->language != NULL};
    struct http_header h[ARRAY_LEN(all)];
    struct http_head head = {
        .method = SLICE("POST"), .headers = h, .framing = p->framing, .content_length = p->length};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (there[i]) {
            h[head.header_count++] = all[i];
        }
    }
    assert_false(web_page_is_untold(&head, &any));
    return web_page_is_untold(&head, &none);
}

static void pages_of_old_browsers(void **state)
{
    static const struct {
        struct post post;
        bool untold;
    } rows[] = {
        {{HTTP_BODY_LENGTH, 1, NULL, FIREFOX, "en-US,en;q=0.5"}, true},
        {{HTTP_BODY_LENGTH, 1, "", FIREFOX, "en-US,en;q=0.5"}, true},
        {{HTTP_BODY_LENGTH, 1, NULL, EDGE, "de-DE"}, true},
        {{HTTP_BODY_LENGTH, 1, NULL, "Opera/9.80 (X11) Presto/2.12", NULL}, true},
        /* The user has given it another name; the script has emptied the language. */
        {{HTTP_BODY_LENGTH, 1, NULL, "private", "en"}, true},
        {{HTTP_BODY_LENGTH, 1, NULL, FIREFOX, ""}, true},
        {{HTTP_BODY_LENGTH, 1, NULL, FIREFOX, NULL}, true},
        {{HTTP_BODY_LENGTH, 1, NULL, "mozilla/5.0", NULL}, true},
        /* Nobody knows what it is. */
        {{HTTP_BODY_LENGTH, 1, NULL, NULL, NULL}, true},
        {{HTTP_BODY_LENGTH, 1, NULL, "", NULL}, true},
        /* Programs. */
        {{HTTP_BODY_LENGTH, 1, NULL, GO, NULL}, false},
        {{HTTP_BODY_LENGTH, 1, NULL, "curl/7.88.1", NULL}, false},
        {{HTTP_BODY_LENGTH, 1, NULL, "Go-http-client/1.1", NULL}, false},
        {{HTTP_BODY_CHUNKED, 0, NULL, FIREFOX, "en"}, false}, /* as no page can */
        /* What the API server does not take for JSON, or that is none. */
        {{HTTP_BODY_LENGTH, 1, "text/plain", FIREFOX, "en"}, false},
        {{HTTP_BODY_LENGTH, 1, "application/json", NULL, NULL}, false},
        {{HTTP_BODY_LENGTH, 0, NULL, FIREFOX, "en"}, false},
        {{HTTP_BODY_NONE, 0, NULL, FIREFOX, "en"}, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (is_untold(&rows[i].post) != rows[i].untold) {
            fail_msg("row %zu", i);
        }
    }
}

static void who_tells_is_judged_by_that(void **state)
{
    const struct http_header h = {SLICE("Origin"), SLICE("null")};
    struct http_head head = {.method = SLICE("POST"),
                             .headers = &h,
                             .header_count = 1,
                             .framing = HTTP_BODY_LENGTH,
                             .content_length = 1};
    (void)state;
    assert_false(web_page_is_untold(&head, &none));
    assert_false(web_page_is_accepted(&head, &none));
    head.header_count = 0;
    assert_true(web_page_is_untold(&head, &none));
    head.method = SLICE("GET"); /* no page can send one with a body */
    assert_false(web_page_is_untold(&head, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_others_are_not_accepted),
        cmocka_unit_test(neither_header_may_be_there_twice),
        cmocka_unit_test(without_host_no_origin_is_ones_own),
        cmocka_unit_test(what_never_matches_is_no_origin),
        cmocka_unit_test(pages_of_old_browsers),
        cmocka_unit_test(who_tells_is_judged_by_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
