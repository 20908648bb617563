/* SPDX-License-Identifier: Apache-2.0 */
#include "in_flight.h"

static unsigned count_affected_watches(const struct forward_context *ctx, const struct rules *now)
{
    unsigned count = 0;
    LIST_FOR_EACH(node, &ctx->running)
    {
        const struct forward *f = forward_of(node);
        count += forward_is_watch(f) && forward_affected(f, now) ? 1 : 0;
    }
    return count;
}

/* All that run, so that each is come to once, whatever joins or leaves meanwhile. */
static void take_running(struct forward_context *ctx, struct list *all)
{
    list_init(all);
    while (!list_empty(&ctx->running)) {
        struct list *node = ctx->running.next;
        list_remove(node);
        list_append(all, node);
    }
}

static void change_each(struct forward_context *ctx, struct rules *old, struct rules *now)
{
    struct list all;
    take_running(ctx, &all); /* what is asked again joins ctx->running anew */
    while (!list_empty(&all)) {
        struct list *node = all.next;
        list_remove(node);
        list_append(&ctx->running, node);
        if (forward_affected(forward_of(node), now)) {
            forward_change_rules(forward_of(node), old, now);
        }
    }
}

void in_flight_change_rules(struct forward_context *ctx, struct rules *old, struct rules *now,
                            const char *why)
{
    forward_judge_writes(ctx, now);
    migration_context_change(&ctx->migrations, count_affected_watches(ctx, now), why);
    change_each(ctx, old, now);
    if (pending_writes_lost(&ctx->writes) == 0) {
        ctx->on_settled(ctx->data);
    }
}

void in_flight_expire(struct forward_context *ctx, const char *why)
{
    struct list all;
    migration_context_change(&ctx->migrations, 0, why);
    take_running(ctx, &all);
    while (!list_empty(&all)) {
        struct list *node = all.next;
        list_remove(node);
        list_append(&ctx->running, node);
        forward_expire(forward_of(node), why);
    }
}

void in_flight_drain(struct forward_context *ctx)
{
    ctx->draining = true;
    for (struct list *node = ctx->running.next, *next; node != &ctx->running; node = next) {
        next = node->next;
        forward_drain(forward_of(node));
    }
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
        if (forward_is_watch(f) && count++ < IN_FLIGHT_DESCRIBED_MAX) {
            forward_describe(f, array);
        }
    }
    return count;
}
