/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/compile_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/flags.h"
#include "temp_dir.h"
#include "traffic/traffic.h"

struct fixture {
    struct temp_dir dir;
    char input[256];
    char output[256];
    const char *files[1];
    struct compile_command command;
    struct buf errors; /* what the last run wrote to standard error */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    temp_dir_init(&f->dir);
    log_init("manager", LOG_TEXT, LOG_INFO);
    buf_init(&f->errors, 65536);
    f->files[0] = temp_dir_path(&f->dir, "in.yaml", f->input);
    f->command = (struct compile_command){
        .files = f->files,
        .file_count = 1,
        .output = temp_dir_path(&f->dir, "out", f->output),
        .options = {.namespace = "default",
                    .generation = 1,
                    .labels = {.namespace = "namespace",
                               .shard_hash = "sharding-hash",
                               .control = "control"}},
    };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_deinit(&f->dir);
    buf_reset(&f->errors);
    free(f);
    return 0;
}

/* Runs over `text` and keeps what goes to standard error. */
static int run(struct fixture *f, const char *text)
{
    char path[256];
    struct err e = ERR_INIT;
    temp_dir_write(&f->dir, "in.yaml", text, 0644);
    temp_dir_write(&f->dir, "errors", "", 0644);
    int saved = dup(STDERR_FILENO);
    int fd = open(temp_dir_path(&f->dir, "errors", path), O_WRONLY | O_TRUNC);
    assert_true(saved >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    int code = compile_command_run(&f->command);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(fd);
    buf_clear(&f->errors);
    assert_int_equal(file_read(path, &f->errors, &e), 0);
    return code;
}

static void expect_words(struct fixture *f, const char *words)
{
    if (strstr(buf_cstr(&f->errors), words) == NULL) {
        fail_msg("wanted \"%s\" in:\n%s", words, buf_cstr(&f->errors));
    }
}

static bool written(struct fixture *f, const char *name)
{
    char path[256];
    return access(temp_dir_path(&f->dir, name, path), F_OK) == 0;
}

#define SHARD(name, more)                                                                          \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"                                               \
    "kind: ShardingConfig\n"                                                                       \
    "metadata: {name: " name ", namespace: demo}\n"                                                \
    "spec:\n"                                                                                      \
    "  selector: {matchLabels: {shard: " name "}}\n" more

#define LIMITS                                                                                     \
    "  limits:\n"                                                                                  \
    "  - relateResources: [{apiGroups: [''], resources: [pods]}]\n"                                \
    "    selector: {matchLabels: {a: b}}\n"

static void each_shard_has_a_file(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARD("a", LIMITS) "---\n"
                                               "# nothing here\n"
                                               "---\n" SHARD("b.c", LIMITS)),
                     EXIT_DONE);
    assert_int_equal(f->errors.len, 0);
    assert_true(written(f, "out/demo.a.json"));
    assert_true(written(f, "out/demo.b.c.json"));

    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char path[256];
    assert_int_equal(file_read(temp_dir_path(&f->dir, "out/demo.a.json", path), &text, &e), 0);
    struct rules *rules = rules_parse((const char *)buf_data(&text), text.len, &e);
    assert_non_null(rules);
    assert_string_equal(rules_shard_name(rules), "a");
    rules_unref(rules);
    buf_reset(&text);
}

static void one_shard_can_be_chosen(void **state)
{
    struct fixture *f = *state;
    static const char text[] = SHARD("a", LIMITS) "---\n" SHARD("b", LIMITS);
    f->command.shard = "demo/b";
    assert_int_equal(run(f, text), EXIT_DONE);
    assert_true(written(f, "out/demo.b.json"));
    assert_false(written(f, "out/demo.a.json"));
    f->command.shard = "a";
    assert_int_equal(run(f, text), EXIT_DONE);
    assert_true(written(f, "out/demo.a.json"));
    f->command.shard = "other/a";
    assert_int_equal(run(f, text), EXIT_FAILED);
    expect_words(f, "there is no ShardingConfig of shard other/a in the input; of others: 2");
}

static void other_kinds_are_skipped_aloud(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, "kind: Secret\n---\n[x]\n---\n" SHARD("a", LIMITS)), EXIT_DONE);
    expect_words(f, "in.yaml:1: note: skipped: kind Secret, not a ShardingConfig");
    expect_words(f, "in.yaml:3: warning: skipped: it has no kind");
    assert_int_equal(run(f, "kind: Secret\n"), EXIT_FAILED);
    expect_words(f, "there is no ShardingConfig in the input");
}

#define BY_NAMESPACES                                                                              \
    "  limits:\n"                                                                                  \
    "  - relateResources: [{apiGroups: [''], resources: [pods]}]\n"                                \
    "    namespaceSelector: {matchLabels: {team: red}}\n"
#define RED(name) "{kind: Namespace, metadata: {name: " name ", labels: {team: red}}}\n"

static void expect_rules(const struct fixture *f, const char *words)
{
    char path[256];
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(65536);
    assert_int_equal(file_read(temp_dir_path(&f->dir, "out/demo.a.json", path), &text, &e), 0);
    if (strstr(buf_cstr(&text), words) == NULL) {
        fail_msg("wanted \"%s\" in:\n%s", words, buf_cstr(&text));
    }
    buf_reset(&text);
}

static void labels_of_namespaces(void **state)
{
    struct fixture *f = *state;
    char path[256];
    assert_int_equal(run(f, SHARD("a", BY_NAMESPACES)), EXIT_FAILED);
    expect_words(f, "in.yaml:8: spec.limits[0].namespaceSelector: cannot be compiled: the "
                    "namespaces are not known: give --namespaces what");
    f->command.namespaces.path = temp_dir_path(&f->dir, "ns.yaml", path);
    f->command.namespaces.own = "own";
    temp_dir_write(&f->dir, "ns.yaml", "b\na\n", 0644);
    assert_int_equal(run(f, SHARD("a", BY_NAMESPACES)), EXIT_FAILED);
    expect_words(f, "--namespaces gives names without labels");
    temp_dir_write(&f->dir, "ns.yaml", RED("b") "---\n" RED("own") "---\n" RED("kube-system"),
                   0644);
    assert_int_equal(run(f, SHARD("a", BY_NAMESPACES)), EXIT_DONE);
    expect_rules(f, "namespace in (b)\"");
    f->command.namespaces.system = true;
    assert_int_equal(run(f, SHARD("a", BY_NAMESPACES)), EXIT_DONE);
    expect_rules(f, "namespace in (b,kube-system,own)\"");
    temp_dir_write(&f->dir, "ns.yaml", "kind: [\n", 0644);
    assert_int_equal(run(f, SHARD("a", BY_NAMESPACES)), EXIT_FAILED);
    expect_words(f, "ns.yaml: ");
}

static void namespaces_beside_shards(void **state)
{
    struct fixture *f = *state;
    char path[256];
    static const char text[] = SHARD("a", BY_NAMESPACES) "---\n" RED("c");
    assert_int_equal(run(f, text), EXIT_DONE);
    expect_words(f, "note: without --namespaces the Namespaces of the input are taken for all");
    expect_rules(f, "namespace in (c)\"");
    f->command.namespaces.path = temp_dir_path(&f->dir, "ns.yaml", path);
    temp_dir_write(&f->dir, "ns.yaml", RED("b"), 0644);
    assert_int_equal(run(f, text), EXIT_DONE);
    assert_int_equal(f->errors.len, 0);
    expect_rules(f, "namespace in (b,c)\"");
    assert_int_equal(run(f, SHARD("a", BY_NAMESPACES) "---\nkind: Namespace\n"), EXIT_FAILED);
    expect_words(f, "in.yaml:10: metadata.name: Invalid value");
}

static void lists_are_taken(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, "apiVersion: v1\n"
                            "kind: List\n"
                            "items:\n"
                            "- apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                            "  kind: ShardingConfig\n"
                            "  metadata: {name: a, namespace: demo}\n"
                            "  spec: {selector: {matchLabels: {a: b}}}\n"
                            "- {kind: Pod}\n"),
                     EXIT_DONE);
    expect_words(
        f, "in.yaml:7: warning: spec.limits: missing: the shard sees nothing; write limits: []");
    expect_words(f, "in.yaml:8: note: skipped: kind Pod");
    assert_true(written(f, "out/demo.a.json"));
}

/* All errors in one go, each with its line; nothing is written then. */
static void errors_have_lines(void **state)
{
    struct fixture *f = *state;
    static const char good[] = SHARD("good", LIMITS);
    static const char a[] = SHARD("a", LIMITS "    objectSelector: {}\n");
    static const char b[] = SHARD("b", "  controller:\n    leaderElectionName: A\n");
    static const char c[] = SHARD("c", LIMITS "  lims: []\n");
    char text[4096];
    (void)snprintf(text, sizeof text, "%s---\n%s---\n%s---\n%s---\n%s", good, a, b, c, good);
    assert_int_equal(run(f, text), EXIT_FAILED);
    expect_words(f, "in.yaml:16: spec.limits[0].relateResources: Forbidden");
    expect_words(f, "in.yaml:26: spec.controller.leaderElectionName: Invalid value: \"A\"");
    expect_words(f, "in.yaml:36: spec.lims: Forbidden: unknown field");
    expect_words(f, "in.yaml:40: metadata.name: Duplicate value: shard demo/good");
    assert_false(written(f, "out"));
}

/* For continuous integration. Of notes nothing follows. */
static void a_warning_is_an_error_if_that_is_wanted(void **state)
{
    struct fixture *f = *state;
    static const char kinds[] = "kind: Secret\n---\n";
    static const char pod[] = "  limits:\n"
                              "  - relateResources: [{apiGroups: [''], resources: [pod]}]\n"
                              "    selector: {matchLabels: {a: b}}\n";
    char text[1024];
    f->command.strict = true;
    (void)snprintf(text, sizeof text, "%s%s", kinds, SHARD("a", LIMITS));
    assert_int_equal(run(f, text), EXIT_DONE);
    expect_words(f, "in.yaml:1: note: skipped: kind Secret");
    assert_true(written(f, "out/demo.a.json"));

    (void)snprintf(text, sizeof text, "%s%s", SHARD("b", ""), pod);
    assert_int_equal(run(f, text), EXIT_FAILED);
    expect_words(f, "in.yaml:7: warning: spec.limits[0].relateResources[0].resources[0]: ");
    expect_words(f, "manager: with --strict a warning is an error");
    assert_false(written(f, "out/demo.b.json"));
    f->command.strict = false;
    assert_int_equal(run(f, text), EXIT_DONE);
    assert_true(written(f, "out/demo.b.json"));

    f->command.diff = f->output;
    assert_int_equal(run(f, text), 0);
    f->command.strict = true;
    assert_int_equal(run(f, text), 2);
}

static void kinds_are_misspelt(void **state)
{
    struct fixture *f = *state;
    static const char shard[] = SHARD("a", LIMITS);
    char text[1024];
    (void)snprintf(text, sizeof text, "%s---\nkind: ShardingConfigs\n---\nkind: circuitbreaker\n",
                   shard);
    assert_int_equal(run(f, text), EXIT_DONE);
    expect_words(f, ": warning: skipped: kind ShardingConfigs: is ShardingConfig meant?");
    expect_words(f, ": warning: skipped: kind circuitbreaker: is CircuitBreaker meant?");
}

/* What the webhook would say, with all that is in the input around it. */
static void shards_are_validated_together(void **state)
{
    struct fixture *f = *state;
    static const char both[] =
        SHARD("a", LIMITS) "---\n"
                           "apiVersion: kridge.kusionstack.io/v1alpha1\n"
                           "kind: ShardingConfig\n"
                           "metadata: {name: b, namespace: demo}\n"
                           "spec: {selector: {matchLabels: {shard: a, more: x}}}\n";
    assert_int_equal(run(f, both), EXIT_FAILED);
    expect_words(f, "in.yaml:13: spec.selector: Invalid value: selects pods that ShardingConfig "
                    "\"a\" selects too");
    expect_words(f, "in.yaml:5: spec.selector: Invalid value: selects pods that ShardingConfig");
    f->command.shard = "none";
    assert_int_equal(run(f, SHARD("a", "  webhook: {port: 5443}\n")), EXIT_FAILED);
    expect_words(f, "of shard none in");
    f->command.shard = NULL;
    assert_int_equal(run(f, SHARD("a", "  webhook: {port: 5443}\n")), EXIT_FAILED);
    expect_words(f, "in.yaml:6: spec.webhook.port: Invalid value: 5443");
}

static void yaml_errors_name_the_file(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, "a: [\n"), EXIT_FAILED);
    expect_words(f, "in.yaml:2: column 1: ");
    assert_int_equal(run(f, "a:\n  b: 1\n  c: 2\n  b: 3\n"), EXIT_FAILED);
    expect_words(f, "in.yaml:4: duplicate key \"b\" in the mapping at line 2");
    assert_int_equal(run(f, "a: b\nc: \x01\n"), EXIT_FAILED);
    expect_words(f, "in.yaml:2: byte 8: control characters are not allowed");
    assert_int_equal(run(f, ""), EXIT_FAILED);
    expect_words(f, "in.yaml: contains no document");
    assert_int_equal(run(f, "kind: \"\\e[31m\\n\"\n"), EXIT_FAILED);
    expect_words(f, "skipped: kind ?[31m?, not");
    f->files[0] = "/nowhere/at-all";
    assert_int_equal(run(f, ""), EXIT_FAILED);
    expect_words(f, "/nowhere/at-all: cannot open: No such file or directory");
}

static void output_that_cannot_be_written(void **state)
{
    struct fixture *f = *state;
    char path[256];
    f->command.output = temp_dir_path(&f->dir, "in.yaml", path);
    assert_int_equal(run(f, SHARD("a", LIMITS)), EXIT_FAILED);
    expect_words(f, "in.yaml/demo.a.json: ");
    f->command.output = temp_dir_path(&f->dir, "no/where", path);
    assert_int_equal(run(f, SHARD("a", LIMITS)), EXIT_FAILED);
    expect_words(f, "no/where: cannot create the folder: No such file");
}

/* The exit codes of diff(1); what is printed is rules_diff's. */
static void comparing(void **state)
{
    struct fixture *f = *state;
    char rules[256];
    assert_int_equal(run(f, SHARD("a", LIMITS) "---\n" SHARD("b", LIMITS)), EXIT_DONE);
    f->command.diff = temp_dir_path(&f->dir, "out", rules);
    f->command.output = "-";
    assert_int_equal(run(f, SHARD("a", LIMITS) "---\n" SHARD("b", LIMITS)), 0);
    assert_int_equal(f->errors.len, 0);
    assert_int_equal(run(f, SHARD("a", "") "---\n" SHARD("b", LIMITS)), 1);
    assert_int_equal(run(f, SHARD("a", LIMITS) "---\n" SHARD("b", LIMITS) "---\n" SHARD("c", "")),
                     1);
    assert_int_equal(run(f, SHARD("a", LIMITS)), 0); /* to apply this would remove nothing */
    expect_words(f, "note: shard demo/b is not in the input and not compared");
    f->command.shard = "a";
    assert_int_equal(run(f, SHARD("a", LIMITS)), 0);
    assert_int_equal(run(f, SHARD("a", "  lims: []\n")), 2);
    expect_words(f, "in.yaml:6: spec.lims: Forbidden: unknown field");
    f->command.diff = "/nowhere";
    assert_int_equal(run(f, SHARD("a", LIMITS)), 2);
    expect_words(f, "manager: --diff: /nowhere: cannot open: No such file");
}

#define MAP(ns, name, rules)                                                                       \
    "- {kind: ConfigMap, metadata: {namespace: " ns ", name: " name                                \
    "}, data: {rules.json: '" rules "'}}\n"

/* Anybody may make a ConfigMap that is called as a shard's. */
static void what_cannot_be_read_stops_no_others(void **state)
{
    struct fixture *f = *state;
    char list[256];
    const char *const maps = "kind: List\nitems:\n" MAP("x", "cmesh-rules-a", "{garbage}")
        MAP("demo", "cmesh-rules-c", "{\"apiVersion\":\"cmesh/v9\"}")
            MAP("demo", "cmesh-rules-b",
                "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                "\"demo\",\"name\":\"b\"},\"generation\":1,\"spec\":{\"limits\":[]}}");
    temp_dir_write(&f->dir, "maps.yaml", maps, 0644);
    f->command.diff = temp_dir_path(&f->dir, "maps.yaml", list);
    f->command.output = "-";
    assert_int_equal(run(f, SHARD("a", LIMITS) "---\n" SHARD("b", LIMITS)), 1);
    expect_words(f, "note: the rules of shard x/a cannot be read: line 1");
    expect_words(f, "note: the rules of shard demo/c cannot be read: ");
    assert_int_equal(run(f, SHARD("b", LIMITS) "---\n" SHARD("c", LIMITS)), 2);
    expect_words(f, "--diff: the rules of shard demo/c cannot be read: ");
}

/* ---- traffic policies ---- */

#define POLICY(kind, name, spec)                                                                   \
    "---\napiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: " kind "\n"                          \
    "metadata: {name: " name ", namespace: demo}\nspec:\n" spec
#define BREAKER_OF(name, shard, limit)                                                             \
    POLICY(                                                                                        \
        "CircuitBreaker", name,                                                                    \
        "  selector: {matchLabels: {shard: " shard "}}\n  rateLimitings:\n"                        \
        "  - {name: r, triggerPolicy: LimiterOnly, bucket: {burst: 1, interval: 1s, limit: " limit \
        "}, resourceRules: [{apiGroups: [''], resources: [pods], verbs: [get], "                   \
        "namespaces: [ns]}]}\n")
#define FAULT                                                                                      \
    POLICY("FaultInjection", "slow",                                                               \
           "  selector: {}\n  httpFault:\n  - {name: f, delay: {fixedDelay: 1s, percent: 1}, "     \
           "match: {resources: [{resources: [pods]}]}}\n")
#define TWO_SHARDS SHARD("a", LIMITS) "---\n" SHARD("b", LIMITS)

static struct traffic *read_traffic(struct fixture *f, const char *name)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct err e = ERR_INIT;
    char path[256];
    assert_int_equal(file_read(temp_dir_path(&f->dir, name, path), &text, &e), 0);
    struct traffic *t = traffic_parse((const char *)buf_data(&text), text.len, &e);
    if (t == NULL) {
        fail_msg("%s", e.msg);
    }
    buf_reset(&text);
    return t;
}

static void traffic_documents_stand_beside_the_rules(void **state)
{
    struct fixture *f = *state;
    f->command.options.generation = 7;
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("guard", "a", "1") FAULT), EXIT_DONE);
    assert_int_equal(f->errors.len, 0);
    struct traffic *a = read_traffic(f, "out/demo.a_traffic.json");
    struct traffic *b = read_traffic(f, "out/demo.b_traffic.json");
    assert_int_equal(traffic_policy_count(a), 2);
    assert_int_equal(traffic_generation(a), 7);
    assert_int_equal(traffic_policy_count(b), 1);
    assert_string_equal(traffic_policy_at(b, 0)->name, "slow");
    traffic_unref(a);
    traffic_unref(b);
    /* What has no policy any more has no document either. */
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("guard", "a", "1")), EXIT_DONE);
    assert_true(written(f, "out/demo.a_traffic.json"));
    assert_false(written(f, "out/demo.b_traffic.json"));
    assert_true(written(f, "out/demo.b.json"));
}

/* As other commands do with them; and the bytes of rules are what they were. */
static void policies_do_not_change_rules(void **state)
{
    struct fixture *f = *state;
    struct buf plain = BUF_INIT(65536);
    struct buf beside = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char path[256];
    (void)temp_dir_path(&f->dir, "out/demo.a.json", path);
    assert_int_equal(run(f, SHARD("a", LIMITS)), EXIT_DONE);
    assert_int_equal(file_read(path, &plain, &e), 0);
    assert_int_equal(run(f, SHARD("a", LIMITS) FAULT), EXIT_DONE);
    assert_int_equal(file_read(path, &beside, &e), 0);
    assert_string_equal(buf_cstr(&plain), buf_cstr(&beside));
    buf_reset(&plain);
    buf_reset(&beside);
}

static void lists_of_policies_are_taken(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        run(f,
            SHARD("a",
                  LIMITS) "---\nkind: FaultInjectionList\nitems:\n"
                          "- {apiVersion: ctrlmesh.kusionstack.io/v1alpha1, kind: "
                          "FaultInjection, metadata: {name: x, namespace: demo}, spec: {selector: "
                          "{}, httpFault: [{name: f, delay: {fixedDelay: 1s, percent: 1}, match: "
                          "{resources: [{}]}}]}}\n"),
        EXIT_DONE);
    assert_true(written(f, "out/demo.a_traffic.json"));
}

static void errors_of_policies_have_lines(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        run(f, SHARD("a", LIMITS) POLICY("CircuitBreaker", "guard",
                                         "  selector: {}\n  rateLimitings:\n  - name: a:b\n"
                                         "    triggerPolicy: Normal\n    resourceRules: []\n")),
        EXIT_FAILED);
    expect_words(f, "in.yaml:16: spec.rateLimitings[0].name: Invalid value: \"a:b\"");
    expect_words(f, "in.yaml:16: warning: spec.rateLimitings[0].recoverPolicy: is not set");
    expect_words(f, "in.yaml:16: spec.rateLimitings[0].bucket: Required value");
    assert_false(written(f, "out"));
    assert_int_equal(run(f, SHARD("a", LIMITS) FAULT FAULT), EXIT_FAILED);
    expect_words(f, "metadata.name: Duplicate value: FaultInjection demo/slow");
    assert_int_equal(run(f, SHARD("a", "  lims: []\n") POLICY("FaultInjection", "x", "  []\n")),
                     EXIT_FAILED);
    expect_words(f, "spec.lims: Forbidden");
    expect_words(f, "spec: Invalid value: must be an object");
}

static void policies_of_no_shard_are_noted(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("lost", "c", "1")), EXIT_DONE);
    expect_words(f,
                 "warning: spec.selector: no ShardingConfig of the input has a pod that it could "
                 "select");
    assert_false(written(f, "out/demo.a_traffic.json"));
    f->command.shard = "a"; /* then others may have it */
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("other", "b", "1")), EXIT_DONE);
    assert_int_equal(f->errors.len, 0);
}

static void too_many_policies(void **state)
{
    struct fixture *f = *state;
    struct buf text = BUF_INIT((size_t)1024 * 1024);
    assert_int_equal(buf_append_str(&text, SHARD("a", LIMITS)), 0);
    for (unsigned i = 0; i <= TRAFFIC_POLICIES_MAX; i++) {
        (void)buf_printf(&text,
                         "---\napiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                         "kind: FaultInjection\nmetadata: {name: x-%02u, namespace: demo}\n"
                         "spec: {selector: {}, httpFault: [{name: f, delay: {fixedDelay: 1s, "
                         "percent: 1}, match: {resources: [{}]}}]}\n",
                         i);
    }
    assert_int_equal(run(f, buf_cstr(&text)), EXIT_FAILED);
    expect_words(f,
                 "spec: Too many: with this one the policies of shard demo/a are over the bounds");
    buf_reset(&text);
}

static void comparing_policies(void **state)
{
    struct fixture *f = *state;
    char rules[256];
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("guard", "a", "1") FAULT), EXIT_DONE);
    f->command.diff = temp_dir_path(&f->dir, "out", rules);
    f->command.output = "-";
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("guard", "a", "1") FAULT), 0);
    assert_int_equal(f->errors.len, 0);
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("guard", "a", "2") FAULT), 1);
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("guard", "b", "1") FAULT), 1);
    assert_int_equal(run(f, TWO_SHARDS BREAKER_OF("new", "a", "1") FAULT), 1);
    /* To apply this would remove nothing. */
    assert_int_equal(run(f, TWO_SHARDS), 0);
    expect_words(f, "note: CircuitBreaker demo/guard is not in the input and not compared");
    expect_words(f, "note: FaultInjection demo/slow is not in the input and not compared");
}

/* ---- roots ---- */

/* Standard output goes to that file. */
static int run_to_file(struct fixture *f, const char *text, const char *file)
{
    char path[256];
    temp_dir_write(&f->dir, file, "", 0644);
    int saved = dup(STDOUT_FILENO);
    int fd = open(temp_dir_path(&f->dir, file, path), O_WRONLY | O_TRUNC);
    assert_true(saved >= 0 && fd >= 0);
    (void)fflush(stdout);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    int code = run(f, text);
    (void)fflush(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    (void)close(saved);
    (void)close(fd);
    return code;
}

#define ROOT(size, more)                                                                           \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"                                               \
    "kind: ShardingConfig\n"                                                                       \
    "metadata: {name: r, namespace: demo}\n"                                                       \
    "spec:\n"                                                                                      \
    "  root:\n"                                                                                    \
    "    prefix: op\n"                                                                             \
    "    targetStatefulSet: sts\n"                                                                 \
    "    auto: {shardingSize: " size ", everyShardReplicas: 2}\n"                                  \
    "    resourceSelector: [{relateResources: [{apiGroups: [''], resources: [pods]}]}]\n" more
#define STATEFUL_SET(name, replicas)                                                               \
    "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: " name ", namespace: demo}\n"   \
    "spec: {replicas: " replicas "}\n"
#define CHILD(number, buckets, more)                                                               \
    "---\napiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: ShardingConfig\n"                    \
    "metadata:\n  name: op-" number "-normal\n  namespace: demo\n"                                 \
    "  labels: {ctrlmesh.kusionstack.io/auto-sharding-root: r}\n"                                  \
    "  annotations: {ctrlmesh.kusionstack.io/auto-sharding-buckets: '" buckets "'" more "}\n"      \
    "spec: {selector: {matchLabels: {old: one}}, limits: []}\n"

/* The selector of the rules of that shard has this text. */
static void expect_shard(struct fixture *f, const char *shard, const char *want)
{
    char file[128];
    char path[256];
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    (void)snprintf(file, sizeof file, "out/demo.%s.json", shard);
    assert_int_equal(file_read(temp_dir_path(&f->dir, file, path), &text, &e), 0);
    if (strstr(buf_cstr(&text), want) == NULL) {
        fail_msg("wanted \"%s\" in:\n%s", want, buf_cstr(&text));
    }
    buf_reset(&text);
}

static void the_shards_of_a_root(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, ROOT("2", "")), EXIT_DONE);
    assert_string_equal(buf_cstr(&f->errors), "");
    expect_shard(f, "op-1-normal", "hash in (0,1,10,11,12,13,14,15,2,3,4,5,6,7,8,9)");
    expect_shard(f, "op-2-normal", "hash in (16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31)");
    assert_false(written(f, "out/demo.r.json"));
    f->command.shard = "op-2-normal";
    assert_int_equal(run(f, ROOT("2", "")), EXIT_DONE);
    f->command.shard = "r";
    assert_int_equal(run(f, ROOT("2", "")), EXIT_FAILED);
    expect_words(f, "there is no ShardingConfig of shard r in the input; of others: 2");
}

static void size_by_the_stateful_set(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, ROOT("auto", STATEFUL_SET("sts", "7") STATEFUL_SET("x", "7"))),
                     EXIT_DONE);
    assert_true(written(f, "out/demo.op-4-normal.json"));
    assert_false(written(f, "out/demo.op-5-normal.json"));
    expect_words(f, "in.yaml:16: note: skipped: kind StatefulSet, not a ShardingConfig");
    assert_int_equal(run(f, ROOT("auto", "")), EXIT_DONE);
    expect_words(f, "in.yaml:7: note: spec.root.targetStatefulSet: StatefulSet sts is not in the "
                    "input: the number of shards is what there is: 1");
    assert_int_equal(run(f, ROOT("4", STATEFUL_SET("sts", "7"))), EXIT_DONE);
    expect_words(f, "warning: spec.root: the shards need 8 pods, and StatefulSet sts has 7");
    assert_int_equal(run(f, ROOT("3", STATEFUL_SET("sts", "7"))), EXIT_DONE);
    expect_words(f, "warning: spec.root: the shards have room for 6 pods, and StatefulSet sts has "
                    "7: further ones are refused if they ask for sidecars");
    assert_int_equal(run(f, ROOT("1", STATEFUL_SET("sts", "null"))), EXIT_DONE);
    expect_words(f, "need 2 pods, and StatefulSet sts has 1");
}

#define DEPLOYMENT_ROOT(size)                                                                      \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: ShardingConfig\n"                         \
    "metadata: {name: r, namespace: demo}\nspec:\n  root:\n    prefix: op\n"                       \
    "    targetDeployment: web\n"                                                                  \
    "    auto: {shardingSize: " size ", everyShardReplicas: 2}\n"                                  \
    "    resourceSelector: [{relateResources: [{apiGroups: [''], resources: [pods]}]}]\n"
#define DEPLOYMENT(name, replicas)                                                                 \
    "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " name ", namespace: demo}\n"    \
    "spec: {replicas: " replicas "}\n"

/* Pods that are left over make no shard. One of another kind has nothing to do with it. */
static void size_by_the_deployment(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, DEPLOYMENT_ROOT("auto") DEPLOYMENT("web", "7") STATEFUL_SET("web", "20")
                                DEPLOYMENT("x", "1")),
                     EXIT_DONE);
    assert_true(written(f, "out/demo.op-3-normal.json"));
    assert_false(written(f, "out/demo.op-4-normal.json"));
    expect_words(f, "note: skipped: kind StatefulSet, not a ShardingConfig");
    expect_words(f, "note: skipped: kind Deployment, not a ShardingConfig");
    assert_int_equal(run(f, DEPLOYMENT_ROOT("auto") STATEFUL_SET("web", "7")), EXIT_DONE);
    expect_words(f, "in.yaml:7: note: spec.root.targetDeployment: Deployment web is not in the "
                    "input: the number of shards is what there is: 1");
    assert_int_equal(run(f, DEPLOYMENT_ROOT("4") DEPLOYMENT("web", "7")), EXIT_DONE);
    expect_words(f, "warning: spec.root: the shards need 8 pods, and Deployment web has 7");
    assert_int_equal(run(f, DEPLOYMENT_ROOT("2") DEPLOYMENT("web", "7")), EXIT_DONE);
    assert_string_equal(buf_cstr(&f->errors), "");
    f->command.children = true;
    assert_int_equal(run(f, DEPLOYMENT_ROOT("2") DEPLOYMENT("web", "7")), EXIT_DONE);
}

static void shards_that_there_are_keep_what_they_have(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, ROOT("2", CHILD("2", "0-14", "") CHILD("1", "15-31", ""))), EXIT_DONE);
    assert_string_equal(buf_cstr(&f->errors), "");
    expect_shard(f, "op-2-normal", "hash in (0,1,10,11,12,13,14,2,3,31,4,5,6,7,8,9)");
    assert_int_equal(run(f, ROOT("1", CHILD("1", "0-14", "") CHILD("2", "15-31", ""))), EXIT_DONE);
    expect_words(f,
                 "note: spec.root: shard op-2-normal is not to be any more: it goes when it has");
    expect_shard(f, "op-1-normal",
                 "hash in (0,1,10,11,12,13,14,15,16,17,18,19,2,20,21,22,23,24,25");
    /* As long as nobody knows better, others have its share. */
    assert_int_equal(run(f, ROOT("2", CHILD("1", "0-31", "") CHILD(
                                          "2", "",
                                          ", ctrlmesh.kusionstack.io/auto-sharding-taken-over: "
                                          "'true'")) "---\n"),
                     EXIT_DONE);
    expect_shard(f, "op-2-normal", "\"selector\": \"k,!k\"");
}

/* What is printed can be read again, and comes to the same. */
static void shards_as_they_are_applied(void **state)
{
    struct fixture *f = *state;
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char path[256];
    f->command.children = true;
    f->command.output = "-";
    assert_int_equal(run_to_file(f, ROOT("2", "---\n" SHARD("x", LIMITS)), "children"), EXIT_DONE);
    assert_int_equal(file_read(temp_dir_path(&f->dir, "children", path), &text, &e), 0);
    static const char begin[] = "---\napiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                                "kind: ShardingConfig\nmetadata:\n  name: op-1-normal\n"
                                "  namespace: demo\n";
    assert_memory_equal(buf_data(&text), begin, sizeof begin - 1);
    assert_null(strstr(buf_cstr(&text), "name: x"));
    assert_int_equal(run_to_file(f, buf_cstr(&text), "again"), EXIT_DONE);
    buf_clear(&text);
    assert_int_equal(file_read(temp_dir_path(&f->dir, "again", path), &text, &e), 0);
    assert_int_equal(text.len, 0); /* they are shards like others now, of no root */
    buf_reset(&text);
}

static void names_that_others_have(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, ROOT("2", "---\n" SHARD("op-2-normal", "  limits: []\n"))), EXIT_DONE);
    expect_words(f, "warning: spec.root.prefix: a shard would have the name of ShardingConfig "
                    "\"op-2-normal\", which is not of this root");
    expect_shard(f, "op-2-normal", "\"limits\": []");
    expect_shard(f, "op-1-normal", "hash in");
}

static void a_disabled_root(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, ROOT("2", "    disable: true\n")), EXIT_DONE);
    expect_words(f, "note: spec.root.disable: its shards stay as they are: none is made");
    assert_int_equal(run(f, ROOT("2", "    disable: true\n" CHILD("1", "0-31", ""))), EXIT_DONE);
    expect_shard(f, "op-1-normal", "\"limits\": []");
}

static void what_is_wrong_with_a_root_is_told_once(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, ROOT("33", "")), EXIT_FAILED);
    assert_string_equal(buf_cstr(&f->errors) +
                            (strstr(buf_cstr(&f->errors), "in.yaml") - buf_cstr(&f->errors)),
                        "in.yaml:8: spec.root.auto.shardingSize: Invalid value: must be a whole "
                        "number from 1 to 32, or the text \"auto\"\n");
    /* What is wrong with a shard is told at the root. */
    assert_int_equal(
        run(f, ROOT("2", "---\n"
                         "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                         "kind: ShardingConfig\n"
                         "metadata: {name: x, namespace: demo}\n"
                         "spec: {selector: {matchLabels: "
                         "{statefulset.kubernetes.io/pod-name: sts-3}}, limits: []}\n")),
        EXIT_FAILED);
    expect_words(f, "ShardingConfig \"x\"");
    expect_words(f, "(shard op-2-normal)");
}

static void a_canary_with_both_lists(void **state)
{
    struct fixture *f = *state;
    static const char root[] =
        ROOT("1", "    canary: {replicas: 1, inNamespaces: [x], inShardHash: ['3']}\n");
    assert_int_equal(run(f, root), EXIT_DONE);
    expect_words(f, "in.yaml:10: warning: spec.root.canary: the namespaces are not known, so");
    expect_shard(f, "op-0-canary", "namespace in (x)");
    char path[256];
    temp_dir_write(&f->dir, "names", "a\nc\nx\n", 0644); /* c has hash 3 */
    f->command.namespaces.path = temp_dir_path(&f->dir, "names", path);
    assert_int_equal(run(f, root), EXIT_DONE);
    expect_shard(f, "op-0-canary", "namespace in (c,x)");
    expect_shard(f, "op-1-normal", "namespace notin (c,x)");
}

/* The demo of the project that roots come from says two things about its pods. */
static void a_root_that_contradicts_itself(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        run(f, "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
               "kind: ShardingConfig\n"
               "metadata: {name: all, namespace: demo}\n"
               "spec:\n"
               "  controller: {leaderElectionName: lock}\n"
               "  selector:\n"
               "    matchExpressions:\n"
               "    - {key: statefulset.kubernetes.io/pod-name, operator: In, values: [demo-0]}\n"
               "  root:\n"
               "    prefix: demo\n"
               "    targetStatefulSet: demo\n"
               "    auto: {everyShardReplicas: 2, shardingSize: 2}\n"
               "    canary: {replicas: 1, inNamespaces: [try]}\n"
               "    resourceSelector:\n"
               "    - relateResources: [{apiGroups: ['*'], resources: [pods, services]}]\n"),
        EXIT_DONE);
    expect_words(f, "in.yaml:7: warning: spec.selector: what it says of names of pods");
    expect_shard(f, "demo-0-canary", "/namespace in (try)");
    expect_shard(f, "demo-1-normal",
                 "/namespace notin (try),ctrlmesh.kusionstack.io/sharding-hash");
    expect_shard(f, "demo-2-normal", "hash in (16,17,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_shard_has_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(one_shard_can_be_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(a_warning_is_an_error_if_that_is_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(kinds_are_misspelt, setup, teardown),
        cmocka_unit_test_setup_teardown(the_shards_of_a_root, setup, teardown),
        cmocka_unit_test_setup_teardown(size_by_the_stateful_set, setup, teardown),
        cmocka_unit_test_setup_teardown(size_by_the_deployment, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_that_there_are_keep_what_they_have, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_others_have, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_as_they_are_applied, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disabled_root, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_a_root_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_canary_with_both_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(a_root_that_contradicts_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(other_kinds_are_skipped_aloud, setup, teardown),
        cmocka_unit_test_setup_teardown(labels_of_namespaces, setup, teardown),
        cmocka_unit_test_setup_teardown(namespaces_beside_shards, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_have_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_are_validated_together, setup, teardown),
        cmocka_unit_test_setup_teardown(yaml_errors_name_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(comparing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_stops_no_others, setup, teardown),
        cmocka_unit_test_setup_teardown(output_that_cannot_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(traffic_documents_stand_beside_the_rules, setup, teardown),
        cmocka_unit_test_setup_teardown(policies_do_not_change_rules, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_of_policies_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_of_policies_have_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(policies_of_no_shard_are_noted, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_policies, setup, teardown),
        cmocka_unit_test_setup_teardown(comparing_policies, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
