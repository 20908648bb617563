/* SPDX-License-Identifier: Apache-2.0 */
#include "servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"

/* An IPv4 address in the form of one of IPv6 is the IPv4 address: so packets have it. */
static void unmap(struct sockaddr_storage *a)
{
    struct sockaddr_in6 v6;
    memcpy(&v6, a, sizeof v6);
    if (a->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
        return;
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
    memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
    *a = (struct sockaddr_storage){0};
    memcpy(a, &v4, sizeof v4);
}

/* No API server is there: rules for it would lead nobody. */
static bool is_nowhere(const struct sockaddr_storage *a)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    memcpy(&v6, a, sizeof v6);
    memcpy(&v4, a, sizeof v4);
    return a->ss_family == AF_INET6
               ? IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) || IN6_IS_ADDR_MULTICAST(&v6.sin6_addr)
               : v4.sin_addr.s_addr == INADDR_ANY || IN_MULTICAST(ntohl(v4.sin_addr.s_addr));
}

static int add(struct ruleset *out, const struct sockaddr *address, socklen_t len, struct err *e)
{
    struct sockaddr_storage server = {0};
    memcpy(&server, address, len);
    unmap(&server);
    if (is_nowhere(&server)) {
        return err_set(e, -EINVAL, "no API server can have that address");
    }
    return ruleset_add(out, &server) == 0
               ? 0
               : err_set(e, -ENOBUFS, "the API server has more than %d addresses",
                         RULESET_SERVERS_MAX);
}

static int look_up(const char *host, uint16_t port, struct ruleset *out, struct err *e)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char number[8];
    (void)snprintf(number, sizeof number, "%u", port);
    int failure = getaddrinfo(host, number, &hints, &found);
    if (failure != 0) {
        return err_set(e, -ENOENT, "cannot look up %s: %s", host, gai_strerror(failure));
    }
    int rc = 0;
    for (const struct addrinfo *i = found; i != NULL && rc == 0; i = i->ai_next) {
        rc = add(out, i->ai_addr, i->ai_addrlen, e);
    }
    freeaddrinfo(found);
    return rc;
}

static int find_one(const char *text, struct ruleset *out, struct err *e)
{
    char url[URL_HOST_MAX + 32];
    struct url server;
    int n = snprintf(url, sizeof url, "https://%s", text);
    if (n < 0 || (size_t)n >= sizeof url || url_parse(url, &server, e) != 0 ||
        server.path[0] != '\0') {
        return err_set(e, -EINVAL, "\"%.100s\" is not HOST:PORT", text);
    }
    return look_up(server.host, server.port, out, e);
}

static int find_own(struct ruleset *out, struct err *e)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    char text[URL_HOST_MAX + 16];
    if (host == NULL || port == NULL) {
        return err_set(e, -ENOENT,
                       "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: is this a "
                       "pod? --server names the API server");
    }
    (void)snprintf(text, sizeof text, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
    return find_one(text, out, e);
}

int servers_find(const struct flag_list *texts, struct ruleset *out, struct err *e)
{
    int rc = texts->count == 0 ? find_own(out, e) : 0;
    for (size_t i = 0; i < texts->count && rc == 0; i++) {
        rc = find_one(texts->items[i], out, e);
        if (rc != 0) {
            err_prefix(e, "--server");
        }
    }
    return rc;
}
