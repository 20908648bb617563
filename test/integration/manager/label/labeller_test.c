/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labeller against a scripted API server, which has ConfigMaps, Secrets and Deployments.
 * Watches stay unanswered, but for events that a test sends.
 */
#include "label/labeller.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "scripted_api.h"

#define P "ctrlmesh.kusionstack.io/"
#define KEY "ctrlmesh.kusionstack.io%2Fcontrol"
#define RESOURCE(plural, kind, namespaced, verbs)                                                  \
    "{\"name\":\"" plural "\",\"kind\":\"" kind "\",\"namespaced\":" namespaced                    \
    ",\"verbs\":[" verbs "]}"
#define ALL_VERBS "\"get\",\"list\",\"watch\",\"patch\""
#define RESOURCES(items) "{\"kind\":\"APIResourceList\",\"resources\":[" items "]}"
#define MAPS RESOURCE("configmaps", "ConfigMap", "true", ALL_VERBS)
#define SECRETS RESOURCE("secrets", "Secret", "true", ALL_VERBS)
#define LIST(items) "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" items "]}"
#define OBJECT(ns, name, labels)                                                                   \
    "{\"metadata\":{\"namespace\":\"" ns "\",\"name\":\"" name                                     \
    "\",\"resourceVersion\":\"8\",\"labels\":{" labels "}}}"
#define SPACE(name, labels)                                                                        \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"8\",\"labels\":{" labels "}}}"
#define FOREIGN "\"" P "namespace\":\"other\""
#define OURS_BUT_WRONG "\"" P "namespace\":\"other\",\"" P "control\":\"true\""
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"

enum { TURNS = 6000 };

struct user {
    struct scripted_api api;
    struct labels_keys keys;
    struct sharding_resources *resources;
    struct discovery *discovery;
    struct labeller *labeller;
    struct labeller_options options;
    const char *core; /* what /api/v1 has */
    bool manual;      /* the test answers patches itself */
    bool empty;       /* lists are answered by themselves: nothing is unlabelled */
    unsigned patches;
    char patched[256]; /* the last: the target without the query */
    bool lost;
    unsigned told; /* calls of on_progress */
};

/* ---- the server ---- */

static bool is_watch(const struct api_request *q)
{
    return strstr(q->target, "watch=true") != NULL;
}

static bool answer_discovery(struct user *u, struct api_request *q)
{
    const struct {
        const char *target;
        const char *body;
    } pages[] = {
        {"/api", "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}"},
        {"/apis", "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"apps\",\"versions\":[{"
                  "\"version\":\"v1\"}],\"preferredVersion\":{\"version\":\"v1\"}}]}"},
        {"/api/v1", u->core},
        {"/apis/apps/v1", RESOURCES(RESOURCE("deployments", "Deployment", "true", ALL_VERBS))},
    };
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        if (strcmp(q->target, pages[i].target) == 0) {
            api_answer(q, 200, NULL, pages[i].body);
            return true;
        }
    }
    return false;
}

static void serve(struct scripted_api *a, struct api_request *q)
{
    struct user *u = a->data;
    if (answer_discovery(u, q) || is_watch(q)) {
        return;
    }
    if (strcmp(q->method, "PATCH") == 0 && !u->manual) {
        u->patches++;
        (void)snprintf(u->patched, sizeof u->patched, "%.*s", (int)strcspn(q->target, "?"),
                       q->target);
        api_answer(q, 200, NULL, q->body); /* as it was asked to be */
    } else if (strcmp(q->method, "GET") == 0 && u->empty) {
        api_answer(q, 200, NULL, LIST(""));
    }
}

/* ---- the world ---- */

static void on_change(void *data)
{
    struct user *u = data;
    if (u->labeller != NULL) {
        labeller_discovered(u->labeller);
    }
}

static const struct discovery_handlers handlers = {.on_change = on_change};

static bool may_write(void *data)
{
    return !((const struct user *)data)->lost;
}

static void on_progress(void *data)
{
    ((struct user *)data)->told++;
}

static bool open_user(struct user *u, struct net_loop *l, const char *resources)
{
    const struct compile_labels names = {
        .namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"};
    struct err e = ERR_INIT;
    u->api.serve = serve;
    u->api.data = u;
    u->core = RESOURCES(MAPS "," RESOURCE("nodes", "Node", "false", ALL_VERBS) "," RESOURCE(
        "bindings", "Binding", "true", "\"create\""));
    if (!api_open(&u->api, l) || labels_keys_init(&u->keys, &names, NULL) != 0) {
        return false;
    }
    u->resources = sharding_resources_parse(slice_str(resources), "test", &e);
    assert_non_null(u->resources);
    u->options = (struct labeller_options){
        .client = u->api.client,
        .resources = u->resources,
        .keys = &u->keys,
        .namespace = "cmesh",
        .qps = 100000,
        .may_write = may_write,
        .on_progress = on_progress,
        .data = u,
        .clock = &u->api.clock.clock,
    };
    return true;
}

static void begin(struct user *u)
{
    struct discovery_options o = {.client = u->api.client, .clock = &u->api.clock.clock};
    u->discovery = discovery_new(u->api.loop, &o, &handlers, u);
    u->options.discovery = u->discovery;
    u->labeller = labeller_new(u->api.loop, &u->options);
}

static void end(struct user *u)
{
    labeller_free(u->labeller);
    u->labeller = NULL;
    discovery_free(u->discovery);
    u->discovery = NULL;
    fake_clock_forget(&u->api.clock);
}

static void close_user(struct user *u)
{
    end(u);
    sharding_resources_free(u->resources);
    api_close(&u->api);
}

static int set_up(void **state, const char *resources)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    if (u == NULL || loop_setup((void **)&l) != 0 || !open_user(u, l, resources)) {
        return -1;
    }
    *state = u;
    begin(u);
    return 0;
}

static int setup(void **state)
{
    return set_up(state, "groupVersionKinds: {v1: [ConfigMap, Secret], apps/v1: ['*']}");
}

static int setup_maps(void **state)
{
    return set_up(state, "groupVersionKinds: {v1: ['*']}");
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->api.loop;
    close_user(u);
    free(u);
    return loop_free(l);
}

static void turn(struct user *u)
{
    fake_clock_pass(&u->api.clock, 0);
    run_for(u->api.loop, 1);
}

/* A waiting request whose target has all of these; NULL: there is none. */
static struct api_request *look(struct user *u, const char *method, const char *path,
                                const char *part)
{
    LIST_FOR_EACH(n, &u->api.requests)
    {
        struct api_request *q = LIST_ITEM(n, struct api_request, link);
        size_t len = strlen(path);
        if (q->whole && strcmp(q->method, method) == 0 && strncmp(q->target, path, len) == 0 &&
            strchr("?", q->target[len]) != NULL && strstr(q->target, part) != NULL) {
            return q;
        }
    }
    return NULL;
}

static struct api_request *expect(struct user *u, const char *method, const char *path,
                                  const char *part)
{
    struct api_request *q = NULL;
    for (int i = 0; i < TURNS && q == NULL; i++) {
        turn(u);
        q = look(u, method, path, part);
    }
    if (q == NULL) {
        fail_msg("nobody asks for %s %s with %s", method, path, part);
        abort();
    }
    return q;
}

#define UNLABELLED KEY "%21%3Dtrue"
#define LABELLED KEY "%3Dtrue"
#define SPACES_PATH "/api/v1/namespaces"
#define MAPS_PATH "/api/v1/configmaps"
#define DEPLOYMENTS_PATH "/apis/apps/v1/deployments"

static void list(struct user *u, const char *path, const char *part, const char *body)
{
    struct api_request *q = expect(u, "GET", path, part);
    assert_false(is_watch(q));
    assert_non_null(strstr(q->accept, "as=PartialObjectMetadataList"));
    api_answer(q, 200, NULL, body);
}

static void expect_quiet(struct user *u)
{
    turn(u);
    api_expect_quiet(&u->api);
    turn(u);
}

static char *metrics(struct user *u)
{
    struct buf text = BUF_INIT(65536);
    labeller_metrics(u->labeller, &text);
    char *out = buf_take_str(&text);
    assert_non_null(out);
    return out;
}

static bool has_metric(struct user *u, const char *line)
{
    char *text = metrics(u);
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "\n%s\n", line);
    bool found = strstr(text, wanted) != NULL;
    free(text);
    return found;
}

static void expect_metric(struct user *u, const char *line)
{
    for (int i = 0; i < TURNS && !has_metric(u, line); i++) {
        turn(u);
    }
    if (!has_metric(u, line)) {
        fail_msg("no metric %s in\n%s", line, metrics(u));
    }
}

/* Of the status: "complete", "checked". */
static bool is(struct user *u, const char *key)
{
    cJSON *root = cJSON_CreateObject();
    labeller_status(u->labeller, root);
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(root, "labels");
    bool value = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(labels, key));
    cJSON_Delete(root);
    return value;
}

static void expect_status(struct user *u, const char *key)
{
    for (int i = 0; i < TURNS && !is(u, key); i++) {
        turn(u);
    }
    assert_true(is(u, key));
}

/* Lists that nobody has answered yet. */
static void answer_lists(struct user *u)
{
    for (struct list *n = u->api.requests.next, *after; n != &u->api.requests; n = after) {
        struct api_request *q = LIST_ITEM(n, struct api_request, link);
        after = n->next;
        if (q->whole && strstr(q->target, "limit=") != NULL) {
            api_answer(q, 200, NULL, LIST(""));
        }
    }
}

/* All are followed and checked, and nothing is to be done. */
static void settle(struct user *u)
{
    u->empty = true;
    answer_lists(u);
    expect_status(u, "checked");
    u->empty = false;
}

/* ---- ordinary life ---- */

static void test_labels_one_resource_after_the_other(void **state)
{
    struct user *u = *state;
    struct api_request *q = expect(u, "GET", SPACES_PATH, UNLABELLED);
    assert_non_null(strstr(q->target, "fieldSelector=metadata.name%21%3Dkube-system%2C"
                                      "metadata.name%21%3Dkube-public%2Cmetadata.name%21%3Dkube-"
                                      "node-lease%2Cmetadata.name%21%3Dcmesh"));
    expect_quiet(u);
    assert_null(look(u, "GET", MAPS_PATH, ""));
    api_answer(q, 200, NULL, LIST(SPACE("ns-a", "")));
    q = expect(u, "GET", MAPS_PATH, UNLABELLED);
    assert_non_null(strstr(q->target, "metadata.namespace%21%3Dkube-system%2C"));
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"namespaces\"} 1");
    assert_string_equal(u->patched, "/api/v1/namespaces/ns-a");
    assert_null(look(u, "GET", DEPLOYMENTS_PATH, ""));
    api_answer(q, 200, NULL, LIST(OBJECT("ns-a", "x", "")));
    list(u, DEPLOYMENTS_PATH, UNLABELLED, LIST(""));
    expect_status(u, "complete");
    assert_string_equal(u->patched, "/api/v1/namespaces/ns-a/configmaps/x");
    assert_int_equal(u->patches, 2);
    assert_false(is(u, "checked"));

    list(u, SPACES_PATH, LABELLED, LIST(""));
    list(u, MAPS_PATH, LABELLED, LIST(OBJECT("ns-a", "wrong", OURS_BUT_WRONG)));
    list(u, DEPLOYMENTS_PATH, LABELLED, LIST(""));
    expect_status(u, "checked");
    assert_int_equal(u->patches, 3);
    assert_string_equal(u->patched, "/api/v1/namespaces/ns-a/configmaps/wrong");
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 2");
    expect_metric(u, "cmesh_manager_label_resources{state=\"following\"} 3");
    expect_metric(u, "cmesh_manager_label_requests_total{verb=\"patch\"} 3");
    expect_metric(u, "cmesh_manager_label_requests_total{verb=\"list\"} 6");
    expect_metric(u, "cmesh_manager_label_pending 0");
    expect_quiet(u);
}

static void test_labels_what_comes_later(void **state)
{
    struct user *u = *state;
    settle(u);
    api_answer(expect(u, "GET", MAPS_PATH, "watch=true"), 200, NULL,
               EVENT("ADDED", OBJECT("ns-a", "x", "")) EVENT("DELETED", OBJECT("ns-a", "gone", ""))
                   EVENT("MODIFIED", OBJECT("ns-a", "y", "")));
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 2");
    assert_string_equal(u->patched, "/api/v1/namespaces/ns-a/configmaps/y");
    assert_int_equal(u->patches, 2);
}

static void test_checks_again_after_hours(void **state)
{
    struct user *u = *state;
    settle(u);
    expect_quiet(u);
    fake_clock_pass(&u->api.clock, 6 * 3600 * 1000);
    list(u, SPACES_PATH, LABELLED, LIST(""));
    list(u, MAPS_PATH, LABELLED, LIST(OBJECT("ns-a", "copied", OURS_BUT_WRONG)));
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 1");
    assert_string_equal(u->patched, "/api/v1/namespaces/ns-a/configmaps/copied");
    expect_quiet(u);
    assert_null(look(u, "GET", SPACES_PATH, LABELLED));
}

static void test_leaves_system_namespaces_out(void **state)
{
    struct user *u = *state;
    list(u, SPACES_PATH, UNLABELLED,
         LIST(SPACE("kube-system", "") "," SPACE("kube-public", "") "," SPACE(
             "kube-node-lease", "") "," SPACE("cmesh", "") "," SPACE("cmesh-2", "")));
    list(u, MAPS_PATH, UNLABELLED,
         LIST(OBJECT("kube-system", "x", "") "," OBJECT("cmesh", "x", "")));
    settle(u);
    assert_string_equal(u->patched, "/api/v1/namespaces/cmesh-2");
    assert_int_equal(u->patches, 1);
}

static void test_labels_system_namespaces_when_asked(void **state)
{
    struct user *u = *state;
    end(u);
    u->options.system_namespaces = true;
    begin(u);
    struct api_request *q = expect(u, "GET", SPACES_PATH, UNLABELLED);
    assert_null(strstr(q->target, "fieldSelector"));
    api_answer(q, 200, NULL, LIST(SPACE("kube-system", "")));
    list(u, MAPS_PATH, UNLABELLED, LIST(OBJECT("kube-system", "x", "")));
    settle(u);
    assert_int_equal(u->patches, 2);
}

static void test_another_owners_are_counted_and_left_alone(void **state)
{
    struct user *u = *state;
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    list(u, MAPS_PATH, UNLABELLED,
         LIST(OBJECT("ns-a", "x", FOREIGN) "," OBJECT("ns-a", "y", "\"" P "control\":\"no\"")));
    settle(u);
    expect_metric(u, "cmesh_manager_label_foreign{resource=\"configmaps\"} 2");
    api_answer(expect(u, "GET", MAPS_PATH, "watch=true"), 200, NULL,
               EVENT("MODIFIED", OBJECT("ns-a", "x", FOREIGN))
                   EVENT("ADDED", OBJECT("ns-a", "z", FOREIGN)));
    expect_metric(u, "cmesh_manager_label_foreign{resource=\"configmaps\"} 3");
    struct api_request *q = NULL;
    while ((q = look(u, "GET", MAPS_PATH, "watch=true")) == NULL) {
        turn(u);
        run_for(u->api.loop, 20);
    }
    api_answer(q, 200, NULL,
               EVENT("DELETED", OBJECT("ns-a", "x", FOREIGN))
                   EVENT("DELETED", OBJECT("ns-a", "y", "")));
    expect_metric(u, "cmesh_manager_label_foreign{resource=\"configmaps\"} 1");
    assert_int_equal(u->patches, 0);
}

static void test_another_owners_are_taken_over_when_asked(void **state)
{
    struct user *u = *state;
    end(u);
    u->keys.policy = LABELS_TAKE;
    begin(u);
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    list(u, MAPS_PATH, UNLABELLED,
         LIST(OBJECT("ns-a", "x", FOREIGN) "," OBJECT("ns-a", "y", "\"" P "control\":\"no\"")));
    settle(u);
    expect_metric(u, "cmesh_manager_label_foreign{resource=\"configmaps\"} 0");
    assert_int_equal(u->patches, 2);
}

static void test_somebody_takes_the_labels_away(void **state)
{
    struct user *u = *state;
    settle(u);
    char body[256];
    for (unsigned i = 1; i <= 3; i++) {
        (void)snprintf(body, sizeof body, "%s", EVENT("MODIFIED", OBJECT("ns-a", "x", "")));
        struct api_request *q = NULL;
        while ((q = look(u, "GET", MAPS_PATH, "watch=true")) == NULL) {
            turn(u);
            run_for(u->api.loop, 20);
        }
        api_answer(q, 200, NULL, body);
        (void)snprintf(body, sizeof body,
                       "cmesh_manager_label_labelled_total{resource=\"configmaps\"} %u", i);
        expect_metric(u, body);
    }
    struct api_request *q = NULL;
    while ((q = look(u, "GET", MAPS_PATH, "watch=true")) == NULL) {
        turn(u);
        run_for(u->api.loop, 20);
    }
    api_answer(q, 200, NULL,
               EVENT("MODIFIED", OBJECT("ns-a", "x", "")) EVENT("ADDED", OBJECT("ns-a", "y", "")));
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 4");
    assert_string_equal(u->patched, "/api/v1/namespaces/ns-a/configmaps/y");
    expect_metric(u, "cmesh_manager_label_pending 1");
    expect_metric(u, "cmesh_manager_label_contested_total 1");
    fake_clock_pass(&u->api.clock, 1000);
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 5");
    assert_string_equal(u->patched, "/api/v1/namespaces/ns-a/configmaps/x");
}

static void test_becomes_another_owners(void **state)
{
    struct user *u = *state;
    u->manual = true;
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    list(u, MAPS_PATH, UNLABELLED, LIST(OBJECT("ns-a", "x", "")));
    api_answer(expect(u, "PATCH", "/api/v1/namespaces/ns-a/configmaps/x", ""), 409, NULL, "");
    api_answer(expect(u, "GET", "/api/v1/namespaces/ns-a/configmaps/x", ""), 200, NULL,
               OBJECT("ns-a", "x", FOREIGN));
    expect_metric(u, "cmesh_manager_label_foreign{resource=\"configmaps\"} 1");
    settle(u);
}

/* ---- many ---- */

/* `count` objects from `first` on, as a list or as events; the caller frees. */
static char *many(unsigned first, unsigned count, const char *token)
{
    struct buf text = BUF_INIT(16 * 1024 * 1024);
    int rc = token == NULL ? 0
                           : buf_printf(&text,
                                        "{\"metadata\":{\"resourceVersion\":\"10\",\"continue\":"
                                        "\"%s\"},\"items\":[",
                                        token);
    for (unsigned i = first; i < first + count && rc == 0; i++) {
        rc = buf_printf(&text,
                        "%s{\"metadata\":{\"namespace\":\"ns\",\"name\":\"m-%u\","
                        "\"resourceVersion\":\"8\"}}%s",
                        token == NULL ? "{\"type\":\"ADDED\",\"object\":"
                        : i > first   ? ","
                                      : "",
                        i, token == NULL ? "}\n" : "");
    }
    rc = rc == 0 && token != NULL ? buf_append_str(&text, "]}") : rc;
    assert_int_equal(rc, 0);
    char *out = buf_take_str(&text);
    assert_non_null(out);
    return out;
}

static void list_many(struct user *u, const char *path, const char *part, unsigned first,
                      unsigned count, const char *token)
{
    char *body = many(first, count, token);
    list(u, path, part, body);
    free(body);
}

static void answer_patches(struct user *u, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct api_request *q = NULL;
        for (int n = 0; n < TURNS && q == NULL; n++) {
            for (struct list *at = u->api.requests.next; at != &u->api.requests && q == NULL;
                 at = at->next) {
                struct api_request *other = LIST_ITEM(at, struct api_request, link);
                q = other->whole && strcmp(other->method, "PATCH") == 0 ? other : NULL;
            }
            if (q == NULL) {
                turn(u);
            }
        }
        assert_non_null(q);
        u->patches++;
        api_answer(q, 200, NULL, q->body);
    }
}

static void test_pages_wait_until_there_is_room(void **state)
{
    struct user *u = *state;
    u->manual = true;
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    list_many(u, MAPS_PATH, UNLABELLED, 0, 600, "t1");
    list_many(u, MAPS_PATH, "continue=t1", 600, 600, "t2");
    turn(u);
    expect_quiet(u);
    assert_null(look(u, "GET", MAPS_PATH, "continue=t2"));
    answer_patches(u, 900);
    turn(u);
    assert_null(look(u, "GET", MAPS_PATH, "continue=t2"));
    answer_patches(u, 60);
    list(u, MAPS_PATH, "continue=t2", LIST(OBJECT("ns", "last", "")));
    answer_patches(u, 241);
    settle(u);
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 1201");
}

static void test_lists_again_what_was_too_much(void **state)
{
    struct user *u = *state;
    settle(u);
    u->manual = true;
    char *events = many(0, 5000, NULL);
    api_answer(expect(u, "GET", MAPS_PATH, "watch=true"), 200, NULL, events);
    free(events);
    answer_patches(u, 3700);
    expect_quiet(u);
    assert_null(look(u, "GET", MAPS_PATH, "limit="));
    answer_patches(u, 60);
    list(u, MAPS_PATH, UNLABELLED, LIST(OBJECT("ns", "left-out", "")));
    answer_patches(u, 241);
    expect_metric(u, "cmesh_manager_label_pending 0");
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 4001");
}

/* ---- how far it is ---- */

static struct label_progress progress_of(struct user *u, const char *plural)
{
    struct label_progress p = {.state = LABELLED_NEVER};
    const struct discovery_resource *all = NULL;
    size_t count = 0;
    assert_int_equal(labeller_resources(u->labeller, &all, &count), LABELLED_KNOWN);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].plural, plural) == 0) {
            labeller_progress(u->labeller, &all[i], &p);
            return p;
        }
    }
    fail_msg("the server has no %s", plural);
    return p;
}

static void expect_progress(struct user *u, const char *plural, enum label_progress_state state)
{
    for (int i = 0; i < TURNS && progress_of(u, plural).state != state; i++) {
        turn(u);
    }
    assert_int_equal(progress_of(u, plural).state, state);
}

static void test_tells_which_resources_are_complete(void **state)
{
    struct user *u = *state;
    const struct discovery_resource *all;
    size_t count;
    assert_int_equal(labeller_resources(NULL, &all, &count), LABELLED_BY_NOBODY);
    assert_int_equal(labeller_resources(u->labeller, &all, &count), LABELLED_UNKNOWN);
    u->manual = true;
    struct api_request *q = expect(u, "GET", SPACES_PATH, UNLABELLED);
    expect_progress(u, "configmaps", LABELLED_DUE);
    expect_progress(u, "nodes", LABELLED_NEVER);
    api_answer(q, 200, NULL, LIST(""));
    unsigned told = u->told;
    q = expect(u, "GET", MAPS_PATH, UNLABELLED);
    api_answer(q, 200, NULL, LIST(OBJECT("ns-a", "x", "") "," OBJECT("ns-a", "y", "")));
    q = expect(u, "PATCH", "/api/v1/namespaces/ns-a/configmaps/x", "");
    list(u, DEPLOYMENTS_PATH, UNLABELLED, LIST(""));
    expect_progress(u, "deployments", LABELLED_DONE); /* it does not wait for others */
    assert_true(u->told > told);
    assert_int_equal(progress_of(u, "configmaps").pending, 2);
    assert_int_equal(progress_of(u, "configmaps").state, LABELLED_DUE);
    api_answer(q, 200, NULL, q->body);
    q = expect(u, "PATCH", "/api/v1/namespaces/ns-a/configmaps/y", "");
    assert_int_equal(progress_of(u, "configmaps").labelled, 1);
    assert_int_equal(progress_of(u, "configmaps").state, LABELLED_DUE);
    told = u->told;
    api_answer(q, 403, NULL, ""); /* for good: nobody waits for it */
    expect_progress(u, "configmaps", LABELLED_DONE);
    assert_int_equal(u->told, told + 1);
    /* What comes later changes nothing. */
    api_answer(expect(u, "GET", MAPS_PATH, "watch=true"), 200, NULL,
               EVENT("ADDED", OBJECT("ns-a", "z", "")));
    (void)expect(u, "PATCH", "/api/v1/namespaces/ns-a/configmaps/z", "");
    assert_int_equal(progress_of(u, "configmaps").state, LABELLED_DONE);
}

static void test_tells_why_a_resource_is_not(void **state)
{
    struct user *u = *state;
    api_answer(expect(u, "GET", SPACES_PATH, UNLABELLED), 200, NULL, LIST(""));
    api_answer(expect(u, "GET", MAPS_PATH, UNLABELLED), 403, NULL,
               "{\"kind\":\"Status\",\"message\":\"configmaps is forbidden\"}");
    list(u, DEPLOYMENTS_PATH, UNLABELLED, LIST(""));
    expect_progress(u, "deployments", LABELLED_DONE);
    struct label_progress p = progress_of(u, "configmaps");
    assert_int_equal(p.state, LABELLED_DUE);
    assert_non_null(strstr(p.error, "configmaps is forbidden"));
}

/* ---- what goes wrong ---- */

static void test_a_resource_in_trouble_is_not_waited_for(void **state)
{
    struct user *u = *state;
    api_answer(expect(u, "GET", SPACES_PATH, UNLABELLED), 403, NULL,
               "{\"kind\":\"Status\",\"message\":\"namespaces is forbidden: User cannot list\"}");
    api_answer(expect(u, "GET", MAPS_PATH, UNLABELLED), 500, NULL, "");
    list(u, DEPLOYMENTS_PATH, UNLABELLED, LIST(OBJECT("ns-a", "x", "")));
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"deployments.apps\"} 1");
    expect_metric(u, "cmesh_manager_label_resources{state=\"listing\"} 2");
    for (int i = 0; i < 20; i++) {
        turn(u); /* the two are listed again, in real time */
    }
    assert_int_equal(u->patches, 1);
    assert_false(is(u, "complete"));
    list(u, MAPS_PATH, UNLABELLED, LIST(OBJECT("ns-a", "x", "")));
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 1");
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    expect_status(u, "complete");
}

static void test_servers_that_cannot_select_namespaces(void **state)
{
    struct user *u = *state;
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    api_answer(expect(u, "GET", MAPS_PATH, "fieldSelector="), 400, NULL,
               "{\"kind\":\"Status\",\"message\":\"field label not supported: "
               "metadata.namespace\"}");
    struct api_request *q = expect(u, "GET", MAPS_PATH, UNLABELLED);
    assert_null(strstr(q->target, "fieldSelector"));
    api_answer(q, 200, NULL, LIST(OBJECT("kube-system", "x", "") "," OBJECT("a", "x", "")));
    settle(u);
    assert_int_equal(u->patches, 1);
    assert_string_equal(u->patched, "/api/v1/namespaces/a/configmaps/x");
}

static void refuse_patches(struct user *u, unsigned count, unsigned status)
{
    for (unsigned i = 0; i < count; i++) {
        struct api_request *q = NULL;
        char path[128];
        for (int n = 0; n < TURNS && q == NULL; n++) {
            turn(u);
            for (unsigned m = 0; m < 100 && q == NULL; m++) {
                (void)snprintf(path, sizeof path, "/api/v1/namespaces/ns/configmaps/m-%u", m);
                q = look(u, "PATCH", path, "");
            }
        }
        assert_non_null(q);
        api_answer(q, status, NULL,
                   "{\"kind\":\"Status\",\"message\":\"User cannot patch resource\"}");
    }
}

static void test_a_resource_that_is_refused_rests(void **state)
{
    struct user *u = *state;
    u->manual = true;
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    list_many(u, MAPS_PATH, UNLABELLED, 0, 50, "t");
    refuse_patches(u, 20, 403);
    list(u, DEPLOYMENTS_PATH, UNLABELLED, LIST(""));
    expect_metric(u, "cmesh_manager_label_resources{state=\"resting\"} 1");
    api_expect_gone(&u->api, 1); /* the next page */
    refuse_patches(u, 7, 403);   /* those that were on their way */
    expect_metric(u, "cmesh_manager_label_pending 0");
    u->empty = true; /* the others have nothing */
    answer_lists(u);
    expect_quiet(u);
    u->empty = false;
    assert_false(is(u, "complete"));
    fake_clock_pass(&u->api.clock, 29000);
    expect_quiet(u);
    fake_clock_pass(&u->api.clock, 1000);
    u->manual = false;
    list_many(u, MAPS_PATH, UNLABELLED, 0, 50, "");
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 50");
    expect_metric(u, "cmesh_manager_label_failed_total{resource=\"configmaps\"} 27");
}

static void test_what_was_refused_is_tried_again(void **state)
{
    struct user *u = *state;
    u->manual = true;
    list(u, SPACES_PATH, UNLABELLED, LIST(""));
    list_many(u, MAPS_PATH, UNLABELLED, 0, 1, "");
    refuse_patches(u, 1, 422);
    settle(u);
    expect_metric(u, "cmesh_manager_label_failed_total{resource=\"configmaps\"} 1");
    u->manual = false;
    fake_clock_pass(&u->api.clock, 31000);
    list_many(u, MAPS_PATH, UNLABELLED, 0, 1, "");
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"configmaps\"} 1");
    list(u, MAPS_PATH, LABELLED, LIST("")); /* it might have been one that is labelled */
}

static void test_writes_only_while_it_leads(void **state)
{
    struct user *u = *state;
    u->lost = true;
    list(u, SPACES_PATH, UNLABELLED, LIST(SPACE("ns-a", "")));
    (void)expect(u, "GET", MAPS_PATH, UNLABELLED);
    fake_clock_pass(&u->api.clock, 5000);
    expect_quiet(u);
    assert_int_equal(u->patches, 0);
    expect_metric(u, "cmesh_manager_label_pending 1");
    u->lost = false;
    fake_clock_pass(&u->api.clock, 60000);
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"namespaces\"} 1");
}

/* ---- which resources there are ---- */

static void discover_again(struct user *u)
{
    fake_clock_pass(&u->api.clock, 600000);
    run_for(u->api.loop, 10);
    turn(u);
}

static void test_resources_come_and_go(void **state)
{
    struct user *u = *state;
    settle(u);
    expect_metric(u, "cmesh_manager_label_resources{state=\"following\"} 2"); /* with namespaces */
    u->core = RESOURCES(MAPS "," SECRETS);
    discover_again(u);
    list(u, "/api/v1/secrets", UNLABELLED, LIST(OBJECT("ns-a", "x", "")));
    list(u, "/api/v1/secrets", LABELLED, LIST(""));
    expect_metric(u, "cmesh_manager_label_labelled_total{resource=\"secrets\"} 1");
    (void)expect(u, "GET", "/api/v1/secrets", "watch=true");
    unsigned gone = u->api.gone;
    u->core = RESOURCES(MAPS);
    discover_again(u);
    api_expect_gone(&u->api, gone + 1);
    expect_metric(u, "cmesh_manager_label_resources{state=\"following\"} 2");
}

static void test_new_resources_are_labelled(void **state)
{
    struct user *u = *state;
    settle(u);
    u->core = RESOURCES(MAPS "," SECRETS);
    discovery_refresh(u->discovery);
    fake_clock_pass(&u->api.clock, 5000);
    (void)expect(u, "GET", "/api/v1/secrets", UNLABELLED);
}

/* ---- the end ---- */

static void test_freed_in_each_phase(void **state)
{
    struct user *u = *state;
    labeller_free(NULL);
    labeller_metrics(NULL, NULL);
    labeller_status(NULL, NULL);
    end(u);
    begin(u); /* before anything */
    (void)expect(u, "GET", SPACES_PATH, UNLABELLED);
    end(u);
    begin(u); /* listing */
    u->manual = true;
    list(u, SPACES_PATH, UNLABELLED, LIST(SPACE("ns-a", "")));
    (void)expect(u, "PATCH", SPACES_PATH "/ns-a", "");
    end(u);
    begin(u); /* patching */
    u->empty = true;
    expect_status(u, "complete");
    u->empty = false;
    end(u);
    begin(u); /* checking */
    settle(u);
    end(u); /* following */
    run_for(u->api.loop, 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_MAPS(name) cmocka_unit_test_setup_teardown(name, setup_maps, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_labels_one_resource_after_the_other),
        TEST_MAPS(test_labels_what_comes_later),
        TEST_MAPS(test_checks_again_after_hours),
        TEST_MAPS(test_leaves_system_namespaces_out),
        TEST_MAPS(test_labels_system_namespaces_when_asked),
        TEST_MAPS(test_another_owners_are_counted_and_left_alone),
        TEST_MAPS(test_another_owners_are_taken_over_when_asked),
        TEST_MAPS(test_somebody_takes_the_labels_away),
        TEST_MAPS(test_becomes_another_owners),
        TEST_MAPS(test_pages_wait_until_there_is_room),
        TEST_MAPS(test_lists_again_what_was_too_much),
        TEST(test_tells_which_resources_are_complete),
        TEST(test_tells_why_a_resource_is_not),
        TEST(test_a_resource_in_trouble_is_not_waited_for),
        TEST_MAPS(test_servers_that_cannot_select_namespaces),
        TEST(test_a_resource_that_is_refused_rests),
        TEST_MAPS(test_what_was_refused_is_tried_again),
        TEST_MAPS(test_writes_only_while_it_leads),
        TEST_MAPS(test_resources_come_and_go),
        TEST_MAPS(test_new_resources_are_labelled),
        TEST_MAPS(test_freed_in_each_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
