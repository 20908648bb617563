/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMap source against an API server that has the ConfigMap, or has not.
 */
#include "storing_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "source_configmap.h"

struct fixture {
    struct storing_api store;
    struct source_configmap *source;
    /* what the source told */
    char place[256];
    char text[256];
    char error[ERR_MSG_MAX];
    enum source_trouble trouble;
    unsigned offers;
    bool news;
    /* what it told of traffic policies */
    bool traffic_wanted;
    char traffic[1024]; /* with its place; or "none", or what is wrong */
};

/* `content` is "data" as JSON; NULL: the ConfigMap is deleted. */
static void publish(struct fixture *f, const char *content)
{
    if (content == NULL) {
        store_delete(&f->store, "configmaps", "demo", "rules");
        return;
    }
    store_put_text(&f->store, "configmaps", "demo",
                   "{\"metadata\":{\"name\":\"rules\"},\"data\":%s}", content);
}

/* ---- what the source tells ---- */

static int on_offer(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct fixture *f = data;
    (void)snprintf(f->place, sizeof f->place, "%s", place);
    (void)snprintf(f->text, sizeof f->text, "%.*s", (int)text.len, text.ptr);
    assert_true(final);
    assert_int_equal(f->trouble, SOURCE_FINE);
    f->offers++;
    f->news = true;
    return f->offers % 2 == 0 ? err_set(e, -EINVAL, "whatever") : 0;
}

static void on_trouble(void *data, enum source_trouble trouble, const struct err *e,
                       enum log_level level)
{
    (void)level;
    struct fixture *f = data;
    f->trouble = trouble;
    (void)snprintf(f->error, sizeof f->error, "%s", e != NULL ? e->msg : "");
    f->news = true;
}

static const struct source_handlers handlers = {.offer = on_offer, .trouble = on_trouble};

static int on_traffic(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct fixture *f = data;
    (void)e;
    assert_true(final);
    (void)snprintf(f->traffic, sizeof f->traffic, "%s: %.*s", place, (int)text.len, text.ptr);
    f->news = true;
    return 0;
}

static void on_traffic_trouble(void *data, enum source_trouble trouble, const struct err *e,
                               enum log_level level)
{
    (void)level;
    struct fixture *f = data;
    if (trouble != SOURCE_FINE) {
        (void)snprintf(f->traffic, sizeof f->traffic, "trouble %d: %s", (int)trouble, e->msg);
        f->news = true;
    }
}

static void on_no_traffic(void *data)
{
    struct fixture *f = data;
    (void)snprintf(f->traffic, sizeof f->traffic, "none");
    f->news = true;
}

static const struct source_handlers traffic_handlers = {
    .offer = on_traffic,
    .trouble = on_traffic_trouble,
    .none = on_no_traffic,
};

static void wait_traffic(struct fixture *f, const char *words)
{
    while (strstr(f->traffic, words) == NULL) {
        f->news = false;
        run_until(f->store.api.loop, &f->news);
    }
}

static void wait_text(struct fixture *f, const char *text)
{
    while (f->trouble != SOURCE_FINE || strcmp(f->text, text) != 0) {
        f->news = false;
        run_until(f->store.api.loop, &f->news);
    }
}

static void wait_trouble(struct fixture *f, enum source_trouble trouble, const char *words)
{
    while (f->trouble != trouble || strstr(f->error, words) == NULL) {
        f->news = false;
        run_until(f->store.api.loop, &f->news);
    }
}

#define DATA(text) "{\"rules.json\":\"" text "\",\"other\":\"x\"}"

static int setup(void **state)
{
    log_init("test", LOG_TEXT, LOG_ERROR);
    if (store_setup(state, sizeof(struct fixture)) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    f->trouble = SOURCE_TROUBLES;
    store_put_text(&f->store, "configmaps", "demo",
                   "{\"metadata\":{\"name\":\"other\"},\"data\":%s}", DATA("of another"));
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    source_configmap_free(f->source);
    return store_teardown(state);
}

static void start(struct fixture *f, const char *content)
{
    struct err e = ERR_INIT;
    if (content != NULL) {
        publish(f, content);
    }
    f->source = source_configmap_new(f->store.api.loop, f->store.api.client, "demo/rules",
                                     &handlers, f, &e);
    assert_non_null(f->source);
    if (f->traffic_wanted) {
        const struct source_taker taker = {.handlers = &traffic_handlers, .data = f};
        source_configmap_take_traffic(f->source, &taker);
    }
}

static void takes_what_is_there_and_what_comes(void **state)
{
    struct fixture *f = *state;
    start(f, DATA("one"));
    wait_text(f, "one");
    assert_string_equal(f->place, "configmap demo/rules key rules.json");
    publish(f, DATA("two"));
    wait_text(f, "two");
    publish(f, DATA("three"));
    wait_text(f, "three");
    assert_int_equal(f->offers, 3);
}

static void says_what_is_missing(void **state)
{
    struct fixture *f = *state;
    start(f, NULL);
    wait_trouble(f, SOURCE_MISSING,
                 "configmap demo/rules key rules.json: the ConfigMap does not exist");
    publish(f, "{\"rules.yaml\":\"x\"}");
    wait_trouble(f, SOURCE_MISSING, "has no such key");
    publish(f, "null");
    wait_trouble(f, SOURCE_MISSING, "has no such key");
    publish(f, DATA("one"));
    wait_text(f, "one");
    publish(f, NULL);
    wait_trouble(f, SOURCE_MISSING, "was deleted");
    publish(f, DATA("two"));
    wait_text(f, "two");
}

static void forbid(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 403, NULL,
               "{\"kind\":\"Status\",\"message\":\"no such right\",\"code\":403,\"reason\":"
               "\"Forbidden\",\"status\":\"Failure\"}");
}

static void says_what_is_forbidden(void **state)
{
    struct fixture *f = *state;
    void (*serve)(struct scripted_api *, struct api_request *) = f->store.api.serve;
    f->store.api.serve = forbid;
    start(f, DATA("one"));
    wait_trouble(f, SOURCE_UNREACHABLE, "no such right");
    f->store.api.serve = serve;
    wait_text(f, "one");
}

/* The trouble that was there before is told again once the server is back. */
static void survives_the_server(void **state)
{
    struct fixture *f = *state;
    start(f, NULL);
    wait_trouble(f, SOURCE_MISSING, "does not exist");
    api_stop(&f->store.api);
    wait_trouble(f, SOURCE_UNREACHABLE, "");
    assert_true(api_listen(&f->store.api));
    wait_trouble(f, SOURCE_MISSING, "does not exist");
    publish(f, DATA("one"));
    wait_text(f, "one");
}

static void looks_when_told_to(void **state)
{
    struct fixture *f = *state;
    start(f, DATA("one"));
    wait_text(f, "one");
    source_configmap_look(f->source);
    for (unsigned i = 0; i < 400 && f->offers < 2; i++) {
        run_for(f->store.api.loop, 10);
    }
    assert_int_equal(f->offers, 2);
    assert_int_equal(f->store.lists, 2);
    publish(f, DATA("two"));
    wait_text(f, "two");
}

static void tells_of_traffic_policies_beside_rules(void **state)
{
    struct fixture *f = *state;
    f->traffic_wanted = true;
    start(f, DATA("one"));
    wait_traffic(f, "none");
    publish(f, "{\"rules.json\":\"one\",\"traffic.json\":\"abc\"}");
    wait_traffic(f, "configmap demo/rules key traffic.json: abc");
    publish(f, "{\"traffic.json\":\"def\"}");
    wait_traffic(f, "key traffic.json: def");
    wait_trouble(f, SOURCE_MISSING, "has no such key");
    publish(f, DATA("two"));
    wait_traffic(f, "none");
    wait_text(f, "two");
}

/* What is no ConfigMap of ours any more says nothing of them. */
static void a_configmap_that_is_gone_says_nothing_of_traffic_policies(void **state)
{
    struct fixture *f = *state;
    f->traffic_wanted = true;
    start(f, NULL);
    wait_traffic(f, "configmap demo/rules key traffic.json: the ConfigMap does not exist");
    publish(f, "{\"other\":\"x\"}");
    wait_traffic(f, "the ConfigMap has neither this key nor rules.json");
    publish(f, "{\"rules.json\":\"one\",\"traffic.json\":\"abc\"}");
    wait_traffic(f, "key traffic.json: abc");
    publish(f, NULL);
    wait_traffic(f, "was deleted");
    api_stop(&f->store.api);
    wait_trouble(f, SOURCE_UNREACHABLE, "");
    wait_traffic(f, "trouble 3: ");
    assert_true(api_listen(&f->store.api));
    wait_traffic(f, "was deleted");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(takes_what_is_there_and_what_comes),
        TEST(says_what_is_missing),
        TEST(says_what_is_forbidden),
        TEST(survives_the_server),
        TEST(looks_when_told_to),
        TEST(tells_of_traffic_policies_beside_rules),
        TEST(a_configmap_that_is_gone_says_nothing_of_traffic_policies),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
