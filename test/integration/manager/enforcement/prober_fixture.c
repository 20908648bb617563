/* SPDX-License-Identifier: Apache-2.0 */
#include "prober_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- sidecars ---- */

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct sidecar *s = x->data;
    (void)e;
    s->open--;
    s->last = s->last == x ? NULL : s->last;
}

static void on_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    assert_int_equal(data.len, 0);
}

static void on_event(struct http_exchange *x)
{
    (void)x;
}

static const struct http_exchange_handlers exchange_handlers = {
    .on_body = on_body,
    .on_end = on_event,
    .on_drain = on_event,
    .on_close = on_close,
};

void answer(struct sidecar *s)
{
    assert_int_equal(
        http_respond(s->last, s->status, SLICE("application/json"), slice_str(s->body), NULL, 0),
        0);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct sidecar *s = data;
    const struct http_header *host = http_head_find(head, SLICE("Host"));
    x->handlers = &exchange_handlers;
    x->data = s;
    s->asked++;
    s->open++;
    s->last = x;
    (void)snprintf(s->target, sizeof s->target, "%.*s", (int)head->target.len, head->target.ptr);
    (void)snprintf(s->host, sizeof s->host, "%.*s", (int)host->value.len, host->value.ptr);
    if (s->behaviour == CUTS) {
        s->open--;
        s->last = NULL;
        http_exchange_abort(x);
    } else if (s->behaviour == ANSWERS) {
        answer(s);
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)body;
    fail_msg("a request that cannot be parsed: %u %s", status, why);
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

void listen_on(struct fixture *f, struct sidecar *s, const char *address)
{
    const struct http_server_options o = {.address = address,
                                          .head_timeout_ms = LONG_MS,
                                          .idle_timeout_ms = LONG_MS,
                                          .write_timeout_ms = LONG_MS};
    struct err e = ERR_INIT;
    s->server = http_server_new(f->loop, &o, &server_handlers, s, &e);
    if (s->server == NULL) {
        fail_msg("%s", e.msg);
    }
}

void listen_anywhere(struct fixture *f, struct sidecar *s)
{
    char address[32];
    unsigned port;
    assert_int_equal(s->reserved, 0);
    s->reserved = raw_reserve(&port);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    listen_on(f, s, address);
}

const char *address_of(const struct sidecar *s)
{
    return http_server_address(s->server);
}

void stop(struct sidecar *s)
{
    http_server_free(s->server);
    s->server = NULL;
}

static void deinit(struct sidecar *s)
{
    stop(s);
    free(s->body);
    if (s->reserved > 0) {
        (void)close(s->reserved);
    }
}

void say(struct sidecar *s, unsigned status, const char *body)
{
    free(s->body);
    s->body = strdup(body);
    s->status = status;
    assert_non_null(s->body);
}

void enforce(struct sidecar *s, const char *shard, unsigned generation, long long since)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"program\":\"localproxy\",\"rules\":{\"inForce\":true,\"shard\":{"
                   "\"namespace\":\"demo\",\"name\":\"%s\"},\"generation\":%u,\"checksum\":\"" SUM
                   "\",\"since\":%lld,\"settled\":true}}",
                   shard, generation, since);
    say(s, 200, text);
}

void complain(struct sidecar *s, const char *error)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "{\"program\":\"rulesync\",\"seen\":{\"error\":\"%s\"}}",
                   error);
    say(s, 200, text);
}

/* ---- the cache ---- */

static void on_change(void *data, const char *key)
{
    struct fixture *f = data;
    f->changes++;
    (void)snprintf(f->changed, sizeof f->changed, "%s", key);
    if (f->whim == FREES) {
        prober_free(f->prober);
        f->prober = NULL;
        fake_clock_forget(&f->clock);
    } else if (f->whim == FORGETS_ALL) {
        for (unsigned i = 0; i < PODS; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "demo/pod-%u", i);
            prober_forget(f->prober, name);
        }
    }
}

static void on_traffic(void *data, const char *key)
{
    struct fixture *f = data;
    (void)key;
    f->traffic_changes++;
}

struct prober *open_prober(struct fixture *f, uint64_t timeout_ms)
{
    const struct prober_options o = {.timeout_ms = timeout_ms,
                                     .quick_timeout_ms = timeout_ms,
                                     .parallel = 8,
                                     .any_address = true,
                                     .clock = &f->clock.clock,
                                     .on_change = on_change,
                                     .on_traffic = on_traffic,
                                     .data = f};
    return prober_new(f->loop, &o);
}

int prober_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0) {
        return -1;
    }
    fake_clock_init(&f->clock, f->loop);
    f->clock.random = UINT32_MAX / 2 + 1; /* the usual interval is what was asked for */
    f->prober = open_prober(f, LONG_MS);
    *state = f;
    return f->prober == NULL ? -1 : 0;
}

int prober_teardown(void **state)
{
    struct fixture *f = *state;
    struct net_loop *l = f->loop;
    prober_free(f->prober);
    for (unsigned i = 0; i < PODS; i++) {
        deinit(&f->proxies[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        deinit(&f->rulesyncs[i]);
    }
    free(f);
    return loop_free(l);
}

struct sidecar *add_proxy(struct fixture *f, unsigned i)
{
    struct sidecar *s = &f->proxies[i];
    listen_anywhere(f, s);
    enforce(s, "a", 1, 1700000000);
    return s;
}

int watch_in(struct fixture *f, const char *namespace, unsigned i, const char *proxy)
{
    char key[64];
    (void)snprintf(key, sizeof key, "%s/pod-%u", namespace, i);
    return prober_watch(f->prober, &(struct prober_target){.key = key, .uid = "u", .proxy = proxy});
}

int watch(struct fixture *f, unsigned i, const char *uid, const char *proxy, const char *rulesync)
{
    char key[32];
    (void)snprintf(key, sizeof key, "demo/pod-%u", i);
    return prober_watch(
        f->prober,
        &(struct prober_target){.key = key, .uid = uid, .proxy = proxy, .rulesync = rulesync});
}

void be_impatient(struct fixture *f)
{
    prober_free(f->prober);
    fake_clock_forget(&f->clock);
    f->prober = open_prober(f, SHORT_MS);
    assert_non_null(f->prober);
}

const struct probe_result *result(struct fixture *f)
{
    return prober_result(f->prober, "demo/pod-0");
}

void await(struct fixture *f, const unsigned *number, unsigned wanted)
{
    for (int turn = 0; turn < TURNS && *number < wanted; turn++) {
        fake_clock_pass(&f->clock, 0);
        run_for(f->loop, 1);
    }
    assert_true(*number >= wanted);
}

void pass_and_await(struct fixture *f, uint64_t ms, const struct sidecar *s)
{
    unsigned before = s->asked;
    fake_clock_pass(&f->clock, ms - 1);
    run_for(f->loop, 5);
    assert_int_equal(s->asked, before);
    fake_clock_pass(&f->clock, 1);
    await(f, &s->asked, before + 1);
    run_for(f->loop, 20);
}

void await_state(struct fixture *f, enum probe_state state)
{
    for (int turn = 0; turn < TURNS && result(f)->state != state; turn++) {
        fake_clock_pass(&f->clock, 0);
        run_for(f->loop, 1);
    }
    assert_int_equal(result(f)->state, state);
    run_for(f->loop, 5);
}

void pass(struct fixture *f, uint64_t ms)
{
    for (uint64_t done = 0; done < ms; done += 100) {
        fake_clock_pass(&f->clock, 100);
        run_for(f->loop, 3);
    }
}

struct sidecar *begin(struct fixture *f, const char *rulesync)
{
    struct sidecar *s = add_proxy(f, 0);
    assert_int_equal(watch(f, 0, "u", address_of(s), rulesync), 0);
    assert_int_equal(result(f)->state, PROBE_WAITING);
    assert_false(result(f)->asked);
    assert_int_equal(f->changes, 0);
    await_state(f, PROBE_ANSWERED);
    return s;
}
