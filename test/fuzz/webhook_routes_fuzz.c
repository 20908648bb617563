/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says at which path the rest is an AdmissionReview, or stands in place of the
 * object of a good one. Each is decided as the server does it, among shards and pods whose names
 * nobody is told: no answer has them. An answer from the labels alone is what it is from the whole
 * objects.
 */
#include "webhook/handlers.h"

#include <string.h>

#include "base/array.h"
#include "check.h"
#include "json/json.h"

enum { SHARDS = 3 };

#define HIDDEN "zq-hidden"
#define HEAD(resource)                                                                             \
    "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/"                             \
    "v1\",\"request\":{\"uid\":\"u\","                                                             \
    "\"operation\":\"CREATE\",\"namespace\":\"n\",\"name\":\"x\",\"resource\":{\"group\":\"\","    \
    "\"version\":\"v1\","                                                                          \
    "\"resource\":\"" resource "\"},\"object\":"

#define POLICY_HEAD(resource)                                                                      \
    "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/"                             \
    "v1\",\"request\":{\"uid\":\"u\",\"operation\":\"CREATE\",\"namespace\":\"n\",\"name\":\"x\"," \
    "\"resource\":{\"group\":\"ctrlmesh.kusionstack.io\",\"version\":\"v1alpha1\",\"resource\":"   \
    "\"" resource "\"},\"object\":"
#define POLICY(kind)                                                                               \
    "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"" kind                        \
    "\",\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":"

static const struct {
    size_t route;
    const char *before;
    const char *after;
} frames[] = {
    {0, "", ""},
    {0, HEAD("pods"), "}}"},
    {2, "", ""},
    {2, HEAD("configmaps"), "}}"},
    {3, "", ""},
    {3, HEAD("shardingconfigs"), "}}"},
    {3,
     HEAD(
         "shardingconfigs") "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"metadata\":{"
                            "\"name\":\"x\"},\"kind\":\"ShardingConfig\",\"spec\":{\"controller\":{"
                            "\"leaderElectionName\":\"l\"},\"limits\":[],\"selector\":",
     "}}}}"},
    {4, "", ""},
    {4, POLICY_HEAD("circuitbreakers"), "}}"},
    {4, POLICY_HEAD("circuitbreakers") POLICY("CircuitBreaker"), "}}}"},
    {4, POLICY_HEAD("faultinjections") POLICY("FaultInjection"), "}}}"},
};

static const char config[] =
    "{\"apiVersion\":\"ctrlmesh.kusionstack.io/"
    "v1alpha1\",\"kind\":\"ShardingConfig\",\"metadata\":{"
    "\"name\":\"" HIDDEN
    "\",\"namespace\":\"n\"},\"spec\":{\"controller\":{\"leaderElectionName\":\"l\"},"
    "\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"limits\":[]}}";

/* A root whose one shard has a pod, and room for another. */
static const char root[] =
    "{\"metadata\":{\"name\":\"r\",\"namespace\":\"n\",\"uid\":\"1\"},\"spec\":{\"root\":{"
    "\"prefix\":\"r\",\"targetDeployment\":\"d\"}}}";
static const char child[] =
    "{\"metadata\":{\"name\":\"r-1-normal\",\"namespace\":\"n\",\"ownerReferences\":[{\"uid\":"
    "\"1\",\"controller\":true}],\"annotations\":{\"ctrlmesh.kusionstack.io/auto-sharding-pods\":"
    "\"2\"}},\"spec\":{\"selector\":{\"matchLabels\":{\"ctrlmesh.kusionstack.io/shard\":"
    "\"r-1-normal\"}},\"limits\":[]}}";

static const struct compile_options compile = {
    .namespace = "n",
    .generation = 1,
    .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
};

/* A pod with the label a=b is of the hidden shard. */
static const char *shared_pod(const void *data, const char *ns, const char *name,
                              const struct selector *s, const char **other)
{
    size_t count;
    const struct selector_requirement *items = selector_requirements(s, &count);
    const struct slice b = SLICE("b");
    (void)data;
    (void)ns;
    (void)name;
    for (size_t i = 0; i < count; i++) {
        bool known = strcmp(items[i].key, "a") == 0;
        if (!selector_requirement_matches(&items[i], known ? &b : NULL)) {
            return NULL;
        }
    }
    *other = HIDDEN;
    return HIDDEN;
}

static int look(void *data, const char *ns, struct validate_context *w, struct err *e)
{
    static const struct validate_resource resources[] = {{"", "pods"}, {"apps", "deployments"}};
    (void)ns;
    (void)e;
    *w = (struct validate_context){.shards = {.items = data, .count = SHARDS},
                                   .shared_pod = shared_pod,
                                   .resources = resources,
                                   .resource_count = ARRAY_LEN(resources)};
    return 0;
}

static void pods_of(void *data, size_t shard, assigner_pod_cb cb, void *arg)
{
    static const struct assigner_pod pod = {
        .owner = "2", .place = {.rank = 1, .mark = 1}, .lives = true};
    (void)data;
    if (shard == SHARDS - 1) {
        cb(arg, &pod);
    }
}

/* Says all that the answer does. */
static int run(const struct webhook_route *route, struct webhook_context *context,
               const struct admission_request *r, struct buf *out)
{
    struct webhook_decision d = {.patch = NULL};
    struct err e = ERR_INIT;
    if (route->begin != NULL) {
        route->begin(context, true, &d);
    }
    int rc = route->prepare == NULL ? 0 : route->prepare(context, r, &d, &e);
    rc = rc != 0 || route->decide == NULL ? rc : route->decide(context, r, &d, &e);
    rc = rc != 0 || route->finish == NULL ? rc : route->finish(context, r, &d, &e);
    const struct admission_answer a = {.refusal = rc == 0 ? 0 : 403,
                                       .message = e.msg,
                                       .patch = rc == 0 ? d.patch : NULL,
                                       .warnings = &d.warnings};
    CHECK(rc == 0 || e.msg[0] != '\0');
    CHECK(admission_answer_write(r, &a, out) == 0);
    if (d.state != NULL) {
        route->forget(d.state);
    }
    cJSON_Delete(d.patch);
    warnings_deinit(&d.warnings);
    return rc;
}

static void decide(const struct webhook_route *route, struct slice text, bool secretive)
{
    static struct labels_keys keys;
    struct inject_settings inject = inject_defaults;
    cJSON *configs[SHARDS] = {cJSON_Parse(config), cJSON_Parse(root), cJSON_Parse(child)};
    struct shards_item items[SHARDS];
    struct webhook_context context = {.keys = &keys,
                                      .inject = &inject,
                                      .compile = &compile,
                                      .look = look,
                                      .data = items,
                                      .assigner = assigner_new(NULL),
                                      .pods_of = pods_of};
    struct admission_request r;
    struct buf whole = BUF_INIT(1 << 24);
    struct buf part = BUF_INIT(1 << 24);
    inject.image = "image";
    for (size_t i = 0; i < SHARDS; i++) {
        items[i] = shards_item_of(configs[i]);
    }
    CHECK(labels_keys_init(&keys, &compile.labels, NULL) == 0);
    if (admission_request_read(&r, text, ADMISSION_OBJECTS, NULL) == 0) {
        (void)run(route, &context, &r, &whole);
        CHECK(!secretive || route->finish != NULL ||
              memmem(buf_data(&whole), whole.len, HIDDEN, sizeof HIDDEN - 1) == NULL);
        admission_request_deinit(&r);
    }
    if (whole.len > 0 && route->parts == ADMISSION_LABELS) {
        CHECK(admission_request_read(&r, text, ADMISSION_LABELS, NULL) == 0);
        (void)run(route, &context, &r, &part);
        CHECK(slice_eq(buf_slice(&whole), buf_slice(&part)));
        admission_request_deinit(&r);
    }
    buf_reset(&whole);
    buf_reset(&part);
    assigner_free(context.assigner);
    for (size_t i = 0; i < SHARDS; i++) {
        cJSON_Delete(configs[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text = BUF_INIT(1 << 20);
    if (size == 0) {
        return 0;
    }
    size_t frame = data[0] % ARRAY_LEN(frames);
    buf_append_str(&text, frames[frame].before);
    buf_append(&text, data + 1, size - 1);
    buf_append_str(&text, frames[frame].after);
    /* Who says the name may hear it. */
    bool secretive =
        memmem(data, size, "hidden", 6) == NULL && memmem(data, size, "\\u", 2) == NULL;
    if (buf_error(&text) == 0) {
        decide(&webhook_routes[frames[frame].route], buf_slice(&text), secretive);
    }
    buf_reset(&text);
    return 0;
}
