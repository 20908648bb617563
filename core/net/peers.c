/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peers.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

/* What a key begins with. */
enum { KEY_OTHER, KEY_V4, KEY_V6 };

static void key_of(const struct sockaddr *addr, uint8_t key[9])
{
    memset(key, 0, 9);
    if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)addr;
        key[0] = KEY_V4;
        memcpy(key + 1, &v4->sin_addr, 4);
    } else if (addr->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(v6);
        key[0] = mapped ? KEY_V4 : KEY_V6;
        memcpy(key + 1, v6->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
    }
}

void net_peers_init(struct net_peers *p)
{
    list_init(&p->list);
}

void net_peers_deinit(struct net_peers *p)
{
    while (!list_empty(&p->list)) {
        list_remove(p->list.next);
    }
}

struct net_peer *net_peers_get(struct net_peers *p, const struct sockaddr *addr)
{
    uint8_t key[9];
    key_of(addr, key);
    LIST_FOR_EACH(node, &p->list)
    {
        struct net_peer *peer = LIST_ITEM(node, struct net_peer, link);
        if (memcmp(peer->key, key, sizeof key) == 0) {
            return net_peer_ref(peer);
        }
    }
    struct net_peer *peer = calloc(1, sizeof *peer);
    if (peer != NULL) {
        memcpy(peer->key, key, sizeof key);
        peer->refs = 1;
        peer->served = uv_hrtime();
        peer->due = peer->served;
        list_append(&p->list, &peer->link);
    }
    return peer;
}

struct net_peer *net_peer_ref(struct net_peer *p)
{
    p->refs++;
    return p;
}

void net_peer_unref(struct net_peer *p)
{
    if (p != NULL && --p->refs == 0) {
        list_remove(&p->link);
        free(p);
    }
}
