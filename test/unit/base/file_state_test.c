/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file_state.h"
#include "temp_dir.h"

static int setup(void **state)
{
    static struct temp_dir dir;
    temp_dir_init(&dir);
    *state = &dir;
    return 0;
}

static int teardown(void **state)
{
    temp_dir_deinit(*state);
    return 0;
}

static void test_written_replaced_removed(void **state)
{
    struct file_state s = {.ino = 0};
    char path[256];
    char other[256];
    temp_dir_path(*state, "file", path);
    temp_dir_write(*state, "file", "one", 0600);
    assert_true(file_state_changed(&s, path));
    assert_false(file_state_changed(&s, path));
    temp_dir_write(*state, "file", "three", 0600);
    assert_true(file_state_changed(&s, path));
    assert_false(file_state_changed(&s, path));
    temp_dir_write(*state, "other", "three", 0600);
    assert_int_equal(rename(temp_dir_path(*state, "other", other), path), 0);
    assert_true(file_state_changed(&s, path));
    assert_int_equal(unlink(path), 0);
    assert_true(file_state_changed(&s, path));
    assert_true(file_state_changed(&s, path)); /* until somebody finds it readable again */
    temp_dir_write(*state, "file", "three", 0600);
    assert_true(file_state_changed(&s, path));
    assert_false(file_state_changed(&s, path));
}

static void test_folder_swapped_behind_a_link(void **state)
{
    struct file_state s = {.ino = 0};
    char path[256];
    char data[256];
    char next[256];
    char folder[256];
    assert_int_equal(mkdir(temp_dir_path(*state, "v1", folder), 0700), 0);
    assert_int_equal(mkdir(temp_dir_path(*state, "v2", folder), 0700), 0);
    temp_dir_write(*state, "v1/file", "same", 0600);
    temp_dir_write(*state, "v2/file", "same", 0600);
    assert_int_equal(symlink("v1", temp_dir_path(*state, "..data", data)), 0);
    assert_int_equal(symlink("..data/file", temp_dir_path(*state, "file", path)), 0);
    assert_true(file_state_changed(&s, path));
    assert_int_equal(symlink("v2", temp_dir_path(*state, "..next", next)), 0);
    assert_false(file_state_changed(&s, path));
    assert_int_equal(rename(next, data), 0);
    assert_true(file_state_changed(&s, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_replaced_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder_swapped_behind_a_link, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
