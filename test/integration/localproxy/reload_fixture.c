/* SPDX-License-Identifier: Apache-2.0 */
#include "reload_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/file.h"
#include "net/address.h"
#include "traffic_document.h"
#include "upstream/pending_writes.h"

enum { TURNS = 5000, TURN_MS = 1, TEXTS = 16, TEXT_SIZE = 4096 };

/* ---- the proxy ---- */

static void on_settled(void *data)
{
    struct fixture *f = data;
    f->settled++;
}

static void on_drained(void *data)
{
    (void)data;
}

static bool open_policies(struct fixture *f)
{
    struct err e = ERR_INIT;
    const struct policies_options o = {
        .clock = &f->clock.clock,
        .breaker_state = f->flags.breaker_state,
        .pod_labels = f->flags.pod_labels,
        .seed = 1,
    };
    f->policies = policies_new(f->api->loop, &o, &e);
    return f->policies != NULL;
}

/* It goes on from where it was. */
static void start_clock(struct fixture *f)
{
    uint64_t now = f->clock.now;
    fake_clock_init(&f->clock, f->api->loop);
    f->clock.now = now > f->clock.now ? now : f->clock.now;
}

/* Until what a process before might have sent is over. People do not notice. */
static void pass_what_may_be_pending(struct fixture *f)
{
    int64_t wall = f->clock.wall;
    fake_clock_pass(&f->clock, PENDING_ARRIVAL_MS + PENDING_WRITE_MS);
    f->clock.wall = wall;
}

static bool start_proxy(struct fixture *f)
{
    struct err e = ERR_INIT;
    start_clock(f);
    f->secrets = listener_secrets_new(f->api->loop, &f->flags, f->secrets_check_ms, &e);
    if (f->secrets == NULL) {
        return false;
    }
    if (f->with_policies && !open_policies(f)) {
        return false;
    }
    if (f->lease_s != 0) {
        f->lease = rules_lease_new(f->api->loop, f->lease_s, &f->api->clock.clock, &e);
        assert_non_null(f->lease);
    }
    const struct upstream_options up = {
        .name = UPSTREAM_HOME,
        .client = {.access = &f->api->access, .max_idle = 16},
        .state = f->flags.state,
        .doubt_ms = f->flags.resume_doubt_s * 1000,
        .clock = &f->clock.clock,
    };
    f->upstream = upstream_new(f->api->loop, &up, &e);
    if (f->upstream == NULL) {
        return false;
    }
    struct proxy_options o = {
        .flags = &f->flags,
        .upstream = f->upstream,
        .server = &f->api->access.server,
        .metrics = &f->metrics,
        .secrets = f->secrets,
        .policies = f->policies,
        .lease = f->lease,
        .clock = &f->clock.clock,
        .on_drained = on_drained,
        .data = f,
    };
    f->proxy = proxy_new(f->api->loop, &o, &e);
    if (f->proxy == NULL) {
        return false;
    }
    if (f->flags.state == NULL) {
        pass_what_may_be_pending(f);
    }
    proxy_on_settled(f->proxy, on_settled, f);
    return true;
}

static void stop_proxy(struct fixture *f)
{
    proxy_free(f->proxy);
    upstream_free(f->upstream);
    rules_lease_free(f->lease);
    f->lease = NULL;
    policies_free(f->policies);
    listener_secrets_free(f->secrets);
    assert_int_equal(f->metrics.open_watches, 0);
    assert_int_equal(f->metrics.tunnels, 0);
}

bool fixture_open(struct fixture *f, struct scripted_api *api)
{
    f->api = api;
    f->flags.listen = "127.0.0.1:0";
    f->flags.read_fence = FENCE_OFF;
    f->flags.resume_doubt_s = f->flags.resume_doubt_s != 0 ? f->flags.resume_doubt_s : 60;
    return start_proxy(f);
}

/* Puts back what was in the file. */
static void write_state(const struct fixture *f, const struct buf *was)
{
    int fd = open(f->flags.state, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, buf_data(was), was->len), was->len);
    assert_int_equal(close(fd), 0);
}

/* The file of --state is a mapping that is shared, so what was stored in it is there whatever
 * becomes of the process, and what is read now is what the next process would find. The tidy end
 * that follows changes it: it is undone. */
void fixture_stop(struct fixture *f, bool killed)
{
    struct buf was = BUF_INIT(SIZE_MAX / 2);
    struct err e = ERR_INIT;
    bool undo = killed && f->flags.state != NULL;
    if (undo) {
        assert_int_equal(file_read(f->flags.state, &was, &e), 0);
    }
    stop_proxy(f);
    if (undo) {
        write_state(f, &was);
    }
    buf_reset(&was);
}

void fixture_start(struct fixture *f)
{
    assert_true(start_proxy(f));
}

void fixture_restart(struct fixture *f)
{
    fixture_stop(f, false);
    fixture_start(f);
}

void fixture_close(struct fixture *f)
{
    stop_proxy(f);
}

static int set_up(void **state, bool with_policies)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct net_loop *l = NULL;
    *state = f;
    if (f == NULL || loop_setup((void **)&l) != 0 || !api_open(&f->scripted, l)) {
        return -1;
    }
    f->with_policies = with_policies;
    return fixture_open(f, &f->scripted) ? 0 : -1;
}

int fixture_setup(void **state)
{
    return set_up(state, false);
}

int fixture_setup_with_policies(void **state)
{
    return set_up(state, true);
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    struct net_loop *l = f->api->loop;
    fixture_close(f);
    api_close(f->api);
    free(f);
    return loop_free(l);
}

/* Rules with that spec. */
static struct rules *parse_rules(struct fixture *f, const char *spec)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    assert_int_equal(buf_printf(&text,
                                "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":"
                                "{\"namespace\":\"ns\",\"name\":\"shard\"},\"generation\":%u,"
                                "\"spec\":%s}",
                                ++f->generation, spec),
                     0);
    struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
    buf_reset(&text);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

void fixture_limit(struct fixture *f, const char *selector)
{
    struct buf spec = BUF_INIT(RULES_TEXT_MAX);
    long paused = alloc_sweep_pause();
    int rc = selector == NULL
                 ? buf_append_str(&spec, "{\"limits\":[],\"leaderElection\":{\"name\":\"lock\"}}")
                 : buf_printf(&spec,
                              "{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":"
                              "[\"pods\"],\"selector\":\"%s\"}]}",
                              selector);
    assert_int_equal(rc, 0);
    struct rules *rules = parse_rules(f, buf_cstr(&spec));
    buf_reset(&spec);
    alloc_sweep_resume(paused);
    proxy_set_rules(f->proxy, rules);
    rules_unref(rules);
}

void fixture_traffic(struct fixture *f, const char *spec)
{
    long paused = alloc_sweep_pause();
    struct traffic *t = spec != NULL ? traffic_document(1, spec) : NULL;
    alloc_sweep_resume(paused);
    assert_int_equal(policies_set(f->policies, t), 0);
    traffic_unref(t);
}

/* ---- clients ---- */

void client_open(struct fixture *f, struct client *c)
{
    struct sockaddr_storage addr;
    assert_int_equal(net_address_parse(proxy_address(f->proxy), &addr, NULL), 0);
    memset(c, 0, sizeof *c);
    buf_init(&c->text, SIZE_MAX / 2);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(c->fd >= 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
}

void client_send(struct client *c, const char *text)
{
    size_t len = strlen(text);
    assert_int_equal(send(c->fd, text, len, MSG_NOSIGNAL), len);
}

void fixture_get(struct fixture *f, struct client *c, const char *target)
{
    char text[2048];
    client_open(f, c);
    (void)snprintf(text, sizeof text,
                   "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n",
                   target);
    client_send(c, text);
}

void client_read(struct client *c)
{
    char piece[65536];
    while (!c->ended) {
        ssize_t n = recv(c->fd, piece, sizeof piece, 0);
        if (n <= 0) {
            c->ended = n == 0 || errno != EAGAIN;
            return;
        }
        assert_int_equal(buf_append(&c->text, piece, (size_t)n), 0);
    }
}

static const char *text_of(struct client *c)
{
    return buf_cstr(&c->text);
}

bool client_has(struct client *c, const char *text)
{
    client_read(c);
    return strstr(text_of(c), text) != NULL;
}

void client_close(struct client *c)
{
    (void)close(c->fd);
    c->fd = -1;
    buf_reset(&c->text);
}

/* ---- expectations ---- */

void fixture_expect(struct fixture *f, struct client *c, const char *text)
{
    size_t seen = SIZE_MAX;
    for (int turn = 0; turn < TURNS; turn++) {
        client_read(c);
        bool news = c->text.len != seen;
        seen = c->text.len;
        if (text == NULL ? c->ended
                         : news && seen > 0 &&
                               memmem(buf_data(&c->text), seen, text, strlen(text)) != NULL) {
            return;
        }
        run_for(f->api->loop, TURN_MS);
    }
    fail_msg("expected \"%s\", got \"%.4000s\"", text != NULL ? text : "<end>", text_of(c));
}

void fixture_expect_number(struct fixture *f, const uint64_t *number, uint64_t value)
{
    for (int turn = 0; turn < TURNS && *number != value; turn++) {
        run_for(f->api->loop, TURN_MS);
    }
    assert_int_equal(*number, value);
}

void fixture_expect_settled(struct fixture *f)
{
    for (int turn = 0; turn < TURNS && !proxy_settled(f->proxy); turn++) {
        run_for(f->api->loop, TURN_MS);
    }
    assert_true(proxy_settled(f->proxy));
}

/* ---- texts ---- */

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_SIZE];
    static unsigned next;
    return texts[next++ % TEXTS];
}

const char *pod_event(const char *type, const char *name, unsigned version)
{
    char *text = next_text();
    (void)snprintf(text, TEXT_SIZE,
                   "{\"type\":\"%s\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\","
                   "\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%u\"}}}\n",
                   type, name, version);
    return text;
}

const char *pod_list(unsigned version, const char *token, const char *const *names)
{
    char *text = next_text();
    int len = snprintf(text, TEXT_SIZE,
                       "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
                       "\"resourceVersion\":\"%u\",\"continue\":\"%s\"},\"items\":[",
                       version, token != NULL ? token : "");
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        len += snprintf(text + len, TEXT_SIZE - (size_t)len,
                        "%s{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%zu\"}}",
                        i > 0 ? "," : "", names[i], 10 + i);
    }
    (void)snprintf(text + len, TEXT_SIZE - (size_t)len, "]}");
    return text;
}
