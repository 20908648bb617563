/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that are valid only while the pod's Lease is renewed: what becomes of requests when they
 * cease to be, and what makes them valid again.
 *
 * The lease is of 30 s, so that it is renewed after 9 s with a random number of 0; the clock stands
 * still unless a test moves it.
 */
#include "guard/rules_lease.h"

#include <stdlib.h>

#include "alloc_sweep.h"
#include "control/status.h"
#include "reload_fixture.h"
#include "status/status_lease.h"
#include "json/field.h"
#include "json/json.h"

#define OWN "ctrlmesh.kusionstack.io/namespace"
#define PATH "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define NAMED PATH "/cmesh-blue-0"
#define CREATED PATH "?fieldManager=cmesh-localproxy"
#define WRITTEN NAMED "?fieldManager=cmesh-localproxy"
#define EXPIRED "the rules are not valid"
#define WATCH "/api/v1/pods?watch=1"

enum { LEASE_S = 30, LEASE_MS = 30000, RENEW_MS = 9000 };

static struct status_lease *lease;
static unsigned version;

static void open_status(struct fixture *f)
{
    struct err e = ERR_INIT;
    const struct status_lease_options o = {
        .client = f->api->client,
        .proxy = f->proxy,
        .metrics = &f->metrics,
        .lease = f->lease,
        .namespace = "ns",
        .pod = "blue-0",
        .uid = "u-1",
        .clock = &f->api->clock.clock,
    };
    lease = status_lease_new(f->api->loop, &o, &e);
    assert_non_null(lease);
}

static void close_status(struct fixture *f)
{
    status_lease_free(lease);
    lease = NULL;
    fake_clock_forget(&f->api->clock);
}

static int setup(void **state)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    f->lease_s = LEASE_S;
    fixture_restart(f);
    open_status(f);
    fixture_limit(f, OWN " in (a)");
    return 0;
}

static int teardown(void **state)
{
    close_status(*state);
    return fixture_teardown(state);
}

/* ---- the Lease ---- */

static void pass(struct fixture *f, uint64_t ms)
{
    fake_clock_pass(&f->api->clock, ms);
}

/* Nothing but the clock moves. */
static void stop_for(struct fixture *f, uint64_t ms)
{
    fake_clock_jump(&f->api->clock, ms);
}

/* As it stands there: of the pod with that uid; `required` NULL: without the annotation. */
static const char *lease_of(const char *uid, const char *required)
{
    static char text[512];
    char annotation[128] = "";
    if (required != NULL) {
        (void)snprintf(annotation, sizeof annotation, "\"%s\":\"%s\"", CONTROL_LEASE_REQUIRED,
                       required);
    }
    (void)snprintf(text, sizeof text,
                   "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"%u\",\"annotations\":{"
                   "%s},\"ownerReferences\":[{\"kind\":\"Pod\",\"name\":\"blue-0\",\"uid\":\"%s\"}"
                   "],\"labels\":{\"app.kubernetes.io/part-of\":\"cmesh\","
                   "\"app.kubernetes.io/component\":\"localproxy\"}}}",
                   version, annotation, uid);
    return text;
}

static struct api_request *expect(struct fixture *f, const char *method, const char *target)
{
    pass(f, 0);
    for (int i = 0; i < 1000 && list_empty(&f->api->requests); i++) {
        run_for(f->api->loop, 1);
        pass(f, 0);
    }
    return api_expect(f->api, method, target);
}

static void answer(struct api_request *q, unsigned status, const char *body)
{
    api_answer(q, status, NULL, body);
    run_for(q->api->loop, 10);
}

static void refuse(struct api_request *q, unsigned status)
{
    char body[64];
    (void)snprintf(body, sizeof body, "{\"message\":\"status %u\"}", status);
    answer(q, status, body);
}

static void accept_write(struct api_request *q)
{
    version++;
    answer(q, 200, lease_of("u-1", NULL));
}

/* The annotation that a write has; "": none. The caller frees. */
static char *requirement_of(const struct api_request *q)
{
    cJSON *body = json_parse(q->body, strlen(q->body), NULL);
    const cJSON *meta = field_get(body, "metadata");
    char *text = strdup(field_text(field_get(meta, "annotations"), CONTROL_LEASE_REQUIRED));
    assert_non_null(text);
    assert_int_equal(field_get(field_get(body, "spec"), "leaseDurationSeconds")->valueint, LEASE_S);
    cJSON_Delete(body);
    return text;
}

static void expect_requirement(const struct api_request *q, const char *required)
{
    char *text = requirement_of(q);
    assert_string_equal(text, required);
    free(text);
}

/* What stands there is read, and the write that follows returned. */
static struct api_request *expect_read(struct fixture *f, const char *there)
{
    answer(expect(f, "GET", NAMED), 200, there);
    return expect(f, "PUT", WRITTEN);
}

static bool is_valid(struct fixture *f)
{
    char why[512];
    bool ready = proxy_ready(f->proxy, why, sizeof why);
    assert_int_equal(ready, rules_lease_valid(f->lease));
    assert_int_equal(rules_lease_remaining_ms(f->lease) == 0, !ready);
    return ready;
}

static const char *why_not(struct fixture *f)
{
    static char why[512];
    assert_false(proxy_ready(f->proxy, why, sizeof why));
    return why;
}

static void expect_why(struct fixture *f, const char *part)
{
    if (strstr(why_not(f), part) == NULL) {
        fail_msg("expected \"%s\", got \"%s\"", part, why_not(f));
    }
}

static void start(struct fixture *f)
{
    answer(expect(f, "GET", NAMED), 404, "{}");
    struct api_request *q = expect(f, "POST", CREATED);
    expect_requirement(q, "");
    accept_write(q);
    assert_true(is_valid(f));
}

/* The Lease cannot be renewed until the rules have expired. */
static void let_expire(struct fixture *f)
{
    api_stop(f->api);
    for (int i = 0; i < LEASE_S && is_valid(f); i++) {
        pass(f, 1000);
        run_for(f->api->loop, 2);
    }
    assert_false(is_valid(f));
    assert_true(api_listen(f->api));
    api_forget(f->api);
    for (int i = 0; i < 20 && list_empty(&f->api->requests); i++) {
        pass(f, 1000);
        run_for(f->api->loop, 2);
    }
}

static void expect_refused(struct fixture *f, const char *target)
{
    struct client c;
    unsigned before = f->api->count;
    fixture_get(f, &c, target);
    fixture_expect(f, &c, EXPIRED);
    assert_true(client_has(&c, "HTTP/1.1 503"));
    assert_true(client_has(&c, "Retry-After: 1"));
    assert_int_equal(f->api->count, before);
    client_close(&c);
}

static void expect_shown(struct fixture *f)
{
    struct client c;
    fixture_get(f, &c, "/api/v1/namespaces/a/pods/x");
    answer(api_expect_part(f->api, "/pods/x"), 200, "{}");
    fixture_expect(f, &c, "200 OK");
    client_close(&c);
}

/* ---- until when the rules are valid ---- */

static void not_before_the_lease_was_written(void **state)
{
    struct fixture *f = *state;
    expect_why(f, "it was not written yet");
    struct api_request *q = expect(f, "GET", NAMED);
    struct client c;
    fixture_get(f, &c, "/api/v1/pods");
    fixture_expect(f, &c, EXPIRED);
    client_close(&c);
    answer(q, 404, "{}");
    accept_write(expect(f, "POST", CREATED));
    assert_true(is_valid(f));
    assert_int_equal(rules_lease_expirations(f->lease), 0);
    expect_shown(f);
}

static void as_long_as_it_is_renewed(void **state)
{
    struct fixture *f = *state;
    start(f);
    for (int i = 0; i < 20; i++) {
        status_lease_asked(lease); /* which keeps nobody else from being told by the Lease */
        pass(f, RENEW_MS - 1);
        api_expect_quiet(f->api);
        pass(f, 1);
        accept_write(expect(f, "PUT", WRITTEN));
        assert_true(is_valid(f));
        assert_int_equal(rules_lease_remaining_ms(f->lease), LEASE_MS);
    }
}

static void to_the_millisecond_and_no_longer(void **state)
{
    struct fixture *f = *state;
    start(f);
    stop_for(f, LEASE_MS - 1);
    assert_true(is_valid(f));
    assert_int_equal(rules_lease_remaining_ms(f->lease), 1);
    stop_for(f, 1);
    assert_false(is_valid(f));
    assert_int_equal(rules_lease_expirations(f->lease), 1);
    expect_refused(f, "/api/v1/pods");
    expect_refused(f, "/api/v1/namespaces/a/configmaps/unlimited");
}

/* An API server that answers late has executed the write at any time since it was sent. */
static void since_the_write_was_sent(void **state)
{
    struct fixture *f = *state;
    start(f);
    pass(f, RENEW_MS);
    struct api_request *q = expect(f, "PUT", WRITTEN);
    stop_for(f, 8000);
    accept_write(q);
    assert_int_equal(rules_lease_remaining_ms(f->lease), LEASE_MS - 8000);
}

static void an_answer_that_comes_too_late_renews_nothing(void **state)
{
    struct fixture *f = *state;
    start(f);
    pass(f, RENEW_MS);
    struct api_request *q = expect(f, "PUT", WRITTEN);
    stop_for(f, LEASE_MS);
    accept_write(q);
    assert_false(is_valid(f));
    accept_write(expect_read(f, lease_of("u-1", NULL)));
    assert_true(is_valid(f));
}

/* It is given up in time for another attempt. */
static void a_silent_api_server_is_asked_again(void **state)
{
    struct fixture *f = *state;
    start(f);
    pass(f, RENEW_MS);
    struct api_request *q = expect(f, "PUT", WRITTEN);
    run_for(f->api->loop, 50);
    assert_false(q->gone);
    status_lease_free(lease); /* the time limit of a request is the loop's */
    lease = NULL;
    api_expect_given_up(q);
    fake_clock_forget(&f->api->clock);
    stop_for(f, LEASE_MS - RENEW_MS);
    assert_false(is_valid(f));
}

static void what_is_not_for_resources_goes_on(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    stop_for(f, LEASE_MS);
    fixture_get(f, &c, "/version");
    answer(api_expect_part(f->api, "/version"), 200, "{}");
    fixture_expect(f, &c, "200 OK");
    client_close(&c);
}

/* ---- what is under way ---- */

/* The timer notices. */
static void run_out(struct fixture *f)
{
    uint64_t before = rules_lease_expirations(f->lease);
    stop_for(f, LEASE_MS);
    pass(f, 0);
    assert_int_equal(rules_lease_expirations(f->lease), before + 1);
}

static struct api_request *begin_watch(struct fixture *f, struct client *c)
{
    fixture_get(f, c, WATCH);
    struct api_request *q = api_expect_part(f->api, "watch=1");
    api_begin(q, NULL);
    api_send(q, pod_event("ADDED", "one", 6));
    fixture_expect(f, c, "\"one\"");
    return q;
}

static void expect_cut(struct fixture *f, struct client *c, struct api_request *q)
{
    fixture_expect(f, c, "\"code\":410");
    fixture_expect(f, c, "0\r\n\r\n");
    assert_true(client_has(c, EXPIRED));
    assert_false(client_has(c, "\"two\""));
    api_expect_given_up(q);
    assert_int_equal(f->metrics.open_watches, 0);
    client_close(c);
}

static void open_watches_end(void **state)
{
    struct fixture *f = *state;
    struct client c[3];
    struct api_request *q[3];
    start(f);
    for (int i = 0; i < 3; i++) {
        q[i] = begin_watch(f, &c[i]);
    }
    run_out(f);
    for (int i = 0; i < 3; i++) {
        expect_cut(f, &c[i], q[i]);
    }
}

/* Whoever comes first notices: here an event, after the process was stopped for a while. */
static void an_event_that_comes_too_late_is_not_shown(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    struct api_request *q = begin_watch(f, &c);
    stop_for(f, LEASE_MS);
    api_send(q, pod_event("ADDED", "two", 7));
    expect_cut(f, &c, q);
}

static void a_watch_within_a_large_event_is_broken_off(void **state)
{
    static char piece[128 * 1024];
    struct fixture *f = *state;
    struct client c;
    start(f);
    struct api_request *q = begin_watch(f, &c);
    memset(piece, 'x', sizeof piece - 1);
    api_send(q, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"");
    for (int i = 0; i < 16; i++) {
        api_send(q, piece);
        run_for(f->api->loop, 2);
        client_read(&c);
    }
    fixture_expect(f, &c, "xxxx");
    run_out(f);
    fixture_expect(f, &c, NULL);
    api_expect_given_up(q);
    client_close(&c);
}

/* Of a client that has listed at that version. */
static struct api_request *begin_known_watch(struct fixture *f, struct client *c, unsigned at)
{
    char watch[128];
    (void)snprintf(watch, sizeof watch,
                   "/api/v1/pods?watch=1&resourceVersion=%u&allowWatchBookmarks=true", at);
    fixture_get(f, c, "/api/v1/pods");
    answer(api_expect_part(f->api, "/pods"), 200, pod_list(at, NULL, NULL));
    fixture_expect(f, c, "PodList");
    client_close(c);
    fixture_get(f, c, watch);
    struct api_request *q = api_expect_part(f->api, "watch=1");
    api_begin(q, NULL);
    fixture_expect(f, c, "200 OK");
    return q;
}

/* While its difference is listed, and while the watch is asked for that follows. */
static void a_watch_that_migrates_ends(void **state)
{
    struct fixture *f = *state;
    start(f);
    for (unsigned step = 0; step < 2; step++) {
        struct client c;
        struct api_request *q = begin_known_watch(f, &c, 100 + step);
        fixture_limit(f, step == 0 ? OWN " in (b)" : OWN " in (c)");
        api_expect_given_up(q);
        q = api_expect_part(f->api, "limit=");
        while (step == 1 && strstr(q->target, "watch=") == NULL) {
            answer(q, 200, pod_list(100 + step, NULL, NULL));
            q = api_expect_part(f->api, "/pods");
        }
        run_out(f);
        fixture_expect(f, &c, "\"code\":410");
        api_expect_given_up(q);
        client_close(&c);
        accept_write(expect_read(f, lease_of("u-1", NULL)));
        assert_true(is_valid(f));
    }
}

static void what_was_not_answered_is_answered_so(void **state)
{
    static const char *const reads[] = {"/api/v1/pods", "/api/v1/namespaces/a/pods/x", WATCH,
                                        "/apis/coordination.k8s.io/v1/namespaces/ns/leases/own"};
    struct fixture *f = *state;
    start(f);
    for (int i = 0; i < 4; i++) {
        struct client c;
        fixture_get(f, &c, reads[i]);
        struct api_request *q = api_expect_part(f->api, "");
        run_out(f);
        fixture_expect(f, &c, EXPIRED);
        assert_true(client_has(&c, "HTTP/1.1 503"));
        api_expect_given_up(q);
        client_close(&c);
        accept_write(expect_read(f, lease_of("u-1", NULL)));
        assert_true(is_valid(f));
    }
}

static struct api_request *send_write(struct fixture *f, struct client *c, const char *body)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "PUT /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Type: application/json\r\nContent-Length: 4\r\n\r\n%s",
                   body);
    client_open(f, c);
    client_send(c, text);
    return api_expect_part(f->api, "/pods/x");
}

/* Nobody knows whether it was executed. */
static void a_write_that_was_not_answered_is_given_up(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    struct api_request *q = send_write(f, &c, "{  }");
    run_out(f);
    fixture_expect(f, &c, "HTTP/1.1 504");
    assert_true(client_has(&c, EXPIRED));
    api_expect_given_up(q);
    client_close(&c);
    /* It may have been, under the rules that follow, too. */
    fixture_limit(f, OWN " in (b)");
    assert_int_equal(proxy_lost_writes(f->proxy), 1);
}

static void the_rest_of_a_write_is_not_passed_on(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    struct api_request *q = send_write(f, &c, "{ ");
    stop_for(f, LEASE_MS);
    client_send(&c, " }");
    api_expect_given_up(q);
    assert_false(q->whole);
    fixture_expect(f, &c, "HTTP/1.1 504");
    client_close(&c);
}

static void answers_that_are_passed_on_are_broken_off(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start(f);
    fixture_get(f, &c, "/api/v1/pods");
    struct api_request *q = api_expect_part(f->api, "/pods");
    api_begin(q, NULL);
    api_send(q, "{\"kind\":\"PodList\",");
    fixture_expect(f, &c, "PodList");
    run_out(f);
    fixture_expect(f, &c, NULL);
    api_expect_given_up(q);
    client_close(&c);
}

static void tunnels_end(void **state)
{
    struct fixture *f = *state;
    struct client c;
    const struct http_header upgrade = {SLICE("Upgrade"), SLICE("websocket")};
    const struct http_head head = {.status = 101,
                                   .reason = SLICE("Switching Protocols"),
                                   .headers = &upgrade,
                                   .header_count = 1,
                                   .upgrade = true};
    start(f);
    client_open(f, &c);
    client_send(&c, "GET /api/v1/namespaces/a/pods/x/exec?command=sh HTTP/1.1\r\n"
                    "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    struct api_request *q = api_expect_part(f->api, "exec");
    api_begin_head(q, &head);
    fixture_expect(f, &c, "101 Switching");
    assert_int_equal(f->metrics.tunnels, 1);
    run_out(f);
    fixture_expect(f, &c, NULL);
    assert_int_equal(f->metrics.tunnels, 0);
    client_close(&c);
}

/* ---- others were given what the pod had ---- */

static void rules_that_are_older_than_required_stay_invalid(void **state)
{
    struct fixture *f = *state;
    start(f);
    let_expire(f);
    for (int i = 0; i < 3; i++) {
        struct api_request *q =
            i == 0 ? expect_read(f, lease_of("u-1", "3")) : expect(f, "PUT", WRITTEN);
        expect_requirement(q, "3");
        accept_write(q);
        expect_why(f, "generation 3 of its rules is required, and generation 1 is in force");
        expect_refused(f, "/api/v1/pods");
        pass(f, RENEW_MS);
    }
    accept_write(expect(f, "PUT", WRITTEN));
    fixture_limit(f, OWN " in (b)"); /* of generation 2 */
    status_lease_look(lease, 0);
    struct api_request *q = expect(f, "PUT", WRITTEN);
    expect_requirement(q, "3");
    accept_write(q);
    assert_false(is_valid(f));
    fixture_limit(f, OWN " in (c)");
    assert_false(is_valid(f)); /* not before that is written */
    status_lease_look(lease, 0);
    q = expect(f, "PUT", WRITTEN);
    expect_requirement(q, "");
    assert_false(is_valid(f));
    accept_write(q);
    assert_true(is_valid(f));
    expect_shown(f);
}

static void rules_as_required_or_newer_are_valid_again(void **state)
{
    static const char *const enough[] = {"1", "2"};
    struct fixture *f = *state;
    start(f);
    fixture_limit(f, OWN " in (a)");
    for (int i = 0; i < 2; i++) {
        let_expire(f);
        struct api_request *q = expect_read(f, lease_of("u-1", enough[i]));
        expect_requirement(q, "");
        accept_write(q);
        assert_true(is_valid(f));
    }
}

/* A manager was faster: what it wrote is read before anything else is written. */
static void a_conflict_is_looked_at(void **state)
{
    struct fixture *f = *state;
    start(f);
    let_expire(f);
    struct api_request *q = expect_read(f, lease_of("u-1", NULL));
    refuse(q, 409);
    assert_false(is_valid(f));
    pass(f, 10000);
    q = expect_read(f, lease_of("u-1", "2"));
    expect_requirement(q, "2");
    accept_write(q);
    assert_false(is_valid(f));
}

/* While they are valid, nobody has given up the pod: they stay so until they expire. */
static void a_requirement_that_comes_early_lets_them_expire(void **state)
{
    struct fixture *f = *state;
    start(f);
    pass(f, RENEW_MS);
    refuse(expect(f, "PUT", WRITTEN), 409);
    pass(f, 1000);
    struct api_request *q = expect_read(f, lease_of("u-1", "2"));
    expect_requirement(q, "2");
    accept_write(q);
    assert_true(is_valid(f));
    stop_for(f, LEASE_MS - RENEW_MS - 1000);
    assert_false(is_valid(f));
}

static void what_makes_no_sense_is_never_met(void **state)
{
    struct fixture *f = *state;
    start(f);
    let_expire(f);
    struct api_request *q = expect_read(f, lease_of("u-1", "-1"));
    expect_requirement(q, "unknown");
    accept_write(q);
    assert_false(is_valid(f));
}

static void an_earlier_pod_of_the_name_does_not_matter(void **state)
{
    struct fixture *f = *state;
    answer(expect(f, "GET", NAMED), 200, lease_of("u-0", "7"));
    struct api_request *q = expect(f, "PUT", WRITTEN);
    expect_requirement(q, "");
    answer(q, 404, "{}"); /* it goes with its pod */
    q = expect(f, "POST", CREATED);
    expect_requirement(q, "");
    accept_write(q);
    assert_true(is_valid(f));
}

/* This pod was deleted while nobody reached it, and there is another one of its name: a manager
 * says which of them may go on. */
static void a_later_pod_of_the_name(void **state)
{
    struct fixture *f = *state;
    start(f);
    let_expire(f);
    answer(expect(f, "GET", NAMED), 200, lease_of("u-2", NULL));
    struct api_request *q = expect(f, "PUT", WRITTEN);
    expect_requirement(q, "unknown");
    accept_write(q);
    expect_why(f, "written by another pod of this name");
    fixture_limit(f, OWN " in (b)");
    status_lease_look(lease, 0);
    q = expect(f, "PUT", WRITTEN);
    expect_requirement(q, "unknown");
    refuse(q, 409);
    pass(f, 9000);
    q = expect_read(f, lease_of("u-1", "2")); /* it was this one */
    expect_requirement(q, "");
    accept_write(q);
    assert_true(is_valid(f));
}

/* What was required is not known then, and a manager is to say. */
static void a_lease_that_was_deleted_meanwhile(void **state)
{
    struct fixture *f = *state;
    start(f);
    let_expire(f);
    answer(expect(f, "GET", NAMED), 404, "{}");
    struct api_request *q = expect(f, "POST", CREATED);
    expect_requirement(q, "unknown");
    accept_write(q);
    expect_why(f, "it was deleted meanwhile");
    fixture_limit(f, OWN " in (b)"); /* newer rules alone prove nothing */
    status_lease_look(lease, 0);
    q = expect(f, "PUT", WRITTEN);
    expect_requirement(q, "unknown");
    refuse(q, 409);
    pass(f, 9000);
    q = expect_read(f, lease_of("u-1", "2"));
    expect_requirement(q, "");
    accept_write(q);
    assert_true(is_valid(f));
}

static void a_lease_that_is_deleted_while_they_are_valid(void **state)
{
    struct fixture *f = *state;
    start(f);
    pass(f, RENEW_MS);
    answer(expect(f, "PUT", WRITTEN), 404, "{}");
    struct api_request *q = expect(f, "POST", CREATED);
    expect_requirement(q, "");
    accept_write(q);
    assert_int_equal(rules_lease_remaining_ms(f->lease), LEASE_MS);
}

/* Who may not write it is not ready, and says why; and is heard soon after that is mended. */
static void a_lease_that_may_not_be_written(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 8; i++) {
        refuse(expect(f, "GET", NAMED), 403);
        expect_why(f, "403");
        pass(f, 10000);
    }
    start(f);
}

static void freed_in_each_phase(void **state)
{
    struct fixture *f = *state;
    start(f);
    let_expire(f);
    struct api_request *q = expect(f, "GET", NAMED);
    close_status(f);
    api_expect_given_up(q);
    open_status(f);
    q = expect_read(f, lease_of("u-1", NULL));
    close_status(f);
    api_expect_given_up(q);
    open_status(f);
    accept_write(expect_read(f, lease_of("u-1", NULL)));
    close_status(f);
    assert_true(is_valid(f)); /* until it runs out */
    stop_for(f, LEASE_MS);
    assert_false(is_valid(f));
}

static bool make_lease(void *data)
{
    struct fixture *f = data;
    struct err e = ERR_INIT;
    struct rules_lease *r = rules_lease_new(f->api->loop, LEASE_S, NULL, &e);
    assert_true(r != NULL || e.code == -ENOMEM);
    rules_lease_free(r);
    return r != NULL;
}

static void without_memory_there_is_none(void **state)
{
    assert_true(sweep_allocations(make_lease, *state) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(not_before_the_lease_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(as_long_as_it_is_renewed, setup, teardown),
        cmocka_unit_test_setup_teardown(to_the_millisecond_and_no_longer, setup, teardown),
        cmocka_unit_test_setup_teardown(since_the_write_was_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_comes_too_late_renews_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_silent_api_server_is_asked_again, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_for_resources_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(open_watches_end, setup, teardown),
        cmocka_unit_test_setup_teardown(an_event_that_comes_too_late_is_not_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(a_watch_within_a_large_event_is_broken_off, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_watch_that_migrates_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_not_answered_is_answered_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_write_that_was_not_answered_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(the_rest_of_a_write_is_not_passed_on, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_that_are_passed_on_are_broken_off, setup, teardown),
        cmocka_unit_test_setup_teardown(tunnels_end, setup, teardown),
        cmocka_unit_test_setup_teardown(rules_that_are_older_than_required_stay_invalid, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rules_as_required_or_newer_are_valid_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_conflict_is_looked_at, setup, teardown),
        cmocka_unit_test_setup_teardown(a_requirement_that_comes_early_lets_them_expire, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_never_met, setup, teardown),
        cmocka_unit_test_setup_teardown(an_earlier_pod_of_the_name_does_not_matter, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_later_pod_of_the_name, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lease_that_was_deleted_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lease_that_is_deleted_while_they_are_valid, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lease_that_may_not_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(freed_in_each_phase, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_there_is_none, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
