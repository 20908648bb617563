/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/flags.h"
#include "base/log.h"

static const char *const no_rules_choices[] = {"block", "passthrough", NULL};

static const char description[] =
    "localproxy stands between an operator and the Kubernetes API server and narrows every list, "
    "watch and deletecollection to the shard's share, by adding the shard's label selector to the "
    "request. The operator needs no change: kubeconfig-gen writes the kubeconfig that points it "
    "here.\n"
    "Credentials of the operator's requests are replaced by localproxy's own. Without valid rules "
    "nothing is shown: resource requests are answered with 503 until there are some.";

static const char examples[] =
    "    localproxy --rules=/etc/cmesh/rules.json\n"
    "    localproxy --kubeconfig=$HOME/.kube/config --context=kind-dev --rules=rules.json \\\n"
    "        --listen=127.0.0.1:0 --ready-file=/tmp/ready.json\n"
    "    kubectl --server=http://127.0.0.1:5443 get pods -A\n";

/* What cannot be told flag by flag. */
static void check(const struct config *c, const struct program *p)
{
    const char *wrong = NULL;
    if (c->in_cluster && (c->kubeconfig != NULL || c->context != NULL)) {
        wrong = "--in-cluster cannot stand beside --kubeconfig or --context";
    } else if ((c->listen_tls_cert == NULL) != (c->listen_tls_key == NULL)) {
        wrong = "--listen-tls-cert and --listen-tls-key go together";
    } else if (c->rules == NULL && c->no_rules == NO_RULES_BLOCK) {
        wrong = "--rules is missing; without rules nothing would ever be shown "
                "(--no-rules=passthrough shows everything, for development)";
    }
    if (wrong != NULL) {
        fprintf(stderr, "%s: %s\nRun \"%s --help\" for the flags.\n", p->name, wrong, p->name);
        exit(EXIT_USAGE);
    }
}

void config_parse(struct config *c, int argc, char **argv)
{
    struct flags_common common = {.log_format = LOG_TEXT, .log_level = LOG_INFO};
    *c = (struct config){
        .listen = "127.0.0.1:5443",
        .admin = "0.0.0.0:5441",
        .no_rules = NO_RULES_BLOCK,
        .shutdown_grace_s = 30,
        .max_connections = 10000,
    };
    const struct flag flags[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "Kubeconfig of the real API server. Without it: $KUBECONFIG, ~/.kube/config, or "
                 "the pod's service account.",
         .type = FLAG_STRING,
         .target = &c->kubeconfig},
        {.name = "context",
         .value = "NAME",
         .help = "Context of the kubeconfig to use instead of its current one.",
         .type = FLAG_STRING,
         .target = &c->context},
        {.name = "in-cluster",
         .help = "Use the pod's service account. Its token is read again when the file changes.",
         .type = FLAG_BOOL,
         .target = &c->in_cluster},
        {.name = "rules",
         .value = "PATH",
         .help = "Rules document (JSON) of the shard. If it is missing or wrong, localproxy runs, "
                 "is not ready, and says why on /status, in the log, and in its answers.",
         .type = FLAG_STRING,
         .target = &c->rules},
        {.name = "no-rules",
         .value = "MODE",
         .help = "What happens to resource requests while there are no valid rules: block answers "
                 "503; passthrough lets everything through unfiltered, for development only.",
         .type = FLAG_CHOICE,
         .target = &c->no_rules,
         .choices = no_rules_choices},
        {.name = "listen",
         .value = "ADDR:PORT",
         .help = "Where the operator connects. Port 0 picks a free one.",
         .type = FLAG_STRING,
         .target = &c->listen},
        {.name = "listen-tls-cert",
         .value = "PATH",
         .help = "Certificate chain (PEM) to serve the operator over TLS.",
         .type = FLAG_STRING,
         .target = &c->listen_tls_cert},
        {.name = "listen-tls-key",
         .value = "PATH",
         .help = "Private key (PEM) of that certificate.",
         .type = FLAG_STRING,
         .target = &c->listen_tls_key},
        {.name = "token-file",
         .value = "PATH",
         .help = "Demand this token of every request, as bearer token or as the password of Basic "
                 "authentication, so that other processes on the host cannot borrow the "
                 "operator's identity. kubeconfig-gen --token-file writes the same one into the "
                 "kubeconfig.",
         .type = FLAG_STRING,
         .target = &c->token_file},
        {.name = "admin",
         .value = "ADDR:PORT",
         .help = "Where /healthz, /readyz, /metrics and /status are served. Port 0 picks a free "
                 "one.",
         .type = FLAG_STRING,
         .target = &c->admin},
        {.name = "ready-file",
         .value = "PATH",
         .help = "Once listening, write the bound addresses there as JSON.",
         .type = FLAG_STRING,
         .target = &c->ready_file},
        {.name = "shutdown-grace",
         .value = "SECONDS",
         .help = "After SIGTERM or SIGINT: how long requests in flight may take. Watches are ended "
                 "cleanly at once. A second signal ends at once.",
         .type = FLAG_UINT,
         .target = &c->shutdown_grace_s,
         .max = 3600},
        {.name = "max-connections",
         .value = "COUNT",
         .help = "Connections of the operator that are served at a time; more are closed.",
         .type = FLAG_UINT,
         .target = &c->max_connections,
         .min = 1,
         .max = 1000000},
        FLAGS_COMMON(&common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "localproxy",
        .summary = "show an operator its shard of a Kubernetes API server",
        .usage = "--rules=PATH [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    int rest = flags_parse_or_exit(&program, &common, argc, argv);
    if (rest < argc) {
        fprintf(stderr,
                "localproxy: unexpected argument \"%s\"\n"
                "Run \"localproxy --help\" for the flags.\n",
                argv[rest]);
        exit(EXIT_USAGE);
    }
    check(c, &program);
}
