/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/namespace_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
    (void)temp_dir_path(&f->dir, "names", f->path);
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

/* `want`: names, each followed by a space. */
static void expect_names(const struct fixture *f, const char *text, const char *want)
{
    struct namespace_names n = NAMESPACE_NAMES_INIT;
    struct err e = ERR_INIT;
    char found[256] = "";
    temp_dir_write(&f->dir, "names", text, 0644);
    if (namespace_names_read(&n, f->path, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    for (size_t i = 0; i < n.count; i++) {
        (void)strcat(strcat(found, n.items[i]), " ");
    }
    assert_string_equal(found, want);
    namespace_names_deinit(&n);
}

static void expect_error(const struct fixture *f, const char *text, const char *words)
{
    struct namespace_names n = NAMESPACE_NAMES_INIT;
    struct err e = ERR_INIT;
    temp_dir_write(&f->dir, "names", text, 0644);
    assert_int_not_equal(namespace_names_read(&n, f->path, &e), 0);
    if (strstr(e.msg, words) == NULL || strstr(e.msg, f->path) == NULL) {
        fail_msg("wanted \"%s\" in: %s", words, e.msg);
    }
    namespace_names_deinit(&n);
}

#define ITEMS                                                                                      \
    "items:\n"                                                                                     \
    "- {apiVersion: v1, kind: Namespace, metadata: {name: w}}\n"                                   \
    "- {apiVersion: v1, kind: Namespace, metadata: {name: x}}\n"

static void names_in_lines(void **state)
{
    const struct fixture *f = *state;
    expect_names(f, "b\na\nb", "a b ");
    expect_names(f, "namespace/b\r\n\n  # ours\n\tnamespaces/a \n", "a b ");
    expect_names(f, "true\n1\n", "1 true ");
}

static void names_in_documents(void **state)
{
    const struct fixture *f = *state;
    expect_names(f, "kind: List\n" ITEMS, "w x ");
    expect_names(f, "kind: NamespaceList\n" ITEMS, "w x ");
    expect_names(f, "{\"kind\":\"NamespaceList\",\"items\":[{\"metadata\":{\"name\":\"raw\"}}]}",
                 "raw ");
    expect_names(f, "kind: Namespace\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: p}\n",
                 "a ");
}

static void what_is_none(void **state)
{
    const struct fixture *f = *state;
    expect_error(f, "", "contains no namespace");
    expect_error(f, "# none\n", "contains no namespace");
    expect_error(f, "kind: List\nitems: []\n", "contains no namespace");
    expect_error(f, "kind: PodList\n" ITEMS, "contains no namespace");
    expect_error(f, "NAME   STATUS   AGE\na    Active   1d\n", "line 1 is no name of a namespace");
    expect_error(f, "a\nB_c\n", "line 2 is no name of a namespace");
    expect_error(f, "kind: Namespace\nmetadata: {name: A}\n",
                 "metadata.name: Invalid value: \"A\"");
    expect_error(f, "kind: [\n", "line 2");
}

static void no_file(void **state)
{
    const struct fixture *f = *state;
    struct namespace_names n = NAMESPACE_NAMES_INIT;
    struct err e = ERR_INIT;
    assert_int_not_equal(namespace_names_read(&n, f->path, &e), 0);
    assert_non_null(strstr(e.msg, f->path));
    namespace_names_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_in_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(names_in_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(no_file, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
