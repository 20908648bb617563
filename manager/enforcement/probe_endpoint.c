/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/probe_endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "control/status.h"
#include "enforcement/probe_address.h"
#include "net/address.h"

enum {
    IDLE_MS = 5000, /* a connection is kept while a pod is asked often, not in quiet times */
    ANSWER_MAX = 256 * 1024,
};

void probe_endpoint_deinit(struct probe_endpoint *e)
{
    http_client_free(e->client);
    free(e->address);
    *e = (struct probe_endpoint){0};
}

/* "[::1]:5441" to host and port. */
static int split_address(const char *address, struct sockaddr_storage *parsed,
                         char host[NET_ADDRESS_MAX], unsigned *port)
{
    const char *colon = strrchr(address, ':');
    if (net_address_parse(address, parsed, NULL) != 0 || colon == address) {
        return -EINVAL;
    }
    size_t brackets = address[0] == '[' ? 1 : 0;
    size_t len = (size_t)(colon - address) - 2 * brackets;
    *port = (unsigned)strtoul(colon + 1, NULL, 10);
    if (len >= NET_ADDRESS_MAX || *port == 0) {
        return -EINVAL;
    }
    memcpy(host, address + brackets, len);
    host[len] = '\0';
    return 0;
}

static struct http_client *new_client(struct net_loop *l, const char *host, unsigned port,
                                      uint64_t timeout_ms)
{
    const struct http_client_options o = {
        .host = host,
        .port = port,
        .connect_timeout_ms = timeout_ms,
        .idle_timeout_ms = IDLE_MS,
        .write_timeout_ms = timeout_ms,
        .user_timeout_ms = (unsigned)timeout_ms,
        .max_idle = 1,
    };
    return xptr(http_client_new(l, &o, NULL));
}

int probe_endpoint_init(struct probe_endpoint *e, struct net_loop *l, const char *address,
                        const struct probe_endpoint_options *o)
{
    struct sockaddr_storage parsed;
    char host[NET_ADDRESS_MAX];
    unsigned port = 0;
    *e = (struct probe_endpoint){0};
    int rc = address == NULL ? 0 : split_address(address, &parsed, host, &port);
    if (address == NULL || rc != 0) {
        return rc;
    }
    bool may = o->any || (port == o->usual_port && probe_address_is_plausible(&parsed));
    e->address = xstrdup(address);
    e->client = may ? new_client(l, host, port, o->timeout_ms) : NULL;
    return 0;
}

bool probe_endpoint_is_at(const struct probe_endpoint *e, const char *address)
{
    return e->address == NULL || address == NULL ? e->address == address
                                                 : strcmp(e->address, address) == 0;
}

struct http_fetch *probe_endpoint_ask(const struct probe_endpoint *e, struct net_loop *l,
                                      uint64_t timeout_ms, http_fetch_cb cb, void *data,
                                      struct err *why)
{
    const struct http_header headers[] = {
        {SLICE("Host"), slice_str(e->address)},
        {SLICE("User-Agent"), SLICE(CONTROL_MANAGER_AGENT CMESH_VERSION)},
    };
    const struct http_fetch_options o = {
        .via = http_client_requester(e->client),
        .method = SLICE("GET"),
        .target = SLICE("/status"),
        .headers = headers,
        .header_count = 2,
        .answer_max = ANSWER_MAX,
        .timeout_ms = timeout_ms,
    };
    return http_fetch_start(l, &o, cb, data, why);
}
