/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "listen/api_server_names.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/own_address.h"

enum { API_SERVERS = 2 };

/* Where an API server is. */
struct api_server {
    char host[URL_HOST_MAX + 1]; /* in lower case; "": there is none */
    unsigned port;
    struct sockaddr_storage address; /* AF_UNSPEC where the host is a name */
};

struct reach {
    struct net_dial_gate gate;
    const struct policies *policies;
    struct sockaddr_storage own[REACH_OWN_MAX];
    size_t own_count;
    struct api_server servers[API_SERVERS];
    struct api_server_names names; /* of the API server, with any port */
};

/* ---- addresses ---- */

/* An IPv4 address has `len` 4. */
struct ip {
    unsigned char bytes[16];
    size_t len;
    unsigned port;
};

struct range {
    unsigned char bytes[16];
    unsigned bits;
};

static const struct range protected_v4[] = {
    {{0}, 8},                   /* this network: connections go to the loopback */
    {{127}, 8},                 /* loopback */
    {{169, 254}, 16},           /* link-local, and the metadata of most clouds */
    {{100, 100, 100, 200}, 32}, /* metadata of Alibaba Cloud */
    {{168, 63, 129, 16}, 32},   /* what Azure tells its machines */
    {{192, 0, 0, 192}, 32},     /* metadata of Oracle Cloud */
    {{224}, 4},                 /* multicast */
    {{255, 255, 255, 255}, 32}, /* broadcast */
};

static const struct range protected_v6[] = {
    {{0}, 128},                                                /* unspecified */
    {{[15] = 1}, 128},                                         /* loopback */
    {{0xfe, 0x80}, 10},                                        /* link-local */
    {{0xff}, 8},                                               /* multicast */
    {{0xfd, 0x00, 0x0e, 0xc2}, 32},                            /* metadata of AWS, and the like */
    {{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54}, 128}, /* metadata of Google Cloud */
    {{0x20, 0x01}, 32},                                        /* Teredo */
    {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48},                /* NAT64 by a prefix of one's own */
};

static bool in_range(const unsigned char *bytes, const struct range *r)
{
    unsigned whole = r->bits / 8;
    unsigned rest = r->bits % 8;
    if (memcmp(bytes, r->bytes, whole) != 0) {
        return false;
    }
    return rest == 0 || (bytes[whole] ^ r->bytes[whole]) >> (8 - rest) == 0;
}

static bool in_any(const unsigned char *bytes, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (in_range(bytes, &ranges[i])) {
            return true;
        }
    }
    return false;
}

/* Neither IPv4 nor IPv6: `len` is 0. */
static struct ip ip_of(const struct sockaddr *address)
{
    struct ip ip = {.len = 0};
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        memcpy(ip.bytes, &in.sin_addr, 4);
        ip.len = 4;
        ip.port = ntohs(in.sin_port);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        memcpy(ip.bytes, &in6.sin6_addr, 16);
        ip.len = 16;
        ip.port = ntohs(in6.sin6_port);
        const uint8_t *carried = net_address_carried(ip.bytes);
        if (carried != NULL) {
            memmove(ip.bytes, carried, 4);
            ip.len = 4;
        }
    }
    return ip;
}

static bool same_ip(const struct ip *a, const struct ip *b)
{
    return a->len > 0 && a->len == b->len && a->port == b->port &&
           memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool is_protected(const struct ip *ip)
{
    switch (ip->len) {
    case 4:
        return in_any(ip->bytes, protected_v4, ARRAY_LEN(protected_v4));
    case 16:
        return in_any(ip->bytes, protected_v6, ARRAY_LEN(protected_v6));
    default:
        return true;
    }
}

bool reach_is_protected(const struct sockaddr *address)
{
    struct ip ip = ip_of(address);
    return is_protected(&ip);
}

/* ---- what an address is ---- */

enum place { PLACE_FREE, PLACE_PROTECTED, PLACE_LOCALPROXY, PLACE_API_SERVER };

static bool is_own(const struct reach *r, const struct ip *ip, const char *host)
{
    for (size_t i = 0; i < r->own_count; i++) {
        if (net_address_leads_to(host, ip->port, &r->own[i])) {
            return true;
        }
    }
    return false;
}

static bool is_api_server(const struct reach *r, const struct ip *ip)
{
    for (size_t i = 0; i < API_SERVERS; i++) {
        struct ip server = ip_of((const struct sockaddr *)&r->servers[i].address);
        if (same_ip(ip, &server)) {
            return true;
        }
    }
    return false;
}

static enum place place_of(const struct reach *r, const struct sockaddr *address)
{
    struct ip ip = ip_of(address);
    char host[INET6_ADDRSTRLEN] = "";
    if (ip.len == 0) {
        return PLACE_PROTECTED;
    }
    (void)inet_ntop(ip.len == 4 ? AF_INET : AF_INET6, ip.bytes, host, sizeof host);
    if (is_api_server(r, &ip)) {
        return PLACE_API_SERVER;
    }
    if (is_own(r, &ip, host)) {
        return PLACE_LOCALPROXY;
    }
    if (!is_protected(&ip)) {
        return PLACE_FREE;
    }
    bool named =
        r->policies != NULL && policies_name_address(r->policies, slice_str(host), ip.port);
    return named ? PLACE_FREE : PLACE_PROTECTED;
}

static bool allows(void *data, const struct sockaddr *address)
{
    return place_of(data, address) == PLACE_FREE;
}

/* ---- what a destination is ---- */

static enum place place_of_name(const struct reach *r, struct slice host, unsigned port)
{
    for (size_t i = 0; i < r->names.count; i++) {
        if (slice_ieq(host, slice_str(r->names.names[i]))) {
            return PLACE_API_SERVER;
        }
    }
    for (size_t i = 0; i < API_SERVERS; i++) {
        if (port == r->servers[i].port && slice_ieq(host, slice_str(r->servers[i].host))) {
            return PLACE_API_SERVER;
        }
    }
    return PLACE_FREE;
}

static enum place place_of_destination(const struct reach *r, const struct destination *t,
                                       const struct traffic_external *q)
{
    struct sockaddr_storage address;
    if (!t->literal) {
        return place_of_name(r, q->host, q->port);
    }
    if (net_address_literal(t->host, t->port, &address) != 0) {
        return PLACE_PROTECTED;
    }
    return place_of(r, (const struct sockaddr *)&address);
}

int reach_check(const struct reach *r, const struct destination *t,
                const struct traffic_external *q, struct err *e)
{
    char at[DESTINATION_HOST_PORT_SIZE];
    destination_host_port(t, false, at);
    switch (place_of_destination(r, t, q)) {
    case PLACE_FREE:
        return 0;
    case PLACE_API_SERVER:
        return err_set(e, -EACCES,
                       "%s is the API server, which is reached through localproxy's --listen only: "
                       "put it into NO_PROXY",
                       at);
    case PLACE_LOCALPROXY:
        return err_set(e, -EACCES, "%s is localproxy itself: put it into NO_PROXY", at);
    case PLACE_PROTECTED:
        break;
    }
    return err_set(e, -EACCES,
                   "%s is an address of this machine, of its link or of a cloud's metadata, which "
                   "is reached only if a Whitelist rule names it; or put it into NO_PROXY",
                   at);
}

void reach_explain(struct err *e)
{
    if (e->code == NET_DIAL_FORBIDDEN) {
        struct err why = *e;
        err_set(
            e, why.code,
            "%.256s; addresses of this machine, of its link and of a cloud's metadata are reached "
            "only if a Whitelist rule names them, localproxy and the API server never",
            why.msg);
    }
}

/* ---- life cycle ---- */

static void add_server(struct api_server *s, const char *host, unsigned port)
{
    size_t len = strlen(host);
    len -= len > 1 && host[len - 1] == '.' ? 1 : 0;
    if (len > URL_HOST_MAX) {
        return;
    }
    memcpy(s->host, host, len);
    s->host[len] = '\0';
    s->port = port;
    if (net_address_literal(s->host, port, &s->address) != 0) {
        memset(&s->address, 0, sizeof s->address);
    }
}

/* What is no number is the port that the Service always has. */
static unsigned service_port(void)
{
    const char *text = getenv("KUBERNETES_SERVICE_PORT");
    char *end = NULL;
    unsigned long port = text != NULL ? strtoul(text, &end, 10) : 0;
    return end != NULL && *end == '\0' && port > 0 && port <= 65535 ? (unsigned)port : 443;
}

void reach_add_own(struct reach *r, const char *address)
{
    if (r->own_count < REACH_OWN_MAX &&
        net_address_parse(address, &r->own[r->own_count], NULL) == 0) {
        r->own_count++;
    }
}

struct reach *reach_new(const struct reach_options *o, const struct policies *policies)
{
    struct reach *r = calloc(1, sizeof *r);
    const char *service = getenv("KUBERNETES_SERVICE_HOST");
    if (r == NULL) {
        return NULL;
    }
    net_dial_gate_init(&r->gate, allows, r, REACH_LOOKUPS_MAX);
    r->policies = policies;
    for (size_t i = 0; i < REACH_OWN_MAX && o->own[i] != NULL; i++) {
        reach_add_own(r, o->own[i]);
    }
    add_server(&r->servers[0], o->server->host, o->server->port);
    if (service != NULL) {
        add_server(&r->servers[1], service, service_port());
    }
    api_server_names_read(NULL, &r->names);
    return r;
}

void reach_free(struct reach *r)
{
    if (r != NULL) {
        net_dial_gate_deinit(&r->gate);
        free(r);
    }
}

struct net_dial_gate *reach_gate(struct reach *r)
{
    return &r->gate;
}
