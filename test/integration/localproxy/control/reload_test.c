/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rules come into force, from the control socket and from the file, and when who handed them
 * over is told.
 */
#include "control/reload.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "control/client.h"
#include "localproxy/reload_fixture.h"
#include "temp_dir.h"
#include "upstream/pending_writes.h"

#define OWN "ctrlmesh.kusionstack.io/namespace"

struct call {
    bool over;
    bool changed;
    struct control_state state;
    struct err error; /* code 0: none */
};

struct world {
    struct fixture f; /* first, for fixture_teardown */
    struct temp_dir dir;
    char path[256];
    struct reload *reload;
    struct control_client *client;
    struct call call; /* the last */
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct net_loop *l = NULL;
    assert_non_null(w);
    temp_dir_init(&w->dir);
    *state = w;
    return loop_setup((void **)&l) == 0 && api_open(&w->f.scripted, l) &&
                   fixture_open(&w->f, &w->f.scripted)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    struct world *w = *state;
    control_client_free(w->client);
    reload_free(w->reload);
    temp_dir_deinit(&w->dir);
    return fixture_teardown(state);
}

static void start(struct world *w)
{
    struct err e = ERR_INIT;
    w->reload = reload_new(w->f.api->loop, &w->f.flags, w->f.proxy, &w->f.metrics, &e);
    if (w->reload == NULL) {
        fail_msg("%s", e.msg);
    }
}

static void start_with_socket(struct world *w)
{
    struct err e = ERR_INIT;
    w->f.flags.control = temp_dir_path(&w->dir, "socket", w->path);
    start(w);
    const struct control_client_options o = {.path = w->path, .timeout_ms = 60000};
    w->client = control_client_new(w->f.api->loop, &o, &e);
    assert_non_null(w->client);
}

/* Until the next one. */
static const char *document_of(const char *ns, const char *shard, unsigned generation,
                               const char *selector)
{
    static char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"%s\",\"name\":\"%s\"},\"generation\":%u,\"spec\":{\"limits\":[{\"apiGroups\":"
                   "[\"\"],\"resources\":[\"pods\"],\"selector\":\"%s\"}]}}",
                   ns, shard, generation, selector);
    return text;
}

static const char *document(unsigned generation, const char *selector)
{
    return document_of("ns", "s", generation, selector);
}

static void on_reply(void *data, const struct control_state *s, bool changed, const struct err *e)
{
    struct call *call = data;
    call->over = true;
    call->changed = changed;
    if (s != NULL) {
        call->state = *s;
    } else {
        call->error = *e;
    }
}

static void begin_put(struct world *w, const char *text)
{
    struct err e = ERR_INIT;
    w->call = (struct call){.over = false};
    assert_int_equal(
        control_client_put(w->client, CONTROL_RULES, slice_str(text), on_reply, &w->call, &e), 0);
}

/* The answer follows at once, without a time limit that ends. */
static void put(struct world *w, const char *text)
{
    begin_put(w, text);
    for (int turn = 0; turn < 2000 && !w->call.over; turn++) {
        run_for(w->f.api->loop, 1);
    }
    assert_true(w->call.over);
}

static bool is_unsettled(struct world *w)
{
    struct err e = ERR_INIT;
    w->call = (struct call){.over = false};
    assert_int_equal(control_client_get(w->client, CONTROL_RULES, NULL, on_reply, &w->call, &e), 0);
    run_until(w->f.api->loop, &w->call.over);
    assert_int_equal(w->call.error.code, 0);
    return w->call.state.unsettled;
}

static uint64_t generation_in_force(const struct world *w)
{
    const struct rules *rules = proxy_rules(w->f.proxy);
    return rules != NULL ? rules_generation(rules) : 0;
}

static void only_newer_rules_of_the_shard_come_into_force(void **state)
{
    static const struct {
        const char *ns;
        const char *shard;
        unsigned generation;
        const char *selector;
        int code;
        const char *why;
    } rows[] = {
        {"ns", "s", 5, "a", 0, ""}, /* the same again */
        {"ns", "s", 4, "a", -ESTALE, "generation 4 is older than generation 5"},
        {"ns", "s", 5, "b", -ESTALE, "need a higher generation"},
        {"ns", "t", 6, "b", -ESTALE, "those of shard ns/s are in force"},
        {"nt", "s", 6, "b", -ESTALE, "those of shard ns/s are in force"},
        {"ns", "s", 6, "=", -EINVAL, "selector"},
    };
    struct world *w = *state;
    start_with_socket(w);
    assert_false(is_unsettled(w));
    assert_false(w->call.state.enforcing);
    assert_non_null(strstr(w->call.state.reason, "none received on the control socket"));
    put(w, document(5, "a"));
    assert_true(w->call.changed);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put(w, document_of(rows[i].ns, rows[i].shard, rows[i].generation, rows[i].selector));
        assert_int_equal(w->call.error.code, rows[i].code);
        assert_non_null(strstr(w->call.error.msg, rows[i].why));
        assert_false(w->call.changed);
        assert_int_equal(generation_in_force(w), 5);
    }
    assert_int_equal(w->f.metrics.reloads, 0);
    assert_int_equal(w->f.metrics.reloads_refused, 5);
    put(w, document(6, "b"));
    assert_true(w->call.changed);
    assert_int_equal(w->call.state.generation, 6);
    assert_int_equal(w->f.metrics.reloads, 1);
}

static void void_rules_give_way(void **state)
{
    struct world *w = *state;
    const char *newest = "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":"
                         "{\"namespace\":\"ns\",\"name\":\"s\"},\"generation\":%s,"
                         "\"spec\":{\"limits\":[]}}";
    char text[512];
    start_with_socket(w);
    (void)snprintf(text, sizeof text, newest, "4503599627370496");
    put(w, text);
    assert_true(w->call.changed);
    put(w, document(6, "a"));
    assert_int_equal(w->call.error.code, -ESTALE);
    (void)snprintf(text, sizeof text, newest, "6,\"voids\":4294967296");
    put(w, text);
    assert_int_equal(w->call.error.code, 0);
    assert_int_equal(generation_in_force(w), 6);
}

/* A write to what the next rules take away; the API server does not answer yet. */
static struct api_request *begin_write(struct world *w, struct client *c)
{
    start_with_socket(w);
    put(w, document(1, OWN " in (a)"));
    client_open(&w->f, c);
    client_send(c, "DELETE /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct api_request *q = api_expect_part(w->f.api, "/pods/x");
    begin_put(w, document(2, OWN " in (b)"));
    for (int turn = 0; turn < 5000 && generation_in_force(w) != 2; turn++) {
        run_for(w->f.api->loop, 1);
    }
    run_for(w->f.api->loop, 20);
    assert_false(w->call.over);
    return q;
}

static void a_call_waits_until_writes_are_over(void **state)
{
    struct world *w = *state;
    struct client c;
    struct api_request *q = begin_write(w, &c);
    api_answer(q, 200, NULL, "{}");
    run_until(w->f.api->loop, &w->call.over);
    assert_true(w->call.changed);
    assert_false(w->call.state.unsettled);
    client_close(&c);
}

static void a_call_does_not_wait_for_long(void **state)
{
    struct world *w = *state;
    struct client c;
    struct api_request *q = begin_write(w, &c);
    loop_skip(w->f.api->loop, 5000);
    run_until(w->f.api->loop, &w->call.over);
    assert_true(w->call.changed);
    assert_true(w->call.state.unsettled);
    assert_true(is_unsettled(w));
    begin_put(w, document(2, OWN " in (b)")); /* the same again waits as well */
    run_for(w->f.api->loop, 20);
    assert_false(w->call.over);
    api_answer(q, 200, NULL, "{}");
    run_until(w->f.api->loop, &w->call.over);
    assert_false(w->call.changed);
    assert_false(w->call.state.unsettled);
    assert_false(is_unsettled(w));
    client_close(&c);
}

/* Nobody waits for its answer any more; when it is over is known, and not soon. */
static void a_call_does_not_wait_in_vain(void **state)
{
    struct world *w = *state;
    struct client c;
    struct api_request *q = begin_write(w, &c);
    client_close(&c);
    api_expect_given_up(q);
    run_until(w->f.api->loop, &w->call.over); /* before any time limit ends */
    assert_true(w->call.changed);
    assert_true(w->call.state.unsettled);
    put(w, document(2, OWN " in (b)"));
    assert_false(w->call.changed);
    assert_true(w->call.state.unsettled);
    fake_clock_pass(&w->f.clock, PENDING_WRITE_MS);
    put(w, document(2, OWN " in (b)"));
    assert_false(w->call.state.unsettled);
}

static void who_waits_may_leave(void **state)
{
    struct world *w = *state;
    struct client c;
    struct api_request *q = begin_write(w, &c);
    control_client_cancel(w->client);
    run_for(w->f.api->loop, 20);
    api_answer(q, 200, NULL, "{}");
    fixture_expect(&w->f, &c, "200 OK");
    assert_false(is_unsettled(w));
    client_close(&c);
}

static void none_come_into_force_while_it_shuts_down(void **state)
{
    struct world *w = *state;
    start_with_socket(w);
    put(w, document(1, "a"));
    proxy_drain(w->f.proxy);
    put(w, document(2, "b"));
    assert_int_equal(w->call.error.code, -EAGAIN);
    assert_non_null(strstr(w->call.error.msg, "shutting down"));
    assert_int_equal(generation_in_force(w), 1);
}

static void read_again(struct world *w, const char *text)
{
    temp_dir_write(&w->dir, "rules", text, 0600);
    reload_read_again(w->reload);
}

static void the_file_is_read_at_the_start_and_again(void **state)
{
    struct world *w = *state;
    w->f.flags.rules = temp_dir_path(&w->dir, "rules", w->path);
    start(w);
    assert_int_equal(generation_in_force(w), 0);
    assert_non_null(strstr(proxy_facts(w->f.proxy).why_no_rules, "again on SIGHUP"));
    read_again(w, "{");
    assert_non_null(strstr(proxy_facts(w->f.proxy).why_no_rules, "line 1"));
    read_again(w, document(5, "a"));
    assert_int_equal(generation_in_force(w), 5);
    read_again(w, document(5, "a"));
    assert_int_equal(w->f.metrics.reloads_refused, 1);
    read_again(w, document(4, "b"));
    assert_int_equal(w->f.metrics.reloads_refused, 2);
    assert_int_equal(generation_in_force(w), 5);
    read_again(w, document(6, "b"));
    assert_int_equal(generation_in_force(w), 6);
    assert_int_equal(w->f.metrics.reloads, 1);
    proxy_drain(w->f.proxy);
    read_again(w, document(7, "a"));
    assert_int_equal(generation_in_force(w), 6);
    reload_free(w->reload);
    fixture_restart(&w->f);
    start(w);
    assert_int_equal(generation_in_force(w), 7);
}

static void on_changed(void *data)
{
    unsigned *changes = data;
    (*changes)++;
}

static void say(struct world *w, const char *trouble)
{
    struct err e = ERR_INIT;
    w->call = (struct call){.over = false};
    assert_int_equal(control_client_get(w->client, CONTROL_RULES, trouble, on_reply, &w->call, &e),
                     0);
    run_until(w->f.api->loop, &w->call.over);
}

static void what_rulesync_says_is_told(void **state)
{
    struct world *w = *state;
    struct reload_source source;
    unsigned changes = 0;
    char large[ERR_MSG_MAX];
    start_with_socket(w);
    reload_on_changed(w->reload, on_changed, &changes);
    reload_source(w->reload, &source);
    assert_false(source.known);
    say(w, NULL);
    reload_source(w->reload, &source);
    assert_false(source.known);
    say(w, "");
    reload_source(w->reload, &source);
    assert_true(source.known);
    assert_string_equal(source.trouble, "");
    assert_int_equal(changes, 1);
    say(w, "");
    assert_int_equal(changes, 1);
    say(w, "no \xff key");
    reload_source(w->reload, &source);
    assert_string_equal(source.trouble, "no \xef\xbf\xbd key");
    assert_int_equal(changes, 2);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    say(w, large);
    reload_source(w->reload, &source);
    assert_int_equal(strlen(source.trouble), RELOAD_TROUBLE_MAX);
    put(w, document(1, "a"));
    assert_int_equal(w->call.error.code, 0);
    assert_int_equal(changes, 3 + 2); /* in force, and settled */
}

/* Rules that change all the time leave it no time to ask. */
static void what_sends_rules_runs(void **state)
{
    struct world *w = *state;
    struct reload_source source;
    struct net_loop *l = w->f.api->loop;
    enum { SILENCE_MS = 30000 };
    start_with_socket(w);
    say(w, "");
    run_for(l, 5);
    uint64_t before = net_loop_now(l);
    put(w, document(1, "a"));
    l->uv.time = before + SILENCE_MS;
    reload_source(w->reload, &source);
    assert_string_equal(source.trouble, "");
    l->uv.time += 2 * SILENCE_MS;
    reload_source(w->reload, &source);
    assert_string_equal(source.trouble, "rulesync has not asked for a while: does it run?");
    uv_update_time(&l->uv);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(only_newer_rules_of_the_shard_come_into_force),
        TEST(void_rules_give_way),
        TEST(a_call_waits_until_writes_are_over),
        TEST(a_call_does_not_wait_for_long),
        TEST(a_call_does_not_wait_in_vain),
        TEST(who_waits_may_leave),
        TEST(none_come_into_force_while_it_shuts_down),
        TEST(the_file_is_read_at_the_start_and_again),
        TEST(what_rulesync_says_is_told),
        TEST(what_sends_rules_runs),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
