/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/array.h"

int net_address_literal(const char *host, unsigned port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return 0;
    }
    return uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)out);
}

static int parse_port(const char *text, unsigned *port)
{
    char *end = NULL;
    unsigned long n = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || n > 65535) {
        return -EINVAL;
    }
    *port = (unsigned)n;
    return 0;
}

int net_address_parse(const char *text, struct sockaddr_storage *out, struct err *e)
{
    const char *colon = strrchr(text, ':');
    unsigned port = 0;
    if (colon == NULL || parse_port(colon + 1, &port) != 0) {
        return err_set(e, -EINVAL, "\"%s\" is not ADDR:PORT, as in 127.0.0.1:5443 or [::1]:5443",
                       text);
    }
    char host[64];
    size_t len = (size_t)(colon - text);
    const char *start = text;
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        start++;
        len -= 2;
    }
    if (len >= sizeof host) {
        return err_set(e, -EINVAL, "\"%s\" is not an IP address", text);
    }
    memcpy(host, start, len);
    host[len] = '\0';
    if (net_address_literal(len == 0 ? "::" : host, port, out) != 0) {
        return err_set(e, -EINVAL, "\"%s\" is not an IP address; names are not looked up here",
                       host);
    }
    return 0;
}

int net_address_check(const char *text, struct err *e)
{
    struct sockaddr_storage ignored;
    return net_address_parse(text, &ignored, e);
}

/* IPv6 addresses that carry an IPv4 one: by which bits in front, and where. */
static const struct carrier {
    uint8_t prefix[12];
    unsigned bytes;
    unsigned at;
} carriers[] = {
    {{[10] = 0xff, [11] = 0xff}, 12, 12}, /* mapped */
    {{[8] = 0xff, [9] = 0xff}, 12, 12},   /* translated */
    {{0}, 12, 12},                        /* compatible */
    {{0x00, 0x64, 0xff, 0x9b}, 12, 12},   /* NAT64 */
    {{0x20, 0x02}, 2, 2},                 /* 6to4 */
};

const uint8_t *net_address_carried(const uint8_t ipv6[16])
{
    static const uint8_t zeros[15];
    if (memcmp(ipv6, zeros, sizeof zeros) == 0 && ipv6[15] <= 1) {
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(carriers); i++) {
        if (memcmp(ipv6, carriers[i].prefix, carriers[i].bytes) == 0) {
            return ipv6 + carriers[i].at;
        }
    }
    return NULL;
}

struct slice net_address_plain_host(struct slice host, char room[INET_ADDRSTRLEN])
{
    char text[INET6_ADDRSTRLEN];
    uint8_t ipv6[16];
    if (host.len >= sizeof text || host.len == 0 || memchr(host.ptr, ':', host.len) == NULL) {
        return host;
    }
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    const uint8_t *ipv4 = inet_pton(AF_INET6, text, ipv6) == 1 ? net_address_carried(ipv6) : NULL;
    return ipv4 != NULL && inet_ntop(AF_INET, ipv4, room, INET_ADDRSTRLEN) != NULL ? slice_str(room)
                                                                                   : host;
}

void net_address_format(const struct sockaddr *addr, char out[NET_ADDRESS_MAX])
{
    char host[64] = "?";
    unsigned port = 0;
    (void)uv_ip_name(addr, host, sizeof host);
    if (addr->sa_family == AF_INET6) {
        port = ntohs(((const struct sockaddr_in6 *)(const void *)addr)->sin6_port);
        (void)snprintf(out, NET_ADDRESS_MAX, "[%s]:%u", host, port);
    } else {
        port = ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port);
        (void)snprintf(out, NET_ADDRESS_MAX, "%s:%u", host, port);
    }
}
