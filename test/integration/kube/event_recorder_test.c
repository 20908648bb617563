/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events against a scripted API server. With a random number of 0 the pauses after failures are
 * 500, 1000, 2000, ... ms.
 */
#include "kube/client/event_recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "scripted_api.h"
#include "json/json.h"

#define EVENTS "/api/v1/namespaces/ns/events"

struct user {
    struct scripted_api api;
    struct event_recorder *recorder;
    bool flushed;
    bool free_when_flushed;
    /* of a server that answers by itself */
    unsigned created;
    unsigned patched;
};

static const struct event_object thing = {
    .api_version = "a/v1", .kind = "Thing", .namespace = "ns", .name = "x", .uid = "u"};

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    if (u == NULL || loop_setup((void **)&l) != 0 || !api_open(&u->api, l)) {
        return -1;
    }
    struct event_recorder_options o = {.client = u->api.client,
                                       .component = "tester",
                                       .host = "pod-0",
                                       .clock = &u->api.clock.clock};
    u->recorder = event_recorder_new(l, &o);
    *state = u;
    return u->recorder == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->api.loop;
    event_recorder_free(u->recorder);
    api_close(&u->api);
    free(u);
    return loop_free(l);
}

static struct api_request *expect_request(struct user *u, const char *method, const char *target)
{
    fake_clock_pass(&u->api.clock, 0);
    return api_expect(&u->api, method, target);
}

static const char *member(const struct api_request *q, const char *key)
{
    static char texts[4][2048];
    static unsigned next;
    char *text = texts[next++ % 4];
    cJSON *body = json_parse(q->body, strlen(q->body), NULL);
    const cJSON *item = cJSON_GetObjectItem(body, key);
    if (cJSON_IsNumber(item)) {
        (void)snprintf(text, sizeof texts[0], "%d", item->valueint);
    } else {
        const char *value = cJSON_GetStringValue(item);
        (void)snprintf(text, sizeof texts[0], "%s", value == NULL ? "" : value);
    }
    cJSON_Delete(body);
    return text;
}

static const char *name_of(const struct api_request *q)
{
    static char text[256];
    cJSON *body = json_parse(q->body, strlen(q->body), NULL);
    const cJSON *metadata = cJSON_GetObjectItem(body, "metadata");
    (void)snprintf(text, sizeof text, "%s",
                   cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "name")));
    cJSON_Delete(body);
    return text;
}

static void accept_event(struct api_request *q)
{
    api_answer(q, 201, NULL, "{\"kind\":\"Event\"}");
}

static void settle(struct user *u)
{
    fake_clock_pass(&u->api.clock, 0);
    run_for(u->api.loop, 10);
    fake_clock_pass(&u->api.clock, 0);
}

static void expect_nothing(struct user *u)
{
    settle(u);
    assert_true(list_empty(&u->api.requests));
}

/* Where the Event is that was created last. */
static const char *patch_target(const char *name)
{
    static char text[400];
    (void)snprintf(text, sizeof text, EVENTS "/%s", name);
    return text;
}

/* ---- one Event ---- */

static void test_writes_an_event(void **state)
{
    struct user *u = *state;
    event_record(u->recorder, &thing, EVENT_NORMAL, "Published", "generation %d of %s", 7, "x");
    assert_true(list_empty(&u->api.requests));
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_string_equal(
        q->body,
        "{\"apiVersion\":\"v1\",\"count\":1,\"firstTimestamp\":\"2026-01-01T00:00:00Z\","
        "\"involvedObject\":{\"apiVersion\":\"a/v1\",\"kind\":\"Thing\",\"name\":\"x\","
        "\"namespace\":\"ns\",\"uid\":\"u\"},\"kind\":\"Event\",\"lastTimestamp\":"
        "\"2026-01-01T00:00:00Z\",\"message\":\"generation 7 of x\",\"metadata\":{\"name\":"
        "\"x.18867251edfbe078\",\"namespace\":\"ns\"},\"reason\":\"Published\","
        "\"reportingComponent\":\"tester\",\"reportingInstance\":\"pod-0\",\"source\":{"
        "\"component\":\"tester\",\"host\":\"pod-0\"},\"type\":\"Normal\"}");
    accept_event(q);
    expect_nothing(u);
    assert_int_equal(event_recorder_stats(u->recorder)->written, 1);
}

static void test_of_the_cluster(void **state)
{
    struct user *u = *state;
    cJSON *object = json_parse("{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{"
                               "\"name\":\"y\",\"uid\":\"w\",\"resourceVersion\":\"5\"}}",
                               94, NULL);
    assert_non_null(object);
    struct event_object about = event_object_of(object);
    event_record(u->recorder, &about, EVENT_WARNING, "R", "m");
    cJSON_Delete(object);
    struct api_request *q = expect_request(u, "POST", "/api/v1/namespaces/default/events");
    assert_non_null(strstr(q->body, "\"involvedObject\":{\"apiVersion\":\"v1\",\"kind\":"
                                    "\"Namespace\",\"name\":\"y\",\"resourceVersion\":\"5\","
                                    "\"uid\":\"w\"}"));
    assert_string_equal(member(q, "type"), "Warning");
    accept_event(q);
}

static void test_about_nothing(void **state)
{
    struct user *u = *state;
    struct event_object about = event_object_of(NULL);
    event_record(u->recorder, &about, EVENT_NORMAL, "R", "m");
    expect_nothing(u);
    assert_int_equal(event_recorder_stats(u->recorder)->dropped, 1);
}

static void test_messages_of_any_length(void **state)
{
    struct user *u = *state;
    char text[2000] = "";
    memset(text, 'a', 1022);
    strcat(text, "\xe2\x82\xac\xe2\x82\xac"); /* the euro sign does not fit any more */
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "%s", text);
    event_record(u->recorder, &thing, EVENT_NORMAL, "S", "\xff-\xe2\x82");
    text[1022] = '\0';
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_string_equal(member(q, "message"), text);
    accept_event(q);
    q = expect_request(u, "POST", EVENTS);
    assert_string_equal(member(q, "message"), "?-??");
    accept_event(q);
}

/* ---- repeats ---- */

static void test_counts_repeats(void **state)
{
    struct user *u = *state;
    char name[256];
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_string_equal(member(q, "count"), "2");
    (void)snprintf(name, sizeof name, "%s", name_of(q));
    accept_event(q);
    expect_nothing(u);
    fake_clock_pass(&u->api.clock, 60000);
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    q = expect_request(u, "PATCH", patch_target(name));
    assert_string_equal(q->body, "{\"count\":3,\"lastTimestamp\":\"2026-01-01T00:01:00Z\","
                                 "\"message\":\"m\"}");
    assert_string_equal(q->content_type, "application/merge-patch+json");
    /* What comes while it is written is written afterwards, once. */
    for (int i = 0; i < 5; i++) {
        event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    }
    settle(u);
    api_answer(q, 200, NULL, "{}");
    q = expect_request(u, "PATCH", patch_target(name));
    assert_string_equal(member(q, "count"), "8");
    api_answer(q, 200, NULL, "{}");
    expect_nothing(u);
}

static void test_an_event_that_is_gone_is_made_again(void **state)
{
    struct user *u = *state;
    char name[256];
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    struct api_request *q = expect_request(u, "POST", EVENTS);
    (void)snprintf(name, sizeof name, "%s", name_of(q));
    accept_event(q);
    settle(u);
    fake_clock_pass(&u->api.clock, 7200000);
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    api_answer(expect_request(u, "PATCH", patch_target(name)), 404, NULL, "");
    q = expect_request(u, "POST", EVENTS);
    assert_string_equal(member(q, "count"), "2");
    assert_string_equal(member(q, "firstTimestamp"), "2026-01-01T00:00:00Z");
    assert_string_equal(member(q, "lastTimestamp"), "2026-01-01T02:00:00Z");
    assert_string_not_equal(name_of(q), name);
    accept_event(q);
    expect_nothing(u);
}

static void test_many_messages_become_one_event(void **state)
{
    struct user *u = *state;
    char name[256];
    for (int i = 0; i < 10; i++) {
        event_record(u->recorder, &thing, EVENT_WARNING, "R", "try %d", i);
        accept_event(expect_request(u, "POST", EVENTS));
    }
    event_record(u->recorder, &thing, EVENT_WARNING, "R", "try 10");
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_string_equal(member(q, "message"), "(combined from similar events): try 10");
    (void)snprintf(name, sizeof name, "%s", name_of(q));
    accept_event(q);
    settle(u);
    event_record(u->recorder, &thing, EVENT_WARNING, "R", "try 11");
    q = expect_request(u, "PATCH", patch_target(name));
    assert_string_equal(member(q, "message"), "(combined from similar events): try 11");
    assert_string_equal(member(q, "count"), "2");
    api_answer(q, 200, NULL, "{}");
    settle(u);
}

static void record_try(struct user *u, int number)
{
    event_record(u->recorder, &thing, EVENT_WARNING, "R", "try %d", number);
}

static void expect_message(struct user *u, const char *method, const char *message,
                           const char *count)
{
    struct api_request *q = expect_request(u, method, NULL);
    assert_string_equal(member(q, "message"), message);
    assert_string_equal(member(q, "count"), count);
    api_answer(q, strcmp(method, "POST") == 0 ? 201 : 200, NULL, "{}");
    settle(u);
}

static void test_known_messages_are_counted_by_themselves(void **state)
{
    struct user *u = *state;
    for (int i = 0; i < 10; i++) {
        char message[16];
        record_try(u, i);
        (void)snprintf(message, sizeof message, "try %d", i);
        expect_message(u, "POST", message, "1");
    }
    record_try(u, 10);
    expect_message(u, "POST", "(combined from similar events): try 10", "1");
    record_try(u, 3);
    expect_message(u, "PATCH", "try 3", "2");
    event_record(u->recorder, &thing, EVENT_WARNING, "S", "try 12");
    expect_message(u, "POST", "try 12", "1");
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "try 12");
    expect_message(u, "POST", "try 12", "1");
    /* While ten are younger than ten minutes. */
    fake_clock_pass(&u->api.clock, 599000);
    record_try(u, 13);
    expect_message(u, "PATCH", "(combined from similar events): try 13", "2");
    fake_clock_pass(&u->api.clock, 1000);
    record_try(u, 13);
    expect_message(u, "POST", "try 13", "1");
}

/* ---- rates ---- */

static void serve(struct scripted_api *a, struct api_request *q)
{
    struct user *u = a->data;
    bool create = strcmp(q->method, "POST") == 0;
    u->created += create ? 1 : 0;
    u->patched += create ? 0 : 1;
    api_answer(q, create ? 201 : 200, NULL, "{}");
}

static void wait_written(struct user *u, uint64_t written)
{
    for (int i = 0; i < 2000 && event_recorder_stats(u->recorder)->written < written; i++) {
        run_for(u->api.loop, 1);
        fake_clock_pass(&u->api.clock, 0);
    }
    run_for(u->api.loop, 10);
    fake_clock_pass(&u->api.clock, 0);
    assert_int_equal(event_recorder_stats(u->recorder)->written, written);
}

static void test_what_differs_is_another_event(void **state)
{
    struct user *u = *state;
    struct event_object other = thing;
    u->api.serve = serve;
    u->api.data = u;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    event_record(u->recorder, &thing, EVENT_WARNING, "R", "m");
    event_record(u->recorder, &thing, EVENT_NORMAL, "S", "m");
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "n");
    other.name = "y";
    event_record(u->recorder, &other, EVENT_NORMAL, "R", "m");
    other.kind = "Other";
    event_record(u->recorder, &other, EVENT_NORMAL, "R", "m");
    other.uid = "v";
    event_record(u->recorder, &other, EVENT_NORMAL, "R", "m");
    other.namespace = NULL;
    event_record(u->recorder, &other, EVENT_NORMAL, "R", "m");
    wait_written(u, 8);
    assert_int_equal(u->created, 8);
    other.version = "8"; /* the same object, changed */
    event_record(u->recorder, &other, EVENT_NORMAL, "R", "m");
    wait_written(u, 9);
    assert_int_equal(u->patched, 1);
}

static void test_a_retry_costs_its_object_nothing(void **state)
{
    struct user *u = *state;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    for (int i = 0; i < 3; i++) {
        api_answer(expect_request(u, "POST", EVENTS), 500, NULL, "");
        settle(u);
        fake_clock_pass(&u->api.clock, 8000);
    }
    u->api.serve = serve;
    u->api.data = u;
    accept_event(expect_request(u, "POST", EVENTS));
    for (unsigned i = 1; i < 25; i++) {
        wait_written(u, i);
        event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    }
    wait_written(u, 25);
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    wait_written(u, 25);
}

static void test_an_object_has_its_share(void **state)
{
    struct user *u = *state;
    u->api.serve = serve;
    u->api.data = u;
    for (unsigned i = 0; i < 25; i++) {
        event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
        wait_written(u, i + 1);
    }
    for (int i = 0; i < 1000; i++) {
        event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    }
    wait_written(u, 25);
    struct event_object other = thing;
    other.name = "y";
    event_record(u->recorder, &other, EVENT_NORMAL, "R", "m");
    wait_written(u, 26);
    u->api.serve = NULL;
    fake_clock_pass(&u->api.clock, 300000);
    struct api_request *q = expect_request(u, "PATCH", NULL);
    assert_string_equal(member(q, "count"), "1025");
    api_answer(q, 200, NULL, "{}");
    expect_nothing(u);
    assert_int_equal(u->created, 2);
}

static void test_all_have_a_share(void **state)
{
    struct user *u = *state;
    u->api.serve = serve;
    u->api.data = u;
    for (int i = 0; i < 150; i++) {
        char name[16];
        struct event_object about = thing;
        (void)snprintf(name, sizeof name, "x%d", i);
        about.name = name;
        event_record(u->recorder, &about, EVENT_NORMAL, "R", "m");
    }
    wait_written(u, 100);
    fake_clock_pass(&u->api.clock, 1000);
    wait_written(u, 120);
    fake_clock_pass(&u->api.clock, 1500);
    wait_written(u, 150);
    assert_int_equal(u->api.count, 150);
    /* An object's own share does not shrink while it waits for that of all. */
    for (int i = 0; i < 26; i++) {
        char reason[16];
        (void)snprintf(reason, sizeof reason, "R%d", i);
        event_record(u->recorder, &thing, EVENT_NORMAL, reason, "m");
    }
    wait_written(u, 150);
    for (int i = 0; i < 30; i++) {
        fake_clock_pass(&u->api.clock, 50);
        settle(u);
    }
    wait_written(u, 175);
}

static void test_the_oldest_are_forgotten(void **state)
{
    struct user *u = *state;
    for (int i = 0; i < EVENT_RECORDER_KEPT + 10; i++) {
        char name[16];
        struct event_object about = thing;
        (void)snprintf(name, sizeof name, "x%d", i);
        about.name = name;
        event_record(u->recorder, &about, EVENT_NORMAL, "R", "m");
    }
    assert_int_equal(event_recorder_stats(u->recorder)->dropped, 10);
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_non_null(strstr(q->body, "\"name\":\"x10\""));
    /* The one that was recorded last stays longest. */
    struct event_object again = thing;
    again.name = "x11";
    event_record(u->recorder, &again, EVENT_NORMAL, "R", "m");
    event_record(u->recorder, &thing, EVENT_NORMAL, "first", "m");
    event_record(u->recorder, &thing, EVENT_NORMAL, "second", "m");
    assert_int_equal(event_recorder_stats(u->recorder)->dropped, 12);
    event_record(u->recorder, &again, EVENT_NORMAL, "R", "m");
    assert_int_equal(event_recorder_stats(u->recorder)->dropped, 12);
    /* Requests under way go with what they are about. */
    for (int i = 0; i < EVENT_RECORDER_KEPT + 10; i++) {
        char reason[16];
        (void)snprintf(reason, sizeof reason, "R%d", i);
        event_record(u->recorder, &thing, EVENT_NORMAL, reason, "m");
    }
    assert_int_equal(event_recorder_stats(u->recorder)->dropped, 22 + EVENT_RECORDER_KEPT);
    api_expect_gone(&u->api, 2);
}

/* ---- failures ---- */

static void test_tries_again(void **state)
{
    struct user *u = *state;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    static const unsigned statuses[] = {500, 503, 429, 401};
    uint64_t pause = 500;
    char name[256] = "";
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct api_request *q = expect_request(u, "POST", EVENTS);
        assert_true(i == 0 || strcmp(name, name_of(q)) == 0);
        (void)snprintf(name, sizeof name, "%s", name_of(q));
        api_answer(q, statuses[i], NULL, "");
        settle(u);
        if (statuses[i] == 401) { /* whether the credential is accepted */
            api_answer(expect_request(u, "GET", "/version"), 200, NULL, "{}");
        }
        event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
        fake_clock_pass(&u->api.clock, pause - 1);
        expect_nothing(u);
        fake_clock_pass(&u->api.clock, 1);
        pause *= 2;
    }
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_string_equal(member(q, "count"), "5");
    accept_event(q);
    expect_nothing(u);
    assert_int_equal(event_recorder_stats(u->recorder)->failed, 0);
}

static void test_comes_again_when_it_is_told_to(void **state)
{
    struct user *u = *state;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    api_answer(expect_request(u, "POST", EVENTS), 429, "20", "");
    settle(u);
    fake_clock_pass(&u->api.clock, 19999);
    expect_nothing(u);
    fake_clock_pass(&u->api.clock, 1);
    accept_event(expect_request(u, "POST", EVENTS));
}

static void test_a_lost_answer_makes_no_second_event(void **state)
{
    struct user *u = *state;
    char name[256];
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    struct api_request *q = expect_request(u, "POST", EVENTS);
    (void)snprintf(name, sizeof name, "%s", name_of(q));
    api_cut(q);
    settle(u);
    fake_clock_pass(&u->api.clock, 500);
    q = expect_request(u, "POST", EVENTS);
    assert_string_equal(name_of(q), name);
    api_answer(q, 409, NULL, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"code\":409}");
    q = expect_request(u, "PATCH", patch_target(name));
    assert_string_equal(member(q, "count"), "1");
    api_answer(q, 200, NULL, "{}");
    expect_nothing(u);
}

static void test_gives_up(void **state)
{
    struct user *u = *state;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    api_answer(expect_request(u, "POST", EVENTS), 403, NULL, "");
    expect_nothing(u);
    assert_int_equal(event_recorder_stats(u->recorder)->failed, 1);
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    for (int i = 0; i < 12; i++) {
        api_cut(expect_request(u, "POST", EVENTS));
        settle(u);
        fake_clock_pass(&u->api.clock, 60000);
    }
    expect_nothing(u);
    assert_int_equal(event_recorder_stats(u->recorder)->failed, 2);
    /* The next one is tried as often, and what was given up is counted with it. */
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    api_cut(expect_request(u, "POST", EVENTS));
    settle(u);
    fake_clock_pass(&u->api.clock, 500);
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_string_equal(member(q, "count"), "3");
    accept_event(q);
}

static void refuse_all(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 403, NULL, "");
}

/* A refusal does not give its object a new share. */
static void test_a_refused_object_has_its_share(void **state)
{
    struct user *u = *state;
    u->api.serve = refuse_all;
    for (int i = 0; i < 600; i++) {
        event_record(u->recorder, &thing, EVENT_WARNING, "R", "m %d", i);
        settle(u);
        fake_clock_pass(&u->api.clock, 6000);
    }
    assert_in_range(u->api.count, 30, 25 + 3600 / 300 + 1);
}

static void serve_nonsense(struct scripted_api *a, struct api_request *q)
{
    bool create = strcmp(q->method, "POST") == 0;
    bool first = a->count == 1;
    api_answer(q, first ? 500 : (create ? 409 : 404), NULL,
               create && !first ? "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"code\":409}"
                                : "");
}

/* It is there when it is to be created, and gone when it is to be changed. */
static void test_gives_up_on_nonsense(void **state)
{
    struct user *u = *state;
    u->api.serve = serve_nonsense;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    for (int i = 0; i < 200; i++) {
        settle(u);
        fake_clock_pass(&u->api.clock, 1000);
    }
    assert_in_range(u->api.count, 3, 13);
    assert_int_equal(event_recorder_stats(u->recorder)->failed, 1);
}

/* ---- the end ---- */

static void on_flushed(void *data)
{
    struct user *u = data;
    u->flushed = true;
    if (u->free_when_flushed) {
        event_recorder_free(u->recorder);
        u->recorder = NULL;
    }
}

static void test_flushes(void **state)
{
    struct user *u = *state;
    event_recorder_flush(u->recorder, 1000, on_flushed, u);
    assert_false(u->flushed);
    settle(u);
    assert_true(u->flushed);
    u->flushed = false;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    event_recorder_flush(u->recorder, 1000, on_flushed, u);
    struct api_request *q = expect_request(u, "POST", EVENTS);
    assert_false(u->flushed);
    accept_event(q);
    settle(u);
    assert_true(u->flushed);
}

static void test_flushes_not_for_ever(void **state)
{
    struct user *u = *state;
    u->free_when_flushed = true;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    event_recorder_flush(u->recorder, 1000, on_flushed, u);
    (void)expect_request(u, "POST", EVENTS);
    fake_clock_pass(&u->api.clock, 999);
    assert_false(u->flushed);
    fake_clock_pass(&u->api.clock, 1);
    assert_true(u->flushed);
    assert_null(u->recorder);
    api_expect_gone(&u->api, 1);
}

static void test_free_in_each_phase(void **state)
{
    struct user *u = *state;
    event_record(u->recorder, &thing, EVENT_NORMAL, "R", "m");
    accept_event(expect_request(u, "POST", EVENTS));
    settle(u);
    event_record(u->recorder, &thing, EVENT_NORMAL, "S", "m");
    api_answer(expect_request(u, "POST", EVENTS), 500, NULL, "");
    settle(u);
    event_record(u->recorder, &thing, EVENT_NORMAL, "T", "m");
    (void)expect_request(u, "POST", EVENTS);
    event_record(u->recorder, &thing, EVENT_NORMAL, "U", "m");
    event_recorder_free(u->recorder);
    event_recorder_free(NULL);
    u->recorder = NULL;
    api_expect_gone(&u->api, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_writes_an_event),
        TEST(test_of_the_cluster),
        TEST(test_about_nothing),
        TEST(test_messages_of_any_length),
        TEST(test_counts_repeats),
        TEST(test_an_event_that_is_gone_is_made_again),
        TEST(test_many_messages_become_one_event),
        TEST(test_known_messages_are_counted_by_themselves),
        TEST(test_what_differs_is_another_event),
        TEST(test_a_retry_costs_its_object_nothing),
        TEST(test_an_object_has_its_share),
        TEST(test_all_have_a_share),
        TEST(test_the_oldest_are_forgotten),
        TEST(test_tries_again),
        TEST(test_comes_again_when_it_is_told_to),
        TEST(test_a_lost_answer_makes_no_second_event),
        TEST(test_gives_up),
        TEST(test_a_refused_object_has_its_share),
        TEST(test_gives_up_on_nonsense),
        TEST(test_flushes),
        TEST(test_flushes_not_for_ever),
        TEST(test_free_in_each_phase),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
