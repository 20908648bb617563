/* SPDX-License-Identifier: Apache-2.0 */
#include "run/flags.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "compile/label_flags.h"
#include "compile/sharing.h"
#include "control/status.h"
#include "enforcement/takeover.h"
#include "inject/inject_settings.h"
#include "kube/name.h"
#include "label/labeller.h"
#include "net/address.h"
#include "object/names.h"
#include "ownership/handover.h"
#include "program/program.h"
#include "program/tls_flags.h"
#include "root/targets.h"

#define ADMIN_PORT "5444"

static const char description[] =
    "The manager makes operators run as shards. Without a command it runs: it compiles each "
    "ShardingConfig into the rules of its shard, publishes them as the ConfigMap " RULES_MAP_PREFIX
    "NAME beside it, tells the shard's pods, reads back from their proxies what they enforce, and "
    "writes it into the status. It labels namespaces and the objects in them with what selectors "
    "of limits may ask for, and serves the webhooks: labels, injection of the sidecars, validation "
    "of ShardingConfigs.\n"
    "Several may run: all serve webhooks, and one, elected by a Lease, writes.\n"
    "Commands, each with a --help of its own: `manager check-operator` says what would break when "
    "an operator works in shards; `manager compile` does the compiling without a cluster; `manager "
    "coverage` says which namespaces are in no shard or in several; `manager "
    "unlabel` takes the labels away again.\n"
    "SIGTERM, SIGINT: give the Lease back, finish what was asked, end; a second one: at once.";

static const char examples[] =
    "    manager --in-cluster --sidecar-image=registry.example.com/cmesh/localproxy:0.2.0-dev\n"
    "    manager --kubeconfig=$HOME/.kube/config --namespace=cmesh-system --webhook=off\n"
    "    manager compile -f sharding.yaml\n";

static const char *const handover_choices[] = {
    [HANDOVER_STRICT] = "strict", [HANDOVER_BOUNDED] = "bounded", [HANDOVER_OFF] = "off", NULL};
static const char *const foreign_choices[] = {
    [LABELS_TAKE] = "take", [LABELS_REFUSE] = "refuse", [LABELS_LEAVE] = "leave", NULL};
static const char *const native_choices[] = {"auto", "on", "off", NULL};

static const struct manager_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .kube = KUBE_FLAGS_DEFAULTS,
    .leader_elect = true,
    .lease = "cmesh-manager",
    .lease_duration_s = 15,
    .shutdown_grace_s = 20,
    .webhook = "[::]:9443",
    .webhook_service = "cmesh-webhook",
    .webhook_secret = "cmesh-webhook-cert",
    .certificate_days = 365,
    .label_qps = LABELLER_QPS,
    .wait_for_labels = true,
    .labels = LABEL_FLAGS_DEFAULTS(LABELS_PREFIX),
    .label_foreign = LABELS_REFUSE,
    .shards_memory_mib = 96,
    .root_statefulsets = TARGETS_MAX,
    .probe_interval_s = 15,
    .bypass_wait_s = 120,
    .handover = HANDOVER_STRICT,
    .handover_wait_s = 120,
    .takeover_margin_s = TAKEOVER_MARGIN_MS / 1000,
};

static const struct flag table[] = {
    FLAGS_KUBE(struct manager_flags, kube, NULL),
    {.name = "namespace",
     .letter = 'n',
     .value = "NS",
     .default_text = "that of the service account or the context",
     FLAG_STRING_AT(struct manager_flags, namespace),
     .help = "The manager's own namespace: of its Lease, its Secret and its Service."},
    {.name = "watch-namespace",
     .value = "NS",
     .default_text = "all namespaces",
     FLAG_STRING_AT(struct manager_flags, watch_namespace),
     .help = "Take ShardingConfigs from this namespace alone."},
    {.name = "leader-elect",
     .default_text = "true",
     FLAG_BOOL_AT(struct manager_flags, leader_elect),
     .help = "Elect one of several managers by a Lease; only it writes. With "
             "--leader-elect=false this one writes, whatever others do."},
    {.name = "lease",
     .value = "NAME",
     FLAG_STRING_AT(struct manager_flags, lease),
     .help = "Name of the Lease."},
    {.name = "identity",
     .value = "TEXT",
     .default_text = "the host's name and a random part",
     FLAG_STRING_AT(struct manager_flags, identity),
     .help = "Who this manager is in the Lease; no two may be the same."},
    {.name = "lease-duration",
     .value = "SECONDS",
     .min = 3,
     .max = 3600,
     FLAG_UINT_AT(struct manager_flags, lease_duration_s),
     .help = "After so long without a renewal another one takes over. A leader that cannot "
             "renew stops writing after two thirds of it."},
    {.name = "shutdown-delay",
     .value = "SECONDS",
     .max = 3600,
     FLAG_UINT_AT(struct manager_flags, shutdown_delay_s),
     .help = "How long after SIGTERM webhooks are served as before: until the API server has "
             "learnt that this manager is going. The Lease is given back at once."},
    {.name = "shutdown-grace",
     .value = "SECONDS",
     .max = 3600,
     FLAG_UINT_AT(struct manager_flags, shutdown_grace_s),
     .help = "How long after SIGTERM, and the delay, the end may take."},
    {.name = "admin",
     .value = "ADDR:PORT",
     .default_text = PROGRAM_ADMIN_TEXT(ADMIN_PORT),
     FLAG_STRING_AT(struct manager_flags, admin),
     .help = "Where /healthz, /readyz, /metrics and /status are served; port 0 picks a free "
             "one."},
    {.name = "ready-file",
     .value = "PATH",
     FLAG_STRING_AT(struct manager_flags, ready_file),
     .help = "Written when it runs: JSON that tells where it listens."},
    {.name = "webhook",
     .value = "ADDR:PORT",
     FLAG_STRING_AT(struct manager_flags, webhook),
     .help = "Where the webhooks are served, by HTTPS; port 0 picks a free one; off: nowhere."},
    {.name = "webhook-service",
     .value = "NAME",
     FLAG_STRING_AT(struct manager_flags, webhook_service),
     .help = "The Service through which the API server reaches them: the certificate bears its "
             "names."},
    {.name = "webhook-host",
     .value = "NAME",
     FLAG_LIST_AT(struct manager_flags, webhook_hosts),
     .help = "A further name or IP address for the certificate; may be repeated."},
    {.name = "webhook-secret",
     .value = "NAME",
     FLAG_STRING_AT(struct manager_flags, webhook_secret),
     .help = "The Secret where all managers keep the certificates, which they make themselves."},
    {.name = "webhook-client-ca",
     .value = "FILE",
     .default_text = "no certificate is asked for",
     FLAG_STRING_AT(struct manager_flags, webhook_client_ca),
     .help = "Answer only clients of the webhooks with a certificate of an authority in this file "
             "(PEM), which is read again when it changes. The API server shows one when its "
             "AdmissionConfiguration says so."},
    {.name = "webhook-client-name",
     .value = "NAME",
     .default_text = "any",
     FLAG_STRING_AT(struct manager_flags, webhook_client_name),
     .needs = "webhook-client-ca",
     .help = "The common name that this certificate must bear."},
    {.name = "certificate-days",
     .value = "DAYS",
     .min = 1,
     .max = 3650,
     FLAG_UINT_AT(struct manager_flags, certificate_days),
     .help = "How long a serving certificate is valid. It is renewed after two thirds of that."},
    {.name = "sharding-resources",
     .value = "PATH",
     .default_text = "the usual namespaced kinds of v1, apps/v1 and batch/v1",
     FLAG_STRING_AT(struct manager_flags, sharding_resources),
     .help = "Which resources are labelled, as YAML: under groupVersionKinds, for each group "
             "version (v1, apps/v1) its kinds, or \"*\". Also as a ConfigMap with that text."},
    {.name = "label-qps",
     .value = "RATE",
     .max = 100000,
     FLAG_UINT_AT(struct manager_flags, label_qps),
     .help = "How many objects are labelled in a second; 0: none, only the webhook labels."},
    {.name = "label-system-namespaces",
     FLAG_BOOL_AT(struct manager_flags, label_system_namespaces),
     .help = "Label kube-system, kube-public, kube-node-lease and the manager's own namespace "
             "too."},
    {.name = "label-foreign",
     .value = "POLICY",
     FLAG_CHOICE_AT(struct manager_flags, label_foreign),
     .choices = foreign_choices,
     .help = "What becomes of control labels with other values than the manager's, which hide an "
             "object from its shard. refuse: the webhook refuses to set them. take: they are "
             "corrected. leave: they are accepted."},
    {.name = "wait-for-labels",
     .default_text = "true",
     FLAG_BOOL_AT(struct manager_flags, wait_for_labels),
     .help = "Publish the first rules of a shard only when the objects that they select by control "
             "labels have them. Not with --label-qps=0, where nobody knows."},
    FLAGS_SHAREABLE(struct manager_flags, shareable),
    FLAGS_LABELS(struct manager_flags, labels, ", and of the labels and annotations of pods", NULL),
    {.name = "shards-memory",
     .value = "MIB",
     .min = 1,
     .max = 1024 * 1024,
     FLAG_UINT_AT(struct manager_flags, shards_memory_mib),
     .help =
         "Memory for the limits and rules of all shards. Above it the namespace that takes most "
         "gives up its largest shard: its spec is refused, and its rules stay as they are. The "
         "container's memory limit needs some 100 MiB more, and what pods take."},
    {.name = "root-statefulsets",
     .value = "COUNT",
     .min = TARGETS_PART,
     .max = 10000,
     FLAG_UINT_AT(struct manager_flags, root_statefulsets),
     .help =
         "StatefulSets and Deployments of roots with shardingSize auto that are followed, each by "
         "a watch; of one namespace a quarter of them. Roots of more keep the shards that they "
         "have."},
    {.name = "probe-interval",
     .value = "SECONDS",
     .min = 1,
     .max = 3600,
     FLAG_UINT_AT(struct manager_flags, probe_interval_s),
     .help = "How often each proxy is asked what it enforces; more often while something "
             "changes."},
    {.name = "probe-any-address",
     FLAG_BOOL_AT(struct manager_flags, probe_any_address),
     .help = "Ask pods also at loopback and link-local addresses, and at the ports that they name "
             "for it: to try the manager without a network of pods. Without it the ports are 5441 "
             "and 5442."},
    {.name = "handover",
     .value = "MODE",
     FLAG_CHOICE_AT(struct manager_flags, handover),
     .choices = handover_choices,
     .help = "Whether what a shard gains waits until the pods of the same operator that may show "
             "it have given it up. strict: until that is proven. bounded: for --handover-wait at "
             "most. off: no."},
    {.name = "handover-wait",
     .value = "SECONDS",
     .min = 1,
     .max = 3600,
     FLAG_UINT_AT(struct manager_flags, handover_wait_s),
     .help = "How long a handover may take. With --handover=bounded what is gained is published "
             "then all the same; with strict an Event tells who is waited for. 80 at least while "
             "pods say that writes to it may still be executed."},
    {.name = "takeover-margin",
     .value = "SECONDS",
     .min = 5,
     .max = 3600,
     FLAG_UINT_AT(struct manager_flags, takeover_margin_s),
     .help = "How long after the rules of a pod that nobody reaches have expired what its operator "
             "had sent may still be executed: the API server's --request-timeout (60 s, if it is "
             "not given there) and 5 s. What the pod had goes to others only after that."},
    {.name = "bypass-wait",
     .value = "SECONDS",
     .max = 86400,
     FLAG_UINT_AT(struct manager_flags, bypass_wait_s),
     .help = "A pod that has been ready for so long, and whose operator has not sent localproxy "
             "any request, counts as bypassing it. 0: it does not."},
    {.name = "rules-lease",
     .value = "SECONDS",
     .max = CONTROL_RULES_LEASE_MAX_S,
     FLAG_UINT_AT(struct manager_flags, inject.rules_lease_s),
     .help = "Give injected pods a lease on their rules (localproxy --rules-lease), unless their "
             "annotation rules-lease names another one: 10 to 3600, or 0 for none. A pod that "
             "nobody reaches then stops by itself, and what it had can go to others, if this "
             "manager may patch Leases (ClusterRole cmesh-manager-takeover)."},
    {.name = "sidecar-image",
     .value = "IMAGE",
     FLAG_STRING_AT(struct manager_flags, inject.image),
     .help = "Image of the sidecars: localproxy, rulesync and kubeconfig-gen in its PATH. "
             "Without it no pod is injected: one that asks for it is refused."},
    {.name = "nat-image",
     .value = "IMAGE",
     FLAG_STRING_AT(struct manager_flags, inject.nat_image),
     .help = "Image of the init container that redirects the connections of pods with the label "
             "enable-iptables: nat-init in its PATH. Without it they are refused."},
    {.name = "keep-service-account",
     FLAG_BOOL_AT(struct manager_flags, inject.keep_account),
     .help = "Leave injected pods the folder of their service account, unless their annotation "
             "keep-service-account says \"false\": for operators that are led by a kubeconfig, "
             "and while --sidecar-image is one of 0.1.0."},
    {.name = "cluster-domain",
     .value = "DOMAIN",
     FLAG_STRING_AT(struct manager_flags, inject.cluster_domain),
     .help = "Of the names of Services, for pods with the annotation lead-by-name."},
    {.name = "sidecar-pull-policy",
     .value = "POLICY",
     .default_text = "as Kubernetes decides",
     FLAG_STRING_AT(struct manager_flags, inject.pull_policy),
     .help = "Always, IfNotPresent or Never."},
    {.name = "sidecar-pull-secret",
     .value = "NAME",
     FLAG_LIST_AT(struct manager_flags, pull_secrets),
     .help = "A Secret for the registry of that image, which injected pods refer to, besides those "
             "that they have; it must be in their namespace. May be repeated."},
    {.name = "sidecar-user",
     .value = "UID",
     .max = 2147483647,
     FLAG_UINT_AT(struct manager_flags, inject.user),
     .help = "User and group that the sidecars run as; 0: as the pod, the cluster or the image has "
             "it, for clusters that give each namespace users of its own, as OpenShift."},
    {.name = "native-sidecars",
     .value = "WHEN",
     .choices = native_choices,
     FLAG_CHOICE_AT(struct manager_flags, native),
     .help = "Whether sidecars are init containers that go on (Kubernetes 1.29 and later); "
             "auto: by the API server's version."},
    {.name = "proxy-cpu",
     .value = "QUANTITY",
     FLAG_STRING_AT(struct manager_flags, inject.proxy.cpu_request),
     .help = "CPU that localproxy requests."},
    {.name = "proxy-memory",
     .value = "QUANTITY",
     FLAG_STRING_AT(struct manager_flags, inject.proxy.memory_request),
     .help = "Memory that localproxy requests."},
    {.name = "proxy-memory-limit",
     .value = "QUANTITY",
     FLAG_STRING_AT(struct manager_flags, inject.proxy.memory_limit),
     .help = "Memory that localproxy is limited to."},
    {.name = "proxy-cpu-limit",
     .value = "QUANTITY",
     .default_text = "none",
     FLAG_STRING_AT(struct manager_flags, inject.proxy.cpu_limit),
     .help = "CPU that localproxy is limited to."},
    {.name = "rulesync-cpu",
     .value = "QUANTITY",
     FLAG_STRING_AT(struct manager_flags, inject.others.cpu_request),
     .help = "CPU that rulesync and each of the init containers request."},
    {.name = "rulesync-memory",
     .value = "QUANTITY",
     FLAG_STRING_AT(struct manager_flags, inject.others.memory_request),
     .help = "Memory that rulesync and each of the init containers request."},
    {.name = "rulesync-cpu-limit",
     .value = "QUANTITY",
     .default_text = "none",
     FLAG_STRING_AT(struct manager_flags, inject.others.cpu_limit),
     .help = "CPU that rulesync and each of the init containers are limited to."},
    {.name = "rulesync-memory-limit",
     .value = "QUANTITY",
     FLAG_STRING_AT(struct manager_flags, inject.others.memory_limit),
     .help = "Memory that rulesync and each of the init containers are limited to."},
    {.name = "proxy-arg",
     .value = "FLAG",
     FLAG_LIST_AT(struct manager_flags, proxy_args),
     .help = "A further flag for localproxy, as --proxy-arg=--write-fence=audit; may be "
             "repeated. Not those that the injection gives itself, such as --listen."},
    {.name = "sidecar-env",
     .value = "NAME=VALUE",
     FLAG_LIST_AT(struct manager_flags, sidecar_env),
     .help =
         "A variable for the sidecars of all pods, as --sidecar-env=HTTPS_PROXY=http://proxy:80; "
         "may be repeated. CMESH_... are settings of localproxy, but not those that the "
         "injection gives itself. What a pod's annotation env-sync says goes before it."},
    FLAGS_TLS(struct manager_flags, tls_records),
    FLAGS_COMMON(struct manager_flags, common),
    {.name = NULL},
};

static const char *const command_names[] = {"check-operator", "compile", "coverage", "unlabel",
                                            NULL};

static const struct command command = {
    .program = "manager",
    .summary = "the control plane of the mesh",
    .usage = "[FLAGS]\n"
             "check-operator deployment/NAME [FLAGS]\n"
             "compile -f FILE... [FLAGS]\n"
             "coverage -f FILE... --namespaces FILE [FLAGS]\n"
             "unlabel [FLAGS]",
    .commands = command_names,
    .description = description,
    .examples = examples,
    .see_also = "manager-check-operator(1), manager-compile(1), manager-coverage(1), "
                "manager-unlabel(1), localproxy(1), rulesync(1)",
    .flags = table,
};

/* "off" and "" mean that there is none. */
static void switch_off(const char **address)
{
    if (strcmp(*address, "off") == 0) {
        *address = "";
    }
}

/* As name_check_subdomain, but as hosts are called too: with capitals, or "_" within. */
static bool host_name_ok(const char *name)
{
    char plain[256];
    size_t len = strlen(name);
    if (len >= sizeof plain) {
        return false;
    }
    for (size_t i = 0; i <= len; i++) {
        plain[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    }
    return name_check_subdomain(slice_of(plain, len)) == NULL;
}

/* What the webhooks' certificate can be for: an IP address, or a name, also with a wildcard. */
static bool host_ok(const char *host)
{
    struct sockaddr_storage address;
    return net_address_literal(host, 0, &address) == 0 ||
           host_name_ok(strncmp(host, "*.", 2) == 0 ? host + 2 : host);
}

static int check_webhook(const struct manager_flags *s, struct err *e)
{
    if (name_check_label(slice_str(s->webhook_service)) != NULL) {
        return err_set(e, -EINVAL, "--webhook-service must be the name of a Service");
    }
    if (name_check_subdomain(slice_str(s->webhook_secret)) != NULL) {
        return err_set(e, -EINVAL, "--webhook-secret must be the name of an object");
    }
    if (s->webhook_client_name != NULL && s->webhook_client_ca == NULL) {
        return err_set(e, -EINVAL, "--webhook-client-name needs --webhook-client-ca");
    }
    for (size_t i = 0; i < s->webhook_hosts.count; i++) {
        if (!host_ok(s->webhook_hosts.items[i])) {
            return err_set(e, -EINVAL,
                           "--webhook-host: \"%s\" is neither a host name nor an IP address",
                           s->webhook_hosts.items[i]);
        }
    }
    return s->webhook[0] == '\0' ? 0 : program_check_address("--webhook", s->webhook, e);
}

/* A flag that would do something if webhooks were served; NULL: there is none. */
static const char *idle_webhook_flag(const struct manager_flags *s)
{
    return s->webhook[0] != '\0'                                       ? NULL
           : s->webhook_client_ca != NULL                              ? "--webhook-client-ca"
           : s->webhook_hosts.count > 0                                ? "--webhook-host"
           : strcmp(s->webhook_service, defaults.webhook_service) != 0 ? "--webhook-service"
           : strcmp(s->webhook_secret, defaults.webhook_secret) != 0   ? "--webhook-secret"
           : s->certificate_days != defaults.certificate_days          ? "--certificate-days"
                                                                       : NULL;
}

/* What cannot be told flag by flag. */
static int check(const struct manager_flags *s, struct err *e)
{
    struct labels_keys keys;
    if (s->namespace != NULL && name_check_label(slice_str(s->namespace)) != NULL) {
        return err_set(e, -EINVAL, "--namespace must be the name of a namespace");
    }
    if (s->watch_namespace != NULL && name_check_label(slice_str(s->watch_namespace)) != NULL) {
        return err_set(e, -EINVAL, "--watch-namespace must be the name of a namespace");
    }
    if (name_check_subdomain(slice_str(s->lease)) != NULL) {
        return err_set(e, -EINVAL, "--lease must be the name of an object");
    }
    if (s->identity != NULL && s->identity[0] == '\0') {
        return err_set(e, -EINVAL, "--identity must not be empty");
    }
    if (inject_settings_check(&s->inject, e) != 0 || sharing_check_flag(&s->shareable, e) != 0) {
        return e->code;
    }
    if (program_check_address("--admin", s->admin, e) != 0 || check_webhook(s, e) != 0 ||
        labels_keys_init(&keys, &s->labels, e) != 0) {
        return e->code;
    }
    return kube_flags_check(&s->kube, e);
}

void manager_flags_parse(struct manager_flags *s, int argc, char **argv)
{
    struct err e = ERR_INIT;
    *s = defaults;
    s->inject = inject_defaults;
    (void)flags_parse_or_exit(&command, s, &s->common, argc, argv);
    s->admin = s->admin != NULL ? s->admin : PROGRAM_ADMIN(ADMIN_PORT);
    switch_off(&s->webhook);
    s->inject.prefix = s->labels.prefix;
    memcpy(s->proxy_arg_items, s->proxy_args.items, s->proxy_args.count * sizeof(char *));
    s->inject.proxy_args = s->proxy_arg_items;
    memcpy(s->pull_secret_items, s->pull_secrets.items, s->pull_secrets.count * sizeof(char *));
    s->inject.pull_secrets = s->pull_secret_items;
    memcpy(s->sidecar_env_items, s->sidecar_env.items, s->sidecar_env.count * sizeof(char *));
    s->inject.env = s->sidecar_env_items;
    if (check(s, &e) != 0) {
        flags_misuse(&command, "%s", e.msg);
    }
    const char *idle = idle_webhook_flag(s);
    if (idle != NULL) {
        log_warn("a flag has no effect with --webhook=off", log_str("flag", idle));
    }
}
