/* SPDX-License-Identifier: Apache-2.0 */
#include "readiness/operator_check.h"

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
#include "label/labels.h"

static const struct discovery_resource resources[] = {
    {"", "v1", "Node", "nodes", false, true, UINT32_MAX, 0},
    {"", "v1", "Pod", "pods", true, true, UINT32_MAX, 0},
    {"", "v1", "Event", "events", true, true, UINT32_MAX, 0},
    {"authentication.k8s.io", "v1", "TokenReview", "tokenreviews", false, true, DISCOVERY_CREATE,
     0},
    {"example.com", "v1", "Widget", "widgets", true, true, UINT32_MAX, 0},
    {"example.com", "v1beta1", "Widget", "widgets", true, false, UINT32_MAX, 1},
};

static const struct sharding_resource labelled[] = {{"", "v1", "pods", "Pod"}};

/* A list for each, in short: "" is an empty one, NULL cannot be read. */
struct facts {
    struct operator_facts facts;
    cJSON *trees[OPERATOR_LISTS + 1];
    struct findings found;
    char *about;
};

/* ' stands for ". */
static cJSON *parse(const char *text)
{
    char copy[4096];
    assert_true(strlen(text) < sizeof copy);
    strcpy(copy, text);
    for (char *at = copy; *at != '\0'; at++) {
        *at = (char)(*at == '\'' ? '"' : *at);
    }
    cJSON *tree = cJSON_Parse(copy);
    assert_non_null(tree);
    return tree;
}

static void set(struct facts *f, enum operator_list list, const char *items)
{
    char text[4096];
    cJSON_Delete(f->trees[list]);
    (void)snprintf(text, sizeof text, "{'items':[%s]}", items);
    f->trees[list] = parse(text);
    f->facts.lists[list] = f->trees[list];
}

#define WORKLOAD(spec)                                                                             \
    "{'kind':'Deployment','metadata':{'name':'op','namespace':'demo'},'spec':{"                    \
    "'selector':{'matchLabels':{'app':'op'}},'template':{'metadata':{'labels':{'app':'op',"        \
    "'tier':'x'}},'spec':{'serviceAccountName':'op'," spec "}}}}"
#define CONTAINERS "'containers':[{'name':'manager','image':'op:1'}]"
#define POD(name, more)                                                                            \
    "{'metadata':{'name':'" name "','namespace':'demo','labels':{'app':'op'" more "}},"            \
    "'spec':{'containers':[{'volumeMounts':[{'mountPath':"                                         \
    "'/var/run/secrets/kubernetes.io/serviceaccount'}]}]}}"

static void set_workload(struct facts *f, const char *text)
{
    cJSON_Delete(f->trees[OPERATOR_LISTS]);
    f->trees[OPERATOR_LISTS] = parse(text);
    f->facts.workload = f->trees[OPERATOR_LISTS];
}

static int setup(void **state)
{
    struct facts *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->facts.prefix = LABELS_PREFIX;
    f->facts.resources = resources;
    f->facts.resource_count = ARRAY_LEN(resources);
    f->facts.labelled = labelled;
    f->facts.labelled_count = ARRAY_LEN(labelled);
    set_workload(f, WORKLOAD(CONTAINERS));
    for (unsigned i = 0; i < OPERATOR_LISTS; i++) {
        set(f, (enum operator_list)i, "");
    }
    set(f, OPERATOR_PODS, POD("op-1", "") "," POD("op-2", ""));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct facts *f = *state;
    for (unsigned i = 0; i <= OPERATOR_LISTS; i++) {
        cJSON_Delete(f->trees[i]);
    }
    findings_deinit(&f->found);
    free(f->about);
    free(f);
    return 0;
}

static void check(struct facts *f)
{
    struct err e = ERR_INIT;
    findings_deinit(&f->found);
    free(f->about);
    f->about = NULL;
    assert_int_equal(operator_check(&f->facts, &f->found, &f->about, &e), 0);
}

/* The one finding of that topic and level whose text has this part. */
static const struct finding *find(const struct facts *f, enum finding_level level,
                                  const char *topic, const char *part)
{
    const struct finding *found = NULL;
    for (size_t i = 0; i < f->found.count; i++) {
        const struct finding *one = &f->found.items[i];
        if (one->level == level && strcmp(one->topic, topic) == 0 &&
            strstr(one->text, part) != NULL) {
            assert_null(found);
            found = one;
        }
    }
    return found;
}

#define ASSERT_FOUND(f, level, topic, part) assert_non_null(find(f, level, topic, part))

static void test_a_workload_that_is_none(void **state)
{
    struct facts *f = *state;
    struct err e = ERR_INIT;
    set_workload(f, "{'kind':'Deployment','metadata':{'name':'op','namespace':'demo'}}");
    assert_int_equal(operator_check(&f->facts, &f->found, &f->about, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "spec.template.metadata.labels"));
    assert_null(f->about);
}

static void test_about(void **state)
{
    struct facts *f = *state;
    set(f, OPERATOR_PODS,
        POD("op-1", ",'ctrlmesh.kusionstack.io/sharding-config-injected':'a'") "," POD(
            "op-2", "") ","
                        "{'metadata':{'name':'other','namespace':'demo','labels':{'app':'x'}}},"
                        "{'metadata':{'name':'over','namespace':'demo','labels':{'app':'op'}},"
                        "'status':{'phase':'Failed'}}");
    check(f);
    assert_string_equal(f->about, "Deployment demo/op: 2 pods, 1 of them in the mesh");
}

static void test_what_cannot_be_read_is_told(void **state)
{
    struct facts *f = *state;
    f->facts.lists[OPERATOR_LEASES] = NULL;
    f->facts.errors[OPERATOR_LEASES] = "403 Forbidden";
    check(f);
    ASSERT_FOUND(f, FINDING_UNKNOWN, "Leases", "403 Forbidden");
}

static void test_injection(void **state)
{
    struct facts *f = *state;
    check(f);
    ASSERT_FOUND(f, FINDING_FINE, "injection", "");
    assert_int_equal(f->found.by_level[FINDING_BREAKS], 0);
    set_workload(f, WORKLOAD("'containers':[{'name':'m','image':'x',"
                             "'args':['--kubeconfig=/etc/kubeconfig']}]"));
    check(f);
    ASSERT_FOUND(f, FINDING_BREAKS, "injection", "/etc/kubeconfig");
    set(f, OPERATOR_PODS, "");
    set_workload(f, WORKLOAD(CONTAINERS ",'automountServiceAccountToken':false"));
    check(f);
    ASSERT_FOUND(f, FINDING_BREAKS, "injection", "spec.automountServiceAccountToken");
    set_workload(f, WORKLOAD(CONTAINERS));
    set(f, OPERATOR_PODS, "{'metadata':{'name':'op-1','namespace':'demo','labels':{'app':'op'}}}");
    check(f);
    ASSERT_FOUND(f, FINDING_LOOK, "injection", "none mounts a service account token");
    set(f, OPERATOR_PODS, "");
    /* Whatever the template says of it: this is about what would be. */
    set_workload(f,
                 "{'kind':'Deployment','metadata':{'name':'op','namespace':'demo'},'spec':{"
                 "'selector':{'matchLabels':{'app':'op'}},'template':{'metadata':{'labels':{"
                 "'app':'op','ctrlmesh.kusionstack.io/enable-proxy':'false'}},'spec':{" CONTAINERS
                 "}}}}");
    check(f);
    ASSERT_FOUND(f, FINDING_FINE, "injection", "");
}

static void test_leader_election(void **state)
{
    static const struct {
        const char *pods;
        const char *leases;
        const char *maps;
        enum finding_level level;
        const char *part;
        const char *remedy;
    } cases[] = {
        {POD("op-1", ""),
         "{'metadata':{'name':'l','namespace':'demo'},'spec':{'holderIdentity':'op-1_abc'}}", "",
         FINDING_FINE, "the lock l", "leaderElectionName: l in"},
        {POD("op-1", ""),
         "{'metadata':{'name':'l','namespace':'kube-system'},'spec':{'holderIdentity':'op-1'}}", "",
         FINDING_FINE, "in another namespace", "leaderElectionName: l in"},
        /* A shard's is one of the operator's. */
        {POD("op-1", ""),
         "{'metadata':{'name':'l---a','namespace':'demo'},'spec':{'holderIdentity':'op-1_x'}},"
         "{'metadata':{'name':'l---b','namespace':'demo'},'spec':{'holderIdentity':'op-1_y'}}",
         "", FINDING_FINE, "the lock l", "leaderElectionName: l in"},
        {POD("op-1", ""), "",
         "{'metadata':{'name':'old','namespace':'demo','annotations':{"
         "'control-plane.alpha.kubernetes.io/leader':'{\\'holderIdentity\\':\\'op-1_x\\'}'}}}",
         FINDING_FINE, "the lock old", "leaderElectionName: old in"},
        {POD("op-1", ""),
         "{'metadata':{'name':'l','namespace':'demo'},'spec':{'holderIdentity':'op-1_x'}},"
         "{'metadata':{'name':'m','namespace':'demo'},'spec':{'holderIdentity':'op-1_y'}}",
         "", FINDING_LOOK, "l, m", "find out"},
        /* By which localproxy tells what it enforces. */
        {POD("op-1", ""),
         "{'metadata':{'name':'cmesh-op-1','namespace':'demo','annotations':{"
         "'cmesh.kusionstack.io/status':'{}'}},'spec':{'holderIdentity':'op-1'}},"
         "{'metadata':{'name':'l---a','namespace':'demo'},'spec':{'holderIdentity':'op-1_x'}},"
         "{'metadata':{'name':'m---a','namespace':'demo'},'spec':{'holderIdentity':'op-1_x'}},"
         "{'metadata':{'name':'l---b','namespace':'demo'},'spec':{'holderIdentity':'op-1_y'}}",
         "", FINDING_LOOK, "locks: l, m", "find out"},
        /* Another pod's, whose name begins so. */
        {POD("op-1", ""),
         "{'metadata':{'name':'l','namespace':'demo'},'spec':{'holderIdentity':'op-10_x'}}", "",
         FINDING_LOOK, "holds no lock", "one pod"},
        /* cert-manager's identities. */
        {POD("op-1", ""),
         "{'metadata':{'name':'l','namespace':'kube-system'},"
         "'spec':{'holderIdentity':'op-1-external-cert-manager-controller'}}",
         "", FINDING_FINE, "the lock l, in another namespace", "leaderElectionName: l in"},
        /* Of a pod that is another operator's. */
        {POD("op-1", "") ",{'metadata':{'name':'op-1-abc','namespace':'demo'}}",
         "{'metadata':{'name':'l','namespace':'demo'},'spec':{'holderIdentity':'op-1-abc_x'}}", "",
         FINDING_LOOK, "holds no lock", "one pod"},
        {POD("op-1", "") "," POD("op-2", ""), "", "", FINDING_LOOK, "none of its 2 pods",
         "one pod"},
        {"", "", "", FINDING_UNKNOWN, "cannot be seen", "look again"},
    };
    struct facts *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        set(f, OPERATOR_PODS, cases[i].pods);
        set(f, OPERATOR_LEASES, cases[i].leases);
        set(f, OPERATOR_CONFIG_MAPS, cases[i].maps);
        check(f);
        const struct finding *one = find(f, cases[i].level, "leader election", cases[i].part);
        assert_non_null(one);
        assert_non_null(strstr(one->remedy, cases[i].remedy));
    }
}

/* Whose name is the host's, which is the node's. */
static void test_election_on_the_network_of_nodes(void **state)
{
    struct facts *f = *state;
    set_workload(f, WORKLOAD(CONTAINERS ",'hostNetwork':true"));
    check(f);
    ASSERT_FOUND(f, FINDING_UNKNOWN, "leader election", "names a node");
    assert_null(find(f, FINDING_LOOK, "leader election", ""));
}

#define BINDING(kind, role, subject)                                                               \
    "{'metadata':{'name':'b','namespace':'demo'},'roleRef':{'kind':'" kind "','name':'" role       \
    "'},'subjects':[" subject "]}"
#define ACCOUNT "{'kind':'ServiceAccount','name':'op','namespace':'demo'}"
#define ROLE(name, ns, rules) "{'metadata':{'name':'" name "'" ns "},'rules':[" rules "]}"

static void test_rights(void **state)
{
    struct facts *f = *state;
    set(f, OPERATOR_CLUSTER_ROLES,
        ROLE("r", "",
             "{'apiGroups':[''],'resources':['nodes','pods','events'],'verbs':['*']},"
             "{'apiGroups':['example.com'],'resources':['*'],'verbs':['list','update']},"
             "{'apiGroups':['*'],'resources':['tokenreviews'],'verbs':['create']}"));
    set(f, OPERATOR_CLUSTER_ROLE_BINDINGS, BINDING("ClusterRole", "r", ACCOUNT));
    check(f);
    ASSERT_FOUND(f, FINDING_LOOK, "cluster-scoped objects", "it may write nodes");
    ASSERT_FOUND(f, FINDING_LOOK, "control labels", "it may list widgets.example.com,");
    ASSERT_FOUND(f, FINDING_FINE, "control labels", "it may list pods,");
    assert_null(find(f, FINDING_LOOK, "cluster-scoped objects", "tokenreviews"));
}

/* Parts that a write changes the object by; the others are questions, or marks. */
static void test_rights_to_subresources(void **state)
{
    static const struct {
        const char *resource;
        bool writes;
    } cases[] = {
        {"nodes/status", true},     {"nodes/approval", true},    {"nodes/finalize", true},
        {"nodes/scale", true},      {"*/status", true},          {"nodes/*", true},
        {"nodes/proxy", false},     {"nodes/finalizers", false}, {"nodes/statuses", false},
        {"nodesome/status", false}, {"nodes/", false},           {"/status", false},
    };
    struct facts *f = *state;
    set(f, OPERATOR_CLUSTER_ROLE_BINDINGS, BINDING("ClusterRole", "r", ACCOUNT));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            ROLE("r", "", "{'apiGroups':[''],'resources':['pods/status','%s'],'verbs':['*']}"),
            cases[i].resource);
        set(f, OPERATOR_CLUSTER_ROLES, text);
        check(f);
        assert_int_equal(find(f, FINDING_LOOK, "cluster-scoped objects", "nodes") != NULL,
                         cases[i].writes);
        assert_null(find(f, FINDING_FINE, "control labels", "pods")); /* it may read none */
    }
}

static void test_whose_rights(void **state)
{
    static const struct {
        const char *subject;
        bool bound;
    } cases[] = {
        {ACCOUNT, true},
        {"{'kind':'Group','name':'system:serviceaccounts'}", true},
        {"{'kind':'Group','name':'system:serviceaccounts:demo'}", true},
        {"{'kind':'Group','name':'system:serviceaccounts:other'}", false},
        {"{'kind':'Group','name':'system:authenticated'}", false},
        {"{'kind':'ServiceAccount','name':'op','namespace':'other'}", false},
        {"{'kind':'ServiceAccount','name':'default','namespace':'demo'}", false},
        {"{'kind':'User','name':'op'}", false},
    };
    struct facts *f = *state;
    char text[512];
    set(f, OPERATOR_CLUSTER_ROLES,
        ROLE("r", "", "{'apiGroups':[''],'resources':['nodes'],'verbs':['patch']}"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)snprintf(text, sizeof text, BINDING("ClusterRole", "r", "%s"), cases[i].subject);
        set(f, OPERATOR_CLUSTER_ROLE_BINDINGS, text);
        check(f);
        assert_int_equal(find(f, FINDING_LOOK, "cluster-scoped objects", "nodes") != NULL,
                         cases[i].bound);
        assert_int_equal(find(f, FINDING_UNKNOWN, "what it reads and writes", "no role") != NULL,
                         !cases[i].bound);
    }
}

/* A Role, or a ClusterRole that is bound in a namespace, says nothing of the cluster's objects. */
static void test_rights_in_a_namespace(void **state)
{
    struct facts *f = *state;
    static const char rules[] = "{'apiGroups':[''],'resources':['nodes','pods'],'verbs':['*']}";
    char text[512];
    (void)snprintf(text, sizeof text, ROLE("r", ",'namespace':'demo'", "%s"), rules);
    set(f, OPERATOR_ROLES, text);
    (void)snprintf(text, sizeof text, ROLE("c", "", "%s"), rules);
    set(f, OPERATOR_CLUSTER_ROLES, text);
    for (int i = 0; i < 2; i++) {
        set(f, OPERATOR_ROLE_BINDINGS,
            i == 0 ? BINDING("Role", "r", ACCOUNT) : BINDING("ClusterRole", "c", ACCOUNT));
        check(f);
        assert_null(find(f, FINDING_LOOK, "cluster-scoped objects", ""));
        ASSERT_FOUND(f, FINDING_FINE, "control labels", "pods");
    }
    set(f, OPERATOR_ROLE_BINDINGS, BINDING("Role", "other", ACCOUNT));
    check(f);
    assert_null(find(f, FINDING_FINE, "control labels", "pods"));
}

static void test_all_rights(void **state)
{
    struct facts *f = *state;
    set(f, OPERATOR_CLUSTER_ROLES,
        ROLE("r", "", "{'apiGroups':['*'],'resources':['*'],'verbs':['*']}"));
    set(f, OPERATOR_CLUSTER_ROLE_BINDINGS, BINDING("ClusterRole", "r", ACCOUNT));
    check(f);
    ASSERT_FOUND(f, FINDING_UNKNOWN, "what it reads and writes", "more than its roles name");
    assert_null(find(f, FINDING_LOOK, "cluster-scoped objects", ""));
}

#define SERVICE(name, selector)                                                                    \
    "{'metadata':{'name':'" name "','namespace':'demo'},'spec':{'selector':" selector "}}"
#define HOOK(service, ns) HOOK_OF("'name':'c'", service, ns)
#define HOOK_OF(metadata, service, ns)                                                             \
    "{'metadata':{" metadata "},'webhooks':[{'name':'w.example.com','clientConfig':{'service':{"   \
    "'name':'" service "','namespace':'" ns "'}}},{'name':'url','clientConfig':{'url':'x'}}]}"

static void test_webhooks(void **state)
{
    static const struct {
        const char *service;
        const char *hook;
        bool leads;
    } cases[] = {
        {SERVICE("s", "{'app':'op'}"), HOOK("s", "demo"), true},
        {SERVICE("s", "{'app':'op','tier':'x'}"), HOOK("s", "demo"), true},
        {SERVICE("s", "{'app':'op','tier':'y'}"), HOOK("s", "demo"), false},
        {SERVICE("s", "{}"), HOOK("s", "demo"), false},
        {SERVICE("s", "null"), HOOK("s", "demo"), false},
        {SERVICE("s", "{'app':'op'}"), HOOK("s", "other"), false},
        {SERVICE("s", "{'app':'op'}"), HOOK("t", "demo"), false},
    };
    struct facts *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        set(f, OPERATOR_SERVICES, cases[i].service);
        set(f, OPERATOR_MUTATING_WEBHOOKS, i % 2 == 0 ? cases[i].hook : "");
        set(f, OPERATOR_VALIDATING_WEBHOOKS, i % 2 == 1 ? cases[i].hook : "");
        check(f);
        assert_int_equal(find(f, FINDING_LOOK, "webhooks", "w.example.com:") != NULL,
                         cases[i].leads);
    }
    set(f, OPERATOR_SERVICES, SERVICE("s", "{'app':'op'}"));
    set(f, OPERATOR_MUTATING_WEBHOOKS,
        HOOK_OF("'name':'c','labels':{'ctrlmesh.kusionstack.io/route':'true'}", "s", "demo"));
    set(f, OPERATOR_VALIDATING_WEBHOOKS, HOOK_OF("'name':'cmesh-routes'", "s", "demo"));
    check(f);
    assert_null(find(f, FINDING_LOOK, "webhooks", "w.example.com:"));
    ASSERT_FOUND(f, FINDING_FINE, "webhooks", "w.example.com: a review comes to the shard");
    set(f, OPERATOR_DEFINITIONS,
        "{'metadata':{'name':'widgets.example.com'},'spec':{'conversion':{'webhook':{"
        "'clientConfig':{'service':{'name':'s','namespace':'demo'}}}}}}");
    check(f);
    ASSERT_FOUND(f, FINDING_FINE, "webhooks", "converts widgets.example.com,");
}

static void test_what_it_asks_for(void **state)
{
    static const char one[] =
        "# HELP cmesh_proxy_resource_requests_total x\n"
        "cmesh_proxy_resource_requests_total{verb=\"patch\",scope=\"all\",group=\"\","
        "resource=\"nodes/status\"} 3\n"
        "cmesh_proxy_resource_requests_total{verb=\"list\",scope=\"all\",group=\"example.com\","
        "resource=\"widgets\"} 1\n"
        "cmesh_proxy_other_total{verb=\"list\",group=\"\",resource=\"pods\"} 9\n"
        "cmesh_proxy_resource_requests_total{verb=\"\",scope=\"\",group=\"\",resource=\"\"} 2\n";
    static const char other[] =
        "cmesh_proxy_resource_requests_total{verb=\"watch\",scope=\"namespace\",group=\"\","
        "resource=\"pods\"} 4\n"
        "cmesh_proxy_resource_requests_total{verb=\"patch\",scope=\"namespace\",group=\"\","
        "resource=\"pods\"} 4\n";
    struct facts *f = *state;
    struct requests_seen *seen = &f->facts.seen;
    requests_seen_add(seen, slice_str(one));
    requests_seen_add(seen, slice_str(other));
    check(f);
    ASSERT_FOUND(f, FINDING_FINE, "test drive", "14 requests of 2 pods");
    ASSERT_FOUND(f, FINDING_LOOK, "cluster-scoped objects", "it writes nodes");
    ASSERT_FOUND(f, FINDING_LOOK, "control labels", "it lists widgets.example.com,");
    ASSERT_FOUND(f, FINDING_FINE, "control labels", "it lists pods,");
    requests_seen_deinit(seen);
    check(f);
    assert_null(find(f, FINDING_FINE, "test drive", ""));
    f->facts.seen_error = "the API server answers 503";
    check(f);
    ASSERT_FOUND(f, FINDING_UNKNOWN, "test drive", "answers 503");
}

/* What its localproxies are asked is read of its own pods in the mesh alone. */
static void test_pods_in_the_mesh(void **state)
{
    static const struct {
        const char *pod;
        bool in;
    } cases[] = {
        {POD("a", ",'ctrlmesh.kusionstack.io/sharding-config-injected':'s'"), true},
        {POD("a", ""), false},
        {"{'metadata':{'name':'a','labels':{'app':'x',"
         "'ctrlmesh.kusionstack.io/sharding-config-injected':'s'}}}",
         false},
        {"{'metadata':{'name':'a','labels':{'app':'op',"
         "'ctrlmesh.kusionstack.io/sharding-config-injected':'s'}},'status':{'phase':'Failed'}}",
         false},
    };
    struct facts *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *pod = parse(cases[i].pod);
        assert_int_equal(operator_pod_in_mesh(&f->facts, pod), cases[i].in);
        cJSON_Delete(pod);
    }
}

static void test_many_names(void **state)
{
    struct facts *f = *state;
    struct discovery_resource many[12];
    char names[12][8];
    for (unsigned i = 0; i < ARRAY_LEN(many); i++) {
        (void)snprintf(names[i], sizeof names[i], "t%u", i);
        many[i] = (struct discovery_resource){"g", "v1", "T", names[i], false, true, UINT32_MAX, 0};
    }
    f->facts.resources = many;
    f->facts.resource_count = ARRAY_LEN(many);
    set(f, OPERATOR_CLUSTER_ROLES,
        ROLE("r", "", "{'apiGroups':['g'],'resources':['*'],'verbs':['*']}"));
    set(f, OPERATOR_CLUSTER_ROLE_BINDINGS, BINDING("ClusterRole", "r", ACCOUNT));
    check(f);
    ASSERT_FOUND(f, FINDING_LOOK, "cluster-scoped objects", "t0.g, t1.g, ");
    ASSERT_FOUND(f, FINDING_LOOK, "cluster-scoped objects", "t7.g and 4 more");
}

static void test_the_report(void **state)
{
    struct findings found = {.items = NULL};
    struct buf out = BUF_INIT(4096);
    (void)state;
    findings_add(&found, FINDING_FINE, "a", NULL, "all of it");
    findings_add(&found, FINDING_BREAKS, "b", "do %s", "this %d", 5);
    findings_write_text(&found, "Deployment x", &out);
    assert_string_equal(buf_cstr(&out), "Deployment x\n\n"
                                        "breaks   b: this 5\n"
                                        "         -> do %s\n"
                                        "fine     a: all of it\n"
                                        "\n1 would break, 0 to look at, 0 unknown, 1 fine\n");
    buf_reset(&out);
    findings_write_json(&found, "Deployment x", &out);
    cJSON *document = cJSON_Parse(buf_cstr(&out));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(document, "findings")), 2);
    assert_string_equal(cJSON_GetObjectItem(document, "operator")->valuestring, "Deployment x");
    cJSON_Delete(document);
    buf_reset(&out);
    findings_deinit(&found);
}

/* What others have written can neither add a line nor reach the terminal. */
static void test_control_characters(void **state)
{
    struct facts *f = *state;
    struct buf out = BUF_INIT(65536);
    set_workload(f, WORKLOAD("'containers':[{'name':'manager','image':'op:1','args':["
                             "'--kubeconfig=/x\\u001b]0;y\\u0007\\nfine     all: of it']}]"));
    check(f);
    findings_write_text(&f->found, "Deployment x\x1b[2J\xc2\x9b", &out);
    const char *text = buf_cstr(&out);
    assert_non_null(strstr(text, "its kubeconfig"));
    assert_null(strstr(text, "\nfine     all"));
    for (const char *at = text; *at != '\0'; at++) {
        assert_true(*at == '\n' || ((unsigned char)*at >= ' ' && *at != 0x7f));
    }
    assert_null(strstr(text, "\xc2\x9b"));
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_workload_that_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_about, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_read_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_injection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leader_election, setup, teardown),
        cmocka_unit_test_setup_teardown(test_election_on_the_network_of_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rights_to_subresources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whose_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rights_in_a_namespace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_webhooks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_it_asks_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pods_in_the_mesh, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control_characters, setup, teardown),
        cmocka_unit_test(test_the_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
