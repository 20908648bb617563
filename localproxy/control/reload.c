/* SPDX-License-Identifier: Apache-2.0 */
#include "control/reload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/utf8.h"
#include "control/control.h"
#include "control/documents.h"
#include "net/clock.h"
#include "net/deadline.h"

enum {
    SETTLE_MS = 5000, /* how long a call waits for writes to what its rules took away */
    HEARD_MS = 30000, /* rulesync asks every 5 s */
};

struct reload {
    struct net_loop *loop;
    const struct localproxy_flags *flags;
    struct proxy *proxy;
    struct metrics *metrics;
    struct control *control;
    struct list waiting; /* calls whose rules are in force, but not settled */
    struct net_deadline settle;
    uint64_t heard_at; /* rulesync */
    struct reload_source source;
    reload_changed_cb on_changed; /* NULL: nobody wants to know */
    void *changed_data;
};

static void log_rules(const char *what, const struct rules *rules)
{
    log_info(what, log_str("namespace", rules_shard_namespace(rules)),
             log_str("shard", rules_shard_name(rules)),
             log_num("generation", (int64_t)rules_generation(rules)),
             log_str("checksum", rules_checksum(rules)),
             log_num("limits", (int64_t)rules_limit_count(rules)));
}

/* ---- the file ---- */

static struct rules *read_rules(const char *path, struct err *e)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct rules *rules = NULL;
    if (file_read(path, &text, e) == 0) {
        rules = rules_parse((const char *)buf_data(&text), text.len, e);
        if (rules == NULL) {
            err_prefix(e, "%s", path);
        }
    }
    buf_reset(&text);
    return rules;
}

/* Why there are no rules, and when they will be looked for again. */
static void explain_file(const struct reload *r, const struct err *e)
{
    char why[ERR_MSG_MAX + 128];
    (void)snprintf(
        why, sizeof why, "%s%s", e->msg,
        r->flags->control != NULL ? "" : " (--rules is read at the start, and again on SIGHUP)");
    proxy_explain_no_rules(r->proxy, why);
}

static void load_file(struct reload *r)
{
    struct err e = ERR_INIT;
    const struct localproxy_flags *c = r->flags;
    if (c->rules == NULL && c->control != NULL) {
        proxy_explain_no_rules(r->proxy, "none received on the control socket yet");
        return;
    }
    if (c->rules == NULL) {
        log_warn("no rules: requests are not filtered (--no-rules=passthrough)");
        return;
    }
    struct rules *rules = read_rules(c->rules, &e);
    if (rules == NULL) {
        explain_file(r, &e);
        if (e.code == -ENOENT && c->control != NULL) {
            log_info("no rules yet: waiting for them on the control socket",
                     log_str("rules", c->rules), log_str("control", c->control));
            return;
        }
        log_error("no valid rules", log_str("error", e.msg),
                  log_str("effect", c->no_rules == NO_RULES_BLOCK
                                        ? "resource requests are answered with 503"
                                        : "requests are not filtered"));
        return;
    }
    proxy_set_rules(r->proxy, rules);
    proxy_ask_start_version(r->proxy);
    log_rules("rules are in force", rules);
    rules_unref(rules);
}

/* ---- the control socket ---- */

static bool same_shard(const struct rules *a, const struct rules *b)
{
    return strcmp(rules_shard_name(a), rules_shard_name(b)) == 0 &&
           strcmp(rules_shard_namespace(a), rules_shard_namespace(b)) == 0;
}

/* Whether they may take the place of those in force. 1: they are the same. */
static int compare_with_current(const struct rules *new, const struct rules *now, struct err *e)
{
    uint64_t generation = rules_generation(new);
    if (now == NULL) {
        return 0;
    }
    if (!same_shard(new, now)) {
        return err_set(e, -ESTALE,
                       "these are the rules of shard %s/%s, but those of shard %s/%s are in force",
                       rules_shard_namespace(new), rules_shard_name(new),
                       rules_shard_namespace(now), rules_shard_name(now));
    }
    if (rules_older_than(new, rules_generation(now))) {
        return err_set(e, -ESTALE,
                       "generation %" PRIu64 " is older than generation %" PRIu64
                       ", which is in force",
                       generation, rules_generation(now));
    }
    bool equal = strcmp(rules_checksum(new), rules_checksum(now)) == 0;
    if (generation == rules_generation(now) && !equal) {
        return err_set(e, -ESTALE,
                       "generation %" PRIu64
                       " is in force with other rules (%s): rules that change "
                       "need a higher generation",
                       generation, rules_checksum(now));
    }
    return generation == rules_generation(now) ? 1 : 0;
}

static void answer_all(struct reload *r)
{
    net_deadline_clear(&r->settle);
    while (!list_empty(&r->waiting)) {
        struct control_call *call = LIST_ITEM(r->waiting.next, struct control_call, link);
        list_remove(&call->link);
        control_done(call, call->changed);
    }
}

static void tell_changed(const struct reload *r)
{
    if (r->on_changed != NULL) {
        r->on_changed(r->changed_data);
    }
}

/* What would be waited for in vain is not. */
static void answer_if_it_is_time(struct reload *r)
{
    if (proxy_settled(r->proxy) || !proxy_may_settle(r->proxy, SETTLE_MS)) {
        answer_all(r);
    }
}

static void on_settled(void *data)
{
    struct reload *r = data;
    answer_if_it_is_time(r);
    tell_changed(r);
}

/* A write may take a minute. Who asked is told that there are some. */
static void on_settle(struct net_deadline *d)
{
    struct reload *r = LIST_ITEM(d, struct reload, settle);
    log_warn("new rules are in force, but writes to what they took away may still be executed",
             log_num("writes", (int64_t)proxy_lost_writes(r->proxy)));
    answer_all(r);
}

/* `call`: who waits until they are settled; NULL: nobody. */
static int put_in_force(struct reload *r, struct rules *rules, struct control_call *call,
                        struct err *e)
{
    const struct rules *now = proxy_rules(r->proxy);
    int rc = compare_with_current(rules, now, e);
    if (rc < 0) {
        return rc;
    }
    if (call != NULL) {
        call->changed = rc == 0;
        if (list_empty(&r->waiting)) {
            net_deadline_set(r->loop, &r->settle, SETTLE_MS);
        }
        list_append(&r->waiting, &call->link);
    }
    if (rc == 0) {
        r->metrics->reloads += now != NULL ? 1 : 0;
        log_rules("new rules are in force", rules);
        proxy_set_rules(r->proxy, rules);
        proxy_ask_start_version(r->proxy);
        tell_changed(r);
    } else if (call == NULL) {
        log_info("the rules have not changed");
    }
    answer_if_it_is_time(r);
    return 0;
}

/* Takes over the caller's reference to the rules; NULL: `e` says why there are none. */
static int take_rules(struct reload *r, struct rules *rules, struct control_call *call,
                      struct err *e)
{
    uint64_t begun = net_clock_ns();
    int rc = rules != NULL ? put_in_force(r, rules, call, e) : e->code;
    rules_unref(rules);
    if (rc == 0) {
        r->metrics->reload_us = (net_clock_ns() - begun) / 1000;
    } else {
        r->metrics->reloads_refused++;
        log_error(proxy_rules(r->proxy) != NULL ? "refused new rules, keeping those in force"
                                                : "no valid rules",
                  log_str("error", e->msg));
    }
    return rc;
}

static int on_reload(void *data, struct slice text, struct control_call *call, struct err *e)
{
    struct reload *r = data;
    r->heard_at = net_loop_now(r->loop); /* who sends rules asks later for once */
    if (proxy_draining(r->proxy)) {
        return err_set(e, -ESHUTDOWN, "localproxy is shutting down");
    }
    return take_rules(r, rules_parse(text.ptr, text.len, e), call, e);
}

void reload_read_again(struct reload *r)
{
    struct err e = ERR_INIT;
    if (r->flags->rules == NULL || proxy_draining(r->proxy)) {
        log_info("received SIGHUP, but there are no rules to read again");
        return;
    }
    log_info("received SIGHUP, reading the rules again", log_str("rules", r->flags->rules));
    if (take_rules(r, read_rules(r->flags->rules, &e), NULL, &e) != 0 &&
        proxy_rules(r->proxy) == NULL) {
        explain_file(r, &e);
    }
}

static void on_describe(void *data, struct control_state *out)
{
    const struct reload *r = data;
    control_state_set(out, proxy_rules(r->proxy), proxy_facts(r->proxy).rules_since,
                      proxy_facts(r->proxy).why_no_rules);
    out->unsettled = out->enforcing && !proxy_settled(r->proxy);
}

/* It may quote what is no UTF-8, and is cut. */
static void on_heard(void *data, const char *trouble)
{
    struct reload *r = data;
    struct reload_source before = r->source;
    struct buf clean = BUF_INIT(sizeof before.trouble);
    struct slice text = slice_of(trouble, strnlen(trouble, RELOAD_TROUBLE_MAX));
    const char *valid = utf8_append_valid(&clean, text) == 0 ? buf_cstr(&clean) : NULL;
    (void)snprintf(r->source.trouble, sizeof r->source.trouble, "%s",
                   valid != NULL ? valid : "out of memory");
    buf_reset(&clean);
    r->source.known = true;
    r->heard_at = net_loop_now(r->loop);
    if (!before.known || strcmp(before.trouble, r->source.trouble) != 0) {
        tell_changed(r);
    }
}

void reload_source(const struct reload *r, struct reload_source *out)
{
    *out = r->source;
    if (out->known && net_loop_now(r->loop) - r->heard_at > HEARD_MS) {
        (void)snprintf(out->trouble, sizeof out->trouble,
                       "rulesync has not asked for a while: does it run?");
    }
}

static void on_forget(void *data, struct control_call *call)
{
    (void)data;
    list_remove(&call->link);
}

static const struct control_handlers control_handlers = {
    .reload = on_reload,
    .describe = on_describe,
    .heard = on_heard,
    .forget = on_forget,
};

struct reload *reload_new(struct net_loop *l, const struct localproxy_flags *config,
                          struct proxy *proxy, struct metrics *metrics, struct err *e)
{
    struct reload *r = calloc(1, sizeof *r);
    if (r == NULL) {
        err_memory(e);
        return NULL;
    }
    r->loop = l;
    r->flags = config;
    r->proxy = proxy;
    r->metrics = metrics;
    list_init(&r->waiting);
    net_deadline_init(&r->settle, on_settle);
    load_file(r);
    proxy_on_settled(proxy, on_settled, r);
    if (config->control != NULL) {
        r->control = control_new(l, config->control, &control_handlers, r, e);
        if (r->control == NULL) {
            err_prefix(e, "--control");
            reload_free(r);
            return NULL;
        }
    }
    return r;
}

void reload_serve_traffic(struct reload *r, struct documents *d)
{
    if (r->control != NULL) {
        control_serve(r->control, CONTROL_TRAFFIC, &documents_handlers, d);
    }
}

void reload_on_changed(struct reload *r, reload_changed_cb cb, void *data)
{
    r->on_changed = cb;
    r->changed_data = data;
}

void reload_free(struct reload *r)
{
    if (r != NULL) {
        proxy_on_settled(r->proxy, NULL, NULL);
        control_free(r->control);
        net_deadline_clear(&r->settle);
        free(r);
    }
}
