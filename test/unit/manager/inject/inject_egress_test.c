/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to other places than the API server: the annotation egress. */
#include "inject/inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "inject/inject_bounds.h"
#include "pod_case.h"

#define URL "http://127.0.0.1:15002"
#define OURS                                                                                       \
    "localhost,127.0.0.1,::1,$(KUBERNETES_SERVICE_HOST),kubernetes,kubernetes.default,"            \
    "kubernetes.default.svc,.svc,.cluster.local"
#define LISTENS "spec.containers.cmesh-localproxy.env.CMESH_EGRESS.value=127.0.0.1:15002"
#define LISTENS_NOT "!spec.containers.cmesh-localproxy.env.CMESH_EGRESS"
#define VIA "spec.containers.cmesh-localproxy.env.CMESH_EGRESS_VIA"
#define EXCEPT "spec.containers.cmesh-localproxy.env.CMESH_EGRESS_NO_PROXY"
#define OP(env) "containers: [{name: op, command: [/op], env: [" env "]}]"
#define ENV "spec.containers.op.env."
#define PROXY "m.io/egress: proxy"
#define CHAIN "m.io/egress: chain"

static struct inject_settings egress_settings(bool native)
{
    struct inject_settings s = settings_of(native);
    s.prefix = "m.io";
    return s;
}

struct egress_case {
    const char *annotations;
    const char *spec;
    const char *want[12];
    const char *note; /* NULL: nothing is said of egress */
};

static const char *note_of(const struct warnings *notes)
{
    const char *found = NULL;
    for (size_t i = 0; i < notes->count; i++) {
        bool about = strstr(notes->items[i], "egress") != NULL ||
                     strstr(notes->items[i], "other places") != NULL;
        found = about && found == NULL ? notes->items[i] : found;
    }
    return found;
}

static void expect_case(const struct inject_settings *s, const struct egress_case *c)
{
    struct warnings notes = WARNINGS_INIT;
    cJSON *pod = pod_of(c->annotations, "", c->spec);
    cJSON *made = inject(s, pod, &notes);
    for (size_t i = 0; i < ARRAY_LEN(c->want) && c->want[i] != NULL; i++) {
        expect(made, c->want[i]);
    }
    const char *note = note_of(&notes);
    bool right = c->note == NULL ? note == NULL : note != NULL && strstr(note, c->note) != NULL;
    if (!right) {
        fail_msg("%s, %s: wanted \"%s\", noted \"%s\"", c->annotations, c->spec, c->note, note);
    }
    /* The second time nothing is left to do. */
    assert_null(inject(s, made, NULL));
    warnings_deinit(&notes);
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

static void whether_localproxy_listens(void **state)
{
    (void)state;
    static const struct egress_case cases[] = {
        {"", OP(""), {LISTENS_NOT, "!" ENV "HTTP_PROXY"}, NULL},
        {"m.io/egress: ''", OP(""), {LISTENS_NOT, "!" ENV "HTTP_PROXY"}, NULL},
        {"m.io/egress: 'off'", OP(""), {LISTENS_NOT, "!" ENV "HTTP_PROXY"}, NULL},
        {PROXY,
         OP(""),
         {LISTENS, "!" VIA, "!" EXCEPT,
          "spec.containers.cmesh-localproxy.ports.cmesh-egress.containerPort=15002"},
         NULL},
        {CHAIN, OP(""), {LISTENS, "!" VIA, ENV "HTTPS_PROXY.value=" URL}, NULL},
        /* KusionStack's variables ask for the listener alone. */
        {"",
         OP("{name: ENABLE_REST_BREAKER, value: 'true'}"),
         {LISTENS, "!" ENV "HTTP_PROXY", "!" ENV "NO_PROXY"},
         NULL},
        {"",
         OP("{name: ENABLE_REST_FAULT_INJECTION, value: 'true'}"),
         {LISTENS, "!" ENV "HTTP_PROXY"},
         NULL},
        {"", OP("{name: ENABLE_REST_BREAKER, value: 'yes'}"), {LISTENS_NOT}, NULL},
        {"", OP("{name: ENABLE_REST_BREAKER, valueFrom: {}}"), {LISTENS_NOT}, NULL},
        {"m.io/egress: 'off'",
         OP("{name: ENABLE_REST_BREAKER, value: 'true'}"),
         {LISTENS_NOT},
         NULL},
        {PROXY,
         OP("{name: ENABLE_REST_BREAKER, value: 'true'}"),
         {LISTENS, ENV "HTTP_PROXY.value=" URL},
         NULL},
        {"m.io/operator-containers: op",
         "containers: [" OPERATOR ", {name: b, env: [{name: ENABLE_REST_BREAKER, value: 'true'}]}]",
         {LISTENS_NOT},
         NULL},
        {"m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"ENABLE_REST_BREAKER\",\"value\":"
         "\"true\"}]}]'",
         OP(""),
         {LISTENS, ENV "ENABLE_REST_BREAKER.value=true"},
         NULL},
        {"",
         "hostNetwork: true, " OP("{name: ENABLE_REST_BREAKER, value: 'true'}"),
         {LISTENS_NOT},
         "spec.hostNetwork: localproxy does not listen for requests to other places"},
        {"m.io/egress: 'off'",
         "hostNetwork: true, " OP("{name: ENABLE_REST_BREAKER, value: 'true'}"),
         {LISTENS_NOT},
         NULL},
        /* The port is another's as long as nobody listens there. */
        {"",
         "containers: [{name: op, command: [/op], ports: [{containerPort: 15002}]}]",
         {LISTENS_NOT},
         NULL},
    };
    struct inject_settings s = egress_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_case(&s, &cases[i]);
    }
}

static void variables_that_are_set(void **state)
{
    (void)state;
    static const struct egress_case cases[] = {
        {PROXY,
         OP(""),
         {ENV "HTTP_PROXY.value=" URL, ENV "http_proxy.value=" URL, ENV "HTTPS_PROXY.value=" URL,
          ENV "https_proxy.value=" URL, ENV "NO_PROXY.value=" OURS, ENV "no_proxy.value=" OURS,
          "!" ENV "ALL_PROXY", "!spec.containers.cmesh-localproxy.env.HTTP_PROXY",
          "!spec.containers.cmesh-rulesync.env"},
         NULL},
        /* An empty one is none. */
        {PROXY,
         OP("{name: HTTP_PROXY, value: ''}, {name: https_proxy}"),
         {ENV "HTTP_PROXY.value=" URL, ENV "https_proxy.value=" URL, ENV "HTTPS_PROXY.value=" URL},
         NULL},
        /* Only operator containers. */
        {PROXY ", m.io/operator-containers: op",
         "initContainers: [{name: i}], containers: [" OPERATOR ", {name: b, command: [/b]}]",
         {ENV "HTTP_PROXY.value=" URL, "!spec.containers.b.env", "!spec.initContainers.i.env"},
         NULL},
        {PROXY,
         "containers: [" OPERATOR ", {name: b, command: [/b]}]",
         {ENV "HTTP_PROXY.value=" URL, "spec.containers.b.env.HTTP_PROXY.value=" URL},
         NULL},
        /* NO_PROXY keeps what it had, in its place, and gets what is missing. */
        {PROXY,
         OP("{name: NO_PROXY, value: 'a.example, .svc,127.0.0.1,$(X)'}, {name: A}"),
         {ENV "3.name=NO_PROXY",
          ENV "3.value=a.example, .svc,127.0.0.1,$(X),localhost,::1,$(KUBERNETES_SERVICE_HOST),"
              "kubernetes,kubernetes.default,kubernetes.default.svc,.cluster.local",
          ENV "no_proxy.value=a.example, .svc,127.0.0.1,$(X),localhost,::1,"
              "$(KUBERNETES_SERVICE_HOST),kubernetes,kubernetes.default,kubernetes.default.svc,"
              ".cluster.local"},
         NULL},
        /* Blanks separate nothing, for most programs split at commas alone. */
        {PROXY,
         OP("{name: NO_PROXY, value: 'a.example 127.0.0.1 .svc, .cluster.local ,* b'}"),
         {ENV "NO_PROXY.value=a.example 127.0.0.1 .svc, .cluster.local ,* b,localhost,127.0.0.1,"
              "::1,$(KUBERNETES_SERVICE_HOST),kubernetes,kubernetes.default,kubernetes.default.svc,"
              ".svc"},
         NULL},
        {PROXY,
         OP("{name: no_proxy, value: a}, {name: NO_PROXY, value: b}"),
         {ENV "no_proxy.value=a," OURS, ENV "NO_PROXY.value=b," OURS},
         NULL},
        {PROXY,
         OP("{name: no_proxy, value: '" OURS "'}"),
         {ENV "no_proxy.value=" OURS, ENV "NO_PROXY.value=" OURS},
         NULL},
        /* Of several the last one counts. */
        {PROXY,
         OP("{name: HTTP_PROXY, value: 'http://p'}, {name: HTTP_PROXY, value: ''}, {name: "
            "NO_PROXY, "
            "value: a}, {name: NO_PROXY, value: b}"),
         {ENV "3.value=http://p", ENV "4.value=" URL, ENV "5.value=a", ENV "6.value=b," OURS,
          ENV "no_proxy.value=b," OURS},
         NULL},
        /* What comes from elsewhere is referred to. */
        {PROXY,
         OP("{name: A}, {name: NO_PROXY, valueFrom: {configMapKeyRef: {name: c, key: k}}}"),
         {ENV "CMESH_POD_NO_PROXY.valueFrom.configMapKeyRef.name=c",
          ENV "3.name=CMESH_POD_NO_PROXY", ENV "5.name=NO_PROXY", "!" ENV "5.valueFrom",
          ENV "5.value=$(CMESH_POD_NO_PROXY)," OURS,
          ENV "no_proxy.value=$(CMESH_POD_NO_PROXY)," OURS},
         NULL},
        {PROXY,
         OP("{name: NO_PROXY, value: a}, {name: no_proxy, valueFrom: {configMapKeyRef: {key: k}}}"),
         {ENV "NO_PROXY.value=a," OURS, ENV "no_proxy.value=$(CMESH_POD_no_proxy)," OURS,
          "!" ENV "CMESH_POD_NO_PROXY"},
         NULL},
        {PROXY,
         OP("{name: NO_PROXY, value: '*'}"),
         {ENV "NO_PROXY.value=*", ENV "no_proxy.value=*"},
         "m.io/egress: spec.containers[op]: NO_PROXY has \"*\": its requests do not pass"},
        /* What leads there already. */
        {PROXY,
         OP("{name: HTTPS_PROXY, value: '" URL "'}"),
         {ENV "HTTPS_PROXY.value=" URL, "!" ENV "HTTP_PROXY", "!" ENV "NO_PROXY"},
         NULL},
        {PROXY,
         OP("{name: HTTPS_PROXY, value: 'http://localhost:15002/'}"),
         {ENV "HTTPS_PROXY.value=http://localhost:15002/", "!" ENV "HTTP_PROXY"},
         NULL},
        /* From a prefix nothing of these names comes. */
        {PROXY,
         "containers: [{name: op, command: [/op], envFrom: [{prefix: APP_, configMapRef: {name: "
         "c}}]}]",
         {ENV "HTTP_PROXY.value=" URL},
         NULL},
        {PROXY ", m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"NO_PROXY\",\"value\":"
               "\"x\"}]}]'",
         OP(""),
         {ENV "NO_PROXY.value=x," OURS},
         NULL},
    };
    struct inject_settings s = egress_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_case(&s, &cases[i]);
    }
}

static void proxies_of_the_pod_are_left_alone(void **state)
{
    (void)state;
#define LEFT                                                                                       \
    "spec.containers[op]: has a proxy of its own, which was left as it is: its requests do "
    static const struct egress_case cases[] = {
        {PROXY,
         OP("{name: HTTPS_PROXY, value: 'http://corp:3128'}"),
         {LISTENS, ENV "HTTPS_PROXY.value=http://corp:3128", "!" ENV "https_proxy",
          "!" ENV "HTTP_PROXY", "!" ENV "NO_PROXY", "!" VIA},
         LEFT "not pass localproxy; \"chain\" lets localproxy go through that proxy"},
        {PROXY, OP("{name: http_proxy, value: p}"), {"!" ENV "HTTPS_PROXY"}, LEFT},
        {PROXY, OP("{name: all_proxy, value: 'socks5://p'}"), {"!" ENV "HTTPS_PROXY"}, LEFT},
        {PROXY,
         OP("{name: HTTP_PROXY, valueFrom: {secretKeyRef: {name: s, key: k}}}"),
         {"!" ENV "HTTPS_PROXY", ENV "HTTP_PROXY.valueFrom.secretKeyRef.name=s"},
         LEFT},
        {PROXY,
         OP("{name: HTTP_PROXY, value: '" URL "'}, {name: HTTPS_PROXY, value: p}"),
         {ENV "HTTPS_PROXY.value=p"},
         LEFT},
        {PROXY ", m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"HTTP_PROXY\",\"value\":"
               "\"http://p\"}]}]'",
         OP(""),
         {ENV "HTTP_PROXY.value=http://p", "!" ENV "HTTPS_PROXY"},
         LEFT},
        {PROXY,
         "containers: [{name: op, env: [{name: HTTP_PROXY, value: p}]}, {name: b}]",
         {ENV "HTTP_PROXY.value=p", "spec.containers.b.env.HTTP_PROXY.value=" URL},
         LEFT},
        {PROXY,
         "containers: [{name: op, command: [/op], envFrom: [{configMapRef: {name: c}}]}]",
         {LISTENS, "!" ENV "HTTP_PROXY", "!" ENV "NO_PROXY"},
         "spec.containers[op]: envFrom may set a proxy, so none was set: its requests do not pass "
         "localproxy unless HTTP_PROXY, HTTPS_PROXY and NO_PROXY lead there"},
        {PROXY,
         "containers: [{name: op, envFrom: [{prefix: X}, {prefix: H, secretRef: {name: c}}]}]",
         {"!" ENV "HTTP_PROXY"},
         "envFrom may set a proxy"},
        {PROXY,
         "containers: [{name: op, envFrom: [{prefix: HT, secretRef: {name: c}}]}]",
         {"!" ENV "HTTP_PROXY"},
         "envFrom may set a proxy"},
        {CHAIN,
         "containers: [{name: op, envFrom: [{configMapRef: {name: c}}]}]",
         {LISTENS, "!" ENV "HTTP_PROXY", "!" VIA},
         "envFrom may set a proxy"},
        {PROXY,
         "containers: [{name: op, env: [{name: HTTPS_PROXY, value: '" URL
         "'}], envFrom: [{configMapRef: {name: c}}]}]",
         {"!" ENV "HTTP_PROXY"},
         NULL},
    };
    struct inject_settings s = egress_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_case(&s, &cases[i]);
    }
}

static void proxies_of_the_pod_are_chained(void **state)
{
    (void)state;
#define LED                                                                                        \
    "m.io/egress: spec.containers[op]: the proxy variables lead to localproxy now, which goes "    \
    "through the proxy that they named"
    static const struct egress_case cases[] = {
        {CHAIN,
         OP("{name: HTTP_PROXY, value: 'http://u:p@corp:3128'}, {name: HTTPS_PROXY, value: "
            "'http://u:p@corp:3128/'}, {name: NO_PROXY, value: "
            "'.corp,$(KUBERNETES_SERVICE_HOST)'}"),
         {LISTENS, VIA ".value=http://u:p@corp:3128",
          EXCEPT ".value=.corp,$(KUBERNETES_SERVICE_HOST)", ENV "HTTP_PROXY.value=" URL,
          ENV "http_proxy.value=" URL, ENV "HTTPS_PROXY.value=" URL, ENV "https_proxy.value=" URL,
          ENV "no_proxy.value=.corp,$(KUBERNETES_SERVICE_HOST),localhost,127.0.0.1,::1,kubernetes,"
              "kubernetes.default,kubernetes.default.svc,.svc,.cluster.local"},
         LED},
        /* In the place where it was: others may refer to it. */
        {CHAIN,
         OP("{name: https_proxy, value: 'corp:3128'}, {name: B}, {name: http_proxy, value: "
            "'HTTP://corp:3128'}"),
         {ENV "3.value=" URL, ENV "4.name=B", VIA ".value=HTTP://corp:3128", "!" EXCEPT,
          ENV "NO_PROXY.value=" OURS},
         LED},
        /* A password that is elsewhere stays there. */
        {CHAIN,
         OP("{name: HTTPS_PROXY, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: HTTP_PROXY, "
            "valueFrom: {secretKeyRef: {key: k, name: s}}}, {name: no_proxy, valueFrom: "
            "{configMapKeyRef: {name: c, key: m}}}"),
         {VIA ".valueFrom.secretKeyRef.name=s", "!" VIA ".value",
          EXCEPT ".valueFrom.configMapKeyRef.key=m", ENV "HTTPS_PROXY.value=" URL,
          "!" ENV "HTTPS_PROXY.valueFrom", ENV "no_proxy.value=$(CMESH_POD_no_proxy)," OURS,
          ENV "NO_PROXY.value=$(CMESH_POD_no_proxy)," OURS},
         LED},
        {CHAIN,
         OP("{name: ALL_PROXY, value: 'http://corp'}, {name: HTTP_PROXY, value: 'http://corp'}, "
            "{name: HTTPS_PROXY, value: 'http://corp'}"),
         {ENV "ALL_PROXY.value=" URL, ENV "all_proxy.value=" URL, ENV "HTTP_PROXY.value=" URL},
         LED},
        {CHAIN ", m.io/env-inject: '[{\"name\":\"op\",\"env\":[{\"key\":\"HTTP_PROXY\",\"value\":"
               "\"http://p\"},{\"key\":\"HTTPS_PROXY\",\"value\":\"http://p\"}]}]'",
         OP(""),
         {VIA ".value=http://p", ENV "HTTP_PROXY.value=" URL},
         LED},
        /* Others than the operator keep theirs, whatever it is. */
        {CHAIN ", m.io/operator-containers: op",
         "containers: [{name: op, env: [{name: HTTP_PROXY, value: p}, {name: HTTPS_PROXY, value: "
         "p}]}, {name: b, env: [{name: HTTP_PROXY, value: 'socks5://q'}]}]",
         {VIA ".value=p", "spec.containers.b.env.HTTP_PROXY.value=socks5://q"},
         LED},
        {CHAIN,
         OP("{name: HTTP_PROXY, value: '" URL "'}, {name: HTTPS_PROXY, value: 'http://corp'}"),
         {VIA ".value=http://corp", ENV "HTTPS_PROXY.value=" URL},
         LED},
        {CHAIN, OP("{name: HTTP_PROXY, value: '" URL "'}"), {"!" VIA, "!" ENV "HTTPS_PROXY"}, NULL},
        {CHAIN,
         OP("{name: HTTP_PROXY, value: '" URL "/'}, {name: HTTPS_PROXY, value: "
            "'HTTP://Localhost:15002'}, {name: https_proxy, value: '127.0.0.1:15002'}"),
         {LISTENS, "!" VIA, ENV "HTTP_PROXY.value=" URL "/"},
         NULL},
        {CHAIN,
         OP("{name: HTTP_PROXY, value: 'http://localhost:15003'}"),
         {VIA ".value=http://localhost:15003"},
         "lead to localproxy now"},
        {CHAIN,
         "containers: [{name: op, envFrom: [{configMapRef: {name: c}}], env: [{name: HTTP_PROXY, "
         "value: p}, {name: HTTPS_PROXY, value: p}, {name: NO_PROXY, value: x}]}]",
         {VIA ".value=p", EXCEPT ".value=x"},
         LED},
    };
    struct inject_settings s = egress_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_case(&s, &cases[i]);
    }
    /* What has no proxy is not given one. */
    expect_note(&s, pod_of(CHAIN, "", OP("{name: HTTPS_PROXY, value: 'http://corp'}")),
                "spec.containers[op]: HTTP_PROXY or HTTPS_PROXY is not set: such requests do not "
                "pass localproxy");
    const struct egress_case half = {
        CHAIN,
        OP("{name: HTTPS_PROXY, value: 'http://corp'}"),
        {ENV "https_proxy.value=" URL, "!" ENV "HTTP_PROXY", "!" ENV "http_proxy"},
        LED};
    expect_case(&s, &half);
#define TWO                                                                                        \
    "containers: [{name: op, env: [{name: HTTPS_PROXY, value: p}]}, {name: b, command: [/b]}]"
    const struct egress_case two = {
        CHAIN, TWO, {VIA ".value=p", "!spec.containers.b.env.HTTPS_PROXY"}, LED};
    expect_case(&s, &two);
    expect_note(&s, pod_of(CHAIN, "", TWO),
                "spec.containers[b]: has no proxy, unlike other containers, and none was set");
}

static void what_is_refused(void **state)
{
    (void)state;
#define KEY "metadata.annotations[m.io/egress]: Invalid value: "
#define CHAIN_KEY KEY "\"chain\": spec.containers[op].env"
    static const struct {
        const char *annotations;
        const char *spec;
        const char *want;
    } cases[] = {
        {"m.io/egress: 'true'", OP(""), KEY "must be \"proxy\", \"chain\" or \"off\""},
        {"m.io/egress: Proxy", OP(""), KEY "must be"},
        {"m.io/egress: 'proxy '", OP(""), KEY "must be"},
        {PROXY, "hostNetwork: true, " OP(""), KEY "\"proxy\": the pod is on the host's network"},
        {CHAIN, "hostNetwork: true, " OP(""), KEY "\"chain\": the pod is on the host's network"},
        {PROXY, "containers: [{name: op, ports: [{containerPort: 15002}]}]",
         "spec.containers[0].ports[0].containerPort: Invalid value: 15002: is a port of the"},
        {"",
         "containers: [{name: op, ports: [{containerPort: 15002}], env: [{name: "
         "ENABLE_REST_BREAKER, value: 'true'}]}]",
         "spec.containers[0].ports[0].containerPort: Invalid value: 15002: is a port of the"},
        {PROXY,
         "containers: [" OPERATOR "], initContainers: [{name: n, restartPolicy: Always, ports: "
         "[{containerPort: 15002}]}]",
         "spec.initContainers[0].ports[0].containerPort: Invalid value: 15002: is a port of the"},
        {PROXY, "containers: [{name: op, env: {HTTP_PROXY: x}}]",
         "the pod has a field of the wrong type"},
        {CHAIN, OP("{name: HTTP_PROXY, value: 'https://u:secret@p'}"),
         CHAIN_KEY "[HTTP_PROXY]: a proxy that speaks TLS itself (https://) is not supported"},
        {CHAIN, OP("{name: ALL_PROXY, value: 'socks5://p:1080'}"),
         CHAIN_KEY "[ALL_PROXY]: only HTTP proxies are supported, SOCKS is not"},
        {CHAIN, OP("{name: HTTP_PROXY, value: 'http://$(USER):$(PASSWORD)@p:1'}"),
         CHAIN_KEY "[HTTP_PROXY]: refers to variables that localproxy does not have"},
        {CHAIN, OP("{name: HTTP_PROXY, value: 5}"), CHAIN_KEY "[HTTP_PROXY]: must be a text"},
        {CHAIN, OP("{name: HTTP_PROXY, value: p}, {name: NO_PROXY, value: [a]}"),
         CHAIN_KEY "[NO_PROXY]: must be a text"},
        {CHAIN,
         OP("{name: HTTP_PROXY, value: p}, {name: NO_PROXY, value: 'a,$(KUBERNETES_SERVICE_"
            "NAME)'}"),
         CHAIN_KEY "[NO_PROXY]: refers to variables that localproxy does not have"},
        {CHAIN,
         OP("{name: HTTP_PROXY, value: 'http://p:1'}, {name: https_proxy, value: "
            "'http://p:2'}"),
         CHAIN_KEY "[https_proxy]: is another proxy than a variable before it names"},
        {CHAIN,
         OP("{name: HTTP_PROXY, value: 'http://p:1'}, {name: https_proxy, valueFrom: {x: "
            "y}}"),
         CHAIN_KEY "[https_proxy]: is another proxy than a variable before it names"},
        {CHAIN, OP("{name: HTTP_PROXY, valueFrom: {x: z}}, {name: https_proxy, valueFrom: {x: y}}"),
         CHAIN_KEY "[https_proxy]: is another proxy than a variable before it names"},
        {CHAIN,
         OP("{name: HTTP_PROXY, value: p}, {name: NO_PROXY, value: a}, {name: no_proxy, "
            "value: b}"),
         CHAIN_KEY "[no_proxy]: is another one than NO_PROXY"},
        {CHAIN,
         "containers: [{name: op, envFrom: [{configMapRef: {}}], env: [{name: HTTP_PROXY, value: "
         "p}]}]",
         CHAIN_KEY "[NO_PROXY]: may come by envFrom, which nobody sees: set it"},
        {CHAIN,
         "containers: [{name: a, env: [{name: HTTP_PROXY, value: p}]}, {name: op, env: [{name: "
         "HTTP_PROXY, value: q}]}]",
         CHAIN_KEY "[HTTP_PROXY]: is another proxy than a variable before it names"},
        {CHAIN,
         "containers: [{name: a, env: [{name: HTTP_PROXY, value: p}]}, {name: op, env: [{name: "
         "HTTP_PROXY, value: p}, {name: NO_PROXY, value: x}]}]",
         CHAIN_KEY "[NO_PROXY]: differs from that of another container with a proxy"},
        {CHAIN,
         "containers: [{name: a, env: [{name: HTTP_PROXY, value: p}, {name: NO_PROXY, value: z}]}, "
         "{name: op, env: [{name: HTTP_PROXY, value: p}, {name: NO_PROXY, value: x}]}]",
         CHAIN_KEY "[NO_PROXY]: differs from that of another container with a proxy"},
    };
    struct inject_settings s = egress_settings(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_refused(&s, pod_of(cases[i].annotations, "", cases[i].spec), cases[i].want);
    }
}

/* With native sidecars, another domain, and what an installation gives to all pods. */
static void settings_are_used(void **state)
{
    (void)state;
    static const char *const all[] = {"--egress-idle=60", "--egress=127.0.0.1:3000",
                                      "--egress-max-tunnels=9", "--log-level=debug", NULL};
    static const char *const some[] = {"--egress=", "--egress-max-tunnels=9", NULL};
#define NATIVE "spec.initContainers.cmesh-localproxy."
#define THREE "http://127.0.0.1:3000"
    struct inject_settings s = egress_settings(true);
    s.cluster_domain = "k8s.example";
    s.proxy_args = all;
    const struct egress_case cases[] = {
        {PROXY,
         OP(""),
         {NATIVE "env.CMESH_EGRESS.value=127.0.0.1:3000", NATIVE "args.7=--egress-idle=60",
          NATIVE "args.8=--egress-max-tunnels=9", NATIVE "args.9=--log-level=debug",
          "!" NATIVE "args.10", NATIVE "ports.cmesh-egress.containerPort=3000",
          ENV "HTTP_PROXY.value=" THREE,
          ENV "NO_PROXY.value=localhost,127.0.0.1,::1,$(KUBERNETES_SERVICE_HOST),kubernetes,"
              "kubernetes.default,kubernetes.default.svc,.svc,.k8s.example"},
         NULL},
        {"", OP(""), {NATIVE "env.CMESH_EGRESS.value=127.0.0.1:3000", "!" ENV "HTTP_PROXY"}, NULL},
        {"m.io/egress: 'off'",
         OP(""),
         {"!" NATIVE "env.CMESH_EGRESS", NATIVE "args.7=--log-level=debug", "!" NATIVE "args.8"},
         NULL},
        {"",
         "hostNetwork: true, " OP(""),
         {"!" NATIVE "env.CMESH_EGRESS", NATIVE "args.7=--log-level=debug", "!" NATIVE "args.8"},
         "spec.hostNetwork: localproxy does not listen"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_case(&s, &cases[i]);
    }
    expect_refused(&s, pod_of("", "", "containers: [{name: op, ports: [{containerPort: 3000}]}]"),
                   "spec.containers[0].ports[0].containerPort: Invalid value: 3000: is a port");
    s.proxy_args = some;
    const struct egress_case none = {
        "", OP(""), {"!" NATIVE "env.CMESH_EGRESS", "!" NATIVE "args.7"}, NULL};
    const struct egress_case own = {PROXY,
                                    OP(""),
                                    {NATIVE "env.CMESH_EGRESS.value=127.0.0.1:15002",
                                     NATIVE "args.7=--egress-max-tunnels=9", "!" NATIVE "args.8"},
                                    NULL};
    expect_case(&s, &none);
    expect_case(&s, &own);
}

/* As many variables as a pod may have, all of which are looked at. */
static void many_variables(void **state)
{
    (void)state;
    struct inject_settings s = egress_settings(false);
    cJSON *pod = pod_of(CHAIN, "", OP(""));
    cJSON *container = cJSON_GetArrayItem((cJSON *)at(pod, "spec.containers"), 0);
    cJSON *env = cJSON_GetObjectItem(container, "env");
    for (int i = 0; i < INJECT_VARIABLES_MAX; i++) {
        cJSON *variable = cJSON_CreateObject();
        const char *name = i % 2 == 0 ? "HTTP_PROXY" : "NO_PROXY";
        assert_non_null(cJSON_AddStringToObject(variable, "name", name));
        assert_non_null(cJSON_AddStringToObject(variable, "value", i % 2 == 0 ? "p" : ".svc"));
        assert_true(cJSON_AddItemToArray(env, variable));
    }
    cJSON *made = inject(&s, pod, NULL);
    expect(made, VIA ".value=p");
    expect(made, ENV "9999.value=p"); /* three come before */
    expect(made, ENV "10001.value=" URL);
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whether_localproxy_listens),
        cmocka_unit_test(variables_that_are_set),
        cmocka_unit_test(proxies_of_the_pod_are_left_alone),
        cmocka_unit_test(proxies_of_the_pod_are_chained),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(settings_are_used),
        cmocka_unit_test(many_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
