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

static void on_trouble(void *data, enum source_trouble trouble, const struct err *e)
{
    struct fixture *f = data;
    f->trouble = trouble;
    (void)snprintf(f->error, sizeof f->error, "%s", e != NULL ? e->msg : "");
    f->news = true;
}

static const struct source_handlers handlers = {.offer = on_offer, .trouble = on_trouble};

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
    struct fixture *f = calloc(1, sizeof *f);
    struct net_loop *l = NULL;
    log_init("test", LOG_TEXT, LOG_ERROR);
    *state = f;
    if (f == NULL || loop_setup((void **)&l) != 0 || !store_open(&f->store, l)) {
        return -1;
    }
    f->trouble = SOURCE_TROUBLES;
    store_put_text(&f->store, "configmaps", "demo",
                   "{\"metadata\":{\"name\":\"other\"},\"data\":%s}", DATA("of another"));
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct net_loop *l = f->store.api.loop;
    source_configmap_free(f->source);
    store_close(&f->store);
    free(f);
    return loop_free(l);
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(takes_what_is_there_and_what_comes),
        TEST(says_what_is_missing),
        TEST(says_what_is_forbidden),
        TEST(survives_the_server),
        TEST(looks_when_told_to),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
