/* SPDX-License-Identifier: Apache-2.0 */
#include "same_cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "temp_dir.h"

/* Two clusters "a" and "b", each in a kubeconfig of a folder of its own. */
static int is_same(const char *a, const char *b)
{
    struct temp_dir dir;
    char path[3][256];
    char text[1024];
    char list[600];
    struct err e = ERR_INIT;
    temp_dir_init(&dir);
    (void)temp_dir_path(&dir, "one", path[0]);
    (void)temp_dir_path(&dir, "two", path[1]);
    assert_int_equal(mkdir(path[0], 0700), 0);
    assert_int_equal(mkdir(path[1], 0700), 0);
    (void)snprintf(text, sizeof text, "clusters: [{name: a, cluster: {%s}}]\n", a);
    temp_dir_write(&dir, "one/config", text, 0600);
    (void)snprintf(text, sizeof text, "clusters: [{name: b, cluster: {%s}}]\n", b);
    temp_dir_write(&dir, "two/config", text, 0600);
    temp_dir_write(&dir, "one/ca.crt", "x", 0600);
    temp_dir_write(&dir, "two/ca.crt", "x", 0600);
    (void)snprintf(text, sizeof text, "%s/link.crt", path[1]);
    assert_int_equal(symlink("../one/ca.crt", text), 0);
    (void)snprintf(list, sizeof list, "%s/config:%s/config", path[0], path[1]);
    assert_int_equal(setenv("KUBECONFIG", list, 1), 0);
    struct kubeconfig *kc = kubeconfig_load(NULL, &e);
    if (kc == NULL) {
        fail_msg("%s", e.msg);
    }
    const struct kubeconfig_entry *x = kubeconfig_find(&kc->clusters, "a");
    const struct kubeconfig_entry *y = kubeconfig_find(&kc->clusters, "b");
    int same = same_cluster(x, y);
    assert_int_equal(same_cluster(y, x), same);
    assert_int_equal(same_cluster(x, x), 1);
    kubeconfig_free(kc);
    (void)unlink(text);
    temp_dir_deinit(&dir);
    return same;
}

#define DATA "certificate-authority-data: QQ=="
#define HOME "server: 'https://127.0.0.1:6443'"

static void what_is_one(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"server: 'https://a', " DATA, "server: 'https://a', " DATA},
        {"server: 'https://a', " DATA, "server: 'https://A:443/', " DATA},
        {"server: 'https://a/x'", "server: 'https://a/x/'"},
        {"server: 'https://a'", "server: 'https://a'"},
        {HOME ", " DATA, HOME ", " DATA},
        {HOME ", certificate-authority: ca.crt", HOME ", certificate-authority: ../one/./ca.crt"},
        {HOME ", certificate-authority: ca.crt", HOME ", certificate-authority: link.crt"},
        {HOME ", certificate-authority: /none/ca.crt",
         HOME ", certificate-authority: /none/ca.crt"},
        /* As for clients, data counts before a file. */
        {HOME ", " DATA ", certificate-authority: ca.crt", HOME ", " DATA},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (!is_same(cases[i][0], cases[i][1])) {
            fail_msg("two: %s and %s", cases[i][0], cases[i][1]);
        }
    }
}

static void what_is_two(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"server: 'https://a'", "server: 'https://b'"},
        {"server: 'https://a'", "server: 'http://a:443'"},
        {"server: 'https://a'", "server: 'https://a:6443'"},
        {"server: 'https://a/k8s/one'", "server: 'https://a/k8s/One'"},
        {"server: 'https://a', proxy-url: 'http://p'", "server: 'https://a'"},
        {"server: 'https://a', tls-server-name: x", "server: 'https://a', tls-server-name: y"},
        {"server: 'https://a', " DATA, "server: 'https://a', certificate-authority-data: Qg=="},
        {"server: 'https://a', " DATA, "server: 'https://a'"},
        {"server: 'https://a', " DATA, "server: 'https://a', certificate-authority: ca.crt"},
        /* Ends of tunnels. The files are not the same ones, nor told from each other by what is in
         * them; and without an authority nothing tells them apart. */
        {HOME ", certificate-authority: ca.crt", HOME ", certificate-authority: ca.crt"},
        {HOME ", certificate-authority: none.crt", HOME ", certificate-authority: none.crt"},
        {HOME, HOME},
        {HOME ", insecure-skip-tls-verify: true", HOME ", insecure-skip-tls-verify: true"},
        {"server: 'https://LocalHost:1'", "server: 'https://localhost:1'"},
        {"server: 'https://[::1]:1'", "server: 'https://[::1]:1'"},
        {"namespace: x", "namespace: x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (is_same(cases[i][0], cases[i][1])) {
            fail_msg("one: %s and %s", cases[i][0], cases[i][1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_one),
        cmocka_unit_test(what_is_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
