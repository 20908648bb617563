/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends how much of which body to the webhooks: each two bytes are a body (4 bits), what
 * happens to it (2 bits: it begins, more comes, it is complete, it ends), and whose it is or how
 * much comes. After each the budget is kept, unless all that is held is complete; who has to go
 * holds most of all, and is the first of his.
 */
#include "check.h"
#include "webhook/body_budget.h"

enum { BODIES = 16, PEERS = 4, MAX = 1000 };

enum phase { NONE, COMING, COMPLETE };

struct body {
    struct body_share share;
    enum phase phase;
    unsigned long begun;
};

struct scene {
    struct body_budget budget;
    struct net_peer peers[PEERS];
    struct body bodies[BODIES];
    unsigned long clock;
};

static void end(struct body *b)
{
    body_share_close(&b->share);
    b->phase = NONE;
}

static struct body *body_of(struct scene *t, const struct body_share *share)
{
    for (size_t i = 0; i < BODIES; i++) {
        if (&t->bodies[i].share == share) {
            return &t->bodies[i];
        }
    }
    return NULL;
}

/* No body that could go has a peer that holds more, or is older and of the same one. */
static void check_choice(const struct scene *t, const struct body *gone)
{
    CHECK(gone != NULL && gone->phase == COMING && gone->share.bytes > 0);
    for (size_t i = 0; i < BODIES; i++) {
        const struct body *b = &t->bodies[i];
        if (b->phase != COMING || b->share.bytes == 0) {
            continue;
        }
        CHECK(b->share.peer->bytes <= gone->share.peer->bytes);
        CHECK(b->share.peer != gone->share.peer || b->begun >= gone->begun);
    }
}

static void keep_budget(struct scene *t)
{
    struct body_share *excess = body_budget_excess(&t->budget);
    while (excess != NULL) {
        struct body *gone = body_of(t, excess);
        check_choice(t, gone);
        end(gone);
        excess = body_budget_excess(&t->budget);
    }
}

static void check_sums(const struct scene *t)
{
    uint64_t held = 0;
    uint64_t complete = 0;
    uint64_t of[PEERS] = {0};
    for (size_t i = 0; i < BODIES; i++) {
        const struct body *b = &t->bodies[i];
        if (b->phase != NONE) {
            held += b->share.bytes;
            complete += b->phase == COMPLETE ? b->share.bytes : 0;
            of[b->share.peer - t->peers] += b->share.bytes;
        }
    }
    CHECK(held == t->budget.held);
    CHECK(held <= MAX || held == complete);
    for (size_t i = 0; i < PEERS; i++) {
        CHECK(of[i] == t->peers[i].bytes);
    }
}

static void act(struct scene *t, struct body *b, unsigned what, unsigned char value)
{
    if (what == 0 && b->phase == NONE) {
        body_share_open(&b->share, &t->budget, &t->peers[value % PEERS]);
        b->phase = COMING;
        b->begun = t->clock++;
    } else if (what == 1 && b->phase == COMING) {
        body_share_grow(&b->share, b->share.bytes + value);
    } else if (what == 2 && b->phase == COMING) {
        body_share_complete(&b->share);
        b->phase = COMPLETE;
    } else if (what == 3 && b->phase != NONE) {
        end(b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene t = {.clock = 0};
    body_budget_init(&t.budget, MAX);
    for (size_t i = 0; i < PEERS; i++) {
        t.peers[i].refs = 1;
        list_init(&t.peers[i].link);
    }
    for (size_t i = 0; i + 2 <= size; i += 2) {
        act(&t, &t.bodies[data[i] % BODIES], data[i] / BODIES % 4, data[i + 1]);
        keep_budget(&t);
        check_sums(&t);
    }
    for (size_t i = 0; i < BODIES; i++) {
        if (t.bodies[i].phase != NONE) {
            end(&t.bodies[i]);
        }
    }
    CHECK(t.budget.held == 0 && list_empty(&t.budget.coming));
    for (size_t i = 0; i < PEERS; i++) {
        CHECK(t.peers[i].refs == 1 && t.peers[i].bytes == 0);
    }
    return 0;
}
