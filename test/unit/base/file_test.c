/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/file.h"
#include "temp_dir.h"

static int set_up(void **state)
{
    struct temp_dir *d = malloc(sizeof *d);
    if (d == NULL) {
        return -1;
    }
    temp_dir_init(d);
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_deinit(*state);
    free(*state);
    return 0;
}

static int count_entries(const struct temp_dir *d)
{
    DIR *dir = opendir(d->path);
    assert_non_null(dir);
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 ? 1 : 0;
    }
    (void)closedir(dir);
    return count;
}

static void assert_file(const char *path, const char *want)
{
    struct buf b = BUF_INIT(1024 * 1024);
    struct err e = ERR_INIT;
    assert_int_equal(file_read(path, &b, &e), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_reset(&b);
}

static void reads_behind_what_is_there(void **state)
{
    char path[256];
    temp_dir_write(*state, "a", "content", 0600);
    struct buf b = BUF_INIT(100);
    struct err e = ERR_INIT;
    assert_int_equal(buf_append_str(&b, "before "), 0);
    assert_int_equal(file_read(temp_dir_path(*state, "a", path), &b, &e), 0);
    assert_string_equal(buf_cstr(&b), "before content");
    buf_reset(&b);
}

static void reads_up_to_the_limit(void **state)
{
    enum { SIZE = 70000 };
    char path[256];
    char *text = malloc(SIZE + 1);
    assert_non_null(text);
    memset(text, 'x', SIZE);
    text[SIZE] = '\0';
    temp_dir_write(*state, "big", text, 0600);
    free(text);

    struct buf exact = BUF_INIT(SIZE);
    struct buf small = BUF_INIT(SIZE - 1);
    struct err e = ERR_INIT;
    assert_int_equal(file_read(temp_dir_path(*state, "big", path), &exact, &e), 0);
    assert_int_equal(exact.len, SIZE);
    assert_int_equal(file_read(path, &small, &e), -ENOBUFS);
    assert_non_null(strstr(e.msg, path));
    assert_non_null(strstr(e.msg, "69999"));
    buf_reset(&exact);
    buf_reset(&small);
}

static void names_the_path_it_cannot_read(void **state)
{
    char path[256];
    struct buf b = BUF_INIT(100);
    struct err e = ERR_INIT;
    assert_int_equal(file_read(temp_dir_path(*state, "none", path), &b, &e), -ENOENT);
    assert_non_null(strstr(e.msg, path));
    struct temp_dir *d = *state;
    assert_int_equal(file_read(d->path, &b, &e), -EISDIR);
    assert_non_null(strstr(e.msg, d->path));
    assert_int_equal(b.len, 0);
    buf_reset(&b);
}

static void writes_with_the_mode_whatever_the_umask(void **state)
{
    char path[256];
    struct err e = ERR_INIT;
    struct stat st;
    static const mode_t masks[] = {0, 0077, 0777};
    static const mode_t modes[] = {0600, 0644, 0400};
    for (size_t i = 0; i < 3; i++) {
        mode_t old = umask(masks[i]);
        int rc = file_write_atomic(temp_dir_path(*state, "f", path), "a\0b", 3, modes[i], &e);
        (void)umask(old);
        assert_int_equal(rc, 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, modes[i]);
        assert_int_equal(st.st_size, 3);
    }
    assert_int_equal(count_entries(*state), 1);
}

typedef int (*write_fn)(const char *path, const void *data, size_t len, mode_t mode, struct err *e);

/* A reader that had the old file open still reads the old one, whole. */
static void replace_by(struct temp_dir *d, write_fn write_file)
{
    char path[256];
    char text[16] = "";
    struct err e = ERR_INIT;
    temp_dir_write(d, "f", "old content", 0600);
    int fd = open(temp_dir_path(d, "f", path), O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(write_file(path, "new", 3, 0600, &e), 0);
    assert_int_equal(read(fd, text, sizeof text), 11);
    (void)close(fd);
    assert_string_equal(text, "old content");
    assert_file(path, "new");
    assert_int_equal(write_file(path, "", 0, 0600, &e), 0);
    assert_file(path, "");
    assert_int_equal(write_file(d->path, "a", 1, 0600, &e), -EISDIR);
    assert_int_equal(count_entries(d), 1);
}

static void replaces_whole_files(void **state)
{
    replace_by(*state, file_write_atomic);
    replace_by(*state, file_replace);
}

static void replaces_a_link_and_not_what_it_points_to(void **state)
{
    char file[256];
    char link[256];
    struct err e = ERR_INIT;
    temp_dir_write(*state, "f", "kept", 0600);
    assert_int_equal(symlink(temp_dir_path(*state, "f", file), temp_dir_path(*state, "l", link)),
                     0);
    assert_int_equal(file_write_atomic(link, "new", 3, 0600, &e), 0);
    assert_file(link, "new");
    assert_file(file, "kept");
}

static void leaves_no_trace_of_a_failed_write(void **state)
{
    char path[256];
    struct err e = ERR_INIT;
    struct temp_dir *d = *state;
    assert_int_equal(file_write_atomic(temp_dir_path(d, "no/f", path), "a", 1, 0600, &e), -ENOENT);
    assert_non_null(strstr(e.msg, path));

    assert_int_equal(mkdir(temp_dir_path(d, "dir", path), 0700), 0);
    assert_int_equal(file_write_atomic(path, "a", 1, 0600, &e), -EISDIR);
    assert_non_null(strstr(e.msg, path));

    assert_int_equal(mkfifo(temp_dir_path(d, "fifo", path), 0600), 0);
    assert_int_equal(file_write_atomic(path, "a", 1, 0600, &e), -EINVAL);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(count_entries(d), 2);
}

/* As `<(command)` in a shell. */
static void reads_a_pipe(void **state)
{
    struct temp_dir *d = *state;
    struct buf out = BUF_INIT(100);
    struct err e = ERR_INIT;
    char path[256];
    assert_int_equal(mkfifo(temp_dir_path(d, "fifo", path), 0600), 0);
    assert_int_equal(file_read(path, &out, &e), -ENXIO);
    assert_non_null(strstr(e.msg, "nobody writes to this pipe"));
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_WRONLY);
        bool well = write(fd, "one ", 4) == 4 && usleep(50 * 1000) == 0 && write(fd, "two", 3) == 3;
        _exit(well ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(file_read(path, &out, &e), 0);
    assert_string_equal(buf_cstr(&out), "one two");
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    buf_reset(&out);
}

static void writes_in_the_current_folder(void **state)
{
    struct temp_dir *d = *state;
    struct err e = ERR_INIT;
    int before = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(before >= 0 && chdir(d->path) == 0);
    int rc = file_write_atomic("plain", "a", 1, 0600, &e);
    assert_int_equal(fchdir(before), 0);
    (void)close(before);
    assert_int_equal(rc, 0);
    assert_int_equal(count_entries(d), 1);
}

static void resolves_paths_beside_a_file(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"/etc/a/config", "ca.crt", "/etc/a/ca.crt"},
        {"/etc/a/config", "../ca", "/etc/a/../ca"},
        {"/config", "ca", "/ca"},
        {"config", "ca", "ca"},
        {"a/config", "ca", "a/ca"},
        {"/etc/config", "/ca", "/ca"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *got = file_resolve(rows[i][0], rows[i][1]);
        assert_string_equal(got, rows[i][2]);
        free(got);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_behind_what_is_there),
        TEST(reads_up_to_the_limit),
        TEST(names_the_path_it_cannot_read),
        TEST(writes_with_the_mode_whatever_the_umask),
        TEST(replaces_whole_files),
        TEST(replaces_a_link_and_not_what_it_points_to),
        TEST(leaves_no_trace_of_a_failed_write),
        TEST(reads_a_pipe),
        TEST(writes_in_the_current_folder),
        cmocka_unit_test(resolves_paths_beside_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
