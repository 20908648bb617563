/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/validate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "compile/shards.h"
#include "kube/name.h"
#include "selects.h"
#include "validate/misspelt.h"
#include "yaml/yaml.h"
#include "json/json.h"

static const struct compile_options options = {
    .namespace = "demo",
    .generation = 1,
    .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
};

static const struct validate_resource served[] = {
    {"", "pods"},           {"", "services"},  {"", "configmaps"},         {"apps", "deployments"},
    {"apps", "daemonsets"}, {"batch", "jobs"}, {"example.com", "widgets"},
};

enum { OBJECTS_MAX = 8 };

struct fixture {
    struct shards_item configs[OBJECTS_MAX];
    const cJSON *pods[OBJECTS_MAX];
    size_t pod_count;
    struct validate_context world;
};

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s: %s", e.msg, text);
    }
    return tree;
}

/* A ShardingConfig; `spec` holds lines or a flow mapping. */
static cJSON *config_of(const char *name, const char *spec)
{
    char text[8192];
    int len = snprintf(text, sizeof text,
                       "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                       "kind: ShardingConfig\n"
                       "metadata: {name: %s, namespace: demo}\n"
                       "spec: {%s}\n",
                       name, spec);
    assert_true(len > 0 && (size_t)len < sizeof text);
    return parse(text);
}

static cJSON *child_of(const char *name, const char *root, const char *spec)
{
    cJSON *config = config_of(name, spec);
    cJSON *labels = cJSON_AddObjectToObject(cJSON_GetObjectItem(config, "metadata"), "labels");
    cJSON_AddStringToObject(labels, "ctrlmesh.kusionstack.io/auto-sharding-root", root);
    return config;
}

static void add_config(struct fixture *f, cJSON *config)
{
    assert_true(f->world.shards.count < OBJECTS_MAX);
    f->configs[f->world.shards.count++] = shards_item_of(config);
}

static void add_pod(struct fixture *f, cJSON *pod)
{
    assert_true(f->pod_count < OBJECTS_MAX);
    f->pods[f->pod_count++] = pod;
}

/* As the cache answers: the first pod of the selector that another shard has too. */
static const char *shared_pod(const void *data, const char *ns, const char *name,
                              const struct selector *s, const char **other)
{
    const struct fixture *f = data;
    const char *found = NULL;
    for (size_t i = 0; i < f->pod_count && found == NULL; i++) {
        for (size_t j = 0; j < f->world.shards.count && found == NULL; j++) {
            const cJSON *config = f->configs[j].config;
            struct selector *theirs = shards_pod_selector(config, NULL);
            if (strcmp(shards_namespace(f->pods[i]), ns) == 0 &&
                strcmp(shards_namespace(config), ns) == 0 &&
                strcmp(shards_name(config), name) != 0 && selects(s, f->pods[i]) &&
                theirs != NULL && selects(theirs, f->pods[i])) {
                found = shards_name(f->pods[i]);
                *other = shards_name(config);
            }
            selector_free(theirs);
        }
    }
    return found;
}

static void shard_cache_init(struct fixture *f)
{
    *f = (struct fixture){.world = {.resources = served, .resource_count = ARRAY_LEN(served)}};
    f->world.shards.items = f->configs;
    f->world.shared_pod = shared_pod;
    f->world.data = f;
}

static void shard_cache_deinit(struct fixture *f)
{
    for (size_t i = 0; i < OBJECTS_MAX; i++) {
        cJSON_Delete((cJSON *)f->configs[i].config);
        cJSON_Delete((cJSON *)f->pods[i]);
    }
}

static void expect_text(const char *got, const char *want)
{
    if (strstr(got, want) == NULL) {
        fail_msg("wanted \"%s\", got \"%s\"", want, got);
    }
}

/* `want`: the beginning of the error, or NULL; `note`: part of one of the notes, or NULL for none.
 */
static void check(const struct fixture *f, cJSON *config, const char *want, const char *note)
{
    struct err e = ERR_INIT;
    struct warnings notes = WARNINGS_INIT;
    int rc = validate_config(config, &options, &f->world, &notes, &e);
    cJSON_Delete(config);
    if (want == NULL && rc != 0) {
        fail_msg("refused: %s", e.msg);
    } else if (want != NULL && (rc == 0 || strncmp(e.msg, want, strlen(want)) != 0)) {
        fail_msg("wanted \"%s\", got \"%s\"", want, e.msg);
    }
    assert_int_equal(rc, e.code);
    bool found = note == NULL;
    char all[4096] = "";
    for (size_t i = 0; i < notes.count; i++) {
        found = found || strstr(notes.items[i], note) != NULL;
        strncat(all, notes.items[i], sizeof all - strlen(all) - 2);
        strcat(all, "\n");
    }
    if (!found || (note == NULL && want == NULL && notes.count > 0)) {
        fail_msg("wanted note \"%s\", got \"%s\"", note == NULL ? "" : note, all);
    }
    warnings_deinit(&notes);
}

#define SELECTOR "selector: {matchLabels: {app: demo}}"
#define PODS "relateResources: [{apiGroups: [''], resources: [pods]}]"
#define LIMIT "{" PODS ", selector: {matchLabels: {a: b}}}"
#define LIMITS "limits: [" LIMIT "]"

static void what_is_good(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    check(&f, config_of("a", SELECTOR ", " LIMITS), NULL, NULL);
    check(&f, config_of("a", SELECTOR ", limits: [{objectSelector: " LIMIT "}]"), NULL, NULL);
    check(&f,
          config_of("a", SELECTOR ", " LIMITS ", controller: {leaderElectionName: l, "
                                  "userAgentOrPrefix: shard-a/}, webhook: {}"),
          NULL, NULL);
    check(&f,
          config_of("a", SELECTOR ", limits: [{relateResources: [{apiGroups: ['*'], resources: "
                                  "[pods, services]}], selector: {matchLabels: {a: b}}}]"),
          NULL, NULL);
    check(&f,
          config_of("a", SELECTOR ", limits: [{relateResources: [{apiGroups: ['', apps], "
                                  "resources: [pods, deployments]}, {apiGroups: [batch], "
                                  "resources: ['*']}], selector: {matchLabels: {a: b}}}]"),
          NULL, NULL);
    shard_cache_deinit(&f);
}

static void what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        const char *want;
    } cases[] = {
        {LIMITS, "spec.selector: Required value"},
        {"selector: {}, " LIMITS, "spec.selector: Required value: an empty selector would make"},
        {"selector: {matchLabels: {}, matchExpressions: []}, " LIMITS,
         "spec.selector: Required value"},
        {"selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}, " LIMITS,
         "spec.selector.matchExpressions[0].operator: Unsupported value: \"Equals\""},
        {"selector: {matchExpressions: [{key: a b, operator: Exists}]}, " LIMITS,
         "spec.selector.matchExpressions[0].key: Invalid value: \"a b\""},
        {"selector: {matchExpressions: [{key: a, operator: NotIn}]}, " LIMITS,
         "spec.selector.matchExpressions[0].values: Required value"},
        {"selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}, " LIMITS,
         "spec.selector.matchExpressions[0].values: Forbidden"},
        {"selector: {matchLabels: {app: -x-}}, " LIMITS,
         "spec.selector.matchLabels: Invalid value: \"-x-\""},
        {SELECTOR ", limits: [{selector: {matchLabels: {a: b}}}]",
         "spec.limits[0].relateResources: Required value"},
        {SELECTOR ", limits: [{" PODS "}]", "spec.limits[0].selector: Required value"},
        {SELECTOR ", limits: [{" PODS ", selector: {}}]",
         "spec.limits[0].selector: Required value: an empty selector would limit nothing"},
        {SELECTOR ", limits: [" LIMIT ", {objectSelector: {" PODS "}}]",
         "spec.limits[1].objectSelector.selector: Required value"},
        {SELECTOR ", limits: [{objectSelector: " LIMIT ", " PODS "}]",
         "spec.limits[0].relateResources: Forbidden: may not be set together with objectSelector"},
        {SELECTOR ", " LIMITS ", controller: {leaderElectionName: Not_A_Name}",
         "spec.controller.leaderElectionName: Invalid value: \"Not_A_Name\""},
        {SELECTOR ", " LIMITS ", controller: {userAgentOrPrefix: ' a'}",
         "spec.controller.userAgentOrPrefix: Invalid value: \" a\": must not begin or end"},
        {SELECTOR ", " LIMITS ", controller: {userAgentOrPrefix: 5}",
         "spec.controller.userAgentOrPrefix: Invalid value: must be a string"},
        {SELECTOR ", " LIMITS ", webhook: {port: 0}", "spec.webhook.port: Invalid value"},
        {SELECTOR ", " LIMITS ", webhook: {port: 5443}",
         "spec.webhook.port: Invalid value: 5443: is a port of the sidecars"},
        {SELECTOR ", " LIMITS ", webhook: {certDir: certs}",
         "spec.webhook.certDir: Invalid value: \"certs\": must be an absolute path"},
        {SELECTOR ", " LIMITS ", webhook: {certDir: /a/../b}",
         "spec.webhook.certDir: Invalid value: \"/a/../b\": must not contain '..'"},
        {SELECTOR ", " LIMITS ", webhook: {certDir: /a/..}", "spec.webhook.certDir: Invalid value"},
        {SELECTOR ", limit: []", "spec.limit: Forbidden: unknown field"},
    };
    struct fixture f;
    shard_cache_init(&f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        check(&f, config_of("a", cases[i].spec), cases[i].want, NULL);
    }
    shard_cache_deinit(&f);
}

static void names_have_room_for_the_configmap(void **state)
{
    (void)state;
    struct fixture f;
    char name[260];
    shard_cache_init(&f);
    memset(name, 'a', sizeof name);
    name[253 - (sizeof "cmesh-rules-" - 1)] = '\0';
    check(&f, config_of(name, SELECTOR ", " LIMITS), NULL, NULL);
    strcat(name, "a");
    check(&f, config_of(name, SELECTOR ", " LIMITS), "metadata.name: Invalid value: \"aaa", NULL);
    shard_cache_deinit(&f);
}

/* Another replica may know them: nobody is refused for that, but for all else. */
static void unknown_namespaces(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    check(&f,
          config_of("a", SELECTOR ", limits: [{" PODS ", namespaceSelector: {matchLabels: {a: "
                                  "b}}}]"),
          NULL, "spec.limits: the namespaces are not known to this manager yet");
    check(&f,
          config_of("a", SELECTOR ", limits: [{" PODS ", namespaceSelector: {matchLabels: {a: "
                                  "b}}}, {" PODS ", selector: {}}]"),
          "spec.limits[1].selector", NULL);
    check(&f, config_of("a", SELECTOR ", limits: [{" PODS ", namespaceSelector: {}}]"),
          "spec.limits[0].namespaceSelector: Invalid value: must not be empty", NULL);
}

static void what_is_odd(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        const char *note;
    } cases[] = {
        {SELECTOR ", limits: []", "spec.limits: no limits: the shard sees everything"},
        {SELECTOR, "spec.limits: missing: the shard sees nothing; write limits: [] for a shard "
                   "that sees everything"},
        {SELECTOR ", limits: [{" PODS ", selector: {matchExpressions: [{key: a, operator: In, "
                  "values: []}]}}]",
         "spec.limits[0].relateResources[0]: the limits on \"pods\" contradict each other, or a "
         "list of values is empty"},
        {SELECTOR ", limits: [" LIMIT ", {objectSelector: {" PODS
                  ", selector: {matchLabels: {a: c}}}}]",
         "spec.limits[1].objectSelector.relateResources[0]: the limits on \"pods\" contradict"},
        {SELECTOR ", limits: [" LIMIT ", {relateResources: [{apiGroups: ['*'], resources: "
                  "[jobs, '*']}], selector: {matchLabels: {a: c}}}]",
         "spec.limits[0].relateResources[0]: the limits on \"pods\" contradict each other"},
        /* The definition may not have been seen yet. */
        {SELECTOR ", limits: [{relateResources: [{apiGroups: [''], resources: [pod]}], "
                  "selector: {matchLabels: {a: b}}}]",
         "spec.limits[0].relateResources[0].resources[0]: \"pod\" is not found: the API server "
         "serves no such resource in these groups so far; is \"pods\" meant?"},
        {SELECTOR ", limits: [{relateResources: [{apiGroups: [apps], resources: [deployment, "
                  "doves]}], selector: {matchLabels: {a: b}}}]",
         "spec.limits[0].relateResources[0].resources[0]: \"deployment\" is not found: the API "
         "server serves no such resource in these groups so far; is \"deployments\" meant?"},
        {SELECTOR ", limits: [{relateResources: [{apiGroups: [apps], resources: [deployments, "
                  "pods]}], selector: {matchLabels: {a: b}}}]",
         "spec.limits[0].relateResources[0].resources[1]: \"pods\" is not found"},
        {SELECTOR
         ", limits: [{relateResources: [{apiGroups: [example.org], resources: [widgets]}], "
         "selector: {matchLabels: {a: b}}}]",
         "spec.limits[0].relateResources[0].apiGroups[0]: \"example.org\" is not found: the API "
         "server serves no such group so far; is \"example.com\" meant?"},
        {SELECTOR ", limits: [" LIMIT ", {objectSelector: {relateResources: [{apiGroups: ['', "
                  "extensions], resources: ['*']}], selector: {matchLabels: {a: b}}}}]",
         "spec.limits[1].objectSelector.relateResources[0].apiGroups[1]: \"extensions\" is not "
         "found: the API server serves no such group so far"},
        {"selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}, "
         "" LIMITS,
         "spec.selector: no pod can match it"},
        {"selector: {matchExpressions: [{key: a, operator: In, values: []}]}, " LIMITS,
         "spec.selector: no pod can match it"},
    };
    struct fixture f;
    shard_cache_init(&f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        check(&f, config_of("a", cases[i].spec), NULL, cases[i].note);
    }
    shard_cache_deinit(&f);
}

static void without_resources_all_are_taken(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    f.world.resource_count = 0;
    check(&f,
          config_of("a", SELECTOR
                    ", limits: [{relateResources: [{apiGroups: [x.y], resources: [things]}], "
                    "selector: {matchLabels: {a: b}}}]"),
          NULL, NULL);
    shard_cache_deinit(&f);
}

#define NAMED(values)                                                                              \
    "selector: {matchExpressions: [{key: statefulset.kubernetes.io/pod-name, operator: In, "       \
    "values: [" values "]}]}, " LIMITS

static void pods_of_two_shards(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    add_config(&f, config_of("b", NAMED("op-1, op-2")));
    add_config(&f, config_of("c", "selector: {matchLabels: {x: v}}"));
    add_config(&f, config_of("broken", "selector: 5"));
    add_config(&f, config_of("root", "root: {}"));
    add_config(&f, parse("metadata: {name: b, namespace: elsewhere}\nspec: {" NAMED("op-0") "}\n"));
    check(&f, config_of("a", NAMED("op-2, op-3")),
          "spec.selector: Invalid value: selects pods that ShardingConfig \"b\" selects too, and a "
          "pod can be in one shard only: statefulset.kubernetes.io/pod-name in (op-1,op-2)",
          NULL);
    check(&f, config_of("a", "selector: {matchLabels: {x: v, z: '1'}}, " LIMITS),
          "spec.selector: Invalid value: selects pods that ShardingConfig \"c\" selects too", NULL);
    check(&f, config_of("a", "selector: {matchLabels: {x: z}}, " LIMITS), NULL,
          "spec.selector: a pod could have the labels for this and for ShardingConfig \"b\"");
    check(&f, config_of("a", NAMED("op-0, op-3")), NULL, "and for ShardingConfig \"c\"");
    /* The one that is changed is among them. */
    check(&f, config_of("b", NAMED("op-1, op-3")), NULL, "and for ShardingConfig \"c\"");
    shard_cache_deinit(&f);
}

/* Labels that have nothing to do with each other, on one pod. */
static void pods_that_there_are(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    add_config(&f, config_of("b", NAMED("op-1")));
    add_pod(&f, parse("metadata: {name: op-1, namespace: other, labels: {app: demo, "
                      "statefulset.kubernetes.io/pod-name: op-1}}\n"));
    add_pod(&f, parse("metadata: {name: op-2, namespace: demo, labels: {app: demo}}\n"));
    add_pod(&f, parse("metadata: {name: op-3, namespace: demo}\n"));
    check(&f, config_of("a", SELECTOR ", " LIMITS), NULL, "ShardingConfig \"b\"");
    add_pod(&f, parse("metadata: {name: op-1, namespace: demo, labels: {app: demo, "
                      "statefulset.kubernetes.io/pod-name: op-1}}\n"));
    check(&f, config_of("a", SELECTOR ", " LIMITS),
          "spec.selector: Invalid value: selects pod \"op-1\", as ShardingConfig \"b\" does: a pod "
          "can be in one shard only",
          NULL);
    shard_cache_deinit(&f);
}

#define OPERATOR(app, lock, limits)                                                                \
    "selector: {matchLabels: {app: " app "}}, controller: {leaderElectionName: " lock              \
    "}, limits: [" limits "]"
#define IN(values)                                                                                 \
    "{" PODS ", selector: {matchExpressions: [{key: ns, operator: In, values: [" values "]}]}}"

/* Who asks may be anybody: pods and shards are named in the log alone. */
static void names_of_others_are_withheld(void **state)
{
    static const char one[] = "metadata: {name: secret-pod, namespace: demo, labels: {app: demo, "
                              "statefulset.kubernetes.io/pod-name: op-1}}\n";
    static const char refused[] =
        "spec.selector: Invalid value: selects %s that another "
        "ShardingConfig of the namespace selects too, and a pod can be in "
        "one shard only: see kubectl -n demo get shardingconfigs -o ";
    char withheld[ERR_MSG_MAX] = "";
    char text[512];
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    f.world.shards.withheld = withheld;
    add_config(&f, config_of("secret", NAMED("op-1")));
    check(&f, config_of("a", SELECTOR ", " LIMITS), NULL,
          "spec.selector: a pod could have the labels for this and for another ShardingConfig");
    assert_string_equal(withheld, "");
    (void)snprintf(text, sizeof text, refused, "pods");
    check(&f, config_of("a", NAMED("op-1, op-3")), text, NULL);
    assert_string_equal(withheld, "ShardingConfig \"secret\" selects them too");
    add_pod(&f, parse(one));
    (void)snprintf(text, sizeof text, refused, "a pod");
    check(&f, config_of("a", SELECTOR ", " LIMITS), text, NULL);
    assert_string_equal(withheld,
                        "it selects pod \"secret-pod\", as ShardingConfig \"secret\" does");
    shard_cache_deinit(&f);
    shard_cache_init(&f);
    f.world.shards.withheld = withheld;
    add_config(&f, config_of("b", OPERATOR("b", "l", IN("u, v"))));
    check(&f, config_of("a", OPERATOR("a", "l", IN("v, z"))), NULL,
          "spec.limits: another shard of the same operator sees \"pods\" that this one sees too");
    shard_cache_deinit(&f);
}

static void selectors_of_pods_are_bounded(void **state)
{
    struct buf text = BUF_INIT(65536);
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    buf_append_str(&text, "selector: {matchLabels: {k0: v");
    for (int i = 1; i <= VALIDATE_POD_REQUIREMENTS_MAX; i++) {
        if (i == VALIDATE_POD_REQUIREMENTS_MAX) {
            struct buf whole = BUF_INIT(65536);
            buf_printf(&whole, "%s}}, " LIMITS, buf_cstr(&text));
            check(&f, config_of("a", buf_cstr(&whole)), NULL, NULL);
            buf_reset(&whole);
        }
        buf_printf(&text, ", k%d: v", i);
    }
    buf_append_str(&text, "}}, " LIMITS);
    check(&f, config_of("a", buf_cstr(&text)),
          "spec.selector: Too many: must have at most 64 requirements", NULL);
    buf_reset(&text);
    shard_cache_deinit(&f);
}

/* Two shards of one operator that see the same objects. */
static void objects_of_two_shards(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    add_config(&f, config_of("b", OPERATOR("b", "l", IN("u, v"))));
    check(&f, config_of("a", OPERATOR("a", "l", IN("z"))), NULL, NULL);
    check(&f, config_of("a", OPERATOR("a", "l", IN("v, z"))), NULL,
          "spec.limits: shard \"b\" of the same operator sees \"pods\" that this one sees too");
    check(&f, config_of("a", OPERATOR("a", "other", IN("v, z"))), NULL, NULL);
    check(&f, config_of("a", OPERATOR("a", "''", IN("v, z"))), NULL, NULL);
    add_config(&f, config_of("c", OPERATOR("c", "l", "")));
    check(&f, config_of("a", OPERATOR("a", "l", IN("z"))), NULL, "shard \"c\" of the same");
    shard_cache_deinit(&f);
}

#define NAMES(values)                                                                              \
    "{" PODS ", selector: {matchExpressions: [{key: ctrlmesh.kusionstack.io/namespace, "           \
    "operator: In, values: [" values "]}]}}"
#define SHARES(...) ", sharedNamespaces: [" #__VA_ARGS__ "]"

/* What they share on purpose is nothing to warn of. */
static void shared_namespaces_of_two_shards(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    add_config(&f, config_of("b", OPERATOR("b", "l", NAMES("u, v"))));
    check(&f, config_of("a", OPERATOR("a", "l", NAMES("v, z")) SHARES(v)), NULL, NULL);
    check(&f, config_of("a", OPERATOR("a", "l", NAMES("u, v, z")) SHARES(v)), NULL,
          "spec.limits: shard \"b\" of the same operator sees \"pods\" that this one sees too");
    check(&f, config_of("a", OPERATOR("a", "l", NAMES("z")) SHARES(B)), "spec.sharedNamespaces[0]",
          NULL);
    shard_cache_deinit(&f);
}

#define KEPT_IN(key, values)                                                                       \
    SELECTOR ", limits: [{relateResources: [{apiGroups: [''], resources: [secrets, pods]}], "      \
             "selector: {matchExpressions: [{key: ctrlmesh.kusionstack.io/" key ", operator: In, " \
             "values: [" values "]}]}}]"

/* The operator runs in namespace demo, whose hash is 16. */
static void what_the_operator_keeps_for_itself(void **state)
{
    (void)state;
    static const char left_out[] =
        "spec.sharedNamespaces: does not list \"demo\", where the operator itself runs: the shard "
        "neither sees nor may write the Secrets there";
    struct fixture f;
    shard_cache_init(&f);
    f.world.resource_count = 0; /* nobody knows what is served */
    check(&f, config_of("a", KEPT_IN("namespace", "u")), NULL, left_out);
    check(&f, config_of("a", KEPT_IN("namespace", "u, demo")), NULL, NULL);
    check(&f, config_of("a", KEPT_IN("namespace", "u") SHARES(demo)), NULL, NULL);
    check(&f, config_of("a", KEPT_IN("sharding-hash", "'1', '2'")), NULL, left_out);
    check(&f, config_of("a", KEPT_IN("sharding-hash", "'1', '2'") SHARES(demo)), NULL, NULL);
    check(&f, config_of("a", KEPT_IN("sharding-hash", "'1', '2'") SHARES(demo, u)), NULL,
          "spec.sharedNamespaces[1]: limits by the hash do not see \"u\" yet");
    char *names[] = {"u"};
    const struct sharing_set shared = {.names = names, .count = 1};
    f.world.shared = &shared;
    check(&f, config_of("a", KEPT_IN("sharding-hash", "'1', '2'") SHARES(demo, u)), NULL, NULL);
    f.world.shared = NULL;
    shard_cache_deinit(&f);
}

/* The labels of namespaces are those of objects in them, but for those that nobody labels. */
static void what_cannot_be_shared(void **state)
{
    (void)state;
    static const struct namespace_set known = {.own = "mesh"};
    static const struct {
        const char *list;
        const char *want; /* NULL: nothing is said */
    } cases[] = {
        {"[u]", NULL},
        {"[u, kube-system]", "spec.sharedNamespaces[1]: has no effect: objects in \"kube-system\""},
        {"[mesh]", "spec.sharedNamespaces[0]: has no effect: objects in \"mesh\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char spec[512];
        struct err e = ERR_INIT;
        struct warnings notes = WARNINGS_INIT;
        struct compile_options o = options;
        const struct validate_context world = {.resource_count = 0};
        o.namespaces = &known;
        (void)snprintf(spec, sizeof spec, SELECTOR ", " LIMITS ", sharedNamespaces: %s",
                       cases[i].list);
        cJSON *config = config_of("a", spec);
        assert_int_equal(validate_config(config, &o, &world, &notes, &e), 0);
        assert_int_equal(notes.count, cases[i].want == NULL ? 0 : 1);
        if (cases[i].want != NULL) {
            expect_text(notes.items[0], cases[i].want);
        }
        warnings_deinit(&notes);
        cJSON_Delete(config);
    }
}

#define AUTO "auto: {shardingSize: 2, everyShardReplicas: 2}"
#define ROOT_OF(more) "root: {prefix: op, targetStatefulSet: op, " more "}"
#define ROOT(more) ROOT_OF(AUTO ", resourceSelector: [" LIMIT "]" more)
#define AUTOMATIC                                                                                  \
    ROOT_OF("auto: {shardingSize: auto, everyShardReplicas: 2}, resourceSelector: [" LIMIT "]")
#define CANARY(lists) ", canary: {replicas: 1, " lists "}"

static void roots(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        const char *want;    /* NULL: it is good */
        const char *warning; /* NULL: none */
    } cases[] = {
        {ROOT(""), NULL, NULL},
        {ROOT("") ", limits: [], selector: {matchLabels: {a: b}}", NULL, NULL},
        {ROOT(", disable: true" CANARY("inNamespaces: [ns-canary]")), NULL, NULL},
        {ROOT(CANARY("inNamespaces: [ns-canary], inShardHash: ['0', '31']")), NULL,
         "spec.root.canary: with both inNamespaces and inShardHash the canary has what either"},
        {ROOT_OF("auto: {shardingSize: auto, everyShardReplicas: 1, takeover: {afterSeconds: 30}, "
                 "rebalance: {maxMovesPerHour: 2}}, resourceSelector: [" LIMIT "]"),
         NULL, NULL},
        {ROOT_OF("canary: {replicas: 1, inShardHash: ['3']}, resourceSelector: [" LIMIT "]"), NULL,
         NULL},
        {ROOT_OF(AUTO ", resourceSelector: [{objectSelector: " LIMIT "}]"), NULL, NULL},
        {ROOT_OF(AUTO ", resourceSelector: [" LIMIT ", {" PODS ", namespaceSelector: {matchLabels: "
                      "{team: a}}}]"),
         NULL, "spec.root.resourceSelector: the namespaces are not known to this manager yet"},
        {ROOT_OF(AUTO ", resourceSelector: [" LIMIT ", {relateResources: [{apiGroups: ['*'], "
                      "resources: [pods]}, {apiGroups: ['', '*'], resources: [x, '*']}]}]"),
         NULL, "spec.root.resourceSelector[1]: everything is spread, also Leases, Events and what"},
        {ROOT("") ", selector: {matchExpressions: [{key: statefulset.kubernetes.io/pod-name, "
                  "operator: In, values: [op-0]}]}",
         NULL, "spec.selector: what it says of names of pods"},
        {ROOT_OF(AUTO ", resourceSelector: [{" PODS ", selector: {matchLabels: "
                      "{ctrlmesh.kusionstack.io/namespac: x}}}]"),
         NULL, "spec.root.resourceSelector[0].selector"},
        {ROOT_OF(AUTO ", resourceSelector: [{relateResources: [{apiGroups: [''], resources: "
                      "[nodes]}]}]"),
         NULL, "spec.root.resourceSelector[0].relateResources[0].resources[0]: \"nodes\" is not"},
        {"root: {prefix: op, targetDeployment: op, " AUTO ", resourceSelector: [" LIMIT
         "]}, selector: {matchExpressions: [{key: statefulset.kubernetes.io/pod-name, "
         "operator: In, values: [op-0]}]}",
         NULL, "is left out: each shard has its pods by the label that the webhook"},
        {"root: {prefix: a, targetDeployment: b, targetStatefulSet: c}",
         "spec.root.targetDeployment: Forbidden: may not be set together with", NULL},
        {"root: {}", "spec.root.prefix: Required value", NULL},
        {"root: x", "spec.root: Invalid value: must be an object", NULL},
        {"root: {prefix: A, targetStatefulSet: op}", "spec.root.prefix: Invalid value: \"A\"",
         NULL},
        {"root: {prefix: a}", "spec.root.targetStatefulSet: Required value", NULL},
        {"root: {prefix: a, targetStatefulSet: 5}", "spec.root.targetStatefulSet: Invalid value",
         NULL},
        {"root: {prefix: a, targetStatefulSet: -}",
         "spec.root.targetStatefulSet: Invalid value: \"-\"", NULL},
        {ROOT(", disable: 'no'"), "spec.root.disable: Invalid value: must be true or false", NULL},
        {ROOT(", manual: {}"), "spec.root.manual: Forbidden: unknown field", NULL},
        {ROOT(", canary: []"), "spec.root.canary: Invalid value: must be an object", NULL},
        {ROOT(", canary: {inHash: []}"), "spec.root.canary.inHash: Forbidden", NULL},
        {ROOT_OF(AUTO), "spec.root.resourceSelector: Required value", NULL},
        {ROOT_OF(AUTO ", resourceSelector: [{}]"),
         "spec.root.resourceSelector[0].relateResources: Required value", NULL},
        {ROOT_OF(AUTO ", resourceSelector: {}"),
         "spec.root.resourceSelector: Invalid value: must be", NULL},
        {ROOT_OF(AUTO ", resourceSelector: [" LIMIT ", {" PODS
                      ", selector: {matchLabels: {a: /}}}]"),
         "spec.root.resourceSelector[1].selector.matchLabels: Invalid value", NULL},
        {ROOT("") ", " LIMITS, "spec.limits: Forbidden: may not be set together with spec.root",
         NULL},
        {ROOT("") ", webhook: {port: 5441}", "spec.webhook.port: Invalid value: 5441", NULL},
        {ROOT("") ", controller: {leaderElectionName: A}",
         "spec.controller.leaderElectionName: ", NULL},
        {ROOT("") ", controller: {userAgentOrPrefix: /}",
         "spec.controller.userAgentOrPrefix: ", NULL},
        {ROOT("") ", selector: {matchLabels: {a: /}}", "spec.selector.matchLabels: Invalid value",
         NULL},
    };
    struct fixture f;
    shard_cache_init(&f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        check(&f, config_of("a", cases[i].spec), cases[i].want, cases[i].warning);
    }
    shard_cache_deinit(&f);
}

static void who_has_everything_is_there(void **state)
{
    static const char leaving[] = "spec.leaving: there is no shard \"b\": so nobody has what";
    struct fixture f;
    (void)state;
    shard_cache_init(&f);
    check(&f, config_of("a", SELECTOR ", " LIMITS ", leaving: b"), NULL, leaving);
    check(&f, config_of("a", SELECTOR ", " LIMITS ", leaving: a"), NULL,
          "spec.limits: no limits: the shard sees everything");
    check(&f, config_of("a", ROOT("") ", leaving: b"), NULL, leaving);
    check(&f, config_of("a", ROOT("") ", leaving: op-2-normal"), NULL, NULL);
    check(&f, config_of("a", ROOT("") ", leaving: op-3-normal"), NULL,
          "spec.leaving: there is no shard \"op-3-normal\": so nobody has what");
    check(&f, config_of("a", ROOT("") ", leaving: op-0-canary"), NULL,
          "spec.leaving: there is no shard \"op-0-canary\": so nobody has what");
    check(&f, config_of("a", ROOT(CANARY("inNamespaces: [ns-c]")) ", leaving: op-0-canary"), NULL,
          NULL);
    check(&f, config_of("a", AUTOMATIC ", leaving: op-7-normal"), NULL, NULL); /* none is known */
    add_config(&f, child_of("op-1-normal", "a", "selector: {matchLabels: {a: z}}, " LIMITS));
    check(&f, config_of("a", AUTOMATIC ", leaving: op-1-normal"), NULL, NULL);
    check(&f, config_of("a", AUTOMATIC ", leaving: op-7-normal"), NULL,
          "spec.leaving: there is no shard \"op-7-normal\": so nobody has what");
    check(&f, config_of("a", SELECTOR ", " LIMITS ", leaving: 'A B'"),
          "spec.leaving: Invalid value: \"A B\"", NULL);
    shard_cache_deinit(&f);
}

/* Of KusionStack's mesh. */
static void what_has_no_effect(void **state)
{
    (void)state;
    static const char webhook[] =
        "spec.webhook: has no effect until the operator's ValidatingWebhookConfiguration or "
        "MutatingWebhookConfiguration has the label ctrlmesh.kusionstack.io/route: \"true\"";
    struct fixture f;
    shard_cache_init(&f);
    check(
        &f,
        config_of("a", SELECTOR ", " LIMITS ", webhook: {certDir: /tmp/webhook-certs, port: 9443}"),
        NULL, webhook);
    check(&f, config_of("a", SELECTOR ", " LIMITS ", webhook: {certDir: '', port: 9443}"), NULL,
          webhook);
    check(&f, config_of("a", ROOT("") ", webhook: {port: 9443}"), NULL, webhook);
    check(&f, config_of("a", SELECTOR ", " LIMITS ", webhook: {certDir: /tmp/webhook-certs}"), NULL,
          "spec.webhook: has no effect without spec.webhook.port");
    f.world.routed = true;
    check(&f,
          config_of("a", SELECTOR ", " LIMITS ", webhook: {certDir: /c, port: 9443, "
                                  "duringHandover: Hold}"),
          NULL, NULL);
    check(&f,
          parse("apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                "kind: ShardingConfig\n"
                "metadata:\n"
                "  name: a\n"
                "  namespace: demo\n"
                "  labels: {ctrlmesh.kusionstack.io/ignore-validate: 'true'}\n"
                "spec: {" SELECTOR ", " LIMITS "}\n"),
          NULL, "metadata.labels[ctrlmesh.kusionstack.io/ignore-validate]: has no effect");
    shard_cache_deinit(&f);
}

#define WITH_METADATA(metadata)                                                                    \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"                                               \
    "kind: ShardingConfig\n"                                                                       \
    "metadata:\n"                                                                                  \
    "  name: a\n"                                                                                  \
    "  namespace: demo\n"                                                                          \
    "  " metadata "\n"                                                                             \
    "spec: {" SELECTOR ", " LIMITS "}\n"

static void annotations_that_say_nothing(void **state)
{
    struct fixture f;
    (void)state;
    shard_cache_init(&f);
    check(&f, parse(WITH_METADATA("annotations: {ctrlmesh.kusionstack.io/share-with: b}")), NULL,
          "metadata.annotations[ctrlmesh.kusionstack.io/share-with]: unknown, so it has no effect; "
          "is ctrlmesh.kusionstack.io/shares-with meant?");
    check(&f, parse(WITH_METADATA("labels: {ctrlmesh.kusionstack.io/shares-with: b}")), NULL,
          "metadata.labels[ctrlmesh.kusionstack.io/shares-with]: has no effect, since it is an "
          "annotation");
    check(&f,
          parse(WITH_METADATA("annotations: {ctrlmesh.kusionstack.io/shares-with: b, "
                              "ctrlmesh.kusionstack.io/auto-sharding-buckets: '1', "
                              "ctrlmesh.kusionstack.io/note: x, other.io/share-with: b}")),
          NULL, NULL);
    shard_cache_deinit(&f);
}

static void names_of_shards(void **state)
{
    (void)state;
    char name[256];
    char spec[1024];
    struct fixture f;
    shard_cache_init(&f);
    memset(name, 'n', sizeof name);
    name[232] = '\0'; /* -2-normal, behind cmesh-rules- */
    (void)snprintf(spec, sizeof spec,
                   "root: {targetStatefulSet: op, " AUTO ", resourceSelector: [" LIMIT "], "
                   "prefix: %s}",
                   name);
    check(&f, config_of("a", spec), NULL, NULL);
    check(&f, config_of(name, ROOT("")), "metadata.name: Invalid value: \"nnn", NULL);
    name[232] = 'n';
    name[233] = '\0';
    (void)snprintf(spec, sizeof spec,
                   "root: {targetStatefulSet: op, " AUTO ", resourceSelector: [" LIMIT "], "
                   "prefix: %s}",
                   name);
    check(&f, config_of("a", spec), "spec.root.prefix: Invalid value: \"nnn", NULL);
    check(&f, config_of("op-31-normal", ROOT("")),
          "metadata.name: Invalid value: \"op-31-normal\": is the name of a shard of its own",
          NULL);
    check(&f, config_of("op-0-canary", ROOT("")), "metadata.name: Invalid value: \"op-0-c", NULL);
    check(&f, config_of("op-33-normal", ROOT("")), NULL, NULL);
    shard_cache_deinit(&f);
}

static void roots_have_room_for_their_own(void **state)
{
    (void)state;
    char spec[8192] = ROOT("") ", selector: {matchExpressions: [";
    struct fixture f;
    shard_cache_init(&f);
    for (int i = 0; i < 64; i++) {
        char more[64];
        (void)snprintf(more, sizeof more, "%s{key: k%d, operator: Exists}", i == 0 ? "" : ", ", i);
        strcat(spec, more);
        if (i == 62) {
            char full[8192];
            (void)snprintf(full, sizeof full, "%.8000s]}", spec);
            check(&f, config_of("a", full), NULL, NULL);
        }
    }
    strcat(spec, "]}");
    check(&f, config_of("a", spec), "spec.selector: Too many: must have at most 63 requirements",
          NULL);
    shard_cache_deinit(&f);
}

static void roots_beside_others(void **state)
{
    (void)state;
    char withheld[ERR_MSG_MAX] = "";
    struct fixture f;
    shard_cache_init(&f);
    add_config(&f, child_of("op-1-normal", "a", SELECTOR ", " LIMITS));
    add_config(&f, config_of("op-3-normal", SELECTOR ", " LIMITS)); /* there are two */
    add_config(&f, config_of("op-0-canary", SELECTOR ", " LIMITS)); /* and no canary */
    check(&f, config_of("a", ROOT("")), NULL, NULL);
    check(&f, config_of("a", ROOT(CANARY("inNamespaces: [x]"))), NULL,
          "a shard would have the name of ShardingConfig \"op-0-canary\", which is not of this");
    check(&f, config_of("b", ROOT("")), NULL,
          "spec.root.prefix: a shard would have the name of ShardingConfig \"op-1-normal\"");
    f.world.shards.withheld = withheld;
    check(&f, config_of("b", ROOT("")), NULL,
          "spec.root.prefix: a shard would have the name of a ShardingConfig that is not of this");
    f.world.shards.withheld = NULL;
    add_config(&f, config_of("other", "root: {prefix: op, targetStatefulSet: y}"));
    check(&f, config_of("a", ROOT("")), NULL,
          "spec.root.prefix: root \"other\" has the same: their shards would have the same names");
    add_config(&f, config_of("another", "root: {prefix: z, targetStatefulSet: op}"));
    check(&f, config_of("a", ROOT("")), NULL,
          "spec.root.targetStatefulSet: root \"another\" has the same: a pod can be in one shard");
    f.world.shards.withheld = withheld;
    check(&f, config_of("a", ROOT("")), NULL,
          "spec.root.targetStatefulSet: another root of the namespace has the same: a pod can");
    shard_cache_deinit(&f);
}

/* What a root changes in several of its shards, one after the other, is not refused on the way. */
static void shards_of_one_root(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    add_config(&f, child_of("op-1-normal", "a", SELECTOR ", " LIMITS));
    add_pod(&f, parse("metadata: {name: op-1, namespace: demo, labels: {app: demo}}\n"));
    check(&f, child_of("op-2-normal", "a", SELECTOR ", " LIMITS), NULL, NULL);
    check(&f, child_of("op-2-normal", "b", SELECTOR ", " LIMITS), "spec.selector: Invalid", NULL);
    check(&f, config_of("op-2-normal", SELECTOR ", " LIMITS), "spec.selector: Invalid", NULL);
    add_config(&f, config_of("x", "selector: {matchLabels: {zone: z}}, " LIMITS));
    check(&f, child_of("op-2-normal", "a", SELECTOR ", " LIMITS), NULL,
          "a pod could have the labels for this and for ShardingConfig \"x\"");
    shard_cache_deinit(&f);
}

struct answer {
    int rc;
    char message[ERR_MSG_MAX];
    char notes[2048];
};

/* Objects as YAML flow mappings, or "null". */
static struct answer admit(const struct fixture *f, const char *operation, const char *more,
                           const char *object, const char *old)
{
    struct answer a = {.rc = 0};
    struct err e = ERR_INIT;
    struct warnings notes = WARNINGS_INIT;
    struct admission_request r;
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "{kind: AdmissionReview, apiVersion: admission.k8s.io/v1, request: {uid: u, "
                   "resource: {resource: shardingconfigs}, namespace: demo, operation: %s%s, "
                   "object: %s, oldObject: %s}}",
                   operation, more, object, old);
    cJSON *review = parse(text);
    struct buf json = BUF_INIT(65536);
    assert_int_equal(json_canonical(review, &json), 0);
    cJSON_Delete(review);
    if (admission_request_read(&r, slice_str(buf_cstr(&json)), ADMISSION_OBJECTS, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    struct validate_draft *draft = validate_draft_new(&r, &options);
    assert_non_null(draft);
    a.rc = validate_drafted(&r, &options, draft, &f->world, &notes, &e);
    validate_draft_free(draft);
    memcpy(a.message, e.msg, sizeof a.message);
    for (size_t i = 0; i < notes.count; i++) {
        strncat(a.notes, notes.items[i], sizeof a.notes - strlen(a.notes) - 1);
    }
    warnings_deinit(&notes);
    admission_request_deinit(&r);
    buf_reset(&json);
    return a;
}

#define OBJECT(meta, spec)                                                                         \
    "{apiVersion: ctrlmesh.kusionstack.io/v1alpha1, kind: ShardingConfig, metadata: {name: a" meta \
    "}, spec: {" spec "}}"

static void shards_of_a_root_are_edited(void **state)
{
    (void)state;
    static const char now[] =
        OBJECT(", labels: {ctrlmesh.kusionstack.io/auto-sharding-root: r}", SELECTOR ", " LIMITS);
    static const char before[] =
        OBJECT(", labels: {ctrlmesh.kusionstack.io/auto-sharding-root: r}", SELECTOR);
    static const char note[] =
        "this shard is made of root \"r\", and the manager makes it so again";
    struct fixture f;
    shard_cache_init(&f);
    struct answer a = admit(&f, "UPDATE", ", userInfo: {username: joe}", now, before);
    assert_int_equal(a.rc, 0);
    expect_text(a.notes, note);
    a = admit(&f, "UPDATE", ", userInfo: {username: 'system:serviceaccount:x:manager'}", now,
              before);
    assert_null(strstr(a.notes, note));
    a = admit(&f, "UPDATE", ", userInfo: {username: joe}", now, now);
    assert_null(strstr(a.notes, note));
    a = admit(&f, "CREATE", ", userInfo: {username: joe}", now, "null");
    assert_null(strstr(a.notes, note));
    a = admit(&f, "UPDATE", ", userInfo: {username: joe}", now, OBJECT("", SELECTOR));
    assert_null(strstr(a.notes, note));
    shard_cache_deinit(&f);
}

static void what_the_webhook_says(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    add_config(&f, config_of("b", NAMED("op-1")));
    static const char good[] = OBJECT("", SELECTOR ", " LIMITS);
    static const char bad[] = OBJECT("", SELECTOR ", limits: [{}]");
    static const char worse[] = OBJECT("", SELECTOR ", limits: [{}, {}]");

    assert_int_equal(admit(&f, "CREATE", "", good, "null").rc, 0);
    struct answer a = admit(&f, "CREATE", "", bad, "null");
    assert_int_equal(a.rc, -EINVAL);
    expect_text(a.message, "spec.limits[0].relateResources: Required value");
    /* The namespace is that of the request. */
    a = admit(&f, "CREATE", "", OBJECT("", NAMED("op-1")), "null");
    expect_text(a.message, "ShardingConfig \"b\"");

    assert_int_equal(admit(&f, "UPDATE", "", good, bad).rc, 0);
    assert_int_equal(admit(&f, "UPDATE", "", bad, good).rc, -EINVAL);
    assert_int_equal(admit(&f, "UPDATE", "", worse, bad).rc, -EINVAL);
    /* What came past the webhook must not get stuck. */
    assert_int_equal(admit(&f, "UPDATE", "", OBJECT(", labels: {x: v}", "limits: [{}]"),
                           OBJECT("", "limits: [{}]"))
                         .rc,
                     0);
    assert_int_equal(
        admit(&f, "UPDATE", "", OBJECT(", deletionTimestamp: '2026-01-01T00:00:00Z'", ""), good).rc,
        0);
    assert_int_equal(admit(&f, "UPDATE", ", subResource: status", bad, good).rc, 0);

    a = admit(&f, "UPDATE", "", good, OBJECT("", "selector: {matchLabels: {app: x}}, " LIMITS));
    assert_int_equal(a.rc, 0);
    expect_text(a.notes, "spec.selector: changed: running pods stay");
    a = admit(&f, "UPDATE", "", good, OBJECT("", SELECTOR));
    assert_null(strstr(a.notes, "changed"));
    a = admit(&f, "UPDATE", "", good,
              OBJECT("", SELECTOR ", " LIMITS ", controller: {userAgentOrPrefix: a/}"));
    assert_int_equal(a.rc, 0);
    expect_text(a.notes, "spec.controller.userAgentOrPrefix: changed: running pods keep");

    a = admit(&f, "DELETE", "", "null", bad);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.notes, "");
    a = admit(&f, "DELETE", "", "null",
              "{status: {pods: [{name: a, generation: 1}, {name: b}, {name: c, generation: 2}]}}");
    assert_int_equal(a.rc, 0);
    expect_text(a.notes,
                "2 pods of this shard enforce its rules, and do so until they are deleted");
    a = admit(&f, "DELETE", "", "null", "{status: {pods: [{name: a, generation: 1}, {name: b}]}}");
    expect_text(a.notes, "1 pod of this shard enforces its rules, and does so until it is deleted");
    a = admit(&f, "DELETE", "", "null", "{status: {pods: [{name: a, message: has no sidecar}]}}");
    assert_string_equal(a.notes, ""); /* what has no sidecar has no rules to keep */
    shard_cache_deinit(&f);
}

#define LOCKED(lock, pods)                                                                         \
    "{apiVersion: ctrlmesh.kusionstack.io/v1alpha1, kind: ShardingConfig, metadata: {name: a}, "   \
    "spec: {" SELECTOR ", " LIMITS ", controller: {leaderElectionName: '" lock                     \
    "'}}, status: {pods: [" pods "]}}"

static void another_lock(void **state)
{
    (void)state;
    static const char note[] = "spec.controller.leaderElectionName: changed: until all its pods";
    static const struct {
        const char *now;
        const char *before;
        bool noted;
    } cases[] = {
        {LOCKED("new", "{name: a, generation: 1}"), LOCKED("old", "{name: a, generation: 1}"),
         true},
        {LOCKED("old", "{name: a, generation: 1}"), LOCKED("old", ""), false},
        {LOCKED("new", ""), LOCKED("old", ""), false},
        {LOCKED("new", ""), LOCKED("old", "{name: a, message: has no sidecar}"), false},
        {LOCKED("new", "{name: a, generation: 1}"), LOCKED("", "{name: a, generation: 1}"), false},
    };
    struct fixture f;
    shard_cache_init(&f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a = admit(&f, "UPDATE", "", cases[i].now, cases[i].before);
        assert_int_equal(a.rc, 0);
        assert_int_equal(strstr(a.notes, note) != NULL, cases[i].noted);
    }
    shard_cache_deinit(&f);
}

/* Whatever is changed, and whether it is taken or not. */
static void where_no_webhook_injects(void **state)
{
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    static const char good[] = OBJECT("", SELECTOR ", " LIMITS);
    static const char note[] =
        "metadata.namespace: pods in \"demo\" get no sidecars, and see everything";
    assert_string_equal(admit(&f, "CREATE", "", good, "null").notes, "");
    f.world.left_out = true;
    struct answer a = admit(&f, "CREATE", "", good, "null");
    assert_int_equal(a.rc, 0);
    expect_text(a.notes, note);
    assert_true(strlen(a.notes) < ADMISSION_WARNING_MAX - NAME_LABEL_MAX);
    expect_text(admit(&f, "UPDATE", "", good, good).notes, note);
    expect_text(admit(&f, "UPDATE", "", OBJECT("", SELECTOR), good).notes, note);
    a = admit(&f, "CREATE", "", OBJECT("", SELECTOR ", limits: [{}]"), "null");
    assert_int_equal(a.rc, -EINVAL);
    expect_text(a.notes, note);
    a = admit(&f, "UPDATE", "", OBJECT(", deletionTimestamp: '2026-01-01T00:00:00Z'", ""), good);
    assert_string_equal(a.notes, "");
    assert_string_equal(admit(&f, "DELETE", "", "null", good).notes, "");
    shard_cache_deinit(&f);
}

/* As JSON: limits with a thousand resources each, named so; of core and further groups. */
static cJSON *many_resources(unsigned limits, const char *name, unsigned groups)
{
    enum { EACH = 1000, ROOM = 1 << 20 };
    struct buf text = BUF_INIT(ROOM);
    buf_append_str(
        &text, "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"ShardingConfig\","
               "\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{\"matchLabels\":{"
               "\"a\":\"b\"}},\"limits\":[");
    for (unsigned i = 0; i < limits; i++) {
        buf_printf(&text, "%s{\"relateResources\":[{\"apiGroups\":[\"\"", i > 0 ? "," : "");
        for (unsigned j = 1; j < groups; j++) {
            buf_printf(&text, ",\"g%u.example.com\"", j);
        }
        buf_append_str(&text, "],\"resources\":[\"pods\"");
        for (unsigned j = 1; j < EACH; j++) {
            buf_printf(&text, ",\"%s%u\"", name, groups > 1 ? j : i * EACH + j);
        }
        buf_append_str(&text, "]}],\"selector\":{\"matchLabels\":{\"ns\":\"a\"}}}");
    }
    buf_append_str(&text, "]}}");
    assert_int_equal(buf_error(&text), 0);
    cJSON *config = json_parse((const char *)buf_data(&text), text.len, NULL);
    assert_non_null(config);
    buf_reset(&text);
    return config;
}

static clock_t expect_all_was_not_looked_at(const struct validate_context *w, const cJSON *config)
{
    struct err e = ERR_INIT;
    struct warnings notes = WARNINGS_INIT;
    clock_t begun = clock();
    assert_int_equal(validate_config(config, &options, w, &notes, &e), 0);
    clock_t took = clock() - begun;
    assert_true(notes.count > 0);
    assert_true(notes.dropped > 0 ||
                strstr(notes.items[notes.count - 1], "not all was looked at") != NULL);
    warnings_deinit(&notes);
    return took;
}

/* Nobody may keep a manager busy by what is only odd: compared with what compiling takes, looking
 * for it took hundreds of times as long. */
static void what_is_odd_is_not_looked_for_for_long(void **state)
{
    enum { SERVED = 500, TIMES = 30 };
    static char names[SERVED][32];
    static struct validate_resource resources[SERVED];
    struct validate_context w = {.resources = resources, .resource_count = SERVED};
    struct err e = ERR_INIT;
    (void)state;
    for (size_t i = 0; i < SERVED; i++) {
        (void)snprintf(names[i], sizeof names[i], "somethingresources%zu", i);
        resources[i] = (struct validate_resource){"", i == 0 ? "pods" : names[i]};
    }
    cJSON *misspelt = many_resources(16, "somethngresources", 1);
    cJSON *paired = many_resources(16, "r", 8);
    clock_t begun = clock();
    rules_unref(compile_config(misspelt, &options, &e));
    rules_unref(compile_config(paired, &options, &e));
    clock_t compiled = clock() - begun;
    assert_int_equal(e.code, 0);
    clock_t took = expect_all_was_not_looked_at(&w, misspelt);
    took += expect_all_was_not_looked_at(&w, paired);
    assert_in_range(took, 0, TIMES * compiled);
    cJSON_Delete(misspelt);
    cJSON_Delete(paired);
}

/* Of one operator: the same 500 resources, in 4,000 namespaces of its own. */
static cJSON *many_names(const char *name)
{
    enum { NAMES = 4000, RESOURCES = 500, ROOM = 1 << 18 };
    struct buf text = BUF_INIT(ROOM);
    buf_printf(&text,
               "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"ShardingConfig\","
               "\"metadata\":{\"name\":\"%s\"},\"spec\":{\"controller\":{\"leaderElectionName\":"
               "\"l\"},\"selector\":{\"matchLabels\":{\"a\":\"%s\"}},\"limits\":[{"
               "\"relateResources\":[{\"apiGroups\":[\"g.example.com\"],\"resources\":[\"r\"",
               name, name);
    for (unsigned i = 1; i < RESOURCES; i++) {
        buf_printf(&text, ",\"r%u\"", i);
    }
    buf_printf(&text,
               "]}],\"selector\":{\"matchExpressions\":[{\"key\":\"ns\",\"operator\":\"In\","
               "\"values\":[\"%s\"",
               name);
    for (unsigned i = 1; i < NAMES; i++) {
        buf_printf(&text, ",\"n%u-%s\"", i, name);
    }
    buf_append_str(&text, "]}]}}]}}");
    assert_int_equal(buf_error(&text), 0);
    cJSON *config = json_parse((const char *)buf_data(&text), text.len, NULL);
    assert_non_null(config);
    buf_reset(&text);
    return config;
}

/* Selectors that many resources have are compared with those of another shard once. */
static void the_same_selectors_are_compared_once(void **state)
{
    enum { TIMES = 20 };
    struct err e = ERR_INIT;
    struct fixture f;
    struct warnings notes = WARNINGS_INIT;
    (void)state;
    shard_cache_init(&f);
    f.world.resources = NULL;
    f.world.resource_count = 0;
    add_config(&f, many_names("b"));
    cJSON *config = many_names("a");
    clock_t begun = clock();
    rules_unref(compile_config(config, &options, &e));
    clock_t compiled = clock() - begun;
    begun = clock();
    assert_int_equal(validate_config(config, &options, &f.world, &notes, &e), 0);
    clock_t took = clock() - begun;
    assert_int_equal(notes.count, 1);
    assert_non_null(strstr(notes.items[0], "makes URLs of"));
    assert_in_range(took, 0, TIMES * compiled);
    warnings_deinit(&notes);
    cJSON_Delete(config);
    shard_cache_deinit(&f);
}

/* ---- what is nearly right ---- */

static void check_limit(const struct fixture *f, const char *resources, const char *key,
                        const char *note)
{
    char spec[1024];
    (void)snprintf(spec, sizeof spec,
                   "selector: {matchLabels: {a: b}}, limits: [{relateResources: [{%s}], selector: "
                   "{matchExpressions: [{key: %s, operator: In, values: [x]}]}}]",
                   resources, key);
    check(f, config_of("one", spec), NULL, note);
}

static void labels_that_nothing_sets(void **state)
{
    static const struct {
        const char *key;
        const char *meant; /* NULL: it is right, or somebody else's */
    } rows[] = {
        {"ctrlmesh.kusionstack.io/namespace", NULL},
        {"ctrlmesh.kusionstack.io/sharding-hash", NULL},
        {"ctrlmesh.kusionstack.io/control", NULL},
        {"app", NULL},
        {"kubernetes.io/metadata.name", NULL},
        {"example.com/namespace", NULL},
        {"ctrlmesh.kusionstack.eu/something", NULL},
        {"namespace", "\"ctrlmesh.kusionstack.io/namespace\" meant?"},
        {"sharding-hash", "\"ctrlmesh.kusionstack.io/sharding-hash\" meant?"},
        {"ctrlmsh.kusionstack.io/namespace", "\"ctrlmesh.kusionstack.io/namespace\" meant?"},
        {"ctrlmesh.kusionstack.io/namespaces", "\"ctrlmesh.kusionstack.io/namespace\" meant?"},
        {"ctrlmesh.kusionstack.io/shard-hash", "\"ctrlmesh.kusionstack.io/sharding-hash\" meant?"},
        {"ctrlmesh.kusionstack/namespace", "\"ctrlmesh.kusionstack.io/namespace\" meant?"},
        {"ctrlmesh.kusionstck/namespace", NULL}, /* four letters are too many */
        {"ctrlmesh.kusionstack.io/something", "is \"ctrlmesh.kusionstack.io/"},
    };
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_limit(&f, "apiGroups: [''], resources: [pods]", rows[i].key, rows[i].meant);
    }
    check(&f,
          config_of("one", "selector: {matchLabels: {a: b}}, limits: [{objectSelector: "
                           "{relateResources: [{apiGroups: [''], resources: [pods]}], selector: "
                           "{matchLabels: {namespace: x}}}}]"),
          NULL, "spec.limits[0].objectSelector.selector: the manager sets no label \"namespace\"");
    shard_cache_deinit(&f);
}

static void resources_that_no_server_has(void **state)
{
    static const struct {
        const char *resources;
        const char *note; /* NULL: nothing is odd, or nobody can tell */
    } rows[] = {
        {"apiGroups: [''], resources: [pods, '*']", "events.events.k8s.io serves the same objects"},
        {"apiGroups: ['', apps], resources: [deployments, secrets]", NULL},
        {"apiGroups: [example.com], resources: [widget]", NULL},
        {"apiGroups: ['*'], resources: [pod]", NULL},
        {"apiGroups: ['', example.com], resources: [widgets]", NULL},
        {"apiGroups: [policy], resources: [whatever]", NULL},
        {"apiGroups: [batch], resources: [cronjobs, jobs]", NULL},
        {"apiGroups: [apps], resources: [controllerrevisions, daemonsets, deployments, "
         "replicasets, statefulsets]",
         NULL},
        {"apiGroups: [''], resources: [bindings, componentstatuses, configmaps, endpoints, events, "
         "limitranges, namespaces, nodes, persistentvolumeclaims, persistentvolumes, pods, "
         "podtemplates, replicationcontrollers, resourcequotas, secrets, serviceaccounts, "
         "services]",
         "events.events.k8s.io serves the same objects"},
        {"apiGroups: [core], resources: [pods]",
         "relateResources[0].apiGroups[0]: Kubernetes has no group \"core\""},
        {"apiGroups: [appsv1], resources: [deployments]", "is \"apps\" meant?"},
        {"apiGroups: [''], resources: [pod]", "is \"pods\" of group \"\" meant?"},
        {"apiGroups: [''], resources: [services, configmap]",
         "resources[1]: Kubernetes has no \"configmap\" in these groups: this limits nothing"},
        {"apiGroups: [''], resources: [deployments]",
         "is \"deployments\" of group \"apps\" meant?"},
        {"apiGroups: [batch], resources: [widgets]", "the shard sees everything"},
    };
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    f.world.resource_count = 0; /* as without an API server */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_limit(&f, rows[i].resources, "app", rows[i].note);
    }
    shard_cache_deinit(&f);
}

/* What it has resources of is not said of each of them as well. */
static void a_group_that_is_none_is_said_once(void **state)
{
    struct warnings notes = WARNINGS_INIT;
    (void)state;
    cJSON *entry = parse("{apiGroups: [core], resources: [pods, secrets]}");
    misspelt_note_resources(entry, "path", &notes);
    assert_int_equal(notes.count, 1);
    warnings_deinit(&notes);
    cJSON_Delete(entry);
}

/* The API server knows better. */
/* By what the API server has, or, without one, by what none of them labels. */
static void resources_that_never_get_labels(void **state)
{
    static const struct never_labelled unlabelled[] = {{"example.com", "widgets"}};
    static const char key[] = "ctrlmesh.kusionstack.io/namespace";
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    f.world.unlabelled = unlabelled;
    f.world.unlabelled_count = ARRAY_LEN(unlabelled);
    check_limit(&f, "apiGroups: [example.com], resources: [widgets]", key,
                "the shard sees none: widgets.example.com (not namespaced, or");
    check_limit(&f, "apiGroups: [example.com], resources: [widgets]", "app", NULL);
    check_limit(&f, "apiGroups: [''], resources: [pods]", key, NULL);
    f.world.resource_count = 0;
    check_limit(&f, "apiGroups: [''], resources: [pods, nodes, namespaces]", key,
                "the shard sees none: nodes (not namespaced, or");
    check_limit(&f, "apiGroups: [''], resources: [pods, namespaces]", key, NULL);
    check_limit(&f, "apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, roles]", key,
                "the shard sees none: clusterroles.rbac.authorization.k8s.io (not");
    check_limit(&f, "apiGroups: [''], resources: [nodes]", "app", NULL);
    shard_cache_deinit(&f);
}

static void resources_that_are_served_are_right(void **state)
{
    static const struct validate_resource later[] = {{"", "things"}};
    (void)state;
    struct fixture f;
    shard_cache_init(&f);
    f.world.resources = later;
    f.world.resource_count = 1;
    check_limit(&f, "apiGroups: [''], resources: [things]", "app", NULL);
    shard_cache_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_good),
        cmocka_unit_test(what_is_wrong),
        cmocka_unit_test(names_have_room_for_the_configmap),
        cmocka_unit_test(unknown_namespaces),
        cmocka_unit_test(what_is_odd),
        cmocka_unit_test(without_resources_all_are_taken),
        cmocka_unit_test(pods_of_two_shards),
        cmocka_unit_test(pods_that_there_are),
        cmocka_unit_test(objects_of_two_shards),
        cmocka_unit_test(shared_namespaces_of_two_shards),
        cmocka_unit_test(what_the_operator_keeps_for_itself),
        cmocka_unit_test(what_cannot_be_shared),
        cmocka_unit_test(names_of_others_are_withheld),
        cmocka_unit_test(selectors_of_pods_are_bounded),
        cmocka_unit_test(roots),
        cmocka_unit_test(who_has_everything_is_there),
        cmocka_unit_test(what_has_no_effect),
        cmocka_unit_test(annotations_that_say_nothing),
        cmocka_unit_test(names_of_shards),
        cmocka_unit_test(roots_have_room_for_their_own),
        cmocka_unit_test(roots_beside_others),
        cmocka_unit_test(shards_of_one_root),
        cmocka_unit_test(shards_of_a_root_are_edited),
        cmocka_unit_test(what_the_webhook_says),
        cmocka_unit_test(another_lock),
        cmocka_unit_test(where_no_webhook_injects),
        cmocka_unit_test(labels_that_nothing_sets),
        cmocka_unit_test(resources_that_no_server_has),
        cmocka_unit_test(a_group_that_is_none_is_said_once),
        cmocka_unit_test(resources_that_never_get_labels),
        cmocka_unit_test(resources_that_are_served_are_right),
        cmocka_unit_test(what_is_odd_is_not_looked_for_for_long),
        cmocka_unit_test(the_same_selectors_are_compared_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
