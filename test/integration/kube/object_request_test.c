/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about single objects, against a scripted API server.
 */
#include "kube/client/object_request.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/log.h"
#include "scripted_api.h"
#include "temp_dir.h"
#include "json/json.h"

#define MAPS "/api/v1/namespaces/n/configmaps"
#define STATUS(code, reason)                                                                       \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"m\","         \
    "\"reason\":\"" reason "\",\"code\":" #code "}"

struct caller {
    struct scripted_api api;
    struct object_request *request;
    bool called;
    bool again; /* starts another one in the callback */
    char object[4096];
    struct api_error error;
};

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct caller *c = calloc(1, sizeof *c);
    if (c == NULL || loop_setup((void **)&l) != 0 || !api_open(&c->api, l)) {
        return -1;
    }
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct caller *c = *state;
    struct net_loop *l = c->api.loop;
    api_close(&c->api);
    free(c);
    return loop_free(l);
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct caller *c = data;
    c->called = true;
    c->request = NULL;
    assert_true((object == NULL) == (error != NULL));
    if (error != NULL) {
        c->error = *error;
        assert_true(error->msg[0] != '\0');
    } else {
        struct buf text = BUF_INIT(sizeof c->object - 1);
        if (json_canonical(object, &text) == 0) {
            memcpy(c->object, buf_data(&text), text.len);
            c->object[text.len] = '\0';
        }
        buf_reset(&text);
    }
    if (c->again) {
        struct object_request_options q = {.verb = OBJECT_REQUEST_GET, .path = "/again"};
        c->again = false;
        c->called = false;
        c->request = object_request_start(c->api.loop, c->api.client, &q, on_written, c, NULL);
        assert_non_null(c->request);
    }
}

static void start(struct caller *c, const struct object_request_options *q)
{
    struct err e = ERR_INIT;
    c->called = false;
    c->object[0] = '\0';
    c->request = object_request_start(c->api.loop, c->api.client, q, on_written, c, &e);
    if (c->request == NULL) {
        fail_msg("%s", e.msg);
    }
    assert_false(c->called);
}

/* Starts it with that body, which is gone when the request is sent. */
static void start_with(struct caller *c, struct object_request_options q, const char *body)
{
    cJSON *tree = json_parse(body, strlen(body), NULL);
    assert_non_null(tree);
    q.body = tree;
    start(c, &q);
    cJSON_Delete(tree);
}

static void expect_object(struct caller *c, const char *text)
{
    run_until(c->api.loop, &c->called);
    assert_string_equal(c->object, text);
}

static const struct api_error *expect_error(struct caller *c, unsigned code)
{
    run_until(c->api.loop, &c->called);
    assert_string_equal(c->object, "");
    assert_int_equal(c->error.code, code);
    return &c->error;
}

/* ---- each verb ---- */

static void test_gets(void **state)
{
    struct caller *c = *state;
    start(c,
          &(struct object_request_options){.verb = OBJECT_REQUEST_GET, .path = MAPS, .name = "x"});
    struct api_request *q = api_expect(&c->api, "GET", MAPS "/x");
    assert_string_equal(q->accept, "application/json");
    assert_string_equal(q->content_type, "");
    assert_string_equal(q->user_agent, "cmesh/" CMESH_VERSION);
    assert_string_equal(q->body, "");
    api_answer(q, 200, NULL, "{\"b\":1,\"a\":[]}");
    expect_object(c, "{\"a\":[],\"b\":1}");
    start(c, &(struct object_request_options){
                 .verb = OBJECT_REQUEST_GET, .path = "/apis", .accept = "text/x"});
    q = api_expect(&c->api, "GET", "/apis");
    assert_string_equal(q->accept, "text/x");
    api_answer(q, 200, NULL, "{}");
    expect_object(c, "{}");
}

static void test_creates(void **state)
{
    struct caller *c = *state;
    struct object_request_options r = {
        .verb = OBJECT_REQUEST_CREATE, .path = MAPS, .field_manager = "m"};
    start_with(c, r, "{\"metadata\":{\"name\":\"x\",\"n\":1099511627776}}");
    struct api_request *q = api_expect(&c->api, "POST", MAPS "?fieldManager=m");
    assert_string_equal(q->content_type, "application/json");
    assert_string_equal(q->body, "{\"metadata\":{\"n\":1099511627776,\"name\":\"x\"}}");
    api_answer(q, 201, NULL, "{\"kind\":\"ConfigMap\"}");
    expect_object(c, "{\"kind\":\"ConfigMap\"}");
    r = (struct object_request_options){
        .verb = OBJECT_REQUEST_CREATE, .path = "/p", .name = "x", .subresource = "eviction"};
    start_with(c, r, "{}");
    api_answer(api_expect(&c->api, "POST", "/p/x/eviction"), 201, NULL, "{}");
    expect_object(c, "{}");
}

static void test_updates_and_deletes(void **state)
{
    struct caller *c = *state;
    struct object_request_options r = {
        .verb = OBJECT_REQUEST_UPDATE, .path = MAPS, .name = "x", .subresource = "status"};
    start_with(c, r, "{\"status\":{}}");
    struct api_request *q = api_expect(&c->api, "PUT", MAPS "/x/status");
    assert_string_equal(q->content_type, "application/json");
    assert_string_equal(q->body, "{\"status\":{}}");
    api_answer(q, 200, NULL, "{\"status\":{}}");
    expect_object(c, "{\"status\":{}}");
    r = (struct object_request_options){.verb = OBJECT_REQUEST_DELETE, .path = MAPS, .name = "x"};
    start(c, &r);
    q = api_expect(&c->api, "DELETE", MAPS "/x");
    assert_string_equal(q->body, "");
    api_answer(q, 200, NULL, "{\"kind\":\"Status\",\"status\":\"Success\"}");
    expect_object(c, "{\"kind\":\"Status\",\"status\":\"Success\"}");
    start_with(c, r, "{\"preconditions\":{\"uid\":\"u\"}}");
    q = api_expect(&c->api, "DELETE", MAPS "/x");
    assert_string_equal(q->body, "{\"preconditions\":{\"uid\":\"u\"}}");
    assert_string_equal(q->content_type, "application/json");
    api_answer(q, 202, NULL, "{}");
    expect_object(c, "{}");
}

static void test_patches(void **state)
{
    struct caller *c = *state;
    static const struct {
        enum object_request_verb verb;
        const char *body;
        const char *content_type;
    } patches[] = {
        {OBJECT_REQUEST_MERGE_PATCH, "{\"a\":null}", "application/merge-patch+json"},
        {OBJECT_REQUEST_JSON_PATCH, "[{\"op\":\"remove\",\"path\":\"/a\"}]",
         "application/json-patch+json"},
        {OBJECT_REQUEST_STRATEGIC_PATCH, "{\"$patch\":\"x\"}",
         "application/strategic-merge-patch+json"},
        {OBJECT_REQUEST_APPLY, "{\"apiVersion\":\"v1\"}", "application/apply-patch+yaml"},
    };
    for (size_t i = 0; i < ARRAY_LEN(patches); i++) {
        bool apply = patches[i].verb == OBJECT_REQUEST_APPLY;
        struct object_request_options r = {.verb = patches[i].verb,
                                           .path = MAPS,
                                           .name = "x",
                                           .field_manager = "m",
                                           .force = apply,
                                           .metadata_only = true};
        start_with(c, r, patches[i].body);
        struct api_request *q =
            api_expect(&c->api, "PATCH",
                       apply ? MAPS "/x?fieldManager=m&force=true" : MAPS "/x?fieldManager=m");
        assert_string_equal(q->content_type, patches[i].content_type);
        assert_string_equal(q->body, patches[i].body);
        assert_string_equal(q->accept,
                            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                            "application/json");
        api_answer(q, 200, NULL, "{\"a\":1}");
        expect_object(c, "{\"a\":1}");
    }
}

static void test_refuses_what_makes_no_sense(void **state)
{
    struct caller *c = *state;
    cJSON *object = cJSON_CreateObject();
    cJSON *array = cJSON_CreateArray();
    const struct {
        struct object_request_options q;
        const char *msg;
    } cases[] = {
        {{.verb = OBJECT_REQUEST_GET, .path = "/p", .name = "x", .body = object},
         "this request must not have a body"},
        {{.verb = OBJECT_REQUEST_CREATE, .path = "/p"}, "this request must have a body"},
        {{.verb = OBJECT_REQUEST_CREATE, .path = "/p", .name = "x", .body = object},
         "the name of the object is part of its body"},
        {{.verb = OBJECT_REQUEST_UPDATE, .path = "/p", .body = object},
         "the name of the object is missing"},
        {{.verb = OBJECT_REQUEST_UPDATE, .path = "/p", .name = "..", .body = object},
         "not the name of an object: \"..\""},
        {{.verb = OBJECT_REQUEST_DELETE, .path = "/p"}, "the name of the object is missing"},
        {{.verb = OBJECT_REQUEST_JSON_PATCH, .path = "/p", .name = "x", .body = object},
         "the body of this request must be a list"},
        {{.verb = OBJECT_REQUEST_MERGE_PATCH, .path = "/p", .name = "x", .body = array},
         "the body of this request must be an object"},
        {{.verb = OBJECT_REQUEST_MERGE_PATCH,
          .path = "/p",
          .name = "x",
          .body = object,
          .force = true},
         "force is only allowed with apply"},
        {{.verb = OBJECT_REQUEST_APPLY, .path = "/p", .name = "x", .body = object},
         "the field manager is missing"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        assert_null(
            object_request_start(c->api.loop, c->api.client, &cases[i].q, on_written, c, &e));
        assert_int_equal(e.code, -EINVAL);
        assert_string_equal(e.msg, cases[i].msg);
    }
    api_expect_quiet(&c->api);
    cJSON_Delete(object);
    cJSON_Delete(array);
}

/* ---- what goes wrong ---- */

static void get(struct caller *c)
{
    start(c,
          &(struct object_request_options){.verb = OBJECT_REQUEST_GET, .path = "/p", .name = "x"});
}

static void answer_get(struct caller *c, unsigned status, const char *retry_after, const char *body)
{
    get(c);
    api_answer(api_expect(&c->api, "GET", "/p/x"), status, retry_after, body);
}

static void test_says_what_the_server_says(void **state)
{
    struct caller *c = *state;
    answer_get(c, 404, NULL, STATUS(404, "NotFound"));
    assert_string_equal(expect_error(c, 404)->msg, "404 NotFound: m");
    answer_get(c, 409, NULL, STATUS(409, "Conflict"));
    assert_false(expect_error(c, 409)->exists);
    answer_get(c, 409, NULL, STATUS(409, "AlreadyExists"));
    assert_true(expect_error(c, 409)->exists);
    answer_get(c, 302, NULL, "");
    assert_string_equal(expect_error(c, 302)->msg, "302 Found");
}

static void test_says_when_to_come_again(void **state)
{
    struct caller *c = *state;
    answer_get(c, 429, "7", "");
    assert_int_equal(expect_error(c, 429)->retry_after, 7);
    answer_get(c, 503, "2", STATUS(503, "ServiceUnavailable"));
    assert_int_equal(expect_error(c, 503)->retry_after, 2);
    answer_get(c, 500, NULL,
               "{\"kind\":\"Status\",\"reason\":\"ServerTimeout\",\"code\":500,"
               "\"details\":{\"retryAfterSeconds\":1}}");
    assert_int_equal(expect_error(c, 500)->retry_after, 1);
}

static void test_no_answer_has_no_code(void **state)
{
    struct caller *c = *state;
    get(c);
    api_cut(api_expect(&c->api, "GET", "/p/x"));
    const struct api_error *error = expect_error(c, 0);
    assert_memory_equal(error->msg, "request to http://127.0.0.1:", 28);
    answer_get(c, 200, NULL, "{\"a\":");
    assert_non_null(strstr(expect_error(c, 0)->msg, ": line 1"));
    answer_get(c, 200, NULL, "[]");
    assert_non_null(strstr(expect_error(c, 0)->msg, ": not a JSON object"));
}

static void test_keeps_the_time_limit(void **state)
{
    struct caller *c = *state;
    start(c, &(struct object_request_options){
                 .verb = OBJECT_REQUEST_GET, .path = "/p", .timeout_ms = 1});
    assert_non_null(strstr(expect_error(c, 0)->msg, "no complete response within 1 ms"));
    run_for(c->api.loop, 10);
    api_expect_gone(&c->api, c->api.count);
}

static void test_is_cancelled(void **state)
{
    struct caller *c = *state;
    get(c);
    object_request_cancel(c->request);
    get(c);
    (void)api_expect(&c->api, "GET", "/p/x");
    object_request_cancel(c->request);
    object_request_cancel(NULL);
    api_expect_gone(&c->api, 1);
    assert_false(c->called);
}

static void test_another_one_from_the_callback(void **state)
{
    struct caller *c = *state;
    c->again = true;
    answer_get(c, 200, NULL, "{}");
    api_answer(api_expect(&c->api, "GET", "/again"), 200, NULL, "{\"a\":1}");
    expect_object(c, "{\"a\":1}");
}

/* ---- connections ---- */

/* kube-apiserver closes what is unused after 90 s: a write must not meet that. */
static void test_connections_are_closed_before_the_server_does(void **state)
{
    struct caller *c = *state;
    struct scripted_api *a = &c->api;
    get(c);
    api_answer(api_expect(a, "GET", "/p/x"), 200, NULL, "{}");
    expect_object(c, "{}");
    run_for(a->loop, 5);
    loop_skip(a->loop, 50000);
    run_for(a->loop, 300);
    assert_int_equal(kube_client_stats(a->client)->idle, 1);
    loop_skip(a->loop, 25000);
    run_for(a->loop, 300);
    assert_int_equal(kube_client_stats(a->client)->idle, 0);
}

/* ---- credentials ---- */

static void on_client_closed(void *data)
{
    *(bool *)data = true;
}

/* Of the client of `access`, from now on. */
static struct kube_client *become(struct scripted_api *a, const struct kube_access *access)
{
    struct kube_client_options o = {.access = access, .max_idle = 1};
    struct err e = ERR_INIT;
    struct kube_client *before = a->client;
    a->client = kube_client_new(a->loop, &o, &e);
    assert_non_null(a->client);
    return before;
}

static void test_a_401_makes_the_token_be_read_again(void **state)
{
    struct caller *c = *state;
    struct scripted_api *a = &c->api;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    temp_dir_write(&dir, "token", "old", 0600);
    struct kube_access access = a->access;
    access.token_file = (char *)(size_t)temp_dir_path(&dir, "token", path);
    struct kube_client *before = become(a, &access);
    get(c);
    struct api_request *q = api_expect(a, "GET", "/p/x");
    assert_string_equal(q->authorization, "Bearer old");
    temp_dir_write(&dir, "token", "newer", 0600);
    run_for(a->loop, 1100); /* files are not looked at more often */
    api_answer(q, 401, NULL, STATUS(401, "Unauthorized"));
    assert_string_equal(expect_error(c, 401)->msg, "401 Unauthorized: m");
    q = api_expect(a, "GET", "/version"); /* whether the new one is accepted */
    assert_string_equal(q->authorization, "Bearer newer");
    api_answer(q, 200, NULL, "{}");
    get(c);
    q = api_expect(a, "GET", "/p/x");
    assert_string_equal(q->authorization, "Bearer newer");
    api_answer(q, 200, NULL, "{}");
    expect_object(c, "{}");
    kube_client_close(a->client, NULL, NULL);
    a->client = before;
    run_for(a->loop, 5);
    temp_dir_deinit(&dir);
}

static void test_needs_credentials(void **state)
{
    struct caller *c = *state;
    struct scripted_api *a = &c->api;
    static char sleep[] = "/bin/sleep";
    static char version[] = "client.authentication.k8s.io/v1";
    char ten[] = "10";
    char *args[] = {ten, NULL};
    struct kube_exec exec = {.command = sleep, .args = args, .api_version = version};
    struct kube_access access = a->access;
    access.exec = &exec;
    struct kube_client *before = become(a, &access);
    struct object_request_options q = {.verb = OBJECT_REQUEST_GET, .path = "/p"};
    struct err e = ERR_INIT;
    bool closed = false;
    assert_null(object_request_start(a->loop, a->client, &q, on_written, c, &e));
    assert_int_equal(e.code, -EAGAIN);
    assert_memory_equal(e.msg, "waiting for credentials", 23);
    kube_client_close(a->client, on_client_closed, &closed);
    run_until(a->loop, &closed);
    a->client = before;
}

/* ---- memory ---- */

static void serve(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 200, NULL, "{\"a\":1}");
}

static bool play(void *data)
{
    struct caller c = {.api = {.serve = serve}};
    struct net_loop *l = net_loop_new(NULL);
    struct err e = ERR_INIT;
    if (l == NULL) {
        return false;
    }
    struct object_request_options q = {.verb = OBJECT_REQUEST_MERGE_PATCH,
                                       .path = "/p",
                                       .name = "x",
                                       .body = data,
                                       .field_manager = "m"};
    bool opened = api_open(&c.api, l);
    c.request = opened ? object_request_start(l, c.api.client, &q, on_written, &c, &e) : NULL;
    if (c.request != NULL) {
        run_until(l, &c.called);
    } else if (opened) {
        assert_true(e.code < 0 && e.msg[0] != '\0');
    }
    sweep_left = -1;
    bool well = strcmp(c.object, "{\"a\":1}") == 0;
    api_close(&c.api);
    assert_int_equal(loop_free(l), 0);
    return well;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    log_init("test", LOG_TEXT, LOG_ERROR);
    cJSON *patch = cJSON_CreateObject();
    cJSON_AddStringToObject(patch, "key", "value");
    assert_true(sweep_allocations(play, patch) > 20);
    cJSON_Delete(patch);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_gets),
        TEST(test_creates),
        TEST(test_updates_and_deletes),
        TEST(test_patches),
        TEST(test_refuses_what_makes_no_sense),
        TEST(test_says_what_the_server_says),
        TEST(test_says_when_to_come_again),
        TEST(test_no_answer_has_no_code),
        TEST(test_keeps_the_time_limit),
        TEST(test_is_cancelled),
        TEST(test_another_one_from_the_callback),
        TEST(test_connections_are_closed_before_the_server_does),
        TEST(test_a_401_makes_the_token_be_read_again),
        TEST(test_needs_credentials),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
