/* SPDX-License-Identifier: Apache-2.0 */
#include "run/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kube/name.h"
#include "label/labeller.h"
#include "object/names.h"

static const char description[] =
    "The manager makes operators run as shards. Without a command it runs: it compiles each "
    "ShardingConfig into the rules of its shard, publishes them as the ConfigMap " SIDECAR_CONFIGMAP
    "NAME beside it, tells the shard's pods, reads back from their proxies what they enforce, and "
    "writes it into the status. It labels namespaces and the objects in them with what selectors "
    "of limits may ask for, and serves the webhooks: labels, injection of the sidecars, validation "
    "of ShardingConfigs.\n"
    "Several may run: all serve webhooks, and one, elected by a Lease, writes.\n"
    "Commands, each with a --help of its own: `manager compile` does the compiling without a "
    "cluster; `manager unlabel` takes the labels away again.\n"
    "SIGTERM, SIGINT: give the Lease back, finish what was asked, end; a second one: at once.";

static const char examples[] =
    "    manager --in-cluster --sidecar-image=registry.example.com/cmesh:1.0\n"
    "    manager --kubeconfig=$HOME/.kube/config --namespace=default --webhook=off\n"
    "    manager compile -f sharding.yaml\n";

static const char *const native_choices[] = {"auto", "on", "off", NULL};

static void misuse(const char *msg, const char *detail)
{
    fprintf(stderr, "manager: %s%s\nRun \"manager --help\" for the flags.\n", msg, detail);
    exit(EXIT_USAGE);
}

/* What cannot be told flag by flag; NULL: all is well. */
static const char *check(const struct manager_flags *s)
{
    if (s->in_cluster && (s->kubeconfig != NULL || s->context != NULL)) {
        return "--in-cluster cannot stand beside --kubeconfig or --context";
    }
    if (s->namespace != NULL && name_check_label(slice_str(s->namespace)) != NULL) {
        return "--namespace must be the name of a namespace";
    }
    if (s->watch_namespace != NULL && name_check_label(slice_str(s->watch_namespace)) != NULL) {
        return "--watch-namespace must be the name of a namespace";
    }
    if (name_check_subdomain(slice_str(s->lease)) != NULL) {
        return "--lease must be the name of an object";
    }
    if (name_check_label(slice_str(s->webhook_service)) != NULL) {
        return "--webhook-service must be the name of a Service";
    }
    if (name_check_subdomain(slice_str(s->webhook_secret)) != NULL) {
        return "--webhook-secret must be the name of an object";
    }
    return NULL;
}

/* "off" and "" mean that there is none. */
static void switch_off(const char **address)
{
    if (strcmp(*address, "off") == 0) {
        *address = "";
    }
}

static void check_all(struct manager_flags *s)
{
    struct err e = ERR_INIT;
    struct labels_keys keys;
    const char *wrong = check(s);
    if (wrong != NULL) {
        misuse(wrong, "");
    }
    if (labels_keys_init(&keys, &s->labels, &e) != 0) {
        misuse(e.msg, "");
    }
    switch_off(&s->webhook);
    s->inject.prefix = s->labels.prefix;
}

static const struct manager_flags defaults = {
    .leader_elect = true,
    .lease = "cmesh-manager",
    .lease_duration_s = 15,
    .shutdown_grace_s = 20,
    .admin = "0.0.0.0:5444",
    .webhook = "0.0.0.0:9443",
    .webhook_service = "cmesh-webhook",
    .webhook_secret = "cmesh-webhook-cert",
    .certificate_days = 365,
    .label_qps = LABELLER_QPS,
    .labels = {.prefix = LABELS_PREFIX,
               .namespace = "namespace",
               .shard_hash = "sharding-hash",
               .control = "control"},
    .probe_interval_s = 15,
    .handover_wait_s = 10,
};

void manager_flags_parse(struct manager_flags *s, int argc, char **argv)
{
    struct flags_common common = {.log_format = LOG_TEXT, .log_level = LOG_INFO};
    *s = defaults;
    s->inject = inject_defaults;
    int native = NATIVE_SIDECARS_AUTO;
    const struct flag flags[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "Kubeconfig of the API server. Without it: $KUBECONFIG, ~/.kube/config, or the "
                 "pod's service account.",
         .type = FLAG_STRING,
         .target = &s->kubeconfig},
        {.name = "context",
         .value = "NAME",
         .help = "Its context; the current one otherwise.",
         .type = FLAG_STRING,
         .target = &s->context},
        {.name = "in-cluster",
         .help = "Use the pod's service account, whatever kubeconfig there is.",
         .type = FLAG_BOOL,
         .target = &s->in_cluster},
        {.name = "namespace",
         .letter = 'n',
         .value = "NS",
         .help = "The manager's own namespace: of its Lease, its Secret and its Service.",
         .type = FLAG_STRING,
         .target = &s->namespace,
         .default_text = "that of the service account or the context"},
        {.name = "watch-namespace",
         .value = "NS",
         .help = "Take ShardingConfigs from this namespace alone.",
         .type = FLAG_STRING,
         .target = &s->watch_namespace,
         .default_text = "all namespaces"},
        {.name = "leader-elect",
         .help = "Elect one of several managers by a Lease; only it writes. With "
                 "--leader-elect=false this one writes, whatever others do.",
         .type = FLAG_BOOL,
         .target = &s->leader_elect,
         .default_text = "true"},
        {.name = "lease",
         .value = "NAME",
         .help = "Name of the Lease.",
         .type = FLAG_STRING,
         .target = &s->lease},
        {.name = "identity",
         .value = "TEXT",
         .help = "Who this manager is in the Lease; no two may be the same.",
         .type = FLAG_STRING,
         .target = &s->identity,
         .default_text = "the host's name and a random part"},
        {.name = "lease-duration",
         .value = "SECONDS",
         .help = "After so long without a renewal another one takes over. A leader that cannot "
                 "renew stops writing after two thirds of it.",
         .type = FLAG_UINT,
         .target = &s->lease_duration_s,
         .min = 3,
         .max = 3600},
        {.name = "shutdown-delay",
         .value = "SECONDS",
         .help = "How long after SIGTERM webhooks are served as before: until the API server has "
                 "learnt that this manager is going. The Lease is given back at once.",
         .type = FLAG_UINT,
         .target = &s->shutdown_delay_s,
         .max = 3600},
        {.name = "shutdown-grace",
         .value = "SECONDS",
         .help = "How long after SIGTERM, and the delay, the end may take.",
         .type = FLAG_UINT,
         .target = &s->shutdown_grace_s,
         .max = 3600},
        {.name = "admin",
         .value = "ADDR:PORT",
         .help = "Where /healthz, /readyz, /metrics and /status are served; port 0 picks a free "
                 "one.",
         .type = FLAG_STRING,
         .target = &s->admin},
        {.name = "ready-file",
         .value = "PATH",
         .help = "Written when it runs: JSON that tells where it listens.",
         .type = FLAG_STRING,
         .target = &s->ready_file},
        {.name = "webhook",
         .value = "ADDR:PORT",
         .help = "Where the webhooks are served, by HTTPS; port 0 picks a free one; off: nowhere.",
         .type = FLAG_STRING,
         .target = &s->webhook},
        {.name = "webhook-service",
         .value = "NAME",
         .help = "The Service through which the API server reaches them: the certificate bears its "
                 "names.",
         .type = FLAG_STRING,
         .target = &s->webhook_service},
        {.name = "webhook-host",
         .value = "NAME",
         .help = "A further name or IP address for the certificate; may be repeated.",
         .type = FLAG_LIST,
         .target = &s->webhook_hosts},
        {.name = "webhook-secret",
         .value = "NAME",
         .help = "The Secret where all managers keep the certificates, which they make themselves.",
         .type = FLAG_STRING,
         .target = &s->webhook_secret},
        {.name = "certificate-days",
         .value = "DAYS",
         .help = "How long a serving certificate is valid. It is renewed after two thirds of that.",
         .type = FLAG_UINT,
         .target = &s->certificate_days,
         .min = 1,
         .max = 3650},
        {.name = "sharding-resources",
         .value = "PATH",
         .help = "Which resources are labelled, as YAML: under groupVersionKinds, for each group "
                 "version (v1, apps/v1) its kinds, or \"*\". Also as a ConfigMap with that text.",
         .type = FLAG_STRING,
         .target = &s->sharding_resources,
         .default_text = "the usual namespaced kinds of v1, apps/v1 and batch/v1"},
        {.name = "label-qps",
         .value = "RATE",
         .help = "How many objects are labelled in a second; 0: none, only the webhook labels.",
         .type = FLAG_UINT,
         .target = &s->label_qps,
         .max = 100000},
        {.name = "label-system-namespaces",
         .help = "Label kube-system, kube-public, kube-node-lease and the manager's own namespace "
                 "too.",
         .type = FLAG_BOOL,
         .target = &s->label_system_namespaces},
        {.name = "label-prefix",
         .value = "PREFIX",
         .help = "Prefix of the control labels, and of the labels and annotations of pods.",
         .type = FLAG_STRING,
         .target = &s->labels.prefix},
        {.name = "label-namespace",
         .value = "NAME",
         .help = "Control label with an object's namespace: a name below the prefix, or a whole "
                 "key with a slash.",
         .type = FLAG_STRING,
         .target = &s->labels.namespace},
        {.name = "label-shard-hash",
         .value = "NAME",
         .help = "Control label with the hash of an object's namespace.",
         .type = FLAG_STRING,
         .target = &s->labels.shard_hash},
        {.name = "label-control",
         .value = "NAME",
         .help = "Control label that says that an object is labelled.",
         .type = FLAG_STRING,
         .target = &s->labels.control},
        {.name = "probe-interval",
         .value = "SECONDS",
         .help = "How often each proxy is asked what it enforces; more often while something "
                 "changes.",
         .type = FLAG_UINT,
         .target = &s->probe_interval_s,
         .min = 1,
         .max = 3600},
        {.name = "handover-wait",
         .value = "SECONDS",
         .help = "How long what a shard gains waits at most until the pods of another shard of the "
                 "same operator, which show it, have confirmed that they do not any more; 0: it "
                 "does not wait.",
         .type = FLAG_UINT,
         .target = &s->handover_wait_s,
         .max = 3600},
        {.name = "sidecar-image",
         .value = "IMAGE",
         .help = "Image of the sidecars: localproxy, rulesync and kubeconfig-gen in its PATH. "
                 "Without it no pod is injected: one that asks for it is refused.",
         .type = FLAG_STRING,
         .target = &s->inject.image},
        {.name = "sidecar-pull-policy",
         .value = "POLICY",
         .help = "Always, IfNotPresent or Never.",
         .type = FLAG_STRING,
         .target = &s->inject.pull_policy,
         .default_text = "as Kubernetes decides"},
        {.name = "native-sidecars",
         .value = "WHEN",
         .help = "Whether sidecars are init containers that go on (Kubernetes 1.29 and later); "
                 "auto: by the API server's version.",
         .type = FLAG_CHOICE,
         .target = &native,
         .choices = native_choices},
        {.name = "proxy-cpu",
         .value = "QUANTITY",
         .help = "CPU that localproxy requests.",
         .type = FLAG_STRING,
         .target = &s->inject.proxy.cpu_request},
        {.name = "proxy-memory",
         .value = "QUANTITY",
         .help = "Memory that localproxy requests.",
         .type = FLAG_STRING,
         .target = &s->inject.proxy.memory_request},
        {.name = "proxy-memory-limit",
         .value = "QUANTITY",
         .help = "Memory that localproxy is limited to.",
         .type = FLAG_STRING,
         .target = &s->inject.proxy.memory_limit},
        {.name = "proxy-arg",
         .value = "FLAG",
         .help = "A further flag for localproxy, as --proxy-arg=--write-fence=audit; may be "
                 "repeated.",
         .type = FLAG_LIST,
         .target = &s->proxy_args},
        FLAGS_COMMON(&common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "manager",
        .summary = "the control plane of the mesh",
        .usage = "[FLAGS]\n"
                 "compile -f FILE... [FLAGS]\n"
                 "unlabel [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    int rest = flags_parse_or_exit(&program, &common, argc, argv);
    if (rest < argc) {
        misuse("unexpected argument ", argv[rest]);
    }
    s->native = (enum native_sidecars)native;
    check_all(s);
    memcpy(s->proxy_arg_items, s->proxy_args.items, s->proxy_args.count * sizeof(char *));
    s->inject.proxy_args = s->proxy_arg_items;
}
