/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "crypto/digest.h"
#include "entry_text.h"

#define HEAD                                                                                       \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\n"                                      \
    "\"shard\":{\"namespace\":\"ns\",\"name\":\"shard-a\"},\n"                                     \
    "\"generation\":7,\n"
#define HEAD2                                                                                      \
    "{\"apiVersion\":\"cmesh/v2\",\"kind\":\"ShardRules\",\n"                                      \
    "\"shard\":{\"namespace\":\"ns\",\"name\":\"shard-a\"},\n\"generation\":7,\n\"spec\":{"
#define SPEC(members) HEAD "\"spec\":{" members "}}"
#define LIMITS(items) SPEC("\"limits\":[" items "]")
#define LIMIT(groups, resources, selector)                                                         \
    "{\"apiGroups\":[" groups "],\"resources\":[" resources "],\"selector\":\"" selector "\"}"

static struct rules *parse(const char *text)
{
    struct err e = ERR_INIT;
    struct rules *r = rules_parse(text, strlen(text), &e);
    if (r == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    return r;
}

static void whole_document(void **state)
{
    (void)state;
    static const char text[] =
        "{ \"apiVersion\": \"cmesh/v1\", \"kind\": \"ShardRules\",\n"
        "  \"shard\": {\"namespace\": \"operator-demo\", \"name\": \"sharding-demo\"},\n"
        "  \"generation\": 7, \"comment\": \"outside spec others may write what they like\",\n"
        "  \"spec\": {\n"
        "    \"leaderElection\": {\"name\": \"operator-leader\"},\n"
        "    \"limits\": [ {\"apiGroups\": [\"*\"], \"resources\": [\"pods\", \"services\"],\n"
        "      \"selector\": \"ctrlmesh.kusionstack.io/namespace in (ns-b,ns-a), app=foo\"} ],\n"
        "    \"labels\": {\"shardHash\": \"ctrlmesh.kusionstack.io/shard-hash\"} } }\n";
    static const char spec[] =
        "{\"labels\":{\"shardHash\":\"ctrlmesh.kusionstack.io/shard-hash\"},"
        "\"leaderElection\":{\"name\":\"operator-leader\"},"
        "\"limits\":[{\"apiGroups\":[\"*\"],\"resources\":[\"pods\",\"services\"],"
        "\"selector\":\"app=foo,ctrlmesh.kusionstack.io/namespace in (ns-a,ns-b)\"}]}";
    struct rules *r = parse(text);
    assert_int_equal(rules_generation(r), 7);
    assert_string_equal(rules_shard_namespace(r), "operator-demo");
    assert_string_equal(rules_shard_name(r), "sharding-demo");
    assert_string_equal(rules_leader_election(r), "operator-leader");
    assert_null(rules_leader_election_namespace(r));
    assert_int_equal(rules_limit_count(r), 1);
    assert_string_equal(rules_labels(r)->namespace, "ctrlmesh.kusionstack.io/namespace");
    assert_string_equal(rules_labels(r)->shard_hash, "ctrlmesh.kusionstack.io/shard-hash");
    assert_string_equal(rules_labels(r)->control, "ctrlmesh.kusionstack.io/control");

    char hex[SHA256_HEX_LEN + 1];
    sha256_hex(spec, strlen(spec), hex);
    assert_int_equal(strncmp(rules_checksum(r), "sha256:", 7), 0);
    assert_string_equal(rules_checksum(r) + 7, hex);

    const struct rules_entry *entry = rules_match(r, SLICE(""), SLICE("pods"));
    assert_non_null(entry);
    assert_string_equal(entry_text(entry),
                        "app=foo,ctrlmesh.kusionstack.io/namespace in (ns-a,ns-b)");
    assert_true(slice_eq(entry->escaped, SLICE("app%3Dfoo%2Cctrlmesh.kusionstack.io%2Fnamespace%20"
                                               "in%20%28ns-a%2Cns-b%29")));
    struct selector_label labels[] = {{SLICE("app"), SLICE("foo")},
                                      {SLICE("ctrlmesh.kusionstack.io/namespace"), SLICE("ns-a")}};
    assert_true(selector_matches(entry->compiled, labels, 2));
    assert_false(selector_matches(entry->compiled, labels, 1));
    assert_ptr_equal(rules_match(r, SLICE("serving.knative.dev"), SLICE("services")), entry);
    assert_null(rules_match(r, SLICE(""), SLICE("secrets")));
    assert_null(rules_match(r, SLICE(""), SLICE("pod")));
    rules_unref(r);
}

/* Editors of some systems write it, and RFC 8259 lets a parser pass over it. */
static void byte_order_mark(void **state)
{
    (void)state;
    struct rules *r = parse("\xef\xbb\xbf" LIMITS(LIMIT("\"\"", "\"pods\"", "a=b")));
    assert_int_equal(rules_limit_count(r), 1);
    rules_unref(r);
    struct err e = ERR_INIT;
    static const char twice[] = "\xef\xbb\xbf\xef\xbb\xbf{}";
    assert_null(rules_parse(twice, sizeof twice - 1, &e));
    assert_non_null(strstr(e.msg, "line 1, column 1"));
}

static void canonical_json(void **state)
{
    (void)state;
    struct rules *r = parse(LIMITS(LIMIT("\"\"", "\"pods\"", "b,a")));
    struct buf out = BUF_INIT(4096);
    assert_int_equal(rules_to_json(r, &out), 0);
    char want[1024];
    (void)snprintf(want, sizeof want,
                   "{\"apiVersion\":\"cmesh/v1\",\"checksum\":\"%s\",\"generation\":7,"
                   "\"kind\":\"ShardRules\",\"shard\":{\"name\":\"shard-a\",\"namespace\":\"ns\"},"
                   "\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],"
                   "\"selector\":\"a,b\"}]}}",
                   rules_checksum(r));
    assert_string_equal(buf_cstr(&out), want);

    struct rules *again = parse(buf_cstr(&out));
    assert_string_equal(rules_checksum(again), rules_checksum(r));
    struct buf second = BUF_INIT(4096);
    assert_int_equal(rules_to_json(again, &second), 0);
    assert_string_equal(buf_cstr(&second), buf_cstr(&out));

    struct buf small = BUF_INIT(100);
    assert_int_equal(rules_to_json(r, &small), -ENOBUFS);
    assert_int_equal(small.len, 0);
    buf_reset(&small);
    buf_reset(&second);
    buf_reset(&out);
    rules_unref(again);
    rules_unref(r);
}

static void checksum_is_of_the_canonical_spec(void **state)
{
    (void)state;
    struct rules *a = parse(LIMITS(LIMIT("\"\"", "\"pods\"", "a in (x,y),b")));
    struct rules *b =
        parse(HEAD " \"spec\": { \"limits\": [ {\"selector\": \"b, a in ( y,x )\", \"resources\": "
                   "[\"pods\"], \"apiGroups\": [ \"\" ] } ] } }");
    struct rules *c = parse(LIMITS(LIMIT("\"\"", "\"pods\"", "a in (x,z),b")));
    assert_string_equal(rules_checksum(a), rules_checksum(b));
    assert_string_not_equal(rules_checksum(a), rules_checksum(c));
    rules_unref(a);
    rules_unref(b);
    rules_unref(c);
}

static const char *selected(const struct rules *r, struct slice group, struct slice resource)
{
    const struct rules_entry *entry = rules_match(r, group, resource);
    return entry == NULL ? "" : entry_text(entry);
}

static void wildcards_and_overlaps(void **state)
{
    (void)state;
    struct rules *r = parse(LIMITS(LIMIT("\"\"", "\"pods\",\"secrets\"", "core") "," LIMIT(
        "\"*\"", "\"pods\"",
        "anypods") "," LIMIT("\"apps\"", "\"*\"",
                             "apps") "," LIMIT("\"apps\",\"batch\"", "\"jobs\",\"deployments\"",
                                               "both") "," LIMIT("\"*\"", "\"events\"", "events")));
    assert_string_equal(selected(r, SLICE(""), SLICE("pods")), "anypods,core");
    assert_string_equal(selected(r, SLICE(""), SLICE("secrets")), "core");
    assert_string_equal(selected(r, SLICE("metrics.k8s.io"), SLICE("pods")), "anypods");
    assert_string_equal(selected(r, SLICE("apps"), SLICE("pods")), "anypods,apps");
    assert_string_equal(selected(r, SLICE("apps"), SLICE("events")), "apps,events");
    assert_string_equal(selected(r, SLICE("apps"), SLICE("statefulsets")), "apps");
    assert_string_equal(selected(r, SLICE("apps"), SLICE("deployments")), "apps,both");
    assert_string_equal(selected(r, SLICE("batch"), SLICE("jobs")), "both");
    assert_string_equal(selected(r, SLICE("batch"), SLICE("cronjobs")), "");
    assert_string_equal(selected(r, SLICE(""), SLICE("jobs")), "");
    assert_string_equal(selected(r, SLICE(""), SLICE("")), "");
    rules_unref(r);
}

static void everything_is_limited(void **state)
{
    (void)state;
    struct rules *r = parse(
        LIMITS(LIMIT("\"*\"", "\"*\"", "all") "," LIMIT("\"*\"", "\"pods\"", "pods") "," LIMIT(
            "\"apps\"", "\"*\"", "apps") "," LIMIT("\"\"", "\"pods\"", "core")));
    assert_string_equal(selected(r, SLICE("x"), SLICE("y")), "all");
    assert_string_equal(selected(r, SLICE("x"), SLICE("pods")), "all,pods");
    assert_string_equal(selected(r, SLICE("apps"), SLICE("y")), "all,apps");
    assert_string_equal(selected(r, SLICE("apps"), SLICE("pods")), "all,apps,pods");
    assert_string_equal(selected(r, SLICE(""), SLICE("pods")), "all,core,pods");
    rules_unref(r);
}

static uint64_t pods_id(const char *text)
{
    struct rules *r = parse(text);
    uint64_t id = rules_match(r, SLICE(""), SLICE("pods"))->id;
    rules_unref(r);
    return id;
}

/* However a selector came about, it has the same id in every document and process. */
static void ids_follow_the_selector(void **state)
{
    (void)state;
    uint64_t id = pods_id(LIMITS(LIMIT("\"\"", "\"pods\"", "a,b in (x,y)")));
    assert_true(id == pods_id(LIMITS(LIMIT("\"*\"", "\"*\"", " b in (y,x), a"))));
    assert_true(id == pods_id(LIMITS(LIMIT("\"*\"", "\"*\"", "b in (y,x)") "," LIMIT(
                          "\"\"", "\"pods\",\"secrets\"", "a"))));
    assert_true(id != pods_id(LIMITS(LIMIT("\"\"", "\"pods\"", "a,b in (x,z)"))));
    /* From `printf a | sha256sum`. */
    assert_true(pods_id(LIMITS(LIMIT("\"\"", "\"pods\"", "a"))) == 0xca978112ca1bbdcaull);
}

static void contradictions_match_nothing(void **state)
{
    (void)state;
    struct rules *r = parse(LIMITS(LIMIT("\"\"", "\"pods\"", "a=1") "," LIMIT(
        "\"\"", "\"pods\"", "a=2") "," LIMIT("\"\"", "\"secrets\"", "k,!k")));
    struct selector_label labels[] = {{SLICE("a"), SLICE("1")}, {SLICE("k"), SLICE("1")}};
    const struct rules_entry *pods = rules_match(r, SLICE(""), SLICE("pods"));
    const struct rules_entry *secrets = rules_match(r, SLICE(""), SLICE("secrets"));
    assert_string_equal(entry_text(pods), "a=1,a=2");
    assert_false(selector_matches(pods->compiled, labels, 2));
    assert_string_equal(entry_text(secrets), "k,!k");
    assert_false(selector_matches(secrets->compiled, labels, 2));
    rules_unref(r);
}

static void no_limits_is_said_explicitly(void **state)
{
    (void)state;
    struct rules *r = parse(LIMITS(""));
    assert_int_equal(rules_limit_count(r), 0);
    assert_null(rules_leader_election(r));
    assert_null(rules_match(r, SLICE(""), SLICE("pods")));
    rules_unref(r);
}

static void references(void **state)
{
    (void)state;
    struct rules *r = parse(LIMITS(""));
    assert_ptr_equal(rules_ref(r), r);
    rules_unref(r);
    assert_int_equal(rules_generation(r), 7);
    rules_unref(r);
    rules_unref(NULL);
}

#define GOOD_LIMIT LIMIT("\"\"", "\"pods\"", "a")
#define X10 "xxxxxxxxxx"
#define X250                                                                                       \
    X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10    \
        X10 X10

static void errors_name_line_and_path(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "line 1, column 1: unexpected end of JSON"},
        {"{", "line 1, column 2: unexpected end of JSON"},
        {"[]", "line 1: Invalid value: must be an object"},
        {"{}", "line 1: apiVersion: Required value"},
        {"apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: ShardingConfig\n",
         "is a ShardingConfig: `manager compile -f` makes rules of it"},
        {"{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\": \"ShardingConfig\"}",
         "is a ShardingConfig: `manager compile -f` makes rules of it"},
        {"kind: kind\nkind", "line 1, column 1: expected a JSON value"},
        {"{\"apiVersion\":1}", "line 1: apiVersion: Invalid value: must be a string"},
        {"{\n\"apiVersion\":\"cmesh/v3\"}",
         "line 2: apiVersion: Unsupported value: \"cmesh/v3\": supported values: "
         "\"cmesh/v1\", \"cmesh/v2\""},
        {"{\"apiVersion\":\"cmesh/v1\"}", "line 1: kind: Required value"},
        {"{\"apiVersion\":\"cmesh/v1\",\n\n\"kind\":\"X\"}", "line 3: kind: Unsupported value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\"}", "line 1: shard: Required value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\n\"shard\":\"a/b\"}",
         "line 2: shard: Invalid value: must be an object"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\n\"shard\":{\"name\":\"x\"}}",
         "line 2: shard.namespace: Required value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\n\"shard\":{\"name\":\"x\",\n"
         "\"namespace\":\"a.b\"}}",
         "line 3: shard.namespace: Invalid value: \"a.b\": must consist of lower case"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\n\"shard\":{\"name\":\"\",\n"
         "\"namespace\":\"a\"}}",
         "line 2: shard.name: Required value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\n\"shard\":{\"name\":\"X\",\n"
         "\"namespace\":\"a\"}}",
         "line 2: shard.name: Invalid value: \"X\""},
#define GENERATION(n)                                                                              \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","        \
    "\"name\":\"shard-a\"}" n "}"
        {GENERATION(""), "line 1: generation: Required value"},
        {GENERATION(",\n\"generation\":0"),
         "line 2: generation: Invalid value: must be a whole number from 1 to 4503599627370496"},
        {GENERATION(",\"generation\":-1"), "line 1: generation: Invalid value"},
        {GENERATION(",\"generation\":1.5"), "line 1: generation: Invalid value"},
        {GENERATION(",\"generation\":\"7\""), "line 1: generation: Invalid value"},
        {GENERATION(",\"generation\":1e300"), "line 1: generation: Invalid value"},
        {GENERATION(",\"generation\":9007199254740993"), "line 1: generation: Invalid value"},
        {GENERATION(",\"generation\":7"), "line 1: spec: Required value"},
        {GENERATION(",\"generation\":7,\"spec\":{\"limits\":[]},\n\"voids\":7"),
         "line 2: voids: Invalid value: must be larger than the generation"},
        {GENERATION(",\"generation\":7,\"voids\":0"), "line 1: voids: Invalid value"},
        {GENERATION(",\"generation\":7,\"voids\":\"8\""), "line 1: voids: Invalid value"},
        {GENERATION(",\"generation\":7,\"voids\":1e300"), "line 1: voids: Invalid value"},
#undef GENERATION
        {HEAD "\"spec\":[]}", "line 4: spec: Invalid value: must be an object"},
        {SPEC(""), "line 4: spec.limits: Required value: write [] if"},
        {SPEC("\"limits\":[],\n\"faultInjection\":{}"),
         "line 5: spec.faultInjection: Forbidden: unknown field"},
        {SPEC("\"limits\":{}"), "line 4: spec.limits: Invalid value: must be an array"},
        {SPEC("\"limits\":null"), "line 4: spec.limits: Invalid value: must be an array"},
        {LIMITS("\n1"), "line 5: spec.limits[0]: Invalid value: must be an object"},
        {LIMITS(GOOD_LIMIT ",\n{\"resource\":[]}"),
         "line 5: spec.limits[1].resource: Forbidden: unknown field"},
        {LIMITS("{\"resources\":[\"pods\"],\"selector\":\"a\"}"),
         "line 4: spec.limits[0].apiGroups: Required value"},
        {LIMITS("{\"apiGroups\":1,\"resources\":[\"pods\"],\"selector\":\"a\"}"),
         "line 4: spec.limits[0].apiGroups: Invalid value: must be an array"},
        {LIMITS(LIMIT("", "\"pods\"", "a")),
         "line 4: spec.limits[0].apiGroups: Required value: must have at least 1 entry"},
        {LIMITS(LIMIT("\"\",\n1", "\"pods\"", "a")),
         "line 5: spec.limits[0].apiGroups[1]: Invalid value: must be a string"},
        {LIMITS(LIMIT("\"\",\"*\",\n\"\"", "\"pods\"", "a")),
         "line 5: spec.limits[0].apiGroups[2]: Duplicate value: \"\""},
        {LIMITS(LIMIT("\"Apps\"", "\"pods\"", "a")),
         "line 4: spec.limits[0].apiGroups[0]: Invalid value: \"Apps\": must consist"},
        {LIMITS("{\"apiGroups\":[\"\"],\"selector\":\"a\"}"),
         "line 4: spec.limits[0].resources: Required value"},
        {LIMITS(LIMIT("\"\"", "", "a")),
         "line 4: spec.limits[0].resources: Required value: must have at least 1 entry"},
        {LIMITS(LIMIT("\"\"", "\"\"", "a")), "line 4: spec.limits[0].resources[0]: Invalid value"},
        {LIMITS(LIMIT("\"\"", "\"pods/log\"", "a")),
         "line 4: spec.limits[0].resources[0]: Invalid value: \"pods/log\": must be a resource "
         "without"},
        {LIMITS(LIMIT("\"\"", "\"Pod\"", "a")),
         "line 4: spec.limits[0].resources[0]: Invalid value: \"Pod\": must be a plural name in "
         "lower case, as \"pods\""},
        {LIMITS(LIMIT("\"\"", "\"*/scale\"", "a")),
         "line 4: spec.limits[0].resources[0]: Invalid value"},
        {LIMITS(LIMIT("\"\"", "\"pods\",\"*\",\"pods\"", "a")),
         "line 4: spec.limits[0].resources[2]: Duplicate value: \"pods\""},
        {LIMITS("{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}"),
         "line 4: spec.limits[0].selector: Required value"},
        {LIMITS("{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\n\"selector\":{}}"),
         "line 5: spec.limits[0].selector: Invalid value: must be a string"},
        {LIMITS(LIMIT("\"\"", "\"pods\"", " ")),
         "line 4: spec.limits[0].selector: Required value: an empty selector would limit nothing"},
        {LIMITS(LIMIT("\"\"", "\"pods\"", "a b")),
         "line 4: spec.limits[0].selector: Invalid value: \"a b\": position 3: found 'b'"},
        {LIMITS(LIMIT("\"\"", "\"pods\"", "a=b\\u0000,c")),
         "line 4: spec.limits[0].selector: Invalid value: \"a=b"},
        {SPEC("\"limits\":[],\"webhook\":[]"),
         "line 4: spec.webhook: Invalid value: must be an object"},
        {SPEC("\"limits\":[],\"webhook\":{\"host\":\"x\"}"),
         "line 4: spec.webhook.host: Forbidden: unknown field"},
        {SPEC("\"limits\":[],\"webhook\":{\"certDir\":1}"),
         "line 4: spec.webhook.certDir: Invalid value: must be a string"},
        {SPEC("\"limits\":[],\"webhook\":{\"port\":65536}"),
         "line 4: spec.webhook.port: Invalid value: must be a whole number from 1 to 65535"},
        {SPEC("\"limits\":[],\"leaderElection\":null"),
         "line 4: spec.leaderElection: Invalid value: must be an object"},
        {SPEC("\"limits\":[],\"leaderElection\":{}"),
         "line 4: spec.leaderElection.name: Required value"},
        {SPEC("\"limits\":[],\"leaderElection\":{\"name\":\"a\",\"id\":1}"),
         "line 4: spec.leaderElection.id: Forbidden: unknown field"},
        {SPEC("\"limits\":[],\"leaderElection\":{\"name\":\"A\"}"),
         "line 4: spec.leaderElection.name: Invalid value: \"A\""},
        {SPEC("\"limits\":[],\"leaderElection\":{\"namespace\":\"a\"}"),
         "line 4: spec.leaderElection.name: Required value"},
        {SPEC("\"limits\":[],\"leaderElection\":{\"name\":\"a\",\"namespace\":\"a.b\"}"),
         "line 4: spec.leaderElection.namespace: Invalid value: \"a.b\""},
        {SPEC("\"limits\":[],\"leaderElection\":{\"name\":\"a\",\"namespace\":\"\"}"),
         "line 4: spec.leaderElection.namespace: Invalid value: \"\""},
        {SPEC("\"limits\":[],\"leaderElection\":{\"name\":\"a\",\"namespace\":null}"),
         "line 4: spec.leaderElection.namespace: Invalid value: must be a string"},
        {SPEC("\"limits\":[],\"leaderElection\":{\"name\":\"" X250 "\"}"),
         "line 4: spec.leaderElection.name: Invalid value: with \"---\" and the shard's name it "
         "has more than 253 characters"},
        {SPEC("\"limits\":[],\"labels\":1"),
         "line 4: spec.labels: Invalid value: must be an object"},
        {SPEC("\"limits\":[],\"labels\":{\"x\":\"y\"}"),
         "line 4: spec.labels.x: Forbidden: unknown field"},
        {SPEC("\"limits\":[],\"labels\":{\n\"control\":\"a/b/c\"}"),
         "line 5: spec.labels.control: Invalid value: \"a/b/c\": name part"},
        {SPEC("\"limits\":[],\"labels\":{\"namespace\":1}"),
         "line 4: spec.labels.namespace: Invalid value: must be a string"},
        {HEAD "\"checksum\":\"sha256:\",\"spec\":{\"limits\":[]}}",
         "line 4: checksum: Invalid value: \"sha256:\": must be \"sha256:\" and 64"},
        {HEAD "\"checksum\":1,\"spec\":{\"limits\":[]}}", "line 4: checksum: Invalid value"},
        {HEAD "\"checksum\":\"sha256:"
              "0000000000000000000000000000000000000000000000000000000000000000\","
              "\"spec\":{\"limits\":[]}}",
         "line 4: checksum: Invalid value: the spec has sha256:"},
        {SPEC("\"limits\":[],\"limits\":[]"), "line 4, column 21: duplicate key \"limits\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        assert_null(rules_parse(rows[i].text, strlen(rows[i].text), &e));
        if (e.code != -EINVAL || strncmp(e.msg, rows[i].says, strlen(rows[i].says)) != 0) {
            fail_msg("%s: %d '%s'", rows[i].text, e.code, e.msg);
        }
    }
}

static void truncated_documents(void **state)
{
    (void)state;
    static const char text[] = LIMITS(LIMIT("\"\"", "\"pods\"", "a in (b,c)"));
    for (size_t len = 0; len < sizeof text - 1; len++) {
        char *cut = malloc(len + 1);
        assert_non_null(cut);
        memcpy(cut, text, len);
        assert_null(rules_parse(cut, len, NULL));
        free(cut);
    }
}

/* What multiplies is bounded: an error, not memory or time without end. */
static void hostile_overlaps(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    assert_int_equal(buf_append_str(&text, HEAD "\"spec\":{\"limits\":["), 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(buf_printf(&text,
                                    "%s{\"apiGroups\":[\"*\"],\"resources\":[\"r%d\"],"
                                    "\"selector\":\"r%d\"},"
                                    "{\"apiGroups\":[\"g%d\"],\"resources\":[\"*\"],"
                                    "\"selector\":\"g%d\"}",
                                    i > 0 ? "," : "", i, i, i, i),
                         0);
    }
    assert_int_equal(buf_append_str(&text, "]}}"), 0);
    struct err e = ERR_INIT;
    assert_null(rules_parse((const char *)buf_data(&text), text.len, &e));
    assert_int_equal(e.code, -E2BIG);
    assert_non_null(strstr(e.msg, "spec.limits: the limits overlap too much"));

    buf_clear(&text);
    assert_int_equal(buf_append_str(&text, HEAD "\"spec\":{\"limits\":["), 0);
    for (int i = 0; i <= SELECTOR_REQUIREMENTS_MAX; i++) {
        assert_int_equal(buf_printf(&text,
                                    "%s"
                                    "{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],"
                                    "\"selector\":\"r%d\"}",
                                    i > 0 ? "," : "", i),
                         0);
    }
    assert_int_equal(buf_append_str(&text, "]}}"), 0);
    assert_null(rules_parse((const char *)buf_data(&text), text.len, &e));
    assert_int_equal(e.code, -E2BIG);
    assert_non_null(strstr(e.msg, "spec.limits: the selectors are too large together"));
    buf_reset(&text);
}

/* Its canonical text is longer than the selector that was written, and than any may be. */
static void selector_at_its_bound(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct err e = ERR_INIT;
    buf_append_str(&text, HEAD "\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],"
                               "\"resources\":[\"pods\"],\"selector\":\"");
    size_t begin = text.len;
    for (size_t i = 0; i < SELECTOR_REQUIREMENTS_MAX; i++) {
        size_t end =
            i + 1 < SELECTOR_REQUIREMENTS_MAX ? text.len + 1018 : begin + SELECTOR_TEXT_MAX;
        buf_printf(&text, "%sk%zu in(0", i == 0 ? "" : ",", i);
        for (size_t n = 0; text.len + 64 < end; n++) {
            buf_printf(&text, ",%062zu", n);
        }
        buf_append_char(&text, ')');
    }
    assert_true(text.len - begin + SELECTOR_REQUIREMENTS_MAX > SELECTOR_TEXT_MAX);
    buf_append_str(&text, "\"}]}}");
    assert_int_equal(buf_error(&text), 0);
    assert_null(rules_parse((const char *)buf_data(&text), text.len, &e));
    assert_int_equal(e.code, -E2BIG);
    buf_reset(&text);
}

static void selector_longer_than_a_request(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    assert_int_equal(buf_append_str(&text, HEAD "\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],"
                                                "\"resources\":[\"pods\"],\"selector\":\"a in (x"),
                     0);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(buf_printf(&text, ",namespace-with-a-really-long-name-to-fill-it-%d", i),
                         0);
    }
    assert_int_equal(buf_append_str(&text, ")\"}]}}"), 0);
    struct err e = ERR_INIT;
    assert_null(rules_parse((const char *)buf_data(&text), text.len, &e));
    assert_int_equal(e.code, -E2BIG);
    assert_non_null(strstr(e.msg, "too long for a request"));
    buf_reset(&text);
}

static void a_thousand_limits(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    assert_int_equal(buf_append_str(&text, HEAD "\"spec\":{\"limits\":["), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(
            buf_printf(&text,
                       "%s{\"apiGroups\":[\"g%d.example.com\"],\"resources\":[\"r%d\"],"
                       "\"selector\":\"app=x%d,"
                       "ctrlmesh.kusionstack.io/namespace in (a%d,b%d,c%d)\"}",
                       i > 0 ? "," : "", i % 50, i, i, i, i, i),
            0);
    }
    assert_int_equal(buf_append_str(&text, "]}}"), 0);
    struct err e = ERR_INIT;
    struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(rules_limit_count(r), 1000);
    for (int i = 0; i < 1000; i++) {
        char group[64];
        char resource[64];
        (void)snprintf(group, sizeof group, "g%d.example.com", i % 50);
        (void)snprintf(resource, sizeof resource, "r%d", i);
        char want[128];
        (void)snprintf(want, sizeof want, "app=x%d,", i);
        const char *got = selected(r, slice_str(group), slice_str(resource));
        assert_int_equal(strncmp(got, want, strlen(want)), 0);
        assert_null(rules_match(r, SLICE("g"), slice_str(resource)));
    }
    rules_unref(r);
    buf_reset(&text);
}

/* 0 or the error. */
static int parse_and_reset(struct buf *text)
{
    struct err e = ERR_INIT;
    struct rules *r = rules_parse((const char *)buf_data(text), text->len, &e);
    assert_int_equal(buf_error(text), 0);
    assert_true((r != NULL) == (e.code == 0));
    rules_unref(r);
    buf_reset(text);
    return e.code;
}

static int with_limits(int count)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    buf_append_str(&text, HEAD "\"spec\":{\"limits\":[");
    for (int i = 0; i < count; i++) {
        buf_printf(&text, "%s{\"apiGroups\":[\"\"],\"resources\":[\"r%d\"],\"selector\":\"a\"}",
                   i > 0 ? "," : "", i);
    }
    buf_append_str(&text, "]}}");
    return parse_and_reset(&text);
}

static int with_resources(int count)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    buf_append_str(&text, HEAD "\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":[");
    for (int i = 0; i < count; i++) {
        buf_printf(&text, "%s\"r%d\"", i > 0 ? "," : "", i);
    }
    buf_append_str(&text, "],\"selector\":\"a\"}]}}");
    return parse_and_reset(&text);
}

/* With "---" and the shard's name, shard-a, that many characters. */
static int with_lock_name(int length)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    buf_append_str(&text, HEAD "\"spec\":{\"limits\":[],\"leaderElection\":{\"name\":\"");
    for (int i = 10; i < length; i++) {
        buf_append_char(&text, 'a');
    }
    buf_append_str(&text, "\"}}}");
    return parse_and_reset(&text);
}

/* 1,024 pairs in each limit, the same ones. */
static int with_pairs(int limits)
{
    enum { SIDE = 32 };
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct buf groups = BUF_INIT(SIDE * 8);
    struct buf resources = BUF_INIT(SIDE * 8);
    for (int i = 0; i < SIDE; i++) {
        buf_printf(&groups, "%s\"g%d\"", i > 0 ? "," : "", i);
        buf_printf(&resources, "%s\"r%d\"", i > 0 ? "," : "", i);
    }
    buf_append_str(&text, HEAD "\"spec\":{\"limits\":[");
    for (int i = 0; i < limits; i++) {
        buf_printf(&text, "%s{\"apiGroups\":[%s],\"resources\":[%s],\"selector\":\"a\"}",
                   i > 0 ? "," : "", buf_cstr(&groups), buf_cstr(&resources));
    }
    buf_append_str(&text, "]}}");
    buf_reset(&groups);
    buf_reset(&resources);
    return parse_and_reset(&text);
}

/* ---- what overlapping limits multiply to ---- */

/* CPU time that reading may take: with sanitizers many times what it takes without. A step for each
 * two of what a ConfigMap can hold takes minutes. */
enum { CPU_MS_MAX = 3000 };

static void keys(struct buf *text, int count)
{
    for (int i = 0; i < count; i++) {
        buf_printf(text, "%sk%d", i > 0 ? "," : "", i);
    }
}

static void narrow_limits(struct buf *text, int count)
{
    for (int i = 0; i < count; i++) {
        buf_printf(text, ",{\"apiGroups\":[\"\"],\"resources\":[\"r%d\"],\"selector\":\"n%d\"}", i,
                   i);
    }
}

/* A wide limit of many keys, and narrow ones that each have it too. */
static void wide_and_narrow(struct buf *text, int wide, int narrow)
{
    buf_append_str(text, HEAD "\"spec\":{\"limits\":[");
    buf_append_str(text, "{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"selector\":\"");
    keys(text, wide);
    buf_append_str(text, "\"}");
    narrow_limits(text, narrow);
    buf_append_str(text, "]}}");
}

/* Many wide limits. */
static void many_wide(struct buf *text, int wide, int narrow)
{
    buf_append_str(text, HEAD "\"spec\":{\"limits\":[");
    for (int i = 0; i < wide; i++) {
        buf_printf(text, "%s{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"selector\":\"w%d\"}",
                   i > 0 ? "," : "", i);
    }
    narrow_limits(text, narrow);
    buf_append_str(text, "]}}");
}

/* (g, *) for many groups. */
static void wide_groups(struct buf *text, int count, int unused)
{
    (void)unused;
    buf_append_str(text, HEAD "\"spec\":{\"limits\":[");
    for (int i = 0; i < count; i++) {
        bool first = i % RULES_LIST_MAX == 0;
        bool last = (i + 1) % RULES_LIST_MAX == 0 || i + 1 == count;
        buf_append_str(text, i > 0 && first ? "," : "");
        buf_append_str(text, first ? "{\"apiGroups\":[" : "");
        buf_printf(text, "%s\"g%d\"", first ? "" : ",", i);
        buf_append_str(text, last ? "],\"resources\":[\"*\"],\"selector\":\"a\"}" : "");
    }
    buf_append_str(text, "]}}");
}

/* The longest list of names, again and again. */
static void long_lists(struct buf *text, int times, int unused)
{
    (void)unused;
    buf_append_str(text, HEAD "\"spec\":{\"limits\":[");
    for (int i = 0; i < times; i++) {
        buf_printf(text, "%s{\"apiGroups\":[\"\"],\"resources\":[", i > 0 ? "," : "");
        for (int j = 0; j < RULES_LIST_MAX; j++) {
            buf_printf(text, "%s\"r%d\"", j > 0 ? "," : "", j);
        }
        buf_append_str(text, "],\"selector\":\"a\"}");
    }
    buf_append_str(text, "]}}");
}

/* A long text that says little, which many limits have. */
static void long_writing(struct buf *text, int values, int limits)
{
    buf_append_str(text, HEAD2 "\"selectors\":[\"k in (a");
    for (int i = 0; i < values; i++) {
        buf_append_str(text, ",a");
    }
    buf_append_str(text, ")\"],\"limits\":[");
    for (int i = 0; i < limits; i++) {
        buf_printf(text, "%s{\"apiGroups\":[\"\"],\"resources\":[\"r%d\"],\"selector\":0}",
                   i > 0 ? "," : "", i);
    }
    buf_append_str(text, "]}}");
}

static long cpu_ms(void)
{
    return (long)(clock() * 1000 / CLOCKS_PER_SEC);
}

/* 0 or the error. */
static int read_in_time(void (*make)(struct buf *text, int a, int b), int a, int b)
{
    struct buf text = BUF_INIT((size_t)1024 * 1024);
    make(&text, a, b);
    assert_int_equal(buf_error(&text), 0);
    long began = cpu_ms();
    int code = parse_and_reset(&text);
    assert_true(cpu_ms() - began < CPU_MS_MAX);
    return code;
}

static void what_multiplies_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(read_in_time(wide_and_narrow, 1000, 7000), -E2BIG);
    assert_int_equal(read_in_time(wide_and_narrow, 400, 8000), -E2BIG);
    assert_int_equal(read_in_time(wide_and_narrow, 60, 1000), 0);
    assert_int_equal(read_in_time(many_wide, 900, 4000), -E2BIG);
    assert_int_equal(read_in_time(many_wide, 60, 1000), 0);
    assert_int_equal(read_in_time(wide_groups, 65000, 0), -E2BIG);
    assert_int_equal(read_in_time(wide_groups, RULES_PATTERNS_MAX, 0), 0);
    assert_int_equal(read_in_time(long_lists, 140, 0), -E2BIG);
    assert_int_equal(read_in_time(long_lists, 130, 0), 0);
    assert_int_equal(read_in_time(long_writing, 60000, 9000), 0);
}

/* What a wide limit says is in memory once, however many resources have it too. */
static void wide_limits_are_shared(void **state)
{
    struct buf text = BUF_INIT((size_t)1024 * 1024);
    struct err e = ERR_INIT;
    const char *first = NULL;
    (void)state;
    wide_and_narrow(&text, 50, 1000);
    struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
    assert_non_null(r);
    for (int i = 0; i < 1000; i++) {
        char resource[16];
        size_t count = 0;
        (void)snprintf(resource, sizeof resource, "r%d", i);
        const struct rules_entry *entry = rules_match(r, SLICE(""), slice_str(resource));
        const struct selector_requirement *all = selector_requirements(entry->compiled, &count);
        assert_int_equal(count, 51);
        assert_string_equal(all[0].key, "k0");
        first = first == NULL ? all[0].key : first;
        assert_ptr_equal(all[0].key, first);
    }
    rules_unref(r);
    buf_reset(&text);
}

/* 1,000 limits of their own beside one that names 500 namespaces. */
static void names_of_namespaces_fit(void **state)
{
    struct buf text = BUF_INIT((size_t)1024 * 1024);
    (void)state;
    buf_append_str(&text, HEAD "\"spec\":{\"limits\":[{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],"
                               "\"selector\":\"ns in (a");
    for (int i = 0; i < 500; i++) {
        buf_printf(&text, ",namespace-%d", i);
    }
    buf_append_str(&text, ")\"}");
    narrow_limits(&text, 1000);
    buf_append_str(&text, "]}}");
    assert_int_equal(parse_and_reset(&text), 0);
}

static void bounds_are_included(void **state)
{
    (void)state;
    assert_int_equal(with_pairs(RULES_PAIRS_MAX / 1024), 0);
    assert_int_equal(with_pairs(RULES_PAIRS_MAX / 1024 + 1), -E2BIG);
    assert_int_equal(with_limits(RULES_LIMITS_MAX), 0);
    assert_int_equal(with_limits(RULES_LIMITS_MAX + 1), -E2BIG);
    assert_int_equal(with_resources(RULES_LIST_MAX), 0);
    assert_int_not_equal(with_resources(RULES_LIST_MAX + 1), 0);
    assert_int_equal(with_lock_name(253), 0);
    assert_int_equal(with_lock_name(254), -EINVAL);
}

static void another_generation(void **state)
{
    (void)state;
    struct rules *r = parse(LIMITS(LIMIT("\"\"", "\"pods\"", "a=b")));
    struct rules *next = rules_with_generation(r, 8, 0);
    struct rules *last = rules_with_generation(next, 9, 0);
    struct buf text = BUF_INIT(4096);
    assert_int_equal(rules_generation(r), 7);
    assert_int_equal(rules_generation(next), 8);
    assert_string_equal(rules_checksum(next), rules_checksum(r));
    assert_ptr_equal(rules_match(next, SLICE(""), SLICE("pods")),
                     rules_match(r, SLICE(""), SLICE("pods")));
    /* What they share stays as long as one of them. */
    rules_unref(r);
    rules_unref(next);
    assert_int_equal(rules_to_json(last, &text), 0);
    struct rules *again = parse(buf_cstr(&text));
    assert_int_equal(rules_generation(again), 9);
    assert_string_equal(rules_checksum(again), rules_checksum(last));
    assert_int_equal(rules_match(last, SLICE(""), SLICE("pods"))->id,
                     rules_match(again, SLICE(""), SLICE("pods"))->id);
    rules_unref(again);
    rules_unref(last);
    buf_reset(&text);
}

/* What is not of the spec is ignored, and must not be much. */
static const char *with_beside(unsigned values)
{
    static struct buf text = BUF_INIT(1 << 20);
    buf_clear(&text);
    buf_append_str(&text, HEAD "\"spec\":{\"limits\":[]},\"x\":[0");
    for (unsigned i = 1; i < values; i++) {
        buf_append_str(&text, ",0");
    }
    buf_append_str(&text, "]}");
    return buf_cstr(&text);
}

static void little_beside_the_spec(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    rules_unref(parse(with_beside(RULES_VALUES_BESIDE_MAX - 20)));
    const char *text = with_beside(RULES_VALUES_BESIDE_MAX + 1);
    assert_null(rules_parse(text, strlen(text), &e));
    assert_int_equal(e.code, -E2BIG);
    assert_non_null(strstr(e.msg, "outside of its spec"));
}

static void without_texts_for_queries(void **state)
{
    (void)state;
    const char *text = LIMITS(LIMIT("\"\"", "\"pods\"", "a=b"));
    struct rules *r = parse(text);
    struct rules *plain = rules_parse_plain(text, strlen(text), NULL);
    assert_non_null(plain);
    const struct rules_entry *one = rules_match(r, SLICE(""), SLICE("pods"));
    const struct rules_entry *other = rules_match(plain, SLICE(""), SLICE("pods"));
    assert_true(one->escaped.len > 0);
    assert_int_equal(other->escaped.len, 0);
    assert_int_equal(one->id, other->id);
    assert_int_equal(one->length, other->length);
    assert_string_equal(rules_checksum(r), rules_checksum(plain));
    rules_unref(r);
    rules_unref(plain);
}

static void void_generations(void **state)
{
    (void)state;
    struct rules *r = parse(LIMITS(LIMIT("\"\"", "\"pods\"", "a=b")));
    struct rules *next = rules_with_generation(r, 8, RULES_GENERATION_MAX);
    struct buf text = BUF_INIT(4096);
    assert_int_equal(rules_voids(r), 0);
    assert_false(rules_older_than(r, 6));
    assert_false(rules_older_than(r, 7));
    assert_true(rules_older_than(r, 8));
    assert_true(rules_older_than(r, RULES_GENERATION_MAX));
    for (enum rules_version v = RULES_V1; v < RULES_VERSIONS; v++) {
        buf_clear(&text);
        assert_int_equal(rules_to_version(next, v, &text), 0);
        struct rules *again = parse(buf_cstr(&text));
        assert_int_equal(rules_generation(again), 8);
        assert_int_equal(rules_voids(again), RULES_GENERATION_MAX);
        assert_string_equal(rules_checksum(again), rules_checksum(r));
        assert_true(rules_older_than(again, 9));
        assert_true(rules_older_than(again, RULES_GENERATION_MAX - 1));
        assert_false(rules_older_than(again, RULES_GENERATION_MAX));
        rules_unref(again);
    }
    rules_unref(next);
    rules_unref(r);
    buf_reset(&text);
}

/* ---- version 2 ---- */

#define SHARED(selectors, items) HEAD2 "\"selectors\":[" selectors "],\n\"limits\":[" items "]}}"
#define BY_PLACE(resource, place)                                                                  \
    "{\"apiGroups\":[\"\"],\"resources\":[\"" resource "\"],\"selector\":" place "}"

static const char *print(const struct rules *r, enum rules_version version)
{
    static char text[4096];
    struct buf out = BUF_INIT(sizeof text);
    assert_int_equal(rules_to_version(r, version, &out), 0);
    (void)snprintf(text, sizeof text, "%s", buf_cstr(&out));
    buf_reset(&out);
    return text;
}

static void shared_selectors_mean_the_same(void **state)
{
    (void)state;
    struct rules *one = parse(LIMITS(LIMIT("\"\"", "\"pods\"", "a=b") "," LIMIT(
        "\"\"", "\"services\"", "b,a") "," LIMIT("\"\"", "\"secrets\"", "a=b")));
    /* In any order, and not in canonical form; one is for nobody. */
    struct rules *two = parse(
        SHARED("\"x\",\"a,b\",\"a = b\"",
               BY_PLACE("pods", "2") "," BY_PLACE("services", "1") "," BY_PLACE("secrets", "2")));
    assert_int_equal(rules_version(one), RULES_V1);
    assert_int_equal(rules_version(two), RULES_V2);
    assert_string_equal(rules_checksum(one), rules_checksum(two));
    assert_string_equal(print(two, RULES_V1), print(one, RULES_V1));
    assert_int_equal(rules_limit_count(two), 3);
    assert_string_equal(entry_text(rules_match(two, SLICE(""), SLICE("pods"))), "a=b");
    assert_string_equal(entry_text(rules_match(two, SLICE(""), SLICE("services"))), "a,b");
    assert_string_equal(entry_text(rules_match(two, SLICE(""), SLICE("secrets"))), "a=b");
    char want[1024];
    (void)snprintf(want, sizeof want,
                   "{\"apiVersion\":\"cmesh/v2\",\"checksum\":\"%s\",\"generation\":7,"
                   "\"kind\":\"ShardRules\",\"shard\":{\"name\":\"shard-a\",\"namespace\":\"ns\"},"
                   "\"spec\":{\"limits\":["
                   "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":0},"
                   "{\"apiGroups\":[\"\"],\"resources\":[\"services\"],\"selector\":1},"
                   "{\"apiGroups\":[\"\"],\"resources\":[\"secrets\"],\"selector\":0}],"
                   "\"selectors\":[\"a=b\",\"a,b\"]}}",
                   rules_checksum(one));
    assert_string_equal(print(one, RULES_V2), want);
    assert_string_equal(print(two, RULES_V2), want);
    struct rules *again = parse(want);
    assert_string_equal(print(again, RULES_V2), want);
    rules_unref(again);
    rules_unref(two);
    rules_unref(one);
}

static void what_is_wrong_with_shared_selectors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {HEAD2 "\"limits\":[]}}", "line 4: spec.selectors: Required value"},
        {HEAD2 "\"limits\":[],\"selectors\":{}}}",
         "line 4: spec.selectors: Invalid value: must be an array"},
        {HEAD2 "\"limits\":[],\n\"selectors\":[\"a\",\n1]}}",
         "line 6: spec.selectors[1]: Invalid value: must be a string"},
        {SHARED("\"a\"", BY_PLACE("pods", "\"a\"")),
         "line 5: spec.limits[0].selector: Invalid value: must be a place in spec.selectors"},
        {SHARED("\"a\"", BY_PLACE("pods", "1")), "spec.limits[0].selector: Invalid value"},
        {SHARED("\"a\"", BY_PLACE("pods", "-1")), "spec.limits[0].selector: Invalid value"},
        {SHARED("\"a\"", BY_PLACE("pods", "0.5")), "spec.limits[0].selector: Invalid value"},
        {SHARED("\"a\"", BY_PLACE("pods", "1e300")), "spec.limits[0].selector: Invalid value"},
        {SHARED("\"a\"", BY_PLACE("pods", "0") ",\n" BY_PLACE("nodes", "null")),
         "line 6: spec.limits[1].selector: Invalid value"},
        {SHARED("\"a\"", "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}"),
         "line 5: spec.limits[0].selector: Required value"},
        {SHARED("\"a b\"", "\n" BY_PLACE("pods", "0")),
         "line 6: spec.limits[0].selector: Invalid value: \"a b\""},
        {SHARED("\"\"", BY_PLACE("pods", "0")), "an empty selector would limit nothing"},
        {SPEC("\"selectors\":[],\"limits\":[]"), "spec.selectors: Forbidden: unknown field"},
        {LIMITS(BY_PLACE("pods", "0")), "spec.limits[0].selector: Invalid value: must be a string"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        assert_null(rules_parse(rows[i].text, strlen(rows[i].text), &e));
        if (strstr(e.msg, rows[i].says) == NULL) {
            fail_msg("%s\nsays: %s\nnot: %s", rows[i].text, e.msg, rows[i].says);
        }
    }
}

/* A small document may not stand for a huge one: it would be the reader's memory. */
static void shared_selectors_are_bounded(void **state)
{
    enum { LONG = 400000, LIMITS_OF_IT = 20 };
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct err e = ERR_INIT;
        buf_clear(&text);
        buf_append_str(&text, HEAD2 "\"selectors\":[\"k in (a");
        for (int i = 0; i < LONG / 8; i++) {
            buf_printf(&text, ",%07d", i);
        }
        buf_append_str(&text, ")\"],\"limits\":[");
        for (int i = 0; i < LIMITS_OF_IT + more; i++) {
            buf_printf(&text, "%s{\"apiGroups\":[\"\"],\"resources\":[\"r%d\"],\"selector\":0}",
                       i > 0 ? "," : "", i);
        }
        buf_append_str(&text, "]}}");
        struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
        assert_int_equal(r == NULL, more);
        assert_int_equal(e.code, more ? -E2BIG : 0);
        rules_unref(r);
    }
    buf_reset(&text);
}

/* 1,000 limits by so many bytes: what is taken can be handed over and stored, as version 1. */
static void what_is_read_is_read_again(void **state)
{
    enum { LIMITS_OF_IT = 1000, FITS = 8310, LONGER = 8380 };
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    struct buf again = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    (void)state;
    for (int len = FITS; len <= LONGER; len += LONGER - FITS) {
        struct err e = ERR_INIT;
        buf_clear(&text);
        buf_append_str(&text, HEAD2 "\"selectors\":[\"k in (a");
        for (int i = 0; i < len / 8; i++) {
            buf_printf(&text, ",%07d", i);
        }
        buf_append_str(&text, ")\"],\"limits\":[");
        for (int i = 0; i < LIMITS_OF_IT; i++) {
            buf_printf(&text, "%s{\"apiGroups\":[\"\"],\"resources\":[\"r%d\"],\"selector\":0}",
                       i > 0 ? "," : "", i);
        }
        buf_append_str(&text, "]}}");
        struct rules *r = rules_parse((const char *)buf_data(&text), text.len, &e);
        if (len == LONGER) {
            assert_null(r);
            assert_int_equal(e.code, -E2BIG);
            assert_non_null(strstr(e.msg, "more than 8388608 bytes in version 1"));
            continue;
        }
        assert_non_null(r);
        assert_int_equal(rules_to_json(r, &again), 0);
        struct rules *same = rules_parse((const char *)buf_data(&again), again.len, &e);
        assert_non_null(same);
        assert_string_equal(rules_checksum(same), rules_checksum(r));
        rules_unref(same);
        rules_unref(r);
    }
    buf_reset(&again);
    buf_reset(&text);
}

static void versions_in_common(void **state)
{
    (void)state;
    assert_string_equal(rules_version_text(RULES_V1), "cmesh/v1");
    assert_string_equal(rules_version_text(RULES_NEWEST), "cmesh/v2");
    assert_int_equal(rules_version_common(NULL), RULES_V1); /* it is older than this question */
    assert_int_equal(rules_version_common(""), RULES_V1);
    assert_int_equal(rules_version_common("cmesh/v1"), RULES_V1);
    assert_int_equal(rules_version_common("cmesh/v2"), RULES_V2);
    assert_int_equal(rules_version_common("cmesh/v3"), RULES_V2);
    assert_int_equal(rules_version_common("cmesh/v99999999999999999999"), RULES_V2);
    assert_int_equal(rules_version_common("cmesh/v0"), RULES_V1);
    assert_int_equal(rules_version_common("cmesh/v-1"), RULES_V1);
    assert_int_equal(rules_version_common("other/v2"), RULES_V1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_selectors_mean_the_same),
        cmocka_unit_test(what_is_wrong_with_shared_selectors),
        cmocka_unit_test(shared_selectors_are_bounded),
        cmocka_unit_test(what_is_read_is_read_again),
        cmocka_unit_test(versions_in_common),
        cmocka_unit_test(whole_document),
        cmocka_unit_test(byte_order_mark),
        cmocka_unit_test(canonical_json),
        cmocka_unit_test(checksum_is_of_the_canonical_spec),
        cmocka_unit_test(wildcards_and_overlaps),
        cmocka_unit_test(everything_is_limited),
        cmocka_unit_test(ids_follow_the_selector),
        cmocka_unit_test(contradictions_match_nothing),
        cmocka_unit_test(no_limits_is_said_explicitly),
        cmocka_unit_test(references),
        cmocka_unit_test(another_generation),
        cmocka_unit_test(void_generations),
        cmocka_unit_test(little_beside_the_spec),
        cmocka_unit_test(without_texts_for_queries),
        cmocka_unit_test(what_multiplies_is_bounded),
        cmocka_unit_test(wide_limits_are_shared),
        cmocka_unit_test(names_of_namespaces_fit),
        cmocka_unit_test(bounds_are_included),
        cmocka_unit_test(errors_name_line_and_path),
        cmocka_unit_test(truncated_documents),
        cmocka_unit_test(hostile_overlaps),
        cmocka_unit_test(selector_at_its_bound),
        cmocka_unit_test(selector_longer_than_a_request),
        cmocka_unit_test(a_thousand_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
