/* SPDX-License-Identifier: Apache-2.0 */
#include "ruleset.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "base/array.h"

#define TABLE "cmesh"

static uint16_t port_of(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;
    return ntohs(a->ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

static const char *text_of(const struct sockaddr_storage *a, char out[INET6_ADDRSTRLEN])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;
    const void *address =
        a->ss_family == AF_INET6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr;
    return inet_ntop(a->ss_family, address, out, INET6_ADDRSTRLEN);
}

static bool is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    char x[INET6_ADDRSTRLEN];
    char y[INET6_ADDRSTRLEN];
    return a->ss_family == b->ss_family && port_of(a) == port_of(b) &&
           strcmp(text_of(a, x), text_of(b, y)) == 0;
}

int ruleset_add(struct ruleset *r, const struct sockaddr_storage *server)
{
    for (size_t i = 0; i < r->server_count; i++) {
        if (is_same(&r->servers[i], server)) {
            return 0;
        }
    }
    if (r->server_count == RULESET_SERVERS_MAX) {
        return -ENOBUFS;
    }
    r->servers[r->server_count++] = *server;
    return 0;
}

/* `family`: AF_UNSPEC for all. */
static size_t count(const struct ruleset *r, int family)
{
    size_t n = 0;
    for (size_t i = 0; i < r->server_count; i++) {
        n += family == AF_UNSPEC || r->servers[i].ss_family == family;
    }
    return n;
}

static void write_rules(const struct ruleset *r, int family, struct buf *out)
{
    char text[INET6_ADDRSTRLEN];
    for (size_t i = 0; i < r->server_count; i++) {
        const struct sockaddr_storage *a = &r->servers[i];
        if (family == AF_UNSPEC || a->ss_family == family) {
            buf_printf(out, "\t\t%s daddr %s tcp dport %u redirect to :%u\n",
                       a->ss_family == AF_INET6 ? "ip6" : "ip", text_of(a, text), port_of(a),
                       r->to_port);
        }
    }
}

/* To make a table that may be there, and delete it, is how nftables says "if it is there". */
int ruleset_write_removal(const char *family, struct buf *out)
{
    return buf_printf(out, "table %s " TABLE "\ndelete table %s " TABLE "\n", family, family);
}

static void write_table(const struct ruleset *r, const char *name, int family, struct buf *out)
{
    if (count(r, family) == 0) {
        return;
    }
    buf_printf(out, "table %s " TABLE " {\n\tchain output {\n", name);
    buf_append_str(out, "\t\ttype nat hook output priority -100; policy accept;\n");
    buf_printf(out, "\t\tmeta skuid %u return\n", (unsigned)r->except_user);
    write_rules(r, family, out);
    buf_append_str(out, "\t}\n}\n");
}

int ruleset_write(const struct ruleset *r, struct buf *out)
{
    (void)buf_fail(out, ruleset_write_removal("inet", out));
    write_table(r, "inet", AF_UNSPEC, out);
    return buf_error(out);
}

int ruleset_write_by_family(const struct ruleset *r, struct buf *out)
{
    static const struct {
        const char *name;
        int family;
    } tables[] = {{"ip", AF_INET}, {"ip6", AF_INET6}};
    (void)buf_fail(out, ruleset_write_removal("inet", out));
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        if (count(r, tables[i].family) > 0) {
            (void)buf_fail(out, ruleset_write_removal(tables[i].name, out));
            write_table(r, tables[i].name, tables[i].family, out);
        }
    }
    return buf_error(out);
}
