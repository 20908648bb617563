/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "program/local_tls.h"
#include "temp_dir.h"

#define NOW INT64_C(1800000000)

static struct certificate *certificate_of(const char *pem)
{
    struct err e = ERR_INIT;
    struct certificate *c = certificate_read(slice_str(pem), NULL, &e);
    assert_non_null(c);
    return c;
}

/* Whether it was made now; its certificate in `cert`, if that is not NULL. */
static bool get(struct temp_dir *d, int64_t now, char cert[4096])
{
    struct err e = ERR_INIT;
    struct certificate_pair p;
    bool made;
    if (local_tls_authority(d->path, now, &p, &made, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    struct certificate *c = certificate_of(p.cert);
    assert_true(certificate_is_authority(c));
    assert_true(certificate_fits(c, slice_str(p.key)));
    assert_true(!made || certificate_not_before(c) == now - 86400); /* clocks are set back */
    assert_true(certificate_not_after(c) > now + LOCAL_TLS_REPLACE_S);
    if (cert != NULL) {
        (void)snprintf(cert, 4096, "%s", p.cert);
    }
    certificate_free(c);
    certificate_pair_deinit(&p);
    return made;
}

static void one_is_made_and_stays(void **state)
{
    static const char *const names[] = {LOCAL_TLS_CERT, LOCAL_TLS_KEY};
    struct temp_dir *d = *state;
    char first[4096];
    char again[4096];
    mode_t before = umask(0);
    assert_true(get(d, NOW, first));
    assert_false(get(d, NOW + 86400, again));
    umask(before);
    assert_string_equal(first, again);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[256];
        struct stat st;
        assert_int_equal(stat(temp_dir_path(d, names[i], path), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
}

static void one_near_its_end_is_replaced(void **state)
{
    struct temp_dir *d = *state;
    int64_t end = NOW + LOCAL_TLS_AUTHORITY_S;
    char first[4096];
    char next[4096];
    assert_true(get(d, NOW, first));
    assert_false(get(d, end - LOCAL_TLS_REPLACE_S - 1, next));
    assert_string_equal(first, next);
    assert_true(get(d, end - LOCAL_TLS_REPLACE_S, next));
    assert_string_not_equal(first, next);
    /* One that is not valid yet: clients have it from when the clock was another. */
    assert_false(get(d, NOW, first));
    assert_string_equal(first, next);
}

static void one_that_is_broken_is_replaced(void **state)
{
    struct temp_dir *d = *state;
    struct temp_dir other;
    char text[4096];
    assert_true(get(d, NOW, NULL));
    temp_dir_write(d, LOCAL_TLS_KEY, "", 0600);
    assert_true(get(d, NOW, NULL));
    temp_dir_write(d, LOCAL_TLS_CERT, "-----BEGIN CERTIFICATE-----\nnone\n", 0600);
    assert_true(get(d, NOW, NULL));
    temp_dir_init(&other);
    assert_true(get(&other, NOW, text));
    temp_dir_write(d, LOCAL_TLS_CERT, text, 0600); /* of another key */
    assert_true(get(d, NOW, NULL));
    temp_dir_deinit(&other);
}

static void expect_refused(struct temp_dir *d, const char *words)
{
    struct err e = ERR_INIT;
    struct certificate_pair p;
    bool made;
    assert_true(local_tls_authority(d->path, NOW, &p, &made, &e) < 0);
    assert_null(p.cert);
    assert_null(p.key);
    if (strstr(e.msg, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, e.msg);
    }
}

static void read_file_of(struct temp_dir *d, const char *name, char out[4096])
{
    char path[256];
    FILE *f = fopen(temp_dir_path(d, name, path), "r");
    assert_non_null(f);
    size_t len = fread(out, 1, 4095, f);
    out[len] = '\0';
    (void)fclose(f);
}

/* A folder as of a service account: a token beside the authority of the cluster. */
static void what_somebody_else_made_stays(void **state)
{
    struct temp_dir *d = *state;
    const struct certificate_spec spec = {
        .common_name = "kubernetes", .not_before = NOW - 86400, .not_after = NOW + 86400};
    struct certificate_pair other;
    struct err e = ERR_INIT;
    char text[4096];
    char path[256];
    assert_int_equal(certificate_make_authority(&spec, &other, &e), 0);
    temp_dir_write(d, LOCAL_TLS_CERT, other.cert, 0600);
    expect_refused(d, "ca.crt: cmesh did not make this file");
    read_file_of(d, LOCAL_TLS_CERT, text);
    assert_string_equal(text, other.cert);
    temp_dir_write(d, LOCAL_TLS_KEY, other.key, 0600); /* it ends within a year */
    expect_refused(d, "ca.crt: cmesh did not make this file");
    assert_int_equal(unlink(temp_dir_path(d, LOCAL_TLS_CERT, path)), 0);
    expect_refused(d, "ca.key: cmesh did not make this file");
    read_file_of(d, LOCAL_TLS_KEY, text);
    assert_string_equal(text, other.key);
    certificate_pair_deinit(&other);
}

static void files_that_others_can_use_are_refused(void **state)
{
    struct temp_dir *d = *state;
    char path[256];
    assert_true(get(d, NOW, NULL));
    assert_int_equal(chmod(temp_dir_path(d, LOCAL_TLS_KEY, path), 0640), 0);
    expect_refused(d, "others may use it");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(chmod(temp_dir_path(d, LOCAL_TLS_CERT, path), 0666), 0);
    expect_refused(d, "others may use it");
}

static void of_several_that_make_one_all_get_the_same(void **state)
{
    enum { CHILDREN = 6 };
    struct temp_dir *d = *state;
    pid_t children[CHILDREN];
    int makers = 0;
    for (size_t i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct certificate_pair p;
            bool made = false;
            int rc = local_tls_authority(d->path, NOW, &p, &made, NULL);
            certificate_pair_deinit(&p);
            _exit(rc != 0 ? 2 : made);
        }
    }
    for (size_t i = 0; i < CHILDREN; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        makers += WEXITSTATUS(status);
    }
    assert_int_equal(makers, 1);
    assert_false(get(d, NOW, NULL));
}

static void it_signs_what_localproxy_shows(void **state)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "::1"};
    struct temp_dir *d = *state;
    struct err e = ERR_INIT;
    struct certificate_pair authority;
    struct certificate_pair shown;
    int64_t renew_at;
    bool made;
    assert_int_equal(local_tls_authority(d->path, NOW, &authority, &made, &e), 0);
    assert_int_equal(local_tls_serving(&authority, NOW, names, 3, &shown, &renew_at, &e), 0);
    struct certificate *ca = certificate_of(authority.cert);
    struct certificate *c = certificate_of(shown.cert);
    assert_true(certificate_signed_by(c, ca));
    assert_true(certificate_is_server(c));
    assert_false(certificate_is_authority(c));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(certificate_has_name(c, names[i]));
    }
    assert_false(certificate_has_name(c, "evil.example"));
    assert_true(NOW < renew_at && renew_at < certificate_not_after(c));
    assert_true(certificate_not_after(c) <= certificate_not_after(ca));
    certificate_free(ca);
    certificate_free(c);
    certificate_pair_deinit(&authority);
    certificate_pair_deinit(&shown);
}

static void what_the_flag_says(void **state)
{
    struct temp_dir *d = *state;
    struct err e = ERR_INIT;
    char want[256];
    char *folder;
    assert_int_equal(local_tls_folder(NULL, NULL, &folder, &e), 0);
    assert_null(folder);
    assert_int_equal(local_tls_folder(NULL, "/run/cmesh/token", &folder, &e), 0);
    assert_string_equal(folder, "/run/cmesh");
    free(folder);
    assert_int_equal(local_tls_folder(NULL, "token", &folder, &e), 0);
    assert_string_equal(folder, ".");
    free(folder);
    assert_int_equal(local_tls_folder("off", "/run/cmesh/token", &folder, &e), 0);
    assert_null(folder);
    assert_int_equal(local_tls_folder(d->path, "/run/cmesh/token", &folder, &e), 0);
    assert_string_equal(folder, d->path);
    free(folder);
    assert_int_equal(local_tls_folder("/nonexistent/x", NULL, &folder, &e), -ENOTDIR);
    assert_int_equal(setenv("XDG_STATE_HOME", d->path, 1), 0);
    assert_int_equal(local_tls_folder("auto", NULL, &folder, &e), 0);
    assert_string_equal(folder, temp_dir_path(d, "cmesh", want));
    free(folder);
    assert_int_equal(chmod(want, 0755), 0);
    assert_int_equal(local_tls_folder("auto", NULL, &folder, &e), -EPERM);
    assert_non_null(strstr(e.msg, "--local-tls=PATH"));
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_is_made_and_stays, temp_dir_setup, temp_dir_teardown),
        cmocka_unit_test_setup_teardown(one_near_its_end_is_replaced, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(one_that_is_broken_is_replaced, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(what_somebody_else_made_stays, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(files_that_others_can_use_are_refused, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(of_several_that_make_one_all_get_the_same, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(it_signs_what_localproxy_shows, temp_dir_setup,
                                        temp_dir_teardown),
        cmocka_unit_test_setup_teardown(what_the_flag_says, temp_dir_setup, temp_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
