/* SPDX-License-Identifier: Apache-2.0 */
/* The port by which reviews for the operator's own webhooks reach the pods of one shard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "compile/compile.h"
#include "pod_case.h"

/* Of operator-demo/sharding-demo, which pod_case.h injects. */
#define NAME "wh-9138df71"
/* Of ns/sharding-demo, where it expects a refusal. */
#define REFUSING "wh-5d8533d4"
#define DECLARED "{name: op, command: [/op], ports: [{name: hooks, containerPort: 9443}]}"

static struct inject_settings with_port(bool native, unsigned port)
{
    struct inject_settings s = settings_of(native);
    s.prefix = "m.io";
    s.webhook_port = port;
    return s;
}

/* How many ports of the name containers have. */
static unsigned count_ports(const cJSON *pod, const char *name)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"};
    unsigned count = 0;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const cJSON *c;
        cJSON_ArrayForEach(c, at(pod, lists[i]))
        {
            const cJSON *port;
            cJSON_ArrayForEach(port, at(c, "ports"))
            {
                const cJSON *found = at(port, "name");
                count += found != NULL && strcmp(found->valuestring, name) == 0 ? 1 : 0;
            }
        }
    }
    return count;
}

static void where_it_is_put(void **state)
{
    (void)state;
    static const struct {
        const char *annotations;
        const char *spec;
        const char *want; /* the container, and which of its ports it is */
    } cases[] = {
        {"", "containers: [" DECLARED "]", "op.ports.1"},
        {"", "containers: [" OPERATOR "]", "op.ports.0"},
        {"", "containers: [{name: side}, " DECLARED "]", "op.ports.1"},
        {"", "containers: [{name: side}, " OPERATOR "]", "side.ports.0"},
        {"kubectl.kubernetes.io/default-container: op", "containers: [{name: side}, " OPERATOR "]",
         "op.ports.0"},
        {"m.io/operator-containers: op", "containers: [{name: side}, " OPERATOR "]", "op.ports.0"},
        /* What the operator is not has its port. */
        {"m.io/operator-containers: op",
         "containers: [{name: side, ports: [{containerPort: 9443}]}, " OPERATOR "]", "op.ports.0"},
        {"",
         "initContainers: [{name: i, ports: [{containerPort: 9443}]}], containers: [" OPERATOR "]",
         "op.ports.0"},
        /* One of another protocol, or number, is not it. */
        {"",
         "containers: [{name: a, ports: [{containerPort: 9443, protocol: UDP}]},"
         " {name: b, ports: [{containerPort: 943}]}, {name: c, ports: [{containerPort: 9443}]}]",
         "c.ports.1"},
        /* Two that have it cannot both listen. */
        {"",
         "containers: [{name: a, ports: [{containerPort: 9443}]}, {name: b, ports: "
         "[{containerPort: 9443}]}]",
         "a.ports.1"},
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        const struct inject_settings s = with_port(i % 2 == 1, 9443);
        char path[128];
        cJSON *pod = pod_of(cases[i / 2].annotations, "", cases[i / 2].spec);
        cJSON *made = inject(&s, pod, NULL);
        (void)snprintf(path, sizeof path, "spec.containers.%s", cases[i / 2].want);
        const cJSON *port = at(made, path);
        assert_non_null(port);
        expect(port, "name=" NAME);
        expect(port, "containerPort=9443");
        expect(port, "protocol=TCP");
        expect(port, "!hostPort");
        expect(port, "!hostIP");
        assert_int_equal(count_ports(made, NAME), 1);
        assert_null(inject(&s, made, NULL)); /* invoked again */
        cJSON_Delete(made);
        cJSON_Delete(pod);
    }
}

static void what_is_there_stays(void **state)
{
    (void)state;
    const struct inject_settings s = with_port(true, 9443);
    cJSON *pod = pod_of("", "", "containers: [" DECLARED "]");
    cJSON *made = inject(&s, pod, NULL);
    expect(made, "spec.containers.op.ports.0.name=hooks");
    expect(made, "spec.containers.op.ports.0.containerPort=9443");
    expect(made, "!spec.containers.op.ports.2");
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void not_without_the_shards_port(void **state)
{
    (void)state;
    const struct inject_settings s = with_port(true, 0);
    cJSON *pod = pod_of("", "", "containers: [" DECLARED "]");
    cJSON *made = inject(&s, pod, NULL);
    expect(made, "!spec.containers.op.ports.1");
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* Somebody who gave the name to the port already gets no second one. */
static void the_name_may_be_there(void **state)
{
    (void)state;
    const struct inject_settings s = with_port(true, 9443);
    cJSON *pod = pod_of("", "",
                        "containers: [" OPERATOR ", {name: hooks, ports: [{name: " NAME
                        ", containerPort: 9443, protocol: TCP}]}]");
    cJSON *made = inject(&s, pod, NULL);
    assert_int_equal(count_ports(made, NAME), 1);
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void names_that_lead_elsewhere(void **state)
{
    (void)state;
    static const struct {
        unsigned port; /* of the shard */
        const char *spec;
        const char *words;
    } cases[] = {
        {9443, "containers: [{name: op, ports: [{name: " REFUSING ", containerPort: 9444}]}]",
         "spec.containers[op].ports: Invalid value: name \"" REFUSING
         "\": belongs to TCP port 9443, spec.webhook.port of the ShardingConfig: remove it"},
        {9443,
         "containers: [{name: op, ports: [{name: " REFUSING
         ", containerPort: 9443, protocol: UDP}]}]",
         "spec.containers[op].ports: Invalid value: name \"" REFUSING "\": belongs to TCP port"},
        {9443, "containers: [{name: op, ports: [{name: wh-01234567, containerPort: 9443}]}]",
         "spec.containers[op].ports: Invalid value: name \"wh-01234567\": leads reviews for "
         "webhooks of another shard to this pod: remove it, or rename the port"},
        {9443,
         "containers: [" OPERATOR "], initContainers: [{name: side, restartPolicy: Always, ports: "
         "[{name: wh-hold, containerPort: 1}]}]",
         "spec.initContainers[side].ports: Invalid value: name \"wh-hold\": leads reviews"},
        {0, "containers: [{name: op, ports: [{name: " REFUSING ", containerPort: 9443}]}]",
         "spec.containers[op].ports: Invalid value: name \"" REFUSING "\": leads reviews"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct inject_settings s = with_port(true, cases[i].port);
        expect_refused(&s, pod_of("", "", cases[i].spec), cases[i].words);
    }
    const struct inject_settings s = with_port(true, 9443);
    cJSON *pod =
        pod_of("", "", "containers: [{name: op, ports: [{name: wh-mine, containerPort: 9}]}]");
    cJSON *made = inject(&s, pod, NULL);
    expect(made, "spec.containers.op.ports.1.name=" NAME);
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* The API server gives each port there a hostPort, and refuses two for the same address. */
static void on_the_hosts_network(void **state)
{
    (void)state;
    static const struct {
        const char *ports;
        const char *want; /* hostIP; NULL: none */
    } cases[] = {
        {"[]", NULL},
        {"[{name: p, containerPort: 9443, hostPort: 9443}]", "0.0.0.0"},
        {"[{name: p, containerPort: 9443, hostPort: 9443, hostIP: 10.0.0.1}]", NULL},
        {"[{name: p, containerPort: 9443, hostPort: 9443, hostIP: 0.0.0.0}]", NULL},
        {"[{name: p, containerPort: 9443, hostPort: 9443}, {name: p, containerPort: 9443, "
         "hostPort: 9443, hostIP: "
         "0.0.0.0}]",
         "127.0.0.1"},
        {"[{name: p, containerPort: 9443, hostPort: 9443, protocol: UDP}]", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct inject_settings s = with_port(true, 9443);
        char spec[512];
        (void)snprintf(spec, sizeof spec, "hostNetwork: true, containers: [{name: op, ports: %s}]",
                       cases[i].ports);
        cJSON *pod = pod_of("", "", spec);
        cJSON *made = inject(&s, pod, NULL);
        const cJSON *port = at(at(made, "spec.containers.op.ports"), NAME);
        expect(port, "hostPort=9443");
        if (cases[i].want == NULL) {
            expect(port, "!hostIP");
        } else {
            char want[64];
            (void)snprintf(want, sizeof want, "hostIP=%s", cases[i].want);
            expect(port, want);
        }
        cJSON_Delete(made);
        cJSON_Delete(pod);
    }
}

static void the_port_of_a_config(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        unsigned port;
    } cases[] = {
        {"{spec: {webhook: {port: 9443}}}", 9443},
        {"{spec: {webhook: {port: 65535}}}", 65535},
        {"{spec: {webhook: {certDir: /x}}}", 0},
        {"{spec: {}}", 0},
        {"{spec: {webhook: {port: 65536}}}", 0},
        {"{spec: {webhook: {port: -1}}}", 0},
        {"{spec: {webhook: {port: '9443'}}}", 0},
        {"{spec: {webhook: {port: 9443.5}}}", 0},
        {"{spec: {webhook: 9443}}", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *config = parse(cases[i].config);
        assert_int_equal(compile_webhook_port(config), cases[i].port);
        cJSON_Delete(config);
    }
}

static void what_a_config_says_of_handovers(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        bool holds;
    } cases[] = {
        {"{spec: {webhook: {duringHandover: Hold}}}", true},
        {"{spec: {webhook: {duringHandover: OldOwner}}}", false},
        {"{spec: {webhook: {port: 9443}}}", false},
        {"{spec: {}}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *config = parse(cases[i].config);
        assert_int_equal(compile_webhook_holds(config), cases[i].holds);
        cJSON_Delete(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_it_is_put),
        cmocka_unit_test(what_is_there_stays),
        cmocka_unit_test(not_without_the_shards_port),
        cmocka_unit_test(the_name_may_be_there),
        cmocka_unit_test(names_that_lead_elsewhere),
        cmocka_unit_test(on_the_hosts_network),
        cmocka_unit_test(the_port_of_a_config),
        cmocka_unit_test(what_a_config_says_of_handovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
