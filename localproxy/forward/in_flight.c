/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/in_flight.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "exchange/refusal.h"
#include "forward/forward_internal.h"
#include "http/client.h"

struct change {
    struct rules *old; /* NULL: there were none */
    struct rules *now;
    const char *why; /* for those who are told that nothing may be shown any more */
};

static struct forward *forward_of(struct list *link)
{
    return LIST_ITEM(link, struct forward, link);
}

/* Each once, whatever leaves meanwhile, or joins: what is asked again joins ctx->running anew. */
static void for_each(struct forward_context *ctx,
                     void (*apply)(struct forward *f, const struct change *c),
                     const struct change *c)
{
    struct list all;
    list_init(&all);
    while (!list_empty(&ctx->running)) {
        struct list *node = ctx->running.next;
        list_remove(node);
        list_append(&all, node);
    }
    while (!list_empty(&all)) {
        struct list *node = all.next;
        list_remove(node);
        list_append(&ctx->running, node);
        apply(forward_of(node), c); /* it may be gone after that */
    }
}

/* ---- the rules change ---- */

/* Whether it sees a collection, and another part of it than under the rules that it was asked
 * under.
 */
static bool is_affected(const struct forward *f, const struct rules *now)
{
    if (!f->concerned || (f->verb != VERB_LIST && f->verb != VERB_WATCH)) {
        return false;
    }
    if (f->watch != NULL) {
        return migration_affected(&f->migration, now);
    }
    return request_attributes_selector(&f->attributes, now) != f->attributes.key.selector;
}

/* Not answered yet: the operator does not notice. */
static void send_again(struct forward *f)
{
    struct forward_context *ctx = f->ctx;
    struct http_exchange *down = f->pump.down;
    struct http_head *head = f->head;
    bool whole = f->pump.request != REQUEST_COMING;
    struct passage passage;
    passage_move(&passage, f->pump.passage);
    f->pump.down = NULL;
    f->head = NULL;
    pump_abort_up(&f->pump);
    http_exchange_resume(down);
    forward_free(f);
    ctx->metrics->requests_repeated++;
    ctx->again(ctx->data, down, head, whole, &passage);
    free(head);
}

/* A watch migrates or is cut (watch/migration.h); what the API server has not begun to answer goes
 * through the rules again; the rest is broken off. */
static void change_rules(struct forward *f, const struct change *c)
{
    bool unanswered = f->pump.response == RESPONSE_AWAITED;
    if (f->pump.down == NULL || !is_affected(f, c->now)) {
        return; /* over already, or it does not notice */
    }
    if (f->watch != NULL) {
        bool ending = watch_state(f->watch) == WATCH_PASSING && f->pump.response == RESPONSE_ENDED;
        forward_stop_bookmark(f);
        if (!ending) { /* the end is on the way to the operator */
            migration_change_rules(&f->migration, c->old, c->now);
        }
    } else if (f->head != NULL && unanswered) {
        send_again(f);
    } else if (unanswered || f->pump.raw ||
               (f->list != NULL && f->pump.response != RESPONSE_ENDED)) {
        f->ctx->metrics->lists_broken_off++;
        forward_abort(f);
    }
}

static unsigned count_affected_watches(const struct forward_context *ctx, const struct rules *now)
{
    unsigned count = 0;
    LIST_FOR_EACH(node, &ctx->running)
    {
        const struct forward *f = forward_of(node);
        count += f->watch != NULL && is_affected(f, now) ? 1 : 0;
    }
    return count;
}

void in_flight_change_rules(struct forward_context *ctx, struct rules *old, struct rules *now,
                            const char *why)
{
    const struct change c = {.old = old, .now = now};
    forward_judge_writes(ctx, now);
    migration_context_change(&ctx->migrations, count_affected_watches(ctx, now), why);
    for_each(ctx, change_rules, &c);
    if (upstreams_lost_writes(&ctx->upstreams) == 0) {
        ctx->on_settled(ctx->data);
    }
}

/* ---- the rules are not valid any more ---- */

static void expire_unanswered(struct forward *f, const char *why)
{
    bool doubtful = f->pump.up != NULL && http_client_sent(f->pump.up) && !f->safe;
    pump_abort_up(&f->pump);
    net_deadline_clear(&f->overdue);
    pump_set_response(&f->pump, RESPONSE_ENDED);
    passage_end(f->pump.passage);
    http_exchange_resume(f->pump.down);
    if (!refusal_send(f->ctx->metrics, f->pump.down, f->verb, doubtful ? 504 : 503,
                      doubtful ? 0 : FORWARD_RETRY_AFTER_S, why)) {
        f->pump.down = NULL;
    }
}

/* What was not answered is answered with `why`, a watch ends with 410 Expired, what is being passed
 * on and tunnels are broken off. Of what the API server has not received yet it receives nothing.
 */
static void expire(struct forward *f, const struct change *c)
{
    if (!f->resource) {
        return;
    }
    if (f->pump.down != NULL && f->watch != NULL &&
        (f->pump.response != RESPONSE_ENDED || forward_is_silent(f))) {
        migration_end_now(&f->migration); /* it may be gone */
        return;
    }
    if (f->pump.down != NULL && f->pump.response == RESPONSE_AWAITED) {
        expire_unanswered(f, c->why);
    } else if (f->pump.response == RESPONSE_PASSING || f->pump.raw) {
        forward_abort(f);
        return;
    }
    pump_abort_up(&f->pump);
    pump_free_if_over(&f->pump);
}

void in_flight_expire(struct forward_context *ctx, const char *why)
{
    const struct change c = {.why = why};
    migration_context_change(&ctx->migrations, 0, why);
    for_each(ctx, expire, &c);
}

/* ---- the end ---- */

/* Ends a watch between two events, now or as soon as it can with context.draining. */
static void drain(struct forward *f)
{
    if (f->watch == NULL || f->pump.down == NULL) {
        return;
    }
    if (forward_is_silent(f)) {
        migration_cut(&f->migration);
    } else if (watch_state(f->watch) == WATCH_PASSING && f->pump.response != RESPONSE_ENDED &&
               watch_at_boundary(f->watch)) {
        forward_end_watch(f);
    }
}

void in_flight_drain(struct forward_context *ctx)
{
    ctx->draining = true;
    LIST_FOR_EACH_SAFE(node, after, &ctx->running)
    {
        drain(forward_of(node));
    }
}

/* ---- what they say of themselves ---- */

static void describe(const struct forward *f, cJSON *array)
{
    char text[256];
    cJSON *row = cJSON_CreateObject();
    const struct request_attributes *s = &f->attributes;
    (void)snprintf(text, sizeof text, "%.*s%s%.*s", (int)s->resource.len, s->resource.ptr,
                   s->group.len > 0 ? "." : "", (int)s->group.len, s->group.ptr);
    cJSON_AddStringToObject(row, "resource", text);
    (void)snprintf(text, sizeof text, "%.*s", (int)s->namespace.len, s->namespace.ptr);
    cJSON_AddStringToObject(row, "namespace", text);
    if (s->gateway.len > 0) {
        (void)snprintf(text, sizeof text, "/%.*s", (int)s->gateway.len, s->gateway.ptr);
        cJSON_AddStringToObject(row, "gateway", text);
    }
    cJSON_AddStringToObject(row, "state", migration_state_name(&f->migration));
    cJSON_AddBoolToObject(row, "limited", s->key.selector != 0);
    (void)snprintf(text, sizeof text, "%" PRIu64, watch_version(f->watch));
    cJSON_AddStringToObject(row, "resourceVersion", text);
    cJSON_AddItemToArray(array, row);
}

unsigned in_flight_describe_watches(const struct forward_context *ctx, cJSON *array)
{
    unsigned count = 0;
    if (array == NULL) {
        return 0; /* no memory */
    }
    LIST_FOR_EACH(node, &ctx->running)
    {
        const struct forward *f = forward_of(node);
        if (f->watch != NULL && count++ < IN_FLIGHT_DESCRIBED_MAX) {
            describe(f, array);
        }
    }
    return count;
}
