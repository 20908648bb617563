/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/body_budget.h"

#include <stddef.h>

void body_budget_init(struct body_budget *b, uint64_t max)
{
    *b = (struct body_budget){.max = max};
    list_init(&b->coming);
}

void body_share_open(struct body_share *s, struct body_budget *b, struct net_peer *peer)
{
    *s = (struct body_share){.budget = b, .peer = net_peer_ref(peer)};
    list_append(&b->coming, &s->link);
}

void body_share_grow(struct body_share *s, uint64_t bytes)
{
    uint64_t more = bytes - s->bytes;
    s->bytes = bytes;
    s->peer->bytes += more;
    s->budget->held += more;
}

void body_share_complete(struct body_share *s)
{
    list_remove(&s->link);
}

void body_share_close(struct body_share *s)
{
    list_remove(&s->link);
    s->peer->bytes -= s->bytes;
    s->budget->held -= s->bytes;
    net_peer_unref(s->peer);
    s->peer = NULL;
}

struct body_share *body_budget_excess(const struct body_budget *b)
{
    struct body_share *found = NULL;
    if (b->held <= b->max) {
        return NULL;
    }
    LIST_FOR_EACH(node, &b->coming)
    {
        struct body_share *s = LIST_ITEM(node, struct body_share, link);
        if (s->bytes > 0 && (found == NULL || s->peer->bytes > found->peer->bytes)) {
            found = s;
        }
    }
    return found;
}
