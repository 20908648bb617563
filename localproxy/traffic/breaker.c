/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     CLOSED -- over the limit; too many errors, or slow answers; the policy says so --> OPENED
 *     OPENED -- the window is over, a new reset token --> CLOSED
 *     OPENED -- the window is over, with TRAFFIC_HEALTH --> HALF_OPENED
 *     HALF_OPENED -- all probes were well, a new reset token --> CLOSED
 *     HALF_OPENED -- one was not --> OPENED
 */
#include "traffic/breaker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rfc3339.h"
#include "base/state_machine.h"

enum { SECOND_MS = 1000, LOGS_PER_MINUTE = 6, LOGS_BURST = 10, IN_FLIGHT_WAIT_MS = 1000 };

static const struct state_machine machine = {
    .object = "breaker",
    .states = {[CONTROL_BREAKER_CLOSED] = {"Closed", STATE(CONTROL_BREAKER_OPENED)},
               [CONTROL_BREAKER_OPENED] = {"Opened", STATE(CONTROL_BREAKER_CLOSED) |
                                                         STATE(CONTROL_BREAKER_HALF_OPENED)},
               [CONTROL_BREAKER_HALF_OPENED] = {"HalfOpened", STATE(CONTROL_BREAKER_CLOSED) |
                                                                  STATE(CONTROL_BREAKER_OPENED)}},
};

const char *breaker_refusal_name(enum breaker_refusal r)
{
    static const char *const names[] = {
        [BREAKER_ALLOWS] = "",
        [BREAKER_OVER_LIMIT] = "over_limit",
        [BREAKER_TOO_MANY] = "too_many",
        [BREAKER_IS_OPEN] = "open",
    };
    return names[r];
}

/* ---- transitions ---- */

/* One that opens and closes all the time is not to fill the log. One that is for other pods is
 * nobody's concern here. */
static void log_transition(struct breaker *b, uint64_t now_ms)
{
    char until[RFC3339_SIZE] = "";
    if (!b->selects) {
        return;
    }
    if (token_bucket_take(&b->logs, now_ms) != 0) {
        b->unlogged++;
        return;
    }
    if (b->until_wall_ms != 0 && rfc3339_format(b->until_wall_ms / SECOND_MS, until) != 0) {
        until[0] = '\0';
    }
    log_info("a circuit breaker went to another state",
             log_str("policy", b->limiting->policy->name), log_str("rule", b->limiting->name),
             log_str("state", control_breaker_state_text(b->state)), log_str("why", b->why),
             log_str("until", until), log_num("suppressed", (int64_t)b->unlogged));
    b->unlogged = 0;
}

static void enter_opened(struct breaker *b, const struct breaker_turn *turn)
{
    const struct traffic_limiting *l = b->limiting;
    bool forced = l->trigger == TRAFFIC_FORCE_OPENED;
    if (!forced && l->recover == TRAFFIC_SLEEPING_WINDOW) {
        b->until_ms = turn->ms + l->window_ms;
        b->until_wall_ms = turn->wall_ms + (int64_t)l->window_ms;
    }
}

static void set_state(struct breaker *b, enum control_breaker_state next, const char *why,
                      struct breaker_turn *turn)
{
    b->state = state_change(&machine, b->state, next, slice_str(b->limiting->name));
    b->why = why;
    b->since_wall_ms = turn->wall_ms;
    b->until_ms = 0;
    b->until_wall_ms = 0;
    b->changed = turn->number;
    turn->changed = true;
    switch (next) {
    case CONTROL_BREAKER_OPENED:
        enter_opened(b, turn);
        break;
    case CONTROL_BREAKER_HALF_OPENED:
        b->probing = 0;
        b->well = 0;
        break;
    case CONTROL_BREAKER_CLOSED:
        memset(b->slots, 0, sizeof b->slots);
        break;
    }
    log_transition(b, turn->ms);
}

void breaker_settle(struct breaker *b, struct breaker_turn *turn)
{
    if (b->state != CONTROL_BREAKER_OPENED || b->until_ms == 0 || turn->ms < b->until_ms) {
        return;
    }
    if (b->limiting->trigger == TRAFFIC_HEALTH) {
        set_state(b, CONTROL_BREAKER_HALF_OPENED, b->why, turn);
    } else {
        set_state(b, CONTROL_BREAKER_CLOSED, "", turn);
    }
}

/* ---- life ---- */

char *breaker_key(const struct traffic_limiting *l)
{
    char *key = NULL;
    int n = asprintf(&key, "%s/%s/%s", l->policy->name, l->policy->uid, l->name);
    return n < 0 ? NULL : key;
}

struct breaker *breaker_new(struct traffic *document, const struct traffic_limiting *l,
                            const char *key, struct breaker_turn *turn)
{
    size_t len = strlen(key);
    struct breaker *b = calloc(1, sizeof *b + len + 1);
    if (b == NULL) {
        return NULL;
    }
    memcpy(b->key, key, len + 1);
    b->refs = 1;
    b->document = traffic_ref(document);
    b->limiting = l;
    b->why = "";
    token_bucket_init(&b->logs, LOGS_PER_MINUTE / 60.0, LOGS_BURST);
    if (l->has_bucket) {
        token_bucket_init_limit(&b->bucket, l->bucket.limit, l->bucket.interval_ms,
                                l->bucket.burst);
    }
    (void)snprintf(b->reset, sizeof b->reset, "%s", l->reset);
    if (l->trigger == TRAFFIC_FORCE_OPENED) {
        set_state(b, CONTROL_BREAKER_OPENED, "ForceOpened", turn);
    }
    return b;
}

struct breaker *breaker_ref(struct breaker *b)
{
    b->refs++;
    return b;
}

void breaker_unref(struct breaker *b)
{
    if (b != NULL && --b->refs == 0) {
        traffic_unref(b->document);
        free(b);
    }
}

/* A token that was taken away and comes back is not new. */
static void take_token(struct breaker *b, const char *token, struct breaker_turn *turn)
{
    if (token[0] == '\0' || strcmp(token, b->reset) == 0) {
        return;
    }
    (void)snprintf(b->reset, sizeof b->reset, "%s", token);
    turn->changed = true;
    if (b->state != CONTROL_BREAKER_CLOSED && b->limiting->trigger != TRAFFIC_FORCE_OPENED) {
        set_state(b, CONTROL_BREAKER_CLOSED, "", turn);
    }
}

void breaker_follow(struct breaker *b, struct traffic *document, const struct traffic_limiting *l,
                    struct breaker_turn *turn)
{
    struct traffic *before = b->document;
    b->document = traffic_ref(document);
    b->limiting = l;
    traffic_unref(before);
    take_token(b, l->reset, turn);
}

/* A wall clock that was set meanwhile makes it neither longer than the window, nor negative. */
void breaker_restore(struct breaker *b, int64_t since_wall_ms, int64_t until_wall_ms,
                     const char *token, struct breaker_turn *turn)
{
    const struct traffic_limiting *l = b->limiting;
    bool opens = l->trigger == TRAFFIC_NORMAL || l->trigger == TRAFFIC_HEALTH;
    (void)snprintf(b->reset, sizeof b->reset, "%s", token);
    if (!opens || since_wall_ms == 0) {
        return;
    }
    set_state(b, CONTROL_BREAKER_OPENED, "before the restart", turn);
    b->since_wall_ms = since_wall_ms < turn->wall_ms ? since_wall_ms : turn->wall_ms;
    if (b->until_ms != 0 && until_wall_ms < b->until_wall_ms) {
        int64_t left = until_wall_ms - turn->wall_ms;
        b->until_wall_ms = left > 0 ? until_wall_ms : turn->wall_ms;
        b->until_ms = turn->ms + (left > 0 ? (uint64_t)left : 0);
    }
    breaker_settle(b, turn);
}

void breaker_select(struct breaker *b, bool selects, uint64_t now_ms)
{
    bool news = selects && !b->selects;
    b->selects = selects;
    if (news && b->state != CONTROL_BREAKER_CLOSED) {
        log_transition(b, now_ms);
    }
}

/* ---- a request comes ---- */

static bool half_open_is_full(const struct breaker *b)
{
    return b->probing + b->well >= b->limiting->health.half_open;
}

enum breaker_refusal breaker_look(struct breaker *b, struct breaker_turn *turn, uint64_t *wait_ms)
{
    const struct traffic_limiting *l = b->limiting;
    *wait_ms = 0;
    if (l->trigger == TRAFFIC_FORCE_CLOSED) {
        return BREAKER_ALLOWS;
    }
    breaker_settle(b, turn);
    if (b->state == CONTROL_BREAKER_OPENED ||
        (b->state == CONTROL_BREAKER_HALF_OPENED && half_open_is_full(b))) {
        return BREAKER_IS_OPEN;
    }
    if (l->max_in_flight != 0 && b->in_flight >= l->max_in_flight) {
        *wait_ms = IN_FLIGHT_WAIT_MS;
        return BREAKER_TOO_MANY;
    }
    uint64_t wait = l->has_bucket ? token_bucket_look(&b->bucket, turn->ms) : 0;
    if (wait == 0) {
        return BREAKER_ALLOWS;
    }
    if (l->trigger == TRAFFIC_NORMAL) {
        set_state(b, CONTROL_BREAKER_OPENED, "over the limit", turn);
    } else if (wait != TOKEN_BUCKET_NEVER) {
        *wait_ms = wait;
    }
    return BREAKER_OVER_LIMIT;
}

bool breaker_awaits(const struct breaker *b)
{
    return b->limiting->max_in_flight != 0 || b->limiting->trigger == TRAFFIC_HEALTH;
}

void breaker_take(struct breaker *b, const struct breaker_turn *turn)
{
    const struct traffic_limiting *l = b->limiting;
    if (l->has_bucket && l->trigger != TRAFFIC_FORCE_CLOSED) {
        (void)token_bucket_take(&b->bucket, turn->ms);
    }
    b->in_flight += breaker_awaits(b) ? 1 : 0;
    if (b->state == CONTROL_BREAKER_HALF_OPENED) {
        b->probing++;
    }
}

void breaker_count_refused(struct breaker *b, enum breaker_refusal r)
{
    b->refused[r]++;
}

/* ---- a request is answered ---- */

static bool is_of_this_state(const struct breaker *b, uint64_t begun)
{
    return begun >= b->changed;
}

static bool is_probe(const struct breaker *b, uint64_t begun)
{
    return b->state == CONTROL_BREAKER_HALF_OPENED && is_of_this_state(b, begun);
}

static struct breaker_slot *slot_at(struct breaker *b, uint64_t now_ms)
{
    uint64_t length = b->limiting->health.window_ms / BREAKER_SLOTS;
    uint64_t number = now_ms / (length == 0 ? 1 : length);
    struct breaker_slot *s = &b->slots[number % BREAKER_SLOTS];
    if (s->number != number) {
        *s = (struct breaker_slot){.number = number};
    }
    return s;
}

static bool is_part(uint64_t count, uint64_t all, uint32_t percent)
{
    return percent != 0 && count * 100 >= all * percent;
}

/* Opens it if too much of what was answered within the window was not well. */
static void judge(struct breaker *b, uint64_t number, struct breaker_turn *turn)
{
    const struct traffic_health *h = &b->limiting->health;
    uint64_t answers = 0;
    uint64_t failed = 0;
    uint64_t slow = 0;
    for (size_t i = 0; i < BREAKER_SLOTS; i++) {
        const struct breaker_slot *s = &b->slots[i];
        if (s->number + BREAKER_SLOTS > number) {
            answers += s->answers;
            failed += s->failed;
            slow += s->slow;
        }
    }
    if (answers < h->minimum_requests) {
        return;
    }
    if (is_part(failed, answers, h->error_percent)) {
        set_state(b, CONTROL_BREAKER_OPENED, "errors", turn);
    } else if (h->slow_ms != 0 && is_part(slow, answers, h->slow_percent)) {
        set_state(b, CONTROL_BREAKER_OPENED, "slow answers", turn);
    }
}

static void probe_answered(struct breaker *b, bool failed, bool slow, struct breaker_turn *turn)
{
    if (failed || slow) {
        set_state(b, CONTROL_BREAKER_OPENED, failed ? "a probe failed" : "a probe was slow", turn);
        return;
    }
    b->probing--;
    b->well++;
    if (b->well >= b->limiting->health.half_open) {
        set_state(b, CONTROL_BREAKER_CLOSED, "", turn);
    }
}

static bool is_slow(const struct traffic_health *h, uint64_t duration_ms)
{
    return h->slow_ms != 0 && duration_ms >= h->slow_ms;
}

void breaker_answered(struct breaker *b, uint64_t begun, bool failed, uint64_t duration_ms,
                      struct breaker_turn *turn)
{
    const struct traffic_health *h = &b->limiting->health;
    if (b->limiting->trigger != TRAFFIC_HEALTH || !is_of_this_state(b, begun)) {
        return;
    }
    bool slow = is_slow(h, duration_ms);
    failed = failed && h->error_percent != 0;
    if (b->state == CONTROL_BREAKER_HALF_OPENED) {
        probe_answered(b, failed, slow, turn);
    } else if (b->state == CONTROL_BREAKER_CLOSED) {
        struct breaker_slot *s = slot_at(b, turn->ms);
        s->answers++;
        s->failed += failed ? 1 : 0;
        s->slow += slow ? 1 : 0;
        judge(b, s->number, turn);
    }
}

void breaker_given_up(struct breaker *b, uint64_t begun, uint64_t duration_ms,
                      struct breaker_turn *turn)
{
    if (is_slow(&b->limiting->health, duration_ms)) {
        breaker_answered(b, begun, false, duration_ms, turn);
    }
}

void breaker_leave(struct breaker *b, uint64_t begun, bool unanswered)
{
    b->in_flight--;
    if (unanswered && is_probe(b, begun)) {
        b->probing--;
    }
}

/* ---- what it says ---- */

/* "10s", "1m30s", "250ms". */
static void append_duration(struct buf *out, uint64_t ms)
{
    uint64_t s = ms / SECOND_MS;
    if (ms % SECOND_MS != 0) {
        buf_printf(out, "%" PRIu64 "ms", ms);
        return;
    }
    if (s >= 3600) {
        buf_printf(out, "%" PRIu64 "h", s / 3600);
    }
    if (s / 60 % 60 != 0) {
        buf_printf(out, "%" PRIu64 "m", s / 60 % 60);
    }
    if (s % 60 != 0) {
        buf_printf(out, "%" PRIu64 "s", s % 60);
    }
}

static void append_time(struct buf *out, int64_t seconds)
{
    char text[RFC3339_SIZE];
    if (rfc3339_format(seconds, text) == 0) {
        buf_append_str(out, text);
    }
}

/* The second after which it is over: it does not close earlier. */
static int64_t until_of(const struct breaker *b)
{
    return (b->until_wall_ms + SECOND_MS - 1) / SECOND_MS;
}

static void append_open(const struct breaker *b, struct buf *out)
{
    const struct traffic_limiting *l = b->limiting;
    if (b->state == CONTROL_BREAKER_HALF_OPENED) {
        buf_printf(out, "is half open, and waits for the answers to %" PRIu32 " requests",
                   l->health.half_open);
        return;
    }
    buf_append_str(out, "is open since ");
    append_time(out, b->since_wall_ms / SECOND_MS);
    if (l->trigger == TRAFFIC_FORCE_OPENED) {
        buf_append_str(out, ", as its policy says (ForceOpened)");
    } else if (b->until_wall_ms == 0) {
        buf_append_str(out, ", and closes when it is reset");
    } else {
        buf_append_str(out, l->trigger == TRAFFIC_HEALTH ? ", tries again at " : ", closes at ");
        append_time(out, until_of(b));
    }
}

void breaker_message(const struct breaker *b, enum breaker_refusal r, struct buf *out)
{
    const struct traffic_limiting *l = b->limiting;
    buf_printf(out, "circuitbreaker \"%s/%s\" rule \"%s\": ", traffic_shard_namespace(b->document),
               l->policy->name, l->name);
    switch (r) {
    case BREAKER_OVER_LIMIT:
        buf_printf(out, "over the limit of %" PRIu32 " in ", l->bucket.limit);
        append_duration(out, l->bucket.interval_ms);
        break;
    case BREAKER_TOO_MANY:
        buf_printf(out, "too many at a time: %" PRIu32 " are under way", b->in_flight);
        break;
    case BREAKER_IS_OPEN:
        append_open(b, out);
        break;
    case BREAKER_ALLOWS:
    case BREAKER_REFUSALS:
        break;
    }
}

void breaker_describe(const struct breaker *b, struct control_breaker *out)
{
    *out = (struct control_breaker){
        .policy = b->limiting->policy->name,
        .uid = b->limiting->policy->uid,
        .rule = b->limiting->name,
        .state = b->state,
        .since = b->since_wall_ms / SECOND_MS,
        .until = until_of(b),
        .why = b->why,
    };
    for (size_t i = 0; i < BREAKER_REFUSALS; i++) {
        out->refused += b->refused[i];
    }
}
