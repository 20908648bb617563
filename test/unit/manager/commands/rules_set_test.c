/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/rules_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "temp_dir.h"

#define RULES(name)                                                                                \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","        \
    "\"name\":\"" name "\"},\"generation\":3,\"spec\":{\"limits\":[]}}"
#define CONFIGMAP(name)                                                                            \
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cmesh-rules-" name "}\ndata:\n"             \
    "  rules.json: '" RULES(name) "'\n"

#define TRAFFIC(name)                                                                              \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"ns\","      \
    "\"name\":\"" name "\"},\"generation\":5,\"spec\":{}}"
#define BOTH(name)                                                                                 \
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cmesh-rules-" name                          \
    ", namespace: ns}\ndata:\n"                                                                    \
    "  rules.json: '" RULES(name) "'\n  traffic.json: "

struct fixture {
    struct temp_dir dir;
    char path[256];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    temp_dir_init(&f->dir);
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

/* The names of all shards, separated by blanks, or what went wrong. */
static const char *read_all(struct fixture *f, const char *name, char out[ERR_MSG_MAX])
{
    struct rules_set s = RULES_SET_INIT;
    struct err e = ERR_INIT;
    const char *path = temp_dir_path(&f->dir, name, f->path);
    out[0] = '\0';
    if (rules_set_read(&s, path, &e) != 0) {
        const char *at = strstr(e.msg, f->dir.path);
        assert_ptr_equal(at, e.msg); /* the file comes first */
        (void)snprintf(out, ERR_MSG_MAX, "%s", e.msg + strlen(f->dir.path) + 1);
    } else {
        rules_set_sort(&s);
        for (size_t i = 0; i < s.count; i++) {
            char shard[RULES_SET_NAME];
            (void)strncat(out, i > 0 ? " " : "", 2);
            (void)strncat(out, rules_set_name(s.items[i], shard), 100);
            assert_ptr_equal(rules_set_find(&s, s.items[i]), s.items[i]);
        }
    }
    rules_set_deinit(&s);
    return out;
}

static void what_files_hold(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        {RULES("a"), "ns/a"},
        {"--- " RULES("b") "\n--- " RULES("a") "\n", "ns/a ns/b"},
        {"kind: Pod\n---\n" CONFIGMAP("a") "---\nkind: ConfigMap\ndata: {other: x}\n---\n", "ns/a"},
        {"kind: List\nitems:\n- {kind: ConfigMap}\n- {kind: ConfigMap, data: {rules.json: "
         "'" RULES("x") "'}}\n",
         "ns/x"},
        {"{\"kind\":\"ConfigMapList\",\"items\":[" RULES("c") "]}", "ns/c"},
        {"", "f.json: contains no rules document"},
        {"kind: ShardingConfig\n", "f.json: contains no rules document"},
        {"{", "f.json: line 2, column 1: "},
        {"kind: ShardRules\n", "f.json: line 1: apiVersion: "},
        {"kind: ConfigMap\nmetadata: {name: m}\ndata: {rules.json: '{}'}\n", "f.json: m: line 1: "},
        {"--- " RULES("a") "\n--- " RULES("a") "\n",
         "f.json: there is more than one document for shard ns/a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char got[ERR_MSG_MAX];
        temp_dir_write(&f->dir, "f.json", cases[i].text, 0644);
        (void)read_all(f, "f.json", got);
        if (strncmp(got, cases[i].want, strlen(cases[i].want)) != 0) {
            fail_msg("%s: wanted \"%s\", got \"%s\"", cases[i].text, cases[i].want, got);
        }
    }
}

static void folders(void **state)
{
    struct fixture *f = *state;
    char got[ERR_MSG_MAX];
    assert_int_equal(mkdir(temp_dir_path(&f->dir, "d", f->path), 0755), 0);
    assert_string_equal(read_all(f, "d", got), "");
    temp_dir_write(&f->dir, "d/ns.b.json", RULES("b"), 0644);
    temp_dir_write(&f->dir, "d/a.yaml", CONFIGMAP("a"), 0644);
    temp_dir_write(&f->dir, "d/README.md", "nothing", 0644);
    assert_string_equal(read_all(f, "d", got), "ns/a ns/b");
    temp_dir_write(&f->dir, "d/c.yml", "x: y", 0644);
    assert_string_equal(read_all(f, "d", got), "d/c.yml: contains no rules document");
    assert_string_equal(read_all(f, "none", got), "none: cannot open: No such file or directory");
}

static void traffic_documents(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        uint64_t generation; /* 0: none */
        const char *unread;
        const char *error;
    } cases[] = {
        {"--- " RULES("a") "\n--- " TRAFFIC("a") "\n", 5, NULL, NULL},
        {"--- " RULES("a") "\n--- " TRAFFIC("b") "\n", 0, NULL, NULL},
        {BOTH("a") "'" TRAFFIC("a") "'\n", 5, NULL, NULL},
        {BOTH("a") "'{}'\n", 0, "ns/a", NULL},
        {"--- " TRAFFIC("a") "\n--- " TRAFFIC("a") "\n", 0, NULL,
         "there is more than one document for shard ns/a"},
        {"kind: ShardTraffic\n", 0, NULL, "line 1: apiVersion: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rules_set s = RULES_SET_INIT;
        struct err e = ERR_INIT;
        temp_dir_write(&f->dir, "f.json", cases[i].text, 0644);
        int rc = rules_set_read(&s, temp_dir_path(&f->dir, "f.json", f->path), &e);
        assert_int_equal(rc == 0, cases[i].error == NULL);
        assert_true(rc == 0 || strstr(e.msg, cases[i].error) != NULL);
        const struct traffic *t = rc == 0 && s.count > 0 ? rules_set_traffic(&s, s.items[0]) : NULL;
        assert_int_equal(t == NULL ? 0 : traffic_generation(t), cases[i].generation);
        assert_int_equal(s.unread_count, cases[i].unread == NULL ? 0 : 1);
        if (cases[i].unread != NULL) {
            assert_string_equal(s.unread[0].shard, cases[i].unread);
            assert_true(s.unread[0].traffic);
        }
        rules_set_deinit(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_files_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(traffic_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(folders, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
