/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "inject/inject_settings.h"
#include "localproxy/flags.h"

static void settings_that_no_pod_can_have_are_refused(void **state)
{
    static const struct {
        struct inject_resources proxy;
        const char *policy;
        const char *image;
        struct inject_resources others;
        const char *secret;
        uint64_t rules_lease_s;
        const char *why; /* NULL: they are taken */
    } rows[] = {
        {.proxy = {.cpu_request = NULL}},
        {.proxy = {.cpu_request = "50m", .memory_request = "32Mi", .memory_limit = "256Mi"}},
        {.proxy = {.memory_request = "64Mi"}},
        {.proxy = {.memory_request = "1Gi", .memory_limit = "1024Mi"}},
        {.proxy = {.cpu_request = "many"}, .why = "--proxy-cpu: \"many\" is not a quantity"},
        {.proxy = {.cpu_request = ""}, .why = "--proxy-cpu: \"\" is not a quantity"},
        {.proxy = {.memory_request = "64MB"}, .why = "--proxy-memory: \"64MB\""},
        {.proxy = {.memory_limit = "-1"}, .why = "--proxy-memory-limit: \"-1\" is negative"},
        {.proxy = {.memory_request = "64Mi", .memory_limit = "32Mi"},
         .why = "--proxy-memory: 64Mi is more than --proxy-memory-limit, 32Mi"},
        {.proxy = {.cpu_request = "100m", .cpu_limit = "0.1"}},
        {.proxy = {.cpu_request = "101m", .cpu_limit = "0.1"},
         .why = "--proxy-cpu: 101m is more than --proxy-cpu-limit, 0.1"},
        {.proxy = {.cpu_limit = "x"}, .why = "--proxy-cpu-limit: \"x\" is not a quantity"},
        {.others = {.cpu_request = "5m", .cpu_limit = "1"}},
        {.others = {.cpu_request = "2", .cpu_limit = "1"},
         .why = "--rulesync-cpu: 2 is more than --rulesync-cpu-limit, 1"},
        {.others = {.memory_limit = "64MB"}, .why = "--rulesync-memory-limit: \"64MB\""},
        {.others = {.memory_request = "65Mi", .memory_limit = "64Mi"},
         .why = "--rulesync-memory: 65Mi is more than --rulesync-memory-limit, 64Mi"},
        {.secret = "regcred"},
        {.secret = "", .why = "--sidecar-pull-secret: \"\" is not the name of a Secret"},
        {.secret = "a/b", .why = "--sidecar-pull-secret: \"a/b\""},
        {.rules_lease_s = 10},
        {.rules_lease_s = 3600},
        {.rules_lease_s = 9, .why = "--rules-lease must be 0, or from 10 to 3600"},
        {.policy = "Never"},
        {.policy = ""},
        {.policy = "Sometimes", .why = "--sidecar-pull-policy must be"},
        {.image = "cmesh/localproxy:1"},
        {.image = "", .why = "--sidecar-image: \"\""},
        {.image = "a\tb", .why = "--sidecar-image: "},
        {.image = "a\rb", .why = "--sidecar-image: "},
        {.image = "a\n", .why = "--sidecar-image: "},
        {.image = "cmesh/localproxy :1", .why = "--sidecar-image: \"cmesh/localproxy :1\""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const secrets[] = {rows[i].secret, NULL};
        struct inject_settings s = inject_defaults;
        struct err e = ERR_INIT;
        s.proxy = rows[i].proxy;
        s.pull_policy = rows[i].policy;
        s.image = rows[i].image;
        s.others = rows[i].others;
        s.pull_secrets = secrets;
        s.rules_lease_s = rows[i].rules_lease_s;
        int rc = inject_settings_check(&s, &e);
        if ((rc == 0) != (rows[i].why == NULL) ||
            (rows[i].why != NULL && strstr(e.msg, rows[i].why) == NULL)) {
            fail_msg("%zu: %s", i, e.msg);
        }
    }
}

static void variables_that_the_sidecars_must_not_get_are_refused(void **state)
{
    static const struct {
        const char *variable;
        const char *why; /* NULL: it is taken */
    } rows[] = {
        {"HTTPS_PROXY=http://proxy:3128", NULL},
        {"_x9=", NULL},
        {"A=b=c", NULL},
        {"CMESH_READ_FENCE=audit", NULL},
        {"CMESH_UPSTREAM_PROTOCOL=http1", NULL},
        {"CMESH_LOG_LEVEL=debug", NULL},
        {"CMESH_TLS_RECORDS=mbedtls", NULL},
        {"CMESH_ACCEPT_HOST=a,b", NULL},
        {"", "--sidecar-env: \"\" must be NAME=VALUE"},
        {"A", "--sidecar-env: \"A\" must be NAME=VALUE"},
        {"=b", "--sidecar-env: \"=b\" must be"},
        {"1A=b", "--sidecar-env: \"1A=b\" must be"},
        {"A-B=c", "--sidecar-env: \"A-B=c\" must be"},
        {" A=b", "--sidecar-env: \" A=b\" must be"},
        {"B=twice", "--sidecar-env: B is given twice"},
        {"CMESH_READ_FENCE=maybe",
         "--sidecar-env: CMESH_READ_FENCE, of localproxy: --read-fence: "},
        {"CMESH_CUT_SPREAD=", "--sidecar-env: CMESH_CUT_SPREAD, of localproxy: "},
        {"CMESH_NONSENSE=1", "--sidecar-env: CMESH_NONSENSE, of localproxy: unknown flag"},
        {"CMESH_=1", "--sidecar-env: CMESH_, of localproxy: "},
        {"CMESH_LISTEN=0.0.0.0:1", "--sidecar-env: CMESH_LISTEN is given by the injection itself"},
        {"CMESH_USER_AGENT=x", "--sidecar-env: CMESH_USER_AGENT is given by the injection itself"},
        {"CMESH_STATE=/x", "--sidecar-env: CMESH_STATE is given by the injection itself"},
        {"CMESH_EGRESS=127.0.0.1:1", "--sidecar-env: CMESH_EGRESS is given by the injection"},
        {"CMESH_FROM=/x", "--sidecar-env: CMESH_FROM, of localproxy: unknown flag"},
        {"LD_PRELOAD=/x.so",
         "--sidecar-env: LD_PRELOAD is given by the injection itself, or would"},
        {"POD_NAME=x", "--sidecar-env: POD_NAME is given by the injection itself"},
        {"KUBERNETES_SERVICE_HOST=x", "--sidecar-env: KUBERNETES_SERVICE_HOST: where the API"},
    };
    char longest[2048] = "CMESH_ACCEPT_HOST=";
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const list[] = {"B=c", rows[i].variable, NULL};
        struct inject_settings s = inject_defaults;
        struct err e = ERR_INIT;
        s.env = list;
        int rc = inject_settings_check(&s, &e);
        if ((rc == 0) != (rows[i].why == NULL) ||
            (rows[i].why != NULL && strstr(e.msg, rows[i].why) == NULL)) {
            fail_msg("%s: %s", rows[i].variable, e.msg);
        }
    }
    memset(longest + strlen(longest), 'x', sizeof longest - strlen(longest) - 1);
    const char *const list[] = {longest, NULL};
    struct inject_settings s = inject_defaults;
    struct err e = ERR_INIT;
    s.env = list;
    assert_int_equal(inject_settings_check(&s, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "the value of CMESH_ACCEPT_HOST is too long"));
}

static void flags_that_localproxy_does_not_take_are_refused(void **state)
{
    static const struct {
        const char *argument;
        const char *why; /* NULL: it is taken */
    } rows[] = {
        {"--write-fence=audit", NULL},
        {"--state=", NULL},
        {"write-fence=audit", "--proxy-arg, a flag of localproxy: \"write-fence=audit\" must be"},
        {"--nonsense=1", "--proxy-arg, a flag of localproxy: unknown flag --nonsense"},
        {"--write-fence=maybe", "--write-fence: \"maybe\" is not one of: enforce, audit, off"},
        {"--max-connections=0", "--max-connections: "},
        {"--listen=0.0.0.0:5443", "--proxy-arg: --listen is given by the injection itself"},
        {"--in-cluster", "--proxy-arg: --in-cluster is given by the injection itself"},
        {"--egress=", NULL},
        {"--egress=127.0.0.1:3000", NULL},
        {"--egress=[::1]:3000", NULL},
        {"--egress-max-tunnels=10", NULL},
        {"--egress=localhost:3000", "--proxy-arg=--egress: "},
        {"--egress=127.0.0.1:5443", "--proxy-arg=--egress: \"127.0.0.1:5443\": must be a loopback"},
        {"--egress=127.0.0.1:0", "--proxy-arg=--egress: "},
        {"--egress=:15002", "--proxy-arg=--egress: \":15002\": must be a loopback address"},
        {"--egress=192.0.2.1:15002", "--proxy-arg=--egress: \"192.0.2.1:15002\": must be"},
        {"--egress-via=http://p", "--proxy-arg: --egress-via is given by the injection itself"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const arguments[] = {"--log-level=debug", rows[i].argument, NULL};
        struct inject_settings s = inject_defaults;
        struct err e = ERR_INIT;
        s.proxy_args = arguments;
        int rc = inject_settings_check(&s, &e);
        if ((rc == 0) != (rows[i].why == NULL) ||
            (rows[i].why != NULL && strstr(e.msg, rows[i].why) == NULL)) {
            fail_msg("%s: %s", rows[i].argument, e.msg);
        }
    }
}

/* localproxy would not start. */
static void a_lease_needs_the_lease_with_the_status(void **state)
{
    static const char *const arguments[] = {"--status-lease=false", NULL};
    struct inject_settings s = inject_defaults;
    struct err e = ERR_INIT;
    (void)state;
    s.proxy_args = arguments;
    assert_int_equal(inject_settings_check(&s, &e), 0);
    s.rules_lease_s = 30;
    assert_int_equal(inject_settings_check(&s, &e), -EINVAL);
    assert_string_equal(e.msg,
                        "--rules-lease cannot be combined with --proxy-arg=--status-lease=false");
}

static const struct flag *find(const struct flag *f, const char *name)
{
    while (f->name != NULL && strcmp(f->name, name) != 0) {
        f++;
    }
    return f->name != NULL ? f : NULL;
}

static bool is_own(const char *name)
{
    const char *const *own = inject_own_flags;
    while (*own != NULL && strcmp(*own, name) != 0) {
        own++;
    }
    return *own != NULL;
}

static void expect_same(const struct flag *theirs, const struct flag *ours)
{
    if (ours == NULL) {
        fail_msg("inject_settings.c does not know localproxy's --%s", theirs->name);
    }
    bool same = ours->type == theirs->type && ours->min == theirs->min &&
                ours->max == theirs->max && (ours->choices == NULL) == (theirs->choices == NULL);
    for (size_t i = 0; same && ours->choices != NULL && ours->choices[i] != NULL; i++) {
        same = theirs->choices[i] != NULL && strcmp(ours->choices[i], theirs->choices[i]) == 0 &&
               (ours->choices[i + 1] == NULL) == (theirs->choices[i + 1] == NULL);
    }
    if (!same) {
        fail_msg("inject_settings.c knows localproxy's --%s as it was", theirs->name);
    }
}

static void the_flags_are_those_of_localproxy(void **state)
{
    (void)state;
    size_t known = 0;
    for (const struct flag *f = localproxy_flags_table; f->name != NULL; f++) {
        if (!is_own(f->name)) {
            expect_same(f, find(inject_proxy_flags, f->name));
            known++;
        }
    }
    for (const struct flag *f = inject_proxy_flags; f->name != NULL; f++) {
        known--;
    }
    assert_int_equal(known, 0);
    for (const char *const *own = inject_own_flags; *own != NULL; own++) {
        assert_non_null(find(localproxy_flags_table, *own));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_that_no_pod_can_have_are_refused),
        cmocka_unit_test(a_lease_needs_the_lease_with_the_status),
        cmocka_unit_test(variables_that_the_sidecars_must_not_get_are_refused),
        cmocka_unit_test(flags_that_localproxy_does_not_take_are_refused),
        cmocka_unit_test(the_flags_are_those_of_localproxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
