/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "base/log.h"
#include "forward/forward_internal.h"
#include "http/client.h"

enum { LOST_COMING_MS = 5000 /* how long a write to what was lost may still come */ };

void forward_write_begin(struct forward *f)
{
    if (f->concerned && request_verb_is_write(f->attributes.verb)) {
        pending_writes_begin(&f->upstream->writes, &f->asking->write, &f->attributes);
    }
}

void forward_write_end(struct forward *f)
{
    if (f->asking != NULL) {
        net_deadline_clear(&f->asking->lost_due);
        pending_writes_end(&f->upstream->writes, &f->asking->write);
    }
}

void forward_write_leave(struct forward *f, const struct http_exchange *x)
{
    struct asking *a = f->asking;
    if (a == NULL || !pending_write_is_under_way(&a->write)) {
        return;
    }
    if (http_client_sent(x) && f->pump.request != REQUEST_COMING &&
        f->pump.response == RESPONSE_AWAITED) {
        net_deadline_clear(&a->lost_due);
        pending_writes_give_up(&f->upstream->writes, &a->write, &f->attributes,
                               http_client_on_its_way(x));
        f->attributes = (struct request_attributes){.verb = f->attributes.verb};
        f->concerned = false;
        f->pump.about = f->attributes.resource;
    } else {
        forward_write_end(f);
    }
}

/* ---- what it writes was lost ---- */

void forward_write_on_lost(struct pending_write *w)
{
    struct asking *a = LIST_ITEM(w, struct asking, write);
    net_deadline_set(a->forward->ctx->loop, &a->lost_due, LOST_COMING_MS);
}

/* It must have come by now, or be over: the API server works on no request for longer. What was
 * refused and waits to be sent again is not sent any more. */
static void on_lost_due(struct net_deadline *d)
{
    struct forward *f = LIST_ITEM(d, struct asking, lost_due)->forward;
    const struct http_exchange *up = f->pump.up;
    uint64_t now = net_clock_now(f->upstream->writes.clock);
    uint64_t over = pending_write_over_ms(&f->asking->write);
    bool waits = up != NULL && !http_client_sent(up);
    if (f->pump.request == REQUEST_PASSED && !waits && now < over) {
        net_deadline_set(f->ctx->loop, d, over - now);
        return;
    }
    log_warn("breaking off a write to what the shard has lost: it takes too long",
             log_strn("namespace", f->attributes.namespace.ptr, f->attributes.namespace.len),
             log_strn("resource", f->attributes.resource.ptr, f->attributes.resource.len));
    bool on_its_way = up != NULL && http_client_on_its_way(up);
    struct kube_client *client = f->upstream->client;
    forward_abort(f);
    if (on_its_way) {
        kube_client_break_off(client);
    }
}

void forward_write_init(struct forward *f)
{
    net_deadline_init(&f->asking->lost_due, on_lost_due);
    list_init(&f->asking->write.link);
}

struct judgement {
    const struct forward_context *ctx;
    const struct rules *now;
};

/* Whether such a write would be refused now. */
static bool is_refused_now(void *data, const struct request_attributes *a)
{
    const struct judgement *j = data;
    struct request_info ri;
    request_attributes_to_request_info(a, &ri);
    return j->ctx->fences(j->ctx->data, &ri) ||
           (a->verb == VERB_DELETECOLLECTION &&
            request_attributes_selector(a, j->now) != a->key.selector);
}

void forward_judge_writes(struct forward_context *ctx, const struct rules *now)
{
    struct judgement j = {ctx, now};
    uint64_t hash = hash_slice(HASH_SEED, slice_str(rules_checksum(now)));
    LIST_FOR_EACH(node, &ctx->upstreams)
    {
        struct upstream *u = LIST_ITEM(node, struct upstream, link);
        pending_writes_judge(&u->writes, hash, is_refused_now, &j);
    }
}
