/* SPDX-License-Identifier: Apache-2.0 */
#include "label/labelling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

#define NS "ctrlmesh.kusionstack.io/namespace"
#define LIMIT(groups, resources, selector)                                                         \
    "{\"apiGroups\":[" groups "],\"resources\":[" resources "],\"selector\":\"" selector "\"}"
#define ALL "\"*\""
#define CORE "\"\""

/* ---- a labeller ---- */

enum { READABLE = DISCOVERY_GET | DISCOVERY_LIST };

static const struct discovery_resource resources[] = {
    {.version = "v1", .group = "", .plural = "events", .preferred = true, .verbs = READABLE},
    {.version = "v1", .group = "", .plural = "nodes", .preferred = true, .verbs = READABLE},
    {.version = "v1", .group = "", .plural = "pods", .preferred = true, .verbs = READABLE},
    {.version = "v1", .group = "", .plural = "secrets", .preferred = true, .verbs = READABLE},
    {.version = "v1",
     .group = "apps",
     .plural = "deployments",
     .preferred = true,
     .verbs = READABLE},
    {.version = "v1beta1", .group = "apps", .plural = "deployments", .verbs = READABLE},
    {.version = "v1",
     .group = "authorization.k8s.io",
     .plural = "subjectaccessreviews",
     .preferred = true,
     .verbs = DISCOVERY_CREATE},
};

struct labeller_fake {
    enum label_progress_knowledge known;
    struct label_progress pods;
    struct label_progress secrets;
    struct label_progress deployments;
    unsigned asked;
};

static enum label_progress_knowledge
give_resources(void *data, const struct discovery_resource **all, size_t *count)
{
    *all = resources;
    *count = ARRAY_LEN(resources);
    return ((const struct labeller_fake *)data)->known;
}

static void give_progress(void *data, const struct discovery_resource *d,
                          struct label_progress *out)
{
    struct labeller_fake *f = data;
    f->asked++;
    *out = strcmp(d->plural, "pods") == 0      ? f->pods
           : strcmp(d->plural, "secrets") == 0 ? f->secrets
           : strcmp(d->plural, "deployments") == 0
               ? f->deployments
               : (struct label_progress){LABELLED_NEVER, 0, 0, NULL};
}

static struct rules *rules_of(const char *limits)
{
    char text[2048];
    struct err e = ERR_INIT;
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"n\",\"name\":\"a\"},\"generation\":1,\"spec\":{\"limits\":[%s],\"labels\":{"
                   "\"namespace\":\"" NS "\",\"shardHash\":\"ctrlmesh.kusionstack.io/hash\"}}}",
                   limits);
    struct rules *r = rules_parse(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

static void expect(struct labeller_fake *f, const char *limits, enum labelling_state state,
                   const char *text)
{
    struct label_progress_source source = {give_resources, give_progress, f};
    struct labelling l;
    struct rules *r = rules_of(limits);
    labelling_look(r, &source, &l);
    assert_string_equal(l.text, text);
    assert_int_equal(l.state, state);
    rules_unref(r);
}

/* ---- tests ---- */

#define PODS LIMIT(CORE, "\"pods\"", NS " in (x)")
#define PODS_AND_SECRETS LIMIT(CORE, "\"pods\",\"secrets\"", NS " in (x)")
#define DONE "What the limits select by control labels has them."

static void test_first_pass(void **state)
{
    struct labeller_fake f = {.known = LABELLED_KNOWN,
                              .pods = {.state = LABELLED_DUE, .labelled = 120, .pending = 900},
                              .secrets = {.state = LABELLED_DUE}};
    (void)state;
    expect(&f, PODS, LABELLING_UNDER_WAY, "Being labelled: pods (120 done, 900 waiting).");
    expect(&f, PODS_AND_SECRETS, LABELLING_UNDER_WAY,
           "Being labelled: pods (120 done, 900 waiting), secrets (not listed yet).");
    f.secrets.error = "GET /api/v1/secrets: 403 Forbidden";
    f.pods.state = LABELLED_DONE;
    expect(&f, PODS_AND_SECRETS, LABELLING_UNDER_WAY,
           "Being labelled: secrets (GET /api/v1/secrets: 403 Forbidden).");
    expect(&f, PODS, LABELLING_DONE, DONE); /* others are nothing to this one */
    f.secrets.state = LABELLED_DONE;
    expect(&f, PODS_AND_SECRETS, LABELLING_DONE, DONE);
    expect(&f, LIMIT("\"none\"", "\"such\"", NS " in (x)"), LABELLING_DONE, DONE);
}

static void test_other_labels(void **state)
{
    struct labeller_fake f = {.known = LABELLED_KNOWN, .pods = {.state = LABELLED_DUE}};
    (void)state;
    expect(&f, LIMIT(CORE, "\"pods\"", "app in (x)"), LABELLING_DONE,
           "No limit selects by control labels.");
    expect(&f, "", LABELLING_DONE, "No limit selects by control labels.");
    assert_int_equal(f.asked, 0);
    /* Of another resource than the limit by control labels. */
    expect(&f, LIMIT(CORE, "\"pods\"", "app in (x)") "," LIMIT("\"apps\"", ALL, NS " in (x)"),
           LABELLING_DONE, DONE);
    assert_int_equal(f.asked, 1);
    expect(&f, LIMIT(CORE, "\"pods\"", "app in (x)") "," LIMIT(ALL, "\"pods\"", NS " in (x)"),
           LABELLING_UNDER_WAY, "Being labelled: pods (not listed yet).");
}

static void test_what_is_never_labelled(void **state)
{
    struct labeller_fake f = {.known = LABELLED_KNOWN};
    (void)state;
    expect(&f, LIMIT(CORE, "\"events\",\"pods\"", NS " in (x)"), LABELLING_NEVER,
           "Never labelled, so the shard sees none: events. They are not namespaced, or not in "
           "--sharding-resources.");
    expect(&f, LIMIT(ALL, ALL, NS " in (x)"), LABELLING_NEVER,
           "Never labelled, so the shard sees none: events, nodes. They are not namespaced, or not "
           "in --sharding-resources.");
    f.deployments.state = LABELLED_DUE;
    f.pods.state = LABELLED_NEVER;
    f.secrets.state = LABELLED_NEVER;
    expect(&f, LIMIT(ALL, ALL, NS " in (x)"), LABELLING_UNDER_WAY,
           "Being labelled: deployments.apps (not listed yet). Never labelled, so the shard sees "
           "none: events, nodes, pods and 1 more. They are not namespaced, or not in "
           "--sharding-resources.");
}

static void test_nobody_knows(void **state)
{
    struct labeller_fake f = {.known = LABELLED_BY_NOBODY};
    struct labelling l;
    (void)state;
    expect(&f, PODS, LABELLING_OFF,
           "The manager labels nothing (--label-qps=0), so it does not know.");
    f.known = LABELLED_UNKNOWN;
    expect(&f, PODS, LABELLING_UNDER_WAY, "Which resources the API server has is not known yet.");
    labelling_look(NULL, NULL, &l);
    assert_int_equal(l.state, LABELLING_NOT_COMPILED);
    assert_int_equal(f.asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_pass),
        cmocka_unit_test(test_other_labels),
        cmocka_unit_test(test_what_is_never_labelled),
        cmocka_unit_test(test_nobody_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
