/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/secret.h"
#include "program/local_token.h"
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
    temp_dir_path(&f->dir, "token", f->path);
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

static void test_made_when_missing(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    struct stat st;
    bool made;
    char *token = local_token_load(f->path, &made, &e);
    assert_non_null(token);
    assert_true(made);
    assert_int_equal(strlen(token), 43); /* 256 bits in base64 */
    assert_int_equal(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789-_"),
                     43);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_nlink, 1);
    char *again = local_token_load(f->path, &made, &e);
    assert_false(made);
    assert_string_equal(again, token);
    secret_free(again);
    secret_free(token);
}

static void test_two_are_different(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    bool made;
    char *one = local_token_load(f->path, &made, &e);
    assert_int_equal(unlink(f->path), 0);
    char *two = local_token_load(f->path, &made, &e);
    assert_string_not_equal(one, two);
    secret_free(one);
    secret_free(two);
}

enum { CHILDREN = 8, ROUNDS = 40 };

/* What one of those at once got: the token, or what went wrong. */
static void load_at_once(const char *path, int start, int out)
{
    char line[64] = "";
    char none;
    bool made;
    struct err e = ERR_INIT;
    (void)!read(start, &none, 1); /* until it is closed */
    char *token = local_token_load(path, &made, &e);
    (void)snprintf(line, sizeof line, "%.63s", token != NULL && e.code == 0 ? token : e.msg);
    _exit(write(out, line, sizeof line) == (ssize_t)sizeof line ? 0 : 1);
}

static void start_children(const char *path, int start[2], int out)
{
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)close(start[1]);
            load_at_once(path, start[0], out);
        }
    }
    (void)close(start[0]);
    (void)close(start[1]);
}

/* localproxy and kubeconfig-gen start at once: they must end up with one token, and neither with an
 * error. */
static void test_race(void **state)
{
    struct fixture *f = *state;
    int pipes[2];
    int start[2];
    char tokens[CHILDREN][64];
    assert_int_equal(pipe(pipes), 0);
    for (int round = 0; round < ROUNDS; round++) {
        start_children(f->path, start, pipes[1]);
        for (int i = 0; i < CHILDREN; i++) {
            assert_int_equal(read(pipes[0], tokens[i], sizeof tokens[i]), sizeof tokens[i]);
            assert_string_equal(tokens[i], tokens[0]);
            assert_int_equal(strlen(tokens[i]), 43);
            assert_true(wait(NULL) > 0);
        }
        assert_int_equal(unlink(f->path), 0);
    }
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void expect(struct fixture *f, const char *content, const char *token, const char *words)
{
    struct err e = ERR_INIT;
    bool made;
    temp_dir_write(&f->dir, "token", content, 0600);
    char *got = local_token_load(f->path, &made, &e);
    if (token != NULL) {
        assert_string_equal(got, token);
        secret_free(got);
        return;
    }
    assert_null(got);
    if (strstr(e.msg, words) == NULL || strstr(e.msg, "SECRET") != NULL) {
        fail_msg("\"%s\" is not in, or a secret is: %s", words, e.msg);
    }
}

static void test_contents(void **state)
{
    struct fixture *f = *state;
    expect(f, "0123456789abcdef", "0123456789abcdef", NULL);
    expect(f, "  0123456789abcdef\r\n\n", "0123456789abcdef", NULL);
    expect(f, "", NULL, "the token has 0 characters");
    expect(f, " \n", NULL, "the token has 0 characters");
    expect(f, "SECRET", NULL, "the token has 6 characters; from 16");
    expect(f, "SECRET0123456789\nSECRET0123456789\n", NULL, "one token on one line");
    expect(f, "SECRET 0123456789", NULL, "one token on one line");
    expect(f, "SECRET\xc3\xa9 0123456789", NULL, "one token on one line");
    char large[LOCAL_TOKEN_LEN_MAX + 2];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    expect(f, large, NULL, "the token has 4097 characters");
}

static void test_errors(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    char path[256];
    bool made;
    assert_null(local_token_load(f->dir.path, &made, &e));
    assert_int_equal(e.code, -EISDIR);
    assert_null(local_token_load(temp_dir_path(&f->dir, "no/such/folder", path), &made, &e));
    assert_int_equal(e.code, -ENOENT);
    assert_non_null(strstr(e.msg, "cannot create"));
}

/* ---- what --token-file says ---- */

static void test_flag(void **state)
{
    struct err e = ERR_INIT;
    char *path;
    bool made;
    (void)state;
    assert_int_equal(local_token_path("off", &path, &made, &e), 0);
    assert_null(path);
    assert_int_equal(local_token_path("/no/such/file", &path, &made, &e), 0);
    assert_string_equal(path, "/no/such/file"); /* made by kubeconfig-gen alone */
    assert_false(made);
    free(path);
}

static void test_own(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    char own[512];
    char *path;
    bool made;
    (void)snprintf(own, sizeof own, "%s/cmesh/token", f->dir.path);
    assert_int_equal(setenv("XDG_STATE_HOME", f->dir.path, 1), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(local_token_path(NULL, &path, &made, &e), 0);
        assert_int_equal(made, i == 0);
        assert_string_equal(path, own);
        free(path);
    }
    assert_int_equal(chmod(own, 0644), 0);
    assert_int_equal(local_token_path(NULL, &path, &made, &e), -EPERM);
    assert_null(path);
    assert_non_null(strstr(e.msg, "--token-file=PATH"));
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_when_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_are_different, setup, teardown),
        cmocka_unit_test_setup_teardown(test_race, setup, teardown),
        cmocka_unit_test_setup_teardown(test_contents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test(test_flag),
        cmocka_unit_test_setup_teardown(test_own, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
