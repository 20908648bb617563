/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial_gate.h"

#include "base/ensure.h"
#include "net/stream_internal.h"

void net_dial_gate_init(struct net_dial_gate *g,
                        bool (*allows)(void *data, const struct sockaddr *address), void *data,
                        unsigned lookups_max)
{
    ensure(lookups_max > 0);
    *g = (struct net_dial_gate){.allows = allows, .data = data, .lookups_max = lookups_max};
    list_init(&g->looking_up);
    list_init(&g->waiting);
}

void net_dial_gate_deinit(struct net_dial_gate *g)
{
    ensure(list_empty(&g->waiting));
    while (!list_empty(&g->looking_up)) {
        struct dial *d = LIST_ITEM(g->looking_up.next, struct dial, in_gate);
        list_remove(&d->in_gate);
        d->gate = NULL;
    }
}

bool dial_gate_has_room(const struct net_dial_gate *g)
{
    return g == NULL || g->lookups < g->lookups_max;
}

void dial_gate_wait(struct dial *d)
{
    list_append(&d->gate->waiting, &d->in_gate);
}

void dial_gate_enter(struct dial *d)
{
    if (d->gate != NULL) {
        d->gate->lookups++;
        list_append(&d->gate->looking_up, &d->in_gate);
    }
}

void dial_gate_leave(struct dial *d)
{
    if (d->gate != NULL) {
        d->gate->lookups--;
        list_remove(&d->in_gate);
    }
}

struct dial *dial_gate_next(struct net_dial_gate *g)
{
    if (g == NULL || list_empty(&g->waiting) || !dial_gate_has_room(g)) {
        return NULL;
    }
    struct dial *d = LIST_ITEM(g->waiting.next, struct dial, in_gate);
    list_remove(&d->in_gate);
    return d;
}

bool dial_gate_allows(const struct dial *d, const struct sockaddr *address)
{
    return d->gate == NULL || d->gate->allows == NULL || d->gate->allows(d->gate->data, address);
}

void dial_gate_drop_refused(struct dial *d)
{
    struct addrinfo **at = &d->found;
    while (*at != NULL) {
        struct addrinfo *a = *at;
        if (dial_gate_allows(d, a->ai_addr)) {
            at = &a->ai_next;
        } else {
            *at = a->ai_next;
            a->ai_next = NULL;
            uv_freeaddrinfo(a); /* POSIX: any part of the list */
        }
    }
}
