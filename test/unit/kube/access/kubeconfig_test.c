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

#include "kube/access/kubeconfig.h"
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

static const char *write_config(struct fixture *f, const char *name, const char *text)
{
    temp_dir_write(&f->dir, name, text, 0600);
    return temp_dir_path(&f->dir, name, f->path);
}

static struct kubeconfig *load_ok(const char *path)
{
    struct err e = ERR_INIT;
    struct kubeconfig *kc = kubeconfig_load(path, &e);
    if (kc == NULL) {
        fail_msg("%s", e.msg);
    }
    return kc;
}

static void expect_refused(struct fixture *f, const char *text, const char *words)
{
    struct err e = ERR_INIT;
    const char *path = write_config(f, "config", text);
    struct kubeconfig *kc = kubeconfig_load(path, &e);
    if (kc != NULL) {
        kubeconfig_free(kc);
        fail_msg("taken:\n%.300s", text);
    }
    if (strstr(e.msg, words) == NULL || strncmp(e.msg, path, strlen(path)) != 0) {
        fail_msg("\"%s\" and the path are not in: %s", words, e.msg);
    }
}

static void test_one_file(void **state)
{
    const char *path = write_config(*state, "config",
                                    "apiVersion: v1\n"
                                    "kind: Config\n"
                                    "clusters:\n"
                                    "- name: east\n"
                                    "  cluster: {server: https://east}\n"
                                    "- {name: west, cluster: {server: https://west}}\n"
                                    "contexts:\n"
                                    "- {name: e, context: {cluster: east, user: me}}\n"
                                    "users:\n"
                                    "- {name: me, user: {}}\n"
                                    "current-context: e\n");
    struct kubeconfig *kc = load_ok(path);
    assert_int_equal(kc->clusters.count, 2);
    assert_string_equal(kc->clusters.items[1].name, "west");
    assert_string_equal(kc->current_context, "e");
    struct err e = ERR_INIT;
    assert_string_equal(kubeconfig_string(&kc->clusters.items[0], "server", &e), "https://east");
    assert_non_null(kubeconfig_context(kc, NULL, &e));
    assert_null(kubeconfig_find(&kc->users, "you"));
    kubeconfig_free(kc);
}

static void test_list_is_merged_first_wins(void **state)
{
    struct fixture *f = *state;
    char list[1024];
    write_config(f, "a",
                 "clusters:\n"
                 "- {name: one, cluster: {server: https://one-a}}\n"
                 "contexts: []\n"
                 "current-context: ''\n");
    write_config(f, "b",
                 "clusters:\n"
                 "- {name: one, cluster: {server: https://one-b, insecure-skip-tls-verify: "
                 "true}}\n"
                 "- {name: two, cluster: {server: https://two}}\n"
                 "users: null\n"
                 "current-context: first\n");
    write_config(f, "c",
                 "contexts: [{name: first, context: {cluster: two}}]\n"
                 "current-context: second\n");
    (void)snprintf(list, sizeof list, "%s/a:%s/missing::%s/b:%s/c:%s/a", f->dir.path, f->dir.path,
                   f->dir.path, f->dir.path, f->dir.path);
    setenv("KUBECONFIG", list, 1);
    struct err e = ERR_INIT;
    struct kubeconfig *kc = kubeconfig_load(NULL, &e);
    assert_non_null(kc);
    assert_int_equal(e.code, 0); /* that one file is missing is no error */
    assert_int_equal(kc->file_count, 3);
    assert_int_equal(kc->clusters.count, 2);
    assert_string_equal(kc->current_context, "first");
    const struct kubeconfig_entry *one = kubeconfig_find(&kc->clusters, "one");
    assert_string_equal(kubeconfig_string(one, "server", &e), "https://one-a");
    /* The entry of the first file counts whole: nothing of the second file's is mixed in. */
    assert_null(cJSON_GetObjectItem(one->body, "insecure-skip-tls-verify"));
    kubeconfig_free(kc);
}

static void test_explicit_path_beats_the_list(void **state)
{
    struct fixture *f = *state;
    write_config(f, "a", "contexts: [{name: from-a}]\n");
    setenv("KUBECONFIG", f->path, 1);
    struct kubeconfig *kc = load_ok(write_config(f, "b", "contexts: [{name: from-b}]\n"));
    assert_string_equal(kc->contexts.items[0].name, "from-b");
    kubeconfig_free(kc);
}

static void test_home(void **state)
{
    struct fixture *f = *state;
    char path[256];
    struct err e = ERR_INIT;
    assert_null(kubeconfig_load(NULL, &e));
    assert_int_equal(e.code, -ENOENT);
    assert_non_null(strstr(e.msg, "/.kube/config does not exist; give --kubeconfig"));
    assert_int_equal(mkdir(temp_dir_path(&f->dir, ".kube", path), 0700), 0);
    write_config(f, ".kube/config", "contexts: [{name: home}]\n");
    setenv("KUBECONFIG", "", 1);
    struct kubeconfig *kc = load_ok(NULL);
    assert_string_equal(kc->contexts.items[0].name, "home");
    kubeconfig_free(kc);
    unsetenv("HOME");
    assert_null(kubeconfig_load(NULL, &e));
    assert_non_null(strstr(e.msg, "$HOME"));
}

static void test_missing_and_unreadable(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    char path[256];
    assert_null(kubeconfig_load("/nonexistent/config", &e));
    assert_int_equal(e.code, -ENOENT);
    assert_non_null(strstr(e.msg, "/nonexistent/config"));

    setenv("KUBECONFIG", "/nonexistent/a:/nonexistent/b", 1);
    assert_null(kubeconfig_load(NULL, &e));
    assert_int_equal(e.code, -ENOENT);
    assert_non_null(strstr(e.msg, "none of these files exists: /nonexistent/a:/nonexistent/b"));

    assert_null(kubeconfig_load(f->dir.path, &e));
    assert_int_equal(e.code, -EISDIR);

    if (getuid() != 0) { /* root reads everything */
        temp_dir_write(&f->dir, "locked", "a: b\n", 0000);
        assert_null(kubeconfig_load(temp_dir_path(&f->dir, "locked", path), &e));
        assert_int_equal(e.code, -EACCES);
    }
}

static void test_hostile_files(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    char path[256];
    expect_refused(f, "", "empty");
    expect_refused(f, "# only a comment\n", "empty");
    expect_refused(f, "clusters: []\n", "empty");
    expect_refused(f, "just text\n", ":1: not a kubeconfig");
    expect_refused(f, "[1, 2]\n", ":1: not a kubeconfig");
    expect_refused(f, "apiVersion: v1\nkind: Pod\n", ":2: not a kubeconfig: kind");
    expect_refused(f, "apiVersion: v2\n", ":1: not a kubeconfig: apiVersion");
    expect_refused(f, "clusters:\n- name: a\n  cluster: {server: htt", "line 4");
    expect_refused(f, "clusters: {a: b}\n", ":1: clusters must be a list");
    expect_refused(f, "clusters: [x]\n", "clusters: each element needs a name");
    expect_refused(f, "users:\n- user: {}\n", ":2: users: each element needs a name");
    expect_refused(f, "users:\n- name: 12\n", "put it in quotes");
    expect_refused(f, "users:\n- {name: a, user: text}\n", ":2: users[a].user must be a mapping");
    expect_refused(f, "users: [{name: a}, {name: a}]\n", "users[a]: duplicate name");
    expect_refused(f, "contexts: [{name: a}]\ncurrent-context: 7\n", ":2: current-context");
    expect_refused(f, "contexts: [{name: a}]\ncontexts: []\n", "duplicate key \"contexts\"");
    expect_refused(f,
                   "\x7f"
                   "ELF\x02\x01\x01\x03",
                   "");

    int fd = open(temp_dir_path(&f->dir, "huge", path), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, KUBECONFIG_FILE_MAX + 1), 0);
    (void)close(fd);
    assert_null(kubeconfig_load(path, &e));
    assert_non_null(strstr(e.msg, "larger than the limit"));
}

static void test_too_many_entries(void **state)
{
    struct fixture *f = *state;
    struct buf text = BUF_INIT(1 << 20);
    assert_int_equal(buf_append_str(&text, "users:\n"), 0);
    for (int i = 0; i <= KUBECONFIG_ENTRIES_MAX; i++) {
        assert_int_equal(buf_printf(&text, "- name: u%d\n", i), 0);
    }
    expect_refused(f, buf_cstr(&text), "more than 10000 entries");
    buf_reset(&text);
}

static void test_context_errors_list_what_there_is(void **state)
{
    struct err e = ERR_INIT;
    struct kubeconfig *kc =
        load_ok(write_config(*state, "config",
                             "contexts: [{name: a}, {name: b}, {name: c}, {name: d}, "
                             "{name: e}, {name: f}, {name: g}, {name: h}, {name: i}]\n"));
    assert_null(kubeconfig_context(kc, NULL, &e));
    assert_non_null(
        strstr(e.msg, "config: no current-context is set; choose one with --context, or set it "
                      "with kubectl config use-context: a, b"));
    assert_non_null(strstr(e.msg, "h and 1 more"));
    assert_null(kubeconfig_context(kc, "zz", &e));
    assert_non_null(strstr(e.msg, "there is no context \"zz\"; there are: a, b"));
    kubeconfig_free(kc);

    kc = load_ok(write_config(*state, "config", "contexts: [{name: a}]\ncurrent-context: gone\n"));
    assert_null(kubeconfig_context(kc, NULL, &e));
    assert_non_null(strstr(e.msg, "\"gone\" (the current-context)"));
    kubeconfig_free(kc);
}

static void test_strings(void **state)
{
    struct err e = ERR_INIT;
    struct kubeconfig *kc = load_ok(write_config(*state, "config",
                                                 "users:\n"
                                                 "- name: me\n"
                                                 "  user:\n"
                                                 "    token: ''\n"
                                                 "    password: 12345\n"
                                                 "    username: ~\n"
                                                 "    exec: {command: c}\n"));
    const struct kubeconfig_entry *me = &kc->users.items[0];
    assert_null(kubeconfig_string(me, "token", &e));
    assert_null(kubeconfig_string(me, "username", &e));
    assert_null(kubeconfig_string(me, "missing", &e));
    assert_null(kubeconfig_string(me, "missing.below", &e));
    assert_string_equal(kubeconfig_string(me, "exec.command", &e), "c");
    assert_int_equal(e.code, 0);
    assert_null(kubeconfig_string(me, "password", &e));
    assert_int_equal(e.code, -EINVAL);
    assert_non_null(strstr(e.msg, "config:5: users[me].password: must be a string"));
    assert_null(strstr(e.msg, "12345"));
    /* The first error stays. */
    assert_null(kubeconfig_string(me, "exec.command", &e));
    kubeconfig_fail(me, "exec.command", &e, "another");
    assert_non_null(strstr(e.msg, "password: must be a string"));
    kubeconfig_free(kc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_is_merged_first_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_explicit_path_beats_the_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_home, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_and_unreadable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_context_errors_list_what_there_is, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
