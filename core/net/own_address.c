/* SPDX-License-Identifier: Apache-2.0 */
#include "net/own_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "net/address.h"

static const struct sockaddr_in *v4(const struct sockaddr_storage *a)
{
    return (const struct sockaddr_in *)(const void *)a;
}

static const struct sockaddr_in6 *v6(const struct sockaddr_storage *a)
{
    return (const struct sockaddr_in6 *)(const void *)a;
}

static unsigned port_of(const struct sockaddr_storage *a)
{
    return ntohs(a->ss_family == AF_INET6 ? v6(a)->sin6_port : v4(a)->sin_port);
}

/* As the kernel maps them: an IPv4 address in IPv6 is the former. */
static struct sockaddr_storage unmapped(const struct sockaddr_storage *a)
{
    struct sockaddr_storage out = *a;
    if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6(a)->sin6_addr)) {
        struct sockaddr_in plain = {.sin_family = AF_INET, .sin_port = v6(a)->sin6_port};
        memcpy(&plain.sin_addr, &v6(a)->sin6_addr.s6_addr[12], sizeof plain.sin_addr);
        memset(&out, 0, sizeof out);
        memcpy(&out, &plain, sizeof plain);
    }
    return out;
}

static bool is_any(const struct sockaddr_storage *a)
{
    return a->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6(a)->sin6_addr)
                                    : v4(a)->sin_addr.s_addr == htonl(INADDR_ANY);
}

bool net_address_is_loopback(const struct sockaddr_storage *address)
{
    struct sockaddr_storage a = unmapped(address);
    return a.ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6(&a)->sin6_addr)
                                   : ntohl(v4(&a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family) {
        return false;
    }
    return a->ss_family == AF_INET6
               ? memcmp(&v6(a)->sin6_addr, &v6(b)->sin6_addr, sizeof(struct in6_addr)) == 0
               : v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr;
}

/* Only to an address of this machine can a socket be bound. */
static bool is_own(const struct sockaddr_storage *address)
{
    struct sockaddr_storage a = *address;
    bool six = a.ss_family == AF_INET6;
    int fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    if (six) {
        ((struct sockaddr_in6 *)(void *)&a)->sin6_port = 0;
    } else {
        ((struct sockaddr_in *)(void *)&a)->sin_port = 0;
    }
    int rc = bind(fd, (const struct sockaddr *)&a,
                  six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    (void)close(fd);
    return rc == 0;
}

/* Without regard to ports. Who connects to 0.0.0.0 or [::] reaches this machine's loopback. */
static bool reaches(const struct sockaddr_storage *to, const struct sockaddr_storage *listen)
{
    struct sockaddr_storage a = unmapped(to);
    struct sockaddr_storage b = unmapped(listen);
    if (is_any(&b)) {
        return (a.ss_family == b.ss_family || b.ss_family == AF_INET6) && is_own(&a);
    }
    return same_host(&a, &b) || (is_any(&a) && net_address_is_loopback(&b));
}

bool net_address_leads_to(const char *host, unsigned port, const struct sockaddr_storage *listen)
{
    struct sockaddr_storage literal;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool leads = false;
    if (port == 0 || port_of(listen) != port) {
        return false;
    }
    if (net_address_literal(host, port, &literal) == 0) {
        return reaches(&literal, listen);
    }
    if (getaddrinfo(host, NULL, &hints, &found) != 0) {
        return false;
    }
    for (const struct addrinfo *i = found; i != NULL && !leads; i = i->ai_next) {
        struct sockaddr_storage a = {0};
        if (i->ai_family == AF_INET || i->ai_family == AF_INET6) {
            memcpy(&a, i->ai_addr, i->ai_addrlen);
            leads = reaches(&a, listen);
        }
    }
    freeaddrinfo(found);
    return leads;
}
