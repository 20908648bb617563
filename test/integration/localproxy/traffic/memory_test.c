/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic policies when memory is short, and what a request costs of it: nothing.
 */
#include "alloc_sweep.h"

#include "localproxy/reload_fixture.h"
#include "temp_dir.h"
#include "traffic_document.h"
#include "json/json.h"

#define PODS TRAFFIC_RESOURCES("pods", "delete")
#define HEALTH                                                                                     \
    "\"triggerPolicy\":\"Health\",\"maxInFlight\":100000,\"healthPolicy\":{\"window\":"            \
    "\"10000ms\","                                                                                 \
    "\"minimumRequests\":5,\"errorPercent\":50}," TRAFFIC_WINDOW(5000)
#define WHITELIST                                                                                  \
    "{\"name\":\"a\",\"interceptType\":\"Whitelist\",\"contentType\":\"Regexp\",\"contents\":[\"^" \
    "(a|b)+$\"],"                                                                                  \
    "\"methods\":[\"*\"]}"
#define URLS "\"restRules\":[{\"url\":\"http://ab/*\",\"method\":\"*\"}]"
#define ELSEWHERE                                                                                  \
    "{\"name\":\"elsewhere\",\"spec\":{\"selector\":{},\"trafficInterceptRules\":[" WHITELIST      \
    "],\"rateLimitings\":[" TRAFFIC_LIMITING("a", URLS, TRAFFIC_LIMITER(1000, 1, 1000)) "]}}"
#define HTTP "\"resources\":[{}],\"httpMatch\":[{\"path\":{\"regex\":\"(x|y)$\"}}]"
#define GUARD                                                                                      \
    TRAFFIC_BREAKER("guard", TRAFFIC_LIMITING("a", PODS, HEALTH) "," TRAFFIC_LIMITING(             \
                                 "b", PODS, TRAFFIC_LIMITER(1000, 1, 1000)))
#define SPEC                                                                                       \
    TRAFFIC_SPEC(GUARD "," ELSEWHERE,                                                              \
                 TRAFFIC_FAULTS("slow", TRAFFIC_FAULT("a", HTTP,                                   \
                                                      TRAFFIC_DELAY(3000, 50) "," TRAFFIC_ABORT(   \
                                                          503, 0.0001))))

static const struct traffic_request request = {
    .namespace = {"a", 1},
    .resource = {"pods", 4},
    .verb = {"delete", 6},
};

static const struct traffic_external elsewhere = {
    .host = {"ab", 2},
    .port = 80,
    .path = {"/x/../y", 7},
    .method = {"GET", 3},
};

/* From the judgement to the answer. */
static void pass_elsewhere(struct policies *p)
{
    struct passage passage = {.faulted = false};
    struct fault_drawn drawn;
    struct buf why = BUF_INIT(1024);
    unsigned retry_after;
    assert_true(policies_allow_external(p, &elsewhere, &why));
    policies_draw_external(p, &elsewhere, &drawn);
    fault_drawn_release(&drawn);
    if (policies_admit_external(p, &elsewhere, &passage, &why, &retry_after)) {
        breaker_ticket_answered(&passage.ticket, false);
    }
    passage_end(&passage);
    buf_reset(&why);
}

/* From the draw to the answer, well and not. */
static void pass_once(struct policies *p, bool failed)
{
    struct passage passage = {.faulted = false};
    struct fault_drawn drawn;
    struct buf why = BUF_INIT(1024);
    unsigned retry_after;
    policies_draw(p, &request, &drawn);
    fault_drawn_release(&drawn);
    if (policies_admit(p, &request, &passage, &why, &retry_after)) {
        breaker_ticket_answered(&passage.ticket, failed);
    }
    passage_end(&passage);
    buf_reset(&why);
}

static void test_a_request_that_goes_on_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    fixture_traffic(f, SPEC);
    sweep_failed = false;
    sweep_left = 0;
    for (int i = 0; i < 500; i++) {
        pass_once(f->policies, false);
        pass_elsewhere(f->policies);
    }
    sweep_left = -1;
    assert_false(sweep_failed);
    assert_int_equal(proxy_facts(f->proxy).delays->heap.count, 0);
}

/* ---- no memory ---- */

struct scene {
    struct net_loop *loop;
    struct temp_dir *dir;
    struct traffic *documents[2];
};

/* Another document is in force, or nothing has changed. */
static bool change(struct policies *p, struct traffic *document)
{
    const struct traffic *before = policies_document(p);
    if (policies_set(p, document) == 0) {
        assert_ptr_equal(policies_document(p), document);
        return true;
    }
    assert_ptr_equal(policies_document(p), before);
    return false;
}

static bool begin_and_end(void *data)
{
    const struct scene *s = data;
    struct err e = ERR_INIT;
    char state[256];
    char labels[256];
    const struct policies_options o = {
        .breaker_state = temp_dir_path(s->dir, "state", state),
        .pod_labels = temp_dir_path(s->dir, "labels", labels),
        .seed = 1,
    };
    struct policies *p = policies_new(s->loop, &o, &e);
    if (p == NULL) {
        assert_int_equal(e.code, -ENOMEM);
        return false;
    }
    bool well = change(p, s->documents[0]);
    well = change(p, s->documents[1]) && well;
    well = change(p, s->documents[0]) && well;
    for (int i = 0; i < 6; i++) {
        pass_once(p, true);
        pass_elsewhere(p);
    }
    assert_true(change(p, NULL)); /* needs none */
    policies_free(p);
    return well;
}

static void test_policies(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir;
    temp_dir_init(&dir);
    temp_dir_write(&dir, "labels", "app=\"web\"\n", 0600);
    struct scene s = {
        .loop = f->api->loop,
        .dir = &dir,
        .documents = {traffic_document(1, SPEC),
                      traffic_document(
                          2,
                          TRAFFIC_SPEC(
                              TRAFFIC_BREAKER("other", TRAFFIC_LIMITING("a", PODS, HEALTH)), ""))},
    };
    assert_true(sweep_allocations(begin_and_end, &s) > 10);
    traffic_unref(s.documents[0]);
    traffic_unref(s.documents[1]);
    temp_dir_deinit(&dir);
}

static bool describe(void *data)
{
    struct fixture *f = data;
    const struct policies_view view = {.rules = 256, .bytes = 3000, .rough = true};
    struct buf metrics = BUF_INIT(65536);
    cJSON *root = cJSON_CreateObject();
    policies_describe(f->policies, &view, root);
    char *text = cJSON_PrintUnformatted(root);
    bool well = text != NULL && strstr(text, "\"rule\":\"b\"") != NULL &&
                strstr(text, "\"faults\":[{") != NULL &&
                strstr(text, "\"intercepts\":[{") != NULL &&
                strstr(text, "\"leftOut\":0") != NULL && strstr(text, "\"refused\":") != NULL;
    well = policies_write_metrics(f->policies, 0, 0, &metrics) == 0 && well;
    cJSON_free(text);
    cJSON_Delete(root);
    buf_reset(&metrics);
    return well;
}

static void test_what_is_told(void **state)
{
    struct fixture *f = *state;
    fixture_traffic(f, SPEC);
    assert_true(sweep_allocations(describe, f) > 10);
}

/* A request that is delayed, held with its body, and passed on. */
static bool pass_delayed(void *data)
{
    struct fixture *f = data;
    struct client c;
    long paused = alloc_sweep_pause();
    client_open(f, &c);
    client_send(&c, "POST /api/v1/namespaces/ns/configmaps HTTP/1.1\r\nHost: localhost\r\n"
                    "Content-Type: application/json\r\nContent-Length: 29\r\n\r\n"
                    "{\"metadata\":{\"name\":\"other\"}}");
    alloc_sweep_resume(paused);
    for (int i = 0; i < 3000 && !c.ended && c.text.len == 0; i++) {
        run_for(f->api->loop, 1);
        if (delays_count(proxy_facts(f->proxy).delays) > 0) {
            fake_clock_pass(&f->clock, 3000);
        }
        paused = alloc_sweep_pause();
        client_read(&c);
        alloc_sweep_resume(paused);
    }
    paused = alloc_sweep_pause();
    bool well = client_has(&c, "201 Created");
    client_close(&c);
    for (int i = 0; i < 20; i++) {
        run_for(f->api->loop, 1);
    }
    assert_int_equal(delays_count(proxy_facts(f->proxy).delays), 0);
    assert_int_equal(proxy_facts(f->proxy).delays->bytes, 0);
    assert_int_equal(proxy_memory(f->proxy).request_bytes, 0);
    alloc_sweep_resume(paused);
    return well;
}

static void answer_created(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 201, NULL, "{}");
}

static void test_a_delayed_request(void **state)
{
    struct fixture *f = *state;
    fixture_limit(f, NULL);
    fixture_traffic(
        f, TRAFFIC_SPEC("", TRAFFIC_FAULTS("slow", TRAFFIC_FAULT("a", "\"resources\":[{}]",
                                                                 TRAFFIC_DELAY(3000, 100)))));
    f->api->serve = answer_created;
    assert_true(sweep_allocations(pass_delayed, f) > 5);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, fixture_setup_with_policies, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_request_that_goes_on_allocates_nothing),
        TEST(test_policies),
        TEST(test_what_is_told),
        TEST(test_a_delayed_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
