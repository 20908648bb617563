/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a folder tells of traffic policies: one that the kubelet keeps, any other, and a single
 * file.
 */
#include "loop_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "source_dir.h"
#include "temp_dir.h"

enum { RETRY_MS = 10, LONG_MS = 60000 };

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir;
    char mount[256];
    struct source_dir *source;
    unsigned moment; /* for names of folders */
    unsigned looks;  /* what was told of rules */
    bool refuse;     /* what is offered */
    char told[1024]; /* of traffic policies: the text, "none", "silent" or what is wrong */
    unsigned offers;
    unsigned finals;
    unsigned nones;
    bool news;
};

/* ---- what the source tells ---- */

static int on_rules(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct fixture *f = data;
    (void)place;
    (void)text;
    (void) final;
    (void)e;
    f->looks++;
    return 0;
}

static void on_rules_trouble(void *data, enum source_trouble trouble, const struct err *e,
                             enum log_level level)
{
    (void)level;
    (void)data;
    (void)trouble;
    (void)e;
}

static void on_warn(void *data, const char *text)
{
    (void)data;
    (void)text;
}

static const struct source_handlers rules_handlers = {
    .offer = on_rules,
    .trouble = on_rules_trouble,
    .warn = on_warn,
};

static void tell(struct fixture *f, const char *text)
{
    (void)snprintf(f->told, sizeof f->told, "%s", text);
    f->news = true;
}

static int on_traffic(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct fixture *f = data;
    char copy[128];
    assert_non_null(strstr(place, "mount/traffic.json"));
    (void)snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.ptr);
    f->offers++;
    f->finals += final;
    tell(f, copy);
    return f->refuse ? err_set(e, -EINVAL, "refused") : 0;
}

static void on_traffic_trouble(void *data, enum source_trouble trouble, const struct err *e,
                               enum log_level level)
{
    (void)level;
    if (trouble != SOURCE_FINE) {
        tell(data, e->msg);
    }
}

static void on_none(void *data)
{
    struct fixture *f = data;
    f->nones++;
    tell(f, "none");
}

static void on_silent(void *data)
{
    tell(data, "silent");
}

static const struct source_handlers traffic_handlers = {
    .offer = on_traffic,
    .trouble = on_traffic_trouble,
    .none = on_none,
    .silent = on_silent,
};

/* ---- the folder ---- */

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0) {
        return -1;
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&f->dir);
    assert_int_equal(mkdir(temp_dir_path(&f->dir, "mount", f->mount), 0755), 0);
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

static void start_with(struct fixture *f, const char *path, uint64_t retry_ms)
{
    struct source_dir_options o = {
        .path = path,
        .look_ms = LONG_MS,
        .settle_ms = 5,
        .retry_ms = retry_ms,
        .traffic = {.handlers = &traffic_handlers, .data = f},
    };
    f->source = source_dir_new(f->loop, &o, &rules_handlers, f, NULL);
    assert_non_null(f->source);
}

static void start(struct fixture *f, const char *path)
{
    start_with(f, path, RETRY_MS);
}

static void wait_told(struct fixture *f, const char *words)
{
    while (strstr(f->told, words) == NULL) {
        f->news = false;
        run_until(f->loop, &f->news);
    }
}

static const char *in_mount(const struct fixture *f, const char *name, char out[512])
{
    (void)snprintf(out, 512, "%s/%s", f->mount, name);
    return out;
}

static void write_key(const struct fixture *f, const char *folder, const char *key,
                      const char *text)
{
    char name[128];
    (void)snprintf(name, sizeof name, "mount/%.64s%.32s", folder, key);
    temp_dir_write(&f->dir, name, text, 0644);
}

static void link_key(const struct fixture *f, const char *key)
{
    char path[512];
    char target[64];
    (void)snprintf(target, sizeof target, "..data/%.32s", key);
    assert_true(symlink(target, in_mount(f, key, path)) == 0 || errno == EEXIST);
}

/* As the kubelet does it: a new folder, a new link to it, the link renamed over `..data`. NULL: the
 * ConfigMap has no such key. */
static void swap(struct fixture *f, const char *rules, const char *traffic)
{
    char path[512];
    char link[512];
    char folder[64];
    (void)snprintf(folder, sizeof folder, "..2024_05_01_10_00_00.%u/", ++f->moment);
    assert_int_equal(mkdir(in_mount(f, folder, path), 0755), 0);
    if (rules != NULL) {
        write_key(f, folder, SOURCE_KEY, rules);
    }
    if (traffic != NULL) {
        write_key(f, folder, SOURCE_TRAFFIC_KEY, traffic);
    }
    assert_int_equal(symlink(folder, in_mount(f, "..data_tmp", link)), 0);
    assert_int_equal(rename(link, in_mount(f, "..data", path)), 0);
    link_key(f, SOURCE_KEY);
    link_key(f, SOURCE_TRAFFIC_KEY);
}

/* ---- tests ---- */

static void a_mounted_configmap(void **state)
{
    struct fixture *f = *state;
    swap(f, "r", NULL);
    start(f, f->mount);
    wait_told(f, "none");
    swap(f, "r", "first");
    wait_told(f, "first");
    swap(f, "r", "second");
    wait_told(f, "second");
    assert_int_equal(f->offers, 2);
    assert_int_equal(f->finals, 2);
    swap(f, "r", NULL);
    wait_told(f, "none");
    swap(f, "r", "third");
    wait_told(f, "third");
    swap(f, NULL, NULL); /* the ConfigMap was deleted, and is optional */
    wait_told(f, "has neither key rules.json nor traffic.json");
    swap(f, NULL, "fourth");
    wait_told(f, "fourth");
}

/* What rules do is nothing to them. */
static void a_change_of_rules_offers_nothing(void **state)
{
    struct fixture *f = *state;
    swap(f, "r", "first");
    start(f, f->mount);
    wait_told(f, "first");
    unsigned looks = f->looks;
    char path[512];
    assert_int_equal(unlink(in_mount(f, SOURCE_KEY, path)), 0);
    write_key(f, "", SOURCE_KEY, "s");
    for (unsigned i = 0; i < 2000 && f->looks == looks; i++) {
        run_for(f->loop, 5);
    }
    assert_true(f->looks > looks);
    assert_int_equal(f->offers, 1);
    source_dir_look(f->source);
    for (unsigned i = 0; i < 2000 && f->offers == 1; i++) {
        run_for(f->loop, 5);
    }
    assert_int_equal(f->offers, 2);
}

/* An editor removes a file and writes it anew: that is not the end of its policies. */
static void what_is_gone_is_looked_for_twice(void **state)
{
    struct fixture *f = *state;
    char path[512];
    write_key(f, "", SOURCE_KEY, "r");
    write_key(f, "", SOURCE_TRAFFIC_KEY, "first");
    start_with(f, f->mount, LONG_MS);
    wait_told(f, "first");
    assert_int_equal(unlink(in_mount(f, SOURCE_TRAFFIC_KEY, path)), 0);
    run_for(f->loop, 50);
    write_key(f, "", SOURCE_TRAFFIC_KEY, "second");
    wait_told(f, "second");
    assert_int_equal(f->nones, 0);
}

static void what_stays_gone_is_none(void **state)
{
    struct fixture *f = *state;
    char path[512];
    write_key(f, "", SOURCE_KEY, "r");
    for (unsigned i = 0; i < 3; i++) {
        write_key(f, "", SOURCE_TRAFFIC_KEY, "first");
        if (f->source == NULL) {
            start(f, f->mount);
        }
        wait_told(f, "first");
        assert_int_equal(unlink(in_mount(f, SOURCE_TRAFFIC_KEY, path)), 0);
        wait_told(f, "none");
    }
}

static void a_half_written_file_is_read_again(void **state)
{
    struct fixture *f = *state;
    f->refuse = true;
    write_key(f, "", SOURCE_KEY, "r");
    write_key(f, "", SOURCE_TRAFFIC_KEY, "ha");
    start(f, f->mount);
    wait_told(f, "ha");
    assert_int_equal(f->finals, 0);
    f->refuse = false;
    write_key(f, "", SOURCE_TRAFFIC_KEY, "half");
    wait_told(f, "half");
}

static void what_is_no_file(void **state)
{
    struct fixture *f = *state;
    char path[512];
    write_key(f, "", SOURCE_KEY, "r");
    assert_int_equal(mkdir(in_mount(f, SOURCE_TRAFFIC_KEY, path), 0755), 0);
    start(f, f->mount);
    wait_told(f, "mount/traffic.json: not a file");
    assert_int_equal(rmdir(path), 0);
    wait_told(f, "none");
}

static void a_single_file_says_nothing(void **state)
{
    struct fixture *f = *state;
    char path[512];
    write_key(f, "", SOURCE_TRAFFIC_KEY, "first");
    start(f, in_mount(f, "my.json", path));
    wait_told(f, "No such file"); /* it may become a folder */
    write_key(f, "", "my.json", "r");
    wait_told(f, "silent");
    assert_int_equal(f->offers, 0);
    assert_int_equal(f->nones, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_mounted_configmap),
        TEST(a_change_of_rules_offers_nothing),
        TEST(what_is_gone_is_looked_for_twice),
        TEST(what_stays_gone_is_none),
        TEST(a_half_written_file_is_read_again),
        TEST(what_is_no_file),
        TEST(a_single_file_says_nothing),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
