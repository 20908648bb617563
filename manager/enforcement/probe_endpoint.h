/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_endpoint.h - where a sidecar's admin server is asked: an address, and a client of it.
 */
#ifndef MANAGER_ENFORCEMENT_PROBE_ENDPOINT_H
#define MANAGER_ENFORCEMENT_PROBE_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "http/client.h"
#include "http/fetch.h"
#include "net/loop.h"

/* All zero: there is none. */
struct probe_endpoint {
    char *address;              /* NULL: there is none */
    struct http_client *client; /* NULL with it, or if nothing is asked there */
};

struct probe_endpoint_options {
    uint64_t timeout_ms; /* to connect, and to send */
    bool any;            /* whatever address and port; else only where a sidecar can be */
    unsigned usual_port; /* of that sidecar */
};

/* `address`: ADDR:PORT, or NULL. 0; -EINVAL: no IP and port. */
MUST_CHECK int probe_endpoint_init(struct probe_endpoint *e, struct net_loop *l,
                                   const char *address, const struct probe_endpoint_options *o);
/* Asks for its /status, of which 256 KiB are taken; as http_fetch_start. It has a client. */
MUST_CHECK struct http_fetch *probe_endpoint_ask(const struct probe_endpoint *e, struct net_loop *l,
                                                 uint64_t timeout_ms, http_fetch_cb cb, void *data,
                                                 struct err *why);
/* It is all zero then. */
void probe_endpoint_deinit(struct probe_endpoint *e);

/* `address` may be NULL. */
bool probe_endpoint_is_at(const struct probe_endpoint *e, const char *address);

#endif
