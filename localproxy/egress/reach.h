/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.h - which addresses requests of the operator may be sent to: not to this machine, the link,
 * nor what clouds tell about a machine's credentials, unless a rule names the address; and never to
 * localproxy itself or to the API server, where they would go around its rules.
 *
 * This machine is what only it can reach: its loopback. Its other addresses are like those of any
 * other, but for the ports on which localproxy listens.
 *
 * What a name leads to is judged when it is connected to. What another proxy looks up is not seen.
 * An API server whose URL has a name is known by that name alone, beside those that clients in a
 * pod use.
 */
#ifndef LOCALPROXY_EGRESS_REACH_H
#define LOCALPROXY_EGRESS_REACH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/url.h"
#include "egress/destination.h"
#include "net/dial_gate.h"
#include "traffic/policies.h"

enum { REACH_OWN_MAX = 24, REACH_LOOKUPS_MAX = 6 };

struct reach_options {
    const struct url *server;       /* the API server's */
    const char *own[REACH_OWN_MAX]; /* ADDR:PORT where localproxy itself listens, as listeners tell
                                       it; ends with NULL, or when it is full */
};

struct reach;

/* `policies` NULL: there are none; they must outlive it. NULL without memory. Reads
 * KUBERNETES_SERVICE_HOST and _PORT, and resolv.conf(5), for the names of the API server. */
MUST_CHECK struct reach *reach_new(const struct reach_options *o, const struct policies *policies);
/* One more of `own`, that was not known before; no more than REACH_OWN_MAX count. */
void reach_add_own(struct reach *r, const char *address);
/* NULL is ignored. */
void reach_free(struct reach *r);

/* Whether the destination, by what is written there, may be reached at all: not if it is the API
 * server by one of its names, localproxy itself, or a protected address that no rule names. `q` as
 * destination_describe has it. 0, or -EACCES with `e` saying why, and what to do. */
MUST_CHECK int reach_check(const struct reach *r, const struct destination *t,
                           const struct traffic_external *q, struct err *e);

/* Whether that address is one that is only reached by name of a rule. Addresses of IPv4 in IPv6
 * count as what they carry (net_address_carried), for rules too; Teredo
 * and NAT64 by a prefix of one's own can carry any, and are protected. */
bool reach_is_protected(const struct sockaddr *address);

/* What all dialling to destinations must pass; streams that use it are closed before `r` is freed.
 */
struct net_dial_gate *reach_gate(struct reach *r);
/* Of an error with which such dialling ended: where the gate refused, says what to do. */
void reach_explain(struct err *e);

#endif
