/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/log.h"
#include "kube/name.h"

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
    "    kubeconfig-gen --context=prod --configmap=my-operator/cmesh-kubeconfig | kubectl apply -f "
    "-\n";

static void refuse(const struct program *p, const char *what)
{
    fprintf(stderr, "%s: %s\nRun \"%s --help\" for the flags.\n", p->name, what, p->name);
    exit(EXIT_USAGE);
}

static void check_proxy(struct kubeconfig_gen_flags *c, const struct program *p)
{
    struct err e = ERR_INIT;
    if (url_parse(c->proxy, &c->proxy_url, &e) != 0) {
        err_prefix(&e, "--proxy");
        refuse(p, e.msg);
    }
    if (strchr(c->proxy_url.host, '%') != NULL) {
        refuse(p, "--proxy: an IPv6 address with a zone cannot be written into a kubeconfig");
    }
    if (c->proxy_url.path[0] != '\0') {
        refuse(p, "--proxy: the URL has a path; localproxy serves the API at its root");
    }
    if (c->proxy_ca != NULL && !c->proxy_url.https) {
        refuse(p, "--proxy-ca is for a --proxy that begins with https://");
    }
}

static void check_configmap(const struct kubeconfig_gen_flags *c, const struct program *p)
{
    const char *slash = c->configmap == NULL ? NULL : strchr(c->configmap, '/');
    if (c->configmap == NULL) {
        return;
    }
    if (slash == NULL ||
        name_check_label(slice_of(c->configmap, (size_t)(slash - c->configmap))) != NULL ||
        name_check_subdomain(slice_str(slash + 1)) != NULL) {
        refuse(p, "--configmap: write NAMESPACE/NAME, both as Kubernetes allows them");
    }
    if (c->token_file != NULL) {
        refuse(p, "--configmap cannot stand beside --token-file: whoever may read ConfigMaps would "
                  "know the token; let an init container write the file with --output");
    }
}

void kubeconfig_gen_flags_parse(struct kubeconfig_gen_flags *c, int argc, char **argv)
{
    struct flags_common common = {.log_format = LOG_TEXT, .log_level = LOG_INFO};
    *c = (struct kubeconfig_gen_flags){.proxy = "http://127.0.0.1:5443", .output = "-"};
    const struct flag flags[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "The real kubeconfig. Without it: the files of $KUBECONFIG, merged as kubectl "
                 "merges them; else ~/.kube/config; else, in a pod, as with --in-cluster.",
         .type = FLAG_STRING,
         .target = &c->kubeconfig},
        {.name = "in-cluster",
         .help = "Write a kubeconfig for the pod's service account instead: one context, named "
                 "in-cluster, whose default namespace is the pod's own.",
         .type = FLAG_BOOL,
         .target = &c->in_cluster},
        {.name = "context",
         .value = "NAME",
         .help = "Write only this context, with its cluster and user, and make it the current "
                 "one.",
         .type = FLAG_STRING,
         .target = &c->context,
         .default_text = "all contexts"},
        {.name = "proxy",
         .value = "URL",
         .help = "Where localproxy listens: http or https, host and port.",
         .type = FLAG_STRING,
         .target = &c->proxy},
        {.name = "proxy-ca",
         .value = "PATH",
         .help = "Certificates (PEM) that a localproxy with --listen-tls-cert is verified by. They "
                 "are written into the kubeconfig.",
         .type = FLAG_STRING,
         .target = &c->proxy_ca},
        {.name = "token-file",
         .value = "PATH",
         .help = "Give every user the token of this file, which localproxy, started with the same "
                 "--token-file, demands. It opens nothing but localproxy. If the file is missing, "
                 "it is made, mode 0600, with a random token.",
         .type = FLAG_STRING,
         .target = &c->token_file},
        {.name = "output",
         .letter = 'o',
         .value = "PATH",
         .help = "Write there, mode 0600, in place of what is there; - is standard output.",
         .type = FLAG_STRING,
         .target = &c->output},
        {.name = "shared",
         .help = "Write it with mode 0644: for a volume of a pod whose containers run as several "
                 "users. The token's file keeps its mode.",
         .type = FLAG_BOOL,
         .target = &c->shared},
        {.name = "configmap",
         .value = "NS/NAME",
         .help = "Write a manifest of this ConfigMap, with the kubeconfig under the key "
                 "kubeconfig.",
         .type = FLAG_STRING,
         .target = &c->configmap},
        FLAGS_COMMON(&common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "kubeconfig-gen",
        .summary = "write a kubeconfig that leads to localproxy and holds no credential",
        .usage = "[--kubeconfig=PATH] [--context=NAME] [FLAGS]\n--in-cluster [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    int rest = flags_parse_or_exit(&program, &common, argc, argv);
    if (rest < argc) {
        refuse(&program, "there are no arguments beside the flags");
    }
    if (c->in_cluster && (c->kubeconfig != NULL || c->context != NULL)) {
        refuse(&program, "--in-cluster cannot stand beside --kubeconfig or --context");
    }
    check_proxy(c, &program);
    check_configmap(c, &program);
}
