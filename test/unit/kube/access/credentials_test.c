/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "kube/access/credentials.h"
#include "loop_fixture.h"
#include "temp_dir.h"

#define V1 "client.authentication.k8s.io/v1"

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir;
    struct kube_access access;
    struct kube_exec exec;
    char command[256];
    struct credentials *credentials;
    int ready;
    int tls;
    int failed;
    bool event; /* set by each event */
    bool closed;
    bool close_on_event;
    uint64_t exec_timeout_ms;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(loop_setup((void **)&f->loop), 0);
    temp_dir_init(&f->dir);
    f->access.user = "me";
    f->exec.api_version = V1;
    f->exec_timeout_ms = 60000;
    *state = f;
    return 0;
}

static void on_closed(void *data)
{
    struct fixture *f = data;
    assert_false(f->closed);
    f->closed = true;
    f->credentials = NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->credentials != NULL && !f->close_on_event) {
        credentials_close(f->credentials, on_closed, f);
        credentials_close(f->credentials, on_closed, f); /* idempotent */
        assert_false(f->closed);
        run_until(f->loop, &f->closed);
    }
    run_to_end(f->loop);
    int rc = loop_free(f->loop);
    temp_dir_deinit(&f->dir);
    free(f);
    return rc;
}

static void on_event(void *data, enum credentials_event event)
{
    struct fixture *f = data;
    assert_non_null(f->credentials); /* never from credentials_new */
    f->event = true;
    f->ready += event == CREDENTIALS_READY;
    f->tls += event == CREDENTIALS_TLS;
    f->failed += event == CREDENTIALS_FAILED;
    if (f->close_on_event) {
        credentials_close(f->credentials, on_closed, f);
    }
}

static struct credentials *start(struct fixture *f, struct err *e)
{
    struct credentials_options o = {
        .on_event = on_event,
        .data = f,
        .file_check_ms = 40,
        .exec_timeout_ms = f->exec_timeout_ms,
        .retry_ms = 20,
    };
    f->credentials = credentials_new(f->loop, &f->access, &o, e);
    return f->credentials;
}

static void start_ok(struct fixture *f)
{
    struct err e = ERR_INIT;
    if (start(f, &e) == NULL) {
        fail_msg("%s", e.msg);
    }
}

static void wait_for_event(struct fixture *f)
{
    f->event = false;
    run_until(f->loop, &f->event);
}

/* A plugin of `script`, which runs in sh with the test's folder as $D. */
static void write_plugin(struct fixture *f, const char *script)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "#!/bin/sh\nD='%s'\n%s\n", f->dir.path, script);
    /* Written under another name: a script that is being run must not be written to. */
    char new_path[256];
    temp_dir_write(&f->dir, "new", text, 0700);
    assert_int_equal(rename(temp_dir_path(&f->dir, "new", new_path),
                            temp_dir_path(&f->dir, "plugin", f->command)),
                     0);
    f->exec.command = f->command;
    f->access.exec = &f->exec;
}

#define GIVE(status)                                                                               \
    "echo '{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":{" status "}}'"

static void test_nothing(void **state)
{
    struct fixture *f = *state;
    start_ok(f);
    assert_true(credentials_ready(f->credentials));
    assert_null(credentials_authorization(f->credentials));
    assert_int_equal(credentials_cert(f->credentials).len, 0);
    assert_null(credentials_error(f->credentials));
    credentials_rejected(f->credentials);
}

static void test_token_and_basic(void **state)
{
    struct fixture *f = *state;
    f->access.token = "abc";
    start_ok(f);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer abc");
    credentials_close(f->credentials, on_closed, f);
    run_until(f->loop, &f->closed);
    f->closed = false;

    f->access.token = NULL;
    f->access.username = "Aladdin";
    f->access.password = "open sesame";
    start_ok(f);
    assert_string_equal(credentials_authorization(f->credentials),
                        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

static void test_fixed_certificate(void **state)
{
    struct fixture *f = *state;
    f->access.cert = (struct kube_pem){.data = "C", .len = 1};
    f->access.key = (struct kube_pem){.data = "K", .len = 1};
    start_ok(f);
    assert_true(slice_eq(credentials_cert(f->credentials), SLICE("C")));
    assert_true(slice_eq(credentials_key(f->credentials), SLICE("K")));
}

static void use_token_file(struct fixture *f, char path[256])
{
    f->access.token_file = (char *)temp_dir_path(&f->dir, "token", path);
}

static void test_token_file_is_followed(void **state)
{
    struct fixture *f = *state;
    char path[256];
    use_token_file(f, path);
    temp_dir_write(&f->dir, "token", "first\n", 0600);
    start_ok(f);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer first");
    temp_dir_write(&f->dir, "token", "second", 0600);
    /* Not looked at again before the pause is over. */
    assert_string_equal(credentials_authorization(f->credentials), "Bearer first");
    run_for(f->loop, 60);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer second");
}

static void test_token_file_swapped_by_symlink(void **state)
{
    struct fixture *f = *state;
    char path[256];
    char data[256];
    char next[256];
    use_token_file(f, path);
    temp_dir_path(&f->dir, "..data", data);
    temp_dir_path(&f->dir, "..next", next);
    assert_int_equal(mkdir(temp_dir_path(&f->dir, "v1", f->command), 0700), 0);
    assert_int_equal(mkdir(temp_dir_path(&f->dir, "v2", f->command), 0700), 0);
    temp_dir_write(&f->dir, "v1/token", "aaaa", 0600);
    temp_dir_write(&f->dir, "v2/token", "bbbb", 0600);
    assert_int_equal(symlink("v1", data), 0);
    assert_int_equal(symlink("..data/token", path), 0);
    start_ok(f);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer aaaa");
    assert_int_equal(symlink("v2", next), 0);
    assert_int_equal(rename(next, data), 0);
    run_for(f->loop, 60);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer bbbb");
}

static void test_token_file_is_read_again_after_a_rejection(void **state)
{
    struct fixture *f = *state;
    char path[256];
    struct credentials_options o = {.file_check_ms = 1000000};
    struct err e = ERR_INIT;
    use_token_file(f, path);
    temp_dir_write(&f->dir, "token", "first", 0600);
    f->credentials = credentials_new(f->loop, &f->access, &o, &e);
    assert_non_null(f->credentials);
    temp_dir_write(&f->dir, "token", "second", 0600);
    run_for(f->loop, 1050);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer first");
    credentials_rejected(f->credentials);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer second");
}

static void test_last_token_is_kept_while_the_file_is_wrong(void **state)
{
    struct fixture *f = *state;
    char path[256];
    use_token_file(f, path);
    temp_dir_write(&f->dir, "token", "good", 0600);
    start_ok(f);
    static const char *const wrong[] = {"", " \n", "two tokens", "line\r\nX: y"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        temp_dir_write(&f->dir, "token", wrong[i], 0600);
        run_for(f->loop, 60);
        assert_string_equal(credentials_authorization(f->credentials), "Bearer good");
        assert_non_null(credentials_error(f->credentials));
        assert_true(credentials_ready(f->credentials));
    }
    assert_int_equal(unlink(path), 0);
    run_for(f->loop, 60);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer good");
    temp_dir_write(&f->dir, "token", "better", 0600);
    run_for(f->loop, 60);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer better");
    assert_null(credentials_error(f->credentials));
}

static void test_token_file_missing_at_start(void **state)
{
    struct fixture *f = *state;
    char path[256];
    struct err e = ERR_INIT;
    use_token_file(f, path);
    assert_null(start(f, &e));
    assert_int_equal(e.code, -ENOENT);
    assert_non_null(strstr(e.msg, path));
    /* With a token beside it the file may come later. */
    f->access.token = "fallback";
    start_ok(f);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer fallback");
    temp_dir_write(&f->dir, "token", "later", 0600);
    run_for(f->loop, 60);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer later");
}

/* What the files are now cannot be read for once, and is later. */
static void look_without_descriptors(struct fixture *f)
{
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    run_for(f->loop, 60);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    (void)credentials_authorization(f->credentials);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_certificate_files_are_followed(void **state)
{
    struct fixture *f = *state;
    char cert[256];
    char key[256];
    struct err e = ERR_INIT;
    temp_dir_write(&f->dir, "cert", "cert 1", 0600);
    temp_dir_write(&f->dir, "key", "key 1", 0600);
    assert_int_equal(kube_pem_read(temp_dir_path(&f->dir, "cert", cert), &f->access.cert, &e), 0);
    assert_int_equal(kube_pem_read(temp_dir_path(&f->dir, "key", key), &f->access.key, &e), 0);
    start_ok(f);
    run_for(f->loop, 60);
    (void)credentials_authorization(f->credentials);
    assert_int_equal(f->tls, 0);
    temp_dir_write(&f->dir, "cert", "cert 2!", 0600);
    temp_dir_write(&f->dir, "key", "key 2!", 0600);
    look_without_descriptors(f);
    assert_int_equal(f->tls, 0);
    run_for(f->loop, 60);
    (void)credentials_authorization(f->credentials);
    assert_int_equal(f->tls, 1);
    assert_true(slice_eq(credentials_cert(f->credentials), SLICE("cert 2!")));
    assert_true(slice_eq(credentials_key(f->credentials), SLICE("key 2!")));
    assert_int_equal(unlink(key), 0);
    run_for(f->loop, 60);
    (void)credentials_authorization(f->credentials);
    assert_int_equal(f->tls, 1);
    assert_true(slice_eq(credentials_key(f->credentials), SLICE("key 2!")));
    kube_pem_deinit(&f->access.cert);
    kube_pem_deinit(&f->access.key);
}

static void test_authorities_are_followed(void **state)
{
    struct fixture *f = *state;
    char ca[256];
    char new_path[256];
    struct err e = ERR_INIT;
    temp_dir_write(&f->dir, "ca", "ca 1", 0600);
    assert_int_equal(kube_pem_read(temp_dir_path(&f->dir, "ca", ca), &f->access.ca, &e), 0);
    start_ok(f);
    assert_true(slice_eq(credentials_ca(f->credentials), SLICE("ca 1")));

    /* The kubelet writes the same text to a new file when it renews the token. */
    temp_dir_write(&f->dir, "new", "ca 1", 0600);
    assert_int_equal(rename(temp_dir_path(&f->dir, "new", new_path), ca), 0);
    run_for(f->loop, 60);
    (void)credentials_authorization(f->credentials);
    assert_int_equal(f->tls, 0);

    temp_dir_write(&f->dir, "ca", "", 0600);
    run_for(f->loop, 60);
    (void)credentials_authorization(f->credentials);
    assert_int_equal(f->tls, 0);
    assert_true(slice_eq(credentials_ca(f->credentials), SLICE("ca 1")));

    temp_dir_write(&f->dir, "ca", "ca 1, ca 2", 0600);
    look_without_descriptors(f);
    assert_int_equal(f->tls, 0);
    run_for(f->loop, 60);
    (void)credentials_authorization(f->credentials);
    assert_int_equal(f->tls, 1);
    assert_true(slice_eq(credentials_ca(f->credentials), SLICE("ca 1, ca 2")));
    kube_pem_deinit(&f->access.ca);
}

static void test_plugin_token(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, GIVE("\"token\":\"from-plugin\""));
    start_ok(f);
    assert_false(credentials_ready(f->credentials));
    assert_null(credentials_authorization(f->credentials));
    wait_for_event(f);
    assert_int_equal(f->ready, 1);
    assert_true(credentials_ready(f->credentials));
    assert_string_equal(credentials_authorization(f->credentials), "Bearer from-plugin");
}

static void test_plugin_certificate(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, GIVE("\"clientCertificateData\":\"C\",\"clientKeyData\":\"K\""));
    start_ok(f);
    wait_for_event(f);
    assert_int_equal(f->tls, 1);
    assert_int_equal(f->ready, 1);
    assert_true(slice_eq(credentials_cert(f->credentials), SLICE("C")));
    assert_null(credentials_authorization(f->credentials));
}

static void test_plugin_runs_again_ahead_of_the_expiry(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, "N=$(cat $D/n 2>/dev/null || echo 0); echo $((N + 1)) > $D/n\n"
                    "echo '{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":{"
                    "\"token\":\"t'$N'\",\"expirationTimestamp\":\"'"
                    "$(date -u -d '+20 seconds' +%Y-%m-%dT%H:%M:%SZ)'\"}}'");
    start_ok(f);
    wait_for_event(f);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer t0");
    const char *now = "";
    for (int i = 0; i < 500 && strcmp(now, "Bearer t1") != 0; i++) {
        run_for(f->loop, 50);
        /* There is a valid credential at each moment: the new one comes before the end. */
        assert_true(credentials_ready(f->credentials));
        now = credentials_authorization(f->credentials);
    }
    assert_string_equal(now, "Bearer t1");
    assert_int_equal(f->ready, 1);
    assert_int_equal(f->failed, 0);
}

static void test_plugin_runs_again_after_a_rejection(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, GIVE("\"token\":\"old\""));
    start_ok(f);
    wait_for_event(f);
    write_plugin(f, GIVE("\"token\":\"new\""));
    run_for(f->loop, 60);
    assert_string_equal(credentials_authorization(f->credentials), "Bearer old");
    credentials_rejected(f->credentials);
    credentials_rejected(f->credentials);
    assert_true(credentials_ready(f->credentials));
    const char *now = "";
    for (int i = 0; i < 2000 && strcmp(now, "Bearer new") != 0; i++) {
        run_for(f->loop, 10);
        assert_true(credentials_ready(f->credentials));
        now = credentials_authorization(f->credentials);
    }
    assert_string_equal(now, "Bearer new");
}

static void test_rejections_do_not_start_the_plugin_too_often(void **state)
{
    struct fixture *f = *state;
    struct credentials_options o = {.on_event = on_event, .data = f, .file_check_ms = 1000000};
    struct err e = ERR_INIT;
    write_plugin(f, "echo x >> $D/runs\n" GIVE("\"token\":\"t\""));
    f->credentials = credentials_new(f->loop, &f->access, &o, &e);
    assert_non_null(f->credentials);
    wait_for_event(f);
    for (int i = 0; i < 10; i++) {
        credentials_rejected(f->credentials);
        run_for(f->loop, 20);
    }
    struct stat st;
    char path[256];
    assert_int_equal(stat(temp_dir_path(&f->dir, "runs", path), &st), 0);
    assert_int_equal(st.st_size, 2);
}

static void test_failing_plugin_is_tried_again(void **state)
{
    struct fixture *f = *state;
    f->exec.install_hint = "install it from example.com";
    write_plugin(f, "echo not logged in >&2; exit 3");
    start_ok(f);
    wait_for_event(f);
    assert_int_equal(f->failed, 1);
    assert_false(credentials_ready(f->credentials));
    const char *error = credentials_error(f->credentials);
    assert_non_null(strstr(error, "users[me].exec: "));
    assert_non_null(strstr(error, "failed with exit code 3"));
    assert_non_null(strstr(error, "install it from example.com"));
    write_plugin(f, GIVE("\"token\":\"at-last\""));
    while (f->ready == 0) {
        wait_for_event(f);
    }
    assert_string_equal(credentials_authorization(f->credentials), "Bearer at-last");
    assert_null(credentials_error(f->credentials));
}

static void expect_plugin_error(struct fixture *f, const char *script, const char *words)
{
    write_plugin(f, script);
    start_ok(f);
    wait_for_event(f);
    assert_int_equal(f->failed, 1);
    if (strstr(credentials_error(f->credentials), words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, credentials_error(f->credentials));
    }
}

static void test_plugin_that_prints_nonsense(void **state)
{
    expect_plugin_error(*state, "echo hello", "invalid output: line 1");
}

static void test_plugin_that_prints_too_much(void **state)
{
    expect_plugin_error(*state, "while :; do echo 0123456789012345678901234567890; done",
                        "printed more than");
}

static void test_plugin_that_hangs(void **state)
{
    struct fixture *f = *state;
    f->exec_timeout_ms = 1000;
    expect_plugin_error(f, "sleep 60", "ran longer than 1 s and was killed");
}

static void test_plugin_that_dies(void **state)
{
    expect_plugin_error(*state, "kill -9 $$", "was terminated by signal 9");
}

static void test_plugin_with_an_expired_credential(void **state)
{
    expect_plugin_error(*state,
                        GIVE("\"token\":\"t\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\""),
                        "expired at 2001-01-01T00:00:00Z already");
}

static void test_missing_plugin(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    f->exec.command = "cmesh-no-such-plugin";
    f->exec.install_hint = "apt install it";
    f->access.exec = &f->exec;
    assert_null(start(f, &e));
    assert_non_null(strstr(e.msg, "users[me].exec: cannot run cmesh-no-such-plugin"));
    assert_non_null(strstr(e.msg, "apt install it"));
}

static void test_plugin_that_vanishes_leaves_the_credential(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, GIVE("\"token\":\"t\""));
    start_ok(f);
    wait_for_event(f);
    assert_int_equal(unlink(f->command), 0);
    run_for(f->loop, 60);
    credentials_rejected(f->credentials);
    run_for(f->loop, 100);
    assert_int_equal(f->failed, 0); /* the old one is still there */
    assert_string_equal(credentials_authorization(f->credentials), "Bearer t");
    assert_non_null(credentials_error(f->credentials));
}

static void test_close_while_the_plugin_runs(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, "sleep 60");
    start_ok(f);
    run_for(f->loop, 100); /* teardown closes */
}

static void test_close_at_once(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, "sleep 60");
    start_ok(f);
}

static void test_close_while_waiting_to_try_again(void **state)
{
    struct fixture *f = *state;
    write_plugin(f, "exit 1");
    start_ok(f);
    wait_for_event(f);
}

static void test_close_inside_of_an_event(void **state)
{
    struct fixture *f = *state;
    f->close_on_event = true;
    write_plugin(f, GIVE("\"clientCertificateData\":\"C\",\"clientKeyData\":\"K\""));
    start_ok(f);
    run_until(f->loop, &f->closed);
    assert_int_equal(f->tls, 1);
    assert_int_equal(f->ready, 0);
}

static void test_close_without_callback(void **state)
{
    struct fixture *f = *state;
    start_ok(f);
    credentials_close(f->credentials, NULL, NULL);
    f->credentials = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing),
        TEST(test_token_and_basic),
        TEST(test_fixed_certificate),
        TEST(test_token_file_is_followed),
        TEST(test_token_file_swapped_by_symlink),
        TEST(test_token_file_is_read_again_after_a_rejection),
        TEST(test_last_token_is_kept_while_the_file_is_wrong),
        TEST(test_token_file_missing_at_start),
        TEST(test_certificate_files_are_followed),
        TEST(test_authorities_are_followed),
        TEST(test_plugin_token),
        TEST(test_plugin_certificate),
        TEST(test_plugin_runs_again_ahead_of_the_expiry),
        TEST(test_plugin_runs_again_after_a_rejection),
        TEST(test_rejections_do_not_start_the_plugin_too_often),
        TEST(test_failing_plugin_is_tried_again),
        TEST(test_plugin_that_prints_nonsense),
        TEST(test_plugin_that_prints_too_much),
        TEST(test_plugin_that_hangs),
        TEST(test_plugin_that_dies),
        TEST(test_plugin_with_an_expired_credential),
        TEST(test_missing_plugin),
        TEST(test_plugin_that_vanishes_leaves_the_credential),
        TEST(test_close_while_the_plugin_runs),
        TEST(test_close_at_once),
        TEST(test_close_while_waiting_to_try_again),
        TEST(test_close_inside_of_an_event),
        TEST(test_close_without_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
