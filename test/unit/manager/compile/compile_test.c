/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/compile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "entry_text.h"
#include "yaml/yaml.h"

static const struct compile_options defaults = {
    .namespace = "default",
    .generation = 1,
    .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
};

static struct rules *compile_with(const struct compile_options *o, const char *text, struct err *e)
{
    cJSON *config = yaml_parse(text, strlen(text), NULL, e);
    if (config == NULL) {
        fail_msg("the test's own YAML: %s", e->msg);
    }
    struct rules *rules = compile_config(config, o, e);
    cJSON_Delete(config);
    return rules;
}

static struct rules *compile_text(const char *text)
{
    struct err e = ERR_INIT;
    struct rules *rules = compile_with(&defaults, text, &e);
    if (rules == NULL) {
        fail_msg("%s", e.msg);
    }
    return rules;
}

#define HEAD                                                                                       \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"                                               \
    "kind: ShardingConfig\n"                                                                       \
    "metadata: {name: sharding-demo, namespace: operator-demo}\n"

/* A config whose spec is a pod selector and `spec`, lines indented by one space. */
static const char *config_of(const char *spec)
{
    static char text[8192];
    (void)snprintf(text, sizeof text, HEAD "spec:\n selector: {matchLabels: {app: demo}}\n%s",
                   spec);
    return text;
}

static void expect_error(const char *text, const char *want)
{
    struct err e = ERR_INIT;
    struct rules *rules = compile_with(&defaults, text, &e);
    if (rules != NULL) {
        fail_msg("taken, but wanted \"%s\":\n%s", want, text);
    }
    if (strncmp(e.msg, want, strlen(want)) != 0) {
        fail_msg("wanted \"%s...\", got \"%s\"", want, e.msg);
    }
    assert_true(e.code < 0);
}

static const char *selector_for(const struct rules *rules, const char *group, const char *resource)
{
    const struct rules_entry *entry = rules_match(rules, slice_str(group), slice_str(resource));
    return entry == NULL ? "(no limit)" : entry_text(entry);
}

/* The example of the documentation that the API comes from. */
static const char example[] = HEAD "spec:\n"
                                   "  controller:\n"
                                   "    leaderElectionName: operator-leader\n"
                                   "  webhook:\n"
                                   "    certDir: /tmp/webhook-certs\n"
                                   "    port: 9443\n"
                                   "  limits:\n"
                                   "  - relateResources:\n"
                                   "    - apiGroups:\n"
                                   "      - '*'\n"
                                   "      resources:\n"
                                   "      - pods\n"
                                   "      - services\n"
                                   "    selector:\n"
                                   "      matchExpressions:\n"
                                   "      - key: ctrlmesh.kusionstack.io/namespace\n"
                                   "        operator: In\n"
                                   "        values:\n"
                                   "        - ns-b\n"
                                   "        - ns-a\n"
                                   "      matchLabels:\n"
                                   "        app: foo\n"
                                   "  selector:\n"
                                   "    matchExpressions:\n"
                                   "    - key: statefulset.kubernetes.io/pod-name\n"
                                   "      operator: In\n"
                                   "      values:\n"
                                   "      - operator-demo-0\n";

static void the_documented_example(void **state)
{
    (void)state;
    struct rules *rules = compile_text(example);
    struct buf text = BUF_INIT(65536);
    assert_int_equal(rules_to_json(rules, &text), 0);
    assert_string_equal(
        buf_cstr(&text),
        "{\"apiVersion\":\"cmesh/v1\","
        "\"checksum\":\"sha256:4cd1cb9490a59d0dbaee7b56a81de8aadcb5a69bebe086180f77d6f053ea9ed8\","
        "\"generation\":1,\"kind\":\"ShardRules\","
        "\"shard\":{\"name\":\"sharding-demo\",\"namespace\":\"operator-demo\"},"
        "\"spec\":{\"labels\":{\"control\":\"ctrlmesh.kusionstack.io/control\","
        "\"namespace\":\"ctrlmesh.kusionstack.io/namespace\","
        "\"shardHash\":\"ctrlmesh.kusionstack.io/sharding-hash\"},"
        "\"leaderElection\":{\"name\":\"operator-leader\"},"
        "\"limits\":[{\"apiGroups\":[\"*\"],\"resources\":[\"pods\",\"services\"],"
        "\"selector\":\"app=foo,ctrlmesh.kusionstack.io/namespace in (ns-a,ns-b)\"}],"
        "\"webhook\":{\"certDir\":\"/tmp/webhook-certs\",\"port\":9443}}}");
    buf_reset(&text);
    rules_unref(rules);
}

/* Kridge's spelling: another group, limits wrapped in objectSelector, matchLabels left empty. */
static void the_example_of_kridge(void **state)
{
    (void)state;
    struct rules *rules = compile_text("apiVersion: kridge.kusionstack.io/v1alpha1\n"
                                       "kind: ShardingConfig\n"
                                       "metadata: {name: s, namespace: ns}\n"
                                       "spec:\n"
                                       "  limits:\n"
                                       "    - objectSelector:\n"
                                       "        relateResources:\n"
                                       "          - apiGroups: ['*']\n"
                                       "            resources: [pods, services]\n"
                                       "        selector:\n"
                                       "          matchExpressions:\n"
                                       "            - key: kridge.kusionstack.io/namespace\n"
                                       "              operator: In\n"
                                       "              values: [ns-a]\n"
                                       "          matchLabels:\n"
                                       "          # ...\n"
                                       "  selector: {matchLabels: {a: b}}\n");
    assert_string_equal(selector_for(rules, "", "services"),
                        "kridge.kusionstack.io/namespace in (ns-a)");
    assert_string_equal(rules_labels(rules)->namespace, "kridge.kusionstack.io/namespace");
    assert_string_equal(rules_labels(rules)->shard_hash, "kridge.kusionstack.io/sharding-hash");
    assert_null(rules_leader_election(rules));
    rules_unref(rules);
}

static void several_limits_and_resources(void **state)
{
    (void)state;
    struct rules *rules = compile_text(
        config_of(" limits:\n"
                  " - relateResources:\n"
                  "   - {apiGroups: [''], resources: [pods]}\n"
                  "   - {apiGroups: [apps], resources: [deployments]}\n"
                  "   selector: {matchLabels: {a: x}}\n"
                  " - relateResources:\n"
                  "   - {apiGroups: ['*'], resources: [pods]}\n"
                  "   selector: {matchExpressions: [{key: b, operator: NotIn, values: [x]}]}\n"));
    assert_string_equal(selector_for(rules, "", "pods"), "a=x,b notin (x)");
    assert_string_equal(selector_for(rules, "apps", "deployments"), "a=x");
    assert_string_equal(selector_for(rules, "metrics.k8s.io", "pods"), "b notin (x)");
    assert_string_equal(selector_for(rules, "", "services"), "(no limit)");
    rules_unref(rules);
}

/* Nothing in a list is nothing to see, never everything. */
static void an_empty_list_shows_nothing(void **state)
{
    (void)state;
    struct rules *rules = compile_text(
        config_of(" limits:\n"
                  " - relateResources: [{apiGroups: [''], resources: [pods]}]\n"
                  "   selector: {matchExpressions: [{key: k, operator: In, values: []}]}\n"));
    const struct rules_entry *entry = rules_match(rules, SLICE(""), SLICE("pods"));
    const struct selector_label labels[] = {{.key = SLICE("k"), .value = SLICE("")}};
    assert_non_null(entry);
    assert_false(selector_matches(entry->compiled, labels, 1));
    assert_false(selector_matches(entry->compiled, NULL, 0));
    rules_unref(rules);
}

static void the_lock_in_another_namespace(void **state)
{
    (void)state;
    static const char *const own[] = {"", ", leaderElectionNamespace: ''",
                                      ", leaderElectionNamespace: null"};
    struct rules *rules =
        compile_text(config_of(" controller: {leaderElectionName: cert-manager-controller, "
                               "leaderElectionNamespace: kube-system}\n"));
    assert_string_equal(rules_leader_election(rules), "cert-manager-controller");
    assert_string_equal(rules_leader_election_namespace(rules), "kube-system");
    rules_unref(rules);
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, " controller: {leaderElectionName: l%s}\n", own[i]);
        rules = compile_text(config_of(text));
        assert_null(rules_leader_election_namespace(rules));
        rules_unref(rules);
    }
}

/* To see everything has to be said: what is not there may have been lost on the way. */
static void an_empty_list_of_limits_shows_everything(void **state)
{
    (void)state;
    static const char *const specs[] = {" limits: []\n", " limits: []\n controller: {}\n",
                                        " limits: []\n webhook: {}\n root: null\n",
                                        " limits: []\n controller: {leaderElectionName: ''}\n",
                                        " limits: []\n controller: {userAgentOrPrefix: a/}\n"};
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct rules *rules = compile_text(config_of(specs[i]));
        assert_int_equal(rules_limit_count(rules), 0);
        assert_null(rules_leader_election(rules));
        rules_unref(rules);
    }
}

static void missing_limits_show_nothing(void **state)
{
    (void)state;
    static const char *const specs[] = {"", " limits:\n", " limits: null\n",
                                        " controller: {leaderElectionName: x}\n"};
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct rules *rules = compile_text(config_of(specs[i]));
        assert_int_equal(rules_limit_count(rules), 1);
        assert_string_equal(selector_for(rules, "", "pods"), "k,!k");
        assert_string_equal(selector_for(rules, "example.com", "things"), "k,!k");
        rules_unref(rules);
    }
}

/* The selector for pods of a limit with this one matchExpression, or two, of `prefix`/KEY. */
static struct rules *compile_expressions(const struct compile_options *o, const char *list)
{
    char spec[1024];
    struct err e = ERR_INIT;
    (void)snprintf(spec, sizeof spec,
                   " limits:\n"
                   " - relateResources: [{apiGroups: [''], resources: [pods]}]\n"
                   "   selector: {matchExpressions: [%s]}\n",
                   list);
    struct rules *rules = compile_with(o, config_of(spec), &e);
    if (rules == NULL) {
        fail_msg("%s: %s", list, e.msg);
    }
    return rules;
}

#define NS "ctrlmesh.kusionstack.io/namespace"
#define HASH "ctrlmesh.kusionstack.io/sharding-hash"
#define CONTROL "ctrlmesh.kusionstack.io/control"
#define ALL_BUT_1                                                                                  \
    "(0,10,11,12,13,14,15,16,17,18,19,2,20,21,22,23,24,25,26,27,28,29,3,30,31,4,5,6,7,8,9)"

/* "All but ns-a" has what is labelled, and not what is in no namespace yet. */
static void what_has_no_control_label_is_not_selected(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        const char *want;
    } cases[] = {
        {"{key: " NS ", operator: NotIn, values: [b, a]}", NS "," NS " notin (a,b)"},
        {"{key: " HASH ", operator: NotIn, values: ['1']}", HASH " in " ALL_BUT_1},
        {"{key: " CONTROL ", operator: NotIn, values: [x]}", CONTROL "," CONTROL " notin (x)"},
        {"{key: " NS ", operator: NotIn, values: [a]}, {key: " HASH
         ", operator: NotIn, values: ['1']}",
         NS "," NS " notin (a)," HASH " in " ALL_BUT_1},
        /* It is demanded already. */
        {"{key: " NS ", operator: NotIn, values: [a]}, {key: " NS ", operator: In, values: [a, b]}",
         NS " in (a,b)," NS " notin (a)"},
        {"{key: " NS ", operator: NotIn, values: [a]}, {key: " NS ", operator: Exists}",
         NS "," NS " notin (a)"},
        /* Of other labels it means what it means everywhere. */
        {"{key: a, operator: NotIn, values: [b]}, {key: c, operator: DoesNotExist}",
         "a notin (b),!c"},
        {"{key: namespace, operator: NotIn, values: [b]}", "namespace notin (b)"},
        {"{key: " NS ", operator: In, values: []}", "k,!k"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rules *rules = compile_expressions(&defaults, cases[i].list);
        assert_string_equal(selector_for(rules, "", "pods"), cases[i].want);
        rules_unref(rules);
    }
}

static void control_labels_have_the_configured_keys(void **state)
{
    (void)state;
    struct compile_options o = defaults;
    o.labels.prefix = "mesh.example.com";
    o.labels.shard_hash = "other.example.com/hash";
    struct rules *rules =
        compile_expressions(&o, "{key: mesh.example.com/namespace, operator: NotIn, values: [a]}, "
                                "{key: other.example.com/hash, operator: NotIn, values: ['1']}, "
                                "{key: " NS ", operator: NotIn, values: [a]}");
    assert_string_equal(selector_for(rules, "", "pods"),
                        NS " notin (a),"
                           "mesh.example.com/namespace,mesh.example.com/namespace notin (a),"
                           "other.example.com/hash in " ALL_BUT_1);
    rules_unref(rules);
}

static void no_shard_has_what_has_no_control_label(void **state)
{
    (void)state;
    static const char *const keys[] = {NS, HASH, CONTROL};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        char spec[1024];
        char want[512];
        (void)snprintf(spec, sizeof spec,
                       " limits:\n"
                       " - objectSelector:\n"
                       "     relateResources: [{apiGroups: [''], resources: [pods]}]\n"
                       "     selector: {matchExpressions: [{key: a, operator: DoesNotExist}, "
                       "{key: %s, operator: DoesNotExist}]}\n",
                       keys[i]);
        (void)snprintf(want, sizeof want,
                       "spec.limits[0].objectSelector.selector.matchExpressions[1].operator: "
                       "Forbidden: DoesNotExist: what does not have the control label \"%s\" is "
                       "in no shard",
                       keys[i]);
        expect_error(config_of(spec), want);
    }
}

/* What is demanded counts as one more requirement. */
static void demands_are_bounded(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    assert_int_equal(buf_printf(&text, "%s",
                                config_of(" limits:\n"
                                          " - relateResources: [{apiGroups: [''], resources: "
                                          "[pods]}]\n"
                                          "   selector: {matchExpressions: [")),
                     0);
    for (int i = 0; i < SELECTOR_REQUIREMENTS_MAX; i++) {
        assert_int_equal(buf_printf(&text, "%s{key: " NS ", operator: NotIn, values: [a%d]}",
                                    i > 0 ? "," : "", i),
                         0);
    }
    assert_int_equal(buf_append_str(&text, "]}\n"), 0);
    assert_null(compile_with(&defaults, buf_cstr(&text), &e));
    assert_int_equal(e.code, -E2BIG);
    assert_string_equal(e.msg, "spec.limits[0].selector: the selectors are too large together");
    buf_reset(&text);
}

static struct rules *compile_shared(const struct sharing_set *all, const char *shared,
                                    const char *limit)
{
    char spec[2048];
    struct compile_options o = defaults;
    struct err e = ERR_INIT;
    o.shared = all;
    (void)snprintf(spec, sizeof spec,
                   " sharedNamespaces: %s\n limits:\n - relateResources: [{apiGroups: [''], "
                   "resources: [pods]}]\n   %s\n",
                   shared, limit);
    struct rules *rules = compile_with(&o, config_of(spec), &e);
    if (rules == NULL) {
        fail_msg("%s: %s", limit, e.msg);
    }
    return rules;
}

#define LEAVING                                                                                    \
    " controller: {leaderElectionName: lead}\n sharedNamespaces: [ops]\n leaving: %s\n limits:\n"  \
    " - relateResources: [{apiGroups: [''], resources: [pods]}]\n   selector: {matchLabels: {" NS  \
    ": a}}\n"

/* One shard has everything, as a pod without sidecars. */
static void shards_are_left(void **state)
{
    char spec[1024];
    (void)state;
    (void)snprintf(spec, sizeof spec, LEAVING, "sharding-demo");
    struct rules *rules = compile_text(config_of(spec));
    assert_int_equal(rules_limit_count(rules), 0);
    assert_null(rules_leader_election(rules));
    rules_unref(rules);
    (void)snprintf(spec, sizeof spec, LEAVING, "another");
    rules = compile_text(config_of(spec));
    assert_string_equal(rules_leader_election(rules), "lead");
    const struct rules_entry *pods = rules_match(rules, SLICE(""), SLICE("pods"));
    struct buf text = BUF_INIT(1024);
    assert_int_equal(selector_print(pods->compiled, &text), 0);
    assert_string_equal(buf_cstr(&text), NS " in (a,ops)," NS " in (ops)");
    buf_reset(&text);
    rules_unref(rules);
}

/* sharding_hash of a, b, logs, ops: 1, 2, 21, 18 */
static void shared_namespaces_pass(void **state)
{
    (void)state;
    char *names[] = {"b", "logs", "ops"};
    const struct sharing_set all = {.names = names, .count = ARRAY_LEN(names)};
    static const struct {
        const char *list;
        const char *alone; /* no other config shares anything */
        const char *beside;
    } cases[] = {
        {"matchExpressions: [{key: " NS ", operator: In, values: [a, c]}]", NS " in (a,c,ops)",
         NS " in (a,c,ops)"},
        {"matchExpressions: [{key: " NS ", operator: In, values: [ops]}]", NS " in (ops)",
         NS " in (ops)"},
        {"matchExpressions: [{key: " NS ", operator: In, values: []}]", NS " in (ops)",
         NS " in (ops)"},
        {"matchLabels: {app: x, " NS ": a}", "app=x," NS " in (a,ops)", "app=x," NS " in (a,ops)"},
        {"matchExpressions: [{key: " NS ", operator: NotIn, values: [a, ops]}]",
         NS "," NS " notin (a)", NS "," NS " notin (a)"},
        {"matchExpressions: [{key: " NS ", operator: NotIn, values: [ops]}]", NS, NS},
        {"matchExpressions: [{key: " HASH ", operator: In, values: ['1', '21']}]",
         HASH " in (1,21,ops)", HASH " in (1,21,logs,ops)"},
        {"matchExpressions: [{key: " HASH ", operator: In, values: ['18']}]", HASH " in (18,ops)",
         HASH " in (18,ops)"},
        {"matchExpressions: [{key: " HASH ", operator: In, values: []}]", HASH " in (ops)",
         HASH " in (ops)"},
        {"matchLabels: {" HASH ": '2'}", HASH " in (2,ops)", HASH " in (2,b,ops)"},
        {"matchExpressions: [{key: " HASH ", operator: In, values: ['1']}, {key: " NS
         ", operator: NotIn, values: [a, ops]}]",
         NS "," NS " notin (a)," HASH " in (1,ops)", NS "," NS " notin (a)," HASH " in (1,ops)"},
        {"matchLabels: {app: x}", "app=x", "app=x"},
        {"matchExpressions: [{key: " HASH ", operator: Exists}]", HASH, HASH},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char limit[512];
        (void)snprintf(limit, sizeof limit, "selector: {%s}", cases[i].list);
        struct rules *alone = compile_shared(NULL, "[ops]", limit);
        struct rules *beside = compile_shared(&all, "[ops]", limit);
        assert_string_equal(selector_for(alone, "", "pods"), cases[i].alone);
        assert_string_equal(selector_for(beside, "", "pods"), cases[i].beside);
        rules_unref(alone);
        rules_unref(beside);
    }
}

/* Of an operator that shares nothing, the shard with the hash has the namespace that others share.
 */
static void what_others_share_stays_where_it_was(void **state)
{
    (void)state;
    char *names[] = {"b", "ops"};
    const struct sharing_set all = {.names = names, .count = ARRAY_LEN(names)};
    struct rules *rules = compile_shared(
        &all, "[]", "selector: {matchExpressions: [{key: " HASH ", operator: In, values: ['2']}]}");
    assert_string_equal(selector_for(rules, "", "pods"), HASH " in (2,b)");
    rules_unref(rules);
    rules = compile_shared(&all, "[]",
                           "selector: {matchExpressions: [{key: " HASH
                           ", operator: NotIn, values: ['1', '18']}]}");
    assert_non_null(strstr(selector_for(rules, "", "pods"), ",9,b)"));
    assert_null(strstr(selector_for(rules, "", "pods"), "ops"));
    rules_unref(rules);
    rules = compile_shared(
        &all, "[]", "selector: {matchExpressions: [{key: " NS ", operator: In, values: [a]}]}");
    assert_string_equal(selector_for(rules, "", "pods"), NS " in (a)");
    rules_unref(rules);
}

static void shared_namespaces_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *want;
    } cases[] = {
        {"ops", "spec.sharedNamespaces: Invalid value: must be an array"},
        {"[1]", "spec.sharedNamespaces[0]: Invalid value: must be a string"},
        {"[a, B]", "spec.sharedNamespaces[1]: Invalid value: \"B\""},
        {"['7']", "spec.sharedNamespaces[0]: Invalid value: \"7\": a namespace that is called as a "
                  "hash, 0 to 31, cannot be shared"},
        {"[a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a]",
         "spec.sharedNamespaces: Too many: must have at most 32 entries"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char spec[256];
        (void)snprintf(spec, sizeof spec, " sharedNamespaces: %s\n limits: []\n", cases[i].value);
        expect_error(config_of(spec), cases[i].want);
    }
}

static void options_are_used(void **state)
{
    (void)state;
    struct compile_options o = defaults;
    struct err e = ERR_INIT;
    o.namespace = "elsewhere";
    o.generation = RULES_GENERATION_MAX;
    o.labels.prefix = "mesh.example.com";
    o.labels.shard_hash = "shard-hash";
    o.labels.control = "other.example.com/on";
    struct rules *rules = compile_with(&o,
                                       "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                                       "kind: ShardingConfig\n"
                                       "metadata: {name: s}\n"
                                       "spec: {selector: {}}\n",
                                       &e);
    assert_non_null(rules);
    assert_string_equal(rules_shard_namespace(rules), "elsewhere");
    assert_int_equal(rules_generation(rules), RULES_GENERATION_MAX);
    assert_string_equal(rules_labels(rules)->namespace, "mesh.example.com/namespace");
    assert_string_equal(rules_labels(rules)->shard_hash, "mesh.example.com/shard-hash");
    assert_string_equal(rules_labels(rules)->control, "other.example.com/on");
    rules_unref(rules);

    o.labels.namespace = "not a name";
    rules = compile_with(&o, config_of(""), &e);
    assert_null(rules);
    assert_non_null(strstr(e.msg, "--label-namespace: Invalid value: \"mesh.example.com/not a"));
}

/* The same config in another order of fields and values gives the same rules. */
static void order_does_not_matter(void **state)
{
    (void)state;
    struct rules *a = compile_text(example);
    struct rules *b = compile_text("kind: ShardingConfig\n"
                                   "spec:\n"
                                   "  selector: {}\n"
                                   "  limits:\n"
                                   "  - selector:\n"
                                   "      matchLabels: {app: foo}\n"
                                   "      matchExpressions:\n"
                                   "      - {values: [ns-a, ns-b, ns-a], operator: In, key: "
                                   "ctrlmesh.kusionstack.io/namespace}\n"
                                   "    relateResources:\n"
                                   "    - {resources: [pods, services], apiGroups: ['*']}\n"
                                   "  controller: {leaderElectionName: operator-leader}\n"
                                   "  webhook: {port: 9443, certDir: /tmp/webhook-certs}\n"
                                   "metadata: {namespace: operator-demo, name: sharding-demo}\n"
                                   "status: {observedGeneration: 4}\n"
                                   "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n");
    assert_string_equal(rules_checksum(a), rules_checksum(b));
    rules_unref(a);
    rules_unref(b);
}

static void wrong_heads(void **state)
{
    (void)state;
    expect_error("[]", "Invalid value: must be an object");
    expect_error("{apiVersion: 1}", "apiVersion: Invalid value: must be a string");
    expect_error("{apiVersion: v1}", "apiVersion: Unsupported value: \"v1\": supported values: "
                                     "\"ctrlmesh.kusionstack.io/v1alpha1\"");
    expect_error("{apiVersion: ctrlmesh.kusionstack.io/v2}", "apiVersion: Unsupported value");
    expect_error("{apiVersion: ctrlmesh.kusionstack.iox/v1alpha1}",
                 "apiVersion: Unsupported value");
#define V "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
    expect_error(V, "metadata: Required value");
    expect_error(V "metadata: {}\n", "metadata.name: Required value");
    expect_error(V "metadata: x\n", "metadata: Invalid value: must be an object");
    expect_error(V "metadata: {name: 5}\n", "metadata.name: Invalid value: must be a string");
    expect_error(V "metadata: {name: a, namespace: 5}\n",
                 "metadata.namespace: Invalid value: must be a string");
    expect_error(V "metadata: {name: a}\n", "spec: Required value");
    expect_error(V "metadata: {name: a}\nspec: []\n", "spec: Invalid value: must be an object");
    expect_error(V "metadata: {name: a}\nspec: {}\n", "spec.selector: Required value");
    expect_error(V "metadata: {name: A_b}\nspec: {selector: {}}\n",
                 "metadata.name: Invalid value: \"A_b\"");
    expect_error(V "metadata: {name: a, namespace: a.b}\nspec: {selector: {}}\n",
                 "metadata.namespace: Invalid value: \"a.b\"");
#undef V
}

static void wrong_specs(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        const char *want;
    } cases[] = {
        {" limts: []\n", "spec.limts: Forbidden: unknown field; is \"limits\" meant?"},
        {" root: {prefix: a}\n",
         "spec.root: Forbidden: a root has no rules of its own: its shards have"},
        {" controller: x\n", "spec.controller: Invalid value: must be an object"},
        {" controller: {leaderElection: x}\n",
         "spec.controller.leaderElection: Forbidden: unknown field"},
        {" controller: {leaderElectionName: 1}\n",
         "spec.controller.leaderElectionName: Invalid value: must be a string"},
        {" controller: {leaderElectionName: A}\n",
         "spec.controller.leaderElectionName: Invalid value: \"A\""},
        {" controller: {leaderElectionName: a, leaderElectionNamespace: 1}\n",
         "spec.controller.leaderElectionNamespace: Invalid value: must be a string"},
        {" controller: {leaderElectionName: a, leaderElectionNamespace: A}\n",
         "spec.controller.leaderElectionNamespace: Invalid value: \"A\""},
        {" controller: {leaderElectionName: a, leaderElectionNamespace: a.b}\n",
         "spec.controller.leaderElectionNamespace: Invalid value: \"a.b\""},
        {" controller: {leaderElectionNamespace: kube-system}\n",
         "spec.controller.leaderElectionName: Required value: leaderElectionNamespace is set"},
        {" controller: {leaderElectionNames: a}\n",
         "spec.controller.leaderElectionNames: Forbidden: unknown field"},
        {" webhook: {port: 65536}\n", "spec.webhook.port: Invalid value"},
        {" webhook: {port: '9443'}\n", "spec.webhook.port: Invalid value"},
        {" webhook: {duringHandover: hold}\n", "spec.webhook.duringHandover: Unsupported value: "
                                               "\"hold\": supported values: \"OldOwner\", "
                                               "\"Hold\""},
        {" webhook: {certDir: 1}\n", "spec.webhook.certDir: Invalid value"},
        {" webhook: {cert: 1}\n", "spec.webhook.cert: Forbidden: unknown field"},
        {" limits: {}\n", "spec.limits: Invalid value: must be an array"},
        {" limits: [x]\n", "spec.limits[0]: Invalid value: must be an object"},
        {" limits: [{}]\n", "spec.limits[0].relateResources: Required value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_error(config_of(cases[i].spec), cases[i].want);
    }
    expect_error(HEAD "spec: {selector: {matchLabel: {a: b}}}\n",
                 "spec.selector.matchLabel: Forbidden: unknown field");
}

/* Paths are those of the config, however the rules number their limits. */
static void wrong_limits(void **state)
{
    (void)state;
#define PODS "{apiGroups: [''], resources: [pods]}"
#define GOOD                                                                                       \
    " limits:\n - {relateResources: [" PODS ", " PODS "], selector: {matchLabels: {a: b}}}\n"
    static const struct {
        const char *limit;
        const char *want; /* behind spec.limits[1] */
    } cases[] = {
        {"{relateResources: x, selector: {}}", ".relateResources: Invalid value: must be an array"},
        {"{relateResources: [], selector: {}}", ".relateResources: Required value"},
        {"{relateResources: [x], selector: {matchLabels: {a: b}}}",
         ".relateResources[0]: Invalid value: must be an object"},
        {"{relateResources: [" PODS "]}", ".selector: Required value"},
        {"{relateResources: [" PODS "], selector: }", ".selector: Required value"},
        {"{relateResources: [" PODS "], selector: x}",
         ".selector: Invalid value: must be an object"},
        {"{relateResources: [" PODS "], selector: {}}",
         ".selector: Required value: an empty selector would limit nothing"},
        {"{relateResources: [" PODS "], selector: {matchLabels: {a: b c}}}",
         ".selector.matchLabels: Invalid value: \"b c\""},
        {"{relateResources: [" PODS "], selector: {matchExpressions: [{key: a, operator: in}]}}",
         ".selector.matchExpressions[0].operator: Unsupported value: \"in\""},
        {"{relateResources: [" PODS "], selector: {matchLabels: {a: b}}, limit: 1}",
         ".limit: Forbidden: unknown field"},
        {"{relateResources: [" PODS ", {resources: [a]}], selector: {matchLabels: {a: b}}}",
         ".relateResources[1].apiGroups: Required value"},
        {"{relateResources: [" PODS ", {apiGroups: [a]}], selector: {matchLabels: {a: b}}}",
         ".relateResources[1].resources: Required value"},
        {"{relateResources: [" PODS ", {apiGroups: [a], resources: [Pod]}], selector: "
         "{matchLabels: {a: b}}}",
         ".relateResources[1].resources[0]: Invalid value: \"Pod\""},
        {"{relateResources: [{apiGroups: [a], resources: [b, c, 3]}], selector: "
         "{matchLabels: {a: b}}}",
         ".relateResources[0].resources[2]: Invalid value: must be a string"},
        {"{relateResources: [{apiGroups: [a], resources: [b], names: [c]}], selector: "
         "{matchLabels: {a: b}}}",
         ".relateResources[0].names: Forbidden: unknown field"},
        {"{objectSelector: x}", ".objectSelector: Invalid value: must be an object"},
        {"{objectSelector: {relateResources: [{apiGroups: [a], resources: [B]}], selector: "
         "{matchLabels: {a: b}}}}",
         ".objectSelector.relateResources[0].resources[0]: Invalid value: \"B\""},
        {"{objectSelector: {relateResources: [" PODS "], selector: {}}}",
         ".objectSelector.selector: Required value"},
        {"{objectSelector: {}, selector: {}}",
         ".selector: Forbidden: may not be set together with objectSelector"},
        {"{objectSelector: {relateResources: [" PODS "], selector: {matchLabels: {a: b}}, "
         "objectSelector: {}}}",
         ".objectSelector.objectSelector: Forbidden: unknown field"},
        {"{objectSelector: ~}", ".relateResources: Required value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char spec[1024];
        char want[256];
        (void)snprintf(spec, sizeof spec, GOOD " - %s\n", cases[i].limit);
        (void)snprintf(want, sizeof want, "spec.limits[1]%s", cases[i].want);
        expect_error(config_of(spec), want);
    }
}

/* A megabyte of selector for each of many resources must be refused, not copied. */
static void a_small_config_cannot_fill_memory(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cJSON *config = yaml_parse(example, strlen(example), NULL, &e);
    cJSON *limit =
        cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetObjectItem(config, "spec"), "limits"), 0);
    cJSON *values = cJSON_GetObjectItem(
        cJSON_GetArrayItem(
            cJSON_GetObjectItem(cJSON_GetObjectItem(limit, "selector"), "matchExpressions"), 0),
        "values");
    cJSON *resources = cJSON_GetObjectItem(limit, "relateResources");
    for (int i = 0; i < 10000; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "namespace-with-a-longer-name-%d", i);
        assert_true(cJSON_AddItemToArray(values, cJSON_CreateString(name)));
    }
    for (int i = 0; i < 2000; i++) {
        assert_true(cJSON_AddItemToArray(resources,
                                         cJSON_Duplicate(cJSON_GetArrayItem(resources, 0), true)));
    }
    assert_null(compile_config(config, &defaults, &e));
    assert_int_equal(e.code, -E2BIG);
    assert_non_null(strstr(e.msg, "spec.limits[0].relateResources["));
    cJSON_Delete(config);
}

static void kinds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool config;
    } cases[] = {{"{kind: ShardingConfig}", true},
                 {"{kind: shardingconfig}", false},
                 {"{kind: ShardingConfigList}", false},
                 {"{kind: 1}", false},
                 {"[]", false},
                 {"x", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        cJSON *document = yaml_parse(cases[i].text, strlen(cases[i].text), NULL, &e);
        assert_int_equal(compile_is_config(document), cases[i].config);
        cJSON_Delete(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_example),
        cmocka_unit_test(the_example_of_kridge),
        cmocka_unit_test(several_limits_and_resources),
        cmocka_unit_test(an_empty_list_shows_nothing),
        cmocka_unit_test(the_lock_in_another_namespace),
        cmocka_unit_test(an_empty_list_of_limits_shows_everything),
        cmocka_unit_test(missing_limits_show_nothing),
        cmocka_unit_test(what_has_no_control_label_is_not_selected),
        cmocka_unit_test(control_labels_have_the_configured_keys),
        cmocka_unit_test(no_shard_has_what_has_no_control_label),
        cmocka_unit_test(demands_are_bounded),
        cmocka_unit_test(shards_are_left),
        cmocka_unit_test(shared_namespaces_pass),
        cmocka_unit_test(what_others_share_stays_where_it_was),
        cmocka_unit_test(shared_namespaces_are_checked),
        cmocka_unit_test(options_are_used),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(wrong_heads),
        cmocka_unit_test(wrong_specs),
        cmocka_unit_test(wrong_limits),
        cmocka_unit_test(a_small_config_cannot_fill_memory),
        cmocka_unit_test(kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
