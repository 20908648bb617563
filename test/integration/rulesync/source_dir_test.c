/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "source_dir.h"
#include "temp_dir.h"

enum { LONG_MS = 60000, RETRY_MS = 80 };

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir;
    char mount[256];
    struct source_dir *source;
    unsigned moment; /* for names of folders */
    /* what the source told */
    char text[256];
    char place[256];
    char error[ERR_MSG_MAX];
    char warning[ERR_MSG_MAX];
    enum source_trouble trouble;
    unsigned offers;
    unsigned finals;
    unsigned troubles;
    bool news;
    bool refuse; /* what is offered */
    bool blind;
    unsigned blind_changes;
};

static int on_offer(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct fixture *f = data;
    (void)snprintf(f->text, sizeof f->text, "%.*s", (int)text.len, text.ptr);
    (void)snprintf(f->place, sizeof f->place, "%s", place);
    f->offers++;
    f->finals += final;
    f->news = final || !f->refuse;
    return f->refuse ? err_set(e, -EINVAL, "refused") : 0;
}

static void on_trouble(void *data, enum source_trouble trouble, const struct err *e,
                       enum log_level level)
{
    (void)level;
    struct fixture *f = data;
    f->trouble = trouble;
    if (trouble != SOURCE_FINE) {
        (void)snprintf(f->error, sizeof f->error, "%s", e->msg);
        f->troubles++;
        f->news = true;
    }
}

static void on_warn(void *data, const char *text)
{
    struct fixture *f = data;
    (void)snprintf(f->warning, sizeof f->warning, "%s", text);
}

static void on_blind(void *data, bool blind)
{
    struct fixture *f = data;
    f->blind = blind;
    f->blind_changes++;
}

static const struct source_handlers handlers = {
    .offer = on_offer,
    .trouble = on_trouble,
    .warn = on_warn,
    .blind = on_blind,
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0) {
        return -1;
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&f->dir);
    (void)temp_dir_path(&f->dir, "mount", f->mount);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    source_dir_free(f->source);
    int rc = loop_free(f->loop);
    temp_dir_empty(f->mount);
    temp_dir_deinit(&f->dir);
    free(f);
    return rc;
}

static void start_with(struct fixture *f, const char *path, uint64_t look_ms, uint64_t retry_ms)
{
    struct source_dir_options o = {
        .path = path, .look_ms = look_ms, .settle_ms = 20, .retry_ms = retry_ms};
    struct err e = ERR_INIT;
    f->source = source_dir_new(f->loop, &o, &handlers, f, &e);
    if (f->source == NULL) {
        fail_msg("%s", e.msg);
    }
}

static void start(struct fixture *f, const char *path, uint64_t look_ms)
{
    start_with(f, path, look_ms, RETRY_MS);
}

static void wait_offers(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < 4000 && f->offers < count; i++) {
        run_for(f->loop, 5);
    }
    assert_true(f->offers >= count);
}

static void wait_news(struct fixture *f)
{
    f->news = false;
    run_until(f->loop, &f->news);
}

static void wait_text(struct fixture *f, const char *text)
{
    do {
        wait_news(f);
    } while (f->trouble != SOURCE_FINE || strcmp(f->text, text) != 0);
}

/* Paths below the mounted folder. */
static const char *in_mount(const struct fixture *f, const char *name, char out[512])
{
    (void)snprintf(out, 512, "%s/%s", f->mount, name);
    return out;
}

static void write_at(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

/* As the kubelet does it: a new folder, a new link to it, the link renamed over `..data`, the old
 * folder removed. NULL: the ConfigMap has no such key. */
static void publish(struct fixture *f, const char *text)
{
    char path[512];
    char old[256] = "";
    char folder[64];
    ssize_t n = readlink(in_mount(f, "..data", path), old, sizeof old - 1);
    old[n > 0 ? n : 0] = '\0';
    (void)mkdir(f->mount, 0755);
    (void)snprintf(folder, sizeof folder, "..2024_05_01_10_00_00.%u", ++f->moment);
    assert_int_equal(mkdir(in_mount(f, folder, path), 0755), 0);
    if (text != NULL) {
        char key[600];
        (void)snprintf(key, sizeof key, "%s/" SOURCE_KEY, path);
        write_at(key, text);
    }
    char link[512];
    assert_int_equal(symlink(folder, in_mount(f, "..data_tmp", link)), 0);
    assert_int_equal(rename(link, in_mount(f, "..data", path)), 0);
    (void)unlink(in_mount(f, SOURCE_KEY, path));
    if (text != NULL) {
        assert_int_equal(symlink("..data/" SOURCE_KEY, path), 0);
    }
    if (old[0] != '\0') {
        temp_dir_empty(in_mount(f, old, path));
        assert_int_equal(rmdir(path), 0);
    }
}

/* ---- a mounted ConfigMap ---- */

static void sees_every_swap(void **state)
{
    struct fixture *f = *state;
    publish(f, "one");
    start(f, f->mount, LONG_MS);
    wait_text(f, "one");
    char place[512];
    assert_string_equal(f->place, in_mount(f, SOURCE_KEY, place));
    for (unsigned i = 0; i < 20; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "number %u", i);
        publish(f, text);
        wait_text(f, text);
    }
    assert_string_equal(f->warning, "");
}

static void a_burst_is_one(void **state)
{
    struct fixture *f = *state;
    publish(f, "one");
    start(f, f->mount, LONG_MS);
    wait_text(f, "one");
    unsigned before = f->offers;
    for (unsigned i = 0; i < 20; i++) {
        publish(f, i == 19 ? "last" : "another");
    }
    wait_text(f, "last");
    run_for(f->loop, 100);
    assert_in_range(f->offers - before, 1, 3);
}

/* What is there without an event: on a network file system, or when the queue ran over. */
static void sees_what_it_was_not_told(void **state)
{
    struct fixture *f = *state;
    char path[512];
    publish(f, "one");
    /* A link to a folder elsewhere: what changes there is not watched. */
    char elsewhere[256];
    assert_int_equal(mkdir(temp_dir_path(&f->dir, "elsewhere", elsewhere), 0755), 0);
    char key[512];
    (void)snprintf(key, sizeof key, "%s/" SOURCE_KEY, elsewhere);
    write_at(key, "one");
    assert_int_equal(unlink(in_mount(f, SOURCE_KEY, path)), 0);
    assert_int_equal(symlink(key, path), 0);
    start(f, f->mount, 100);
    wait_text(f, "one");
    unsigned before = f->offers;
    run_for(f->loop, 250);
    assert_int_equal(f->offers, before); /* looks at what did not change read nothing */
    write_at(key, "two");
    wait_text(f, "two");
}

static void waits_for_a_folder_and_for_a_key(void **state)
{
    struct fixture *f = *state;
    char path[512];
    start(f, f->mount, LONG_MS);
    wait_news(f);
    assert_int_equal(f->trouble, SOURCE_MISSING);
    assert_non_null(strstr(f->error, "mount: No such file or directory"));
    assert_int_equal(mkdir(f->mount, 0755), 0);
    wait_news(f);
    assert_int_equal(f->trouble, SOURCE_MISSING);
    assert_non_null(strstr(f->error, "the folder has no key rules.json"));
    publish(f, "one");
    wait_text(f, "one");
    publish(f, NULL);
    do {
        wait_news(f);
    } while (f->trouble != SOURCE_MISSING);
    publish(f, "two");
    wait_text(f, "two");
    assert_int_equal(rename(f->mount, in_mount(f, "../aside", path)), 0);
    do {
        wait_news(f);
    } while (f->trouble != SOURCE_MISSING);
    publish(f, "three");
    wait_text(f, "three");
    temp_dir_empty(path);
}

/* What would hold the file is not there, nor what is above, so that there is nothing to watch. */
static void looks_often_where_nothing_can_be_watched(void **state)
{
    struct fixture *f = *state;
    char folder[512];
    char file[512];
    struct source_dir_options o = {.look_ms = LONG_MS, .blind_ms = 30};
    struct err e = ERR_INIT;
    o.path = in_mount(f, "deep/rules.json", file);
    (void)in_mount(f, "deep", folder);
    f->source = source_dir_new(f->loop, &o, &handlers, f, &e);
    assert_non_null(f->source);
    wait_news(f);
    assert_true(f->blind);
    wait_news(f); /* another look, though there was no event */
    assert_int_equal(f->blind_changes, 1);
    assert_int_equal(mkdir(f->mount, 0755), 0);
    assert_int_equal(mkdir(folder, 0755), 0);
    write_at(file, "one");
    wait_text(f, "one");
    assert_false(f->blind);
    assert_int_equal(f->blind_changes, 2);
    write_at(file, "two");
    wait_text(f, "two");
}

static void sees_a_folder_that_was_made_again(void **state)
{
    struct fixture *f = *state;
    publish(f, "one");
    start(f, f->mount, LONG_MS);
    wait_text(f, "one");
    for (unsigned i = 0; i < 5; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "again %u", i);
        temp_dir_empty(f->mount);
        assert_int_equal(rmdir(f->mount), 0);
        if (i % 2 == 1) { /* with and without a look in between */
            do {
                wait_news(f);
            } while (f->trouble != SOURCE_MISSING);
        }
        publish(f, text);
        wait_text(f, text);
        publish(f, "swap");
        wait_text(f, "swap");
    }
}

/* Rules that were put in place by a rename are not half-written: no need to wait. */
static void says_at_once_what_is_wrong_in_a_mount(void **state)
{
    struct fixture *f = *state;
    f->refuse = true;
    publish(f, "bad");
    start(f, f->mount, LONG_MS);
    wait_news(f);
    assert_int_equal(f->offers, 1);
    assert_int_equal(f->finals, 1);
    run_for(f->loop, 10 * RETRY_MS);
    assert_int_equal(f->offers, 1);
}

static void looks_when_told_to(void **state)
{
    struct fixture *f = *state;
    publish(f, "one");
    start(f, f->mount, LONG_MS);
    wait_text(f, "one");
    source_dir_look(f->source);
    wait_text(f, "one");
    assert_int_equal(f->offers, 2);
}

/* ---- plain files ---- */

static void follows_a_file(void **state)
{
    struct fixture *f = *state;
    char path[256];
    char beside[256];
    start(f, temp_dir_path(&f->dir, "rules", path), LONG_MS);
    wait_news(f);
    assert_int_equal(f->trouble, SOURCE_MISSING);
    write_at(path, "one");
    wait_text(f, "one");
    write_at(path, "two"); /* in place */
    wait_text(f, "two");
    write_at(temp_dir_path(&f->dir, "beside", beside), "three");
    assert_int_equal(rename(beside, path), 0);
    wait_text(f, "three");
    unsigned before = f->offers;
    write_at(beside, "noise");
    run_for(f->loop, 100);
    assert_int_equal(f->offers, before);
    assert_int_equal(unlink(path), 0);
    do {
        wait_news(f);
    } while (f->trouble != SOURCE_MISSING);
}

/* Written to just now, however long the test itself takes. */
static void write_young(const char *path, const char *text)
{
    const struct timespec times[2] = {{.tv_sec = time(NULL) + 1000}, {.tv_sec = time(NULL) + 1000}};
    write_at(path, text);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void is_patient_with_a_half_written_file(void **state)
{
    struct fixture *f = *state;
    char path[256];
    (void)temp_dir_path(&f->dir, "rules", path);
    f->refuse = true;
    write_young(path, "{\"apiVersion\":\"cme");
    start_with(f, path, LONG_MS, LONG_MS); /* five of these is its patience */
    wait_offers(f, 1);
    run_for(f->loop, 2 * RETRY_MS);
    assert_int_equal(f->finals, 0);
    f->refuse = false;
    write_young(path, "whole");
    wait_text(f, "whole");
    assert_true(f->offers > 1);
    unsigned before = f->offers;
    f->finals = 0;
    f->refuse = true; /* the same after a good one */
    write_young(path, "{");
    wait_offers(f, before + 1);
    run_for(f->loop, 2 * RETRY_MS);
    assert_int_equal(f->finals, 0);
}

static void looks_again_at_a_half_written_file(void **state)
{
    struct fixture *f = *state;
    char path[256];
    (void)temp_dir_path(&f->dir, "rules", path);
    write_young(path, "whole");
    start(f, path, LONG_MS);
    wait_text(f, "whole");
    f->finals = 0;
    f->refuse = true;
    write_young(path, "{");
    wait_news(f);
    assert_int_equal(f->finals, 1);
    assert_in_range(f->offers, 3, 9); /* patient, and then no more */
}

static void is_not_patient_for_ever(void **state)
{
    struct fixture *f = *state;
    char path[256];
    f->refuse = true;
    temp_dir_write(&f->dir, "rules", "{", 0644);
    start(f, temp_dir_path(&f->dir, "rules", path), LONG_MS);
    wait_news(f);
    assert_int_equal(f->finals, 1);
    unsigned before = f->offers;
    run_for(f->loop, 10 * RETRY_MS);
    assert_int_equal(f->offers, before);
    /* Somebody who writes all the time does not keep it from being said either. */
    for (unsigned i = 0; i < 100 && f->finals == 1; i++) {
        write_at(path, "{{");
        run_for(f->loop, RETRY_MS / 4);
    }
    assert_in_range(f->finals, 2, 8);
}

static void says_at_once_what_is_wrong_in_an_old_file(void **state)
{
    struct fixture *f = *state;
    char path[256];
    f->refuse = true;
    temp_dir_write(&f->dir, "rules", "{", 0644);
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, temp_dir_path(&f->dir, "rules", path), times, 0), 0);
    start(f, path, LONG_MS);
    wait_news(f);
    assert_int_equal(f->offers, 1);
    assert_int_equal(f->finals, 1);
}

static void says_what_cannot_be_read(void **state)
{
    struct fixture *f = *state;
    char path[512];
    assert_int_equal(mkdir(f->mount, 0755), 0);
    assert_int_equal(mkfifo(in_mount(f, SOURCE_KEY, path), 0644), 0);
    start(f, f->mount, LONG_MS);
    wait_news(f);
    assert_int_equal(f->trouble, SOURCE_UNREADABLE);
    assert_non_null(strstr(f->error, "not a file"));
    assert_int_equal(unlink(path), 0);
    write_at(path, "");
    assert_int_equal(truncate(path, 9 * 1024 * 1024), 0);
    do {
        wait_news(f);
    } while (strstr(f->error, "larger than the limit") == NULL);
    assert_int_equal(f->trouble, SOURCE_UNREADABLE);
    write_at(path, "good");
    wait_text(f, "good");
}

static void knows_mounts_that_never_change(void **state)
{
    struct fixture *f = *state;
    char info[256];
    char line[1024];
    publish(f, "one");
    (void)snprintf(line, sizeof line,
                   "702 660 8:1 /x/..2024_05/rules.json %s/rules.json ro - e /d\n", f->mount);
    temp_dir_write(&f->dir, "mountinfo", line, 0644);
    struct source_dir_options o = {.path = f->mount,
                                   .mountinfo = temp_dir_path(&f->dir, "mountinfo", info)};
    struct err e = ERR_INIT;
    f->source = source_dir_new(f->loop, &o, &handlers, f, &e);
    assert_non_null(f->source);
    wait_text(f, "one");
    assert_non_null(strstr(f->warning, "subPath"));
    f->warning[0] = '\0';
    source_dir_look(f->source);
    wait_text(f, "one");
    assert_string_equal(f->warning, ""); /* once */
}

static void refuses_long_paths(void **state)
{
    struct fixture *f = *state;
    char path[5000];
    struct err e = ERR_INIT;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct source_dir_options o = {.path = path};
    assert_null(source_dir_new(f->loop, &o, &handlers, f, &e));
    assert_int_equal(e.code, -ENAMETOOLONG);
}

static void can_be_freed_at_once(void **state)
{
    struct fixture *f = *state;
    start(f, f->mount, LONG_MS);
    source_dir_free(f->source);
    f->source = NULL;
    run_for(f->loop, 50);
    assert_int_equal(f->troubles, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(sees_every_swap),
        TEST(a_burst_is_one),
        TEST(sees_what_it_was_not_told),
        TEST(waits_for_a_folder_and_for_a_key),
        TEST(looks_often_where_nothing_can_be_watched),
        TEST(sees_a_folder_that_was_made_again),
        TEST(says_at_once_what_is_wrong_in_a_mount),
        TEST(looks_when_told_to),
        TEST(follows_a_file),
        TEST(is_patient_with_a_half_written_file),
        TEST(looks_again_at_a_half_written_file),
        TEST(is_not_patient_for_ever),
        TEST(says_at_once_what_is_wrong_in_an_old_file),
        TEST(says_what_cannot_be_read),
        TEST(knows_mounts_that_never_change),
        TEST(refuses_long_paths),
        TEST(can_be_freed_at_once),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
