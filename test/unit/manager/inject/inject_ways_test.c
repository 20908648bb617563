/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which operators are led: the service account's folder, names, and nat. */
#include "inject/inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "inject/inject_alias.h"
#include "pod_case.h"

#define FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"
#define MOUNTED_AT ("spec.containers.op.volumeMounts.cmesh-service-account.mountPath=" FOLDER)
#define TOKEN_MOUNTED_AT ("spec.containers.cmesh-localproxy.volumeMounts.mine.mountPath=" FOLDER)
#define ACCOUNT_VARIABLE "spec.initContainers.cmesh-kubeconfig.env.CMESH_SERVICE_ACCOUNT.value"
#define MADE_AT (ACCOUNT_VARIABLE "=/etc/cmesh/service-account")

/* With all that an installation may have. */
static struct inject_settings full_settings(bool native)
{
    struct inject_settings s = settings_of(native);
    s.prefix = "m.io";
    s.nat_image = "registry.example.com/cmesh/nat:1.0";
    s.low_ports = true;
    return s;
}

struct pod_wanted {
    const char *annotations;
    const char *labels;
    const char *spec;
    const char *want[12];
};

static void expect_all(const struct inject_settings *s, const struct pod_wanted *c)
{
    cJSON *pod = pod_of(c->annotations, c->labels, c->spec);
    cJSON *made = inject(s, pod, NULL);
    for (size_t j = 0; j < ARRAY_LEN(c->want) && c->want[j] != NULL; j++) {
        expect(made, c->want[j]);
    }
    assert_null(inject(s, made, NULL));
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void the_folder(void **state)
{
    (void)state;
    static const struct pod_wanted cases[] = {
        /* By whatever name it was mounted; variables come before those that refer to them. */
        {"",
         "",
         "containers: [{name: op, command: [/op], env: [{name: U, value: "
         "'$(KUBERNETES_SERVICE_HOST)'}, {name: KUBERNETES_SERVICE_PORT, value: '6443'}], "
         "volumeMounts: [{name: sa, mountPath: /run/secrets//kubernetes.io/serviceaccount/}, "
         "{name: x, mountPath: /x}]}]",
         {"spec.containers.op.env.0.name=KUBERNETES_SERVICE_HOST",
          "spec.containers.op.env.0.value=127.0.0.1",
          "spec.containers.op.env.KUBERNETES_SERVICE_PORT.value=5446",
          "spec.containers.op.env.3.name=U", "!spec.containers.op.volumeMounts.sa", MOUNTED_AT,
          "spec.containers.op.volumeMounts.cmesh-service-account.readOnly=true",
          "spec.containers.op.volumeMounts.x"}},
        {"",
         "",
         "containers: [" OPERATOR "]",
         {MADE_AT, "spec.initContainers.cmesh-kubeconfig.env.CMESH_NAMESPACE.value=operator-demo",
          "spec.initContainers.cmesh-kubeconfig.env.CMESH_LOCAL_TLS.value=/run/cmesh",
          "!spec.initContainers.cmesh-kubeconfig.volumeMounts.cmesh-service-account.readOnly",
          "spec.containers.cmesh-localproxy.env.CMESH_LISTEN_TLS.value=localhost:5446",
          "spec.containers.cmesh-localproxy.env.CMESH_LOCAL_TLS.value=/run/cmesh",
          "spec.containers.cmesh-localproxy.ports.cmesh-tls.containerPort=5446",
          "spec.volumes.cmesh-service-account.emptyDir.medium=Memory"}},
        {"m.io/operator-containers: a",
         "",
         "containers: [{name: a, command: [a]}, {name: b, command: [b]}]",
         {"spec.containers.a.volumeMounts.cmesh-service-account", "!spec.containers.b.volumeMounts",
          "!spec.containers.b.env"}},
        {"m.io/service-account-path: /tokens",
         "",
         "containers: [{name: op, command: [/op], volumeMounts: [{name: mine, mountPath: "
         "/tokens/}]}]",
         {"!spec.containers.op.volumeMounts.mine",
          "spec.containers.op.volumeMounts.1.name="
          "cmesh-service-account",
          "spec.containers.op.volumeMounts.2.mountPath=/tokens", TOKEN_MOUNTED_AT}},
        /* localproxy has what the operator had, by the name that all know. */
        {"",
         "",
         "automountServiceAccountToken: false, containers: [{name: op, command: [/op], "
         "volumeMounts: [{name: mine, mountPath: /run/secrets/kubernetes.io/serviceaccount/}]}]",
         {"!spec.containers.op.volumeMounts.mine", MOUNTED_AT, TOKEN_MOUNTED_AT}},
        /* Other ports are the operator's. */
        {"",
         "",
         "containers: [{name: op, command: [/op], ports: [{containerPort: 443}]}]",
         {MOUNTED_AT, "spec.containers.cmesh-localproxy.env.CMESH_WATCH_BYPASS.value=true"}},
        /* What keeps running beside it may have reasons of its own. */
        {"",
         "",
         "containers: [" OPERATOR "], initContainers: [{name: n, restartPolicy: Always}]",
         {MOUNTED_AT, "!spec.containers.cmesh-localproxy.env.CMESH_WATCH_BYPASS"}},
        {"",
         "m.io/keep-service-account: 'true'",
         "containers: [{name: op, args: [-v], volumeMounts: [{name: sa, mountPath: "
         "/var/run/secrets/kubernetes.io/serviceaccount}]}]",
         {"spec.containers.op.volumeMounts.sa",
          "spec.containers.op.args.1=--kubeconfig=/etc/cmesh/kubeconfig/config",
          "!spec.containers.op.env.KUBERNETES_SERVICE_HOST",
          "!spec.containers.op.volumeMounts.cmesh-service-account",
          "!spec.containers.cmesh-localproxy.env.CMESH_LISTEN_TLS",
          "spec.initContainers.cmesh-kubeconfig.env.CMESH_LOCAL_TLS.value=/run/cmesh",
          "spec.containers.cmesh-localproxy.env.CMESH_LOCAL_TLS.value=/run/cmesh",
          "!spec.initContainers.cmesh-kubeconfig.env.CMESH_SERVICE_ACCOUNT",
          "!spec.volumes.cmesh-service-account",
          "!spec.containers.cmesh-localproxy.ports.cmesh-tls"}},
        {"m.io/keep-service-account: 'true'",
         "",
         "containers: [{name: op, command: [/op], ports: [{containerPort: 5446}], volumeMounts: "
         "[{name: x, mountPath: /a/..b/c}]}]",
         {"spec.containers.op.ports.0.containerPort=5446"}},
        /* A kubeconfig of its own may be of another cluster. */
        {"",
         "",
         "containers: [{name: op, command: [/op, --kubeconfig=/k/c], volumeMounts: [{name: k, "
         "mountPath: /k}, {name: sa, mountPath: " FOLDER "}]}]",
         {"spec.containers.op.volumeMounts.sa", "!spec.containers.op.env.KUBERNETES_SERVICE_HOST",
          "spec.containers.op.command.1=--kubeconfig=/etc/cmesh/kubeconfig/config",
          "!spec.containers.cmesh-localproxy.env.CMESH_LISTEN_TLS"}},
        {"m.io/keep-service-account: 'false'",
         "",
         "containers: [{name: op, command: [/op, --kubeconfig=/k/c], volumeMounts: [{name: k, "
         "mountPath: /k}, {name: sa, mountPath: " FOLDER "}]}]",
         {"!spec.containers.op.volumeMounts.sa", MOUNTED_AT,
          "spec.containers.op.env.KUBERNETES_SERVICE_HOST.value=127.0.0.1",
          "spec.containers.op.command.1=--kubeconfig=/etc/cmesh/kubeconfig/config"}},
    };
    struct inject_settings s = full_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_all(&s, &cases[i]);
    }
}

static void the_folder_that_is_kept_by_all(void **state)
{
    (void)state;
    static const struct pod_wanted cases[] = {
        {"", "", "containers: [" OPERATOR "]", {"!spec.containers.op.volumeMounts.1"}},
        {"m.io/keep-service-account: 'false'", "", "containers: [" OPERATOR "]", {MOUNTED_AT}},
        {"m.io/keep-service-account: ''",
         "",
         "containers: [" OPERATOR "]",
         {"!spec.containers.op.volumeMounts.1"}},
        {"", "m.io/enable-iptables: 'true'", "containers: [" OPERATOR "]", {MOUNTED_AT}},
        {"m.io/lead-by-name: 'true'", "", "containers: [" OPERATOR "]", {MOUNTED_AT}},
    };
    struct inject_settings s = full_settings(false);
    s.keep_account = true;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_all(&s, &cases[i]);
    }
}

/* An operator that is led by nat, or by name, has the folder too; with nat its variables stay, for
 * what it connects to is the API server. */
static void nat(void **state)
{
    (void)state;
    static const struct pod_wanted cases[] = {
        {"",
         "m.io/enable-iptables: 'true'",
         "containers: [" OPERATOR "], initContainers: [{name: own}]",
         {"spec.initContainers.0.name=own",
          ("spec.initContainers.cmesh-nat.image=registry.example."
           "com/cmesh/nat:1.0"),
          "spec.initContainers.cmesh-nat.args.0=--except-user=5443",
          "spec.initContainers.cmesh-nat.args.1=--to-port=5446",
          "spec.initContainers.cmesh-nat.securityContext.runAsUser=0",
          "spec.initContainers.cmesh-nat.securityContext.capabilities.drop.0=ALL",
          "spec.initContainers.cmesh-nat.securityContext.capabilities.add.0=NET_ADMIN",
          "!spec.initContainers.cmesh-nat.securityContext.capabilities.add.1",
          "spec.initContainers.cmesh-nat.securityContext.privileged=false", MOUNTED_AT,
          "!spec.containers.op.env.KUBERNETES_SERVICE_HOST"}},
        {"",
         "m.io/enable-iptables: 'true'",
         "containers: [" OPERATOR "]",
         {"spec.initContainers.cmesh-nat.securityContext.allowPrivilegeEscalation=false",
          ("spec.initContainers.cmesh-nat.volumeMounts.cmesh-service-account.mountPath=" FOLDER),
          "spec.initContainers.cmesh-nat.securityContext.readOnlyRootFilesystem=true",
          "spec.containers.cmesh-localproxy.env.CMESH_LISTEN_TLS.value=localhost:5446",
          "spec.containers.cmesh-localproxy.securityContext.runAsUser=5443",
          "!spec.containers.cmesh-localproxy.securityContext.capabilities.add",
          "!spec.initContainers.cmesh-rules.securityContext.capabilities.add"}},
        /* Where the API server is that the operator was told of. */
        {"",
         "m.io/enable-iptables: 'true'",
         "containers: [{name: op, command: [/op], env: [{name: KUBERNETES_SERVICE_HOST, value: "
         "10.9.8.7}]}]",
         {"spec.initContainers.cmesh-nat.env.KUBERNETES_SERVICE_HOST.value=10.9.8.7",
          "spec.containers.op.env.KUBERNETES_SERVICE_HOST.value=10.9.8.7"}},
        {"",
         "m.io/enable-iptables: 'false'",
         "containers: [" OPERATOR "], hostNetwork: true",
         {"spec.initContainers.cmesh-rules", "!spec.initContainers.cmesh-nat"}},
    };
    struct inject_settings s = full_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_all(&s, &cases[i]);
    }
}

static void names(void **state)
{
    (void)state;
    static const struct pod_wanted cases[] = {
        {"m.io/lead-by-name: 'true'",
         "",
         "containers: [" OPERATOR "], hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]",
         {"spec.hostAliases.0.ip=10.0.0.1", "spec.hostAliases.1.ip=127.0.0.1",
          "spec.hostAliases.1.hostnames.0=kubernetes",
          "spec.hostAliases.1.hostnames.1=kubernetes.default",
          "spec.hostAliases.1.hostnames.2=kubernetes.default.svc",
          "spec.hostAliases.1.hostnames.3=kubernetes.default.svc.example.test",
          "!spec.hostAliases.1.hostnames.4",
          "spec.securityContext.sysctls.0.name=net.ipv4.ip_unprivileged_port_start",
          ("spec.containers.cmesh-localproxy.env.CMESH_LISTEN_TLS.value=localhost:5446,localhost:"
           "443"),
          "!spec.containers.cmesh-localproxy.securityContext.capabilities.add"}},
        {"m.io/lead-by-name: 'true'",
         "",
         "containers: [" OPERATOR "], securityContext: {runAsUser: 7, sysctls: [{name: "
         "net.ipv4.ip_unprivileged_port_start, value: '80'}]}",
         {"spec.securityContext.runAsUser=7", "spec.securityContext.sysctls.0.value=80",
          "!spec.securityContext.sysctls.1"}},
        {"m.io/lead-by-name: 'false'",
         "",
         "containers: [" OPERATOR "]",
         {"!spec.hostAliases", "!spec.securityContext",
          "spec.containers.cmesh-localproxy.env.CMESH_LISTEN_TLS.value=localhost:5446"}},
    };
    struct inject_settings s = full_settings(false);
    s.cluster_domain = "example.test";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_all(&s, &cases[i]);
    }
    assert_true(inject_alias_possible("1", "22"));
    assert_true(inject_alias_possible("1", "22+"));
    assert_false(inject_alias_possible("1", "21"));
}

/* ---- what cannot be ---- */

enum without { NOTHING, NAT_IMAGE, LOW_PORTS, USER, CAPABILITIES };

/* Nothing to say of pods whose containers are all led, or that have tokens for others. */
static void what_is_not_noted(void **state)
{
    (void)state;
    static const struct {
        const char *annotations;
        const char *spec;
    } cases[] = {
        {"m.io/enable-iptables: 'true', m.io/lead-by-name: 'true'",
         "containers: [" OPERATOR ", {name: b}]"},
        {"",
         "containers: [{name: op, command: [/op], volumeMounts: [{name: t, mountPath: /t}]}], "
         "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: token, audience: "
         "vault}}]}}]"},
    };
    struct inject_settings s = full_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *pod = pod_of(cases[i].annotations, "", cases[i].spec);
        struct warnings notes = WARNINGS_INIT;
        cJSON_Delete(inject(&s, pod, &notes));
        assert_int_equal(notes.count, 1); /* that of the token that is mounted nowhere */
        assert_non_null(strstr(notes.items[0], "none mounts a service account token"));
        warnings_deinit(&notes);
        cJSON_Delete(pod);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
#define NAT "m.io/enable-iptables: 'true'"
#define NAT_INVALID "metadata.labels[m.io/enable-iptables]: Invalid value: \"true\": "
#define BY_NAME "m.io/lead-by-name: 'true'"
#define BY_NAME_INVALID "metadata.annotations[m.io/lead-by-name]: Invalid value: \"true\": "
#define OWN_KUBECONFIG                                                                             \
    "containers: [{name: op, command: [/op, --kubeconfig=/k/c], volumeMounts: [{name: k, "         \
    "mountPath: /k}]}]"
    static const struct {
        enum without without;
        const char *annotations;
        const char *spec;
        const char *want;
    } cases[] = {
        {NOTHING, "",
         "containers: [{name: op, volumeMounts: [{name: t, mountPath: " FOLDER "/x}]}]",
         "spec.containers[op].volumeMounts: Invalid value: \"" FOLDER "/x\": is in the folder of"},
        {NOTHING, "", "containers: [" OPERATOR "], volumes: [{name: cmesh-service-account}]",
         "spec: \"cmesh-service-account\" is the name of something that is injected"},
        {NOTHING, "", "containers: [{name: op, ports: [{containerPort: 5446}]}]",
         "spec.containers[0].ports[0].containerPort: Invalid value: 5446: is a port of the side"},
        {NOTHING, BY_NAME, "containers: [{name: op, ports: [{containerPort: 443}]}]",
         "spec.containers[0].ports[0].containerPort: Invalid value: 443: is a port of the side"},
        {NOTHING, "",
         "containers: [{name: op, volumeMounts: [{name: t, mountPath: /var/run/x/../secrets}]}]",
         "spec.containers[op].volumeMounts: Invalid value: \"/var/run/x/../secrets\": must not"},
        {NOTHING, "m.io/log-path: /run/secrets/kubernetes.io/serviceaccount/logs",
         "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/log-path]: Invalid value: is where the service account is"},
        {NOTHING, "m.io/log-path: /t/logs, m.io/service-account-path: /t",
         "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/log-path]: Invalid value: is where the service account is"},
        {NOTHING,
         "m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"KUBERNETES_SERVICE_HOST\","
         "\"value\":\"x\"}]}]'",
         "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/env-inject]: Invalid value: where the API server is must"},
        {NOTHING, NAT, "containers: [" OPERATOR ", {name: istio-proxy}]",
         NAT_INVALID "the pod has a container of another service mesh"},
        {NOTHING, NAT, "containers: [" OPERATOR "], initContainers: [{name: linkerd-init}]",
         NAT_INVALID "the pod has a container of another service mesh"},
        {NOTHING, "m.io/service-account-path: tokens", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/service-account-path]: Invalid value: must be an absolute"},
        {NOTHING, "m.io/service-account-path: /etc/cmesh/x", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/service-account-path]: Invalid value: is a folder of the"},
        {NOTHING, "m.io/keep-service-account: 'yes'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/keep-service-account]: Invalid value: must be \"true\" or"},
        {NOTHING, NAT, "containers: [" OPERATOR "], hostNetwork: true",
         NAT_INVALID "on the host's network it would redirect the connections of the node"},
        {CAPABILITIES, NAT, "containers: [" OPERATOR "]",
         NAT_INVALID "the namespace's label pod-security.kubernetes.io/enforce keeps the "
                     "capability NET_ADMIN from its pods; without the label enable-iptables"},
        {NAT_IMAGE, NAT, "containers: [" OPERATOR "]",
         NAT_INVALID "the manager was started without --nat-image"},
        {USER, NAT, "containers: [" OPERATOR "]", NAT_INVALID "with --sidecar-user=0"},
        {NOTHING, NAT ", m.io/keep-service-account: 'true'", "containers: [" OPERATOR "]",
         NAT_INVALID "an operator that keeps the pod's service account"},
        {NOTHING, NAT, OWN_KUBECONFIG, NAT_INVALID "an operator that keeps the pod's service"},
        {NOTHING, NAT, "containers: [{name: op, securityContext: {runAsUser: 5443}}]",
         "spec.containers[op].securityContext.runAsUser: Invalid value: 5443: is the user of the "
         "sidecars, whose connections enable-iptables does not redirect"},
        {NOTHING, NAT, "containers: [" OPERATOR "], securityContext: {runAsUser: 5443}",
         "spec.containers[op].securityContext.runAsUser: Invalid value: 5443"},
        {NOTHING, NAT, "containers: [" OPERATOR "], initContainers: [{name: cmesh-nat}]",
         "spec: \"cmesh-nat\" is the name of something that is injected"},
        {NOTHING, BY_NAME, "containers: [" OPERATOR "], hostNetwork: true",
         BY_NAME_INVALID "the pod is on the host's network, where port 443 is the node's"},
        {LOW_PORTS, BY_NAME, "containers: [" OPERATOR "]", BY_NAME_INVALID "this needs the sysctl"},
        {NOTHING, BY_NAME, OWN_KUBECONFIG, BY_NAME_INVALID "an operator that keeps the pod's"},
        {NOTHING, BY_NAME,
         "containers: [" OPERATOR
         "], hostAliases: [{ip: 10.0.0.1, hostnames: [kubernetes.default]}]",
         BY_NAME_INVALID "spec.hostAliases has one of the API server's names already"},
        {NOTHING, BY_NAME,
         "containers: [{name: op, env: [{name: KUBERNETES_SERVICE_HOST, value: "
         "Kubernetes.default.svc}]}]",
         BY_NAME_INVALID "KUBERNETES_SERVICE_HOST is one of the API server's names"},
        {NOTHING, BY_NAME,
         "containers: [{name: op, env: [{name: KUBERNETES_SERVICE_HOST, valueFrom: "
         "{configMapKeyRef: {name: c, key: k}}}]}]",
         BY_NAME_INVALID "KUBERNETES_SERVICE_HOST is one of the API server's names, or may be"},
        {NOTHING, BY_NAME,
         "containers: [" OPERATOR "], securityContext: {sysctls: [{name: "
         "net.ipv4.ip_unprivileged_port_start, value: '1024'}]}",
         BY_NAME_INVALID "spec.securityContext.sysctls[net.ipv4.ip_unprivileged_port_start]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct inject_settings s = full_settings(false);
        s.nat_image = cases[i].without == NAT_IMAGE ? NULL : s.nat_image;
        s.low_ports = cases[i].without != LOW_PORTS;
        s.user = cases[i].without == USER ? 0 : s.user;
        s.restricted = cases[i].without == CAPABILITIES;
        expect_refused(&s, pod_of(cases[i].annotations, "", cases[i].spec), cases[i].want);
    }
}

/* What stands against nat alone stands in nobody else's way. */
static void a_restricted_namespace_has_the_other_ways(void **state)
{
    (void)state;
    static const struct pod_wanted c = {
        BY_NAME, "", "containers: [" OPERATOR "]", {MOUNTED_AT, "spec.hostAliases.0.ip=127.0.0.1"}};
    struct inject_settings s = full_settings(false);
    s.restricted = true;
    s.user = 0;
    expect_all(&s, &c);
}

/* ---- what is doubtful ---- */

/* Old sidecars pass over a variable. */
static void the_lease_on_the_rules(void **state)
{
    static const struct {
        uint64_t usual_s;
        struct pod_wanted pod;
    } cases[] = {
#define VARIABLE "spec.containers.cmesh-localproxy.env.CMESH_RULES_LEASE"
#define SPEC "containers: [" OPERATOR "]"
        {0, {"", "", SPEC, {"!" VARIABLE}}},
        {30, {"", "", SPEC, {VARIABLE ".value=30"}}},
        {0, {"m.io/rules-lease: '10'", "", SPEC, {VARIABLE ".value=10"}}},
        {30, {"", "m.io/rules-lease: '3600'", SPEC, {VARIABLE ".value=3600"}}},
        {30, {"m.io/rules-lease: '0'", "", SPEC, {"!" VARIABLE}}},
        {30, {"m.io/rules-lease: ''", "", SPEC, {VARIABLE ".value=30"}}},
    };
    static const char *const wrong[] = {"9", "3601", "-30", "30s", "00", "18446744073709551626"};
    (void)state;
    struct inject_settings s = full_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        s.rules_lease_s = cases[i].usual_s;
        expect_all(&s, &cases[i].pod);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char annotation[64];
        (void)snprintf(annotation, sizeof annotation, "m.io/rules-lease: '%s'", wrong[i]);
        expect_refused(&s, pod_of(annotation, "", SPEC),
                       "metadata.annotations[m.io/rules-lease]: Invalid value: must be \"0\", or "
                       "seconds from 10 to 3600");
    }
}

static void what_is_noted(void **state)
{
    (void)state;
    static const struct {
        const char *annotations;
        const char *spec;
        const char *note;
    } cases[] = {
        {"", OWN_KUBECONFIG,
         "spec.containers: the operator is led by its own kubeconfig, and keeps the pod's service "
         "account: what uses that bypasses localproxy. If both are of one cluster, annotate "
         "m.io/keep-service-account: \"false\""},
        {NAT ", m.io/operator-containers: op", "containers: [" OPERATOR ", {name: b}]",
         "spec: containers that are not the operator's fail at the API server: they do not trust "
         "localproxy, to which all of the pod comes with enable-iptables"},
        {NAT, "containers: [" OPERATOR "], initContainers: [{name: n, restartPolicy: Always}]",
         "spec: containers that are not the operator's fail at the API server"},
        {BY_NAME ", m.io/operator-containers: op", "containers: [" OPERATOR ", {name: b}]",
         "localproxy, to which all of the pod comes with lead-by-name"},
        {BY_NAME, "containers: [" OPERATOR "], initContainers: [{name: early}]",
         "spec.initContainers: they run before localproxy, and with lead-by-name reach the API "
         "server by its address alone"},
        {"",
         "containers: [{name: op, command: [/op], volumeMounts: [{name: t, mountPath: /t}]}], "
         "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: token}}]}}]",
         "spec.containers[op]: what is at /t holds a token for the API server, which bypasses "
         "localproxy: name it in m.io/service-account-path"},
        {"",
         "containers: [{name: op, command: [/op], volumeMounts: [{name: t, mountPath: /t}]}], "
         "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: token, audience: "
         "'https://kubernetes.default.svc'}}]}}]",
         "spec.containers[op]: what is at /t holds a token"},
    };
    struct inject_settings s = full_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_note(&s, pod_of(cases[i].annotations, "", cases[i].spec), cases[i].note);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_folder),
        cmocka_unit_test(the_folder_that_is_kept_by_all),
        cmocka_unit_test(nat),
        cmocka_unit_test(names),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_restricted_namespace_has_the_other_ways),
        cmocka_unit_test(the_lease_on_the_rules),
        cmocka_unit_test(what_is_noted),
        cmocka_unit_test(what_is_not_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
