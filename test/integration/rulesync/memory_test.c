/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation fails once: nothing crashes, nothing leaks, and in the end the rules, and the
 * traffic policies, are enforced all the same.
 */
#include "loop_fixture.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/log.h"
#include "pipeline.h"
#include "rulesync_proxy.h"
#include "source_dir.h"
#include "temp_dir.h"

struct world {
    struct net_loop *loop;
    struct temp_dir dir;
    char mount[256];
    char stored[256];
    char stored_traffic[256];
    char socket[256];
    struct proxy_double proxy;
};

static int setup(void **state)
{
    static struct world w;
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&w.dir);
    assert_int_equal(mkdir(temp_dir_path(&w.dir, "mount", w.mount), 0755), 0);
    (void)temp_dir_path(&w.dir, "stored.json", w.stored);
    (void)temp_dir_path(&w.dir, SOURCE_TRAFFIC_KEY, w.stored_traffic);
    (void)temp_dir_path(&w.dir, "control.sock", w.socket);
    w.proxy = (struct proxy_double){.loop = w.loop, .path = w.socket};
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    proxy_double_stop(&w->proxy);
    int rc = loop_free(w->loop);
    temp_dir_deinit(&w->dir);
    return rc;
}

static bool enforced(struct pipeline *s)
{
    char why[ERR_MSG_MAX + 64];
    return pipeline_ready(s, why, sizeof why) && !pipeline_status(s)->copy->trouble.open;
}

static bool follow(struct world *w, struct pipeline *s)
{
    struct source_dir_options o = {.path = w->mount, .look_ms = 20, .retry_ms = 5};
    struct err e = ERR_INIT;
    struct source_dir *source = source_dir_new(w->loop, &o, &pipeline_handlers, s, &e);
    if (source == NULL) {
        return false;
    }
    for (unsigned i = 0; i < 1000 && !enforced(s); i++) {
        run_for(w->loop, 2);
    }
    assert_true(enforced(s));
    source_dir_free(source);
    return true;
}

static bool start_and_follow(void *data)
{
    struct world *w = data;
    struct err e = ERR_INIT;
    struct pipeline_options o = {
        .to = w->stored,
        .control = w->socket,
        .delivery = {.check_ms = 10, .retry_min_ms = 2, .retry_max_ms = 4, .refused_ms = 20},
    };
    proxy_double_enforce(&w->proxy, NULL);
    (void)unlink(w->stored);
    struct pipeline *s = pipeline_new(w->loop, &o, &e);
    if (s == NULL) {
        assert_int_equal(e.code, -ENOMEM);
        return false;
    }
    bool well = follow(w, s);
    pipeline_free(s);
    run_for(w->loop, 5);
    return well;
}

static void write_rules(struct world *w)
{
    temp_dir_write(&w->dir, "mount/rules.json",
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"ns\",\"name\":\"a\"},\"generation\":7,\"spec\":{\"limits\":[]}}",
                   0644);
}

static void write_traffic(struct world *w)
{
    temp_dir_write(&w->dir, "mount/traffic.json",
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{"
                   "\"namespace\":\"ns\",\"name\":\"a\"},\"generation\":3,\"spec\":{}}",
                   0644);
}

static void every_allocation_may_fail(void **state)
{
    struct world *w = *state;
    write_rules(w);
    proxy_double_start(&w->proxy);
    long count = sweep_allocations(start_and_follow, w);
    assert_true(count > 30);
}

/* ---- traffic policies ---- */

static bool in_force(const struct world *w, const struct pipeline *s)
{
    const struct pipeline_status *st = pipeline_status(s);
    return st->delivery->verdict == DELIVERY_CONFIRMED && !st->copy->trouble.open &&
           (proxy_double_traffic(&w->proxy) == 3 || st->none);
}

static bool wait_in_force(struct world *w, const struct pipeline *s)
{
    for (unsigned i = 0; i < 1000 && !in_force(w, s); i++) {
        run_for(w->loop, 2);
    }
    return in_force(w, s);
}

/* Policies come, and go again. */
static bool follow_traffic(struct world *w, struct pipeline *rules, struct pipeline *s)
{
    char path[512];
    struct source_dir_options o = {
        .path = w->mount,
        .look_ms = 20,
        .settle_ms = 1,
        .retry_ms = 5,
        .traffic = {.handlers = &pipeline_handlers, .data = s},
    };
    struct err e = ERR_INIT;
    struct source_dir *source = source_dir_new(w->loop, &o, &pipeline_handlers, rules, &e);
    if (source == NULL) {
        return false;
    }
    assert_true(wait_in_force(w, s));
    assert_int_equal(proxy_double_traffic(&w->proxy), 3);
    (void)snprintf(path, sizeof path, "%s/" SOURCE_TRAFFIC_KEY, w->mount);
    assert_int_equal(unlink(path), 0);
    for (unsigned i = 0; i < 1000 && !pipeline_status(s)->none; i++) {
        run_for(w->loop, 2);
    }
    assert_true(wait_in_force(w, s));
    assert_int_equal(proxy_double_traffic(&w->proxy), 0);
    source_dir_free(source);
    return true;
}

static bool start_and_follow_traffic(void *data)
{
    struct world *w = data;
    struct err e = ERR_INIT;
    struct pipeline_options o = {
        .to = w->stored,
        .control = w->socket,
        .delivery = {.check_ms = 10, .retry_min_ms = 2, .retry_max_ms = 4, .refused_ms = 20},
    };
    bool well = false;
    proxy_double_enforce(&w->proxy, NULL);
    proxy_double_enforce_traffic(&w->proxy, NULL);
    (void)unlink(w->stored);
    (void)unlink(w->stored_traffic);
    write_traffic(w);
    struct pipeline *rules = pipeline_new(w->loop, &o, &e);
    o.document = CONTROL_TRAFFIC;
    o.to = w->stored_traffic;
    o.rules = rules;
    struct pipeline *s = rules != NULL ? pipeline_new(w->loop, &o, &e) : NULL;
    if (s != NULL) {
        well = follow_traffic(w, rules, s);
    } else {
        assert_int_equal(e.code, -ENOMEM);
    }
    pipeline_free(s);
    pipeline_free(rules);
    run_for(w->loop, 5);
    return well;
}

static void every_allocation_for_traffic_may_fail(void **state)
{
    struct world *w = *state;
    write_rules(w);
    w->proxy.traffic.known = true;
    proxy_double_start(&w->proxy);
    long count = sweep_allocations(start_and_follow_traffic, w);
    assert_true(count > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_for_traffic_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
