/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted of requests, events and objects, between a scripted API server and clients on
 * plain sockets.
 */
#include "base/array.h"
#include "metrics/bucket_load.h"
#include "reload_fixture.h"

#define WATCH "?watch=1&resourceVersion=100&allowWatchBookmarks=true"
#define OWN "ctrlmesh.kusionstack.io/namespace"
#define OBJECT(ns)                                                                                 \
    "{\"metadata\":{\"name\":\"x\",\"namespace\":\"" ns "\"},\"spec\":{\"a\":[\"}\"]}}"
#define HEAD                                                                                       \
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"100\"},"      \
    "\"items\":["

static int setup(void **state)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    f->flags.count_load = true;
    fixture_restart(f);
    return 0;
}

static const struct control_load_counts *counts_of(struct fixture *f, const char *ns)
{
    return &proxy_facts(f->proxy).load->counts.of[bucket_load_place(slice_str(ns))];
}

/* And nothing else. */
static void expect_all(struct fixture *f, uint64_t requests, uint64_t events, uint64_t objects)
{
    struct control_load_counts sum = {0, 0, 0};
    struct control_load counts = bucket_load_counts(proxy_facts(f->proxy).load);
    for (size_t i = 0; i < ARRAY_LEN(counts.of); i++) {
        sum.requests += counts.of[i].requests;
        sum.events += counts.of[i].events;
        sum.objects += counts.of[i].objects;
    }
    assert_int_equal(sum.requests, requests);
    assert_int_equal(sum.events, events);
    assert_int_equal(sum.objects, objects);
}

static void expect_counts(struct fixture *f, const char *ns, uint64_t requests, uint64_t events,
                          uint64_t objects)
{
    const struct control_load_counts *c = counts_of(f, ns);
    assert_int_equal(c->requests, requests);
    assert_int_equal(c->events, events);
    assert_int_equal(c->objects, objects);
}

/* ---- lists ---- */

static void a_list_counts_as_it_passes(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    fixture_get(f, &c, "/api/v1/pods");
    struct api_request *q = api_expect_part(f->api, "/api/v1/pods");
    api_begin(q, NULL);
    api_send(q, HEAD OBJECT("ns-a") "," OBJECT("ns-b") ",{\"metadata\":{\"namespace\":\"ns");
    fixture_expect(f, &c, "\"ns-b\"");
    expect_counts(f, "ns-a", 0, 0, 1);
    expect_all(f, 1, 0, 2);
    expect_counts(f, "", 1, 0, 0);
    api_send(q, "-a\"}},{\"metadata\":{\"name\":\"none\"}}");
    fixture_expect(f, &c, "none");
    expect_counts(f, "ns-a", 0, 0, 2);
    expect_counts(f, "", 1, 0, 1);
    fixture_limit(f, "ns in (b)"); /* breaks it off: what passed was done */
    api_expect_given_up(q);
    fixture_expect(f, &c, NULL);
    expect_all(f, 1, 0, 4);
    client_close(&c);
}

/* Whatever its objects say. */
static void a_list_of_one_namespace(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    fixture_get(f, &c, "/api/v1/namespaces/ns-c/pods");
    api_answer(api_expect_part(f->api, "ns-c"), 200, NULL, HEAD OBJECT("ns-a") ",{}]}");
    fixture_expect(f, &c, "{}]}");
    expect_counts(f, "ns-c", 1, 0, 2);
    expect_all(f, 1, 0, 2);
    client_close(&c);
}

static void what_is_no_list_has_no_objects(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "ns in (a)");
    fixture_get(f, &c, "/api/v1/namespaces/ns-c/pods/x");
    api_answer(api_expect_part(f->api, "pods/x"), 200, NULL, "{\"items\":[{}]}");
    fixture_expect(f, &c, "[{}]}");
    client_close(&c);
    fixture_get(f, &c, "/api/v1/pods");
    api_answer(api_expect_part(f->api, "/api/v1/pods"), 500, NULL, "{\"items\":[{}]}");
    fixture_expect(f, &c, "[{}]}");
    client_close(&c);
    fixture_get(f, &c, "/version");
    api_answer(api_expect_part(f->api, "/version"), 200, NULL, "{\"items\":[{}]}");
    fixture_expect(f, &c, "[{}]}");
    client_close(&c);
    expect_counts(f, "ns-c", 1, 0, 0);
    expect_all(f, 2, 0, 0);
}

static struct api_request *begin_encoded(struct fixture *f, const char *type, const char *coding)
{
    const struct http_header headers[] = {
        {SLICE("Content-Type"), slice_str(type)},
        {SLICE("Content-Encoding"), slice_str(coding)},
    };
    const struct http_head head = {
        .status = 200,
        .framing = HTTP_BODY_CHUNKED,
        .headers = headers,
        .header_count = ARRAY_LEN(headers),
    };
    struct api_request *q = api_expect_part(f->api, "/api/v1/pods");
    api_begin_head(q, &head);
    return q;
}

static void what_cannot_be_read_is_told(void **state)
{
    struct fixture *f = *state;
    struct client c;
    const struct bucket_load *load = proxy_facts(f->proxy).load;
    fixture_limit(f, "ns in (a)");
    fixture_get(f, &c, "/api/v1/pods");
    struct api_request *q = begin_encoded(f, "application/json", "br");
    api_send(q, HEAD OBJECT("ns-a") "]}");
    api_end(q);
    fixture_expect(f, &c, "]}");
    assert_int_equal(load->counts.unread, 1);
    expect_all(f, 1, 0, 0);
    client_close(&c);
    fixture_get(f, &c, "/api/v1/pods?watch=1");
    q = begin_encoded(f, "application/cbor-seq", "identity");
    fixture_expect(f, &c, "200 OK");
    assert_int_equal(load->counts.unread, 2);
    client_close(&c);
    api_expect_given_up(q);
}

/* Each that is inflated takes memory. */
static void few_are_inflated_at_a_time(void **state)
{
    struct fixture *f = *state;
    static struct client clients[BUCKET_LOAD_INFLATED_MAX + 1];
    struct api_request *last = NULL;
    const struct bucket_load *load = proxy_facts(f->proxy).load;
    fixture_limit(f, "ns in (a)");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        fixture_get(f, &clients[i], "/api/v1/pods");
        last = begin_encoded(f, "application/json", "gzip");
        fixture_expect(f, &clients[i], "200 OK");
        assert_int_equal(load->inflated,
                         i < BUCKET_LOAD_INFLATED_MAX ? i + 1 : BUCKET_LOAD_INFLATED_MAX);
    }
    assert_int_equal(load->counts.unread, 1);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        client_close(&clients[i]);
    }
    api_expect_given_up(last);
    for (int turn = 0; turn < 1000 && load->inflated > 0; turn++) {
        run_for(f->api->loop, 1);
    }
    assert_int_equal(load->inflated, 0);
}

/* ---- watches, and what localproxy asks for by itself ---- */

static const char *const one_name[] = {"one", NULL};

static void list_at_100(struct fixture *f)
{
    struct client lister;
    fixture_get(f, &lister, "/api/v1/pods");
    api_answer(api_expect_part(f->api, "/api/v1/pods"), 200, NULL, HEAD "]}");
    fixture_expect(f, &lister, "[]}");
    client_close(&lister);
}

static struct api_request *open_watch(struct fixture *f, struct client *c)
{
    list_at_100(f);
    fixture_get(f, c, "/api/v1/pods" WATCH);
    struct api_request *q = api_expect_part(f->api, "watch=1");
    api_begin(q, NULL);
    fixture_expect(f, c, "200 OK");
    return q;
}

static void a_migration_counts_nothing(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    struct api_request *q = open_watch(f, &c);
    api_send(q, pod_event("ADDED", "first", 101));
    fixture_expect(f, &c, "first");
    expect_all(f, 2, 1, 0);
    fixture_limit(f, OWN " in (b)");
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(101, NULL, one_name));
    api_answer(api_expect_part(f->api, "resourceVersionMatch=Exact"), 200, NULL,
               pod_list(101, NULL, one_name));
    q = api_expect_part(f->api, "watch=1");
    fixture_expect(f, &c, "\"one\"");
    expect_all(f, 2, 1, 0);
    api_begin(q, NULL);
    fixture_expect_number(f, &f->metrics.migrated, 1);
    api_send(q, pod_event("MODIFIED", "second", 103));
    fixture_expect(f, &c, "second");
    expect_all(f, 2, 2, 0);
    client_close(&c);
}

static void a_request_that_is_repeated_counts_once(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, OWN " in (a)");
    fixture_get(f, &c, "/api/v1/namespaces/ns-c/pods");
    struct api_request *q = api_expect_part(f->api, "ns-c");
    fixture_limit(f, OWN " in (b)");
    api_expect_given_up(q);
    api_answer(api_expect_part(f->api, "ns-c"), 200, NULL, HEAD OBJECT("ns-c") "]}");
    fixture_expect(f, &c, "]}");
    assert_int_equal(f->metrics.requests_repeated, 1);
    expect_counts(f, "ns-c", 1, 0, 1);
    expect_all(f, 1, 0, 1);
    client_close(&c);
}

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define NEW_LOCK                                                                                   \
    "{\"apiVersion\":\"coordination.k8s.io/"                                                       \
    "v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"lock\","                                     \
    "\"namespace\":\"ns\"}}"

/* The lock is in a namespace, but of no bucket. A body that is collected first changes nothing. */
static void the_lock_is_of_no_bucket(void **state)
{
    struct fixture *f = *state;
    struct client c;
    char text[1024];
    fixture_limit(f, NULL);
    fixture_get(f, &c, LEASES "/lock");
    api_answer(api_expect_part(f->api, "leases/lock"), 200, NULL, "{\"one\":1}");
    fixture_expect(f, &c, "\"one\"");
    expect_counts(f, "", 1, 0, 0);
    client_close(&c);
    client_open(f, &c);
    (void)snprintf(text, sizeof text,
                   "POST " LEASES " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                   "\r\nContent-Length: %zu\r\n\r\n" NEW_LOCK,
                   sizeof NEW_LOCK - 1);
    client_send(&c, text);
    api_answer(api_expect_part(f->api, "leases"), 201, NULL, "{\"two\":2}");
    fixture_expect(f, &c, "\"two\"");
    expect_counts(f, "", 2, 0, 0);
    client_close(&c);
    fixture_get(f, &c, LEASES "/other");
    api_answer(api_expect_part(f->api, "leases/other"), 200, NULL, "{\"three\":3}");
    fixture_expect(f, &c, "\"three\"");
    expect_counts(f, "ns", 1, 0, 0);
    expect_all(f, 3, 0, 0);
    client_close(&c);
}

static void nothing_is_counted_without_the_flag(void **state)
{
    struct fixture *f = *state;
    assert_null(proxy_facts(f->proxy).load);
    struct client c;
    fixture_limit(f, "ns in (a)");
    struct api_request *q = open_watch(f, &c);
    api_send(q, pod_event("ADDED", "first", 101));
    fixture_expect(f, &c, "first");
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_list_counts_as_it_passes, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_list_of_one_namespace, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_list_has_no_objects, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_told, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(few_are_inflated_at_a_time, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_migration_counts_nothing, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_request_that_is_repeated_counts_once, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(the_lock_is_of_no_bucket, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_counted_without_the_flag, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
