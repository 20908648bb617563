/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/log.h"
#include "kube/access/access.h"
#include "kube/name.h"
#include "net/address.h"
#include "net/own_address.h"
#include "program/local_tls.h"
#include "program/local_token.h"

#define PLAIN_PROXY "http://127.0.0.1:5443"
#define TLS_PROXY "https://127.0.0.1:5443"

static const char description[] =
    "Reads the kubeconfig that an operator or kubectl would use, and writes one whose clusters all "
    "point at localproxy. Names of contexts, clusters and users, default namespaces and the "
    "current context stay, so that \"kubectl --context NAME\" keeps working. No credential is "
    "ever copied: no token, password, certificate, key, plugin, impersonation or extension; "
    "localproxy has the real ones.\n"
    "One localproxy talks to one cluster: that of the current context, or of --context. Contexts "
    "of "
    "others are left out.\n"
    "Programs that look for no kubeconfig but for the service account of a pod find localproxy by "
    "the folder that --service-account makes, and two variables.\n"
    "Files are written whole or not at all, readable by their owner only unless --shared is given.";

static const char examples[] =
    "    kubeconfig-gen --output=fake.yaml\n"
    "    KUBECONFIG=fake.yaml kubectl get pods\n"
    "    kubeconfig-gen --in-cluster --token-file=/run/cmesh/token -o /run/cmesh/kubeconfig\n"
    "    sudo install -d -o \"$USER\" " KUBE_SERVICE_ACCOUNT_DIR "\n"
    "    kubeconfig-gen --service-account=" KUBE_SERVICE_ACCOUNT_DIR " \\\n"
    "        >operator.env\n"
    "    kubeconfig-gen --token-file=off --configmap=my-operator/cmesh-kubeconfig | \\\n"
    "        kubectl apply -f -\n";

static const struct kubeconfig_gen_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
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
     .default_text = "all of the current one's cluster",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, kube.context),
     .help = "Write only this context, with its cluster and user, and make it the current "
             "one."},
    {.name = "all-contexts",
     FLAG_BOOL_AT(struct kubeconfig_gen_flags, all_contexts),
     .excludes = "context",
     .help = "Write the contexts of other clusters as well. All of them reach the cluster that "
             "localproxy talks to, whatever they are called."},
    {.name = "proxy",
     .value = "URL",
     .default_text = TLS_PROXY "; without TLS " PLAIN_PROXY,
     FLAG_STRING_AT(struct kubeconfig_gen_flags, proxy),
     .help =
         "Where localproxy listens: http or https, host and port. With http the token is in the "
         "server's URL, too: some clients send it only so, and others refuse such URLs."},
    {.name = "proxy-ca",
     .value = "PATH",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, proxy_ca),
     .help = "Certificates (PEM) that a localproxy with --listen-tls-cert is verified by. They "
             "are written into the kubeconfig."},
    {.name = "local-tls",
     .value = "auto|PATH|off",
     .default_text = LOCAL_TLS_DEFAULT,
     FLAG_STRING_AT(struct kubeconfig_gen_flags, local_tls),
     .excludes = "proxy-ca",
     .help =
         "localproxy, started with the same flag or none, is verified by the authority of this "
         "folder (auto: the user's own), which is made when it is missing, and written into the "
         "kubeconfig. off, and with a --proxy of another machine: by the authorities that "
         "clients trust."},
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
     .default_text = "-; with --service-account none",
     .help = "Write there, mode 0600, in place of what is there; - is standard output."},
    {.name = "service-account",
     .value = "DIR",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, service_account),
     .help = "Write ca.crt, token and namespace into this folder, as a pod has them of its service "
             "account, but for a localproxy with --listen-tls; the folder, not those above it, is "
             "made when it is "
             "missing. Not without TLS, nor a token. Without --output no kubeconfig is "
             "written: standard output gets the variables KUBERNETES_SERVICE_HOST and "
             "KUBERNETES_SERVICE_PORT that the operator needs besides, one on a line."},
    {.name = "namespace",
     .value = "NAMESPACE",
     .default_text = "that of the context, or the pod's",
     FLAG_STRING_AT(struct kubeconfig_gen_flags, namespace),
     .help = "What --service-account writes as namespace."},
    {.name = "shared",
     FLAG_BOOL_AT(struct kubeconfig_gen_flags, shared),
     .help = "Write with mode 0644: for a volume of a pod whose containers run as several "
             "users. The file of --token-file keeps its mode."},
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

/* Whether the URL leads to this machine: no other authority signs for that, but for one's own. */
static bool is_here(const struct url *u)
{
    struct sockaddr_storage address;
    if (net_address_literal(u->host, u->port, &address) == 0) {
        return net_address_is_loopback(&address);
    }
    return strcasecmp(u->host, "localhost") == 0;
}

/* Whether clients verify localproxy by the authority of the token's folder, which nobody asked for.
 * `proxy` is not NULL where it was given. */
static bool wants_local_tls(const struct kubeconfig_gen_flags *c)
{
    if (c->local_tls != NULL || c->proxy_ca != NULL || local_token_is_off(c->token_file)) {
        return false;
    }
    return c->proxy == NULL || c->service_account != NULL ||
           (c->proxy_url.https && is_here(&c->proxy_url));
}

/* With a folder for the service account the kubeconfig may lead to the plain address beside. */
static void check_authority(const struct kubeconfig_gen_flags *c, bool local)
{
    if (c->service_account != NULL && !local && c->proxy_ca == NULL) {
        flags_misuse(&command, "--service-account needs to know by what localproxy is verified: "
                               "--local-tls, or --proxy-ca");
    }
    if (c->service_account == NULL && c->proxy_ca != NULL && !c->proxy_url.https) {
        flags_misuse(&command, "--proxy-ca is for a --proxy that begins with https://");
    }
    if (c->service_account == NULL && local && !c->proxy_url.https) {
        flags_misuse(&command, "--local-tls is for a --proxy that begins with https://");
    }
    if (c->output == NULL && !c->proxy_url.https) {
        flags_misuse(&command, "--service-account: who reads it speaks TLS: --proxy must begin "
                               "with https://");
    }
}

static void parse_proxy(struct kubeconfig_gen_flags *c)
{
    struct err e = ERR_INIT;
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
}

static void check_proxy(struct kubeconfig_gen_flags *c)
{
    bool given = c->proxy != NULL;
    if (given) {
        parse_proxy(c);
    }
    bool own = wants_local_tls(c);
    bool local = own || local_tls_is_asked(c->local_tls);
    c->may_lack_tls = own && !given && c->service_account == NULL;
    c->local_tls = local ? c->local_tls : "off";
    if (!given) {
        c->proxy = local || c->output == NULL ? TLS_PROXY : PLAIN_PROXY;
        parse_proxy(c);
    }
    check_authority(c, local);
}

void kubeconfig_gen_flags_go_plain(struct kubeconfig_gen_flags *c)
{
    c->proxy = PLAIN_PROXY;
    parse_proxy(c);
}

/* Other values of these flags are words. */
static bool is_path(const char *value)
{
    static const char *const words[] = {"", "-", "auto", "off"};
    for (size_t i = 0; value != NULL && i < ARRAY_LEN(words); i++) {
        if (strcmp(value, words[i]) == 0) {
            return false;
        }
    }
    return value != NULL;
}

/* Whether the file is in that folder, or is the folder itself; neither need be there. */
static bool is_in(const char *path, const char *folder)
{
    char *real = realpath(path, NULL);
    char *copy = strdup(path);
    char *parent = copy == NULL ? NULL : realpath(dirname(copy), NULL);
    char *place = realpath(folder, NULL);
    bool in = place != NULL && ((real != NULL && strcmp(real, place) == 0) ||
                                (parent != NULL && strcmp(parent, place) == 0));
    free(real);
    free(copy);
    free(parent);
    free(place);
    return in;
}

/* Its three files are for the operator: no other has their names, and no key comes beside them. */
static void check_apart(const struct kubeconfig_gen_flags *c)
{
    const struct {
        const char *flag;
        const char *path;
    } others[] = {
        {"--output", c->output}, {"--token-file", c->token_file}, {"--local-tls", c->local_tls}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (is_path(others[i].path) && is_in(others[i].path, c->service_account)) {
            flags_misuse(&command, "%s: must not be in the folder of --service-account",
                         others[i].flag);
        }
    }
}

static void check_service_account(const struct kubeconfig_gen_flags *c)
{
    if (c->service_account == NULL) {
        return;
    }
    check_apart(c);
    if (local_token_is_off(c->token_file)) {
        flags_misuse(&command, "--service-account: clients do not start without a token: "
                               "--token-file=off cannot be combined with it");
    }
    if (c->configmap != NULL) {
        flags_misuse(&command, "--service-account and --configmap cannot be combined");
    }
    if (c->namespace != NULL && name_check_label(slice_str(c->namespace)) != NULL) {
        flags_misuse(&command, "--namespace must be the name of a namespace");
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
    if (c->output == NULL && c->service_account == NULL) {
        c->output = "-";
    }
    check_proxy(c);
    check_service_account(c);
    check_configmap(c);
}
