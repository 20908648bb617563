/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `manager unlabel` against an API server with a few objects. The command has a loop of its own, so
 * it runs in a process of its own.
 */
#include "commands/unlabel.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "scripted_api.h"
#include "temp_dir.h"

#define CONTROL "ctrlmesh.kusionstack.io/control"
#define VERBS "[\"get\",\"list\",\"watch\",\"patch\"]"
#define STATUS(message) "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"" message "\"}"

enum { OBJECTS = 30, TURNS = 20000 };

enum mood {
    MOOD_WELL,
    MOOD_PUTS_BACK,     /* a webhook labels what is patched */
    MOOD_LABELS_ANEW,   /* somebody else does, later */
    MOOD_REFUSES_LISTS, /* of ConfigMaps */
    MOOD_HAS_NO_LISTS,
    MOOD_REFUSES_PATCHES,
    MOOD_FORGETS, /* a list, between its pages */
    MOOD_BUSY,    /* each object is changed once before it is patched */
    MOOD_SILENT,  /* never answers a patch */
    MOOD_NO_DISCOVERY,
};

struct user {
    struct scripted_api api;
    struct temp_dir dir;
    struct unlabel_command command;
    char kubeconfig[256];
    enum mood mood;
    bool labelled[OBJECTS];
    bool changed[OBJECTS];
    bool namespace; /* is labelled */
    unsigned patches;
    unsigned lists; /* of ConfigMaps */
    unsigned maps_left_when_namespaces_came;
};

/* ---- the server ---- */

static unsigned maps_left(const struct user *u)
{
    unsigned left = 0;
    for (unsigned i = 0; i < OBJECTS; i++) {
        left += u->labelled[i] ? 1 : 0;
    }
    return left;
}

static int write_object(struct buf *out, const char *kind, unsigned i, bool labelled, bool changed)
{
    bool map = kind[0] == 'c';
    return buf_printf(out,
                      "{\"metadata\":{%s\"name\":\"%s-%u\",\"resourceVersion\":\"%u\","
                      "\"labels\":{%s}}}",
                      map ? "\"namespace\":\"ns\"," : "", kind, i, changed ? 9 : 8,
                      labelled ? "\"" CONTROL "\":\"true\"" : "\"a\":\"b\"");
}

/* A page of 20. */
static void answer_maps(struct user *u, struct api_request *q)
{
    struct buf out = BUF_INIT(65536);
    bool second = strstr(q->target, "continue=") != NULL;
    unsigned from = second ? 20 : 0;
    unsigned to = second ? OBJECTS : 20;
    int rc = buf_printf(&out, "{\"metadata\":{\"resourceVersion\":\"9\"%s},\"items\":[",
                        second ? "" : ",\"continue\":\"t\"");
    bool comma = false;
    u->lists++;
    for (unsigned i = from; i < to && rc == 0; i++) {
        if (u->labelled[i]) {
            rc = buf_append_str(&out, comma ? "," : "");
            rc = rc != 0 ? rc : write_object(&out, "c", i, true, u->changed[i]);
            comma = true;
        }
    }
    assert_int_equal(rc != 0 ? rc : buf_append_str(&out, "]}"), 0);
    api_answer(q, 200, NULL, buf_cstr(&out));
    buf_reset(&out);
}

static void answer_namespaces(struct user *u, struct api_request *q)
{
    struct buf out = BUF_INIT(4096);
    u->maps_left_when_namespaces_came = maps_left(u);
    int rc = buf_append_str(&out, "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[");
    rc = rc == 0 && u->namespace ? write_object(&out, "ns", 0, true, false) : rc;
    assert_int_equal(rc != 0 ? rc : buf_append_str(&out, "]}"), 0);
    api_answer(q, 200, NULL, buf_cstr(&out));
    buf_reset(&out);
}

static void answer_list(struct user *u, struct api_request *q)
{
    assert_non_null(strstr(q->target, "control%3Dtrue"));
    if (strncmp(q->target, "/api/v1/namespaces?", 19) == 0) {
        answer_namespaces(u, q);
    } else if (u->mood == MOOD_REFUSES_LISTS) {
        api_answer(q, 403, NULL, STATUS("User cannot list resource"));
    } else if (u->mood == MOOD_HAS_NO_LISTS) {
        api_answer(q, 404, NULL, STATUS("not found"));
    } else if (u->mood == MOOD_FORGETS && strstr(q->target, "continue=") != NULL) {
        u->mood = MOOD_WELL;
        api_answer(q, 410, NULL, STATUS("too old"));
    } else {
        answer_maps(u, q);
    }
}

static void answer_object(struct user *u, struct api_request *q, const char *kind, unsigned i,
                          bool *labelled)
{
    struct buf out = BUF_INIT(4096);
    assert_int_equal(write_object(&out, kind, i, *labelled, u->changed[i]), 0);
    api_answer(q, 200, NULL, buf_cstr(&out));
    buf_reset(&out);
}

static void answer_patch(struct user *u, struct api_request *q, const char *kind, unsigned i,
                         bool *labelled)
{
    assert_non_null(strstr(q->body, "\"" CONTROL "\":null"));
    u->patches++;
    if (u->mood == MOOD_SILENT) {
        return;
    }
    if (u->mood == MOOD_REFUSES_PATCHES && kind[0] == 'c') {
        api_answer(q, 403, NULL, STATUS("User cannot patch resource"));
        return;
    }
    if (u->mood == MOOD_BUSY && !u->changed[i]) {
        u->changed[i] = true;
        api_answer(q, 409, NULL, STATUS("the object has been modified"));
        return;
    }
    *labelled = u->mood == MOOD_PUTS_BACK;
    answer_object(u, q, kind, i, labelled);
    if (u->mood == MOOD_LABELS_ANEW && kind[0] == 'n') {
        u->labelled[3] = true;
    }
}

static void answer_one(struct user *u, struct api_request *q)
{
    unsigned i = 0;
    bool map = sscanf(q->target, "/api/v1/namespaces/ns/configmaps/c-%u", &i) == 1;
    bool *labelled = map ? &u->labelled[i] : &u->namespace;
    if (strcmp(q->method, "PATCH") == 0) {
        answer_patch(u, q, map ? "c" : "ns", i, labelled);
    } else {
        answer_object(u, q, map ? "c" : "ns", i, labelled);
    }
}

static void serve(struct scripted_api *a, struct api_request *q)
{
    struct user *u = a->data;
    if (u->mood == MOOD_NO_DISCOVERY) {
        api_answer(q, 500, NULL, STATUS("out of order"));
    } else if (strcmp(q->target, "/api") == 0) {
        api_answer(q, 200, NULL, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}");
    } else if (strcmp(q->target, "/apis") == 0) {
        api_answer(q, 200, NULL, "{\"kind\":\"APIGroupList\",\"groups\":[]}");
    } else if (strcmp(q->target, "/api/v1") == 0) {
        api_answer(q, 200, NULL,
                   "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"configmaps\","
                   "\"kind\":\"ConfigMap\",\"namespaced\":true,\"verbs\":" VERBS "}]}");
    } else if (strchr(q->target, '?') != NULL && strstr(q->target, "labelSelector=") != NULL) {
        answer_list(u, q);
    } else {
        answer_one(u, q);
    }
}

/* ---- the world ---- */

static int setup(void **state)
{
    struct net_loop *l = NULL;
    struct user *u = calloc(1, sizeof *u);
    if (u == NULL || loop_setup((void **)&l) != 0 || !api_open(&u->api, l)) {
        return -1;
    }
    char text[1024];
    temp_dir_init(&u->dir);
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"c\","
                   "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://127.0.0.1:%u\"}}"
                   "],\"users\":[{\"name\":\"u\",\"user\":{}}],\"contexts\":[{\"name\":\"c\","
                   "\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}]}",
                   u->api.access.server.port);
    temp_dir_write(&u->dir, "kubeconfig", text, 0600);
    temp_dir_write(&u->dir, "resources", "groupVersionKinds: {v1: [ConfigMap]}", 0600);
    u->command = (struct unlabel_command){
        .kube.kubeconfig = temp_dir_path(&u->dir, "kubeconfig", u->kubeconfig),
        .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
        .all_resources = true,
        .qps = 100000,
    };
    u->api.serve = serve;
    u->api.data = u;
    memset(u->labelled, true, sizeof u->labelled);
    u->namespace = true;
    *state = u;
    return 0;
}

static int teardown(void **state)
{
    struct user *u = *state;
    struct net_loop *l = u->api.loop;
    api_close(&u->api);
    temp_dir_deinit(&u->dir);
    free(u);
    return loop_free(l);
}

/* What it says goes into a file. */
static pid_t start(const struct user *u)
{
    char path[256];
    (void)fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen(temp_dir_path(&u->dir, "log", path), "w", stderr) == NULL)
            abort();
        exit(unlabel_command_run(&u->command));
    }
    return child;
}

static int wait_end(struct user *u, pid_t child)
{
    int status = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        if (waitpid(child, &status, WNOHANG) == child) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        }
        run_for(u->api.loop, 1);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    fail_msg("it does not end");
    return -1;
}

static bool has_said(const struct user *u, const char *text)
{
    char path[256];
    struct buf said = BUF_INIT((size_t)1024 * 1024);
    struct err e = ERR_INIT;
    bool found = file_read(temp_dir_path(&u->dir, "log", path), &said, &e) == 0 && said.len > 0 &&
                 memmem(buf_data(&said), said.len, text, strlen(text)) != NULL;
    buf_reset(&said);
    return found;
}

static int run(struct user *u, enum mood mood)
{
    u->mood = mood;
    return wait_end(u, start(u));
}

/* ---- tests ---- */

static void test_takes_all_away(void **state)
{
    struct user *u = *state;
    assert_int_equal(run(u, MOOD_WELL), EXIT_DONE);
    assert_int_equal(maps_left(u), 0);
    assert_false(u->namespace);
    assert_int_equal(u->patches, OBJECTS + 1);
    assert_int_equal(u->lists, 4); /* two pages, twice */
    assert_int_equal(u->maps_left_when_namespaces_came, 0);
    assert_int_equal(run(u, MOOD_WELL), EXIT_DONE);
    assert_int_equal(u->patches, OBJECTS + 1);
}

static void test_a_file_says_which_resources(void **state)
{
    struct user *u = *state;
    char path[256];
    u->command.all_resources = false;
    u->command.resources = temp_dir_path(&u->dir, "resources", path);
    assert_int_equal(run(u, MOOD_WELL), EXIT_DONE);
    assert_int_equal(maps_left(u), 0);
    u->command.resources = NULL; /* the default ones */
    u->labelled[5] = true;
    assert_int_equal(run(u, MOOD_WELL), EXIT_DONE);
    assert_int_equal(maps_left(u), 0);
}

static void test_dry_run(void **state)
{
    struct user *u = *state;
    u->command.dry_run = true;
    assert_int_equal(run(u, MOOD_WELL), EXIT_DONE);
    assert_int_equal(maps_left(u), OBJECTS);
    assert_int_equal(u->patches, 0);
    assert_int_equal(u->lists, 2);
}

static void test_stops_when_it_is_put_back(void **state)
{
    struct user *u = *state;
    assert_int_equal(run(u, MOOD_PUTS_BACK), EXIT_FAILED);
    assert_true(u->patches < OBJECTS);
}

static void test_notices_what_is_labelled_again(void **state)
{
    struct user *u = *state;
    assert_int_equal(run(u, MOOD_LABELS_ANEW), EXIT_FAILED);
    assert_int_equal(maps_left(u), 1);
}

static void test_what_cannot_be_listed(void **state)
{
    struct user *u = *state;
    assert_int_equal(run(u, MOOD_REFUSES_LISTS), EXIT_FAILED);
    assert_int_equal(maps_left(u), OBJECTS);
    assert_true(has_said(u, "failed=0"));
    assert_true(has_said(u, "could not be listed"));
    assert_true(has_said(u, "resources=1"));
    assert_false(u->namespace); /* nothing else waits for that */
    u->namespace = true;
    assert_int_equal(run(u, MOOD_HAS_NO_LISTS), EXIT_DONE);
    assert_false(u->namespace);
}

static void test_gives_a_resource_up(void **state)
{
    struct user *u = *state;
    assert_int_equal(run(u, MOOD_REFUSES_PATCHES), EXIT_FAILED);
    assert_true(u->patches >= 20 && u->patches <= OBJECTS);
    assert_int_equal(maps_left(u), OBJECTS);
    assert_false(u->namespace);
}

static void test_a_list_that_is_forgotten(void **state)
{
    struct user *u = *state;
    assert_int_equal(run(u, MOOD_FORGETS), EXIT_DONE);
    assert_int_equal(maps_left(u), 0);
    assert_int_equal(u->patches, OBJECTS + 1);
}

static void test_objects_that_change(void **state)
{
    struct user *u = *state;
    assert_int_equal(run(u, MOOD_BUSY), EXIT_DONE);
    assert_int_equal(maps_left(u), 0);
}

static void test_ends_when_told_to(void **state)
{
    struct user *u = *state;
    u->mood = MOOD_SILENT;
    pid_t child = start(u);
    for (int turn = 0; turn < TURNS && u->patches == 0; turn++) {
        run_for(u->api.loop, 1);
    }
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(wait_end(u, child), EXIT_FAILED);
}

static void test_an_api_server_that_does_not_answer(void **state)
{
    struct user *u = *state;
    u->mood = MOOD_NO_DISCOVERY;
    pid_t child = start(u);
    for (int turn = 0; turn < TURNS && !has_said(u, "still waiting for the API server"); turn++) {
        run_for(u->api.loop, 1);
    }
    assert_true(has_said(u, "still waiting for the API server"));
    assert_true(has_said(u, "out of order"));
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(wait_end(u, child), EXIT_FAILED);
}

static void test_cannot_start(void **state)
{
    struct user *u = *state;
    u->command.kube.kubeconfig = "/nowhere";
    assert_int_equal(run(u, MOOD_WELL), EXIT_FAILED);
    u->command.kube.kubeconfig = u->kubeconfig;
    u->command.labels.control = "namespace";
    assert_int_equal(run(u, MOOD_WELL), EXIT_FAILED);
    u->command.labels.control = "control";
    u->command.all_resources = false;
    u->command.resources = "/nowhere";
    assert_int_equal(run(u, MOOD_WELL), EXIT_FAILED);
    assert_int_equal(u->api.count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_takes_all_away),
        TEST(test_a_file_says_which_resources),
        TEST(test_dry_run),
        TEST(test_stops_when_it_is_put_back),
        TEST(test_notices_what_is_labelled_again),
        TEST(test_what_cannot_be_listed),
        TEST(test_gives_a_resource_up),
        TEST(test_a_list_that_is_forgotten),
        TEST(test_objects_that_change),
        TEST(test_ends_when_told_to),
        TEST(test_an_api_server_that_does_not_answer),
        TEST(test_cannot_start),
    };
    log_init("test", LOG_TEXT, LOG_INFO);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
