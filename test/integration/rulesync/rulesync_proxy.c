/* SPDX-License-Identifier: Apache-2.0 */
#include "rulesync_proxy.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "control/control.h"
#include "loop_fixture.h"

struct rules *proxy_rules_make(unsigned generation, const char *shard, const char *spare)
{
    char text[512];
    struct err e = ERR_INIT;
    int len = snprintf(text, sizeof text,
                       "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                       "\"namespace\":\"ns\",\"name\":\"%s\"},\"generation\":%u,\"spec\":"
                       "{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],"
                       "\"selector\":\"a=%s\"}]}}",
                       shard, generation, spare);
    struct rules *r = rules_parse(text, (size_t)len, &e);
    assert_non_null(r);
    return r;
}

void proxy_double_enforce(struct proxy_double *p, struct rules *r)
{
    rules_unref(p->enforced);
    p->enforced = r;
}

unsigned proxy_double_enforced(const struct proxy_double *p)
{
    return p->enforced == NULL ? 0 : (unsigned)rules_generation(p->enforced);
}

static int obey(struct proxy_double *p, struct rules *r, struct control_call *call, struct err *e)
{
    if (rules_older_than(r, proxy_double_enforced(p))) {
        rules_unref(r);
        return err_set(e, -ESTALE, "it is older");
    }
    proxy_double_enforce(p, r);
    control_done(call, true);
    return 0;
}

static int on_reload(void *data, struct slice text, struct control_call *call, struct err *e)
{
    struct proxy_double *p = data;
    p->puts++;
    if (p->mood == REFUSE || p->mood == DELAY) {
        return p->mood == REFUSE ? err_set(e, -EINVAL, "I do not like it")
                                 : err_set(e, -EAGAIN, "later");
    }
    struct rules *r = rules_parse(text.ptr, text.len, e);
    if (r == NULL) {
        return e->code;
    }
    if (p->mood == OBEY) {
        return obey(p, r, call, e);
    }
    if (p->mood == HOLD) {
        assert_null(p->held);
        p->held = call;
        p->held_rules = r;
        return 0;
    }
    rules_unref(r);
    control_done(call, true);
    return 0;
}

static void on_describe(void *data, struct control_state *out)
{
    struct proxy_double *p = data;
    p->gets++;
    control_state_set(out, p->enforced, time(NULL), "none came");
}

static void on_forget(void *data, struct control_call *call)
{
    struct proxy_double *p = data;
    if (p->held == call) {
        p->held = NULL;
        rules_unref(p->held_rules);
        p->held_rules = NULL;
    }
}

static void on_heard(void *data, const char *trouble)
{
    struct proxy_double *p = data;
    p->heard++;
    (void)snprintf(p->trouble, sizeof p->trouble, "%s", trouble);
}

/* ---- traffic policies ---- */

struct traffic *proxy_traffic_make(unsigned generation, const char *shard, const char *name)
{
    char text[1024];
    struct err e = ERR_INIT;
    int len = snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{"
        "\"namespace\":\"ns\",\"name\":\"%s\"},\"generation\":%u,\"spec\":"
        "{\"faults\":[{\"name\":\"%s\",\"spec\":{\"selector\":{},\"httpFault\":[{\"name\":\"r\","
        "\"match\":{\"resources\":[{\"resources\":[\"pods\"]}]},\"abort\":{\"httpStatus\":503,"
        "\"percent\":\"0.001\"}}]}}]}}",
        shard, generation, name);
    struct traffic *t = traffic_parse(text, (size_t)len, &e);
    if (t == NULL) {
        fail_msg("%s", e.msg);
    }
    return t;
}

void proxy_double_enforce_traffic(struct proxy_double *p, struct traffic *t)
{
    traffic_unref(p->traffic.enforced);
    p->traffic.enforced = t;
}

unsigned proxy_double_traffic(const struct proxy_double *p)
{
    const struct traffic *t = p->traffic.enforced;
    return t == NULL ? 0 : (unsigned)traffic_generation(t);
}

static int refuse_traffic(const struct proxy_traffic *t, struct err *e)
{
    if (t->mood == REFUSE) {
        return err_set(e, -ESTALE, "of another shard");
    }
    return t->mood == DELAY ? err_set(e, -EAGAIN, "later") : 0;
}

static int on_reload_traffic(void *data, struct slice text, struct control_call *call,
                             struct err *e)
{
    struct proxy_double *p = data;
    p->traffic.puts++;
    if (refuse_traffic(&p->traffic, e) != 0) {
        return e->code;
    }
    struct traffic *t = traffic_parse(text.ptr, text.len, e);
    if (t == NULL) {
        return e->code;
    }
    if (p->traffic.mood == OBEY) {
        proxy_double_enforce_traffic(p, t);
    } else {
        traffic_unref(t);
    }
    control_done(call, true);
    return 0;
}

static int on_remove_traffic(void *data, struct err *e)
{
    struct proxy_double *p = data;
    p->traffic.removals++;
    if (refuse_traffic(&p->traffic, e) != 0) {
        return e->code;
    }
    proxy_double_enforce_traffic(p, NULL);
    return 0;
}

static void on_describe_traffic(void *data, struct control_state *out)
{
    struct proxy_double *p = data;
    p->traffic.gets++;
    control_state_set_traffic(out, p->traffic.enforced, time(NULL), NULL);
}

static void on_heard_traffic(void *data, const char *trouble)
{
    struct proxy_double *p = data;
    (void)snprintf(p->traffic.trouble, sizeof p->traffic.trouble, "%s", trouble);
}

static const struct control_handlers traffic_handlers = {
    .reload = on_reload_traffic,
    .remove = on_remove_traffic,
    .describe = on_describe_traffic,
    .heard = on_heard_traffic,
};

/* ---- life ---- */

static const struct control_handlers handlers = {
    .reload = on_reload,
    .describe = on_describe,
    .heard = on_heard,
    .forget = on_forget,
};

void proxy_double_start(struct proxy_double *p)
{
    struct err e = ERR_INIT;
    p->control = control_new(p->loop, p->path, &handlers, p, &e);
    if (p->control == NULL) {
        fail_msg("%s", e.msg);
    }
    if (p->traffic.known) {
        control_serve(p->control, CONTROL_TRAFFIC, &traffic_handlers, p);
    }
}

void proxy_double_stop(struct proxy_double *p)
{
    control_free(p->control);
    p->control = NULL;
    proxy_double_enforce(p, NULL);
    proxy_double_enforce_traffic(p, NULL);
}

void proxy_double_restart(struct proxy_double *p, struct rules *stored)
{
    proxy_double_stop(p);
    proxy_double_enforce(p, stored);
    proxy_double_start(p);
}

void proxy_double_release(struct proxy_double *p)
{
    struct control_call *call = p->held;
    proxy_double_enforce(p, p->held_rules);
    p->held = NULL;
    p->held_rules = NULL;
    control_done(call, true);
}
