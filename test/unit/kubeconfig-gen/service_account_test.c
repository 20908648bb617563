/* SPDX-License-Identifier: Apache-2.0 */
#include "service_account.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/file.h"
#include "temp_dir.h"

static const char *const names[] = {"ca.crt", "namespace", "token"};

static struct service_account account_of(const char *folder)
{
    return (struct service_account){
        .folder = folder,
        .ca = SLICE("CERTIFICATE\n"),
        .token = "secret-0123456789",
        .namespace = "team-a",
    };
}

static void expect_file(const char *folder, const char *name, const char *want, mode_t mode)
{
    char path[512];
    struct stat st;
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(4096);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (file_read(path, &text, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_string_equal(buf_cstr(&text), want);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    buf_reset(&text);
}

static void expect_account(const char *folder, mode_t mode)
{
    expect_file(folder, "ca.crt", "CERTIFICATE\n", mode);
    expect_file(folder, "namespace", "team-a", mode);
    expect_file(folder, "token", "secret-0123456789", mode);
}

/* No temporary file stays either. */
static size_t count_files(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void write_well(const struct service_account *a)
{
    struct err e = ERR_INIT;
    if (service_account_write(a, &e) != 0) {
        fail_msg("%s", e.msg);
    }
}

static void expect_refused(const struct service_account *a, int code, const char *words)
{
    struct err e = ERR_INIT;
    assert_int_equal(service_account_write(a, &e), code);
    assert_int_equal(e.code, code);
    if (strstr(e.msg, words) == NULL || strstr(e.msg, a->token) != NULL) {
        fail_msg("wanted \"%s\": %s", words, e.msg);
    }
}

/* ---- what is written ---- */

static void a_missing_folder_is_made(void **state)
{
    static const struct {
        bool shared;
        mode_t umask;
        mode_t folder;
        mode_t file;
    } cases[] = {{false, 0, 0700, 0600}, {true, 0, 0755, 0644}, {true, 0077, 0755, 0644}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[16];
        char path[256];
        (void)snprintf(name, sizeof name, "made-%zu", i);
        struct service_account a = account_of(temp_dir_path(*state, name, path));
        a.shared = cases[i].shared;
        mode_t before = umask(cases[i].umask);
        write_well(&a);
        (void)umask(before);
        assert_int_equal(mode_of(path), cases[i].folder);
        expect_account(path, cases[i].file);
        assert_int_equal(count_files(path), ARRAY_LEN(names));
    }
}

static void one_that_is_there_keeps_its_mode(void **state)
{
    char path[256];
    assert_int_equal(mkdir(temp_dir_path(*state, "there", path), 0700), 0);
    assert_int_equal(chmod(path, 0771), 0);
    struct service_account a = account_of(path);
    write_well(&a);
    assert_int_equal(mode_of(path), 0771);
    expect_account(path, 0600);
}

static void files_of_before_are_replaced(void **state)
{
    struct temp_dir *d = *state;
    char path[256];
    struct service_account a = account_of(d->path);
    temp_dir_write(d, "token", "a longer one that was there before", 0666);
    temp_dir_write(d, "elsewhere", "kept", 0600);
    assert_int_equal(symlink("elsewhere", temp_dir_path(d, "ca.crt", path)), 0);
    write_well(&a);
    write_well(&a);
    expect_account(d->path, 0600);
    expect_file(d->path, "elsewhere", "kept", 0600);
    assert_int_equal(count_files(d->path), ARRAY_LEN(names) + 1);
}

/* ---- what is refused ---- */

static void bad_folders(void **state)
{
    struct temp_dir *d = *state;
    char path[256];
    struct service_account a = account_of(temp_dir_path(d, "no/such", path));
    expect_refused(&a, -ENOENT, "no/such: cannot make the folder");
    temp_dir_write(d, "file", "kept", 0600);
    a.folder = temp_dir_path(d, "file", path);
    expect_refused(&a, -ENOTDIR, "is not a folder");
    expect_file(d->path, "file", "kept", 0600);
    assert_int_equal(symlink("nowhere", temp_dir_path(d, "dangling", path)), 0);
    a.folder = path;
    expect_refused(&a, -ENOTDIR, "is not a folder");
}

/* The kubelet's: files that are links into a folder which it exchanges. */
static void that_of_a_pod_is_refused(void **state)
{
    struct temp_dir *d = *state;
    char path[256];
    struct service_account a = account_of(d->path);
    temp_dir_write(d, "token", "the real one", 0600);
    assert_int_equal(symlink("..2026", temp_dir_path(d, "..data", path)), 0);
    expect_refused(&a, -EEXIST, "is the service account of a pod");
    expect_file(d->path, "token", "the real one", 0600);
    assert_int_equal(count_files(d->path), 1);
    assert_int_equal(mkdir(temp_dir_path(d, "..2026", path), 0700), 0); /* where ..data leads */
    a.folder = path;
    expect_refused(&a, -EEXIST, "is the service account of a pod");
    assert_int_equal(count_files(path), 0);
}

/* Whichever of the files it is, the others stay as they were. */
static void what_is_in_the_way_leaves_all_as_it_was(void **state)
{
    struct temp_dir *d = *state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char in_the_way[256];
        struct service_account a = account_of(d->path);
        temp_dir_empty(d->path);
        for (size_t j = 0; j < ARRAY_LEN(names); j++) {
            temp_dir_write(d, names[j], "old", 0600);
        }
        (void)unlink(temp_dir_path(d, names[i], in_the_way));
        assert_int_equal(mkdir(in_the_way, 0700), 0);
        expect_refused(&a, -EISDIR, names[i]);
        for (size_t j = 0; j < ARRAY_LEN(names); j++) {
            if (j != i) {
                expect_file(d->path, names[j], "old", 0600);
            }
        }
        assert_int_equal(count_files(d->path), ARRAY_LEN(names));
    }
}

/* What cannot be seen beforehand: each file is that of before or the new one, whole. */
static void a_full_disk_leaves_whole_files(void **state)
{
    struct temp_dir *d = *state;
    struct service_account a = account_of(d->path);
    struct rlimit before;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        temp_dir_write(d, names[i], "old", 0600);
    }
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = strlen(a.token) - 1, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct err e = ERR_INIT;
    int rc = service_account_write(&a, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, -EFBIG);
    assert_non_null(strstr(e.msg, "token"));
    expect_file(d->path, "ca.crt", "CERTIFICATE\n", 0600);
    expect_file(d->path, "namespace", "team-a", 0600);
    expect_file(d->path, "token", "old", 0600);
    assert_int_equal(count_files(d->path), ARRAY_LEN(names));
    write_well(&a);
    expect_account(d->path, 0600);
}

/* ---- memory ---- */

static bool scenario(void *data)
{
    struct temp_dir *d = data;
    struct err e = ERR_INIT;
    struct service_account a = account_of(d->path);
    int rc = service_account_write(&a, &e);
    assert_true(rc == 0 || (rc == -ENOMEM && e.code == -ENOMEM));
    return rc == 0;
}

/* All is allocated within the C library, which only a sanitizer lets us look into. */
static void memory_may_run_out(void **state)
{
    struct temp_dir *d = *state;
    long swept = sweep_allocations(scenario, d);
#ifdef CMESH_SANITIZED
    assert_true(swept > 3);
#else
    (void)swept;
#endif
    expect_account(d->path, 0600);
    assert_int_equal(count_files(d->path), ARRAY_LEN(names));
}

/* ---- the variables ---- */

static void variables(void **state)
{
    (void)state;
    static const struct {
        struct url proxy;
        const char *want;
    } cases[] = {
        {{.https = true, .host = "127.0.0.1", .port = 5446},
         "KUBERNETES_SERVICE_HOST=127.0.0.1\nKUBERNETES_SERVICE_PORT=5446\n"
         "KUBERNETES_SERVICE_PORT_HTTPS=5446\n"},
        /* Clients put the brackets around it themselves. */
        {{.https = true, .host = "::1", .port = 443},
         "KUBERNETES_SERVICE_HOST=::1\nKUBERNETES_SERVICE_PORT=443\n"
         "KUBERNETES_SERVICE_PORT_HTTPS=443\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out = BUF_INIT(1024);
        assert_int_equal(service_account_variables(&cases[i].proxy, &out), 0);
        assert_string_equal(buf_cstr(&out), cases[i].want);
        buf_reset(&out);
    }
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, temp_dir_setup, temp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_missing_folder_is_made),
        IN_FOLDER(one_that_is_there_keeps_its_mode),
        IN_FOLDER(files_of_before_are_replaced),
        IN_FOLDER(bad_folders),
        IN_FOLDER(that_of_a_pod_is_refused),
        IN_FOLDER(what_is_in_the_way_leaves_all_as_it_was),
        IN_FOLDER(a_full_disk_leaves_whole_files),
        IN_FOLDER(memory_may_run_out),
        cmocka_unit_test(variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
