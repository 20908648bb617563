/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ruleset.h - the rules of nftables that redirect connections to the API server, as text.
 *
 * They are in tables of their own, all named "cmesh"; each text is one transaction, and nothing of
 * others is looked at or touched. Kernels from 5.2 on have nat in tables for both families; older
 * ones need a table for each.
 *
 * https://wiki.nftables.org/wiki-nftables/index.php/Performing_Network_Address_Translation_(NAT)
 */
#ifndef NAT_INIT_RULESET_H
#define NAT_INIT_RULESET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"

/* Of one pod: there are two at most, one of each family, and some that are given beside them. */
enum { RULESET_SERVERS_MAX = 64 };

struct ruleset {
    struct sockaddr_storage servers[RULESET_SERVERS_MAX]; /* IPv4 and IPv6, with ports */
    size_t server_count;
    uint16_t to_port;     /* of this machine, where localproxy listens */
    uint32_t except_user; /* whose connections go where they are meant to */
};

/* One more, unless it is there. 0, or -ENOBUFS. */
MUST_CHECK int ruleset_add(struct ruleset *r, const struct sockaddr_storage *server);

/* Both append a transaction, which replaces what an earlier one made. 0 or -ENOMEM. */
MUST_CHECK int ruleset_write(const struct ruleset *r, struct buf *out);
MUST_CHECK int ruleset_write_by_family(const struct ruleset *r, struct buf *out);

/* That there is none in such a table: "inet", "ip" or "ip6". */
MUST_CHECK int ruleset_write_removal(const char *family, struct buf *out);

#endif
