/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/web_page.h"

#include <string.h>

static size_t count(const struct http_head *head, struct slice name)
{
    size_t n = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        n += slice_ieq(head->headers[i].name, name) ? 1 : 0;
    }
    return n;
}

static bool is_listed(struct slice origin, const struct flag_list *accepted)
{
    for (size_t i = 0; i < accepted->count; i++) {
        if (slice_ieq(origin, slice_str(accepted->items[i]))) {
            return true;
        }
    }
    return false;
}

static bool take_prefix(struct slice *text, struct slice prefix)
{
    if (text->len < prefix.len || !slice_ieq(slice_of(text->ptr, prefix.len), prefix)) {
        return false;
    }
    *text = slice_of(text->ptr + prefix.len, text->len - prefix.len);
    return true;
}

static bool is_own(const struct http_head *head, struct slice origin)
{
    const struct http_header *host = http_head_find(head, SLICE("Host"));
    bool web = take_prefix(&origin, SLICE("http://")) || take_prefix(&origin, SLICE("https://"));
    return web && host != NULL && slice_ieq(origin, host->value);
}

static bool is_own_site(const struct http_header *site)
{
    return site == NULL || slice_ieq(site->value, SLICE("none")) ||
           slice_ieq(site->value, SLICE("same-origin"));
}

bool web_page_is_accepted(const struct http_head *head, const struct flag_list *accepted)
{
    const struct http_header *origin = http_head_find(head, SLICE("Origin"));
    const struct http_header *site = http_head_find(head, SLICE("Sec-Fetch-Site"));
    if ((origin == NULL && site == NULL) || is_listed(SLICE("*"), accepted)) {
        return true;
    }
    if (count(head, SLICE("Origin")) > 1 || count(head, SLICE("Sec-Fetch-Site")) > 1) {
        return false;
    }
    if (origin != NULL && is_listed(origin->value, accepted)) {
        return true;
    }
    return is_own_site(site) && (origin == NULL || is_own(head, origin->value));
}

bool web_page_is_origin(const char *text)
{
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0) {
        return true;
    }
    const char *host = strstr(text, "://");
    return host != NULL && host != text && host[3] != '\0' && strpbrk(host + 3, "/?#@* ") == NULL;
}

/* All browsers have begun with one of these for 25 years. */
static bool is_program(const struct http_header *agent)
{
    struct slice name = agent != NULL ? agent->value : SLICE("");
    return name.len > 0 && !take_prefix(&name, SLICE("Mozilla/")) &&
           !take_prefix(&name, SLICE("Opera/"));
}

bool web_page_is_untold(const struct http_head *head, const struct flag_list *accepted)
{
    const struct http_header *type = http_head_find(head, SLICE("Content-Type"));
    bool untyped = slice_eq(head->method, SLICE("POST")) && head->framing == HTTP_BODY_LENGTH &&
                   head->content_length > 0 && (type == NULL || type->value.len == 0);
    if (!untyped || is_listed(SLICE("*"), accepted) ||
        http_head_find(head, SLICE("Origin")) != NULL) {
        return false;
    }
    return http_head_find(head, SLICE("Accept-Language")) != NULL ||
           !is_program(http_head_find(head, SLICE("User-Agent")));
}
