/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "program/local_folder.h"
#include "temp_dir.h"

static void expect_path(const char *state_home, const char *home, uid_t user, const char *want)
{
    struct err e = ERR_INIT;
    char *path = local_folder_path(state_home, home, user, &e);
    if (want == NULL) {
        assert_null(path);
        assert_int_equal(e.code, -ENOENT);
        assert_non_null(strstr(e.msg, "XDG_STATE_HOME"));
    } else {
        assert_string_equal(path, want);
    }
    free(path);
}

static void each_user_has_one(void **state)
{
    (void)state;
    expect_path("/s", "/home/a", 1000, "/s/cmesh");
    expect_path(NULL, "/home/a", 1000, "/home/a/.local/state/cmesh");
    expect_path("", "/home/a", 1000, "/home/a/.local/state/cmesh");
    expect_path("s", "/home/a", 1000, "/home/a/.local/state/cmesh");
    expect_path(NULL, NULL, 1000, NULL);
    expect_path(NULL, "", 1000, NULL);
    expect_path(NULL, "a", 1000, NULL);
    expect_path("/s", "/home/a", 0, "/s/cmesh");
    expect_path(NULL, "/home/a", 0, "/var/lib/cmesh"); /* sudo may leave the HOME of its user */
}

static void expect_mode(const char *path, mode_t mode)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

static void it_is_made_and_found_again(void **state)
{
    struct temp_dir *d = *state;
    struct err e = ERR_INIT;
    char above[256];
    char path[256];
    temp_dir_path(d, "state", above);
    temp_dir_path(d, "state/cmesh", path);
    mode_t umask_was = umask(0);
    assert_int_equal(setenv("XDG_STATE_HOME", above, 1), 0);
    for (int i = 0; i < 2; i++) {
        char *found = local_folder_open(&e);
        assert_non_null(found);
        assert_string_equal(found, path);
        free(found);
    }
    expect_mode(above, 0700);
    expect_mode(path, 0700);
    umask(umask_was);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
}

static void expect_refused(const char *path, const char *words)
{
    struct err e = ERR_INIT;
    assert_true(local_folder_make(path, &e) < 0);
    if (strstr(e.msg, words) == NULL || strstr(e.msg, path) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, e.msg);
    }
}

static void what_others_can_use_is_refused(void **state)
{
    static const mode_t modes[] = {0750, 0701, 0720, 0777, 01777};
    struct temp_dir *d = *state;
    struct err e = ERR_INIT;
    char path[256];
    temp_dir_path(d, "folder", path);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        expect_refused(path, "others may use it");
        expect_mode(path, modes[i]);
    }
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(local_folder_make(path, &e), 0);
}

static void what_is_no_folder_is_refused(void **state)
{
    struct temp_dir *d = *state;
    char target[256];
    char path[256];
    temp_dir_path(d, "target", target);
    assert_int_equal(mkdir(target, 0700), 0);
    temp_dir_path(d, "link", path);
    assert_int_equal(symlink(target, path), 0);
    expect_refused(path, "is not a folder");
    temp_dir_path(d, "dangling", path);
    assert_int_equal(symlink("/nonexistent", path), 0);
    expect_refused(path, "is not a folder");
    temp_dir_write(d, "file", "", 0600);
    expect_refused(temp_dir_path(d, "file", path), "is not a folder");
    struct err e = ERR_INIT;
    temp_dir_path(d, "file/cmesh", path);
    assert_int_equal(local_folder_make(path, &e), -ENOTDIR);
}

/* Only root can make what is not its own. */
static void what_is_another_users_is_refused(void **state)
{
    struct temp_dir *d = *state;
    struct err e = ERR_INIT;
    char path[256];
    if (geteuid() != 0) {
        skip();
    }
    temp_dir_path(d, "folder", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 65534, 65534), 0);
    expect_refused(path, "belongs to another user");
    temp_dir_write(d, "file", "token", 0600);
    temp_dir_path(d, "file", path);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(local_folder_check_file(path, &e), -EPERM);
}

static void files_that_others_can_use_are_refused(void **state)
{
    struct temp_dir *d = *state;
    struct err e = ERR_INIT;
    char path[256];
    char link[256];
    assert_int_equal(local_folder_check_file(temp_dir_path(d, "none", path), &e), 0);
    temp_dir_write(d, "file", "token", 0600);
    temp_dir_path(d, "file", path);
    assert_int_equal(local_folder_check_file(path, &e), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(local_folder_check_file(path, &e), -EPERM);
    assert_int_equal(symlink(path, temp_dir_path(d, "link", link)), 0);
    assert_int_equal(local_folder_check_file(link, &e), -EINVAL);
    assert_int_equal(local_folder_check_file(d->path, &e), -EINVAL);
    (void)strcat(path, "/x");
    assert_int_equal(local_folder_check_file(path, &e), -ENOTDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_user_has_one),
        cmocka_unit_test_setup_teardown(it_is_made_and_found_again, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(what_others_can_use_is_refused, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_folder_is_refused, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(what_is_another_users_is_refused, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(files_that_others_can_use_are_refused, temp_dir_setup,
                                        temp_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
