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

#include "generate.h"
#include "program/local_token.h"
#include "temp_dir.h"

#define HEAD                                                                                       \
    "# Written by kubeconfig-gen. The clusters lead to localproxy, which has the credentials.\n"   \
    "apiVersion: v1\n"                                                                             \
    "kind: Config\n"

static const struct url plain = {.host = "127.0.0.1", .port = 5443};
static const struct url secure = {.https = true, .host = "proxy.local", .port = 443};

static struct kubeconfig *load(const char *text)
{
    struct temp_dir dir;
    struct err e = ERR_INIT;
    char path[256];
    temp_dir_init(&dir);
    temp_dir_write(&dir, "config", text, 0600);
    struct kubeconfig *kc = kubeconfig_load(temp_dir_path(&dir, "config", path), &e);
    temp_dir_deinit(&dir);
    if (kc == NULL) {
        fail_msg("%s", e.msg);
    }
    return kc;
}

static void expect_text(const char *input, const struct generate_options *o,
                        struct generate_notes *notes, const char *expected)
{
    struct kubeconfig *kc = load(input);
    struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    if (generate_from_kubeconfig(kc, o, &out, notes, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_string_equal(buf_cstr(&out), expected);
    buf_reset(&out);
    kubeconfig_free(kc);
}

static const char two_clusters[] =
    "clusters:\n"
    "- {name: east, cluster: {server: https://east, certificate-authority-data: QQ==}}\n"
    "- {name: west, cluster: {server: https://west}}\n"
    "users:\n"
    "- {name: me, user: {token: SECRET, exec: {command: x, apiVersion: y}}}\n"
    "contexts:\n"
    "- {name: e, context: {cluster: east, user: me, namespace: team-a, extensions: [{name: x}]}}\n"
    "- {name: w, context: {cluster: west, user: me}}\n"
    "current-context: e\n"
    "preferences: {colors: true}\n";

static void test_all_contexts(void **state)
{
    (void)state;
    struct generate_notes notes;
    expect_text(two_clusters, &(struct generate_options){.proxy = &plain, .all_contexts = true},
                &notes,
                HEAD "clusters:\n"
                     "- name: east\n"
                     "  cluster:\n"
                     "    server: http://127.0.0.1:5443\n"
                     "    insecure-skip-tls-verify: true\n"
                     "- name: west\n"
                     "  cluster:\n"
                     "    server: http://127.0.0.1:5443\n"
                     "    insecure-skip-tls-verify: true\n"
                     "contexts:\n"
                     "- name: e\n"
                     "  context:\n"
                     "    cluster: east\n"
                     "    user: me\n"
                     "    namespace: team-a\n"
                     "- name: w\n"
                     "  context:\n"
                     "    cluster: west\n"
                     "    user: me\n"
                     "users:\n"
                     "- name: me\n"
                     "  user: {}\n"
                     "current-context: e\n");
    assert_int_equal(notes.contexts, 2);
    assert_false(notes.no_current);
}

/* Of two clusters; `a` is current. */
static void expect_others(const char *clusters, bool all, const char *names, size_t others)
{
    struct generate_notes notes;
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(1 << 20);
    char text[2048];
    char contexts[128] = "";
    (void)snprintf(text, sizeof text,
                   "%s\ncontexts:\n- {name: a, context: {cluster: a, user: u}}\n"
                   "- {name: b, context: {cluster: b, user: v}}\n"
                   "- {name: dangling, context: {cluster: none}}\n"
                   "users: [{name: u}, {name: v}, {name: nobodys}]\ncurrent-context: a\n",
                   clusters);
    struct kubeconfig *kc = load(text);
    const struct generate_options o = {.proxy = &plain, .all_contexts = all};
    assert_int_equal(generate_from_kubeconfig(kc, &o, &out, &notes, &e), 0);
    for (const char *line = strtok((char *)buf_cstr(&out), "\n"); line != NULL;
         line = strtok(NULL, "\n")) {
        if (strncmp(line, "- name: ", 8) == 0) {
            strcat(strcat(contexts, " "), line + 8);
        }
    }
    assert_string_equal(contexts, names);
    assert_int_equal(notes.others, others);
    if (others > 0) {
        assert_string_equal(notes.one, "a");
        assert_string_equal(notes.other, "b");
    } else {
        assert_null(notes.one);
        assert_null(notes.other);
    }
    buf_reset(&out);
    kubeconfig_free(kc);
}

#define BOTH " a b a b dangling u v nobodys" /* clusters, contexts, users */
#define ONE " a a dangling u nobodys"

/* What is of another cluster would silently reach the one that localproxy talks to. */
static void test_other_clusters_are_left_out(void **state)
{
    (void)state;
    static const char *const different[] = {
        "clusters: [{name: a, cluster: {server: https://h}}, {name: b, cluster: {server: "
        "https://i}}]",
        "clusters: [{name: a, cluster: {server: https://h, certificate-authority-data: QQ==}}, "
        "{name: b, cluster: {server: https://h, certificate-authority-data: Qg==}}]",
        "clusters: [{name: a, cluster: {server: https://h}}, "
        "{name: b, cluster: {server: https://h, proxy-url: http://p}}]",
        "clusters: [{name: a, cluster: {server: https://h, tls-server-name: a}}, "
        "{name: b, cluster: {server: https://h, tls-server-name: b}}]",
        "clusters: [{name: a, cluster: {server: https://h, certificate-authority: a.crt}}, "
        "{name: b, cluster: {server: https://h, certificate-authority: b.crt}}]",
    };
    for (size_t i = 0; i < sizeof different / sizeof different[0]; i++) {
        expect_others(different[i], false, ONE, 1);
        expect_others(different[i], true, BOTH, 1);
    }
    /* Two names of one. */
    expect_others("clusters: [{name: a, cluster: {server: https://h}}, {name: b, cluster: {server: "
                  "https://h, insecure-skip-tls-verify: true}}]",
                  false, BOTH, 0);
}

static void test_no_current_context(void **state)
{
    (void)state;
    struct generate_notes notes;
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(1 << 20);
    struct generate_options o = {.proxy = &plain};
    struct kubeconfig *kc =
        load("clusters: [{name: a, cluster: {server: https://h}}, {name: b, cluster: {server: "
             "https://h}}]\n"
             "contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]\n");
    assert_int_equal(generate_from_kubeconfig(kc, &o, &out, &notes, &e), 0);
    assert_int_equal(notes.contexts, 2);
    assert_true(notes.no_current);
    kubeconfig_free(kc);
    kc = load("clusters: [{name: a, cluster: {server: https://h}}, {name: b, cluster: {server: "
              "https://i}}]\n"
              "contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]\n");
    assert_int_equal(generate_from_kubeconfig(kc, &o, &out, &notes, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "\"a\" and \"b\""));
    assert_non_null(strstr(e.msg, "--context"));
    e = (struct err)ERR_INIT;
    o.context = "b";
    assert_int_equal(generate_from_kubeconfig(kc, &o, &out, &notes, &e), 0);
    o = (struct generate_options){.proxy = &plain, .all_contexts = true};
    assert_int_equal(generate_from_kubeconfig(kc, &o, &out, &notes, &e), 0);
    assert_int_equal(notes.others, 1);
    buf_reset(&out);
    kubeconfig_free(kc);
}

static void test_one_context_with_tls(void **state)
{
    (void)state;
    struct generate_notes notes;
    struct generate_options o = {
        .proxy = &secure, .proxy_ca = SLICE("CA"), .token = "local-token-0123", .context = "w"};
    expect_text(two_clusters, &o, &notes,
                HEAD "clusters:\n"
                     "- name: west\n"
                     "  cluster:\n"
                     "    server: https://proxy.local\n"
                     "    certificate-authority-data: \"Q0E=\"\n"
                     "contexts:\n"
                     "- name: w\n"
                     "  context:\n"
                     "    cluster: west\n"
                     "    user: me\n"
                     "users:\n"
                     "- name: me\n"
                     "  user:\n"
                     "    token: local-token-0123.e4ecfa37\n"
                     "current-context: w\n");
}

static void expect_token(const struct kubeconfig *kc, const char *context, const char *url)
{
    char want[64];
    char scope[LOCAL_TOKEN_SCOPE_LEN + 1];
    struct err e = ERR_INIT;
    struct url server;
    assert_int_equal(url_parse(url, &server, &e), 0);
    local_token_scope(&server, scope);
    (void)snprintf(want, sizeof want, "local-token-0123%s", scope);
    char *token = generate_token(kc, context, "local-token-0123");
    assert_string_equal(token, want);
    free(token);
}

/* What is written for one cluster does not open a localproxy that talks to another one. */
static void test_tokens_are_for_one_cluster(void **state)
{
    (void)state;
    struct kubeconfig *kc = load(two_clusters);
    expect_token(kc, "e", "https://east");
    expect_token(kc, "w", "https://west");
    expect_token(kc, NULL, "https://east"); /* the first one's: none is current */
    kubeconfig_free(kc);
    struct generate_notes notes;
    struct buf out = BUF_INIT(65536);
    struct err e = ERR_INIT;
    struct generate_options o = {
        .proxy = &secure, .token = "local-token-0123", .all_contexts = true};
    kc = load(two_clusters);
    assert_int_equal(generate_from_kubeconfig(kc, &o, &out, &notes, &e), 0);
    assert_non_null(strstr(buf_cstr(&out), "token: local-token-0123\n"));
    buf_reset(&out);
    kubeconfig_free(kc);
}

static void test_token_over_plain_http(void **state)
{
    (void)state;
    struct generate_notes notes;
    struct generate_options o = {.proxy = &plain, .token = "a/b:c@d"};
    expect_text("contexts: [{name: x, context: {cluster: c}}]\n"
                "clusters: [{name: c, cluster: {}}]\n"
                "current-context: x\n",
                &o, &notes,
                HEAD "clusters:\n"
                     "- name: c\n"
                     "  cluster:\n"
                     "    server: \"http://cmesh:a%2Fb%3Ac%40d@127.0.0.1:5443\"\n"
                     "    insecure-skip-tls-verify: true\n"
                     "contexts:\n"
                     "- name: x\n"
                     "  context:\n"
                     "    cluster: c\n"
                     "    user: cmesh\n"
                     "users:\n"
                     "- name: cmesh\n"
                     "  user:\n"
                     "    token: a/b:c@d\n"
                     "current-context: x\n");
}

static void test_in_cluster(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    assert_int_equal(
        generate_in_cluster("team-b", &(struct generate_options){.proxy = &plain}, &out, &e), 0);
    assert_string_equal(buf_cstr(&out), HEAD "clusters:\n"
                                             "- name: in-cluster\n"
                                             "  cluster:\n"
                                             "    server: http://127.0.0.1:5443\n"
                                             "    insecure-skip-tls-verify: true\n"
                                             "contexts:\n"
                                             "- name: in-cluster\n"
                                             "  context:\n"
                                             "    cluster: in-cluster\n"
                                             "    user: in-cluster\n"
                                             "    namespace: team-b\n"
                                             "users:\n"
                                             "- name: in-cluster\n"
                                             "  user: {}\n"
                                             "current-context: in-cluster\n");
    buf_reset(&out);
}

static void test_configmap(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    assert_int_equal(generate_configmap("team-a/fake", "# x\na: b\n", &out, &e), 0);
    assert_string_equal(buf_cstr(&out), "apiVersion: v1\n"
                                        "kind: ConfigMap\n"
                                        "metadata:\n"
                                        "  name: fake\n"
                                        "  namespace: team-a\n"
                                        "data:\n"
                                        "  kubeconfig: |\n"
                                        "    # x\n"
                                        "    a: b\n");
    buf_reset(&out);
}

static void expect_refused(const char *input, const char *context, const char *words)
{
    struct kubeconfig *kc = load(input);
    struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    struct generate_notes notes;
    struct generate_options o = {.proxy = &plain, .context = context};
    assert_true(generate_from_kubeconfig(kc, &o, &out, &notes, &e) < 0);
    if (strstr(e.msg, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, e.msg);
    }
    buf_reset(&out);
    kubeconfig_free(kc);
}

static const char user_is_missing[] = "clusters: [{name: c, cluster: {server: https://h}}]\n"
                                      "contexts: [{name: x, context: {cluster: c, user: gone}}]\n"
                                      "current-context: x\n";

static void test_refused(void **state)
{
    (void)state;
    expect_refused(two_clusters, "n", "there is no context \"n\"; there are: e, w");
    expect_refused("contexts: [{name: x, context: {cluster: gone}}]\n", "x",
                   "there is no cluster named \"gone\"");
    expect_refused("contexts: [{name: x, context: {user: gone}}]\n", "x",
                   "the context names no cluster");
    expect_refused(user_is_missing, "x", ":2: contexts[x].user: there is no user named \"gone\"");
    expect_refused(user_is_missing, NULL, ":2: contexts[x].user: there is no user named \"gone\"");
    expect_refused("contexts: [{name: x, context: {namespace: 5}}]\n", NULL,
                   ":1: contexts[x].namespace: must be a string");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_contexts),
        cmocka_unit_test(test_other_clusters_are_left_out),
        cmocka_unit_test(test_no_current_context),
        cmocka_unit_test(test_one_context_with_tls),
        cmocka_unit_test(test_tokens_are_for_one_cluster),
        cmocka_unit_test(test_token_over_plain_http),
        cmocka_unit_test(test_in_cluster),
        cmocka_unit_test(test_configmap),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
