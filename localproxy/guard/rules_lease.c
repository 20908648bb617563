/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/rules_lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/state_machine.h"
#include "net/timer.h"

/* Timers stand still while the machine sleeps, and the clock does not: it is looked at this often.
 */
enum { LOOK_MS = 1000 };

enum state { EXPIRED, VALID };

static const struct state_machine machine = {
    .object = "lease on the rules",
    .states = {[EXPIRED] = {"Expired", STATE(VALID)}, [VALID] = {"Valid", STATE(EXPIRED)}},
};

struct rules_lease {
    const struct net_clock *clock;
    struct net_timer *timer;
    uint64_t seconds;
    uint64_t until_ms; /* VALID: by the clock */
    enum state state;
    uint64_t expirations;
    char why[ERR_MSG_MAX];
    struct {
        rules_lease_cb cb; /* NULL: nobody */
        void *data;
    } listeners[RULES_LEASE_LISTENERS];
};

static void set_state(struct rules_lease *r, enum state next)
{
    r->state = state_change(&machine, r->state, next, (struct slice){0});
}

static void expire(struct rules_lease *r)
{
    set_state(r, EXPIRED);
    r->expirations++;
    log_warn("the lease on the rules has expired: nothing is shown until it can be renewed",
             log_num("seconds", (int64_t)r->seconds), log_str("reason", r->why));
    for (size_t i = 0; i < RULES_LEASE_LISTENERS; i++) {
        if (r->listeners[i].cb != NULL) {
            r->listeners[i].cb(r->listeners[i].data);
        }
    }
}

static void set_timer(struct rules_lease *r, uint64_t now)
{
    uint64_t left = r->until_ms - now;
    net_clock_set_timer(r->clock, r->timer, left < LOOK_MS ? left : LOOK_MS);
}

static void on_timer(void *data)
{
    struct rules_lease *r = data;
    if (rules_lease_valid(r) && r->state == VALID) {
        set_timer(r, net_clock_now(r->clock));
    }
}

bool rules_lease_valid(struct rules_lease *r)
{
    if (r == NULL) {
        return true;
    }
    if (r->state == VALID && net_clock_now(r->clock) >= r->until_ms) {
        expire(r);
    }
    return r->state == VALID;
}

void rules_lease_renewed(struct rules_lease *r, uint64_t sent_ms)
{
    uint64_t now = net_clock_now(r->clock);
    uint64_t until = sent_ms + r->seconds * 1000;
    r->why[0] = '\0';
    if (now >= until) {
        return; /* it took too long to be answered */
    }
    r->until_ms = until;
    if (r->state == EXPIRED) {
        set_state(r, VALID);
        log_info("the lease on the rules is valid", log_num("seconds", (int64_t)r->seconds));
    }
    set_timer(r, now);
}

void rules_lease_explain(struct rules_lease *r, const char *why)
{
    (void)snprintf(r->why, sizeof r->why, "%s", why);
}

void rules_lease_listen(struct rules_lease *r, enum rules_lease_listener who, rules_lease_cb cb,
                        void *data)
{
    r->listeners[who].cb = cb;
    r->listeners[who].data = data;
}

const char *rules_lease_why(const struct rules_lease *r)
{
    return r->why;
}

uint64_t rules_lease_seconds(const struct rules_lease *r)
{
    return r->seconds;
}

uint64_t rules_lease_remaining_ms(const struct rules_lease *r)
{
    uint64_t now = net_clock_now(r->clock);
    return r->state == VALID && now < r->until_ms ? r->until_ms - now : 0;
}

uint64_t rules_lease_expirations(const struct rules_lease *r)
{
    return r->expirations;
}

struct rules_lease *rules_lease_new(struct net_loop *l, uint64_t seconds,
                                    const struct net_clock *clock, struct err *e)
{
    struct rules_lease *r = calloc(1, sizeof *r);
    if (r == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    r->clock = clock != NULL ? clock : &net_clock_system;
    r->seconds = seconds;
    r->timer = net_timer_new(l, on_timer, r);
    if (r->timer == NULL) {
        (void)err_memory(e);
        free(r);
        return NULL;
    }
    rules_lease_explain(r, "it was not written yet");
    return r;
}

void rules_lease_free(struct rules_lease *r)
{
    if (r != NULL) {
        net_timer_free(r->timer);
        free(r);
    }
}
