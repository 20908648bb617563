/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <string.h>

#include "base/log.h"
#include "kube/name.h"
#include "program/local_token.h"

static const char description[] =
    "Reads the kubeconfig that an operator or kubectl would use, and writes one whose clusters all "
    "point at localproxy. Names of contexts, clusters and users, default namespaces and the "
    "current context stay, so that \"kubectl --context NAME\" keeps working. No credential is "
    "ever copied: no token, password, certificate, key, plugin, impersonation or extension; "
    "localproxy has the real ones.\n"
    "One localproxy talks to one cluster. If the kubeconfig has contexts of several, all are "
    "written and all reach that one; a warning says so. Choose the right one with --context.\n"
    "Files are written whole or not at all, readable by their owner only unless --shared is given.";

static const char examples[] =
    "    kubeconfig-gen --output=fake.yaml\n"
    "    KUBECONFIG=fake.yaml kubectl get pods\n"
    "    kubeconfig-gen --in-cluster --token-file=/run/cmesh/token -o /run/cmesh/kubeconfig\n"
    "    kubeconfig-gen --token-file=off --configmap=my-operator/cmesh-kubeconfig | \\\n"
    "        kubectl apply -f -\n";

static const struct kubeconfig_gen_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .output = "-",
};

static const struct flag table[] = {
    {.name = "kubeconfig",
     .value = "PATH",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, kube.kubeconfig),
     .help = "The real kubeconfig. Without it: the files of $KUBECONFIG, merged as kubectl "
             "merges them; else ~/.kube/config; else, in a pod, as with --in-cluster."},
    {.name = "in-cluster",
     FLAG_BOOL_AT(struct kubeconfig_gen_flags, kube.in_cluster),
     .help = "Write a kubeconfig for the pod's service account instead: one context, named "
             "in-cluster, whose default namespace is the pod's own."},
    {.name = "context",
     .value = "NAME",
     .default_text = "all contexts",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, kube.context),
     .help = "Write only this context, with its cluster and user, and make it the current "
             "one."},
    {.name = "proxy",
     .value = "URL",
     .default_text = "http://127.0.0.1:5443; with --local-tls https",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, proxy),
     .help = "Where localproxy listens: http or https, host and port."},
    {.name = "proxy-ca",
     .value = "PATH",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, proxy_ca),
     .help = "Certificates (PEM) that a localproxy with --listen-tls-cert is verified by. They "
             "are written into the kubeconfig."},
    {.name = "local-tls",
     .value = "auto|PATH",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, local_tls),
     .excludes = "proxy-ca",
     .help = "localproxy was or will be started with the same flag: it serves TLS, and is verified "
             "by the authority of that folder, which is made when it is missing, and written into "
             "the kubeconfig."},
    {.name = "token-file",
     .value = "PATH",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, token_file),
     .default_text = LOCAL_TOKEN_DEFAULT,
     .help = "Give every user the token of this file, for which localproxy, started by the same "
             "user or with the same --token-file, asks. It opens nothing but localproxy. If the "
             "file is missing, it is made, mode 0600, with a random token. off: write none, for a "
             "localproxy that asks for none."},
    {.name = "output",
     .letter = 'o',
     .value = "PATH",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, output),
     .help = "Write there, mode 0600, in place of what is there; - is standard output."},
    {.name = "shared",
     FLAG_BOOL_AT(struct kubeconfig_gen_flags, shared),
     .help = "Write it with mode 0644: for a volume of a pod whose containers run as several "
             "users. The token's file keeps its mode."},
    {.name = "configmap",
     .value = "NS/NAME",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, configmap),
     .help = "Write a manifest of this ConfigMap, with the kubeconfig under the key "
             "kubeconfig. Needs --token-file=off, here and of localproxy."},
    FLAGS_COMMON(struct kubeconfig_gen_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "kubeconfig-gen",
    .summary = "write a kubeconfig that leads to localproxy and holds no credential",
    .usage = "[--kubeconfig=PATH] [--context=NAME] [FLAGS]\n--in-cluster [FLAGS]",
    .description = description,
    .examples = examples,
    .see_also = "kubectl(1), localproxy(1)",
    .flags = table,
};

static bool is_local_tls(const struct kubeconfig_gen_flags *c)
{
    return c->local_tls != NULL && strcmp(c->local_tls, "off") != 0;
}

static void check_proxy(struct kubeconfig_gen_flags *c)
{
    struct err e = ERR_INIT;
    if (c->proxy == NULL) {
        c->proxy = is_local_tls(c) ? "https://127.0.0.1:5443" : "http://127.0.0.1:5443";
    }
    if (url_parse(c->proxy, &c->proxy_url, &e) != 0) {
        err_prefix(&e, "--proxy");
        flags_misuse(&command, "%s", e.msg);
    }
    if (strchr(c->proxy_url.host, '%') != NULL) {
        flags_misuse(&command,
                     "--proxy: an IPv6 address with a zone cannot be written into a kubeconfig");
    }
    if (c->proxy_url.path[0] != '\0') {
        flags_misuse(&command,
                     "--proxy: the URL has a path; localproxy serves the API at its root");
    }
    if (c->proxy_ca != NULL && !c->proxy_url.https) {
        flags_misuse(&command, "--proxy-ca is for a --proxy that begins with https://");
    }
    if (is_local_tls(c) && (!c->proxy_url.https || c->proxy_ca != NULL)) {
        flags_misuse(&command, "--local-tls is for a --proxy that begins with https://, and cannot "
                               "be combined with --proxy-ca");
    }
}

static void check_configmap(const struct kubeconfig_gen_flags *c)
{
    const char *slash = c->configmap == NULL ? NULL : strchr(c->configmap, '/');
    if (c->configmap == NULL) {
        return;
    }
    if (slash == NULL ||
        name_check_label(slice_of(c->configmap, (size_t)(slash - c->configmap))) != NULL ||
        name_check_subdomain(slice_str(slash + 1)) != NULL) {
        flags_misuse(&command, "--configmap: write NAMESPACE/NAME, both as Kubernetes allows them");
    }
    if (!local_token_is_off(c->token_file)) {
        flags_misuse(&command,
                     "--configmap cannot be combined with a token, which whoever may read "
                     "ConfigMaps would know: let an init container write the file with --output, "
                     "or say --token-file=off here and to localproxy");
    }
}

void kubeconfig_gen_flags_parse(struct kubeconfig_gen_flags *c, int argc, char **argv)
{
    *c = defaults;
    (void)flags_parse_or_exit(&command, c, &c->common, argc, argv);
    struct err e = ERR_INIT;
    if (kube_flags_check(&c->kube, &e) != 0) {
        flags_misuse(&command, "%s", e.msg);
    }
    check_proxy(c);
    check_configmap(c);
}
