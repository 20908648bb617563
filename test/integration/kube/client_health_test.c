/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client reports of an API server that refuses it, is away, or whose certificates end.
 */
#include <stdlib.h>

#include "certs.h"
#include "crypto/digest.h"
#include "kube/client/object_request.h"
#include "kube/client/reflector.h"
#include "log_capture.h"
#include "scripted_api.h"
#include "temp_dir.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/n/leases"

enum { SECOND_MS = 1000, DAY = 24 * 3600, NOW = FAKE_CLOCK_WALL / 1000000 };

struct fixture {
    struct scripted_api api;
    struct kube_client *first; /* which has another clock */
    struct health health;
    struct object_request *request;
    bool called;
    unsigned expiry_look_ms;
    enum log_level level; /* of what failed last */
    unsigned status;
    struct log_capture log;
};

static const char *granted_by(const struct request_info *ri)
{
    return slice_eq(ri->resource, SLICE("leases")) ? "bind cmesh-sidecar" : NULL;
}

/* A client of what `api.access` says by now. */
static void open_client(struct fixture *f)
{
    const struct kube_client_options o = {.access = &f->api.access,
                                          .max_idle = 4,
                                          .health = &f->health,
                                          .granted_by = granted_by,
                                          .clock = &f->api.clock.clock,
                                          .expiry_look_ms = f->expiry_look_ms};
    struct err e = ERR_INIT;
    f->first = f->api.client;
    f->api.client = kube_client_new(f->api.loop, &o, &e);
    assert_non_null(f->api.client);
}

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *state = f;
    log_init("test", LOG_TEXT, LOG_INFO);
    if (loop_setup((void **)&l) != 0 || !api_open(&f->api, l)) {
        return -1;
    }
    health_init(&f->health, &f->api.clock.clock);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct net_loop *l = f->api.loop;
    if (f->first != NULL) {
        kube_client_close(f->api.client, NULL, NULL);
        f->api.client = f->first;
    }
    api_close(&f->api);
    health_deinit(&f->health);
    free(f->api.access.token);
    free(f);
    return loop_free(l);
}

static void on_done(void *data, const cJSON *object, const struct api_error *error)
{
    struct fixture *f = data;
    f->request = NULL;
    f->called = true;
    f->level = object == NULL ? error->level : LOG_ERROR;
    f->status = object == NULL ? error->code : 200;
}

static void begin(struct fixture *f, enum object_request_verb verb)
{
    cJSON *body = verb == OBJECT_REQUEST_CREATE ? cJSON_CreateObject() : NULL;
    const struct object_request_options q = {
        .verb = verb, .path = LEASES, .name = body == NULL ? "cmesh-pod" : NULL, .body = body};
    struct err e = ERR_INIT;
    f->called = false;
    f->request = object_request_start(f->api.loop, f->api.client, &q, on_done, f, &e);
    assert_non_null(f->request);
    cJSON_Delete(body);
}

static void answer(struct fixture *f, unsigned status, const char *message)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"message\":\"%s\",\"code\":%u}",
                   message, status);
    api_answer(api_expect_part(&f->api, "leases"), status, NULL, text);
    run_until(f->api.loop, &f->called);
}

static void get_answered(struct fixture *f, unsigned status)
{
    begin(f, OBJECT_REQUEST_GET);
    answer(f, status, "no");
}

/* The client asks whether it is known. */
static void answer_question(struct fixture *f, unsigned status)
{
    api_answer(api_expect(&f->api, "GET", "/version"), status, NULL, "{}");
    run_for(f->api.loop, 20);
}

static unsigned count(struct fixture *f, enum health_cause cause)
{
    return health_count(&f->health, cause);
}

static const char *text_of_log(struct fixture *f)
{
    return log_capture_end(&f->log);
}

/* ---- credentials ---- */

static void a_refused_credential_is_one_line(void **state)
{
    struct fixture *f = *state;
    f->api.access.context = "c";
    f->api.access.file = "/etc/kubeconfig";
    f->api.access.token = strdup("hunter2");
    open_client(f);
    log_capture_begin(&f->log);
    get_answered(f, 401);
    assert_int_equal(f->level, LOG_DEBUG); /* its cause has a line of its own */
    answer_question(f, 401);
    get_answered(f, 401);
    const char *text = text_of_log(f);
    const char *line = strstr(text, " WARN ");
    assert_non_null(line);
    assert_null(strstr(line + 1, " WARN "));
    assert_non_null(strstr(line, "the token of user \\\"me\\\" in /etc/kubeconfig"));
    assert_non_null(strstr(line, "401 Unauthorized"));
    assert_non_null(strstr(line, "restart"));
    assert_null(strstr(text, "hunter2"));
    assert_int_equal(count(f, HEALTH_CREDENTIALS), 1);
    assert_true(kube_client_refused_ms(f->api.client) > 0);
    fake_clock_jump(&f->api.clock, 30 * SECOND_MS);
    assert_true(kube_client_refused_ms(f->api.client) >= 30 * SECOND_MS);
}

/* Without any request of others. */
static void it_asks_until_they_are_accepted(void **state)
{
    struct fixture *f = *state;
    open_client(f);
    get_answered(f, 401);
    answer_question(f, 401);
    for (unsigned i = 0; i < 8; i++) {
        assert_true(fake_clock_next(&f->api.clock) <= 10 * SECOND_MS);
        fake_clock_pass(&f->api.clock, 10 * SECOND_MS);
        answer_question(f, i < 7 ? 401 : 200);
    }
    assert_int_equal(count(f, HEALTH_CREDENTIALS), 0);
    assert_int_equal(kube_client_refused_ms(f->api.client), 0);
    assert_int_equal(f->health.raised[HEALTH_CREDENTIALS], 1);
    fake_clock_pass(&f->api.clock, 60 * SECOND_MS);
    api_expect_quiet(&f->api);
}

/* Any request may be the first that is answered again. */
static void it_asks_at_once_when_others_are_answered(void **state)
{
    struct fixture *f = *state;
    open_client(f);
    get_answered(f, 401);
    answer_question(f, 401);
    fake_clock_jump(&f->api.clock, SECOND_MS);
    get_answered(f, 200);
    answer_question(f, 200);
    assert_int_equal(count(f, HEALTH_CREDENTIALS), 0);
}

/* What is behind an aggregated API has an opinion of its own. */
static void a_401_of_something_else_is_none_of_the_credentials(void **state)
{
    struct fixture *f = *state;
    open_client(f);
    get_answered(f, 401);
    answer_question(f, 403);
    assert_int_equal(f->health.raised[HEALTH_CREDENTIALS], 0);
    get_answered(f, 401); /* it is not asked about each of them */
    api_expect_quiet(&f->api);
    log_capture_begin(&f->log);
    fake_clock_pass(&f->api.clock, 10 * SECOND_MS);
    answer_question(f, 200);
    const char *text = text_of_log(f);
    assert_non_null(strstr(text, " WARN "));
    assert_non_null(strstr(text, "GET " LEASES "/cmesh-pod"));
    assert_int_equal(f->health.raised[HEALTH_CREDENTIALS], 0);
}

static void an_answer_that_proves_nothing_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    open_client(f);
    get_answered(f, 401);
    answer_question(f, 503);
    assert_int_equal(f->health.raised[HEALTH_CREDENTIALS], 0);
    fake_clock_pass(&f->api.clock, SECOND_MS);
    api_cut(api_expect(&f->api, "GET", "/version"));
    run_for(f->api.loop, 20);
    fake_clock_pass(&f->api.clock, 2 * SECOND_MS);
    answer_question(f, 401);
    assert_int_equal(count(f, HEALTH_CREDENTIALS), 1);
}

static char *token_until(int64_t from, int64_t until)
{
    char claims[128];
    char *token = NULL;
    struct buf b = BUF_INIT(512);
    (void)snprintf(claims, sizeof claims, "{\"iat\":%lld,\"exp\":%lld}", (long long)from,
                   (long long)until);
    assert_int_equal(base64_encode(slice_str(claims), &b), 0);
    char *payload = buf_take_str(&b);
    assert_non_null(payload);
    payload[strcspn(payload, "=")] = '\0';
    assert_true(asprintf(&token, "e30.%s.c2ln", payload) > 0);
    free(payload);
    return token;
}

static void an_expired_token_is_named_as_such(void **state)
{
    struct fixture *f = *state;
    f->api.access.token = token_until(NOW - 365 * DAY, NOW - DAY);
    open_client(f);
    get_answered(f, 401);
    answer_question(f, 401);
    const char *why = health_message(&f->health, HEALTH_CREDENTIALS);
    assert_non_null(why);
    assert_non_null(strstr(why, "it expired at 2025-12-31T00:00:00Z"));
}

/* ---- what ends soon ---- */

static void a_token_that_ends_soon_is_said_ahead(void **state)
{
    struct fixture *f = *state;
    f->api.access.token = token_until(NOW - 365 * DAY, NOW + 6 * DAY);
    open_client(f);
    run_for(f->api.loop, 1500);
    const char *why = health_message(&f->health, HEALTH_EXPIRY);
    assert_non_null(why);
    assert_string_equal(why, "it expires at 2026-01-07T00:00:00Z");
}

/* The kubelet writes a new one in time, and nobody sends requests. */
static void a_token_that_was_replaced_meanwhile_is_looked_at(void **state)
{
    struct fixture *f = *state;
    struct temp_dir d;
    char path[256];
    char *old = token_until(NOW - 3600, NOW + 300);
    char *new = token_until(NOW, NOW + 3600);
    temp_dir_init(&d);
    temp_dir_write(&d, "token", old, 0600);
    (void)temp_dir_path(&d, "token", path);
    f->api.access.token_file = path;
    open_client(f);
    temp_dir_write(&d, "token", new, 0600);
    run_for(f->api.loop, 1500);
    assert_int_equal(f->health.raised[HEALTH_EXPIRY], 0);
    temp_dir_deinit(&d);
    f->api.access.token_file = NULL;
    free(old);
    free(new);
}

/* From now on the server shows a certificate that is valid until then, to those who connect. */
static void serve_until(struct fixture *f, const struct certs_pair *ca, const char *until)
{
    static const char *const ips[] = {"127.0.0.1", NULL};
    struct certs_pair pair;
    struct err e = ERR_INIT;
    certs_issue(ca, &(struct certs_spec){.ips = ips, .not_after = until}, &pair);
    const struct tls_server_options o = {.cert = slice_str(pair.cert), .key = slice_str(pair.key)};
    struct tls_config *tls = tls_config_new_server(&o, &e);
    assert_non_null(tls);
    if (f->api.access.server.https) {
        http_server_set_tls(f->api.server, tls);
    } else {
        assert_int_equal(http_server_listen(f->api.server, "127.0.0.1:0", tls, &e), 0);
        const char *address = http_server_address_at(f->api.server, 1);
        f->api.access.server.port = (uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10);
        f->api.access.server.https = true;
    }
    tls_config_unref(tls);
    certs_free(&pair);
}

/* The connection that the first was shown on is kept. */
static void a_certificate_that_was_renewed_is_told_of_no_more(void **state)
{
    static char name[] = "127.0.0.1";
    struct fixture *f = *state;
    struct certs_pair ca;
    certs_make_ca("the authority", &ca);
    f->api.access.server_name = name;
    f->api.access.ca = (struct kube_pem){.data = ca.cert, .len = strlen(ca.cert), .name = name};
    f->api.clock.wall = INT64_C(2429481600000000); /* 2046-12-27 */
    serve_until(f, &ca, "20470101000000");
    f->expiry_look_ms = 50;
    open_client(f);
    get_answered(f, 200);
    run_for(f->api.loop, 1500);
    assert_non_null(health_message(&f->health, HEALTH_EXPIRY));
    get_answered(f, 200);
    run_for(f->api.loop, 1500); /* it has not been renewed yet */
    assert_non_null(health_message(&f->health, HEALTH_EXPIRY));

    serve_until(f, &ca, "20480101000000");
    run_for(f->api.loop, 200);
    get_answered(f, 200);
    run_for(f->api.loop, 1500);
    assert_null(health_message(&f->health, HEALTH_EXPIRY));
    assert_int_equal(f->health.raised[HEALTH_EXPIRY], 1);
    certs_free(&ca);
}

/* ---- permissions ---- */

static void a_missing_permission_names_the_role(void **state)
{
    struct fixture *f = *state;
    open_client(f);
    log_capture_begin(&f->log);
    get_answered(f, 403);
    const char *text = text_of_log(f);
    assert_non_null(strstr(text, "subject=\"get leases.coordination.k8s.io in namespace n\""));
    assert_non_null(strstr(text, "remedy=\"bind cmesh-sidecar\""));
    assert_int_equal(f->level, LOG_INFO);
    begin(f, OBJECT_REQUEST_CREATE);
    answer(
        f, 403,
        "leases is forbidden: User \\\"x\\\" cannot create resource \\\"leases\\\" in API group");
    assert_int_equal(count(f, HEALTH_PERMISSION), 2);
    get_answered(f, 404); /* it may */
    assert_int_equal(count(f, HEALTH_PERMISSION), 1);
    begin(f, OBJECT_REQUEST_CREATE);
    answer(f, 409, "it is there");
    assert_int_equal(count(f, HEALTH_PERMISSION), 0);
}

/* Admission plugins answer 403, too. */
static void a_refused_write_is_no_missing_permission(void **state)
{
    struct fixture *f = *state;
    open_client(f);
    begin(f, OBJECT_REQUEST_CREATE);
    answer(f, 403, "leases \\\"x\\\" is forbidden: exceeded quota");
    assert_int_equal(count(f, HEALTH_PERMISSION), 0);
    assert_int_equal(f->level, LOG_WARN);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    (void)data;
    (void)change;
    (void)object;
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct fixture *f = data;
    f->called = true;
    f->level = error != NULL ? level : LOG_ERROR;
}

static void lists_and_watches_are_told_apart(void **state)
{
    static const struct reflector_handlers handlers = {.on_object = on_object,
                                                       .on_state = on_state};
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    open_client(f);
    const struct reflector_options o = {.client = f->api.client, .path = "/api/v1/pods"};
    struct reflector *r = reflector_new(f->api.loop, &o, &handlers, f, &e);
    assert_non_null(r);
    api_answer(api_expect_part(&f->api, "limit=500"), 403, NULL, "{}");
    run_until(f->api.loop, &f->called);
    assert_int_equal(f->level, LOG_INFO);
    assert_int_equal(count(f, HEALTH_PERMISSION), 1);
    api_answer(api_expect_part(&f->api, "limit=500"), 200, NULL,
               "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}");
    f->called = false;
    api_answer(api_expect_part(&f->api, "watch=true"), 403, NULL, "{}");
    run_until(f->api.loop, &f->called);
    const char *why = health_message(&f->health, HEALTH_PERMISSION);
    assert_int_equal(count(f, HEALTH_PERMISSION), 1);
    assert_non_null(why);
    health_clear(&f->health, HEALTH_PERMISSION, "watch pods");
    assert_int_equal(count(f, HEALTH_PERMISSION), 0);
    reflector_free(r);
}

/* ---- a server that is away ---- */

static void a_server_that_is_away_is_one_line(void **state)
{
    struct fixture *f = *state;
    open_client(f);
    api_stop(&f->api);
    log_capture_begin(&f->log);
    for (unsigned i = 0; i < 3; i++) {
        begin(f, OBJECT_REQUEST_GET);
        run_until(f->api.loop, &f->called);
        assert_int_equal(f->level, LOG_DEBUG);
    }
    const char *text = text_of_log(f);
    assert_non_null(strstr(text, " WARN "));
    assert_null(strstr(strstr(text, " WARN ") + 1, " WARN "));
    assert_int_equal(count(f, HEALTH_UNREACHABLE), 1);
    assert_true(api_listen(&f->api));
    get_answered(f, 200);
    assert_int_equal(count(f, HEALTH_UNREACHABLE), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_refused_credential_is_one_line),
        TEST(it_asks_until_they_are_accepted),
        TEST(it_asks_at_once_when_others_are_answered),
        TEST(a_401_of_something_else_is_none_of_the_credentials),
        TEST(an_answer_that_proves_nothing_is_asked_for_again),
        TEST(an_expired_token_is_named_as_such),
        TEST(a_token_that_ends_soon_is_said_ahead),
        TEST(a_token_that_was_replaced_meanwhile_is_looked_at),
        TEST(a_certificate_that_was_renewed_is_told_of_no_more),
        TEST(a_missing_permission_names_the_role),
        TEST(a_refused_write_is_no_missing_permission),
        TEST(lists_and_watches_are_told_apart),
        TEST(a_server_that_is_away_is_one_line),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
