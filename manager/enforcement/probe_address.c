/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/probe_address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/array.h"
#include "net/address.h"

struct range {
    uint8_t first[16]; /* of an IPv4 address 4 bytes */
    unsigned bits;
};

/* https://www.iana.org/assignments/iana-ipv4-special-registry */
static const struct range refused4[] = {
    {{0}, 8},                   /* this network, unspecified */
    {{127}, 8},                 /* loopback */
    {{169, 254}, 16},           /* link-local: metadata services */
    {{224}, 4},                 /* multicast */
    {{255, 255, 255, 255}, 32}, /* broadcast; the rest of 240/4 some clouds give to pods */
};

/* https://www.iana.org/assignments/iana-ipv6-special-registry */
static const struct range refused6[] = {
    {{0}, 127},                     /* unspecified, loopback */
    {{0xfe, 0x80}, 10},             /* link-local */
    {{0xfe, 0xc0}, 10},             /* site-local, deprecated */
    {{0xff}, 8},                    /* multicast */
    {{0xfd, 0x00, 0x0e, 0xc2}, 32}, /* EC2's metadata service */
};

static bool is_in(const uint8_t *address, const struct range *r)
{
    size_t whole = r->bits / 8;
    unsigned rest = r->bits % 8;
    unsigned mask = 0xffu << (8 - rest) & 0xffu;
    return memcmp(address, r->first, whole) == 0 &&
           (rest == 0 || ((unsigned)(address[whole] ^ r->first[whole]) & mask) == 0);
}

static bool is_in_one(const uint8_t *address, const struct range *ranges, size_t count)
{
    size_t i = 0;
    while (i < count && !is_in(address, &ranges[i])) {
        i++;
    }
    return i < count;
}

static bool is_plausible4(const uint8_t *address)
{
    return !is_in_one(address, refused4, ARRAY_LEN(refused4));
}

static bool is_plausible6(const uint8_t *address)
{
    const uint8_t *carried = net_address_carried(address);
    return carried != NULL ? is_plausible4(carried)
                           : !is_in_one(address, refused6, ARRAY_LEN(refused6));
}

bool probe_address_is_plausible(const struct sockaddr_storage *address)
{
    const struct sockaddr *any = (const struct sockaddr *)address;
    if (any->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)any;
        uint8_t bytes[4];
        memcpy(bytes, &four->sin_addr, sizeof bytes);
        return is_plausible4(bytes);
    }
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)any;
    return any->sa_family == AF_INET6 && is_plausible6(six->sin6_addr.s6_addr);
}
