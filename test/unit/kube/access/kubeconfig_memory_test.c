/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory at any point of reading a kubeconfig, resolving an access, keeping its credentials
 * and generating from it: an error, no crash, no leak.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/log.h"
#include "generate.h"
#include "kube/access/access.h"
#include "kube/access/credentials.h"
#include "kube/access/exec_credential.h"
#include "loop_fixture.h"
#include "temp_dir.h"

static const char text[] =
    "clusters:\n"
    "- name: c\n"
    "  cluster: &c\n"
    "    server: https://h/p\n"
    "    certificate-authority: ca\n"
    "    proxy-url: 'http://user:pass@proxy:1'\n"
    "    extensions: [{name: client.authentication.k8s.io/exec, extension: {a: [1, x]}}]\n"
    "- {name: d, cluster: *c}\n"
    "users:\n"
    "- name: certificate\n"
    "  user: {client-certificate-data: QQ==, client-key-data: Qg==, as: me, as-groups: [g],\n"
    "    as-user-extra: {k: [v]}}\n"
    "- name: file\n"
    "  user: {tokenFile: token}\n"
    "- name: basic\n"
    "  user: {username: a, password: b}\n"
    "- name: exec\n"
    "  user:\n"
    "    exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false, args: [a, b],\n"
    "      env: [{name: A, value: b}], interactiveMode: Never, provideClusterInfo: true,\n"
    "      installHint: none}\n"
    "contexts:\n"
    "- {name: certificate, context: {cluster: c, user: certificate, namespace: ns}}\n"
    "- {name: file, context: {cluster: c, user: file}}\n"
    "- {name: basic, context: {cluster: d, user: basic}}\n"
    "- {name: exec, context: {cluster: d, user: exec}}\n";

struct fixture {
    struct temp_dir dir;
    char path[256];
    const char *context;
};

static int setup(void **state)
{
    static struct fixture f;
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&f.dir);
    temp_dir_write(&f.dir, "config", text, 0600);
    temp_dir_write(&f.dir, "ca", "CA", 0600);
    temp_dir_write(&f.dir, "token", "token", 0600);
    temp_dir_path(&f.dir, "config", f.path);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_deinit(&f->dir);
    return 0;
}

static bool told(const struct err *e)
{
    assert_int_equal(e->code, -ENOMEM);
    assert_true(e->msg[0] != '\0');
    return false;
}

static bool load(struct fixture *f, struct kube_access *a)
{
    struct err e = ERR_INIT;
    struct kubeconfig *kc = kubeconfig_load(f->path, &e);
    int rc = kc == NULL ? e.code : kube_access_resolve(kc, f->context, a, &e);
    kubeconfig_free(kc);
    return rc == 0 || told(&e);
}

static bool resolve(void *data)
{
    struct kube_access a;
    if (!load(data, &a)) {
        return false;
    }
    kube_access_deinit(&a);
    return true;
}

static void test_access(void **state)
{
    struct fixture *f = *state;
    static const char *const contexts[] = {"certificate", "file", "basic", "exec"};
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        f->context = contexts[i];
        assert_true(sweep_allocations(resolve, f) > 100);
    }
}

static bool generate(void *data)
{
    static const struct url proxy = {.host = "127.0.0.1", .port = 5443};
    struct generate_options o = {.proxy = &proxy, .token = "a local token"};
    struct generate_notes notes;
    struct fixture *f = data;
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(1 << 20);
    struct buf manifest = BUF_INIT(1 << 20);
    struct kubeconfig *kc = kubeconfig_load(f->path, &e);
    int rc = kc == NULL ? e.code : generate_from_kubeconfig(kc, &o, &out, &notes, &e);
    rc = rc != 0 ? rc : generate_configmap("ns/name", "a: b\n", &manifest, &e);
    kubeconfig_free(kc);
    buf_reset(&out);
    buf_reset(&manifest);
    return rc == 0 || told(&e);
}

static void test_generate(void **state)
{
    assert_true(sweep_allocations(generate, *state) > 100);
}

/* What the loop waits for at the end; the plugin fails by itself (/bin/false). */
struct run {
    struct net_loop *loop;
    struct kube_access access;
};

static bool keep(void *data)
{
    struct run *r = data;
    struct err e = ERR_INIT;
    struct credentials *c = credentials_new(r->loop, &r->access, NULL, &e);
    if (c == NULL) {
        run_to_end(r->loop);
        return told(&e);
    }
    (void)credentials_authorization(c);
    credentials_close(c, NULL, NULL);
    run_to_end(r->loop);
    return true;
}

static void test_credentials(void **state)
{
    struct fixture *f = *state;
    static const char *const contexts[] = {"certificate", "file", "basic", "exec"};
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        struct run r;
        f->context = contexts[i];
        assert_int_equal(loop_setup((void **)&r.loop), 0);
        assert_true(load(f, &r.access));
        assert_true(sweep_allocations(keep, &r) > 1);
        kube_access_deinit(&r.access);
        assert_int_equal(loop_free(r.loop), 0);
    }
}

static bool parse_credential(void *data)
{
    struct exec_credential c;
    struct err e = ERR_INIT;
    (void)data;
    int rc = exec_credential_parse(
        SLICE("{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\","
              "\"status\":{\"token\":\"t\",\"clientCertificateData\":\"c\",\"clientKeyData\":\"k\"}"
              "}"),
        "client.authentication.k8s.io/v1", 0, &c, &e);
    if (rc != 0) {
        return told(&e);
    }
    exec_credential_deinit(&c);
    return true;
}

static void test_exec_credential(void **state)
{
    assert_true(sweep_allocations(parse_credential, *state) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_access, setup, teardown),
        cmocka_unit_test_setup_teardown(test_generate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_credentials, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_credential, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
