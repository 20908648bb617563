/* SPDX-License-Identifier: Apache-2.0 */
#include "root/child.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "compile/shards.h"
#include "object/names.h"
#include "rules/sharding.h"
#include "yaml/yaml.h"
#include "json/field.h"
#include "json/json.h"

static const struct compile_labels labels = {.prefix = "ctrlmesh.kusionstack.io",
                                             .namespace = "namespace",
                                             .shard_hash = "sharding-hash",
                                             .control = "control"};

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s: %s", e.msg, text);
    }
    return tree;
}

#define META                                                                                       \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: ShardingConfig\n"                         \
    "metadata: {name: root, namespace: ops, uid: u-1}\n"
#define ROOT_OF(canary, resources)                                                                 \
    META "spec:\n root: {prefix: op, targetStatefulSet: sts, auto: {shardingSize: 3, "             \
         "everyShardReplicas: 2}, canary: {" canary "}, resourceSelector: [" resources "]}\n"
#define PODS "{relateResources: [{apiGroups: [''], resources: [pods]}]}"

struct fixture {
    cJSON *root;
    struct root_spec spec;
    struct child_options options;
};

static void fixture_init(struct fixture *f, const char *text)
{
    struct err e = ERR_INIT;
    *f = (struct fixture){.root = parse(text)};
    if (root_spec_read(f->root, &f->spec, &e) != 0) {
        fail_msg("%s: %s", e.msg, text);
    }
    f->options =
        (struct child_options){.root = f->root, .spec = &f->spec, .labels = &labels, .ns = "ops"};
}

static void fixture_deinit(struct fixture *f)
{
    cJSON_Delete(f->root);
}

static void expect(const struct fixture *f, const struct layout_shard *shard, const char *want)
{
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(1 << 20);
    struct buf wanted = BUF_INIT(1 << 20);
    cJSON *child = child_make(&f->options, shard, &e);
    cJSON *tree = parse(want);
    assert_non_null(child);
    assert_int_equal(json_canonical(child, &text), 0);
    assert_int_equal(json_canonical(tree, &wanted), 0);
    assert_string_equal(buf_cstr(&text), buf_cstr(&wanted));
    buf_reset(&text);
    buf_reset(&wanted);
    cJSON_Delete(tree);
    cJSON_Delete(child);
}

#define CHILD(name, more)                                                                          \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: ShardingConfig\n"                         \
    "metadata:\n name: " name "\n namespace: ops\n"                                                \
    " labels: {ctrlmesh.kusionstack.io/auto-sharding-root: root}\n"                                \
    " ownerReferences: [{apiVersion: ctrlmesh.kusionstack.io/v1alpha1, kind: ShardingConfig, "     \
    "name: root, uid: u-1, controller: true}]\n" more
#define BUCKETS(text) " annotations: {ctrlmesh.kusionstack.io/auto-sharding-buckets: '" text "'}\n"
#define SPEC(pods, expressions)                                                                    \
    "spec:\n selector: {matchExpressions: [{key: statefulset.kubernetes.io/pod-name, "             \
    "operator: In, values: [" pods "]}]}\n"                                                        \
    " limits: [{relateResources: [{apiGroups: [''], resources: [pods]}], selector: "               \
    "{matchExpressions: [" expressions "]}}]\n"
#define HASH(values)                                                                               \
    "{key: ctrlmesh.kusionstack.io/sharding-hash, operator: In, values: [" values "]}"
#define NAMES(op, values)                                                                          \
    "{key: ctrlmesh.kusionstack.io/namespace, operator: " op ", values: [" values "]}"

static const struct layout_shard canary = {.number = 0, .first = 0, .pods = 2};
static const struct layout_shard normal = {.number = 3, .first = 4, .pods = 2, .buckets = 0xb};

static void normal_shards(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, ROOT_OF("", PODS));
    expect(&f, &normal,
           CHILD("op-3-normal", BUCKETS("0-1,3")) SPEC("sts-4, sts-5", HASH("'0', '1', '3'")));
    const struct layout_shard empty = {.number = 1, .pods = 1, .taken_over = true};
    expect(&f, &empty,
           CHILD("op-1-normal", " annotations: {ctrlmesh.kusionstack.io/auto-sharding-buckets: '', "
                                "ctrlmesh.kusionstack.io/auto-sharding-taken-over: 'true'}\n")
               SPEC("sts-0", HASH("")));
    fixture_deinit(&f);
}

#define DEPLOYMENT(more)                                                                           \
    META "spec:\n " more "root: {prefix: op, targetDeployment: web, auto: {shardingSize: 3, "      \
         "everyShardReplicas: 2}, canary: {replicas: 1, inNamespaces: [a]}, resourceSelector: "    \
         "[" PODS "]}\n"
#define SHARD_LABEL "ctrlmesh.kusionstack.io/shard"
#define LABELLED(selector, expressions)                                                            \
    "spec:\n selector: " selector "\n"                                                             \
    " limits: [{relateResources: [{apiGroups: [''], resources: [pods]}], selector: "               \
    "{matchExpressions: [" expressions "]}}]\n"

/* The pods of a Deployment are those with the label of the shard, and of spec.selector. */
static void shards_of_a_deployment(void **state)
{
    (void)state;
    static const struct {
        const char *beside; /* root, in spec */
        const char *selector;
    } cases[] = {
        {"", "{matchLabels: {" SHARD_LABEL ": op-3-normal}}"},
        {"selector: {matchLabels: {app: web, " SHARD_LABEL ": x}}\n ",
         "{matchLabels: {app: web, " SHARD_LABEL ": op-3-normal}}"},
        {"selector: {matchExpressions: [{key: " POD_NAME_LABEL ", operator: Exists}, "
         "{key: a, operator: Exists}]}\n ",
         "{matchExpressions: [{key: a, operator: Exists}], "
         "matchLabels: {" SHARD_LABEL ": op-3-normal}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;
        char text[1024];
        char want[2048];
        (void)snprintf(text, sizeof text, DEPLOYMENT("%s"), cases[i].beside);
        (void)snprintf(want, sizeof want,
                       CHILD("op-3-normal",
                             " annotations: {ctrlmesh.kusionstack.io/auto-sharding-buckets: "
                             "'0-1,3', ctrlmesh.kusionstack.io/auto-sharding-pods: '2'}\n")
                           LABELLED("%s", HASH("'0', '1', '3'") "," NAMES("NotIn", "a")),
                       cases[i].selector);
        fixture_init(&f, text);
        expect(&f, &normal, want);
        fixture_deinit(&f);
    }
}

/* What the webhook for pods reads of a child is what the child was made of. */
static void seats_of_a_deployment(void **state)
{
    (void)state;
    static const struct {
        struct layout_shard shard;
        struct root_child_seat seat;
    } cases[] = {
        {{.number = 0, .pods = 1}, {.number = 0, .wanted = 1}},
        {{.number = 0, .leaving = true}, {.number = 0, .wanted = 1, .leaving = true}},
        {{.number = 3, .pods = 1000}, {.number = 3, .wanted = 1000}},
        {{.number = 32, .pods = 2, .leaving = true}, {.number = 32, .wanted = 2, .leaving = true}},
    };
    struct fixture f;
    fixture_init(&f, DEPLOYMENT(""));
    assert_string_equal(root_child_deployment(f.root), "web");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        struct root_child_seat seat;
        struct layout_child read;
        cJSON *child = child_make(&f.options, &cases[i].shard, &e);
        assert_non_null(child);
        assert_true(root_child_seat(f.root, child, labels.prefix, &seat));
        assert_int_equal(seat.number, cases[i].seat.number);
        assert_int_equal(seat.wanted, cases[i].seat.wanted);
        assert_int_equal(seat.leaving, cases[i].seat.leaving);
        assert_int_equal(child_read(&f.spec, child, labels.prefix, &read), 0);
        assert_int_equal(read.pods, cases[i].shard.pods);
        cJSON_Delete(child);
    }
    fixture_deinit(&f);
}

static void no_seats(void **state)
{
    (void)state;
    static const char *const children[] = {
        "metadata: {name: op-1-normal}",
        "metadata: {name: op-1-normal, annotations: {ctrlmesh.kusionstack.io/auto-sharding-pods: "
        "x}}",
        "metadata: {name: op-1-normal, annotations: {ctrlmesh.kusionstack.io/auto-sharding-pods: "
        "'1001'}}",
        "metadata: {name: op-1-canary, annotations: {ctrlmesh.kusionstack.io/auto-sharding-pods: "
        "'1'}}",
    };
    struct fixture f;
    struct root_child_seat seat;
    fixture_init(&f, DEPLOYMENT(""));
    for (size_t i = 0; i < ARRAY_LEN(children); i++) {
        cJSON *child = parse(children[i]);
        assert_false(root_child_seat(f.root, child, labels.prefix, &seat));
        cJSON_Delete(child);
    }
    fixture_deinit(&f);
    fixture_init(&f, ROOT_OF("", PODS)); /* a StatefulSet's */
    cJSON *child = parse("metadata: {name: op-1-normal, annotations: "
                         "{ctrlmesh.kusionstack.io/auto-sharding-pods: '1'}}");
    assert_false(root_child_seat(f.root, child, labels.prefix, &seat));
    cJSON_Delete(child);
    fixture_deinit(&f);
}

static void what_counts_its_load(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, ROOT_OF("", PODS));
    f.spec.automatic.moves_per_hour = 1;
    const struct layout_shard shard = {.number = 2, .pods = 1, .buckets = 1};
    expect(&f, &shard,
           CHILD("op-2-normal",
                 " annotations: {ctrlmesh.kusionstack.io/auto-sharding-buckets: '0', "
                 "ctrlmesh.kusionstack.io/count-load: 'true'}\n") SPEC("sts-0", HASH("'0'")));
    fixture_deinit(&f);
}

static void a_canary_of_namespaces(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, ROOT_OF("replicas: 2, inNamespaces: [b, a, b]", PODS));
    assert_false(child_needs_namespaces(&f.spec));
    expect(&f, &canary, CHILD("op-0-canary", "") SPEC("sts-0, sts-1", NAMES("In", "a, b")));
    expect(&f, &normal,
           CHILD("op-3-normal", BUCKETS("0-1,3"))
               SPEC("sts-4, sts-5", HASH("'0', '1', '3'") "," NAMES("NotIn", "a, b")));
    fixture_deinit(&f);
}

static void a_canary_of_hashes(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, ROOT_OF("replicas: 2, inShardHash: ['31', '4']", PODS));
    expect(&f, &canary, CHILD("op-0-canary", "") SPEC("sts-0, sts-1", HASH("'4', '31'")));
    expect(&f, &normal,
           CHILD("op-3-normal", BUCKETS("0-1,3")) SPEC("sts-4, sts-5", HASH("'0', '1', '3'")));
    fixture_deinit(&f);
}

static void a_canary_that_leaves(void **state)
{
    (void)state;
    struct fixture f;
    const struct layout_shard leaving = {.number = 0, .leaving = true};
    fixture_init(&f, ROOT_OF("", PODS));
    expect(&f, &leaving, CHILD("op-0-canary", "") SPEC("", HASH("")));
    fixture_deinit(&f);
}

/* Hashes: a 1, b 2, c 3, d 4. */
static void a_canary_of_both(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d"};
    struct fixture f;
    assert_int_equal(sharding_hash("c"), 3);
    fixture_init(&f, ROOT_OF("replicas: 2, inNamespaces: [z, c], inShardHash: ['2', '3']", PODS));
    assert_true(child_needs_namespaces(&f.spec));
    expect(&f, &canary, CHILD("op-0-canary", "") SPEC("sts-0, sts-1", NAMES("In", "c, z")));
    f.options.namespaces = (struct child_namespaces){.names = names, .count = ARRAY_LEN(names)};
    expect(&f, &canary, CHILD("op-0-canary", "") SPEC("sts-0, sts-1", NAMES("In", "b, c, z")));
    expect(&f, &normal,
           CHILD("op-3-normal", BUCKETS("0-1,3"))
               SPEC("sts-4, sts-5", HASH("'0', '1', '3'") "," NAMES("NotIn", "b, c, z")));
    fixture_deinit(&f);
}

/* Whatever its lists are: it has nothing, and the others have its namespaces by their hashes. */
static void a_canary_that_was_taken_over(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d"};
    static const char *const lists[] = {
        ROOT_OF("replicas: 2, inNamespaces: [b, a]", PODS),
        ROOT_OF("replicas: 2, inShardHash: ['1', '4']", PODS),
        ROOT_OF("replicas: 2, inNamespaces: [z, c], inShardHash: ['1', '3']", PODS),
    };
    const struct layout_shard taken = {.number = 0, .pods = 2, .taken_over = true};
    const struct layout_shard with = {
        .number = 3, .first = 4, .pods = 2, .buckets = 0xb, .with_canary = true};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct fixture f;
        struct err e = ERR_INIT;
        struct layout_child read;
        fixture_init(&f, lists[i]);
        f.options.namespaces = (struct child_namespaces){.names = names, .count = ARRAY_LEN(names)};
        f.spec.automatic.moves_per_hour = 0;
        expect(&f, &taken,
               CHILD("op-0-canary",
                     " annotations: {ctrlmesh.kusionstack.io/auto-sharding-taken-over: 'true'}\n")
                   SPEC("sts-0, sts-1", HASH("")));
        expect(&f, &with,
               CHILD("op-3-normal", BUCKETS("0-1,3")) SPEC("sts-4, sts-5", HASH("'0', '1', '3'")));
        cJSON *child = child_make(&f.options, &taken, &e);
        assert_int_equal(child_read(&f.spec, child, labels.prefix, &read), 0);
        assert_true(read.taken_over);
        assert_int_equal(read.buckets, 0);
        cJSON_Delete(child);
        fixture_deinit(&f);
    }
}

/* What the canary of [a, b, z] and of the hash 3 has now decides what normal shards are without. */
static void a_canary_that_keeps_its_share(void **state)
{
    (void)state;
    static const struct {
        const char *had;    /* its requirement; NULL: there is no canary */
        const char *normal; /* what a normal shard asks for beside its hashes */
    } cases[] = {
        {NULL, ""},
        {HASH(""), ""},
        {HASH("'1', '3'"), "," NAMES("NotIn", "a")},
        {NAMES("In", "b, y"), "," NAMES("NotIn", "b")},
        {NAMES("In", "a, b, y, z"), "," NAMES("NotIn", "a, b, z")},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;
        char want[2048];
        cJSON *had = cases[i].had == NULL ? NULL : parse(cases[i].had);
        fixture_init(&f, ROOT_OF("replicas: 2, inNamespaces: [a, b, z]", PODS));
        f.options.keeps = true;
        f.options.had = had;
        (void)snprintf(want, sizeof want,
                       CHILD("op-3-normal", BUCKETS("0-1,3"))
                           SPEC("sts-4, sts-5", HASH("'0', '1', '3'") "%s"),
                       cases[i].normal);
        expect(&f, &normal, want);
        if (had != NULL) {
            (void)snprintf(want, sizeof want, CHILD("op-0-canary", "") SPEC("sts-0, sts-1", "%s"),
                           cases[i].had);
            expect(&f, &canary, want);
        }
        cJSON_Delete(had);
        fixture_deinit(&f);
    }
}

static void what_a_share_covers(void **state)
{
    (void)state;
    static const struct {
        const char *share;
        const char *part;
        bool covers;
    } cases[] = {
        {NULL, NULL, true},
        {NULL, HASH(""), true},
        {NULL, HASH("'1'"), false},
        {HASH(""), NAMES("In", "a"), false},
        {NAMES("In", "a"), HASH(""), true},
        {NAMES("In", "a"), HASH("'1'"), false}, /* its namespaces may be others later */
        {NAMES("In", "a, b"), NAMES("In", "b"), true},
        {NAMES("In", "a, b"), NAMES("In", "b, c"), false},
        {HASH("'1', '2'"), HASH("'2', '1'"), true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *share = cases[i].share == NULL ? NULL : parse(cases[i].share);
        cJSON *part = cases[i].part == NULL ? NULL : parse(cases[i].part);
        assert_int_equal(child_share_covers(share, part), cases[i].covers);
        cJSON_Delete(share);
        cJSON_Delete(part);
    }
}

static void what_is_copied(void **state)
{
    (void)state;
    struct fixture f;
    const struct layout_shard one = {.number = 1, .pods = 1, .buckets = 1};
    fixture_init(
        &f,
        "apiVersion: kridge.kusionstack.io/v1alpha1\nkind: ShardingConfig\nmetadata: {name: root}\n"
        "spec:\n controller: {leaderElectionName: l}\n webhook: {port: 1234, duringHandover: Hold, "
        "certDir: /c}\n"
        " selector: {matchLabels: {app: op, statefulset.kubernetes.io/pod-name: sts-0}, "
        "matchExpressions: [{key: statefulset.kubernetes.io/pod-name, operator: In, values: [x]}, "
        "{key: a, operator: Exists}, {key: statefulset.kubernetes.io/pod-name, operator: "
        "Exists}]}\n"
        " root:\n  prefix: op\n  targetStatefulSet: sts\n"
        "  auto: {shardingSize: 1, everyShardReplicas: 1}\n  resourceSelector:\n"
        "  - {relateResources: [{apiGroups: [a], resources: [b]}], selector: {matchLabels: {x: y}, "
        "matchExpressions: [{key: k, "
        "operator: Exists}]}, namespaceSelector: {matchLabels: {team: a}}, objectSelector: null}\n"
        "  - {objectSelector: {relateResources: [{apiGroups: [a], resources: [b]}], selector: "
        "null}}\n");
    assert_true(child_drops_pod_names(f.root));
    expect(&f, &one,
           "apiVersion: kridge.kusionstack.io/v1alpha1\nkind: ShardingConfig\n"
           "metadata:\n name: op-1-normal\n namespace: ops\n"
           " labels: {ctrlmesh.kusionstack.io/auto-sharding-root: root}\n" BUCKETS(
               "0") "spec:\n controller: {leaderElectionName: l}\n webhook: {port: 1234, "
                    "duringHandover: Hold, certDir: "
                    "/c}\n"
                    " selector: {matchLabels: {app: op}, matchExpressions: [{key: a, operator: "
                    "Exists}, "
                    "{key: statefulset.kubernetes.io/pod-name, operator: In, values: [sts-0]}]}\n"
                    " limits:\n"
                    " - {relateResources: [{apiGroups: [a], resources: [b]}], selector: "
                    "{matchLabels: {x: y}, matchExpressions: "
                    "[{key: k, "
                    "operator: Exists}, " HASH(
                        "'0'") "]}, namespaceSelector: {matchLabels: {team: a}}, "
                               "objectSelector: null}\n"
                               " - {objectSelector: {relateResources: [{apiGroups: [a], resources: "
                               "[b]}], selector: "
                               "{matchExpressions: "
                               "[" HASH("'0'") "]}}}\n");
    fixture_deinit(&f);
    fixture_init(&f, ROOT_OF("", PODS));
    assert_false(child_drops_pod_names(f.root));
    fixture_deinit(&f);
}

static void other_labels(void **state)
{
    (void)state;
    static const struct compile_labels other = {
        .prefix = "x.io", .namespace = "n", .shard_hash = "y.io/h", .control = "c"};
    struct fixture f;
    struct err e = ERR_INIT;
    struct layout_child read;
    fixture_init(&f, ROOT_OF("replicas: 2, inNamespaces: [a]", PODS));
    f.options.labels = &other;
    cJSON *child = child_make(&f.options, &normal, &e);
    char *text = cJSON_PrintUnformatted(child);
    assert_non_null(strstr(text, "\"x.io/auto-sharding-root\":\"root\""));
    assert_non_null(strstr(text, "\"x.io/auto-sharding-buckets\":\"0-1,3\""));
    assert_non_null(strstr(text, "{\"key\":\"y.io/h\",\"operator\":\"In\""));
    assert_non_null(strstr(text, "{\"key\":\"x.io/n\",\"operator\":\"NotIn\""));
    assert_int_equal(child_read(&f.spec, child, "x.io", &read), 0);
    assert_int_equal(read.buckets, 0xb);
    free(text);
    cJSON_Delete(child);
    fixture_deinit(&f);
}

/* ---- bounds ---- */

static void expect_error(const struct fixture *f, const struct layout_shard *shard, int code,
                         const char *want)
{
    struct err e = ERR_INIT;
    assert_null(child_make(&f->options, shard, &e));
    assert_int_equal(e.code, code);
    if (strncmp(e.msg, want, strlen(want)) != 0) {
        fail_msg("%s", e.msg);
    }
}

static void replace_text(cJSON *object, const char *key, char c, size_t count)
{
    char *text = malloc(count + 1);
    memset(text, c, count);
    text[count] = '\0';
    cJSON_ReplaceItemInObjectCaseSensitive(object, key, cJSON_CreateString(text));
    free(text);
}

static void too_long(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct fixture f;
    fixture_init(&f, ROOT_OF("", PODS));
    cJSON *root = cJSON_GetObjectItem(cJSON_GetObjectItem(f.root, "spec"), "root");
    replace_text(root, "targetStatefulSet", 's', 61);
    assert_int_equal(root_spec_read(f.root, &f.spec, &e), 0);
    cJSON_Delete(child_make(&f.options, &normal, &e)); /* up to pod 9 */
    const struct layout_shard tenth = {.number = 3, .first = 9, .pods = 2};
    expect_error(&f, &tenth, -ENAMETOOLONG, "spec.root.targetStatefulSet: Invalid value: \"sss");
    replace_text(root, "prefix", 'p', 245);
    assert_int_equal(root_spec_read(f.root, &f.spec, &e), 0);
    expect_error(&f, &normal, -ENAMETOOLONG, "spec.root.prefix: Invalid value: \"ppp");
    replace_text(cJSON_GetObjectItem(f.root, "metadata"), "name", 'n', 64);
    expect_error(&f, &normal, -ENAMETOOLONG, "metadata.name: Invalid value: \"nnn");
    fixture_deinit(&f);
    fixture_init(&f, DEPLOYMENT(""));
    root = cJSON_GetObjectItem(cJSON_GetObjectItem(f.root, "spec"), "root");
    replace_text(root, "prefix", 'p', 54);
    assert_int_equal(root_spec_read(f.root, &f.spec, &e), 0);
    cJSON_Delete(child_make(&f.options, &normal, &e)); /* "-3-normal" are 9 */
    const struct layout_shard far = {.number = 10, .pods = 2};
    expect_error(&f, &far, -ENAMETOOLONG, "spec.root.prefix: Invalid value: \"ppp");
    fixture_deinit(&f);
}

static void too_many_namespaces(void **state)
{
    (void)state;
    static char texts[CHILD_NAMES_MAX + 1][16];
    static const char *names[CHILD_NAMES_MAX + 1];
    struct fixture f;
    struct err e = ERR_INIT;
    fixture_init(&f, ROOT_OF("replicas: 1, inNamespaces: [n0], inShardHash: ['0', '1', '2', '3', "
                             "'4', '5', '6', '7', '8', '9', '10', '11', '12', '13', '14', '15', "
                             "'16', '17', '18', '19', '20', '21', '22', '23', '24', '25', '26', "
                             "'27', '28', '29', '30', '31']",
                             PODS));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(texts[i], sizeof texts[i], "n%zu", i);
        names[i] = texts[i];
    }
    f.options.namespaces = (struct child_namespaces){.names = names, .count = CHILD_NAMES_MAX};
    cJSON *child = child_make(&f.options, &canary, &e);
    assert_non_null(child);
    cJSON_Delete(child);
    f.options.namespaces.count++;
    expect_error(&f, &canary, -E2BIG,
                 "spec.root.canary: Too many: inNamespaces and inShardHash select 1001 namespaces");
    cJSON *list = cJSON_CreateStringArray(names, (int)ARRAY_LEN(names));
    f.spec.canary = (struct root_canary){.replicas = 1, .namespaces = list};
    expect_error(&f, &normal, -E2BIG,
                 "spec.root.canary.inNamespaces: Too many: must have at most 1000 items");
    cJSON_Delete(list);
    fixture_deinit(&f);
}

/* ---- what compiles ---- */

static struct rules *compile(const struct fixture *f, const struct layout_shard *shard)
{
    const struct compile_options o = {.namespace = "ops", .generation = 1, .labels = labels};
    struct err e = ERR_INIT;
    cJSON *child = child_make(&f->options, shard, &e);
    assert_non_null(child);
    struct rules *rules = compile_config(child, &o, &e);
    if (rules == NULL) {
        fail_msg("%s", e.msg);
    }
    cJSON_Delete(child);
    return rules;
}

static bool sees(const struct rules *rules, const char *ns, const char *hash)
{
    const struct rules_entry *entry = rules_match(rules, slice_str(""), slice_str("pods"));
    const struct selector_label set[] = {
        {slice_str("ctrlmesh.kusionstack.io/namespace"), slice_str(ns)},
        {slice_str("ctrlmesh.kusionstack.io/sharding-hash"), slice_str(hash)},
        {slice_str("ctrlmesh.kusionstack.io/control"), slice_str("true")},
    };
    assert_non_null(entry);
    return selector_matches(entry->compiled, set, ARRAY_LEN(set));
}

/* Every namespace is seen by exactly one shard, whatever the canary is. */
static void each_namespace_has_one_shard(void **state)
{
    (void)state;
    static const char *const roots[] = {
        ROOT_OF("", PODS),
        ROOT_OF("replicas: 1, inNamespaces: [n1, n2]", PODS),
        ROOT_OF("replicas: 1, inShardHash: ['0', '9']", PODS),
        ROOT_OF("replicas: 1, inNamespaces: [n1, n2], inShardHash: ['0', '9']", PODS),
    };
    char texts[100][16];
    const char *names[100];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(texts[i], sizeof texts[i], "n%zu", i);
        names[i] = texts[i];
    }
    for (size_t r = 0; r < ARRAY_LEN(roots); r++) {
        struct fixture f;
        struct layout made;
        unsigned owners[ARRAY_LEN(names)] = {0};
        fixture_init(&f, roots[r]);
        f.options.namespaces = (struct child_namespaces){.names = names, .count = ARRAY_LEN(names)};
        layout_make(&f.spec, &(struct layout_facts){.replicas = -1}, &made);
        for (size_t i = 0; i < made.count; i++) {
            struct rules *rules = compile(&f, &made.shards[i]);
            for (size_t n = 0; n < ARRAY_LEN(names); n++) {
                char hash[16];
                (void)snprintf(hash, sizeof hash, "%u", sharding_hash(names[n]));
                owners[n] += sees(rules, names[n], hash) ? 1 : 0;
            }
            rules_unref(rules);
        }
        for (size_t n = 0; n < ARRAY_LEN(names); n++) {
            assert_int_equal(owners[n], 1);
        }
        fixture_deinit(&f);
    }
}

static void an_empty_share_is_nothing(void **state)
{
    (void)state;
    struct fixture f;
    const struct layout_shard empty = {.number = 1, .pods = 1};
    fixture_init(&f, ROOT_OF("replicas: 1, inNamespaces: [n1]", PODS));
    struct rules *rules = compile(&f, &empty);
    assert_false(sees(rules, "n1", "0"));
    assert_false(sees(rules, "n2", "0"));
    rules_unref(rules);
    fixture_deinit(&f);
}

/* ---- reading ---- */

static void names_and_numbers(void **state)
{
    (void)state;
    const struct root_spec spec = {.prefix = "op"};
    char name[CHILD_NAME_SIZE];
    for (unsigned i = 0; i <= ROOT_SHARDS_MAX; i++) {
        assert_int_equal(child_name(&spec, i, name), 0);
        assert_int_equal(child_number(&spec, name), i);
    }
    static const char *const others[] = {
        "",
        "op",
        "op-",
        "op-0-normal",
        "op-1-canary",
        "op-33-normal",
        "op-01-normal",
        "op-1-normals",
        "opp-1-normal",
        "x-1-normal",
        "op-x-normal",
        "op--normal",
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_int_equal(child_number(&spec, others[i]), -ENOENT);
    }
}

static void read_back(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = ERR_INIT;
    struct layout_child read;
    fixture_init(&f, ROOT_OF("", PODS));
    struct layout_shard shard = {.number = 7, .first = 3, .pods = 5, .buckets = 0xf0f0f0f1};
    for (int i = 0; i < 2; i++) {
        cJSON *child = child_make(&f.options, &shard, &e);
        assert_int_equal(child_read(&f.spec, child, labels.prefix, &read), 0);
        assert_int_equal(read.number, 7);
        assert_int_equal(read.buckets, shard.buckets);
        assert_int_equal(read.taken_over, shard.taken_over);
        assert_int_equal(read.pods, 5);
        assert_int_equal(read.first, shard.first);
        assert_int_equal(read.life, LAYOUT_UNKNOWN);
        assert_false(read.has_pods);
        cJSON_Delete(child);
        shard = (struct layout_shard){.number = 7, .pods = 5, .taken_over = true};
    }
    fixture_deinit(&f);
}

static void read_what_others_wrote(void **state)
{
    (void)state;
    const struct root_spec spec = {.prefix = "op"};
    struct layout_child read;
    static const struct {
        const char *child;
        int number;
    } cases[] = {
        {"{}", -ENOENT},
        {"metadata: {name: other}", -ENOENT},
        {"metadata: {name: op-2-normal}", 2},
        {"metadata: {name: op-2-normal, annotations: {p/auto-sharding-buckets: 99}}", 2},
        {"metadata: {name: op-2-normal, annotations: {p/auto-sharding-buckets: '1-'}}", 2},
        {"metadata: {name: op-2-normal, annotations: {p/auto-sharding-taken-over: yes}}\n"
         "spec: {selector: {matchExpressions: [3, {key: statefulset.kubernetes.io/pod-name}]}}",
         2},
        {"metadata: {name: op-0-canary, annotations: {p/auto-sharding-buckets: '1'}}", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *child = parse(cases[i].child);
        int rc = child_read(&spec, child, "p", &read);
        assert_int_equal(rc, cases[i].number < 0 ? cases[i].number : 0);
        if (rc == 0) {
            assert_int_equal(read.number, cases[i].number);
            assert_int_equal(read.buckets, 0);
            assert_false(read.taken_over);
            assert_int_equal(read.pods, 0);
        }
        cJSON_Delete(child);
    }
}

/* ---- memory ---- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_shards),
        cmocka_unit_test(shards_of_a_deployment),
        cmocka_unit_test(seats_of_a_deployment),
        cmocka_unit_test(no_seats),
        cmocka_unit_test(what_counts_its_load),
        cmocka_unit_test(a_canary_of_namespaces),
        cmocka_unit_test(a_canary_of_hashes),
        cmocka_unit_test(a_canary_that_leaves),
        cmocka_unit_test(a_canary_of_both),
        cmocka_unit_test(a_canary_that_was_taken_over),
        cmocka_unit_test(a_canary_that_keeps_its_share),
        cmocka_unit_test(what_a_share_covers),
        cmocka_unit_test(what_is_copied),
        cmocka_unit_test(other_labels),
        cmocka_unit_test(too_long),
        cmocka_unit_test(too_many_namespaces),
        cmocka_unit_test(each_namespace_has_one_shard),
        cmocka_unit_test(an_empty_share_is_nothing),
        cmocka_unit_test(names_and_numbers),
        cmocka_unit_test(read_back),
        cmocka_unit_test(read_what_others_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
