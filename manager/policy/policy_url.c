/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_url.h"

#include <string.h>

#include "traffic/origin_text.h"
#include "traffic/traffic.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

/* Of what would only be "no host" to the parser, what is likely meant. */
static const char *explain_host(const char *text)
{
    const char *from = strstr(text, "://");
    const char *host = from == NULL ? text : from + 3;
    size_t len = strcspn(host, "/?");
    size_t below = strncmp(host, "*.", 2) == 0 ? 2 : 0;
    if (len > below && memchr(host + below, '*', len - below) != NULL) {
        return "must have \"*\" in the host only as in \"*.example.com\", which is any host below "
               "that: write such a host, or one URL for each";
    }
    return memchr(host, '@', len) != NULL ? "must not have a user name or password" : NULL;
}

/* A star in the path that is not the end of it behind a slash. */
static bool has_odd_star(const char *text)
{
    const char *host = strstr(text, "://");
    const char *rest = host == NULL ? "" : host + 3;
    rest += strcspn(rest, "/?");
    size_t path = strcspn(rest, "?");
    bool below = path >= 2 && strncmp(rest + path - 2, "/*", 2) == 0;
    size_t plain = below ? path - 2 : path;
    return plain > 0 && memchr(rest, '*', plain) != NULL;
}

const char *policy_url_read(const char *text, struct policy_url *out)
{
    struct origin_url u;
    if (strlen(text) > TRAFFIC_URL_MAX) {
        return "must be no more than 2048 characters";
    }
    const char *why = origin_url_read(slice_str(text), &u);
    if (why != NULL) {
        const char *better = explain_host(text);
        return better != NULL ? better : why;
    }
    out->whole_host = u.below_path && u.path.len <= 1;
    out->tunnelled = u.at.port != (u.https ? HTTP_PORT : HTTPS_PORT);
    out->odd_star = has_odd_star(text);
    return NULL;
}
