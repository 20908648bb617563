/* SPDX-License-Identifier: Apache-2.0 */
#include "net/folder_watch.h"

#include <stdio.h>

#include "loop_fixture.h"
#include "temp_dir.h"

struct world {
    struct net_loop *loop;
    struct temp_dir dir;
    char folder[256];
    struct net_folder_watch *watch;
    char name[256];
    bool told;
    bool free_inside;
};

static void on_change(void *data, const char *name)
{
    struct world *w = data;
    (void)snprintf(w->name, sizeof w->name, "%s", name != NULL ? name : "");
    w->told = true;
    if (w->free_inside) {
        net_folder_watch_free(w->watch);
        w->watch = NULL;
    }
}

static int setup(void **state)
{
    static struct world w;
    w = (struct world){.loop = NULL};
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    temp_dir_init(&w.dir);
    (void)mkdir(temp_dir_path(&w.dir, "folder", w.folder), 0755);
    w.watch = net_folder_watch_new(w.loop, on_change, &w);
    *state = &w;
    return w.watch == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    net_folder_watch_free(w->watch);
    temp_dir_deinit(&w->dir);
    return loop_free(w->loop);
}

static void wait_told(struct world *w)
{
    w->told = false;
    run_until(w->loop, &w->told);
    run_for(w->loop, 20);
}

static void tells_what_changed(void **state)
{
    struct world *w = *state;
    assert_int_equal(net_folder_watch_set(w->watch, w->folder), 0);
    temp_dir_write(&w->dir, "folder/a", "x", 0644);
    wait_told(w);
    assert_string_equal(w->name, "a");
    char from[256];
    char to[256];
    assert_int_equal(
        rename(temp_dir_path(&w->dir, "folder/a", from), temp_dir_path(&w->dir, "folder/b", to)),
        0);
    wait_told(w);
    assert_string_equal(w->name, "b");
    assert_int_equal(unlink(to), 0);
    wait_told(w);
    assert_int_equal(rmdir(w->folder), 0);
    wait_told(w);
}

static void follows_only_what_it_was_set_to_last(void **state)
{
    struct world *w = *state;
    char other[256];
    assert_int_equal(mkdir(temp_dir_path(&w->dir, "other", other), 0755), 0);
    assert_int_equal(net_folder_watch_set(w->watch, other), 0);
    assert_int_equal(net_folder_watch_set(w->watch, w->folder), 0);
    assert_int_equal(net_folder_watch_set(w->watch, w->folder), 0);
    temp_dir_write(&w->dir, "other/a", "x", 0644);
    run_for(w->loop, 50);
    assert_false(w->told);
    temp_dir_write(&w->dir, "folder/a", "x", 0644);
    wait_told(w);
}

static void says_when_there_is_nothing(void **state)
{
    struct world *w = *state;
    char nowhere[256];
    assert_int_equal(net_folder_watch_set(w->watch, w->folder), 0);
    assert_int_equal(net_folder_watch_set(w->watch, temp_dir_path(&w->dir, "nowhere", nowhere)),
                     UV_ENOENT);
    temp_dir_write(&w->dir, "folder/a", "x", 0644);
    run_for(w->loop, 50);
    assert_false(w->told);
}

static void can_be_freed_inside(void **state)
{
    struct world *w = *state;
    w->free_inside = true;
    assert_int_equal(net_folder_watch_set(w->watch, w->folder), 0);
    temp_dir_write(&w->dir, "folder/a", "x", 0644);
    wait_told(w);
    assert_null(w->watch);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(tells_what_changed),
        TEST(follows_only_what_it_was_set_to_last),
        TEST(says_when_there_is_nothing),
        TEST(can_be_freed_inside),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
