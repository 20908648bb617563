/* SPDX-License-Identifier: Apache-2.0 */
/* With CMESH_GOLDEN=write in the environment the injected pods under pods/ are written anew. */
#include "inject/inject.h"

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
#include "base/file.h"
#include "compile/compile.h"
#include "kube/name.h"
#include "kube/user_agent.h"
#include "object/json_patch.h"
#include "pod_case.h"
#include "json/json.h"

/* ---- whole pods ---- */

static cJSON *read_pod(const char *name)
{
    char path[512];
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(65536);
    (void)snprintf(path, sizeof path, TEST_SOURCES "/manager/inject/pods/%s.yaml", name);
    if (file_read(path, &text, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    cJSON *pod = parse(buf_cstr(&text));
    buf_reset(&text);
    return pod;
}

static void compare(const cJSON *pod, const char *name, const char *kind)
{
    char path[512];
    struct err e = ERR_INIT;
    struct buf golden = BUF_INIT(1 << 20);
    char *got = print(pod);
    (void)snprintf(path, sizeof path, TEST_SOURCES "/manager/inject/pods/%s.%s.json", name, kind);
    if (getenv("CMESH_GOLDEN") != NULL) {
        assert_int_equal(file_write_atomic(path, got, strlen(got), 0644, &e), 0);
    }
    if (file_read(path, &golden, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_string_equal(got, buf_cstr(&golden));
    buf_reset(&golden);
    free(got);
}

static void real_pods(void **state)
{
    (void)state;
    static const char *const pods[] = {"operator", "with-kubeconfig", "by-name", "nat", "egress"};
    for (size_t i = 0; i < 2 * ARRAY_LEN(pods); i++) {
        struct inject_settings s = settings_of(i % 2 == 1);
        s.nat_image = "registry.example.com/cmesh/nat:1.0";
        s.low_ports = true;
        cJSON *pod = read_pod(pods[i / 2]);
        cJSON *made = inject(&s, pod, NULL);
        assert_non_null(made);
        compare(made, pods[i / 2], s.native ? "native" : "ordinary");
        /* The second time nothing is left to do. */
        assert_null(inject(&s, made, NULL));
        cJSON_Delete(made);
        cJSON_Delete(pod);
    }
}

/* That of the service account, in its pod. */
#define TOKEN_MOUNT "/spec/containers/2/volumeMounts/1"

/* What was there stays as it was: the patch only adds, but for what is replaced on purpose. */
static void nothing_else_is_touched(void **state)
{
    (void)state;
    struct inject_settings s = settings_of(false);
    struct err e = ERR_INIT;
    cJSON *pod = read_pod("operator");
    cJSON *patch = NULL;
    assert_int_equal(inject_pod(&s, pod, "operator-demo", "x", NULL, &patch, &e), 0);
    const cJSON *operation;
    cJSON_ArrayForEach(operation, patch)
    {
        if (strncmp(at(operation, "path")->valuestring, TOKEN_MOUNT, strlen(TOKEN_MOUNT)) != 0) {
            assert_string_equal(at(operation, "op")->valuestring, "add");
        }
    }
    cJSON_Delete(patch);
    cJSON_Delete(pod);
}

/* What must hold of every container that is put in. */
static void the_sidecars_have_no_rights(void **state)
{
    (void)state;
    static const char *const names[] = {"cmesh-kubeconfig", "cmesh-rules", "cmesh-localproxy",
                                        "cmesh-rulesync"};
    struct inject_settings s = settings_of(true);
    s.pull_policy = "IfNotPresent";
    s.user = 1234;
    cJSON *pod = read_pod("operator");
    cJSON *made = inject(&s, pod, NULL);
    for (size_t i = 0; i < 4; i++) {
        const cJSON *c = at(at(made, "spec.initContainers"), names[i]);
        expect(c, "image=registry.example.com/cmesh/proxy:1.0");
        expect(c, "imagePullPolicy=IfNotPresent");
        expect(c, "securityContext.runAsNonRoot=true");
        expect(c, "securityContext.runAsUser=1234");
        expect(c, "securityContext.runAsGroup=1234");
        expect(c, "securityContext.readOnlyRootFilesystem=true");
        expect(c, "securityContext.capabilities.drop.0=ALL");
        expect(c, "securityContext.seccompProfile.type=RuntimeDefault");
        assert_true(cJSON_IsFalse(at(c, "securityContext.privileged")));
        assert_true(cJSON_IsFalse(at(c, "securityContext.allowPrivilegeEscalation")));
        expect(c, "resources.requests.memory");
        expect(c, i < 2 ? "!restartPolicy" : "restartPolicy=Always");
        assert_int_equal(at(c, "ports") != NULL, i >= 2);
    }
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* ---- parts of pods ---- */

static void what_pods_get(void **state)
{
    (void)state;
    static const struct {
        const char *annotations;
        const char *labels;
        const char *spec;
        const char *want[8];
    } cases[] = {
        {"",
         "",
         "containers: [" OPERATOR "]",
         {"spec.containers.op.args.0=-v", "!spec.containers.op.args.1",
          "spec.containers.op.env.KUBECONFIG.value=/etc/cmesh/kubeconfig/config",
          "spec.containers.op.volumeMounts.cmesh-kubeconfig.readOnly=true",
          "spec.containers.0.name=cmesh-localproxy", "spec.containers.1.name=cmesh-rulesync",
          "spec.volumes.cmesh-rules.configMap.name=cmesh-rules-sharding-demo",
          "spec.volumes.cmesh-rules.configMap.optional=true"}},
        /* An empty one is none. */
        {"",
         "",
         "containers: [{name: op, args: ['--kubeconfig='], env: [{name: KUBECONFIG}]}]",
         {"spec.containers.op.args.0=--kubeconfig=/etc/cmesh/kubeconfig/config",
          "!spec.containers.op.args.1",
          "spec.containers.op.env.KUBECONFIG.value=/etc/cmesh/kubeconfig/config",
          "spec.containers.cmesh-localproxy.args.0=--in-cluster"}},
        /* Of several variables the last one counts. */
        {"",
         "",
         "containers: [{name: op, command: [/op], env: [{name: KUBECONFIG, value: /none}, {name: "
         "B}, {name: KUBECONFIG, value: /k/last}], volumeMounts: [{name: k, mountPath: /k}]}]",
         {"spec.containers.op.env.0.value=/etc/cmesh/kubeconfig/config",
          "spec.containers.op.env.1.name=B", "!spec.containers.op.env.2",
          "spec.containers.cmesh-localproxy.args.0=--kubeconfig=/k/last"}},
        /* Its own kubeconfig goes to localproxy, with the volume that it is in. */
        {"",
         "",
         "containers: [{name: op, command: [/op, --kubeconfig=/k/a/config], volumeMounts: [{name: "
         "deep, mountPath: /k/a}, {name: k, mountPath: /k}]}]",
         {"spec.containers.op.command.1=--kubeconfig=/etc/cmesh/kubeconfig/config",
          "!spec.containers.op.args",
          "spec.containers.cmesh-localproxy.args.0=--kubeconfig=/k/a/config",
          "spec.containers.cmesh-localproxy.volumeMounts.deep.mountPath=/k/a",
          "spec.containers.cmesh-localproxy.volumeMounts.deep.readOnly=true",
          "!spec.containers.cmesh-localproxy.volumeMounts.k",
          "spec.initContainers.cmesh-kubeconfig.args.0=--kubeconfig=/k/a/config"}},
        {"",
         "",
         "containers: [{name: op, args: [-kubeconfig, /k/c, --kubeconfig, /k/c, '--', x], "
         "volumeMounts: [{name: k, mountPath: /k/, readOnly: true}]}]",
         {"spec.containers.op.args.0=-kubeconfig",
          "spec.containers.op.args.1=/etc/cmesh/kubeconfig/config",
          "spec.containers.op.args.3=/etc/cmesh/kubeconfig/config", "spec.containers.op.args.5=x",
          "!spec.containers.op.args.6",
          "spec.containers.cmesh-localproxy.args.0=--kubeconfig=/k/c"}},
        {"",
         "",
         "containers: [{name: op, command: [/op], env: [{name: KUBECONFIG, value: /f/config}], "
         "volumeMounts: [{name: k, mountPath: /f/config, subPath: config}]}, {name: two, command: "
         "[/t, --kubeconfig, /f/config], volumeMounts: [{name: k, mountPath: /f/config, subPath: "
         "config}]}]",
         {"spec.containers.op.env.KUBECONFIG.value=/etc/cmesh/kubeconfig/config",
          "spec.containers.cmesh-localproxy.volumeMounts.k.subPath=config",
          "spec.containers.two.command.2=/etc/cmesh/kubeconfig/config",
          "!spec.containers.two.args"}},
        /* A volume that only localproxy is to have. */
        {"",
         "m.io/kubeconfig-volume: real",
         "containers: [{name: op, command: [/op], volumeMounts: [{name: real, mountPath: /r}, "
         "{name: x, mountPath: /x}]}], volumes: [{name: real, configMap: {name: c, items: [{key: "
         "k, path: sub/conf}]}}]",
         {"spec.containers.cmesh-localproxy.args.0=--kubeconfig=/etc/cmesh/cluster/sub/conf",
          "spec.containers.cmesh-localproxy.volumeMounts.real.mountPath=/etc/cmesh/cluster",
          "spec.initContainers.cmesh-kubeconfig.volumeMounts.real.readOnly=true",
          "!spec.containers.op.volumeMounts.real", "spec.containers.op.volumeMounts.x"}},
        {"",
         "m.io/kubeconfig-volume: real",
         "containers: [{name: op, command: [/op, --kubeconfig=/r/conf], volumeMounts: [{name: "
         "real, mountPath: /r}]}], volumes: [{name: real, secret: {}}]",
         {"spec.containers.cmesh-localproxy.args.0=--kubeconfig=/etc/cmesh/cluster/conf",
          "spec.containers.op.command.1=--kubeconfig=/etc/cmesh/kubeconfig/config"}},
        {"m.io/kubeconfig-volume: real/a/b",
         "m.io/kubeconfig-volume: other",
         "containers: [" OPERATOR "], volumes: [{name: real, secret: {}}]",
         {"spec.containers.cmesh-localproxy.args.0=--kubeconfig=/etc/cmesh/cluster/a/b"}},
        /* The service account, as the operator has it, and the address that it was told. */
        {"",
         "",
         "containers: [{name: op, command: [/op], env: [{name: KUBERNETES_SERVICE_HOST, value: "
         "api}, {name: KUBERNETES_SERVICE_PORT, value: '6443'}], volumeMounts: [{name: sa, "
         "mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]",
         {"spec.containers.cmesh-localproxy.volumeMounts.sa.readOnly=true",
          "spec.containers.cmesh-localproxy.env.KUBERNETES_SERVICE_HOST.value=api",
          "spec.initContainers.cmesh-kubeconfig.env.KUBERNETES_SERVICE_PORT.value=6443",
          "spec.initContainers.cmesh-kubeconfig.volumeMounts.sa.readOnly=true",
          "!spec.containers.cmesh-rulesync.volumeMounts.sa"}},
        /* What the pod may ask for. */
        {"",
         "m.io/disable-fake-kubeconfig-arg: 'true'",
         "containers: [{name: op, args: [--kubeconfig=/own]}]",
         {"spec.containers.op.args.0=--kubeconfig=/own", "!spec.containers.op.args.1",
          "spec.containers.op.env.KUBECONFIG"}},
        {"m.io/disable-fake-kubeconfig-env: 'true', m.io/disable-fake-kubeconfig-arg: 'false'",
         "",
         "containers: [{name: op, command: [/op], env: [{name: KUBECONFIG, value: /own}]}]",
         {"spec.containers.op.env.KUBECONFIG.value=/own",
          "spec.containers.op.args.0=--kubeconfig=/etc/cmesh/kubeconfig/config"}},
        {"m.io/operator-containers: 'a, c', m.io/disable-fake-kubeconfig-arg: 'false'",
         "",
         "containers: [{name: a, command: [a]}, {name: b, command: [b]}, {name: c, command: [c]}]",
         {"spec.containers.a.args.0=--kubeconfig=/etc/cmesh/kubeconfig/config",
          "!spec.containers.b.args", "!spec.containers.b.env", "!spec.containers.b.volumeMounts",
          "spec.containers.c.env.KUBECONFIG"}},
        {"kubectl.kubernetes.io/default-container: b",
         "m.io/disable-fake-kubeconfig-arg: 'false'",
         "containers: [{name: a, command: [a]}, {name: b, command: [b]}]",
         {"!spec.containers.a.args", "spec.containers.a.env.KUBECONFIG",
          "spec.containers.b.args.0=--kubeconfig=/etc/cmesh/kubeconfig/config"}},
        /* Which one is the operator nobody knows; what has the flag knows it. */
        {"",
         "m.io/disable-fake-kubeconfig-arg: 'false'",
         "containers: [{name: manager, args: [-v]}, {name: fluent-bit, args: [-c, /f]}, {name: p, "
         "args: [--kubeconfig=]}]",
         {"!spec.containers.manager.args.1", "!spec.containers.fluent-bit.args.2",
          "spec.containers.manager.env.KUBECONFIG.value=/etc/cmesh/kubeconfig/config",
          "spec.containers.fluent-bit.env.KUBECONFIG",
          "spec.containers.p.args.0=--kubeconfig=/etc/cmesh/kubeconfig/config",
          "!spec.containers.p.args.1"}},
        /* There is none of that name. */
        {"kubectl.kubernetes.io/default-container: gone",
         "",
         "containers: [{name: a, command: [a]}, {name: b, command: [b]}]",
         {"!spec.containers.a.args", "!spec.containers.b.args",
          "spec.containers.b.env.KUBECONFIG"}},
        {"kubectl.kubernetes.io/default-container: gone",
         "m.io/disable-fake-kubeconfig-arg: 'false'",
         "containers: [" OPERATOR "]",
         {"spec.containers.op.args.1=--kubeconfig=/etc/cmesh/kubeconfig/config"}},
        {"m.io/proxy-resource: '{\"limits\": {\"cpu\": \"2\", \"memory\": \"1Gi\"}}'",
         "",
         "containers: [" OPERATOR "]",
         {"spec.containers.cmesh-localproxy.resources.limits.memory=1Gi",
          "!spec.containers.cmesh-localproxy.resources.requests",
          "spec.containers.cmesh-rulesync.resources.requests.cpu=5m"}},
        {"m.io/env-sync: 'A,, B=x=y, C,'",
         "",
         "containers: [{name: op, command: [/op], env: [{name: A, valueFrom: {fieldRef: "
         "{fieldPath: status.podIP}}}]}]",
         {"spec.containers.cmesh-localproxy.env.A.valueFrom.fieldRef.fieldPath=status.podIP",
          "spec.containers.cmesh-localproxy.env.B.value=x=y",
          "!spec.containers.cmesh-localproxy.env.C"}},
        /* Of several the last one, and nothing that would change what localproxy enforces. */
        {"m.io/env-sync: 'B=1, A, B=2, A=x, A, CMESH_LOG_LEVEL=debug, CMESH_NO_RULES=passthrough, "
         "LD_PRELOAD, PATH=/x, POD_NAME=other, HTTPS_PROXY=http://p'",
         "",
         "containers: [{name: op, command: [/op], env: [{name: A, value: a}, {name: LD_PRELOAD, "
         "value: /l.so}]}]",
         {"spec.containers.cmesh-localproxy.env.9.value=2",
          "spec.containers.cmesh-localproxy.env.10.value=a",
          "spec.containers.cmesh-localproxy.env.11.name=CMESH_LOG_LEVEL",
          "spec.containers.cmesh-localproxy.env.12.name=HTTPS_PROXY",
          "!spec.containers.cmesh-localproxy.env.13"}},
        {"m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"A\",\"value\":\"1\"}]},{"
         "\"name\":\"op\",\"env\":[{\"key\":\"N\",\"value\":\"2\"},{\"key\":\"A\","
         "\"value\":\"3\"},{\"key\":\"N\",\"value\":\"4\"}]}]'",
         "",
         "containers: [{name: op, command: [/op], env: [{name: A}, {name: B}, {name: A}, {name: "
         "A}]}]",
         {"spec.containers.op.env.3.value=3", "spec.containers.op.env.4.name=B",
          "spec.containers.op.env.5.name=N", "spec.containers.op.env.5.value=4",
          "spec.containers.op.env.6.name=KUBECONFIG", "!spec.containers.op.env.7"}},
        {"m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"A\",\"value\":\"1\"},{\"key\":"
         "\"B\",\"value\":\"2\"},{\"key\":\"KUBECONFIG\",\"value\":\"/bad\"}]},{\"name\":\"none\"}]"
         "'",
         "",
         "containers: [{name: op, command: [/op], env: [{name: A, valueFrom: {}}]}]",
         {"spec.containers.op.env.A.value=1", "!spec.containers.op.env.A.valueFrom",
          "spec.containers.op.env.B.value=2",
          "spec.containers.op.env.KUBECONFIG.value=/etc/cmesh/kubeconfig/config"}},
        {"m.io/log-path: /var/log/op",
         "",
         "containers: [" OPERATOR ", {name: b, command: [b]}]",
         {"spec.volumes.cmesh-logs.emptyDir",
          "spec.containers.op.volumeMounts.cmesh-logs.mountPath=/var/log/op",
          "spec.containers.b.volumeMounts.cmesh-logs.mountPath=/var/log/op",
          "spec.containers.cmesh-localproxy.volumeMounts.cmesh-logs"}},
        {"m.io/log-path: /var/lib/cmesh2",
         "",
         "containers: [" OPERATOR "]",
         {"spec.containers.cmesh-localproxy.volumeMounts.cmesh-logs.mountPath=/var/lib/cmesh2"}},
        {"m.io/log-path: /logs",
         "",
         "containers: [{name: op, command: [/op], volumeMounts: [{name: own, mountPath: /logs}]}, "
         "{name: b, command: [b]}]",
         {"!spec.volumes.cmesh-logs", "spec.containers.b.volumeMounts.own.mountPath=/logs"}},
        /* The token goes along with a kubeconfig, which may name it. */
        {"",
         "",
         "containers: [{name: op, command: [/op, --kubeconfig=/k/c], volumeMounts: [{name: k, "
         "mountPath: /k}, {name: sa, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]",
         {"spec.containers.cmesh-localproxy.args.0=--kubeconfig=/k/c",
          "spec.containers.cmesh-localproxy.volumeMounts.k",
          "spec.containers.cmesh-localproxy.volumeMounts.sa.readOnly=true",
          "spec.initContainers.cmesh-kubeconfig.volumeMounts.sa"}},
        {"",
         "",
         "containers: [{name: op, command: [/op, "
         "--kubeconfig=/var/run/secrets/kubernetes.io/serviceaccount/c], volumeMounts: [{name: sa, "
         "mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]",
         {"spec.containers.cmesh-localproxy.volumeMounts.0.name=sa",
          "spec.containers.cmesh-localproxy.volumeMounts.1.name=cmesh-state"}},
        /* Ordinary containers are told to end all at once: localproxy waits for the operator. */
        {"",
         "",
         "terminationGracePeriodSeconds: 77, containers: [" OPERATOR "]",
         {"spec.containers.cmesh-localproxy.args.7=--shutdown-delay=77"}},
        {"",
         "",
         "terminationGracePeriodSeconds: 1e9, containers: [" OPERATOR "]",
         {"spec.containers.cmesh-localproxy.args.7=--shutdown-delay=86400"}},
        {"",
         "",
         "containers: [{name: op, command: [/op], ports: [{containerPort: 5443, protocol: UDP}]}]",
         {"spec.containers.cmesh-localproxy.args.7=--shutdown-delay=30",
          "spec.containers.cmesh-localproxy.ports.cmesh-api.containerPort=5443",
          "spec.containers.cmesh-localproxy.ports.cmesh-admin.containerPort=5441",
          "spec.containers.cmesh-rulesync.ports.cmesh-rulesync.containerPort=5442"}},
        /* Others than the operator may talk to the API server themselves, as may the host's. */
        {"",
         "",
         "containers: [" OPERATOR "]",
         {"spec.containers.cmesh-localproxy.env.CMESH_WATCH_BYPASS.value=true",
          "spec.containers.cmesh-localproxy.env.CMESH_STATUS_LEASE.value=true",
          "!spec.containers.cmesh-localproxy.args.8"}},
        {"",
         "",
         "containers: [" OPERATOR ", {name: logs}]",
         {"spec.containers.cmesh-localproxy.env.CMESH_STATUS_LEASE.value=true",
          "!spec.containers.cmesh-localproxy.env.CMESH_WATCH_BYPASS"}},
        {"",
         "m.io/operator-containers: op",
         "containers: [" OPERATOR ", {name: logs}]",
         {"spec.containers.cmesh-localproxy.env.CMESH_STATUS_LEASE.value=true",
          "!spec.containers.cmesh-localproxy.env.CMESH_WATCH_BYPASS"}},
        {"",
         "m.io/operator-containers: 'op,logs'",
         "containers: [" OPERATOR ", {name: logs}]",
         {"spec.containers.cmesh-localproxy.env.CMESH_WATCH_BYPASS.value=true"}},
        {"",
         "",
         "hostNetwork: true, containers: [" OPERATOR "]",
         {"spec.containers.cmesh-localproxy.args.7=--shutdown-delay=30",
          "spec.containers.cmesh-localproxy.env.CMESH_STATUS_LEASE.value=true",
          "!spec.containers.cmesh-localproxy.env.CMESH_WATCH_BYPASS"}},
        /* Others than the operator could borrow its identity. Who has the kubeconfig has the token;
         * the file is the sidecars' alone. */
        {"",
         "",
         "containers: [" OPERATOR "]",
         {"spec.containers.cmesh-localproxy.args.1=--token-file=/run/cmesh/token",
          "spec.containers.cmesh-localproxy.volumeMounts.cmesh-run",
          "spec.initContainers.cmesh-kubeconfig.args.1=--token-file=/run/cmesh/token",
          "spec.initContainers.cmesh-kubeconfig.volumeMounts.cmesh-run.mountPath=/run/cmesh",
          "!spec.containers.op.volumeMounts.cmesh-run"}},
        /* Which traffic policies are for the pod its labels say, at any time. */
        {"",
         "",
         "containers: [" OPERATOR "]",
         {"spec.volumes.cmesh-pod.downwardAPI.items.0.path=labels",
          "spec.volumes.cmesh-pod.downwardAPI.items.0.fieldRef.fieldPath=metadata.labels",
          "spec.containers.cmesh-localproxy.volumeMounts.cmesh-pod.mountPath=/etc/cmesh/pod",
          "spec.containers.cmesh-localproxy.volumeMounts.cmesh-pod.readOnly=true",
          "spec.containers.cmesh-localproxy.env.CMESH_POD_LABELS.value=/etc/cmesh/pod/labels",
          "spec.containers.cmesh-localproxy.env.CMESH_BREAKER_STATE.value=/run/cmesh/breakers.json",
          "!spec.containers.cmesh-rulesync.volumeMounts.cmesh-pod",
          "!spec.containers.op.volumeMounts.cmesh-pod"}},
        /* Fields that are null. */
        {"",
         "m.io/disable-fake-kubeconfig-arg: 'false'",
         "initContainers: , volumes: , containers: [{name: op, command: [/op], args: , env: , "
         "volumeMounts: , ports: }]",
         {"spec.containers.op.args.0=--kubeconfig=/etc/cmesh/kubeconfig/config"}},
        {"",
         "",
         "initContainers: [{name: first}], containers: [" OPERATOR "]",
         {"spec.initContainers.0.name=first", "spec.initContainers.1.name=cmesh-kubeconfig",
          "spec.initContainers.2.name=cmesh-rules", "!spec.initContainers.3",
          "!spec.initContainers.first.env"}},
    };
    struct inject_settings s = settings_of(false);
    s.prefix = "m.io";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *pod = pod_of(cases[i].annotations, cases[i].labels, cases[i].spec);
        struct warnings notes = WARNINGS_INIT;
        cJSON *made = inject(&s, pod, &notes);
        for (size_t j = 0; j < 8 && cases[i].want[j] != NULL; j++) {
            expect(made, cases[i].want[j]);
        }
        const cJSON *note = at(made, "metadata.annotations");
        assert_string_equal(cJSON_GetObjectItem(note, "m.io/sharding-config-injected")->valuestring,
                            "sharding-demo");
        assert_null(inject(&s, made, NULL));
        warnings_deinit(&notes);
        cJSON_Delete(made);
        cJSON_Delete(pod);
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
        {"m.io/disable-fake-kubeconfig-arg: 'false'", "containers: [{name: op}]",
         "spec.containers[op]: has neither command nor args, which would replace those of the "
         "image: --kubeconfig was not added, only KUBECONFIG is set"},
        {"m.io/disable-fake-kubeconfig-arg: 'false'",
         "containers: [{name: op, command: [/bin/sh, -c, exec /op]}]",
         "spec.containers[op]: runs a shell: --kubeconfig was not added"},
        {"m.io/disable-fake-kubeconfig-arg: 'false'",
         "containers: [{name: op, args: [bash, -c, /op]}]", "spec.containers[op]: runs a shell"},
        {"m.io/disable-fake-kubeconfig-arg: 'false'",
         "containers: [" OPERATOR ", {name: fluent-bit, args: [-c, /f]}, {name: p, args: "
         "[--kubeconfig=]}]",
         "spec.containers[op, fluent-bit]: --kubeconfig was not added, only KUBECONFIG is set: if "
         "this is the operator, name it in the annotation m.io/operator-containers"},
        {"kubectl.kubernetes.io/default-container: op, m.io/disable-fake-kubeconfig-env: 'true', "
         "m.io/disable-fake-kubeconfig-arg: 'false'",
         "containers: [" OPERATOR ", {name: fluent-bit, args: [-c, /f]}]",
         "spec.containers[fluent-bit]: --kubeconfig was not added, nor KUBECONFIG: if this"},
        {"", "containers: [" OPERATOR "]", "spec.containers: none mounts a service account token"},
        {"m.io/env-sync: NOPE", "containers: [" OPERATOR "]",
         "env-sync: no container has a variable NOPE"},
        {"m.io/env-sync: 'CMESH_WRITE_FENCE=off, OK=1, LD_PRELOAD=/x.so, GLIBC_TUNABLES=x'",
         "containers: [" OPERATOR "]",
         "env-sync: localproxy does not get GLIBC_TUNABLES, LD_PRELOAD, CMESH_WRITE_FENCE: what "
         "may change what it enforces, or which code it runs, is left out"},
        {"", "shareProcessNamespace: true, containers: [" OPERATOR ", {name: b}]",
         "spec.shareProcessNamespace: whoever has the user of the sidecars can take them over, and "
         "nothing says which one the containers op, b have: set"},
        {"",
         "hostPID: true, securityContext: {runAsUser: 0}, containers: [" OPERATOR "], "
         "initContainers: [{name: early, securityContext: {runAsUser: 5443}}]",
         "spec.hostPID: only their users keep the containers op from taking over the sidecars: "
         "root can, unless it has no capabilities"},
        {"", "securityContext: {runAsUser: 5443}, containers: [" OPERATOR "]",
         "spec.containers[op].securityContext.runAsUser: 5443 is the user of the sidecars, which "
         "should have it for themselves"},
        {"m.io/env-inject: '[{\"name\":\"x\"}]'", "containers: [" OPERATOR "]",
         "env-inject: the pod has no container \"x\""},
        {"",
         "containers: [{name: op, command: [/op], volumeMounts: [{name: t, mountPath: /t}]}], "
         "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: token}}]}}]",
         "spec.containers[op]: what is at /t holds a token for the API server"},
        {"m.io/keep-service-account: 'true', m.io/disable-fake-kubeconfig-env: 'true', "
         "m.io/disable-fake-kubeconfig-arg: 'true'",
         "containers: [" OPERATOR "]", "spec.containers: neither KUBECONFIG nor --kubeconfig"},
        {"", "restartPolicy: OnFailure, containers: [" OPERATOR "]",
         "spec.restartPolicy: OnFailure: the sidecars keep running after the operator has exited"},
    };
    struct inject_settings s = settings_of(false);
    s.prefix = "m.io";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_note(&s, pod_of(cases[i].annotations, "", cases[i].spec), cases[i].note);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *annotations;
        const char *spec;
        const char *want;
    } cases[] = {
        {"", "", "spec.containers: Required value"},
        {"", "containers: []", "spec.containers: Required value"},
        {"", "containers: {}", "spec.containers: Invalid value: must be an array"},
        {"", "containers: [x]", "spec.containers[0]: Invalid value: must be an object"},
        {"", "containers: [" OPERATOR "], volumes: {}", "the pod has a field of the wrong type"},
        {"", "containers: [{name: op, env: x}]", "the pod has a field of the wrong type"},
        {"", "os: {name: windows}, containers: [" OPERATOR "]",
         "spec.os.name: Invalid value: \"windows\""},
        {"",
         "containers: [" OPERATOR ", {name: b, ports: [{containerPort: 80}, {containerPort: "
         "5443}]}]",
         "spec.containers[1].ports[1].containerPort: Invalid value: 5443: is a port of the side"},
        {"",
         "containers: [{name: op, volumeMounts: [{name: a, mountPath: /etc/cmesh/kubeconfig}]}]",
         "spec.containers[0].volumeMounts[0].mountPath: Invalid value"},
        {"",
         "containers: [{name: op, volumeMounts: [{name: a, mountPath: "
         "/etc//cmesh/./kubeconfig/config}]}]",
         "spec.containers[0].volumeMounts[0].mountPath: Invalid value"},
        {"", "containers: [{name: cmesh-localproxy}]",
         "spec: \"cmesh-localproxy\" is the name of something that is injected"},
        {"", "containers: [" OPERATOR "], volumes: [{name: cmesh-run}]",
         "spec: \"cmesh-run\" is the name of something that is injected"},
        {"", "containers: [" OPERATOR "], volumes: [{name: cmesh-pod}]",
         "spec: \"cmesh-pod\" is the name of something that is injected"},
        {"m.io/sharding-config-injected: sharding-demo", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/sharding-config-injected]: Invalid value: \"sharding-demo\": "
         "the "
         "pod looks like a copy of an injected one, without cmesh-kubeconfig"},
        {"", "automountServiceAccountToken: false, containers: [" OPERATOR "]",
         "spec.automountServiceAccountToken: Invalid value: false: localproxy needs the token"},
        {"", "containers: [{name: op, args: [--kubeconfig=/etc/k8s/config]}]",
         "spec.containers[op]: its kubeconfig \"/etc/k8s/config\" is in none of its volumes"},
        {"",
         "containers: [{name: op, args: [--kubeconfig=/kk/config], volumeMounts: [{name: k, "
         "mountPath: /k}]}]",
         "spec.containers[op]: its kubeconfig \"/kk/config\" is in none of its volumes"},
        {"", "containers: [{name: op, args: [--kubeconfig=config]}]",
         "spec.containers[op]: its kubeconfig \"config\" is in none of its volumes"},
        {"", "containers: [{name: op, args: ['--kubeconfig=$(HOME)/config']}]",
         "spec.containers[op]: its kubeconfig \"$(HOME)/config\" must be one path"},
        {"", "containers: [{name: op, env: [{name: KUBECONFIG, value: '/a:/b'}]}]",
         "spec.containers[op]: its kubeconfig \"/a:/b\" must be one path"},
        {"", "containers: [{name: op, env: [{name: KUBECONFIG, valueFrom: {secretKeyRef: {}}}]}]",
         "spec.containers[op]: its kubeconfig \"$KUBECONFIG\" comes from another source"},
        {"",
         "containers: [{name: op, args: [--kubeconfig=/k/c], volumeMounts: [{name: k, "
         "mountPath: /k, subPathExpr: $(POD_NAME)}]}]",
         "spec.containers[op]: its kubeconfig \"/k/c\" is mounted with subPathExpr"},
        {"",
         "containers: [{name: a, args: [--kubeconfig=/k/c], volumeMounts: [{name: k, mountPath: "
         "/k}]}, {name: b, args: [--kubeconfig=/k/d], volumeMounts: [{name: k, mountPath: /k}]}]",
         "spec.containers[b]: its kubeconfig \"/k/d\" differs from that of another container"},
        {"",
         "containers: [{name: a, args: [--kubeconfig=/k/c], volumeMounts: [{name: k, mountPath: "
         "/k}]}, {name: b, args: [--kubeconfig=/k/c], volumeMounts: [{name: l, mountPath: /k}]}]",
         "spec.containers[b]: its kubeconfig \"/k/c\" differs from that of another container"},
        {"",
         "containers: [{name: a, env: [{name: KUBERNETES_SERVICE_HOST, value: x}]}, {name: b, "
         "env: [{name: KUBERNETES_SERVICE_HOST, value: z}]}]",
         "spec.containers[b].env[KUBERNETES_SERVICE_HOST]: Invalid value: differs from that of "
         "another"},
        {"m.io/kubeconfig-volume: none", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/kubeconfig-volume]: Invalid value: \"none\": the pod has no "
         "such volume"},
        {"m.io/kubeconfig-volume: v",
         "containers: [" OPERATOR "], volumes: [{name: v, secret: {}}]",
         "metadata.annotations[m.io/kubeconfig-volume]: Invalid value: \"v\": cannot determine "
         "which file of it"},
        {"m.io/kubeconfig-volume: v/../x", "containers: [" OPERATOR "], volumes: [{name: v}]",
         "metadata.annotations[m.io/kubeconfig-volume]: Invalid value: \"v/../x\""},
        {"m.io/disable-fake-kubeconfig-arg: 'yes'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/disable-fake-kubeconfig-arg]: Invalid value: must be \"true\""},
        {"m.io/proxy-resource: '{'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/proxy-resource]: Invalid value: line 1"},
        {"m.io/proxy-resource: '[]'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/proxy-resource]: Invalid value: must be an object"},
        {"m.io/proxy-resource: '{\"cpu\": 1}'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/proxy-resource]: Invalid value: cpu: Forbidden: unknown field"},
        {"m.io/env-inject: '{}'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/env-inject]: Invalid value: must be a list"},
        {"m.io/env-inject: '[{\"env\":[]}]'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/env-inject]: Invalid value: each entry must have the name"},
        {"m.io/env-inject: '[{\"name\":\"op\",\"env\":{}}]'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/env-inject]: Invalid value: env must be a list"},
        {"m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"a\",\"value\":1}]}]'",
         "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/env-inject]: Invalid value: each of env must have key and"},
        {"", "nodeSelector: {kubernetes.io/os: windows}, containers: [" OPERATOR "]",
         "spec.nodeSelector[kubernetes.io/os]: Invalid value: \"windows\": the sidecars run on"},
        {"",
         "containers: [" OPERATOR "], initContainers: [{name: a}, {name: b, restartPolicy: Always, "
         "ports: [{containerPort: 5441}]}]",
         "spec.initContainers[1].ports[0].containerPort: Invalid value: 5441: is a port of the"},
        {"", "containers: [" OPERATOR "], initContainers: {}",
         "spec.initContainers: Invalid value: must be an array"},
        {"",
         "containers: [{name: op, volumeMounts: [{name: a, mountPath: /etc/cmesh/kubeconfig/}]}]",
         "spec.containers[0].volumeMounts[0].mountPath: Invalid value"},
        {"", "containers: [{name: a, env: [{name: KUBERNETES_SERVICE_HOST, value: $(HOST_IP)}]}]",
         "spec.containers[a].env[KUBERNETES_SERVICE_HOST]: Invalid value: \"$(HOST_IP)\": "
         "localproxy, which needs it too"},
        {"m.io/operator-containers: 'op, pilot'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/operator-containers]: Invalid value: \"pilot\" is not in "
         "spec.containers"},
        {"m.io/operator-containers: o", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/operator-containers]: Invalid value: \"o\" is not in"},
        {"m.io/operator-containers: ' ,'", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/operator-containers]: Invalid value: names no container"},
        {"m.io/operator-containers: early",
         "containers: [" OPERATOR "], initContainers: [{name: early}]",
         "metadata.annotations[m.io/operator-containers]: Invalid value: \"early\" is not in"},
        {"m.io/log-path: /l", "containers: [" OPERATOR "], volumes: [{name: cmesh-logs}]",
         "metadata.annotations[m.io/log-path]: Invalid value: the pod has a volume \"cmesh-logs\""},
        {"m.io/log-path: logs", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/log-path]: Invalid value: must be an absolute path"},
#define OURS                                                                                       \
    "metadata.annotations[m.io/log-path]: Invalid value: is a folder of the sidecars, in one, or " \
    "holds one"
        {"m.io/log-path: /run/cmesh", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: /run/cmesh/x/", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: //var//./run/cmesh/", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: /./run", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: /var/run/", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: /var/lib/cmesh", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: /var", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: /etc/cmesh/cluster", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: //", "containers: [" OPERATOR "]", OURS},
        {"m.io/log-path: /run/../run/cmesh", "containers: [" OPERATOR "]",
         "metadata.annotations[m.io/log-path]: Invalid value: must not contain \"..\""},
        {"m.io/log-path: /r, m.io/kubeconfig-volume: real/c, m.io/operator-containers: op",
         "containers: [" OPERATOR ", {name: b, volumeMounts: [{name: real, mountPath: /r}]}], "
         "volumes: [{name: real}]",
         "metadata.annotations[m.io/log-path]: Invalid value: is where kubeconfig-volume is"},
        {"",
         "containers: [{name: op, args: [--kubeconfig=/var/run/cmesh/c], volumeMounts: [{name: k, "
         "mountPath: /var/run/cmesh}]}]",
         "spec.containers[op]: its kubeconfig \"/var/run/cmesh/c\" is mounted over a folder"},
        {"",
         "shareProcessNamespace: true, securityContext: {runAsUser: 5443}, containers: [" OPERATOR
         ", {name: b, securityContext: {runAsUser: 7}}, {name: c}]",
         "spec.shareProcessNamespace: Invalid value: true: the containers op, c run as user 5443, "
         "as the sidecars do, and could take these over: remove it, or give them another "
         "securityContext.runAsUser"},
        {"",
         "hostPID: true, containers: [" OPERATOR "], initContainers: [{name: native, "
         "restartPolicy: Always, securityContext: {runAsUser: 5443}}]",
         "spec.hostPID: Invalid value: true: the containers native run as user 5443"},
    };
    struct inject_settings s = settings_of(false);
    s.prefix = "m.io";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_refused(&s, pod_of(cases[i].annotations, "", cases[i].spec), cases[i].want);
    }
}

static void take_away(cJSON *list, const char *name)
{
    int i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(cJSON_GetObjectItem(item, "name")->valuestring, name) == 0) {
            break;
        }
        i++;
    }
    assert_true(i < cJSON_GetArraySize(list));
    cJSON_DeleteItemFromArray(list, i);
}

/* It has no labels to read, and is a whole pod. */
static void pods_of_the_previous_release_are_left_as_they_are(void **state)
{
    (void)state;
    struct inject_settings s = settings_of(false);
    cJSON *pod = read_pod("operator");
    cJSON *made = inject(&s, pod, NULL);
    cJSON *spec = cJSON_GetObjectItem(made, "spec");
    cJSON *proxy = cJSON_GetArrayItem(cJSON_GetObjectItem(spec, "containers"), 0);
    take_away(cJSON_GetObjectItem(spec, "volumes"), "cmesh-pod");
    take_away(cJSON_GetObjectItem(proxy, "volumeMounts"), "cmesh-pod");
    take_away(cJSON_GetObjectItem(proxy, "env"), "CMESH_POD_LABELS");
    take_away(cJSON_GetObjectItem(proxy, "env"), "CMESH_BREAKER_STATE");
    assert_null(inject(&s, made, NULL));
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* A copy of an injected pod. */
static void changed_copies(void **state)
{
    (void)state;
    struct inject_settings s = settings_of(false);
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    cJSON *pod = read_pod("operator");
    cJSON *made = inject(&s, pod, NULL);
    assert_int_equal(inject_pod(&s, made, "ns", "other", NULL, &patch, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "of another shard than other"));
    /* The user may give the sidecars more memory, or take a variable off again. */
    cJSON *proxy =
        cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetObjectItem(made, "spec"), "containers"), 0);
    cJSON_DeleteItemFromObject(proxy, "resources");
    assert_null(inject(&s, made, NULL));
    cJSON_DeleteItemFromArray(cJSON_GetObjectItem(cJSON_GetObjectItem(made, "spec"), "containers"),
                              1);
    assert_int_equal(inject_pod(&s, made, "ns", "sharding-demo", NULL, &patch, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "without cmesh-rulesync"));
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void nothing_is_injected_without_an_image(void **state)
{
    (void)state;
    struct inject_settings s = settings_of(false);
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    cJSON *pod = read_pod("operator");
    s.image = NULL;
    assert_int_equal(inject_pod(&s, pod, "ns", "sharding-demo", NULL, &patch, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "--sidecar-image"));
    cJSON_Delete(pod);
}

static void settings_are_used(void **state)
{
    (void)state;
    static const char *const more[] = {"--write-fence=audit", "--log-level=debug", NULL};
    struct inject_settings s = settings_of(false);
    s.bind = "192.0.2.7";
    s.start_seconds = 7;
    s.proxy_args = more;
    s.proxy = (struct inject_resources){.cpu_limit = "1"};
    s.others = (struct inject_resources){.cpu_limit = NULL};
    cJSON *pod = read_pod("operator");
    cJSON *made = inject(&s, pod, NULL);
    expect(made, "spec.containers.cmesh-localproxy.args.3=--admin=192.0.2.7:5441");
    expect(made, "spec.containers.cmesh-localproxy.args.8=--write-fence=audit");
    expect(made, "spec.containers.cmesh-localproxy.args.9=--log-level=debug");
    expect(made, "spec.containers.cmesh-localproxy.resources.limits.cpu=1");
    expect(made, "!spec.containers.cmesh-localproxy.resources.requests");
    expect(made, "!spec.containers.cmesh-rulesync.resources.requests");
    expect(made, "spec.containers.cmesh-localproxy.startupProbe.failureThreshold=7");
    expect(made, "spec.containers.cmesh-rulesync.lifecycle.postStart.exec.command.6=--timeout=7");
    expect(made, "!spec.containers.cmesh-rulesync.imagePullPolicy");
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* An unknown flag would end it, and with it the operator. A variable would not. */
static void localproxy_of_0_1_0_knows_its_flags(void **state)
{
    (void)state;
    static const char *const known[] = {"--in-cluster", "--kubeconfig", "--token-file",
                                        "--listen",     "--admin",      "--rules",
                                        "--control",    "--state",      "--shutdown-delay"};
    struct inject_settings s = settings_of(false);
    cJSON *pod = parse("{metadata: {}, spec: {containers: [" OPERATOR "]}}");
    cJSON *made = inject(&s, pod, NULL);
    const cJSON *arg;
    cJSON_ArrayForEach(arg, at(made, "spec.containers.cmesh-localproxy.args"))
    {
        size_t len = strcspn(arg->valuestring, "=");
        bool found = false;
        for (size_t i = 0; i < ARRAY_LEN(known); i++) {
            found = found || slice_eq((struct slice){arg->valuestring, len}, slice_str(known[i]));
        }
        if (!found) {
            fail_msg("0.1.0 does not know %s", arg->valuestring);
        }
    }
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* A quota on limits counts each container, and refuses pods with one that has none. */
static void limits_are_those_of_every_container(void **state)
{
    (void)state;
    static const char *const names[] = {"cmesh-kubeconfig", "cmesh-rules", "cmesh-rulesync",
                                        "cmesh-localproxy"};
    struct inject_settings s = settings_of(true);
    s.proxy.cpu_limit = "1";
    s.others = (struct inject_resources){"6m", "17Mi", "7m", "18Mi"};
    cJSON *pod = read_pod("operator");
    cJSON *made = inject(&s, pod, NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const cJSON *c = at(at(made, "spec.initContainers"), names[i]);
        bool proxy = i == 3;
        expect(c, proxy ? "resources.limits.cpu=1" : "resources.limits.cpu=7m");
        expect(c, proxy ? "resources.limits.memory=256Mi" : "resources.limits.memory=18Mi");
        expect(c, proxy ? "resources.requests.cpu=50m" : "resources.requests.cpu=6m");
        expect(c, proxy ? "resources.requests.memory=32Mi" : "resources.requests.memory=17Mi");
    }
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* So that kubectl can select them. Only the annotation has a long name whole. */
static void the_shard_is_a_label_too(void **state)
{
    (void)state;
#define TEN "abcdefghi-"
#define SIXTY TEN TEN TEN TEN TEN TEN
    static const struct {
        const char *shard;
        const char *label;
    } rows[] = {
        {"blue", "blue"},
        {"a.b-c", "a.b-c"},
        {SIXTY "xyz", SIXTY "xyz"},
        /* sha256sum */
        {SIXTY "wxyz", TEN TEN TEN TEN TEN "abcd-fe6679ae"},
        {SIXTY "wxyy", TEN TEN TEN TEN TEN "abcd-46d8b227"},
    };
    struct inject_settings s = settings_of(true);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        cJSON *patch = NULL;
        cJSON *pod = parse("{metadata: {}, spec: {containers: [" OPERATOR "]}}");
        assert_int_equal(inject_pod(&s, pod, "ns", rows[i].shard, NULL, &patch, &e), 0);
        cJSON *made = patch_apply(pod, patch);
        const char *key = "ctrlmesh.kusionstack.io/sharding-config-injected";
        const cJSON *label = cJSON_GetObjectItem(at(made, "metadata.labels"), key);
        const cJSON *note = cJSON_GetObjectItem(at(made, "metadata.annotations"), key);
        assert_string_equal(label->valuestring, rows[i].label);
        assert_string_equal(note->valuestring, rows[i].shard);
        assert_null(name_check_value(slice_str(label->valuestring)));
        cJSON_Delete(patch);
        /* It is the shard's still. */
        assert_int_equal(inject_pod(&s, made, "ns", rows[i].shard, NULL, &patch, &e), 0);
        assert_null(patch);
        cJSON_Delete(made);
        cJSON_Delete(pod);
    }
}

/* As OpenShift wants it: users are of the namespace's range. */
static void the_user_may_be_left_to_the_cluster(void **state)
{
    (void)state;
    struct inject_settings s = settings_of(true);
    s.user = 0;
    cJSON *pod = read_pod("operator");
    cJSON *made = inject(&s, pod, NULL);
    expect(made, "spec.initContainers.cmesh-rules.securityContext.runAsNonRoot=true");
    expect(made, "!spec.initContainers.cmesh-rules.securityContext.runAsUser");
    expect(made, "!spec.initContainers.cmesh-rules.securityContext.runAsGroup");
    cJSON_Delete(made);
    cJSON_Delete(pod);
    /* Then it is that of the operator, which is no wonder, but for shared processes. */
    struct warnings notes = WARNINGS_INIT;
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    pod = pod_of("", "", "securityContext: {runAsUser: 9}, containers: [" OPERATOR "]");
    cJSON_Delete(inject(&s, pod, &notes));
    assert_int_equal(notes.count, 1); /* about the token */
    warnings_deinit(&notes);
    cJSON_AddTrueToObject(cJSON_GetObjectItem(pod, "spec"), "shareProcessNamespace");
    assert_int_equal(inject_pod(&s, pod, "ns", "x", NULL, &patch, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "op run as user 9, as the sidecars do"));
    cJSON_Delete(pod);
}

static void expect_agent(const char *of_shard, const char *annotations, const char *want)
{
    char path[128];
    struct inject_settings s = settings_of(false);
    s.prefix = "m.io";
    s.user_agent = of_shard;
    cJSON *pod = pod_of(annotations, "", "containers: [" OPERATOR "]");
    cJSON *made = inject(&s, pod, NULL);
    (void)snprintf(path, sizeof path, "%sspec.containers.cmesh-localproxy.env.CMESH_USER_AGENT%s%s",
                   want == NULL ? "!" : "",
                   want == NULL ? "" : ".value=", want == NULL ? "" : want);
    expect(made, path);
    expect(made, "!spec.containers.cmesh-rulesync.env");
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void the_name_at_the_api_server(void **state)
{
    (void)state;
    expect_agent(NULL, "", NULL);
    expect_agent("shard-a/", "", "shard-a/");
    expect_agent(NULL, "m.io/user-agent: mine/", "mine/");
    expect_agent("shard-a/", "m.io/user-agent: mine", "mine");
    expect_agent("shard-a/", "m.io/user-agent: ''", NULL);
    /* The kubelet puts no variable into it. */
    expect_agent("$(POD_NAME)/$", "", "$$(POD_NAME)/$$");
    char longest[USER_AGENT_MAX + 1] = "";
    memset(longest, '$', USER_AGENT_MAX);
    struct inject_settings s = settings_of(true);
    s.user_agent = longest;
    cJSON *pod = pod_of("", "", "containers: [" OPERATOR "]");
    cJSON *made = inject(&s, pod, NULL);
    const cJSON *value =
        at(made, "spec.initContainers.cmesh-localproxy.env.CMESH_USER_AGENT.value");
    assert_int_equal(strlen(value->valuestring), 2 * USER_AGENT_MAX);
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void variables_for_the_sidecars(void **state)
{
    (void)state;
    static const char *const list[] = {"HTTPS_PROXY=http://p", "CMESH_READ_FENCE=audit",
                                       "CMESH_LOG_LEVEL=debug", "B=$(POD_NAME)", NULL};
    static const char *const want[] = {
        "initContainers.cmesh-localproxy.env.HTTPS_PROXY.value=http://p",
        "initContainers.cmesh-localproxy.env.CMESH_READ_FENCE.value=audit",
        "initContainers.cmesh-localproxy.env.CMESH_LOG_LEVEL.value=debug",
        "initContainers.cmesh-localproxy.env.B.value=own", /* of env-sync */
        "initContainers.cmesh-rulesync.env.0.value=http://p",
        "initContainers.cmesh-rulesync.env.1.name=CMESH_LOG_LEVEL",
        "initContainers.cmesh-rulesync.env.2.value=$(POD_NAME)",
        "initContainers.cmesh-kubeconfig.env.HTTPS_PROXY.value=http://p",
        "initContainers.cmesh-rules.env.HTTPS_PROXY.value=http://p",
        "containers.op.env.0.name=B",
    };
    struct inject_settings s = settings_of(true);
    s.prefix = "m.io";
    s.nat_image = "nat";
    s.env = list;
    cJSON *pod = pod_of("m.io/env-sync: B", "m.io/enable-iptables: 'true'",
                        "containers: [{name: op, command: [/op], env: [{name: B, value: own}]}]");
    cJSON *made = inject(&s, pod, NULL);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        expect(at(made, "spec"), want[i]);
    }
    expect(made, "!spec.initContainers.cmesh-rulesync.env.3");
    expect(made, "!spec.initContainers.cmesh-nat.env.HTTPS_PROXY");
    expect(made, "!spec.containers.op.env.HTTPS_PROXY");
    assert_null(inject(&s, made, NULL));
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void expect_counting(bool of_shard, const char *annotations, bool want)
{
    struct inject_settings s = settings_of(false);
    s.prefix = "m.io";
    s.count_load = of_shard;
    cJSON *pod = pod_of(annotations, "", "containers: [" OPERATOR "]");
    cJSON *made = inject(&s, pod, NULL);
    expect(made, want ? "spec.containers.cmesh-localproxy.env.CMESH_COUNT_LOAD.value=true"
                      : "!spec.containers.cmesh-localproxy.env.CMESH_COUNT_LOAD");
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void the_load_is_counted_where_it_is_wanted(void **state)
{
    (void)state;
    expect_counting(false, "", false);
    expect_counting(true, "", true);
    expect_counting(false, "m.io/count-load: 'true'", true);
    expect_counting(true, "m.io/count-load: 'false'", false);
    expect_counting(true, "m.io/count-load: ''", true);
    struct inject_settings s = settings_of(false);
    s.prefix = "m.io";
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    cJSON *pod = pod_of("m.io/count-load: 'yes'", "", "containers: [" OPERATOR "]");
    assert_int_equal(inject_pod(&s, pod, "ns", "x", NULL, &patch, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "count-load"));
    cJSON_Delete(pod);
    static const struct {
        const char *text;
        bool counts;
    } configs[] = {
        {"{metadata: {}}", false},
        {"{metadata: {annotations: {m.io/count-load: 'true'}}}", true},
        {"{metadata: {annotations: {m.io/count-load: 'false'}}}", false},
        {"{metadata: {annotations: {m.io/count-load: true}}}", false},
        {"{metadata: {labels: {m.io/count-load: 'true'}}}", false},
        {"{metadata: {annotations: {n.io/count-load: 'true'}}}", false},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        cJSON *config = parse(configs[i].text);
        assert_int_equal(inject_counts_load(&s, config), configs[i].counts);
        cJSON_Delete(config);
    }
}

static void pull_secrets_are_added_once(void **state)
{
    (void)state;
    static const char *const secrets[] = {"own", "regcred", "regcred", NULL};
    struct inject_settings s = settings_of(false);
    s.pull_secrets = secrets;
    for (int i = 0; i < 2; i++) {
        cJSON *pod = i == 0 ? parse("{metadata: {}, spec: {containers: [" OPERATOR "]}}")
                            : parse("{metadata: {}, spec: {imagePullSecrets: [{name: own}], "
                                    "containers: [" OPERATOR "]}}");
        cJSON *made = inject(&s, pod, NULL);
        expect(made, "spec.imagePullSecrets.0.name=own");
        expect(made, "spec.imagePullSecrets.1.name=regcred");
        expect(made, "!spec.imagePullSecrets.2");
        assert_null(inject(&s, made, NULL));
        cJSON_Delete(made);
        cJSON_Delete(pod);
    }
}

/* These outlive the operator without more ado. */
static void native_sidecars_need_no_delay(void **state)
{
    (void)state;
    struct inject_settings s = settings_of(true);
    struct warnings notes = WARNINGS_INIT;
    cJSON *pod = parse("{metadata: {}, spec: {restartPolicy: Never, containers: [" OPERATOR "]}}");
    cJSON *made = inject(&s, pod, &notes);
    expect(made, "spec.initContainers.cmesh-localproxy.args.6=--state=/run/cmesh/state");
    expect(made, "!spec.initContainers.cmesh-localproxy.args.7");
    expect(made, "!spec.initContainers.cmesh-rulesync.lifecycle");
    assert_int_equal(notes.count, 1); /* about the token */
    warnings_deinit(&notes);
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void server_versions(void **state)
{
    (void)state;
    static const struct {
        const char *major;
        const char *minor;
        bool want;
    } cases[] = {{"1", "20", false}, {"1", "28+", false}, {"1", "29", true}, {"1", "29+", true},
                 {"1", "32", true},  {"2", "0", true},    {"", "", false},   {"1", "", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(inject_native_sidecars(cases[i].major, cases[i].minor), cases[i].want);
    }
}

/* ---- the webhook ---- */

#define CONFIGS                                                                                    \
    "- {metadata: {name: a, namespace: demo}, spec: {selector: {matchLabels: {shard: a}}, "        \
    "controller: {userAgentOrPrefix: demo-a/}}}\n"                                                 \
    "- {metadata: {name: b, namespace: demo}, spec: {selector: {matchLabels: {app: b}}}}\n"

/* What the webhook does with a review. */
static int inject_admit(const struct admission_request *r, const struct inject_settings *s,
                        const struct shards_list *shards, struct warnings *warnings, cJSON **patch,
                        struct err *e)
{
    *patch = NULL;
    int rc = inject_asked(r, s, warnings, e);
    if (rc <= 0) {
        return rc;
    }
    const cJSON *config = inject_choose(s, shards, r->namespace, r->object, e);
    if (config == NULL) {
        return e->code;
    }
    struct inject_settings of_shard = *s;
    of_shard.user_agent = compile_user_agent(config);
    of_shard.count_load = inject_counts_load(s, config);
    return inject_pod(&of_shard, r->object, r->namespace, shards_name(config), warnings, patch, e);
}

static void what_the_webhook_does(void **state)
{
    (void)state;
    static const struct {
        const char *request; /* of a pod with these labels */
        const char *labels;
        int rc;
        const char *want; /* the shard, or the error; NULL: nothing is done */
    } cases[] = {
        {"operation: CREATE", "shard: a", 0, "a"},
        {"operation: CREATE", "app: b", 0, "b"},
        {"operation: CREATE", "app: none", -ENOENT,
         "no ShardingConfig in namespace \"demo\" selects this pod: create one first, or remove "
         "the label ctrlmesh.kusionstack.io/enable-proxy"},
        {"operation: CREATE", "app: b, shard: a", -EEXIST,
         "the ShardingConfigs \"a\" and \"b\" both select this pod"},
        {"operation: UPDATE", "shard: a", 0, NULL},
        {"operation: DELETE", "shard: a", 0, NULL},
        {"operation: CREATE, subResource: eviction", "shard: a", 0, NULL},
        {"operation: CREATE", "shard: a, ctrlmesh.kusionstack.io/enable-proxy: 'false'", 0, NULL},
        {"operation: CREATE", "shard: a, ctrlmesh.kusionstack.io/enable-proxy: ''", 0, NULL},
        {"operation: CREATE", "shard: a, ctrlmesh.kusionstack.io/ignore-webhook: 'true'", 0, NULL},
        {"operation: CREATE", "app: none, ctrlmesh.kusionstack.io/ignore-webhook: 'true'", 0, NULL},
        {"operation: CREATE", "shard: a, ctrlmesh.kusionstack.io/ignore-webhook: 'no'", 0, "a"},
    };
    struct inject_settings s = settings_of(true);
    cJSON *list = parse(CONFIGS);
    const struct shards_item items[] = {shards_item_of(list->child),
                                        shards_item_of(list->child->next)};
    const struct shards_list shards = {.items = items, .count = ARRAY_LEN(items)};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[2048];
        struct admission_request r;
        struct err e = ERR_INIT;
        cJSON *patch = NULL;
        bool enabled = strstr(cases[i].labels, "enable-proxy") == NULL;
        (void)snprintf(text, sizeof text,
                       "{kind: AdmissionReview, apiVersion: admission.k8s.io/v1, request: {uid: u, "
                       "%s, namespace: demo, resource: {resource: pods}, object: {metadata: "
                       "{labels: {%s%s}}, spec: {containers: [" OPERATOR "]}}}}",
                       cases[i].request, cases[i].labels,
                       enabled ? ", ctrlmesh.kusionstack.io/enable-proxy: 'true'" : "");
        cJSON *review = parse(text);
        char *json = print(review);
        assert_int_equal(admission_request_read(&r, slice_str(json), ADMISSION_OBJECTS, &e), 0);
        struct warnings notes = WARNINGS_INIT;
        assert_int_equal(inject_admit(&r, &s, &shards, &notes, &patch, &e), cases[i].rc);
        assert_int_equal(notes.count > 0 && strstr(notes.items[0], "it sees and changes") != NULL,
                         strstr(cases[i].labels, "ignore-webhook: 'true'") != NULL);
        warnings_deinit(&notes);
        assert_int_equal(patch != NULL, cases[i].rc == 0 && cases[i].want != NULL);
        if (patch != NULL) {
            char *printed = print(patch);
            char volume[64];
            (void)snprintf(volume, sizeof volume, "\"cmesh-rules-%s\"", cases[i].want);
            assert_non_null(strstr(printed, volume));
            (void)snprintf(volume, sizeof volume, "\"--shard=demo/%s\"", cases[i].want);
            assert_non_null(strstr(printed, volume));
            assert_int_equal(strstr(printed, "\"demo-a/\"") != NULL,
                             strcmp(cases[i].want, "a") == 0);
            free(printed);
        } else if (cases[i].want != NULL) {
            assert_non_null(strstr(e.msg, cases[i].want));
        }
        cJSON_Delete(patch);
        admission_request_deinit(&r);
        free(json);
        cJSON_Delete(review);
    }
    cJSON_Delete(list);
}

/* The kubelet runs what its file says, whatever the API server has. */
static void static_pods_are_left_alone(void **state)
{
    (void)state;
    static const char review[] =
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":"
        "\"u\",\"operation\":\"CREATE\",\"namespace\":\"demo\",\"resource\":{\"resource\":\"pods\"}"
        ","
        "\"object\":{\"metadata\":{\"labels\":{\"ctrlmesh.kusionstack.io/enable-proxy\":\"true\"},"
        "\"annotations\":{\"kubernetes.io/config.mirror\":\"x\"}},\"spec\":{}}}}";
    struct inject_settings s = settings_of(false);
    struct warnings notes = WARNINGS_INIT;
    struct admission_request r;
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    assert_int_equal(admission_request_read(&r, slice_str(review), ADMISSION_OBJECTS, &e), 0);
    assert_int_equal(inject_admit(&r, &s, &(struct shards_list){.count = 0}, &notes, &patch, &e),
                     0);
    assert_null(patch);
    assert_int_equal(notes.count, 1);
    assert_non_null(strstr(notes.items[0], "static pods"));
    warnings_deinit(&notes);
    admission_request_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_pods),
        cmocka_unit_test(nothing_else_is_touched),
        cmocka_unit_test(the_sidecars_have_no_rights),
        cmocka_unit_test(what_pods_get),
        cmocka_unit_test(what_is_noted),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(changed_copies),
        cmocka_unit_test(pods_of_the_previous_release_are_left_as_they_are),
        cmocka_unit_test(nothing_is_injected_without_an_image),
        cmocka_unit_test(settings_are_used),
        cmocka_unit_test(localproxy_of_0_1_0_knows_its_flags),
        cmocka_unit_test(limits_are_those_of_every_container),
        cmocka_unit_test(the_shard_is_a_label_too),
        cmocka_unit_test(the_user_may_be_left_to_the_cluster),
        cmocka_unit_test(the_name_at_the_api_server),
        cmocka_unit_test(variables_for_the_sidecars),
        cmocka_unit_test(the_load_is_counted_where_it_is_wanted),
        cmocka_unit_test(pull_secrets_are_added_once),
        cmocka_unit_test(native_sidecars_need_no_delay),
        cmocka_unit_test(server_versions),
        cmocka_unit_test(static_pods_are_left_alone),
        cmocka_unit_test(what_the_webhook_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
