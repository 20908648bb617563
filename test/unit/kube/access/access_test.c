/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kube/access/access.h"
#include "temp_dir.h"

struct fixture {
    struct temp_dir dir;
    char path[256];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    temp_dir_init(&f->dir);
    unsetenv("KUBECONFIG");
    unsetenv("HTTPS_PROXY");
    unsetenv("https_proxy");
    unsetenv("HTTP_PROXY");
    unsetenv("http_proxy");
    unsetenv("NO_PROXY");
    unsetenv("no_proxy");
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    setenv("HOME", f->dir.path, 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_deinit(&f->dir);
    free(f);
    return 0;
}

/* A kubeconfig with one context; `cluster` and `user` are flow mappings. */
static struct kubeconfig *config_of(struct fixture *f, const char *cluster, const char *user)
{
    char text[4096];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "current-context: here\n"
                   "contexts:\n"
                   "- {name: here, context: {cluster: c, user: u, namespace: team-a}}\n"
                   "clusters:\n"
                   "- {name: c, cluster: %s}\n"
                   "users:\n"
                   "- {name: u, user: %s}\n",
                   cluster, user);
    temp_dir_write(&f->dir, "config", text, 0600);
    struct kubeconfig *kc = kubeconfig_load(temp_dir_path(&f->dir, "config", f->path), &e);
    if (kc == NULL) {
        fail_msg("%s", e.msg);
    }
    return kc;
}

static void resolve_ok(struct fixture *f, const char *cluster, const char *user,
                       struct kube_access *out)
{
    struct err e = ERR_INIT;
    struct kubeconfig *kc = config_of(f, cluster, user);
    int rc = kube_access_resolve(kc, NULL, out, &e);
    kubeconfig_free(kc);
    if (rc != 0) {
        fail_msg("%s", e.msg);
    }
}

static void expect_refused(struct fixture *f, const char *cluster, const char *user,
                           const char *words)
{
    struct err e = ERR_INIT;
    struct kube_access a;
    struct kubeconfig *kc = config_of(f, cluster, user);
    int rc = kube_access_resolve(kc, NULL, &a, &e);
    kubeconfig_free(kc);
    if (rc == 0) {
        kube_access_deinit(&a);
        fail_msg("taken: %s %s", cluster, user);
    }
    if (strstr(e.msg, words) == NULL || strncmp(e.msg, f->path, strlen(f->path)) != 0 ||
        strstr(e.msg, "SECRET") != NULL) {
        fail_msg("\"%s\" and the path are not in, or a secret is: %s", words, e.msg);
    }
}

static void test_token_and_names(void **state)
{
    struct kube_access a;
    resolve_ok(*state, "{server: 'https://api.example.com:6443/base/'}", "{token: abc.def}", &a);
    assert_string_equal(a.context, "here");
    assert_string_equal(a.cluster, "c");
    assert_string_equal(a.user, "u");
    assert_string_equal(a.ns, "team-a");
    assert_true(a.server.https);
    assert_string_equal(a.server.host, "api.example.com");
    assert_int_equal(a.server.port, 6443);
    assert_string_equal(a.server.path, "/base");
    assert_string_equal(a.server_name, "api.example.com");
    assert_string_equal(a.token, "abc.def");
    assert_null(a.ca.data);
    assert_false(a.insecure);
    kube_access_deinit(&a);
}

static void test_certificates_from_data_win_over_files(void **state)
{
    struct fixture *f = *state;
    struct kube_access a;
    temp_dir_write(&f->dir, "cert.pem", "from file", 0600);
    temp_dir_write(&f->dir, "ca.pem", "ca from file", 0600);
    resolve_ok(f, "{server: 'https://h', certificate-authority: ca.pem}",
               "{client-certificate: cert.pem, client-certificate-data: ZGF0YQ==, client-key-data: "
               "a2V5}",
               &a);
    assert_string_equal(a.cert.data, "data");
    assert_int_equal(a.cert.len, 4);
    assert_null(a.cert.path);
    assert_non_null(strstr(a.cert.name, "config: users[u].client-certificate-data"));
    assert_string_equal(a.key.data, "key");
    /* A relative path is meant from the kubeconfig's own folder. */
    assert_string_equal(a.ca.data, "ca from file");
    assert_non_null(strstr(a.ca.path, f->dir.path));
    kube_access_deinit(&a);
}

static void test_tls_settings(void **state)
{
    struct kube_access a;
    resolve_ok(*state,
               "{server: 'https://10.0.0.1', tls-server-name: api.internal, "
               "insecure-skip-tls-verify: true}",
               "{}", &a);
    assert_true(a.insecure);
    assert_string_equal(a.server_name, "api.internal");
    kube_access_deinit(&a);
    resolve_ok(*state, "{server: 'http://127.0.0.1:8001'}", "{}", &a);
    assert_false(a.server.https);
    assert_null(a.server_name);
    kube_access_deinit(&a);
    resolve_ok(*state, "{server: 'https://[fe80::1%25lo]:6443'}", "{}", &a);
    assert_string_equal(a.server_name, "fe80::1");
    kube_access_deinit(&a);
}

static void test_server_without_scheme(void **state)
{
    struct kube_access a;
    resolve_ok(*state, "{server: 'localhost:8080'}", "{}", &a);
    assert_false(a.server.https);
    assert_int_equal(a.server.port, 8080);
    kube_access_deinit(&a);
    resolve_ok(*state, "{server: 'host:6443', insecure-skip-tls-verify: true}", "{}", &a);
    assert_true(a.server.https);
    kube_access_deinit(&a);
}

static void test_basic_and_token_file(void **state)
{
    struct fixture *f = *state;
    struct kube_access a;
    char path[256];
    resolve_ok(f, "{server: 'https://h'}", "{username: admin, password: 'p:w'}", &a);
    assert_string_equal(a.username, "admin");
    assert_string_equal(a.password, "p:w");
    kube_access_deinit(&a);
    resolve_ok(f, "{server: 'https://h'}", "{tokenFile: run/token}", &a);
    assert_string_equal(a.token_file, temp_dir_path(&f->dir, "run/token", path));
    kube_access_deinit(&a);
}

static void expect_proxy(struct fixture *f, const char *cluster, const char *expected)
{
    struct kube_access a;
    char name[KUBE_PROXY_NAME_SIZE];
    resolve_ok(f, cluster, "{}", &a);
    kube_proxy_name(&a.proxy, name);
    assert_string_equal(name, expected);
    kube_access_deinit(&a);
}

static void test_proxy(void **state)
{
    struct fixture *f = *state;
    expect_proxy(f, "{server: 'https://h'}", "");
    expect_proxy(f, "{server: 'https://h', proxy-url: 'http://u:p@named:1'}", "http://named:1");
    setenv("HTTPS_PROXY", "environment:2", 1);
    expect_proxy(f, "{server: 'https://h'}", "http://environment:2");
    expect_proxy(f, "{server: 'https://h', proxy-url: ''}", "http://environment:2");
    expect_proxy(f, "{server: 'https://h', proxy-url: 'http://named:1'}", "http://named:1");
    /* The environment has exceptions, the kubeconfig has none. */
    expect_proxy(f, "{server: 'https://127.0.0.1:6443'}", "");
    expect_proxy(f, "{server: 'https://127.0.0.1:6443', proxy-url: 'named:1'}", "http://named:1");
    setenv("NO_PROXY", "*", 1);
    expect_proxy(f, "{server: 'https://h'}", "");
    expect_proxy(f, "{server: 'https://h', proxy-url: 'named:1'}", "http://named:1");
}

static void test_refused_environment(void **state)
{
    struct err e = ERR_INIT;
    struct kube_access a;
    setenv("HTTPS_PROXY", "socks5://u:SECRET@p", 1);
    struct kubeconfig *kc = config_of(*state, "{server: 'https://h'}", "{}");
    assert_int_equal(kube_access_resolve(kc, NULL, &a, &e), -EINVAL);
    kubeconfig_free(kc);
    assert_non_null(strstr(e.msg, "HTTPS_PROXY: only HTTP proxies are supported"));
    assert_null(strstr(e.msg, "SECRET"));
}

static void test_impersonation(void **state)
{
    static const char *const expected[][2] = {
        {"Impersonate-User", "jane"},
        {"Impersonate-Uid", "7"},
        {"Impersonate-Group", "dev"},
        {"Impersonate-Group", "ops"},
        {"Impersonate-Extra-acme.com%2Fproject", "x"},
        {"Impersonate-Extra-acme.com%2Fproject", "y"},
    };
    struct kube_access a;
    resolve_ok(*state, "{server: 'https://h'}",
               "{token: t, as: jane, as-uid: '7', as-groups: [dev, ops], "
               "as-user-extra: {acme.com/project: [x, 'y']}}",
               &a);
    assert_int_equal(a.header_count, 6);
    for (size_t i = 0; i < a.header_count; i++) {
        assert_string_equal(a.headers[i].name, expected[i][0]);
        assert_string_equal(a.headers[i].value, expected[i][1]);
    }
    kube_access_deinit(&a);
}

static void test_exec(void **state)
{
    struct fixture *f = *state;
    struct kube_access a;
    char path[256];
    resolve_ok(f,
               "{server: 'https://h', extensions: [{name: client.authentication.k8s.io/exec, "
               "extension: {audience: a}}]}",
               "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./bin/login, "
               "args: [get, '--id=1'], env: [{name: A, value: B}], installHint: get it, "
               "provideClusterInfo: true}}",
               &a);
    assert_non_null(a.exec);
    assert_string_equal(a.exec->command, temp_dir_path(&f->dir, "./bin/login", path));
    assert_string_equal(a.exec->args[1], "--id=1");
    assert_null(a.exec->args[2]);
    assert_string_equal(a.exec->env[0].value, "B");
    assert_string_equal(a.exec->install_hint, "get it");
    assert_string_equal(a.exec->cluster_config, "{\"audience\":\"a\"}");
    kube_access_deinit(&a);
    resolve_ok(f, "{server: 'https://h'}",
               "{exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: null, "
               "env: ~, interactiveMode: Never}}",
               &a);
    assert_string_equal(a.exec->command, "login");
    assert_null(a.exec->args);
    kube_access_deinit(&a);
    /* As in client-go, a fixed credential makes the plugin needless. */
    resolve_ok(f, "{server: 'https://h'}",
               "{token: t, exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x}}",
               &a);
    assert_null(a.exec);
    kube_access_deinit(&a);
}

static void test_refused_clusters(void **state)
{
    static const struct {
        const char *cluster;
        const char *words;
    } cases[] = {
        {"{}", ":5: clusters[c].server: the URL of the API server is missing"},
        {"{server: ''}", "clusters[c].server: the URL of the API server is missing"},
        {"{server: 5}", "clusters[c].server: must be a string"},
        {"{server: 'ftp://h'}", "clusters[c].server: the URL must begin with"},
        {"{server: 'https://me:SECRET@h'}", "clusters[c].server: the URL contains a user"},
        {"{server: 'https://h', proxy-url: 'https://u:SECRET@p'}",
         ":5: clusters[c].proxy-url: a proxy that speaks TLS itself (https://) is not supported"},
        {"{server: 'https://h', proxy-url: 5}", "clusters[c].proxy-url: must be a string"},
        {"{server: 'https://h', insecure-skip-tls-verify: 'true'}", "must be true or false"},
        {"{server: 'https://h', insecure-skip-tls-verify: true, certificate-authority-data: YQ==}",
         "remove one of"},
        {"{server: 'https://h', certificate-authority: gone.pem}",
         "clusters[c].certificate-authority: "},
        {"{server: 'https://h', certificate-authority-data: '%%%'}", "is not valid base64"},
        {"{server: 'https://h', tls-server-name: [a]}", "tls-server-name: must be a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_refused(*state, cases[i].cluster, "{}", cases[i].words);
    }
}

static void test_refused_users(void **state)
{
#define V1 "apiVersion: client.authentication.k8s.io/v1"
    static const struct {
        const char *user;
        const char *words;
    } cases[] = {
        {"{client-certificate-data: YQ==}", "users[u].client-key: is missing"},
        {"{client-key-data: U0VDUkVU}", "users[u].client-certificate: is missing"},
        {"{client-certificate-data: YQ==, client-key-data: 'SECRET!'}",
         ":7: users[u].client-key-data: is not valid base64"},
        {"{client-key: /nonexistent/key}", "users[u].client-key: /nonexistent/key: "},
        {"{client-key-data: 12}", "users[u].client-key-data: must be a string"},
        {"{token: \"SECRET\\n\"}", "users[u].token: contains white space"},
        {"{token: \"SECRET\\nX: y\"}", "users[u].token: contains white space"},
        {"{token: SECRET, username: u}", "only one is allowed"},
        {"{tokenFile: f, password: SECRET}", "only one is allowed"},
        {"{username: 'a:b', password: SECRET}", "users[u].username: cannot contain a colon"},
        {"{auth-provider: {name: gcp, config: {access-token: SECRET}}}",
         "users[u].auth-provider: is not supported"},
        {"{as-groups: [a]}", "users[u].as: is missing"},
        {"{as: a, as-groups: a}", "users[u].as-groups: must be a list"},
        {"{as: a, as-groups: [1]}", "users[u].as-groups: must be a string"},
        {"{as: \"a\\r\\nX: y\"}", "users[u].as: contains a control character"},
        {"{as: a, as-user-extra: [b]}", "users[u].as-user-extra: must map"},
        {"{exec: text}", "users[u].exec: must be a mapping"},
        {"{exec: {" V1 ", interactiveMode: Never}}", "users[u].exec.command: "},
        {"{exec: {command: x, interactiveMode: Never}}", "users[u].exec.apiVersion: "},
        {"{exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}}",
         "users[u].exec.apiVersion: "},
        {"{exec: {" V1 ", command: x}}", "users[u].exec.interactiveMode: is missing"},
        {"{exec: {" V1 ", command: x, interactiveMode: Always}}", "there is no terminal"},
        {"{exec: {" V1 ", command: x, interactiveMode: Odd}}", "must be Never, IfAvailable"},
        {"{exec: {" V1 ", command: x, interactiveMode: Never, args: [1]}}",
         "users[u].exec.args: element 1"},
        {"{exec: {" V1 ", command: x, interactiveMode: Never, args: a}}", "must be a list"},
        {"{exec: {" V1 ", command: x, interactiveMode: Never, env: [{value: SECRET}]}}",
         "users[u].exec.env: element 1"},
        {"{exec: {" V1 ", command: x, interactiveMode: Never, env: [{name: A, value: 5}]}}",
         "users[u].exec.env: element 1"},
        {"{exec: {" V1 ", command: x, interactiveMode: Never, provideClusterInfo: 'yes'}}",
         "users[u].exec.provideClusterInfo: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_refused(*state, "{server: 'https://h'}", cases[i].user, cases[i].words);
    }
}

static void test_dangling_names(void **state)
{
    struct fixture *f = *state;
    struct kube_access a;
    struct err e = ERR_INIT;
    temp_dir_write(&f->dir, "config",
                   "contexts:\n"
                   "- {name: no-cluster, context: {user: u}}\n"
                   "- {name: bad-cluster, context: {cluster: gone}}\n"
                   "- {name: bad-user, context: {cluster: c, user: gone}}\n"
                   "- {name: anonymous, context: {cluster: c}}\n"
                   "- {name: bodiless}\n"
                   "clusters: [{name: c, cluster: {server: https://h}}]\n",
                   0600);
    struct kubeconfig *kc = kubeconfig_load(temp_dir_path(&f->dir, "config", f->path), &e);
    assert_non_null(kc);
    assert_int_equal(kube_access_resolve(kc, "no-cluster", &a, &e), -EINVAL);
    assert_non_null(strstr(e.msg, ":2: contexts[no-cluster].cluster: the context names no"));
    assert_int_equal(kube_access_resolve(kc, "bad-cluster", &a, &e), -EINVAL);
    assert_non_null(strstr(e.msg, ":3: contexts[bad-cluster].cluster: there is no cluster named"));
    assert_int_equal(kube_access_resolve(kc, "bad-user", &a, &e), -EINVAL);
    assert_non_null(strstr(e.msg, ":4: contexts[bad-user].user: there is no user named"));
    assert_int_equal(kube_access_resolve(kc, "bodiless", &a, &e), -EINVAL);
    assert_int_equal(kube_access_resolve(kc, "anonymous", &a, &e), 0);
    assert_string_equal(a.user, "");
    assert_string_equal(a.ns, "default");
    kube_access_deinit(&a);
    kubeconfig_free(kc);
}

static void test_in_cluster(void **state)
{
    struct fixture *f = *state;
    struct kube_access a;
    struct err e = ERR_INIT;
    char path[256];
    assert_int_equal(kube_access_in_cluster(f->dir.path, &a, &e), -ENOENT);
    assert_non_null(strstr(e.msg, "not running in a pod"));

    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    assert_int_equal(kube_access_in_cluster(f->dir.path, &a, &e), -ENOENT);
    assert_non_null(strstr(e.msg, "ca.crt"));

    temp_dir_write(&f->dir, "ca.crt", "CA", 0600);
    assert_int_equal(kube_access_in_cluster(f->dir.path, &a, &e), 0);
    assert_string_equal(a.server.host, "fd00::1");
    assert_string_equal(a.server_name, "fd00::1");
    assert_true(a.server.https);
    assert_string_equal(a.ca.data, "CA");
    assert_string_equal(a.token_file, temp_dir_path(&f->dir, "token", path));
    assert_string_equal(a.ns, "default");
    kube_access_deinit(&a);

    temp_dir_write(&f->dir, "namespace", "team-b\n", 0600);
    assert_int_equal(kube_access_in_cluster(f->dir.path, &a, &e), 0);
    assert_string_equal(a.ns, "team-b");
    assert_null(a.proxy.url);
    kube_access_deinit(&a);

    setenv("HTTPS_PROXY", "http://p:3128", 1);
    assert_int_equal(kube_access_in_cluster(f->dir.path, &a, &e), 0);
    assert_string_equal(a.proxy.url, "http://p:3128");
    kube_access_deinit(&a);

    setenv("KUBERNETES_SERVICE_PORT", "https", 1);
    assert_int_equal(kube_access_in_cluster(f->dir.path, &a, &e), -EINVAL);
}

static void test_open(void **state)
{
    struct fixture *f = *state;
    struct kube_access a;
    struct err e = ERR_INIT;
    assert_int_equal(kube_access_open("x", NULL, true, &a, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "--in-cluster cannot be combined with --kubeconfig"));
    assert_int_equal(kube_access_open(NULL, NULL, false, &a, &e), -ENOENT);
    assert_non_null(strstr(e.msg, "no kubeconfig"));
    /* In a pod without a kubeconfig the service account is taken; its own error shows that. */
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "bad", 1);
    assert_true(kube_access_open(NULL, NULL, false, &a, &e) < 0);
    assert_non_null(strstr(e.msg, "KUBERNETES_SERVICE_PORT"));
    kubeconfig_free(config_of(f, "{server: 'https://h'}", "{}"));
    assert_int_equal(kube_access_open(f->path, "here", false, &a, &e), 0);
    assert_string_equal(a.server.host, "h");
    kube_access_deinit(&a);
    assert_int_equal(kube_access_open(f->path, "gone", false, &a, &e), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_token_and_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_certificates_from_data_win_over_files, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_tls_settings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_server_without_scheme, setup, teardown),
        cmocka_unit_test_setup_teardown(test_basic_and_token_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_proxy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impersonation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_clusters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dangling_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
