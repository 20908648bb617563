/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What localproxy says of itself: /readyz, /status and /metrics.
 */
#include "status/admin.h"

#include "raw_peer.h"
#include "reload_fixture.h"

#define OWN "ctrlmesh.kusionstack.io/namespace"

static struct admin *admin;

static int setup(void **state)
{
    struct err e = ERR_INIT;
    if (fixture_setup(state) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    f->flags.admin = "127.0.0.1:0";
    const struct admin_options o = {
        .flags = &f->flags,
        .proxy = f->proxy,
        .metrics = &f->metrics,
        .pod = {"op-0", "u1"},
    };
    admin = admin_new(f->api->loop, &o, &e);
    return admin != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    admin_free(admin);
    return fixture_teardown(state);
}

/* The whole answer; until the next one. */
static const char *get(struct fixture *f, const char *path)
{
    static struct raw_peer peer;
    char text[128];
    int len = snprintf(text, sizeof text,
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    memset(&peer, 0, sizeof peer);
    raw_connect(&peer, admin_address(admin));
    raw_send(&peer, text, (size_t)len);
    raw_expect(f->api->loop, &peer, NULL);
    raw_close(&peer);
    return peer.text;
}

static void expect_page(struct fixture *f, const char *path, const char *text)
{
    const char *page = get(f, path);
    if (strstr(page, text) == NULL) {
        fail_msg("no \"%s\" in %s", text, page);
    }
}

/* What stands at `key` of `part`, or of the whole without one, in the status. "": nothing. */
static void expect_status(struct fixture *f, const char *part, const char *key, const char *json)
{
    const char *body = strstr(get(f, "/status"), "\r\n\r\n");
    assert_non_null(body);
    cJSON *root = cJSON_Parse(body);
    const cJSON *object = part != NULL ? cJSON_GetObjectItemCaseSensitive(root, part) : root;
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(object, key));
    assert_string_equal(text != NULL ? text : "", json);
    cJSON_free(text);
    cJSON_Delete(root);
}

static void rules_and_the_writes_that_they_took_away(void **state)
{
    struct fixture *f = *state;
    struct client c;
    proxy_explain_no_rules(f->proxy, "still at school");
    expect_page(f, "/readyz", "still at school");
    expect_status(f, NULL, "pod", "{\"name\":\"op-0\",\"uid\":\"u1\"}");
    expect_status(f, "rules", "lostWrites", "");
    fixture_limit(f, OWN " in (a)");
    expect_page(f, "/readyz", "200 OK");
    expect_status(f, "rules", "limits", "1");
    expect_status(f, "rules", "lostWrites", "0");
    client_open(f, &c);
    client_send(&c, "DELETE /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct api_request *q = api_expect_part(f->api, "/pods/x");
    fixture_limit(f, OWN " in (b)");
    expect_status(f, "rules", "settled", "false");
    expect_status(f, "rules", "lostWrites", "1");
    api_answer(q, 200, NULL, "{}");
    fixture_expect(f, &c, "200 OK");
    expect_status(f, "rules", "settled", "true");
    expect_status(f, "rules", "lostWrites", "0");
    client_close(&c);
}

static void ask(struct fixture *f, const char *answer)
{
    struct client c;
    fixture_get(f, &c, "/version");
    fixture_expect(f, &c, answer);
    client_close(&c);
}

static void answer_all(struct scripted_api *a, struct api_request *q)
{
    (void)a;
    api_answer(q, 200, NULL, "{}");
}

static void whether_the_api_server_can_be_reached(void **state)
{
    struct fixture *f = *state;
    f->api->serve = answer_all;
    expect_status(f, "upstream", "name", "\"home\"");
    expect_page(f, "/metrics",
                "\ncmesh_proxy_upstream_info{upstream=\"home\",server=\"http://127.");
    expect_status(f, "upstream", "reachable", "true");
    expect_status(f, "upstream", "connectionError", "");
    expect_page(f, "/metrics", "\ncmesh_proxy_upstream_reachable 1\n");
    api_stop(f->api);
    ask(f, "503 Service Unavailable");
    expect_status(f, "upstream", "reachable", "false");
    expect_page(f, "/status", "refused");
    expect_page(f, "/metrics", "\ncmesh_proxy_upstream_reachable 0\n");
    assert_true(api_listen(f->api));
    ask(f, "200 OK");
    expect_status(f, "upstream", "reachable", "true");
    expect_status(f, "upstream", "connectionError", "");
}

static void open_watches_and_what_was_counted(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_limit(f, "a");
    fixture_get(f, &c, "/api/v1/namespaces/n/pods?watch=1&resourceVersion=5&sendInitialEvents=1");
    api_begin(api_expect_part(f->api, "watch=1"), NULL);
    fixture_expect(f, &c, "200 OK");
    expect_status(f, NULL, "watches",
                  "[{\"resource\":\"pods\",\"namespace\":\"n\",\"state\":\"Passing\","
                  "\"limited\":true,\"resourceVersion\":\"0\"}]");
    expect_status(f, NULL, "openWatches", "1");
    expect_page(f, "/metrics", "\ncmesh_proxy_open_watches 1\n");
    expect_page(f, "/metrics", "\ncmesh_proxy_limited_requests_total 1\n");
    expect_page(f, "/metrics", "\ncmesh_proxy_requests_total{verb=\"watch\",code=\"200\"} 1\n");
    expect_page(f, "/metrics", "\ncmesh_proxy_rules_generation 1\n");
    expect_page(f, "/metrics", "\ncmesh_proxy_rules_info{namespace=\"ns\",shard=\"shard\",");
    client_close(&c);
}

static void who_comes_and_who_goes_around(void **state)
{
    struct fixture *f = *state;
    f->api->serve = answer_all;
    expect_status(f, NULL, "clients", "{\"requests\":0}");
    expect_status(f, NULL, "bypass", ""); /* nobody looks */
    ask(f, "200 OK");
    ask(f, "200 OK");
    expect_status(f, "clients", "requests", "2");
    expect_page(f, "/status", "\"first\":");
    expect_page(f, "/status", "\"last\":");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rules_and_the_writes_that_they_took_away, setup, teardown),
        cmocka_unit_test_setup_teardown(whether_the_api_server_can_be_reached, setup, teardown),
        cmocka_unit_test_setup_teardown(who_comes_and_who_goes_around, setup, teardown),
        cmocka_unit_test_setup_teardown(open_watches_and_what_was_counted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
