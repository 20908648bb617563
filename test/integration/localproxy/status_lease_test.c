/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a localproxy tells by its Lease, when it writes it, and what becomes of failures. With a
 * random number of 0 it is renewed after 54 s.
 */
#include "status/status_lease.h"

#include "alloc_sweep.h"
#include "base/array.h"
#include "control/status.h"
#include "reload_fixture.h"
#include "traffic_document.h"
#include "json/field.h"
#include "json/json.h"

#define OWN "ctrlmesh.kusionstack.io/namespace"
#define PATH "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define NAMED PATH "/cmesh-blue-0"
#define LEASES PATH "?fieldManager=cmesh-localproxy"
#define LEASE NAMED "?fieldManager=cmesh-localproxy"
#define CONFLICT "{\"kind\":\"Status\",\"code\":409,\"reason\":\"Conflict\"}"
#define NOT_FOUND "{\"kind\":\"Status\",\"code\":404,\"reason\":\"NotFound\"}"

enum { RENEW_MS = 54000 };

static struct status_lease *lease;

static struct status_lease *open_lease(struct fixture *f)
{
    struct err e = ERR_INIT;
    const struct status_lease_options o = {
        .client = f->api->client,
        .proxy = f->proxy,
        .metrics = &f->metrics,
        .policies = f->policies,
        .namespace = "ns",
        .pod = "blue-0",
        .uid = "u-1",
        .clock = &f->api->clock.clock,
    };
    return status_lease_new(f->api->loop, &o, &e);
}

static void close_lease(struct fixture *f)
{
    status_lease_free(lease);
    lease = NULL;
    fake_clock_forget(&f->api->clock);
}

static void open_again(struct fixture *f)
{
    lease = open_lease(f);
    assert_non_null(lease);
}

static int setup(void **state)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    lease = open_lease(*state);
    return lease != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    status_lease_free(lease);
    return fixture_teardown(state);
}

/* ---- what is written ---- */

static void pass(struct fixture *f, uint64_t ms)
{
    fake_clock_pass(&f->api->clock, ms);
}

static struct api_request *expect_write(struct fixture *f, const char *method, const char *target)
{
    pass(f, 0);
    return api_expect(f->api, method, target);
}

static void expect_quiet(struct fixture *f)
{
    run_for(f->api->loop, 10);
    pass(f, 0);
    assert_true(list_empty(&f->api->requests));
}

/* Versions of the Lease grow with each write. */
static unsigned version;

static const char *lease_text(void)
{
    static char text[256];
    (void)snprintf(text, sizeof text,
                   "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"%u\",\"labels\":{"
                   "\"app.kubernetes.io/part-of\":\"cmesh\","
                   "\"app.kubernetes.io/component\":\"localproxy\"}}}",
                   version);
    return text;
}

static void accept_write(struct api_request *q)
{
    version++;
    api_answer(q, 200, NULL, lease_text());
    run_for(q->api->loop, 10);
}

/* It asks for the version before it writes. */
static struct api_request *expect_read(struct fixture *f)
{
    return expect_write(f, "GET", NAMED);
}

static struct api_request *expect_first_write(struct fixture *f)
{
    api_answer(expect_read(f), 200, NULL, lease_text());
    return expect_write(f, "PUT", LEASE);
}

static cJSON *body_of(const struct api_request *q)
{
    cJSON *body = json_parse(q->body, strlen(q->body), NULL);
    assert_non_null(body);
    return body;
}

/* The status that stands in it. */
static cJSON *told_by(const struct api_request *q)
{
    cJSON *body = body_of(q);
    const char *text =
        field_text(field_get(field_get(body, "metadata"), "annotations"), CONTROL_LEASE_ANNOTATION);
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    cJSON_Delete(body);
    return root;
}

static void expect_told(const struct api_request *q, uint64_t generation, bool settled)
{
    struct err e = ERR_INIT;
    struct control_proxy_status status;
    cJSON *root = told_by(q);
    assert_int_equal(control_proxy_status_read(root, &status, &e), 0);
    assert_int_equal(status.rules.enforcing, generation != 0);
    assert_int_equal(status.rules.generation, generation);
    assert_int_equal(status.settled, settled);
    cJSON_Delete(root);
}

/* The first Lease says that there are no rules yet. */
static void start(struct fixture *f)
{
    struct api_request *q = expect_first_write(f);
    expect_told(q, 0, false);
    accept_write(q);
    expect_quiet(f);
}

static void made_when_it_is_missing(void **state)
{
    struct fixture *f = *state;
    api_answer(expect_read(f), 404, NULL, NOT_FOUND);
    struct api_request *q = expect_write(f, "POST", LEASES);
    cJSON *body = body_of(q);
    const cJSON *meta = field_get(body, "metadata");
    const cJSON *labels = field_get(meta, "labels");
    const cJSON *owner = cJSON_GetArrayItem(field_get(meta, "ownerReferences"), 0);
    assert_string_equal(field_text(body, "kind"), "Lease");
    assert_string_equal(field_text(meta, "name"), "cmesh-blue-0");
    assert_string_equal(field_text(meta, "namespace"), "ns");
    assert_string_equal(field_text(labels, "app.kubernetes.io/part-of"), "cmesh");
    assert_string_equal(field_text(labels, "app.kubernetes.io/component"), "localproxy");
    assert_string_equal(field_text(owner, "kind"), "Pod");
    assert_string_equal(field_text(owner, "name"), "blue-0");
    assert_string_equal(field_text(owner, "uid"), "u-1");
    assert_string_equal(field_text(field_get(body, "spec"), "holderIdentity"), "blue-0");
    assert_string_equal(field_text(field_get(body, "spec"), "renewTime"),
                        "2026-01-01T00:00:00.000123Z");
    cJSON_Delete(body);
    cJSON *root = told_by(q);
    struct control_pod pod = control_pod_read(root);
    assert_string_equal(field_text(root, "program"), "localproxy");
    assert_string_equal(field_text(root, "version"), CMESH_VERSION);
    assert_string_equal(pod.name, "blue-0");
    assert_string_equal(pod.uid, "u-1");
    cJSON_Delete(root);
    api_answer(q, 201, NULL, "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"77\"}}");
    expect_quiet(f);
    /* The next time it is known which version is replaced. */
    fixture_limit(f, OWN " in (a)");
    status_lease_look(lease, 0);
    q = expect_write(f, "PUT", LEASE);
    body = body_of(q);
    assert_string_equal(field_meta(body, "resourceVersion"), "77");
    cJSON_Delete(body);
    assert_int_equal(f->metrics.lease_written, 1);
    assert_int_equal(f->metrics.lease_failed, 0);
}

static void look(struct fixture *f, uint64_t ms)
{
    status_lease_look(lease, ms);
    pass(f, 0);
}

static void rules_are_told_at_once(void **state)
{
    struct fixture *f = *state;
    start(f);
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    struct api_request *q = expect_write(f, "PUT", LEASE);
    expect_told(q, 1, true);
    accept_write(q);
    look(f, 0); /* it tells nothing new */
    expect_quiet(f);
}

/* Rules that are not settled are told a little later, unless they are by then. */
static void until_they_are_settled(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    accept_write(expect_write(f, "PUT", LEASE));
    expect_quiet(f);
    client_open(f, &c);
    client_send(&c, "DELETE /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct api_request *del = api_expect_part(f->api, "/pods/x");
    fixture_limit(f, OWN " in (b)");
    look(f, 250);
    run_for(f->api->loop, 10);
    assert_int_equal(f->api->count, 4);
    pass(f, 250);
    struct api_request *q = api_expect_part(f->api, LEASE);
    expect_told(q, 2, false);
    accept_write(q);
    api_answer(del, 200, NULL, "{}");
    fixture_expect(f, &c, "200 OK");
    fixture_expect_settled(f);
    look(f, 0);
    q = expect_write(f, "PUT", LEASE);
    expect_told(q, 2, true);
    accept_write(q);
    client_close(&c);
}

/* What comes while it is written is written afterwards, and the last state only. */
static void one_request_at_a_time(void **state)
{
    struct fixture *f = *state;
    start(f);
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    struct api_request *q = expect_write(f, "PUT", LEASE);
    for (int i = 0; i < 5; i++) {
        fixture_limit(f, i % 2 == 0 ? OWN " in (b)" : OWN " in (c)");
        look(f, 0);
    }
    run_for(f->api->loop, 10);
    assert_int_equal(f->api->count, 3);
    expect_told(q, 1, true);
    accept_write(q);
    q = expect_write(f, "PUT", LEASE);
    expect_told(q, 6, true);
    accept_write(q);
    expect_quiet(f);
}

static void first_client_is_told_of_and_no_other(void **state)
{
    struct fixture *f = *state;
    struct control_proxy_use use;
    start(f);
    for (int i = 0; i < 3; i++) {
        struct client c;
        fixture_get(f, &c, "/api/v1/pods");
        fixture_expect(f, &c, "503");
        client_close(&c);
    }
    pass(f, 5000);
    struct api_request *q = expect_write(f, "PUT", LEASE);
    cJSON *root = told_by(q);
    control_proxy_use_read(root, &use);
    assert_true(use.clients_known);
    assert_int_equal(use.requests, 1);
    assert_int_equal(use.uptime_s, 5);
    assert_false(use.bypass_known);
    cJSON_Delete(root);
    accept_write(q);
    pass(f, 20000);
    expect_quiet(f);
}

/* ---- renewal ---- */

static void renewed_while_nobody_asks(void **state)
{
    struct fixture *f = *state;
    start(f);
    for (int i = 0; i < 3; i++) {
        pass(f, RENEW_MS - 1000);
        expect_quiet(f);
        pass(f, 6000);
        accept_write(expect_write(f, "PUT", LEASE));
    }
    /* A manager that asks each 15 s knows that it is alive. */
    for (int i = 0; i < 20; i++) {
        status_lease_asked(lease);
        pass(f, 15000);
        expect_quiet(f);
    }
    pass(f, 30000);
    accept_write(expect_write(f, "PUT", LEASE));
    /* And what changes is told all the same. */
    status_lease_asked(lease);
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    struct api_request *q = expect_write(f, "PUT", LEASE);
    expect_told(q, 1, true);
    accept_write(q);
}

/* ---- failures ---- */

static void failures_are_repeated_with_pauses(void **state)
{
    static const uint64_t pauses[] = {1000, 2000, 4000, 8000, 10000, 10000};
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(pauses); i++) {
        struct api_request *q = i % 2 == 0 ? expect_read(f) : expect_first_write(f);
        api_answer(q, 500, NULL, "{\"message\":\"no\"}");
        run_for(f->api->loop, 10);
        assert_non_null(strstr(status_lease_error(lease), "500"));
        look(f, 0); /* no earlier than that */
        pass(f, pauses[i] - 1);
        expect_quiet(f);
        pass(f, 1);
    }
    accept_write(expect_first_write(f));
    assert_null(status_lease_error(lease));
    assert_int_equal(f->metrics.lease_failed, ARRAY_LEN(pauses));
    assert_int_equal(f->metrics.lease_written, 1);
    /* The next pause is short again. */
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    api_cut(expect_write(f, "PUT", LEASE));
    run_for(f->api->loop, 10);
    pass(f, 1000);
    expect_told(expect_first_write(f), 1, true);
}

static void refuse(struct api_request *q, const char *text)
{
    api_answer(q, 403, NULL, text);
    run_for(q->api->loop, 10);
}

static void what_is_forbidden_is_tried_ever_more_rarely(void **state)
{
    struct fixture *f = *state;
    refuse(expect_read(f), "{\"message\":\"leases forbidden\"}");
    assert_non_null(strstr(status_lease_error(lease), "leases forbidden"));
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    for (uint64_t pause = 1000; pause < 300000; pause *= 2) {
        pass(f, pause - 1);
        expect_quiet(f);
        pass(f, 1);
        refuse(expect_read(f), "{\"message\":\"leases forbidden\"}");
    }
    pass(f, 299000);
    expect_quiet(f);
    pass(f, 1000);
    api_answer(expect_read(f), 404, NULL, NOT_FOUND);
    struct api_request *q = expect_write(f, "POST", LEASES);
    expect_told(q, 1, true);
    refuse(q, "{\"message\":\"create forbidden\"}");
    assert_non_null(strstr(status_lease_error(lease), "create forbidden"));
    pass(f, 299000);
    expect_quiet(f);
}

/* One whose roles are not read yet allows nobody anything. */
static void api_server_that_has_just_started(void **state)
{
    struct fixture *f = *state;
    start(f);
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    for (uint64_t pause = 1000; pause <= 8000; pause *= 2) {
        api_answer(pause == 1000 ? expect_write(f, "PUT", LEASE) : expect_read(f), 503, NULL, "{}");
        run_for(f->api->loop, 10);
        pass(f, pause);
    }
    refuse(expect_read(f), "{\"message\":\"leases forbidden\"}");
    pass(f, 1000);
    struct api_request *q = expect_first_write(f);
    expect_told(q, 1, true);
    accept_write(q);
    expect_quiet(f);
}

/* As the lock of an operator whose leader election happens to be called like that. */
static void the_lock_of_somebody_is_left_alone(void **state)
{
    static const char *const others[] = {
        "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"5\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"5\",\"labels\":{"
        "\"app.kubernetes.io/part-of\":\"cmesh\",\"app.kubernetes.io/component\":\"manager\"}}}",
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        api_answer(expect_read(f), 200, NULL, others[i]);
        run_for(f->api->loop, 10);
        assert_non_null(strstr(status_lease_error(lease), "not localproxy's"));
        pass(f, (1000U << i) - 1);
        expect_quiet(f);
        pass(f, 1);
    }
    accept_write(expect_first_write(f)); /* it was deleted, and another one was made */
    assert_null(status_lease_error(lease));
}

/* The name of a pod may be so long that there is no Lease of that name. */
static void what_is_invalid_is_seldom_tried(void **state)
{
    struct fixture *f = *state;
    api_answer(expect_read(f), 404, NULL, NOT_FOUND);
    api_answer(expect_write(f, "POST", LEASES), 422, NULL, "{\"reason\":\"Invalid\"}");
    run_for(f->api->loop, 10);
    for (uint64_t pause = 1000; pause < 300000; pause *= 2) {
        pass(f, pause);
        api_answer(expect_read(f), 404, NULL, NOT_FOUND);
        api_answer(expect_write(f, "POST", LEASES), 422, NULL, "{\"reason\":\"Invalid\"}");
        run_for(f->api->loop, 10);
    }
    pass(f, 299000);
    expect_quiet(f);
    pass(f, 1000);
    (void)expect_read(f);
}

static void somebody_else_creates_it(void **state)
{
    struct fixture *f = *state;
    api_answer(expect_read(f), 404, NULL, NOT_FOUND);
    api_answer(expect_write(f, "POST", LEASES), 409, NULL, "{\"reason\":\"AlreadyExists\"}");
    run_for(f->api->loop, 10);
    pass(f, 1000);
    accept_write(expect_first_write(f));
    expect_quiet(f);
}

static void somebody_else_changes_it(void **state)
{
    struct fixture *f = *state;
    start(f);
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    api_answer(expect_write(f, "PUT", LEASE), 409, NULL, CONFLICT);
    run_for(f->api->loop, 10);
    pass(f, 1000);
    struct api_request *q = expect_first_write(f);
    expect_told(q, 1, true);
    accept_write(q);
    expect_quiet(f);
}

/* It is gone, as with `kubectl delete lease`: the next word makes it again. */
static void deleted_by_somebody(void **state)
{
    struct fixture *f = *state;
    start(f);
    fixture_limit(f, OWN " in (a)");
    look(f, 0);
    api_answer(expect_write(f, "PUT", LEASE), 404, NULL, NOT_FOUND);
    struct api_request *q = expect_write(f, "POST", LEASES);
    expect_told(q, 1, true);
    accept_write(q);
}

static void freed_in_each_phase(void **state)
{
    struct fixture *f = *state;
    close_lease(f); /* before its first turn */
    open_again(f);
    struct api_request *q = expect_read(f);
    close_lease(f);
    api_expect_given_up(q);
    open_again(f);
    q = expect_first_write(f);
    close_lease(f);
    api_expect_given_up(q);
    open_again(f);
    api_answer(expect_read(f), 404, NULL, NOT_FOUND);
    q = expect_write(f, "POST", LEASES);
    close_lease(f);
    api_expect_given_up(q);
    open_again(f);
    api_answer(expect_read(f), 500, NULL, "{}");
    run_for(f->api->loop, 10);
    close_lease(f); /* in a pause */
}

/* ---- out of memory ---- */

static bool tell_rules(void *data)
{
    struct fixture *f = data;
    struct status_lease *s = open_lease(f);
    if (s == NULL) {
        fake_clock_forget(&f->api->clock);
        return false;
    }
    uint64_t before = f->metrics.lease_written;
    bool told = false;
    for (int i = 0; i < 50 && !told; i++) {
        fake_clock_pass(&f->api->clock, 1000);
        run_for(f->api->loop, 1);
        if (!list_empty(&f->api->requests)) {
            long left = alloc_sweep_pause();
            struct api_request *q = api_expect_part(f->api, PATH);
            bool create = strcmp(q->method, "POST") == 0;
            api_answer(q, create ? 201 : 404, NULL, create ? lease_text() : NOT_FOUND);
            alloc_sweep_resume(left);
        }
        told = f->metrics.lease_written > before;
    }
    long left = alloc_sweep_pause();
    status_lease_free(s);
    fake_clock_forget(&f->api->clock);
    run_for(f->api->loop, 5);
    alloc_sweep_resume(left);
    return told; /* in the end, whatever failed on the way */
}

static void without_memory_it_is_tried_again(void **state)
{
    struct fixture *f = *state;
    close_lease(f);
    fixture_limit(f, OWN " in (a)");
    assert_true(sweep_allocations(tell_rules, f) > 10);
}

static int setup_with_policies(void **state)
{
    if (fixture_setup_with_policies(state) != 0) {
        return -1;
    }
    lease = open_lease(*state);
    return lease != NULL ? 0 : -1;
}

/* Only the one at 150 is open. */
static void publish_breakers(struct fixture *f, int count)
{
    struct buf spec = BUF_INIT(TRAFFIC_TEXT_MAX);
    buf_append_str(
        &spec, "{\"breakers\":[{\"name\":\"guard\",\"spec\":{\"selector\":{},\"rateLimitings\":[");
    for (int i = 0; i < count; i++) {
        buf_printf(
            &spec,
            "%s{\"name\":\"r%d\",\"resourceRules\":[{\"apiGroups\":[\"\"],\"resources\":[\"r%d\"]"
            ",\"verbs\":[\"get\"],\"namespaces\":[\"*\"]}],\"triggerPolicy\":\"%s\"}",
            i > 0 ? "," : "", i, i, i == 150 ? "ForceOpened" : "ForceClosed");
    }
    buf_append_str(&spec, "]}}]}");
    fixture_traffic(f, buf_cstr(&spec));
    buf_reset(&spec);
}

/* As many as there is room for, and those that are open first. */
static void test_it_tells_of_circuit_breakers(void **state)
{
    struct fixture *f = *state;
    struct control_traffic_status status;
    struct control_breaker row;
    fixture_limit(f, "ns in (a)");
    publish_breakers(f, 200);
    struct api_request *q = expect_first_write(f);
    cJSON *body = body_of(q);
    const char *text =
        field_text(field_get(field_get(body, "metadata"), "annotations"), CONTROL_LEASE_ANNOTATION);
    assert_in_range(strlen(text), 3800, CONTROL_LEASE_DOCUMENT_MAX);
    cJSON_Delete(body);
    cJSON *root = told_by(q);
    control_traffic_status_read(root, &status);
    assert_true(status.known);
    assert_true(status.document.enforcing);
    const cJSON *at = NULL;
    assert_true(control_traffic_next_breaker(root, &at, &row));
    assert_string_equal(row.rule, "r150");
    assert_int_equal(row.state, CONTROL_BREAKER_OPENED);
    size_t told = 1;
    while (control_traffic_next_breaker(root, &at, &row)) {
        told++;
    }
    assert_int_equal(told + status.left_out, 200);
    assert_in_range(told, 10, 199);
    cJSON_Delete(root);
    accept_write(q);
}

static void turn_breaker(struct fixture *f, bool open)
{
    fixture_traffic(
        f, open ? TRAFFIC_SPEC(TRAFFIC_BREAKER(
                                   "guard", TRAFFIC_LIMITING("a", TRAFFIC_EVERYTHING,
                                                             "\"triggerPolicy\":\"ForceOpened\"")),
                               "")
                : NULL);
    look(f, 0);
}

/* The API server has enough to do when breakers open. */
static void a_breaker_that_flaps_is_told_of_now_and_then(void **state)
{
    struct fixture *f = *state;
    struct control_breaker row;
    fixture_limit(f, "ns in (a)");
    accept_write(expect_first_write(f));
    for (int i = 1; i < 10; i++) {
        turn_breaker(f, i % 2 == 1);
        accept_write(expect_write(f, "PUT", LEASE));
    }
    for (int i = 0; i < 21; i++) {
        turn_breaker(f, i % 2 == 1);
    }
    expect_quiet(f);
    fixture_limit(f, "ns in (b)"); /* rules are told at once all the same */
    look(f, 0);
    accept_write(expect_write(f, "PUT", LEASE));
    turn_breaker(f, true);
    turn_breaker(f, false);
    turn_breaker(f, true);
    expect_quiet(f);
    pass(f, 4999);
    expect_quiet(f);
    pass(f, 1);
    struct api_request *q = expect_write(f, "PUT", LEASE);
    cJSON *root = told_by(q);
    const cJSON *at = NULL;
    assert_true(control_traffic_next_breaker(root, &at, &row)); /* the last state only */
    assert_int_equal(row.state, CONTROL_BREAKER_OPENED);
    cJSON_Delete(root);
    accept_write(q);
    turn_breaker(f, false);
    expect_quiet(f);
    pass(f, 5000);
    accept_write(expect_write(f, "PUT", LEASE));
}

/* ---- the load ---- */

static int setup_that_counts(void **state)
{
    if (fixture_setup_with_policies(state) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    f->flags.count_load = true;
    fixture_restart(f);
    lease = open_lease(f);
    return lease != NULL ? 0 : -1;
}

static struct bucket_load *load_of(struct fixture *f)
{
    return (struct bucket_load *)(uintptr_t)proxy_facts(f->proxy).load;
}

/* Not for itself: a number that grows is no reason to write. */
static void the_load_is_told_with_what_else_there_is(void **state)
{
    struct fixture *f = *state;
    struct control_load told;
    fixture_limit(f, "ns in (a)");
    struct api_request *q = expect_first_write(f);
    cJSON *root = told_by(q);
    control_load_read(root, &told);
    assert_true(told.known);
    assert_int_equal(told.of[7].events, 0);
    cJSON_Delete(root);
    accept_write(q);
    load_of(f)->counts.of[7] = (struct control_load_counts){1, 2, 3};
    pass(f, 5000);
    expect_quiet(f);
    pass(f, 2 * RENEW_MS);
    q = expect_write(f, "PUT", LEASE);
    root = told_by(q);
    control_load_read(root, &told);
    assert_int_equal(told.of[7].requests, 1);
    assert_int_equal(told.of[7].events, 2);
    assert_int_equal(told.of[7].objects, 3);
    cJSON_Delete(root);
    accept_write(q);
}

/* It goes before circuit breakers, and all together keeps the bound. */
static void the_largest_load_finds_room(void **state)
{
    struct fixture *f = *state;
    struct control_traffic_status status;
    struct control_load told;
    for (int i = 0; i <= CONTROL_LOAD_OTHERS; i++) {
        const uint64_t most = 123456789012345678;
        load_of(f)->counts.of[i] = (struct control_load_counts){most, most, most};
    }
    fixture_limit(f, "ns in (a)");
    publish_breakers(f, 200);
    struct api_request *q = expect_first_write(f);
    cJSON *body = body_of(q);
    const char *text =
        field_text(field_get(field_get(body, "metadata"), "annotations"), CONTROL_LEASE_ANNOTATION);
    assert_in_range(strlen(text), 3400, CONTROL_LEASE_DOCUMENT_MAX);
    cJSON_Delete(body);
    cJSON *root = told_by(q);
    assert_true(cJSON_IsObject(field_get(root, "load")));
    control_traffic_status_read(root, &status);
    assert_true(status.known);
    assert_in_range(status.left_out, 150, 200);
    cJSON_Delete(root);
    for (int i = 0; i <= CONTROL_LOAD_OTHERS; i++) {
        load_of(f)->counts.of[i] = (struct control_load_counts){1, 1, 1};
    }
    accept_write(q);
    look(f, 0);
    q = expect_write(f, "PUT", LEASE); /* for there is room for more breakers now */
    root = told_by(q);
    control_load_read(root, &told);
    assert_true(told.known);
    cJSON_Delete(root);
    accept_write(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_tells_of_circuit_breakers, setup_with_policies,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_breaker_that_flaps_is_told_of_now_and_then,
                                        setup_with_policies, teardown),
        cmocka_unit_test_setup_teardown(the_load_is_told_with_what_else_there_is, setup_that_counts,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_largest_load_finds_room, setup_that_counts, teardown),
        cmocka_unit_test_setup_teardown(made_when_it_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(rules_are_told_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(until_they_are_settled, setup, teardown),
        cmocka_unit_test_setup_teardown(one_request_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(first_client_is_told_of_and_no_other, setup, teardown),
        cmocka_unit_test_setup_teardown(renewed_while_nobody_asks, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_are_repeated_with_pauses, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_forbidden_is_tried_ever_more_rarely, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(api_server_that_has_just_started, setup, teardown),
        cmocka_unit_test_setup_teardown(the_lock_of_somebody_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_invalid_is_seldom_tried, setup, teardown),
        cmocka_unit_test_setup_teardown(somebody_else_creates_it, setup, teardown),
        cmocka_unit_test_setup_teardown(somebody_else_changes_it, setup, teardown),
        cmocka_unit_test_setup_teardown(deleted_by_somebody, setup, teardown),
        cmocka_unit_test_setup_teardown(freed_in_each_phase, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_it_is_tried_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
