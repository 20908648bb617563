/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kube/access/exec_credential.h"
#include "json/json.h"

#define V1 "client.authentication.k8s.io/v1"
#define HEAD "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\","

enum { NOW = 1700000000 };

static int parse(const char *text, struct exec_credential *out, struct err *e)
{
    return exec_credential_parse(slice_str(text), V1, NOW, out, e);
}

static void test_token(void **state)
{
    (void)state;
    struct exec_credential c;
    struct err e = ERR_INIT;
    assert_int_equal(parse(HEAD "\"status\":{\"token\":\"abc\"}}", &c, &e), 0);
    assert_string_equal(c.token, "abc");
    assert_null(c.cert);
    assert_int_equal(c.expires_at, 0);
    exec_credential_deinit(&c);
}

static void test_certificate(void **state)
{
    (void)state;
    struct exec_credential c;
    struct err e = ERR_INIT;
    assert_int_equal(parse(HEAD "\"status\":{\"token\":null,\"clientCertificateData\":\"C\\n\","
                                "\"clientKeyData\":\"K\"}}",
                           &c, &e),
                     0);
    assert_null(c.token);
    assert_string_equal(c.cert, "C\n");
    assert_string_equal(c.key, "K");
    exec_credential_deinit(&c);
}

static void expect_expiry(const char *text, int64_t expected)
{
    struct exec_credential c;
    struct err e = ERR_INIT;
    char document[400];
    (void)snprintf(document, sizeof document,
                   HEAD "\"status\":{\"token\":\"t\",\"expirationTimestamp\":\"%s\"}}", text);
    int rc = parse(document, &c, &e);
    if (expected == 0) {
        if (rc == 0) {
            fail_msg("taken: %s", text);
        }
        assert_non_null(strstr(e.msg, "expirationTimestamp"));
        return;
    }
    if (rc != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(c.expires_at, expected);
    exec_credential_deinit(&c);
}

static void test_expiry(void **state)
{
    (void)state;
    expect_expiry("2030-01-02T03:04:05Z", 1893553445);
    expect_expiry("2030-01-02T03:04:05.678Z", 1893553445);
    expect_expiry("2030-01-02T05:04:05+02:00", 1893553445);
    expect_expiry("2030-01-01T22:34:05-04:30", 1893553445);
    expect_expiry("2028-02-29T00:00:00Z", 1835395200);
    expect_expiry("tomorrow", 0);
    expect_expiry("2030-01-02", 0);
    expect_expiry("2030-01-02T03:04:05", 0);
    expect_expiry("2030-13-02T03:04:05Z", 0);
    expect_expiry("2030-01-02T25:04:05Z", 0);
    expect_expiry("2030-01-02T03:04:05.Z", 0);
    expect_expiry("2030-01-02T03:04:05Zx", 0);
    expect_expiry("2030-01-02T03:04:05+2:00", 0);
    expect_expiry("", 0);
}

static void test_expired_already(void **state)
{
    (void)state;
    struct exec_credential c;
    struct err e = ERR_INIT;
    int rc = parse(HEAD "\"status\":{\"token\":\"t\",\"expirationTimestamp\":"
                        "\"2023-11-14T22:13:20Z\"}}",
                   &c, &e);
    assert_int_equal(rc, -EKEYEXPIRED);
    assert_non_null(strstr(e.msg, "expired at 2023-11-14T22:13:20Z already"));
}

static void test_wrong_output(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"", "empty output"},
        {"SECRET", "line 1"},
        {"{\"token\":\"SECRET\"}", "it is not an ExecCredential of " V1},
        {"[1]", "it is not an ExecCredential"},
        {"{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\","
         "\"status\":{\"token\":\"SECRET\"}}",
         "it is not an ExecCredential of " V1},
        {HEAD "\"spec\":{}}", "it has no status"},
        {HEAD "\"status\":{}}", "neither a token nor"},
        {HEAD "\"status\":{\"token\":\"\"}}", "neither a token nor"},
        {HEAD "\"status\":{\"token\":5}}", "status.token is not a string"},
        {HEAD "\"status\":{\"token\":\"SECRET\\r\\nX: y\"}}", "status.token contains white space"},
        {HEAD "\"status\":{\"clientKeyData\":\"SECRET\"}}", "only one of clientCertificateData"},
        {HEAD "\"status\":{\"token\":\"SECRET\",\"token\":\"SECRET\"}}", "duplicate key"},
        {HEAD "\"status\":{\"token\":\"SECRET\"", "unexpected end of JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_credential c;
        struct err e = ERR_INIT;
        if (parse(cases[i].text, &c, &e) == 0) {
            fail_msg("taken: %s", cases[i].text);
        }
        if (strstr(e.msg, cases[i].words) == NULL || strstr(e.msg, "SECRET") != NULL) {
            fail_msg("%s: %s", cases[i].text, e.msg);
        }
    }
}

/* The value of a variable, which must stand there once. */
static const char *value_of(char **env, const char *name)
{
    const char *found = NULL;
    size_t len = strlen(name);
    for (; *env != NULL; env++) {
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=') {
            assert_null(found);
            found = *env + len + 1;
        }
    }
    return found;
}

static void test_environment(void **state)
{
    (void)state;
    struct kube_pair env[] = {{"CMESH_TEST_B", "plugin"}, {"CMESH_TEST_C", ""}};
    struct kube_exec x = {.command = "x", .env = env, .env_count = 2, .api_version = V1};
    struct kube_access a = {.exec = &x};
    setenv("CMESH_TEST_A", "ours", 1);
    setenv("CMESH_TEST_B", "ours", 1);
    setenv("KUBERNETES_EXEC_INFO", "stale", 1);
    char **all = exec_credential_env(&a);
    assert_non_null(all);
    assert_string_equal(value_of(all, "CMESH_TEST_A"), "ours");
    assert_string_equal(value_of(all, "CMESH_TEST_B"), "plugin");
    assert_string_equal(value_of(all, "CMESH_TEST_C"), "");
    assert_string_equal(value_of(all, "KUBERNETES_EXEC_INFO"),
                        "{\"apiVersion\":\"" V1
                        "\",\"kind\":\"ExecCredential\",\"spec\":{\"interactive\":false}}");
    exec_credential_env_free(all);
}

static void test_cluster_information(void **state)
{
    (void)state;
    struct kube_exec x = {.command = "x",
                          .api_version = V1,
                          .cluster_config = "{\"audience\":\"a\"}",
                          .provide_cluster_info = true};
    struct kube_access a = {
        .exec = &x,
        .server = {.https = true, .host = "10.0.0.1", .port = 6443, .path = "/p"},
        .server_name = "api.internal",
        .ca = {.data = "CA", .len = 2},
        .proxy = {.url = (char[]){"http://u:p@p:1"}},
    };
    char **all = exec_credential_env(&a);
    assert_non_null(all);
    assert_string_equal(
        value_of(all, "KUBERNETES_EXEC_INFO"),
        "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"spec\":{\"cluster\":{"
        "\"certificate-authority-data\":\"Q0E=\",\"config\":{\"audience\":\"a\"},"
        "\"proxy-url\":\"http://u:p@p:1\","
        "\"server\":\"https://10.0.0.1:6443/p\",\"tls-server-name\":\"api.internal\"},"
        "\"interactive\":false}}");
    exec_credential_env_free(all);
}

static void test_arguments(void **state)
{
    (void)state;
    char *args[] = {"get", "token", NULL};
    struct kube_exec x = {.command = "login", .args = args};
    struct kube_access a = {.exec = &x};
    char **argv = exec_credential_argv(&a);
    assert_non_null(argv);
    assert_string_equal(argv[0], "login");
    assert_string_equal(argv[2], "token");
    assert_null(argv[3]);
    free(argv);
    x.args = NULL;
    argv = exec_credential_argv(&a);
    assert_non_null(argv);
    assert_null(argv[1]);
    free(argv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_certificate),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_expired_already),
        cmocka_unit_test(test_wrong_output),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_cluster_information),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
