/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener's certificate and token are those of the files, also after the files changed.
 */
#include "listen/listener_secrets.h"

#include <time.h>

#include "certs.h"
#include "loop_fixture.h"
#include "program/local_tls.h"
#include "temp_dir.h"

enum { CHECK_MS = 20 };

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir;
    struct localproxy_flags flags;
    struct listener_secrets *secrets;
    struct certs_pair first;
    struct certs_pair second;
    bool changed;
    unsigned changes;
    char token[256];
    char cert[256];
    char key[256];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(loop_setup((void **)&f->loop), 0);
    temp_dir_init(&f->dir);
    certs_make_ca("first", &f->first);
    certs_make_ca("second", &f->second);
    (void)temp_dir_path(&f->dir, "token", f->token);
    (void)temp_dir_path(&f->dir, "cert", f->cert);
    (void)temp_dir_path(&f->dir, "key", f->key);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    listener_secrets_free(f->secrets);
    run_to_end(f->loop);
    int rc = loop_free(f->loop);
    certs_free(&f->first);
    certs_free(&f->second);
    temp_dir_deinit(&f->dir);
    free(f);
    return rc;
}

static void on_tls(void *data)
{
    struct fixture *f = data;
    f->changed = true;
    f->changes++;
}

static void start(struct fixture *f)
{
    struct err e = ERR_INIT;
    f->secrets = listener_secrets_new(f->loop, &f->flags, CHECK_MS, &e);
    if (f->secrets == NULL) {
        fail_msg("%s", e.msg);
    }
    listener_secrets_on_tls(f->secrets, on_tls, f);
}

static void fails_to_start(struct fixture *f, const char *words)
{
    struct err e = ERR_INIT;
    f->secrets = listener_secrets_new(f->loop, &f->flags, CHECK_MS, &e);
    assert_null(f->secrets);
    assert_non_null(strstr(e.msg, words));
}

/* Another file in the place of the old one, as the kubelet and editors do it. */
static void replace(struct fixture *f, const char *name, const char *text)
{
    char from[256];
    char to[256];
    temp_dir_write(&f->dir, "new", text, 0600);
    assert_int_equal(rename(temp_dir_path(&f->dir, "new", from), temp_dir_path(&f->dir, name, to)),
                     0);
}

static void write_pair(struct fixture *f, const struct certs_pair *pair)
{
    replace(f, "cert", pair->cert);
    replace(f, "key", pair->key);
}

static void expect_token(struct fixture *f, const char *token)
{
    struct slice want = slice_str(token);
    for (int i = 0; i < 1000 && !slice_eq(listener_secrets_token(f->secrets), want); i++) {
        run_for(f->loop, CHECK_MS);
    }
    assert_true(slice_eq(listener_secrets_token(f->secrets), want));
}

static void nothing_is_demanded_without_files(void **state)
{
    struct fixture *f = *state;
    start(f);
    assert_int_equal(listener_secrets_token(f->secrets).len, 0);
    assert_null(listener_secrets_tls(f->secrets));
}

static void the_token_is_followed(void **state)
{
    struct fixture *f = *state;
    f->flags.token_file = f->token;
    fails_to_start(f, "--token-file: ");
    replace(f, "token", " \n");
    fails_to_start(f, "contains no token");
    replace(f, "token", "one \r\n");
    start(f);
    assert_true(slice_eq(listener_secrets_token(f->secrets), SLICE("one")));
    assert_true(slice_eq(listener_secrets_basic(f->secrets), SLICE("Y21lc2g6b25l")));
    replace(f, "token", "two");
    expect_token(f, "two");
    assert_true(slice_eq(listener_secrets_basic(f->secrets), SLICE("Y21lc2g6dHdv")));
}

static void a_token_that_is_gone_stays_demanded(void **state)
{
    struct fixture *f = *state;
    f->flags.token_file = f->token;
    replace(f, "token", "one");
    start(f);
    replace(f, "token", "\n");
    run_for(f->loop, 5 * CHECK_MS);
    expect_token(f, "one");
    assert_int_equal(unlink(f->token), 0);
    run_for(f->loop, 5 * CHECK_MS);
    expect_token(f, "one");
    replace(f, "token", "two");
    expect_token(f, "two");
}

static void the_certificate_is_followed(void **state)
{
    struct fixture *f = *state;
    f->flags.listen_tls_cert = f->cert;
    f->flags.listen_tls_key = f->key;
    fails_to_start(f, "--listen-tls-cert: ");
    write_pair(f, &f->first);
    start(f);
    struct tls_config *first = tls_config_ref(listener_secrets_tls(f->secrets));
    assert_non_null(first);
    run_for(f->loop, 5 * CHECK_MS);
    assert_int_equal(f->changes, 0);
    write_pair(f, &f->second);
    run_until(f->loop, &f->changed);
    assert_ptr_not_equal(listener_secrets_tls(f->secrets), first);
    assert_non_null(listener_secrets_tls(f->secrets));
    tls_config_unref(first);
}

static void half_of_a_pair_changes_nothing(void **state)
{
    struct fixture *f = *state;
    f->flags.listen_tls_cert = f->cert;
    f->flags.listen_tls_key = f->key;
    write_pair(f, &f->first);
    start(f);
    struct tls_config *first = listener_secrets_tls(f->secrets);
    replace(f, "key", f->second.key);
    run_for(f->loop, 5 * CHECK_MS);
    assert_ptr_equal(listener_secrets_tls(f->secrets), first);
    assert_int_equal(f->changes, 0);
    replace(f, "cert", f->second.cert);
    run_until(f->loop, &f->changed);
    assert_int_equal(f->changes, 1);
    f->changed = false;
    replace(f, "cert", f->first.cert); /* in the other order */
    run_for(f->loop, 5 * CHECK_MS);
    assert_int_equal(f->changes, 1);
    replace(f, "key", f->first.key);
    run_until(f->loop, &f->changed);
    assert_int_equal(f->changes, 2);
}

/* ---- the user's own authority ---- */

static struct tls_config *expect_other_tls(struct fixture *f, const struct tls_config *than)
{
    for (int i = 0; i < 1000 && listener_secrets_tls(f->secrets) == than; i++) {
        run_for(f->loop, CHECK_MS);
    }
    assert_ptr_not_equal(listener_secrets_tls(f->secrets), than);
    return listener_secrets_tls(f->secrets);
}

/* kubeconfig-gen may have made another one. */
static void the_authority_is_followed(void **state)
{
    struct fixture *f = *state;
    struct err e = ERR_INIT;
    struct certificate_pair authority;
    char path[256];
    bool made;
    f->flags.listen = "127.0.0.1:0";
    f->flags.local_tls = f->dir.path;
    start(f);
    struct tls_config *first = tls_config_ref(listener_secrets_tls(f->secrets));
    assert_non_null(first);
    run_for(f->loop, 5 * CHECK_MS);
    assert_int_equal(f->changes, 0);
    assert_int_equal(unlink(temp_dir_path(&f->dir, LOCAL_TLS_CERT, path)), 0);
    assert_int_equal(unlink(temp_dir_path(&f->dir, LOCAL_TLS_KEY, path)), 0);
    assert_int_equal(local_tls_authority(f->dir.path, (int64_t)time(NULL), &authority, &made, &e),
                     0);
    certificate_pair_deinit(&authority);
    (void)expect_other_tls(f, first);
    assert_true(f->changes > 0);
    tls_config_unref(first);
}

static void without_an_authority_it_does_not_start(void **state)
{
    struct fixture *f = *state;
    f->flags.listen = "127.0.0.1:0";
    f->flags.local_tls = f->token; /* no folder */
    fails_to_start(f, "--local-tls: ");
    f->flags.local_tls = f->dir.path;
    temp_dir_write(&f->dir, LOCAL_TLS_KEY, "", 0644);
    fails_to_start(f, "others may use it");
}

static void the_end_of_a_certificate_is_told_ahead(void **state)
{
    struct fixture *f = *state;
    struct health health;
    struct certs_pair brief;
    char until[32];
    time_t soon = time(NULL) + 3 * 24 * 3600;
    struct tm tm;
    health_init(&health, NULL);
    (void)strftime(until, sizeof until, "%Y%m%d%H%M%S", gmtime_r(&soon, &tm));
    certs_issue(&f->first, &(struct certs_spec){.not_after = until}, &brief);
    f->flags.listen_tls_cert = f->cert;
    f->flags.listen_tls_key = f->key;
    write_pair(f, &brief);
    start(f);
    listener_secrets_report_to(f->secrets, &health);
    assert_int_equal(health_count(&health, HEALTH_EXPIRY), 1);
    write_pair(f, &f->second); /* valid for long */
    for (int i = 0; i < 1000 && health_count(&health, HEALTH_EXPIRY) > 0; i++) {
        run_for(f->loop, CHECK_MS);
    }
    assert_int_equal(health_count(&health, HEALTH_EXPIRY), 0);
    listener_secrets_report_to(f->secrets, NULL);
    health_deinit(&health);
    certs_free(&brief);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_demanded_without_files, setup, teardown),
        cmocka_unit_test_setup_teardown(the_token_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_that_is_gone_stays_demanded, setup, teardown),
        cmocka_unit_test_setup_teardown(the_certificate_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(half_of_a_pair_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_authority_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_certificate_is_told_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(without_an_authority_it_does_not_start, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
